"""What runs inside tasks on measured blocks: sums and labels. Pure functions of blocks (see `measuring`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres
from ..rules.crisp import cluster_sums
from ..rules.fused import Fused
from ..rules.fuzzy import Fuzzy
from ..rules.index import CentreIndex
from ..rules.many import MANY, winners
from ..rules.neural_gas import NeuralGas
from ..rules.sums import ExactSum
from ..system import Weighed
from .measuring import Measured, Reader, Tile, clean_rows, measure_block, task, tiles

__all__ = [
    "Model",
    "Sums",
    "label_block",
    "labelled_tiles",
    "sum_block",
]

Floats = NDArray[Any]
_NOT_THERE = np.empty((0, 0), np.float32)  # measurements that no tile holds


@dataclass(frozen=True, eq=False)
class Sums(Weighed):
    """What a full pass adds up: weighted sums of measurements, masses, the objective.

    `far` holds the rows farthest from their centres (squared distance, row), for clusters that end up empty;
    `change` is the largest change of a membership since the centres before.
    """

    S: ExactSum  # (c, m)
    mass: ExactSum  # (c,)
    objective: ExactSum
    n_rows: int
    far: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)))
    change: float = 0.0

    @staticmethod
    def combine(parts: list[Sums]) -> Sums:
        """Add up sums, in order."""
        total = parts[0]
        for part in parts[1:]:
            total = Sums(
                total.S + part.S,
                total.mass + part.mass,
                total.objective + part.objective,
                total.n_rows + part.n_rows,
                _farthest(np.concatenate([total.far, part.far])),
                max(total.change, part.change),
            )
        return total


_MAX_FAR = 32


def _farthest(far: NDArray[np.float64]) -> NDArray[np.float64]:
    return far[np.lexsort((far[:, 1], -far[:, 0]))][:_MAX_FAR]


@dataclass(frozen=True, eq=False)
class Model(Weighed):
    """What labels a row: a reader, centres and a rule.

    `order` is the numbering of the clusters: cluster k is centre ``order[k]``. The centres themselves stay in place,
    because a tie goes to the first of them and the last bit of a product depends on its column: a row must get the
    same label before and after the clusters are numbered.
    """

    reader: Reader
    centres: Centres
    rule: Any
    order: NDArray[np.intp] | None = None
    index: CentreIndex | None = None  # of the centres, if rows are to meet only those near them

    @classmethod
    def of(cls, reader: Reader, centres: Centres, rule: Any, indexed: bool) -> Model:
        """Return a model, with an index of its centres if asked for."""
        return cls(reader, centres, rule, index=CentreIndex.of(centres) if indexed else None)

    @cached_property
    def fused(self) -> Fused | None:
        """The loop in which rows are measured and meet the centres, if there is one for this map and rule."""
        return Fused.of(self.reader.map_, self.centres, self.rule) if self.index is None else None

    def winners(self, tile: Tile) -> tuple[NDArray[np.intp], Floats]:
        """Return the centre of every row of a tile by a crisp rule, and its distance as the rule takes it."""
        if self.fused is not None:
            return self.fused.meet_measured(tile.Z)
        return winners(tile.Z, tile.kappa, self.centres, self.rule, self.index)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "fused"}

    def with_own_buffers(self) -> Model:
        """Return the same model with buffers that go when it goes."""
        return replace(self, reader=self.reader.with_own_buffers())

    def graph_parts(self) -> tuple[Any, ...]:
        """Return what it is made of: of these the reader lasts from round to round."""
        return self.reader, self.centres, self.rule, self.order, self.index

    def distances(self, tile: Tile) -> Floats:
        """Return the distances of a tile's rows to the centres as the rule takes them: squared ones mostly."""
        return self.rule.distances(tile.Z, tile.kappa, self.centres)

    def scale(self, tile: Tile) -> Floats:
        """Return the sum of squared lengths that distances are measured against."""
        return tile.kappa[:, None] + self.centres.norms.astype(tile.kappa.dtype)

    def numbered(self, order: NDArray[np.intp]) -> Model:
        """Return the model with centre ``order[k]`` called cluster k."""
        return replace(self, order=order)

    def numbers(self, labels: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the clusters of centres given by position; -1 stays."""
        return labels if self.order is None else np.append(np.argsort(self.order), -1)[labels]

    def columns(self, values: Floats) -> Floats:
        """Return values of centres (rows, c) in the order of the clusters."""
        return values if self.order is None else values[:, self.order]


@task
def sum_block(
    block: Floats | Measured,
    start: int,
    model: Model,
    weights: Floats | None = None,
    before: Centres | None = None,
) -> Sums:
    """Return the sums of one step of alternating optimisation over a block: ``S = sum u z``, masses and J.

    `weights` are those of all rows, for the fuzzy rule; `before`, the centres of the step before, asks for the largest
    change of a membership since then.
    """
    if not isinstance(model.rule, (Fuzzy, NeuralGas)):
        return _crisp_sums(block, start, model)
    c, m = model.centres.n_clusters, model.reader.map_.n_measurements
    S, mass, objective = ExactSum.zeros((c, m)), ExactSum.zeros((c,)), ExactSum.zeros(())
    n_rows, change = 0, 0.0
    for tile in tiles(block, start, model.reader):
        D, w = model.distances(tile), tile.weights(weights)
        if isinstance(model.rule, NeuralGas):
            W = model.rule.weights(D)
        else:
            U = model.rule.memberships(D, model.scale(tile))
            if before is not None:
                earlier = replace(model, centres=before)
                moved = np.abs(U - model.rule.memberships(earlier.distances(tile), earlier.scale(tile))).max(axis=1)
                change = max(change, float(moved[slice(None) if w is None else w > 0].max(initial=0.0)))
            W = U**model.rule.fuzzifier
        if w is not None:
            W *= w[:, None].astype(W.dtype)
        S, mass = S + W.T @ tile.Z, mass + W.sum(axis=0, dtype=np.float64)
        objective = objective + np.einsum("ic,ic->", W, D, dtype=np.float64)
        n_rows += tile.n_valid
    return Sums(S, mass, objective, n_rows, change=change)


def _crisp_sums(block: Floats | Measured, start: int, model: Model) -> Sums:
    """Return the sums of a block by a crisp rule."""
    c, m = model.centres.n_clusters, model.reader.map_.n_measurements
    S, mass, objective = ExactSum.zeros((c, m)), ExactSum.zeros((c,)), ExactSum.zeros(())
    n_rows, far = 0, [np.empty((0, 2))]
    for tile, labels, distances in won_tiles(block, start, model, S):
        nearest = distances.astype(np.float64)
        if tile.valid is not None:
            nearest[~tile.valid] = 0
        mass = mass + np.bincount(labels[labels >= 0], minlength=c)
        objective = objective + nearest.sum()
        row = int(nearest.argmax())
        far.append(np.array([[nearest[row], tile.start + row]]))
        n_rows += tile.n_valid
    return Sums(S.settled(), mass, objective, n_rows, _farthest(np.concatenate(far)))


def won_tiles(
    block: Floats | Measured, start: int, model: Model, S: ExactSum | None = None
) -> Iterator[tuple[Tile, NDArray[np.intp], Floats]]:
    """Walk through a block: tile, the centre of every row by a crisp rule (-1 for dropped rows), its distance.

    What each centre has won is added to `S` in place.
    """
    if model.fused is not None:
        yield from _fused_tiles(block, start, model, model.fused, S)
        return
    c = model.centres.n_clusters
    if c >= MANY and S is not None:  # most clusters have no row in a tile: sums are added to where there is something
        from ..rules.many_loops import add_exactly
    for tile in tiles(block, start, model.reader):
        labels, distances = model.winners(tile)
        if tile.valid is not None:
            labels[~tile.valid] = -1
        if S is not None and c >= MANY:
            add_exactly(tile.Z, labels, S.high, S.low)
        elif S is not None:
            S.add(cluster_sums(tile.Z, labels, c)[0])
        yield tile, labels, distances


def _fused_tiles(
    block: Floats | Measured, start: int, model: Model, fused: Fused, S: ExactSum | None
) -> Iterator[tuple[Tile, NDArray[np.intp], Floats]]:
    """Walk through a block whose rows meet the centres in the loop that measures them."""
    reader, step = model.reader, model.reader.tile_rows
    if isinstance(block, Measured):  # before, by the same loop
        for tile in tiles(block, start, reader):
            yield tile, *fused.meet_measured(tile.Z, tile.valid, S)
        return
    with fused.loop(S) as loop:
        for first in range(0, len(block), step):
            rows = block[first : first + step]
            clean = partial(clean_rows, start=start + first, nan=reader.nan, dtype=reader.map_.dtype)
            labels, nearest, valid = loop.meet_rows(rows, clean)
            kappa = np.broadcast_to(np.float32(1), len(rows))  # of every row, with this kernel
            yield Tile(start + first, _NOT_THERE, kappa, valid), labels, nearest


@task
def label_block(block: Floats | Measured, start: int, model: Model) -> NDArray[np.int32]:
    """Return the label of every row of a block, -1 for dropped rows."""
    out = np.empty(len(block.kappa) if isinstance(block, Measured) else len(block), dtype=np.int32)
    for tile, labels, _, _ in labelled_tiles(block, start, model):
        out[tile.start - start :][: len(labels)] = model.numbers(labels)
    return out


def labelled_tiles(
    block: Floats | Measured, start: int, model: Model
) -> Iterator[tuple[Tile, NDArray[np.intp], Floats, Floats | None]]:
    """Walk through a block: tile, the centre of every row (-1 for dropped rows), its distance as the rule takes it.

    Of fuzzy models also the squared distances to all centres.
    """
    if not isinstance(model.rule, Fuzzy):
        for tile, labels, own in won_tiles(block, start, model):
            yield tile, labels, own, None
        return
    for tile in tiles(block, start, model.reader):
        D = model.distances(tile)
        labels = model.rule.labels(D)
        own = np.take_along_axis(D, labels[:, None], axis=1)[:, 0]
        if tile.valid is not None:
            labels[~tile.valid] = -1
        yield tile, labels, own, D


@task
def membership_block(block: Floats, start: int, model: Model) -> Floats:
    """Return the memberships of every row of a block (rows, c); NaN for dropped rows."""
    out = np.empty((len(block), model.centres.n_clusters), dtype=model.reader.map_.dtype)
    for tile in tiles(block, start, model.reader):
        U = model.rule.memberships(model.distances(tile), model.scale(tile))
        if tile.valid is not None:
            U[~tile.valid] = np.nan
        out[tile.start - start :][: len(U)] = model.columns(U)
    return out


@task
def measurement_block(block: Floats, start: int, reader: Reader) -> Floats:
    """Return the measurements of every row of a block (rows, m); NaN for dropped rows."""
    measured = measure_block(block, start, reader)
    if measured.valid is not None:
        measured.Z[~measured.valid] = np.nan
    return measured.Z


@task
def distance_block(block: Floats, start: int, model: Model) -> Floats:
    """Return the distance of every row of a block to every centre (rows, c); NaN for dropped rows."""
    out = np.empty((len(block), model.centres.n_clusters), dtype=model.reader.map_.dtype)
    for tile in tiles(block, start, model.reader):
        D = model.rule.lengths(model.distances(tile))
        if tile.valid is not None:
            D[~tile.valid] = np.nan
        out[tile.start - start :][: len(D)] = model.columns(D)
    return out
