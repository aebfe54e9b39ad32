"""Subset after subset: fair samples of the rows meet the centres one after another (PAKCL).

Subsets follow one another, but measuring rows does not depend on centres: blocks of several subsets are measured
ahead of need, on all threads or workers, a bounded number of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.scratch import Scratch
from ..blocks.shuffle import Shuffled
from ..blocks.sources import ArraySource
from ..maps.base import Centres
from ..plan import block_edges
from ..random import Key
from ..rules.competitive import Rates, Winners, compete
from .checkpoint import Checkpoint
from .data import shuffle
from .setup import Setup
from .tasks import BadRowError, Measured, Reader, measure_block, task

__all__ = ["CompetitiveResult", "ShuffledBlocks", "Walk", "compete_in_subsets", "default_walk", "epoch_blocks"]

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
    """

    subset_rows: int
    n_epochs: int
    tol: float
    rates: Rates


@dataclass(frozen=True, eq=False)
class CompetitiveResult:
    """Centres and win counts, the squared moves of each epoch."""

    state: Winners
    moves: tuple[float, ...]
    n_iter: int
    converged: bool


def compete_in_subsets(setup: Setup, start: Winners, walk: Walk, checkpoint: Checkpoint) -> CompetitiveResult:
    """Walk through the rows in random subsets, epoch after epoch (Algorithm 2)."""
    state, moves, first_epoch, first_block, at_start = start, [], 0, 0, start.centres
    saved = checkpoint.load()
    if saved:
        state = Winners(Centres.from_means(saved["means"], setup.map_), saved["counts"])
        at_start = Centres.from_means(saved["epoch_means"], setup.map_)
        moves, first_epoch, first_block = saved["moves"].tolist(), int(saved["epoch"]), int(saved["block"])
    converged = False
    for epoch in range(first_epoch, walk.n_epochs):
        blocks = epoch_blocks(setup, epoch)
        setup.engine.progress.begin(f"epoch {epoch + 1}", setup.problem.n_rows)
        setup.engine.progress.advance(blocks.edges[first_block])
        for segment in range(first_block, blocks.n_blocks, _SEGMENT_BLOCKS):
            stop = min(blocks.n_blocks, segment + _SEGMENT_BLOCKS)
            state = _run_segment(setup, blocks, state, range(segment, stop), epoch, walk)
            setup.engine.progress.advance(blocks.edges[stop] - blocks.edges[segment])
            _save(checkpoint, state, at_start, moves, epoch, stop)
        setup.engine.progress.end()
        step = state.centres.means - at_start.means  # type: ignore[operator]
        moves.append(float(np.einsum("cm,cm->", setup.map_.dual(step), step)))
        at_start, first_block = state.centres, 0
        _save(checkpoint, state, at_start, moves, epoch + 1, 0)
        if moves[-1] < walk.tol:
            converged = True
            break
    return CompetitiveResult(state, tuple(moves), len(moves), converged or walk.n_epochs == len(moves))


def _save(
    checkpoint: Checkpoint, state: Winners, at_start: Centres, moves: list[float], epoch: int, block: int
) -> None:
    checkpoint.save(
        {
            "means": state.centres.means,
            "counts": state.counts,
            "epoch_means": at_start.means,
            "moves": np.array(moves),
            "epoch": np.array(epoch),
            "block": np.array(block),
        }
    )


@dataclass(frozen=True, eq=False)
class ShuffledBlocks:
    """The rows of an epoch in random order: gathered from memory, or from an external shuffle."""

    rows: ArraySource | Shuffled
    key: Key
    edges: list[int]

    @property
    def n_blocks(self) -> int:
        """Number of blocks of several subsets."""
        return len(self.edges) - 1

    def read(self, block: int) -> NDArray[Any]:
        """Return the rows of a block in their random order."""
        if isinstance(self.rows, Shuffled):
            return self.rows.bucket(block)
        return self.rows.array[self.key.rows(self.rows.n_rows, self.edges[block], self.edges[block + 1])]


def epoch_blocks(setup: Setup, epoch: int) -> ShuffledBlocks:
    """Return the rows of an epoch in its own random order."""
    key, layout = setup.problem.key.child("order", epoch), setup.layout("subsets")
    edges = block_edges(setup.problem.n_rows, layout.block_rows)
    if isinstance(setup.source, ArraySource):
        return ShuffledBlocks(setup.source, key, edges)
    scratch = Scratch(setup.problem.scratch)  # an epoch's own, gone when the next begins
    rows = shuffle(setup.engine, setup.source, key, layout.block_rows, setup.layout("shuffling"), scratch)
    return ShuffledBlocks(rows, key, edges)


def _run_segment(
    setup: Setup, blocks: ShuffledBlocks, state: Winners, segment: range, epoch: int, walk: Walk
) -> Winners:
    from dask import delayed

    layout = setup.layout("subsets")
    engine = setup.engine.with_threads(layout.threads)
    read, meet = delayed(measure_shuffled, pure=False), delayed(meet_subsets, pure=False)
    shared_blocks = delayed(blocks, traverse=False)
    reader, shared_walk = delayed(setup.reader, traverse=False), delayed(walk, traverse=False)
    states: list[Any] = [delayed(state, traverse=False)]
    ahead = layout.threads + 1
    for i, block in enumerate(segment):
        # The states form a chain; measuring block i waits for the state `ahead` blocks before, and for nothing else.
        after = states[i - ahead + 1] if i >= ahead else None
        measured = read(shared_blocks, block, reader, walk.subset_rows, after)
        states.append(meet(states[-1], measured, blocks.edges[block], blocks.edges[-1], epoch, shared_walk, reader))
    (result,) = engine.compute([states[-1]])
    return result


@task
def measure_shuffled(
    blocks: ShuffledBlocks, block: int, reader: Reader, subset_rows: int, after: Any
) -> list[Measured]:
    """Measure the subsets of a block. `after` is waited for and not used: it bounds how far this runs ahead."""
    rows, parts = blocks.read(block), []
    for first in range(0, len(rows), subset_rows):
        try:
            parts.append(measure_block(rows[first : first + subset_rows], 0, reader))
        except BadRowError as error:  # give its number in the data, not in the subset
            position = blocks.edges[block] + first + error.row
            raise BadRowError(int(blocks.key.rows(blocks.edges[-1], position, position + 1)[0])) from None
    return parts


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
        state = compete(state, subset.Z[keep], subset.kappa[keep], rate, reader.map_)  # type: ignore[index]
    return state


def default_walk(n_rows: int, subset_rows: int | None, n_epochs: int | None) -> tuple[int, int]:
    """Choose the subset size for about a thousand updates a pass, and as many epochs as give six hundred updates.

    Examples
    --------
    >>> default_walk(70_000, None, None), default_walk(1797, None, None), default_walk(4_000_000, None, None)
    ((100, 1), (100, 34), (4000, 1))
    """
    rows = subset_rows or max(1, min(n_rows, 10_000, max(100, n_rows // 1000)))
    return rows, n_epochs or max(1, min(100, math.ceil(600 / math.ceil(n_rows / rows))))
