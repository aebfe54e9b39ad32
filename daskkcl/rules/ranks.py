"""Who is nearest, for compiled loops: costs compared as whole numbers, without a branch.

The bits of a double that is not negative, read as a whole number, grow with it. A *rank* is those bits, the last few
replaced by the number of the centre. The least rank is found in steps of a cycle or two, where comparing doubles takes
several, and a branch that is guessed wrongly twenty; it says whose it is, and ties go to the lowest number. Costs count
as equal when they differ by less than ``2^-51 c`` of themselves, for c centres: a few roundings of the sums they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.loops import _inlined as inlined

NOBODY = np.int64(0x7FFFFFFFFFFFFFFF)  # a rank after all others


@inlined
def number_mask(c: int) -> Any:
    """Return the bits that hold the number of one of c centres."""
    mask = np.int64(0)
    while mask < c - 1:
        mask = 2 * mask + 1
    return mask


@inlined
def rank(cost: float, k: int, mask: Any) -> Any:
    """Return the rank of centre k; its number is ``rank & mask``."""
    return (np.float64(cost).view(np.int64) & ~mask) | k


@inlined
def with_rank(least: Any, second: Any, new: Any) -> tuple[Any, Any]:
    """Return the least and the second least of ranks, with one more."""
    return min(least, new), min(second, max(least, new))
