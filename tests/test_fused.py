"""Rows that are measured, met and summed in one compiled loop: equal to the plain way, and to itself."""

import os
import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import daskkcl
from daskkcl.errors import InvalidInputError
from daskkcl.kernels import Rbf
from daskkcl.kernels.distance import CompiledRbfColumns
from daskkcl.maps import landmarks
from daskkcl.maps.base import Centres
from daskkcl.maps.landmarks import LandmarkMap
from daskkcl.rules.crisp import FrequencySensitive, Nearest, cluster_sums
from daskkcl.rules.fused import Fused
from daskkcl.rules.sums import ExactSum
from tests.reference.algebra import rbf as plain_rbf

F32 = np.dtype(np.float32)
C = 4


@pytest.fixture
def compiled(monkeypatch):
    """Let every number of rows be many."""
    monkeypatch.setattr(landmarks, "_MANY_VALUES", 1)


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(5000, 6)) + 5 * rng.integers(0, C, size=(5000, 1))).astype(np.float32)


def map_of(X, m=40, gamma=0.05):
    made = LandmarkMap(Rbf(gamma), X[:m].copy(), F32, many_rows=True)
    made.settle()
    return made


def refuse(rows):
    raise AssertionError("there is nothing wrong with these rows")


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 70), st.floats(1e-3, 10), st.integers(0, 2**16))
@settings(max_examples=40, deadline=None)
def test_kernel_values_equal_their_definition(n, d, m, gamma, seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(3, 1, (n, d)).astype(np.float32), rng.normal(3, 1, (m, d)).astype(np.float32)
    columns = Rbf(gamma).columns(Y, F32).compiled()
    assert isinstance(columns, CompiledRbfColumns)
    Z, kappa = columns.block(X)
    exact = plain_rbf(X.astype(np.float64), Y.astype(np.float64), gamma)
    size = gamma * ((X - Y.mean(0)) ** 2).sum(1).max() + gamma * ((Y - Y.mean(0)) ** 2).sum(1).max()
    assert np.abs(Z - exact).max() <= 4e-7 * (1 + size)  # as the plain way in float32 (`Rbf`, Notes)
    assert (kappa == 1).all()


def powers_of(x):
    """Return the powers of two of some exponents, from the loop that takes them: products with one landmark each."""
    from daskkcl.kernels.rbf_loops import values
    from daskkcl.kernels.strips import WIDTH, pack

    out = np.empty((1, max(WIDTH, len(x))), np.float32)
    values(np.ones((1, 1), np.float32), np.empty(0, np.int64), pack(x[None]), np.empty((1, 0), np.float32), out)
    return out[0, : len(x)]


def test_powers_are_exact_to_float32():
    x = np.linspace(-125.99, 0, 200_001).astype(np.float32)
    assert np.abs(powers_of(x) / np.exp2(x.astype(np.float64)) - 1).max() < 1.2e-7  # a rounding unit
    special = np.array([0.0, 1.0, -126.6, -1e30, -np.inf, np.nan, -126.0, np.inf], np.float32)
    assert powers_of(special).tolist() == [1, 1, 0, 0, 0, 0, 2.0**-126, 1]


@given(st.integers(1, 30), st.integers(1, 40), st.integers(1, 120), st.integers(0, 2**16))
@settings(max_examples=30, deadline=None)
def test_a_value_depends_on_its_row_and_its_landmark_alone(n, d, m, seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(m, d)).astype(np.float32)
    columns = Rbf(0.1).columns(Y, F32).compiled()
    whole = columns.block(X)[0]
    rows = rng.integers(0, n, 7)
    assert (columns.block(X[rows])[0] == whole[rows]).all()


OTHER_PROCESSORS = """
import sys
import llvmlite.binding
import daskkcl.kernels.loops  # numba itself asks before, and is told what is true
if sys.argv[1] == "512 bits":
    asked = llvmlite.binding.get_host_cpu_features
    llvmlite.binding.get_host_cpu_features = lambda: {"avx512f": True}
import daskkcl.kernels.strips
if sys.argv[1] == "512 bits":
    llvmlite.binding.get_host_cpu_features = asked
import numpy as np
from daskkcl.kernels import Rbf
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(13, 7)).astype("f4"), rng.normal(size=(101, 7)).astype("f4")
Z, _ = Rbf(0.1).columns(Y, np.dtype("f4")).compiled().block(X)
exact = np.exp(-0.1 * ((X[:, None].astype("f8") - Y) ** 2).sum(axis=2))
print(daskkcl.kernels.strips.LANES, np.abs(Z - exact).max() < 1e-6)
"""


@pytest.mark.parametrize(
    ("processor", "environment", "lanes"),
    [("512 bits", {}, 16), ("plain", {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}, 8)],
)
def test_other_processors(processor, environment, lanes, tmp_path):
    """Wide vectors, which are cut in two where there are none, and a processor that multiplies and adds one by one."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), **environment}
    command = [sys.executable, "-c", OTHER_PROCESSORS, processor]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(lanes), "True"]


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8", "int16", "bool"])
def test_rows_of_any_type_are_measured(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (300, 5)).astype(dtype)
    Y = rng.normal(size=(20, 5)).astype(np.float32)
    columns = Rbf(0.3).columns(Y, F32)
    np.testing.assert_allclose(columns.compiled().block(X)[0], columns.block(X)[0], rtol=2e-6)


@pytest.mark.parametrize(
    "rule", [Nearest(), FrequencySensitive((5.0, 1.0, 2.0, 2.0, 9.0))], ids=["nearest", "frequency"]
)
@pytest.mark.parametrize("n", [1, 3, 128, 129, 1000])
def test_winners_and_sums_equal_the_plain_way(X, rule, n):
    map_ = map_of(X)
    centres = Centres.from_means(map_.measure(X[100:105])[0].astype(np.float64), map_)
    fused, S = Fused.of(map_, centres, rule), ExactSum.zeros((5, 40))
    labels, nearest, valid = fused.meet_rows(X[:n], refuse, S)
    Z = map_.measure(X[:n])[0]
    D = rule.distances(Z, np.ones(n, np.float32), centres)
    assert valid is None
    np.testing.assert_allclose(nearest, D[np.arange(n), labels], atol=2e-5)
    clear = np.sort(D * getattr(rule, "shares", np.ones(5)), axis=1)
    clear = clear[:, 1] - clear[:, 0] > 1e-4
    assert (labels == rule.labels(D))[clear].all()
    np.testing.assert_allclose(S.settled().value, cluster_sums(Z.astype(np.float64), labels, 5)[0], atol=1e-4)


def test_measured_rows_give_the_same_bits(X):
    """What is kept between passes, or sent between workers, must not change a label."""
    map_ = map_of(X)
    centres = Centres.from_means(map_.measure(X[100:107])[0].astype(np.float64), map_)
    fused = Fused.of(map_, centres, Nearest())
    S, T = ExactSum.zeros((7, 40)), ExactSum.zeros((7, 40))
    one = fused.meet_rows(X, refuse, S)
    other = fused.meet_measured(map_.measure(X)[0], None, T)
    assert (one[0] == other[0]).all()
    assert (one[1] == other[1]).all()
    assert (S.settled().value == T.settled().value).all()


def test_sums_do_not_depend_on_where_blocks_are_cut(X):
    map_ = map_of(X)
    fused = Fused.of(map_, Centres.from_means(map_.measure(X[:3])[0].astype(np.float64), map_), Nearest())
    whole, parts = ExactSum.zeros((3, 40)), ExactSum.zeros((3, 40))
    fused.meet_rows(X, refuse, whole)
    for first in range(0, len(X), 1024):
        part = ExactSum.zeros((3, 40))
        fused.meet_rows(X[first : first + 1024], refuse, part)
        parts.add(part.settled())
    assert (whole.settled().value == parts.settled().value).all()


def test_there_is_a_loop_only_where_it_fits(X):
    map_ = map_of(X)
    centres = Centres.from_means(map_.measure(X[:3])[0].astype(np.float64), map_)
    plain = LandmarkMap(Rbf(0.05), X[:40].copy(), F32)
    assert Fused.of(plain, centres, Nearest()) is None
    assert LandmarkMap(Rbf(0.05), X[:40].copy(), np.dtype(np.float64), many_rows=True).compiled is None
    assert LandmarkMap(daskkcl.kernels.Polynomial(), X[:40].copy(), F32, many_rows=True).compiled is None
    assert Fused.of(map_, centres, object()) is None


ALGORITHMS = {
    "akkmeans": {"max_iter": 4},
    "pakcl": {"subset_size": 500, "max_epochs": 2},
    "pakcl, dealt": {"subset_size": 4096, "max_epochs": 2},
    "pakcl, dealt to threads": {"subset_size": 1300, "max_epochs": 2},
    "okfcm": {},
    "akcl": {"max_epochs": 1},
}


def fit(data, algo, **parameters):
    parameters = {"n_landmarks": 50, "random_state": 0, "progress": False, **ALGORITHMS[algo], **parameters}
    return daskkcl.fit(data, algo.partition(",")[0], C, **parameters)


def labels_of(model):
    return np.asarray(model.labels_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_labels_are_those_of_the_plain_way(X, algo, monkeypatch):
    plain = labels_of(fit(X, algo))
    monkeypatch.setattr(landmarks, "_MANY_VALUES", 1)
    model = fit(X, algo)
    assert model._model.reader.map_.compiled is not None
    assert (labels_of(model) != plain).mean() <= 0.001  # rows between two clusters


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_any_source_and_chunks_give_the_same_labels(X, algo, compiled, tmp_path):
    expected = labels_of(fit(X, algo))
    path = str(tmp_path / "rows.zarr")
    zarr.create_array(path, data=X, chunks=(333, 4))
    sources = (path, da.from_array(X, chunks=((1, 2000, 2999), 6)), np.asfortranarray(X), X.astype(np.float64))
    for source in sources:
        assert (labels_of(fit(source, algo)) == expected).all()
    model = fit(path, algo, memory_limit="2GiB")
    assert (labels_of(model) == expected).all()
    assert (np.asarray(model.predict(X)) == expected).all()
    model.save(str(tmp_path / "model.zarr"))
    loaded = daskkcl.load(str(tmp_path / "model.zarr"))
    assert loaded._model.reader.map_.compiled is not None
    assert (np.asarray(loaded.predict(X)) == expected).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algo", ["pakcl, dealt", "pakcl, dealt to threads"])
def test_any_number_of_threads_gives_the_same_labels(X, algo, compiled, tmp_path):
    path = str(tmp_path / "rows.zarr")
    zarr.create_array(path, data=X, chunks=(333, 6))
    expected = labels_of(fit(X, algo))
    for threads in (1, 3, 4):
        with dask.config.set(num_workers=threads):
            assert (labels_of(fit(X, algo)) == expected).all()
            assert (labels_of(fit(path, algo, memory_limit="2GiB")) == expected).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("keep", ["measurements", "rows", "measurements in scratch", "nothing"])
def test_what_is_kept_between_passes_changes_nothing(X, keep, compiled, tmp_path, monkeypatch):
    from dataclasses import replace

    from daskkcl.schedules import setup

    expected = labels_of(fit(X, "akkmeans"))
    path = str(tmp_path / "rows.zarr")
    zarr.create_array(path, data=X, chunks=(333, 6))
    plan = setup.plan_run
    monkeypatch.setattr("daskkcl.estimators.base.plan_run", lambda *a, **k: replace(plan(*a, **k), keep=keep))
    model = fit(path, "akkmeans")
    assert model.plan_.keep == keep
    assert (labels_of(model) == expected).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_rows_with_nan_are_named_or_dropped(X, algo, compiled):
    rows = X.copy()
    rows[[17, 18, 4321]] = np.nan
    rows[900, 2] = np.inf
    with pytest.raises(InvalidInputError, match=r"row 17, column 0"):
        fit(rows, algo)
    labels = labels_of(fit(rows, algo, nan="drop"))
    assert (np.flatnonzero(labels < 0) == [17, 18, 900, 4321]).all()
    good = np.delete(np.arange(len(X)), [17, 18, 900, 4321])
    others = labels_of(fit(X, algo))[good]
    # a sample of other rows gives slightly other centres
    assert (daskkcl.measures.ari(others, labels[good])) > 0.97


def test_rows_too_long_for_float32_have_labels(X, compiled):
    rows = X.copy()
    rows[1234] = 3e30  # its square is not a number of float32
    model = fit(X, "akkmeans")
    labels = np.asarray(model.predict(rows))
    rest = np.delete(np.arange(len(X)), 1234)
    assert (labels[rest] == labels_of(model)[rest]).all()
    Z = model._model.reader.map_.measure(rows[1234:1235])[0]
    assert (Z == 0).all()
    assert 0 <= labels[1234] < C


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_workers_give_the_labels_of_threads(X, compiled, tmp_path):
    """Measured on workers and met there, or read and met in one task: the same loop."""
    distributed = pytest.importorskip("distributed")
    path = str(tmp_path / "rows.zarr")
    zarr.create_array(path, data=X, chunks=(333, 6))
    expected = {algo: labels_of(fit(X, algo)) for algo in ("akkmeans", *(one for one in ALGORITHMS if "pakcl" in one))}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        for algo, labels in expected.items():
            model = fit(path, algo, client=client, scratch=str(tmp_path))
            assert (np.asarray(model.labels_) == labels).all(), algo
