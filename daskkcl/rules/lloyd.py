"""Kernel k-means on objects in memory: what full passes do, for a sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres, Map
from .crisp import Nearest, cluster_sums
from .fuzzy import d2_seeds, distances_from
from .index import CentreIndex
from .many import MANY, seeds_in_groups, winners_in_slices

__all__ = ["LloydRun", "best_lloyd_run", "lloyd"]

Floats = NDArray[Any]
_NEAREST = Nearest()
_STEPS_OF_MANY = 3  # what is left to do, passes over all rows do


@dataclass(frozen=True, eq=False)
class LloydRun:
    """Centres, the number of objects of each, and the sum of squared distances."""

    centres: Centres
    counts: Floats
    objective: float


def lloyd(
    Z: Floats,
    kappa: Floats,
    start: Centres,
    map_: Map,
    max_iter: int,
    rule: Any = _NEAREST,
    weights: Floats | None = None,
    indexed: bool = False,
) -> LloydRun:
    """Alternate nearest centres and means until no object changes sides; an empty cluster keeps its centre."""
    centres, labels = start, None
    for _ in range(max_iter + 1):
        new_labels, nearest = winners_in_slices(Z, kappa, centres, rule, CentreIndex.of(centres) if indexed else None)
        objective = float(nearest.sum(dtype=np.float64) if weights is None else nearest @ weights)
        S, counts = cluster_sums(Z, new_labels, centres.n_clusters, weights)
        if labels is not None and (labels == new_labels).all():
            break
        labels = new_labels
        means = np.where(counts[:, None] > 0, S / np.where(counts > 0, counts, 1)[:, None], centres.means)
        centres = Centres.from_means(means, map_)
    return LloydRun(centres, counts, objective)


def best_lloyd_run(
    Z: Floats,
    kappa: Floats,
    map_: Map,
    n_clusters: int,
    max_iter: int,
    n_init: int,
    rng: np.random.Generator,
    rule: Any = _NEAREST,
    weights: Floats | None = None,
    indexed: bool = False,
) -> LloydRun:
    """Run from several greedy D² seedings and keep the one of lowest objective; of many clusters from one."""
    w = np.ones(len(Z)) if weights is None else weights
    if n_clusters >= MANY:
        seeds = seeds_in_groups(Z, kappa, map_, w, n_clusters, rng)
        start, steps = Centres.from_means(Z[seeds], map_), min(max_iter, _STEPS_OF_MANY)
        return lloyd(Z, kappa, start, map_, steps, rule, weights, indexed)

    def runs() -> Iterator[LloydRun]:  # one at a time: the centres of all of them may be large
        for _ in range(n_init):
            seeds = d2_seeds(distances_from(Z, kappa, map_), w, n_clusters, rng)
            yield lloyd(Z, kappa, Centres.from_means(Z[seeds], map_), map_, max_iter, rule, weights)

    return min(runs(), key=lambda run: run.objective)
