"""Runs cells one after another in a worker process, which is stopped when a cell takes too long."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.papers.experiments import Cell
from benchmarks.papers.store import Results, Store, code_digest, record_key

__all__ = ["Inside", "Worker", "repeat_cells", "run_cells"]


def run_cells(
    cells: Iterable[Cell],
    store: Store,
    worker: Worker | Inside,
    stop_after: float | None = None,
    say: Callable[[str], None] = print,
) -> int:
    """Do all cells that are not in the store yet; return how many are left (when the time is up)."""
    all_cells = list(cells)
    finished = store.finished()
    waiting = [cell for cell in all_cells if cell.key not in finished]
    began, done = time.perf_counter(), len(all_cells) - len(waiting)
    costs = _Costs(store.records())
    for number, cell in enumerate(waiting):
        if stop_after is not None and time.perf_counter() - began > stop_after:
            return len(waiting) - number
        start = time.perf_counter()
        outcome = worker.measure(cell)
        took = time.perf_counter() - start
        store.add(cell, {**outcome, "took": round(took, 2)})
        costs.add(cell, took)
        left = sum(costs.expect(other) for other in waiting[number + 1 :])
        what = outcome.get("failed") or f"{took:.1f} s"
        say(f"[{done + number + 1}/{len(all_cells)}, {_duration(left)} left] {cell.title}: {what}")
    return 0


def repeat_cells(
    cells: Iterable[Cell],
    store: Store,
    worker: Worker | Inside,
    stop_after: float | None = None,
    say: Callable[[str], None] = print,
) -> int:
    """Do stored cells again, the quickest of each method of each experiment; return how many are left.

    Those that the same code did again before are not done once more.
    """
    results = Results(store.records())
    times = {record_key(row): row.get("seconds", 0.0) for row in results.rows}
    known = {json.dumps(one["again"]) for one in results.again if one["code"] == code_digest()}
    chosen: dict[Any, Cell] = {}
    for cell in sorted((one for one in cells if one.key in times), key=lambda one: times[one.key]):
        chosen.setdefault((cell.experiment.paper, cell.experiment.name, cell.settings.get("method")), cell)
    waiting = [cell for cell in chosen.values() if cell.key not in known]
    began = time.perf_counter()
    for number, cell in enumerate(waiting):
        if stop_after is not None and time.perf_counter() - began > stop_after:
            return len(waiting) - number
        found = store.compare(cell, worker.measure(cell))
        what = ", ".join(f"{name} {after} for {before}" for name, (before, after) in found.items())
        say(f"[{number + 1}/{len(waiting)}] {cell.title}: {what or 'the same'}")
    return 0


class Inside:
    """Does cells in this process; nothing stops them."""

    def __init__(self, data: Path) -> None:
        from benchmarks.papers.data import Sets

        self.sets = Sets(data)

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Return the figures of a cell, or why there are none."""
        return _measure(cell.experiment.measure, cell.settings, cell.seed, self.sets)

    def close(self) -> None:
        """Nothing to end."""


class Worker:
    """A process that does cells one by one and keeps the data it has read; a new one begins when it was stopped."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._process: Any = None
        self._pipe: Any = None

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Return the figures of a cell, or why there are none."""
        if self._process is None or not self._process.is_alive():
            self._start()
        function = cell.experiment.measure
        self._pipe.send((function.__module__, function.__name__, cell.settings, cell.seed))
        limit = cell.experiment.time_limit
        try:
            if self._pipe.poll(limit):
                return dict(self._pipe.recv())
            reason = f"not finished in {limit:.0f} s"
        except EOFError:
            self._process.join()
            reason = f"the process ended with code {self._process.exitcode}"
        self.close()
        return {"failed": reason}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.data), daemon=True)
        self._process.start()
        theirs.close()


def _serve(pipe: Any, data: Path) -> None:
    """Do cells until nobody asks any more."""
    from benchmarks.papers.data import Sets

    sets = Sets(data)
    while True:
        try:
            module, name, settings, seed = pipe.recv()
        except EOFError:
            return
        pipe.send(_measure(getattr(importlib.import_module(module), name), settings, seed, sets))


def _measure(function: Any, settings: Any, seed: int, sets: Any) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(function(settings, seed, sets))
    except Exception as error:  # a cell that fails is a result; the others go on
        return {"failed": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"}


class _Costs:
    """What cells took, to guess what others will."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self._sums: dict[Any, tuple[float, int]] = {}
        for record in records:
            if "took" in record:
                self._note(record["paper"], record["experiment"], record["settings"], record["took"])

    def add(self, cell: Cell, took: float) -> None:
        self._note(cell.experiment.paper, cell.experiment.name, cell.settings, took)

    def expect(self, cell: Cell) -> float:
        for known in self._keys(cell.experiment.paper, cell.experiment.name, cell.settings):
            if known in self._sums:
                total, count = self._sums[known]
                return total / count
        return 0.0

    def _note(self, paper: str, experiment: str, settings: dict[str, Any], took: float) -> None:
        for name in self._keys(paper, experiment, settings):
            total, count = self._sums.get(name, (0.0, 0))
            self._sums[name] = (total + took, count + 1)

    def _keys(self, paper: str, experiment: str, settings: dict[str, Any]) -> list[Any]:
        """From the nearest likeness to none: the same settings, the same experiment, any cell."""
        return [(paper, experiment, tuple(sorted(settings.items()))), (paper, experiment), ()]


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"
