"""How a fitted model shows itself: in a notebook, as pictures, as a page."""

from __future__ import annotations

import base64
import io
import os
import platform
from collections.abc import Callable
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..drawing import html
from ..errors import DaskkclError, InvalidInputError
from ..system import format_bytes
from .pictures import Pictures, in_memory

__all__ = ["Presented"]

_LIBRARIES = ("daskkcl", "numpy", "scipy", "scikit-learn", "numba", "dask", "distributed", "zarr", "xarray")


class Presented:
    """`plot`, `report` and what a notebook shows of a model."""

    @property
    def plot(self) -> Pictures:
        """Pictures of the fitted model: see `daskkcl.estimators.pictures.Pictures`."""
        check_is_fitted(self)
        return Pictures(self)  # type: ignore[arg-type]

    def report(self, path: Any, *, y: Any = None, overwrite: bool = False) -> Path:
        """Write one page of HTML about the fitted model: figures, parameters, versions, plan against measured.

        The page needs nothing from anywhere: it can be mailed, or opened years later.

        Parameters
        ----------
        path : path
            Where to write it.
        y : array of shape (n,), optional
            Known classes of the rows, to compare the clusters with.
        overwrite : bool
            Replace a file that is there.

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
        text = _page(self, y)
        half = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            half.write_text(text, encoding="utf-8")
            half.replace(target)
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


def _page(model: Any, y: Any) -> str:
    name = type(model).__name__
    known = None if y is None else np.asarray(y)
    figures = [
        ("Convergence", lambda ax: model.plot.convergence(ax)),
        ("Cluster sizes", lambda ax: model.plot.sizes(ax)),
        ("Rows in the plane where centres lie farthest apart", lambda ax: model.plot.scatter(ax=ax)),
        ("How much nearer each row is to its own centre than to the next", lambda ax: model.plot.silhouette(ax=ax)),
    ]
    if model.fuzzy:
        figures.append(("Memberships of a sample", lambda ax: model.plot.memberships(ax=ax)))
    if getattr(model, "n_clusters_evidence_", None):
        figures.append(("Why this number of clusters", lambda ax: model.plot.n_clusters(ax)))
    if hasattr(model, "seed_path_"):
        figures.append(("Ways of the seeds", lambda ax: model.plot.seeds(ax=ax)))
    if known is not None:
        figures.insert(2, ("Known classes in clusters", lambda ax: model.plot.confusion(known, ax=ax)))
    parts = [
        f"<h1>{escape(name)}</h1>",
        _summary(model),
        "<h2>Pictures</h2>",
        f"<div class='side'>{''.join(_figure(caption, draw) for caption, draw in figures)}</div>",
    ]
    parts += [_agreement(model, known)] if known is not None else []
    parts += ["<h2>Parameters</h2>", "<div class='wide'>"]
    parts.append(html.table([(key, _short(value)) for key, value in model.get_params(deep=False).items()]))
    parts.append("</div>")
    if getattr(model, "plan_", None) is not None:
        parts += ["<h2>Memory: plan against measured</h2>", _plan(model)]
    libraries = [(library, _version(library)) for library in _LIBRARIES]
    parts += ["<h2>Versions</h2>", html.table([("Python", platform.python_version()), *libraries])]
    return html.page(f"{name}: {model.n_clusters_} clusters", "\n".join(parts))


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


def _agreement(model: Any, known: Any) -> str:
    from ..measures import ari, nmi

    labels, classes = in_memory(model.labels_), np.unique(np.ravel(known), return_inverse=True)[1]
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
