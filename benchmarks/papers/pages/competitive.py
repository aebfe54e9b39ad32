"""Approximate kernel competitive learning: Figures 3-5 and 9, the ratio of times, further sets."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from benchmarks.papers.competitive import CLASSES, EXPERIMENTS, FIGURES, METHODS, SUBSETS, WIDTHS
from benchmarks.papers.experiments import Experiment
from benchmarks.papers.pages.competitive_claims import claims, gain
from benchmarks.papers.pages.parts import Part, figure, runs_done, seconds, table
from benchmarks.papers.pages.plots import panels
from benchmarks.papers.store import Results

__all__ = ["part"]

_PAPER = "competitive"
_BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}
_TITLES = {
    "Figure 3": "20 Newsgroups, Gaussian kernel",
    "Figure 4": "MNIST, Gaussian kernel",
    "Figure 5": "MNIST, polynomial kernel",
    "Figure 5, unit rows": "MNIST, polynomial kernel, rows of length one",
    "Fashion-MNIST": "Fashion-MNIST, Gaussian kernel",
    "Covertype": "Covertype, Gaussian kernel",
}
_LEVEL = ("kcl", "kkmeans", "rpcl")
#: figure: method: other: by how many per cent its NMI is higher on average, as published
_PUBLISHED_GAINS = {
    "Figure 3": {"pakcl": {"nyncut": 9.6, "akkmeans": 14.2, "rff": 59.3, "sv": 102.9, "fastkscl": 9.7}},
    "Figure 5": {
        "pakcl": {"nyncut": 8.6, "akkmeans": 10.1, "randpoly": 46.4, "fastkscl": 12.4},
        "akcl": {"nyncut": 9.3, "akkmeans": 10.8, "randpoly": 46.9, "fastkscl": 13.1},
    },
}


def part(results: Results) -> Part:
    """Return the paper's part of the page."""
    lines = [
        "The figures of the paper are pictures without numbers; the pictures here have their layout: (a) NMI, (b)",
        "time, (c) SDCS, the standard deviation of cluster sizes, (d) RME, the smallest cluster over n/c; all over",
        "the sampling size m. Methods that have none are level lines.",
        "",
        "- All k-means start once from random labels; one more line has the best of ten D² starts. AKCL and PAKCL (in",
        "  subsets of 1,000) have as many epochs as give 600 updates, 100 rows met singly counting as one, and stop",
        "  earlier at the published tolerance; the published 100 epochs are tried below. PAKCL starts from random",
        "  labels of all rows, as published; AKCL, which meets rows once to four times, from random labels of a",
        "  sample: counts of all rows would hold its frequencies still.",
        "- AppK-Kmeans, FastKSCL, Ny-Ncut, RFF, SV and RandPoly cluster stored coordinates of their map. Times are",
        "  processor seconds of making these and of clustering; AKCL and PAKCL compute kernel values anew in every",
        "  epoch (so the package stays within its memory limit), which the paper's programs did not.",
        "- KCL and kernel k-means hold the whole kernel matrix: on MNIST, Fashion-MNIST and Covertype they are of",
        "  10,000 rows.",
        "- 20 Newsgroups: 18,846 documents with headers, tf-idf of the 2,000 words of highest mutual information",
        "  with the groups (the paper: 18,780 documents, headers left out, words stemmed).",
        "- Gaussian width σ² = l times the mean squared distance of two rows; l from the table below, the best mean",
        "  NMI of PAKCL and AppK-Kmeans (the paper tunes it, too, from 0.001 to 100). Polynomial kernel (x·y + 1)⁵ of",
        "  pixels in [0, 1]. The paper speaks of a normalised polynomial kernel, and does not say how it is",
        "  normalised: Figure 5 is shown once more for rows of length one.",
        "",
        *_widths(results),
    ]
    for name in FIGURES:
        lines += _figure(results, _BY_NAME[name], f"{name}: {_TITLES[name]}")
        lines += _gains(results, name)
    lines += _figure(results, _BY_NAME["Figure 5, unit rows"], f"Figure 5 once more: {_TITLES['Figure 5, unit rows']}")
    lines += [*_subsets(results), *_ratios(results), *_epochs(results)]
    for name in ("Fashion-MNIST", "Covertype"):
        lines += _figure(results, _BY_NAME[name], f"A further set: {_TITLES[name]}")
    pictures: dict[str, Callable[[], Any]] = {
        _file(name): functools.partial(_picture, results, _BY_NAME[name])
        for name in (*FIGURES, "Figure 5, unit rows", "Fashion-MNIST", "Covertype")
    }
    pictures[_file("Figure 9")] = lambda: _subset_picture(results)
    return Part(
        "Approximate kernel competitive learning",
        "Wu, Zheng and Lai, 2015, doi:10.1016/j.neunet.2014.11.003",
        lines,
        claims(results),
        pictures,
    )


def _file(name: str) -> str:
    return f"papers-competitive-{name.removeprefix('Figure ').lower().replace(', ', '-').replace(' ', '-')}.png"


def _mean(results: Results, experiment: str, measure: str, **settings: Any) -> Any:
    return results.mean(_PAPER, experiment, measure, **settings)


def _value(results: Results, experiment: str, measure: str, **settings: Any) -> float | None:
    found = _mean(results, experiment, measure, **settings)
    return None if found is None else found.value


def _sizes(experiment: Experiment) -> list[int]:
    return sorted({one["m"] for one in experiment.settings if "m" in one})


def _methods(experiment: Experiment) -> list[str]:
    present = {one["method"] for one in experiment.settings}
    return [method for method in METHODS if method in present]


def _widths(results: Results) -> list[str]:
    experiment = _BY_NAME["width"]
    values = sorted({one["width"] for one in experiment.settings})
    rows = []
    for name in ("newsgroups", "mnist", "fashion", "covtype"):
        for method in ("pakcl", "akkmeans"):
            cells = [figure(_mean(results, "width", "nmi", set=name, method=method, width=value)) for value in values]
            cells = [
                f"**{cell}**" if value == WIDTHS[name] else cell for value, cell in zip(values, cells, strict=True)
            ]
            rows.append([f"{name}, {METHODS[method]}", *cells])
    return [
        "NMI over l, 300 landmarks, samples of the larger sets,",
        f"{runs_done(results, experiment).replace(', as published', '')}; chosen in bold:",
        *table(["l", *(f"{value:g}" for value in values)], rows),
    ]


def _figure(results: Results, experiment: Experiment, title: str) -> list[str]:
    sizes = _sizes(experiment)
    lines = [
        f"#### {title}",
        "",
        f"{CLASSES[experiment.settings[0]['set']]} clusters; {runs_done(results, experiment)}.",
        "",
    ]
    lines += [f"![{title}]({_file(experiment.name)})"]
    rows = []
    for method in _methods(experiment):
        if method in _LEVEL:
            cells = [figure(_mean(results, experiment.name, "nmi", method=method)), *["" for _ in sizes[1:]]]
            place = {}
        else:
            cells = [figure(_mean(results, experiment.name, "nmi", method=method, m=m)) for m in sizes]
            place = {"m": sizes[-1] if sizes[-1] <= 1000 else 1000}
        rme, sdcs = (
            figure(_mean(results, experiment.name, one, method=method, **place), 2 if one == "rme" else 0)
            for one in ("rme", "sdcs")
        )
        rows.append(
            [
                METHODS[method],
                *cells,
                sdcs,
                rme,
                seconds(_mean(results, experiment.name, "cpu", method=method, **place)),
            ]
        )
    at = min(1000, sizes[-1])
    head = ["NMI", *(f"m = {m:,}" for m in sizes), f"SDCS, m = {at:,}", "RME", "seconds"]
    lines += table(head, rows)
    failed = results.failures(_PAPER, experiment.name)
    if failed:
        lines += [f"{len(failed)} cells have no figure: {'; '.join(sorted(set(failed)))}.", ""]
    return lines


def _gains(results: Results, name: str) -> list[str]:
    if name not in _PUBLISHED_GAINS:
        return []
    rows = []
    for method, others in _PUBLISHED_GAINS[name].items():
        for other, published in others.items():
            ours = gain(results, name, method, other)
            rows.append(
                [
                    f"{METHODS[method]} over {METHODS[other]}",
                    f"{published:+.1f} %",
                    "–" if ours is None else f"{ours:+.1f} %",
                ]
            )
    return ["Gain in NMI, on average over m:", *table(["", "published", "ours"], rows)]


def _subsets(results: Results) -> list[str]:
    rows = []
    for subset in SUBSETS:
        cells = []
        for name, kind in FIGURES.values():
            nmi, time = (
                _mean(results, "Figure 9", one, set=name, kernel=kind, subset=subset) for one in ("nmi", "cpu")
            )
            cells.append(f"{figure(nmi)} ({seconds(time)})" if nmi else "–")
        rows.append([f"{subset:,}", *cells])
    return [
        "#### Figure 9: PAKCL over the size of subsets",
        "",
        f"m = 1,000, at most 10 epochs; NMI (processor seconds); {runs_done(results, _BY_NAME['Figure 9'])}.",
        "",
        f"![PAKCL over the size of subsets]({_file('Figure 9')})",
        *table(["rows of a subset", *(_TITLES[name] for name in FIGURES)], rows),
    ]


def _ratios(results: Results) -> list[str]:
    rows = []
    for title, (name, kind) in FIGURES.items():
        for m in (100, 500, 1000, 2000):
            plain, compiled = (
                {
                    one: _mean(results, experiment, one, set=name, kernel=kind, m=m)
                    for one in ("akcl_cpu", "pakcl_cpu", "ratio_cpu", "akcl_nmi", "pakcl_nmi")
                }
                for experiment in ("ratio, not compiled", "ratio")
            )
            cells = [_TITLES[title], f"{m:,}"]
            for found in (plain, compiled):
                share, both = found["ratio_cpu"], (found["akcl_cpu"], found["pakcl_cpu"])
                cells += [_milliseconds(one) if found is plain else seconds(one) for one in both]
                cells.append("–" if share is None else f"{100 * share.value:.0f} %")
            rows.append([*cells, figure(compiled["akcl_nmi"]), figure(compiled["pakcl_nmi"])])
    head = ["data", "m", "NumPy: AKCL", "PAKCL", "share", "compiled: AKCL", "PAKCL", "share", "NMI, AKCL", "NMI, PAKCL"]
    return [
        "#### Time of PAKCL as a share of AKCL's",
        "",
        "Published: 8.5 to 24.8 %, without initialisation. Both do the same arithmetic for each row, c distances in m",
        "coordinates. AKCL takes one step for each row, PAKCL one for each subset of 1,000. In Matlab, where the",
        "published times come from, each step costs more than its arithmetic, and products of matrices are faster than",
        "those of vectors. NumPy is alike: one epoch of each in NumPy, on coordinates of 10,000 rows, one thread,",
        f"{runs_done(results, _BY_NAME['ratio, not compiled'])}, gives about that share. The package's loops are",
        "compiled, where a step for each row costs nothing but its arithmetic: ten epochs of each on coordinates of",
        f"all rows, {runs_done(results, _BY_NAME['ratio'])}. What PAKCL has here is not less arithmetic, but rows that",
        "can be met in parallel, by blocks, from storage; AKCL's cannot. Processor seconds:",
        *table(head, rows),
    ]


def _milliseconds(mean: Any) -> str:
    return "–" if mean is None else f"{1000 * mean.value:.0f} ms"


def _epochs(results: Results) -> list[str]:
    rows = []
    for title, (name, kind) in FIGURES.items():
        for method in ("akcl", "pakcl"):
            few = _mean(results, title, "nmi", method=method, m=100)
            many = _mean(results, "published epochs", "nmi", set=name, kernel=kind, method=method)
            rows.append(
                [
                    _TITLES[title],
                    METHODS[method],
                    figure(few),
                    figure(many),
                    figure(_mean(results, title, "iterations", method=method, m=100), 0),
                ]
            )
    return [
        "#### The published number of epochs",
        "",
        "m = 100; 100 epochs to the end, whether or not centres still move:",
        f"{runs_done(results, _BY_NAME['published epochs'])}.",
        *table(["data", "method", "NMI, as above", "NMI, 100 epochs", "epochs above"], rows),
    ]


def _picture(results: Results, experiment: Experiment) -> Any:
    specs = []
    for letter, measure, title, scale in (
        ("a", "nmi", "NMI", "linear"),
        ("b", "cpu", "processor seconds", "log"),
        ("c", "sdcs", "SDCS", "linear"),
        ("d", "rme", "RME", "linear"),
    ):
        series = {}
        for method in _methods(experiment):
            if method in _LEVEL:
                found = _value(results, experiment.name, measure, method=method)
                sampled = method != "rpcl" and experiment.name != "Figure 3"
                if measure == "sdcs" and sampled:
                    continue  # of fewer rows: sizes are not comparable
                series[METHODS[method]] = [] if found is None else [(_sizes(experiment)[0], found)]
            else:
                points = [
                    (m, _value(results, experiment.name, measure, method=method, m=m)) for m in _sizes(experiment)
                ]
                series[METHODS[method]] = [(m, value) for m, value in points if value is not None]
        specs.append(
            {
                "title": f"({letter}) {title}",
                "x": "sampling size",
                "y": title,
                "series": series,
                "yscale": scale,
                "xscale": "log",
            }
        )
    level = tuple(METHODS[method] for method in _LEVEL)
    return panels(specs, level=level, styled=tuple(METHODS.values()))


def _subset_picture(results: Results) -> Any:
    specs = []
    for letter, measure, title in (("a", "nmi", "NMI"), ("b", "cpu", "processor seconds")):
        series = {}
        for name, (data, kind) in FIGURES.items():
            points = [
                (subset, _value(results, "Figure 9", measure, set=data, kernel=kind, subset=subset))
                for subset in SUBSETS
            ]
            series[_TITLES[name]] = [(x, y) for x, y in points if y is not None]
        scale = "linear" if measure == "nmi" else "log"
        specs.append(
            {
                "title": f"({letter}) {title}",
                "x": "subset size",
                "y": title,
                "series": series,
                "xscale": "log",
                "yscale": scale,
            }
        )
    return panels(specs)
