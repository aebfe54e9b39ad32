"""Blocks of whole chunks one after another, in random or arrival order, some in a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..planning import block_edges
from ..random import FixedOrder, Key
from .data import RowReader
from .engine import Engine
from .graph import Graph, Window
from .measuring import BadRowError, Measured, Reader, bad_rows, measure_block
from .setup import Setup
from .subsets import epoch_blocks, shuffled_rows

__all__ = ["RowOrder", "ChunkWalk"]


_SEGMENT_BLOCKS = 64  # blocks in one graph: a checkpoint follows each


@dataclass(frozen=True)
class RowOrder:
    """Which row stands at a place: the keyed random order, or (no key) the order of arrival."""

    n_rows: int
    key: Key | FixedOrder | None

    def numbers(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the numbers of the rows at places `start` to `stop`."""
        return np.arange(start, stop) if self.key is None else self.key.rows(self.n_rows, start, stop)

    def measure(self, rows: NDArray[Any], start: int, reader: Reader) -> Measured:
        """Measure the rows from a place on; a bad one is named by its number in the data."""
        try:
            return measure_block(rows, 0, reader)
        except BadRowError as error:
            raise BadRowError(int(self.numbers(start, start + len(rows))[error.row])) from None

    def usable(self, rows: NDArray[Any], start: int, nan: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the rows from a place on that have neither NaN nor infinity, and their numbers."""
        numbers, bad = self.numbers(start, start + len(rows)), bad_rows(rows)
        if bad is None:
            return rows, numbers
        if nan == "raise":
            raise BadRowError(int(numbers[bad][0]))
        return rows[~bad], numbers[~bad]


class ChunkWalk:
    """All rows from a place on, in blocks of whole chunks.

    Parameters
    ----------
    setup : Setup
    order : {"random", "arrival"}
    begin : int
        Rows before this place have been met already.
    """

    def __init__(self, setup: Setup, order: str, begin: int = 0) -> None:
        self._setup, n = setup, setup.problem.n_rows
        self.layout = setup.layout("subsets" if order == "random" else "chunks")
        self.engine: Engine = setup.engine.with_threads(self.layout.threads)
        if order == "random":
            self._blocks = epoch_blocks(setup, 0, begin)
            self.edges, self._first, self._reader = self._blocks.edges, self._blocks.first_block, None
        else:
            self.edges, self._first = [begin + edge for edge in block_edges(n - begin, self.layout.block_rows)], 0
            self._reader = RowReader(self.engine, setup.source, self.edges)
        self.order = RowOrder(n, self._blocks.key if self._reader is None else None)

    @property
    def segments(self) -> Iterator[range]:
        """The blocks of one graph after another."""
        many = self.engine.segment(_SEGMENT_BLOCKS)
        for first in range(self._first, len(self.edges) - 1, many):
            yield range(first, min(len(self.edges) - 1, first + many))

    def rows(self, graph: Graph, segment: range, window: Window) -> Iterator[tuple[int, Any]]:
        """Yield place and key of the blocks of a segment; reading waits as the window says."""
        if self._reader is None:
            yield from shuffled_rows(graph, self._blocks, segment, lambda i: window.after())
            return
        edges = self.edges[segment.start : segment.stop + 1]
        yield from graph.note(zip(pairwise(edges), self._reader.blocks(graph, edges, window), strict=True))

    def run(self, graph: Graph, keys: list[Any], segment: range, watch: Callable[..., Any]) -> list[Any]:
        """Compute some keys of the graph of a segment."""
        name, step = watch.__name__, self.layout.block_rows
        if self._reader is None:
            return self.engine.run(graph, keys, name, step)
        return self._reader.run(graph, keys, self.edges[segment.stop], name, step)
