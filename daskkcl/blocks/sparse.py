"""Sparse tables: scipy matrices in memory, and CSR groups of Zarr arrays as AnnData writes them, read by rows."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError, StorageError
from ..kernels.rows import SparseRows, float_dtype
from .sources import ArraySource, _Table, check_chunks, describe, index_dtype, read_array, regular_chunks

__all__ = ["CsrSource", "CsrTable", "fullest", "in_memory", "is_csr", "open_csr", "open_sparse"]

_WINDOW_ROWS = 32  # the smallest tile: no block has more entries a row than the fullest window
_POINTERS = 2**20  # looked at together
_PARTS = ("data", "indices", "indptr")


@dataclass(frozen=True, eq=False)
class CsrTable:
    """Values, their columns, and where each row begins: one-dimensional Zarr arrays.

    Examples
    --------
    >>> import zarr
    >>> group = zarr.create_group({}, attributes={"encoding-type": "csr_matrix", "shape": [2, 3]})
    >>> for name, values in {"data": [1.0, 2.0], "indices": [2, 0], "indptr": [0, 1, 2]}.items():
    ...     _ = group.create_array(name, data=np.array(values))
    >>> open_csr(group).array.read(0, 2).toarray()
    array([[0., 0., 1.],
           [2., 0., 0.]])
    """

    data: Any
    indices: Any
    indptr: Any
    shape: tuple[int, int]
    name: str

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the rows that are read."""
        return float_dtype(np.dtype(self.data.dtype))

    def read(self, start: int, stop: int) -> SparseRows:
        """Read some rows: the slices of the three arrays that hold them, and no more."""
        indptr = self.pointers(start, stop)
        first, last = int(indptr[0]), int(indptr[-1])
        columns = read_array(self.indices, first, last)
        if len(columns) and not (columns.min() >= 0 and columns.max() < self.shape[1]):
            entry = first + int(np.argmax((columns < 0) | (columns >= self.shape[1])))
            row = start + int(np.searchsorted(indptr, entry, "right")) - 1
            raise StorageError(
                f"'indices' of {self.name} have a column outside 0 to {self.shape[1] - 1:,}, in row {row:,}: the parts "
                "disagree. Write the matrix again."
            )
        columns = columns.astype(index_dtype(self.shape[1]), copy=False)
        index = np.int32 if last - first <= np.iinfo(np.int32).max else np.int64
        values = read_array(self.data, first, last, self.dtype)
        return SparseRows(values, columns, (indptr - first).astype(index), self.shape[1]).canonical()

    def pointers(self, start: int, stop: int) -> NDArray[np.int64]:
        """Read where rows begin, and where the last of them ends."""
        indptr = read_array(self.indptr, start, stop + 1, np.int64)
        if indptr[0] < 0 or indptr[-1] > self.data.shape[0] or (np.diff(indptr) < 0).any():
            row = start + int(np.argmax(np.diff(indptr) < 0))
            raise StorageError(
                f"'indptr' of {self.name} goes back, or beyond 'data', near row {row:,}: the parts disagree. Write the "
                "matrix again."
            )
        return indptr


@dataclass(frozen=True, eq=False)
class CsrSource(_Table):
    """A CSR group. Blocks of rows are read by slices; a chunk at the border of two is decoded for each."""

    array: CsrTable
    entries: int = 1
    stored: int = 0
    lazy: bool = True

    @property
    def unit_rows(self) -> int:
        chunk = max(int(self.array.data.chunks[0]), int(self.array.indices.chunks[0]))
        return max(1, min(self.n_rows, chunk // self.entries))

    @property
    def unit_bytes(self) -> int:
        parts = [self.array.data, self.array.indices, self.array.indptr]
        return 2 * max(int(part.chunks[0]) * part.dtype.itemsize for part in parts) + 8 * 2**20

    @property
    def row_chunks(self) -> tuple[int, ...]:
        return regular_chunks(self.n_rows, self.unit_rows)

    def slabs(self, edges: list[int]) -> list[int]:
        """Return the edges themselves: any rows can be read."""
        return edges

    def blocks(self, edges: list[int]) -> Any:
        import dask.array as da

        name = f"read-{os.urandom(8).hex()}"
        graph = {(name, i, 0): (read_block, self.array, a, b) for i, (a, b) in enumerate(itertools.pairwise(edges))}
        return da.Array(graph, name, (tuple(np.diff(edges).tolist()), (self.n_features,)), dtype=self.dtype)

    def check_missing(self, policy: str) -> None:
        for part in (self.array.data, self.array.indices, self.array.indptr):
            if part.shape[0]:
                check_chunks(part, policy)


def read_block(table: CsrTable, start: int, stop: int) -> SparseRows:
    """Read some rows of a group."""
    return table.read(start, stop)


def is_csr(group: Any) -> bool:
    """Say whether a Zarr group says of itself that it is a sparse matrix (of any kind: others are refused later)."""
    return str(dict(getattr(group, "attrs", {})).get("encoding-type", "")) in {"csr_matrix", "csc_matrix"}


def open_csr(group: Any, guard: Callable[[Any], Any] = lambda array: array) -> CsrSource:
    """Return the source of a group whose parts agree; else say which do not."""
    attributes, where = dict(group.attrs), describe(group)
    if attributes["encoding-type"] == "csc_matrix":
        raise InvalidInputError(
            f"{where} is stored by columns (csc_matrix), and rows cannot be read from it. Store it by rows, for "
            "example with adata.X = adata.X.tocsr() before adata.write_zarr, or pass the matrix in memory."
        )
    absent = [name for name in _PARTS if name not in group]
    if absent:
        raise InvalidInputError(f"{where} says that it is a csr_matrix, but has no {absent[0]!r}.")
    data, indices, indptr = (guard(group[name]) for name in _PARTS)
    shape = attributes.get("shape")
    whole = isinstance(shape, (list, tuple)) and len(shape) == 2 and all(isinstance(n, int) and n >= 0 for n in shape)
    if not whole:
        raise InvalidInputError(f"{where} is a csr_matrix with shape={shape!r}; expected two whole numbers.")
    n, d = (int(length) for length in shape)  # type: ignore[union-attr]
    problems = {
        "'data', 'indices' and 'indptr' must have one dimension": any(
            part.ndim != 1 for part in (data, indices, indptr)
        ),
        "'indices' and 'indptr' must be integers": any(part.dtype.kind not in "iu" for part in (indices, indptr)),
        f"'data' has {data.shape[0]:,} values and 'indices' {indices.shape[0]:,}": data.shape != indices.shape,
        f"'indptr' has {indptr.shape[0]:,} numbers, and {n:,} rows need {n + 1:,}": indptr.shape[0] != n + 1,
    }
    for problem, found in problems.items():
        if found:
            raise InvalidInputError(f"The parts of {where} disagree: {problem}.")
    table = CsrTable(data, indices, indptr, (n, d), where)
    return CsrSource(table, _entries(table) if data.dtype.kind in "biuf" else 1, data.shape[0])


def _entries(table: CsrTable) -> int:
    """Return the entries of a row in the fullest window, after a look at all pointers."""
    n, most = table.shape[0], 1
    for start in range(0, n, _POINTERS):
        indptr = table.pointers(start, min(n, start + _POINTERS))
        if start == 0 and indptr[0] != 0:
            raise InvalidInputError(f"The parts of {table.name} disagree: 'indptr' begins with {indptr[0]}, not 0.")
        most = max(most, fullest(indptr))
    if n and indptr[-1] != table.data.shape[0]:
        raise InvalidInputError(
            f"The parts of {table.name} disagree: 'indptr' ends with {indptr[-1]:,}, and 'data' has "
            f"{table.data.shape[0]:,} values."
        )
    return most


def fullest(indptr: NDArray[Any]) -> int:
    """Return the mean entries of a row in the fullest window of thirty-two rows on a fixed grid, at least 1.

    Examples
    --------
    >>> fullest(np.array([0, 5, 6, 6]))
    2
    """
    edges = np.append(np.arange(0, len(indptr) - 1, _WINDOW_ROWS), len(indptr) - 1)
    rows = np.maximum(np.diff(edges), 1)
    return max(1, int((-(-np.diff(indptr[edges].astype(np.int64)) // rows)).max(initial=1)))


def open_sparse(matrix: Any) -> ArraySource:
    """Return the source of a scipy matrix in memory. What is not CSR, or not canonical, is copied: plans see that."""
    if matrix.dtype.kind not in "biuf" or len(matrix.shape) != 2:
        return ArraySource(np.empty(matrix.shape, matrix.dtype) if 0 in matrix.shape else _sample_of(matrix))
    csr = matrix.tocsr()
    return ArraySource(SparseRows.of(csr), entries=fullest(csr.indptr), stored=csr.nnz)


def in_memory(rows: Any) -> ArraySource:
    """Return the source of a block of rows, dense or sparse."""
    if not isinstance(rows, SparseRows):
        return ArraySource(rows)
    return ArraySource(rows, entries=fullest(rows.indptr), stored=rows.size)


def _sample_of(matrix: Any) -> NDArray[Any]:
    """Return an array of the same kind, to be refused in the same words."""
    return np.empty((1,) * len(matrix.shape), matrix.dtype)
