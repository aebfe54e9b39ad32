"""Streams: blocks that arrive one after another give what one call on all of them gives."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from fuzzy_cases import COMMON, C, chunks_of, landmark_coordinates, make_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from reference import fuzzy
from reference.algebra import rbf
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

import daskkcl
from daskkcl import FCM, KFCM, OnlineKFCM, RandomSampleKFCM, SinglePassKFCM
from daskkcl.errors import InvalidInputError
from daskkcl.schedules.chunks import FAN_IN

pytestmark = pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning")

N, CHUNK, M = 260, 20, 1.4
X = make_rows(N, seed=12)
W = np.random.default_rng(0).integers(0, 4, N) + (np.arange(N) % CHUNK < C)
ROWS = np.array([3, 7, 11, 19])
LANDMARKS = X[:100:5]
STREAMS = [SinglePassKFCM, OnlineKFCM]


def make(cls, **changes):
    order = {"order": "arrival"} if cls is SinglePassKFCM else {}
    given = {"gamma": 0.2, "landmarks": LANDMARKS, "init": X[ROWS]}
    return cls(**{**COMMON, **order, **given, "chunk_size": CHUNK, "fuzzifier": M, **changes})


@pytest.fixture(params=STREAMS, ids=lambda cls: cls.__name__)
def cls(request):
    return request.param


def stream(model, sizes, weights=None):
    """Feed the rows in blocks of the given sizes."""
    first = 0
    for size in sizes:
        block = slice(first, first + size)
        model.partial_fit(X[block], **({} if weights is None else {"sample_weight": weights[block]}))
        first += size
    assert first == N
    return model


def assert_same(one, two):
    assert_array_equal(one.transform(X), two.transform(X))
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert_array_equal(one.predict(X), two.predict(X))
    assert one.n_clusters_ == two.n_clusters_
    assert one.fuzzifier_ == two.fuzzifier_


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_are_their_concatenation(cls, weighted):
    w = W if weighted else None
    one = stream(make(cls), [CHUNK] * (N // CHUNK), w)
    assert_same(one, stream(make(cls), [N], w))
    assert_same(one, stream(make(cls), [3 * CHUNK, CHUNK, N - 4 * CHUNK], w))
    assert_same(one, stream(make(cls), [7, 1, 55, 30, 2 * CHUNK, N - 93 - 2 * CHUNK], w))  # rows wait for a whole chunk


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sizes", [[CHUNK] * (N // CHUNK), [N]], ids=["block by block", "at once"])
def test_a_stream_is_a_fit_in_order_of_arrival(cls, weighted, sizes):
    w = W if weighted else None
    one = stream(make(cls), sizes, w)
    two = make(cls).fit(X, sample_weight=w)
    # up to numbers: those of a fit count the rows of each cluster, a stream has only masses
    assert_up_to_numbers(one.predict_proba(X), two.membership_, 1e-9)
    assert_up_to_numbers(one.transform(X), two.transform(X), 1e-9)
    assert one.n_iter_ == two.n_iter_
    assert_allclose(one.history_, two.history_, rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_portions_of_any_stream(data):
    """Whatever the chunks, the weights and the portions in which rows come."""
    cls = data.draw(st.sampled_from(STREAMS))
    n, chunk = data.draw(st.integers(30, 90)), data.draw(st.integers(10, 40))
    w = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    w[:C] = 1  # the stream begins with rows that count
    cuts = sorted(data.draw(st.lists(st.integers(C, n), max_size=6)))
    at_once = make(cls, chunk_size=chunk).partial_fit(X[:n], sample_weight=w)
    model = make(cls, chunk_size=chunk)
    for a, b in itertools.pairwise([0, *cuts, n]):
        if b > a:
            model.partial_fit(X[a:b], sample_weight=w[a:b])
    assert_same(model, at_once)
    fitted = make(cls, chunk_size=chunk).fit(X[:n], sample_weight=w)
    assert_up_to_numbers(model.transform(X), fitted.transform(X), 1e-7)


def test_a_single_pass_stream_equals_its_twin():
    Y, r = landmark_coordinates(X, LANDMARKS, lambda a, b: rbf(a, b, 0.2))
    V, _ = fuzzy.spkfcm_landmark(Y, r, chunks_of(N, CHUNK), Y[ROWS], M, 1e-3, 100, W.astype(float))
    model = stream(make(SinglePassKFCM), [CHUNK] * (N // CHUNK), W)
    assert_up_to_numbers(model.predict_proba(X), fuzzy.memberships_of(Y, r, V, M))


def test_an_online_stream_equals_its_twin():
    Y, r = landmark_coordinates(X, LANDMARKS, lambda a, b: rbf(a, b, 0.2))
    chunks = chunks_of(N, CHUNK)
    V, _ = fuzzy.okfcm_landmark(
        Y, r, chunks, [Y[ROWS]] * len(chunks), M, 1e-3, 100, FAN_IN, lambda p, w: Y[ROWS], W.astype(float)
    )
    model = stream(make(OnlineKFCM), [CHUNK] * (N // CHUNK), W)
    assert_up_to_numbers(model.predict_proba(X), fuzzy.memberships_of(Y, r, V, M))


def assert_up_to_numbers(found, expected, atol=1e-6):
    _, order = linear_sum_assignment([np.abs(found - column[:, None]).sum(axis=0) for column in expected.T])
    assert_allclose(found[:, order], expected, atol=atol)


@pytest.mark.parametrize("rows", [CHUNK, 13])
def test_every_block_leaves_a_model(cls, rows):
    """After any block the model knows all rows so far, as if the stream ended there."""
    model = make(cls)
    for first in range(0, 100, rows):
        assert model.partial_fit(X[first : first + rows]) is model
        assert_same(model, make(cls).partial_fit(X[: first + rows]))
        U = model.predict_proba(X)
        assert U.shape == (N, C)
        assert_allclose(U.sum(axis=1), 1)
        assert_array_equal(model.predict(X), U.argmax(axis=1))
        assert model.n_features_in_ == X.shape[1]


@pytest.mark.parametrize("parameters", [{}, {"init": None}, {"init": "d2"}, {"init": "random"}], ids=str)
def test_a_stream_needs_nothing_but_its_blocks(cls, parameters):
    """Width, landmarks and fuzzifier come from the first block; a second stream of the same blocks is the same."""
    defaults = {"gamma": "auto", "landmarks": "uniform", "fuzzifier": "auto", "n_landmarks": 10, **parameters}
    one = stream(make(cls, **defaults), [CHUNK] * (N // CHUNK))
    two = stream(make(cls, **defaults), [CHUNK] * (N // CHUNK))
    assert_same(one, two)
    assert_allclose(one.predict_proba(X).sum(axis=1), 1)
    assert one.fuzzifier_ > 1


def test_a_stream_goes_on_after_a_copy(cls):
    """A model that is copied or sent elsewhere between blocks goes on from where it was."""
    half = N // CHUNK // 2 * CHUNK
    whole = stream(make(cls), [half, N - half])
    for carry in (copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))):
        part = carry(make(cls).partial_fit(X[:half]))
        assert_same(part.partial_fit(X[half:]), whole)


def test_a_saved_stream_answers_the_same(cls, tmp_path):
    model = stream(make(cls), [CHUNK] * (N // CHUNK))
    model.save(tmp_path / "model.zarr")
    again = daskkcl.load(tmp_path / "model.zarr")
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert_array_equal(again.predict(X), model.predict(X))


def test_a_stream_does_not_grow(cls):
    """What is carried from block to block does not depend on their number."""
    model, sizes = make(cls), []
    for _ in range(12 * FAN_IN):
        model.partial_fit(X[:CHUNK])
        sizes.append(len(pickle.dumps(model)))
    assert sizes[-1] <= 1.5 * max(sizes[: 2 * FAN_IN])


def test_fit_forgets_the_stream(cls):
    model = stream(make(cls), [N])
    model.fit(X[:100])
    assert_array_equal(model.membership_, make(cls).fit(X[:100]).membership_)
    assert model.membership_.shape == (100, C)
    model.partial_fit(X[:CHUNK])
    assert_same(model, make(cls).partial_fit(X[:CHUNK]))


def test_partial_fit_leaves_parameters_and_arguments_alone(cls):
    model, block, weights = make(cls), X[:CHUNK].copy(), np.ones(CHUNK)
    before = clone(model).get_params()
    model.partial_fit(block, sample_weight=weights)
    after = model.get_params()
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert np.array_equal(value, after[name]) if isinstance(value, np.ndarray) else value == after[name]
    assert_array_equal(block, X[:CHUNK])
    assert_array_equal(weights, 1)


def test_blocks_that_do_not_fit_are_refused(cls):
    model = make(cls).partial_fit(X[:CHUNK])
    before = model.predict_proba(X)
    with pytest.raises(InvalidInputError, match="features"):
        model.partial_fit(X[:CHUNK, :2])
    with pytest.raises(InvalidInputError, match="NaN"):
        model.partial_fit(np.full((CHUNK, X.shape[1]), np.nan))
    for weights in (np.ones(CHUNK - 1), -np.ones(CHUNK), np.full(CHUNK, np.nan), np.ones((CHUNK, 1))):
        with pytest.raises(InvalidInputError, match="sample_weight"):
            model.partial_fit(X[:CHUNK], sample_weight=weights)
    assert_array_equal(model.predict_proba(X), before)  # a refused block leaves no trace
    assert_same(model.partial_fit(X[CHUNK : 2 * CHUNK]), make(cls).partial_fit(X[: 2 * CHUNK]))


def test_a_first_block_with_too_few_rows_is_refused(cls):
    with pytest.raises(InvalidInputError, match="n_clusters"):
        make(cls).partial_fit(X[: C - 1])


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"form": "literal", "landmarks": "uniform"}, "form='landmark'"),
        ({"chunk_size": 0.1}, "chunk_size"),
        ({"chunk_size": 0}, "chunk_size"),
        ({"chunk_size": -3}, "chunk_size"),
        ({"chunk_size": None}, "chunk_size"),
        ({"chunk_size": 2}, "chunk_size"),  # fewer rows than clusters: nothing can begin there
        ({"chunk_size": "many"}, "chunk_size"),
        ({"max_passes": 3}, "max_passes"),
        ({"fuzzifier": 0.5}, "fuzzifier"),
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": "some"}, "n_clusters"),
        ({"init": "other"}, "init"),
        ({"form": "other"}, "form"),
    ],
    ids=str,
)
def test_what_a_stream_cannot_do_is_refused(cls, changes, word):
    with pytest.raises(InvalidInputError, match=word):
        make(cls, **changes).partial_fit(X[: 2 * CHUNK])


def test_labels_of_a_stream_are_not_kept(cls):
    """Rows of earlier blocks are gone: their labels and memberships are asked for with the rows."""
    model = stream(make(cls), [N])
    for name in ("labels_", "membership_"):
        with pytest.raises(AttributeError, match="predict"):
            getattr(model, name)


@pytest.mark.parametrize("other", [FCM, KFCM, RandomSampleKFCM])
def test_only_streaming_algorithms_have_partial_fit(other):
    assert not hasattr(other(2), "partial_fit")


@pytest.mark.parametrize("name", ["spkfcm", "okfcm"])
def test_a_stream_does_not_go_on_from_a_loaded_model(name, tmp_path):
    """Its summaries are gone: better said than begun anew."""
    table = np.random.default_rng(0).normal(size=(100, 2))
    model = daskkcl.algorithms()[name](2, random_state=0, progress=False).partial_fit(table)
    model.save(tmp_path / "model.zarr")
    with pytest.raises(InvalidInputError, match="clone"):
        daskkcl.load(tmp_path / "model.zarr").partial_fit(table)
