"""The twins agree among themselves, with hand-made numbers and with the papers' dual forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference import competitive, fuzzy
from reference.algebra import (
    Array,
    Labels,
    coordinates,
    harden,
    kernel_distances,
    polynomial,
    rbf,
    squared_distances,
)
from reference.kernel_kmeans import (
    approx_kernel_kmeans,
    initial_centres_from_labels,
    initial_coefficients_from_labels,
    kernel_kmeans,
)

N, C = 60, 4
LANDMARKS = np.arange(0, N, 4)


@pytest.fixture(scope="module")
def X() -> Array:
    """Four overlapping blobs in five dimensions."""
    rng = np.random.default_rng(5)
    return rng.normal(scale=1.5, size=(C, 5))[rng.integers(C, size=N)] + rng.normal(scale=0.7, size=(N, 5))


@pytest.fixture(scope="module")
def K(X: Array) -> Array:
    """Gaussian kernel of all rows, well conditioned, with rows of unequal length to make kappa matter."""
    length = np.linspace(0.7, 1.4, N)
    return rbf(X, X, 0.1) * np.outer(length, length)


@pytest.fixture(scope="module")
def full(K: Array) -> tuple[Array, Array]:
    """Coordinates with every row a landmark."""
    return coordinates(K, K, np.diag(K), 1e-12)


@pytest.fixture(scope="module")
def some(K: Array) -> tuple[Array, Array]:
    """Coordinates with a quarter of the rows as landmarks."""
    return coordinates(K[:, LANDMARKS], K[np.ix_(LANDMARKS, LANDMARKS)], np.diag(K), 1e-12)


def random_labels(seed: int) -> Labels:
    """Random labels, every one used."""
    return np.random.default_rng(seed).permutation(np.arange(N) % C)


def random_orders(seed: int, epochs: int) -> list[Labels]:
    """One permutation for each epoch."""
    rng = np.random.default_rng(seed)
    return [rng.permutation(N) for _ in range(epochs)]


def never_increases(values: Array) -> bool:
    """No step up beyond rounding, and at least one real step down."""
    return bool(np.all(np.diff(values) <= 1e-12 * values[0]) and values[-1] < 0.999 * values[0])


# --- algebra ------------------------------------------------------------------------------------------------


def test_kernels_by_hand() -> None:
    X = np.array([[1.0, 2.0], [0.0, -1.0]])
    Y = np.array([[3.0, 1.0]])
    assert_allclose(rbf(X, Y, 0.5), np.exp([[-2.5], [-6.5]]))
    assert_allclose(polynomial(X, Y, 3, 2.0, 1.0), [[11.0**3], [(-1.0) ** 3]])
    assert_array_equal(harden(np.array([[0.2, 0.5, 0.3], [0.4, 0.2, 0.4]])), [1, 0])


def test_coordinates_full_and_partial(K: Array, full: tuple[Array, Array], some: tuple[Array, Array]) -> None:
    assert_allclose(full[0] @ full[0].T, K, atol=1e-12)
    assert_allclose(full[1], 0.0, atol=1e-12)
    Y, r = some
    K_B, K_hat = K[:, LANDMARKS], K[np.ix_(LANDMARKS, LANDMARKS)]
    assert_allclose(Y @ Y.T, K_B @ np.linalg.inv(K_hat) @ K_B.T, atol=1e-11)
    assert_allclose(r[LANDMARKS], 0.0, atol=1e-12)
    assert np.all(r >= 0)
    assert r.mean() > 0.05  # else every test with a residual is empty
    assert_allclose(r + np.sum(Y**2, axis=1), np.diag(K))


def test_coordinates_truncate(K: Array) -> None:
    twice = np.concatenate([LANDMARKS, LANDMARKS])  # a singular K_hat
    Y, _ = coordinates(K[:, twice], K[np.ix_(twice, twice)], np.diag(K), 1e-10)
    once, _ = coordinates(K[:, LANDMARKS], K[np.ix_(LANDMARKS, LANDMARKS)], np.diag(K), 1e-10)
    assert Y.shape[1] == len(LANDMARKS)
    assert_allclose(Y @ Y.T, once @ once.T, atol=1e-10)
    values = np.linalg.eigvalsh(K)
    for rcond in (0.01, 0.2):
        q = coordinates(K, K, np.diag(K), rcond)[0].shape[1]
        assert q == np.sum(values > rcond * values[-1]) < N


def test_kernel_distances_are_squared_distances(K: Array, full: tuple[Array, Array]) -> None:
    A = initial_coefficients_from_labels(random_labels(0), C)
    d, norms = kernel_distances(K, K, np.diag(K), A)
    M = initial_centres_from_labels(full[0], random_labels(0), C)
    assert_allclose(d, squared_distances(full[0], full[1], M), atol=1e-12)
    assert_allclose(norms, np.sum(M**2, axis=1), atol=1e-12)


# --- kernel k-means -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("max_iter", [1, 2, 50])
def test_approximate_kernel_kmeans_with_all_rows_is_kernel_kmeans(
    K: Array, full: tuple[Array, Array], seed: int, max_iter: int
) -> None:
    start = random_labels(seed)
    exact = kernel_kmeans(K, start, max_iter)
    ours = approx_kernel_kmeans(*full, initial_centres_from_labels(full[0], start, C), max_iter)
    assert_array_equal(ours.labels, exact.labels)
    assert_allclose(ours.centres, exact.centres.T @ full[0], atol=1e-10)
    assert_allclose(ours.objective, exact.objective)
    assert ours.n_iter == exact.n_iter == len(ours.objective)
    assert ours.n_iter == max_iter if max_iter < 50 else 2 < ours.n_iter < 50


@pytest.mark.parametrize("seed", range(5))
def test_kernel_kmeans_objective_never_increases(some: tuple[Array, Array], seed: int) -> None:
    Y, r = some
    run = approx_kernel_kmeans(Y, r, Y[np.random.default_rng(seed).choice(N, C, replace=False)], 50)
    assert never_increases(run.objective)
    assert_array_equal(run.labels, np.argmin(squared_distances(Y, r, run.centres), axis=1))
    assert_allclose(run.centres, initial_centres_from_labels(Y, run.labels, C))  # a fixed point


def test_kernel_kmeans_objective_is_the_dual_one(K: Array, some: tuple[Array, Array]) -> None:
    start = random_labels(1)
    K_B, K_hat = K[:, LANDMARKS], K[np.ix_(LANDMARKS, LANDMARKS)]
    alpha = np.linalg.inv(K_hat) @ K_B.T @ initial_coefficients_from_labels(start, C)  # AKCL paper Eq. 9
    d = kernel_distances(K_B, K_hat, np.diag(K), alpha)[0]  # Eq. 10
    run = approx_kernel_kmeans(*some, initial_centres_from_labels(some[0], start, C), 1)
    assert_allclose(run.objective, [d.min(axis=1).sum()])


def test_kernel_kmeans_by_hand() -> None:
    Y = np.array([[0.0], [1.0], [2.0], [10.0]])
    run = approx_kernel_kmeans(Y, np.full(4, 0.5), np.array([[0.0], [2.0], [50.0]]), 1)
    # Row 1 is as far from centre 0 as from centre 1 and goes to the lower; centre 2 has no rows.
    assert_allclose(run.centres, [[0.5], [6.0], [50.0]])
    assert_allclose(run.objective, [0 + 1 + 0 + 64 + 4 * 0.5])
    assert_array_equal(run.labels, [0, 0, 0, 1])  # with the final centres, not those of the pass
    assert run.n_iter == 1
    moves = 0.5**2 + 4.0**2
    centres = np.array([[0.0], [2.0], [50.0]])
    assert approx_kernel_kmeans(Y, np.zeros(4), centres, 9, tol=moves).n_iter == 1
    assert approx_kernel_kmeans(Y, np.zeros(4), centres, 9, tol=0.99 * moves).n_iter > 1


def test_empty_first_label_is_refused() -> None:
    with pytest.raises(ValueError, match="label 1 has no row"):
        initial_centres_from_labels(np.zeros((2, 1)), np.array([0, 2]), 3)
    with pytest.raises(ValueError, match="label 1 has no row"):
        initial_coefficients_from_labels(np.array([0, 2]), 3)


# --- competitive learning -----------------------------------------------------------------------------------


def start_of(Y: Array, seed: int) -> tuple[Array, Array]:
    """First centres and counts from random labels."""
    labels = random_labels(seed)
    return initial_centres_from_labels(Y, labels, C), np.bincount(labels, minlength=C).astype(float)


def test_learning_rate_runs_from_start_to_end() -> None:
    assert_allclose(competitive.learning_rate(10, 3, 10, 3, 1.0, 1e-5), 1e-5)
    assert_allclose(competitive.learning_rate(5, 1, 10, 1, 0.5, 5e-3), 0.05)
    assert_allclose(competitive.learning_rate(0, 2, 10, 4, 1.0, 1e-4), 0.1)


@pytest.mark.parametrize("seed", range(3))
def test_akcl_with_all_rows_is_kcl(K: Array, full: tuple[Array, Array], seed: int) -> None:
    orders = random_orders(seed, 4)
    exact = competitive.kcl(K, random_labels(seed), orders)
    ours = competitive.akcl(*full, *start_of(full[0], seed), orders)
    assert_allclose(ours.centres, exact.centres.T @ full[0], atol=1e-9)
    assert_array_equal(ours.counts, exact.counts)
    assert ours.counts.sum() == N + N * ours.n_epochs
    assert ours.n_epochs == exact.n_epochs
    for how in ("frequency", "nearest"):
        assert_array_equal(
            competitive.labels(*full, ours.centres, ours.counts, how),
            competitive.kcl_labels(K, exact.centres, exact.counts, how),
        )


@pytest.mark.parametrize("seed", range(3))
def test_pakcl_of_single_rows_is_akcl(some: tuple[Array, Array], seed: int) -> None:
    orders = random_orders(seed, 4)
    one = competitive.akcl(*some, *start_of(some[0], seed), orders)
    other = competitive.pakcl(*some, *start_of(some[0], seed), orders, 1)
    assert_array_equal(one.centres, other.centres)
    assert_array_equal(one.counts, other.counts)
    assert one.n_epochs == other.n_epochs
    larger = competitive.pakcl(*some, *start_of(some[0], seed), orders, 7)
    assert not np.allclose(one.centres, larger.centres)


def test_tolerance_stops_after_an_epoch(K: Array, some: tuple[Array, Array]) -> None:
    orders = random_orders(0, 6)
    start = start_of(some[0], 0)
    centres = competitive.akcl(*some, *start, orders, tol=np.inf).centres  # one epoch of six
    assert competitive.akcl(*some, *start, orders, tol=0.0).n_epochs == 6
    moved = float(np.sum((centres - start[0]) ** 2))
    for tol, stops in ((1.0001 * moved, True), (moved, False)):  # strictly less stops
        assert (competitive.akcl(*some, *start, orders, tol=tol).n_epochs == 1) == stops
        assert (competitive.pakcl(*some, *start, orders, 1, tol=tol).n_epochs == 1) == stops
    assert competitive.kcl(K, random_labels(0), orders, tol=np.inf).n_epochs == 1
    assert competitive.kcl(K, random_labels(0), orders, tol=0.0).n_epochs == 6


def akcl_dual(K: Array, labels0: Labels, orders: list[Labels], printed: bool) -> tuple[Array, Array, Array]:
    """Run Algorithm 1 as it is written, with gamma, nu and theta; `printed` takes Eq. 31 at its word."""
    K_B, K_hat = K[:, LANDMARKS], K[np.ix_(LANDMARKS, LANDMARKS)]
    theta = np.linalg.inv(K_hat) @ K_B.T
    gamma = theta @ initial_coefficients_from_labels(labels0, C)
    rho = np.sum(K_B.T * theta, axis=0)
    nu = np.sum(gamma * (K_hat @ gamma), axis=0)
    counts = np.bincount(labels0, minlength=C).astype(float)
    for t, order in enumerate(orders, start=1):
        for i, s in enumerate(order, start=1):
            k = np.argmin(counts / counts.sum() * (K[s, s] - 2 * K_B[s] @ gamma + nu))  # Eq. 28
            eta = 1e-5 ** (((t - 1) * N + i) / (len(orders) * N))
            shrink = (1 - eta) if printed else (1 - eta) ** 2  # Eq. 31, Eq. 33
            nu[k] = shrink * nu[k] + eta**2 * rho[s] + 2 * eta * (1 - eta) * (K_B[s] @ gamma[:, k])
            gamma[:, k] = (1 - eta) * gamma[:, k] + eta * theta[:, s]  # Eq. 32
            counts[k] += 1
    return K_B @ gamma, nu, counts


def test_akcl_is_the_dual_algorithm_1(K: Array, some: tuple[Array, Array]) -> None:
    orders = random_orders(2, 3)
    ours = competitive.akcl(*some, *start_of(some[0], 2), orders, tol=0.0)
    products, nu, counts = akcl_dual(K, random_labels(2), orders, printed=False)
    assert_allclose(some[0] @ ours.centres.T, products, atol=1e-9)
    assert_allclose(np.sum(ours.centres**2, axis=1), nu, atol=1e-9)
    assert_array_equal(ours.counts, counts)
    assert not np.allclose(akcl_dual(K, random_labels(2), orders, printed=True)[1], nu, rtol=0.01)


def test_pakcl_is_the_dual_algorithm_2(K: Array, some: tuple[Array, Array]) -> None:
    size, orders = 7, random_orders(3, 3)  # 60 = 8 * 7 + 4
    ours = competitive.pakcl(*some, *start_of(some[0], 3), orders, size, tol=0.0)
    K_B, K_hat = K[:, LANDMARKS], K[np.ix_(LANDMARKS, LANDMARKS)]
    inverse = np.linalg.inv(K_hat)
    gamma = inverse @ K_B.T @ initial_coefficients_from_labels(random_labels(3), C)
    nu = np.sum(gamma * (K_hat @ gamma), axis=0)
    counts = np.bincount(random_labels(3), minlength=C).astype(float)
    idle = 0
    for t, order in enumerate(orders, start=1):
        for start in range(0, N, size):
            rows = order[start : start + size]
            d = np.diag(K)[rows, np.newaxis] - 2 * K_B[rows] @ gamma + nu
            U = np.eye(C)[np.argmin(counts / counts.sum() * d, axis=1)]
            won = U.sum(axis=0) > 0
            idle += int(np.sum(~won))
            U_bar = U[:, won] / U[:, won].sum(axis=0)
            eta = 1e-5 ** (((t - 1) * N + start + len(rows)) / (len(orders) * N))
            S = K_B[rows].T @ U_bar
            nu[won] = (  # Eq. 44
                (1 - eta) ** 2 * nu[won]
                + 2 * eta * (1 - eta) * np.diag(gamma[:, won].T @ S)
                + eta**2 * np.diag(S.T @ inverse @ S)
            )
            gamma[:, won] = (1 - eta) * gamma[:, won] + eta * inverse @ S  # Eq. 45
            counts += U.sum(axis=0)
    assert idle > 0  # some subset left some centre without a row
    assert_allclose(some[0] @ ours.centres.T, K_B @ gamma, atol=1e-9)
    assert_allclose(np.sum(ours.centres**2, axis=1), nu, atol=1e-9)
    assert_array_equal(ours.counts, counts)


def test_competition_by_hand() -> None:
    Y, r = np.array([[0.0], [4.0]]), np.array([0.0, 8.0])
    centres, counts = np.array([[1.0], [6.0]]), np.array([1.0, 3.0])
    # Row 1: distances 9 + 8 and 4 + 8, times 1/4 and 3/4: 4.25 < 9, the far centre wins.
    run = competitive.akcl(Y, r, centres, counts, [np.array([1, 0])], 0.25, 0.25, 0.0)
    # Then row 0: distances 1.75^2 and 36, times 2/5 and 3/5: centre 0 wins again.
    assert_allclose(run.centres, [[1.75 * 0.75], [6.0]])
    assert_array_equal(run.counts, [3, 3])
    both = competitive.pakcl(Y, r, centres, counts, [np.array([1, 0])], 2, 0.25, 0.25, 0.0)
    assert_allclose(both.centres, [[1.0 + 0.25 * (2.0 - 1.0)], [6.0]])
    assert_array_equal(both.counts, [3, 3])
    assert_array_equal(competitive.labels(Y, r, centres, counts, "frequency"), [0, 0])
    assert_array_equal(competitive.labels(Y, r, centres, counts, "nearest"), [0, 1])
    # Row 1 with frequencies 2/6 and 4/6: 17 * 2 < 12 * 4, but 9 * 2 > 4 * 4: the residual decides.
    assert_array_equal(competitive.labels(Y, r, centres, np.array([2.0, 4.0]), "frequency"), [0, 0])
    assert_array_equal(competitive.labels(Y, 0 * r, centres, np.array([2.0, 4.0]), "frequency"), [0, 1])
    with pytest.raises(ValueError, match="how"):
        competitive.labels(Y, r, centres, counts, "other")  # type: ignore[arg-type]


# --- fuzzy c-means ------------------------------------------------------------------------------------------

M = 1.7


def some_weights(seed: int) -> Labels:
    """Integer weights 0..3; rows 0 to 7, where the runs start, have some."""
    w = np.random.default_rng(seed).integers(0, 4, N)
    w[:8] = np.maximum(w[:8], 1)
    return w


def test_memberships_are_equation_8() -> None:
    rng = np.random.default_rng(0)
    d = rng.uniform(0.1, 3.0, (7, 3))
    U = fuzzy.memberships(d, np.ones((7, 3)), M)
    for i in range(7):
        for j in range(3):
            u = 1 / sum((d[i, j] / d[i, k]) ** (1 / (M - 1)) for k in range(3))
            assert_allclose(U[i, j], u)


def test_memberships_exact_cases() -> None:
    eps = np.finfo(float).eps
    d = np.array([[0.0, 1.0, 0.0], [-1e-17, 1.0, 2.0], [31 * eps, 1.0, 1.0], [33 * eps, 1.0, 1.0]])
    U = fuzzy.memberships(d, np.ones((4, 3)), 3.0)
    assert_array_equal(U[:3], [[0.5, 0, 0.5], [1, 0, 0], [1, 0, 0]])
    assert U[3, 1] > 0
    assert_array_equal(fuzzy.memberships(d, np.full((4, 3), 2.0), 3.0)[3], [1, 0, 0])
    assert_array_equal(fuzzy.one_hot([2, 0], 3), [[0, 1], [0, 0], [1, 0]])


def test_exact_cases_within_a_run() -> None:
    # 40 eps from the centre is zero because the scale is 1 + 1; in both forms, and in the d that is returned.
    Y, w, little = np.array([[1.0], [3.0]]), np.ones(2), 40 * np.finfo(float).eps
    ours = fuzzy.wfcm(Y, np.array([little, 0.0]), w, np.array([[1.0], [2.0]]), 3.0, 0.0, 0)
    assert_array_equal(ours.U[0], [1, 0])
    A0 = np.array([[1.0, 0.5], [0.0, 0.5]])
    exact = fuzzy.wkfcm(Y @ Y.T, np.array([1.0 + little, 9.0]), w, A0, 3.0, 0.0, 0)
    assert_array_equal(exact.U, ours.U)
    assert exact.d[0, 0] == 0.0
    assert_array_equal(exact.objective, ours.objective)


@pytest.mark.parametrize("m", [1.2, 1.7, 2.5])
@pytest.mark.parametrize("seed", range(3))
def test_objective_never_increases(K: Array, some: tuple[Array, Array], m: float, seed: int) -> None:
    w = np.random.default_rng(seed).uniform(0, 2, N)
    rows = np.random.default_rng(seed).choice(N, C, replace=False)
    exact = fuzzy.wkfcm(K, None, w, fuzzy.one_hot(rows, N), m, 1e-12, 100)
    ours = fuzzy.wfcm(*some, w, some[0][rows], m, 1e-12, 100)
    for run in (exact, ours):
        assert never_increases(run.objective)
        assert_allclose(run.U.sum(axis=1), 1.0)
    assert exact.n_iter == len(exact.objective) - 1
    assert_allclose(exact.objective[-1], np.sum(w[:, np.newaxis] * exact.U**m * exact.d))
    assert_allclose(ours.omega, w @ ours.U**m)


def test_objective_is_equation_12(K: Array) -> None:
    w = some_weights(0).astype(float)
    A0 = fuzzy.one_hot(range(C), N)
    before = fuzzy.wkfcm(K, None, w, A0, M, 0.0, 3)
    after = fuzzy.wkfcm(K, None, w, A0, M, 0.0, 4)
    assert (before.n_iter, after.n_iter) == (3, 4)
    pairs = np.diag(K)[:, np.newaxis] + np.diag(K) - 2 * K
    wum = w[:, np.newaxis] * before.U**M
    J = sum(wum[:, j] @ pairs @ wum[:, j] / (2 * wum[:, j].sum()) for j in range(C))
    assert_allclose(np.sum(wum * after.d), J)
    assert after.objective[-1] < J < before.objective[-1]
    assert_allclose(after.A, wum / wum.sum(axis=0))


@pytest.mark.parametrize("m", [1.3, 1.7])
@pytest.mark.parametrize("max_iter", [0, 1, 5, 200])
def test_wfcm_with_all_rows_is_wkfcm(K: Array, full: tuple[Array, Array], m: float, max_iter: int) -> None:
    w = np.random.default_rng(1).uniform(0, 2, N)
    exact = fuzzy.wkfcm(K, None, w, fuzzy.one_hot(range(C), N), m, 1e-3, max_iter)
    ours = fuzzy.wfcm(*full, w, full[0][:C], m, 1e-3, max_iter)
    assert_allclose(ours.U, exact.U, atol=1e-8)
    assert_allclose(ours.V, exact.A.T @ full[0], atol=1e-8)
    assert_allclose(ours.objective, exact.objective)
    if max_iter == 200:
        assert 5 < exact.n_iter < 200


def test_wfcm_on_some_landmarks_is_wkfcm_with_its_kappa(K: Array, some: tuple[Array, Array]) -> None:
    Y, r = some
    w = some_weights(1).astype(float)
    dual = fuzzy.wkfcm(Y @ Y.T, np.diag(K).copy(), w, fuzzy.one_hot(range(C), N), M, 1e-8, 60)
    ours = fuzzy.wfcm(Y, r, w, Y[:C], M, 1e-8, 60)
    assert_allclose(ours.U, dual.U, atol=1e-8)
    assert_allclose(ours.objective, dual.objective)
    without = fuzzy.wfcm(Y, 0 * r, w, Y[:C], M, 1e-8, 60)
    assert np.abs(without.U - ours.U).max() > 0.01  # the residual matters


@pytest.mark.parametrize("seed", range(3))
def test_integer_weights_are_repeated_rows(K: Array, some: tuple[Array, Array], seed: int) -> None:
    w = some_weights(seed)
    copies = np.repeat(np.arange(N), w)
    first = np.searchsorted(copies, np.arange(C))
    kept = w > 0
    last = (M, 1e-6, 100)
    one = fuzzy.wkfcm(K, None, w.astype(float), fuzzy.one_hot(range(C), N), *last)
    K_copies = K[np.ix_(copies, copies)]
    many = fuzzy.wkfcm(K_copies, None, np.ones(len(copies)), fuzzy.one_hot(first, len(copies)), *last)
    assert one.n_iter == many.n_iter
    assert_allclose(many.U, one.U[copies], atol=1e-9)
    assert_allclose(many.objective, one.objective)
    assert_array_equal(copies[many.prototypes], one.prototypes)
    assert_allclose([many.A[copies == i].sum(axis=0) for i in range(N)], one.A, atol=1e-9)
    Y, r = some
    short = fuzzy.wfcm(Y, r, w.astype(float), Y[:C], *last)
    long = fuzzy.wfcm(Y[copies], r[copies], np.ones(len(copies)), Y[:C], *last)
    assert_allclose(long.V, short.V, atol=1e-9)
    assert_allclose(long.omega, short.omega)
    # Weight zero is deletion.
    rest = np.flatnonzero(kept)
    K_rest = K[np.ix_(rest, rest)]
    less = fuzzy.wkfcm(K_rest, None, w[rest].astype(float), fuzzy.one_hot(range(C), len(rest)), *last)
    assert len(rest) < N
    assert less.n_iter == one.n_iter
    assert_allclose(less.U, one.U[rest], atol=1e-9)
    assert_array_equal(rest[less.prototypes], one.prototypes)
    assert_allclose(one.A[~kept], 0.0)
    assert_allclose(one.U.sum(axis=1), 1.0)
    # And the weights are not idle.
    plain = fuzzy.wkfcm(K, None, np.ones(N), fuzzy.one_hot(range(C), N), *last)
    assert np.abs(plain.U - one.U).max() > 0.01


def test_weight_zero_has_no_part_in_prototypes_and_stopping() -> None:
    Y = np.array([[0.0], [1.0], [10.0], [11.0], [0.6]])
    w = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    run = fuzzy.wkfcm(Y @ Y.T, None, w, fuzzy.one_hot([0, 2], 5), 1.5, 1e-10, 50)
    assert run.d[4, 0] < min(run.d[0, 0], run.d[1, 0])  # nearest, and yet:
    assert run.prototypes[0] in (0, 1)
    assert fuzzy._largest_squared_change(np.eye(5)[:, :2], np.zeros((5, 2)), w) == 1.0
    assert fuzzy._largest_squared_change(np.eye(5)[:, 3:], np.zeros((5, 2)), w * (np.arange(5) < 3)) == 0.0


def test_cluster_without_mass_keeps_its_centre() -> None:
    Y = np.array([[0.0], [0.0], [1.0]])
    K = Y @ Y.T + 1.0
    # Every weighted row lies on centre 0, so centre 1 gets nothing.
    run = fuzzy.wkfcm(K, None, np.array([1.0, 1.0, 0.0]), fuzzy.one_hot([0, 2], 3), 2.0, 1e-10, 5)
    assert_array_equal(run.A[:, 1], [0, 0, 1])
    assert_array_equal(run.A[:, 0], [0.5, 0.5, 0])
    assert_array_equal(run.U, [[1, 0], [1, 0], [0, 1]])
    assert run.n_iter == 1
    ours = fuzzy.wfcm(Y, np.zeros(3), np.array([1.0, 1.0, 0.0]), Y[[0, 2]], 2.0, 1e-10, 5)
    assert_array_equal(ours.V, [[0.0], [1.0]])
    assert_array_equal(ours.omega, [2, 0])


def test_stopping_is_on_the_squared_change(K: Array) -> None:
    args = (K, None, np.ones(N), fuzzy.one_hot(range(C), N), M)
    change = [np.max((fuzzy.wkfcm(*args, 0.0, t).U - fuzzy.wkfcm(*args, 0.0, t - 1).U) ** 2) for t in range(1, 30)]
    for tol in (1e-2, 1e-3, 1e-5):
        first = next(t for t, value in enumerate(change, start=1) if value < tol)
        assert fuzzy.wkfcm(*args, tol, 100).n_iter == first


def test_streamed_passes_are_the_steps_of_wfcm(some: tuple[Array, Array]) -> None:
    Y, r = some
    V, history = Y[:C], []
    for _ in range(5):
        V, J = fuzzy.streamed_pass(Y, r, V, M)
        history.append(J)
    run = fuzzy.wfcm(Y, r, np.ones(N), Y[:C], M, 0.0, 5)
    assert_allclose(V, run.V)
    assert_allclose(history, run.objective[:5])


CHUNKS = [np.arange(0, 20), np.arange(20, 45)[::-1], np.arange(45, N)]
SEEDS = [[0, 3, 5, 9], [21, 30, 33, 40], [45, 50, 58, 47]]


def test_okfcm_literal_step_by_step(K: Array) -> None:
    run = fuzzy.okfcm_literal(K, CHUNKS, SEEDS, M, 1e-3, 100, [0, 5, 10, 3])
    rows: list[int] = []
    weights: list[float] = []
    for chunk, seed in zip(CHUNKS, SEEDS, strict=True):
        A0 = np.array([[float(row == s) for s in seed] for row in chunk])
        part = fuzzy.wkfcm(K[chunk][:, chunk], None, np.ones(len(chunk)), A0, M, 1e-3, 100)
        rows += list(chunk[part.prototypes])
        weights += list(part.U.sum(axis=0))
    assert_array_equal(run.rows, rows)
    assert_allclose(run.weights, weights)
    assert_allclose(run.weights.sum(), N)
    K_proto = K[rows][:, rows]
    last = fuzzy.wkfcm(K_proto, None, np.array(weights), fuzzy.one_hot([0, 5, 10, 3], 12), M, 1e-3, 100)
    assert_allclose(run.A, last.A)
    assert_array_equal(run.final, last.prototypes)
    # Extension of the prototypes themselves by centres is the last run's own partition.
    kappa = np.diag(K)
    U = fuzzy.extend(K[:, rows], K_proto, kappa, run.A, run.final, "centres", M)
    assert_allclose(U[rows], last.U, atol=1e-12)
    # By prototypes it is Algorithm 4 line 4 on the final prototype rows.
    P = np.array(rows)[run.final]
    d = np.clip(kappa[:, np.newaxis] + kappa[P] - 2 * K[:, P], 0, None)
    V = fuzzy.extend(K[:, rows], K_proto, kappa, run.A, run.final, "prototypes", M)
    assert_allclose(V, fuzzy.memberships(d, np.ones(d.shape), M), atol=1e-12)
    assert np.abs(U - V).max() > 0.01
    with pytest.raises(ValueError, match="how"):
        fuzzy.extend(K[:, rows], K_proto, kappa, run.A, run.final, "other", M)  # type: ignore[arg-type]


def test_okfcm_literal_keeps_duplicates(K: Array) -> None:
    # Both clusters start on the same row and never part: the prototypes are one row, twice, of half the mass.
    run = fuzzy.okfcm_literal(K, [np.arange(20), np.arange(20, 40)], [[3, 3], [20, 27]], M, 1e-3, 50, [0, 2])
    assert len(run.rows) == 4
    assert run.rows[0] == run.rows[1]
    assert_allclose(run.weights[:2], 10.0)


def test_okfcm_literal_refuses_a_seed_from_elsewhere(K: Array) -> None:
    with pytest.raises(ValueError):
        fuzzy.okfcm_literal(K, [np.arange(20)], [[3, 30]], M, 1e-3, 50, [0, 1])


@pytest.mark.parametrize(
    ("n_chunks", "fan_in", "merges"),
    [
        (1, 2, ["0"]),
        (2, 3, ["0 1"]),
        (3, 2, ["0 1", "(0 1) 2"]),
        (4, 2, ["0 1", "2 3", "(0 1) (2 3)", "((0 1) (2 3))"]),
        (5, 3, ["0 1 2", "(0 1 2) 3 4"]),
        (7, 2, ["0 1", "2 3", "(0 1) (2 3)", "4 5", "((0 1) (2 3)) (4 5) 6"]),
    ],
)
def test_okfcm_landmark_merges_in_the_stated_order(
    some: tuple[Array, Array], n_chunks: int, fan_in: int, merges: list[str]
) -> None:
    Y, r = some
    chunks = np.array_split(np.random.default_rng(4).permutation(N), n_chunks)
    starts = [Y[chunk[:C]] for chunk in chunks]
    made: dict[str, fuzzy.WFCMResult] = {}  # how a summary came about -> the summary
    for i, (chunk, V0) in enumerate(zip(chunks, starts, strict=True)):
        made[str(i)] = fuzzy.wfcm(Y[chunk], r[chunk], np.ones(len(chunk)), V0, M, 1e-3, 50)
    calls: list[str] = []

    def seed(points: Array, weights: Array) -> Array:
        start = points[np.argsort(-weights)[:C]]
        parts = []
        for i in range(0, len(points), C):
            same = [name for name, summary in made.items() if np.allclose(summary.V, points[i : i + C])]
            assert len(same) == 1
            parts += same
        assert_allclose(weights, np.concatenate([made[part].omega for part in parts]))
        calls.append(" ".join(parts))
        made[f"({calls[-1]})"] = fuzzy.wfcm(points, np.zeros(len(points)), weights, start, M, 1e-3, 50)
        return start

    V, omega = fuzzy.okfcm_landmark(Y, r, chunks, starts, M, 1e-3, 50, fan_in, seed)
    assert calls == merges
    assert_allclose(V, made[f"({merges[-1]})"].V)
    assert_allclose(omega, made[f"({merges[-1]})"].omega)


def test_okfcm_landmark_refuses_a_fan_in_of_one(some: tuple[Array, Array]) -> None:
    with pytest.raises(ValueError, match="fan_in"):
        fuzzy.okfcm_landmark(*some, [np.arange(N)], [some[0][:C]], M, 1e-3, 50, 1, lambda points, _: points)
