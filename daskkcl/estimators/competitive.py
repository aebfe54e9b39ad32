"""Competitive learning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..blocks.shuffle import bucket_bytes, run_bytes
from ..blocks.sources import ArraySource
from ..plan import Stage
from ..rules.competitive import Rates, Winners
from ..rules.crisp import Nearest
from ..schedules.checkpoint import Checkpoint
from ..schedules.setup import Problem, Setup
from ..schedules.start import check_init, place_centres
from ..schedules.subsets import Walk, compete_in_subsets, default_walk
from ..schedules.tasks import Model
from .base import Fitted, KernelClusterer
from .common import documented
from .validation import check_choice, check_integer, check_real

__all__ = ["PAKCL", "shuffle_stages"]


@dataclass(frozen=True, eq=False)
class _Settings:
    init: Any
    walk: Walk
    labels: str


def shuffle_stages(problem: Problem, subset_rows: int, **subset_costs: int) -> tuple[list[Stage], int]:
    """Return the stages that meet rows in random order, and the scratch an external shuffle takes."""
    subsets = problem.stage(
        "subsets", **{"quantum": subset_rows, "lookahead": 2, "unit_rows": 1, "unit_bytes": 0, **subset_costs}
    )
    if isinstance(problem.source, ArraySource) and not problem.recipe.code_bytes:  # codes may have to go to scratch
        return [subsets], 0
    bucket = bucket_bytes(problem.n_rows, problem.row_bytes, problem.memory_limit or 2**40)
    shuffling = problem.stage("shuffling", row_bytes=2 * problem.row_bytes + 48, task_bytes=0, block_bytes=bucket)
    # two buckets in turn, and the pieces of the one being read
    subsets = replace(subsets, fixed_bytes=subsets.fixed_bytes + 3 * bucket)
    scratch = run_bytes(problem.n_rows, problem.source.n_features, problem.source.dtype.itemsize)
    return [shuffling, subsets], scratch


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PAKCL(KernelClusterer):
    """Pseudo-parallel approximate kernel competitive learning: balanced kernel clusters in about one pass.

    Rows are met in random subsets. Within a subset the winner of a row is the centre of least distance *times how
    often it has won*, so that busy centres win less and clusters come out balanced; then every centre moves by the
    learning rate towards the mean of the rows it won.

    Parameters
    ----------
    {common}
    init : {{"random-labels", "sample", "d2", "random"}} or array, default "random-labels"
        Random labels for the rows of a uniform sample, their means as centres and their counts as first wins; or as
        for `ApproxKernelKMeans`: row numbers, a label for every row, or centre rows.
    subset_size : int or "auto", default "auto"
        Rows that meet the same centres; ``"auto"`` makes about a thousand subsets of a pass (100 to 4,000 rows).
    max_epochs : int or "auto", default "auto"
        Passes over the rows; ``"auto"`` gives at least 600 subset updates, which is one pass on large data.
    rate_start, rate_end : float, default 1 and 1e-5
        Learning rate at the beginning and the end; it falls geometrically over all epochs.
    tol : float, default 1e-4
        Stop after an epoch over which the squared moves of all centres sum to less.
    labels : {{"frequency", "nearest"}}, default "frequency"
        Label rows by the frequency-weighted winner, as published, or by the nearest centre.

    Attributes
    ----------
    {attributes}
    win_counts_ : ndarray of shape (n_clusters,)
        How often each centre has won, in the order of the clusters.

    Notes
    -----
    Algorithm 2 of Wu, Zheng and Lai, "Approximate kernel competitive learning" (doi:10.1016/j.neunet.2014.11.003),
    in the dual form: a centre is the mean measurement of its rows, so no projection is ever formed. ``history_``
    holds the squared moves of each epoch. The paper's settings are ``subset_size=1000, max_epochs=100`` and random
    labels for all rows (``init=`` an array of them).

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

    subset_size: int | str = "auto"
    max_epochs: int | str = "auto"
    rate_start: float = 1.0
    rate_end: float = 1e-5
    tol: float = 1e-4
    labels: str = "frequency"

    def _settings(self, problem: Problem) -> _Settings:
        source = problem.source
        named = ("random-labels", "sample", "d2", "random")
        start = check_real("rate_start", self.rate_start, 0, 1)
        subset = None if self.subset_size == "auto" else check_integer("subset_size", self.subset_size, 1)
        epochs = None if self.max_epochs == "auto" else check_integer("max_epochs", self.max_epochs, 1)
        subset_rows, n_epochs = default_walk(source.n_rows, subset, epochs)
        return _Settings(
            init=check_init(self.init, source.n_rows, source.n_features, problem.n_clusters, named),
            walk=Walk(
                subset_rows=min(subset_rows, source.n_rows),
                n_epochs=n_epochs,
                tol=check_real("tol", self.tol, 0, closed=True),
                rates=Rates(start, check_real("rate_end", self.rate_end, 0, start)),
            ),
            labels=check_choice("labels", self.labels, ("frequency", "nearest")),
        )

    def _stages(self, problem: Problem, settings: _Settings) -> tuple[list[Stage], dict[str, int], int, int]:
        rows, itemsize = settings.walk.subset_rows, problem.dtype.itemsize
        one_subset = rows * (problem.c * (2 * itemsize + 8) + problem.measured_bytes)  # distances, winners, valid rows
        stages, scratch = shuffle_stages(
            problem,
            rows,
            row_bytes=2 * problem.row_bytes + problem.measured_bytes,
            task_bytes=problem.tile_bytes + problem.sums_bytes + one_subset,
        )
        keep = {"rows": problem.n_rows * problem.row_bytes if problem.source.lazy else 0}
        return stages, keep, 1, scratch

    def _run(self, setup: Setup, settings: _Settings, checkpoint: Checkpoint) -> Fitted:
        start = place_centres(setup, settings.init, None, n_init=3)
        result = compete_in_subsets(setup, Winners(start.centres, start.counts), settings.walk, checkpoint)
        state = result.state
        rule = state.rule if settings.labels == "frequency" else Nearest()
        self._win_counts = state.counts
        return Fitted(Model(setup.reader, state.centres, rule), result.moves, result.n_iter, result.converged)

    def _renumber(self, order: Any) -> dict[str, Any]:
        return {"win_counts_": self.__dict__.pop("_win_counts")[order]}
