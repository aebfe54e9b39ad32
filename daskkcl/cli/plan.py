"""``daskkcl plan``."""

from __future__ import annotations

from typing import Any

import click

from .common import COMPONENT, JSON, STORAGE, emit, runs, storage, with_options
from .flags import Sections, given, parameter_flags, read_config

__all__ = ["command"]


@click.command("plan", cls=Sections, short_help="Say what a fit would take, without doing it.")
@click.argument("data", required=False)
@with_options(
    click.option("--algo", metavar="NAME", help="The algorithm, okfcm by default."),
    click.option("--rows", "n_rows", metavar="N", help="Rows of a table that need not exist: 1e10."),
    click.option("--features", "n_features", metavar="D", help="Its columns."),
    click.option("--stored", metavar="DTYPE", help="What its values are stored as; float32."),
    click.option("--chunk-rows", metavar="N", help="Rows of its chunks."),
    click.option("--row-entries", metavar="N", help="Stored values of a row, if it is sparse."),
    click.option("--workers", metavar="N", help="Dask workers; none: this process."),
    click.option("--threads", metavar="N", help="Threads of the process, or of each worker."),
    click.option("--memory-limit", metavar="SIZE", help="Of the process, or of each worker: 512MiB."),
    click.option("--bandwidth", metavar="SIZE", help="What the store delivers in a second to all readers: 2GB."),
    click.option("--passes", metavar="N", help="Passes to reckon with, where the algorithm goes on until it rests."),
    click.option("--writes/--no-writes", default=None, help="Memberships are written (--out)."),
    click.option("--config", metavar="FILE", help="Parameters from a TOML file; flags win."),
    COMPONENT,
    STORAGE,
    JSON,
)
@parameter_flags()
@runs
def command(
    data: str | None, config: str | None, storage_options: tuple[str, ...], as_json: bool, **options: Any
) -> None:
    """Say what a fit of DATA would take: memory, time and traffic, stage by stage. Only shapes are read.

    Without DATA, --rows and --features describe a table that need not exist.
    """
    of_fit = (
        "out",
        "overwrite",
        "checkpoint",
        "save",
        "report",
        "scheduler",
        "sample_weight",
    )  # a file of 'fit' will do
    known = {"data", "storage_options", *of_fit, *options}
    settings = {**read_config(config, known), **given(options)}
    for name in of_fit:
        settings.pop(name, None)
    data = data or settings.pop("data", None)
    settings.pop("data", None)
    settings["storage_options"] = storage(storage_options) or settings.get("storage_options")
    from ..api import plan
    from .info import expect_table

    if data is not None:
        expect_table(data, settings.get("component"))
    costs = plan(data, **settings)
    emit(as_json, costs.to_dict(), str(costs))
