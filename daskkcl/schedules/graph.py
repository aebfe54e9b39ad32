"""A dask graph under construction: one flat dictionary of tasks, as both schedulers take it.

`dask.delayed` would do the same, but every delayed value carries the graph of all it depends on; along a chain of
blocks that grows with the square of their number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Graph", "Window"]


class Graph:
    """Tasks and the keys they are known by.

    Examples
    --------
    >>> from dask.threaded import get
    >>> graph = Graph()
    >>> two = graph.value(2)
    >>> powers = [graph.call(pow, two, n) for n in range(4)]
    >>> get(graph.tasks, graph.tree(powers, sum, fan_in=2))
    15
    """

    def __init__(self) -> None:
        self.tasks: dict[Any, Any] = {}
        self._token = os.urandom(8).hex()

    def _key(self, name: str) -> str:
        return f"{name}-{self._token}-{len(self.tasks)}"

    def value(self, value: Any) -> str:
        """Put a value into the graph once; dask does not look inside."""
        key = self._key("value")
        self.tasks[key] = (_Constant(value),)
        return key

    def kept(self, handle: Any) -> str:
        """Put in something that an engine kept: a value, or the future of one."""
        if type(handle).__module__.partition(".")[0] != "distributed":
            return self.value(handle)
        key = self._key("kept")
        self.tasks[key] = handle
        return key

    def call(self, function: Callable[..., Any], *arguments: Any) -> str:
        """Add a call; arguments are keys, lists of keys, or plain values."""
        key = self._key(function.__name__)
        self.tasks[key] = (function, *arguments)
        return key

    def blocks_of(self, array: Any) -> list[Any]:
        """Add the optimised graph of a two-dimensional dask array; return the keys of its row blocks."""
        keys = [(array.name, i, 0) for i in range(array.numblocks[0])]
        self.tasks.update(dict(array.__dask_optimize__(array.__dask_graph__(), keys)))
        return keys

    def chain(self, keys: Sequence[Any], combine: Callable[[list[Any]], Any]) -> Any:
        """Combine values in order, each with what came before: only one result waits, a tree has some a level."""
        total = keys[0]
        for key in keys[1:]:
            total = self.call(combine, [total, key])
        return total

    def tree(self, keys: Sequence[Any], combine: Callable[[list[Any]], Any], fan_in: int = 8) -> Any:
        """Combine values in order, `fan_in` at a time, into one."""
        level = list(keys)
        while len(level) > 1:
            level = [self.call(combine, level[i : i + fan_in]) for i in range(0, len(level), fan_in)]
        return level[0]


class Window:
    """Lets no task begin before all results but the last few are there.

    Whatever order the scheduler prefers, what is held is then bounded: block i waits for blocks 0 to i - size.

    Examples
    --------
    >>> graph = Graph()
    >>> window = Window(graph, size=2)
    >>> for n in range(5):
    ...     window.add(graph.call(lambda n, after: n, n, window.after()))
    >>> len(window.results)
    5
    """

    def __init__(self, graph: Graph, size: int) -> None:
        self.results: list[Any] = []
        self._graph, self._size = graph, size
        self._done: list[Any] = []

    def after(self) -> Any:
        """Return what the next task is to wait for: an argument that it need not use."""
        return self._done[-self._size] if len(self._done) >= self._size else None

    def add(self, result: Any) -> None:
        """Say which task gives the next result."""
        self.results.append(result)
        self._done.append(self._graph.call(both_done, self._done[-1] if self._done else None, result))


def both_done(before: None, result: Any) -> None:
    """Return nothing, after two things are there."""


class _Constant:
    """A function of nothing that returns its value."""

    __name__ = "value"

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value
