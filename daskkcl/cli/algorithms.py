"""``daskkcl algorithms``."""

from __future__ import annotations

import inspect
from typing import Any

import click

from ..errors import InvalidInputError, did_you_mean
from .common import JSON, emit, runs, table
from .flags import described, estimators, parameters_of

__all__ = ["command"]


@click.command("algorithms", short_help="List the algorithms, or the parameters of one.")
@click.argument("name", required=False)
@JSON
@runs
def command(name: str | None, as_json: bool) -> None:
    """List the algorithms, or with NAME the parameters of one."""
    classes = estimators()
    if name is None:
        found = {
            algo: {"class": cls.__name__, "summary": _summary(cls), "fuzzy": cls.fuzzy} for algo, cls in classes.items()
        }
        rows = [(algo, facts["class"], facts["summary"]) for algo, facts in sorted(found.items())]
        emit(as_json, found, table(rows))
        return
    if name not in classes:
        raise InvalidInputError(
            f"{name!r} is not known; there are {', '.join(sorted(classes))}.{did_you_mean(name, classes)}"
        )
    cls = classes[name]
    texts = described(cls)
    parameters = {
        field.name: {
            "flag": "--" + field.name.replace("_", "-"),
            "default": _default(field),
            "text": texts.get(field.name, ""),
        }
        for field in parameters_of(cls).values()
        if field.name not in ("progress", "kernel_params")
    }
    facts = {"algorithm": name, "class": cls.__name__, "summary": _summary(cls), "parameters": parameters}
    rows = [(p["flag"], str(p["default"]), p["text"]) for p in parameters.values()]
    emit(as_json, facts, f"{name}: {_summary(cls)}\n\n" + table(rows))


def _summary(cls: Any) -> str:
    return inspect.cleandoc(cls.__doc__).split("\n\n")[0].replace("\n", " ")


def _default(field: Any) -> Any:
    if field.name == "n_clusters":
        return "auto"  # of fit, and of the command line
    return field.default if isinstance(field.default, (str, int, float, bool, type(None))) else str(field.default)
