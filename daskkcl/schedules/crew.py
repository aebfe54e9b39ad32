"""Subset after subset met by all threads of this process together (PAKCL).

Each thread takes slices of the subset, measures and meets them, and waits for the others when none is left; the last to
come moves the centres. What a thread gives are sums that do not depend on who met which slice. A task for each part was
slower: a part takes some milliseconds, and handing out tasks one or two.
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
from ..rules.fused import Clean, Fused
from .engine import Engine
from .graph import Graph
from .measuring import BadRowError, Measured, Reader, clean_rows, measure_block, task
from .portions import Portions

if TYPE_CHECKING:
    from .subsets import Walk

__all__ = ["Crew", "measured_part", "meet_together"]

_GRAPH_SUBSETS, _GRAPH_ROWS = 64, 2**20  # met in one graph: a checkpoint and a progress step follow each
_LEAST_TAKEN = 512  # rows that a thread takes at once: half a millisecond of work


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
        self._moved, self._taking, self._next = threading.Condition(), threading.Lock(), first

    def work(self, seat: int) -> None:
        """Meet slices of every subset."""
        while self.place < self.last:
            try:
                self._found[seat] = self._sums()
            except BaseException as error:
                self.leave(error)
                raise
            try:
                self._together.wait()
            except threading.BrokenBarrierError:
                raise (self.error or RuntimeError("threads that met subsets together were stopped")) from None

    def read_ahead(self) -> None:
        """Get rows ready as long as somebody is going to meet them: no more than the portion after the present one.

        The first rows of those who meet the next subsets are among them.
        """
        size = self.portions.fetched_rows
        for number in range(self.place // size, -(-min(self.portions.n_rows, self.last + size) // size)):
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

    def _slices(self) -> Iterator[tuple[int, Any]]:
        """Yield first place and rows of slices of the present subset that nobody has taken, as long as there are any.

        They are large at first and small in the end, so that threads are ready at about the same time also where one
        of them was held up: by the thread that reads ahead, or by other processes.
        """
        while True:
            with self._taking:
                start, stop = self._next, self._stop
                if self.error is not None:
                    raise self.error
                if start == stop:
                    return
                share = max(_LEAST_TAKEN, 3 * (stop - start) // (4 * self.members))
                self._next = stop = min(stop, start + self._whole(start, max(1, share // self._unit) * self._unit))
            yield start, self.portions.rows(start, stop)

    def _whole(self, start: int, size: int) -> int:
        """Return as many rows, or fewer: whole units in one bucket need not be copied; a few that lie in two are."""
        within = (start // self._span + 1) * self._span - start
        return size if size <= within else max(within // self._unit, 1) * self._unit

    def _sums(self) -> SubsetSums | None:
        """Return what the slices that this thread takes do to the centres: measured and met while in the cache."""
        state, reader, indexed = self.state, self.reader, self.walk.indexed
        fused = loop_of(state, reader.map_, indexed)
        if fused is not None:
            return sums_of_rows(fused, self._rows_to_meet(fused))
        sums: SubsetSums | None = None
        step = piece_rows(len(state.counts))
        for start, rows in self._slices():
            for first in range(0, len(rows), step):
                piece, order = rows[first : first + step], self.portions.key
                part = measured_part(piece, start + first, self.portions.n_rows, order, reader, borrow=True)
                assert part.Z is not None
                found = subset_sums(state, reader.map_, part.Z, part.kappa, part.valid, indexed)
                sums = found if sums is None else SubsetSums.combine([sums, found])
                part.give_back(reader)
        return sums

    def _rows_to_meet(self, fused: Fused) -> Iterator[tuple[Any, Clean]]:
        """Yield the rows of slices, and what to do with those that are no numbers.

        All rows of a slice at once; but of very wide ones tiles are smaller than the steps of the loop, and products
        must have the same rows as where parts are measured first.
        """
        tile = self.reader.tile_rows
        for start, rows in self._slices():
            step = tile if tile % fused.columns.step_rows else len(rows)
            for first in range(0, len(rows), step):
                yield rows[first : first + step], partial(self._clean, start + first)

    def _clean(self, place: int, rows: Any) -> tuple[Any, Any]:
        with _row_numbers(place, self.portions.n_rows, self.portions.key):
            return clean_rows(rows, start=0, nan=self.reader.nan, dtype=self.reader.map_.dtype)

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
            self.state, self.place, self._next = state, stop, stop
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
