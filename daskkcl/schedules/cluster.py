"""A dask.distributed cluster: what its workers are, what they hold already, and what their failures mean."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ClusterError, DaskkclError, KilledWorkerError, LostSchedulerError, StorageError
from ..rules.fused import warm_up as load_fused
from ..system import available_bytes, return_large_arrays, settled_bytes, version
from .failures import deaths_with, killed_by, rows_of, tasks_given_up
from .graph import Constant, Graph, is_large

__all__ = ["Cluster", "Worker"]

_LOOK_SECONDS = 5.0  # between looks whether there are workers at all
_QUIET_LOOKS = 6  # without workers, before that is said
_AT_ONCE_SECONDS = 1.0  # between the first and the last of workers that died together; a new one takes longer to start
_ACCIDENTS = 3  # of that kind that a run goes through
_FATAL_LOADS = 3  # of libraries, that workers do not live through
_LOOPS = "daskkcl.rules.fused_loops"
_MODULES = ("numba", "scipy.linalg", "scipy.sparse", "zarr", "dask.array", _LOOPS)  # what takes memory

_looking = threading.Lock()  # of all who wait at once one looks: each look at the same time would be a connection more

_log = logging.getLogger("daskkcl")


@dataclass(frozen=True)
class Worker:
    """What a worker says of itself.

    Parameters
    ----------
    host : str
    threads : int
    base_bytes : int
        What the process takes with everything imported and no data.
    limit_bytes : int
        What dask allows it before data are written to disk; 0: no limit.
    free_bytes : int
        Free on its machine.
    version : str
        Of daskkcl.
    """

    host: str
    threads: int
    base_bytes: int
    limit_bytes: int
    free_bytes: int
    version: str


class Cluster:
    """Computes graphs on the workers of a client.

    Values that are meant to last, or are large arrays, and come a second time (landmarks, weights of all rows) stay
    with the workers from then on, so that a round sends centres and sums only. They are results of tasks that the
    scheduler knows, not scattered data: a worker that goes takes nothing along that is not made again.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self._seen: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._lasting: dict[int, tuple[Any, Any]] = {}
        self._kept: list[Any] = []
        self._kept_about: dict[Any, tuple[int, int]] = {}
        self._accidents = 0  # many workers died at once

    # --- workers ---------------------------------------------------------------------------------------------

    def survey(self) -> list[Worker]:
        """Ask all workers what they are, after they have loaded what a run will need."""
        modules, died = [name for name in _MODULES if name in sys.modules], 0
        while True:
            found, lost = self._everywhere(describe_worker, modules)
            if found:
                break
            died += bool(lost)
            if died >= _FATAL_LOADS:
                raise ClusterError(
                    f"Workers ended {died} times while they loaded what a run needs, which takes some 300 MiB before "
                    "any data are read. Start workers with more memory (memory_limit of a LocalCluster, --memory-limit "
                    "of dask worker); their logs say why they ended."
                )
            _log.warning("The cluster has no workers yet; waiting for the first.")
            self._first_worker()
        ours, others = version(), sorted({worker.version for worker in found.values()})
        if others != [ours]:
            raise ClusterError(
                f"The workers have daskkcl {', '.join(others)} and this process has {ours}; install the same version "
                "on all of them."
            )
        return list(found.values())

    @property
    def slots(self) -> int:
        """Threads of all workers that are there now."""
        return max(1, sum(self._threads().values()))

    @property
    def seats(self) -> list[str]:
        """The worker of every thread: first one of each worker, then a second one, and so on."""
        threads = self._threads()
        turns = range(max(threads.values(), default=0))
        return [address for turn in turns for address in sorted(threads) if threads[address] > turn]

    def _threads(self) -> dict[str, int]:
        try:
            return {address: worker["nthreads"] for address, worker in self._workers().items()}
        except Exception as error:
            raise self._translated(error, None) from error

    def _first_worker(self) -> None:
        """Wait until there is a worker."""
        self.results([self.client.submit(os.getpid, pure=False)], None)

    def check_shared(self, path: str) -> None:
        """Refuse a scratch folder of this process that some worker does not see."""
        seen, _ = self._everywhere(sees_folder, path)
        blind = sorted({host for host, sees in seen.values() if not sees})
        if blind:
            raise StorageError(
                f"The scratch folder {os.path.dirname(path)!r} is not seen by the workers on {', '.join(blind[:3])}. "
                "Pass scratch= a folder that this process and all workers share."
            )

    def _workers(self) -> dict[str, Any]:
        return dict(self.client.scheduler_info(n_workers=-1)["workers"])

    def _everywhere(self, function: Callable[..., Any], *arguments: Any) -> tuple[dict[str, Any], int]:
        """Call a function on all workers; return what they say, and how many left meanwhile."""
        try:
            answers = self.client.run(function, *arguments, on_error="return")
        except Exception as error:
            raise self._translated(error, None) from error
        for answer in answers.values():
            if isinstance(answer, ImportError):
                raise ClusterError(
                    f"The workers cannot import what this process has: {answer}. Install daskkcl, and what it needs, "
                    "on all of them."
                ) from answer
        wrong = [answer for answer in answers.values() if isinstance(answer, Exception)]
        for answer in wrong:
            if not isinstance(answer, (OSError, TimeoutError)):
                raise answer
        found = {address: answer for address, answer in answers.items() if not isinstance(answer, Exception)}
        return found, len(wrong)

    # --- computing -------------------------------------------------------------------------------------------

    def submit(self, graph: Graph, keys: Sequence[Any]) -> list[Any]:
        """Begin to compute some keys of a graph; return their futures."""
        try:
            return list(self.client.get(_placed(self._with_lasting(graph), graph.at), list(keys), sync=False))
        except Exception as error:
            raise self._translated(error, graph) from error

    def results(self, futures: list[Any], graph: Graph | None) -> list[Any]:
        """Wait for futures and fetch what they stand for."""
        _give_way()
        # Not distributed.wait with a timeout: what it raises holds on to the futures until the next garbage collection.
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watch.start()
        try:
            return list(self.client.gather(futures))
        except Exception as error:
            translated = self._translated(error, graph)
            for future in futures:  # else what was raised would hold on to them until the next garbage collection
                future.release()
            raise translated from error
        finally:
            over.set()
            watch.join(1.0)  # a scheduler that is gone keeps it longer

    def _watch(self, over: threading.Event) -> None:
        """Say so when there are no workers for a while; they may come back, and the run goes on."""
        looks = 0
        while not over.wait(_LOOK_SECONDS):
            if not _looking.acquire(blocking=False):
                continue
            try:
                looks = 0 if self._workers() else looks + 1
            except Exception:  # the scheduler is gone: whoever waits for results will be told
                return
            finally:
                _looking.release()
            if looks and looks % _QUIET_LOOKS == 0:
                _log.warning("The cluster has no workers; waiting for some to come (back).")

    def keep(self, graph: Graph, keys: Sequence[Any]) -> list[Any]:
        """Begin to compute some keys of a graph whose results stay with the workers until `release`."""
        futures = self.submit(graph, keys)
        self._kept += futures
        self._kept_about |= graph.about
        return futures

    def portions(self, futures: Sequence[Any]) -> list[tuple[str, list[int]]]:
        """Divide kept results among the threads of the workers that hold them: address, numbers of the results.

        It waits until they are there; what went wrong with one of them is raised.
        """
        from distributed import wait

        _give_way()
        while True:
            try:
                with self.client.as_current():
                    wait(list(futures))
                holders = self.client.who_has(list(futures))
            except Exception as error:
                raise self._translated(error, None) from error
            wrong = [future for future in futures if future.status == "error"]
            if wrong:
                self.results(wrong, None)
            threads = self._threads()
            if threads:
                return divide([list(holders.get(future.key, ())) for future in futures], threads)
            self._first_worker()  # all of them have gone: they, or others, will come and make it again

    def drop(self, futures: Sequence[Any]) -> None:
        """Let the workers forget some of what they were to keep."""
        gone = {future.key for future in futures}
        self._kept = [future for future in self._kept if future.key not in gone]
        for future in futures:
            future.release()

    def release(self) -> None:
        """Let the workers forget what they hold for the run: after an error its traceback may live long."""
        for future in [*self._kept, *(future for _, future in self._lasting.values())]:
            future.release()
        self._kept.clear()
        self._lasting.clear()

    def _with_lasting(self, graph: Graph) -> dict[Any, Any]:
        """Return the tasks of a graph, with futures in place of values that the workers have."""
        tasks = dict(graph.tasks)
        for key, made in graph.tasks.items():
            if not (isinstance(made, tuple) and len(made) == 1 and isinstance(made[0], Constant)):
                continue
            value = made[0].value
            if not (is_large(value) or getattr(value, "lasting", False)):
                continue
            if id(value) in self._lasting:
                tasks[key] = self._lasting[id(value)][1]
            elif self._seen.get(id(value)) is value:
                tasks[key] = self._keep(value)
            else:
                self._seen[id(value)] = value
        return tasks

    def _keep(self, value: Any) -> Any:
        key = f"lasting-{os.urandom(8).hex()}", 0
        (future,) = self.client.get({key: (Constant(value),)}, [key], sync=False)
        self._lasting[id(value)] = value, future
        return future

    # --- failures --------------------------------------------------------------------------------------------

    def _translated(self, error: Exception, graph: Graph | None) -> Exception:
        """Return an error of ours for one of the cluster's; errors of tasks stay what they are."""
        from distributed import CancelledError, KilledWorker
        from distributed.client import ClosedClientError
        from distributed.comm.core import CommClosedError

        lost = self.client.status != "running" or getattr(error, "reason", "") == "scheduler-connection-lost"
        if isinstance(error, DaskkclError):
            return error
        if lost or isinstance(error, (CommClosedError, ClosedClientError)):
            return LostSchedulerError(
                "The connection to the scheduler of the cluster is lost, and what was being computed with it. Make "
                "the same call with a client of a new scheduler: with checkpoint= it goes on after the last round."
            )
        if isinstance(error, CancelledError):
            return ClusterError(f"The computation was cancelled on the cluster: {error}.")
        if isinstance(error, KilledWorker):
            return self._killed(error, graph)
        return error

    def forgives(self, error: KilledWorkerError) -> bool:
        """Return whether to do work again that was given up because workers died: if these died all at once.

        The scheduler learns of deaths one by one, and meanwhile hands the tasks of a worker to others that are dead
        too: a task then has had as many of them as one that kills.
        """
        from distributed import KilledWorker

        killed = error.__cause__
        if not isinstance(killed, KilledWorker) or self._accidents == _ACCIDENTS:
            return False
        with contextlib.suppress(Exception):  # a scheduler that tells nothing, or has gone
            deaths = deaths_with(self.client.get_events("all"), killed.task)[-killed.allowed_failures - 1 :]
            if len(deaths) > 1 and deaths[-1] - deaths[0] < _AT_ONCE_SECONDS:
                self._accidents += 1
                _log.warning("%d workers died at once; their work is done again.", len(deaths))
                time.sleep(3 * _AT_ONCE_SECONDS)  # until the scheduler knows of all of them
                for _, future in self._lasting.values():  # may have been given up too
                    future.release()
                self._lasting.clear()
                return True
        return False

    def _killed(self, error: Any, graph: Graph | None) -> KilledWorkerError:
        """Return the error that names the rows: of all tasks that every dead worker had, for any may have done it."""
        keys = self._suspects(error.allowed_failures) | {error.task}
        found = {self._kept_about.get(key) or (None if graph is None else rows_of(graph, key)) for key in keys}
        return killed_by(
            error, sorted(span for span in found if span is not None), None if graph is None else graph.order
        )

    def _suspects(self, allowed: int) -> set[Any]:
        """Return the tasks that were on too many workers when they died, as far as the scheduler tells."""
        with contextlib.suppress(Exception):  # one that runs no functions of others, or has gone meanwhile
            return set(self.client.run_on_scheduler(tasks_given_up, allowed))
        return set()


def _give_way() -> None:
    """Let another task have the thread of this one, if this is a task: it is about to wait for others.

    For the rest of the task, as `distributed.secede` has it; one that has given way before goes on as it is.
    """
    from distributed import secede

    with contextlib.suppress(ValueError, KeyError, AttributeError):  # no task; given way before; a thread of the user's
        secede()


def _placed(tasks: dict[Any, Any], at: dict[Any, str]) -> Any:
    """Return a graph that says where some of its tasks are to run; elsewhere only when that worker is gone."""
    from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

    if not at:
        return tasks
    there: dict[str, dict[Any, Any]] = {"": {}}
    for key, made in tasks.items():
        there.setdefault(at.get(key, ""), {})[key] = made
    layers = {
        address: MaterializedLayer(own, {"workers": (address,), "allow_other_workers": True} if address else None)
        for address, own in there.items()
    }
    return HighLevelGraph(layers, {address: set() for address in layers})  # what depends on what is in the tasks


def divide(holders: Sequence[Sequence[str]], threads: dict[str, int]) -> list[tuple[str, list[int]]]:
    """Divide results, each held by some workers, into one portion for each thread, where they are held.

    A worker that holds nothing, because it came later, gets its share of those who have most: these results are sent
    to it once, and then it holds them.

    Examples
    --------
    >>> divide([["a"], ["a", "b"], ["a"], ["b"]], {"a": 2, "b": 1})
    [('a', [0]), ('a', [1, 2]), ('b', [3])]
    >>> divide([["a"], ["a"], ["a"], ["a"]], {"a": 1, "b": 1})
    [('a', [0, 1]), ('b', [2, 3])]
    """
    own: dict[str, list[int]] = {address: [] for address in sorted(threads)}
    for number, addresses in sorted(enumerate(holders), key=lambda item: (len(item[1]), item[0])):
        there = [address for address in addresses if address in own] or list(own)
        own[min(there, key=lambda address: (len(own[address]) / threads[address], address))].append(number)
    share = len(holders) / max(1, sum(threads.values()))
    for late in [address for address, numbers in own.items() if not numbers]:
        while len(own[late]) + 1 <= share * threads[late]:
            fullest = max(own, key=lambda address: (len(own[address]) / threads[address], address))
            own[late].append(own[fullest].pop())
    portions = []
    for address, numbers in own.items():
        numbers, n_threads = sorted(numbers), threads[address]
        parts = [numbers[i * len(numbers) // n_threads : (i + 1) * len(numbers) // n_threads] for i in range(n_threads)]
        portions += [(address, part) for part in parts if part]
    return portions


def describe_worker(modules: list[str], dask_worker: Any) -> Worker:
    """Load what a run will need into a worker's process and say what it is. Runs on the worker."""
    import importlib

    for name in modules:
        importlib.import_module(name)
    if _LOOPS in modules:
        load_fused()
    return_large_arrays()
    base, manager = settled_bytes(), dask_worker.memory_manager
    limit = int(manager.memory_limit or 0)
    # The managed part may take `target` of the limit, the process `spill` of it, before dask writes data to disk.
    most = [share * limit + extra for share, extra in ((manager.memory_target_fraction, base),) if share]
    most += [share * limit for share in (manager.memory_spill_fraction, manager.memory_pause_fraction) if share]
    return Worker(
        dask_worker.address.rpartition(":")[0].rpartition("/")[2],
        dask_worker.state.nthreads,
        base,
        int(min([limit, *most])) if limit else 0,
        available_bytes(),
        version(),
    )


def sees_folder(path: str, dask_worker: Any) -> tuple[str, bool]:
    """Return the host of a worker and whether it can write to a folder. Runs on the worker."""
    return dask_worker.address.rpartition(":")[0].rpartition("/")[2], os.access(path, os.W_OK)
