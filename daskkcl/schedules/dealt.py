"""Large subsets dealt over all threads or workers, part by part (PAKCL).

What a part gives are sums, which make the next centres; its measurements neither travel nor wait, so a subset may be
larger than memory. On the threads of this process a part is measured and met piece by piece, while a piece is still in
the cache. On a cluster, where centres are long on their way, one task measures a part and another meets it there:
measuring does not depend on centres, and each thread measures its next part while it waits for them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.shuffle import Shuffled
from ..blocks.sources import ArraySource
from ..kernels.rows import SparseRows, join_blocks
from ..random import FixedOrder, Key
from ..rules.competitive import (
    SubsetSums,
    Winners,
    loop_of,
    move_centres,
    piece_rows,
    subset_sums,
    sums_of_rows,
)
from ..system import Weighed
from .data import shuffle
from .engine import Engine
from .graph import Constant, Graph
from .measuring import BadRowError, Measured, Reader, clean_rows, measure_block, task
from .setup import Setup
from .shuffling import shuffle_epoch

if TYPE_CHECKING:
    from .subsets import Walk

__all__ = ["begin_epoch", "is_dealt", "meet_dealt", "rows_of_parts"]

_GRAPH_PARTS = 256  # in one graph
_MOST_PARTS = 128  # of a subset on a cluster: more keep its scheduler longer than workers save


def is_dealt(subset_rows: int, n_clusters: int) -> bool:
    """Return whether subsets are so large that they are worth dealing.

    Examples
    --------
    >>> is_dealt(4000, 10), is_dealt(10_000, 10), is_dealt(20_000, 10_000)
    (False, True, False)
    """
    return subset_rows >= 2 * piece_rows(n_clusters)


class Portions:
    """The rows of an epoch in random order, any of them: gathered from memory, or from an external shuffle.

    Parameters
    ----------
    source : ArraySource or Shuffled
    key : Key or FixedOrder
        Of the order.
    n_rows : int
    """

    def __init__(self, source: ArraySource | Shuffled, key: Key | FixedOrder, n_rows: int) -> None:
        self.source, self.key, self.n_rows = source, key, n_rows
        self._lock = threading.Lock()
        self._held: dict[int, _Bucket] = {}  # the last two: neighbouring parts are mostly in the same

    def __reduce__(self) -> tuple[Any, ...]:
        return Portions, (self.source, self.key, self.n_rows)

    def numbers(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the numbers of the rows at places `start` to `stop`."""
        return self.key.rows(self.n_rows, start, stop)

    def rows(self, start: int, stop: int) -> Any:
        """Return the rows at places `start` to `stop`."""
        if isinstance(self.source, ArraySource):
            return self.source.array[self.numbers(start, stop)]
        size, parts = self.source.bucket_rows, []
        for bucket in range(start // size, -(-stop // size)):
            first = bucket * size
            parts.append(self._bucket(bucket, self.source)[max(0, start - first) : stop - first])
        if len(parts) == 1:
            return parts[0]
        return join_blocks(parts) if isinstance(parts[0], SparseRows) else np.concatenate(parts)

    def bucket_of(self, place: int) -> int:
        """Return the bucket that a place is in; rows in memory are all in one."""
        return place // self.source.bucket_rows if isinstance(self.source, Shuffled) else 0

    def fetch(self, place: int) -> None:
        """Read the bucket of a place, if it is not held: whoever asks for rows of it then does not wait."""
        if isinstance(self.source, Shuffled):
            self._bucket(self.bucket_of(place), self.source)

    def _bucket(self, number: int, shuffled: Shuffled) -> Any:
        with self._lock:
            if number not in self._held:
                while len(self._held) > 1:
                    del self._held[next(iter(self._held))]
                self._held[number] = _Bucket()
            bucket = self._held[number]
        with bucket.lock:  # one reads, and others who want the same wait for it
            if bucket.rows is None:
                bucket.rows = shuffled.bucket(number)
            return bucket.rows


class _Bucket:
    def __init__(self) -> None:
        self.lock, self.rows = threading.Lock(), None


def meet_dealt(setup: Setup, state: Winners, epoch: int, begin: int, walk: Walk) -> Iterator[tuple[Winners, int]]:
    """Let the subsets of an epoch from a position on meet the centres; yield the state and the next position."""
    n, layout, piece = setup.problem.n_rows, setup.layout("subsets"), piece_rows(len(state.counts))
    engine = setup.engine.with_threads(layout.threads)
    part_rows = rows_of_parts(engine, walk.subset_rows, layout.block_rows, len(state.counts))
    portions = _portions(setup, epoch, walk, part_rows)
    begin_epoch(setup, epoch, begin)
    edges = part_edges(n, begin, walk.subset_rows, part_rows)
    own_reader = setup.reader  # tiles on the grid of pieces: parts may begin at any of them
    if own_reader.tile_rows > piece:
        own_reader = replace(own_reader, tile_rows=piece)
    met: Met | None = None  # of the subset that the graph before has not finished
    many = max(_GRAPH_PARTS, 4 * engine.slots)
    for first in range(0, len(edges) - 1, many):
        part, graph = edges[first : first + many + 1], Graph()
        graph.order = portions
        way = (_Here if engine.local else _Ahead)(graph, portions, graph.value(own_reader), walk, engine)
        centres, parts = way.begin(state), [] if met is None else [graph.value(met)]
        for a, b in pairwise(part):
            parts.append(way.meet(centres, a, b))
            if b % walk.subset_rows == 0 or b == n:
                rate = walk.rates((epoch * n + b) / (walk.n_epochs * n))
                centres, parts = way.move(centres, parts, rate), []
        wanted = [way.state(centres), *([graph.tree(parts, Met.combine)] if parts else [])]
        state, *rest = engine.run(graph, wanted, "meet", part_rows)
        met = rest[0] if rest else None
        if met is None:
            yield state, part[-1]


@dataclass(frozen=True, eq=False)
class Met(Weighed):
    """A part of a subset that has met the centres: what it does to them, and, in this process, the centres."""

    sums: SubsetSums
    state: Winners | None = None

    @staticmethod
    def combine(parts: list[Met]) -> Met:
        """Join parts of a subset."""
        return Met(SubsetSums.combine([part.sums for part in parts]), parts[0].state)


class _Here:
    """Parts meet centres on the threads of this process; a bucket is read while others meet the one before.

    Centres are no task of their own: each part of a subset makes them of the parts of the subset before, which takes
    less time than a task, and threads wait for one another once a subset.
    """

    def __init__(self, graph: Graph, portions: Portions, reader: Any, walk: Walk, engine: Engine) -> None:
        self._graph, self._portions, self._reader, self._walk = graph, portions, reader, walk
        self._shared, self._order = graph.value(portions), graph.value(portions.key)
        self._bucket, self._fetched, self._begun = -1, None, None

    def begin(self, state: Winners) -> Any:
        """Return the centres of a graph's first subset."""
        return [self._graph.value(state)], 0.0

    def meet(self, centres: Any, a: int, b: int) -> Any:
        """Add the meeting of centres and the rows at some places."""
        graph, portions = self._graph, self._portions
        if portions.bucket_of(b - 1) != self._bucket:
            # when the first part in the bucket before has been met: no more than two are held
            self._bucket = portions.bucket_of(b - 1)
            self._fetched, self._begun = graph.call(fetch_bucket, self._shared, b - 1, self._begun), None
        rows = (read_part, self._shared, a, b)
        given = (portions.n_rows, self._order, self._reader, self._walk.indexed, self._fetched)
        result = graph.call(meet_rows, *centres, rows, a, *given)
        self._begun = self._begun or result
        return result

    def move(self, centres: Any, parts: list[Any], rate: float) -> Any:
        """Return the centres after a subset: whoever meets them makes them."""
        return parts, rate

    def state(self, centres: Any) -> Any:
        """Add the making of centres."""
        return self._graph.call(moved, *centres, self._reader)


class _Ahead:
    """Parts are measured on workers ahead of need, and meet the centres there."""

    def __init__(self, graph: Graph, portions: Portions, reader: Any, walk: Walk, engine: Engine) -> None:
        self._graph, self._portions, self._reader, self._walk = graph, portions, reader, walk
        self._shared = None if isinstance(portions.source, ArraySource) else graph.value(portions)
        self._order = graph.value(portions.key)
        self._ahead, self._seats = engine.ahead, engine.seats  # asked once, not for every part
        self._results: list[Any] = []

    def begin(self, state: Winners) -> Any:
        """Return the centres of a graph's first subset."""
        return self._graph.value(state)

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
        return self._graph.call(next_state, centres, self._graph.tree(parts, Met.combine), rate, self._reader)

    def state(self, centres: Any) -> Any:
        """Return the centres, which are tasks already."""
        return centres


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


def fetch_bucket(portions: Portions, place: int, after: Any) -> None:
    """Read the bucket of a place. `after` is waited for and not used: it bounds how far reading runs ahead."""
    portions.fetch(place)


@task
def meet_rows(
    before: list[Any],
    rate: float,
    rows: Any,
    position: int,
    n_rows: int,
    order: Key | FixedOrder,
    reader: Reader,
    indexed: bool,
    fetched: Any,
) -> Met:
    """Let the rows of a part of a subset meet the centres. `fetched` is waited for and not used."""
    state = moved(before, rate, reader)
    fused = loop_of(state, reader.map_, indexed)
    if fused is not None:
        # All rows at once; but of very wide ones tiles are smaller than the steps of the loop, and products must have
        # the same rows as where parts are measured first.
        step = reader.tile_rows if reader.tile_rows % fused.columns.step_rows else len(rows)
        sums = []
        with _row_numbers(position, n_rows, order):
            for first in range(0, len(rows), step):
                clean = partial(clean_rows, start=first, nan=reader.nan, dtype=reader.map_.dtype)
                sums.append(sums_of_rows(fused, rows[first : first + step], clean))
        return Met(SubsetSums.combine(sums), state)
    step, sums = piece_rows(len(state.counts)), []
    for first in range(0, len(rows), step):
        part = _measured(rows[first : first + step], position + first, n_rows, order, reader, borrow=True)
        assert part.Z is not None
        sums.append(subset_sums(state, reader.map_, part.Z, part.kappa, part.valid, indexed))
        part.give_back(reader)
    return Met(SubsetSums.combine(sums), state)


@task
def moved(before: list[Any], rate: float, reader: Reader) -> Winners:
    """Return centres that are there, or those after all parts of a subset."""
    if isinstance(before[0], Winners):
        return before[0]
    whole = Met.combine(before)
    assert whole.state is not None
    return move_centres(whole.state, whole.sums, rate, reader.map_)


@task
def measure_part(
    rows: NDArray[Any], position: int, n_rows: int, order: Key | FixedOrder, reader: Reader, after: Any
) -> Measured:
    """Measure a part of a subset. `after` is waited for and not used: it bounds how far this runs ahead."""
    return _measured(rows, position, n_rows, order, reader)


def _measured(
    rows: Any, position: int, n_rows: int, order: Key | FixedOrder, reader: Reader, borrow: bool = False
) -> Measured:
    with _row_numbers(position, n_rows, order):
        return measure_block(rows, 0, reader, borrow=borrow)


@contextlib.contextmanager
def _row_numbers(position: int, n_rows: int, order: Key | FixedOrder) -> Iterator[None]:
    """Let an error about a row of a part name it by its number in the data."""
    try:
        yield
    except BadRowError as error:
        place = position + error.row
        raise BadRowError(int(order.rows(n_rows, place, place + 1)[0])) from None


@task
def meet_part(state: Winners, part: Measured, indexed: bool, reader: Reader) -> Met:
    """Return what a part of a subset does to the centres."""
    assert part.Z is not None
    return Met(subset_sums(state, reader.map_, part.Z, part.kappa, part.valid, indexed))


@task
def next_state(state: Winners, met: Met, rate: float, reader: Reader) -> Winners:
    """Move the centres after all parts of a subset."""
    return move_centres(state, met.sums, rate, reader.map_)
