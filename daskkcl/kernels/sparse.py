"""Kernels of sparse rows with landmarks: products of what is stored, and nothing else is touched.

A product of sparse rows adds up the entries of each row in their order, so its rounding does not depend on the rows
around it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskkcl.errors import InvalidInputError
from daskkcl.kernels.base import Kernel, KernelColumns
from daskkcl.kernels.checks import Array
from daskkcl.kernels.rows import SparseRows, as_dense

__all__ = ["DenseColumns", "Right", "SparseColumns", "unit_sparse"]

#: Landmarks with at least this share of entries are multiplied as dense columns. (Measured.)
DENSE_COLUMNS = 1 / 8
#: With this share the rows are made dense too, a tile at a time: faster, in about twice their memory. (Measured.)
DENSE_ROWS = 1 / 4


class Right:
    """The right side of a product with sparse rows: landmarks as columns, sparse or dense, whichever is less."""

    def __init__(self, landmarks: SparseRows, dtype: np.dtype[Any]) -> None:
        self.dense: Array | None = None
        self.sparse: Any = None
        if landmarks.density >= DENSE_COLUMNS:
            self.dense = np.ascontiguousarray(landmarks.astype(dtype).toarray().T)
        else:
            self.sparse = landmarks.astype(dtype).csr().T.tocsr()  # (d, m)

    @property
    def nbytes(self) -> int:
        if self.dense is not None:
            return int(self.dense.nbytes)
        return int(self.sparse.data.nbytes + self.sparse.indices.nbytes + self.sparse.indptr.nbytes)

    def product(self, rows: SparseRows, out: Array) -> None:
        """Write ``rows · landmarks`` into `out`."""
        left = rows.astype(out.dtype).csr()
        if self.dense is not None:
            out[...] = left @ self.dense
        else:
            (left @ self.sparse).toarray(out=out)


class SparseColumns(KernelColumns):
    """A kernel of the dot product (or of the distance) prepared against sparse landmarks; rows of any kind."""

    def __init__(self, kernel: Kernel, landmarks: Any, dtype: np.dtype[Any]) -> None:
        super().__init__(kernel, landmarks, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            left, self.norms = kernel._sparse_landmarks(landmarks.astype(np.float64))
            self.right = Right(left, dtype)
            overflows = not np.isfinite(left.data.astype(dtype)).all()
        if overflows or not np.isfinite(self.norms.astype(dtype)).all():
            raise InvalidInputError(
                f"{kernel!r} is too large on the landmarks for {dtype}; scale the data"
                + (", or pass gamma='auto'" if kernel.has_gamma else "")
            )

    def _fill(self, rows: Any, out: Array, kappa: Array) -> None:
        self.kernel._sparse_fill(SparseRows.of(rows), self.right, self.norms, out, kappa)


class DenseColumns(KernelColumns):
    """A kernel prepared against dense landmarks that is given sparse rows: a tile of them is made dense."""

    def __init__(self, kernel: Kernel, landmarks: Any, dtype: np.dtype[Any]) -> None:
        super().__init__(kernel, landmarks, dtype)
        self.part = kernel._columns(landmarks.toarray(), dtype)

    def _fill(self, rows: Any, out: Array, kappa: Array) -> None:
        self.part._fill(as_dense(rows), out, kappa)


def unit_sparse(rows: SparseRows) -> SparseRows:
    """Return the rows divided by their lengths, in their own dtype; empty rows stay.

    Examples
    --------
    >>> unit_sparse(SparseRows.of(np.array([[3.0, 0.0, 4.0]]))).data
    array([0.6, 0.8])
    """
    peaks = rows.peaks().astype(np.float64)
    peaks[peaks == 0] = 1
    numbers = rows.row_numbers()
    values = rows.data / peaks[numbers]  # squares neither overflow nor vanish
    lengths = np.sqrt(rows.row_sums(values * values))
    lengths[lengths == 0] = 1
    values /= lengths[numbers]
    return SparseRows(values.astype(rows.dtype), rows.indices, rows.indptr, rows.n_features)
