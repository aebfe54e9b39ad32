"""The data as schedules see them: blocks of rows, perhaps kept, spilled or shuffled, and single rows by number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.scratch import Scratch
from ..blocks.shuffle import Shuffled, write_run
from ..blocks.sources import ArraySource, Source
from ..errors import InvalidInputError
from ..plan import Layout, block_edges
from ..random import Key
from .engine import Engine
from .tasks import BadRowError, Reader, first_bad_row, measure_block, spill_block

__all__ = ["Dataset", "explain_bad_row", "gather", "load_rows", "shuffle"]


def row_blocks(source: Source, edges: list[int]) -> list[Any]:
    """Return the blocks between the edges as delayed values."""
    return list(source.blocks(edges).to_delayed(optimize_graph=True).ravel())


class Dataset:
    """Blocks of rows in order, read again for every pass unless they are kept.

    Parameters
    ----------
    engine : Engine
    source : Source
    layout : Layout
        Rows per block and threads.
    """

    def __init__(self, engine: Engine, source: Source, layout: Layout) -> None:
        self.engine = engine.with_threads(layout.threads)
        self.source = source
        self.edges = block_edges(source.n_rows, layout.block_rows)
        self.block_rows = layout.block_rows
        self._kept: list[Any] | None = None

    @property
    def n_rows(self) -> int:
        """Rows, dropped ones included."""
        return self.source.n_rows

    def blocks(self) -> list[Any]:
        """Return the blocks as delayed values: rows, or measurements if those are kept."""
        return row_blocks(self.source, self.edges) if self._kept is None else self._kept

    def keep_rows(self) -> None:
        """Keep the rows where they are computed (on the workers of a cluster)."""
        self._kept = self.engine.persist(self.blocks())

    def keep_measurements(self, reader: Reader) -> None:
        """Measure all rows once and keep the measurements in memory."""
        from dask.delayed import delayed

        measure, shared = delayed(measure_block, pure=False), delayed(reader, traverse=False)
        self._kept = self.engine.persist(
            [measure(rows, start, shared) for start, rows in zip(self.edges[:-1], self.blocks(), strict=True)]
        )

    def spill_measurements(self, reader: Reader, scratch: Scratch) -> None:
        """Measure all rows once and keep the measurements in scratch."""
        from dask.delayed import delayed

        spill, shared = delayed(spill_block, pure=False), delayed(reader, traverse=False)
        self._kept = self.engine.persist(
            [
                spill(rows, start, shared, scratch.file(f"measurements-{start:012d}"))
                for start, rows in zip(self.edges[:-1], self.blocks(), strict=True)
            ]
        )
        self._scratch = scratch  # the files must outlive the blocks


def gather(engine: Engine, source: Source, rows: NDArray[np.int64], layout: Layout) -> NDArray[Any]:
    """Read single rows by their numbers, in the order asked for."""
    if isinstance(source, ArraySource):
        return source.array[rows]
    from dask.delayed import delayed

    edges = block_edges(source.n_rows, layout.block_rows)
    order = np.argsort(rows, kind="stable")
    cuts = np.searchsorted(rows[order], edges)
    wanted = [i for i in range(len(edges) - 1) if cuts[i] < cuts[i + 1]]
    blocks = row_blocks(source, edges)
    take = delayed(take_rows, pure=False)
    engine.progress.begin("sampling", len(wanted), "blocks")
    parts = engine.with_threads(layout.threads).compute(
        [take(blocks[i], rows[order[cuts[i] : cuts[i + 1]]] - edges[i]) for i in wanted], "take_rows", 1
    )
    engine.progress.end()
    out = np.empty((len(rows), source.n_features), dtype=source.dtype)
    for i, part in zip(wanted, parts, strict=True):
        out[order[cuts[i] : cuts[i + 1]]] = part
    return out


def take_rows(block: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Copy some rows of a block, so that the block can go."""
    return block[rows].copy()


def load_rows(engine: Engine, source: Source, layout: Layout) -> ArraySource:
    """Read everything into one array in this process; only when the plan says that it fits."""
    if isinstance(source, ArraySource):
        return source
    from dask.delayed import delayed

    edges = block_edges(source.n_rows, layout.block_rows)
    out = np.empty((source.n_rows, source.n_features), dtype=source.dtype)
    engine.progress.begin("reading", source.n_rows)
    blocks = row_blocks(source, edges)
    if engine.local:
        fill, target = delayed(fill_rows, pure=False), delayed(_Hold(out), traverse=False)
        tasks = [fill(target, start, block) for start, block in zip(edges[:-1], blocks, strict=True)]
        engine.with_threads(layout.threads).compute(tasks, "fill_rows", layout.block_rows)
    else:
        for start, block in zip(edges[:-1], engine.compute(blocks), strict=True):
            out[start : start + len(block)] = block
    engine.progress.end()
    return ArraySource(out, lazy=source.lazy)


class _Hold:
    """An array that tasks in this process write into; dask must not look inside."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array


def fill_rows(target: _Hold, start: int, block: NDArray[Any]) -> None:
    """Copy a block to its place."""
    target.array[start : start + len(block)] = block


def shuffle(engine: Engine, source: Source, key: Key, bucket_rows: int, layout: Layout, scratch: Scratch) -> Shuffled:
    """Write all rows to scratch in the random order of `key`, ready to be read bucket by bucket."""
    from dask.delayed import delayed

    edges = block_edges(source.n_rows, layout.block_rows)
    shuffled = Shuffled(key, source.n_rows, source.n_features, source.dtype, bucket_rows, tuple(edges), scratch)
    write, shared = delayed(write_run, pure=False), delayed(shuffled, traverse=False)
    engine.progress.begin("shuffling", source.n_rows)
    engine.with_threads(layout.threads).compute(
        [write(block, run, shared) for run, block in enumerate(row_blocks(source, edges))],
        "write_run",
        layout.block_rows,
    )
    engine.progress.end()
    return shuffled


def explain_bad_row(engine: Engine, source: Source, layout: Layout, error: BadRowError) -> InvalidInputError:
    """Find the first row with a NaN or infinity (at or before the one met) and say where it is."""
    from dask.delayed import delayed

    look = delayed(first_bad_row, pure=False)
    edges = block_edges(source.n_rows, layout.block_rows)
    found = (error.row, 0)
    for start, block in zip(edges[:-1], row_blocks(source, edges), strict=True):
        (here,) = engine.compute([look(block, start)])
        if here is not None:
            found = here
            break
    row, column = found
    return InvalidInputError(
        f"Input X contains NaN or infinity: the first is in row {row:,}, column {column:,}. "
        "nan='drop' leaves such rows out and labels them -1."
    )
