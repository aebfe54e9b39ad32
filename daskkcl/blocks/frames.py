"""Where rows stand in a DataArray: the dimensions they were stacked from, and answers put back on these."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Frame", "boxes", "plain_values"]

_MAX_CHUNK_BYTES = 4 * 2**20
# Attributes that say something of the values, and so nothing of labels.
_OF_VALUES = {"units", "standard_name", "long_name", "valid_min", "valid_max", "valid_range", "actual_range"}
_OF_VALUES |= {"scale_factor", "add_offset", "_FillValue", "missing_value", "cell_methods", "flag_values"}


@dataclass(frozen=True, eq=False)
class Frame:
    """The dimensions of rows, in order, with what an answer about the rows takes over.

    Parameters
    ----------
    dims : tuple of str
        Rows are numbered with the last of them fastest.
    sizes : tuple of int
    coords : xarray.Dataset
        Coordinates on these dimensions and no variables.
    attrs : dict
    feature_dim : str or None
        None: features were the variables of a Dataset.
    feature_names : tuple of str
        Empty if features have no names.

    Examples
    --------
    >>> import xarray as xr
    >>> frame = Frame(("y", "x"), (2, 3), xr.Dataset(coords={"x": [10, 20, 30]}), {"crs": "EPSG:4326"}, "band", ())
    >>> labels = frame.wrap(np.arange(6), "labels")
    >>> labels.sel(x=20).values, labels.attrs
    (array([1, 4]), {'crs': 'EPSG:4326'})
    """

    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    coords: Any
    attrs: dict[str, Any]
    feature_dim: str | None
    feature_names: tuple[str, ...]

    @classmethod
    def of(cls, data: Any, feature_dim: str | None, names: tuple[str, ...]) -> Frame:
        """Return the frame of a DataArray (without its feature dimension) or of a Dataset of equal variables."""
        import xarray as xr

        one = data if isinstance(data, xr.DataArray) else next(iter(data.data_vars.values()))
        dims = tuple(str(dim) for dim in one.dims if dim != feature_dim)
        kept = {name: coord.variable for name, coord in data.coords.items() if set(coord.dims) <= set(dims)}
        attrs = {name: value for name, value in data.attrs.items() if name not in _OF_VALUES}
        sizes = tuple(int(one.sizes[dim]) for dim in dims)
        return cls(dims, sizes, xr.Dataset(coords=kept), attrs, feature_dim, names)

    def column_dim(self, name: str) -> str:
        """Return the name of a further dimension: that, or another if it is taken."""
        return name if name not in self.dims else self.column_dim(f"{name}_")

    def wrap(self, values: Any, name: str, columns: str = "cluster") -> Any:
        """Return values of rows, (n,) or (n, c), numpy or dask, as a DataArray on the dimensions of the rows."""
        import xarray as xr

        shaped = self.shaped(values)
        dims = self.dims if values.ndim == 1 else (*self.dims, self.column_dim(columns))
        return xr.DataArray(shaped, dims=dims, coords=self.coords.coords, attrs=self.attrs, name=name)

    def shaped(self, values: Any) -> Any:
        """Return values of rows in the shape of the dimensions; dask arrays lazily, in chunks of contiguous rows."""
        if isinstance(values, np.ndarray):
            return values.reshape(*self.sizes, *values.shape[1:])
        import dask.array as da
        from dask.highlevelgraph import HighLevelGraph

        row_bytes = math.prod(values.shape[1:]) * values.dtype.itemsize
        shapes = self._grid(row_bytes)
        flat = values.rechunk({0: self.row_chunks(row_bytes), **dict.fromkeys(range(1, values.ndim), -1)})
        name, columns = f"on-dims-{os.urandom(8).hex()}", values.shape[1:]
        layer: dict[Any, Any] = {}
        for number, (index, shape) in enumerate(zip(np.ndindex(*map(len, shapes)), itertools.product(*shapes))):
            more = (0,) * len(columns)
            layer[(name, *index, *more)] = (np.reshape, (flat.name, number, *more), (*shape, *columns))
        graph = HighLevelGraph.from_collections(name, layer, dependencies=[flat])
        grid = (*(tuple(axis) for axis in shapes), *((length,) for length in columns))
        return da.Array(graph, name, grid, dtype=values.dtype)

    def chunks(self, row_bytes: int) -> tuple[int, ...]:
        """Return the chunks of an answer: contiguous rows, of four mebibytes at most where one line allows it.

        Examples
        --------
        >>> Frame(("t", "y", "x"), (9, 4000, 5000), None, {}, None, ()).chunks(4)
        (1, 209, 5000)
        """
        inner = 1
        for axis in range(len(self.sizes) - 1, -1, -1):
            if inner * self.sizes[axis] * row_bytes > _MAX_CHUNK_BYTES:
                line = max(1, _MAX_CHUNK_BYTES // (inner * row_bytes))
                return (*(1,) * axis, line, *self.sizes[axis + 1 :])
            inner *= self.sizes[axis]
        return self.sizes

    def _grid(self, row_bytes: int) -> list[list[int]]:
        """Return the lengths of the chunks of an answer along every dimension."""
        sides = zip(self.sizes, self.chunks(row_bytes), strict=True)
        return [[min(side, n - a) for a in range(0, max(1, n), side)] for n, side in sides]

    def row_chunks(self, row_bytes: int) -> tuple[int, ...]:
        """Return the rows of each chunk of an answer."""
        return tuple(math.prod(shape) for shape in itertools.product(*self._grid(row_bytes)))


def boxes(sizes: tuple[int, ...], start: int, stop: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Cut a range of rows into boxes, in the order of the rows: at most two for each dimension but one.

    Examples
    --------
    >>> list(boxes((4, 10), 7, 32))
    [((0, 1), (7, 10)), ((1, 3), (0, 10)), ((3, 4), (0, 2))]
    """
    if start >= stop:
        return
    if len(sizes) == 1:
        yield ((start, stop),)
        return
    inner = math.prod(sizes[1:])
    first, low = divmod(start, inner)
    last, high = divmod(stop, inner)
    if first == last:
        yield from (((first, first + 1), *box) for box in boxes(sizes[1:], low, high))
        return
    if low:
        yield from (((first, first + 1), *box) for box in boxes(sizes[1:], low, inner))
        first += 1
    if first < last:
        yield ((first, last), *((0, size) for size in sizes[1:]))
    if high:
        yield from (((last, last + 1), *box) for box in boxes(sizes[1:], 0, high))


def plain_values(values: Any, frame: Frame | None = None) -> NDArray[Any] | Any:
    """Return values on dimensions as values of rows, one after another; anything else as it is."""
    if type(values).__module__.partition(".")[0] != "xarray":
        return values
    if frame is not None and set(values.dims) == set(frame.dims):
        values = values.transpose(*frame.dims)
    return values.data.reshape(-1)
