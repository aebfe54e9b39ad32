"""Maps on their own and as ingredients: from rows to coordinates, blockwise, under a memory limit."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..blocks.sources import Source
from ..errors import InvalidInputError
from ..kernels import Kernel, Laplacian, Polynomial, Rbf, as_kernel
from ..maps import recipes
from ..progress import Progress
from ..random import as_key
from ..schedules.data import explain_bad_row
from ..schedules.engine import make_engine
from ..schedules.predict import block_rows, compute_here, lazy_measurements
from ..schedules.setup import Problem, base_stages, plan_run, prepare
from ..schedules.tasks import BadRowError
from ..system import parse_bytes, single_threaded
from .inputs import open_rows
from .validation import block_dtype, check_choice, check_integer, check_kernel_params, check_landmarks, check_real

__all__ = [
    "APNC",
    "MAPS",
    "MapTransformer",
    "NystromNcut",
    "Nystroem",
    "RandomFourier",
    "SVRandomFourier",
    "SparseSpectral",
    "TensorSketch",
]

_FEWEST_LANDMARKS, _MOST_LANDMARKS, _ROWS_PER_LANDMARK = 150, 1000, 5  # of the spectral map, unless told
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
plan_ : Plan
    Blocks, threads, and the memory they take."""


def _documented(cls: type[Any]) -> type[Any]:
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
    ) -> Self:
        """Make the map from the rows of X: from a sample, or with passes over all rows where the map needs them.

        Parameters
        ----------
        X : path, URL, zarr.Array, zarr.Group, dask array, xarray.DataArray or array-like of shape (n_rows, n_features)
        y : None
            Not used, present for scikit-learn's conventions.
        client : distributed.Client, optional
            Where to compute; the active client by default, else threads of this process.
        component : str, optional
            The array inside a Zarr group.
        storage_options : dict, optional
            For URLs.
        """
        source = open_rows(self, X, component, storage_options, reset=True)
        with single_threaded():
            engine = make_engine(client, Progress(self.progress))
            landmarks, n_landmarks = self.size(source)
            check_choice("missing", self.missing, ("warn", "raise", "fill"))
            problem = Problem(
                source=source,
                n_clusters=min(_ALONE, source.n_rows),
                recipe=self.recipe(),
                kernel=self.checked_kernel(),
                landmarks=landmarks,
                n_landmarks=n_landmarks,
                dtype=block_dtype(self.dtype, source),
                nan=check_choice("nan", self.nan, ("raise", "drop")),
                key=as_key(self.random_state),
                memory_limit=None if self.memory_limit is None else parse_bytes(self.memory_limit),
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
        self._reader = setup.row_reader
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
        source.check_missing(self.missing)
        lazy = lazy_measurements(source, self._reader)
        if source.lazy:
            return lazy
        try:
            return compute_here(lazy)
        except BadRowError as error:
            engine, layout = make_engine(None, Progress(False)), block_rows(source, self._reader, 8)
            raise explain_bad_row(engine, source, layout, error) from None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_reader")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.nan == "drop"
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class _LandmarkTransformer(MapTransformer):
    landmarks: Any = "uniform"
    n_landmarks: int | None = None

    def size(self, source: Source) -> tuple[Any, int]:
        """Return the landmarks (a way to draw them, or rows) and their number."""
        return check_landmarks(self.landmarks, self.n_landmarks, source)


def _number(name: str, value: int | None) -> int | None:
    return None if value is None else check_integer(name, value, 1)


@_documented
@dataclass(eq=False, repr=False, kw_only=True)
class Nystroem(_LandmarkTransformer):
    """Explicit Nystroem coordinates: the kernel's feature space seen from the span of a few landmarks.

    Inner products of coordinates approach the kernel's as landmarks are added; with all rows as landmarks they are
    the kernel's.

    Parameters
    ----------
    {kernel}
    {landmarks}
    rank : int, optional
        Keep the leading coordinates only; all that rounding leaves by default.
    {rest}

    Notes
    -----
    Williams and Seeger, "Using the Nystroem method to speed up kernel machines" (NIPS 2000).

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> Y = daskkcl.maps.Nystroem(gamma=0.5, n_landmarks=50, random_state=0).fit_transform(X)
    >>> bool(np.allclose(Y @ Y.T, daskkcl.kernels.Rbf(0.5)(X, X), atol=1e-6))
    True
    """

    name: ClassVar[str] = "nystroem"
    rank: int | None = None

    def recipe(self) -> recipes.Recipe:
        """Return what the map will be, parameters checked."""
        return recipes.Nystroem(_number("rank", self.rank))


@_documented
@dataclass(eq=False, repr=False, kw_only=True)
class APNC(_LandmarkTransformer):
    """APNC embedding by stable distributions: l1 distances of coordinates stand for distances in feature space.

    Parameters
    ----------
    {kernel}
    {landmarks}
    n_components : int, optional
        Coordinates; as many as landmarks by default.
    share : float, default 0.4
        The share of the landmarks that each coordinate sums over.
    {rest}

    Notes
    -----
    Elgohary, Farahat, Kamel and Karray, "Embed and conquer: scalable embeddings for kernel k-means on MapReduce"
    (arXiv:1311.2334, doi:10.1137/1.9781611973440.49), the variant based on p-stable distributions. The print whitens
    with ``L^-1/2 V^T``; the rows of that are of very unequal spread, and their sums are far from Gaussian, which the
    argument needs. The symmetric root ``V L^-1/2 V^T`` is used here.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> daskkcl.maps.APNC(n_landmarks=50, n_components=20, random_state=0).fit_transform(X).shape
    (200, 20)
    """

    name: ClassVar[str] = "apnc"
    n_components: int | None = None
    share: float = 0.4

    def recipe(self) -> recipes.Recipe:
        """Return what the map will be, parameters checked."""
        return recipes.Apnc(_number("n_components", self.n_components), check_real("share", self.share, 0, 1))


@_documented
@dataclass(eq=False, repr=False, kw_only=True)
class RandomFourier(MapTransformer):
    """Random Fourier features of the Gaussian (orthogonal ones) and the Laplacian kernel.

    Parameters
    ----------
    {kernel}
    n_components : int, default 500
        Features, cosines and sines together; an odd number is rounded up.
    {rest}

    Notes
    -----
    Rahimi and Recht, "Random features for large-scale kernel machines" (NIPS 2007); Yu, Suresh, Choromanski,
    Holtmann-Rice and Kumar, "Orthogonal random features" (NIPS 2016).

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> Y = daskkcl.maps.RandomFourier(gamma=0.5, n_components=2000, random_state=0).fit_transform(X)
    >>> bool(np.abs(Y @ Y.T - daskkcl.kernels.Rbf(0.5)(X, X)).max() < 0.2)
    True
    """

    name: ClassVar[str] = "rff"
    n_components: int = 500

    def recipe(self) -> recipes.Recipe:
        """Return what the map will be, parameters checked."""
        return recipes.Fourier()

    def checked_kernel(self) -> Kernel | None:
        """Return the kernel, which must have a spectral density known here."""
        return self._only(Rbf, Laplacian)


@_documented
@dataclass(eq=False, repr=False, kw_only=True)
class SVRandomFourier(MapTransformer):
    """The leading singular vectors of random Fourier features, from one pass that adds up their Gram matrix.

    Parameters
    ----------
    {kernel}
    n_components : int, default 500
        Random features.
    n_vectors : int, optional
        Singular vectors kept; the number of clusters by default (15 on its own).
    {rest}

    Notes
    -----
    Chitta, Jin and Jain, "Efficient kernel clustering using random Fourier features" (ICDM 2012,
    doi:10.1109/ICDM.2012.61).

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> daskkcl.maps.SVRandomFourier(n_vectors=4, random_state=0).fit_transform(X).shape
    (100, 4)
    """

    name: ClassVar[str] = "svrff"
    n_components: int = 500
    n_vectors: int | None = None

    def recipe(self) -> recipes.Recipe:
        """Return what the map will be, parameters checked."""
        return recipes.SingularFourier(_number("n_vectors", self.n_vectors))

    def checked_kernel(self) -> Kernel | None:
        """Return the kernel, which must have a spectral density known here."""
        return self._only(Rbf, Laplacian)


@_documented
@dataclass(eq=False, repr=False, kw_only=True)
class TensorSketch(MapTransformer):
    """Random features of polynomial kernels, ``(gamma x.y + coef0)^degree``, by TensorSketch.

    Parameters
    ----------
    kernel : "polynomial" or daskkcl.kernels.Polynomial
        Its degree and constant go to `kernel_params`.
    gamma : float or {"auto", "scale", "median"}, default "auto"
    kernel_params : dict, optional
        Such as ``{"degree": 5, "coef0": 1.0}``.
    n_components : int, default 500
        Columns of the sketch.
    {rest}

    Notes
    -----
    Pham and Pagh, "Fast and scalable polynomial kernels via explicit feature maps" (KDD 2013,
    doi:10.1145/2487575.2487591).

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> daskkcl.maps.TensorSketch(kernel_params={"degree": 2}, random_state=0).fit_transform(X).shape
    (100, 500)
    """

    name: ClassVar[str] = "randpoly"
    kernel: Any = "polynomial"
    n_components: int = 500

    def recipe(self) -> recipes.Recipe:
        """Return what the map will be, parameters checked."""
        return recipes.Sketch()

    def checked_kernel(self) -> Kernel | None:
        """Return the kernel, which must be a polynomial with a constant that has a root."""
        kernel = self._only(Polynomial)
        if kernel.coef0 < 0:  # type: ignore[attr-defined]
            raise InvalidInputError(f"TensorSketch needs a polynomial kernel with coef0 >= 0, not {kernel!r}.")
        return kernel


@_documented
@dataclass(eq=False, repr=False, kw_only=True)
class NystromNcut(_LandmarkTransformer):
    """Normalised cut by the Nystroem method: leading eigenvectors of the degree-normalised kernel, rows of length one.

    One pass adds up the degrees, a second one the Gram matrix of the normalised measurements.

    Parameters
    ----------
    {kernel}
    {landmarks}
    n_components : int, optional
        Eigenvectors; the number of clusters by default (15 on its own).
    {rest}

    Notes
    -----
    Fowlkes, Belongie, Chung and Malik, "Spectral grouping using the Nystroem method" (TPAMI 2004,
    doi:10.1109/TPAMI.2004.1262185).

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> daskkcl.maps.NystromNcut(n_components=4, n_landmarks=50, random_state=0).fit_transform(X).shape
    (200, 4)
    """

    name: ClassVar[str] = "nyncut"
    n_components: int | None = None

    def recipe(self) -> recipes.Recipe:
        """Return what the map will be, parameters checked."""
        return recipes.Ncut(_number("n_components", self.n_components))


@_documented
@dataclass(eq=False, repr=False, kw_only=True)
class SparseSpectral(_LandmarkTransformer):
    """The sparse landmark spectral map: eigenvectors of the walk from rows to their nearest landmarks and back.

    Every row is described by its few nearest landmarks; the eigenvectors of the graph that this makes are small, and
    every row's coordinates follow from its own landmarks. One pass over the data, 8 bytes a row and neighbour.

    Parameters
    ----------
    kernel : str, Kernel or callable, optional
        Distances are plain ones by default; with a kernel, those of its feature space.
    gamma : float or {"auto", "scale", "median"}, default "auto"
    kernel_params : dict, optional
    landmarks : {"kmeans", "uniform", "leverage"} or array, default "kmeans"
        Centres of a k-means of a sample, random rows (which lose some accuracy), or given rows.
    n_landmarks : int, optional
        A fifth of the rows by default, 150 to 1,000 of them (at most half of the rows). More landmarks follow finer shapes, but each needs a few
        rows around it: with as many landmarks as rows the graph falls apart.
    n_neighbors : int, default 3
        Landmarks that describe a row.
    n_components : int, optional
        Coordinates. By default up to five more than there are clusters (15 on its own): fewer where the eigenvalues
        make a clear step, because what comes behind it cuts through clusters.
    diffusion : float, default 2.0
        Steps of the walk: directions that do not last count less with more of them. 0 weighs all alike.
    search : {"auto", "exact", "approximate"}, default "auto"
        How the nearest landmarks are found; among more than 2,048, only those around the nearest of some coarse cells
        are looked at.
    {rest}

    Notes
    -----
    In the line of landmark-based spectral clustering: Chen and Cai, "Large scale spectral clustering with
    landmark-based representation" (AAAI 2011); Huang, Wang, Wu, Lai and Kwoh, "Ultra-scalable spectral clustering and
    ensemble clustering" (doi:10.1109/TKDE.2019.2903410). Weights are kept to a fixed number of binary places, so that
    the sums over all rows are exact and do not depend on how the rows are cut.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> t = np.random.default_rng(0).uniform(0, 2 * np.pi, 600)
    >>> rings = np.c_[np.cos(t), np.sin(t)] * np.repeat([1, 3], 300)[:, None]
    >>> Y = daskkcl.maps.SparseSpectral(n_landmarks=100, n_components=2, random_state=0).fit_transform(rings)
    >>> bool(abs(Y[:300] @ Y[300:].T).max() < 0.01)  # rows of different rings are orthogonal
    True
    """

    name: ClassVar[str] = "spectral"
    kernel: Any = None
    landmarks: Any = "kmeans"
    n_neighbors: int = 3
    n_components: int | None = None
    diffusion: float = 2.0
    search: str = "auto"

    def checked_kernel(self) -> Kernel | None:
        """Return the kernel whose distances are meant, None for plain ones."""
        if self.kernel is not None:
            return super().checked_kernel()
        for name, value, default in (("gamma", self.gamma, "auto"), ("kernel_params", self.kernel_params, None)):
            if not (value is default or (isinstance(value, str) and value == default)):
                raise InvalidInputError(
                    f"The spectral map takes plain distances, which have no {name}: leave it out, or give kernel= too."
                )
        return None

    def size(self, source: Source) -> tuple[Any, int]:
        """Return the landmarks (a way to draw them, or rows) and their number."""
        if isinstance(self.landmarks, str) and self.landmarks == "leverage" and self.kernel is None:
            raise InvalidInputError("landmarks='leverage' needs a kernel; give kernel=, or use 'kmeans'.")
        # Landmarks hang together through the rows between them: a few rows for each are needed.
        n = source.n_rows
        default = min(_MOST_LANDMARKS, max(n // _ROWS_PER_LANDMARK, min(_FEWEST_LANDMARKS, n // 2), 1))
        return check_landmarks(self.landmarks, self.n_landmarks, source, default)

    def recipe(self) -> recipes.Recipe:
        """Return what the map will be, parameters checked."""
        return recipes.Spectral(
            n_neighbors=check_integer("n_neighbors", self.n_neighbors, 1, 64),
            n_components=_number("n_components", self.n_components),
            diffusion=check_real("diffusion", self.diffusion, 0, closed=True),
            search=check_choice("search", self.search, ("auto", "exact", "approximate")),
        )


MAPS: dict[str, type[MapTransformer]] = {
    cls.name: cls for cls in (APNC, NystromNcut, Nystroem, RandomFourier, SVRandomFourier, SparseSpectral, TensorSketch)
}
