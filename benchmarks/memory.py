"""Peak memory of a fit in a fresh process, against its limit and its plan.

Run it as ``python -m benchmarks memory --rows 4000000 --features 64 --limit 512MiB``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import zarr

_FIT = """
import json, sys, time
began = time.perf_counter()
for name in ("pyarrow", "sparse"):  # pandas and dask import them merely because they are installed, some 45 and 75 MiB
    sys.modules[name] = None
import daskkcl
from daskkcl.system import peak_bytes
path, algo, limit, parameters = sys.argv[1:]
parameters = json.loads(parameters)
if parameters.pop("weighted", False):
    import numpy, zarr
    parameters["sample_weight"] = numpy.arange(zarr.open_array(path, mode="r").shape[0]) % 5
if parameters.pop("written", False):
    import tempfile
    parameters["out"] = tempfile.mkdtemp() + "/out.zarr"
model = daskkcl.fit(path, algo, memory_limit=limit, random_state=0, progress=False, **parameters)
print(json.dumps({
    "seconds": time.perf_counter() - began,
    "peak_bytes": peak_bytes(),
    "planned_bytes": model.plan_.peak_bytes,
    "limit_bytes": model.plan_.limit_bytes,
    "n_iter": model.n_iter_,
    "keep": model.plan_.keep,
    "sizes": model.cluster_sizes_.tolist(),
}))
"""


def write_table(
    path: str | Path, n_rows: int, n_features: int, chunk_rows: int = 10_000, n_clusters: int = 10, seed: int = 0
) -> str:
    """Write a float32 Zarr of Gaussian clusters, a chunk at a time; return its path."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 3, (n_clusters, n_features)).astype(np.float32)
    array = zarr.create_array(str(path), shape=(n_rows, n_features), dtype="float32", chunks=(chunk_rows, n_features))
    for start in range(0, n_rows, chunk_rows):
        size = min(chunk_rows, n_rows - start)
        noise = rng.standard_normal((size, n_features), dtype=np.float32)
        array[start : start + size] = centres[rng.integers(0, n_clusters, size)] + noise
    return str(path)


def fit_in_fresh_process(path: str, algo: str, limit: str, **parameters: Any) -> dict[str, Any]:
    """Fit in a new interpreter; return its peak resident size (VmHWM), its plan and the time.

    ``weighted=True`` weighs the rows 0 to 4 in turn, ``written=True`` writes labels and memberships.
    """
    command = [sys.executable, "-c", _FIT, path, algo, limit, json.dumps(parameters)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[4_000_000])
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--chunk-rows", type=int, default=10_000)
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--landmarks", type=int, default=500)
    parser.add_argument("--limit", default="512MiB")
    parser.add_argument("--algo", nargs="+", default=["akkmeans", "pakcl", "okfcm", "spkfcm", "rsekfcm", "fcm"])
    parser.add_argument("--folder", help="where to put the data (default: a temporary folder)")
    arguments = parser.parse_args()
    print(f"{'rows':>12} {'algo':<9} {'peak':>8} {'planned':>8} {'limit':>8}  MiB {'seconds':>8}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for rows in arguments.rows:
            path = write_table(f"{folder}/{rows}.zarr", rows, arguments.features, arguments.chunk_rows)
            for algo in arguments.algo:
                landmarks = {} if algo == "fcm" else {"n_landmarks": arguments.landmarks}
                run = fit_in_fresh_process(path, algo, arguments.limit, n_clusters=arguments.clusters, **landmarks)
                sizes = " ".join(f"{run[name] / 2**20:8.0f}" for name in ("peak_bytes", "planned_bytes", "limit_bytes"))
                print(f"{rows:>12,} {algo:<9} {sizes}      {run['seconds']:8.1f}", flush=True)


if __name__ == "__main__":
    main()
