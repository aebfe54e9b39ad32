"""``daskkcl demo``."""

from __future__ import annotations

import click

from .common import runs, show_progress

__all__ = ["command"]


@click.command("demo", short_help="Cluster a Zarr larger than the memory limit, and draw the result.")
@click.option("--rows", default=3_200_000, show_default=True, help="Rows to write and cluster.")
@click.option(
    "--memory-limit",
    metavar="SIZE",
    help="What the process may take. 512MiB by default, or what is needed if other packages make the process larger.",
)
@click.option("--output", default="demo-output", show_default=True, help="Folder for the picture.")
@runs
def command(rows: int, memory_limit: str | None, output: str) -> None:
    """Cluster jittered copies of scikit-learn's digits, 780 MiB of them, within 512 MiB, and draw what came out."""
    from ..demo import run

    show_progress(False)
    run(rows, memory_limit, output)
