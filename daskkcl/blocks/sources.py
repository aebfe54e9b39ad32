"""Tables of rows, wherever they live: Zarr arrays, dask arrays, xarray DataArrays, numpy arrays.

A source knows its shape and how its rows are stored, and gives dask arrays whose row blocks end where the caller
wants. It computes nothing itself.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..errors import DaskkclWarning, MissingChunkError, StorageError
from ..kernels.rows import SparseRows, float_dtype

__all__ = ["ArraySource", "DaskSource", "Source", "ZarrSource", "check_chunks", "local_path", "read_array", "read_rows"]

_MIN_ANSWER_ROWS = 1024  # data chunked more finely get answers chunked by a multiple
_READ_BYTES = 4 * 2**20  # decoded together in one call to zarr: bounds its temporaries, amortises its overhead


@runtime_checkable
class Source(Protocol):
    """What the schedules need to know of the data."""

    @property
    def n_rows(self) -> int:
        """Rows."""

    @property
    def n_features(self) -> int:
        """Columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """As stored."""

    @property
    def sparse(self) -> bool:
        """Whether blocks are `SparseRows`."""

    @property
    def row_entries(self) -> int:
        """Stored values of a row: of sparse rows, the mean of the fullest few in a line."""

    @property
    def stored(self) -> int:
        """Entries of all rows, if they are sparse."""

    @property
    def row_bytes(self) -> int:
        """Memory of a row in a block."""

    @property
    def mean_bytes(self) -> int:
        """Memory of a row in a random sample: about the mean, with something to spare."""

    @property
    def lazy(self) -> bool:
        """Whether answers about the rows should be lazy too."""

    @property
    def frame(self) -> Any:
        """The dimensions that rows were stacked from (a `Frame`), if answers are to be put back on them."""

    @property
    def unit_rows(self) -> int:
        """Rows that are decoded together."""

    @property
    def unit_bytes(self) -> int:
        """Temporaries of one read beyond the rows themselves."""

    @property
    def row_chunks(self) -> tuple[int, ...]:
        """Rows of each chunk of an answer: as the data are chunked, or several of their chunks if those are tiny."""

    def blocks(self, edges: list[int]) -> Any:
        """Return a dask array of the rows ``edges[0]`` to ``edges[-1]``, chunked at the edges."""

    def check_missing(self, policy: str) -> None:
        """Act on absent chunks."""


class _Table:
    """What all sources take from the array they wrap."""

    array: Any
    entries: int = 0  # of a sparse row; 0: rows are dense
    stored: int = 0  # entries of all sparse rows
    frame: Any = None  # the dimensions that rows were stacked from, if answers are to be put back on them

    @property
    def sparse(self) -> bool:
        return self.entries > 0

    @property
    def row_entries(self) -> int:
        return self.entries or self.n_features

    @property
    def row_bytes(self) -> int:
        if not self.sparse:
            return self.n_features * self.dtype.itemsize
        return self._sparse_bytes(self.entries)

    @property
    def mean_bytes(self) -> int:
        if not self.sparse:
            return self.row_bytes
        return self._sparse_bytes(-(-5 * self.stored // (4 * max(1, self.n_rows))))

    def _sparse_bytes(self, entries: int) -> int:
        return entries * (self.dtype.itemsize + index_dtype(self.n_features).itemsize) + 8

    @property
    def n_rows(self) -> int:
        return int(self.array.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.array.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return float_dtype(self.array.dtype) if self.sparse else np.dtype(self.array.dtype)


@dataclass(frozen=True, eq=False)
class ZarrSource(_Table):
    """A two-dimensional Zarr array. Whole chunks are read, each once a pass.

    Examples
    --------
    >>> import numpy as np, zarr
    >>> z = zarr.create_array({}, data=np.arange(12.0).reshape(6, 2), chunks=(4, 1))
    >>> source = ZarrSource(z)
    >>> source.n_rows, source.n_features, source.unit_rows
    (6, 2, 4)
    >>> source.blocks([0, 3, 6]).chunks
    ((3, 3), (2,))
    """

    array: Any  # zarr.Array
    lazy: bool = True

    @property
    def unit_rows(self) -> int:
        return max(1, int(self.array.chunks[0]))

    @property
    def unit_bytes(self) -> int:
        row_bytes = self.n_features * self.dtype.itemsize
        # zarr decodes whole chunks (padded at the right edge) and then copies: encoded, decoded, and a copy in hand
        columns = -(-self.n_features // self.array.chunks[1]) * self.array.chunks[1]
        return 2 * max(self.unit_rows * columns * self.dtype.itemsize, min(_READ_BYTES, self.n_rows * row_bytes))

    @property
    def row_chunks(self) -> tuple[int, ...]:
        rows = int((self.array.shards or self.array.chunks)[0])
        return regular_chunks(self.n_rows, max(1, rows))

    def slabs(self, edges: list[int]) -> list[int]:
        """Return edges near the given ones that fall between chunks of the store, so that no chunk is read twice."""
        unit = self.unit_rows
        start, stop = edges[0], edges[-1]
        slabs = sorted({start, stop, *(min(stop, -(-edge // unit) * unit) for edge in edges[1:-1])})
        return _spread(slabs, max(np.diff(edges, prepend=edges[0]).max(initial=1), unit))

    def blocks(self, edges: list[int]) -> Any:
        import dask.array as da

        slabs = self.slabs(edges)
        name = f"read-{os.urandom(8).hex()}"
        graph = {(name, i, 0): (read_rows, self.array, a, b) for i, (a, b) in enumerate(itertools.pairwise(slabs))}
        chunks = (tuple(np.diff(slabs).tolist()), (self.n_features,))
        x = da.Array(graph, name, chunks, dtype=self.dtype)
        return _cut(x, edges)

    def check_missing(self, policy: str) -> None:
        check_chunks(self.array, policy)


@dataclass(frozen=True, eq=False)
class DaskSource(_Table):
    """A two-dimensional dask array, chunked in any way, of numpy or scipy CSR blocks."""

    array: Any
    lazy: bool = True
    entries: int = 0
    stored: int = 0
    frame: Any = None

    @property
    def unit_rows(self) -> int:
        return max(1, *self.array.chunks[0]) if self.array.chunks[0] else 1

    @property
    def unit_bytes(self) -> int:
        return 2 * self.unit_rows * self.row_bytes

    @property
    def row_chunks(self) -> tuple[int, ...]:
        return regular_chunks(self.n_rows, self.unit_rows)

    def blocks(self, edges: list[int]) -> Any:
        x = self.array
        if (edges[0], edges[-1]) != (0, self.n_rows):
            x = x[edges[0] : edges[-1]]
        x = _cut(x, edges)
        return x.map_blocks(SparseRows.of, dtype=self.dtype, meta=np.empty((0, 0), self.dtype)) if self.sparse else x

    def check_missing(self, policy: str) -> None:
        """Do nothing: chunks of a dask array are never absent."""


@dataclass(frozen=True, eq=False)
class ArraySource(_Table):
    """A numpy array, or sparse rows in memory: blocks are views."""

    array: Any
    lazy: bool = False
    unit_rows: int = 1
    unit_bytes: int = 0
    entries: int = 0
    stored: int = 0
    frame: Any = None

    @property
    def row_chunks(self) -> tuple[int, ...]:
        return regular_chunks(self.n_rows, max(1, min(self.n_rows, 2**20)))

    def blocks(self, edges: list[int]) -> Any:
        import dask.array as da

        # The blocks are put into the graph as views, one a task: nothing is copied on threads, and a worker
        # elsewhere is sent its own rows only.
        name = f"rows-{os.urandom(8).hex()}"
        graph = {(name, i, 0): self.array[a:b] for i, (a, b) in enumerate(itertools.pairwise(edges))}
        return da.Array(graph, name, (tuple(np.diff(edges).tolist()), (self.n_features,)), dtype=self.dtype)

    def check_missing(self, policy: str) -> None:
        """Do nothing: an array in memory is complete."""


def check_chunks(array: Any, policy: str) -> None:
    """Act on absent chunks: count and warn, refuse and name the first, or be silent."""
    if policy == "fill":
        return
    from zarr.core.sync import sync

    from .whole import refuse_absent, try_again

    grid = array.shards or array.chunks
    shape = tuple(-(-n // c) for n, c in zip(array.shape, grid, strict=True))
    total = math.prod(shape)
    absent = total - try_again(lambda: sync(_n_stored(array, shape)))
    if absent <= 0:
        refuse_absent(array)  # one that is absent later was lost
        return
    where = f"{absent:,} of {total:,} chunks of {describe(array)} are absent"
    if policy == "warn":
        warnings.warn(
            f"{where} and read as the fill value ({array.fill_value}). That is legal when those chunks "
            "hold nothing else, and also what a lost file looks like. missing='raise' refuses such data, "
            "missing='fill' accepts them silently.",
            DaskkclWarning,
            stacklevel=2,
        )
        return
    store_path = array.store_path
    for index in np.ndindex(*shape):
        key = array.metadata.encode_chunk_key(index)
        if not sync((store_path / key).exists()):
            raise MissingChunkError(
                f"{where}; the first is {key!r} (rows {index[0] * grid[0]:,} and on). Restore it, or pass "
                "missing='fill' if absent chunks really hold the fill value."
            )


def index_dtype(n_features: int) -> np.dtype[Any]:
    """Return what column numbers are kept in."""
    return np.dtype(np.int32 if n_features <= np.iinfo(np.int32).max else np.int64)


def read_rows(array: Any, start: int, stop: int) -> Any:
    """Read rows of a Zarr array, or of what has a way of its own to read them."""
    return array.read(start, stop) if hasattr(array, "read") else read_array(array, start, stop)


def read_array(array: Any, start: int, stop: int, dtype: Any = None) -> NDArray[Any]:
    """Read along the first axis of a Zarr array, a few chunks at a time; a chunk that cannot be read is named."""
    from .files import ChunkFiles

    files = ChunkFiles.of(array)
    if files is not None and 0 <= start < stop <= array.shape[0]:
        return files.read(start, stop, partial(_read, array), dtype)
    unit = max(1, int(array.chunks[0]))
    row_bytes = max(1, math.prod(array.shape[1:]) * np.dtype(array.dtype).itemsize)
    step = unit * max(1, _READ_BYTES // (unit * row_bytes))
    if 0 <= start < stop <= (start // step + 1) * step:  # read at once: no copy
        return np.ascontiguousarray(_read(array, start, stop), dtype=dtype)
    out = np.empty((stop - start, *array.shape[1:]), dtype=dtype or array.dtype)
    position = start
    while position < stop:
        end = min(stop, (position // step + 1) * step)
        out[position - start : end - start] = _read(array, position, end)
        position = end
    return out


def _read(array: Any, start: int, stop: int) -> Any:
    """Read rows in one call; an error names the chunk."""
    try:
        return array[start:stop]
    except StorageError as error:  # which names its key already
        first, last = _rows_of_key(array, start, stop, str(error))
        raise type(error)(f"{error} That is in rows {first:,} to {last:,}.") from error
    except Exception as error:
        raise _name_bad_chunk(array, start, stop, error) from error


def _rows_of_key(array: Any, start: int, stop: int, message: str) -> tuple[int, int]:
    """Return the rows of the chunk, or shard, whose key a message names; all that were read if it names none."""
    sizes = array.shards or array.chunks
    others = [range(-(-n // size)) for n, size in zip(array.shape[1:], sizes[1:], strict=True)]
    for index in itertools.product(range(start // sizes[0], -(-stop // sizes[0])), *others):
        if repr(array.metadata.encode_chunk_key(index)) in message:
            return index[0] * sizes[0], min((index[0] + 1) * sizes[0], array.shape[0])
    return start, stop


def _name_bad_chunk(array: Any, start: int, stop: int, error: Exception) -> StorageError:
    """Find the first unreadable chunk among some rows and say so."""
    lengths, grid = array.chunks, array.shards or array.chunks
    firsts = range(start // lengths[0], -(-stop // lengths[0]))
    others = [range(-(-n // length)) for n, length in zip(array.shape[1:], lengths[1:], strict=True)]
    for index in itertools.product(firsts, *others):
        corner = [i * length for i, length in zip(index, lengths, strict=True)]
        try:
            array[tuple(slice(a, a + length) for a, length in zip(corner, lengths, strict=True))]
        except Exception as cause:
            key = array.metadata.encode_chunk_key(tuple(a // size for a, size in zip(corner, grid, strict=True)))
            last = min(corner[0] + lengths[0], array.shape[0])
            return StorageError(
                f"Chunk {key!r} of {describe(array)} (rows {corner[0]:,} to {last:,}) cannot be read: "
                f"{type(cause).__name__}: {cause}. It is truncated, damaged or out of reach; restore it."
            )
    return StorageError(f"Rows {start:,} to {stop:,} of {describe(array)} cannot be read: {error}.")


def local_path(path: str) -> str:
    """Return a ``file://`` URL as the path it names, anything else as it is.

    Examples
    --------
    >>> local_path("file:///data/pixels.zarr"), local_path("s3://bucket/pixels.zarr")
    ('/data/pixels.zarr', 's3://bucket/pixels.zarr')
    """
    from urllib.parse import unquote

    return unquote(path.removeprefix("file://")) if path.startswith("file://") else path


def regular_chunks(n: int, rows: int) -> tuple[int, ...]:
    """Return chunks of so many rows, or of a multiple if they are few."""
    rows *= -(-_MIN_ANSWER_ROWS // rows)
    return tuple(min(rows, n - start) for start in range(0, n, rows))


def _spread(edges: list[int], longest: int) -> list[int]:
    """Drop edges that would make slabs of less than half the longest: fewer, larger reads."""
    kept = [edges[0]]
    for edge in edges[1:-1]:
        if edge - kept[-1] >= longest // 2:
            kept.append(edge)
    return [*kept, edges[-1]]


def _cut(x: Any, edges: list[int]) -> Any:
    """Cut a dask array at the edges, all columns together, in one step (each chunk is used where it is)."""
    chunks = (tuple(np.diff(edges).tolist()), (x.shape[1],))
    return x if x.chunks == chunks else x.rechunk(chunks, threshold=10**9, method="tasks")


def describe(array: Any) -> str:
    """Return where an array is."""
    return str(getattr(array, "store_path", "the array"))


async def _n_stored(array: Any, shape: tuple[int, ...]) -> int:
    """Count the chunks (or shards) of a grid that are there, in constant memory however many there are."""
    path, count = array.store_path.path, 0
    prefix = f"{path}/" if path else ""
    async for key in array.store_path.store.list_prefix(prefix):
        name = key.removeprefix(prefix)
        index = tuple(int(number) for number in re.findall(r"\d+", name))
        inside = len(index) == len(shape) and all(i < n for i, n in zip(index, shape, strict=True))
        count += inside and array.metadata.encode_chunk_key(index) == name
    return count
