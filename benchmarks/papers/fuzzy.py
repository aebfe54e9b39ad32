"""Havens, Bezdek and Palaniswami, "Incremental kernel fuzzy c-means"."""

from __future__ import annotations

from typing import Any

import daskkcl
from benchmarks.papers.experiments import Experiment, Settings, grid
from benchmarks.papers.fitting import agreement, fit

__all__ = ["EXPERIMENTS", "METHODS", "RATES"]

METHODS = ("rsekfcm", "spkfcm", "okfcm")
RATES = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5)
FEW_RATES = (0.005, 0.01, 0.02, 0.05)  # of all of MNIST: chunks of 25 % would take a matrix of 2.5 GB
_SETS = {"a3": 50, "mnist, 10,000 rows": 10, "mnist": 10, "digits": 10}


def run(settings: Settings, seed: int, sets: Any) -> dict[str, float]:
    """One run of an algorithm as published: random objects to begin with, rows placed by prototypes, fuzzifier 1.7.

    Literal KFCM (rate 1) has the partition of its own last step.
    """
    X, y = sets.load(settings["set"])
    c, method, rate = _SETS[settings["set"]], settings["method"], settings["rate"]
    own: dict[str, Any] = {"fuzzifier": settings.get("fuzzifier", 1.7), "n_init": 1, "init": settings["init"]}
    polynomial = settings["set"].startswith("mnist")
    own["kernel"] = daskkcl.kernels.Polynomial(degree=5, gamma=1.0) if polynomial else daskkcl.kernels.Rbf(1.0)
    if method != "kfcm":
        own |= {"form": "literal", "extend": settings["extend"]}
        own["sample_size" if method == "rsekfcm" else "chunk_size"] = rate
    model, times = fit(X, method, c, seed, **own)
    return {**agreement(y, model.labels_), "iterations": model.n_iter_, **times}


def _grid(name: str, rates: tuple[float, ...], **more: Any) -> tuple[Settings, ...]:
    return grid(set=[name], init=["random"], extend=["prototypes"], rate=rates, method=METHODS, **more)


def _literal(name: str, **more: Any) -> tuple[Settings, ...]:
    return grid(set=[name], init=["random"], extend=["centres"], rate=[1], method=["kfcm"], **more)


_MNIST = "mnist, 10,000 rows"

EXPERIMENTS = (
    Experiment(
        "fuzzy",
        "Figure 2",
        "Figure 2",
        run,
        (*_literal("a3"), *_grid("a3", RATES)),
        runs=21,
        quick=lambda settings: settings["rate"] in (0.05, 0.25, 1),
    ),
    Experiment(
        "fuzzy",
        "Figure 2, far seeds",
        "Figure 2",
        run,
        grid(set=["a3"], init=["d2"], extend=["centres"], rate=[0.01, 0.05, 0.1, 0.25], method=METHODS),
        runs=21,
        quick=lambda settings: settings["rate"] == 0.1,
    ),
    Experiment(
        "fuzzy",
        "Figure 3",
        "Figure 3",
        run,
        (*_literal(_MNIST), *_grid(_MNIST, RATES)),
        runs=21,
        quick=lambda settings: settings["rate"] in (0.02, 0.1),
    ),
    Experiment(
        "fuzzy",
        "Figure 3, fuzzifier 1.2",
        "Figure 3",
        run,
        (*_literal(_MNIST, fuzzifier=[1.2]), *_grid(_MNIST, (0.02, 0.1, 0.25), fuzzifier=[1.2])),
        runs=21,
        quick=lambda settings: settings["rate"] == 0.1,
    ),
    Experiment(
        "fuzzy",
        "Figure 3, all rows",
        "Figure 3",
        run,
        _grid("mnist", FEW_RATES),
        runs=21,
        quick=lambda settings: False,
    ),
)
