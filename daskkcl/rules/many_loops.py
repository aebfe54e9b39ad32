"""Compiled loops for many clusters: choices among a few candidates, and sums that touch only what they add to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.loops import _compiled, _to_the_letter

__all__ = ["add_exactly", "best_of", "columns_up_to", "nearest_columns"]


@_compiled
def best_of(
    Z: NDArray[Any],
    kappa: NDArray[Any],
    candidates: NDArray[Any],
    G: NDArray[Any],
    nu: NDArray[Any],
    factors: NDArray[Any],
    labels: NDArray[Any],
    distances: NDArray[Any],
) -> None:
    """For every row the candidate of least ``f_c (kappa - 2 z.g_c + nu_c)``, ties to the lowest; -1 is none."""
    rows, m = Z.shape
    zero, two = Z.dtype.type(0), Z.dtype.type(2)
    for i in range(rows):
        best, least, distance = -1, zero, zero
        for j in range(candidates.shape[1]):
            c = candidates[i, j]
            if c < 0:
                continue
            product = zero
            for k in range(m):
                product += Z[i, k] * G[c, k]
            d = max(zero, kappa[i] - two * product + nu[c])
            value = d * factors[c]
            if best < 0 or value < least or (value == least and c < best):
                best, least, distance = c, value, d
        labels[i] = best
        distances[i] = distance


@_compiled
def nearest_columns(values: NDArray[Any], found: NDArray[Any]) -> None:
    """Find the columns of the least values of every row, in order, as many as `found` has room for: a few."""
    rows, k = values.shape
    count = min(found.shape[1], k)
    for i in range(rows):
        filled = 0
        for j in range(k):
            value = values[i, j]
            if filled < count:
                filled += 1
            elif value >= values[i, found[i, count - 1]]:
                continue
            place = filled - 1
            while place > 0 and values[i, found[i, place - 1]] > value:
                found[i, place] = found[i, place - 1]
                place -= 1
            found[i, place] = j


@_compiled
def columns_up_to(values: NDArray[Any], last: NDArray[Any], found: NDArray[Any]) -> None:
    """Find the columns of every row whose values are at most its `last`, the first ones if `found` has no more room."""
    rows, k = values.shape
    count = found.shape[1]
    for i in range(rows):
        place = 0
        for j in range(k):  # those below it first: of those that equal it there may be too many
            if values[i, j] < last[i]:
                found[i, place] = j
                place += 1
        for j in range(k):
            if place < count and values[i, j] == last[i]:
                found[i, place] = j
                place += 1


@_to_the_letter
def add_exactly(Z: NDArray[Any], labels: NDArray[Any], high: NDArray[Any], low: NDArray[Any]) -> None:
    """Add every row of ``Z`` to the sum of its label, with the rounding error beside it (two-sum); -1 is nobody's."""
    rows, m = Z.shape
    for i in range(rows):
        c = labels[i]
        if c < 0:
            continue
        for k in range(m):
            a, b = high[c, k], np.float64(Z[i, k])
            total = a + b
            part = total - a
            low[c, k] += (a - (total - part)) + (b - part)
            high[c, k] = total
