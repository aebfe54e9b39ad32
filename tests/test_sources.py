"""Every kind of data works, in any chunking; a chunk is read once a pass; absent chunks are seen."""

import os
import warnings
from collections import Counter

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from numpy.testing import assert_array_equal
from zarr.abc.store import SuffixByteRequest
from zarr.storage import LocalStore, MemoryStore, WrapperStore

import daskkcl
from daskkcl.blocks.opening import open_source
from daskkcl.blocks.sources import DaskSource, ZarrSource
from daskkcl.errors import DaskkclWarning, MissingChunkError
from daskkcl.estimators import base

ALGORITHMS = ["akkmeans", "pakcl", "okfcm"]
N, D = 1203, 5  # no multiple of anything


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    truth = np.sort(rng.choice(3, N, p=[0.5, 0.3, 0.2]))
    return (rng.normal(scale=5, size=(3, D))[truth] + rng.normal(size=(N, D))).astype(np.float32)


def fit(data, algo="okfcm", **parameters):
    defaults = {"n_clusters": 3, "n_landmarks": 40, "random_state": 0, "progress": False}
    if algo == "pakcl":
        defaults["max_epochs"] = 3
    return daskkcl.fit(data, algo, **{**defaults, **parameters})


@pytest.fixture(scope="module")
def expected(X):
    return {algo: fit(X, algo).labels_ for algo in ALGORITHMS}


# --- kinds of data --------------------------------------------------------------------------------------------------


def written(folder, X, **options):
    path = folder / "x.zarr"
    zarr.create_array(path, data=X, **{"chunks": (100, D), **options})
    return path


def grouped(folder, X):
    group = zarr.open_group(folder / "g.zarr", mode="w")
    group.create_group("layers").create_group("deep").create_array("x", data=X, chunks=(100, D))
    group.create_array("other", data=X[:10])
    return folder / "g.zarr"


LAZY = {
    "path": lambda folder, X: (str(written(folder, X)), {}),
    "pathlib": lambda folder, X: (written(folder, X), {}),
    "trailing slash": lambda folder, X: (f"{written(folder, X)}/", {}),
    "relative path": lambda folder, X: (os.path.relpath(written(folder, X)), {}),
    "file URL": lambda folder, X: (written(folder, X).as_uri(), {}),
    "format 2": lambda folder, X: (written(folder, X, zarr_format=2), {}),
    "format 2, Fortran": lambda folder, X: (written(folder, X, zarr_format=2, order="F"), {}),
    "sharded": lambda folder, X: (written(folder, X, shards=(400, D)), {}),
    "uncompressed": lambda folder, X: (written(folder, X, compressors=None), {}),
    "array": lambda folder, X: (zarr.open_array(written(folder, X), mode="r"), {}),
    "array in memory": lambda folder, X: (zarr.create_array(MemoryStore(), data=X, chunks=(100, D)), {}),
    "store": lambda folder, X: (LocalStore(written(folder, X)), {}),
    "group": lambda folder, X: (zarr.open_group(grouped(folder, X), mode="r"), {"component": "layers/deep/x"}),
    "inner group": lambda folder, X: (zarr.open_group(grouped(folder, X))["layers"], {"component": "deep/x"}),
    "path of a group": lambda folder, X: (grouped(folder, X), {"component": "layers/deep/x"}),
    "path into a group": lambda folder, X: (grouped(folder, X) / "layers" / "deep" / "x", {}),
    "store of a group": lambda folder, X: (LocalStore(grouped(folder, X)), {"component": "layers/deep/x"}),
    "dask": lambda folder, X: (da.from_array(X, chunks=(100, 2)), {}),
    "dask of zarr": lambda folder, X: (da.from_zarr(str(written(folder, X))), {}),
    "DataArray of dask": lambda folder, X: (xr.DataArray(da.from_array(X, chunks=(100, 2)), dims=("row", "band")), {}),
    "DataArray, not loaded": lambda folder, X: (xr.open_zarr(xarrays(folder, X), chunks=None)["x"], {}),
    "DataArray of a Zarr": lambda folder, X: (xr.open_zarr(xarrays(folder, X))["x"], {}),
}
IN_MEMORY = {
    "numpy": lambda folder, X: (X, {}),
    "Fortran order": lambda folder, X: (np.asfortranarray(X), {}),
    "strided": lambda folder, X: (np.repeat(X, 2, axis=0)[::2], {}),
    "read-only": lambda folder, X: (np.frombuffer(X.tobytes(), dtype=X.dtype).reshape(X.shape), {}),
    "memory map": lambda folder, X: (mapped(folder, X), {}),
    "DataArray": lambda folder, X: (xr.DataArray(X, dims=("row", "band")), {}),
    "DataFrame": lambda folder, X: (pd.DataFrame(X, columns=list("abcde")), {}),
}


def xarrays(folder, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        xr.Dataset({"x": (("row", "band"), X)}).to_zarr(folder / "xr.zarr", encoding={"x": {"chunks": (100, D)}})
    return folder / "xr.zarr"


def mapped(folder, X):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def array_of(answer):
    """Return what is inside of an answer about a DataArray, which is one too."""
    return answer.data if isinstance(answer, xr.DataArray) else answer


@pytest.mark.parametrize("kind", LAZY)
def test_lazy_kinds(tmp_path, X, expected, kind):
    data, options = LAZY[kind](tmp_path, X)
    model = fit(data, **options)
    assert isinstance(array_of(model.labels_), da.Array)
    assert isinstance(array_of(model.membership_), da.Array)
    assert_array_equal(model.labels_.compute(), expected["okfcm"])
    predicted = model.predict(data, **options)
    assert isinstance(array_of(predicted), da.Array)
    assert_array_equal(predicted.compute(), expected["okfcm"])
    assert isinstance(array_of(model.transform(data, **options)), da.Array)
    assert np.isfinite(model.score(data, **options))


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_kinds_in_memory(tmp_path, X, expected, kind):
    data, _ = IN_MEMORY[kind](tmp_path, X)
    model = fit(data)
    assert type(array_of(model.labels_)) is np.ndarray
    assert type(array_of(model.membership_)) is np.ndarray
    assert_array_equal(model.labels_, expected["okfcm"])
    assert_array_equal(model.predict(data), expected["okfcm"])


def test_lists(X):
    rows = [[float(value) for value in row] for row in X[:50]]
    assert_array_equal(fit(rows).labels_, fit(X[:50].astype(float)).labels_)


def test_urls(X, expected):
    url = "memory://test_urls/x.zarr"
    zarr.create_array(url, data=X, chunks=(100, D), overwrite=True)
    model = fit(url, storage_options={"skip_instance_cache": True})
    assert_array_equal(model.labels_.compute(), expected["okfcm"])
    zarr.open_group("memory://test_urls/g.zarr", mode="w").create_array("deep/x", data=X, chunks=(100, D))
    assert_array_equal(fit("memory://test_urls/g.zarr", component="deep/x").labels_.compute(), expected["okfcm"])


def test_the_default_call_is_sensible(tmp_path, X):
    model = daskkcl.fit(written(tmp_path, X), algo="okfcm")
    assert 2 <= model.n_clusters_ <= 10
    assert len(model.n_clusters_evidence_["gaps"])


DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">f4", ">f8", ">i2", ">u4"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    rng = np.random.default_rng(0)
    whole = np.repeat(rng.integers(0, 100, (3, D)), 100, axis=0) + rng.integers(0, 20, (300, D))  # exact in all of them
    table = whole > 60 if dtype == "?" else whole
    twin = fit(table.astype(np.float64), "akkmeans", dtype="float64").labels_
    stored = table.astype(dtype)
    assert stored.dtype == np.dtype(dtype)
    for data in (stored, da.from_array(stored, chunks=(70, 2)), zarr.create_array({}, data=stored, chunks=(70, 2))):
        assert_array_equal(np.asarray(fit(data, "akkmeans", dtype="float64", missing="fill").labels_), twin)
    input_space = {"map": "identity", "n_landmarks": None}
    for algo, how in (("pakcl", {}), ("okfcm", {}), ("okfcm", input_space)):  # in the precision it takes by default
        assert fit(da.from_array(stored, chunks=(70, 2)), algo, **how).cluster_sizes_.sum() == 300


# --- chunk reads ------------------------------------------------------------------------------------------------------

READS: Counter[str] = Counter()
BYTES: Counter[str] = Counter()


class Counting(WrapperStore):
    """A store that counts the reads of chunks, those of the index of a shard left out."""

    async def get(self, key, prototype, byte_range=None):
        found = await super().get(key, prototype, byte_range)
        if "c" in key.split("/") and not isinstance(byte_range, SuffixByteRequest):
            READS[key] += 1
            BYTES[key] += len(found or b"")
        return found


@pytest.fixture
def counted():
    """Return a function that stores a table so that reads of its chunks are counted."""

    def store(X, **options):
        memory = MemoryStore()
        zarr.create_array(memory, data=X, **options)
        READS.clear()
        BYTES.clear()
        return zarr.open_array(Counting(memory), mode="r")

    return store


@pytest.mark.parametrize("checkpoint", [False, True])
def test_pakcl_takes_its_sample_from_its_shuffle(counted, X, monkeypatch, tmp_path, checkpoint):
    """Two readings, for the shuffle and for the labels; a checkpoint is compared with the sample before any work."""
    monkeypatch.setattr("daskkcl.schedules.setup.load_rows", lambda engine, source, layout: source)
    array = counted(X, chunks=(100, D))
    more = {"checkpoint": str(tmp_path / "run.ckpt")} if checkpoint else {}
    model = daskkcl.fit(array, algo="pakcl", n_clusters=3, max_epochs=1, random_state=0, progress=False, **more)
    assert max(READS.values()) == (3 if checkpoint else 2)
    assert_array_equal(model.labels_, daskkcl.PAKCL(3, max_epochs=1, random_state=0, progress=False).fit_predict(X))


CHUNKS = {
    "columns": (100, 2),
    "single columns": (401, 1),
    "coprime": (97, D),
    "one huge chunk": (5000, 50),
    "all rows": (N, 2),
    "last short": (1000, D),
    "one row": (1, D),
    "two rows": (2, 3),
}


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("block", [1, 32, 96, 97, 500, 2000])
def test_a_chunk_is_read_once_whatever_the_blocks(counted, X, chunks, block):
    if block == 1 or chunks[0] < 10:
        X = X[:203]
    array = counted(X, chunks=tuple(map(min, chunks, X.shape)) if max(chunks) < 5000 else chunks)
    edges = [*range(0, len(X), block), len(X)]
    blocks = open_source(array).blocks(edges)
    assert blocks.chunks == (tuple(np.diff(edges)), (D,))
    assert not READS  # nothing is read before it is computed
    assert_array_equal(blocks.compute(scheduler="threads"), X)
    assert len(READS) == array.nchunks
    assert set(READS.values()) == {1}


def test_some_rows_take_only_their_chunks(counted, X):
    source = open_source(counted(X, chunks=(100, D)))
    assert_array_equal(source.blocks([250, 300, 420]).compute(), X[250:420])
    assert READS == {"c/2/0": 1, "c/3/0": 1, "c/4/0": 1}


@pytest.mark.parametrize("block", [32, 97, 500])
def test_inner_chunks_of_shards_are_read_once(counted, X, block):
    array = counted(X, chunks=(50, 3), shards=(400, 6), compressors=None)
    stored = {key: len(value) for key, value in array.store._store._store_dict.items()}
    edges = [*range(0, N, block), N]
    assert_array_equal(open_source(array).blocks(edges).compute(scheduler="threads"), X)
    assert set(BYTES) == {f"c/{i}/0" for i in range(4)}
    assert all(BYTES[key] <= stored[key] for key in BYTES)


@pytest.fixture
def streaming(monkeypatch):
    """Keep nothing between passes, as when the data are much larger than the limit."""
    plan_run = base.plan_run

    def stream(problem, engine, stages, keep, n_passes, scratch_bytes):
        return plan_run(problem, engine, stages, None, 1, scratch_bytes)

    monkeypatch.setattr(base, "plan_run", stream)


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("chunks", ["columns", "coprime", "one huge chunk", "last short"])
def test_one_read_a_pass(counted, streaming, X, expected, algo, chunks):
    stages = []
    data = counted(X, chunks=CHUNKS[chunks])
    model = fit(data, algo, progress=lambda stage, done, *_: stages.append(stage) if done == 0 else None)
    assert model.plan_.keep == "nothing"
    # sampling and gathering take some chunks; shuffling, passes, chunks and labelling take all of them
    full = [s for s in stages if s.split()[0] in {"pass", "shuffling", "chunks", "labelling"}]
    assert len(full) >= 2
    assert len(READS) == data.nchunks
    assert len(full) <= min(READS.values())
    assert max(READS.values()) <= len(full) + stages.count("sampling")
    READS.clear()
    assert_array_equal(model.labels_.compute(), expected[algo])
    assert not READS  # labels are read from scratch
    assert_array_equal(model.predict(data).compute(), expected[algo])
    assert set(READS.values()) == {1}


@pytest.mark.parametrize("algo", ["pakcl", "okfcm"])
@pytest.mark.parametrize("chunks", ["columns", "coprime", "one huge chunk"])
def test_data_that_fit_are_read_once_altogether(counted, X, algo, chunks):
    data = counted(X, chunks=CHUNKS[chunks])
    assert fit(data, algo).plan_.keep == "rows"
    assert set(READS.values()) == {1}


def test_kept_measurements_are_measured_once(counted, X):
    model = fit(counted(X, chunks=(97, D)), "akkmeans", init="random", tol=0)
    assert model.plan_.keep == "measurements"
    assert max(READS.values()) <= 2  # the sample, and the measurements
    assert model.n_iter_ > 1


# --- any chunking -----------------------------------------------------------------------------------------------------

DASK_CHUNKS = {
    "ragged": ((1, 500, 7, 300, 395), (2, 3)),
    "empty blocks": ((0, 400, 0, 0, 800, 3, 0), (D,)),
    "empty first, columns": ((0, N), (1, 4)),
    "single rows at the end": ((N - 3, 1, 1, 1), (D,)),
}


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("chunks", DASK_CHUNKS.values(), ids=DASK_CHUNKS)
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "streamed"])
def test_ragged_and_empty_dask_chunks(request, X, expected, algo, chunks, kept):
    if not kept:
        request.getfixturevalue("streaming")
    data = da.from_array(X, chunks=chunks)
    model = fit(data, algo)
    assert_array_equal(model.labels_.compute(), expected[algo])
    assert_array_equal(model.predict(data).compute(), expected[algo])


def test_empty_blocks_that_only_computing_shows(X, expected):
    """A filter that leaves nothing of some blocks: dask-ml#551."""
    data = da.from_array(np.concatenate([X, X[:100] + 1000]), chunks=(100, D))
    data = data[data[:, 0] < 500]
    data = data.compute_chunk_sizes()
    assert 0 in data.chunks[0]
    assert_array_equal(fit(data).labels_.compute(), expected["okfcm"])


def test_answers_are_chunked_as_the_data(X):
    assert fit(da.from_array(X, chunks=((600, 603), (D,)))).labels_.chunks == (
        (N,),
    )  # 603 rows are few: taken together
    many = zarr.create_array({}, shape=(10_000, 2), chunks=(3000, 2), dtype="f4")
    assert ZarrSource(many).row_chunks == (3000, 3000, 3000, 1000)
    shards = zarr.create_array({}, shape=(10_000, 2), chunks=(500, 2), shards=(4000, 2), dtype="f4")
    assert ZarrSource(shards).row_chunks == (4000, 4000, 2000)
    fine = zarr.create_array({}, shape=(10_000, 2), chunks=(1, 2), dtype="f4")
    assert ZarrSource(fine).row_chunks == (1024,) * 9 + (784,)
    assert DaskSource(da.zeros((10_000, 2), chunks=(300, 2))).row_chunks == (1200,) * 8 + (400,)


def test_nothing_is_computed_by_asking(X):
    """Lazy answers stay lazy: no row is read before somebody computes them."""

    def explode(block):
        raise AssertionError("computed")

    model = fit(X)
    trap = da.from_array(X, chunks=(100, D)).map_blocks(explode, dtype=X.dtype, meta=np.empty((0, 0), X.dtype))
    for lazy in (model.predict(trap), model.predict_proba(trap), model.transform(trap)):
        assert isinstance(lazy, da.Array)
    with pytest.raises(AssertionError, match="computed"):
        model.predict(trap).compute()


# --- absent chunks ----------------------------------------------------------------------------------------------------

ABSENT = {
    "v2": ({"zarr_format": 2, "chunks": (200, D)}, "3.0", 7),
    "v2 folders": (
        {"zarr_format": 2, "chunks": (200, 3), "chunk_key_encoding": {"name": "v2", "separator": "/"}},
        "3/1",
        14,
    ),
    "v3": ({"chunks": (200, D)}, "c/3/0", 7),
    "v3 columns": ({"chunks": (200, 2)}, "c/3/2", 21),
    "sharded": ({"chunks": (50, D), "shards": (200, D)}, "c/3/0", 7),
    "fill value": ({"chunks": (200, D), "fill_value": 4.0}, "c/3/0", 7),
}


@pytest.fixture(params=ABSENT)
def torn(request, tmp_path, X):
    """Return a path to data that have lost a chunk, the chunk's name, the number of chunks, and what is read."""
    options, key, total = ABSENT[request.param]
    path = tmp_path / "torn.zarr"
    zarr.create_array(path, data=X, **options)
    (path / "notes.txt").write_text("3.0 is not a chunk")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(path)  # while it is whole there is nothing to say
    (path / key).unlink()
    return path, key, total, zarr.open_array(path, mode="r")[:]


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "streamed"])
def test_absent_chunks(request, torn, X, kept):
    if not kept:
        request.getfixturevalue("streaming")
    path, key, total, filled = torn
    assert (filled != X).any()
    with pytest.warns(DaskkclWarning, match=f"1 of {total} chunks .* are absent") as caught:
        model = fit(path)
    assert len(caught) == 1
    assert "missing='raise'" in str(caught[0].message)
    assert_array_equal(model.labels_.compute(), fit(filled).labels_)
    with pytest.raises(MissingChunkError, match=f"1 of {total} chunks .* the first is '{key}' .*missing='fill'"):
        fit(path, missing="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(fit(path, missing="fill").labels_.compute(), model.labels_.compute())


def test_absent_chunks_when_predicting(torn, X):
    path, key, total, filled = torn
    model = fit(X)
    with pytest.warns(DaskkclWarning, match=f"1 of {total} chunks"):
        labels = model.predict(path)
    assert_array_equal(labels.compute(), model.predict(filled))
    with pytest.raises(MissingChunkError, match=key):
        model.set_params(missing="raise").predict(path)


def test_chunks_of_zeros_are_legally_absent(tmp_path, X):
    zeros = X.copy()
    zeros[400:1000] = 0
    zarr.create_array(tmp_path / "x.zarr", data=zeros, chunks=(200, D))
    with pytest.warns(DaskkclWarning, match="3 of 7 chunks .* fill value"):
        model = fit(tmp_path / "x.zarr", "akkmeans")
    assert_array_equal(model.labels_.compute(), fit(zeros, "akkmeans").labels_)


def test_nothing_is_read_when_absence_is_refused(counted, X):
    data = counted(X, chunks=(200, D))
    del data.store._store._store_dict["c/2/0"]
    del data.store._store._store_dict["c/4/0"]
    with pytest.raises(MissingChunkError, match=r"2 of 7 chunks .* first is 'c/2/0' .rows 400"):
        fit(data, missing="raise")
    assert not [key for key in READS if key != "c/2/0"]


def test_edges_of_the_grid():
    """Chunks that a smaller shape left behind are not counted, and names alike are no chunks."""
    store = MemoryStore()
    array = zarr.create_array(store, data=np.ones((100, 2)), chunks=(10, 2))
    array.resize((35, 2))
    del store._store_dict["c/1/0"]
    for junk in ("c/01/0", "c/1/0.tmp", "c/1", "c/0/0/0"):
        store._store_dict[junk] = store._store_dict["c/0/0"]
    with pytest.raises(MissingChunkError, match=r"1 of 4 chunks .* 'c/1/0'"):
        open_source(array).check_missing("raise")
