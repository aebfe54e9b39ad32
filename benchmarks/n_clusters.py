"""How often ``n_clusters="auto"`` is right: a table over many kinds of data and ten seeds, right or wrong.

Run it as ``python -m benchmarks n_clusters --data FOLDER``; real sets that are not in the folder are left out.
A seed is another generated set, or, of a real set, another uniform sample.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from daskkcl.random import Key
from daskkcl.rules.counting import MAX_ROWS, count_clusters
from daskkcl.system import single_threaded

ROWS = MAX_ROWS
Make = Callable[[np.random.Generator], Any]


def centres_apart(rng: np.random.Generator, k: int, d: int, apart: float) -> Any:
    """Return k random centres whose two closest are exactly (2 dimensions: at least) so far apart."""
    if d > 2:
        centres = rng.normal(size=(k, d))
        distances = np.linalg.norm(centres[:, None] - centres, axis=-1)
        return centres * apart / distances[np.triu_indices(k, 1)].min()
    side, centres = 1.3 * apart * k**0.5, []
    while len(centres) < k:
        new = rng.uniform(0, side, 2)
        if all(np.linalg.norm(new - old) >= apart for old in centres):
            centres.append(new)
        side *= 1.0005  # ends even when the square is full
    return np.array(centres)


def gaussians(k: int, d: int, apart: float = 6, long: float = 1) -> Make:
    """Gaussians of unit variance; in the first direction, of `long` standard deviations."""

    def make(rng: np.random.Generator) -> Any:
        noise = rng.normal(size=(ROWS, d)) * np.r_[long, np.ones(d - 1)]
        return centres_apart(rng, k, d, apart)[rng.integers(0, k, ROWS)] + noise

    return make


def rings(*radii: float, noise: float = 0.1) -> Make:
    def make(rng: np.random.Generator) -> Any:
        radius = rng.choice(radii, ROWS, p=np.array(radii) / sum(radii)) + noise * rng.normal(size=ROWS)
        angle = rng.uniform(0, 2 * np.pi, ROWS)
        return np.c_[radius * np.cos(angle), radius * np.sin(angle)]

    return make


def moons(rng: np.random.Generator) -> Any:
    angle, lower = rng.uniform(0, np.pi, ROWS), rng.integers(0, 2, ROWS)
    side = 1 - 2 * lower
    return np.c_[side * np.cos(angle) + lower, side * np.sin(angle) + lower / 2] + 0.07 * rng.normal(size=(ROWS, 2))


def spirals(rng: np.random.Generator) -> Any:
    along = np.sqrt(rng.uniform(0.05, 1, ROWS))
    angle = 2.5 * np.pi * along + 2 * np.pi / 3 * rng.integers(0, 3, ROWS)
    return along[:, None] * np.c_[np.cos(angle), np.sin(angle)] + 0.015 * rng.normal(size=(ROWS, 2))


def unequal(rng: np.random.Generator) -> Any:
    """Five Gaussians, of 40 to 5 % of the rows and standard deviations 0.5 to 3."""
    centres, spread = np.array([[0, 0], [12, 0], [0, 12], [14, 14], [25, 5]]), np.array([0.5, 1, 2, 1.5, 3])
    label = rng.choice(5, ROWS, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    return centres[label] + spread[label, None] * rng.normal(size=(ROWS, 2))


def grid(side: int, apart: float) -> Make:
    def make(rng: np.random.Generator) -> Any:
        label = rng.integers(0, side**2, ROWS)
        return apart * np.c_[label // side, label % side] + rng.normal(size=(ROWS, 2))

    return make


def bars(k: int) -> Make:
    def make(rng: np.random.Generator) -> Any:
        return np.c_[rng.uniform(0, 10, ROWS), 3 * rng.integers(0, k, ROWS) + 0.3 * rng.normal(size=ROWS)]

    return make


def squares(rng: np.random.Generator) -> Any:
    """Uniform squares, a third of their side apart."""
    label = rng.integers(0, 25, ROWS)
    return 1.3 * np.c_[label // 5, label % 5] + rng.uniform(size=(ROWS, 2))


def uniform(d: int) -> Make:
    return lambda rng: rng.uniform(size=(ROWS, d))


REQUIRED: dict[str, tuple[int, Make]] = {
    **{f"{k} Gaussians, {d} dimensions": (k, gaussians(k, d)) for d in (2, 16, 64) for k in (5, 12, 30)},
    "2 rings": (2, rings(1, 3)),
    "3 rings": (3, rings(1, 2, 3)),
}
NOISE: dict[str, tuple[int, Make]] = {f"uniform noise, {d} dimensions": (0, uniform(d)) for d in (2, 16)}
OTHERS: dict[str, tuple[int, Make]] = {
    "2 Gaussians, 2 dimensions": (2, gaussians(2, 2)),
    "31 Gaussians, 2 dimensions, 5 apart": (31, gaussians(31, 2, 5)),
    "60 Gaussians, 10 dimensions": (60, gaussians(60, 10)),
    "3 Gaussians, 200 dimensions, 10 apart": (3, gaussians(3, 200, 10)),
    "10 long Gaussians, 16 dimensions, 12 apart": (10, gaussians(10, 16, 12, long=3)),
    "49 Gaussians on a grid, 6 apart": (49, grid(7, 6)),
    "5 Gaussians of unequal size and spread": (5, unequal),
    "2 moons": (2, moons),
    "3 spirals": (3, spirals),
    "12 bars": (12, bars(12)),
    "25 squares": (25, squares),
    "a single Gaussian, 2 dimensions": (1, gaussians(1, 2, 0)),
    "uniform line": (0, uniform(1)),
}
REQUIRED_REAL = {"S1": ("sipu_s1", 15), "A3": ("sipu_a3", 50)}
OTHERS_REAL = {
    "S2": ("sipu_s2", 15),
    "Unbalance": ("sipu_unbalance", 8),
    "Aggregation": ("sipu_aggregation", 7),
    "Pendigits": ("pendigits", 10),
    "S3": ("sipu_s3", 15),
    "S4": ("sipu_s4", 15),
    "Compound": ("sipu_compound", 6),
    "Pathbased": ("sipu_pathbased", 3),
    "Spiral": ("sipu_spiral", 3),
    "Wine, z-scored": ("wine", 3),
    "Seeds, z-scored": ("seeds", 3),
    "Birch1": ("sipu_birch1", 100),
    "USPS": ("usps", 10),
    "MNIST": ("mnist", 10),
}


def count(rows: Any) -> tuple[int, bool]:
    """Return the number found, and whether it is clear."""
    with single_threaded():
        found, evidence = count_clusters(rows)
    return found, evidence["clear"]


def real_sample(folder: Path, name: str, seed: int) -> Any:
    """Return a uniform sample of a real set."""
    with np.load(folder / f"{name}.npz") as stored:
        X = stored["X"]
    if name in {"wine", "seeds"} or name.startswith("sipu"):
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[Key(seed).child("order", 0).rows(len(X), 0, min(ROWS, len(X)))].astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("DASKKCL_DATA"), help="folder of the real sets")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    print("| data | clusters | right | clear | found (? unclear) | CPU seconds |\n|---|---|---|---|---|---|")
    made, real = {**REQUIRED, **NOISE, **OTHERS}, {**REQUIRED_REAL, **OTHERS_REAL}
    for name in [*REQUIRED_REAL, *REQUIRED, *NOISE, *OTHERS_REAL, *OTHERS]:
        if name in real:
            file, truth = real[name]
            if not arguments.data or not (arguments.data / f"{file}.npz").exists():
                continue
        else:
            truth, make = made[name]
        found, seconds = [], 0.0
        for seed in range(arguments.seeds):
            if name in real:
                rows = real_sample(arguments.data, file, seed)
            else:
                rows = make(np.random.default_rng(seed)).astype(np.float32)
            began = time.process_time()
            found.append(count(rows))
            seconds += (time.process_time() - began) / arguments.seeds
        tally = Counter(f"{k}{'' if clear else '?'}" for k, clear in found)
        listed = ", ".join(f"{k} ×{times}" if times > 1 else k for k, times in tally.most_common())
        right = f"{sum(k == truth for k, _ in found)}/{len(found)}" if truth else "–"
        clear = f"{sum(clear for _, clear in found)}/{len(found)}"
        print(f"| {name} | {truth or 'none'} | {right} | {clear} | {listed} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
