"""Checks of parameters and of rows, and conversions that copy no more than they must."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskkcl.errors import InvalidInputError, did_you_mean
from daskkcl.kernels.rows import SparseRows, is_sparse

Array = NDArray[Any]

GAMMA_RULES = ("auto", "scale", "median")
MOST_COLUMNS = 1 << 40


def check_rows(X: ArrayLike, what: str) -> Array:
    """Return `X` as an array, or as sparse rows, if it is a real matrix."""
    if is_sparse(X):
        return X  # type: ignore[return-value]
    if type(X).__module__.startswith("scipy.sparse"):
        matrix: Any = X
        if matrix.dtype.kind in "biuf" and matrix.ndim == 2:
            return SparseRows.of(matrix)  # type: ignore[return-value]
        X = np.empty((0,) * matrix.ndim, matrix.dtype)  # to be refused below
    rows = np.asarray(X)
    if rows.dtype.kind not in "biuf":
        raise InvalidInputError(f"{what} must be real numbers, but has dtype {rows.dtype}")
    if rows.ndim != 2:
        hint = "; reshape(-1, 1) makes a single column" if rows.ndim == 1 else ""
        raise InvalidInputError(f"{what} must be a matrix (rows, columns), but has shape {rows.shape}{hint}")
    return rows


def all_finite(rows: Any) -> bool:
    """Say whether rows have neither NaN nor infinity."""
    return bool(np.isfinite(rows.data if is_sparse(rows) else rows).all())


def floating_dtype(rows: Array) -> np.dtype[Any]:
    """Return what a kernel of these rows is computed in when nothing else is asked for."""
    return np.dtype(np.float32 if rows.dtype.kind == "f" and rows.dtype.itemsize <= 4 else np.float64)


def blas_rows(rows: Array, dtype: np.dtype[Any]) -> Array:
    """Return `rows` in `dtype`, copied only if they are of another dtype or not contiguous within a row."""
    n, d = rows.shape
    row_bytes = d * dtype.itemsize
    fits = rows.dtype == dtype and rows.flags.aligned and (n <= 1 or rows.strides[0] >= row_bytes)
    if fits and (d <= 1 or rows.strides[1] == dtype.itemsize):
        return rows
    return rows.astype(dtype, order="C")


def dense_rows(rows: Array, dtype: np.dtype[Any]) -> Array:
    """Return `rows` in `dtype` and C-contiguous, copied only if they are not."""
    return np.ascontiguousarray(rows, dtype=dtype)


def refuse_negative(rows: Array, name: str) -> None:
    """Raise if any value is negative, for the kernel of that name."""
    if rows.dtype.kind not in "bu" and (rows < 0).any():
        raise InvalidInputError(
            f"the {name!r} kernel is for histograms and counts, but there are negative values; "
            "shift the data to start at zero, or use kernel='rbf' or 'laplacian'"
        )


def check_number(value: Any, name: str) -> float:
    """Return `value` as a finite float."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise InvalidInputError(f"{name} must be a finite number, not {short(value)}")


def check_positive(value: Any, name: str) -> float:
    """Return `value` as a finite float above zero."""
    number = check_number(value, name)
    if number <= 0:
        raise InvalidInputError(f"{name} must be greater than 0, not {short(value)}")
    return number


def check_whole(value: Any, name: str, least: int, most: int) -> int:
    """Return `value` as an int between `least` and `most`."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and least <= int(value) <= most:
        return int(value)
    raise InvalidInputError(f"{name} must be a whole number from {least} to {most}, not {short(value)}")


def check_gamma(gamma: Any) -> float | str:
    """Return `gamma` as a positive float or one of GAMMA_RULES."""
    if isinstance(gamma, str):
        if gamma in GAMMA_RULES:
            return gamma
        hint = "." + did_you_mean(gamma[:80], GAMMA_RULES)
    else:
        try:
            return check_positive(gamma, "gamma")
        except InvalidInputError:
            hint = ""
    rules = ", ".join(map(repr, GAMMA_RULES))
    raise InvalidInputError(f"gamma must be a positive number or one of {rules}, not {short(gamma)}{hint}")


def set_field(kernel: object, name: str, value: Any) -> None:
    """Set a field of a frozen dataclass, for its ``__post_init__`` alone."""
    object.__setattr__(kernel, name, value)


def short(value: Any) -> str:
    """Return the repr of `value`, cut to the length of a line: it may come from a file."""
    text = repr(value[:100]) if isinstance(value, (str, bytes)) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
