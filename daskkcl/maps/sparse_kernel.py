"""The sparse kernel of a buffer of rows: every row sees its p nearest, and is placed by the leading eigenvectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Kernel
from .explicit import ExplicitMap, squared_lengths
from .nearest import nearest_mask

__all__ = [
    "SparseKernelMap",
    "improves",
    "iterated_bytes",
    "leading_pairs",
    "neighbour_kernel",
    "rows_of_whole",
    "seen_lengths",
]

Floats = NDArray[Any]

_MANY_VECTORS = 64  # from so many on, zeros of the sparse kernel are left out of products
_STRIP_ROWS = 256  # of a kernel matrix that is looked at and not kept
_DENSE = 2000  # rows up to which the whole matrix is decomposed; beyond, the leading part by Lanczos iteration,
_FEW = 8  # if rows are so many times the vectors wanted: else iterating takes longer (measured)
_NOTHING = 1e-10  # of the largest eigenvalue: what is below is rounding
_UNSEEN = 1e-6  # of the root of the largest eigenvalue: a shorter row is rounding, and has no direction
_GUARDS = 6  # further vectors: an eigenvector that overtakes the last of the leading ones is among them first
_ROUNDS = 40
_POWERS = 3  # of the matrix, in every round
_IMPROVED = 24  # rows must be so many times the vectors: else a fresh decomposition is faster (measured)
_RESIDUAL = 1e-10  # of the largest eigenvalue


@dataclass(frozen=True, eq=False)
class SparseKernelMap(ExplicitMap):
    """Coordinates ``phi^T V S^-1/2``; phi is a row's kernel with its p nearest rows of the buffer, zero elsewhere.

    Parameters
    ----------
    kernel : Kernel
        Resolved.
    rows : ndarray of shape (s, d)
        The buffer.
    matrix : sparse array of shape (s, s), float64
        Its sparse kernel.
    values, vectors : ndarray of shape (r,) and (s, r)
        The leading eigenpairs of `matrix`, largest first, all positive.
    n_neighbors : int
        p.
    dtype : dtype
    unit : bool
        Whether coordinates are divided by their length.

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.kernels import Linear
    >>> map_ = SparseKernelMap.begin(np.diag([3.0, 2.0, 1.0]), Linear(), 3, 2, np.dtype("float64"))
    >>> map_.values, map_.leverage
    (array([9., 4.]), array([1., 1., 0.]))
    >>> abs(map_.measure(np.array([[1.0, 0.0, 5.0]]))[0])
    array([[1., 0.]])
    """

    kernel: Kernel
    rows: Floats
    matrix: Any
    values: Floats
    vectors: Floats
    n_neighbors: int
    dtype: np.dtype[Any]
    unit: bool = False
    name: str = field(default="sparse", init=False)

    @classmethod
    def begin(
        cls,
        rows: Floats,
        kernel: Kernel,
        n_neighbors: int,
        n_vectors: int,
        dtype: np.dtype[Any],
        neighbors: str = "mutual",
        unit: bool = False,
    ) -> SparseKernelMap:
        """Make the map of a first buffer (lines 5 and 6 of Algorithm 1)."""
        matrix = neighbour_kernel(rows, kernel, n_neighbors, neighbors)
        return cls(kernel, rows, matrix, *leading_pairs(matrix, n_vectors), n_neighbors, dtype, unit)

    @property
    def n_features(self) -> int:
        return int(self.rows.shape[1])

    @property
    def n_rows(self) -> int:
        """Rows of the buffer."""
        return len(self.rows)

    @property
    def n_measurements(self) -> int:
        return len(self.values)

    @property
    def leverage(self) -> Floats:
        """The leverage score of every row of the buffer: the squared length of its row of V (Eq. 3)."""
        return squared_lengths(self.vectors)

    @property
    def coordinates(self) -> Floats:
        """Where the rows of the buffer are: ``V S^1/2`` (Eq. 8)."""
        Y = self.vectors * np.sqrt(self.values)
        return self._of_length_one(Y) if self.unit else Y

    @cached_property
    def _columns(self) -> Any:
        return self.kernel.columns(self.rows, self.dtype)

    @cached_property
    def _lengths(self) -> Floats:
        return seen_lengths(self.kernel, self.rows.astype(np.float64)).astype(self.dtype)

    @cached_property
    def _table(self) -> Floats:
        return np.ascontiguousarray(self.vectors / np.sqrt(self.values), dtype=self.dtype)

    def measure(self, rows: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
        out = self._project(rows, out)
        if self.unit:
            self._of_length_one(out)
        return out, squared_lengths(out)

    def _project(self, rows: Floats, out: Floats | None = None) -> Floats:
        from scipy.sparse import csr_array

        if out is None:
            out = np.empty((len(rows), self.n_measurements), dtype=self.dtype)
        S = np.empty((min(_STRIP_ROWS, len(rows)), self.n_rows), dtype=self.dtype)
        for first in range(0, len(rows), _STRIP_ROWS):
            some = rows[first : first + _STRIP_ROWS]
            phi, _ = self._columns.block(some, S[: len(some)])
            if self.n_neighbors < self.n_rows:
                phi *= nearest_mask(phi, self._lengths, self.n_neighbors)
            if self.n_measurements >= _MANY_VECTORS and self.n_neighbors * 8 <= self.n_rows:  # mostly zeros
                out[first : first + len(some)] = csr_array(phi) @ self._table
            else:
                np.matmul(phi, self._table, out=out[first : first + len(some)])
        return out

    def _of_length_one(self, Z: Floats) -> Floats:
        """Divide coordinates by their length, in place; rows that the eigenvectors do not see stay at the origin."""
        lengths = np.sqrt(squared_lengths(Z))[:, None]
        return np.divide(Z, lengths, out=Z, where=lengths > _UNSEEN * np.sqrt(self.values[0]))

    def scores(self, rows: Floats) -> Floats:
        """Return the leverage scores of rows that are not in the buffer: their rows of V would be ``phi^T V S^-1``."""
        Z = self._project(rows)
        return (Z.astype(np.float64) ** 2) @ (1 / self.values)

    def scratch_bytes(self, rows: int, cells: int | None = None) -> int:
        itemsize, strip = np.dtype(self.dtype).itemsize, min(rows, _STRIP_ROWS)
        kernel = self.kernel.scratch_bytes(strip, cells or self.n_features, self.n_rows, itemsize)
        product = strip * (self.n_measurements + 3 * self.n_neighbors) * itemsize
        return strip * self.n_rows * (3 * itemsize + 2) + kernel + product

    def settle(self) -> None:
        """Make what all tasks share now, once and not in each thread."""
        self._columns, self._lengths, self._table  # noqa: B018

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_columns", "_lengths", "_table")}


def seen_lengths(kernel: Kernel, rows: Floats) -> Floats:
    """Return ``k(x, x)`` of rows that are to be seen, infinity where it is 0.

    A row at the origin of feature space, such as one without words, is near to all, and its kernel with all is 0: it
    would take the place of a neighbour and give nothing for it.
    """
    kappa = kernel.diagonal(rows)
    return np.where(kappa == 0, np.inf, kappa)


def neighbour_kernel(rows: Floats, kernel: Kernel, n_neighbors: int, neighbors: str = "mutual") -> Any:
    """Return the kernel between rows that are among each other's p nearest, themselves included (Eq. 4).

    With ``neighbors="either"`` it is enough that one is among the other's.

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.kernels import Linear
    >>> rows = np.array([[1.0], [2.0], [4.0]])
    >>> neighbour_kernel(rows, Linear(), 2).toarray()
    array([[ 1.,  2.,  0.],
           [ 2.,  4.,  0.],
           [ 0.,  0., 16.]])
    >>> neighbour_kernel(rows, Linear(), 2, "either").toarray()
    array([[ 1.,  2.,  0.],
           [ 2.,  4.,  8.],
           [ 0.,  8., 16.]])
    """
    from scipy.sparse import csr_array, vstack

    rows = rows.astype(np.float64)
    columns, lengths = kernel.columns(rows, np.float64), seen_lengths(kernel, rows)
    parts = []
    for first in range(0, len(rows), _STRIP_ROWS):
        S, kappa = columns.block(rows[first : first + _STRIP_ROWS])
        own = np.arange(first, first + len(S))
        S[np.arange(len(S)), own] = kappa
        if n_neighbors < len(rows):
            mask = nearest_mask(S, lengths, n_neighbors)
            mask[np.arange(len(S)), own] = True  # kernels that are not definite may rank another row before
            at = np.nonzero(mask)
            parts.append(csr_array((S[at], at), shape=S.shape))
        else:
            parts.append(csr_array(S))
    near = vstack(parts, format="csr")
    present = near.copy()
    present.data[:] = 1  # zeros of the kernel are entries too, until both sides have been looked at
    share = (present + present.T).tocsr()
    share.data = np.where(share.data == 2, 0.5, 1.0 if neighbors == "either" else 0.0)
    matrix = (near + near.T).multiply(share).tocsr()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def leading_pairs(matrix: Any, count: int, start: Floats | None = None) -> tuple[Floats, Floats]:
    """Return the leading eigenpairs of a symmetric matrix that are positive, at most so many, largest first.

    With a `start`, vectors near the ones wanted, they are improved until the residuals are rounding. Where that takes
    too long, or without a start, the matrix is decomposed afresh.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> values, vectors = leading_pairs(csr_array(np.diag([1.0, 5.0, -7.0, 2.0])), 3)
    >>> values, abs(vectors[:, 0])
    (array([5., 2., 1.]), array([0., 1., 0., 0.]))
    """
    count = min(count, matrix.shape[0])
    pairs = None if start is None else _improved(matrix, count, start)
    values, vectors = pairs or _decomposed(matrix, count)
    keep = values > _NOTHING * max(values[0], 0.0)
    if not keep.any():  # a kernel that is zero, or negative: all rows are at the origin
        return np.ones(1), np.zeros((matrix.shape[0], 1))
    if keep.all():  # vectors of thousands of clusters are large: no copy
        return values, vectors
    return values[keep], np.ascontiguousarray(vectors[:, keep])


def rows_of_whole(count: int) -> int:
    """Return the most rows of a matrix that is decomposed as a whole when so many of its vectors are wanted."""
    return max(_DENSE, _FEW * count)


def iterated_bytes(n_rows: int, count: int) -> int:
    """Return what Lanczos iterations, and steps that improve vectors, hold of a matrix of at most so many rows."""
    lanczos = _basis(count) if n_rows > rows_of_whole(count) else 0
    return 8 * n_rows * max(lanczos, 3 * (1 + _POWERS) * min(count + _GUARDS, n_rows // _IMPROVED))


def improves(n_rows: int, count: int) -> bool:
    """Say whether vectors near the ones wanted are of use: with few rows for each, a fresh decomposition is faster."""
    return _IMPROVED * (count + _GUARDS) <= n_rows


def _basis(count: int) -> int:
    """Return how many Lanczos vectors are held: many, as parts that do not touch can have equal eigenvalues."""
    return max(2 * count, min(4 * count, 160)) + 40


def _decomposed(matrix: Any, count: int) -> tuple[Floats, Floats]:
    import scipy.linalg
    import scipy.sparse.linalg

    s = matrix.shape[0]
    if s <= rows_of_whole(count):
        dense = matrix.toarray(order="F")  # which LAPACK overwrites, and does not copy
        values, vectors = scipy.linalg.eigh(
            dense, subset_by_index=[s - count, s - 1], check_finite=False, overwrite_a=True
        )
        del dense  # before the vectors are copied: of thousands of clusters both are large
    else:
        first = np.random.default_rng(0).normal(size=s)  # always the same: nothing depends on luck
        ncv = min(s - 1, _basis(count))
        values, vectors = scipy.sparse.linalg.eigsh(matrix, k=count, which="LA", ncv=ncv, v0=first, tol=1e-12)
        order = np.argsort(values, kind="stable")[::-1]
        return values[order], np.ascontiguousarray(vectors[:, order])
    return values[::-1].copy(), vectors[:, ::-1].copy()


def _improved(matrix: Any, count: int, start: Floats) -> tuple[Floats, Floats] | None:
    """Improve vectors by Rayleigh-Ritz steps in the span of them and their images under powers of the matrix.

    The random vectors beside them see what `start` cannot: parts of the buffer that its vectors do not touch.
    """
    s, known = start.shape
    block = count + _GUARDS
    if not improves(s, count):
        return None
    guards = np.random.default_rng(0).normal(size=(s, max(block - known, 0))) / np.sqrt(s)
    X = np.linalg.qr(np.concatenate([start, guards], axis=1)[:, :block])[0]
    for _ in range(_ROUNDS):
        basis = [X]
        for _ in range(_POWERS):
            Y = matrix @ basis[-1]
            for Q in basis:
                Y -= Q @ (Q.T @ Y)
            lengths = np.linalg.norm(Y, axis=0)
            basis.append(Y / np.where(lengths > 0, lengths, 1))
        B = np.linalg.qr(np.concatenate(basis, axis=1))[0]
        image = matrix @ B
        values, U = np.linalg.eigh(B.T @ image)
        values, U = values[::-1][:block], U[:, ::-1][:, :block]
        X = B @ U
        residuals = np.linalg.norm(image @ U - X * values, axis=0)
        # No guard may be on its way up to the leading ones.
        if (residuals[:count] <= _RESIDUAL * abs(values[0])).all() and (
            values[count:] + residuals[count:] <= values[count - 1]
        ).all():
            return values[:count].copy(), np.ascontiguousarray(X[:, :count])
    return None
