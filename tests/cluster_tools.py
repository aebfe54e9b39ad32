"""Clusters to break: processes of their own, a kernel that is slow or deadly, and ways to look inside."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import zarr

import daskkcl

HERE = Path(__file__).parent
FATAL = 666.0  # a value that kills whoever meets it


class Bumpy:
    """A Gaussian kernel that takes its time, leaves a mark for every call, and dies of a certain value."""

    def __init__(self, folder, seconds=0.0):
        self.folder, self.seconds = str(folder), seconds

    def __call__(self, X, Y):
        if (X[:, 0] == FATAL).any():
            os.kill(os.getpid(), signal.SIGKILL)
        if self.seconds:
            Path(self.folder, f"{os.getpid()}-{time.monotonic_ns()}").touch()
            time.sleep(self.seconds)
        squares = (X**2).sum(1)[:, None] - 2 * X @ Y.T + (Y**2).sum(1)
        return np.exp(-0.02 * np.maximum(squares, 0))

    def diagonal(self, X):
        return np.ones(len(X), dtype=X.dtype)

    def calls(self, pids):
        """How often it was called in some processes."""
        return sum(name.partition("-")[0] in {str(pid) for pid in pids} for name in os.listdir(self.folder))


def make_rows(n, d=8, seed=0):
    rng = np.random.default_rng(seed)
    return (4 * rng.normal(size=(5, d))[rng.integers(0, 5, n)] + rng.normal(size=(n, d))).astype("float32")


def store_rows(path, n, d=8, chunk=2_700, seed=0):
    zarr.create_array(str(path), data=make_rows(n, d, seed), chunks=(chunk, d))
    return str(path)


@contextlib.contextmanager
def local_cluster(n_workers, **options):
    """Workers with nannies in processes of their own, the scheduler here.

    dask's own clusters give a worker up that is not back after 15 s, nanny and all; starting one takes longer on a
    machine that is busy.
    """
    import dask
    import distributed

    settings = {"n_workers": n_workers, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "200s"}),
        distributed.LocalCluster(**settings | options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(n_workers)
        yield client


class Processes:
    """A scheduler and workers, each started from a command line; `hosts` are what the commands begin with."""

    def __init__(self, folder, n_workers, hosts=None, address="127.0.0.1", worker_options=()):
        self.folder, self.file = Path(folder), str(Path(folder) / "scheduler.json")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]), "PYTHONWARNINGS": "ignore"}
        hosts = hosts or [[]] * (n_workers + 1)
        self.options = ("--nthreads", "1", "--no-dashboard", *worker_options)
        self.scheduler = self._start(
            hosts[0], "scheduler", "--host", address, "--port", "0", "--scheduler-file", self.file, "--no-dashboard"
        )
        self.workers = [self.add_worker(host) for host in hosts[1 : n_workers + 1]]

    def _start(self, host, kind, *arguments):
        log = open(self.folder / f"{kind}-{time.monotonic_ns()}.log", "wb")  # noqa: SIM115
        command = [*host, sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments]
        return subprocess.Popen(command, env=self.env, stdout=log, stderr=log, cwd=self.folder, start_new_session=True)

    def add_worker(self, host=(), *options):
        scratch = ("--local-directory", str(self.folder))
        return self._start(host, "worker", "--scheduler-file", self.file, *self.options, *scratch, *options)

    def client(self, **options):
        import distributed

        deadline = time.monotonic() + 60
        while not os.path.exists(self.file) and time.monotonic() < deadline:
            time.sleep(0.1)
        return distributed.Client(scheduler_file=self.file, set_as_default=False, **options)

    def close(self):
        for process in [*self.workers, self.scheduler]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Background(threading.Thread):
    """A call that runs beside the test; `result` waits for it and raises what it raised."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self.function, self.answer, self.error, self.seconds = function, None, None, 0.0
        self.start()

    def run(self):
        begin = time.monotonic()
        try:
            self.answer = self.function()
        except BaseException as error:
            self.error = error
        self.seconds = time.monotonic() - begin

    def result(self, timeout=240):
        self.join(timeout)
        assert not self.is_alive(), f"still running after {timeout} s"
        if self.error is not None:
            raise self.error
        return self.answer


def wait_until(condition, seconds=120):
    """Wait until something is so; give up loudly."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)
    return answer


def pids(client):
    """Process of every worker, by address."""
    return client.run(os.getpid)


def labels_at(path):
    return zarr.open_group(str(path), mode="r")["labels"][:]


def labels_on_threads(rows, algo, **settings):
    """The labels of an undisturbed run here."""
    import dask

    with dask.config.set(scheduler="threads"):
        return np.asarray(daskkcl.fit(rows, algo, **settings).labels_)


def count_tasks(client):
    """Tasks that the scheduler still knows after a while: released ones are forgotten in the background."""
    return client.run_on_scheduler(_count_tasks_after_a_while)


async def _count_tasks_after_a_while(dask_scheduler):
    import asyncio

    for _ in range(100):
        if not dask_scheduler.tasks:
            break
        await asyncio.sleep(0.1)
    return len(dask_scheduler.tasks)
