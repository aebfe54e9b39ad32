"""Tables that are only numbers: how many rows and columns, how they would be stored. For plans without data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .sources import _Table, regular_chunks

__all__ = ["ShapeSource", "good_chunk_rows"]

_CHUNK_BYTES = 8 * 2**20
_READ_BYTES = 4 * 2**20


def good_chunk_rows(row_bytes: int) -> int:
    """Return the rows of a chunk of about eight mebibytes: large enough to read fast, small enough for any limit.

    Examples
    --------
    >>> good_chunk_rows(256), good_chunk_rows(4), good_chunk_rows(2**30)
    (32768, 1048576, 1)
    """
    rows = max(1, min(2**20, _CHUNK_BYTES // max(1, row_bytes)))
    return 1 << (rows.bit_length() - 1)


@dataclass(frozen=True)
class _Shape:
    shape: tuple[int, int]
    dtype: np.dtype[Any]


@dataclass(frozen=True, eq=False)
class ShapeSource(_Table):
    """What a plan needs to know of a table that need not exist.

    Examples
    --------
    >>> source = ShapeSource.of(10**10, 64, "float32")
    >>> source.n_rows, source.row_bytes, source.unit_rows, source.lazy
    (10000000000, 256, 32768, True)
    """

    array: _Shape
    unit_rows: int
    entries: int = 0
    stored: int = 0
    lazy: bool = True

    @staticmethod
    def of(n_rows: int, n_features: int, dtype: Any, chunk_rows: int | None = None, entries: int = 0) -> ShapeSource:
        """Return a table of so many rows, chunked well unless told otherwise, sparse if rows have `entries`."""
        stored = np.dtype(dtype)
        rows = chunk_rows or good_chunk_rows((entries or n_features) * stored.itemsize)
        return ShapeSource(_Shape((n_rows, n_features), stored), min(rows, n_rows), entries, entries * n_rows)

    @property
    def unit_bytes(self) -> int:
        return 2 * max(self.unit_rows * self.row_bytes, min(_READ_BYTES, self.n_rows * self.row_bytes))

    @property
    def row_chunks(self) -> tuple[int, ...]:
        return regular_chunks(self.n_rows, self.unit_rows)

    def blocks(self, edges: list[int]) -> Any:
        raise AttributeError("There are no rows here, only their shape.")

    def check_missing(self, policy: str) -> None:
        """Do nothing: there are no chunks."""
