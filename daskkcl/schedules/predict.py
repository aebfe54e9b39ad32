"""Lazy answers about any rows: labels, memberships and distances as dask arrays."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from ..blocks.outputs import answer_chunks
from ..blocks.sources import Source
from ..planning import Layout, Stage, block_edges
from ..system import single_threaded
from .engine import Engine
from .setup import Problem
from .tasks import Model, Reader, distance_block, label_block, measurement_block, membership_block

__all__ = [
    "block_layout",
    "block_rows",
    "compute_here",
    "label_chunks",
    "label_range",
    "lazy_distances",
    "lazy_labels",
    "lazy_measurements",
    "lazy_memberships",
    "writing_stage",
]

_BLOCK_BYTES = 8 * 2**20


def block_layout(source: Source, model: Model, threads: int) -> Layout:
    """Return blocks of whole tiles, about eight mebibytes of rows and answers."""
    return block_rows(source, model.reader, 8 * model.centres.n_clusters, threads)


def block_rows(source: Source, reader: Reader, answer_bytes: int, threads: int = 1) -> Layout:
    """Return blocks of whole tiles, about eight mebibytes of rows and answers of so many bytes each."""
    return Layout("predict", _block_rows(source, reader.tile_rows, answer_bytes), threads, 0)


def _block_rows(source: Source, tile: int, answer_bytes: int) -> int:
    row_bytes = max(64, source.row_bytes + answer_bytes)
    return tile * max(1, _BLOCK_BYTES // (row_bytes * tile))


def writing_stage(problem: Problem, labelling: Stage) -> Stage:
    """Return the stage that writes memberships: blocks are computed, joined to chunks of the store and encoded."""
    source, answer_bytes = problem.source, problem.c * problem.dtype.itemsize
    block = _block_rows(source, labelling.quantum, 8 * problem.c)
    rows = max(_answer_chunks(source, answer_bytes)[0], block)
    costs = {"row_bytes": problem.row_bytes + 3 * answer_bytes + 16, "lookahead": 0, "block_bytes": 1}
    return replace(labelling, name="writing", quantum=min(rows, problem.n_rows), **costs)


def _lazy(source: Source, layout: Layout, model: Any, function: Any, columns: int | None, dtype: Any) -> Any:
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    edges = block_edges(source.n_rows, layout.block_rows)
    x = source.blocks(edges)
    name = f"{function.__name__}-{os.urandom(8).hex()}"
    shared = f"model-{name}"  # once in the graph, not once a block
    layer: dict[Any, Any] = {shared: model}
    for i, start in enumerate(edges[:-1]):
        key = (name, i) if columns is None else (name, i, 0)
        layer[key] = (function, (x.name, i, 0), start, shared)
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[x])
    rows = tuple(np.diff(edges).tolist())
    chunks = (rows,) if columns is None else (rows, (columns,))
    result = da.Array(graph, name, chunks, dtype=dtype)
    row_bytes = (columns or 1) * np.dtype(dtype).itemsize
    return result.rechunk({0: _answer_chunks(source, row_bytes)})


def _answer_chunks(source: Source, row_bytes: int) -> tuple[int, ...]:
    """Return the chunks of an answer: whole lines of the dimensions that rows were stacked from, if they were."""
    if source.frame is not None:
        return source.frame.row_chunks(row_bytes)
    return answer_chunks(source.row_chunks, row_bytes)


def compute_here(lazy: Any) -> Any:
    """Compute a lazy answer on the threads of this process."""
    from dask import threaded

    with single_threaded():
        return lazy.compute(scheduler=threaded.get)


def label_chunks(source: Source) -> tuple[int, ...]:
    """Return the chunks in which labels of a run are handed out."""
    return source.row_chunks if source.frame is None else _answer_chunks(source, 4)


def label_range(labels: Any, engine: Engine) -> tuple[int, int]:
    """Return the lowest and the highest of some labels, numpy or dask."""
    ends = labels.min(), labels.max()
    lowest, highest = ends if isinstance(labels, np.ndarray) else engine.compute(ends)
    return int(lowest), int(highest)


def lazy_labels(source: Source, model: Model) -> Any:
    """Return the label of every row."""
    return _lazy(source, block_layout(source, model, 1), model, label_block, None, np.int32)


def _lazy_columns(source: Source, model: Model, function: Any) -> Any:
    layout, map_ = block_layout(source, model, 1), model.reader.map_
    return _lazy(source, layout, model, function, model.centres.n_clusters, map_.dtype)


def lazy_memberships(source: Source, model: Model) -> Any:
    """Return the memberships of every row."""
    return _lazy(
        source,
        block_layout(source, model, 1),
        model,
        membership_block,
        model.centres.n_clusters,
        model.reader.map_.dtype,
    )


def lazy_distances(source: Source, model: Model) -> Any:
    """Return the distance of every row to every centre."""
    return _lazy(
        source, block_layout(source, model, 1), model, distance_block, model.centres.n_clusters, model.reader.map_.dtype
    )


def lazy_measurements(source: Source, reader: Reader) -> Any:
    """Return the measurements of every row."""
    columns, dtype = reader.map_.n_measurements, reader.map_.dtype
    layout = block_rows(source, reader, 2 * columns * dtype.itemsize)
    return _lazy(source, layout, reader, measurement_block, columns, dtype)
