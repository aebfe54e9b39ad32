"""Sparse kernel k-means: Figures 1-4, Tables 3-5."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.pages.parts import Part, figure, runs_done, seconds, table
from benchmarks.papers.pages.plots import panels
from benchmarks.papers.pages.sparse_kernel_claims import claims_of
from benchmarks.papers.pages.sparse_kernel_figures import (
    BASE,
    CLUSTERS,
    NEIGHBOURS,
    ROWS,
    SETS,
    SIZE,
    exactly,
    mean,
    points,
    side_by_side,
    sizes_of,
    touching,
)
from benchmarks.papers.sparse_kernel import PUBLISHED_NEIGHBOURS, PUBLISHED_SIZES, PUBLISHED_TIMES
from benchmarks.papers.store import Results

__all__ = ["part"]

_METHODS = ("sparse kernel k-means", "approximate kernel k-means", "k-means", "kernel k-means")


def part(results: Results) -> Part:
    """Return the paper's part of the page."""
    lines = [
        "CIFAR-100, ImageNet, Youtube and Tiny Images, with the features of the paper, are not among our data. What",
        "can be tested is how time and quality go with m, p, N and C: on Pendigits (features in [0, 1], Gaussian",
        "kernel of default width), 20 Newsgroups (2,000 words, cosine kernel) and MNIST (cosine kernel), with m a",
        "tenth of the published and p in proportion. The buffer may grow to 2 m, batches have m rows; one start of",
        "k-means. Seconds are processor time.",
        "",
        "#### Figure 1",
        "",
        *_circles(results),
        "#### Figure 2 and Table 3",
        "",
        f"NMI and time of the baselines: {runs_done(results, BASE)}. Kernel k-means on MNIST is of 10,000 rows.",
        "Sparse and approximate kernel k-means have m = 2,000, the former its default number of neighbours.",
        "",
        "![NMI of the methods](papers-sparse-kernel-2.png)",
        *_baselines(results),
        "#### Table 4: the first sample",
        "",
        f"NMI (processor seconds) over m; {runs_done(results, SIZE)}. The last column is how many rows entered the",
        "buffer (published, CIFAR-100: 453 with m = 5,000 and 69 with m = 20,000).",
        *_sizes(results),
        "Published, NMI in per cent (seconds):",
        *_published_sizes(),
        "#### Table 5: neighbours",
        "",
        f"NMI (processor seconds) over p, m = 2,000; {runs_done(results, NEIGHBOURS)}.",
        *_neighbours(results),
        "Published, m = 20,000, NMI in per cent (seconds):",
        *table(
            ["p", *PUBLISHED_NEIGHBOURS],
            [
                [
                    f"{p:,}",
                    *(
                        f"{PUBLISHED_NEIGHBOURS[name][p][0]:.2f} ({PUBLISHED_NEIGHBOURS[name][p][1]:,})"
                        for name in PUBLISHED_NEIGHBOURS
                    ),
                ]
                for p in PUBLISHED_NEIGHBOURS["CIFAR-100"]
            ],
        ),
        "#### Figures 3 and 4: rows and clusters",
        "",
        f"Figure 3: m = 1,000, p = 200; {runs_done(results, ROWS)}. Figure 4: m = 2,000, p = 400; "
        f"{runs_done(results, CLUSTERS)}.",
        "",
        "![Time over rows and clusters](papers-sparse-kernel-3-4.png)",
        *_scaling(results),
    ]
    pictures = {
        "papers-sparse-kernel-1.png": _circles_picture,
        "papers-sparse-kernel-2.png": lambda: _bars(results),
        "papers-sparse-kernel-3-4.png": lambda: _picture(results),
    }
    return Part(
        "Sparse kernel k-means",
        "Chitta, Jain and Jin, 2015, doi:10.1145/2809890.2809896",
        lines,
        claims_of(results),
        pictures,
    )


def _circles(results: Results) -> list[str]:
    titles = {
        "uniform": "50 uniform points",
        "leverage": "50 points by leverage, all at once",
        "buffer": "a buffer of at most 50 rows, 25 at first",
    }
    rows = []
    for kind, title in titles.items():
        counts = [touching(results, sizes, kind) for sizes in ("equal", "unequal")]
        rows.append([title, *(f"{hits} of {n}" for hits, n in counts)])
    return [
        "Ten circles, 1,000 points; in how many runs fifty points touch all ten. The kernel is Gaussian in the",
        "distance from the origin: what the paper's Gaussian kernel is a function of is not said, and one of distances",
        "in the plane does not see circles. The pictures are one run; (b) is a draw that misses a circle, as few do.",
        "",
        "![Points drawn from ten circles](papers-sparse-kernel-1.png)",
        *table(["", "100 points each", "20 to 180 points"], rows),
    ]


def _baselines(results: Results) -> list[str]:
    rows = []
    for name, title in SETS.items():
        pairs = zip(*(side_by_side(results, name, measure) for measure in ("nmi", "cpu")), strict=True)
        rows.append([title, *(f"{figure(nmi)} ({seconds(time)})" for nmi, time in pairs)])
    head = ["data", *_METHODS]
    published = [[name, *(f"{time:,}" for time in times)] for name, times in PUBLISHED_TIMES.items()]
    return [
        *table(head, rows),
        "Published, seconds (m = 20,000, p = 1,000; ImageNet: kernel k-means of 50,000 rows; NMI is in a picture):",
        *table(head, published),
    ]


def _sizes(results: Results) -> list[str]:
    rows = []
    for name, title in SETS.items():
        for m in sizes_of(name):
            cells = []
            for settings in ({"method": "skkmeans"}, {"method": "skkmeans", "p": m // 20}, {"method": "akkmeans"}):
                nmi = exactly(results, SIZE, "nmi", set=name, m=m, **settings)
                time = exactly(results, SIZE, "cpu", set=name, m=m, **settings)
                cells.append(f"{figure(nmi)} ({seconds(time)})")
            entered = exactly(results, SIZE, "entered", set=name, m=m, method="skkmeans")
            rows.append([title, f"{m:,}", *cells, figure(entered, 0)])
    return table(
        ["data", "m", "sparse, default p", "sparse, p = m / 20", "approximate kernel k-means", "entered"], rows
    )


def _published_sizes() -> list[str]:
    rows = []
    for name, by_size in PUBLISHED_SIZES.items():
        for m, (ours, theirs, time, other) in by_size.items():
            second = "–" if theirs is None or other is None else f"{theirs:.2f} ({other:,})"
            rows.append([name, f"{m:,}", f"{ours:.2f} ({time:,})", second])
    return table(["data", "m", "sparse, p = 1,000", "approximate kernel k-means"], rows)


def _neighbours(results: Results) -> list[str]:
    rows = []
    for p in sorted({one["p"] for one in NEIGHBOURS.settings}):
        cells = []
        for name in SETS:
            nmi, time = (mean(results, NEIGHBOURS, measure, set=name, p=p) for measure in ("nmi", "cpu"))
            cells.append(f"{figure(nmi)} ({seconds(time)})")
        rows.append([f"{p:,}", *cells])
    return table(["p", *SETS.values()], rows)


def _scaling(results: Results) -> list[str]:
    lines = []
    for experiment, sets, variable, title in (
        (ROWS, ("mnist", "covtype"), "n", "rows"),
        (CLUSTERS, ("mnist", "birch1"), "c", "clusters"),
    ):
        for name in sets:
            values = sorted({one[variable] for one in experiment.settings if one["set"] == name})
            cells = [seconds(mean(results, experiment, "cpu", set=name, **{variable: value})) for value in values]
            lines += table([f"{name}, {title}", *(f"{value:,}" for value in values)], [["processor seconds", *cells]])
    return lines


def _picture(results: Results) -> Any:
    specs = [
        {
            "title": f"{title} ({letter}): {label}",
            "x": "N" if variable == "n" else "C",
            "y": "processor seconds",
            "series": {label: points(results, experiment, name, variable)},
            "zero": True,
        }
        for title, experiment, variable, sets in (
            ("Figure 3", ROWS, "n", {"mnist": "MNIST", "covtype": "Covertype"}),
            ("Figure 4", CLUSTERS, "c", {"mnist": "MNIST", "birch1": "Birch1"}),
        )
        for letter, (name, label) in zip("ab", sets.items(), strict=True)
    ]
    return panels(specs)


def _bars(results: Results) -> Any:
    """Draw NMI as the paper does: a bar for each method, a panel for each set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn, axes = plt.subplots(1, len(SETS), figsize=(10, 3), layout="constrained", sharey=True)
    short = [name.replace("approximate", "approx.").replace(" ", "\n") for name in _METHODS]
    for axis, letter, (name, title) in zip(axes, "abc", SETS.items(), strict=True):
        means = side_by_side(results, name, "nmi")
        heights = [0.0 if one is None else 100 * one.value for one in means]
        axis.bar(short, heights, color=["C0", "C1", "C2", "C3"], width=0.6)
        axis.set_title(f"({letter}) {title}", fontsize=10)
        axis.tick_params(labelsize=8)
        axis.grid(axis="y", alpha=0.25)
        axis.set_axisbelow(True)
    axes[0].set_ylabel("NMI (%)", fontsize=9)
    return drawn


def _circles_picture() -> Any:
    """Draw one run as the paper does: 50 points by importance, 50 and 100 uniform ones, the kernel."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    import daskkcl
    from benchmarks.sparse_kernel import EQUAL, circles, radius_kernel

    X, y = circles(3, EQUAL)
    model = daskkcl.SparseKernelKMeans(
        10,
        kernel=radius_kernel,
        buffer_size=25,
        max_buffer=50,
        n_neighbors=50,
        batch_size=10,
        recluster_every=1,
        n_init=1,
        random_state=3,
        progress=False,
    ).fit(X)
    uniform = (np.random.default_rng(seed).permutation(len(X)) for seed in range(1000))
    rows = next(one for one in uniform if len(set(y[one[:50]])) < 10)  # as in the paper's picture
    samples = {
        "(a) a buffer of 50": model.buffer_row_numbers_,
        "(b) 50 uniform": rows[:50],
        "(c) 100 uniform": rows[:100],
    }
    drawn, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
    for axis, (title, chosen) in zip(axes, samples.items(), strict=False):
        axis.scatter(*X.T, c=y, cmap="tab10", s=5, alpha=0.4)
        axis.scatter(*X[chosen].T, c="black", marker="*", s=22)
        axis.set_title(f"{title}: {len(set(y[chosen]))} of 10 circles", fontsize=10)
        axis.set_aspect("equal")
        axis.axis("off")
    sorted_rows = X[np.argsort(y, kind="stable")]
    axes[3].imshow(radius_kernel(sorted_rows, sorted_rows), cmap="viridis", interpolation="nearest")
    axes[3].set_title("(d) the kernel, rows by circle", fontsize=10)
    axes[3].set_xticks([])
    axes[3].set_yticks([])
    return drawn
