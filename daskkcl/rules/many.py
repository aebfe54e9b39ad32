"""What changes when clusters are counted in hundreds and thousands: winners in slices, a start in two levels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres, Map
from .crisp import FrequencySensitive, Nearest, cluster_sums
from .fuzzy import d2_seeds, distances_from
from .index import CentreIndex

__all__ = ["MANY", "seeds_in_groups", "warm_up", "winners", "winners_in_slices"]

Floats = NDArray[Any]

MANY = 512  # from so many clusters on
_SLICE_ROWS = 1024
_GROUP_STEPS = 10


def winners(
    Z: Floats, kappa: Floats, centres: Centres, rule: Any, index: CentreIndex | None = None
) -> tuple[NDArray[np.intp], Floats]:
    """Return the centre that wins each row by a crisp rule, and its distance as the rule takes it.

    With an index, only the centres that it finds near a row can win it.
    """
    if index is not None:
        factors = rule.shares if isinstance(rule, FrequencySensitive) else None
        return index.winners(Z, kappa, centres, factors)
    D = rule.distances(Z, kappa, centres)
    labels = rule.labels(D)
    return labels, D[np.arange(len(D)), labels]


def winners_in_slices(
    Z: Floats, kappa: Floats, centres: Centres, rule: Any, index: CentreIndex | None = None
) -> tuple[NDArray[np.intp], Floats]:
    """Return the same of any number of rows, some at a time: rows times centres would be large."""
    if centres.n_clusters < MANY:
        return winners(Z, kappa, centres, rule, index)
    parts = [
        winners(Z[first : first + _SLICE_ROWS], kappa[first : first + _SLICE_ROWS], centres, rule, index)
        for first in range(0, len(Z), _SLICE_ROWS)
    ]
    return np.concatenate([labels for labels, _ in parts]), np.concatenate([distances for _, distances in parts])


def warm_up(dtype: np.dtype[Any], indexed: bool) -> None:
    """Load (or compile) what many clusters need: it takes memory, which plans are to know of."""
    from .many_loops import add_exactly

    Z, sums = np.ones((1, 1), dtype=dtype), np.zeros((1, 1))
    add_exactly(Z, np.zeros(1, dtype=np.intp), sums, np.zeros((1, 1)))
    if indexed:
        centres = Centres(np.ones((1, 1)), np.ones(1), np.ones((1, 1)), np.dtype(dtype))
        CentreIndex.of(centres).winners(Z, Z[0], centres)


def seeds_in_groups(
    Z: Floats, kappa: Floats, map_: Map, weights: Floats, n_clusters: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Choose objects far from one another, group by group: greedy D² seeds among all would take c² steps.

    A k-means of a few steps makes about the square root of c groups, and each gets its share of the seeds by weight.
    """
    n_groups = math.isqrt(n_clusters)
    first = d2_seeds(distances_from(Z, kappa, map_), weights, n_groups, rng)
    centres = Centres.from_means(Z[first], map_)
    for _ in range(_GROUP_STEPS):
        groups, _ = winners(Z, kappa, centres, Nearest())
        S, counts = cluster_sums(Z, groups, n_groups, weights)
        means = np.where(counts[:, None] > 0, S / np.where(counts > 0, counts, 1)[:, None], centres.means)
        centres = Centres.from_means(means, map_)
    groups, _ = winners(Z, kappa, centres, Nearest())
    rows = np.bincount(groups, minlength=n_groups)
    shares = _shares(np.bincount(groups, weights=weights, minlength=n_groups), rows, n_clusters)
    order = np.argsort(groups, kind="stable")
    seeds = []
    for members, share in zip(np.split(order, np.cumsum(rows)[:-1]), shares, strict=True):
        if share:
            own = Z[members]
            seeds.append(
                members[d2_seeds(distances_from(own, kappa[members], map_), weights[members], int(share), rng)]
            )
    return np.concatenate(seeds)


def _shares(weights: Floats, rows: NDArray[np.intp], total: int) -> NDArray[np.intp]:
    """Divide a total by weight into whole numbers, none more than there are rows; what is left is divided again.

    Examples
    --------
    >>> _shares(np.array([5.0, 3.0, 1.0]), np.array([9, 1, 9]), 5)
    array([4, 1, 0])
    """
    shares = np.zeros(len(rows), dtype=np.intp)
    while (left := total - int(shares.sum())) > 0 and (shares < rows).any():
        open_ = np.where(shares < rows, np.maximum(weights, 1e-300), 0.0)
        wanted = left * open_ / open_.sum()
        more = np.minimum(np.floor(wanted).astype(np.intp), rows - shares)
        if not more.any():
            ranked = np.argsort(-wanted, kind="stable")[:left]
            more[ranked] = np.minimum(1, (rows - shares)[ranked])
        shares += more
    return shares
