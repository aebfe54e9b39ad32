"""Where results are kept: a file of JSON lines, one for each finished cell, and one for each run of the harness."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata as metadata
import json
import math
import os
import platform
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import daskkcl
from benchmarks.papers.experiments import Cell, key
from daskkcl.system import cpu_count

__all__ = ["DEFAULT", "Mean", "Results", "Store", "code_digest", "differences", "record_key"]

DEFAULT = Path(__file__).parent / "results.jsonl"
_VERSIONS = ("daskkcl", "numpy", "scipy", "numba", "dask", "scikit-learn")


class Store:
    """Appends lines, each in one write, so that a run that is stopped leaves whole lines behind.

    Parameters
    ----------
    path : path
        The file; it is made when the first line comes.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.run = ""

    def records(self) -> list[dict[str, Any]]:
        """Return all lines; one that was cut off by a crash is left out."""
        found = []
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                try:
                    found.append(json.loads(line))
                except json.JSONDecodeError:
                    continue
        return found

    def finished(self) -> set[str]:
        """Return the keys of cells that need not be done again: those that failed are among them."""
        return {record_key(record) for record in self.records() if "seed" in record}

    def add(self, cell: Cell, outcome: dict[str, Any]) -> None:
        """Write what came of a cell: figures, or why there are none."""
        if not self.run:
            self._begin_run()
        where = {"paper": cell.experiment.paper, "experiment": cell.experiment.name}
        self._append({**where, "settings": cell.settings, "seed": cell.seed, **_rounded(outcome), "run": self.run})

    def compare(self, cell: Cell, outcome: dict[str, Any]) -> dict[str, Any]:
        """Write by what a cell that was done again differs from the stored one, and return it."""
        before = next(
            record for record in reversed(self.records()) if "seed" in record and record_key(record) == cell.key
        )
        found = differences(before, _rounded(outcome))
        if not self.run:
            self._begin_run()
        self._append({"again": json.loads(cell.key), "differs": found, "code": code_digest(), "run": self.run})
        return found

    def _begin_run(self) -> None:
        """Write what figures of this run depend on."""
        earlier = sum("versions" in record for record in self.records())
        self.run = f"run {earlier + 1}"
        versions = {name: _version(name) for name in _VERSIONS}
        about = {"python": platform.python_version(), "system": platform.system(), "cores": cpu_count()}
        about["code"] = code_digest()
        self._append({"run": self.run, **about, "load": round(os.getloadavg()[0], 1), "versions": versions})

    def _append(self, record: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(record, separators=(",", ":")) + "\n"
        if self.path.exists() and not self.path.read_bytes().endswith(b"\n") and self.path.stat().st_size:
            line = "\n" + line  # after a line that was cut off
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line.encode())
            os.fsync(handle)
        finally:
            os.close(handle)


@dataclass(frozen=True)
class Mean:
    """A mean over seeds: of `n` of them, with their standard deviation."""

    value: float
    deviation: float
    n: int


class Results:
    """What a store holds, to be asked by experiment and settings."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self.runs = [record for record in records if "versions" in record]
        self.again = list({json.dumps(one["again"]): one for one in records if "again" in one}.values())
        last = {record_key(record): record for record in records if "seed" in record}  # a cell done again counts once
        self.rows = list(last.values())

    def select(self, paper: str, experiment: str, **settings: Any) -> list[dict[str, Any]]:
        """Return the rows of an experiment whose settings hold what is given."""
        return [
            row
            for row in self.rows
            if row["paper"] == paper
            and row["experiment"] == experiment
            and all(row["settings"].get(name) == value for name, value in settings.items())
        ]

    def mean(self, paper: str, experiment: str, measure: str, **settings: Any) -> Mean | None:
        """Return the mean of a figure over seeds; None if there is nothing."""
        rows = self.select(paper, experiment, **settings)
        values = [row[measure] for row in rows if row.get(measure) is not None]
        if not values:
            return None
        return Mean(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else math.nan, len(values))

    def failures(self, paper: str, experiment: str, **settings: Any) -> list[str]:
        """Return why cells have no figures."""
        return [row["failed"] for row in self.select(paper, experiment, **settings) if "failed" in row]


def record_key(record: dict[str, Any]) -> str:
    """Return what the cell of a record is known by."""
    return key(record["paper"], record["experiment"], record["settings"], record["seed"])


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the figures that are not the same, before and after; times are not compared, nor what is not a figure.

    Examples
    --------
    >>> differences({"seed": 0, "nmi": 0.5, "cpu": 1.2}, {"nmi": 0.4, "cpu": 1.3})
    {'nmi': [0.5, 0.4]}
    """
    skipped = ("paper", "experiment", "settings", "seed", "run", "took")
    names = [name for name in before if name not in skipped and not any(one in name for one in ("seconds", "cpu"))]
    return {name: [before[name], after.get(name)] for name in names if before[name] != after.get(name)}


@functools.cache
def code_digest() -> str:
    """Return what the package's code is known by."""
    folder, total = Path(daskkcl.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        total.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:12]


def _rounded(outcome: dict[str, Any]) -> dict[str, Any]:
    return {name: float(f"{value:.5g}") if isinstance(value, float) else value for name, value in outcome.items()}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
