"""Labels of all rows in one scratch file: written block by block, read lazily, renumbered on the way."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StorageError
from .scratch import Scratch, check_room, read_array, write_array

__all__ = ["LabelFile"]


@dataclass(frozen=True, eq=False)
class LabelFile:
    """Labels at 1, 2 or 4 bytes a row.

    Parameters
    ----------
    scratch : Scratch
        Kept alive by whoever can still read the labels.
    n_rows : int
    dtype : dtype
        A signed integer wide enough for the number of clusters.
    numbers : ndarray or None
        The new number of each cluster.

    Examples
    --------
    >>> labels = LabelFile.create(Scratch(), n_rows=4, n_clusters=2)
    >>> labels.write(0, np.array([0, 0, 1, -1]))
    >>> labels.renumbered(np.array([1, 0])).read(0, 4)
    array([ 1,  1,  0, -1], dtype=int32)
    """

    scratch: Scratch
    n_rows: int
    dtype: np.dtype[Any]
    numbers: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, scratch: Scratch, n_rows: int, n_clusters: int) -> LabelFile:
        """Return the file of a run, which need not be there."""
        return cls(scratch, n_rows, np.min_scalar_type(-max(1, n_clusters)))

    @classmethod
    def create(cls, scratch: Scratch, n_rows: int, n_clusters: int) -> LabelFile:
        """Make the file, with no labels in it."""
        labels = cls.of(scratch, n_rows, n_clusters)
        labels.begin()
        return labels

    def begin(self) -> None:
        """Make the file anew, with no labels in it."""
        check_room(self.scratch.path, self.n_rows * self.dtype.itemsize)
        write_array(self._path, [])

    @property
    def whole(self) -> bool:
        """Whether the file is there, as long as it must be."""
        try:
            return os.stat(self._path).st_size == self.n_rows * self.dtype.itemsize
        except OSError:
            return False

    @property
    def _path(self) -> str:
        return self.scratch.file("labels")

    def write(self, start: int, labels: NDArray[Any]) -> None:
        """Write the labels of some rows; writing them again does no harm."""
        try:
            descriptor = os.open(self._path, os.O_WRONLY)
            try:
                data = memoryview(labels.astype(self.dtype).tobytes())
                offset = start * self.dtype.itemsize
                while data:
                    written = os.pwrite(descriptor, data, offset)
                    data, offset = data[written:], offset + written
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageError(f"Labels cannot be written to scratch file {self._path!r}: {error}.") from error

    def read(self, start: int, stop: int) -> NDArray[np.int32]:
        """Read the labels of some rows."""
        labels = read_array(self._path, self.dtype, (stop - start,), start * self.dtype.itemsize).astype(np.int32)
        if self.numbers is not None:
            labels = np.where(labels >= 0, self.numbers[labels], np.int32(-1))
        return labels

    def renumbered(self, order: NDArray[Any]) -> LabelFile:
        """Return the same labels with cluster ``order[k]`` called k."""
        numbers = np.empty(len(order), dtype=np.int32)
        numbers[order] = np.arange(len(order), dtype=np.int32)
        return replace(self, numbers=numbers)

    def lazy(self, chunks: tuple[int, ...]) -> Any:
        """Return the labels as a dask array."""
        import dask.array as da

        edges = np.concatenate([[0], np.cumsum(chunks)]).tolist()
        name = f"labels-{os.urandom(8).hex()}"
        graph = {(name, i): (read_labels, self, a, b) for i, (a, b) in enumerate(itertools.pairwise(edges))}
        return da.Array(graph, name, (tuple(chunks),), dtype=np.int32)


def read_labels(labels: LabelFile, start: int, stop: int) -> NDArray[np.int32]:
    """Read some labels (a task)."""
    return labels.read(start, stop)
