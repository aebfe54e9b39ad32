"""What several fits have in common: rows, sample and map are looked at once, all rows are measured once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.codes import make_codes, open_codes
from ..blocks.scratch import Scratch
from ..blocks.sources import ArraySource, Source, ZarrSource
from ..maps.base import Map
from ..maps.measured import MeasuredMap
from ..planning import Layout, Plan, Stage, block_edges
from .checkpoint import Checkpoint
from .data import Consume, run_blocks
from .engine import Engine
from .graph import Graph
from .mapping import make_map
from .measuring import Reader, task, tiles
from .problem import Problem
from .setup import Setup, check_enough, prepare, typical_rows

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Shared", "measuring_stage", "share"]

# Maps whose measurements do not depend on the number of clusters. (The spectral map does; its codes do not.)
_ALIKE = {"landmarks", "nystroem", "apnc", "rff", "randpoly", "spectral"}


class Remembered(Checkpoint):
    """Holds in memory what is found once."""

    def __init__(self) -> None:
        super().__init__(None)
        self._found: dict[str, dict[str, Any]] = {}

    def once(
        self, name: str, make: Callable[[], dict[str, Any]], still: Callable[[], bool] = lambda: True
    ) -> dict[str, Any]:
        if name not in self._found:
            self._found[name] = make()
        return self._found[name]


def can_share(problem: Problem, engine: Engine) -> bool:
    """Say whether fits that differ in the number of clusters can have their measurements in common."""
    return engine.local and problem.recipe.name in _ALIKE and problem.weights is None


def measuring_stage(problem: Problem) -> Stage:
    """Return the stage that measures all rows and leaves the measurements where all fits find them."""
    stage = problem.stage("measuring")
    return replace(stage, row_bytes=stage.row_bytes + 2 * problem.measured_bytes)


@dataclass(eq=False)
class Shared:
    """What fits share that differ in the number of clusters only.

    Parameters
    ----------
    first : Setup
        Of the most clusters: its sample begins with that of every other.
    read : Source
        What fits read: measurements of all rows, or their codes.
    memory : Remembered
        What the map was made of.
    """

    first: Setup
    read: Source | None
    memory: Remembered
    maps: dict[int, tuple[Map, Map]] = field(default_factory=dict)

    def of(self, problem: Problem) -> Problem:
        """Return the problem of a fit as it is when the rows are measured."""
        return replace(problem, source=self.first.problem.source, read=self.read)

    def setup(self, problem: Problem, engine: Engine, plan: Plan) -> Setup:
        """Return what a fit goes on from."""
        assert self.read is not None
        n_clusters, rows = problem.c, problem.sample_rows
        sample, numbers = self.first.sample[:rows], self.first.sample_row_numbers[:rows]
        check_enough(problem, n_clusters, sample)
        map_, row_map = self._maps(problem, engine)
        scratch = Scratch(problem.scratch, plan.scratch_bytes)
        return Setup(problem, self.read, engine, plan, sample, numbers, map_, row_map, n_clusters, scratch)

    def reader(self, n_clusters: int) -> Reader:
        """Return how what is read becomes the measurements of a fit of so many clusters."""
        problem = self.first.problem
        return Reader(self.maps[n_clusters][0], replace(problem, n_clusters=n_clusters).tile_rows, problem.nan)

    def _maps(self, problem: Problem, engine: Engine) -> tuple[Map, Map]:
        first, c = self.first, problem.c
        if c not in self.maps and not problem.recipe.code_bytes:
            same = next(iter(self.maps.values()), (MeasuredMap(first.row_map), first.row_map))
            self.maps[c] = same
        elif c not in self.maps:  # codes are there, a table is made of them
            plan = replace(first.plan, keep="nothing")
            sample = first.sample[: problem.sample_rows]
            typical, rows = typical_rows(problem, sample, first.sample_row_numbers), first.problem.source
            made = make_map(problem, engine, plan, rows, sample, typical, c, first.scratch, self.memory)
            self.maps[c] = made[:2]
        return self.maps[c]

    def close(self) -> None:
        """Let go of the measurements; sample and landmarks serve the next width."""
        self.read = None
        self.maps.clear()
        self.first.scratch.close()


def share(problem: Problem, engine: Engine, plan: Plan, drawn: Shared | None = None) -> Shared:
    """Make the map of a problem and measure all rows.

    Parameters
    ----------
    problem : Problem
        That of the fit with the most clusters.
    plan : Plan
        With a stage "measuring"; what it keeps decides where measurements are left.
    drawn : Shared, optional
        Of another width of the kernel: its sample serves again, and its landmarks if a k-means made them.
    """
    memory, coded = Remembered(), bool(problem.recipe.code_bytes)
    before = None if drawn is None else drawn.first
    if drawn is not None and problem.landmarks_by("kmeans"):
        memory._found.update({name: found for name, found in drawn.memory._found.items() if name == "landmarks"})
    first = prepare(problem, engine, replace(plan, keep="nothing"), None, memory, drawn=before)
    try:
        read = first.source if coded else _measured(first, plan.keep == "measurements", plan.layout("measuring"))
    except BaseException:
        first.scratch.close()
        raise
    return Shared(first, read, memory)


def _measured(setup: Setup, in_memory: bool, layout: Layout) -> Source:
    """Measure all rows once."""
    source, reader = setup.source, setup.row_reader
    shape = (source.n_rows, reader.map_.n_measurements + 1)
    dtype = np.dtype(reader.map_.dtype)
    if in_memory:
        target: Any = np.empty(shape, dtype=dtype)
    else:
        target = make_codes(setup.scratch, shape, layout.block_rows, dtype)
    engine = setup.engine.with_threads(layout.threads)

    def work(graph: Graph) -> Consume:
        shared = graph.value((reader, target))
        return lambda start, rows: graph.call(keep_measured, rows, start, shared)

    engine.progress.begin("measuring", source.n_rows)
    edges = block_edges(source.n_rows, layout.block_rows)
    run_blocks(engine, source, edges, work, _nothing, "keep_measured", layout.block_rows)
    engine.progress.end()
    return ArraySource(target, lazy=source.lazy) if in_memory else ZarrSource(open_codes(setup.scratch))


@task
def keep_measured(rows: Any, start: int, shared: Any) -> None:
    """Measure a block and put Z and kappa in their place; a row that is dropped is NaN."""
    reader, target = shared
    out: NDArray[Any] = np.empty((len(rows), target.shape[1]), dtype=target.dtype)
    for tile in tiles(rows, start, reader):
        own = out[tile.start - start : tile.start - start + len(tile.Z)]
        own[:, :-1], own[:, -1] = tile.Z, tile.kappa
        if tile.valid is not None:
            own[~tile.valid] = np.nan
    target[start : start + len(out)] = out


def _nothing(parts: list[None]) -> None:
    """Combine what is nothing."""
