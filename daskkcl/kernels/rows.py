"""Sparse rows: what blocks of CSR data travel as. They have a length and are cut and picked like a numpy array."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskkcl.system import Weighed

__all__ = ["SparseRows", "as_dense", "float_dtype", "is_sparse", "join_blocks", "public_rows"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class SparseRows(Weighed):
    """Rows in compressed form: column numbers ascending within a row, each once. Values are float32 or float64.

    Nothing turns them into an array by accident: ``toarray`` does it when asked, and ``np.asarray`` refuses.

    Parameters
    ----------
    data, indices : ndarray of shape (entries,)
        Values and their columns.
    indptr : ndarray of shape (rows + 1,)
        Where each row begins.
    n_features : int

    Examples
    --------
    >>> rows = SparseRows.of(np.array([[0.0, 2.0], [0.0, 0.0], [1.0, 3.0]]))
    >>> len(rows), rows[1:].toarray()
    (3, array([[0., 0.],
           [1., 3.]]))
    """

    data: Array
    indices: Array
    indptr: Array
    n_features: int

    ndim = 2

    @staticmethod
    def of(rows: Any) -> SparseRows:
        """Return rows of a scipy matrix or a numpy array; what is canonical and of a fitting dtype is not copied."""
        from scipy.sparse import csr_array, issparse

        if isinstance(rows, SparseRows):
            return rows
        if not issparse(rows):
            rows = np.asarray(rows)
        dtype = float_dtype(rows.dtype)
        csr = csr_array(rows)
        if csr.dtype != dtype:
            csr = csr.astype(dtype)
        return SparseRows(csr.data, csr.indices, csr.indptr, int(csr.shape[1])).canonical()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.indptr) - 1, self.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.data.dtype

    @property
    def size(self) -> int:
        """Entries that are stored."""
        return len(self.data)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.data.nbytes + self.indices.nbytes + self.indptr.nbytes)

    @property
    def density(self) -> float:
        """Entries that are stored, as a share of all."""
        return self.size / max(1, len(self) * self.n_features)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise TypeError("sparse rows are made dense only by toarray(), where that was planned")

    def __getitem__(self, key: Any) -> SparseRows:
        if isinstance(key, tuple):
            rows, columns = key
            return (self if rows == slice(None) else self[rows])._columns(columns)
        if isinstance(key, slice):
            first, last, step = key.indices(len(self))
            if step != 1:
                return self[np.arange(first, last, step)]
            indptr = self.indptr[first : max(first, last) + 1]
            entries = slice(int(indptr[0]), int(indptr[-1]))
            return SparseRows(self.data[entries], self.indices[entries], indptr - indptr[0], self.n_features)
        wanted = np.asarray(key)
        csr = self.csr()[np.flatnonzero(wanted) if wanted.dtype == bool else wanted]
        return SparseRows(csr.data, csr.indices, csr.indptr, self.n_features)

    def _columns(self, columns: slice) -> SparseRows:
        first, last, _ = columns.indices(self.n_features)
        inside = (self.indices >= first) & (self.indices < last)
        kept = np.concatenate([[0], np.cumsum(inside)])[self.indptr]
        return SparseRows(self.data[inside], self.indices[inside] - first, kept, last - first)

    def csr(self) -> Any:
        """Return the rows as a scipy array that shares their memory."""
        from scipy.sparse import csr_array

        index = np.int64 if self.indices.dtype == np.int64 or self.size > np.iinfo(np.int32).max else np.int32
        parts = self.data, self.indices.astype(index, copy=False), self.indptr.astype(index, copy=False)
        return csr_array(parts, shape=self.shape, copy=False)

    def astype(self, dtype: Any, **_: Any) -> SparseRows:
        """Return the rows with values of a dtype, copied only if it is another."""
        return self if self.data.dtype == dtype else replace(self, data=self.data.astype(dtype))

    def copy(self) -> SparseRows:
        """Return a copy that shares no memory."""
        return SparseRows(self.data.copy(), self.indices.copy(), self.indptr.copy(), self.n_features)

    def toarray(self) -> Array:
        """Return the rows as an array: only where it was planned."""
        out = np.zeros(self.shape, dtype=self.dtype)
        out[self.row_numbers(), self.indices] = self.data
        return out

    def row_numbers(self) -> NDArray[np.intp]:
        """Return the row of every entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def row_sums(self, values: Array) -> NDArray[np.float64]:
        """Return the sums over rows of a value for every entry, one row after another, in float64."""
        sums = np.bincount(self.row_numbers(), weights=values, minlength=len(self))
        return sums.astype(np.float64, copy=False)

    def squared_norms(self) -> NDArray[np.float64]:
        """Return the squared length of every row."""
        return self.row_sums(np.square(self.data, dtype=np.float64))

    def mean(self, axis: int = 0, dtype: Any = np.float64) -> NDArray[np.float64]:
        """Return the mean row."""
        assert axis == 0
        sums = np.bincount(self.indices, weights=self.data, minlength=self.n_features)
        return (sums / max(1, len(self))).astype(dtype)

    def peaks(self) -> Array:
        """Return the largest absolute value of every row, 0 for empty ones."""
        out = np.zeros(len(self), dtype=self.dtype)
        np.maximum.at(out, self.row_numbers(), np.abs(self.data))
        return out

    def distinct(self) -> SparseRows:
        """Return the rows without those that came before."""
        seen: dict[bytes, int] = {}
        for row in range(len(self)):
            here = slice(int(self.indptr[row]), int(self.indptr[row + 1]))
            key = self.indices[here].astype(np.int64).tobytes() + b"/" + self.data[here].tobytes()
            seen.setdefault(key, row)
        return self[np.fromiter(seen.values(), dtype=np.int64)]

    def without(self, rows: NDArray[np.bool_]) -> SparseRows:
        """Return the rows with zeros for all entries of some."""
        return replace(self, data=np.where(rows[self.row_numbers()], self.dtype.type(0), self.data))

    def canonical(self) -> SparseRows:
        """Return the rows with columns ascending and entries of the same place added up; themselves if they are."""
        if len(self.indices) < 2:
            return self
        ascending = np.diff(self.indices) > 0
        starts = self.indptr[1:-1]
        ascending[starts[(starts > 0) & (starts < self.size)] - 1] = True  # from row to row anything goes
        if ascending.all():
            return self
        csr = self.csr().copy()
        csr.has_canonical_format = csr.has_sorted_indices = False
        csr.sum_duplicates()
        return SparseRows(csr.data, csr.indices, csr.indptr, self.n_features)


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return what sparse values of a dtype are kept in: a float that holds them.

    Examples
    --------
    >>> float_dtype(np.dtype("uint8")), float_dtype(np.dtype("int32")), float_dtype(np.dtype("float16"))
    (dtype('float32'), dtype('float64'), dtype('float32'))
    """
    if dtype.kind not in "biuf":
        return np.dtype(dtype)  # refused elsewhere, by its own name
    narrow = dtype.itemsize <= (4 if dtype.kind == "f" else 2)
    return np.dtype(np.float32 if narrow else np.float64)


def is_sparse(rows: Any) -> bool:
    """Say whether rows are sparse."""
    return isinstance(rows, SparseRows)


def as_dense(rows: Any) -> Array:
    """Return rows as an array, for what knows no other."""
    return rows.toarray() if isinstance(rows, SparseRows) else rows


def public_rows(rows: Any) -> Any:
    """Return rows as users know them: a numpy array, or a scipy one if they are sparse."""
    return rows.csr() if isinstance(rows, SparseRows) else rows


def join_blocks(blocks: list[Any]) -> Any:
    """Return blocks of rows as one, dense or sparse as they are; sparse if they differ, as portions of a stream may.

    Examples
    --------
    >>> join_blocks([np.eye(2), SparseRows.of(np.eye(2)[:1])]).toarray()
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])
    """
    if len(blocks) == 1:
        return blocks[0]
    if not any(isinstance(block, SparseRows) for block in blocks):
        return np.concatenate(blocks)
    blocks = [SparseRows.of(block) for block in blocks]
    ends = np.cumsum([block.size for block in blocks])
    indptr = [blocks[0].indptr.astype(np.int64)]
    indptr += [block.indptr[1:].astype(np.int64) + end for block, end in zip(blocks[1:], ends[:-1], strict=True)]
    index = np.int32 if ends[-1] <= np.iinfo(np.int32).max else np.int64
    return SparseRows(
        np.concatenate([block.data for block in blocks]),
        np.concatenate([block.indices for block in blocks]),
        np.concatenate(indptr).astype(index),
        blocks[0].n_features,
    )
