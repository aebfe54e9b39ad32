"""Draw the pictures of the documentation: `python docs/draw.py` writes them beside the pages.

They are drawn by hand now and then, and kept with the text; building the site does not need them anew.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib
import numpy as np

import daskkcl

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
FINDS_ITS_NUMBER = {"cpcl", "kcpcl", "lcpcl", "rpcl", "rpccl", "cccl", "dsrpcl", "core"}


def rows(kind: str) -> np.ndarray:
    """Three blobs, of different sizes; or two of them inside a ring."""
    rng = np.random.default_rng(0)
    blobs = [rng.normal(centre, 0.45, (n, 2)) for centre, n in (((0, 0), 260), ((2.6, 0.3), 140), ((1.2, 2.3), 200))]
    if kind == "blobs":
        return np.concatenate(blobs)
    angle = rng.uniform(0, 2 * np.pi, 400)
    ring = 5 * np.column_stack([np.cos(angle), np.sin(angle)]) + [1.2, 0.6] + rng.normal(0, 0.25, (400, 2))
    return np.concatenate([*blobs, ring])


def draw_algorithm(algo: str) -> None:
    """Draw what an algorithm makes of a few rows: clusters, memberships, or the ways of its seeds."""
    figure, axes = plt.subplots(figsize=(4.6, 3.4), layout="constrained")
    common = {"random_state": 1, "progress": False}
    if algo in FINDS_ITS_NUMBER:
        X = rows("blobs")
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        model = daskkcl.fit(X, algo, n_seeds=6, record=True, **common)
        if model.seed_path_.shape[2] == 2:
            model.plot.seeds(ax=axes)
        else:
            model.plot.scatter(ax=axes)
        axes.set_title(f"{algo}: 6 seeds, {model.n_clusters_} clusters", fontsize=10)
    else:
        n_clusters, X = (4, rows("ring")) if algo == "spectral" else (3, rows("blobs"))
        model = daskkcl.fit(X, algo, n_clusters=n_clusters, **common)
        model.plot.scatter(ax=axes)
        if model.fuzzy:
            sure = model.membership_.max(axis=1)
            axes.scatter(*X[sure < 0.8].T, s=26, facecolors="none", edgecolors="black", linewidths=0.7)
            axes.set_title(f"{algo}: circles are rows with no membership above 0.8", fontsize=10)
        else:
            axes.set_title(f"{algo}: sizes {', '.join(str(size) for size in model.cluster_sizes_)}", fontsize=10)
    axes.set(xlabel="", ylabel="")
    figure.savefig(HERE / "algorithms" / f"{algo}.png", dpi=80)
    plt.close(figure)


def draw_choice() -> None:
    """Draw how to choose an algorithm, a kernel and landmarks: questions from top to bottom, answers to the right."""
    figure, axes = plt.subplots(figsize=(9.2, 11.4), layout="constrained")
    axes.set(xlim=(0, 100), ylim=(-169, 3))
    axes.axis("off")

    def box(x: float, y: float, text: str, answer: bool = False) -> None:
        style = {"boxstyle": "round,pad=0.45", "facecolor": "#0072B2" if answer else "#f1f3f5", "edgecolor": "0.6"}
        side, colour = ("left", "white") if x > 50 else ("center", "white" if answer else "black")
        axes.text(x, y, text, ha=side, va="center", fontsize=10, color=colour, bbox=style)

    def arrow(start: tuple[float, float], end: tuple[float, float], word: str, room: float) -> None:
        line = {"arrowstyle": "-|>", "color": "0.45", "shrinkA": room, "shrinkB": room}
        axes.annotate("", end, start, arrowprops=line)
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        axes.text(*middle, word, fontsize=8.5, color="0.25", ha="center", va="center", backgroundcolor="white")

    def part(top: float, title: str, questions: list[tuple[str, str]], otherwise: str) -> None:
        axes.text(2, top, title, fontsize=13, fontweight="bold", va="center")
        places = [top - 7 - 10 * k for k in range(len(questions) + 1)]
        for y, (question, answer) in zip(places, questions):
            box(27, y, question)
            box(59, y, answer, answer=True)
            arrow((46, y), (57, y), "yes", 0)
            arrow((27, y), (27, y - 10), "no", 12)
        box(27, places[-1], otherwise, answer=True)

    part(
        0,
        "Which algorithm?",
        [
            ("Degrees of membership?", "okfcm  ·  spkfcm  ·  rsekfcm"),
            ("A stream, read once?", "partial_fit of pakcl  ·  okfcm  ·  skkmeans"),
            ("Clusters of any shape?", "spectral"),
            ("About equal sizes?", "pakcl"),
            ("Number of clusters unknown?", "n_clusters='auto'  ·  lcpcl"),
            ("Small data, exact answers?", "kkmeans  ·  kfcm  ·  kcl"),
        ],
        "akkmeans",
    )
    part(
        -79,
        "Which kernel?",
        [
            ("Text, profiles: directions?", "cosine"),
            ("Histograms?", "chi2  ·  histogram_intersection"),
            ("Pixels, counts of parts?", "polynomial, rows of unit length"),
            ("Outliers in single features?", "laplacian"),
        ],
        "rbf, with scale='standard'",
    )
    part(
        -138,
        "Which landmarks?",
        [
            ("Labels differ from seed to seed?", "n_landmarks=1000, 2000 ..."),
            ("Too slow, or no room for them?", "n_landmarks=200, landmarks='kmeans'"),
        ],
        "500, drawn at random (the default)",
    )
    figure.savefig(HERE / "guides" / "choosing.png", dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    draw_choice()
    for name in daskkcl.algorithms():
        draw_algorithm(name)
        print(name, flush=True)
