"""Kernels of a distance between rows: Gaussian and Laplacian. A shift of all rows changes neither."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from daskkcl.errors import InvalidInputError
from daskkcl.kernels import widths
from daskkcl.kernels.base import GammaKernel, KernelColumns
from daskkcl.kernels.checks import Array
from daskkcl.kernels.rows import SparseRows
from daskkcl.kernels.sparse import Right
from daskkcl.system import Buffers

_LEAST_POWER = -126.0  # of two, that is a normal float32
_PICKED_PRODUCTS = 100  # multiplications that take as long as picking a feature, twice
PLAIN_GAMMAS = (2.0**-40, 2.0**40)  # outside, squares of rows may not fit into float32


@dataclass(frozen=True)
class Rbf(GammaKernel):
    """Gaussian kernel ``exp(−gamma ‖x − y‖²)``.

    Parameters
    ----------
    gamma : float or {"auto", "scale", "median"}, default "auto"
        From a sample: ``"auto"`` is ``1 / (2 mean‖x_i − x_j‖²)`` over its pairs, the width of kernel
        competitive learning; ``"scale"`` is ``1 / (d var(X))``, as in scikit-learn; ``"median"`` is
        ``1 / (2 median‖x_i − x_j‖²)`` over pairs of at most 1,000 rows. On rows that are all alike, 1.

    Notes
    -----
    Blocks are computed around the mean of the landmarks, so data far from the origin lose nothing in
    float32. The absolute error is then about the rounding unit times ``gamma (‖x − mean‖² + ‖y − mean‖²)``:
    some 1e-6 in float32 with a width taken from the data. Sparse rows stay where they are: there the mean is zero.

    Examples
    --------
    >>> import numpy as np
    >>> Rbf(gamma=0.5)(np.array([[0.0], [1.0]]), np.array([[0.0]])).round(3)
    array([[1.   ],
           [0.607]])
    >>> Rbf().resolve(np.array([[0.0], [1.0], [2.0]]))  # mean squared distance 2
    Rbf(gamma=0.25)
    """

    name: ClassVar[str] = "rbf"
    gamma: float | str = "auto"

    @property
    def unit_diagonal(self) -> bool:
        return True

    @property
    def bound(self) -> float:
        return 1.0

    def _spread(self, rows: Array, rule: str) -> float:
        if rule == "auto":
            return 2 * widths.mean_squared_distance(rows)
        if rule == "scale":
            return rows.shape[1] * widths.variance(rows)
        return 2 * widths.median_of_pairs(rows, widths.centred(widths.squared_distances))

    def _columns(self, landmarks: Array, dtype: np.dtype[Any]) -> KernelColumns:
        return _RbfColumns(self, landmarks, dtype)

    @property
    def takes_sparse(self) -> bool:
        return True

    @property
    def scale(self) -> float:
        """What rows are multiplied by when squares would not fit otherwise: a power of two, so exact."""
        plain = PLAIN_GAMMAS[0] <= self.gamma_value <= PLAIN_GAMMAS[1]
        return 1.0 if plain else 2.0 ** round(math.log2(self.gamma_value) / 2)

    def _sparse_landmarks(self, landmarks: SparseRows) -> tuple[SparseRows, Array]:
        gamma = self.gamma_value / self.scale / self.scale
        Y = replace(landmarks, data=landmarks.data * self.scale)
        return replace(Y, data=2 * gamma * Y.data), -gamma * Y.squared_norms()

    def _sparse_fill(self, rows: SparseRows, right: Right, norms: Array, out: Array, kappa: Array) -> None:
        # −gamma ‖x − y‖² = 2 gamma x · y − gamma ‖x‖² − gamma ‖y‖²
        X = rows if self.scale == 1.0 else replace(rows, data=rows.data * rows.dtype.type(self.scale))
        right.product(X, out)
        out += norms.astype(out.dtype)
        out -= (self.gamma_value / self.scale / self.scale * X.squared_norms()).astype(out.dtype)[:, None]
        np.minimum(out, 0, out=out)
        np.exp(out, out=out)
        kappa.fill(1)

    def _kappa(self, rows: Array, kappa: Array) -> None:
        kappa.fill(1)

    def _tile_scratch_bytes(self, rows: int, d: int, m: int, itemsize: int) -> int:
        return rows * 2 * (d + 2) * itemsize


class _RbfColumns(KernelColumns):
    """The exponent of a whole tile as one GEMM, with the norms as two more columns."""

    def __init__(self, kernel: Rbf, landmarks: Array, dtype: np.dtype[Any]) -> None:
        super().__init__(kernel, landmarks, dtype)
        self.given = (kernel, landmarks, dtype)
        gamma = kernel.gamma_value
        self.scale = kernel.scale
        unit, self.power = self._exponential(dtype)
        gamma = unit * gamma / self.scale / self.scale
        self.shift = _Shift(landmarks, dtype)
        Y = (landmarks.astype(np.float64) - self.shift.exact) * self.scale  # (m, d)
        # −gamma ‖x − y‖² = [x, 1, ‖x‖²] · [2 gamma y, −gamma ‖y‖², −gamma]
        right = np.empty((self.n_features + 2, self.n_landmarks), dtype)
        with np.errstate(over="ignore"):
            right[:-2] = (2 * gamma * Y).T
            right[-2] = -gamma * np.vecdot(Y, Y)
        right[-1] = -gamma
        self.used = columns_used(right)
        self.right = right[self.used] if self.used.size else right
        self.gamma, self.longest = gamma, float(np.sqrt(np.vecdot(Y, Y).max(initial=0)))
        self.buffers = Buffers()
        if not np.isfinite(self.right).all():
            raise InvalidInputError(
                f"gamma={kernel.gamma_value:g} times the squared spread of the landmarks overflows {dtype}; "
                "gamma='auto' fits the width to the data"
            )

    def _exponential(self, dtype: np.dtype[Any]) -> tuple[float, Callable[..., Any]]:
        return exponential(dtype)

    def compiled(self) -> KernelColumns:
        fits = self.dtype == np.float32 and self.scale == 1.0 and self.shift.narrow is not None
        return CompiledRbfColumns(*self.given) if fits else self

    def _fill(self, rows: Array, out: Array, kappa: Array) -> None:
        d = self.n_features
        left = self.buffers.take((rows.shape[0], d + 2), self.dtype)  # [x, 1, ‖x‖²]
        X = left[:, :d]
        self.shift.subtract(rows, X)
        if self.scale != 1.0:
            X *= self.dtype.type(self.scale)
        left[:, d] = 1
        squares = np.vecdot(X, X, out=left[:, d + 1])
        # gamma ‖x − y‖² is at most gamma (‖x‖ + ‖y‖)²: where that is small no power can be too small
        far_away = not self.gamma * (math.sqrt(squares.max(initial=0)) + self.longest) ** 2 <= -_LEAST_POWER - 1
        if self.used.size:
            fewer = self.buffers.take((len(rows), len(self.used)), self.dtype)
            np.take(left, self.used, axis=1, out=fewer, mode="clip")
            self.buffers.give(left)
            left = fewer
        np.matmul(left, self.right, out=out)
        self.buffers.give(left)
        # Rounding may leave −gamma ‖x − y‖² above zero. The maximum is several times faster than clipping.
        if out.size and not out.max() <= 0:
            np.minimum(out, np.zeros(self.n_landmarks, self.dtype), out=out)
        if self.power is np.exp2 and out.size and far_away and not out.min() >= _LEAST_POWER:
            # far rows: powers that are not normal numbers take a hundred times as long, and are nothing
            far = out < _LEAST_POWER
            np.maximum(out, np.full(self.n_landmarks, _LEAST_POWER, self.dtype), out=out)
            np.exp2(out, out=out)
            out[far] = 0
        else:
            self.power(out, out=out)
        kappa.fill(1)


class CompiledRbfColumns(_RbfColumns):
    """The same in float32 by compiled loops (`kernels.rbf_loops`), which need numba and its hundred mebibytes."""

    _WIDE = 128  # features: products of few and long rows are slow

    def __init__(self, kernel: Rbf, landmarks: Array, dtype: np.dtype[Any]) -> None:
        from daskkcl.kernels.strips import pack

        super().__init__(kernel, landmarks, dtype)
        self.strips = pack(self.right)  # as the loops read it
        del self.right

    def _exponential(self, dtype: np.dtype[Any]) -> tuple[float, Callable[..., Any]]:
        return math.log2(math.e), np.exp2

    def compiled(self) -> KernelColumns:
        return self

    @property
    def step_rows(self) -> int:
        """Rows that go through all steps together."""
        from daskkcl.kernels.rbf_loops import STEP_ROWS

        return STEP_ROWS if self.n_features <= self._WIDE else 8 * STEP_ROWS

    @property
    def room_width(self) -> int:
        """Columns of room for the values of a few rows: a strip at least."""
        return max(self.n_landmarks, self.strips.shape[2])

    def plain(self, rows: Array) -> tuple[Array, Array]:
        """Return rows and what is still to be subtracted from them, as the loops take them: float32, in order."""
        narrow = self.shift.narrow
        assert narrow is not None
        if rows.dtype == np.float32:
            return np.require(rows, np.float32, ["C", "A", "W"]), narrow
        X = np.empty(rows.shape, np.float32)
        with np.errstate(over="ignore"):  # what does not fit shows by its norm
            self.shift.subtract(rows, X)
        return X, np.zeros_like(narrow)

    def _fill(self, rows: Array, out: Array, kappa: Array) -> None:
        if not self._fill_finite(rows, out):  # a norm beyond the range of float32: far away from everything
            with np.errstate(over="ignore", invalid="ignore"):
                _RbfColumns(*self.given)._fill(rows, out, kappa)
            out[np.isnan(out)] = 0
        kappa.fill(1)

    def _fill_finite(self, rows: Array, out: Array) -> bool:
        """Write the kernel values of rows; return False, and leave some out, if the norm of one is not finite."""
        from daskkcl.kernels.rbf_loops import rbf_values

        left = self.buffers.take((self.step_rows, self.n_features + 2), self.dtype)
        fewer = self.buffers.take((self.step_rows, len(self.used)), self.dtype)
        narrow = self.room_width > self.n_landmarks
        few = self.buffers.take((self.step_rows, self.room_width), self.dtype) if narrow else out[:0]
        bad = rbf_values(*self.plain(rows), self.used, self.strips, left, fewer, few, out)
        for room in (left, fewer, few):
            self.buffers.give(room)
        return bool(bad < 0)

    def finite_block(self, rows: Array, out: Array) -> Array | None:
        """Return what `block` does with `out`, and None if the norm of a row is not finite: it has to be looked at."""
        return np.ones(len(rows), self.dtype) if self._fill_finite(rows, out) else None


def columns_used(right: Array) -> Array:
    """Return the rows of `right` (k, m) that are worth a product; none, where that is all of them.

    Around the mean of the landmarks a feature is zero in which all are the same, such as a pixel at the rim of
    pictures. It makes rows longer, and that is all. To leave out a few takes longer than their products.

    Examples
    --------
    >>> right = np.ones((6, 1000))
    >>> right[[0, 2]] = 0
    >>> columns_used(right), columns_used(right[:, :10])
    (array([1, 3, 4, 5]), array([], dtype=int64))
    """
    used = np.flatnonzero(right.any(axis=1))
    left_out = len(right) - len(used)
    pays = left_out * right.shape[1] >= _PICKED_PRODUCTS * len(used) and 8 * left_out >= len(right)
    return used if pays else used[:0]


def exponential(dtype: np.dtype[Any]) -> tuple[float, Callable[..., Any]]:
    """Return `u` and `f` with ``exp(x) = f(u x)``, the faster of two ways on this machine.

    With 512-bit vectors numpy takes powers of two in half the time of powers of e, and more exactly; on other machines
    it has no vectors for them at all.

    Examples
    --------
    >>> unit, power = exponential(np.dtype("f4"))
    >>> float(power(np.float32(unit * 0.5)))
    1.6487...
    """
    try:
        from numpy.lib.introspect import opt_func_info
    except ImportError:  # numpy 2.0
        return 1.0, np.exp
    compiled = opt_func_info(func_name="^exp2$").get("exp2", {}).get(2 * dtype.char, {})
    in_vectors = dtype == np.float32 and not compiled.get("current", "baseline").startswith("baseline")
    return (math.log2(math.e), np.exp2) if in_vectors else (1.0, np.exp)


@dataclass(frozen=True)
class Laplacian(GammaKernel):
    """Laplacian kernel ``exp(−gamma ‖x − y‖₁)``.

    Parameters
    ----------
    gamma : float or {"auto", "scale", "median"}, default "auto"
        From a sample: ``"auto"`` is ``1 / mean‖x_i − x_j‖₁`` over its pairs; ``"scale"`` is
        ``1 / (d std(X))``, the counterpart of scikit-learn's rule in the unit of this distance; ``"median"``
        is ``1 / median‖x_i − x_j‖₁`` over pairs of at most 1,000 rows. On rows that are all alike, 1.

    Examples
    --------
    >>> import numpy as np
    >>> Laplacian(gamma=0.5)(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])).round(3)
    array([[0.368]])
    """

    name: ClassVar[str] = "laplacian"
    gamma: float | str = "auto"

    @property
    def unit_diagonal(self) -> bool:
        return True

    @property
    def bound(self) -> float:
        return 1.0

    def _spread(self, rows: Array, rule: str) -> float:
        if rule == "auto":
            return widths.mean_manhattan_distance(rows)
        if rule == "scale":
            return rows.shape[1] * math.sqrt(widths.variance(rows))
        return widths.median_of_pairs(rows, widths.centred(widths.manhattan_distances))

    def _columns(self, landmarks: Array, dtype: np.dtype[Any]) -> KernelColumns:
        return _LaplacianColumns(self, landmarks, dtype)

    def _kappa(self, rows: Array, kappa: Array) -> None:
        kappa.fill(1)

    def _tile_scratch_bytes(self, rows: int, d: int, m: int, itemsize: int) -> int:
        return rows * d * itemsize


class _LaplacianColumns(KernelColumns):
    def __init__(self, kernel: Laplacian, landmarks: Array, dtype: np.dtype[Any]) -> None:
        super().__init__(kernel, landmarks, dtype)
        self.minus_gamma = -clipped(kernel.gamma_value, dtype)
        self.shift = _Shift(landmarks, dtype)
        self.landmarks = (landmarks.astype(np.float64) - self.shift.exact).astype(dtype, order="C")

    def _fill(self, rows: Array, out: Array, kappa: Array) -> None:
        from daskkcl.kernels import loops

        X = np.empty(rows.shape, self.dtype)
        self.shift.subtract(rows, X)
        loops.manhattan(X, self.landmarks, out)
        out *= self.minus_gamma
        np.exp(out, out=out)
        kappa.fill(1)


def clipped(value: float, dtype: np.dtype[Any]) -> Any:
    """Return `value` as a scalar of `dtype`, not above its largest number (infinity times zero is NaN)."""
    return dtype.type(min(value, float(np.finfo(dtype).max)))


class _Shift:
    """The mean of the landmarks, subtracted from rows before they are rounded to the dtype of the block.

    Any common shift does, so it is rounded to what float32 holds: rows that fit into float32 are then
    shifted in float32 without a further error, and all others in float64.
    """

    def __init__(self, landmarks: Array, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        mean = landmarks.mean(axis=0, dtype=np.float64)
        with np.errstate(over="ignore"):
            rounded = mean.astype(np.float32)
        self.narrow = rounded if dtype == np.float32 and np.isfinite(rounded).all() else None
        self.exact = mean if self.narrow is None else rounded.astype(np.float64)

    @property
    def nbytes(self) -> int:
        return int(self.exact.nbytes) + (0 if self.narrow is None else int(self.narrow.nbytes))

    def subtract(self, rows: Array, out: Array) -> None:
        """Write ``rows − shift`` into `out` without a copy of `rows` in another dtype."""
        if self.narrow is not None and np.can_cast(rows.dtype, np.float32, "safe"):
            np.subtract(rows, self.narrow, out=out, dtype=np.float32)
        else:
            np.subtract(rows, self.exact, out=out, dtype=np.float64, casting="same_kind")
