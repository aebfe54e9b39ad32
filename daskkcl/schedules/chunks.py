"""Chunk after chunk, apart: every chunk gives a few weighted centres, and those are clustered in turn (oKFCM)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Kernel
from ..maps.base import Centres, Map
from ..maps.landmarks import LandmarkMap
from ..plan import block_edges
from ..random import Key
from ..rules.fuzzy import Fuzzy, best_fuzzy_run, d2_seeds, fuzzy_c_means
from ..rules.kernel_fuzzy import LiteralRun, kernel_distances_from, weighted_kernel_fcm
from .checkpoint import Checkpoint
from .data import Dataset, stream
from .passes import sum_pass
from .setup import Setup
from .subsets import ShuffledBlocks, epoch_blocks, shuffled_rows
from .tasks import BadRowError, Model, Reader, bad_rows, measure_block, task

__all__ = ["FAN_IN", "FuzzyResult", "FuzzySettings", "Summary", "online_fuzzy", "online_fuzzy_literal"]

Floats = NDArray[Any]

FAN_IN = 10  # summaries merged into one: at most this many times c centres wait on a level
_SEGMENT_BLOCKS = 6 * FAN_IN


@dataclass(frozen=True)
class FuzzySettings:
    """Parameters of the fuzzy runs inside chunks and of the final ones."""

    n_clusters: int
    fuzzifier: float
    tol: float
    max_iter: int
    n_init: int
    chunk_rows: int
    # "given": every run starts from the given centres; "sample": chunks start from the sample's centres, merged ones
    # seed themselves; "d2", "random": every run seeds itself.
    seeding: str
    max_passes: int


@dataclass(frozen=True, eq=False)
class Summary:
    """What stands for a chunk: mean measurements of its centres (c, m) and their masses (c,)."""

    means: Floats
    masses: Floats


@dataclass(frozen=True, eq=False)
class FuzzyResult:
    """Final centres with masses; J over the final run and the exact passes after it."""

    map_: Map
    centres: Centres
    masses: Floats
    history: tuple[float, ...]
    n_iter: int
    converged: bool


def online_fuzzy(setup: Setup, start: Centres | None, settings: FuzzySettings, checkpoint: Checkpoint) -> FuzzyResult:
    """Online kernel fuzzy c-means in landmark form: one pass, chunks apart, their centres merged in a bounded tree.

    A centre passes from its chunk exactly, as mean measurement and mass ``sum w u^m``. Ten summaries become one on
    the next level, so the last step sees at most ten times c centres a level however many chunks there were.
    """
    key = setup.problem.key.child("okfcm")
    saved = checkpoint.load()
    if saved and "pass_means" in saved:
        return _exact_passes(setup, saved, settings, checkpoint)
    levels, position = _restore(saved)
    blocks = _ChunkBlocks(setup, settings, position)
    setup.engine.progress.begin("chunks", setup.problem.n_rows)
    setup.engine.progress.advance(position)
    for segment in range(0, blocks.n_blocks, _SEGMENT_BLOCKS):
        stop = min(blocks.n_blocks, segment + _SEGMENT_BLOCKS)
        for level, summary in _run_segment(setup, blocks, range(segment, stop), start, settings, key):
            _wait(levels, level, summary, setup.map_, start, settings, key)
        checkpoint.save(_state(levels, blocks.edges[stop]))
    setup.engine.progress.end()
    waiting = [summary for level in sorted(levels, reverse=True) for summary in levels[level][1]]
    points = _points(waiting, setup.map_)
    run = best_fuzzy_run(
        *points,
        setup.map_,
        settings.n_clusters,
        settings.fuzzifier,
        settings.tol,
        settings.max_iter,
        n_init=0 if settings.seeding == "given" else settings.n_init,
        rng=key.child("final").generator(),
        seeding="random" if settings.seeding == "random" else "d2",
        also=start,
    )
    if settings.max_passes <= 1:
        return FuzzyResult(setup.map_, run.centres, run.masses, run.objective, run.n_iter, run.converged)
    found = {"pass_means": np.asarray(run.centres.means), "pass_masses": run.masses, "pass_history": np.empty(0)}
    return _exact_passes(setup, found, settings, checkpoint)


def _exact_passes(setup: Setup, state: dict[str, Any], settings: FuzzySettings, checkpoint: Checkpoint) -> FuzzyResult:
    """Go on with exact steps over all rows until J settles."""
    data = Dataset(setup.engine, setup.source, setup.layout("labelling"))
    centres, mass = Centres.from_means(state["pass_means"], setup.map_), state["pass_masses"]
    history: list[float] = state["pass_history"].tolist()
    while len(history) < settings.max_passes - 1 and not _settled(history):
        sums = sum_pass(data, Model(setup.reader, centres, Fuzzy(settings.fuzzifier)), f"pass {len(history) + 1}")
        history.append(float(sums.objective.value))
        mass = sums.mass.value
        means = np.where(mass[:, None] > 0, sums.S.value / np.maximum(mass, 1e-300)[:, None], centres.means)
        centres = Centres.from_means(means, setup.map_)
        checkpoint.save({"pass_means": means, "pass_masses": mass, "pass_history": np.array(history)})
    return FuzzyResult(setup.map_, centres, mass, tuple(history), len(history), _settled(history))


def _settled(history: list[float]) -> bool:
    return len(history) > 1 and history[-2] - history[-1] <= 1e-4 * history[-2]


class _ChunkBlocks:
    """Blocks of whole chunks of rows from `begin` on, in the order of the rows."""

    def __init__(self, setup: Setup, settings: FuzzySettings, begin: int) -> None:
        self.block_rows = setup.layout("chunks").block_rows
        self.edges = [begin + edge for edge in block_edges(setup.problem.n_rows - begin, self.block_rows)]
        self.chunk_rows = settings.chunk_rows

    @property
    def n_blocks(self) -> int:
        return len(self.edges) - 1

    def chunks_of(self, block: int) -> int:
        """Number of chunks of a block."""
        return math.ceil((self.edges[block + 1] - self.edges[block]) / self.chunk_rows)


def _run_segment(
    setup: Setup,
    blocks: _ChunkBlocks,
    segment: range,
    start: Centres | None,
    settings: FuzzySettings,
    key: Key,
) -> list[tuple[int, Summary]]:
    """Summarise the chunks of some blocks; whole groups of FAN_IN chunks come back merged, on level 1."""
    from dask.delayed import delayed

    engine = setup.engine.with_threads(setup.layout("chunks").threads)
    summarise, merge = delayed(summarise_chunks, pure=False), delayed(merge_summaries, pure=False)
    reader, shared = delayed(setup.reader, traverse=False), delayed((start, settings, key), traverse=False)
    edges = blocks.edges[segment.start : segment.stop + 1]
    blocks_summaries = stream(
        engine,
        setup.source,
        edges,
        lambda start, rows: summarise(rows, start, start // settings.chunk_rows, reader, shared),
    )
    chunks = [
        summaries[i]
        for number, summaries in zip(segment, blocks_summaries, strict=True)
        for i in range(blocks.chunks_of(number))
    ]
    first_group = edges[0] // settings.chunk_rows // FAN_IN
    whole = len(chunks) // FAN_IN
    merged = [merge(chunks[g * FAN_IN : (g + 1) * FAN_IN], reader, shared, 0, first_group + g) for g in range(whole)]
    results = engine.compute([*merged, *chunks[whole * FAN_IN :]], "summarise_chunks", blocks.block_rows)
    return [(1 if i < whole else 0, summary) for i, summary in enumerate(results)]


@task
def summarise_chunks(rows: Floats, start: int, first_chunk: int, reader: Reader, shared: Any) -> list[Summary]:
    """Run fuzzy c-means on each chunk of a block of rows."""
    centres, settings, key = shared
    summaries = []
    for number, first in enumerate(range(0, len(rows), settings.chunk_rows), start=first_chunk):
        chunk = measure_block(rows[first : first + settings.chunk_rows], start + first, reader)
        weights = np.ones(len(chunk.kappa)) if chunk.valid is None else chunk.valid.astype(float)
        summaries.append(_fuzzy_run(chunk.Z, chunk.kappa, weights, centres, reader.map_, settings, key.child(number)))
    return summaries


@task
def merge_summaries(summaries: list[Summary], reader: Reader, shared: Any, level: int, group: int) -> Summary:
    """Cluster the centres of several summaries into one summary."""
    centres, settings, key = shared
    Z, kappa, weights = _points(summaries, reader.map_)
    # The centres of one group need not look like those of all rows: unless told otherwise they seed themselves.
    start = centres if settings.seeding == "given" else None
    return _fuzzy_run(Z, kappa, weights, start, reader.map_, settings, key.child("merge", level, group))


def _fuzzy_run(
    Z: Any, kappa: Floats, weights: Floats, start: Centres | None, map_: Map, settings: FuzzySettings, key: Key
) -> Summary:
    arguments = (map_, settings.fuzzifier, settings.tol, settings.max_iter)
    if not (weights > 0).any():
        return Summary(np.zeros((settings.n_clusters, map_.n_measurements)), np.zeros(settings.n_clusters))
    if start is not None:
        run = fuzzy_c_means(Z, kappa, weights, start, *arguments)
    else:
        run = best_fuzzy_run(
            Z,
            kappa,
            weights,
            map_,
            settings.n_clusters,
            *arguments[1:],
            n_init=1,
            rng=key.generator(),
            seeding="random" if settings.seeding == "random" else "d2",
        )
    return Summary(np.asarray(run.centres.means), run.masses)


def _points(summaries: list[Summary], map_: Map) -> tuple[Floats, Floats, Floats]:
    """Return the centres of summaries as weighted objects: measurements, squared lengths, masses."""
    means = np.concatenate([summary.means for summary in summaries])
    lengths = np.einsum("cm,cm->c", map_.dual(means), means)
    return means.astype(map_.dtype), lengths.astype(map_.dtype), np.concatenate([s.masses for s in summaries])


Levels = dict[int, tuple[int, list[Summary]]]  # level -> (groups merged so far, summaries waiting)


def _wait(
    levels: Levels, level: int, summary: Summary, map_: Map, start: Centres | None, settings: FuzzySettings, key: Key
) -> None:
    """Let a summary wait on its level; when FAN_IN wait, they become one on the next."""
    merged, waiting = levels.get(level, (0, []))
    waiting = [*waiting, summary]
    if len(waiting) < FAN_IN:
        levels[level] = (merged, waiting)
        return
    levels[level] = (merged + 1, [])
    one = merge_summaries(waiting, Reader(map_, 1), (start, settings, key), level, merged)
    _wait(levels, level + 1, one, map_, start, settings, key)


def _state(levels: Levels, position: int) -> dict[str, Any]:
    # The first row that is still to come, not the number of a block: the next plan may cut other blocks.
    state: dict[str, Any] = {"position": np.array(position)}
    for level, (merged, waiting) in levels.items():
        state[f"merged_{level}"] = np.array([merged, len(waiting)])
        if waiting:
            state[f"means_{level}"] = np.stack([s.means for s in waiting])
            state[f"masses_{level}"] = np.stack([s.masses for s in waiting])
    return state


def _restore(state: dict[str, Any] | None) -> tuple[Levels, int]:
    levels: Levels = {}
    for name in state or {}:
        if name.startswith("merged_") and state is not None:
            level = int(name.split("_")[1])
            merged, count = (int(x) for x in state[name])
            pairs = zip(state[f"means_{level}"], state[f"masses_{level}"], strict=True) if count else ()
            levels[level] = (merged, [Summary(*pair) for pair in pairs])
    return levels, int(state["position"]) if state else 0


# --- the paper's own form ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Prototypes:
    """Single rows that stand for a chunk, and their weights (column sums of U)."""

    rows: Floats
    weights: Floats
    objective: float


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
    from dask.delayed import delayed

    none = np.empty((0, setup.source.n_features), dtype=setup.source.dtype)
    saved = checkpoint.load() or {"rows": none, "weights": np.empty(0), "position": np.array(0)}
    rows, weights, position = saved["rows"], saved["weights"], int(saved["position"])
    progress, layout = setup.engine.progress, setup.layout("subsets")
    engine, key = setup.engine.with_threads(layout.threads), setup.problem.key.child("okfcm")
    if position == setup.problem.n_rows:
        return rows, weights
    blocks = epoch_blocks(setup, 0, position)
    call = delayed(literal_chunks, pure=False)
    shared = delayed((blocks, kernel, start_rows, settings, setup.problem.nan, key), traverse=False)
    progress.begin("chunks", setup.problem.n_rows)
    progress.advance(position)
    for segment in range(blocks.first_block, blocks.n_blocks, _SEGMENT_BLOCKS):
        stop = min(blocks.n_blocks, segment + _SEGMENT_BLOCKS)
        results = _literal_segment(blocks, range(segment, stop), call, shared)
        parts = engine.compute(results, "literal_chunks", layout.block_rows)
        chunks = [chunk for part in parts for chunk in part]
        rows = np.concatenate([rows, *(chunk.rows for chunk in chunks)])
        weights = np.concatenate([weights, *(chunk.weights for chunk in chunks)])
        checkpoint.save({"rows": rows, "weights": weights, "position": np.array(blocks.edges[stop])})
    progress.end()
    return rows, weights


def _literal_segment(blocks: ShuffledBlocks, segment: range, call: Any, shared: Any) -> list[Any]:
    results: list[Any] = []
    for start, rows in shuffled_rows(blocks, segment, lambda i: results[i - 4] if i > 3 else None):
        results.append(call(rows, start, shared))
    return results


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
        chunks.append(_Prototypes(chunk[run.prototypes], run.U[: len(chunk)].sum(axis=0), run.objective[-1]))
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
