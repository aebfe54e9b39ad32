"""Maps whose measurements are coordinates: distances between them are plain distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Kernel
from ..kernels.rows import as_dense
from .base import Map

__all__ = ["ExplicitMap", "IdentityMap", "ProjectedMap", "squared_lengths"]

Floats = NDArray[Any]


def squared_lengths(Z: Floats) -> Floats:
    """Return the squared length of every row."""
    return np.einsum("ij,ij->i", Z, Z)


class ExplicitMap:
    """What explicit maps share: a centre is the mean of coordinates, and is its own dual."""

    explicit = True

    def dual(self, means: Floats) -> Floats:
        """Return the means themselves."""
        return np.array(means, dtype=np.float64)

    def settle(self) -> None:
        """Make what all tasks share now: nothing."""


@dataclass(frozen=True, eq=False)
class IdentityMap(ExplicitMap):
    """Input space itself: the measurements are the features, moved to their mean.

    Examples
    --------
    >>> import numpy as np
    >>> map_ = IdentityMap(np.array([1.0, 1.0]), np.dtype("float64"))
    >>> map_.measure(np.array([[1.0, 3.0]]))
    (array([[0., 2.]]), array([4.]))
    """

    origin: Floats
    dtype: np.dtype[Any]
    name = "identity"
    kernel = None

    @property
    def n_features(self) -> int:
        return len(self.origin)

    @property
    def n_measurements(self) -> int:
        return len(self.origin)

    def measure(self, rows: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
        if out is None:
            out = np.empty(rows.shape, dtype=self.dtype)
        rows = as_dense(rows)
        np.subtract(rows, self.origin, out=out, casting="same_kind" if rows.dtype.kind == "f" else "unsafe")
        return out, squared_lengths(out)

    def scratch_bytes(self, rows: int, cells: int | None = None) -> int:
        return rows * 8 * 1024  # numpy casts in buffers of 8192 elements


@dataclass(frozen=True, eq=False)
class ProjectedMap(ExplicitMap):
    """Coordinates ``y = z P`` of the measurements z of another map.

    Parameters
    ----------
    inner : Map
    projection : ndarray of shape (m, r), float64
    name : str
    residual : bool
        ``kappa`` is that of the inner map, so that distances include what lies outside the coordinates (Nystroem);
        else it is ``|y|^2``.
    normalised : bool
        Rows are divided by their length.

    Examples
    --------
    >>> import numpy as np
    >>> plain = IdentityMap(np.zeros(2), np.dtype("float64"))
    >>> ProjectedMap(plain, np.array([[1.0], [1.0]]), "sum").measure(np.array([[1.0, 3.0]]))
    (array([[4.]]), array([16.]))
    """

    inner: Map
    projection: Floats
    name: str
    residual: bool = False
    normalised: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "_matrix", np.ascontiguousarray(self.projection, dtype=self.inner.dtype))

    @property
    def kernel(self) -> Kernel | None:
        return self.inner.kernel

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.inner.dtype

    @property
    def n_features(self) -> int:
        return self.inner.n_features

    @property
    def n_measurements(self) -> int:
        return int(self.projection.shape[1])

    def measure(self, rows: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
        Z, kappa = self.inner.measure(rows)
        Y = np.matmul(Z, self._matrix, out=out)  # type: ignore[attr-defined]
        if self.normalised:
            lengths = np.sqrt(squared_lengths(Y))
            Y /= np.where(lengths > 0, lengths, 1)[:, None]
        return Y, kappa if self.residual else squared_lengths(Y)

    def scratch_bytes(self, rows: int, cells: int | None = None) -> int:
        inner = rows * (self.inner.n_measurements + 4) * np.dtype(self.dtype).itemsize
        return inner + self.inner.scratch_bytes(rows, cells)

    def settle(self) -> None:
        """Make what all tasks share now, once and not in each thread: measuring a row makes it."""
        self.inner.measure(np.zeros((1, self.n_features)))
