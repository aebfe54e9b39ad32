"""Tables in files, to be read in pieces: CSV, Parquet, NPY, HDF5."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInputError, StorageError, did_you_mean, near_path

__all__ = ["Table", "format_of", "open_table"]

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
        raise InvalidInputError(f"There is nothing at {path!r}.{near_path(path)}")
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
    if not isinstance(first.index, pd.RangeIndex):  # pandas would take the columns in front for names of rows
        n = len(names) + first.index.nlevels
        raise InvalidInputError(
            f"The header of {path!r} names {len(names)} columns, and the lines below have {n}. Name all of them, or "
            "remove the header and pass --no-header."
        )
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
            where = _first_word(path, options, places, seen + header) or f"row {seen:,} or later: {error}"
            raise InvalidInputError(f"{path!r} has something that is no number: {where}.") from None

    return Table(tuple(names[i] for i in places), None, np.dtype(np.float64), pieces)


def _first_word(path: str, options: dict[str, Any], places: list[int], line: int) -> str | None:
    """Say where the first value that is no number stands, from some line on; a thousand lines at a time are text."""
    import pandas as pd

    words = options | {"header": None, "skiprows": line, "dtype": str, "usecols": places, "skip_blank_lines": False}
    try:
        with pd.read_csv(path, chunksize=1000, **words) as frames:
            for frame in frames:
                wrong = frame.notna() & frame.apply(pd.to_numeric, errors="coerce").isna()
                if wrong.to_numpy().any():
                    row = int(wrong.any(axis=1).to_numpy().argmax())
                    column = int(wrong.iloc[row].to_numpy().argmax())
                    return f"{frame.iloc[row, column]!r} in line {line + row + 1:,}, column {sorted(places)[column]}"
                line += len(frame)
    except ValueError:
        pass
    return None


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
