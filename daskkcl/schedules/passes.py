"""Full passes: every row meets the same centres, and everything reduces to sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres
from ..random import Key
from ..rules.crisp import cluster_sums
from ..rules.sums import ExactSum
from ..system import Weighed
from .checkpoint import Checkpoint
from .dataset import Dataset
from .measuring import Reader, task, tiles
from .tasks import Model, Sums, labelled_tiles, sum_block

__all__ = ["Labelling", "RandomLabels", "label_pass", "label_means", "once_labelled", "reduce_pass", "sum_pass"]

Floats = NDArray[Any]


@dataclass(frozen=True)
class RandomLabels:
    """A random label for every row, by its number: labels of all rows need not be held."""

    key: Key
    n_clusters: int

    def of_rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the labels of some rows."""
        return self.key.integers(np.arange(start, stop), self.n_clusters)


def sum_pass(
    data: Dataset, model: Model, title: str, weights: Floats | None = None, before: Centres | None = None
) -> Sums:
    """Return the sums of one step of alternating optimisation over all rows (see `sum_block`)."""
    return reduce_pass(data, sum_block, Sums.combine, (model, weights, before), title)


def reduce_pass(data: Dataset, function: Any, combine: Any, shared: tuple[Any, ...], title: str) -> Any:
    """Let a function of block, first row and shared values see all rows; combine what it returns, in order."""
    data.engine.progress.begin(title, data.n_rows)
    total = data.reduce(function, combine, shared)
    if isinstance(total, (Sums, Labelling)):
        data.engine.progress.tell(objective=float(total.objective.value))
    data.engine.progress.end()
    return total


def label_means(
    data: Dataset,
    reader: Reader,
    labels: NDArray[Any] | RandomLabels,
    n_clusters: int,
    weights: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Return the means and counts (weights) of clusters given by a label for every row (negative: nobody's)."""
    shared = (reader, labels, n_clusters, weights)
    total = reduce_pass(data, label_sum_block, Sums.combine, shared, "initial labels")
    counts = total.mass.value
    return total.S.value / np.where(counts > 0, counts, 1)[:, None], counts


@task
def label_sum_block(
    block: Any, start: int, reader: Reader, labels: Any, n_clusters: int, weights: Floats | None = None
) -> Sums:
    """Return the sums of measurements over given labels."""
    S, mass, n_rows = ExactSum.zeros((n_clusters, reader.map_.n_measurements)), ExactSum.zeros((n_clusters,)), 0
    for tile in tiles(block, start, reader):
        stop = tile.start + len(tile.Z)
        given = not isinstance(labels, RandomLabels)
        own = labels[tile.start : stop].astype(np.int64) if given else labels.of_rows(tile.start, stop)
        if tile.valid is not None:
            own = np.where(tile.valid, own, -1)
        tile_S, counts = cluster_sums(tile.Z, own, n_clusters, None if weights is None else tile.weights(weights))
        S, mass, n_rows = S + tile_S, mass + counts, n_rows + tile.n_valid
    return Sums(S, mass, ExactSum.zeros(()), n_rows)


_NO_ROW = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Labelling(Weighed):
    """What the labelling pass found.

    Rows of each cluster and their weight, the first of them, dropped rows, the objective; of fuzzy models also the
    row nearest to each centre (squared distance, row), and squared distances to the nearest centre, summed.
    """

    counts: NDArray[np.int64]
    weight: ExactSum  # (c,)
    first: NDArray[np.int64]
    n_dropped: int
    objective: ExactSum
    nearest: NDArray[np.float64]  # (c, 2)
    spread: ExactSum

    @staticmethod
    def combine(parts: list[Labelling]) -> Labelling:
        """Join what blocks found, in order."""
        total = parts[0]
        for part in parts[1:]:
            total = Labelling(
                total.counts + part.counts,
                total.weight + part.weight,
                np.minimum(total.first, part.first),
                total.n_dropped + part.n_dropped,
                total.objective + part.objective,
                _nearer(total.nearest, part.nearest),
                total.spread + part.spread,
            )
        return total

    def to_arrays(self) -> dict[str, Any]:
        """Return everything as arrays, for a checkpoint."""
        return {
            name: value.to_array() if isinstance(value, ExactSum) else np.asarray(value)
            for name, value in vars(self).items()
        }

    @staticmethod
    def from_arrays(arrays: dict[str, Any]) -> Labelling:
        """Return what `to_arrays` wrote."""
        sums = {name: ExactSum.from_array(arrays[name]) for name in ("weight", "objective", "spread")}
        return Labelling(**{**arrays, **sums, "n_dropped": int(arrays["n_dropped"])})

    @property
    def order(self) -> NDArray[np.intp]:
        """The canonical order of clusters: heaviest first, ties by first row; empty ones last."""
        return np.lexsort((self.first, -self.weight.value))


def _nearer(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearer of two rows for each centre, ties to the lower row."""
    take = (other[:, 0] < one[:, 0]) | ((other[:, 0] == one[:, 0]) & (other[:, 1] < one[:, 1]))
    return np.where(take[:, None], other, one)


def label_pass(data: Dataset, model: Model, store: Any, weights: Floats | None = None) -> Labelling:
    """Label every row once, leave the labels in `store` (if any), and count."""
    return reduce_pass(data, count_labels, Labelling.combine, (model, store, weights), "labelling")


def once_labelled(
    checkpoint: Checkpoint, data: Dataset, model: Model, store: Any, weights: Floats | None = None
) -> Labelling:
    """Label every row, unless that was done when the run came here before and the labels are still in `store`."""

    def label() -> dict[str, Any]:
        if store is not None:
            store.begin()
        return label_pass(data, model, store, weights).to_arrays()

    return Labelling.from_arrays(checkpoint.once("labels", label, lambda: store is None or store.whole))


@task
def count_labels(block: Any, start: int, model: Model, store: Any, weights: Floats | None = None) -> Labelling:
    """Label a block, store the labels, count them and add up the objective."""
    c = model.centres.n_clusters
    counts, first = np.zeros(c, dtype=np.int64), np.full(c, _NO_ROW)
    weight, objective, spread = ExactSum.zeros((c,)), ExactSum.zeros(()), ExactSum.zeros(())
    nearest, n_dropped, stored = np.full((c, 2), np.inf), 0, []
    for tile, labels, own, D in labelled_tiles(block, start, model):
        stored.append(model.numbers(labels).astype(np.int32))
        w = tile.weights(weights)
        inside = slice(None) if tile.valid is None else tile.valid
        part = inside if weights is None else np.asarray(w) > 0
        n_dropped += len(labels) - tile.n_valid
        here = np.bincount(labels[inside], minlength=c)
        counts += here
        weight = weight + (
            here if weights is None else np.bincount(labels[part], weights=np.asarray(w)[part], minlength=c)
        )
        if (first == _NO_ROW).any():  # a cluster that a tile before has rows of has its first one
            rows = np.arange(tile.start, tile.start + len(labels))[part]
            here_first = np.full(c, _NO_ROW)
            here_first[labels[part][::-1]] = rows[::-1]  # of several the last counts, which is the first
            first = np.minimum(first, here_first)
        if D is not None:
            W = model.rule.memberships(D, model.scale(tile)) ** model.rule.fuzzifier
            W *= D
            if w is not None:
                W *= w[:, None].astype(W.dtype)
            objective = objective + W.sum(dtype=np.float64)
            near = D.min(axis=1).astype(np.float64)
            spread = spread + (near.sum() if w is None else near @ w)
            if not isinstance(part, slice):
                D[~part] = np.inf
            rows = D.argmin(axis=0)
            nearest = _nearer(nearest, np.stack([D[rows, np.arange(c)], tile.start + rows], axis=1))
        else:
            objective = objective + own[inside].sum(dtype=np.float64)
    if store is not None:
        store.write(start, np.concatenate(stored))
    return Labelling(counts, weight, first, n_dropped, objective, nearest, spread)
