"""``daskkcl convert``."""

from __future__ import annotations

import time

import click

from .common import JSON, QUIET, check_place, emit, runs, show_progress, with_options

__all__ = ["command"]


@click.command("convert", short_help="Turn CSV, Parquet, NPY or HDF5 into a well-chunked Zarr.")
@click.argument("source")
@click.argument("out")
@with_options(
    click.option("--format", "format_", metavar="NAME", help="csv, parquet, npy or hdf5; by the name of the file."),
    click.option("--columns", metavar="A,B,...", help="Only these columns, by name or number from 0, in this order."),
    click.option("--header/--no-header", default=True, show_default=True, help="The first line of a CSV is names."),
    click.option("--delimiter", metavar="CHARACTER", help="What separates the columns of a CSV; a comma."),
    click.option("--dataset", metavar="NAME", help="The table inside an HDF5 file."),
    click.option("--dtype", metavar="DTYPE", help="Of the Zarr; as in the file, float64 and CSV as float32."),
    click.option("--chunk-rows", type=click.IntRange(1), metavar="N", help="Rows of a chunk; about 8 MiB."),
    click.option("--memory-limit", metavar="SIZE", help="The most memory of the process."),
    click.option("--overwrite", is_flag=True, help="Replace a Zarr that daskkcl wrote."),
    QUIET,
    JSON,
)
@runs
def command(
    source: str,
    out: str,
    format_: str | None,
    columns: str | None,
    header: bool,
    delimiter: str | None,
    dataset: str | None,
    dtype: str | None,
    chunk_rows: int | None,
    memory_limit: str | None,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Turn SOURCE, a file or a folder of Parquet files, into OUT, a Zarr array with chunks of whole rows.

    The table is read in pieces; OUT appears only when it is complete.
    """
    from ..blocks.convert import convert_table
    from ..blocks.tables import open_table
    from ..progress import Progress
    from ..system import parse_bytes, return_large_arrays

    limit = None if memory_limit is None else parse_bytes(memory_limit)
    if limit is not None:
        return_large_arrays()
    wanted = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    check_place("OUT", out, overwrite)
    table = open_table(source, format_, wanted, header, delimiter, dataset)
    began, progress = time.perf_counter(), Progress(show_progress(quiet))
    progress.begin("converting", table.n_rows or 0)
    try:
        n_rows, d, n_missing = convert_table(table, out, dtype, chunk_rows, limit, overwrite, advance=progress.advance)
    finally:
        progress.end()
    seconds = time.perf_counter() - began
    facts = {"source": source, "out": out, "n_rows": n_rows, "n_features": d, "n_missing": n_missing}
    facts["columns"] = list(table.columns)
    text = f"{n_rows:,} rows × {d:,} columns in {seconds:.1f} s: {out}"
    if n_missing:
        have = "row has" if n_missing == 1 else "rows have"
        text += f"\n{n_missing:,} {have} NaN or infinity (empty or absent fields are NaN)"
        text += ": 'daskkcl fit --nan drop' leaves them out"
    emit(as_json, {**facts, "seconds": round(seconds, 3)}, text)
