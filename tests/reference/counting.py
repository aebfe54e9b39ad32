"""The evidence about the number of clusters, written out: a neighbour graph, its spectrum, and what cuts of it cost."""

import numpy as np

from .algebra import Array, Labels


def neighbour_graph(X: Array, n_neighbors: int) -> Array:
    """Dense weights exp(-d(i,j)^2 / (s_i s_j)), s the distance to the last neighbour, for neighbours either way."""
    n = len(X)
    distance = np.array([[np.linalg.norm(X[i] - X[j]) for j in range(n)] for i in range(n)])
    neighbours = [sorted((j for j in range(n) if j != i), key=lambda j, i=i: distance[i, j]) for i in range(n)]
    neighbours = [near[:n_neighbors] for near in neighbours]
    width = [distance[i, neighbours[i][-1]] for i in range(n)]
    W = np.zeros((n, n))
    for i in range(n):
        for j in neighbours[i]:
            W[i, j] = W[j, i] = np.exp(-(distance[i, j] ** 2) / (width[i] * width[j]))
    return W


def spectrum(W: Array) -> Array:
    """Eigenvalues of the random walk D^-1 W, descending: those of D^-1/2 W D^-1/2."""
    walk = W / W.sum(axis=1)[:, None]
    return np.sort(np.linalg.eigvals(walk).real)[::-1]


def halving_cost(W: Array) -> float:
    """The cheapest of all cuts along the second eigenvector that leave a quarter of the volume on each side."""
    values, vectors = np.linalg.eig(W / W.sum(axis=1)[:, None])
    second = vectors[:, np.argsort(values.real)[-2]].real
    order = np.argsort(second)
    costs = []
    for size in range(1, len(W)):
        one, other = order[:size], order[size:]
        share = W[one].sum() / W.sum()
        if 0.25 <= share <= 0.75:
            costs.append(W[np.ix_(one, other)].sum())
    return min(costs)


def valley(W: Array, labels: Labels) -> float:
    """The worst cluster's cost of being cut off from its closest neighbour over the cost of halving it."""
    worst = 0.0
    for a in np.unique(labels):
        inside = labels == a
        costs = [W[np.ix_(inside, labels == b)].sum() for b in np.unique(labels) if b != a]
        worst = max(worst, max(costs) / halving_cost(W[np.ix_(inside, inside)]))
    return worst
