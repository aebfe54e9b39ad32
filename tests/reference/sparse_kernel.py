"""Sparse kernel k-means (Chitta, Jain and Jin 2015), one row after another, every eigenpair from a dense matrix.

"The paper" is "Sparse kernel clustering of massive high-dimensional data sets with large number of clusters". The
uniform numbers that decide on entry are given, one for each row.
"""

from typing import NamedTuple

import numpy as np

from .algebra import Array, Labels


class GrownBuffer(NamedTuple):
    """The buffer: its rows by number, their sparse kernel, its leading eigenpairs, how many rows have entered."""

    numbers: list[int]
    K: Array
    values: Array
    vectors: Array
    n_entered: int


def nearest(similarity: Array, kappa: Array, p: int) -> list[int]:
    """The p columns nearest in feature space, the first of equals first: least kappa_j - 2 k_j; at the origin none."""
    away = [kappa[j] - 2 * similarity[j] if kappa[j] else np.inf for j in range(len(kappa))]
    return sorted(range(len(kappa)), key=lambda j: (away[j], j))[:p]


def neighbour_kernel_of(K: Array, p: int, neighbors: str = "mutual") -> Array:
    """Eq. 4: the kernel where each row is among the other's p nearest (a row is its own nearest), or either is."""
    enough = {"mutual": 2, "either": 1}[neighbors]
    m = len(K)
    near = [set(nearest(K[i], np.diag(K), p)) | {i} for i in range(m)]
    sparse = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            if (i in near[j]) + (j in near[i]) >= enough:
                sparse[i, j] = K[i, j]
    return sparse


def leading(K: Array, c: int) -> tuple[Array, Array]:
    """The c largest eigenvalues, those that are positive, and their eigenvectors."""
    values, vectors = np.linalg.eigh(K)
    keep = [j for j in np.argsort(-values) if values[j] > 1e-10 * values.max()][:c]
    return values[keep], vectors[:, keep]


def projection(similarity: Array, kappa: Array, p: int, values: Array, vectors: Array) -> Array:
    """phi^T V Sigma^-1/2, phi the kernel with the p nearest rows of the buffer, zero elsewhere."""
    phi = np.zeros(len(kappa))
    near = nearest(similarity, kappa, p)
    phi[near] = similarity[near]
    return phi @ vectors / np.sqrt(values)


def grow(
    K: Array,
    order: Labels,
    m: int,
    p: int,
    c: int,
    most: int,
    batch: int,
    every: int,
    draws: Array,
    neighbors: str = "mutual",
) -> GrownBuffer:
    """Algorithm 1 without its clusterings, with the eigenpairs renewed after every `every` entries.

    Parameters
    ----------
    K : array (n, n)
        Kernel between all rows.
    order : array (n,)
        The order in which rows come; the first m are the buffer. Batches end at multiples of `batch` in it.
    m, p, c, most, batch, every : int
        First rows, neighbours, eigenvectors, MAX, B, T.
    draws : array (n,)
        A uniform number for each row, by row number.
    neighbors : {"mutual", "either"}
        Which of the first rows see one another.
    """
    S = [int(i) for i in order[:m]]
    sparse = neighbour_kernel_of(K[np.ix_(S, S)], p, neighbors)
    values, vectors = leading(sparse, c)
    waiting: list[int] = []
    n_entered = 0

    def let_in() -> None:
        nonlocal sparse, values, vectors, n_entered
        for x in waiting:  # Eq. 5: a row and a column more
            near = nearest(K[x, S], np.diag(K)[S], p)
            larger = np.zeros((len(S) + 1, len(S) + 1))
            larger[:-1, :-1] = sparse
            larger[-1, near] = larger[near, -1] = K[x, [S[j] for j in near]]
            larger[-1, -1] = K[x, x]
            sparse = larger
            S.append(x)
        n_entered += len(waiting)
        waiting.clear()
        values, vectors = leading(sparse, c)
        if len(S) > most:  # line 13: the rows of least leverage go
            leverage = (vectors**2).sum(axis=1)
            stay = sorted(np.argsort(-leverage, kind="stable")[:most])
            sparse = sparse[np.ix_(stay, stay)]
            S[:] = [S[j] for j in stay]
            values, vectors = leading(sparse, c)

    for position in range(m, len(order)):
        x = int(order[position])
        row = projection(K[x, S], np.diag(K)[S], p, values, vectors) / np.sqrt(values)  # phi^T V Sigma^-1
        if draws[x] < (row**2).sum() / c:  # Eq. 3
            waiting.append(x)
        if (position + 1) % batch == 0 and len(waiting) >= every:
            let_in()
    if waiting:
        let_in()
    return GrownBuffer(S, sparse, values, vectors, n_entered)
