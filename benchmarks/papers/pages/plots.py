"""Pictures in the layout of the papers' figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["panels", "save"]

_STYLES = ("o-", "s-", "^--", "v--", "D-.", "x-.", "P:", "*:", "h-", "<--", ">-.", "d:")
_DPI = 95

Series = Mapping[str, Sequence[tuple[float, float]]]


def panels(
    specs: Sequence[dict[str, Any]], columns: int = 2, level: Sequence[str] = (), styled: Sequence[str] = ()
) -> Any:
    """Return a figure of panels, each given by title, axis names, and series of points by name.

    A series of one point is a level line, as the papers draw methods that have no sampling size. Names in `styled` have
    the same colour and marks in all figures.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = -(-len(specs) // columns)
    drawn, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, 3.3 * rows), layout="constrained", squeeze=False)
    names = list(dict.fromkeys([*styled, *(name for spec in specs for name in spec["series"])]))
    for axis, spec in zip(axes.flat, specs, strict=False):
        for name, points in spec["series"].items():
            style, colour = _STYLES[names.index(name) % len(_STYLES)], f"C{names.index(name) % 10}"
            known = sorted(points)
            if len(known) == 1 and name in level:
                axis.axhline(known[0][1], color=colour, linestyle=style[1:], linewidth=1, label=name)
            elif known:
                axis.plot(*zip(*known, strict=True), style, color=colour, markersize=4, linewidth=1.2, label=name)
        axis.set_title(spec["title"], fontsize=10)
        axis.set_xlabel(spec["x"], fontsize=9)
        axis.set_ylabel(spec["y"], fontsize=9)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.25)
        _scale(axis, spec)
    for axis in list(axes.flat)[len(specs) :]:
        axis.set_visible(False)
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        drawn.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, fontsize=8)
    return drawn


def _scale(axis: Any, spec: dict[str, Any]) -> None:
    """Give an axis its scales, with plain numbers at the values that were measured, or at 1, 2, 5, 10 and so on."""
    from matplotlib import ticker

    plain = ticker.FuncFormatter(lambda value, _: f"{value:,.10g}")
    if spec.get("xscale") == "log":
        axis.set_xscale("log")
        measured = sorted({x for points in spec["series"].values() if len(points) > 1 for x, _ in points})
        axis.set_xticks(measured or [1])
        axis.xaxis.set_minor_locator(ticker.NullLocator())
    axis.xaxis.set_major_formatter(plain)
    if spec.get("yscale") == "log":
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_minor_locator(ticker.NullLocator())
        axis.yaxis.set_major_formatter(plain)
    elif spec.get("zero"):
        axis.set_ylim(bottom=0)


def save(drawn: Any, path: Any) -> None:
    """Write a figure as a small file, the same one every time."""
    import matplotlib.pyplot as plt

    drawn.savefig(path, dpi=_DPI, metadata={"Software": None})
    plt.close(drawn)
