"""What parts of the page are made of: figures, tables, claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.papers.experiments import Experiment
from benchmarks.papers.store import Mean, Results

__all__ = ["Claim", "Part", "figure", "per_cent", "runs_done", "table"]

HOLDS, PARTLY, NOT, UNKNOWN = "holds", "holds partly", "does not hold", "not measured"


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper that can be tested, in our words; whether it holds here; the figures that say so."""

    says: str
    verdict: str
    because: str

    @classmethod
    def of(cls, says: str, answers: Iterable[bool | None], because: str) -> Claim:
        """Return a claim that holds when all answers are yes, partly when some are, and is open without answers."""
        known = [answer for answer in answers if answer is not None]
        if not known:
            return cls(says, UNKNOWN, "")
        verdict = HOLDS if all(known) else PARTLY if any(known) else NOT
        return cls(says, verdict, because)


@dataclass(frozen=True)
class Part:
    """A paper's part of the page."""

    title: str
    source: str
    lines: list[str]
    claims: list[Claim]
    pictures: dict[str, Callable[[], Any]] = field(default_factory=dict)  # file name: what draws it


def figure(mean: Mean | None, digits: int = 3, spread: bool = False) -> str:
    """Return a mean as text, with its standard deviation if that is asked for and known."""
    if mean is None:
        return "–"
    text = f"{mean.value:.{digits}f}"
    return f"{text} ± {mean.deviation:.{digits}f}" if spread and mean.n > 1 else text


def per_cent(mean: Mean | None, digits: int = 1, spread: bool = True) -> str:
    """Return a share as per cent."""
    return figure(None if mean is None else Mean(100 * mean.value, 100 * mean.deviation, mean.n), digits, spread)


def seconds(mean: Mean | None) -> str:
    """Return a time."""
    if mean is None:
        return "–"
    return f"{mean.value:.0f}" if mean.value >= 10 else f"{mean.value:.1f}" if mean.value >= 1 else f"{mean.value:.2f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table in Markdown, with empty lines around it."""
    lines = ["", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def runs_done(results: Results, experiment: Experiment) -> str:
    """Return how many seeds the cells of an experiment have, beside the published number."""
    counts = []
    for settings in experiment.settings:
        rows = results.select(experiment.paper, experiment.name, **settings)
        rows = [row for row in rows if row["settings"] == settings and "failed" not in row]
        counts.append(len(rows))
    least, most = min(counts), max(counts)
    if least == most == experiment.runs:
        return f"{most} runs, as published"
    span = f"{most} run{'' if most == 1 else 's'}" if least == most else f"{least} to {most} runs"
    return f"**{span}**, where the paper has {experiment.runs}"


def verdict_counts(claims: Iterable[Claim]) -> str:
    """Return how many claims hold, hold partly, do not, or were not measured."""
    found = [claim.verdict for claim in claims]
    return ", ".join(f"{found.count(kind)} {kind}" for kind in (HOLDS, PARTLY, NOT, UNKNOWN) if kind in found)
