"""What every kernel is: a value, and a way to fill blocks of rows × landmarks within declared temporaries."""

from __future__ import annotations

import dataclasses
import numbers
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from daskkcl.errors import InvalidInputError
from daskkcl.kernels.checks import Array, all_finite, check_gamma, check_rows, floating_dtype, set_field
from daskkcl.kernels.rows import as_dense, is_sparse

#: Rows handled at a time inside a block: enough for a GEMM at full speed, few enough for small temporaries.
TILE_ROWS = 1024
#: Elements of a strip that stays in cache while several elementwise steps pass over it.
STRIP_ELEMENTS = 1 << 16
#: Casting buffers of numpy and small objects, whatever the shapes.
FIXED_SCRATCH_BYTES = 1 << 18


class Kernel(ABC):
    """A kernel ``k(x, y)``: a frozen value that compares, hashes, pickles and turns into JSON.

    Subclasses are frozen dataclasses whose fields are the parameters. Kernels add (``a + b``), multiply
    (``a * b``) and scale (``0.5 * a``). A kernel whose ``gamma`` is still a rule (``"auto"``, ``"scale"``,
    ``"median"``) is *unresolved*: `resolve` gives the same kernel with a number taken from a sample.

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.kernels import Linear, Rbf
    >>> kernel = Rbf(gamma=0.5) + 2 * Linear()
    >>> kernel(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])).round(3)
    array([[3.   , 0.368]])
    """

    name: ClassVar[str]
    __array_ufunc__: ClassVar[None] = None  # so that numpy scalars leave ``np.float64(0.5) * kernel`` to us

    def __call__(self, X: ArrayLike, Y: ArrayLike) -> Array:
        """Return the kernel matrix of the rows of `X` and of `Y`, (rows of X, rows of Y).

        In the floating dtype of `X`: float32 stays float32, float16 becomes float32, everything else float64.
        """
        rows = check_rows(X, "X")
        return self.columns(Y, floating_dtype(rows)).block(rows)[0]

    def diagonal(self, X: ArrayLike) -> Array:
        """Return ``k(x_i, x_i)`` for every row of `X`, in the same dtype as ``kernel(X, Y)``."""
        rows = check_rows(X, "X")
        self._check_ready(rows.shape[1])
        kappa = np.empty(rows.shape[0], floating_dtype(rows))
        for start in range(0, rows.shape[0], TILE_ROWS):
            tile = slice(start, start + TILE_ROWS)
            self._any_kappa(rows[tile], kappa[tile])
        return kappa

    def columns(self, Y: ArrayLike, dtype: DTypeLike) -> KernelColumns:
        """Prepare the kernel against fixed landmarks `Y`: the fast path for many blocks of rows.

        Parameters
        ----------
        Y : array-like, (m, d)
            Landmarks, finite.
        dtype : float32 or float64
            What to compute in.
        """
        landmarks = check_rows(Y, "landmarks")
        compute = np.dtype(dtype)
        if compute not in (np.float32, np.float64):
            raise InvalidInputError(f"kernels compute in float32 or float64, not {compute}")
        if landmarks.shape[0] == 0 or landmarks.shape[1] == 0:
            raise InvalidInputError(f"landmarks need a row and a column at least, not shape {landmarks.shape}")
        if not all_finite(landmarks):
            raise InvalidInputError("landmarks contain NaN or infinity; drop those rows first")
        self._check_ready(landmarks.shape[1])
        return self._any_columns(landmarks, compute)

    def scratch_bytes(self, rows: int, d: int, m: int, itemsize: int) -> int:
        """Bound the temporaries of ``columns(...).block(rows)`` beyond its input and its (rows, m) output.

        Examples
        --------
        >>> from daskkcl.kernels import Linear
        >>> Linear().scratch_bytes(rows=100_000, d=64, m=1000, itemsize=4) < 1_000_000
        True
        """
        kappa_bytes = rows * itemsize
        tile_bytes = self._tile_scratch_bytes(min(rows, TILE_ROWS), d, m, itemsize)
        return kappa_bytes + tile_bytes + FIXED_SCRATCH_BYTES

    @property
    def unit_diagonal(self) -> bool:
        """Whether ``k(x, x) = 1`` for every x."""
        return False

    @property
    def bound(self) -> float | None:
        """The largest possible ``|k|``, or None when there is none or it is not known."""
        return None

    @property
    def takes_sparse(self) -> bool:
        """Whether sparse rows go in as they are; else tiles of them are made dense."""
        return False

    def sparse_width(self, d: int, entries: int) -> int:
        """Bound the numbers that a sparse row with so many entries in `d` columns takes while it is measured."""
        return min(d, 4 * entries) if self.takes_sparse else d

    @property
    def has_gamma(self) -> bool:
        """Whether the kernel, or any of its parts, has a parameter ``gamma``."""
        return False

    @property
    def resolved(self) -> bool:
        """Whether every ``gamma`` is a number."""
        return True

    def resolve(self, sample: ArrayLike) -> Self:
        """Return this kernel with every ``gamma`` rule replaced by its number for the rows of `sample`."""
        if self.resolved:
            return self
        rows = check_rows(sample, "the sample")
        if rows.shape[0] == 0 or rows.shape[1] == 0:
            raise InvalidInputError("an empty sample gives no width; pass gamma as a number")
        self._check_features(rows.shape[1])
        if not all_finite(rows):
            raise InvalidInputError("the sample for the width contains NaN or infinity; drop those rows")
        return self._resolve(rows if self.takes_sparse else as_dense(rows))

    def with_gamma(self, gamma: float | str) -> Self:
        """Return this kernel with `gamma` in place of its own, in every part that has one."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain JSON values, for `from_dict`.

        Examples
        --------
        >>> from daskkcl.kernels import Rbf
        >>> Rbf(gamma=0.5).to_dict()
        {'name': 'rbf', 'gamma': 0.5}
        """
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {"name": self.name} | {field.name: _plain(getattr(self, field.name)) for field in fields}

    @staticmethod
    def from_dict(d: Any) -> Kernel:
        """Return the kernel that `to_dict` described; see `daskkcl.kernels.from_dict`."""
        from daskkcl.kernels.registry import from_dict

        return from_dict(d)

    def __add__(self, other: Any) -> Kernel:
        from daskkcl.kernels.combine import add

        return add(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        from daskkcl.kernels.combine import multiply, scale

        if isinstance(other, Kernel):
            return multiply(self, other)
        return scale(self, other) if isinstance(other, numbers.Real) else NotImplemented

    __rmul__ = __mul__

    @abstractmethod
    def _columns(self, landmarks: Array, dtype: np.dtype[Any]) -> KernelColumns:
        """Prepare for `landmarks`, which are checked and of any real dtype."""

    @abstractmethod
    def _kappa(self, rows: Array, kappa: Array) -> None:
        """Write k(x_i, x_i) of a tile of rows of any real dtype."""

    @abstractmethod
    def _tile_scratch_bytes(self, rows: int, d: int, m: int, itemsize: int) -> int:
        """Bound the temporaries of one call of ``KernelColumns._fill``."""

    def _any_columns(self, landmarks: Any, dtype: np.dtype[Any]) -> KernelColumns:
        """Prepare for landmarks, dense or sparse."""
        return self._sparse_columns(landmarks, dtype) if is_sparse(landmarks) else self._columns(landmarks, dtype)

    def _any_kappa(self, rows: Any, kappa: Array) -> None:
        self._kappa(rows if self.takes_sparse else as_dense(rows), kappa)

    def _sparse_columns(self, landmarks: Any, dtype: np.dtype[Any]) -> KernelColumns:
        from daskkcl.kernels.sparse import DENSE_ROWS, DenseColumns, SparseColumns

        dense = not self.takes_sparse or landmarks.density >= DENSE_ROWS
        return DenseColumns(self, landmarks, dtype) if dense else SparseColumns(self, landmarks, dtype)

    def _sparse_landmarks(self, landmarks: Any) -> tuple[Any, Array]:
        """Return what sparse rows are multiplied by, and a number for each landmark. For kernels that take them."""
        raise AttributeError(self.name)

    def _sparse_fill(self, rows: Any, right: Any, norms: Array, out: Array, kappa: Array) -> None:
        """Fill `out` and `kappa` for at most TILE_ROWS sparse rows. For kernels that take them."""
        raise AttributeError(self.name)

    def _resolve(self, rows: Array) -> Self:
        return self

    def _check_features(self, d: int) -> None:
        """Raise unless the kernel can be used on `d` columns."""
        return

    def _check_ready(self, d: int) -> None:
        self._check_features(d)
        if not self.resolved:
            raise InvalidInputError(f"the width of {self!r} is still a rule; kernel.resolve(sample) makes it a number")


class KernelColumns(ABC):
    """A kernel prepared against fixed landmarks. Made by `Kernel.columns`; it holds no state between blocks.

    Attributes
    ----------
    kernel : Kernel
    n_landmarks, n_features : int
    dtype : numpy.dtype
        What blocks are computed in.

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.kernels import Rbf
    >>> columns = Rbf(gamma=1.0).columns(np.array([[0.0], [1.0]]), dtype="float32")
    >>> Z, kappa = columns.block(np.array([[1], [2]], dtype="uint8"))
    >>> Z.round(3)
    array([[0.368, 1.   ],
           [0.018, 0.368]], dtype=float32)
    >>> kappa
    array([1., 1.], dtype=float32)
    """

    def __init__(self, kernel: Kernel, landmarks: Array, dtype: np.dtype[Any]) -> None:
        self.kernel = kernel
        self.n_landmarks, self.n_features = landmarks.shape
        self.dtype = dtype
        self.sparse = is_sparse(landmarks)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(_held_bytes(value) for value in vars(self).values())

    def block(self, rows: ArrayLike, out: Array | None = None) -> tuple[Array, Array]:
        """Return the kernel between `rows` and the landmarks, and of each row with itself.

        Parameters
        ----------
        rows : array-like, (r, d), any real dtype
        out : ndarray, (r, m), C-contiguous, of ``dtype``, optional
            Where to write the first result.

        Returns
        -------
        Z : ndarray, (r, m)
        kappa : ndarray, (r,)
        """
        X = check_rows(rows, "rows")
        if X.shape[1] != self.n_features:
            raise InvalidInputError(f"rows have {X.shape[1]} columns, the landmarks {self.n_features}")
        shape = (X.shape[0], self.n_landmarks)
        if out is None:
            out = np.empty(shape, self.dtype)
        elif out.shape != shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise InvalidInputError(
                f"out must be C-contiguous {self.dtype} of shape {shape}, not {out.dtype} of {out.shape}"
            )
        kappa = np.empty(X.shape[0], self.dtype)
        for start in range(0, X.shape[0], TILE_ROWS):
            tile = slice(start, start + TILE_ROWS)
            self._fill(self._tile(X[tile]), out[tile], kappa[tile])
        return out, kappa

    def compiled(self) -> KernelColumns:
        """Return the same for very many rows: compiled, where there are loops for it."""
        return self

    def _tile(self, rows: Any) -> Any:
        """Return rows as `_fill` takes them: columns of dense landmarks want dense rows."""
        return rows if self.sparse else as_dense(rows)

    @abstractmethod
    def _fill(self, rows: Array, out: Array, kappa: Array) -> None:
        """Fill `out` and `kappa` for at most TILE_ROWS rows of any real dtype."""

    def __repr__(self) -> str:
        shape = f"{self.n_landmarks} landmarks × {self.n_features} features"
        return f"{self.kernel!r}.columns({shape}, {self.dtype})"


class GammaKernel(Kernel):
    """A kernel with a parameter ``gamma``: a positive number, or a rule that takes it from a sample."""

    gamma: float | str

    def __post_init__(self) -> None:
        set_field(self, "gamma", check_gamma(self.gamma))

    @property
    def has_gamma(self) -> bool:
        return True

    @property
    def resolved(self) -> bool:
        return not isinstance(self.gamma, str)

    @property
    def gamma_value(self) -> float:
        """``gamma`` as a number; an error when it is still a rule."""
        if isinstance(self.gamma, str):
            raise InvalidInputError(f"gamma={self.gamma!r} is not a number yet; call resolve(sample)")
        return self.gamma

    def with_gamma(self, gamma: float | str) -> Self:
        return dataclasses.replace(self, gamma=gamma)  # type: ignore[type-var]

    def _resolve(self, rows: Array) -> Self:
        from daskkcl.kernels.widths import gamma_from_spread

        assert isinstance(self.gamma, str)
        return self.with_gamma(gamma_from_spread(self._spread(rows, self.gamma)))

    @abstractmethod
    def _spread(self, rows: Array, rule: str) -> float:
        """Return 1/gamma by `rule`, or 0 when the rows are all alike."""


def _plain(value: Any) -> Any:
    if isinstance(value, Kernel):
        return value.to_dict()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _held_bytes(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(map(_held_bytes, value))
    return int(getattr(value, "nbytes", 0))
