"""What a map is: rows in, measurements out; and the algebra of centres in the span of the measurements.

Centres are kept as weighted mean measurements ``s_c``. With ``g_c = A s_c`` and ``nu_c = g_c . s_c``,

    ||phi(x_i) - m_c||^2 = kappa_i - 2 z_i . g_c + nu_c,

so a block of rows costs one product ``Z G`` and a pass reduces to sums of measurements. A is the pseudo-inverse of
the landmarks' kernel matrix for kernel measurements, and the identity for explicit features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..system import Weighed

__all__ = ["Centres", "Map", "quick_dual", "squared_distances"]

Floats = NDArray[Any]


class Map(Protocol):
    """A map turns a block of rows into measurements ``Z`` (rows, m) and ``kappa`` (rows,)."""

    @property
    def name(self) -> str:
        """What it is called in saved models."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the measurements."""

    @property
    def explicit(self) -> bool:
        """Whether measurements are coordinates: distances between them are distances of the rows."""

    @property
    def kernel(self) -> Any:
        """The kernel behind it, or None."""

    @property
    def n_features(self) -> int:
        """Columns of the rows it takes."""

    @property
    def n_measurements(self) -> int:
        """Columns of the measurements it gives."""

    def measure(self, rows: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
        """Return Z and kappa of a block of rows."""

    def dual(self, means: Floats) -> Floats:
        """Return ``g_c = A s_c`` for each row ``s_c`` of `means`."""

    def scratch_bytes(self, rows: int, cells: int | None = None) -> int:
        """Return the temporaries of `measure` on so many rows, beyond the rows and Z.

        A row takes so many `cells`, or all its features; sparse ones take fewer (`Fixed.sparse_width`).
        """

    def settle(self) -> None:
        """Make what all tasks share, once and not in each thread."""


def quick_dual(map_: Map, means: Floats) -> Floats:
    """Return what `Map.dual` does to within the rounding of blocks, in less time if the map has a way for that."""
    dual: Callable[[Floats], Floats] = getattr(map_, "quick_dual", map_.dual)
    return dual(means)


@dataclass(frozen=True, eq=False)
class Centres(Weighed):
    """Cluster centres: coefficients ``G`` (c, m) and squared norms ``nu`` (c,), with their mean measurements.

    Parameters
    ----------
    coefficients : ndarray of shape (c, m)
        The centre is ``sum_l G_cl phi(landmark_l)`` (or G itself for explicit features).
    norms : ndarray of shape (c,)
        Squared length of each centre.
    means : ndarray of shape (c, m) or None
        The mean measurements the coefficients came from.
    dtype : dtype
        Blocks are computed in this precision.
    """

    coefficients: Floats
    norms: Floats
    means: Any  # Floats or None
    dtype: np.dtype[Any]

    @classmethod
    def from_means(cls, means: Floats, map_: Map, quick: bool = False) -> Centres:
        """Place centres at the given mean measurements (float64); `quick` ones round as blocks do."""
        means = np.ascontiguousarray(means, dtype=np.float64)
        coefficients = quick_dual(map_, means) if quick else map_.dual(means)
        return cls(coefficients, np.einsum("cm,cm->c", coefficients, means), means, map_.dtype)

    @property
    def n_clusters(self) -> int:
        """Number of centres."""
        return len(self.norms)

    @cached_property
    def gemm(self) -> Floats:
        """``-2 G^T`` (m, c) in block precision, ready to be multiplied by Z from the left."""
        return np.ascontiguousarray(-2.0 * self.coefficients.T, dtype=self.dtype)

    @cached_property
    def in_block_precision(self) -> tuple[Floats, Floats]:
        """``G`` (c, m) and ``nu`` (c,) in block precision, for rows that meet a few centres only."""
        return np.ascontiguousarray(self.coefficients, dtype=self.dtype), self.norms.astype(self.dtype)

    def __getstate__(self) -> dict[str, Any]:
        derived = ("gemm", "in_block_precision")  # cheaper to make again than to send
        return {name: value for name, value in self.__dict__.items() if name not in derived}


def squared_distances(Z: Floats, kappa: Floats, centres: Centres, out: Floats | None = None) -> Floats:
    """Return ``kappa_i - 2 z_i . g_c + nu_c`` (rows, c), never below zero."""
    D = np.matmul(Z, centres.gemm, out=out)
    D += kappa[:, None]
    D += centres.norms.astype(D.dtype)
    return np.maximum(D, 0, out=D)
