"""Subsets of PAKCL that are dealt over threads or workers, part by part: the same as met whole."""

from dataclasses import replace

import dask
import dask.threaded
import numpy as np
import pytest
import scipy.sparse
import zarr
from reference import competitive
from reference.algebra import coordinates, rbf

import daskkcl
from daskkcl.errors import InvalidInputError
from daskkcl.maps.landmarks import RCOND
from daskkcl.random import Key
from daskkcl.schedules import crew, setup, subsets

PIECE, N, SUBSET = 1024, 9_000, 4_000  # parts of one tile; the last subset is short
SETTINGS = {
    "n_clusters": 4,
    "rate_start": 1.0,
    "rate_end": 1e-5,
    "subset_size": SUBSET,
    "max_epochs": 2,
    "tol": 0,
    "random_state": 3,
    "progress": False,
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    for module in ("rules.competitive", "schedules.crew", "schedules.dealt", "estimators.competitive"):
        monkeypatch.setattr(f"daskkcl.{module}.piece_rows", lambda n_clusters: PIECE)
    monkeypatch.setattr("daskkcl.schedules.dealt._GRAPH_PARTS", 3)  # subsets lie across graphs
    monkeypatch.setattr("daskkcl.schedules.crew._GRAPH_SUBSETS", 1)
    monkeypatch.setattr("daskkcl.schedules.problem._WHOLE_BYTES", 0)  # also on workers


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(8)
    centres = rng.normal(scale=1.5, size=(4, 3))
    return centres[rng.choice(4, N, p=[0.4, 0.3, 0.2, 0.1])] + rng.normal(scale=0.7, size=(N, 3))


def test_it_equals_the_twin_that_meets_whole_subsets(X):
    landmarks, start = X[::450], X[[5, 700, 3_000, 8_000]]
    model = daskkcl.fit(
        X, "pakcl", kernel="rbf", gamma=0.2, landmarks=landmarks, init=start, dtype="float64", **SETTINGS
    )

    def kernel(a, b):
        return rbf(a, b, 0.2)

    def place(rows):
        values, square = kernel(rows, landmarks), kernel(landmarks, landmarks)
        return coordinates(values, square, np.ones(len(rows)), RCOND[np.dtype(np.float64)])

    (Y, r), (first, _) = place(X), place(start)
    orders = [Key(3).child("order", epoch).rows(N, 0, N) for epoch in range(2)]
    twin = competitive.pakcl(Y, r, first, np.ones(4), orders, SUBSET, tol=0)
    expected = competitive.labels(Y, r, twin.centres, twin.counts, "frequency")
    pairs = set(zip(model.labels_.tolist(), expected.tolist(), strict=True))
    assert len(pairs) == 4  # the same clusters, numbered by size
    assert sorted(model.win_counts_) == sorted(twin.counts)


def sources(X, folder):
    X = X.astype("float32")
    zarr.create_array(str(folder / "x.zarr"), data=X, chunks=(700, 3))
    yield X
    yield str(folder / "x.zarr")
    yield scipy.sparse.csr_array(X)


def test_threads_sources_and_memory_do_not_change_the_labels(X, tmp_path):
    settings, expected = {**SETTINGS, "n_landmarks": 30, "kernel": "rbf", "gamma": 0.2}, None
    for data in sources(X, tmp_path):
        for threads, limit in ((1, None), (3, "2GiB")):
            with dask.config.set(num_workers=threads):
                labels = np.asarray(daskkcl.fit(data, "pakcl", memory_limit=limit, **settings).labels_)
            expected = labels if expected is None else expected
            np.testing.assert_array_equal(labels, expected)


def test_rows_with_nan_are_named_or_dropped(X):
    bad = X.copy()
    bad[[17, 4_321, 8_888], 1] = np.nan
    with pytest.raises(InvalidInputError, match="row 17, column 1"):
        daskkcl.fit(bad, "pakcl", n_landmarks=30, **SETTINGS)
    labels = np.asarray(daskkcl.fit(bad, "pakcl", n_landmarks=30, nan="drop", **SETTINGS).labels_)
    assert np.flatnonzero(labels < 0).tolist() == [17, 4_321, 8_888]


def test_a_run_that_was_stopped_goes_on_between_subsets(X, tmp_path, monkeypatch):
    run = {**SETTINGS, "n_landmarks": 30}
    expected = daskkcl.fit(X, "pakcl", **run).labels_
    save, saved = subsets._save, []

    def stop(*arguments):
        save(*arguments)
        saved.append(arguments[-1])
        if len(saved) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(subsets, "_save", stop)
    with pytest.raises(KeyboardInterrupt):
        daskkcl.fit(X, "pakcl", checkpoint=str(tmp_path / "run.ckpt"), **run)
    model = daskkcl.fit(X, "pakcl", checkpoint=str(tmp_path / "run.ckpt"), **run)
    assert all(position % SUBSET == 0 or position == N for position in saved)
    np.testing.assert_array_equal(model.labels_, expected)


def test_a_subset_may_be_larger_than_what_is_held(X):
    """The plan asks for a part, not for the subset."""
    asked = {"n_rows": 10**8, "n_features": 32, "algo": "pakcl", "n_clusters": 10, "memory_limit": "4GiB", "rates": {}}
    plans = [daskkcl.plan(subset_size=rows, **asked).plan for rows in (10**6, 10**8)]
    assert plans[0].layout("subsets") == plans[1].layout("subsets")
    assert plans[1].peak_bytes <= 2**32


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_who_reads_ahead_takes_no_thread_of_those_who_meet(X, tmp_path, monkeypatch, threads):
    """With as many threads as users allow and many buckets, nobody waits for somebody who has no thread."""
    monkeypatch.setattr("daskkcl.schedules.crew._GRAPH_SUBSETS", 64)
    monkeypatch.setattr("daskkcl.schedules.shuffling.bucket_bytes", lambda *sizes: 1)  # a bucket is a block
    zarr.create_array(str(tmp_path / "x.zarr"), data=X.astype("float32"), chunks=(700, 3))
    settings = {**SETTINGS, "n_landmarks": 30, "memory_limit": "1GiB"}
    monkeypatch.setattr("daskkcl.estimators.base.plan_run", _nothing_kept)
    with dask.config.set(num_workers=threads):
        model = daskkcl.fit(str(tmp_path / "x.zarr"), "pakcl", **settings)
    assert model.plan_.keep == "nothing"
    assert model.cluster_sizes_.sum() == N


def _nothing_kept(*arguments, **options):
    return replace(setup.plan_run(*arguments, **options), keep="nothing")


@pytest.mark.parametrize("where", ["subset_sums", "move_centres"])
def test_an_error_of_one_thread_ends_all(X, where, monkeypatch):
    """Whoever waits for a thread that failed is told, and the error is the one that was raised."""
    work, calls = getattr(crew, where), []

    def fail(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise OSError("disk on fire")
        return work(*arguments)

    monkeypatch.setattr(crew, where, fail)
    with dask.config.set(num_workers=3), pytest.raises(OSError, match="disk on fire"):
        daskkcl.fit(X, "pakcl", n_landmarks=30, **SETTINGS)


def test_an_interrupted_graph_does_not_go_on_to_its_end(X, monkeypatch):
    """Ctrl-C ends a subset between two slices, however large the subset is."""
    sums, calls = crew.Crew._sums, []

    def count(self, *arguments):
        calls.append(arguments)
        return sums(self, *arguments)

    def interrupted(graph, keys, pool):
        tasks = [pool.submit(crew.take_part, graph[shared][0](), 0) for shared in graph if "value" in shared[0]]
        while not calls:
            pass
        assert len(tasks) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(crew.Crew, "_sums", count)
    monkeypatch.setattr("daskkcl.schedules.crew._GRAPH_SUBSETS", 10**6)
    with dask.config.set(num_workers=1):
        whole = daskkcl.fit(X, "pakcl", n_landmarks=30, **SETTINGS)
        n_whole = len(calls)
        calls.clear()
        monkeypatch.setattr("dask.threaded.get", _only_for_crews(interrupted))
        with pytest.raises(KeyboardInterrupt):
            daskkcl.fit(X, "pakcl", n_landmarks=30, **SETTINGS)
    assert whole.cluster_sizes_.sum() == N
    assert 0 < len(calls) < n_whole


def _only_for_crews(instead):
    plain = dask.threaded.get

    def get(graph, keys, pool):
        crews = any(getattr(call[0], "__name__", "") == "take_part" for call in graph.values() if type(call) is tuple)
        return instead(graph, keys, pool) if crews else plain(graph, keys, pool=pool)

    return get
