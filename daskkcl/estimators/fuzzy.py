"""Fuzzy c-means of all rows at once: over streamed passes, or on the kernel matrix in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..errors import InvalidInputError, MemoryLimitError
from ..planning import Plan, Stage
from ..schedules.checkpoint import Checkpoint
from ..schedules.engine import Engine
from ..schedules.fuzzy import FuzzyResult, full_passes
from ..schedules.literal import Literal, sample_literal
from ..schedules.lloyd import open_dataset
from ..schedules.problem import Problem
from ..schedules.setup import Setup
from ..schedules.start import place_centres, start_rows
from ..system import resident_bytes
from .common import documented
from .fuzzy_base import FuzzyClusterer, Resolved
from .literal_costs import check_literal_start, labelling_stage, matrix_bytes, placing_problem
from .validation import check_choice

__all__ = ["FCM", "KFCM"]


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FCM(FuzzyClusterer):
    """Fuzzy c-means, exactly, in full passes over any amount of data.

    Every row belongs to every cluster to a degree; memberships and centres alternate, one pass over the data for each
    step, until the memberships rest. In input space by default, in feature space with ``map="landmarks"``.

    Parameters
    ----------
    {common}
    init : {{"sample", "d2", "random"}} or array, default "sample"
        ``"sample"`` starts from the best of `n_init` runs of k-means on a uniform sample of the rows; ``"d2"`` from
        greedy D² seeds (k-means++), ``"random"`` from random rows. Or `n_clusters` row numbers, a label for every
        row, or an (n_clusters, n_features) array of centre rows.
    n_init : int, default 3
        Seedings tried on the sample (``init="sample"`` only).
    {fuzzy}
    extend : {{"centres", "prototypes"}}, default "centres"
        How rows are placed in the end: by distance to the centres, or to the prototype rows.

    Attributes
    ----------
    {attributes}
    {fuzzy_attributes}

    Notes
    -----
    Algorithm 1 of Havens, Bezdek and Palaniswami, "Incremental kernel fuzzy c-means"
    (doi:10.1007/978-3-642-27534-0_1), after Bezdek (1981), with weights. By default `map` is ``"identity"`` here.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(5 * k, 1, (100, 2)) for k in range(3)])
    >>> model = daskkcl.FCM(3, random_state=0).fit(X)
    >>> model.prototype_rows_.round().astype(int).tolist()
    [[0, 0], [5, 5], [10, 10]]
    """

    algorithm: ClassVar[str] = "fcm"
    settles_late: ClassVar[bool] = True
    default_map: ClassVar[str] = "identity"
    keeps_on_workers: ClassVar[bool] = True
    named_inits: ClassVar[tuple[str, ...]] = ("sample", "d2", "random")

    extend: str = "centres"

    def _settings(self, problem: Problem) -> Resolved:
        return self._common(problem, extend=check_choice("extend", self.extend, ("centres", "prototypes")))

    def _stages(self, problem: Problem, settings: Resolved) -> tuple[list[Stage], dict[str, int], int, int]:
        keep = {
            "measurements": problem.n_rows * problem.measured_bytes,
            "rows": problem.rows_bytes,
        }
        stage = problem.stage("passes")
        before = 4 * problem.tile_rows * problem.c * problem.dtype.itemsize  # memberships from the centres before
        passes = replace(stage, task_bytes=stage.task_bytes + before)
        return [self._bound_stage(problem), passes], keep, min(settings.max_iter, 10), 0

    def _work(self, setup: Setup, settings: Resolved, checkpoint: Checkpoint) -> tuple[FuzzyResult, Any]:
        run = self._run_settings(setup.n_clusters, settings)
        data = open_dataset(setup, "passes")
        start = place_centres(setup, settings.init, data, settings.n_init).centres
        return full_passes(setup, data, start, run, checkpoint), data


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class KFCM(FuzzyClusterer):
    """Kernel fuzzy c-means, exactly, on the kernel matrix of all rows in memory.

    The yardstick for the incremental algorithms, for some ten thousand rows at the most: the kernel matrix takes 8
    bytes for every pair of rows. A matrix that does not fit `memory_limit` is refused.

    Parameters
    ----------
    {common}
    init : {{"d2", "random"}} or array, default "d2"
        ``"d2"`` starts from greedy D² seeds (k-means++ in feature space), ``"random"`` from random rows; or from
        `n_clusters` row numbers or an (n_clusters, n_features) array of centre rows.
    n_init : int, default 3
        Seedings tried; the run of lowest J is kept. One when `init` gives the start.
    {fuzzy}
    extend : {{"centres", "prototypes"}}, default "centres"
        How rows are placed in the end: by distance to the centres, or to the prototype rows.

    Attributes
    ----------
    {attributes}
    {fuzzy_attributes}

    Notes
    -----
    Algorithms 2 and 3 of Havens, Bezdek and Palaniswami, "Incremental kernel fuzzy c-means"
    (doi:10.1007/978-3-642-27534-0_1); with `sample_weight` it is their wKFCM, with ``w u^m`` for the misprinted
    ``w u`` of Eq. 14. It has no landmarks: `landmarks`, `n_landmarks` and `map` stay at their defaults.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(5 * k, 1, (100, 2)) for k in range(3)])
    >>> model = daskkcl.KFCM(3, random_state=0).fit(X)
    >>> model.cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "kfcm"

    extend: str = "centres"

    def _settings(self, problem: Problem) -> Resolved:
        if problem.recipe.name != "landmarks" or self.n_landmarks is not None or self.landmarks is not None:
            raise InvalidInputError("KFCM takes the whole kernel matrix: leave out map=, landmarks= and n_landmarks=.")
        extend = check_choice("extend", self.extend, ("centres", "prototypes"))
        settings = self._common(problem, form="literal", extend=extend, sample_rows=problem.n_rows)
        check_literal_start(settings.init, problem.n_clusters)
        return settings

    def _stages(self, problem: Problem, settings: Resolved) -> tuple[list[Stage], dict[str, int], int, int]:
        n, c, d = problem.n_rows, problem.c, problem.cells
        rows = 2 * n * problem.row_bytes
        fixed = problem.map_bytes + rows + matrix_bytes(n + c, c, d)
        matrix = Stage("kernel matrix", 0, fixed_bytes=fixed, remedy="fit fewer rows")
        return [self._bound_stage(problem), matrix, labelling_stage(problem, self._n_objects(problem))], {}, 1, 0

    def _by_measurements(self) -> bool:
        """Say that rows count by the kernel between them."""
        return False

    def _n_objects(self, problem: Problem) -> int:
        return problem.n_rows + problem.c if self.extend == "centres" else problem.c

    def _plan(self, problem: Problem, engine: Engine, settings: Resolved, writes: bool = False) -> Plan:
        try:
            return super()._plan(problem, engine, settings, writes)
        except MemoryLimitError as error:
            c, d = problem.c, problem.cells
            room = error.allowed_bytes - (error.needed_bytes - matrix_bytes(problem.n_rows + c, c, d))
            largest = math.isqrt(max(0, room) // 8)
            while largest > 0 and matrix_bytes(largest + c, c, d) > room:
                largest = int(0.99 * largest)
            fits = largest >= c and resident_bytes() < error.allowed_bytes
            takes = f"With this limit KFCM takes about {largest:,} rows. For more rows" if fits else "For large data"
            raise MemoryLimitError(
                f"The kernel matrix of {problem.n_rows:,} rows does not fit: {error} {takes} there are the algorithms "
                "'rsekfcm', 'spkfcm' and 'okfcm'.",
                needed_bytes=error.needed_bytes,
                allowed_bytes=error.allowed_bytes,
            ) from None

    def _work(self, setup: Setup, settings: Resolved, checkpoint: Checkpoint) -> tuple[FuzzyResult, Any]:
        run = self._run_settings(setup.n_clusters, settings)
        tile_rows = placing_problem(setup.problem, self._n_objects(setup.problem)).tile_rows
        start = start_rows(setup, settings.init)
        literal = Literal(setup.map_.kernel, start, run, settings.extend, tile_rows)
        return sample_literal(setup, literal, setup.problem.n_rows, checkpoint), None
