"""Frequency-sensitive competitive learning, subset after subset (PAKCL), in the dual form.

A centre in the landmarks' span is moved towards the mean projection of the rows it won by moving its mean
measurement towards theirs: both are the same linear map of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres, Map
from ..system import Weighed
from .crisp import FrequencySensitive, cluster_sums
from .fused import Clean, Fused
from .index import CentreIndex
from .many import winners_in_slices
from .sums import ExactSum

__all__ = [
    "PUBLISHED_RATES",
    "Rates",
    "SubsetSums",
    "Winners",
    "compete",
    "loop_of",
    "move_centres",
    "piece_rows",
    "subset_sums",
    "sums_of_rows",
]

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


PUBLISHED_RATES = Rates(1.0, 1e-5)  # of AKCL and PAKCL, doi:10.1016/j.neunet.2014.11.003


@dataclass(frozen=True, eq=False)
class Winners(Weighed):
    """State between subsets: centres (as mean measurements) and how often each has won."""

    centres: Centres
    counts: Floats

    @cached_property
    def rule(self) -> FrequencySensitive:
        """The rule that the current counts make."""
        return FrequencySensitive(tuple(self.counts.tolist()))


def piece_rows(n_clusters: int) -> int:
    """Return the rows of a subset that are summed at once; more of them where sums of many clusters cost more.

    Sums of pieces are exact, so a subset may be met piece by piece anywhere.

    Examples
    --------
    >>> piece_rows(10), piece_rows(10_000)
    (2048, 32768)
    """
    return max(2048, 1 << (2 * n_clusters - 1).bit_length())


@dataclass(frozen=True, eq=False)
class SubsetSums(Weighed):
    """What a subset, or a part of it, does to the centres: sums of the measurements they won (c, m), and how many."""

    S: ExactSum
    won: Floats

    @staticmethod
    def combine(parts: list[SubsetSums]) -> SubsetSums:
        """Add up the sums of parts of a subset."""
        total = parts[0]
        for part in parts[1:]:
            total = SubsetSums(total.S + part.S, total.won + part.won)
        return total


def compete(state: Winners, Z: Floats, kappa: Floats, rate: float, map_: Map, indexed: bool = False) -> Winners:
    """Let one subset of rows meet the centres (Algorithm 2 of doi:10.1016/j.neunet.2014.11.003).

    Winners are found with centres and frequencies held; then the counts grow, and every centre that won moves by
    `rate` towards the mean projection of its rows. `indexed` looks for the winner of a row among the centres near it
    only.
    """
    return move_centres(state, subset_sums(state, map_, Z, kappa, None, indexed), rate, map_) if len(Z) else state


def subset_sums(
    state: Winners,
    map_: Map,
    Z: Floats,
    kappa: Floats,
    valid: NDArray[np.bool_] | None,
    indexed: bool = False,
) -> SubsetSums:
    """Find the winners of (a part of) a subset with centres and frequencies held, and sum what each has won."""
    fused = loop_of(state, map_, indexed)
    if fused is not None:
        sums = ExactSum.zeros((len(state.counts), Z.shape[1]))
        labels = fused.meet_measured(Z, valid, sums)[0]
        return SubsetSums(sums.settled(), _won(labels, valid, len(state.counts)))
    index = CentreIndex.of(state.centres) if indexed else None
    c, step = len(state.counts), piece_rows(len(state.counts))
    pieces = []
    for first in range(0, len(Z), step):
        own = slice(first, first + step)
        rows, lengths = (Z[own], kappa[own]) if valid is None else (Z[own][valid[own]], kappa[own][valid[own]])
        if len(rows):
            labels = winners_in_slices(rows, lengths, state.centres, state.rule, index)[0]
            S, won = cluster_sums(rows, labels, c)
            pieces.append(SubsetSums(ExactSum(S.astype(np.float64), np.zeros(S.shape)), won))
    if not pieces:
        return SubsetSums(ExactSum.zeros((c, Z.shape[1])), np.zeros(c, dtype=np.intp))
    return SubsetSums.combine(pieces)


def loop_of(state: Winners, map_: Map, indexed: bool) -> Fused | None:
    """Return the loop in which rows are measured and meet the centres, if there is one."""
    return None if indexed else Fused.of(map_, state.centres, state.rule)


def sums_of_rows(fused: Fused, parts: Iterable[tuple[Floats, Clean]]) -> SubsetSums:
    """Return the same as `subset_sums` of rows that are not measured yet; each part has what cleans its rows."""
    c, m = fused.centres.coefficients.shape
    S, won = ExactSum.zeros((c, m)), np.zeros(c, dtype=np.intp)
    with fused.loop(S) as loop:
        for rows, clean in parts:
            labels, _, valid = loop.meet_rows(rows, clean)
            won += _won(labels, valid, c)
    return SubsetSums(S.settled(), won)


def _won(labels: NDArray[np.intp], valid: NDArray[np.bool_] | None, n_clusters: int) -> NDArray[np.intp]:
    return np.bincount(labels if valid is None else labels[valid], minlength=n_clusters)


def move_centres(state: Winners, sums: SubsetSums, rate: float, map_: Map) -> Winners:
    """Move every centre that won towards the mean projection of its rows.

    Eq. 44 and 45 of doi:10.1016/j.neunet.2014.11.003, as linear moves of mean measurements. A centre that won nothing
    stays.
    """
    before, won = state.centres.means, sums.won
    rates = np.where(won > 0, rate, 0.0)
    means = before + rates[:, None] * (sums.S.value / np.maximum(won, 1)[:, None] - before)
    return Winners(Centres.from_means(means, map_, quick=True), state.counts + won)
