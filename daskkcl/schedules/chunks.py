"""Chunk after chunk, apart: every chunk gives a few weighted centres, and those are clustered in turn (oKFCM)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres, Map
from ..planning import block_edges
from ..random import Key
from ..rules.fuzzy import FuzzyRun
from .checkpoint import Checkpoint
from .data import RowReader, make_window
from .fuzzy import FuzzyResult, FuzzySettings, Prototypes, Summary, exact_passes, points_of, run_on_points
from .graph import Graph
from .measuring import Reader, measure_block, task
from .setup import Setup

__all__ = ["FAN_IN", "Levels", "final_run", "online_fuzzy", "summarise", "wait", "with_prototypes"]

Floats = NDArray[Any]

FAN_IN = 10  # summaries merged into one: at most this many times c centres wait on a level
Levels = dict[int, tuple[int, list[Summary]]]  # level -> (groups merged so far, summaries waiting)
_TOP_LEVEL = 3  # up to which groups are merged in the graph that makes them; above they wait here
_ROUND_CHUNKS = FAN_IN**_TOP_LEVEL  # chunks in one graph: whole groups; a checkpoint follows each


def online_fuzzy(setup: Setup, start: Centres | None, settings: FuzzySettings, checkpoint: Checkpoint) -> FuzzyResult:
    """Online kernel fuzzy c-means in landmark form: one pass, chunks apart, their centres merged in a bounded tree.

    A centre passes from its chunk exactly, as mean measurement and mass ``sum w u^m``. Ten summaries become one on
    the next level, so the last step sees at most ten times c centres a level however many chunks there were.
    """
    key = setup.problem.key.child("okfcm")
    saved = checkpoint.load()
    if saved and "pass_means" in saved:
        return exact_passes(setup, saved, settings, settings.max_passes - 1, checkpoint)
    levels, position = _restore(saved)
    n_rows, block_rows = setup.problem.n_rows, setup.layout("chunks").block_rows
    rounds = [*range(position, n_rows, settings.chunk_rows * _round_chunks(setup, settings)), n_rows]
    blocks = [[a + edge for edge in block_edges(b - a, block_rows)] for a, b in pairwise(rounds)]
    rows = RowReader(setup.engine, setup.source, sorted({n_rows, *(edge for edges in blocks for edge in edges)}))
    if blocks:
        setup.engine.progress.begin("chunks", n_rows)
        setup.engine.progress.advance(position)
    for edges in blocks:
        for level, summary in _run_round(setup, rows, edges, start, settings, key):
            wait(levels, level, summary, setup.map_, start, settings, key)
        checkpoint.save(_state(levels, edges[-1]))
    setup.engine.progress.end()
    run = final_run(levels, setup.map_, start, settings, key)
    if settings.max_passes <= 1:
        return FuzzyResult(setup.map_, run.centres, run.objective, run.n_iter, run.converged)
    found = {"pass_means": np.asarray(run.centres.means), "pass_history": np.empty(0)}
    return exact_passes(setup, found, settings, settings.max_passes - 1, checkpoint)


def final_run(levels: Levels, map_: Map, start: Centres | None, settings: FuzzySettings, key: Key) -> FuzzyRun:
    """Cluster the centres of all summaries that wait."""
    waiting = [summary for level in sorted(levels, reverse=True) for summary in levels[level][1]]
    n_init = 0 if settings.seeding == "given" else settings.n_init
    return run_on_points(points_of(waiting, map_), map_, settings, key.child("final"), n_init, start)


def _round_chunks(setup: Setup, settings: FuzzySettings) -> int:
    """Return the chunks of one graph: on a cluster enough for all its threads."""
    if setup.engine.local:
        return _ROUND_CHUNKS
    rows = 4 * setup.engine.segment(16) * setup.layout("chunks").block_rows  # sixteen blocks for each of them
    return _ROUND_CHUNKS * max(1, math.ceil(min(rows, setup.problem.n_rows) / (settings.chunk_rows * _ROUND_CHUNKS)))


def _run_round(
    setup: Setup, rows: RowReader, edges: list[int], start: Centres | None, settings: FuzzySettings, key: Key
) -> list[tuple[int, Summary]]:
    """Summarise the chunks of some blocks and merge whole groups; return what is left, with its level."""
    layout, graph = setup.layout("chunks"), Graph()
    reader, shared = graph.value(setup.reader), graph.value((start, settings, key, setup.problem.weights))
    engine = setup.engine.with_threads(layout.threads)
    window, made = make_window(graph, engine), []
    for (a, b), block in zip(pairwise(edges), rows.blocks(graph, edges, window), strict=True):
        first, n_chunks = a // settings.chunk_rows, math.ceil((b - a) / settings.chunk_rows)
        window.add(graph.call(summarise_chunks, block, a, first, reader, shared))
        graph.about[window.results[-1]] = (a, b)
        pieces = merge_groups([(0, first + i, None) for i in range(n_chunks)], lambda *_: None)
        # taken from the block's list inside the task that needs them: a task for each chunk would be too many
        made += [(*piece[:2], (getitem, window.results[-1], i)) for i, piece in enumerate(pieces)]
    left = merge_groups(
        made, lambda parts, level, group: graph.call(merge_summaries, parts, reader, shared, level, group)
    )
    keys = [graph.named(summary) for _, _, summary in left]
    results = rows.run(graph, keys, edges[-1], "summarise_chunks", layout.block_rows)
    return [(level, result) for (level, _, _), result in zip(left, results, strict=True)]


Numbered = list[tuple[int, int, Any]]  # level, number on it, summary


def merge_groups(summaries: Numbered, merge: Callable[[list[Any], int, int], Any]) -> Numbered:
    """Merge whole groups of FAN_IN numbers, level by level; return what is left, by level and number.

    Examples
    --------
    >>> left = merge_groups([(0, number, "") for number in range(8, 33)], lambda parts, level, group: "one")
    >>> [(level, number) for level, number, _ in left]
    [(0, 8), (0, 9), (0, 30), (0, 31), (0, 32), (1, 1), (1, 2)]
    """
    levels: list[dict[int, Any]] = [{} for _ in range(_TOP_LEVEL + 1)]
    for level, number, summary in summaries:
        levels[level][number] = summary
    for level, here in enumerate(levels[:-1]):
        for group in sorted({number // FAN_IN for number in here}):
            members = range(group * FAN_IN, (group + 1) * FAN_IN)
            if all(number in here for number in members):
                levels[level + 1][group] = merge([here.pop(number) for number in members], level, group)
    return [(level, number, here[number]) for level, here in enumerate(levels) for number in sorted(here)]


@task
def summarise_chunks(rows: Floats, start: int, first_chunk: int, reader: Reader, shared: Any) -> list[Summary]:
    """Run fuzzy c-means on each chunk of a block of rows, and merge the groups that are whole here."""
    centres, settings, key, of_all_rows = shared
    summaries: Numbered = []
    for number, first in enumerate(range(0, len(rows), settings.chunk_rows), start=first_chunk):
        chunk = measure_block(rows[first : first + settings.chunk_rows], start + first, reader)
        points = (chunk.Z, chunk.kappa, chunk.weights(of_all_rows, start + first))
        summaries.append((0, number, summarise(points, centres, reader.map_, settings, key.child(number))))
    merged = merge_groups(summaries, lambda parts, level, group: merge_summaries(parts, reader, shared, level, group))
    return [summary for _, _, summary in merged]


@task
def merge_summaries(summaries: list[Summary], reader: Reader, shared: Any, level: int, group: int) -> Summary:
    """Cluster the centres of several summaries into one summary."""
    centres, settings, key, _ = shared
    points = points_of(summaries, reader.map_)
    # The centres of one group need not look like those of all rows: unless told otherwise they seed themselves.
    start = centres if settings.seeding == "given" else None
    merged = summarise(points, start, reader.map_, settings, key.child("merge", level, group))
    return with_prototypes(merged, [s.prototypes for s in summaries if s.prototypes is not None], reader.map_)


def with_prototypes(summary: Summary, candidates: list[Prototypes], map_: Map) -> Summary:
    """Return the summary with the candidates nearest to its centres, if there are any."""
    if not candidates:
        return summary
    centres = Centres.from_means(summary.means, map_)
    return replace(summary, prototypes=Prototypes.join(candidates).nearest(centres, map_))


def summarise(points: Any, start: Centres | None, map_: Map, settings: FuzzySettings, key: Key) -> Summary:
    """Cluster weighted objects, from `start` or from one seeding of their own."""
    if not (points[2] > 0).any():
        return Summary(np.zeros((settings.n_clusters, map_.n_measurements)), np.zeros(settings.n_clusters))
    run = run_on_points(points, map_, settings, key, 1 if start is None else 0, start)
    return Summary(np.asarray(run.centres.means), run.masses)


def wait(
    levels: Levels, level: int, summary: Summary, map_: Map, start: Centres | None, settings: FuzzySettings, key: Key
) -> None:
    """Let a summary wait on its level; when FAN_IN wait, they become one on the next."""
    merged, waiting = levels.get(level, (0, []))
    waiting = [*waiting, summary]
    if len(waiting) < FAN_IN:
        levels[level] = (merged, waiting)
        return
    levels[level] = (merged + 1, [])
    one = merge_summaries(waiting, Reader(map_, 1), (start, settings, key, None), level, merged)
    wait(levels, level + 1, one, map_, start, settings, key)


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
