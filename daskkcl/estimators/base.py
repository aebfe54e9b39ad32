"""What all estimators share: parameters, validation, fitted attributes. The work is done by the schedules."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..blocks.labels import LabelFile
from ..blocks.outputs import Output
from ..blocks.sources import ArraySource, Source, open_source
from ..errors import ConvergenceWarning, InvalidInputError, WrongTypeError
from ..plan import Plan, Stage
from ..progress import Progress
from ..random import Key, as_key
from ..rules.counting import eigengap
from ..schedules.checkpoint import Checkpoint, describe, digest, saved_seed
from ..schedules.data import Dataset, explain_bad_row
from ..schedules.engine import Engine, make_engine
from ..schedules.passes import label_pass, sum_pass
from ..schedules.predict import block_layout, compute_here, lazy_distances, lazy_labels, lazy_memberships
from ..schedules.setup import Problem, Setup, base_stages, plan_run, prepare
from ..schedules.tasks import BadRowError, Model
from ..system import single_threaded
from .validation import make_problem

__all__ = ["Fitted", "KernelClusterer"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What an algorithm hands back to its estimator."""

    model: Model
    history: tuple[float, ...]
    n_iter: int
    converged: bool
    data: Dataset | None = None  # blocks that are kept and can be labelled without reading again
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, repr=False, kw_only=True)
class KernelClusterer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Base class: from any data to labels under a memory limit."""

    algorithm: ClassVar[str]
    fuzzy: ClassVar[bool] = False
    keeps_on_workers: ClassVar[bool] = False  # whether several passes make that worth while
    counted: ClassVar[str] = "n_clusters"  # the parameter that says how many centres there are

    # Parameters. Dataclass fields make the __init__ that scikit-learn reads; each estimator adds its own.
    n_clusters: int | str = field(default=8, kw_only=False)
    kernel: Any = "rbf"
    gamma: Any = "auto"
    kernel_params: dict[str, Any] | None = None
    map: Any = None
    landmarks: Any = "uniform"
    n_landmarks: int | None = None
    init: Any = None
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
    ) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : path, URL, zarr.Array, zarr.Group, dask array, xarray.DataArray or array-like of shape (n_rows, n_features)
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

        Returns
        -------
        self
        """
        elsewhere = not _is_url(X) and (_is_url(out) or _is_url(checkpoint))  # then the options are not for X
        source = self._open(X, component, None if elsewhere else storage_options, reset=True)
        key = self._key(checkpoint, storage_options)
        with Output.at(out, overwrite, storage_options) as output, single_threaded():
            engine = make_engine(client, Progress(self.progress))
            problem = make_problem(self, source, key)
            settings = self._settings(problem)
            plan = self._plan(problem, engine, settings)
            source.check_missing(self.missing)
            setup = prepare(problem, engine, plan, _find_n_clusters)
            try:
                fitted = self._run(setup, settings, self._checkpoint(checkpoint, storage_options, setup))
                self._finish(setup, fitted)
            except BaseException as error:
                setup.scratch.close()
                if isinstance(error, BadRowError):
                    raise explain_bad_row(engine, source, plan.layout("sampling"), error) from None
                raise
            finally:
                engine.progress.end()
            writers = engine.with_threads(plan.layout("labelling").threads)
            output.write(self.labels_, self.membership_ if self.fuzzy else None, source.row_chunks, writers.compute)
        return self

    def _settings(self, problem: Problem) -> Any:
        """Validate the algorithm's own parameters; return them resolved."""
        raise AttributeError(f"{type(self).__name__} has no algorithm")

    def _stages(self, problem: Problem, settings: Any) -> tuple[list[Stage], dict[str, int], int, int]:
        """Return the algorithm's stages, what could be kept, the likely passes, and the scratch it needs."""
        raise AttributeError(f"{type(self).__name__} has no algorithm")

    def _run(self, setup: Setup, settings: Any, checkpoint: Checkpoint) -> Fitted:
        """Run the algorithm."""
        raise AttributeError(f"{type(self).__name__} has no algorithm")

    def _renumber(self, order: NDArray[np.intp]) -> dict[str, Any]:
        """Return further fitted attributes that follow the numbering of the clusters."""
        return {}

    def _plan(self, problem: Problem, engine: Engine, settings: Any) -> Plan:
        stages, keep, n_passes, scratch_bytes = self._stages(problem, settings)
        keep = keep if engine.local or self.keeps_on_workers else {}
        if not problem.source.lazy:  # answers about rows in memory are made in memory, in pieces and then in one
            row_bytes = 4 + (problem.c * problem.dtype.itemsize if self.fuzzy else 0)
            stages.append(Stage("answers", row_bytes=0, fixed_bytes=2 * problem.n_rows * row_bytes))
        return plan_run(problem, engine, [*base_stages(problem), *stages], keep, n_passes, scratch_bytes)

    def _key(self, checkpoint: Any, storage_options: dict[str, Any] | None) -> Key:
        seed = saved_seed(checkpoint, storage_options)
        return as_key(seed if self.random_state is None and seed is not None else self.random_state)

    def _checkpoint(self, path: Any, storage_options: dict[str, Any] | None, setup: Setup) -> Checkpoint:
        parameters = {
            name: describe(value)
            for name, value in self.get_params(deep=False).items()
            if name not in {"progress", "scratch", "memory_limit", "random_state", "missing"}
        }
        identity = {
            **parameters,
            "algorithm": self.algorithm,
            "seed": setup.problem.key.seed,
            "shape": [setup.source.n_rows, setup.source.n_features],
            "stored dtype": str(setup.source.dtype),
            "data": digest({"sample": setup.sample[:256]}),
        }
        checkpoint = Checkpoint(path, identity, storage_options)
        checkpoint.open()
        return checkpoint

    def _finish(self, setup: Setup, fitted: Fitted) -> None:
        """Label all rows once, number the clusters canonically, set the fitted attributes."""
        source, engine = setup.problem.source, setup.engine
        n_clusters = fitted.model.centres.n_clusters
        stored = engine.local or setup.problem.scratch is not None
        labels = LabelFile.create(setup.scratch, source.n_rows, n_clusters) if stored else None
        data = fitted.data or Dataset(engine, setup.source, setup.layout("labelling"))
        found = label_pass(data, fitted.model, labels)
        order = found.order
        self.__dict__.pop("_stream", None)  # of an earlier partial_fit
        self._model = fitted.model.numbered(order)
        self._source = source
        self._labels: Any = None if labels is None else labels.renumbered(order)
        if not source.lazy:
            self._labels = np.asarray(self.labels_)
            self._membership = self._memberships(source) if self.fuzzy else None
            self._source = ArraySource(np.empty((0, source.n_features)))  # the caller's array may go
        self.n_clusters_ = n_clusters
        self.cluster_sizes_ = found.counts[order]
        self.n_iter_ = fitted.n_iter
        self.history_ = list(fitted.history)
        self.objective_ = float(found.objective.value)
        self.plan_ = setup.plan
        self.gamma_ = getattr(getattr(setup.map_, "kernel", None), "gamma", None)
        self.n_clusters_evidence_ = setup.evidence
        self._n_features_out = n_clusters
        for name, value in {**fitted.attributes, **self._renumber(order)}.items():
            setattr(self, name, value)
        n_empty = int((found.counts == 0).sum())
        if n_empty:
            warnings.warn(
                f"{n_empty} of {n_clusters} clusters have no rows: there may be fewer distinct rows than clusters, or "
                "the kernel is too wide. Try fewer clusters or a larger gamma.",
                ConvergenceWarning,
                stacklevel=3,
            )

    # --- results ---------------------------------------------------------------------------------------------

    @property
    def labels_(self) -> Any:
        """The cluster of every row, -1 for dropped rows: numpy for data in memory, else a lazy dask array."""
        check_is_fitted(self)
        if self._source is None:
            raise AttributeError("Labels are not saved with a model; call predict on the rows.")
        if isinstance(self._labels, np.ndarray):
            return self._labels
        if self._labels is None:
            return lazy_labels(self._source, self._model)
        lazy = self._labels.lazy(self._source.row_chunks)
        return lazy if self._source.lazy else compute_here(lazy)

    def _memberships(self, source: Source) -> Any:
        return self._answer(source, lazy_memberships(source, self._model))

    def _answer(self, source: Source, lazy: Any) -> Any:
        """Return an answer about rows: lazy for lazy ones, computed for rows in memory."""
        if source.lazy:
            return lazy
        try:
            return compute_here(lazy)
        except BadRowError as error:
            layout = block_layout(source, self._model, 1)
            raise explain_bad_row(make_engine(None, Progress(False)), source, layout, error) from None

    def predict(self, X: Any, *, component: str | None = None, storage_options: dict[str, Any] | None = None) -> Any:
        """Return the cluster of every row of X: numpy for data in memory, else a lazy dask array.

        Parameters
        ----------
        X : as for `fit`
        component, storage_options : as for `fit`
        """
        source = self._open_new(X, component, storage_options)
        return self._answer(source, lazy_labels(source, self._model))

    def transform(self, X: Any, *, component: str | None = None, storage_options: dict[str, Any] | None = None) -> Any:
        """Return the distance of every row of X to every centre, in feature space.

        Parameters
        ----------
        X : as for `fit`
        component, storage_options : as for `fit`
        """
        source = self._open_new(X, component, storage_options)
        return self._answer(source, lazy_distances(source, self._model))

    def score(
        self, X: Any, y: Any = None, *, component: str | None = None, storage_options: dict[str, Any] | None = None
    ) -> float:
        """Return the negative of the algorithm's objective on X: larger is better.

        Parameters
        ----------
        X : as for `fit`
        y : None
        component, storage_options : as for `fit`
        """
        source = self._open_new(X, component, storage_options)
        engine = make_engine(None, Progress(False))
        layout = block_layout(source, self._model, engine.threads)
        with single_threaded():
            try:
                return -float(sum_pass(Dataset(engine, source, layout), self._model, "scoring").objective.value)
            except BadRowError as error:
                raise explain_bad_row(engine, source, layout, error) from None

    def save(self, path: Any, *, overwrite: bool = False, storage_options: dict[str, Any] | None = None) -> None:
        """Write the model as a Zarr group that `daskkcl.load` opens: numbers and names, no code.

        Parameters
        ----------
        path : path or URL
        overwrite : bool
            Replace a model that is there.
        storage_options : dict, optional
            For URLs.
        """
        from .persistence import save_model

        check_is_fitted(self)
        save_model(self, path, overwrite, storage_options)

    # --- plumbing --------------------------------------------------------------------------------------------

    def _open(self, X: Any, component: str | None, storage_options: dict[str, Any] | None, reset: bool) -> Source:
        source = open_source(_plain(X), component, storage_options)
        if isinstance(source, ArraySource):
            try:
                validate_data(self, X, reset=reset, skip_check_array=True)
            except ValueError as error:
                raise InvalidInputError(str(error)) from None
        elif reset:
            self.n_features_in_ = source.n_features
            self.__dict__.pop("feature_names_in_", None)
        elif source.n_features != self.n_features_in_:
            raise InvalidInputError(
                f"X has {source.n_features} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        return source

    def _open_new(self, X: Any, component: str | None, storage_options: dict[str, Any] | None) -> Source:
        check_is_fitted(self)
        source = self._open(X, component, storage_options, reset=False)
        source.check_missing(self.missing)
        return source

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __getstate__(self) -> dict[str, Any]:
        # Lazy labels live in this process's scratch: a copy elsewhere computes them again from the source.
        state = dict(super().__getstate__())
        if isinstance(state.get("_labels"), LabelFile):
            state["_labels"] = None
        if isinstance(state.get("_source"), ArraySource):
            state["_source"] = ArraySource(np.empty((0, self.n_features_in_)))
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.nan == "drop"
        return tags


class FuzzyMixin:
    """Memberships of fuzzy estimators."""

    fuzzy: ClassVar[bool] = True
    _model: Model
    _source: Any
    _membership: Any

    @property
    def membership_(self) -> Any:
        """Memberships (n_rows, n_clusters), rows summing to 1: numpy for data in memory, else lazy."""
        check_is_fitted(self)
        if self._source is None:
            raise AttributeError("Memberships are not saved with a model; call predict_proba on the rows.")
        if not self._source.lazy:
            return self._membership
        return self._memberships(self._source)  # type: ignore[attr-defined]

    def predict_proba(
        self, X: Any, *, component: str | None = None, storage_options: dict[str, Any] | None = None
    ) -> Any:
        """Return the memberships of every row of X, rows summing to 1.

        Parameters
        ----------
        X : as for `fit`
        component, storage_options : as for `fit`
        """
        return self._memberships(self._open_new(X, component, storage_options))  # type: ignore[attr-defined]


def _is_url(path: Any) -> bool:
    return isinstance(path, (str, os.PathLike)) and "://" in os.fspath(path)


def _plain(X: Any) -> Any:
    """Return tables in memory (lists, data frames, objects with __array__) as arrays; leave the rest alone."""
    module = type(X).__module__.partition(".")[0]
    if isinstance(X, (str, os.PathLike)) or module in {"zarr", "dask", "xarray"}:
        return X
    return as_numbers(X)


def as_numbers(X: Any) -> NDArray[Any]:
    """Return a table in memory as a numeric array, with scikit-learn's own messages for what is none."""
    from scipy.sparse import issparse
    from sklearn.utils import check_array

    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise WrongTypeError(
            "X has masked values; pass X.filled(np.nan) with nan='drop' to leave out rows that have any."
        )
    try:
        if issparse(X):
            check_array(X, accept_sparse=False)  # raises scikit-learn's own message
        array = np.asarray(X)
        if array.dtype.kind in "biufc" and array.ndim > 0:
            return array
        return check_array(X, dtype="numeric", ensure_all_finite=False, ensure_min_samples=0, ensure_min_features=0)
    except TypeError as error:
        raise WrongTypeError(f"X is not a table of numbers: {error}") from None
    except ValueError as error:
        raise InvalidInputError(f"X is not a table of numbers: {error}") from None


def _find_n_clusters(sample: NDArray[Any], key: Key) -> tuple[int, dict[str, Any]]:
    return eigengap(sample)
