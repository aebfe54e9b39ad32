"""Sparse kernel k-means: Figures 1-4, Tables 3-5."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.papers.pages.parts import Claim, Part, figure, runs_done, seconds, table
from benchmarks.papers.pages.plots import panels
from benchmarks.papers.sparse_kernel import EXPERIMENTS, PUBLISHED_NEIGHBOURS, PUBLISHED_SIZES, PUBLISHED_TIMES
from benchmarks.papers.store import Results

__all__ = ["part"]

_PAPER = "sparse_kernel"
_CIRCLES, _BASE, _SIZE, _NEIGHBOURS, _ROWS, _CLUSTERS = EXPERIMENTS
_SETS = {"pendigits": "Pendigits", "newsgroups": "20 Newsgroups", "mnist": "MNIST"}


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
        f"NMI and time of the baselines: {runs_done(results, _BASE)}. Kernel k-means on MNIST is of 10,000 rows.",
        "Sparse and approximate kernel k-means have m = 2,000, the former its default number of neighbours.",
        *_baselines(results),
        "#### Table 4: the first sample",
        "",
        f"NMI (processor seconds) over m; {runs_done(results, _SIZE)}. The last column is how many rows entered the",
        "buffer.",
        *_sizes(results),
        "Published, NMI in per cent (seconds):",
        *_published_sizes(),
        "#### Table 5: neighbours",
        "",
        f"NMI (processor seconds) over p, m = 2,000; {runs_done(results, _NEIGHBOURS)}.",
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
        f"Figure 3: m = 1,000, p = 200; {runs_done(results, _ROWS)}. Figure 4: m = 2,000, p = 400; "
        f"{runs_done(results, _CLUSTERS)}.",
        "",
        "![Time over rows and clusters](papers-sparse-kernel-3-4.png)",
        *_scaling(results),
    ]
    pictures = {
        "papers-sparse-kernel-1.png": _circles_picture,
        "papers-sparse-kernel-3-4.png": lambda: _picture(results),
    }
    return Part(
        "Sparse kernel k-means",
        "Chitta, Jain and Jin, 2015, doi:10.1145/2809890.2809896",
        lines,
        _claims(results),
        pictures,
    )


def _mean(results: Results, experiment: Any, measure: str, **settings: Any) -> Any:
    return results.mean(_PAPER, experiment.name, measure, **settings)


def _exactly(results: Results, experiment: Any, measure: str, **settings: Any) -> Any:
    """Return the mean of cells that have these settings and no others."""
    rows = [row for row in results.select(_PAPER, experiment.name, **settings) if row["settings"] == settings]
    return Results(rows).mean(_PAPER, experiment.name, measure)


def _touching(results: Results, sizes: str, kind: str) -> tuple[int, int]:
    rows = [row for row in results.select(_PAPER, _CIRCLES.name, sizes=sizes) if kind in row]
    return sum(row[kind] == 10 for row in rows), len(rows)


def _circles(results: Results) -> list[str]:
    titles = {
        "uniform": "50 uniform points",
        "leverage": "50 points by leverage, all at once",
        "buffer": "a buffer of at most 50 rows, 25 at first",
    }
    rows = []
    for kind, title in titles.items():
        counts = [_touching(results, sizes, kind) for sizes in ("equal", "unequal")]
        rows.append([title, *(f"{hits} of {n}" for hits, n in counts)])
    return [
        "Ten circles, 1,000 points; in how many runs fifty points touch all ten. The kernel is Gaussian in the",
        "distance from the origin: what the paper's Gaussian kernel is a function of is not said, and one of distances",
        "in the plane does not see circles. The pictures are one run; (b) is a draw that misses a circle, as few do.",
        "",
        "![Points drawn from ten circles](papers-sparse-kernel-1.png)",
        *table(["", "100 points each", "20 to 180 points"], rows),
    ]


def _missed(drawn: int) -> float:
    """Return how likely points drawn from ten circles of a hundred miss one, by inclusion and exclusion."""
    every = math.comb(1000, drawn)
    return sum((-1) ** (j + 1) * math.comb(10, j) * math.comb(1000 - 100 * j, drawn) for j in range(1, 10)) / every


def _baselines(results: Results) -> list[str]:
    rows = []
    for name, title in _SETS.items():
        largest = 2000
        found = {
            "sparse": _exactly(results, _SIZE, "nmi", set=name, method="skkmeans", m=largest),
            "approximate": _exactly(results, _SIZE, "nmi", set=name, method="akkmeans", m=largest),
            "k": _mean(results, _BASE, "nmi", set=name, method="kmeans"),
            "kernel": _mean(results, _BASE, "nmi", set=name, method="kkmeans"),
        }
        times = {
            "sparse": _exactly(results, _SIZE, "cpu", set=name, method="skkmeans", m=largest),
            "approximate": _exactly(results, _SIZE, "cpu", set=name, method="akkmeans", m=largest),
            "k": _mean(results, _BASE, "cpu", set=name, method="kmeans"),
            "kernel": _mean(results, _BASE, "cpu", set=name, method="kkmeans"),
        }
        rows.append([title, *(f"{figure(found[kind])} ({seconds(times[kind])})" for kind in found)])
    head = ["data", "sparse kernel k-means", "approximate kernel k-means", "k-means", "kernel k-means"]
    published = [[name, *(f"{time:,}" for time in times)] for name, times in PUBLISHED_TIMES.items()]
    return [
        *table(head, rows),
        "Published, seconds (m = 20,000, p = 1,000; ImageNet: kernel k-means of 50,000 rows; NMI is in a picture):",
        *table(head, published),
    ]


def _size_settings(name: str) -> list[int]:
    return sorted({one["m"] for one in _SIZE.settings if one["set"] == name})


def _sizes(results: Results) -> list[str]:
    rows = []
    for name, title in _SETS.items():
        for m in _size_settings(name):
            cells = []
            for settings in ({"method": "skkmeans"}, {"method": "skkmeans", "p": m // 20}, {"method": "akkmeans"}):
                nmi = _exactly(results, _SIZE, "nmi", set=name, m=m, **settings)
                time = _exactly(results, _SIZE, "cpu", set=name, m=m, **settings)
                cells.append(f"{figure(nmi)} ({seconds(time)})")
            entered = _exactly(results, _SIZE, "entered", set=name, m=m, method="skkmeans")
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
    for p in sorted({one["p"] for one in _NEIGHBOURS.settings}):
        cells = []
        for name in _SETS:
            nmi, time = (_mean(results, _NEIGHBOURS, measure, set=name, p=p) for measure in ("nmi", "cpu"))
            cells.append(f"{figure(nmi)} ({seconds(time)})")
        rows.append([f"{p:,}", *cells])
    return table(["p", *_SETS.values()], rows)


def _scaling(results: Results) -> list[str]:
    lines = []
    for experiment, sets, variable, title in (
        (_ROWS, ("mnist", "covtype"), "n", "rows"),
        (_CLUSTERS, ("mnist", "birch1"), "c", "clusters"),
    ):
        for name in sets:
            values = sorted({one[variable] for one in experiment.settings if one["set"] == name})
            cells = [seconds(_mean(results, experiment, "cpu", set=name, **{variable: value})) for value in values]
            lines += table([f"{name}, {title}", *(f"{value:,}" for value in values)], [["processor seconds", *cells]])
    return lines


def _points(results: Results, experiment: Any, name: str, variable: str) -> list[tuple[float, float]]:
    values = sorted({one[variable] for one in experiment.settings if one["set"] == name})
    found = [(value, _mean(results, experiment, "cpu", set=name, **{variable: value})) for value in values]
    return [(value, mean.value) for value, mean in found if mean is not None]


def _picture(results: Results) -> Any:
    specs = [
        {
            "title": f"{title} ({letter}): {label}",
            "x": "N" if variable == "n" else "C",
            "y": "processor seconds",
            "series": {label: _points(results, experiment, name, variable)},
            "zero": True,
        }
        for title, experiment, variable, sets in (
            ("Figure 3", _ROWS, "n", {"mnist": "MNIST", "covtype": "Covertype"}),
            ("Figure 4", _CLUSTERS, "c", {"mnist": "MNIST", "birch1": "Birch1"}),
        )
        for letter, (name, label) in zip("ab", sets.items(), strict=True)
    ]
    return panels(specs)


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


def _over(one: Any, other: Any, by: float = 0.0) -> bool | None:
    """Return whether a mean is above another by more than `by`; None if one is not known."""
    return None if one is None or other is None else bool(one.value > other.value + by)


def _power(points: list[tuple[float, float]]) -> float | None:
    """Return the exponent of time over its variable, from the first and the last point."""
    if len(points) < 2:
        return None
    (x0, y0), (x1, y1) = points[0], points[-1]
    return math.log(y1 / y0) / math.log(x1 / x0)


def _claims(results: Results) -> list[Claim]:
    claims = []
    better, over, exact, notes = [], [], [], []
    slower, quicker, longer, times = [], [], [], []
    for name, title in _SETS.items():
        nmi, cpu = (
            [
                _exactly(results, _SIZE, measure, set=name, method="skkmeans", m=2000),
                _exactly(results, _SIZE, measure, set=name, method="akkmeans", m=2000),
                _mean(results, _BASE, measure, set=name, method="kmeans"),
                _mean(results, _BASE, measure, set=name, method="kkmeans"),
            ]
            for measure in ("nmi", "cpu")
        )
        if nmi[0] is None:
            continue
        better.append(_over(nmi[0], nmi[1]))
        over.append(_over(nmi[0], nmi[2]))
        exact.append(_over(nmi[0], nmi[3], -0.03))
        notes.append(f"{title}: {', '.join(figure(one) for one in nmi)}")
        slower.append(_over(cpu[0], cpu[1]))
        longer.append(_over(cpu[0], cpu[2]))
        quicker.append(_over(cpu[3], cpu[0]) if name != "mnist" else None)
        times.append(f"{title}: {', '.join(seconds(one) for one in cpu)} s")
    figures = "; ".join(notes)
    claims.append(
        Claim.of(
            "Better than approximate kernel k-means (NMI: sparse, approximate, k-means, kernel k-means; m = 2,000)",
            better,
            figures,
        )
    )
    claims.append(Claim.of("Better than k-means", over, "same figures"))
    claims.append(Claim.of("Close to kernel k-means, or better (within 0.03)", exact, "same figures"))
    claims.append(
        Claim.of(
            "Takes longer than approximate kernel k-means (processor seconds: sparse, approximate, k-means, kernel "
            "k-means)",
            slower,
            "; ".join(times),
        )
    )
    claims.append(Claim.of("Takes longer than k-means", longer, "same figures"))
    claims.append(
        Claim.of("Much faster than kernel k-means of the same rows (Pendigits, Newsgroups)", quicker, "same figures")
    )
    rises, entries, note_m, note_entered = [], [], [], []
    for name, title in _SETS.items():
        sizes = _size_settings(name)
        ends = [_exactly(results, _SIZE, "nmi", set=name, method="skkmeans", m=m) for m in (sizes[0], sizes[-1])]
        entered = [_exactly(results, _SIZE, "entered", set=name, method="skkmeans", m=m) for m in (sizes[0], sizes[-1])]
        if None in ends or None in entered:
            continue
        rises.append(ends[1].value > ends[0].value + 0.01)
        note_m.append(f"{title}, m = {sizes[0]:,} and {sizes[-1]:,}: {ends[0].value:.3f} and {ends[1].value:.3f}")
        entries.append(entered[1].value < entered[0].value)
        note_entered.append(f"{title}: {entered[0].value:.0f} and {entered[1].value:.0f}")
    claims.append(Claim.of("NMI rises considerably with m", rises, "; ".join(note_m)))
    claims.append(
        Claim.of("Fewer rows enter the buffer with a larger m, and few in all", entries, "; ".join(note_entered))
    )
    sooner, grows, note_m, note_t = [], [], [], []
    for name, title in _SETS.items():
        sizes = _size_settings(name)
        least = _exactly(results, _SIZE, "nmi", set=name, method="skkmeans", m=sizes[0])
        others = [_exactly(results, _SIZE, "nmi", set=name, method="akkmeans", m=m) for m in sizes]
        known = [one.value for one in others if one is not None]
        if least is not None and known:
            sooner.append(least.value > max(known))
            note_m.append(f"{title}: {least.value:.3f} with {sizes[0]:,}, at best {max(known):.3f}")
        for method in ("skkmeans", "akkmeans"):
            ends = [_exactly(results, _SIZE, "cpu", set=name, method=method, m=m) for m in (sizes[0], 2000)]
            if None not in ends:
                grows.append(ends[1].value > ends[0].value)
                note_t.append(
                    f"{title}, {'sparse' if method == 'skkmeans' else 'approximate'}: "
                    f"{seconds(ends[0])} and {seconds(ends[1])} s"
                )
    claims.append(
        Claim.of(
            "With the smallest m it is better than approximate kernel k-means with the largest",
            sooner,
            "; ".join(note_m),
        )
    )
    claims.append(Claim.of("Time of both grows with m (smallest m, 2,000)", grows, "; ".join(note_t)))
    helps, costs, note_p = [], [], []
    for name, title in _SETS.items():
        ps = sorted({one["p"] for one in _NEIGHBOURS.settings})
        found = [_mean(results, _NEIGHBOURS, "nmi", set=name, p=p) for p in ps]
        spent = [_mean(results, _NEIGHBOURS, "cpu", set=name, p=p) for p in (100, ps[-1])]
        if None in found or None in spent:
            continue
        wide = found[ps.index(100) :]
        helps.append(wide[-1].value > wide[0].value)
        costs.append(spent[1].value > 1.2 * spent[0].value)
        best = max(range(len(ps)), key=lambda place, found=found: found[place].value)
        note_p.append(
            f"{title}: p = 100 {wide[0].value:.3f}, {ps[-1]:,} {wide[-1].value:.3f}, "
            f"best {found[best].value:.3f} at {ps[best]}"
        )
    claims.append(Claim.of("NMI rises a little with p (from m / 20 on)", helps, "; ".join(note_p)))
    claims.append(
        Claim.of("Time rises significantly with p (from m / 20 to 3 m / 4, by a fifth or more)", costs, "see Table 5")
    )
    powers = {name: _power(_points(results, _ROWS, name, "n")) for name in ("mnist", "covtype")}
    claims.append(
        Claim.of(
            "Time is linear in the number of rows (an exponent of 1.1 at most)",
            [power <= 1.1 for power in powers.values() if power is not None],
            ", ".join(f"{name}: {power:.2f}" for name, power in powers.items() if power is not None),
        )
    )
    powers = {name: _power(_points(results, _CLUSTERS, name, "c")) for name in ("mnist", "birch1")}
    claims.append(
        Claim.of(
            "Time is nearly logarithmic in the number of clusters (an exponent of 0.3 at most from 10 to 164)",
            [power <= 0.3 for power in powers.values() if power is not None],
            ", ".join(f"{name}: {power:.2f}" for name, power in powers.items() if power is not None),
        )
    )
    counts = {kind: _touching(results, "equal", kind) for kind in ("buffer", "uniform", "leverage")}
    if counts["buffer"][1]:
        share = {kind: hits / n for kind, (hits, n) in counts.items()}
        claims.append(
            Claim.of(
                "Fifty points by importance represent all ten circles where fifty uniform ones do not (Figure 1)",
                [share["buffer"] > 0.95, share["uniform"] < 0.8],
                f"all ten in {share['buffer']:.0%} of {counts['buffer'][1]} runs, uniform points in "
                f"{share['uniform']:.0%}; by arithmetic fifty uniform points of ten circles of 100 miss one in "
                f"{_missed(50):.1%} of draws, 100 points in {_missed(100):.2%}",
            )
        )
    return claims
