"""``daskkcl fit``."""

from __future__ import annotations

import os
import shlex
import sys
import time
from typing import Any

import click

from ..errors import InvalidInputError, Terminated
from .common import (
    COMPONENT,
    JSON,
    QUIET,
    SCHEDULER,
    STORAGE,
    check_apart,
    check_place,
    connected,
    emit,
    finite,
    runs,
    show_progress,
    storage,
    with_options,
)
from .flags import Sections, given, parameter_flags, read_config

__all__ = ["command"]

_OWN = (
    "data",
    "out",
    "overwrite",
    "checkpoint",
    "save",
    "report",
    "component",
    "scheduler",
    "sample_weight",
    "storage_options",
)


@click.command("fit", cls=Sections, short_help="Cluster the rows of a Zarr.")
@click.argument("data", required=False)
@with_options(
    click.option("--algo", metavar="NAME", help="The algorithm, okfcm by default; 'daskkcl algorithms' lists them."),
    click.option("--memory-limit", metavar="SIZE", help="The most memory of the process, or of each worker: 512MiB."),
    click.option("--out", metavar="PATH", help="Write labels (and memberships) there as Zarr."),
    click.option("--save", metavar="PATH", help="Write the model there, for 'daskkcl predict'."),
    click.option("--report", metavar="PAGE", help="Write one page of HTML about the run there."),
    click.option("--checkpoint", metavar="PATH", help="Keep the state there; the same command goes on from it."),
    click.option("--overwrite/--no-overwrite", default=None, help="Replace what stands at --out, --save, --report."),
    click.option("--config", metavar="FILE", help="Parameters from a TOML file; flags win."),
    click.option("--sample-weight", metavar="FILE", help="Weights of the rows, an NPY file (fuzzy algorithms)."),
    SCHEDULER,
    COMPONENT,
    STORAGE,
    QUIET,
    JSON,
)
@parameter_flags()
@runs
def command(
    data: str | None,
    config: str | None,
    storage_options: tuple[str, ...],
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Cluster the rows of DATA, the path or URL of a Zarr.

    Every parameter of every algorithm is a flag; names in brackets say which algorithms have it, if few do.
    'daskkcl algorithms NAME' lists those of one with their defaults.
    """
    known = {*_OWN, *options, "memory_limit", "algo"}
    settings = {**read_config(config, known), **given(options)}
    data = data or settings.pop("data", None)
    settings.pop("data", None)
    if data is None:
        raise click.UsageError('Say which data: daskkcl fit DATA, or data = "..." in the file of --config.')
    save, scheduler, page = (settings.pop(name, None) for name in ("save", "scheduler", "report"))
    settings["storage_options"] = storage(storage_options) or settings.get("storage_options")
    checkpoint = settings.get("checkpoint")
    from ..api import fit
    from .info import expect_table

    expect_table(data, settings.get("component"))
    overwrite = settings.pop("overwrite", False)
    if settings.get("out") is not None:
        settings["overwrite"] = overwrite
    elif overwrite and save is None and page is None:
        raise InvalidInputError("--overwrite goes with --out, --save or --report: there is nothing to overwrite.")
    check_apart(out=settings.get("out"), save=save, report=page, checkpoint=checkpoint)
    check_place("--save", save, overwrite)
    check_place("--report", page, overwrite)
    check_place("--out", settings.get("out"), overwrite or checkpoint is not None)  # a stopped run may have begun it
    began = time.perf_counter()
    with connected(scheduler) as client:
        try:
            model = fit(data, progress=show_progress(quiet), client=client, **settings)
        except KeyboardInterrupt as error:
            error.__notes__ = [_how_to_go_on(checkpoint)]  # in place of what to do in Python
            raise
        except Terminated:
            click.echo(f"Terminated.\n{_how_to_go_on(checkpoint)}", err=True)
            raise
        seconds = time.perf_counter() - began
        if save is not None:
            model.save(save, overwrite=overwrite)
        facts = _facts(model, data, seconds, scheduler is None)
        if page is not None:
            model.report(page, overwrite=overwrite)
        facts |= {"out": settings.get("out"), "model": save, "report": page}
    emit(as_json, facts, _summary(model, facts))


def _how_to_go_on(checkpoint: str | None) -> str:
    if checkpoint is None:
        return "Nothing was kept. With --checkpoint PATH the same command goes on where it stopped."
    from ..schedules.checkpoint import saved_seed

    try:
        begun = saved_seed(checkpoint) is not None
    except Exception:
        begun = False
    if not begun:
        return f"The run had not come to a state worth keeping; {checkpoint} holds none."
    words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
    if words[0] == "__main__.py":
        words[:1] = ["python", "-m", "daskkcl"]
    return f"The state is in {checkpoint}. To go on:\n  {shlex.join(words)}"


def _facts(model: Any, data: str, seconds: float, local: bool) -> dict[str, Any]:
    from ..system import peak_bytes

    plan = model.plan_
    return {
        "algorithm": model.algorithm,
        "data": data,
        "n_rows": int(plan.n_rows),
        "n_features": int(model.n_features_in_),
        "n_clusters": int(model.n_clusters_),
        "cluster_sizes": model.cluster_sizes_.tolist(),
        "objective": finite(model.objective_),
        "history": [finite(value) for value in model.history_],
        "n_iter": int(model.n_iter_),
        "gamma": None if model.gamma_ is None else finite(float(model.gamma_)),
        "seconds": round(seconds, 3),
        "peak_bytes": peak_bytes() if local else None,
        "planned_bytes": int(plan.peak_bytes),
        "limit_bytes": int(plan.limit_bytes),
    }


def _summary(model: Any, facts: dict[str, Any]) -> str:
    from ..capacity.forecast import format_seconds
    from ..system import format_bytes

    sizes = facts["cluster_sizes"]
    shown = "  ".join(f"{size:,}" for size in sizes[:12]) + ("  ..." if len(sizes) > 12 else "")
    dropped = facts["n_rows"] - sum(sizes)
    lines = [
        ("algorithm", f"{facts['algorithm']} ({type(model).__name__})"),
        ("rows", f"{facts['n_rows']:,} × {facts['n_features']:,}" + (f", {dropped:,} dropped" if dropped else "")),
        ("clusters", str(facts["n_clusters"])),
        ("sizes", shown),
        ("objective", f"{model.objective_:.6g}, after {facts['n_iter']:,} round{'s' * (facts['n_iter'] != 1)}"),
        ("time", format_seconds(facts["seconds"])),
    ]
    if facts["peak_bytes"] is not None:
        lines.append(("memory", f"{format_bytes(facts['peak_bytes'])} of {format_bytes(facts['limit_bytes'])} allowed"))
    for name, place in (("labels", facts["out"]), ("model", facts["model"]), ("report", facts["report"])):
        if place is not None:
            lines.append((name, str(place)))
    return "\n".join(f"{name:<11}{text}" for name, text in lines)
