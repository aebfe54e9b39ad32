"""Indices of crisp partitions: two passes over the rows, for any number of models at once.

The first pass labels all rows and adds up what their centroids need; the second meets the centroids, and picks up a
sample that has rows of every cluster. Models that share a map share its measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.sources import Source
from ..kernels.rows import join_blocks
from ..maps.base import Centres, Map, squared_distances
from ..planning import Stage
from ..random import Key
from ..rules.crisp import cluster_sums
from ..rules.fuzzy import Fuzzy
from ..rules.separation import calinski_harabasz, davies_bouldin, distances_between, silhouettes, stratified_mean
from ..rules.sums import ExactSum
from ..rules.validity import between_centres, centre_products, mean_norm
from .data import gather
from .dataset import Dataset
from .measuring import Reader, Tile, task, tiles
from .passes import reduce_pass
from .predict import meeting_bytes, reading_stage
from .tasks import Model

__all__ = ["Group", "judge_pass", "judging_stages"]

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Group:
    """Models with the same reader, and their numbers among all; `measured` says that rows are measured already."""

    reader: Reader
    numbers: tuple[int, ...]
    models: tuple[Model, ...]
    measured: Map | None = None  # the map that made what is read, if rows are not

    @property
    def row_map(self) -> Map:
        """The map of rows."""
        return self.measured or self.reader.map_


@dataclass(frozen=True, eq=False)
class _Tally:
    """What the first pass knows of a model: sums of measurements, counts, and rows to pick, `each` of a cluster."""

    S: ExactSum  # (c, m)
    counts: NDArray[np.int64]
    picks: NDArray[np.float64]  # (picked, 3): cluster, random number, row
    each: int

    def __add__(self, other: _Tally) -> _Tally:
        picks = _lowest(np.concatenate([self.picks, other.picks]), self.each)
        return _Tally(self.S + other.S, self.counts + other.counts, picks, self.each)


def judging_stages(source: Source, groups: Sequence[Group], n_sample: int, silhouettes: bool) -> list[Stage]:
    """Return what the passes take: all models in every task, sums and centroids of each, the sample in the end."""
    models = [model for group in groups for model in group.models]
    counts = [model.centres.n_clusters for model in models]
    tables = sum(8 * c * (model.reader.map_.n_measurements + 4) for c, model in zip(counts, models, strict=True))
    picked = [min(max(2, n_sample // c) * c, source.n_rows) for c in counts]
    tile = max(meeting_bytes(source, group.reader, max(counts)) for group in groups)
    rows = max(group.reader.tile_rows for group in groups)  # powers of two: a multiple of every other
    passing = reading_stage(
        "judging",
        source,
        rows,
        task_bytes=2 * tile + 6 * tables + 4 * 24 * sum(picked),
        fixed_bytes=8 * tables + 4 * 24 * sum(picked) + 3 * sum(picked) * source.mean_bytes,
        remedy="judge fewer settings at a time, or pass a smaller n_sample",
    )
    if not silhouettes:
        return [passing]
    drawn = sum(picked) * source.mean_bytes + max(picked) * 8 * source.n_features + 7 * 8 * max(picked) ** 2
    remedy = "pass a smaller n_sample, or leave 'silhouette' out of the indices"
    return [passing, Stage("silhouettes", row_bytes=0, fixed_bytes=drawn, remedy=remedy)]


def judge_pass(
    data: Dataset,
    groups: Sequence[Group],
    n_sample: int,
    key: Key,
    wanted: Sequence[str],
    rows_of: Source | None = None,
) -> list[dict[str, float]]:
    """Return the indices of every model, in the order of their numbers.

    Where the data are measurements, or codes, the rows of the sample are taken from `rows_of`.
    """
    tallies = reduce_pass(data, tally_block, _add_tallies, (tuple(groups), key, n_sample), "clusters")
    centroids = [_centroids(tally, _reader_of(groups, k)) for k, tally in enumerate(tallies)]
    picks = [np.sort(tally.picks[:, 2].astype(np.int64)) for tally in tallies]
    rows = np.unique(np.concatenate(picks)) if "silhouette" in wanted else np.empty(0, dtype=np.int64)
    there = [tally.counts > 0 for tally in tallies]
    shared = (tuple(groups), tuple(zip(centroids, there, strict=True)), rows if rows_of is None else rows[:0])
    spreads, kept, numbers = reduce_pass(data, spread_block, _add_spreads, shared, "separation")
    sample = None
    if len(rows) and rows_of is not None:
        sample, numbers = gather(data.engine, rows_of, rows, data.layout), rows
    elif len(rows):
        sample = join_blocks(kept)
    found = []
    for k, tally in enumerate(tallies):
        reader = _reader_of(groups, k)
        indices = _indices(tally, centroids[k], spreads[k].value, reader)
        if sample is not None:
            own = tally.picks[np.argsort(tally.picks[:, 2])]
            places = np.searchsorted(numbers, own[:, 2].astype(np.int64))
            labels = own[:, 0].astype(np.intp)
            several = len(np.unique(labels)) > 1
            map_ = group_of(groups, k).row_map
            values = silhouettes(distances_between(sample[places], map_), labels) if several else np.zeros(0)
            indices["silhouette"] = stratified_mean(values, labels, tally.counts) if several else float("nan")
        found.append({name: indices[name] for name in wanted})
    return found


def group_of(groups: Sequence[Group], number: int) -> Group:
    """Return the group that a model is in."""
    return next(group for group in groups if number in group.numbers)


def _reader_of(groups: Sequence[Group], number: int) -> Reader:
    return group_of(groups, number).reader


@task
def tally_block(block: Any, start: int, groups: tuple[Group, ...], key: Key, n_sample: int) -> list[_Tally]:
    """Label a block with every model and return what their centroids need."""
    found: dict[int, _Tally] = {}
    for group in groups:
        for tile in tiles(block, start, group.reader):
            chance = key.uniform(np.arange(tile.start, tile.start + len(tile.Z)))
            for number, model in zip(group.numbers, group.models, strict=True):
                one = _tally(tile, model, chance, max(2, n_sample // model.centres.n_clusters))
                found[number] = found[number] + one if number in found else one
    return [found[number] for number in sorted(found)]


def _labels(tile: Tile, model: Model) -> NDArray[np.intp]:
    fuzzy = isinstance(model.rule, Fuzzy)
    labels = np.array(model.rule.labels(model.distances(tile)) if fuzzy else model.winners(tile)[0])
    if tile.valid is not None:
        labels[~tile.valid] = -1
    return labels


def _tally(tile: Tile, model: Model, chance: Floats, each: int) -> _Tally:
    c, labels = model.centres.n_clusters, _labels(tile, model)
    S, _ = cluster_sums(tile.Z, labels, c)
    inside = np.flatnonzero(labels >= 0)
    picks = np.column_stack([labels[inside], chance[inside], tile.start + inside]).astype(np.float64)
    counts = np.bincount(labels[inside], minlength=c).astype(np.int64)
    return _Tally(ExactSum.zeros(S.shape) + S, counts, _lowest(picks, each), each)


def _lowest(picks: Floats, each: int) -> Floats:
    """Return the picks of the lowest random numbers, so many of each cluster."""
    order = np.lexsort((picks[:, 2], picks[:, 1], picks[:, 0]))
    picks = picks[order]
    first = np.searchsorted(picks[:, 0], picks[:, 0], "left")
    return picks[np.arange(len(picks)) - first < each]


def _add_tallies(parts: list[list[_Tally]]) -> list[_Tally]:
    total = parts[0]
    for part in parts[1:]:
        total = [a + b for a, b in zip(total, part, strict=True)]
    return total


def _centroids(tally: _Tally, reader: Reader) -> Centres:
    return Centres.from_means(tally.S.value / np.maximum(tally.counts, 1)[:, None], reader.map_)


@task
def spread_block(
    block: Any, start: int, groups: tuple[Group, ...], centroids: tuple[Any, ...], rows: NDArray[np.int64]
) -> tuple[list[ExactSum], list[Any], NDArray[np.int64]]:
    """Return sums of distances to centroids and of simplified silhouettes, and the rows of the sample in the block."""
    found: dict[int, ExactSum] = {}
    for group in groups:
        for tile in tiles(block, start, group.reader):
            for number, model in zip(group.numbers, group.models, strict=True):
                one = _spread(tile, _labels(tile, model), *centroids[number])
                found[number] = found.get(number, ExactSum.zeros(one.shape)) + one
    own = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + len(block))]
    return [found[number] for number in sorted(found)], [block[own - start].copy()], own


def _spread(tile: Tile, labels: NDArray[np.intp], centroids: Centres, there: NDArray[np.bool_]) -> Floats:
    """Return (3, c): distances to the own centroid, their squares, simplified silhouettes, summed over clusters."""
    c, inside = centroids.n_clusters, labels >= 0
    own = labels[inside]
    rows = np.arange(len(own))
    D = squared_distances(tile.Z, tile.kappa, centroids)[inside].astype(np.float64)
    D[:, ~there] = np.inf
    square = D[rows, own]
    a = np.sqrt(square)
    D[rows, own] = np.inf
    b = np.sqrt(D.min(axis=1, initial=np.inf))
    larger = np.maximum(a, b)
    s = np.zeros_like(a)
    np.divide(b - a, larger, out=s, where=np.isfinite(larger) & (larger > 0))
    return np.stack([np.bincount(own, weights=values, minlength=c) for values in (a, square, s)])


def _add_spreads(parts: list[Any]) -> Any:
    sums, kept, numbers = parts[0]
    kept, numbers = list(kept), [numbers]
    for more, rows, own in parts[1:]:
        sums = [a + b for a, b in zip(sums, more, strict=True)]
        kept += rows
        numbers.append(own)
    return sums, kept, np.concatenate(numbers)


def _indices(tally: _Tally, centroids: Centres, spreads: Floats, reader: Reader) -> dict[str, float]:
    """Return the indices that come of sums alone. Clusters without rows are left out."""
    map_, counts = reader.map_, tally.counts
    there = counts > 0
    n, k = int(counts.sum()), int(there.sum())
    between = np.sqrt(between_centres(centre_products(centroids, map_)))[np.ix_(there, there)]
    inside = float(counts @ centroids.norms)  # squared lengths of centroids, over rows
    mean = tally.S.value.sum(axis=0) / max(1, n)
    return {
        "silhouette_simplified": float(spreads[2].sum() / n) if k > 1 else float("nan"),
        "davies_bouldin": davies_bouldin((spreads[0] / np.maximum(counts, 1))[there], between),
        "calinski_harabasz": calinski_harabasz(
            float(spreads[1].sum()), max(0.0, inside - n * mean_norm(mean, map_)), n, k
        ),
    }
