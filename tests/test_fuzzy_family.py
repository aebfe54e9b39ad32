"""What the fuzzy family promises beside its formulas: exact hits, small tables, warnings, refusals, saved models."""

import re
import warnings

import numpy as np
import pytest
import zarr
from fuzzy_cases import COMMON, C, make_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from reference import fuzzy
from reference.algebra import rbf
from zarr.storage import MemoryStore, WrapperStore

import daskkcl
from daskkcl import FCM, KFCM, OnlineKFCM, RandomSampleKFCM, SinglePassKFCM
from daskkcl.errors import DaskkclWarning, InvalidInputError, MemoryLimitError
from daskkcl.random import Key
from daskkcl.system import settled_bytes

N = 150
X = make_rows(N, seed=3)
FAMILY = [FCM, KFCM, RandomSampleKFCM, SinglePassKFCM, OnlineKFCM]
INCREMENTAL = [RandomSampleKFCM, SinglePassKFCM, OnlineKFCM]
FORMS = {
    "fcm": lambda **kw: FCM(**kw),
    "kfcm": lambda **kw: KFCM(**kw),
    "rse": lambda **kw: RandomSampleKFCM(**kw),
    "rse, literal": lambda **kw: RandomSampleKFCM(form="literal", **kw),
    "rse, literal, prototypes": lambda **kw: RandomSampleKFCM(form="literal", extend="prototypes", **kw),
    "sp": lambda **kw: SinglePassKFCM(**{"chunk_size": 40, **kw}),
    "sp, arrival": lambda **kw: SinglePassKFCM(**{"chunk_size": 40, "order": "arrival", **kw}),
    "sp, literal": lambda **kw: SinglePassKFCM(**{"chunk_size": 40, "form": "literal", **kw}),
    "o": lambda **kw: OnlineKFCM(**{"chunk_size": 40, **kw}),
    "o, literal": lambda **kw: OnlineKFCM(**{"chunk_size": 40, "form": "literal", **kw}),
}
quiet = pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning")


@pytest.fixture(params=FAMILY, ids=lambda cls: cls.__name__)
def cls(request):
    return request.param


@pytest.fixture(params=list(FORMS))
def make(request):
    return FORMS[request.param]


# --- attributes -----------------------------------------------------------------------------------------------------


@quiet
def test_fitted_attributes(make):
    model = make(n_clusters=C, random_state=0).fit(X)
    assert model.membership_.shape == (N, C)
    assert model.prototypes_.shape == (C,)
    assert model.prototypes_.dtype == np.int64
    assert model.prototype_rows_.shape == (C, X.shape[1])
    assert_array_equal(model.prototype_rows_, X[model.prototypes_])
    assert 1 < model.fuzzifier_ < model.fuzzifier_bound_
    assert model.objective_ > 0
    assert len(model.history_) >= 1
    assert all(isinstance(value, float) for value in model.history_)
    assert model.cluster_sizes_.sum() == N
    U = model.membership_
    assert_array_equal(model.labels_, U.argmax(axis=1))


def test_algorithms_by_name():
    names = {"fcm": FCM, "kfcm": KFCM, "rsekfcm": RandomSampleKFCM, "spkfcm": SinglePassKFCM, "okfcm": OnlineKFCM}
    for name, expected in names.items():
        assert daskkcl.algorithms()[name] is expected
        assert type(daskkcl.fit(X, name, C, random_state=0)) is expected


@quiet
def test_objective_is_j_of_the_memberships(make):
    model = make(n_clusters=C, random_state=0, dtype="float64", fuzzifier=1.3).fit(X)
    J = np.sum(model.membership_**1.3 * model.transform(X) ** 2)
    assert_allclose(model.objective_, J, rtol=1e-9)
    assert_allclose(model.score(X), -J, rtol=1e-9)
    steps = np.diff(model.history_)
    assert (steps <= 1e-12 * model.history_[0]).all()


@quiet
def test_rows_sum_to_one_in_float32(make):
    model = make(n_clusters=C, random_state=0, dtype="float32").fit(X)
    assert model.membership_.dtype == np.float32
    assert_allclose(model.membership_.sum(axis=1, dtype=np.float64), 1, atol=4 * np.finfo(np.float32).eps)


@quiet
def test_a_saved_model_keeps_everything(make, tmp_path):
    model = make(n_clusters=C, random_state=0).fit(X)
    model.save(tmp_path / "model.zarr")
    again = daskkcl.load(tmp_path / "model.zarr")
    assert type(again) is type(model)
    assert_array_equal(again.prototypes_, model.prototypes_, strict=True)
    assert_array_equal(again.prototype_rows_, model.prototype_rows_, strict=True)
    assert again.fuzzifier_ == model.fuzzifier_
    assert again.fuzzifier_bound_ == model.fuzzifier_bound_
    assert again.objective_ == model.objective_
    assert again.history_ == model.history_
    assert_array_equal(again.predict_proba(X), model.membership_)
    own = {name: value for name, value in model.get_params().items() if isinstance(value, (str, float, int))}
    for name, value in own.items():
        if name not in {"kernel", "gamma", "landmarks", "random_state"}:
            assert again.get_params()[name] == value, name


@pytest.mark.parametrize(
    "name, value",
    [("prototypes", [0, 1, 2]), ("prototypes", [0, 1, 2, -1]), ("prototype_rows", np.zeros((C, 2)))],
    ids=["too few", "negative", "other features"],
)
def test_a_saved_model_that_was_changed_is_refused(tmp_path, name, value):
    model = FCM(C, random_state=0).fit(X)
    model.save(tmp_path / "model.zarr")
    group = zarr.open_group(tmp_path / "model.zarr", mode="r+")
    array = np.asarray(value)
    assert group[name].ndim == array.ndim
    del group[name]
    group.create_array(name, data=array, chunks=array.shape, compressors=None, config={"write_empty_chunks": True})
    with pytest.raises(InvalidInputError, match="refused"):
        daskkcl.load(tmp_path / "model.zarr")


# --- exact hits -----------------------------------------------------------------------------------------------------


def test_exact_hits_are_crisp_and_shared():
    """Rows on one centre are its own; rows on two are shared half and half."""
    rows = np.repeat([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]], 10, axis=0)
    start = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
    for make_model in (
        lambda: FCM(4, init=start, fuzzifier=1.8),
        lambda: KFCM(4, init=start, fuzzifier=1.8, gamma=0.3),
        lambda: OnlineKFCM(4, init=start, fuzzifier=1.8, gamma=0.3, landmarks=start[:3], chunk_size=7),
        lambda: SinglePassKFCM(4, init=start, fuzzifier=1.8, gamma=0.3, landmarks=start[:3], chunk_size=7),
        lambda: RandomSampleKFCM(4, init=start, fuzzifier=1.8, gamma=0.3, landmarks=start[:3]),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DaskkclWarning)
            model = make_model().fit(rows)
        U = np.sort(model.membership_, axis=1)
        assert_array_equal(U[:20], np.repeat([[0.0, 0.0, 0.0, 1.0]], 20, axis=0))
        assert_array_equal(U[20:], np.repeat([[0.0, 0.0, 0.5, 0.5]], 10, axis=0))
        assert 0 <= model.objective_ < 1e-12


@quiet
@pytest.mark.parametrize("how", ["sp, literal", "o, literal", "rse, literal, prototypes"])
def test_a_prototype_row_is_a_hit(how):
    """Extension by prototypes: the prototype itself is at distance zero, and crisp."""
    model = (
        FORMS[how](n_clusters=C, random_state=0, extend="prototypes")
        if "rse" not in how
        else FORMS[how](n_clusters=C, random_state=0)
    )
    model.fit(X)
    assert len(set(model.prototypes_.tolist())) == C
    assert_array_equal(model.predict_proba(model.prototype_rows_), np.eye(C))


# --- small and strange tables -----------------------------------------------------------------------------------------


SMALL = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def tables(draw):
    """Few rows, of few values, so that many coincide."""
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    rows = rng.integers(0, draw(st.sampled_from([1, 2, 4, 200])), (n, d))
    return rows.astype(draw(st.sampled_from(["float64", "float32", "float16", "int16", "uint8", "bool"])))


@quiet
@SMALL
@given(data=st.data())
def test_small_tables(data):
    rows = data.draw(tables())
    n = len(rows)
    c = data.draw(st.sampled_from(sorted({1, min(2, n), n})))
    w = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), dtype=float)
    w[data.draw(st.permutations(range(n)))[:c]] = 1  # as many rows with weight as clusters
    parameters = {"n_clusters": c, "random_state": data.draw(st.integers(0, 3)), "init": data.draw(INITS)}
    parameters["fuzzifier"] = data.draw(st.sampled_from([1.05, 2.0, "auto"]))
    model = FORMS[data.draw(st.sampled_from(list(FORMS)))](**parameters)
    if isinstance(model, (SinglePassKFCM, OnlineKFCM)):
        model.set_params(chunk_size=data.draw(st.sampled_from([1, 3, 0.5, 100])))
    model.fit(rows, sample_weight=w)
    U = np.asarray(model.membership_, dtype=np.float64)
    assert U.shape == (n, c)
    assert ((U >= 0) & (U <= 1)).all()
    assert_allclose(U.sum(axis=1), 1, atol=1e-6)
    labels = np.asarray(model.labels_)
    assert (U[np.arange(n), labels] >= U.max(axis=1) - 1e-6).all()
    assert_array_equal(model.predict(rows), labels)
    assert (w[model.prototypes_] > 0).all()
    assert_array_equal(model.prototype_rows_, rows[model.prototypes_])
    assert np.isfinite(model.objective_)
    assert model.objective_ >= 0
    assert np.isfinite(model.history_).all()
    # equal rows have equal memberships, whatever their weights
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    assert_allclose(U, U[first][inverse.ravel()], atol=1e-6)
    found = daskkcl.fuzzy_validity(model, rows, sample_weight=w)
    assert 1 / c - 1e-6 <= found["partition_coefficient"] <= 1 + 1e-6
    assert -1e-6 <= found["partition_entropy"] <= np.log(c) + 1e-6


INITS = st.sampled_from([None, "d2", "random"])


@quiet
@pytest.mark.parametrize(
    "rows, c",
    [
        (np.zeros((1, 1)), 1),
        (np.full((7, 3), 5.0), 1),
        (np.full((7, 3), 5.0), 3),
        (np.arange(12.0).reshape(6, 2), 6),
        (np.repeat([[0.0, 1.0], [4.0, 1.0]], [5, 8], axis=0), 4),
        (1e6 + np.c_[np.zeros(30), np.arange(30.0) % 3], 3),
    ],
    ids=["n=1", "constant, c=1", "constant, c=3", "c=n", "more than distinct", "far from zero"],
)
def test_strange_tables(make, rows, c):
    model = make(n_clusters=c, random_state=0).fit(rows)
    U = np.asarray(model.membership_)
    assert_allclose(U.sum(axis=1), 1, atol=1e-6)
    assert np.isfinite(model.objective_)
    if len(rows) == c > 1:  # every row may have its own centre
        assert_allclose(np.sort(U.max(axis=1)), 1, atol=0.35)
    if c == 1:
        assert_array_equal(U, 1)


# --- warnings ---------------------------------------------------------------------------------------------------------


def loose_rows():
    """Rows without clusters in many dimensions: the bound is low."""
    return np.random.default_rng(0).normal(size=(200, 30))


def test_a_fuzzifier_above_the_bound_is_warned_of(make):
    """The warning names the fuzzifier, the bound, and one that would work; the model says the same bound."""
    rows = loose_rows()
    model = make(n_clusters=3, random_state=0, fuzzifier=3.0)
    with pytest.warns(DaskkclWarning, match="fuzzifier=3") as caught:
        model.fit(rows)
    text = next(str(w.message) for w in caught if "fuzzifier=3" in str(w.message))
    numbers = [float(number) for number in re.findall(r"\d+\.\d+", text)]
    assert any(abs(number - model.fuzzifier_bound_) < 0.01 * model.fuzzifier_bound_ for number in numbers)
    assert any(1 < number < 0.99 * model.fuzzifier_bound_ for number in numbers)
    assert model.fuzzifier_ == 3.0


def test_the_bound_is_its_formula_on_the_sample():
    """All rows are in the sample here."""
    model = KFCM(C, random_state=0, gamma=0.2, fuzzifier=1.3).fit(X)
    assert_allclose(model.fuzzifier_bound_, fuzzy.collapse_bound(rbf(X, X, 0.2)), rtol=1e-6)
    model = FCM(C, random_state=0, fuzzifier=1.3).fit(X)
    assert_allclose(model.fuzzifier_bound_, fuzzy.collapse_bound(X @ X.T), rtol=1e-6)


def test_the_default_fuzzifier_stays_below_the_bound(make):
    rows = loose_rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error", DaskkclWarning)
        warnings.filterwarnings("ignore", message=".*still moving")
        warnings.filterwarnings("ignore", message=".*no rows")
        model = make(n_clusters=3, random_state=0, tol=1e-6, max_iter=500).fit(rows)
    assert 1 < model.fuzzifier_ < model.fuzzifier_bound_ < 1.7
    assert model.membership_.max(axis=1).mean() > 0.5


def test_a_fuzzifier_below_the_bound_is_not_warned_of(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error", DaskkclWarning)
        make(n_clusters=C, random_state=0, fuzzifier=1.2, gamma=0.2, max_iter=500).fit(X) if make is not FORMS[
            "fcm"
        ] else make(n_clusters=C, random_state=0, fuzzifier=1.2, max_iter=500).fit(X)


def test_coinciding_prototypes_are_warned_of(make):
    """Two groups of equal rows and three clusters: two prototypes must be equal rows."""
    rows = np.repeat([[0.0, 1.0], [4.0, 1.0]], [50, 80], axis=0)
    with pytest.warns(DaskkclWarning, match="coincide"):
        make(n_clusters=3, random_state=0, fuzzifier=1.3).fit(rows)


def test_a_run_that_is_cut_short_is_warned_of(cls):
    with pytest.warns(DaskkclWarning, match="still (moving|falling)"):
        cls(**COMMON, fuzzifier=1.6, tol=1e-14, max_iter=2, init=X[:C]).fit(X)


# --- refusals ---------------------------------------------------------------------------------------------------------


def refused(model, *words, data=X, error=InvalidInputError):
    with pytest.raises(error) as caught:
        model.fit(data)
    for word in words:
        assert word in str(caught.value)
    return caught.value


@pytest.mark.parametrize("fuzzifier", [1, 1.0, 0.5, -2, np.nan, np.inf, "two", None, True, [1.5]], ids=str)
def test_a_bad_fuzzifier_is_refused(cls, fuzzifier):
    refused(cls(C, fuzzifier=fuzzifier), "fuzzifier")


@pytest.mark.parametrize("parameter", ["tol", "max_iter", "n_init"])
@pytest.mark.parametrize("value", [-1, "many", None, np.nan], ids=str)
def test_bad_ends_of_a_run_are_refused(cls, parameter, value):
    refused(cls(C, **{parameter: value}), parameter)


@pytest.mark.parametrize("value", [0, -5, 0.0, -0.1, 1.5, np.nan, "some", None, True], ids=str)
@pytest.mark.parametrize("cls", [SinglePassKFCM, OnlineKFCM])
def test_a_bad_chunk_size_is_refused(cls, value):
    refused(cls(C, chunk_size=value), "chunk_size")


@pytest.mark.parametrize("value", [0, -5, 0.0, -0.1, 1.5, np.nan, "some", None, True], ids=str)
def test_a_bad_sample_size_is_refused(value):
    refused(RandomSampleKFCM(C, sample_size=value), "sample_size")


@pytest.mark.parametrize("form", ["landmark", "literal"])
def test_a_sample_with_fewer_rows_than_clusters_is_refused(form):
    refused(RandomSampleKFCM(C, sample_size=3, form=form), "sample_size", "n_clusters")


@pytest.mark.parametrize("parameter", ["extend", "form", "order", "init"])
@pytest.mark.parametrize("value", ["other", 3, None], ids=str)
def test_words_that_are_not_known_are_refused(cls, parameter, value):
    if parameter not in cls().get_params():
        with pytest.raises(TypeError):
            cls(C, **{parameter: value})
    elif parameter != "init" or value == "other":
        refused(cls(C, **{parameter: value}), parameter)


def test_bad_words_suggest_the_right_one(cls):
    refused(cls(C, extend="centers"), "extend", "Did you mean 'centres'")
    with pytest.raises(InvalidInputError, match="sample_weights"):
        daskkcl.fit(X, cls.algorithm, C, sample_weights=np.ones(N))


@quiet
def test_a_float_size_is_a_share_of_the_rows():
    for one, two in (
        (SinglePassKFCM(**COMMON, chunk_size=0.25), SinglePassKFCM(**COMMON, chunk_size=38)),
        (OnlineKFCM(**COMMON, chunk_size=0.25), OnlineKFCM(**COMMON, chunk_size=38)),
        (RandomSampleKFCM(**COMMON, sample_size=0.4), RandomSampleKFCM(**COMMON, sample_size=60)),
    ):
        for form in ("landmark", "literal"):
            found = [model.set_params(form=form, fuzzifier=1.3).fit(X).membership_ for model in (one, two)]
            assert_array_equal(*found)


class Untouchable(WrapperStore):
    """A store whose chunks must not be read."""

    async def get(self, key, *args, **kwargs):
        assert "c" not in key.split("/"), f"{key} was read"
        return await super().get(key, *args, **kwargs)


def test_kfcm_refuses_a_kernel_matrix_that_does_not_fit():
    """Before reading; it names the largest table that would fit, which does fit, and who could take this one."""
    store = MemoryStore()
    zarr.create_array(store, shape=(60_000, 3), chunks=(1000, 3), dtype="f4")
    data = zarr.open_array(Untouchable(store), mode="r")
    limit = settled_bytes() + 150 * 2**20
    error = refused(
        KFCM(C, memory_limit=limit, missing="fill"), "rsekfcm", "spkfcm", "okfcm", "60,000", data=data,
        error=MemoryLimitError,
    )  # fmt: skip
    assert error.needed_bytes > 8 * 60_000**2 > error.allowed_bytes == limit
    named = [int(number.replace(",", "")) for number in re.findall(r"\d{1,3}(?:,\d{3})+|\d{3,}", str(error))]
    largest = max(number for number in named if number < 10_000)
    assert largest > 500
    rows = make_rows(largest).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DaskkclWarning)
        model = KFCM(C, memory_limit=limit, max_iter=1, n_init=1, init="random", random_state=0).fit(rows)
    assert model.plan_.peak_bytes <= limit
    refused(KFCM(C, memory_limit=limit), "rsekfcm", data=make_rows(int(1.2 * largest)), error=MemoryLimitError)


def test_the_sample_is_the_beginning_of_the_random_order():
    """What the comparisons with the twins take for granted."""
    order = Key(0).child("order", 0).rows(N, 0, N)
    assert sorted(order.tolist()) == list(range(N))
    model = RandomSampleKFCM(C, form="literal", sample_size=30, random_state=0, gamma=0.2, fuzzifier=1.3).fit(X)
    assert set(model.prototypes_.tolist()) <= set(order[:30].tolist())


@pytest.mark.parametrize("name", ["rsekfcm", "spkfcm", "okfcm"])
def test_landmark_forms_place_rows_by_prototypes(name):
    """Centres are then the prototype rows themselves: a row at distance zero from its own."""
    rng = np.random.default_rng(5)
    table = np.concatenate([rng.normal(4 * k, 1, (60, 2)) for k in range(3)])
    make = {"n_clusters": 3, "landmarks": table, "gamma": 0.2, "random_state": 0, "progress": False, "dtype": "float64"}
    cls = daskkcl.algorithms()[name]
    by_centres = cls(**make).fit(table)
    model = cls(**make, extend="prototypes").fit(table)
    assert_array_equal(np.sort(model.prototypes_), np.sort(by_centres.prototypes_))
    K = daskkcl.kernels.Rbf(0.2)(table, table[model.prototypes_])
    assert_allclose(model.transform(table) ** 2, 2 - 2 * K, atol=1e-6)  # squares: what eigen-truncation leaves out
    if name != "rsekfcm":
        with pytest.raises(InvalidInputError, match="stream"):
            cls(**make, extend="prototypes").partial_fit(table)


def test_a_bound_that_is_none_is_not_spoken_of():
    rows = np.repeat(8.0 * np.arange(4, dtype=np.float32), 300)[:, None]  # four points: every cluster has no width
    model = daskkcl.OnlineKFCM(5, fuzzifier=2.0, init="random", random_state=0, progress=False)
    with pytest.warns(DaskkclWarning, match="centres coincide") as caught:
        model.fit(rows)
    assert model.fuzzifier_bound_ == np.inf
    assert not any("inf" in str(warning.message) for warning in caught)
