"""Every algorithm with every map works, or says why not; what cannot go together is refused before a row is read."""

import json

import dask.array as da
import numpy as np
import pytest
import zarr
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import adjusted_rand_score

import daskkcl
from daskkcl.errors import CheckpointError, InvalidInputError, WrongTypeError
from daskkcl.estimators.maps import MAPS
from daskkcl.maps import APNC, Nystroem, NystromNcut, RandomFourier, SparseSpectral, SVRandomFourier, TensorSketch

pytestmark = pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning")

N, D, C = 260, 3, 3
NAMES = ["landmarks", "identity", *MAPS]
QUICK = {"max_epochs": 2, "max_iter": 10}


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return (5 * rng.normal(size=(C, D))[rng.integers(0, C, N)] + rng.normal(size=(N, D))).astype(np.float32)


def transformer(name, **changes):
    cls = MAPS[name]
    size = "n_landmarks" if "n_landmarks" in cls._get_param_names() else "n_components"
    return cls(**{size: 30, "random_state": 1, "progress": False, **changes})


def estimator(algo, **changes):
    """An estimator of the algorithm, quick where it knows how to be."""
    cls = daskkcl.algorithms()[algo]
    few = {name: value for name, value in QUICK.items() if name in cls._get_param_names()}
    return cls(**{"n_clusters": C, "random_state": 0, "progress": False, **few, **changes})


def map_of(kind, name, X):
    if kind == "name":
        return name
    return transformer(name) if kind == "transformer" else transformer(name).fit(X)


# What takes the whole kernel matrix, or input space alone, has no map to choose.
WITHOUT_MAPS = {"cpcl": "no parameter 'map'", "kcl": "no parameter 'map'", "kcpcl": "no parameter 'map'"}
WITHOUT_MAPS |= {"kkmeans": "no parameter 'map'", "kfcm": "takes the whole kernel matrix: leave out map="}
WITHOUT_MAPS |= {"skkmeans": "no parameter 'map'"}  # its map is its buffer, which grows


def refusal(algo, name):
    """Return what the message says of a combination that makes no sense, None for one that has to work."""
    if algo == "apnc" and name == "landmarks":
        return "l1 distances of coordinates.*use map='apnc'"
    if algo == "spectral" and name != "spectral":
        return "k-means on the spectral map.*use algo='akkmeans' with it"
    return WITHOUT_MAPS.get(algo)


GRID = [
    (algo, kind, name)
    for algo in daskkcl.algorithms()
    for kind, names in (("name", NAMES), ("transformer", MAPS), ("fitted transformer", MAPS))
    for name in names
]


@pytest.mark.part(6)
@pytest.mark.parametrize("algo, kind, name", GRID)
def test_the_grid(tmp_path, X, algo, kind, name):
    map_ = map_of(kind, name, X)
    known = daskkcl.algorithms()[algo]._get_param_names()
    wanted = {**QUICK, "n_clusters": C, "n_seeds": 2 * C}  # some find their number, from more seeds
    if kind == "name" and name != "identity":
        wanted["n_landmarks"] = 30
    parameters = {key: value for key, value in wanted.items() if key in known}

    def fit():
        return daskkcl.fit(X, algo, map=map_, random_state=0, progress=False, **parameters)

    reason = refusal(algo, name)
    if reason is not None:
        with pytest.raises(InvalidInputError, match=reason):
            fit()
        return
    model = fit()
    labels = model.labels_
    assert labels.shape == (N,)
    assert labels.dtype == np.int32
    c = model.n_clusters_
    assert set(labels) <= set(range(c))
    assert c == C if "n_clusters" in known else 1 <= c <= 2 * C
    assert_array_equal(np.bincount(labels, minlength=c), model.cluster_sizes_)
    assert_array_equal(model.predict(X), labels)
    distances = model.transform(X)
    assert distances.shape == (N, c)
    model.save(tmp_path / "model.zarr")
    twin = daskkcl.load(tmp_path / "model.zarr")
    assert_array_equal(twin.predict(X), labels)
    assert_array_equal(twin.transform(X), distances)
    assert twin.score(X) == model.score(X)
    if kind == "fitted transformer":
        assert_array_equal(map_.transform(X), transformer(name).fit(X).transform(X))  # used, not changed


def test_the_grid_is_whole():
    assert {algo for algo, _, _ in GRID} == set(daskkcl.algorithms()) > set(WITHOUT_MAPS)
    assert {cls.__name__ for cls in MAPS.values()} == set(daskkcl.maps.__all__)


@pytest.mark.parametrize("name", MAPS)
def test_a_fitted_map_gives_the_coordinates_that_are_clustered(X, name):
    """Rows at a centre's distance: what the model measures is what the transformer gives."""
    map_ = transformer(name).fit(X)
    model = estimator("akkmeans", map=map_, init=np.array([0, 1, 2]), max_iter=1).fit(X)
    fitted = map_._reader.map_.for_clusters(3) if name == "spectral" else map_._reader.map_
    assert_array_equal(model._model.reader.map_.measure(X)[0], fitted.measure(X)[0])


@pytest.mark.parametrize("name", MAPS)
def test_a_name_is_a_map_with_the_estimators_seed(X, name):
    size = {"n_landmarks": 30}
    by_name = estimator("akkmeans", map=name, **size).fit(X)
    by_map = estimator("akkmeans", map=transformer(name, random_state=99)).fit(X)
    assert_array_equal(by_name.labels_, by_map.labels_)  # a map that is made with the rest has the seed of the rest
    assert_array_equal(by_name.transform(X), by_map.transform(X))


def test_words_that_are_defaults_elsewhere_are_taken_at_their_word(X):
    """The Gaussian kernel and uniform landmarks are the defaults of most maps, and not of the spectral map."""
    plain = estimator("akkmeans", map="spectral", n_landmarks=30).fit(X)._model.reader.map_
    assert plain.kernel is None
    kernel = estimator("akkmeans", map="spectral", n_landmarks=30, kernel="rbf").fit(X)._model.reader.map_
    assert kernel.kernel.name == "rbf"
    rows = {tuple(row) for row in X}
    for landmarks, inside in (("uniform", 30), ("kmeans", 0), (None, 0)):
        map_ = estimator("akkmeans", map="spectral", n_landmarks=30, landmarks=landmarks).fit(X)._model.reader.map_
        found = sum(tuple(row) in rows for row in map_.nearest.landmarks.astype(np.float32))
        assert found == inside if inside else found < 15, landmarks


@pytest.mark.parametrize("name", MAPS)
def test_the_literal_form_is_refused(X, name):
    with pytest.raises(InvalidInputError, match="leave out map="):
        estimator("okfcm", form="literal", map=name).fit(X)


# --- what does not go together --------------------------------------------------------------------------------------


class Unreadable:
    """Rows that must not be read: the error has to come first."""

    def __new__(cls, d=D):
        def explode(block_id=None):
            raise AssertionError("rows were read")

        return da.map_blocks(explode, chunks=((100, 160), (d,)), dtype=np.float32, meta=np.empty((0, 0), np.float32))


GIVEN_TWICE = {
    "kernel": {"kernel": "laplacian"},
    "gamma": {"gamma": 2.0},
    "kernel_params": {"kernel_params": {"degree": 2}},
    "landmarks": {"landmarks": "kmeans"},
    "n_landmarks": {"n_landmarks": 20},
}


@pytest.mark.parametrize("fitted", [False, True], ids=["unfitted", "fitted"])
@pytest.mark.parametrize("what", GIVEN_TWICE)
def test_what_a_map_says_is_not_said_again(X, what, fitted):
    map_ = transformer("nystroem")
    if fitted:
        map_.fit(X)
    with pytest.raises(InvalidInputError, match=f"give {what}= to the map"):
        estimator("akkmeans", map=map_, **GIVEN_TWICE[what]).fit(Unreadable())


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"map": "rff", "landmarks": "kmeans"}, "map='rff' has no landmarks"),
        ({"map": "randpoly", "landmarks": np.zeros((5, D))}, "map='randpoly' has no landmarks"),
        ({"map": "identity", "gamma": 1.0}, "leave out gamma="),
        ({"map": "identity", "n_landmarks": 10}, "leave out n_landmarks="),
        ({"map": "spectrl"}, r"not known; there are .*spectral.*Did you mean 'spectral'"),
        ({"map": "Nystroem"}, "Did you mean 'nystroem'"),
        ({"map": "rff", "kernel": "polynomial"}, "RandomFourier is there for .* not for Polynomial"),
        ({"map": "svrff", "kernel": "polynomial"}, "RandomFourier is there for .* not for Polynomial"),
        ({"map": RandomFourier(kernel="linear")}, "RandomFourier is there for .* not for Linear"),
        ({"map": TensorSketch(kernel="rbf")}, "TensorSketch is there for .* not for Rbf"),
        ({"map": "randpoly", "kernel": "rbf"}, "TensorSketch is there for .* not for Rbf"),
        ({"map": "spectral", "gamma": 2.0}, "plain distances, which have no gamma"),
        ({"map": "randpoly", "kernel": "laplacian"}, "TensorSketch is there for .* not for Laplacian"),
        ({"map": "spectral", "landmarks": "leverage"}, "'leverage' needs a kernel"),
        ({"map": SparseSpectral(landmarks="leverage")}, "'leverage' needs a kernel"),
        ({"map": SparseSpectral(landmarks=np.zeros((5, D + 1)))}, f"pass rows with {D} features"),
        ({"map": Nystroem(landmarks="leverag")}, "Did you mean 'leverage'"),
        ({"map": Nystroem(rank=0)}, "rank must be an integer of at least 1"),
        ({"map": Nystroem(n_landmarks=0)}, "n_landmarks must be an integer of at least 1"),
        ({"map": Nystroem(kernel="rfb")}, "Did you mean 'rbf'"),
        ({"map": Nystroem(gamma=-1.0)}, "gamma"),
        ({"map": APNC(n_components=0)}, "n_components must be an integer of at least 1"),
        ({"map": APNC(share=0)}, "share must be a number above 0 and at most 1"),
        ({"map": APNC(share=1.5)}, "share must be a number above 0 and at most 1"),
        ({"map": RandomFourier(n_components=2.5)}, "n_components must be an integer"),
        ({"map": SVRandomFourier(n_vectors=0)}, "n_vectors must be an integer of at least 1"),
        ({"map": NystromNcut(n_components=-1)}, "n_components must be an integer of at least 1"),
        ({"map": SparseSpectral(n_neighbors=0)}, "n_neighbors must be an integer of at least 1"),
        ({"map": SparseSpectral(n_neighbors=65)}, "n_neighbors=65 is more than 64"),
        ({"map": SparseSpectral(diffusion=-1)}, "diffusion must be a number of at least 0"),
        ({"map": SparseSpectral(search="exat")}, "search='exat' is not known.*Did you mean 'exact'"),
        ({"map": SparseSpectral(kernel_params={"gamma": 1})}, "kernel_params"),
    ],
    ids=str,
)
def test_bad_combinations_are_refused_before_rows_are_read(parameters, words):
    with pytest.raises(InvalidInputError, match=f"(?s){words}"):
        estimator("akkmeans", **parameters).fit(Unreadable())
    map_ = parameters["map"]
    if not isinstance(map_, str):  # and on its own
        with pytest.raises(InvalidInputError, match=f"(?s){words}"):
            map_.fit(Unreadable())


@pytest.mark.parametrize("map_", [3, Nystroem, object(), ["rff"]], ids=["number", "class", "object", "list"])
def test_what_is_no_map(map_):
    with pytest.raises(WrongTypeError, match=r"neither a name nor one of daskkcl\.maps"):
        estimator("akkmeans", map=map_).fit(Unreadable())


@pytest.mark.parametrize("name", MAPS)
def test_a_fitted_map_of_other_rows(X, name):
    map_ = transformer(name).fit(X)
    with pytest.raises(InvalidInputError, match=f"fitted to {D} features, and the data have {D + 1}"):
        estimator("akkmeans", map=map_).fit(Unreadable(D + 1))
    with pytest.raises(InvalidInputError, match=f"X has {D + 1} features"):
        map_.transform(np.zeros((4, D + 1)))


def test_memory_that_does_not_suffice_is_said_before_rows_are_read():
    for name in MAPS:
        with pytest.raises(daskkcl.MemoryLimitError):
            transformer(name, memory_limit="10MiB").fit(Unreadable())


def test_a_checkpoint_knows_its_map(tmp_path, X):
    """The same parameters are not the same map: arrays that print alike, and what a fitted map has learnt, differ."""
    given = X[:100].astype(np.float64)
    moved = given.copy()
    moved[50] += 1
    pairs = {
        "landmarks": (Nystroem(landmarks=given), Nystroem(landmarks=moved)),
        "fitted": (transformer("rff").fit(X), transformer("rff").fit(3 * X)),
        "parameters": (transformer("apnc", share=0.4), transformer("apnc", share=0.5)),
    }
    for name, (map_, other) in pairs.items():
        path = tmp_path / name
        labels = estimator("akkmeans", map=map_).fit(X, checkpoint=path).labels_
        assert_array_equal(estimator("akkmeans", map=map_).fit(X, checkpoint=path).labels_, labels)
        with pytest.raises(CheckpointError, match="another run"):
            estimator("akkmeans", map=other).fit(X, checkpoint=path)


# --- saved models ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models(X):
    found = {name: estimator("akkmeans", map=transformer(name)).fit(X) for name in MAPS}
    cells = SparseSpectral(n_landmarks=150, landmarks="uniform", search="approximate")
    found["spectral, cells"] = estimator("spectral", map=cells).fit(X)
    found["spectral, kernel"] = estimator("spectral", map=SparseSpectral(kernel="rbf", n_landmarks=40)).fit(X)
    return found


STORED = {
    "apnc": {"landmarks", "projection"},
    "nystroem": {"landmarks", "projection"},
    "nyncut": {"landmarks", "projection"},
    "rff": {"origin", "frequencies"},
    "svrff": {"origin", "frequencies", "projection"},
    "randpoly": {"buckets", "signs"},
    "spectral": {"landmarks", "origin", "table"},
    "spectral, kernel": {"landmarks", "origin", "table"},
    "spectral, cells": {"landmarks", "origin", "table", "cell_centres", "cell_members"},
}
OF_ALL = {"coefficients", "norms", "order", "cluster_sizes", "history"}


def refused(path, *words):
    with pytest.raises(InvalidInputError) as caught:
        daskkcl.load(path)
    assert all(word in str(caught.value) for word in (str(path), "refused", *words)), str(caught.value)


def put(path, name, values):
    group = zarr.open_group(path, mode="r+")
    if name in group:
        del group[name]
    values = np.asarray(values)
    shape = tuple(max(1, n) for n in values.shape)
    group.create_array(name, data=values, chunks=shape, compressors=None, config={"write_empty_chunks": True})


def describe(path, **changes):
    metadata = json.loads((path / "zarr.json").read_text())
    metadata["attributes"]["daskkcl_model"].update(changes)
    (path / "zarr.json").write_text(json.dumps(metadata))


@pytest.mark.parametrize("name", STORED)
def test_a_saved_map_is_numbers_only(tmp_path, X, models, name):
    models[name].save(tmp_path / "model.zarr")
    assert set(zarr.open_group(tmp_path / "model.zarr", mode="r")) == STORED[name] | OF_ALL
    twin = daskkcl.load(tmp_path / "model.zarr")
    assert_array_equal(twin.predict(X), models[name].labels_)
    assert_array_equal(twin.transform(X), models[name].transform(X))
    twin.save(tmp_path / "again.zarr")
    assert_array_equal(daskkcl.load(tmp_path / "again.zarr").transform(X), models[name].transform(X))


INTEGERS = {"buckets", "cell_members"}  # arrays that can hold no NaN


def doctored():
    for name, arrays in STORED.items():
        for array in sorted(arrays):
            for damage in ("absent", "NaN", "one column more", "one row less", "other rank", "empty", "words"):
                if damage != "NaN" or array not in INTEGERS:
                    yield name, array, damage


@pytest.mark.part(3)
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("name, array, damage", list(doctored()))
def test_doctored_arrays_of_maps(tmp_path, models, name, array, damage):
    """Whatever is done to one array alone is seen: it has to fit the others."""
    path = tmp_path / "model.zarr"
    models[name].save(path)
    group = zarr.open_group(path, mode="r+")
    values = group[array][...]
    if damage == "absent":
        del group[array]
    elif damage == "NaN":
        values.flat[0] = np.nan
        put(path, array, values)
    elif damage == "one column more":
        put(path, array, np.concatenate([values, values[..., :1]], axis=-1))
    elif damage == "one row less":
        put(path, array, values[:-1])
    elif damage == "other rank":
        put(path, array, values[None])
    elif damage == "empty":
        put(path, array, values[:0])
    else:
        put(path, array, np.full(values.shape, "a"))
    harmless = array == "cell_members" and damage == "one column more"  # a candidate more: still cells
    if harmless:
        daskkcl.load(path)
    else:
        refused(path)


@pytest.mark.parametrize(
    "name, array, values",
    [
        ("randpoly", "buckets", -1),
        ("randpoly", "buckets", 30),
        ("randpoly", "buckets", 0.5),
        ("spectral, cells", "cell_members", 150),
        ("spectral, cells", "cell_members", -1),
        ("spectral, cells", "cell_members", 0.5),
    ],
)
def test_numbers_that_point_outside(tmp_path, models, name, array, values):
    """They would be read from memory that is not theirs."""
    path = tmp_path / "model.zarr"
    models[name].save(path)
    put(path, array, np.full(zarr.open_array(path / array, mode="r").shape, values))
    refused(path, f"{array} do not fit")


@pytest.mark.parametrize(
    "name, changes",
    [
        ("spectral", {"map_numbers": {}}),
        ("spectral", {"map_numbers": None}),
        ("spectral", {"map_numbers": {"n_neighbors": 31, "bits": 22}}),
        ("spectral", {"map_numbers": {"n_neighbors": 0, "bits": 22}}),
        ("spectral", {"map_numbers": {"n_neighbors": True, "bits": 22}}),
        ("spectral", {"map_numbers": {"n_neighbors": "3", "bits": 22}}),
        ("spectral", {"map_numbers": {"n_neighbors": 3, "bits": 63}}),
        ("spectral", {"map_numbers": {"n_neighbors": 3, "bits": 0}}),
        ("spectral", {"map": "rff"}),
        ("spectral", {"map": "landmarks"}),
        ("spectral", {"map": "codes"}),
        ("spectral, kernel", {"kernel": {"name": "rbf", "gamma": "auto"}}),
        ("spectral, kernel", {"kernel": {"name": "rbf", "gamma": 1.0, "more": 1}}),
        ("randpoly", {"map_numbers": {}}),
        ("randpoly", {"map_numbers": {"size": 0}}),
        ("randpoly", {"map_numbers": {"size": 29}}),
        ("randpoly", {"map_numbers": {"size": 31}}),  # centres of 30 columns
        ("randpoly", {"map_numbers": {"size": 2**40}}),
        ("randpoly", {"kernel": {"name": "rbf", "gamma": 1.0}}),
        ("randpoly", {"kernel": None}),
        ("rff", {"kernel": None}),
        ("rff", {"map": "svrff"}),
        ("svrff", {"map": "rff"}),
        ("svrff", {"map": "nystroem"}),
        ("nystroem", {"map": "landmarks"}),
        ("apnc", {"kernel": None}),
        ("apnc", {"n_features": D + 1}),
        ("apnc", {"map": "landmarks", "rule": "nearest-l1"}),
        ("apnc", {"map": ["apnc"]}),
        ("rff", {"map": "identity"}),
    ],
    ids=str,
)
def test_doctored_descriptions_of_maps(tmp_path, models, name, changes):
    path = tmp_path / "model.zarr"
    models[name].save(path)
    describe(path, **changes)
    refused(path)


def test_l1_distances_need_coordinates(tmp_path, X):
    path = tmp_path / "model.zarr"
    estimator("akkmeans", n_landmarks=30).fit(X).save(path)
    describe(path, rule="nearest-l1")
    refused(path, "its rule does not go with its map")


@pytest.mark.parametrize("name", ["spectral", "nyncut", "svrff"])
def test_maps_that_count_rows_refuse_weights(name):
    with pytest.raises(InvalidInputError, match="sample_weight"):
        daskkcl.fit(np.eye(20), "fcm", 2, map=name, sample_weight=np.ones(20))


def test_a_loaded_model_knows_its_kind_of_map(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = daskkcl.ApproxKernelKMeans(3, map=daskkcl.maps.SparseSpectral(n_landmarks=40), random_state=0).fit(X)
    model.save(tmp_path / "model.zarr")
    assert daskkcl.load(tmp_path / "model.zarr").map == "spectral"


def rings(seed):
    rng = np.random.default_rng(seed)
    t, radius = rng.uniform(0, 2 * np.pi, 600), np.repeat([1, 3], 300)
    return np.c_[np.cos(t), np.sin(t)] * radius[:, None] + rng.normal(0, 0.05, (600, 2)), np.repeat([0, 1], 300)


@pytest.mark.parametrize("algo", ["akkmeans", "pakcl", "okfcm"])
def test_a_spectral_map_fitted_on_its_own_serves_any_number_of_clusters(algo):
    X, y = rings(0)
    map_ = SparseSpectral(random_state=0).fit(X)
    model = daskkcl.fit(X, algo, 2, map=map_, random_state=0)
    assert adjusted_rand_score(y, model.labels_) == 1
    frozen = clone(daskkcl.ApproxKernelKMeans(2, map=FrozenEstimator(map_), random_state=0)).fit(X)
    assert adjusted_rand_score(y, frozen.labels_) == 1


@pytest.mark.parametrize("algo", ["pakcl", "akcl", "okfcm", "spkfcm"])
@pytest.mark.parametrize("name", ["spectral", "nyncut", "rff"])
def test_streams_on_maps(algo, name):
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(3), 200)
    X = 9 * np.eye(3)[y] + rng.normal(size=(600, 3))
    parameters = {"chunk_size": 300} if algo.endswith("kfcm") else {}
    model = daskkcl.algorithms()[algo](3, map=name, random_state=0, progress=False, **parameters)
    model.partial_fit(X[:300]).partial_fit(X[300:])
    assert adjusted_rand_score(y, model.predict(X)) > 0.95


def test_a_fitted_map_brings_its_precision():
    X = np.random.default_rng(0).normal(size=(200, 3))
    map_ = Nystroem(n_landmarks=20, dtype="float32", random_state=0).fit(X)
    assert daskkcl.fit(X, "akkmeans", 3, map=map_, random_state=0).transform(X).dtype == np.float32
    with pytest.raises(InvalidInputError, match="float32"):
        daskkcl.fit(X, "akkmeans", 3, map=map_, dtype="float64")


def test_landmarks_that_a_class_does_not_have_are_refused():
    with pytest.raises(InvalidInputError, match="no parameter 'landmarks'"):
        daskkcl.fit(np.eye(20), "kcl", 2, landmarks=np.eye(20)[:5])
