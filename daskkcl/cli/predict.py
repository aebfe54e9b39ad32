"""``daskkcl predict``."""

from __future__ import annotations

import time
from typing import Any

import click

from .common import (
    COMPONENT,
    JSON,
    QUIET,
    SCHEDULER,
    STORAGE,
    connected,
    emit,
    runs,
    show_progress,
    storage,
    with_options,
)

__all__ = ["command"]


@click.command("predict", short_help="Label rows with a saved model.")
@click.argument("model_path", metavar="MODEL")
@click.argument("data")
@with_options(
    click.option("--out", metavar="PATH", required=True, help="Write labels there as Zarr."),
    click.option("--memberships", is_flag=True, help="Write memberships too (models of fuzzy algorithms)."),
    click.option("--overwrite", is_flag=True, help="Replace what stands at --out."),
    SCHEDULER,
    COMPONENT,
    STORAGE,
    QUIET,
    JSON,
)
@runs
def command(
    model_path: str,
    data: str,
    out: str,
    memberships: bool,
    overwrite: bool,
    scheduler: str | None,
    component: str | None,
    storage_options: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Label the rows of DATA with MODEL, which 'daskkcl fit --save' wrote, block by block."""
    from ..api import load
    from ..errors import InvalidInputError
    from .info import expect_table

    show_progress(quiet)
    options: dict[str, Any] = {"component": component, "storage_options": storage(storage_options)}
    model: Any = load(model_path)
    expect_table(data, component)
    if memberships and not model.fuzzy:
        raise InvalidInputError(f"{model_path} is a model of {model.algorithm}, which has no memberships.")
    began = time.perf_counter()
    with connected(scheduler) as client:
        labels = model.predict(data, **options)
        degrees = model.predict_proba(data, **options) if memberships else None
        n_rows = write_answers(out, overwrite, labels, degrees, client, quiet)
    seconds = time.perf_counter() - began
    facts = {"model": model_path, "data": data, "n_rows": n_rows, "out": out, "seconds": round(seconds, 3)}
    emit(as_json, facts, f"{n_rows:,} rows labelled in {seconds:.1f} s: {out}")


def write_answers(out: str, overwrite: bool, labels: Any, memberships: Any, client: Any, quiet: bool) -> int:
    """Write lazy labels and memberships as `fit` writes them."""
    from ..blocks.outputs import Output
    from ..progress import Progress
    from ..schedules.engine import make_engine

    engine = make_engine(client, Progress(False))
    with Output.at(out, overwrite) as output:
        output.write(labels, memberships, labels.chunks[0], engine.compute)
    return int(labels.shape[0])
