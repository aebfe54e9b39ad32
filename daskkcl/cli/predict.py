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
    check_place,
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
    click.option("--memory-limit", metavar="SIZE", help="The most memory the process may occupy, such as 1GiB."),
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
    memory_limit: str | None,
    scheduler: str | None,
    component: str | None,
    storage_options: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Label the rows of DATA with MODEL, which 'daskkcl fit --save' wrote, block by block."""
    from ..api import load
    from ..errors import InvalidInputError
    from ..progress import Progress
    from .info import expect_table

    progress = Progress(show_progress(quiet))
    options: dict[str, Any] = {"component": component, "storage_options": storage(storage_options)}
    model: Any = load(model_path)
    expect_table(data, component)
    check_place("--out", out, overwrite)
    if memberships and not model.fuzzy:
        raise InvalidInputError(f"{model_path} is a model of {model.algorithm}, which has no memberships.")
    began = time.perf_counter()
    with connected(scheduler) as client:
        if client is None:
            options["memory_limit"] = memory_limit
        elif memory_limit is not None:
            raise InvalidInputError("--memory-limit is for this process; workers have limits of their own.")
        labels = model.predict(data, **options)
        degrees = model.predict_proba(data, **options) if memberships else None
        n_rows = write_answers(out, overwrite, data, labels, degrees, client, progress)
    seconds = time.perf_counter() - began
    facts = {"model": model_path, "data": data, "n_rows": n_rows, "out": out, "seconds": round(seconds, 3)}
    emit(as_json, facts, f"{n_rows:,} rows labelled in {seconds:.1f} s: {out}")


def write_answers(
    out: str, overwrite: bool, data: str, labels: Any, memberships: Any, client: Any, progress: Any
) -> int:
    """Write lazy labels and memberships as `fit` writes them."""
    from dask.callbacks import Callback

    from ..blocks.outputs import Output
    from ..schedules.engine import make_engine

    engine, n_rows = make_engine(client, progress), int(labels.shape[0])
    answers = [answer for answer in (labels, memberships) if answer is not None]
    blocks = sum(_is_answer(key) for answer in answers for key in answer.dask)
    done = [0]

    def count(key: Any, *_: Any) -> None:
        if _is_answer(key):
            done[0] += 1
            progress.advance(n_rows * done[0] // blocks - n_rows * (done[0] - 1) // blocks)

    progress.begin("labelling", n_rows)
    try:
        with Output.at(out, overwrite, rows=data) as output, Callback(posttask=count):
            output.write(labels, memberships, labels.chunks[0], engine.compute)
    finally:
        progress.end()
    return n_rows


def _is_answer(key: Any) -> bool:
    """Return whether a task makes a block of answers: by itself, or joined to the one that stores it."""
    name = str(key[0] if isinstance(key, tuple) else key)
    return name.startswith(("label_block", "membership_block"))
