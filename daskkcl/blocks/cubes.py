"""Cubes: rows stacked from several dimensions, features along another, in any order and any chunks.

A range of rows is a few boxes of the cube. A box is read chunk by chunk, each put into its place and let go, so that
reading holds the rows that were asked for and one chunk, however the cube is stored.
"""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DaskkclWarning, InvalidInputError, StorageError, WrongTypeError, did_you_mean
from .frames import Frame, boxes
from .sources import ArraySource, DaskSource, _cut, _spread, _Table, read_rows, regular_chunks

__all__ = ["Cube", "CubeSource", "open_frame"]

_SLAB_BYTES = 128 * 2**20  # read together at most
_LEAST_SLAB_BYTES = 4 * 2**20
_SHARE = 16  # of what a memory limit leaves: several slabs are in flight, each with a copy
_MANY_READS = 4


@dataclass(frozen=True, eq=False)
class _Lazy:
    """A dask array whose chunks are computed one at a time, inside of a task."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[tuple[int, ...], ...]
    name: str
    graph: dict[Any, Any] = field(repr=False)

    @classmethod
    def of(cls, array: Any) -> _Lazy:
        keys = [(array.name, *index) for index in np.ndindex(*array.numblocks)]
        graph = dict(array.__dask_optimize__(array.__dask_graph__(), keys))
        return cls(array.shape, array.dtype, array.chunks, array.name, graph)

    def pieces(self, region: tuple[tuple[int, int], ...]) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
        """Yield the parts of a region, chunk by chunk: where they stand in it, and their values."""
        from dask.local import get_sync
        from dask.optimization import cull

        axes = [_overlaps(chunks, low, high) for chunks, (low, high) in zip(self.chunks, region, strict=True)]
        for combination in itertools.product(*axes):
            key: Any = (self.name, *(number for number, _, _ in combination))
            try:
                block = np.asarray(get_sync(cull(self.graph, [key])[0], key))
            except Exception as error:
                raise StorageError(
                    f"Chunk {key[1:]} of the DataArray cannot be read: {type(error).__name__}: {error}."
                ) from error
            yield tuple(place for _, place, _ in combination), block[tuple(inside for _, _, inside in combination)]


@dataclass(frozen=True, eq=False)
class _Loaded:
    """A numpy array."""

    array: NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def pieces(self, region: tuple[tuple[int, int], ...]) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
        """Yield the region itself: a view."""
        yield (slice(None),) * len(region), self.array[tuple(slice(*ends) for ends in region)]


def _overlaps(chunks: tuple[int, ...], low: int, high: int) -> list[tuple[int, slice, slice]]:
    """Return the chunks that have a part in a range: number, where that stands in the range, where in the chunk."""
    edges = np.concatenate([[0], np.cumsum(chunks)])
    first, last = int(np.searchsorted(edges, low, "right")) - 1, int(np.searchsorted(edges, high, "left"))
    found = []
    for number in range(first, last):
        a, b = max(low, int(edges[number])), min(high, int(edges[number + 1]))
        if a < b:
            found.append((number, slice(a - low, b - low), slice(a - int(edges[number]), b - int(edges[number]))))
    return found


@dataclass(frozen=True, eq=False)
class _Part:
    """Some features of a cube: an array whose axes are the dimensions of rows, and perhaps the features.

    `axes` are the axes of the rows' dimensions in their order; `feature_axis` is None for a variable of a Dataset.
    """

    array: _Lazy | _Loaded
    axes: tuple[int, ...]
    feature_axis: int | None
    first: int

    @property
    def n_features(self) -> int:
        return 1 if self.feature_axis is None else self.array.shape[self.feature_axis]

    def fill(self, out: NDArray[Any], box: tuple[tuple[int, int], ...]) -> None:
        """Copy a box into an array of the rows' dimensions and features."""
        region: list[tuple[int, int]] = [(0, self.n_features)] * len(self.array.shape)
        for axis, ends in zip(self.axes, box, strict=True):
            region[axis] = ends
        order = self.axes if self.feature_axis is None else (*self.axes, self.feature_axis)
        for places, values in self.array.pieces(tuple(region)):
            values = values.transpose(order)
            target: Any = tuple(places[axis] for axis in order)
            if self.feature_axis is None:
                out[(*target, self.first)] = values
            else:
                columns = target[-1].indices(self.n_features)
                out[(*target[:-1], slice(self.first + columns[0], self.first + columns[1]))] = values


@dataclass(frozen=True, eq=False)
class Cube:
    """A table whose rows are stacked from the dimensions of arrays.

    Examples
    --------
    >>> images = np.arange(24).reshape(2, 3, 4)  # bands, lines, columns
    >>> cube = Cube((3, 4), (_Part(_Loaded(images), (1, 2), 0, 0),))
    >>> cube.shape, cube.read(3, 6)
    ((12, 2), array([[ 3, 15], [ 4, 16], [ 5, 17]]))
    """

    sizes: tuple[int, ...]
    parts: tuple[_Part, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return math.prod(self.sizes), sum(part.n_features for part in self.parts)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the rows."""
        return np.result_type(*(part.array.dtype for part in self.parts))

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return some rows."""
        out, done = np.empty((stop - start, self.shape[1]), dtype=self.dtype), 0
        for box in boxes(self.sizes, start, stop):
            lengths = [high - low for low, high in box]
            count = math.prod(lengths)
            view = out[done : done + count].reshape(*lengths, self.shape[1])
            for part in self.parts:
                part.fill(view, box)
            done += count
        return out


@dataclass(frozen=True, eq=False)
class CubeSource(_Table):
    """A cube in any chunks. Slabs of rows are read; chunks that reach beyond a slab are decoded for each."""

    array: Cube
    frame: Any = None
    lazy: bool = True
    slab_bytes: int = _SLAB_BYTES

    @cached_property
    def _whole(self) -> tuple[int, int]:
        """The rows that read every chunk they touch completely, and the rows after which such units begin again."""
        unit, period = 1, self.n_rows
        for part in self.array.parts:
            if isinstance(part.array, _Lazy):
                lengths = [max(part.array.chunks[axis]) for axis in part.axes]
                leading = next((axis for axis, length in enumerate(lengths) if length > 1), len(lengths) - 1)
                rows = lengths[leading] * math.prod(self.array.sizes[leading + 1 :])
                if rows >= unit:
                    unit, period = rows, math.prod(self.array.sizes[leading:])
        return unit, period

    @property
    def unit_rows(self) -> int:
        unit, _ = self._whole
        if unit * self.row_bytes <= self.slab_bytes:
            return unit
        rows, line = self.slab_bytes // self.row_bytes, 1
        for size in self.array.sizes[::-1]:  # whole lines of as many dimensions as there is room for
            if line * size > rows:
                break
            line *= size
        return max(1, rows // line) * line

    @property
    def reads(self) -> int:
        """How often a chunk is decoded in a pass, about."""
        return -(-self._whole[0] // self.unit_rows)

    @property
    def unit_bytes(self) -> int:
        lazy = [part.array for part in self.array.parts if isinstance(part.array, _Lazy)]
        if not lazy:
            return 0
        chunk = max(math.prod(max(axis) for axis in array.chunks) * array.dtype.itemsize for array in lazy)
        return 2 * min(self.unit_rows, self.n_rows) * self.row_bytes + 3 * chunk

    @property
    def row_chunks(self) -> tuple[int, ...]:
        return regular_chunks(self.n_rows, max(1, min(self.n_rows, max(self.unit_rows, 2**16))))

    def within(self, free_bytes: int) -> CubeSource:
        """Return the source with slabs of a size that a memory limit can bear; warn if chunks are then read often."""
        most = min(_SLAB_BYTES, max(_LEAST_SLAB_BYTES, free_bytes // _SHARE))
        source = replace(self, slab_bytes=most)
        if source.reads > _MANY_READS:
            warnings.warn(
                f"Each chunk of the DataArray is decoded about {source.reads} times a pass: rows are numbered along "
                f"the dimensions {self.frame.dims}, and the chunks that hold the first of them would take "
                f"{self._whole[0] * self.row_bytes / 2**20:,.0f} MiB. Chunks that are short along "
                f"{self.frame.dims[0]!r} and long along {self.frame.dims[-1]!r} are read once, and so are any with a "
                "larger memory_limit.",
                DaskkclWarning,
                stacklevel=2,
            )
        return source

    def slabs(self, edges: list[int]) -> list[int]:
        """Return edges near the given ones that fall between units, so that few chunks are read twice."""
        unit, period, stop = self.unit_rows, self._whole[1], edges[-1]

        def snapped(edge: int) -> int:
            before, inside = divmod(edge, period)
            return min(stop, before * period + min(period, -(-inside // unit) * unit))

        slabs = sorted({edges[0], stop, *(snapped(edge) for edge in edges[1:-1])})
        return _spread(slabs, max(np.diff(edges, prepend=edges[0]).max(initial=1), unit))

    def blocks(self, edges: list[int]) -> Any:
        import dask.array as da

        slabs = self.slabs(edges)
        name = f"read-{os.urandom(8).hex()}"
        graph: dict[Any, Any] = {f"cube-{name}": self.array}
        for i, (a, b) in enumerate(itertools.pairwise(slabs)):
            graph[(name, i, 0)] = (read_rows, f"cube-{name}", a, b)
        x = da.Array(graph, name, (tuple(np.diff(slabs).tolist()), (self.n_features,)), dtype=self.dtype)
        return _cut(x, edges)

    def check_missing(self, policy: str) -> None:
        """Do nothing: xarray has filled what was absent."""


# --- opening -----------------------------------------------------------------------------------------------------


def open_frame(data: Any, feature_dim: str | None) -> CubeSource | DaskSource | ArraySource:
    """Return the source of a DataArray, or of a Dataset whose variables are the features."""
    import xarray as xr

    if isinstance(data, xr.Dataset):
        return _of_dataset(data, feature_dim)
    if not isinstance(data, xr.DataArray):
        raise InvalidInputError(f"A {type(data).__name__} of xarray is neither a DataArray nor a Dataset.")
    feature_dim = _feature_dim(data, feature_dim)
    names = _names(data.coords[feature_dim].values) if feature_dim in data.coords else ()
    frame = Frame.of(data, feature_dim, names)
    data = _chunked(data)
    axis = data.dims.index(feature_dim)
    axes = tuple(data.dims.index(dim) for dim in frame.dims)
    values = data.data
    if data.chunks is None:
        values = _plain(values)
        table = _table_view(values.transpose(*axes, axis))
        if table is not None:
            return ArraySource(table, frame=frame)
        return CubeSource(Cube(frame.sizes, (_Part(_Loaded(values), axes, axis, 0),)), frame, lazy=False)
    values = _dense(values)
    if data.ndim == 2 and axis == 1:
        return DaskSource(values, frame=frame)
    if _persisted(values):  # in the memory of a cluster: only its scheduler can fetch them
        table = values.transpose(*axes, axis).rechunk(dict.fromkeys(range(1, data.ndim), -1))
        return DaskSource(table.reshape(-1, table.shape[-1]), frame=frame)
    return CubeSource(Cube(frame.sizes, (_Part(_Lazy.of(values), axes, axis, 0),)), frame)


def _of_dataset(data: Any, feature_dim: str | None) -> CubeSource:
    import xarray as xr

    if feature_dim is not None:
        raise InvalidInputError("feature_dim= is for a DataArray: of a Dataset the variables are the features.")
    names = list(data.data_vars)
    if not names:
        raise InvalidInputError("The Dataset has no variables to take for features.")
    for name in names:
        if data[name].dtype.kind not in "biuf":
            raise InvalidInputError(
                f"The variable {name!r} is of dtype {data[name].dtype}; daskkcl clusters real numbers. Choose "
                "variables with dataset[['first', 'second']]."
            )
        if data[name].ndim == 0:
            raise InvalidInputError(
                f"The variable {name!r} has no dimensions, so it says nothing of single rows; leave it out with "
                f"dataset.drop_vars({name!r})."
            )
    variables = xr.broadcast(*(_chunked(data[name]) for name in names))
    frame = Frame.of(xr.Dataset(dict(zip(names, variables, strict=True)), attrs=data.attrs), None, _names(names))
    parts, axes = [], tuple(range(len(frame.dims)))
    for number, variable in enumerate(variables):
        values = variable.transpose(*frame.dims)
        lazy = values.chunks is not None
        array: Any = _Lazy.of(_dense(values.data)) if lazy else _Loaded(_plain(values.data))
        if lazy and _persisted(values.data):
            raise WrongTypeError(
                "The Dataset is kept in the memory of a cluster; pass dataset.to_array('feature').transpose(..., "
                "'feature') with feature_dim='feature'."
            )
        parts.append(_Part(array, axes, None, number))
    return CubeSource(Cube(frame.sizes, tuple(parts)), frame, lazy=any(isinstance(p.array, _Lazy) for p in parts))


def _feature_dim(data: Any, feature_dim: str | None) -> str:
    dims = [str(dim) for dim in data.dims]
    if feature_dim is None and len(dims) == 2:
        return dims[1]
    if len(dims) < 2:
        raise InvalidInputError(
            f"Expected 2D array or more, got {len(dims)}D array instead (shape {data.shape}): a DataArray has one "
            "dimension of features, and one or more of rows. Add one with .expand_dims('feature', -1)."
        )
    if feature_dim is None:
        raise InvalidInputError(
            f"The DataArray has the dimensions {', '.join(dims)}: say which of them is that of the features, for "
            f"example feature_dim={dims[-1]!r}. The others become rows."
        )
    if feature_dim not in dims:
        raise InvalidInputError(
            f"feature_dim={feature_dim!r} is no dimension of the DataArray, which has {', '.join(dims)}."
            f"{did_you_mean(str(feature_dim), dims)}"
        )
    return feature_dim


def _names(values: Any) -> tuple[str, ...]:
    values = list(values)
    return tuple(str(value) for value in values) if all(isinstance(value, str) for value in values) else ()


def _chunked(data: Any) -> Any:
    """Return a DataArray that was opened without dask as a chunked one: looking at it would read it all."""
    if data.chunks is None and not data.variable._in_memory:
        return data.chunk(data.encoding.get("preferred_chunks") or "auto")
    return data


def _plain(values: Any) -> NDArray[Any]:
    if not hasattr(values, "todense"):
        return np.asarray(values)
    raise WrongTypeError(
        f"The DataArray holds a {type(values).__name__}; pass it as a scipy CSR array, or make it dense."
    )


def _dense(array: Any) -> Any:
    if type(array._meta) is not np.ndarray:
        raise WrongTypeError("The blocks of the DataArray are sparse; pass its dask array: X.data.")
    if any(np.isnan(chunk) for chunks in array.chunks for chunk in chunks):
        raise InvalidInputError(
            "The DataArray has chunks of unknown size; call .compute_chunk_sizes() on its data first."
        )
    return array


def _persisted(array: Any) -> bool:
    """Say whether chunks are futures of a cluster."""
    return any(type(task).__module__.partition(".")[0] == "distributed" for task in array.dask.values())


def _table_view(values: NDArray[Any]) -> NDArray[Any] | None:
    """Return an array as a table of its last axis without copying it, or None if that cannot be.

    Examples
    --------
    >>> images = np.zeros((4, 5, 3))
    >>> _table_view(images).shape, _table_view(images.transpose(1, 0, 2)) is None
    ((20, 3), True)
    """
    step, strides = None, list(zip(values.shape[:-1], values.strides[:-1], strict=True))
    for size, stride in strides[::-1]:
        if size > 1 and step not in (None, stride):
            return None
        step = step if size == 1 else stride * size
    return values.reshape(math.prod(values.shape[:-1]), values.shape[-1])
