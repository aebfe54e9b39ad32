"""Lazy answers about any rows: labels, memberships and distances as dask arrays."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from ..blocks.outputs import answer_chunks
from ..blocks.sources import ArraySource, Source
from ..maps.recipes import Fixed
from ..planning import Layout, Stage, block_edges
from ..progress import Progress
from ..system import return_large_arrays, single_threaded
from .engine import Engine, make_engine
from .measuring import Reader
from .problem import Problem
from .setup import plan_stages
from .tasks import Model, distance_block, label_block, measurement_block, membership_block

__all__ = [
    "answer_layout",
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
_TASK_BYTES = 8 * 2**10  # of the tasks that read, answer and store a block, in a graph of all blocks
_REMEDY = "pass data that are stored, and in smaller chunks"


def block_layout(source: Source, model: Model, threads: int) -> Layout:
    """Return blocks of whole tiles, about eight mebibytes of rows and answers."""
    return block_rows(source, model.reader, 8 * model.centres.n_clusters, threads)


def block_rows(source: Source, reader: Reader, answer_bytes: int, threads: int = 1) -> Layout:
    """Return blocks of whole tiles, about eight mebibytes of rows and answers of so many bytes each."""
    return Layout("predict", _block_rows(source, reader.tile_rows, answer_bytes), threads, 0)


def _block_rows(source: Source, tile: int, answer_bytes: int) -> int:
    row_bytes = max(64, source.row_bytes + answer_bytes)
    return tile * max(1, _BLOCK_BYTES // (row_bytes * tile))


def meeting_bytes(source: Source, reader: Reader, n_clusters: int) -> int:
    """Return what a task holds when a tile of rows meets so many centres through a map that is there."""
    map_, rows = reader.map_, min(reader.tile_rows, max(1, source.n_rows))
    m, itemsize = map_.n_measurements, np.dtype(map_.dtype).itemsize
    cells = source.n_features
    if source.sparse:
        cells = Fixed(map_).sparse_width(None, cells, source.row_entries)
    made = rows * ((m + 1) * itemsize + 32) + map_.scratch_bytes(rows, cells)
    if source.sparse:  # a tile made dense, a product before it is in its place
        made += rows * ((2 * itemsize + 8) * m + cells * (itemsize + 8))
    return made + rows * n_clusters * (3 * itemsize + 8)


def reading_stage(name: str, source: Source, tile_rows: int, task_bytes: int, **costs: Any) -> Stage:
    """Return a stage that streams over rows with a model that is there."""
    held = 40 if isinstance(source, ArraySource) else 2 * source.row_bytes + 40
    stage = Stage(
        name,
        row_bytes=held,
        task_bytes=task_bytes,
        quantum=tile_rows,
        unit_rows=max(1, min(source.unit_rows, source.n_rows)),
        unit_bytes=source.unit_bytes,
    )
    return replace(stage, **costs)


def answer_layout(source: Source, reader: Reader, columns: int, answer_bytes: int, memory_limit: int) -> Layout:
    """Return blocks with which answers stay within a limit, or refuse.

    Parameters
    ----------
    columns : int
        Numbers that are computed for a row: distances to so many centres.
    answer_bytes : int
        What of them is handed out.
    """
    engine = make_engine(None, Progress(False))
    engine = engine if source.lazy else engine.here()
    # Whoever computes a lazy answer does so on all threads, and reads ahead as it likes.
    in_flight = {"lookahead": engine.threads} if source.lazy else {}
    quantum = _whole_chunks(source, reader.tile_rows) if source.lazy else reader.tile_rows
    graph = _TASK_BYTES * -(-source.n_rows // quantum)
    answers = 0 if source.lazy else 2 * source.n_rows * answer_bytes
    wide = 16 * source.n_features if source.sparse else 0  # where entries of the landmarks begin, column by column
    task_bytes = meeting_bytes(source, reader, columns)
    stage = reading_stage("answering", source, quantum, task_bytes, fixed_bytes=answers + graph + wide, **in_flight)
    stage = replace(stage, row_bytes=stage.row_bytes + 3 * answer_bytes, remedy=_REMEDY)
    if engine.local:
        return_large_arrays()
    plan = plan_stages(engine, [stage], source.n_rows, memory_limit, fewest_threads=engine.threads)
    return plan.layout("answering")


def _whole_chunks(source: Source, tile_rows: int) -> int:
    """Return the fewest rows of a block that is read on its own: a chunk, which is decoded whole, if it is not huge."""
    rows = source.unit_rows if source.unit_rows * source.row_bytes <= 4 * _BLOCK_BYTES else 1
    return tile_rows * -(-min(rows, max(1, source.n_rows)) // tile_rows)


def writing_stage(problem: Problem, labelling: Stage) -> Stage:
    """Return the stage that writes memberships: blocks are computed, joined to chunks of the store and encoded."""
    source, answer_bytes = problem.source, problem.c * problem.dtype.itemsize
    block = _block_rows(source, labelling.quantum, 8 * problem.c)
    rows = max(_answer_chunks(source, answer_bytes)[0], block)
    costs: dict[str, Any] = {"row_bytes": problem.row_bytes + 3 * answer_bytes + 16, "lookahead": 0, "block_bytes": 1}
    return replace(labelling, name="writing", quantum=min(rows, problem.n_rows), **costs)


def _lazy(source: Source, layout: Layout, model: Any, function: Any, columns: int | None, dtype: Any) -> Any:
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    edges = block_edges(source.n_rows, layout.block_rows)
    x = source.blocks(edges)
    name = f"{function.__name__}-{os.urandom(8).hex()}"
    shared = f"model-{name}"  # once in the graph, not once a block
    layer: dict[Any, Any] = {shared: model.with_own_buffers()}
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


def lazy_labels(source: Source, model: Model, memory_limit: int | None = None) -> Any:
    """Return the label of every row."""
    return _lazy(source, _layout(source, model, 4, memory_limit), model, label_block, None, np.int32)


def lazy_memberships(source: Source, model: Model, memory_limit: int | None = None) -> Any:
    """Return the memberships of every row."""
    return _lazy_columns(source, model, membership_block, memory_limit)


def lazy_distances(source: Source, model: Model, memory_limit: int | None = None) -> Any:
    """Return the distance of every row to every centre."""
    return _lazy_columns(source, model, distance_block, memory_limit)


def _lazy_columns(source: Source, model: Model, function: Any, memory_limit: int | None) -> Any:
    columns, dtype = model.centres.n_clusters, np.dtype(model.reader.map_.dtype)
    layout = _layout(source, model, columns * dtype.itemsize, memory_limit)
    return _lazy(source, layout, model, function, columns, dtype)


def _layout(source: Source, model: Model, answer_bytes: int, memory_limit: int | None) -> Layout:
    if memory_limit is None:
        return block_layout(source, model, 1)
    return answer_layout(source, model.reader, model.centres.n_clusters, answer_bytes, memory_limit)


def lazy_measurements(source: Source, reader: Reader) -> Any:
    """Return the measurements of every row."""
    columns, dtype = reader.map_.n_measurements, reader.map_.dtype
    layout = block_rows(source, reader, 2 * columns * dtype.itemsize)
    return _lazy(source, layout, reader, measurement_block, columns, dtype)
