"""The sparse landmark spectral map: eigenvectors of the walk from rows to their nearest landmarks and back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Kernel
from .explicit import ExplicitMap
from .nearest import NearestLandmarks

__all__ = ["MORE", "CodeMap", "SpectralMap", "code_sums", "spectral_table"]

Floats = NDArray[Any]

_DENSE = 2000  # landmarks up to which the whole matrix is decomposed; beyond, the leading part by Lanczos iteration
_CLEAR = 2.0  # a step of the eigenvalues that decides how many of them to take
MORE = 5  # coordinates beyond the number of clusters, unless the spectrum makes a step before
_NOTHING = 1e-10  # of the largest eigenvalue: what is below is rounding


@dataclass(frozen=True, eq=False)
class CodeMap(ExplicitMap):
    """Coordinates of rows given by codes: weighted sums of a few rows of a table, of length one.

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.array([[0, 2, 0.5, 0.5]], dtype=np.float32)
    >>> CodeMap(np.array([[2.0, 0.0], [9.0, 9.0], [0.0, 2.0]]), 2, np.dtype("float64")).measure(codes)[0].round(3)
    array([[0.707, 0.707]])
    """

    table: Floats
    n_neighbors: int
    dtype: np.dtype[Any]
    name: str = field(default="codes", init=False)
    kernel = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_table", np.ascontiguousarray(self.table, dtype=self.dtype))

    @property
    def n_features(self) -> int:
        return 2 * self.n_neighbors

    @property
    def n_measurements(self) -> int:
        return int(self.table.shape[1])

    def measure(self, rows: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
        from .loops import gather_codes

        if rows.shape[1] != self.n_features:
            raise ValueError(f"codes have {self.n_features} columns, not {rows.shape[1]}: these are rows")
        if out is None:
            out = np.empty((len(rows), self.n_measurements), dtype=self.dtype)
        gather_codes(rows, self._table, out)  # type: ignore[attr-defined]
        return out, np.ones(len(rows), dtype=self.dtype)

    def scratch_bytes(self, rows: int, cells: int | None = None) -> int:
        return rows * 8


@dataclass(frozen=True, eq=False)
class SpectralMap(ExplicitMap):
    """Rows to codes, codes to coordinates. What all rows share is a table of landmarks x coordinates."""

    nearest: NearestLandmarks
    codes: CodeMap
    values: Floats | None = None  # eigenvalues, where the number of coordinates follows that of clusters
    name: str = field(default="spectral", init=False)

    def for_clusters(self, n_clusters: int) -> SpectralMap:
        """Return the map with as many coordinates as so many clusters want, if nobody said how many."""
        if self.values is None:
            return self
        keep = min(len(self.values), coordinates_up_to_a_step(self.values, n_clusters, n_clusters + MORE))
        table = np.ascontiguousarray(self.codes.table[:, :keep])
        return replace(self, codes=CodeMap(table, self.codes.n_neighbors, self.codes.dtype))

    @property
    def kernel(self) -> Kernel | None:
        return self.nearest.kernel

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.codes.dtype

    @property
    def n_features(self) -> int:
        return self.nearest.n_features

    @property
    def n_measurements(self) -> int:
        return self.codes.n_measurements

    def measure(self, rows: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
        return self.codes.measure(self.nearest.encode(rows), out)

    def scratch_bytes(self, rows: int, cells: int | None = None) -> int:
        return rows * 16 * self.nearest.n_neighbors + self.nearest.scratch_bytes(rows, cells)

    def settle(self) -> None:
        """Make what all tasks share now, once and not in each thread."""
        self.nearest.settle()


def code_sums(codes: NDArray[np.float32], n_landmarks: int, bits: int) -> tuple[Any, NDArray[np.int64]]:
    """Return ``Z^T Z`` (sparse) and the column sums of Z over some rows, in whole units: sums of them are exact.

    Examples
    --------
    >>> import numpy as np
    >>> products, sums = code_sums(np.array([[0, 1, 0.75, 0.25]], dtype=np.float32), 2, 2)
    >>> products.toarray(), sums
    (array([[9, 3],
           [3, 1]]), array([3, 1]))
    """
    from scipy.sparse import csr_array

    p = codes.shape[1] // 2
    used = codes[~np.isnan(codes[:, 0])]
    indices = used[:, :p].astype(np.int32).ravel()
    units = np.rint(used[:, p:] * np.float64(2**bits)).astype(np.int64).ravel()
    Z = csr_array((units, indices, np.arange(0, len(units) + 1, p)), shape=(len(used), n_landmarks))
    return (Z.T @ Z).tocsr(), np.asarray(Z.sum(axis=0)).ravel().astype(np.int64)


def spectral_table(
    products: Any,
    sums: NDArray[np.int64],
    bits: int,
    fewest: int,
    most: int,
    diffusion: float,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Return the table of coordinates (landmarks, r) and the eigenvalues.

    With Z scaled by ``D^-1/2``, D its column sums, the eigenpairs (w, B) of ``Z^T Z`` give the rows of the left
    singular vectors as ``z D^-1/2 B w^-1/2``. They are weighted by ``w^t``: t steps of the walk from rows to landmarks
    and back, in which directions that do not last count less. Of `fewest` to `most` of them, those up to a clear step
    of the eigenvalues are taken: behind it come the slow modes within clusters, which cut long ones in pieces.
    """
    import scipy.linalg
    import scipy.sparse.linalg
    from scipy.sparse import diags_array

    m = len(sums)
    degrees = sums / 2.0**bits
    scale = np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1e-300)), 0.0)
    side = diags_array(scale)
    walk = side @ (products.astype(np.float64) / 4.0**bits) @ side
    r = min(most + 1, m)
    if m <= _DENSE or r >= m // 4:
        values, vectors = scipy.linalg.eigh(walk.toarray(), subset_by_index=[m - r, m - 1], check_finite=False)
    else:
        # A generous basis: groups of rows that do not touch make equal eigenvalues, which a short one can miss.
        values, vectors = scipy.sparse.linalg.eigsh(
            walk, k=r, ncv=min(m - 1, 4 * r + 40), v0=rng.normal(size=m), tol=1e-9
        )
        order = np.argsort(values, kind="stable")
        values, vectors = values[order], vectors[:, order]
    values, vectors = values[::-1], vectors[:, ::-1]
    keep = min(int((values > _NOTHING * values[0]).sum()), coordinates_up_to_a_step(values, fewest, most))
    values, vectors = values[:keep], vectors[:, :keep]
    return scale[:, None] * vectors * values ** (diffusion - 0.5), values


def coordinates_up_to_a_step(values: Floats, fewest: int, most: int) -> int:
    """Return the number of eigenvalues before the largest step of ``1 - w`` from one to the next, if it is clear."""
    left = np.maximum(1 - values, 1e-6)  # a step among values that are one to rounding is none
    steps = left[fewest : most + 1] / left[fewest - 1 : most][: len(left[fewest : most + 1])]
    if len(steps) == 0 or steps.max() < _CLEAR:
        return most
    return fewest + int(steps.argmax())
