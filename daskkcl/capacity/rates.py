"""How fast this machine does what a run consists of, measured on the spot at the sizes of the run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels import Rbf
from ..kernels.distance import CompiledRbfColumns
from ..maps.base import Centres
from ..maps.nearest import nearest_mask
from ..maps.recipes import SparseKernel
from ..rules.crisp import cluster_sums
from ..rules.fused import Fused
from ..rules.fuzzy import Fuzzy
from ..rules.many import MANY
from ..rules.sums import ExactSum
from ..schedules.cluster import Cluster
from ..schedules.graph import Graph
from ..schedules.problem import Problem
from ..system import single_threaded

__all__ = ["Rates", "cluster_rates", "in_loops", "measure_rates"]

_SECONDS = 0.12  # for each of the figures; eight of them, or eleven
_MOST_ROWS, _LEAST_ROWS = 1024, 32
_MANY_TASKS, _LONG_CHAIN = 256, 32  # in the graphs that are timed on a cluster


@dataclass(frozen=True)
class Rates:
    """What one thread does in a second.

    Parameters
    ----------
    gemm : float
        Multiply-adds of the product of rows and landmarks.
    kernel : float
        Kernel values made of such products: for the rbf kernel, exponentials.
    assign : float
        Multiply-adds of the product of measurements and centres.
    weigh : float
        Distances turned into winners or memberships.
    sums : float
        Measurements added to the sum of their centre.
    loop : float
        Multiply-adds of loops that meet one row after another.
    decode : float
        Bytes of rows read from a Zarr that the system has at hand, and decoded.
    scratch : float
        Bytes written to, or read from, temporary files.
    fused_kernel, fused_assign, fused_sums : float
        The same as `kernel`, `assign` (with the winners) and `sums` in the compiled loops of very many rows; typical
        ones if the run has no use for them.
    task : float
        Tasks begun and ended.
    select : float
        Kernel values among which a row's nearest are found (sparse kernel k-means).
    graphs, cluster_tasks, hops : float
        Of a cluster as a whole: graphs sent, begun and answered, beside their work; tasks that the scheduler deals
        with; moves of centres from one worker to the next. See `cluster_rates`.

    Examples
    --------
    >>> from daskkcl.capacity import Rates
    >>> Rates(gemm=30e9).gemm
    30000000000.0
    """

    gemm: float = 20e9
    kernel: float = 400e6
    assign: float = 10e9
    weigh: float = 50e6
    sums: float = 1e9
    loop: float = 6e9
    decode: float = 500e6
    scratch: float = 500e6
    fused_kernel: float = 1e9
    fused_assign: float = 7e9
    fused_sums: float = 1.4e9
    task: float = 1000.0
    select: float = 100e6
    graphs: float = 60.0
    cluster_tasks: float = 750.0
    hops: float = 100.0


def measure_rates(problem: Problem, fuzzy: bool) -> Rates:
    """Measure every rate on this machine with arrays of the sizes of a run, in about a second and a half."""
    d, c, dtype = problem.cells, problem.c, problem.dtype
    m = max(1, problem.n_measurements)
    inner = max(1, problem.recipe.inner(problem.sizes) or m)
    rows = max(_LEAST_ROWS, min(_MOST_ROWS, problem.tile_rows, 2**25 // (8 * max(d, m, inner, c))))
    rng = np.random.default_rng(0)
    X, L = (rng.standard_normal((k, min(d, 2**14))).astype(dtype) for k in (rows, min(inner, 2**12)))
    Z, G = rng.standard_normal((rows, m)).astype(dtype), rng.standard_normal((m, c)).astype(dtype)
    D, labels = rng.random((rows, c)).astype(dtype) + dtype.type(1), rng.integers(0, c, rows)
    with single_threaded():
        product = _seconds(lambda: X @ L.T)
        gemm = X.size * len(L) / product
        kernel = _kernel_rate(problem, X, L, product)
        assign = rows * m * c / _seconds(lambda: Z @ G)
        if fuzzy:
            rule, scale = Fuzzy(1.7), np.full(D.shape, 1e-3, dtype)
            weigh = D.size / _seconds(lambda: rule.memberships(D, scale) ** 1.7)
        else:
            weigh = D.size / _seconds(lambda: np.take_along_axis(D, D.argmin(axis=1)[:, None], axis=1))
        sums = rows * m / _seconds(lambda: cluster_sums(Z, labels, c))
        # Compiled loops are as fast as this product, whose call would take longer than the centres of most runs.
        centres, row = rng.standard_normal((max(c, 2**16 // m), m)).astype(dtype), Z[0]
        loop = centres.size / _seconds(lambda: centres @ row)
        decode = _decode_rate()
        scratch = _scratch_rate()
        select = _select_rate(problem) if isinstance(problem.recipe, SparseKernel) else Rates.select
        fused = _fused_rates(problem, X, L, product) if in_loops(problem) else {}
    return Rates(gemm, kernel, assign, weigh, sums, loop, decode, scratch, select=select, **fused)


def _seconds(function: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> float:
    """Return how long a call takes: the median of as many as there is time for.

    The time of the process, so that others who are busy here at the moment do not count.
    """
    function()
    times: list[float] = []
    began = time.perf_counter()
    while not times or (time.perf_counter() - began < _SECONDS and len(times) < 200):
        start = clock()
        function()
        times.append(clock() - start)
    return max(1e-9, float(np.median(times)))


def cluster_rates(client: Any) -> dict[str, float]:
    """Measure what graphs cost on a cluster whatever they compute, with tasks that do nothing: some seconds.

    They replace those of `Forecast.rates`: ``dataclasses.replace(costs.rates, **cluster_rates(client))``.
    """
    cluster = Cluster(client)

    def run(graph: Graph, key: Any) -> None:
        cluster.results(cluster.submit(graph, [key]), graph)

    def side_by_side(n_tasks: int) -> None:
        graph = Graph()
        shared = graph.value(np.zeros(1000))
        run(graph, graph.tree([graph.call(_nothing, shared, i) for i in range(n_tasks)], _nothing))

    def in_turn() -> None:
        """Centres meet block after block, each measured before by the worker that is next."""
        graph = Graph()
        state, seats = graph.value(np.zeros(1000)), cluster.seats
        for i in range(_LONG_CHAIN):
            block = graph.call(_nothing, None, i)
            state = graph.call(_nothing, block, state)
            graph.seat(seats, i, block, state)
        run(graph, state)

    one = _seconds(lambda: side_by_side(1), time.perf_counter)
    many = _seconds(lambda: side_by_side(_MANY_TASKS), time.perf_counter)
    chain = _seconds(in_turn, time.perf_counter)
    return {
        "graphs": 1 / one,
        "cluster_tasks": (_MANY_TASKS - 1) / max(1e-9, many - one),
        "hops": (_LONG_CHAIN - 1) / max(1e-9, chain - one),
    }


def _nothing(before: Any, state: Any = None) -> Any:
    """Return what came last."""
    return state


def _kernel_rate(problem: Problem, X: Any, L: Any, product: float) -> float:
    """Return kernel values a second beside their products: of the kernel itself, or of an exponential."""
    entries = len(X) * len(L)
    if problem.kernel is not None and not problem.source.sparse:
        kernel = problem.kernel
        with contextlib.suppress(Exception):  # functions of users, and kernels that refuse such rows
            ready = kernel if kernel.resolved else kernel.with_gamma(1e-3)
            columns, rows = ready.columns(np.abs(L), problem.dtype), np.abs(X)
            return entries / max(1e-9, _seconds(lambda: columns.block(rows)) - product)
    V = np.zeros((len(X), len(L)), problem.dtype)
    return entries / _seconds(lambda: np.exp(V * 0))


def in_loops(problem: Problem) -> bool:
    """Return whether a run measures rows in compiled loops, as it does when there are very many."""
    gaussian = isinstance(problem.kernel, Rbf) and not problem.source.sparse and problem.dtype == np.float32
    return gaussian and problem.recipe.compiled(problem.sizes)


def _fused_rates(problem: Problem, X: Any, L: Any, product: float) -> dict[str, float]:
    """Return the rates of the compiled loops, from what they take of rows alone, with centres, and with sums.

    In one loop steps are cheaper than one by one; what all of them take together is what is measured.
    """
    rows, m, c = len(X), len(L), min(problem.c, MANY - 1)
    columns = Rbf(1e-3).columns(L, problem.dtype).compiled()
    assert isinstance(columns, CompiledRbfColumns)
    centres = Centres(np.full((c, m), 1 / m), np.ones(c), None, problem.dtype)
    fused, sums = Fused(columns, centres, np.ones(c)), ExactSum.zeros((c, m))
    alone = _seconds(lambda: columns.block(X))
    met = _seconds(lambda: fused.meet_rows(X, lambda rows: (rows, None)))
    added = _seconds(lambda: fused.meet_rows(X, lambda rows: (rows, None), sums))
    least = 0.01 * added
    return {
        "fused_kernel": rows * m / max(least, alone - product),
        "fused_assign": rows * m * c / max(least, met - max(alone, product + least)),
        "fused_sums": rows * m / max(least, added - met),
    }


def _select_rate(problem: Problem) -> float:
    """Return values a second from which the nearest of every row are chosen, as the sparse kernel does it."""
    width = problem.n_landmarks
    phi = np.random.default_rng(0).random((256, width)).astype(problem.dtype)
    lengths = np.ones(width, problem.dtype)
    near = max(1, int(0.75 * width / problem.c))
    return phi.size / _seconds(lambda: phi * nearest_mask(phi, lengths, near))


def _decode_rate() -> float:
    """Return bytes a second of a compressed Zarr in memory."""
    import zarr

    data = np.random.default_rng(0).standard_normal((2**15, 32)).astype(np.float32)
    array = zarr.create_array({}, data=data, chunks=(2**13, 32))
    return data.nbytes / _seconds(lambda: array[:])


def _scratch_rate() -> float:
    """Return bytes a second of temporary files, written and read again."""
    import tempfile

    data = bytes(2**22)
    with tempfile.TemporaryFile() as file:

        def write_and_read() -> None:
            file.seek(0)
            file.write(data)
            file.flush()
            file.seek(0)
            file.read()

        return 2 * len(data) / _seconds(write_and_read, time.perf_counter)
