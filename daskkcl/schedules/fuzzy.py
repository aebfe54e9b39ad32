"""What the fuzzy algorithms share: settings, summaries of rows, runs in memory, and exact passes over all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.rows import join_blocks
from ..maps.base import Centres, Map, squared_distances
from ..random import Key
from ..rules.fuzzy import Fuzzy, FuzzyRun, best_fuzzy_run
from ..system import Weighed
from .checkpoint import Checkpoint
from .data import gather
from .dataset import Dataset
from .measuring import measure_block
from .passes import label_pass, sum_pass
from .sampling import draw_rows, weights_of
from .setup import Setup
from .tasks import Model

__all__ = [
    "FuzzyResult",
    "FuzzySettings",
    "Prototypes",
    "Summary",
    "exact_passes",
    "full_passes",
    "nearest_prototypes",
    "points_of",
    "run_on_points",
    "sample_fuzzy",
]

Floats = NDArray[Any]

_SETTLED = 1e-4  # exact passes end when J falls by less than this share


@dataclass(frozen=True)
class FuzzySettings:
    """Parameters of the fuzzy runs, resolved."""

    n_clusters: int
    fuzzifier: float
    tol: float
    max_iter: int
    n_init: int
    # "given": runs start from the given centres; "sample": chunks start from the sample's centres, merged ones seed
    # themselves; "d2", "random": every run seeds itself.
    seeding: str
    chunk_rows: int = 0
    max_passes: int = 1

    @property
    def seeds(self) -> str:
        """How runs that seed themselves do it."""
        return "random" if self.seeding == "random" else "d2"


@dataclass(frozen=True, eq=False)
class Summary(Weighed):
    """What stands for some rows: mean measurements of their centres (c, m) and the centres' masses (c,).

    In a stream also the rows nearest to the centres, and their numbers: nobody can look them up later.
    """

    means: Floats
    masses: Floats
    prototypes: Prototypes | None = None


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Single rows that stand near centres, and their numbers in the data."""

    rows: Floats
    numbers: NDArray[np.int64]

    @staticmethod
    def join(parts: list[Prototypes]) -> Prototypes:
        """Put candidates one behind the other."""
        return Prototypes(join_blocks([p.rows for p in parts]), np.concatenate([p.numbers for p in parts]))

    def nearest(self, centres: Centres, map_: Map) -> Prototypes:
        """Return the candidate nearest to each centre, ties to the lowest number."""
        order = np.argsort(self.numbers, kind="stable")
        best = squared_distances(*map_.measure(self.rows[order]), centres).argmin(axis=0)
        return Prototypes(self.rows[order][best], self.numbers[order][best])


@dataclass(frozen=True, eq=False)
class FuzzyResult:
    """Final centres and the map they belong to; J over the last run, or over the exact passes.

    `falling` is the share by which J fell last, when exact passes ended before it settled. `prototypes` are row
    numbers where the algorithm itself has them; otherwise they are found when all rows are labelled.
    """

    map_: Map
    centres: Centres
    history: tuple[float, ...]
    n_iter: int
    converged: bool
    falling: float = 0.0
    prototypes: NDArray[np.int64] | None = None
    tile_rows: int | None = None  # where the map is not that of the setup


def run_on_points(
    points: tuple[Floats, Floats, Floats],
    map_: Map,
    settings: FuzzySettings,
    key: Key,
    n_init: int,
    start: Centres | None = None,
) -> FuzzyRun:
    """Run fuzzy c-means on weighted objects from `start` (if any) and from `n_init` seedings; keep the lowest J."""
    return best_fuzzy_run(
        *points,
        map_,
        settings.n_clusters,
        settings.fuzzifier,
        settings.tol,
        settings.max_iter,
        n_init=n_init,
        rng=key.generator(),
        seeding=settings.seeds,
        also=start,
    )


def points_of(summaries: list[Summary], map_: Map) -> tuple[Floats, Floats, Floats]:
    """Return the centres of summaries as weighted objects: measurements, squared lengths, masses."""
    means = np.concatenate([summary.means for summary in summaries])
    lengths = np.einsum("cm,cm->c", map_.dual(means), means)
    return means.astype(map_.dtype), lengths.astype(map_.dtype), np.concatenate([s.masses for s in summaries])


def sample_fuzzy(
    setup: Setup, start: Centres | None, settings: FuzzySettings, sample_rows: int, checkpoint: Checkpoint
) -> FuzzyResult:
    """Random sample and extend (Algorithm 4 in landmark form): cluster a sample, then go on with exact passes.

    The sample is the beginning of the random order of the rows; rows bring their weights along.
    """
    saved = checkpoint.load()
    if saved is None:
        layout = setup.layout("sampling")
        rows, numbers = draw_rows(setup.problem, setup.source, setup.engine, layout, sample_rows)
        sample = measure_block(rows, 0, setup.reader)
        points = (sample.Z, sample.kappa, weights_of(setup.problem, numbers))
        n_init = settings.n_init if start is None else 0
        run = run_on_points(points, setup.map_, settings, setup.problem.key.child("rsekfcm"), n_init, start)
        saved = {"pass_means": np.asarray(run.centres.means), "pass_history": np.empty(0)}
        if settings.max_passes == 0:
            saved |= {"history": np.array(run.objective), "end": np.array([run.n_iter, run.converged])}
        checkpoint.save(saved)
    if settings.max_passes == 0:
        centres, (n_iter, converged) = Centres.from_means(saved["pass_means"], setup.map_), saved["end"].tolist()
        return FuzzyResult(setup.map_, centres, tuple(saved["history"].tolist()), n_iter, bool(converged))
    return exact_passes(setup, saved, settings, settings.max_passes, checkpoint)


def exact_passes(
    setup: Setup, state: dict[str, Any], settings: FuzzySettings, most: int, checkpoint: Checkpoint
) -> FuzzyResult:
    """Go on with exact steps over all rows until J settles, `most` of them at the most."""
    data = Dataset(setup.engine, setup.source, setup.layout("labelling"))
    centres, weights = Centres.from_means(state["pass_means"], setup.map_), setup.problem.weights
    history: list[float] = state["pass_history"].tolist()
    while len(history) < most and not _settled(history):
        model = Model(setup.reader, centres, Fuzzy(settings.fuzzifier))
        sums = sum_pass(data, model, f"pass {len(history) + 1}", weights)
        history.append(float(sums.objective.value))
        centres = _step(sums, centres, setup.map_)
        checkpoint.save({"pass_means": centres.means, "pass_history": np.array(history)})
    falling = 0.0 if _settled(history) or len(history) < 2 else 1 - history[-1] / history[-2]
    return FuzzyResult(setup.map_, centres, tuple(history), len(history), True, falling)


def _settled(history: list[float]) -> bool:
    return len(history) > 1 and history[-2] - history[-1] <= _SETTLED * history[-2]


def _step(sums: Any, centres: Centres, map_: Map) -> Centres:
    """Move every centre to the mean of the rows weighted by ``w u^m``; one without mass stays (Eq. 13)."""
    mass = sums.mass.value
    means = np.where(mass[:, None] > 0, sums.S.value / np.where(mass > 0, mass, 1)[:, None], centres.means)
    return Centres.from_means(means, map_)


def full_passes(
    setup: Setup, data: Dataset, start: Centres, settings: FuzzySettings, checkpoint: Checkpoint
) -> FuzzyResult:
    """Fuzzy c-means over all rows (Algorithm 1): alternate memberships and centres, a pass for each step.

    It ends when no membership of a row with weight has moved, squared, by `tol` since the pass before: that takes the
    memberships from both sets of centres, and no memory.
    """
    weights = setup.problem.weights
    centres, before, history, converged = start, None, [], False
    saved = checkpoint.load()
    if saved:
        centres, history = Centres.from_means(saved["means"], setup.map_), saved["history"].tolist()
        before, converged = Centres.from_means(saved["before"], setup.map_), bool(saved["converged"])
    while not converged and len(history) <= settings.max_iter:
        model = Model(setup.reader, centres, Fuzzy(settings.fuzzifier))
        sums = sum_pass(data, model, f"pass {len(history) + 1}", weights, before)
        history.append(float(sums.objective.value))
        converged = before is not None and sums.change**2 < settings.tol
        if not converged and len(history) <= settings.max_iter:
            before, centres = centres, _step(sums, centres, setup.map_)
        checkpoint.save(
            {
                "means": centres.means,
                "before": centres.means if before is None else before.means,
                "history": np.array(history),
                "converged": np.array(converged),
            }
        )
    return FuzzyResult(setup.map_, centres, tuple(history), len(history) - 1, converged)


def nearest_prototypes(setup: Setup, data: Dataset, model: Model) -> tuple[Centres, NDArray[np.int64]]:
    """Return the row nearest to every centre, as a centre, and its number."""

    def look() -> dict[str, Any]:
        return {"numbers": label_pass(data, model, None, setup.problem.weights).nearest[:, 1].astype(np.int64)}

    numbers = setup.checkpoint.once("prototypes", look)["numbers"]
    rows = gather(setup.engine, setup.source, numbers, setup.layout("sampling"))
    return Centres.from_means(setup.map_.measure(rows)[0], setup.map_), numbers
