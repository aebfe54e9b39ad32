"""The data as schedules see them: blocks of rows, in order or shuffled, and single rows by number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..blocks.ahead import ReadAhead
from ..blocks.scaled import ScaledSource, scale_rows, stored_rows
from ..blocks.scratch import Scratch
from ..blocks.shuffle import Shuffled, spans, write_run
from ..blocks.sources import ArraySource, DaskSource, Source, read_rows
from ..blocks.sparse import fullest
from ..errors import InvalidInputError
from ..kernels.rows import SparseRows, join_blocks
from ..planning import Layout, block_edges
from ..random import FixedOrder, Key
from .engine import Engine, own_threads
from .graph import Constant, Graph, Window
from .measuring import BadRowError, bad_rows, first_bad_row

__all__ = [
    "RowReader",
    "count_entries",
    "explain_bad_row",
    "gather",
    "load_rows",
    "make_window",
    "row_edges",
    "run_blocks",
    "shuffle",
    "stream_blocks",
    "usable",
]


_GRAPH_BLOCKS = 128  # blocks in one graph: a graph of all blocks would grow with the rows
_GRAPH_ROUNDS = 16  # on a cluster: blocks for each thread in one graph, so that few wait for the last of it

Consume = Callable[[int, Any], Any]  # adds the work on a block (its first row, its key) to a graph; None skips it
Combine = Callable[[list[Any]], Any]


class RowReader:
    """Adds the reading of blocks of rows to one graph after another, in order.

    In this process rows are read in slabs of whole chunks; one that reaches beyond the last block of a graph is carried
    over to the next, so that no chunk is read twice. On a cluster rows never travel: the task that works on a block
    reads it, so a worker holds as many blocks as it has threads, and a chunk between two blocks is read by both.

    `apart` says how far reading runs ahead of large slabs: the next is read while blocks of this one are worked on (1),
    on a thread beside unless users say how many they want, or two are read at a time (2), for who does next to nothing
    with them and is done before the next ones are there. `engine` has the threads that are left to work on blocks.
    """

    def __init__(self, engine: Engine, source: Source, edges: list[int], apart: int = 1) -> None:
        self.engine, self._source = engine, cast(Any, stored_rows(source))
        self._apart = min(apart, engine.threads)
        self._scaler = source.scaler if isinstance(source, ScaledSource) else None
        self._slab_edges = self._source.slabs(edges) if hasattr(self._source, "slabs") and engine.local else []
        self._slabs: dict[int, Any] = {}  # keys of the current graph
        self._begun: dict[int, int] = {}  # the first block of the current graph in each of them
        self._carried: dict[int, Any] = {}  # arrays of the graph before
        self._coming: set[int] = set()  # slabs that are begun to be read before they are asked for
        beside = self._slab_edges and apart == 1 and engine.readers
        self._ahead = ReadAhead(self._source.array) if beside else None
        longest = np.diff(edges).max(initial=1)  # of no blocks at all: a run that goes on when all have been read
        if beside and np.diff(self._slab_edges).max() > (engine.threads + 1) * longest:
            # the thread beside does what one more of them would be for
            self.engine = engine.with_threads(min(engine.threads, own_threads()))

    def blocks(self, graph: Graph, edges: list[int], window: Window) -> Iterator[Any]:
        """Yield the keys of the blocks between the edges; reading waits as the window says.

        What is yielded is often a call to be made inside the task that it is an argument of (see `Graph.named`).
        """
        if self._scaler is None:
            yield from self._stored(graph, edges, window)
            return
        scaler = graph.value(self._scaler)
        for rows in self._stored(graph, edges, window):
            yield (scale_rows, rows, scaler)

    def _stored(self, graph: Graph, edges: list[int], window: Window) -> Iterator[Any]:
        """Yield the keys of blocks of rows as they are stored."""
        if isinstance(self._source, ArraySource):
            for a, b in pairwise(edges):
                rows = self._source.array[a:b]
                yield graph.value(rows) if self.engine.local else (Constant(rows),)
        elif hasattr(self._source, "slabs"):
            array = graph.value(self._source.array if self._ahead is None else self._ahead)
            self._slabs = {slab: graph.value(rows) for slab, rows in self._carried.items()}
            self._begun = dict.fromkeys(self._slabs, -1)
            first = self._beside(bisect_right(self._slab_edges, edges[0]) - 1 + len(self._slabs))
            if self._ahead and first:
                self._ahead.begin(*first)  # while the graph is made: no more than one slab before it is held
            for a, b in pairwise(edges):
                yield self._cut(graph, array, a, b, window) if self.engine.local else (read_slab, array, a, b, None)
        else:
            yield from graph.blocks_of(self._source.blocks(edges))

    def _beside(self, slab: int) -> list[int]:
        """Return the edges of a slab, if there is one to be read beside."""
        edges = self._slab_edges[slab : slab + 2]
        return edges if self._ahead and len(edges) == 2 else []

    def _cut(self, graph: Graph, array: Any, a: int, b: int, window: Window) -> Any:
        slab_edges = self._slab_edges
        first, last = bisect_right(slab_edges, a) - 1, bisect_left(slab_edges, b)
        for slab in range(first, last):
            if slab not in self._slabs:
                start, stop = slab_edges[slab], slab_edges[slab + 1]
                # who waits for what is read beside does nothing else: as late as can be
                early = None if slab in self._coming else self._begun.get(slab - self._apart)
                self._slabs[slab] = graph.call(read_slab, array, start, stop, window.after(early))
                self._begun[slab] = len(window.results)
        if last == first + 1:
            whole = (slab_edges[first], slab_edges[last]) == (a, b)
            slab, start = self._slabs[first], slab_edges[first]
            following = self._beside(last)
            if following and len(window.results) == self._begun[first] + window.size:
                self._coming.add(last)  # blocks of the slab before are done: there is room for one more
                return (cut_and_begin, slab, a - start, b - start, array, following, window.after())
            return slab if whole else (cut_rows, slab, a - start, b - start, window.after())
        slabs = [self._slabs[slab] for slab in range(first, last)]
        return (join_rows, slabs, slab_edges[first], a, b, window.after())

    def unfinished(self, row: int) -> list[int]:
        """Return the slabs of the current graph that go on behind a row."""
        return [slab for slab in self._slabs if self._slab_edges[slab] < row < self._slab_edges[slab + 1]]

    def run(self, graph: Graph, keys: list[Any], row: int, watch: str, step: int) -> list[Any]:
        """Compute some keys of a graph that read up to a row, and carry over what goes on behind it."""
        slabs = self.unfinished(row)
        results = self.engine.run(graph, [*keys, *(self._slabs[slab] for slab in slabs)], watch, step)
        self._carried = dict(zip(slabs, results[len(keys) :], strict=True))
        return results[: len(keys)]


def make_window(graph: Graph, engine: Engine) -> Window:
    """Hold one block a thread and one more here; on a cluster nothing waits between tasks but small results."""
    return Window(graph, engine.threads + 1 if engine.local else 2**62)


def graph_blocks(engine: Engine, source: Source) -> int:
    """Return how many blocks go into one graph."""
    if engine.local:
        return _GRAPH_BLOCKS
    # chunks of a dask array between two graphs are made for both: they have a graph of all of them anyway
    return 2**62 if isinstance(stored_rows(source), DaskSource) else max(_GRAPH_BLOCKS, _GRAPH_ROUNDS * engine.slots)


def row_edges(engine: Engine, source: Source, layout: Layout, begin: int = 0) -> list[int]:
    """Return the edges of the blocks of a layout, from a row on.

    On a cluster those of a dask array fall as near to the edges of its chunks as the grid of tiles allows, so that a
    block is mostly a chunk, or some of them, and few rows go to another worker.
    """
    edges = [begin + edge for edge in block_edges(source.n_rows - begin, layout.block_rows)]
    rows = stored_rows(source)
    if engine.local or not isinstance(rows, DaskSource) or layout.quantum >= layout.block_rows:
        return edges
    unit, near = layout.quantum, [begin]
    for edge in np.cumsum(rows.array.chunks[0]).tolist():
        place = begin + round((edge - begin) / unit) * unit
        while place - near[-1] > layout.block_rows:  # a large chunk is cut, as the plan says
            near.append(near[-1] + layout.block_rows)
        if near[-1] < place < source.n_rows:
            near.append(place)
    while source.n_rows - near[-1] > layout.block_rows:
        near.append(near[-1] + layout.block_rows)
    return [*_joined(near, layout.block_rows), source.n_rows]


def _joined(edges: list[int], longest: int) -> list[int]:
    """Leave out edges between pieces that are no longer than `longest` together.

    Examples
    --------
    >>> _joined([0, 2, 4, 8, 9], 5)
    [0, 4, 9]
    """
    kept = edges[:1]
    for edge, after in pairwise([*edges[1:], edges[-1] + longest]):
        if after - kept[-1] > longest:
            kept.append(edge)
    return kept


def run_blocks(
    engine: Engine,
    source: Source,
    edges: list[int],
    prepare: Callable[[Graph], Consume],
    combine: Combine | None = None,
    watch: str = "",
    step: int = 0,
    apart: int = 1,
) -> list[Any]:
    """Read all blocks between the edges and work on them, some hundred in a graph; return the results in order.

    `prepare` puts what all blocks share into a graph and returns the function that adds the work on a block;
    `combine` makes one result of several, in order; `apart` is for `RowReader`.
    """
    results: list[Any] = []
    for part in stream_blocks(engine, source, edges, prepare, watch, step, combine=combine, apart=apart):
        results += part
        if combine:
            results = [combine(results)]  # here too: totals of all graphs would grow with the rows
    return results


def stream_blocks(
    engine: Engine,
    source: Source,
    edges: list[int],
    prepare: Callable[[Graph], Consume],
    watch: str = "",
    step: int = 0,
    at_once: int | None = None,
    combine: Combine | None = None,
    apart: int = 1,
) -> Iterator[list[Any]]:
    """Do as `run_blocks`, and yield the results of every graph of `at_once` blocks."""
    reader, at_once = RowReader(engine, source, edges, apart), at_once or graph_blocks(engine, source)
    for first in range(0, len(edges) - 1, at_once):
        part, graph = edges[first : first + at_once + 1], Graph()
        consume, window = prepare(graph), make_window(graph, reader.engine)
        for (start, stop), rows in zip(pairwise(part), reader.blocks(graph, part, window), strict=True):
            result = consume(start, rows)
            if result is not None:
                result = graph.named(result)
                graph.about[result] = (start, stop)
                window.add(result)
        keys = [join(graph, window.results, combine, engine)] if combine else window.results
        yield reader.run(graph, keys, part[-1], watch, step)


def join(graph: Graph, parts: list[Any], combine: Combine, engine: Engine) -> Any:
    """Combine values in order; how they are grouped must not matter.

    In this process memory counts, between workers the length of the path.
    """
    return graph.chain(parts, combine) if engine.local else graph.tree(parts, combine)


def read_slab(array: Any, start: int, stop: int, after: Any) -> NDArray[Any]:
    """Read whole chunks of a store. `after` is waited for and not used."""
    return read_rows(array, start, stop)


def cut_and_begin(slab: Any, start: int, stop: int, ahead: ReadAhead, following: list[int], after: Any) -> Any:
    """Return some rows of a slab, as a view; begin to read the one behind it. `after` is waited for and not used."""
    ahead.begin(*following)
    return slab[start:stop]


def cut_rows(slab: Any, start: int, stop: int, after: Any) -> Any:
    """Return some rows of a slab, as a view. `after` is waited for, else dask leaves rows of two slabs for last."""
    return slab[start:stop]


def join_rows(slabs: list[NDArray[Any]], first: int, start: int, stop: int, after: Any) -> NDArray[Any]:
    """Copy rows `start` to `stop` out of slabs, the first of which begins at row `first`."""
    if isinstance(slabs[0], SparseRows):
        rows = join_blocks(slabs)
        return rows[start - first : stop - first]
    out = np.empty((stop - start, slabs[0].shape[1]), dtype=slabs[0].dtype)
    for slab in slabs:
        a, b = max(start, first), min(stop, first + len(slab))
        out[a - start : b - start] = slab[a - first : b - first]
        first += len(slab)
    return out


def gather(engine: Engine, source: Source, rows: NDArray[np.int64], layout: Layout) -> NDArray[Any]:
    """Read single rows by their numbers, in the order asked for."""
    if isinstance(source, ArraySource):
        return source.array[rows]
    if source.sparse:
        parts, places = _picked(engine, source, rows, layout, take_rows)
        return join_blocks(parts)[np.argsort(np.concatenate(places), kind="stable")]
    out = np.empty((len(rows), source.n_features), dtype=source.dtype)
    return _look_up(engine, source, rows, layout, take_rows, out)


def usable(engine: Engine, source: Source, rows: NDArray[np.int64], layout: Layout) -> NDArray[np.bool_]:
    """Return which of some rows, given by number, have neither NaN nor infinity; the rows are not held."""
    out = np.empty(len(rows), dtype=bool)
    if isinstance(source, ArraySource):
        for a, b in pairwise(block_edges(len(rows), layout.block_rows)):
            out[a:b] = usable_rows(source.array, rows[a:b])
        return out
    return _look_up(engine, source, rows, layout, usable_rows, out)


def _look_up(
    engine: Engine,
    source: Source,
    rows: NDArray[np.int64],
    layout: Layout,
    look: Callable[[NDArray[Any], NDArray[np.int64]], NDArray[Any]],
    out: NDArray[Any],
) -> NDArray[Any]:
    """Fill `out` with what `look` says of single rows, in the order asked for."""
    for part, places in zip(*_picked(engine, source, rows, layout, look), strict=True):
        out[places] = part
    return out


def _picked(
    engine: Engine, source: Source, rows: NDArray[np.int64], layout: Layout, look: Callable[..., Any]
) -> tuple[list[Any], list[NDArray[np.intp]]]:
    """Return what `look` says of single rows, block by block, and the places of these among the rows asked for."""
    engine = engine.with_threads(layout.threads)
    edges = row_edges(engine, source, layout)
    order = np.argsort(rows, kind="stable")
    cuts = np.searchsorted(rows[order], edges)
    wanted = {edges[i]: slice(cuts[i], cuts[i + 1]) for i in range(len(edges) - 1) if cuts[i] < cuts[i + 1]}

    def pick(graph: Graph) -> Consume:
        return lambda start, block: (
            graph.call(look, block, rows[order[wanted[start]]] - start) if start in wanted else None
        )

    engine.progress.begin("sampling", len(wanted), "blocks")
    parts = run_blocks(engine, source, edges, pick, watch=look.__name__, step=1, apart=2)
    engine.progress.end()
    return parts, [order[piece] for piece in wanted.values()]


def take_rows(block: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Copy some rows of a block, so that the block can go."""
    return block[rows].copy()


def usable_rows(block: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows of a block have neither NaN nor infinity."""
    bad = bad_rows(block[rows])
    return np.ones(len(rows), dtype=bool) if bad is None else ~bad


def load_rows(engine: Engine, source: Source, layout: Layout, dtype: Any = None) -> ArraySource:
    """Read everything into one array in this process, on its threads; only when the plan says that it fits."""
    if isinstance(source, ArraySource):
        return source
    edges = block_edges(source.n_rows, layout.block_rows)
    if source.sparse:
        blocks = run_blocks(engine, source, edges, lambda graph: lambda start, rows: rows)
        return ArraySource(join_blocks(blocks), lazy=source.lazy, entries=source.row_entries, stored=source.stored)
    out = np.empty((source.n_rows, source.n_features), dtype=dtype or source.dtype)
    engine = engine.with_threads(layout.threads)
    engine.progress.begin("reading", source.n_rows)

    def fill(graph: Graph) -> Consume:
        target = graph.value(out)
        return lambda start, rows: graph.call(fill_rows, target, start, rows)

    run_blocks(engine, source, edges, fill, watch="fill_rows", step=layout.block_rows)
    engine.progress.end()
    return ArraySource(out, lazy=source.lazy)


def all_rows(engine: Engine, source: Source, layout: Layout) -> Any:
    """Return everything as one array in this process, whoever reads it; only when the plan says that it fits."""
    if engine.local:
        return load_rows(engine, source, layout).array
    return gather(engine, source, np.arange(source.n_rows), layout)


def fill_rows(target: NDArray[Any], start: int, block: NDArray[Any]) -> None:
    """Copy a block to its place in an array of this process."""
    target[start : start + len(block)] = block


def shuffle(
    engine: Engine, source: Source, key: Key | FixedOrder, bucket_rows: int, layout: Layout, scratch: Scratch
) -> Shuffled:
    """Write all rows to scratch in the random order of `key`, ready to be read bucket by bucket."""
    if engine.cluster is not None:
        engine.cluster.check_shared(scratch.path)
    engine = engine.with_threads(layout.threads)
    edges = block_edges(source.n_rows, layout.block_rows)
    shuffled = Shuffled(
        key, source.n_rows, source.n_features, source.dtype, bucket_rows, tuple(edges), scratch, source.sparse
    )
    number_of = {start: number for number, start in enumerate(edges[:-1])}

    def write(graph: Graph) -> Consume:
        shared = graph.value(shuffled)
        return lambda start, rows: graph.call(write_run, rows, number_of[start], shared)

    absent = [number for number in range(len(edges) - 1) if not shuffled.has_run(number)]
    if not absent:
        return shuffled
    engine.progress.begin("shuffling", source.n_rows)
    if len(absent) < len(edges) - 1:
        engine.progress.advance((len(edges) - 1 - len(absent)) * layout.block_rows)
    for first, last in spans(absent):  # all of them, but for runs that an earlier process of this run has written
        run_blocks(engine, source, edges[first : last + 2], write, watch="write_run", step=layout.block_rows)
    engine.progress.end()
    return shuffled


def count_entries(engine: Engine, source: DaskSource) -> DaskSource:
    """Return a source of sparse blocks that knows their entries: they are looked at once, chunk by chunk."""
    edges = [0, *np.cumsum(source.array.chunks[0]).tolist()]
    count_of = run_blocks(
        engine.with_threads(1), source, edges, lambda graph: lambda start, rows: graph.call(row_counts, rows)
    )
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(count_of), dtype=np.int64)])
    return replace(source, entries=fullest(indptr), stored=int(indptr[-1]))


def row_counts(rows: SparseRows) -> NDArray[np.int32]:
    """Return the entries of every row."""
    return np.diff(rows.indptr).astype(np.int32)


def explain_bad_row(engine: Engine, source: Source, layout: Layout, error: BadRowError) -> InvalidInputError:
    """Find the first row with a NaN or infinity (at or before the one met) and say where it is."""
    found = (error.row, 0)
    for a, b in pairwise(block_edges(source.n_rows, layout.block_rows)):
        (here,) = run_blocks(
            engine, source, [a, b], lambda graph: lambda start, rows: graph.call(first_bad_row, rows, start)
        )
        if here is not None:
            found = here
            break
    row, column = found
    return InvalidInputError(
        f"Input X contains NaN or infinity: the first is in row {row:,}, column {column:,}. "
        "nan='drop' leaves such rows out and labels them -1."
    )
