"""Tables in other formats to a well-chunked Zarr, a piece at a time: CSV, Parquet, NPY, HDF5."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInputError, MemoryLimitError, StorageError, did_you_mean
from ..system import format_bytes, resident_bytes, version
from .shapes import good_chunk_rows
from .targets import Target

__all__ = ["Table", "convert_table", "format_of", "open_table"]

_MARK = "daskkcl"
_ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".hdf": "hdf5",
}
_COPIES = 4  # of a piece: as read, as a table, as numbers, encoded
_TEXT = 12  # characters of a number in a CSV, with what the parser holds beside them


@dataclass(frozen=True)
class Table:
    """A table to be read in pieces.

    Parameters
    ----------
    columns : tuple of str
        Names of the columns that will be read.
    n_rows : int or None
        None: known at the end.
    dtype : dtype
        Of the values as they are stored.
    pieces : callable
        ``pieces(rows)`` yields arrays of at most so many rows.
    held_bytes : int
        What reading holds beside a piece.
    """

    columns: tuple[str, ...]
    n_rows: int | None
    dtype: np.dtype[Any]
    pieces: Callable[[int], Iterator[Any]]
    held_bytes: int = 0


def format_of(path: str, name: str | None = None) -> str:
    """Return the format of a file, by its name unless told.

    Examples
    --------
    >>> format_of("a/cells.CSV"), format_of("x.dat", "npy")
    ('csv', 'npy')
    """
    known = sorted(set(_ENDINGS.values()))
    if name is not None:
        if name not in known:
            raise InvalidInputError(
                f"format={name!r} is not known; there are {', '.join(known)}.{did_you_mean(name, known)}"
            )
        return name
    ending = os.path.splitext(path)[1].lower()
    if os.path.isdir(path):
        return "parquet"
    if ending not in _ENDINGS:
        raise InvalidInputError(f"{path!r}: what format is this? Say --format: {', '.join(known)}.")
    return _ENDINGS[ending]


def open_table(
    path: str,
    format: str | None = None,
    columns: list[str] | None = None,
    header: bool = True,
    delimiter: str | None = None,
    dataset: str | None = None,
) -> Table:
    """Open a file for reading in pieces, or say why that cannot be."""
    if not os.path.exists(path):
        folder = os.path.dirname(os.path.abspath(path))
        near = did_you_mean(os.path.basename(path), os.listdir(folder)) if os.path.isdir(folder) else ""
        raise InvalidInputError(f"There is nothing at {path!r}.{near}")
    kind = format_of(path, format)
    if dataset is not None and kind != "hdf5":
        raise InvalidInputError(f"--dataset names an array inside an HDF5 file, and {path!r} is {kind}: leave it out.")
    try:
        if kind == "csv":
            return _open_csv(path, columns, header, delimiter)
        if kind == "parquet":
            return _open_parquet(path, columns)
        return _open_hdf5(path, columns, dataset) if kind == "hdf5" else _open_npy(path, columns)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{path!r} cannot be read as {kind} ({type(error).__name__}: {error}).") from None


def convert_table(
    table: Table,
    out: str,
    dtype: Any = None,
    chunk_rows: int | None = None,
    memory_limit: int | None = None,
    overwrite: bool = False,
    storage_options: dict[str, Any] | None = None,
    advance: Callable[[int], None] = lambda rows: None,
) -> tuple[int, int, int]:
    """Write a table as a Zarr array that appears only when it is complete.

    Returns its rows, its columns, and how many rows have a value that is not finite.
    """
    import zarr

    stored = _stored_dtype(table, dtype)
    d = len(table.columns)
    if d == 0:
        raise InvalidInputError("No columns are left to convert.")
    rows = _piece_rows(table, stored, chunk_rows, memory_limit)
    target = Target(out, overwrite, _MARK, storage_options)
    written, missing = [0], [0]

    def fill(group: Any) -> None:
        array = zarr.create_array(
            group.store,
            name=group.path or None,
            shape=(table.n_rows or 0, d),
            chunks=(rows, d),
            dtype=stored,
            overwrite=True,
            dimension_names=["row", "feature"],
            attributes={_MARK: {"version": version(), "complete": False}, "columns": list(table.columns)},
            config={"write_empty_chunks": True},
        )
        start = 0
        for block in _whole_chunks(table.pieces(rows), rows, d, stored):
            if table.n_rows is None:
                array.resize((start + len(block), d))
            array[start : start + len(block)] = block
            start += len(block)
            missing[0] += int((~np.isfinite(block)).any(axis=1).sum())
            advance(len(block))
        if start == 0:
            raise InvalidInputError("The table has no rows.")
        if table.n_rows not in (None, start):
            raise StorageError(f"The file promised {table.n_rows:,} rows, and has {start:,}: it is truncated.")
        array.attrs[_MARK] = {"version": version(), "complete": True}
        written[0] = start

    target.write(fill)
    return written[0], d, missing[0]


def _whole_chunks(pieces: Iterator[Any], rows: int, d: int, dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
    """Cut pieces of any size into whole chunks, the last one short: every chunk is written once."""
    buffer, filled, seen = np.empty((rows, d), dtype), 0, 0
    for piece in pieces:
        first = 0
        while first < len(piece):
            take = min(rows - filled, len(piece) - first)
            _put(buffer[filled : filled + take], piece[first : first + take], seen + first)
            filled, first = filled + take, first + take
            if filled == rows:
                yield buffer
                filled = 0
        seen += len(piece)
    if filled:
        yield buffer[:filled]


def _put(target: np.ndarray, values: Any, first_row: int) -> None:
    """Copy values in another dtype, and see that none is lost: whole numbers stay what they are."""
    values = np.asarray(values)
    if target.dtype.kind in "iu" and values.dtype.kind in "iufb":
        with np.errstate(invalid="ignore"):
            target[:] = values
        if (target != values).any():
            row = first_row + int(np.flatnonzero((target != values).any(axis=1))[0])
            raise InvalidInputError(f"Row {row:,} has values that are no {target.dtype}; pass --dtype float32.")
        return
    with np.errstate(over="ignore"):
        target[:] = values
    if target.dtype.itemsize < values.dtype.itemsize and (np.isinf(target) & np.isfinite(values)).any():
        raise InvalidInputError(f"There are values too large for {target.dtype}; pass --dtype float64.")


def _stored_dtype(table: Table, dtype: Any) -> np.dtype[Any]:
    if dtype is not None:
        try:
            stored = np.dtype(dtype)
        except TypeError:
            raise InvalidInputError(f"--dtype {dtype}: not a dtype; write float32, float64, uint8 or so.") from None
        if stored.kind not in "biuf":
            raise InvalidInputError(f"--dtype {dtype}: daskkcl clusters real numbers.")
        return stored
    return np.dtype(np.float32) if table.dtype == np.float64 or table.dtype.kind not in "biuf" else table.dtype


def _piece_rows(table: Table, stored: np.dtype[Any], chunk_rows: int | None, limit: int | None) -> int:
    """Return the rows of a chunk that fits the memory limit with all its copies."""
    row_bytes = len(table.columns) * max(stored.itemsize, table.dtype.itemsize, _TEXT if table.n_rows is None else 1)
    rows = chunk_rows or good_chunk_rows(len(table.columns) * stored.itemsize)
    rows = min(rows, table.n_rows or rows)
    if limit is None:
        return max(1, rows)
    base = resident_bytes() + 16 * 2**20 + table.held_bytes
    needed = base + _COPIES * row_bytes * (rows if chunk_rows else min(rows, 64))
    if needed > limit:
        raise MemoryLimitError(
            f"Converting takes at least {format_bytes(needed)}, and memory_limit allows {format_bytes(limit)}. The "
            f"process itself takes {format_bytes(resident_bytes())}"
            + (f", one row group of the file {format_bytes(table.held_bytes)}" if table.held_bytes else "")
            + ". Raise the limit"
            + (", or lower --chunk-rows." if chunk_rows else "."),
            needed_bytes=needed,
            allowed_bytes=limit,
        )
    if not chunk_rows:
        while rows > 64 and base + _COPIES * row_bytes * rows > limit:
            rows //= 2
    return max(1, rows)


# --- formats -------------------------------------------------------------------------------------------------------


def _chosen(names: list[str], wanted: list[str] | None, path: str) -> list[int]:
    """Return the places of the wanted columns, by name or by number."""
    if wanted is None:
        return list(range(len(names)))
    places = []
    for column in wanted:
        if column in names:
            places.append(names.index(column))
        elif column.lstrip("-").isdecimal() and -len(names) <= int(column) < len(names):
            places.append(int(column) % len(names))
        else:
            few = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise InvalidInputError(f"{path!r} has no column {column!r}.{did_you_mean(column, names)} It has {few}.")
    return places


def _numbered(d: int) -> list[str]:
    return [str(i) for i in range(d)]


def _open_npy(path: str, columns: list[str] | None) -> Table:
    with open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise InvalidInputError(f"{path!r} is not an NPY file: it does not begin as one.")
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    _check_shape(array.shape, array.dtype, path)
    n, d = array.shape
    places = _chosen(_numbered(d), columns, path)
    offset, contiguous, dtype = array.offset, array.flags.c_contiguous, array.dtype
    del array

    def pieces(rows: int) -> Iterator[Any]:
        if not contiguous:  # by columns: only the system knows how to walk through that
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
            for start in range(0, n, rows):
                yield mapped[start : start + rows][:, places]
            return
        with open(path, "rb") as file:  # not a memory map: pages that were read would count as ours
            file.seek(offset)
            for start in range(0, n, rows):
                count = min(rows, n - start) * d
                values = np.fromfile(file, dtype, count)
                if len(values) != count:
                    raise StorageError(f"{path!r} is truncated: it ends before row {start + len(values) // d:,}.")
                piece = values.reshape(-1, d)
                yield piece if len(places) == d and columns is None else piece[:, places]

    return Table(tuple(str(i) for i in places), n, dtype, pieces)


def _open_hdf5(path: str, columns: list[str] | None, dataset: str | None) -> Table:
    h5py = _imported("h5py", "HDF5")
    with h5py.File(path, "r") as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if getattr(item, "ndim", 0) == 2 else None)
        if dataset is None:
            if len(names) != 1:
                listed = f"it has {', '.join(names[:8])}" if names else "it has none"
                raise InvalidInputError(f"{path!r}: say which table with --dataset; {listed}.")
            dataset = names[0]
        if dataset not in file or not hasattr(file[dataset], "shape"):
            raise InvalidInputError(
                f"{path!r} has no dataset {dataset!r}.{did_you_mean(dataset, names)} It has {', '.join(names[:8])}."
            )
        array = file[dataset]
        _check_shape(array.shape, array.dtype, f"{path}:{dataset}")
        (n, d), dtype, unit = array.shape, array.dtype, array.chunks[0] if array.chunks else 1
    places = _chosen(_numbered(d), columns, path)

    def pieces(rows: int) -> Iterator[Any]:
        step = max(unit, rows // unit * unit)  # chunks of the file are decoded once
        with h5py.File(path, "r") as file:
            for start in range(0, n, step):
                piece = file[dataset][start : start + step]
                yield piece if columns is None else piece[:, places]

    held = unit * d * dtype.itemsize
    return Table(tuple(str(i) for i in places), n, dtype, pieces, held)


def _open_parquet(path: str, columns: list[str] | None) -> Table:
    parquet = _imported("pyarrow.parquet", "Parquet")
    files = [path]
    if os.path.isdir(path):
        files = sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith((".parquet", ".pq")))
        if not files:
            raise InvalidInputError(f"The folder {path!r} has no .parquet files.")
    names, dtypes, n, held = None, None, 0, 0
    for name in files:
        with parquet.ParquetFile(name) as file:
            own = file.schema_arrow
            if names is None:
                names, dtypes = list(own.names), [field.type for field in own]
            elif list(own.names) != names:
                raise InvalidInputError(f"{name!r} has other columns than {files[0]!r}.")
            n += file.metadata.num_rows
            groups = (file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
            held = max(held, max(groups, default=0))
    assert names is not None
    assert dtypes is not None
    places = _chosen(names, columns, path)
    chosen = [names[i] for i in places]
    kinds = [_arrow_dtype(dtypes[i], names[i], path) for i in places]

    def pieces(rows: int) -> Iterator[Any]:
        for name in files:
            with parquet.ParquetFile(name) as file:
                for batch in file.iter_batches(batch_size=rows, columns=chosen):
                    columns_of = [batch.column(chosen_name).to_numpy(zero_copy_only=False) for chosen_name in chosen]
                    yield np.column_stack(columns_of) if columns_of else np.empty((0, 0))

    return Table(tuple(chosen), n, np.result_type(*kinds), pieces, held)


def _arrow_dtype(kind: Any, name: str, path: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(kind.to_pandas_dtype())
    except NotImplementedError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf":
        raise InvalidInputError(
            f"The column {name!r} of {path!r} is of type {kind}, not a number: leave it out with --columns."
        )
    return dtype


def _open_csv(path: str, columns: list[str] | None, header: bool, delimiter: str | None) -> Table:
    import pandas as pd

    separator = delimiter or ("\t" if path.lower().endswith((".tsv", ".tsv.gz")) else ",")
    options: dict[str, Any] = {"sep": separator, "header": 0 if header else None, "skipinitialspace": True}
    if int(pd.__version__.partition(".")[0]) < 3:
        options["float_precision"] = "round_trip"  # the numbers that are written there, to the last bit
    try:
        first = pd.read_csv(path, nrows=100, **options)
    except pd.errors.EmptyDataError:
        raise InvalidInputError(f"{path!r} is empty.") from None
    if not len(first):
        raise InvalidInputError(f"{path!r} has no rows below its header ({', '.join(map(str, first.columns[:8]))}).")
    names = [str(name) for name in first.columns]
    if header and names and all(_is_number(name) for name in names):
        raise InvalidInputError(f"The first line of {path!r} is numbers, not names: pass --no-header.")
    places = _chosen(names, columns, path)
    for i in places:
        if first.dtypes.iloc[i].kind not in "biuf":
            raise InvalidInputError(_no_number(path, names, i, first.iloc[:, i], separator, header))

    def pieces(rows: int) -> Iterator[Any]:
        seen = 0
        try:
            with pd.read_csv(path, chunksize=rows, usecols=places, dtype=np.float64, **options) as frames:
                for frame in frames:
                    # usecols keeps the order of the file
                    order = [sorted(places).index(i) for i in places]
                    yield frame.to_numpy()[:, order]
                    seen += len(frame)
        except ValueError as error:
            raise InvalidInputError(
                f"{path!r} has something that is no number, in row {seen:,} or later: {error}."
            ) from None

    return Table(tuple(names[i] for i in places), None, np.dtype(np.float64), pieces)


def _no_number(path: str, names: list[str], i: int, column: Any, separator: str, header: bool) -> str:
    """Say what in a column is no number, and what may be done about it."""
    row = next(k for k, value in enumerate(column) if isinstance(value, str) and not _is_number(value))
    word = str(column.iloc[row])
    others = [mark for mark in (";", "\t", "|", " ", ",") if mark != separator and mark in word]
    if len(names) == 1 and others:
        return (
            f"{path!r} has one column, and {word!r} in it: columns may be separated by {others[0]!r}. "
            f"Pass --delimiter {others[0]!r}."
        )
    text = (
        f"The column {names[i]!r} of {path!r} has a word in it: {word!r} in line {row + 1 + header}. Leave the column "
    )
    text += "out with --columns, or pass another --delimiter."
    return text if header or row else text + " If the first line is names, leave out --no-header."


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_shape(shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> None:
    if len(shape) != 2:
        raise InvalidInputError(
            f"{what!r} has {len(shape)} dimension{'s' * (len(shape) != 1)}; a table of rows and columns has 2."
        )
    if dtype.kind not in "biuf":
        raise InvalidInputError(f"{what!r} is of dtype {dtype}; daskkcl clusters real numbers.")


def _imported(module: str, what: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise InvalidInputError(
            f"Reading {what} needs {package}, which is not installed: pip install 'daskkcl[convert]'."
        ) from None
