"""Recipes of maps that are made of sums over all rows: singular vectors, normalised cut, the spectral map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Kernel, Linear
from ..kernels.rows import is_sparse
from ..random import Key
from .base import Map
from .explicit import ProjectedMap
from .features import RandomFourierMap
from .landmarks import LandmarkMap, positive_spectrum
from .nearest import MANY, NearestLandmarks, code_bits, make_cells
from .recipes import Fourier, Making, Recipe, Sizes, Stream
from .spectral import MORE, CodeMap, SpectralMap, spectral_table

__all__ = ["Coded", "Ncut", "SingularFourier", "Spectral"]

Floats = NDArray[Any]


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
class Ncut(Recipe):
    """Normalised cut on the landmarks' approximation of the kernel matrix.

    Fowlkes, Belongie, Chung and Malik, "Spectral grouping using the Nystroem method" (doi:10.1109/TPAMI.2004.1262185):
    degrees ``d_i = z_i A (sum z)`` from one pass, then the eigenvectors of ``D^-1/2 Z A Z^T D^-1/2`` from the Gram
    matrix of a second one; rows of them divided by their length, which takes the degree of the row out again.
    """

    n_components: int | None = None
    name = "nyncut"
    n_streams = 2
    kernel_values = True

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
        return min(s.landmarks, self.n_components or s.clusters + MORE)

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
        most = self.n_components or making.n_clusters + MORE
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
        table, values = spectral_table(products, sums, bits, self.fewest, self.most, self.diffusion, rng)
        codes = CodeMap(table, self.nearest.n_neighbors, self.nearest.dtype)
        return SpectralMap(self.nearest, codes, values if self.fewest < self.most else None)
