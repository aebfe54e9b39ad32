"""Maps as plain numbers and arrays, and back again with everything checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError
from ..kernels import Kernel, Polynomial
from ..kernels.rows import SparseRows
from .base import Map
from .explicit import IdentityMap, ProjectedMap
from .features import RandomFourierMap, TensorSketchMap
from .landmarks import LandmarkMap
from .nearest import Cells, NearestLandmarks
from .sparse_kernel import SparseKernelMap
from .spectral import CodeMap, SpectralMap

__all__ = ["ARRAYS", "NAMES", "restore_map", "restore_rows", "store_map", "store_rows"]

Arrays = dict[str, NDArray[Any]]

ARRAYS = {
    # name: number of dimensions
    "landmarks": 2,
    "landmarks_data": 1,  # sparse ones in three parts
    "landmarks_indices": 1,
    "landmarks_indptr": 1,
    "origin": 1,
    "projection": 2,
    "frequencies": 2,
    "buckets": 2,
    "signs": 2,
    "table": 2,
    "cell_centres": 2,
    "cell_members": 2,
    "eigenvalues": 1,
    "eigenvectors": 2,
    "kernel_values": 1,
    "kernel_columns": 1,
    "kernel_starts": 1,
}
_PROJECTED = {"nystroem": "landmarks", "apnc": "landmarks", "nyncut": "landmarks", "svrff": "rff"}
NAMES = ("landmarks", "identity", "rff", "randpoly", "spectral", "sparse", *_PROJECTED)


def store_map(map_: Map) -> tuple[dict[str, int], Arrays]:
    """Return what a map is made of, its kernel apart: whole numbers and arrays."""
    if isinstance(map_, ProjectedMap):
        numbers, arrays = store_map(map_.inner)
        return numbers, {**arrays, "projection": map_.projection}
    if isinstance(map_, LandmarkMap):
        return {"many_rows": int(map_.many_rows)}, store_rows("landmarks", map_.landmarks)
    if isinstance(map_, RandomFourierMap):
        return {}, {"origin": map_.origin, "frequencies": map_.frequencies}
    if isinstance(map_, TensorSketchMap):
        return {"size": map_.size}, {"buckets": map_.buckets, "signs": map_.signs}
    if isinstance(map_, SpectralMap):
        nearest = map_.nearest
        arrays = {"origin": nearest.origin, "table": map_.codes.table} | store_rows("landmarks", nearest.landmarks)
        if nearest.cells is not None:
            arrays |= {"cell_centres": nearest.cells.centres, "cell_members": nearest.cells.members}
        return {"n_neighbors": nearest.n_neighbors, "bits": nearest.bits}, arrays
    if isinstance(map_, SparseKernelMap):
        pairs = {"eigenvalues": map_.values, "eigenvectors": map_.vectors}
        matrix = map_.matrix
        stored = {"kernel_values": matrix.data, "kernel_columns": matrix.indices, "kernel_starts": matrix.indptr}
        settings = {"n_neighbors": map_.n_neighbors, "unit": int(map_.unit)}
        return settings, store_rows("landmarks", map_.rows) | pairs | stored
    assert isinstance(map_, IdentityMap)
    return {}, {"origin": map_.origin}


def restore_map(
    name: str, numbers: dict[str, Any], arrays: Arrays, kernel: Kernel | None, dtype: np.dtype[Any], n_features: int
) -> Map:
    """Return the map that `store_map` took apart, or say what does not fit."""
    parts = _Parts(numbers, arrays, n_features)
    if name in _PROJECTED:
        inner = restore_map(_PROJECTED[name], numbers, arrays, kernel, dtype, n_features)
        projection = parts.array("projection", (inner.n_measurements, None))
        return ProjectedMap(inner, projection, name, residual=name == "nystroem", normalised=name == "nyncut")
    if name == "identity":
        return IdentityMap(parts.array("origin", (n_features,)), dtype)
    if name == "spectral":
        return _spectral(parts, kernel, dtype)
    _need(kernel is not None, "its kernel is missing")
    assert kernel is not None
    if name == "rff":
        origin = parts.array("origin", (n_features,))
        return RandomFourierMap(kernel, origin, parts.array("frequencies", (n_features, None)), dtype)
    if name == "randpoly":
        _need(isinstance(kernel, Polynomial), "its kernel is not polynomial")
        assert isinstance(kernel, Polynomial)
        size, shape = parts.number("size", 1, 2**31), (kernel.degree, n_features + 1)
        buckets, signs = parts.integers("buckets", shape, size), parts.array("signs", shape)
        return TensorSketchMap(kernel, buckets, signs, size, dtype)
    if name == "sparse":
        return _sparse(parts, kernel, dtype)
    landmarks = parts.rows("landmarks")
    kernel.columns(landmarks[:1], dtype)  # refuses what it cannot be used on
    large = "many_rows" in numbers and parts.number("many_rows", 0, 1) == 1
    return LandmarkMap(kernel, landmarks, dtype, large)


def _spectral(parts: _Parts, kernel: Kernel | None, dtype: np.dtype[Any]) -> SpectralMap:
    d = parts.n_features
    landmarks, origin = parts.rows("landmarks"), parts.array("origin", (d,))
    m = len(landmarks)
    p, bits = parts.number("n_neighbors", 1, m), parts.number("bits", 1, 22)
    table = parts.array("table", (m, None))
    cells = None
    if "cell_centres" in parts.arrays or "cell_members" in parts.arrays:
        centres = parts.array("cell_centres", (None, d))
        members = parts.integers("cell_members", (len(centres), None), m)
        _need(members.shape[1] >= p, "its cells have too few landmarks")
        cells = Cells(centres, members)
    if kernel is not None:
        kernel.columns(landmarks[:1], dtype)
    nearest = NearestLandmarks(landmarks, origin, p, bits, dtype, kernel, cells)
    return SpectralMap(nearest, CodeMap(table, p, dtype))


def _sparse(parts: _Parts, kernel: Kernel, dtype: np.dtype[Any]) -> SparseKernelMap:
    from scipy.sparse import csr_array

    rows = parts.rows("landmarks")
    kernel.columns(rows[:1], dtype)
    s = len(rows)
    values = parts.array("eigenvalues", (None,)).astype(np.float64)
    vectors = parts.array("eigenvectors", (s, len(values))).astype(np.float64)
    _need(bool((values > 0).all()), "its eigenvalues are not positive")
    data = parts.array("kernel_values", (None,)).astype(np.float64)
    columns = parts.integers("kernel_columns", (len(data),), s)
    starts = parts.integers("kernel_starts", (s + 1,), len(data) + 1)
    fits = starts[0] == 0 and starts[-1] == len(data) and (np.diff(starts.astype(np.int64)) >= 0).all()
    _need(bool(fits), "its kernel_starts do not fit")
    matrix = csr_array((data, columns.astype(np.int32), starts.astype(np.int32)), shape=(s, s))
    p, unit = parts.number("n_neighbors", 1, 2**31), parts.number("unit", 0, 1)
    return SparseKernelMap(kernel, rows, matrix, values, vectors, p, dtype, bool(unit))


def store_rows(name: str, rows: Any) -> Arrays:
    """Return rows as arrays to be saved: one, or three if they are sparse."""
    if not isinstance(rows, SparseRows):
        return {name: rows}
    return {f"{name}_data": rows.data, f"{name}_indices": rows.indices, f"{name}_indptr": rows.indptr}


def restore_rows(name: str, arrays: Arrays, n_features: int, n_rows: int | None = None) -> Any:
    """Return the rows that `store_rows` took apart, or say what does not fit."""
    return _Parts({}, arrays, n_features).rows(name, n_rows)


class _Parts:
    """Numbers and arrays that are believed only after a look at them."""

    def __init__(self, numbers: dict[str, Any], arrays: Arrays, n_features: int) -> None:
        self.numbers, self.arrays, self.n_features = numbers, arrays, n_features

    def number(self, name: str, least: int, most: int) -> int:
        value = self.numbers.get(name)
        fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        _need(fits, f"its {name} is not a whole number of {least} to {most}")
        return int(value)  # type: ignore[arg-type]

    def array(self, name: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        _need(name in self.arrays, f"its {name} do not fit: there are none")
        array = self.arrays[name]
        pairs = list(zip(array.shape, shape, strict=False))
        fits = array.ndim == len(shape) and all(n == wanted or (wanted is None and n > 0) for n, wanted in pairs)
        _need(fits, f"its {name} do not fit")
        return array

    def rows(self, name: str, n_rows: int | None = None) -> Any:
        if f"{name}_data" not in self.arrays:
            return self.array(name, (n_rows, self.n_features))
        parts = [self.arrays.get(f"{name}_{part}", np.empty(0)) for part in ("data", "indices", "indptr")]
        data, indices, indptr = parts
        fits: Any = data.dtype.kind == "f" and all(part.dtype.kind in "iu" and part.ndim == 1 for part in parts[1:])
        fits = fits and len(indptr) > 1 and len(indices) == len(data) and n_rows in (None, len(indptr) - 1)
        fits = fits and indptr[0] == 0 and indptr[-1] == len(data) and (np.diff(indptr) >= 0).all()
        fits = fits and (len(indices) == 0 or bool(indices.min() >= 0 and indices.max() < self.n_features))
        _need(bool(fits), f"its {name} do not fit")
        return SparseRows(data, indices, indptr, self.n_features).canonical()

    def integers(self, name: str, shape: tuple[int | None, ...], below: int) -> NDArray[Any]:
        array = self.array(name, shape)
        fits = array.dtype.kind in "iu" and array.size > 0 and array.min() >= 0 and array.max() < below
        _need(fits, f"its {name} do not fit")
        return array


def _need(condition: bool, what: str) -> None:
    if not condition:
        raise InvalidInputError(what)
