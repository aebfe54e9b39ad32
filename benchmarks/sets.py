"""Rows to cluster, ready in files: real sets from a folder, generated tables, and the same tables as Zarr."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Prepared", "Sets"]

#: name: what features are divided by (None: standardised), number of classes
_REAL = {"mnist": (255.0, 10), "covtype": (None, 7), "usps": (1.0, 10)}
_CHUNK_ROWS = 10_000


@dataclass(frozen=True)
class Prepared:
    """A table in a file, its classes if they are known, and the width of its kernel."""

    rows: str
    classes: str
    n_clusters: int
    gamma: float


class Sets:
    """Puts tables into a working folder when they are first asked for.

    Parameters
    ----------
    data : path or None
        Where the real sets are, as ``name.npz`` with arrays ``X`` and ``y``; ``DASKKCL_DATA`` by default.
    work : path
        Where prepared tables go.
    """

    def __init__(self, data: str | None, work: str) -> None:
        self.data = Path(data or os.environ.get("DASKKCL_DATA", "data"))
        self.work = Path(work)

    def real(self, name: str, unit_rows: bool = False) -> Prepared | None:
        """Return a real set in float32, or None when it is not in the folder."""
        stored = self.data / f"{name}.npz"
        if not stored.exists():
            return None
        divisor, n_clusters = _REAL[name]
        rows = self.work / f"{name}{'-unit' if unit_rows else ''}.npy"
        classes = self.work / f"{name}-classes.npy"
        if not rows.exists():
            with np.load(stored) as arrays:
                X, y = arrays["X"].astype(np.float32), arrays["y"]
            if divisor is None:
                spread = X.std(axis=0)
                X = ((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)).astype(np.float32)
            else:
                X /= divisor
            if unit_rows:
                X /= np.linalg.norm(X, axis=1, keepdims=True)
            np.save(classes, y)
            np.save(rows, X)
        return Prepared(str(rows), str(classes), n_clusters, _gamma(np.load(rows, mmap_mode="r")))

    def digits(self) -> Prepared:
        """Return the 8 x 8 digits that scikit-learn brings."""
        rows, classes = self.work / "digits.npy", self.work / "digits-classes.npy"
        if not rows.exists():
            from sklearn.datasets import load_digits

            X, y = load_digits(return_X_y=True)
            np.save(classes, y)
            np.save(rows, (X / 16).astype(np.float32))
        return Prepared(str(rows), str(classes), 10, _gamma(np.load(rows)))

    def table(self, n_rows: int, n_features: int, n_clusters: int = 10) -> str:
        """Return the path of a Zarr of Gaussian clusters, chunked and compressed as zarr does by default."""
        from benchmarks.memory import write_table

        path = self.work / f"{n_rows}x{n_features}.zarr"
        if not path.exists():
            write_table(path, n_rows, n_features, _CHUNK_ROWS, n_clusters)
            os.sync()  # nobody who is measured waits for what is still being written
        return str(path)


def _gamma(X: Any) -> float:
    """Return daskkcl's default width, for peers too: one over twice the mean squared distance of two rows."""
    sample = np.asarray(X[:: max(1, len(X) // 2000)], dtype=np.float64)
    return float(1 / (4 * sample.var(axis=0).sum()))
