"""An approximate index of centres: with thousands of them, most need not be looked at.

Centres are divided into cells of about thirty-two. A row is compared with the few cells nearest to it, which a graph
of the cells finds (HNSW), then with the centres of these, in at most 64 coordinates; the best sixteen are compared in
all coordinates. faiss does the searching, one row at a time, so that a row's answer does not depend on its neighbours.
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

__all__ = ["CentreIndex", "index_available", "require_index"]

Floats = NDArray[Any]

_CELL_CENTRES = 32  # centres in a cell, on average
_CELLS_MET = 16  # cells that a row is compared with
_CANDIDATES = 16  # centres that it is compared with in all coordinates
_LINKS, _BUILD_EFFORT, _SEARCH_EFFORT = 16, 100, 64  # of the graph of cells
_CELL_STEPS = 10  # of the k-means that makes the cells
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
    >>> CentreIndex.of(centres).winners(Z, kappa, centres)  # doctest: +SKIP
    (array([41,  7]), array([1.04, 0.  ], dtype=float32))
    """

    projection: Any
    points: Floats
    cells: Floats

    @classmethod
    def of(cls, centres: Centres) -> CentreIndex:
        """Make the index of some centres: a function of them alone."""
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
        self._searcher  # noqa: B018

    @cached_property
    def _searcher(self) -> Any:
        import faiss

        q = self.points.shape[1]
        with _one_thread(faiss):
            graph = faiss.IndexHNSWFlat(q, _LINKS)
            graph.hnsw.efConstruction, graph.hnsw.efSearch = _BUILD_EFFORT, _SEARCH_EFFORT
            graph.add(self.cells)
            searcher = faiss.IndexIVFFlat(graph, q, len(self.cells))  # which keeps the graph alive
            searcher.is_trained = True
            searcher.nprobe = min(_CELLS_MET, len(self.cells))
            searcher.add(self.points)
        return searcher

    def candidates(self, Z: Floats) -> NDArray[np.int64]:
        """Return the numbers of centres near each row, -1 where there are fewer."""
        import faiss

        Y = Z if self.projection is None else Z @ self.projection
        with _one_thread(faiss):
            return self._searcher.search(np.ascontiguousarray(Y, dtype=np.float32), min(_CANDIDATES, len(self.points)))[
                1
            ]

    def winners(
        self, Z: Floats, kappa: Floats, centres: Centres, factors: Floats | None = None
    ) -> tuple[NDArray[np.intp], Floats]:
        """Return the nearest centre of every row and its squared distance; `factors` weigh the distances compared."""
        from .many_loops import best_of

        G, nu = centres.in_block_precision
        labels, distances = np.empty(len(Z), dtype=np.intp), np.empty(len(Z), dtype=Z.dtype)
        weights = np.ones(len(nu), dtype=Z.dtype) if factors is None else factors.astype(Z.dtype)
        best_of(np.ascontiguousarray(Z), kappa, self.candidates(Z), G, nu, weights, labels, distances)
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


def _cells(points: Floats) -> Floats:
    """Divide points into cells by a short k-means from points evenly spaced; cells that stay empty are left out."""
    n_cells = max(1, len(points) // _CELL_CENTRES)
    cells = points[np.linspace(0, len(points) - 1, n_cells).astype(np.intp)].astype(np.float32)
    for _ in range(_CELL_STEPS):
        labels = np.concatenate([_nearest_cells(part, cells) for part in np.array_split(points, n_cells // 256 + 1)])
        order, counts = np.argsort(labels, kind="stable"), np.bincount(labels, minlength=n_cells)
        present = np.flatnonzero(counts)
        starts = np.concatenate([[0], np.cumsum(counts[present])[:-1]])
        sums = np.add.reduceat(points[order], starts, axis=0, dtype=np.float64)
        cells, n_cells = (sums / counts[present, None]).astype(np.float32), len(present)
    return np.ascontiguousarray(cells)


def _nearest_cells(points: Floats, cells: Floats) -> NDArray[np.intp]:
    return (squared_lengths(cells) - 2 * points @ cells.T).argmin(axis=1)
