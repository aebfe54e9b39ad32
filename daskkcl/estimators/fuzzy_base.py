"""What the fuzzy estimators share: weights, the fuzzifier and its bound, prototypes, memberships, validity."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..errors import ConvergenceWarning, DaskkclWarning, InvalidInputError
from ..kernels.rows import public_rows
from ..planning import Stage
from ..rules.fuzzy import Fuzzy, collapse_bound
from ..rules.validity import between_centres, centre_products
from ..schedules.checkpoint import Checkpoint
from ..schedules.data import gather
from ..schedules.dataset import Dataset
from ..schedules.fuzzy import FuzzyResult, FuzzySettings, nearest_prototypes
from ..schedules.measuring import Reader
from ..schedules.passes import Labelling, sum_pass
from ..schedules.predict import lazy_memberships
from ..schedules.problem import Problem
from ..schedules.setup import Setup
from ..schedules.start import check_init
from ..schedules.tasks import Model
from ..schedules.validity import validity_pass
from .answers import framed
from .base import Fitted, KernelClusterer
from .validation import as_limit, check_integer, check_real, row_weights

__all__ = ["FuzzyClusterer", "Resolved"]

_PAPER_FUZZIFIER = 1.7
_BOUND_ROWS = 500  # of the sample, for the bound on the fuzzifier
_COINCIDE = 1e-3  # centres nearer than this share of the mean squared distance of a row from its centre


@dataclass(frozen=True, eq=False)
class Resolved:
    """Parameters after validation."""

    init: Any
    fuzzifier: float | None
    tol: float
    max_iter: int
    n_init: int
    form: str = "landmark"
    extend: str = "centres"
    order: str = "arrival"
    chunk_rows: int = 0
    sample_rows: int = 0
    max_passes: int = 1
    passes_asked_for: bool = True  # a number of passes that the user asked for is no failure to converge

    @property
    def named(self) -> bool:
        """Whether `init` is a name and not rows, labels or centres."""
        return isinstance(self.init, str)


@dataclass(eq=False, repr=False, kw_only=True)
class FuzzyClusterer(KernelClusterer):
    """Base class of the fuzzy estimators."""

    fuzzy: ClassVar[bool] = True
    named_inits: ClassVar[tuple[str, ...]] = ("d2", "random")

    fuzzifier: float | str = "auto"
    n_init: int = 3
    tol: float = 1e-3
    max_iter: int = 100

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
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
        sample_weight : array-like, dask or Zarr array of shape (n_rows,), optional
            A weight for every row, none negative; 1 by default. A row of weight 3 counts as three rows, one of weight
            0 as none: it has no part in the centres and still gets its label and memberships. Held in memory.
        out : path or URL, optional
            Write labels and memberships there as Zarr, chunked as the rows are.
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
        self.__dict__.pop("_stream", None)
        return self._fit(X, sample_weight, out, overwrite, checkpoint, client, component, storage_options, feature_dim)

    # --- for the algorithms -----------------------------------------------------------------------------------

    def _common(self, problem: Problem, **own: Any) -> Resolved:
        """Return the parameters that all fuzzy estimators have, and those of one of them."""
        source = problem.source
        return Resolved(
            init=check_init(self.init, source.n_rows, source.n_features, problem.n_clusters, self.named_inits),
            fuzzifier=None if self.fuzzifier == "auto" else check_real("fuzzifier", self.fuzzifier, 1),
            tol=check_real("tol", self.tol, 0),
            max_iter=check_integer("max_iter", self.max_iter, 1),
            n_init=check_integer("n_init", self.n_init, 1),
            **own,
        )

    def _bound_stage(self, problem: Problem) -> Stage:
        rows, width = min(_BOUND_ROWS, problem.sample_rows), problem.cells + problem.n_measurements
        return Stage("fuzzifier", row_bytes=0, fixed_bytes=problem.map_bytes + 8 * rows * (8 * rows + 6 * width))

    def _work(self, setup: Setup, settings: Resolved, checkpoint: Checkpoint) -> tuple[FuzzyResult, Any]:
        """Run the algorithm; return what it found, and its blocks if they are kept."""
        raise AttributeError(f"{type(self).__name__} has no algorithm")

    def _run(self, setup: Setup, settings: Resolved, checkpoint: Checkpoint) -> Fitted:
        self.fuzzifier_bound_ = self._bound(setup)
        self.fuzzifier_ = self._resolve_fuzzifier(settings)
        result, data = self._work(setup, settings, checkpoint)
        self._warn_of_moving(result, settings)
        tile_rows = result.tile_rows or setup.problem.tile_rows
        model = Model(Reader(result.map_, tile_rows, setup.problem.nan), result.centres, Fuzzy(self.fuzzifier_))
        prototypes = result.prototypes
        if settings.extend == "prototypes" and prototypes is None:
            data = data or Dataset(setup.engine, setup.source, setup.layout("labelling"))
            centres, prototypes = nearest_prototypes(setup, data, model)
            model = replace(model, centres=centres)
        return Fitted(model, result.history, result.n_iter, result.converged, data=data, prototypes=prototypes)

    def _run_settings(self, n_clusters: int, settings: Resolved) -> FuzzySettings:
        return FuzzySettings(
            n_clusters=n_clusters,
            fuzzifier=self.fuzzifier_,
            tol=settings.tol,
            max_iter=settings.max_iter,
            n_init=settings.n_init,
            seeding=settings.init if settings.named else "given",
            chunk_rows=settings.chunk_rows,
            max_passes=settings.max_passes,
        )

    def _bound(self, setup: Setup) -> float:
        """Return the fuzzifier above which memberships collapse, on the (weighted) sample."""
        rows, weights = setup.sample[:_BOUND_ROWS].astype(np.float64), setup.sample_weights[:_BOUND_ROWS]
        if not setup.row_map.explicit:
            return collapse_bound(setup.row_map.kernel(rows, rows), weights)
        Z = setup.row_map.measure(rows)[0].astype(np.float64)  # the space that is clustered
        return collapse_bound(Z @ Z.T, weights)

    def _resolve_fuzzifier(self, settings: Resolved) -> float:
        """Return the fuzzifier, below the bound of collapse unless the user insists."""
        bound = self.fuzzifier_bound_
        below = 1 + 0.5 * (bound - 1)
        if settings.fuzzifier is None:
            return min(_PAPER_FUZZIFIER, below)
        if settings.fuzzifier > bound:
            warnings.warn(
                f"fuzzifier={settings.fuzzifier:g} is above {bound:.3g}, where all memberships tend to 1/n_clusters on "
                f"these data with this kernel; try {below:.3g} or fuzzifier='auto'.",
                DaskkclWarning,
                stacklevel=5,
            )
        return settings.fuzzifier

    def _warn_of_moving(self, result: FuzzyResult, settings: Resolved) -> None:
        name = type(self).__name__
        if not result.converged:
            warnings.warn(
                f"{name}: memberships were still moving after {result.n_iter} iterations "
                f"(max_iter={settings.max_iter}).",
                ConvergenceWarning,
                stacklevel=5,
            )
        elif result.falling > settings.tol and not settings.passes_asked_for:
            warnings.warn(
                f"{name}: the objective was still falling, by {result.falling:.1%} in the last of {result.n_iter} "
                "passes over the data; max_passes allows more.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _describe(self, setup: Setup, fitted: Fitted, found: Labelling) -> None:
        numbers = found.nearest[:, 1].astype(np.int64) if fitted.prototypes is None else fitted.prototypes
        self.prototypes_ = numbers[found.order]
        rows = gather(setup.engine, setup.stored, self.prototypes_, setup.layout("sampling"))
        self.prototype_rows_ = public_rows(rows)
        self._warn_of_coinciding(float(found.spread.value) / float(found.weight.value.sum()))

    def _warn_of_coinciding(self, spread: float) -> None:
        centres = self._model.centres
        between = between_centres(centre_products(centres, self._model.reader.map_))
        near = between <= _COINCIDE * spread + 1e-12 * centres.norms.max(initial=0)
        near[np.diag_indices_from(near)] = False
        if near.any():
            bound = self.fuzzifier_bound_
            equal = f"; memberships become equal above {bound:.3g}" if np.isfinite(bound) else ""
            warnings.warn(
                f"{int(near.any(axis=1).sum())} of {centres.n_clusters} centres coincide with another: there may be "
                "fewer clusters than n_clusters, or the fuzzifier is too large "
                f"({self.fuzzifier_:.3g}{equal}).",
                DaskkclWarning,
                stacklevel=6,
            )

    # --- results ---------------------------------------------------------------------------------------------

    @property
    def membership_(self) -> Any:
        """Memberships (n_rows, n_clusters), rows summing to 1: numpy for data in memory, else lazy."""
        check_is_fitted(self)
        if self._source is None:
            raise AttributeError(f"Memberships are not {self._not_kept}; call predict_proba on the rows.")
        return framed(self._row_memberships(), self.__dict__.get("_frame"), "membership")

    def predict_proba(
        self,
        X: Any,
        *,
        component: str | None = None,
        storage_options: dict[str, Any] | None = None,
        memory_limit: str | int | None = None,
    ) -> Any:
        """Return the memberships of every row of X, rows summing to 1.

        Parameters
        ----------
        X : as for `fit`
        component, storage_options : as for `fit`
        memory_limit : as for `predict`
        """
        source = self._open_new(X, component, storage_options)
        lazy = lazy_memberships(source, self._model, as_limit(memory_limit))
        return framed(self._answer(source, lazy), source.frame, "membership")

    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        component: str | None = None,
        storage_options: dict[str, Any] | None = None,
    ) -> float:
        """Return the negative of J on X: larger is better.

        Parameters
        ----------
        X : as for `fit`
        y : None
        sample_weight, component, storage_options : as for `fit`
        """
        source = self._open_new(X, component, storage_options)
        weights, unit = row_weights(sample_weight, source)
        found = self._over_all_rows(source, lambda data: sum_pass(data, self._model, "scoring", weights))
        return -unit * float(found.objective.value)

    def validity(
        self,
        X: Any,
        sample_weight: Any = None,
        *,
        client: Any = None,
        component: str | None = None,
        storage_options: dict[str, Any] | None = None,
    ) -> dict[str, float]:
        """Return validity indices of the fuzzy partition of X, in one pass: see `daskkcl.fuzzy_validity`.

        Parameters
        ----------
        X : as for `fit`
        sample_weight, client, component, storage_options : as for `fit`
        """
        source = self._open_new(X, component, storage_options)
        weights, unit = row_weights(sample_weight, source)
        if source.n_rows == 0:
            raise InvalidInputError("X has no rows: there is nothing to judge.")
        found = self._over_all_rows(source, lambda data: validity_pass(data, self._model, weights), client)
        return found | {name: unit * found[name] for name in ("fukuyama_sugeno", "objective")}  # the others are ratios
