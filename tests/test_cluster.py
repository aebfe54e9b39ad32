"""The same code on a dask.distributed cluster of processes: the same labels, and nothing left behind."""

import os
import threading
import time

import dask.array as da
import numpy as np
import psutil
import pytest
import zarr
from cluster_tools import (
    Background,
    Processes,
    count_tasks,
    labels_at,
    labels_on_threads,
    local_cluster,
    make_rows,
    pids,
    store_rows,
)

import daskkcl
from daskkcl.errors import ClusterError, MemoryLimitError

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with local_cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return store_rows(tmp_path_factory.mktemp("data") / "x.zarr", 30_000)


FAMILY = [
    pytest.param(algo, more, marks=[] if algo in ("akkmeans", "pakcl", "okfcm") and not more else pytest.mark.slow)
    for algo in ("akkmeans", "pakcl", "okfcm", "spkfcm", "rsekfcm", "skkmeans")
    for more in ({}, {"memory_limit": "400MiB"})
]


@pytest.mark.parametrize("algo, more", FAMILY)
def test_workers_give_the_labels_of_threads(client, table, tmp_path, algo, more):
    size = {"buffer_size": 100} if algo == "skkmeans" else {"n_landmarks": 100}
    settings = {"n_clusters": 5, **size, "random_state": 0, "progress": False}
    model = daskkcl.fit(table, algo, client=client, out=tmp_path / "out.zarr", **settings, **more)
    labels = labels_at(tmp_path / "out.zarr")
    np.testing.assert_array_equal(labels, labels_on_threads(table, algo, **settings))
    assert np.bincount(labels).tolist() == model.cluster_sizes_.tolist()


# --- every algorithm, any number of workers ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def elastic():
    """A cluster whose workers come and go."""
    with local_cluster(1) as client:
        yield client


def scale(client, n_workers):
    client.cluster.scale(n_workers)
    deadline = time.monotonic() + 60
    while len(client.scheduler_info(n_workers=-1)["workers"]) != n_workers and time.monotonic() < deadline:
        time.sleep(0.1)


def small_settings(algo):
    known = daskkcl.algorithms()[algo]._get_param_names()
    wanted = {"n_clusters": 4, "n_seeds": 6, "n_landmarks": 30, "buffer_size": 40, "max_epochs": 3, "max_iter": 5}
    wanted |= {"random_state": 0, "progress": False, "chunk_size": 400, "subset_size": 100}
    return {name: value for name, value in wanted.items() if name in known}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore::daskkcl.errors.DaskkclWarning")
@pytest.mark.parametrize("algo", list(daskkcl.algorithms()))
def test_any_number_of_workers_gives_the_labels_of_threads(elastic, tmp_path, algo):
    n = 1_500 if algo in ("kkmeans", "kfcm", "kcl", "kcpcl") else 12_000
    rows, settings = make_rows(n, 4), small_settings(algo)
    path = str(tmp_path / "x.zarr")
    zarr.create_array(path, data=rows, chunks=(700, 4))
    expected = labels_on_threads(path, algo, **settings)
    for n_workers in (1, 2, 4):
        scale(elastic, n_workers)
        daskkcl.fit(path, algo, client=elastic, out=tmp_path / f"{n_workers}.zarr", **settings)
        np.testing.assert_array_equal(labels_at(tmp_path / f"{n_workers}.zarr"), expected)
    over, changes = threading.Event(), []

    def come_and_go():
        while not over.wait(0.3):
            changes.append(2 + len(changes) % 2)
            elastic.cluster.scale(changes[-1])

    walker = threading.Thread(target=come_and_go)
    walker.start()
    try:
        for data in (path, da.from_array(rows, chunks=(911, 3)), rows):
            model = daskkcl.fit(data, algo, client=elastic, **settings)
            np.testing.assert_array_equal(np.asarray(model.labels_), expected)
    finally:
        over.set()
        walker.join()
    assert changes


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["akkmeans", "pakcl", "okfcm"])
def test_workers_of_the_command_line(tmp_path, table, algo):
    """``dask scheduler`` and ``dask worker``: two, and a third that joins while they run."""
    settings = {"n_clusters": 5, "n_landmarks": 100, "random_state": 0, "progress": False}
    with Processes(tmp_path / "cluster", 2) as processes, processes.client() as client:
        client.wait_for_workers(2, timeout=120)
        run = Background(lambda: daskkcl.fit(table, algo, client=client, out=tmp_path / "out.zarr", **settings))
        processes.workers.append(processes.add_worker())
        run.result()
    np.testing.assert_array_equal(labels_at(tmp_path / "out.zarr"), labels_on_threads(table, algo, **settings))


# --- parallel ------------------------------------------------------------------------------------------------------


def spans_of(records, name):
    """When each worker computed tasks of a name."""
    spans = {}
    for record in records:
        if name in str(record["key"]):
            for part in record["startstops"]:
                if part["action"] == "compute":
                    spans.setdefault(record["worker"], []).append((part["start"], part["stop"]))
    return spans


def share_together(spans):
    """How much of the time of the less busy of two workers the other was busy too."""
    one, two = spans.values()
    busy = min(sum(stop - start for start, stop in spans) for spans in (one, two))
    return sum(max(0, min(b, d) - max(a, c)) for a, b in one for c, d in two) / busy


@pytest.mark.parametrize(
    "algo, name, more",
    [
        ("okfcm", "summarise_chunks", {"chunk_size": 250}),
        pytest.param("pakcl", "measure_subsets", {"subset_size": 200}, marks=pytest.mark.slow),
        pytest.param("akkmeans", "sum_block", {"max_iter": 3, "memory_limit": "400MiB"}, marks=pytest.mark.slow),
    ],
)
def test_blocks_run_side_by_side(client, table, algo, name, more):
    """In the task stream: both workers work on blocks, and most of the time at once."""
    from distributed import get_task_stream

    with get_task_stream(client) as stream:
        daskkcl.fit(table, algo, 5, n_landmarks=100, random_state=0, client=client, progress=False, **more)
    spans = spans_of(stream.data, name)
    assert len(spans) == 2
    assert share_together(spans) > 0.5


# --- traffic between workers -----------------------------------------------------------------------------------------


def received(client):
    """Bytes that workers have fetched from one another so far."""
    return sum(client.run(lambda dask_worker: sum(x["total"] for x in dask_worker.transfer_incoming_log)).values())


def test_rows_do_not_travel_between_workers(client, tmp_path):
    """Chunks that fit neither the blocks nor one another: workers exchange maps, centres and sums all the same."""
    path = store_rows(tmp_path / "x.zarr", 60_000, d=32, chunk=2_700)
    before = received(client)
    daskkcl.fit(path, "akkmeans", 5, n_landmarks=20, max_iter=2, random_state=0, client=client, progress=False)
    assert received(client) - before < 0.1 * 60_000 * 32 * 4


# --- memory ----------------------------------------------------------------------------------------------------------


def test_the_plan_knows_what_a_worker_takes(client, table):
    settings = {"n_landmarks": 20, "memory_limit": "1GiB", "client": client, "progress": False}
    plan = daskkcl.fit(table, "akkmeans", 5, **settings).plan_
    taken = max(psutil.Process(pid).memory_info().rss for pid in pids(client).values())
    assert 0.5 * taken < plan.base_bytes < 2 * taken
    assert plan.driver is not None
    assert plan.driver.has("preparing")
    assert "each worker" in str(plan)


def test_exact_algorithms_are_planned_in_the_process_that_holds_the_matrix(client, tmp_path):
    """20,000 rows: 3 GB of kernel matrix, in the driver. The workers have nothing to do with it."""
    path = store_rows(tmp_path / "x.zarr", 20_000)
    with pytest.raises(MemoryLimitError, match="kernel matrix"):
        daskkcl.fit(path, "kkmeans", 3, memory_limit="1GiB", client=client, progress=False)


@pytest.mark.slow
def test_a_worker_with_many_threads_is_told_so(table):
    """dask runs a task on each thread of a worker: if that does not fit, nothing does."""
    told = pytest.raises(MemoryLimitError, match="fewer than 64 threads")
    with local_cluster(1, threads_per_worker=64, memory_limit="1GiB") as client, told:
        daskkcl.fit(table, "akkmeans", 5, n_landmarks=1_000, client=client, progress=False)


# --- leaving nothing behind ------------------------------------------------------------------------------------------


def test_nothing_is_left_on_the_scheduler(client, table):
    model = daskkcl.fit(table, "akkmeans", 5, n_landmarks=50, random_state=0, client=client, progress=False)
    assert model.cluster_sizes_.sum() == 30_000
    del model
    assert count_tasks(client) == 0


def test_a_client_that_is_closed_is_an_error_of_ours(table):
    with local_cluster(1) as client:
        pass
    with pytest.raises(ClusterError, match="scheduler"):
        daskkcl.fit(table, "akkmeans", 5, client=client, progress=False)


def state_of(client):
    """What could grow: memory, files and threads here and on the workers, tasks on the scheduler."""

    def here(pid=None):
        process = psutil.Process(pid)
        return process.memory_info().rss >> 20, process.num_fds(), process.num_threads()

    def there():
        import gc

        gc.collect()
        return here()

    workers = list(client.run(there).values())
    names = ["MiB", "files", "threads"]
    state = {f"driver {name}": value for name, value in zip(names, there(), strict=True)}
    state |= {f"worker {name}": max(values) for name, values in zip(names, zip(*workers, strict=True), strict=True)}
    scratch = [name for name in os.listdir(os.environ.get("TMPDIR", "/tmp")) if name.startswith("daskkcl-")]
    return state | {"tasks": count_tasks(client), "scratch folders": len(scratch)}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fifty_fits_and_eight_at_once_leave_nothing_behind(tmp_path):
    table = store_rows(tmp_path / "x.zarr", 20_000)
    expected = {}

    def fit(number, client):
        algo = ("akkmeans", "pakcl", "okfcm")[number % 3]
        out = tmp_path / f"out-{number}.zarr"
        daskkcl.fit(table, algo, 5, n_landmarks=50, random_state=0, progress=False, client=client, out=out)
        np.testing.assert_array_equal(labels_at(out), expected.setdefault(algo, labels_at(out)))

    with local_cluster(2) as client:
        for number in range(6):
            fit(number, client)
        states = [state_of(client)]
        for number in range(6, 56):
            fit(number, client)
        states.append(state_of(client))
        together = [Background(lambda number=number: fit(number, client)) for number in range(56, 64)]
        for run in together:
            run.result()
        del together, run
        states.append(state_of(client))
    for name in states[0]:
        print(f"{name}: {', '.join(str(state[name]) for state in states)}")
    first, last = states[0], states[-1]
    assert last["tasks"] == 0
    assert last["scratch folders"] <= first["scratch folders"]
    for whose in ("driver", "worker"):
        assert last[f"{whose} MiB"] < first[f"{whose} MiB"] + 60
        assert last[f"{whose} files"] <= first[f"{whose} files"] + 12
        assert last[f"{whose} threads"] <= first[f"{whose} threads"] + 10
