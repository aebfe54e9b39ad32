"""Weighted kernel fuzzy c-means on a kernel matrix in memory: the literal algorithm of the paper.

Havens, Bezdek and Palaniswami, "Incremental kernel fuzzy c-means" (doi:10.1007/978-3-642-27534-0_1), Algorithm 3.
The print of the algorithm and the last line of Eq. 14 have ``w * u_j`` divided by its 2-norm; the coefficients that
minimise the objective are ``w * u_j^m`` divided by their sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Kernel
from .fuzzy import memberships

__all__ = ["LiteralRun", "LiteralStep", "kernel_distances_from", "kernel_matrix", "weighted_kernel_fcm"]

Floats = NDArray[Any]

_BAND_BYTES = 8 * 2**20


@dataclass(frozen=True, eq=False)
class LiteralRun:
    """Memberships U (n, c), coefficients A (n, c), squared distances, prototypes (row numbers) and J."""

    U: Floats
    A: Floats
    distances: Floats
    norms: Floats
    prototypes: NDArray[np.intp]
    objective: tuple[float, ...]
    n_iter: int
    converged: bool


@dataclass(frozen=True, eq=False)
class LiteralStep:
    """A run between two steps: coefficients, the memberships that they come from, J of each step."""

    A: Floats
    U: Floats
    objective: tuple[float, ...]


def weighted_kernel_fcm(
    K: Floats,
    weights: Floats,
    A: Floats,
    fuzzifier: float,
    tol: float,
    max_iter: int,
    begin: LiteralStep | None = None,
    after: Callable[[LiteralStep], None] | None = None,
) -> LiteralRun:
    """Alternate coefficients and memberships from the start A until no membership moves (squared) by `tol`.

    Objects of weight zero get memberships and take no part in centres, prototypes or stopping. `after` is told of every
    step, and a run that was stopped goes on from the one that it is given as `begin`.
    """
    diagonal = np.diag(K)
    part = weights > 0
    U: Floats | None = None
    objective: list[float] = []
    if begin is not None:
        A, U, objective = begin.A, begin.U, list(begin.objective)
    n_iter = len(objective)
    while True:
        KA = K @ A
        norms = np.einsum("ic,ic->c", A, KA)
        scale = diagonal[:, None] + norms
        d = scale - 2 * KA
        d[d <= 32 * np.finfo(d.dtype).eps * scale] = 0
        U_new = memberships(d, scale, fuzzifier)
        W = weights[:, None] * U_new**fuzzifier
        objective.append(float((W * d).sum()))
        change = np.inf if U is None else float(np.abs(U_new - U)[part].max(initial=0.0))
        if change**2 < tol or n_iter >= max_iter:
            prototypes = np.where(part[:, None], d, np.inf).argmin(axis=0)
            return LiteralRun(U_new, A, d, norms, prototypes, tuple(objective), n_iter, change**2 < tol)
        mass = W.sum(axis=0)
        A = np.where(mass > 0, W / np.where(mass > 0, mass, 1), A)  # a cluster without mass keeps its centre
        U, n_iter = U_new, n_iter + 1
        if after is not None:
            after(LiteralStep(A, U, tuple(objective)))


def kernel_distances_from(K: Floats) -> Any:
    """Return the function that gives squared distances of all objects from some of them."""
    diagonal = np.diag(K)
    return lambda objects: np.maximum(diagonal[:, None] + diagonal[objects] - 2 * K[:, objects], 0)


def kernel_matrix(kernel: Kernel, rows: Floats) -> Floats:
    """Return the kernel matrix of some rows in float64, exactly symmetric, made band by band in its own place."""
    n = len(rows)
    X = rows.astype(np.float64, copy=False)
    K = np.empty((n, n))
    step = max(1, _BAND_BYTES // (8 * max(1, n)))
    for a in range(0, n, step):
        b = min(n, a + step)
        band = kernel(X[a:b], X[a:])
        corner = band[:, : b - a]
        band[:, : b - a] = (corner + corner.T) / 2
        K[a:b, a:] = band
        K[b:, a:b] = band[:, b - a :].T
    return K
