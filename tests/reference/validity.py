"""Fuzzy validity indices from their definitions, weighted, in feature space.

With unit weights: the partition coefficient and entropy of Bezdek (1981, doi:10.1007/978-1-4757-0450-1); the
coefficient rescaled to [0, 1] by Dave (1996, doi:10.1016/0167-8655(96)00026-8) and the entropy divided by its largest
value; the index of Xie and Beni (1991, doi:10.1109/34.85677); and that of Fukuyama and Sugeno (1989, Proc. 5th Fuzzy
Systems Symposium, 247-250). Weight w is w rows. Distances are squared.
"""

import math

from .algebra import Array


def partition_coefficient(U: Array, w: Array) -> float:
    """Mean over rows of `sum_j u_ij^2`: from 1/c (all equal) to 1 (crisp)."""
    n, c = U.shape
    return sum(w[i] * U[i, j] ** 2 for i in range(n) for j in range(c)) / sum(w)


def partition_coefficient_normalised(U: Array, w: Array) -> float:
    """`1 - c/(c-1) (1 - PC)`: from 0 (all equal) to 1 (crisp)."""
    c = U.shape[1]
    return 1.0 - c / (c - 1) * (1.0 - partition_coefficient(U, w))


def partition_entropy(U: Array, w: Array) -> float:
    """Mean over rows of `-sum_j u_ij log u_ij`, natural logarithm, `0 log 0 = 0`: from 0 (crisp) to log c."""
    n, c = U.shape
    total = 0.0
    for i in range(n):
        for j in range(c):
            if U[i, j] > 0:
                total -= w[i] * U[i, j] * math.log(U[i, j])
    return total / sum(w)


def partition_entropy_normalised(U: Array, w: Array) -> float:
    """The entropy divided by its largest value, log c."""
    return partition_entropy(U, w) / math.log(U.shape[1])


def objective(U: Array, d: Array, w: Array, m: float) -> float:
    """J: `sum_ij w_i u_ij^m d_ij`."""
    n, c = U.shape
    return sum(w[i] * U[i, j] ** m * d[i, j] for i in range(n) for j in range(c))


def xie_beni(U: Array, d: Array, between: Array, w: Array, m: float) -> float:
    """J over n times the least squared distance between two centres.

    Xie and Beni have u^2, for m = 2; u^m at other m is from Pal and Bezdek (1995, doi:10.1109/91.413225).

    Parameters
    ----------
    U, d : arrays (n, c)
        Memberships and squared distances of rows from centres.
    between : array (c, c)
        Squared distances between centres.
    w : array (n,)
    m : float
    """
    c = len(between)
    least = min(between[j, k] for j in range(c) for k in range(c) if j != k)
    return objective(U, d, w, m) / (sum(w) * least)


def fukuyama_sugeno(U: Array, d: Array, to_mean: Array, w: Array, m: float) -> float:
    """`sum_ij w_i u_ij^m (d_ij - ||v_j - mean||^2)`, smaller is better.

    Parameters
    ----------
    to_mean : array (c,)
        Squared distances of centres from the mean of all rows.
    """
    n, c = U.shape
    return sum(w[i] * U[i, j] ** m * (d[i, j] - to_mean[j]) for i in range(n) for j in range(c))


def between_explicit(V: Array) -> Array:
    """Squared distances between centres in explicit coordinates (c, c)."""
    return ((V[:, None, :] - V[None, :, :]) ** 2).sum(axis=2)


def to_mean_explicit(Y: Array, w: Array, V: Array) -> Array:
    """Squared distances of centres from the weighted mean of all rows, in explicit coordinates (c,)."""
    mean = (w[:, None] * Y).sum(axis=0) / w.sum()
    return ((V - mean) ** 2).sum(axis=1)


def between_kernel(K: Array, A: Array) -> Array:
    """Squared distances between centres that are combinations of objects: `(A_j - A_k)^T K (A_j - A_k)`."""
    c = A.shape[1]
    out = K[:c, :c] * 0.0
    for j in range(c):
        for k in range(c):
            step = A[:, j] - A[:, k]
            out[j, k] = step @ K @ step
    return out


def to_mean_kernel(K: Array, w: Array, A: Array) -> Array:
    """Squared distances of centres from the weighted mean of all objects, by the kernel (c,)."""
    out = A[0] * 0.0
    for j in range(A.shape[1]):
        step = A[:, j] - w / w.sum()
        out[j] = step @ K @ step
    return out


def all_indices(U: Array, d: Array, between: Array, to_mean: Array, w: Array, m: float) -> dict[str, float]:
    """Return every index by name."""
    return {
        "partition_coefficient": partition_coefficient(U, w),
        "partition_coefficient_normalised": partition_coefficient_normalised(U, w),
        "partition_entropy": partition_entropy(U, w),
        "partition_entropy_normalised": partition_entropy_normalised(U, w),
        "xie_beni": xie_beni(U, d, between, w, m),
        "fukuyama_sugeno": fukuyama_sugeno(U, d, to_mean, w, m),
        "objective": objective(U, d, w, m),
    }
