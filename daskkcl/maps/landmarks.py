"""The landmark map: kernel values between rows and a few landmarks (the Nystroem measurements).

Also the plain map of input space, and the choice of landmarks from a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError, did_you_mean
from ..kernels import Kernel
from ..random import Key

__all__ = ["IdentityMap", "LandmarkMap", "choose_landmarks"]

Floats = NDArray[Any]

# Eigenvalues of the landmarks' kernel matrix below this share of the largest are dropped: what is left of them
# after blocks in single (double) precision is noise.
RCOND = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}


@dataclass(frozen=True, eq=False)
class LandmarkMap:
    """Measurements ``z_i = (k(x_i, l_1), ..., k(x_i, l_m))`` and ``kappa_i = k(x_i, x_i)``.

    Parameters
    ----------
    kernel : Kernel
        With its width resolved.
    landmarks : ndarray of shape (m, d)
    dtype : dtype
        float32 or float64: the precision of blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.kernels import Rbf
    >>> map_ = LandmarkMap(Rbf(gamma=0.5), np.array([[0.0], [1.0]]), np.dtype("float64"))
    >>> Z, kappa = map_.measure(np.array([[0.0], [2.0]]))
    >>> Z.round(3)
    array([[1.   , 0.607],
           [0.135, 0.607]])
    """

    kernel: Kernel
    landmarks: Floats
    dtype: np.dtype[Any]
    name: str = field(default="landmarks", init=False)

    @property
    def n_features(self) -> int:
        return int(self.landmarks.shape[1])

    @property
    def n_measurements(self) -> int:
        return int(self.landmarks.shape[0])

    @cached_property
    def _columns(self) -> Any:
        return self.kernel.columns(self.landmarks, self.dtype)

    @cached_property
    def kernel_matrix(self) -> Floats:
        """The landmarks' own kernel matrix in float64, ``K_hat`` (m, m)."""
        landmarks = self.landmarks.astype(np.float64)
        K_hat = self.kernel(landmarks, landmarks)
        return (K_hat + K_hat.T) / 2

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        """The kept eigenvalues and eigenvectors of `kernel_matrix`."""
        import scipy.linalg

        values, vectors = scipy.linalg.eigh(self.kernel_matrix, driver="evd", check_finite=False)
        keep = values > RCOND[np.dtype(self.dtype)] * max(values[-1], 0.0)
        return values[keep], np.ascontiguousarray(vectors[:, keep])

    @property
    def rank(self) -> int:
        """Dimensions that are left after truncation."""
        return len(self.spectrum[0])

    @cached_property
    def inverse(self) -> Floats:
        """The pseudo-inverse ``A`` of `kernel_matrix`, float64."""
        values, vectors = self.spectrum
        return (vectors / values) @ vectors.T

    def settle(self) -> None:
        """Make what all tasks share now, once and not in each thread; let go of what led to it."""
        self.inverse  # noqa: B018
        for name in ("spectrum", "kernel_matrix"):
            self.__dict__.pop(name, None)
        self._columns  # noqa: B018

    def measure(self, rows: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
        return self._columns.block(rows, out)

    def dual(self, means: Floats) -> Floats:
        return np.asarray(means, dtype=np.float64) @ self.inverse

    def scratch_bytes(self, rows: int) -> int:
        itemsize = np.dtype(self.dtype).itemsize
        return self.kernel.scratch_bytes(rows, self.n_features, self.n_measurements, itemsize)

    def __getstate__(self) -> dict[str, Any]:
        # The inverse goes along (a task that moves centres needs it); spectrum and kernel matrix stay behind.
        derived = {"spectrum", "kernel_matrix", "_columns"}
        return {k: v for k, v in self.__dict__.items() if k not in derived}


@dataclass(frozen=True, eq=False)
class IdentityMap:
    """Input space itself: the measurements are the features, moved to their mean.

    Examples
    --------
    >>> import numpy as np
    >>> map_ = IdentityMap(np.array([1.0, 1.0]), np.dtype("float64"))
    >>> map_.measure(np.array([[1.0, 3.0]]))
    (array([[0., 2.]]), array([4.]))
    """

    origin: Floats
    dtype: np.dtype[Any]
    name: str = field(default="identity", init=False)

    @property
    def n_features(self) -> int:
        return len(self.origin)

    @property
    def n_measurements(self) -> int:
        return len(self.origin)

    def measure(self, rows: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
        if out is None:
            out = np.empty(rows.shape, dtype=self.dtype)
        np.subtract(rows, self.origin, out=out, casting="same_kind" if rows.dtype.kind == "f" else "unsafe")
        return out, np.einsum("ij,ij->i", out, out)

    def dual(self, means: Floats) -> Floats:
        return np.array(means, dtype=np.float64)

    def scratch_bytes(self, rows: int) -> int:
        return rows * 8 * 1024  # numpy casts in buffers of 8192 elements


def choose_landmarks(
    how: str, sample: Floats, n_landmarks: int, kernel: Kernel, key: Key, ridge: float = 1e-3
) -> Floats:
    """Choose landmarks from a uniform sample of the rows.

    Parameters
    ----------
    how : {"uniform", "kmeans", "leverage"}
        The first rows of the sample; centres of a mini-batch k-means of it; or rows drawn by their approximate
        ridge leverage scores, estimated from a uniform set of landmarks.
    sample : ndarray
        Rows in the random order of the run.

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.kernels import Rbf
    >>> sample = np.arange(20.0)[:, None]
    >>> choose_landmarks("uniform", sample, 3, Rbf(0.1), Key(0)).ravel()
    array([0., 1., 2.])
    """
    if how == "uniform":
        return sample[:n_landmarks].copy()
    if how == "kmeans":
        from sklearn.cluster import MiniBatchKMeans

        seed = int(key.child("kmeans").integers([0], 2**31 - 1)[0])
        rows = sample.astype(np.float64 if sample.dtype.kind != "f" else sample.dtype)
        distinct = min(n_landmarks, len(np.unique(rows, axis=0)))
        model = MiniBatchKMeans(distinct, batch_size=max(1024, 2 * distinct), n_init=1, random_state=seed)
        return np.asarray(model.fit(rows).cluster_centers_)
    if how == "leverage":
        return sample[_leverage_rows(sample, n_landmarks, kernel, key, ridge)]
    raise InvalidInputError(
        f"landmarks={how!r} is not known; use 'uniform', 'kmeans', 'leverage' or an array of rows."
        + did_you_mean(how, ["uniform", "kmeans", "leverage"])
    )


def _leverage_rows(sample: Floats, m: int, kernel: Kernel, key: Key, ridge: float) -> NDArray[np.int64]:
    """Draw rows by ridge leverage scores ``l_i = (kappa_i - k_i^T (K_hat + n ridge I)^-1 k_i) / (n ridge)``.

    The scores come from m uniform landmarks (Alaoui and Mahoney 2015, arXiv:1411.0306, with one round of the
    recursion of Musco and Musco 2017, arXiv:1605.07583). Rows are drawn without replacement by the keys
    ``u^(1/l)`` (Efraimidis and Spirakis 2006, doi:10.1016/j.ipl.2005.11.003).
    """
    import scipy.linalg

    rows = sample.astype(np.float64)
    pilot = rows[:m]
    K_hat, K_B = kernel(pilot, pilot), kernel(rows, pilot)
    scale = ridge * np.trace(K_hat)
    factor = scipy.linalg.cho_factor(K_hat + scale * np.eye(len(pilot)))
    explained = np.einsum("ij,ji->i", K_B, scipy.linalg.cho_solve(factor, K_B.T))
    scores = np.maximum(kernel.diagonal(rows) - explained, 1e-12)
    uniform = np.maximum(key.child("leverage").uniform(np.arange(len(rows))), 1e-300)
    return np.sort(np.argsort(np.log(uniform) / scores, kind="stable")[::-1][:m])
