"""Batch after batch in random order: rows meet a buffer that a few of them enter (sparse kernel k-means).

Batches follow one another, but the buffer seldom changes: the chances of several batches are computed ahead of need, on
all threads or workers, and again for the batches behind a change. The answer is that of one batch after another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.rows import join_blocks
from ..maps.sparse_kernel import SparseKernelMap
from ..maps.stored import restore_rows, store_rows
from ..rules.sparse_kernel import Buffer, Growth, begin_buffer, entry_chances, finish_buffer, meet_batch
from ..system import single_threaded
from .checkpoint import Checkpoint
from .graph import Graph
from .measuring import BadRowError, clean_rows, task
from .setup import Setup
from .subsets import epoch_blocks, shuffled_rows
from .walk import RowOrder

__all__ = ["Stream", "first_buffer", "grow_buffer", "meet_stream"]

Floats = NDArray[Any]

_SEGMENT_BLOCKS = 64  # blocks in one graph: a checkpoint and a progress step follow each


def first_buffer(setup: Setup, growth: Growth) -> Buffer:
    """Return the buffer of the first rows of the random order, clustered."""
    map_ = setup.map_
    assert isinstance(map_, SparseKernelMap)
    with single_threaded():
        return begin_buffer(map_, setup.sample_row_numbers[: map_.n_rows], growth)


def grow_buffer(setup: Setup, growth: Growth, batch_rows: int, checkpoint: Checkpoint) -> Buffer:
    """Let all further rows meet the buffer, batch after batch (Algorithm 1)."""
    saved, n = checkpoint.load(), setup.problem.n_rows
    if saved:
        buffer, position = _restored(setup, saved), int(saved["position"])
    else:
        buffer = first_buffer(setup, growth)
        order = setup.problem.key.child("order", 0)
        position = int(order.positions(n, buffer.numbers[-1:])[0]) + 1  # rows that are left out may come before it
    if position < n:
        blocks = epoch_blocks(setup, 0, position)
        setup.engine.progress.begin("buffer", n)
        setup.engine.progress.advance(position)
        many = setup.engine.segment(_SEGMENT_BLOCKS)
        for first in range(blocks.first_block, blocks.n_blocks, many):
            segment = range(first, min(blocks.n_blocks, first + many))
            buffer = _run_segment(setup, blocks, buffer, segment, growth, batch_rows)
            _save(checkpoint, buffer, blocks.edges[segment.stop])
        setup.engine.progress.end()
    with single_threaded():
        return finish_buffer(buffer, growth, reseed=True)


def _run_segment(setup: Setup, blocks: Any, buffer: Buffer, segment: range, growth: Growth, batch_rows: int) -> Buffer:
    layout, graph, problem = setup.layout("subsets"), Graph(), setup.problem
    engine = setup.engine.with_threads(layout.threads)
    shared = graph.value((RowOrder(problem.n_rows, blocks.key), growth, batch_rows, problem.nan))
    states = [graph.value(buffer)]
    ahead, seats = engine.ahead, engine.seats

    def earlier(i: int) -> Any:
        # The states form a chain; block i is looked at with the state `ahead` blocks before, which mostly still holds.
        return states[max(0, i - ahead + 1)]

    for i, (position, rows) in enumerate(shuffled_rows(graph, blocks, segment, earlier)):
        rows = graph.named(rows)  # used twice, where it was read: the buffer comes to the rows
        chances = graph.call(block_chances, earlier(i), rows, position, shared)
        states.append(graph.call(meet_block, states[-1], rows, chances, position, shared))
        graph.seat(seats, i, rows, chances, states[-1])
    (result,) = engine.run(graph, [states[-1]], "meet_block", layout.block_rows)
    return result


def _batches(n_rows: int, position: int, batch_rows: int) -> list[slice]:
    """Cut a block that begins at a position into batches, whose edges are multiples of their size.

    Examples
    --------
    >>> _batches(7, 5, 4)
    [slice(0, 3, None), slice(3, 7, None)]
    """
    edges = [0, *range(batch_rows - position % batch_rows, n_rows, batch_rows), n_rows]
    return [slice(a, b) for a, b in pairwise(edges)]


def _chances(buffer: Buffer, batch: Floats, position: int, shared: Any) -> Floats:
    """Return the chances of a batch, 0 for rows that are left out."""
    order, growth, _, nan = shared
    try:
        rows, bad = clean_rows(batch, 0, nan, buffer.map_.dtype)
    except BadRowError as error:  # give its number in the data, not in the batch
        raise BadRowError(int(order.numbers(position + error.row, position + error.row + 1)[0])) from None
    chances = entry_chances(buffer.map_, rows, growth.n_clusters)
    return chances if bad is None else np.where(bad, 0.0, chances)


@task
def block_chances(buffer: Buffer, rows: Floats, position: int, shared: Any) -> tuple[int, list[Floats]]:
    """Return the chances of the batches of a block, and the version of the buffer that they were computed with."""
    parts = _batches(len(rows), position, shared[2])
    return buffer.version, [_chances(buffer, rows[part], position + part.start, shared) for part in parts]


@task
def meet_block(buffer: Buffer, rows: Floats, found: tuple[int, list[Floats]], position: int, shared: Any) -> Buffer:
    """Let the batches of a block meet the buffer one after another."""
    order, growth, batch_rows, _ = shared
    version, known = found
    for part, chances in zip(_batches(len(rows), position, batch_rows), known, strict=True):
        batch, start = rows[part], position + part.start
        if buffer.version != version:
            chances = _chances(buffer, batch, start, shared)
        buffer = meet_batch(buffer, batch, order.numbers(start, start + len(batch)), chances, growth)
    return buffer


# --- streams -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Stream:
    """Where a stream stands: the buffer of all whole batches (None before the first rows are there), rows that wait.

    What the buffer is does not depend on the portions in which the rows came.
    """

    buffer: Buffer | None
    n_rows: int  # in the buffer's past
    tail: Floats | None = None  # (fewer than a batch, d), or the first rows while the buffer is not there


@task
def meet_stream(stream: Stream, growth: Growth, batch_rows: int, nan: str) -> tuple[Stream, Buffer]:
    """Let the rows that wait meet the buffer; return the stream with whole batches met, and the buffer of all rows."""
    buffer, rows, begin = stream.buffer, stream.tail, stream.n_rows
    assert buffer is not None
    assert rows is not None
    shared = (RowOrder(begin + len(rows), None), growth, batch_rows, nan)
    for part in _batches(len(rows), begin, batch_rows):
        batch, start = rows[part], begin + part.start
        if (start + len(batch)) % batch_rows:  # not whole: met for now, and again when it is
            return Stream(buffer, start, batch.copy()), _met(buffer, batch, start, shared)
        buffer = _met(buffer, batch, start, shared)
    return Stream(buffer, begin + len(rows), rows[:0]), buffer


def _met(buffer: Buffer, batch: Floats, start: int, shared: Any) -> Buffer:
    chances = _chances(buffer, batch, start, shared)
    return meet_batch(buffer, batch, np.arange(start, start + len(batch)), chances, shared[1])


# --- checkpoints ---------------------------------------------------------------------------------------------------


def _save(checkpoint: Checkpoint, buffer: Buffer, position: int) -> None:
    # A position in the random order, not the number of a block: the next plan may cut other blocks.
    map_ = buffer.map_
    checkpoint.save(
        {
            **store_rows("rows", join_blocks([map_.rows, buffer.waiting])),
            "kernel_values": map_.matrix.data,
            "kernel_columns": map_.matrix.indices,
            "kernel_starts": map_.matrix.indptr,
            "values": map_.values,
            "vectors": map_.vectors,
            "numbers": buffer.numbers,
            "labels": buffer.labels,
            "waiting_numbers": buffer.waiting_numbers,
            "n_entered": np.array(buffer.n_entered),
            "history": np.array(buffer.history),
            "position": np.array(position),
        }
    )


def _restored(setup: Setup, saved: dict[str, NDArray[Any]]) -> Buffer:
    from scipy.sparse import csr_array

    rows, s = restore_rows("rows", saved, setup.problem.source.n_features), len(saved["numbers"])
    matrix = csr_array((saved["kernel_values"], saved["kernel_columns"], saved["kernel_starts"]), shape=(s, s))
    first = setup.map_
    assert isinstance(first, SparseKernelMap)
    map_ = replace(first, rows=rows[:s], matrix=matrix, values=saved["values"], vectors=saved["vectors"])
    map_.settle()
    return Buffer(
        map_,
        saved["numbers"],
        saved["labels"],
        rows[s:],
        saved["waiting_numbers"],
        int(saved["n_entered"]),
        tuple(saved["history"].tolist()),
    )
