"""From seeds to clusters: those that coincide are one, those that win no row are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rules.coordinates import Coordinates
from ..rules.crisp import Nearest
from ..rules.sequential import Seeds, merge_seeds
from .dataset import Dataset
from .exact import ExactCentres, ExactRows
from .passes import sum_pass
from .setup import Setup
from .tasks import Model

__all__ = ["Found", "clusters_of_combinations", "clusters_of_seeds", "exact_variance", "total_variance"]

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Found:
    """A model of the clusters found, how often the seeds of each have won, and how many seeds there were."""

    model: Model
    counts: Floats
    n_seeds: int


def total_variance(setup: Setup, coordinates: Coordinates) -> float:
    """Return the mean squared distance of the rows of the sample from their mean, in feature space."""
    Z, kappa = setup.measure_sample()
    mean = coordinates.block(Z, kappa)[0].mean(axis=0, dtype=np.float64)
    return max(float(kappa.mean(dtype=np.float64) - mean @ mean), 0.0)


def exact_variance(exact: ExactRows) -> float:
    """Return the mean squared distance of all rows from their mean, in feature space."""
    n = len(exact.numbers)
    return max(float(np.trace(exact.K[:n, :n])) / n - float(exact.K[:n, :n].mean()), 0.0)


def clusters_of_seeds(setup: Setup, coordinates: Coordinates, seeds: Seeds, reach: float) -> Found:
    """Merge seeds that coincide, at most `reach` apart or in a chain of such, and leave out those that win no row."""
    M = seeds.centres
    between = np.sqrt([((M - m) ** 2).sum(axis=1) for m in M])
    groups = merge_seeds(between, reach)
    M, counts = _join(M, seeds.counts, groups)
    model = Model(setup.reader, coordinates.centres(M), Nearest())
    data = Dataset(setup.engine, setup.source, setup.layout("labelling"))
    counted = setup.checkpoint.once("counts", lambda: {"mass": sum_pass(data, model, "counting").mass.value})
    own = counted["mass"] > 0
    return Found(Model(setup.reader, coordinates.centres(M[own]), Nearest()), counts[own], len(seeds.counts))


def clusters_of_combinations(exact: ExactRows, centres: ExactCentres, reach: float) -> tuple[Floats, Floats]:
    """Do the same with combinations of all rows; return their coefficients and wins."""
    n = len(exact.numbers)
    Q = centres.A @ exact.K @ centres.A.T
    norms = np.diagonal(Q)
    between = np.sqrt(np.maximum(norms[:, None] - 2 * Q + norms, 0))
    A, counts = _join(centres.A, centres.counts, merge_seeds(between, reach))
    G = A @ exact.K
    nearest = (np.einsum("cp,cp->c", G, A)[:, None] - 2 * G[:, :n]).argmin(axis=0)
    own = np.bincount(nearest, minlength=len(A)) > 0
    return A[own], counts[own]


def _join(M: Floats, counts: Floats, groups: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return the mean of each group, weighted by wins, and the wins of each."""
    members = (groups == np.arange(groups.max() + 1)[:, None]) * counts
    totals = members.sum(axis=1)
    return members @ M / totals[:, None], totals
