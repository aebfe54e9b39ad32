"""One place where parameters are checked, before any data are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..blocks.sources import Source
from ..errors import InvalidInputError, did_you_mean
from ..kernels import Kernel, as_kernel
from ..random import FixedOrder, Key
from ..schedules.setup import Problem
from ..system import parse_bytes

__all__ = ["check_choice", "check_flag", "check_integer", "check_order", "check_real", "make_problem"]

_DEFAULT_LANDMARKS = 500
_SMALL_ROWS = 20_000  # float64 data of at most so many rows are computed in float64


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of the choices, else say which there are."""
    if value in choices and isinstance(value, str):
        return value
    near = did_you_mean(str(value), choices)
    raise InvalidInputError(f"{name}={value!r} is not known; use {' or '.join(map(repr, choices))}.{near}")


def check_integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return `value` as an integer within bounds, else say what was expected."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least:
        if most is None or value <= most:
            return int(value)
        raise InvalidInputError(f"{name}={value} is more than {most}.")
    raise InvalidInputError(f"{name} must be an integer of at least {least}; got {value!r}.")


def check_real(name: str, value: Any, above: float, most: float = math.inf, closed: bool = False) -> float:
    """Return `value` as a float above (or, if closed, at least at) a bound, else say what was expected."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if number and (value > above or (closed and value == above)) and value <= most and math.isfinite(value):
        return float(value)
    bounds = f"{'of at least' if closed else 'above'} {above:g}" + (f" and at most {most:g}" if most < math.inf else "")
    raise InvalidInputError(f"{name} must be a number {bounds}; got {value!r}.")


def check_flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise InvalidInputError(f"{name} must be True or False; got {value!r}.")


def check_order(order: Any, n_rows: int) -> FixedOrder | None:
    """Return an order of all rows, each once, else say what is wrong with it."""
    if order is None:
        return None
    rows = np.asarray(order)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) != n_rows:
        raise InvalidInputError(
            f"order of shape {rows.shape} and dtype {rows.dtype} is no order of {n_rows} rows; pass their numbers, "
            "each once, or leave it out for a random order."
        )
    if rows.min(initial=0) < 0 or rows.max(initial=0) >= n_rows or (np.bincount(rows, minlength=n_rows) != 1).any():
        raise InvalidInputError(f"order must hold each of the row numbers 0 to {n_rows - 1} once.")
    return FixedOrder(rows)


def make_problem(estimator: Any, source: Source, key: Key) -> Problem:
    """Check the parameters that all estimators have and put them together."""
    n = source.n_rows
    n_clusters = _n_clusters(getattr(estimator, estimator.counted), n, estimator.counted)
    map_name = _map(estimator)
    kernel = _kernel(estimator)
    landmarks, n_landmarks = _landmarks(estimator.landmarks, estimator.n_landmarks, source)
    check_choice("missing", estimator.missing, ("warn", "raise", "fill"))
    return Problem(
        source=source,
        n_clusters=n_clusters,
        kernel=kernel,
        landmarks=landmarks,
        n_landmarks=n_landmarks,
        map_name=map_name,
        dtype=_dtype(estimator.dtype, source),
        nan=check_choice("nan", estimator.nan, ("raise", "drop")),
        key=key,
        memory_limit=None if estimator.memory_limit is None else parse_bytes(estimator.memory_limit),
        scratch=None if estimator.scratch is None else str(estimator.scratch),
    )


def _kernel(estimator: Any) -> Kernel:
    params = {} if estimator.kernel_params is None else estimator.kernel_params
    if not isinstance(params, dict) or not all(isinstance(name, str) for name in params) or "gamma" in params:
        raise InvalidInputError(
            f"kernel_params={params!r} must be a dict of the kernel's parameters by name, such as {{'degree': 5}}; the "
            "width goes to gamma=."
        )
    return as_kernel(estimator.kernel, estimator.gamma, **params)


def _n_clusters(value: Any, n_rows: int, name: str) -> int | None:
    if isinstance(value, str) and name == "n_clusters":
        check_choice(name, value, ("auto",))
        return None
    n_clusters = check_integer(name, value, 1)
    if n_clusters > n_rows:
        raise InvalidInputError(
            f"{name}={n_clusters} is more than the number of rows (n_samples={n_rows}). Pass a smaller {name}."
        )
    return n_clusters


_OF_LANDMARKS = {"kernel": "rbf", "gamma": "auto", "kernel_params": None, "landmarks": "uniform", "n_landmarks": None}


def _map(estimator: Any) -> str:
    if estimator.map is None or check_choice("map", estimator.map, ("landmarks", "identity")) == "landmarks":
        return "landmarks"
    for name, default in _OF_LANDMARKS.items():
        value = getattr(estimator, name)
        if not (value is default or (isinstance(value, str) and value == default)):
            raise InvalidInputError(f"map='identity' is input space, without kernel or landmarks: leave out {name}=.")
    return "identity"


def _landmarks(landmarks: Any, n_landmarks: Any, source: Source) -> tuple[Any, int]:
    if n_landmarks is not None:
        check_integer("n_landmarks", n_landmarks, 1)
    if isinstance(landmarks, str):
        check_choice("landmarks", landmarks, ("uniform", "kmeans", "leverage"))
        return landmarks, min(source.n_rows, n_landmarks or _DEFAULT_LANDMARKS)
    rows = np.asarray(landmarks)
    if rows.ndim != 2 or rows.shape[1] != source.n_features or len(rows) == 0 or rows.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"landmarks has shape {rows.shape}; pass rows with {source.n_features} features, or 'uniform', 'kmeans' or "
            "'leverage'."
        )
    if not np.isfinite(rows).all():
        raise InvalidInputError("landmarks contains NaN or infinity.")
    if n_landmarks is not None and n_landmarks != len(rows):
        raise InvalidInputError(
            f"n_landmarks={n_landmarks}, but landmarks has {len(rows)} rows; leave one of them out."
        )
    return rows, len(rows)


def _dtype(value: Any, source: Source) -> np.dtype[Any]:
    if value is None:
        small = source.dtype == np.float64 and source.n_rows <= _SMALL_ROWS
        return np.dtype(np.float64 if small else np.float32)
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError):
        dtype = np.dtype(object)
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InvalidInputError(f"dtype={value!r}: blocks are computed in 'float32' or 'float64'.")
    return dtype
