"""Large subsets dealt over all threads or workers, part by part (PAKCL).

What a part gives are sums, which make the next centres; its measurements neither travel nor wait, so a subset may be
larger than memory. The threads of this process meet subset after subset together (`crew`). On a cluster, where centres
are long on their way, one task measures a part and another meets it there: measuring does not depend on centres, and
each thread measures its next part while it waits for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ..blocks.sources import ArraySource
from ..random import FixedOrder, Key
from ..rules.competitive import SubsetSums, Winners, loop_of, move_centres, piece_rows, subset_sums
from .crew import measured_part, meet_together
from .data import shuffle
from .engine import Engine
from .graph import Constant, Graph
from .measuring import Measured, Reader, task
from .portions import Portions
from .setup import Setup
from .shuffling import shuffle_epoch

if TYPE_CHECKING:
    from .subsets import Walk

__all__ = ["LEAST_DEALT", "begin_epoch", "is_dealt", "meet_dealt", "rows_of_parts", "worth_dealing"]

_GRAPH_PARTS = 256  # in one graph
_MOST_PARTS = 128  # of a subset on a cluster: more keep its scheduler longer than workers save
LEAST_DEALT = 1024  # of a subset that is worth dealing where rows are measured and met in one compiled loop


def is_dealt(subset_rows: int, n_clusters: int, whole_rows: int = 0) -> bool:
    """Return whether subsets are so large that they are dealt: they have more pieces than one, and more than
    `whole_rows` rows.

    Examples
    --------
    >>> is_dealt(4000, 10), is_dealt(10_000, 10), is_dealt(20_000, 10_000), is_dealt(10_000, 10, 30_000)
    (False, True, False, False)
    """
    return subset_rows >= 2 * piece_rows(n_clusters) and subset_rows > whole_rows


def worth_dealing(setup: Setup, walk: Walk, state: Winners) -> bool:
    """Return whether subsets are dealt here: threads that have compiled loops wait for one another but shortly."""
    loops = setup.engine.local and loop_of(state, setup.map_, walk.indexed) is not None
    planned = is_dealt(walk.subset_rows, len(state.counts), setup.problem.whole_rows)
    return planned or (loops and walk.subset_rows >= LEAST_DEALT)


def meet_dealt(setup: Setup, state: Winners, epoch: int, begin: int, walk: Walk) -> Iterator[tuple[Winners, int]]:
    """Let the subsets of an epoch from a position on meet the centres; yield the state and the next position."""
    layout, piece = setup.layout("subsets"), piece_rows(len(state.counts))
    engine = setup.engine.with_threads(layout.threads)
    part_rows = rows_of_parts(engine, walk.subset_rows, layout.block_rows, len(state.counts))
    portions = _portions(setup, epoch, walk, part_rows)
    begin_epoch(setup, epoch, begin)
    reader = setup.reader  # tiles on the grid of pieces: parts may begin at any of them
    if reader.tile_rows > piece:
        reader = replace(reader, tile_rows=piece)
    if engine.local:
        yield from meet_together(engine, state, portions, reader, walk, epoch, begin, layout.block_rows)
    else:
        yield from _meet_on_workers(engine, state, portions, reader, walk, epoch, begin, part_rows)


def _meet_on_workers(
    engine: Engine,
    state: Winners,
    portions: Portions,
    reader: Reader,
    walk: Walk,
    epoch: int,
    begin: int,
    part_rows: int,
) -> Iterator[tuple[Winners, int]]:
    n = portions.n_rows
    edges = part_edges(n, begin, walk.subset_rows, part_rows)
    met: SubsetSums | None = None  # of the subset that the graph before has not finished
    many = max(_GRAPH_PARTS, 4 * engine.slots)
    for first in range(0, len(edges) - 1, many):
        part, graph = edges[first : first + many + 1], Graph()
        graph.order, way = portions, _Ahead(graph, portions, graph.value(reader), walk, engine)
        centres, parts = graph.value(state), [] if met is None else [graph.value(met)]
        for a, b in pairwise(part):
            parts.append(way.meet(centres, a, b))
            if b % walk.subset_rows == 0 or b == n:
                rate = walk.rates((epoch * n + b) / (walk.n_epochs * n))
                centres, parts = way.move(centres, parts, rate), []
        wanted = [centres, *([graph.tree(parts, SubsetSums.combine)] if parts else [])]
        state, *rest = engine.run(graph, wanted, "meet", part_rows)
        met = rest[0] if rest else None
        if met is None:
            yield state, part[-1]


class _Ahead:
    """Parts are measured on workers ahead of need, and meet the centres there."""

    def __init__(self, graph: Graph, portions: Portions, reader: Any, walk: Walk, engine: Engine) -> None:
        self._graph, self._portions, self._reader, self._walk = graph, portions, reader, walk
        self._shared = None if isinstance(portions.source, ArraySource) else graph.value(portions)
        self._order = graph.value(portions.key)
        self._ahead, self._seats = engine.ahead, engine.seats  # asked once, not for every part
        self._results: list[Any] = []

    def meet(self, centres: Any, a: int, b: int) -> Any:
        """Add the measuring of the rows at some places, and their meeting with the centres."""
        graph, portions, i = self._graph, self._portions, len(self._results)
        after = self._results[i - self._ahead] if i >= self._ahead else None  # bounds what waits to be met
        # rows in the memory of this process are sent to workers, those of this part
        rows = (Constant(portions.rows(a, b)),) if self._shared is None else (read_part, self._shared, a, b)
        measured = graph.call(measure_part, rows, a, portions.n_rows, self._order, self._reader, after)
        self._results.append(graph.call(meet_part, centres, measured, self._walk.indexed, self._reader))
        graph.seat(self._seats, i, measured, self._results[-1])
        graph.about[measured] = graph.about[self._results[-1]] = (a, b)
        return self._results[-1]

    def move(self, centres: Any, parts: list[Any], rate: float) -> Any:
        """Add the making of the centres after a subset."""
        return self._graph.call(next_state, centres, self._graph.tree(parts, SubsetSums.combine), rate, self._reader)


def begin_epoch(setup: Setup, epoch: int, begin: int) -> None:
    """Show that an epoch begins, at a position: its rows are shuffled, which had a bar of its own."""
    setup.engine.progress.begin(f"epoch {epoch + 1}", setup.problem.n_rows)
    setup.engine.progress.advance(begin)


def rows_of_parts(engine: Engine, subset_rows: int, most: int, n_clusters: int) -> int:
    """Return the rows of a part, on the threads of an engine."""
    shares = engine.slots if engine.local else min(engine.slots, _MOST_PARTS)
    return _part_rows(subset_rows, shares, most, piece_rows(n_clusters))


def _part_rows(subset_rows: int, slots: int, most: int, piece: int) -> int:
    """Return the rows of a part: whole pieces, a part of a subset for every thread if there are enough of them.

    Examples
    --------
    >>> _part_rows(100_000, 4, 50_000, 4096), _part_rows(100_000, 4, 10_000, 4096), _part_rows(10_000, 4, 50_000, 4096)
    (28672, 8192, 4096)
    """
    wanted = -(-subset_rows // (slots * piece))
    return piece * max(1, min(wanted, most // piece))


def part_edges(n_rows: int, begin: int, subset_rows: int, part_rows: int) -> list[int]:
    """Return where the parts of subsets begin, from a place on; parts begin anew with every subset.

    Examples
    --------
    >>> part_edges(25, 10, 10, 4)
    [10, 14, 18, 20, 24, 25]
    """
    edges = [
        place
        for subset in range(begin - begin % subset_rows, n_rows, subset_rows)
        for place in range(subset, min(n_rows, subset + subset_rows), part_rows)
        if place >= begin
    ]
    return [*edges, n_rows]


def _portions(setup: Setup, epoch: int, walk: Walk, part_rows: int) -> Portions:
    key: Key | FixedOrder = walk.order or setup.problem.key.child("order", epoch)
    n, source = setup.problem.n_rows, setup.source
    if isinstance(source, ArraySource):
        return Portions(source, key, n)
    if setup.first_epoch and epoch == 0 and walk.order is None:
        return Portions(setup.first_epoch.pop(), key, n)
    if setup.engine.local:
        rows = shuffle_epoch(setup.problem, source, setup.engine, setup.plan, setup.scratch, key)
    else:  # whoever measures a part reads it, and no more than two buckets for it
        runs = setup.layout("shuffling")
        own = setup.scratch.part(f"shuffle-{'-'.join(key.path)}-{part_rows}-{runs.block_rows}")
        rows = shuffle(setup.engine, source, key, part_rows, runs, own)
    return Portions(rows, key, n)


def read_part(portions: Portions, start: int, stop: int) -> Any:
    """Read the rows of a part."""
    return portions.rows(start, stop)


@task
def measure_part(
    rows: NDArray[Any], position: int, n_rows: int, order: Key | FixedOrder, reader: Reader, after: Any
) -> Measured:
    """Measure a part of a subset. `after` is waited for and not used: it bounds how far this runs ahead."""
    return measured_part(rows, position, n_rows, order, reader)


@task
def meet_part(state: Winners, part: Measured, indexed: bool, reader: Reader) -> SubsetSums:
    """Return what a part of a subset does to the centres."""
    assert part.Z is not None
    return subset_sums(state, reader.map_, part.Z, part.kappa, part.valid, indexed)


@task
def next_state(state: Winners, sums: SubsetSums, rate: float, reader: Reader) -> Winners:
    """Move the centres after all parts of a subset."""
    return move_centres(state, sums, rate, reader.map_)
