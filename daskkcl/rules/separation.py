"""How well clusters are separated: indices of crisp partitions in feature space, from sums and from a sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Map

__all__ = ["calinski_harabasz", "davies_bouldin", "distances_between", "silhouettes", "stratified_mean"]

Floats = NDArray[Any]


def davies_bouldin(spreads: Floats, between: Floats) -> float:
    """Return the mean over clusters of the worst ``(s_i + s_j) / d_ij``: the less the better.

    Davies and Bouldin 1979 (doi:10.1109/TPAMI.1979.4766909), with mean distances ``s`` of rows from their centroid.

    Parameters
    ----------
    spreads : ndarray of shape (c,)
        Mean distance of the rows of each cluster from its centroid.
    between : ndarray of shape (c, c)
        Distances (not squared) between centroids.

    Examples
    --------
    >>> davies_bouldin(np.array([1.0, 1.0]), np.array([[0.0, 8.0], [8.0, 0.0]]))
    0.25
    """
    if len(spreads) < 2:
        return math.nan
    if np.allclose(spreads, 0) or np.allclose(between, 0):
        return 0.0  # as scikit-learn has it
    apart = np.where(between == 0, np.inf, between)
    return float(((spreads[:, None] + spreads) / apart).max(axis=1).mean())


def calinski_harabasz(within: float, between: float, n_rows: int, n_clusters: int) -> float:
    """Return the variance between clusters over that within: the more the better.

    Caliński and Harabasz 1974 (doi:10.1080/03610927408827101).

    Parameters
    ----------
    within : float
        Squared distances of rows from their centroids, summed.
    between : float
        Squared distances of centroids from the mean of all rows, summed over rows.
    n_rows, n_clusters : int

    Examples
    --------
    >>> calinski_harabasz(within=10.0, between=40.0, n_rows=12, n_clusters=2)
    40.0
    """
    if n_clusters < 2 or n_rows <= n_clusters:
        return math.nan
    return 1.0 if within == 0 else between * (n_rows - n_clusters) / (within * (n_clusters - 1))


def distances_between(rows: Any, map_: Map) -> Floats:
    """Return the distances of some rows to one another in the map's feature space (rows, rows)."""
    if map_.explicit or map_.kernel is None:
        Z = map_.measure(rows)[0].astype(np.float64)
        K = Z @ Z.T
    else:
        own = rows.astype(np.float64)
        K = np.asarray(map_.kernel(own, own), dtype=np.float64)
    lengths = np.diag(K)
    D = lengths[:, None] + lengths - 2 * K
    np.fill_diagonal(D, 0)
    return np.sqrt(np.maximum(D, 0))


def silhouettes(D: Floats, labels: NDArray[np.intp]) -> Floats:
    """Return the silhouette of every row of a sample, 0 for one that is alone in its cluster.

    Rousseeuw 1987 (doi:10.1016/0377-0427(87)90125-7).

    Parameters
    ----------
    D : ndarray of shape (rows, rows)
        Distances.
    labels : ndarray of shape (rows,)

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [9.0]])
    >>> silhouettes(abs(x - x.T), np.array([0, 0, 1])).round(3)
    array([0.889, 0.875, 0.   ])
    """
    present, own = np.unique(labels, return_inverse=True)
    member = np.eye(len(present))[own]  # (rows, c)
    counts = member.sum(axis=0)
    sums = D @ member
    rows = np.arange(len(D))
    a = sums[rows, own] / np.maximum(counts[own] - 1, 1)
    means = sums / counts
    means[rows, own] = np.inf
    b = means.min(axis=1)
    with np.errstate(invalid="ignore"):
        s = (b - a) / np.maximum(a, b)
    return np.where((counts[own] > 1) & np.isfinite(s), s, 0.0)


def stratified_mean(values: Floats, labels: NDArray[np.intp], sizes: Floats) -> float:
    """Return the mean over all rows of values that are known for some rows of every cluster.

    Parameters
    ----------
    values, labels : ndarray of shape (rows,)
    sizes : ndarray of shape (c,)
        Rows of each cluster.

    Examples
    --------
    >>> stratified_mean(np.array([1.0, 0.0]), np.array([0, 1]), np.array([300, 100]))
    0.75
    """
    counts = np.bincount(labels, minlength=len(sizes))
    sums = np.bincount(labels, weights=values, minlength=len(sizes))
    known = counts > 0
    return float((sums[known] / counts[known]) @ sizes[known] / sizes[known].sum())
