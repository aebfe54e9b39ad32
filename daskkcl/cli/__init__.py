"""The command line: ``daskkcl``, ``python -m daskkcl``, ``dask daskkcl``.

Commands are imported when they are called: ``daskkcl --help`` loads click and nothing else.
"""

from __future__ import annotations

import importlib
from typing import Any

import click

from ..errors import did_you_mean

__all__ = ["main"]

_COMMANDS = {
    # name: what it does, for the list
    "fit": "Cluster the rows of a Zarr.",
    "predict": "Label rows with a saved model.",
    "plan": "Say what a fit would take, without doing it.",
    "info": "Say what a model, a checkpoint, a result or a Zarr holds.",
    "report": "Write one page of HTML about a saved model.",
    "convert": "Turn CSV, Parquet, NPY or HDF5 into a well-chunked Zarr.",
    "algorithms": "List the algorithms, or the parameters of one.",
    "demo": "Cluster a Zarr larger than the memory limit, and draw the result.",
}

_EPILOG = """\b
Exit codes:
  0    done
  1    the run failed
  2    what was asked cannot be done: a wrong flag, parameter, path or table
  3    nothing fits the memory limit
  130  interrupted (Ctrl-C)
  143  terminated (SIGTERM)"""


class _Commands(click.Group):
    """Imports a command when it is needed, and suggests the nearest when there is none of that name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f".{cmd_name}", __name__).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            near = did_you_mean(args[0], _COMMANDS)
            raise click.UsageError(f"There is no command {args[0]!r}.{near} There are {', '.join(_COMMANDS)}.", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):  # without importing them
            formatter.write_dl(list(_COMMANDS.items()))


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from ..system import version

        click.echo(f"daskkcl {version()}")
        ctx.exit()


@click.group("daskkcl", cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show it.")
def main() -> None:
    """Kernel clustering of data that do not fit in memory, within a memory limit that you set.

    \b
    daskkcl convert table.csv table.zarr
    daskkcl plan table.zarr --n-clusters 10 --memory-limit 1GiB
    daskkcl fit table.zarr --n-clusters 10 --memory-limit 1GiB --out result.zarr --save model.zarr
    """
