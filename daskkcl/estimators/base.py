"""What all estimators share: parameters, validation, fitted attributes. The work is done by the schedules."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..blocks.labels import LabelFile
from ..blocks.outputs import Output
from ..blocks.sources import ArraySource
from ..blocks.targets import same_place
from ..errors import ConvergenceWarning, DaskkclWarning, InvalidInputError
from ..planning import Plan, Stage
from ..progress import Progress
from ..random import Key, as_key
from ..rules.counting import count_clusters
from ..schedules.checkpoint import Checkpoint, describe, digest
from ..schedules.data import explain_bad_row
from ..schedules.dataset import Dataset
from ..schedules.engine import Engine, make_engine
from ..schedules.leaving import leaving_well
from ..schedules.measuring import BadRowError
from ..schedules.passes import Labelling, once_labelled
from ..schedules.predict import (
    lazy_memberships,
    writing_stage,
)
from ..schedules.problem import Problem
from ..schedules.setup import Setup, all_stages, plan_run, prepare
from ..schedules.sharing import Shared
from ..schedules.tasks import Model
from ..system import peak_bytes, single_threaded
from .answers import Answers
from .inputs import is_url, open_rows
from .pictures import rows_to_keep
from .problems import make_problem
from .validation import row_weights

__all__ = ["Fitted", "KernelClusterer", "warn_if_unclear", "weights_refused"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What an algorithm hands back to its estimator."""

    model: Model
    history: tuple[float, ...]
    n_iter: int
    converged: bool
    data: Dataset | None = None  # blocks that are kept and can be labelled without reading again
    attributes: dict[str, Any] = field(default_factory=dict)
    prototypes: NDArray[np.int64] | None = None  # rows of the algorithm's own, in the order of the centres


@dataclass(eq=False, repr=False, kw_only=True)
class KernelClusterer(Answers):
    """Base class: from any data to labels under a memory limit."""

    algorithm: ClassVar[str]
    fuzzy: ClassVar[bool] = False
    default_map: ClassVar[str] = "landmarks"
    keeps_on_workers: ClassVar[bool] = False  # whether several passes make that worth while
    watches: ClassVar[str] = "objective"  # what history_ holds
    counted: ClassVar[str] = "n_clusters"  # the parameter that says how many centres there are
    settles_late: ClassVar[bool] = False  # whether a run begins with `place_centres`

    # Parameters. Dataclass fields make the __init__ that scikit-learn reads; each estimator adds its own.
    n_clusters: int | str = field(default=8, kw_only=False)
    kernel: Any = None
    gamma: Any = "auto"
    kernel_params: dict[str, Any] | None = None
    map: Any = None
    landmarks: Any = None
    n_landmarks: int | None = None
    init: Any = None
    scale: str | None = None
    memory_limit: str | int | None = None
    dtype: Any = None
    random_state: Any = None
    nan: str = "raise"
    missing: str = "warn"
    scratch: str | None = None
    progress: Any = None

    # --- fitting ---------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        out: Any = None,
        overwrite: bool = False,
        checkpoint: Any = None,
        client: Any = None,
        component: str | None = None,
        storage_options: dict[str, Any] | None = None,
        feature_dim: str | None = None,
    ) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : path, URL, zarr.Array, zarr.Group, dask array, xarray object, scipy sparse or array-like of shape (n, d)
            The rows. Arrays in memory give labels in memory; everything else stays where it is and gives lazy ones.
        y : None
            Not used, present for scikit-learn's conventions.
        out : path or URL, optional
            Write labels (and memberships) there as Zarr, chunked as the rows are.
        overwrite : bool
            Replace an existing `out`.
        checkpoint : path or URL, optional
            Keep the state between rounds there; the same call takes up where it stopped.
        client : distributed.Client, optional
            Where to compute; the active client by default, else threads of this process.
        component : str, optional
            The array inside a Zarr group.
        storage_options : dict, optional
            For URLs.
        feature_dim : str, optional
            The dimension of a DataArray that is that of the features, if it has more than two; the others become
            rows, the last of them fastest, and answers come back on them. Variables of a Dataset are features.

        Returns
        -------
        self
        """
        return self._fit(X, None, out, overwrite, checkpoint, client, component, storage_options, feature_dim)

    def _fit(
        self,
        X: Any,
        sample_weight: Any,
        out: Any,
        overwrite: bool,
        checkpoint: Any,
        client: Any,
        component: str | None,
        storage_options: dict[str, Any] | None,
        feature_dim: str | None,
        shared: Shared | None = None,
    ) -> Self:
        began = time.perf_counter()
        elsewhere = not is_url(X) and (is_url(out) or is_url(checkpoint))  # then the options are not for X
        source = open_rows(self, X, component, None if elsewhere else storage_options, True, feature_dim)
        saved = Checkpoint(checkpoint, None, storage_options)
        if same_place(out, saved.path):
            raise InvalidInputError(f"out and checkpoint are both {str(out)!r}: each needs a path of its own.")
        with (
            saved.held(),
            Output.at(out, overwrite, storage_options, None if saved.path is None else saved.run, X) as output,
            leaving_well(saved),
            single_threaded(),
        ):
            engine = make_engine(client, Progress(self.progress))
            weights, unit = row_weights(sample_weight, source)
            problem = replace(
                make_problem(self, source, self._key(saved.seed)),
                weights=weights,
                weight_unit=unit,
                durable=saved.path is not None,
                on_workers=not engine.local,
            )
            if weights is not None and problem.recipe.n_streams:
                raise weights_refused(problem)
            problem = problem if shared is None else shared.of(problem)
            settings = self._settings(problem)
            plan = self._plan(problem, engine, settings, out is not None)
            if engine.local:
                engine.progress.watch_memory(plan.limit_bytes)
            source.check_missing(self.missing)
            identify = lambda sample: saved.identify(self._identity(problem, sample))  # noqa: E731
            if shared is None:
                shuffles, late = self._shuffles(settings), self.settles_late
                setup = prepare(problem, engine, plan, count_clusters, saved, identify, shuffles=shuffles, late=late)
            else:
                setup = shared.setup(problem, engine, plan)
            warn_if_unclear(setup.evidence)
            try:
                fitted = self._run(setup, settings, saved)
                self._finish(setup, fitted)
            except BaseException as error:
                setup.scratch.close()
                if isinstance(error, BadRowError):
                    raise explain_bad_row(engine, source, plan.layout("sampling"), error) from None
                raise
            finally:
                engine.progress.end()
                engine.release()
            writers = engine.with_threads(plan.layout("writing" if plan.has("writing") else "labelling").threads)
            output.write(
                self._row_labels(),
                self._row_memberships() if self.fuzzy else None,
                source.row_chunks,
                writers.compute,
                source.frame,
            )
            setup.scratch.settle("labels")  # labels may stay, for lazy data; nobody reads the rest any more
        self.fit_seconds_, self.peak_bytes_ = time.perf_counter() - began, peak_bytes()
        return self

    def _settings(self, problem: Problem) -> Any:
        """Validate the algorithm's own parameters; return them resolved."""
        raise AttributeError(f"{type(self).__name__} has no algorithm")

    def _shuffles(self, settings: Any) -> bool:
        """Say whether a run meets all rows in random order, from the beginning."""
        return False

    def _stages(self, problem: Problem, settings: Any) -> tuple[list[Stage], dict[str, int], int, int]:
        """Return the algorithm's stages, what could be kept, the likely passes, and the scratch it needs."""
        raise AttributeError(f"{type(self).__name__} has no algorithm")

    def _run(self, setup: Setup, settings: Any, checkpoint: Checkpoint) -> Fitted:
        """Run the algorithm."""
        raise AttributeError(f"{type(self).__name__} has no algorithm")

    def _renumber(self, order: NDArray[np.intp]) -> dict[str, Any]:
        """Return further fitted attributes that follow the numbering of the clusters."""
        return {}

    def _by_measurements(self) -> bool:
        """Say whether the algorithm knows rows by their measurements only."""
        return True

    def _describe(self, setup: Setup, fitted: Fitted, found: Labelling) -> None:
        """Set further fitted attributes that come from the labelling pass, and warn."""

    def _plan(self, problem: Problem, engine: Engine, settings: Any, writes: bool = False) -> Plan:
        stages, keep, n_passes, scratch_bytes = self._stages(problem, settings)
        keep = keep if engine.local or self.keeps_on_workers else {}
        if problem.read is not None:
            keep = {}  # measurements of all rows are there
        elif problem.recipe.code_bytes:  # read in place of rows and measurements, from memory or from scratch
            in_memory = engine.local and not problem.durable  # a run that is stopped finds them again in scratch
            keep = {"codes": problem.n_rows * problem.recipe.code_bytes} if in_memory else {}
            scratch_bytes += problem.n_rows * problem.recipe.code_bytes
        if not problem.source.lazy:  # answers about rows in memory are made in memory, in pieces and then in one
            row_bytes = 4 + (problem.c * problem.dtype.itemsize if self.fuzzy else 0)
            stages.append(Stage("answers", row_bytes=0, fixed_bytes=2 * problem.n_rows * row_bytes))
        stages = all_stages(problem, stages)
        if writes and self.fuzzy and problem.source.lazy:
            labelling = next(stage for stage in stages if stage.name == "labelling")
            stages.append(writing_stage(problem, labelling))
        return plan_run(problem, engine, stages, keep, n_passes, scratch_bytes)

    def _key(self, seed: int | None = None) -> Key:
        """Return the key of a run: by `random_state`, or by the seed of a checkpoint."""
        return as_key(seed if self.random_state is None and seed is not None else self.random_state)

    def _identity(self, problem: Problem, sample: Any) -> dict[str, Any]:
        """Return what makes a run this one and no other."""
        parameters = {
            name: describe(value)
            for name, value in self.get_params(deep=False).items()
            if name not in {"progress", "scratch", "memory_limit", "random_state", "missing"}
        }
        identity = {
            **parameters,
            "algorithm": self.algorithm,
            "seed": problem.key.seed,
            "shape": [problem.source.n_rows, problem.source.n_features],
            "stored dtype": str(problem.source.dtype),
            "data": digest({"sample": sample[:256]}),
        }
        if problem.weights is not None:
            identity["sample_weight"] = describe(problem.weights)
        return identity

    def _finish(self, setup: Setup, fitted: Fitted) -> None:
        """Label all rows once, number the clusters canonically, set the fitted attributes."""
        source, engine = setup.problem.source, setup.engine
        n_clusters = fitted.model.centres.n_clusters
        stored = engine.local or setup.problem.scratch is not None
        labels = LabelFile.of(setup.scratch, source.n_rows, n_clusters) if stored else None
        data = fitted.data or Dataset(engine, setup.source, setup.layout("labelling"))
        found = once_labelled(setup.checkpoint, data, fitted.model, labels, setup.problem.weights)
        order = found.order
        for name in ("_stream", "_shown", "n_rows_seen_", "n_rows_met_", "seed_path_"):  # of earlier calls
            self.__dict__.pop(name, None)
        model = fitted.model.numbered(order)
        # Rows that come later are rows, not codes: the model is to have the whole map.
        self._model = replace(model, reader=setup.row_reader) if model.reader.map_ is setup.map_ else model
        self._source, self._frame = source, source.frame
        self.scaler_ = setup.problem.scaler
        self._shown = rows_to_keep(setup.sample, source.mean_bytes, self.scaler_)
        self._labels: Any = None if labels is None else labels.renumbered(order)
        if not source.lazy:
            self._labels = np.asarray(self._row_labels())
            self._membership = self._answer(source, lazy_memberships(source, self._model)) if self.fuzzy else None
            self._source = ArraySource(np.empty((0, source.n_features)))  # the caller's array may go
        self.n_clusters_ = n_clusters
        self.cluster_sizes_ = found.counts[order]
        self.n_iter_ = fitted.n_iter
        unit = setup.problem.weight_unit
        self.history_ = [unit * value for value in fitted.history]
        self.objective_ = unit * float(found.objective.value)
        self.plan_ = setup.plan
        self.gamma_ = getattr(setup.row_map.kernel, "gamma", None)
        self.n_clusters_evidence_ = setup.evidence
        self._n_features_out = n_clusters
        for name, value in {**fitted.attributes, **self._renumber(order)}.items():
            setattr(self, name, value)
        self._describe(setup, fitted, found)
        n_empty = int((found.counts == 0).sum())
        if n_empty:
            warnings.warn(
                f"{n_empty} of {n_clusters} clusters have no rows: there may be fewer distinct rows than clusters, or "
                "the kernel is too wide. Try fewer clusters or a larger gamma.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.nan == "drop"
        tags.input_tags.sparse = True
        return tags


def weights_refused(problem: Problem) -> InvalidInputError:
    """Return the error about weights beside a map that does not know them."""
    return InvalidInputError(
        f"map={problem.recipe.name!r} is made of sums in which every row counts once: it does not go with "
        "sample_weight. Leave one of them out, or pass a map that is fitted already."
    )


def warn_if_unclear(evidence: dict[str, Any]) -> None:
    """Say that a number of clusters is only the strongest of several candidates, and name the others."""
    if evidence.get("clear", True):
        return
    others = [str(k) for k in evidence["runners_up"][:3] if k != evidence["taken"]]
    named = f" (next: {', '.join(others)})" if others else ""
    warnings.warn(
        f"The number of clusters is unclear from the sample: n_clusters={evidence['taken']} is only the strongest "
        f"candidate{named}. Pass n_clusters= if you know it; model.n_clusters_evidence_ holds the evidence.",
        DaskkclWarning,
        stacklevel=3,
    )
