"""Large subsets dealt over all threads or workers, part by part (PAKCL).

What a part gives are sums, which make the next centres; its measurements neither travel nor wait, so a subset may be
larger than memory. On the threads of this process a part is measured and met piece by piece, while a piece is still in
the cache. On a cluster, where centres are long on their way, one task measures a part and another meets it there:
measuring does not depend on centres, and each thread measures its next part while it waits for them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.shuffle import Shuffled
from ..blocks.sources import ArraySource
from ..kernels.rows import SparseRows, join_blocks
from ..random import FixedOrder, Key
from ..rules.competitive import SubsetSums, Winners, fused_sums, move_centres, piece_rows, subset_sums
from ..rules.fused import Fused
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
    met: SubsetSums | None = None  # of the subset that the graph before has not finished
    many = max(_GRAPH_PARTS, 4 * engine.slots)
    for first in range(0, len(edges) - 1, many):
        part, graph = edges[first : first + many + 1], Graph()
        reader, key, sums = graph.value(own_reader), graph.value(state), [] if met is None else [graph.value(met)]
        add = _here(graph, portions, reader, walk) if engine.local else _ahead(graph, portions, reader, walk, engine)
        graph.order = portions
        for a, b in pairwise(part):
            sums.append(add(key, a, b))
            if b % walk.subset_rows == 0 or b == n:
                rate = walk.rates((epoch * n + b) / (walk.n_epochs * n))
                key = graph.call(next_state, key, _joined(graph, sums, engine), rate, reader)
                sums = []
        wanted = [key, *(_joined(graph, sums, engine) if sums else [])]
        state, *rest = engine.run(graph, wanted, "meet", part_rows)
        met = SubsetSums.combine(rest) if rest else None
        if met is None:
            yield state, part[-1]


Add = Callable[[Any, int, int], Any]  # adds the meeting of a state (its key) and the rows at some places; returns sums


def _here(graph: Graph, portions: Portions, reader: Any, walk: Walk) -> Add:
    """Meet parts on the threads of this process; a bucket is read while others meet the one before."""
    shared, order = graph.value(portions), graph.value(portions.key)
    bucket, fetched, begun = -1, None, None

    def add(state: Any, a: int, b: int) -> Any:
        nonlocal bucket, fetched, begun
        if portions.bucket_of(b - 1) != bucket:
            # when the first part in the bucket before has been met: no more than two are held
            bucket, fetched, begun = portions.bucket_of(b - 1), graph.call(fetch_bucket, shared, b - 1, begun), None
        rows = (read_part, shared, a, b)
        result = graph.call(meet_rows, state, rows, a, portions.n_rows, order, reader, walk.indexed, fetched)
        begun = begun or result
        return result

    return add


def _ahead(graph: Graph, portions: Portions, reader: Any, walk: Walk, engine: Engine) -> Add:
    """Measure parts on workers ahead of need, and meet them there."""
    shared = None if isinstance(portions.source, ArraySource) else graph.value(portions)
    order, ahead, seats = graph.value(portions.key), engine.ahead, engine.seats  # asked once, not for every part
    results: list[Any] = []

    def add(state: Any, a: int, b: int) -> Any:
        i = len(results)
        after = results[i - ahead] if i >= ahead else None  # bounds what waits to be met
        # rows in the memory of this process are sent to workers, those of this part
        rows = (Constant(portions.rows(a, b)),) if shared is None else (read_part, shared, a, b)
        measured = graph.call(measure_part, rows, a, portions.n_rows, order, reader, after)
        results.append(graph.call(meet_part, state, measured, walk.indexed, reader))
        graph.seat(seats, i, measured, results[-1])
        graph.about[measured] = graph.about[results[-1]] = (a, b)
        return results[-1]

    return add


def _joined(graph: Graph, sums: list[Any], engine: Engine) -> list[Any]:
    """Return the keys of sums to be added up: all here, their total between workers."""
    return sums if engine.local else [graph.tree(sums, SubsetSums.combine)]


def begin_epoch(setup: Setup, epoch: int, begin: int) -> None:
    """Show that an epoch begins, at a position: its rows are shuffled, which had a bar of its own."""
    setup.engine.progress.begin(f"epoch {epoch + 1}", setup.problem.n_rows)
    setup.engine.progress.advance(begin)


def rows_of_parts(engine: Engine, subset_rows: int, most: int, n_clusters: int) -> int:
    """Return the rows of a part, on the threads of an engine."""
    # small parts here: a thread that comes late, because it has read a bucket, finds fewer of them left
    shares = 4 * engine.slots if engine.local else min(engine.slots, _MOST_PARTS)
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
    state: Winners,
    rows: Any,
    position: int,
    n_rows: int,
    order: Key | FixedOrder,
    reader: Reader,
    indexed: bool,
    fetched: Any,
) -> SubsetSums:
    """Measure a part of a subset and return what it does to the centres. `fetched` is waited for and not used."""
    fused = None if indexed else Fused.of(reader.map_, state.centres, state.rule)
    if fused is not None:
        with _row_numbers(position, n_rows, order):
            return fused_sums(fused, rows, partial(clean_rows, start=0, nan=reader.nan, dtype=reader.map_.dtype))
    step, sums = piece_rows(len(state.counts)), []
    for first in range(0, len(rows), step):
        part = _measured(rows[first : first + step], position + first, n_rows, order, reader, borrow=True)
        assert part.Z is not None
        sums.append(subset_sums(state, part.Z, part.kappa, part.valid, indexed))
        part.give_back(reader)
    return SubsetSums.combine(sums)


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
def meet_part(state: Winners, part: Measured, indexed: bool, reader: Reader) -> SubsetSums:
    """Return what a part of a subset does to the centres."""
    assert part.Z is not None
    fused = None if indexed else Fused.of(reader.map_, state.centres, state.rule)
    if fused is not None:
        return fused_sums(fused, Z=part.Z, valid=part.valid)
    return subset_sums(state, part.Z, part.kappa, part.valid, indexed)


@task
def next_state(state: Winners, sums: list[SubsetSums], rate: float, reader: Reader) -> Winners:
    """Move the centres after all parts of a subset."""
    return move_centres(state, SubsetSums.combine(sums), rate, reader.map_)
