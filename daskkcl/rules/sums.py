"""Sums that do not depend on how they are grouped.

A float64 sum changes in its last bit when its terms are grouped otherwise, and a changed bit can move a row that
stands between two clusters. Keeping the rounding error of every addition beside the sum (two-sum; Knuth, TAOCP
volume 2, section 4.2.2) leaves an error near 1e-32, so any tree over the same terms rounds to the same float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..system import Weighed

__all__ = ["ExactSum"]

_PIECE = 2**15  # numbers added at a time


def _added(a: NDArray[Any], a_low: NDArray[Any], b: NDArray[Any], b_low: NDArray[Any]) -> tuple[Any, Any]:
    high = a + b
    c = high - a
    low = (a_low + b_low) + ((a - (high - c)) + (b - c))
    # renormalise, so that high is the rounded sum
    total = high + low
    return total, low - (total - high)


@dataclass(frozen=True, eq=False)
class ExactSum(Weighed):
    """An array of sums and their rounding errors.

    Examples
    --------
    >>> total = ExactSum.zeros(()) + 1e16 + 1.0 + (-1e16)
    >>> float(total.value)
    1.0
    """

    high: NDArray[np.float64]
    low: NDArray[np.float64]

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> ExactSum:
        """Return a sum of nothing."""
        return cls(np.zeros(shape), np.zeros(shape))

    def __add__(self, term: ExactSum | ArrayLike) -> ExactSum:
        other = term if isinstance(term, ExactSum) else ExactSum(np.asarray(term, float), np.zeros(()))
        if self.high.size <= _PIECE or self.high.shape != other.high.shape:
            return ExactSum(*_added(self.high, self.low, other.high, other.low))
        high, low = np.empty_like(self.high), np.empty_like(self.low)
        step = max(1, _PIECE * len(high) // high.size)
        for first in range(0, len(high), step):  # temporaries of a piece stay in cache, and are small
            piece = slice(first, first + step)
            other_low = other.low[piece] if other.low.ndim else other.low
            high[piece], low[piece] = _added(self.high[piece], self.low[piece], other.high[piece], other_low)
        return ExactSum(high, low)

    def add(self, term: ExactSum | ArrayLike) -> None:
        """Add to it in place."""
        total = self + term
        self.high[...], self.low[...] = total.high, total.low

    def settled(self) -> ExactSum:
        """Return it after its parts were added to one by one, in place: `high` is the rounded sum again."""
        high, low = np.atleast_2d(self.high), np.atleast_2d(self.low)
        step = max(1, _PIECE * len(high) // max(1, high.size))
        for first in range(0, len(high), step):  # of many clusters a copy would be large
            own = slice(first, first + step)
            total = high[own] + low[own]
            low[own] -= total - high[own]
            high[own] = total
        return self

    @property
    def value(self) -> NDArray[np.float64]:
        """The sum, rounded to float64."""
        return self.high

    def to_array(self) -> NDArray[Any]:
        """Return both parts stacked, for a checkpoint."""
        return np.stack([self.high, self.low])

    @classmethod
    def from_array(cls, parts: NDArray[Any]) -> ExactSum:
        """Return the sum that `to_array` wrote."""
        return cls(parts[0], parts[1])
