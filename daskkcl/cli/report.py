"""``daskkcl report``."""

from __future__ import annotations

import click

from .common import COMPONENT, check_place, runs

__all__ = ["command"]


@click.command("report", short_help="Write one page of HTML about a saved model.")
@click.argument("model_path", metavar="MODEL")
@click.argument("page")
@click.option("--data", metavar="PATH", help="Rows to draw and to judge: a saved model keeps none.")
@COMPONENT
@click.option("--classes", metavar="FILE", help="Known classes of the rows, an NPY file, to compare with.")
@click.option("--overwrite", is_flag=True, help="Replace a page that is there.")
@runs
def command(
    model_path: str, page: str, data: str | None, component: str | None, classes: str | None, overwrite: bool
) -> None:
    """Write PAGE, one page of HTML about MODEL that needs nothing from anywhere.

    'daskkcl fit --report PAGE' does so right after a fit, with the labels of the rows at hand.
    """
    from ..api import load
    from ..errors import InvalidInputError
    from .flags import value_of
    from .info import expect_table

    check_place("PAGE", page, overwrite)
    known = None if classes is None else value_of("classes", classes)
    if data is not None:
        expect_table(data, component)
    elif component is not None:
        raise InvalidInputError("--component goes with --data: there is no group to look into.")
    if known is not None and data is None:
        raise InvalidInputError("--classes are compared with labels, which saved models do not hold: add --data PATH.")
    click.echo(str(load(model_path).report(page, data, y=known, overwrite=overwrite, component=component)))
