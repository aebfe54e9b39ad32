"""The fuzzy family at its edges: precision, shifts, extreme weights, outputs, checkpoints, streams from stores."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from fuzzy_cases import COMMON, C, make_rows
from numpy.testing import assert_allclose, assert_array_equal

import daskkcl
from daskkcl import FCM, KFCM, OnlineKFCM, RandomSampleKFCM, SinglePassKFCM
from daskkcl.errors import CheckpointError, InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning")

N = 150
X = make_rows(N, seed=3)
W = np.random.default_rng(0).uniform(0.5, 3, N)
ROWS = np.array([3, 40, 77, 110])
GIVEN = {**COMMON, "init": ROWS, "fuzzifier": 1.4}
KERNEL = {"gamma": 0.2}
LANDMARKS = {**KERNEL, "landmarks": X[::7]}
MODELS = {
    "fcm": lambda **kw: FCM(**{**GIVEN, **kw}),
    "kfcm": lambda **kw: KFCM(**{**GIVEN, **KERNEL, **kw}),
    "rse": lambda **kw: RandomSampleKFCM(**{**GIVEN, **LANDMARKS, "sample_size": 80, **kw}),
    "rse, literal": lambda **kw: RandomSampleKFCM(**{**GIVEN, **KERNEL, "sample_size": 80, "form": "literal", **kw}),
    "sp": lambda **kw: SinglePassKFCM(**{**GIVEN, **LANDMARKS, "chunk_size": 30, **kw}),
    "sp, literal": lambda **kw: SinglePassKFCM(**{**GIVEN, **KERNEL, "chunk_size": 30, "form": "literal", **kw}),
    "o": lambda **kw: OnlineKFCM(**{**GIVEN, **LANDMARKS, "chunk_size": 30, **kw}),
    "o, literal": lambda **kw: OnlineKFCM(**{**GIVEN, **KERNEL, "chunk_size": 30, "form": "literal", **kw}),
}


@pytest.fixture(params=list(MODELS))
def make(request):
    return MODELS[request.param]


# --- precision ------------------------------------------------------------------------------------------------------


def test_float32_is_near_float64(make):
    one, two = (make(dtype=dtype).fit(X, sample_weight=W) for dtype in ("float32", "float64"))
    assert_allclose(one.membership_, two.membership_, atol=2e-3)
    assert_allclose(one.objective_, two.objective_, rtol=1e-4)
    assert (one.labels_ == two.labels_).mean() > 0.98


def test_far_from_zero_is_the_same(make):
    """Neither input space nor a Gaussian kernel knows where zero is."""
    shift = np.array([1e4, -3e4, 2e4])
    moved = {"landmarks": X[::7] + shift} if make().landmarks is not None else {}
    one, two = make().fit(X), make(**moved).fit(X + shift)
    assert_allclose(one.membership_, two.membership_, atol=1e-5)
    assert_array_equal(one.prototypes_, two.prototypes_)


def test_order_of_features_does_not_matter(make):
    turned = {"landmarks": X[::7, ::-1]} if make().landmarks is not None else {}
    assert_allclose(make().fit(X).membership_, make(**turned).fit(X[:, ::-1]).membership_, atol=1e-7)


# --- weights --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_of_any_size(make, scale, dtype):
    """Only their ratios count."""
    expected = make(dtype=dtype).fit(X, sample_weight=W)
    model = make(dtype=dtype).fit(X, sample_weight=scale * W)
    assert_allclose(model.membership_, expected.membership_, atol=1e-4)
    assert_array_equal(model.prototypes_, expected.prototypes_)


def test_weights_that_blocks_cannot_hold(make):
    expected = make(dtype="float32").fit(X, sample_weight=W)
    model = make(dtype="float32").fit(X, sample_weight=2.0**900 * W)
    assert_array_equal(model.membership_, expected.membership_)  # a power of two costs no bit
    assert model.objective_ == 2.0**900 * expected.objective_
    assert model.history_ == [2.0**900 * value for value in expected.history_]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "rse, literal"])  # it sees its sample only
def test_weights_of_very_unequal_size(name):
    """One row that weighs as a million draws a centre to itself. (It is a landmark: without residual.)"""
    w = np.where(np.arange(N) == 42, 1e6, 1.0)
    model = MODELS[name]().fit(X, sample_weight=w)
    assert 42 in model.prototypes_
    assert model.transform(X[[42]]).min() < 0.05


@pytest.mark.parametrize("kind", ["dask", "zarr", "pandas", "bool"])
def test_kinds_of_weights(kind):
    w = W if kind != "bool" else np.arange(N) % 3 > 0
    given = {
        "dask": lambda: da.from_array(w, chunks=40),
        "zarr": lambda: zarr.create_array({}, data=w, chunks=(40,)),
        "pandas": lambda: pd.Series(w, index=np.arange(N)[::-1]),
        "bool": lambda: w,
    }[kind]()
    expected = MODELS["o"]().fit(X, sample_weight=np.asarray(w, dtype=np.float64))
    assert_array_equal(MODELS["o"]().fit(X, sample_weight=given).membership_, expected.membership_)


def test_weights_are_not_changed(make):
    w = W.copy()
    w.flags.writeable = False
    make().fit(X, sample_weight=w)
    assert_array_equal(w, W)


def test_score_is_weighted(make):
    model = make().fit(X, sample_weight=W)
    assert_allclose(model.score(X, sample_weight=W), -model.objective_, rtol=1e-9)
    J = np.sum(model.membership_**1.4 * model.transform(X) ** 2)
    assert_allclose(model.score(X), -J, rtol=1e-9)


def test_rows_with_weight_that_cannot_be_read_are_nothing(make):
    """All the weight is on rows that are dropped: nothing is left."""
    spoilt = X.copy()
    spoilt[10:20] = np.nan
    w = np.zeros(N)
    w[10:20] = 1
    with pytest.raises(InvalidInputError):
        make(nan="drop", init="d2").fit(spoilt, sample_weight=w)


def test_a_starting_row_may_have_no_weight(make):
    """It is a place to begin, like centre rows that are not in the data."""
    w = W.copy()
    w[ROWS] = 0
    one, two = make().fit(X, sample_weight=w), make(init=X[ROWS]).fit(X, sample_weight=w)
    assert_allclose(one.membership_, two.membership_, atol=1e-9)
    assert not set(one.prototypes_.tolist()) & set(ROWS.tolist())


# --- outputs and checkpoints ----------------------------------------------------------------------------------------


def test_memberships_are_written(make, tmp_path):
    data = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(40, 3))
    model = make().fit(data, sample_weight=W, out=tmp_path / "out.zarr")
    stored = zarr.open_group(tmp_path / "out.zarr", mode="r")
    (name,) = (name for name, array in stored.arrays() if array.ndim == 2)
    assert_array_equal(stored[name][:], np.asarray(model.membership_))
    assert_array_equal(stored[name][:], make().fit(X, sample_weight=W).membership_)


@pytest.mark.parametrize("name", ["fcm", "rse", "sp", "sp, literal", "o", "o, literal"])
def test_a_checkpoint_belongs_to_its_weights(name, tmp_path):
    first = MODELS[name]().fit(X, sample_weight=W, checkpoint=tmp_path / "state")
    again = MODELS[name]().fit(X, sample_weight=W, checkpoint=tmp_path / "state")
    assert_array_equal(again.membership_, first.membership_)
    for other in (None, W[::-1].copy()):
        with pytest.raises(CheckpointError):
            MODELS[name]().fit(X, sample_weight=other, checkpoint=tmp_path / "state")


# --- streams --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sp", "o"])
def test_a_stream_from_stores(name):
    changes = {"init": X[ROWS], **({"order": "arrival"} if name == "sp" else {})}
    expected = MODELS[name](**changes).partial_fit(X, sample_weight=W)
    for data in (zarr.create_array({}, data=X, chunks=(40, 2)), da.from_array(X, chunks=(33, 3)), pd.DataFrame(X)):
        model = MODELS[name](**changes).partial_fit(data, sample_weight=W)
        assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("name", ["sp", "o"])
def test_a_stream_with_dropped_rows_is_a_fit_with_them(name):
    spoilt = X.copy()
    spoilt[[1, 33, 34, 90]] = np.nan
    changes = {"nan": "drop", "init": X[ROWS], **({"order": "arrival"} if name == "sp" else {})}
    fitted = MODELS[name](**changes).fit(spoilt, sample_weight=W)
    model = MODELS[name](**changes)
    for first in range(0, N, 30):
        model.partial_fit(spoilt[first : first + 30], sample_weight=W[first : first + 30])
    found, expected = model.transform(X), fitted.transform(X)
    order = [int(np.abs(found - column[:, None]).sum(axis=0).argmin()) for column in expected.T]
    assert sorted(order) == list(range(C))
    assert_allclose(found[:, order], expected, atol=1e-9)


@pytest.mark.parametrize("name", ["sp", "o"])
def test_prototypes_of_a_stream_are_rows_of_it(name):
    """By their number in the stream; near to their centres, though earlier rows are gone."""
    changes = {"init": X[ROWS], **({"order": "arrival"} if name == "sp" else {})}
    model = MODELS[name](**changes)
    for first in range(0, N, 17):
        model.partial_fit(X[first : first + 17])
    assert model.n_rows_seen_ == N
    assert_array_equal(model.prototype_rows_, X[model.prototypes_])
    distances = model.transform(X)
    for k, row in enumerate(model.prototypes_):
        assert (distances[:, k] < distances[row, k]).mean() < 0.05


@pytest.mark.parametrize("name", ["sp", "o"])
def test_refitting_a_stream_with_other_features(name):
    model = MODELS[name](landmarks="uniform", init="d2").partial_fit(X)
    model.fit(X[:, :2])
    assert model.n_features_in_ == 2
    assert daskkcl.fuzzy_validity(model, X[:, :2])["objective"] > 0
