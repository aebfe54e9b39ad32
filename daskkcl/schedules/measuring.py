"""From a block of rows to measurements, tile by tile: in memory, or left in scratch.

Arithmetic goes tile by tile on a fixed grid of global row numbers, so every floating-point operation is the same
whatever block, chunk, thread or worker a row comes with.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.scratch import Scratch, read_array, write_array
from ..errors import InvalidInputError
from ..kernels.rows import SparseRows
from ..maps.base import Map
from ..system import Buffers, Weighed, single_threaded

__all__ = [
    "BadRowError",
    "Measured",
    "Reader",
    "Tile",
    "bad_rows",
    "clean_rows",
    "first_bad_row",
    "measure_block",
    "spill_block",
    "spilled_block",
    "task",
    "tiles",
    "zeroed",
]

Floats = NDArray[Any]


class BadRowError(InvalidInputError):
    """A row has a NaN or an infinity. Carries some such row, not yet the first."""

    def __init__(self, row: int) -> None:
        super().__init__(
            f"Input X contains NaN or infinity, in row {row:,}. nan='drop' leaves such rows out and labels them -1."
        )
        self.row = row

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.row,)


@dataclass(frozen=True, eq=False)
class Reader(Weighed):
    """How rows become measurements.

    Parameters
    ----------
    map_ : Map
    tile_rows : int
        Rows of a tile; blocks begin at multiples of it.
    nan : {"raise", "drop"}
    buffers : Buffers
        Where measurements go that are wanted for a while only.
    """

    lasting = True  # from round to round: workers are sent it once
    map_: Map
    tile_rows: int
    nan: str = "raise"
    buffers: Buffers = field(default_factory=Buffers)

    def with_own_buffers(self) -> Reader:
        """Return the same reader with buffers that go when it goes."""
        return replace(self, buffers=Buffers())


@dataclass(frozen=True, eq=False)
class Tile:
    """Measurements of some rows; `valid` is None when all rows are, else a mask.

    Where rows meet centres in one loop their measurements are never there: `Z` is empty.
    """

    start: int
    Z: Floats
    kappa: Floats
    valid: NDArray[np.bool_] | None

    @property
    def n_valid(self) -> int:
        """Rows that take part."""
        return len(self.kappa) if self.valid is None else int(self.valid.sum())

    def weights(self, of_all_rows: Floats | None) -> Floats | None:
        """Return the weights of the tile's rows, 0 for dropped ones; None when all are 1."""
        if of_all_rows is None:
            return None if self.valid is None else self.valid.astype(np.float64)
        own = of_all_rows[self.start : self.start + len(self.kappa)]
        return own if self.valid is None else own * self.valid


@dataclass(frozen=True, eq=False)
class Measured(Weighed):
    """A block of measurements, in memory or in a scratch file."""

    kappa: Floats
    valid: NDArray[np.bool_] | None
    n_measurements: int
    Z: Floats | None = None
    path: str = ""

    def tile_Z(self, first: int, last: int, out: Floats) -> Floats:
        """Return the measurements of some rows of the block."""
        if self.Z is not None:
            return self.Z[first:last]
        offset = first * self.n_measurements * out.dtype.itemsize
        return read_array(self.path, out.dtype, (last - first, self.n_measurements), offset, out[: last - first])

    def cut(self, rows: int) -> list[Measured]:
        """Return views of so many rows each, the last one perhaps of fewer."""
        assert self.Z is not None
        return [
            Measured(
                self.kappa[a : a + rows],
                None if self.valid is None else self.valid[a : a + rows],
                self.n_measurements,
                self.Z[a : a + rows],
            )
            for a in range(0, len(self.kappa), rows)
        ]

    def give_back(self, reader: Reader) -> None:
        """Let the memory of borrowed measurements, or of the first of their parts, be used again: all have been met."""
        if self.Z is not None:
            reader.buffers.give(self.Z)

    def weights(self, of_all_rows: Floats | None, rows: Any) -> Floats:
        """Return the weights of the block's rows, given their numbers or the first of them; 0 for dropped rows."""
        own = np.ones(len(self.kappa))
        if of_all_rows is not None:
            own = of_all_rows[rows : rows + len(own)] if isinstance(rows, int) else of_all_rows[rows]
        return own if self.valid is None else own * self.valid


def bad_rows(rows: Floats) -> NDArray[np.bool_] | None:
    """Return a mask of rows with a NaN or infinity, or None when there is none."""
    if isinstance(rows, SparseRows):
        wrong = ~np.isfinite(rows.data)
        return np.bincount(rows.row_numbers()[wrong], minlength=len(rows)) > 0 if wrong.any() else None
    if rows.dtype.kind != "f" or rows.size == 0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        # One sum a row is a cheap screen: NaN and infinity survive it. Only a row that fails it is looked at.
        if rows.dtype in (np.float32, np.float64):  # as a product, which is several times as fast
            sums = rows @ np.ones(rows.shape[1], rows.dtype)
        else:
            sums = rows.sum(axis=1, dtype=np.float32 if rows.dtype.itemsize < 4 else None)
        suspect = ~np.isfinite(sums)
    if not suspect.any():
        return None
    suspect[suspect] = ~np.isfinite(rows[suspect]).all(axis=1)
    return suspect if suspect.any() else None


def first_bad_row(rows: Floats, start: int) -> tuple[int, int] | None:
    """Return global row and column of the first NaN or infinity of a block."""
    bad = bad_rows(rows)
    if bad is None:
        return None
    row = int(np.flatnonzero(bad)[0])
    if isinstance(rows, SparseRows):
        one = rows[row : row + 1]
        return start + row, int(one.indices[~np.isfinite(one.data)][0])
    return start + row, int(np.flatnonzero(~np.isfinite(rows[row]))[0])


def tiles(block: Floats | Measured, start: int, reader: Reader) -> Iterator[Tile]:
    """Walk through a block tile by tile. A tile's arrays are only good until the next one."""
    n = len(block.kappa) if isinstance(block, Measured) else len(block)
    step, map_ = reader.tile_rows, reader.map_
    buffer = reader.buffers.take((min(step, n), map_.n_measurements), map_.dtype)
    for first in range(0, n, step):
        last = min(n, first + step)
        if isinstance(block, Measured):
            valid = None if block.valid is None else block.valid[first:last]
            Z, kappa = block.tile_Z(first, last, buffer), block.kappa[first:last]
        else:
            Z, kappa, valid = _measure(block[first:last], start + first, reader, buffer[: last - first])
        yield Tile(start + first, Z, kappa, valid)
    reader.buffers.give(buffer)


def _measure(rows: Floats, start: int, reader: Reader, out: Floats) -> tuple[Floats, Floats, Any]:
    dtype, compiled = reader.map_.dtype, getattr(reader.map_, "compiled", None)
    if compiled is not None and not isinstance(rows, SparseRows):
        kappa = compiled.finite_block(rows, out)
        if kappa is not None:  # norms, which are wanted anyway, say that all rows are numbers
            return out, kappa, None
    rows, bad = clean_rows(rows, start, reader.nan, dtype)
    Z, kappa = reader.map_.measure(rows, out)
    _check_range(np.isfinite(kappa), dtype)
    return Z, kappa, None if bad is None else ~bad


def clean_rows(rows: Floats, start: int, nan: str, dtype: np.dtype[Any]) -> tuple[Floats, NDArray[np.bool_] | None]:
    """Return rows with zeros for those that are dropped, and which these are (None: none), or refuse bad rows."""
    bad = bad_rows(rows)
    if bad is not None:
        if nan == "raise":
            raise BadRowError(start + int(np.flatnonzero(bad)[0]))
        rows = zeroed(rows, bad)
    if isinstance(rows, SparseRows):
        _check_range(np.abs(rows.data) <= np.finfo(dtype).max, dtype)
    elif rows.dtype.kind == "f" and rows.dtype.itemsize > dtype.itemsize:
        _check_range(np.maximum(rows.max(axis=1), -rows.min(axis=1)) <= np.finfo(dtype).max, dtype)
    return rows, bad


def zeroed(rows: Any, where: NDArray[np.bool_]) -> Any:
    """Return rows with zeros for some of them."""
    return rows.without(where) if isinstance(rows, SparseRows) else np.where(where[:, None], rows.dtype.type(0), rows)


def _check_range(fits: NDArray[np.bool_], dtype: np.dtype[Any]) -> None:
    """Refuse rows whose values, or their squares where a kernel takes them, are out of the range of blocks."""
    if not fits.all():
        raise InvalidInputError(
            f"There are values too large for blocks in {dtype}: NaN would come of them. Scale the features"
            + (", or pass dtype='float64'." if dtype == np.float32 else ".")
        )


def task(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hold BLAS to one thread while the function runs, wherever it runs."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with single_threaded():
            return function(*args, **kwargs)

    return run


@task
def measure_block(rows: Floats, start: int, reader: Reader, after: Any = None, borrow: bool = False) -> Measured:
    """Measure a whole block. `after` is something to wait for: it bounds how far measuring runs ahead.

    With `borrow` the measurements are in a buffer of the reader, for `Measured.give_back`.
    """
    n, map_ = len(rows), reader.map_
    shape = (n, map_.n_measurements)
    Z = reader.buffers.take(shape, map_.dtype) if borrow else np.empty(shape, dtype=map_.dtype)
    kappa = np.empty(n, dtype=map_.dtype)
    valid = None
    for first in range(0, n, reader.tile_rows):
        last = min(n, first + reader.tile_rows)
        _, kappa[first:last], ok = _measure(rows[first:last], start + first, reader, Z[first:last])
        if ok is not None:
            valid = np.ones(n, dtype=bool) if valid is None else valid
            valid[first:last] = ok
    return Measured(kappa, valid, map_.n_measurements, Z)


@task
def spill_block(rows: Floats, start: int, reader: Reader, scratch: Scratch) -> Measured:
    """Measure a block and leave the measurements in a scratch file, with what else a run finds again there."""
    block = measure_block(rows, start, reader)
    valid = np.ones(len(block.kappa), dtype=bool) if block.valid is None else block.valid
    path = write_array(spill_path(scratch, start, len(rows)), [block.Z, block.kappa, valid])
    return Measured(block.kappa, block.valid, block.n_measurements, path=path)


def spill_path(scratch: Scratch, start: int, n_rows: int) -> str:
    """Return the scratch file of the measurements of a block."""
    return scratch.file(f"measurements-{start:012d}-{n_rows}")


def spilled_block(start: int, n_rows: int, reader: Reader, scratch: Scratch) -> Measured | None:
    """Return a block that an earlier process of the run has measured and left in scratch, if it is there and whole."""
    path, m, dtype = spill_path(scratch, start, n_rows), reader.map_.n_measurements, np.dtype(reader.map_.dtype)
    try:
        if os.stat(path).st_size != n_rows * ((m + 1) * dtype.itemsize + 1):
            return None
    except OSError:
        return None
    offset = n_rows * m * dtype.itemsize
    kappa = read_array(path, dtype, (n_rows,), offset)
    valid = read_array(path, np.dtype(bool), (n_rows,), offset + n_rows * dtype.itemsize)
    return Measured(kappa, None if valid.all() else valid, m, path=path)
