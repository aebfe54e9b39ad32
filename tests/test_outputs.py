"""Results and models on disk: complete or not there, ours to replace or left alone, and safe to open."""

import gc
import json
import os
import pickle
import subprocess
import sys
import time
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from numpy.testing import assert_allclose, assert_array_equal

import daskkcl
from daskkcl.blocks import outputs
from daskkcl.blocks.labels import LabelFile
from daskkcl.blocks.scratch import Scratch, read_array, write_array
from daskkcl.errors import InvalidInputError, OutputError, StorageError

ALGORITHMS = ["akkmeans", "pakcl", "okfcm"]
N, D, C = 4100, 4, 3
CHUNK = 1500


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    truth = rng.choice(C, N, p=[0.5, 0.3, 0.2])
    return (rng.normal(scale=5, size=(C, D))[truth] + rng.normal(size=(N, D))).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory, X):
    path = tmp_path_factory.mktemp("data") / "x.zarr"
    zarr.create_array(path, data=X, chunks=(CHUNK, D))
    return path


def fit(data, algo="okfcm", **parameters):
    few = {"max_epochs": 2} if algo == "pakcl" else {}
    defaults = {"n_clusters": C, "n_landmarks": 40, "random_state": 0, "progress": False, **few}
    return daskkcl.fit(data, algo, **{**defaults, **parameters})


def contents(folder):
    return sorted(os.listdir(folder))


# --- results ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("kind", ["zarr", "numpy", "dask"])
def test_results(tmp_path, X, path, algo, kind):
    data = {"zarr": path, "numpy": X, "dask": da.from_array(X, chunks=(CHUNK, 2))}[kind]
    model = fit(data, algo, out=tmp_path / "result.zarr")
    assert contents(tmp_path) == ["result.zarr"]
    group = zarr.open_group(tmp_path / "result.zarr", mode="r")
    assert group.attrs["daskkcl"]["complete"] is True
    labels = group["labels"]
    assert labels.dtype == np.int32
    assert labels.metadata.dimension_names == ("row",)
    assert labels.chunks == ((N if kind == "numpy" else CHUNK),)
    assert labels.nchunks_initialized == labels.nchunks
    assert_array_equal(labels[:], np.asarray(model.labels_))
    if algo != "okfcm":
        assert set(group) == {"labels"}
        return
    membership = group["membership"]
    assert set(group) == {"labels", "membership"}
    assert membership.metadata.dimension_names == ("row", "cluster")
    assert membership.chunks == (labels.chunks[0], C)
    assert membership.nchunks_initialized == membership.nchunks
    assert_array_equal(membership[:], np.asarray(model.membership_))
    assert_allclose(membership[:].sum(axis=1), 1, atol=1e-5)


def test_xarray_opens_results(tmp_path, path):
    model = fit(path, out=tmp_path / "result.zarr")
    for options in ({}, {"consolidated": False}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dataset = xr.open_zarr(tmp_path / "result.zarr", **options)
        assert dataset["labels"].dims == ("row",)
        assert dataset["membership"].dims == ("row", "cluster")
        assert dataset.sizes == {"row": N, "cluster": C}
        assert dataset["labels"].dtype == np.int32
        assert_array_equal(dataset["labels"], model.labels_)
        assert dataset["labels"].chunks == ((CHUNK, CHUNK, N - 2 * CHUNK),)


def test_every_chunk_is_there_even_when_it_is_all_zeros(tmp_path, path):
    """In our own outputs an absent chunk is damage, never the fill value."""
    fit(path, n_clusters=1, out=tmp_path / "result.zarr")
    labels = zarr.open_group(tmp_path / "result.zarr", mode="r")["labels"]
    assert not labels[:].any()
    assert labels.nchunks_initialized == labels.nchunks == 3


def test_a_result_that_lost_a_chunk_on_the_way_is_no_result(tmp_path, path, monkeypatch):
    write = zarr.Array.__setitem__

    def forget(self, selection, value):
        if selection[0].start != CHUNK:
            write(self, selection, value)

    monkeypatch.setattr(zarr.Array, "__setitem__", forget)
    with pytest.raises(OutputError, match=r"1 of 3 chunks of .*labels are missing"):
        fit(path, "akkmeans", out=tmp_path / "result.zarr")
    assert contents(tmp_path) == []


def test_chunks_of_answers_are_neither_tiny_nor_huge(tmp_path, X, monkeypatch):
    monkeypatch.setattr(outputs, "_MAX_CHUNK_BYTES", 1200 * C * 4)
    fine = zarr.create_array({}, data=X, chunks=(7, D))
    model = fit(fine, out=tmp_path / "fine.zarr")
    assert zarr.open_group(tmp_path / "fine.zarr", mode="r")["labels"].chunks == (1029,)  # 147 chunks of the data
    assert model.labels_.chunks[0][0] == 1029
    huge = zarr.create_array({}, data=X, chunks=(N, D))
    model = fit(huge, out=tmp_path / "huge.zarr")
    group = zarr.open_group(tmp_path / "huge.zarr", mode="r")
    assert group["labels"].chunks == (2050,)
    assert group["membership"].chunks == (1025, C)
    assert model.membership_.chunks[0] == (1025,) * 4
    assert_array_equal(group["membership"][:], model.membership_.compute())


def test_existing_results(tmp_path, path, X):
    out = tmp_path / "result.zarr"
    fit(path, "okfcm", out=out)
    with pytest.raises(OutputError, match="exists; pass overwrite=True"):
        fit(path, "akkmeans", out=out)
    assert set(zarr.open_group(out, mode="r")) == {"labels", "membership"}
    model = fit(X[:2000], "akkmeans", out=out, overwrite=True)
    assert set(zarr.open_group(out, mode="r")) == {"labels"}
    assert_array_equal(zarr.open_group(out, mode="r")["labels"][:], model.labels_)
    assert contents(tmp_path) == ["result.zarr"]


def test_an_empty_folder_may_be_overwritten(tmp_path, path):
    (tmp_path / "result.zarr").mkdir()
    with pytest.raises(OutputError, match="exists"):
        fit(path, out=tmp_path / "result.zarr")
    fit(path, out=tmp_path / "result.zarr", overwrite=True)
    assert "labels" in zarr.open_group(tmp_path / "result.zarr", mode="r")


def crash(monkeypatch, where):
    """Let the run fail at some point."""

    def fail(*args, **kwargs):
        raise RuntimeError("pulled the plug")

    if where == "running":
        monkeypatch.setattr(daskkcl.PAKCL, "_run", fail)
    elif where == "labelling":
        monkeypatch.setattr(LabelFile, "write", fail)
    elif where == "writing":
        monkeypatch.setattr(LabelFile, "read", fail)
    elif where == "last chunk":
        write, count = zarr.Array.__setitem__, iter(range(100))
        monkeypatch.setattr(zarr.Array, "__setitem__", lambda *args: fail() if next(count) == 2 else write(*args))
    else:
        monkeypatch.setattr(outputs, "_absent", fail)


@pytest.mark.part(2)
@pytest.mark.parametrize("where", ["running", "labelling", "writing", "last chunk", "checking"])
@pytest.mark.parametrize("exists", [False, True], ids=["new", "old"])
def test_a_crash_leaves_what_was_there(tmp_path, path, monkeypatch, where, exists):
    out, scratch = tmp_path / "result.zarr", tmp_path / "scratch"
    scratch.mkdir()
    if exists:
        old = fit(path, "akkmeans", out=out).labels_.compute()
    before = contents(tmp_path)
    with monkeypatch.context() as patch:
        crash(patch, where)
        with pytest.raises(RuntimeError, match="pulled the plug"):
            fit(path, "pakcl", out=out, overwrite=exists, scratch=scratch)
    assert contents(tmp_path) == before
    if exists:
        assert_array_equal(zarr.open_group(out, mode="r")["labels"][:], old)
    gc.collect()
    assert contents(scratch) == []


def test_a_crash_between_two_renames_puts_the_old_one_back(tmp_path, path, monkeypatch):
    out = tmp_path / "result.zarr"
    old = fit(path, "akkmeans", out=out).labels_.compute()
    rename, count = os.rename, iter(range(100))

    def fail_once(*args):
        if next(count) == 1:
            raise OSError("no")
        rename(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail_once)
        with pytest.raises(OutputError, match="cannot be written: no"):
            fit(path, "okfcm", out=out, overwrite=True)
    assert contents(tmp_path) == ["result.zarr"]
    assert_array_equal(zarr.open_group(out, mode="r")["labels"][:], old)


def test_an_interrupt_is_an_interrupt(tmp_path, path):
    def stop(stage, done, total, info):
        if stage == "labelling" and done:
            raise KeyboardInterrupt

    (tmp_path / "scratch").mkdir()
    with pytest.raises(KeyboardInterrupt):
        fit(path, out=tmp_path / "result.zarr", scratch=tmp_path / "scratch", progress=stop)
    assert contents(tmp_path) == ["scratch"]
    assert contents(tmp_path / "scratch") == []


def test_a_full_disk(tmp_path, path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zarr.Array, "__setitem__", full)
    with pytest.raises(OutputError, match=r"result.zarr' cannot be written.*No space left"):
        fit(path, out=tmp_path / "result.zarr")
    assert contents(tmp_path) == []


def test_somebody_else_was_faster(tmp_path, path):
    out = tmp_path / "result.zarr"

    def interfere(stage, done, total, info):
        if stage == "labelling":
            out.mkdir(exist_ok=True)
            (out / "precious").write_text("")

    with pytest.raises(OutputError, match="in the meantime"):
        fit(path, out=out, progress=interfere)
    assert contents(out) == ["precious"]


def test_paths_of_results(tmp_path, path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit(path, out="relative.zarr/")
    fit(path, out=(tmp_path / "url.zarr").as_uri())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.zarr").symlink_to(tmp_path / "elsewhere" / "real.zarr")
    with pytest.raises(OutputError, match="exists"):
        fit(path, out="url.zarr")
    fit(path, out="link.zarr")
    assert contents(tmp_path) == ["elsewhere", "link.zarr", "relative.zarr", "url.zarr"]
    assert contents(tmp_path / "elsewhere") == ["real.zarr"]
    for name in ("relative.zarr", "url.zarr", "link.zarr"):
        assert "labels" in zarr.open_group(tmp_path / name, mode="r")


def test_urls(path, X):
    out, options = "memory://test_outputs/result.zarr", {"skip_instance_cache": True}
    model = fit(path, out=out, storage_options=options)
    assert_array_equal(zarr.open_group(out, mode="r")["labels"][:], model.labels_.compute())
    with pytest.raises(OutputError, match="exists"):
        fit(X, out=out)
    with pytest.raises(OutputError, match="exists"):  # nor is an array
        fit(X, out=out + "/labels")
    with pytest.raises(OutputError, match="not written by daskkcl"):
        fit(X, out=out + "/labels", overwrite=True)
    model = fit(X, "akkmeans", out=out, overwrite=True, storage_options=options)
    assert set(zarr.open_group(out, mode="r")) == {"labels"}
    with pytest.raises(OutputError, match="cannot be written"):
        fit(X, out="unheardof://bucket/result.zarr")


def test_a_failed_write_to_a_url_leaves_no_group(X, monkeypatch):
    out = "memory://test_outputs/failed.zarr"
    monkeypatch.setattr(outputs, "_absent", lambda array, verify: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fit(X, out=out)
    with pytest.raises(FileNotFoundError):
        zarr.open_group(out, mode="r")


# --- lazy labels and their scratch --------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_scratch_goes_with_the_model(tmp_path, path, algo):
    model = fit(path, algo, scratch=tmp_path)
    (folder,) = contents(tmp_path)
    assert contents(tmp_path / folder) == [
        ".owner.json",
        "labels",
    ]  # shuffles and spilled ones are gone
    labels = model.labels_
    assert isinstance(labels, da.Array)
    expected = labels.compute()
    del model
    gc.collect()
    assert contents(tmp_path) == [folder]
    assert_array_equal(labels.compute(), expected)
    assert_array_equal((labels + 1)[:10].compute(), expected[:10] + 1)
    del labels
    gc.collect()
    assert contents(tmp_path) == []


def test_labels_in_memory_leave_no_scratch(tmp_path, X):
    model = fit(X, scratch=tmp_path)
    gc.collect()
    assert contents(tmp_path) == []
    assert model.labels_.shape == (N,)


def test_fitting_again_lets_the_first_scratch_go(tmp_path, path):
    model = fit(path, "akkmeans", scratch=tmp_path)
    model.fit(path)
    gc.collect()
    assert len(contents(tmp_path)) == 1


def test_scratch_of_a_process_goes_at_exit(tmp_path, path):
    code = "import sys, daskkcl; m = daskkcl.fit(sys.argv[1], 'pakcl', n_clusters=3, scratch=sys.argv[2], max_epochs=1)"
    subprocess.run([sys.executable, "-c", code, str(path), str(tmp_path)], check=True)
    assert contents(tmp_path) == []


def test_labels_gone_from_scratch_are_an_error(tmp_path, path):
    model = fit(path, scratch=tmp_path)
    (folder,) = contents(tmp_path)
    file = tmp_path / folder / "labels"
    os.truncate(file, 10)
    with pytest.raises(StorageError, match="is short"):
        model.labels_.compute()
    file.unlink()
    with pytest.raises(StorageError, match="is gone"):
        model.labels_.compute()


def test_scratch_files(tmp_path):
    scratch = Scratch(tmp_path)
    values = np.arange(12.0).reshape(3, 4)
    write_array(scratch.file("a"), [values, values[:1]])
    assert contents(scratch.path) == [".owner.json", "a"]
    assert_array_equal(read_array(scratch.file("a"), values.dtype, (1, 4), offset=96), values[:1])
    with pytest.raises(StorageError, match=r"'.*a' is short: 32 of 64"):
        read_array(scratch.file("a"), values.dtype, (2, 4), offset=96)
    with pytest.raises(StorageError, match="cannot be written"):
        write_array(os.path.join(scratch.path, "no", "folder"), [values])
    borrowed = pickle.loads(pickle.dumps(scratch))
    assert borrowed.path == scratch.path
    del borrowed
    assert os.path.isdir(scratch.path)
    scratch.close()
    assert contents(tmp_path) == []


@pytest.mark.parametrize(("n_clusters", "itemsize"), [(1, 1), (128, 1), (129, 2), (32768, 2), (40000, 4)])
def test_label_files(tmp_path, n_clusters, itemsize):
    labels = LabelFile.create(Scratch(tmp_path), 6, n_clusters)
    assert labels.dtype.itemsize == itemsize
    last = n_clusters - 1
    labels.write(3, np.array([last, -1, 0]))
    labels.write(0, np.array([0, last, last]))
    labels.write(0, np.array([0, last, last]))  # a task that runs twice
    order = np.arange(n_clusters)[::-1]
    assert_array_equal(labels.renumbered(order).read(0, 6), [last, 0, 0, 0, -1, last])
    assert_array_equal(labels.renumbered(order).lazy((4, 2)).compute(), [last, 0, 0, 0, -1, last])
    assert_array_equal(labels.read(1, 4), [last, last, last])


def test_labels_are_computed_on_any_scheduler(path):
    model = fit(path)
    expected = model.labels_.compute()
    for scheduler in ("sync", "threads"):
        with dask.config.set(scheduler=scheduler):
            assert_array_equal(model.labels_.compute(), expected)


# --- models -------------------------------------------------------------------------------------------------------

VARIANTS = {
    "akkmeans": {"algo": "akkmeans"},
    "pakcl": {"algo": "pakcl"},
    "pakcl, nearest": {"algo": "pakcl", "labels": "nearest"},
    "okfcm": {"algo": "okfcm"},
    "literal": {"algo": "okfcm", "form": "literal", "n_landmarks": None},
    "prototypes": {"algo": "okfcm", "form": "literal", "n_landmarks": None, "extend": "prototypes"},
    "identity": {"algo": "akkmeans", "map": "identity", "n_landmarks": None},
    "float64": {"algo": "akkmeans", "dtype": "float64"},
    "polynomial": {"algo": "pakcl", "kernel": "poly", "degree": 2},
    "sum of kernels": {"algo": "akkmeans", "kernel": daskkcl.kernels.Rbf() + 0.1 * daskkcl.kernels.Laplacian()},
    "landmarks": {"algo": "akkmeans", "landmarks": "kmeans"},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_a_loaded_model_answers_the_same(tmp_path, X, variant):
    model = fit(X, **variant)
    model.save(tmp_path / "model.zarr")
    assert contents(tmp_path) == ["model.zarr"]
    twin = daskkcl.load(tmp_path / "model.zarr")
    assert type(twin) is type(model)
    assert_array_equal(twin.predict(X), model.labels_)
    assert_array_equal(twin.transform(X), model.transform(X))
    assert twin.score(X) == model.score(X)
    assert_array_equal(twin.cluster_sizes_, model.cluster_sizes_)
    for name in ("n_iter_", "history_", "n_clusters_", "gamma_", "objective_", "n_features_in_"):
        assert getattr(twin, name) == getattr(model, name)
    if isinstance(model, daskkcl.PAKCL):
        assert_array_equal(twin.win_counts_, model.win_counts_)
    if model.fuzzy:
        assert_array_equal(twin.predict_proba(X), model.membership_)
        assert twin.fuzzifier_ == model.fuzzifier_
    for name in ("labels_", *(["membership_"] if model.fuzzy else [])):
        with pytest.raises(AttributeError, match="not saved with a model; call predict"):
            getattr(twin, name)
    twin.save(tmp_path / "again.zarr")
    assert_array_equal(daskkcl.load(tmp_path / "again.zarr").predict(X), model.labels_)
    assert twin.fit(X[:500]).labels_.shape == (500,)


def test_models_in_another_process(tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    for algo in ALGORITHMS:
        fit(X, algo).save(tmp_path / f"{algo}.zarr")
    code = """
import sys, numpy as np, daskkcl
X = np.load("x.npy")
np.savez("found.npz", **{algo: daskkcl.load(algo + ".zarr").predict(X) for algo in sys.argv[1:]})
"""
    subprocess.run([sys.executable, "-c", code, *ALGORITHMS], check=True, cwd=tmp_path)
    with np.load(tmp_path / "found.npz") as found:
        for algo in ALGORITHMS:
            assert_array_equal(found[algo], fit(X, algo).labels_)


def test_a_person_can_open_a_model(tmp_path, X):
    model = fit(X, "pakcl", random_state=3)
    model.save(tmp_path / "model.zarr")
    group = zarr.open_group(tmp_path / "model.zarr", mode="r")
    assert set(group) == {"landmarks", "coefficients", "norms", "order", "counts", "cluster_sizes", "history"}
    description = group.attrs["daskkcl_model"]
    assert description["algorithm"] == "pakcl"
    assert description["kernel"] == {"name": "rbf", "gamma": model.gamma_}
    assert description["parameters"]["n_clusters"] == C
    assert group["landmarks"].shape == (40, D)
    assert group["coefficients"].shape == (C, 40)
    assert_array_equal(group["cluster_sizes"][:], model.cluster_sizes_)
    for folder, _, files in os.walk(tmp_path / "model.zarr"):
        for file in files:
            content = (tmp_path / folder / file).read_bytes()
            assert file == "zarr.json" or os.path.basename(folder) in {"c", "0"}
            assert not content.startswith(b"\x80")  # a pickle
            if file == "zarr.json":
                json.loads(content)


def test_names_of_features_are_saved(tmp_path, X):
    import pandas as pd

    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = fit(frame)
    model.save(tmp_path / "model.zarr")
    twin = daskkcl.load(tmp_path / "model.zarr")
    assert_array_equal(twin.feature_names_in_, model.feature_names_in_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(twin.predict(frame), model.labels_)


def test_saving_over_something(tmp_path, X, monkeypatch):
    one, two = fit(X, "akkmeans"), fit(X, "pakcl")
    path = tmp_path / "model.zarr"
    one.save(path)
    with pytest.raises(OutputError, match="exists; pass overwrite=True"):
        two.save(path)
    with monkeypatch.context() as patch:
        patch.setattr(zarr.Group, "create_array", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            two.save(path, overwrite=True)
    assert contents(tmp_path) == ["model.zarr"]
    assert type(daskkcl.load(path)) is daskkcl.ApproxKernelKMeans
    two.save(path, overwrite=True)
    assert type(daskkcl.load(str(path))) is daskkcl.PAKCL
    zarr.create_array(tmp_path / "data.zarr", data=X)
    for other in ("data.zarr",):
        with pytest.raises(OutputError, match="not written by daskkcl"):
            one.save(tmp_path / other, overwrite=True)
    with pytest.raises(OutputError, match="no folder"):
        one.save(tmp_path / "none" / "model.zarr")
    assert contents(tmp_path) == ["data.zarr", "model.zarr"]


def test_models_at_urls(X):
    model = fit(X)
    url = "memory://test_outputs/model.zarr"
    model.save(url, storage_options={"skip_instance_cache": True})
    assert_array_equal(daskkcl.load(url).predict(X), model.labels_)
    with pytest.raises(OutputError, match="exists"):
        model.save(url)
    model.save(url, overwrite=True)


def exponential(A, B):
    return np.exp(-0.1 * ((A[:, None] - B) ** 2).sum(axis=2))


def test_a_function_as_kernel_is_passed_again(tmp_path, X):
    model = fit(X[:500], "akkmeans", kernel=exponential)
    model.save(tmp_path / "model.zarr")
    with pytest.raises(InvalidInputError, match=r"exponential.*not stored.*load\(path, kernel=function\)"):
        daskkcl.load(tmp_path / "model.zarr")
    twin = daskkcl.load(tmp_path / "model.zarr", kernel=exponential)
    assert_array_equal(twin.predict(X[:500]), model.labels_)


def test_another_kernel_is_not_put_in_place_of_the_stored_one(tmp_path, X):
    model = fit(X[:500], "akkmeans")
    model.save(tmp_path / "model.zarr")
    with pytest.raises(InvalidInputError, match="leave out kernel="):
        daskkcl.load(tmp_path / "model.zarr", kernel=exponential)
    daskkcl.load(tmp_path / "model.zarr", kernel=daskkcl.kernels.Rbf(model.gamma_))


# --- models of strangers ------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path, X):
    fit(X[:600], "pakcl").save(tmp_path / "model.zarr")
    return tmp_path / "model.zarr"


@pytest.fixture
def saved_fuzzy(tmp_path, X):
    fit(X[:600], "okfcm").save(tmp_path / "model.zarr")
    return tmp_path / "model.zarr"


def refused(path, *words):
    began = time.perf_counter()
    with pytest.raises(InvalidInputError) as caught:
        daskkcl.load(path)
    assert time.perf_counter() - began < 2
    message = str(caught.value)
    assert str(path) in message
    assert [word for word in words if word not in message] == [], message


def edit(path, change):
    """Change the JSON of an array or group."""
    metadata = json.loads((path / "zarr.json").read_text())
    change(metadata)
    (path / "zarr.json").write_text(json.dumps(metadata))


def describe(path, **changes):
    edit(path, lambda metadata: metadata["attributes"]["daskkcl_model"].update(changes))


@pytest.mark.parametrize("name", ["landmarks", "coefficients", "norms", "order", "counts", "cluster_sizes", "history"])
@pytest.mark.parametrize("damage", ["absurd shape", "more dimensions", "absent", "truncated", "too long", "huge chunk"])
def test_doctored_arrays(saved, name, damage):
    array = saved / name
    rank = len(zarr.open_array(array, mode="r").shape)
    chunk = array / "c" / "/".join("0" * rank)

    def chunks(metadata, shape):
        metadata["chunk_grid"]["configuration"]["chunk_shape"] = shape

    if damage == "absurd shape":
        edit(array, lambda m: (m.update(shape=[10**12] * rank), chunks(m, [10**12] * rank)))
        refused(saved, name, "says it takes")
    elif damage == "more dimensions":
        edit(array, lambda m: (m.update(shape=[1, *m["shape"]]), chunks(m, [1, *m["shape"]])))
        refused(saved, name, "dimensions")
    elif damage == "absent":
        chunk.unlink()
        refused(saved, name, "absent")
    elif damage == "truncated":
        chunk.write_bytes(chunk.read_bytes()[:-3])
        refused(saved, name, "bytes, not")
    elif damage == "too long":
        os.truncate(chunk, 10**12)  # a file with a hole: reading it would take a terabyte
        refused(saved, name, "bytes, not")
    else:
        edit(array, lambda m: chunks(m, [10**12] * rank))
        refused(saved, name, "chunks of")


@pytest.mark.parametrize("name", ["landmarks", "coefficients", "norms", "counts", "history"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none(saved, name, value):
    array = zarr.open_array(saved / name, mode="r+")
    array[(0,) * array.ndim] = value
    refused(saved, name, "NaN or infinity")


def replace(saved, name, values, **options):
    group = zarr.open_group(saved, mode="r+")
    del group[name]
    options = {"chunks": np.shape(values), "compressors": None, "config": {"write_empty_chunks": True}, **options}
    group.create_array(name, data=np.asarray(values), **options)


@pytest.mark.parametrize(
    ("name", "values", "word"),
    [
        ("landmarks", np.ones((40, D + 1)), "landmarks do not fit"),
        ("landmarks", np.ones((39, D)), "centres do not fit"),
        ("coefficients", np.ones((C + 1, 40)), "centres do not fit"),
        ("norms", np.ones(C + 1), "centres do not fit"),
        ("counts", np.ones(C + 1), "win counts do not fit"),
        ("counts", -np.ones(C), "win counts do not fit"),
        ("counts", np.zeros(C), "win counts do not fit"),
        ("cluster_sizes", np.array([5, -1, 2]), "cluster sizes do not fit"),
        ("cluster_sizes", np.array([5.5, 1, 2]), "cluster sizes do not fit"),
        ("cluster_sizes", np.array([5, 1]), "cluster sizes do not fit"),
        ("order", np.array([0, 1, 1]), "numbering"),
        ("order", np.array([0, 1, 3]), "numbering"),
        ("order", np.array([0, -1, 1]), "numbering"),
        ("order", np.array([0, 1, 2.5]), "numbering"),
        ("landmarks", np.array([["a"] * D] * 40), "does not hold numbers"),
        ("norms", np.array([1j] * C), "does not hold numbers"),
    ],
)
def test_arrays_that_do_not_fit(saved, name, values, word):
    replace(saved, name, values)
    refused(saved, word)


@pytest.mark.parametrize("name", ["landmarks", "coefficients", "norms", "order", "counts", "cluster_sizes"])
def test_arrays_that_are_not_there(saved, name):
    group = zarr.open_group(saved, mode="r+")
    del group[name]
    refused(saved, "is refused")
    group.create_group(name)
    refused(saved, name, "no dimensions")


def test_codecs_are_not_run(saved):
    landmarks = zarr.open_array(saved / "landmarks", mode="r")[:]
    replace(saved, "landmarks", landmarks, compressors=zarr.codecs.GzipCodec())
    refused(saved, "landmarks", "encoded by", "gzip")
    replace(saved, "landmarks", landmarks, chunks=(5, D), shards=(40, D))
    refused(saved, "landmarks", "encoded by", "sharding")


def test_no_pickle_is_opened(saved, tmp_path):
    """Format 2 lets an array name a filter that unpickles its chunks: such a model is not even looked at."""

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    array = saved / "norms"
    (array / "zarr.json").unlink()
    metadata = {
        "zarr_format": 2, "shape": [C], "chunks": [C], "dtype": "<f8", "compressor": None, "fill_value": 0,
        "order": "C", "filters": [{"id": "pickle"}],
    }  # fmt: skip
    (array / ".zarray").write_text(json.dumps(metadata))
    (array / "0").write_bytes(pickle.dumps(Bomb()))
    refused(saved)
    (saved / "zarr.json").rename(saved / "v3.json")
    attributes = json.loads((saved / "v3.json").read_text())["attributes"]
    (saved / ".zgroup").write_text('{"zarr_format": 2}')
    (saved / ".zattrs").write_text(json.dumps(attributes))
    refused(saved)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"format": 2}, "format"),
        ({"format": None}, "format"),
        ({"algorithm": "dbscan"}, "'dbscan' is not known"),
        ({"algorithm": ["pakcl"]}, "is not known"),
        ({"algorithm": None}, "is not known"),
        ({"map": "eval"}, "map"),
        ({"dtype": "object"}, "dtype"),
        ({"dtype": "float16"}, "dtype"),
        ({"tile_rows": 10**9}, "tile size"),
        ({"tile_rows": 0}, "tile size"),
        ({"tile_rows": "many"}, "tile size"),
        ({"n_features": -1}, "features"),
        ({"n_features": D + 1}, "landmarks do not fit"),
        ({"nan": "ignore"}, "nan policy"),
        ({"rule": "argmax"}, "rule"),
        ({"rule": None}, "rule"),
        ({"kernel": {"name": "rfb", "gamma": 1.0}}, "'rfb'"),
        ({"kernel": {"name": "rbf", "gamma": -1.0}}, "gamma"),
        ({"kernel": {"name": "rbf", "gamma": "auto"}}, "no width"),
        ({"kernel": {"name": "rbf", "gamma": 1.0, "code": "x"}}, "'code'"),
        ({"kernel": {"name": "callable", "function": "os.system"}}, "os.system"),
        ({"kernel": "rbf"}, "dictionary"),
        ({"kernel": None}, "dictionary"),
        ({"kernel": {"name": "columns", "kernel": {"name": "linear"}, "start": 3, "stop": 99}}, "kernel"),
        ({"parameters": {"n_clusters": 3, "exec": "x"}}, "parameters that the algorithm does not have"),
        ({"parameters": {"scratch": "/etc"}}, "parameters that the algorithm does not have"),
        ({"parameters": {"n_clusters": {"a": 1}}}, "plain values"),
        ({"parameters": None}, "parameters"),
        ({"feature_names": ["a"]}, "feature names"),
        ({"feature_names": [1, 2, 3, 4]}, "feature names"),
    ],
)
def test_doctored_descriptions(saved, changes, word):
    describe(saved, **changes)
    refused(saved, word)


@pytest.mark.parametrize("fuzzifier", [1.0, 0, -3, None, "2", float("inf"), float("nan")])
def test_doctored_fuzzifiers(saved_fuzzy, fuzzifier):
    describe(saved_fuzzy, fuzzifier=fuzzifier)
    refused(saved_fuzzy, "rule")


def test_attributes_are_taken_for_what_they_are(saved):
    describe(saved, attributes={"n_iter_": "many", "gamma_": [1], "predict": "x", "__class__": "y"})
    model = daskkcl.load(saved)
    assert not hasattr(model, "n_iter_")
    assert callable(model.predict)


def test_what_is_no_model(tmp_path, X):
    zarr.create_array(tmp_path / "x.zarr", data=X)
    zarr.open_group(tmp_path / "g.zarr", mode="w")
    (tmp_path / "file").write_text("")
    fit(X, out=tmp_path / "result.zarr")
    for name in ("x.zarr", "g.zarr", "file", "result.zarr"):
        refused(tmp_path / name, "not a saved daskkcl model")
    refused(tmp_path / "nothing", "no model at")
    with pytest.raises(InvalidInputError, match="7 is not the path"):
        daskkcl.load(7)
    with pytest.raises(InvalidInputError, match="not a saved daskkcl model"):
        daskkcl.load("memory://test_outputs/nothing")


def test_numpy_numbers_are_saved_as_numbers(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 2))
    daskkcl.PAKCL(np.int64(3), n_landmarks=np.int64(20), random_state=0).fit(X).save(tmp_path / "model.zarr")
    model = daskkcl.load(tmp_path / "model.zarr")
    assert (model.n_clusters, model.n_landmarks) == (3, 20)
