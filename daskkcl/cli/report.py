"""``daskkcl report``."""

from __future__ import annotations

import click

from .common import runs

__all__ = ["command"]


@click.command("report", short_help="Write one page of HTML about a saved model.")
@click.argument("model_path", metavar="MODEL")
@click.argument("page")
@click.option("--classes", metavar="FILE", help="Known classes of the rows, an NPY file, to compare with.")
@click.option("--overwrite", is_flag=True, help="Replace a page that is there.")
@runs
def command(model_path: str, page: str, classes: str | None, overwrite: bool) -> None:
    """Write PAGE, one page of HTML about MODEL that needs nothing from anywhere.

    'daskkcl fit --report PAGE' does so right after a fit, with the labels of the rows at hand.
    """
    from ..api import load
    from .flags import value_of

    known = None if classes is None else value_of("classes", classes)
    click.echo(str(load(model_path).report(page, y=known, overwrite=overwrite)))
