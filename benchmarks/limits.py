"""What the machine can do at most: bare reading, products and exponentials, and passes of daskkcl beside them.

All go over the same rows in the same blocks on the same threads, with buffers that are used again and one thread of
BLAS in each of ours. Every function returns seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from daskkcl.blocks.sources import ArraySource, Source, ZarrSource, read_array
from daskkcl.kernels import Rbf
from daskkcl.maps.base import Centres
from daskkcl.maps.landmarks import LandmarkMap
from daskkcl.planning import block_edges, tile_rows
from daskkcl.progress import Progress
from daskkcl.rules.crisp import Nearest
from daskkcl.schedules.data import run_blocks
from daskkcl.schedules.engine import Engine
from daskkcl.schedules.measuring import Reader, task, tiles
from daskkcl.schedules.tasks import Model, Sums, sum_block
from daskkcl.system import single_threaded

__all__ = [
    "bare_assignment",
    "bare_exp",
    "bare_product",
    "bare_read",
    "kernel_pass",
    "make_map",
    "open_zarr",
    "own_read",
    "sum_pass",
]

STEP = 1024


def _on_threads(work: Callable[[int, int], None], n_rows: int, step: int, threads: int) -> float:
    """Return the seconds that `work` (number of a thread, first row) takes for all steps, dealt out in turn."""

    def some(thread: int) -> None:
        for start in range(0, n_rows, step)[thread::threads]:
            work(thread, start)

    began = time.perf_counter()
    with single_threaded(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(some, range(threads)))
    return time.perf_counter() - began


def bare_product(X: np.ndarray, right: np.ndarray, threads: int, n_rows: int | None = None, step: int = STEP) -> float:
    """Multiply all rows by the landmarks (d, m). More rows than there are go over the same ones again."""
    n_rows = n_rows or len(X)
    buffers = [np.empty((step, right.shape[1]), dtype=np.float32) for _ in range(threads)]

    def work(thread: int, start: int) -> None:
        rows = X[start % len(X) :][: min(step, n_rows - start)]
        np.matmul(rows, right, out=buffers[thread][: len(rows)])

    return _on_threads(work, n_rows, step, threads)


def bare_exp(n_rows: int, m: int, threads: int, step: int = STEP) -> float:
    """Take the exponential of as many numbers as there are kernel values."""
    exponents = -np.random.default_rng(0).uniform(0, 4, (step, m)).astype(np.float32)
    buffers = [np.empty((step, m), dtype=np.float32) for _ in range(threads)]

    def work(thread: int, start: int) -> None:
        size = min(step, n_rows - start)
        np.exp(exponents[:size], out=buffers[thread][:size])

    return _on_threads(work, n_rows, step, threads)


def bare_assignment(n_rows: int, m: int, c: int, threads: int, step: int = STEP) -> float:
    """Multiply kernel values (rows, m) by centres (m, c)."""
    rng = np.random.default_rng(0)
    Z, G = rng.random((step, m), dtype=np.float32), rng.random((m, c), dtype=np.float32)
    buffers = [np.empty((step, c), dtype=np.float32) for _ in range(threads)]

    def work(thread: int, start: int) -> None:
        size = min(step, n_rows - start)
        np.matmul(Z[:size], G, out=buffers[thread][:size])

    return _on_threads(work, n_rows, step, threads)


def bare_read(path: str, threads: int) -> float:
    """Read all chunks of a Zarr, one call for each row of chunks."""
    return _read_all(path, threads, lambda array, start, stop: array[start:stop])


def own_read(path: str, threads: int) -> float:
    """Read the same by daskkcl's own way."""
    return _read_all(path, threads, read_array)


def _read_all(path: str, threads: int, read: Callable[[Any, int, int], Any]) -> float:
    array = open_zarr(path)
    n, step = array.shape[0], array.chunks[0]

    def work(thread: int, start: int) -> None:
        read(array, start, min(n, start + step))

    return _on_threads(work, n, step, threads)


def open_zarr(path: str) -> Any:
    """Open a Zarr array for reading."""
    import zarr

    return zarr.open_array(path, mode="r")


def make_map(X: np.ndarray, m: int, compiled: bool = False) -> LandmarkMap:
    """Return the default kernel of some rows against m of them, by compiled loops or not."""
    made = LandmarkMap(Rbf().resolve(X[:2000]), X[:m].copy(), np.dtype(np.float32), compiled)
    made.settle()
    return made


@task
def measure_only(block: Any, start: int, reader: Reader) -> int:
    """Measure a block, tile by tile, and keep nothing."""
    return sum(len(tile.Z) for tile in tiles(block, start, reader))


def kernel_pass(rows: np.ndarray | str, map_: LandmarkMap, threads: int) -> float:
    """Compute all kernel values of rows in memory or in a Zarr with daskkcl's machinery; keep none."""
    return _pass(rows, map_, threads, lambda reader: (measure_only, reader, sum))


def sum_pass(rows: np.ndarray | str, map_: LandmarkMap, c: int, threads: int) -> float:
    """Compute kernel values, nearest centres and sums for new centres with daskkcl's machinery."""
    means = map_.measure(map_.landmarks[:c])[0].astype(np.float64)
    centres = Centres.from_means(means, map_)
    return _pass(rows, map_, threads, lambda reader: (sum_block, Model(reader, centres, Nearest()), Sums.combine))


def _pass(rows: Any, map_: LandmarkMap, threads: int, make: Callable[[Reader], tuple[Any, Any, Any]]) -> float:
    source: Source = ArraySource(rows) if isinstance(rows, np.ndarray) else ZarrSource(open_zarr(rows))
    tile = tile_rows(map_.n_features, map_.n_measurements, 4)
    function, shared, combine = make(Reader(map_, tile))
    most = 8 * 2**20 // (40 + (0 if isinstance(source, ArraySource) else 2 * source.row_bytes))  # as plans are made
    block = tile * max(1, min(most, source.n_rows // (8 * threads)) // tile)
    engine = Engine(None, threads, Progress(False))

    def prepare(graph: Any) -> Any:
        key = graph.value(shared)
        return lambda start, block: graph.call(function, block, start, key)

    began = time.perf_counter()
    run_blocks(engine, source, block_edges(source.n_rows, block), prepare, combine)
    return time.perf_counter() - began
