"""Figures of the experiments on sparse kernel k-means, by setting."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.sparse_kernel import EXPERIMENTS
from benchmarks.papers.store import Results

__all__ = ["exactly", "mean", "points", "side_by_side", "sizes_of", "touching"]

_PAPER = "sparse_kernel"
CIRCLES, BASE, SIZE, NEIGHBOURS, ROWS, CLUSTERS = EXPERIMENTS
SETS = {"pendigits": "Pendigits", "newsgroups": "20 Newsgroups", "mnist": "MNIST"}


def mean(results: Results, experiment: Any, measure: str, **settings: Any) -> Any:
    """Return the mean of cells that have these settings, whatever else."""
    return results.mean(_PAPER, experiment.name, measure, **settings)


def exactly(results: Results, experiment: Any, measure: str, **settings: Any) -> Any:
    """Return the mean of cells that have these settings and no others."""
    rows = [row for row in results.select(_PAPER, experiment.name, **settings) if row["settings"] == settings]
    return Results(rows).mean(_PAPER, experiment.name, measure)


def side_by_side(results: Results, name: str, measure: str) -> list[Any]:
    """Return what sparse and approximate kernel k-means (m = 2,000), k-means and kernel k-means have of a measure."""
    return [
        exactly(results, SIZE, measure, set=name, method="skkmeans", m=2000),
        exactly(results, SIZE, measure, set=name, method="akkmeans", m=2000),
        mean(results, BASE, measure, set=name, method="kmeans"),
        mean(results, BASE, measure, set=name, method="kkmeans"),
    ]


def touching(results: Results, sizes: str, kind: str) -> tuple[int, int]:
    """Return in how many runs points drawn in some way touch all ten circles, and the number of runs."""
    rows = [row for row in results.select(_PAPER, CIRCLES.name, sizes=sizes) if kind in row]
    return sum(row[kind] == 10 for row in rows), len(rows)


def sizes_of(name: str) -> list[int]:
    """Return the sample sizes that a set has."""
    return sorted({one["m"] for one in SIZE.settings if one["set"] == name})


def points(results: Results, experiment: Any, name: str, variable: str) -> list[tuple[float, float]]:
    """Return processor seconds over a variable."""
    values = sorted({one[variable] for one in experiment.settings if one["set"] == name})
    found = [(value, mean(results, experiment, "cpu", set=name, **{variable: value})) for value in values]
    return [(value, one.value) for value, one in found if one is not None]
