"""Runs that are killed: a process that forks one run after another, kills it, and says what came of it.

``python fault_driver.py '{...}'`` with the arguments of `kill_again_and_again` prints its findings as JSON. Everything
is imported once, here; the runs themselves are children.
"""

import json
import os
import random
import signal
import sys
import time
import traceback

import dask.array  # noqa: F401
import numpy as np
import scipy.linalg
import scipy.sparse  # noqa: F401
import zarr

import daskkcl
import daskkcl.estimators
from daskkcl import planning
from daskkcl.schedules import chunks, sequential, subsets, walk


def small_rounds():
    """Many blocks and rounds on small data."""
    planning._BLOCKS_PER_THREAD = 30
    subsets._SEGMENT_BLOCKS = sequential._SEGMENT_BLOCKS = 20
    chunks._ROUND_CHUNKS = walk._SEGMENT_BLOCKS = chunks.FAN_IN


class Log:
    """Lines that survive their process: written at once."""

    def __init__(self, path):
        self.path = path

    def add(self, *words):
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, (" ".join(map(str, words)) + "\n").encode())
        os.close(file)

    def lines(self):
        try:
            with open(self.path) as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []


def run(data, log, pause, parameters, keep, scheduler):
    """Fit in this process: slowly, with a line for every stage and for every chunk that is written here."""
    small_rounds()
    if scheduler:
        from distributed import Client

        parameters = {**parameters, "client": Client(scheduler_file=scheduler)}
    if not keep:
        from daskkcl.schedules import setup

        make = setup.make_plan
        setup.make_plan = lambda *a, **k: make(*a, **{**k, "keep": {}, "spill_bytes": 0})
    write = zarr.Array.__setitem__

    def slow_write(array, region, values):
        if ".partial-" in str(array.store_path):
            log.add("chunk", array.name, region[0].start)
            time.sleep(pause)
        write(array, region, values)

    zarr.Array.__setitem__ = slow_write
    stage_before = []

    def progress(stage, done, total, info):
        if stage_before != [stage]:
            stage_before[:] = [stage]
            log.add("stage", stage)
        time.sleep(pause)

    import warnings

    warnings.simplefilter("ignore")
    daskkcl.fit(data, **parameters, progress=progress)


def kill_again_and_again(
    data,
    folder,
    parameters,
    n_kills,
    seed,
    after="stage",
    longest=1.0,
    pause=0.004,
    kill="SIGKILL",
    keep=True,
    scheduler="",
):
    """Kill runs at random moments after a line that begins with `after`, until `n_kills` have been killed.

    A run that ends by itself is followed by a new one with another checkpoint and output. With the file of a
    `scheduler` they compute on its workers.
    """
    rng = random.Random(seed)
    killed, rounds, findings = 0, 0, []
    deadline = time.monotonic() + 1500
    while not findings or killed < n_kills or findings[-1]["code"] != 0:
        assert time.monotonic() < deadline, findings[-3:]
        log = Log(os.path.join(folder, f"log-{len(findings)}"))
        own = {**parameters, "checkpoint": os.path.join(folder, f"run-{rounds}.ckpt")}
        if parameters.get("out"):
            own["out"] = os.path.join(folder, f"out-{rounds}.zarr")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                run(data, log, pause, own, keep, scheduler)
                code = 0
            except SystemExit as error:
                print(error, file=sys.stderr)
                code = error.code
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        status = None
        while killed < n_kills and status is None and not any(line.startswith(after) for line in log.lines()):
            time.sleep(0.002)
            status = _status(pid)
        if killed < n_kills and status is None:
            time.sleep(rng.uniform(0, longest))
            os.kill(pid, getattr(signal, kill))
        while status is None:
            time.sleep(0.002)
            status = _status(pid)
        findings.append({"round": rounds, "code": os.waitstatus_to_exitcode(status), "lines": log.lines()})
        if findings[-1]["code"] == 0:
            rounds += 1
        else:
            killed += 1
            assert killed <= n_kills, "a run failed by itself"
    return findings


def _status(pid):
    done, status = os.waitpid(pid, os.WNOHANG)
    return status if done else None


if __name__ == "__main__":
    np.seterr(all="ignore")
    print(json.dumps(kill_again_and_again(**json.loads(sys.argv[1]))))
