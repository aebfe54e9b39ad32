"""Kernel k-means on the whole kernel matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExactRun", "ExactStep", "exact_kernel_k_means"]

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class ExactRun:
    """Coefficients (c, p) of the centres, their squared norms (c,), the objective before each step."""

    A: Floats
    norms: Floats
    objective: tuple[float, ...]
    converged: bool


@dataclass(frozen=True, eq=False)
class ExactStep:
    """A run between two steps: coefficients, the labels that they come from, how often a cluster started again."""

    A: Floats
    labels: NDArray[np.intp]
    reseeds: int
    objective: tuple[float, ...]


def exact_kernel_k_means(
    K: Floats,
    A: Floats,
    n_rows: int,
    max_iter: int,
    begin: ExactStep | None = None,
    after: Callable[[ExactStep], None] | None = None,
) -> ExactRun:
    """Alternate nearest centres and means until no row changes sides.

    The objects are the rows, perhaps followed by others that centres start from and that take no part themselves. A
    cluster that loses all rows starts again at the row farthest from its centre, at most once a cluster, so that it
    ends; after that it keeps its centre.

    Parameters
    ----------
    K : ndarray of shape (p, p)
    A : ndarray of shape (c, p)
        The first centres.
    n_rows : int
        How many of the objects are rows to be clustered: the first.
    max_iter : int
    begin : ExactStep, optional
        Where a run was stopped.
    after : callable, optional
        Told of every step.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([0.0, 1.0, 8.0, 9.0])
    >>> run = exact_kernel_k_means(np.outer(x, x), np.eye(2, 4), 4, 10)
    >>> (run.A @ x).tolist(), run.converged
    ([0.5, 8.5], True)
    """
    c, kappa = len(A), np.diagonal(K)[:n_rows]
    labels, reseeds = None, 0
    objective: list[float] = []
    if begin is not None:
        A, labels, reseeds, objective = begin.A, begin.labels, begin.reseeds, list(begin.objective)
    while True:
        G = A @ K  # (c, p)
        norms = np.einsum("cp,cp->c", G, A)
        D = np.maximum(kappa[:, None] - 2 * G.T[:n_rows] + norms, 0)
        new_labels = D.argmin(axis=1)
        nearest = D[np.arange(n_rows), new_labels]
        same = labels is not None and np.array_equal(labels, new_labels)
        if same or len(objective) == max_iter:
            return ExactRun(A, norms, tuple(objective), same)
        objective.append(float(nearest.sum()))
        labels = new_labels
        counts = np.bincount(labels, minlength=c)
        A = np.where(counts[:, None] > 0, 0.0, A)
        A[labels, np.arange(n_rows)] = 1 / counts[labels]
        for k in np.flatnonzero(counts == 0):
            worst = int(nearest.argmax())
            if reseeds == c or nearest[worst] <= 0:
                break
            A[k], nearest[worst], reseeds = 0, 0, reseeds + 1
            A[k, worst] = 1
        if after is not None:
            after(ExactStep(A, labels, reseeds, tuple(objective)))
