"""Measures of a clustering: against true labels, and of how even the clusters are.

All work from a table of counts, so labels may be numpy or lazy dask arrays of any length: only the table is held. Rows
labelled -1 (dropped) are left out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidInputError
from .schedules.contingency import contingency_table, label_counts

__all__ = ["ari", "contingency", "nmi", "pq", "rand", "rme", "sdcs"]


def contingency(truth: Any, labels: Any) -> NDArray[np.int64]:
    """Return how many rows of each true class (rows of the table) are in each cluster (columns).

    Examples
    --------
    >>> contingency([0, 0, 1, 1], [1, 1, 1, 0])
    array([[0, 2],
           [1, 1]])
    """
    return contingency_table(truth, labels)


def nmi(truth: Any, labels: Any) -> float:
    """Return the normalised mutual information, divided by the mean of both entropies, as scikit-learn has it.

    Examples
    --------
    >>> round(nmi([0, 0, 1, 1], [1, 1, 0, 0]), 6)
    1.0
    """
    from sklearn.metrics import mutual_info_score

    table = contingency(truth, labels)
    if table.size == 1:
        return 1.0
    information = float(mutual_info_score(None, None, contingency=table))
    entropies = [_entropy(table.sum(axis=axis)) for axis in (0, 1)]
    mean = sum(entropies) / 2
    return max(0.0, min(1.0, information / mean)) if information > np.finfo(np.float64).eps else 0.0


def _entropy(counts: NDArray[np.int64]) -> float:
    p = counts / counts.sum()
    return float(-(p * np.log(p)).sum())


def _pairs(truth: Any, labels: Any) -> tuple[int, int, int, int]:
    """Return the pairs of rows that are together in both, in the truth, in the clusters, and all of them."""
    table = contingency(truth, labels)
    together = [
        int(sum(math.comb(int(k), 2) for k in counts)) for counts in (table.ravel(), table.sum(1), table.sum(0))
    ]
    return together[0], together[1], together[2], math.comb(int(table.sum()), 2)


def rand(truth: Any, labels: Any) -> float:
    """Return the Rand index: the share of pairs of rows on which both agree.

    Examples
    --------
    >>> round(rand([0, 0, 1, 1], [0, 0, 1, 2]), 4)
    0.8333
    """
    both, first, second, total = _pairs(truth, labels)
    return (total + 2 * both - first - second) / total if total else 1.0


def ari(truth: Any, labels: Any) -> float:
    """Return the Rand index adjusted for chance.

    Examples
    --------
    >>> round(ari([0, 0, 1, 1], [0, 0, 1, 2]), 4)
    0.5714
    """
    both, first, second, total = _pairs(truth, labels)
    if (both, both) == (first, second):
        return 1.0
    expected = first * second / total
    return (both - expected) / ((first + second) / 2 - expected)


def pq(truth: Any, labels: Any) -> float:
    """Return the partition quality: 1 when clusters and classes are the same, less for every split and mixture.

    ``sum p(i, j)^3 / p(j)`` over classes i and clusters j, divided by ``sum p(i)^2``; 0 for a single cluster (Eq. 34 of
    doi:10.1016/j.patcog.2014.03.010, whose print misses a bracket).

    Examples
    --------
    >>> pq([0, 0, 1, 1], [0, 0, 1, 1]), pq([0, 0, 1, 1], [0, 0, 0, 0]), pq([0, 0, 1, 1], [0, 0, 1, 2])
    (1.0, 0.0, 0.75)
    """
    P = contingency(truth, labels).astype(np.float64)
    P /= P.sum()
    if P.shape[1] == 1:
        return 0.0
    return float((P**3 / P.sum(axis=0)).sum() / (P.sum(axis=1) ** 2).sum())


def sdcs(labels: Any, n_clusters: int | None = None) -> float:
    """Return the standard deviation of cluster sizes, 0 when all are equal.

    Parameters
    ----------
    labels : array of int
    n_clusters : int, optional
        How many clusters there are; more than there are labels when some are empty.

    Examples
    --------
    >>> sdcs([0, 0, 0, 1]), sdcs([0, 0, 1, 1], n_clusters=4)
    (1.0, 1.0)
    """
    return float(np.std(_sizes(labels, n_clusters)))


def rme(labels: Any, n_clusters: int | None = None) -> float:
    """Return the smallest cluster over the size it would have if all were equal: 1 balanced, 0 an empty cluster.

    Parameters
    ----------
    labels, n_clusters : as for `sdcs`

    Examples
    --------
    >>> rme([0, 0, 0, 1]), rme([0, 0, 1, 1], n_clusters=3)
    (0.5, 0.0)
    """
    sizes = _sizes(labels, n_clusters)
    return float(sizes.min() / sizes.mean())


def _sizes(labels: Any, n_clusters: int | None) -> NDArray[np.int64]:
    sizes = label_counts(labels)[1]
    if n_clusters is not None and n_clusters < len(sizes):
        raise InvalidInputError(f"n_clusters={n_clusters}, but there are {len(sizes)} different labels.")
    return np.pad(sizes, (0, 0 if n_clusters is None else n_clusters - len(sizes)))
