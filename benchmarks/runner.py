"""Runs contestants in fresh processes, one after another, in turn; watches their time and memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from daskkcl.system import available_bytes, format_bytes

__all__ = ["Entry", "Job", "in_turn", "run_fresh"]

_LOOKS_A_SECOND = 20
_MEMORY_SHARE = 0.7  # of what the machine has free: beyond, a contestant is stopped before it troubles others


@dataclass(frozen=True)
class Job:
    """What is to be run.

    Parameters
    ----------
    title : str
        The row of the table.
    contestant : str
        A name of `benchmarks.contestants`.
    rows, classes : path
        A ``.npy`` file or a Zarr; a ``.npy`` file of true classes.
    time_limit : float
        Seconds after which it is stopped.
    repeats : int or None
        How often at most, if fewer than the others.
    """

    title: str
    contestant: str
    rows: str
    n_clusters: int
    classes: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    time_limit: float = 120.0
    repeats: int | None = None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """What came of a job: medians of times, means of qualities, the largest peak; or why there is nothing."""

    title: str
    runs: tuple[dict[str, Any], ...]
    failed: str = ""

    @property
    def seconds(self) -> float:
        """The median time."""
        return self.median("seconds")

    @property
    def added_bytes(self) -> float:
        """The largest peak over the base."""
        return max((run["added_bytes"] for run in self.runs), default=float("nan"))

    def median(self, name: str) -> float:
        """Return the median of something measured."""
        values = [run[name] for run in self.runs if name in run]
        return statistics.median(values) if values else float("nan")

    def mean(self, name: str) -> float:
        """Return the mean of something measured."""
        values = [run[name] for run in self.runs if name in run]
        return statistics.fmean(values) if values else float("nan")


def in_turn(jobs: list[Job], repeats: int, seed: int = 0) -> dict[str, Entry]:
    """Run all jobs once, then all again, and so on, each time with the next seed; one that fails is not run again."""
    runs: dict[str, list[dict[str, Any]]] = {job.title: [] for job in jobs}
    failed: dict[str, str] = {}
    for turn in range(repeats):
        for job in jobs:
            if job.title in failed or (job.repeats is not None and turn >= job.repeats):
                continue
            found = run_fresh(job, seed + turn)
            if "failed" in found:
                failed[job.title] = found["failed"]
            else:
                runs[job.title].append(found)
            print(f"    {job.title}: {found.get('failed') or format(found['seconds'], '.2f') + ' s'}", flush=True)
    return {job.title: Entry(job.title, tuple(runs[job.title]), failed.get(job.title, "")) for job in jobs}


def run_fresh(job: Job, seed: int) -> dict[str, Any]:
    """Run a job in a new interpreter; return what it printed, or why it failed."""
    description = {
        "contestant": job.contestant,
        "rows": job.rows,
        "classes": job.classes,
        "n_clusters": job.n_clusters,
        "seed": seed,
        "parameters": job.parameters,
        "libraries": job.libraries,
    }
    home = Path(__file__).resolve().parents[1]
    environment = {**os.environ, **job.environment}
    environment["PYTHONPATH"] = os.pathsep.join([str(home), *filter(None, [environment.get("PYTHONPATH")])])
    most = int(_MEMORY_SHARE * available_bytes())
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        command = [sys.executable, "-m", "benchmarks.worker", json.dumps(description)]
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        stopped = _watch(process, job.time_limit, most)
        if stopped:
            return {"failed": stopped}
        out.seek(0)
        err.seek(0)
        lines = out.read().splitlines()
        if process.returncode or not lines:
            reason = (err.read().splitlines() or [f"exit code {process.returncode}"])[-1]
            return {"failed": reason[:160]}
        return json.loads(lines[-1])


def _watch(process: subprocess.Popen[Any], time_limit: float, memory_limit: int) -> str:
    """Wait for a process; stop it when it takes too long or too much; return why."""
    began, watched = time.perf_counter(), psutil.Process(process.pid)
    while process.poll() is None:
        try:
            used = watched.memory_info().rss
        except psutil.Error:
            break
        reason = ""
        if used > memory_limit:
            reason = f"out of memory (over {format_bytes(memory_limit)})"
        elif time.perf_counter() - began > time_limit:
            reason = f"not finished in {time_limit:.0f} s"
        if reason:
            process.kill()
            process.wait()
            return reason
        time.sleep(1 / _LOOKS_A_SECOND)
    process.wait()
    return ""
