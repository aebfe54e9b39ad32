"""The landmark map: kernel values between rows and a few landmarks (the Nystroem measurements).

Also the choice of landmarks from a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError, did_you_mean
from ..kernels import Kernel
from ..kernels.distance import CompiledRbfColumns
from ..random import Key

__all__ = ["LandmarkMap", "choose_landmarks", "many_rows", "positive_spectrum"]

Floats = NDArray[Any]

# Eigenvalues of the landmarks' kernel matrix below this share of the largest are dropped: what is left of them
# after blocks in single (double) precision is noise.
RCOND = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}

_RANGE = 300  # times the smallest: what larger eigenvalues leave rounds in single precision as blocks do
_QUICK = 384  # landmarks, from which on a product in single precision saves more than leading ones cost
_PANEL = 48  # columns of the inverse: so few BLAS multiplies by few rows without a copy, where vectors have 512 bits
_LARGE_ROOT = 512  # landmarks: of more it takes mebibytes, and is made again where coordinates are wanted
_MANY_VALUES = 400_000_000  # of a kernel: some tenths of a second saved in a pass; loading numba takes half a second


def many_rows(n_rows: int, n_landmarks: int) -> bool:
    """Return whether measuring so many rows is worth loading compiled loops for. Depends on the problem only.

    Examples
    --------
    >>> many_rows(70_000, 1000), many_rows(10_000_000, 500)
    (False, True)
    """
    return n_rows * n_landmarks >= _MANY_VALUES


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
    many_rows : bool
        Whether so many rows are to be measured that compiled loops are worth loading. Part of the map, because they
        round differently: labels must not change between a fit and later answers.

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
    many_rows: bool = False
    name: str = field(default="landmarks", init=False)
    explicit = False

    @property
    def n_features(self) -> int:
        return int(self.landmarks.shape[1])

    @property
    def n_measurements(self) -> int:
        return int(self.landmarks.shape[0])

    @cached_property
    def _columns(self) -> Any:
        columns = self.kernel.columns(self.landmarks, self.dtype)
        return columns.compiled() if self.many_rows else columns

    @property
    def compiled(self) -> CompiledRbfColumns | None:
        """The compiled kernel, if that is what rows are measured with."""
        return self._columns if isinstance(self._columns, CompiledRbfColumns) else None

    @cached_property
    def kernel_matrix(self) -> Floats:
        """The landmarks' own kernel matrix in float64, ``K_hat`` (m, m)."""
        landmarks = self.landmarks.astype(np.float64)
        K_hat = self.kernel(landmarks, landmarks)
        return (K_hat + K_hat.T) / 2

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        """The kept eigenvalues and eigenvectors of `kernel_matrix`."""
        return positive_spectrum(self.kernel_matrix, self.dtype)

    @cached_property
    def rank(self) -> int:
        """Dimensions that are left after truncation."""
        return len(self.spectrum[0])

    @cached_property
    def _leading(self) -> tuple[Floats, Floats] | None:
        """The eigenvalues that stand out and their vectors (m, k), for `quick_dual`; None where it does not pay."""
        values, vectors = self.spectrum
        k, m = np.count_nonzero(values > _RANGE * values[:1]), self.n_measurements
        if self.dtype != np.float32 or m < _QUICK or k > m // 12:
            return None
        return values[len(values) - k :].copy(), np.ascontiguousarray(vectors[:, len(values) - k :])

    @cached_property
    def _rest(self) -> Floats:
        """What the leading eigenvectors leave of the inverse, in single precision, some columns after others."""
        assert self._leading is not None
        (values, vectors), m = self._leading, self.n_measurements
        rest = np.zeros((m, -(-m // _PANEL) * _PANEL), dtype=np.float32)
        rest[:, :m] = self.inverse - (vectors / values) @ vectors.T
        return np.ascontiguousarray(rest.reshape(m, -1, _PANEL).swapaxes(0, 1))  # (panels, m, columns)

    @cached_property
    def root(self) -> Floats:
        """``W = V Lambda^(-1/2)`` (m, rank), float64: coordinates of the landmarks' span are ``W^T z``."""
        values, vectors = self.spectrum
        return vectors / np.sqrt(values)

    @cached_property
    def inverse(self) -> Floats:
        """The pseudo-inverse ``A = W W^T`` of `kernel_matrix`, float64."""
        return self.root @ self.root.T  # which numpy does in half the time, of one matrix

    def bare(self) -> LandmarkMap:
        """Return the same map without what was derived for it."""
        return LandmarkMap(self.kernel, self.landmarks, self.dtype, self.many_rows)

    def settle(self) -> None:
        """Make what all tasks share now, once and not in each thread; let go of what led to it."""
        self.settle_measuring()
        self.inverse  # noqa: B018
        self.let_go()

    def let_go(self) -> None:
        """Let go of the spectrum and what led to it, and of a large root."""
        if "spectrum" in self.__dict__:
            self.rank, self._leading  # noqa: B018
        keep = self.n_measurements <= _LARGE_ROOT or self._is_flat
        for name in ("spectrum", "kernel_matrix", *(() if keep else ("root",))):
            self.__dict__.pop(name, None)

    @property
    def _is_flat(self) -> bool:
        """Whether so few dimensions are left that the root is no larger than half of the inverse."""
        return 2 * self.__dict__.get("rank", self.n_measurements) <= self.n_measurements

    def settle_measuring(self) -> None:
        """Make only what `measure` takes."""
        self._columns  # noqa: B018

    def measure(self, rows: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
        return self._columns.block(rows, out)

    def dual(self, means: Floats) -> Floats:
        return np.asarray(means, dtype=np.float64) @ self.inverse

    def quick_dual(self, means: Floats) -> Floats:
        """Return the same as `dual` to within the rounding of blocks, in half the time: for centres on the move.

        Of few dimensions ``A = W W^T`` takes less as it stands. Else most of A is multiplied in single precision. Its
        entries are of the size of the smallest eigenvalues' inverse, and mean measurements lie along the leading
        eigenvectors: rounding would be hundreds of times that of blocks. So these directions, where A is small, go
        another way, in double precision, and are taken out before and after. Where many eigenvalues are far above
        the smallest, all is done in double precision.
        """
        means = np.asarray(means, dtype=np.float64)
        if 2 * self.rank <= self.n_measurements:
            return (means @ self.root) @ self.root.T
        if self._leading is None:
            return self.dual(means)
        values, vectors = self._leading
        T = means @ vectors
        left = np.zeros((-(-len(means) // 4) * 4, self.n_measurements), dtype=np.float32)
        np.subtract(means, T @ vectors.T, out=left[: len(means)], casting="same_kind")
        # BLAS takes four rows at a time, and long for what is left
        panels = left @ self._rest
        G = panels.swapaxes(0, 1).reshape(len(left), -1)[: len(means), : self.n_measurements].astype(np.float64)
        G += (T / values - G @ vectors) @ vectors.T
        return G

    def scratch_bytes(self, rows: int, cells: int | None = None) -> int:
        itemsize = np.dtype(self.dtype).itemsize
        return self.kernel.scratch_bytes(rows, cells or self.n_features, self.n_measurements, itemsize)

    def __getstate__(self) -> dict[str, Any]:
        # The inverse goes along (a task that moves centres needs it); what led to it or comes of it stays behind.
        derived = {"spectrum", "kernel_matrix", "inverse" if self._is_flat else "root", "_rest", "_columns"}
        return {k: v for k, v in self.__dict__.items() if k not in derived}


def positive_spectrum(matrix: Floats, dtype: np.dtype[Any]) -> tuple[Floats, Floats]:
    """Return the eigenpairs of a symmetric matrix that rounding in blocks of a precision leaves, smallest first."""
    values, vectors = np.linalg.eigh(matrix)  # scipy's has the same driver, and holds the interpreter's lock
    keep = values > RCOND[np.dtype(dtype)] * max(values[-1], 0.0)
    return values[keep], np.ascontiguousarray(vectors[:, keep])


def choose_landmarks(
    how: str, sample: Floats, n_landmarks: int, kernel: Kernel | None, key: Key, ridge: float = 1e-3
) -> Floats:
    """Choose landmarks from a uniform sample of the rows.

    Parameters
    ----------
    how : {"uniform", "leverage"}
        The first rows of the sample, or rows drawn by their approximate ridge leverage scores, estimated from a
        uniform set of landmarks. (Centres of a k-means are made by the schedules, on all threads.)
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
    if how == "leverage" and kernel is not None:
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
