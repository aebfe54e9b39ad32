"""Clusters of texts: NMI, time and peak memory on 20 Newsgroups, tf-idf rows as CSR, cosine kernel.

Run it as ``python -m benchmarks words --data FOLDER``. Every fit has a fresh process and ``memory_limit="1GiB"``, and
says what it used of it; k-means of scikit-learn on the same rows, which have length one, stands beside. ``--zarr`` fits
once more from a CSR group in Zarr, and says whether the labels are those from memory. ``--buffers 1000 2000
--neighbours 0 150 300`` fits `skkmeans` over sizes of its buffer and numbers of neighbours (0: its default).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

SETTINGS: dict[str, dict[str, Any]] = {
    "spectral": {"map": {"n_landmarks": 1000, "n_neighbors": 40}},
    "pakcl": {"n_landmarks": 2000, "subset_size": 200, "max_epochs": 10},
    "pakcl, as published": {"n_landmarks": 2000, "subset_size": 200, "max_epochs": 10, "preset": "paper"},
    "akkmeans": {"n_landmarks": 2000},
    "skkmeans": {"buffer_size": 2000, "n_neighbors": 150, "neighbors": "either", "normalize": True},
}
_FIT = """
import json, sys, time, warnings
import numpy as np, scipy.sparse
warnings.simplefilter("ignore")
rows, algo, seed, settings, out = sys.argv[1:]
X = scipy.sparse.load_npz(rows) if rows.endswith(".npz") else rows
began = time.perf_counter()
import daskkcl
from daskkcl.system import peak_bytes
settings = json.loads(settings)
if "map" in settings:
    settings["map"] = daskkcl.maps.SparseSpectral(kernel="cosine", **settings["map"])
else:
    settings["kernel"] = "cosine"
model = daskkcl.fit(X, algo, 20, random_state=int(seed), progress=False, memory_limit="1GiB", **settings)
seconds = time.perf_counter() - began
np.save(out, np.asarray(model.labels_))
print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes(), "planned_bytes": model.plan_.peak_bytes}))
"""


def fit_words(rows: str, algo: str, seed: int, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Fit in a new interpreter; return the labels, and seconds, peak resident size (VmHWM) and plan."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/labels.npy"
        command = [sys.executable, "-c", _FIT, rows, algo, str(seed), json.dumps(settings), out]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return np.load(out), json.loads(done.stdout.splitlines()[-1])


def write_group(X: Any, path: str, chunk: int = 100_000) -> None:
    """Write CSR rows as a Zarr group, the way AnnData does."""
    import zarr

    attributes = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(X.shape)}
    group = zarr.create_group(path, attributes=attributes)
    for name in ("data", "indices", "indptr"):
        values = getattr(X, name)
        group.create_array(name, data=values, chunks=(min(chunk, len(values)),))


def print_words(folder: Path, names: list[str], seeds: list[int], zarr: bool) -> None:
    """Print NMI (mean, lowest, highest), seconds and memory of every algorithm."""
    import scipy.sparse
    from sklearn.cluster import KMeans

    from daskkcl.measures import nmi

    rows = str(folder / "20news_tfidf_csr.npz")
    with np.load(folder / "20news_labels.npz") as stored:
        y = stored["y"]
    for name in names:
        if name == "sklearn":
            X = scipy.sparse.load_npz(rows)
            scores = [nmi(y, KMeans(20, n_init=1, random_state=seed).fit(X).labels_) for seed in seeds]
            print(f"{'k-means of scikit-learn':<26} {_spread(scores)}", flush=True)
            continue
        algo, found = name.split(",")[0], []
        for seed in seeds:
            labels, run = fit_words(rows, algo, seed, SETTINGS[name])
            found.append((nmi(y, labels), run))
            if zarr and seed == seeds[0]:
                with tempfile.TemporaryDirectory() as group:
                    write_group(scipy.sparse.load_npz(rows), f"{group}/words.zarr")
                    stored_labels, stored_run = fit_words(f"{group}/words.zarr", algo, seed, SETTINGS[name])
                same = bool((stored_labels == labels).all())
                print(f"{name:<26} from Zarr: same labels {same}, peak {stored_run['peak_bytes'] / 2**20:.0f} MiB")
        peak, plan, seconds = (max(run[key] for _, run in found) for key in ("peak_bytes", "planned_bytes", "seconds"))
        print(
            f"{name:<26} {_spread([score for score, _ in found])}, at most {seconds:.0f} s, "
            f"peak {peak / 2**20:.0f} MiB, planned {plan / 2**20:.0f}",
            flush=True,
        )


def print_buffers(folder: Path, sizes: list[int], neighbours: list[int], seeds: list[int]) -> None:
    """Print NMI and memory of sparse kernel k-means over the size of its buffer and the number of neighbours."""
    from daskkcl.measures import nmi

    with np.load(folder / "20news_labels.npz") as stored:
        y = stored["y"]
    for m in sizes:
        for p in neighbours:
            found = [
                fit_words(
                    str(folder / "20news_tfidf_csr.npz"), "skkmeans", seed, {"buffer_size": m, "n_neighbors": p or None}
                )
                for seed in seeds
            ]
            peak, plan = (max(run[key] for _, run in found) / 2**20 for key in ("peak_bytes", "planned_bytes"))
            scores = [nmi(y, labels) for labels, _ in found]
            print(f"m={m} p={p or 'default'}: {_spread(scores)}, peak {peak:.0f} MiB, planned {plan:.0f}", flush=True)


def _spread(scores: list[float]) -> str:
    return f"NMI {np.mean(scores):.3f} ({min(scores):.3f} to {max(scores):.3f}), {len(scores)} seeds"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = os.environ.get("DASKKCL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=Path(folder))
    parser.add_argument("--algo", nargs="+", default=[*SETTINGS, "sklearn"], choices=[*SETTINGS, "sklearn"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--zarr", action="store_true")
    parser.add_argument("--buffers", type=int, nargs="+", default=[])
    parser.add_argument("--neighbours", type=int, nargs="+", default=[0, 150, 300, 600])
    arguments = parser.parse_args()
    if arguments.buffers:
        print_buffers(arguments.data, arguments.buffers, arguments.neighbours, arguments.seeds)
        return
    print_words(arguments.data, arguments.algo, arguments.seeds, arguments.zarr)


if __name__ == "__main__":
    main()
