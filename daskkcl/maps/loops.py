"""Compiled loops of the sparse landmark map: the nearest few of many, and sums of a few rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.loops import _compiled

__all__ = ["encode", "gather_codes"]

_STRIP = 64  # landmarks looked at together: most strips hold none of the nearest and cost one vectorised minimum


@_compiled
def encode(
    S: NDArray[Any], bias: NDArray[Any], names: NDArray[Any], rows: NDArray[Any], p: int, unit: float, out: NDArray[Any]
) -> None:
    """Write numbers and weights of the p nearest landmarks of every row: never a sort, one look at each distance.

    The squared distance of row i to landmark j, up to what is the row's own, is ``bias[j] - 2 S[i, j]``. Landmark j is
    called ``names[j]``; row i is ``out[rows[i]]``. Weights are ``exp(-(d² - d²min) / 2 s²)``, ``s²`` the mean of
    ``d² - d²min`` over the p, divided by their sum and rounded to multiples of `unit`, so that sums of them are exact.
    """
    n, m = S.shape
    two, far = S.dtype.type(2), S.dtype.type(np.inf)
    nearest = np.empty(p, dtype=S.dtype)
    which = np.empty(p, dtype=np.int64)
    weights = np.empty(p, dtype=np.float64)
    for i in range(n):
        for k in range(p):
            nearest[k] = far
            which[k] = 0
        for first in range(0, m, _STRIP):
            last = min(first + _STRIP, m)
            least = far
            for j in range(first, last):
                least = min(least, bias[j] - two * S[i, j])
            if least >= nearest[p - 1]:
                continue
            for j in range(first, last):
                d2 = bias[j] - two * S[i, j]
                if d2 < nearest[p - 1]:
                    k = p - 1
                    while k > 0 and d2 < nearest[k - 1]:
                        nearest[k] = nearest[k - 1]
                        which[k] = which[k - 1]
                        k -= 1
                    nearest[k] = d2
                    which[k] = j
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
