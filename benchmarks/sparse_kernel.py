"""Sparse kernel k-means over p and m beside approximate kernel k-means, and the circles of the paper's first figure.

Run it as ``python -m benchmarks sparse_kernel --data FOLDER --set pendigits`` (or ``mnist``), and with ``--circles``.
Every figure is a mean over seeds; ``akkmeans`` has uniform landmarks, as many as the buffer begins with.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import daskkcl

GRIDS = {
    # name: what features are divided by, sizes m, numbers of neighbours p for each m (None: the default)
    "pendigits": (100, (500, 1000), (20, 50, 100, 200, None, "all")),
    "mnist": (255, (1000, 2000), (50, 100, 200, None, "all")),
}
EQUAL, UNEQUAL = [100] * 10, [20, 40, 60, 80, 100, 100, 120, 140, 160, 180]


def radius_kernel(A: Any, B: Any) -> Any:
    """Return the Gaussian kernel of distances from the origin: neighbours in its sense are on the same circle."""
    a, b = np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=1)
    return np.exp(-0.5 * (a[:, None] - b) ** 2)


def circles(seed: int, sizes: list[int]) -> tuple[Any, Any]:
    """Return points along ten circles around the origin, and the circle of each."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(10), sizes))
    radius, angle = 1 + y + 0.1 * rng.normal(size=len(y)), rng.uniform(0, 2 * np.pi, len(y))
    return np.c_[radius * np.cos(angle), radius * np.sin(angle)], y


def circle_samples(seed: int, sizes: list[int], first: int = 25) -> dict[str, int]:
    """Return how many circles 50 points touch: uniform ones, and a buffer of at most 50."""
    X, y = circles(seed, sizes)
    buffer = daskkcl.SparseKernelKMeans(
        10,
        kernel=radius_kernel,
        buffer_size=first,
        max_buffer=50,
        n_neighbors=50,
        batch_size=10,
        recluster_every=1,
        n_init=1,
        random_state=seed,
        progress=False,
    ).fit(X)
    uniform = np.random.default_rng(1000 + seed).choice(len(X), 50, replace=False)
    return {"uniform": len(set(y[uniform])), "buffer": len(set(y[buffer.buffer_row_numbers_]))}


def independent_sample(seed: int, sizes: list[int]) -> int:
    """Return how many circles 50 points touch that are drawn by their leverage scores among all, all at once."""
    import scipy.linalg

    X, y = circles(seed, sizes)
    _, V = scipy.linalg.eigh(radius_kernel(X, X), subset_by_index=[len(X) - 10, len(X) - 1])
    leverage = (V**2).sum(axis=1)
    return len(
        set(y[np.random.default_rng(1000 + seed).choice(len(X), 50, replace=False, p=leverage / leverage.sum())])
    )


def print_circles(seeds: int) -> None:
    """Print how often all ten circles are touched."""
    for name, sizes in (("100 points each", EQUAL), ("20 to 180 points", UNEQUAL)):
        alone = sum(independent_sample(seed, sizes) == 10 for seed in range(seeds))
        print(f"{name}, drawn by leverage all at once: all ten circles in {alone} of {seeds} runs", flush=True)
        for first in (25, 50):
            found = [circle_samples(seed, sizes, first) for seed in range(seeds)]
            shares = {kind: sum(one[kind] == 10 for one in found) for kind in found[0]}
            print(f"{name}, buffer begins with {first}: all ten circles in {shares} of {seeds} runs", flush=True)


def print_table(X: Any, y: Any, sizes: Any, neighbours: Any, seeds: int, kernel: str, how: str) -> None:
    """Print mean NMI over p and m, and the time and entries of a run."""
    c = len(np.unique(y))
    for m in sizes:
        start = time.perf_counter()
        model: Any = daskkcl.ApproxKernelKMeans(c, kernel=kernel, n_landmarks=m)
        scores = [_nmi(y, model.set_params(random_state=seed), X) for seed in range(seeds)]
        seconds = (time.perf_counter() - start) / seeds
        print(f"m={m} akkmeans: NMI {np.mean(scores):.3f} ({np.std(scores):.3f}), {seconds:.1f} s", flush=True)
        for p in neighbours:
            p_rows = m if p == "all" else p
            if p_rows is not None and p_rows > m:
                continue
            start, scores, entered = time.perf_counter(), [], []
            for seed in range(seeds):
                most = m if p == "all" else None  # dense: no more rows than the p that are seen
                own = {"buffer_size": m, "n_neighbors": p_rows, "neighbors": how, "max_buffer": most}
                model = daskkcl.SparseKernelKMeans(c, kernel=kernel, random_state=seed, **own)
                scores.append(_nmi(y, model, X))
                entered.append(model.n_entered_)
            seconds = (time.perf_counter() - start) / seeds
            used = model._model.reader.map_.n_neighbors
            print(
                f"m={m} p={used}{' (default)' if p is None else ''}: NMI {np.mean(scores):.3f} ({np.std(scores):.3f}), "
                f"{np.mean(entered):.0f} entered, {seconds:.1f} s",
                flush=True,
            )


def _nmi(y: Any, model: Any, X: Any) -> float:
    return float(daskkcl.measures.nmi(y, model.set_params(progress=False).fit(X).labels_))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    folder = os.environ.get("DASKKCL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=Path(folder))
    parser.add_argument("--set", choices=GRIDS, default="pendigits")
    parser.add_argument("--kernel", default="rbf")
    parser.add_argument("--sizes", type=int, nargs="+", help="m, in place of those of the set")
    parser.add_argument("--neighbours", type=int, nargs="+", help="p, in place of those of the set")
    parser.add_argument("--near", choices=["mutual", "either"], default="mutual", help="neighbors of skkmeans")
    parser.add_argument("--circles", action="store_true")
    parser.add_argument("--seeds", type=int, default=5, help="runs of which the mean is printed")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.circles:
        print_circles(100)
        return
    unit, sizes, neighbours = GRIDS[arguments.set]
    with np.load(arguments.data / f"{arguments.set}.npz") as stored:
        X, y = stored["X"].astype(np.float32) / unit, stored["y"]
    neighbours = arguments.neighbours or neighbours
    print_table(X, y, arguments.sizes or sizes, neighbours, arguments.seeds, arguments.kernel, arguments.near)


if __name__ == "__main__":
    main()
