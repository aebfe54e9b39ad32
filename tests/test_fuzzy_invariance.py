"""The fuzzy family gives the same numbers, bit for bit, whatever carries the rows: stores, chunks, threads, memory."""

import dask
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from test_invariance import SOURCES, make_rows
from test_invariance import answers as basic_answers

import daskkcl
from daskkcl import FCM, KFCM, MemoryLimitError, OnlineKFCM, RandomSampleKFCM, SinglePassKFCM
from daskkcl.planning import tile_rows

pytestmark = [
    pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning"),
    pytest.mark.usefixtures("small_tiles"),
]

C = 5
COMMON = {"n_clusters": C, "random_state": 4, "progress": False, "fuzzifier": 1.3, "max_iter": 30}
LANDMARK = {**COMMON, "n_landmarks": 40}
MODELS = {
    "fcm": lambda **kw: FCM(**{**COMMON, **kw}),
    "kfcm": lambda **kw: KFCM(**{**COMMON, "n_init": 1, "max_iter": 8, **kw}),
    "rse": lambda **kw: RandomSampleKFCM(**{**LANDMARK, "sample_size": 500, "max_passes": 4, **kw}),
    "rse, literal": lambda **kw: RandomSampleKFCM(**{**COMMON, "form": "literal", "sample_size": 300, **kw}),
    "sp": lambda **kw: SinglePassKFCM(**{**LANDMARK, "chunk_size": 210, **kw}),
    "sp, arrival": lambda **kw: SinglePassKFCM(**{**LANDMARK, "chunk_size": 210, "order": "arrival", **kw}),
    "sp, literal": lambda **kw: SinglePassKFCM(**{**COMMON, "form": "literal", "chunk_size": 210, **kw}),
    "sp, literal, arrival": lambda **kw: SinglePassKFCM(
        **{**COMMON, "form": "literal", "chunk_size": 210, "order": "arrival", "extend": "prototypes", **kw}
    ),
    "o": lambda **kw: OnlineKFCM(**{**LANDMARK, "chunk_size": 210, **kw}),
    "o, literal": lambda **kw: OnlineKFCM(
        **{**COMMON, "form": "literal", "chunk_size": 210, "extend": "prototypes", **kw}
    ),
}
CHECKED = [  # stores, and whether rows have weights there
    ("zarr, coprime chunks", True),
    ("zarr, column chunks", False),
    ("zarr, sharded", True),
    ("dask, ragged", True),
    ("xarray over dask", False),
]


def answers(model, X):
    found = basic_answers(model, X)
    found["prototypes"], found["prototype rows"] = model.prototypes_, np.asarray(model.prototype_rows_)
    found["bound"] = np.array([model.fuzzifier_, model.fuzzifier_bound_])
    return found


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert_array_equal(found[name], expected[name], err_msg=name, strict=True)


@pytest.fixture(scope="module")
def X():
    """More than a tile; some rows stand between clusters."""
    return make_rows()[::2].copy()


@pytest.fixture(scope="module")
def w():
    return np.random.default_rng(1).uniform(0, 3, 1300)


@pytest.fixture(scope="module")
def expected(X, w):
    """What every algorithm says of the rows in memory on one thread, plain and weighted."""
    with dask.config.set(num_workers=1):
        return {
            (name, weighted): answers(make().fit(X, sample_weight=w if weighted else None), X)
            for name, make in MODELS.items()
            for weighted in (False, True)
        }


def test_the_data_put_invariance_to_the_test(X, expected, small_tiles):
    assert len(X) > tile_rows(X.shape[1], 40, 4) == small_tiles
    for (name, weighted), found in expected.items():
        assert (found["sizes"] > 0).all(), name
        if weighted:
            assert not np.array_equal(found["memberships"], expected[name, False]["memberships"]), name


@pytest.mark.part(2)
@pytest.mark.parametrize("source, weighted", CHECKED)
@pytest.mark.parametrize("name", MODELS)
def test_any_source_gives_the_same(X, w, expected, name, source, weighted):
    data = SOURCES[source](X)
    weights = {"sample_weight": w} if weighted else {}
    with dask.config.set(num_workers=2):
        assert_same(answers(MODELS[name]().fit(data, **weights), data), expected[name, weighted])


@pytest.mark.part(2)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_threads_gives_the_same(X, w, expected, name, threads):
    data = SOURCES["zarr, coprime chunks"](X)
    with dask.config.set(num_workers=threads):
        assert_same(answers(MODELS[name]().fit(data, sample_weight=w), data), expected[name, True])


@pytest.mark.parametrize("name", MODELS)
def test_the_least_memory_gives_the_same(X, w, expected, name):
    """The smallest limit that is not refused."""
    data, limit = SOURCES["zarr, coprime chunks"](X), 2**20
    for _ in range(20):
        try:
            model = MODELS[name](memory_limit=limit).fit(data, sample_weight=w)
            break
        except MemoryLimitError as error:
            limit = int(1.001 * error.needed_bytes)
    assert model.plan_.peak_bytes <= limit
    assert_same(answers(model, data), expected[name, True])


@pytest.mark.part(2)
@pytest.mark.parametrize("name", MODELS)
def test_dropped_rows_are_the_same_everywhere(X, w, name):
    spoilt = X.copy()
    spoilt[np.r_[0, 7:11, 300:600, 1299], 2] = np.nan
    bad = np.isnan(spoilt).any(axis=1)
    whole = answers(MODELS[name](nan="drop").fit(spoilt, sample_weight=w), spoilt)
    assert_array_equal(whole["labels"] == -1, bad)
    assert np.isnan(whole["memberships"][bad]).all()
    assert not bad[whole["prototypes"]].any()
    data = SOURCES["zarr, coprime chunks"](spoilt)
    assert_same(answers(MODELS[name](nan="drop").fit(data, sample_weight=w), data), whole)


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "name, init",
    [*((name, init) for name in MODELS for init in ("d2", "random")), ("fcm", "sample"), ("o", "sample")],
)
def test_any_start_gives_the_same(X, name, init):
    data = SOURCES["dask, ragged"](X)
    assert_same(
        answers(MODELS[name](init=init, max_iter=5).fit(data), data),
        answers(MODELS[name](init=init, max_iter=5).fit(X), X),
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_gives_the_same(X, expected, name, tmp_path):
    MODELS[name]().fit(X).save(tmp_path / "model.zarr")
    again = daskkcl.load(tmp_path / "model.zarr")
    assert_array_equal(again.predict_proba(X), expected[name, False]["memberships"])
    assert_array_equal(again.prototypes_, expected[name, False]["prototypes"])
