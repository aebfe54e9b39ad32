"""How many clusters there are: the eigengap of a neighbour graph of a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_ROWS", "eigengap"]

MAX_ROWS, _MAX_CLUSTERS = 1000, 64


def eigengap(sample: NDArray[Any], n_neighbors: int = 10) -> tuple[int, dict[str, Any]]:
    """Return the number of clusters by the eigengap of a degree-normalised neighbour graph of a sample.

    Parameters
    ----------
    sample : ndarray of shape (rows, d)
        A uniform sample; at most the first 1,000 rows are used.

    Returns
    -------
    n_clusters : int
    evidence : dict
        ``eigenvalues`` (descending), ``gaps``, and the ``scores`` of 1, 2, ... clusters.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> blobs = np.concatenate([rng.normal(10 * k, 1, (40, 2)) for k in range(4)])
    >>> eigengap(blobs)[0]
    4
    """
    import scipy.linalg

    X = sample[:MAX_ROWS].astype(np.float64)
    X = np.unique(X, axis=0)
    n = len(X)
    if n < 4:
        return 1, {"eigenvalues": np.ones(n), "gaps": np.zeros(max(0, n - 1)), "scores": np.zeros(max(0, n - 1))}
    X = X - X.mean(axis=0)
    norms = np.einsum("ij,ij->i", X, X)
    D = np.maximum(norms[:, None] + norms - 2 * X @ X.T, 0)
    np.fill_diagonal(D, np.inf)
    k = min(n_neighbors, n - 1)
    nearest = np.argpartition(D, k - 1, axis=1)[:, :k]
    local = np.take_along_axis(D, nearest, axis=1).max(axis=1)  # squared distance to the k-th neighbour
    W = np.zeros((n, n))
    rows = np.arange(n)[:, None]
    width = np.sqrt(local[:, None] * local[nearest])
    W[rows, nearest] = np.exp(-D[rows, nearest] / np.where(width > 0, width, 1))
    W = np.maximum(W, W.T)
    degree = 1 / np.sqrt(np.maximum(W.sum(axis=1), 1e-300))
    most = min(_MAX_CLUSTERS, n - 1)
    values = scipy.linalg.eigh(degree[:, None] * W * degree, eigvals_only=True, subset_by_index=[n - most - 1, n - 1])[
        ::-1
    ]
    gaps = values[:-1] - values[1:]
    # A gap counts by its size and by how much of the way down from 1 it is: the first finds clusters that touch, the
    # second those that do not (their eigenvalues are all 1). One cluster is never the answer of a gap.
    scores = gaps**2 / np.maximum(1 - values[1:], 1e-3)
    scores[0] = 0
    return int(np.argmax(scores)) + 1, {"eigenvalues": values, "gaps": gaps, "scores": scores}
