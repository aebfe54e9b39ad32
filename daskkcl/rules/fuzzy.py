"""Fuzzy c-means in feature space: memberships, the alternating optimisation, and its seeds.

Everything is written for weighted objects given by measurements ``Z`` and ``kappa``; an object may be a row, or the
centre of a whole chunk standing for all its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres, Map, squared_distances
from ..system import Weighed
from .crisp import Euclidean

__all__ = [
    "Fuzzy",
    "FuzzyRun",
    "best_fuzzy_run",
    "collapse_bound",
    "d2_seeds",
    "distances_from",
    "fuzzy_c_means",
    "memberships",
]

Floats = NDArray[Any]


@dataclass(frozen=True)
class Fuzzy(Euclidean):
    """Every row belongs to every cluster to a degree ``u_ij ~ d_ij^(-1/(m-1))`` of squared distances d.

    Examples
    --------
    >>> import numpy as np
    >>> Fuzzy(2.0).memberships(np.array([[1.0, 3.0]]), np.ones((1, 2)))
    array([[0.75, 0.25]])
    """

    fuzzifier: float
    name = "fuzzy"

    def labels(self, D: Floats) -> NDArray[np.intp]:
        """Return the cluster of largest membership: the nearest centre."""
        return D.argmin(axis=1)

    def memberships(self, D: Floats, scale: Floats) -> Floats:
        """Return the memberships of each row of squared distances."""
        return memberships(D, scale, self.fuzzifier)


def memberships(D: Floats, scale: Floats, fuzzifier: float) -> Floats:
    """Return ``u_ij = (dmin_i / d_ij)^(1/(m-1))``, rows divided by their sum.

    A distance of at most ``32 eps scale`` (scale: the sum of the two squared lengths) is zero to working
    precision; such a row is crisp, shared equally among its zero clusters.
    """
    zero = 32 * np.finfo(D.dtype).eps * scale >= D
    hit = zero.any(axis=1)
    safe = np.where(zero, 1, D) if hit.any() else D
    U = safe.min(axis=1, keepdims=True) / safe
    np.power(U, 1.0 / (fuzzifier - 1.0), out=U)
    if hit.any():
        U[hit] = zero[hit]
    U /= U.sum(axis=1, keepdims=True)
    return U


@dataclass(frozen=True, eq=False)
class FuzzyRun(Weighed):
    """What a run of fuzzy c-means ends with: centres, their masses ``omega = sum w u^m``, and J over the steps."""

    centres: Centres
    masses: Floats
    objective: tuple[float, ...]
    n_iter: int
    converged: bool


def fuzzy_c_means(
    Z: Floats,
    kappa: Floats,
    weights: Floats,
    start: Centres,
    map_: Map,
    fuzzifier: float,
    tol: float,
    max_iter: int,
) -> FuzzyRun:
    """Alternate memberships and centres until no membership moves (squared) by `tol`.

    Weighted kernel fuzzy c-means (Algorithm 3 of doi:10.1007/978-3-642-27534-0_1 in its landmark form):
    centres are the means of the objects weighted by ``w u^m``; the print has ``w u`` there, which is wrong.
    A cluster without mass keeps its centre. Objects of weight zero take no part.
    """
    part = weights > 0
    if not part.all():
        Z, kappa, weights = Z[part], kappa[part], weights[part]
    w = weights.astype(Z.dtype)
    centres, U, objective, converged, n_iter = start, None, [], False, 0
    while True:
        D = squared_distances(Z, kappa, centres)
        scale = kappa[:, None] + centres.norms.astype(D.dtype)
        U_new = memberships(D, scale, fuzzifier)
        W = w[:, None] * U_new**fuzzifier  # (objects, c)
        objective.append(float(np.einsum("ic,ic->", W, D, dtype=np.float64)))
        converged = U is not None and float(np.abs(U_new - U).max(initial=0.0)) ** 2 < tol
        masses = W.sum(axis=0, dtype=np.float64)
        if converged or n_iter >= max_iter:
            return FuzzyRun(centres, masses, tuple(objective), n_iter, converged)
        U, n_iter = U_new, n_iter + 1
        means = (W.T @ Z).astype(np.float64) / np.maximum(masses, np.finfo(np.float64).tiny)[:, None]
        means[masses <= 0] = centres.means[masses <= 0]
        centres = Centres.from_means(means, map_)


def d2_seeds(
    distances: Callable[[NDArray[np.int64]], Floats], weights: Floats, n_clusters: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Choose objects far from one another: weighted greedy k-means++ in feature space.

    Each new seed is the best of ``2 + log c`` candidates drawn with probability proportional to weight times
    squared distance from the seeds so far (Arthur and Vassilvitskii 2007, with the greedy choice of its section 6).
    When nothing is left at a distance, seeds repeat.

    Parameters
    ----------
    distances : callable
        Squared distances (objects, k) of all objects from k of them, given by number.
    """
    n_trials = 2 + int(math.log(n_clusters))
    w = weights.astype(np.float64)

    def draw(p: Floats, size: int) -> NDArray[np.int64]:
        total = np.cumsum(p)
        last = int(np.searchsorted(total, total[-1]))  # nothing behind it has a share
        return np.minimum(np.searchsorted(total, rng.random(size) * total[-1], side="right"), last)

    seeds = [int(draw(w, 1)[0])]
    nearest = w * distances(np.array(seeds))[:, 0]
    for _ in range(n_clusters - 1):
        candidates = draw(nearest if nearest.sum() > 0 else w, n_trials)
        after = np.minimum(nearest[:, None], w[:, None] * distances(candidates))
        best = int(after.sum(axis=0).argmin())
        seeds.append(int(candidates[best]))
        nearest = after[:, best]
    return np.array(seeds, dtype=np.int64)


def distances_from(Z: Floats, kappa: Floats, map_: Map) -> Callable[[NDArray[np.int64]], Floats]:
    """Return the function that gives squared distances of measured objects from some of them."""

    def distances(objects: NDArray[np.int64]) -> Floats:
        D = squared_distances(Z, kappa, Centres.from_means(Z[objects], map_)).astype(np.float64)
        D[objects, np.arange(len(objects))] = 0  # its projection stands at its residual, the object itself at zero
        return D

    return distances


def best_fuzzy_run(
    Z: Floats,
    kappa: Floats,
    weights: Floats,
    map_: Map,
    n_clusters: int,
    fuzzifier: float,
    tol: float,
    max_iter: int,
    n_init: int,
    rng: np.random.Generator,
    seeding: str = "d2",
    also: Centres | None = None,
) -> FuzzyRun:
    """Run from several seedings (and from the centres `also`, if any) and keep the run of lowest J."""

    def runs() -> Iterator[FuzzyRun]:  # one at a time: the centres of all of them may be large
        if also is not None:
            yield fuzzy_c_means(Z, kappa, weights, also, map_, fuzzifier, tol, max_iter)
        for _ in range(n_init):
            if seeding == "d2":
                seeds = d2_seeds(distances_from(Z, kappa, map_), weights, n_clusters, rng)
            else:
                some = np.flatnonzero(weights > 0)
                seeds = rng.choice(some, n_clusters, replace=len(some) < n_clusters)
            start = Centres.from_means(Z[seeds], map_)
            yield fuzzy_c_means(Z, kappa, weights, start, map_, fuzzifier, tol, max_iter)

    return min(runs(), key=lambda run: run.objective[-1])


def collapse_bound(K: Floats, weights: Floats | None = None) -> float:
    """Return the fuzzifier above which equal memberships attract: ``1 / (1 - 2 lambda_1)``.

    lambda_1 is the top eigenvalue of the centred, unit-diagonal kernel matrix divided by its size; an object of weight
    w counts as w objects. Infinite when lambda_1 reaches one half.

    Examples
    --------
    >>> import numpy as np
    >>> round(collapse_bound(np.kron(np.eye(4), np.ones((5, 5)))), 3)
    3.0
    >>> round(collapse_bound(np.eye(4), weights=np.full(4, 5.0)), 3)
    3.0
    """
    import scipy.linalg

    n = len(K)
    share = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    mean = K @ share
    H = K - mean - mean[:, None] + share @ mean
    length = np.sqrt(np.maximum(np.diag(H), 0))
    if n < 3 or not (length > 1e-8 * np.sqrt(np.abs(np.diag(K)).max())).any():
        return math.inf
    length[length == 0] = np.inf
    scale = np.sqrt(share) / length
    H = scale[:, None] * H * scale
    top = float(scipy.linalg.eigh(H, subset_by_index=[n - 1, n - 1], eigvals_only=True)[0])
    return 1 / (1 - 2 * top) if top < 0.5 else math.inf
