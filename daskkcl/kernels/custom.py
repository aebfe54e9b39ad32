"""A user's own function as a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from daskkcl.errors import InvalidInputError
from daskkcl.kernels.base import Kernel, KernelColumns
from daskkcl.kernels.checks import Array, dense_rows


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """A kernel given as a function of two matrices.

    Parameters
    ----------
    f : callable
        ``f(X, Y)`` of rows (r, d) and landmarks (m, d), both in the dtype of the block, returns a real,
        finite array (r, m). It is called on some hundred rows at a time. If it has an attribute
        ``diagonal``, ``f.diagonal(X)`` returns ``k(x_i, x_i)``, (r,). Otherwise that takes a call ``f(x_i,
        x_i)`` **for every row, which is slow**.

    Notes
    -----
    It pickles, and so travels to workers, if `f` does. It is not stored with a model, which would mean
    running code from a file: pass the function again. The memory plan counts on `f` to need no more than
    two float64 arrays (r, m).

    Examples
    --------
    >>> import numpy as np
    >>> CallableKernel(lambda X, Y: 1 + X @ Y.T)(np.array([[1.0]]), np.array([[2.0], [3.0]]))
    array([[3., 4.]])
    """

    name: ClassVar[str] = "callable"
    f: Callable[..., Any]

    def __post_init__(self) -> None:
        if not callable(self.f):
            raise InvalidInputError(f"expected a function f(X, Y), not {self.f!r}")

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "function": self._label}

    @property
    def _label(self) -> str:
        owner = self.f if hasattr(self.f, "__qualname__") else type(self.f)
        return f"{getattr(owner, '__module__', '?')}.{owner.__qualname__}"

    def _call(self, rows: Array, landmarks: Array, out: Array) -> None:
        self._store(self.f(rows, landmarks), out, "f(X, Y)")

    def _store(self, result: Any, out: Array, call: str) -> None:
        values = np.asarray(result)
        problem = ""
        if values.shape != out.shape:
            problem = f"an array of shape {values.shape}, not {out.shape}"
        elif values.dtype.kind not in "biuf":
            problem = f"dtype {values.dtype}, not real numbers"
        elif not np.isfinite(values).all():
            problem = "NaN or infinity"
        if problem:
            raise InvalidInputError(f"the kernel function {self._label} returned {problem} from {call}")
        out[...] = values

    def _columns(self, landmarks: Array, dtype: np.dtype[Any]) -> KernelColumns:
        return _CallableColumns(self, landmarks, dtype)

    def _kappa(self, rows: Array, kappa: Array) -> None:
        X = dense_rows(rows, kappa.dtype)
        diagonal = getattr(self.f, "diagonal", None)
        if diagonal is not None:
            self._store(diagonal(X), kappa, "f.diagonal(X)")
            return
        for i in range(X.shape[0]):
            self._call(X[i : i + 1], X[i : i + 1], kappa[i : i + 1, None])

    def _tile_scratch_bytes(self, rows: int, d: int, m: int, itemsize: int) -> int:
        return rows * d * itemsize + 2 * rows * m * 8 + rows * m


class _CallableColumns(KernelColumns):
    kernel: CallableKernel

    def __init__(self, kernel: CallableKernel, landmarks: Array, dtype: np.dtype[Any]) -> None:
        super().__init__(kernel, landmarks, dtype)
        self.landmarks = landmarks.astype(dtype, order="C")

    def _fill(self, rows: Array, out: Array, kappa: Array) -> None:
        X = dense_rows(rows, self.dtype)
        self.kernel._call(X, self.landmarks, out)
        self.kernel._kappa(X, kappa)
