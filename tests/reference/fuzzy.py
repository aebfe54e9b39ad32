"""Fuzzy c-means and kernel fuzzy c-means, weighted, sampled, single-pass and online (KFCM paper).

Each incremental algorithm comes as printed (kernel matrices of chunks, prototypes that are objects) and on landmark
coordinates (centres carried on exactly). Whatever an algorithm draws is an argument: the sample, the chunks, the rows
where every run begins.

U is (n, c) with rows summing to one; d is the *squared* distance. Misprints of the paper, beside those named
at the lines: after Eq. 2 `sum_i u_ij = 1` is `sum_j`; Eq. 3 `||x||_A` is `||x||_A^2` and m > 1; Eqs. 4-5 swap
i and j; "row" of U in sections 2.2-2.3 is its column.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from .algebra import Array, Labels, kernel_distances, squared_distances

MergeSeed = Callable[[Array, Array], Array]


class WKFCMResult(NamedTuple):
    """Memberships, coefficients that gave the last d, d, prototypes, J of every U, number of updates of A."""

    U: Array
    A: Array
    d: Array
    prototypes: Labels
    objective: Array
    n_iter: int


class WFCMResult(NamedTuple):
    """Memberships, centres that gave them, masses `sum w u^m`, J of every U (one more than updates of V)."""

    U: Array
    V: Array
    omega: Array
    objective: Array


class OKFCMResult(NamedTuple):
    """What the last run of a literal algorithm leaves for `extend`.

    Coefficients over the objects of that run, their rows and weights, positions of the c final prototypes.
    """

    A: Array
    rows: Labels
    weights: Array
    final: Labels


def one_hot(rows: Sequence[int] | Labels, n: int) -> Array:
    """Columns e_row (n, c): centres that are objects, which is how the paper starts (section 3)."""
    A = np.zeros((n, len(rows)))
    for j, row in enumerate(rows):
        A[row, j] = 1.0
    return A


def exact_zeros(d: Array, scale: Array) -> Array:
    """Set to zero every d not above `32 eps scale`, negatives included."""
    return np.where(d <= 32.0 * np.finfo(np.float64).eps * scale, 0.0, d)


def memberships(d: Array, scale: Array, m: float) -> Array:
    """Fuzzy memberships from squared distances.

    Parameters
    ----------
    d : array (n, c)
        Squared distances.
    scale : array (n, c)
        `K_ii + ||v_j||^2`, which says what is zero (`exact_zeros`).
    m : float
        Fuzzifier, above 1.

    Returns
    -------
    array (n, c)
        A row at distance zero from some centres is shared equally among those.
    """
    U = np.zeros(d.shape)
    d = exact_zeros(d, scale)
    for i in range(len(d)):
        if np.any(d[i] == 0.0):
            U[i] = d[i] == 0.0
        else:
            U[i] = (d[i].min() / d[i]) ** (1.0 / (m - 1.0))  # Eq. 8, times a factor of the row
        U[i] = U[i] / U[i].sum()
    return U


def _largest_squared_change(U: Array, old: Array, w: Array) -> float:
    """Read the paper's `max ||U_new - U_old||^2` as the largest element, over the objects with weight."""
    return float(np.max((U - old)[w > 0] ** 2))


def wkfcm(K: Array, kappa: Array | None, w: Array, A0: Array, m: float, tol: float, max_iter: int) -> WKFCMResult:
    """Weighted kernel fuzzy c-means (Algorithm 3; unit weights are KFCM, Algorithm 2).

    Parameters
    ----------
    K : array (n, n)
        Kernel matrix.
    kappa : array (n,) or None
        Kernel of every object with itself; None is the diagonal of K.
    w : array (n,)
        Weights. An object of weight zero has a row of U and no other part.
    A0 : array (n, c)
        First centres as coefficient columns (`one_hot`).
    m : float
        Fuzzifier.
    tol : float
        Stop when the largest element of |change in U|^2 is below it.
    max_iter : int
        Largest number of updates of A.

    Returns
    -------
    WKFCMResult
        `objective[0]` belongs to A0; `d` has its exact zeros set.
    """
    if kappa is None:
        kappa = np.diag(K)
    A = A0.astype(np.float64).copy()
    objective: list[float] = []
    n_iter = 0
    U: Array | None = None
    while True:
        d, norms = kernel_distances(K, K, kappa, A)
        scale = kappa[:, np.newaxis] + norms
        d = exact_zeros(d, scale)
        old, U = U, memberships(d, scale, m)
        # Eq. 3, weighted, with the centres that gave d; Eq. 12 is its least value over the centres.
        objective.append(float(np.sum(w[:, np.newaxis] * U**m * d)))
        if n_iter == max_iter or (old is not None and _largest_squared_change(U, old, w) < tol):
            break
        for j in range(A.shape[1]):
            # Eq. 13. Misprint: Eq. 14's last line and Algorithm 3 have w o u_j and its 2-norm for
            # w o u_j^m and its 1-norm.
            mass = np.sum(w * U[:, j] ** m)
            if mass > 0:  # a cluster without mass keeps its centre
                A[:, j] = w * U[:, j] ** m / mass
        n_iter += 1
    # Algorithm 3, last line. Misprint: the argmin is over the objects with weight.
    prototypes = np.argmin(np.where(w[:, np.newaxis] > 0, d, np.inf), axis=0).astype(np.int64)
    return WKFCMResult(U, A, d, prototypes, np.array(objective), n_iter)


def _explicit(Y: Array, r: Array, V: Array) -> tuple[Array, Array]:
    """Squared distances with exact zeros set, and their scale, in explicit coordinates."""
    kappa = np.sum(Y**2, axis=1) + r
    scale = kappa[:, np.newaxis] + np.sum(V**2, axis=1)
    return exact_zeros(squared_distances(Y, r, V), scale), scale


def _centres(Y: Array, w: Array, U: Array, V: Array, m: float) -> Array:
    """Eq. 13 in explicit coordinates; a cluster without mass keeps its centre."""
    new = V.copy()
    for j in range(len(V)):
        mass = np.sum(w * U[:, j] ** m)
        if mass > 0:
            new[j] = (w * U[:, j] ** m) @ Y / mass
    return new


def fcm(X: Array, w: Array, V0: Array, m: float, n_steps: int) -> tuple[Array, Array, list[float]]:
    """Fuzzy c-means in input space, element by element (Algorithm 1): U, the V that gave it, J of every U.

    No membership may meet a distance of zero here. Paper: unit weights; stops when V stands still.
    """
    V = V0.astype(np.float64).copy()
    n, c = len(X), len(V0)
    objective = []
    for step in range(n_steps + 1):
        U = np.zeros((n, c))
        J = 0.0
        for i in range(n):
            for j in range(c):
                own = np.linalg.norm(X[i] - V[j])
                # Eq. 4. Misprint: i and j are swapped there and in Eq. 5.
                U[i, j] = 1.0 / sum((own / np.linalg.norm(X[i] - V[k])) ** (2.0 / (m - 1.0)) for k in range(c))
                J += w[i] * U[i, j] ** m * own**2  # Eq. 3, weighted
        objective.append(J)
        if step < n_steps:
            for j in range(c):
                V[j] = sum(w[i] * U[i, j] ** m * X[i] for i in range(n)) / sum(w[i] * U[i, j] ** m for i in range(n))
    return U, V, objective


def wfcm(Y: Array, r: Array, w: Array, V0: Array, m: float, tol: float, max_iter: int) -> WFCMResult:
    """As `wkfcm`, on coordinates Y (n, q) with the residual r (n,) added to every squared distance.

    `V0` (c, q) are the first centres; the V returned gave the last d and U.
    """
    V = V0.astype(np.float64).copy()
    objective: list[float] = []
    n_iter = 0
    U: Array | None = None
    while True:
        d, scale = _explicit(Y, r, V)
        old, U = U, memberships(d, scale, m)
        objective.append(float(np.sum(w[:, np.newaxis] * U**m * d)))  # Eq. 3, weighted
        if n_iter == max_iter or (old is not None and _largest_squared_change(U, old, w) < tol):
            break
        V = _centres(Y, w, U, V, m)
        n_iter += 1
    return WFCMResult(U, V, np.sum(w[:, np.newaxis] * U**m, axis=0), np.array(objective))


def streamed_pass(Y: Array, r: Array, V: Array, m: float, w: Array | None = None) -> tuple[Array, float]:
    """One step of alternating optimisation over all rows: the new centres, and J at the old ones."""
    w = np.ones(len(Y)) if w is None else w
    d, scale = _explicit(Y, r, V)
    U = memberships(d, scale, m)
    return _centres(Y, w, U, V, m), float(np.sum(w[:, np.newaxis] * U**m * d))


def memberships_of(Y: Array, r: Array, V: Array, m: float) -> Array:
    """Memberships of rows in centres, all in explicit coordinates: extension by centres."""
    d, scale = _explicit(Y, r, V)
    return memberships(d, scale, m)


def nearest_rows(Y: Array, r: Array, w: Array, V: Array) -> Labels:
    """The prototypes: for every centre the row with weight that is nearest, ties to the lowest row."""
    d, _ = _explicit(Y, r, V)
    return np.argmin(np.where(w[:, np.newaxis] > 0, d, np.inf), axis=0).astype(np.int64)


def _run_on_rows(
    K: Array, rows: Labels, w: Array, seed: Sequence[int] | Labels, m: float, tol: float, max_iter: int
) -> WKFCMResult:
    """Algorithm 3 on the kernel matrix of some rows, from seeds that are among them."""
    positions = [list(rows).index(row) for row in seed]
    return wkfcm(K[np.ix_(rows, rows)], None, w, one_hot(positions, len(rows)), m, tol, max_iter)


def rsekfcm_literal(
    K: Array,
    sample: Labels,
    seed: Sequence[int] | Labels,
    m: float,
    tol: float,
    max_iter: int,
    w: Array | None = None,
) -> OKFCMResult:
    """Random sample and extend KFCM (Algorithm 4, lines 1 to 3; `extend` is line 4).

    Parameters
    ----------
    K : array (n, n)
        Kernel matrix of all rows.
    sample : array
        Row numbers of the sample.
    seed : c row numbers
        First centres, in the sample.
    m, tol, max_iter
        As in `wkfcm`.
    w : array (n,), optional
        Weights of the rows (not in the paper, where they are one).
    """
    w = np.ones(len(K)) if w is None else w
    run = _run_on_rows(K, sample, w[sample], seed, m, tol, max_iter)
    return OKFCMResult(run.A, sample, w[sample], run.prototypes)


def spkfcm_literal(
    K: Array,
    chunks: Sequence[Labels],
    seeds: Sequence[Sequence[int] | Labels | None],
    m: float,
    tol: float,
    max_iter: int,
    w: Array | None = None,
) -> OKFCMResult:
    """Single-pass KFCM (Algorithm 5): the prototypes of one chunk join the next with the weight of all before.

    Parameters
    ----------
    K : array (n, n)
        Kernel matrix of all rows.
    chunks : list of arrays
        Row numbers of every chunk, in order.
    seeds : list, one for each chunk
        c row numbers in the chunk; None, possible after the first, starts from the prototypes carried along.
    m, tol, max_iter
        As in `wkfcm`.
    w : array (n,), optional
        Weights of the rows (not in the paper, where they are one).
    """
    w = np.ones(len(K)) if w is None else w
    carried: list[int] = []
    masses: list[float] = []
    for chunk, seed in zip(chunks, seeds, strict=True):
        rows = np.concatenate([np.array(carried, dtype=np.int64), chunk])  # line 6. Misprint: at first it is xi_1
        weights = np.concatenate([masses, w[chunk]])  # line 5
        if seed is None:
            A0 = one_hot(range(len(carried)), len(rows))
            run = wkfcm(K[np.ix_(rows, rows)], None, weights, A0, m, tol, max_iter)  # line 8
        else:
            run = _run_on_rows(K, rows, weights, seed, m, tol, max_iter)  # lines 3 and 8
        carried = [int(row) for row in rows[run.prototypes]]  # line 10
        # Misprint: lines 4 and 9 have sum_i u_ij; a prototype stands for the weight behind it, sum_i w_i u_ij.
        masses = [float(np.sum(weights * run.U[:, j])) for j in range(run.U.shape[1])]
    return OKFCMResult(run.A, rows, weights, run.prototypes)


def okfcm_literal(
    K: Array,
    chunks: Sequence[Labels],
    seeds: Sequence[Sequence[int] | Labels],
    m: float,
    tol: float,
    max_iter: int,
    final_seed_positions: Sequence[int] | Labels,
    w: Array | None = None,
    also: Sequence[int] | Labels = (),
) -> OKFCMResult:
    """Online KFCM (Algorithm 6): every chunk apart, then one run on the weighted prototypes.

    Parameters
    ----------
    K : array (n, n)
        Kernel matrix of all rows.
    chunks : list of arrays
        Row numbers of every chunk.
    seeds : list of c row numbers for each chunk
        Global row numbers, all in the chunk: its first centres.
    m, tol, max_iter
        As in `wkfcm`.
    final_seed_positions : c ints
        First centres of the last run, positions among its objects: the prototypes (chunk by chunk, cluster by
        cluster), then the rows of `also`.
    w : array (n,), optional
        Weights of the rows (not in the paper, where they are one).
    also : row numbers
        Rows that join the last run with weight zero, to start from.

    Returns
    -------
    OKFCMResult
        For `extend`. Prototypes that are the same row stay separate objects.
    """
    w = np.ones(len(K)) if w is None else w
    rows: list[int] = []
    weights: list[float] = []
    for chunk, seed in zip(chunks, seeds, strict=True):
        # Misprint: line 4 has i, j = x_l'; they run over xi_l.
        run = _run_on_rows(K, chunk, w[chunk], seed, m, tol, max_iter)  # lines 3 and 5
        for j in range(len(seed)):
            rows.append(int(chunk[run.prototypes[j]]))  # line 6. Misprint: line 3 lacks it, P_1 is xi_1(P_1)
            # Misprint: line 9 is (w_l)_j = sum_i (U_l)_ij, the column sums of U.
            weights.append(float(np.sum(w[chunk] * run.U[:, j])))
    rows += list(also)
    weights += [0.0] * len(also)
    K_proto = K[np.ix_(rows, rows)]  # line 8
    A0 = one_hot(final_seed_positions, len(rows))
    # Line 10. Misprint: the output U is of the prototypes, not of all rows; `extend` gives theirs.
    run = wkfcm(K_proto, None, np.array(weights), A0, m, tol, max_iter)
    return OKFCMResult(run.A, np.array(rows, dtype=np.int64), np.array(weights), run.prototypes)


def extend(
    K_rows_to_prototypes: Array,
    K_proto: Array,
    kappa: Array,
    A: Array,
    prototypes_final: Labels,
    how: Literal["centres", "prototypes"],
    m: float,
) -> Array:
    """Memberships of all rows from the last run on the prototypes.

    Parameters
    ----------
    K_rows_to_prototypes : array (n, p)
        Kernel between rows and all prototypes.
    K_proto : array (p, p)
        Kernel between prototypes.
    kappa : array (n,)
        Kernel of every row with itself.
    A : array (p, c)
        Coefficients of the last run, used by "centres": distance to `sum_l A_lj phi(x_l)`.
    prototypes_final : array (c,)
        Positions among the prototypes, used by "prototypes": distance to those objects (the paper's).
    how : {"centres", "prototypes"}
        Which distance.
    m : float
        Fuzzifier.

    Returns
    -------
    array (n, c)
    """
    if how == "prototypes":
        A = one_hot(prototypes_final, len(K_proto))  # Algorithm 4 line 4. Misprint: P indexes the sample
    elif how != "centres":
        raise ValueError(f"how must be 'centres' or 'prototypes', not {how!r}")
    d, norms = kernel_distances(K_rows_to_prototypes, K_proto, kappa, A)
    return memberships(d, kappa[:, np.newaxis] + norms, m)


def okfcm_landmark(
    Y: Array,
    r: Array,
    chunks: Sequence[Labels],
    V0_per_chunk: Sequence[Array],
    m: float,
    tol: float,
    max_iter: int,
    fan_in: int,
    merge_seed: MergeSeed,
    w: Array | None = None,
) -> tuple[Array, Array]:
    """Online KFCM on coordinates, summaries merged level by level (not in the paper).

    Parameters
    ----------
    Y, r : arrays (n, q) and (n,)
        Coordinates and residuals.
    chunks, V0_per_chunk : lists
        Row numbers and first centres (c, q) of every chunk, in order of arrival.
    m, tol, max_iter
        As in `wkfcm`.
    fan_in : int
        So many summaries waiting on a level become one on the next.
    merge_seed : callable
        `merge_seed(points, weights)` gives the first centres (c, q) of a merge.
    w : array (n,), optional
        Weights of the rows.

    Returns
    -------
    V, omega : arrays (c, q) and (c,)
    """

    def merge(summaries: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        points = np.vstack([V for V, _ in summaries])
        weights = np.concatenate([omega for _, omega in summaries])
        start = merge_seed(points, weights)
        no_residual = np.zeros(len(points))  # centres lie in the landmarks' span
        run = wfcm(points, no_residual, weights, start, m, tol, max_iter)
        return run.V, run.omega

    if fan_in < 2:
        raise ValueError(f"fan_in must be at least 2, not {fan_in}")
    w = np.ones(len(Y)) if w is None else w
    waiting: list[list[tuple[Array, Array]]] = [[]]
    for chunk, V0 in zip(chunks, V0_per_chunk, strict=True):
        run = wfcm(Y[chunk], r[chunk], w[chunk], V0, m, tol, max_iter)
        waiting[0].append((run.V, run.omega))
        level = 0
        while len(waiting[level]) == fan_in:
            summary = merge(waiting[level])
            waiting[level] = []
            level += 1
            if level == len(waiting):
                waiting.append([])
            waiting[level].append(summary)
    return merge([summary for summaries in reversed(waiting) for summary in summaries])


def spkfcm_landmark(
    Y: Array,
    r: Array,
    chunks: Sequence[Labels],
    V0: Array,
    m: float,
    tol: float,
    max_iter: int,
    w: Array | None = None,
) -> tuple[Array, Array]:
    """Single-pass KFCM on coordinates: centres join the next chunk exactly, as weighted objects (not in the paper).

    Parameters
    ----------
    Y, r : arrays (n, q) and (n,)
        Coordinates and residuals.
    chunks : list of arrays
        Row numbers of every chunk, in order.
    V0 : array (c, q)
        First centres of the first chunk; every further chunk starts from the centres carried along.
    m, tol, max_iter
        As in `wkfcm`.
    w : array (n,), optional
        Weights of the rows.

    Returns
    -------
    V, omega : arrays (c, q) and (c,)
        Centres and their masses `sum w u^m`.
    """
    w = np.ones(len(Y)) if w is None else w
    V, omega = V0, np.zeros(0)
    for chunk in chunks:
        carried = V[: len(omega)]  # none at first
        points = np.vstack([carried, Y[chunk]])
        residuals = np.concatenate([np.zeros(len(carried)), r[chunk]])  # centres lie in the landmarks' span
        run = wfcm(points, residuals, np.concatenate([omega, w[chunk]]), V, m, tol, max_iter)
        V, omega = run.V, run.omega
    return V, omega


def collapse_bound(K: Array) -> float:
    """The fuzzifier above which U = 1/c attracts, `1 / (1 - 2 lambda)`; infinite when lambda reaches one half.

    lambda is the top eigenvalue of the kernel matrix, centred and with unit diagonal, divided by n.
    """
    n = len(K)
    H = np.eye(n) - np.ones((n, n)) / n
    G = H @ K @ H
    unit = np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            unit[i, k] = G[i, k] / np.sqrt(G[i, i] * G[k, k])
    top = float(np.linalg.eigvalsh(unit)[-1]) / n
    return 1.0 / (1.0 - 2.0 * top) if top < 0.5 else float("inf")
