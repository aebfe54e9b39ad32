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
from ..kernels import Kernel, check_degenerate
from ..kernels.rows import is_sparse
from ..random import Key
from .base import Map
from .explicit import IdentityMap, ProjectedMap
from .features import RandomFourierMap, TensorSketchMap, draw_frequencies, draw_sketch
from .landmarks import LandmarkMap, many_rows, positive_spectrum
from .sparse_kernel import SparseKernelMap, iterated_bytes, rows_of_whole

__all__ = [
    "Apnc",
    "Fixed",
    "Fourier",
    "Identity",
    "Landmarks",
    "Making",
    "Nystroem",
    "Recipe",
    "Sizes",
    "Sketch",
    "SparseKernel",
    "Stream",
]

Floats = NDArray[Any]

_CHECKED_BUFFER = 500  # rows of a buffer, against degenerate kernels
_FEWEST_NEIGHBOURS = 12
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
        large = many_rows(self.n_rows, len(self.landmarks))
        map_ = LandmarkMap(self.kernel, self.landmarks, self.dtype, large)
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
    uses_landmarks: ClassVar[bool] = True
    n_streams: ClassVar[int] = 0
    kernel_values: ClassVar[bool] = False  # whether rows are measured by a `LandmarkMap`
    summed: ClassVar[bool] = True  # whether centres come from measurements of the sample, or of all rows

    def compiled(self, s: Sizes) -> bool:
        """Return whether rows will be measured by compiled loops, if the kernel has them."""
        return self.kernel_values and many_rows(s.rows, s.landmarks)

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

    def begin(self, making: Making) -> Any:
        """Make the map, or what is to be summed first: a `Stream`, or `Coded` for a map that is made in two steps."""
        raise AttributeError(self.name)


@dataclass(frozen=True)
class SparseKernel(Recipe):
    """Eigenvectors of the sparse kernel of a buffer that begins with the landmarks and grows."""

    n_neighbors: int | None  # None: three quarters of a cluster's share of the first rows
    max_rows: int
    counts_clusters: bool  # whether their number is found in the sample, and not yet known
    neighbors: str = "mutual"
    unit: bool = False
    name = "sparse"
    summed = False  # they come from the buffer, which is counted here

    def width(self, s: Sizes) -> int:
        return s.clusters

    def inner(self, s: Sizes) -> int:
        return 4 * self.max_rows  # kernel, distances, those in part sorted, masks

    def fixed_bytes(self, s: Sizes) -> int:
        most, c = self.max_rows, s.clusters
        rows = most * s.cells * (3 * 8 + 3 * s.itemsize)
        p = self.neighbours(s.landmarks, 1 if self.counts_clusters else c)
        entries = min(most * most, 2 * most * (p + 1))  # a row sees p of those before it, and they see it
        matrix = 5 * 12 * entries
        vectors, table = 8 * most * c, s.itemsize * most * c
        held = 2 * (vectors + table)  # of the buffer before, and of one that blocks ahead were looked at with
        whole = 8 * min(most, rows_of_whole(c)) ** 2 + vectors
        iterated = iterated_bytes(most, c) + 3 * vectors  # where they start, as they were found, in order
        clustering = 3 * vectors + table  # with coordinates, and distances, or coordinates in block precision
        return rows + matrix + held + max(whole, iterated, clustering)

    def neighbours(self, n_first: int, n_clusters: int) -> int:
        """Return how many rows of the buffer a row sees."""
        p = self.n_neighbors or max(_FEWEST_NEIGHBOURS, 3 * n_first // (4 * n_clusters))
        return min(p, self.max_rows)

    def begin(self, making: Making) -> Map:
        assert making.kernel is not None
        first = making.landmarks[:_CHECKED_BUFFER].astype(np.float64)
        check_degenerate(making.kernel(first, first), making.kernel, making.sample[:_CHECKED_ROWS])
        p = self.neighbours(len(making.landmarks), making.n_clusters)
        map_ = SparseKernelMap.begin(
            making.landmarks, making.kernel, p, making.n_clusters, making.dtype, self.neighbors, self.unit
        )
        if not np.isfinite(map_.matrix.data.sum()):
            raise InvalidInputError(
                "The kernel matrix of the buffer overflows; scale the features or lower the degree."
            )
        return map_


@dataclass(frozen=True)
class Identity(Recipe):
    """Input space."""

    name = "identity"
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
    uses_landmarks = False

    @property
    def explicit(self) -> bool:  # type: ignore[override]
        return bool(self.map_.explicit)

    def width(self, s: Sizes) -> int:
        return int(self.map_.n_measurements)

    def sparse_width(self, kernel: Kernel | None, d: int, entries: int) -> int:
        inner = getattr(self.map_, "inner", getattr(self.map_, "nearest", self.map_))
        own = inner.kernel if is_sparse(getattr(inner, "landmarks", getattr(inner, "rows", None))) else None
        return d if own is None else own.sparse_width(d, entries)

    def inner(self, s: Sizes) -> int:
        return int(self.map_.scratch_bytes(1024, s.cells) // (1024 * s.itemsize))

    def compiled(self, s: Sizes) -> bool:
        return getattr(getattr(self.map_, "inner", self.map_), "many_rows", False)

    def fixed_bytes(self, s: Sizes) -> int:
        import pickle

        return 3 * len(pickle.dumps(self.map_, protocol=5))

    def begin(self, making: Making) -> Map:
        return self.map_.for_clusters(making.n_clusters) if hasattr(self.map_, "for_clusters") else self.map_


@dataclass(frozen=True)
class Landmarks(Recipe):
    """Kernel values with the landmarks; centres in their span."""

    name = "landmarks"
    explicit = False
    kernel_values = True

    def begin(self, making: Making) -> Map:
        return making.landmark_map()


@dataclass(frozen=True)
class Nystroem(Recipe):
    """Coordinates in the span of the landmarks: ``y = z V L^-1/2``, the leading `rank` of them."""

    rank: int | None = None
    name = "nystroem"
    kernel_values = True

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
    kernel_values = True

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
