"""An external shuffle: rows in a keyed random order, read and written in bounded memory.

Every block of rows becomes a *run*: a scratch file with its rows bucket by bucket of the places of the random order,
their places, and a table of where each bucket begins. (Sparse rows are kept as where each begins, all values, all
columns.) A bucket is then gathered from its piece of every run. The order is a function of seed and row number
(`daskkcl.random`), so the buckets are the same whatever the blocks were.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StorageError
from ..kernels.rows import SparseRows, join_blocks
from ..random import FixedOrder, Key
from .scratch import Scratch, open_scratch, read_from, write_array
from .sources import index_dtype

__all__ = ["Shuffled", "bucket_bytes", "run_bytes", "spans", "write_run"]

_INDEX = np.dtype(np.int64)
_PIECE_ROWS = 1024


@dataclass(frozen=True, eq=False)
class Shuffled:
    """Where the runs are and how they are cut into buckets.

    Parameters
    ----------
    key : Key or FixedOrder
        Of the random order.
    n_rows, n_features, dtype
        Of the table.
    bucket_rows : int
        Places in a bucket.
    edges : tuple of int
        Rows of run r are ``edges[r]`` to ``edges[r + 1]``.
    scratch : Scratch
    sparse : bool
        Whether rows are sparse.
    """

    key: Key | FixedOrder
    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    bucket_rows: int
    edges: tuple[int, ...]
    scratch: Scratch
    sparse: bool = False

    @property
    def n_buckets(self) -> int:
        """Number of buckets."""
        return -(-self.n_rows // self.bucket_rows)

    def run_path(self, run: int) -> str:
        """Return the file of a run."""
        return self.scratch.file(f"run-{run:06d}-{'-'.join(self.key.path)}")

    def has_run(self, run: int) -> bool:
        """Say whether a run is there, as long as it must be (of sparse rows: not empty; files appear when complete)."""
        rows = self.edges[run + 1] - self.edges[run]
        least = 8 * (self.n_buckets + 1 + rows)
        try:
            size = os.stat(self.run_path(run)).st_size
        except OSError:
            return False
        return size > least if self.sparse else size == least + rows * self.n_features * self.dtype.itemsize

    def bucket(self, bucket: int) -> Any:
        """Read the rows at places ``bucket * bucket_rows`` and on, in their random order."""
        first = bucket * self.bucket_rows
        size = min(self.bucket_rows, self.n_rows - first)
        out = None if self.sparse else np.empty((size, self.n_features), dtype=self.dtype)
        pieces: list[SparseRows] = []
        order: list[NDArray[np.int64]] = []
        seen = 0
        table_bytes, row_bytes = 8 * (self.n_buckets + 1), self.n_features * self.dtype.itemsize
        for run, (start, stop) in enumerate(zip(self.edges[:-1], self.edges[1:], strict=True)):
            with open_scratch(self.run_path(run)) as file:
                a, b = (int(i) for i in read_from(file, _INDEX, (2,), 8 * bucket))
                if a == b:
                    continue
                places = read_from(file, _INDEX, (b - a,), table_bytes + 8 * a)
                offset = table_bytes + 8 * (stop - start)
                if out is None:
                    pieces.append(self._piece(file, offset, a, b, stop - start))
                    order.append(places)
                else:
                    out[places - first] = read_from(file, self.dtype, (b - a, self.n_features), offset + row_bytes * a)
            seen += b - a
        if seen != size:
            raise StorageError(f"Bucket {bucket} of the shuffle has {seen:,} of {size:,} rows: scratch was changed.")
        return out if out is not None else join_blocks(pieces)[np.argsort(np.concatenate(order), kind="stable")]

    def _piece(self, file: Any, offset: int, a: int, b: int, rows: int) -> SparseRows:
        """Read sparse rows a to b of a run of so many rows, whose rows begin behind an offset."""
        indptr = read_from(file, _INDEX, (b - a + 1,), offset + 8 * a)
        (total,) = read_from(file, _INDEX, (1,), offset + 8 * rows)
        first, count = int(indptr[0]), int(indptr[-1] - indptr[0])
        data = offset + 8 * (rows + 1)
        columns = data + int(total) * self.dtype.itemsize
        index = index_dtype(self.n_features)
        return SparseRows(
            read_from(file, self.dtype, (count,), data + first * self.dtype.itemsize),
            read_from(file, index, (count,), columns + first * index.itemsize),
            indptr - first,
            self.n_features,
        )


def write_run(rows: Any, run: int, shuffled: Shuffled) -> int:
    """Write a block of rows as a run; return the number of rows."""
    places = shuffled.key.positions(shuffled.n_rows, np.arange(shuffled.edges[run], shuffled.edges[run + 1]))
    # Only buckets are sorted: a bucket puts its rows in order when it is read. 16-bit numbers are sorted by counting.
    buckets = (places // shuffled.bucket_rows).astype(np.uint16 if shuffled.n_buckets < 2**16 else np.int64)
    order = np.argsort(buckets, kind="stable")
    table = np.zeros(shuffled.n_buckets + 1, dtype=np.int64)
    np.cumsum(np.bincount(buckets, minlength=shuffled.n_buckets), out=table[1:])
    places = places[order]
    # a few rows at a time: a sorted copy of the block would double it
    cuts = range(0, len(rows), _PIECE_ROWS)
    pieces: Iterable[Any]
    if not isinstance(rows, SparseRows):
        pieces = (rows.take(order[i : i + _PIECE_ROWS], axis=0) for i in cuts)
    else:
        indptr = np.concatenate([[0], np.cumsum(np.diff(rows.indptr)[order])]).astype(np.int64)
        values = (rows[order[i : i + _PIECE_ROWS]].data.astype(shuffled.dtype, copy=False) for i in cuts)
        index = index_dtype(shuffled.n_features)
        columns = (rows[order[i : i + _PIECE_ROWS]].indices.astype(index, copy=False) for i in cuts)
        pieces = chain([indptr], values, columns)
    write_array(shuffled.run_path(run), chain([table, places], pieces))
    return len(rows)


def spans(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return first and last of the spans of ascending numbers.

    Examples
    --------
    >>> spans([0, 1, 2, 5, 7, 8])
    [(0, 2), (5, 5), (7, 8)]
    """
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def run_bytes(n_rows: int, row_bytes: int) -> int:
    """Return the scratch that a shuffle takes."""
    return n_rows * (8 + row_bytes)


def bucket_bytes(n_rows: int, row_bytes: int, limit_bytes: int) -> int:
    """Return a good size for runs and buckets: pieces of some 32 KiB, without taking much of the limit.

    A piece is what one run has of one bucket: ``runs x buckets`` pieces cover all rows.

    Examples
    --------
    >>> bucket_bytes(4_000_000, 256, 2**29) // 2**20, bucket_bytes(400_000_000, 256, 2**34) // 2**20
    (8, 55)
    """
    balanced = int((n_rows * row_bytes * 2**15) ** 0.5)
    return max(2**20, min(max(8 * 2**20, balanced), limit_bytes // 32))
