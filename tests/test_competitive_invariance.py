"""The competitive family gives the same numbers, bit for bit, whatever carries the rows, saved and resumed too."""

import dask
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from test_invariance import SOURCES, answers, assert_same, force_plan, make_rows

import daskkcl
from daskkcl.schedules.checkpoint import Checkpoint

pytestmark = [
    pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning"),
    pytest.mark.usefixtures("small_tiles"),
]

COMMON = {"random_state": 4, "progress": False}
LANDMARKS = {"n_landmarks": 40, **COMMON}
SEEDS = {"tol": 0, "eta": 0.01, "max_epochs": 2, "merge_tol": 0.01}
MODELS = {
    "akcl": lambda **kw: daskkcl.AKCL(5, **{**LANDMARKS, "max_epochs": 2, "tol": 0, **kw}),
    "lcpcl": lambda **kw: daskkcl.LandmarkCPCL(7, **{**LANDMARKS, **SEEDS, **kw}),
    "cpcl": lambda **kw: daskkcl.CPCL(7, **{**COMMON, **SEEDS, **kw}),
    "rpccl": lambda **kw: daskkcl.RPCCL(6, **{**COMMON, **SEEDS, **kw}),
    "dsrpcl": lambda **kw: daskkcl.DSRPCL(6, **{**LANDMARKS, **SEEDS, "map": "landmarks", **kw}),
    "core": lambda **kw: daskkcl.CoRe(6, **{**COMMON, **SEEDS, **kw}),
    "fastkscl": lambda **kw: daskkcl.FastKSCL(5, **{**LANDMARKS, "max_iter": 4, **kw}),
    "kcl": lambda **kw: daskkcl.KCL(5, **{**COMMON, "max_epochs": 1, **kw}),
}
STREAMING = [name for name in MODELS if name != "kcl"]


@pytest.fixture(scope="module")
def X():
    return make_rows()


@pytest.fixture(scope="module")
def expected(X):
    with dask.config.set(num_workers=1):
        return {name: answers(model().fit(X), X) for name, model in MODELS.items()}


@pytest.mark.part(2)
@pytest.mark.parametrize("source", ["zarr, coprime chunks", "dask, ragged", "numpy, other byte order"])
@pytest.mark.parametrize("name", MODELS)
def test_any_source_gives_the_same(X, expected, name, source):
    data = SOURCES[source](X)
    with dask.config.set(num_workers=2):
        assert_same(answers(MODELS[name]().fit(data), data), expected[name])


@pytest.mark.part(4)
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("keep", ["measurements", "rows", "nothing"])
@pytest.mark.parametrize("name", STREAMING)
def test_whatever_is_kept_gives_the_same(monkeypatch, X, expected, name, keep, blocks):
    if name == "akcl" and keep == "measurements":
        keep = "rows"  # orders change, so nothing measured is worth keeping
    force_plan(monkeypatch, name, keep, blocks)
    data = SOURCES["zarr, coprime chunks"](X)
    model = MODELS[name]().fit(data)
    assert model.plan_.keep == keep
    assert_same(answers(model, data), expected[name])


@pytest.mark.parametrize("name", STREAMING)
def test_dropped_rows_are_the_same_everywhere(monkeypatch, X, name):
    rows = X.copy()
    rows[np.r_[0, 40:1100:7, 1200:1300], 2] = np.nan
    expected = answers(MODELS[name](nan="drop").fit(rows), rows)
    assert_array_equal(expected["labels"] == -1, np.isnan(rows).any(axis=1))
    force_plan(monkeypatch, name, "nothing", 1)
    data = SOURCES["zarr, coprime chunks"](rows)
    assert_same(answers(MODELS[name](nan="drop").fit(data), data), expected)
    with pytest.raises(ValueError, match="row 0, column 2"):
        MODELS[name]().fit(data)


@pytest.mark.parametrize("name", MODELS)
def test_saved_models_say_the_same(tmp_path, X, expected, name):
    model = MODELS[name]().fit(X)
    model.save(tmp_path / "m.zarr")
    loaded = daskkcl.load(tmp_path / "m.zarr")
    assert type(loaded) is type(model)
    assert_array_equal(loaded.predict(X), expected[name]["labels"])
    assert_array_equal(loaded.transform(X), expected[name]["distances"])
    assert loaded.n_clusters_ == model.n_clusters_


@pytest.mark.part(2)
@pytest.mark.parametrize("name", MODELS)
def test_a_killed_run_goes_on(monkeypatch, tmp_path, X, expected, name):
    """Stopped after every save in turn, and taken up with other blocks."""
    saves = 0
    original = Checkpoint.save

    def save(self, state):
        nonlocal saves
        original(self, state)
        saves += 1
        raise KeyboardInterrupt

    data = SOURCES["zarr, coprime chunks"](X)
    monkeypatch.setattr("daskkcl.schedules.sequential._SEGMENT_BLOCKS", 1)
    for blocks in [1, 2, 1, 3] * 8:
        with monkeypatch.context() as patch:
            force_plan(patch, name, "nothing", blocks)
            patch.setattr(Checkpoint, "save", save)
            try:
                model = MODELS[name]().fit(data, checkpoint=tmp_path / "run.ckpt")
                break
            except KeyboardInterrupt:
                continue
    assert saves >= {"kcl": 1}.get(name, 2)
    assert_same(answers(model, data), expected[name])


def test_a_cluster_gives_the_same(X, expected, tmp_path):
    from distributed import Client, LocalCluster

    data = SOURCES["dask, computed"](X)
    with (
        LocalCluster(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        for name in ("akcl", "lcpcl", "fastkscl", "kcl"):
            fitted = MODELS[name](scratch=str(tmp_path)).fit(data, client=client)
            assert_same(answers(fitted, data), expected[name])
