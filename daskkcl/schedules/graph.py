"""A dask graph under construction: one flat dictionary of tasks, as both schedulers take it.

`dask.delayed` would do the same, but every delayed value carries the graph of all it depends on; along a chain of
blocks that grows with the square of their number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

__all__ = ["Constant", "Graph", "Window", "is_large", "key_name"]

_LARGE_BYTES = 2**16  # arrays inside a shared tuple that are worth being sent apart from it


class Graph:
    """Tasks and the keys they are known by.

    `about` says which rows a task works on, for the error that names them when it kills its worker (with `order`: the
    places of a random order at which they stand); `at` on which worker of a cluster a task is to run, as long as that
    worker is there.

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
        self.about: dict[Any, tuple[int, int]] = {}
        self.order: Any = None  # has `numbers(start, stop)`
        self.at: dict[Any, str] = {}
        self.holds = False  # something that workers keep
        self._token = os.urandom(8).hex()

    def _key(self, name: str) -> tuple[str, int]:
        # Tasks of one name in one graph are a group to the scheduler of a cluster, which deals a large group with few
        # dependencies out as workers get free.
        return f"{name}-{self._token}", len(self.tasks)

    def value(self, value: Any) -> Any:
        """Put a value into the graph once, to be an argument of calls; dask does not look inside.

        What has parts that last (`graph_parts`), or is a tuple with large arrays, is put in part by part: a cluster is
        sent a part only when it does not have it yet.
        """
        if value is None:
            return None
        # Put together inside the task that uses it: as a task of its own it would be sent whole.
        if hasattr(value, "graph_parts"):
            return (type(value), *(self.value(part) for part in value.graph_parts()))
        if type(value) is tuple and any(is_large(part) for part in value):
            return (as_tuple, *(self.value(part) for part in value))
        key = f"value-{len(self.tasks)}-{self._token}", 0  # a group of its own
        self.tasks[key] = (Constant(value),)
        return key

    def kept(self, handle: Any) -> Any:
        """Put in something that an engine kept: a value, or the future of one, which stands for itself."""
        if type(handle).__module__.partition(".")[0] != "distributed":
            return self.value(handle)
        self.holds = True
        return handle

    def renamed(self, keys: Sequence[Any]) -> tuple[Graph, list[Any]]:
        """Return the same graph with other names, and those of some keys in it.

        Examples
        --------
        >>> graph = Graph()
        >>> inner = graph.call(abs, -1)
        >>> key = graph.call(sum, [inner, (abs, inner)])
        >>> other, (renamed,) = graph.renamed([key])
        >>> renamed == key, other.tasks[renamed][1][0] in other.tasks, set(other.tasks) & set(graph.tasks)
        (False, True, set())
        """
        other = Graph()

        def new(made: Any) -> Any:
            if type(made) is list:
                return [new(part) for part in made]
            if type(made) is not tuple:
                return made
            if len(made) == 2 and type(made[0]) is str and made in self.tasks:
                return made[0].replace(self._token, other._token), made[1]
            return tuple(map(new, made)) if made and callable(made[0]) else made

        other.tasks = {new(key): new(made) for key, made in self.tasks.items()}
        other.about = {new(key): rows for key, rows in self.about.items()}
        other.at = {new(key): worker for key, worker in self.at.items()}
        other.order, other.holds = self.order, self.holds
        return other, [new(key) for key in keys]

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Add a call; arguments are keys, lists of keys, calls to be made inside this one, or plain values."""
        key = self._key(function.__name__)
        self.tasks[key] = (function, *arguments)
        return key

    def seat(self, seats: Sequence[str], number: int, *keys: Any) -> None:
        """Let some tasks run together on one thread's worker, the next in turn; no seats: wherever they like."""
        if seats:
            self.at.update(dict.fromkeys(keys, seats[number % len(seats)]))

    def note(self, blocks: Iterable[tuple[tuple[int, int], Any]]) -> Iterator[tuple[int, Any]]:
        """Yield first row and rows of blocks (edges, rows), and note what is added meanwhile as work on them.

        Examples
        --------
        >>> graph = Graph()
        >>> keys = [graph.call(abs, rows) for start, rows in graph.note([((0, 4), -1), ((4, 9), -2)])]
        >>> graph.about[keys[0]], graph.about[keys[1]]
        ((0, 4), (4, 9))
        """
        for edges, rows in blocks:
            before = len(self.tasks)
            yield edges[0], rows
            self.about.update(dict.fromkeys(islice(reversed(self.tasks), len(self.tasks) - before), edges))

    def named(self, rows: Any) -> Any:
        """Return the key of a call that is not in the graph yet (see `data.RowReader`), or the key itself."""
        return self.call(*rows) if isinstance(rows, tuple) and callable(rows[0]) else rows

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
        self._graph, self.size = graph, size
        self._done: list[Any] = []

    def after(self, block: int | None = None) -> Any:
        """Return what the next task is to wait for: an argument that it need not use.

        That is all results but the last few, or those up to a block, if that is sooner.
        """
        last = len(self._done) - self.size
        last = last if block is None else min(last, block)
        return self._done[last] if last >= 0 else None

    def add(self, result: Any) -> None:
        """Say which task gives the next result."""
        self.results.append(result)
        if self.size < 2**62:
            self._done.append(self._graph.call(both_done, self._done[-1] if self._done else None, result))


class Constant:
    """A function of nothing that returns its value."""

    __name__ = "value"

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value


def key_name(key: Any) -> str:
    """Return a key as text that begins with the name of its function."""
    return str(key[0] if isinstance(key, tuple) else key)


def both_done(before: None, result: Any) -> None:
    """Return nothing, after two things are there."""


def as_tuple(*parts: Any) -> tuple[Any, ...]:
    """Return the arguments."""
    return parts


def is_large(part: Any) -> bool:
    """Return whether a value is an array that is worth being sent once only."""
    return isinstance(part, np.ndarray) and part.nbytes >= _LARGE_BYTES
