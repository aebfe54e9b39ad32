"""Kernels of histograms and counts: chi-squared and (pyramid) intersection. Both refuse negative values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from daskkcl.errors import InvalidInputError
from daskkcl.kernels import widths
from daskkcl.kernels.base import GammaKernel, Kernel, KernelColumns
from daskkcl.kernels.checks import (
    MOST_COLUMNS,
    Array,
    check_positive,
    check_whole,
    dense_rows,
    refuse_negative,
    set_field,
    short,
)
from daskkcl.kernels.distance import clipped

MOST_LEVELS = 1024


@dataclass(frozen=True)
class Chi2(GammaKernel):
    """Exponential chi-squared kernel ``exp(−gamma Σ_j (x_j − y_j)² / (x_j + y_j))``, with 0/0 = 0.

    Parameters
    ----------
    gamma : float or {"auto", "scale", "median"}, default "auto"
        From a sample, of which at most 1,000 rows are paired: ``"auto"`` is one over the mean of the sum,
        ``"median"`` one over its median; ``"scale"`` is ``1 / (d std(X))``, the counterpart of scikit-learn's
        rule in the unit of this distance. On rows that are all alike, 1.

    Examples
    --------
    >>> import numpy as np
    >>> Chi2(gamma=1.0)(np.array([[1.0, 0.0]]), np.array([[0.0, 0.0]])).round(3)
    array([[0.368]])
    """

    name: ClassVar[str] = "chi2"
    gamma: float | str = "auto"

    @property
    def unit_diagonal(self) -> bool:
        return True

    @property
    def bound(self) -> float:
        return 1.0

    def _spread(self, rows: Array, rule: str) -> float:
        refuse_negative(rows, self.name)
        if rule == "scale":
            return rows.shape[1] * math.sqrt(widths.variance(rows))
        of_pairs = widths.mean_of_pairs if rule == "auto" else widths.median_of_pairs
        return of_pairs(rows, widths.chi_squared_distances)

    def _columns(self, landmarks: Array, dtype: np.dtype[Any]) -> KernelColumns:
        return _Chi2Columns(self, landmarks, dtype)

    def _kappa(self, rows: Array, kappa: Array) -> None:
        refuse_negative(rows, self.name)
        kappa.fill(1)

    def _tile_scratch_bytes(self, rows: int, d: int, m: int, itemsize: int) -> int:
        return rows * d * (itemsize + 1)  # one byte for the sign


class _Chi2Columns(KernelColumns):
    def __init__(self, kernel: Chi2, landmarks: Array, dtype: np.dtype[Any]) -> None:
        super().__init__(kernel, landmarks, dtype)
        refuse_negative(landmarks, kernel.name)
        self.minus_gamma = -clipped(kernel.gamma_value, dtype)
        self.landmarks = dense_rows(landmarks, dtype)

    def _fill(self, rows: Array, out: Array, kappa: Array) -> None:
        from daskkcl.kernels import loops

        self.kernel._kappa(rows, kappa)
        loops.chi_squared(dense_rows(rows, self.dtype), self.landmarks, out)
        out *= self.minus_gamma
        np.exp(out, out=out)


@dataclass(frozen=True)
class HistogramIntersection(Kernel):
    """Histogram intersection ``Σ_j w_j min(x_j, y_j)``.

    Parameters
    ----------
    levels : tuple of (start, stop, weight), optional
        Columns ``start`` to ``stop`` count with ``weight``. Where levels overlap weights add up, and
        columns in none do not count. Without levels, every column counts once.

    See Also
    --------
    pyramid : the levels and weights of spatial pyramid matching.

    Examples
    --------
    >>> import numpy as np
    >>> HistogramIntersection()(np.array([[1.0, 5.0]]), np.array([[2.0, 3.0]]))
    array([[4.]])
    >>> HistogramIntersection(levels=[(0, 1, 0.5), (1, 2, 2.0)])(np.array([[1.0, 5.0]]), np.array([[2.0, 3.0]]))
    array([[6.5]])
    """

    name: ClassVar[str] = "histogram_intersection"
    levels: tuple[tuple[int, int, float], ...] | None = None

    def __post_init__(self) -> None:
        if self.levels is not None:
            set_field(self, "levels", _check_levels(self.levels))

    @classmethod
    def pyramid(cls, bins: int, levels: int = 3) -> HistogramIntersection:
        """Return spatial pyramid matching: level l has 4^l cells of `bins` columns each, coarsest first.

        The weight of level 0 is ``2^−L`` and that of level l = 1 … L is ``2^−(L−l+1)``: with three levels
        1/4, 1/4, 1/2.

        Examples
        --------
        >>> HistogramIntersection.pyramid(bins=10)
        HistogramIntersection(levels=((0, 10, 0.25), (10, 50, 0.25), (50, 210, 0.5)))
        """
        bins = check_whole(bins, "bins", 1, MOST_COLUMNS)
        levels = check_whole(levels, "levels", 1, 16)
        slices, start = [], 0
        for level in range(levels):
            stop = start + bins * 4**level
            slices.append((start, stop, 2.0 ** -(levels - max(level, 1))))
            start = stop
        return cls(levels=tuple(slices))

    def _check_features(self, d: int) -> None:
        needed = max((stop for _, stop, _ in self.levels or ()), default=0)
        if d < needed:
            raise InvalidInputError(f"the levels of the histogram kernel reach column {needed}, but rows have {d}")

    def _weights(self, d: int) -> Array | None:
        if self.levels is None:
            return None
        weights = np.zeros(d)
        for start, stop, weight in self.levels:
            weights[start:stop] += weight
        return weights

    def _weighted(self, rows: Array, dtype: np.dtype[Any], weights: Array | None) -> Array:
        """Return ``w_j x_ij`` in `dtype` and C order; w min(x, y) = min(w x, w y)."""
        refuse_negative(rows, self.name)
        if weights is None:
            return dense_rows(rows, dtype)
        X = np.empty(rows.shape, dtype)
        return np.multiply(rows, weights, out=X, casting="same_kind")

    def _columns(self, landmarks: Array, dtype: np.dtype[Any]) -> KernelColumns:
        return _IntersectionColumns(self, landmarks, dtype)

    def _kappa(self, rows: Array, kappa: Array) -> None:
        np.sum(self._weighted(rows, kappa.dtype, self._weights(rows.shape[1])), axis=1, out=kappa)

    def _tile_scratch_bytes(self, rows: int, d: int, m: int, itemsize: int) -> int:
        return rows * d * (itemsize + 1)  # one byte for the sign


class _IntersectionColumns(KernelColumns):
    kernel: HistogramIntersection

    def __init__(self, kernel: HistogramIntersection, landmarks: Array, dtype: np.dtype[Any]) -> None:
        super().__init__(kernel, landmarks, dtype)
        self.weights = kernel._weights(self.n_features)
        self.landmarks = kernel._weighted(landmarks, dtype, self.weights)

    def _fill(self, rows: Array, out: Array, kappa: Array) -> None:
        from daskkcl.kernels import loops

        X = self.kernel._weighted(rows, self.dtype, self.weights)
        loops.intersection(X, self.landmarks, out)
        np.sum(X, axis=1, out=kappa)


def _check_levels(levels: Any) -> tuple[tuple[int, int, float], ...]:
    if isinstance(levels, str) or not isinstance(levels, Iterable):
        raise InvalidInputError(f"levels must be triples (start, stop, weight), not {short(levels)}")
    checked = []
    for level in levels:
        if not isinstance(level, (tuple, list)) or len(level) != 3:
            raise InvalidInputError(f"each level must be a triple (start, stop, weight), not {short(level)}")
        start = check_whole(level[0], "start of a level", 0, MOST_COLUMNS)
        stop = check_whole(level[1], "stop of a level", start + 1, MOST_COLUMNS)
        checked.append((start, stop, check_positive(level[2], "weight of a level")))
    if not 1 <= len(checked) <= MOST_LEVELS:
        raise InvalidInputError(f"there must be 1 to {MOST_LEVELS} levels, not {len(checked)}")
    return tuple(checked)
