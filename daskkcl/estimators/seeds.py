"""Competitive learning that finds the number of clusters: more seeds than clusters, and what becomes of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..errors import ConvergenceWarning
from ..planning import Stage
from ..random import FixedOrder
from ..rules.competitive import Rates
from ..rules.coordinates import Coordinates
from ..rules.crisp import Nearest
from ..rules.sequential import Seeds, SequentialRule, warm_up
from ..schedules.checkpoint import Checkpoint
from ..schedules.exact import exact_model, first_centres, kernel_compete, load_exact
from ..schedules.found import (
    Found,
    clusters_of_combinations,
    clusters_of_seeds,
    exact_variance,
    total_variance,
)
from ..schedules.problem import Problem
from ..schedules.sequential import SequentialWalk, compete_row_by_row
from ..schedules.setup import Setup
from ..schedules.start import check_init, place_centres
from .base import Fitted, KernelClusterer
from .common import documented
from .competitive import sequential_stages
from .exact import ExactMixin
from .validation import check_choice, check_flag, check_integer, check_order, check_real

__all__ = ["CPCL", "KernelCPCL", "LandmarkCPCL", "SeedClusterer", "SeedSettings"]


@dataclass(frozen=True, eq=False)
class SeedSettings:
    """What all of them take, validated."""

    init: Any
    rule: SequentialRule
    rates: Rates
    n_epochs: int
    tol: float
    merge_tol: float
    order: FixedOrder | None
    record: bool

    def walk(self, variance: float) -> SequentialWalk:
        """Return how rows of such a total variance are met."""
        tol = self.tol * variance
        return SequentialWalk(
            self.rule, self.rates, self.n_epochs, tol, same_order=True, order=self.order, record=self.record
        )


@dataclass(eq=False, repr=False, kw_only=True)
class SeedClusterer(KernelClusterer):
    """Base of the classes with `n_seeds` in place of `n_clusters`."""

    watches: ClassVar[str] = "squared moves of the centres"

    counted: ClassVar[str] = "n_seeds"
    _starts: ClassVar[tuple[str, ...]] = ("first", "d2", "sample")
    _n_extra: ClassVar[int] = 0
    _comes_to_rest: ClassVar[bool] = True  # whether seeds that still move at the end deserve a warning

    n_clusters: int | str = field(init=False)
    n_seeds: int = field(default=10, kw_only=False)
    eta: float = 1e-3
    tol: float = 1e-7
    merge_tol: float = 0.05
    max_epochs: int = 2000
    order: Any = None
    record: bool = False

    def _rule(self) -> SequentialRule:
        """Validate the rule's own parameters; return the rule."""
        raise AttributeError(f"{type(self).__name__} has no rule")

    def _first_extra(self, setup: Setup, coordinates: Coordinates) -> Any:
        """Return what else the rule keeps for every seed, at the start."""
        return None

    def _settings(self, problem: Problem) -> SeedSettings:
        source = problem.source
        eta = check_real("eta", self.eta, 0, 1)
        order = check_order(self.order, source.n_rows)
        init = check_init(self.init, source.n_rows, source.n_features, problem.n_clusters, self._starts)
        if order is not None and isinstance(init, str) and init == "first":
            init = order.rows(source.n_rows, 0, problem.c)
        settings = SeedSettings(
            init=init,
            rule=self._rule(),
            rates=Rates(eta, eta),
            n_epochs=check_integer("max_epochs", self.max_epochs, 1),
            tol=check_real("tol", self.tol, 0, closed=True),
            merge_tol=check_real("merge_tol", self.merge_tol, 0, closed=True),
            order=order,
            record=check_flag("record", self.record),
        )
        warm_up(settings.rule, problem.dtype, self._n_extra)
        return settings

    def _stages(self, problem: Problem, settings: SeedSettings) -> tuple[list[Stage], dict[str, int], int, int]:
        recorded = 2 * (settings.n_epochs + 1) * problem.c * problem.n_measurements if settings.record else 0
        stages, scratch = sequential_stages(problem, 0 if settings.order is None else 1, recorded)
        keep = {
            "measurements": problem.n_rows * (problem.measured_bytes + 8),
            "rows": problem.rows_bytes,
        }
        return stages, keep, 1, scratch

    def _run(self, setup: Setup, settings: SeedSettings, checkpoint: Checkpoint) -> Fitted:
        coordinates = Coordinates.of(setup.map_)
        named_first = isinstance(settings.init, str) and settings.init == "first"
        start = place_centres(setup, "random" if named_first else settings.init, None, n_init=3)
        seeds = Seeds.start(
            coordinates.of_means(start.centres.means), start.counts, self._first_extra(setup, coordinates)
        )
        variance = total_variance(setup, coordinates)
        result = compete_row_by_row(setup, coordinates, seeds, settings.walk(variance), checkpoint)
        found = clusters_of_seeds(setup, coordinates, result.seeds, settings.merge_tol * variance**0.5)
        path = result.path
        if path is not None and coordinates.root is None:
            path = path + getattr(setup.map_, "origin", 0.0)
        return self._fitted(found, result.moves, result.converged, path, settings)

    def _fitted(self, found: Found, moves: Any, converged: bool, path: Any, settings: SeedSettings) -> Fitted:
        n_seeds, n_found = found.n_seeds, found.model.centres.n_clusters
        if n_found == 1 and n_seeds > 1:
            warnings.warn(
                f"{type(self).__name__}: all {n_seeds} seeds ended in one cluster. That happens where clusters are not "
                "well apart. Try features of equal variance, another kernel or width, a smaller merge_tol or tol, a "
                "larger max_epochs, or another algorithm with n_clusters='auto'.",
                ConvergenceWarning,
                stacklevel=4,
            )
        if self._comes_to_rest and not converged:
            warnings.warn(
                f"{type(self).__name__} stopped after max_epochs={settings.n_epochs} epochs with seeds still moving.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self._win_counts = found.counts
        attributes = {} if path is None else {"seed_path_": path}
        return Fitted(found.model, tuple(moves), len(moves), converged, attributes=attributes)

    def _renumber(self, order: Any) -> dict[str, Any]:
        return {"win_counts_": self.__dict__.pop("_win_counts")[order]}


class _NoParameter:
    """Stands where the base class has a parameter that these classes do not have."""

    def __get__(self, estimator: Any, cls: Any = None) -> Any:
        raise AttributeError("These estimators have n_seeds, not n_clusters; n_clusters_ is what they find.")


SeedClusterer.n_clusters = _NoParameter()  # type: ignore[assignment]


@dataclass(eq=False, repr=False, kw_only=True)
class _Cooperative(SeedClusterer):
    ratios: str = "squared"

    def _rule(self) -> SequentialRule:
        squared = check_choice("ratios", self.ratios, ("squared", "plain")) == "squared"
        return SequentialRule("cooperative_penalised", (float(squared),))


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class CPCL(_Cooperative):
    """Cooperative and penalised competitive learning: seeds that find the number of clusters, in input space.

    For every row the seed of least distance times how often it has won moves towards the row. Of the other seeds
    within that distance from it, the nearest follow, more of them the oftener the winner has won; the rest are pushed
    away. Seeds end on cluster centres, several on one; those that coincide are merged, and their number is the number
    of clusters.

    Parameters
    ----------
    {seeds}
    ratios : {{"plain", "squared"}}, default "plain"
        Followers move, and rivals retreat, by the ratio of the winner's distance to theirs, or its square.

    Attributes
    ----------
    {seed_attributes}

    Notes
    -----
    Algorithm 1 of Jia, Cheung and Liu, "Cooperative and penalized competitive learning with application to
    kernel-based clustering" (doi:10.1016/j.patcog.2014.03.010). It works where clusters are well apart: two to three
    times the root of their scatter between centres. Features of equal variance help; where clusters overlap more, all
    seeds may end in one place, and a warning says so. ``history_`` holds the squared moves of each epoch.

    Examples
    --------
    {blobs}
    >>> model = daskkcl.CPCL(6, random_state=0).fit(X)
    >>> model.n_clusters_, model.cluster_sizes_
    (3, array([100, 100, 100]))
    """

    algorithm: ClassVar[str] = "cpcl"
    default_map: ClassVar[str] = "identity"

    kernel: Any = field(init=False, default=None)
    gamma: Any = field(init=False, default="auto")
    kernel_params: dict[str, Any] | None = field(init=False, default=None)
    map: Any = field(init=False, default=None)
    landmarks: Any = field(init=False, default=None)
    n_landmarks: int | None = field(init=False, default=None)
    ratios: str = "plain"


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class LandmarkCPCL(_Cooperative):
    """Kernel CPCL in the span of landmarks: seeds that find the number of clusters, out of core.

    What `KernelCPCL` does with the kernel matrix of all rows is done on coordinates of the landmarks' span, with what
    of a row lies outside added to its distances. With all rows as landmarks it is the same.

    Parameters
    ----------
    {seeds}
    ratios : {{"squared", "plain"}}, default "squared"
        Followers move, and rivals retreat, by the squared ratio of the winner's distance to theirs, or the plain one.

    Attributes
    ----------
    {seed_attributes}

    Notes
    -----
    After Algorithm 2 of Jia, Cheung and Liu, "Cooperative and penalized competitive learning with application to
    kernel-based clustering" (doi:10.1016/j.patcog.2014.03.010); the landmarks are ours. Where it works, see `CPCL`;
    where seeds do not meet, ``ratios="plain"`` often makes them, since followers then keep up better.

    Examples
    --------
    {blobs}
    >>> model = daskkcl.LandmarkCPCL(6, ratios="plain", eta=1e-3, n_landmarks=50, random_state=0).fit(X)
    >>> model.n_clusters_, model.cluster_sizes_
    (3, array([100, 100, 100]))
    """

    algorithm: ClassVar[str] = "lcpcl"

    eta: float = 1e-4


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class KernelCPCL(ExactMixin, _Cooperative):
    """Kernel CPCL, exact: seeds that find the number of clusters, the kernel matrix of all rows in memory.

    For small data, and as what `LandmarkCPCL` approximates. A run whose kernel matrix does not fit the memory limit is
    refused.

    Parameters
    ----------
    {seeds}
    ratios : {{"squared", "plain"}}, default "squared"
        Followers move, and rivals retreat, by the squared ratio of the winner's distance to theirs, or the plain one.

    Attributes
    ----------
    {seed_attributes}

    Notes
    -----
    Algorithm 2 of Jia, Cheung and Liu, "Cooperative and penalized competitive learning with application to
    kernel-based clustering" (doi:10.1016/j.patcog.2014.03.010), with its misprints put right (Eq. 17 and 22 to 24).
    Where it works, see `CPCL`; where seeds do not meet, ``ratios="plain"`` often makes them, since followers then keep
    up better. A recorded path holds the coefficients of the seeds over the rows.

    Examples
    --------
    {blobs}
    >>> model = daskkcl.KernelCPCL(6, ratios="plain", eta=1e-3, random_state=0).fit(X)
    >>> model.n_clusters_, model.cluster_sizes_
    (3, array([100, 100, 100]))
    """

    algorithm: ClassVar[str] = "kcpcl"
    _instead: ClassVar[str] = "lcpcl"
    _starts: ClassVar[tuple[str, ...]] = ("first", "d2")

    map: Any = field(init=False, default=None)
    landmarks: Any = field(init=False, default=None)
    n_landmarks: int | None = field(init=False, default=None)
    eta: float = 1e-4

    def _recorded(self, problem: Problem, settings: SeedSettings) -> int:
        return 2 * (settings.n_epochs + 1) * problem.c * (problem.n_rows + problem.c) if settings.record else 0

    def _run(self, setup: Setup, settings: SeedSettings, checkpoint: Checkpoint) -> Fitted:
        exact = load_exact(setup, self._more_rows(setup, settings.init))
        start = first_centres(setup, exact, settings.init, setup.problem.key.child("init").generator())
        variance = exact_variance(exact)
        walk = settings.walk(variance)
        centres, moves, path = kernel_compete(setup, exact, start, walk, checkpoint)
        A, counts = clusters_of_combinations(exact, centres, settings.merge_tol * variance**0.5)
        found = Found(exact_model(setup, exact, A, Nearest()), counts, setup.n_clusters)
        return self._fitted(found, moves, walk.rests(moves), path, settings)
