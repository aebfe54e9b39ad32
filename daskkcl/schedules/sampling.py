"""The sample: usable rows from the beginning of the random order, and what is found of all rows on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ..blocks.scaled import ScaledSource
from ..blocks.sources import Source
from ..errors import InvalidInputError
from ..kernels.rows import join_blocks
from ..planning import Layout, Plan
from .data import explain_bad_row, gather, usable
from .engine import Engine
from .measuring import BadRowError, bad_rows
from .scaling import keep_scaled, sampling_and_scaling, scale_kept

if TYPE_CHECKING:
    from .problem import Problem

__all__ = ["draw_rows", "draw_scaled", "repeated", "weights_of"]

_SCREENED_ROWS = 2**19  # looked at together when usable rows are rare


def draw_scaled(
    problem: Problem, engine: Engine, plan: Plan, keeps: bool
) -> tuple[Problem, Source, NDArray[Any], NDArray[np.int64]]:
    """Draw the sample and find the scale of all columns in the same pass; return both, and what knows of them."""
    own = cast(ScaledSource, problem.source)
    layout = plan.layout("scaling")
    source = keep_scaled(engine, own, plan.layout("sampling")) if keeps else own.inner
    gather_first, scaler_found = sampling_and_scaling(problem, source, engine, layout)
    try:
        sample, numbers = draw_rows(problem, source, engine, layout, problem.sample_rows, gather_first)
    except BadRowError as error:
        raise explain_bad_row(engine, source, layout, error) from None
    scaler = scaler_found()
    scaled = own.with_scaler(scaler)
    source = scale_kept(source, scaler) if keeps else scaled
    return replace(problem, source=scaled), source, scaler.apply(sample), numbers


def weights_of(problem: Problem, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the weights of some rows given by number."""
    return np.ones(len(rows)) if problem.weights is None else problem.weights[rows]


def draw_rows(
    problem: Problem,
    source: Source,
    engine: Engine,
    layout: Layout,
    wanted: int,
    gather_first: Callable[[NDArray[np.int64]], Any] | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return usable rows from the beginning of the random order, those of weight 0 passed over, and their numbers."""
    n = problem.n_rows
    numbers, position = _next_rows(problem, 0, wanted)
    sample = gather(engine, source, numbers, layout) if gather_first is None else gather_first(numbers)
    bad = bad_rows(sample)
    if bad is None:
        return sample, numbers
    if problem.nan == "raise":
        raise explain_bad_row(engine, source, layout, BadRowError(int(numbers[bad].min()))) from None
    sample, numbers = sample[~bad], numbers[~bad]
    more: list[NDArray[np.int64]] = []  # numbers first: of rows that are mostly unusable many have to be looked at
    take = 4 * wanted
    while position < n and len(numbers) + sum(map(len, more)) < wanted:
        rows, position = _next_rows(problem, position, take)
        more.append(rows[usable(engine, source, rows, layout)])
        take = min(4 * take, max(4 * wanted, _SCREENED_ROWS))
    if more:
        added = np.concatenate(more)[: wanted - len(numbers)]
        sample = join_blocks([sample, gather(engine, source, added, layout)])
        numbers = np.concatenate([numbers, added])
    if len(sample) == 0:
        raise InvalidInputError(f"All {n:,} rows have a NaN or infinity: nothing is left to cluster.")
    return sample, numbers


def _next_rows(problem: Problem, position: int, count: int) -> tuple[NDArray[np.int64], int]:
    """Return the next rows of positive weight from a place of the random order, and the place behind them."""
    order, n, weights = problem.key.child("order", 0), problem.n_rows, problem.weights
    if weights is None:
        stop = min(n, position + count)
        return order.rows(n, position, stop), stop
    found: list[NDArray[np.int64]] = []
    while position < n and count > 0:
        rows = order.rows(n, position, min(n, position + max(count, _SCREENED_ROWS)))
        places = np.flatnonzero(weights[rows] > 0)[:count]
        position += int(places[-1]) + 1 if len(places) == count else len(rows)
        count -= len(places)
        found.append(rows[places])
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64), position


def repeated(sample: NDArray[Any], weights: NDArray[np.float64], most: int) -> NDArray[Any]:
    """Return rows of equal weight that stand for weighted ones: repeated as often as the weights say, if they are
    whole numbers and not too many; otherwise drawn evenly from all the weight.
    """
    total = float(weights.sum())
    if total <= most and (weights == np.floor(weights)).all():
        return sample[np.repeat(np.arange(len(sample)), weights.astype(np.int64))]
    places = (np.arange(most) + 0.5) * (total / most)
    return sample[np.minimum(np.searchsorted(np.cumsum(weights), places), len(sample) - 1)]
