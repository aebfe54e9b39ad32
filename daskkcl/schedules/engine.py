"""Where graphs are computed: on a dask.distributed client when there is one, else on dask's threads here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..progress import Progress
from ..system import cpu_count, single_threaded

__all__ = ["Engine", "make_engine", "tree"]


class Engine:
    """Computes delayed values; the only place that talks to a scheduler.

    Parameters
    ----------
    client : distributed.Client or None
    threads : int
        For dask's threads in this process.
    progress : Progress
    """

    def __init__(self, client: Any, threads: int, progress: Progress) -> None:
        self.client = client
        self.threads = threads
        self.progress = progress

    @property
    def local(self) -> bool:
        """Whether tasks run in this process."""
        return self.client is None

    def compute(self, values: Sequence[Any], watch: str = "", step: int = 0) -> list[Any]:
        """Compute delayed values; every finished task named `watch` advances the progress by `step`."""
        from dask import threaded  # the function, not its name: looking up a name imports distributed
        from dask.base import compute

        if self.client is not None:
            futures = self.client.compute(list(values), optimize_graph=True, sync=False)
            results = self.client.gather(futures)
            if step:
                self.progress.advance(step * len(values))
            return list(results)
        with single_threaded(), _watcher(watch, lambda: self.progress.advance(step)):
            return list(compute(*values, scheduler=threaded.get, num_workers=self.threads))

    def persist(self, values: Sequence[Any]) -> list[Any]:
        """Compute delayed values and leave them where they were computed."""
        from dask import threaded
        from dask.base import persist

        if self.client is not None:
            return list(self.client.persist(list(values)))
        with single_threaded():
            return list(persist(*values, scheduler=threaded.get, num_workers=self.threads))

    def with_threads(self, threads: int) -> Engine:
        """Return an engine that uses at most so many threads here."""
        return Engine(self.client, min(threads, self.threads), self.progress)


def make_engine(client: Any, progress: Progress) -> Engine:
    """Use the given client, else the active one, else threads."""
    if client is None and "distributed" in sys.modules:
        import distributed

        try:
            client = distributed.get_client() if _in_worker() else distributed.Client.current(allow_global=True)
        except ValueError:
            client = None
    from dask import config

    return Engine(client, max(1, int(config.get("num_workers", None) or cpu_count())), progress)


def _in_worker() -> bool:
    import distributed

    try:
        distributed.get_worker()
    except (ValueError, AttributeError):
        return False
    return True


def tree(values: Sequence[Any], combine: Callable[[list[Any]], Any], fan_in: int = 8) -> Any:
    """Combine delayed values in order, `fan_in` at a time, into one."""
    from dask.delayed import delayed

    join = delayed(combine, pure=False, traverse=True)
    level = list(values)
    while len(level) > 1:
        level = [join(level[i : i + fan_in]) for i in range(0, len(level), fan_in)]
    return level[0]


def _watcher(name: str, call: Callable[[], None]) -> Any:
    import contextlib

    if not name:
        return contextlib.nullcontext()
    from dask.callbacks import Callback

    def finished(key: Any, *_: Any) -> None:
        if str(key).startswith(name):
            call()

    return Callback(posttask=finished)
