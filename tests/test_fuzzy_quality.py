"""The fuzzy family on real data: the published figures, and better ones with the defaults."""

import numpy as np
import pytest
from data_sets import load
from sklearn.metrics import adjusted_rand_score

import daskkcl

PUBLISHED = {  # A3, mean of five seeds, at chunks (or samples) of 1, 5, 10, 25 per cent
    "rsekfcm": [0.60, 0.74, 0.75, 0.79],
    "spkfcm": [0.88, 0.91, 0.91, 0.91],
    "okfcm": [0.82, 0.82, 0.84, 0.84],
}
SHARES = [0.01, 0.05, 0.10, 0.25]

pytestmark = pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning")


def mean_rand(X, y, algo, seeds, **parameters):
    return np.mean(
        [
            adjusted_rand_score(y, daskkcl.fit(X, algo, len(np.unique(y)), random_state=seed, **parameters).labels_)
            for seed in seeds
        ]
    )


def size(algo, share):
    return {"sample_size" if algo == "rsekfcm" else "chunk_size": share}


def slowly(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.part(2)
@pytest.mark.parametrize("algo", PUBLISHED)
@pytest.mark.parametrize("share", [share if share == 0.10 else slowly(share) for share in SHARES])
def test_the_literal_forms_reach_the_papers_figures(algo, share):
    """A3 with unit variance, Gaussian kernel of gamma 1, fuzzifier 1.7, random seeds, extension by prototypes."""
    X, y = load("sipu_a3")
    found = mean_rand(
        X,
        y,
        algo,
        range(5),
        kernel="rbf",
        gamma=1.0,
        fuzzifier=1.7,
        form="literal",
        init="random",
        extend="prototypes",
        n_init=1,
        **size(algo, share),
    )
    assert abs(found - PUBLISHED[algo][SHARES.index(share)]) <= 0.05


@pytest.mark.parametrize(
    "algo, rows",
    [
        ("rsekfcm", "sorted by class"),
        slowly("rsekfcm", "shuffled"),
        slowly("okfcm", "sorted by class"),
        ("okfcm", "shuffled"),
    ],
)
def test_the_defaults_do_better(algo, rows):
    X, y = load("sipu_a3")
    order = np.argsort(y, kind="stable") if rows == "sorted by class" else np.random.default_rng(0).permutation(len(X))
    assert mean_rand(X[order], y[order], algo, range(5), gamma=1.0, **size(algo, 0.10)) >= 0.90


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["rsekfcm", "okfcm"])
def test_mnist_sorted_by_class(algo):
    """Pixels of unit length, polynomial kernel of degree 5, fuzzifier 1.05, 300 landmarks."""
    X, y = load("mnist")
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    order = np.argsort(y, kind="stable")
    found = mean_rand(
        X[order],
        y[order],
        algo,
        range(3),
        kernel="polynomial",
        degree=5,
        gamma=1.0,
        coef0=1.0,
        fuzzifier=1.05,
        n_landmarks=300,
    )
    assert found >= 0.36
