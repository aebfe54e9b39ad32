"""Measure what was chosen against what was not: exponentials, reading of Zarrs, reading ahead, half-precision scratch.

``python -m benchmarks choices`` prints one table for each.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks import limits
from daskkcl.blocks.scratch import read_array, write_array
from daskkcl.system import cpu_count

__all__ = ["exponentials", "main", "reading", "reading_ahead", "scratch", "steps", "two_threads"]


def _least(repeats: int, work: Callable[[], Any]) -> float:
    times = []
    work()  # compiles, fills caches
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _table(title: str, header: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(map(_text, row))} |", flush=True)


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def exponentials(repeats: int, rows: int = 1024, m: int = 1000) -> list[tuple[str, float, float]]:
    """Return name, nanoseconds a value and the largest relative error of ways to take exp of float32."""
    from numba import njit

    x = -np.random.default_rng(0).uniform(0, 8, rows * m).astype(np.float32)
    scaled = (x.astype(np.float64) * math.log2(math.e)).astype(np.float32)
    exact, out = np.exp(x.astype(np.float64)), np.empty_like(x)

    @njit(fastmath=True, error_model="numpy")
    def plain(x: Any, out: Any) -> None:
        for i in range(len(x)):
            out[i] = math.exp(x[i])

    @njit(fastmath=True, error_model="numpy")
    def polynomial(x: Any, out: Any) -> None:
        # exp(x) = 2^n 2^f, n whole and f in [−½, ½]: 2^f by its series, 2^n by adding n to the exponent's bits
        bits = out.view(np.int32)
        for i in range(len(x)):
            t = max(x[i], np.float32(-87.0)) * np.float32(1.4426950408889634)
            n = np.floor(t + np.float32(0.5))
            f = t - n
            p = np.float32(1.5403530393381609e-4)
            p = p * f + np.float32(1.3333558146428443e-3)
            p = p * f + np.float32(9.6181291076284772e-3)
            p = p * f + np.float32(5.5504108664821580e-2)
            p = p * f + np.float32(2.4022650695910072e-1)
            p = p * f + np.float32(6.9314718055994531e-1)
            p = p * f + np.float32(1.0)
            out[i] = p
            bits[i] += np.int32(n) << np.int32(23)

    ways: dict[str, Callable[[], Any]] = {
        "np.exp": lambda: np.exp(x, out=out),
        "np.exp2 of x / ln 2 (the product gives it so)": lambda: np.exp2(scaled, out=out),
        f"numba, math.exp ({_vector_library()})": lambda: plain(x, out),
        "numba, polynomial of degree 6": lambda: polynomial(x, out),
    }
    found = []
    for name, work in ways.items():
        seconds = _least(repeats, work)
        found.append((name, 1e9 * seconds / x.size, float(np.max(np.abs(out / exact - 1)))))
    return found


def _vector_library() -> str:
    from numba.core import config

    return "with SVML" if getattr(config, "USING_SVML", False) else "without SVML"


def noise_of_exponent(d: int = 784) -> float:
    """Return the relative error of a kernel value that its float32 product has already: that of γ‖x − y‖²."""
    X = np.random.default_rng(0).random((400, d))
    gamma = 1 / d
    exact = gamma * ((X[:200, None] - X[None, 200:]) ** 2).sum(-1)
    A = X.astype(np.float32)
    norms = np.vecdot(A, A)
    rounded = np.float32(gamma) * (norms[:200, None] + norms[None, 200:] - 2 * A[:200] @ A[200:].T)
    return float(np.max(np.abs(np.exp(rounded.astype(np.float64) - exact) - 1)))


def steps(repeats: int, d: int, m: int, c: int) -> list[tuple[str, float]]:
    """Return step and nanoseconds a row, on one core: a tile of 1,024 rows, all of it in cache."""
    from daskkcl.maps.base import Centres
    from daskkcl.rules.crisp import Nearest
    from daskkcl.schedules.measuring import Reader, tiles
    from daskkcl.schedules.tasks import Model, label_block, sum_block
    from daskkcl.system import single_threaded

    rng = np.random.default_rng(0)
    rows = limits.STEP
    X = rng.standard_normal((rows, d), dtype=np.float32)
    sample = rng.standard_normal((2000, d), dtype=np.float32)
    map_, loops = limits.make_map(sample, m), limits.make_map(sample, m, compiled=True)
    centres = Centres.from_means(map_.measure(map_.landmarks[:c])[0].astype(np.float64), map_)
    reader = Reader(map_, rows)
    model, compiled = Model(reader, centres, Nearest()), Model(Reader(loops, rows), centres, Nearest())
    right, Z = np.ascontiguousarray(map_.landmarks.T), np.empty((rows, m), np.float32)
    G, D = rng.random((m, c), dtype=np.float32), np.empty((rows, c), np.float32)
    exponents = -rng.uniform(0, 4, (rows, m)).astype(np.float32)
    ways: dict[str, Callable[[], Any]] = {
        "bare product with the landmarks": lambda: np.matmul(X, right, out=Z),
        "bare np.exp": lambda: np.exp(exponents, out=Z),
        "bare np.exp2": lambda: np.exp2(exponents, out=Z),
        "bare largest and least": lambda: (exponents.max(), exponents.min()),
        "bare product with the centres": lambda: np.matmul(exponents, G, out=D),
        "kernel values of a tile": lambda: [None for _ in tiles(X, 0, reader)],
        "with nearest centres": lambda: label_block(X, 0, model),
        "with nearest centres and sums": lambda: sum_block(X, 0, model),
        "nearest centres, one compiled loop": lambda: label_block(X, 0, compiled),
        "and sums, one compiled loop": lambda: sum_block(X, 0, compiled),
    }
    with single_threaded():
        return [(name, 1e9 * _least(8 * repeats, work) / rows) for name, work in ways.items()]


def two_threads(
    repeats: int, n: int = 200_000, d: int = 32, m: int = 500, c: int = 10
) -> list[tuple[str, float, float]]:
    """Return way, and nanoseconds of a thread for a row of a pass with nearest centres and sums, on one and on two."""
    X = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    found = []
    for name, compiled in (("numpy, tile by tile", False), ("one compiled loop", True)):
        map_ = limits.make_map(X, m, compiled)
        one, two = (
            1e9 * threads * min(limits.sum_pass(X, map_, c, threads) for _ in range(repeats + 1)) / n
            for threads in (1, 2)
        )
        found.append((name, one, two))
    return found


def reading(repeats: int, folder: str, n: int = 400_000) -> list[tuple[str, float]]:
    """Return way of storing and reading, and GiB a second of float32 rows."""
    import zarr

    pipelines = {"zarr": {}}
    try:
        import zarrs  # noqa: F401

        pipelines["zarrs"] = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}
    except ImportError:
        print("zarrs is not installed: pip install zarrs")
    found = []
    rng = np.random.default_rng(0)
    for d, chunk in ((32, 20_000), (784, 1024)):
        rows = n * 32 // d
        values = rng.standard_normal((rows, d), dtype=np.float32)
        for packing, options in (("compressed", {}), ("not compressed", {"compressors": None})):
            path = os.path.join(folder, f"{d}-{packing[:3]}.zarr")
            stored = zarr.create_array(path, shape=values.shape, chunks=(chunk, d), dtype="f4", **options)
            stored[:] = values
            ways = [(name, settings, limits.bare_read) for name, settings in pipelines.items()]
            for name, settings, read in [*ways, ("files", {}, limits.own_read)]:
                with zarr.config.set(settings):
                    seconds = _least(repeats, lambda path=path, read=read: read(path, cpu_count()))
                found.append(
                    (f"{rows:,} x {d}, chunks of {chunk:,} rows, {packing}, {name}", values.nbytes / seconds / 2**30)
                )
    return found


def reading_ahead(repeats: int, folder: str, n: int = 20_000) -> list[tuple[str, float]]:
    """Return threads, and the time of a kernel pass from a Zarr over the time of its bare product.

    Each thread reads a block and then measures it; one thread more than cores reads while the others compute.
    """
    import zarr

    X = np.random.default_rng(0).standard_normal((n, 784), dtype=np.float32)
    path = os.path.join(folder, "ahead.zarr")
    zarr.create_array(path, shape=X.shape, chunks=(1024, 784), dtype="f4")[:] = X
    map_, cores = limits.make_map(X, 1000), cpu_count()
    right = np.ascontiguousarray(map_.landmarks.T)
    times: dict[int, list[float]] = {cores: [], cores + 1: [], 2 * cores: []}
    bare = []
    for _ in range(repeats + 1):
        bare.append(limits.bare_product(X, right, cores))
        for threads, seconds in times.items():
            seconds.append(limits.kernel_pass(path, map_, threads))
    least = statistics.median(bare[1:])
    return [(f"{threads} threads", statistics.median(seconds[1:]) / least) for threads, seconds in times.items()]


def scratch(repeats: int, folder: str, rows: int = 20_000, m: int = 500) -> list[tuple[str, float, float]]:
    """Return way of keeping kernel values, nanoseconds a value, share of rows whose nearest centre it changes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 32), dtype=np.float32)
    map_ = limits.make_map(X, m)
    Z = map_.measure(X)[0]
    centres = Z[:10].astype(np.float32)
    path = os.path.join(folder, "scratch")
    squares = np.vecdot(centres, centres)

    def nearest(values: Any) -> Any:
        return np.argmin(squares - 2 * values @ centres.T, axis=1)

    single, half, wide = np.empty_like(Z), np.empty(Z.shape, np.float16), np.empty_like(Z)
    own = nearest(Z)
    write_array(path, [Z])
    one = _least(repeats, lambda: read_array(path, np.float32, Z.shape, 0, single))
    put = _least(repeats, lambda: write_array(path, [Z]))

    def put_half() -> None:
        write_array(path, [Z.astype(np.float16)])

    def get_half() -> None:
        np.copyto(wide, read_array(path, np.float16, Z.shape, 0, half))

    put_two = _least(repeats, put_half)
    two = _least(repeats, get_half)
    again = _least(repeats, lambda: map_.measure(X))
    scale = 1e9 / Z.size
    return [
        ("measure again (d = 32)", again * scale, 0.0),
        ("write float32", put * scale, 0.0),
        ("read float32", one * scale, 0.0),
        ("round to float16 and write", put_two * scale, 0.0),
        ("read float16 and widen", two * scale, float(np.mean(nearest(wide) != own))),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    times = options.repeats
    for d, m, c in ((32, 500, 10), (784, 1000, 10)):
        _table(
            f"A row, {d} features, {m} landmarks, {c} clusters", ("step", "ns a row and core"), steps(times, d, m, c)
        )
    _table("A pass, 32 features, 500 landmarks, 10 clusters", ("way", "on one thread", "on two"), two_threads(times))
    _table("Exponentials of float32", ("way", "ns a value", "largest relative error"), exponentials(times))
    print(f"\nRelative error that float32 products leave in a kernel value (d = 784): {noise_of_exponent():.1e}")
    with tempfile.TemporaryDirectory() as folder:
        _table("Reading", ("rows", "GiB a second"), reading(times, folder))
        _table("Reading ahead", ("threads", "pass from a Zarr / bare product"), reading_ahead(times, folder))
        _table("Scratch", ("way", "ns a value", "rows with another centre"), scratch(times, folder))


if __name__ == "__main__":
    main()
