"""Compiled loops over rows and landmarks: arrays in, ``out`` last, no options.

Only imported when a kernel that needs them is used, since importing numba is slow. ``reassoc`` lets the
inner sum run in vector lanes; NaN and infinity keep their meaning. A row's result depends on that row and
the landmarks alone.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache
from numpy.typing import NDArray

_STRIP = 32  # landmarks kept in cache while all rows pass over them


class _SharedCache(FunctionCache):
    """Machine code on disk, read and written by one process at a time, and made anew when any source has changed.

    numba writes that there is code for a function before it writes the code. Whoever looks in between finds what stood
    in that file before: code of an older source, after an update, and labels that are not those of the others. And it
    looks at the file of the function only, where others are compiled into it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        with contextlib.suppress(OSError):  # sources that cannot be read: the file of the function must do
            self._cache_file._source_stamp = (self._impl.locator.get_source_stamp(), _sources())

    def load_overload(self, *given: Any) -> Any:
        with _alone(self.cache_path):
            return super().load_overload(*given)

    def save_overload(self, *given: Any) -> None:
        os.makedirs(self.cache_path, exist_ok=True)
        with _alone(self.cache_path):
            super().save_overload(*given)


@functools.cache
def _sources() -> str:
    """Return a digest of all modules that loops may be in."""
    package, digest = Path(__file__).parents[1], hashlib.blake2b(digest_size=16)
    for path in sorted(path for layer in ("kernels", "maps", "rules") for path in (package / layer).glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Keep other processes waiting. Threads are kept apart by numba itself, which compiles one function at a time."""
    try:
        import fcntl

        file = os.open(os.path.join(folder, "daskkcl.lock"), os.O_RDONLY | os.O_CREAT, 0o666)
    except (ImportError, OSError):  # no such locks; no folder yet, or one that nobody here can write to
        yield
        return
    try:
        with contextlib.suppress(OSError):  # some network drives have none
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _njit(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile, and keep the machine code on disk where a folder for it can be written."""
    compiled = njit(nogil=True, error_model="numpy", **options)(function)
    with contextlib.suppress(RuntimeError):  # "no locator available": neither beside this file nor in the user's cache
        compiled._cache = _SharedCache(function)
    return cast(Callable[..., Any], compiled)


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
