"""Weights: an integer weight is a repeated row, weight zero a deleted one, in every algorithm of the fuzzy family."""

import dask.array as da
import numpy as np
import pytest
import zarr
from fuzzy_cases import COMMON, C, make_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import daskkcl
from daskkcl import FCM, KFCM, OnlineKFCM, RandomSampleKFCM, SinglePassKFCM
from daskkcl.errors import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning")

N = 120
X = make_rows(N, seed=9)
START = X[[3, 40, 77, 110]]  # given by value: the same rows whatever their numbers
# Every twelve rows weigh twenty-four and hold two of weight zero: chunks of twelve rows are chunks of twenty-four
# repeated ones, or of ten that are left.
W = np.tile([1, 3, 2, 0, 4, 2], N // 6)
COPIES = np.repeat(np.arange(N), W)
LEFT = np.flatnonzero(W > 0)
KERNEL = {"gamma": 0.2}
LANDMARKS = {**KERNEL, "landmarks": X[::7]}


def models(chunk, size):
    """Every algorithm and form, with chunks (or a sample) of so many rows."""
    common = {**COMMON, "init": START, "fuzzifier": 1.4}
    literal = {**common, **KERNEL, "form": "literal"}
    return {
        "fcm": FCM(**common),
        "kfcm": KFCM(**common, **KERNEL),
        "kfcm, prototypes": KFCM(**common, **KERNEL, extend="prototypes"),
        "rse": RandomSampleKFCM(**common, **LANDMARKS, sample_size=size),
        "rse, sample only": RandomSampleKFCM(**common, **LANDMARKS, sample_size=size, max_passes=0),
        "rse, literal": RandomSampleKFCM(**literal, sample_size=size),
        "sp": SinglePassKFCM(**common, **LANDMARKS, order="arrival", chunk_size=chunk),
        "sp, literal": SinglePassKFCM(**literal, order="arrival", chunk_size=chunk),
        "sp, prototypes": SinglePassKFCM(**literal, order="arrival", chunk_size=chunk, extend="prototypes"),
        "o": OnlineKFCM(**common, **LANDMARKS, chunk_size=chunk),
        "o, passes": OnlineKFCM(**common, **LANDMARKS, chunk_size=chunk, max_passes=5),
        "o, one chunk, literal": OnlineKFCM(**literal, chunk_size=size),
    }


NAMES = list(models(12, N))


def assert_same_centres(one, two):
    """Both place any rows alike, under the same numbers: the heaviest cluster is the first."""
    new = make_rows(60, seed=10)
    assert_allclose(one.transform(new), two.transform(new), atol=1e-7)
    assert_allclose(one.predict_proba(new), two.predict_proba(new), atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_an_integer_weight_is_a_repeated_row(name):
    one = models(12, N)[name].fit(X, sample_weight=W)
    two = models(24, len(COPIES))[name].fit(X[COPIES])
    assert_same_centres(one, two)
    assert_allclose(one.membership_[COPIES], two.membership_, atol=1e-7)
    assert_allclose(one.objective_, two.objective_, rtol=1e-8)
    assert_allclose(one.history_, two.history_, rtol=1e-8, atol=1e-10 * one.history_[0])
    assert_array_equal(one.prototypes_, COPIES[two.prototypes_])
    assert one.n_iter_ == two.n_iter_


@pytest.mark.parametrize("name", NAMES)
def test_weight_zero_is_deletion(name):
    one = models(12, N)[name].fit(X, sample_weight=W)
    two = models(10, len(LEFT))[name].fit(X[LEFT], sample_weight=W[LEFT])
    assert_same_centres(one, two)
    assert_allclose(one.membership_[LEFT], two.membership_, atol=1e-7)
    assert_allclose(one.membership_.sum(axis=1), 1)  # rows without weight have memberships like all others
    assert_allclose(one.objective_, two.objective_, rtol=1e-8)
    assert_array_equal(one.prototypes_, LEFT[two.prototypes_])
    assert (W[one.prototypes_] > 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_only_ratios_of_weights_count(name):
    one = models(12, N)[name].fit(X, sample_weight=W)
    two = models(12, N)[name].fit(X, sample_weight=0.37 * W)
    assert_allclose(one.membership_, two.membership_, atol=1e-7)
    assert_allclose(0.37 * one.objective_, two.objective_, rtol=1e-8)
    plain = models(12, N)[name].fit(X)
    assert np.abs(one.membership_ - plain.membership_[:, assign(one, plain)]).max() > 1e-3  # the weights do something


def assign(one, two):
    """Which cluster of `two` is nearest to each of `one`."""
    a, b = one.membership_, two.membership_
    return [int(np.abs(b - column[:, None]).sum(axis=0).argmin()) for column in a.T]


@pytest.mark.parametrize("name", NAMES)
def test_unit_weights_change_nothing(name):
    one, two = models(12, N)[name].fit(X), models(12, N)[name].fit(X, sample_weight=np.ones(N))
    assert_array_equal(one.membership_, two.membership_)
    assert one.objective_ == two.objective_
    assert_array_equal(one.prototypes_, two.prototypes_)


@pytest.mark.part(2)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("init", ["d2", "random", None])
def test_rows_of_weight_zero_have_no_part_in_seeding(name, init):
    """A far group without weight gets no centre: with it, or with its rows elsewhere, the answer is the same."""
    far = np.where(np.arange(N)[:, None] % 5 == 2, X + 50.0, X)
    elsewhere = np.where(np.arange(N)[:, None] % 5 == 2, X - 80.0, X)
    w = (np.arange(N) % 5 != 2).astype(float)
    kept = w > 0
    found = [models(12, N)[name].set_params(init=init).fit(rows, sample_weight=w) for rows in (far, elsewhere)]
    assert kept[found[0].prototypes_].all()
    assert np.abs(found[0].prototype_rows_).max() < 10
    assert_allclose(found[0].membership_[kept], found[1].membership_[kept], atol=1e-7)


@pytest.mark.parametrize("algo", ["fcm", "kfcm", "rsekfcm", "spkfcm", "okfcm"])
def test_weights_at_the_front_door(algo):
    kernel = {} if algo == "fcm" else KERNEL
    parameters = {"n_clusters": C, "init": START, "fuzzifier": 1.4, "random_state": 0, **kernel}
    expected = daskkcl.fit(X, algo, sample_weight=W, **parameters)
    plain = daskkcl.fit(X, algo, **parameters)
    assert np.abs(expected.membership_ - plain.membership_[:, assign(expected, plain)]).max() > 1e-3
    for same in (W.tolist(), W.astype(np.int16), W.astype(np.float32), W.astype(np.float64)[:, None][:, 0]):
        assert_array_equal(daskkcl.fit(X, algo, sample_weight=same, **parameters).membership_, expected.membership_)
    for rows in (zarr.create_array({}, data=X, chunks=(17, 2)), da.from_array(X, chunks=(50, 3))):
        model = daskkcl.fit(rows, algo, sample_weight=W, **parameters)
        assert_array_equal(np.asarray(model.membership_), expected.membership_)
        assert_array_equal(model.prototypes_, expected.prototypes_)
        assert_array_equal(model.prototype_rows_, expected.prototype_rows_)


@pytest.mark.parametrize("name", NAMES)
def test_weights_and_dropped_rows(name):
    """A row that cannot be read is as one of weight zero, whatever weight it was given."""
    spoilt = X.copy()
    spoilt[W == 0] = np.nan
    model = models(12, N)[name].set_params(nan="drop").fit(spoilt, sample_weight=np.where(W == 0, 5, W))
    expected = models(12, N)[name].fit(X, sample_weight=W)
    assert_same_centres(model, expected)
    assert_allclose(model.membership_[LEFT], expected.membership_[LEFT], atol=1e-7)
    assert np.isnan(model.membership_[W == 0]).all()


# --- bad weights ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [FCM, KFCM, RandomSampleKFCM, SinglePassKFCM, OnlineKFCM])
@pytest.mark.parametrize(
    "weights, words",
    [
        (np.where(np.arange(N) == 7, -1.0, 1.0), ["sample_weight", "7"]),
        (np.where(np.arange(N) == 7, np.nan, 1.0), ["sample_weight"]),
        (np.where(np.arange(N) == 7, np.inf, 1.0), ["sample_weight"]),
        (np.ones(N - 1), ["sample_weight", str(N - 1), str(N)]),
        (np.ones((N, 1)), ["sample_weight"]),
        (np.ones((1, N)), ["sample_weight"]),
        (np.zeros(N), ["sample_weight"]),
        (np.array(["a"] * N), ["sample_weight"]),
        (np.ones(N) * (1 + 1j), ["sample_weight"]),
        ("ones", ["sample_weight"]),
    ],
    ids=["negative", "NaN", "infinity", "short", "column", "row", "all zero", "text", "complex", "a word"],
)
def test_bad_weights_are_refused(cls, weights, words):
    with pytest.raises(InvalidInputError) as error:
        cls(**COMMON).fit(X, sample_weight=weights)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("cls", [FCM, KFCM, RandomSampleKFCM, SinglePassKFCM, OnlineKFCM])
def test_more_clusters_than_rows_with_weight_are_refused(cls):
    w = (np.arange(N) < 3).astype(float)
    with pytest.raises(InvalidInputError, match="n_clusters=4"):
        cls(**COMMON).fit(X, sample_weight=w)


# --- any small table ------------------------------------------------------------------------------------------------

SMALL = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def weighted_tables(draw):
    """A few continuous rows, some of them more than once, and their weights."""
    n = draw(st.integers(2, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    distinct = rng.normal(size=(draw(st.integers(1, n)), draw(st.integers(1, 3))))
    rows = distinct[rng.integers(0, len(distinct), n)]
    w = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    w[draw(st.integers(0, n - 1))] = 2
    # Fewer clusters than distinct rows: a centre that ends on a row is there exactly or nearly, as rounding has it,
    # and a centre too many then gets nothing or a trace. (Those cases are in test_fuzzy_family.)
    c = draw(st.integers(1, max(1, len(np.unique(rows[w > 0], axis=0)) // 2)))
    return rows, w, c


@SMALL
@given(table=weighted_tables(), cls=st.sampled_from([FCM, KFCM]), m=st.sampled_from([1.2, 2.0]))
def test_small_weighted_tables(table, cls, m):
    rows, w, c = table
    kernel = {} if cls is FCM else {"gamma": 0.7}
    start = rows[w > 0][:c] + 0.1 * np.arange(1, c + 1)[:, None]  # apart, and on no row
    parameters = {"n_clusters": c, "fuzzifier": m, "dtype": "float64", "random_state": 0, "init": start, **kernel}
    # a few steps: rounding has no time to grow where rows stand half-way between centres
    model = cls(**parameters, max_iter=4).fit(rows, sample_weight=w)
    copies = np.repeat(np.arange(len(rows)), w)
    again = cls(**parameters, max_iter=4).fit(rows[copies])
    assert_allclose(model.objective_, again.objective_, rtol=1e-6, atol=1e-9)
    mass = (w[:, None] * model.membership_).sum(axis=0)
    others = again.membership_.sum(axis=0)
    assert_allclose(np.sort(mass), np.sort(others), atol=1e-4)
    assert_allclose(model.membership_.sum(axis=1), 1)
    assert (w[model.prototypes_] > 0).all()
    assert_array_equal(model.prototype_rows_, rows[model.prototypes_])
