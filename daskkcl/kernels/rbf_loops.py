"""The Gaussian kernel of a tile in one compiled call: shift, norms, product and powers, a few rows at a time.

A few rows and their values stay in the cache from one step to the next, and no step waits for Python: two threads that
call numpy for every step lose a third of their time to it (docs/performance.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskkcl.kernels.loops import _njit, _to_the_letter

__all__ = ["STEP_ROWS", "exponents", "left_side", "powers_of_two", "rbf_values"]

STEP_ROWS = 128  # rows at a time: with a thousand landmarks their values take half of a second-level cache


@_to_the_letter
def left_side(rows: NDArray[Any], shift: NDArray[Any], left: NDArray[Any]) -> int:
    """``left[i] = [x, 1, |x|^2]``, ``x = rows[i] - shift``; return the first row whose norm is not finite, or -1."""
    n, d = rows.shape
    zero, one = np.float32(0), np.float32(1)
    whole = d - d % 8
    for i in range(n):
        for j in range(d):
            left[i, j] = rows[i, j] - shift[j]
        # eight sums: one after another would wait for each addition
        a, b, c, e, f, g, h, k = zero, zero, zero, zero, zero, zero, zero, zero
        for j in range(0, whole, 8):
            a += left[i, j] * left[i, j]
            b += left[i, j + 1] * left[i, j + 1]
            c += left[i, j + 2] * left[i, j + 2]
            e += left[i, j + 3] * left[i, j + 3]
            f += left[i, j + 4] * left[i, j + 4]
            g += left[i, j + 5] * left[i, j + 5]
            h += left[i, j + 6] * left[i, j + 6]
            k += left[i, j + 7] * left[i, j + 7]
        norm = ((a + b) + (c + e)) + ((f + g) + (h + k))
        for j in range(whole, d):
            norm += left[i, j] * left[i, j]
        left[i, d] = one
        left[i, d + 1] = norm
        if not np.isfinite(norm):
            return i
    return -1


def _powers_of_two(values: NDArray[Any]) -> None:
    """Replace x by 2^x where -126 <= x, by 1 above zero, by 0 below (and for NaN, which only what is far away gives).

    2^x = 2^k 2^f with k the nearest whole number: the Taylor polynomial of degree 7 of 2^f, |f| <= 1/2, is within 2e-8,
    and the factor 2^k is the exponent of a float32, written as bits.
    """
    flat = values.reshape(-1)
    for i in range(flat.size):
        x = flat[i]
        y = max(min(x, np.float32(0)), np.float32(-126))
        k = np.rint(y)
        f = y - k
        p = np.float32(1.5252733804059840e-5)
        p = p * f + np.float32(1.5403530393381609e-4)
        p = p * f + np.float32(1.3333558146428443e-3)
        p = p * f + np.float32(9.6181291076284772e-3)
        p = p * f + np.float32(5.5504108664821580e-2)
        p = p * f + np.float32(2.4022650695910072e-1)
        p = p * f + np.float32(6.9314718055994531e-1)
        p = p * f + np.float32(1)
        bits = np.int32((np.int32(k) + np.int32(127)) << np.int32(23))
        flat[i] = p * bits.view(np.float32) if x >= np.float32(-126) else np.float32(0)


powers_of_two = _njit(_powers_of_two, fastmath={"contract"})


@_to_the_letter
def exponents(
    left: NDArray[Any], used: NDArray[Any], right: NDArray[Any], fewer: NDArray[Any], out: NDArray[Any]
) -> None:
    """``out[i, l] = left_i . right_l``, of the columns that are `used` if there are any; `fewer` is room for these."""
    n = left.shape[0]
    if used.size == 0:
        np.dot(left, right, out)
        return
    for i in range(n):
        for j in range(used.size):
            fewer[i, j] = left[i, used[j]]
    np.dot(fewer[:n], right, out)


@_to_the_letter
def rbf_values(
    rows: NDArray[Any],
    shift: NDArray[Any],
    used: NDArray[Any],
    right: NDArray[Any],
    left: NDArray[Any],
    fewer: NDArray[Any],
    out: NDArray[Any],
) -> int:
    """``out[i, l] = 2^(left_i . right_l)``, `left` being room for a few rows; return the first bad one, or -1."""
    n = rows.shape[0]
    step = left.shape[0]
    for first in range(0, n, step):
        last = min(n, first + step)
        bad = left_side(rows[first:last], shift, left)
        if bad >= 0:
            return first + bad
        exponents(left[: last - first], used, right, fewer, out[first:last])
        powers_of_two(out[first:last])
    return -1
