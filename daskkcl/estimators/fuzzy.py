"""Kernel fuzzy c-means."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import ConvergenceWarning, DaskkclWarning, InvalidInputError
from ..plan import Stage
from ..rules.fuzzy import Fuzzy, collapse_bound
from ..schedules.checkpoint import Checkpoint
from ..schedules.chunks import FAN_IN, FuzzySettings, online_fuzzy
from ..schedules.literal import online_fuzzy_literal
from ..schedules.setup import Problem, Setup
from ..schedules.start import check_init, place_centres, start_rows
from ..schedules.tasks import Model, Reader
from .base import Fitted, FuzzyMixin, KernelClusterer
from .common import documented
from .competitive import shuffle_stages
from .validation import check_choice, check_integer, check_real

__all__ = ["OnlineKFCM"]

_LITERAL_CHUNK, _CHUNK = 1000, 2048
_PAPER_FUZZIFIER = 1.7
_BOUND_ROWS = 500  # of the sample, for the bound on the fuzzifier


@dataclass(frozen=True, eq=False)
class _Settings:
    init: Any
    form: str
    extend: str
    fuzzifier: float | None
    tol: float
    max_iter: int
    n_init: int
    chunk_rows: int
    max_passes: int


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class OnlineKFCM(FuzzyMixin, KernelClusterer):
    """Online kernel fuzzy c-means (oKFCM): chunks are clustered apart, then their centres.

    Every chunk of rows gives a few weighted centres; those are clustered in turn, and all rows get their memberships
    from the final centres. One pass over the data, chunks in parallel, in memory that does not grow with them.

    Parameters
    ----------
    {common}
    form : {{"landmark", "literal"}}, default "landmark"
        ``"landmark"``: chunks of rows as they come; a chunk's centres are passed on exactly, with their masses, and
        merged in a tree. ``"literal"``: the published algorithm; chunks are random subsets with a kernel matrix of
        their own, and each centre is replaced by its nearest row.
    fuzzifier : float or "auto", default "auto"
        The exponent m > 1 of the memberships. ``"auto"`` is 1.7, or half-way from 1 to the bound above which all
        memberships become equal (1 / (1 - 2 lambda), lambda from the centred kernel matrix of the sample).
    chunk_size : int or "auto", default "auto"
        Rows of a chunk; 2,048 (literal: 1,000), or twenty times `n_clusters` if that is more.
    init : {{"sample", "d2", "random"}} or array, default "sample"
        Where the chunks' runs start: from centres found in a uniform sample of all rows; from greedy D² seeds or
        random rows of each chunk (``"sample"`` means ``"d2"`` in the literal form); or for all runs from given row
        numbers, labels (landmark form) or centre rows.
    n_init : int, default 3
        Seedings tried in the sample and in the final run (none when `init` gives the centres).
    tol : float, default 1e-3
        A run ends when no membership changes, squared, by more.
    max_iter : int, default 100
        The most iterations of a run.
    max_passes : int, default 1
        With more than one, the landmark form goes on with exact steps over all rows until the objective settles.
    extend : {{"centres", "prototypes"}}, default "centres"
        How the literal form places all rows: by distance to the final centres, or to single prototype rows as
        published.

    Attributes
    ----------
    {attributes}
    membership_ : array of shape (n_rows, n_clusters)
        Memberships, rows summing to 1. Lazy for lazy data.
    fuzzifier_ : float

    Notes
    -----
    Havens, Bezdek and Palaniswami, "Incremental kernel fuzzy c-means" (doi:10.1007/978-3-642-27534-0_1), Algorithm 6
    with its misprints put right: line 9 weighs prototypes by the column sums of U. The final step of the published
    algorithm grows with the number of chunks; the landmark form merges ten summaries into one wherever ten wait.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(5 * k, 1, (100, 2)) for k in range(3)])
    >>> model = daskkcl.OnlineKFCM(3, random_state=0).fit(X)
    >>> model.cluster_sizes_
    array([100, 100, 100])
    >>> model.membership_.sum(axis=1).round(6)[:3]
    array([1., 1., 1.])
    """

    algorithm: ClassVar[str] = "okfcm"

    form: str = "landmark"
    fuzzifier: float | str = "auto"
    chunk_size: int | str = "auto"
    n_init: int = 3
    tol: float = 1e-3
    max_iter: int = 100
    max_passes: int = 1
    extend: str = "centres"

    def _settings(self, problem: Problem) -> _Settings:
        source = problem.source
        form = check_choice("form", self.form, ("landmark", "literal"))
        init = check_init(self.init, source.n_rows, source.n_features, problem.n_clusters, ("sample", "d2", "random"))
        extend = check_choice("extend", self.extend, ("centres", "prototypes"))
        max_passes = check_integer("max_passes", self.max_passes, 1)
        if form == "landmark" and extend == "prototypes":
            raise InvalidInputError("extend='prototypes' goes with form='literal': landmark centres are exact.")
        if form == "literal":
            if max_passes > 1:
                raise InvalidInputError("max_passes goes with form='landmark'; the literal form is one pass.")
            if problem.recipe.name != "landmarks":
                raise InvalidInputError("form='literal' works on the kernel of the rows; leave out map=.")
            if not isinstance(init, str) and init.ndim == 1 and len(init) != problem.n_clusters:
                raise InvalidInputError("form='literal' starts from row numbers or centre rows, not from labels.")
        least = _CHUNK if form == "landmark" else _LITERAL_CHUNK
        chunk = (
            max(least, 20 * problem.c) if self.chunk_size == "auto" else check_integer("chunk_size", self.chunk_size, 1)
        )
        fuzzifier = None if self.fuzzifier == "auto" else check_real("fuzzifier", self.fuzzifier, 1)
        return _Settings(
            init=init,
            form=form,
            extend=extend,
            fuzzifier=fuzzifier,
            tol=check_real("tol", self.tol, 0),
            max_iter=check_integer("max_iter", self.max_iter, 1),
            n_init=check_integer("n_init", self.n_init, 1),
            chunk_rows=min(chunk, source.n_rows),
            max_passes=max_passes,
        )

    def _stages(self, problem: Problem, settings: _Settings) -> tuple[list[Stage], dict[str, int], int, int]:
        c, itemsize = problem.c, problem.dtype.itemsize
        keep = {"rows": problem.n_rows * problem.row_bytes if problem.source.lazy else 0}
        d, rows = problem.source.n_features, min(_BOUND_ROWS, problem.sample_rows)
        bound = Stage("fuzzifier", row_bytes=0, fixed_bytes=problem.map_bytes + 8 * rows * (8 * rows + 6 * d))
        if settings.form == "literal":
            n_prototypes = c * math.ceil(problem.n_rows / settings.chunk_rows)
            chunk_bytes = 8 * settings.chunk_rows * (4 * settings.chunk_rows + 8 * c + 6 * d)
            final_bytes = 8 * n_prototypes * (4 * n_prototypes + 8 * c + 6 * d)
            stages, scratch = shuffle_stages(
                problem,
                settings.chunk_rows,
                row_bytes=2 * problem.row_bytes,
                task_bytes=chunk_bytes,
                fixed_bytes=problem.map_bytes + final_bytes,
            )
            return [bound, *stages], keep, 1, scratch
        run_bytes = settings.chunk_rows * (problem.measured_bytes + c * (9 * itemsize + 2))
        waiting = FAN_IN * 4 * c * (problem.n_measurements + 2) * 8
        stage = problem.stage(
            "chunks",
            quantum=settings.chunk_rows,
            task_bytes=run_bytes + problem.tile_bytes + problem.sums_bytes,
            fixed_bytes=problem.map_bytes + waiting,
        )
        return [bound, stage], keep, 1, 0

    def _run(self, setup: Setup, settings: _Settings, checkpoint: Checkpoint) -> Fitted:
        fuzzifier = self._resolve_fuzzifier(setup, settings)
        named = isinstance(settings.init, str)
        run_settings = FuzzySettings(
            n_clusters=setup.n_clusters,
            fuzzifier=fuzzifier,
            tol=settings.tol,
            max_iter=settings.max_iter,
            n_init=settings.n_init,
            chunk_rows=settings.chunk_rows,
            seeding=settings.init if named else "given",
            max_passes=settings.max_passes,
        )
        if settings.form == "literal":
            rows = start_rows(setup, settings.init)
            kernel = setup.map_.kernel
            result = online_fuzzy_literal(setup, kernel, rows, run_settings, settings.extend, checkpoint)
        else:
            start = None
            if not named or settings.init == "sample":
                start = place_centres(setup, settings.init, None, settings.n_init).centres
            result = online_fuzzy(setup, start, run_settings, checkpoint)
        if not result.converged:
            warnings.warn(
                f"{type(self).__name__}: the final run was still moving after {result.n_iter} iterations "
                f"(max_iter={settings.max_iter}, max_passes={settings.max_passes}).",
                ConvergenceWarning,
                stacklevel=3,
            )
        reader = Reader(result.map_, setup.problem.tile_rows, setup.problem.nan)
        model = Model(reader, result.centres, Fuzzy(fuzzifier))
        attributes = {"fuzzifier_": fuzzifier}
        return Fitted(model, result.history, result.n_iter, result.converged, attributes=attributes)

    def _resolve_fuzzifier(self, setup: Setup, settings: _Settings) -> float:
        """Return the fuzzifier, below the bound of collapse unless the user insists."""
        rows = setup.sample[:_BOUND_ROWS].astype(np.float64)
        kernel = getattr(setup.map_, "kernel", None)
        K = (rows - rows.mean(axis=0)) @ (rows - rows.mean(axis=0)).T if kernel is None else kernel(rows, rows)
        bound = collapse_bound(K)
        if settings.fuzzifier is None:
            return min(_PAPER_FUZZIFIER, 1 + 0.5 * (bound - 1))
        if settings.fuzzifier > bound:
            warnings.warn(
                f"fuzzifier={settings.fuzzifier:g} is above {bound:.3g}, where all memberships tend to 1/n_clusters on "
                f"these data with this kernel; try {1 + 0.5 * (bound - 1):.3g} or fuzzifier='auto'.",
                DaskkclWarning,
                stacklevel=4,
            )
        return settings.fuzzifier
