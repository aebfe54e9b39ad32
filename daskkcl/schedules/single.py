"""Chunk after chunk: the centres of all rows before join the next chunk as weighted objects (spKFCM)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres, Map
from ..random import Key
from ..rules.fuzzy import FuzzyRun
from .checkpoint import Checkpoint
from .fuzzy import FuzzyResult, FuzzySettings, Summary, exact_passes, points_of, run_on_points
from .graph import Graph, Window
from .measuring import task
from .setup import Setup
from .walk import ChunkWalk

__all__ = ["meet_chunk", "single_pass_fuzzy"]

Floats = NDArray[Any]


def single_pass_fuzzy(
    setup: Setup, start: Centres | None, settings: FuzzySettings, order: str, checkpoint: Checkpoint
) -> FuzzyResult:
    """Single-pass kernel fuzzy c-means in landmark form (Algorithm 5): one chunk after another, centres carried on.

    A centre is carried on exactly, as mean measurement and mass ``sum w u^m`` of everything it stands for. Chunks
    follow one another, but measuring them does not wait: some blocks are measured ahead.
    """
    saved = checkpoint.load()
    if saved and "pass_means" in saved:
        return exact_passes(setup, saved, settings, settings.max_passes - 1, checkpoint)
    run, position = _restore(saved, setup.map_)
    if position < setup.problem.n_rows:
        walk = ChunkWalk(setup, order, position)
        setup.engine.progress.begin("chunks", setup.problem.n_rows)
        setup.engine.progress.advance(position)
        for segment in walk.segments:
            run = _run_segment(setup, walk, segment, run, start, settings)
            checkpoint.save(_state(run, walk.edges[segment.stop]))
        setup.engine.progress.end()
    assert run is not None  # there is a row with weight: the sample has some
    if settings.max_passes <= 1:
        return FuzzyResult(setup.map_, run.centres, run.objective, run.n_iter, run.converged)
    found = {"pass_means": np.asarray(run.centres.means), "pass_history": np.empty(0)}
    return exact_passes(setup, found, settings, settings.max_passes - 1, checkpoint)


def _run_segment(
    setup: Setup, walk: ChunkWalk, segment: range, run: FuzzyRun | None, start: Centres | None, settings: FuzzySettings
) -> FuzzyRun | None:
    graph = Graph()
    ahead = Window(graph, walk.engine.ahead)  # of the chain: bounds what is measured before it is met
    reader, key = graph.value(setup.reader), setup.problem.key.child("spkfcm")
    order, shared = graph.value(walk.order), graph.value((start, settings, key))
    weights, state = graph.value(setup.problem.weights), graph.value(run)
    seats = walk.engine.seats
    for i, (position, rows) in enumerate(walk.rows(graph, segment, ahead)):
        chunks = graph.call(measure_chunks, rows, position, order, reader, settings.chunk_rows, weights, ahead.after())
        state = graph.call(meet_chunks, state, chunks, position // settings.chunk_rows, reader, shared)
        graph.seat(seats, i, chunks, state)
        ahead.add(state)
    return walk.run(graph, [state], segment, meet_chunks)[0]


@task
def measure_chunks(
    rows: Floats, position: int, order: Any, reader: Any, chunk_rows: int, weights: Floats | None, after: Any
) -> list[tuple[Floats, Floats, Floats]]:
    """Measure the chunks of a block: measurements, squared lengths, weights. `after` is waited for and not used."""
    chunks = []
    for first in range(0, len(rows), chunk_rows):
        place, part = position + first, rows[first : first + chunk_rows]
        chunk = order.measure(part, place, reader)
        numbers = None if weights is None else order.numbers(place, place + len(part))
        chunks.append((chunk.Z, chunk.kappa, chunk.weights(weights, numbers)))
    return chunks


@task
def meet_chunks(run: FuzzyRun | None, chunks: list[Any], first_chunk: int, reader: Any, shared: Any) -> FuzzyRun | None:
    """Let the chunks of a block follow one another."""
    start, settings, key = shared
    for number, chunk in enumerate(chunks, start=first_chunk):
        run = meet_chunk(run, chunk, number, reader.map_, start, settings, key)
    return run


def meet_chunk(
    run: FuzzyRun | None,
    chunk: tuple[Floats, Floats, Floats],
    number: int,
    map_: Map,
    start: Centres | None,
    settings: FuzzySettings,
    key: Key,
) -> FuzzyRun | None:
    """Cluster the weighted objects of a chunk together with the centres so far.

    The first run starts from `start` or the best of several seedings. Every other starts from the centres so far; and
    from new seeds too, in case the chunk has something that was not met before (unless the start was given).
    """
    if not (chunk[2] > 0).any():
        return run
    if run is None:
        return run_on_points(chunk, map_, settings, key.child(number), settings.n_init if start is None else 0, start)
    carried = points_of([Summary(np.asarray(run.centres.means), run.masses)], map_)
    points = tuple(np.concatenate(pair) for pair in zip(carried, chunk, strict=True))
    n_init = 0 if settings.seeding == "given" else 1
    return run_on_points(points, map_, settings, key.child(number), n_init, run.centres)  # type: ignore[arg-type]


def _state(run: FuzzyRun | None, position: int) -> dict[str, Any]:
    state: dict[str, Any] = {"position": np.array(position)}
    if run is not None:
        state |= {"means": run.centres.means, "masses": run.masses, "history": np.array(run.objective)}
        state["end"] = np.array([run.n_iter, run.converged])
    return state


def _restore(state: dict[str, Any] | None, map_: Map) -> tuple[FuzzyRun | None, int]:
    if not state or "means" not in state:
        return None, int(state["position"]) if state else 0
    centres, (n_iter, converged) = Centres.from_means(state["means"], map_), state["end"].tolist()
    run = FuzzyRun(centres, state["masses"], tuple(state["history"].tolist()), n_iter, bool(converged))
    return run, int(state["position"])
