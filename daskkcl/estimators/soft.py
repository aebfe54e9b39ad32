"""Soft competitive learning in full passes: batch neural gas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ..planning import Stage
from ..rules.crisp import Nearest
from ..schedules.checkpoint import Checkpoint
from ..schedules.lloyd import open_dataset
from ..schedules.neural_gas import batch_neural_gas
from ..schedules.problem import Problem
from ..schedules.setup import Setup
from ..schedules.start import check_init, place_centres
from ..schedules.tasks import Model
from .base import Fitted, KernelClusterer
from .common import documented
from .validation import check_integer, check_real

__all__ = ["FastKSCL"]


@dataclass(frozen=True, eq=False)
class _GasSettings:
    init: Any
    n_passes: int
    reach_start: float
    reach_end: float


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FastKSCL(KernelClusterer):
    """Fast kernel soft competitive learning: batch neural gas in the span of landmarks, in full passes.

    Every centre is the mean of all rows, each weighted by ``exp(-rank / reach)``, its rank among the centres by
    distance. The reach begins wide, so that the start matters little, and falls from pass to pass until only the
    nearest centre counts, as in k-means.

    Parameters
    ----------
    {common}
    init : {{"random", "d2", "sample", "random-labels"}} or array, default "random"
        Random rows; or as for `ApproxKernelKMeans`; or random labels of a sample.
    max_iter : int, default 50
        Passes over the data; the reach falls over all of them.
    reach_start : float or "auto", default "auto"
        Reach of the first pass, in ranks; ``"auto"`` is half the number of clusters.
    reach_end : float, default 0.01
        Reach of the last pass.

    Attributes
    ----------
    {attributes}

    Notes
    -----
    Schleif, Zhu, Gisbrecht and Hammer, "Fast approximated relational and kernel clustering" (ICPR 2012, pages
    1229-1232): kernel batch neural gas on the Nyström kernel. The batch rule and its annealing are those of Cottrell,
    Hammer, Hasenfuß and Villmann, "Batch and median neural gas" (doi:10.1016/j.neunet.2006.05.018). The number of
    passes and the last reach of the former are not settled by a public source.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(6 * k, 1, (100, 2)) for k in range(3)])
    >>> daskkcl.FastKSCL(3, random_state=0).fit(X).cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "fastkscl"
    settles_late: ClassVar[bool] = True
    keeps_on_workers: ClassVar[bool] = True

    max_iter: int = 50
    reach_start: float | str = "auto"
    reach_end: float = 0.01

    def _settings(self, problem: Problem) -> _GasSettings:
        source = problem.source
        named = ("random", "d2", "sample", "random-labels")
        start = 0.0 if self.reach_start == "auto" else check_real("reach_start", self.reach_start, 0)
        end = check_real("reach_end", self.reach_end, 0, start or math.inf)
        return _GasSettings(
            init=check_init(self.init, source.n_rows, source.n_features, problem.n_clusters, named),
            n_passes=check_integer("max_iter", self.max_iter, 1),
            reach_start=start,
            reach_end=end,
        )

    def _stages(self, problem: Problem, settings: _GasSettings) -> tuple[list[Stage], dict[str, int], int, int]:
        keep = {
            "measurements": problem.n_rows * problem.measured_bytes,
            "rows": problem.rows_bytes,
        }
        ranks = 3 * 8 * problem.tile_rows * problem.c  # sorted twice
        stage = problem.stage("passes", task_bytes=problem.tile_bytes + problem.sums_bytes + ranks)
        return [stage], keep, settings.n_passes, 0

    def _run(self, setup: Setup, settings: _GasSettings, checkpoint: Checkpoint) -> Fitted:
        data = open_dataset(setup, "passes")
        start = place_centres(setup, settings.init, data, n_init=3)
        reach = settings.reach_start or max(0.5 * setup.n_clusters, settings.reach_end)
        result = batch_neural_gas(setup, data, start.centres, settings.n_passes, reach, settings.reach_end, checkpoint)
        model = Model(setup.reader, result.centres, Nearest())
        return Fitted(model, result.history, result.n_iter, result.converged, data)
