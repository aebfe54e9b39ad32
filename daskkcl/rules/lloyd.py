"""Kernel k-means on objects in memory: what full passes do, for a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres, Map
from .crisp import Nearest, cluster_sums
from .fuzzy import d2_seeds, distances_from
from .index import CentreIndex
from .many import MANY, seeds_in_groups, winners_in_slices

__all__ = ["LloydRun", "Sides", "best_lloyd_run", "by_products", "lloyd", "lloyd_from_seeds"]

Floats = NDArray[Any]
_NEAREST = Nearest()
_MORE = 4  # times as many objects as measurements: products of all of them still pay
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
    distances = distances_from(Z, kappa, map_)

    def runs() -> Iterator[LloydRun]:  # one at a time: the centres of all of them may be large
        for _ in range(n_init):
            seeds = d2_seeds(distances, w, n_clusters, rng)
            yield lloyd(Z, kappa, Centres.from_means(Z[seeds], map_), map_, max_iter, rule, weights)

    return min(runs(), key=lambda run: run.objective)


# --- by products of the objects with one another ---------------------------------------------------------------------


def by_products(n_objects: int, n_measurements: int, n_clusters: int) -> bool:
    """Say whether k-means of some objects is better done with their kernel matrix than with their measurements.

    A step then costs as many rows of it as objects have changed sides, and no coefficients of centres are needed.
    """
    return n_clusters < MANY and n_objects <= _MORE * n_measurements


def lloyd_from_seeds(
    P: Floats,
    kappa: Floats,
    n_clusters: int,
    max_iter: int,
    rng: np.random.Generator,
    weights: Floats | None = None,
) -> Sides:
    """Do what `lloyd` does from greedy D² seeds, by the products `P` of all objects (a kernel matrix)."""
    w = np.ones(len(P)) if weights is None else weights
    return _lloyd_by(P, kappa, d2_seeds(_distances_by(P, kappa), w, n_clusters, rng), max_iter, weights)


@dataclass(frozen=True, eq=False)
class Sides:
    """A run that knows which objects made each centre: those with its number in `makers`, or a seed (None)."""

    seeds: NDArray[np.int64]
    makers: list[NDArray[np.intp] | None]
    counts: Floats
    objective: float

    def means(self, Z: Floats, weights: Floats | None) -> Floats:
        """Return the mean measurements of the centres, given those of the objects."""
        c, means = len(self.seeds), Z[self.seeds].astype(np.float64)
        for labels in {id(labels): labels for labels in self.makers if labels is not None}.values():
            own = np.flatnonzero([maker is labels for maker in self.makers])
            S, counts = cluster_sums(Z, labels, c, weights)
            means[own] = S[own] / counts[own, None]
        return means


def _distances_by(P: Floats, kappa: Floats) -> Callable[[NDArray[np.int64]], Floats]:
    """Return what `distances_from` returns, with products looked up."""

    def distances(objects: NDArray[np.int64]) -> Floats:
        D = np.maximum(kappa - 2 * P[objects] + P[objects, objects][:, None], 0).astype(np.float64)
        D[np.arange(len(objects)), objects] = 0
        return D.T

    return distances


def _lloyd_by(
    P: Floats, kappa: Floats, seeds: NDArray[np.int64], max_iter: int, weights: Floats | None = None
) -> Sides:
    """Do what `lloyd` does from some objects. Sums of the products of a cluster's objects stand for its centre."""
    c, n = len(seeds), len(P)
    everybody, w = np.arange(n), np.ones(n) if weights is None else weights
    sums, labels = np.zeros((c, n)), None
    near, norms = P[seeds].astype(np.float64), P[seeds, seeds].astype(np.float64)  # m_c . phi(x_i), nu_c
    makers: list[NDArray[np.intp] | None] = [None] * c
    for _ in range(max_iter + 1):
        D = norms[:, None] - 2 * near
        new_labels = D.argmin(axis=0)
        objective = float(np.maximum(kappa + D[new_labels, everybody], 0) @ w)
        counts = np.bincount(new_labels, weights=w, minlength=c)
        changed = everybody if labels is None else np.flatnonzero(new_labels != labels)
        if len(changed) == 0:
            break
        if 4 * len(changed) > n:  # all anew, without a copy of their products
            changed, labels = everybody, None
            sums[:] = 0
        places = np.arange(len(changed))
        moves = np.zeros((c, len(changed)), dtype=P.dtype)
        moves[new_labels[changed], places] = w[changed]
        if labels is not None:
            moves[labels[changed], places] = -w[changed]
        sums += moves @ (P if len(changed) == n else P[changed])
        labels = new_labels
        full = np.flatnonzero(counts)  # an empty cluster keeps its centre
        near[full] = sums[full] / counts[full, None]
        inner = np.bincount(labels, weights=w * near[labels, everybody], minlength=c)
        norms[full] = inner[full] / counts[full]
        for own in full:
            makers[own] = labels
    return Sides(seeds, makers, counts, objective)
