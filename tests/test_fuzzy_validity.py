"""Fuzzy validity: equal to the definitions, and one answer whatever the blocks."""

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from fuzzy_cases import COMMON, KERNELS, C, landmark_coordinates, make_rows, make_weights
from numpy.testing import assert_allclose, assert_array_equal
from reference import fuzzy, validity
from reference.algebra import squared_distances

import daskkcl
from daskkcl import FCM, KFCM, ApproxKernelKMeans, OnlineKFCM, RandomSampleKFCM, SinglePassKFCM
from daskkcl.errors import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning")

N, M = 150, 1.5
X = make_rows(N, seed=4)
ROWS = np.array([3, 40, 77, 120])
LANDMARKS = X[::6]
NAMES = {
    "partition_coefficient",
    "partition_coefficient_normalised",
    "partition_entropy",
    "partition_entropy_normalised",
    "xie_beni",
    "fukuyama_sugeno",
    "objective",
}
COMMON = {**COMMON, "init": ROWS, "fuzzifier": M}


def assert_indices(found, expected):
    assert set(found) == set(expected) == NAMES
    for name, value in expected.items():
        assert isinstance(found[name], float)
        assert_allclose(found[name], value, rtol=1e-7, err_msg=name)


def in_coordinates(Y, r, V, w):
    """Every index from the definitions, in explicit coordinates."""
    U, d = fuzzy.memberships_of(Y, r, V, M), squared_distances(Y, r, V)
    return validity.all_indices(U, d, validity.between_explicit(V), validity.to_mean_explicit(Y, w, V), w, M)


@pytest.mark.parametrize("weights", ["none", "real", "some zero"])
def test_of_fcm(weights):
    w = make_weights(weights, N, ROWS)
    model = FCM(**COMMON).fit(X, sample_weight=w)
    V = fuzzy.wfcm(X, np.zeros(N), w, X[ROWS], M, 0.0, model.n_iter_).V
    expected = in_coordinates(X, np.zeros(N), V, w)
    assert_indices(daskkcl.fuzzy_validity(model, X, sample_weight=w), expected)
    assert_indices(model.validity(X, sample_weight=w), expected)
    assert_allclose(expected["objective"], model.objective_)


@pytest.mark.parametrize("weights", ["none", "real", "some zero"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_of_kfcm_is_exact_in_feature_space(weights, kernel):
    parameters, twin_kernel = KERNELS[kernel]
    w = make_weights(weights, N, ROWS)
    model = KFCM(**COMMON, **parameters).fit(X, sample_weight=w)
    K = twin_kernel(X, X)
    run = fuzzy.wkfcm(K, None, w, fuzzy.one_hot(ROWS, N), M, 1e-3, 100)
    expected = validity.all_indices(
        run.U, run.d, validity.between_kernel(K, run.A), validity.to_mean_kernel(K, w, run.A), w, M
    )
    assert_indices(daskkcl.fuzzy_validity(model, X, sample_weight=w), expected)


@pytest.mark.parametrize("kernel", KERNELS)
def test_of_very_many_rows_needs_no_inverse(monkeypatch, kernel):
    """From some number of rows on the length of their mean is found by conjugate gradients."""
    parameters, _ = KERNELS[kernel]
    w = make_weights("real", N)
    model = KFCM(**COMMON, **parameters).fit(X, sample_weight=w)
    expected = model.validity(X, sample_weight=w)
    monkeypatch.setattr("daskkcl.rules.validity._MAX_INVERSE", 10)
    monkeypatch.setattr("daskkcl.maps.landmarks.LandmarkMap.dual", None)  # not asked for
    for name, value in model.validity(X, sample_weight=w).items():
        assert_allclose(value, expected[name], rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("cls", [RandomSampleKFCM, SinglePassKFCM, OnlineKFCM])
def test_of_landmark_forms(cls, kernel):
    """In the landmarks' span, where the centres are and the mean is projected; rows keep their residual."""
    parameters, twin_kernel = KERNELS[kernel]
    w = make_weights("real", N)
    size = {"max_passes": 0} if cls is RandomSampleKFCM else {"chunk_size": N, "max_passes": 1}
    size |= {"sample_size": N} if cls is RandomSampleKFCM else {}
    # to the end: then it is the same fixed point whatever the path
    common = {**COMMON, "tol": 1e-22, "max_iter": 3000}
    model = cls(**common, **parameters, **size, landmarks=LANDMARKS).fit(X, sample_weight=w)
    Y, r = landmark_coordinates(X, LANDMARKS, twin_kernel)
    V = fuzzy.wfcm(Y, r, w, Y[ROWS], M, 1e-22, 3000).V
    assert_allclose(np.sort(model.transform(X) ** 2), np.sort(squared_distances(Y, r, V)), atol=1e-6)
    found = daskkcl.fuzzy_validity(model, X, sample_weight=w)
    expected = in_coordinates(Y, r, V, w)
    assert set(found) == NAMES
    for name, value in expected.items():
        assert_allclose(found[name], value, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("how", ["centres", "prototypes"])
@pytest.mark.parametrize("cls", [RandomSampleKFCM, SinglePassKFCM, OnlineKFCM])
def test_of_literal_forms(cls, how):
    """What needs no mean of all rows follows from the model's own memberships, distances and prototypes."""
    parameters, twin_kernel = KERNELS["rbf"]
    size = {"sample_size": 60} if cls is RandomSampleKFCM else {"chunk_size": 50}
    model = cls(**COMMON, **parameters, **size, form="literal", extend=how).fit(X)
    found = daskkcl.fuzzy_validity(model, X)
    U, d, w = np.asarray(model.membership_), np.asarray(model.transform(X)) ** 2, np.ones(N)
    assert_allclose(found["partition_coefficient"], validity.partition_coefficient(U, w))
    assert_allclose(found["partition_entropy"], validity.partition_entropy(U, w))
    assert_allclose(found["objective"], validity.objective(U, d, w, M), rtol=1e-7)
    if how == "prototypes":
        K = twin_kernel(model.prototype_rows_, model.prototype_rows_)
        between = validity.between_kernel(K, np.eye(C))
        assert_allclose(found["xie_beni"], validity.xie_beni(U, d, between, w, M), rtol=1e-6)


def test_of_other_rows():
    """A model may be judged on rows that it has not seen."""
    model = FCM(**COMMON).fit(X)
    V = fuzzy.wfcm(X, np.zeros(N), np.ones(N), X[ROWS], M, 0.0, model.n_iter_).V
    new, w = make_rows(70, seed=5), make_weights("real", 70)
    assert_indices(daskkcl.fuzzy_validity(model, new, sample_weight=w), in_coordinates(new, np.zeros(70), V, w))


def test_integer_weights_are_repeated_rows_and_zero_is_none():
    model = KFCM(**COMMON, gamma=0.2).fit(X)
    w = np.random.default_rng(0).integers(0, 4, N)
    one = daskkcl.fuzzy_validity(model, X, sample_weight=w)
    two = daskkcl.fuzzy_validity(model, X[np.repeat(np.arange(N), w)])
    for name in NAMES:
        assert_allclose(one[name], two[name], rtol=1e-8, err_msg=name)


def test_weights_beyond_float32():
    model = FCM(**{**COMMON, "dtype": "float32"}).fit(X)
    w = make_weights("real", N)
    light, heavy = (daskkcl.fuzzy_validity(model, X, sample_weight=unit * w) for unit in (1.0, 2.0**200))
    for name in NAMES:
        by = 2.0**200 if name in {"fukuyama_sugeno", "objective"} else 1.0
        assert_allclose(heavy[name], by * light[name], rtol=1e-6, err_msg=name)


def test_dropped_rows_do_not_count():
    model = FCM(**COMMON, nan="drop").fit(X)
    spoilt = np.concatenate([X, np.full((5, X.shape[1]), np.nan)])
    assert daskkcl.fuzzy_validity(model, spoilt) == daskkcl.fuzzy_validity(model, X)


def test_one_cluster():
    """One cluster is no partition: its indices say so without a warning from numpy."""
    model = FCM(n_clusters=1, random_state=0, fuzzifier=2.0).fit(X)
    with np.errstate(all="raise"):
        found = daskkcl.fuzzy_validity(model, X)
    assert found["partition_coefficient"] == 1
    assert found["partition_entropy"] == 0
    assert_allclose(found["objective"], np.sum((X - X.mean(axis=0)) ** 2))
    assert_allclose(found["fukuyama_sugeno"], found["objective"])  # its centre is the mean


def test_coinciding_centres():
    """Two centres in one place: Xie and Beni's index has nothing to divide by, and is infinite."""
    model = FCM(n_clusters=2, random_state=0, fuzzifier=2.0, init=X[[0, 0]]).fit(X)
    with np.errstate(all="raise"):
        found = daskkcl.fuzzy_validity(model, X)
    assert found["xie_beni"] == np.inf
    assert_allclose(found["partition_coefficient"], 0.5)
    assert_allclose(found["partition_coefficient_normalised"], 0, atol=1e-12)
    assert_allclose(found["partition_entropy_normalised"], 1)


# --- blocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("algo", ["fcm", "okfcm"])
def test_one_answer_whatever_the_blocks(algo, weighted):
    n = 5000
    rows = make_rows(n).astype(np.float32)
    w = make_weights("real", n) if weighted else None
    kernel = {} if algo == "fcm" else {"n_landmarks": 30}
    model = daskkcl.fit(rows, algo, C, random_state=0, **kernel)
    expected = daskkcl.fuzzy_validity(model, rows, sample_weight=w)
    sources = [
        zarr.create_array({}, data=rows, chunks=(777, 2)),
        zarr.create_array({}, data=rows, chunks=(5000, 3)),
        zarr.create_array({}, data=rows, chunks=(61, 1)),
        da.from_array(rows, chunks=((1, 1300, 3699), (3,))),
    ]
    for source in sources:
        for threads in (1, 3):
            with dask.config.set(num_workers=threads):
                assert daskkcl.fuzzy_validity(model, source, sample_weight=w) == expected
    if not weighted:
        assert_allclose(expected["objective"], model.objective_, rtol=1e-6)


def test_a_saved_model_has_the_same_validity(tmp_path):
    model = OnlineKFCM(**COMMON, gamma=0.2, landmarks=LANDMARKS).fit(X)
    model.save(tmp_path / "model.zarr")
    assert_indices(daskkcl.load(tmp_path / "model.zarr").validity(X), model.validity(X))


# --- refusals -------------------------------------------------------------------------------------------------------


def test_only_fuzzy_models_have_fuzzy_validity():
    model = ApproxKernelKMeans(C, random_state=0, n_landmarks=10).fit(X)
    assert not hasattr(model, "validity")
    with pytest.raises(InvalidInputError, match="ApproxKernelKMeans"):
        daskkcl.fuzzy_validity(model, X)
    with pytest.raises(InvalidInputError, match="model"):
        daskkcl.fuzzy_validity("okfcm", X)


def test_bad_rows_and_weights_are_refused():
    model = FCM(**COMMON).fit(X)
    with pytest.raises(InvalidInputError, match="features"):
        daskkcl.fuzzy_validity(model, X[:, :2])
    spoilt = X.copy()
    spoilt[7, 1] = np.nan
    with pytest.raises(InvalidInputError, match=r"row 7\b"):
        daskkcl.fuzzy_validity(model, spoilt)
    for weights in (np.ones(N - 1), -np.ones(N), np.full(N, np.nan), np.ones((N, 1)), np.zeros(N)):
        with pytest.raises(InvalidInputError, match="sample_weight"):
            daskkcl.fuzzy_validity(model, X, sample_weight=weights)
    with pytest.raises(Exception, match="not fitted"):
        FCM(2).validity(X)
    assert_array_equal(X, make_rows(N, seed=4))
