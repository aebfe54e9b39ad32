"""Trying several numbers of clusters and widths on the same data."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from ..drawing import html
from ..drawing.canvas import axes_or_new, colours, marks, need_matplotlib
from ..errors import InvalidInputError, WrongTypeError, did_you_mean
from ..kernels.rows import public_rows
from ..planning import Layout
from ..progress import Progress
from ..random import as_key
from ..schedules.data import explain_bad_row, load_rows
from ..schedules.engine import Engine, make_engine
from ..schedules.measuring import BadRowError
from ..schedules.setup import all_stages, default_limit, plan_run
from ..schedules.sharing import Shared, can_share, measuring_stage, share
from ..system import resident_bytes, single_threaded
from .inputs import check_frame, open_rows
from .judging import INDICES, check_indices, judge, stability
from .problems import make_problem
from .validation import as_limit, check_choice, check_integer

__all__ = ["Sweep", "sweep"]

_LOWER = {"davies_bouldin", "xie_beni", "fukuyama_sugeno", "partition_entropy", "objective"}
_LOADED_SHARE = 4  # rows are kept for all fits if they take a quarter of what a limit leaves
_READ_ROWS = 2**14


@dataclass(frozen=True, eq=False)
class Sweep:
    """What a sweep found: a row for every setting, in the order they were tried.

    It has a length, and rows are dicts: ``found[0]["silhouette"]``. ``to_frame()`` makes a pandas table.

    Attributes
    ----------
    rows : list of dict
        Setting, scores, ``objective`` and ``seconds`` of every fit.
    models_ : list of KernelClusterer
    by : str
        The score that decides.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(9 * k, 1, (60, 2)) for k in range(3)])
    >>> found = daskkcl.sweep(X, "akkmeans", n_clusters=[2, 3, 4], random_state=0)
    >>> len(found), found.best_params_["n_clusters"], found.best_.cluster_sizes_
    (3, 3, array([60, 60, 60]))
    """

    rows: list[dict[str, Any]]
    models_: list[Any]
    by: str
    swept: tuple[str, ...] = field(default=("n_clusters", "gamma"))

    @property
    def best_index_(self) -> int:
        """The setting with the best score (of equals the first)."""
        values = np.array([row[self.by] for row in self.rows], dtype=float)
        if np.isnan(values).all():
            raise InvalidInputError(f"No setting has a score {self.by!r}: it compares clusters, and needs two.")
        return int(np.nanargmin(values) if self.by in _LOWER else np.nanargmax(values))

    @property
    def best_(self) -> Any:
        """The model with the best score."""
        return self.models_[self.best_index_]

    @property
    def best_params_(self) -> dict[str, Any]:
        """The setting with the best score."""
        return {name: self.rows[self.best_index_][name] for name in self.swept}

    @property
    def columns(self) -> list[str]:
        """Names of settings and scores."""
        return list(self.rows[0])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.rows[number]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def to_frame(self) -> Any:
        """Return the table as a `pandas.DataFrame`."""
        try:
            import pandas as pd
        except ImportError:
            raise InvalidInputError("to_frame() needs pandas, which is not installed; .rows is a list.") from None
        return pd.DataFrame(self.rows)

    def _cells(self) -> list[list[str]]:
        best = self.best_index_
        return [
            [*(_shown(value) for value in row.values()), "best" if number == best else ""]
            for number, row in enumerate(self.rows)
        ]

    def __repr__(self) -> str:
        lines = [[*self.columns, ""], *self._cells()]
        widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        return html.fragment(html.table([(*self.columns, ""), *map(tuple, self._cells())], right=True))

    def plot(self, score: str | None = None, ax: Any = None) -> Any:
        """Draw a score against the number of clusters, a line for every width; the best setting is ringed.

        Parameters
        ----------
        score : str, optional
            The one that decides, by default.
        ax : matplotlib axes, optional

        Returns
        -------
        ax : matplotlib axes
        """
        score = self.by if score is None else check_choice("score", score, tuple(self.columns[len(self.swept) :]))
        need_matplotlib()
        ax = axes_or_new(ax)
        gammas = list(dict.fromkeys(row["gamma"] for row in self.rows))
        along = "n_clusters" if len({row["n_clusters"] for row in self.rows}) > 1 or len(gammas) == 1 else "gamma"
        lines = gammas if along == "n_clusters" else [None]
        for gamma, colour, mark in zip(lines, colours(len(lines)), marks(len(lines)), strict=True):
            own = [row for row in self.rows if gamma is None or row["gamma"] == gamma]
            name = None if gamma is None or len(lines) == 1 else f"gamma = {_shown(gamma)}"
            ax.plot([row[along] for row in own], [row[score] for row in own], color=colour, marker=mark, label=name)
        best = self.rows[self.best_index_]
        ax.plot(
            best[along], best[score], "o", markersize=16, fillstyle="none", color="black", label=f"best by {self.by}"
        )
        if along == "gamma":
            ax.set_xscale("log")
        better = "less" if score in _LOWER else "more"
        ax.set_xlabel("number of clusters" if along == "n_clusters" else "gamma")
        ax.set_ylabel(score.replace("_", " ") + ("" if score == "seconds" else f" ({better} is better)"))
        if along == "n_clusters":
            ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend(frameon=False, markerscale=0.7)
        ax.spines[["top", "right"]].set_visible(False)
        return ax


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def sweep(
    data: Any,
    algo: str = "akkmeans",
    n_clusters: Sequence[int] = (2, 3, 4, 5, 6, 7, 8, 9, 10),
    gamma: Any = None,
    *,
    by: str = "silhouette",
    indices: Sequence[str] | None = None,
    n_sample: int = 2000,
    n_resamples: int = 0,
    feature_dim: str | None = None,
    component: str | None = None,
    storage_options: dict[str, Any] | None = None,
    **parameters: Any,
) -> Sweep:
    """Fit several numbers of clusters and widths of the kernel, and judge them with validity indices.

    All settings have the same random sample and landmarks. Rows are measured (met with the landmarks) once for each
    width, and all numbers of clusters are fitted to and judged by these measurements, which lie in memory where the
    limit has room, else in scratch where that is cheaper than measuring again. Lazy data that take less than a quarter
    of the memory that is free are read once in all. On a cluster, and for the algorithms and maps that have no such
    measurements (input space, the exact ones, `skkmeans`, ``"svrff"`` and ``"nyncut"``), every fit is by itself, and
    only the passes that find the indices are shared.

    Parameters
    ----------
    data : as for `fit`
    algo : str
    n_clusters : list of int
    gamma : list of float or names, optional
        ``"auto"`` by default.
    by : str, default "silhouette"
        The index (or ``"stability"``) that decides which setting is the best. Widths change distances in feature space:
        compare them with more than one index.
    indices : list of str, optional
        Those of `validity` to find; all by default.
    n_sample : int
        As for `validity`.
    n_resamples : int, default 0
        If not 0, `stability` with so many resamples is found for every setting too.
    feature_dim, component, storage_options : as for `fit`
    **parameters
        Further parameters of the algorithm's class, such as ``n_landmarks`` or ``scale``.

    Returns
    -------
    found : Sweep
        A table with a row for every setting; ``found.best_`` is the best model, ``found.plot()`` draws the score.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(9 * k, 1, (60, 2)) for k in range(4)])
    >>> found = daskkcl.sweep(X, n_clusters=[3, 4, 5], gamma=[0.01, 0.1], random_state=0)
    >>> found.best_params_["n_clusters"], len(found)
    (4, 6)
    """
    cls = _class(algo)
    settings = _settings(cls, n_clusters, gamma)
    wanted = check_indices(indices, cls.fuzzy, cls.algorithm)
    n_resamples = check_integer("n_resamples", n_resamples, 0)
    _check_by(by, wanted, cls, n_resamples)
    _check_names(cls, parameters)
    parameters = {**parameters, "random_state": as_key(parameters.get("random_state")).seed}  # one for all settings
    opener = cls(**parameters)
    source = open_rows(opener, data, component, storage_options, True, feature_dim)
    engine, limit = make_engine(None, Progress(False)), as_limit(opener.memory_limit)
    kept = _loaded(source, engine, limit)
    where = (data, component, storage_options) if kept is None else (kept, None, None)
    runs = _Runs(cls, parameters, where, feature_dim if kept is None else None, engine)
    models: dict[int, Any] = {}
    seconds: dict[int, float] = {}
    scores: dict[int, dict[str, float]] = {}

    def score(numbers: list[int], rows: Any, shared: Shared | None) -> None:
        found = judge([models[k] for k in numbers], rows, wanted, n_sample, as_key(0), None, limit, shared)
        scores.update(zip(numbers, found, strict=True))

    for width, numbers in _by_width(settings).items():
        with runs.sharing(width, [settings[k]["n_clusters"] for k in numbers]) as shared:
            for k in numbers:
                models[k], seconds[k] = runs.fit(settings[k], shared)
            if shared is not None:
                score(numbers, shared.first.problem.source, shared)
    alone = [k for k in models if k not in scores]  # what shares no measurements shares passes
    if alone:
        score(alone, models[alone[0]]._open_new(*where), None)
    rows = []
    for k, setting in enumerate(settings):
        model, width = models[k], setting["gamma"]
        if n_resamples:
            own: dict[str, Any] = {"component": where[1], "storage_options": where[2], "feature_dim": runs.feature_dim}
            scores[k] |= stability(model, where[0], n_resamples=n_resamples, **own)
        shown = model.gamma_ if width is None or isinstance(width, str) else width
        first = {"n_clusters": int(setting["n_clusters"]), "gamma": shown}
        rows.append({**first, **scores[k], "objective": model.objective_, "seconds": seconds[k]})
        if kept is not None and source.frame is not None:
            check_frame(model, source, reset=True)
            model._frame = source.frame
    return Sweep(rows, [models[k] for k in range(len(settings))], by)


@dataclass(eq=False)
class _Runs:
    """Fits the settings of a sweep."""

    cls: Any
    parameters: dict[str, Any]
    where: tuple[Any, Any, Any]  # rows, component, storage options
    feature_dim: str | None
    engine: Engine
    widths: dict[str, Any] = field(default_factory=dict)  # that names of widths turned out to be
    drawn: Shared | None = None

    def model(self, setting: dict[str, Any]) -> Any:
        """Return the estimator of a setting."""
        given = {name: value for name, value in setting.items() if name != "gamma" or value is not None}
        width = setting.get("gamma")
        if isinstance(width, str) and width in self.widths:
            given["gamma"] = self.widths[width]  # the same sample gives the same width: no need to find it again
        return self.cls(**{**self.parameters, **given})

    @contextmanager
    def sharing(self, width: Any, counts: list[int]) -> Iterator[Shared | None]:
        """Give what the fits of one width share, or None if they cannot."""
        shared = None
        if len(counts) > 1:
            with single_threaded():
                shared = self._share(self.model({"gamma": width, "n_clusters": max(counts)}), len(counts))
        self.drawn = shared or self.drawn
        try:
            yield shared
        finally:
            if shared is not None:
                shared.close()

    def _share(self, model: Any, n_fits: int) -> Shared | None:
        rows = open_rows(model, *self.where, True, self.feature_dim)
        problem = replace(make_problem(model, rows, model._key()), on_workers=not self.engine.local)
        if not (model._by_measurements() and can_share(problem, self.engine)):
            return None
        stages, _, n_passes, scratch_bytes = model._stages(problem, model._settings(problem))
        coded = problem.recipe.code_bytes
        stages = [*all_stages(problem, stages), measuring_stage(problem)]
        keep = {} if coded else {"measurements": problem.n_rows * problem.measured_bytes}
        scratch_bytes += problem.n_rows * coded
        plan = plan_run(problem, self.engine, stages, keep, n_passes * n_fits, scratch_bytes)
        if not coded and plan.keep != "measurements" and (plan.keep == "nothing" or plan.has("shuffling")):
            return None  # measuring again is cheaper than the disk
        try:
            return share(problem, self.engine, plan, self.drawn)
        except BadRowError as error:
            raise explain_bad_row(self.engine, rows, plan.layout("sampling"), error) from None

    def fit(self, setting: dict[str, Any], shared: Shared | None) -> tuple[Any, float]:
        """Return the fitted model of a setting, and the seconds it took."""
        began = time.perf_counter()
        rows, component, storage_options = self.where
        model = self.model(setting)
        model._fit(rows, None, None, False, None, None, component, storage_options, self.feature_dim, shared)
        seconds, width = time.perf_counter() - began, setting["gamma"]
        if isinstance(width, str) and model.gamma_ is not None:
            self.widths[width] = model.gamma_
        return model, seconds


def _by_width(settings: list[dict[str, Any]]) -> dict[Any, list[int]]:
    """Return the numbers of the settings of each width."""
    found: dict[Any, list[int]] = {}
    for number, setting in enumerate(settings):
        found.setdefault(setting["gamma"], []).append(number)
    return found


def _class(algo: Any) -> Any:
    from . import ALGORITHMS

    names = sorted(ALGORITHMS)
    if not isinstance(algo, str) or algo not in names:
        raise InvalidInputError(
            f"algo={algo!r} is not known; there are {', '.join(names)}.{did_you_mean(str(algo), names)}"
        )
    cls = ALGORITHMS[algo]
    if cls.counted != "n_clusters":
        raise InvalidInputError(f"{algo} finds the number of clusters by itself: there is nothing to sweep over.")
    return cls


def _settings(cls: Any, n_clusters: Any, gamma: Any) -> list[dict[str, Any]]:
    for name, values in (("n_clusters", n_clusters), ("gamma", gamma)):
        single = isinstance(values, (str, int, float, np.number)) and not isinstance(values, bool)
        if (single and name == "n_clusters") or (values is not None and not single and not np.iterable(values)):
            raise WrongTypeError(f"{name}={values!r}: pass a list of values to try.")
    counts = [check_integer("n_clusters", count, 1) for count in n_clusters]
    widths = [None] if gamma is None else [gamma] if isinstance(gamma, (str, int, float, np.number)) else list(gamma)
    if not counts or not widths:
        raise InvalidInputError("There is nothing to try: n_clusters and gamma need at least one value.")
    if gamma is not None and "gamma" not in cls._get_param_names():
        raise InvalidInputError(f"{cls.algorithm} has no gamma; leave it out.")
    return [{"gamma": width, "n_clusters": count} for width, count in product(widths, counts)]


def _check_names(cls: Any, parameters: dict[str, Any]) -> None:
    own = set(cls._get_param_names())
    for name in parameters:
        if name not in own:
            raise InvalidInputError(f"{cls.algorithm} has no parameter {name!r}.{did_you_mean(name, own)}")


def _check_by(by: Any, wanted: list[str], cls: Any, n_resamples: int) -> None:
    """Check that what is to decide will be known."""
    if by in INDICES and by not in wanted:
        check_indices([by], cls.fuzzy, cls.algorithm)
        raise InvalidInputError(
            f"by={by!r} is not among the indices that were asked for: {', '.join(wanted)}. Ask for it too, or choose "
            "by one of these."
        )
    check_choice("by", by, (*wanted, "objective", *(("stability",) if n_resamples else ())))


def _loaded(source: Any, engine: Engine, memory_limit: int | None) -> Any:
    """Return lazy rows in memory if they take little of it, else None."""
    if not source.lazy or not engine.local:
        return None
    limit = memory_limit or default_limit()
    if 2 * source.n_rows * source.row_bytes * _LOADED_SHARE > limit - resident_bytes():
        return None
    with single_threaded():
        layout = Layout("reading", min(source.n_rows, _READ_ROWS), engine.threads, 0)
        return public_rows(load_rows(engine, source, layout).array)
