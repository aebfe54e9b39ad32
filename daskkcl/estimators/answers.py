"""What a fitted model says of rows: labels, distances, scores; and how it is saved and copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..blocks.labels import LabelFile
from ..blocks.scaled import ScaledSource
from ..blocks.sources import ArraySource, Source
from ..progress import Progress
from ..schedules.data import explain_bad_row
from ..schedules.dataset import Dataset
from ..schedules.engine import make_engine
from ..schedules.measuring import BadRowError
from ..schedules.passes import sum_pass
from ..schedules.predict import (
    block_layout,
    compute_here,
    label_chunks,
    lazy_distances,
    lazy_labels,
    lazy_memberships,
)
from ..schedules.tasks import Model
from ..system import single_threaded
from .inputs import check_output, open_rows
from .presentation import Presented
from .validation import as_limit

__all__ = ["Answers", "framed"]


class Answers(Presented, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """The half of an estimator that is there after `fit`."""

    missing: str
    n_features_in_: int
    _model: Model
    _source: Any  # the rows that were fitted; None where they are not known
    _labels: Any
    _membership: Any

    @property
    def labels_(self) -> Any:
        """The cluster of every row, -1 for dropped rows: numpy for data in memory, else a lazy dask array.

        Of a DataArray or Dataset it is a DataArray on the dimensions of the rows, with their coordinates.
        """
        check_is_fitted(self)
        return framed(self._row_labels(), self.__dict__.get("_frame"), "labels")

    def _row_labels(self) -> Any:
        """Return the labels one after another."""
        if self._source is None:
            raise AttributeError(f"Labels are not {self._not_kept}; call predict on the rows.")
        if isinstance(self._labels, np.ndarray):
            return self._labels
        if self._labels is None:
            return lazy_labels(self._source, self._model)
        lazy = self._labels.lazy(label_chunks(self._source))
        return lazy if self._source.lazy else compute_here(lazy)

    def _row_memberships(self) -> Any:
        """Return the memberships of the rows that were fitted."""
        return lazy_memberships(self._source, self._model) if self._source.lazy else self._membership

    def _answer(self, source: Source, lazy: Any) -> Any:
        """Return an answer about rows: lazy for lazy ones, computed for rows in memory."""
        if source.lazy:
            return lazy
        try:
            return compute_here(lazy)
        except BadRowError as error:
            layout = block_layout(source, self._model, 1)
            raise explain_bad_row(make_engine(None, Progress(False)), source, layout, error) from None

    def predict(
        self,
        X: Any,
        *,
        component: str | None = None,
        storage_options: dict[str, Any] | None = None,
        memory_limit: str | int | None = None,
    ) -> Any:
        """Return the cluster of every row of X: numpy for data in memory, else a lazy dask array.

        Of a DataArray or Dataset it is a DataArray on the dimensions of the rows.

        Parameters
        ----------
        X : as for `fit`
        component, storage_options : as for `fit`
        memory_limit : str or int, optional
            The most memory the process may occupy while labels are computed: blocks are chosen by it, and what cannot
            fit is refused at once. Lazy labels keep to it when they are computed or stored by blocks, on threads of
            this process. Without it blocks have about 8 MiB.
        """
        source = self._open_new(X, component, storage_options)
        lazy = lazy_labels(source, self._model, as_limit(memory_limit))
        return framed(self._answer(source, lazy), source.frame, "labels")

    def transform(
        self,
        X: Any,
        *,
        component: str | None = None,
        storage_options: dict[str, Any] | None = None,
        memory_limit: str | int | None = None,
    ) -> Any:
        """Return the distance of every row of X to every centre, in feature space.

        Parameters
        ----------
        X : as for `fit`
        component, storage_options : as for `fit`
        memory_limit : as for `predict`
        """
        source = self._open_new(X, component, storage_options)
        check_output(self, source)
        lazy = lazy_distances(source, self._model, as_limit(memory_limit))
        return framed(self._answer(source, lazy), source.frame, "distance")

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
        return -float(self._over_all_rows(source, lambda data: sum_pass(data, self._model, "scoring")).objective.value)

    def _over_all_rows(self, source: Source, look: Callable[[Dataset], Any], client: Any = None) -> Any:
        """Return what a pass over the blocks of a source finds."""
        engine = make_engine(client, Progress(False))
        layout = block_layout(source, self._model, engine.threads)
        with single_threaded():
            try:
                return look(Dataset(engine, source, layout))
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

    def _open_new(self, X: Any, component: str | None, storage_options: dict[str, Any] | None) -> Source:
        check_is_fitted(self)
        source = open_rows(self, X, component, storage_options, reset=False)
        source.check_missing(self.missing)
        scaler = self.__dict__.get("scaler_")
        return source if scaler is None else ScaledSource(source, scaler.name, scaler)

    @property
    def _not_kept(self) -> str:
        return "saved with a model"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __getstate__(self) -> dict[str, Any]:
        # Lazy labels live in this process's scratch: a copy elsewhere computes them again from the source.
        state = dict(super().__getstate__())
        if isinstance(state.get("_labels"), LabelFile):
            state["_labels"] = None
        if isinstance(state.get("_source"), ArraySource):
            state["_source"] = ArraySource(np.empty((0, self.n_features_in_)))
        state.pop("_shown", None)  # a copy carries no data
        return state


def framed(values: Any, frame: Any, name: str) -> Any:
    """Return values of rows on the dimensions of the rows, if they have any."""
    return values if frame is None else frame.wrap(values, name)
