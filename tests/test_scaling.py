"""Scaling while rows are read: equal to scikit-learn's scalers, the same bits in any chunks, kept with the model."""

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

import daskkcl
from daskkcl.errors import InvalidInputError
from daskkcl.rules.scaling import ColumnSums, column_sums, scaler_of

SKLEARN = {"standard": StandardScaler, "minmax": MinMaxScaler, "unit": Normalizer}
QUICK = ("kkmeans", "fcm", "spectral", "skkmeans")  # others share their way to the rows


def rows(n=3000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6)) * [1, 10, 100, 1e-3, 1, 0] + [0, 5, 1e6, 3, 0, 7]
    X[: n // 2, 0] += 6
    X[: n // 3, 4] -= 6
    return X


def fit(X, algo="akkmeans", **changes):
    options = {"n_clusters": 3, "n_landmarks": 40, "random_state": 0, "progress": False, **changes}
    return daskkcl.fit(X, algo, **options)


@pytest.mark.parametrize("scale", SKLEARN)
@pytest.mark.parametrize("algo", ["akkmeans", "pakcl", "okfcm"])
def test_labels_are_those_of_rows_scaled_by_scikit_learn(algo, scale):
    X = rows()
    expected = SKLEARN[scale]().fit_transform(X)
    model = fit(X, algo, scale=scale)
    assert_allclose(model.scaler_.apply(X), expected, rtol=1e-6, atol=1e-6)
    assert_array_equal(model.labels_, fit(expected, algo).labels_)
    assert_array_equal(model.predict(X), model.labels_)
    assert_allclose(model.transform(X), fit(expected, algo).transform(expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", SKLEARN)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1", "i4", "?"])
def test_every_type_is_scaled_in_a_float_that_holds_it(dtype, scale):
    X = np.random.default_rng(0).integers(0, 2 if dtype == "?" else 100, (400, 3)).astype(dtype)
    model = fit(X, scale=scale)
    expected = SKLEARN[scale]().fit_transform(X.astype(np.float64))
    assert_allclose(model.scaler_.apply(X), expected, rtol=1e-6, atol=1e-6)


def test_columns_far_from_zero_lose_nothing():
    X = np.random.default_rng(0).normal(size=(4000, 2)) + [1e9, 1e12]
    model = fit(X, scale="standard")
    centred = X - X.mean(axis=0)
    assert_allclose(1 / model.scaler_.factor, centred.std(axis=0), rtol=1e-6)


@pytest.mark.parametrize("scale", ["standard", "minmax"])
@pytest.mark.parametrize("algo", ["akkmeans", "pakcl", "okfcm"])
def test_the_same_bits_in_any_chunks_and_however_rows_are_kept(tmp_path, algo, scale):
    import dask.array as da

    X = rows().astype(np.float32)
    first = fit(X, algo, scale=scale)
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=X, chunks=(701, 4))
    for data in (da.from_array(X, chunks=(333, 2)), da.from_array(X, chunks=((1, 2998, 1), (6,))), path):
        other = fit(data, algo, scale=scale)
        assert_array_equal(other.scaler_.factor, first.scaler_.factor)
        assert_array_equal(other.scaler_.shift, first.scaler_.shift)
        assert_array_equal(np.asarray(other.labels_), first.labels_)
        assert_array_equal(np.asarray(other.predict(data)), first.labels_)


@pytest.mark.parametrize("algo", ["akkmeans", "pakcl", "okfcm"])
def test_rows_that_are_not_kept_get_the_same_labels(monkeypatch, algo):
    X = rows().astype(np.float32)
    kept = fit(X, algo, scale="standard")
    assert kept.plan_.keep != "nothing"
    plan = daskkcl.planning.make_plan
    monkeypatch.setattr(daskkcl.schedules.setup, "make_plan", lambda *a, **k: plan(*a, **{**k, "keep": {}}))
    streamed = fit(X, algo, scale="standard")
    assert streamed.plan_.keep in ("nothing", "measurements in scratch")
    assert_array_equal(streamed.labels_, kept.labels_)


def test_data_are_read_once_for_sample_and_scale(tmp_path, monkeypatch):
    X = rows(4000)
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=X, chunks=(500, 6))
    reads = []
    read_rows = daskkcl.schedules.data.read_rows

    def counted(array, start, stop):
        reads.append((start, stop))
        return read_rows(array, start, stop)

    monkeypatch.setattr(daskkcl.schedules.data, "read_rows", counted)
    counts = {}
    for scale in (None, "standard"):
        reads.clear()
        fit(path, "akkmeans", scale=scale, max_iter=1)
        counts[scale] = len(reads)
    assert counts["standard"] == counts[None]


def test_the_plan_has_the_pass():
    model = fit(rows(), scale="standard")
    assert "scaling" in str(model.plan_)
    assert "scaling" not in str(fit(rows(), scale="unit").plan_)  # needs no look at other rows


@pytest.mark.parametrize("scale", SKLEARN)
def test_dropped_rows_do_not_count(scale):
    X = rows(800)
    X[5, 2], X[77, 0], X[78] = np.nan, np.inf, np.nan
    usable = np.isfinite(X).all(axis=1)
    model = fit(X, scale=scale, nan="drop")
    assert_array_equal(model.labels_ == -1, ~usable)
    expected = SKLEARN[scale]().fit_transform(X[usable])
    assert_allclose(model.scaler_.apply(X[usable]), expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(InvalidInputError, match="the first is in row 5, column 2"):
        fit(X, scale=scale)


def test_weights_count():
    X, weights = rows(600), np.random.default_rng(1).integers(0, 4, 600)
    model = fit(X, "fcm", scale="standard", sample_weight=weights, n_landmarks=None)
    repeated = StandardScaler().fit(np.repeat(X, weights, axis=0))
    assert_allclose(model.scaler_.shift, repeated.mean_, rtol=1e-9)
    assert_allclose(1 / model.scaler_.factor, repeated.scale_, rtol=1e-6)


def test_sparse_rows_stay_sparse():
    X = sp.random(900, 40, density=0.1, random_state=0, format="csr") * 5
    X[:300, 3] = 9.0
    X = X.tocsr()
    for scale, scaler in (("unit", Normalizer()), ("standard", StandardScaler(with_mean=False))):
        model = fit(X, scale=scale)
        expected = scaler.fit_transform(X)
        got = model.scaler_.apply(daskkcl.kernels.rows.SparseRows.of(X))
        assert_allclose(got.toarray(), expected.toarray(), rtol=1e-6, atol=1e-9)
        assert_array_equal(model.labels_, fit(expected).labels_)
        assert_array_equal(model.predict(X), model.labels_)
    with pytest.raises(InvalidInputError, match=r"would move the zeros of sparse rows.*scale='unit'"):
        fit(X, scale="minmax")


@pytest.mark.parametrize("scale", SKLEARN)
@pytest.mark.parametrize("algo", ["akkmeans", "okfcm", "pakcl"])
def test_models_keep_their_scale(tmp_path, algo, scale):
    X = rows(500)
    model = fit(X, algo, scale=scale)
    model.save(tmp_path / "model.zarr")
    loaded = daskkcl.load(tmp_path / "model.zarr")
    assert loaded.scale == scale
    assert_array_equal(loaded.predict(X), model.labels_)


def test_a_scale_that_does_not_fit_is_refused(tmp_path):
    model = fit(rows(500), scale="standard")
    model.scaler_ = type(model.scaler_)("standard", model.scaler_.shift[:3], model.scaler_.factor)
    model.save(tmp_path / "model.zarr")
    with pytest.raises(InvalidInputError, match="scaling does not fit"):
        daskkcl.load(tmp_path / "model.zarr")


def test_rows_of_the_user_are_in_units_of_the_data():
    X = rows()
    scaler = StandardScaler().fit(X)
    given = X[:40]
    ours = fit(X, scale="standard", landmarks=given, n_landmarks=None, init=X[[0, 1600, 2900]])
    theirs = fit(
        scaler.transform(X),
        landmarks=scaler.transform(given),
        n_landmarks=None,
        init=scaler.transform(X[[0, 1600, 2900]]),
    )
    assert_array_equal(ours.labels_, theirs.labels_)
    fuzzy = fit(X, "okfcm", scale="standard")
    assert_array_equal(fuzzy.prototype_rows_, X[fuzzy.prototypes_])
    exact = [
        fit(x, "kkmeans", n_landmarks=None, scale=s, init=i)
        for x, s, i in (
            (X[:200], "standard", X[:3]),
            (StandardScaler().fit_transform(X[:200]), None, StandardScaler().fit(X[:200]).transform(X[:3])),
        )
    ]
    assert_array_equal(exact[0].labels_, exact[1].labels_)


def test_streams():
    X = rows(1200)
    for cls in (daskkcl.PAKCL, daskkcl.AKCL):
        model = cls(3, scale="standard", n_landmarks=20, random_state=0).partial_fit(X[:600])
        scaler = model.scaler_
        assert_allclose(scaler.apply(X[:600]), StandardScaler().fit_transform(X[:600]), rtol=1e-6, atol=1e-6)
        model.partial_fit(X[600:])
        assert model.scaler_ is scaler  # frozen
        assert_array_equal(model.labels_, model.predict(X[600:]))
    for cls in (daskkcl.OnlineKFCM, daskkcl.SinglePassKFCM, daskkcl.SparseKernelKMeans):
        with pytest.raises(InvalidInputError, match=r"a look at all rows.*scale='unit'"):
            cls(3, scale="standard").partial_fit(X)
        model = cls(3, scale="unit", random_state=0).partial_fit(X)
        assert_array_equal(
            model.predict(X),
            cls(3, random_state=0).partial_fit(Normalizer().fit_transform(X)).predict(Normalizer().fit_transform(X)),
        )


def test_bad_scales():
    with pytest.raises(InvalidInputError, match="Did you mean 'standard'"):
        fit(rows(50), scale="standart")
    fitted = daskkcl.maps.Nystroem(n_landmarks=10, random_state=0).fit(rows(100))
    with pytest.raises(InvalidInputError, match="fitted to rows as they are"):
        fit(rows(100), scale="unit", map=fitted, n_landmarks=None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "algo", [pytest.param(a, marks=[] if a in QUICK else [pytest.mark.slow]) for a in sorted(daskkcl.algorithms())]
)
def test_every_algorithm_takes_it(algo):
    X = rows(300)[:, [0, 1, 4]]
    cls = daskkcl.algorithms()[algo]
    few = {"n_clusters": 2, "n_seeds": 3, "max_epochs": 3, "max_iter": 5, "random_state": 0}
    few = {name: value for name, value in few.items() if name in cls._get_param_names()}
    model = cls(scale="standard", progress=False, **few).fit(X)
    plain = cls(progress=False, **few).fit(StandardScaler().fit_transform(X))
    assert_array_equal(model.labels_, plain.labels_)


def test_sums_do_not_depend_on_how_tiles_are_grouped():
    X = rows(1000)
    tiles = [column_sums(X[a : a + 100]) for a in range(0, 1000, 100)]
    orders = [range(10), [3, 1, 4, 0, 5, 9, 2, 6, 8, 7]]
    totals = []
    for order in orders:
        total = ColumnSums.zeros(6)
        for k in order:
            total = total + tiles[k]
        totals.append(scaler_of("standard", total))
    assert_array_equal(totals[0].factor, totals[1].factor)
    assert_allclose(1 / totals[0].factor[:5], X.std(axis=0)[:5], rtol=1e-12)


# --- maps on their own -------------------------------------------------------------------------------------------

MAPS = {"nystroem": {}, "spectral": {"n_components": 4}, "rff": {"n_components": 30}, "nyncut": {"n_components": 3}}


@pytest.mark.parametrize("scale", SKLEARN)
@pytest.mark.parametrize("name", MAPS)
def test_maps_scale_what_they_read(tmp_path, name, scale):
    X = rows(600)
    cls = daskkcl.estimators.maps.MAPS[name]
    options = {"random_state": 0, "progress": False, **MAPS[name]}
    if name != "rff":
        options["n_landmarks"] = 30
    expected = SKLEARN[scale]().fit_transform(X)
    theirs = cls(**options).fit_transform(expected)
    map_ = cls(scale=scale, **options).fit(X)
    assert_allclose(map_.scaler_.apply(X), expected, rtol=1e-6, atol=1e-6)
    assert_allclose(map_.transform(X), theirs, rtol=1e-4, atol=1e-5)
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(101, 4))
    lazy = cls(scale=scale, **options).fit(tmp_path / "x.zarr")
    assert_array_equal(lazy.transform(tmp_path / "x.zarr").compute(), map_.transform(X))


def test_a_map_with_a_scale_reads_no_more_and_is_planned(tmp_path, monkeypatch):
    zarr.create_array(tmp_path / "x.zarr", data=rows(4000), chunks=(500, 6))
    reads, read_rows = [], daskkcl.schedules.data.read_rows
    monkeypatch.setattr(daskkcl.schedules.data, "read_rows", lambda *a: reads.append(a) or read_rows(*a))
    counts = []
    for scale in (None, "standard"):
        reads.clear()
        map_ = daskkcl.maps.Nystroem(n_landmarks=20, random_state=0, scale=scale).fit(tmp_path / "x.zarr")
        counts.append(len(reads))
    assert counts[0] == counts[1]
    assert "scaling" in str(map_.plan_)


def test_a_map_with_a_scale_inside_an_estimator():
    from sklearn.frozen import FrozenEstimator

    X = rows(600)
    plain = fit(X, scale="standard", map="nystroem")
    own = daskkcl.maps.Nystroem(n_landmarks=40, scale="standard", random_state=0)
    inside = fit(X, map=own, n_landmarks=None)
    assert_array_equal(inside.labels_, plain.labels_)
    assert_array_equal(inside.predict(X), inside.labels_)
    fitted = daskkcl.maps.Nystroem(n_landmarks=40, scale="standard", random_state=0).fit(X)
    for given in (fitted, FrozenEstimator(fitted)):
        model = fit(X, map=given, n_landmarks=None)
        assert_array_equal(model.scaler_.factor, fitted.scaler_.factor)
        assert_array_equal(model.predict(X), model.labels_)
        assert_array_equal(model.labels_, plain.labels_)
    with pytest.raises(InvalidInputError, match="not to both"):
        fit(X, map=daskkcl.maps.Nystroem(scale="unit"), scale="unit", n_landmarks=None)
    with pytest.raises(InvalidInputError, match="that it scales itself"):
        fit(X, map=fitted, scale="unit", n_landmarks=None)
    with pytest.raises(InvalidInputError, match="give scale= to the estimator"):
        daskkcl.OnlineKFCM(3, map=daskkcl.maps.Nystroem(scale="unit")).partial_fit(X)
    with pytest.raises(InvalidInputError, match="Did you mean 'standard'"):
        daskkcl.maps.Nystroem(scale="standart").fit(X)
