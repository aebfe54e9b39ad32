"""What is known of workers that died: which tasks they had, which rows these worked on, whether they died together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import KilledWorkerError
from .graph import Graph

__all__ = ["deaths_with", "killed_by", "rows_of", "tasks_given_up"]


def killed_by(error: Any, spans: list[tuple[int, int]], order: Any) -> KilledWorkerError:
    """Return our error for a task that killed workers at work on some rows, or on places in a random order."""
    rows, numbers = None, None
    if not spans:
        what = f"The task {error.task!r}"
    elif order is not None:
        numbers = np.concatenate([order.numbers(*span) for span in spans])
        some = ", ".join(f"{number:,}" for number in numbers[:3])
        what = f"The work on rows {some}, ... ({len(numbers):,} in random order, the error's row_numbers)"
    else:
        rows = spans[0][0], max(stop for _, stop in spans)
        what = "The work on rows " + " or ".join(f"{first:,} to {stop:,}" for first, stop in spans)
    return KilledWorkerError(
        f"{what} has killed {error.allowed_failures + 1} workers, one after another, the last on "
        f"{error.last_worker.address}. Look into the logs of the workers: rows that take too much memory, a crash "
        "in a library or a bad machine are the usual causes. (distributed.scheduler.allowed-failures says how "
        "often a task may be tried again.)",
        rows,
        numbers,
    )


def rows_of(graph: Graph, key: Any) -> tuple[int, int] | None:
    """Return the rows that a task works on, or for which what it makes is needed; the first such, if there are more.

    Examples
    --------
    >>> graph = Graph()
    >>> read = graph.call(range, 4)
    >>> graph.about[graph.call(sum, read)] = (0, 4)
    >>> rows_of(graph, read)
    (0, 4)
    """
    from dask.core import get_dependencies

    reached, more = {key}, True
    while more:
        found = [graph.about[k] for k in reached if k in graph.about]
        if found:
            return min(found)
        users = {k for k in graph.tasks if k not in reached and get_dependencies(graph.tasks, k) & reached}
        more, reached = bool(users), reached | users
    return None


def tasks_given_up(allowed: int, dask_scheduler: Any) -> list[Any]:
    """Return the tasks with which more workers died than are allowed. Runs on the scheduler."""
    return [key for key, task in dask_scheduler.tasks.items() if task.suspicious > allowed]


def deaths_with(events: Sequence[tuple[float, Any]], task: Any) -> list[float]:
    """Return when workers died that had a task, in order.

    Examples
    --------
    >>> gone = {"action": "remove-worker", "expected": False, "processing-tasks": {"a", "b"}}
    >>> deaths_with([(3.0, gone), (1.0, gone), (2.0, {**gone, "expected": True}), (2.0, {"action": "add-worker"})], "a")
    [1.0, 3.0]
    """
    gone = ((when, what) for when, what in events if isinstance(what, dict) and what.get("action") == "remove-worker")
    return sorted(when for when, what in gone if task in what["processing-tasks"] and not what.get("expected"))
