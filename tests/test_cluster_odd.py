"""What users of a cluster do that nobody foresaw: the same labels, or an answer that says what to do."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from cluster_tools import labels_at, labels_on_threads, local_cluster, store_rows, wait_until

import daskkcl
from daskkcl.errors import CheckpointError, ClusterError, InvalidInputError, MemoryLimitError, StorageError

distributed = pytest.importorskip("distributed")

SETTINGS = {"n_clusters": 5, "n_landmarks": 50, "random_state": 0, "progress": False}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return store_rows(tmp_path_factory.mktemp("data") / "x.zarr", 20_000)


@pytest.fixture(scope="module")
def alone():
    """A cluster of one worker with one thread."""
    with local_cluster(1) as client:
        yield client


def fit_there(table, algo, how):
    """Fit inside a task, which takes the only thread there is."""
    if how == "given way":
        with distributed.worker_client() as client:
            return np.asarray(daskkcl.fit(table, algo, client=client, **SETTINGS).labels_)
    more = {"client": distributed.get_client()} if how == "given" else {}
    return np.asarray(daskkcl.fit(table, algo, **more, **SETTINGS).labels_)


@pytest.mark.parametrize(
    "algo, how",
    [
        ("akkmeans", "given"),
        *(pytest.param("akkmeans", how, marks=pytest.mark.slow) for how in ("found", "given way")),
        *(pytest.param(algo, "given", marks=pytest.mark.slow) for algo in ("pakcl", "okfcm")),
    ],
)
def test_a_fit_inside_a_task(alone, table, algo, how):
    labels = alone.submit(fit_there, table, algo, how, pure=False).result(timeout=120)
    np.testing.assert_array_equal(labels, labels_on_threads(table, algo, **SETTINGS))
    assert alone.submit(abs, -3, pure=False).result(timeout=30) == 3  # the worker has its thread again


@pytest.mark.slow
def test_fits_inside_as_many_tasks_as_there_are_threads(alone, table):
    runs = [alone.submit(fit_there, table, algo, "given", pure=False) for algo in ("akkmeans", "okfcm", "akkmeans")]
    for algo, labels in zip(("akkmeans", "okfcm", "akkmeans"), alone.gather(runs), strict=True):
        np.testing.assert_array_equal(labels, labels_on_threads(table, algo, **SETTINGS))


@pytest.mark.slow
def test_workers_of_different_size(table):
    """The smallest limit and the most threads count; a worker without a limit is none of the two."""
    sizes = [(1, "500MiB"), (2, "2GiB"), (1, 0)]
    workers = {
        number: {"cls": distributed.Nanny, "options": {"nthreads": threads, "memory_limit": limit}}
        for number, (threads, limit) in enumerate(sizes)
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": ":0"}}
    with (
        distributed.SpecCluster(workers=workers, scheduler=scheduler) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(3)
        for algo in ("akkmeans", "pakcl", "okfcm"):
            model = daskkcl.fit(table, algo, client=client, **SETTINGS)
            assert model.plan_.limit_bytes == int(0.7 * 500 * 2**20)
            assert model.plan_.threads == 2
            np.testing.assert_array_equal(np.asarray(model.labels_), labels_on_threads(table, algo, **SETTINGS))


@pytest.mark.slow
def test_workers_without_a_limit(table):
    with local_cluster(2, memory_limit=0) as client:
        model = daskkcl.fit(table, "pakcl", client=client, **SETTINGS)
        assert model.plan_.peak_bytes < model.plan_.limit_bytes
        np.testing.assert_array_equal(np.asarray(model.labels_), labels_on_threads(table, "pakcl", **SETTINGS))


@pytest.mark.slow
def test_a_worker_that_cannot_load_what_a_run_needs(table, monkeypatch):
    """Its nanny ends it, and starts it again, and ends it again."""
    monkeypatch.setattr(
        "daskkcl.schedules.cluster._MODULES", ("sys", "daskkcl", "sklearn.cluster", "numba", "xarray", "matplotlib")
    )
    import matplotlib
    import numba
    import sklearn.cluster  # noqa: F401
    import xarray  # noqa: F401

    assert numba
    assert matplotlib
    began = time.perf_counter()
    with local_cluster(1, memory_limit="200MiB") as client, pytest.raises(ClusterError, match="with more memory"):
        daskkcl.fit(table, "akkmeans", client=client, **SETTINGS)
    assert time.perf_counter() - began < 120


def test_a_worker_that_is_too_small_is_named(table, monkeypatch):
    """Not ``memory_limit``, unless that is what is too small."""
    # what this process has loaded for other tests would be more than such a worker can hold
    monkeypatch.setattr("daskkcl.schedules.cluster._MODULES", ("scipy.linalg", "zarr", "dask.array"))
    with local_cluster(1, memory_limit="280MiB") as client:
        for more in ({}, {"memory_limit": "1GiB"}):
            words = r"worker on 127.0.0.1 has room for 196.0 MiB.*Start workers with .* of memory or more"
            with pytest.raises(MemoryLimitError, match=words):
                daskkcl.fit(table, "akkmeans", client=client, **more, **SETTINGS)
        with pytest.raises(MemoryLimitError, match=r"memory_limit is 100.0 MiB, and a worker already takes"):
            daskkcl.fit(table, "akkmeans", client=client, memory_limit="100MiB", **SETTINGS)


@pytest.mark.slow
def test_a_client_that_is_restarted(table):
    """Between fits, and in the middle of one."""
    expected = {algo: labels_on_threads(table, algo, **SETTINGS) for algo in ("akkmeans", "okfcm")}
    with local_cluster(2) as client:
        for algo, labels in expected.items():
            model = daskkcl.fit(table, algo, client=client, **SETTINGS)
            client.restart()
            np.testing.assert_array_equal(np.asarray(model.labels_), labels)
            np.testing.assert_array_equal(np.asarray(model.predict(table)), labels)
            np.testing.assert_array_equal(
                np.asarray(daskkcl.fit(table, algo, client=client, **SETTINGS).labels_), labels
            )
        again = threading.Thread(target=lambda: (time.sleep(0.5), client.restart()))
        again.start()
        while again.is_alive():
            with contextlib.suppress(ClusterError):  # the scheduler has forgotten what was asked for: a clear end
                daskkcl.fit(table, "okfcm", client=client, **SETTINGS)
        np.testing.assert_array_equal(
            np.asarray(daskkcl.fit(table, "okfcm", client=client, **SETTINGS).labels_), expected["okfcm"]
        )


def test_what_is_passed_for_a_client(table):
    class Own(distributed.Client):
        """As some services have one."""

    with distributed.LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        with pytest.raises(InvalidInputError, match=r"pass client=cluster.get_client\(\)"):
            daskkcl.fit(table, "akkmeans", client=cluster, **SETTINGS)
        with pytest.raises(InvalidInputError, match=r"pass client=distributed.Client\('tcp://a:1'\)"):
            daskkcl.fit(table, "akkmeans", client="tcp://a:1", **SETTINGS)
        with pytest.raises(InvalidInputError, match="leave it out to use threads"):
            daskkcl.fit(table, "akkmeans", client=3, **SETTINGS)
        with Own(cluster, set_as_default=False) as client:
            labels = np.asarray(daskkcl.fit(table, "akkmeans", client=client, **SETTINGS).labels_)
    np.testing.assert_array_equal(labels, labels_on_threads(table, "akkmeans", **SETTINGS))


def test_places_that_cannot_be_written(tmp_path, table):
    """A folder that is a file, which no right to write helps against."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"file/run.ckpt' cannot be written"):
        daskkcl.fit(table, "akkmeans", checkpoint=tmp_path / "file" / "run.ckpt", **SETTINGS)
    with pytest.raises(StorageError, match=r"(?i)scratch"):
        daskkcl.fit(table, "pakcl", scratch=tmp_path / "file", **SETTINGS)


# --- a Gateway --------------------------------------------------------------------------------------------------------


_GATEWAY = """
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.address = "127.0.0.1:0"
c.Proxy.address = "127.0.0.1:{http}"
c.Proxy.tcp_address = "127.0.0.1:{tcp}"
c.UnsafeLocalBackend.clusters_directory = "{folder}"
c.ClusterConfig.scheduler_cmd = [{python!r}, "-m", "dask", "scheduler"]
c.ClusterConfig.worker_cmd = [{python!r}, "-m", "dask", "worker"]
c.ClusterConfig.worker_cores = 1
c.ClusterConfig.worker_memory = "2 G"
"""


_THROUGH_THE_GATEWAY = """
import json, sys, daskkcl
from dask_gateway import Gateway
http, tcp, table, folder, settings = json.loads(sys.argv[1])
gateway = Gateway(f"http://127.0.0.1:{http}", proxy_address=f"gateway://127.0.0.1:{tcp}", auth="basic")
with gateway.new_cluster() as cluster:
    cluster.scale(2)
    with cluster.get_client() as client:
        client.wait_for_workers(2, timeout=120)
        for algo in ("akkmeans", "pakcl"):
            daskkcl.fit(table, algo, **settings, client=client, scratch=folder, out=f"{folder}/{algo}.zarr")
"""


@contextlib.contextmanager
def gateway(folder):
    """The ports of a Gateway that starts schedulers and workers on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = {"http": one.getsockname()[1], "tcp": other.getsockname()[1]}
    (folder / "config.py").write_text(_GATEWAY.format(folder=folder, python=sys.executable, **ports))
    serve = "import sys; from dask_gateway_server.app import main; sys.exit(main())"
    with open(folder / "log", "wb") as log:
        server = python(serve, "--config", str(folder / "config.py"), stdout=log, stderr=log)
    try:
        routes = b"200 GET /api/v1/routes"  # the proxy knows where to go
        wait_until(lambda: routes in (folder / "log").read_bytes() or server.poll() is not None)
        yield tuple(ports.values())
    finally:
        server.terminate()
        server.wait(30)


def python(*arguments, **options):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen([sys.executable, "-c", *arguments], env=env, **options)


@pytest.mark.slow
def test_a_cluster_of_a_gateway(tmp_path, table):
    """Another way to the scheduler (a proxy, TLS), and the same labels."""
    for name in ("dask_gateway", "dask_gateway_server"):
        pytest.importorskip(name, reason="needs a Gateway (pip install dask-gateway 'dask-gateway-server[local]')")
    with gateway(tmp_path) as ports:
        given = json.dumps([*ports, table, str(tmp_path), SETTINGS])
        assert python(_THROUGH_THE_GATEWAY, given).wait(300) == 0
    for algo in ("akkmeans", "pakcl"):
        np.testing.assert_array_equal(labels_at(tmp_path / f"{algo}.zarr"), labels_on_threads(table, algo, **SETTINGS))
