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


def test_okfcm_on_a3():
    X, y = load("sipu_a3")
    assert mean_score(adjusted_rand_score, X, y, "okfcm", gamma=1.0) >= 0.90


@pytest.mark.parametrize("algo", ["akkmeans", "pakcl", "okfcm"])
@pytest.mark.parametrize("name", ["pendigits", "mnist"])
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


@pytest.mark.parametrize("algo", sorted(daskkcl.algorithms()))
def test_nothing_but_a_path(tmp_path, algo):
    """``daskkcl.fit(path)`` with nothing else does something sensible: the number of clusters from the sample."""
    import zarr

    rng = np.random.default_rng(1)
    centres = 12 * rng.normal(size=(6, 8))
    truth = rng.integers(0, 6, 5000)
    zarr.create_array(str(tmp_path / "x.zarr"), data=centres[truth] + rng.normal(size=(5000, 8)), chunks=(700, 8))
    model = daskkcl.fit(str(tmp_path / "x.zarr"), algo)
    assert model.n_clusters_ == 6
    assert adjusted_rand_score(truth, model.labels_.compute()) > 0.95
    assert model.n_clusters_evidence_["clear"]
    assert len(model.n_clusters_evidence_["eigenvalues"]) > 6
