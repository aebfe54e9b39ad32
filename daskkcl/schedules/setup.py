"""What every run does first: plan, sample, width, landmarks, map. Nothing here depends on the algorithm.

One uniform sample of rows, the beginning of the run's random order, serves for everything that needs one: the
kernel's width, the landmarks, the number of clusters, the seeds.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.scaled import ScaledSource, stored_rows
from ..blocks.scratch import Scratch
from ..blocks.shuffle import Shuffled
from ..blocks.sources import Source
from ..errors import CheckpointError, InvalidInputError, MemoryLimitError
from ..kernels.distance import CompiledRbfColumns
from ..kernels.rows import as_dense
from ..maps.base import Map
from ..maps.nearest import NearestLandmarks
from ..maps.spectral import CodeMap
from ..planning import Layout, Plan, Stage, make_plan, more_memory
from ..rules.counting import MAX_ROWS
from ..rules.fused import warm_up as load_fused
from ..rules.many import warm_up
from ..system import available_bytes, format_bytes, free_pages, resident_bytes, return_large_arrays, settled_bytes
from .checkpoint import Checkpoint
from .cluster import Cluster, Worker
from .data import load_rows
from .engine import Engine
from .landmarks import landmarks_stage, streams
from .mapping import make_map
from .measuring import Reader
from .problem import SAMPLE_ROWS, Problem
from .sampling import draw_rows, draw_scaled, repeated, weights_of
from .scaling import needs_pass, scaling_stage
from .shuffling import can_shuffle_first, rows_of_shuffle, shuffle_epoch

__all__ = ["Setup", "all_stages", "base_stages", "default_limit", "plan_run", "plan_stages", "prepare"]

_BLOCK_SHARE = 4  # blocks on a cluster are so many times larger, if there is room: tasks cost more there
_MANY_BLOCKS, _MOST_SHARE = 20_000, 32  # of a pass: more keep one scheduler busy, so blocks grow, up to so many times
_BLOCKS_EACH = 4  # for every thread of a cluster, if it has so many of them that this is more


@dataclass(frozen=True, eq=False)
class Setup:
    """A run ready to go: what will be read and the map of it, the plan, the sample.

    For most maps `source` and `map_` are the rows and the map of rows, `row_map`. A map that is made in two steps has
    its codes read instead, which are small, and `map_` is the second step.
    """

    problem: Problem
    source: Source
    engine: Engine
    plan: Plan
    sample: NDArray[Any]
    sample_row_numbers: NDArray[np.int64]
    map_: Map
    row_map: Map
    n_clusters: int
    scratch: Scratch
    evidence: dict[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint = field(default_factory=lambda: Checkpoint(None))
    first_epoch: list[Shuffled] = field(default_factory=list)  # its rows, if the sample was taken from them

    @cached_property
    def reader(self) -> Reader:
        """How rows become measurements in this run."""
        return Reader(self.map_, self.problem.tile_rows, self.problem.nan)

    @property
    def rows(self) -> Source:
        """Rows as users have them, from memory if they are kept there."""
        return self.source if self.map_ is self.row_map else self.problem.source

    @property
    def stored(self) -> Source:
        """Rows as they are stored, not scaled."""
        return stored_rows(self.problem.source) if isinstance(self.problem.source, ScaledSource) else self.rows

    @cached_property
    def row_reader(self) -> Reader:
        """How rows as users have them become measurements."""
        return Reader(self.row_map, self.problem.tile_rows, self.problem.nan)

    @property
    def sample_weights(self) -> NDArray[np.float64]:
        """Weights of the rows of the sample."""
        return weights_of(self.problem, self.sample_row_numbers)

    def layout(self, name: str) -> Layout:
        """Return the layout of a stage."""
        return self.plan.layout(name)

    def measure_sample(self, rows: int | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the measurements of (the first rows of) the sample."""
        return self.row_map.measure(self.sample[:rows])


def default_limit() -> int:
    """Return the memory to stay within when none is given: what we have, and six tenths of what is free."""
    return resident_bytes() + int(0.6 * available_bytes())


def base_stages(problem: Problem) -> list[Stage]:
    """Return the stages that every run has: sampling, what is made of the sample, and labelling."""
    preparing = Stage("preparing", row_bytes=0, fixed_bytes=problem.map_bytes + problem.preparing_bytes)
    stages = [problem.stage("sampling", task_bytes=0), preparing, problem.stage("labelling")]
    if problem.read is not None:  # sample, map and measurements are there
        return stages
    if needs_pass(problem.source):
        stages.insert(0, scaling_stage(problem))
    if streams(problem):
        stages.append(landmarks_stage(problem))
    return [*stages, problem.mapping_stage()] if problem.recipe.n_streams else stages


def all_stages(problem: Problem, own: list[Stage]) -> list[Stage]:
    """Return the stages of an algorithm behind those that every run has; of one name, the algorithm's own counts."""
    names = {stage.name for stage in own}
    return [*(stage for stage in base_stages(problem) if stage.name not in names), *own]


def plan_run(
    problem: Problem,
    engine: Engine,
    stages: list[Stage],
    keep: dict[str, int] | None = None,
    n_passes: int = 1,
    scratch_bytes: int = 0,
) -> Plan:
    """Plan a run, or refuse before anything is read."""
    import dask.array  # noqa: F401
    import scipy.linalg
    import scipy.sparse  # noqa: F401  (what a run will import is part of what the process takes)
    import zarr  # noqa: F401

    _warm_up(problem)
    spill_bytes, scratch_bytes = spill_bytes_of(problem, engine, n_passes), scratch_bytes + problem.n_rows * 4
    return plan_stages(engine, stages, problem.n_rows, problem.memory_limit, keep, spill_bytes, scratch_bytes)


def _base_bytes(memory_limit: int | None) -> int:
    """Return what this process takes before a run; where memory is limited, without what it could give back."""
    return resident_bytes() if memory_limit is None else settled_bytes()


def plan_stages(
    engine: Engine,
    stages: list[Stage],
    n_rows: int,
    memory_limit: int | None,
    keep: dict[str, int] | None = None,
    spill_bytes: int = 0,
    scratch_bytes: int = 0,
    fewest_threads: int = 1,
) -> Plan:
    """Plan any work on rows, here or on workers, or refuse before anything is read."""
    if engine.cluster is not None:
        return _plan_on_workers(engine.cluster, stages, n_rows, memory_limit, keep, spill_bytes, scratch_bytes)
    limit, base = memory_limit or default_limit(), _base_bytes(memory_limit)
    _check_base(limit, base, "the process")
    plan = make_plan(
        [replace(stage, readers=min(stage.readers, engine.readers)) for stage in stages],
        n_rows,
        limit,
        base,
        engine.threads,
        keep=keep,
        spill_bytes=spill_bytes,
        scratch_bytes=scratch_bytes,
        fewest_threads=fewest_threads,
    )
    return plan if memory_limit is None else plan.with_spare()


def _plan_on_workers(
    cluster: Cluster,
    stages: list[Stage],
    n_rows: int,
    memory_limit: int | None,
    keep: dict[str, int] | None,
    spill_bytes: int,
    scratch_bytes: int,
) -> Plan:
    """Plan a run on a cluster: `memory_limit` is what each worker may take.

    Samples, maps and the kernel matrices of exact algorithms are made in this process. What else it holds is its own
    business: the run may add `memory_limit` to it, and no more than six tenths of what is free.
    """
    workers = cluster.survey()
    neighbours = Counter(worker.host for worker in workers)
    least = min(workers, key=lambda worker: _room(worker, neighbours[worker.host]))
    room = _room(least, neighbours[least.host])
    limit = min(memory_limit or room, room)
    base = max(worker.base_bytes for worker in workers)
    threads = max(worker.threads for worker in workers)
    here = [stage for stage in stages if stage.row_bytes == 0]
    rows = n_rows // max(_MANY_BLOCKS, _BLOCKS_EACH * sum(worker.threads for worker in workers))
    there = [_with_larger_blocks(stage, rows) for stage in stages if stage.row_bytes]
    host = "" if memory_limit is not None and memory_limit <= room else least.host
    _check_base(limit, base, "a worker", host)
    plan = make_plan(
        there,
        n_rows,
        limit,
        base,
        threads,
        keep=keep,
        spill_bytes=spill_bytes,
        scratch_bytes=scratch_bytes,
        fewest_threads=threads,
        shares=max(1, len(workers) // 2),  # half of them may go, or get more than their share
        limit_host=host,
    )
    if not here:
        return plan
    base = _base_bytes(memory_limit)
    limit = base + min(memory_limit or 2**62, int(0.6 * available_bytes()))
    return replace(plan, driver=make_plan(here, n_rows, limit, base, 1))


def _with_larger_blocks(stage: Stage, rows: int) -> Stage:
    """Return a stage for a cluster: larger blocks than here, of so many rows if that is still more."""
    least, most = _BLOCK_SHARE * stage.block_bytes, _MOST_SHARE * stage.block_bytes
    return replace(stage, block_bytes=max(least, min(most, rows * stage.row_bytes)))


def _room(worker: Worker, neighbours: int) -> int:
    """Return what a worker has room for: so little that dask neither spills nor pauses, or its part of what is free."""
    return worker.limit_bytes or worker.base_bytes + int(0.6 * worker.free_bytes) // neighbours


def _check_base(limit: int, base: int, whose: str, host: str = "") -> None:
    if base < limit:
        return
    if host:
        allowed, remedy = f"The worker on {host} has room for", more_memory(1.5 * base)
    else:
        enough = format_bytes(1.5 * base).replace(" ", "")
        allowed, remedy = "memory_limit is", f"Pass memory_limit={enough!r} or more (large chunks take more still)"
        remedy += ", and start workers with half as much again" if whose == "a worker" else ""
    raise MemoryLimitError(
        f"{allowed} {format_bytes(limit)}, and {whose} already takes {format_bytes(base)} before any data are read. "
        f"{remedy}.",
        needed_bytes=base,
        allowed_bytes=limit,
    )


def _warm_up(problem: Problem) -> None:
    """Load (or compile) the loops that a run will need: numba alone takes a hundred mebibytes."""
    d, dtype = problem.source.n_features, problem.dtype
    if problem.kernel is not None:
        kernel = problem.kernel if problem.kernel.resolved else problem.kernel.with_gamma(1.0)
        with contextlib.suppress(Exception):  # functions of users, and kernels that refuse such a row: later
            columns = kernel.columns(np.zeros((1, d)), dtype)
            columns = columns.compiled() if problem.recipe.compiled(problem.sizes) else columns
            columns.block(np.zeros((1, d)))
            if isinstance(columns, CompiledRbfColumns):
                load_fused()
    if problem.many or problem.indexed:
        warm_up(dtype, problem.indexed)
    if problem.recipe.code_bytes or problem.landmarks_by("kmeans"):
        codes = NearestLandmarks(np.zeros((1, 1)), np.zeros(1), 1, 1, dtype).encode(np.zeros((1, 1), dtype))
        CodeMap(np.ones((1, 1)), 1, dtype).measure(codes)


def spill_bytes_of(problem: Problem, engine: Engine, n_passes: int) -> int:
    """Return the scratch that spilled measurements take, or 0 when computing them again is cheaper.

    A measurement of 4 bytes comes back from disk at about 1 ns a byte; computing it takes d multiplications at
    about 30 a nanosecond and core, and reading d features. Writing pays only over several passes.
    """
    d, itemsize = problem.cells, problem.dtype.itemsize
    inner = problem.recipe.inner(problem.sizes) or problem.n_measurements
    cheap = problem.recipe.code_bytes or problem.kernel is None or problem.read is not None
    if cheap or n_passes < 4 or not (engine.local or problem.scratch):
        return 0
    compute_ns = (d / 15 + 1 + problem.row_bytes / inner) * inner / problem.n_measurements
    read_ns = itemsize
    worth = compute_ns > 2 * read_ns * (1 + 2 / n_passes)
    return problem.n_rows * (problem.measured_bytes + 1) if worth else 0


def prepare(
    problem: Problem,
    engine: Engine,
    plan: Plan,
    find_n_clusters: Any = None,
    checkpoint: Checkpoint | None = None,
    identify: Callable[[Any], None] | None = None,
    drawn: Setup | None = None,
    shuffles: bool = False,
    late: bool = False,
) -> Setup:
    """Draw the sample and make the map of a planned run.

    `identify` tells the checkpoint what the run is, which takes the sample; `drawn` is another run on the same rows
    whose sample, and scale of the columns, serve again; `shuffles` says that the run meets all rows in random order,
    `late` that it begins with `place_centres`, which makes what centres take of a map beside other work.
    """
    free_pages.keep_below(math.inf)
    if problem.memory_limit is not None and engine.local:
        rows = problem.source
        free_pages.keep_below(plan.ceiling_bytes)
        return_large_arrays(plan.limit_bytes - plan.peak_bytes, rows.unit_rows * rows.row_bytes, plan.spare_bytes)
    saved = checkpoint or Checkpoint(None)
    run = None if saved.path is None else saved.run
    place = saved.path if saved.path is None or "://" in saved.path else os.path.abspath(saved.path)
    scratch = Scratch(problem.scratch, plan.scratch_bytes, run, place)
    try:
        if engine.cluster is not None and problem.scratch is not None:
            engine.cluster.check_shared(scratch.path)
        return _prepare(problem, engine, plan, find_n_clusters, scratch, saved, identify, drawn, shuffles, late)
    except BaseException as error:
        scratch.close(refused=isinstance(error, CheckpointError))
        raise


def _prepare(
    problem: Problem,
    engine: Engine,
    plan: Plan,
    find_n_clusters: Any,
    scratch: Scratch,
    checkpoint: Checkpoint,
    identify: Callable[[Any], None] | None,
    drawn: Setup | None,
    shuffles: bool,
    late: bool,
) -> Setup:
    first_epoch: list[Shuffled] = []
    source, keeps = problem.source, plan.keep == "rows" and engine.local
    if drawn is not None:
        problem, sample, numbers = replace(problem, source=drawn.problem.source), drawn.sample, drawn.sample_row_numbers
        source = problem.source
    elif needs_pass(source):
        problem, source, sample, numbers = draw_scaled(problem, engine, plan, keeps)
    else:
        if keeps:
            source = load_rows(engine, source, plan.layout("sampling"))
        take = None
        if shuffles and can_shuffle_first(problem, source, engine, checkpoint.path is not None):
            key = problem.key.child("order", 0)
            first_epoch = [shuffle_epoch(problem, source, engine, plan, scratch, key)]
            take = partial(rows_of_shuffle, first_epoch[0])
        sample, numbers = draw_rows(problem, source, engine, plan.layout("sampling"), problem.sample_rows, take)
    if problem.scaler is not None and not isinstance(problem.landmarks, str):
        problem = replace(problem, landmarks=problem.scaler.apply(problem.landmarks))
    if identify is not None:
        identify(sample)
        checkpoint.open()
    n_clusters, evidence = problem.n_clusters, {}
    if n_clusters is None:
        n_clusters, evidence = find_n_clusters(as_dense(sample[:MAX_ROWS]))
    check_enough(problem, n_clusters, sample)
    typical = typical_rows(problem, sample, numbers)
    map_, row_map, source = make_map(
        problem, engine, plan, source, sample, typical, n_clusters, scratch, checkpoint, late
    )
    made = (map_, row_map, n_clusters, scratch, evidence, checkpoint)
    return Setup(problem, source, engine, plan, sample, numbers, *made, first_epoch)


def typical_rows(problem: Problem, sample: Any, numbers: NDArray[np.int64]) -> Any:
    """Return rows of the sample that give the width of the kernel, as often as their weights say."""
    typical = sample[:SAMPLE_ROWS]
    if problem.weights is None:
        return typical
    return repeated(typical, weights_of(problem, numbers[:SAMPLE_ROWS]), SAMPLE_ROWS)


def check_enough(problem: Problem, n_clusters: int, sample: Any) -> None:
    """Refuse more clusters than there are rows."""
    if n_clusters > len(sample):
        raise InvalidInputError(
            f"n_clusters={n_clusters} is more than the {len(sample)} row{'s' * (len(sample) != 1)} that can be used "
            f"(n_samples={problem.n_rows}). Pass a smaller n_clusters."
        )
