"""A run that was stopped goes on where it was: same labels, less work; another run's checkpoint is refused."""

import json
import os
import shutil
import subprocess
import sys

import dask
import numpy as np
import pytest
import zarr
from numpy.testing import assert_array_equal

import daskkcl
from daskkcl import planning
from daskkcl.errors import CheckpointError, StorageError
from daskkcl.schedules import chunks, measuring, sequential, setup, sparse_kernel, subsets, walk
from daskkcl.schedules.checkpoint import Checkpoint, describe, saved_seed

N, D = 1500, 3
RUNS = {
    "akkmeans": {"algo": "akkmeans", "init": "random", "max_iter": 8, "tol": 0},
    "akkmeans, converging": {"algo": "akkmeans", "init": "random"},
    "pakcl": {"algo": "pakcl", "subset_size": 10, "max_epochs": 2, "tol": 0},
    "pakcl, few rows": {"algo": "pakcl", "subset_size": 10, "max_epochs": 5, "tol": 0},
    "okfcm": {"algo": "okfcm", "chunk_size": 10, "max_iter": 20},
    "okfcm, exact passes": {"algo": "okfcm", "chunk_size": 50, "max_passes": 5, "max_iter": 20},
    "okfcm, literal": {"algo": "okfcm", "form": "literal", "n_landmarks": None, "chunk_size": 60, "max_iter": 20},
    "spkfcm": {"algo": "spkfcm", "chunk_size": 10, "max_iter": 20},
    "spkfcm, as they come": {"algo": "spkfcm", "order": "arrival", "chunk_size": 10, "max_iter": 20, "max_passes": 3},
    "spkfcm, literal": {"algo": "spkfcm", "form": "literal", "n_landmarks": None, "chunk_size": 60, "max_iter": 20},
    "rsekfcm": {"algo": "rsekfcm", "sample_size": 200, "max_passes": 4},
    "fcm": {"algo": "fcm", "n_landmarks": None, "init": "random", "max_iter": 8},
}
SEEDS = {"n_clusters": None, "n_seeds": 6, "max_epochs": 4, "tol": 0, "n_landmarks": None}
OTHER_RUNS = {
    "akcl": {"algo": "akcl", "max_epochs": 3, "tol": 0},
    "akcl, labels of all rows": {"algo": "akcl", "init": "random-labels-all", "max_epochs": 2, "tol": 0},
    "apnc": {"algo": "apnc", "init": "random", "max_iter": 4, "tol": 0},
    "cccl": {**SEEDS, "algo": "cccl"},
    "core": {**SEEDS, "algo": "core"},
    "cpcl": {**SEEDS, "algo": "cpcl"},
    "dsrpcl": {**SEEDS, "algo": "dsrpcl"},
    "fastkscl": {"algo": "fastkscl", "max_iter": 4},
    "kcl": {"algo": "kcl", "n_landmarks": None, "max_epochs": 3, "tol": 0},
    "kcpcl": {**SEEDS, "algo": "kcpcl"},
    "kfcm": {"algo": "kfcm", "n_landmarks": None, "n_init": 2, "max_iter": 4},
    "kkmeans": {"algo": "kkmeans", "n_landmarks": None, "n_init": 3, "init": "random"},
    "lcpcl": {**SEEDS, "algo": "lcpcl", "n_landmarks": 30},
    "rpccl": {**SEEDS, "algo": "rpccl"},
    "rpcl": {**SEEDS, "algo": "rpcl"},
    "rsekfcm, literal": {"algo": "rsekfcm", "form": "literal", "n_landmarks": None, "sample_size": 200, "max_iter": 4},
    "rsekfcm, prototypes": {"algo": "rsekfcm", "extend": "prototypes", "sample_size": 200, "max_passes": 2},
    "skkmeans": {"algo": "skkmeans", "n_landmarks": None, "buffer_size": 60, "batch_size": 20},
    "spectral": {"algo": "spectral", "init": "random", "max_iter": 3},
    "nyncut": {"algo": "akkmeans", "map": "nyncut", "init": "random", "max_iter": 3, "tol": 0},
    "okfcm of codes": {"algo": "okfcm", "map": "spectral", "chunk_size": 50, "max_passes": 3, "max_iter": 10},
}
ALL_RUNS = RUNS | OTHER_RUNS
pytestmark = pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    truth = np.sort(rng.choice(4, N, p=[0.4, 0.3, 0.2, 0.1]))
    return (rng.normal(scale=2, size=(4, D))[truth] + rng.normal(size=(N, D))).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory, X):
    path = tmp_path_factory.mktemp("data") / "x.zarr"
    zarr.create_array(path, data=X, chunks=(20, D))
    return path


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch):
    """Many blocks, and several rounds, on small data."""
    monkeypatch.setattr(planning, "_BLOCKS_PER_THREAD", 30)
    for module in (subsets, sequential, sparse_kernel):
        monkeypatch.setattr(module, "_SEGMENT_BLOCKS", 20)
    monkeypatch.setattr(chunks, "_ROUND_CHUNKS", chunks.FAN_IN)  # whole groups, as always
    monkeypatch.setattr(walk, "_SEGMENT_BLOCKS", chunks.FAN_IN)


def fit(data, **parameters):
    defaults = {"n_clusters": 4, "n_landmarks": 30, "random_state": 0, "progress": False}
    given = {**defaults, **parameters}
    return daskkcl.fit(data, **{name: value for name, value in given.items() if value is not None})


class Saves:
    """Count the saves of checkpoints, and stop the run after some of them."""

    def __init__(self, monkeypatch, stop_after=None, torn=False):
        self.count = 0
        save = Checkpoint.save

        def counting(checkpoint, state, **how):
            save(checkpoint, state, **how)
            self.count += checkpoint.path is not None
            if self.count == stop_after:
                raise KeyboardInterrupt

        monkeypatch.setattr(Checkpoint, "save", counting)


def saves_of(monkeypatch, call, stop_after=None):
    """Return the number of saves of a call that is stopped, or ends by itself; and its result."""
    with monkeypatch.context() as patch:
        saves, result = Saves(patch, stop_after), None
        if stop_after is None:
            result = call()
        else:
            with pytest.raises(KeyboardInterrupt):
                call()
    return saves.count, result


def alike(model, other):
    assert_array_equal(np.asarray(model.labels_), np.asarray(other.labels_))
    assert_array_equal(model.cluster_sizes_, other.cluster_sizes_)
    assert model.history_ == other.history_
    assert model.n_iter_ == other.n_iter_
    assert model.objective_ == other.objective_


@pytest.mark.part(6)
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("kind", ["numpy", "zarr"])
def test_going_on(tmp_path, monkeypatch, X, path, run, kind):
    data = X if kind == "numpy" else path
    undisturbed = fit(data, **run)
    total, model = saves_of(monkeypatch, lambda: fit(data, **run, checkpoint=tmp_path / "whole"))
    alike(model, undisturbed)
    assert total >= 2, "too few rounds to stop between"
    for done in sorted({total // 2, total - 1}):
        place = tmp_path / f"stopped-{done}"
        stopped, _ = saves_of(monkeypatch, lambda: fit(data, **run, checkpoint=place), stop_after=done)  # noqa: B023
        rest, model = saves_of(monkeypatch, lambda: fit(data, **run, checkpoint=place))  # noqa: B023
        assert stopped + rest == total
        alike(model, undisturbed)


def test_every_algorithm_is_here():
    assert {run["algo"] for run in ALL_RUNS.values()} == set(daskkcl.algorithms())


@pytest.mark.part(6)
@pytest.mark.parametrize("run", OTHER_RUNS.values(), ids=OTHER_RUNS)
def test_the_others_go_on_too(tmp_path, monkeypatch, path, run):
    """Every algorithm saves every round, or every step that takes a second; what is left is what was not done."""
    total, model = saves_of(monkeypatch, lambda: fit(path, **run, checkpoint=tmp_path / "whole"))
    assert total >= 2, "too few rounds to stop between"
    place = tmp_path / "stopped"
    stopped, _ = saves_of(monkeypatch, lambda: fit(path, **run, checkpoint=place), stop_after=total // 2)
    rest, again = saves_of(monkeypatch, lambda: fit(path, **run, checkpoint=place))
    assert stopped + rest == total
    alike(again, model)
    alike(fit(path, **run), model)


class Killed(BaseException):
    """Like SIGKILL: nobody saves anything on the way out. (See test_faults_storage.py for the real one.)"""


class Passes:
    """Note the passes over the rows, and end the run in the middle of one of them."""

    def __init__(self, kill_in=None):
        self.seen, self.kill_in = [], kill_in

    def __call__(self, stage, done, total, info):
        if stage in {"sampling", "landmarks"}:  # of a sample
            return
        if done == 0 and self.seen[-1:] != [stage]:
            self.seen.append(stage)
        if self.kill_in == len(self.seen) and done:
            raise Killed


@pytest.mark.part(3)
@pytest.mark.parametrize("name", ["spectral", "nyncut", "okfcm of codes", "lcpcl", "rsekfcm, prototypes", "pakcl"])
def test_no_pass_is_made_twice_but_the_last(tmp_path, monkeypatch, path, name):
    """Passes that make a map, shuffle, count, look for prototypes or label are not made again, wherever it stopped."""
    make = setup.make_plan  # what is kept between passes would have to be read again
    monkeypatch.setattr(setup, "make_plan", lambda *a, **k: make(*a, **{**k, "keep": {}, "spill_bytes": 0}))
    run = {**ALL_RUNS[name], "scratch": tmp_path / "scratch"}
    whole = Passes()
    undisturbed = fit(path, **run, checkpoint=tmp_path / "whole", progress=whole)
    n = len(whole.seen)
    assert n >= 3
    for number in sorted({1, 2, n // 2, n - 1, n}):
        place = tmp_path / f"stopped-{number}"
        with pytest.raises(Killed):
            fit(path, **run, checkpoint=place, progress=Passes(number))
        rest = Passes()
        alike(fit(path, **run, checkpoint=place, progress=rest), undisturbed)
        left = whole.seen[number - 1 :]
        assert rest.seen == left or (left[0] == "shuffling" and rest.seen == left[1:])  # its last file was written


@pytest.mark.part(2)
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_finished_run_is_only_labelled_again(tmp_path, monkeypatch, path, run):
    first = fit(path, **run, checkpoint=tmp_path / "ckpt")
    stages = []
    call = lambda: fit(path, **run, checkpoint=tmp_path / "ckpt", progress=lambda stage, *_: stages.append(stage))  # noqa: E731
    saves, again = saves_of(monkeypatch, call)
    assert saves == 0
    assert not [stage for stage in stages if stage.split()[0] in {"pass", "epoch", "shuffling"}]
    alike(again, first)


def test_interrupted_between_saves(tmp_path, path, monkeypatch):
    """Work since the last save is done again, no more."""
    monkeypatch.setattr("daskkcl.schedules.subsets._SEGMENT_BLOCKS", 1)
    monkeypatch.setattr("daskkcl.planning._MAX_TILE", 512)
    run = RUNS["pakcl"]
    undisturbed = fit(path, **run)
    place = tmp_path / "ckpt"

    def stop(stage, done, total, info):
        if stage == "epoch 2" and done > 0.8 * total:  # in the second of two blocks
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(path, **run, checkpoint=place, progress=stop)
    rows = []
    watch = lambda stage, done, total, info: rows.append((stage, done))  # noqa: E731
    alike(fit(path, **run, checkpoint=place, progress=watch), undisturbed)
    epochs = [(stage, done) for stage, done in rows if stage.startswith("epoch")]
    assert "epoch 1" not in dict(epochs)
    assert N / 4 < epochs[1][1] < N  # the second epoch began where it was saved


@pytest.mark.part(4)
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("threads", [(2, 1), (1, 2)], ids=["fewer threads", "more threads"])
def test_another_plan_goes_on_with_the_same_rows(tmp_path, monkeypatch, path, run, threads):
    """Threads and memory change the blocks; a checkpoint must not depend on them."""
    undisturbed = fit(path, **run)
    with dask.config.set(num_workers=threads[0]):
        saves_of(monkeypatch, lambda: fit(path, **run, checkpoint=tmp_path / "ckpt"), stop_after=2)
    with dask.config.set(num_workers=threads[1]):
        model = fit(path, **run, checkpoint=tmp_path / "ckpt", memory_limit="20GiB")
    alike(model, undisturbed)


@pytest.mark.parametrize("algo", ["akkmeans", "pakcl", "okfcm", "spkfcm", "rsekfcm", "fcm"])
def test_without_a_seed(tmp_path, monkeypatch, X, algo):
    run = {**RUNS[algo], "random_state": None}
    saves_of(monkeypatch, lambda: fit(X, **run, checkpoint=tmp_path / "ckpt"), stop_after=2)
    seed = saved_seed(tmp_path / "ckpt")
    model = fit(X, **run, checkpoint=tmp_path / "ckpt")
    assert saved_seed(tmp_path / "ckpt") == seed
    alike(model, fit(X, **{**run, "random_state": seed}))
    assert not np.array_equal(seed, saved_seed(tmp_path / "none") or -1)


def test_in_another_process(tmp_path, path):
    """A kernel that is a function, an array as init: what a call is does not depend on the process."""
    code = """
import sys, numpy as np, daskkcl
from daskkcl.schedules.checkpoint import Checkpoint

def kernel(A, B):
    return np.exp(-0.1 * ((A[:, None] - B) ** 2).sum(axis=2))

kernel.diagonal = lambda A: np.ones(len(A))
save, count = Checkpoint.save, []
def stopping(self, state):
    save(self, state)
    count.append(1)
    if len(count) == int(sys.argv[3]):
        sys.exit(7)
Checkpoint.save = stopping
landmarks = np.random.default_rng(0).normal(size=(30, 3))
model = daskkcl.fit(sys.argv[1], "akkmeans", n_clusters=4, kernel=kernel, landmarks=landmarks,
                    init=np.arange(4), max_iter=6, tol=0, checkpoint=sys.argv[2] or None)
print(len(count), *model.cluster_sizes_)
"""

    def run(place, stop):
        return subprocess.run(
            [sys.executable, "-c", code, str(path), place, str(stop)], capture_output=True, text=True, check=False
        )

    assert run(str(tmp_path / "ckpt"), 4).returncode == 7
    rest, *sizes = run(str(tmp_path / "ckpt"), 99).stdout.split()
    assert int(rest) == 2
    assert sizes == run("", 99).stdout.split()[1:]


# --- damage -----------------------------------------------------------------------------------------------------------


def states(place):
    return sorted(name for name in os.listdir(place) if name.startswith("state"))


def test_two_states_are_kept(tmp_path, X):
    fit(X, **RUNS["akkmeans"], checkpoint=tmp_path / "ckpt")
    assert len(states(tmp_path / "ckpt")) == 2


def tear(state, how):
    if how == "no mark":
        metadata = json.loads((state / "zarr.json").read_text())
        metadata["attributes"] = {}
        (state / "zarr.json").write_text(json.dumps(metadata))
    elif how == "no array":
        shutil.rmtree(state / "means")
    elif how == "no chunk":
        (state / "means" / "c" / "0" / "0").unlink()
    elif how == "truncated":
        chunk = state / "means" / "c" / "0" / "0"
        chunk.write_bytes(chunk.read_bytes()[:-5])
    elif how == "other numbers":
        zarr.open_array(state / "means", mode="r+")[0, 0] = 0.25
    elif how == "no metadata":
        (state / "means" / "zarr.json").write_text("{")
    else:
        shutil.rmtree(state)
        state.mkdir()


@pytest.mark.parametrize(
    "how", ["no mark", "no array", "no chunk", "truncated", "other numbers", "no metadata", "nothing in it"]
)
def test_a_torn_state_never_was(tmp_path, monkeypatch, X, how):
    run, place = RUNS["akkmeans"], tmp_path / "ckpt"
    total, undisturbed = saves_of(monkeypatch, lambda: fit(X, **run))
    total, _ = saves_of(monkeypatch, lambda: fit(X, **run, checkpoint=tmp_path / "whole"))
    saves_of(monkeypatch, lambda: fit(X, **run, checkpoint=place), stop_after=3)
    tear(place / states(place)[-1], how)
    rest, model = saves_of(monkeypatch, lambda: fit(X, **run, checkpoint=place))
    assert rest == total - 2  # from the state before
    alike(model, undisturbed)


def test_nothing_but_torn_states(tmp_path, monkeypatch, X):
    run, place = RUNS["akkmeans"], tmp_path / "ckpt"
    undisturbed = fit(X, **run)
    saves_of(monkeypatch, lambda: fit(X, **run, checkpoint=place), stop_after=3)
    for state in states(place):
        tear(place / state, "truncated")
    alike(fit(X, **run, checkpoint=place), undisturbed)


@pytest.mark.parametrize("array", ["means", "history"])
def test_killed_while_saving(tmp_path, monkeypatch, X, array):
    """The state is written array by array, and marked last."""
    run, place = RUNS["akkmeans"], tmp_path / "ckpt"
    undisturbed = fit(X, **run)
    create, count = zarr.Group.create_array, []

    def stopping(group, name, **options):
        count.append(name)
        if count.count(array) == 3:
            raise Killed
        return create(group, name, **options)

    with monkeypatch.context() as patch:
        patch.setattr(zarr.Group, "create_array", stopping)
        with pytest.raises(Killed):
            fit(X, **run, checkpoint=place)
    assert len(states(place)) == 3
    alike(fit(X, **run, checkpoint=place), undisturbed)
    assert len(states(place)) == 2


def test_a_full_disk(tmp_path, monkeypatch, X):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zarr.Group, "create_array", full)
    with pytest.raises(StorageError, match=r"checkpoint .* cannot be written.*No space left"):
        fit(X, **RUNS["akkmeans"], checkpoint=tmp_path / "ckpt")


# --- other runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_clusters": 5}, ["n_clusters: 4 there, 5 here"]),
        ({"random_state": 1}, ["seed: 0 there, 1 here"]),
        ({"gamma": 0.3}, ["gamma: 'auto' there, 0.3 here"]),
        ({"max_iter": 9}, ["max_iter: 8 there, 9 here"]),
        ({"kernel": "laplacian"}, ["kernel: None there, 'laplacian' here"]),
        (
            {"kernel": "poly", "degree": 2},
            ["kernel: None there, 'poly' here", "kernel_params: None there, {'degree': 2} here"],
        ),
        ({"landmarks": np.eye(3), "n_landmarks": None}, ["landmarks: None there, 'float64 (3, 3)"]),
        ({"algo": "pakcl", "max_iter": None, "tol": 0}, ["algorithm: 'akkmeans' there, 'pakcl' here"]),
    ],
)
def test_another_call_is_refused(tmp_path, monkeypatch, X, changes, words):
    run, place = RUNS["akkmeans"], tmp_path / "ckpt"
    saves_of(monkeypatch, lambda: fit(X, **run, checkpoint=place), stop_after=2)
    other = {name: value for name, value in {**run, **changes}.items() if value is not None or name == "n_landmarks"}
    stages = []
    with pytest.raises(CheckpointError) as caught:
        fit(X, **other, checkpoint=place, progress=lambda stage, *_: stages.append(stage))
    message = str(caught.value)
    assert str(place) in message
    assert [word for word in words if word not in message] == [], message
    assert "data:" not in message
    assert "delete it to start anew" in message
    assert not [stage for stage in stages if stage.startswith("pass")]
    alike(fit(X, **run, checkpoint=place), fit(X, **run))  # it was left as it was


def test_other_data_are_refused(tmp_path, X):
    run, place, scratch = RUNS["akkmeans"], tmp_path / "ckpt", tmp_path / "scratch"
    fit(X, **run, checkpoint=place)
    for data, word in (
        (X + 1, "(data: other rows)"),
        (X[:-1], "shape: [1500, 3] there, [1499, 3] here"),
        (X.astype(float), "stored dtype: 'float32' there"),
    ):
        with pytest.raises(CheckpointError, match="another run") as caught:
            fit(data, **run, checkpoint=place, scratch=scratch)
        assert word in str(caught.value)
        assert os.listdir(scratch) == []  # of a run that was not to be


def test_a_checkpoint_of_another_version_is_refused(tmp_path, X):
    run, place = RUNS["akkmeans"], tmp_path / "ckpt"
    fit(X, **run, checkpoint=place)
    group = zarr.open_group(place, mode="r+")
    ((mark, told),) = dict(group.attrs).items()
    group.attrs[mark] = {**told, "format": told["format"] + 1}
    with pytest.raises(CheckpointError, match="written by another version of daskkcl; delete it"):
        fit(X, **run, checkpoint=place)


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["akkmeans", "pakcl", "spkfcm", "lcpcl", "spectral", "okfcm"])
def test_a_checkpoint_does_not_grow_with_the_rows(tmp_path, X, name):
    """Four times the rows: the same centres and counts, and what tells where in the order a run is.

    `okfcm` has one level more in its tree of summaries. (The buffer of `skkmeans` grows with the rows as it must.)
    """
    run, sizes = {**ALL_RUNS[name], "scratch": tmp_path}, []
    for times in (1, 4):
        place = tmp_path / f"ckpt-{times}"
        fit(np.tile(X, (times, 1)), **run, checkpoint=place)
        sizes.append(sum(file.stat().st_size for file in place.rglob("*") if file.is_file()))
    assert sizes[0] < 100_000
    assert sizes[1] < (1.5 if name == "okfcm" else 1.1) * sizes[0]


def test_what_does_not_matter(tmp_path, monkeypatch, X, path):
    """Where things are written, what is shown, how the rows are stored: none of it makes another run."""
    run, place = RUNS["akkmeans"], tmp_path / "ckpt"
    saves_of(monkeypatch, lambda: fit(X, **run, checkpoint=place), stop_after=2)
    changed = {
        "memory_limit": "20GiB",
        "scratch": tmp_path,
        "progress": None,
        "out": tmp_path / "out",
        "missing": "fill",
    }
    alike(fit(path, **run, **changed, checkpoint=place), fit(X, **run))


def test_identities_tell_arrays_and_functions_apart():
    long = np.zeros(5000)
    other = long.copy()
    other[2500] = 1  # where numpy's repr has dots
    assert describe(long) != describe(other)
    assert describe(long) == describe(long.tolist())
    assert describe(np.float32(0.5)) == 0.5
    assert describe(daskkcl.kernels.Rbf(2.0)) != describe(daskkcl.kernels.Rbf(3.0))
    assert describe(exp) == describe(exp) != describe(sqrt)
    assert "0x" not in str(describe(daskkcl.kernels.CallableKernel(exp)))
    assert "0x" not in str(describe(exp))


def exp(A, B):
    return np.exp(A @ B.T)


def sqrt(A, B):
    return np.sqrt(A @ B.T)


def test_a_path_is_left_alone_until_the_run_begins(tmp_path, X):
    with pytest.raises(ValueError, match="n_clusters"):
        fit(X, **RUNS["akkmeans"] | {"n_clusters": 0}, checkpoint=tmp_path / "ckpt")
    assert os.listdir(tmp_path) == []


def test_at_a_url(monkeypatch, X):
    run, url = RUNS["akkmeans"], "memory://test_checkpoint/ckpt"
    undisturbed = fit(X, **run)
    saves_of(monkeypatch, lambda: fit(X, **run, checkpoint=url), stop_after=3)
    rest, model = saves_of(monkeypatch, lambda: fit(X, **run, checkpoint=url))
    assert 0 < rest < 8
    alike(model, undisturbed)


def test_a_checkpoint_of_none_does_nothing():
    nothing = Checkpoint(None, {})
    nothing.open()
    nothing.save({"x": np.ones(3)})
    assert nothing.load() is None
    assert saved_seed(None) is None


def test_states_of_all_shapes(tmp_path):
    state = {
        "scalar": np.array(3),
        "flag": np.array(True),
        "empty": np.empty(0),
        "no rows": np.empty((0, 3), dtype=np.float16),
        "zeros": np.zeros((2, 3, 4)),
        "large": np.arange(10**6, dtype=np.int32),
        "big-endian": np.arange(3, dtype=">i4"),
    }
    checkpoint = Checkpoint(tmp_path / "ckpt", {"a": 1})
    checkpoint.save(state)
    for loaded in (checkpoint.load(), Checkpoint(tmp_path / "ckpt", {"a": 1}).load()):
        assert set(loaded) == set(state)
        for name, value in state.items():
            assert_array_equal(loaded[name], value)
            assert loaded[name].shape == value.shape


@pytest.mark.parametrize("nan", ["raise", "drop"])
def test_measurements_in_scratch_are_found_again(tmp_path, monkeypatch, X, nan):
    rows = X.copy()
    if nan == "drop":
        rows[[3, 700]] = np.nan
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=rows, chunks=(20, D))
    make, measured, spill = setup.make_plan, [], measuring.spill_block
    monkeypatch.setattr(setup, "make_plan", lambda *a, **k: make(*a, **{**k, "keep": {}, "spill_bytes": 1}))
    noted = lambda rows, start, *a: measured.append(start) or spill(rows, start, *a)  # noqa: E731
    monkeypatch.setattr("daskkcl.schedules.dataset.spill_block", noted)
    run = {**RUNS["akkmeans"], "scratch": tmp_path / "scratch", "nan": nan, "max_iter": 4}
    undisturbed = fit(path, **run)
    n_blocks = len(measured)
    assert n_blocks >= 1
    assert undisturbed.plan_.keep == "measurements in scratch"
    with pytest.raises(Killed):
        fit(path, **run, checkpoint=tmp_path / "ckpt", progress=Passes(2))
    spilled = sorted(file for file in (tmp_path / "scratch").rglob("measurements-*"))
    assert len(spilled) == n_blocks
    os.truncate(spilled[0], 100)
    measured.clear()
    alike(fit(path, **run, checkpoint=tmp_path / "ckpt"), undisturbed)
    assert len(measured) == 1  # the one that was spoilt
