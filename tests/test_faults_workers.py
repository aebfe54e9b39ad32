"""Workers and schedulers that die in the middle of a run: the same labels, or an error that says what to do."""

import gc
import os
import signal
import threading
import time
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import psutil
import pytest
import zarr
from cluster_tools import (
    FATAL,
    Background,
    Bumpy,
    Processes,
    count_tasks,
    labels_at,
    labels_on_threads,
    local_cluster,
    make_rows,
    pids,
    store_rows,
    wait_until,
)

import daskkcl
from daskkcl.errors import KilledWorkerError, LostSchedulerError
from daskkcl.random import as_key
from daskkcl.schedules.cluster import Cluster
from daskkcl.schedules.graph import Graph

pytest.importorskip("distributed")

N_ROWS = 40_000
SETTINGS = {"n_clusters": 5, "n_landmarks": 40, "random_state": 0, "progress": False}
MORE = {"akkmeans": {"max_iter": 6}, "okfcm": {"chunk_size": 500}, "pakcl": {"subset_size": 500, "max_epochs": 2}}
OTHERS = {
    "spkfcm": {"chunk_size": 2_000},
    "rsekfcm": {},
    "akcl": {"max_epochs": 1},
    "lcpcl": {"n_clusters": None, "n_seeds": 7, "max_epochs": 2},
    "skkmeans": {"n_landmarks": None, "buffer_size": 40},
}


def settings_of(algo):
    settings = {**SETTINGS, **(MORE | OTHERS)[algo]}
    return {name: value for name, value in settings.items() if value is not None}


@pytest.fixture
def table(tmp_path):
    return store_rows(tmp_path / "x.zarr", N_ROWS)


@pytest.fixture
def kernel(tmp_path):
    (tmp_path / "marks").mkdir()
    return Bumpy(tmp_path / "marks", seconds=0.02)


def fit_in_background(table, algo, kernel, client, out, **more):
    settings = {**settings_of(algo), "kernel": kernel, "client": client, "out": out, **more}
    return Background(lambda: daskkcl.fit(table, algo, **settings))


def check_labels(table, algo, out):
    quick = Bumpy(".", 0.0)
    expected = labels_on_threads(table, algo, **settings_of(algo), kernel=quick)
    np.testing.assert_array_equal(labels_at(out), expected)


def in_the_middle(run, kernel, workers, calls=25):
    """Wait until the workers have met some blocks."""
    wait_until(lambda: kernel.calls(workers) >= calls or not run.is_alive())
    assert run.is_alive(), f"it is over: {run.error!r}"


@pytest.mark.parametrize(
    "algo, n_workers",
    [
        pytest.param("akkmeans", 2),
        *(pytest.param(algo, 2, marks=pytest.mark.slow) for algo in ("okfcm", "pakcl", *OTHERS)),
        *(pytest.param(algo, 4, marks=pytest.mark.slow) for algo in MORE),
    ],
)
def test_one_worker_is_killed(table, kernel, tmp_path, algo, n_workers):
    with local_cluster(n_workers) as client:
        workers = pids(client)
        run = fit_in_background(table, algo, kernel, client, tmp_path / "out.zarr")
        in_the_middle(run, kernel, workers.values())
        os.kill(next(iter(workers.values())), signal.SIGKILL)
        run.result()
        assert len(set(pids(client).values()) & set(workers.values())) == n_workers - 1
        print(f"one of {n_workers} killed, {algo}: {run.seconds:.1f} s")
        run.answer = None
        assert count_tasks(client) == 0
    check_labels(table, algo, tmp_path / "out.zarr")


def fit_while_all_are_killed(client, table, algo, kernel, out):
    """Return a run that was over after all its workers were killed in the middle of it, and their processes."""
    workers = set(pids(client).values())
    run = fit_in_background(table, algo, kernel, client, out)
    in_the_middle(run, kernel, workers)
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    run.result()
    return run, workers


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [2, 4])
@pytest.mark.parametrize("algo", list(MORE))
def test_all_workers_are_killed_at_once(table, kernel, tmp_path, algo, n_workers):
    with local_cluster(n_workers) as client:
        run, workers = fit_while_all_are_killed(client, table, algo, kernel, tmp_path / "out.zarr")
        assert not set(pids(client).values()) & workers
        print(f"all {n_workers} killed, {algo}: {run.seconds:.1f} s")
    check_labels(table, algo, tmp_path / "out.zarr")


@pytest.mark.slow
@pytest.mark.parametrize("algo", list(MORE))
def test_tasks_that_were_with_all_who_died_are_no_killers(table, kernel, tmp_path, algo):
    """The scheduler learns of deaths one by one, and hands the work of one dead worker to the next."""
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}), local_cluster(4) as client:
        run, _ = fit_while_all_are_killed(client, table, algo, kernel, tmp_path / "out.zarr")
        run.answer = None
        print(f"all 4 killed, one failure allowed, {algo}: {run.seconds:.1f} s")
        assert count_tasks(client) == 0
    check_labels(table, algo, tmp_path / "out.zarr")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workers_are_killed_ten_times_while_they_write_labels(table, kernel, tmp_path):
    """Two of them in each run, when chunks of labels are there: no torn one, and nothing beside the result."""
    settings, kills, seconds = {**settings_of("okfcm"), "kernel": kernel}, 0, []
    rng = np.random.default_rng(0)
    scratch, results = tmp_path / "scratch", tmp_path / "results"
    scratch.mkdir()
    results.mkdir()
    expected = labels_on_threads(table, "okfcm", **{**settings, "kernel": Bumpy(".")})
    with local_cluster(2) as client:
        while kills < 10:
            out, writing = results / f"{kills}.zarr", threading.Event()
            noted = lambda stage, done, *_: writing.set() if stage == "labelling" and done else None  # noqa: B023, E731
            more = {"client": client, "out": out, "scratch": scratch, "progress": noted}
            run = Background(lambda: daskkcl.fit(table, "okfcm", **{**settings, **more}))  # noqa: B023
            wait_until(lambda: writing.is_set() or not run.is_alive())  # noqa: B023
            for _ in range(2):
                time.sleep(0.2 * rng.random())
                assert run.is_alive(), f"it is over: {run.error!r}"
                os.kill(rng.choice(list(alive(client))), signal.SIGKILL)
                kills += 1
            run.result()
            seconds.append(run.seconds)
            run.answer = None  # lazy labels lie in scratch as long as the model is there
            np.testing.assert_array_equal(labels_at(out), expected)
            gc.collect()
            assert os.listdir(scratch) == []
            assert sorted(os.listdir(results)) == sorted({*os.listdir(results)} & {f"{n}.zarr" for n in range(kills)})
            names = [file.name for file in out.rglob("*") if file.is_file()]
            assert not [name for name in names if name != "zarr.json" and not name.isdecimal()]
        assert count_tasks(client) == 0
    print(f"{kills} kills while {len(seconds)} runs wrote labels: {max(seconds):.1f} s at the most")


def alive(client):
    """Processes of workers that nannies have at this moment."""
    nannies = client.cluster.workers.values()
    return wait_until(lambda: [nanny.process.pid for nanny in nannies if nanny.process and nanny.process.pid])


@pytest.mark.slow
@pytest.mark.parametrize("what", ["lasting", "kept", "value", "run"])
def test_the_holder_is_killed(table, kernel, tmp_path, what):
    """Of landmarks (lasting), measurements (kept), centres (value), or who wrote scratch (run)."""
    algo = "pakcl" if what == "run" else "akkmeans"
    more = {"scratch": str(tmp_path / "scratch")} if what == "run" else {}
    prefix = {"lasting": "lasting-", "kept": "measure_block-", "value": "value-", "run": "write_run-"}[what]
    with local_cluster(3) as client:
        workers = pids(client)
        client.get_task_stream()  # from now on there is a record of who did what
        run = fit_in_background(table, algo, kernel, client, tmp_path / "out.zarr", **more)
        if what != "run":
            in_the_middle(run, kernel, workers.values())  # rows are being measured; passes over what is kept follow

        def holder():
            if what == "run":  # what it wrote is in scratch; the scheduler forgets the task at once
                wrote = [record["worker"] for record in client.get_task_stream() if prefix in str(record["key"])]
                return wrote and wrote[0]
            held = client.has_what()
            found = [w for w, keys in held.items() if any(str(key).lstrip("('").startswith(prefix) for key in keys)]
            return found and found[0]

        killed = wait_until(lambda: holder() or not run.is_alive())
        assert run.is_alive(), f"it is over: {run.error!r}"
        os.kill(workers[killed], signal.SIGKILL)
        run.result()
        print(f"holder of {what} killed: {run.seconds:.1f} s")
    check_labels(table, algo, tmp_path / "out.zarr")


@pytest.mark.slow
@pytest.mark.parametrize("algo", list(MORE))
def test_the_scheduler_is_killed_and_a_new_one_goes_on(table, kernel, tmp_path, algo):
    more = {"checkpoint": str(tmp_path / "run.ckpt")}
    with Processes(tmp_path / "one", 2) as cluster:
        client = cluster.client()
        client.wait_for_workers(2, timeout=60)
        run = fit_in_background(table, algo, kernel, client, tmp_path / "out.zarr", **more)
        in_the_middle(run, kernel, pids(client).values(), 40 if algo == "akkmeans" else 50)  # all rows are measured
        os.kill(cluster.scheduler.pid, signal.SIGKILL)
        killed = time.monotonic()
        with pytest.raises(LostSchedulerError, match="checkpoint="):
            run.result()
        seconds = time.monotonic() - killed
        assert seconds < 60
        client.close(timeout=1)
    assert not (tmp_path / "out.zarr").exists()
    with Processes(tmp_path / "two", 2) as cluster, cluster.client() as client:
        run = fit_in_background(table, algo, kernel, client, tmp_path / "out.zarr", **more)
        run.result()
        print(f"scheduler killed, {algo}: error after {seconds:.1f} s, resumed in {run.seconds:.1f} s")
    check_labels(table, algo, tmp_path / "out.zarr")


@pytest.mark.slow
@pytest.mark.parametrize(
    "algo, lazy",
    [("akkmeans", False), ("okfcm", False), ("akkmeans", True)]
    + [(algo, False) for algo in ("pakcl", "dealt", "akcl", "spkfcm", "skkmeans")],
)
def test_a_block_that_kills_its_worker_is_named(tmp_path, request, algo, lazy):
    if algo == "dealt":
        request.getfixturevalue("small_subsets_dealt")
    rows, fatal = make_rows(N_ROWS), 23_456
    key = as_key(0).child("order", 0)
    assert fatal not in key.rows(N_ROWS, 0, 2000)  # the sample is measured here
    rows[fatal, 0] = FATAL
    path = str(tmp_path / "x.zarr")
    zarr.create_array(path, data=rows, chunks=(2_700, 8))
    data = da.from_zarr(path, chunks=(3_100, 8)) if lazy else path
    settings = {**SETTINGS, **MORE.get(algo, {}), **({"subset_size": 20_000} if algo == "dealt" else {})}
    if algo == "skkmeans":
        settings["buffer_size"] = settings.pop("n_landmarks")
    with local_cluster(2) as client:
        begin = time.monotonic()
        with pytest.raises(KilledWorkerError, match=r"rows .* has killed 4 workers") as found:
            daskkcl.fit(data, "pakcl" if algo == "dealt" else algo, **settings, kernel=Bumpy("."), client=client)
        seconds = time.monotonic() - begin
        if found.value.rows is None:
            numbers = found.value.row_numbers
        else:
            numbers = np.arange(*found.value.rows)
        assert fatal in numbers
        assert len(numbers) < N_ROWS // 2
        assert seconds < 60
        print(f"fatal block, {algo}, {'dask' if lazy else 'zarr'}: named {len(numbers)} rows after {seconds:.1f} s")


def test_all_blocks_that_every_dead_worker_had_are_named():
    """dask gives up all of them at once, and raises for any: the one that did it must be among those that are named."""
    from distributed import KilledWorker

    graph = Graph()
    keys = [graph.call(range, number) for number in range(3)]
    for number, key in enumerate(keys):
        graph.about[key] = (1000 * number, 1000 * number + 1000)
    tasks = {key: SimpleNamespace(suspicious=number + 2) for number, key in enumerate(keys)}
    scheduler = SimpleNamespace(tasks=tasks)
    client = SimpleNamespace(
        status="running", run_on_scheduler=lambda call, *arguments: call(*arguments, dask_scheduler=scheduler)
    )
    error = KilledWorker(keys[1], SimpleNamespace(address="tcp://a:1"), 2)
    named = Cluster(client)._translated(error, graph)
    assert isinstance(named, KilledWorkerError)
    assert named.rows == (1000, 3000)
    assert "rows 1,000 to 2,000 or 2,000 to 3,000 has killed 3 workers" in str(named)


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["akkmeans", "pakcl"])
def test_a_worker_that_stands_still_for_20_seconds(table, kernel, tmp_path, algo):
    """As good as cut off: no heartbeat, no answer, connections open. (Without a network: see test_multinode.)"""
    with local_cluster(2) as client:
        workers = pids(client)
        run = fit_in_background(table, algo, kernel, client, tmp_path / "out.zarr")
        in_the_middle(run, kernel, workers.values())
        still = next(iter(workers.values()))
        os.kill(still, signal.SIGSTOP)
        time.sleep(20)
        os.kill(still, signal.SIGCONT)
        run.result()
        print(f"worker still for 20 s, {algo}: {run.seconds:.1f} s")
    check_labels(table, algo, tmp_path / "out.zarr")


def spilled_so_far(dask_worker):
    """Return what a worker has written to disk, or read from it, since it was started."""
    return [name for name, value in dict(dask_worker.data.cumulative_metrics).items() if "disk" in str(name) and value]


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["akkmeans", "pakcl", "okfcm"])
def test_no_spill_no_pause_no_restart_at_the_limit(tmp_path, algo):
    """The workers' own limit is the memory_limit of the run, and the data are larger than it."""
    limit = 640 * 2**20
    path, rng = str(tmp_path / "x.zarr"), np.random.default_rng(0)
    z = zarr.create_array(path, shape=(6_000_000, 32), chunks=(50_000, 32), dtype="float32", compressors=None)
    for start in range(0, 6_000_000, 500_000):
        z[start : start + 500_000] = rng.normal(size=(500_000, 32)) + 5 * rng.integers(0, 4, (500_000, 1))
    assert z.nbytes > limit
    settings = {"n_landmarks": 64, "random_state": 0, "progress": False, "memory_limit": limit}
    settings |= {"akkmeans": {"max_iter": 2}, "pakcl": {"scratch": str(tmp_path)}, "okfcm": {}}[algo]
    with local_cluster(2, memory_limit=limit, threads_per_worker=2) as client:
        workers = pids(client)
        events: list[str] = []
        peak = 0
        run = Background(lambda: daskkcl.fit(path, algo, 4, client=client, **settings))
        while run.is_alive():
            for pid in workers.values():
                peak = max(peak, psutil.Process(pid).memory_info().rss)
            info = client.scheduler_info(n_workers=-1)["workers"].values()
            events += [w["status"] for w in info if w["status"] != "running"]
            time.sleep(0.2)
        model = run.result()
        assert pids(client) == workers
        events += [key for spilled in client.run(spilled_so_far).values() for key in spilled]
        said = [*client.get_worker_logs().values(), *client.get_worker_logs(nanny=True).values()]
        events += [text for log in said for level, text in log if level in ("WARNING", "ERROR")]
    print(f"{algo}: limit {limit >> 20} MiB, planned {model.plan_.peak_bytes >> 20}, peak {peak >> 20} MiB")
    assert not events
    assert peak <= model.plan_.peak_bytes <= model.plan_.limit_bytes < limit


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["akkmeans", "okfcm", "pakcl"])
def test_chunks_of_dask_and_shards_of_zarr_need_not_agree(tmp_path, algo):
    rows = make_rows(30_011)
    path = str(tmp_path / "x.zarr")
    zarr.create_array(path, data=rows, chunks=(500, 8), shards=(4_000, 8))
    kernel = Bumpy(".")
    expected = labels_on_threads(rows, algo, **SETTINGS, kernel=kernel)
    with local_cluster(2) as client:
        for number, data in enumerate([path, da.from_zarr(path).rechunk((1_711, 3))]):
            out = tmp_path / f"out-{number}.zarr"
            daskkcl.fit(data, algo, **SETTINGS, kernel=kernel, client=client, out=out)
            np.testing.assert_array_equal(labels_at(out), expected)
    np.testing.assert_array_equal(zarr.open_array(path)[:], rows)
