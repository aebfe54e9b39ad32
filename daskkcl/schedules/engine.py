"""Where graphs are computed: on a dask.distributed client when there is one, else on dask's threads here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..errors import InvalidInputError, KilledWorkerError
from ..progress import Progress
from ..system import cpu_count, free_pages, single_threaded
from .cluster import Cluster
from .graph import Graph, key_name

__all__ = ["Engine", "make_engine", "own_threads"]

_LOOKED_AT = 64  # tasks that are ready: blocks are fewer, pieces of a dask array may be thousands


class Engine:
    """Computes graphs; the only place that talks to a scheduler.

    Parameters
    ----------
    client : distributed.Client or None
    threads : int
        Of this process; of each worker, if there is a cluster.
    progress : Progress
    cluster : Cluster, optional
        What is known of the client's cluster already.
    """

    def __init__(self, client: Any, threads: int, progress: Progress, cluster: Cluster | None = None) -> None:
        self.client = client
        self.threads = threads
        self.progress = progress
        self.cluster = cluster if cluster is not None or client is None else Cluster(client)

    @property
    def local(self) -> bool:
        """Whether tasks run in this process."""
        return self.client is None

    @property
    def slots(self) -> int:
        """How many tasks run at once: on the threads of this process, or on those of all workers."""
        return self.threads if self.cluster is None else self.cluster.slots

    @property
    def readers(self) -> int:
        """How many threads there may be beside those that compute: one here, unless users say how many they want."""
        from dask import config

        return int(self.local and config.get("num_workers", None) is None)

    @property
    def seats(self) -> list[str]:
        """The worker of every thread of the cluster, in turn; none in this process.

        Blocks that wait to be met one after another are dealt to them, and what meets a block goes where it is: left
        alone, dask's scheduler weighs moving the block against waiting for its holder, and often moves it.
        """
        return [] if self.cluster is None else self.cluster.seats

    @property
    def ahead(self) -> int:
        """How many blocks may wait to be met: on a cluster one for each thread.

        A worker with more tasks than threads would have some taken from it by idle ones.
        """
        return self.slots + 1 if self.local else self.slots

    def segment(self, n_blocks: int) -> int:
        """Return how many blocks that meet a state one after another go into one graph: so many, or more on a cluster.

        A checkpoint follows each.
        """
        return n_blocks if self.local else max(n_blocks, 4 * self.slots)

    def run(
        self,
        graph: Graph,
        keys: Sequence[Any],
        watch: str = "",
        step: int = 0,
        failed: Callable[[BaseException], None] | None = None,
    ) -> list[Any]:
        """Compute some keys of a graph; every finished task named `watch` advances the progress by `step`.

        `failed` is told of an error before tasks that still run in this process are waited for.
        """
        if self.cluster is not None:
            results = self._results_there(self.cluster, graph, keys)
            self.progress.advance(step * sum(key_name(key).startswith(watch) for key in graph.tasks) if watch else 0)
            return results
        from dask import threaded

        with single_threaded(), _watcher(watch, lambda: self.progress.advance(step)), self._pool() as pool:
            try:
                return list(threaded.get(graph.tasks, list(keys), pool=pool))
            except BaseException as error:
                if failed is not None:
                    failed(error)
                raise

    def _results_there(self, cluster: Cluster, graph: Graph, keys: Sequence[Any]) -> list[Any]:
        """Compute some keys on a cluster; once more if many workers died at once.

        Who gave work on something that workers keep has to have that made again first.
        """
        while True:
            try:
                return cluster.results(cluster.submit(graph, keys), graph)
            except KilledWorkerError as error:
                if graph.holds or not cluster.forgives(error):
                    raise
            graph, keys = graph.renamed(keys)  # the scheduler remembers what it gave up

    def keep(self, graph: Graph, keys: Sequence[Any]) -> list[Any]:
        """Compute some keys and leave the results where they are, for `Graph.kept`."""
        if self.cluster is not None:
            return self.cluster.keep(graph, keys)
        return self.run(graph, keys)

    def release(self) -> None:
        """Let go of what workers hold for the run."""
        if self.cluster is not None:
            self.cluster.release()

    def compute(self, values: Sequence[Any]) -> list[Any]:
        """Compute dask collections."""
        from dask import threaded  # the function, not its name: looking up a name imports distributed
        from dask.base import compute

        if self.cluster is not None:
            futures = self.client.compute(list(values), optimize_graph=True, sync=False)
            return self.cluster.results(futures, None)
        with single_threaded(), self._pool() as pool:
            return list(compute(*values, scheduler=threaded.get, pool=pool))

    def _pool(self) -> ThreadPoolExecutor:
        """Return threads of its own for a graph: after an error they end what they do before it goes further.

        With dask's own pool they would still be writing to a scratch folder that is being removed.
        """
        return ThreadPoolExecutor(self.threads)

    def here(self) -> Engine:
        """Return an engine that computes in this process."""
        return Engine(None, own_threads(), self.progress)

    def with_threads(self, threads: int) -> Engine:
        """Return an engine that uses at most so many threads here; those of workers are what they are."""
        most = min(threads, own_threads() + self.readers) if self.local else threads
        return Engine(self.client, most, self.progress, self.cluster)


def make_engine(client: Any, progress: Progress) -> Engine:
    """Use the given client, else the active one, else threads."""
    if client is not None:
        _check_client(client)
    if client is None and "distributed" in sys.modules:
        import distributed

        try:
            client = distributed.get_client() if _in_worker() else distributed.Client.current(allow_global=True)
        except ValueError:
            client = None
    if client is not None and client.asynchronous:
        raise InvalidInputError("client= is asynchronous, and fit waits for what it computes; pass an ordinary client.")
    return Engine(client, own_threads(), progress)


def _check_client(client: Any) -> None:
    """Refuse what is no client, and say how to get one."""
    names = {f"{base.__module__}.{base.__name__}" for base in type(client).__mro__}
    if "distributed.client.Client" in names:
        return
    if "distributed.deploy.cluster.Cluster" in names:
        remedy = "pass client=cluster.get_client()"
    elif isinstance(client, str):
        remedy = f"pass client=distributed.Client({client!r}), or leave it out to use threads"
    else:
        remedy = "leave it out to use threads"
    raise InvalidInputError(f"client={client!r} is not a distributed.Client; {remedy}.")


def own_threads() -> int:
    """Return how many threads of this process to use."""
    from dask import config

    return max(1, int(config.get("num_workers", None) or cpu_count()))


def _in_worker() -> bool:
    import distributed

    try:
        distributed.get_worker()
    except (ValueError, AttributeError):
        return False
    return True


def _watcher(name: str, call: Callable[[], None]) -> Any:
    """Return a callback of dask: of ready tasks of one kind the earliest goes first; finished ones of a name are told.

    Dask takes what got ready last, so that results are used up before there are more. Among blocks that leaves an
    early one for last, while all others wait for it (see `Window`).
    """
    from dask.callbacks import Callback

    def start(_: Any, state: dict[str, Any]) -> None:
        state["ready"] = _Ready(state["ready"])

    def finished(key: Any, *_: Any) -> None:
        free_pages.look()
        if name and key_name(key).startswith(name):
            call()

    return Callback(start_state=start, posttask=finished)


class _Ready(list[Any]):
    """Keys of tasks that are ready, as dask keeps them.

    Examples
    --------
    >>> ready = _Ready([("read", 3), ("work", 5), ("work", 7)])
    >>> ready.pop(), ready.pop(), ready.pop()
    (('work', 5), ('work', 7), ('read', 3))
    """

    def pop(self, *place: Any) -> Any:
        """Take the first of those that are of one kind with the last, as far as one looks."""
        if place or not isinstance(self[-1], tuple):
            return super().pop(*place)
        kind, looked_at = self[-1][0], range(max(0, len(self) - _LOOKED_AT), len(self))
        _, first = min((self[i][1:], i) for i in looked_at if isinstance(self[i], tuple) and self[i][0] == kind)
        return super().pop(first)
