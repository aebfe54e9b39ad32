"""The kernel fuzzy c-means family as published: kernel matrices of all rows, of a sample or of chunks, in memory.

Havens, Bezdek and Palaniswami, "Incremental kernel fuzzy c-means" (doi:10.1007/978-3-642-27534-0_1). Centres are
combinations of the rows of a run; what a run passes on are prototypes, the single rows nearest to its centres.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Kernel
from ..kernels.rows import SparseRows, is_sparse, join_blocks
from ..maps.base import Centres
from ..maps.landmarks import LandmarkMap
from ..maps.stored import restore_rows, store_rows
from ..random import Key
from ..rules.fuzzy import d2_seeds
from ..rules.kernel_fuzzy import LiteralRun, LiteralStep, kernel_distances_from, kernel_matrix, weighted_kernel_fcm
from ..system import Weighed
from .checkpoint import Checkpoint
from .fuzzy import FuzzyResult, FuzzySettings
from .graph import Graph, Window
from .measuring import task
from .sampling import draw_rows, weights_of
from .setup import Setup
from .walk import ChunkWalk

__all__ = ["Literal", "online_literal", "sample_literal", "single_pass_literal"]

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Objects(Weighed):
    """Weighted rows and their numbers in the data."""

    rows: Any  # dense or sparse
    numbers: NDArray[np.int64]
    weights: Floats

    @staticmethod
    def join(parts: list[Objects]) -> Objects:
        """Put objects one behind the other."""
        return Objects(
            join_blocks([part.rows for part in parts if len(part.rows)]),
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.weights for part in parts]),
        )

    @property
    def state(self) -> dict[str, Any]:
        """The arrays of a checkpoint."""
        return {**store_rows("rows", self.rows), "numbers": self.numbers, "weights": self.weights}

    @staticmethod
    def restored(state: dict[str, Any], n_features: int) -> Objects:
        """Return the objects of a checkpoint."""
        return Objects(restore_rows("rows", state, n_features), state["numbers"], state["weights"])


@dataclass(frozen=True, eq=False)
class Literal:
    """What all runs of a literal algorithm share.

    Parameters
    ----------
    kernel : Kernel
    start_rows : ndarray or None
        Rows where runs begin; they join a run with weight zero.
    settings : FuzzySettings
    extend : {"centres", "prototypes"}
        How rows outside a run are placed: by distance to its centres, or to its prototypes.
    tile_rows : int
        For the map of the final centres.
    """

    kernel: Kernel
    start_rows: Floats | None
    settings: FuzzySettings
    extend: str
    tile_rows: int

    def runs(self, objects: Objects, key: Key, carried: int = 0, checkpoint: Checkpoint | None = None) -> LiteralRun:
        """Run weighted KFCM (Algorithm 3) on the kernel matrix of some objects; of several seedings keep the lowest J.

        The first `carried` objects are prototypes of an earlier run: when starting rows were given, runs go on there.
        With a checkpoint every step is saved, and what is saved is gone on from.
        """
        saved = None if checkpoint is None else checkpoint.load()
        n_done, step, runs = _restore_seedings(saved)
        settings, n, c = self.settings, len(objects.rows), self.settings.n_clusters
        given = self.start_rows is not None
        joined = self._with_start(objects, carried)
        K, weights, rng = kernel_matrix(self.kernel, joined.rows), joined.weights, key.generator()
        n_seedings = 1 if given else settings.n_init

        def save(number: int, now: LiteralStep | None) -> None:
            if checkpoint is not None:
                checkpoint.save(_seedings_state(number, now, runs), soon=number < n_seedings)

        for number in range(n_seedings):  # seeds are drawn again, so that the next ones are as they were
            if given:
                seeds = np.arange(n, n + c) if len(joined.rows) > n else np.arange(c)
            elif settings.seeding == "random":
                some = np.flatnonzero(weights > 0)
                seeds = rng.choice(some, c, replace=len(some) < c)
            else:
                seeds = d2_seeds(kernel_distances_from(K), weights, c, rng)
            A = np.zeros((len(joined.rows), c))
            A[seeds, np.arange(c)] = 1
            if number < n_done:
                continue
            after = None if checkpoint is None else lambda now: save(number, now)  # noqa: B023
            ends = (settings.fuzzifier, settings.tol, settings.max_iter)
            run = weighted_kernel_fcm(K, weights, A, *ends, begin=step, after=after)
            step = None
            if not runs or run.objective[-1] < runs[0].objective[-1]:
                runs = [run]  # one at a time: memberships of all of them may be large
            save(number + 1, None)
        return runs[0]

    def _with_start(self, objects: Objects, carried: int) -> Objects:
        """Return the objects, and behind them the rows to start from, unless the run starts from carried ones."""
        if self.start_rows is None or carried:
            return objects
        none = np.full(len(self.start_rows), -1)
        if is_sparse(objects.rows):
            rows = SparseRows.of(self.start_rows).astype(objects.rows.dtype)
            return Objects.join([objects, Objects(rows, none, np.zeros(len(none)))])
        start = Objects(self.start_rows.astype(objects.rows.dtype, copy=False), none, np.zeros(len(none)))
        if not np.array_equal(start.rows, self.start_rows):  # centre rows need not be of the data's type
            objects = replace(objects, rows=objects.rows.astype(np.float64))
            start = replace(start, rows=self.start_rows.astype(np.float64))
        return Objects.join([objects, start])

    def prototypes(self, objects: Objects, run: LiteralRun) -> Objects:
        """Return the rows nearest to the centres of a run, weighted by what they stand for.

        The weight is the column sum of ``w u`` (Algorithm 5 line 9 and Algorithm 6 line 9 lack the w).
        """
        P, n = run.prototypes, len(objects.rows)
        return Objects(objects.rows[P], objects.numbers[P], (objects.weights[:, None] * run.U[:n]).sum(axis=0))

    def result(self, objects: Objects, run: LiteralRun, dtype: np.dtype[Any], carried: int = 0) -> FuzzyResult:
        """Return what places all rows after the last run."""
        numbers = objects.numbers[run.prototypes]
        joined = self._with_start(objects, carried)
        if self.extend == "prototypes":
            rows = joined.rows[run.prototypes]
            centres = Centres(np.eye(len(rows)), self.kernel.diagonal(rows.astype(np.float64)), None, dtype)
        else:
            used = (run.A != 0).any(axis=1)  # of the starting rows, only where a centre that got no mass still stands
            rows = joined.rows[used]
            centres = Centres(np.ascontiguousarray(run.A[used].T), run.norms, None, dtype)
        map_ = LandmarkMap(self.kernel, rows, dtype)
        return FuzzyResult(
            map_, centres, run.objective, run.n_iter, run.converged, prototypes=numbers, tile_rows=self.tile_rows
        )


def sample_literal(setup: Setup, literal: Literal, sample_rows: int, checkpoint: Checkpoint) -> FuzzyResult:
    """Cluster a sample by its kernel matrix and extend (rseKFCM, Algorithm 4); a sample of all rows is KFCM."""
    problem = setup.problem
    rows, numbers = draw_rows(problem, setup.source, setup.engine, setup.layout("sampling"), sample_rows)
    if sample_rows >= problem.n_rows:  # KFCM: rows as they stand, which is also the order of ties
        order = np.argsort(numbers)
        rows, numbers = rows[order], numbers[order]
    objects = Objects(rows, numbers, weights_of(problem, numbers))
    setup.engine.progress.begin("kernel matrix", len(rows))
    run = literal.runs(objects, problem.key.child("rsekfcm"), checkpoint=checkpoint)
    setup.engine.progress.advance(len(rows))
    setup.engine.progress.end()
    return literal.result(objects, run, problem.dtype)


def online_literal(setup: Setup, literal: Literal, order: str, checkpoint: Checkpoint) -> FuzzyResult:
    """Online kernel fuzzy c-means (Algorithm 6): chunks with kernel matrices of their own, then their prototypes."""
    key, n_rows, saved = setup.problem.key.child("okfcm"), setup.problem.n_rows, checkpoint.load()
    d = setup.source.n_features
    none = Objects(np.empty((0, d), setup.source.dtype), np.empty(0, np.int64), np.empty(0))
    prototypes = Objects.restored(saved, d) if saved else none
    position = int(saved["position"]) if saved else 0
    if position < n_rows:
        walk = ChunkWalk(setup, order, position)
        shared = (literal, walk.order, setup.problem.nan, setup.problem.weights, key)
        setup.engine.progress.begin("chunks", n_rows)
        setup.engine.progress.advance(position)
        for segment in walk.segments:
            graph = Graph()
            common, window = graph.value(shared), Window(graph, walk.engine.slots + 1)
            for place, rows in walk.rows(graph, segment, window):
                window.add(graph.call(literal_chunks, rows, place, common))
            parts = walk.run(graph, window.results, segment, literal_chunks)
            prototypes = Objects.join([prototypes, *(chunk for part in parts for chunk in part)])
            checkpoint.save({**prototypes.state, "position": np.array(walk.edges[segment.stop])})
        setup.engine.progress.end()
    run = literal.runs(prototypes, key.child("final"))
    return literal.result(prototypes, run, setup.problem.dtype)


@task
def literal_chunks(rows: Floats, position: int, shared: Any) -> list[Objects]:
    """Run weighted kernel fuzzy c-means on each chunk of a block of rows; return their prototypes."""
    literal, _, _, _, key = shared
    prototypes = []
    for number, objects in _chunks(rows, position, shared):
        run = literal.runs(objects, key.child(number))
        prototypes.append(literal.prototypes(objects, run))
    return prototypes


def single_pass_literal(setup: Setup, literal: Literal, order: str, checkpoint: Checkpoint) -> FuzzyResult:
    """Single-pass kernel fuzzy c-means (Algorithm 5): prototypes join the next chunk, weighted by all before them."""
    key, n_rows, saved = setup.problem.key.child("spkfcm"), setup.problem.n_rows, checkpoint.load()
    state, position = None, 0
    if saved:
        position = int(saved["position"])
        if "A" in saved:
            objects = Objects.restored(saved, setup.source.n_features)
            state = (objects, _restore_run(saved), int(saved["carried"]))
    if position < n_rows:
        walk = ChunkWalk(setup, order, position)
        shared = (literal, walk.order, setup.problem.nan, setup.problem.weights, key)
        setup.engine.progress.begin("chunks", n_rows)
        setup.engine.progress.advance(position)
        for segment in walk.segments:
            graph = Graph()
            common, window = graph.value(shared), Window(graph, walk.engine.slots + 1)
            chain = graph.value(state)
            for place, rows in walk.rows(graph, segment, window):
                chain = graph.call(meet_literal_chunks, chain, rows, place, common)
                window.add(chain)
            (state,) = walk.run(graph, [chain], segment, meet_literal_chunks)
            found: dict[str, Any] = {"position": np.array(walk.edges[segment.stop])}
            if state is not None:
                found |= {**state[0].state, **_run_state(state[1]), "carried": np.array(state[2])}
            checkpoint.save(found)
        setup.engine.progress.end()
    assert state is not None  # there is a row with weight: the sample has some
    return literal.result(state[0], state[1], setup.problem.dtype, state[2])


@task
def meet_literal_chunks(state: Any, rows: Floats, position: int, shared: Any) -> Any:
    """Let the chunks of a block follow one another; the state is the last run, its objects, how many were carried."""
    literal, _, _, _, key = shared
    for number, objects in _chunks(rows, position, shared):
        carried = 0
        if state is not None:
            objects = Objects.join([literal.prototypes(*state[:2]), objects])  # line 6
            carried = literal.settings.n_clusters
        state = (objects, literal.runs(objects, key.child(number), carried), carried)
    return state


def _chunks(rows: Floats, position: int, shared: Any) -> Iterator[tuple[int, Objects]]:
    """Yield number and objects of the chunks of a block that have a usable row of positive weight."""
    literal, order, nan, weights, _ = shared
    step = literal.settings.chunk_rows
    for first in range(0, len(rows), step):
        place = position + first
        chunk, numbers = order.usable(rows[first : first + step], place, nan)
        own = np.ones(len(chunk)) if weights is None else weights[numbers]
        part = own > 0  # a row of weight zero has no part in a run
        if part.any():
            yield place // step, Objects(chunk[part], numbers[part], own[part])


def _seedings_state(n_done: int, step: LiteralStep | None, best: list[LiteralRun]) -> dict[str, Any]:
    state: dict[str, Any] = {"n_done": np.array(n_done)}
    if step is not None:
        state |= {"step_A": step.A, "step_U": step.U, "step_history": np.array(step.objective)}
    return {**state, **_run_state(best[0])} if best else state


def _restore_seedings(state: dict[str, Any] | None) -> tuple[int, LiteralStep | None, list[LiteralRun]]:
    if state is None:
        return 0, None, []
    step = None
    if "step_A" in state:
        step = LiteralStep(state["step_A"], state["step_U"], tuple(state["step_history"].tolist()))
    return int(state["n_done"]), step, [_restore_run(state)] if "A" in state else []


def _run_state(run: LiteralRun) -> dict[str, Any]:
    return {
        "U": run.U,
        "A": run.A,
        "norms": run.norms,
        "prototypes": run.prototypes,
        "history": np.array(run.objective),
        "end": np.array([run.n_iter, run.converged]),
    }


def _restore_run(state: dict[str, Any]) -> LiteralRun:
    n_iter, converged = state["end"].tolist()
    history = tuple(state["history"].tolist())
    arrays = (state["U"], state["A"], np.empty(0), state["norms"], state["prototypes"])
    return LiteralRun(*arrays, history, n_iter, bool(converged))
