"""One place where parameters are checked, before any data are read."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ..blocks.frames import plain_values
from ..blocks.scaled import ScaledSource
from ..blocks.sources import Source
from ..errors import DaskkclWarning, InvalidInputError, did_you_mean
from ..kernels.checks import all_finite
from ..kernels.rows import SparseRows, as_dense
from ..random import FixedOrder
from ..rules.index import index_available, require_index
from ..rules.scaling import SCALES, Scaler
from ..system import parse_bytes

__all__ = [
    "as_limit",
    "block_dtype",
    "check_choice",
    "check_flag",
    "check_integer",
    "check_kernel_params",
    "check_landmarks",
    "check_n_clusters",
    "check_order",
    "check_real",
    "check_scale",
    "check_weights",
    "row_weights",
    "scaled_source",
    "stream_scaler",
    "uses_index",
    "weight_unit",
]

_DEFAULT_LANDMARKS = 500
# Comparing a row with c centres of m measurements costs about c (m + 45); with an index it costs as much as this, or
# less (benchmarks/many_clusters.py): 1,100 clusters with 500 landmarks, 5,500 with 64 features.
_INDEXED_FROM = 600_000
_HEAVIEST = 1e25  # times ten billion rows is still a float32
_SMALL_ROWS = 20_000  # float64 data of at most so many rows are computed in float64


def as_limit(memory_limit: str | int | None) -> int | None:
    """Return a memory limit in bytes, None for none."""
    return None if memory_limit is None else parse_bytes(memory_limit)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of the choices, else say which there are."""
    if value in choices and isinstance(value, str):
        return value
    near = did_you_mean(str(value), choices)
    raise InvalidInputError(f"{name}={value!r} is not known; use {' or '.join(map(repr, choices))}.{near}")


def uses_index(nearest: Any, n_clusters: int | None, n_measurements: int, by_itself: bool = True) -> bool:
    """Return whether rows are to meet only the centres that an index finds near them.

    `by_itself` says whether ``"auto"`` may choose it.
    """
    choice = check_choice("nearest", nearest, ("auto", "exact", "index"))
    if choice == "auto" and not by_itself:
        return False
    if choice == "index":
        require_index("nearest='index'")
    if choice != "auto" or n_clusters is None or n_clusters * (n_measurements + 45) < _INDEXED_FROM:
        return choice == "index"
    if not index_available():
        warnings.warn(
            f"Every row is compared with all {n_clusters:,} centres, because faiss is not installed: with an index it "
            "would be faster. pip install 'daskkcl[index]', or pass nearest='exact' if that is what you want.",
            DaskkclWarning,
            stacklevel=2,
        )
        return False
    return True


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


def check_weights(value: Any, n_rows: int, some: bool = True) -> NDArray[np.float64]:
    """Return the weights of rows as float64, or say what is wrong with them; `some` of them must be positive."""
    try:
        weights = np.asarray(value[:] if type(value).__module__.partition(".")[0] == "zarr" else value)
        if weights.dtype.kind in "cSU":
            raise TypeError(f"it holds {weights.dtype}")
        if weights.dtype.kind not in "biuf":
            weights = weights.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"sample_weight is not an array of numbers: {error}.") from None
    if weights.shape != (n_rows,):
        raise InvalidInputError(
            f"sample_weight has shape {weights.shape}; pass one weight for each of the {n_rows:,} rows."
        )
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvalidInputError(
            f"sample_weight of row {row:,} is {weights[row]:g}; weights are finite and not negative."
        )
    if some and not (weights > 0).any():
        raise InvalidInputError("Every sample_weight is zero: nothing is left to cluster. Weigh some row above zero.")
    return weights


def weight_unit(weights: NDArray[np.float64]) -> float:
    """Return a power of two to divide weights by, so that blocks in float32 can add them up: 1, mostly.

    Examples
    --------
    >>> weight_unit(np.array([3.0, 1.0])), weight_unit(np.array([2.0**100, 1.0])) == 2.0**100
    (1.0, True)
    """
    largest = float(weights.max(initial=0)) or 1.0
    return 1.0 if 1 / _HEAVIEST <= largest <= _HEAVIEST else 2.0 ** math.floor(math.log2(largest))


def row_weights(value: Any, source: Source) -> tuple[NDArray[np.float64] | None, float]:
    """Return the weights of the rows of a source over their unit, and the unit; None and 1 where there are none."""
    if value is None:
        return None, 1.0
    weights = check_weights(plain_values(value, source.frame), source.n_rows)
    unit = weight_unit(weights)
    return (weights if unit == 1 else weights / unit), unit


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


def check_kernel_params(params: Any) -> dict[str, Any]:
    """Return the further parameters of a kernel, or say what is wrong with them."""
    params = {} if params is None else params
    if not isinstance(params, dict) or not all(isinstance(name, str) for name in params) or "gamma" in params:
        raise InvalidInputError(
            f"kernel_params={params!r} must be a dict of the kernel's parameters by name, such as {{'degree': 5}}; the "
            "width goes to gamma=."
        )
    return params


def check_n_clusters(value: Any, n_rows: int, name: str = "n_clusters") -> int | None:
    """Return the number of clusters (or of what goes by that name), None for "auto"."""
    if isinstance(value, str) and name == "n_clusters":
        if value == "auto":
            return None
        near = did_you_mean(value, ["auto"])
        raise InvalidInputError(f"n_clusters={value!r} is neither a whole number nor 'auto'.{near}")
    n_clusters = check_integer(name, value, 1)
    if n_clusters > n_rows:
        raise InvalidInputError(
            f"{name}={n_clusters} is more than the number of rows (n_samples={n_rows}). Pass a smaller {name}."
        )
    return n_clusters


def check_scale(value: Any, source: Source) -> str | None:
    """Return how features are to be scaled, or say why that cannot be."""
    if value is None:
        return None
    name = check_choice("scale", value, SCALES)
    if name == "minmax" and source.sparse:
        raise InvalidInputError(
            "scale='minmax' would move the zeros of sparse rows, and they would no longer be sparse. scale='unit' and "
            "scale='standard' (which then divides and does not centre) keep them."
        )
    return name


def scaled_source(scale: str | None, source: Source) -> Source:
    """Return rows that will be scaled as they are read, when all of them have been looked at (`"unit"`: at once)."""
    return source if scale is None else ScaledSource(source, scale, Scaler(scale) if scale == "unit" else None)


def stream_scaler(value: Any, source: Source) -> Scaler | None:
    """Return how the rows of a stream are scaled, or refuse what would take all rows to know."""
    name = check_scale(value, source)
    if name in (None, "unit"):
        return None if name is None else Scaler("unit")
    raise InvalidInputError(
        f"scale={name!r} wants a look at all rows, and those of a stream are not there yet: use scale='unit', or scale "
        "the blocks, for example with sklearn.preprocessing.StandardScaler fitted to some rows; fit scales by itself."
    )


def check_landmarks(
    landmarks: Any, n_landmarks: Any, source: Source, default: int = _DEFAULT_LANDMARKS
) -> tuple[Any, int]:
    """Return a way to draw landmarks (or their rows) and their number."""
    if n_landmarks is not None:
        check_integer("n_landmarks", n_landmarks, 1)
    if isinstance(landmarks, str):
        check_choice("landmarks", landmarks, ("uniform", "kmeans", "leverage"))
        return landmarks, min(source.n_rows, n_landmarks or default)
    rows: Any = SparseRows.of(landmarks) if issparse(landmarks) else np.asarray(landmarks)
    if rows.ndim != 2 or rows.shape[1] != source.n_features or len(rows) == 0 or rows.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"landmarks has shape {rows.shape}; pass rows with {source.n_features} features, or 'uniform', 'kmeans' or "
            "'leverage'."
        )
    if not all_finite(rows):
        raise InvalidInputError("landmarks contains NaN or infinity.")
    if n_landmarks is not None and n_landmarks != len(rows):
        raise InvalidInputError(
            f"n_landmarks={n_landmarks}, but landmarks has {len(rows)} rows; leave one of them out."
        )
    return rows if source.sparse else as_dense(rows), len(rows)


def block_dtype(value: Any, source: Source) -> np.dtype[Any]:
    """Return the precision of blocks."""
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
