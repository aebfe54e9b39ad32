"""Kernels of the dot product: linear, cosine, polynomial, sigmoid. One GEMM, then steps in place."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from daskkcl.errors import InvalidInputError
from daskkcl.kernels import widths
from daskkcl.kernels.base import STRIP_ELEMENTS, GammaKernel, Kernel, KernelColumns
from daskkcl.kernels.checks import Array, blas_rows, check_number, check_whole, set_field
from daskkcl.kernels.distance import PLAIN_GAMMAS
from daskkcl.kernels.rows import SparseRows, is_sparse
from daskkcl.kernels.sparse import Right, unit_sparse

MOST_DEGREE = 100


class _DotColumns(KernelColumns):
    """``step(x · right)``, where `right` holds the landmarks as columns and `step` is the kernel's own."""

    kernel: _DotKernel

    def __init__(self, kernel: _DotKernel, landmarks: Array, dtype: np.dtype[Any], factor: float) -> None:
        super().__init__(kernel, landmarks, dtype)
        Y = landmarks.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            self.right = (factor * Y).T.astype(dtype, order="C")  # (d, m)
            largest = np.vecdot(Y, Y)
            kernel._step(largest, factor)
            overflows = not np.isfinite(largest.astype(dtype)).all()
        if overflows or not np.isfinite(self.right).all():
            raise InvalidInputError(
                f"{kernel!r} reaches {np.abs(largest).max():g} on the landmarks, too much for {dtype}; "
                "scale the data" + (", or pass gamma='auto'" if kernel.has_gamma else "")
            )

    def _fill(self, rows: Array, out: Array, kappa: Array) -> None:
        X = blas_rows(rows, self.dtype)
        np.matmul(X, self.right, out=out)
        self.kernel._step(out, 1.0)
        self.kernel._kappa(X, kappa)


class _DotKernel(Kernel):
    """A kernel that is a function of ``x · y``."""

    def _step(self, products: Array, factor: float) -> None:
        """Turn ``x · y`` into the kernel in place, `factor` times it first."""

    def _factor(self) -> float:
        return 1.0

    def _columns(self, landmarks: Array, dtype: np.dtype[Any]) -> KernelColumns:
        return _DotColumns(self, landmarks, dtype, self._factor())

    @property
    def takes_sparse(self) -> bool:
        return True

    def _sparse_landmarks(self, landmarks: SparseRows) -> tuple[SparseRows, Array]:
        largest = landmarks.squared_norms()
        self._step(largest, self._factor())
        return dataclasses.replace(landmarks, data=self._factor() * landmarks.data), largest

    def _sparse_fill(self, rows: SparseRows, right: Right, norms: Array, out: Array, kappa: Array) -> None:
        right.product(rows, out)
        self._step(out, 1.0)
        self._kappa(rows, kappa)

    def _kappa(self, rows: Any, kappa: Array) -> None:
        factor = self._factor()
        if is_sparse(rows):
            squares = rows.squared_norms()
            self._step(squares, factor)
            with np.errstate(over="ignore"):
                kappa[...] = squares
            return
        X = blas_rows(rows, kappa.dtype)
        if PLAIN_GAMMAS[0] <= factor <= PLAIN_GAMMAS[1]:
            np.vecdot(X, X, out=kappa)
            self._step(kappa, factor)
        else:
            squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
            self._step(squares, factor)
            kappa[...] = squares

    def _tile_scratch_bytes(self, rows: int, d: int, m: int, itemsize: int) -> int:
        return rows * d * itemsize


@dataclass(frozen=True)
class Linear(_DotKernel):
    """Linear kernel ``x · y``: clustering of the rows as they are.

    Examples
    --------
    >>> import numpy as np
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    name: ClassVar[str] = "linear"


@dataclass(frozen=True)
class Polynomial(_DotKernel, GammaKernel):
    """Polynomial kernel ``(gamma x · y + coef0)^degree``.

    Parameters
    ----------
    degree : int, default 3
    gamma : float or {"auto", "scale", "median"}, default 1.0
        From a sample: ``"auto"`` is ``1 / mean‖x_i‖²``, so that ``gamma x · x`` is about 1 whatever the unit
        of the data; ``"scale"`` is ``1 / (d var(X))``, as in scikit-learn; ``"median"`` is
        ``1 / median‖x_i‖²``. The papers' ``(x · y + 1)^5`` is ``Polynomial(degree=5)``; float32 may not hold
        it on large numbers such as raw pixels.
    coef0 : float, default 1.0
        Not negative, or the kernel would be indefinite.

    Examples
    --------
    >>> import numpy as np
    >>> Polynomial(degree=2)(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[144.]])
    """

    name: ClassVar[str] = "polynomial"
    degree: int = 3
    gamma: float | str = 1.0
    coef0: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        set_field(self, "degree", check_whole(self.degree, "degree", 1, MOST_DEGREE))
        set_field(self, "coef0", check_number(self.coef0, "coef0"))
        if self.coef0 < 0:
            raise InvalidInputError(f"coef0 of a polynomial kernel must not be negative, but is {self.coef0}")

    def _spread(self, rows: Array, rule: str) -> float:
        return _dot_spread(rows, rule)

    def _factor(self) -> float:
        return self.gamma_value

    def _step(self, products: Array, factor: float) -> None:
        if factor != 1.0:
            products *= factor
        if self.coef0:
            products += self.coef0
        power(products, self.degree)

    def _tile_scratch_bytes(self, rows: int, d: int, m: int, itemsize: int) -> int:
        strip = max(STRIP_ELEMENTS, m, rows)
        return (rows * d + strip) * itemsize


@dataclass(frozen=True)
class Sigmoid(_DotKernel, GammaKernel):
    """Sigmoid or neural kernel ``tanh(gamma x · y + coef0)``. It is indefinite: expect negative eigenvalues.

    Parameters
    ----------
    gamma : float or {"auto", "scale", "median"}, default "auto"
        As for `Polynomial`. For USPS, pixels in [−1, 1], ``"auto"`` is 0.0047; published was 0.0045.
    coef0 : float, default 0.11
        The published setting.

    Examples
    --------
    >>> import numpy as np
    >>> Sigmoid(gamma=0.1, coef0=0.0)(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])).round(3)
    array([[0.8]])
    """

    name: ClassVar[str] = "sigmoid"
    gamma: float | str = "auto"
    coef0: float = 0.11

    def __post_init__(self) -> None:
        super().__post_init__()
        set_field(self, "coef0", check_number(self.coef0, "coef0"))

    @property
    def bound(self) -> float:
        return 1.0

    def _spread(self, rows: Array, rule: str) -> float:
        return _dot_spread(rows, rule)

    def _factor(self) -> float:
        return self.gamma_value

    def _step(self, products: Array, factor: float) -> None:
        if factor != 1.0:
            products *= factor
        if self.coef0:
            products += self.coef0
        np.tanh(products, out=products)


@dataclass(frozen=True)
class Cosine(Kernel):
    """Cosine kernel ``x · y / (‖x‖ ‖y‖)``.

    A row of zeros has no direction: it is 0 with every row, itself included.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[3.0, 4.0], [0.0, 0.0]])
    >>> Cosine()(X, X)
    array([[1., 0.],
           [0., 0.]])
    """

    name: ClassVar[str] = "cosine"

    @property
    def bound(self) -> float:
        return 1.0

    def _columns(self, landmarks: Array, dtype: np.dtype[Any]) -> KernelColumns:
        return _CosineColumns(self, landmarks, dtype)

    @property
    def takes_sparse(self) -> bool:
        return True

    def _sparse_landmarks(self, landmarks: SparseRows) -> tuple[SparseRows, Array]:
        return unit_sparse(landmarks), np.ones(len(landmarks))

    def _sparse_fill(self, rows: SparseRows, right: Right, norms: Array, out: Array, kappa: Array) -> None:
        right.product(unit_sparse(rows), out)
        np.clip(out, -1, 1, out=out)
        self._kappa(rows, kappa)

    def _kappa(self, rows: Any, kappa: Array) -> None:
        kappa[...] = rows.peaks() > 0 if is_sparse(rows) else (rows != 0).any(axis=1)

    def _tile_scratch_bytes(self, rows: int, d: int, m: int, itemsize: int) -> int:
        return 3 * rows * d * itemsize


class _CosineColumns(KernelColumns):
    def __init__(self, kernel: Cosine, landmarks: Array, dtype: np.dtype[Any]) -> None:
        super().__init__(kernel, landmarks, dtype)
        self.right = unit_rows(landmarks, np.dtype(np.float64)).T.astype(dtype, order="C")  # (d, m)

    def _fill(self, rows: Array, out: Array, kappa: Array) -> None:
        X = unit_rows(rows, self.dtype)
        np.matmul(X, self.right, out=out)
        if out.size and not (out.max() <= 1 and out.min() >= -1):  # rounding
            np.clip(out, -1, 1, out=out)
        self.kernel._kappa(X, kappa)


def unit_rows(rows: Array, dtype: np.dtype[Any]) -> Array:
    """Return the rows divided by their norms, in `dtype`; rows of zeros stay.

    Examples
    --------
    >>> unit_rows(np.array([[3, 4], [0, 0]]), np.dtype("float32"))
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    X = rows.astype(dtype, order="C")
    with np.errstate(over="ignore"):
        squares = np.vecdot(X, X)
    limits = np.finfo(dtype)
    unsafe = ~((squares > limits.tiny / limits.eps) & (squares < limits.max))  # zero, NaN, under- or overflow
    if unsafe.any():
        odd = X[unsafe]
        peaks = np.maximum(odd.max(axis=1), -odd.min(axis=1))
        peaks[peaks == 0] = 1
        odd /= peaks[:, None]
        X[unsafe] = odd
        squares[unsafe] = np.vecdot(odd, odd)
    squares[squares == 0] = 1
    X /= np.sqrt(squares)[:, None]
    return X


def power(values: Array, degree: int) -> None:
    """Raise `values` to a whole power in place, by squaring and multiplying, strip after strip.

    Examples
    --------
    >>> values = np.array([[2.0, -1.0]])
    >>> power(values, 5)
    >>> values
    array([[32., -1.]])
    """
    width = values.shape[1] if values.ndim == 2 else 1
    step = max(1, STRIP_ELEMENTS // max(1, width))
    bits = bin(degree)[3:]  # below the leading one
    bases = np.empty_like(values[:step])
    for start in range(0, values.shape[0], step):
        strip = values[start : start + step]
        base = bases[: strip.shape[0]]
        base[...] = strip
        for bit in bits:
            strip *= strip
            if bit == "1":
                strip *= base


def _dot_spread(rows: Array, rule: str) -> float:
    if rule == "auto":
        return widths.mean_squared_norm(rows)
    if rule == "scale":
        return rows.shape[1] * widths.variance(rows)
    return widths.median_squared_norm(rows) or widths.mean_squared_norm(rows)
