"""Compiled loops of the sparse landmark map: the nearest few of many, and sums of a few rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.loops import _compiled

__all__ = ["encode", "gather_codes"]

_STRIP = 64  # landmarks looked at together


@_compiled
def _least(S: NDArray[Any], bias: NDArray[Any]) -> Any:
    """Return the least of ``bias - 2 S``, of one strip."""
    two, least = S.dtype.type(2), S.dtype.type(np.inf)
    for j in range(S.shape[0]):
        d2 = bias[j] - two * S[j]
        least = d2 if d2 < least else least  # as this, and of a slice, it runs in vectors
    return least


@_compiled
def _put(nearest: NDArray[Any], which: NDArray[Any], d2: Any, j: int) -> None:
    """Put a distance that is less than the last of the nearest in its place among them; of equal ones, behind."""
    k = nearest.shape[0] - 1
    while k > 0 and d2 < nearest[k - 1]:
        nearest[k] = nearest[k - 1]
        which[k] = which[k - 1]
        k -= 1
    nearest[k] = d2
    which[k] = j


@_compiled
def encode(
    S: NDArray[Any], bias: NDArray[Any], names: NDArray[Any], rows: NDArray[Any], p: int, unit: float, out: NDArray[Any]
) -> None:
    """Write numbers and weights of the p nearest landmarks of every row: never a sort of all distances.

    The squared distance of row i to landmark j, up to what is the row's own, is ``bias[j] - 2 S[i, j]``. Landmark j is
    called ``names[j]``; row i is ``out[rows[i]]``. Weights are ``exp(-(d² - d²min) / 2 s²)``, ``s²`` the mean of
    ``d² - d²min`` over the p, divided by their sum and rounded to multiples of `unit`, so that sums of them are exact.

    The least distance of every strip is found first. The p nearest are no farther than the p-th least of these, so only
    strips that reach down to it are looked at once more: p of them, but for ties.
    """
    n, m = S.shape
    two, far = S.dtype.type(2), S.dtype.type(np.inf)
    nearest = np.empty(p, dtype=S.dtype)
    which = np.empty(p, dtype=np.int64)
    weights = np.empty(p, dtype=np.float64)
    minima = np.empty(-(-m // _STRIP), dtype=S.dtype)
    for i in range(n):
        nearest[:] = far
        for strip in range(minima.shape[0]):
            own = slice(strip * _STRIP, min(m, (strip + 1) * _STRIP))
            least = _least(S[i, own], bias[own])
            minima[strip] = least
            if least < nearest[p - 1]:
                _put(nearest, which, least, strip)
        reach = nearest[p - 1]
        nearest[:] = far
        which[:] = 0
        for strip in range(minima.shape[0]):
            if minima[strip] > reach:
                continue
            for j in range(strip * _STRIP, min(m, (strip + 1) * _STRIP)):
                d2 = bias[j] - two * S[i, j]
                if d2 < nearest[p - 1]:
                    _put(nearest, which, d2, j)
        spread = 0.0
        for k in range(p):
            spread += np.float64(nearest[k]) - np.float64(nearest[0])
        spread /= p
        total = 0.0
        for k in range(p):
            gap = np.float64(nearest[k]) - np.float64(nearest[0])
            weights[k] = np.exp(-gap / (2 * spread)) if spread > 0 else 1.0
            total += weights[k]
        row = rows[i]
        for k in range(p):
            out[row, k] = names[which[k]]
            out[row, p + k] = np.rint(weights[k] / total / unit) * unit


@_compiled
def gather_codes(codes: NDArray[Any], table: NDArray[Any], out: NDArray[Any]) -> None:
    """``out[i] = sum_k weight_ik table[landmark_ik]``, divided by its length; codes (rows, 2 p) as `encode` writes."""
    n = codes.shape[0]
    p = codes.shape[1] // 2
    r = table.shape[1]
    for i in range(n):
        for j in range(r):
            out[i, j] = 0
        for k in range(p):
            row = int(codes[i, k])
            weight = codes[i, p + k]
            for j in range(r):
                out[i, j] += weight * table[row, j]
        length = 0.0
        for j in range(r):
            length += np.float64(out[i, j]) * np.float64(out[i, j])
        scale = 1 / np.sqrt(length) if length > 0 else 1.0
        for j in range(r):
            out[i, j] *= scale
