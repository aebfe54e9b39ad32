"""Every algorithm equals its slow twin from the papers (tests/reference) from the same start, in float64."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference import competitive, fuzzy, kernel_kmeans
from reference.algebra import coordinates, kernel_distances, polynomial, rbf, squared_distances

from daskkcl import PAKCL, ApproxKernelKMeans, OnlineKFCM
from daskkcl.kernels import Rbf
from daskkcl.maps.base import Centres
from daskkcl.maps.explicit import IdentityMap
from daskkcl.maps.landmarks import RCOND, LandmarkMap
from daskkcl.random import Key
from daskkcl.rules.competitive import Rates, Winners, compete
from daskkcl.rules.fuzzy import best_fuzzy_run, collapse_bound, d2_seeds, distances_from, fuzzy_c_means
from daskkcl.rules.kernel_fuzzy import kernel_distances_from, weighted_kernel_fcm
from daskkcl.rules.lloyd import _lloyd_by, best_lloyd_run, lloyd, lloyd_from_seeds
from daskkcl.schedules.chunks import FAN_IN
from daskkcl.schedules.subsets import default_walk

N, C, D = 240, 4, 3
F64 = np.dtype(np.float64)
RCOND64 = RCOND[F64]
KERNELS = {
    "rbf": ({"kernel": "rbf", "gamma": 0.2}, lambda X, Y: rbf(X, Y, 0.2)),
    "polynomial": (
        {"kernel": "polynomial", "gamma": 0.3, "kernel_params": {"degree": 3, "coef0": 0.5}},
        lambda X, Y: polynomial(X, Y, 3, 0.3, 0.5),
    ),
    "linear": ({"kernel": "linear"}, lambda X, Y: polynomial(X, Y, 1, 1.0, 0.0)),
}
COMMON = {"n_clusters": C, "dtype": "float64", "random_state": 11, "progress": False}
PUBLISHED = {"rate_start": 1.0, "rate_end": 1e-5}


def make_rows(n, seed=5):
    """Overlapping blobs of unequal size: rows change sides for several rounds."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=1.3, size=(C, D))
    return centres[rng.choice(C, n, p=[0.4, 0.3, 0.2, 0.1])] + rng.normal(scale=0.8, size=(n, D))


@pytest.fixture(scope="module")
def X():
    return make_rows(N)


@pytest.fixture(scope="module", params=list(KERNELS))
def kernel(request):
    return KERNELS[request.param]


def landmark_coordinates(X, landmarks, twin_kernel):
    """Coordinates of all rows' projections on the landmarks' span and the squared lengths left over."""
    kappa = np.array([twin_kernel(x[None], x[None])[0, 0] for x in X])
    return coordinates(twin_kernel(X, landmarks), twin_kernel(landmarks, landmarks), kappa, RCOND64)


def random_labels(n, c, seed=3):
    return np.random.default_rng(seed).permutation(np.arange(n) % c)


def canonical_order(labels, c):
    """Clusters as the package numbers them: the largest first, ties by first row, empty ones last."""
    first = [int(np.flatnonzero(labels == k)[0]) if (labels == k).any() else len(labels) for k in range(c)]
    return sorted(range(c), key=lambda k: (-int(np.sum(labels == k)), first[k]))


def renumber(labels, order):
    numbers = {old: new for new, old in enumerate(order)}
    return np.array([numbers[int(k)] for k in labels])


def never_increases(values):
    return bool(np.all(np.diff(values) <= 1e-12 * abs(values[0])))


# --- approximate kernel k-means -------------------------------------------------------------------------------


def assert_kmeans_equals(model, X, twin, d):
    order = canonical_order(twin.labels, model.n_clusters_)
    assert_array_equal(model.labels_, renumber(twin.labels, order))
    assert_array_equal(model.cluster_sizes_, [np.sum(twin.labels == k) for k in order])
    assert model.n_iter_ == twin.n_iter
    assert_allclose(model.history_, twin.objective, rtol=1e-8)
    assert_allclose(model.objective_, d.min(axis=1).sum(), rtol=1e-8)
    assert_allclose(model.transform(X), np.sqrt(d[:, order]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("start", ["rows", "labels", "centres"])
def test_kmeans_equals_its_twin(X, kernel, start):
    parameters, twin_kernel = kernel
    landmarks = X[::9]
    Y, r = landmark_coordinates(X, landmarks, twin_kernel)
    if start == "rows":
        init = np.array([3, 77, 150, 201])
        centres0 = Y[init]
    elif start == "labels":
        init = random_labels(N, C)
        centres0 = kernel_kmeans.initial_centres_from_labels(Y, init, C)
    else:
        init = np.random.default_rng(8).normal(size=(C, D))
        centres0 = landmark_coordinates(init, landmarks, twin_kernel)[0]
    model = ApproxKernelKMeans(**COMMON, **parameters, landmarks=landmarks, init=init, tol=0).fit(X)
    twin = kernel_kmeans.approx_kernel_kmeans(Y, r, centres0, max_iter=100)
    assert twin.n_iter > 3, "the start is too good to show anything"
    assert (np.bincount(twin.labels, minlength=C) > 0).all()
    assert_kmeans_equals(model, X, twin, squared_distances(Y, r, twin.centres))
    assert never_increases(model.history_)


@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_kmeans_equals_its_twin_when_stopped_early(X, max_iter):
    parameters, twin_kernel = KERNELS["rbf"]
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    init = random_labels(N, C)
    with pytest.warns(match="still moving"):
        model = ApproxKernelKMeans(**COMMON, **parameters, landmarks=X[::9], init=init, tol=0, max_iter=max_iter).fit(X)
    start = kernel_kmeans.initial_centres_from_labels(Y, init, C)
    twin = kernel_kmeans.approx_kernel_kmeans(Y, r, start, max_iter)
    assert_kmeans_equals(model, X, twin, squared_distances(Y, r, twin.centres))


@pytest.mark.parametrize("name", ["rbf", "linear"])
def test_kmeans_with_all_rows_as_landmarks_is_exact_kernel_kmeans(X, name):
    parameters, twin_kernel = KERNELS[name]
    if name == "rbf":  # narrow enough for a kernel matrix that can be inverted
        parameters, twin_kernel = {"kernel": "rbf", "gamma": 3.0}, lambda X, Y: rbf(X, Y, 3.0)
    K = twin_kernel(X, X)
    init = random_labels(N, C)
    model = ApproxKernelKMeans(**COMMON, **parameters, landmarks=X, init=init, tol=0).fit(X)
    twin = kernel_kmeans.kernel_kmeans(K, init, 100)
    assert twin.n_iter > 3
    order = canonical_order(twin.labels, C)
    assert_array_equal(model.labels_, renumber(twin.labels, order))
    assert model.n_iter_ == twin.n_iter
    assert_allclose(model.history_, twin.objective, rtol=1e-8)
    d = kernel_distances(K, K, np.diag(K), twin.centres)[0]
    assert_allclose(model.transform(X), np.sqrt(d[:, order]), rtol=1e-7, atol=1e-7)


def test_kmeans_in_input_space_is_lloyd(X):
    init = X[[1, 2, 3, 4]] + 0.25
    model = ApproxKernelKMeans(**COMMON, map="identity", init=init, tol=0).fit(X)
    twin = kernel_kmeans.approx_kernel_kmeans(X, np.zeros(N), init, max_iter=100)
    assert twin.n_iter > 3
    assert_kmeans_equals(model, X, twin, squared_distances(X, np.zeros(N), twin.centres))


def test_kmeans_on_the_linear_kernel_is_lloyd(X):
    init = X[[1, 2, 3, 4]]
    model = ApproxKernelKMeans(**COMMON, kernel="linear", landmarks=X[:20], init=init, tol=0).fit(X)
    twin = kernel_kmeans.approx_kernel_kmeans(X, np.zeros(N), init, max_iter=100)
    assert_kmeans_equals(model, X, twin, squared_distances(X, np.zeros(N), twin.centres))


def test_kmeans_ignores_rows_without_a_label(X):
    """A negative label is nobody's: the start is the mean of the others."""
    parameters, twin_kernel = KERNELS["rbf"]
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    init = np.where(np.arange(N) % 3 == 0, -1, random_labels(N, C))
    model = ApproxKernelKMeans(**COMMON, **parameters, landmarks=X[::9], init=init, tol=0).fit(X)
    start = kernel_kmeans.initial_centres_from_labels(Y, init, C)
    twin = kernel_kmeans.approx_kernel_kmeans(Y, r, start, 100)
    assert_kmeans_equals(model, X, twin, squared_distances(Y, r, twin.centres))


def test_kmeans_tolerance_is_a_share_of_the_mean_squared_distance(X):
    parameters, twin_kernel = KERNELS["rbf"]
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    init, tol = random_labels(N, C), 1e-2
    centres, passes = kernel_kmeans.initial_centres_from_labels(Y, init, C), 0
    while True:
        one = kernel_kmeans.approx_kernel_kmeans(Y, r, centres, 1)
        passes += 1
        moved = np.sum((one.centres - centres) ** 2)
        centres = one.centres
        if moved <= tol * one.objective[0] / N:
            break
    model = ApproxKernelKMeans(**COMMON, **parameters, landmarks=X[::9], init=init, tol=tol).fit(X)
    assert model.n_iter_ == passes < kernel_kmeans.approx_kernel_kmeans(Y, r, centres, 100).n_iter + passes
    d = squared_distances(Y, r, centres)
    order = canonical_order(d.argmin(axis=1), C)
    assert_allclose(model.transform(X), np.sqrt(d[:, order]), rtol=1e-8)


def test_kmeans_gives_an_empty_cluster_the_worst_served_row(X):
    """Beyond the twin, where an empty cluster stays empty: it starts again at the row farthest from its centre."""
    init = np.concatenate([X[:1], 1e3 + X[:3]])
    model = ApproxKernelKMeans(**COMMON, map="identity", init=init, tol=0).fit(X)
    twin = kernel_kmeans.approx_kernel_kmeans(X, np.zeros(N), init, max_iter=100)
    assert_array_equal(np.bincount(twin.labels, minlength=C), [N, 0, 0, 0])
    assert (model.cluster_sizes_ > 0).all()
    assert model.objective_ < 0.6 * twin.objective[-1]


def test_lloyd_in_memory_equals_the_twin(X):
    init = X[[1, 2, 3, 4]]
    map_ = IdentityMap(np.zeros(D), F64)
    run = lloyd(X, np.sum(X**2, axis=1), Centres.from_means(init, map_), map_, 100)
    twin = kernel_kmeans.approx_kernel_kmeans(X, np.zeros(N), init, max_iter=100)
    assert_allclose(run.centres.means, twin.centres, rtol=1e-12)
    assert_array_equal(run.counts, np.bincount(twin.labels))
    assert_allclose(run.objective, twin.objective[-1])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_iter", [0, 1, 2, 100])
@pytest.mark.parametrize("n_distinct", [N, 6, 3])
def test_k_means_by_products_of_objects_is_k_means(X, n_distinct, max_iter, weighted):
    """With few distinct objects seeds repeat, and clusters are empty from the first step on."""
    X = X[np.arange(N) % n_distinct]
    map_ = LandmarkMap(Rbf(0.2), X[: min(40, n_distinct)], F64)
    Z, kappa = map_.measure(X)
    weights = np.random.default_rng(3).uniform(0.5, 2, N) if weighted else None
    P = Z @ map_.inverse @ Z.T
    one = best_lloyd_run(Z, kappa, map_, C, max_iter, 1, np.random.default_rng(1), weights=weights)
    other = lloyd_from_seeds(P, kappa, C, max_iter, np.random.default_rng(1), weights)
    assert_allclose(other.objective, one.objective, rtol=1e-9, atol=1e-9)
    assert_allclose(np.sort(other.counts), np.sort(one.counts), rtol=1e-12)
    if n_distinct == N:  # else two seeds on one spot are told apart by rounding
        assert_allclose(other.means(Z, weights), one.centres.means, rtol=1e-9)
        assert_allclose(other.counts, one.counts, rtol=1e-12)


def test_k_means_by_products_keeps_the_centre_of_a_cluster_that_loses_its_objects():
    X = np.array([[9.0, 9], [3, 0], [3, 4], [5, 2], [1, 0], [11, 1], [11, 9]])
    map_, kappa, seeds = IdentityMap(np.zeros(2), F64), np.sum(X**2, axis=1), np.array([6, 0, 5])
    one = lloyd(X, kappa, Centres.from_means(X[seeds], map_), map_, 100)
    assert_array_equal(one.counts, [2, 0, 5])
    other = _lloyd_by(X @ X.T, kappa, seeds, 100)
    assert_allclose(other.means(X, None), one.centres.means)
    assert_array_equal(other.counts, one.counts)
    assert_allclose(other.objective, one.objective)


# --- PAKCL ------------------------------------------------------------------------------------------------------


def orders_of(seed, n, epochs):
    return [Key(seed).child("order", epoch).rows(n, 0, n) for epoch in range(epochs)]


def assert_pakcl_equals(model, X, Y, r, twin, how):
    d = squared_distances(Y, r, twin.centres)
    labels = competitive.labels(Y, r, twin.centres, twin.counts, how)
    order = canonical_order(labels, len(twin.counts))
    assert_array_equal(model.labels_, renumber(labels, order))
    assert_array_equal(model.win_counts_, twin.counts[order])
    assert_allclose(model.transform(X), np.sqrt(d[:, order]), rtol=1e-8, atol=1e-8)
    winners = d[np.arange(len(labels)), labels]
    assert_allclose(model.objective_, winners.sum(), rtol=1e-8)
    assert model.n_iter_ == twin.n_epochs


@pytest.fixture(params=[False, True], ids=["in blocks", "few rows"])
def pakcl_way(request, monkeypatch):
    """Whether rows are met block by block, or measured once and met in coordinates."""
    monkeypatch.setattr("daskkcl.estimators.competitive.are_few", lambda *_: request.param)


@pytest.mark.usefixtures("pakcl_way")
@pytest.mark.parametrize("how", ["frequency", "nearest"])
def test_pakcl_equals_its_twin(X, kernel, how):
    parameters, twin_kernel = kernel
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    init, epochs, subset = random_labels(N, C), 4, 32  # the last subset of an epoch is short
    parameters = parameters | PUBLISHED | {"init": init, "labels": how}
    model = PAKCL(**COMMON, **parameters, landmarks=X[::9], subset_size=subset, max_epochs=epochs, tol=0).fit(X)
    start = kernel_kmeans.initial_centres_from_labels(Y, init, C)
    twin = competitive.pakcl(Y, r, start, np.bincount(init).astype(float), orders_of(11, N, epochs), subset, tol=0)
    assert_pakcl_equals(model, X, Y, r, twin, how)


@pytest.mark.usefixtures("pakcl_way")
@pytest.mark.parametrize("subset", [1, 7, N, 10 * N])
def test_pakcl_equals_its_twin_for_any_subset_size(X, subset):
    parameters, twin_kernel = KERNELS["rbf"]
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    init = random_labels(N, C)
    parameters = parameters | PUBLISHED | {"init": init}
    model = PAKCL(**COMMON, **parameters, landmarks=X[::9], subset_size=subset, max_epochs=2, tol=0).fit(X)
    start = kernel_kmeans.initial_centres_from_labels(Y, init, C)
    twin = competitive.pakcl(Y, r, start, np.bincount(init).astype(float), orders_of(11, N, 2), subset, tol=0)
    assert_pakcl_equals(model, X, Y, r, twin, "frequency")


@pytest.mark.usefixtures("pakcl_way")
def test_pakcl_of_single_rows_is_akcl(X):
    parameters, twin_kernel = KERNELS["rbf"]
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    init = random_labels(N, C)
    model = PAKCL(**COMMON, **parameters, landmarks=X[::9], init=init, subset_size=1, max_epochs=2, tol=0).fit(X)
    start = kernel_kmeans.initial_centres_from_labels(Y, init, C)
    twin = competitive.akcl(Y, r, start, np.bincount(init).astype(float), orders_of(11, N, 2), tol=0)
    assert_pakcl_equals(model, X, Y, r, twin, "frequency")


@pytest.mark.usefixtures("pakcl_way")
@pytest.mark.parametrize("rates", [(1.0, 1e-5), (0.5, 0.5), (0.9, 0.02), None])
def test_pakcl_equals_its_twin_at_other_rates(X, rates):
    parameters, twin_kernel = KERNELS["rbf"]
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    init = random_labels(N, C)
    model = PAKCL(
        **COMMON,
        **parameters,
        landmarks=X[::9],
        init=init,
        subset_size=50,
        max_epochs=3,
        tol=0,
        **({} if rates is None else {"rate_start": rates[0], "rate_end": rates[1]}),
    ).fit(X)
    rates = rates or (0.2, 0.01)
    start = kernel_kmeans.initial_centres_from_labels(Y, init, C)
    twin = competitive.pakcl(Y, r, start, np.bincount(init).astype(float), orders_of(11, N, 3), 50, *rates, tol=0)
    assert_pakcl_equals(model, X, Y, r, twin, "frequency")


@pytest.mark.usefixtures("pakcl_way")
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-4])
def test_pakcl_stops_when_its_twin_stops(X, tol):
    parameters, twin_kernel = KERNELS["rbf"]
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    init, epochs = random_labels(N, C), 20
    parameters = parameters | PUBLISHED | {"init": init}
    model = PAKCL(**COMMON, **parameters, landmarks=X[::9], subset_size=50, max_epochs=epochs, tol=tol).fit(X)
    start = kernel_kmeans.initial_centres_from_labels(Y, init, C)
    twin = competitive.pakcl(Y, r, start, np.bincount(init).astype(float), orders_of(11, N, epochs), 50, tol=tol)
    assert 1 < twin.n_epochs < epochs
    assert_pakcl_equals(model, X, Y, r, twin, "frequency")
    assert len(model.history_) == twin.n_epochs
    assert model.history_[-1] < tol <= min(model.history_[:-1])


@pytest.mark.usefixtures("pakcl_way")
@pytest.mark.parametrize("start", ["rows", "centres"])
def test_pakcl_from_rows_starts_with_one_win_each(X, start):
    parameters, twin_kernel = KERNELS["rbf"]
    rows = np.array([3, 77, 150, 201])
    init = rows if start == "rows" else X[rows]
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    parameters = parameters | PUBLISHED | {"init": init}
    model = PAKCL(**COMMON, **parameters, landmarks=X[::9], subset_size=30, max_epochs=3, tol=0).fit(X)
    twin = competitive.pakcl(Y, r, Y[rows], np.ones(C), orders_of(11, N, 3), 30, tol=0)
    assert_pakcl_equals(model, X, Y, r, twin, "frequency")


def test_pakcl_in_input_space_equals_its_twin(X):
    init = random_labels(N, C)
    model = PAKCL(**COMMON, **PUBLISHED, map="identity", init=init, subset_size=30, max_epochs=3, tol=0).fit(X)
    start = kernel_kmeans.initial_centres_from_labels(X, init, C)
    none = np.zeros(N)
    twin = competitive.pakcl(X, none, start, np.bincount(init).astype(float), orders_of(11, N, 3), 30, tol=0)
    assert_pakcl_equals(model, X, X, none, twin, "frequency")


@pytest.mark.usefixtures("pakcl_way")
def test_pakcl_from_random_labels_of_a_sample(X):
    """Labels for the rows of the sample (all rows here), drawn by the key's generator."""
    parameters, twin_kernel = KERNELS["rbf"]
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    sample = orders_of(11, N, 1)[0]
    rng = Key(11).child("init").generator()
    labels = np.concatenate([np.arange(C), rng.integers(0, C, N - C)])[rng.permutation(N)]
    start = kernel_kmeans.initial_centres_from_labels(Y[sample], labels, C)
    parameters = parameters | PUBLISHED | {"init": "random-labels"}
    model = PAKCL(**COMMON, **parameters, landmarks=X[::9], subset_size=30, max_epochs=3, tol=0).fit(X)
    counts = np.bincount(labels).astype(float)
    twin = competitive.pakcl(Y, r, start, counts, orders_of(11, N, 3), 30, tol=0)
    assert_pakcl_equals(model, X, Y, r, twin, "frequency")


def test_default_walk():
    for n in (1, 99, 100, 5_000, 70_000, 10**6, 10**8):
        rows, epochs = default_walk(n, None, None)
        updates = math.ceil(n / rows) * epochs
        assert 1 <= rows <= min(n, 8192)
        assert updates >= 400 or epochs == 100
    assert default_walk(1000, 10, 3) == (10, 3)


@pytest.mark.parametrize("eta", [1.0, 0.3])
def test_compete_is_one_subset_of_the_twin(X, eta):
    parameters, twin_kernel = KERNELS["rbf"]
    landmarks = X[::9]
    Y, r = landmark_coordinates(X, landmarks, twin_kernel)
    map_ = LandmarkMap(Rbf(0.2), landmarks, F64)
    Z, kappa = map_.measure(X)
    rows = np.array([3, 77, 150, 201])
    counts = np.array([60.0, 1.0, 5.0, 20.0])
    state = compete(Winners(Centres.from_means(Z[rows], map_), counts), Z, kappa, eta, map_)
    twin = competitive.pakcl(Y, r, Y[rows], counts, [np.arange(N)], N, eta, eta, tol=0)
    assert_array_equal(state.counts, twin.counts)
    moved = Winners(Centres.from_means(Z[rows], map_), counts)
    d = squared_distances(Y, r, twin.centres)
    assert_allclose(state.centres.norms, np.sum(twin.centres**2, axis=1), rtol=1e-9)
    assert_allclose(kappa[:, None] - 2 * Z @ state.centres.coefficients.T + state.centres.norms, d, atol=1e-9)
    assert_array_equal(state.rule.labels(d), competitive.winners_of(d, twin.counts, "frequency"))
    assert compete(moved, Z[:0], kappa[:0], eta, map_) is moved


def test_a_centre_that_wins_nothing_stays():
    map_ = IdentityMap(np.zeros(1), F64)
    start = Centres.from_means(np.array([[0.0], [100.0]]), map_)
    state = compete(Winners(start, np.array([1.0, 1.0])), np.array([[1.0], [3.0]]), np.array([1.0, 9.0]), 0.5, map_)
    assert_array_equal(state.centres.means, [[1.0], [100.0]])
    assert_array_equal(state.counts, [3, 1])


def test_rates_are_the_papers():
    n, t_max = 37, 5
    rates = Rates(1.0, 1e-5)
    for i, epoch in itertools.product((1, 20, n), (1, 3, t_max)):
        twin = competitive.learning_rate(i, epoch, n, t_max, 1.0, 1e-5)
        assert_allclose(rates(((epoch - 1) * n + i) / (t_max * n)), twin, rtol=1e-12)
    assert rates(0.0) == 1.0
    assert_allclose(rates(1.0), 1e-5)


# --- online KFCM, landmark form ---------------------------------------------------------------------------------


def chunks_of(n, rows):
    return [np.arange(first, min(n, first + rows)) for first in range(0, n, rows)]


def memberships_of(Y, r, V, m):
    kappa = np.sum(Y**2, axis=1) + r
    return fuzzy.memberships(squared_distances(Y, r, V), kappa[:, None] + np.sum(V**2, axis=1), m)


def assert_fuzzy_equals(model, X, U):
    order = canonical_order(U.argmax(axis=1), U.shape[1])
    assert_allclose(model.membership_, U[:, order], atol=1e-6)
    assert_array_equal(model.labels_, renumber(U.argmax(axis=1), order))
    assert_array_equal(model.predict_proba(X), model.membership_)
    assert_allclose(model.membership_.sum(axis=1), 1)


@pytest.mark.parametrize(
    "n, chunk, levels",
    [(260, 10, 2), (1130, 10, 3), (1000, 10, 3), (240, 1000, 1), (95, 10, 1), (262, 13, 2)],
    ids=["two levels", "three levels", "three levels, full", "one chunk", "no merge", "other chunk size"],
)
def test_okfcm_equals_its_twin(n, chunk, levels):
    X = make_rows(n, seed=n)
    parameters, twin_kernel = KERNELS["rbf"]
    m, tol, max_iter = 1.4, 1e-3, 100
    landmarks = X[: 9 * 20 : 9]
    Y, r = landmark_coordinates(X, landmarks, twin_kernel)
    init = np.array([3, 17, 50, 81])
    model = OnlineKFCM(
        **COMMON,
        **parameters,
        landmarks=landmarks,
        init=init,
        chunk_size=chunk,
        fuzzifier=m,
        tol=tol,
        max_iter=max_iter,
    ).fit(X)
    chunks = chunks_of(n, chunk)
    assert len(str(len(chunks) - 1 if levels == 1 else len(chunks))) >= levels  # FAN_IN is ten: digits are levels
    V, _ = fuzzy.okfcm_landmark(
        Y, r, chunks, [Y[init]] * len(chunks), m, tol, max_iter, FAN_IN, lambda points, weights: Y[init]
    )
    U = memberships_of(Y, r, V, m)
    assert_fuzzy_equals(model, X, U)
    assert never_increases(model.history_)
    assert model.fuzzifier_ == m
    assert_allclose(model.objective_, np.sum(U**m * squared_distances(Y, r, V)), rtol=1e-6)


@pytest.mark.parametrize("start", ["labels", "centres"])
def test_okfcm_equals_its_twin_from_other_starts(X, kernel, start):
    parameters, twin_kernel = kernel
    m, tol, max_iter = 1.3, 1e-5, 50
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    if start == "labels":
        init = np.minimum(np.argsort(np.argsort(X[:, 0])) // 50, C - 1)
        V0 = kernel_kmeans.initial_centres_from_labels(Y, init, C)
    else:
        init = X[[3, 17, 50, 81]] + 0.1
        V0 = landmark_coordinates(init, X[::9], twin_kernel)[0]
    model = OnlineKFCM(
        **COMMON, **parameters, landmarks=X[::9], init=init, chunk_size=15, fuzzifier=m, tol=tol, max_iter=max_iter
    ).fit(X)
    chunks = chunks_of(N, 15)
    V, _ = fuzzy.okfcm_landmark(Y, r, chunks, [V0] * len(chunks), m, tol, max_iter, FAN_IN, lambda p, w: V0)
    assert_fuzzy_equals(model, X, memberships_of(Y, r, V, m))


@pytest.mark.parametrize("fuzzifier", [1.1, 1.7])
def test_okfcm_equals_its_twin_at_other_fuzzifiers(X, fuzzifier):
    init = np.array([3, 17, 50, 81])
    model = OnlineKFCM(**COMMON, map="identity", init=init, chunk_size=20, fuzzifier=fuzzifier).fit(X)
    none, chunks = np.zeros(N), chunks_of(N, 20)
    V, _ = fuzzy.okfcm_landmark(
        X, none, chunks, [X[init]] * len(chunks), fuzzifier, 1e-3, 100, FAN_IN, lambda p, w: X[init]
    )
    assert_fuzzy_equals(model, X, memberships_of(X, none, V, fuzzifier))


@pytest.mark.parametrize("max_passes", [2, 4, 30])
def test_okfcm_goes_on_with_streamed_passes(X, max_passes):
    parameters, twin_kernel = KERNELS["rbf"]
    m = 1.4
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    init = np.array([3, 17, 50, 81])
    with np.errstate(all="raise"):
        model = OnlineKFCM(
            **COMMON, **parameters, landmarks=X[::9], init=init, chunk_size=10, fuzzifier=m, max_passes=max_passes
        ).fit(X)
    chunks = chunks_of(N, 10)
    V, _ = fuzzy.okfcm_landmark(Y, r, chunks, [Y[init]] * len(chunks), m, 1e-3, 100, FAN_IN, lambda p, w: Y[init])
    history = []
    for _ in range(max_passes - 1):
        V, J = fuzzy.streamed_pass(Y, r, V, m)
        history.append(J)
        if len(history) > 1 and history[-2] - history[-1] <= 1e-4 * history[-2]:
            break
    assert len(history) > 1 or max_passes == 2
    assert max_passes != 30 or len(history) < 29, "it should have settled"
    assert_allclose(model.history_, history, rtol=1e-8)
    assert model.n_iter_ == len(history)
    assert_fuzzy_equals(model, X, memberships_of(Y, r, V, m))
    assert never_increases([*model.history_, model.objective_])


def test_okfcm_with_all_rows_as_landmarks_in_one_chunk_is_kfcm(X):
    """One chunk, all rows landmarks, streamed to convergence: the fixed point of exact kernel fuzzy c-means."""
    gamma, m = 1.0, 1.15
    K = rbf(X, X, gamma)
    init = np.array([3, 77, 150, 201])
    model = OnlineKFCM(
        **COMMON, gamma=gamma, landmarks=X, init=init, chunk_size=N, fuzzifier=m, tol=1e-18, max_iter=2000
    ).fit(X)
    exact = fuzzy.wkfcm(K, None, np.ones(N), fuzzy.one_hot(init, N), m, 1e-18, 2000)
    # one chunk gives c centres, and the final run sits still on them
    assert_fuzzy_equals(model, X, exact.U)


# --- online KFCM, literal form ------------------------------------------------------------------------------------


def literal_twin(X, start_rows, twin_kernel, order, chunk, m, tol, max_iter, how):
    """Algorithm 6 on the shuffled rows; the starting rows join every run as objects of weight zero."""
    c = len(start_rows)

    def run(rows, weights):
        joined = np.concatenate([rows, start_rows])
        A0 = fuzzy.one_hot(np.arange(len(rows), len(joined)), len(joined))
        K = twin_kernel(joined, joined)
        return fuzzy.wkfcm(K, None, np.concatenate([weights, np.zeros(c)]), A0, m, tol, max_iter), joined

    prototypes, weights = [], []
    for first in range(0, len(order), chunk):
        rows = X[order[first : first + chunk]]
        result, _ = run(rows, np.ones(len(rows)))
        prototypes.append(rows[result.prototypes])
        weights.append(result.U[: len(rows)].sum(axis=0))
    result, joined = run(np.concatenate(prototypes), np.concatenate(weights))
    kappa = np.array([twin_kernel(x[None], x[None])[0, 0] for x in X])
    U = fuzzy.extend(twin_kernel(X, joined), twin_kernel(joined, joined), kappa, result.A, result.prototypes, how, m)
    return U, result


@pytest.mark.parametrize("how", ["centres", "prototypes"])
@pytest.mark.parametrize("start", ["rows", "centres"])
def test_literal_okfcm_equals_its_twin(X, kernel, how, start):
    parameters, twin_kernel = kernel
    m, tol, max_iter, chunk = 1.4, 1e-3, 100, 50  # the last chunk is short
    rows = np.array([3, 77, 150, 201])
    start_rows = X[rows] if start == "rows" else X[rows] + 0.3
    model = OnlineKFCM(
        **COMMON,
        **parameters,
        form="literal",
        extend=how,
        init=rows if start == "rows" else start_rows,
        chunk_size=chunk,
        fuzzifier=m,
        tol=tol,
        max_iter=max_iter,
    ).fit(X)
    order = orders_of(11, N, 1)[0]
    U, result = literal_twin(X, start_rows, twin_kernel, order, chunk, m, tol, max_iter, how)
    assert_fuzzy_equals(model, X, U)
    assert_allclose(model.history_, result.objective, rtol=1e-8)
    assert model.n_iter_ == result.n_iter
    assert never_increases(model.history_)


@pytest.mark.parametrize("how", ["centres", "prototypes"])
def test_literal_okfcm_keeps_a_centre_without_mass(how):
    """A centre that no row has a share in stays at its starting row, and new rows there belong to it."""
    X = np.repeat([[0.0, 0.0], [3.0, 0.0]], [30, 20], axis=0)
    start_rows = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    with pytest.warns(match="no rows"):
        model = OnlineKFCM(
            3, gamma=0.1, form="literal", extend=how, init=start_rows, chunk_size=10, fuzzifier=1.5, dtype="float64",
            random_state=11,
        ).fit(X)  # fmt: skip
    U, result = literal_twin(
        X, start_rows, lambda X, Y: rbf(X, Y, 0.1), orders_of(11, 50, 1)[0], 10, 1.5, 1e-3, 100, how
    )
    assert_allclose(model.membership_, U, atol=1e-6)
    assert_array_equal(model.cluster_sizes_, [30, 20, 0])
    if how == "centres":
        new = np.array([[0.0, 4.0], [0.1, 3.0]])
        assert_array_equal(model.predict(new), [2, 2])
        assert_allclose(model.transform(new)[:, 2] ** 2, 2 - 2 * rbf(new, start_rows[2:], 0.1)[:, 0], atol=1e-7)


SEEDS = np.array([0, 70, 150, 200])

# --- rules in memory ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(X):
    """The same objects as measurements (Z, kappa) of the landmark map and as coordinates (Y, r) of the twins."""
    landmarks = X[::9]
    map_ = LandmarkMap(Rbf(0.2), landmarks, F64)
    Y, r = landmark_coordinates(X, landmarks, KERNELS["rbf"][1])
    return (*map_.measure(X), map_, Y, r)


def weights_of(kind, n=N):
    rng = np.random.default_rng(1)
    w = {
        "ones": np.ones(n),
        "real": rng.uniform(0.1, 5.0, n),
        "some zero": rng.integers(0, 4, n).astype(float),
        "mostly zero": (np.arange(n) % 10 == 0) * rng.uniform(0.1, 5.0, n),
    }[kind]
    w[SEEDS] = np.maximum(w[SEEDS], 1)
    return w


@pytest.mark.parametrize("weights", ["ones", "real", "some zero", "mostly zero"])
@pytest.mark.parametrize("m, tol, max_iter", [(1.4, 1e-3, 100), (1.4, 1e-12, 7), (1.2, 1e-6, 500), (2.0, 1e-6, 50)])
def test_fuzzy_c_means_equals_the_twin(measured, weights, m, tol, max_iter):
    Z, kappa, map_, Y, r = measured
    w = weights_of(weights)
    run = fuzzy_c_means(Z, kappa, w, Centres.from_means(Z[SEEDS], map_), map_, m, tol, max_iter)
    twin = fuzzy.wfcm(Y, r, w, Y[SEEDS], m, tol, max_iter)
    assert run.n_iter == len(twin.objective) - 1
    assert_allclose(run.objective, twin.objective, rtol=1e-8)
    assert_allclose(run.masses, twin.omega, rtol=1e-6)
    d = kappa[:, None] - 2 * Z @ run.centres.coefficients.T + run.centres.norms
    assert_allclose(d, squared_distances(Y, r, twin.V), atol=1e-8)
    assert never_increases(run.objective)
    assert run.converged == (run.n_iter < max_iter)


def test_integer_weights_are_repeated_rows(measured):
    Z, kappa, map_, _, _ = measured
    w = weights_of("some zero")
    start = Centres.from_means(Z[SEEDS], map_)
    again = np.repeat(np.arange(N), w.astype(int))
    one = fuzzy_c_means(Z, kappa, w, start, map_, 1.4, 1e-3, 100)
    two = fuzzy_c_means(Z[again], kappa[again], np.ones(len(again)), start, map_, 1.4, 1e-3, 100)
    assert one.n_iter == two.n_iter
    assert_allclose(one.centres.means, two.centres.means, rtol=1e-9)
    assert_allclose(one.masses, two.masses, rtol=1e-9)
    assert_allclose(one.objective, two.objective, rtol=1e-9)


def test_fuzzy_c_means_exact_cases():
    """A row on two centres is shared equally between them; a centre without mass stays."""
    map_ = IdentityMap(np.zeros(1), F64)
    X = np.array([[0.0], [0.0], [5.0]])
    start = Centres.from_means(np.array([[0.0], [0.0], [5.0], [50.0]]), map_)
    run = fuzzy_c_means(X, X[:, 0] ** 2, np.ones(3), start, map_, 2.0, 1e-3, 10)
    assert_array_equal(run.masses, [0.5, 0.5, 1.0, 0.0])
    assert_array_equal(run.centres.means, start.means)
    assert run.objective == (0.0, 0.0)


@pytest.mark.parametrize("weights", ["ones", "real", "some zero", "mostly zero"])
@pytest.mark.parametrize("m, tol, max_iter", [(1.4, 1e-3, 100), (1.4, 1e-12, 0), (1.2, 1e-6, 500)])
def test_weighted_kernel_fcm_equals_the_twin(X, weights, m, tol, max_iter):
    K = rbf(X, X, 0.2) * np.outer(np.linspace(0.7, 1.4, N), np.linspace(0.7, 1.4, N))
    w, A0 = weights_of(weights), fuzzy.one_hot(SEEDS, N)
    run = weighted_kernel_fcm(K, w, A0, m, tol, max_iter)
    twin = fuzzy.wkfcm(K, None, w, A0, m, tol, max_iter)
    assert run.n_iter == twin.n_iter
    assert_allclose(run.U, twin.U, atol=1e-9)
    assert_allclose(run.A, twin.A, atol=1e-9)
    assert_allclose(run.distances, twin.d, atol=1e-9)
    assert_array_equal(run.prototypes, twin.prototypes)
    assert_allclose(run.objective, twin.objective, rtol=1e-9)
    assert_allclose(run.norms, np.einsum("ic,ij,jc->c", run.A, K, run.A), rtol=1e-9)
    assert never_increases(run.objective)


def test_weighted_kernel_fcm_with_integer_weights_is_repeated_rows(X):
    K, w = rbf(X, X, 0.2), weights_of("some zero")
    again = np.repeat(np.arange(N), w.astype(int))
    seeds = [int(np.flatnonzero(again == row)[0]) for row in SEEDS]
    one = weighted_kernel_fcm(K, w, fuzzy.one_hot(SEEDS, N), 1.4, 1e-3, 100)
    two = weighted_kernel_fcm(
        K[np.ix_(again, again)], np.ones(len(again)), fuzzy.one_hot(seeds, len(again)), 1.4, 1e-3, 100
    )
    assert_allclose(one.U[again], two.U, atol=1e-9)
    assert_array_equal(one.prototypes, again[two.prototypes])
    assert_allclose(one.objective, two.objective, rtol=1e-9)


def test_best_fuzzy_run_keeps_the_lowest(measured):
    Z, kappa, map_, _, _ = measured
    w, start = weights_of("real"), Centres.from_means(Z[[0, 1, 2, 3]], map_)
    arguments = (Z, kappa, w, map_, C, 1.4, 1e-6, 100)
    several = best_fuzzy_run(*arguments, n_init=4, rng=np.random.default_rng(0), also=start)
    rng = np.random.default_rng(0)
    runs = [best_fuzzy_run(*arguments, n_init=1, rng=rng) for _ in range(4)]
    runs.append(best_fuzzy_run(*arguments, n_init=0, rng=rng, also=start))
    assert several.objective[-1] == min(run.objective[-1] for run in runs)
    random = best_fuzzy_run(*arguments, n_init=1, rng=np.random.default_rng(0), seeding="random")
    seeds = np.random.default_rng(0).choice(N, C, replace=False)
    twin = fuzzy.wfcm(*measured[3:], w, measured[3][seeds], 1.4, 1e-6, 100)
    assert_allclose(random.objective, twin.objective, rtol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_d2_seeds_find_separate_blobs(seed):
    rng = np.random.default_rng(seed)
    blob = rng.permutation(np.arange(60) % 6)
    X = 100.0 * np.eye(6)[blob] + rng.normal(size=(60, 6))
    map_ = IdentityMap(np.zeros(6), F64)
    by_map = d2_seeds(distances_from(X, np.sum(X**2, axis=1), map_), np.ones(60), 6, np.random.default_rng(seed))
    by_kernel = d2_seeds(kernel_distances_from(X @ X.T), np.ones(60), 6, np.random.default_rng(seed))
    assert sorted(blob[by_map]) == list(range(6))
    assert_array_equal(by_map, by_kernel)


def test_d2_seeds_leave_out_weight_zero_and_repeat_when_nothing_is_left(X):
    distances = kernel_distances_from(rbf(X, X, 0.2))
    w = (np.arange(N) % 7 == 0).astype(float)
    w[0] = w[N - 1] = 0  # at both ends, where a careless draw lands
    for seed in range(30):
        seeds = d2_seeds(distances, w, 8, np.random.default_rng(seed))
        assert (w[seeds] > 0).all()
        assert len(set(seeds.tolist())) == 8
    same = d2_seeds(
        lambda objects: np.zeros((5, len(objects))), np.array([0.0, 1, 1, 1, 0]), 4, np.random.default_rng(0)
    )
    assert set(same.tolist()) <= {1, 2, 3}
    assert len(d2_seeds(distances, w, 1, np.random.default_rng(0))) == 1


def test_d2_seeds_follow_weights():
    """The first seed is drawn by weight alone."""
    w = np.array([1.0, 0.0, 3.0])
    distances = kernel_distances_from(np.eye(3))
    first = [int(d2_seeds(distances, w, 1, np.random.default_rng(seed))[0]) for seed in range(2000)]
    assert_allclose(np.bincount(first, minlength=3) / 2000, [0.25, 0.0, 0.75], atol=0.04)


def test_collapse_bound_is_its_formula(X):
    K = rbf(X, X, 0.2) * np.outer(np.linspace(0.7, 1.4, N), np.linspace(0.7, 1.4, N))
    H = np.eye(N) - 1 / N
    G = H @ K @ H
    G = G / np.sqrt(np.outer(np.diag(G), np.diag(G)))
    top = np.linalg.eigvalsh(G)[-1] / N
    assert_allclose(collapse_bound(K), 1 / (1 - 2 * top), rtol=1e-10)
    assert_allclose(collapse_bound(7 * K + 3), collapse_bound(K), rtol=1e-8)  # neither scale nor shift counts
    assert collapse_bound(np.ones((5, 5))) == math.inf
    assert collapse_bound(np.eye(2)) == math.inf
    two = np.kron(np.eye(2), np.ones((5, 5)))
    assert collapse_bound(two) == math.inf  # one direction holds everything


def test_memberships_collapse_above_the_bound_only():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 12))
    X /= np.linalg.norm(X - X.mean(axis=0), axis=1)[:, None]
    K = X @ X.T
    bound = collapse_bound(K)
    assert 1.1 < bound < 1.6
    A0 = np.full((200, 3), 1 / 200) + 1e-3 * rng.normal(size=(200, 3))
    A0 /= A0.sum(axis=0)
    above = weighted_kernel_fcm(K, np.ones(200), A0, 1 + 1.4 * (bound - 1), 1e-16, 1000)
    below = weighted_kernel_fcm(K, np.ones(200), A0, 1 + 0.6 * (bound - 1), 1e-16, 1000)
    assert_allclose(above.U, 1 / 3, atol=1e-5)
    assert below.U.max() > 0.9


# --- dropped rows ---------------------------------------------------------------------------------------------------


def with_bad_rows(X):
    """Every eleventh row has a NaN or an infinity somewhere."""
    bad = np.arange(N) % 11 == 5
    spoilt = X.copy()
    spoilt[bad, np.flatnonzero(bad) % D] = np.where(np.arange(bad.sum()) % 2, np.nan, np.inf)
    return spoilt, bad


def test_dropped_rows_have_no_part_in_kmeans(X):
    parameters, twin_kernel = KERNELS["rbf"]
    spoilt, bad = with_bad_rows(X)
    Y, r = landmark_coordinates(X[~bad], X[:25], twin_kernel)
    init = random_labels(N, C)
    model = ApproxKernelKMeans(**COMMON, **parameters, landmarks=X[:25], init=init, tol=0, nan="drop").fit(spoilt)
    start = kernel_kmeans.initial_centres_from_labels(Y, init[~bad], C)
    twin = kernel_kmeans.approx_kernel_kmeans(Y, r, start, 100)
    order = canonical_order(twin.labels, C)
    assert_array_equal(model.labels_[~bad], renumber(twin.labels, order))
    assert (model.labels_[bad] == -1).all()
    assert_allclose(model.history_, twin.objective, rtol=1e-8)
    distances = model.transform(spoilt)
    assert np.isnan(distances[bad]).all()
    assert_allclose(distances[~bad], np.sqrt(squared_distances(Y, r, twin.centres)[:, order]), rtol=1e-8)


def test_dropped_rows_have_no_part_in_okfcm(X):
    parameters, twin_kernel = KERNELS["rbf"]
    spoilt, bad = with_bad_rows(X)
    Y, r = landmark_coordinates(X, X[:25], twin_kernel)
    init, m = np.array([3, 17, 50, 81]), 1.4
    assert not bad[init].any()
    model = OnlineKFCM(**COMMON, **parameters, landmarks=X[:25], init=init, chunk_size=10, fuzzifier=m, nan="drop").fit(
        spoilt
    )
    chunks = [chunk[~bad[chunk]] for chunk in chunks_of(N, 10)]
    V, _ = fuzzy.okfcm_landmark(Y, r, chunks, [Y[init]] * len(chunks), m, 1e-3, 100, FAN_IN, lambda p, w: Y[init])
    U = memberships_of(Y[~bad], r[~bad], V, m)
    order = canonical_order(U.argmax(axis=1), C)
    assert_allclose(model.membership_[~bad], U[:, order], atol=1e-6)
    assert np.isnan(model.membership_[bad]).all()


@pytest.mark.parametrize("model", [ApproxKernelKMeans, PAKCL, OnlineKFCM])
def test_a_dropped_row_cannot_be_a_start(X, model):
    """Row 5 has an infinity: no centre can begin there, and the error says so."""
    spoilt, bad = with_bad_rows(X)
    assert bad[5]
    with pytest.raises(ValueError, match=r"init.*row 5\b"):
        model(**COMMON, init=np.array([3, 5, 50, 81]), nan="drop").fit(spoilt)
