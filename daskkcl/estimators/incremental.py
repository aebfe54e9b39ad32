"""Kernel fuzzy c-means piece by piece: of a sample, chunk after chunk, or chunks apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import InvalidInputError, MemoryLimitError
from ..planning import Plan, Stage
from ..schedules.checkpoint import Checkpoint
from ..schedules.chunks import FAN_IN, online_fuzzy
from ..schedules.engine import Engine
from ..schedules.fuzzy import FuzzyResult, FuzzySettings, sample_fuzzy
from ..schedules.literal import Literal, online_literal, sample_literal, single_pass_literal
from ..schedules.problem import Problem
from ..schedules.setup import Setup
from ..schedules.single import single_pass_fuzzy
from ..schedules.start import place_centres, start_rows
from .common import documented
from .competitive import shuffle_stages
from .fuzzy_base import FuzzyClusterer, Resolved
from .fuzzy_stream import FuzzyStream
from .literal_costs import check_literal_start, labelling_stage, matrix_bytes, placing_problem
from .validation import check_choice, check_integer, check_real

__all__ = ["OnlineKFCM", "RandomSampleKFCM", "SinglePassKFCM"]

_LITERAL_ROWS, _CHUNK_ROWS, _SAMPLE_ROWS = 1000, 2048, 10_000
_PASSES = 10  # exact ones that follow a sample


def _copies(problem: Problem) -> int:
    """Return how often a run holds the measurements of its rows: once more where some of them have no weight."""
    return 2 if problem.weights is not None or problem.nan == "drop" else 1


@dataclass(eq=False, repr=False, kw_only=True)
class _Incremental(FuzzyClusterer):
    """What the three share: two forms, and how the literal one places rows."""

    form: str = "landmark"
    extend: str = "centres"

    def _by_measurements(self) -> bool:
        """Say whether rows count by their measurements, or by the kernel between them."""
        return self.form == "landmark"

    def _resolve(self, problem: Problem, **own: Any) -> Resolved:
        form = check_choice("form", self.form, ("landmark", "literal"))
        extend = check_choice("extend", self.extend, ("centres", "prototypes"))
        settings = self._common(problem, form=form, extend=extend, **own)
        if form == "literal":
            if problem.recipe.name != "landmarks" or self.n_landmarks is not None or self.landmarks is not None:
                raise InvalidInputError(
                    "form='literal' works on the kernel of the rows: leave out map=, landmarks= and n_landmarks=."
                )
            check_literal_start(settings.init, problem.n_clusters)
        return settings

    def _rows(self, name: str, problem: Problem, least: int) -> int:
        """Return `chunk_size` or `sample_size` as a number of rows."""
        value = getattr(self, name)
        if isinstance(value, str):
            check_choice(name, value, ("auto",))
            return min(problem.n_rows, max(least, 20 * problem.c))
        if isinstance(value, (float, np.floating)):
            return math.ceil(check_real(name, value, 0, 1) * problem.n_rows)
        return min(problem.n_rows, check_integer(name, value, 1))

    def _passes(self, default: int, least: int) -> dict[str, Any]:
        """Return `max_passes` as a number, and whether the user gave it."""
        value = self.max_passes
        if isinstance(value, str):
            check_choice("max_passes", value, ("auto",))
            return {"max_passes": default, "passes_asked_for": False}
        number = check_integer("max_passes", value, least)
        if self.form == "literal" and number > 1:
            raise InvalidInputError("max_passes goes with form='landmark'; the literal form reads the data once.")
        return {"max_passes": number}

    def _literal(self, setup: Setup, settings: Resolved, run: FuzzySettings, n_objects: int) -> Literal:
        tile_rows = placing_problem(setup.problem, n_objects).tile_rows
        kernel = setup.map_.kernel
        return Literal(kernel, start_rows(setup, settings.init), run, settings.extend, tile_rows)

    def _n_objects(self, problem: Problem, settings: Resolved) -> int:
        """Return the most rows that the final centres of the literal form are made of."""
        return problem.c

    def _plan(self, problem: Problem, engine: Engine, settings: Resolved, writes: bool = False) -> Plan:
        try:
            return super()._plan(problem, engine, settings, writes)
        except MemoryLimitError as error:
            if settings.form == "landmark":
                raise
            raise MemoryLimitError(
                f"{error} The literal form holds the kernel matrices of chunks or a sample, and of all prototypes: "
                "form='landmark' takes less.",
                needed_bytes=error.needed_bytes,
                allowed_bytes=error.allowed_bytes,
            ) from None

    def _keep(self, problem: Problem) -> dict[str, int]:
        return {"rows": problem.rows_bytes}

    def _literal_chunk_stages(
        self, problem: Problem, settings: Resolved, final_rows: int
    ) -> tuple[list[Stage], dict[str, int], int, int]:
        """Return the stages of a literal algorithm that meets chunks, and its last run."""
        c, d = problem.c, problem.cells
        costs = {
            "row_bytes": 2 * problem.row_bytes,
            "task_bytes": matrix_bytes(settings.chunk_rows + 2 * c, c, d),
            "fixed_bytes": problem.map_bytes + matrix_bytes(final_rows, c, d),
        }
        own = [self._bound_stage(problem), labelling_stage(problem, self._n_objects(problem, settings))]
        stages, scratch = self._chunk_stages(problem, settings, costs)
        return [*own, *stages], self._keep(problem), 1, scratch

    def _chunk_stages(self, problem: Problem, settings: Resolved, costs: dict[str, int]) -> tuple[list[Stage], int]:
        if settings.order == "random":
            return shuffle_stages(problem, settings.chunk_rows, **costs)
        return [problem.stage("chunks", quantum=settings.chunk_rows, lookahead=2, **costs)], 0


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class RandomSampleKFCM(_Incremental):
    """Random sample and extend kernel fuzzy c-means (rseKFCM): cluster a sample, then place all rows.

    The landmark form goes on from the sample's centres with exact steps over all rows until the objective settles.

    Parameters
    ----------
    {common}
    form : {{"landmark", "literal"}}, default "landmark"
        ``"landmark"``: centres in the span of the landmarks, improved by exact passes. ``"literal"``: the published
        algorithm, on the kernel matrix of the sample; it has no use for landmarks.
    sample_size : int, float or "auto", default "auto"
        Rows of the sample, or their share of all rows; 10,000 (literal: 1,000), or twenty times `n_clusters` if that
        is more.
    init : {{"d2", "random"}} or array, default "d2"
        Where runs on the sample start: greedy D² seeds (k-means++ in feature space) or random rows of the sample; or
        given row numbers, labels (landmark form) or centre rows.
    n_init : int, default 3
        Seedings tried on the sample; the run of lowest J is kept. One when `init` gives the start.
    {fuzzy}
    max_passes : int or "auto", default "auto"
        The most exact passes over the data after the sample (landmark form); ``"auto"`` is ten, and warns when the
        objective still falls then. 0 stays with the centres of the sample.
    extend : {{"centres", "prototypes"}}, default "centres"
        How all rows are placed in the end: by distance to the final centres, or to single prototype rows, as the
        literal form was published. Prototypes of the landmark form take a further pass, and stand where their
        projections are.

    Attributes
    ----------
    {attributes}
    {fuzzy_attributes}

    Notes
    -----
    Havens, Bezdek and Palaniswami, "Incremental kernel fuzzy c-means" (doi:10.1007/978-3-642-27534-0_1), Algorithm 4,
    whose P indexes the sample. The sample is uniform over the rows of positive weight, which bring their weights along.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(5 * k, 1, (100, 2)) for k in range(3)])
    >>> model = daskkcl.RandomSampleKFCM(3, sample_size=0.2, random_state=0).fit(X)
    >>> model.cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "rsekfcm"

    sample_size: int | float | str = "auto"
    max_passes: int | str = "auto"

    def _settings(self, problem: Problem) -> Resolved:
        least = _SAMPLE_ROWS if self.form == "landmark" else _LITERAL_ROWS
        rows = self._rows("sample_size", problem, least)
        if problem.n_clusters is not None and rows < problem.n_clusters:
            raise InvalidInputError(
                f"sample_size={self.sample_size!r} makes a sample of {rows} rows, fewer than "
                f"n_clusters={problem.n_clusters}; pass a larger one."
            )
        return self._resolve(problem, sample_rows=rows, **self._passes(_PASSES, 0))

    def _n_objects(self, problem: Problem, settings: Resolved) -> int:
        return settings.sample_rows + problem.c if settings.extend == "centres" else problem.c

    def _stages(self, problem: Problem, settings: Resolved) -> tuple[list[Stage], dict[str, int], int, int]:
        c, d, s, itemsize = problem.c, problem.cells, settings.sample_rows, problem.dtype.itemsize
        gathered = s * (2 * problem.row_bytes + 32)
        if settings.form == "literal":
            run = matrix_bytes(s + c, c, d)
            own = [labelling_stage(problem, self._n_objects(problem, settings))]
        else:
            run, own = s * (2 * problem.measured_bytes + c * (9 * itemsize + 10)), []
        sample = Stage("sample", row_bytes=0, fixed_bytes=problem.map_bytes + gathered + run)
        return [self._bound_stage(problem), sample, *own], self._keep(problem), 1, 0

    def _work(self, setup: Setup, settings: Resolved, checkpoint: Checkpoint) -> tuple[FuzzyResult, Any]:
        run = self._run_settings(setup.n_clusters, settings)
        if settings.form == "literal":
            literal = self._literal(setup, settings, run, self._n_objects(setup.problem, settings))
            return sample_literal(setup, literal, settings.sample_rows, checkpoint), None
        start = None if settings.named else place_centres(setup, settings.init, None, 1).centres
        return sample_fuzzy(setup, start, run, settings.sample_rows, checkpoint), None


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SinglePassKFCM(FuzzyStream, _Incremental):
    """Single-pass kernel fuzzy c-means (spKFCM): chunk after chunk, the centres so far joining the next one.

    `partial_fit` takes a stream of unknown length in bounded memory.

    Parameters
    ----------
    {common}
    form : {{"landmark", "literal"}}, default "landmark"
        ``"landmark"``: a centre joins the next chunk exactly, with the mass of all it stands for. ``"literal"``: the
        published algorithm; chunks have a kernel matrix of their own, and each centre is replaced by its nearest row;
        it has no use for landmarks.
    order : {{"random", "arrival"}}, default "random"
        How `fit` meets the rows: in a fair random order, which needs a shuffle, or as they come. Rows sorted by class
        ruin a single pass; `partial_fit` has no choice.
    chunk_size : int, float or "auto", default "auto"
        Rows of a chunk, or their share of all rows; 2,048 (literal: 1,000), or twenty times `n_clusters` if that is
        more.
    init : {{"d2", "random"}} or array, default "d2"
        Where the first run starts, and a second attempt in every chunk: greedy D² seeds (k-means++ in feature space)
        or random rows. Given row numbers, labels (landmark form) or centre rows start the first run only, and every
        other goes on from the one before.
    n_init : int, default 3
        Seedings tried in the first chunk (literal: in every chunk); the run of lowest J is kept. One when `init`
        gives the start.
    {fuzzy}
    max_passes : int, default 1
        With more than one, the landmark form goes on with exact steps over all rows until the objective settles.
    extend : {{"centres", "prototypes"}}, default "centres"
        How all rows are placed in the end: by distance to the final centres, or to single prototype rows, as the
        literal form was published. Prototypes of the landmark form take a further pass, and stand where their
        projections are.

    Attributes
    ----------
    {attributes}
    {fuzzy_attributes}

    Notes
    -----
    Havens, Bezdek and Palaniswami, "Incremental kernel fuzzy c-means" (doi:10.1007/978-3-642-27534-0_1), Algorithm 5
    with its misprints put right: line 9 weighs a prototype by ``sum w u``.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.permutation(np.concatenate([rng.normal(5 * k, 1, (100, 2)) for k in range(3)]))
    >>> model = daskkcl.SinglePassKFCM(3, chunk_size=50, random_state=0)
    >>> for block in np.split(X, 6):
    ...     model = model.partial_fit(block)
    >>> np.bincount(model.predict(X))
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "spkfcm"

    order: str = "random"
    chunk_size: int | float | str = "auto"
    max_passes: int = 1

    def _settings(self, problem: Problem) -> Resolved:
        order = check_choice("order", self.order, ("random", "arrival"))
        rows = self._rows("chunk_size", problem, _CHUNK_ROWS if self.form == "landmark" else _LITERAL_ROWS)
        return self._resolve(problem, order=order, chunk_rows=rows, **self._passes(1, 1))

    def _n_objects(self, problem: Problem, settings: Resolved) -> int:
        return settings.chunk_rows + 2 * problem.c if settings.extend == "centres" else problem.c

    def _stages(self, problem: Problem, settings: Resolved) -> tuple[list[Stage], dict[str, int], int, int]:
        if settings.form == "literal":
            return self._literal_chunk_stages(problem, settings, 0)
        c, itemsize, rows = problem.c, problem.dtype.itemsize, settings.chunk_rows + problem.c
        costs = {
            "row_bytes": 2 * problem.row_bytes + problem.measured_bytes + 16,
            "task_bytes": rows * (_copies(problem) * problem.measured_bytes + c * (9 * itemsize + 10))
            + rows * problem.measured_bytes
            + problem.tile_bytes,
            "fixed_bytes": problem.map_bytes + problem.centres_bytes,
        }
        stages, scratch = self._chunk_stages(problem, settings, costs)
        return [self._bound_stage(problem), *stages], self._keep(problem), 1, scratch

    def _work(self, setup: Setup, settings: Resolved, checkpoint: Checkpoint) -> tuple[FuzzyResult, Any]:
        run = self._run_settings(setup.n_clusters, settings)
        if settings.form == "literal":
            literal = self._literal(setup, settings, run, self._n_objects(setup.problem, settings))
            return single_pass_literal(setup, literal, settings.order, checkpoint), None
        start = None if settings.named else place_centres(setup, settings.init, None, 1).centres
        return single_pass_fuzzy(setup, start, run, settings.order, checkpoint), None


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class OnlineKFCM(FuzzyStream, _Incremental):
    """Online kernel fuzzy c-means (oKFCM): chunks are clustered apart, then their centres.

    Every chunk of rows gives a few weighted centres; those are clustered in turn, and all rows get their memberships
    from the final centres. One pass over the data, chunks in parallel, in memory that does not grow with them.
    `partial_fit` takes a stream of unknown length.

    Parameters
    ----------
    {common}
    form : {{"landmark", "literal"}}, default "landmark"
        ``"landmark"``: chunks of rows as they come; a chunk's centres are passed on exactly, with their masses, and
        merged in a tree. ``"literal"``: the published algorithm; chunks are random subsets with a kernel matrix of
        their own, and each centre is replaced by its nearest row; it has no use for landmarks.
    chunk_size : int, float or "auto", default "auto"
        Rows of a chunk, or their share of all rows; 2,048 (literal: 1,000), or twenty times `n_clusters` if that is
        more.
    init : {{"sample", "d2", "random"}} or array, default "sample"
        Where the chunks' runs start: from centres found in a uniform sample of all rows; from greedy D² seeds or
        random rows of each chunk (``"sample"`` means ``"d2"`` in the literal form); or for all runs from given row
        numbers, labels (landmark form) or centre rows.
    n_init : int, default 3
        Seedings tried in the sample and in the final run (none when `init` gives the centres), and in every run of
        the literal form.
    {fuzzy}
    max_passes : int, default 1
        With more than one, the landmark form goes on with exact steps over all rows until the objective settles.
    extend : {{"centres", "prototypes"}}, default "centres"
        How all rows are placed in the end: by distance to the final centres, or to single prototype rows, as the
        literal form was published. Prototypes of the landmark form take a further pass, and stand where their
        projections are.

    Attributes
    ----------
    {attributes}
    {fuzzy_attributes}

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
    watches: ClassVar[str] = "objective of the last merge"
    named_inits: ClassVar[tuple[str, ...]] = ("sample", "d2", "random")

    chunk_size: int | float | str = "auto"
    max_passes: int = 1

    def _settings(self, problem: Problem) -> Resolved:
        landmark = self.form == "landmark"
        rows = self._rows("chunk_size", problem, _CHUNK_ROWS if landmark else _LITERAL_ROWS)
        order = "arrival" if landmark else "random"
        return self._resolve(problem, order=order, chunk_rows=rows, **self._passes(1, 1))

    def _n_objects(self, problem: Problem, settings: Resolved) -> int:
        if settings.extend == "prototypes":
            return problem.c
        return problem.c * (1 + math.ceil(problem.n_rows / settings.chunk_rows))

    def _stages(self, problem: Problem, settings: Resolved) -> tuple[list[Stage], dict[str, int], int, int]:
        if settings.form == "literal":
            n_chunks = math.ceil(problem.n_rows / settings.chunk_rows)
            return self._literal_chunk_stages(problem, settings, problem.c * (1 + n_chunks))
        c, itemsize = problem.c, problem.dtype.itemsize
        run_bytes = settings.chunk_rows * (_copies(problem) * problem.measured_bytes + c * (9 * itemsize + 10))
        waiting = FAN_IN * 4 * c * (problem.n_measurements + 2) * 8
        stage = problem.stage(
            "chunks",
            quantum=settings.chunk_rows,
            task_bytes=run_bytes + problem.tile_bytes + problem.sums_bytes,
            fixed_bytes=problem.map_bytes + waiting,
        )
        return [self._bound_stage(problem), stage], self._keep(problem), 1, 0

    def _work(self, setup: Setup, settings: Resolved, checkpoint: Checkpoint) -> tuple[FuzzyResult, Any]:
        run = self._run_settings(setup.n_clusters, settings)
        if settings.form == "literal":
            literal = self._literal(setup, settings, run, self._n_objects(setup.problem, settings))
            return online_literal(setup, literal, settings.order, checkpoint), None
        start = None
        if not settings.named or settings.init == "sample":
            start = place_centres(setup, settings.init, None, settings.n_init).centres
        return online_fuzzy(setup, start, run, checkpoint), None
