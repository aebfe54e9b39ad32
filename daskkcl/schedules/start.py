"""Where centres begin: from the sample, from given rows, labels or centre rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError, did_you_mean
from ..maps.base import Centres, quick_dual
from ..rules.crisp import Nearest, cluster_sums
from ..rules.fuzzy import d2_seeds, distances_from
from ..rules.lloyd import best_lloyd_run, by_products, products
from ..rules.many import MANY, seeds_in_groups
from .data import gather
from .dataset import Dataset
from .graph import Graph
from .mapping import settle_centres
from .measuring import bad_rows, task
from .passes import RandomLabels, label_means
from .problem import STRIP_ROWS, STRIP_THREADS
from .setup import Setup

__all__ = ["Start", "check_init", "given_rows", "place_centres", "sample_products", "start_rows"]


@dataclass(frozen=True, eq=False)
class Start:
    """Initial centres and the number of rows that stand behind each."""

    centres: Centres
    counts: NDArray[Any]


def check_init(init: Any, n_rows: int, n_features: int, n_clusters: int | None, named: tuple[str, ...]) -> Any:
    """Return `init` as a name, row numbers (c,), labels (n,) or centre rows (c, d), or say what is wrong with it."""
    if init is None:
        return named[0]
    if isinstance(init, str):
        if init in named:
            return init
        raise InvalidInputError(
            f"init={init!r} is not known here; use {', '.join(map(repr, named))}, row numbers, a label for every row, "
            f"or centre rows.{did_you_mean(init, named)}"
        )
    array = np.asarray(init)
    if n_clusters is None:
        raise InvalidInputError("init= with rows, labels or centres needs n_clusters as a number.")
    if array.ndim == 2:
        if array.shape != (n_clusters, n_features) or array.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"init has shape {array.shape}; centre rows must be n_clusters x n_features = "
                f"{n_clusters} x {n_features} numbers."
            )
        if not np.isfinite(array).all():
            raise InvalidInputError("init contains NaN or infinity.")
        return array
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) not in (n_clusters, n_rows):
        raise InvalidInputError(
            f"init of shape {array.shape} and dtype {array.dtype} is neither {n_clusters} row numbers, nor {n_rows} "
            f"labels, nor a {n_clusters} x {n_features} array of centre rows."
        )
    high = n_rows if len(array) == n_clusters else n_clusters
    low = 0 if len(array) == n_clusters else -1
    if array.min(initial=0) < low or array.max(initial=0) >= high:
        what = "row numbers" if len(array) == n_clusters else "labels"
        raise InvalidInputError(f"init holds {what} outside {low} to {high - 1}.")
    return array.astype(np.int64) if len(array) == n_clusters else array  # no copy of labels: there may be many


def start_rows(setup: Setup, init: Any) -> NDArray[Any] | None:
    """Return the rows that `init` names or holds, or None when it is a name or labels."""
    if isinstance(init, str):
        return None
    if init.ndim == 2:
        return given_rows(setup, init)
    if len(init) != setup.n_clusters:
        return None
    rows = gather(setup.engine, setup.rows, init, setup.layout("sampling"))
    bad = bad_rows(rows)
    if bad is not None:
        raise InvalidInputError(f"init names row {init[bad].min():,}, which has a NaN or infinity; name another row.")
    return rows


def given_rows(setup: Setup, rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows of the user as the run takes them: scaled, if it scales."""
    scaler = setup.problem.scaler
    return rows if scaler is None else scaler.apply(np.asarray(rows, dtype=np.float64))


def place_centres(setup: Setup, init: Any, data: Dataset | None, n_init: int, rule: Any = None) -> Start:
    """Return initial centres as `init` says.

    ``"sample"`` runs kernel k-means on the sample from `n_init` greedy D² seedings; ``"d2"`` takes the seeds only;
    ``"random"`` takes random rows; ``"random-labels"`` gives the rows of the sample
    random labels, ``"random-labels-all"`` gives them to all rows.
    """
    c, map_ = setup.n_clusters, setup.map_
    settle_centres(map_)  # before threads share it
    ones = np.ones(c)
    rows = start_rows(setup, init)
    if rows is not None:
        return Start(Centres.from_means(setup.row_map.measure(rows)[0], map_), ones)
    if not isinstance(init, str) or init == "random-labels-all":
        if isinstance(init, str):
            init = RandomLabels(setup.problem.key.child("init", "labels"), c)
        data = data or Dataset(setup.engine, setup.source, setup.layout("labelling"))

        def sums() -> dict[str, Any]:
            means, counts = label_means(data, setup.reader, init, c, setup.problem.weights)
            return {"means": means, "counts": counts}

        found = setup.checkpoint.once("start", sums)
        centres, counts = Centres.from_means(found["means"], map_), found["counts"]
        if (counts == 0).any():
            raise InvalidInputError(f"init gives no row the label {int(np.flatnonzero(counts == 0)[0])}.")
        return Start(centres, counts)
    if init == "random":
        return Start(Centres.from_means(setup.row_map.measure(setup.sample[:c])[0], map_), ones)
    Z, kappa = setup.measure_sample()
    rng = setup.problem.key.child("init").generator()
    if init == "random-labels":
        # every cluster gets a row at least
        labels = np.concatenate([np.arange(c), rng.integers(0, c, len(Z) - c)])[rng.permutation(len(Z))]
        S, counts = cluster_sums(Z, labels, c)
        return Start(Centres.from_means(S / counts[:, None], map_), counts.astype(float))
    if init == "d2":
        w = setup.sample_weights
        seeds = (
            seeds_in_groups(Z, kappa, map_, w, c, rng)
            if c >= MANY
            else d2_seeds(distances_from(Z, kappa, map_), w, c, rng)
        )
        return Start(Centres.from_means(Z[seeds], map_), ones)
    weights = None if setup.problem.weights is None else setup.sample_weights
    rule, indexed = rule or Nearest(), setup.problem.indexed
    whole = isinstance(rule, Nearest) and not indexed and by_products(len(Z), Z.shape[1], c)
    P = sample_products(setup, Z) if whole else None
    run = best_lloyd_run(Z, kappa, map_, c, 100, n_init, rng, rule, weights, indexed, P)
    return Start(run.centres, np.maximum(run.counts, 1).astype(float))


def sample_products(setup: Setup, Z: NDArray[Any]) -> NDArray[Any]:
    """Return the products of the objects of the sample with one another, made on the threads of this process."""
    quick_dual(setup.map_, Z[:1])  # makes what threads share
    P, graph = np.empty((len(Z), len(Z)), dtype=Z.dtype), Graph()
    shared = graph.value((Z, setup.map_, P))
    keys = [graph.call(product_strip, shared, first) for first in range(0, len(Z), STRIP_ROWS)]
    setup.engine.here().with_threads(STRIP_THREADS).run(graph, keys)
    return P


@task
def product_strip(shared: Any, first: int) -> None:
    """Put the products of some objects into their place. Strips are the same on any number of threads."""
    Z, map_, P = shared
    products(Z, first, min(len(Z), first + STRIP_ROWS), map_, P)
