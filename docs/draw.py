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
from matplotlib.patches import FancyBboxPatch

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
    """Draw what an algorithm makes of a few rows: clusters, memberships, or the paths of its seeds."""
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
        away = axes.get_title().partition("(")[2]
        clusters = f"{model.n_clusters_} cluster{'s' * (model.n_clusters_ != 1)}"
        axes.set_title(f"{algo}: 6 seeds, {clusters}" + (f" ({away}" if away else ""), fontsize=10)
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
    axes.set(xlabel="", ylabel="", aspect="equal")
    figure.savefig(HERE / "algorithms" / f"{algo}.png", dpi=150)
    plt.close(figure)


def draw_choice() -> None:
    """Draw how to choose an algorithm, a kernel and landmarks: questions from top to bottom, answers to the right."""
    figure, axes = plt.subplots(figsize=(7.6, 10.4))
    axes.set(xlim=(0, 100), ylim=(-170, 4), position=(0.01, 0.01, 0.98, 0.98))
    axes.axis("off")
    left, width, right, other = 2, 42, 56, 43  # where questions and answers begin, and how wide they are

    def box(x: float, y: float, wide: float, text: str, answer: bool = False) -> None:
        colour, letters = ("#0072B2", "white") if answer else ("#f1f3f5", "black")
        shape = FancyBboxPatch(
            (x, y - 2.6), wide, 5.2, boxstyle="round,pad=0,rounding_size=1", facecolor=colour, edgecolor="0.7"
        )
        axes.add_patch(shape)
        axes.text(x + wide / 2, y, text, ha="center", va="center", fontsize=9.5, color=letters)

    def arrow(start: tuple[float, float], end: tuple[float, float]) -> None:
        line = {"arrowstyle": "-|>", "color": "0.45", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 10}
        axes.annotate("", end, start, arrowprops=line)

    def part(top: float, title: str, questions: list[tuple[str, str]], otherwise: str) -> None:
        axes.text(left, top, title, fontsize=13, fontweight="bold", va="center")
        middle = left + width / 2
        places = [top - 7 - 10 * k for k in range(len(questions) + 1)]
        for y, (question, answer) in zip(places, questions):
            box(left, y, width, question)
            box(right, y, other, answer, answer=True)
            arrow((left + width, y), (right, y))
            axes.text((left + width + right) / 2 - 0.7, y + 1.7, "yes", fontsize=8.5, color="0.25", ha="center")
            arrow((middle, y - 2.6), (middle, y - 7.4))
            axes.text(middle + 1.5, y - 5, "no", fontsize=8.5, color="0.25", va="center")
        box(left, places[-1], width, otherwise, answer=True)

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
    figure.savefig(HERE / "guides" / "choosing.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    draw_choice()
    for name in daskkcl.algorithms():
        draw_algorithm(name)
        print(name, flush=True)
