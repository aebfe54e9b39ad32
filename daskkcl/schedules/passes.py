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
from .data import Dataset
from .graph import Graph
from .tasks import Model, Reader, Sums, label_block, sum_block, task, tiles

__all__ = ["Labelling", "RandomLabels", "label_pass", "label_sums", "sum_pass"]


@dataclass(frozen=True)
class RandomLabels:
    """A random label for every row, by its number: labels of all rows need not be held."""

    key: Key
    n_clusters: int

    def of_rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the labels of some rows."""
        return self.key.integers(np.arange(start, stop), self.n_clusters)


def sum_pass(data: Dataset, model: Model, title: str) -> Sums:
    """Return the sums of one step of alternating optimisation over all rows."""
    return _reduce(data, sum_block, Sums.combine, (model,), title)


def _reduce(data: Dataset, function: Any, combine: Any, shared: tuple[Any, ...], title: str) -> Any:
    def prepare(graph: Graph) -> Any:
        common = [graph.value(value) for value in shared]
        return lambda start, block: graph.call(function, block, start, *common)

    data.engine.progress.begin(title, data.n_rows)
    (total,) = data.run(prepare, combine, function.__name__, data.block_rows)
    data.engine.progress.end()
    return total


def label_sums(
    data: Dataset, reader: Reader, labels: NDArray[Any] | RandomLabels, n_clusters: int
) -> tuple[Centres, Any]:
    """Return the means and counts of clusters given by a label for every row (negative: nobody's)."""
    total = _reduce(data, label_sum_block, Sums.combine, (reader, labels, n_clusters), "initial labels")
    counts = total.mass.value
    return Centres.from_means(total.S.value / np.maximum(counts, 1)[:, None], reader.map_), counts


@task
def label_sum_block(block: Any, start: int, reader: Reader, labels: Any, n_clusters: int) -> Sums:
    """Return the sums of measurements over given labels."""
    S, mass, n_rows = ExactSum.zeros((n_clusters, reader.map_.n_measurements)), ExactSum.zeros((n_clusters,)), 0
    for tile in tiles(block, start, reader):
        stop = tile.start + len(tile.Z)
        given = not isinstance(labels, RandomLabels)
        own = labels[tile.start : stop].astype(np.int64) if given else labels.of_rows(tile.start, stop)
        if tile.valid is not None:
            own = np.where(tile.valid, own, -1)
        tile_S, counts = cluster_sums(tile.Z, own, n_clusters)
        S, mass, n_rows = S + tile_S, mass + counts, n_rows + tile.n_valid
    return Sums(S, mass, ExactSum.zeros(()), n_rows)


class Labelling:
    """What the labelling pass found: rows of each cluster, the first of them, dropped rows, the objective."""

    def __init__(
        self, counts: NDArray[np.int64], first: NDArray[np.int64], n_dropped: int, objective: ExactSum
    ) -> None:
        self.counts, self.first, self.n_dropped, self.objective = counts, first, n_dropped, objective

    @staticmethod
    def combine(parts: list[Labelling]) -> Labelling:
        """Join what blocks found, in order."""
        return Labelling(
            np.sum([part.counts for part in parts], axis=0),
            np.min([part.first for part in parts], axis=0),
            sum(part.n_dropped for part in parts),
            sum((part.objective for part in parts), start=ExactSum.zeros(())),
        )

    @property
    def order(self) -> NDArray[np.intp]:
        """The canonical order of clusters: largest first, ties by first row; empty ones last."""
        return np.lexsort((self.first, -self.counts))


def label_pass(data: Dataset, model: Model, store: Any) -> Labelling:
    """Label every row once, leave the labels in `store` (if any), and count."""
    return _reduce(data, count_labels, Labelling.combine, (model, store), "labelling")


@task
def count_labels(block: Any, start: int, model: Model, store: Any) -> Labelling:
    """Label a block, store the labels, count them and add up the objective."""
    labels, objective = label_block(block, start, model, with_objective=True)
    if store is not None:
        store.write(start, labels)
    inside = labels >= 0
    n_clusters = model.centres.n_clusters
    first = np.full(n_clusters, np.iinfo(np.int64).max)
    present, where = np.unique(labels[inside], return_index=True)
    first[present] = start + np.flatnonzero(inside)[where]
    counts = np.bincount(labels[inside], minlength=n_clusters).astype(np.int64)
    return Labelling(counts, first, int((~inside).sum()), objective)
