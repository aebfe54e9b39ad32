"""Drivers that are killed while workers compute for them, and faults of storage that workers meet."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import zarr
from cluster_tools import Processes, count_tasks, labels_at, labels_on_threads, local_cluster, store_rows
from test_faults_storage import Flaky, at_stage, contents, drive, fill_up, nothing_kept, rounds_lost, stages
from zarr.storage import LocalStore, WrapperStore

import daskkcl
from daskkcl.errors import MissingChunkError, OutputError, StorageError
from daskkcl.schedules import setup

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals"),
]

SETTINGS = {"n_clusters": 5, "n_landmarks": 30, "random_state": 0}
RUNS = {
    "akkmeans": {"algo": "akkmeans", "init": "random", "max_iter": 12, "tol": 0},
    "pakcl": {"algo": "pakcl", "subset_size": 200, "max_epochs": 4, "tol": 0},
    "okfcm": {"algo": "okfcm", "chunk_size": 250, "max_iter": 5},
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return store_rows(tmp_path_factory.mktemp("data") / "x.zarr", 40_000, chunk=500)


@pytest.fixture(scope="module")
def client():
    with local_cluster(2) as client:
        yield client


@pytest.fixture
def own(tmp_path, table):
    """A copy of the data that may be spoilt."""
    return shutil.copytree(table, tmp_path / "own.zarr")


# --- the driver ------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("algo", RUNS)
def test_the_driver_is_killed_twenty_times(tmp_path, table, algo):
    """The workers stay, and what they did for those who are gone is forgotten."""
    n_kills, run, folder = 20, {**RUNS[algo], "out": "yes"}, tmp_path / "killed"
    with Processes(tmp_path / "cluster", 2) as cluster, cluster.client() as client:
        client.wait_for_workers(2, timeout=60)
        how = {"keep": False, "scheduler": cluster.file}
        undisturbed, _ = drive(tmp_path / "whole", table, run, n_kills=0, seed=0, pause=0, **how)
        order = stages(undisturbed[0])
        findings, _ = drive(folder, table, run, n_kills=n_kills, seed=5, longest=1.5, pause=0.05, **how)
        assert count_tasks(client) == 0
    assert [finding["code"] for finding in findings].count(-signal.SIGKILL) == n_kills
    lost = rounds_lost(findings, order)
    assert lost <= 1
    outs = [name for name in contents(folder) if name.startswith("out-")]
    assert len(outs) == findings[-1]["round"] + 1
    expected = labels_on_threads(table, progress=False, **SETTINGS, **RUNS[algo])
    for name in outs:
        np.testing.assert_array_equal(labels_at(folder / name), expected)
    assert contents(folder / "scratch") == []
    assert not [name for name in contents(folder) if "lock" in name or "partial" in name]
    print(f"{algo} on a cluster: {n_kills} kills, {len(outs)} results, {lost} round lost at the most")


def test_sigterm_leaves_well(tmp_path, table):
    folder = tmp_path / "ended"
    with Processes(tmp_path / "cluster", 2) as cluster, cluster.client() as client:
        client.wait_for_workers(2, timeout=60)
        how = {"n_kills": 2, "seed": 5, "kill": "SIGTERM", "after": "stage pass", "pause": 0.05}
        findings, errors = drive(folder, table, RUNS["akkmeans"], scheduler=cluster.file, **how)
        assert count_tasks(client) == 0
    assert [finding["code"] for finding in findings] == [143, 143, 0]
    assert "Make the same call again, with checkpoint=" in errors
    assert rounds_lost(findings, [f"pass {i}" for i in range(1, 13)] + ["labelling"]) <= 1
    assert contents(folder / "scratch") == []


# --- what workers read -----------------------------------------------------------------------------------------------


def fit(data, algo, client, **more):
    more = {**SETTINGS, "progress": False, "client": client, **RUNS[algo], **more}
    return daskkcl.fit(data, **more)


def check_same(labels, table, algo):
    np.testing.assert_array_equal(labels, labels_on_threads(table, progress=False, **SETTINGS, **RUNS[algo]))


@pytest.mark.parametrize("algo, stage", [("akkmeans", "pass 2"), ("pakcl", "shuffling"), ("okfcm", "chunks")])
@pytest.mark.parametrize("how", ["truncated", "deleted"])
def test_a_chunk_that_a_worker_cannot_read_is_named(tmp_path, table, own, client, monkeypatch, algo, stage, how):
    """And when it is back, the same call goes on."""
    monkeypatch.setattr(setup, "make_plan", nothing_kept)
    chunk = own / "c" / "41" / "0"
    data = chunk.read_bytes()
    spoil = chunk.unlink if how == "deleted" else lambda: chunk.write_bytes(data[: len(data) // 2])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    more = {"checkpoint": tmp_path / "run.ckpt", "scratch": scratch}
    error, words = (MissingChunkError, "is gone") if how == "deleted" else (StorageError, "cannot be read")
    with pytest.raises(error, match=rf"'c/41/0' of file://.*own.zarr.*{words}"):
        fit(str(own), algo, client, **more, progress=at_stage(stage, spoil, share=-1))
    chunk.write_bytes(data)
    begun = []
    out = tmp_path / "out.zarr"
    fit(str(own), algo, client, **more, out=out, progress=lambda stage, *_: begun.append(stage))
    assert "pass 1" not in begun
    check_same(labels_at(out), table, algo)


READS, FAILED = [], []  # of this process, whatever copies of the store it has


class FlakyThere(WrapperStore):
    """A store of 50 ms latency where every hundredth read of a process fails."""

    async def get(self, key, prototype, byte_range=None):
        READS.append(key)
        number = len(READS)
        await asyncio.sleep(0.05)
        if number % 100 == 50:
            FAILED.append(key)
            raise [ConnectionResetError(104, "reset by peer"), TimeoutError(), OSError(5, "input/output error")][
                len(FAILED) % 3
            ]
        return await self._store.get(key, prototype, byte_range)


def count_reads():
    return len(READS), len(FAILED)


@pytest.mark.parametrize("algo", RUNS)
def test_workers_read_again_what_fails_now_and_then(tmp_path, table, client, monkeypatch, algo):
    monkeypatch.setattr(setup, "make_plan", nothing_kept)
    out = tmp_path / "out.zarr"
    before = np.sum(list(client.run(count_reads).values()), axis=0)
    begin = time.monotonic()
    fit(zarr.open_array(FlakyThere(LocalStore(table, read_only=True)), mode="r"), algo, client, out=out)
    seconds = time.monotonic() - begin
    reads, failed = np.sum(list(client.run(count_reads).values()), axis=0) - before
    print(f"{algo}: {reads} reads of 2 workers, {failed} failed: {seconds:.1f} s")
    assert failed >= 2
    check_same(labels_at(out), table, algo)


def test_a_key_that_a_worker_never_gets_is_named(table, client):
    store = Flaky(LocalStore(table, read_only=True), latency=0, always="c/41/0")
    with pytest.raises(StorageError, match=r"'c/41/0' of .*x.zarr cannot be read, after 6 tries"):
        fit(zarr.open_array(store, mode="r"), "okfcm", client)


# --- what workers write ----------------------------------------------------------------------------------------------


def test_scratch_that_vanishes_under_workers(tmp_path, table, client, monkeypatch):
    monkeypatch.setattr(setup, "make_plan", nothing_kept)
    scratch, out = tmp_path / "scratch", tmp_path / "out.zarr"
    scratch.mkdir()

    def lose():
        sorted(scratch.rglob("run-*"))[0].unlink()

    more = {"scratch": scratch, "checkpoint": tmp_path / "run.ckpt"}
    with pytest.raises(StorageError, match=r"run-000000-.*' is gone"):
        fit(table, "pakcl", client, **more, progress=at_stage("epoch 1", lose, share=-1))
    fit(table, "pakcl", client, **more, out=out)
    check_same(labels_at(out), table, "pakcl")


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 4 MiB, and workers that see it: those that were started before do, it is the same host."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = os.geteuid() == 0 and shutil.which("mount")
    if not made or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], check=False).returncode:
        pytest.skip("needs root and the right to mount a small tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_no_room_for_what_workers_write(tmp_path, table, client, small_disk, monkeypatch):
    """Shuffled rows, then labels: an error that names the file, and the same call goes on when there is room."""
    monkeypatch.setattr(setup, "make_plan", nothing_kept)
    out, filler = small_disk / "out.zarr", Path(small_disk, "filler")
    more = {"scratch": small_disk, "checkpoint": tmp_path / "one.ckpt"}
    full = at_stage("shuffling", lambda: fill_up(small_disk), share=-1)
    with pytest.raises(StorageError, match=r"Scratch file '.*disk.*' cannot be written.*No space left on device"):
        fit(table, "pakcl", client, **more, progress=full)
    filler.unlink()
    fit(table, "pakcl", client, **more)
    fit(table, "akkmeans", client, out=out)
    old = labels_at(out)
    full = at_stage("labelling", lambda: fill_up(small_disk), share=-1)
    with pytest.raises(OutputError, match=r"out.zarr' cannot be written.*No space left on device"):
        fit(table, "okfcm", client, out=out, overwrite=True, progress=full)
    with contextlib.suppress(FileNotFoundError):
        filler.unlink()
    np.testing.assert_array_equal(labels_at(out), old)
    fit(table, "okfcm", client, out=out, overwrite=True)
    check_same(labels_at(out), table, "okfcm")
