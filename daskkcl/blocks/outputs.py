"""Results as Zarr beside the data: labels and memberships, whole chunks only, marked when complete."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numpy as np

from ..errors import DaskkclError, InvalidInputError, OutputError
from ..system import version
from .frames import Frame
from .sources import local_path

__all__ = ["Output", "Target", "answer_chunks"]

_MAX_CHUNK_BYTES = 16 * 2**20
_MARK = "daskkcl"


def answer_chunks(row_chunks: tuple[int, ...], row_bytes: int) -> tuple[int, ...]:
    """Return the chunks of an answer: those of the data, cut into equal parts where an answer's would be huge.

    Examples
    --------
    >>> answer_chunks((4000, 4000, 100), row_bytes=80)
    (4000, 4000, 100)
    >>> answer_chunks((900_000, 900_000), row_bytes=40)
    (300000, 300000, 300000, 300000, 300000, 300000)
    """
    n, rows = sum(row_chunks), row_chunks[0]
    rows = -(-rows // max(1, -(-rows * row_bytes // _MAX_CHUNK_BYTES)))
    return tuple(min(rows, n - start) for start in range(0, n, rows))


class Target:
    """A Zarr group to be written: it appears at its path only when complete, and replaces only what is ours.

    A local path is written under another name beside it and renamed; what stood there stays until then. A URL is
    written in place.

    Parameters
    ----------
    path : path or URL
    overwrite : bool
        Replace what is there, if it carries our mark.
    mark : str
        The attribute that marks such groups.
    storage_options : dict, optional
        For URLs.
    """

    def __init__(self, path: Any, overwrite: bool, mark: str, storage_options: dict[str, Any] | None = None) -> None:
        try:
            text = local_path(str(os.fspath(path)))
        except TypeError:
            raise InvalidInputError(f"{path!r} is not a path or URL to write to.") from None
        self.remote = "://" in text
        self.path = text if self.remote else os.path.realpath(text)
        self.overwrite = overwrite
        self.mark = mark
        self.storage_options = storage_options if self.remote else None
        self._partial = self.path if self.remote else f"{self.path}.partial-{os.getpid()}-{os.urandom(3).hex()}"
        self._check_vacant()
        self._try_writing()

    def _check_vacant(self) -> None:
        import zarr

        if not self.remote and not os.path.lexists(self.path):
            return
        attributes: Any = {}
        try:
            attributes = dict(zarr.open(self.path, mode="r", storage_options=self.storage_options).attrs)
        except Exception:  # nothing there, or nothing that zarr can open
            if self.remote:
                return
        if not self.overwrite:
            raise OutputError(f"{self.path!r} exists; pass overwrite=True to replace it, or another path.")
        empty = not self.remote and os.path.isdir(self.path) and not os.listdir(self.path)
        if self.mark not in attributes and not empty:
            raise OutputError(
                f"{self.path!r} was not written by daskkcl, and overwrite=True only replaces what was. Choose another "
                "path, or remove it first."
            )

    def _try_writing(self) -> None:
        import zarr

        try:
            if self.remote:
                probe = zarr.open_group(f"{self.path}.probe", mode="w", storage_options=self.storage_options)
                _delete(probe)
                return
            folder = os.path.dirname(self.path)
            if not os.path.isdir(folder):
                raise OutputError(f"{self.path!r} cannot be written: there is no folder {folder!r}. Make it first.")
            os.mkdir(self._partial)
        except DaskkclError:
            raise
        except Exception as error:
            raise OutputError(f"{self.path!r} cannot be written: {error}.") from error

    def write(self, fill: Callable[[Any], None]) -> None:
        """Let `fill` write into the group, then put it in place; of a group that fails nothing is left."""
        import zarr

        group = None
        try:
            group = zarr.open_group(self._partial, mode="w", zarr_format=3, storage_options=self.storage_options)
            fill(group)
            if not self.remote:
                self._put_in_place()
        except BaseException as error:
            if self.remote and group is not None:
                with contextlib.suppress(Exception):
                    _delete(group)
            if isinstance(error, OSError) and not isinstance(error, DaskkclError):
                raise OutputError(f"{self.path!r} cannot be written: {error}.") from error
            raise
        finally:
            self.discard()

    def _put_in_place(self) -> None:
        if not os.path.lexists(self.path):
            os.rename(self._partial, self.path)
            return
        if not self.overwrite:
            raise OutputError(f"{self.path!r} was made by somebody else in the meantime; it is left as it is.")
        old = f"{self._partial}-old"
        os.rename(self.path, old)
        try:
            os.rename(self._partial, self.path)
        except OSError:
            os.rename(old, self.path)
            raise
        shutil.rmtree(old, ignore_errors=True)

    def discard(self) -> None:
        """Remove what was written and not put in place."""
        if not self.remote:
            shutil.rmtree(self._partial, ignore_errors=True)


class Output:
    """Labels and memberships of a run in a Zarr group; its attribute says when it is complete.

    Examples
    --------
    >>> import tempfile, dask.array as da, dask, zarr
    >>> path = tempfile.mkdtemp() + "/result.zarr"
    >>> with Output.at(path, overwrite=False) as output:
    ...     output.write(da.zeros(10, dtype="int32", chunks=5), None, (5, 5), lambda tasks: dask.compute(*tasks))
    >>> zarr.open_group(path, mode="r")["labels"].shape
    (10,)
    """

    def __init__(self, target: Target | None) -> None:
        self._target = target

    @classmethod
    def at(cls, path: Any, overwrite: bool, storage_options: dict[str, Any] | None = None) -> Self:
        """Check that a result can be written there; a `path` of None writes nothing."""
        return cls(None if path is None else Target(path, overwrite, _MARK, storage_options))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._target is not None:
            self._target.discard()

    def write(
        self,
        labels: Any,
        memberships: Any,
        row_chunks: tuple[int, ...],
        compute: Callable[[list[Any]], Any],
        frame: Frame | None = None,
    ) -> None:
        """Write labels (n,) and memberships (n, c), numpy or dask, and put them in place.

        With a frame they are written on its dimensions, beside its coordinates.
        """
        if self._target is None:
            return
        dims = ["row"] if frame is None else list(frame.dims)
        columns = "cluster" if frame is None else frame.column_dim("cluster")
        arrays = {"labels": (labels, dims)}
        if memberships is not None:
            arrays["membership"] = (memberships, [*dims, columns])

        def fill(group: Any) -> None:
            group.attrs[_MARK] = {"version": version(), "complete": False}
            if frame is not None:
                _write_coordinates(group, frame)
            compute([_store(group, name, *array, row_chunks, frame) for name, array in arrays.items()])
            for name in arrays:
                _check_complete(group[name])
            group.attrs[_MARK] = {"version": version(), "complete": True}
            _consolidate(group)

        self._target.write(fill)


def _coordinates(frame: Frame) -> Any:
    """Return the coordinates, none of the name of a result."""
    taken = [name for name in ("labels", "membership") if name in frame.coords.variables]
    return frame.coords.drop_encoding().rename({name: f"{name}_coordinate" for name in taken})


def _attributes(frame: Frame) -> dict[str, Any]:
    """Return the attributes of a result, with the names of the coordinates that are no dimensions (CF conventions)."""
    others = [str(name) for name in _coordinates(frame).variables if name not in frame.dims]
    return _plain_attributes(frame.attrs) | ({"coordinates": " ".join(others)} if others else {})


def _write_coordinates(group: Any, frame: Frame) -> None:
    """Let xarray write the coordinates, encoded as it would read them."""
    coords = _coordinates(frame)
    if len(coords.variables):
        where = {"group": group.path} if group.path else {}
        coords.to_zarr(group.store, mode="a", consolidated=False, zarr_format=3, **where)


def _store(
    group: Any, name: str, values: Any, dimensions: list[str], row_chunks: tuple[int, ...], frame: Frame | None
) -> Any:
    """Make an array in the group; return the delayed writing of it."""
    import dask.array as da

    row_bytes = (values.shape[1] if values.ndim == 2 else 1) * values.dtype.itemsize
    chunks: tuple[int, ...] = (min(answer_chunks(row_chunks, row_bytes)[0], values.shape[0]), *values.shape[1:])
    if frame is not None:
        chunks, values = (*frame.chunks(row_bytes), *values.shape[1:]), frame.shaped(values)
    # Empty chunks are written too: in what is ours an absent chunk is damage, never the fill value.
    target = group.create_array(
        name,
        shape=values.shape,
        dtype=values.dtype,
        chunks=chunks,
        dimension_names=dimensions,
        attributes={} if frame is None else _attributes(frame),
        config={"write_empty_chunks": True},
    )
    lazy = values if isinstance(values, da.Array) else da.from_array(values, chunks=chunks, name=False)
    # Chunks of the graph are chunks of the store: every chunk has one writer and is written whole.
    return lazy.rechunk(chunks).store(target, lock=False, compute=False)


def _plain_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that JSON can hold, arrays as lists."""
    plain = {}
    for name, value in attributes.items():
        value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        with contextlib.suppress(TypeError, ValueError):
            json.dumps(value, allow_nan=False)
            plain[str(name)] = value
    return plain


def _consolidate(group: Any) -> None:
    """Copy the metadata of the arrays to the group, where xarray looks for them first."""
    import warnings

    import zarr

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Consolidated metadata is currently not part")
        zarr.consolidate_metadata(group.store, path=group.path)


def _check_complete(array: Any) -> None:
    if array.nchunks_initialized != array.nchunks:
        absent = array.nchunks - array.nchunks_initialized
        raise OutputError(f"{absent:,} of {array.nchunks:,} chunks of {array.store_path} are missing after writing.")


def _delete(group: Any) -> None:
    from zarr.core.sync import sync

    sync(group.store_path.delete_dir())
