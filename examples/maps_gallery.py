"""Draw what every map sees: shapes in the plane, clustered by kernel k-means on each map, one picture.

Rings, spirals and moons are made here; the SIPU shapes (Aggregation, Compound, Spiral, Pathbased) are drawn as well
when their ``sipu_*.npz`` files are in the folder that ``DASKKCL_DATA`` names.

    python examples/maps_gallery.py [picture.png]

Nothing is tuned for a picture. Columns have unit variance and all maps 150 landmarks (or features). The Gaussian kernel
is that of gamma = 2 wherever distances in its feature space are clustered; the normalised cut takes kernel values for
the edges of a graph, which have to be local, so gamma = 30 there. The number of clusters is the true one. The title of
a panel is the normalised mutual information with the true shapes, the median of five seeds; the panel shows that run.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

import daskkcl

GAMMA = 2.0  # of columns of unit variance: the kernel has fallen to 1/e at 0.7
LOCAL_GAMMA = 30.0  # and at 0.2
SIZE = 150
SEEDS = range(5)
COLUMNS = ["landmarks", "nystroem", "apnc", "rff", "svrff", "randpoly", "nyncut", "spectral"]
SIPU = ["aggregation", "compound", "spiral", "pathbased"]
# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442"]


def rings(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three rings around one another."""
    y = np.repeat([0, 1, 2], [150, 250, 350])
    angle = rng.uniform(0, 2 * np.pi, len(y))
    radius = y + 1 + rng.normal(0, 0.07, len(y))
    return np.c_[radius * np.cos(angle), radius * np.sin(angle)], y


def spirals(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two arms that wind around one another."""
    y = np.repeat([0, 1], 400)
    turn = np.sqrt(rng.uniform(0.05, 1, len(y))) * 3 * np.pi
    angle = turn + np.pi * y
    return np.c_[turn * np.cos(angle), turn * np.sin(angle)] + rng.normal(0, 0.25, (len(y), 2)), y


def moons(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two half rings that reach into one another."""
    y = np.repeat([0, 1], 300)
    angle = rng.uniform(0, np.pi, len(y)) + np.pi * y
    X = np.c_[np.cos(angle) + y, np.sin(angle) + 0.5 * y]
    return X + rng.normal(0, 0.08, X.shape), y


def shapes() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return rows (unit variance) and true labels by name."""
    made = {"rings": rings, "spirals": spirals, "moons": moons}
    found = {name: make(np.random.default_rng(1)) for name, make in made.items()}
    folder = os.environ.get("DASKKCL_DATA")
    for name in SIPU:
        path = Path(folder or ".") / f"sipu_{name}.npz"
        if folder and path.exists():
            with np.load(path) as stored:
                found[name.capitalize()] = stored["X"], stored["y"]
    return {name: ((X - X.mean(axis=0)) / X.std(axis=0), y) for name, (X, y) in found.items()}


def cluster(X: np.ndarray, y: np.ndarray, map_: str) -> tuple[np.ndarray, float]:
    """Cluster with five seeds; return the labels and the score of the run in the middle."""
    algo = "apnc" if map_ == "apnc" else "akkmeans"  # l1 distances are part of APNC
    kernel: dict[str, Any] = {"gamma": LOCAL_GAMMA if map_ == "nyncut" else GAMMA}
    if map_ == "randpoly":
        kernel = {"kernel": "polynomial", "gamma": 1.0, "degree": 3}
    elif map_ == "spectral":
        kernel = {}  # plain distances
    runs = []
    for seed in SEEDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", daskkcl.errors.ConvergenceWarning)
            model = daskkcl.fit(
                X, algo, len(np.unique(y)), map=map_, n_landmarks=SIZE, random_state=seed, progress=False, **kernel
            )
        runs.append((float(normalized_mutual_info_score(y, model.labels_)), seed, model.labels_))
    score, _, labels = sorted(runs, key=lambda run: run[:2])[len(runs) // 2]
    return labels, score


def draw(picture: Path) -> dict[str, dict[str, float]]:
    """Draw all shapes with all maps; return the scores."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    data = shapes()
    figure, axes = plt.subplots(len(data), len(COLUMNS), figsize=(1.35 * len(COLUMNS), 1.5 * len(data) + 0.5))
    scores: dict[str, dict[str, float]] = {}
    for row, (name, (X, y)) in zip(axes, data.items(), strict=True):
        for axis, map_ in zip(row, COLUMNS, strict=True):
            labels, score = cluster(X, y, map_)
            scores.setdefault(name, {})[map_] = score
            axis.scatter(*X.T, s=1.5, c=[COLOURS[k % len(COLOURS)] for k in labels], linewidths=0)
            axis.set(xticks=[], yticks=[], aspect="equal")
            axis.set_title(f"{score:.2f}", fontsize=8, pad=2, fontweight="bold" if score > 0.95 else "normal")
            for spine in axis.spines.values():
                spine.set_color("#bbbbbb")
        row[0].set_ylabel(name, fontsize=9)
        print(f"{name:12s}", "  ".join(f"{map_} {score:.2f}" for map_, score in scores[name].items()), flush=True)
    for axis, map_ in zip(axes[0], COLUMNS, strict=True):
        axis.annotate(map_, (0.5, 1), (0, 18), "axes fraction", "offset points", ha="center", fontsize=10)
    figure.tight_layout(pad=0.4)
    figure.savefig(picture, dpi=100)
    plt.close(figure)
    with Image.open(picture) as image:  # a palette will do, at a quarter of the size
        image.convert("RGB").quantize(256, Image.Quantize.FASTOCTREE).save(picture, optimize=True)
    return scores


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "maps-gallery.png")
    draw(target)
    print(f"{target}: {target.stat().st_size // 1000} kB")
