"""Results as Zarr beside the data: labels and memberships, whole chunks only, marked when complete."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numpy as np

from ..errors import InvalidInputError, OutputError
from ..system import version
from .frames import Frame
from .shuffle import spans
from .targets import RESULT, Target, refuse_place_of

__all__ = ["Output", "answer_chunks"]

_MAX_CHUNK_BYTES = 16 * 2**20
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
        cls,
        path: Any,
        overwrite: bool,
        storage_options: dict[str, Any] | None = None,
        run: str | None = None,
        rows: Any = None,
    ) -> Self:
        """Check that a result of some rows can be written there; a `path` of None writes nothing."""
        if path is not None:
            refuse_place_of(rows, path)
        elif overwrite:
            raise InvalidInputError("overwrite=True goes with out=: there is nothing to overwrite.")
        return cls(None if path is None else Target(path, overwrite, RESULT, storage_options, run))

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
        if self._target.done and _hold(self._target, list(arrays)):
            return

        def fill(group: Any) -> None:
            if frame is not None:
                _write_coordinates(group, frame)
            group.attrs[RESULT] = {"version": version(), "complete": False, **run}
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
            group.attrs[RESULT] = {"version": version(), "complete": True, **run}
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


def _hold(target: Target, names: list[str]) -> bool:
    """Say whether all chunks of some arrays are at the path."""
    import zarr

    try:
        group = zarr.open_group(target.path, mode="r", storage_options=target.storage_options)
        return not any(_absent(group[name], verify=True) for name in names)
    except Exception:
        return False


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
