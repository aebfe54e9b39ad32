"""The pass that draws the sample and measures all columns: data are read once for both."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.scaled import ScaledSource
from ..blocks.sources import ArraySource, Source
from ..kernels.rows import SparseRows, join_blocks
from ..planning import Layout, Stage, block_edges
from ..rules.scaling import ColumnSums, Scaler, column_sums, scaler_of
from .data import Consume, load_rows, run_blocks
from .engine import Engine
from .graph import Graph
from .measuring import clean_rows, task

if TYPE_CHECKING:
    from .problem import Problem

__all__ = ["block_scaler", "keep_scaled", "needs_pass", "sampling_and_scaling", "scale_kept", "scaling_stage"]

_FILL_ROWS = 4096


def needs_pass(source: Source) -> bool:
    """Say whether rows are to be scaled by something that all of them have to be looked at for."""
    return isinstance(source, ScaledSource) and source.scaler is None


def scaling_stage(problem: Problem) -> Stage:
    """Return the stage that reads all rows for the sample and for the sums of their columns."""
    d = problem.source.n_features
    dense = min(problem.tile_rows, problem.n_rows) * (problem.cells if problem.source.sparse else d)
    return problem.stage("scaling", task_bytes=3 * 8 * dense + 4 * 12 * 8 * d)


def sampling_and_scaling(
    problem: Problem, source: Source, engine: Engine, layout: Layout
) -> tuple[Callable[[NDArray[np.int64]], Any], Callable[[], Scaler]]:
    """Return a function that reads some rows by number, once, and then knows the scaler that the second returns."""
    found: list[Scaler] = []

    def gather(numbers: NDArray[np.int64]) -> Any:
        here = engine.with_threads(layout.threads)
        edges = block_edges(source.n_rows, layout.block_rows)
        order = np.argsort(numbers, kind="stable")
        cuts = np.searchsorted(numbers[order], edges)
        wanted = {edges[i]: numbers[order[cuts[i] : cuts[i + 1]]] - edges[i] for i in range(len(edges) - 1)}
        here.progress.begin("scaling", source.n_rows)

        def work(graph: Graph) -> Consume:
            shared = graph.value((problem.tile_rows, problem.nan, problem.weights))
            return lambda start, rows: graph.call(pick_and_sum, rows, start, wanted[start], shared)

        ((picked, sums),) = run_blocks(here, source, edges, work, join_picked, "pick_and_sum", layout.block_rows)
        here.progress.end()
        assert isinstance(problem.source, ScaledSource)
        found.append(scaler_of(problem.source.name, sums, source.sparse))
        return join_blocks(picked)[np.argsort(order, kind="stable")]

    return gather, lambda: found[0]


@task
def pick_and_sum(rows: Any, start: int, wanted: NDArray[np.int64], shared: Any) -> tuple[list[Any], ColumnSums]:
    """Copy some rows of a block, and add up the columns of all usable ones, tile by tile."""
    tile_rows, nan, weights = shared
    total = ColumnSums.zeros(rows.shape[1])
    for a in range(0, len(rows), tile_rows):
        tile = rows[a : a + tile_rows]
        clean, bad = clean_rows(tile, start + a, nan, np.dtype(np.float64))
        own = None if weights is None else weights[start + a : start + a + len(tile)]
        if bad is not None:
            clean, own = clean[~bad], None if own is None else own[~bad]
        total = total + column_sums(clean, own)
    return [rows[wanted].copy()], total


def join_picked(parts: list[tuple[list[Any], ColumnSums]]) -> tuple[list[Any], ColumnSums]:
    """Put picked rows one after another, and add up the sums."""
    return [rows for picked, _ in parts for rows in picked], reduce(ColumnSums.__add__, (sums for _, sums in parts))


def block_scaler(name: str, rows: Any, tile_rows: int, nan: str) -> Scaler:
    """Return the scaler of a block in memory."""
    if name == "unit":
        return Scaler(name)
    _, sums = pick_and_sum(rows, 0, np.empty(0, dtype=np.int64), (tile_rows, nan, None))
    return scaler_of(name, sums, isinstance(rows, SparseRows))


def keep_scaled(engine: Engine, source: ScaledSource, layout: Layout) -> ArraySource:
    """Read everything into an array of our own, not yet scaled, in the type that scaled rows have."""
    if isinstance(source.inner, ArraySource):
        return ArraySource(
            source.inner.array.astype(source.dtype, copy=True) if not source.sparse else source.inner.array.copy(),
            lazy=source.lazy,
            entries=source.inner.entries,
            stored=source.stored,
        )
    return load_rows(engine, source.inner, layout, source.dtype)


def scale_kept(kept: ArraySource, scaler: Scaler) -> ArraySource:
    """Scale rows of our own, in their place."""
    if isinstance(kept.array, SparseRows):
        return ArraySource(scaler.apply(kept.array), lazy=kept.lazy, entries=kept.entries, stored=kept.stored)
    for a in range(0, kept.n_rows, _FILL_ROWS):
        kept.array[a : a + _FILL_ROWS] = scaler.apply(kept.array[a : a + _FILL_ROWS])
    return kept
