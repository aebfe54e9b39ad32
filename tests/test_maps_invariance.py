"""Maps give the same coordinates and labels, bit for bit, whatever carries the rows; lazily, saved, copied, cloned."""

import os
import pickle
from dataclasses import replace

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import daskkcl
from daskkcl import MemoryLimitError
from daskkcl.errors import InvalidInputError
from daskkcl.estimators.base import KernelClusterer
from daskkcl.maps import APNC, Nystroem, NystromNcut, RandomFourier, SparseSpectral, SVRandomFourier, TensorSketch

pytestmark = [
    pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning"),
    pytest.mark.usefixtures("small_tiles"),
]

N, D, C = 2600, 5, 4
ALIKE = {"random_state": 3, "progress": False}
MAPS = {
    "apnc": lambda **kw: APNC(**{"n_landmarks": 40, "n_components": 20, **ALIKE, **kw}),
    "nystroem": lambda **kw: Nystroem(**{"n_landmarks": 40, "rank": 15, **ALIKE, **kw}),
    "nyncut": lambda **kw: NystromNcut(**{"n_landmarks": 40, "n_components": 6, **ALIKE, **kw}),
    "rff": lambda **kw: RandomFourier(**{"n_components": 30, **ALIKE, **kw}),
    "svrff": lambda **kw: SVRandomFourier(**{"n_components": 30, "n_vectors": 5, **ALIKE, **kw}),
    "randpoly": lambda **kw: TensorSketch(**{"n_components": 32, **ALIKE, **kw}),
    "spectral": lambda **kw: SparseSpectral(**{"n_landmarks": 80, **ALIKE, **kw}),
    "spectral by cells": lambda **kw: SparseSpectral(
        **{"n_landmarks": 700, "search": "approximate", "landmarks": "uniform", **ALIKE, **kw}
    ),
    "spectral with a kernel": lambda **kw: SparseSpectral(**{"kernel": "rbf", "n_landmarks": 60, **ALIKE, **kw}),
}
FEW = {"pakcl": {"subset_size": 150, "max_epochs": 2, "tol": 0.0}, "okfcm": {"chunk_size": 200, "fuzzifier": 1.3}}
MODELS = {
    "apnc": ("apnc", "apnc"),
    "spectral": ("spectral", "spectral"),
    "spectral by cells": ("spectral", "spectral by cells"),
    **{f"{algo}, {name}": (algo, name) for algo in ("pakcl", "okfcm", "akkmeans") for name in ("spectral", "nyncut")},
    "akkmeans, svrff": ("akkmeans", "svrff"),
}


@pytest.fixture(scope="module")
def X():
    """Overlapping blobs, sorted by blob, far from zero; many rows stand between two clusters."""
    rng = np.random.default_rng(2)
    blob = np.sort(rng.choice(C, N, p=[0.4, 0.3, 0.2, 0.1]))
    return (20 + 2 * rng.normal(size=(C, D))[blob] + rng.normal(size=(N, D))).astype(np.float32)


def in_zarr(X, chunks):
    array = zarr.create_array({}, shape=X.shape, dtype=X.dtype, chunks=chunks)
    array[...] = X
    return array


SOURCES = {
    "numpy, column by column": np.asfortranarray,
    "zarr, coprime chunks": lambda X: in_zarr(X, (777, 3)),
    "zarr, one chunk": lambda X: in_zarr(X, X.shape),
    "dask, ragged": lambda X: da.from_array(X, chunks=((1, 999, 3, 1024, N - 2027), (2, D - 2))),
}


def model(name, **changes):
    algo, map_ = MODELS[name]
    options = {"n_clusters": C, "map": MAPS[map_](random_state=None), **ALIKE, **FEW.get(algo, {}), **changes}
    return daskkcl.algorithms()[algo](**options)


def answers(fitted, X):
    found = {
        "labels": np.asarray(fitted.labels_),
        "distances": np.asarray(fitted.transform(X)),
        "sizes": fitted.cluster_sizes_,
        "history": np.array(fitted.history_),
        "objective": np.array(fitted.objective_),
    }
    assert_array_equal(np.asarray(fitted.predict(X)), found["labels"])
    if hasattr(fitted, "membership_"):
        found["memberships"] = np.asarray(fitted.membership_)
    return found


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert_array_equal(found[name], expected[name], err_msg=name, strict=True)


@pytest.fixture(scope="module")
def embedded(X):
    with dask.config.set(num_workers=1):
        return {name: make().fit(X).transform(X) for name, make in MAPS.items()}


@pytest.fixture(scope="module")
def expected(X):
    with dask.config.set(num_workers=1):
        return {name: answers(model(name).fit(X), X) for name in MODELS}


def test_the_data_put_invariance_to_the_test(X, embedded, expected):
    """Several tiles; coordinates that are not all alike; rows between two centres."""
    for name, Y in embedded.items():
        assert Y.dtype == np.float32
        assert len(np.unique(Y, axis=0)) > N // 2, name
        assert MAPS[name]().fit(X)._reader.tile_rows <= 1024 < N
    for name, found in expected.items():
        assert (found["sizes"] > 0).all(), name
        assert len(found["history"]) > 1, name


# --- maps -----------------------------------------------------------------------------------------------------------


@pytest.mark.part(2)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", MAPS)
def test_any_source_gives_the_same_coordinates(X, embedded, name, source):
    data = SOURCES[source](X)
    with dask.config.set(num_workers=3):
        map_ = MAPS[name]().fit(data)
        assert_array_equal(map_.transform(X), embedded[name], strict=True)
        Y = map_.transform(data)
        assert isinstance(Y, np.ndarray if source.startswith("numpy") else da.Array)
        assert_array_equal(np.asarray(Y), embedded[name], strict=True)


@pytest.mark.parametrize("dtype", ["float64", "uint8"])
@pytest.mark.parametrize("name", MAPS)
def test_other_dtypes(X, name, dtype):
    rows = np.clip(8 * X, 0, 255).astype(dtype)
    data = SOURCES["zarr, coprime chunks"](rows)
    Y = MAPS[name]().fit(rows).transform(rows)
    assert Y.dtype == (np.float64 if dtype == "float64" else np.float32)
    assert_array_equal(MAPS[name]().fit(data).transform(data).compute(), Y, strict=True)


def least_memory(make, data):
    """Fit within the smallest limit that is not refused."""
    limit = 2**20
    for _ in range(20):
        try:
            fitted = make(memory_limit=limit).fit(data)
            assert fitted.plan_.peak_bytes <= limit
            return fitted
        except MemoryLimitError as error:
            limit = int(1.001 * error.needed_bytes)
    raise AssertionError("always refused")


@pytest.mark.parametrize("name", MAPS)
def test_the_least_memory_gives_the_same_coordinates(X, embedded, name):
    data = SOURCES["zarr, coprime chunks"](X)
    map_ = least_memory(MAPS[name], data)
    assert_array_equal(map_.transform(data).compute(), embedded[name])
    roomy = MAPS[name](memory_limit="8GiB").fit(data)
    assert_array_equal(roomy.transform(data).compute(), embedded[name])


@pytest.mark.parametrize("name", MAPS)
def test_a_lazy_embedding_computes_nothing_until_it_is_written(monkeypatch, tmp_path, X, embedded, name):
    data = SOURCES["zarr, coprime chunks"](X)
    map_ = MAPS[name]().fit(data)

    def refuse(*args, **kwargs):
        raise AssertionError("something was computed")

    with monkeypatch.context() as patch, dask.config.set(scheduler=refuse):
        patch.setattr(zarr.Array, "__getitem__", refuse)
        lazy = map_.transform(data)
        assert lazy.shape == embedded[name].shape
        assert lazy.dtype == embedded[name].dtype
    lazy.to_zarr(str(tmp_path / "y.zarr"))
    assert_array_equal(zarr.open_array(str(tmp_path / "y.zarr"), mode="r")[...], embedded[name])
    assert_array_equal(lazy[100:103, 1].compute(), embedded[name][100:103, 1])


@pytest.mark.parametrize("name", MAPS)
def test_another_seed_gives_something_else(X, embedded, name):
    assert not np.array_equal(MAPS[name](random_state=4).fit(X).transform(X), embedded[name])


@pytest.mark.parametrize("name", MAPS)
def test_copies_give_the_same(X, embedded, name):
    map_ = pickle.loads(pickle.dumps(MAPS[name]().fit(X)))
    assert_array_equal(map_.transform(X), embedded[name])
    with pytest.raises(NotFittedError):
        clone(map_).transform(X)


# --- dropped rows ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spoilt(X):
    rng = np.random.default_rng(0)
    rows = X.copy()
    bad = np.concatenate([rng.choice(N, 30, replace=False), np.arange(1100, 1300), [0, N - 1]])
    rows[bad, rng.integers(0, D, len(bad))] = rng.choice([np.nan, np.inf, -np.inf], len(bad))
    return rows


@pytest.mark.parametrize("name", MAPS)
def test_dropped_rows_have_no_coordinates(spoilt, name):
    bad = ~np.isfinite(spoilt).all(axis=1)
    Y = MAPS[name](nan="drop").fit(spoilt).transform(spoilt)
    assert_array_equal(np.isnan(Y).all(axis=1), bad)
    assert_array_equal(np.isnan(Y).any(axis=1), bad)
    data = SOURCES["zarr, coprime chunks"](spoilt)
    assert_array_equal(MAPS[name](nan="drop").fit(data).transform(data).compute(), Y)
    with pytest.raises(InvalidInputError, match="row 0,"):
        MAPS[name]().fit(spoilt)
    with pytest.raises(InvalidInputError, match="row 0,"):
        MAPS[name]().fit(spoilt[~bad]).transform(spoilt)


@pytest.mark.part(2)
@pytest.mark.parametrize("name", MAPS)
def test_dropped_rows_are_as_if_they_were_not_there(X, spoilt, name):
    """Given what is drawn at random: landmarks are given, and random features depend on nothing but the seed.

    Sums over other tiles round otherwise, hence not to the bit; inner products, for eigenvectors may turn.
    """
    rows = spoilt.astype(np.float64)
    good = np.isfinite(rows).all(axis=1)
    plain = MAPS[name]()
    given = {"landmarks": X[50::60].astype(np.float64), "n_landmarks": None} if hasattr(plain, "landmarks") else {}
    width = {} if plain.kernel is None else {"gamma": 0.05}
    with_them, without = (
        MAPS[name](nan="drop", **given, **width).fit(some).transform(rows[good]) for some in (rows, rows[good])
    )
    assert_allclose(with_them @ with_them.T, without @ without.T, rtol=0, atol=1e-7 * np.abs(without).max() ** 2)


@pytest.mark.parametrize("name", ["apnc", "spectral", "pakcl, spectral", "okfcm, spectral", "akkmeans, spectral"])
def test_dropped_rows_have_no_label(spoilt, name):
    bad = ~np.isfinite(spoilt).all(axis=1)
    found = answers(model(name, nan="drop").fit(spoilt), spoilt)
    assert_array_equal(found["labels"] == -1, bad)
    assert np.isnan(found["distances"][bad]).all()
    assert np.isfinite(found["distances"][~bad]).all()
    assert found["sizes"].sum() == N - bad.sum()
    data = SOURCES["zarr, coprime chunks"](spoilt)
    assert_same(answers(model(name, nan="drop").fit(data), data), found)


# --- algorithms -----------------------------------------------------------------------------------------------------


@pytest.mark.part(2)
@pytest.mark.parametrize("source, threads", [("zarr, coprime chunks", 1), ("dask, ragged", 3)])
@pytest.mark.parametrize("name", MODELS)
def test_any_source_gives_the_same_labels(X, expected, name, source, threads):
    data = SOURCES[source](X)
    with dask.config.set(num_workers=threads):
        assert_same(answers(model(name).fit(data), data), expected[name])


@pytest.mark.parametrize("name", MODELS)
def test_the_least_memory_gives_the_same_labels(X, expected, name):
    data = SOURCES["zarr, coprime chunks"](X)
    fitted = least_memory(lambda **kw: model(name, **kw), data)
    assert_same(answers(fitted, data), expected[name])


@pytest.mark.part(2)
@pytest.mark.parametrize("source", ["numpy, column by column", "zarr, coprime chunks"])
@pytest.mark.parametrize("keep", ["codes", "nothing"])
@pytest.mark.parametrize("name", [name for name in MODELS if "spectral" in name])
def test_codes_in_memory_and_in_scratch_give_the_same(monkeypatch, tmp_path, X, expected, name, keep, source):
    """Blocks of one tile, codes in an array or in a Zarr in scratch, which is gone afterwards."""
    original, made = KernelClusterer._plan, []

    def plan(self, *args):
        found = original(self, *args)
        quantum = {"subsets": 150, "chunks": 200}
        layouts = tuple(replace(layout, block_rows=quantum.get(layout.name, 1024)) for layout in found.layouts)
        return replace(found, keep=keep, layouts=layouts)

    create = zarr.create_array
    monkeypatch.setattr(KernelClusterer, "_plan", plan)
    monkeypatch.setattr(zarr, "create_array", lambda *a, **kw: made.append(str(a[0])) or create(*a, **kw))
    data = SOURCES[source](X)
    made.clear()
    fitted = model(name, scratch=str(tmp_path)).fit(data)
    assert [os.path.basename(path) for path in made] == ([] if keep == "codes" else ["codes.zarr"])
    assert_same(answers(fitted, data), expected[name])
    left = [file for _, _, files in os.walk(tmp_path) for file in files]
    assert left == ([] if source.startswith("numpy") else [".owner.json", "labels"])


def test_workers_give_the_labels_of_threads(X, expected, tmp_path):
    """With a scratch folder in common codes are kept there; without one rows are read and encoded again."""
    from distributed import Client, LocalCluster

    data = da.from_array(X, chunks=(700, D))
    with (
        LocalCluster(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        for name in ("apnc", "spectral", "pakcl, spectral", "okfcm, spectral", "akkmeans, nyncut"):
            for scratch in (None, str(tmp_path)):
                fitted = model(name, scratch=scratch).fit(data, client=client)
                assert_same(answers(fitted, data), expected[name])
        map_ = MAPS["spectral"]().fit(data, client=client)
        assert_array_equal(map_.transform(data).compute(), MAPS["spectral"]().fit(X).transform(X))


# --- scikit-learn ---------------------------------------------------------------------------------------------------


def checked():
    for cls in (APNC, Nystroem, NystromNcut, SparseSpectral):
        yield cls(n_landmarks=20, **ALIKE)
    for cls in (RandomFourier, SVRandomFourier, TensorSketch):
        yield cls(n_components=20, **ALIKE)


@pytest.mark.part(4)
@parametrize_with_checks(list(checked()))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", MAPS)
def test_clone_and_parameters(name):
    map_ = MAPS[name]()
    assert vars(map_) == map_.get_params()
    assert clone(map_).get_params() == map_.get_params()
    with pytest.raises(ValueError, match="n_landmark_"):
        map_.set_params(n_landmark_=2)


def test_parameters_of_a_map_inside_an_estimator(X):
    outer = daskkcl.PAKCL(C, map=SparseSpectral(n_landmarks=50), random_state=0, max_epochs=2)
    assert outer.get_params()["map__n_landmarks"] == 50
    assert "map__n_landmarks" not in outer.get_params(deep=False)
    twin = clone(outer)
    assert twin.map is not outer.map
    twin.set_params(map__n_landmarks=60, map__n_neighbors=4)
    assert (twin.map.n_landmarks, outer.map.n_landmarks) == (60, 50)
    twin.fit(X)
    assert not hasattr(twin.map, "n_features_in_")  # a parameter: fitting does not change it
    assert twin._model.reader.map_.nearest.n_landmarks == 60
    assert twin._model.reader.map_.nearest.n_neighbors == 4


def test_a_grid_search_over_a_map(X):
    from sklearn.model_selection import GridSearchCV

    model_ = daskkcl.ApproxKernelKMeans(C, map=Nystroem(n_landmarks=30), random_state=0, max_iter=3)
    search = GridSearchCV(model_, {"map__rank": [1, 10]}, cv=2).fit(X[:600])
    assert set(search.cv_results_["param_map__rank"]) == {1, 10}


@pytest.mark.parametrize("name", MAPS)
def test_pipelines_and_names(X, name):
    pandas = pytest.importorskip("pandas")
    map_ = MAPS[name]()
    pipeline = make_pipeline(StandardScaler(), map_, StandardScaler()).fit(X)
    Y = pipeline.transform(X)
    names = pipeline[:-1].get_feature_names_out()
    assert list(names) == [f"{type(map_).__name__.lower()}{k}" for k in range(Y.shape[1])]
    frame = pandas.DataFrame(X[:200], columns=list("abcde"))
    out = MAPS[name]().set_output(transform="pandas").fit_transform(frame)
    assert out.shape[0] == 200
    assert_array_equal(out.to_numpy(), MAPS[name]().fit_transform(X[:200]))
