"""The same code on a dask.distributed cluster of processes: the same labels, and nothing left behind."""

import contextlib
import os
import threading
import time
from collections import Counter

import dask.array as da
import numpy as np
import psutil
import pytest
import zarr
from cluster_tools import (
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
from daskkcl.errors import ClusterError, MemoryLimitError
from daskkcl.kernels.rows import SparseRows
from daskkcl.schedules.measuring import Measured
from daskkcl.schedules.sequential import MetTile

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


@pytest.mark.part(3)
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


WITHOUT_LANDMARKS = {"fcm", "kfcm", "rpcl", "rpccl", "cccl", "dsrpcl", "core"}


def small_settings(algo):
    known = set(daskkcl.algorithms()[algo]._get_param_names())
    known -= {"n_landmarks"} if algo in WITHOUT_LANDMARKS else set()
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
@pytest.mark.parametrize(
    "shape",
    [
        {"n_workers": 2, "threads_per_worker": 2},
        {"n_workers": 1, "threads_per_worker": 3},
        {"n_workers": 2, "threads_per_worker": 2, "processes": False},  # all in this process
    ],
    ids=["2 x 2", "1 x 3", "one process"],
)
def test_any_number_of_threads_gives_the_labels_of_threads(table, tmp_path, shape):
    with local_cluster(**shape) as client:
        for algo in ("akkmeans", "pakcl", "okfcm"):
            settings = {"n_clusters": 5, "n_landmarks": 100, "random_state": 0, "progress": False}
            settings |= {"scratch": tmp_path} if algo == "pakcl" else {}
            daskkcl.fit(table, algo, client=client, out=tmp_path / f"{algo}.zarr", **settings)
            expected = labels_on_threads(table, algo, **settings)
            np.testing.assert_array_equal(labels_at(tmp_path / f"{algo}.zarr"), expected)


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
        # a kernel that takes its time: measuring is most of the work
        pytest.param("pakcl", "measure_subsets", {"subset_size": 500, "kernel": 0.2}, marks=pytest.mark.slow),
        pytest.param("akkmeans", "fold_blocks", {"max_iter": 3, "tol": 0.0}, marks=pytest.mark.slow),
        pytest.param("akkmeans", "measure_block", {"max_iter": 3, "kernel": 0.02}, marks=pytest.mark.slow),
    ],
)
def test_blocks_run_side_by_side(client, table, algo, name, more):
    """In the task stream: both workers work on blocks, and most of the time at once."""
    from distributed import get_task_stream

    if "kernel" in more:
        more = {**more, "kernel": Bumpy(os.path.dirname(table), seconds=more["kernel"])}
    with get_task_stream(client) as stream:
        daskkcl.fit(table, algo, 5, n_landmarks=100, random_state=0, client=client, progress=False, **more)
    spans = spans_of(stream.data, name)
    assert len(spans) == 2
    assert share_together(spans) > 0.5


@pytest.mark.slow
def test_rows_are_read_and_measured_while_others_meet_the_centres(client, tmp_path):
    """Subsets follow one another; what they take is there when their turn comes."""
    from distributed import get_task_stream

    kernel, path = Bumpy(tmp_path, seconds=0.02), store_rows(tmp_path / "x.zarr", 60_000)
    more = {"subset_size": 100, "max_epochs": 1, "kernel": kernel, "memory_limit": "600MiB"}
    with get_task_stream(client) as stream:
        daskkcl.fit(path, "pakcl", 5, n_landmarks=100, random_state=0, client=client, progress=False, **more)
    measured, met = (spans_of(stream.data, name) for name in ("measure_subsets", "meet_subsets"))
    busy = sum(stop - start for spans in met.values() for start, stop in spans)
    together = sum(
        max(0.0, min(stop, end) - max(start, begin))
        for worker, spans in met.items()
        for start, stop in spans
        for other in measured.keys() - {worker}
        for begin, end in measured[other]
    )
    print(f"{together / busy:.2f} of {busy:.2f} s, {sum(map(len, met.values()))} blocks")
    assert together > 0.5 * busy


@pytest.mark.slow
def test_a_single_subset_is_dealt_over_workers(client, table, small_subsets_dealt):
    """One subset of all rows: both workers measure parts of it, and measure ahead of the centres they will meet."""
    from distributed import get_task_stream

    kernel = Bumpy(os.path.dirname(table), seconds=0.02)  # takes its time, also where cores are few and busy
    more = {"subset_size": 15_000, "max_epochs": 2, "kernel": kernel}
    with get_task_stream(client) as stream:
        daskkcl.fit(table, "pakcl", 5, n_landmarks=100, client=client, progress=False, **more)
    measured, met = spans_of(stream.data, "measure_part"), spans_of(stream.data, "meet_part")
    assert len(measured) == 2
    assert share_together(measured) > 0.4
    assert set(measured) == set(met)
    moves = [span for spans in spans_of(stream.data, "next_state").values() for span in spans]
    # parts of the second subset of an epoch were there before the first one had moved the centres
    first_move = min(stop for _, stop in moves)
    assert sum(stop < first_move for spans in measured.values() for _, stop in spans) > 15_000 // 8192 + 1


@pytest.mark.parametrize(
    "rows, limit, whole", [(8192, "4GiB", 1), (30_000, "4GiB", 1), (30_000, "400MiB", 0), (40_000, "4GiB", 0)]
)
def test_workers_deal_very_large_subsets_only(rows, limit, whole):
    """A subset is met whole where that is faster; one that would take much of the memory is dealt all the same."""
    asked = {
        "n_rows": 10**7,
        "n_features": 32,
        "n_clusters": 10,
        "n_landmarks": 500,
        "memory_limit": limit,
        "rates": {},
    }
    plan = daskkcl.plan(algo="pakcl", subset_size=rows, workers=2, **asked).plan
    assert (plan.layout("subsets").block_rows % rows == 0) == whole


# --- traffic between workers -----------------------------------------------------------------------------------------


def received(client):
    """Bytes that workers have fetched from one another so far."""
    return sum(client.run(lambda dask_worker: sum(x["total"] for x in dask_worker.transfer_incoming_log)).values())


@pytest.mark.parametrize(
    "algo, more",
    [
        ("akkmeans", {"max_iter": 3}),
        ("pakcl", {"subset_size": 2_000, "max_epochs": 1}),
        ("pakcl", {"subset_size": 5_000, "max_epochs": 1}),
        pytest.param("pakcl", {"subset_size": 25_000, "max_epochs": 1}, marks=pytest.mark.slow),  # dealt
    ],
)
def test_neither_rows_nor_measurements_travel_between_workers(client, tmp_path, request, algo, more):
    """Chunks that fit neither the blocks nor one another: workers exchange maps, centres and sums all the same."""
    if more.get("subset_size") == 25_000:
        request.getfixturevalue("small_subsets_dealt")
    path = store_rows(tmp_path / "x.zarr", 60_000, d=32, chunk=2_700)
    before = received(client)
    daskkcl.fit(path, algo, 5, n_landmarks=20, random_state=0, client=client, progress=False, **more)
    assert received(client) - before < 0.1 * 60_000 * 20 * 4


def test_what_waits_on_a_worker_tells_its_size():
    """The log of transfers, and the scheduler's choice of a worker, rest on it."""
    sizeof = pytest.importorskip("dask.sizeof").sizeof
    Z = np.zeros((1000, 50), dtype="float32")
    for one in (Measured(Z[:, 0].copy(), None, 50, Z), MetTile(Z, Z[:, 0], np.arange(1000)), SparseRows.of(Z + 1)):
        assert Z.nbytes < sizeof([one]) < 4 * Z.nbytes
    model = daskkcl.fit(make_rows(2_000), "akkmeans", 5, n_landmarks=200, progress=False)
    landmarks = model._model.reader.map_
    assert sizeof(model._model.reader) > 200 * 200 * 4 > sizeof(landmarks)


# --- what a plan foretells ---------------------------------------------------------------------------------------


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "algo, more",
    [
        *((algo, {}) for algo in ("akkmeans", "okfcm", "pakcl", "akcl", "rsekfcm")),
        ("pakcl", {"subset_size": 4_500, "max_epochs": 2}),
        ("pakcl", {"subset_size": 5_000, "max_epochs": 2}),  # dealt
        ("skkmeans", {"n_landmarks": None, "buffer_size": 100}),
    ],
)
def test_a_plan_knows_the_graphs_and_tasks_of_a_run(client, table, monkeypatch, request, algo, more):
    """What they cost can be measured on any cluster; how many there are must not be wrong by a factor of two."""
    if more.get("subset_size") == 5_000:
        request.getfixturevalue("small_subsets_dealt")
    from daskkcl.schedules.cluster import Cluster

    sent, submit = [], Cluster.submit
    monkeypatch.setattr(
        Cluster, "submit", lambda self, graph, keys: sent.append(len(graph.tasks)) or submit(self, graph, keys)
    )
    settings = {"n_clusters": 5, "n_landmarks": 100, "memory_limit": "1GiB", **more}
    settings = {name: value for name, value in settings.items() if value is not None}
    model = daskkcl.fit(table, algo, random_state=0, progress=False, client=client, **settings)
    passes = model.n_iter_ if model.plan_.has("passes") else None

    def planned(**rates):
        rates = {"graphs": 1e15, "cluster_tasks": 1e15} | rates
        costs = daskkcl.plan(table, algo, workers=2, threads=1, passes=passes, rates=rates, **settings)
        return sum(stage.scheduler_seconds for stage in costs.stages)

    assert 0.5 < planned(graphs=1) / len(sent) < 2
    assert 0.5 < planned(cluster_tasks=1) / sum(sent) < 2


def test_what_graphs_cost_is_measured_on_a_cluster(client):
    from daskkcl.capacity import cluster_rates

    found = cluster_rates(client)
    assert set(found) == {"graphs", "cluster_tasks", "hops"}
    asked = {"n_rows": 10**6, "n_features": 16, "algo": "pakcl", "n_clusters": 5, "workers": 2, "threads": 1}
    free, own = {"graphs": 1e15, "cluster_tasks": 1e15, "hops": 1e15}, {"gemm": 1e15, "loop": 1e15, "assign": 1e15}
    cheap, real = (daskkcl.plan(rates={**own, **rates}, **asked) for rates in (free, found))
    (subsets,) = [stage for stage in real.stages if stage.name == "subsets"]
    assert real.seconds > cheap.seconds + 1 / found["graphs"]
    assert subsets.in_turn_seconds > subsets.n_blocks / found["hops"]


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


def empty_scheduler(dask_scheduler):
    """Empty the scheduler's notes on work that is over: it keeps every span and its groups of tasks for good."""
    spans = dask_scheduler.extensions["spans"]
    numbers = {"spans": len(spans.spans), "groups": sum(len(span.groups) for span in spans.spans.values())}
    latest = list(spans.spans.values())[-20:]  # workers may still report on them
    spans.spans = {span.id: span for span in latest}
    spans.root_spans[:] = latest
    for notes in (*spans.spans_search_by_name.values(), *spans.spans_search_by_tag.values()):
        notes[:] = latest
    for span in latest:
        if span.done:
            span.groups.clear()
    dask_scheduler.computations.clear()
    dask_scheduler.transition_log.clear()
    for topic in dask_scheduler._broker._topics.values():
        topic.events.clear()
    for comm in (*dask_scheduler.stream_comms.values(), *dask_scheduler.client_comms.values()):
        comm.recent_message_log.clear()
    return numbers


def empty_worker(dask_worker):
    """Empty a worker's profiles and logs, which dask bounds by number: hours of work later, they stop growing."""
    state = dask_worker.state
    numbers = {"profiles": len(dask_worker.profile_history), "transfers": len(dask_worker.transfer_incoming_log)}
    notes = [dask_worker.profile_history, dask_worker.profile_keys_history, state.log, state.stimulus_log]
    notes += [dask_worker.transfer_incoming_log, dask_worker.transfer_outgoing_log]
    notes += [dask_worker.batched_stream.recent_message_log, dask_worker._deque_handler.deque]
    for log in notes:
        log.clear()
    return numbers


def here(dask_worker=None):
    """What a process holds: memory, files, threads, objects of Python, and those of our own classes."""
    import gc

    gc.collect()
    process, objects = psutil.Process(), gc.get_objects()
    ours = sum(str(type(one).__module__).startswith("daskkcl.") for one in objects)
    pool = {} if dask_worker is None else open_connections(dask_worker)
    return (process.memory_info().rss >> 20, count_files(), process.num_threads(), len(objects), ours), pool


def count_files():
    """Open files of this process, without those in which dask reads, for an instant, what processes take."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/self/fd/{number}"))
    return sum(not link.startswith("/proc/") for link in links)


def open_connections(*servers):
    """How many connections the pools of some servers (or clients) hold open, by the address that they lead to.

    dask opens one when a call finds all others to that address in use, and keeps it open for the next calls: a pool
    holds as many as there ever were calls at once.
    """
    found = Counter()
    for server in servers:
        for comms in (server.rpc.available, server.rpc.occupied):
            found.update({address: len(those) for address, those in list(comms.items())})
    return found


def empty_records(client):
    """Empty what dask notes of work that is over, so that what grows is what runs hold."""
    print(client.run_on_scheduler(empty_scheduler), list(client.run(empty_worker).values()))
    client.scheduler_comm.recent_message_log.clear()


def state_of(client, scratch):
    """What could grow: what is held here and on the workers, tasks on the scheduler, folders in scratch.

    Of the open files those that are ends of pooled connections are counted apart: by pool, for their number, and as
    what is left of the files without them.
    """
    scheduler, nannies = client.cluster.scheduler, list(client.cluster.workers.values())
    answers, own = client.run(here), here()[0]
    pools = [open_connections(client, scheduler, *nannies), *(pool for _, pool in answers.values())]
    led = sum(pools, Counter())  # both ends of a connection are a file of somebody here
    local = {scheduler.address, *(nanny.address for nanny in nannies)}
    ends = {address: pool.total() + led[address] for address, (_, pool) in answers.items()}
    ends["driver"] = pools[0].total() + sum(led[address] for address in local)
    names = ["MiB", "files", "threads", "objects", "objects of ours"]
    state = {f"driver {name}": value for name, value in zip(names, own, strict=True)}
    workers = zip(*(values for values, _ in answers.values()), strict=True)
    state |= {f"worker {name}": max(values) for name, values in zip(names, workers, strict=True)}
    state["driver files beside pools"] = own[1] - ends["driver"]
    state["worker files beside pools"] = max(values[1] - ends[address] for address, (values, _) in answers.items())
    state["connections to the scheduler"] = open_connections(client)[scheduler.address]
    state["connections to a worker"] = max(open_connections(scheduler)[address] for address in answers)
    state["connections between workers"] = max(max(pool[other] for other in answers) for _, pool in answers.values())
    return state | {"tasks": count_tasks(client), "scratch folders": len(os.listdir(scratch))}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc (Linux)")
def test_fifty_fits_and_eight_at_once_leave_nothing_behind(tmp_path, caplog):
    caplog.set_level("ERROR", "distributed")  # pytest keeps what is logged
    table, scratch = store_rows(tmp_path / "x.zarr", 20_000), tmp_path / "scratch"
    scratch.mkdir()
    expected = {}

    def fit(number, client):
        algo = ("akkmeans", "pakcl", "okfcm")[number % 3]
        out, settings = tmp_path / f"out-{number}.zarr", {"n_landmarks": 50, "random_state": 0, "progress": False}
        daskkcl.fit(table, algo, 5, client=client, out=out, scratch=scratch, **settings)
        if number % 5 == 0:
            empty_records(client)
        np.testing.assert_array_equal(labels_at(out), expected.setdefault(algo, labels_at(out)))

    def fit_together(numbers, client):
        for run in [Background(lambda number=number: fit(number, client)) for number in numbers]:
            run.result()

    with local_cluster(2) as client:
        for number in range(6):
            fit(number, client)
        empty_records(client)
        states = [state_of(client, scratch)]
        for number in range(6, 56):
            fit(number, client)
        empty_records(client)
        states.append(state_of(client, scratch))
        for first in (56, 64, 72):
            fit_together(range(first, first + 8), client)
            empty_records(client)
            states.append(state_of(client, scratch))
        for server in (client, client.cluster.scheduler):  # which dask can let go
            server.loop.add_callback(server.rpc.collect)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: state_of(client, scratch)["driver files"] <= states[1]["driver files"], 20)
        states.append(state_of(client, scratch))
    for name in states[0]:
        print(f"{name}: {', '.join(str(state[name]) for state in states)}")
    first, in_turn, *together, collected = states
    assert collected["tasks"] == 0
    assert collected["scratch folders"] == 0
    # A fit makes one call at a time; one for all of them asks now and then whether there are workers, and so does
    # dask's client for itself. There are so many connections at the most, and no other file beyond those of the start.
    for state, at_once in ((in_turn, 1), *((state, 8) for state in together)):
        assert state["connections to the scheduler"] <= at_once + 2
        assert state["connections to a worker"] <= at_once
        assert state["connections between workers"] <= 1  # a worker fetches from another in one call at a time
    for whose in ("driver", "worker"):
        assert {state[f"{whose} files beside pools"] for state in states} == {first[f"{whose} files beside pools"]}
        assert in_turn[f"{whose} files"] <= first[f"{whose} files"] + 2
        assert collected[f"{whose} files"] <= in_turn[f"{whose} files"]
        assert collected[f"{whose} objects of ours"] <= first[f"{whose} objects of ours"]
        assert collected[f"{whose} objects"] < 1.01 * first[f"{whose} objects"]
        assert collected[f"{whose} MiB"] < first[f"{whose} MiB"] + 25
        assert collected[f"{whose} threads"] <= first[f"{whose} threads"] + 10
