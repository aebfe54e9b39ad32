"""Kernel competitive learning: KCL (exact), AKCL (Algorithm 1), PAKCL (Algorithm 2) of the AKCL paper.

Misprints there: Eq. 31 has (1 - eta) nu for (1 - eta)^2 nu (its own Eq. 33), which explicit coordinates never
need; "until t > t_max" in both algorithms would run one epoch more than t_max; Eqs. 44-45 taken for every k
would shrink a centre that won nothing towards the origin (Algorithm 2 step 2 moves the winners only);
"selected columns" before Eq. 43 are rows of K_B.
"""

from typing import Literal, NamedTuple

import numpy as np

from .algebra import Array, Labels, kernel_distances, squared_distances
from .kernel_kmeans import initial_coefficients_from_labels


class CompetitionResult(NamedTuple):
    """Centres (c, q) or coefficient columns (n, c), winning counts, epochs run."""

    centres: Array
    counts: Array
    n_epochs: int


def learning_rate(i: int, epoch: int, n: int, t_max: int, rate_start: float, rate_end: float) -> float:
    """Rate at the i-th sample (from 1) of an epoch (from 1): AKCL paper section 5.2.1."""
    return float(rate_start * (rate_end / rate_start) ** (((epoch - 1) * n + i) / (t_max * n)))


def akcl(
    Y: Array,
    r: Array,
    centres0: Array,
    counts0: Array,
    orders: list[Labels],
    rate_start: float = 1.0,
    rate_end: float = 1e-5,
    tol: float = 1e-4,
) -> CompetitionResult:
    """Algorithm 1, one row at a time.

    Parameters
    ----------
    Y, r : arrays (n, q) and (n,)
        Coordinates and residuals (`algebra.coordinates`).
    centres0, counts0 : arrays (c, q) and (c,)
        First centres and winning counts.
    orders : list of arrays (n,)
        One permutation of the rows for each epoch; its length is t_max.
    rate_start, rate_end : float
        First and last learning rate.
    tol : float
        Stop after an epoch in which the squared moves sum to less.

    Returns
    -------
    CompetitionResult
    """
    n = len(Y)
    centres = centres0.astype(np.float64).copy()
    counts = counts0.astype(np.float64).copy()
    epoch = 0
    for order in orders:
        epoch += 1
        before = centres.copy()
        for i, row in enumerate(order, start=1):
            f = counts / counts.sum()  # Eq. 14
            distance = np.sum((centres - Y[row]) ** 2, axis=1) + r[row]  # Eq. 30; r does not cancel under f
            winner = int(np.argmin(f * distance))  # Eq. 12; ties to the lowest index
            eta = learning_rate(i, epoch, n, len(orders), rate_start, rate_end)
            centres[winner] = centres[winner] + eta * (Y[row] - centres[winner])  # Eq. 13
            counts[winner] += 1  # Eq. 14
        if np.sum((centres - before) ** 2) < tol:  # Eq. 5; Algorithm 1 line 9 has the strict sign
            break
    return CompetitionResult(centres, counts, epoch)


def pakcl(
    Y: Array,
    r: Array,
    centres0: Array,
    counts0: Array,
    orders: list[Labels],
    subset_size: int,
    rate_start: float = 1.0,
    rate_end: float = 1e-5,
    tol: float = 1e-4,
) -> CompetitionResult:
    """Algorithm 2, subset after subset; parameters as in `akcl`, the last subset of an epoch may be short."""
    n = len(Y)
    centres = centres0.astype(np.float64).copy()
    counts = counts0.astype(np.float64).copy()
    epoch = 0
    for order in orders:
        epoch += 1
        before = centres.copy()
        for start in range(0, n, subset_size):
            rows = order[start : start + subset_size]
            f = counts / counts.sum()  # held for the whole subset, as are the centres
            winners = []
            for row in rows:
                distance = np.sum((centres - Y[row]) ** 2, axis=1) + r[row]
                winners.append(int(np.argmin(f * distance)))  # Eq. 38
            last = start + len(rows)  # the i of the subset's last row
            eta = learning_rate(last, epoch, n, len(orders), rate_start, rate_end)
            for k in range(len(centres)):
                won = rows[np.array(winners) == k]
                counts[k] += len(won)  # Eq. 39
                if len(won) > 0:  # a centre that won nothing stays
                    centres[k] = centres[k] + eta * (Y[won].mean(axis=0) - centres[k])  # Eq. 40
        if np.sum((centres - before) ** 2) < tol:  # Eq. 36 is Eq. 5
            break
    return CompetitionResult(centres, counts, epoch)


def kcl(
    K: Array,
    labels0: Labels,
    orders: list[Labels],
    rate_start: float = 1.0,
    rate_end: float = 1e-5,
    tol: float = 1e-4,
) -> CompetitionResult:
    """Exact kernel competitive learning on the full kernel matrix (section 2.1).

    Parameters
    ----------
    K : array (n, n)
        Kernel matrix.
    labels0 : array (n,)
        First labels 0..c-1, every one with a row; their means and counts are the start.
    orders, rate_start, rate_end, tol
        As in `akcl`.

    Returns
    -------
    CompetitionResult
        `centres` holds coefficient columns over all rows (n, c).
    """
    n = len(K)
    c = int(labels0.max()) + 1
    A = initial_coefficients_from_labels(labels0, c)
    counts = np.array([np.sum(labels0 == k) for k in range(c)], dtype=np.float64)
    epoch = 0
    for order in orders:
        epoch += 1
        before = A.copy()
        for i, row in enumerate(order, start=1):
            f = counts / counts.sum()  # Eq. 4
            distance = np.zeros(c)
            for k in range(c):
                distance[k] = K[row, row] - 2.0 * (K[row] @ A[:, k]) + A[:, k] @ K @ A[:, k]
            winner = int(np.argmin(f * distance))  # Eq. 2
            eta = learning_rate(i, epoch, n, len(orders), rate_start, rate_end)
            e_row = np.zeros(n)
            e_row[row] = 1.0
            A[:, winner] = A[:, winner] + eta * (e_row - A[:, winner])  # Eq. 3, in coefficients
            counts[winner] += 1  # Eq. 4
        moved = sum(float((A[:, k] - before[:, k]) @ K @ (A[:, k] - before[:, k])) for k in range(c))
        if moved < tol:  # Eq. 5
            break
    return CompetitionResult(A, counts, epoch)


def winners_of(d: Array, counts: Array, how: Literal["frequency", "nearest"]) -> Labels:
    """Label rows from their squared distances: by Eq. 12 with the counts held, or by plain nearest centre."""
    if how == "frequency":
        d = d * (counts / counts.sum())
    elif how != "nearest":
        raise ValueError(f"how must be 'frequency' or 'nearest', not {how!r}")
    winners: Labels = np.argmin(d, axis=1).astype(np.int64)
    return winners


def labels(Y: Array, r: Array, centres: Array, counts: Array, how: Literal["frequency", "nearest"]) -> Labels:
    """Labels of all rows with the centres and counts held; "frequency" is the paper's."""
    return winners_of(squared_distances(Y, r, centres), counts, how)


def kcl_labels(K: Array, A: Array, counts: Array, how: Literal["frequency", "nearest"]) -> Labels:
    """As `labels`, for the coefficient columns of `kcl`."""
    return winners_of(kernel_distances(K, K, np.diag(K), A)[0], counts, how)
