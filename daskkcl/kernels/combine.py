"""Kernels made of kernels: on a slice of the columns, summed, averaged, multiplied."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from daskkcl.errors import InvalidInputError
from daskkcl.kernels.base import Kernel, KernelColumns
from daskkcl.kernels.checks import MOST_COLUMNS, Array, check_positive, check_whole, set_field, short

MOST_PARTS = 1024


@dataclass(frozen=True)
class Columns(Kernel):
    """A kernel that sees only columns ``start`` to ``stop`` of the rows.

    Parameters
    ----------
    kernel : Kernel
    start, stop : int

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.kernels import Linear, Rbf
    >>> kernel = Columns(Linear(), 0, 2) + Columns(Rbf(gamma=1.0), 2, 3)
    >>> kernel(np.array([[1.0, 1.0, 0.0]]), np.array([[2.0, 3.0, 0.0]]))
    array([[6.]])
    """

    name: ClassVar[str] = "columns"
    kernel: Kernel
    start: int
    stop: int

    def __post_init__(self) -> None:
        check_kernel(self.kernel)
        set_field(self, "start", check_whole(self.start, "start", 0, MOST_COLUMNS))
        set_field(self, "stop", check_whole(self.stop, "stop", self.start + 1, MOST_COLUMNS))

    @property
    def unit_diagonal(self) -> bool:
        return self.kernel.unit_diagonal

    @property
    def bound(self) -> float | None:
        return self.kernel.bound

    @property
    def has_gamma(self) -> bool:
        return self.kernel.has_gamma

    @property
    def resolved(self) -> bool:
        return self.kernel.resolved

    def with_gamma(self, gamma: float | str) -> Self:
        return dataclasses.replace(self, kernel=self.kernel.with_gamma(gamma))

    def _resolve(self, rows: Array) -> Self:
        return dataclasses.replace(self, kernel=self.kernel.resolve(self._slice(rows)))

    def _slice(self, rows: Array) -> Array:
        return rows[:, self.start : self.stop]

    def _check_features(self, d: int) -> None:
        if d < self.stop:
            raise InvalidInputError(f"the kernel uses columns {self.start} to {self.stop}, but rows have {d}")
        self.kernel._check_features(self.stop - self.start)

    def _columns(self, landmarks: Array, dtype: np.dtype[Any]) -> KernelColumns:
        return _SlicedColumns(self, landmarks, dtype)

    def _kappa(self, rows: Array, kappa: Array) -> None:
        self.kernel._any_kappa(self._slice(rows), kappa)

    @property
    def takes_sparse(self) -> bool:
        return True

    def sparse_width(self, d: int, entries: int) -> int:
        return self.kernel.sparse_width(self.stop - self.start, entries)

    def _sparse_columns(self, landmarks: Any, dtype: np.dtype[Any]) -> KernelColumns:
        return _SlicedColumns(self, landmarks, dtype)

    def _tile_scratch_bytes(self, rows: int, d: int, m: int, itemsize: int) -> int:
        return self.kernel._tile_scratch_bytes(rows, min(d, self.stop - self.start), m, itemsize)


class _SlicedColumns(KernelColumns):
    kernel: Columns

    def __init__(self, kernel: Columns, landmarks: Array, dtype: np.dtype[Any]) -> None:
        super().__init__(kernel, landmarks, dtype)
        self.part = kernel.kernel._any_columns(kernel._slice(landmarks), dtype)

    def _fill(self, rows: Array, out: Array, kappa: Array) -> None:
        self.part._fill(self.kernel._slice(rows), out, kappa)


class _Combination(Kernel):
    """Parts, one after the other, brought together by one elementwise operation."""

    parts: tuple[Kernel, ...]
    combine: ClassVar[np.ufunc]

    def _part_weights(self) -> tuple[float, ...]:
        return (1.0,) * len(self.parts)

    def __post_init__(self) -> None:
        if isinstance(self.parts, Kernel) or not isinstance(self.parts, Iterable):
            raise InvalidInputError(f"parts must be a sequence of kernels, not {self.parts!r}")
        parts = tuple(check_kernel(part) for part in self.parts)
        if not 1 <= len(parts) <= MOST_PARTS:
            raise InvalidInputError(f"a kernel is made of 1 to {MOST_PARTS} parts, not {len(parts)}")
        set_field(self, "parts", parts)

    @property
    def has_gamma(self) -> bool:
        return any(part.has_gamma for part in self.parts)

    @property
    def resolved(self) -> bool:
        return all(part.resolved for part in self.parts)

    def with_gamma(self, gamma: float | str) -> Self:
        return self._replace(tuple(part.with_gamma(gamma) for part in self.parts))

    def _resolve(self, rows: Array) -> Self:
        return self._replace(tuple(part.resolve(rows) for part in self.parts))

    def _replace(self, parts: tuple[Kernel, ...]) -> Self:
        return dataclasses.replace(self, parts=parts)  # type: ignore[type-var]

    def _check_features(self, d: int) -> None:
        for part in self.parts:
            part._check_features(d)

    @property
    def takes_sparse(self) -> bool:
        return True

    def sparse_width(self, d: int, entries: int) -> int:
        return max(part.sparse_width(d, entries) for part in self.parts)

    def _columns(self, landmarks: Array, dtype: np.dtype[Any]) -> KernelColumns:
        return _CombinedColumns(self, landmarks, dtype)

    def _sparse_columns(self, landmarks: Any, dtype: np.dtype[Any]) -> KernelColumns:
        return _CombinedColumns(self, landmarks, dtype)

    def _kappa(self, rows: Array, kappa: Array) -> None:
        one = np.empty_like(kappa)
        for index, (part, weight) in enumerate(zip(self.parts, self._part_weights())):
            into = one if index else kappa
            part._any_kappa(rows, into)
            if weight != 1.0:
                into *= weight
            if index:
                self.combine(kappa, one, out=kappa)

    def _tile_scratch_bytes(self, rows: int, d: int, m: int, itemsize: int) -> int:
        own = rows * (m + 1) * itemsize if len(self.parts) > 1 else 0
        return own + max(part._tile_scratch_bytes(rows, d, m, itemsize) for part in self.parts)


class _CombinedColumns(KernelColumns):
    kernel: _Combination

    def __init__(self, kernel: _Combination, landmarks: Array, dtype: np.dtype[Any]) -> None:
        super().__init__(kernel, landmarks, dtype)
        self.parts = tuple(part._any_columns(landmarks, dtype) for part in kernel.parts)

    def _fill(self, rows: Array, out: Array, kappa: Array) -> None:
        several = len(self.parts) > 1
        Z = np.empty_like(out) if several else out
        z = np.empty_like(kappa) if several else kappa
        for index, (part, weight) in enumerate(zip(self.parts, self.kernel._part_weights())):
            block, diagonal = (Z, z) if index else (out, kappa)
            part._fill(rows, block, diagonal)
            if weight != 1.0:
                block *= weight
                diagonal *= weight
            if index:
                self.kernel.combine(out, Z, out=out)
                self.kernel.combine(kappa, z, out=kappa)


@dataclass(frozen=True)
class Sum(_Combination):
    """Weighted sum of kernels, ``Σ_p w_p k_p(x, y)``; also ``a + b`` and ``0.5 * a``.

    Parameters
    ----------
    parts : tuple of Kernel
    weights : tuple of float, optional
        Positive; 1 each by default.

    Examples
    --------
    >>> from daskkcl.kernels import Linear, Rbf
    >>> 0.5 * Rbf(gamma=1.0) + Linear()
    Sum(parts=(Rbf(gamma=1.0), Linear()), weights=(0.5, 1.0))
    """

    name: ClassVar[str] = "sum"
    combine: ClassVar[np.ufunc] = np.add
    parts: tuple[Kernel, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = (1.0,) * len(self.parts) if self.weights is None else self.weights
        if isinstance(weights, str) or not isinstance(weights, Iterable):
            raise InvalidInputError(f"weights must be a sequence of numbers, not {weights!r}")
        checked = tuple(check_positive(weight, "the weight of a kernel") for weight in weights)
        if len(checked) != len(self.parts):
            raise InvalidInputError(f"there are {len(self.parts)} kernels but {len(checked)} weights")
        set_field(self, "weights", checked)

    def _part_weights(self) -> tuple[float, ...]:
        assert self.weights is not None
        return self.weights

    @property
    def unit_diagonal(self) -> bool:
        return all(part.unit_diagonal for part in self.parts) and math.isclose(sum(self._part_weights()), 1.0)

    @property
    def bound(self) -> float | None:
        return _weighted_bound(self)


@dataclass(frozen=True)
class Mean(_Combination):
    """Mean of kernels.

    Parameters
    ----------
    parts : tuple of Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.kernels import Cosine, Rbf
    >>> Mean((Cosine(), Rbf(gamma=1.0))).diagonal(np.array([[1.0], [0.0]]))
    array([1. , 0.5])
    """

    name: ClassVar[str] = "mean"
    combine: ClassVar[np.ufunc] = np.add
    parts: tuple[Kernel, ...]

    def _part_weights(self) -> tuple[float, ...]:
        return (1.0 / len(self.parts),) * len(self.parts)

    @property
    def unit_diagonal(self) -> bool:
        return all(part.unit_diagonal for part in self.parts)

    @property
    def bound(self) -> float | None:
        return _weighted_bound(self)


@dataclass(frozen=True)
class Product(_Combination):
    """Product of kernels, ``Π_p k_p(x, y)``; also ``a * b``.

    Parameters
    ----------
    parts : tuple of Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.kernels import Linear
    >>> (Linear() * Linear())(np.array([[3.0]]), np.array([[2.0]]))
    array([[36.]])
    """

    name: ClassVar[str] = "product"
    combine: ClassVar[np.ufunc] = np.multiply
    parts: tuple[Kernel, ...]

    @property
    def unit_diagonal(self) -> bool:
        return all(part.unit_diagonal for part in self.parts)

    @property
    def bound(self) -> float | None:
        bounds = [part.bound for part in self.parts if part.bound is not None]
        return math.prod(bounds) if len(bounds) == len(self.parts) else None


def add(a: Kernel, b: Kernel) -> Sum:
    """Return ``a + b``, sums flattened."""
    parts: list[Kernel] = []
    weights: list[float] = []
    for kernel in (a, b):
        parts += kernel.parts if isinstance(kernel, Sum) else (kernel,)
        weights += kernel._part_weights() if isinstance(kernel, Sum) else (1.0,)
    return Sum(tuple(parts), tuple(weights))


def multiply(a: Kernel, b: Kernel) -> Product:
    """Return ``a * b``, products flattened."""
    return Product(sum(((kernel.parts if isinstance(kernel, Product) else (kernel,)) for kernel in (a, b)), start=()))


def scale(kernel: Kernel, factor: Any) -> Sum:
    """Return ``factor * kernel``, as a sum with weights."""
    weight = check_positive(factor, "the weight of a kernel")
    if isinstance(kernel, Sum):
        return Sum(kernel.parts, tuple(weight * one for one in kernel._part_weights()))
    return Sum((kernel,), (weight,))


def check_kernel(kernel: Any) -> Kernel:
    """Return `kernel` if it is one."""
    if not isinstance(kernel, Kernel):
        raise InvalidInputError(f"expected a kernel such as Rbf(), not {short(kernel)}; as_kernel takes names")
    return kernel


def _weighted_bound(kernel: _Combination) -> float | None:
    bounds = [part.bound for part in kernel.parts]
    known = [weight * bound for weight, bound in zip(kernel._part_weights(), bounds) if bound is not None]
    return sum(known) if len(known) == len(bounds) else None
