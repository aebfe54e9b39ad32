"""Several hosts for real: network namespaces joined by a bridge, the scheduler in one, workers in others.

Data lie in a folder that all of them share. What goes over the wire is counted by the network itself.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from cluster_tools import (
    Background,
    Bumpy,
    Processes,
    labels_at,
    labels_on_threads,
    pids,
    store_rows,
    wait_until,
)

import daskkcl
from daskkcl.errors import LostSchedulerError, StorageError

pytest.importorskip("distributed")

SETTINGS = {"n_clusters": 5, "n_landmarks": 40, "random_state": 0, "progress": False}


def ip(*arguments):
    subprocess.run(["ip", *map(str, arguments)], check=True, capture_output=True)


class Network:
    """Hosts 1 to n at 10.213.x.2 and on, and this process at 10.213.x.1, joined by a bridge."""

    def __init__(self, n_hosts):
        self.number = os.getpid() % 250
        self.bridge = f"dkb{self.number}"
        self.names = [f"dk{self.number}h{i}" for i in range(n_hosts)]
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", f"10.213.{self.number}.1/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        for i, name in enumerate(self.names):
            ip("netns", "add", name)
            ip("link", "add", f"{name}o", "type", "veth", "peer", "name", f"{name}i")
            ip("link", "set", f"{name}i", "netns", name)
            ip("link", "set", f"{name}o", "master", self.bridge)
            ip("link", "set", f"{name}o", "up")
            inside = ("-n", name)
            ip(*inside, "addr", "add", self.address(i) + "/24", "dev", f"{name}i")
            ip(*inside, "link", "set", f"{name}i", "up")
            ip(*inside, "link", "set", "lo", "up")

    def address(self, host):
        return f"10.213.{self.number}.{host + 2}"

    def command(self, host):
        """What a command begins with that is to run on a host."""
        return ["ip", "netns", "exec", self.names[host]]

    def cut(self, host):
        ip("link", "set", f"{self.names[host]}o", "down")

    def mend(self, host):
        ip("link", "set", f"{self.names[host]}o", "up")

    def traffic(self):
        """Bytes that the hosts have sent so far, all together."""
        counters = [Path(f"/sys/class/net/{name}o/statistics/rx_bytes") for name in self.names]
        return sum(int(counter.read_text()) for counter in counters)

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
            subprocess.run(["ip", "link", "del", f"{name}o"], capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)


@pytest.fixture
def network():
    if shutil.which("ip") is None:
        pytest.skip("needs the command ip (Debian: apt-get install iproute2)")
    if os.geteuid() != 0:
        pytest.skip("needs root, to make network namespaces")
    network = None
    try:
        network = Network(4)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces on this machine: {error.stderr.decode().strip()}")
    yield network
    network.close()


@pytest.fixture
def cluster(network, tmp_path):
    """The scheduler on host 0, a worker on each of the hosts 1 to 3."""
    hosts = [network.command(host) for host in range(4)]
    with Processes(tmp_path / "cluster", 3, hosts, network.address(0)) as processes:
        yield processes


@pytest.fixture
def client(cluster):
    with cluster.client() as client:
        client.wait_for_workers(3, timeout=120)
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["akkmeans", "pakcl", "okfcm", "spkfcm", "fcm", "skkmeans", "akcl"])
def test_hosts_give_the_labels_of_threads(network, client, tmp_path, algo):
    hosts = {address.rpartition(":")[0] for address in client.scheduler_info(n_workers=-1)["workers"]}
    assert hosts == {f"tcp://{network.address(host)}" for host in (1, 2, 3)}
    table = store_rows(tmp_path / "x.zarr", 20_000)
    settings = dict(SETTINGS)
    if algo in ("skkmeans", "fcm"):
        landmarks = settings.pop("n_landmarks")
        settings |= {"buffer_size": landmarks} if algo == "skkmeans" else {}
    (tmp_path / "scratch").mkdir()
    more = {"client": client, "out": tmp_path / "out.zarr", "scratch": str(tmp_path / "scratch")}
    daskkcl.fit(table, algo, **settings, **more)
    np.testing.assert_array_equal(labels_at(tmp_path / "out.zarr"), labels_on_threads(table, algo, **settings))


# One of every kind of schedule and map, with a number of rounds that does not depend on the rows.
FAMILIES = {
    "akkmeans": {"max_iter": 3, "tol": 0.0},
    "apnc": {"max_iter": 3, "tol": 0.0},
    "spectral": {"max_iter": 3, "tol": 0.0},
    "fastkscl": {"max_iter": 3},
    "fcm": {"max_iter": 3, "tol": 1e-12, "n_landmarks": None},
    "rsekfcm": {},
    "okfcm": {},
    "spkfcm": {},
    "pakcl": {"max_epochs": 1, "subset_size": 4_000},
    "pakcl, dealt": {"max_epochs": 1, "subset_size": 40_000},
    "akcl": {"max_epochs": 1},
    "lcpcl": {"n_clusters": None, "n_seeds": 7, "max_epochs": 2},
    "rpcl": {"n_clusters": None, "n_seeds": 7, "max_epochs": 2, "n_landmarks": None},
    "skkmeans": {"n_landmarks": None, "buffer_size": 100},
}


def slow_fit(client, tmp_path, algo, **more):
    """Begin a fit that takes a minute or so, and return when it is in the middle."""
    (tmp_path / "marks").mkdir()
    kernel, table = Bumpy(tmp_path / "marks", seconds=0.1), store_rows(tmp_path / "x.zarr", 40_000)
    settings = {**SETTINGS, **{"pakcl": {"subset_size": 500, "max_epochs": 1}}.get(algo, {"max_iter": 4})}
    run = Background(
        lambda: daskkcl.fit(
            table, algo, **settings, kernel=kernel, client=client, out=tmp_path / "out.zarr", scratch=tmp_path, **more
        )
    )
    workers = pids(client)
    wait_until(lambda: kernel.calls(workers.values()) >= 12 or not run.is_alive())
    assert run.is_alive(), run.error
    return run, lambda: labels_on_threads(table, algo, **settings, kernel=Bumpy("."))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
@pytest.mark.parametrize("algo", ["akkmeans", "okfcm", "pakcl"])
def test_a_worker_is_cut_off_for_20_seconds(network, client, tmp_path, algo):
    run, expected = slow_fit(client, tmp_path, algo)
    network.cut(2)
    time.sleep(20)
    network.mend(2)
    run.result()
    print(f"cut off for 20 s, {algo}: {run.seconds:.1f} s in all")
    np.testing.assert_array_equal(labels_at(tmp_path / "out.zarr"), expected())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
def test_the_way_to_the_scheduler_is_cut(network, cluster, tmp_path):
    """Nobody says goodbye: neither an end of the connection nor an answer comes."""
    client = cluster.client()
    client.wait_for_workers(3, timeout=120)
    run, _ = slow_fit(client, tmp_path, "akkmeans", checkpoint=tmp_path / "run.ckpt")
    network.cut(0)
    begin = time.monotonic()
    with pytest.raises(LostSchedulerError, match="checkpoint="):
        run.result()
    seconds = time.monotonic() - begin
    print(f"no way to the scheduler: error after {seconds:.1f} s")
    assert seconds < 60
    client.close(timeout=1)
    network.mend(0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
@pytest.mark.parametrize("algo", FAMILIES)
def test_traffic_does_not_grow_with_the_rows(network, client, tmp_path, request, algo):
    """Four times the rows, the same number of rounds: the wire carries maps, centres and sums, not rows."""
    if algo == "pakcl, dealt":
        request.getfixturevalue("small_subsets_dealt")
    sent, rows_bytes = {}, {}
    settings = {**SETTINGS, "n_landmarks": 100, "scratch": str(tmp_path), "client": client, **FAMILIES[algo]}
    settings = {name: value for name, value in settings.items() if value is not None}
    algo = algo.partition(",")[0]
    for n in (50_000, 200_000):
        table = store_rows(tmp_path / f"{n}.zarr", n, d=64, chunk=10_000)
        daskkcl.fit(table, algo, **settings)  # modules are loaded, connections made
        before, begin = network.traffic(), time.monotonic()
        daskkcl.fit(table, algo, **settings)
        seconds = time.monotonic() - begin
        sent[n], rows_bytes[n] = network.traffic() - before, n * 64 * 4
        time.sleep(seconds)  # heartbeats of as long a time without work
        sent[n] -= network.traffic() - before - sent[n]
        print(
            f"{algo}: {n:,} rows of {rows_bytes[n] / 1e6:.0f} MB: {sent[n] / 1e6:.2f} MB on the wire, {seconds:.1f} s"
        )
    grown = sent[200_000] - sent[50_000]
    assert grown < 0.03 * (rows_bytes[200_000] - rows_bytes[50_000])


@pytest.mark.slow
def test_scratch_that_a_worker_does_not_see_is_refused(network, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    alone = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none {scratch} && exec "$@"', "sh"]
    hosts = [network.command(0), network.command(1), [*network.command(2), *alone]]
    table = store_rows(tmp_path / "x.zarr", 20_000)
    with Processes(tmp_path / "cluster", 2, hosts, network.address(0)) as processes, processes.client() as client:
        client.wait_for_workers(2, timeout=120)
        with pytest.raises(StorageError, match=rf"not seen by the workers on {network.address(2)}.*share"):
            daskkcl.fit(table, "pakcl", **SETTINGS, client=client, scratch=str(scratch))
