"""The fuzzy family equals its slow twins (tests/reference) from the same rows, weighted and not, in float64."""

import numpy as np
import pytest
from fuzzy_cases import (
    COMMON,
    KERNELS,
    WEIGHTS,
    C,
    D,
    assert_memberships,
    assert_prototypes,
    chunks_of,
    extend_to,
    landmark_coordinates,
    literal_start,
    make_rows,
    make_weights,
    never_increases,
    random_order,
    sample_of,
    weight_argument,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from reference import fuzzy
from reference.algebra import rbf, squared_distances
from scipy.optimize import linear_sum_assignment

from daskkcl import FCM, KFCM, OnlineKFCM, RandomSampleKFCM, SinglePassKFCM
from daskkcl.schedules.chunks import FAN_IN

pytestmark = pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning")

N = 160
ROWS = np.array([3, 77, 120, 151])
LANDMARKS = np.arange(0, N, 6)


@pytest.fixture(scope="module")
def X():
    return make_rows(N)


@pytest.fixture(scope="module", params=list(KERNELS))
def kernel(request):
    return KERNELS[request.param]


def objective(U, d, w, m):
    return np.sum(w[:, None] * U**m * d)


# --- FCM ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("m, steps", [(1.3, 3), (1.7, 300), (2.5, 20)])
def test_fcm_equals_its_twin(X, weights, m, steps):
    w = make_weights(weights, N, ROWS)
    model = FCM(**COMMON, init=ROWS, fuzzifier=m, tol=1e-16, max_iter=steps).fit(X, **weight_argument(weights, w))
    assert model.n_iter_ == steps or steps == 300
    twin = fuzzy.wfcm(X, np.zeros(N), w, X[ROWS], m, 0.0, model.n_iter_)
    order = assert_memberships(model, X, twin.U, w)
    assert_allclose(model.transform(X) ** 2, squared_distances(X, np.zeros(N), twin.V)[:, order], atol=1e-8)
    assert_allclose(model.objective_, twin.objective[-1], rtol=1e-9)
    assert_prototypes(model, X, fuzzy.nearest_rows(X, np.zeros(N), w, twin.V)[order])
    assert never_increases(model.history_)
    assert_allclose(model.history_, twin.objective[: len(model.history_)], rtol=1e-9)
    assert model.fuzzifier_ == m


def test_fcm_is_the_papers_element_by_element(X):
    """Against the slowest twin, which shares nothing with the others."""
    model = FCM(**COMMON, init=X[ROWS] + 0.05, fuzzifier=1.6, tol=1e-16, max_iter=4).fit(X)
    assert model.n_iter_ == 4
    U, _, J = fuzzy.fcm(X, np.ones(N), X[ROWS] + 0.05, 1.6, 4)
    assert_memberships(model, X, U)
    assert_allclose(model.objective_, J[-1], rtol=1e-9)


@pytest.mark.parametrize("weights", ["none", "real"])
def test_fcm_from_labels(X, weights):
    w = make_weights(weights, N)
    labels = np.random.default_rng(3).permutation(np.arange(N) % C)
    model = FCM(**COMMON, init=labels, fuzzifier=1.3, tol=1e-16, max_iter=5).fit(X, **weight_argument(weights, w))
    twin = fuzzy.wfcm(X, np.zeros(N), w, means_of(X, labels, w), 1.3, 0.0, model.n_iter_)
    assert_memberships(model, X, twin.U, w)


@pytest.mark.parametrize("cls", [RandomSampleKFCM, SinglePassKFCM, OnlineKFCM])
def test_landmark_forms_from_labels(X, cls):
    """Labels of all rows give the first centres, weighted as the rows are; one chunk (sample) of all rows follows."""
    w = make_weights("real", N)
    labels = np.argsort(np.argsort(X[:, 0])) * C // N
    size = {"sample_size": N, "max_passes": 0} if cls is RandomSampleKFCM else {"chunk_size": N}
    parameters, twin_kernel = KERNELS["rbf"]
    model = cls(**COMMON, **parameters, **size, landmarks=X[LANDMARKS], init=labels, fuzzifier=1.3, max_iter=3)
    model.fit(X, sample_weight=w)
    Y, r = landmark_coordinates(X, X[LANDMARKS], twin_kernel)
    V0 = means_of(Y, labels, w)
    run = fuzzy.wfcm(Y, r, w, V0, 1.3, 1e-3, 3)
    V = run.V
    if cls is OnlineKFCM:  # which clusters the centres of its chunks, from the same start
        V = fuzzy.wfcm(run.V, np.zeros(C), run.omega, V0, 1.3, 1e-3, 3).V
    assert_memberships(model, X, fuzzy.memberships_of(Y, r, V, 1.3), w)


def means_of(Y, labels, w):
    return np.array([np.average(Y[labels == k], axis=0, weights=w[labels == k]) for k in range(C)])


@pytest.mark.parametrize("weights", ["none", "some zero"])
def test_fcm_places_rows_by_prototypes(X, weights):
    w = make_weights(weights, N, ROWS)
    new = make_rows(50, seed=6)
    model = FCM(**COMMON, init=ROWS, fuzzifier=1.4, extend="prototypes").fit(X, **weight_argument(weights, w))
    twin = fuzzy.wfcm(X, np.zeros(N), w, X[ROWS], 1.4, 1e-3, 100)
    rows = fuzzy.nearest_rows(X, np.zeros(N), w, twin.V)
    order = assert_memberships(model, X, fuzzy.memberships_of(X, np.zeros(N), X[rows], 1.4), w)
    assert_prototypes(model, X, rows[order])
    assert_allclose(model.predict_proba(new), fuzzy.memberships_of(new, np.zeros(50), X[rows][order], 1.4), atol=1e-6)


@pytest.mark.parametrize("weights", ["none", "some zero"])
def test_fcm_is_kfcm_with_the_linear_kernel(X, weights):
    w = make_weights(weights, N, ROWS)
    common = {**COMMON, "init": ROWS, "fuzzifier": 1.5, "tol": 1e-20, "max_iter": 500}
    one = FCM(**common).fit(X, **weight_argument(weights, w))
    two = KFCM(**common, kernel="linear").fit(X, **weight_argument(weights, w))
    assert_allclose(one.membership_, two.membership_, atol=1e-6)
    assert_allclose(one.objective_, two.objective_, rtol=1e-8)
    assert_array_equal(one.labels_, two.labels_)
    assert_array_equal(one.prototypes_, two.prototypes_)
    assert_allclose(one.transform(X), two.transform(X), atol=1e-6)


# --- KFCM -----------------------------------------------------------------------------------------------------------


@pytest.mark.part(2)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("m, tol, max_iter", [(1.4, 1e-3, 100), (1.8, 1e-10, 6), (1.2, 1e-8, 400)])
def test_kfcm_equals_its_twin(X, kernel, weights, m, tol, max_iter):
    parameters, twin_kernel = kernel
    w = make_weights(weights, N, ROWS)
    model = KFCM(**COMMON, **parameters, init=ROWS, fuzzifier=m, tol=tol, max_iter=max_iter)
    model.fit(X, **weight_argument(weights, w))
    K = twin_kernel(X, X)
    twin = fuzzy.wkfcm(K, None, w, fuzzy.one_hot(ROWS, N), m, tol, max_iter)
    order = assert_memberships(model, X, twin.U, w)
    assert model.n_iter_ == twin.n_iter
    assert_allclose(model.history_, twin.objective, rtol=1e-8)
    assert never_increases(model.history_)
    assert_allclose(model.objective_, twin.objective[-1], rtol=1e-8)
    assert_prototypes(model, X, twin.prototypes[order])
    assert_allclose(model.transform(X) ** 2, twin.d[:, order], atol=1e-7)


def test_kfcm_from_centre_rows(X, kernel):
    parameters, twin_kernel = kernel
    start = X[ROWS] + 0.3
    model = KFCM(**COMMON, **parameters, init=start, fuzzifier=1.4).fit(X)
    K, seeds = literal_start(X, start, twin_kernel)
    w = np.concatenate([np.ones(N), np.zeros(C)])
    twin = fuzzy.wkfcm(K, None, w, fuzzy.one_hot(seeds, N + C), 1.4, 1e-3, 100)
    order = assert_memberships(model, X, twin.U[:N])
    assert_prototypes(model, X, twin.prototypes[order])


@pytest.mark.parametrize("how", ["centres", "prototypes"])
def test_kfcm_places_new_rows(X, kernel, how):
    """By distance to the centres of the run, or to the prototype rows."""
    parameters, twin_kernel = kernel
    new = make_rows(50, seed=6)
    model = KFCM(**COMMON, **parameters, init=ROWS, fuzzifier=1.4, extend=how).fit(X)
    K = twin_kernel(X, X)
    twin = fuzzy.wkfcm(K, None, np.ones(N), fuzzy.one_hot(ROWS, N), 1.4, 1e-3, 100)
    kappa = np.array([twin_kernel(x[None], x[None])[0, 0] for x in new])
    U = fuzzy.extend(twin_kernel(new, X), K, kappa, twin.A, twin.prototypes, how, 1.4)
    of_rows = fuzzy.extend(K, K, np.diag(K), twin.A, twin.prototypes, how, 1.4)
    order = assert_memberships(model, X, of_rows)
    assert_allclose(model.predict_proba(new), U[:, order], atol=1e-6)


# --- random sample and extend ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["centres", "prototypes"])
@pytest.mark.parametrize("weights", ["none", "real", "some zero"])
def test_literal_rsekfcm_equals_its_twin(X, kernel, weights, how):
    parameters, twin_kernel = kernel
    m, tol, size = 1.4, 1e-3, 60
    w = make_weights(weights, N, ROWS)
    model = RandomSampleKFCM(
        **COMMON, **parameters, form="literal", sample_size=size, extend=how, init=ROWS, fuzzifier=m, tol=tol
    ).fit(X, **weight_argument(weights, w))
    K, seeds = literal_start(X, X[ROWS], twin_kernel)
    joined = np.concatenate([w, np.zeros(C)])
    sample = np.concatenate([sample_of(N, size, w), seeds])
    result = fuzzy.rsekfcm_literal(K, sample, seeds, m, tol, 100, joined)
    order = assert_memberships(model, X, extend_to(X, X[ROWS], twin_kernel, result, how, m), w)
    assert_prototypes(model, X, result.rows[result.final][order])
    assert never_increases(model.history_)


@pytest.mark.part(2)
@pytest.mark.parametrize("weights", ["none", "real", "some zero"])
@pytest.mark.parametrize("max_passes", [0, 1, 5])
def test_landmark_rsekfcm_equals_its_twin(X, kernel, weights, max_passes):
    """A run on the sample, then exact steps over all rows until J settles."""
    parameters, twin_kernel = kernel
    m, tol, size = 1.4, 1e-3, 60
    w = make_weights(weights, N, ROWS)
    model = RandomSampleKFCM(
        **COMMON,
        **parameters,
        landmarks=X[LANDMARKS],
        sample_size=size,
        init=ROWS,
        fuzzifier=m,
        tol=tol,
        max_passes=max_passes,
    ).fit(X, **weight_argument(weights, w))
    Y, r = landmark_coordinates(X, X[LANDMARKS], twin_kernel)
    sample = sample_of(N, size, w)
    V = fuzzy.wfcm(Y[sample], r[sample], w[sample], Y[ROWS], m, tol, 100).V
    V, history = settle(Y, r, V, m, w, max_passes)
    order = assert_memberships(model, X, fuzzy.memberships_of(Y, r, V, m), w)
    if max_passes:
        assert_allclose(model.history_, history, rtol=1e-8)
    assert never_increases(model.history_)
    assert_prototypes(model, X, fuzzy.nearest_rows(Y, r, w, V)[order])
    U, d = fuzzy.memberships_of(Y, r, V, m), squared_distances(Y, r, V)
    assert_allclose(model.objective_, objective(U, d, w, m), rtol=1e-8)


def settle(Y, r, V, m, w, most):
    """Streamed passes until J falls by no more than one in ten thousand."""
    history = []
    while len(history) < most and not (len(history) > 1 and history[-2] - history[-1] <= 1e-4 * history[-2]):
        V, J = fuzzy.streamed_pass(Y, r, V, m, w)
        history.append(J)
    return V, history


# --- single pass ----------------------------------------------------------------------------------------------------


@pytest.mark.part(2)
@pytest.mark.parametrize("how", ["centres", "prototypes"])
@pytest.mark.parametrize("order", ["random", "arrival"])
@pytest.mark.parametrize("weights", ["none", "real", "some zero"])
def test_literal_spkfcm_equals_its_twin(X, kernel, weights, order, how):
    parameters, twin_kernel = kernel
    m, tol, chunk = 1.4, 1e-3, 45  # the last chunk is short
    w = make_weights(weights, N, ROWS)
    model = SinglePassKFCM(
        **COMMON,
        **parameters,
        form="literal",
        order=order,
        chunk_size=chunk,
        extend=how,
        init=ROWS,
        fuzzifier=m,
        tol=tol,
    ).fit(X, **weight_argument(weights, w))
    K, seeds = literal_start(X, X[ROWS], twin_kernel)
    joined = np.concatenate([w, np.zeros(C)])
    chunks = chunks_of(N, chunk, random_order(N) if order == "random" else None)
    chunks = [np.concatenate([chunks[0], seeds]), *chunks[1:]]
    result = fuzzy.spkfcm_literal(K, chunks, [seeds, *[None] * (len(chunks) - 1)], m, tol, 100, joined)
    numbering = assert_memberships(model, X, extend_to(X, X[ROWS], twin_kernel, result, how, m), w)
    assert_prototypes(model, X, result.rows[result.final][numbering])
    assert never_increases(model.history_)


@pytest.mark.parametrize("order", ["random", "arrival"])
@pytest.mark.parametrize("weights", ["none", "real", "some zero"])
def test_landmark_spkfcm_equals_its_twin(X, kernel, weights, order):
    parameters, twin_kernel = kernel
    m, tol, chunk = 1.4, 1e-3, 45
    w = make_weights(weights, N, ROWS)
    model = SinglePassKFCM(
        **COMMON,
        **parameters,
        landmarks=X[LANDMARKS],
        order=order,
        chunk_size=chunk,
        init=ROWS,
        fuzzifier=m,
        tol=tol,
    ).fit(X, **weight_argument(weights, w))
    Y, r = landmark_coordinates(X, X[LANDMARKS], twin_kernel)
    chunks = chunks_of(N, chunk, random_order(N) if order == "random" else None)
    V, _ = fuzzy.spkfcm_landmark(Y, r, chunks, Y[ROWS], m, tol, 100, w)
    numbering = assert_memberships(model, X, fuzzy.memberships_of(Y, r, V, m), w)
    assert_prototypes(model, X, fuzzy.nearest_rows(Y, r, w, V)[numbering])
    assert never_increases(model.history_)


# --- online ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["centres", "prototypes"])
@pytest.mark.parametrize("weights", ["none", "real", "some zero"])
def test_literal_okfcm_equals_its_twin(X, kernel, weights, how):
    parameters, twin_kernel = kernel
    m, tol, chunk = 1.4, 1e-3, 45
    w = make_weights(weights, N, ROWS)
    model = OnlineKFCM(
        **COMMON, **parameters, form="literal", chunk_size=chunk, extend=how, init=ROWS, fuzzifier=m, tol=tol
    ).fit(X, **weight_argument(weights, w))
    K, seeds = literal_start(X, X[ROWS], twin_kernel)
    joined = np.concatenate([w, np.zeros(C)])
    chunks = [np.concatenate([chunk_, seeds]) for chunk_ in chunks_of(N, chunk, random_order(N))]
    last = np.arange(C * len(chunks), C * len(chunks) + C)
    result = fuzzy.okfcm_literal(K, chunks, [seeds] * len(chunks), m, tol, 100, last, joined, seeds)
    order = assert_memberships(model, X, extend_to(X, X[ROWS], twin_kernel, result, how, m), w)
    assert_prototypes(model, X, result.rows[result.final][order])
    assert never_increases(model.history_)


@pytest.mark.part(2)
@pytest.mark.parametrize("weights", ["none", "real", "some zero"])
@pytest.mark.parametrize("chunk, max_passes", [(45, 1), (7, 1), (7, 4)])
def test_landmark_okfcm_equals_its_twin(X, kernel, weights, chunk, max_passes):
    parameters, twin_kernel = kernel
    m, tol = 1.4, 1e-3
    w = make_weights(weights, N, ROWS)
    model = OnlineKFCM(
        **COMMON,
        **parameters,
        landmarks=X[LANDMARKS],
        chunk_size=chunk,
        init=ROWS,
        fuzzifier=m,
        tol=tol,
        max_passes=max_passes,
    ).fit(X, **weight_argument(weights, w))
    Y, r = landmark_coordinates(X, X[LANDMARKS], twin_kernel)
    chunks = chunks_of(N, chunk)
    V, _ = fuzzy.okfcm_landmark(
        Y, r, chunks, [Y[ROWS]] * len(chunks), m, tol, 100, FAN_IN, lambda points, weights: Y[ROWS], w
    )
    V, history = settle(Y, r, V, m, w, max_passes - 1)
    order = assert_memberships(model, X, fuzzy.memberships_of(Y, r, V, m), w)
    assert_prototypes(model, X, fuzzy.nearest_rows(Y, r, w, V)[order])
    assert never_increases(model.history_)
    if max_passes > 1:
        assert_allclose(model.history_, history, rtol=1e-8)


# --- input space ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["none", "some zero"])
@pytest.mark.parametrize("model", [RandomSampleKFCM, SinglePassKFCM, OnlineKFCM])
def test_landmark_forms_in_input_space_are_fuzzy_c_means_of_vectors(X, model, weights):
    """One chunk (or a sample) of all rows, carried to convergence: the fixed point of FCM from the same rows."""
    w = make_weights(weights, N, ROWS)
    size = {"sample_size": N} if model is RandomSampleKFCM else {"chunk_size": N}
    common = {**COMMON, "init": ROWS, "fuzzifier": 1.3, "tol": 1e-20, "max_iter": 2000}
    one = model(**common, **size, map="identity").fit(X, **weight_argument(weights, w))
    two = FCM(**common).fit(X, **weight_argument(weights, w))
    assert_allclose(one.membership_, two.membership_, atol=1e-6)
    assert_allclose(one.objective_, two.objective_, rtol=1e-8)
    assert_array_equal(one.prototypes_, two.prototypes_)


@pytest.mark.parametrize("model", [FCM, KFCM, RandomSampleKFCM, SinglePassKFCM, OnlineKFCM])
def test_centre_rows_are_given_as_rows(X, model):
    """`init` of rows by number and by value is the same start."""
    kernel = {} if model is FCM else {"gamma": 0.2}
    one = model(**COMMON, **kernel, init=ROWS, fuzzifier=1.4).fit(X)
    two = model(**COMMON, **kernel, init=X[ROWS], fuzzifier=1.4).fit(X)
    assert_allclose(one.membership_, two.membership_, atol=1e-9)
    assert X.shape[1] == D


# --- any small table ------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_small_table_equals_its_twin(data):
    """Random rows, some of them more than once, any weights, a few steps."""
    n = data.draw(st.integers(2, 20))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    rows = rng.normal(size=(n, data.draw(st.integers(1, 4))))
    rows = rows[rng.integers(0, data.draw(st.integers(1, n)), n)]
    w = rng.integers(0, 4, n) * rng.choice([1.0, 0.37])
    w[rng.integers(n)] = 1.3
    c = data.draw(st.integers(1, max(1, len(np.unique(rows[w > 0], axis=0)) // 2)))  # more is rounding's business
    m, steps = data.draw(st.sampled_from([1.1, 1.5, 2.0, 3.0])), data.draw(st.integers(1, 4))
    start = rng.normal(size=(c, rows.shape[1]))  # on no row: nothing is decided by rounding
    common = {**COMMON, "n_clusters": c, "init": start, "fuzzifier": m, "max_iter": steps, "tol": 1e-30}
    model = FCM(**common).fit(rows, sample_weight=w)
    twin = fuzzy.wfcm(rows, np.zeros(n), w, start, m, 0.0, steps)
    assert_near(model, twin.U, twin.objective, w)
    model = KFCM(**common, gamma=0.5).fit(rows, sample_weight=w)
    K, seeds = literal_start(rows, start, lambda X, Y: rbf(X, Y, 0.5))
    exact = fuzzy.wkfcm(K, None, np.concatenate([w, np.zeros(c)]), fuzzy.one_hot(seeds, n + c), m, 0.0, steps)
    assert_near(model, exact.U[:n], exact.objective, w)


def assert_near(model, U, objective, w):
    """The same memberships, and J; where one is tiny, rows stand on centres and rounding has the last word."""
    assert_allclose(model.objective_, objective[-1], rtol=1e-6, atol=1e-9 * objective[0])
    if objective[-1] > 1e-6 * objective[0]:
        _, order = linear_sum_assignment([np.abs(U - column[:, None]).sum(axis=0) for column in model.membership_.T])
        assert_allclose(model.membership_, U[:, order], atol=1e-5)
    assert (w[model.prototypes_] > 0).all()
