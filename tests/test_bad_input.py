"""Bad input: one clear error of the right class that says what to do, before work starts, with nothing left behind."""

import json
import os
import shutil
from collections import namedtuple

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr
import zarr
from numpy.testing import assert_array_equal
from zarr.codecs import ShardingCodec
from zarr.storage import LocalStore, MemoryStore, WrapperStore

import daskkcl
from daskkcl.errors import (
    CheckpointError,
    DaskkclError,
    DegenerateKernelError,
    InvalidInputError,
    MemoryLimitError,
    OutputError,
    StorageError,
    WrongTypeError,
)
from daskkcl.random import Key
from daskkcl.schedules.measuring import bad_rows

ALGORITHMS = ["akkmeans", "pakcl", "okfcm", "spkfcm", "rsekfcm"]


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.repeat([[0, 0, 0], [8, 0, 4], [0, 8, 8]], 100, axis=0) + rng.normal(size=(300, 3))


class Untouchable(WrapperStore):
    """A store whose chunks must not be read."""

    async def get(self, key, *args, **kwargs):
        assert "c" not in key.split("/"), f"{key} was read"
        return await super().get(key, *args, **kwargs)


@pytest.fixture
def untouchable(X):
    store = MemoryStore()
    zarr.create_array(store, data=X, chunks=(100, 3))
    return zarr.open_array(Untouchable(store), mode="r")


@pytest.fixture
def fit(tmp_path):
    """Run `daskkcl.fit` with an output and a scratch folder of its own."""

    def call(data, algo="akkmeans", **parameters):
        (tmp_path / "outputs").mkdir(exist_ok=True)
        (tmp_path / "scratch").mkdir(exist_ok=True)
        defaults = {
            "n_clusters": 3,
            "n_landmarks": 20,
            "random_state": 0,
            "progress": False,
            "out": tmp_path / "outputs" / "result.zarr",
            "scratch": tmp_path / "scratch",
        }
        return daskkcl.fit(data, algo, **{**defaults, **parameters})

    return call


@pytest.fixture
def refuses(fit, tmp_path):
    """Expect an error whose message has all the given words, and no files left; return it."""

    def call(data, error, *words, algo="akkmeans", started=False, **parameters):
        stages = []
        parameters.setdefault("progress", lambda stage, *_: stages.append(stage))
        before = sorted(os.listdir(tmp_path))
        with pytest.raises(error) as caught:
            fit(data, algo, **parameters)
        message = str(caught.value)
        assert isinstance(caught.value, DaskkclError)
        assert [word for word in words if str(word) not in message] == [], message
        assert started or not stages, f"work had begun: {stages}"
        del caught
        assert os.listdir(tmp_path / "outputs") == []
        assert os.listdir(tmp_path / "scratch") == []
        assert set(os.listdir(tmp_path)) - set(before) <= {"outputs", "scratch"}
        return message

    return call


def test_the_untouchable_can_be_fitted_by_nobody(untouchable, fit):
    with pytest.raises(StorageError, match="was read"):
        fit(untouchable)


# --- the data ---------------------------------------------------------------------------------------------------


def test_nothing_there(refuses, tmp_path, X):
    zarr.create_array(tmp_path / "pixels.zarr", data=X)
    refuses(tmp_path / "pixel.zarr", InvalidInputError, "nothing at", "Did you mean 'pixels.zarr'?")
    refuses(str(tmp_path / "no" / "folder.zarr"), InvalidInputError, "nothing at")


def test_not_a_zarr(refuses, tmp_path):
    (tmp_path / "table.csv").write_text("1,2\n3,4\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "table.csv").write_text("1,2\n3,4\n")
    refuses(tmp_path / "table.csv", InvalidInputError, "table.csv", "is a file, not a Zarr", "daskkcl convert")
    refuses(tmp_path / "folder", InvalidInputError, "folder", "cannot be opened as Zarr", "Pass the folder or URL")
    refuses("memory://nothing/there.zarr", InvalidInputError, "cannot be opened as Zarr")
    refuses("unheardof://bucket/x.zarr", InvalidInputError, "cannot be opened as Zarr")
    refuses(MemoryStore(), InvalidInputError, "MemoryStore", "cannot be opened as Zarr")


def test_damaged_metadata(refuses, tmp_path, X):
    zarr.create_array(tmp_path / "x.zarr", data=X)
    (tmp_path / "x.zarr" / "zarr.json").write_text('{"zarr_format": 3, "node')
    refuses(tmp_path / "x.zarr", InvalidInputError, "x.zarr", "cannot be opened as Zarr")


@pytest.fixture
def group(tmp_path, X):
    group = zarr.open_group(tmp_path / "group.zarr", mode="w")
    group.create_array("features", data=X)
    group.create_array("image", data=X.reshape(10, 10, 9))
    group.create_group("layers").create_array("counts", data=X)
    return group


def test_components(refuses, group, tmp_path, X):
    for data in (group, tmp_path / "group.zarr"):
        refuses(data, InvalidInputError, "'feature'", "Did you mean 'features'?", component="feature")
        refuses(data, InvalidInputError, "Did you mean 'layers/counts'?", component="layers/count")
        refuses(data, InvalidInputError, "Zarr group", "component='features'", "'layers/counts'")
        refuses(data, InvalidInputError, "is a group", "layers/counts", component="layers")
        refuses(data, InvalidInputError, "3D", component="image")
    refuses(zarr.create_group(MemoryStore()), InvalidInputError, "Zarr group", "no arrays")
    refuses(group, InvalidInputError, "no component 7", component=7)
    refuses(group["features"], InvalidInputError, "leave out component='x'", component="x")
    refuses(X, InvalidInputError, "component= only goes with a Zarr", component="x")


def test_storage_options_without_a_url(refuses, tmp_path, X):
    zarr.create_array(tmp_path / "x.zarr", data=X)
    refuses(X, InvalidInputError, "storage_options only goes with", storage_options={"anon": True})
    refuses(tmp_path / "x.zarr", InvalidInputError, "storage_options", storage_options={"anon": True})


def kinds_of(array):
    """Return an array in all the ways a user may pass it."""
    yield array
    yield zarr.create_array(MemoryStore(), data=array)
    yield da.from_array(array, chunks=-1)
    yield xr.DataArray(array)


@pytest.mark.parametrize("shape", [(30,), (3, 4, 5)])
def test_dimensions(refuses, shape):
    *others, frame = kinds_of(np.ones(shape))
    for data in others:
        refuses(data, InvalidInputError, "2D", f"{len(shape)}" if len(shape) == 1 else "3")
    if len(shape) == 1:
        refuses(frame, InvalidInputError, "2D", "expand_dims")
    else:
        refuses(frame, InvalidInputError, "dim_0, dim_1, dim_2", "feature_dim='dim_2'")


def test_one_dimension_is_told_how_to_become_two(refuses):
    for data in list(kinds_of(np.ones(30)))[:-1]:
        refuses(data, InvalidInputError, "eshape", "(-1, 1)")
    refuses(pd.Series(np.ones(30)), InvalidInputError, "eshape", "(-1, 1)")
    refuses(3.0, InvalidInputError, "2D")
    refuses(None, InvalidInputError, "2D")


def test_no_rows_or_no_columns(refuses):
    for data in kinds_of(np.ones((0, 3))):
        refuses(data, InvalidInputError, "0 sample(s)", "minimum of 1")
    for data in kinds_of(np.ones((5, 0))):
        refuses(data, InvalidInputError, "0 feature(s)", "minimum of 1")


def test_strings_and_objects(refuses):
    text = np.array([["a", "b"], ["c", "d"]])
    refuses(text, InvalidInputError, "not a table of numbers", "strings")
    refuses(text.astype(object), InvalidInputError, "not a table of numbers")
    refuses(pd.DataFrame(text), InvalidInputError, "not a table of numbers")
    refuses(np.array([[{}, 1], [2, 3]]), WrongTypeError, "not a table of numbers")
    refuses(da.from_array(text), InvalidInputError, "<U1", "Encode them as numbers")
    refuses(xr.DataArray(text), InvalidInputError, "<U1", "Encode them as numbers")
    refuses(zarr.create_array(MemoryStore(), data=text), InvalidInputError, "U1", "Encode them as numbers")
    dates = np.array([["2020-01-01", "2020-01-02"]], dtype="M8[ns]")
    refuses(da.from_array(dates), InvalidInputError, "datetime64", "Encode them as numbers")
    refuses([[1, 2], [3]], InvalidInputError, "not a table of numbers")
    refuses(b"pixels.zarr", InvalidInputError, "not a table of numbers")


def test_object_dtype_in_zarr(refuses, tmp_path):
    zarr.create_array(tmp_path / "o.zarr", shape=(4, 2), dtype="f8", zarr_format=2)
    metadata = json.loads((tmp_path / "o.zarr" / ".zarray").read_text())
    metadata.update(dtype="|O", filters=[{"id": "pickle"}], fill_value=None)
    (tmp_path / "o.zarr" / ".zarray").write_text(json.dumps(metadata))
    refuses(tmp_path / "o.zarr", InvalidInputError, "o.zarr")


def test_complex(refuses):
    for data in kinds_of(np.ones((30, 2)) * 1j):
        refuses(data, InvalidInputError, "Complex data not supported")


def test_sparse(refuses, X):
    blocks = da.from_array(X, chunks=(100, 3)).map_blocks(scipy.sparse.csc_matrix)
    refuses(blocks, WrongTypeError, "csc_matrix", "csr_array")
    refuses(scipy.sparse.csr_array(X + 1j), InvalidInputError, "Complex data not supported")
    refuses(scipy.sparse.coo_array(X[:, 0]), InvalidInputError, "Expected 2D array")
    refuses(scipy.sparse.csr_array((0, 3)), InvalidInputError, "0 sample")
    broken = scipy.sparse.csr_array(X)
    broken.data[broken.indptr[7] + 1] = np.nan
    refuses(broken, InvalidInputError, "row 7, column 1", "nan='drop'")


def test_masked(refuses, fit, X):
    masked = np.ma.array(X, mask=False)
    fit(masked, out=None)
    masked[5, 1] = np.ma.masked
    refuses(masked, WrongTypeError, "masked", "filled(np.nan)", "nan='drop'")


def test_other_collections(refuses, X):
    refuses(xr.Dataset({"x": 3.0}), InvalidInputError, "'x' has no dimensions", "drop_vars")
    refuses(xr.Dataset(), InvalidInputError, "no variables")
    unknown = da.from_array(X, chunks=(100, 3))
    unknown = unknown[unknown[:, 0] > 0]
    refuses(unknown, InvalidInputError, "unknown size", "compute_chunk_sizes")
    refuses(da.from_array(X).to_delayed()[0, 0], InvalidInputError, "not an array")


# --- NaN and infinity -------------------------------------------------------------------------------------------

N_LARGE = 6000  # more than the sample takes


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(1)
    truth = np.repeat(np.arange(3), N_LARGE // 3)
    return (np.array([[0, 0, 0], [8, 0, 4], [0, 8, 8]])[truth] + rng.normal(size=(N_LARGE, 3))).astype(np.float32)


def spoilt(X, value, rows):
    X = X.copy()
    for column, row in enumerate(rows):
        X[row, column % X.shape[1]] = value
    return X


@pytest.mark.parametrize("algo", [*ALGORITHMS, "literal"])
@pytest.mark.parametrize("rows", [(17,), (5999,), (4211, 4212, 5000), tuple(range(2500, 6000))], ids=lambda r: len(r))
@pytest.mark.parametrize("lazy", [False, True], ids=["numpy", "zarr"])
def test_the_first_bad_row_is_named(refuses, tmp_path, large, algo, rows, lazy):
    value = np.nan if len(rows) % 2 else np.inf
    data = spoilt(large, value, rows)
    if lazy:
        data = zarr.create_array(tmp_path / "x.zarr", data=data, chunks=(700, 3))
    form = {"algo": "okfcm", "form": "literal", "n_landmarks": None} if algo == "literal" else {"algo": algo}
    words = ("NaN or infinity", f"row {rows[0]:,}, column 0", "nan='drop'")
    refuses(data, InvalidInputError, *words, started=True, **form)


def test_large_finite_values_are_no_infinity(fit, X):
    fit(np.where(np.arange(3) == 0, X * 1e100, X), kernel="cosine")
    assert bad_rows(np.float32([[3e38, 3e38, 3e38], [1, 2, 3]])) is None  # though their sum is infinite
    assert_array_equal(bad_rows(np.float16([[6e4, 6e4, 6e4], [np.inf, -np.inf, 0], [1, 2, 3]])), [False, True, False])


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("lazy", [False, True], ids=["numpy", "zarr"])
def test_drop(fit, tmp_path, large, algo, lazy):
    rows = [0, 17, 4211, 4212, 5999]
    data = spoilt(large, np.nan, rows)
    data[17] = np.inf
    model = fit(zarr.create_array(tmp_path / "x.zarr", data=data, chunks=(700, 3)) if lazy else data, algo, nan="drop")
    labels = np.asarray(model.labels_)
    assert_array_equal(np.flatnonzero(labels == -1), rows)
    assert model.cluster_sizes_.sum() == N_LARGE - len(rows)
    assert_array_equal(np.bincount(labels[labels >= 0]), model.cluster_sizes_)
    assert_array_equal(zarr.open_group(tmp_path / "outputs" / "result.zarr", mode="r")["labels"][:], labels)
    if algo.endswith("kfcm"):
        U = np.asarray(model.membership_)
        assert np.isnan(U[rows]).all()
        assert not np.isnan(np.delete(U, rows, axis=0)).any()
    assert_array_equal(model.predict(data), labels)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_dropped_rows_do_not_matter(fit, large, algo):
    """The rows that are left find the clusters they would find alone (the random choices are others)."""
    bad = np.zeros(N_LARGE, dtype=bool)
    bad[::3] = True
    model = fit(spoilt(large, np.nan, np.flatnonzero(bad)), algo, nan="drop", out=None)
    alone = fit(large[~bad], algo, out=None)
    assert (model.labels_[bad] == -1).all()
    assert model.cluster_sizes_.sum() == len(large[~bad])
    table = np.histogram2d(model.labels_[~bad], alone.labels_, bins=3)[0]
    assert table.max(axis=1).sum() > 0.99 * len(alone.labels_)


def test_nothing_is_left(refuses, X):
    for value in (np.nan, -np.inf):
        refuses(np.full_like(X, value), InvalidInputError, "All 300 rows", "nothing is left", nan="drop", started=True)


def test_more_clusters_than_usable_rows(refuses, X):
    data = spoilt(X, np.nan, range(298))
    refuses(data, InvalidInputError, "n_clusters=3", "2 rows that can be used", nan="drop", started=True)


def test_predicting_bad_rows(fit, X, large):
    model = fit(X)
    for call in (model.predict, model.transform, model.score, model.predict):
        with pytest.raises(InvalidInputError, match="the first is in row 2,500, column 0"):
            call(spoilt(large.astype(float), np.nan, range(2500, 5000)))
    lazy = model.predict(da.from_array(spoilt(X, np.nan, [7]), chunks=(50, 3)))
    with pytest.raises(InvalidInputError, match="row 7"):
        lazy.compute()
    dropping = fit(X, nan="drop", out=None)
    assert_array_equal(dropping.predict(spoilt(X, np.nan, [7]))[[6, 7]] == -1, [False, True])


# --- chunks that cannot be read -----------------------------------------------------------------------------------

Store = namedtuple("Store", "options key")
STORES = {
    "v2": Store({"zarr_format": 2, "chunks": (50, 3)}, "3.0"),
    "v3": Store({"chunks": (50, 3)}, "c/3/0"),
    "columns": Store({"chunks": (50, 1)}, "c/3/2"),
    "sharded": Store({"chunks": (25, 3), "shards": (50, 3)}, "c/3/0"),
    "index first": Store(
        {
            "chunks": (50, 3),
            "serializer": ShardingCodec(chunk_shape=(10, 3), index_location="start"),
            "compressors": None,
        },
        "c/3/0",
    ),
    "raw": Store({"chunks": (50, 3), "compressors": None}, "c/3/0"),
}


@pytest.mark.part(3)
@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("store", STORES.values(), ids=STORES)
@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty"])
def test_a_damaged_chunk_is_named(refuses, tmp_path, X, algo, store, damage):
    zarr.create_array(tmp_path / "x.zarr", data=X, **store.options)
    chunk = tmp_path / "x.zarr" / store.key
    whole = chunk.read_bytes()
    content = {"truncated": whole[: len(whole) // 2], "garbage": b"\x07" * (len(whole) - 1), "empty": b""}[damage]
    chunk.write_bytes(content)
    words = (repr(store.key), "x.zarr", "(rows 1", "cannot be read", "restore it")
    refuses(tmp_path / "x.zarr", StorageError, *words, algo=algo, started=True)


def test_a_damaged_chunk_met_when_predicting(fit, tmp_path, X):
    model = fit(X)
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(50, 3))
    (tmp_path / "x.zarr" / "c" / "3" / "0").write_bytes(b"")
    with pytest.raises(StorageError, match="'c/3/0'"):
        model.predict(tmp_path / "x.zarr").compute()


def test_a_store_that_fails(refuses, X):
    class Failing(WrapperStore):
        async def get(self, key, *args, **kwargs):
            if key == "c/1/0":
                raise ConnectionError("the network is down")
            return await super().get(key, *args, **kwargs)

    store = MemoryStore()
    zarr.create_array(store, data=X, chunks=(100, 3))
    data = zarr.open_array(Failing(store), mode="r")
    refuses(data, StorageError, "'c/1/0'", "rows 100 to 200", "the network is down", started=True)


# --- parameters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_number_of_clusters(refuses, untouchable, algo):
    for wrong in (0, -3, 2.0, 2.5, True, None, [3], np.float64(3)):
        words = ("n_clusters", "integer of at least 1", repr(wrong))
        refuses(untouchable, InvalidInputError, *words, algo=algo, n_clusters=wrong)
    refuses(untouchable, InvalidInputError, "n_clusters=301", "n_samples=300", "smaller", algo=algo, n_clusters=301)
    refuses(untouchable, InvalidInputError, "n_clusters='aut'", "Did you mean 'auto'?", algo=algo, n_clusters="aut")


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_as_many_clusters_as_rows_and_one(fit, X, algo):
    assert fit(X[:5], algo, n_clusters=5, out=None).n_clusters_ == 5
    assert fit(X, algo, n_clusters=np.int64(1), out=None).cluster_sizes_.tolist() == [300]
    assert fit(X[:1], algo, n_clusters=1, out=None).labels_.tolist() == [0]


def test_unknown_algorithm(refuses, untouchable):
    known = ", ".join(sorted(daskkcl.algorithms()))
    refuses(untouchable, InvalidInputError, "algo='okfmc'", known, "Did you mean 'okfcm'?", algo="okfmc")
    refuses(untouchable, InvalidInputError, "Did you mean 'pakcl'?", algo="PAKCL")
    for wrong in (None, 3, ["okfcm"]):
        refuses(untouchable, InvalidInputError, "is not known", algo=wrong)


def test_unknown_kernel(refuses, untouchable):
    refuses(untouchable, InvalidInputError, "'rfb'", "Did you mean 'rbf'?", kernel="rfb")
    refuses(untouchable, InvalidInputError, "Did you mean 'laplacian'?", kernel="Laplacien")
    refuses(untouchable, InvalidInputError, "kernel must be a name", kernel=3)
    refuses(
        untouchable, InvalidInputError, "'degre'", "Did you mean 'degree'?", kernel="poly", kernel_params={"degre": 2}
    )
    refuses(untouchable, InvalidInputError, "no parameter 'degree'", kernel="rbf", degree=3)
    refuses(untouchable, InvalidInputError, "kernel_params", "dict", kernel_params=[("degree", 2)])
    refuses(untouchable, InvalidInputError, "the width goes to gamma=", kernel_params={"gamma": 2})
    refuses(untouchable, InvalidInputError, "own parameters", "gamma", kernel=daskkcl.kernels.Rbf(2.0), gamma=3.0)


def test_unknown_width(refuses, untouchable):
    refuses(untouchable, InvalidInputError, "gamma", "'scael'", "Did you mean 'scale'?", gamma="scael")
    for wrong in (0, -1.0, np.nan, np.inf, True, [1.0]):
        refuses(
            untouchable, InvalidInputError, "gamma must be a positive number", "'auto', 'scale', 'median'", gamma=wrong
        )
    refuses(untouchable, InvalidInputError, "'linear' kernel has no parameter 'gamma'", kernel="linear", gamma=1.0)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_unknown_parameters(refuses, untouchable, algo):
    refuses(
        untouchable,
        InvalidInputError,
        f"{algo} has no parameter 'n_cluster'",
        "Did you mean 'n_clusters'?",
        algo=algo,
        n_cluster=4,
    )
    refuses(untouchable, InvalidInputError, "Did you mean 'overwrite'?", algo=algo, overwirte=True)
    refuses(untouchable, InvalidInputError, "Did you mean 'memory_limit'?", algo=algo, memorylimit="1GB")
    refuses(untouchable, InvalidInputError, "Its own are", "tol", algo=algo, zzz=1)


def test_parameter_of_another_algorithm(refuses, untouchable):
    refuses(untouchable, InvalidInputError, "akkmeans has no parameter 'fuzzifier'", fuzzifier=2)
    with pytest.raises(TypeError, match="n_cluster"):
        daskkcl.PAKCL(n_cluster=3)


def test_fuzzifier(refuses, untouchable):
    for wrong in (1, 1.0, 0.5, -2, np.nan, np.inf, "two", True, None):
        refuses(
            untouchable,
            InvalidInputError,
            "fuzzifier must be a number above 1",
            repr(wrong),
            algo="okfcm",
            fuzzifier=wrong,
        )


@pytest.mark.parametrize(
    ("algo", "name", "wrong", "word"),
    [
        ("akkmeans", "max_iter", 0, "at least 1"),
        ("akkmeans", "max_iter", 2.5, "integer"),
        ("akkmeans", "n_init", 0, "at least 1"),
        ("akkmeans", "tol", -1, "at least 0"),
        ("pakcl", "subset_size", 0, "at least 1"),
        ("pakcl", "max_epochs", "all", "integer"),
        ("pakcl", "rate_start", 0, "above 0"),
        ("pakcl", "rate_end", 2, "rate_end"),
        ("pakcl", "labels", "nearst", "Did you mean 'nearest'?"),
        ("okfcm", "form", "litteral", "Did you mean 'literal'?"),
        ("okfcm", "form", "literal", "leave out map=, landmarks= and n_landmarks="),
        ("okfcm", "extend", "prototype", "Did you mean 'prototypes'?"),
        ("okfcm", "chunk_size", -1, "at least 1"),
        ("okfcm", "max_passes", 0, "at least 1"),
        ("okfcm", "tol", 0, "above 0"),
        ("okfcm", "chunk_size", 1.5, "at most 1"),
        ("okfcm", "chunk_size", "all", "'auto'"),
        ("spkfcm", "order", "arival", "Did you mean 'arrival'?"),
        ("spkfcm", "chunk_size", 0.0, "above 0"),
        ("rsekfcm", "sample_size", 0, "at least 1"),
        ("rsekfcm", "sample_size", 2, "fewer than n_clusters"),
        ("rsekfcm", "max_passes", -1, "at least 0"),
        ("rsekfcm", "init", "sample", "'d2', 'random'"),
        ("kfcm", "n_landmarks", 10, "leave out"),
        ("kfcm", "map", "identity", "leave out"),
        ("fcm", "kernel", "linear", "map='landmarks'"),
        ("akkmeans", "map", "landmark", "Did you mean 'landmarks'?"),
        ("akkmeans", "nan", "dropp", "Did you mean 'drop'?"),
        ("akkmeans", "missing", "warning", "Did you mean 'warn'?"),
        ("akkmeans", "n_landmarks", 0, "at least 1"),
        ("akkmeans", "random_state", -1, "non-negative"),
        ("akkmeans", "random_state", "seed", "random_state"),
        ("akkmeans", "progress", "yes", "True, False"),
        ("akkmeans", "dtype", "float16", "'float32' or 'float64'"),
        ("akkmeans", "dtype", "flaot32", "'float32' or 'float64'"),
        ("akkmeans", "dtype", int, "'float32' or 'float64'"),
    ],
)
def test_other_parameters(refuses, untouchable, algo, name, wrong, word):
    refuses(untouchable, InvalidInputError, name, word, algo=algo, **{name: wrong})


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_init(refuses, untouchable, algo):
    def wrong(init, *words, **parameters):
        refuses(untouchable, InvalidInputError, "init", *words, algo=algo, init=init, **parameters)

    if algo in {"spkfcm", "rsekfcm"}:
        wrong("randon", "'randon'", "Did you mean 'random'?")
    else:
        wrong("sampel", "'sampel'", "Did you mean 'sample'?")
    wrong(np.zeros((3, 2)), "(3, 2)", "3 x 3")
    wrong(np.zeros((2, 3)), "(2, 3)", "3 x 3")
    wrong(np.full((3, 3), np.nan), "NaN or infinity")
    wrong([["a"] * 3] * 3, "3 x 3 numbers")
    wrong([0, 1, 300], "row numbers outside 0 to 299")
    wrong([0, 1, -1], "row numbers outside 0 to 299")
    wrong([0.0, 1.0, 2.0], "float64", "3 row numbers")
    wrong([0, 1], "(2,)", "300 labels")
    wrong(np.arange(300), "labels outside -1 to 2")
    wrong(np.zeros((3, 3, 3)), "(3, 3, 3)")
    wrong([0, 1, 2], "needs n_clusters as a number", n_clusters="auto")


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_init_that_only_the_data_can_refute(refuses, X, algo):
    refuses(X, InvalidInputError, "no row the label 2", algo=algo, init=np.arange(300) % 2, started=True)
    bad = spoilt(X, np.nan, [7])
    refuses(bad, InvalidInputError, "init names row 7", "NaN", algo=algo, init=[7, 8, 9], nan="drop", started=True)


def test_landmarks(refuses, untouchable):
    def wrong(landmarks, *words, n_landmarks=None):
        refuses(untouchable, InvalidInputError, "landmarks", *words, landmarks=landmarks, n_landmarks=n_landmarks)

    wrong("unifrom", "Did you mean 'uniform'?")
    wrong(np.zeros((5, 2)), "(5, 2)", "3 features")
    wrong(np.zeros(5), "(5,)", "3 features")
    wrong(np.zeros((0, 3)), "(0, 3)", "3 features")
    wrong([["a"] * 3], "3 features")
    wrong([[1.0, 2.0, np.nan]], "NaN or infinity")
    wrong(np.eye(3), "n_landmarks=20", "3 rows", n_landmarks=20)


@pytest.mark.parametrize("gamma", [1e9, 1e-12])
@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_degenerate_kernels_name_a_width_to_try(refuses, X, gamma, algo, kernel):
    message = refuses(
        X, DegenerateKernelError, f"gamma={gamma:g}", "try gamma=", algo=algo, kernel=kernel, gamma=gamma, started=True
    )
    width = float(message.split("which is ")[1].split()[0])
    assert daskkcl.fit(X, algo, n_clusters=3, kernel=kernel, gamma=width, random_state=0).n_clusters_ == 3


# --- memory -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("limit", ["1MiB", 1, "64MB", 1000.0])
def test_a_limit_below_the_process(refuses, untouchable, algo, limit):
    message = refuses(untouchable, MemoryLimitError, "memory_limit", "process", "MiB", algo=algo, memory_limit=limit)
    assert "Pass memory_limit=" in message


@pytest.mark.parametrize("algo", [*ALGORITHMS, "literal"])
def test_a_limit_below_the_floor(fit, algo, tmp_path):
    from daskkcl.system import parse_bytes, settled_bytes

    store = MemoryStore()
    zarr.create_array(store, shape=(50_000, 200), chunks=(1000, 200), dtype="f4")
    data = zarr.open_array(Untouchable(store), mode="r")
    form = {"algo": "okfcm", "form": "literal", "n_landmarks": None} if algo == "literal" else {"algo": algo}
    limit = settled_bytes() + 2**20
    with pytest.raises(MemoryLimitError) as caught:
        fit(data, **{"n_landmarks": 4000, "memory_limit": limit, **form})
    error = caught.value
    assert error.needed_bytes > error.allowed_bytes == limit
    for word in ("needs at least", "memory_limit allows", "Raise memory_limit to", "or use fewer landmarks"):
        assert word in str(error)
    named = str(error).split("Raise memory_limit to ")[1].split(" or more")[0]
    assert parse_bytes(named) >= error.needed_bytes
    assert os.listdir(tmp_path / "outputs") == os.listdir(tmp_path / "scratch") == []


def test_chunks_that_do_not_fit(fit):
    from daskkcl.system import settled_bytes

    store = MemoryStore()
    zarr.create_array(store, shape=(2_000_000, 100), chunks=(2_000_000, 100), dtype="f4")
    data = zarr.open_array(Untouchable(store), mode="r")
    with pytest.raises(MemoryLimitError, match="store the data in smaller chunks"):
        fit(data, memory_limit=settled_bytes() + 2**28)


@pytest.mark.parametrize(
    "limit", ["", "lots", "2 parsecs", "-1GB", "0", "0MiB", "1.2.3GB", "GB", 0, -5, np.nan, np.inf, True, [1], "1e9"]
)
def test_nonsense_memory_limits(refuses, untouchable, limit):
    refuses(untouchable, InvalidInputError, "is not a memory size", "'512MiB'", memory_limit=limit)


@pytest.mark.parametrize("limit", ["64GiB", "64 gb", 64 * 10**9, np.int64(64 * 10**9), 6.4e10])
def test_sensible_memory_limits(fit, X, limit):
    assert fit(X, memory_limit=limit, out=None).plan_.limit_bytes in (64 * 10**9, 64 * 2**30)


# --- where things are written ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_no_room_for_scratch(refuses, untouchable, algo, monkeypatch, tmp_path):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**6, 10**6 - 100, 100))
    words = ("Scratch needs", "100 B free", "scratch=", "larger disk")
    refuses(untouchable, StorageError, *words, algo=algo)
    refuses(untouchable, StorageError, *words, algo=algo, scratch=tmp_path / "new" / "folder")
    assert not (tmp_path / "new").exists()


def test_unwritable_scratch(refuses, untouchable, tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        refuses(untouchable, StorageError, "scratch", str(folder), "that can be written to", scratch=folder)


def test_scratch_may_be_a_new_folder(fit, X, tmp_path):
    model = fit(da.from_array(X, chunks=(100, 3)), scratch=tmp_path / "new" / "folder")
    assert len(os.listdir(tmp_path / "new" / "folder")) == 1
    model.labels_.compute()
    del model
    assert os.listdir(tmp_path / "new" / "folder") == []


def test_unwritable_out(refuses, untouchable, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "result.zarr", tmp_path / "none" / "result.zarr", "/proc/result.zarr"):
        refuses(untouchable, OutputError, str(out), "cannot be written", out=out)
    refuses(untouchable, OutputError, "cannot be written", out="unheardof://bucket/result.zarr")
    refuses(untouchable, InvalidInputError, "7 is not a path or URL", out=7)


def test_existing_out(refuses, untouchable, tmp_path):
    for name in ("folder", "other.zarr"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").write_text("")
    zarr.create_array(tmp_path / "data.zarr", data=np.eye(3))
    (tmp_path / "file").write_text("")
    for name in ("folder", "data.zarr", "file"):
        refuses(untouchable, OutputError, name, "exists", "overwrite=True", "another path", out=tmp_path / name)
        refuses(untouchable, OutputError, name, "not written by daskkcl", out=tmp_path / name, overwrite=True)
    assert (tmp_path / "folder" / "precious").exists()
    assert_array_equal(zarr.open_array(tmp_path / "data.zarr", mode="r")[:], np.eye(3))


def test_the_data_are_never_overwritten(refuses, tmp_path, X):
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=X)
    refuses(path, OutputError, "holds the rows that are read", out=path, overwrite=True)
    opened = zarr.open_array(path, mode="r")
    refuses(opened, OutputError, "holds the rows that are read", out=path, overwrite=True)
    refuses(opened, OutputError, "holds the rows that are read", out=tmp_path, overwrite=True)
    refuses(path, InvalidInputError, "out and checkpoint are both", out=tmp_path / "o", checkpoint=tmp_path / "o")
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("x", data=X)
    refuses(
        tmp_path / "g.zarr",
        OutputError,
        "holds the rows that are read",
        component="x",
        out=tmp_path / "g.zarr",
        overwrite=True,
    )
    assert_array_equal(zarr.open_array(path, mode="r")[:], X)
    assert_array_equal(group["x"][:], X)


def test_unusable_checkpoint(refuses, untouchable, tmp_path, X):
    zarr.create_array(tmp_path / "x.zarr", data=X)
    zarr.open_group(tmp_path / "g.zarr", mode="w").create_array("x", data=X)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "precious").write_text("")
    (tmp_path / "file").write_text("")
    for name in ("x.zarr", "g.zarr", "folder", "file"):
        refuses(untouchable, CheckpointError, name, "no checkpoint", "another path", checkpoint=tmp_path / name)
    refuses(untouchable, InvalidInputError, "checkpoint=7", checkpoint=7)
    words = ("cannot be written", "below")
    refuses(X, CheckpointError, *words, checkpoint=tmp_path / "file" / "below", started=True)


def test_errors_are_also_the_builtin_ones():
    for ours, theirs in {
        InvalidInputError: ValueError,
        WrongTypeError: TypeError,
        MemoryLimitError: MemoryError,
        StorageError: OSError,
        OutputError: StorageError,
        CheckpointError: ValueError,
    }.items():
        assert issubclass(ours, theirs)
        assert issubclass(ours, DaskkclError)


def test_local_store_objects(refuses, tmp_path):
    refuses(LocalStore(tmp_path / "nothing"), InvalidInputError, "LocalStore", "cannot be opened as Zarr")


@pytest.mark.parametrize(
    "parameters",
    [{"kernel": "poly"}, {"gamma": 1.0}, {"degree": 2}, {"landmarks": "kmeans"}, {"n_landmarks": 20}],
    ids=lambda parameters: next(iter(parameters)),
)
def test_input_space_takes_no_kernel_and_no_landmarks(untouchable, parameters):
    with pytest.raises(InvalidInputError, match=r"map='identity' .* leave out"):
        daskkcl.fit(untouchable, n_clusters=3, map="identity", **parameters)
    with pytest.raises(InvalidInputError, match="leave out landmarks="):
        daskkcl.PAKCL(3, map="identity", landmarks=np.eye(3)).fit(untouchable)


def test_no_client_and_a_rate_out_of_bounds(untouchable):
    with pytest.raises(InvalidInputError, match=r"client=3 is not a distributed\.Client"):
        daskkcl.fit(untouchable, n_clusters=3, client=3)
    with pytest.raises(InvalidInputError, match=r"rate_end must be a number above 0 and at most 0\.5"):
        daskkcl.fit(untouchable, "pakcl", n_clusters=3, rate_start=0.5, rate_end=0.7)


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize(
    ("value", "parameters"),
    [
        (1e200, {"gamma": 0.1, "n_landmarks": 20}),
        (1e200, {"map": "identity"}),
        (1e25, {"kernel": "linear", "n_landmarks": 20}),
    ],
    ids=["rbf", "identity", "linear"],
)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_values_out_of_the_range_of_blocks(large, algo, value, parameters):
    data = large.astype(np.float64)
    data[Key(0).child("order", 0).rows(len(data), 5000, 5001)] = value  # a row that is not in the sample
    with pytest.raises(InvalidInputError, match=r"too large for blocks in float32.*dtype='float64'"):
        daskkcl.fit(data, algo, 3, dtype="float32", random_state=0, progress=False, **parameters)


def test_rare_usable_rows_are_found_without_holding_the_others(tmp_path, monkeypatch):
    """The sample is the first usable rows of the random order, however few of all rows are usable."""
    rng = np.random.default_rng(0)
    data = np.full((60_000, 3), np.nan, dtype=np.float32)
    rows = np.sort(rng.choice(len(data), 300, replace=False))
    data[rows] = rng.normal(size=(300, 3))
    held = []
    take = daskkcl.schedules.data.take_rows
    monkeypatch.setattr("daskkcl.schedules.data.take_rows", lambda *args: held.append(len(args[1])) or take(*args))
    array = zarr.create_array(tmp_path / "x.zarr", data=data, chunks=(5000, 3))
    model, twin = (
        daskkcl.fit(x, "akkmeans", 3, nan="drop", n_landmarks=20, random_state=0, progress=False) for x in (array, data)
    )
    labels = np.asarray(model.labels_)
    assert_array_equal(np.flatnonzero(labels >= 0), rows)
    assert_array_equal(labels, twin.labels_)
    assert sum(held) <= 2300  # a first draw of 2,000 rows, and the usable ones


# --- what is no table of numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column, kind",
    [
        (["a", "b"] * 20, ""),
        (pd.date_range("2020-01-01", periods=40), "datetime64"),
        (pd.Categorical(["low", "high"] * 20), "category"),
    ],
)
def test_a_column_without_numbers_is_named(refuses, column, kind):
    frame = pd.DataFrame({"length": np.arange(40.0), "what": column})
    refuses(frame, InvalidInputError, "column 'what'", kind, "not a table of numbers")


def test_columns_of_numbers_in_any_dress(fit):
    frame = pd.DataFrame({"a": np.arange(40.0), "b": pd.array([1, 2] * 20, dtype="Int64"), "c": [True, False] * 20})
    frame["d"] = pd.Series([1, 2.5] * 20, dtype=object)
    assert fit(frame, "akkmeans").cluster_sizes_.sum() == 40


@pytest.mark.parametrize("data, what", [(None, "None"), ({"a": 1}, "a dict"), (np.ndarray, "a type")])
def test_what_is_no_data_at_all(refuses, data, what):
    refuses(data, InvalidInputError, f"X is {what}", "path or URL")


def test_an_algorithm_is_named_not_passed(refuses, X):
    refuses(X, InvalidInputError, "Did you mean 'pakcl'?", algo=daskkcl.PAKCL)
    assert "Did you mean" not in str(refuses(X, InvalidInputError, "algo=None", algo=None))
