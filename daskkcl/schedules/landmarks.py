"""Landmarks by streaming mini-batch k-means: centres of the sample, then moved by rows from all over the data.

Which rows form a batch is said by their numbers alone, and batches are cut into slices at fixed places, so the centres
are the same for any chunks, threads or workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.sources import Source
from ..kernels import Linear
from ..kernels.base import TILE_ROWS
from ..kernels.rows import SparseRows, is_sparse, join_blocks
from ..maps.nearest import MANY, NearestLandmarks, make_cells
from ..planning import Plan, Stage, block_edges
from ..progress import Progress
from ..random import Key
from .data import Consume, stream_blocks
from .engine import Engine
from .graph import Graph
from .measuring import BadRowError, clean_rows, task

if TYPE_CHECKING:
    from .problem import Problem

__all__ = [
    "MovingCentres",
    "Picks",
    "centre_bytes",
    "k_means_bytes",
    "k_means_landmarks",
    "landmarks_stage",
    "streamed_rows",
    "streams",
]

Floats = NDArray[Any]

_LLOYD_STEPS = 5  # on a sample that is all rows: landmarks need to be spread well, not to be the best there are
_FIRST_STEPS = 2  # on one that is not: the stream does the rest
_SEED_ROUNDS = 8
_STREAMED, _STREAMED_SPARSE = 30, 10  # rows of the stream for each landmark, at most
_BATCH_ROWS = 4096
_DEAD = 0.02  # of the mean number of rows: centres that have had fewer begin again elsewhere
_ORIGIN_ROWS = 2000
_THREADS = 4  # at most: what the plan counts with
_ROUNDING = 1e-6  # squared distances of sparse rows, as a share of squared lengths, that blocks cannot tell from zero
_SLICE_ROWS, _SLICE_COLUMNS = 1024, 64


def k_means_landmarks(problem: Problem, engine: Engine, plan: Plan, source: Source, sample: Any, m: int) -> Any:
    """Return m landmarks: centres of a short k-means of the sample, moved by mini-batches of the data.

    A centre moves towards each row that is nearest to it by one over the number of rows that it has had, those of the
    sample included (Sculley 2010, doi:10.1145/1772690.1772862). Rows come in the order in which they are stored, one of
    every few if there are many; having begun at centres of a fair sample, that does no harm even if they are sorted.
    """
    key, here = problem.key.child("landmarks"), engine.here().with_threads(_THREADS)
    centres = sample_centres(sample, m, here, key, _FIRST_STEPS if streams(problem) else _LLOYD_STEPS)
    if not streams(problem):
        return centres.rows
    here.progress = Progress(False)
    picks = Picks.of_problem(problem)
    engine.progress.begin("streaming landmarks", problem.n_rows)
    for number, rows in enumerate(_batches(problem, engine, plan, source, picks)):
        centres, distances = centres.met_by(rows, here)
        centres = centres.revived(rows, distances, key.child("revived", number))
    engine.progress.end()
    return centres.rows


# --- centres -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MovingCentres:
    """Centres and the number of rows that each has had."""

    means: Any  # dense ones are moved by -origin, for precision; those of sparse rows are sparse and stay
    counts: NDArray[np.int64]
    origin: Floats

    @property
    def rows(self) -> Any:
        """The centres among the rows."""
        return self.means if is_sparse(self.means) else self.means + self.origin

    def met_by(self, rows: Any, here: Engine) -> tuple[MovingCentres, Floats]:
        """Return the centres moved by rows, and the squared distances of these to their nearest before that.

        Nearest centres are those before the batch (Sculley, Algorithm 1). Steps of 1 / count one after another then
        leave a centre at the mean of all that it has had, so they can be taken at once.
        """
        from scipy.sparse import csr_array

        labels, distances = _nearest(here, rows, self.origin, self.means)
        shape = len(self.counts), len(rows)
        members = csr_array((np.ones(len(rows)), (labels, np.arange(len(rows)))), shape=shape)
        counts = self.counts + np.bincount(labels, minlength=len(self.counts))
        if is_sparse(rows):
            return MovingCentres(self._sparse_means(rows, members, counts), counts, self.origin), distances
        graph = Graph()
        shared = graph.value((rows, members, counts, self))
        keys = [graph.call(mean_columns, shared, a) for a in range(0, rows.shape[1], _SLICE_COLUMNS)]
        return MovingCentres(np.concatenate(here.run(graph, keys), axis=1), counts, self.origin), distances

    def _sparse_means(self, rows: SparseRows, members: Any, counts: NDArray[np.int64]) -> SparseRows:
        from scipy.sparse import diags_array

        before = np.where(counts > 0, self.counts, 1)  # a centre without rows stays
        share = diags_array(1 / np.maximum(counts, 1))
        old = diags_array(before.astype(np.float64)) @ self.means.astype(np.float64).csr()
        sums = old + members @ rows.astype(np.float64).csr()
        return SparseRows.of((share @ sums).tocsr()).astype(self.means.dtype)

    def revived(self, rows: Any, distances: Floats, key: Key) -> MovingCentres:
        """Return the centres with those that get no rows put on rows far from all centres."""
        least = _DEAD * self.counts.mean()
        dead = np.flatnonzero(self.counts < max(least, 1))
        new = _far_rows(distances, len(dead), key) if len(dead) else dead
        if len(new) == 0:
            return self
        dead, counts = dead[: len(new)], self.counts.copy()
        counts[dead] = max(1, round(least))
        if is_sparse(rows):
            place = np.arange(len(counts))
            place[dead] = len(counts) + np.arange(len(new))
            means = join_blocks([self.means, rows[new].astype(self.means.dtype)])[place]
        else:
            means = self.means.copy()
            means[dead] = rows[new] - self.origin
        return MovingCentres(means, counts, self.origin)


def sample_centres(sample: Any, m: int, here: Engine, key: Key, n_steps: int) -> MovingCentres:
    """Return centres of a short k-means of the sample, seeded far from one another, on the threads of this process.

    Seeds come in rounds: each draws a share of them with probability proportional to the squared distance from those
    before (Bahmani et al. 2012, doi:10.14778/2180912.2180915, without its second clustering).
    """
    sparse = is_sparse(sample)  # then rows stay where they are, and centres, means of a few of them, are sparse too
    origin = np.zeros(1) if sparse else sample[:_ORIGIN_ROWS].mean(axis=0, dtype=np.float64)
    here.progress.begin("landmarks", (n_steps + 1) * len(sample))
    seeds = np.arange(-(-m // _SEED_ROUNDS))
    nearest = np.full(len(sample), np.inf)
    new = seeds
    for number in range(1, _SEED_ROUNDS):
        _, distances = _nearest(here, sample, origin, sample[new] if sparse else sample[new] - origin)
        nearest = np.minimum(nearest, distances)
        nearest[seeds] = 0
        wanted = -(-m * (number + 1) // _SEED_ROUNDS) - len(seeds)
        new = _far_rows(nearest, wanted, key.child("seeds", number))
        if len(new) == 0:
            break
        seeds = np.concatenate([seeds, new])
    chosen = sample[seeds[:m]]
    nobody = np.zeros(len(chosen), dtype=np.int64)
    centres = MovingCentres(chosen if sparse else chosen - origin, nobody, origin)
    for _ in range(n_steps):
        centres, _ = MovingCentres(centres.means, nobody, origin).met_by(sample, here)
    here.progress.end()
    return centres


def _far_rows(distances: Floats, wanted: int, key: Key) -> NDArray[np.intp]:
    """Draw rows with probability proportional to their squared distances, none that stands on a centre."""
    chance = np.maximum(key.uniform(np.arange(len(distances))), 1e-300)
    with np.errstate(divide="ignore"):
        rows = np.argsort(np.log(chance) / distances, kind="stable")[::-1][:wanted]  # the largest of u^(1/weight)
    return rows[distances[rows] > 0]


def _nearest(here: Engine, rows: Any, origin: Floats, centres: Any) -> tuple[NDArray[np.intp], Floats]:
    """Return the nearest centre of every row and its squared distance."""
    graph = Graph()
    if is_sparse(rows):
        look, columns = nearest_sparse, Linear().columns(centres, np.float32)
        shared = graph.value((rows, columns, centres.squared_norms().astype(np.float32)))
    else:
        cells = make_cells(centres, np.zeros(len(origin)), 1) if len(centres) > MANY else None
        search = NearestLandmarks(centres, np.zeros(len(origin)), 1, 22, np.dtype(np.float32), None, cells)
        search.settle()
        look, shared = nearest_slice, graph.value((rows, origin, centres.astype(np.float32), search))
    keys = [graph.call(look, shared, a) for a in range(0, len(rows), _SLICE_ROWS)]
    parts = here.run(graph, keys, look.__name__, _SLICE_ROWS)
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


@task
def nearest_slice(shared: Any, first: int) -> tuple[NDArray[np.intp], Floats]:
    """Return the nearest centres of some rows, and their squared distances."""
    rows, origin, centres, search = shared
    moved = (rows[first : first + _SLICE_ROWS] - origin).astype(np.float32)
    own = search.encode(moved)[:, 0].astype(np.intp)
    moved -= centres[own]
    return own, np.einsum("ij,ij->i", moved, moved, dtype=np.float64)


@task
def nearest_sparse(shared: Any, first: int) -> tuple[NDArray[np.intp], Floats]:
    """Return the nearest centres of some sparse rows, and their squared distances."""
    rows, columns, lengths = shared
    D, squares = columns.block(rows[first : first + _SLICE_ROWS])
    D *= -2
    D += lengths
    own = D.argmin(axis=1)
    distances = np.take_along_axis(D, own[:, None], axis=1)[:, 0] + squares.astype(np.float64)
    return own, np.where(distances > _ROUNDING * (squares + lengths[own]), distances, 0.0)


@task
def mean_columns(shared: Any, first: int) -> Floats:
    """Return the means, in some columns, of what centres had before and of rows; a centre without rows stays."""
    rows, members, counts, centres = shared
    columns, total = slice(first, first + _SLICE_COLUMNS), counts[:, None]
    means, before = centres.means[:, columns], centres.counts[:, None]
    sums = before * means + members @ (rows[:, columns] - centres.origin[columns])
    return np.where(total > 0, sums / np.maximum(total, 1), means)


# --- the stream --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picks:
    """Which rows form the stream: one of every `stride`, drawn by its number; batches of as many strides.

    Examples
    --------
    >>> Picks(Key(0), 4, 2).of_rows(0, 20)
    array([ 2,  6,  8, 15, 17])
    >>> Picks(Key(0), 1, 2).of_rows(3, 6)
    array([3, 4, 5])
    """

    key: Key
    stride: int
    batch_rows: int

    @staticmethod
    def of_problem(problem: Problem) -> Picks:
        """Return what a problem streams, by its shape alone."""
        stride = -(-problem.n_rows // streamed_rows(problem.n_rows, problem.n_landmarks, problem.source.sparse))
        return Picks(problem.key.child("landmarks", "stream"), stride, min(_BATCH_ROWS, 4 * problem.tile_rows))

    @property
    def batch_span(self) -> int:
        """Rows of the data that a batch is drawn from."""
        return self.stride * self.batch_rows

    def of_rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the rows of the stream from one row to another, by number."""
        strides = np.arange(start // self.stride, -(-stop // self.stride))
        rows = strides * self.stride + self.key.integers(strides, self.stride)
        return rows[(rows >= start) & (rows < stop)]


def streamed_rows(n_rows: int, n_landmarks: int, sparse: bool) -> int:
    """Return how many rows the stream has, at most: a few times those of the sample.

    Centres of sparse rows get fuller with every row that they have; more of them cost more than they give.
    """
    return min(n_rows, n_landmarks * (_STREAMED_SPARSE if sparse else _STREAMED))


def _batches(problem: Problem, engine: Engine, plan: Plan, source: Source, picks: Picks) -> Iterator[Any]:
    """Yield the mini-batches in order, without the rows that are dropped or have no weight."""
    layout, n, span = plan.layout("landmarks"), problem.n_rows, picks.batch_span
    edges, stops = block_edges(n, layout.block_rows), iter([*range(span, n, span), n])

    def pick(graph: Graph) -> Consume:
        def consume(start: int, block: Any) -> Any:
            numbers = picks.of_rows(start, min(n, start + layout.block_rows))
            if problem.weights is not None:
                numbers = numbers[problem.weights[numbers] > 0]
            return graph.call(pick_rows, block, numbers, start, problem.nan, problem.dtype) if len(numbers) else None

        return consume

    at_once = max(1, span // layout.block_rows)  # blocks: about a batch, or one block if that has several
    parts = stream_blocks(
        engine.with_threads(layout.threads), source, edges, pick, "pick_rows", layout.block_rows, at_once
    )
    held, stop = [], next(stops)
    for read, found in zip([*edges[at_once:-1:at_once], n], parts, strict=True):
        held += found
        while stop <= read and held:
            numbers, rows = np.concatenate([part[0] for part in held]), join_blocks([part[1] for part in held])
            cut = int(np.searchsorted(numbers, stop))
            held = [(numbers[cut:], rows[cut:])] if cut < len(numbers) else []
            if cut:
                yield rows[:cut]
            stop = next(stops, n + 1)


@task
def pick_rows(
    block: Any, numbers: NDArray[np.int64], start: int, nan: str, dtype: np.dtype[Any]
) -> tuple[NDArray[np.int64], Any]:
    """Copy rows of the stream out of a block, without those that are dropped; also return their numbers."""
    try:
        rows, bad = clean_rows(block[numbers - start], 0, nan, dtype)
    except BadRowError as error:  # give its number in the data, not in the stream
        raise BadRowError(int(numbers[error.row])) from None
    return (numbers, rows) if bad is None else (numbers[~bad], rows[~bad])


# --- costs -------------------------------------------------------------------------------------------------------


def streams(problem: Problem) -> bool:
    """Say whether landmarks are moved by a stream of rows: by k-means, and if there are rows beyond the sample."""
    return problem.landmarks_by("kmeans") and problem.sample_rows < problem.n_rows


def landmarks_stage(problem: Problem) -> Stage:
    """Return the stage that streams over all rows to move the landmarks."""
    picks, row_bytes = Picks.of_problem(problem), problem.source.row_bytes
    stage = problem.stage("landmarks", task_bytes=0)
    held = problem.map_bytes + k_means_bytes(problem, picks.batch_rows) + 2 * picks.batch_rows * row_bytes
    return replace(stage, row_bytes=stage.row_bytes + 2 * -(-row_bytes // picks.stride), fixed_bytes=held)


def k_means_bytes(problem: Problem, rows: int) -> int:
    """Return the memory of `MovingCentres.met_by` beside the rows and the centres' last place, for its threads."""
    m, d = problem.n_landmarks, problem.source.n_features
    working = _THREADS * 8 * (_SLICE_ROWS * m + rows * _SLICE_COLUMNS) + 84 * rows
    if problem.source.sparse:
        return working + 8 * centre_bytes(problem) + 4 * 24 * TILE_ROWS * m
    return working + (80 if m > MANY else 48) * m * d + _THREADS * 8 * _SLICE_ROWS * 2 * d


def centre_bytes(problem: Problem) -> int:
    """Return the bytes of sparse centres: no more entries than the rows they are made of, and no more than d."""
    n, m = problem.n_rows, problem.n_landmarks
    rows = problem.sample_rows + streamed_rows(n, m, True)
    return min(rows * problem.source.mean_bytes, 8 * m * problem.source.n_features)
