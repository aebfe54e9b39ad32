"""Results as Zarr beside the data: labels and memberships, whole chunks only, marked when complete."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from ..errors import DaskkclError, InvalidInputError, OutputError
from ..system import version
from .frames import Frame
from .locks import Lock
from .shuffle import spans
from .sources import local_path

__all__ = ["Output", "Target", "answer_chunks"]

_MAX_CHUNK_BYTES = 16 * 2**20
_MARK = "daskkcl"
_PARTIAL, _OLD = ".partial-", "-old"
_TRIES = 2


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
    written in place. One process at a time may do so; what killed ones left is put in order by the next.

    Parameters
    ----------
    path : path or URL
    overwrite : bool
        Replace what is there, if it carries our mark.
    mark : str
        The attribute that marks such groups.
    storage_options : dict, optional
        For URLs.
    run : str, optional
        Number of a run that can be taken up again: what it has written stays when it is stopped, and is gone on with.
    """

    def __init__(
        self,
        path: Any,
        overwrite: bool,
        mark: str,
        storage_options: dict[str, Any] | None = None,
        run: str | None = None,
    ) -> None:
        try:
            text = local_path(str(os.fspath(path)))
        except TypeError:
            raise InvalidInputError(f"{path!r} is not a path or URL to write to.") from None
        self.remote = "://" in text
        self.path = text if self.remote else os.path.realpath(text)
        self.overwrite = overwrite
        self.mark = mark
        self.run = run
        self.done = False  # whether the run wrote everything before, and was stopped behind that
        self.storage_options = storage_options if self.remote else None
        own = run or f"{os.getpid()}-{os.urandom(3).hex()}"
        self._partial = self.path if self.remote else f"{self.path}{_PARTIAL}{own}"
        self._lock = self._take()
        try:
            if not self.remote:
                self._tidy()
            self._check_vacant()
            self._try_writing()
        except BaseException:
            self._lock.release()
            raise

    def _take(self) -> Lock:
        folder = "" if self.remote else os.path.dirname(self.path)
        if folder and not os.path.isdir(folder):
            raise OutputError(f"{self.path!r} cannot be written: there is no folder {folder!r}. Make it first.")
        lock = Lock(self.path, "its results", self.storage_options)
        try:
            lock.take()
        except DaskkclError:
            raise
        except Exception as error:
            raise OutputError(f"{self.path!r} cannot be written: {error}.") from error
        return lock

    def _tidy(self) -> None:
        """Put in order what processes left that were killed while they wrote here; we have the lock, so none lives."""
        folder, name = os.path.split(self.path)
        left = sorted(entry for entry in os.listdir(folder) if entry.startswith(f"{name}{_PARTIAL}"))
        for entry in left:
            whole = os.path.join(folder, entry)
            if entry.endswith(_OLD) and not os.path.lexists(self.path):  # killed between its two renames
                os.rename(whole, self.path)
            elif whole != self._partial:
                shutil.rmtree(whole, ignore_errors=True)

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
        ours = attributes.get(self.mark)
        if self.run is not None and isinstance(ours, dict) and ours.get("run") == self.run:  # what this run wrote
            self.done, self.overwrite = ours.get("complete") is True, True
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
            os.makedirs(self._partial, exist_ok=self.run is not None)
        except DaskkclError:
            raise
        except Exception as error:
            raise OutputError(f"{self.path!r} cannot be written: {error}.") from error

    def write(self, fill: Callable[[Any], None]) -> None:
        """Let `fill` write into the group, then put it in place; of a group that fails nothing is left.

        But for that of a run that can be taken up again: `fill` then finds what was written before.
        """
        import zarr

        group = None
        try:
            group = zarr.open_group(
                self._partial, mode=self._mode(), zarr_format=3, storage_options=self.storage_options
            )
            fill(group)
            if not self.remote:
                self._put_in_place()
        except BaseException as error:
            if self.remote and group is not None and self.run is None:
                with contextlib.suppress(Exception):
                    _delete(group)
            if isinstance(error, OSError) and not isinstance(error, DaskkclError):
                raise OutputError(f"{self.path!r} cannot be written: {error}.") from error
            raise
        else:
            self.run = None  # nothing is left to go on with
        finally:
            self.discard()

    def holds(self, names: list[str]) -> bool:
        """Say whether all chunks of some arrays are at the path."""
        import zarr

        try:
            group = zarr.open_group(self.path, mode="r", storage_options=self.storage_options)
            return not any(_absent(group[name], verify=True) for name in names)
        except Exception:
            return False

    def _mode(self) -> Literal["a", "w"]:
        """Return how to open the group: anew, unless it is this run's own."""
        import zarr

        if self.run is None:
            return "w"
        try:
            group = zarr.open_group(self._partial, mode="r", storage_options=self.storage_options)
            ours: Any = dict(group.attrs).get(self.mark)
        except Exception:
            return "w"
        if not isinstance(ours, dict) or ours.get("run") != self.run:
            return "w"
        if not self.remote:
            _remove_torn(self._partial)
        return "a"

    def _put_in_place(self) -> None:
        if not os.path.lexists(self.path):
            os.rename(self._partial, self.path)
            return
        if not self.overwrite:
            raise OutputError(f"{self.path!r} was made by somebody else in the meantime; it is left as it is.")
        old = f"{self._partial}{_OLD}"
        os.rename(self.path, old)
        try:
            os.rename(self._partial, self.path)
        except OSError:
            os.rename(old, self.path)
            raise
        shutil.rmtree(old, ignore_errors=True)

    def discard(self) -> None:
        """Remove what was written and not put in place, unless the run can go on with it; let others write here."""
        if not self.remote:
            if self.run is None:
                shutil.rmtree(self._partial, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.rmdir(self._partial)  # if nothing was written
        self._lock.release()


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
    def at(
        cls, path: Any, overwrite: bool, storage_options: dict[str, Any] | None = None, run: str | None = None
    ) -> Self:
        """Check that a result can be written there; a `path` of None writes nothing."""
        if path is None and overwrite:
            raise InvalidInputError("overwrite=True goes with out=: there is nothing to overwrite.")
        return cls(None if path is None else Target(path, overwrite, _MARK, storage_options, run))

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

        run = {} if self._target.run is None else {"run": self._target.run}
        if self._target.done and self._target.holds(list(arrays)):
            return

        def fill(group: Any) -> None:
            if frame is not None:
                _write_coordinates(group, frame)
            group.attrs[_MARK] = {"version": version(), "complete": False, **run}
            for name, (rows, dimensions) in arrays.items():
                values, chunks = _shaped(rows, row_chunks, frame)
                stored, new = _array(group, name, values, dimensions, chunks, frame)
                absent = list(range(stored.nchunks)) if new else _absent(stored, verify=True)
                for _ in range(_TRIES):  # again, if chunks vanish behind our back
                    if absent:
                        compute([_store(stored, values, chunks, absent)])
                    absent = _absent(stored, verify=False)
                    if not absent:
                        break
                if absent:
                    raise OutputError(
                        f"{len(absent):,} of {stored.nchunks:,} chunks of {stored.store_path} are missing after "
                        "writing: somebody removes them."
                    )
            group.attrs[_MARK] = {"version": version(), "complete": True, **run}
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


def _shaped(values: Any, row_chunks: tuple[int, ...], frame: Frame | None) -> tuple[Any, tuple[int, ...]]:
    """Return values of rows as they are stored, on the dimensions of a frame if there is one, and their chunks."""
    row_bytes = (values.shape[1] if values.ndim == 2 else 1) * values.dtype.itemsize
    if frame is not None:
        return frame.shaped(values), (*frame.chunks(row_bytes), *values.shape[1:])
    return values, (max(1, min(answer_chunks(row_chunks, row_bytes)[0], values.shape[0])), *values.shape[1:])


def _array(
    group: Any, name: str, values: Any, dimensions: list[str], chunks: tuple[int, ...], frame: Frame | None
) -> tuple[Any, bool]:
    """Return the array in the group, as this run made it before or new; and whether it is new."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    if name in group:
        known = group[name]
        if (known.shape, known.dtype, known.chunks) == (values.shape, values.dtype, chunks):
            return known, False
    array = group.create_array(
        name,
        shape=values.shape,
        dtype=values.dtype,
        chunks=chunks,
        # A chunk that is torn does not match its checksum. One that is absent is damage, since empty chunks are
        # written too: it must not read as something that could be true.
        compressors=[ZstdCodec(), Crc32cCodec()],
        fill_value=np.iinfo(values.dtype).min if values.dtype.kind == "i" else np.nan,
        dimension_names=dimensions,
        attributes={} if frame is None else _attributes(frame),
        config={"write_empty_chunks": True},
        overwrite=True,
    )
    return array, True


def _regions(array: Any) -> list[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Return the chunks of an array in order: where they are in its grid, and what of it they hold."""
    sides = list(zip(array.shape, array.chunks, strict=True))
    return [
        (index, tuple(slice(i * c, min(n, (i + 1) * c)) for i, (n, c) in zip(index, sides, strict=True)))
        for index in np.ndindex(*(max(1, -(-n // c)) for n, c in sides))
    ]


def _absent(array: Any, verify: bool) -> list[int]:
    """Return the chunks, by their numbers in order, that are not there, or with `verify` do not decode."""
    from zarr.core.sync import sync

    async def listed() -> set[str]:
        path = array.store_path.path
        prefix = f"{path}/" if path else ""
        return {key.removeprefix(prefix) async for key in array.store_path.store.list_prefix(prefix)}

    there = sync(listed())
    return [
        number
        for number, (index, region) in enumerate(_regions(array))
        if array.metadata.encode_chunk_key(index) not in there or (verify and not _decodes(array, region))
    ]


def _decodes(array: Any, region: tuple[slice, ...]) -> bool:
    try:
        array[region]
    except Exception:
        return False
    return True


def _store(target: Any, values: Any, chunks: tuple[int, ...], wanted: list[int]) -> Any:
    """Return the delayed writing of some chunks of an array."""
    import dask.array as da

    lazy = values if isinstance(values, da.Array) else da.from_array(values, chunks=chunks, name=False)
    # Chunks of the graph are chunks of the store: every chunk has one writer and is written whole.
    lazy = lazy.rechunk(chunks)
    if len(wanted) >= target.nchunks:
        return lazy.store(target, lock=False, compute=False)
    every = [region for _, region in _regions(target)]
    regions = [every[number] for number in wanted]
    if all(n == c for n, c in zip(target.shape[1:], chunks[1:], strict=True)):  # then neighbours are written together
        regions = [(slice(every[a][0].start, every[b][0].stop), *every[a][1:]) for a, b in spans(wanted)]
    return da.store(
        [lazy[region] for region in regions], [target] * len(regions), regions=regions, lock=False, compute=False
    )


def _remove_torn(folder: str) -> None:
    """Remove the files that zarr had begun and not named yet when its process was killed."""
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".partial"):
                os.remove(os.path.join(place, name))


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


def _delete(group: Any) -> None:
    from zarr.core.sync import sync

    sync(group.store_path.delete_dir())
