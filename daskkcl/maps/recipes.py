"""How maps are made, and what they cost: from a sample at once, or with sums over all rows.

A recipe is what a map will be before any data are read: it says what it needs. `begin` makes the map from the sample,
or a `Stream`, which wants sums over all rows first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError
from ..kernels import Kernel, Linear, check_degenerate
from ..kernels.rows import is_sparse
from ..random import Key
from .base import Map
from .explicit import IdentityMap, ProjectedMap
from .features import RandomFourierMap, TensorSketchMap, draw_frequencies, draw_sketch
from .landmarks import LandmarkMap, positive_spectrum
from .nearest import MANY, NearestLandmarks, code_bits, make_cells
from .spectral import CodeMap, SpectralMap, spectral_table

__all__ = [
    "Apnc",
    "Coded",
    "Fixed",
    "Fourier",
    "Identity",
    "Landmarks",
    "Making",
    "Ncut",
    "Nystroem",
    "Recipe",
    "SingularFourier",
    "Sizes",
    "Sketch",
    "Spectral",
    "Stream",
]

Floats = NDArray[Any]

_CHECKED_ROWS = 2000  # of the sample, for the width and against degenerate kernels


@dataclass(frozen=True)
class Sizes:
    """The numbers that costs depend on."""

    rows: int
    features: int
    landmarks: int
    clusters: int
    itemsize: int
    cells: int  # numbers that a row takes: the features, or fewer if it is sparse


@dataclass(frozen=True, eq=False)
class Making:
    """What a map is made from: a uniform sample in random order, the landmarks chosen from it, and keys."""

    sample: Floats
    landmarks: Floats
    size: int  # landmarks, or random features of maps that have none
    kernel: Kernel | None
    dtype: np.dtype[Any]
    key: Key
    n_rows: int
    n_clusters: int

    @property
    def origin(self) -> Floats:
        """The mean of the sample."""
        return self.sample[:_CHECKED_ROWS].mean(axis=0, dtype=np.float64)

    def landmark_map(self) -> LandmarkMap:
        """Return kernel values with the landmarks, the kernel matrix looked at."""
        assert self.kernel is not None
        map_ = LandmarkMap(self.kernel, self.landmarks, self.dtype)
        check_degenerate(map_.kernel_matrix, self.kernel, self.sample[:_CHECKED_ROWS])
        if not np.isfinite(map_.kernel_matrix.sum()):
            raise InvalidInputError(
                "The kernel matrix of the landmarks overflows; scale the features or lower the degree."
            )
        return map_


class Stream(Protocol):
    """A map in the making that wants sums over all rows."""

    @property
    def title(self) -> str:
        """What progress calls it."""

    def sums(self, rows: Floats) -> list[Floats]:
        """Return what a tile of rows adds."""

    def finish(self, totals: list[Floats]) -> Map | Stream:
        """Make the map of the totals, or what is to be summed next."""

    def scratch_bytes(self, rows: int) -> int:
        """Return the temporaries of `sums`."""


@dataclass(frozen=True)
class Recipe:
    """What a map will be. Costs are upper bounds."""

    name: ClassVar[str]
    explicit: ClassVar[bool] = True
    uses_kernel: ClassVar[bool] = True
    uses_landmarks: ClassVar[bool] = True
    n_streams: ClassVar[int] = 0

    @property
    def code_bytes(self) -> int:
        """Bytes of a row's code, for maps that are made in two steps; 0 for others."""
        return 0

    def width(self, s: Sizes) -> int:
        """Return the columns of the measurements."""
        return s.landmarks

    def sparse_width(self, kernel: Kernel | None, d: int, entries: int) -> int:
        """Bound the numbers that a sparse row takes: those of the kernel; all d where the map wants dense rows."""
        return kernel.sparse_width(d, entries) if self.uses_landmarks and kernel is not None else d

    def inner(self, s: Sizes) -> int:
        """Return the columns of what is computed on the way to them."""
        return 0

    def fixed_bytes(self, s: Sizes) -> int:
        """Return what the map holds, and what making it holds beside the sample."""
        return 7 * 8 * s.landmarks**2 + s.landmarks * s.cells * (8 + 2 * s.itemsize)

    def begin(self, making: Making) -> Map | Stream | Coded:
        """Make the map, or what is to be summed first."""
        raise AttributeError(self.name)


@dataclass(frozen=True)
class Identity(Recipe):
    """Input space."""

    name = "identity"
    uses_kernel = False
    uses_landmarks = False

    def width(self, s: Sizes) -> int:
        return s.features

    def fixed_bytes(self, s: Sizes) -> int:
        return 0

    def begin(self, making: Making) -> Map:
        return IdentityMap(making.sample.mean(axis=0, dtype=np.float64), making.dtype)


@dataclass(frozen=True, eq=False)
class Fixed(Recipe):
    """A map that is there already."""

    map_: Any
    name = "fixed"
    uses_kernel = False
    uses_landmarks = False

    @property
    def explicit(self) -> bool:  # type: ignore[override]
        return bool(self.map_.explicit)

    def width(self, s: Sizes) -> int:
        return int(self.map_.n_measurements)

    def sparse_width(self, kernel: Kernel | None, d: int, entries: int) -> int:
        inner = getattr(self.map_, "inner", getattr(self.map_, "nearest", self.map_))
        own = inner.kernel if is_sparse(getattr(inner, "landmarks", None)) else None
        return d if own is None else own.sparse_width(d, entries)

    def inner(self, s: Sizes) -> int:
        return int(self.map_.scratch_bytes(1024) // (1024 * s.itemsize))

    def fixed_bytes(self, s: Sizes) -> int:
        import pickle

        return 3 * len(pickle.dumps(self.map_, protocol=5))

    def begin(self, making: Making) -> Map:
        return self.map_


@dataclass(frozen=True)
class Landmarks(Recipe):
    """Kernel values with the landmarks; centres in their span."""

    name = "landmarks"
    explicit = False

    def begin(self, making: Making) -> Map:
        return making.landmark_map()


@dataclass(frozen=True)
class Nystroem(Recipe):
    """Coordinates in the span of the landmarks: ``y = z V L^-1/2``, the leading `rank` of them."""

    rank: int | None = None
    name = "nystroem"

    def width(self, s: Sizes) -> int:
        return min(s.landmarks, self.rank or s.landmarks)

    def inner(self, s: Sizes) -> int:
        return s.landmarks

    def begin(self, making: Making) -> Map:
        inner = making.landmark_map()
        values, vectors = inner.spectrum
        rank = min(len(values), self.rank or len(values))
        return ProjectedMap(inner.bare(), vectors[:, -rank:] / np.sqrt(values[-rank:]), self.name, residual=True)


@dataclass(frozen=True)
class Apnc(Recipe):
    """Random sums of the whitened, centred kernel values (doi:10.1145/2623330.2623666's family, APNC by stable laws).

    ``Y = R H K_L``: H centres, and every row of R is the sum of a random share of the rows of the symmetric root
    ``E = V L^-1/2 V^T`` of ``H K H``. (The print has ``L^-1/2 V^T``, whose rows are of very unequal spread.)
    """

    n_components: int | None = None
    share: float = 0.4
    name = "apnc"

    def width(self, s: Sizes) -> int:
        return self.n_components or s.landmarks

    def inner(self, s: Sizes) -> int:
        return s.landmarks

    def fixed_bytes(self, s: Sizes) -> int:
        return super().fixed_bytes(s) + 4 * 8 * s.landmarks * self.width(s)

    def begin(self, making: Making) -> Map:
        inner = making.landmark_map()
        K = inner.kernel_matrix
        m = len(K)
        H = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        values, vectors = positive_spectrum(H, making.dtype)
        root = (vectors / np.sqrt(values)) @ vectors.T
        rng = making.key.child("apnc").generator()
        size = self.n_components or m
        R = np.empty((size, m))
        n_summed = max(1, round(self.share * m))
        for row in R:
            row[:] = root[rng.choice(m, n_summed, replace=False)].sum(axis=0)
        return ProjectedMap(inner.bare(), (R - R.mean(axis=1)[:, None]).T, self.name)  # R H, H = I - 1/m


@dataclass(frozen=True)
class Fourier(Recipe):
    """Random Fourier features."""

    name = "rff"
    uses_landmarks = False

    def width(self, s: Sizes) -> int:
        return 2 * -(-s.landmarks // 2)

    def fixed_bytes(self, s: Sizes) -> int:
        return 8 * (s.features * s.landmarks * 3 + 6 * s.features**2)

    def begin(self, making: Making) -> Map | Stream:
        return self._features(making)

    def _features(self, making: Making) -> RandomFourierMap:
        assert making.kernel is not None
        rng = making.key.child("frequencies").generator()
        n = -(-making.size // 2)
        frequencies = draw_frequencies(making.kernel, making.sample.shape[1], n, rng)
        return RandomFourierMap(making.kernel, making.origin, frequencies, making.dtype)


@dataclass(frozen=True)
class SingularFourier(Fourier):
    """The leading left singular vectors of random Fourier features, from their streamed Gram matrix.

    Chitta, Jin and Jain, "Efficient kernel clustering using random Fourier features" (ICDM 2012,
    doi:10.1109/ICDM.2012.61).
    """

    n_components: int | None = None
    name = "svrff"
    n_streams = 1

    def width(self, s: Sizes) -> int:
        return min(super().width(s), self.n_components or s.clusters)

    def inner(self, s: Sizes) -> int:
        return super().width(s)

    def fixed_bytes(self, s: Sizes) -> int:
        return super().fixed_bytes(s) + 10 * 8 * self.inner(s) ** 2

    def begin(self, making: Making) -> Stream:
        return _SingularStream(self._features(making), min(self.n_components or making.n_clusters, making.n_rows))


@dataclass(frozen=True, eq=False)
class _SingularStream:
    features: RandomFourierMap
    n_components: int
    title: str = "features"

    def sums(self, rows: Floats) -> list[Floats]:
        Y, _ = self.features.measure(rows)
        return [Y.T @ Y]

    def finish(self, totals: list[Floats]) -> Map:
        values, vectors = positive_spectrum(totals[0], self.features.dtype)
        keep = min(self.n_components, len(values))
        # u = y V S^-1, S^2 the eigenvalues; times sqrt(n), so that coordinates are of order one
        scale = np.sqrt(np.trace(totals[0]) / values[-keep:])
        return ProjectedMap(self.features, vectors[:, -keep:] * scale, "svrff")

    def scratch_bytes(self, rows: int) -> int:
        m, itemsize = self.features.n_measurements, np.dtype(self.features.dtype).itemsize
        return self.features.scratch_bytes(rows) + (rows + m) * m * itemsize


@dataclass(frozen=True)
class Sketch(Recipe):
    """TensorSketch features of a polynomial kernel."""

    name = "randpoly"
    uses_landmarks = False

    def fixed_bytes(self, s: Sizes) -> int:
        return 100 * 40 * (s.features + 1)

    def inner(self, s: Sizes) -> int:
        return s.features + 6 * s.landmarks

    def begin(self, making: Making) -> Map:
        assert making.kernel is not None
        rng, size = making.key.child("sketch").generator(), making.size
        buckets, signs = draw_sketch(making.kernel, making.sample.shape[1], size, rng)
        return TensorSketchMap(making.kernel, buckets, signs, size, making.dtype)


@dataclass(frozen=True)
class Ncut(Recipe):
    """Normalised cut on the landmarks' approximation of the kernel matrix.

    Fowlkes, Belongie, Chung and Malik, "Spectral grouping using the Nystroem method" (doi:10.1109/TPAMI.2004.1262185):
    degrees ``d_i = z_i A (sum z)`` from one pass, then the eigenvectors of ``D^-1/2 Z A Z^T D^-1/2`` from the Gram
    matrix of a second one; rows of them divided by their length, which takes the degree of the row out again.
    """

    n_components: int | None = None
    name = "nyncut"
    n_streams = 2

    def width(self, s: Sizes) -> int:
        return min(s.landmarks, self.n_components or s.clusters)

    def inner(self, s: Sizes) -> int:
        return 2 * s.landmarks

    def fixed_bytes(self, s: Sizes) -> int:
        return super().fixed_bytes(s) + 10 * 8 * s.landmarks**2

    def begin(self, making: Making) -> Stream:
        return _DegreeStream(making.landmark_map(), min(self.n_components or making.n_clusters, making.n_rows))


@dataclass(frozen=True, eq=False)
class _DegreeStream:
    inner: LandmarkMap
    n_components: int
    title: str = "degrees"

    def sums(self, rows: Floats) -> list[Floats]:
        return [self.inner.measure(rows)[0].sum(axis=0, dtype=np.float64)]

    def finish(self, totals: list[Floats]) -> Stream:
        degree = self.inner.inverse @ totals[0]
        values, vectors = self.inner.spectrum
        return _NcutStream(self.inner.bare(), vectors / np.sqrt(values), degree, self.n_components)

    def scratch_bytes(self, rows: int) -> int:
        m, itemsize = self.inner.n_measurements, np.dtype(self.inner.dtype).itemsize
        return self.inner.scratch_bytes(rows) + rows * m * itemsize


@dataclass(frozen=True, eq=False)
class _NcutStream:
    inner: LandmarkMap
    root: Floats
    degree: Floats
    n_components: int
    title: str = "normalised cut"

    def sums(self, rows: Floats) -> list[Floats]:
        Z, _ = self.inner.measure(rows)
        degrees = Z @ self.degree.astype(Z.dtype)
        # The approximation's degrees can come out at zero or below for rows far from all landmarks: these are left out.
        least = np.finfo(Z.dtype).eps * max(float(np.abs(degrees).max(initial=0.0)), np.finfo(Z.dtype).tiny)
        Z /= np.sqrt(np.where(degrees > least, degrees, np.inf))[:, None]
        return [Z.T @ Z]

    def finish(self, totals: list[Floats]) -> Map:
        values, vectors = positive_spectrum(self.root.T @ totals[0] @ self.root, self.inner.dtype)
        keep = min(self.n_components, len(values))
        projection = self.root @ (vectors[:, -keep:] / np.sqrt(values[-keep:]))
        return ProjectedMap(self.inner.bare(), projection, "nyncut", normalised=True)

    def scratch_bytes(self, rows: int) -> int:
        m, itemsize = self.inner.n_measurements, np.dtype(self.inner.dtype).itemsize
        return self.inner.scratch_bytes(rows) + (rows + m) * m * itemsize


@dataclass(frozen=True)
class Spectral(Recipe):
    """The sparse landmark spectral map."""

    n_neighbors: int = 3
    n_components: int | None = None
    diffusion: float = 2.0
    search: str = "auto"
    name = "spectral"
    n_streams = 1

    @property
    def code_bytes(self) -> int:
        return 8 * self.n_neighbors

    def width(self, s: Sizes) -> int:
        return min(s.landmarks, self.n_components or s.clusters + 5)

    def inner(self, s: Sizes) -> int:
        return s.landmarks + 2 * s.cells + 8 * self.n_neighbors

    def fixed_bytes(self, s: Sizes) -> int:
        m = s.landmarks
        pairs = min(m * m, s.rows * self.n_neighbors**2)
        dense = 4 * 8 * m * m if m <= 2000 else 8 * m * 4 * (5 * self.width(s) + 40)
        cells = 8 * s.landmarks * s.cells * s.itemsize if self._by_cells(m) else 0
        return m * s.cells * (8 + 2 * s.itemsize) + 6 * 12 * pairs + dense + cells

    def sparse_width(self, kernel: Kernel | None, d: int, entries: int) -> int:
        return (kernel or Linear()).sparse_width(d, entries)

    def _by_cells(self, m: int) -> bool:
        return self.search == "approximate" or (self.search == "auto" and m > MANY)

    def begin(self, making: Making) -> Coded:
        m = len(making.landmarks)
        p = min(self.n_neighbors, m)
        origin, kernel = making.origin, making.kernel
        if kernel is None and is_sparse(making.landmarks):
            kernel = Linear()  # the same distances, without moving rows to their mean
        by_cells = self._by_cells(m) and kernel is None
        cells = make_cells(making.landmarks, origin, p) if by_cells else None
        bits = code_bits(making.n_rows)
        nearest = NearestLandmarks(making.landmarks, origin, p, bits, making.dtype, kernel, cells)
        few = self.n_components or making.n_clusters
        most = self.n_components or making.n_clusters + 5
        return Coded(nearest, min(few, m), min(most, m), self.diffusion, making.key.child("spectral"))


@dataclass(frozen=True, eq=False)
class Coded:
    """A spectral map in the making: rows are turned into codes once, and sums are taken of the codes."""

    nearest: NearestLandmarks
    fewest: int
    most: int
    diffusion: float
    key: Key

    def finish(self, products: Any, sums: NDArray[np.int64]) -> SpectralMap:
        """Make the map of the exact sums over all rows."""
        bits, rng = self.nearest.bits, self.key.generator()
        table, _ = spectral_table(products, sums, bits, self.fewest, self.most, self.diffusion, rng)
        return SpectralMap(self.nearest, CodeMap(table, self.nearest.n_neighbors, self.nearest.dtype))
