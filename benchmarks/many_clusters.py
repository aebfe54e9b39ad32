"""Thousands of clusters: time, memory and quality with an index of the centres and without.

Run it as ``python -m benchmarks.many_clusters`` for whole fits of 1,000,000 x 64 rows in fresh processes, and with
``--assignment`` for the cost of finding the centre of a row, and the recall of the index, over the number of clusters.
Seconds are those of the clock and those of the processor: on a busy machine only the latter compare.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

_FIT = """
import dataclasses, json, sys, time
began = time.perf_counter()
import numpy as np
import daskkcl
from daskkcl.system import peak_bytes
path, algo, limit, parameters = sys.argv[1:]
model = daskkcl.fit(path + "/rows.zarr", algo, memory_limit=limit, random_state=0, progress=False,
                    **json.loads(parameters))
seconds, cpu, peak = time.perf_counter() - began, time.process_time(), peak_bytes()
found = {"seconds": seconds, "cpu_seconds": cpu, "peak_bytes": peak, "planned_bytes": model.plan_.peak_bytes}
found |= {"n_iter": model.n_iter_, "objective": model.objective_, "empty": int((model.cluster_sizes_ == 0).sum())}
found |= {"limit_bytes": model.plan_.limit_bytes, "indexed": model._model.index is not None}
from daskkcl.measures import ari, nmi
blobs, labels, n = np.load(path + "/blobs.npy"), np.asarray(model.labels_), 8192
found |= {"ari": float(ari(blobs, labels)), "nmi": float(nmi(blobs, labels)), "agreement": 1.0}
if found["indexed"]:  # how often the nearest of all final centres is the one that was found
    import zarr
    rows = zarr.open_array(path + "/rows.zarr", mode="r")[:n]
    model._model = dataclasses.replace(model._model, index=None)
    found["agreement"] = float((model.predict(rows) == labels[:n]).mean())
print(json.dumps(found))
"""


def make_blobs(n_clusters: int, n_features: int, seed: int = 0) -> Any:
    """Return centres of Gaussian blobs, in all directions alike: nothing helps an index to guess where to look."""
    return np.random.default_rng(seed).normal(0, 3, (n_clusters, n_features)).astype(np.float32)


def write_blobs(folder: Path, n_rows: int, n_features: int, n_clusters: int, chunk_rows: int = 20_000) -> None:
    """Write rows around the centres of blobs, chunk by chunk, and the blob of each."""
    import zarr

    rng, centres = np.random.default_rng(1), make_blobs(n_clusters, n_features)
    blobs = rng.integers(0, n_clusters, n_rows)
    rows = zarr.create_array(
        f"{folder}/rows.zarr", shape=(n_rows, n_features), dtype="f4", chunks=(chunk_rows, n_features)
    )
    for start in range(0, n_rows, chunk_rows):
        own = blobs[start : start + chunk_rows]
        rows[start : start + chunk_rows] = centres[own] + rng.standard_normal((len(own), n_features), dtype=np.float32)
    np.save(f"{folder}/blobs.npy", blobs)


def fit_in_fresh_process(folder: Path, algo: str, limit: str, **parameters: Any) -> dict[str, Any]:
    """Fit in a new interpreter; return times, peak resident size (VmHWM), objective and adjusted Rand index."""
    command = [sys.executable, "-c", _FIT, str(folder), algo, limit, json.dumps(parameters)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def print_fits(arguments: argparse.Namespace) -> None:
    """Print a line for every fit."""
    head = f"{'algo':<9} {'nearest':<7} {'clusters':>8} {'s':>7} {'cpu s':>7}"
    print(f"{head} peak   plan MiB  passes    ARI    NMI  found  objective")
    for c in arguments.clusters:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            write_blobs(Path(folder), arguments.rows, arguments.features, c)
            for algo in arguments.algo:
                for nearest in arguments.nearest:
                    own = {"n_clusters": c, "nearest": nearest}
                    if algo == "skkmeans":
                        size = arguments.per_cluster * c
                        own |= {"buffer_size": size, "n_neighbors": arguments.neighbours, "max_buffer": size + c // 4}
                        own |= {"gamma": arguments.gamma}
                    else:
                        own |= {"map": "identity"} if arguments.landmarks == 0 else {"n_landmarks": arguments.landmarks}
                    own |= {"max_iter": arguments.passes, "tol": 0} if algo == "akkmeans" else {}
                    run = fit_in_fresh_process(Path(folder), algo, arguments.limit, **own)
                    sizes = " ".join(f"{run[name] / 2**20:6.0f}" for name in ("peak_bytes", "planned_bytes"))
                    print(
                        f"{algo:<9} {nearest:<7} {c:>8,} {run['seconds']:7.1f} {run['cpu_seconds']:7.1f} {sizes} "
                        f"     {run['n_iter']:>6} {run['ari']:6.3f} {run['nmi']:6.4f} "
                        f"{run['agreement']:6.4f}  {run['objective']:.6g}, {run['empty']} empty",
                        flush=True,
                    )


def print_assignment(arguments: argparse.Namespace) -> None:
    """Print what it costs to find the centres of rows, and how often the index finds the nearest."""
    from daskkcl.maps.base import Centres
    from daskkcl.maps.explicit import IdentityMap
    from daskkcl.rules.crisp import Nearest
    from daskkcl.rules.index import CentreIndex
    from daskkcl.rules.many import winners
    from daskkcl.system import single_threaded

    def seconds(function: Any) -> tuple[Any, float]:
        function()
        began = time.process_time()
        return function(), time.process_time() - began

    d, tile = arguments.features, 1024
    print(f"{'clusters':>8} {'exact µs':>9} {'index µs':>9} {'recall':>7} {'build s':>8} {'index MiB':>9}")
    for c in arguments.clusters:
        centres_rows, rng = make_blobs(c, d), np.random.default_rng(1)
        rows = centres_rows[rng.integers(0, c, 8 * tile)] + rng.standard_normal((8 * tile, d), dtype=np.float32)
        map_ = IdentityMap(np.zeros(d), np.dtype(np.float32))
        with single_threaded():
            centres = Centres.from_means(map_.measure(centres_rows)[0], map_)
            index, build = seconds(lambda centres=centres: CentreIndex.of(centres))
            tiles = [map_.measure(rows[first : first + tile]) for first in range(0, len(rows), tile)]
            found = {}
            for name, own in (("exact", None), ("index", index)):
                found[name] = seconds(
                    lambda own=own, centres=centres, tiles=tiles: np.concatenate(
                        [winners(Z, kappa, centres, Nearest(), own)[0] for Z, kappa in tiles]
                    )
                )
        exact, near = (found[name][1] / len(rows) * 1e6 for name in ("exact", "index"))
        recall = float((found["exact"][0] == found["index"][0]).mean())
        size = index.points.nbytes * 2 + index.cells.nbytes + 8 * c
        print(f"{c:>8,} {exact:9.1f} {near:9.1f} {recall:7.4f} {build:8.2f} {size / 2**20:9.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--clusters", type=int, nargs="+", default=[2000, 10_000])
    parser.add_argument("--landmarks", type=int, default=0, help="0: input space (map='identity')")
    parser.add_argument("--algo", nargs="+", default=["akkmeans", "pakcl"])
    parser.add_argument("--nearest", nargs="+", default=["index"])
    parser.add_argument("--per-cluster", type=int, default=4, help="rows of the buffer of skkmeans for each cluster")
    parser.add_argument("--neighbours", type=int, default=12, help="of skkmeans")
    parser.add_argument("--gamma", type=float, help="of skkmeans (default: from the data)")
    parser.add_argument("--passes", type=int, default=5, help="of akkmeans")
    parser.add_argument("--limit", default="2GiB")
    parser.add_argument("--folder", help="where to put the data (default: a temporary folder)")
    parser.add_argument("--assignment", action="store_true")
    arguments = parser.parse_args()
    (print_assignment if arguments.assignment else print_fits)(arguments)


if __name__ == "__main__":
    main()
