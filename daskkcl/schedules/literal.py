"""Online kernel fuzzy c-means as published: chunks are random subsets, each with a kernel matrix of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Kernel
from ..maps.base import Centres
from ..maps.landmarks import LandmarkMap
from ..random import Key
from ..rules.fuzzy import d2_seeds
from ..rules.kernel_fuzzy import LiteralRun, kernel_distances_from, weighted_kernel_fcm
from .checkpoint import Checkpoint
from .chunks import FuzzyResult, FuzzySettings
from .graph import Graph, Window
from .setup import Setup
from .subsets import ShuffledBlocks, epoch_blocks, shuffled_rows
from .tasks import BadRowError, bad_rows, task

__all__ = ["online_fuzzy_literal"]

Floats = NDArray[Any]

_SEGMENT_BLOCKS = 64  # blocks in one graph: a checkpoint follows each


@dataclass(frozen=True, eq=False)
class _Prototypes:
    """Single rows that stand for a chunk, and their weights (column sums of U)."""

    rows: Floats
    weights: Floats


def online_fuzzy_literal(
    setup: Setup,
    kernel: Kernel,
    start_rows: Floats | None,
    settings: FuzzySettings,
    extend: str,
    checkpoint: Checkpoint,
) -> FuzzyResult:
    """Online kernel fuzzy c-means as published (Algorithm 6): chunks are random subsets with their own kernel matrix.

    Each chunk gives c prototype rows weighted by the column sums of its memberships; one weighted run on all
    prototypes ends it. All rows are then placed by distance to the centres of that run (``extend="centres"``) or to
    its prototype rows (``"prototypes"``, as published).
    """
    rows, weights = _prototypes(setup, kernel, start_rows, settings, checkpoint)
    run = _literal_run(rows, weights, kernel, start_rows, settings, setup.problem.key.child("okfcm", "final"))
    dtype = setup.problem.dtype
    if extend == "prototypes":
        final = rows[run.prototypes]
        norms = kernel.diagonal(final.astype(np.float64))
        centres = Centres(np.eye(len(final)), norms, None, dtype)
        map_ = LandmarkMap(kernel, final, dtype)
    else:
        objects = rows if start_rows is None else np.concatenate([rows, start_rows])
        used = (run.A != 0).any(axis=1)  # of the starting rows, only where a centre that got no mass still stands
        centres = Centres(np.ascontiguousarray(run.A[used].T), run.norms, None, dtype)
        map_ = LandmarkMap(kernel, objects[used], dtype)
    masses = (weights[:, None] * run.U[: len(rows)] ** settings.fuzzifier).sum(axis=0)
    return FuzzyResult(map_, centres, masses, run.objective, run.n_iter, run.converged)


def _prototypes(
    setup: Setup, kernel: Kernel, start_rows: Floats | None, settings: FuzzySettings, checkpoint: Checkpoint
) -> tuple[Floats, Floats]:
    """Return the prototype rows of all chunks and their weights."""
    none = np.empty((0, setup.source.n_features), dtype=setup.source.dtype)
    saved = checkpoint.load() or {"rows": none, "weights": np.empty(0), "position": np.array(0)}
    rows, weights, position = saved["rows"], saved["weights"], int(saved["position"])
    progress, layout = setup.engine.progress, setup.layout("subsets")
    engine, key = setup.engine.with_threads(layout.threads), setup.problem.key.child("okfcm")
    if position == setup.problem.n_rows:
        return rows, weights
    blocks = epoch_blocks(setup, 0, position)
    shared = (blocks, kernel, start_rows, settings, setup.problem.nan, key)
    progress.begin("chunks", setup.problem.n_rows)
    progress.advance(position)
    for segment in range(blocks.first_block, blocks.n_blocks, _SEGMENT_BLOCKS):
        stop = min(blocks.n_blocks, segment + _SEGMENT_BLOCKS)
        graph = Graph()
        keys = _literal_segment(graph, blocks, range(segment, stop), shared, engine.threads + 1)
        parts = engine.run(graph, keys, "literal_chunks", layout.block_rows)
        chunks = [chunk for part in parts for chunk in part]
        rows = np.concatenate([rows, *(chunk.rows for chunk in chunks)])
        weights = np.concatenate([weights, *(chunk.weights for chunk in chunks)])
        checkpoint.save({"rows": rows, "weights": weights, "position": np.array(blocks.edges[stop])})
    progress.end()
    return rows, weights


def _literal_segment(graph: Graph, blocks: ShuffledBlocks, segment: range, shared: Any, ahead: int) -> list[Any]:
    common, window = graph.value(shared), Window(graph, ahead)
    for start, rows in shuffled_rows(graph, blocks, segment, lambda i: window.after()):
        window.add(graph.call(literal_chunks, rows, start, common))
    return window.results


@task
def literal_chunks(rows: Floats, position: int, shared: Any) -> list[_Prototypes]:
    """Run weighted kernel fuzzy c-means on each chunk of a block of shuffled rows."""
    blocks, kernel, start_rows, settings, nan, key = shared
    chunks = []
    for first in range(0, len(rows), settings.chunk_rows):
        chunk = _usable(rows[first : first + settings.chunk_rows], position + first, blocks, nan)
        if len(chunk) == 0:
            continue
        number = (position + first) // settings.chunk_rows
        run = _literal_run(chunk, np.ones(len(chunk)), kernel, start_rows, settings, key.child(number))
        chunks.append(_Prototypes(chunk[run.prototypes], run.U[: len(chunk)].sum(axis=0)))
    return chunks


def _usable(rows: Floats, position: int, blocks: ShuffledBlocks, nan: str) -> Floats:
    bad = bad_rows(rows)
    if bad is None:
        return rows
    if nan == "raise":
        raise BadRowError(blocks.row_number(position + int(np.flatnonzero(bad)[0])))
    return rows[~bad]


def _literal_run(
    rows: Floats, weights: Floats, kernel: Kernel, start_rows: Floats | None, settings: FuzzySettings, key: Key
) -> LiteralRun:
    """Run on the kernel matrix of some rows; given starting rows join them with weight zero."""
    n, c = len(rows), settings.n_clusters
    if start_rows is not None:
        rows = np.concatenate([rows.astype(np.float64), start_rows.astype(np.float64)])
        weights = np.concatenate([weights, np.zeros(len(start_rows))])
    K = kernel(rows.astype(np.float64), rows.astype(np.float64))
    K = (K + K.T) / 2
    runs = []
    rng = key.generator()
    for _ in range(1 if start_rows is not None else settings.n_init):
        if start_rows is not None:
            seeds = np.arange(n, n + c)
        elif settings.seeding == "random":
            seeds = rng.choice(n, c, replace=n < c)
        else:
            seeds = d2_seeds(kernel_distances_from(K), weights, c, rng)
        A = np.zeros((len(rows), c))
        A[seeds, np.arange(c)] = 1
        runs.append(weighted_kernel_fcm(K, weights, A, settings.fuzzifier, settings.tol, settings.max_iter))
    return min(runs, key=lambda run: run.objective[-1])
