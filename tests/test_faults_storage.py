"""Faults of processes and storage: what is stopped goes on, what is lost is noticed, what was there stays."""

import asyncio
import contextlib
import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import zarr
from numpy.testing import assert_array_equal
from zarr.storage import LocalStore, WrapperStore

import daskkcl
from daskkcl.blocks import locks, whole
from daskkcl.blocks.locks import Lock, lives, this_process
from daskkcl.blocks.scratch import Scratch
from daskkcl.errors import (
    CheckpointError,
    DaskkclWarning,
    InUseError,
    InvalidInputError,
    MissingChunkError,
    OutputError,
    StorageError,
)
from daskkcl.planning import make_plan
from daskkcl.schedules import setup
from daskkcl.schedules.checkpoint import Checkpoint

N, D, CHUNK = 40_000, 4, 500
HERE = Path(__file__).parent
pytestmark = [
    pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals"),
]


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return (3 * rng.normal(size=(5, D))[rng.integers(0, 5, N)] + rng.normal(size=(N, D))).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory, X):
    path = str(tmp_path_factory.mktemp("data") / "x.zarr")
    zarr.create_array(path, data=X, chunks=(CHUNK, D))
    return path


@pytest.fixture
def own(tmp_path, path):
    """A copy of the data that may be spoilt."""
    return shutil.copytree(path, tmp_path / "own.zarr")


def fit(data, algo="okfcm", **parameters):
    defaults = {"n_clusters": 5, "n_landmarks": 30, "random_state": 0, "progress": False}
    given = {**defaults, **parameters}
    return daskkcl.fit(data, algo, **{name: value for name, value in given.items() if value is not None})


def written(out):
    group = zarr.open_group(str(out), mode="r")
    assert group.attrs["daskkcl"]["complete"] is True
    return {name: array[:] for name, array in group.arrays()}


def contents(folder):
    return sorted(os.listdir(folder))


def nothing_kept(*args, **how):
    """Make plans that keep nothing in memory, so that every pass reads again."""
    return make_plan(*args, **{**how, "keep": {}, "spill_bytes": 0})


def at_stage(name, call, share=0.3):
    """Return a `progress` that makes a call in the middle of a stage, once."""
    made = []

    def progress(stage, done, total, info):
        if stage == name and done > share * total and not made:
            made.append(1)
            call()

    return progress


def stop():
    raise KeyboardInterrupt


# --- drivers that are killed -----------------------------------------------------------------------------------------

RUNS = {
    "akkmeans": {"algo": "akkmeans", "init": "random", "max_iter": 25, "tol": 0},
    "pakcl": {"algo": "pakcl", "subset_size": 200, "max_epochs": 6, "tol": 0},
    "spkfcm": {"algo": "spkfcm", "chunk_size": 500, "max_iter": 5, "max_passes": 6},
    "spectral": {"algo": "spectral", "init": "random", "max_iter": 20, "tol": 0},
    "lcpcl": {"algo": "lcpcl", "n_clusters": None, "n_seeds": 7, "max_epochs": 8, "tol": 0},
}


def drive(folder, path, parameters, **how):
    (folder / "scratch").mkdir(parents=True)
    given = {"n_clusters": 5, "n_landmarks": 30, "random_state": 0, "scratch": str(folder / "scratch"), **parameters}
    given = {name: value for name, value in given.items() if value is not None}
    arguments = json.dumps({"data": path, "folder": str(folder), "parameters": given, **how})
    found = subprocess.run(
        [sys.executable, str(HERE / "fault_driver.py"), arguments], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr[-3000:]
    return json.loads(found.stdout.splitlines()[-1]), found.stderr


def stages(finding):
    passing = {"sampling", "landmarks", ""}
    return [line[6:] for line in finding["lines"] if line.startswith("stage ") and line[6:] not in passing]


def rounds_lost(findings, order):
    """Return the most stages that a run had to make again which the killed run before it had begun."""
    ahead = [stages(finding) for finding in findings]

    def place(run, number):
        """Where a stage stands in the order: of several of one name, the last before what follows it."""
        later = [*ahead[run][number:], *(name for names in ahead[run + 1 :] for name in names)]
        sure = next((order.index(name) for name in later if order.count(name) == 1), len(order))
        return max(i for i in range(len(order)) if order[i] == later[0] and i <= sure)

    most = 0
    for run, (before, after) in enumerate(pairwise(findings)):
        if before["code"] != 0 and ahead[run] and ahead[run + 1] and before["round"] == after["round"]:
            most = max(most, place(run, len(ahead[run]) - 1) - place(run + 1, 0) + 1)
    return most


def check_killed(tmp_path, path, algo, n_kills, seed):
    run = RUNS[algo]
    undisturbed, _ = drive(tmp_path / "whole", path, {**run, "out": "yes"}, n_kills=0, seed=0, pause=0, keep=False)
    order = stages(undisturbed[0])
    folder = tmp_path / "killed"
    findings, _ = drive(folder, path, {**run, "out": "yes"}, n_kills=n_kills, seed=seed, keep=False)
    assert [finding["code"] for finding in findings].count(-signal.SIGKILL) == n_kills
    assert rounds_lost(findings, order) <= 1
    expected = written(tmp_path / "whole" / "out-0.zarr")
    outs = [name for name in contents(folder) if name.startswith("out-")]
    assert len(outs) == findings[-1]["round"] + 1  # results, and nothing half done
    for name in outs:
        for array, values in written(folder / name).items():
            assert_array_equal(values, expected[array])
    assert contents(folder / "scratch") == []
    assert not [name for name in contents(folder) if "lock" in name or "partial" in name]
    print(f"{algo}: {n_kills} kills, {len(outs)} results, {rounds_lost(findings, order)} round lost at the most")


def test_the_driver_is_killed(tmp_path, path):
    check_killed(tmp_path, path, "akkmeans", n_kills=3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("algo", RUNS)
def test_the_driver_is_killed_twenty_times(tmp_path, path, algo):
    check_killed(tmp_path, path, algo, n_kills=20, seed=2)


def check_writing(tmp_path, path, n_kills, seed):
    run = {"algo": "okfcm", "chunk_size": 2000, "max_iter": 5, "out": "yes"}
    folder = tmp_path / "killed"
    findings, _ = drive(
        folder, path, run, n_kills=n_kills, seed=seed, after="chunk", longest=0.4, pause=0.01, keep=False
    )
    expected = fit(path, "okfcm", chunk_size=2000, max_iter=5)
    wanted = {"labels": expected.labels_.compute(), "membership": expected.membership_.compute()}
    n_results = findings[-1]["round"] + 1
    for number in range(n_results):
        found = written(folder / f"out-{number}.zarr")
        for name, values in wanted.items():
            assert_array_equal(found[name], values)
        files = [file.name for file in (folder / f"out-{number}.zarr").rglob("*") if file.is_file()]
        assert not [name for name in files if "partial" in name]
    assert contents(folder / "scratch") == []
    others = {name for name in contents(folder) if not name.startswith(("log-", "run-", "out-"))}
    assert others == {"scratch"}
    assert not [name for name in contents(folder) if name.endswith(".lock") or "partial" in name]
    chunks = [line for finding in findings for line in finding["lines"] if line.startswith("chunk")]
    n_chunks = len(set(chunks))
    again = len(chunks) - n_results * n_chunks
    assert 0 <= again <= 4 * n_kills  # those under way when it was killed, one or two a thread
    assert not any("stage chunks" in finding["lines"] for finding in findings[1:] if finding["round"] == 0)
    print(f"writing: {n_kills} kills, {n_results} results of {n_chunks} chunks, {again} chunks written again")


@pytest.mark.slow
def test_killed_while_it_writes(tmp_path, path):
    check_writing(tmp_path, path, n_kills=4, seed=3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_fifty_times_while_it_writes(tmp_path, path):
    check_writing(tmp_path, path, n_kills=50, seed=4)


# --- asked to leave --------------------------------------------------------------------------------------------------


def test_sigterm_leaves_well(tmp_path, path):
    run = RUNS["akkmeans"]
    findings, errors = drive(tmp_path / "ended", path, run, n_kills=2, seed=5, kill="SIGTERM", after="stage pass")
    assert [finding["code"] for finding in findings[:2]] == [143, 143]
    assert findings[-1]["code"] == 0
    assert "Make the same call again, with checkpoint=" in errors
    order = [f"pass {i}" for i in range(1, 26)] + ["labelling"]
    for finding in findings:
        finding["lines"] = [line for line in finding["lines"] if line[6:] in order]
    assert rounds_lost(findings, order) <= 1
    assert contents(tmp_path / "ended" / "scratch") == []


def test_ctrl_c_says_how_to_go_on(tmp_path, X):
    """Steps of algorithms in memory take no time, and are saved together: one that is stopped loses none of them."""
    run = {"n_landmarks": None, "n_init": 40, "init": "random", "checkpoint": tmp_path / "run.ckpt"}
    undisturbed = fit(X[:600], "kkmeans", **{**run, "checkpoint": None})
    from daskkcl.schedules import exact

    steps, k_means = [], exact.exact_kernel_k_means

    def watched(K, A, n_rows, max_iter, begin, after):
        def seen(step):
            after(step)
            steps.append(len(step.objective))
            if len(steps) == 30:
                raise KeyboardInterrupt

        return k_means(K, A, n_rows, max_iter, begin, seen)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "exact_kernel_k_means", watched)
        with pytest.raises(KeyboardInterrupt) as caught:
            fit(X[:600], "kkmeans", **run)
        assert "Make the same call again" in caught.value.__notes__[0]
        total = 30
        model = fit(X[:600], "kkmeans", **run)
    assert_array_equal(model.labels_, undisturbed.labels_)
    all_steps = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            exact,
            "exact_kernel_k_means",
            lambda K, A, n, m, begin, after: k_means(K, A, n, m, begin, lambda s: all_steps.append(1)),
        )
        fit(X[:600], "kkmeans", **{**run, "checkpoint": None})
    assert len(steps) == len(all_steps) >= total  # not one step was made again


def test_a_program_keeps_its_own_handler(tmp_path, X):
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
    try:
        send = at_stage("epoch 1", lambda: os.kill(os.getpid(), signal.SIGTERM))
        fit(X, "pakcl", checkpoint=tmp_path / "run.ckpt", progress=send)
        assert seen == [1]
    finally:
        signal.signal(signal.SIGTERM, before)
    fit(X, "pakcl", checkpoint=tmp_path / "run.ckpt")
    assert signal.getsignal(signal.SIGTERM) is before


# --- data that are lost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ["akkmeans", "pakcl"])
def test_a_truncated_chunk_is_named_and_the_run_goes_on_when_it_is_back(tmp_path, path, own, algo):
    chunk = own / "c" / "7" / "0"
    data = chunk.read_bytes()
    stage = {"akkmeans": "pass 2", "pakcl": "shuffling"}[algo]
    run = {"max_iter": 6, "init": "random", "tol": 0} if algo == "akkmeans" else {}
    with pytest.MonkeyPatch.context() as patch:  # read again in every pass
        patch.setattr(setup, "make_plan", nothing_kept)
        spoil = at_stage(stage, lambda: chunk.write_bytes(data[: len(data) // 2]), share=-1)
        with pytest.raises(StorageError, match=r"'c/7/0' of file://.*own.zarr.*cannot be read"):
            fit(str(own), algo, **run, checkpoint=tmp_path / "run.ckpt", progress=spoil)
        chunk.write_bytes(data)
        passes = []
        model = fit(
            str(own), algo, **run, checkpoint=tmp_path / "run.ckpt", progress=lambda stage, *_: passes.append(stage)
        )
    assert "pass 1" not in passes
    assert_array_equal(model.labels_.compute(), fit(path, algo, **run).labels_.compute())


@pytest.mark.parametrize("missing", ["raise", "warn"])
def test_a_chunk_that_is_deleted_on_the_way(own, monkeypatch, missing):
    """Absent chunks are counted at the beginning; one that goes later is never read as the fill value."""
    monkeypatch.setattr(setup, "make_plan", nothing_kept)
    lose = at_stage("chunks", (own / "c" / "33" / "0").unlink, share=-1)
    with pytest.raises(MissingChunkError, match=r"'c/33/0' of file://.*own.zarr is gone"):
        fit(str(own), missing=missing, progress=lose)


def test_a_chunk_that_was_deleted_before(own):
    (own / "c" / "33" / "0").unlink()
    with pytest.raises(MissingChunkError, match="'c/33/0'"):
        fit(str(own), missing="raise")
    with pytest.warns(DaskkclWarning, match="1 of 80 chunks"):
        fit(str(own))


# --- checkpoints that are damaged ------------------------------------------------------------------------------------


def test_a_truncated_checkpoint(tmp_path, path):
    place = tmp_path / "run.ckpt"
    run = {"init": "random", "max_iter": 8, "tol": 0}
    undisturbed = fit(path, "akkmeans", **run)
    with pytest.raises(KeyboardInterrupt):
        fit(path, "akkmeans", **run, checkpoint=place, progress=at_stage("pass 5", stop))
    latest, before = sorted((name for name in contents(place) if name.startswith("state")), reverse=True)
    chunk = place / latest / "means" / "c" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-9])
    passes = []
    words = rf"state '{latest}' of .*run.ckpt' is damaged; the one before it, {before}"
    with pytest.warns(DaskkclWarning, match=words):
        model = fit(path, "akkmeans", **run, checkpoint=place, progress=lambda stage, *_: passes.append(stage))
    assert next(stage for stage in passes if stage.startswith("pass")) == "pass 4"
    assert_array_equal(model.labels_.compute(), undisturbed.labels_.compute())

    (place / "zarr.json").write_text((place / "zarr.json").read_text()[:40])
    with pytest.raises(CheckpointError, match=r"run.ckpt' that is no checkpoint"):
        fit(path, "akkmeans", **run, checkpoint=place)


def test_a_damaged_part_is_made_again(tmp_path, path):
    run = {"map": "nyncut", "init": "random", "max_iter": 3, "tol": 0, "checkpoint": tmp_path / "run.ckpt"}
    with pytest.raises(KeyboardInterrupt):
        fit(path, "akkmeans", **run, progress=at_stage("pass 2", stop))
    part = next(name for name in contents(tmp_path / "run.ckpt") if name.startswith("part-map"))
    chunk = next(file for file in (tmp_path / "run.ckpt" / part).rglob("0") if file.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-3])
    with pytest.warns(DaskkclWarning, match=rf"{part}' of .* is damaged; it is made again"):
        model = fit(path, "akkmeans", **run)
    assert_array_equal(model.labels_.compute(), fit(path, "akkmeans", **{**run, "checkpoint": None}).labels_.compute())


# --- what is ours and vanishes ---------------------------------------------------------------------------------------


def test_codes_deleted_behind_our_back(tmp_path, path):
    run = {"init": "random", "max_iter": 4, "tol": 0, "scratch": tmp_path / "scratch", "nan": "drop"}
    (tmp_path / "scratch").mkdir()
    place = tmp_path / "run.ckpt"

    def lose():
        next(file for file in (tmp_path / "scratch").rglob("codes.zarr/c/*/0")).unlink()

    with pytest.raises(MissingChunkError, match=r"of file://.*codes.zarr is gone"):
        fit(path, "spectral", **run, checkpoint=place, progress=at_stage("pass 2", lose))
    stages_ = []
    model = fit(path, "spectral", **run, checkpoint=place, progress=lambda stage, *_: stages_.append(stage))
    assert "nearest landmarks" in stages_  # made again
    assert_array_equal(model.labels_.compute(), fit(path, "spectral", **run).labels_.compute())


def test_a_shuffle_deleted_behind_our_back(tmp_path, path):
    def lose():
        sorted((tmp_path / "scratch").rglob("run-*"))[0].unlink()

    run = {"scratch": tmp_path / "scratch", "subset_size": 100, "max_epochs": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "make_plan", nothing_kept)
        with pytest.raises(StorageError, match=r"run-000000-.*' is gone"):
            fit(path, "pakcl", **run, checkpoint=tmp_path / "ckpt", progress=at_stage("epoch 1", lose, share=-1))
        model = fit(path, "pakcl", **run, checkpoint=tmp_path / "ckpt")
    assert_array_equal(model.labels_.compute(), fit(path, "pakcl", **run).labels_.compute())


def test_an_output_chunk_deleted_behind_our_back(tmp_path, path, monkeypatch):
    """While it is written it is made again; afterwards it reads as no label at all."""
    out, count = tmp_path / "out.zarr", []
    compute = daskkcl.schedules.engine.Engine.compute

    def losing(engine, values):
        result = compute(engine, values)
        if not count:
            count.append(1)
            next(file for file in tmp_path.glob("out.zarr.partial-*/labels/c/3")).unlink()
        return result

    monkeypatch.setattr(daskkcl.schedules.engine.Engine, "compute", losing)
    model = fit(path, "akkmeans", out=out)
    assert count == [1]
    assert_array_equal(written(out)["labels"], model.labels_.compute())
    (out / "labels" / "c" / "3").unlink()
    rows = zarr.open_array(out / "labels", mode="r").chunks[0]
    lost = zarr.open_array(out / "labels", mode="r")[3 * rows : 4 * rows]
    assert (lost < -1).all()
    damaged = out / "labels" / "c" / "2"
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(Exception, match=r"(?i)checksum|crc"):
        zarr.open_array(out / "labels", mode="r")[2 * rows : 3 * rows]


# --- full disks ------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    made = os.geteuid() == 0 and shutil.which("mount")
    if not made or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], check=False).returncode:
        pytest.skip("needs root and the right to mount a small tmpfs")
    try:
        yield folder
    finally:
        gc.collect()
        subprocess.run(["umount", "-l", folder], check=True)


def fill_up(folder):
    file = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(file, b"0" * 4096):
            pass
    os.close(file)


def test_no_room_for_scratch(tmp_path, path, small_disk):
    run = {"scratch": small_disk, "subset_size": 100, "max_epochs": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "make_plan", nothing_kept)
        full = at_stage("shuffling", lambda: fill_up(small_disk))
        with pytest.raises(StorageError, match=r"Scratch file '.*disk.*' cannot be written.*No space left on device"):
            fit(path, "pakcl", **run, checkpoint=tmp_path / "run.ckpt", progress=full)
        with pytest.raises(StorageError, match=r"Scratch needs .* and .*disk' has"):  # before anything is read
            fit(path, "pakcl", **run)
        (small_disk / "filler").unlink()
        model = fit(path, "pakcl", **run, checkpoint=tmp_path / "run.ckpt")
    assert_array_equal(model.labels_.compute(), fit(path, "pakcl", **{**run, "scratch": None}).labels_.compute())
    del model
    gc.collect()
    assert contents(small_disk) == []


@pytest.mark.parametrize("with_checkpoint", [False, True], ids=["plain", "checkpoint"])
def test_no_room_for_the_output(tmp_path, path, small_disk, with_checkpoint):
    out = small_disk / "out.zarr"
    old = fit(path, "akkmeans", out=out).labels_.compute()
    place = {"checkpoint": tmp_path / "run.ckpt"} if with_checkpoint else {}
    full = at_stage("labelling", lambda: fill_up(small_disk))
    with pytest.raises(OutputError, match=r"out.zarr' cannot be written.*No space left on device"):
        fit(path, "okfcm", out=out, overwrite=True, progress=full, **place)
    assert_array_equal(written(out)["labels"], old)
    assert with_checkpoint or contents(small_disk) == ["filler", "out.zarr"]
    (small_disk / "filler").unlink()
    model = fit(path, "okfcm", out=out, overwrite=True, **place)
    assert_array_equal(written(out)["labels"], model.labels_.compute())
    assert_array_equal(written(out)["membership"], model.membership_.compute())
    assert contents(small_disk) == ["out.zarr"]


def test_no_room_for_the_checkpoint(path, small_disk):
    place = small_disk / "run.ckpt"
    run = {"init": "random", "max_iter": 5, "tol": 0}
    with pytest.raises(StorageError, match=r"checkpoint '.*run.ckpt' cannot be written.*No space left"):
        fit(path, "akkmeans", **run, checkpoint=place, progress=at_stage("pass 4", lambda: fill_up(small_disk)))
    (small_disk / "filler").unlink()
    passes = []
    model = fit(path, "akkmeans", **run, checkpoint=place, progress=lambda stage, *_: passes.append(stage))
    assert not {"pass 1", "pass 2", "pass 3"} & set(passes)
    assert_array_equal(model.labels_.compute(), fit(path, "akkmeans", **run).labels_.compute())


# --- two at once -----------------------------------------------------------------------------------------------------


HOLDER = """
import sys, time
from daskkcl.blocks.locks import Lock
Lock(sys.argv[1], "its results").take()
print("held", flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def held_by_another(path):
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"held\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_second_run_is_refused(tmp_path, X):
    out, place = tmp_path / "out.zarr", tmp_path / "run.ckpt"
    for name in (out, place):
        with held_by_another(name) as other:
            with pytest.raises(InUseError, match=rf"in use: process {other.pid} on {socket.gethostname()}"):
                fit(X, "akkmeans", out=out, checkpoint=place)
            assert f"{name.name}.lock" in contents(tmp_path)
            assert {"out.zarr", "run.ckpt"}.isdisjoint(contents(tmp_path))
    fit(X, "akkmeans", out=out, checkpoint=place)  # the owner was killed: its lock is nobody's
    assert contents(tmp_path) == ["out.zarr", "run.ckpt"]


def test_two_at_once_in_one_process(tmp_path, X):
    caught = []

    def second():
        for other in ({"out": tmp_path / "out.zarr"}, {"checkpoint": tmp_path / "run.ckpt"}):
            with pytest.raises(InUseError) as error:
                fit(X[:500], "akkmeans", **other)
            caught.append(error)

    def at_once():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()

    begin = at_stage("epoch 1", at_once)
    model = fit(X, "pakcl", out=tmp_path / "out.zarr", checkpoint=tmp_path / "run.ckpt", progress=begin)
    assert len(caught) == 2
    assert_array_equal(written(tmp_path / "out.zarr")["labels"], model.labels_)


@pytest.mark.parametrize("place", ["file", "memory"])
def test_locks_of_others(tmp_path, monkeypatch, place):
    name = f"memory://test_locks/{tmp_path.name}" if place == "memory" else str(tmp_path / "a")

    def leave(**changes):
        lock = Lock(name, "it")
        lock.take()
        lock._record |= changes
        lock._write()
        lock._given_back.set()  # as if its process were gone
        if lock._descriptor is not None:
            os.close(lock._descriptor)

    def refused():
        try:
            with Lock(name, "it"):
                return False
        except InUseError:
            return True

    assert not refused()
    leave(host="elsewhere", boot="another", time=time.time())
    assert refused()  # on another host, and of now
    monkeypatch.setattr(locks, "_RECENT", -1.0)
    assert not refused()  # on another host, not renewed for long
    leave(pid=2**22 + 1)
    assert not refused()  # no such process here
    leave(began=1.0)
    assert not refused()  # a process of that number, and a younger one
    leave(boot="another")
    assert not refused()  # before this host was started anew
    if place == "memory":
        leave()
        assert refused()  # this very process
    else:
        Path(f"{name}.lock").write_text("no record")
        assert not refused()


def test_a_lock_is_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_RENEWED", 0.01)
    before = threading.active_count()
    with Lock(tmp_path / "a", "it"):
        first = json.loads((tmp_path / "a.lock").read_text())["time"]
        deadline = time.monotonic() + 20
        while json.loads((tmp_path / "a.lock").read_text())["time"] == first and time.monotonic() < deadline:
            time.sleep(0.01)
        assert json.loads((tmp_path / "a.lock").read_text())["time"] > first
    assert contents(tmp_path) == []
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_what_killed_processes_left_is_put_in_order(tmp_path, X):
    dead = {**this_process(), "pid": 2**22 + 1}
    scratch, there = tmp_path / "scratch", str(tmp_path / "ckpt")
    fit(X, "akkmeans", checkpoint=there)
    run = Checkpoint(there).run
    folders = [("daskkcl-a", None), ("daskkcl-b", str(tmp_path / "none"))]
    for name, checkpoint in (*folders, ("daskkcl-0123456789abcdef", there), (f"daskkcl-{run}", there)):
        (scratch / name).mkdir(parents=True)
        (scratch / name / ".owner.json").write_text(json.dumps({**dead, "checkpoint": checkpoint}))
    (scratch / "daskkcl-d").mkdir()
    (scratch / "daskkcl-d" / ".owner.json").write_text(json.dumps({**this_process(), "checkpoint": None}))
    (scratch / "mine").mkdir()
    out = tmp_path / "out.zarr"
    old = fit(X, "akkmeans", out=out).labels_
    out.rename(tmp_path / "out.zarr.partial-1-old")  # killed between two renames
    (tmp_path / "out.zarr.partial-2").mkdir()
    with pytest.raises(OutputError, match="exists"):
        fit(X, "pakcl", out=out, scratch=scratch)
    assert_array_equal(written(out)["labels"], old)
    fit(X, "pakcl", out=out, overwrite=True, scratch=scratch)
    gc.collect()
    # one of a run that has a checkpoint, one that lives
    assert contents(scratch) == sorted([f"daskkcl-{run}", "daskkcl-d", "mine"])
    assert contents(tmp_path) == ["ckpt", "out.zarr", "scratch"]


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="what a clock does to psutil it does on Linux")
def test_who_sets_the_clock_removes_nobodys_folder(tmp_path, monkeypatch):
    import psutil

    scratch, real = Scratch(tmp_path), psutil._pslinux.boot_time
    began = psutil.Process().create_time()
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: real() + 100)
    assert psutil.Process().create_time() > began + 50
    assert lives(this_process())
    Scratch(tmp_path)
    assert os.path.isdir(scratch.path)
    assert lives({**this_process(), "began": this_process()["began"] + 2}) is False  # another one of its number


def test_killed_while_it_made_its_checkpoint(tmp_path, path):
    """It is there, and not yet whose it is: the next call is another run, and nobody goes on with this one's folder."""
    code = """
import os, signal, sys, daskkcl, zarr
real = zarr.open_group
def open_group(path, mode="r", **more):
    group = real(path, mode=mode, **more)
    if sys.argv[3] == "kill" and str(path).endswith("ckpt") and mode == "a":
        os.kill(os.getpid(), signal.SIGKILL)
    return group
zarr.open_group = open_group
given = {"scratch": sys.argv[2] + "/scratch", "checkpoint": sys.argv[2] + "/ckpt", "n_landmarks": 30}
daskkcl.fit(sys.argv[1], "akkmeans", 5, random_state=0, progress=False, **given)
"""
    codes = [
        subprocess.run([sys.executable, "-c", code, str(path), str(tmp_path), how], check=False).returncode
        for how in ("kill", "let live")
    ]
    assert codes == [-signal.SIGKILL, 0]
    assert contents(tmp_path / "scratch") == []


def test_scratch_from_before_the_host_was_started_anew_is_not_believed(tmp_path):
    kept = Scratch(tmp_path, run="abc", checkpoint=str(tmp_path))
    Path(kept.file("labels")).write_bytes(b"1")
    again = Scratch(tmp_path, run="abc", checkpoint=str(tmp_path))
    assert contents(again.path) == [".owner.json", "labels"]
    Path(kept.file(".owner.json")).write_text(json.dumps({**this_process(), "boot": "another"}))
    assert contents(Scratch(tmp_path, run="abc").path) == [".owner.json"]


def test_overwrite_without_out(X):
    with pytest.raises(InvalidInputError, match="overwrite=True goes with out="):
        fit(X, overwrite=True)


# --- stores that fail ------------------------------------------------------------------------------------------------


class Flaky(WrapperStore):
    """A store of 50 ms latency where every hundredth read fails, and reads of some keys always do."""

    def __init__(self, store, latency=0.05, always=""):
        super().__init__(store)
        self.latency, self.always, self.reads, self.failed = latency, always, 0, 0

    def _with_store(self, store):
        other = type(self)(store, self.latency, self.always)
        other.__dict__ = self.__dict__  # counts in common
        return other

    async def get(self, key, prototype, byte_range=None):
        self.reads += 1
        number = self.reads
        await asyncio.sleep(self.latency)
        if number % 100 == 50 or (self.always and key.endswith(self.always)):
            self.failed += 1
            raise [ConnectionResetError(104, "reset by peer"), TimeoutError(), OSError(5, "input/output error")][
                number % 3
            ]
        return await self._store.get(key, prototype, byte_range)


@pytest.mark.parametrize(
    "algo", ["okfcm", pytest.param("pakcl", marks=pytest.mark.slow), pytest.param("akkmeans", marks=pytest.mark.slow)]
)
def test_a_store_where_one_read_in_a_hundred_fails(path, monkeypatch, algo):
    store = Flaky(LocalStore(path, read_only=True))
    monkeypatch.setattr(setup, "make_plan", nothing_kept)
    model = fit(zarr.open_array(store, mode="r"), algo)
    labels = model.labels_.compute()
    print(f"{algo}: {store.reads} reads, {store.failed} failed")
    assert store.failed >= 2
    assert store.failed <= 0.02 * store.reads
    assert_array_equal(labels, fit(path, algo).labels_.compute())


def test_a_key_that_always_fails_is_named(path):
    store = Flaky(LocalStore(path, read_only=True), latency=0, always="c/41/0")
    began = time.monotonic()
    with pytest.raises(StorageError, match=r"'c/41/0' of .*x.zarr cannot be read, after 6 tries"):
        fit(zarr.open_array(store, mode="r"))
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    "error", [PermissionError(13, "no"), OSError(28, "full"), ValueError("damaged"), KeyError("x")]
)
def test_what_does_not_pass_is_not_tried_again(error):
    assert not whole.is_passing(error)


class ClientPayloadError(Exception):
    """Named as aiohttp's is."""


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError(), OSError(5, "io"), ClientPayloadError()])
def test_what_may_pass_is_tried_again(error):
    assert whole.is_passing(error)
    tries = []

    def call():
        tries.append(1)
        if len(tries) < 3:
            raise error
        return "done"

    assert whole.try_again(call) == "done"


def test_killed_while_scratch_settles(tmp_path, monkeypatch):
    """Between its last two steps a run that is done leaves a folder that the next run knows for nobody's."""
    (tmp_path / "run.ckpt").mkdir()
    kept = Scratch(tmp_path, run="abc", checkpoint=str(tmp_path / "run.ckpt"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", lambda *_: stop())
        with pytest.raises(KeyboardInterrupt):
            kept.settle("labels")
    owner = json.loads(Path(kept.file(".owner.json")).read_text())
    Path(kept.file(".owner.json")).write_text(json.dumps({**owner, "pid": 2**22 + 1}))
    Scratch(tmp_path).close()
    assert contents(tmp_path) == ["run.ckpt"]


def test_killed_while_scratch_is_removed(tmp_path, monkeypatch):
    """What says whose a folder is goes last; one that is empty and nobody's goes when it is not new."""
    scratch = Scratch(tmp_path)
    for name in ("a", "b", "labels"):
        Path(scratch.file(name)).write_bytes(b"1")
    remove, left = os.remove, iter(range(10))

    def killed(path, **how):
        if next(left) == 1:
            stop()
        remove(path, **how)

    with monkeypatch.context() as patch:
        patch.setattr(os, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            scratch.close()
    owner = Path(scratch.file(".owner.json"))
    owner.write_text(json.dumps({**json.loads(owner.read_text()), "pid": 2**22 + 1}))
    for name, age in (("daskkcl-new", 0), ("daskkcl-old", 100)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age, time.time() - age))
    Scratch(tmp_path).close()
    assert contents(tmp_path) == ["daskkcl-new"]
