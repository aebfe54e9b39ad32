"""Kernels, explicit landmark coordinates and squared distances: what every twin stands on.

Notation of the twins: n rows, m landmarks, c clusters, q kept eigen-directions; "AKCL paper" is Wu, Zheng and
Lai, "Approximate kernel competitive learning"; "KFCM paper" is Havens, Bezdek and Palaniswami, "Incremental
kernel fuzzy c-means".
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def rbf(X: Array, Y: Array, gamma: float) -> Array:
    """Gaussian kernel `exp(-gamma ||x - y||^2)` of every row of X with every row of Y."""
    K = np.zeros((len(X), len(Y)))
    for i in range(len(X)):
        for j in range(len(Y)):
            # AKCL paper section 5.2.1, gamma = 1/(2 sigma^2); KFCM paper section 1.4, gamma = its sigma.
            # Misprint: KFCM paper section 3 has exp(sigma ||.||^2) for the 2D50 data; the sign is minus.
            K[i, j] = np.exp(-gamma * np.sum((X[i] - Y[j]) ** 2))
    return K


def polynomial(X: Array, Y: Array, degree: int, gamma: float, coef0: float) -> Array:
    """Polynomial kernel `(gamma x.y + coef0)^degree`; the papers have gamma = coef0 = 1, degree 5."""
    K = np.zeros((len(X), len(Y)))
    for i in range(len(X)):
        for j in range(len(Y)):
            K[i, j] = (gamma * np.sum(X[i] * Y[j]) + coef0) ** degree  # AKCL paper section 5.2.1
    return K


def coordinates(K_B: Array, K_hat: Array, kappa: Array, rcond: float) -> tuple[Array, Array]:
    """Coordinates of every row's projection on the landmarks' span, and the squared length left over.

    Parameters
    ----------
    K_B : array (n, m)
        Kernel between rows and landmarks.
    K_hat : array (m, m)
        Kernel between landmarks.
    kappa : array (n,)
        Kernel of every row with itself.
    rcond : float
        Eigenvalues of `K_hat` not greater than `rcond` times the largest are dropped.

    Returns
    -------
    Y : array (n, q)
        `y_i = W^T k_i`, `W = V Lambda^(-1/2)`.
    r : array (n,)
        Residual `kappa_i - ||y_i||^2`, not below zero.
    """
    values, vectors = np.linalg.eigh(K_hat)
    keep = values > rcond * values.max()
    W = vectors[:, keep] / np.sqrt(values[keep])
    Y = np.zeros((len(K_B), int(keep.sum())))
    r = np.zeros(len(K_B))
    for i in range(len(K_B)):
        # AKCL paper Eq. 11, p_i = Phi_hat K_hat^-1 k_i, in the orthonormal basis Phi_hat W of the span.
        Y[i] = W.T @ K_B[i]
        r[i] = max(kappa[i] - Y[i] @ Y[i], 0.0)  # rho_i = ||p_i||^2 of Definition 2; Pythagoras
    return Y, r


def squared_distances(Y: Array, r: Array, centres: Array) -> Array:
    """`||phi(x_i) - m_k||^2 = ||y_i - M_k||^2 + r_i` (n, c): phi(x_i) - p_i is orthogonal to the span."""
    d = np.zeros((len(Y), len(centres)))
    for k in range(len(centres)):
        d[:, k] = np.sum((Y - centres[k]) ** 2, axis=1) + r
    return d


def kernel_distances(K_rows: Array, K: Array, kappa: Array, A: Array) -> tuple[Array, Array]:
    """Squared distances of rows from centres that are given as combinations of objects.

    Parameters
    ----------
    K_rows : array (n, p)
        Kernel between rows and the objects.
    K : array (p, p)
        Kernel between the objects.
    kappa : array (n,)
        Kernel of every row with itself.
    A : array (p, c)
        Column j holds the coefficients of centre j.

    Returns
    -------
    d : array (n, c)
    norms : array (c,)
        `||v_j||^2`.
    """
    c = A.shape[1]
    d = np.zeros((len(K_rows), c))
    norms = np.zeros(c)
    for j in range(c):
        norms[j] = A[:, j] @ K @ A[:, j]
        # AKCL paper Eq. 10; KFCM paper Eq. 11, last line. Misprint: the first lines of KFCM Eqs. 11 and 14
        # divide by sum(u^2m) and sum(w^2 u^2m), which are (sum u^m)^2 and (sum w u^m)^2.
        d[:, j] = kappa - 2.0 * (K_rows @ A[:, j]) + norms[j]
    return d, norms


def harden(U: Array) -> Labels:
    """Cluster of largest membership of every row (KFCM paper section 3.1); ties to the lowest index."""
    labels: Labels = np.argmax(U, axis=1).astype(np.int64)
    return labels
