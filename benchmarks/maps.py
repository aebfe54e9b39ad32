"""The spectral map's pass over data against a bare product of the same shape, in one run.

Run it as ``python -m benchmarks maps``. Both go over the same rows in memory, in the same blocks, on the same threads,
each with one thread of BLAS; the runs alternate, and the ratio of their medians counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from daskkcl.blocks.sources import ArraySource
from daskkcl.maps.nearest import NearestLandmarks, code_bits
from daskkcl.planning import block_edges, tile_rows
from daskkcl.progress import Progress
from daskkcl.schedules.data import run_blocks
from daskkcl.schedules.engine import Engine
from daskkcl.schedules.mapping import add_products, encode_block
from daskkcl.system import cpu_count, single_threaded


def bare_product(X: np.ndarray, right: np.ndarray, step: int, threads: int) -> float:
    """Return the seconds of the products of all rows with the landmarks, buffers reused."""
    starts = range(0, len(X), step)
    buffers = [np.empty((step, right.shape[1]), dtype=np.float32) for _ in range(threads)]

    def work(thread: int) -> None:
        for start in starts[thread::threads]:
            rows = X[start : start + step]
            np.matmul(rows, right, out=buffers[thread][: len(rows)])

    began = time.perf_counter()
    with single_threaded(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return time.perf_counter() - began


def spectral_pass(X: np.ndarray, nearest: NearestLandmarks, step: int, threads: int) -> float:
    """Return the seconds of the pass that finds the nearest landmarks of all rows and adds up their products."""
    engine = Engine(None, threads, Progress(False))
    codes = np.empty((len(X), 2 * nearest.n_neighbors), dtype=np.float32)

    def work(graph: Any) -> Any:
        shared = graph.value((nearest, step, "raise", codes))
        return lambda start, rows: graph.call(encode_block, rows, start, shared)

    began = time.perf_counter()
    run_blocks(engine, ArraySource(X), block_edges(len(X), 4 * step), work, add_products)
    return time.perf_counter() - began


def prepare_nearest(X: np.ndarray, n_landmarks: int) -> tuple[NearestLandmarks, int]:
    """Return the first step of a spectral map whose landmarks are some of the rows, and the rows of its tiles."""
    n_rows, n_features = X.shape
    landmarks = X[np.random.default_rng(0).choice(n_rows, n_landmarks, replace=False)]
    nearest = NearestLandmarks(landmarks, np.zeros(n_features), 3, code_bits(n_rows), np.dtype(np.float32))
    nearest.settle()
    return nearest, tile_rows(n_features, n_landmarks, 4)


def pass_ratio(n_rows: int, n_features: int, n_landmarks: int, repeats: int, threads: int) -> dict[str, float]:
    """Return medians of both, and how many times the product the pass takes."""
    X = np.random.default_rng(0).normal(size=(n_rows, n_features)).astype(np.float32)
    nearest, step = prepare_nearest(X, n_landmarks)
    right = np.ascontiguousarray(nearest.landmarks.T)
    spectral_pass(X[: 8 * step], nearest, step, threads)  # compiles
    pairs = [(bare_product(X, right, step, threads), spectral_pass(X, nearest, step, threads)) for _ in range(repeats)]
    product, whole = (statistics.median(times) for times in zip(*pairs, strict=True))
    return {"product": product, "pass": whole, "ratio": whole / product}


def main() -> None:
    """Print the ratio at the sizes asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=32_768)
    parser.add_argument("--features", type=int, default=784)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=cpu_count())
    args = parser.parse_args()
    found = pass_ratio(args.rows, args.features, args.landmarks, args.repeats, args.threads)
    print(
        f"{args.rows:,} x {args.features}, {args.landmarks:,} landmarks, {args.threads} threads, median of "
        f"{args.repeats}: bare product {found['product']:.3f} s, pass {found['pass']:.3f} s, ratio {found['ratio']:.2f}"
    )


if __name__ == "__main__":
    main()
