"""The Gaussian kernel of a tile in one compiled call: shift, norms, product and powers, a few rows at a time.

A few rows and their values stay in the cache from one step to the next, and no step waits for Python: two threads that
call numpy for every step lose a third of their time to it (docs/performance.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskkcl.kernels.loops import _to_the_letter
from daskkcl.kernels.strips import ROWS, WIDTH, powers

__all__ = ["STEP_ROWS", "left_side", "rbf_values", "values"]

STEP_ROWS = 128  # rows at a time: with a thousand landmarks their values take half of a second-level cache
_TOGETHER = 64  # rows that pass by a strip: with a thousand features they take half of the cache too


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


@_to_the_letter
def values(
    left: NDArray[Any], used: NDArray[Any], strips: NDArray[Any], fewer: NDArray[Any], out: NDArray[Any]
) -> None:
    """``out[i, l] = 2^(left_i . right_l)``, of the columns that are `used` if there are any; `fewer` is room for these.

    `strips` are the landmarks' columns as `kernels.strips.pack` has them, and `out` is as wide as one at least.
    """
    n, m = out.shape
    for i in range(n if used.size > 0 else 0):
        for j in range(used.size):
            fewer[i, j] = left[i, used[j]]
    rows = fewer if used.size > 0 else left
    for first in range(0, n, _TOGETHER):
        last = min(n, first + _TOGETHER)
        for strip in range(strips.shape[0]):
            for i in range(first, last, ROWS):
                powers(rows, i, n, strips, strip, out, min(strip * WIDTH, m - WIDTH))  # type: ignore[call-arg]


@_to_the_letter
def rbf_values(
    rows: NDArray[Any],
    shift: NDArray[Any],
    used: NDArray[Any],
    strips: NDArray[Any],
    left: NDArray[Any],
    fewer: NDArray[Any],
    few: NDArray[Any],
    out: NDArray[Any],
) -> int:
    """``out[i, l] = 2^(left_i . right_l)``; return the first row whose norm is not finite, or -1.

    `left`, `fewer` and `few` are room for a few rows, the last for values where `out` is narrower than a strip.
    """
    n, m = out.shape
    step = left.shape[0]
    narrow = m < WIDTH
    for first in range(0, n, step):
        last = min(n, first + step)
        bad = left_side(rows[first:last], shift, left)
        if bad >= 0:
            return first + bad
        values(left, used, strips, fewer, few[: last - first] if narrow else out[first:last])
        if narrow:
            out[first:last] = few[: last - first, :m]
    return -1
