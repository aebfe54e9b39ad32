"""Rules that meet one row at a time: their state, and the way to their compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..system import Weighed

__all__ = ["RULES", "Seeds", "SequentialRule", "merge_seeds", "warm_up"]

Floats = NDArray[Any]

RULES = (
    "frequency_sensitive",
    "cooperative_penalised",
    "rival_penalised",
    "rival_controlled",
    "cooperation_controlled",
    "distance_sensitive",
    "repetition_suppressed",
)
MOVE_ALL = {"distance_sensitive", "repetition_suppressed"}  # all centres after every row


@dataclass(frozen=True, eq=False)
class Seeds(Weighed):
    """State between rows: centres (c, q) in coordinates, wins (c,), what else a rule keeps for each (c, e)."""

    centres: Floats
    counts: Floats
    extra: Floats

    @classmethod
    def start(cls, centres: Floats, counts: Floats, extra: Floats | None = None) -> Seeds:
        """Return a state of float64 arrays."""
        none = np.empty((len(centres), 0))
        return cls(*(np.ascontiguousarray(x, np.float64) for x in (centres, counts, none if extra is None else extra)))


@dataclass(frozen=True)
class SequentialRule:
    """A rule by name, with its own numbers.

    Examples
    --------
    >>> import numpy as np
    >>> seeds = Seeds.start(np.array([[0.0], [4.0]]), np.ones(2))
    >>> rule = SequentialRule("frequency_sensitive")
    >>> rule(seeds, np.array([[1.0], [3.0]]), np.zeros(2), np.array([0.5, 0.5])).centres
    array([[0.5],
           [3.5]])
    """

    name: str
    numbers: tuple[float, ...] = ()

    def __call__(self, seeds: Seeds, Y: Floats, r: Floats, rates: Floats) -> Seeds:
        """Let rows meet the seeds one after another; the state handed in stays as it is."""
        after = Seeds(seeds.centres.copy(), seeds.counts.copy(), seeds.extra.copy())
        Y, r = np.ascontiguousarray(Y), np.ascontiguousarray(r)
        self.loop()(Y, r, rates, np.array(self.numbers, np.float64), after.centres, after.counts, after.extra)
        return after

    def loop(self) -> Callable[..., None]:
        """Return the compiled loop."""
        from . import pair_loops, sequential_loops

        loop: Callable[..., None] = getattr(pair_loops if self.name in MOVE_ALL else sequential_loops, self.name)
        return loop


def warm_up(rule: SequentialRule, dtype: np.dtype[Any], n_extra: int = 0) -> None:
    """Load (or compile) a rule's loop, so that a plan can count what that takes."""
    seeds = Seeds.start(np.eye(2), np.ones(2), np.ones((2, n_extra)))
    rule(seeds, np.zeros((1, 2), dtype), np.zeros(1, dtype), np.full(1, 0.5))


def merge_seeds(between: Floats, reach: float) -> NDArray[np.intp]:
    """Return the group of each seed: seeds at most `reach` apart are one, and so are chains of them.

    Parameters
    ----------
    between : ndarray of shape (c, c)
        Distances between seeds (not squared).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([0.0, 5.0, 0.1, 0.2])
    >>> merge_seeds(abs(x[:, None] - x), reach=0.15)
    array([0, 1, 0, 0])
    """
    from scipy.sparse.csgraph import connected_components

    return connected_components(between <= reach, directed=False)[1].astype(np.intp)
