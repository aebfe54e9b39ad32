"""Subset after subset: fair samples of the rows meet the centres one after another (PAKCL).

Subsets follow one another, but measuring rows does not depend on centres: blocks of several subsets are measured
ahead of need, on all threads or workers, a bounded number of them.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.shuffle import Shuffled
from ..blocks.sources import ArraySource
from ..maps.base import Centres
from ..planning import block_edges
from ..random import FixedOrder, Key
from ..rules.competitive import Rates, Winners, compete
from ..rules.many import MANY
from .checkpoint import Checkpoint
from .dealt import LEAST_DEALT, begin_epoch, meet_dealt, worth_dealing
from .graph import Constant, Graph
from .measuring import BadRowError, Measured, Reader, measure_block, task
from .portions import Places
from .setup import Setup
from .shuffling import shuffle_epoch

__all__ = [
    "ShuffledBlocks",
    "Walk",
    "compete_in_subsets",
    "default_walk",
    "epoch_blocks",
    "measured_together",
    "shuffled_rows",
]


_SEGMENT_BLOCKS = 64  # blocks in one graph: a checkpoint and a progress step follow each


@dataclass(frozen=True)
class Walk:
    """How often and in what portions the rows are met.

    Parameters
    ----------
    subset_rows : int
    n_epochs : int
        The most epochs; the learning rate falls over all of them.
    tol : float
        Stop when the squared moves of all centres over an epoch sum to less.
    rates : Rates
    order : FixedOrder, optional
        The order of the rows in every epoch; a new random one for each by default.
    indexed : bool
        Whether rows meet only the centres that an index finds near them.
    """

    subset_rows: int
    n_epochs: int
    tol: float
    rates: Rates
    order: FixedOrder | None = None
    indexed: bool = False

    def rests(self, moves: list[float]) -> bool:
        """Whether the last epoch moved the centres so little that there is no need for another."""
        return bool(moves) and moves[-1] < self.tol


def compete_in_subsets(setup: Setup, start: Winners, walk: Walk, checkpoint: Checkpoint) -> tuple[Winners, list[float]]:
    """Walk through the rows in random subsets, epoch after epoch (Algorithm 2).

    Return centres and win counts, and the squared moves of each epoch.
    """
    state, moves, first_epoch, position, at_start = start, [], 0, 0, start.centres
    saved = checkpoint.load()
    if saved:
        state = Winners(Centres.from_means(saved["means"], setup.map_, quick=True), saved["counts"])
        at_start = Centres.from_means(saved["epoch_means"], setup.map_)
        moves, first_epoch, position = saved["moves"].tolist(), int(saved["epoch"]), int(saved["position"])
    dealt = worth_dealing(setup, walk, state)
    meet = meet_dealt if dealt else partial(_meet_blocks, waiting=[])
    for epoch in range(first_epoch, walk.n_epochs):
        if walk.rests(moves):
            break
        for state, position in meet(setup, state, epoch, position, walk):  # noqa: B020
            _save(checkpoint, state, at_start, moves, epoch, position)
        setup.engine.progress.end()
        step = state.centres.means - at_start.means
        moves.append(float(np.einsum("cm,cm->", setup.map_.dual(step), step)))
        at_start, position = state.centres, 0
        _save(checkpoint, state, at_start, moves, epoch + 1, 0)
    return Winners(Centres.from_means(state.centres.means, setup.map_), state.counts), moves


def _meet_blocks(
    setup: Setup, state: Winners, epoch: int, begin: int, walk: Walk, waiting: list[Any]
) -> Iterator[tuple[Winners, int]]:
    """Let the subsets of an epoch from a position on meet the centres; yield the state and the next position.

    The first block of the next epoch is measured while the last ones of this are met, and is left in `waiting`: small
    data are one block.
    """
    blocks, following = epoch_blocks(setup, epoch, begin, walk.order), None
    begin_epoch(setup, epoch, begin)
    many = setup.engine.segment(_SEGMENT_BLOCKS)
    for segment in range(blocks.first_block, blocks.n_blocks, many):
        stop = min(blocks.n_blocks, segment + many)
        if (
            stop == blocks.n_blocks
            and epoch + 1 < walk.n_epochs
            and blocks.local
            and isinstance(setup.source, ArraySource)
        ):
            following = epoch_blocks(setup, epoch + 1, 0, walk.order)
        state = _run_segment(setup, blocks, state, range(segment, stop), epoch, walk, waiting, following)
        yield state, blocks.edges[stop]


def _save(
    checkpoint: Checkpoint, state: Winners, at_start: Centres, moves: list[float], epoch: int, position: int
) -> None:
    # A position in the random order, not the number of a block: the next plan may cut other blocks.
    checkpoint.save(
        {
            "means": state.centres.means,
            "counts": state.counts,
            "epoch_means": at_start.means,
            "moves": np.array(moves),
            "epoch": np.array(epoch),
            "position": np.array(position),
        }
    )


@dataclass(frozen=True, eq=False)
class ShuffledBlocks:
    """The rows of an epoch in random order: gathered from memory, or from an external shuffle.

    Blocks of several subsets are cut from buckets of several blocks, so that a bucket is worth reading. On a cluster a
    bucket is a block: whoever measures it reads it, and rows do not travel.
    """

    rows: ArraySource | Shuffled
    key: Key | FixedOrder
    edges: list[int]
    bucket_blocks: int
    begin: int = 0  # rows before this position have been met already
    local: bool = True  # whether tasks run in this process

    @cached_property
    def places(self) -> Places:
        """Which row stands where, without the rows."""
        return Places(self.key, self.edges[-1])

    @property
    def n_blocks(self) -> int:
        """Number of blocks of several subsets."""
        return len(self.edges) - 1

    @property
    def first_block(self) -> int:
        """The block that holds the first row to be met."""
        return bisect.bisect_right(self.edges, self.begin) - 1

    def bucket(self, bucket: int) -> NDArray[Any]:
        """Return the rows of a bucket in their random order."""
        if isinstance(self.rows, Shuffled):
            return self.rows.bucket(bucket)
        first, last = bucket * self.bucket_blocks, min(self.n_blocks, (bucket + 1) * self.bucket_blocks)
        return self.rows.array[self.places.numbers(self.edges[first], self.edges[last])]


def epoch_blocks(setup: Setup, epoch: int, begin: int = 0, order: FixedOrder | None = None) -> ShuffledBlocks:
    """Return the rows of an epoch in its own random order (or a given one), those before `begin` left out."""
    key: Key | FixedOrder = order or setup.problem.key.child("order", epoch)
    layout = setup.layout("subsets")
    edges = block_edges(setup.problem.n_rows, layout.block_rows)
    local = setup.engine.local
    if isinstance(setup.source, ArraySource):
        return ShuffledBlocks(setup.source, key, edges, 1, begin, local)
    if setup.first_epoch and epoch == 0 and order is None:
        rows = setup.first_epoch.pop()  # held here only, and gone with the epoch
    else:
        rows = shuffle_epoch(setup.problem, setup.source, setup.engine, setup.plan, setup.scratch, key)
    return ShuffledBlocks(rows, key, edges, rows.bucket_rows // layout.block_rows, begin, local)


def shuffled_rows(graph: Graph, blocks: ShuffledBlocks, numbers: range, after: Any) -> Iterator[tuple[int, Any]]:
    """Yield position and rows of blocks in order; ``after(i)`` is what reading the i-th of them waits for.

    On a cluster rows are yielded as a call to be made inside the task that uses them (see `Graph.named`).
    """
    graph.order = blocks.places
    yield from graph.note((_read_here if blocks.local else _read_where_used)(graph, blocks, numbers, after))


Read = Iterator[tuple[tuple[int, int], Any]]  # edges of a block, its rows


def _read_here(graph: Graph, blocks: ShuffledBlocks, numbers: range, after: Any) -> Read:
    shared, bucket, rows = graph.value(blocks), -1, None
    for i, block in enumerate(numbers):
        if block // blocks.bucket_blocks != bucket:
            bucket = block // blocks.bucket_blocks
            rows = graph.call(read_bucket, shared, bucket, after(i))
        first, position = blocks.edges[bucket * blocks.bucket_blocks], max(blocks.edges[block], blocks.begin)
        last = blocks.edges[min(len(blocks.edges) - 1, (bucket + 1) * blocks.bucket_blocks)]
        own = position, blocks.edges[block + 1]
        yield own, rows if own == (first, last) else graph.call(cut_block, rows, own[0] - first, own[1] - first)


def _read_where_used(graph: Graph, blocks: ShuffledBlocks, numbers: range, after: Any) -> Read:
    shared = None if isinstance(blocks.rows, ArraySource) else graph.value(blocks)
    for i, block in enumerate(numbers):
        first, stop = blocks.edges[block : block + 2]
        position = max(first, blocks.begin)
        if shared is None:  # rows in the memory of this process are sent, those of this block
            yield (position, stop), (Constant(blocks.bucket(block)[position - first :]),)
        else:
            yield (position, stop), (cut_block, (read_bucket, shared, block, after(i)), position - first, stop - first)


def read_bucket(blocks: ShuffledBlocks, bucket: int, after: Any) -> NDArray[Any]:
    """Read a bucket. `after` is waited for and not used: it bounds how far reading runs ahead."""
    return blocks.bucket(bucket)


def cut_block(rows: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    """Cut a block from its bucket."""
    return rows[start:stop]


def _run_segment(
    setup: Setup,
    blocks: ShuffledBlocks,
    state: Winners,
    segment: range,
    epoch: int,
    walk: Walk,
    waiting: list[Any],
    following: ShuffledBlocks | None,
) -> Winners:
    layout, graph = setup.layout("subsets"), Graph()
    engine = setup.engine.with_threads(layout.threads)
    reader, shared_walk = graph.value(setup.reader), graph.value(walk)
    states = [graph.value(state)]
    ahead, seats = engine.ahead, engine.seats

    def earlier(i: int) -> Any:
        # The states form a chain; what block i needs may be made when the state `ahead` blocks before is there.
        return states[i - ahead + 1] if i >= ahead else None

    def measure(rows: Any, position: int, places: Any, i: int) -> Any:
        return graph.call(measure_subsets, rows, position, places, reader, walk.subset_rows, blocks.local, earlier(i))

    def meet(measured: Any, position: int) -> Any:
        return graph.call(meet_subsets, states[-1], measured, position, blocks.edges[-1], epoch, shared_walk, reader)

    if waiting:
        states.append(meet(graph.value(waiting.pop()), 0))
        segment = segment[1:]
    places, met = graph.value(blocks.places), len(states) - 1
    for i, (position, rows) in enumerate(shuffled_rows(graph, blocks, segment, lambda i: earlier(met + i)), met):
        measured = measure(rows, position, places, i)
        states.append(meet(measured, position))
        graph.seat(seats, i, measured, states[-1])
    wanted = [states[-1]]
    if following is not None:
        i = len(states) - 1
        ((_, rows),) = _read_here(graph, following, range(1), lambda _: earlier(i))
        wanted.append(measure(rows, 0, graph.value(following.places), i))
    result, *waiting[:] = engine.run(graph, wanted, "meet_subsets", layout.block_rows)
    return result


@task
def measure_subsets(
    rows: NDArray[Any], position: int, places: Places, reader: Reader, subset_rows: int, lend: bool, after: Any
) -> list[Measured]:
    """Measure the subsets of a block. `after` is waited for and not used: it bounds how far this runs ahead.

    With `lend` they are in buffers that are used again once they have been met: not on a cluster, where a task may
    have to be done once more.
    """
    parts: list[Measured] = []
    together = measured_together(subset_rows, reader.tile_rows)
    for first in range(0, len(rows), together):
        try:
            whole = measure_block(rows[first : first + together], 0, reader, borrow=lend)
        except BadRowError as error:  # give its number in the data, not in the block
            raise BadRowError(places.row_number(position + first + error.row)) from None
        parts += whole.cut(subset_rows)
    return parts


def measured_together(subset_rows: int, tile_rows: int) -> int:
    """Return the rows of as many subsets as fill a tile: products of few rows are slow. Depends on the problem only.

    Subsets that may be dealt are measured one by one: products then have the same rows wherever they are.

    Examples
    --------
    >>> measured_together(100, 4096), measured_together(2000, 4096), measured_together(8000, 4096)
    (4000, 2000, 8000)
    """
    return subset_rows if subset_rows >= LEAST_DEALT else subset_rows * max(1, tile_rows // subset_rows)


@task
def meet_subsets(
    state: Winners, subsets: list[Measured], start: int, n_rows: int, epoch: int, walk: Walk, reader: Reader
) -> Winners:
    """Let the subsets of a block meet the centres one after another."""
    done = epoch * n_rows + start
    for subset in subsets:
        done += len(subset.kappa)
        rate = walk.rates(done / (walk.n_epochs * n_rows))
        keep = slice(None) if subset.valid is None else subset.valid
        state = compete(state, subset.Z[keep], subset.kappa[keep], rate, reader.map_, walk.indexed)  # type: ignore[index]
    for subset in subsets:
        subset.give_back(reader)
    return state


def default_walk(
    n_rows: int, subset_rows: int | None, n_epochs: int | None, n_clusters: int | None = None
) -> tuple[int, int]:
    """Choose the subset size for about a thousand updates a pass, and as many epochs as give four hundred updates.

    Large subsets are such as can be dealt. They have at least two rows for each of many clusters; that is no reason for
    more epochs.

    Examples
    --------
    >>> default_walk(70_000, None, None), default_walk(1797, None, None), default_walk(4_000_000, None, None)
    ((100, 1), (100, 23), (4096, 1))
    """
    rows = subset_rows or max(1, min(n_rows, max(100, n_rows // 1000)))
    epochs = n_epochs or max(1, min(100, math.ceil(400 / math.ceil(n_rows / rows))))
    if subset_rows is None and rows > 2048:
        rows = 4096 if rows < 8192 else 8192
    if subset_rows is None and n_clusters is not None and n_clusters >= MANY:
        rows = min(n_rows, max(rows, 2 * n_clusters))
    return rows, epochs
