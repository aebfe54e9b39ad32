"""Subset after subset of few rows: measured once, and met in coordinates, epoch after epoch (PAKCL).

Small data are met in many epochs, and every centre that moved costs a product with the inverse of the landmarks' kernel
matrix. In coordinates of the landmarks' span it costs nothing, and to make those costs one such product for each row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rules.competitive import Winners, piece_rows
from ..rules.coordinates import Coordinates
from ..rules.crisp import cluster_sums
from ..system import single_threaded
from .checkpoint import Checkpoint
from .data import all_rows
from .measuring import measure_block
from .problem import Problem
from .setup import Setup
from .subsets import Walk

__all__ = ["are_few", "compete_in_memory", "few_rows_bytes"]

Floats = NDArray[Any]

_FEW_VALUES = 2**21  # of rows and measurements together: 8 MiB in single precision


def are_few(problem: Problem, subset_rows: int, n_epochs: int) -> bool:
    """Return whether coordinates of all rows are small, and cost less than the moves of centres without them.

    Depends on the problem and on what was asked for only: labels must not change with threads or memory.
    """
    n, m = problem.n_rows, problem.n_measurements
    moves = n_epochs * math.ceil(n / subset_rows) * problem.c
    small = n * (problem.cells + m) <= _FEW_VALUES
    return problem.recipe.name == "landmarks" and not problem.indexed and small and moves >= n


def few_rows_bytes(problem: Problem, subset_rows: int) -> int:
    """Return what is held beside the map: rows, measurements, coordinates in their order and out of it; distances."""
    m, itemsize = problem.n_measurements, problem.dtype.itemsize
    root, met = m * m * (8 + itemsize), 2 * min(subset_rows, piece_rows(problem.c)) * problem.c * itemsize
    return root + met + problem.n_rows * (2 * problem.row_bytes + 3 * problem.measured_bytes + 32) + problem.tile_bytes


@dataclass(frozen=True, eq=False)
class _Rows:
    """Coordinates and squared lengths of all rows, and which of them count (None: all)."""

    Y: Floats
    kappa: Floats
    valid: NDArray[np.bool_] | None

    @classmethod
    def of(cls, setup: Setup, coordinates: Coordinates) -> _Rows:
        rows = all_rows(setup.engine, setup.source, setup.layout("sampling"))
        measured = measure_block(rows, 0, setup.reader)
        return cls(coordinates.block(measured.Z, measured.kappa)[0], measured.kappa, measured.valid)

    def subset(self, numbers: NDArray[np.int64]) -> tuple[Floats, Floats]:
        own = numbers if self.valid is None else numbers[self.valid[numbers]]
        return self.Y[own], self.kappa[own]


def compete_in_memory(
    setup: Setup, start: Winners, walk: Walk, checkpoint: Checkpoint, coordinates: Coordinates
) -> tuple[Winners, list[float]]:
    """Walk through the rows in random subsets, epoch after epoch (Algorithm 2), as `compete_in_subsets` does."""
    M, counts, moves = coordinates.of_means(start.centres.means), start.counts, []
    saved = checkpoint.load()
    if saved:
        M, counts, moves = saved["centres"], saved["counts"], saved["moves"].tolist()
    n, progress = setup.problem.n_rows, setup.engine.progress
    with single_threaded():
        rows = _Rows.of(setup, coordinates)
        while len(moves) < walk.n_epochs and not walk.rests(moves):
            epoch, before = len(moves), M
            progress.begin(f"epoch {epoch + 1}", n)
            key: Any = walk.order or setup.problem.key.child("order", epoch)
            order = key.rows(n, 0, n)
            for first in range(0, n, walk.subset_rows):
                last = min(n, first + walk.subset_rows)
                rate = walk.rates((epoch * n + last) / (walk.n_epochs * n))
                M, counts = _meet(M, counts, *rows.subset(order[first:last]), rate)
            progress.advance(n)
            progress.end()
            moves.append(float(((M - before) ** 2).sum()))
            checkpoint.save({"centres": M, "counts": counts, "moves": np.array(moves)})
    return Winners(coordinates.centres(M), counts), moves


def _meet(M: Floats, counts: Floats, Y: Floats, kappa: Floats, rate: float) -> tuple[Floats, Floats]:
    """Let one subset meet the centres, as `rules.competitive.compete` does, without what a map takes: it is short work.

    Winners are by squared distance times share of wins (Eq. 2 of doi:10.1016/j.neunet.2014.11.003); every centre that
    won moves towards the mean of its rows (Eq. 44 and 45).
    """
    factors, nu = (counts / counts.sum()).astype(Y.dtype), np.vecdot(M, M).astype(Y.dtype)
    right, c = (-2.0 * M).astype(Y.dtype).T, len(M)
    S, won = np.zeros(M.shape), np.zeros(c)
    for first in range(0, len(Y), piece_rows(c)):
        rows = Y[first : first + piece_rows(c)]
        D = rows @ right
        D += kappa[first : first + len(rows), None]
        D += nu
        np.maximum(D, 0, out=D)
        D *= factors
        own, rows_won = cluster_sums(rows, D.argmin(axis=1), c)
        S += own
        won += rows_won
    rates = np.where(won > 0, rate, 0.0)
    S *= (rates / np.maximum(won, 1))[:, None]
    S += (1 - rates)[:, None] * M
    return S, counts + won
