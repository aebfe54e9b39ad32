"""An external shuffle: rows in a keyed random order, read and written in bounded memory.

Every block of rows becomes a *run*: a scratch file with a table of where each bucket of the random order begins, and
bucket by bucket the places of its rows in that order, and the rows. (Of sparse rows: all places, where each row begins,
all values, all columns.) A bucket is then gathered from its piece of every run. The order is a function of seed and row
number (`daskkcl.random`), so the buckets are the same whatever the blocks were.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import FileIO
from itertools import chain, pairwise
from typing import Any

import numpy as np

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
        seen, rows = self._sparse_bucket(bucket) if self.sparse else self._dense_bucket(bucket, first, size)
        if seen != size:
            raise StorageError(f"Bucket {bucket} of the shuffle has {seen:,} of {size:,} rows: scratch was changed.")
        return rows

    def _runs(self, bucket: int) -> Iterator[tuple[FileIO, int, int, int]]:
        """Yield the file of every run that has rows of a bucket, its number of rows, and which of them these are."""
        for run, (start, stop) in enumerate(pairwise(self.edges)):
            with open_scratch(self.run_path(run)) as file:
                a, b = read_from(file, _INDEX, (2,), 8 * bucket).tolist()
                if a < b:
                    yield file, stop - start, a, b

    def _dense_bucket(self, bucket: int, first: int, size: int) -> tuple[int, Any]:
        row_bytes = self.n_features * self.dtype.itemsize
        whole = np.dtype((np.void, row_bytes))  # rows are put in their places whole: three times as fast
        out, room, seen = np.empty((size, self.n_features), dtype=self.dtype), np.empty(0, dtype=np.uint8), 0
        for file, _, a, b in self._runs(bucket):
            n = b - a
            if len(room) < n * (8 + row_bytes):
                room = np.empty(2 * n * (8 + row_bytes), dtype=np.uint8)
            piece = room[: n * (8 + row_bytes)]
            read_from(file, piece.dtype, piece.shape, 8 * (self.n_buckets + 1) + (8 + row_bytes) * a, piece)
            places = piece[: 8 * n].view(_INDEX) - first
            if n and not 0 <= places.min() <= places.max() < size:
                return -1, out
            out.view(whole)[places, 0] = piece[8 * n :].view(whole)
            seen += n
        return seen, out

    def _sparse_bucket(self, bucket: int) -> tuple[int, Any]:
        pieces, order, begins = [], [np.empty(0, dtype=np.int64)], 8 * (self.n_buckets + 1)
        for file, n_rows, a, b in self._runs(bucket):
            order.append(read_from(file, _INDEX, (b - a,), begins + 8 * a))
            pieces.append(self._piece(file, begins + 8 * n_rows, a, b, n_rows))
        places = np.concatenate(order)
        return len(places), join_blocks(pieces)[np.argsort(places, kind="stable")] if pieces else None

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
    pieces: Iterable[Any]
    if not isinstance(rows, SparseRows):
        # a piece at a time: a sorted copy of the block would double it
        pieces = chain.from_iterable((places[a:b], rows.take(order[a:b], axis=0)) for a, b in pairwise(table.tolist()))
        write_array(shuffled.run_path(run), chain([table], pieces))
        return len(rows)
    cuts = range(0, len(rows), _PIECE_ROWS)
    indptr = np.concatenate([[0], np.cumsum(np.diff(rows.indptr)[order])]).astype(np.int64)
    values = (rows[order[i : i + _PIECE_ROWS]].data.astype(shuffled.dtype, copy=False) for i in cuts)
    index = index_dtype(shuffled.n_features)
    columns = (rows[order[i : i + _PIECE_ROWS]].indices.astype(index, copy=False) for i in cuts)
    write_array(shuffled.run_path(run), chain([table, places, indptr], values, columns))
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
    """Return a good size for runs and buckets: pieces of some 128 KiB, without taking much of the limit.

    A piece is what one run has of one bucket: ``runs x buckets`` pieces cover all rows.

    Examples
    --------
    >>> bucket_bytes(4_000_000, 256, 2**29) // 2**20, bucket_bytes(400_000_000, 256, 2**34) // 2**20
    (16, 110)
    """
    balanced = int((n_rows * row_bytes * 2**17) ** 0.5)
    return max(2**20, min(max(16 * 2**20, balanced), limit_bytes // 32))
