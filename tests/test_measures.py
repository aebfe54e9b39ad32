"""Measures from a table of counts equal scikit-learn's and the slow twins, lazy or not."""

import dask.array as da
import numpy as np
import pytest
from reference import measures as twins
from sklearn import metrics

from daskkcl import measures
from daskkcl.errors import InvalidInputError

CASES = {
    "random": lambda rng: (rng.integers(0, 5, 300), rng.integers(0, 7, 300)),
    "close": lambda rng: (t := rng.integers(0, 4, 300), np.where(rng.random(300) < 0.1, rng.integers(0, 9, 300), t)),
    "same": lambda rng: (t := rng.integers(0, 4, 50), 3 - t),
    "one cluster": lambda rng: (rng.integers(0, 4, 50), np.zeros(50, int)),
    "all apart": lambda rng: (rng.integers(0, 4, 50), np.arange(50)),
    "one of each": lambda rng: (np.zeros(20, int), np.zeros(20, int)),
    "one row": lambda rng: (np.zeros(1, int), np.zeros(1, int)),
}


@pytest.fixture(params=CASES)
def labels(request):
    return CASES[request.param](np.random.default_rng(0))


@pytest.mark.parametrize("lazy", [False, True], ids=["numpy", "dask"])
def test_measures_against_a_truth(labels, lazy):
    truth, found = labels
    a, b = (da.from_array(truth, chunks=7), da.from_array(found, chunks=11)) if lazy else (truth, found)
    assert measures.nmi(a, b) == pytest.approx(metrics.normalized_mutual_info_score(truth, found), abs=1e-12)
    assert measures.ari(a, b) == pytest.approx(metrics.adjusted_rand_score(truth, found), abs=1e-12)
    assert measures.rand(a, b) == pytest.approx(metrics.rand_score(truth, found), abs=1e-12)
    assert measures.pq(a, b) == pytest.approx(twins.pq(truth.tolist(), found.tolist()), abs=1e-12)
    assert measures.contingency(a, b).tolist() == metrics.cluster.contingency_matrix(truth, found).tolist()


@pytest.mark.parametrize("lazy", [False, True], ids=["numpy", "dask"])
def test_measures_of_balance(labels, lazy):
    found = labels[1]
    sizes = np.unique(found, return_counts=True)[1].tolist()
    a = da.from_array(found, chunks=11) if lazy else found
    assert measures.sdcs(a) == pytest.approx(twins.sdcs(sizes))
    assert measures.rme(a) == pytest.approx(twins.rme(sizes))
    assert measures.rme(a, n_clusters=len(sizes) + 1) == 0
    assert measures.sdcs(a, n_clusters=len(sizes) + 2) == pytest.approx(twins.sdcs([*sizes, 0, 0]))


def test_dropped_rows_are_left_out():
    assert measures.contingency([0, 0, 1, 1], [0, -1, 1, 1]).tolist() == [[1, 0], [0, 2]]
    assert measures.rme([0, -1, -1, 1]) == 1


def test_large_counts_do_not_overflow():
    truth = np.repeat(np.arange(2), 3_000_000)
    assert measures.ari(truth, truth) == measures.rand(truth, truth) == 1


def test_nonsense():
    for wrong in (([0, 1], [0]), ([[0], [1]], [[0], [1]])):
        with pytest.raises(InvalidInputError, match="shapes"):
            measures.nmi(*wrong)
    with pytest.raises(InvalidInputError, match="integers"):
        measures.ari([0.5, 1], [0, 1])
    with pytest.raises(InvalidInputError, match="no labelled rows"):
        measures.rme([-1, -1])
    with pytest.raises(InvalidInputError, match="n_clusters=1"):
        measures.sdcs([0, 1], n_clusters=1)
