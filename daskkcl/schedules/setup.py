"""What every run does first: plan, sample, width, landmarks, map. Nothing here depends on the algorithm.

One uniform sample of rows, the beginning of the run's random order, serves for everything that needs one: the
kernel's width, the landmarks, the number of clusters, the seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.scratch import Scratch
from ..blocks.sources import ArraySource, Source
from ..errors import InvalidInputError, MemoryLimitError
from ..kernels import Kernel, check_degenerate
from ..kernels.widths import PAIR_ROWS
from ..maps.base import Map
from ..maps.landmarks import IdentityMap, LandmarkMap, choose_landmarks
from ..plan import Layout, Plan, Stage, make_plan, tile_rows
from ..random import Key
from ..rules.counting import MAX_CLUSTERS, counting_bytes
from ..system import available_bytes, format_bytes, resident_bytes, return_large_arrays
from .data import explain_bad_row, gather, load_rows, usable
from .engine import Engine
from .tasks import BadRowError, Reader, bad_rows

__all__ = ["Problem", "Setup", "base_stages", "default_limit", "plan_run", "prepare"]

_SAMPLE_ROWS = 2000
_SAMPLE_BYTES = 64 * 2**20
_SCREENED_ROWS = 2**19  # looked at together when usable rows are rare
_ROW_EXTRAS = 40  # labels, masks and their temporaries, for each row of a block
_WORKER_BYTES = 220 * 2**20  # a dask worker with everything imported


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be clustered and how precisely: parameters after validation, before any data are read."""

    source: Source
    n_clusters: int | None  # None: from the sample
    kernel: Kernel
    landmarks: str | NDArray[Any]
    n_landmarks: int
    map_name: str  # "landmarks" or "identity"
    dtype: np.dtype[Any]
    nan: str
    key: Key
    memory_limit: int | None
    scratch: str | None

    @property
    def n_rows(self) -> int:
        """Rows of the data."""
        return self.source.n_rows

    @property
    def c(self) -> int:
        """The number of clusters, or the most that may be found, for planning."""
        return self.n_clusters or min(MAX_CLUSTERS, self.n_rows)

    @property
    def n_measurements(self) -> int:
        """Columns of the measurements."""
        return self.n_landmarks if self.map_name == "landmarks" else self.source.n_features

    @property
    def tile_rows(self) -> int:
        """Rows of a tile."""
        return tile_rows(self.source.n_features, self.n_measurements, self.dtype.itemsize)

    @property
    def sample_rows(self) -> int:
        """Rows of the sample: depends on the problem's shape only."""
        affordable = _SAMPLE_BYTES // (8 * self.source.n_features)
        rows = max(min(_SAMPLE_ROWS, affordable), self.n_landmarks, 20 * self.c)
        if isinstance(self.landmarks, str) and self.landmarks != "uniform":
            rows = max(rows, 10 * self.n_landmarks)
        return min(rows, self.n_rows)

    # --- costs -----------------------------------------------------------------------------------------------

    @property
    def row_bytes(self) -> int:
        """A row as it is stored."""
        return self.source.n_features * self.source.dtype.itemsize

    @property
    def measured_bytes(self) -> int:
        """The measurements of a row."""
        return (self.n_measurements + 1) * self.dtype.itemsize

    @property
    def tile_bytes(self) -> int:
        """Everything a task holds for a tile: measurements, kernel temporaries, distances and weights."""
        rows, itemsize = self.tile_rows, self.dtype.itemsize
        scratch = self.kernel.scratch_bytes(rows, self.source.n_features, self.n_measurements, itemsize)
        return rows * (self.measured_bytes + self.c * (3 * itemsize + 8) + 32) + scratch

    @property
    def sums_bytes(self) -> int:
        """Sums of measurements with their errors, temporaries of adding to them, and those of blocks that wait."""
        return 14 * 8 * self.c * (self.n_measurements + 2)

    @property
    def centres_bytes(self) -> int:
        """Centres before and after a step, each as means, coefficients and in block precision, and their difference."""
        return 8 * 8 * self.c * (self.n_measurements + 2)

    @property
    def map_bytes(self) -> int:
        """Landmarks, their kernel matrix, its eigenvectors with workspace, the inverse, the sample."""
        m, d = self.n_measurements, self.source.n_features
        matrix = 7 * 8 * m * m if self.map_name == "landmarks" else 0
        landmarks = m * d * (8 + 2 * self.dtype.itemsize) if self.map_name == "landmarks" else 0
        return matrix + landmarks + self.sample_rows * (self.row_bytes + 8) + self.centres_bytes

    @property
    def preparing_bytes(self) -> int:
        """The most that is held beside the map before any block is met: one after another, each from the sample."""
        s, m, d, c = self.sample_rows, self.n_measurements, self.source.n_features, self.c
        width_rows, pair_rows = min(s, _SAMPLE_ROWS), min(s, PAIR_ROWS)
        steps = {
            "gathered in pieces": s * (self.row_bytes + 16),
            "counting clusters": counting_bytes(s, d) if self.n_clusters is None else 0,
            "first centres": s * (3 * self.measured_bytes + c * (4 * self.dtype.itemsize + 8)),
        }
        if self.map_name == "landmarks":
            steps["width"] = 8 * (2 * width_rows * d + 3 * pair_rows**2) if not self.kernel.resolved else 0
            steps["kmeans"] = 8 * (4 * s * d + 4 * m * d) if self._landmarks_by("kmeans") else 0
            steps["leverage"] = 8 * (s * d + 3 * s * m + 4 * m * d) if self._landmarks_by("leverage") else 0
            steps["kernel matrix"] = 8 * 4 * m * d + width_rows * (self.row_bytes + d)
        return max(steps.values())

    def _landmarks_by(self, name: str) -> bool:
        return isinstance(self.landmarks, str) and self.landmarks == name

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
        return replace(stage, **changes)


@dataclass(frozen=True, eq=False)
class Setup:
    """A run ready to go: the source as it will be read, the plan, the sample and the map."""

    problem: Problem
    source: Source
    engine: Engine
    plan: Plan
    sample: NDArray[Any]
    sample_row_numbers: NDArray[np.int64]
    map_: Map
    n_clusters: int
    scratch: Scratch
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def reader(self) -> Reader:
        """How rows become measurements in this run."""
        return Reader(self.map_, self.problem.tile_rows, self.problem.nan)

    def layout(self, name: str) -> Layout:
        """Return the layout of a stage."""
        return self.plan.layout(name)

    def measure_sample(self, rows: int | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the measurements of (the first rows of) the sample."""
        return self.map_.measure(self.sample[:rows])


def default_limit(engine: Engine) -> int:
    """Return the memory to stay within when none is given: what we have, and six tenths of what is free."""
    if engine.local:
        return resident_bytes() + int(0.6 * available_bytes())
    limits = [w["memory_limit"] for w in engine.client.scheduler_info(n_workers=-1)["workers"].values()]
    smallest = min((limit for limit in limits if limit), default=0)
    return int(0.8 * smallest) if smallest else resident_bytes() + int(0.6 * available_bytes())


def base_stages(problem: Problem) -> list[Stage]:
    """Return the stages that every run has: sampling, what is made of the sample, and labelling."""
    preparing = Stage("preparing", row_bytes=0, fixed_bytes=problem.map_bytes + problem.preparing_bytes)
    return [problem.stage("sampling", task_bytes=0), preparing, problem.stage("labelling")]


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
    import scipy.linalg  # noqa: F401  (what a run will import is part of what the process takes)
    import zarr  # noqa: F401

    if problem._landmarks_by("kmeans"):
        import sklearn.cluster  # noqa: F401

    limit = problem.memory_limit or default_limit(engine)
    base = resident_bytes() if engine.local else _WORKER_BYTES
    if base >= limit:
        raise MemoryLimitError(
            f"memory_limit is {format_bytes(limit)}, and the process already takes {format_bytes(base)} before any "
            f"data are read. Pass memory_limit={format_bytes(base * 1.5).replace(' ', '')!r} or more.",
            needed_bytes=base,
            allowed_bytes=limit,
        )
    threads = engine.threads if engine.local else _threads_per_worker(engine)
    return make_plan(
        stages,
        problem.n_rows,
        limit,
        base,
        threads,
        keep=keep,
        spill_bytes=_spill_bytes(problem, engine, n_passes),
        scratch_bytes=scratch_bytes + problem.n_rows * 4,
    )


def _threads_per_worker(engine: Engine) -> int:
    workers = engine.client.scheduler_info(n_workers=-1)["workers"].values()
    return max((w["nthreads"] for w in workers), default=1)


def _spill_bytes(problem: Problem, engine: Engine, n_passes: int) -> int:
    """Return the scratch that spilled measurements take, or 0 when computing them again is cheaper.

    A measurement of 4 bytes comes back from disk at about 1 ns a byte; computing it takes d multiplications at
    about 30 a nanosecond and core, and reading d features. Writing pays only over several passes.
    """
    d, itemsize = problem.source.n_features, problem.dtype.itemsize
    if problem.map_name != "landmarks" or n_passes < 4 or not (engine.local or problem.scratch):
        return 0
    compute_ns = d / 15 + 1 + problem.row_bytes / problem.n_measurements
    read_ns = itemsize
    worth = compute_ns > 2 * read_ns * (1 + 2 / n_passes)
    return problem.n_rows * problem.measured_bytes if worth else 0


def prepare(problem: Problem, engine: Engine, plan: Plan, find_n_clusters: Any = None) -> Setup:
    """Draw the sample and make the map of a planned run."""
    if problem.memory_limit is not None and engine.local:
        return_large_arrays()
    scratch = Scratch(problem.scratch, plan.scratch_bytes)
    try:
        return _prepare(problem, engine, plan, find_n_clusters, scratch)
    except BaseException:
        scratch.close()
        raise


def _prepare(problem: Problem, engine: Engine, plan: Plan, find_n_clusters: Any, scratch: Scratch) -> Setup:
    source = problem.source
    if plan.keep == "rows" and engine.local:
        source = load_rows(engine, source, plan.layout("sampling"))
    sample, numbers = _draw_sample(problem, source, engine, plan.layout("sampling"))
    n_clusters, evidence = problem.n_clusters, {}
    if n_clusters is None:
        n_clusters, evidence = find_n_clusters(sample)
    if n_clusters > len(sample):
        raise InvalidInputError(
            f"n_clusters={n_clusters} is more than the {len(sample)} rows that can be used "
            f"(n_samples={problem.n_rows}). Pass a smaller n_clusters."
        )
    map_ = _make_map(problem, sample)
    return Setup(problem, source, engine, plan, sample, numbers, map_, n_clusters, scratch, evidence)


def _draw_sample(
    problem: Problem, source: Source, engine: Engine, layout: Layout
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return usable rows from the beginning of the random order, and their numbers."""
    order, wanted, n = problem.key.child("order", 0), problem.sample_rows, problem.n_rows
    numbers = order.rows(n, 0, wanted)
    sample = gather(engine, source, numbers, layout)
    bad = bad_rows(sample)
    if bad is None:
        return sample, numbers
    if problem.nan == "raise":
        raise explain_bad_row(engine, source, layout, BadRowError(int(numbers[bad].min()))) from None
    sample, numbers = sample[~bad], numbers[~bad]
    more: list[NDArray[np.int64]] = []  # numbers first: of rows that are mostly unusable many have to be looked at
    position, take = wanted, 4 * wanted
    while position < n and len(numbers) + sum(map(len, more)) < wanted:
        rows = order.rows(n, position, min(n, position + take))
        more.append(rows[usable(engine, source, rows, layout)])
        position, take = position + take, min(4 * take, max(4 * wanted, _SCREENED_ROWS))
    if more:
        added = np.concatenate(more)[: wanted - len(numbers)]
        sample = np.concatenate([sample, gather(engine, source, added, layout)])
        numbers = np.concatenate([numbers, added])
    if len(sample) == 0:
        raise InvalidInputError(f"All {n:,} rows have a NaN or infinity: nothing is left to cluster.")
    return sample, numbers


def _make_map(problem: Problem, sample: NDArray[Any]) -> Map:
    if problem.map_name == "identity":
        return IdentityMap(sample.mean(axis=0, dtype=np.float64), problem.dtype)
    kernel = problem.kernel.resolve(sample[:_SAMPLE_ROWS])
    if isinstance(problem.landmarks, str):
        m = min(problem.n_landmarks, len(sample))
        rows = choose_landmarks(problem.landmarks, sample, m, kernel, problem.key)
    else:
        rows = problem.landmarks
    map_ = LandmarkMap(kernel, rows, problem.dtype)
    check_degenerate(map_.kernel_matrix, kernel, sample[:_SAMPLE_ROWS])
    if not math.isfinite(float(map_.kernel_matrix.sum())):
        raise InvalidInputError("The kernel matrix of the landmarks overflows; scale the features or lower the degree.")
    map_.settle()
    return map_
