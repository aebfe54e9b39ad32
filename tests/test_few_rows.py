"""Small data of pakcl: measured once, met in coordinates. Twins, sources and checkpoints are in the files of those."""

import numpy as np
import pytest
import zarr
from numpy.testing import assert_array_equal

import daskkcl
from daskkcl import PAKCL
from daskkcl.blocks.sources import ArraySource
from daskkcl.estimators.problems import make_problem
from daskkcl.random import Key
from daskkcl.schedules import few_rows
from daskkcl.schedules.few_rows import are_few

pytestmark = pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return (rng.normal(scale=3, size=(6, 8))[rng.integers(6, size=1500)] + rng.normal(size=(1500, 8))).astype("f4")


@pytest.fixture
def used(monkeypatch):
    """How often rows were met in coordinates."""
    calls, original = [], few_rows.compete_in_memory
    monkeypatch.setattr(
        "daskkcl.estimators.competitive.compete_in_memory",
        lambda *args, **more: calls.append(1) or original(*args, **more),
    )
    return calls


def few(rows, epochs, subset, n_landmarks=100, **parameters):
    X = np.zeros((rows, 8), dtype=np.float32)
    problem = make_problem(PAKCL(10, n_landmarks=n_landmarks, **parameters), ArraySource(X), Key(0))
    return are_few(problem, subset, epochs)


def test_when_rows_are_few():
    assert few(1800, 23, 100)
    assert not few(40_000, 23, 100)  # too large to have in memory, whatever the limit
    assert not few(1800, 1, 100)  # 18 updates of ten centres cost less than coordinates of 1,800 rows
    assert not few(1800, 23, 100, map="identity", n_landmarks=None)  # coordinates already
    assert not few(1800, 23, 100, nearest="index")


def test_defaults_take_it_for_small_data_only(X, used):
    PAKCL(6, random_state=0, progress=False).fit(X)
    assert len(used) == 1
    PAKCL(6, random_state=0, progress=False, max_epochs=1).fit(X)
    assert len(used) == 1


def test_the_same_clusters_as_block_by_block(X, used, monkeypatch):
    model = PAKCL(6, random_state=0, progress=False).fit(X)
    monkeypatch.setattr(few_rows, "_FEW_VALUES", 0)
    other = PAKCL(6, random_state=0, progress=False).fit(X)
    assert len(used) == 1
    assert (np.asarray(model.labels_) == other.labels_).mean() > 0.995
    np.testing.assert_allclose(model.win_counts_, other.win_counts_, rtol=0.02)
    assert model.n_iter_ == other.n_iter_


def test_rows_that_are_dropped(X, used):
    holes = X.copy()
    holes[::7, 3] = np.nan
    model = PAKCL(6, random_state=0, progress=False, nan="drop").fit(holes)
    assert len(used) == 1
    assert_array_equal(model.labels_[::7], -1)
    assert (np.delete(model.labels_, np.arange(0, 1500, 7)) >= 0).all()
    assert model.cluster_sizes_.sum() == 1500 - len(holes[::7])
    with pytest.raises(ValueError, match=r"row 0\b"):
        PAKCL(6, random_state=0, progress=False).fit(holes)


def test_a_given_order_and_predictions(X, used, tmp_path):
    model = PAKCL(6, random_state=0, progress=False, order=np.arange(1500)[::-1].copy()).fit(X)
    assert len(used) == 1
    assert_array_equal(model.predict(X), model.labels_)
    model.save(tmp_path / "model.zarr")
    assert_array_equal(daskkcl.load(tmp_path / "model.zarr").predict(X), model.labels_)


def test_a_plan_knows_the_work():
    costs = daskkcl.plan(n_rows=1800, n_features=64, algo="pakcl", n_clusters=10)
    stage = next(stage for stage in costs.stages if stage.name == "subsets")
    assert stage.n_blocks == 0
    assert stage.memory_bytes > 0
    assert not [stage for stage in costs.stages if stage.name == "shuffling"]
    assert 0.01 < stage.cpu_seconds < 5


def test_more_rows_can_follow(X):
    model = PAKCL(6, random_state=0, progress=False).fit(X)
    before = np.asarray(model.labels_)
    assert (model.partial_fit(X[:300]).predict(X) == before).mean() > 0.5


def test_a_sweep_meets_measurements_that_are_shared(X, used):
    found = daskkcl.sweep(X, "pakcl", n_clusters=[4, 6], random_state=0, progress=False)
    assert len(used) == 2
    for model, k in zip(found.models_, (4, 6), strict=True):
        alone = PAKCL(k, random_state=0, progress=False).fit(X)
        assert_array_equal(model.labels_, alone.labels_)


def test_on_a_cluster(X, used, tmp_path):
    distributed = pytest.importorskip("distributed")
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(400, 8))
    here = PAKCL(6, random_state=0, progress=False).fit(X)
    with distributed.Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        there = PAKCL(6, random_state=0, progress=False).fit(tmp_path / "x.zarr", client=client)
        assert_array_equal(there.labels_, here.labels_)
    assert len(used) == 2
    assert there.plan_.driver.has("subsets")
