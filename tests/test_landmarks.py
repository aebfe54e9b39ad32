"""Landmarks by streaming mini-batch k-means: as the paper has it, and the same whatever carries the rows."""

from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from reference import maps as reference

from daskkcl import MemoryLimitError
from daskkcl.errors import InvalidInputError
from daskkcl.kernels.rows import SparseRows, as_dense
from daskkcl.maps import SparseSpectral
from daskkcl.progress import Progress
from daskkcl.random import Key
from daskkcl.schedules.engine import Engine
from daskkcl.schedules.landmarks import MovingCentres, Picks, sample_centres, streamed_rows

HERE = Engine(None, 2, Progress(False))
KINDS = {"dense": (40_000, 200, np.asarray), "sparse": (10_000, 500, sp.csr_array)}  # rows, landmarks


def table(kind, n=None):
    """Overlapping blobs, sorted by blob, most of their entries zero."""
    rng = np.random.default_rng(7)
    n = n or KINDS[kind][0]
    X = 3 + rng.normal(size=(8, 6))[np.sort(rng.integers(0, 8, n))] + rng.normal(size=(n, 6))
    return np.where(rng.random(X.shape) < 0.5, X, 0).astype(np.float32)


def make(kind, **changes):
    options = {"n_landmarks": KINDS[kind][1], "random_state": 5, "progress": False}
    return SparseSpectral(**options | changes)


def landmarks_of(map_):
    return as_dense(map_._reader.map_.nearest.landmarks)


@pytest.fixture(scope="module")
def fitted():
    """Landmarks of both kinds, made on one thread from memory."""
    with dask.config.set(num_workers=1):
        return {kind: landmarks_of(make(kind).fit(carry(table(kind)))) for kind, (_, _, carry) in KINDS.items()}


def picks_of(kind, n=None):
    n = n or KINDS[kind][0]
    return Picks(Key(5).child("landmarks", "stream"), -(-n // streamed_rows(n, KINDS[kind][1], kind == "sparse")), 4096)


# --- which rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stride", [1, 2, 7, 5000])
def test_one_row_of_every_stride_is_picked(stride):
    picks, n = Picks(Key(1), stride, 16), 20_003
    rows = picks.of_rows(0, n)
    assert_array_equal(rows // stride, np.arange(len(rows)))
    assert len(rows) in (n // stride, -(-n // stride))
    cuts = [0, 1, 8, 1024, 1025, 9999, n]
    assert_array_equal(np.concatenate([picks.of_rows(a, b) for a, b in pairwise(cuts)]), rows)


def test_the_stream_is_bounded_and_has_several_batches():
    """What the tests below rely on: strides above one, rows that the sample does not have, more than one batch."""
    assert streamed_rows(10**9, 1000, False) == 30_000
    assert streamed_rows(50, 1000, False) == 50
    for kind, (n, m, _) in KINDS.items():
        picks = picks_of(kind)
        assert n > 10 * m
        assert picks.stride > 1
        assert n / picks.batch_span > 1.2


# --- the update --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_batches_move_centres_as_in_the_paper(kind):
    rng = np.random.default_rng(0)
    X = table(kind, 3000)
    centres, counts = X[rng.choice(len(X), 40, replace=False)].astype(np.float64), rng.integers(0, 12, 40)
    batches = np.split(X, [1500, 2900])
    wanted, wanted_counts = reference.mini_batch_k_means(centres, counts, batches)
    if kind == "dense":
        moving = MovingCentres(centres - X.mean(axis=0), counts, X.mean(axis=0, dtype=np.float64))
    else:
        moving, batches = MovingCentres(SparseRows.of(centres), counts, np.zeros(1)), map(SparseRows.of, batches)
    for batch in batches:
        moving, _ = moving.met_by(batch, HERE)
    assert_array_equal(moving.counts, wanted_counts)
    assert_allclose(as_dense(moving.rows), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_landmarks_are_centres_of_the_sample_moved_by_the_stream(fitted, kind):
    """The whole of it, against the twin: which rows come in which batch, and what they do."""
    X, (n, m, _) = table(kind), KINDS[kind]
    sample = X[Key(5).child("order", 0).rows(n, 0, max(2000, 10 * m))]
    rows = SparseRows.of(sample) if kind == "sparse" else sample
    first = sample_centres(rows, m, HERE, Key(5).child("landmarks"), 2)
    picks = picks_of(kind)
    stream = [X[picks.of_rows(a, min(n, a + picks.batch_span))] for a in range(0, n, picks.batch_span)]
    assert len(stream) > 1
    wanted, counts = reference.mini_batch_k_means(as_dense(first.rows).astype(np.float64), first.counts, stream)
    assert counts.min() > 0.02 * counts.mean()  # none is dead: the paper has no word on these
    assert_allclose(fitted[kind], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_centres_without_rows_begin_again_far_from_all_others(kind):
    X = table(kind, 2000)
    X[1234] = 1000.0  # by far the most likely to be drawn
    carry, origin = (np.asarray, np.zeros(6)) if kind == "dense" else (SparseRows.of, np.zeros(1))
    moving = MovingCentres(carry(np.tile(X[:1], (3, 1)).astype(np.float64)), np.zeros(3, dtype=np.int64), origin)
    moving, distances = moving.met_by(carry(X), HERE)
    assert_array_equal(moving.counts, [2000, 0, 0])  # ties to the first: the other two are dead
    after = moving.revived(carry(X), distances, Key(0))
    assert_array_equal(after.counts, [2000, 13, 13])  # a fiftieth of the mean
    assert_array_equal(as_dense(after.rows)[0], as_dense(moving.rows)[0])
    assert_array_equal(as_dense(after.rows)[1], X[1234])
    assert (as_dense(after.rows)[2] == X).all(axis=1).any()


def test_the_stream_brings_centres_nearer_to_the_rows(fitted):
    """Mean squared distances of all rows to their nearest landmark: below those of the sample's centres."""
    X = table("dense")
    sample = X[Key(5).child("order", 0).rows(len(X), 0, 2000)]
    before = sample_centres(sample, 200, HERE, Key(5).child("landmarks"), 2).rows

    def spread(centres):
        return ((X[::4, None] - centres.astype(np.float32)) ** 2).sum(axis=2).min(axis=1).mean()

    assert spread(fitted["dense"]) < 0.98 * spread(before)


# --- the same everywhere -----------------------------------------------------------------------------------------


def in_zarr(X, kind):
    if kind == "dense":
        array = zarr.create_array({}, shape=X.shape, dtype=X.dtype, chunks=(777, 5))
        array[...] = X
        return array
    csr = sp.csr_array(X)
    attributes = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(X.shape)}
    group = zarr.create_group({}, attributes=attributes)
    for name in ("data", "indices", "indptr"):
        group.create_array(name, data=getattr(csr, name), chunks=(1001,))
    return group


def in_dask(X, kind):
    ragged = ((1, 999, 3, 5000, len(X) - 6003), (X.shape[1],))
    array = da.from_array(X, chunks=ragged)
    return array if kind == "dense" else array.map_blocks(sp.csr_array)


@pytest.mark.parametrize("carry", [in_zarr, in_dask])
@pytest.mark.parametrize("kind", KINDS)
def test_any_source_gives_the_same_landmarks(fitted, kind, carry):
    with dask.config.set(num_workers=3):
        assert_array_equal(landmarks_of(make(kind).fit(carry(table(kind), kind))), fitted[kind], strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_least_memory_gives_the_same_landmarks(fitted, kind):
    data, limit = in_zarr(table(kind), kind), 2**20
    for _ in range(20):
        try:
            map_ = make(kind, memory_limit=limit).fit(data)
            break
        except MemoryLimitError as error:
            limit = int(1.001 * error.needed_bytes)
    assert map_.plan_.peak_bytes <= limit
    assert map_.plan_.layout("landmarks").threads == 1
    assert_array_equal(landmarks_of(map_), fitted[kind], strict=True)


def test_workers_give_the_same_landmarks(fitted):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert client.status == "running"
        data = in_zarr(table("dense"), "dense")
        assert_array_equal(landmarks_of(make("dense").fit(data)), fitted["dense"], strict=True)


def test_dropped_rows_do_not_move_landmarks():
    """A row with a NaN moves nothing: as if its place in the stream were empty."""
    X = table("dense")
    picks = picks_of("dense")
    sampled = Key(5).child("order", 0).rows(len(X), 0, 2000)
    lost = np.setdiff1d(picks.of_rows(0, len(X)), sampled)[::3]
    X[lost, 1] = np.nan
    kept = make("dense", nan="drop").fit(X)
    first = sample_centres(X[sampled], 200, HERE, Key(5).child("landmarks"), 2)
    stream = [picks.of_rows(a, min(len(X), a + picks.batch_span)) for a in range(0, len(X), picks.batch_span)]
    wanted, _ = reference.mini_batch_k_means(
        first.rows.astype(np.float64), first.counts, [X[np.setdiff1d(rows, lost)] for rows in stream]
    )
    assert_allclose(landmarks_of(kept), wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(InvalidInputError, match=f"row {lost[0]:,}, column 1"):
        make("dense").fit(X)
