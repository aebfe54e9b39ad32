"""Many clusters: the index of centres, sums that touch only what they add to, the start in two levels."""

import math
import pickle

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from numpy.testing import assert_array_equal

import daskkcl
from daskkcl import PAKCL, ApproxKernelKMeans, SparseKernelKMeans
from daskkcl.estimators.validation import uses_index
from daskkcl.kernels import Rbf
from daskkcl.maps.base import Centres, squared_distances
from daskkcl.maps.explicit import IdentityMap
from daskkcl.maps.landmarks import LandmarkMap
from daskkcl.measures import ari
from daskkcl.rules import index as index_module
from daskkcl.rules.crisp import FrequencySensitive, Nearest
from daskkcl.rules.fuzzy import d2_seeds, distances_from
from daskkcl.rules.index import CentreIndex
from daskkcl.rules.many import MANY, seeds_in_groups, winners
from daskkcl.system import resident_bytes

pytestmark = pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
needs_faiss = pytest.mark.skipif(not index_module.index_available(), reason="needs faiss: pip install faiss-cpu")

N, D, C = 4000, 8, 640  # twenty cells, of which a row meets sixteen: the index is an approximation
COMMON = {"n_clusters": C, "random_state": 3, "progress": False, "nearest": "index"}
MODELS = {
    "akkmeans": lambda **kw: ApproxKernelKMeans(**{**COMMON, "n_landmarks": 70, "max_iter": 3, **kw}),
    "pakcl": lambda **kw: PAKCL(**{**COMMON, "map": "identity", "max_epochs": 1, **kw}),
    "skkmeans": lambda **kw: SparseKernelKMeans(
        **{**COMMON, "n_clusters": 60, "buffer_size": 300, "recluster_every": 500, "n_init": 1, **kw}
    ),
}


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, C, N)
    return (rng.normal(0, 4, (C, D))[y] + rng.normal(size=(N, D))).astype(np.float32), y


def identity_centres(rows):
    map_ = IdentityMap(np.zeros(rows.shape[1]), np.dtype(np.float32))
    return map_, Centres.from_means(map_.measure(rows)[0], map_)


@needs_faiss
@pytest.mark.parametrize("width", [16, 200])  # within the index's coordinates, and beyond them
def test_the_index_finds_nearest_centres(width):
    rng = np.random.default_rng(1)
    rows = (rng.normal(0, 3, (2000, 10)) @ rng.normal(size=(10, width))).astype(np.float32)
    map_, centres = identity_centres(rows)
    own = rng.integers(0, 2000, 1500)
    Z, kappa = map_.measure(rows[own] + rng.normal(size=(1500, width)).astype(np.float32))
    index = CentreIndex.of(centres)
    assert index.points.shape[1] <= 64
    assert len(index.cells) > 16
    labels, distances = index.winners(Z, kappa, centres)
    exact, exact_distances = winners(Z, kappa, centres, Nearest())
    found = labels == exact
    assert found.mean() > 0.99
    np.testing.assert_allclose(distances[found], exact_distances[found], rtol=1e-3, atol=0.1)


@needs_faiss
def test_the_index_finds_centres_in_the_span_of_landmarks():
    rng = np.random.default_rng(2)
    rows = rng.normal(0, 3, (1200, 6)).astype(np.float32)
    for gamma in (0.01, 1.0):  # a smooth feature space, and one in which all directions are alike
        map_ = LandmarkMap(Rbf(gamma), rows[:300], np.dtype(np.float32))
        centres = Centres.from_means(map_.measure(rows)[0], map_)
        Z, kappa = map_.measure(rows + rng.normal(0, 0.1, rows.shape).astype(np.float32))
        exact = squared_distances(Z, kappa, centres)
        labels, _ = CentreIndex.of(centres).winners(Z, kappa, centres)
        worse = exact[np.arange(len(Z)), labels] - exact.min(axis=1)
        assert (worse < 1e-4).mean() > 0.95


@needs_faiss
def test_frequencies_weigh_the_candidates():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(40, 3)).astype(np.float32)
    map_, centres = identity_centres(rows)
    centres = Centres.from_means(centres.means[:16], map_)  # as many as there are candidates: all are compared
    Z, kappa = map_.measure(rng.normal(size=(500, 3)).astype(np.float32))
    rule = FrequencySensitive(tuple(rng.integers(1, 9, 16).astype(float)))
    assert_array_equal(
        winners(Z, kappa, centres, rule, CentreIndex.of(centres))[0], winners(Z, kappa, centres, rule)[0]
    )


@needs_faiss
def test_an_answer_does_not_depend_on_the_rows_around_it():
    rng = np.random.default_rng(4)
    _, centres = identity_centres(rng.normal(size=(1500, 20)).astype(np.float32))
    index, Z = CentreIndex.of(centres), rng.normal(size=(700, 20)).astype(np.float32)
    whole = index.candidates(Z)
    for size in (1, 7, 64, 699):
        assert_array_equal(np.concatenate([index.candidates(Z[a : a + size]) for a in range(0, 700, size)]), whole)
    assert_array_equal(pickle.loads(pickle.dumps(index)).candidates(Z), whole)
    assert_array_equal(CentreIndex.of(centres).candidates(Z), whole)


@needs_faiss
@pytest.mark.parametrize("name", MODELS)
def test_labels_do_not_depend_on_chunks_or_threads(name, blobs, tmp_path):
    X, _ = blobs
    model = MODELS[name]().fit(X)
    labels = model.labels_
    assert_array_equal(model.predict(X), labels)
    model.save(tmp_path / "model.zarr")
    loaded = daskkcl.load(tmp_path / "model.zarr")
    assert loaded.nearest == "index"
    assert_array_equal(loaded.predict(X), labels)
    stored = zarr.create_array({}, shape=X.shape, dtype=X.dtype, chunks=(777, 5))
    stored[...] = X
    for threads, rows in ((1, stored), (3, da.from_array(X, chunks=(1234, 3)))):
        with dask.config.set(num_workers=threads):
            again = MODELS[name](memory_limit=resident_bytes() + 2**29 if threads == 1 else None).fit(rows)
            assert_array_equal(np.asarray(again.labels_), labels)
            assert again.objective_ == model.objective_


@needs_faiss
def test_quality_with_and_without_an_index(blobs):
    X, y = blobs
    exact, indexed = (
        MODELS["akkmeans"](nearest=how, map="identity", n_landmarks=None).fit(X) for how in ("exact", "index")
    )
    assert exact._model.index is None
    assert indexed._model.index is not None
    assert indexed.objective_ < 1.02 * exact.objective_
    assert ari(y, indexed.labels_) > ari(y, exact.labels_) - 0.02
    distances = exact.transform(X)
    assert_array_equal(exact.labels_, distances.argmin(axis=1))
    own = distances[np.arange(N), exact.labels_].astype(np.float64)
    assert exact.objective_ == pytest.approx((own**2).sum(), rel=1e-4)


@needs_faiss
def test_a_run_is_taken_up_where_it_stopped(blobs, tmp_path):
    X, _ = blobs
    whole = MODELS["akkmeans"]().fit(X)
    path = tmp_path / "checkpoint"
    MODELS["akkmeans"]().fit(X, checkpoint=path)
    assert_array_equal(MODELS["akkmeans"]().fit(X, checkpoint=path).labels_, whole.labels_)
    with pytest.raises(daskkcl.errors.CheckpointError, match="nearest"):
        MODELS["akkmeans"](nearest="exact").fit(X, checkpoint=path)


def test_sums_in_place_are_exact_in_any_order():
    from daskkcl.rules.many_loops import add_exactly
    from daskkcl.rules.sums import ExactSum

    rng = np.random.default_rng(5)
    Z = (rng.normal(size=(500, 2)) * 10.0 ** rng.integers(-8, 8, (500, 2))).astype(np.float32)
    labels = rng.integers(-1, 3, 500)
    results = []
    for order in (np.arange(500), rng.permutation(500)):
        high, low = np.zeros((3, 2)), np.zeros((3, 2))
        add_exactly(Z[order], labels[order], high, low)
        ExactSum(high, low).settled()
        results.append(high)
    assert_array_equal(*results)
    expected = [[math.fsum(Z[labels == c, k].astype(float)) for k in range(2)] for c in range(3)]
    assert_array_equal(results[0], expected)


def test_a_start_in_two_levels_is_nearly_as_good_as_one_among_all_rows(blobs):
    X, _ = blobs
    map_, rng, ones = IdentityMap(X.mean(axis=0), np.dtype(np.float32)), np.random.default_rng(0), np.ones(N)
    Z, kappa = map_.measure(X)

    def cost(seeds):
        return squared_distances(Z, kappa, Centres.from_means(Z[seeds], map_)).min(axis=1).sum()

    seeds = seeds_in_groups(Z, kappa, map_, ones, C, rng)
    assert len(seeds) == len(set(seeds)) == C >= MANY
    among_all = d2_seeds(distances_from(Z, kappa, map_), ones, C, rng)
    uniform = rng.choice(N, C, replace=False)
    assert cost(seeds) < 1.2 * cost(among_all) < 0.8 * cost(uniform)


def test_what_is_not_known_or_not_installed_is_said(monkeypatch, blobs):
    X, _ = blobs
    with pytest.raises(daskkcl.errors.InvalidInputError, match=r"nearest='indx' is not known.*Did you mean 'index'"):
        MODELS["akkmeans"](nearest="indx").fit(X)
    with pytest.raises(TypeError, match="nearest"):
        daskkcl.APNCKMeans(3, nearest="index")
    monkeypatch.setattr(index_module, "find_spec", lambda name: None)
    with pytest.raises(daskkcl.errors.InvalidInputError, match=r"pip install 'daskkcl\[index\]'"):
        MODELS["pakcl"]().fit(X)
    with pytest.warns(daskkcl.errors.DaskkclWarning, match="faiss is not installed"):
        assert not uses_index("auto", 5000, 500)
    assert not uses_index("auto", 1000, 500)


@needs_faiss
def test_a_buffer_is_clustered_with_all_centres(blobs):
    """Its coordinates are nearly indicators of the clusters: an index of them loses many, so it is taken if asked."""
    own = {"n_clusters": C, "buffer_size": 2 * C, "max_buffer": 2 * C, "n_neighbors": 12}
    auto, indexed = (MODELS["skkmeans"](**own, nearest=how).fit(blobs[0]) for how in ("auto", "index"))
    assert auto._model.index is None
    assert indexed._model.index is not None
    assert_array_equal(auto.buffer_row_numbers_, indexed.buffer_row_numbers_)
    assert auto.history_ == indexed.history_
    assert auto.objective_ <= indexed.objective_


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_thousand_eigenvectors_under_two_gibibytes(tmp_path):
    """A buffer of 6,000 rows: its matrix takes 0.3 GiB, its eigenvectors a tenth of one each time they are there."""
    from benchmarks.many_clusters import fit_in_fresh_process, write_blobs

    write_blobs(tmp_path, 20_000, 64, 2000)
    own = {"n_clusters": 2000, "buffer_size": 6000, "max_buffer": 6500, "n_neighbors": 12, "gamma": 0.003}
    run = fit_in_fresh_process(tmp_path, "skkmeans", "2GiB", **own)
    print(run)
    assert run["peak_bytes"] <= run["planned_bytes"] <= run["limit_bytes"] == 2 * 2**30
    assert run["nmi"] > 0.95


@needs_faiss
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("algo, passes", [("akkmeans", {"max_iter": 3, "tol": 0}), ("pakcl", {})])
def test_five_times_the_clusters_take_at_most_twice_the_time(tmp_path, algo, passes):
    """A million rows under 2 GiB, by seconds of the processor: others may use the machine."""
    from benchmarks.many_clusters import fit_in_fresh_process, write_blobs

    seconds = []
    for c in (2000, 10_000):
        folder = tmp_path / str(c)
        folder.mkdir()
        write_blobs(folder, 1_000_000, 64, c)
        run = fit_in_fresh_process(folder, algo, "2GiB", n_clusters=c, nearest="index", map="identity", **passes)
        print(run)
        assert run["peak_bytes"] <= run["planned_bytes"] <= run["limit_bytes"] == 2 * 2**30
        assert run["indexed"]
        assert run["nmi"] > 0.98
        seconds.append(run["cpu_seconds"])
    assert seconds[1] <= 2 * seconds[0]


def test_an_index_is_for_fit_not_for_streams(blobs):
    with pytest.raises(daskkcl.errors.InvalidInputError, match="nearest='index' is for fit"):
        MODELS["pakcl"]().partial_fit(blobs[0][:500])
