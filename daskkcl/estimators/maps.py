"""Maps on their own and as ingredients: from rows to coordinates, blockwise, under a memory limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..blocks.sources import Source
from ..errors import InvalidInputError
from ..kernels import Kernel, Laplacian, Polynomial, Rbf
from ..maps import recipes, streamed
from .map_base import LandmarkTransformer, MapTransformer, documented_map, optional_number
from .validation import check_choice, check_integer, check_landmarks, check_real

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


@documented_map
@dataclass(eq=False, repr=False, kw_only=True)
class Nystroem(LandmarkTransformer):
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
        return recipes.Nystroem(optional_number("rank", self.rank))


@documented_map
@dataclass(eq=False, repr=False, kw_only=True)
class APNC(LandmarkTransformer):
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
        return recipes.Apnc(optional_number("n_components", self.n_components), check_real("share", self.share, 0, 1))


@documented_map
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


@documented_map
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
        return streamed.SingularFourier(optional_number("n_vectors", self.n_vectors))

    def checked_kernel(self) -> Kernel | None:
        """Return the kernel, which must have a spectral density known here."""
        return self._only(Rbf, Laplacian)


@documented_map
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


@documented_map
@dataclass(eq=False, repr=False, kw_only=True)
class NystromNcut(LandmarkTransformer):
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
        return streamed.Ncut(optional_number("n_components", self.n_components))


@documented_map
@dataclass(eq=False, repr=False, kw_only=True)
class SparseSpectral(LandmarkTransformer):
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
        A fifth of the rows by default, 150 to 1,000 of them (at most half of the rows). More landmarks follow finer
        shapes, but each needs a few rows around it: with as many landmarks as rows the graph falls apart.
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
        if self.search == "approximate" and self.kernel is not None:
            raise InvalidInputError("search='approximate' goes by plain distances: leave out kernel=, or search=.")
        return streamed.Spectral(
            n_neighbors=check_integer("n_neighbors", self.n_neighbors, 1, 64),
            n_components=optional_number("n_components", self.n_components),
            diffusion=check_real("diffusion", self.diffusion, 0, closed=True),
            search=check_choice("search", self.search, ("auto", "exact", "approximate")),
        )


MAPS: dict[str, type[MapTransformer]] = {
    cls.name: cls for cls in (APNC, NystromNcut, Nystroem, RandomFourier, SVRandomFourier, SparseSpectral, TensorSketch)
}
