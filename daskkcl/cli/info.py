"""``daskkcl info``."""

from __future__ import annotations

import os
from typing import Any

import click

from ..errors import InvalidInputError
from .common import JSON, STORAGE, emit, runs, storage

__all__ = ["command"]


@click.command("info", short_help="Say what a model, a checkpoint, a result or a Zarr holds.")
@click.argument("path")
@STORAGE
@JSON
@runs
def command(path: str, storage_options: tuple[str, ...], as_json: bool) -> None:
    """Say what is at PATH: a saved model, a checkpoint, a result, a Zarr array or group. Nothing in it is run."""
    facts = facts_of(path, storage(storage_options))
    emit(as_json, facts, "\n".join(_lines(facts)))


def expect_table(path: str, component: str | None) -> None:
    """Say what is at a local path when it is known and is no table of rows; leave the rest to whoever opens it."""
    import zarr

    from ..blocks.opening import refuse_a_file
    from ..blocks.sources import local_path

    place = local_path(path)
    if "://" in place or not os.path.exists(place):
        return
    refuse_a_file(place)
    try:
        attributes = dict(zarr.open(place, mode="r").attrs)
    except Exception:
        return
    for mark, what in (("daskkcl_model", "a saved model"), ("daskkcl_checkpoint", "a checkpoint")):
        if mark in attributes and component is None:
            raise InvalidInputError(f"{path!r} is {what}, not a table of rows; 'daskkcl info {path}' shows it.")


def facts_of(path: str, storage_options: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what is at a path."""
    import zarr

    from ..blocks.opening import _open_zarr
    from ..blocks.sources import local_path

    place = local_path(path)
    opened = _open_zarr(place, storage_options)
    attributes = dict(opened.attrs)
    if isinstance(opened, zarr.Array):
        return {"what": "Zarr array", "path": path, **_array(opened)}
    if "daskkcl_model" in attributes:
        return _model(path, attributes["daskkcl_model"], opened)
    if "daskkcl_checkpoint" in attributes:
        return _checkpoint(path, attributes["daskkcl_checkpoint"], opened)
    arrays = {name: _array(opened[name]) for name in sorted(opened.array_keys())}
    groups = sorted(opened.group_keys())
    facts: dict[str, Any] = {"what": "Zarr group", "path": path, "arrays": arrays, "groups": groups}
    ours = attributes.get("daskkcl")
    if isinstance(ours, dict):
        facts["what"] = "result of a fit"
        facts["complete"] = bool(ours.get("complete"))
        facts["version"] = ours.get("version")
    return facts


def _array(array: Any) -> dict[str, Any]:
    import math

    n_bytes = math.prod(array.shape) * array.dtype.itemsize
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "chunks": list(array.chunks),
        "shards": None if array.shards is None else list(array.shards),
        "bytes": n_bytes,
        "chunk_bytes": math.prod(array.chunks) * array.dtype.itemsize,
    }


def _model(path: str, stored: Any, group: Any) -> dict[str, Any]:
    stored = stored if isinstance(stored, dict) else {}
    sizes = group["cluster_sizes"][:].tolist() if "cluster_sizes" in group else None
    return {
        "what": "model",
        "path": path,
        "algorithm": stored.get("algorithm"),
        "version": stored.get("version"),
        "n_features": stored.get("n_features"),
        "n_clusters": int(group["order"].shape[0]) if "order" in group else None,
        "cluster_sizes": sizes,
        "map": stored.get("map"),
        "kernel": stored.get("kernel"),
        "parameters": stored.get("parameters"),
    }


def _checkpoint(path: str, stored: Any, group: Any) -> dict[str, Any]:
    identity = stored.get("identity", {}) if isinstance(stored, dict) else {}
    states = sorted(name for name in group.group_keys() if name.startswith("state-"))
    complete = [name for name in states if "complete" in dict(group[name].attrs)]
    facts: dict[str, Any] = {
        "what": "checkpoint",
        "path": path,
        "algorithm": identity.get("algorithm"),
        "shape": identity.get("shape"),
        "seed": identity.get("seed"),
        "states": len(complete),
        "saved": int(complete[-1].split("-")[1]) if complete and complete[-1].split("-")[1].isdecimal() else 0,
    }
    last = group[complete[-1]] if complete else {}
    for name in ("position", "epoch"):
        if name in last and last[name].shape == ():
            facts[name] = int(last[name][()])
    if "history" in last:
        facts["rounds"] = int(last["history"].shape[0])
    return facts


_NAMES = {
    "bytes": "size",
    "chunk_bytes": "chunk size",
    "n_features": "features",
    "n_clusters": "clusters",
    "cluster_sizes": "sizes",
    "states": "states kept",
    "saved": "states saved",
    "position": "rows met",
    "rounds": "rounds done",
    "epoch": "epochs done",
}


def _lines(facts: dict[str, Any]) -> list[str]:
    """Return the facts for people: a name, once, and what there is of it."""
    lines: list[tuple[str, str]] = []
    for name, value in facts.items():
        if value in (None, [], {}):
            continue
        if isinstance(value, dict):
            given = {inner: item for inner, item in value.items() if item is not None}
            texts = [_shown(name, inner, item) for inner, item in given.items()]
            lines += [(name if k == 0 else "", text) for k, text in enumerate(texts)]
        else:
            lines.append((_NAMES.get(name, name.replace("_", " ")), _value(name, value)))
    return [f"{name:<14}{text}".rstrip() for name, text in lines]


def _shown(name: str, inner: str, item: Any) -> str:
    if name != "arrays":
        return f"{inner} = {_value(inner, item)}"
    return f"{inner}: {_value('shape', item['shape'])} {item['dtype']}, {_value('bytes', item['bytes'])}"


def _value(name: str, value: Any) -> str:
    from ..system import format_bytes

    if isinstance(value, list):
        shown = [f"{item:,}" if isinstance(item, int) else str(item) for item in value[:12]]
        joint = " × " if name in ("shape", "chunks", "shards") else "  "
        return joint.join(shown) + ("  ..." if len(value) > 12 else "")
    if name in ("bytes", "chunk_bytes"):
        return format_bytes(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and name not in ("seed", "random_state") else str(value)
