"""Row after row: blocks of rows in a fair order meet the centres one row at a time (AKCL, CPCL and their relatives).

The rows follow one another, but measuring them does not depend on centres: blocks are measured ahead of need, on all
threads or workers, a bounded number of them. Rules that take the same order in every epoch may keep what was
measured, when it fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..random import FixedOrder
from ..rules.competitive import Rates
from ..rules.coordinates import Coordinates
from ..rules.sequential import Seeds, SequentialRule
from ..system import Weighed
from .checkpoint import Checkpoint
from .graph import Graph
from .measuring import BadRowError, Reader, measure_block, task
from .portions import Places
from .setup import Setup
from .subsets import ShuffledBlocks, epoch_blocks, shuffled_rows

__all__ = ["SequentialResult", "SequentialWalk", "compete_row_by_row"]

_SEGMENT_BLOCKS = 64  # blocks in one graph: a checkpoint and a progress step follow each

Floats = NDArray[Any]


@dataclass(frozen=True)
class SequentialWalk:
    """How often and in what order the rows are met.

    Parameters
    ----------
    rule : SequentialRule
    rates : Rates
        The learning rate falls over all epochs.
    n_epochs : int
        The most epochs.
    tol : float
        Stop when the squared moves of all centres over an epoch sum to at most so much; to less, if `strict`.
    strict : bool
    same_order : bool
        Whether every epoch has the order of the first.
    order : FixedOrder, optional
        The order of every epoch.
    record : bool
        Whether the centres at the end of every epoch are kept.
    """

    rule: SequentialRule
    rates: Rates
    n_epochs: int
    tol: float
    strict: bool = False
    same_order: bool = False
    order: FixedOrder | None = None
    record: bool = False

    def rests(self, moves: list[float]) -> bool:
        """Whether the last epoch moved the centres so little that there is no need for another."""
        return bool(moves) and (moves[-1] < self.tol if self.strict else moves[-1] <= self.tol)


@dataclass(frozen=True, eq=False)
class SequentialResult:
    """Seeds in coordinates, the squared moves of each epoch, the path of the seeds if it was recorded."""

    seeds: Seeds
    moves: tuple[float, ...]
    n_iter: int
    converged: bool
    path: Floats | None  # (epochs + 1, c, q)


@dataclass(frozen=True, eq=False)
class MetTile(Weighed):
    """Coordinates, residuals and positions of the usable rows of a tile, in the order in which they are met."""

    Y: Floats
    r: Floats
    positions: NDArray[np.int64]


def compete_row_by_row(
    setup: Setup, coordinates: Coordinates, start: Seeds, walk: SequentialWalk, checkpoint: Checkpoint
) -> SequentialResult:
    """Let all rows meet the centres one after another, epoch after epoch, until the centres rest."""
    seeds, at_start, moves, epoch, position = start, start.centres, [], 0, 0
    path = [start.centres]
    saved = checkpoint.load()
    if saved:
        seeds = Seeds.start(saved["centres"], saved["counts"], saved["extra"])
        at_start, path = saved["epoch_centres"], list(saved["path"])
        moves, epoch, position = saved["moves"].tolist(), int(saved["epoch"]), int(saved["position"])
    rows = _Rows(setup, coordinates, walk)
    progress = setup.engine.progress
    while epoch < walk.n_epochs and not walk.rests(moves):
        rows.prepare(epoch, position)
        progress.begin(f"epoch {epoch + 1}", setup.problem.n_rows)
        progress.advance(position)
        for seeds, position in rows.meet(seeds, epoch, position):  # noqa: B020  (the state goes in and comes out)
            if position < setup.problem.n_rows:
                _save(checkpoint, seeds, at_start, moves, path, epoch, position)
        progress.end()
        moves.append(float(((seeds.centres - at_start) ** 2).sum()))  # Eq. 5 and 11: e = sum |m(T) - m(T - 1)|^2
        at_start, position, epoch = seeds.centres, 0, epoch + 1
        if walk.record:
            path.append(at_start)
        _save(checkpoint, seeds, at_start, moves, path, epoch, 0)
    converged = walk.rests(moves)
    return SequentialResult(seeds, tuple(moves), len(moves), converged, np.array(path) if walk.record else None)


def _save(
    checkpoint: Checkpoint,
    seeds: Seeds,
    at_start: Floats,
    moves: list[float],
    path: list[Floats],
    epoch: int,
    position: int,
) -> None:
    # A position in the order, not the number of a block: the next plan may cut other blocks.
    checkpoint.save(
        {
            "centres": seeds.centres,
            "counts": seeds.counts,
            "extra": seeds.extra,
            "epoch_centres": at_start,
            "moves": np.array(moves),
            "path": np.array(path),
            "epoch": np.array(epoch),
            "position": np.array(position),
        }
    )


class _Rows:
    """The rows as the walk meets them: read and measured for each epoch, or kept after the first."""

    def __init__(self, setup: Setup, coordinates: Coordinates, walk: SequentialWalk) -> None:
        self._setup, self._coordinates, self._walk = setup, coordinates, walk
        self._shuffled: ShuffledBlocks | None = None
        self._epoch_blocks: ShuffledBlocks | None = None
        self._kept: list[list[MetTile]] | None = None

    def prepare(self, epoch: int, begin: int) -> None:
        """Shuffle, or measure what is kept, where an epoch needs it."""
        if self._setup.plan.keep != "measurements" or not self._setup.engine.local:
            self._epoch_blocks = self._blocks(epoch, begin)
        elif self._kept is None:
            self._kept = self._measure_all()

    def meet(self, seeds: Seeds, epoch: int, begin: int) -> Any:
        """Let the rows of an epoch from a position on meet the seeds; yield the seeds and the next position."""
        n_rows = self._setup.problem.n_rows
        if self._kept is not None:
            for block in self._kept:
                seeds = meet_rows(seeds, block, begin, epoch, n_rows, self._walk)
            self._setup.engine.progress.advance(n_rows - begin)
            yield seeds, n_rows
            return
        blocks, self._epoch_blocks = self._epoch_blocks, None
        assert blocks is not None
        many = self._setup.engine.segment(_SEGMENT_BLOCKS)
        for segment in range(blocks.first_block, blocks.n_blocks, many):
            stop = min(blocks.n_blocks, segment + many)
            seeds = self._run_segment(blocks, seeds, range(segment, stop), epoch)
            yield seeds, blocks.edges[stop]

    def _blocks(self, epoch: int, begin: int) -> ShuffledBlocks:
        fixed = self._walk.same_order or self._walk.order is not None
        if self._shuffled is not None and fixed and begin == self._shuffled.begin:
            return self._shuffled
        self._shuffled = None  # with its shuffle: scratch has room for one
        blocks = epoch_blocks(self._setup, 0 if fixed else epoch, begin, self._walk.order)
        if fixed:
            self._shuffled = blocks
        return blocks

    def _measure_all(self) -> list[list[MetTile]]:
        blocks, found = self._blocks(0, 0), []
        layout = self._setup.layout("subsets")
        engine = self._setup.engine.with_threads(layout.threads)
        for segment in range(0, blocks.n_blocks, _SEGMENT_BLOCKS):
            graph, stop = Graph(), min(blocks.n_blocks, segment + _SEGMENT_BLOCKS)
            shared = [graph.value(x) for x in (blocks.places, self._setup.reader, self._coordinates)]
            keys = [
                graph.call(measure_rows, rows, position, *shared, None)
                for position, rows in shuffled_rows(graph, blocks, range(segment, stop), lambda i: None)
            ]
            found += engine.run(graph, keys)
        self._shuffled = None
        return found

    def _run_segment(self, blocks: ShuffledBlocks, seeds: Seeds, segment: range, epoch: int) -> Seeds:
        layout, graph = self._setup.layout("subsets"), Graph()
        engine = self._setup.engine.with_threads(layout.threads)
        shared = [graph.value(x) for x in (blocks.places, self._setup.reader, self._coordinates)]
        walk, states = graph.value(self._walk), [graph.value(seeds)]
        ahead, seats = engine.ahead, engine.seats

        def earlier(i: int) -> Any:
            # The states form a chain; what block i needs may be made when the state `ahead` blocks before is there.
            return states[i - ahead + 1] if i >= ahead else None

        for i, (position, rows) in enumerate(shuffled_rows(graph, blocks, segment, earlier)):
            block = graph.call(measure_rows, rows, position, *shared, earlier(i))
            states.append(graph.call(meet_rows, states[-1], block, 0, epoch, blocks.edges[-1], walk))
            graph.seat(seats, i, block, states[-1])
        (result,) = engine.run(graph, [states[-1]], "meet_rows", layout.block_rows)
        return result


@task
def measure_rows(
    rows: Floats, position: int, places: Places, reader: Reader, coordinates: Coordinates, after: Any
) -> list[MetTile]:
    """Measure a block, tile by tile on a grid of positions. `after` is waited for: it bounds what runs ahead."""
    parts = []
    for first in range(0, len(rows), reader.tile_rows):
        try:
            tile = measure_block(rows[first : first + reader.tile_rows], 0, reader)
        except BadRowError as error:  # give its number in the data, not in the tile
            raise BadRowError(places.row_number(position + first + error.row)) from None
        Y, r = coordinates.block(tile.Z, tile.kappa)
        positions = np.arange(position + first, position + first + len(r))
        keep = slice(None) if tile.valid is None else tile.valid
        parts.append(MetTile(Y[keep], r[keep], positions[keep]))
    return parts


@task
def meet_rows(seeds: Seeds, tiles: list[MetTile], begin: int, epoch: int, n_rows: int, walk: SequentialWalk) -> Seeds:
    """Let the rows of tiles, those before a position left out, meet the seeds one after another.

    Tile by tile, whatever the block: loops that look ahead round otherwise at the end of what they are given.
    """
    for tile in tiles:
        if len(tile.r) and tile.positions[0] >= begin:  # runs stop, and go on, between tiles
            # the i-th row of epoch t, both from 1, at the fraction ((t - 1) n + i) / (t_max n)
            rates = walk.rates((epoch * n_rows + tile.positions + 1) / (walk.n_epochs * n_rows))
            seeds = walk.rule(seeds, tile.Y, tile.r, rates)
    return seeds
