"""Chunk after chunk, apart: every chunk gives a few weighted centres, and those are clustered in turn (oKFCM)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres, Map
from ..plan import block_edges
from ..random import Key
from ..rules.fuzzy import Fuzzy, best_fuzzy_run, fuzzy_c_means
from .checkpoint import Checkpoint
from .data import Dataset, RowReader, make_window
from .graph import Graph
from .passes import sum_pass
from .setup import Setup
from .tasks import Model, Reader, measure_block, task

__all__ = ["FAN_IN", "FuzzyResult", "FuzzySettings", "Summary", "online_fuzzy"]

Floats = NDArray[Any]

FAN_IN = 10  # summaries merged into one: at most this many times c centres wait on a level
_ROUND_CHUNKS = FAN_IN**3  # chunks in one graph: whole groups; a checkpoint follows each


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
    n_rows, block_rows = setup.problem.n_rows, setup.layout("chunks").block_rows
    rounds = [*range(position, n_rows, settings.chunk_rows * _ROUND_CHUNKS), n_rows]
    blocks = [[a + edge for edge in block_edges(b - a, block_rows)] for a, b in pairwise(rounds)]
    rows = RowReader(setup.source, sorted({edge for edges in blocks for edge in edges}))
    setup.engine.progress.begin("chunks", n_rows)
    setup.engine.progress.advance(position)
    for edges in blocks:
        for level, summary in _run_round(setup, rows, edges, start, settings, key):
            _wait(levels, level, summary, setup.map_, start, settings, key)
        checkpoint.save(_state(levels, edges[-1]))
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


def _run_round(
    setup: Setup, rows: RowReader, edges: list[int], start: Centres | None, settings: FuzzySettings, key: Key
) -> list[tuple[int, Summary]]:
    """Summarise the chunks of some blocks and merge whole groups; return what is left, with its level."""
    layout, graph = setup.layout("chunks"), Graph()
    reader, shared = graph.value(setup.reader), graph.value((start, settings, key))
    engine = setup.engine.with_threads(layout.threads)
    window, summaries = make_window(graph, engine), []
    for (a, b), block in zip(pairwise(edges), rows.blocks(graph, edges, window), strict=True):
        window.add(graph.call(summarise_chunks, block, a, a // settings.chunk_rows, reader, shared))
        n_chunks = math.ceil((b - a) / settings.chunk_rows)
        summaries += [graph.call(getitem, window.results[-1], i) for i in range(n_chunks)]
    left, level, first = [], 0, edges[0] // settings.chunk_rows
    while len(summaries) >= FAN_IN:
        whole, first = len(summaries) // FAN_IN, first // FAN_IN
        left += [(level, summary) for summary in summaries[whole * FAN_IN :]]
        summaries = [
            graph.call(merge_summaries, summaries[g * FAN_IN : (g + 1) * FAN_IN], reader, shared, level, first + g)
            for g in range(whole)
        ]
        level += 1
    left += [(level, summary) for summary in summaries]
    keys = [summary for _, summary in left]
    results = rows.run(engine, graph, keys, edges[-1], "summarise_chunks", layout.block_rows)
    return [(level, result) for (level, _), result in zip(left, results, strict=True)]


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
