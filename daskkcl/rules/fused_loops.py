"""Rows to winners and sums in one compiled call: measurements of a few rows are met while they are in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.loops import _compiled, _to_the_letter
from ..kernels.rbf_loops import left_side, values

__all__ = ["meet"]


@_compiled
def _products(Z: NDArray[Any], G: NDArray[Any], D: NDArray[Any]) -> None:
    """``D[i, c] = z_i . g_c``, four rows by three centres at a time; `G` and `D` have room for a multiple of three.

    Twelve sums, three centres and a row fill the sixteen registers that processors without 512-bit vectors have.
    """
    rows, m = Z.shape[0], G.shape[1]
    zero = np.float32(0)
    for i in range(0, rows, 4):
        # the last rows once more, in place of rows that are not there
        i0, i1, i2, i3 = i, min(i + 1, rows - 1), min(i + 2, rows - 1), min(i + 3, rows - 1)
        for c in range(0, G.shape[0], 3):
            a0, a1, a2 = zero, zero, zero
            b0, b1, b2 = zero, zero, zero
            c0, c1, c2 = zero, zero, zero
            d0, d1, d2 = zero, zero, zero
            for k in range(m):
                g0, g1, g2 = G[c, k], G[c + 1, k], G[c + 2, k]
                z = Z[i0, k]
                a0 += z * g0
                a1 += z * g1
                a2 += z * g2
                z = Z[i1, k]
                b0 += z * g0
                b1 += z * g1
                b2 += z * g2
                z = Z[i2, k]
                c0 += z * g0
                c1 += z * g1
                c2 += z * g2
                z = Z[i3, k]
                d0 += z * g0
                d1 += z * g1
                d2 += z * g2
            D[i0, c], D[i0, c + 1], D[i0, c + 2] = a0, a1, a2
            D[i1, c], D[i1, c + 1], D[i1, c + 2] = b0, b1, b2
            D[i2, c], D[i2, c + 1], D[i2, c + 2] = c0, c1, c2
            D[i3, c], D[i3, c + 1], D[i3, c + 2] = d0, d1, d2


@_to_the_letter
def _add_sums(S: NDArray[Any], high: NDArray[Any], low: NDArray[Any]) -> None:
    """Add the sums of a few rows to those of all, with the rounding error beside them (two-sum)."""
    for c in range(high.shape[0]):
        for k in range(high.shape[1]):
            a, b = high[c, k], np.float64(S[c, k])
            total = a + b
            part = total - a
            low[c, k] += (a - (total - part)) + (b - part)
            high[c, k] = total


@_to_the_letter
def meet(
    begin: int,
    rows: NDArray[Any],
    measured: NDArray[Any],
    shift: NDArray[Any],
    used: NDArray[Any],
    strips: NDArray[Any],
    G: NDArray[Any],
    nu: NDArray[Any],
    factors: NDArray[Any],
    valid: NDArray[Any],
    left: NDArray[Any],
    fewer: NDArray[Any],
    Z: NDArray[Any],
    D: NDArray[Any],
    labels: NDArray[Any],
    nearest: NDArray[Any],
    S: NDArray[Any],
    high: NDArray[Any],
    low: NDArray[Any],
) -> int:
    """Find the centre of least ``f_c (1 - 2 z_i . g_c + nu_c)`` for every row, its distance, and sums of the ``z_i``.

    Parameters
    ----------
    begin : int
        The first row that is met.
    rows : (n, d), or without columns where `measured` (n, m) has their measurements already
    shift, used, strips, left, fewer : see `kernels.rbf_loops`; these two are room for a few rows, as are `Z` and `D`
        (`Z` is as wide as a strip at least)
    G : (c and up to two rows of zeros, m); nu, factors : (c,)
        ``-2 g_c``, ``nu_c`` and what distances are multiplied by.
    valid : (n,) or (0,)
        Which rows count; all, if it has none.
    labels, nearest : (n,)
        The winner (-1 for rows that do not count) and its squared distance, never below zero.
    S, high, low : (c, m) or (0, m)
        Room; sums with their rounding errors, added to. With no rows, nothing is summed.

    Returns
    -------
    int
        -1, or where the few rows begin of which one has a norm that is not finite: they and those behind are not met.
    """
    n, c, step, summed = len(labels), len(nu), D.shape[0], S.shape[0] > 0
    zero, one = np.float32(0), np.float32(1)
    for first in range(begin, n, step):
        last = min(n, first + step)
        if rows.shape[1] > 0:
            if left_side(rows[first:last], shift, left) >= 0:
                return first
            here = Z[: last - first]
            values(left, used, strips, fewer, here)
        else:
            here = measured[first:last]
        _products(here, G, D)
        if summed:
            S[:] = zero
        for i in range(last - first):
            if valid.size > 0 and not valid[first + i]:
                labels[first + i], nearest[first + i] = -1, zero
                continue
            winner, distance, least = 0, max(zero, one + D[i, 0] + nu[0]), zero
            least = distance * factors[0]
            for k in range(1, c):
                d = max(zero, one + D[i, k] + nu[k])
                if d * factors[k] < least:
                    winner, distance, least = k, d, d * factors[k]
            labels[first + i], nearest[first + i] = winner, distance
            if summed:
                for k in range(S.shape[1]):
                    S[winner, k] += here[i, k]
        if summed:
            _add_sums(S, high, low)
    return -1
