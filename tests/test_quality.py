"""Quality on real data, default parameters but for the number of clusters and 500 landmarks, mean of five seeds."""

import numpy as np
import pytest
from data_sets import load
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import daskkcl

SEEDS = range(5)


def mean_score(score, X, y, algo, **parameters):
    return np.mean(
        [
            score(y, daskkcl.fit(X, algo, len(np.unique(y)), n_landmarks=500, random_state=seed, **parameters).labels_)
            for seed in SEEDS
        ]
    )


def test_pakcl_on_pendigits():
    X, y = load("pendigits")
    assert mean_score(normalized_mutual_info_score, X, y, "pakcl") >= 0.68


def test_pakcl_on_mnist():
    X, y = load("mnist")
    assert mean_score(normalized_mutual_info_score, X, y, "pakcl") >= 0.47


@pytest.mark.slow
def test_okfcm_on_a3():
    X, y = load("sipu_a3")
    assert mean_score(adjusted_rand_score, X, y, "okfcm", gamma=1.0) >= 0.90


@pytest.mark.part(3)
@pytest.mark.parametrize("algo", ["akkmeans", "pakcl", "okfcm"])
@pytest.mark.parametrize("name", ["pendigits", pytest.param("mnist", marks=pytest.mark.slow)])
def test_rows_sorted_by_class_cost_nothing(name, algo):
    """Data on disk are often sorted by class; subsets must be fair samples all the same.

    (That rows from disk give the very labels of rows in memory is in test_invariance.)
    """
    X, y = load(name)
    by_class = np.argsort(y, kind="stable")
    shuffled = np.random.default_rng(0).permutation(len(X))
    in_order, mixed = (
        mean_score(normalized_mutual_info_score, X[order], y[order], algo) for order in (by_class, shuffled)
    )
    assert in_order >= mixed - 0.02


@pytest.mark.parametrize("landmarks", ["uniform", "kmeans", "leverage"])
def test_every_way_of_choosing_landmarks(landmarks):
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    scores = [
        normalized_mutual_info_score(
            y, daskkcl.fit(X, "pakcl", 10, n_landmarks=100, landmarks=landmarks, random_state=seed).labels_
        )
        for seed in SEEDS
    ]
    assert np.mean(scores) >= 0.68


@pytest.mark.part(4)
@pytest.mark.parametrize("algo", [name for name, cls in daskkcl.algorithms().items() if cls.counted == "n_clusters"])
def test_nothing_but_a_path(tmp_path, algo):
    """``daskkcl.fit(path)`` with nothing else (but a seed) is sensible: the number of clusters from the sample."""
    import zarr

    rng = np.random.default_rng(1)
    centres = 12 * rng.normal(size=(6, 8))
    truth = rng.integers(0, 6, 5000)
    zarr.create_array(str(tmp_path / "x.zarr"), data=centres[truth] + rng.normal(size=(5000, 8)), chunks=(700, 8))
    model = daskkcl.fit(str(tmp_path / "x.zarr"), algo, random_state=0)
    assert model.n_clusters_ == 6
    assert adjusted_rand_score(truth, model.labels_.compute()) > 0.95
    assert model.n_clusters_evidence_["clear"]
    assert len(model.n_clusters_evidence_["eigenvalues"]) > 6


# --- the competitive family -----------------------------------------------------------------------------------------


def digits():
    """The 8 x 8 digits and the Gaussian width 2 sigma^2 with sigma^2 = 0.1 times the mean squared distance."""
    from sklearn.datasets import load_digits
    from sklearn.metrics import euclidean_distances

    X, y = load_digits(return_X_y=True)
    D = euclidean_distances(X, squared=True)
    return X, y, 1 / (2 * 0.1 * D.sum() / (len(X) * (len(X) - 1)))


@pytest.mark.parametrize("algo", ["akcl", "pakcl"])
def test_competitive_learning_of_digits(algo):
    X, y, gamma = digits()
    models = [daskkcl.fit(X, algo, 10, gamma=gamma, n_landmarks=300, random_state=seed) for seed in SEEDS]
    assert np.mean([daskkcl.measures.nmi(y, model.labels_) for model in models]) >= 0.77
    assert np.mean([daskkcl.measures.rme(model.labels_, 10) for model in models]) >= 0.85


@pytest.mark.parametrize("seed", range(3))
def test_centres_part_where_rows_are_nearly_orthogonal(seed):
    """Four groups of words of their own, few of them shared by two rows: frequencies must not decide alone."""
    import scipy.sparse as sp

    rng, n, per_row = np.random.default_rng(seed), 4000, 100
    y = np.arange(n) % 4
    columns = np.sort(y[:, None] * 2500 + rng.integers(0, 2500, (n, per_row)), axis=1).astype(np.int32)
    values = np.ones(n * per_row, np.float32)
    X = sp.csr_array((values, columns.ravel(), np.arange(n + 1) * per_row), shape=(n, 10_000))
    model = daskkcl.PAKCL(4, kernel="cosine", n_landmarks=100, max_epochs=1, random_state=seed).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95


def test_a_stream_of_digits():
    """Handed over in blocks, once each, they are clustered nearly as well as by several passes."""
    X, y, gamma = digits()
    for cls in (daskkcl.AKCL, daskkcl.PAKCL):
        scores = []
        for seed in SEEDS:
            model = cls(10, gamma=gamma, n_landmarks=300, random_state=seed)
            for block in np.array_split(X[np.random.default_rng(seed).permutation(len(X))], 3):
                model.partial_fit(block)
            scores.append(daskkcl.measures.nmi(y, model.predict(X)))
        assert np.mean(scores) >= 0.68


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_pakcl_on_mnist_with_a_polynomial_kernel():
    X, y = load("mnist")
    model = daskkcl.fit(X, "pakcl", 10, kernel="polynomial", gamma=1.0, degree=5, n_landmarks=1000, random_state=0)
    assert daskkcl.measures.nmi(y, model.labels_) >= 0.28


def z_scored(name):
    X, y = load(name)
    X = X.astype(np.float64)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def averages(X, y, algo, trials, **parameters):
    """Mean number of clusters, partition quality and Rand index."""
    models = [daskkcl.fit(X, algo, random_state=seed, progress=False, **parameters) for seed in range(trials)]
    return np.mean(
        [(m.n_clusters_, daskkcl.measures.pq(y, m.labels_), daskkcl.measures.rand(y, m.labels_)) for m in models],
        axis=0,
    )


def test_cpcl_on_seeds_as_published():
    """Table 1 of doi:10.1016/j.patcog.2014.03.010: 3.25 +- 0.58 clusters, PQ 0.7302, RI 0.8840."""
    clusters, pq, rand = averages(*z_scored("seeds"), "cpcl", 20, n_seeds=10)
    assert abs(clusters - 3.25) <= 0.3
    assert abs(pq - 0.73) <= 0.02
    assert abs(rand - 0.884) <= 0.02


@pytest.mark.part(3)
@pytest.mark.parametrize("n_seeds, epochs, published", [(4, 100, 0.6849), (10, 500, 0.3718), (20, 1000, 0.1783)])
def test_rpccl_on_seeds_as_published(n_seeds, epochs, published):
    _, pq, _ = averages(*z_scored("seeds"), "rpccl", 60 if n_seeds == 10 else 20, n_seeds=n_seeds, max_epochs=epochs)
    assert abs(pq - published) <= 0.03


def test_kernel_k_means_on_usps_as_published():
    """Table 10: digits 4 and 9, pixels in [-1, 1], sigma 10, from random labels: PQ 0.4867, RI 0.6561."""
    X, y = load("usps")
    rows = np.isin(y, (4, 9))
    _, pq, rand = averages(
        *(2 * X[rows] - 1, y[rows]), "kkmeans", 5, n_clusters=2, gamma=1 / 200, init="random-labels", n_init=1
    )
    assert abs(pq - 0.487) <= 0.01
    assert abs(rand - 0.656) <= 0.01
