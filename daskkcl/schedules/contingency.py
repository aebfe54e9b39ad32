"""Counting pairs of labels, block by block where they are lazy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.frames import plain_values
from ..errors import InvalidInputError
from ..progress import Progress
from .engine import make_engine

__all__ = ["contingency_table", "label_counts"]


def contingency_table(truth: Any, labels: Any) -> NDArray[np.int64]:
    """Return how many rows have each pair of labels, (distinct first, distinct second); -1 is nobody's."""
    (pairs, counts) = _count([truth, labels])
    rows, first = np.unique(pairs[:, 0], return_inverse=True)
    columns, second = np.unique(pairs[:, 1], return_inverse=True)
    table = np.zeros((len(rows), len(columns)), dtype=np.int64)
    table[first, second] = counts
    return table


def label_counts(labels: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct labels and how many rows have each; -1 is nobody's."""
    found, counts = _count([labels])
    return found[:, 0], counts


def _count(columns: list[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    columns = [plain_values(column) for column in columns]
    shapes = {tuple(np.shape(column)) for column in columns}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise InvalidInputError(f"Labels must be as many, one for each row; got shapes {sorted(shapes)}.")
    if not any(type(column).__module__.startswith("dask") for column in columns):
        parts = [count_pairs(*(np.asarray(column) for column in columns))]
    else:
        import dask.array as da
        from dask.delayed import delayed

        arrays = [da.asarray(column) for column in columns]
        arrays = [array.rechunk(arrays[0].chunks) for array in arrays]
        blocks = zip(*(array.to_delayed() for array in arrays), strict=True)
        parts = make_engine(None, Progress(False)).compute([delayed(count_pairs)(*block) for block in blocks])
    found, where = np.unique(np.concatenate([part[0] for part in parts]), axis=0, return_inverse=True)
    if len(found) == 0:
        raise InvalidInputError("There are no labelled rows to measure.")
    counts = np.zeros(len(found), dtype=np.int64)
    np.add.at(counts, where.ravel(), np.concatenate([part[1] for part in parts]))
    return found, counts


def count_pairs(*columns: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct rows of some columns of labels and how often each occurs, rows with a -1 left out."""
    if any(column.dtype.kind not in "iub" for column in columns):
        raise InvalidInputError("Labels must be integers.")
    labelled = np.logical_and.reduce([column.astype(np.int64) != -1 for column in columns])
    found, codes = [], np.zeros(int(labelled.sum()), dtype=np.int64)
    for column in columns:  # a number for every combination, as digits of a number for every label
        values, inverse = _distinct(column.astype(np.int64)[labelled])
        found.append(values)
        codes = codes * max(1, len(values)) + inverse
    present, counts = _counted(codes)
    digits = np.unravel_index(present, [max(1, len(values)) for values in found])
    table = np.stack([values[digit] for values, digit in zip(found, digits, strict=True)], axis=1)
    return table, counts.astype(np.int64)


def _distinct(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct values and the place of each among them; by counting, where the range is small."""
    if len(values) == 0:
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values) + 1024:
        found, inverse = np.unique(values, return_inverse=True)
        return found, inverse
    present = np.bincount(values - low) > 0
    return np.flatnonzero(present) + low, (np.cumsum(present) - 1)[values - low]


def _counted(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    values, places = _distinct(codes)
    return values, np.bincount(places, minlength=len(values))
