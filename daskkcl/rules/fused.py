"""Crisp rules on rows that are measured by compiled loops: rows in, winners and sums out, nothing in between.

The same loop takes measurements that are there already, and gives the same winners to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.distance import CompiledRbfColumns
from ..maps.base import Centres, Map
from .crisp import FrequencySensitive, Nearest
from .many import MANY
from .sums import ExactSum

__all__ = ["Fused", "warm_up"]

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
        loop = _Loop(self, len(Z), sums)
        loop.measured(np.require(Z, np.float32, ["C", "A", "W"]), valid)
        return loop.finish()

    def meet_rows(
        self, rows: Floats, clean: Clean, sums: ExactSum | None = None
    ) -> tuple[NDArray[np.intp], Floats, NDArray[np.bool_] | None]:
        """Return the same for rows that are not measured yet, and which of them count (None: all).

        `clean` is asked only if there is a row whose length is not a finite number: it raises, or returns the rows with
        zeros for those that are dropped, and which these are (None: none).
        """
        columns, loop, valid = self.columns, _Loop(self, len(rows), sums), None
        begin = loop.rows(rows, None, 0)
        if begin >= 0:
            rows, bad = clean(rows)
            valid = None if bad is None else ~bad
            begin = loop.rows(rows, valid, begin)
        while begin >= 0:  # finite, but too long for float32: a few rows by another way, then on
            stop = begin + columns.step_rows
            loop.measured(columns.block(rows[begin:stop])[0], None if valid is None else valid[begin:stop], begin)
            begin = loop.rows(rows, valid, stop)
        return *loop.finish(), valid


class _Loop:
    """The compiled loop with its room and what it finds."""

    def __init__(self, fused: Fused, n_rows: int, sums: ExactSum | None) -> None:
        self.fused, self.columns = fused, fused.columns
        self.labels, self.nearest = np.empty(n_rows, dtype=np.intp), np.empty(n_rows, dtype=np.float32)
        G, step, m = fused._centres[0], self.columns.step_rows, self.columns.n_landmarks
        self.high, self.low = (np.empty((0, m)), np.empty((0, m))) if sums is None else (sums.high, sums.low)
        shapes = [(step, self.columns.n_features + 2), (step, len(self.columns.used))]
        shapes += [(step, m), (step, len(G)), (len(self.high), m)]
        sizes = [a * b for a, b in shapes]
        self.room = self.columns.buffers.take((sum(sizes),), np.float32)
        parts = np.split(self.room, np.cumsum(sizes)[:-1])
        self.left, self.fewer, self.few, self.D, self.S = (
            part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)
        )

    def rows(self, rows: Floats, valid: NDArray[np.bool_] | None, begin: int) -> int:
        """Meet rows from one on; return the first of the few rows that could not be met, or -1."""
        return self._run(*self.columns.plain(rows), _NO_VALUES, valid, begin, self.labels, self.nearest)

    def measured(self, Z: Floats, valid: NDArray[np.bool_] | None, begin: int = 0) -> None:
        """Meet rows that are measured already; the first of them is that many."""
        own = slice(begin, begin + len(Z))
        self._run(_NO_VALUES, _NO_VALUES[0], Z, valid, 0, self.labels[own], self.nearest[own])

    def _run(self, X: Floats, shift: Floats, Z: Floats, valid: Any, begin: int, labels: Any, nearest: Any) -> int:
        from .fused_loops import meet

        (G, nu), mask = self.fused._centres, _NO_MASK if valid is None else valid
        room, columns = (self.left, self.fewer, self.few, self.D), self.columns
        sums = (self.S, self.high, self.low)
        given = (X, Z, shift, columns.used, columns.right, G, nu, self.fused.factors, mask)
        return int(meet(begin, *given, *room, labels, nearest, *sums))

    def finish(self) -> tuple[NDArray[np.intp], Floats]:
        """Give back the room; return winners and distances."""
        self.columns.buffers.give(self.room)
        return self.labels, self.nearest


def warm_up() -> None:
    """Load (or compile) the loops: that takes memory, which plans are to know of."""
    from ..kernels import Rbf

    row = np.zeros((1, 1), dtype=np.float32)
    columns = Rbf(1.0).columns(row, np.float32).compiled()
    assert isinstance(columns, CompiledRbfColumns)
    columns.block(row)
    centres = Centres(np.ones((1, 1)), np.ones(1), None, np.dtype(np.float32))
    Fused(columns, centres, np.ones(1)).meet_rows(row, lambda rows: (rows, None), ExactSum.zeros((1, 1)))
