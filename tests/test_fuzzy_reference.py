"""The fuzzy twins agree with one another, with hand-made numbers and with the paper's formulas."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference import fuzzy, validity
from reference.algebra import coordinates, kernel_distances, polynomial, rbf, squared_distances

N, C, M = 60, 4, 1.6
SEEDS = [1, 20, 33, 47]


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(8)
    return rng.normal(scale=1.5, size=(C, 3))[rng.integers(C, size=N)] + rng.normal(scale=0.7, size=(N, 3))


@pytest.fixture(scope="module")
def K(X):
    length = np.linspace(0.7, 1.4, N)
    return rbf(X, X, 0.15) * np.outer(length, length)


@pytest.fixture(scope="module")
def full(K):
    return coordinates(K, K, np.diag(K), 1e-12)


@pytest.fixture(scope="module")
def some(K):
    return coordinates(K[:, ::4], K[::4, ::4], np.diag(K), 1e-12)


@pytest.fixture(scope="module")
def w():
    return np.random.default_rng(2).uniform(0.2, 3, N)


# --- fuzzy c-means ------------------------------------------------------------------------------------------------


def test_fcm_by_hand():
    """Two rows, two centres, m = 2: u = 1/5 or 4/5 where squared distances are 4 and 1."""
    U, V, J = fuzzy.fcm(np.array([[0.0], [3.0]]), np.array([1.0, 2.0]), np.array([[1.0], [2.0]]), 2.0, 0)
    assert_allclose(U, [[0.8, 0.2], [0.2, 0.8]])
    assert_allclose(J, [3 * (0.64 * 1 + 0.04 * 4)])
    _, V, _ = fuzzy.fcm(np.array([[0.0], [3.0]]), np.array([1.0, 2.0]), np.array([[1.0], [2.0]]), 2.0, 1)
    assert_allclose(V.ravel(), [3 * 2 * 0.04 / (0.64 + 2 * 0.04), 3 * 2 * 0.64 / (0.04 + 2 * 0.64)])


@pytest.mark.parametrize("m", [1.3, 2.0])
def test_fcm_is_wfcm_without_residual_and_wkfcm_with_the_linear_kernel(X, w, m):
    start = X[SEEDS] + 0.05
    U, V, J = fuzzy.fcm(X, w, start, m, 6)
    run = fuzzy.wfcm(X, np.zeros(N), w, start, m, 0.0, 6)
    assert_allclose(run.U, U, atol=1e-10)
    assert_allclose(run.V, V, atol=1e-10)
    assert_allclose(run.objective, J)
    both = np.vstack([X, start])
    zero = np.concatenate([w, np.zeros(C)])
    kernel = polynomial(both, both, 1, 1.0, 0.0)
    dual = fuzzy.wkfcm(kernel, None, zero, fuzzy.one_hot(range(N, N + C), N + C), m, 0.0, 6)
    assert_allclose(dual.U[:N], U, atol=1e-9)
    assert_allclose(dual.objective, J)


def test_streamed_passes_with_weights_are_the_steps_of_wfcm(some, w):
    V, history = some[0][SEEDS], []
    for _ in range(4):
        V, J = fuzzy.streamed_pass(*some, V, M, w)
        history.append(J)
    run = fuzzy.wfcm(*some, w, some[0][SEEDS], M, 0.0, 4)
    assert_allclose(V, run.V)
    assert_allclose(history, run.objective[:4])
    assert_allclose(fuzzy.memberships_of(*some, V, M), run.U, atol=1e-12)


def test_nearest_rows_are_the_prototypes_of_wkfcm(K, full, w):
    w = np.where(np.arange(N) % 3 == 0, 0.0, w)
    exact = fuzzy.wkfcm(K, None, w, fuzzy.one_hot(SEEDS, N), M, 1e-3, 100)
    V = exact.A.T @ full[0]
    assert_array_equal(fuzzy.nearest_rows(*full, w, V), exact.prototypes)
    assert (w[exact.prototypes] > 0).all()
    assert_array_equal(fuzzy.nearest_rows(np.array([[0.0], [2.0]]), np.zeros(2), np.ones(2), np.array([[1.0]])), [0])


# --- sampled, single-pass, online ---------------------------------------------------------------------------------


def test_rsekfcm_of_all_rows_is_kfcm(K, w):
    everything = np.random.default_rng(0).permutation(N)
    run = fuzzy.rsekfcm_literal(K, everything, SEEDS, M, 1e-6, 200, w)
    exact = fuzzy.wkfcm(K, None, w, fuzzy.one_hot(SEEDS, N), M, 1e-6, 200)
    kappa = np.diag(K)
    K_sample = K[np.ix_(everything, everything)]
    U = fuzzy.extend(K[:, everything], K_sample, kappa, run.A, run.final, "centres", M)
    assert_allclose(U, exact.U, atol=1e-8)
    assert_array_equal(everything[run.final], exact.prototypes)


def test_rsekfcm_step_by_step(K):
    sample = np.array([1, 47, 5, 33, 20, 11, 59, 2, 40, 8])
    run = fuzzy.rsekfcm_literal(K, sample, SEEDS, M, 1e-3, 50)
    part = fuzzy.wkfcm(K[np.ix_(sample, sample)], None, np.ones(10), fuzzy.one_hot([0, 4, 3, 1], 10), M, 1e-3, 50)
    assert_allclose(run.A, part.A)
    # Algorithm 4, line 4, by its own formula
    U = fuzzy.extend(K[:, sample], K[np.ix_(sample, sample)], np.diag(K), run.A, run.final, "prototypes", M)
    for i in (0, 17, 55):
        p = sample[run.final]
        d = [K[i, i] + K[j, j] - 2 * K[i, j] for j in p]
        by_hand = [1 / sum((d[j] / d[k]) ** (1 / (M - 1)) for k in range(C)) for j in range(C)]
        assert_allclose(U[i], by_hand)


def test_spkfcm_of_one_chunk_is_kfcm(K, some, w):
    run = fuzzy.spkfcm_literal(K, [np.arange(N)], [SEEDS], M, 1e-6, 200, w)
    exact = fuzzy.wkfcm(K, None, w, fuzzy.one_hot(SEEDS, N), M, 1e-6, 200)
    assert_allclose(run.A, exact.A, atol=1e-12)
    assert_array_equal(run.final, exact.prototypes)
    V, omega = fuzzy.spkfcm_landmark(*some, [np.arange(N)], some[0][SEEDS], M, 1e-6, 200, w)
    short = fuzzy.wfcm(*some, w, some[0][SEEDS], M, 1e-6, 200)
    assert_allclose(V, short.V)
    assert_allclose(omega, short.omega)


@pytest.mark.parametrize("carried", [True, False])
def test_spkfcm_step_by_step(K, w, carried):
    chunks = [np.arange(0, 25), np.arange(25, 40), np.arange(40, N)]
    seeds = [[1, 5, 20, 24], None if carried else [25, 30, 33, 39], None if carried else [40, 44, 47, 59]]
    run = fuzzy.spkfcm_literal(K, chunks, seeds, M, 1e-3, 100, w)
    first = fuzzy.wkfcm(K[:25, :25], None, w[:25], fuzzy.one_hot([1, 5, 20, 24], 25), M, 1e-3, 100)
    rows = np.concatenate([first.prototypes, chunks[1]])
    weights = np.concatenate([w[:25] @ first.U, w[25:40]])
    start = range(4) if carried else [4, 9, 12, 18]
    second = fuzzy.wkfcm(K[np.ix_(rows, rows)], None, weights, fuzzy.one_hot(start, 19), M, 1e-3, 100)
    rows, weights = np.concatenate([rows[second.prototypes], chunks[2]]), np.concatenate([weights @ second.U, w[40:]])
    assert_array_equal(run.rows, rows)
    assert_allclose(run.weights, weights)
    assert_allclose(run.weights.sum(), w.sum())  # no weight is lost on the way
    third = fuzzy.wkfcm(
        K[np.ix_(rows, rows)], None, weights, fuzzy.one_hot(range(4) if carried else [4, 8, 11, 23], 24), M, 1e-3, 100
    )
    assert_allclose(run.A, third.A, atol=1e-12)
    assert_array_equal(run.final, third.prototypes)


def test_spkfcm_on_coordinates_step_by_step(some, w):
    Y, r = some
    chunks = [np.arange(0, 25), np.arange(25, N)]
    V, omega = fuzzy.spkfcm_landmark(Y, r, chunks, Y[SEEDS], M, 1e-3, 100, w)
    first = fuzzy.wfcm(Y[:25], r[:25], w[:25], Y[SEEDS], M, 1e-3, 100)
    points, residuals = np.vstack([first.V, Y[25:]]), np.concatenate([np.zeros(C), r[25:]])
    second = fuzzy.wfcm(points, residuals, np.concatenate([first.omega, w[25:]]), first.V, M, 1e-3, 100)
    assert_allclose(V, second.V)
    assert_allclose(omega, second.omega)
    only_last = fuzzy.wfcm(Y[25:], r[25:], w[25:], first.V, M, 1e-3, 100)
    assert np.abs(only_last.V - V).max() > 0.01  # what is carried along matters


def test_okfcm_with_weights_repeats_rows(K, some):
    """Weights that add up to twice the rows in each chunk are chunks of twice the rows."""
    w = np.tile([1, 3, 2, 0, 4, 2], 10)
    copies = np.repeat(np.arange(N), w)
    chunks = [np.arange(a, a + 12) for a in range(0, N, 12)]
    long = [np.arange(a, a + 24) for a in range(0, 2 * N, 24)]
    seeds = [chunk[[0, 1, 4, 7]] for chunk in chunks]
    long_seeds = [np.searchsorted(copies, seed) for seed in seeds]
    one = fuzzy.okfcm_literal(K, chunks, seeds, M, 1e-3, 100, [0, 5, 10, 3], w.astype(float))
    two = fuzzy.okfcm_literal(K[np.ix_(copies, copies)], long, long_seeds, M, 1e-3, 100, [0, 5, 10, 3])
    assert_array_equal(one.rows, copies[two.rows])
    assert_allclose(one.weights, two.weights)
    assert_allclose(one.A, two.A, atol=1e-9)
    Y, r = some
    args = (M, 1e-3, 100, 2, lambda p, _: p[[0, 1, 2, 3]])
    short = fuzzy.okfcm_landmark(Y, r, chunks, [Y[s] for s in seeds], *args, w=w.astype(float))
    again = fuzzy.okfcm_landmark(Y[copies], r[copies], long, [Y[s] for s in seeds], *args)
    assert_allclose(short[0], again[0], atol=1e-9)
    assert_allclose(short[1], again[1])


def test_okfcm_may_start_its_last_run_elsewhere(K):
    chunks, seeds = [np.arange(0, 30), np.arange(30, N)], [[1, 5, 20, 24], [33, 40, 47, 59]]
    one = fuzzy.okfcm_literal(K, chunks, seeds, M, 1e-3, 100, [8, 9, 10, 11], None, [1, 20, 33, 47])
    assert_array_equal(one.rows[8:], [1, 20, 33, 47])
    assert_array_equal(one.weights[8:], 0)
    assert (one.final < 8).all()
    assert_allclose(one.A[8:], 0)
    assert_allclose(one.weights.sum(), N)


# --- the bound ----------------------------------------------------------------------------------------------------


def test_collapse_bound_by_hand():
    """Four groups of equal rows: the centred, unit-diagonal matrix has three eigenvalues of n/3."""
    assert_allclose(fuzzy.collapse_bound(np.kron(np.eye(4), np.ones((5, 5)))), 3.0)
    assert fuzzy.collapse_bound(np.kron(np.eye(3), np.ones((5, 5)))) > 1e6  # lambda is one half
    assert_allclose(fuzzy.collapse_bound(np.eye(50)), 1 / (1 - 2 / 49))


# --- validity -----------------------------------------------------------------------------------------------------


def test_validity_by_hand():
    U, w = np.array([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]]), np.array([1.0, 2.0, 1.0])
    assert_allclose(validity.partition_coefficient(U, w), (0.5 + 2 * 1 + 0.625) / 4)
    assert_allclose(validity.partition_coefficient_normalised(U, w), 2 * (3.125 / 4) - 1)
    entropy = (math.log(2) - 0.25 * math.log(0.25) - 0.75 * math.log(0.75)) / 4
    assert_allclose(validity.partition_entropy(U, w), entropy)
    assert_allclose(validity.partition_entropy_normalised(U, w), entropy / math.log(2))
    d = np.array([[1.0, 1.0], [0.0, 9.0], [9.0, 1.0]])
    J = (0.25 + 0.25) + 2 * 0 + (0.0625 * 9 + 0.5625 * 1)
    assert_allclose(validity.objective(U, d, w, 2.0), J)
    assert_allclose(validity.xie_beni(U, d, np.array([[0.0, 4.0], [4.0, 0.0]]), w, 2.0), J / (4 * 4.0))
    away = np.array([2.0, 3.0])
    mass = np.array([0.25 + 2 + 0.0625, 0.25 + 0.5625])
    assert_allclose(validity.fukuyama_sugeno(U, d, away, w, 2.0), J - mass @ away)


def test_validity_at_its_ends():
    w, crisp, equal = np.ones(9), np.eye(3)[np.arange(9) % 3], np.full((9, 3), 1 / 3)
    assert validity.partition_coefficient(crisp, w) == validity.partition_coefficient_normalised(crisp, w) == 1
    assert validity.partition_entropy(crisp, w) == 0
    assert_allclose(validity.partition_coefficient(equal, w), 1 / 3)
    assert_allclose(validity.partition_coefficient_normalised(equal, w), 0, atol=1e-12)
    assert_allclose(validity.partition_entropy_normalised(equal, w), 1)


def test_validity_by_kernel_is_validity_in_coordinates(K, full, w):
    run = fuzzy.wkfcm(K, None, w, fuzzy.one_hot(SEEDS, N), M, 1e-6, 200)
    Y, r = full
    V = run.A.T @ Y
    by_kernel = validity.all_indices(
        run.U, run.d, validity.between_kernel(K, run.A), validity.to_mean_kernel(K, w, run.A), w, M
    )
    d = squared_distances(Y, r, V)
    explicit = validity.all_indices(
        fuzzy.memberships_of(Y, r, V, M), d, validity.between_explicit(V), validity.to_mean_explicit(Y, w, V), w, M
    )
    assert by_kernel.keys() == explicit.keys()
    for name in by_kernel:
        assert_allclose(by_kernel[name], explicit[name], rtol=1e-7, err_msg=name)
    assert_allclose(by_kernel["objective"], run.objective[-1])
    assert_allclose(d, kernel_distances(K, K, np.diag(K), run.A)[0], atol=1e-10)
