"""What the literal algorithms take: kernel matrices, and a map of many rows to place all others by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..errors import InvalidInputError
from ..maps.recipes import Landmarks
from ..planning import Stage
from ..schedules.problem import Problem

__all__ = ["check_literal_start", "labelling_stage", "matrix_bytes", "placing_problem"]

_BAND_BYTES = 8 * 2**20


def matrix_bytes(n: int, c: int, d: int) -> int:
    """Return what a run on the kernel matrix of n rows takes: matrix, bands, coefficients, memberships, rows."""
    return 8 * n * (n + 14 * c + 4 * d) + 5 * min(8 * n * n, _BAND_BYTES + 8 * n)


def placing_problem(problem: Problem, n_objects: int) -> Problem:
    """Return the problem as it is when rows are placed by distance to combinations of so many objects."""
    return replace(problem, n_landmarks=max(1, n_objects), recipe=Landmarks())


def labelling_stage(problem: Problem, n_objects: int) -> Stage:
    """Return the stage that places all rows, whose map has no inverse."""
    placing, d = placing_problem(problem, n_objects), problem.cells
    objects = n_objects * d * (16 + 2 * problem.dtype.itemsize) + 8 * 8 * problem.c * (n_objects + 2)
    return placing.stage("labelling", task_bytes=placing.tile_bytes, fixed_bytes=problem.map_bytes + objects)


def check_literal_start(init: Any, n_clusters: int | None) -> None:
    """Refuse labels, from which a literal run cannot start."""
    if not isinstance(init, str) and init.ndim == 1 and len(init) != n_clusters:
        raise InvalidInputError("Literal runs start from row numbers or centre rows, not from labels.")
