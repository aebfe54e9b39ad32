"""Frequency-sensitive competitive learning, subset after subset (PAKCL), in the dual form.

A centre in the landmarks' span is moved towards the mean projection of the rows it won by moving its mean
measurement towards theirs: both are the same linear map of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres, Map
from .crisp import FrequencySensitive, cluster_sums
from .index import CentreIndex
from .many import winners_in_slices

__all__ = ["Rates", "Winners", "compete"]

Floats = NDArray[Any]


@dataclass(frozen=True)
class Rates:
    """The learning rate as a function of the fraction done: ``a_i (a_f / a_i)^fraction``.

    Examples
    --------
    >>> Rates(1.0, 0.01)(0.5)
    0.1
    """

    start: float
    end: float

    def __call__(self, fraction: Any) -> Any:
        return self.start * (self.end / self.start) ** fraction


@dataclass(frozen=True, eq=False)
class Winners:
    """State between subsets: centres (as mean measurements) and how often each has won."""

    centres: Centres
    counts: Floats

    @property
    def rule(self) -> FrequencySensitive:
        """The rule that the current counts make."""
        return FrequencySensitive(tuple(self.counts.tolist()))


def compete(state: Winners, Z: Floats, kappa: Floats, rate: float, map_: Map, indexed: bool = False) -> Winners:
    """Let one subset of rows meet the centres (Algorithm 2 of doi:10.1016/j.neunet.2014.11.003).

    Winners are found with centres and frequencies held; then the counts grow, and every centre that won moves by
    `rate` towards the mean projection of its rows (Eq. 44 and 45, as linear moves of mean measurements). A centre
    that won nothing stays. `indexed` looks for the winner of a row among the centres near it only.
    """
    if len(Z) == 0:
        return state
    index = CentreIndex.of(state.centres) if indexed else None
    labels, _ = winners_in_slices(Z, kappa, state.centres, state.rule, index)
    S, won = cluster_sums(Z, labels, len(state.counts))
    means = np.array(state.centres.means)
    moved = np.flatnonzero(won)
    means[moved] += rate * (S[moved] / won[moved, None] - means[moved])
    return Winners(Centres.from_means(means, map_), state.counts + won)
