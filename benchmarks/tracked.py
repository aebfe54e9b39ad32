"""The same measurements for airspeed velocity: ``asv run`` with ``benchmark_dir`` set to this folder, or `run_all`.

Classes have ``time_``, ``peakmem_`` and ``track_`` methods over the functions of `benchmarks.limits` and over fits.
`size` scales them; tests run them tiny.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

import daskkcl
from benchmarks import limits
from benchmarks.memory import write_table
from daskkcl.system import cpu_count

__all__ = ["Fits", "Passes", "StoredFits", "run_all"]


class _Sized:
    size = 1.0  # of the full number of rows
    timeout = 300

    def rows(self, full: int) -> int:
        """Return so many rows, scaled."""
        return max(1200, int(full * self.size))


class Passes(_Sized):
    """Single passes, and the bare products and exponentials that bound them."""

    def setup(self) -> None:
        d, m = (784, 1000) if self.size == 1 else (16, 50)
        self.X = np.random.default_rng(0).standard_normal((self.rows(20_000), d), dtype=np.float32)
        self.map_ = limits.make_map(self.X, m)
        self.right = np.ascontiguousarray(self.map_.landmarks.T)
        self.threads = cpu_count()

    def time_bare_product(self) -> None:
        limits.bare_product(self.X, self.right, self.threads)

    def time_bare_exp(self) -> None:
        limits.bare_exp(len(self.X), self.map_.n_measurements, self.threads)

    def time_bare_assignment(self) -> None:
        limits.bare_assignment(len(self.X), self.map_.n_measurements, 10, self.threads)

    def time_kernel_pass(self) -> None:
        limits.kernel_pass(self.X, self.map_, self.threads)

    def time_sum_pass(self) -> None:
        limits.sum_pass(self.X, self.map_, 10, self.threads)

    def track_kernel_pass_share(self) -> float:
        """The best bare product over the best pass: 1 is the limit."""
        products = [limits.bare_product(self.X, self.right, self.threads) for _ in range(3)]
        return min(products) / min(limits.kernel_pass(self.X, self.map_, self.threads) for _ in range(3))

    track_kernel_pass_share.unit = "of a bare product"  # type: ignore[attr-defined]


class Fits(_Sized):
    """Fits of rows in memory: time, and how well the clusters are found."""

    params = ["pakcl", "akkmeans", "spectral", "okfcm", "rsekfcm"]
    param_names = ["algo"]

    def setup(self, algo: str) -> None:
        rng = np.random.default_rng(0)
        self.classes = rng.integers(0, 5, self.rows(50_000))
        noise = rng.standard_normal((len(self.classes), 16), dtype=np.float32)
        self.X = rng.normal(0, 4, (5, 16)).astype(np.float32)[self.classes] + noise
        self.fit(algo)  # compiles, loads

    def fit(self, algo: str) -> Any:
        """Return a model of the rows."""
        return daskkcl.fit(self.X, algo, 5, n_landmarks=200, random_state=0, progress=False)

    def time_fit(self, algo: str) -> None:
        self.fit(algo)

    def track_nmi(self, algo: str) -> float:
        return float(daskkcl.measures.nmi(self.classes, self.fit(algo).labels_))


class StoredFits(_Sized):
    """Fits of a Zarr within 512 MiB: time, peak, reading alone."""

    params = ["pakcl", "akkmeans", "okfcm"]
    param_names = ["algo"]

    def setup(self, algo: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = write_table(f"{self.folder.name}/rows.zarr", self.rows(400_000), 32)

    def teardown(self, algo: str) -> None:
        self.folder.cleanup()

    def time_read(self, algo: str) -> None:
        limits.bare_read(self.path, cpu_count())

    def time_fit(self, algo: str) -> None:
        daskkcl.fit(self.path, algo, 10, n_landmarks=200, memory_limit=self.limit(), random_state=0, progress=False)

    peakmem_fit = time_fit

    def limit(self) -> str:
        """Return the memory limit: a process full of tests needs more to begin with."""
        return "512MiB" if self.size == 1 else "4GiB"


def run_all(size: float) -> Iterator[tuple[str, Any]]:
    """Run every measurement once, as asv would; yield names and what was tracked."""
    for group in (Passes, Fits, StoredFits):
        for parameter in getattr(group, "params", [None]):
            arguments = () if parameter is None else (parameter,)
            made: Any = type(group.__name__, (group,), {"size": size})()
            made.setup(*arguments)
            for name in dir(made):
                if name.startswith(("time_", "peakmem_", "track_")):
                    yield f"{group.__name__}.{name}{arguments}", getattr(made, name)(*arguments)
            if hasattr(made, "teardown"):
                made.teardown(*arguments)
