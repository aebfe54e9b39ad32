"""Kernel fuzzy c-means on MNIST sorted by class, against scikit-fuzzy's c-means, each in a fresh process.

Run it as ``python -m benchmarks.fuzzy``. It needs ``mnist.npz`` (arrays X of 70,000 x 784 bytes, y) in the folder that
``DASKKCL_DATA`` names, or ``--data path``; and scikit-fuzzy, which ``pip install 'daskkcl[benchmarks]'`` brings. Pixels
are divided by 255 and rows by their length; the kernel is the polynomial of degree 5.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

_DATA = Path(os.environ.get("DASKKCL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")) / "mnist.npz"

_OURS = """
import daskkcl
def run(X, seed):
    model = daskkcl.fit(X, algo, 10, kernel="polynomial", degree=5, n_landmarks=300, fuzzifier=1.05,
                        random_state=seed, progress=False)
    return model.labels_
"""

_THEIRS = """
import skfuzzy
def run(X, seed):
    U = skfuzzy.cmeans(X.T, 10, 1.1, error=0, maxiter=50, seed=seed)[1]
    return U.argmax(axis=0)
"""

_PROCESS = """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
algo, path, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
{contestant}
with np.load(path) as stored:
    order = np.argsort(stored["y"], kind="stable")
    X, y = stored["X"][order].astype(np.float32) / 255, stored["y"][order]
X /= np.linalg.norm(X, axis=1, keepdims=True)
from daskkcl.system import peak_bytes, resident_bytes
before, began = resident_bytes(), time.perf_counter()
labels = run(X, seed)
seconds, peak = time.perf_counter() - began, peak_bytes()
from sklearn.metrics import adjusted_rand_score
print(json.dumps({{"seconds": seconds, "added_bytes": peak - before, "rand": adjusted_rand_score(y, labels)}}))
"""


def run_in_fresh_process(algo: str, path: str, seed: int) -> dict[str, Any]:
    """Cluster in a new interpreter; return the time, the memory beyond the rows, and the adjusted Rand index."""
    contestant = _THEIRS if algo == "scikit-fuzzy" else _OURS
    command = [sys.executable, "-c", _PROCESS.format(contestant=contestant), algo, path, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        if "No module named 'skfuzzy'" in done.stderr:
            raise ModuleNotFoundError("scikit-fuzzy is not installed: pip install 'daskkcl[benchmarks]'")
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=str(_DATA), help="mnist.npz")
    parser.add_argument("--algo", nargs="+", default=["okfcm", "rsekfcm", "spkfcm", "scikit-fuzzy"])
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if not Path(arguments.data).exists():
        parser.error(f"there is no {arguments.data!r}; set DASKKCL_DATA to the folder of mnist.npz, or pass --data")
    print(f"{'':<14} {'adjusted Rand':>14} {'seconds':>9} {'MiB beyond the rows':>21}")
    for algo in arguments.algo:
        try:
            runs = [run_in_fresh_process(algo, arguments.data, seed) for seed in range(arguments.seeds)]
        except ModuleNotFoundError as error:
            print(f"{algo:<14} {error}")
            continue
        rand, seconds, added = (np.mean([run[name] for run in runs]) for name in ("rand", "seconds", "added_bytes"))
        print(f"{algo:<14} {rand:>14.3f} {seconds:>9.1f} {added / 2**20:>21.0f}", flush=True)


if __name__ == "__main__":
    main()
