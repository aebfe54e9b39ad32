"""Results as Zarr beside the data: labels and memberships, whole chunks only, marked when complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from ..errors import OutputError

__all__ = ["Output"]

_MIN_CHUNK_ROWS = 1024  # data chunked more finely get outputs chunked by a multiple


class Output:
    """A Zarr group that appears at its path only when complete.

    A local path is written under another name beside it and renamed; what stood there stays until then. A URL is
    written in place and its attribute ``complete`` becomes true last.

    Examples
    --------
    >>> import tempfile, dask.array as da, dask, zarr
    >>> path = tempfile.mkdtemp() + "/result.zarr"
    >>> with Output.at(path, overwrite=False) as output:
    ...     output.write(da.zeros(10, dtype="int32", chunks=5), None, (5, 5), lambda tasks: dask.compute(*tasks))
    >>> zarr.open_group(path, mode="r")["labels"].shape
    (10,)
    """

    def __init__(self, path: str | None, overwrite: bool) -> None:
        self.path = path
        self.overwrite = overwrite
        self.remote = path is not None and "://" in path
        self._partial = path if self.remote or path is None else f"{path}.partial-{os.getpid()}-{os.urandom(3).hex()}"

    @classmethod
    def at(cls, path: Any, overwrite: bool) -> Self:
        """Check that a result can be written there; nothing is written yet."""
        output = cls(None if path is None else os.fspath(path), overwrite)
        output._check()
        return output

    def _check(self) -> None:
        if self.path is None:
            return
        if self.remote:
            import zarr

            try:
                existing = list(zarr.open_group(self.path, mode="r").keys())
            except Exception:  # nothing there, or nothing that is a group
                existing = []
            if existing and not self.overwrite:
                raise OutputError(f"{self.path!r} exists; pass overwrite=True to replace it, or another path.")
            return
        if os.path.exists(self.path) and not self.overwrite:
            raise OutputError(f"{self.path!r} exists; pass overwrite=True to replace it, or another path.")
        folder = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(folder):
            raise OutputError(f"{self.path!r} cannot be written: there is no folder {folder!r}.")
        try:
            os.mkdir(str(self._partial))
        except OSError as error:
            raise OutputError(f"{self.path!r} cannot be written: {error}.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._partial is not None and not self.remote:
            shutil.rmtree(self._partial, ignore_errors=True)

    def write(
        self, labels: Any, memberships: Any, row_chunks: tuple[int, ...], compute: Callable[[list[Any]], Any]
    ) -> None:
        """Write labels (n,) and memberships (n, c), numpy or dask, and put them in place."""
        if self.path is None:
            return
        import dask.array as da
        import zarr

        from .. import __version__

        rows = (
            row_chunks[0] * -(-_MIN_CHUNK_ROWS // row_chunks[0]) if row_chunks[0] < _MIN_CHUNK_ROWS else row_chunks[0]
        )
        tasks = []
        try:
            group = zarr.open_group(self._partial, mode="w")
            group.attrs["daskkcl"] = {"version": __version__, "complete": False}
            arrays = {"labels": (labels, ["row"])}
            if memberships is not None:
                arrays["membership"] = (memberships, ["row", "cluster"])
            for name, (values, dimensions) in arrays.items():
                values = da.asarray(values)
                chunks = (min(rows, values.shape[0]), *values.shape[1:])
                target = group.create_array(
                    name, shape=values.shape, dtype=values.dtype, chunks=chunks, dimension_names=dimensions
                )
                # Chunks of the graph are chunks of the store: every chunk has one writer and is written whole.
                tasks.append(values.rechunk(chunks).store(target, lock=False, compute=False))
            compute(tasks)
            for name in arrays:
                _check_complete(group[name])
            group.attrs["daskkcl"] = {"version": __version__, "complete": True}
            if not self.remote:
                if os.path.exists(self.path):
                    shutil.rmtree(self.path)
                os.rename(str(self._partial), self.path)
        except OSError as error:
            raise OutputError(f"{self.path!r} cannot be written: {error}.") from error


def _check_complete(array: Any) -> None:
    # zarr leaves out chunks that equal the fill value; those may be absent, no others
    import numpy as np

    if array.nchunks_initialized == array.nchunks or array.metadata.fill_value is None:
        return
    rows = array.chunks[0]
    for i in range(-(-array.shape[0] // rows)):
        key = array.metadata.encode_chunk_key((i, *([0] * (array.ndim - 1))))
        from zarr.core.sync import sync

        if not sync((array.store_path / key).exists()) and np.any(array[i * rows : (i + 1) * rows] != array.fill_value):
            raise OutputError(f"Chunk {key!r} of the output is missing.")
