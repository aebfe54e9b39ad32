"""What a benchmark hands back: rows of tables and targets; and how they are written down."""

from __future__ import annotations

import json
import math
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.runner import Entry
from daskkcl.system import cpu_count

__all__ = [
    "Outcome",
    "Row",
    "Target",
    "at_least",
    "at_most",
    "read_results",
    "render_outcome",
    "row_of",
    "write_results",
]


_VERSIONS = (
    *("numpy", "scipy", "numba", "dask", "zarr"),
    *("scikit-learn", "dask-ml", "scikit-fuzzy", "tslearn", "faiss-cpu"),
)


@dataclass(frozen=True)
class Row:
    """A contestant in a table. What is not known is None; `note` says why."""

    title: str
    seconds: float | None = None
    times: tuple[float, ...] = ()
    added_mib: float | None = None
    nmi: float | None = None
    ari: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Target:
    """Something to be reached: what, the bound, what came out (None: not known), and why if it was missed."""

    what: str
    bound: float
    at_least: bool
    measured: float | None
    note: str = ""
    open_end: bool = False  # the true figure is this or better: the peer was stopped

    @property
    def reached(self) -> bool | None:
        """Whether it was."""
        if self.measured is None:
            return None
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound


@dataclass(frozen=True)
class Outcome:
    """A benchmark's title, what was done, its table and its targets."""

    name: str
    title: str
    explanation: str
    rows: tuple[Row, ...] = ()
    targets: tuple[Target, ...] = ()
    seconds: float = 0.0
    load: float = 0.0  # of the machine, before


def at_least(what: str, bound: float, measured: float | None, note: str = "", open_end: bool = False) -> Target:
    """Return a target that larger figures reach."""
    return Target(what, bound, True, _known(measured), note, open_end)


def at_most(what: str, bound: float, measured: float | None, note: str = "") -> Target:
    """Return a target that smaller figures reach."""
    return Target(what, bound, False, _known(measured), note)


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def row_of(entry: Entry, note: str = "") -> Row:
    """Return the row of a table for a contestant."""
    if entry.failed and not entry.runs:
        return Row(entry.title, note=entry.failed)
    return Row(
        entry.title,
        _known(entry.seconds),
        tuple(round(run["seconds"], 3) for run in entry.runs),
        _known(entry.added_bytes / 2**20),
        _known(entry.mean("nmi")),
        _known(entry.mean("ari")),
        note,
    )


def read_results(folder: Path) -> list[Outcome]:
    """Return what an earlier run wrote; nothing where there was none."""
    try:
        found = json.loads((folder / "results.json").read_text())["outcomes"]
    except FileNotFoundError:
        return []
    return [_from_plain(plain) for plain in found]


def write_results(outcomes: list[Outcome], folder: Path) -> None:
    """Write results.md, results.json and results.png."""
    machine = describe_machine()
    data = {"machine": machine, "outcomes": [_plain(outcome) for outcome in outcomes]}
    (folder / "results.json").write_text(json.dumps(data, indent=1) + "\n")
    (folder / "results.md").write_text(render(outcomes, machine))
    draw(outcomes, folder / "results.png")


def _plain(outcome: Outcome) -> dict[str, Any]:
    plain = asdict(outcome)
    for target, made in zip(plain["targets"], outcome.targets, strict=True):
        target["reached"] = made.reached
    return plain


def _from_plain(plain: dict[str, Any]) -> Outcome:
    rows = tuple(Row(**{**row, "times": tuple(row["times"])}) for row in plain["rows"])
    targets = tuple(Target(**{k: v for k, v in target.items() if k != "reached"}) for target in plain["targets"])
    return Outcome(**{**plain, "rows": rows, "targets": targets})


def describe_machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    import importlib.metadata as metadata

    import psutil

    versions = {}
    for name in _VERSIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "processor": _processor(),
        "cores": cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def render(outcomes: list[Outcome], machine: dict[str, Any]) -> str:
    """Return everything as Markdown."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; do not edit. Times are medians of runs in turn, each contestant in a fresh process,",
        "with libraries and rows loaded before the clock starts. Memory is the peak of the resident size over what it",
        "was then. NMI and ARI are means over the seeds of the runs.",
        "",
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB; Python {machine['python']}, "
        f"{versions}.",
        "",
        "![Targets](results.png)",
        "",
        "## Targets",
        "",
        "| what | target | measured | |",
        "|---|---|---|---|",
    ]
    for outcome in outcomes:
        lines += [_target_line(target) for target in outcome.targets]
    for outcome in outcomes:
        lines += ["", f"## {outcome.title}", "", outcome.explanation.strip(), ""]
        run = f"`python -m benchmarks {outcome.name}`, {outcome.seconds:.0f} s"
        lines += [f"{run}; load of the machine before: {outcome.load:.2f}.", "", *_table(outcome.rows)]
    return "\n".join(lines) + "\n"


def render_outcome(outcome: Outcome) -> str:
    """Return one benchmark as Markdown."""
    targets = [_target_line(target) for target in outcome.targets]
    head = ["", "| what | target | measured | |", "|---|---|---|---|", *targets] if targets else []
    return "\n".join([f"## {outcome.title}", "", outcome.explanation.strip(), "", *_table(outcome.rows), *head])


def _target_line(target: Target) -> str:
    sign = "≥" if target.at_least else "≤"
    verdict = {True: "reached", False: "**missed**", None: "not measured"}[target.reached]
    note = f": {target.note}" if target.note and target.reached is not True else ""
    return f"| {target.what} | {sign} {_number(target.bound)} | {_measured(target)} | {verdict}{note} |"


def _measured(target: Target) -> str:
    return "" if target.measured is None else f"{'≥ ' if target.open_end else ''}{_number(target.measured)}"


def _table(rows: tuple[Row, ...]) -> list[str]:
    lines = ["| | seconds | of single runs | added MiB | NMI | ARI | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        times = ", ".join(_number(value) for value in row.times)
        cells = [_number(row.seconds), times, _whole(row.added_mib), _share(row.nmi), _share(row.ari), row.note]
        lines.append(f"| {row.title} | " + " | ".join(cells) + " |")
    return lines


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


_BEST = 50.0  # times as good as a target: bars end there


def draw(outcomes: list[Outcome], path: Path) -> None:
    """Draw how far each target was reached: the share of it, one being just there."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = [(target, target.measured) for outcome in outcomes for target in outcome.targets if target.bound > 0]
    measures = [(target, measured) for target, measured in found if measured is not None]
    if not measures:
        return
    targets = [target for target, _ in measures]
    # what is no longer than nothing, within noise, is as good as can be shown
    shares = [
        max(value / t.bound, 0.01) if t.at_least else min(t.bound / value, _BEST) if value > 0 else _BEST
        for t, value in measures
    ]
    figure, axes = plt.subplots(figsize=(9, 0.32 * len(targets) + 1.2), layout="constrained")
    places = range(len(targets))
    colours = ["#3b7a57" if target.reached else "#b5482f" for target in targets]
    axes.barh(list(places), shares, color=colours, height=0.62)
    for place, share, target in zip(places, shares, targets, strict=True):
        label = _measured(target)
        plate = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # over the line of the target
        axes.text(share * 1.03, place, label, va="center", fontsize=8, bbox=plate, zorder=3)
    labels = [f"{t.what}  ({'≥' if t.at_least else '≤'} {_number(t.bound)})" for t in targets]
    axes.set_yticks(list(places), labels, fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1, color="#444444", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(right=max(shares) * 2)
    axes.set_xlabel(
        "times as good as the target (1: just reached); the figure measured at the end of each bar", fontsize=8
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
