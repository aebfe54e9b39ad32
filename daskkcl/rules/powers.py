"""Powers and logarithms for compiled loops, written out: a call of the C library cannot run in vector lanes."""

from __future__ import annotations

import numpy as np

from ..kernels.loops import _inlined as inlined

LOG2_E = 1.4426950408889634
ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
LANES = 8


@inlined
def whole_lanes(n: int) -> int:
    """Return how many numbers fill the vector lanes, at least n: loops over them leave no rest."""
    return (n + LANES - 1) // LANES * LANES


@inlined
def power_of_two(x: float) -> float:
    """``2^x`` for ``x <= 0``, to 1e-13 of it; below -1000 it is ``2^-1000``, which moves nothing."""
    x = max(x, -1000.0)
    whole = np.floor(x + 0.5)
    f = (x - whole) * 0.6931471805599453
    f2 = f * f
    f4 = f2 * f2
    # e^f by its series up to f^11 / 11!, |f| <= 0.35, in pairs: a long chain of steps would wait for itself
    low = (1.0 + f) + f2 * (1 / 2 + f * (1 / 6)) + f4 * ((1 / 24 + f * (1 / 120)) + f2 * (1 / 720 + f * (1 / 5040)))
    high = (1 / 40320 + f * (1 / 362880)) + f2 * (1 / 3628800 + f * (1 / 39916800))
    return (low + f4 * f4 * high) * np.int64((np.int64(whole) + 1023) << 52).view(np.float64)


@inlined
def binary_logarithm(x: float) -> float:
    """``log2 x`` for finite ``x >= 1``, to 1e-13 of it."""
    bits = np.float64(x).view(np.int64) - ROOT_HALF
    mantissa = np.int64((bits & 0xFFFFFFFFFFFFF) + ROOT_HALF).view(np.float64)  # from sqrt(1/2) to sqrt(2)
    s = (mantissa - 1.0) / (mantissa + 1.0)  # ln m = 2 artanh s, |s| <= 0.172
    z = s * s
    z2 = z * z
    z4 = z2 * z2
    series = (
        (1.0 + z * (1 / 3)) + z2 * (1 / 5 + z * (1 / 7)) + z4 * ((1 / 9 + z * (1 / 11)) + z2 * (1 / 13 + z * (1 / 15)))
    )
    return (bits >> 52) + (2.0 * LOG2_E) * s * series
