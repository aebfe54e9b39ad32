"""The data as schedules see them: blocks of rows, perhaps kept, spilled or shuffled, and single rows by number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.scratch import Scratch
from ..blocks.shuffle import Shuffled, write_run
from ..blocks.sources import ArraySource, Source, ZarrSource, read_rows
from ..errors import InvalidInputError
from ..plan import Layout, block_edges
from ..random import Key
from .engine import Engine
from .graph import Graph, Window
from .tasks import BadRowError, Reader, first_bad_row, measure_block, spill_block

__all__ = ["Dataset", "explain_bad_row", "gather", "load_rows", "shuffle", "stream"]


def stream(
    graph: Graph, engine: Engine, source: Source, edges: list[int], consume: Callable[[int, Any], Any]
) -> list[Any]:
    """Add ``consume(start, rows)`` of every block of rows to a graph; None skips a block, unread.

    On threads, no more than one block a thread and one more are ever held. A cluster's scheduler holds back by itself.
    """
    window = Window(graph, engine.threads + 1 if engine.local else 2**62)
    for start, rows in zip(edges[:-1], _row_blocks(graph, source, edges, window), strict=True):
        result = consume(start, rows)
        if result is not None:
            window.add(result)
    return window.results


def _row_blocks(graph: Graph, source: Source, edges: list[int], window: Window) -> Iterator[Any]:
    """Yield the blocks between the edges; reading waits as the window says."""
    if isinstance(source, ArraySource):
        for a, b in pairwise(edges):
            yield graph.value(source.array[a:b])
    elif isinstance(source, ZarrSource):
        array, slab_edges = graph.value(source.array), source.slabs(edges)
        slabs: list[Any] = []
        for a, b in pairwise(edges):
            first, last = bisect_right(slab_edges, a) - 1, bisect_left(slab_edges, b)
            for start, stop in pairwise(slab_edges[len(slabs) : last + 1]):
                slabs.append(graph.call(read_slab, array, start, stop, window.after()))
            if (slab_edges[first], slab_edges[last]) == (a, b) and last == first + 1:
                yield slabs[first]
            else:
                yield graph.call(join_rows, slabs[first:last], slab_edges[first], a, b, window.after())
    else:
        yield from graph.blocks_of(source.blocks(edges))


def read_slab(array: Any, start: int, stop: int, after: Any) -> NDArray[Any]:
    """Read whole chunks of a store. `after` is waited for and not used."""
    return read_rows(array, start, stop)


def join_rows(slabs: list[NDArray[Any]], first: int, start: int, stop: int, after: Any) -> NDArray[Any]:
    """Copy rows `start` to `stop` out of slabs, the first of which begins at row `first`."""
    out = np.empty((stop - start, slabs[0].shape[1]), dtype=slabs[0].dtype)
    for slab in slabs:
        a, b = max(start, first), min(stop, first + len(slab))
        out[a - start : b - start] = slab[a - first : b - first]
        first += len(slab)
    return out


class Dataset:
    """Blocks of rows in order, read again for every pass unless they are kept.

    Parameters
    ----------
    engine : Engine
    source : Source
    layout : Layout
        Rows per block and threads.
    """

    def __init__(self, engine: Engine, source: Source, layout: Layout) -> None:
        self.engine = engine.with_threads(layout.threads)
        self.source = source
        self.edges = block_edges(source.n_rows, layout.block_rows)
        self.block_rows = layout.block_rows
        self._kept: list[Any] | None = None

    @property
    def n_rows(self) -> int:
        """Rows, dropped ones included."""
        return self.source.n_rows

    def each(self, graph: Graph, consume: Callable[[int, Any], Any]) -> list[Any]:
        """Add ``consume(start, block)`` of every block to a graph: of rows, or of what is kept."""
        if self._kept is None:
            return stream(graph, self.engine, self.source, self.edges, consume)
        return [consume(start, graph.kept(block)) for start, block in zip(self.edges[:-1], self._kept, strict=True)]

    def keep_rows(self) -> None:
        """Keep the rows where they are read (on the workers of a cluster)."""
        graph = Graph()
        self._kept = self.engine.keep(graph, self.each(graph, lambda start, rows: rows))

    def keep_measurements(self, reader: Reader) -> None:
        """Measure all rows once and keep the measurements in memory."""
        graph = Graph()
        shared = graph.value(reader)
        keys = self.each(graph, lambda start, rows: graph.call(measure_block, rows, start, shared))
        self._kept = self.engine.keep(graph, keys)

    def spill_measurements(self, reader: Reader, scratch: Scratch) -> None:
        """Measure all rows once and keep the measurements in scratch."""
        graph = Graph()
        shared, folder = graph.value(reader), graph.value(scratch)
        keys = self.each(graph, lambda start, rows: graph.call(spill_block, rows, start, shared, folder))
        self._kept = self.engine.keep(graph, keys)
        self._scratch = scratch  # the files must outlive the blocks


def gather(engine: Engine, source: Source, rows: NDArray[np.int64], layout: Layout) -> NDArray[Any]:
    """Read single rows by their numbers, in the order asked for."""
    if isinstance(source, ArraySource):
        return source.array[rows]
    graph, engine = Graph(), engine.with_threads(layout.threads)
    edges = block_edges(source.n_rows, layout.block_rows)
    order = np.argsort(rows, kind="stable")
    cuts = np.searchsorted(rows[order], edges)
    wanted = {edges[i]: slice(cuts[i], cuts[i + 1]) for i in range(len(edges) - 1) if cuts[i] < cuts[i + 1]}

    def pick(start: int, block: Any) -> Any:
        return graph.call(take_rows, block, rows[order[wanted[start]]] - start) if start in wanted else None

    engine.progress.begin("sampling", len(wanted), "blocks")
    parts = engine.run(graph, stream(graph, engine, source, edges, pick), "take_rows", 1)
    engine.progress.end()
    out = np.empty((len(rows), source.n_features), dtype=source.dtype)
    for piece, part in zip(wanted.values(), parts, strict=True):
        out[order[piece]] = part
    return out


def take_rows(block: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Copy some rows of a block, so that the block can go."""
    return block[rows].copy()


def load_rows(engine: Engine, source: Source, layout: Layout) -> ArraySource:
    """Read everything into one array in this process; only when the plan says that it fits."""
    if isinstance(source, ArraySource):
        return source
    graph = Graph()
    edges = block_edges(source.n_rows, layout.block_rows)
    out = np.empty((source.n_rows, source.n_features), dtype=source.dtype)
    engine = engine.with_threads(layout.threads)
    engine.progress.begin("reading", source.n_rows)
    if engine.local:
        target = graph.value(out)
        keys = stream(graph, engine, source, edges, lambda start, rows: graph.call(fill_rows, target, start, rows))
        engine.run(graph, keys, "fill_rows", layout.block_rows)
    else:
        blocks = engine.run(graph, stream(graph, engine, source, edges, lambda start, rows: rows))
        for start, block in zip(edges[:-1], blocks, strict=True):
            out[start : start + len(block)] = block
    engine.progress.end()
    return ArraySource(out, lazy=source.lazy)


def fill_rows(target: NDArray[Any], start: int, block: NDArray[Any]) -> None:
    """Copy a block to its place in an array of this process."""
    target[start : start + len(block)] = block


def shuffle(engine: Engine, source: Source, key: Key, bucket_rows: int, layout: Layout, scratch: Scratch) -> Shuffled:
    """Write all rows to scratch in the random order of `key`, ready to be read bucket by bucket."""
    graph, engine = Graph(), engine.with_threads(layout.threads)
    edges = block_edges(source.n_rows, layout.block_rows)
    shuffled = Shuffled(key, source.n_rows, source.n_features, source.dtype, bucket_rows, tuple(edges), scratch)
    shared, runs = graph.value(shuffled), count()
    keys = stream(graph, engine, source, edges, lambda start, rows: graph.call(write_run, rows, next(runs), shared))
    engine.progress.begin("shuffling", source.n_rows)
    engine.run(graph, keys, "write_run", layout.block_rows)
    engine.progress.end()
    return shuffled


def explain_bad_row(engine: Engine, source: Source, layout: Layout, error: BadRowError) -> InvalidInputError:
    """Find the first row with a NaN or infinity (at or before the one met) and say where it is."""
    found = (error.row, 0)
    for a, b in pairwise(block_edges(source.n_rows, layout.block_rows)):
        graph = Graph()
        (rows,) = stream(graph, engine, source, [a, b], lambda start, rows: rows)
        (here,) = engine.run(graph, [graph.call(first_bad_row, rows, a)])
        if here is not None:
            found = here
            break
    row, column = found
    return InvalidInputError(
        f"Input X contains NaN or infinity: the first is in row {row:,}, column {column:,}. "
        "nan='drop' leaves such rows out and labels them -1."
    )
