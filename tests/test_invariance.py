"""The same data give the same numbers, bit for bit, whatever carries them: chunks, stores, threads, memory, workers."""

import itertools
import pickle
from dataclasses import replace

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import daskkcl
from daskkcl import PAKCL, ApproxKernelKMeans, MemoryLimitError, OnlineKFCM
from daskkcl.blocks.opening import open_source
from daskkcl.blocks.scratch import Scratch
from daskkcl.blocks.shuffle import Shuffled, write_run
from daskkcl.estimators.base import KernelClusterer
from daskkcl.planning import block_edges
from daskkcl.random import Key
from daskkcl.schedules.subsets import measured_together
from tests.conftest import SMALL_TILE

pytestmark = [
    pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning"),
    pytest.mark.usefixtures("small_tiles"),
]

N, D, C, LANDMARKS = 2600, 6, 5, 40
COMMON = {"n_clusters": C, "n_landmarks": LANDMARKS, "random_state": 4, "progress": False}
LITERAL = {"form": "literal", "n_landmarks": None, "chunk_size": 300, "fuzzifier": 1.3}
MODELS = {
    "akkmeans": lambda **kw: ApproxKernelKMeans(**{**COMMON, **kw}),
    "pakcl": lambda **kw: PAKCL(**{**COMMON, "subset_size": 150, "max_epochs": 2, "tol": 0.0, **kw}),
    "pakcl, few rows": lambda **kw: PAKCL(**{**COMMON, "subset_size": 40, "max_epochs": 9, "tol": 0.0, **kw}),
    "okfcm": lambda **kw: OnlineKFCM(**{**COMMON, "chunk_size": 200, "fuzzifier": 1.3, **kw}),
    "okfcm passes": lambda **kw: OnlineKFCM(**{**COMMON, "chunk_size": 200, "fuzzifier": 1.3, "max_passes": 4, **kw}),
    "literal": lambda **kw: OnlineKFCM(**{**COMMON, **LITERAL, **kw}),
}
ALGORITHMS = [
    "akkmeans",
    "pakcl",
    "pakcl, few rows",
    "okfcm",
    "literal",
]  # exact passes are those of akkmeans with another rule
TILE = SMALL_TILE


def make_rows():
    """Blobs that overlap, sorted by blob as data on disk often are; many rows stand between two clusters."""
    rng = np.random.default_rng(2)
    blob = np.sort(rng.choice(C, N, p=[0.35, 0.25, 0.2, 0.15, 0.05]))
    return (3 + rng.normal(scale=1.5, size=(C, D))[blob] + rng.normal(size=(N, D))).astype(np.float32)


def in_zarr(X, chunks, **options):
    array = zarr.create_array({}, shape=X.shape, dtype=X.dtype, chunks=chunks, **options)
    array[...] = X
    return array


def ragged(n):
    """Row chunks of every size, some empty, at the beginning and the end too."""
    sizes, step = [0], 1
    while sum(sizes) < n:
        sizes += [min(step, n - sum(sizes)), *([0] if step % 3 == 0 else [])]
        step = step * 5 % 1021
    return (*sizes, 0)


def in_dask(X, row_chunks, column_chunks):
    """A dask array with exactly these chunks, empty ones included."""
    edges = [np.concatenate([[0], np.cumsum(sizes)]) for sizes in (row_chunks, column_chunks)]
    graph = {
        ("x", i, j): X[edges[0][i] : edges[0][i + 1], edges[1][j] : edges[1][j + 1]]
        for i, j in itertools.product(range(len(row_chunks)), range(len(column_chunks)))
    }
    return da.Array(graph, "x", (tuple(row_chunks), tuple(column_chunks)), dtype=X.dtype)


def strided(X):
    wide = np.zeros((len(X), 2 * X.shape[1] + 1), X.dtype)
    wide[:, 1::2] = X
    return wide[:, 1::2]


SOURCES = {
    "numpy": lambda X: X,
    "numpy, column by column": np.asfortranarray,
    "numpy, strided": strided,
    "numpy, other byte order": lambda X: X.astype(X.dtype.newbyteorder()),
    "zarr, one huge chunk": lambda X: in_zarr(X, X.shape),
    "zarr, chunks beyond the end": lambda X: in_zarr(X, (3 * len(X), 2 * X.shape[1])),
    "zarr, column chunks": lambda X: in_zarr(X, (500, 1)),
    "zarr, chunks of one row": lambda X: in_zarr(X, (1, X.shape[1])),
    "zarr, coprime chunks": lambda X: in_zarr(X, (777, 4)),
    "zarr, chunks of a tile": lambda X: in_zarr(X, (TILE, X.shape[1])),
    "zarr, sharded": lambda X: in_zarr(X, (175, 2), shards=(1400, 6)),
    "zarr format 2": lambda X: in_zarr(X, (301, 6), zarr_format=2),
    "zarr format 2, F order": lambda X: in_zarr(X, (999, 5), zarr_format=2, order="F"),
    "dask, ragged": lambda X: in_dask(X, ragged(len(X)), (X.shape[1],)),
    "dask, ragged columns too": lambda X: in_dask(X, (len(X) - 1, 0, 1), (1, 0, X.shape[1] - 1)),
    "dask, one chunk": lambda X: da.from_array(X, chunks=-1),
    "dask, computed": lambda X: (da.from_array(2 * X, chunks=(333, 4)).astype(np.float64) / 2).astype(X.dtype),
    "xarray": lambda X: xr.DataArray(X, dims=("time", "band")),
    "xarray over dask": lambda X: xr.DataArray(da.from_array(X, chunks=(1023, 3)), dims=("time", "band")),
}


def answers(model, X):
    """Everything a fitted model says about its rows, as numpy."""
    found = {
        "labels": np.asarray(model.labels_),
        "predicted": np.asarray(model.predict(X)),
        "distances": np.asarray(model.transform(X)),
        "sizes": model.cluster_sizes_,
        "history": np.array(model.history_),
        "objective": np.array(model.objective_),
    }
    if hasattr(model, "membership_"):
        found["memberships"] = np.asarray(model.membership_)
    if hasattr(model, "win_counts_"):
        found["wins"] = model.win_counts_
    return found


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert_array_equal(found[name], expected[name], err_msg=name, strict=True)
    assert_array_equal(found["predicted"], found["labels"])


@pytest.fixture(scope="module")
def X():
    return make_rows()


@pytest.fixture(scope="module")
def expected(X):
    """What every algorithm says of the rows in memory, on one thread."""
    with dask.config.set(num_workers=1):
        return {name: answers(model().fit(X), X) for name, model in MODELS.items()}


def test_the_data_put_invariance_to_the_test(X, expected):
    """Several tiles, and rows so close to two centres that a changed bit could move them."""
    assert N > 2 * TILE
    for found in expected.values():
        nearest = np.sort(found["distances"], axis=1)[:, :2]
        assert (nearest[:, 1] / nearest[:, 0] - 1).min() < 1e-3
        assert (found["sizes"] > 0).all()


# --- stores, chunks and threads ---------------------------------------------------------------------------------


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "name, source",
    [
        (name, source)
        for name in ALGORITHMS
        for source in SOURCES
        if source != "zarr, chunks of one row" or name == "okfcm"  # slow, and read in one way by all
    ],
)
def test_any_source_gives_the_same(X, expected, name, source):
    data = SOURCES[source](X)
    with dask.config.set(num_workers=2):
        assert_same(answers(MODELS[name]().fit(data), data), expected[name])


@pytest.mark.part(2)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("source", ["numpy", "zarr, coprime chunks", "dask, ragged"])
@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_threads_gives_the_same(X, expected, name, source, threads):
    data = SOURCES[source](X)
    with dask.config.set(num_workers=threads):
        assert_same(answers(MODELS[name]().fit(data), data), expected[name])


@pytest.mark.part(2)
@pytest.mark.parametrize("kernel", ["polynomial", "linear", "laplacian"])
@pytest.mark.parametrize("source", ["numpy, strided", "zarr, column chunks", "dask, ragged"])
def test_other_kernels_and_precisions(X, kernel, source):
    data = SOURCES[source](X)
    for parameters in ({"kernel": kernel}, {"kernel": kernel, "dtype": "float64"}):
        assert_same(
            answers(MODELS["okfcm"](**parameters).fit(data), data),
            answers(MODELS["okfcm"](**parameters).fit(X), X),
        )


INPUT_SPACE = {"map": "identity", "n_landmarks": None}


@pytest.mark.parametrize("parameters", [INPUT_SPACE, {"landmarks": "kmeans"}, {"landmarks": "leverage"}])
def test_other_maps_and_landmarks(X, parameters):
    data = SOURCES["zarr, coprime chunks"](X)
    model = MODELS["akkmeans"]
    assert_same(answers(model(**parameters).fit(data), data), answers(model(**parameters).fit(X), X))


@pytest.mark.part(2)
@pytest.mark.parametrize("init", ["d2", "random", "rows", "labels", "centres"])
@pytest.mark.parametrize("name", ["akkmeans", "pakcl", "okfcm"])
def test_any_start_gives_the_same(X, name, init):
    init = {
        "rows": np.arange(C) * 500,
        "labels": np.arange(N) % C,
        "centres": X[:C] + np.float32(0.5),
    }.get(init, init)
    data = SOURCES["zarr, coprime chunks"](X)
    model = MODELS[name]
    assert_same(answers(model(init=init).fit(data), data), answers(model(init=init).fit(X), X))


@pytest.mark.part(2)
@pytest.mark.parametrize("dtype", ["float16", "float64", "int16", "uint8", "bool"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_any_dtype_gives_the_same(X, name, dtype):
    rows = (X > 3 if dtype == "bool" else np.clip(10 * X, 0, 200)).astype(dtype)
    data = SOURCES["zarr, coprime chunks"](rows)
    assert_same(answers(MODELS[name]().fit(data), data), answers(MODELS[name]().fit(rows), rows))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_another_seed_gives_something_else(X, expected, name):
    """The comparisons above are not empty."""
    with pytest.raises(AssertionError):
        assert_same(answers(MODELS[name](random_state=5).fit(X), X), expected[name])


# --- memory -----------------------------------------------------------------------------------------------------


# Plans cut blocks of whole products, which some BLAS round otherwise when they have other rows.
QUANTA = {
    "subsets": {"pakcl": measured_together(150, TILE), "literal": 300},
    "chunks": {"okfcm": 200, "okfcm passes": 200},
}


def force_plan(monkeypatch, name, keep, blocks, tile=TILE):
    """Let runs keep what the test says between passes, and cut blocks of so many tiles, subsets or chunks."""
    original = KernelClusterer._plan

    def plan(self, *args):
        found = original(self, *args)
        layouts = tuple(
            replace(layout, block_rows=blocks * QUANTA.get(layout.name, {}).get(name, tile)) for layout in found.layouts
        )
        return replace(found, keep=keep, layouts=layouts)

    monkeypatch.setattr(KernelClusterer, "_plan", plan)


@pytest.mark.part(2)
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("source", ["zarr, coprime chunks", "dask, ragged"])
@pytest.mark.parametrize(
    "name, keep",
    [
        *(("akkmeans", keep) for keep in ("measurements", "rows", "measurements in scratch", "nothing")),
        *((name, keep) for name in ("pakcl", "okfcm", "okfcm passes", "literal") for keep in ("rows", "nothing")),
    ],
)
def test_whatever_is_kept_in_memory_gives_the_same(monkeypatch, X, expected, name, keep, source, blocks):
    force_plan(monkeypatch, name, keep, blocks)
    data = SOURCES[source](X)
    model = MODELS[name]().fit(data)
    assert model.plan_.keep == keep
    assert_same(answers(model, data), expected[name])


@pytest.mark.parametrize("name", ["akkmeans", "okfcm passes"])
def test_sums_over_many_tiles_in_blocks_of_any_size(monkeypatch, X, name):
    """Forty tiles of float64, where every regrouping of a plain sum would show in the last bit."""
    monkeypatch.setattr("daskkcl.planning._MAX_TILE", 64)
    model = MODELS[name](dtype="float64", init=np.arange(N) % C)
    found = []
    for blocks in (1, 3, 7, 50):
        with monkeypatch.context() as patch:
            force_plan(patch, name, "nothing", blocks, tile=64)
            found.append(answers(model.fit(X), X))
    for other in found[1:]:
        assert_same(other, found[0])


@pytest.mark.parametrize("keep", ["measurements", "measurements in scratch", "nothing"])
def test_rows_in_memory_whatever_is_kept(monkeypatch, X, expected, keep):
    force_plan(monkeypatch, "akkmeans", keep, 2)
    assert_same(answers(MODELS["akkmeans"]().fit(X), X), expected["akkmeans"])


@pytest.mark.parametrize("bucket_bytes", [1, 45_000, 2**20])
@pytest.mark.parametrize("name", ["pakcl", "literal"])
def test_the_external_shuffle_is_the_one_in_memory(monkeypatch, X, expected, name, bucket_bytes):
    """Rows that are not kept are shuffled through scratch files: one block in a bucket, several, or all."""
    force_plan(monkeypatch, name, "nothing", 1)
    monkeypatch.setattr("daskkcl.schedules.shuffling.bucket_bytes", lambda *_: bucket_bytes)
    buckets = []
    original = Shuffled.bucket
    monkeypatch.setattr(Shuffled, "bucket", lambda self, i: buckets.append(i) or original(self, i))
    data = SOURCES["zarr, column chunks"](X)
    model = MODELS[name]().fit(data)
    assert_same(answers(model, data), expected[name])
    n_blocks = -(-N // QUANTA["subsets"][name])
    least, most = {1: (n_blocks, n_blocks), 45_000: (2, n_blocks - 1), 2**20: (1, 1)}[bucket_bytes]
    assert least <= len(set(buckets)) <= most


@pytest.mark.parametrize("run_rows", [1, 64, 100, 1000])
@pytest.mark.parametrize("bucket_rows", [37, 256, 1000])
def test_a_shuffle_is_its_key(run_rows, bucket_rows):
    """Whatever the runs and buckets, the buckets one behind the other are the rows in the key's order."""
    n = 257
    rows = np.arange(3 * n, dtype=np.int16).reshape(n, 3)
    key, edges = Key(9).child("order", 1), block_edges(n, run_rows)
    shuffled = Shuffled(key, n, 3, rows.dtype, bucket_rows, tuple(edges), Scratch())
    for run, (a, b) in enumerate(itertools.pairwise(edges)):
        assert write_run(rows[a:b], run, shuffled) == b - a
    out = np.concatenate([shuffled.bucket(i) for i in range(shuffled.n_buckets)])
    assert_array_equal(out, rows[key.rows(n, 0, n)])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_least_memory_gives_the_same(X, expected, name):
    """The smallest limit that is not refused."""
    data, limit = SOURCES["zarr, chunks of a tile"](X), 2**20
    for _ in range(20):
        try:
            model = MODELS[name](memory_limit=limit).fit(data)
            break
        except MemoryLimitError as error:
            limit = int(1.001 * error.needed_bytes)
    assert model.plan_.peak_bytes <= limit
    assert_same(answers(model, data), expected[name])


# --- dropped rows -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spoilt(X):
    """A few bad rows here and there, and a whole stretch of them: more than a chunk of any algorithm."""
    rng = np.random.default_rng(0)
    rows = X.copy()
    bad = np.concatenate([rng.choice(N, 40, replace=False), np.arange(1100, 1500), [0, N - 1]])
    rows[bad, rng.integers(0, D, len(bad))] = rng.choice([np.nan, np.inf, -np.inf], len(bad))
    return rows


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_dropped_rows_are_the_same_everywhere(monkeypatch, spoilt, name):
    bad = ~np.isfinite(spoilt).all(axis=1)
    expected = answers(MODELS[name](nan="drop").fit(spoilt), spoilt)
    assert_array_equal(expected["labels"] == -1, bad)
    assert expected["sizes"].sum() == N - bad.sum()
    assert np.isnan(expected["distances"][bad]).all()
    assert np.isfinite(expected["distances"][~bad]).all()
    if "memberships" in expected:
        assert np.isnan(expected["memberships"][bad]).all()
        assert_allclose(expected["memberships"][~bad].sum(axis=1), 1, rtol=1e-5)
    for source in ("numpy, column by column", "zarr, coprime chunks", "zarr, sharded", "dask, ragged"):
        data = SOURCES[source](spoilt)
        assert_same(answers(MODELS[name](nan="drop").fit(data), data), expected)
    force_plan(monkeypatch, name, "nothing", 1)
    data = SOURCES["zarr, coprime chunks"](spoilt)
    assert_same(answers(MODELS[name](nan="drop").fit(data), data), expected)


@pytest.mark.parametrize("source", ["numpy", "zarr, coprime chunks", "dask, ragged"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_first_bad_row_is_named_everywhere(X, name, source):
    """Whichever bad row a schedule meets first, the error names the first of the data."""
    rows = X.copy()
    rows[2500, 1] = rows[1700, 4] = np.nan
    data = SOURCES[source](rows)
    with pytest.raises(ValueError, match=r"row 1,700, column 4"):
        MODELS[name]().fit(data)


# --- workers --------------------------------------------------------------------------------------------------------


def test_a_cluster_gives_the_same(X, expected, tmp_path):
    from distributed import Client, LocalCluster

    data = SOURCES["dask, computed"](X)
    with (
        LocalCluster(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        for name, model in MODELS.items():
            fitted = model(scratch=str(tmp_path)).fit(data, client=client)
            assert_same(answers(fitted, data), expected[name])
        # without a scratch folder that all workers share, labels are computed again when they are asked for
        fitted = MODELS["akkmeans"]().fit(X)
        assert_same(answers(fitted, X), expected["akkmeans"])


# --- laziness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["zarr, coprime chunks", "dask, ragged", "xarray over dask"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_answers_about_lazy_data_compute_nothing(monkeypatch, X, expected, name, source):
    data = SOURCES[source](X)
    model = MODELS[name]().fit(data)

    def refuse(*args, **kwargs):
        raise AssertionError("something was computed")

    with monkeypatch.context() as patch, dask.config.set(scheduler=refuse):
        patch.setattr("dask.threaded.get", refuse)
        patch.setattr(zarr.Array, "__getitem__", refuse)
        lazy = {"labels": model.labels_, "predicted": model.predict(data), "distances": model.transform(data)}
        if hasattr(model, "membership_"):
            lazy["memberships"] = model.membership_
            lazy["probabilities"] = model.predict_proba(data)
        for array in lazy.values():
            assert isinstance(getattr(array, "variable", array).data if hasattr(array, "dims") else array, da.Array)
            assert array.shape[0] == N
        with pytest.raises(AssertionError, match="something was computed"):
            lazy["labels"].compute()
    for what, array in {**lazy, "memberships": lazy.get("probabilities")}.items():
        if what in expected[name]:
            assert_array_equal(array.compute(), expected[name][what], strict=True)


@pytest.mark.parametrize("rows", [1, 100, 777, N])
def test_lazy_answers_end_their_chunks_where_the_data_do(X, rows):
    data = in_zarr(X, (rows, D))
    model = MODELS["okfcm"]().fit(data)
    for array in (model.labels_, model.membership_, model.predict(data), model.transform(data)):
        assert set(np.cumsum(array.chunks[0])) <= set(np.cumsum(da.from_zarr(data).chunks[0]))


# --- small and strange tables ---------------------------------------------------------------------------------------


SMALL = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "uint64", "bool"]


@st.composite
def tables(draw):
    """Tables with few distinct rows or many, some columns constant."""
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    rows = rng.integers(0, draw(st.sampled_from([1, 2, 4, 100])), (n, d))
    if dtype.kind == "f":
        rows = rows + draw(st.sampled_from([0.0, 0.37])) * rng.normal(size=(n, d))
    rows[:, : draw(st.integers(0, d))] = draw(st.integers(0, 3))
    return rows.astype(dtype)


@st.composite
def models(draw, n):
    """An estimator with random settings that fits tables of n rows."""
    c = draw(st.sampled_from(sorted({1, min(2, n), min(5, n), n})))
    name = draw(st.sampled_from(sorted(MODELS)))
    n_landmarks = draw(st.sampled_from([1, 3, 20]))
    parameters = {"n_clusters": c, "n_landmarks": None if name == "literal" else n_landmarks}
    if name != "literal" and draw(st.booleans()):
        parameters |= INPUT_SPACE
    else:
        parameters["kernel"] = draw(st.sampled_from(["rbf", "polynomial", "laplacian"]))
    if name.startswith("pakcl"):
        parameters["labels"] = draw(st.sampled_from(["frequency", "nearest"]))
        parameters["subset_size"] = draw(st.sampled_from([1, 7, "auto"]))
    elif name != "akkmeans":
        parameters["chunk_size"] = draw(st.sampled_from([1, 3, 16, "auto"]))
        parameters["fuzzifier"] = draw(st.sampled_from([1.3, "auto"]))
    return MODELS[name](**parameters)


def assert_canonical(labels, sizes):
    """The largest cluster is the first, ties by first row, empty ones last."""
    assert_array_equal(np.bincount(labels[labels >= 0], minlength=len(sizes)), sizes)
    assert (np.diff(sizes) <= 0).all()
    first = [int(np.flatnonzero(labels == k)[0]) for k in range(len(sizes)) if sizes[k]]
    for k in range(1, len(first)):
        assert sizes[k] < sizes[k - 1] or first[k] > first[k - 1]


def assert_sound(model, X):
    labels = np.asarray(model.labels_)
    assert labels.shape == (len(X),)
    assert labels.dtype == np.int32
    assert_array_equal(np.asarray(model.predict(X)), labels)
    assert_canonical(labels, model.cluster_sizes_)
    assert model.cluster_sizes_.sum() == len(X)
    distances = np.asarray(model.transform(X))
    assert distances.shape == (len(X), model.n_clusters_)
    assert (distances >= 0).all()
    assert np.isfinite(model.objective_)
    if hasattr(model, "membership_"):
        U = np.asarray(model.membership_)
        assert_allclose(U.sum(axis=1), 1, rtol=1e-5)
        assert ((U >= 0) & (U <= 1)).all()
        assert (U[np.arange(len(X)), labels] >= U.max(axis=1) * (1 - 1e-5)).all()


@pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning")
@SMALL
@given(data=st.data())
def test_small_tables(data):
    X = data.draw(tables())
    model = data.draw(models(len(X)))
    assert_sound(model.fit(X), X)


@pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning")
@SMALL
@given(data=st.data())
def test_small_tables_in_any_chunks(data):
    X = data.draw(tables())
    model = data.draw(models(len(X)))
    expected = answers(model.fit(X), X)
    n, d = X.shape
    chunks = (data.draw(st.integers(1, n)), data.draw(st.integers(1, d)))
    if data.draw(st.booleans()):
        stored = in_zarr(X, chunks, zarr_format=data.draw(st.sampled_from([2, 3])), fill_value=X.dtype.type(0))
        model = model.set_params(missing="fill")  # chunks of zeros may be left out
    else:
        cuts = [data.draw(st.lists(st.integers(0, size), max_size=5)) for size in (n, d)]
        sizes = [np.diff([0, *sorted(some), size]).tolist() for some, size in zip(cuts, (n, d), strict=True)]
        stored = in_dask(X, *sizes)
    assert_same(answers(model.fit(stored), stored), expected)


@pytest.mark.part(2)
@pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "rows, c",
    [
        (np.zeros((1, 1)), 1),
        (np.full((7, 3), 5.0), 1),
        (np.full((7, 3), 5.0), 3),
        (np.arange(12.0).reshape(6, 2), 6),
        (np.repeat([[0.0, 1.0], [4.0, 1.0]], [5, 8], axis=0), 2),
        (np.repeat([[0.0, 1.0], [4.0, 1.0]], [5, 8], axis=0), 4),
        (np.c_[np.zeros(30), np.arange(30.0) % 3], 3),
        (1e6 + np.c_[np.zeros(30), np.arange(30.0) % 3], 3),
    ],
    ids=["n=1", "constant, c=1", "constant, c=3", "c=n", "duplicates", "more than distinct", "ties", "far from zero"],
)
def test_strange_tables(name, rows, c):
    model = MODELS[name](n_clusters=c)
    if isinstance(model, OnlineKFCM):
        model.set_params(chunk_size=5)
    assert_sound(model.fit(rows), rows)
    distinct = len(np.unique(rows, axis=0))
    if c <= distinct and name == "akkmeans":
        assert (model.cluster_sizes_ > 0).all()
    stored = in_zarr(rows, (2, 1))
    model.set_params(missing="fill")
    assert_same(answers(model.fit(stored), stored), answers(model.fit(rows), rows))


def test_ties_go_to_the_same_cluster_whatever_it_is_called(tmp_path):
    """Row 1 is as near to both centres: the first centre takes it, though the larger cluster is then numbered 0."""
    rows = np.array([[-1.0], [1.0], [1.5], [2.5], [2.0], [2.0], [2.0], [2.0]])
    model = ApproxKernelKMeans(2, map="identity", init=np.array([[0.0], [2.0]])).fit(rows)
    distances = model.transform(rows)
    assert distances[1, 0] == distances[1, 1]
    assert_array_equal(model.labels_, [1, 1, 0, 0, 0, 0, 0, 0])
    assert_array_equal(model.predict(rows), model.labels_)
    model.save(tmp_path / "model.zarr")
    again = daskkcl.load(tmp_path / "model.zarr")
    assert_array_equal(again.predict(rows), model.labels_)
    assert_array_equal(again.transform(rows), distances)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_saved_model_and_a_copy_give_the_same(X, expected, name, tmp_path):
    model = MODELS[name]().fit(X)
    model.save(tmp_path / "model.zarr")
    data = SOURCES["zarr, coprime chunks"](X)
    for again in (daskkcl.load(tmp_path / "model.zarr"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(again.predict(X), expected[name]["labels"])
        assert_array_equal(again.predict(data).compute(), expected[name]["labels"])
        assert_array_equal(again.transform(X), expected[name]["distances"])
        if "memberships" in expected[name]:
            assert_array_equal(again.predict_proba(X), expected[name]["memberships"])


def test_rows_of_a_source_are_the_rows(X):
    """Whatever the edges that are asked for."""
    for name, make in SOURCES.items():
        if name == "zarr, chunks of one row":
            continue
        source = open_source(make(X))
        for edges in ([0, N], [0, 1024, 2048, N], [0, 1, 2, 700, 701, N], [300, 900, 1100]):
            blocks = source.blocks(edges)
            assert blocks.chunks[0] == tuple(np.diff(edges).tolist()), name
            assert_array_equal(blocks.compute(), X[edges[0] : edges[-1]], err_msg=name)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", ">i2"])
@pytest.mark.filterwarnings("ignore:ApproxKernelKMeans stopped")
def test_labels_to_start_from_may_be_of_any_integer(X, dtype):
    labels = np.arange(len(X)) % 3
    spoilt = X.copy()
    spoilt[5] = np.nan
    parameters = {"n_clusters": 3, "n_landmarks": 20, "random_state": 0, "nan": "drop", "max_iter": 3}
    model, twin = (ApproxKernelKMeans(**parameters, init=labels.astype(some)).fit(spoilt) for some in (dtype, "int64"))
    assert_array_equal(model.labels_, twin.labels_)


def test_scratch_holds_one_shuffle_at_a_time(monkeypatch, X, tmp_path):
    from daskkcl.schedules import shuffling

    found = []
    original = shuffling.shuffle

    def watched(*args):
        found.append(sum(1 for path in tmp_path.rglob("run-*")))
        return original(*args)

    monkeypatch.setattr(shuffling, "shuffle", watched)
    monkeypatch.setattr("daskkcl.schedules.setup.load_rows", lambda engine, source, layout: source)
    data = zarr.create_array({}, data=X, chunks=(500, X.shape[1]))
    PAKCL(3, n_landmarks=20, max_epochs=3, tol=0, random_state=0, scratch=str(tmp_path), progress=False).fit(data)
    assert found == [0, 0, 0]
