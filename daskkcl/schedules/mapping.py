"""Making the map of a run: width, landmarks, and sums over all rows where the map wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ..blocks.codes import codes_are_whole, make_codes, open_codes
from ..blocks.scratch import Scratch
from ..blocks.sources import ArraySource, Source, ZarrSource
from ..kernels import Kernel
from ..kernels.rows import SparseRows, is_sparse
from ..maps.base import Map
from ..maps.landmarks import LandmarkMap, choose_landmarks
from ..maps.nearest import NearestLandmarks
from ..maps.recipes import Making, Stream
from ..maps.spectral import SpectralMap, code_sums
from ..maps.stored import restore_rows, store_rows
from ..maps.streamed import Coded
from ..planning import Plan, block_edges
from ..rules.sums import ExactSum
from .checkpoint import Checkpoint
from .data import Consume, run_blocks
from .engine import Engine
from .graph import Graph
from .landmarks import k_means_landmarks
from .measuring import clean_rows, task

if TYPE_CHECKING:
    from .problem import Problem

__all__ = ["make_map", "settle_centres"]

Floats = NDArray[Any]


def make_map(
    problem: Problem,
    engine: Engine,
    plan: Plan,
    source: Source,
    sample: Floats,
    typical: Floats,
    n_clusters: int,
    scratch: Scratch,
    checkpoint: Checkpoint,
    late: bool = False,
) -> tuple[Map, Map, Source]:
    """Return the map of what will be read, the map of rows, and what will be read: the rows, or codes of them.

    `typical` rows give the width of the kernel: some of the sample, as often as their weights say. `late` leaves what
    centres take of the map to `settle_centres`.
    """
    kernel = None if problem.kernel is None else problem.kernel.resolve(typical)
    landmarks = _landmarks(problem, engine, plan, source, sample, kernel, checkpoint)
    size = len(landmarks) if problem.recipe.uses_landmarks else problem.n_landmarks
    making = Making(sample, landmarks, size, kernel, problem.dtype, problem.key, problem.n_rows, n_clusters)
    made = problem.recipe.begin(making)
    if isinstance(made, Coded):
        return _coded_map(problem, engine, plan, source, made, scratch, checkpoint)
    for number in range(problem.recipe.n_streams):
        stream = cast(Stream, made)
        sums = checkpoint.once(f"map-{number}", lambda: _sums(problem, engine, plan, source, stream))  # noqa: B023
        made = stream.finish([sums[str(i)] for i in range(len(sums))])
    map_ = cast(Map, made)
    if isinstance(map_, LandmarkMap) and engine.local and (late or plan.keep == "measurements"):
        map_.settle_measuring()  # `settle_centres` does the rest, while rows are measured or first centres found
    else:
        map_.settle()
    return map_, map_, source


@task
def settle_centres(map_: Map) -> None:
    """Make what centres take of a map, eigenvectors mostly, if that has waited."""
    if isinstance(map_, LandmarkMap):
        map_.settle()


# --- landmarks ---------------------------------------------------------------------------------------------------


def _landmarks(
    problem: Problem,
    engine: Engine,
    plan: Plan,
    source: Source,
    sample: Any,
    kernel: Kernel | None,
    checkpoint: Checkpoint,
) -> Any:
    if not problem.recipe.uses_landmarks:
        return sample[:0]
    if not isinstance(problem.landmarks, str):
        return SparseRows.of(problem.landmarks) if is_sparse(sample) else problem.landmarks
    m = min(problem.n_landmarks, len(sample))
    if problem.landmarks == "kmeans":
        found = checkpoint.once(
            "landmarks", lambda: store_rows("rows", k_means_landmarks(problem, engine, plan, source, sample, m))
        )
        return restore_rows("rows", found, problem.source.n_features)
    return choose_landmarks(problem.landmarks, sample, m, kernel, problem.key)


# --- sums over all rows ------------------------------------------------------------------------------------------


def _pass(engine: Engine, plan: Plan, source: Source, title: str, work: Any, combine: Any, watch: str) -> Any:
    """Run ``work(graph)`` on the blocks of the mapping stage and combine what comes of them."""
    layout = plan.layout("mapping")
    engine = engine.with_threads(layout.threads)
    edges = block_edges(source.n_rows, layout.block_rows)
    engine.progress.begin(title, source.n_rows)
    (total,) = run_blocks(engine, source, edges, work, combine, watch, layout.block_rows)
    engine.progress.end()
    return total


def _sums(problem: Problem, engine: Engine, plan: Plan, source: Source, stream: Stream) -> dict[str, Floats]:
    """Return the sums over all rows that a map in the making wants, numbered."""

    def work(graph: Graph) -> Consume:
        shared = graph.value((stream, problem.tile_rows, problem.nan, problem.dtype))
        return lambda start, rows: graph.call(map_block, rows, start, shared)

    totals = _pass(engine, plan, source, stream.title, work, add_sums, "map_block")
    return {str(i): total.value for i, total in enumerate(totals)}


@task
def map_block(rows: Floats, start: int, shared: Any) -> list[ExactSum]:
    """Return what the tiles of a block add to a map in the making."""
    stream, tile_rows, nan, dtype = shared
    totals: list[ExactSum] | None = None
    for first in range(0, len(rows), tile_rows):
        tile, bad = clean_rows(rows[first : first + tile_rows], start + first, nan, dtype)
        parts = stream.sums(tile if bad is None else tile[~bad])
        totals = totals or [ExactSum.zeros(part.shape) for part in parts]
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
    return totals or []


def add_sums(parts: list[list[ExactSum]]) -> list[ExactSum]:
    """Add up what blocks gave, in order."""
    total = parts[0]
    for part in parts[1:]:
        total = [a + b for a, b in zip(total, part, strict=True)]
    return total


# --- codes -------------------------------------------------------------------------------------------------------


def _coded_map(
    problem: Problem,
    engine: Engine,
    plan: Plan,
    source: Source,
    made: Coded,
    scratch: Scratch,
    checkpoint: Checkpoint,
) -> tuple[Map, Map, Source]:
    """Turn rows into codes once; leave these in memory or scratch, where all later passes read them.

    Workers of a cluster without a scratch folder in common find no place for them: rows are then read again.
    """
    from scipy.sparse import csr_array

    nearest = made.nearest
    nearest.settle()
    columns, layout = 2 * nearest.n_neighbors, plan.layout("mapping")
    target: Any = None
    # A map on its own has nobody who reads them again.
    stored = problem.keep_codes and plan.keep != "codes" and (engine.local or problem.scratch is not None)
    if problem.keep_codes and plan.keep == "codes" and engine.local:
        target = np.empty((source.n_rows, columns), dtype=np.float32)

    def encode() -> dict[str, Any]:
        nonlocal target
        if stored:
            target = make_codes(scratch, (source.n_rows, columns), layout.block_rows)

        def work(graph: Graph) -> Consume:
            shared = graph.value((nearest, problem.tile_rows, problem.nan, target))
            return lambda start, rows: graph.call(encode_block, rows, start, shared)

        products, sums = _pass(engine, plan, source, "nearest landmarks", work, add_products, "encode_block")
        return {"values": products.data, "columns": products.indices, "starts": products.indptr, "sums": sums}

    found = checkpoint.once("codes", encode, lambda: not stored or codes_are_whole(scratch, source.n_rows))
    m = len(found["sums"])
    products = csr_array((found["values"], found["columns"], found["starts"]), shape=(m, m))
    map_: SpectralMap = made.finish(products, found["sums"])
    map_.settle()
    if not stored and target is None:
        return map_, map_, source
    codes = ZarrSource(open_codes(scratch)) if stored else ArraySource(target)
    return map_.codes, map_, codes


@task
def encode_block(rows: Floats, start: int, shared: Any) -> tuple[Any, Any]:
    """Turn a block of rows into codes, put them in their place, and return the sums of their products."""
    nearest, tile_rows, nan, target = shared
    codes = encode_rows(rows, start, nearest, tile_rows, nan)
    if target is not None:
        target[start : start + len(codes)] = codes
    return code_sums(codes, nearest.n_landmarks, nearest.bits)


def encode_rows(rows: Floats, start: int, nearest: NearestLandmarks, tile_rows: int, nan: str) -> NDArray[np.float32]:
    """Return the codes of a block, tile by tile; NaN for dropped rows."""
    codes = np.empty((len(rows), 2 * nearest.n_neighbors), dtype=np.float32)
    for first in range(0, len(rows), tile_rows):
        tile, bad = clean_rows(rows[first : first + tile_rows], start + first, nan, nearest.dtype)
        nearest.encode(tile, codes[first : first + tile_rows])
        if bad is not None:
            codes[first : first + tile_rows][bad] = np.nan
    return codes


def add_products(parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Add up integer sums; their order does not matter."""
    products, sums = parts[0]
    for more_products, more_sums in parts[1:]:
        products, sums = products + more_products, sums + more_sums
    return products, sums
