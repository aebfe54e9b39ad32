"""Scaling of features: what is to be known of all rows, as sums that any grouping leaves alone; its use on blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.rows import SparseRows
from .sums import ExactSum

__all__ = ["SCALES", "ColumnSums", "Scaler", "column_sums", "scaler_of"]

Floats = NDArray[Any]

SCALES = ("standard", "minmax", "unit")
_STEP_ROWS = 1024  # scaled together: temporaries are float64
_SPLITTER = 2.0**27 + 1


@dataclass(frozen=True, eq=False)
class Scaler:
    """Rows as ``(x - shift) * factor``, or each divided by its length.

    Parameters
    ----------
    name : {"standard", "minmax", "unit"}
    shift, factor : ndarray of shape (d,) or None
        None for "unit"; `shift` is also None for sparse rows, which stay sparse.

    Examples
    --------
    >>> Scaler("unit").apply(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """

    name: str
    shift: Floats | None = None
    factor: Floats | None = None

    def apply(self, rows: Any) -> Any:
        """Return the rows scaled, in float32 or float64 as they came; NaN stays NaN."""
        if isinstance(rows, SparseRows):
            return self._sparse(rows)
        out = np.empty(rows.shape, dtype=scaled_dtype(rows.dtype))
        for a in range(0, len(rows), _STEP_ROWS):
            part: Any = rows[a : a + _STEP_ROWS]
            if self.factor is None:
                part = part.astype(np.float64)
                with np.errstate(over="ignore", invalid="ignore"):
                    lengths = np.sqrt(np.einsum("ij,ij->i", part, part))
                    part /= np.where(lengths > 0, lengths, 1)[:, None]
            else:
                with np.errstate(over="ignore", invalid="ignore"):
                    part = (part - (0.0 if self.shift is None else self.shift)) * self.factor
            out[a : a + _STEP_ROWS] = part
        return out

    def undo(self, rows: Any) -> Any:
        """Return scaled rows in the units they had; of rows of length 1 the length is gone."""
        if self.factor is None:
            return rows
        if isinstance(rows, SparseRows):
            return replace(rows, data=(rows.data / self.factor[rows.indices]).astype(rows.dtype))
        return (rows / self.factor + self.shift).astype(rows.dtype)

    def _sparse(self, rows: SparseRows) -> SparseRows:
        if self.factor is None:
            lengths = np.sqrt(rows.squared_norms())
            factors = (1 / np.where(lengths > 0, lengths, 1))[rows.row_numbers()]
        else:
            factors = self.factor[rows.indices]
        return replace(rows, data=(rows.data * factors).astype(rows.dtype))


def scaled_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return what scaled rows are kept in: a float that holds the rows as they were."""
    narrow = dtype.itemsize <= (4 if dtype.kind == "f" else 2)
    return np.dtype(np.float32 if narrow else np.float64)


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """What tiles add up to a scaler: weights, means and squares about them, extremes.

    A tile of weight w with means c has squares ``sum w_i (x_i - c)^2`` about its own mean, and beside them ``w c`` and
    ``w c^2``, of which the latter would cancel when columns are far from zero: both are kept with the rounding errors
    of their products.
    """

    weight: ExactSum  # ()
    means: ExactSum  # (d,): w c
    squares: ExactSum  # (d,): w c^2
    inner: ExactSum  # (d,): sum w_i (x_i - c)^2
    low: Floats
    high: Floats

    @staticmethod
    def zeros(n_features: int) -> ColumnSums:
        """Return the sums of nothing."""
        none = ExactSum.zeros((n_features,))
        ends = np.full(n_features, np.inf)
        return ColumnSums(ExactSum.zeros(()), none, none, none, ends, -ends)

    def __add__(self, other: ColumnSums) -> ColumnSums:
        return ColumnSums(
            self.weight + other.weight,
            self.means + other.means,
            self.squares + other.squares,
            self.inner + other.inner,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


def column_sums(rows: Any, weights: Floats | None = None) -> ColumnSums:
    """Return the sums of a tile of usable rows."""
    if weights is not None:
        rows, weights = rows[weights > 0], weights[weights > 0]
    if len(rows) == 0:
        return ColumnSums.zeros(rows.shape[1])
    w = float(len(rows)) if weights is None else float(weights.sum())
    if isinstance(rows, SparseRows):
        own = rows.data.astype(np.float64)
        part = own if weights is None else own * weights[rows.row_numbers()]
        d, columns = rows.n_features, rows.indices
        sums = np.bincount(columns, weights=part, minlength=d)
        squares = np.bincount(columns, weights=part * own, minlength=d)
        none = ExactSum.zeros((d,))
        return ColumnSums(ExactSum.zeros(()) + w, none + sums, none + squares, none, np.zeros(d), np.zeros(d))
    x = rows.astype(np.float64)
    u = np.ones(len(rows)) if weights is None else weights
    c = (u @ x) / w
    low, high = x.min(axis=0), x.max(axis=0)
    c = np.clip(c, low, high)
    x -= c
    rest = u @ x  # of the mean, which is c + rest / w and no float64
    inner = u @ (x * x) - rest**2 / w
    mean, mean_error = _product(np.full_like(c, w), c)
    square, square_error = _product(c, c)
    weighted, weighted_error = _product(np.full_like(c, w), square)
    mixed, mixed_error = _product(c, 2 * rest)
    none = ExactSum.zeros(c.shape)
    return ColumnSums(
        ExactSum.zeros(()) + w,
        none + mean + mean_error + rest,
        none + weighted + (weighted_error + w * square_error) + mixed + mixed_error + rest**2 / w,
        none + np.maximum(inner, 0),
        low,
        high,
    )


def _product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return a product and its rounding error (Dekker 1971, doi:10.1007/BF01397083)."""
    p = a * b
    with np.errstate(over="ignore", invalid="ignore"):
        t, s = _SPLITTER * a, _SPLITTER * b
        a1, b1 = t - (t - a), s - (s - b)
        a2, b2 = a - a1, b - b1
        error = ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2
    return p, np.where(np.isfinite(error), error, 0.0)  # of values near the end of the range: none


def scaler_of(name: str, sums: ColumnSums, sparse: bool = False) -> Scaler:
    """Return the scaler that the sums of all rows give. A column whose values are all the same is only shifted.

    Examples
    --------
    >>> sums = column_sums(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> scaler_of("standard", sums).apply(np.array([[1.0, 5.0], [3.0, 6.0]]))
    array([[-1.,  0.],
           [ 1.,  1.]])
    """
    if name == "minmax":
        spread = sums.high - sums.low
        return Scaler(name, sums.low, 1 / np.where(spread > 0, spread, 1))
    w = Fraction(float(sums.weight.high)) + Fraction(float(sums.weight.low))
    pairs = zip(_fractions(sums.means), _fractions(sums.squares), strict=True)
    between = np.array([float(square / w - (mean / w) ** 2) for mean, square in pairs])
    variance = np.maximum(between, 0) + sums.inner.value / float(w)
    constant = variance == 0 if sparse else sums.low == sums.high
    factor = 1 / np.sqrt(np.where(constant | (variance == 0), 1, variance))
    return Scaler(name, None if sparse else sums.means.value / float(w), factor)


def _fractions(sums: ExactSum) -> Any:
    return (Fraction(float(a)) + Fraction(float(b)) for a, b in zip(sums.high, sums.low, strict=True))
