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
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.scaled import ScaledSource, stored_rows
from ..blocks.scratch import Scratch
from ..blocks.sources import ArraySource, Source
from ..errors import InvalidInputError, MemoryLimitError
from ..kernels import Kernel
from ..kernels.base import TILE_ROWS
from ..kernels.rows import as_dense
from ..kernels.widths import PAIR_ROWS
from ..maps.base import Map
from ..maps.nearest import NearestLandmarks
from ..maps.recipes import Recipe, Sizes
from ..maps.spectral import CodeMap
from ..planning import Layout, Plan, Stage, make_plan, tile_rows
from ..random import Key
from ..rules.counting import MAX_CLUSTERS, counting_bytes
from ..rules.many import MANY, warm_up
from ..rules.scaling import Scaler
from ..system import available_bytes, format_bytes, resident_bytes, return_large_arrays
from .checkpoint import Checkpoint
from .cluster import Cluster, Worker
from .data import load_rows
from .engine import Engine
from .landmarks import centre_bytes, k_means_bytes, landmarks_stage, streams
from .mapping import make_map
from .sampling import draw_rows, draw_scaled, repeated, weights_of
from .scaling import needs_pass, scaling_stage
from .tasks import Reader

__all__ = ["Problem", "Setup", "base_stages", "default_limit", "plan_run", "prepare"]

_SAMPLE_ROWS = 2000
_SAMPLE_BYTES = 64 * 2**20
_ROW_EXTRAS = 40  # labels, masks and their temporaries, for each row of a block
_BLOCK_SHARE = 4  # blocks on a cluster are so many times larger, if there is room: tasks cost more there


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be clustered and how precisely: parameters after validation, before any data are read."""

    source: Source
    n_clusters: int | None  # None: from the sample
    recipe: Recipe
    kernel: Kernel | None  # None: plain distances, or none at all
    landmarks: str | NDArray[Any]
    n_landmarks: int
    dtype: np.dtype[Any]
    nan: str
    key: Key
    memory_limit: int | None
    scratch: str | None
    keep_codes: bool = True  # of a map in two steps, for later passes
    weights: NDArray[np.float64] | None = None  # of all rows; None: all 1
    weight_unit: float = 1.0  # what they were divided by
    indexed: bool = False  # rows meet only the centres that an index finds near them
    durable: bool = False  # whether the run has a checkpoint, and is to find again what it left in scratch

    @property
    def n_rows(self) -> int:
        """Rows of the data."""
        return self.source.n_rows

    @property
    def scaler(self) -> Scaler | None:
        """How rows are scaled when they are read; None: not at all, or not yet known."""
        return self.source.scaler if isinstance(self.source, ScaledSource) else None

    @property
    def c(self) -> int:
        """The number of clusters, or the most that may be found, for planning."""
        return self.n_clusters or min(MAX_CLUSTERS, self.n_rows)

    @property
    def n_measurements(self) -> int:
        """Columns of the measurements."""
        return self.recipe.width(self.sizes)

    @property
    def sizes(self) -> Sizes:
        """The numbers that the map's costs depend on."""
        return Sizes(self.n_rows, self.source.n_features, self.n_landmarks, self.c, self.dtype.itemsize, self.cells)

    @property
    def cells(self) -> int:
        """Numbers that a row takes while it is measured: its features, or fewer if it is sparse and may stay so."""
        if not self.source.sparse:
            return self.source.n_features
        return self.recipe.sparse_width(self.kernel, self.source.n_features, self.source.row_entries)

    @property
    def tile_rows(self) -> int:
        """Rows of a tile."""
        widest = max(self.n_measurements, self.recipe.inner(self.sizes))
        return tile_rows(self.cells, widest, self.dtype.itemsize)

    @property
    def sample_rows(self) -> int:
        """Rows of the sample: depends on the problem's shape only."""
        affordable = _SAMPLE_BYTES // (8 * self.cells)
        rows = max(min(_SAMPLE_ROWS, affordable), min(20 * self.c, max(20 * MANY, 5 * self.c)))
        if self.recipe.uses_landmarks and isinstance(self.landmarks, str):
            rows = max(rows, self.n_landmarks)
        if self.landmarks_by("kmeans") or self.landmarks_by("leverage"):
            rows = max(rows, 10 * self.n_landmarks)
        return min(rows, self.n_rows)

    # --- costs -----------------------------------------------------------------------------------------------

    @property
    def row_bytes(self) -> int:
        """A row as it is stored, or its code if that is more: passes read one or the other."""
        return max(self.source.row_bytes, self.recipe.code_bytes)

    @property
    def measured_bytes(self) -> int:
        """The measurements of a row."""
        return (self.n_measurements + 1) * self.dtype.itemsize

    @property
    def tile_bytes(self) -> int:
        """Everything a task holds for a tile: measurements, kernel temporaries, distances and weights."""
        rows, itemsize = self.tile_rows, self.dtype.itemsize
        inner = self.recipe.inner(self.sizes)
        scratch = rows * inner * itemsize
        if self.kernel is not None:
            scratch += self.kernel.scratch_bytes(rows, self.cells, max(inner, self.n_measurements), itemsize)
        if self.source.sparse:  # a tile made dense, a product before it is in its place
            scratch += min(rows, TILE_ROWS) * (2 * itemsize + 8) * max(inner, self.n_measurements)
            scratch += rows * self.cells * (itemsize + 8)
        met = rows * self.c * (3 * itemsize + 8)
        if self.indexed:  # a few candidates a row; small coordinates; numbers of centres in the order of clusters
            met = rows * 1024 + 64 * self.c
        return rows * (self.measured_bytes + 32) + met + scratch

    @property
    def sums_bytes(self) -> int:
        """Sums of measurements with their errors, temporaries of adding to them, and those of blocks that wait."""
        if self.many:  # added to in place, and in pieces
            return 2 * 16 * self.c * (self.n_measurements + 8)
        return 14 * 8 * self.c * (self.n_measurements + 2)

    @property
    def many(self) -> bool:
        """Whether there are so many clusters that most have no row in a tile."""
        return self.c >= MANY

    @property
    def centres_bytes(self) -> int:
        """Centres before and after a step, each as means, coefficients and in block precision, and their difference."""
        return 8 * 8 * self.c * (self.n_measurements + 2)

    @property
    def map_bytes(self) -> int:
        """Landmarks, their kernel matrix, its eigenvectors with workspace, the inverse, the sample."""
        sample = self.sample_rows * (self.source.mean_bytes + 8)
        weights = 0 if self.weights is None else 2 * self.weights.nbytes  # with a copy in a worker's message
        means = 3 * centre_bytes(self) if self.source.sparse and self.landmarks_by("kmeans") else 0
        totals = 3 * 16 * self.c * (self.n_measurements + 8) if self.many else 0  # of blocks that wait, and their sum
        return self.recipe.fixed_bytes(self.sizes) + sample + means + weights + self.centres_bytes + totals

    @property
    def preparing_bytes(self) -> int:
        """The most that is held beside the map before any block is met: one after another, each from the sample."""
        s, m, d = self.sample_rows, self.n_landmarks, self.cells
        width_rows, pair_rows = min(s, _SAMPLE_ROWS), min(s, PAIR_ROWS)
        steps = {
            "gathered in pieces": s * (self.source.mean_bytes + 16),
            "counting clusters": counting_bytes(s, self.source.n_features) if self.n_clusters is None else 0,
            "first centres": s * (3 * self.measured_bytes + self._met_at_once * (4 * self.dtype.itemsize + 8)),
        }
        if self.kernel is not None:
            steps["width"] = 8 * (2 * width_rows * d + 3 * pair_rows**2) if not self.kernel.resolved else 0
        if self.recipe.uses_landmarks:
            steps["kmeans"] = k_means_bytes(self, s) if self.landmarks_by("kmeans") else 0
            steps["leverage"] = 8 * (s * d + 3 * s * m + 4 * m * d) if self.landmarks_by("leverage") else 0
            steps["kernel matrix"] = 8 * 4 * m * d + width_rows * (self.row_bytes + d)
        return max(steps.values())

    @property
    def _met_at_once(self) -> int:
        """Centres that all rows of the sample meet at once; of many clusters groups do, and all a slice of rows."""
        return self.c if not self.many else math.isqrt(self.c) + 1024 * self.c // self.sample_rows

    @property
    def rows_bytes(self) -> int:
        """All rows, if they are to be kept in memory and are not there; sparse ones with the blocks they come in."""
        if isinstance(self.source, ArraySource):
            return 0
        return self.n_rows * (2 * self.source.mean_bytes if self.source.sparse else self.row_bytes)

    def landmarks_by(self, name: str) -> bool:
        """Return whether landmarks are chosen in a certain way."""
        return self.recipe.uses_landmarks and isinstance(self.landmarks, str) and self.landmarks == name

    def stage(self, name: str, **changes: Any) -> Stage:
        """Return a stage that streams over stored rows."""
        in_memory = isinstance(self.source, ArraySource)
        # Rows are held as they were read and as they were cut; rows in memory already are only looked at.
        stage = Stage(
            name,
            row_bytes=_ROW_EXTRAS if in_memory else 2 * self.row_bytes + _ROW_EXTRAS,
            task_bytes=self.tile_bytes + self.sums_bytes,
            fixed_bytes=self.map_bytes,
            quantum=self.tile_rows,
            unit_rows=min(self.source.unit_rows, self.n_rows),
            unit_bytes=self.source.unit_bytes,
        )
        if self.many:  # a block's sums cost as much as some thousands of rows: blocks of more rows
            stage = replace(stage, block_bytes=max(stage.block_bytes, 4 * self.c * stage.row_bytes))
        return replace(stage, **changes)

    def mapping_stage(self) -> Stage:
        """Return the stage that streams over all rows to make the map."""
        width = max(self.n_measurements, self.recipe.inner(self.sizes))
        pairs = min(self.n_landmarks**2, self.n_rows * (self.recipe.code_bytes // 8) ** 2)
        sums = 12 * 3 * pairs if self.recipe.code_bytes else 6 * 8 * width * width
        code = 3 * self.recipe.code_bytes
        stage = self.stage("mapping", task_bytes=self.tile_bytes + sums)
        return replace(stage, row_bytes=stage.row_bytes + code)


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
    if needs_pass(problem.source):
        stages.insert(0, scaling_stage(problem))
    if streams(problem):
        stages.append(landmarks_stage(problem))
    return [*stages, problem.mapping_stage()] if problem.recipe.n_streams else stages


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
    spill_bytes, scratch_bytes = _spill_bytes(problem, engine, n_passes), scratch_bytes + problem.n_rows * 4
    if engine.cluster is None:
        limit, base = problem.memory_limit or default_limit(), resident_bytes()
        _check_base(limit, base, "the process")
        kept: dict[str, Any] = {"keep": keep, "spill_bytes": spill_bytes, "scratch_bytes": scratch_bytes}
        return make_plan(stages, problem.n_rows, limit, base, engine.threads, **kept)
    return _plan_on_workers(problem, engine.cluster, stages, keep, spill_bytes, scratch_bytes)


def _plan_on_workers(
    problem: Problem,
    cluster: Cluster,
    stages: list[Stage],
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
    limit = min(_worker_limit(problem, worker, neighbours[worker.host]) for worker in workers)
    base = max(worker.base_bytes for worker in workers)
    threads = max(worker.threads for worker in workers)
    _check_base(limit, base, "a worker")
    here = [stage for stage in stages if stage.row_bytes == 0]
    there = [replace(stage, block_bytes=_BLOCK_SHARE * stage.block_bytes) for stage in stages if stage.row_bytes]
    plan = make_plan(
        there,
        problem.n_rows,
        limit,
        base,
        threads,
        keep,
        spill_bytes,
        scratch_bytes,
        fewest_threads=threads,
        shares=max(1, len(workers) // 2),  # half of them may go, or get more than their share
    )
    base = resident_bytes()
    limit = base + min(problem.memory_limit or 2**62, int(0.6 * available_bytes()))
    return replace(plan, driver=make_plan(here, problem.n_rows, limit, base, 1))


def _worker_limit(problem: Problem, worker: Worker, neighbours: int) -> int:
    """Return what a worker may take: what we are allowed, and so little that dask neither spills nor pauses."""
    theirs = worker.limit_bytes or worker.base_bytes + int(0.6 * worker.free_bytes) // neighbours
    return min(problem.memory_limit or theirs, theirs)


def _check_base(limit: int, base: int, whose: str) -> None:
    if base >= limit:
        raise MemoryLimitError(
            f"memory_limit is {format_bytes(limit)}, and {whose} already takes {format_bytes(base)} before any "
            f"data are read. Pass memory_limit={format_bytes(base * 1.5).replace(' ', '')!r} or more"
            + (", and start workers with half as much again." if whose == "a worker" else "."),
            needed_bytes=base,
            allowed_bytes=limit,
        )


def _warm_up(problem: Problem) -> None:
    """Load (or compile) the loops that a run will need: numba alone takes a hundred mebibytes."""
    d, dtype = problem.source.n_features, problem.dtype
    if problem.kernel is not None:
        kernel = problem.kernel if problem.kernel.resolved else problem.kernel.with_gamma(1.0)
        with contextlib.suppress(Exception):  # functions of users, and kernels that refuse such a row: later
            kernel.columns(np.zeros((1, d)), dtype).block(np.zeros((1, d)))
    if problem.many or problem.indexed:
        warm_up(dtype, problem.indexed)
    if problem.recipe.code_bytes or problem.landmarks_by("kmeans"):
        codes = NearestLandmarks(np.zeros((1, 1)), np.zeros(1), 1, 1, dtype).encode(np.zeros((1, 1), dtype))
        CodeMap(np.ones((1, 1)), 1, dtype).measure(codes)


def _spill_bytes(problem: Problem, engine: Engine, n_passes: int) -> int:
    """Return the scratch that spilled measurements take, or 0 when computing them again is cheaper.

    A measurement of 4 bytes comes back from disk at about 1 ns a byte; computing it takes d multiplications at
    about 30 a nanosecond and core, and reading d features. Writing pays only over several passes.
    """
    d, itemsize = problem.cells, problem.dtype.itemsize
    inner = problem.recipe.inner(problem.sizes) or problem.n_measurements
    cheap = problem.recipe.code_bytes or problem.kernel is None
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
) -> Setup:
    """Draw the sample and make the map of a planned run.

    `identify` tells the checkpoint what the run is, which takes the sample.
    """
    if problem.memory_limit is not None and engine.local:
        return_large_arrays()
    saved = checkpoint or Checkpoint(None)
    run = None if saved.path is None else saved.run
    place = saved.path if saved.path is None or "://" in saved.path else os.path.abspath(saved.path)
    scratch = Scratch(problem.scratch, plan.scratch_bytes, run, place)
    try:
        if engine.cluster is not None and problem.scratch is not None:
            engine.cluster.check_shared(scratch.path)
        return _prepare(problem, engine, plan, find_n_clusters, scratch, saved, identify)
    except BaseException:
        scratch.close()
        raise


def _prepare(
    problem: Problem,
    engine: Engine,
    plan: Plan,
    find_n_clusters: Any,
    scratch: Scratch,
    checkpoint: Checkpoint,
    identify: Callable[[Any], None] | None,
) -> Setup:
    source, keeps = problem.source, plan.keep == "rows" and engine.local
    if needs_pass(source):
        problem, source, sample, numbers = draw_scaled(problem, engine, plan, keeps)
    else:
        if keeps:
            source = load_rows(engine, source, plan.layout("sampling"))
        sample, numbers = draw_rows(problem, source, engine, plan.layout("sampling"), problem.sample_rows)
    if problem.scaler is not None and not isinstance(problem.landmarks, str):
        problem = replace(problem, landmarks=problem.scaler.apply(problem.landmarks))
    if identify is not None:
        identify(sample)
        checkpoint.open()
    n_clusters, evidence = problem.n_clusters, {}
    if n_clusters is None:
        n_clusters, evidence = find_n_clusters(as_dense(sample))
    if n_clusters > len(sample):
        raise InvalidInputError(
            f"n_clusters={n_clusters} is more than the {len(sample)} rows that can be used "
            f"(n_samples={problem.n_rows}). Pass a smaller n_clusters."
        )
    typical = sample[:_SAMPLE_ROWS]
    if problem.weights is not None:
        typical = repeated(typical, weights_of(problem, numbers[:_SAMPLE_ROWS]), _SAMPLE_ROWS)
    map_, row_map, source = make_map(problem, engine, plan, source, sample, typical, n_clusters, scratch, checkpoint)
    made = (map_, row_map, n_clusters, scratch, evidence, checkpoint)
    return Setup(problem, source, engine, plan, sample, numbers, *made)
