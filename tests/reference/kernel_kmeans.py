"""Kernel k-means, exact and in the landmarks' span (AKCL paper section 2.2, after Chitta et al. 2011)."""

from typing import NamedTuple

import numpy as np

from .algebra import Array, Labels, kernel_distances, squared_distances


class KMeansResult(NamedTuple):
    """Labels with the final centres, centres (or coefficients), objective of every pass, number of passes."""

    labels: Labels
    centres: Array
    objective: Array
    n_iter: int


def initial_centres_from_labels(Y: Array, labels: Labels, c: int) -> Array:
    """Mean coordinates of every label's rows (AKCL paper Eq. 15); every label needs a row."""
    centres = np.zeros((c, Y.shape[1]))
    for k in range(c):
        if not np.any(labels == k):
            raise ValueError(f"label {k} has no row")
        centres[k] = Y[labels == k].mean(axis=0)
    return centres


def initial_coefficients_from_labels(labels: Labels, c: int) -> Array:
    """Column k is 1/|pi_k| on label k's rows: U-bar of AKCL paper Eq. 9; every label needs a row."""
    A = np.zeros((len(labels), c))
    for k in range(c):
        if not np.any(labels == k):
            raise ValueError(f"label {k} has no row")
        A[labels == k, k] = 1.0 / np.sum(labels == k)
    return A


def approx_kernel_kmeans(Y: Array, r: Array, centres0: Array, max_iter: int, tol: float = 0.0) -> KMeansResult:
    """Lloyd's iteration in explicit coordinates.

    Parameters
    ----------
    Y, r : arrays (n, q) and (n,)
        Coordinates and residuals (`algebra.coordinates`).
    centres0 : array (c, q)
        First centres.
    max_iter : int
        Largest number of passes.
    tol : float
        Stop when the squared moves of the centres sum to no more.

    Returns
    -------
    KMeansResult
        `objective[t]` is Eq. 6 with the centres at the start of pass t; `n_iter` is its length.
    """
    centres = centres0.astype(np.float64).copy()
    objective: list[float] = []
    previous: Labels | None = None
    for _ in range(max_iter):
        d = squared_distances(Y, r, centres)  # AKCL paper Eq. 10
        labels = np.argmin(d, axis=1)  # ties to the lowest index
        objective.append(float(d.min(axis=1).sum()))  # Eq. 6
        old = centres.copy()
        for k in range(len(centres)):
            if np.any(labels == k):  # a cluster with no rows keeps its centre
                centres[k] = Y[labels == k].mean(axis=0)  # Eqs. 8-9, which are Eq. 15
        unchanged = previous is not None and np.array_equal(labels, previous)
        previous = labels
        if unchanged or np.sum((centres - old) ** 2) <= tol:
            break
    final = np.argmin(squared_distances(Y, r, centres), axis=1).astype(np.int64)
    return KMeansResult(final, centres, np.array(objective), len(objective))


def kernel_kmeans(K: Array, labels0: Labels, max_iter: int) -> KMeansResult:
    """Lloyd's iteration on the full kernel matrix, from first labels.

    Parameters
    ----------
    K : array (n, n)
        Kernel matrix.
    labels0 : array (n,)
        First labels 0..c-1, every one with a row.
    max_iter : int
        Largest number of passes.

    Returns
    -------
    KMeansResult
        `centres` holds coefficient columns over all rows (n, c).
    """
    kappa = np.diag(K)
    A = initial_coefficients_from_labels(labels0, int(labels0.max()) + 1)
    objective: list[float] = []
    previous: Labels | None = None
    for _ in range(max_iter):
        d, _norms = kernel_distances(K, K, kappa, A)
        labels = np.argmin(d, axis=1)
        objective.append(float(d.min(axis=1).sum()))  # Eq. 6 without the confinement to H_b
        old = A.copy()
        for k in range(A.shape[1]):
            if np.any(labels == k):  # a cluster with no rows keeps its centre
                A[:, k] = (labels == k) / np.sum(labels == k)
        unchanged = previous is not None and np.array_equal(labels, previous)
        previous = labels
        if unchanged or np.array_equal(A, old):
            break
    final = np.argmin(kernel_distances(K, K, kappa, A)[0], axis=1).astype(np.int64)
    return KMeansResult(final, A, np.array(objective), len(objective))
