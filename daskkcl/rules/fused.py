"""Crisp rules on rows that are measured by compiled loops: rows in, winners and sums out, nothing in between.

The same loop takes measurements that are there already, and gives the same winners to the bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.distance import CompiledRbfColumns
from ..maps.base import Centres, Map
from .crisp import FrequencySensitive, Nearest
from .many import MANY
from .sums import ExactSum

__all__ = ["Fused", "Loop", "warm_up"]

Floats = NDArray[Any]
_NO_MASK, _NO_VALUES = np.empty(0, dtype=bool), np.empty((1, 0), dtype=np.float32)
Clean = Callable[[Any], tuple[Any, NDArray[np.bool_] | None]]


class Fused:
    """Centres and a crisp rule, ready to meet rows.

    Parameters
    ----------
    columns : CompiledRbfColumns
    centres : Centres
    factors : ndarray of shape (c,)
        What squared distances are multiplied by.
    """

    def __init__(self, columns: CompiledRbfColumns, centres: Centres, factors: Floats) -> None:
        self.columns, self.centres = columns, centres
        self.factors = np.ascontiguousarray(factors, dtype=np.float32)

    @classmethod
    def of(cls, map_: Map, centres: Centres, rule: Any) -> Fused | None:
        """Return the loops for a map and a rule, or None where there are none."""
        columns = getattr(map_, "compiled", None)
        if columns is None or centres.n_clusters >= MANY:
            return None
        if isinstance(rule, Nearest):
            return cls(columns, centres, np.ones(centres.n_clusters))
        return cls(columns, centres, rule.shares) if isinstance(rule, FrequencySensitive) else None

    @cached_property
    def _centres(self) -> tuple[Floats, Floats]:
        """``-2 G`` (a multiple of three rows, m) and ``nu`` (c,) in float32."""
        c, m = self.centres.coefficients.shape
        G = np.zeros((-(-c // 3) * 3, m), dtype=np.float32)
        G[:c] = -2.0 * self.centres.coefficients
        return G, self.centres.norms.astype(np.float32)

    def meet_measured(
        self, Z: Floats, valid: NDArray[np.bool_] | None = None, sums: ExactSum | None = None
    ) -> tuple[NDArray[np.intp], Floats]:
        """Return the winner of every row (-1 for those that do not count) and its squared distance.

        What each centre has won is added to `sums` (c, m) in place; `ExactSum.settled` puts them in order.
        """
        with self.loop(sums) as loop:
            return loop.meet_measured(np.require(Z, np.float32, ["C", "A", "W"]), valid)

    def meet_rows(
        self, rows: Floats, clean: Clean, sums: ExactSum | None = None
    ) -> tuple[NDArray[np.intp], Floats, NDArray[np.bool_] | None]:
        """Return the same for rows that are not measured yet, and which of them count (None: all).

        `clean` is asked only if there is a row whose length is not a finite number: it raises, or returns the rows with
        zeros for those that are dropped, and which these are (None: none).
        """
        with self.loop(sums) as loop:
            return loop.meet_rows(rows, clean)

    @contextlib.contextmanager
    def loop(self, sums: ExactSum | None = None) -> Iterator[Loop]:
        """Give room for a while, in which many parts may be met one after another, and all is added to `sums`."""
        columns, (G, nu) = self.columns, self._centres
        step, m = columns.step_rows, columns.n_landmarks
        high, low = (np.empty((0, m)), np.empty((0, m))) if sums is None else (sums.high, sums.low)
        shapes = [(step, columns.n_features + 2), (step, len(columns.used)), (step, columns.room_width)]
        shapes += [(step, len(G)), (len(high), m)]
        edges = [0, *accumulate(a * b for a, b in shapes)]
        room = columns.buffers.take((edges[-1],), np.float32)
        parts = [room[a:b].reshape(shape) for a, b, shape in zip(edges[:-1], edges[1:], shapes, strict=True)]
        yield Loop(columns, (G, nu, self.factors), (parts[0], parts[1], parts[2], parts[3]), (parts[4], high, low))
        columns.buffers.give(room)


@dataclass(frozen=True, eq=False)
class Loop:
    """The compiled loop with its columns, centres (coefficients, norms, factors), room, and sums."""

    columns: CompiledRbfColumns
    centres: tuple[Floats, Floats, Floats]
    room: tuple[Floats, Floats, Floats, Floats]
    sums: tuple[Floats, Floats, Floats]

    def meet_measured(self, Z: Floats, valid: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.intp], Floats]:
        """See `Fused.meet_measured`; `Z` is of float32, in order."""
        found = _answers(len(Z))
        self._run(_NO_VALUES, _NO_VALUES[0], Z, valid, 0, *found)
        return found

    def meet_rows(self, rows: Floats, clean: Clean) -> tuple[NDArray[np.intp], Floats, NDArray[np.bool_] | None]:
        """See `Fused.meet_rows`."""
        labels, nearest = _answers(len(rows))
        valid, step = None, self.columns.step_rows
        begin = self._run(*self.columns.plain(rows), _NO_VALUES, None, 0, labels, nearest)
        if begin >= 0:
            rows, bad = clean(rows)
            valid = None if bad is None else ~bad
            begin = self._run(*self.columns.plain(rows), _NO_VALUES, valid, begin, labels, nearest)
        while begin >= 0:  # finite, but too long for float32: a few rows by another way, then on
            own = slice(begin, begin + step)
            Z = self.columns.block(rows[own])[0]
            few = None if valid is None else valid[own]
            self._run(_NO_VALUES, _NO_VALUES[0], Z, few, 0, labels[own], nearest[own])
            begin = self._run(*self.columns.plain(rows), _NO_VALUES, valid, begin + step, labels, nearest)
        return labels, nearest, valid

    def _run(self, X: Floats, shift: Floats, Z: Floats, valid: Any, begin: int, labels: Any, nearest: Any) -> int:
        """Meet rows from one on; return the first of the few rows that could not be met, or -1."""
        from .fused_loops import meet

        mask = _NO_MASK if valid is None else valid
        given = (X, Z, shift, self.columns.used, self.columns.strips, *self.centres, mask)
        return int(meet(begin, *given, *self.room, labels, nearest, *self.sums))


def _answers(n_rows: int) -> tuple[NDArray[np.intp], Floats]:
    return np.empty(n_rows, dtype=np.intp), np.empty(n_rows, dtype=np.float32)


def warm_up() -> None:
    """Load (or compile) the loops: that takes memory, which plans are to know of."""
    from ..kernels import Rbf

    row = np.zeros((1, 1), dtype=np.float32)
    columns = Rbf(1.0).columns(row, np.float32).compiled()
    assert isinstance(columns, CompiledRbfColumns)
    columns.block(row)
    centres = Centres(np.ones((1, 1)), np.ones(1), None, np.dtype(np.float32))
    Fused(columns, centres, np.ones(1)).meet_rows(row, lambda rows: (rows, None), ExactSum.zeros((1, 1)))
