"""Compiled loops over rows and landmarks: arrays in, ``out`` last, no options.

Only imported when a kernel that needs them is used, since importing numba is slow. ``reassoc`` lets the
inner sum run in vector lanes; NaN and infinity keep their meaning. A row's result depends on that row and
the landmarks alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

_STRIP = 32  # landmarks kept in cache while all rows pass over them


def _njit(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile, and keep the machine code on disk where a folder for it can be written."""
    options = {"nogil": True, "error_model": "numpy", **options}
    try:
        return cast(Callable[..., Any], njit(cache=True, **options)(function))
    except RuntimeError:  # "no locator available": neither beside this file nor in the user's cache
        return cast(Callable[..., Any], njit(**options)(function))


def _compiled(function: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    """Compile with the licence to reorder sums."""
    return _njit(function, fastmath={"reassoc", "nsz", "contract"}, **more)


def _to_the_letter(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without that licence: the same operations in the same order, wherever the loop is compiled into.

    Carrying rounding errors lives by that, and so does a value that two loops compute.
    """
    return _njit(function)


def _inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile into whoever calls: a call hands over all numbers of an array, and takes as long as a short loop."""
    return _compiled(function, forceinline=True)


@_compiled
def manhattan(X: NDArray[Any], Y: NDArray[Any], out: NDArray[Any]) -> None:
    """``out[i, c] = sum_j |X[i, j] - Y[c, j]|``, ``X`` (rows, d), ``Y`` (m, d), ``out`` (rows, m)."""
    rows, d = X.shape
    m = Y.shape[0]
    zero = X.dtype.type(0)
    for first in range(0, m, _STRIP):
        for i in range(rows):
            for c in range(first, min(first + _STRIP, m)):
                total = zero
                for j in range(d):
                    # |x_j - y_j|
                    total += np.abs(X[i, j] - Y[c, j])
                out[i, c] = total


@_compiled
def chi_squared(X: NDArray[Any], Y: NDArray[Any], out: NDArray[Any]) -> None:
    """``out[i, c] = sum_j (X[i, j] - Y[c, j])^2 / (X[i, j] + Y[c, j])``, 0/0 = 0; nothing is negative."""
    rows, d = X.shape
    m = Y.shape[0]
    zero = X.dtype.type(0)
    one = X.dtype.type(1)
    for first in range(0, m, _STRIP):
        for i in range(rows):
            for c in range(first, min(first + _STRIP, m)):
                total = zero
                for j in range(d):
                    # (x_j - y_j)^2 / (x_j + y_j); |difference / both| <= 1, so the square cannot overflow
                    difference = X[i, j] - Y[c, j]
                    both = X[i, j] + Y[c, j]
                    divisor = both if both > zero else one
                    total += difference * (difference / divisor)
                out[i, c] = total


@_compiled
def intersection(X: NDArray[Any], Y: NDArray[Any], out: NDArray[Any]) -> None:
    """``out[i, c] = sum_j min(X[i, j], Y[c, j])``, NaN in a row of ``X`` kept."""
    rows, d = X.shape
    m = Y.shape[0]
    zero = X.dtype.type(0)
    for first in range(0, m, _STRIP):
        for i in range(rows):
            for c in range(first, min(first + _STRIP, m)):
                total = zero
                for j in range(d):
                    # min(x_j, y_j); a NaN in X compares false and is kept
                    total += Y[c, j] if Y[c, j] < X[i, j] else X[i, j]
                out[i, c] = total
