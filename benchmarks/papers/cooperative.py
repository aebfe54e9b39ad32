"""Jia, Cheung and Liu, "Cooperative and penalized competitive learning with application to kernel-based clustering"."""

from __future__ import annotations

from typing import Any

import numpy as np

import daskkcl
from benchmarks.papers.cooperative_published import COMPETITIVE, KERNEL
from benchmarks.papers.experiments import Experiment, Settings, grid
from benchmarks.papers.fitting import fit, random_labels

__all__ = ["EXPERIMENTS", "KERNEL_REACHES", "REACHES", "SPREAD", "five_seeds", "reached"]

_EPOCHS = {3: 100, 4: 100, 10: 500, 20: 1000}  # of RPCCL, by the number of seeds: those of its published runs
_EPSILON = 1e-5  # published: the sum of squared moves of all seeds in an epoch, below which CPCL stops
_SETTLING = ("cccl", "cpcl", "kcpcl")  # those that stop so
REACHES = (0.05, 0.01, 0.001, 0.0001)  # how near two seeds are one: our default first, times the root total variance
KERNEL_REACHES = (0.05, 0.02, 0.01)
_WIDTHS = {"usps 4 and 9": 10.0, "pendigits, test part": 100.0, "mfeat": 2500.0}  # Table 9
SPREAD = 0.3  # standard deviation of the three Gaussians
_MIDDLES = np.array([[1, 1], [1, 2.5], [2.5, 2.5]])  # near where the seeds of the published run ended


def run_competitive(settings: Settings, seed: int, sets: Any) -> dict[str, float]:
    """One trial of a method that is told a number of seeds, on rows as they are."""
    X, y = sets.load(settings["set"])
    k = settings["k"]
    method, _, power = settings["method"].partition(", P = ")
    own: dict[str, Any] = _threshold(settings, X.var(axis=0, dtype=np.float64).sum())
    if power:
        own["power"] = float(power)
    if method == "rpccl":
        own["max_epochs"] = _EPOCHS.get(k, 500) if len(X) < 1000 else 500
    model, times = fit(X, method, k, seed, **own)
    return {**_found(y, model.labels_), "epochs": model.n_iter_, **times}


def run_merging(settings: Settings, seed: int, sets: Any) -> dict[str, float]:
    """The same trial, its seeds merged at each of the reaches."""
    X, y = sets.load(settings["set"])
    own, found = _threshold(settings, X.var(axis=0, dtype=np.float64).sum()), {}
    for reach in REACHES:
        model, _ = fit(X, settings["method"], settings["k"], seed, merge_tol=reach, **own)
        found |= {reached(name, reach): value for name, value in _found(y, model.labels_).items()}
    return {**found, "epochs": model.n_iter_}


def run_kernel(settings: Settings, seed: int, sets: Any) -> dict[str, float]:
    """One trial of kernel k-means from random labels, of K-CPCL at each reach, or of CPCL on rows as they are."""
    X, y = sets.load(settings["set"])
    method, k = settings["method"], settings["k"]
    own: dict[str, Any] = {}
    if method == "cpcl":
        return run_competitive(settings, seed, sets)
    kernel = daskkcl.kernels.Rbf(1 / (2 * _WIDTHS[settings["set"]] ** 2))
    if method == "kkmeans":
        own = {"init": random_labels(len(X), k, seed), "n_init": 1}
        model, times = fit(X, method, k, seed, kernel=kernel, **own)
        return {**_found(y, model.labels_), "epochs": model.n_iter_, **times}
    own = _threshold(settings, 1 - float(np.mean(kernel(X, X), dtype=np.float64)))
    found: dict[str, float] = {}
    for reach in KERNEL_REACHES[::-1]:  # the default last: its times count
        model, times = fit(X, method, k, seed, kernel=kernel, merge_tol=reach, **own)
        outcome = _found(y, model.labels_)
        found |= {reached(name, reach): value for name, value in outcome.items()}
    return {**found, **outcome, "epochs": model.n_iter_, **times}


def five_seeds(seed: int, **own: Any) -> tuple[Any, Any]:
    """Return rows of three Gaussians, and CPCL fitted to them from five seeds."""
    rng = np.random.default_rng(seed)
    X = _MIDDLES[rng.integers(0, 3, 1000)] + rng.normal(scale=SPREAD, size=(1000, 2))
    model, _ = fit(X, "cpcl", 5, seed, **_threshold({"epsilon": _EPSILON}, X.var(axis=0).sum()), **own)
    return X, model


def run_gaussians(settings: Settings, seed: int, sets: Any) -> dict[str, float]:
    """One trial with five seeds: how many clusters, and how far a Gaussian is from the nearest of them at most."""
    _, model = five_seeds(seed)
    off = float(np.asarray(model.transform(_MIDDLES)).min(axis=1).max())
    return {"clusters": model.n_clusters_, "off": off, "epochs": model.n_iter_}


def reached(name: str, reach: float) -> str:
    """Return the name of a figure at a reach."""
    return f"{name} {reach:g}"


def _threshold(settings: Settings, variance: float) -> dict[str, Any]:
    """Return the published threshold as the estimators have it: in units of the total variance."""
    return {"tol": settings["epsilon"] / float(variance)} if "epsilon" in settings else {}


def _found(y: Any, labels: Any) -> dict[str, float]:
    measures = daskkcl.measures
    return {"clusters": len(np.unique(labels)), "pq": measures.pq(y, labels), "ri": measures.rand(y, labels)}


def _settings(published: dict[str, dict[int, dict[str, Any]]], *names: str) -> tuple[Settings, ...]:
    return tuple(
        {"set": name, "method": method, "k": k, **({"epsilon": _EPSILON} if method in _SETTLING else {})}
        for name in names
        for k, methods in published[name].items()
        for method in methods
    )


EXPERIMENTS = (
    Experiment(
        "cooperative",
        "small sets",
        "Tables 1-3",
        run_competitive,
        (
            *_settings(COMPETITIVE, "seeds", "wine", "wdbc"),
            *(
                {"set": name, "method": "dsrpcl, P = 2", "k": k}
                for name in ("seeds", "wine", "wdbc")
                for k in COMPETITIVE[name]
            ),
        ),
        runs=20,
        at_a_time=20,
        quick=lambda settings: settings["k"] <= 10,
    ),
    Experiment(
        "cooperative",
        "many features",
        "Tables 7, 8",
        run_competitive,
        (
            *_settings(COMPETITIVE, "mfeat", "mnist, 5,000 rows"),
            *grid(set=["mfeat, z-scored"], method=["dsrpcl", "rpccl", "core"], k=[20]),
            *grid(set=["mfeat, z-scored"], method=["cccl", "cpcl"], k=[20], epsilon=[_EPSILON]),
        ),
        runs=20,
        quick=lambda settings: settings["set"] == "mfeat" and settings["method"] in ("cpcl", "rpccl"),
    ),
    Experiment(
        "cooperative",
        "kernel",
        "Tables 10, 11",
        run_kernel,
        _settings(KERNEL, "usps 4 and 9", "pendigits, test part", "mfeat"),
        runs=20,
        quick=lambda settings: settings["set"] == "usps 4 and 9" and settings["method"] != "kcpcl",
    ),
    Experiment(
        "cooperative",
        "merging",
        "Tables 1-3",
        run_merging,
        (
            *(
                {"set": name, "method": method, "k": k, "epsilon": _EPSILON}
                for name in ("seeds", "wine", "wdbc")
                for k in COMPETITIVE[name]
                for method in ("cccl", "cpcl")
            ),
            *grid(
                set=[f"{name}, {scaled}" for name in ("seeds", "wine", "wdbc") for scaled in ("min-max", "as it is")],
                method=["cpcl"],
                k=[10],
                epsilon=[_EPSILON],
            ),
        ),
        runs=20,
        at_a_time=20,
        quick=lambda settings: settings["k"] == 10,
    ),
    Experiment("cooperative", "Figure 2", "Figure 2", run_gaussians, ({"k": 5},), runs=20, at_a_time=20),
)
