"""Subset after subset met by all threads of this process together (PAKCL).

Each thread has a part of every subset, measures and meets it, and waits for the others; the last to come moves the
centres. What a part gives are sums that do not depend on how a subset was divided. A task for each part was slower: a
part takes some milliseconds, and handing out tasks one or two.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ..blocks.shuffle import Shuffled
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
from .engine import Engine
from .graph import Graph
from .measuring import BadRowError, Measured, Reader, clean_rows, measure_block, task
from .portions import Portions

if TYPE_CHECKING:
    from .subsets import Walk

__all__ = ["Crew", "measured_part", "meet_together"]

_GRAPH_SUBSETS, _GRAPH_ROWS = 64, 2**20  # met in one graph: a checkpoint and a progress step follow each


def meet_together(
    engine: Engine,
    state: Winners,
    portions: Portions,
    reader: Reader,
    walk: Walk,
    epoch: int,
    begin: int,
    most_rows: int,
) -> Iterator[tuple[Winners, int]]:
    """Let the subsets of an epoch from a position on meet the centres; yield the state and the next position.

    Of rows in memory, each thread copies at most `most_rows` at a time.
    """
    n, members = portions.n_rows, engine.threads
    with_reader = engine.with_threads(members + 1)
    step = walk.subset_rows * max(1, min(_GRAPH_SUBSETS, _GRAPH_ROWS // walk.subset_rows))
    for first in range(begin, n, step):
        last = min(n, first + step)
        graph, crew = Graph(), Crew(members, state, portions, reader, walk, epoch, first, last, most_rows)
        shared = graph.value(crew)
        tasks = [graph.call(take_part, shared, seat) for seat in range(members)]
        if with_reader.threads > members:  # else it would take the thread of a member, for whom the others wait
            tasks.append(graph.call(read_ahead, shared))
        with_reader.run(graph, tasks, failed=crew.leave)
        state = crew.state
        engine.progress.advance(last - first)
        yield state, last


class Crew:
    """Threads that meet some subsets together, and what they share.

    Parameters
    ----------
    members : int
        How many of them.
    state : Winners
        Centres of the first subset.
    portions : Portions
    reader : Reader
    walk : Walk
    epoch : int
    first, last : int
        The places of the subsets' rows.
    most_rows : int
        Rows in memory that a thread copies at a time.
    """

    def __init__(
        self,
        members: int,
        state: Winners,
        portions: Portions,
        reader: Reader,
        walk: Walk,
        epoch: int,
        first: int,
        last: int,
        most_rows: int,
    ) -> None:
        self.state, self.portions, self.reader, self.walk = state, portions, reader, walk
        self.members, self.epoch, self.place, self.last = members, epoch, first, last
        self.error: BaseException | None = None
        self._unit = _unit_rows(state, reader, walk.indexed)
        self._span = portions.source.bucket_rows if isinstance(portions.source, Shuffled) else most_rows
        self._found: list[SubsetSums | None] = [None] * members
        self._together = threading.Barrier(members, self._move)
        self._moved = threading.Condition()

    def work(self, seat: int) -> None:
        """Meet a part of every subset."""
        while self.place < self.last:
            try:
                found = [self._sums(start, stop) for start, stop in self._slices(*self._part(seat))]
                self._found[seat] = SubsetSums.combine(found) if found else None
            except BaseException as error:
                self.leave(error)
                raise
            try:
                self._together.wait()
            except threading.BrokenBarrierError:
                raise (self.error or RuntimeError("threads that met subsets together were stopped")) from None

    def read_ahead(self) -> None:
        """Get rows ready as long as somebody is going to meet them: no more than the portion after the present one."""
        size = self.portions.fetched_rows
        for number in range(self.place // size, -(-self.last // size)):
            with self._moved:
                self._moved.wait_for(partial(self._reached, (number - 1) * size))
            if self._over:
                return
            self.portions.fetch(number)

    def _reached(self, place: int) -> bool:
        return self._over or self.place >= place

    @property
    def _over(self) -> bool:
        return self.error is not None or self.place >= self.last

    @property
    def _stop(self) -> int:
        return min(self.last, self.place + self.walk.subset_rows)

    def _part(self, seat: int) -> tuple[int, int]:
        """Return the places of a thread's part of the present subset: whole units, about as many for each."""
        units = -(-(self._stop - self.place) // self._unit)
        start, stop = (min(self._stop, self.place + i * units // self.members * self._unit) for i in (seat, seat + 1))
        return start, stop

    def _slices(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut a part into whole units that lie in one bucket, so that their rows need not be copied; a few do not."""
        while start < stop:
            within = (start // self._span + 1) * self._span - start
            end = stop if stop - start <= within else start + max(within // self._unit, 1) * self._unit
            yield start, min(end, stop)
            start = end

    def _sums(self, start: int, stop: int) -> SubsetSums:
        """Return what the rows at some places do to the centres: measured and met while they are in the cache."""
        if self.error is not None:
            raise self.error
        state, reader, indexed, sums = self.state, self.reader, self.walk.indexed, []
        order, n_rows, rows = self.portions.key, self.portions.n_rows, self.portions.rows(start, stop)
        fused = loop_of(state, reader.map_, indexed)
        if fused is not None:
            # All rows at once; but of very wide ones tiles are smaller than the steps of the loop, and products must
            # have the same rows as where parts are measured first.
            step = reader.tile_rows if reader.tile_rows % fused.columns.step_rows else len(rows)
            with _row_numbers(start, n_rows, order):
                for first in range(0, len(rows), step):
                    clean = partial(clean_rows, start=first, nan=reader.nan, dtype=reader.map_.dtype)
                    sums.append(sums_of_rows(fused, rows[first : first + step], clean))
            return SubsetSums.combine(sums)
        step = piece_rows(len(state.counts))
        for first in range(0, len(rows), step):
            part = measured_part(rows[first : first + step], start + first, n_rows, order, reader, borrow=True)
            assert part.Z is not None
            sums.append(subset_sums(state, reader.map_, part.Z, part.kappa, part.valid, indexed))
            part.give_back(reader)
        return SubsetSums.combine(sums)

    def _move(self) -> None:
        """Move the centres after a subset: done by one thread, while the others wait."""
        try:
            n, stop = self.portions.n_rows, self._stop
            sums = SubsetSums.combine([part for part in self._found if part is not None])
            rate = self.walk.rates((self.epoch * n + stop) / (self.walk.n_epochs * n))
            state = move_centres(self.state, sums, rate, self.reader.map_)
        except BaseException as error:
            self._note(error)  # the barrier breaks by itself, and holds its lock now
            raise
        with self._moved:
            self.state, self.place = state, stop
            self._moved.notify()

    def leave(self, error: BaseException) -> None:
        """Let nobody wait for a thread that failed."""
        self._note(error)
        self._together.abort()

    def _note(self, error: BaseException) -> None:
        with self._moved:
            self.error = self.error or error
            self._moved.notify()


@task
def take_part(crew: Crew, seat: int) -> None:
    """Meet a part of every subset of a crew."""
    crew.work(seat)


def read_ahead(crew: Crew) -> None:
    """Read rows that a crew is going to meet."""
    crew.read_ahead()


def _unit_rows(state: Winners, reader: Reader, indexed: bool) -> int:
    """Return what subsets may be cut into and have the same sums: steps of the loop, or pieces."""
    fused = loop_of(state, reader.map_, indexed)
    if fused is not None and reader.tile_rows % fused.columns.step_rows == 0:
        return fused.columns.step_rows
    return piece_rows(len(state.counts))


def measured_part(
    rows: Any, position: int, n_rows: int, order: Key | FixedOrder, reader: Reader, borrow: bool = False
) -> Measured:
    """Measure the rows of a part, which begins at a position of a random order."""
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
