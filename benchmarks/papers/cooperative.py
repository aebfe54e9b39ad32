"""Jia, Cheung and Liu, "Cooperative and penalized competitive learning with application to kernel-based clustering"."""

from __future__ import annotations

from typing import Any

import numpy as np

import daskkcl
from benchmarks.papers.experiments import Experiment, Settings, grid
from benchmarks.papers.fitting import fit, random_labels

__all__ = [
    "EXPERIMENTS",
    "KERNEL_REACHES",
    "PUBLISHED_COMPETITIVE",
    "PUBLISHED_EPOCHS",
    "PUBLISHED_KERNEL",
    "REACHES",
    "reached",
]

_EPOCHS = {3: 100, 4: 100, 10: 500, 20: 1000}  # of RPCCL, by the number of seeds: those of its published runs
_EPSILON = 1e-5  # published: the sum of squared moves of all seeds in an epoch, below which CPCL stops
_SETTLING = ("cccl", "cpcl", "kcpcl")  # those that stop so
REACHES = (0.05, 0.01, 0.001, 0.0001)  # how near two seeds are one: our default first, times the root total variance
KERNEL_REACHES = (0.05, 0.02, 0.01)
_WIDTHS = {"usps 4 and 9": 10.0, "pendigits, test part": 100.0, "mfeat": 2500.0}  # Table 9

#: set: number of seeds: method: clusters, partition quality, Rand index (Tables 1-3, 7, 8)
PUBLISHED_COMPETITIVE: dict[str, dict[int, dict[str, tuple[float, float, float]]]] = {
    "seeds": {
        4: {
            "dsrpcl": (4, 0.6623, 0.8628),
            "rpccl": (2.95, 0.6849, 0.8499),
            "core": (2.1, 0.5794, 0.7593),
            "cccl": (2.85, 0.6273, 0.8095),
            "cpcl": (3.25, 0.6922, 0.8635),
        },
        10: {
            "dsrpcl": (8.25, 0.3146, 0.7673),
            "rpccl": (8.85, 0.3718, 0.7763),
            "core": (2.45, 0.6385, 0.8028),
            "cccl": (3.5, 0.6536, 0.8442),
            "cpcl": (3.25, 0.7302, 0.8840),
        },
        20: {
            "dsrpcl": (17.05, 0.2020, 0.7311),
            "rpccl": (18.3, 0.1783, 0.7200),
            "core": (2.7, 0.6738, 0.8342),
            "cccl": (3.7, 0.6437, 0.8329),
            "cpcl": (3.1, 0.7332, 0.8771),
        },
    },
    "wine": {
        4: {
            "dsrpcl": (4, 0.7502, 0.8977),
            "rpccl": (2.8, 0.6686, 0.8147),
            "core": (2.3, 0.5023, 0.7082),
            "cccl": (3.45, 0.5520, 0.7567),
            "cpcl": (3.15, 0.6917, 0.8332),
        },
        10: {
            "dsrpcl": (8.05, 0.4029, 0.7941),
            "rpccl": (7.8, 0.5674, 0.8357),
            "core": (2.6, 0.6431, 0.8156),
            "cccl": (3.85, 0.5224, 0.7602),
            "cpcl": (3.25, 0.6382, 0.8049),
        },
        20: {
            "dsrpcl": (20, 0.2091, 0.7276),
            "rpccl": (18.65, 0.2070, 0.7238),
            "core": (2.95, 0.6938, 0.8503),
            "cccl": (4.25, 0.4927, 0.7535),
            "cpcl": (3.25, 0.6316, 0.8196),
        },
    },
    "wdbc": {
        3: {
            "dsrpcl": (3, 0.6248, 0.7553),
            "rpccl": (1.85, 0.4781, 0.5553),
            "core": (2.15, 0.2664, 0.5964),
            "cccl": (2.15, 0.7573, 0.8321),
            "cpcl": (2, 0.7725, 0.8415),
        },
        10: {
            "dsrpcl": (9.7, 0.2111, 0.5774),
            "rpccl": (5.9, 0.5136, 0.6984),
            "core": (2.6, 0.2931, 0.5719),
            "cccl": (1.95, 0.7215, 0.8177),
            "cpcl": (2, 0.7551, 0.8298),
        },
        20: {
            "dsrpcl": (19.95, 0.1228, 0.5311),
            "rpccl": (15.25, 0.1925, 0.5629),
            "core": (3.1, 0.3290, 0.6126),
            "cccl": (1.95, 0.7267, 0.8211),
            "cpcl": (2.05, 0.7582, 0.8306),
        },
    },
    "mfeat": {
        20: {
            "dsrpcl": (20, 0.2021, 0.8765),
            "rpccl": (14.75, 0.2116, 0.8748),
            "core": (6.25, 0.1528, 0.7864),
            "cccl": (7.0, 0.2251, 0.8476),
            "cpcl": (8.2, 0.2577, 0.8624),
        }
    },
    "mnist, 5,000 rows": {
        20: {
            "dsrpcl": (20, 0.1834, 0.8969),
            "rpccl": (12.85, 0.2175, 0.8245),
            "core": (7.25, 0.1694, 0.7835),
            "cccl": (4.7, 0.1087, 0.7552),
            "cpcl": (8.75, 0.2408, 0.8258),
        }
    },
}

#: set: number of seeds: epochs of DSRPCL, RPCCL, CoRe, CCCL and CPCL (the same tables)
PUBLISHED_EPOCHS = {
    "seeds": {
        4: (94.85, 100, 19.5, 77.35, 49.5),
        10: (187.2, 500, 28.75, 189.5, 110.9),
        20: (296.15, 1000, 39.7, 368.5, 168.3),
    },
    "wine": {
        4: (125.35, 100, 26.5, 55.15, 57.85),
        10: (235.5, 500, 39.2, 94.35, 93.26),
        20: (324.1, 1000, 39.5, 176.55, 145.65),
    },
    "wdbc": {
        3: (55.5, 100, 26.2, 23.5, 20.4),
        10: (225.8, 500, 61.2, 47.15, 39.35),
        20: (457.3, 1000, 107.15, 82.05, 63.7),
    },
    "mfeat": {
        20: (56.25, 500, 40.6, 208.55, 201.5),
    },
    "mnist, 5,000 rows": {
        20: (109.25, 500, 52.65, 158.25, 176.8),
    },
}

#: set: number of clusters or seeds: method: clusters, partition quality, Rand index (Tables 10 and 11)
PUBLISHED_KERNEL: dict[str, dict[int, dict[str, tuple[float, float, float]]]] = {
    "usps 4 and 9": {
        2: {"kkmeans": (2.0, 0.4867, 0.6561), "kcpcl": (2.0, 0.4779, 0.6485)},
        5: {"kkmeans": (5.0, 0.2223, 0.5795), "kcpcl": (2.35, 0.4463, 0.6329), "cpcl": (1.25, 0.1072, 0.5469)},
    },
    "pendigits, test part": {
        10: {"kkmeans": (9.8, 0.4504, 0.9122), "kcpcl": (9.65, 0.4438, 0.9015)},
        20: {"kkmeans": (18.3, 0.4344, 0.9347), "kcpcl": (11.7, 0.4556, 0.9070), "cpcl": (7.35, 0.3452, 0.8537)},
    },
    "mfeat": {
        10: {"kkmeans": (7.2, 0.2805, 0.8621), "kcpcl": (9.5, 0.3121, 0.8875)},
        20: {"kkmeans": (13.8, 0.2863, 0.8882), "kcpcl": (10.7, 0.3316, 0.8965), "cpcl": (8.2, 0.2577, 0.8624)},
    },
}


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
            *_settings(PUBLISHED_COMPETITIVE, "seeds", "wine", "wdbc"),
            *(
                {"set": name, "method": "dsrpcl, P = 2", "k": k}
                for name in ("seeds", "wine", "wdbc")
                for k in PUBLISHED_COMPETITIVE[name]
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
            *_settings(PUBLISHED_COMPETITIVE, "mfeat", "mnist, 5,000 rows"),
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
        _settings(PUBLISHED_KERNEL, "usps 4 and 9", "pendigits, test part", "mfeat"),
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
                for k in PUBLISHED_COMPETITIVE[name]
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
)
