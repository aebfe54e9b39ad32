"""Cluster a Zarr that is larger than the memory limit, and look at what came out.

The rows are scikit-learn's 8 x 8 digits, tiled and jittered to 780 MiB; the whole process may take 512 MiB, or what
it needs if what else is installed makes it larger from the start. Run it with ``make demo``, or ``daskkcl demo`` where
daskkcl is installed.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from sklearn.datasets import load_digits
from sklearn.metrics import normalized_mutual_info_score

from .api import fit
from .errors import MemoryLimitError, PlaceError, reason
from .system import format_bytes, parse_bytes, peak_bytes, resident_bytes

__all__ = ["run"]

_LIMIT, _TRIES = "512MiB", 3


def write_digits(path: Path, n_rows: int, chunk_rows: int = 25_000) -> np.ndarray:
    """Write jittered copies of the digits as a float32 Zarr, a chunk at a time; return the true digits."""
    images, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    array = zarr.create_array(
        str(path), shape=(n_rows, 64), dtype="float32", chunks=(chunk_rows, 64), dimension_names=["row", "pixel"]
    )
    truth = np.empty(n_rows, dtype=np.int8)
    for start in range(0, n_rows, chunk_rows):
        rows = rng.integers(0, len(images), min(chunk_rows, n_rows - start))
        noise = rng.normal(0, 1.0, (len(rows), 64)).astype(np.float32)
        array[start : start + len(rows)] = images[rows].astype(np.float32) + noise
        truth[start : start + len(rows)] = digits[rows]
    return truth


def draw(path: Path, labels: np.ndarray, picture: Path, limit: str) -> None:
    """Draw some rows of every cluster."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = np.asarray(zarr.open_array(str(path), mode="r")[:20_000])
    some = labels[:20_000]
    n_clusters, shown = int(labels.max()) + 1, 7
    lines = -(-n_clusters // 2)  # two clusters on each
    part = [1, 0.4, *[1] * shown]  # the mean stands apart from some rows
    widths = [*part, 1, *part]
    figure, axes = plt.subplots(
        lines, len(widths), figsize=(9, 0.5 * lines + 0.7), width_ratios=widths, layout="constrained"
    )
    layout: Any = figure.get_layout_engine()
    layout.set(w_pad=0.012, h_pad=0.02, wspace=0, hspace=0)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.set_frame_on(False)
    sizes = np.bincount(labels[labels >= 0])
    for cluster in range(n_clusters):
        row = axes[cluster % lines, (len(part) + 1) * (cluster // lines) :]
        members = rows[some == cluster]
        row[0].set_ylabel(f"{sizes[cluster]:,} rows", rotation=0, ha="right", va="center", fontsize=9)
        for axis, digit in zip(row[[0, *range(2, len(part))]], [members.mean(axis=0), *members[:shown]]):
            axis.imshow(digit.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        if cluster % lines == 0:
            row[0].set_title("mean", fontsize=9)
            row[2].set_title("some of them", fontsize=9, loc="left")
    figure.suptitle(f"{len(labels):,} rows in {n_clusters} clusters, found within {limit}", fontsize=12)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


def cluster(path: Path, out: Path, size: int, limit: str | None) -> tuple[Any, str]:
    """Cluster the digits within a limit; return the model and the limit.

    Without a limit it is 512 MiB, which is enough for a process with what daskkcl itself imports. What else is
    installed can make it larger (dask imports the package sparse if there is one, and with it numba): then the limit
    is what the plan asks for, and that is said.
    """
    options: dict[str, Any] = {"algo": "spectral", "n_clusters": 10, "n_landmarks": 500, "random_state": 0, "out": out}
    if limit is not None:
        return fit(path, memory_limit=limit, **options), limit
    limit = _LIMIT
    for _ in range(_TRIES):
        try:
            return fit(path, memory_limit=limit, **options), limit
        except MemoryLimitError as error:  # a process that is too large as it is does not get as far as a plan
            limit = f"{math.ceil(error.needed_bytes * 1.1 / 2**24) * 16}MiB"
        against = "still less than the data" if parse_bytes(limit) < size else "more than the data"
        print(
            f"{_LIMIT} do not do here: this process takes {format_bytes(resident_bytes())} before it reads a row, more "
            f"than usual (dask imports some packages because they are installed). The limit is {limit}, {against}.\n",
            flush=True,
        )
    return fit(path, memory_limit=limit, **options), limit


def run(n_rows: int = 3_200_000, limit: str | None = None, output: str = "demo-output") -> None:
    """Write, fit, compare, draw."""
    try:
        Path(output).mkdir(parents=True, exist_ok=True)  # before the work
    except OSError as error:
        raise PlaceError(f"The folder {output!r}, for the picture, cannot be made: {reason(error)}.") from None
    folder = Path(tempfile.mkdtemp(prefix="daskkcl-demo-"))
    try:
        path = folder / "digits.zarr"
        print(f"Writing {n_rows:,} jittered digits to {path} ...", flush=True)
        truth = write_digits(path, n_rows)
        size = n_rows * 64 * 4
        print(
            f"{format_bytes(size)} of float32 rows; the process may take {limit or _LIMIT}, its libraries included.\n",
            flush=True,
        )

        model, limit = cluster(path, folder / "result.zarr", size, limit)
        peak = peak_bytes()  # before the picture, which is not part of the fit

        labels = np.asarray(zarr.open_array(str(folder / "result.zarr" / "labels"), mode="r")[:])
        print("plan\n----")
        print(model.plan_)
        print("\nresult\n------")
        print(f"cluster sizes        {'  '.join(f'{size:,}' for size in model.cluster_sizes_)}")
        print(f"NMI with the digits  {normalized_mutual_info_score(truth, labels):.3f}")
        print(f"peak memory          {format_bytes(peak)} of {limit} allowed")
        print(f"picture              {_picture(path, labels, Path(output), limit)}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _picture(path: Path, labels: np.ndarray, output: Path, limit: str) -> str:
    try:
        draw(path, labels, output / "digits.png", limit)
    except ImportError:
        return "needs matplotlib: pip install 'daskkcl[plots]'"
    return str(output / "digits.png")
