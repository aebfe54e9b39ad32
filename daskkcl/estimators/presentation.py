"""How a fitted model shows itself: in a notebook, as pictures, as a page."""

from __future__ import annotations

import base64
import io
import os
import platform
import warnings
from collections.abc import Callable
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..drawing import html
from ..errors import DaskkclError, InvalidInputError, MemoryLimitError, OutputError
from ..random import as_key
from ..schedules.predict import compute_here, lazy_labels
from ..system import format_bytes
from .pictures import Pictures, in_memory, some_rows
from .validation import as_limit, check_choice

__all__ = ["Presented"]

_LIBRARIES = ("daskkcl", "numpy", "scipy", "scikit-learn", "numba", "dask", "distributed", "zarr", "xarray")

_DRAWN = _JUDGED = 2000  # rows that are drawn, and those that a silhouette is estimated from
_INDICES = {
    "silhouette": (f"silhouette (up to {_JUDGED:,} rows, as many of each cluster)", "more, up to 1"),
    "silhouette_simplified": ("silhouette by distances to centroids", "more, up to 1"),
    "davies_bouldin": ("Davies–Bouldin", "less"),
    "calinski_harabasz": ("Caliński–Harabasz", "more"),
    "partition_coefficient": ("partition coefficient", "more, up to 1"),
    "partition_entropy": ("partition entropy", "less"),
    "xie_beni": ("Xie–Beni", "less"),
    "fukuyama_sugeno": ("Fukuyama–Sugeno", "less"),
}


class Presented:
    """`plot`, `report` and what a notebook shows of a model."""

    @property
    def plot(self) -> Pictures:
        """Pictures of the fitted model: see `daskkcl.estimators.pictures.Pictures`."""
        check_is_fitted(self)
        return Pictures(self)  # type: ignore[arg-type]

    def report(
        self,
        path: Any,
        X: Any = None,
        *,
        y: Any = None,
        validity: str | None = "rows",
        overwrite: bool = False,
        component: str | None = None,
        storage_options: dict[str, Any] | None = None,
    ) -> Path:
        """Write one page of HTML about the fitted model: figures, validity, parameters, versions, plan and measured.

        The page needs nothing from anywhere: it can be mailed, or opened years later.

        Parameters
        ----------
        path : path
            Where to write it.
        X : as for `fit`, optional
            Rows to draw and to judge. By default those that the model was fitted to, where it can read them again, and
            else the sample of them that it keeps; a model that was loaded has neither.
        y : array of shape (n,), optional
            Known classes of the rows, to compare the clusters with.
        validity : {"rows", "sample"} or None, default "rows"
            What the validity indices are of: all rows, which takes two more passes over data that are not in memory
            (three for memberships), block by block within `memory_limit`; or the sample that the model keeps. None
            leaves them out.
        overwrite : bool
            Replace a file that is there.
        component, storage_options : as for `fit`, of X

        Returns
        -------
        path : Path
        """
        check_is_fitted(self)
        target = Path(path)
        if target.is_dir():
            raise InvalidInputError(f"{str(target)!r} is a folder; give the page a name, such as 'run.html'.")
        if target.exists() and not overwrite:
            raise InvalidInputError(f"{str(target)!r} exists; pass overwrite=True to replace it.")
        if not target.parent.is_dir():
            raise InvalidInputError(f"There is no folder {str(target.parent)!r} to write the page to.")
        if not os.access(target.parent, os.W_OK | os.X_OK):  # before the passes that judge all rows
            raise OutputError(f"The folder {str(target.parent)!r} cannot be written to (permission denied).")
        if validity is not None:
            check_choice("validity", validity, ("rows", "sample"))
        source = None if X is None else self._open_new(X, component, storage_options)  # type: ignore[attr-defined]
        text = _page(self, source, y, validity)
        half = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            half.write_text(text, encoding="utf-8")
            half.replace(target)
        except OSError as error:
            raise OutputError(f"{str(target)!r} cannot be written: {error.strerror or error}.") from error
        finally:
            half.unlink(missing_ok=True)
        return target

    def _html_repr(self) -> str:
        """Return what a notebook shows: scikit-learn's box before fitting, the result after."""
        if not hasattr(self, "_model"):
            return super()._html_repr()  # type: ignore[misc]
        return html.fragment(_summary(self))


def _summary(model: Any) -> str:
    """Return the head of a page, and all of what a notebook shows."""
    blocks = [html.table(_facts(model), right=True)]
    if hasattr(model, "cluster_sizes_"):
        counts = model.cluster_sizes_
        blocks.append(f"<div><b>cluster sizes</b>{html.bars(list(range(len(counts))), counts)}</div>")
    chart = html.line(list(model.history_), f"{model.watches} by round")
    if chart:
        blocks.append(f"<div><b>{escape(model.watches)}</b><br>{chart}</div>")
    title = f"<b>{escape(type(model).__name__)}</b> <span class='faint'>{escape(_one_line(model))}</span>"
    return f"<p>{title}</p><div class='side'>{''.join(blocks)}</div>"


def _facts(model: Any) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    if hasattr(model, "cluster_sizes_"):
        rows.append(("rows in clusters", int(np.sum(model.cluster_sizes_))))
    rows += [("features", int(model.n_features_in_)), ("clusters", int(model.n_clusters_))]
    rows.append(("rounds", int(model.n_iter_)))
    if hasattr(model, "objective_"):
        rows.append(("objective", f"{model.objective_:.6g}"))
    if getattr(model, "gamma_", None) is not None:
        rows.append(("kernel width (gamma)", f"{float(model.gamma_):.4g}"))
    if hasattr(model, "fuzzifier_"):
        rows.append(("fuzzifier", f"{model.fuzzifier_:.4g}"))
    plan = getattr(model, "plan_", None)
    if plan is not None:
        rows.append(("memory limit", format_bytes(plan.limit_bytes)))
        rows.append(("planned peak", format_bytes(plan.peak_bytes)))
    if hasattr(model, "peak_bytes_"):
        rows.append(("peak of the process", format_bytes(model.peak_bytes_)))
        rows.append(("seconds", f"{model.fit_seconds_:.1f}"))
    return rows


def _one_line(model: Any) -> str:
    """Return the parameters that are not at their defaults."""
    text = ", ".join(f"{name}={value}" for name, value in _given(model))
    return text if len(text) <= 160 else text[:157] + "..."


def _given(model: Any) -> list[tuple[str, str]]:
    defaults = type(model)().get_params(deep=False)
    given = []
    for name, value in model.get_params(deep=False).items():
        default = defaults[name]
        if value is default or (isinstance(value, (str, int, float)) and value == default):
            continue
        shown = f"array of shape {value.shape}" if hasattr(value, "shape") and np.ndim(value) else repr(value)
        given.append((name, shown if len(shown) <= 200 else shown[:197] + "..."))
    return given


def _page(model: Any, source: Any, y: Any, validity: str | None) -> str:
    title = f"{model.n_clusters_:,} cluster{'s' * (model.n_clusters_ != 1)} by {model.algorithm}"
    known, labels = (None, None) if y is None else (np.ravel(np.asarray(y)), _labels(model, source))
    judged = [] if validity is None else ["<h2>Validity</h2>", _validity(model, source, validity)]  # before pictures
    rows = None if source is None else some_rows(source, _DRAWN)
    figures = [
        ("The objective after each round", lambda ax: model.plot.convergence(ax)),
        ("Rows of each cluster, and what they would be if all were equal", lambda ax: model.plot.sizes(ax)),
        ("Rows in the plane where centres lie farthest apart", lambda ax: model.plot.scatter(rows, ax=ax)),
        (
            "How much nearer each row is to its own centre than to the next",
            lambda ax: model.plot.silhouette(rows, ax=ax),
        ),
    ]
    if model.fuzzy:
        figures.append(("Memberships of a sample", lambda ax: model.plot.memberships(rows, ax=ax)))
    if getattr(model, "n_clusters_evidence_", None):
        figures.append(("Why this number of clusters", lambda ax: model.plot.n_clusters(ax)))
    if hasattr(model, "seed_path_"):
        figures.append(("Paths of the seeds", lambda ax: model.plot.seeds(rows, ax=ax)))
    if known is not None:
        figures.insert(2, ("Known classes in clusters", lambda ax: model.plot.confusion(known, labels, ax=ax)))
    parts = [
        f"<h1>{escape(title)}</h1>",
        _summary(model),
        "<h2>Pictures</h2>",
        f"<div class='side'>{''.join(_figure(caption, draw) for caption, draw in figures)}</div>",
    ]
    parts += judged
    parts += [_agreement(known, labels)] if known is not None else []
    parts += ["<h2>Parameters</h2>", "<div class='wide'>"]
    parts.append(html.table([(key, _short(value)) for key, value in model.get_params(deep=False).items()]))
    parts.append("</div>")
    if getattr(model, "plan_", None) is not None:
        parts += ["<h2>Memory: plan against measured</h2>", _plan(model)]
    libraries = [(library, _version(library)) for library in _LIBRARIES]
    parts += ["<h2>Versions</h2>", html.table([("Python", platform.python_version()), *libraries])]
    return html.page(title, "\n".join(parts))


def _validity(model: Any, source: Any, which: str) -> str:
    """Return a table of indices, with what they are of."""
    from .judging import judge

    fitted, kept = model.__dict__.get("_source"), model.__dict__.get("_shown")
    fitted = fitted if fitted is not None and fitted.lazy else None  # rows in memory were the caller's
    source = fitted if source is None and which == "rows" else source
    note = ""
    if source is not None and which == "rows":
        try:
            found = judge([model], source, None, _JUDGED, as_key(0), memory_limit=as_limit(model.memory_limit))[0]
            return _indices(found, f"Of all {source.n_rows:,} rows")
        except MemoryLimitError as error:
            note = f"All rows were not judged: {error} "
    rows = kept if source is None or note else some_rows(source, _DRAWN)
    if rows is None:
        return f"<p>{escape(note)}A model that was loaded keeps no rows to judge: pass some, as X.</p>"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rows that are kept have no names of columns
        own = model._open_new(rows, None, None)
    found = judge([model], own, None, _JUDGED, as_key(0))[0]
    return _indices(found, f"{note}Of a sample of {own.n_rows:,} rows")


def _indices(found: dict[str, float], what: str) -> str:
    rows = [(_INDICES[name][0], html.number(_value(value)), _INDICES[name][1]) for name, value in found.items()]
    text = f"{what}, in the feature space of the model; every row counts once."
    return f"<p class='faint'>{escape(text)}</p>" + html.table(rows, ("index", "value", "better"))


def _value(value: float) -> str:
    if np.isnan(value):
        return "none: there is one cluster"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def _short(value: Any) -> str:
    text = f"array of shape {value.shape}" if hasattr(value, "shape") and np.ndim(value) else repr(value)
    return text if len(text) <= 400 else text[:397] + "..."


def _figure(caption: str, draw: Callable[[Any], Any]) -> str:
    """Return a picture inside the page, or why there is none."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        return _caption(f"{caption}: needs matplotlib (pip install 'daskkcl[plots]')")
    figure = Figure(figsize=(5.6, 4.2), layout="constrained")
    FigureCanvasSVG(figure)
    try:
        draw(figure.subplots())
    except DaskkclError as error:
        return _caption(f"{caption}: {error}")
    drawn = io.BytesIO()
    with rc_context({"svg.hashsalt": "daskkcl", "svg.fonttype": "path"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    code = base64.b64encode(drawn.getvalue()).decode()
    return (
        f'<figure><img alt="{escape(caption)}" src="data:image/svg+xml;base64,{code}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _caption(text: str) -> str:
    return f"<figure><figcaption>{escape(text)}</figcaption></figure>"


def _labels(model: Any, source: Any) -> Any:
    """Return the labels that known classes are compared with."""
    if source is not None:
        return np.asarray(compute_here(lazy_labels(source, model._model)))
    if model.__dict__.get("_source") is None:
        raise InvalidInputError(
            f"Known classes are compared with labels, and these are not {model._not_kept}: pass the rows too, as X."
        )
    return in_memory(model.labels_)


def _agreement(known: Any, labels: Any) -> str:
    from ..measures import ari, nmi

    classes = np.unique(known, return_inverse=True)[1]
    rows = [
        ("normalised mutual information", f"{nmi(classes, labels):.4f}"),
        ("adjusted Rand index", f"{ari(classes, labels):.4f}"),
    ]
    return "<h2>Agreement with known classes</h2>" + html.table(rows)


def _plan(model: Any) -> str:
    plan = model.plan_
    names = ["the process itself", f"kept between passes ({plan.keep})", *(layout.name for layout in plan.layouts)]
    sizes = [plan.base_bytes, plan.kept_bytes, *(layout.peak_bytes for layout in plan.layouts)]
    bars = html.bars(names, np.array(sizes, dtype=float), 40, [format_bytes(size) for size in sizes])
    facts = [("limit", format_bytes(plan.limit_bytes)), ("planned peak", format_bytes(plan.peak_bytes))]
    if hasattr(model, "peak_bytes_"):
        facts.append(("measured peak of the process", format_bytes(model.peak_bytes_)))
    return html.table(facts) + "<p class='faint'>Stages follow one another; the largest counts.</p>" + bars


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"
