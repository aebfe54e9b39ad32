"""The competitive family equals its slow twins, for the same start and order, in float64."""

import warnings

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference import competitive, kernel_kmeans, seeds
from reference.algebra import coordinates, kernel_distances, polynomial, rbf, squared_distances

import daskkcl
from daskkcl import AKCL, CPCL, KCL, PAKCL, FastKSCL, KernelCPCL, KernelKMeans, LandmarkCPCL
from daskkcl.errors import ConvergenceWarning, InvalidInputError, MemoryLimitError, WrongTypeError
from daskkcl.maps.landmarks import RCOND
from daskkcl.random import Key
from daskkcl.rules.sequential import Seeds, SequentialRule

N, C, D, SEED = 150, 4, 3, 11
COMMON = {"dtype": "float64", "random_state": SEED, "progress": False}
KERNELS = {
    "rbf": ({"kernel": "rbf", "gamma": 0.2}, lambda X, Y: rbf(X, Y, 0.2)),
    "polynomial": (
        {"kernel": "polynomial", "gamma": 0.3, "kernel_params": {"degree": 3, "coef0": 0.5}},
        lambda X, Y: polynomial(X, Y, 3, 0.3, 0.5),
    ),
}
NARROW = ({"kernel": "rbf", "gamma": 3.0}, lambda X, Y: rbf(X, Y, 3.0))  # a kernel matrix that can be inverted
LINEAR = ({"kernel": "linear"}, lambda X, Y: polynomial(X, Y, 1, 1.0, 0.0))


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(5)
    centres = rng.normal(scale=1.3, size=(C, D))
    return centres[rng.choice(C, N, p=[0.4, 0.3, 0.2, 0.1])] + rng.normal(scale=0.8, size=(N, D))


@pytest.fixture(scope="module", params=KERNELS)
def kernel(request):
    return KERNELS[request.param]


def order_of(epoch, seed=SEED, n=N):
    return Key(seed).child("order", epoch).rows(n, 0, n)


def landmark_coordinates(X, landmarks, twin_kernel):
    kappa = np.array([twin_kernel(x[None], x[None])[0, 0] for x in X])
    return coordinates(twin_kernel(X, landmarks), twin_kernel(landmarks, landmarks), kappa, RCOND[np.dtype("float64")])


def random_labels(n=N, c=C):
    return np.random.default_rng(3).permutation(np.arange(n) % c)


def by_size(labels, c):
    first = [int(np.flatnonzero(labels == k)[0]) if (labels == k).any() else len(labels) for k in range(c)]
    return sorted(range(c), key=lambda k: (-int(np.sum(labels == k)), first[k]))


def assert_same_clusters(model, X, d, labels):
    """The model has these squared distances and labels, its clusters numbered by size."""
    order = by_size(labels, d.shape[1])
    assert_array_equal(model.labels_, np.argsort(order)[labels])
    assert_allclose(model.transform(X), np.sqrt(d[:, order]), rtol=1e-8, atol=1e-8)


# --- KCL, AKCL, PAKCL ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["labels", "rows", "centres"])
@pytest.mark.parametrize("how", ["frequency", "nearest"])
def test_akcl_equals_its_twin(X, kernel, start, how):
    parameters, twin_kernel = kernel
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    init = {"labels": random_labels(), "rows": np.array([3, 77, 120, 41]), "centres": X[[3, 77, 120, 41]]}[start]
    counts = np.bincount(init).astype(float) if start == "labels" else np.ones(C)
    first = kernel_kmeans.initial_centres_from_labels(Y, init, C) if start == "labels" else Y[[3, 77, 120, 41]]
    model = AKCL(C, **COMMON, **parameters, landmarks=X[::9], init=init, labels=how, max_epochs=3, tol=0).fit(X)
    twin = competitive.akcl(Y, r, first, counts, [order_of(e) for e in range(3)], tol=0)
    d = squared_distances(Y, r, twin.centres)
    assert_same_clusters(model, X, d, competitive.labels(Y, r, twin.centres, twin.counts, how))
    assert sorted(model.win_counts_) == sorted(twin.counts)
    assert model.n_iter_ == twin.n_epochs


@pytest.mark.parametrize("tol", [1e-1, 1e-3])
def test_akcl_stops_when_its_twin_stops(X, tol):
    parameters, twin_kernel = KERNELS["rbf"]
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    init = random_labels()
    model = AKCL(C, **COMMON, **parameters, landmarks=X[::9], init=init, max_epochs=20, tol=tol).fit(X)
    first = kernel_kmeans.initial_centres_from_labels(Y, init, C)
    twin = competitive.akcl(Y, r, first, np.bincount(init).astype(float), [order_of(e) for e in range(20)], tol=tol)
    assert 1 < twin.n_epochs < 20
    assert model.n_iter_ == len(model.history_) == twin.n_epochs
    assert model.history_[-1] < tol <= min(model.history_[:-1])


def test_akcl_in_input_space_equals_its_twin(X):
    init = random_labels()
    model = AKCL(C, **COMMON, map="identity", init=init, max_epochs=2, tol=0).fit(X)
    first = kernel_kmeans.initial_centres_from_labels(X, init, C)
    twin = competitive.akcl(X, np.zeros(N), first, np.bincount(init).astype(float), [order_of(0), order_of(1)], tol=0)
    d = squared_distances(X, np.zeros(N), twin.centres)
    assert_same_clusters(model, X, d, competitive.winners_of(d, twin.counts, "frequency"))


def test_kcl_equals_its_twin(X, kernel):
    parameters, twin_kernel = kernel
    K, init = twin_kernel(X, X), random_labels()
    model = KCL(C, **COMMON, **parameters, init=init, max_epochs=2, tol=0).fit(X)
    twin = competitive.kcl(K, init, [order_of(0), order_of(1)], tol=0)
    d = kernel_distances(K, K, np.diag(K), twin.centres)[0]
    assert_same_clusters(model, X, np.maximum(d, 0), competitive.kcl_labels(K, twin.centres, twin.counts, "frequency"))
    assert sorted(model.win_counts_) == sorted(twin.counts)


@pytest.mark.parametrize("start", ["labels", "rows", "centres"])
def test_akcl_with_all_rows_as_landmarks_is_kcl(X, start):
    parameters, _ = NARROW
    init = {"labels": random_labels(), "rows": np.array([3, 77, 120, 41]), "centres": X[[3, 77, 120, 41]]}[start]
    exact = KCL(C, **COMMON, **parameters, init=init, max_epochs=3, tol=0).fit(X)
    model = AKCL(C, **COMMON, **parameters, landmarks=X, init=init, max_epochs=3, tol=0).fit(X)
    assert_array_equal(model.labels_, exact.labels_)
    assert_array_equal(model.win_counts_, exact.win_counts_)
    assert_allclose(model.transform(X), exact.transform(X), rtol=1e-8, atol=1e-8)
    assert_allclose(model.history_, exact.history_, rtol=1e-8)


def test_pakcl_with_subsets_of_one_row_is_akcl(X, kernel):
    parameters, _ = kernel
    shared = {**COMMON, **parameters, "landmarks": X[::9], "init": random_labels(), "tol": 0, "max_epochs": 2}
    one, other = AKCL(C, **shared).fit(X), PAKCL(C, subset_size=1, **shared).fit(X)
    assert_array_equal(one.labels_, other.labels_)
    assert_allclose(one.transform(X), other.transform(X), rtol=1e-8, atol=1e-8)
    assert AKCL(C).set_params(**COMMON).fit(X).n_iter_ == PAKCL(C, subset_size=1).set_params(**COMMON).fit(X).n_iter_


@pytest.mark.parametrize("cls", [KCL, AKCL, PAKCL])
def test_a_given_order_is_used_in_every_epoch(X, cls):
    order = np.random.default_rng(1).permutation(N)
    few = {} if cls is KCL else {"landmarks": X[::9]}
    shared = {**COMMON, **few, "gamma": 0.2, "init": random_labels(), "tol": 0, "order": order, "max_epochs": 2}
    shared |= {"rate_start": 1.0, "rate_end": 1e-5}
    model, init = cls(C, **shared).fit(X), random_labels()
    twin_kernel = KERNELS["rbf"][1]
    if cls is KCL:
        K = twin_kernel(X, X)
        twin = competitive.kcl(K, init, [order, order], tol=0)
        d = np.maximum(kernel_distances(K, K, np.diag(K), twin.centres)[0], 0)
    else:
        Y, r = landmark_coordinates(X, X[::9], twin_kernel)
        rule, more = (competitive.pakcl, (100,)) if cls is PAKCL else (competitive.akcl, ())
        first = kernel_kmeans.initial_centres_from_labels(Y, init, C)
        twin = rule(Y, r, first, np.bincount(init).astype(float), [order, order], *more, tol=0)
        d = squared_distances(Y, r, twin.centres)
    assert_same_clusters(model, X, d, competitive.winners_of(d, twin.counts, "frequency"))
    lazy = da.from_array(X, chunks=(37, 2))
    assert_array_equal(cls(C, **shared).fit(lazy).labels_.compute(), model.labels_)


@pytest.mark.parametrize("cls", [KCL, AKCL, PAKCL])
def test_the_papers_settings(X, cls):
    model = cls(C, **COMMON, preset="paper", tol=0).fit(X)
    assert model.n_iter_ == 100
    assert cls(C, **COMMON, preset="paper", max_epochs=3, tol=0).fit(X).n_iter_ == 3  # what is given stays
    if cls is not KCL:
        labels = Key(SEED).child("init", "labels").integers(np.arange(N), C)  # random labels for all rows
        assert_array_equal(cls(C, **COMMON, preset="paper", init=labels, tol=0).fit(X).labels_, model.labels_)
    with pytest.raises(InvalidInputError, match="preset='papers'"):
        cls(C, preset="papers").fit(X)


# --- the CPCL family ------------------------------------------------------------------------------------------------


def whole_path(model, epochs):
    assert model.seed_path_.shape[:2] == (epochs + 1, model.n_seeds)
    return model.seed_path_


@pytest.mark.parametrize("ratios", ["plain", "squared"])
@pytest.mark.parametrize("eta", [0.001, 0.05])
def test_cpcl_equals_its_twin(X, ratios, eta):
    k = 7
    model = CPCL(k, **COMMON, ratios=ratios, eta=eta, tol=0, max_epochs=3, record=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    order = order_of(0)  # the same order in every epoch, and the first of it are the seeds
    centres, counts = X[order[:k]], np.ones(k)
    path = whole_path(model, 3)
    assert_allclose(path[0], centres, rtol=1e-12)
    for epoch in range(3):
        centres, counts = seeds.cpcl(X, np.zeros(N), centres, counts, order, eta, ratios == "squared")
        assert_allclose(path[epoch + 1], centres, rtol=1e-8, atol=1e-8)
    assert model.win_counts_.sum() <= counts.sum()


@pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
@pytest.mark.parametrize("ratios", ["plain", "squared"])
def test_kernel_cpcl_equals_its_twin(X, kernel, ratios):
    parameters, twin_kernel = kernel
    k, K, order = 6, twin_kernel(X, X), order_of(0)
    model = KernelCPCL(k, **COMMON, **parameters, ratios=ratios, eta=0.02, tol=0, max_epochs=2, record=True).fit(X)
    A, counts = np.eye(N)[order[:k]], np.ones(k)
    path = whole_path(model, 2)
    for epoch in range(2):
        assert_allclose(path[epoch][:, :N], A, atol=1e-8)
        A, counts = seeds.kernel_cpcl(K, A, counts, order, 0.02, ratios == "squared")
    assert_allclose(path[2][:, :N], A, atol=1e-8)


@pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
@pytest.mark.parametrize("ratios", ["plain", "squared"])
def test_landmark_cpcl_equals_its_twin_and_with_all_rows_kernel_cpcl(X, ratios):
    k, order = 6, order_of(0)
    shared = {**COMMON, **NARROW[0], "ratios": ratios, "eta": 0.02, "tol": 0, "max_epochs": 2, "record": True}
    Y, r = landmark_coordinates(X, X[::5], NARROW[1])
    model = LandmarkCPCL(k, **shared, landmarks=X[::5]).fit(X)
    first, centres, counts = Y[order[:k]], Y[order[:k]], np.ones(k)
    for _ in range(2):
        centres, counts = seeds.cpcl(Y, r, centres, counts, order, 0.02, ratios == "squared")
    path = whole_path(model, 2)  # in a basis of its own: inner products are the same
    assert_allclose(path[-1] @ path[-1].T, centres @ centres.T, atol=1e-8)
    assert_allclose(path[0] @ path[-1].T, first @ centres.T, atol=1e-8)
    exact, model = KernelCPCL(k, **shared).fit(X), LandmarkCPCL(k, **shared, landmarks=X).fit(X)
    assert model.n_clusters_ == exact.n_clusters_ > 1
    assert_array_equal(model.labels_, exact.labels_)
    assert_allclose(model.transform(X), exact.transform(X), atol=1e-8)
    assert_allclose(model.history_, exact.history_, rtol=1e-7)


@pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
def test_kernel_cpcl_with_linear_kernel_and_plain_ratios_is_cpcl(X):
    shared = {**COMMON, "eta": 0.01, "tol": 0, "max_epochs": 4, "record": True}
    exact = KernelCPCL(6, **shared, **LINEAR[0], ratios="plain").fit(X)
    model = CPCL(6, **shared).fit(X)
    assert_allclose(exact.seed_path_[-1][:, :N] @ X, model.seed_path_[-1], atol=1e-8)
    assert_array_equal(exact.labels_, model.labels_)
    assert_allclose(exact.transform(X), model.transform(X), atol=1e-7)


@pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
@pytest.mark.parametrize("cls", [CPCL, KernelCPCL])
def test_seeds_are_the_first_rows_of_a_given_order(X, cls):
    order = np.random.default_rng(2).permutation(N)
    linear = {} if cls is CPCL else {**LINEAR[0], "ratios": "plain"}
    model = cls(5, **COMMON, **linear, order=order, eta=0.02, tol=0, max_epochs=2, record=True).fit(X)
    centres, counts = X[order[:5]], np.ones(5)
    for _ in range(2):
        centres, counts = seeds.cpcl(X, np.zeros(N), centres, counts, order, 0.02, squared=False)
    path = whole_path(model, 2)
    assert_allclose(path[-1] if cls is CPCL else path[-1][:, :N] @ X, centres, atol=1e-8)


def blobs(distance=8, n=100):
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(m, 1, (n, 2)) for m in ([0, 0], [0, distance], [distance, distance])])


@pytest.mark.parametrize("seed", range(3))
def test_cpcl_finds_the_clusters(seed):
    model = CPCL(6, random_state=seed).fit(blobs())
    assert model.n_clusters_ == 3
    assert model.cluster_sizes_.tolist() == [100, 100, 100]
    assert not hasattr(model, "seed_path_")


def test_units_of_the_features_do_not_matter():
    X = blobs()
    one, other = (CPCL(6, random_state=1).fit(X * scale) for scale in (1.0, 1024.0))
    assert one.n_iter_ == other.n_iter_
    assert_array_equal(one.labels_, other.labels_)


def test_a_collapse_warns_and_says_what_to_try():
    X = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.warns(ConvergenceWarning, match=r"(?s)seeds ended in one cluster.*merge_tol.*n_clusters='auto'"):
        model = CPCL(4, merge_tol=10, max_epochs=50, tol=1e-3, random_state=0).fit(X)
    assert model.n_clusters_ == 1
    with pytest.warns(ConvergenceWarning, match="max_epochs=1 "):
        CPCL(4, max_epochs=1, random_state=0).fit(X)


@pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
def test_seeds_that_coincide_are_one_and_those_without_rows_none():
    X = blobs()
    start = np.array([[0.0, 0], [0, 0], [0, 8], [8, 8], [500, 500]])
    model = CPCL(5, init=start, eta=1e-9, max_epochs=1, random_state=0).fit(X)
    assert model.n_clusters_ == 3
    assert model.cluster_sizes_.tolist() == [100, 100, 100]
    apart = CPCL(5, init=start + [[0, 0], [0.5, 0], [0, 0], [0, 0], [0, 0]], eta=1e-9, max_epochs=1, merge_tol=0)
    assert apart.fit(X).n_clusters_ == 4


# --- the compared methods ---------------------------------------------------------------------------------------------


RIVALS = {
    "rpcl": ({"rival_share": 0.3}, lambda *a: seeds.rpcl(*a, 0.02, 0.3)),
    "rpccl": ({}, lambda *a: seeds.rpccl(*a, 0.02)),
    "cccl": ({"phi": 0.7}, lambda *a: seeds.cccl(*a, 0.02, 0.7)),
    "dsrpcl": ({"power": 0.6}, lambda *a: seeds.dsrpcl(*a, 0.02, 0.6)),
}


@pytest.mark.part(5)
@pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
@pytest.mark.parametrize("space", ["identity", "landmarks"])
@pytest.mark.parametrize("name", [*RIVALS, "core"])
def test_rivals_equal_their_twins(X, name, space):
    k, order = 5, order_of(0)
    if space == "identity":
        Y, r, own = X, np.zeros(N), {}
    else:
        Y, r = landmark_coordinates(X, X[::5], NARROW[1])
        own = {**NARROW[0], "landmarks": X[::5], "map": "landmarks"}
    parameters = RIVALS[name][0] if name != "core" else {"width": 0.9, "suppression": 3.0, "width_rate": 0.1}
    model = daskkcl.algorithms()[name](
        k, **COMMON, **own, **parameters, eta=0.02, tol=0, max_epochs=1, merge_tol=0, record=True
    ).fit(X)
    first = Y[order[:k]]
    if name == "core":
        centres, _, _ = seeds.core(Y, r, first, np.ones(k), np.full(k, 0.9), order, 0.02, 0.9, 3.0, 0.1)
    else:
        centres, _ = RIVALS[name][1](Y, r, first, np.ones(k), order)
    path = whole_path(model, 1)
    if space == "identity":
        assert_allclose(path[1], centres, rtol=1e-8, atol=1e-8)
    assert_allclose(path[1] @ path[1].T, centres @ centres.T, atol=1e-8)
    assert_allclose(path[0] @ path[1].T, first @ centres.T, atol=1e-8)


SEEDED = {**RIVALS, "cpcl": ({}, lambda *a: seeds.cpcl(*a, 0.02, False))}


@pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
@pytest.mark.part(3)
@pytest.mark.parametrize("start", ["rows", "centres", "labels"])
@pytest.mark.parametrize("name", [*SEEDED, "core"])
def test_seeds_and_order_can_be_given(X, name, start):
    rows, order = np.array([3, 77, 120, 41]), np.random.default_rng(2).permutation(N)
    labels = random_labels()
    init = {"rows": rows, "centres": X[rows], "labels": labels}[start]
    first = kernel_kmeans.initial_centres_from_labels(X, labels, C) if start == "labels" else X[rows]
    wins = np.bincount(labels).astype(float) if start == "labels" else np.ones(C)
    own = SEEDED[name][0] if name != "core" else {"width": 0.9, "suppression": 3.0, "width_rate": 0.1}
    model = daskkcl.algorithms()[name](
        C, **COMMON, **own, init=init, order=order, eta=0.02, tol=0, max_epochs=1, merge_tol=0, record=True
    ).fit(X)
    if name == "core":
        centres, _, _ = seeds.core(X, np.zeros(N), first, wins, np.full(C, 0.9), order, 0.02, 0.9, 3.0, 0.1)
    else:
        centres, _ = SEEDED[name][1](X, np.zeros(N), first, wins, order)
    path = whole_path(model, 1)
    assert_allclose(path[0], first, rtol=1e-12, atol=1e-12)
    assert_allclose(path[1], centres, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("n_centres", [1, 7, 8, 9])
def test_rows_in_pairs_equal_one_at_a_time(n_rows, n_centres):
    """Large steps, and two centres in one place, of which the first wins."""
    rng = np.random.default_rng(n_centres)
    Y, r, M = rng.normal(size=(n_rows, 3)), rng.random(n_rows), rng.normal(size=(n_centres, 3))
    M[-1] = M[0]
    rows, counts, rates = np.arange(n_rows), np.ones(n_centres), np.full(n_rows, 0.7)
    found = SequentialRule("distance_sensitive", (0.4,))(Seeds.start(M, counts), Y, r, rates)
    centres, wins = seeds.dsrpcl(Y, r, M, counts, rows, 0.7, 0.4)
    assert_allclose(found.centres, centres, rtol=1e-10)
    assert_allclose(found.counts, wins)
    widths = rng.uniform(0.5, 2, n_centres)
    found = SequentialRule("repetition_suppressed", (0.6, 3.0, 0.1, 1e-12))(
        Seeds.start(M, counts, widths[:, None]), Y, r, rates
    )
    centres, wins, widths = seeds.core(Y, r, M, counts, widths, rows, 0.7, 0.6, 3.0, 0.1)
    assert_allclose(found.centres, centres, rtol=1e-10)
    assert_allclose(found.counts, wins)
    assert_allclose(found.extra[:, 0], widths, rtol=1e-10)


@pytest.mark.parametrize("n_rows", [1, 40])
@pytest.mark.parametrize("n_centres", [1, 2, 3, 8, 9])
def test_any_number_of_centres(n_rows, n_centres):
    """Centres are measured two at a time; two of them are in one place, of which the first wins."""
    rng = np.random.default_rng(n_centres)
    Y, r, M = rng.normal(size=(n_rows, 3)), rng.random(n_rows), rng.normal(size=(n_centres, 3))
    M[-1] = M[0]
    start = (Y, r, M, np.ones(n_centres), np.arange(n_rows), 0.3)
    twins = {
        SequentialRule("frequency_sensitive"): lambda: seeds.rpcl(*start, 0.0),
        SequentialRule("cooperative_penalised", (0.0,)): lambda: seeds.cpcl(*start, False),
        SequentialRule("rival_penalised", (0.2,)): lambda: seeds.rpcl(*start, 0.2),
        SequentialRule("rival_controlled"): lambda: seeds.rpccl(*start),
        SequentialRule("cooperation_controlled", (0.7,)): lambda: seeds.cccl(*start, 0.7),
    }
    alone = M[0] * 0.7**n_rows + 0.3 * (0.7 ** np.arange(n_rows)[::-1]) @ Y  # one centre, which follows every row
    for rule, twin in twins.items():
        found = rule(Seeds.start(M, np.ones(n_centres)), Y, r, np.full(n_rows, 0.3))
        centres, wins = twin() if n_centres > 1 else (alone[None], [1 + n_rows])
        assert_allclose(found.centres, centres, rtol=1e-9, atol=1e-10, err_msg=rule.name)
        assert_allclose(found.counts, wins)


@pytest.mark.parametrize("c", [1, 2, 3, 10, 64, 65, 1000])
def test_ranks(c):
    from daskkcl.rules.ranks import NOBODY, number_mask, rank, with_rank

    mask = number_mask(c)
    assert c - 1 <= mask < 2 * c
    costs = np.random.default_rng(c).permutation(10.0 ** np.linspace(-300, 300, c))
    costs[c // 2] = 0.0
    ranks = [rank(cost, k, mask) for k, cost in enumerate(costs)]
    assert_array_equal(np.argsort(ranks), np.argsort(costs))
    assert_array_equal([x & mask for x in ranks], np.arange(c))
    least = second = NOBODY
    for x in ranks:
        least, second = with_rank(least, second, x)
    assert [least, second][:c] == sorted(ranks)[:2]
    assert rank(2.0, 0, mask) < rank(2.0, c - 1, mask) or c == 1  # ties
    assert rank(1 + 2.0**-51 * c, 0, mask) > rank(1.0, c - 1, mask)
    assert rank(np.inf, c - 1, mask) < NOBODY


def test_powers():
    from daskkcl.rules.powers import binary_logarithm, power_of_two

    for x in [1.0, 1 + 1e-15, 1.41, 1.42, 2.0, 3.7, 1e10, 1e300]:
        assert_allclose(binary_logarithm(x), np.log2(x), rtol=1e-13, atol=1e-15)
    for x in [0.0, -1e-17, -0.49, -0.51, -1.0, -3.3, -999.5]:
        assert_allclose(power_of_two(x), 2.0**x, rtol=1e-13)
    assert power_of_two(-1e6) == 2.0**-1000


@pytest.mark.parametrize("name", ["rpcl", "rpccl", "dsrpcl", "core"])
def test_rivals_find_the_clusters_with_a_seed_too_many(name):
    found = [daskkcl.algorithms()[name](4, random_state=seed).fit(blobs()).n_clusters_ for seed in range(5)]
    assert np.median(found) == 3


@pytest.mark.parametrize("reach_start", ["auto", 1.5])
def test_fast_kscl_equals_its_twin(X, kernel, reach_start):
    parameters, twin_kernel = kernel
    Y, r = landmark_coordinates(X, X[::9], twin_kernel)
    rows = np.array([3, 77, 120, 41])
    model = FastKSCL(
        C, **COMMON, **parameters, landmarks=X[::9], init=rows, max_iter=5, reach_start=reach_start, reach_end=0.1
    ).fit(X)
    start = C / 2 if reach_start == "auto" else reach_start
    reaches = [start * (0.1 / start) ** (t / 4) for t in range(5)]
    d = squared_distances(Y, r, seeds.neural_gas(Y, r, Y[rows], reaches))
    assert_same_clusters(model, X, d, d.argmin(axis=1))
    assert model.n_iter_ == 5


def test_fast_kscl_in_input_space_equals_its_twin(X):
    rows, none = np.array([3, 77, 120, 41]), np.zeros(N)
    model = FastKSCL(C, **COMMON, map="identity", init=rows, max_iter=3, reach_start=2.0, reach_end=0.5).fit(X)
    d = squared_distances(X, none, seeds.neural_gas(X, none, X[rows], [2.0, 1.0, 0.5]))
    assert_same_clusters(model, X, d, d.argmin(axis=1))


# --- exact kernel k-means -----------------------------------------------------------------------------------------


def test_kernel_k_means_equals_its_twin(X, kernel):
    parameters, twin_kernel = kernel
    K, init = twin_kernel(X, X), random_labels()
    model = KernelKMeans(C, **COMMON, **parameters, init=init).fit(X)
    twin = kernel_kmeans.kernel_kmeans(K, init, 300)
    assert twin.n_iter > 3
    assert (np.bincount(twin.labels, minlength=C) > 0).all()
    d = np.maximum(kernel_distances(K, K, np.diag(K), twin.centres)[0], 0)
    assert_same_clusters(model, X, d, twin.labels)
    assert_allclose(model.history_, twin.objective[: len(model.history_)], rtol=1e-8)


@pytest.mark.parametrize("rows", [[0, 0, 0, 1, 2, 9], [5] * 6])
def test_kernel_k_means_ends_when_clusters_are_empty(rows):
    X = np.array(rows, dtype=float)[:, None]
    with pytest.warns(ConvergenceWarning, match="clusters have no rows") if len(set(rows)) == 1 else _nothing():
        model = KernelKMeans(4, kernel="linear", init=np.zeros((4, 1)), random_state=0).fit(X)
    assert (model.cluster_sizes_ > 0).sum() == len(set(rows))


def _nothing():
    import contextlib

    return contextlib.nullcontext()


def test_kernel_k_means_keeps_the_best_start(X):
    single = [KernelKMeans(5, n_init=1, random_state=s).fit(X).objective_ for s in range(8)]
    assert KernelKMeans(5, n_init=20, random_state=0).fit(X).objective_ <= np.median(single)


# --- what all exact ones share ----------------------------------------------------------------------------------------

EXACT = [KCL, KernelCPCL, KernelKMeans]


@pytest.mark.parametrize("cls", EXACT)
def test_exact_algorithms_refuse_politely(cls):
    rows = da.zeros((200_000, 4), chunks=(10_000, 4))
    with pytest.raises(
        MemoryLimitError, match=r"kernel matrix of all 200,000 rows.*memory_limit.*algo='\w+'"
    ) as caught:
        cls(3, memory_limit="2GiB").fit(rows)
    assert caught.value.needed_bytes > 8 * 200_000**2


@pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
@pytest.mark.parametrize("cls", EXACT)
def test_exact_algorithms_take_lazy_rows_and_drop_bad_ones(X, cls):
    few = {"max_iter": 20} if cls is KernelKMeans else {"max_epochs": 5}
    model = cls(3, **COMMON, **few).fit(X)
    lazy = cls(3, **COMMON, **few).fit(da.from_array(X, chunks=(40, 2)))
    assert_array_equal(lazy.labels_.compute(), model.labels_)
    spoilt = X.copy()
    spoilt[[0, 70], 1] = np.nan
    with pytest.raises(InvalidInputError, match="row 0, column 1"):
        cls(3, **COMMON, **few).fit(spoilt)
    dropped = cls(3, **COMMON, **few, nan="drop").fit(spoilt)
    assert_array_equal(np.flatnonzero(dropped.labels_ == -1), [0, 70])
    assert dropped.cluster_sizes_.sum() == N - 2
    assert not {"landmarks", "n_landmarks", "map"} & set(cls().get_params())


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [AKCL, PAKCL])
def test_a_stream_is_learnt(cls):
    X = blobs(n=2000)
    order = np.random.default_rng(0).permutation(len(X))
    model = cls(3, random_state=0, n_landmarks=50)
    for block in np.split(X[order], 12):
        model.partial_fit(block)
    truth = np.repeat([0, 1, 2], 2000)
    assert daskkcl.measures.ari(truth, model.predict(X)) > 0.97
    assert model.n_iter_ == len(model.history_) == 12
    assert len(model.labels_) == 500
    assert_array_equal(model.cluster_sizes_, np.bincount(model.labels_, minlength=3))
    assert_array_equal(model.labels_, model.predict(X[order][-500:]))
    assert model.win_counts_.sum() >= len(X)
    assert model.history_[-1] < model.history_[0]


@pytest.mark.parametrize("cls", [AKCL, PAKCL])
def test_a_stream_goes_on_after_fit_and_load(tmp_path, cls):
    X = blobs(n=500)
    fitted = cls(3, random_state=0, n_landmarks=50).fit(X)
    fitted.save(tmp_path / "m.zarr")
    loaded = daskkcl.load(tmp_path / "m.zarr")
    wins = fitted.win_counts_.copy()
    for model in (fitted, loaded):
        before = model.predict(X)
        model.partial_fit(X[::3])
        assert_array_equal(model.win_counts_ >= wins, True)
        assert model.win_counts_.sum() == wins.sum() + len(X[::3])
        assert daskkcl.measures.ari(before, model.predict(X)) > 0.97
        assert (before == model.predict(X)).mean() > 0.97  # clusters keep their numbers
    model.fit(X)
    assert len(model.labels_) == len(X)


def test_blocks_of_a_stream(X):
    model = AKCL(3, random_state=0).partial_fit(X)
    with pytest.raises(InvalidInputError, match="expecting 3"):
        model.partial_fit(X[:, :2])
    with pytest.raises(WrongTypeError, match=r"np\.asarray"):
        model.partial_fit(da.from_array(X, chunks=10))
    with pytest.raises(InvalidInputError, match="order= is for fit"):
        AKCL(3, order=np.arange(N)).partial_fit(X)
    with pytest.raises(InvalidInputError, match="row 7"):
        model.partial_fit(np.where(np.arange(N)[:, None] == 7, np.nan, X))
    with pytest.raises(InvalidInputError, match="n_clusters=3 is more"):
        AKCL(3).partial_fit(X[:2])
    with pytest.raises(InvalidInputError, match="labels='no'"):
        PAKCL(3, labels="no").partial_fit(X)
    dropping = PAKCL(3, nan="drop", random_state=0).partial_fit(np.where(np.arange(N)[:, None] == 7, np.nan, X))
    assert np.flatnonzero(dropping.labels_ == -1).tolist() == [7]


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, parameters, word",
    [
        ("akcl", {"order": [0, 1]}, "order of shape"),
        ("akcl", {"order": np.zeros(N, int)}, "each of the row numbers"),
        ("pakcl", {"order": np.arange(N) - 1}, "each of the row numbers"),
        ("pakcl", {"order": np.arange(N) / 2}, "dtype float64"),
        ("akcl", {"rate_end": 2}, "rate_end"),
        ("akcl", {"rate_start": 1.5}, "rate_start"),
        ("akcl", {"max_epochs": 0}, "max_epochs"),
        ("akcl", {"max_epochs": "all"}, "max_epochs"),
        ("akcl", {"tol": -1}, "tol"),
        ("akcl", {"labels": "first"}, "labels='first'"),
        ("akcl", {"preset": "papers"}, "preset='papers'"),
        ("akcl", {"init": np.arange(3)}, "init"),
        ("pakcl", {"subset_size": 0}, "subset_size"),
        ("pakcl", {"nearest": "near"}, "nearest='near'"),
        ("kcl", {"init": "sample"}, "init='sample'"),
        ("cpcl", {"n_seeds": 0}, "n_seeds"),
        ("cpcl", {"n_seeds": N + 1}, "n_seeds=151 is more"),
        ("cpcl", {"n_seeds": "auto"}, "n_seeds must be an integer"),
        ("cpcl", {"eta": 0}, "eta"),
        ("cpcl", {"eta": 2}, "eta"),
        ("cpcl", {"tol": -1}, "tol"),
        ("cpcl", {"max_epochs": 0}, "max_epochs"),
        ("lcpcl", {"init": "random"}, "init='random'"),
        ("cpcl", {"merge_tol": -1}, "merge_tol"),
        ("cpcl", {"record": 1}, "record"),
        ("cpcl", {"ratios": "cubed"}, "ratios='cubed'"),
        ("cpcl", {"n_clusters": 3}, "cpcl has no parameter 'n_clusters'; pass n_seeds"),
        ("cpcl", {"kernel": "linear"}, "cpcl has no parameter 'kernel'"),
        ("cpcl", {"degree": 3}, "cpcl has no kernel"),
        ("kcpcl", {"n_landmarks": 5}, "kcpcl has no parameter 'n_landmarks'"),
        ("kkmeans", {"map": "identity"}, "kkmeans has no parameter 'map'"),
        ("kkmeans", {"n_init": 0}, "n_init"),
        ("kkmeans", {"max_iter": 0}, "max_iter"),
        ("rpcl", {"rival_share": 2}, "rival_share"),
        ("rpcl", {"kernel": "linear"}, "map='identity' is input space"),
        ("cccl", {"phi": -1}, "phi"),
        ("dsrpcl", {"power": 0}, "power"),
        ("core", {"threshold": 0}, "threshold"),
        ("core", {"suppression": -1}, "suppression"),
        ("core", {"width": -1}, "width"),
        ("core", {"width": "wide"}, "width"),
        ("core", {"width_rate": -1}, "width_rate"),
        ("fastkscl", {"reach_end": 0}, "reach_end"),
        ("fastkscl", {"reach_start": 0.001}, "reach_end"),
    ],
)
def test_bad_parameters(X, name, parameters, word):
    with pytest.raises(InvalidInputError, match=word.replace("(", r"\(")):
        daskkcl.fit(X, name, **parameters)


def test_fit_takes_the_map_that_is_usual_for_the_class(X):
    assert daskkcl.fit(X, "rpcl", n_seeds=3, random_state=0).gamma_ is None
    assert daskkcl.fit(X, "rpcl", n_seeds=3, map="landmarks", random_state=0).gamma_ > 0


# --- cost -----------------------------------------------------------------------------------------------------------


def test_the_benchmark_of_loops_runs():
    from benchmarks.competitive import RULES, measure

    costs = measure(q=8, c=3, rows=50, dtype=np.dtype("float32"), repeats=1)
    assert set(costs) == set(RULES)
    assert min(cost for costs_of in costs.values() for cost in costs_of) > 0


MOVE_MANY = {"cooperation_controlled", "distance_sensitive", "repetition_suppressed"}  # by nature: docs/design.md


@pytest.mark.slow
@pytest.mark.parametrize(
    "q, c, beyond", [(64, 10, MOVE_MANY), (64, 20, MOVE_MANY), (200, 10, ()), (300, 10, ()), (500, 20, ())]
)
def test_a_rule_costs_at_most_twice_its_distances(q, c, beyond):
    from benchmarks.competitive import measure

    costs = measure(q, c, rows=4000, dtype=np.dtype("float32"), repeats=200)
    assert {name: cost.distances for name, cost in costs.items() if cost.distances > 2 and name not in beyond} == {}
