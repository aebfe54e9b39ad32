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
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..errors import DaskkclWarning, InvalidInputError, MissingChunkError, StorageError, WrongTypeError, did_you_mean

__all__ = ["ArraySource", "DaskSource", "Source", "ZarrSource", "local_path", "open_source", "read_rows"]

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
    def lazy(self) -> bool:
        """Whether answers about the rows should be lazy too."""

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

    @property
    def n_rows(self) -> int:
        return int(self.array.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.array.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.array.dtype)


@dataclass(frozen=True, eq=False)
class ZarrSource(_Table):
    """A two-dimensional Zarr array. Whole chunks are read, each once a pass.

    Examples
    --------
    >>> import numpy as np, zarr
    >>> z = zarr.create_array({}, data=np.arange(12.0).reshape(6, 2), chunks=(4, 1))
    >>> source = open_source(z)
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
        return _regular_chunks(self.n_rows, max(1, rows))

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
        """Act on absent chunks: count and warn, refuse and name the first, or be silent."""
        if policy == "fill":
            return
        from zarr.core.sync import sync

        grid = self.array.shards or self.array.chunks
        shape = tuple(-(-n // c) for n, c in zip(self.array.shape, grid, strict=True))
        total = math.prod(shape)
        absent = total - sync(_n_stored(self.array, shape))
        if absent <= 0:
            return
        where = f"{absent:,} of {total:,} chunks of {_describe(self.array)} are absent"
        if policy == "warn":
            warnings.warn(
                f"{where} and read as the fill value ({self.array.fill_value!r}). That is legal when those chunks "
                "hold nothing else, and also what a lost file looks like. missing='raise' refuses such data, "
                "missing='fill' accepts them silently.",
                DaskkclWarning,
                stacklevel=2,
            )
            return
        store_path = self.array.store_path
        for index in np.ndindex(*shape):
            key = self.array.metadata.encode_chunk_key(index)
            if not sync((store_path / key).exists()):
                raise MissingChunkError(
                    f"{where}; the first is {key!r} (rows {index[0] * grid[0]:,} and on). Restore it, or pass "
                    "missing='fill' if absent chunks really hold the fill value."
                )


@dataclass(frozen=True, eq=False)
class DaskSource(_Table):
    """A two-dimensional dask array, chunked in any way."""

    array: Any
    lazy: bool = True

    @property
    def unit_rows(self) -> int:
        return max(1, *self.array.chunks[0]) if self.array.chunks[0] else 1

    @property
    def unit_bytes(self) -> int:
        return 2 * self.unit_rows * self.n_features * self.dtype.itemsize

    @property
    def row_chunks(self) -> tuple[int, ...]:
        return _regular_chunks(self.n_rows, self.unit_rows)

    def blocks(self, edges: list[int]) -> Any:
        x = self.array
        if (edges[0], edges[-1]) != (0, self.n_rows):
            x = x[edges[0] : edges[-1]]
        return _cut(x, edges)

    def check_missing(self, policy: str) -> None:
        """Do nothing: chunks of a dask array are never absent."""


@dataclass(frozen=True, eq=False)
class ArraySource(_Table):
    """A numpy array: blocks are views."""

    array: NDArray[Any]
    lazy: bool = False
    unit_rows: int = 1
    unit_bytes: int = 0

    @property
    def row_chunks(self) -> tuple[int, ...]:
        return _regular_chunks(self.n_rows, max(1, min(self.n_rows, 2**20)))

    def blocks(self, edges: list[int]) -> Any:
        import dask.array as da

        # The blocks are put into the graph as views, one a task: nothing is copied on threads, and a worker
        # elsewhere is sent its own rows only.
        name = f"rows-{os.urandom(8).hex()}"
        graph = {(name, i, 0): self.array[a:b] for i, (a, b) in enumerate(itertools.pairwise(edges))}
        return da.Array(graph, name, (tuple(np.diff(edges).tolist()), (self.n_features,)), dtype=self.dtype)

    def check_missing(self, policy: str) -> None:
        """Do nothing: an array in memory is complete."""


def read_rows(array: Any, start: int, stop: int) -> NDArray[Any]:
    """Read rows of a Zarr array, a few chunks at a time; a chunk that cannot be read is named."""
    unit = max(1, int(array.chunks[0]))
    row_bytes = max(1, array.shape[1] * np.dtype(array.dtype).itemsize)
    step = unit * max(1, _READ_BYTES // (unit * row_bytes))
    out = np.empty((stop - start, array.shape[1]), dtype=array.dtype)
    position = start
    while position < stop:
        end = min(stop, (position // step + 1) * step)
        try:
            out[position - start : end - start] = array[position:end]
        except Exception as error:
            raise _name_bad_chunk(array, position, end, error) from error
        position = end
    return out


def _name_bad_chunk(array: Any, start: int, stop: int, error: Exception) -> StorageError:
    """Find the first unreadable chunk among some rows and say so."""
    rows, columns = array.chunks
    for i in range(start // rows, -(-stop // rows)):
        for j in range(-(-array.shape[1] // columns)):
            try:
                array[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
            except Exception as cause:
                grid = array.shards or array.chunks
                key = array.metadata.encode_chunk_key((i * rows // grid[0], j * columns // grid[1]))
                last = min((i + 1) * rows, array.shape[0])
                return StorageError(
                    f"Chunk {key!r} of {_describe(array)} (rows {i * rows:,} to {last:,}) cannot be read: "
                    f"{type(cause).__name__}: {cause}. It is truncated, damaged or out of reach; restore it."
                )
    return StorageError(f"Rows {start:,} to {stop:,} of {_describe(array)} cannot be read: {error}.")


def open_source(
    data: Any, component: str | None = None, storage_options: dict[str, Any] | None = None
) -> ZarrSource | DaskSource | ArraySource:
    """Make a source of what the user passed, or say in one sentence why that cannot be.

    Parameters
    ----------
    data : path, URL, zarr.Array, zarr.Group, dask array, xarray.DataArray or array-like
    component : str, optional
        The array inside a group.
    storage_options : dict, optional
        For URLs, as fsspec takes them.
    """
    source: ZarrSource | DaskSource | ArraySource
    if isinstance(data, (str, os.PathLike)):
        data = _open_zarr(local_path(os.fspath(data)), storage_options)
    elif storage_options is not None:
        raise InvalidInputError("storage_options only goes with a path or URL.")
    module = type(data).__module__.partition(".")[0]
    if module == "zarr":
        source = ZarrSource(_guarded(_component(_opened(data), component)))
    elif component is not None:
        raise InvalidInputError("component= only goes with a Zarr path or group.")
    elif module == "xarray":
        source = _from_xarray(data)
    elif module == "dask":
        source = DaskSource(_from_dask(data))
    else:
        source = ArraySource(np.asarray(data))
    _check_table(source)
    return source


def local_path(path: str) -> str:
    """Return a ``file://`` URL as the path it names, anything else as it is.

    Examples
    --------
    >>> local_path("file:///data/pixels.zarr"), local_path("s3://bucket/pixels.zarr")
    ('/data/pixels.zarr', 's3://bucket/pixels.zarr')
    """
    from urllib.parse import unquote

    return unquote(path.removeprefix("file://")) if path.startswith("file://") else path


def _opened(data: Any) -> Any:
    """Return the array or group of a zarr store; arrays and groups as they are."""
    import zarr

    if isinstance(data, (zarr.Array, zarr.Group)):
        return data
    try:
        return zarr.open(data, mode="r")
    except Exception as error:
        raise InvalidInputError(
            f"A {type(data).__name__} cannot be opened as Zarr ({type(error).__name__}: {error}). Pass a zarr.Array, "
            "or a zarr.Group or store with component='name'."
        ) from error


def _open_zarr(path: str, storage_options: dict[str, Any] | None) -> Any:
    import zarr

    if "://" not in path and not os.path.exists(path):
        folder = os.path.dirname(os.path.abspath(path))
        near = did_you_mean(os.path.basename(path), os.listdir(folder)) if os.path.isdir(folder) else ""
        raise InvalidInputError(f"There is nothing at {path!r}.{near}")
    try:
        return zarr.open(path, mode="r", storage_options=storage_options)
    except Exception as error:
        raise InvalidInputError(
            f"{path!r} cannot be opened as Zarr ({type(error).__name__}: {error}). Pass the folder or URL of a Zarr "
            "array, or of a group with component='name'."
        ) from error


def _component(data: Any, component: str | None) -> Any:
    import zarr

    if isinstance(data, zarr.Array):
        if component is not None:
            raise InvalidInputError(f"This is a Zarr array, not a group: leave out component={component!r}.")
        return data
    names = _array_names(data)
    if component is None:
        tables = [name for name in names if data[name].ndim == 2]
        listed = f" It has {', '.join(map(repr, names[:8]))}." if names else " It has no arrays."
        example = f", for example component={tables[0]!r}" if tables else ""
        raise InvalidInputError(f"This is a Zarr group: say which array with component={example}.{listed}")
    try:
        array = data[component]
    except (KeyError, TypeError, ValueError, AttributeError):
        near = did_you_mean(str(component), names)
        raise InvalidInputError(
            f"The group has no component {component!r}.{near} It has: {', '.join(names[:8]) or 'no arrays'}."
        ) from None
    if not isinstance(array, zarr.Array):
        inside = ", ".join(f"{component}/{name}" for name in _array_names(array)[:8])
        raise InvalidInputError(f"{component!r} is a group, not an array. It has: {inside or 'nothing'}.")
    return array


def _guarded(array: Any) -> Any:
    if array.shards is None:
        return array
    from .whole import read_whole

    return read_whole(array)


def _array_names(group: Any, prefix: str = "", depth: int = 3) -> list[str]:
    names = [prefix + name for name in sorted(group.array_keys())]
    if depth:
        for name in sorted(group.group_keys()):
            names += _array_names(group[name], f"{prefix}{name}/", depth - 1)
    return names


def _from_xarray(data: Any) -> DaskSource | ArraySource:
    import xarray as xr

    if not isinstance(data, xr.DataArray):
        raise InvalidInputError("Pass one variable of the Dataset: a DataArray of rows and features.")
    if data.chunks is None and not data.variable._in_memory:  # opened without dask: looking at it would read it all
        data = data.chunk(data.encoding.get("preferred_chunks") or "auto")
    return DaskSource(_from_dask(data.data)) if data.chunks is not None else ArraySource(np.asarray(data.data))


def _from_dask(data: Any) -> Any:
    import dask.array as da

    if not isinstance(data, da.Array):
        raise InvalidInputError(f"A {type(data).__name__} is not an array; use .to_dask_array(lengths=True) or so.")
    if any(np.isnan(chunk) for chunks in data.chunks for chunk in chunks):
        raise InvalidInputError("The dask array has chunks of unknown size; call .compute_chunk_sizes() on it first.")
    if type(data._meta) is not np.ndarray:
        raise WrongTypeError(
            f"The blocks of the dask array are of type {type(data._meta).__name__}; make them numpy arrays, for "
            "example with .map_blocks(lambda block: block.toarray()) if they are sparse."
        )
    return data


def _check_table(source: ZarrSource | DaskSource | ArraySource) -> None:
    shape = source.array.shape
    if len(shape) != 2:
        hint = " Reshape your data with .reshape(-1, 1) if it is one feature." if len(shape) == 1 else ""
        raise InvalidInputError(
            f"Expected 2D array, got {len(shape)}D array instead (shape {shape}): rows are objects, columns are "
            f"features.{hint}"
        )
    if source.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"The data are of dtype {source.dtype}; daskkcl clusters real numbers (float, integer or bool). "
            + ("Complex data not supported." if source.dtype.kind == "c" else "Encode them as numbers first.")
        )
    if shape[0] == 0 or shape[1] == 0:
        what, name = (shape[0], "sample") if shape[0] == 0 else (shape[1], "feature")
        raise InvalidInputError(f"Found array with {what} {name}(s) (shape={shape}) while a minimum of 1 is required.")


def _regular_chunks(n: int, rows: int) -> tuple[int, ...]:
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


def _describe(array: Any) -> str:
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
