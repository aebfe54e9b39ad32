"""Fits one of our algorithms, and says how long each part of it took."""

from __future__ import annotations

import itertools
import time
import warnings
from typing import Any

import numpy as np

import daskkcl

__all__ = ["agreement", "balance", "fit", "random_labels"]

_WARM: set[str] = set()  # algorithms that have run in this process


def fit(X: Any, algo: str, n_clusters: int, seed: int, **parameters: Any) -> tuple[Any, dict[str, float]]:
    """Return the fitted model, and times: of everything, and of what comes between preparing and labelling.

    ``seconds`` is what a clock says, ``cpu`` the processor time of all threads, which depends less on what else the
    machine was doing; ``steps_seconds`` and ``steps_cpu`` are of epochs, passes or chunks alone.
    """
    _warm_up(algo)
    moments: list[tuple[str, float, float]] = []

    def watch(stage: str, done: int, total: int, info: str) -> None:
        if not moments or moments[-1][0] != stage:
            moments.append((stage, time.perf_counter(), time.process_time()))

    estimator = daskkcl.algorithms()[algo](n_clusters, random_state=seed, progress=watch, **parameters)
    moments.append(("preparing", time.perf_counter(), time.process_time()))
    model = estimator.fit(X)
    moments.append(("", time.perf_counter(), time.process_time()))
    times = {"seconds": moments[-1][1] - moments[0][1], "cpu": moments[-1][2] - moments[0][2]}
    steps = [
        (after[1] - before[1], after[2] - before[2])
        for before, after in itertools.pairwise(moments)
        if before[0] not in ("preparing", "labelling")
    ]
    times["steps_seconds"], times["steps_cpu"] = sum(step[0] for step in steps), sum(step[1] for step in steps)
    return model, times


def _warm_up(algo: str) -> None:
    """Let an algorithm load what it needs before its first run is timed."""
    if algo not in _WARM:
        rows = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            daskkcl.algorithms()[algo](2, random_state=0, progress=False).fit(rows)
        _WARM.add(algo)


def agreement(truth: Any, labels: Any) -> dict[str, float]:
    """Return normalised mutual information and the adjusted Rand index."""
    return {"nmi": daskkcl.measures.nmi(truth, labels), "ari": daskkcl.measures.ari(truth, labels)}


def balance(labels: Any, n_clusters: int) -> dict[str, float]:
    """Return the standard deviation of cluster sizes and the share of the smallest."""
    return {"sdcs": daskkcl.measures.sdcs(labels, n_clusters), "rme": daskkcl.measures.rme(labels, n_clusters)}


def random_labels(n_rows: int, n_clusters: int, seed: int) -> Any:
    """Return a start as the papers' k-means have it: a random cluster for every row."""
    return np.random.default_rng([seed, 7]).integers(0, n_clusters, n_rows)
