"""The data as passes see them: blocks of rows, or of measurements, perhaps kept in memory, on workers, or spilled."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ..blocks.scaled import stored_rows
from ..blocks.scratch import Scratch
from ..blocks.sources import DaskSource, Source
from ..errors import KilledWorkerError
from ..planning import Layout
from .data import Combine, Consume, RowReader, join, make_window, row_edges, run_blocks
from .engine import Engine
from .graph import Graph
from .mapping import settle_centres
from .measuring import Reader, measure_block, spill_block, spilled_block

__all__ = ["Dataset"]


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
        self.edges = row_edges(engine, source, layout)
        self.block_rows, self.layout = layout.block_rows, layout
        self._kept: list[Any] | None = None

    @property
    def n_rows(self) -> int:
        """Rows, dropped ones included."""
        return self.source.n_rows

    def run(
        self,
        prepare: Callable[[Graph], Consume],
        combine: Combine | None = None,
        watch: str = "",
        step: int = 0,
    ) -> list[Any]:
        """Work on all blocks (of rows, or of what is kept) as `run_blocks` does."""
        if self._kept is None:
            return run_blocks(self.engine, self.source, self.edges, prepare, combine, watch, step)

        def work(kept: list[Any]) -> list[Any]:
            graph = Graph()
            consume = prepare(graph)
            keys = [consume(start, graph.kept(block)) for start, block in zip(self.edges[:-1], kept, strict=True)]
            return self.engine.run(graph, [join(graph, keys, combine, self.engine)] if combine else keys, watch, step)

        return self._on_what_is_kept(work)

    def _on_what_is_kept(self, work: Callable[[list[Any]], Any]) -> Any:
        """Work on blocks that are kept; those of workers that died all at once may have to be made again."""
        while True:
            assert self._kept is not None
            try:
                return work(self._kept)
            except KilledWorkerError as error:
                cluster = self.engine.cluster
                if cluster is None or not cluster.forgives(error):
                    raise
            cluster.drop(self._kept)
            self._kept = None
            self._keep(self._prepare)

    def reduce(self, function: Any, combine: Combine, shared: tuple[Any, ...]) -> Any:
        """Let a function of block, first row and shared values see all blocks; combine what it returns.

        In order, but for blocks that the workers of a cluster keep: there the order must not matter.
        """
        if self._kept is not None and self.engine.cluster is not None:
            return self._reduce_where_kept(function, combine, shared)

        def prepare(graph: Graph) -> Consume:
            common = [graph.value(value) for value in shared]
            return lambda start, block: graph.call(function, block, start, *common)

        (total,) = self.run(prepare, combine, function.__name__, self.block_rows)
        return total

    def _reduce_where_kept(self, function: Any, combine: Combine, shared: tuple[Any, ...]) -> Any:
        """Give every thread one task: all its blocks, on the worker that holds them.

        With a task for each block dask's scheduler would balance its load: it lets idle workers take tasks from busy
        ones, and their blocks with them, pass after pass. Workers that have no more tasks than threads are left alone.
        """

        def work(kept: list[Any]) -> Any:
            assert self.engine.cluster is not None
            graph = Graph()
            common = [graph.value(value) for value in shared]
            totals = []
            for address, numbers in self.engine.cluster.portions(kept):
                blocks = [graph.kept(kept[number]) for number in numbers]
                starts = [self.edges[number] for number in numbers]
                totals.append(graph.call(fold_blocks, function, combine, blocks, starts, *common))
                graph.at[totals[-1]] = address
                graph.about[totals[-1]] = (starts[0], self.edges[numbers[-1] + 1])
            (total,) = self.engine.run(graph, [graph.tree(totals, combine)])
            return total

        total = self._on_what_is_kept(work)
        self.engine.progress.advance(self.n_rows)
        return total

    def _keep(self, prepare: Callable[[Graph], Consume]) -> None:
        self._prepare = prepare
        if self.engine.local:
            self._kept = self.run(prepare)
            return
        graph = Graph()  # futures of one graph, which stay on the workers
        consume, rows = prepare(graph), RowReader(self.engine, self.source, self.edges)
        blocks = rows.blocks(graph, self.edges, make_window(graph, self.engine))
        keys = [graph.named(consume(a, rows)) for a, rows in zip(self.edges[:-1], blocks, strict=True)]
        graph.about.update(zip(keys, pairwise(self.edges), strict=True))
        if not isinstance(stored_rows(self.source), DaskSource):  # whose rows are somewhere already
            seats = self.engine.seats
            for number, key in enumerate(keys):
                graph.seat(seats, number, key)
        self._kept = self.engine.keep(graph, keys)

    def keep_rows(self) -> None:
        """Keep the rows where they are read (on the workers of a cluster)."""
        self._keep(lambda graph: lambda start, rows: rows)

    def keep_measurements(self, reader: Reader) -> None:
        """Measure all rows once and keep the measurements in memory.

        What centres take of the map is made on one thread while others measure.
        """

        def prepare(graph: Graph) -> Consume:
            shared = graph.value(reader)

            def consume(start: int, rows: Any) -> Any:
                measured = graph.call(measure_block, rows, start, shared)
                if start > 0 or not self.engine.local:
                    return measured
                return graph.call(beside, measured, graph.call(settle_centres, graph.value(reader.map_)))

            return consume

        self._keep(prepare)

    def spill_measurements(self, reader: Reader, scratch: Scratch) -> None:
        """Measure all rows once and keep the measurements in scratch; what a run has left there it finds again."""
        found: dict[int, Any] = {}
        if self.engine.local and scratch.run is not None:
            blocks = ((a, spilled_block(a, b - a, reader, scratch)) for a, b in pairwise(self.edges))
            found = {a: block for a, block in blocks if block is not None}

        def prepare(graph: Graph) -> Consume:
            shared, folder = graph.value(reader), graph.value(scratch)
            return lambda start, rows: None if start in found else graph.call(spill_block, rows, start, shared, folder)

        if len(found) < len(self.edges) - 1:
            self._keep(prepare)
        if found:
            made = iter(self._kept or [])
            self._kept = [found[a] if a in found else next(made) for a in self.edges[:-1]]
        self._scratch = scratch  # the files must outlive the blocks


def beside(value: Any, other: Any) -> Any:
    """Return a value when something else is there too."""
    return value


def fold_blocks(function: Any, combine: Combine, blocks: list[Any], starts: list[int], *shared: Any) -> Any:
    """Return what a function finds in blocks, combined as it goes."""
    total = function(blocks[0], starts[0], *shared)
    for block, start in zip(blocks[1:], starts[1:], strict=True):
        total = combine([total, function(block, start, *shared)])
    return total
