"""``n_clusters="auto"``: right where there is an answer, and honest where there is none."""

import warnings

import numpy as np
import pytest
from data_sets import load
from numpy.testing import assert_allclose, assert_array_equal
from reference import counting as reference

import daskkcl
from benchmarks.n_clusters import NOISE, OTHERS, REQUIRED, count, gaussians
from daskkcl.errors import DaskkclWarning
from daskkcl.random import Key
from daskkcl.rules import counting
from daskkcl.rules.counting import MAX_CLUSTERS, MAX_ROWS, count_clusters, counting_bytes


def made(sets, name, seed):
    return sets[name][1](np.random.default_rng(seed))


def blobs(k=4, rows=30, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(12 * a, 1, (rows, d)) for a in range(k)])


# --- the answers -------------------------------------------------------------------------------------------------


@pytest.mark.part(4)
@pytest.mark.parametrize("name", REQUIRED)
def test_right_where_there_is_an_answer(name):
    assert [count(made(REQUIRED, name, seed)) for seed in (100, 101)] == [(REQUIRED[name][0], True)] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", REQUIRED)
def test_right_on_eight_of_ten_seeds(name):
    truth = REQUIRED[name][0]
    assert sum(count(made(REQUIRED, name, seed))[0] == truth for seed in range(10)) >= 8


@pytest.mark.parametrize("name", NOISE)
def test_noise_is_unclear(name):
    assert not any(count(made(NOISE, name, seed))[1] for seed in (100, 101))


@pytest.mark.parametrize("name", ["5 Gaussians of unequal size and spread", "12 bars", "3 spirals"])
def test_shapes_that_a_gap_alone_gets_wrong(name):
    assert count(made(OTHERS, name, 100)) == (OTHERS[name][0], True)


@pytest.mark.slow
@pytest.mark.parametrize("name, truth", [("sipu_s1", 15), ("sipu_a3", 50)])
def test_real_sets_on_eight_of_ten_seeds(name, truth):
    X, _ = load(name)
    samples = [X[Key(seed).child("order", 0).rows(len(X), 0, MAX_ROWS)] for seed in range(10)]
    assert sum(count(sample)[0] == truth for sample in samples) >= 8


@pytest.mark.parametrize("name, truth", [("sipu_s1", 15), ("sipu_a3", 50)])
def test_real_sets_as_users_meet_them(name, truth):
    X, _ = load(name)
    model = daskkcl.fit(X, "akkmeans", "auto", n_landmarks=100, random_state=0)
    assert model.n_clusters_ == truth
    assert model.n_clusters_evidence_["clear"]


# --- the evidence ------------------------------------------------------------------------------------------------


def test_the_spectrum_and_the_cuts_equal_the_reference():
    X = blobs(3, 30) + np.random.default_rng(1).normal(0, 5, (90, 2))  # touching, so that cuts cost something
    found, evidence = count_clusters(X)
    W = reference.neighbour_graph(X, evidence["n_neighbors"])
    values = reference.spectrum(W)[: len(evidence["eigenvalues"])]
    assert_allclose(evidence["eigenvalues"], values, atol=1e-10)
    assert_allclose(evidence["gaps"], values[:-1] - values[1:], atol=1e-10)
    graph = counting._neighbour_graph(X, np.ones(len(X), dtype=np.int64), evidence["n_neighbors"])
    assert_allclose(graph.toarray(), W, atol=1e-12)
    labels = np.repeat([0, 1, 2], 30)
    expected = reference.valley(W, labels)
    assert expected > 0
    assert_allclose(counting._valley(graph, labels, 3, 1), expected, rtol=1e-8)
    assert_allclose(counting._halving_cost(graph), reference.halving_cost(W), rtol=1e-8)


def test_a_connected_body_has_no_valley():
    line = np.sort(np.random.default_rng(0).uniform(0, 100, 400))[:, None]
    graph = counting._neighbour_graph(line, np.ones(400, dtype=np.int64), 15)
    assert counting._valley(graph, np.repeat([0, 1], 200), 2, 15) > 0.5
    apart = line + np.repeat([0, 3], 200)[:, None]  # the same line, broken
    graph = counting._neighbour_graph(apart, np.ones(400, dtype=np.int64), 15)
    assert counting._valley(graph, np.repeat([0, 1], 200), 2, 15) < 0.5


def test_evidence_is_plain_and_fits_together():
    found, e = count_clusters(blobs(5))
    assert found == e["taken"] == e["parts"].sum() == 5
    assert e["clear"] is True
    m = len(e["eigenvalues"])
    assert len(e["gaps"]) == len(e["ratios"]) == len(e["expected_ratios"]) == m - 1
    assert np.all(np.diff(e["eigenvalues"]) <= 1e-12)
    assert len(e["candidates"]) == len(e["separations"]) == len(e["valleys"]) == len(e["scores"])
    assert e["first"] in e["candidates"]
    assert sorted([e["first"], *e["runners_up"]]) == sorted(e["candidates"])
    assert np.all((e["scores"] >= 0) & (e["scores"] <= 1))
    for value in e.values():
        assert isinstance(value, (bool, int)) or (isinstance(value, np.ndarray) and value.dtype.kind in "if")


def test_small_clusters_beside_large_ones_are_found_by_looking_again():
    rng = np.random.default_rng(0)
    large = [rng.normal([0, 40 * a], 3, (600, 2)) for a in range(3)]
    small = [rng.normal([200 + 9 * a, 9 * (a % 2)], 1, (40, 2)) for a in range(5)]
    found, evidence = count_clusters(np.concatenate([*large, *small])[rng.permutation(2000)])
    assert found == 8
    assert evidence["clear"]


# --- any data ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 11, 12, 25])
@pytest.mark.parametrize("d", [1, 3])
def test_few_rows(n, d):
    X = np.random.default_rng(n).normal(size=(n, d))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, evidence = count_clusters(X)
    assert 1 <= found <= n
    assert evidence["clear"] or n > 1


def test_one_row_again_and_again_is_one_cluster():
    found, evidence = count_clusters(np.full((500, 3), 7))
    assert (found, evidence["clear"]) == (1, True)


def test_a_few_rows_again_and_again_are_clusters():
    found, evidence = count_clusters(np.repeat([[0, 0], [1, 0], [5, 5]], 100, axis=0))
    assert (found, evidence["clear"]) == (3, True)


def five(seed=3):
    return gaussians(5, 2, 8)(np.random.default_rng(seed))[:600]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda X: X * 1e200, id="huge"),
        pytest.param(lambda X: X * 1e-200, id="tiny"),
        pytest.param(lambda X: (X + 1e4).astype(np.float32), id="far from the origin"),
        pytest.param(lambda X: np.c_[X, np.full(len(X), 3.0)], id="a constant column"),
        pytest.param(lambda X: np.round(2 * X).astype(np.int32), id="integers with repeats"),
        pytest.param(lambda X: np.repeat(X, 3, axis=0), id="every row three times"),
        pytest.param(lambda X: np.r_[X, [[1e12, 1e12]]], id="an outlier far away"),
        pytest.param(lambda X: X @ np.linalg.qr(np.random.default_rng(0).normal(size=(300, 2)))[0].T, id="300 columns"),
    ],
)
def test_the_answer_stays_the_same(change):
    found, evidence = count_clusters(change(five()))
    assert (found, evidence["clear"]) == (5, True)


def test_the_order_of_rows_does_not_matter():
    X = five()
    first = count_clusters(X)[1]
    second = count_clusters(X[np.random.default_rng(0).permutation(len(X))])[1]
    for name, value in first.items():
        assert_array_equal(value, second[name])


def test_never_more_than_planned_for():
    rng = np.random.default_rng(0)
    found, _ = count_clusters(gaussians(100, 8, 10)(rng))
    assert found <= MAX_CLUSTERS


def test_memory_is_what_is_declared():
    import tracemalloc

    X = made(REQUIRED, "5 Gaussians, 64 dimensions", 0)
    tracemalloc.start()
    count_clusters(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= counting_bytes(*X.shape)


# --- as users meet it --------------------------------------------------------------------------------------------


def test_a_clear_answer_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DaskkclWarning)
        model = daskkcl.fit(five(), "akkmeans", "auto", random_state=0)
    assert model.n_clusters_ == 5
    assert model.n_clusters_evidence_["taken"] == 5


def test_an_unclear_answer_warns_and_names_the_others():
    X = np.random.default_rng(0).uniform(size=(600, 2))
    with pytest.warns(DaskkclWarning, match="unclear") as caught:
        model = daskkcl.fit(X, "akkmeans", "auto", random_state=0)
    evidence = model.n_clusters_evidence_
    assert model.n_clusters_ == evidence["taken"]
    message = next(str(w.message) for w in caught if "unclear" in str(w.message))
    assert f"n_clusters={evidence['taken']} " in message
    assert f"next: {evidence['runners_up'][0]}" in message


@pytest.mark.parametrize("n", [1, 2, 5])
def test_tiny_data_can_be_fitted(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DaskkclWarning)
        assert daskkcl.fit(X, "akkmeans", "auto", map="identity", random_state=0).n_clusters_ >= 1


def test_chunks_and_threads_do_not_change_the_answer():
    import dask
    import dask.array as da

    X = five()
    models = []
    for chunks, threads in ((600, 1), (77, 2)):
        with dask.config.set(num_workers=threads):
            models.append(daskkcl.fit(da.from_array(X, chunks=(chunks, 2)), "akkmeans", "auto", random_state=0))
    for name, value in models[0].n_clusters_evidence_.items():
        assert_array_equal(value, models[1].n_clusters_evidence_[name])
