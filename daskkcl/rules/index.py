"""An approximate index of centres: with thousands of them, most need not be looked at.

Centres are divided into cells of about thirty-two. A row is compared with the middle of every cell, then with the
centres of the few cells nearest to it, in at most 64 coordinates. If one of them is much nearer than the cells are, it
will do; if not, the row goes on to many more cells. The best centres are compared in all coordinates. faiss searches
cells one row at a time, and products have a fixed number of rows: a row's answer does not depend on its neighbours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError
from ..maps.base import Centres
from ..maps.explicit import squared_lengths
from ..system import single_threaded

__all__ = ["CentreIndex", "index_available", "require_index", "search_bytes"]

Floats = NDArray[Any]

_CELL_CENTRES = 32  # centres in a cell, on average
_FIRST_CELLS, _ALL_CELLS = 4, 64  # cells that a row meets at first, and if no centre there is near
_NEAR = 0.6  # of the squared distance of the nearest cell: a centre nearer than that is near
_CANDIDATES = 16  # centres that a row is compared with in all coordinates,
_FEW_CANDIDATES = 4  # if all coordinates are what the cells were searched in, and distances are not weighed
_CELL_STEPS = 5  # of the k-means that makes the cells
_SLICE_ROWS = 1024  # that meet the cells at once,
_PRODUCT_ROWS = 64  # in products of always so many rows: their rounding does not depend on how many rows there are
_COORDINATES = 64
_BASIS_CENTRES = 512  # that span the coordinates
_ENOUGH = 0.9  # of the centres' variance: then the leading directions do, else random ones


def index_available() -> bool:
    """Return whether faiss is installed."""
    return find_spec("faiss") is not None


def require_index(what: str) -> None:
    """Say what to install, if it is not there."""
    if not index_available():
        raise InvalidInputError(
            f"{what} needs faiss, which is not installed: pip install 'daskkcl[index]' (or conda install faiss-cpu). "
            "nearest='exact' does without."
        )


def search_bytes(n_clusters: int) -> int:
    """Return what a task holds while it searches: products with cells, cells to be met, numbers of centres."""
    cells = n_clusters // _CELL_CENTRES + 1
    return _SLICE_ROWS * (4 * 4 * cells + 2 * 8 * _ALL_CELLS + 8 * 4 * _COORDINATES) + 64 * n_clusters


@dataclass(frozen=True, eq=False)
class CentreIndex:
    """Where centres are, in few coordinates, and the cells they are divided into.

    Parameters
    ----------
    projection : ndarray of shape (m, q) or None
        Makes coordinates of measurements; None where measurements are few coordinates already.
    points : ndarray of shape (c, q)
        The centres, float32.
    cells : ndarray of shape (k, q)
        The middle of each cell, float32.

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.maps.explicit import IdentityMap
    >>> map_ = IdentityMap(np.zeros(2), np.dtype("float32"))
    >>> centres = Centres.from_means(np.array([[k, 0.0] for k in range(100)]), map_)
    >>> Z, kappa = map_.measure(np.array([[41.2, 1.0], [7.0, 0.0]], dtype="float32"))
    >>> CentreIndex.of(centres).winners(Z, kappa, centres)
    (array([41,  7]), array([1.04, 0.  ], dtype=float32))
    """

    projection: Any
    points: Floats
    cells: Floats

    @classmethod
    def of(cls, centres: Centres) -> CentreIndex:
        """Make the index of some centres: a function of them alone."""
        with single_threaded():  # one rounding, on any number of cores
            return cls._of(centres)

    @classmethod
    def _of(cls, centres: Centres) -> CentreIndex:
        G, S = centres.coefficients, centres.means
        if G.shape[1] <= _COORDINATES and np.array_equal(G, S):  # explicit, and few
            projection, points = None, G.astype(np.float32)
        else:
            projection = _directions(G, S)
            points = (S @ projection).astype(np.float32)
            projection = projection.astype(centres.dtype)
        index = cls(projection, np.ascontiguousarray(points), _cells(points))
        index.settle()
        return index

    def settle(self) -> None:
        """Make what all tasks share now, once and not in each thread."""
        self._searcher, self._half_lengths  # noqa: B018

    @cached_property
    def _half_lengths(self) -> Floats:
        return squared_lengths(self.cells) / 2

    @cached_property
    def _searcher(self) -> Any:
        import faiss
        from faiss.contrib.ivf_tools import add_preassigned

        q, k = self.points.shape[1], len(self.cells)
        parts = [self.points[first : first + _SLICE_ROWS] for first in range(0, len(self.points), _SLICE_ROWS)]
        own = np.concatenate([_half_distances(part, self.cells, self._half_lengths).argmin(axis=1) for part in parts])
        with _one_thread(faiss):
            searcher = faiss.IndexIVFFlat(faiss.IndexFlatL2(q), q, k)  # which keeps the other alive
            searcher.is_trained = True
            searcher.nprobe = min(_ALL_CELLS, k)
            add_preassigned(searcher, self.points, own.astype(np.int64))
        return searcher

    def candidates(self, Z: Floats, count: int = _CANDIDATES, factors: Floats | None = None) -> NDArray[np.int64]:
        """Return the numbers of so many centres near each row, -1 where there are fewer."""
        import faiss

        Y = np.ascontiguousarray(Z if self.projection is None else Z @ self.projection, dtype=np.float32)
        found = np.empty((len(Y), min(count, len(self.points))), dtype=np.int64)
        with _one_thread(faiss):
            for first in range(0, len(Y), _SLICE_ROWS):
                found[first : first + _SLICE_ROWS] = self._search(
                    Y[first : first + _SLICE_ROWS], found.shape[1], factors
                )
        return found

    def _search(self, Y: Floats, count: int, factors: Floats | None) -> NDArray[np.int64]:
        """Search the first cells for all rows, and go on for those that have found no centre near them."""
        from .many_loops import nearest_columns

        away = _half_distances(Y, self.cells, self._half_lengths)
        cells = np.full((len(Y), self._searcher.nprobe), -1)
        nearest_columns(away, cells[:, :_FIRST_CELLS])
        D, found = self._searcher.search_preassigned(Y, count, cells, None)
        nearest = np.maximum(squared_lengths(Y) + 2 * away[np.arange(len(Y)), cells[:, 0]], 0)
        if factors is not None:  # a centre far away can win if it is seldom won
            D, nearest = D * np.where(found < 0, 1, factors[found]), nearest * factors.mean() / 2
        more = np.flatnonzero(~(D.min(axis=1) < _NEAR * nearest))
        if len(more) and cells.shape[1] > _FIRST_CELLS:
            found[more] = self._searcher.search_preassigned(Y[more], count, _least(away[more], cells.shape[1]), None)[1]
        return found

    def winners(
        self, Z: Floats, kappa: Floats, centres: Centres, factors: Floats | None = None
    ) -> tuple[NDArray[np.intp], Floats]:
        """Return the nearest centre of every row and its squared distance; `factors` weigh the distances compared."""
        from .many_loops import best_of

        G, nu = centres.in_block_precision
        labels, distances = np.empty(len(Z), dtype=np.intp), np.empty(len(Z), dtype=Z.dtype)
        weights = np.ones(len(nu), dtype=Z.dtype) if factors is None else factors.astype(Z.dtype)
        count = _FEW_CANDIDATES if self.projection is None and factors is None else _CANDIDATES
        candidates = self.candidates(Z, count, factors)
        best_of(np.ascontiguousarray(Z), kappa, candidates, G, nu, weights, labels, distances)
        return labels, distances

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("projection", "points", "cells")}  # the rest is made of them


@contextlib.contextmanager
def _one_thread(faiss: Any) -> Iterator[None]:
    """Hold faiss to this thread: dask runs a task on every core already, and an index is built in one order."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


def _directions(G: Floats, S: Floats) -> Floats:
    """Return directions (m, q) in feature space, such that ``z P`` are a row's coordinates along them.

    They are orthonormal and in the span of some of the centres: the leading ones (kernel principal components) if
    these hold most of the variance, else random ones, which keep all distances about as well (Johnson and
    Lindenstrauss). With coefficients G and mean measurements S, centres have the products ``G S^T``.
    """
    import scipy.linalg

    some = np.linspace(0, len(G) - 1, min(len(G), _BASIS_CENTRES)).astype(np.intp)
    G = G[some] - G.mean(axis=0)
    S = S[some] - S.mean(axis=0)
    products = G @ S.T
    values, vectors = scipy.linalg.eigh((products + products.T) / 2, check_finite=False)
    keep = values > 1e-10 * max(values[-1], 0)
    values, vectors = values[keep][::-1], vectors[:, keep][:, ::-1]
    q = min(_COORDINATES, len(values))
    basis = G.T @ (vectors / np.sqrt(values))
    if q == 0:  # all centres are one
        return np.zeros((G.shape[1], 1))
    if values[:q].sum() >= _ENOUGH * values.sum():
        return np.ascontiguousarray(basis[:, :q])
    return basis @ np.random.default_rng(0).normal(scale=q**-0.5, size=(len(values), q))


def _half_distances(Y: Floats, columns: Floats, half_lengths: Floats) -> Floats:
    """Return half the squared distances of rows and columns, less what is the row's own (rows, columns)."""
    n, q = Y.shape
    padded = np.zeros((-(-n // _PRODUCT_ROWS), _PRODUCT_ROWS, q), dtype=np.float32)
    padded.reshape(-1, q)[:n] = Y
    products = np.matmul(padded, columns.T).reshape(-1, len(columns))[:n]
    return np.subtract(half_lengths, products, out=products)


def _least(values: Floats, count: int) -> NDArray[np.int64]:
    """Return the columns of the least values of every row, lowest first if they are equal."""
    from .many_loops import columns_up_to

    if count == values.shape[1]:
        return np.tile(np.arange(count), (len(values), 1))
    last = np.partition(values, count - 1, axis=1)[:, count - 1]
    found = np.empty((len(values), count), dtype=np.int64)
    columns_up_to(values, last, found)
    return found


def _cells(points: Floats) -> Floats:
    """Divide points into cells by a short k-means; cells that stay empty are left out.

    It starts from means of points in a line, not from points: the mean of many is nearer to everything than that of
    few, so that among single points those in the middle would take most of the rest.
    """
    n_cells = max(1, len(points) // _CELL_CENTRES)
    edges = np.linspace(0, len(points), n_cells + 1).astype(np.intp)
    sums = np.add.reduceat(points, edges[:-1], axis=0, dtype=np.float64)
    cells = (sums / np.diff(edges)[:, None]).astype(np.float32)
    for _ in range(_CELL_STEPS):
        parts = np.array_split(points, n_cells // 256 + 1)
        labels = np.concatenate([(squared_lengths(cells) - 2 * part @ cells.T).argmin(axis=1) for part in parts])
        order, counts = np.argsort(labels, kind="stable"), np.bincount(labels, minlength=n_cells)
        present = np.flatnonzero(counts)
        starts = np.concatenate([[0], np.cumsum(counts[present])[:-1]])
        sums = np.add.reduceat(points[order], starts, axis=0, dtype=np.float64)
        cells, n_cells = (sums / counts[present, None]).astype(np.float32), len(present)
    return np.ascontiguousarray(cells)
