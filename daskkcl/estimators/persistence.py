"""Models as Zarr groups: numbers and names that a person can open, and that run no code when opened."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ..blocks.sources import local_path
from ..blocks.targets import Target
from ..errors import InvalidInputError, near_path
from ..kernels import Kernel, as_kernel, from_dict
from ..kernels.checks import short
from ..kernels.rows import SparseRows, public_rows
from ..maps.base import Centres, Map
from ..maps.sparse_kernel import SparseKernelMap
from ..maps.stored import ARRAYS, NAMES, restore_map, restore_rows, store_map, store_rows
from ..rules.crisp import FrequencySensitive, Nearest, NearestL1
from ..rules.fuzzy import Fuzzy
from ..rules.index import CentreIndex, require_index
from ..rules.scaling import SCALES, Scaler
from ..schedules.measuring import Reader
from ..schedules.tasks import Model
from ..system import available_bytes, format_bytes, version

__all__ = ["load_model", "save_model"]

_FORMAT = 1
_MARK = "daskkcl_model"
_ARRAYS = {
    # name: number of dimensions
    **ARRAYS,
    "coefficients": 2,
    "norms": 1,
    "counts": 1,
    "order": 1,
    "cluster_sizes": 1,
    "history": 1,
    "prototypes": 1,
    "prototype_rows": 2,
    "scale_shift": 1,
    "scale_factor": 1,
    "buffer_row_numbers": 1,
    "prototype_rows_data": 1,
    "prototype_rows_indices": 1,
    "prototype_rows_indptr": 1,
    "index_projection": 2,
    "index_points": 2,
    "index_cells": 2,
}
_SAVED_ATTRIBUTES = ("n_iter_", "n_rows_met_", "gamma_", "fuzzifier_", "fuzzifier_bound_", "objective_", "n_entered_")
# Not saved: what belongs to the machine or the run, and what the arrays and the kernel say already.
_LEFT_OUT = {"random_state", "progress", "kernel", "gamma", "kernel_params", "landmarks", "init", "scratch"}
_PLAIN = (str, int, float, bool, type(None))
_MAX_TILE_ROWS = 2**12


def save_model(estimator: Any, path: Any, overwrite: bool, storage_options: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator; a local path appears only when complete."""
    target = Target(path, overwrite, _MARK, storage_options)
    model: Model = estimator._model
    map_ = model.reader.map_
    order = np.arange(model.centres.n_clusters) if model.order is None else model.order
    arrays = {
        "coefficients": model.centres.coefficients,
        "norms": model.centres.norms,
        "order": order,
        "history": np.asarray(estimator.history_, dtype=np.float64),
    }
    map_numbers, map_arrays = store_map(map_)
    arrays |= map_arrays
    for name in ("cluster_sizes", "prototypes", "buffer_row_numbers"):
        if hasattr(estimator, f"{name}_"):
            arrays[name] = getattr(estimator, f"{name}_")
    if hasattr(estimator, "prototype_rows_"):
        rows = estimator.prototype_rows_
        arrays |= store_rows("prototype_rows", SparseRows.of(rows) if issparse(rows) else rows)
    if model.index is not None:
        arrays |= {"index_points": model.index.points, "index_cells": model.index.cells}
        if model.index.projection is not None:
            arrays["index_projection"] = model.index.projection
    if hasattr(estimator, "win_counts_"):
        arrays["counts"] = estimator.win_counts_[np.argsort(order)]  # as the centres are
    scaler = getattr(estimator, "scaler_", None)
    for name in ("shift", "factor"):
        if scaler is not None and getattr(scaler, name) is not None:
            arrays[f"scale_{name}"] = getattr(scaler, name)
    description = {
        "format": _FORMAT,
        "version": version(),
        "algorithm": estimator.algorithm,
        "parameters": _plain_parameters(estimator),
        "map": map_.name,
        "map_numbers": map_numbers,
        "kernel": None if map_.kernel is None else map_.kernel.to_dict(),
        "dtype": str(map_.dtype),
        "tile_rows": model.reader.tile_rows,
        "nan": model.reader.nan,
        "rule": model.rule.name,
        "stream": not hasattr(estimator, "cluster_sizes_"),
        "fuzzifier": getattr(model.rule, "fuzzifier", None),
        "n_features": estimator.n_features_in_,
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", ())],
        "scaler": None if scaler is None else scaler.name,
        "feature_dim": getattr(estimator, "feature_dim_", None),
        "attributes": _plain_attributes(estimator),
    }

    def fill(group: Any) -> None:
        for name, array in arrays.items():
            # One chunk of plain bytes, always written: its length tells whether it is whole, and reading it takes
            # no codec that could be made to do something else.
            values = np.asarray(array)
            values = values.astype(values.dtype.newbyteorder("="))
            group.create_array(
                name,
                data=values,
                chunks=tuple(max(1, length) for length in values.shape),
                compressors=None,
                config={"write_empty_chunks": True},
            )
        group.attrs[_MARK] = description

    target.write(fill)


def _plain_attributes(estimator: Any) -> dict[str, Any]:
    """Return the attributes that are numbers or None; JSON has no infinity, which is a bound that is not there."""
    values = {name: getattr(estimator, name) for name in _SAVED_ATTRIBUTES if hasattr(estimator, name)}
    return {name: None if value is not None and math.isinf(value) else value for name, value in values.items()}


def _plain_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters that are plain values; others (arrays, kernels) are kept elsewhere or left out."""
    given = {name: value for name, value in estimator.get_params(deep=False).items() if name not in _LEFT_OUT}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
    return {name: value for name, value in plain.items() if isinstance(value, _PLAIN)}


def load_model(path: Any, classes: dict[str, type[Any]], kernel: Any = None, storage_options: Any = None) -> Any:
    """Open a saved model and check everything in it before believing it."""
    import zarr

    try:
        path = local_path(str(os.fspath(path)))
    except TypeError:
        raise InvalidInputError(f"{path!r} is not the path or URL of a model.") from None
    if "://" not in path and not os.path.exists(path):
        raise InvalidInputError(f"There is no model at {path!r}.{near_path(path)}")
    try:
        group = zarr.open_group(path, mode="r", zarr_format=3, storage_options=storage_options)
        description: Any = dict(group.attrs)[_MARK]
    except Exception as error:
        raise InvalidInputError(
            f"{path!r} is not a saved daskkcl model, such as model.save and 'daskkcl fit --save' write: "
            f"'daskkcl info {path}' says what it is."
        ) from error
    check = _Checker(path)
    check(isinstance(description, dict) and description.get("format") == _FORMAT, "its format is not known here")
    algorithm = description.get("algorithm")
    check(isinstance(algorithm, str) and algorithm in classes, f"its algorithm {short(algorithm)} is not known here")
    check(description.get("map") in NAMES, "its map is not known here")
    check(description.get("dtype") in ("float32", "float64"), "its dtype is neither float32 nor float64")
    check(_whole(description.get("tile_rows"), 1, _MAX_TILE_ROWS), "its tile size is absurd")
    check(_whole(description.get("n_features"), 1, 2**31), "its number of features is absurd")
    check(description.get("nan") in ("raise", "drop"), "its nan policy is not known here")
    read = {name: _read(group, name, check) for name in _ARRAYS}
    arrays = {name: array for name, array in read.items() if array is not None}
    estimator = _estimator(description, classes, check)
    map_ = _map(description, arrays, kernel, check)
    estimator._model = Model(
        Reader(map_, description["tile_rows"], description["nan"]),
        _centres(arrays, map_, check),
        _rule(description, arrays, map_, check),
        _order(arrays, check),
        _index(arrays, map_, check),
    )
    estimator._source, estimator._labels = None, None
    n_clusters = estimator._model.centres.n_clusters
    if description.get("stream") is True:  # whose rows are not counted
        arrays.setdefault("cluster_sizes", np.zeros(n_clusters, dtype=np.int64))
    sizes = arrays.get("cluster_sizes", np.empty(0))
    check(len(sizes) == n_clusters and sizes.dtype.kind in "iu" and (sizes >= 0).all(), "its cluster sizes do not fit")
    if isinstance(map_, SparseKernelMap):
        numbers = arrays.get("buffer_row_numbers", np.empty(0))
        fits = len(numbers) == map_.n_rows and numbers.dtype.kind in "iu" and (numbers >= 0).all()
        check(fits, "the row numbers of its buffer do not fit")
    check((map_.name == "sparse") == (estimator.default_map == "sparse"), "its map does not go with its algorithm")
    if estimator.fuzzy:
        _check_prototypes(arrays, n_clusters, map_.n_features, check)
    estimator.n_features_in_ = map_.n_features
    names = description.get("feature_names") or []
    check(isinstance(names, list) and all(isinstance(name, str) for name in names), "its feature names are none")
    check(len(names) in (0, map_.n_features), "its feature names do not fit")
    if names:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    estimator.scaler_ = _scaler(description.get("scaler"), arrays, map_.n_features, check)
    if isinstance(description.get("feature_dim"), str):
        estimator.feature_dim_ = description["feature_dim"]
    if map_.kernel is not None:
        estimator.kernel = map_.kernel
    if "map" in estimator._get_param_names() and estimator.map is None and map_.name != estimator.default_map:
        estimator.map = map_.name  # it was a transformer: fitting again makes at least the same kind of map
    estimator.n_clusters_ = estimator._n_features_out = n_clusters
    for name in ("cluster_sizes", "prototypes", "prototype_rows", "buffer_row_numbers"):
        if name in arrays and not (name == "cluster_sizes" and description.get("stream") is True):
            setattr(estimator, f"{name}_", arrays[name])
    estimator.history_ = arrays.get("history", np.empty(0)).tolist()
    attributes = description.get("attributes")
    for name in _SAVED_ATTRIBUTES:
        if (
            isinstance(attributes, dict)
            and isinstance(attributes.get(name), (int, float, type(None)))
            and name in attributes
        ):
            setattr(estimator, name, attributes[name])
    if getattr(estimator, "fuzzifier_bound_", 0) is None:
        estimator.fuzzifier_bound_ = math.inf
    if "counts" in arrays:
        check(len(arrays["counts"]) == n_clusters, "its win counts do not fit")
        estimator.win_counts_ = arrays["counts"][estimator._model.order]
    return estimator


def _scaler(name: Any, arrays: dict[str, Any], n_features: int, check: _Checker) -> Scaler | None:
    shift, factor = arrays.get("scale_shift"), arrays.get("scale_factor")
    fits = all(array is None or array.shape == (n_features,) for array in (shift, factor))
    known = name in (None, *SCALES) and (factor is None) == (name in (None, "unit")) and (shift is None or name)
    check(fits and known, "its scaling does not fit")
    return None if name is None else Scaler(name, shift, factor)


def _check_prototypes(arrays: dict[str, Any], n_clusters: int, n_features: int, check: _Checker) -> None:
    numbers = arrays.get("prototypes", np.empty(0))
    fits = len(numbers) == n_clusters and numbers.dtype.kind in "iu" and (numbers >= 0).all()
    try:
        arrays["prototype_rows"] = public_rows(restore_rows("prototype_rows", arrays, n_features, n_clusters))
    except InvalidInputError:
        fits = False
    check(fits, "its prototypes do not fit")


class _Checker:
    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, condition: Any, what: str) -> None:
        if not condition:
            raise InvalidInputError(f"The model at {self.path!r} is refused: {what}.")


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _read(group: Any, name: str, check: _Checker) -> NDArray[Any] | None:
    try:
        array = group[name]
    except KeyError:
        return None
    except Exception as error:
        check(False, f"{name!r} cannot be opened ({type(error).__name__}: {error})")
    check(getattr(array, "ndim", 0) == _ARRAYS[name], f"{name!r} has {getattr(array, 'ndim', 'no')} dimensions")
    check(array.dtype.kind in "fiub", f"{name!r} does not hold numbers")
    size = math.prod(array.shape) * array.dtype.itemsize
    check(size <= available_bytes() // 4, f"{name!r} says it takes {format_bytes(size)}")
    # One chunk of plain bytes, as it was saved: other codecs may run anything, and a chunk is decoded whole.
    codecs = [codec.to_dict().get("name") for codec in array.metadata.codecs]
    check(codecs == ["bytes"], f"{name!r} is encoded by {short(codecs)}")
    check(array.chunks == tuple(max(1, n) for n in array.shape), f"{name!r} has chunks of {array.chunks}")
    if size == 0:
        return np.empty(array.shape, dtype=array.dtype)
    stored = _stored_bytes(array)
    check(stored is not None, f"the chunk of {name!r} is absent")
    check(stored == size, f"the chunk of {name!r} has {stored:,} bytes, not {size:,}")
    try:
        values = np.asarray(array[...])
    except Exception as error:
        check(False, f"{name!r} cannot be read ({type(error).__name__}: {error})")
    check(np.isfinite(values).all(), f"{name!r} has NaN or infinity")
    return values


def _stored_bytes(array: Any) -> int | None:
    from zarr.core.sync import sync

    key = (array.store_path / array.metadata.encode_chunk_key((0,) * array.ndim)).path
    try:
        return int(sync(array.store_path.store.getsize(key)))
    except FileNotFoundError:
        return None


def _estimator(description: dict[str, Any], classes: dict[str, type[Any]], check: _Checker) -> Any:
    cls = classes[description["algorithm"]]
    parameters = description.get("parameters")
    check(isinstance(parameters, dict), "it has no parameters")
    known = set(cls().get_params(deep=False)) - _LEFT_OUT
    check(set(parameters or {}) <= known, "it has parameters that the algorithm does not have")
    check(
        all(isinstance(value, _PLAIN) for value in (parameters or {}).values()), "its parameters are not plain values"
    )
    return cls(**(parameters or {}))


def _map(description: dict[str, Any], arrays: dict[str, Any], kernel: Any, check: _Checker) -> Map:
    name, numbers, stored = description["map"], description.get("map_numbers", {}), description.get("kernel")
    check(isinstance(numbers, dict), "the numbers of its map are none")
    value = None
    if name != "identity" and (stored is not None or name != "spectral"):
        value = _kernel(stored, kernel, check)
        check(value.resolved, "its kernel has no width")
    try:
        return restore_map(name, numbers, arrays, value, np.dtype(description["dtype"]), description["n_features"])
    except InvalidInputError as error:
        check(False, str(error).rstrip("."))
        raise


def _kernel(stored: Any, given: Any, check: _Checker) -> Kernel:
    """Return the kernel that is stored, or the one given in place of a function, which is not."""
    try:
        value = from_dict(stored)
    except InvalidInputError as error:
        if given is not None:
            return as_kernel(given)
        check(False, f"{error}. If the kernel was a function, pass it: load(path, kernel=function)")
    check(
        given is None or as_kernel(given) == value,
        f"its kernel is {short(value)}, not the one given; leave out kernel=",
    )
    return value


def _centres(arrays: dict[str, Any], map_: Map, check: _Checker) -> Centres:
    check("coefficients" in arrays and "norms" in arrays, "it has no centres")
    coefficients, norms = arrays["coefficients"], arrays["norms"]
    check(len(norms) >= 1 and coefficients.shape == (len(norms), map_.n_measurements), "its centres do not fit")
    return Centres(coefficients.astype(np.float64), norms.astype(np.float64), None, map_.dtype)


def _order(arrays: dict[str, Any], check: _Checker) -> NDArray[np.intp]:
    order, n_clusters = arrays.get("order", np.empty(0)), len(arrays["norms"])
    fits = order.dtype.kind in "iu" and np.array_equal(np.sort(order), np.arange(n_clusters))
    check(fits, "the numbering of its clusters does not fit")
    return order.astype(np.intp)


def _index(arrays: dict[str, Any], map_: Map, check: _Checker) -> CentreIndex | None:
    """Return the index that is stored: it is made again of its points and cells."""
    if "index_points" not in arrays:
        return None
    require_index("This model, which finds centres through an index,")
    points, cells, projection = arrays["index_points"], arrays.get("index_cells"), arrays.get("index_projection")
    width = map_.n_measurements if projection is None else projection.shape[1]
    fits = points.shape == (len(arrays["norms"]), width) and width >= 1
    fits = fits and cells is not None and 1 <= len(cells) <= len(points) and cells.shape[1] == width
    fits = fits and (projection is None or len(projection) == map_.n_measurements)
    check(bool(fits), "its index does not fit its centres")
    points, cells = (np.ascontiguousarray(array, dtype=np.float32) for array in (points, cells))
    return CentreIndex(None if projection is None else projection.astype(map_.dtype), points, cells)


def _rule(description: dict[str, Any], arrays: dict[str, Any], map_: Map, check: _Checker) -> Any:
    rule, fuzzifier = description.get("rule"), description.get("fuzzifier")
    if rule == "nearest":
        return Nearest()
    if rule == "nearest-l1":
        check(map_.explicit, "its rule does not go with its map")
        return NearestL1()
    if rule == "frequency":
        fits = "counts" in arrays and arrays["counts"].shape == arrays["norms"].shape and (arrays["counts"] > 0).all()
        check(fits, "its win counts do not fit")
        return FrequencySensitive(tuple(float(x) for x in arrays["counts"]))
    number = isinstance(fuzzifier, (int, float)) and math.isfinite(fuzzifier) and fuzzifier > 1
    check(rule == "fuzzy" and number, "its rule is not known here")
    return Fuzzy(float(fuzzifier))  # type: ignore[arg-type]
