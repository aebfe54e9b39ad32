"""Sparse kernel k-means: a buffer of informative rows that enter by leverage, leave by leverage, and are clustered.

Equation, line and algorithm numbers are those of Chitta, Jain and Jin (doi:10.1145/2809890.2809896).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.rows import join_blocks
from ..maps.base import Centres
from ..maps.explicit import squared_lengths
from ..maps.nearest import nearest_mask
from ..maps.sparse_kernel import SparseKernelMap, improves, leading_pairs, seen_lengths
from ..random import Key
from ..system import Weighed
from .crisp import Nearest, cluster_sums
from .lloyd import LloydRun, best_lloyd_run, lloyd
from .many import MANY, winners_in_slices

__all__ = [
    "nearest_labels",
    "Buffer",
    "Growth",
    "begin_buffer",
    "buffer_centres",
    "entry_chances",
    "finish_buffer",
    "meet_batch",
]

Floats = NDArray[Any]


@dataclass(frozen=True)
class Growth:
    """How a buffer grows and is clustered.

    Parameters
    ----------
    n_clusters : int
        C: clusters, and eigenvectors.
    max_rows : int
        MAX: the most rows of the buffer.
    every : int
        T: eigenpairs and clusters are made again when so many rows have come.
    n_init, max_iter : int
        Of k-means on the buffer.
    key : Key
        Of all that is drawn.
    """

    n_clusters: int
    max_rows: int
    every: int
    n_init: int
    max_iter: int
    key: Key


@dataclass(frozen=True, eq=False)
class Buffer(Weighed):
    """The rows of the buffer with their geometry, numbers and clusters, and those that wait to come in."""

    map_: SparseKernelMap
    numbers: NDArray[np.int64]  # (s,)
    labels: NDArray[np.intp]  # (s,), -1 for rows that have none yet
    waiting: Floats  # (w, d)
    waiting_numbers: NDArray[np.int64]  # (w,)
    n_entered: int
    history: tuple[float, ...]  # mean squared distance of the buffer's rows to their centres, clustering by clustering

    @property
    def version(self) -> int:
        """How often the eigenpairs have been made: what rows are measured with changes only then."""
        return len(self.history)


def begin_buffer(map_: SparseKernelMap, numbers: NDArray[np.int64], growth: Growth) -> Buffer:
    """Cluster the first rows (line 7 of Algorithm 1)."""
    nobody = np.full(len(numbers), -1)
    empty = np.empty(0, dtype=np.int64)
    buffer = Buffer(map_, numbers, nobody, map_.rows[:0], empty, 0, ())
    return _settled(buffer, _fresh_run(map_, growth, 0))


def entry_chances(map_: SparseKernelMap, rows: Floats, n_clusters: int) -> Floats:
    """Return the probability with which each row enters: its leverage score by the number of clusters (Eq. 3)."""
    return np.minimum(map_.scores(rows) / n_clusters, 1.0)


def meet_batch(buffer: Buffer, rows: Floats, numbers: NDArray[np.int64], chances: Floats, growth: Growth) -> Buffer:
    """Let a batch meet the buffer: rows that are drawn wait, and come in when there are enough (lines 9 to 14)."""
    drawn = growth.key.child("entry").uniform(numbers) < chances
    if not drawn.any():
        return buffer
    buffer = replace(
        buffer,
        waiting=join_blocks([buffer.waiting, rows[drawn]]),
        waiting_numbers=np.concatenate([buffer.waiting_numbers, numbers[drawn]]),
    )
    return _let_in(buffer, growth) if len(buffer.waiting) >= growth.every else buffer


def finish_buffer(buffer: Buffer, growth: Growth, reseed: bool) -> Buffer:
    """Let the last waiting rows in; if asked, cluster once more from new seeds, and keep the better clustering."""
    if len(buffer.waiting):
        buffer = _let_in(buffer, growth)
    if not reseed or buffer.version == 1:  # of new seeds already, and nothing has changed
        return buffer
    carried, fresh = _carried_run(buffer, growth), _fresh_run(buffer.map_, growth, buffer.version)
    return _settled(buffer, min(carried, fresh, key=lambda run: run.objective))


def buffer_centres(buffer: Buffer, n_clusters: int) -> Centres:
    """Return the means of the clusters' coordinates (Eq. 8; misprinted as sums in Algorithm 2)."""
    S, counts = cluster_sums(buffer.map_.coordinates, buffer.labels, n_clusters)
    return Centres.from_means(S / np.maximum(counts, 1)[:, None], buffer.map_)


def _let_in(buffer: Buffer, growth: Growth) -> Buffer:
    """Take the waiting rows in, let the least informative go, renew eigenpairs and clusters (lines 11 to 13)."""
    map_, old = buffer.map_, buffer.map_.n_rows
    rows = join_blocks([map_.rows, buffer.waiting])
    numbers = np.concatenate([buffer.numbers, buffer.waiting_numbers])
    labels = np.concatenate([buffer.labels, np.full(len(rows) - old, -1)])
    # Eq. 11 updates K + phi phi^T, but the matrix of Eq. 5 is bordered: V is extended by rows of zeros and improved.
    map_ = _renewed(map_, rows, _bordered(map_, buffer.waiting), np.arange(old), growth)
    if len(rows) > growth.max_rows:
        stay = np.sort(np.argsort(-map_.leverage, kind="stable")[: growth.max_rows])
        map_ = _renewed(map_, rows[stay], map_.matrix[stay][:, stay].tocsr(), stay, growth)
        numbers, labels = numbers[stay], labels[stay]
    entered = buffer.n_entered + len(buffer.waiting)
    empty = buffer.waiting_numbers[:0]
    grown = Buffer(map_, numbers, labels, rows[:0], empty, entered, buffer.history)
    return _settled(grown, _carried_run(grown, growth))


def _bordered(map_: SparseKernelMap, new: Floats) -> Any:
    """Return the sparse kernel with new rows and columns, one row after another (Eq. 5)."""
    from scipy.sparse import block_array, csr_array

    old, p = map_.n_rows, map_.n_neighbors
    new = new.astype(np.float64)
    columns = join_blocks([map_.rows.astype(np.float64), new])
    lengths = seen_lengths(map_.kernel, columns)
    phi = map_.kernel(new, columns)
    for i, row in enumerate(phi):  # a row sees the buffer, and those of the new rows that came before it
        if p < old + i:
            row[: old + i] *= nearest_mask(row[None, : old + i], lengths[: old + i], p)[0]
        row[old + i :] = 0
    among = phi[:, old:]
    corner = among + among.T + np.diag(map_.kernel.diagonal(new))
    border = csr_array(phi[:, :old])
    return block_array([[map_.matrix, border.T], [border, csr_array(corner)]], format="csr")


def _renewed(
    map_: SparseKernelMap, rows: Floats, matrix: Any, stay: NDArray[np.intp], growth: Growth
) -> SparseKernelMap:
    """Return the map of other rows, the first of which are rows of the map that `stay`."""
    start = None
    if improves(len(rows), growth.n_clusters):
        start = np.zeros((len(rows), len(map_.values)))
        start[: len(stay)] = map_.vectors[stay]
    values, vectors = leading_pairs(matrix, growth.n_clusters, start)
    return replace(map_, rows=rows, matrix=matrix, values=values, vectors=vectors)


# --- clusters of the buffer --------------------------------------------------------------------------------------


def _fresh_run(map_: SparseKernelMap, growth: Growth, number: int) -> LloydRun:
    """Cluster the rows of V S^1/2 by k-means from several D² seedings (Eq. 9)."""
    # All centres are compared, whatever later rows do: coordinates are nearly indicators of the clusters, which few
    # directions do not tell apart. With an index of 700 centres steps went on and on, to 1.6 times the objective.
    c, steps, rng = growth.n_clusters, growth.max_iter, growth.key.child("clusters", number).generator()
    Y = _places(map_, c)
    kappa = squared_lengths(Y)
    run = best_lloyd_run(Y, kappa, map_, c, steps, growth.n_init, rng)
    return run if c < MANY else lloyd(Y, kappa, run.centres, map_, steps)  # no passes over all rows will do the rest


def _places(map_: SparseKernelMap, n_clusters: int) -> Floats:
    """Return where rows of the buffer are: of many clusters in block precision, as they are many coordinates too."""
    return map_.coordinates if n_clusters < MANY else map_.coordinates.astype(map_.dtype)


def _carried_run(buffer: Buffer, growth: Growth) -> LloydRun:
    """Cluster from where the buffer's rows were: clusters keep their numbers while rows come and go."""
    Y, c = _places(buffer.map_, growth.n_clusters), growth.n_clusters
    S, counts = cluster_sums(Y, buffer.labels, c)
    means, empty = S / np.maximum(counts, 1)[:, None], np.flatnonzero(counts == 0)
    if len(empty):  # all its rows have gone: it begins again where a row is farthest from its centre
        away = np.where(buffer.labels >= 0, squared_lengths(Y - means[buffer.labels]), 0)
        means[empty] = Y[np.argsort(-away, kind="stable")[: len(empty)]]
    return lloyd(Y, squared_lengths(Y), Centres.from_means(means, buffer.map_), buffer.map_, growth.max_iter)


def _settled(buffer: Buffer, run: LloydRun) -> Buffer:
    buffer.map_.settle()
    history = (*buffer.history, run.objective / len(buffer.numbers))
    return replace(buffer, labels=nearest_labels(buffer.map_, run.centres), history=history)


def nearest_labels(map_: SparseKernelMap, centres: Centres) -> NDArray[np.intp]:
    """Return the nearest centre of every row of the buffer, where it is in the buffer."""
    Y = _places(map_, centres.n_clusters)
    return winners_in_slices(Y, squared_lengths(Y), replace(centres, dtype=Y.dtype), Nearest())[0]
