"""From an estimator's parameters to a problem: one place where they are put together, before any data are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.frozen import FrozenEstimator

from ..blocks.scaled import ScaledSource
from ..blocks.sources import Source
from ..errors import InvalidInputError, WrongTypeError, did_you_mean
from ..kernels import as_kernel
from ..maps import recipes
from ..random import Key
from ..rules.scaling import Scaler
from ..schedules.problem import Problem
from .maps import MAPS, MapTransformer
from .validation import (
    as_limit,
    block_dtype,
    check_choice,
    check_kernel_params,
    check_landmarks,
    check_n_clusters,
    check_scale,
    scaled_source,
    uses_index,
)

__all__ = ["make_problem"]

# What estimators say of their map, and what they say when they say nothing.
_OF_MAPS = {"kernel": None, "gamma": "auto", "kernel_params": None, "landmarks": None, "n_landmarks": None}


def make_problem(estimator: Any, source: Source, key: Key, scaled: bool = False) -> Problem:
    """Check the parameters that all estimators have and put them together; rows may be `scaled` already."""
    dtype, map_ = block_dtype(estimator.dtype, source), _map(estimator, source)
    if isinstance(map_["recipe"], recipes.Fixed) and dtype != map_["recipe"].map_.dtype:
        if estimator.dtype is not None:
            raise InvalidInputError(
                f"dtype={dtype}, and map= was fitted in {map_['recipe'].map_.dtype}: leave out dtype=."
            )
        dtype = map_["recipe"].map_.dtype
    n_clusters = check_n_clusters(getattr(estimator, estimator.counted), source.n_rows, estimator.counted)
    check_choice("missing", estimator.missing, ("warn", "raise", "fill"))
    scale, scaler = _scale(estimator, source, scaled)
    if scaler is not None:
        source = ScaledSource(source, scaler.name, scaler)
    elif not scaled:
        source = scaled_source(scale, source)
    problem = Problem(
        source=source,
        n_clusters=n_clusters,
        **map_,
        dtype=dtype,
        nan=check_choice("nan", estimator.nan, ("raise", "drop")),
        key=key,
        memory_limit=as_limit(estimator.memory_limit),
        scratch=None if estimator.scratch is None else str(estimator.scratch),
    )
    nearest, by_itself = getattr(estimator, "nearest", "exact"), getattr(estimator, "index_by_itself", True)
    return replace(problem, indexed=uses_index(nearest, n_clusters, problem.n_measurements, by_itself))


def _scale(estimator: Any, source: Source, stream: bool) -> tuple[str | None, Scaler | None]:
    """Return how rows are to be scaled, by the estimator or by its map; and the scaler of a map that is fitted."""
    scale, map_ = check_scale(estimator.scale, source), getattr(estimator, "map", None)
    map_ = map_.estimator if isinstance(map_, FrozenEstimator) else map_
    if not isinstance(map_, MapTransformer):
        return scale, None
    fitted, own = map_.__sklearn_is_fitted__(), map_.scale
    if scale is not None and fitted:
        as_they_are = "rows as they are" if map_.scaler_ is None else "rows that it scales itself"
        raise InvalidInputError(
            f"map= was fitted to {as_they_are}, and scale={scale!r} would hand it others: leave out scale=, or pass "
            "a map that is not fitted."
        )
    if scale is not None and own is not None:
        raise InvalidInputError(f"map= has a scale of its own, {own!r}: give scale= to the map or here, not to both.")
    if own is not None and stream:
        raise InvalidInputError("The rows of a stream are scaled before they meet a map: give scale= to the estimator.")
    if fitted:
        return None, map_.scaler_
    return scale if own is None else check_scale(own, source), None


def _map(estimator: Any, source: Source) -> dict[str, Any]:
    """Return recipe, kernel, landmarks and their number."""
    if estimator.default_map == "sparse":  # a buffer that grows: no map that others could take
        return estimator._sparse_map(source)
    value = estimator.default_map if estimator.map is None else estimator.map
    given = {name: getattr(estimator, name) for name, default in _OF_MAPS.items() if _differs(estimator, name, default)}
    if isinstance(value, FrozenEstimator):  # clones keep what it holds fitted
        value = value.estimator
    if isinstance(value, MapTransformer):
        return _of_transformer(value, given, source)
    if not isinstance(value, str):
        raise WrongTypeError(f"map={value!r} is neither a name nor one of daskkcl.maps.")
    if value == "identity":
        other = " or pass map='landmarks'" if estimator.map is None else ""
        for name in given:
            raise InvalidInputError(
                f"map='identity' is input space, without kernel or landmarks: leave out {name}={other}."
            )
        recipe: recipes.Recipe = recipes.Identity()
        return {"recipe": recipe, "kernel": None, "landmarks": "uniform", "n_landmarks": min(500, source.n_rows)}
    if value == "landmarks":
        name = "rbf" if estimator.kernel is None else estimator.kernel
        kernel = as_kernel(name, estimator.gamma, **check_kernel_params(estimator.kernel_params))
        how = "uniform" if estimator.landmarks is None else estimator.landmarks
        landmarks, n_landmarks = check_landmarks(how, estimator.n_landmarks, source)
        return {"recipe": recipes.Landmarks(), "kernel": kernel, "landmarks": landmarks, "n_landmarks": n_landmarks}
    names = ("landmarks", "identity", *MAPS)
    if value not in MAPS:
        raise InvalidInputError(
            f"map={value!r} is not known; there are {', '.join(names)}.{did_you_mean(value, names)}"
        )
    cls = MAPS[value]
    own = set(cls._get_param_names())
    if "n_landmarks" in given and "n_landmarks" not in own:  # random features: as many as there would be landmarks
        given["n_components"] = given.pop("n_landmarks")
    for name in given:
        if name not in own:
            raise InvalidInputError(f"map={value!r} has no {name}: leave it out.")
    return _of_transformer(cls(**given), {}, source)


def _of_transformer(map_: MapTransformer, given: dict[str, Any], source: Source) -> dict[str, Any]:
    for name in given:
        raise InvalidInputError(f"map= is a map with a {name} of its own: give {name}= to the map, not here too.")
    if map_.__sklearn_is_fitted__():
        fitted = map_._reader.map_
        if fitted.n_features != source.n_features:
            raise InvalidInputError(
                f"map= was fitted to {fitted.n_features} features, and the data have {source.n_features}."
            )
        return {"recipe": recipes.Fixed(fitted), "kernel": None, "landmarks": "uniform", "n_landmarks": 1}
    landmarks, n_landmarks = map_.size(source)
    return {
        "recipe": map_.recipe(),
        "kernel": map_.checked_kernel(),
        "landmarks": landmarks,
        "n_landmarks": n_landmarks,
    }


def _differs(estimator: Any, name: str, default: Any) -> bool:
    value = getattr(estimator, name)
    return not (value is default or (isinstance(value, str) and value == default))
