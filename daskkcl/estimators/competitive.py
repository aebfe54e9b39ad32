"""Frequency-sensitive competitive learning: KCL (exact), AKCL (row by row), PAKCL (subset by subset)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..blocks.shuffle import bucket_bytes, run_bytes
from ..planning import Stage
from ..random import FixedOrder
from ..rules.competitive import PUBLISHED_RATES, Rates, Winners, piece_rows
from ..rules.coordinates import Coordinates
from ..rules.crisp import FrequencySensitive, Nearest
from ..rules.sequential import Seeds, SequentialRule, warm_up
from ..schedules.checkpoint import Checkpoint
from ..schedules.dealt import is_dealt
from ..schedules.exact import exact_model, first_centres, kernel_compete, load_exact
from ..schedules.few_rows import are_few, compete_in_memory, few_rows_bytes
from ..schedules.problem import Problem
from ..schedules.sequential import SequentialWalk, compete_row_by_row
from ..schedules.setup import Setup
from ..schedules.start import check_init, place_centres
from ..schedules.subsets import Walk, compete_in_subsets, default_walk, measured_together
from ..schedules.tasks import Model
from .base import Fitted, KernelClusterer
from .common import documented
from .competitive_stream import CompetitiveStream
from .exact import ExactMixin
from .validation import check_choice, check_integer, check_order, check_real

__all__ = ["AKCL", "KCL", "PAKCL", "sequential_stages", "shuffle_stages"]

# A subset moves a centre towards the mean of all that it won: smaller steps than were published, and none too small,
# lose little on digits, and part the clusters of words better (docs/sparse.md).
SUBSET_RATES = Rates(0.2, 0.01)
_SUBSETS_BYTES = 8 * 2**20  # of subsets measured together: more leave the cache before they are met
_RULE = SequentialRule("frequency_sensitive")
_ROWS_OF_AN_UPDATE = 150  # rows met one at a time that are worth a subset update


@dataclass(frozen=True, eq=False)
class _Settings:
    init: Any
    subset_rows: int
    n_epochs: int
    tol: float
    rates: Rates
    order: FixedOrder | None
    labels: str
    few: bool = False  # rows, so that they are all measured once

    def walk(self) -> SequentialWalk:
        """Return how rows are met one at a time."""
        return SequentialWalk(_RULE, self.rates, self.n_epochs, self.tol, strict=True, order=self.order)


def shuffle_stages(problem: Problem, subset_rows: int, **subset_costs: int) -> tuple[list[Stage], int]:
    """Return the stages that meet rows in random order, and the scratch an external shuffle takes."""
    costs = {"quantum": subset_rows, "lookahead": 2, "unit_rows": 1, "unit_bytes": 0, **subset_costs}
    subsets = problem.stage("subsets", **costs, readers=0)  # who waits for a bucket waits for the others too
    if problem.in_memory and (problem.read or not problem.recipe.code_bytes):  # codes may have to go to scratch
        return [subsets], 0
    bucket = bucket_bytes(problem.n_rows, problem.row_bytes, problem.memory_limit or 2**40)
    shuffling = problem.stage("shuffling", row_bytes=2 * problem.row_bytes + 48, task_bytes=0, block_bytes=bucket)
    # two buckets in turn, and the pieces of the one being read
    subsets = replace(subsets, fixed_bytes=subsets.fixed_bytes + 3 * bucket)
    scratch = run_bytes(problem.n_rows, problem.row_bytes)
    return [shuffling, subsets], scratch


def sequential_stages(problem: Problem, n_orders: int = 1, recorded: int = 0) -> tuple[list[Stage], int]:
    """Return the stages that meet rows one at a time, and the scratch an external shuffle takes."""
    itemsize, m = problem.dtype.itemsize, problem.n_measurements
    root = (8 + 2 * itemsize) * m * m if problem.recipe.name == "landmarks" else 0
    return shuffle_stages(
        problem,
        problem.tile_rows,
        row_bytes=2 * problem.row_bytes + (m + 1) * itemsize + 8,  # read and cut; coordinates; positions
        task_bytes=problem.tile_bytes + problem.tile_rows * problem.measured_bytes + problem.centres_bytes,
        fixed_bytes=problem.map_bytes + root + n_orders * 16 * problem.n_rows + 8 * recorded,
    )


@dataclass(eq=False, repr=False, kw_only=True)
class _Competitive(KernelClusterer):
    """What KCL, AKCL and PAKCL share."""

    watches: ClassVar[str] = "squared moves of the centres"

    _starts: ClassVar[tuple[str, ...]] = ("random-labels", "random-labels-all", "sample", "d2", "random")
    _paper_start: ClassVar[str] = "random-labels-all"

    max_epochs: int | str = "auto"
    rate_start: float | None = None
    rate_end: float | None = None
    tol: float = 1e-4
    labels: str = "frequency"
    order: Any = None
    preset: str | None = None

    def _settings(self, problem: Problem) -> _Settings:
        source, subset = problem.source, getattr(self, "subset_size", 1)
        paper = self.preset is not None and check_choice("preset", self.preset, ("paper",)) == "paper"
        rows = None if subset == "auto" else check_integer("subset_size", subset, 1)
        epochs = None if self.max_epochs == "auto" else check_integer("max_epochs", self.max_epochs, 1)
        if paper:  # what was left open is as published; what was given stays
            rows, epochs = rows or 1000, epochs or 100
        rows, n_epochs = default_walk(source.n_rows, rows, epochs, problem.n_clusters)
        if subset == 1:  # a subset of one row is AKCL too: as many epochs as that
            _, n_epochs = default_walk(source.n_rows, max(rows, _ROWS_OF_AN_UPDATE), epochs)
        init = self._paper_start if paper and self.init is None else self.init
        return _Settings(
            init=check_init(init, source.n_rows, source.n_features, problem.n_clusters, self._starts),
            subset_rows=min(rows, source.n_rows),
            n_epochs=n_epochs,
            tol=check_real("tol", self.tol, 0, closed=True),
            rates=self._rates(PUBLISHED_RATES if paper or rows == 1 else SUBSET_RATES),
            order=check_order(self.order, source.n_rows),
            labels=check_choice("labels", self.labels, ("frequency", "nearest")),
        )

    def _rates(self, usual: Rates) -> Rates:
        """Return the learning rates that were given, or the usual ones."""
        start = usual.start if self.rate_start is None else check_real("rate_start", self.rate_start, 0, 1)
        end = min(usual.end, start) if self.rate_end is None else check_real("rate_end", self.rate_end, 0, start)
        return Rates(start, end)

    def _fitted(self, model: Model, counts: Any, moves: Any, settings: _Settings) -> Fitted:
        self._win_counts = counts
        n_iter = len(moves)
        converged = n_iter == settings.n_epochs or moves[-1] < settings.tol
        return Fitted(model, tuple(moves), n_iter, converged)

    def _renumber(self, order: Any) -> dict[str, Any]:
        return {"win_counts_": self.__dict__.pop("_win_counts")[order]}


def _rule(settings: _Settings, counts: Any) -> Any:
    return FrequencySensitive(tuple(np.asarray(counts).tolist())) if settings.labels == "frequency" else Nearest()


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PAKCL(CompetitiveStream, _Competitive):
    """Pseudo-parallel approximate kernel competitive learning: balanced kernel clusters in about one pass.

    Rows are met in random subsets. Within a subset the winner of a row is the centre of least distance *times how
    often it has won*, so that busy centres win less and clusters come out balanced; then every centre moves by the
    learning rate towards the mean of the rows it won.

    Parameters
    ----------
    {common}
    {competitive}
    subset_size : int or "auto", default "auto"
        Rows that meet the same centres; ``"auto"`` makes about a thousand subsets of a pass (100 to 8,192 rows), of 512
        clusters and more at least two rows a cluster.
    {nearest}

    Attributes
    ----------
    {attributes}
    win_counts_ : ndarray of shape (n_clusters,)
        How often each centre has won, in the order of the clusters.

    Notes
    -----
    Algorithm 2 of Wu, Zheng and Lai, "Approximate kernel competitive learning" (doi:10.1016/j.neunet.2014.11.003),
    in the dual form: a centre is the mean measurement of its rows, so no projection is formed (but of few rows that are
    met in many epochs, where it costs less). ``history_`` holds the squared moves of each epoch.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(6 * k, 1, (100, 2)) for k in range(3)])
    >>> model = daskkcl.PAKCL(3, random_state=0).fit(X)
    >>> model.cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "pakcl"
    settles_late: ClassVar[bool] = True
    # Where all rows are about as far from one another, means of random labels are alike, frequencies decide who wins,
    # and centres may never part: the first start is one where they are apart.
    _starts: ClassVar[tuple[str, ...]] = ("sample", "random-labels", "random-labels-all", "d2", "random")

    subset_size: int | str = "auto"
    nearest: str = "auto"

    def _settings(self, problem: Problem) -> _Settings:
        settings = super()._settings(problem)
        return replace(settings, few=are_few(problem, settings.subset_rows, settings.n_epochs))

    def _stages(self, problem: Problem, settings: _Settings) -> tuple[list[Stage], dict[str, int], int, int]:
        if settings.few:
            held = problem.map_bytes + few_rows_bytes(problem, settings.subset_rows)
            return [Stage("subsets", row_bytes=0, fixed_bytes=held)], {}, 1, 0
        rows, itemsize = settings.subset_rows, problem.dtype.itemsize
        dealt = is_dealt(rows, problem.c, problem.whole_rows)
        if dealt:  # met piece by piece
            rows = piece_rows(problem.c)
        met = 0 if problem.many else problem.c * (2 * itemsize + 8)  # of many centres, a slice of rows at a time
        one_subset = rows * (met + problem.measured_bytes + 16)  # distances, winners, valid rows
        stages, scratch = shuffle_stages(
            problem,
            rows,
            row_bytes=(4 if dealt else 2) * problem.row_bytes + problem.measured_bytes,  # a part lies in two buckets
            task_bytes=problem.tile_bytes + problem.sums_bytes + one_subset,
            fixed_bytes=problem.map_bytes + (0 if settings.order is None else 16 * problem.n_rows),
            quantum=measured_together(rows, problem.tile_rows),
            block_bytes=_SUBSETS_BYTES,
        )
        keep = {"rows": problem.rows_bytes}
        return stages, keep, 1, scratch

    def _shuffles(self, settings: _Settings) -> bool:
        return settings.order is None and settings.n_epochs > 0 and not settings.few

    def _run(self, setup: Setup, settings: _Settings, checkpoint: Checkpoint) -> Fitted:
        indexed, compete = setup.problem.indexed, compete_in_subsets
        start = place_centres(setup, settings.init, None, n_init=3)
        if settings.few:
            compete = partial(compete_in_memory, coordinates=Coordinates.of(setup.map_))
        walk = Walk(settings.subset_rows, settings.n_epochs, settings.tol, settings.rates, settings.order, indexed)
        state, moves = compete(setup, Winners(start.centres, start.counts), walk, checkpoint)
        model = Model.of(setup.reader, state.centres, _rule(settings, state.counts), indexed)
        return self._fitted(model, state.counts, moves, settings)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class AKCL(CompetitiveStream, _Competitive):
    """Approximate kernel competitive learning: balanced kernel clusters, one row at a time.

    The winner of a row is the centre of least distance *times how often it has won*, so that busy centres win less
    and clusters come out balanced; it moves by the learning rate towards the row's projection on the landmarks' span.
    `PAKCL` does the same subset by subset, at a fraction of the time.

    Parameters
    ----------
    {common}
    {competitive}

    Attributes
    ----------
    {attributes}
    win_counts_ : ndarray of shape (n_clusters,)
        How often each centre has won, in the order of the clusters.

    Notes
    -----
    Algorithm 1 of Wu, Zheng and Lai, "Approximate kernel competitive learning" (doi:10.1016/j.neunet.2014.11.003), in
    explicit coordinates of the landmarks' span. What of a row lies outside the span counts in its distances: it does
    not cancel once they are multiplied by frequencies. ``history_`` holds the squared moves of each epoch.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(6 * k, 1, (100, 2)) for k in range(3)])
    >>> model = daskkcl.AKCL(3, random_state=0).fit(X)
    >>> model.cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "akcl"

    def _settings(self, problem: Problem) -> _Settings:
        settings = super()._settings(problem)
        warm_up(_RULE, problem.dtype)
        return settings

    def _stages(self, problem: Problem, settings: _Settings) -> tuple[list[Stage], dict[str, int], int, int]:
        stages, scratch = sequential_stages(problem, 0 if settings.order is None else 1)
        keep = {"rows": problem.rows_bytes}
        return stages, keep, 1, scratch

    def _run(self, setup: Setup, settings: _Settings, checkpoint: Checkpoint) -> Fitted:
        coordinates = Coordinates.of(setup.map_)
        start = place_centres(setup, settings.init, None, n_init=3)
        seeds = Seeds.start(coordinates.of_means(start.centres.means), start.counts)
        result = compete_row_by_row(setup, coordinates, seeds, settings.walk(), checkpoint)
        counts = result.seeds.counts
        model = Model(setup.reader, coordinates.centres(result.seeds.centres), _rule(settings, counts))
        return self._fitted(model, counts, result.moves, settings)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class KCL(ExactMixin, _Competitive):
    """Kernel competitive learning, exact: the kernel matrix of all rows in memory.

    For small data, and as what `AKCL` and `PAKCL` approximate. A run whose kernel matrix does not fit the memory
    limit is refused.

    Parameters
    ----------
    {common}
    {competitive}

    Attributes
    ----------
    {attributes}
    win_counts_ : ndarray of shape (n_clusters,)
        How often each centre has won, in the order of the clusters.

    Notes
    -----
    Section 2.1 of Wu, Zheng and Lai, "Approximate kernel competitive learning" (doi:10.1016/j.neunet.2014.11.003).
    The fitted model holds all rows: `predict` takes their kernel with the new ones. ``history_`` holds the squared
    moves of each epoch.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(6 * k, 1, (100, 2)) for k in range(3)])
    >>> model = daskkcl.KCL(3, random_state=0).fit(X)
    >>> model.cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "kcl"
    _starts: ClassVar[tuple[str, ...]] = ("random-labels", "d2", "random")  # random labels are for all rows anyway
    _paper_start: ClassVar[str] = "random-labels"

    map: Any = field(init=False, default=None)
    landmarks: Any = field(init=False, default=None)
    n_landmarks: int | None = field(init=False, default=None)

    def _run(self, setup: Setup, settings: _Settings, checkpoint: Checkpoint) -> Fitted:
        exact = load_exact(setup, self._more_rows(setup, settings.init))
        start = first_centres(setup, exact, settings.init, setup.problem.key.child("init").generator())
        centres, moves, _ = kernel_compete(setup, exact, start, settings.walk(), checkpoint)
        rule = _rule(settings, centres.counts)
        return self._fitted(exact_model(setup, exact, centres.A, rule), centres.counts, moves, settings)
