"""Random features: coordinates whose inner products are the kernel's on average, without landmarks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Kernel, Laplacian, Polynomial, Rbf
from ..kernels.rows import as_dense
from .explicit import ExplicitMap, squared_lengths

__all__ = ["RandomFourierMap", "TensorSketchMap", "draw_frequencies", "draw_sketch"]

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class RandomFourierMap(ExplicitMap):
    """Cosines and sines of random frequencies: ``y = sqrt(1/D) (cos(x W), sin(x W))``, W (d, D).

    Rahimi and Recht, "Random features for large-scale kernel machines" (NIPS 2007). The squared length is one, as
    the kernel's diagonal is. Rows are moved to `origin` first: the kernel does not change, and the angles stay small.

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.kernels import Rbf
    >>> W = draw_frequencies(Rbf(gamma=0.5), 3, 4000, np.random.default_rng(0))
    >>> Y, _ = RandomFourierMap(Rbf(gamma=0.5), np.zeros(3), W, np.dtype("float64")).measure(np.eye(3))
    >>> (Y @ Y.T).round(1)[0]
    array([1. , 0.4, 0.4])
    """

    kernel: Kernel | None
    origin: Floats
    frequencies: Floats
    dtype: np.dtype[Any]
    name: str = field(default="rff", init=False)

    @property
    def n_features(self) -> int:
        return int(self.frequencies.shape[0])

    @property
    def n_measurements(self) -> int:
        return 2 * int(self.frequencies.shape[1])

    @cached_property
    def _frequencies(self) -> Floats:
        return np.ascontiguousarray(self.frequencies, dtype=self.dtype)

    def settle(self) -> None:
        """Make what all tasks share now, once and not in each thread."""
        self._frequencies  # noqa: B018

    def measure(self, rows: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
        half = self.frequencies.shape[1]
        if out is None:
            out = np.empty((len(rows), 2 * half), dtype=self.dtype)
        angles = (as_dense(rows) - self.origin).astype(self.dtype, copy=False) @ self._frequencies
        np.cos(angles, out=out[:, :half])
        np.sin(angles, out=out[:, half:])
        out *= np.asarray(np.sqrt(1 / half), dtype=self.dtype)
        return out, np.ones(len(rows), dtype=self.dtype)

    def scratch_bytes(self, rows: int, cells: int | None = None) -> int:
        itemsize = np.dtype(self.dtype).itemsize
        return rows * ((cells or self.n_features) * (8 + itemsize) + (self.n_measurements // 2 + 1) * itemsize)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_frequencies"}


def draw_frequencies(kernel: Kernel, n_features: int, n: int, rng: np.random.Generator) -> Floats:
    """Draw n frequencies (d, n) from the spectral density of a kernel.

    The Gaussian's are orthogonal in groups of d (Yu et al. 2016, "Orthogonal random features"), which lowers the
    variance; their lengths are those of independent Gaussian vectors. The Laplacian's density is Cauchy, one
    coordinate apart from another, so its frequencies are independent.
    """
    if isinstance(kernel, Laplacian):
        return float(kernel.gamma) * rng.standard_cauchy((n_features, n))
    assert isinstance(kernel, Rbf)
    groups = []
    for first in range(0, n, n_features):
        Q, _ = np.linalg.qr(rng.normal(size=(n_features, n_features)))
        lengths = np.sqrt(rng.chisquare(n_features, n_features))
        groups.append((Q * lengths)[:, : n - first])
    return np.sqrt(2 * float(kernel.gamma)) * np.concatenate(groups, axis=1)


@dataclass(frozen=True, eq=False)
class TensorSketchMap(ExplicitMap):
    """Sketches of the tensor powers of a row: inner products are ``(gamma x.y + coef0)^degree`` on average.

    Pham and Pagh, "Fast and scalable polynomial kernels via explicit feature maps" (KDD 2013,
    doi:10.1145/2487575.2487591): the sketch of a tensor product is the circular convolution of count sketches, a
    product of their Fourier transforms.

    Parameters
    ----------
    kernel : Polynomial
    buckets, signs : ndarray of shape (degree, d + 1)
        Where each feature (and the constant) goes in each count sketch, and with which sign.
    size : int
        Columns of the sketch.
    """

    kernel: Kernel | None
    buckets: NDArray[np.int64]
    signs: Floats
    size: int
    dtype: np.dtype[Any]
    name: str = field(default="randpoly", init=False)

    @property
    def n_features(self) -> int:
        return int(self.buckets.shape[1]) - 1

    @property
    def n_measurements(self) -> int:
        return self.size

    @cached_property
    def _sketches(self) -> list[Any]:
        """The count sketches as sparse matrices (size, d + 1), the kernel's scale and constant inside."""
        from scipy.sparse import csr_array

        assert isinstance(self.kernel, Polynomial)
        columns = np.arange(self.n_features + 1)
        weights = np.append(np.full(self.n_features, np.sqrt(float(self.kernel.gamma))), np.sqrt(self.kernel.coef0))
        return [
            csr_array((sign * weights, (bucket, columns)), shape=(self.size, len(columns))).astype(self.dtype)
            for bucket, sign in zip(self.buckets, self.signs, strict=True)
        ]

    def settle(self) -> None:
        """Make what all tasks share now, once and not in each thread."""
        self._sketches  # noqa: B018

    def measure(self, rows: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
        from scipy import fft

        X = np.ones((self.n_features + 1, len(rows)), dtype=self.dtype)
        X[:-1] = as_dense(rows).T
        product = None
        for sketch in self._sketches:
            transform = fft.rfft(sketch @ X, axis=0)  # (size / 2 + 1, rows)
            product = transform if product is None else np.multiply(product, transform, out=product)
        Y = fft.irfft(product, n=self.size, axis=0).T
        if out is None:
            out = np.empty((len(rows), self.size), dtype=self.dtype)
        out[...] = Y
        return out, squared_lengths(out)

    def scratch_bytes(self, rows: int, cells: int | None = None) -> int:
        itemsize = np.dtype(self.dtype).itemsize
        return rows * itemsize * ((cells or self.n_features) + 1 + 6 * (self.size + 2))

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_sketches"}


def draw_sketch(
    kernel: Kernel, n_features: int, size: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Floats]:
    """Draw buckets and signs (degree, d + 1) of count sketches for a polynomial kernel."""
    assert isinstance(kernel, Polynomial)
    shape = (kernel.degree, n_features + 1)
    return rng.integers(0, size, shape), rng.choice([-1.0, 1.0], shape)
