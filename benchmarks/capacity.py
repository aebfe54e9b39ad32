"""What `daskkcl.plan` foretells against what a fit then takes, each in a fresh process.

Run it as ``python -m benchmarks.capacity --rows 400000 --features 32``. Factors above 1: the plan promised less time
than the fit took. Algorithms that go on until they rest are planned for the passes that they took.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.memory import write_table

_BOTH = """
import json, sys, time, daskkcl
from daskkcl.system import peak_bytes
path, algo, limit, parameters = json.loads(sys.argv[1])
first = daskkcl.plan(path, algo, memory_limit=limit, **parameters)
began, cpu_began = time.perf_counter(), time.process_time()
model = daskkcl.fit(path, algo, memory_limit=limit, random_state=0, progress=False, **parameters)
seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
peak = peak_bytes()
passes = model.n_iter_ if any(s.name == "passes" for s in first.stages) or "n_seeds" in parameters else None
costs = daskkcl.plan(path, algo, memory_limit=limit, passes=passes, rates=first.rates, **parameters)
print(json.dumps({
    "seconds": seconds,
    "planned_seconds": costs.seconds,
    "cpu_seconds": cpu_seconds,
    "planned_cpu_seconds": costs.cpu_seconds,
    "peak_bytes": peak,
    "planned_bytes": first.peak_bytes,
    "keep": costs.plan.keep,
    "stages": {s.name: round(s.cpu_seconds, 2) for s in costs.stages},
}))
"""

CASES: dict[str, dict[str, Any]] = {
    "akkmeans": {"n_clusters": 10},
    "fcm": {"n_clusters": 10},
    "pakcl": {"n_clusters": 10},
    "akcl": {"n_clusters": 10},
    "okfcm": {"n_clusters": 10},
    "spkfcm": {"n_clusters": 10},
    "rsekfcm": {"n_clusters": 10},
    "spectral": {"n_clusters": 10},
    "skkmeans": {"n_clusters": 10},
    "cpcl": {"n_seeds": 15, "max_epochs": 20},
}


FIGURES = [(10**8, 10), (10**9, 100), (10**10, 100), (10**10, 1000)]  # rows, workers


def figures() -> str:
    """Return the table of docs/capacity.md: typical rates, a cluster that need not exist."""
    import daskkcl
    from daskkcl.capacity import Rates
    from daskkcl.capacity.forecast import format_seconds
    from daskkcl.system import format_bytes

    lines = ["| rows | workers | data | time | core hours | memory a worker | read | traffic |", "|" + "---|" * 8]
    for algo in ("okfcm", "akkmeans"):
        for n_rows, workers in FIGURES:
            costs = daskkcl.plan(
                n_rows=n_rows,
                n_features=64,
                algo=algo,
                n_clusters=10,
                workers=workers,
                threads=4,
                memory_limit="4GB",
                bandwidth="20GB",
                rates=Rates(),
            )
            cells = [
                f"`{algo}`, {n_rows:,}",
                f"{workers:,}",
                format_bytes(costs.stored_bytes),
                format_seconds(costs.seconds),
                f"{costs.cpu_seconds / 3600:,.1f}",
                format_bytes(costs.peak_bytes),
                format_bytes(costs.read_bytes),
                format_bytes(costs.traffic_bytes),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def compare(path: str, algo: str, limit: str, **parameters: Any) -> dict[str, Any]:
    """Plan and fit in a new interpreter; return both."""
    arguments = json.dumps([path, algo, limit, parameters])
    done = subprocess.run([sys.executable, "-c", _BOTH, arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def on_cluster(path: str, limit: str, cases: dict[str, dict[str, Any]], n_workers: int) -> None:
    """Print what a fit on workers of one thread takes beside what was foretold for them."""
    import time
    from dataclasses import replace

    from distributed import Client, LocalCluster

    import daskkcl
    from daskkcl.capacity import cluster_rates
    from daskkcl.system import peak_bytes

    def received(dask_worker: Any) -> int:
        return sum(transfer["total"] for transfer in dask_worker.transfer_incoming_log)

    def spent(client: Any) -> float:
        return time.process_time() + sum(client.run(time.process_time).values())

    head = f"{n_workers} workers {'seconds':>9}{'planned':>9}{'factor':>8}{'cpu s':>9}{'planned':>9}{'factor':>8}"
    print(f"{head}{'worker MiB':>12}{'planned':>9}{'traffic MB':>12}{'planned':>9}  rates of the cluster")
    for algo, parameters in cases.items():
        workers = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
        with (
            tempfile.TemporaryDirectory() as scratch,
            LocalCluster(**workers, memory_limit="2GiB") as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            settings = {"memory_limit": limit, "scratch": scratch, **parameters}
            run = {"client": client, "random_state": 0, "progress": False, **settings}
            daskkcl.fit(path, algo, **run)  # modules are loaded, loops compiled
            before, cpu_began, began = sum(client.run(received).values()), spent(client), time.perf_counter()
            model = daskkcl.fit(path, algo, **run)
            seconds, cpu_seconds = time.perf_counter() - began, spent(client) - cpu_began
            after = sum(client.run(received).values())
            peak = max(client.run(peak_bytes).values())
            counted = model.n_iter_ if model.plan_.has("passes") or "n_seeds" in parameters else None
            asked = {"workers": n_workers, "threads": 1, "passes": counted, **settings}
            own = cluster_rates(client)
            costs = daskkcl.plan(path, algo, rates=replace(daskkcl.plan(path, algo, **asked).rates, **own), **asked)
        print(
            f"{algo:<10}{seconds:>9.2f}{costs.seconds:>9.2f}{seconds / costs.seconds:>8.2f}"
            f"{cpu_seconds:>9.2f}{costs.cpu_seconds:>9.2f}{cpu_seconds / costs.cpu_seconds:>8.2f}"
            f"{peak / 2**20:>12.0f}{costs.peak_bytes / 2**20:>9.0f}"
            f"{(after - before) / 1e6:>12.2f}{costs.traffic_bytes / 1e6:>9.2f}  "
            + ", ".join(f"{name} {rate:.0f}" for name, rate in own.items()),
            flush=True,
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--limit", default="768MiB")
    parser.add_argument("--landmarks", type=int, help="of all algorithms that have them; else what they choose")
    parser.add_argument("--algorithms", nargs="*", default=list(CASES))
    parser.add_argument("--figures", action="store_true", help="print the worked figures of docs/capacity.md instead")
    parser.add_argument("--cluster", nargs="*", type=int, metavar="N", help="on N workers of one thread (default 2)")
    options = parser.parse_args()
    if options.figures:
        print(figures())
        return
    landmarks = {} if options.landmarks is None else {"n_landmarks": options.landmarks}
    without = ("fcm", "skkmeans", "cpcl")
    cases = {algo: CASES[algo] | ({} if algo in without else landmarks) for algo in options.algorithms}
    with tempfile.TemporaryDirectory() as folder:
        path = write_table(f"{folder}/x.zarr", options.rows, options.features, chunk_rows=20_000)
        if options.cluster is not None:
            for n_workers in options.cluster or [2]:
                on_cluster(path, options.limit, cases, n_workers)
            return
        print(
            f"{'':<10}{'seconds':>9}{'planned':>9}{'factor':>8}"
            f"{'cpu s':>9}{'planned':>9}{'factor':>8}{'peak MiB':>10}{'planned':>9}  kept",
            flush=True,
        )
        for algo, parameters in cases.items():
            found = compare(path, algo, options.limit, **parameters)
            factor = found["seconds"] / found["planned_seconds"]
            cpu_factor = found["cpu_seconds"] / found["planned_cpu_seconds"]
            print(
                f"{algo:<10}{found['seconds']:>9.2f}{found['planned_seconds']:>9.2f}{factor:>8.2f}"
                f"{found['cpu_seconds']:>9.2f}{found['planned_cpu_seconds']:>9.2f}{cpu_factor:>8.2f}"
                f"{found['peak_bytes'] / 2**20:>10.0f}{found['planned_bytes'] / 2**20:>9.0f}  {found['keep']}"
                f"  {found['stages']}",
                flush=True,
            )


if __name__ == "__main__":
    main()
