"""Wu, Zheng and Lai, "Approximate kernel competitive learning" (AKCL, PAKCL)."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

import daskkcl
from benchmarks.papers.data import mean_squared_distance
from benchmarks.papers.experiments import Experiment, Settings, grid
from benchmarks.papers.fitting import agreement, balance, fit, random_labels

__all__ = ["CLASSES", "EXPERIMENTS", "FIGURES", "METHODS", "PUBLISHED_FIRST", "SIZES", "SUBSETS", "WIDTHS"]

SIZES = (50, 100, 200, 500, 1000, 2000)
SUBSETS = (100, 500, 1000, 2000, 5000, 10_000, 35_000)
_ROWS_OF_A_SUBSET = 1000
_UPDATES, _ROWS_OF_AN_UPDATE = 600, 100  # that epochs give at least; rows met singly that count as one
PUBLISHED_RATES = {"rate_start": 1.0, "rate_end": 1e-5}

#: l of the Gaussian width, sigma^2 = l times the mean squared distance: the best of the experiment "width" (see there)
WIDTHS = {"newsgroups": 50, "mnist": 0.5, "fashion": 0.5, "covtype": 50, "digits": 0.5}
CLASSES = {"newsgroups": 20, "mnist": 10, "mnist, unit rows": 10, "fashion": 10, "covtype": 7, "digits": 10}

#: method: its name in the paper, in the order of its figures
METHODS = {
    "akcl": "AKCL",
    "pakcl": "PAKCL",
    "akkmeans": "AppK-Kmeans",
    "akkmeans, 10 starts": "AppK-Kmeans, best of 10 starts",
    "nyncut": "Ny-Ncut",
    "fastkscl": "FastKSCL",
    "rff": "RFF",
    "sv": "SV",
    "randpoly": "RandPoly",
    "kcl": "KCL",
    "kkmeans": "K-Kmeans",
    "rpcl": "RPCL",
}
#: figure: set, kernel
FIGURES = {
    "Figure 3": ("newsgroups", "gaussian"),
    "Figure 4": ("mnist", "gaussian"),
    "Figure 5": ("mnist", "polynomial"),
}
PUBLISHED_FIRST = ("width", *FIGURES, "ratio", "ratio, not compiled")
_SMALLER = {
    "mnist, unit rows": "mnist, unit rows, 10,000 rows",
    "mnist": "mnist, 10,000 rows",
    "fashion": "fashion, 10,000 rows",
    "covtype": "covtype, 10,000 rows",
}


def kernel_of(name: str, kind: str, X: Any, width: float | None = None) -> Any:
    """Return the kernel of a set: Gaussian of the chosen width, or (x·y + 1)^5."""
    if kind == "polynomial":
        return daskkcl.kernels.Polynomial(degree=5, gamma=1.0)
    width = WIDTHS[name] if width is None else width
    return daskkcl.kernels.Rbf(1 / (2 * width * mean_squared_distance(X)))


def epochs_of(n_rows: int, subset: int) -> int:
    """Return how many epochs give enough updates: said here, so that no default changes it. 100 are tried apart."""
    return min(100, math.ceil(_UPDATES / math.ceil(n_rows / subset)))


def run(settings: Settings, seed: int, sets: Any) -> dict[str, float]:
    """One run of a method on a set; times are of making its coordinates and of clustering together."""
    name, method, m = settings["set"], settings["method"], settings.get("m")
    c = CLASSES[name]
    X, y = sets.load(_SMALLER.get(name, name) if method in ("kcl", "kkmeans") else name)
    if method == "rpcl":
        model, times = fit(X, "rpcl", c, seed, max_epochs=10)
        return _found(y, model, c, times)
    kernel = kernel_of(name, settings["kernel"], X, settings.get("width"))
    if method in ("akcl", "pakcl"):
        own: dict[str, Any] = {"tol": settings.get("tol", 1e-4), **PUBLISHED_RATES}  # the published one, and ones
        if method == "pakcl":
            own["subset_size"] = min(settings.get("subset", _ROWS_OF_A_SUBSET), len(X))
        own["max_epochs"] = settings.get("epochs") or epochs_of(len(X), own.get("subset_size", _ROWS_OF_AN_UPDATE))
        if method == "pakcl" or "epochs" in settings:
            own["init"] = (
                "random-labels-all"  # published; counts of all rows keep frequencies still in one or two epochs
            )
        model, times = fit(X, method, c, seed, kernel=kernel, n_landmarks=m, **own)
        return _found(y, model, c, times)
    if method == "kcl":
        model, times = fit(
            X, "kcl", c, seed, kernel=kernel, init="random-labels", max_epochs=epochs_of(len(X), _ROWS_OF_AN_UPDATE)
        )
        return _found(y, model, c, times)
    labels = random_labels(len(X), c, seed)
    if method == "kkmeans":
        model, times = fit(X, "kkmeans", c, seed, kernel=kernel, init=labels, n_init=1)
        return _found(y, model, c, times)
    Y, made = sets.once(
        (name, settings["kernel"], method_map(method), m, seed), lambda: coordinates(X, kernel, settings, seed)
    )
    if method == "fastkscl":
        model, times = fit(Y, "fastkscl", c, seed, map="identity", max_iter=20)
    elif method == "akkmeans, 10 starts":
        model, times = fit(Y, "akkmeans", c, seed, map="identity", n_init=10)
    else:
        model, times = fit(Y, "akkmeans", c, seed, map="identity", init=labels, n_init=1)
    return _found(y, model, c, {name: times[name] + made.get(name, 0.0) for name in times})


def method_map(method: str) -> str:
    """Return the map whose coordinates a method clusters."""
    return method if method in ("nyncut", "rff", "sv", "randpoly") else "nystroem"


def coordinates(X: Any, kernel: Any, settings: Settings, seed: int) -> tuple[Any, dict[str, float]]:
    """Return coordinates of all rows, whose distances are those of the method's own space, and what they took."""
    m, c, maps = settings["m"], CLASSES[settings["set"]], daskkcl.maps
    began = time.perf_counter(), time.process_time()
    common = {"random_state": seed, "progress": False}
    map_: Any = {
        "nystroem": lambda: maps.Nystroem(kernel=kernel, n_landmarks=m, **common),
        "nyncut": lambda: maps.NystromNcut(kernel=kernel, n_landmarks=m, n_components=c, **common),
        "rff": lambda: maps.RandomFourier(kernel=kernel, n_components=m, **common),
        "sv": lambda: maps.SVRandomFourier(kernel=kernel, n_components=m, n_vectors=c, **common),
        "randpoly": lambda: maps.TensorSketch(kernel=kernel, n_components=m, **common),
    }[method_map(settings["method"])]()
    Y = np.asarray(map_.fit_transform(X), dtype=np.float32)
    return Y, {"seconds": time.perf_counter() - began[0], "cpu": time.process_time() - began[1]}


def run_ratio(settings: Settings, seed: int, sets: Any) -> dict[str, float]:
    """AKCL's and PAKCL's epochs on the same coordinates, in turn: what is left when kernel values are there already."""
    name, m, c = settings["set"], settings["m"], CLASSES[settings["set"]]
    X, y = sets.load(name)
    kernel = kernel_of(name, settings["kernel"], X)
    wanted = {**settings, "method": "nystroem"}
    Y, _ = sets.once((name, settings["kernel"], "nystroem", m, seed), lambda: coordinates(X, kernel, wanted, seed))
    found: dict[str, float] = {}
    for method in ("akcl", "pakcl"):
        own = {"subset_size": _ROWS_OF_A_SUBSET, **PUBLISHED_RATES} if method == "pakcl" else {}
        model, times = fit(Y, method, c, seed, map="identity", max_epochs=10, tol=0, init="random-labels-all", **own)
        found |= {f"{method}_cpu": times["steps_cpu"], f"{method}_seconds": times["steps_seconds"]}
        found[f"{method}_nmi"] = daskkcl.measures.nmi(y, model.labels_)
    found["ratio_cpu"] = found["pakcl_cpu"] / found["akcl_cpu"]
    found["ratio_seconds"] = found["pakcl_seconds"] / found["akcl_seconds"]
    return found


def run_interpreted(settings: Settings, seed: int, sets: Any) -> dict[str, float]:
    """An epoch of AKCL and of PAKCL in plain NumPy, as the paper's programs were in Matlab; one thread for both.

    On the coordinates of 10,000 rows. More threads would wait for one another more than they compute.
    """
    from threadpoolctl import threadpool_limits

    name = settings["set"]
    X, c = sets.load(_SMALLER.get(name, name))[0][:10_000], CLASSES[name]
    kernel = kernel_of(name, settings["kernel"], X)
    Y, _ = coordinates(X, kernel, {**settings, "method": "nystroem"}, seed)
    rng = np.random.default_rng(seed)
    labels, order = rng.integers(0, c, len(Y)), rng.permutation(len(Y))
    start = np.stack([Y[labels == k].mean(axis=0) for k in range(c)])
    found = {}
    with threadpool_limits(1):
        for method, epoch in (("akcl", _single_rows), ("pakcl", _subsets_of_rows)):
            epoch(Y[:2000], start, order[order < 2000])
            began = time.process_time()
            epoch(Y, start, order)
            found[f"{method}_cpu"] = time.process_time() - began
    return {**found, "ratio_cpu": found["pakcl_cpu"] / found["akcl_cpu"]}


def _single_rows(Y: Any, start: Any, order: Any, eta: float = 0.01) -> Any:
    centres, wins = start.copy(), np.ones(len(start))
    for row in order:
        y = Y[row]
        k = (wins * ((centres - y) ** 2).sum(axis=1)).argmin()
        centres[k] += eta * (y - centres[k])
        wins[k] += 1
    return centres


def _subsets_of_rows(Y: Any, start: Any, order: Any, eta: float = 0.01) -> Any:
    centres, wins = start.copy(), np.ones(len(start))
    for first in range(0, len(order), _ROWS_OF_A_SUBSET):
        rows = Y[order[first : first + _ROWS_OF_A_SUBSET]]
        norms = np.einsum("ij,ij->i", rows, rows)[:, None] + (centres**2).sum(axis=1)
        members = np.eye(len(start), dtype=Y.dtype)[(wins * (norms - 2 * rows @ centres.T)).argmin(axis=1)]
        counts = members.sum(axis=0)
        won = counts > 0
        centres[won] += eta * ((members.T @ rows)[won] / counts[won, None] - centres[won])
        wins += counts
    return centres


def _found(y: Any, model: Any, c: int, times: dict[str, float]) -> dict[str, float]:
    labels = np.asarray(model.labels_)
    return {**agreement(y, labels), **balance(labels, c), "iterations": model.n_iter_, **times}


def run_width(settings: Settings, seed: int, sets: Any) -> dict[str, float]:
    """One run with a width of the published range, on a sample of the larger sets."""
    name, c = settings["set"], CLASSES[settings["set"]]
    X, y = sets.load("covtype, 20,000 rows" if name == "covtype" else _SMALLER.get(name, name))
    kernel = kernel_of(name, "gaussian", X, settings["width"])
    own: dict[str, Any] = {"n_init": 1, "init": random_labels(len(X), c, seed)}
    if settings["method"] == "pakcl":
        own = {"max_epochs": 10, "subset_size": 200, "init": "random-labels", **PUBLISHED_RATES}
    model, times = fit(X, settings["method"], c, seed, kernel=kernel, n_landmarks=300, **own)
    return _found(y, model, c, times)


def _figure(name: str, kind: str, sizes: tuple[int, ...] = SIZES) -> tuple[Settings, ...]:
    """All methods of a figure, those that share coordinates next to one another."""
    own = ("rff", "sv") if kind == "gaussian" else ("randpoly",)
    sized = ("akkmeans", "akkmeans, 10 starts", "fastkscl", "nyncut", *own, "pakcl", "akcl")
    return (
        *grid(set=[name], kernel=[kind], m=sizes, method=sized),
        *grid(set=[name], kernel=[kind], method=["kkmeans", "kcl", "rpcl"]),
    )


def _large(settings: Settings) -> bool:
    return settings.get("m", 0) > 1000 or settings.get("subset") in (500, 2000)


def _small(settings: Settings) -> bool:
    return settings.get("m", 10**6) <= 100 and settings["method"] in (
        "pakcl",
        "akcl",
        "akkmeans",
        "nyncut",
        "rff",
        "randpoly",
    )


EXPERIMENTS = (
    Experiment(
        "competitive",
        "width",
        "the choice of l",
        run_width,
        grid(
            set=["newsgroups", "mnist", "fashion", "covtype"],
            width=[0.01, 0.05, 0.1, 0.5, 1, 5, 10, 50],
            method=["pakcl", "akkmeans"],
        ),
        runs=2,
        quick=lambda settings: settings["set"] == "mnist" and settings["width"] in (0.1, 1),
    ),
    *(
        Experiment("competitive", figure, figure, run, _figure(name, kind), runs=10, quick=_small, late=_large)
        for figure, (name, kind) in FIGURES.items()
    ),
    Experiment(
        "competitive",
        "Figure 9",
        "Figure 9",
        run,
        tuple(
            {"set": name, "kernel": kind, "m": 1000, "method": "pakcl", "subset": subset, "epochs": 10}
            for name, kind in FIGURES.values()
            for subset in SUBSETS
            if subset <= (18_000 if name == "newsgroups" else 70_000)
        ),
        runs=10,
        quick=lambda settings: settings["set"] == "newsgroups" and settings["subset"] in (1000, 5000),
        late=_large,
    ),
    Experiment(
        "competitive",
        "ratio",
        "8.5 to 24.8 %",
        run_ratio,
        tuple({"set": name, "kernel": kind, "m": m} for name, kind in FIGURES.values() for m in (100, 500, 1000, 2000)),
        runs=10,
        quick=lambda settings: settings["m"] == 100,
        late=_large,
    ),
    Experiment(
        "competitive",
        "ratio, not compiled",
        "8.5 to 24.8 %",
        run_interpreted,
        tuple({"set": name, "kernel": kind, "m": m} for name, kind in FIGURES.values() for m in (100, 500, 1000, 2000)),
        runs=10,
        quick=lambda settings: settings["m"] == 100,
    ),
    Experiment(
        "competitive",
        "Figure 5, unit rows",
        "Figure 5",
        run,
        _figure("mnist, unit rows", "polynomial", (100, 500, 1000)),
        runs=10,
        quick=lambda settings: False,
    ),
    Experiment(
        "competitive",
        "Fashion-MNIST",
        "a further set",
        run,
        _figure("fashion", "gaussian", (100, 500, 1000)),
        runs=10,
        quick=lambda settings: False,
    ),
    Experiment(
        "competitive",
        "Covertype",
        "a further set",
        run,
        _figure("covtype", "gaussian", (100, 300)),
        runs=10,
        quick=lambda settings: False,
    ),
    Experiment(
        "competitive",
        "published epochs",
        "t_max = 100",
        run,
        tuple(
            {"set": name, "kernel": kind, "m": 100, "method": method, "epochs": 100, "tol": 0}
            for name, kind in FIGURES.values()
            for method in ("pakcl", "akcl")
        ),
        runs=10,
        quick=lambda settings: False,
    ),
)
