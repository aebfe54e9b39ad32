"""Exact kernel algorithms: what they share, and kernel k-means."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..errors import ConvergenceWarning, MemoryLimitError
from ..planning import Plan, Stage
from ..rules.crisp import Nearest
from ..schedules.checkpoint import Checkpoint
from ..schedules.engine import Engine
from ..schedules.exact import best_kernel_k_means, exact_bytes, exact_model, exact_stage, load_exact, warm_up
from ..schedules.problem import Problem
from ..schedules.setup import Setup, all_stages, plan_run
from ..schedules.start import check_init, given_rows
from ..system import format_bytes
from .base import Fitted, KernelClusterer
from .common import documented
from .validation import check_integer

__all__ = ["ExactMixin", "KernelKMeans"]


class ExactMixin:
    """Plans the kernel matrix of all rows in memory, or refuses politely. No landmarks, no other map."""

    algorithm: ClassVar[str]
    _instead: ClassVar[str] = "akcl"  # the algorithm to take when the kernel matrix does not fit

    def _by_measurements(self) -> bool:
        """Say that rows count by the kernel between them."""
        return False

    def _recorded(self, problem: Problem, settings: Any) -> int:
        """Return how many numbers a recorded path takes."""
        return 0

    def _stages(self, problem: Problem, settings: Any) -> tuple[list[Stage], dict[str, int], int, int]:
        return exact_stage(problem, self._recorded(problem, settings)), {}, 1, 0

    def _plan(self, problem: Problem, engine: Engine, settings: Any, writes: bool = False) -> Plan:
        warm_up()
        stages, _, _, _ = self._stages(problem, settings)
        if not problem.source.lazy:
            stages.append(Stage("answers", row_bytes=0, fixed_bytes=8 * problem.n_rows))
        try:
            return plan_run(problem, engine, all_stages(problem, stages))
        except MemoryLimitError as error:
            raise MemoryLimitError(
                f"{self.algorithm} is exact and holds the kernel matrix of all {problem.n_rows:,} rows in memory, "
                f"{format_bytes(exact_bytes(problem))} with what stands beside it. {error} "
                f"algo={self._instead!r} does the same with landmarks, on any number of rows.",
                needed_bytes=error.needed_bytes,
                allowed_bytes=error.allowed_bytes,
            ) from None

    @staticmethod
    def _more_rows(setup: Setup, init: Any) -> Any:
        """Return the centre rows that `init` holds, if it does."""
        return given_rows(setup, init) if not isinstance(init, str) and init.ndim == 2 else None


@dataclass(frozen=True, eq=False)
class _Settings:
    init: Any
    n_init: int
    max_iter: int


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class KernelKMeans(ExactMixin, KernelClusterer):
    """Kernel k-means, exact: the kernel matrix of all rows in memory.

    For small data, and as what `ApproxKernelKMeans` approximates. A run whose kernel matrix does not fit the memory
    limit is refused.

    Parameters
    ----------
    {common}
    init : {{"d2", "random", "random-labels"}} or array, default "d2"
        Greedy D² seeds (k-means++ in feature space), random rows, or a random label for every row. Or `n_clusters` row
        numbers, a label for every row, or an (n_clusters, n_features) array of centre rows.
    n_init : int, default 10
        Starts tried; the run of lowest objective is kept. One, if `init` is an array.
    max_iter : int, default 300
        The most steps of a run.

    Attributes
    ----------
    {attributes}

    Notes
    -----
    Schölkopf, Smola and Müller, "Nonlinear component analysis as a kernel eigenvalue problem"
    (doi:10.1162/089976698300017467). A cluster that loses all rows starts again at the row farthest from its centre,
    at most once a cluster, so that every run ends; after that it stays empty, and a warning says so. The fitted model
    holds all rows: `predict` takes their kernel with the new ones.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(6 * k, 1, (100, 2)) for k in range(3)])
    >>> daskkcl.KernelKMeans(3, random_state=0).fit(X).cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "kkmeans"
    _instead: ClassVar[str] = "akkmeans"

    map: Any = field(init=False, default=None)
    landmarks: Any = field(init=False, default=None)
    n_landmarks: int | None = field(init=False, default=None)
    n_init: int = 10
    max_iter: int = 300

    def _settings(self, problem: Problem) -> _Settings:
        source = problem.source
        named = ("d2", "random", "random-labels")
        init = check_init(self.init, source.n_rows, source.n_features, problem.n_clusters, named)
        n_init = check_integer("n_init", self.n_init, 1)
        return _Settings(
            init=init,
            n_init=n_init if isinstance(init, str) else 1,
            max_iter=check_integer("max_iter", self.max_iter, 1),
        )

    def _run(self, setup: Setup, settings: _Settings, checkpoint: Checkpoint) -> Fitted:
        exact = load_exact(setup, self._more_rows(setup, settings.init))
        rng = setup.problem.key.child("init").generator()
        run = best_kernel_k_means(setup, exact, settings.init, settings.n_init, settings.max_iter, rng)
        if not run.converged:
            warnings.warn(
                f"{type(self).__name__} stopped after max_iter={settings.max_iter} steps, rows still changing sides.",
                ConvergenceWarning,
                stacklevel=3,
            )
        model = exact_model(setup, exact, run.A, Nearest())
        return Fitted(model, run.objective, len(run.objective), run.converged)
