"""The p nearest landmarks of every row and their weights: the sparse rows of the landmark spectral map."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Kernel
from ..kernels.rows import as_dense

__all__ = ["MANY", "Cells", "NearestLandmarks", "code_bits", "make_cells", "nearest_mask", "nearest_rows"]

Floats = NDArray[Any]

MANY = 2048  # landmarks beyond which they are searched in two levels
_STRIP_ROWS = 256
_CELL_ROWS = 64  # landmarks of a cell, about: the coarse search and the fine one then cost alike
_CELLS_SEARCHED = 8  # landmarks of so many cells are looked at for each row


def code_bits(n_rows: int) -> int:
    """Return how many binary places weights keep, so that integer sums of their products over all rows are exact.

    Examples
    --------
    >>> code_bits(70_000), code_bits(10**10)
    (22, 14)
    """
    return min(22, (62 - int(n_rows).bit_length()) // 2)


@dataclass(frozen=True, eq=False)
class Cells:
    """A coarse grid over the landmarks: rows look only at the landmarks around their nearest cell centre."""

    centres: Floats  # (cells, d), moved like the landmarks
    members: NDArray[np.int32]  # (cells, candidates): the landmarks nearest to each centre


@dataclass(frozen=True, eq=False)
class NearestLandmarks:
    """Turns rows into codes: numbers and weights of their p nearest landmarks, float32 (rows, 2 p).

    Parameters
    ----------
    landmarks : ndarray of shape (m, d)
    origin : ndarray of shape (d,)
        Rows and landmarks are moved here before products are taken, for precision.
    n_neighbors : int
    bits : int
        Binary places of the weights.
    dtype : dtype
    kernel : Kernel, optional
        Distances are those of the kernel's feature space, ``kappa_i + kappa_j - 2 k``; plain ones without.
    cells : Cells, optional
        For an approximate search among many landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> grid = np.arange(5.0)[:, None]
    >>> NearestLandmarks(grid, np.zeros(1), 2, 10, np.dtype("float64")).encode(np.array([[3.0]])).round(2)
    array([[3.  , 2.  , 0.73, 0.27]], dtype=float32)
    """

    landmarks: Floats
    origin: Floats
    n_neighbors: int
    bits: int
    dtype: np.dtype[Any]
    kernel: Kernel | None = None
    cells: Cells | None = None

    @property
    def n_features(self) -> int:
        """Columns of the rows."""
        return int(self.landmarks.shape[1])

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks."""
        return int(self.landmarks.shape[0])

    @property
    def unit(self) -> float:
        """What weights are multiples of."""
        return 2.0**-self.bits

    @cached_property
    def _prepared(self) -> tuple[Any, Floats, NDArray[np.float32]]:
        """What products are taken with, the squared length of every landmark, and their names."""
        names = np.arange(self.n_landmarks, dtype=np.float32)
        if self.kernel is not None:
            lengths = self.kernel.diagonal(self.landmarks.astype(np.float64))
            return self.kernel.columns(self.landmarks, self.dtype), lengths.astype(self.dtype), names
        moved = self.landmarks.astype(np.float64) - self.origin
        lengths = np.einsum("ij,ij->i", moved, moved).astype(self.dtype)
        return np.ascontiguousarray(moved.T, dtype=self.dtype), lengths, names

    @cached_property
    def _prepared_cells(self) -> tuple[Floats, Floats, list[tuple[Floats, Floats, Floats]]]:
        assert self.cells is not None
        right, lengths, names = self._prepared
        centres = np.ascontiguousarray(self.cells.centres.T, dtype=self.dtype)
        members = [(np.ascontiguousarray(right[:, own]), lengths[own], names[own]) for own in self.cells.members]
        return centres, np.einsum("ij,ij->j", centres, centres), members

    def settle(self) -> None:
        """Make what all tasks share now, once and not in each thread."""
        self._prepared  # noqa: B018
        if self.cells is not None:
            self._prepared_cells  # noqa: B018

    def encode(self, rows: Floats, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return the codes of a tile of rows."""
        from .loops import encode

        if out is None:
            out = np.empty((len(rows), 2 * self.n_neighbors), dtype=np.float32)
        if self.cells is not None:
            self._encode_by_cells(self._moved(rows), out)
            return out
        right, lengths, names = self._prepared
        # Some rows at a time: their products stay in cache until they are looked at.
        buffer = np.empty((min(_STRIP_ROWS, len(rows)), self.n_landmarks), dtype=self.dtype)
        for first in range(0, len(rows), _STRIP_ROWS):
            some = rows[first : first + _STRIP_ROWS]
            place, S = np.arange(first, first + len(some)), buffer[: len(some)]
            S = np.matmul(self._moved(some), right, out=S) if self.kernel is None else right.block(some, S)[0]
            encode(S, lengths, names, place, self.n_neighbors, self.unit, out)
        return out

    def _moved(self, rows: Floats) -> Floats:
        origin = self.origin.astype(self.dtype) if rows.dtype != np.float64 else self.origin
        return np.subtract(as_dense(rows), origin).astype(self.dtype, copy=False)

    def _encode_by_cells(self, X: Floats, out: NDArray[np.float32]) -> None:
        from .loops import encode

        centres, centre_lengths, members = self._prepared_cells
        cell = (centre_lengths - 2 * (X @ centres)).argmin(axis=1)
        order = np.argsort(cell, kind="stable")
        cuts = np.searchsorted(cell[order], np.arange(len(members) + 1))
        for own, first, last in zip(members, cuts[:-1], cuts[1:], strict=True):
            if first < last:
                some = order[first:last]
                encode(X[some] @ own[0], own[1], own[2], some, self.n_neighbors, self.unit, out)

    def scratch_bytes(self, rows: int, cells: int | None = None) -> int:
        """Return the temporaries of `encode`."""
        itemsize = np.dtype(self.dtype).itemsize
        d = cells or self.n_features
        n_bytes = rows * (2 * d * itemsize + self.n_landmarks * itemsize + 32 + 8 * d)
        if self.kernel is not None:
            n_bytes += self.kernel.scratch_bytes(rows, d, self.n_landmarks, itemsize)
        return n_bytes

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_prepared", "_prepared_cells")}


def make_cells(landmarks: Floats, origin: Floats, n_neighbors: int) -> Cells:
    """Group landmarks into cells of about sixty-four by k-means from evenly spaced ones; always the same way."""
    moved = landmarks.astype(np.float32) - origin.astype(np.float32)
    m = len(moved)
    n_cells = max(1, m // _CELL_ROWS)
    centres = moved[np.arange(n_cells) * m // n_cells].copy()
    for _ in range(10):
        members = (nearest_rows(moved, centres) == np.arange(n_cells)[:, None]).astype(np.float32)
        counts = members.sum(axis=1)[:, None]
        centres = np.where(counts > 0, (members @ moved) / np.maximum(counts, 1), centres)
    candidates = min(m, max(_CELLS_SEARCHED * _CELL_ROWS, 4 * n_neighbors))
    lengths = np.einsum("ij,ij->i", moved, moved)
    distances = lengths - 2 * (centres @ moved.T)
    members = np.argpartition(distances, candidates - 1, axis=1)[:, :candidates]
    return Cells(centres, np.sort(members, axis=1).astype(np.int32))


def nearest_rows(X: Floats, Y: Floats) -> NDArray[np.intp]:
    """Return for every row of X the number of the nearest row of Y."""
    return (np.einsum("ij,ij->i", Y, Y) - 2 * (X @ Y.T)).argmin(axis=1)


def nearest_mask(S: Floats, lengths: Floats, n_neighbors: int) -> NDArray[np.bool_]:
    """Return which columns are the p nearest of every row; of those equally far, the first.

    The squared distance of row i to column j, up to what is the row's own, is ``lengths[j] - 2 S[i, j]``.

    Examples
    --------
    >>> import numpy as np
    >>> nearest_mask(np.array([[0.5, 0.9, 0.5, 0.1]]), np.ones(4), 2)
    array([[ True,  True, False, False]])
    """
    D = lengths - 2 * S
    farthest = np.partition(D, n_neighbors - 1, axis=1)[:, n_neighbors - 1 : n_neighbors]
    mask = farthest >= D
    tied = np.flatnonzero(np.count_nonzero(mask, axis=1) > n_neighbors)
    if len(tied):
        nearer = D[tied] < farthest[tied]
        room = n_neighbors - np.count_nonzero(nearer, axis=1)
        last = mask[tied] & ~nearer
        mask[tied] = nearer | (last & (np.cumsum(last, axis=1) <= room[:, None]))
    return mask
