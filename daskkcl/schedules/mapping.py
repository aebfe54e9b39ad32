"""Making the map of a run: width, landmarks, and sums over all rows where the map wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ..blocks.scratch import Scratch
from ..blocks.sources import ArraySource, Source, ZarrSource
from ..kernels import Kernel, Linear
from ..kernels.rows import SparseRows, is_sparse, join_blocks
from ..maps.base import Map
from ..maps.landmarks import choose_landmarks
from ..maps.nearest import MANY, NearestLandmarks, make_cells
from ..maps.recipes import Making, Stream
from ..maps.spectral import SpectralMap, code_sums
from ..maps.streamed import Coded
from ..planning import Plan, block_edges
from ..random import Key
from ..rules.sums import ExactSum
from .data import Consume, run_blocks
from .engine import Engine
from .graph import Graph
from .tasks import clean_rows, task

if TYPE_CHECKING:
    from .setup import Problem

__all__ = ["k_means_bytes", "k_means_landmarks", "make_map"]

Floats = NDArray[Any]

_WIDTH_ROWS = 2000
_LLOYD_STEPS = 5  # of the landmarks' k-means: they need to be spread well, not to be the best there are
_SEED_ROUNDS = 8
_THREADS = 4  # at most: what the plan counts with
_ROUNDING = 1e-6  # squared distances of sparse rows, as a share of squared lengths, that blocks cannot tell from zero
_SLICE_ROWS, _SLICE_COLUMNS = 1024, 64


def make_map(
    problem: Problem,
    engine: Engine,
    plan: Plan,
    source: Source,
    sample: Floats,
    typical: Floats,
    n_clusters: int,
    scratch: Scratch,
) -> tuple[Map, Map, Source]:
    """Return the map of what will be read, the map of rows, and what will be read: the rows, or codes of them.

    `typical` rows give the width of the kernel: some of the sample, as often as their weights say.
    """
    kernel = None if problem.kernel is None else problem.kernel.resolve(typical)
    landmarks = _landmarks(problem, engine, sample, kernel)
    size = len(landmarks) if problem.recipe.uses_landmarks else problem.n_landmarks
    making = Making(sample, landmarks, size, kernel, problem.dtype, problem.key, problem.n_rows, n_clusters)
    made = problem.recipe.begin(making)
    if isinstance(made, Coded):
        return _coded_map(problem, engine, plan, source, made, scratch)
    for _ in range(problem.recipe.n_streams):
        made = _stream(problem, engine, plan, source, cast(Stream, made))
    map_ = cast(Map, made)
    map_.settle()
    return map_, map_, source


# --- landmarks ---------------------------------------------------------------------------------------------------


def _landmarks(problem: Problem, engine: Engine, sample: Any, kernel: Kernel | None) -> Any:
    if not problem.recipe.uses_landmarks:
        return sample[:0]
    if not isinstance(problem.landmarks, str):
        return SparseRows.of(problem.landmarks) if is_sparse(sample) else problem.landmarks
    m = min(problem.n_landmarks, len(sample))
    if problem.landmarks == "kmeans":
        return k_means_landmarks(sample, m, engine, problem.key.child("landmarks"))
    return choose_landmarks(problem.landmarks, sample, m, kernel, problem.key)


def k_means_bytes(rows: int, n_landmarks: int, n_features: int) -> int:
    """Return the memory of `k_means_landmarks` beside the sample, for its threads."""
    centres = 40 * n_landmarks * n_features
    slices = _THREADS * 8 * _SLICE_ROWS * (2 * n_features + n_landmarks)
    return centres + slices + _THREADS * 8 * rows * _SLICE_COLUMNS + 60 * rows


def k_means_landmarks(sample: Any, n_landmarks: int, engine: Engine, key: Key) -> Any:
    """Return centres of a short k-means of the sample, seeded far from one another, on the threads of this process.

    Seeds come in rounds: each draws a share of them with probability proportional to the squared distance from those
    before (Bahmani et al. 2012, doi:10.14778/2180912.2180915, without its second clustering). Slices of the sample are
    cut at fixed places, so the centres do not depend on the threads.
    """
    here = engine.here().with_threads(_THREADS)
    sparse = is_sparse(sample)  # then rows stay where they are, and centres, means of a few of them, are sparse too
    origin = np.zeros(1) if sparse else sample[:_WIDTH_ROWS].mean(axis=0, dtype=np.float64)
    here.progress.begin("landmarks", (_LLOYD_STEPS + 1) * len(sample))
    seeds = np.arange(-(-n_landmarks // _SEED_ROUNDS))
    nearest = np.full(len(sample), np.inf)
    new = seeds
    for number in range(1, _SEED_ROUNDS):
        _, distances = _nearest(here, sample, origin, sample[new] if sparse else sample[new] - origin)
        nearest = np.minimum(nearest, distances)
        nearest[seeds] = 0
        wanted = -(-n_landmarks * (number + 1) // _SEED_ROUNDS) - len(seeds)
        chance = np.maximum(key.child("seeds", number).uniform(np.arange(len(sample))), 1e-300)
        with np.errstate(divide="ignore"):
            new = np.argsort(np.log(chance) / nearest, kind="stable")[::-1][:wanted]  # the largest of u^(1/weight)
        new = new[nearest[new] > 0]  # rows that differ from all seeds
        if len(new) == 0:
            break
        seeds = np.concatenate([seeds, new])
    chosen = sample[seeds[:n_landmarks]]
    centres = chosen if sparse else chosen - origin
    for _ in range(_LLOYD_STEPS):
        labels, _ = _nearest(here, sample, origin, centres)
        if sparse:
            centres = sparse_means(sample, labels, centres)
            continue
        graph = Graph()
        shared = graph.value((sample, origin, labels, centres))
        keys = [graph.call(mean_columns, shared, a) for a in range(0, sample.shape[1], _SLICE_COLUMNS)]
        centres = np.concatenate(here.run(graph, keys), axis=1)
    here.progress.end()
    return centres if sparse else centres + origin


def _nearest(here: Engine, sample: Any, origin: Floats, centres: Any) -> tuple[NDArray[np.intp], Floats]:
    """Return the nearest centre of every row of the sample and its squared distance."""
    graph = Graph()
    if is_sparse(sample):
        look, columns = nearest_sparse, Linear().columns(centres, np.float32)
        shared = graph.value((sample, columns, centres.squared_norms().astype(np.float32)))
    else:
        cells = make_cells(centres, np.zeros(len(origin)), 1) if len(centres) > MANY else None
        search = NearestLandmarks(centres, np.zeros(len(origin)), 1, 22, np.dtype(np.float32), None, cells)
        search.settle()
        look, shared = nearest_slice, graph.value((sample, origin, centres.astype(np.float32), search))
    keys = [graph.call(look, shared, a) for a in range(0, len(sample), _SLICE_ROWS)]
    parts = here.run(graph, keys, look.__name__, _SLICE_ROWS)
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


@task
def nearest_slice(shared: Any, first: int) -> tuple[NDArray[np.intp], Floats]:
    """Return the nearest centres of some rows of the sample, and their squared distances."""
    sample, origin, centres, search = shared
    rows = (sample[first : first + _SLICE_ROWS] - origin).astype(np.float32)
    own = search.encode(rows)[:, 0].astype(np.intp)
    rows -= centres[own]
    return own, np.einsum("ij,ij->i", rows, rows, dtype=np.float64)


@task
def nearest_sparse(shared: Any, first: int) -> tuple[NDArray[np.intp], Floats]:
    """Return the nearest centres of some sparse rows of the sample, and their squared distances."""
    sample, columns, lengths = shared
    rows = sample[first : first + _SLICE_ROWS]
    D, squares = columns.block(rows)
    D *= -2
    D += lengths
    own = D.argmin(axis=1)
    distances = np.take_along_axis(D, own[:, None], axis=1)[:, 0] + squares.astype(np.float64)
    return own, np.where(distances > _ROUNDING * (squares + lengths[own]), distances, 0.0)


def sparse_means(sample: Any, labels: NDArray[np.intp], centres: Any) -> Any:
    """Return the means of clusters of sparse rows; a cluster without rows stays."""
    from scipy.sparse import csr_array

    counts = np.bincount(labels, minlength=len(centres))
    share = 1 / counts[labels]
    members = csr_array((share, (labels, np.arange(len(labels)))), shape=(len(centres), len(labels)))
    means = SparseRows.of(members @ sample.astype(np.float64).csr()).astype(sample.dtype)
    both = join_blocks([means, centres.astype(sample.dtype)])
    return both[np.arange(len(centres)) + len(centres) * (counts == 0)]


@task
def mean_columns(shared: Any, first: int) -> Floats:
    """Return the means of clusters in some columns; a cluster without rows stays."""
    from scipy.sparse import csr_array

    sample, origin, labels, centres = shared
    columns = slice(first, first + _SLICE_COLUMNS)
    members = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(len(centres), len(labels)))
    counts = np.asarray(members.sum(axis=1)).reshape(-1, 1)
    sums = members @ (sample[:, columns] - origin[columns])
    return np.where(counts > 0, sums / np.maximum(counts, 1), centres[:, columns])


# --- sums over all rows ------------------------------------------------------------------------------------------


def _pass(
    problem: Problem, engine: Engine, plan: Plan, source: Source, title: str, work: Any, combine: Any, watch: str
) -> Any:
    """Run ``work(graph)`` on the blocks of the mapping stage and combine what comes of them."""
    layout = plan.layout("mapping")
    engine = engine.with_threads(layout.threads)
    edges = block_edges(source.n_rows, layout.block_rows)
    engine.progress.begin(title, source.n_rows)
    (total,) = run_blocks(engine, source, edges, work, combine, watch, layout.block_rows)
    engine.progress.end()
    return total


def _stream(problem: Problem, engine: Engine, plan: Plan, source: Source, stream: Stream) -> Any:
    def work(graph: Graph) -> Consume:
        shared = graph.value((stream, problem.tile_rows, problem.nan, problem.dtype))
        return lambda start, rows: graph.call(map_block, rows, start, shared)

    totals = _pass(problem, engine, plan, source, stream.title, work, add_sums, "map_block")
    return stream.finish([total.value for total in totals])


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
    problem: Problem, engine: Engine, plan: Plan, source: Source, made: Coded, scratch: Scratch
) -> tuple[Map, Map, Source]:
    """Turn rows into codes once; leave these in memory or scratch, where all later passes read them.

    Workers of a cluster without a scratch folder in common find no place for them: rows are then read again.
    """
    nearest = made.nearest
    nearest.settle()
    columns, layout = 2 * nearest.n_neighbors, plan.layout("mapping")
    target: Any = None
    if not problem.keep_codes:
        pass  # a map on its own: nobody reads them again
    elif plan.keep == "codes" and engine.local:
        target = np.empty((source.n_rows, columns), dtype=np.float32)
    elif engine.local or problem.scratch is not None:
        import zarr

        target = zarr.create_array(
            scratch.file("codes.zarr"),
            shape=(source.n_rows, columns),
            chunks=(min(layout.block_rows, source.n_rows), columns),
            dtype=np.float32,
            fill_value=np.nan,
            compressors=None,
            config={"write_empty_chunks": True},
        )

    def work(graph: Graph) -> Consume:
        shared = graph.value((nearest, problem.tile_rows, problem.nan, target))
        return lambda start, rows: graph.call(encode_block, rows, start, shared)

    products, sums = _pass(problem, engine, plan, source, "nearest landmarks", work, add_products, "encode_block")
    map_: SpectralMap = made.finish(products, sums)
    map_.settle()
    if target is None:
        return map_, map_, source
    codes = ArraySource(target) if isinstance(target, np.ndarray) else ZarrSource(target)
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
