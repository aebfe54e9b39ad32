"""From a plan to a forecast: what the stages of the real plan take here, or on a cluster that need not exist."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ..blocks.sources import DaskSource, Source
from ..errors import InvalidInputError
from ..maps.recipes import SparseKernel
from ..planning import Layout, Plan
from ..progress import Progress
from ..random import Key
from ..rules.many import MANY
from ..schedules.cluster import Worker
from ..schedules.data import graph_blocks
from ..schedules.dealt import _GRAPH_PARTS, rows_of_parts
from ..schedules.engine import Engine
from ..schedules.problem import Problem
from ..schedules.subsets import _SEGMENT_BLOCKS
from ..system import available_bytes, cpu_count, version
from .forecast import Forecast, StageForecast
from .rates import Rates, in_loops, measure_rates
from .work import SEED_EPOCHS, Work, work_of

__all__ = ["forecast_run"]

_WORKER_BYTES = 220 * 2**20  # a dask worker with everything imported
_TASKS_PER_BLOCK = 3  # read, work, combine
_CLUSTER_TASKS_PER_BLOCK = 1.5  # on a cluster: what works on a block reads it; some combine what blocks return
_ROW_SECONDS = 3e-8  # of a row in a loop, beside its arithmetic
_STEP_SECONDS = 4e-4  # of the calls of one update by a subset, beside their arithmetic
_EXACT_NUMBER = 16  # bytes of a number in an exact sum


class PlannedEngine(Engine):
    """Stands for a cluster that need not exist: it can be planned on, not computed on."""

    def __init__(self, workers: int, threads: int, limit_bytes: int | None) -> None:
        self.client = self
        self.cluster: Any = self
        self.threads = threads
        self.workers = workers
        self.progress = Progress(False)
        self._limit = limit_bytes or 0

    @property
    def slots(self) -> int:
        """Threads of all workers."""
        return self.workers * self.threads

    def survey(self) -> list[Worker]:
        """Answer as the workers would, each on a machine like this one."""
        facts = (self.threads, _WORKER_BYTES, self._limit, available_bytes(), version())
        return [Worker(f"host {number}", *facts) for number in range(self.workers)]


def forecast_run(
    estimator: Any,
    source: Source,
    *,
    workers: int | None = None,
    threads: int | None = None,
    bandwidth: float | None = None,
    rates: Rates | None = None,
    passes: float | None = None,
    writes: bool = False,
) -> Forecast:
    """Plan a run of an estimator on a source as `fit` would, and say how long the stages of the plan take."""
    from ..estimators.problems import make_problem

    if passes is not None and not passes > 0:
        raise InvalidInputError(f"passes={passes!r}: pass the number of passes over the data to reckon with.")
    problem = replace(make_problem(estimator, source, Key(0)), on_workers=bool(workers))
    settings = estimator._settings(problem)
    threads = threads or cpu_count()
    engine = (
        PlannedEngine(workers, threads, problem.memory_limit) if workers else Engine(None, threads, Progress(False))
    )
    plan = estimator._plan(problem, engine, settings, writes)
    likely = passes or _likely_passes(estimator, problem, settings)
    rates = rates or measure_rates(problem, estimator.fuzzy)
    rule = "fuzzy" if estimator.fuzzy else "fused" if _is_fused(estimator, problem) else "crisp"
    stages = tuple(
        _stage(layout, work, problem, plan, engine, rates, rule)
        for layout in _in_order(plan)
        for work in [work_of(layout.name, estimator, problem, settings, plan, likely)]
    )
    stages = tuple(_with_reading(stage, bandwidth) for stage in stages)
    return Forecast(
        algorithm=estimator.algorithm,
        n_rows=problem.n_rows,
        n_features=source.n_features,
        n_clusters=problem.c,
        n_measurements=problem.n_measurements,
        stored_bytes=problem.n_rows * source.mean_bytes,
        workers=workers or 0,
        threads=threads,
        bandwidth=bandwidth,
        plan=plan,
        rates=rates,
        stages=stages,
        notes=_notes(estimator, problem, stages, workers, passes),
    )


def _likely_passes(estimator: Any, problem: Problem, settings: Any) -> float:
    if getattr(estimator, "counted", "") == "n_seeds":
        return min(settings.n_epochs, SEED_EPOCHS)
    return estimator._stages(problem, settings)[2]


_ORDER = (
    "scaling",
    "sampling",
    "preparing",
    "fuzzifier",
    "landmarks",
    "mapping",
    "sample",
    "kernel matrix",
    "shuffling",
    "chunks",
    "subsets",
    "passes",
    "labelling",
    "writing",
    "answers",
)


def _in_order(plan: Plan) -> list[Layout]:
    """Return the stages in the order in which they run."""
    driver = getattr(plan, "driver", None)
    layouts = [*plan.layouts, *(driver.layouts if driver is not None else ())]
    place = {name: i for i, name in enumerate(_ORDER)}
    return sorted(layouts, key=lambda layout: place.get(layout.name, len(_ORDER)))


def _stage(
    layout: Layout, work: Work, problem: Problem, plan: Plan, engine: Engine, rates: Rates, rule: str
) -> StageForecast:
    workers = engine.workers if isinstance(engine, PlannedEngine) else 0
    n_blocks = math.ceil(problem.n_rows / layout.block_rows) if layout.block_rows else 0
    at_once = workers * layout.threads if workers else min(layout.threads, engine.threads)  # who reads has no core
    slots = max(1, min(at_once, n_blocks or 1))
    meet, parts = _assign_seconds(work, problem, rates, rule), _parts(work, layout, engine, problem)
    read_bytes = work.read_bytes * (_read_again(problem, layout) if workers else 1)
    parallel = (
        work.measured * _measure_seconds(problem, rates)
        + work.gemm / rates.gemm
        + read_bytes / rates.decode
        + (work.scratch_bytes + work.written_bytes) / rates.scratch
    )
    # Large products here are in float64 and on one thread: half as fast.
    here = 2 * work.here / rates.gemm + work.kernel_values / rates.kernel
    serial = work.in_turn or work.buffered or bool(parts)
    in_turn = work.loop / rates.loop + work.met * _ROW_SECONDS + work.steps * _STEP_SECONDS + (here if serial else 0)
    if work.buffered:
        again = min(work.measured, work.steps * engine.ahead * layout.block_rows)
        in_turn += again * _measure_seconds(problem, rates)
    cpu = parallel + meet + in_turn + (0 if serial else here)
    if parts and not workers:  # a thread measures and meets: no more of them than a subset has parts
        slots, parallel = min(slots, parts), parallel + meet
    elif serial:  # of what waits for centres, only the parts of a subset are met at once
        in_turn += meet / max(1, min(slots, parts))
    else:
        parallel += meet
    graphs, tasks, hops = _cluster_counts(work, engine, problem, n_blocks, parts)
    if workers and n_blocks:  # one that leaves rows or measurements with the workers; one that reads the nearest rows
        graphs += layout.name == "passes" and plan.keep != "nothing"
        graphs += layout.name == "labelling" and rule == "fuzzy"
    compute, moving, sending = parallel / slots, hops / rates.hops, graphs / rates.graphs
    scheduling = tasks / (rates.cluster_tasks if workers else rates.task * layout.threads)
    overlapped = max(compute, in_turn + moving, scheduling) if workers else max(compute, in_turn) + scheduling
    overlapped += in_turn if parts and not workers else 0
    driver = getattr(plan, "driver", None)
    whose = driver if driver is not None and layout in driver.layouts else plan
    return StageForecast(
        name=layout.name,
        passes=work.passes,
        memory_bytes=whose.base_bytes + whose.kept_bytes + layout.peak_bytes,
        seconds=overlapped + sending + (0 if serial else here),
        cpu_seconds=cpu + tasks / rates.task,
        read_seconds=0.0,
        compute_seconds=compute + (0 if serial else here),
        in_turn_seconds=in_turn + moving,
        scheduler_seconds=scheduling + sending,
        read_bytes=int(read_bytes),
        scratch_bytes=int(work.scratch_bytes),
        written_bytes=int(work.written_bytes),
        traffic_bytes=int(_traffic(work, problem, n_blocks, workers, parts)),
        n_blocks=n_blocks,
        block_rows=layout.block_rows,
        threads=layout.threads,
    )


def _parts(work: Work, layout: Layout, engine: Engine, problem: Problem) -> int:
    """Return how many parts a subset is dealt in; 0: subsets are met whole, or there are none."""
    if not work.dealt_rows:
        return 0
    return math.ceil(work.dealt_rows / rows_of_parts(engine, work.dealt_rows, layout.block_rows, problem.c))


def _cluster_counts(
    work: Work, engine: Engine, problem: Problem, n_blocks: int, parts: int
) -> tuple[float, float, float]:
    """Return how many graphs a stage sends, their tasks, and moves of the centres between workers."""
    if parts:  # one task measures a part, one meets it, one moves the centres, which come back from all of them
        n_parts = work.steps * parts
        if engine.local:
            return 0, n_parts + work.steps, 0
        return n_parts / max(_GRAPH_PARTS, 4 * engine.slots), 2 * n_parts + 2 * work.steps, 2 * work.steps
    met, serial = n_blocks * work.blocks_met * work.passes, work.in_turn or work.buffered or bool(work.loop)
    if engine.local:
        return 0, met * _TASKS_PER_BLOCK, 0
    if not met:
        return 0, 0, 0
    if serial:  # one task measures a block, one lets it meet the centres
        return work.passes * math.ceil(n_blocks / engine.segment(_SEGMENT_BLOCKS)), 2 * met, met
    graphs = work.passes * math.ceil(n_blocks / graph_blocks(engine, problem.source))
    return graphs, met * _CLUSTER_TASKS_PER_BLOCK, 0


def _read_again(problem: Problem, layout: Layout) -> float:
    """Return how often workers read a row in a pass: chunks between two blocks are read by both."""
    source, rows = problem.source, layout.block_rows
    if not rows or isinstance(source, DaskSource) or rows % source.unit_rows == 0 or rows >= problem.n_rows:
        return 1.0
    return 1 + source.unit_rows / rows


def _measure_seconds(problem: Problem, rates: Rates) -> float:
    """Return the time to turn a row into measurements: a product with the landmarks, the kernel, a projection."""
    recipe, m = problem.recipe, problem.n_measurements
    if isinstance(recipe, SparseKernel):
        near = (problem.n_landmarks + recipe.max_rows) / 2  # the buffer grows from the one to the other
        return near * (problem.cells / rates.gemm + 1 / rates.kernel + 1 / rates.select + m / rates.assign)
    inner = recipe.inner(problem.sizes)
    if problem.kernel is None and not inner:  # input space: a copy
        return m / (4 * rates.kernel)
    width = problem.n_landmarks if recipe.uses_landmarks else (inner or m)
    # the nearest landmarks are found by comparisons, without a kernel
    kernel = rates.fused_kernel if in_loops(problem) else rates.kernel
    seconds = problem.cells * width / rates.gemm + width / (3 * rates.kernel if recipe.code_bytes else kernel)
    return seconds + (width * m / rates.gemm if inner and not recipe.code_bytes else 0)


def _is_fused(estimator: Any, problem: Problem) -> bool:
    """Return whether rows meet the centres in the loop that measures them (`rules.fused`)."""
    crisp = not estimator.fuzzy and estimator.algorithm != "fastkscl" and problem.c < MANY and not problem.indexed
    return crisp and problem.recipe.name == "landmarks" and in_loops(problem)


def _assign_seconds(work: Work, problem: Problem, rates: Rates, rule: str) -> float:
    """Return the time in which rows meet all centres and are added to them."""
    m, c = problem.n_measurements, problem.c
    if rule == "fused":
        return work.assigned * m * c / rates.fused_assign + work.summed * m / rates.fused_sums
    meeting = m * c / rates.assign + c / rates.weigh
    adding = m * c / rates.assign if rule == "fuzzy" else m / rates.sums  # a fuzzy row is part of all centres
    return work.assigned * meeting + work.summed * adding


def _traffic(work: Work, problem: Problem, n_blocks: int, workers: int, parts: int) -> float:
    """Bound what workers send each other: the map once each, centres to each worker and sums from each block a pass."""
    if not workers or not n_blocks or not work.passes:
        return 0
    m, c, d = problem.n_measurements, problem.c, problem.cells
    k = problem.n_landmarks if problem.recipe.uses_landmarks else m
    map_ = k * d * problem.dtype.itemsize + 8 * k * k if work.measured else 0
    centres = 3 * 8 * c * (m + 1) if work.assigned or work.loop else 0
    sums = _EXACT_NUMBER * c * (m + 2) if work.assigned or work.loop else 0
    if parts:
        return workers * map_ + work.steps * parts * (centres + sums)
    if work.buffered:  # so does a buffer
        return work.passes * n_blocks * (k * d * problem.dtype.itemsize + 8 * k * c)
    if work.in_turn or work.loop:  # the centres go from block to block
        return workers * map_ + work.passes * n_blocks * centres
    return workers * map_ + work.passes * (workers * centres + n_blocks * sums)


def _with_reading(stage: StageForecast, bandwidth: float | None) -> StageForecast:
    if not bandwidth:
        return stage
    reading = (stage.read_bytes + stage.written_bytes) / bandwidth
    return replace(stage, read_seconds=reading, seconds=stage.seconds + reading)


def _notes(
    estimator: Any, problem: Problem, stages: tuple[StageForecast, ...], workers: int | None, passes: float | None
) -> tuple[str, ...]:
    notes = []
    if passes is None and any(stage.name == "passes" or estimator.counted == "n_seeds" for stage in stages):
        notes.append("The number of passes is a guess; say passes= if you know better.")
    if problem.n_clusters is None:
        notes.append(f"n_clusters='auto' is planned for {problem.c}, the most that may be found; say n_clusters=.")
    if workers:
        slowest = max(stages, key=lambda stage: stage.seconds)
        if slowest.in_turn_seconds > 2 * slowest.compute_seconds:
            notes.append(
                f"'{slowest.name}' goes from block to block: more workers do not shorten it. "
                + ("A larger subset_size does; " if getattr(estimator, "subset_size", 1) != 1 else "")
                + "okfcm and akkmeans are parallel throughout."
            )
        elif slowest.scheduler_seconds > 2 * slowest.compute_seconds:
            notes.append(f"In '{slowest.name}' the scheduler is the bottleneck: larger chunks, or fewer workers.")
        elif slowest.read_seconds > 2 * slowest.compute_seconds:
            notes.append(f"In '{slowest.name}' the store is the bottleneck: more workers do not shorten it.")
    return tuple(notes)
