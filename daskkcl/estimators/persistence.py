"""Models as Zarr groups: numbers and names that a person can open, and that run no code when opened."""

from __future__ import annotations

import math
import os
import shutil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError, OutputError
from ..kernels import Kernel, from_dict
from ..maps.base import Centres, Map
from ..maps.landmarks import IdentityMap, LandmarkMap
from ..rules.crisp import FrequencySensitive, Nearest
from ..rules.fuzzy import Fuzzy
from ..schedules.tasks import Model, Reader
from ..system import available_bytes, format_bytes

__all__ = ["load_model", "save_model"]

_FORMAT = 1
_ARRAYS = {
    # name: number of dimensions
    "landmarks": 2,
    "origin": 1,
    "coefficients": 2,
    "norms": 1,
    "counts": 1,
    "cluster_sizes": 1,
    "history": 1,
}
_SAVED_ATTRIBUTES = ("n_iter_", "gamma_", "fuzzifier_", "objective_")


def save_model(estimator: Any, path: str, overwrite: bool) -> None:
    """Write a fitted estimator; a local path appears only when complete."""
    import zarr

    from .. import __version__

    remote = "://" in path
    if not remote and os.path.exists(path) and not overwrite:
        raise OutputError(f"{path!r} exists; pass overwrite=True to replace it, or another path.")
    partial = path if remote else f"{path}.partial-{os.getpid()}"
    model: Model = estimator._model
    map_ = model.reader.map_
    arrays = {
        "coefficients": model.centres.coefficients,
        "norms": model.centres.norms,
        "cluster_sizes": estimator.cluster_sizes_,
        "history": np.asarray(estimator.history_, dtype=np.float64),
    }
    arrays["landmarks" if isinstance(map_, LandmarkMap) else "origin"] = (
        map_.landmarks if isinstance(map_, LandmarkMap) else map_.origin  # type: ignore[attr-defined]
    )
    if isinstance(model.rule, FrequencySensitive):
        arrays["counts"] = np.array(model.rule.counts)
    description = {
        "format": _FORMAT,
        "version": __version__,
        "algorithm": estimator.algorithm,
        "parameters": _plain_parameters(estimator),
        "map": map_.name,
        "kernel": map_.kernel.to_dict() if isinstance(map_, LandmarkMap) else None,
        "dtype": str(map_.dtype),
        "tile_rows": model.reader.tile_rows,
        "nan": model.reader.nan,
        "rule": model.rule.name,
        "fuzzifier": getattr(model.rule, "fuzzifier", None),
        "n_features": estimator.n_features_in_,
        "attributes": {name: getattr(estimator, name) for name in _SAVED_ATTRIBUTES if hasattr(estimator, name)},
    }
    try:
        group = zarr.open_group(partial, mode="w")
        for name, array in arrays.items():
            # one chunk that is always written: an absent one is damage, never the fill value
            group.create_array(name, data=np.asarray(array), config={"write_empty_chunks": True})
        group.attrs["daskkcl_model"] = description
        if not remote:
            if os.path.exists(path):
                shutil.rmtree(path)
            os.rename(partial, path)
    except OSError as error:
        raise OutputError(f"The model cannot be written to {path!r}: {error}.") from error
    finally:
        if not remote:
            shutil.rmtree(partial, ignore_errors=True)


def _plain_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters that are plain values; others (arrays, kernels) are kept elsewhere or left out."""
    left_out = {"random_state", "progress", "kernel", "gamma", "kernel_params", "landmarks", "init", "scratch"}
    return {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if name not in left_out and isinstance(value, (str, int, float, bool, type(None)))
    }


def load_model(path: Any, classes: dict[str, type[Any]], kernel: Any = None, storage_options: Any = None) -> Any:
    """Open a saved model and check everything in it before believing it."""
    import zarr

    path = os.fspath(path)
    if "://" not in path and not os.path.exists(path):
        raise InvalidInputError(f"There is no model at {path!r}.")
    try:
        group = zarr.open_group(path, mode="r", storage_options=storage_options)
        description: Any = dict(group.attrs)["daskkcl_model"]
    except Exception as error:
        raise InvalidInputError(f"{path!r} is not a saved daskkcl model ({type(error).__name__}).") from error
    check = _Checker(path)
    check(isinstance(description, dict) and description.get("format") == _FORMAT, "its format is not known here")
    check(description.get("algorithm") in classes, f"its algorithm {description.get('algorithm')!r} is not known here")
    check(description.get("map") in ("landmarks", "identity"), "its map is not known here")
    check(description.get("dtype") in ("float32", "float64"), "its dtype is neither float32 nor float64")
    check(_whole(description.get("tile_rows"), 1, 2**20), "its tile size is absurd")
    check(_whole(description.get("n_features"), 1, 2**31), "its number of features is absurd")
    check(description.get("nan") in ("raise", "drop"), "its nan policy is not known here")
    arrays = {name: _read(group, name, check) for name in _ARRAYS if name in group}
    estimator = _estimator(description, classes, check)
    map_ = _map(description, arrays, kernel, check)
    estimator._model = Model(
        Reader(map_, description["tile_rows"], description["nan"]),
        _centres(arrays, map_, check),
        _rule(description, arrays, check),
    )
    estimator._source, estimator._labels = None, None
    n_clusters = estimator._model.centres.n_clusters
    check("cluster_sizes" in arrays and len(arrays["cluster_sizes"]) == n_clusters, "its cluster sizes do not fit")
    estimator.n_features_in_ = map_.n_features
    estimator.n_clusters_ = estimator._n_features_out = n_clusters
    estimator.cluster_sizes_ = arrays["cluster_sizes"]
    estimator.history_ = arrays.get("history", np.empty(0)).tolist()
    attributes = description.get("attributes")
    for name in _SAVED_ATTRIBUTES:
        if (
            isinstance(attributes, dict)
            and isinstance(attributes.get(name), (int, float, type(None)))
            and name in attributes
        ):
            setattr(estimator, name, attributes[name])
    if "counts" in arrays:
        estimator.win_counts_ = arrays["counts"]
    return estimator


class _Checker:
    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, condition: Any, what: str) -> None:
        if not condition:
            raise InvalidInputError(f"The model at {self.path!r} is refused: {what}.")


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _read(group: Any, name: str, check: _Checker) -> NDArray[Any]:
    array = group[name]
    check(hasattr(array, "dtype") and array.dtype.kind in "fiub", f"{name!r} does not hold numbers")
    check(array.ndim == _ARRAYS[name], f"{name!r} has {getattr(array, 'ndim', '?')} dimensions")
    size = math.prod(array.shape) * array.dtype.itemsize
    check(size <= available_bytes() // 4, f"{name!r} says it takes {format_bytes(size)}")
    # Chunks are decoded whole, so an absurd chunk is as bad as an absurd shape.
    chunk = math.prod(array.chunks) * array.dtype.itemsize
    check(chunk <= max(2 * size, 2**20), f"{name!r} has chunks of {format_bytes(chunk)}")
    check(array.nchunks_initialized == array.nchunks, f"{name!r} has absent chunks")
    try:
        values = np.asarray(array[...])
    except Exception as error:
        check(False, f"{name!r} cannot be read ({type(error).__name__}: {error})")
    check(np.isfinite(values).all(), f"{name!r} has NaN or infinity")
    return values


def _estimator(description: dict[str, Any], classes: dict[str, type[Any]], check: _Checker) -> Any:
    cls = classes[description["algorithm"]]
    parameters = description.get("parameters")
    check(isinstance(parameters, dict), "it has no parameters")
    known = set(cls().get_params(deep=False))
    check(set(parameters or {}) <= known, "it has parameters that the algorithm does not have")
    return cls(**(parameters or {}))


def _map(description: dict[str, Any], arrays: dict[str, Any], kernel: Any, check: _Checker) -> Map:
    dtype, n_features = np.dtype(description["dtype"]), description["n_features"]
    if description["map"] == "identity":
        check("origin" in arrays and arrays["origin"].shape == (n_features,), "its origin does not fit")
        return IdentityMap(arrays["origin"], dtype)
    check("landmarks" in arrays and arrays["landmarks"].shape[1] == n_features, "its landmarks do not fit")
    if kernel is not None:
        from ..kernels import as_kernel

        value: Kernel = as_kernel(kernel)
    else:
        value = from_dict(description.get("kernel"))
    check(value.resolved, "its kernel has no width")
    return LandmarkMap(value, arrays["landmarks"], dtype)


def _centres(arrays: dict[str, Any], map_: Map, check: _Checker) -> Centres:
    check("coefficients" in arrays and "norms" in arrays, "it has no centres")
    coefficients, norms = arrays["coefficients"], arrays["norms"]
    check(len(norms) >= 1 and coefficients.shape == (len(norms), map_.n_measurements), "its centres do not fit")
    return Centres(coefficients.astype(np.float64), norms.astype(np.float64), None, map_.dtype)


def _rule(description: dict[str, Any], arrays: dict[str, Any], check: _Checker) -> Any:
    rule, fuzzifier = description.get("rule"), description.get("fuzzifier")
    if rule == "nearest":
        return Nearest()
    if rule == "frequency":
        fits = "counts" in arrays and arrays["counts"].shape == arrays["norms"].shape and (arrays["counts"] > 0).all()
        check(fits, "its win counts do not fit")
        return FrequencySensitive(tuple(float(x) for x in arrays["counts"]))
    check(rule == "fuzzy" and isinstance(fuzzifier, (int, float)) and fuzzifier > 1, "its rule is not known here")
    return Fuzzy(float(fuzzifier))  # type: ignore[arg-type]
