"""What to expect of a run: a table for people, a dictionary for machines, bars for notebooks."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from typing import Any

from ..planning import Plan
from ..system import format_bytes
from .rates import Rates

__all__ = ["Forecast", "StageForecast", "format_seconds"]


def format_seconds(seconds: float) -> str:
    """Write a time for people.

    Examples
    --------
    >>> format_seconds(0.02), format_seconds(75), format_seconds(7300), format_seconds(200_000)
    ('0.02 s', '1 min 15 s', '2 h 1 min', '2 d 7 h')
    """
    if seconds < 59.5:
        return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.2g} s"
    whole = round(seconds)
    for large, small, size, unit in (("d", "h", 86400, 3600), ("h", "min", 3600, 60), ("min", "s", 60, 1)):
        if whole >= size:
            return f"{whole // size} {large} {whole % size // unit} {small}"
    return f"{whole} s"


@dataclass(frozen=True)
class StageForecast:
    """What one stage of a run takes.

    Parameters
    ----------
    name : str
    passes : float
        How often it goes over the rows; what cannot be known is what is likely.
    memory_bytes : int
        Of the process, or of each worker, while it lasts.
    seconds : float
        All in all: reading, then computing.
    cpu_seconds : float
        Of all cores together.
    read_seconds, compute_seconds, in_turn_seconds, scheduler_seconds : float
        Parts of it: reading from the store at its bandwidth; computing and decoding on all threads; what is done by
        one thread after another; and what the scheduler takes for its tasks. Computing, meetings in turn and the
        scheduler overlap.
    read_bytes, scratch_bytes, written_bytes, traffic_bytes : int
        From the store, to and from temporary files, to the output, and between workers.
    n_blocks, block_rows, threads : int
        How the rows are cut (0: not at all), and the threads of the process or of each worker.
    """

    name: str
    passes: float
    memory_bytes: int
    seconds: float
    cpu_seconds: float
    read_seconds: float
    compute_seconds: float
    in_turn_seconds: float
    scheduler_seconds: float
    read_bytes: int
    scratch_bytes: int
    written_bytes: int
    traffic_bytes: int
    n_blocks: int
    block_rows: int
    threads: int


@dataclass(frozen=True)
class Forecast:
    """Time, memory and traffic of a run that has not been run. `daskkcl.plan` makes it.

    Attributes
    ----------
    peak_bytes : int
        The most memory of the process, or of each worker.
    seconds : float
        The time of all stages.
    stages : tuple of StageForecast
    plan : Plan
        The memory plan, the same that a run would make.
    rates : Rates
        What one thread does in a second, as measured or given.

    Examples
    --------
    >>> import daskkcl
    >>> costs = daskkcl.plan(
    ...     n_rows=10**10, n_features=64, algo="okfcm", n_clusters=10, workers=1000, threads=4, memory_limit="4GB"
    ... )
    >>> costs.peak_bytes < 4e9, costs.stages[-1].name, costs.to_dict()["workers"]
    (True, 'labelling', 1000)
    """

    algorithm: str
    n_rows: int
    n_features: int
    n_clusters: int
    n_measurements: int
    stored_bytes: int
    workers: int
    threads: int
    bandwidth: float | None
    plan: Plan
    rates: Rates
    stages: tuple[StageForecast, ...]
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """The time of all stages, one after another."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def cpu_seconds(self) -> float:
        """The time of all cores together."""
        return sum(stage.cpu_seconds for stage in self.stages)

    @property
    def peak_bytes(self) -> int:
        """The most memory of the process, or of each worker."""
        return self.plan.peak_bytes

    @property
    def read_bytes(self) -> int:
        """Read from the store in all."""
        return sum(stage.read_bytes for stage in self.stages)

    @property
    def traffic_bytes(self) -> int:
        """Sent between workers in all."""
        return sum(stage.traffic_bytes for stage in self.stages)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and names, ready for JSON."""
        return {
            "algorithm": self.algorithm,
            "n_rows": self.n_rows,
            "n_features": self.n_features,
            "n_clusters": self.n_clusters,
            "n_measurements": self.n_measurements,
            "stored_bytes": self.stored_bytes,
            "workers": self.workers,
            "threads": self.threads,
            "bandwidth": self.bandwidth,
            "limit_bytes": self.plan.limit_bytes,
            "peak_bytes": self.peak_bytes,
            "base_bytes": self.plan.base_bytes,
            "keep": self.plan.keep,
            "kept_bytes": self.plan.kept_bytes,
            "scratch_bytes": self.plan.scratch_bytes,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "read_bytes": self.read_bytes,
            "traffic_bytes": self.traffic_bytes,
            "stages": [asdict(stage) for stage in self.stages],
            "rates": asdict(self.rates),
            "notes": list(self.notes),
        }

    def _headline(self) -> list[tuple[str, str]]:
        where = (
            f"{self.workers:,} workers of {self.threads} threads" if self.workers else f"{self.threads} threads here"
        )
        whose = "of each worker" if self.workers else "of the process"
        lines = [
            ("data", f"{self.n_rows:,} rows × {self.n_features:,} features, {format_bytes(self.stored_bytes)}"),
            (
                "algorithm",
                f"{self.algorithm}, {self.n_clusters:,} clusters, {self.n_measurements:,} measurements a row",
            ),
            ("where", where + (f", store {format_bytes(self.bandwidth)}/s" if self.bandwidth else "")),
            ("memory", f"{format_bytes(self.peak_bytes)} {whose}, {format_bytes(self.plan.limit_bytes)} allowed"),
            ("time", f"about {format_seconds(self.seconds)}, {format_seconds(self.cpu_seconds)} of cores together"),
            ("read", f"{format_bytes(self.read_bytes)} from the store"),
        ]
        if self.workers:
            lines.append(("traffic", f"at most {format_bytes(self.traffic_bytes)} between workers"))
        if self.plan.scratch_bytes:
            lines.append(("scratch", format_bytes(self.plan.scratch_bytes)))
        if self.plan.keep != "nothing":
            lines.append(("kept", f"{self.plan.keep} ({format_bytes(self.plan.kept_bytes)} of memory)"))
        return lines

    def __str__(self) -> str:
        lines = [f"{name:<11}{text}" for name, text in self._headline()]
        header = ("stage", "passes", "memory", "time", "read", "traffic", "blocks")
        rows = [header]
        for s in self.stages:
            blocks = f"{s.n_blocks:,} of {s.block_rows:,} rows" if s.n_blocks else "-"
            rows.append(
                (
                    s.name,
                    f"{s.passes:g}",
                    format_bytes(s.memory_bytes),
                    format_seconds(s.seconds),
                    format_bytes(s.read_bytes) if s.read_bytes else "-",
                    format_bytes(s.traffic_bytes) if s.traffic_bytes else "-",
                    blocks,
                )
            )
        widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
        lines.append("")
        for row in rows:
            cells = [row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in range(1, len(header)))]
            lines.append("  ".join(cells).rstrip())
        lines += ["", *self.notes] if self.notes else []
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return where memory and time go, as bars: one piece of HTML, no script, nothing from elsewhere."""
        facts = "".join(
            f"<tr><th style='text-align:left;padding:0 1em 0 0'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for name, text in self._headline()
        )
        slowest = max((s.seconds for s in self.stages), default=0) or 1
        largest = max(self.plan.limit_bytes, self.peak_bytes, 1)
        rows = "".join(
            "<tr>"
            f"<td style='text-align:left;padding-right:1em'>{html.escape(s.name)}</td>"
            f"{_bar(s.memory_bytes / largest, format_bytes(s.memory_bytes), '#0072b2')}"
            f"{_bar(s.seconds / slowest, format_seconds(s.seconds), '#d55e00')}"
            f"<td style='text-align:right'>{s.passes:g}</td>"
            "</tr>"
            for s in self.stages
        )
        notes = "".join(f"<p style='margin:.3em 0'>{html.escape(note)}</p>" for note in self.notes)
        return (
            "<div class='daskkcl-plan' style='font-family:sans-serif;font-size:13px'>"
            f"<table style='border-collapse:collapse;margin-bottom:.8em'>{facts}</table>"
            "<table style='border-collapse:collapse'><tr>"
            "<th style='text-align:left'>stage</th><th style='text-align:left'>memory, of the limit</th>"
            "<th style='text-align:left'>time</th><th style='text-align:right'>passes</th></tr>"
            f"{rows}</table>{notes}</div>"
        )


def _bar(share: float, text: str, colour: str) -> str:
    width = 100 * min(1.0, max(0.0, share))
    return (
        "<td style='padding-right:1.5em'><div style='display:inline-block;width:9em;background:#8883'>"
        f"<div style='width:{width:.1f}%;min-width:1px;height:.8em;background:{colour}'></div></div> "
        f"{html.escape(text)}</td>"
    )
