"""Tables in other formats to a well-chunked Zarr, a piece at a time: CSV, Parquet, NPY, HDF5."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import InvalidInputError, MemoryLimitError, StorageError
from ..system import format_bytes, resident_bytes, version
from .shapes import good_chunk_rows
from .tables import Table
from .targets import TABLE, Target

__all__ = ["convert_table"]

_COPIES = 4  # of a piece: as read, as a table, as numbers, encoded
_TEXT = 12  # characters of a number in a CSV, with what the parser holds beside them


def convert_table(
    table: Table,
    out: str,
    dtype: Any = None,
    chunk_rows: int | None = None,
    memory_limit: int | None = None,
    overwrite: bool = False,
    storage_options: dict[str, Any] | None = None,
    advance: Callable[[int], None] = lambda rows: None,
) -> tuple[int, int, int]:
    """Write a table as a Zarr array that appears only when it is complete.

    Returns its rows, its columns, and how many rows have a value that is not finite.
    """
    import zarr

    stored = _stored_dtype(table, dtype)
    d = len(table.columns)
    if d == 0:
        raise InvalidInputError("No columns are left to convert.")
    rows = _piece_rows(table, stored, chunk_rows, memory_limit)
    target = Target(out, overwrite, TABLE, storage_options)
    written, missing = [0], [0]

    def fill(group: Any) -> None:
        array = zarr.create_array(
            group.store,
            name=group.path or None,
            shape=(table.n_rows or 0, d),
            chunks=(rows, d),
            dtype=stored,
            overwrite=True,
            dimension_names=["row", "feature"],
            attributes={TABLE: {"version": version(), "complete": False}, "columns": list(table.columns)},
            config={"write_empty_chunks": True},
        )
        start = 0
        for block in _whole_chunks(table.pieces(rows), rows, d, stored):
            if table.n_rows is None:
                array.resize((start + len(block), d))
            array[start : start + len(block)] = block
            start += len(block)
            missing[0] += int((~np.isfinite(block)).any(axis=1).sum())
            advance(len(block))
        if start == 0:
            raise InvalidInputError("The table has no rows.")
        if table.n_rows not in (None, start):
            raise StorageError(f"The file promised {table.n_rows:,} rows, and has {start:,}: it is truncated.")
        array.attrs[TABLE] = {"version": version(), "complete": True}
        written[0] = start

    target.write(fill)
    return written[0], d, missing[0]


def _whole_chunks(pieces: Iterator[Any], rows: int, d: int, dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
    """Cut pieces of any size into whole chunks, the last one short: every chunk is written once."""
    buffer, filled, seen = np.empty((rows, d), dtype), 0, 0
    for piece in pieces:
        first = 0
        while first < len(piece):
            take = min(rows - filled, len(piece) - first)
            _put(buffer[filled : filled + take], piece[first : first + take], seen + first)
            filled, first = filled + take, first + take
            if filled == rows:
                yield buffer
                filled = 0
        seen += len(piece)
    if filled:
        yield buffer[:filled]


def _put(target: np.ndarray, values: Any, first_row: int) -> None:
    """Copy values in another dtype, and see that none is lost: whole numbers stay what they are."""
    values = np.asarray(values)
    if target.dtype.kind in "iu" and values.dtype.kind in "iufb":
        with np.errstate(invalid="ignore"):
            target[:] = values
        if (target != values).any():
            row = first_row + int(np.flatnonzero((target != values).any(axis=1))[0])
            raise InvalidInputError(f"Row {row:,} has values that are no {target.dtype}; pass --dtype float32.")
        return
    with np.errstate(over="ignore"):
        target[:] = values
    if target.dtype.itemsize < values.dtype.itemsize and (np.isinf(target) & np.isfinite(values)).any():
        raise InvalidInputError(f"There are values too large for {target.dtype}; pass --dtype float64.")


def _stored_dtype(table: Table, dtype: Any) -> np.dtype[Any]:
    if dtype is not None:
        try:
            stored = np.dtype(dtype)
        except TypeError:
            raise InvalidInputError(f"--dtype {dtype}: not a dtype; write float32, float64, uint8 or so.") from None
        if stored.kind not in "biuf":
            raise InvalidInputError(f"--dtype {dtype}: daskkcl clusters real numbers.")
        return stored
    return np.dtype(np.float32) if table.dtype == np.float64 or table.dtype.kind not in "biuf" else table.dtype


def _piece_rows(table: Table, stored: np.dtype[Any], chunk_rows: int | None, limit: int | None) -> int:
    """Return the rows of a chunk that fits the memory limit with all its copies."""
    row_bytes = len(table.columns) * max(stored.itemsize, table.dtype.itemsize, _TEXT if table.n_rows is None else 1)
    rows = chunk_rows or good_chunk_rows(len(table.columns) * stored.itemsize)
    rows = min(rows, table.n_rows or rows)
    if limit is None:
        return max(1, rows)
    base = resident_bytes() + 16 * 2**20 + table.held_bytes
    needed = base + _COPIES * row_bytes * (rows if chunk_rows else min(rows, 64))
    if needed > limit:
        raise MemoryLimitError(
            f"Converting takes at least {format_bytes(needed)}, and memory_limit allows {format_bytes(limit)}. The "
            f"process itself takes {format_bytes(resident_bytes())}"
            + (f", one row group of the file {format_bytes(table.held_bytes)}" if table.held_bytes else "")
            + ". Raise the limit"
            + (", or lower --chunk-rows." if chunk_rows else "."),
            needed_bytes=needed,
            allowed_bytes=limit,
        )
    if not chunk_rows:
        while rows > 64 and base + _COPIES * row_bytes * rows > limit:
            rows //= 2
    return max(1, rows)
