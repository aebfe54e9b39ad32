"""What all maps share as scikit-learn transformers: parameters, fit on any data, transform any data."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..blocks.scaled import ScaledSource
from ..blocks.sources import Source
from ..errors import InvalidInputError
from ..kernels import Kernel, as_kernel
from ..maps import recipes
from ..progress import Progress
from ..random import as_key
from ..schedules.data import explain_bad_row
from ..schedules.engine import make_engine
from ..schedules.measuring import BadRowError
from ..schedules.predict import block_rows, compute_here, lazy_measurements
from ..schedules.problem import Problem
from ..schedules.setup import base_stages, plan_run, prepare
from ..system import single_threaded
from .inputs import check_output, open_rows
from .validation import (
    as_limit,
    block_dtype,
    check_choice,
    check_integer,
    check_kernel_params,
    check_landmarks,
    check_scale,
    scaled_source,
)

__all__ = ["LandmarkTransformer", "MapTransformer", "documented_map", "optional_number"]

_ALONE = 15  # clusters that a map on its own is made for, where that decides its size

_KERNEL = """\
kernel : str, Kernel or callable, default "rbf"
    A name from `daskkcl.kernels`, a kernel, or a function of two tables that returns their kernel matrix.
gamma : float or {"auto", "scale", "median"}, default "auto"
    Width of the kernel, from a sample unless it is a number.
kernel_params : dict, optional
    Further parameters of a named kernel."""
_LANDMARKS = """\
landmarks : {"uniform", "kmeans", "leverage"} or array, default "uniform"
    How landmarks are drawn, or their rows.
n_landmarks : int, optional
    500 by default, fewer if there are fewer rows."""
_REST = """\
scale : {"standard", "minmax", "unit"}, optional
    Scale features as rows are read: to mean 0 and variance 1, to 0...1, or each row to length 1. What all rows have to
    be looked at for is found in the pass that draws the sample; it is kept in `scaler_`, and `transform` scales too.
memory_limit : str or int, optional
    The most memory the process may occupy while fitting, such as ``"512MiB"``.
dtype : {"float32", "float64"}, optional
    Precision of blocks; float32 unless the data are float64 and small.
random_state : int, Generator or None
nan : {"raise", "drop"}, default "raise"
    What to do with rows that have a NaN or infinity; dropped ones have NaN coordinates.
missing : {"warn", "raise", "fill"}, default "warn"
    What to do about absent chunks of a Zarr array.
scratch : path, optional
    Folder for temporary files.
progress : bool or callable, optional

Attributes
----------
n_features_in_ : int
scaler_ : Scaler or None
    How rows are scaled.
plan_ : Plan
    Blocks, threads, and the memory they take."""


def documented_map(cls: type[Any]) -> type[Any]:
    """Fill the common parameters into a class's docstring."""
    text = textwrap.dedent("    " + (cls.__doc__ or ""))
    for mark, fill in {"{kernel}": _KERNEL, "{landmarks}": _LANDMARKS, "{rest}": _REST}.items():
        text = text.replace(mark, fill)
    cls.__doc__ = text
    return cls


@dataclass(eq=False, repr=False, kw_only=True)
class MapTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of maps: `fit` on any data, `transform` any data, lazily where they are lazy."""

    name: ClassVar[str]

    kernel: Any = "rbf"
    gamma: Any = "auto"
    kernel_params: dict[str, Any] | None = None
    scale: str | None = None
    memory_limit: str | int | None = None
    dtype: Any = None
    random_state: Any = None
    nan: str = "raise"
    missing: str = "warn"
    scratch: str | None = None
    progress: Any = None

    def recipe(self) -> recipes.Recipe:
        """Return what the map will be, parameters checked."""
        raise AttributeError(f"{type(self).__name__} has no recipe")

    def checked_kernel(self) -> Kernel | None:
        """Return the kernel, its width perhaps still open."""
        return as_kernel(self.kernel, self.gamma, **check_kernel_params(self.kernel_params))

    def _only(self, *kinds: type[Kernel]) -> Kernel:
        """Return the kernel if it is one of these kinds, else say which there are."""
        kernel = MapTransformer.checked_kernel(self)
        if isinstance(kernel, kinds):
            return kernel
        names = " and ".join(repr(kind.name) for kind in kinds)
        raise InvalidInputError(
            f"{type(self).__name__} is there for the kernels {names}, not for {kernel!r}; map='nystroem' takes any."
        )

    def size(self, source: Source) -> tuple[Any, int]:
        """Return the landmarks (a way to draw them, or rows) and their number, or the number of features."""
        return "uniform", check_integer("n_components", self.n_components, 1)

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        client: Any = None,
        component: str | None = None,
        storage_options: dict[str, Any] | None = None,
        feature_dim: str | None = None,
    ) -> Self:
        """Make the map from the rows of X: from a sample, or with passes over all rows where the map needs them.

        Parameters
        ----------
        X : path, URL, zarr.Array, zarr.Group, dask array, xarray object, scipy sparse or array-like of shape (n, d)
        y : None
            Not used, present for scikit-learn's conventions.
        client : distributed.Client, optional
            Where to compute; the active client by default, else threads of this process.
        component : str, optional
            The array inside a Zarr group.
        storage_options : dict, optional
            For URLs.
        feature_dim : str, optional
            The dimension of a DataArray that is that of the features, if it has more than two.
        """
        source = open_rows(self, X, component, storage_options, True, feature_dim)
        with single_threaded():
            engine = make_engine(client, Progress(self.progress))
            landmarks, n_landmarks = self.size(source)
            check_choice("missing", self.missing, ("warn", "raise", "fill"))
            problem = Problem(
                source=scaled_source(check_scale(self.scale, source), source),
                n_clusters=min(_ALONE, source.n_rows),
                recipe=self.recipe(),
                kernel=self.checked_kernel(),
                landmarks=landmarks,
                n_landmarks=n_landmarks,
                dtype=block_dtype(self.dtype, source),
                nan=check_choice("nan", self.nan, ("raise", "drop")),
                key=as_key(self.random_state),
                memory_limit=as_limit(self.memory_limit),
                scratch=None if self.scratch is None else str(self.scratch),
                keep_codes=False,
            )
            plan = plan_run(problem, engine, base_stages(problem))
            source.check_missing(self.missing)
            try:
                setup = prepare(problem, engine, plan)
            except BadRowError as error:
                raise explain_bad_row(engine, source, plan.layout("sampling"), error) from None
            setup.scratch.close()
        self._reader, self.scaler_ = setup.row_reader, setup.problem.scaler
        self._n_features_out = setup.row_map.n_measurements
        self.plan_ = plan
        return self

    def transform(self, X: Any, *, component: str | None = None, storage_options: dict[str, Any] | None = None) -> Any:
        """Return the coordinates of every row of X: numpy for data in memory, else a lazy dask array.

        A lazy one is written block by block with its own ``to_zarr``; it never has to be in memory.

        Parameters
        ----------
        X : as for `fit`
        component, storage_options : as for `fit`
        """
        check_is_fitted(self)
        source = open_rows(self, X, component, storage_options, reset=False)
        check_output(self, source)
        source.check_missing(self.missing)
        scaler = self.__dict__.get("scaler_")
        source = source if scaler is None else ScaledSource(source, scaler.name, scaler)
        values, frame = lazy_measurements(source, self._reader), source.frame
        try:
            values = values if source.lazy else compute_here(values)
            return values if frame is None else frame.wrap(values, "coordinates", "component")
        except BadRowError as error:
            engine, layout = make_engine(None, Progress(False)), block_rows(source, self._reader, 8)
            raise explain_bad_row(engine, source, layout, error) from None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_reader")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.nan == "drop"
        tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class LandmarkTransformer(MapTransformer):
    """Base class of maps that have landmarks."""

    landmarks: Any = "uniform"
    n_landmarks: int | None = None

    def size(self, source: Source) -> tuple[Any, int]:
        """Return the landmarks (a way to draw them, or rows) and their number."""
        return check_landmarks(self.landmarks, self.n_landmarks, source)


def optional_number(name: str, value: int | None) -> int | None:
    """Return a whole number of at least one, or None."""
    return None if value is None else check_integer(name, value, 1)
