"""How many clusters there are: the spectrum of a neighbour graph of a sample proposes, the graph's cuts decide.

A number k is a *clear* answer when two things hold, each with a natural bound:

1. **Separation.** With the eigenvalues 1 = v_1 >= v_2 >= ... of the degree-normalised graph, the slowness 1 - v jumps
   after the k-th by more than it does inside one connected body. Vibrations of a line or a ring, the bodies with the
   greatest jumps, have slownesses 0, 1, 4, 9, ... or 0, 1, 1, 4, 4, ...: no ratio above 4, nor above
   ((k + 1) / (k - 1))^2. The ratio is asked to exceed the square of that, or 9.
2. **Valleys.** To cut any of the k clusters off from any other costs less than to cut it in two (or somewhat more,
   where the separation is strong). A body that was cut through the middle, as spectra love to do with long ones,
   fails here: its halves cost two to ten times as much.

The largest clear k is taken. A normalised spectrum looks at large bodies before small ones, so every cluster found is
then examined by itself in the same way, until nothing more comes apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_CLUSTERS", "MAX_ROWS", "count_clusters", "counting_bytes"]

MAX_ROWS, MAX_CLUSTERS = 2000, 64
_NEIGHBOURS, _LEAST_NEIGHBOURS = 15, 5
_CANDIDATES = 6
_TILE = 256
_FLOOR = 1e-6  # a slowness below is none: the clusters are apart
_ENOUGH = 9.0  # a ratio that no single body comes near
_STRONG = 2.5  # a separation that lets one valley be blurred
_FEW = 12  # distinct rows that are too few for a graph


def counting_bytes(rows: int, n_features: int) -> int:
    """Return the most that `count_clusters` holds for a sample."""
    n = min(rows, MAX_ROWS)
    # The normalised graph of one piece, dense, with the eigenvectors' workspace; the rows with copies for sorting
    # them, for centring and for a tile; the sparse graph in a few forms; the distances of a tile.
    return 8 * n * (2 * n + 4 * MAX_CLUSTERS + 6 * n_features + 20 * _NEIGHBOURS + 3 * _TILE)


@dataclass(frozen=True)
class _Answer:
    """What the graph of the sample, or of a piece of it, says."""

    values: NDArray[np.float64]  # eigenvalues, descending
    ratios: NDArray[np.float64]  # (1 - v_{k+1}) / (1 - v_k) for k = 1, 2, ...
    expected: NDArray[np.float64]  # the greatest ratio of a single body
    candidates: NDArray[np.int64]
    separations: NDArray[np.float64]
    valleys: NDArray[np.float64]
    scores: NDArray[np.float64]
    labels: list[NDArray[np.intp]]

    @property
    def order(self) -> NDArray[np.intp]:
        """Places of the candidates, strongest first; of equals, which all clear ones are, the larger number."""
        return np.lexsort((-self.candidates, -self.scores))

    @property
    def clear(self) -> bool:
        """Whether the strongest candidate is more than a guess."""
        return bool((self.scores >= 1).any())


def count_clusters(sample: NDArray[Any]) -> tuple[int, dict[str, Any]]:
    """Return the number of clusters in a sample, and the evidence for it.

    Parameters
    ----------
    sample : ndarray of shape (rows, d)
        A uniform sample; the first 2,000 rows are used. Distances are plain: a feature counts by its scale.

    Returns
    -------
    n_clusters : int
        At most 64.
    evidence : dict of numbers and arrays
        ``eigenvalues`` (descending), ``gaps`` between them, ``ratios`` and ``expected_ratios`` (entry k - 1 belongs to
        k clusters); ``candidates`` with their ``separations`` (logarithm of the ratio over that of the ratio asked
        for), ``valleys`` (the cost of cutting off over that of cutting in two, the worst of all clusters) and
        ``scores`` (up to 1, which is clear; less for a separation below 1 or a valley above 1); ``first``, the
        candidate chosen, ``parts``, into how many each of its clusters came apart, ``taken``, their sum; whether that
        is ``clear``; the other candidates as ``runners_up``, strongest first; ``rows`` and ``n_neighbors`` of the
        graph.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> blobs = np.concatenate([rng.normal(10 * k, 1, (40, 2)) for k in range(4)])
    >>> n_clusters, evidence = count_clusters(blobs)
    >>> n_clusters, evidence["clear"]
    (4, True)
    """
    rows, copies = np.unique(sample[:MAX_ROWS].astype(np.float64), axis=0, return_counts=True)
    if len(rows) < _FEW:
        return _count_few(copies)
    n_neighbors = int(np.clip(len(rows) // 10, _LEAST_NEIGHBOURS, _NEIGHBOURS))
    graph = _neighbour_graph(rows, copies, n_neighbors)
    least = n_neighbors  # fewer rows than that are told apart by chance, or are outliers
    answer = _examine(graph, least, guess=True)
    assert answer is not None  # there are rows for two clusters
    best, *others = answer.order
    first = int(answer.candidates[best])
    clear, parts = answer.clear, np.ones(first, dtype=np.int64)
    if clear:
        for a in range(first):
            parts[a] = _count_parts(graph, np.flatnonzero(answer.labels[best] == a), least)
    if parts.sum() > MAX_CLUSTERS:  # more than can be told apart here
        clear, parts = False, np.ones(first, dtype=np.int64)
    taken = int(parts.sum())
    return taken, {
        "taken": taken,
        "clear": clear,
        "runners_up": answer.candidates[others],
        "first": first,
        "parts": parts,
        "eigenvalues": answer.values,
        "gaps": answer.values[:-1] - answer.values[1:],
        "ratios": answer.ratios,
        "expected_ratios": answer.expected,
        "candidates": answer.candidates,
        "separations": answer.separations,
        "valleys": answer.valleys,
        "scores": answer.scores,
        "rows": len(rows),
        "n_neighbors": n_neighbors,
    }


def _count_few(copies: NDArray[np.int64]) -> tuple[int, dict[str, Any]]:
    """Answer for a handful of distinct rows: each is a cluster if it comes again and again, else they are one."""
    n = len(copies)
    repeated = bool(copies.min() >= _NEIGHBOURS)
    taken = n if repeated else 1
    nothing = np.zeros(0)
    arrays = ("eigenvalues", "gaps", "ratios", "expected_ratios", "separations", "valleys", "scores")
    return taken, {
        "taken": taken,
        "clear": n == 1 or repeated,
        "runners_up": np.arange(2, n + 1) if taken == 1 else np.zeros(0, dtype=np.int64),
        "first": taken,
        "parts": np.ones(taken, dtype=np.int64),
        **dict.fromkeys(arrays, nothing),
        "candidates": np.zeros(0, dtype=np.int64),
        "rows": n,
        "n_neighbors": 0,
    }


def _count_parts(graph: Any, members: NDArray[np.intp], least: int) -> int:
    """Return into how many a cluster comes apart when it is looked at alone."""
    piece = graph[members][:, members]
    answer = _examine(piece, least, guess=False)
    if answer is None or not answer.clear:
        return 1
    labels = answer.labels[answer.order[0]]
    return sum(_count_parts(piece, np.flatnonzero(labels == a), least) for a in range(labels.max() + 1))


def _neighbour_graph(rows: NDArray[np.float64], copies: NDArray[np.int64], n_neighbors: int) -> Any:
    """Return the symmetric neighbour graph of distinct rows, each as wide as its neighbourhood (self-tuning weights).

    A row that stands for several counts as several: data on a coarse grid keep their density.
    """
    from scipy.sparse import csr_array

    n = len(rows)
    X = rows - np.median(rows, axis=0)  # an outlier far away must not take the digits of the others
    X /= max(float(np.abs(X).max()), 1e-300)
    norms = np.einsum("ij,ij->i", X, X)
    nearest = np.empty((n, n_neighbors), dtype=np.int64)
    squares = np.empty((n, n_neighbors))
    for start in range(0, n, _TILE):
        tile = slice(start, min(n, start + _TILE))
        D = np.maximum(norms[tile, None] + norms - 2 * X[tile] @ X.T, 0)
        D[np.arange(len(D)), np.arange(tile.start, tile.stop)] = np.inf
        nearest[tile] = np.argpartition(D, n_neighbors - 1, axis=1)[:, :n_neighbors]
        squares[tile] = np.take_along_axis(D, nearest[tile], axis=1)
    farthest = squares.max(axis=1)
    width = np.sqrt(farthest[:, None] * farthest[nearest])
    weights = np.exp(-squares / np.where(width > 0, width, 1)) * copies[:, None] * copies[nearest]
    numbers = np.repeat(np.arange(n), n_neighbors)
    W = csr_array((weights.ravel(), (numbers, nearest.ravel())), shape=(n, n))
    return W.maximum(W.T).tocsr()


def _examine(graph: Any, least: int, guess: bool) -> _Answer | None:
    """Return what the spectrum and the cuts of a graph say about 2, 3, ... clusters; None if it is too small.

    Without `guess`, candidates that cannot be clear are left out.
    """
    most = min(MAX_CLUSTERS, graph.shape[0] // least, graph.shape[0] - 2)
    if most < 2:
        return None
    values, vectors = _spectrum(graph, most + 1)
    slowness = np.maximum(1 - values, _FLOOR)
    ratios = slowness[1:] / slowness[:-1]
    k = np.arange(2, most + 1)
    expected = np.concatenate([[np.inf], np.minimum(((k + 1) / (k - 1)) ** 2, 4)])  # of 1 cluster all are expected
    needed = np.minimum(expected**2, _ENOUGH)
    separations = np.concatenate([[0.0], np.log(ratios[1:]) / np.log(needed[1:])])
    candidates = np.argsort(-separations[1:], kind="stable")[:_CANDIDATES] + 2
    if not guess:
        candidates = candidates[separations[candidates - 1] >= 1]
    labels = [_assign(vectors[:, :k]) for k in candidates]
    valleys = np.array([_valley(graph, found, k, least) for found, k in zip(labels, candidates)])
    separations = separations[candidates - 1]
    with np.errstate(divide="ignore"):
        # The worst of many small clusters is a noisy measure: a strong separation makes up for it.
        scores = np.minimum(separations, 1) * np.minimum(np.maximum(1, separations / _STRONG) / valleys, 1)
    return _Answer(values, ratios, expected, candidates, separations, valleys, scores, labels)


def _spectrum(graph: Any, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest eigenvalues of D^-1/2 W D^-1/2, descending, and D^-1/2 times their eigenvectors."""
    from scipy.linalg import eigh

    n = graph.shape[0]
    scale = 1 / np.sqrt(np.maximum(np.asarray(graph.sum(axis=1)).ravel(), 1e-300))
    dense = graph.toarray()
    dense *= scale
    dense *= scale[:, None]
    # symmetric: its transpose is the same matrix in the order that LAPACK can overwrite
    values, vectors = eigh(dense.T, subset_by_index=[n - count, n - 1], overwrite_a=True, check_finite=False)
    return values[::-1], vectors[:, ::-1] * scale[:, None]


def _assign(vectors: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return labels from k eigenvectors by pivoted QR (Damle, Minden and Ying 2019, doi:10.1093/imaiai/iay008).

    k rows that are as different as can be are found, and the vectors turned so that each of these has its own axis.
    There is nothing random in it, and no local optimum.
    """
    from scipy.linalg import qr, svd

    k = vectors.shape[1]
    _, pivots = qr(vectors.T, mode="r", pivoting=True)
    left, _, right = svd(vectors[pivots[:k]].T)
    return np.abs(vectors @ (left @ right)).argmax(axis=1)


def _valley(graph: Any, labels: NDArray[np.intp], k: int, least: int) -> float:
    """Return the cost of cutting a cluster off from its closest neighbour over that of halving it; the worst of all."""
    from scipy.sparse import csr_array

    n = len(labels)
    if np.bincount(labels, minlength=k).min() < least:
        return np.inf
    member = csr_array((np.ones(n), (np.arange(n), labels)), shape=(n, k))
    between = (member.T @ graph @ member).toarray()
    np.fill_diagonal(between, 0)
    worst = 0.0
    for a in np.flatnonzero(between.max(axis=1) > 0):
        members = np.flatnonzero(labels == a)
        halving = _halving_cost(graph[members][:, members])
        worst = max(worst, between[a].max() / halving if halving > 0 else np.inf)
    return worst


def _halving_cost(graph: Any) -> float:
    """Return the least weight cut in parting a graph along its slowest direction, a quarter or more on each side."""
    _, vectors = _spectrum(graph, 2)
    n = graph.shape[0]
    order = np.argsort(vectors[:, 1], kind="stable")
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    edges = graph.tocoo()
    ends = place[edges.row], place[edges.col]
    # an edge is cut by every threshold from its first end up to its last; both directions are stored
    begins = np.bincount(np.minimum(*ends), weights=edges.data, minlength=n)
    stops = np.bincount(np.maximum(*ends), weights=edges.data, minlength=n)
    cuts = np.cumsum(begins - stops) / 2
    volume = np.cumsum(np.asarray(graph.sum(axis=1)).ravel()[order])
    middle = (volume >= volume[-1] / 4) & (volume <= 3 * volume[-1] / 4)
    return float(cuts[middle].min() if middle.any() else cuts[n // 2 - 1])
