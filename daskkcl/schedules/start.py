"""Where centres begin: from the sample, from given rows, labels or centre rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError, did_you_mean
from ..maps.base import Centres
from ..rules.crisp import Nearest, cluster_sums
from ..rules.fuzzy import d2_seeds, distances_from
from ..rules.lloyd import Sides, best_lloyd_run, lloyd_from_seeds
from ..rules.many import MANY, seeds_in_groups
from .data import gather
from .dataset import Dataset
from .graph import Graph
from .mapping import settle_centres
from .measuring import bad_rows, task
from .passes import RandomLabels, label_means
from .problem import START_THREADS, STRIP_ROWS
from .setup import Setup

__all__ = ["Start", "check_init", "given_rows", "place_centres", "start_rows"]

_STEPS = 100  # of k-means of the sample, at most


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
    c, map_, nearest = setup.n_clusters, setup.map_, rule is None or isinstance(rule, Nearest)
    if isinstance(init, str) and init == "sample" and nearest and setup.problem.starts_by_kernel:
        return _start_by_kernel(setup, n_init)
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
    run = best_lloyd_run(Z, kappa, map_, c, _STEPS, n_init, rng, rule or Nearest(), weights, setup.problem.indexed)
    return Start(run.centres, np.maximum(run.counts, 1).astype(float))


# --- by the kernel matrix of the sample ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _SampleKernel:
    """The sample with room for its measurements (s, m) and its whole kernel matrix (s, s), filled strip by strip."""

    setup: Setup
    weights: NDArray[Any] | None
    Z: NDArray[Any]
    kappa: NDArray[Any]
    P: NDArray[Any]

    @classmethod
    def of(cls, setup: Setup) -> _SampleKernel:
        s, map_ = len(setup.sample), setup.row_map
        weights = None if setup.problem.weights is None else setup.sample_weights
        return cls(setup, weights, *(np.empty(shape, map_.dtype) for shape in ((s, map_.n_measurements), s, (s, s))))

    @property
    def known(self) -> int:
        """Columns that are measurements: of landmarks that are the first rows of the sample."""
        return self.Z.shape[1] if self.setup.problem.landmarks_by("uniform") else 0


def _start_by_kernel(setup: Setup, n_init: int) -> Start:
    """Run kernel k-means on the sample with its own kernel matrix, and keep the best of several runs.

    That takes no coefficients of centres, so a thread finds the eigenvectors which those take meanwhile.
    """
    kernel, graph = _SampleKernel.of(setup), Graph()
    settled, shared = graph.call(settle_centres, graph.value(setup.map_)), graph.value(kernel)
    columns = graph.call(other_columns, shared)
    strips = [graph.call(kernel_strip, shared, columns, first) for first in range(0, len(setup.sample), STRIP_ROWS)]
    whole = graph.call(mirror_known, shared, strips)
    runs = [graph.call(k_means_run, shared, number, whole) for number in range(n_init)]
    here = setup.engine.here()
    *found, _ = here.with_threads(min(START_THREADS, here.threads)).run(graph, [*runs, settled])
    best = min(found, key=lambda run: run.objective)
    means = best.means(kernel.Z, kernel.weights)
    return Start(Centres.from_means(means, setup.map_), np.maximum(best.counts, 1).astype(float))


@task
def other_columns(kernel: _SampleKernel) -> Any:
    """Return the columns of the kernel matrix that are not measurements, ready to be multiplied."""
    rows = kernel.setup.sample[kernel.known :]
    return kernel.setup.row_map.kernel.columns(rows, kernel.P.dtype) if len(rows) else None


@task
def kernel_strip(kernel: _SampleKernel, columns: Any, first: int) -> None:
    """Measure some rows of the sample, and put their kernel values into their place."""
    own, known = slice(first, first + STRIP_ROWS), kernel.known
    rows = kernel.setup.sample[own]
    _, kernel.kappa[own] = kernel.setup.row_map.measure(rows, kernel.Z[own])
    kernel.P[own, :known] = kernel.Z[own, :known]
    if columns is not None and first + STRIP_ROWS > known:
        kernel.P[own, known:] = columns.block(rows)[0]


@task
def mirror_known(kernel: _SampleKernel, strips: Any) -> None:
    """Put in, when all strips are there, what rows that are landmarks have in common with those that are not."""
    known = kernel.known
    kernel.P[:known, known:] = kernel.P[known:, :known].T


@task
def k_means_run(kernel: _SampleKernel, number: int, whole: Any) -> Sides:
    """Run k-means from seeds of its own."""
    setup = kernel.setup
    rng = setup.problem.key.child("init", number).generator()
    return lloyd_from_seeds(kernel.P, kernel.kappa, setup.n_clusters, _STEPS, rng, kernel.weights)
