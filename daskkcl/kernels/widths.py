"""Widths from a sample: the typical distance between its rows, by which kernels set ``gamma = 1 / spread``.

Everything is computed in float64 and is a function of the sample alone: where a subset of rows has to do,
it is evenly spaced. Rows that are all alike have spread zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskkcl.errors import InvalidInputError
from daskkcl.kernels.rows import SparseRows

Array = NDArray[Any]
PairDistances = Callable[[Array], Array]

#: Rows whose pairs are looked at one by one.
PAIR_ROWS = 1000
#: Columns whose variances are taken at once.
_STRIP = 64
#: Variance of sparse rows relative to their squared length that is only rounding.
_ALIKE = 1e-13


def gamma_from_spread(spread: float) -> float:
    """Return ``1 / spread``, or 1 when all rows are alike and any width does.

    Examples
    --------
    >>> gamma_from_spread(4.0), gamma_from_spread(0.0)
    (0.25, 1.0)
    """
    if spread == 0:
        return 1.0
    gamma = 1.0 / spread
    if not (math.isfinite(gamma) and gamma > 0):
        raise InvalidInputError(
            f"the typical distance in the sample is {spread:g}, out of range for a width; scale the data"
        )
    return gamma


def evenly_spaced(rows: Array, most: int) -> Array:
    """Return at most `most` rows, evenly spaced.

    Examples
    --------
    >>> evenly_spaced(np.arange(10)[:, None], 3).ravel()
    array([0, 4, 9])
    """
    n = rows.shape[0]
    return rows if n <= most else rows[np.linspace(0, n - 1, most).astype(np.intp)]


def mean_squared_distance(rows: Array) -> float:
    """Return the mean of ``‖x_i − x_j‖²`` over pairs i ≠ j: ``2 n/(n−1)`` times the total variance.

    Examples
    --------
    >>> mean_squared_distance(np.array([[0.0], [1.0], [3.0]]))  # (1 + 4 + 9) / 3
    4.666666666666667
    """
    n = rows.shape[0]
    if n < 2:
        return 0.0
    if isinstance(rows, SparseRows):
        mean = rows.mean()
        squares, square = mean_squared_norm(rows), float(mean @ mean)
        return 2 * n / (n - 1) * max(0.0, squares - square) if squares - square > _ALIKE * squares else 0.0
    # some columns at a time: copies of all of them in float64 are fresh memory, which costs more than the arithmetic
    strips = (_from_first_row(rows[:, first : first + _STRIP]) for first in range(0, rows.shape[1], _STRIP))
    return float(2 * n / (n - 1) * sum(float(strip.var(axis=0).sum()) for strip in strips))


def mean_manhattan_distance(rows: Array) -> float:
    """Return the mean of ``‖x_i − x_j‖₁`` over pairs i ≠ j, column by column from the sorted values.

    Examples
    --------
    >>> mean_manhattan_distance(np.array([[0.0], [1.0], [3.0]]))  # (1 + 2 + 3) / 3
    2.0
    """
    n = rows.shape[0]
    if n < 2:
        return 0.0
    # Σ_{i<j} x_(j) − x_(i) = Σ_i (2i − n + 1) x_(i),  i = 0 … n−1 in ascending order
    ranks = 2.0 * np.arange(n) - n + 1
    return float((ranks @ np.sort(_from_first_row(rows), axis=0)).sum() * 2 / (n * (n - 1)))


def mean_squared_norm(rows: Array) -> float:
    """Return the mean of ``‖x_i‖²``."""
    if isinstance(rows, SparseRows):
        return float(np.mean(rows.squared_norms()))
    X = rows.astype(np.float64)
    return float(np.vecdot(X, X).mean())


def median_squared_norm(rows: Array) -> float:
    """Return the median of ``‖x_i‖²``."""
    if isinstance(rows, SparseRows):
        return float(np.median(rows.squared_norms()))
    X = rows.astype(np.float64)
    return float(np.median(np.vecdot(X, X)))


def variance(rows: Array) -> float:
    """Return the variance of all entries together, as in scikit-learn's ``gamma="scale"``."""
    if isinstance(rows, SparseRows):
        cells = len(rows) * rows.n_features
        mean, square = rows.data.sum(dtype=np.float64) / cells, rows.squared_norms().sum() / cells
        return float(square - mean**2) if square - mean**2 > _ALIKE * square else 0.0
    return float((rows.astype(np.float64) - np.float64(rows[0, 0])).var())


def mean_of_pairs(rows: Array, distances: PairDistances) -> float:
    """Return the mean of `distances` over the pairs i ≠ j of at most PAIR_ROWS rows."""
    pairs = _pairs(rows, distances)
    return float(pairs.mean()) if pairs.size else 0.0


def median_of_pairs(rows: Array, distances: PairDistances) -> float:
    """Return the median of `distances` over the pairs of at most PAIR_ROWS rows; their mean if it is zero."""
    pairs = _pairs(rows, distances)
    if not pairs.size:
        return 0.0
    return float(np.median(pairs)) or float(pairs.mean())


def squared_distances(X: Array) -> Array:
    """Return ``‖x_i − x_j‖²``, (n, n), of float64 rows."""
    if isinstance(X, SparseRows):
        squared_norms, csr = X.squared_norms(), X.csr()
        D = (csr @ csr.T).toarray()
    else:
        squared_norms = np.vecdot(X, X)
        D = X @ X.T
    D *= -2
    D += squared_norms
    D += squared_norms[:, None]
    return np.maximum(D, 0, out=D)


def manhattan_distances(X: Array) -> Array:
    """Return ``‖x_i − x_j‖₁``, (n, n), of float64 rows."""
    from daskkcl.kernels import loops

    D = np.empty((X.shape[0], X.shape[0]))
    loops.manhattan(X, X, D)
    return D


def chi_squared_distances(X: Array) -> Array:
    """Return ``Σ_j (x_ij − x_kj)² / (x_ij + x_kj)``, (n, n), of non-negative float64 rows."""
    from daskkcl.kernels import loops

    D = np.empty((X.shape[0], X.shape[0]))
    loops.chi_squared(X, X, D)
    return D


def centred(distances: PairDistances) -> PairDistances:
    """Return `distances` between the rows minus the first of them, for distances that no shift changes."""
    return lambda X: distances(X if isinstance(X, SparseRows) else _from_first_row(X))


def _pairs(rows: Array, distances: PairDistances) -> Array:
    X: Any = evenly_spaced(rows, PAIR_ROWS)
    if isinstance(X, SparseRows):
        if len(X.distinct()) < 2:
            return np.zeros(len(X) * (len(X) - 1) // 2)
        D: Array = distances(X.astype(np.float64))  # type: ignore[arg-type]
        return D[np.triu_indices(len(X), k=1)]
    X = np.ascontiguousarray(X, dtype=np.float64)
    if not np.ptp(X, axis=0).any():
        return np.zeros(X.shape[0] * (X.shape[0] - 1) // 2)
    D = distances(X)
    return D[np.triu_indices(X.shape[0], k=1)]


def _from_first_row(rows: Array) -> Array:
    """Return the rows minus the first: exactly zero where a column is constant."""
    X = rows.astype(np.float64)
    return X - X[0]
