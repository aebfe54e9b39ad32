"""Sparse kernel k-means: what it computes, what it finds, and that it is the same whatever carries the rows."""

import pickle
from dataclasses import replace

import dask
import numpy as np
import pytest
import zarr
from data_sets import load
from numpy.testing import assert_allclose, assert_array_equal
from reference.sparse_kernel import grow, leading, neighbour_kernel_of, projection
from scipy.sparse import block_diag, csr_array
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from test_invariance import SOURCES, answers, assert_same, force_plan, make_rows

import daskkcl
from benchmarks.sparse_kernel import EQUAL, UNEQUAL, circle_samples
from daskkcl import SparseKernelKMeans
from daskkcl.errors import InvalidInputError, MemoryLimitError, WrongTypeError
from daskkcl.kernels import Linear, Polynomial, Rbf
from daskkcl.maps import sparse_kernel
from daskkcl.maps.nearest import nearest_mask
from daskkcl.maps.sparse_kernel import SparseKernelMap, leading_pairs, neighbour_kernel
from daskkcl.random import Key
from daskkcl.rules.sparse_kernel import Growth, begin_buffer, entry_chances, finish_buffer, meet_batch
from daskkcl.schedules.checkpoint import Checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::daskkcl.errors.ConvergenceWarning")
FLOAT64 = np.dtype("float64")


def rows_of(n=400, d=3, c=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, n)
    return 3 * rng.normal(size=(c, d))[y] + rng.normal(size=(n, d)), y


def small(**changes):
    parameters = {"buffer_size": 60, "n_neighbors": 15, "max_buffer": 80, "batch_size": 100, "recluster_every": 3}
    return SparseKernelKMeans(**{"n_clusters": 4, **parameters, "random_state": 4, "progress": False, **changes})


# --- the pieces -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 7, 60])
@pytest.mark.parametrize("neighbors", ["mutual", "either"])
@pytest.mark.parametrize(
    "kernel", [Rbf(0.1), Linear(), Polynomial(degree=2, gamma=0.1)], ids=lambda kernel: kernel.name
)
def test_the_sparse_kernel_is_that_of_neighbours(kernel, neighbors, p):
    X, _ = rows_of(60)
    X[3] = 0  # at the origin of the linear kernel: seen by nobody
    matrix = neighbour_kernel(X, kernel, p, neighbors)
    assert_allclose(matrix.toarray(), neighbour_kernel_of(kernel(X, X), p, neighbors), rtol=1e-12, atol=1e-12)
    assert_array_equal((matrix - matrix.T).toarray(), 0)


def test_rows_at_the_origin_take_nobodys_place():
    """Rows without words are nearer to a row than most others are, and have nothing in common with it."""
    y = np.arange(300) % 4
    words = (np.random.default_rng(0).random((300, 120)) < 0.2) & (np.arange(120) // 30 == y[:, None])
    X = np.concatenate([words, np.zeros((100, 120))])
    model = SparseKernelKMeans(4, kernel="cosine", buffer_size=200, n_neighbors=40, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_[:300]) > 0.9


def test_equal_distances_are_taken_in_order():
    X = np.repeat(rows_of(12)[0], 5, axis=0)  # every row five times
    kernel = Rbf(0.1)
    K = kernel(X, X)
    for p in (1, 3, 7, 59):
        assert (nearest_mask(K, np.ones(60), p).sum(axis=1) == p).all()
        assert_allclose(neighbour_kernel(X, kernel, p).toarray(), neighbour_kernel_of(K, p), rtol=1e-12)


@pytest.mark.parametrize("p", [3, 20, 60])
@pytest.mark.parametrize("unit", [False, True])
def test_measurements_and_scores_are_projections(p, unit):
    X, _ = rows_of(200)
    S, rest = X[:60], X[60:]
    map_ = SparseKernelMap.begin(S, Rbf(0.1), p, 4, FLOAT64, unit=unit)
    values, vectors = leading(neighbour_kernel_of(Rbf(0.1)(S, S), p), 4)
    K = Rbf(0.1)(rest, S)
    expected = np.array([projection(k, np.ones(60), p, values, vectors) for k in K])
    assert_allclose(map_.scores(rest), (expected**2 / values).sum(axis=1), atol=1e-10)
    Y = vectors * np.sqrt(values)
    if unit:
        for A in (expected, Y):
            lengths = np.linalg.norm(A, axis=1)[:, None]
            A /= np.where(lengths > 1e-6 * np.sqrt(values[0]), lengths, 1)
    Z, kappa = map_.measure(rest)
    assert_allclose(map_.coordinates @ map_.coordinates.T, Y @ Y.T, atol=1e-8)
    assert_allclose(Z @ Z.T, expected @ expected.T, atol=1e-10)  # eigenvectors have no sign of their own
    assert_allclose(kappa, (expected**2).sum(axis=1), atol=1e-10)
    assert_allclose(map_.values, values)


def test_leverage_is_that_of_the_exact_eigenvectors():
    X, _ = rows_of(80)
    K = Rbf(0.1)(X, X)
    for p in (10, 80):
        _, vectors = leading(K if p == 80 else neighbour_kernel_of(K, p), 4)
        map_ = SparseKernelMap.begin(X, Rbf(0.1), p, 4, FLOAT64)
        assert_allclose(map_.leverage, (vectors**2).sum(axis=1), atol=1e-10)
        assert_allclose(map_.leverage.sum(), 4)
    assert_allclose(map_.scores(X), map_.leverage, atol=1e-10)  # p = m: a row's score is its own leverage


def test_without_sparsity_or_entries_it_is_kernel_spectral_clustering():
    """All rows in the buffer, all of them seen: k-means on the leading eigenvectors of the kernel matrix."""
    from sklearn.cluster import KMeans

    X, _ = rows_of(150)
    model = SparseKernelKMeans(4, gamma=0.05, buffer_size=150, n_neighbors=150, random_state=0).fit(X)
    assert model.n_entered_ == 0
    assert sorted(model.buffer_row_numbers_) == list(range(150))
    values, vectors = np.linalg.eigh(Rbf(0.05)(X, X))
    Y = vectors[:, -4:] * np.sqrt(values[-4:])
    exact = KMeans(4, n_init=50, random_state=0).fit(Y)
    assert adjusted_rand_score(exact.labels_, model.labels_) == 1
    assert_allclose(model.objective_, exact.inertia_, rtol=1e-6)
    assert_allclose(model.leverage_, (vectors[:, -4:] ** 2).sum(axis=1)[model.buffer_row_numbers_], atol=1e-8)


# --- eigenpairs that are carried on ---------------------------------------------------------------------------------


@pytest.mark.part(3)
@pytest.mark.parametrize("p", [15, 60, 400])
def test_eigenpairs_stay_those_of_the_matrix(monkeypatch, p):
    """Over two hundred entries, most of them with evictions, they are improved, never made afresh."""
    X, _ = rows_of(4000, 5, 6, seed=1)
    X = X.astype(np.float32)
    improved, decomposed = [], sparse_kernel._decomposed
    original = sparse_kernel._improved
    monkeypatch.setattr(sparse_kernel, "_improved", lambda *a: improved.append(original(*a)) or improved[-1])
    growth = Growth(6, 420, 4, 2, 50, Key(0))
    buffer = begin_buffer(SparseKernelMap.begin(X[:400], Rbf(0.05), p, 6, np.dtype("float32")), np.arange(400), growth)
    seen = 0
    for first in range(400, 4000, 100):
        version, rows = buffer.version, X[first : first + 100]
        chances = 25 * entry_chances(buffer.map_, rows, 6)
        buffer = meet_batch(buffer, rows, np.arange(first, first + 100), chances, growth)
        if buffer.version > version:
            seen += 1
            map_ = buffer.map_
            values, vectors = decomposed(map_.matrix, 6)
            assert_allclose(map_.values, values, rtol=0, atol=1e-6 * values[0])
            assert_allclose(map_.vectors @ map_.vectors.T, vectors @ vectors.T, atol=1e-6)
            assert_allclose(map_.leverage, (vectors**2).sum(axis=1), atol=1e-6)
    assert buffer.n_entered >= 150
    assert buffer.map_.n_rows == 420
    assert seen >= 20
    assert all(pair is not None for pair in improved)
    assert len(improved) >= 2 * seen - 10  # once for entries, once for evictions


def test_an_eigenvector_that_the_old_ones_do_not_touch_is_found():
    """Two parts that do not see one another change places: the old vectors alone would never tell."""
    rng = np.random.default_rng(0)
    A, B = (rng.uniform(0.5, 1, (150, 150)) for _ in range(2))
    A, B = A @ A.T, B @ B.T
    zero = np.zeros((150, 150))
    before = leading_pairs(csr_array(np.block([[2 * A, zero], [zero, B]])), 1)
    after = csr_array(np.block([[A, zero], [zero, 2 * B]]))
    values, vectors = leading_pairs(after, 1, before[1])
    assert_allclose(values, np.linalg.eigvalsh(2 * B)[-1:])
    assert_allclose(vectors[:150], 0, atol=1e-8)


def test_large_buffers_are_decomposed_by_iteration(monkeypatch):
    X, _ = rows_of(300)
    expected = SparseKernelMap.begin(X, Rbf(0.1), 30, 4, FLOAT64)
    monkeypatch.setattr(sparse_kernel, "_DENSE", 100)
    found = SparseKernelMap.begin(X, Rbf(0.1), 30, 4, FLOAT64)
    assert_allclose(found.values, expected.values)
    assert_allclose(found.leverage, expected.leverage, atol=1e-8)


@pytest.mark.parametrize("count", [15, 100])
def test_equal_eigenvalues_are_all_found_by_iteration(monkeypatch, count):
    """Parts of the buffer that are alike and do not touch have the same eigenvalues, one for each part."""
    rng = np.random.default_rng(0)
    X = 9 * rng.normal(size=(40, 8))[rng.integers(0, 40, 200)] + rng.normal(size=(200, 8))
    part = neighbour_kernel(X, Rbf(0.01), 6)
    matrix = block_diag([part] * 4, format="csr")
    expected = np.sort(np.tile(np.linalg.eigvalsh(part.toarray()), 4))[::-1][:count]
    monkeypatch.setattr(sparse_kernel, "_DENSE", 100)
    monkeypatch.setattr(sparse_kernel, "_FEW", 1)
    assert_allclose(leading_pairs(matrix, count)[0], expected, rtol=1e-10)


def test_a_kernel_that_is_zero():
    values, vectors = leading_pairs(csr_array((5, 5)), 3)
    assert_array_equal(values, [1])
    assert_array_equal(vectors, np.zeros((5, 1)))


# --- the twin -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", ["mutual", "either"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"buffer_size": 40, "n_neighbors": 10, "max_buffer": 80, "batch_size": 50, "recluster_every": 1},
        {"buffer_size": 40, "n_neighbors": 10, "max_buffer": 44, "batch_size": 16, "recluster_every": 3},
        {"buffer_size": 30, "n_neighbors": 30, "max_buffer": 30, "batch_size": 1, "recluster_every": 1},
        {"buffer_size": 20, "n_neighbors": 7, "max_buffer": 25, "batch_size": 1000, "recluster_every": 5},
    ],
    ids=str,
)
def test_it_equals_the_twin(sizes, neighbors):
    X, _ = rows_of(700)
    n, gamma, key = len(X), 0.1, Key(3)
    model = SparseKernelKMeans(4, gamma=gamma, random_state=3, dtype="float64", neighbors=neighbors, **sizes).fit(X)
    twin = grow(
        Rbf(gamma)(X, X),
        key.child("order", 0).rows(n, 0, n),
        *(sizes["buffer_size"], sizes["n_neighbors"], 4),
        *(sizes["max_buffer"], sizes["batch_size"], sizes["recluster_every"]),
        key.child("entry").uniform(np.arange(n)),
        neighbors,
    )
    assert twin.n_entered == model.n_entered_ > 5
    assert_array_equal(model.buffer_row_numbers_, twin.numbers)
    assert_array_equal(model.buffer_, X[twin.numbers])
    map_ = model._model.reader.map_
    assert_allclose(map_.matrix.toarray(), twin.K, rtol=1e-10, atol=1e-12)
    assert_allclose(map_.values, twin.values, rtol=1e-8)
    assert_allclose(model.leverage_, (twin.vectors**2).sum(axis=1), atol=1e-7)
    # Every row is nearest to the mean of a cluster of the buffer, in projections.
    S = twin.numbers
    Z = np.array(
        [projection(k, np.ones(len(S)), map_.n_neighbors, twin.values, twin.vectors) for k in Rbf(gamma)(X, X[S])]
    )
    Y = twin.vectors * np.sqrt(twin.values)
    own = ((Y[:, None] - buffer_means(model, Y)) ** 2).sum(axis=-1).argmin(axis=1)
    means = np.array([Y[own == k].mean(axis=0) for k in range(4)])
    assert_allclose(means, buffer_means(model, Y), atol=1e-6)  # k-means has come to rest
    assert_array_equal(((Z[:, None] - means) ** 2).sum(axis=-1).argmin(axis=1), model.labels_)


def buffer_means(model, Y):
    """The model's centres, turned into the twin's eigenvectors: both bases span the same space."""
    map_ = model._model.reader.map_
    turn = np.linalg.lstsq(map_.coordinates, Y, rcond=None)[0]
    return (model._model.centres.means @ turn)[model._model.order]


def test_the_last_clustering_is_the_better_of_two():
    X, _ = rows_of(500)
    growth = Growth(4, 100, 2, 3, 50, Key(0))
    buffer = begin_buffer(SparseKernelMap.begin(X[:50], Rbf(0.1), 20, 4, FLOAT64), np.arange(50), growth)
    buffer = meet_batch(buffer, X[50:], np.arange(50, 500), entry_chances(buffer.map_, X[50:], 4), growth)
    carried = finish_buffer(buffer, growth, reseed=False)
    assert carried is buffer
    assert finish_buffer(buffer, growth, reseed=True).history[-1] <= buffer.history[-1]


def test_a_cluster_that_lost_all_its_rows_begins_again():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 4
    X = 20 * np.eye(4)[y] + rng.normal(size=(200, 4))
    growth = Growth(4, 200, 5, 3, 50, Key(0))
    first = begin_buffer(SparseKernelMap.begin(X[:100], Rbf(0.01), 20, 4, FLOAT64), np.arange(100), growth)
    gone = first.labels[0]  # its rows are counted among another's, as if nobody had been nearest to its centre
    other = (gone + 1) % 4
    buffer = replace(first, labels=np.where(first.labels == gone, other, first.labels))
    buffer = meet_batch(buffer, X[100:105], np.arange(100, 105), np.ones(5), growth)
    assert buffer.n_entered == 5
    before, after = first.labels, buffer.labels[:100]
    settled = (before != gone) & (before != other)
    assert_array_equal(after[settled], before[settled])
    assert adjusted_rand_score(y[:105], buffer.labels) == 1


# --- the same whatever carries the rows -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def X():
    return make_rows()


@pytest.fixture(scope="module")
def expected(X):
    with dask.config.set(num_workers=1):
        model = small().fit(X)
    assert model.n_entered_ > 10
    return answers(model, X)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "source", ["zarr, coprime chunks", "dask, ragged", "numpy, other byte order", "zarr, column chunks"]
)
def test_any_source_gives_the_same(X, expected, source, threads):
    data = SOURCES[source](X)
    with dask.config.set(num_workers=threads):
        model = small().fit(data)
        assert_same(answers(model, data), expected)
    assert_array_equal(model.buffer_, X[model.buffer_row_numbers_])


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("keep", ["rows", "nothing"])
def test_whatever_is_kept_gives_the_same(monkeypatch, X, expected, keep, blocks):
    monkeypatch.setitem(__import__("test_invariance").QUANTA["subsets"], "skkmeans", 100)
    force_plan(monkeypatch, "skkmeans", keep, blocks)
    data = SOURCES["zarr, coprime chunks"](X)
    model = small().fit(data)
    assert model.plan_.keep == keep
    assert_same(answers(model, data), expected)


def test_dropped_rows_are_the_same_everywhere(X):
    rows = X.copy()
    rows[np.r_[0, 40:1100:7, 1200:1300], 2] = np.nan
    expected = answers(small(nan="drop").fit(rows), rows)
    assert_array_equal(expected["labels"] == -1, np.isnan(rows).any(axis=1))
    data = SOURCES["zarr, coprime chunks"](rows)
    model = small(nan="drop").fit(data)
    assert_same(answers(model, data), expected)
    assert np.isfinite(model.buffer_).all()
    with pytest.raises(InvalidInputError, match=r"row 0\b"):
        small().fit(data)


@pytest.mark.part(2)
@pytest.mark.parametrize("done", [1, 5])
def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch, X, expected, done):
    from daskkcl.schedules import sparse_kernel as schedule

    monkeypatch.setitem(__import__("test_invariance").QUANTA["subsets"], "skkmeans", 100)
    monkeypatch.setattr(schedule, "_SEGMENT_BLOCKS", 2)
    force_plan(monkeypatch, "skkmeans", "nothing", 1)
    saves, save = [], Checkpoint.save

    def stopping(checkpoint, state):
        save(checkpoint, state)
        saves.append(int(state["position"]))
        if len(saves) == done:
            raise KeyboardInterrupt

    data = SOURCES["zarr, coprime chunks"](X)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", stopping)
        with pytest.raises(KeyboardInterrupt):
            small().fit(data, checkpoint=tmp_path / "run")
        model = small().fit(data, checkpoint=tmp_path / "run")
    assert_same(answers(model, data), expected)
    assert saves == sorted(saves), "rows were met twice"
    again = small().fit(data, checkpoint=tmp_path / "run")
    assert_same(answers(again, data), expected)


@pytest.mark.parametrize("changes", [{}, {"neighbors": "either", "normalize": True}], ids=["default", "changed"])
def test_a_saved_model(tmp_path, X, changes):
    model = small(**changes).fit(X)
    model.save(tmp_path / "model.zarr")
    twin = daskkcl.load(tmp_path / "model.zarr")
    assert type(twin) is SparseKernelKMeans
    assert (twin.neighbors, twin.normalize) == (model.neighbors, model.normalize)
    assert_array_equal(twin.predict(X), model.labels_)
    assert_array_equal(twin.transform(X), model.transform(X))
    for name in ("buffer_", "buffer_row_numbers_", "leverage_", "n_entered_", "cluster_sizes_", "history_"):
        assert_array_equal(getattr(twin, name), getattr(model, name), err_msg=name)
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.predict(X), model.labels_)
    assert_array_equal(clone(model).fit(X).labels_, model.labels_)


DAMAGE = {
    "eigenvalues": [lambda a: -a, lambda a: a[:-1]],
    "eigenvectors": [lambda a: a[:-1], lambda a: a[:, :-1]],
    "kernel_values": [lambda a: a[:-1], lambda a: a * np.nan],
    "kernel_columns": [lambda a: a + len(a), lambda a: a[:-1], lambda a: a.astype(float)],
    "kernel_starts": [lambda a: a[::-1], lambda a: a[:-1], lambda a: np.r_[a[0], a[-1], a[1:-2], a[-1]]],
    "buffer_row_numbers": [lambda a: a[:-1], lambda a: -1 - a],
    "landmarks": [lambda a: a[:-1]],
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_model_is_refused(tmp_path, X, name):
    small().fit(X).save(tmp_path / "model.zarr")
    group = zarr.open_group(tmp_path / "model.zarr", mode="r+")
    whole = group[name][...]
    for damage in (*DAMAGE[name], None):
        del group[name]
        if damage is not None:
            values = np.ascontiguousarray(damage(whole))
            group.create_array(
                name, data=values, chunks=values.shape, compressors=None, config={"write_empty_chunks": True}
            )
        with pytest.raises(InvalidInputError, match="refused"):
            daskkcl.load(tmp_path / "model.zarr")
        if damage is None:
            return


# --- streams --------------------------------------------------------------------------------------------------------


def test_a_stream_does_not_depend_on_its_portions(X):
    whole = small().partial_fit(X[:2000])
    assert whole.n_entered_ > 5
    for portions in ([30, 40, 1, 0, 529, 700, 700], [5, 54, 1, 40, 100, 1800], [60, 1940]):
        assert sum(portions) == 2000
        model, first = small(), 0
        for n in portions:
            if n:
                model.partial_fit(X[first : first + n])
            first += n
        assert_array_equal(model.buffer_row_numbers_, whole.buffer_row_numbers_)
        assert_array_equal(model.buffer_, X[:2000][model.buffer_row_numbers_])
        assert_array_equal(model.transform(X), whole.transform(X))


def test_a_stream_is_bounded_and_clusters_well():
    X, y = rows_of(6000, 4, 4, seed=5)
    model = small(max_buffer=70)
    sizes = []
    for first in range(0, 6000, 500):
        model.partial_fit(X[first : first + 500])
        sizes.append(len(model.buffer_))
        assert_array_equal(model.labels_, model.predict(X[first : first + 500]))
        assert model.cluster_sizes_.sum() == 500
        assert len(pickle.dumps(model)) < 100_000
    assert max(sizes) <= 70
    fitted = small(max_buffer=70).fit(X)
    assert adjusted_rand_score(y, model.predict(X)) > adjusted_rand_score(y, fitted.labels_) - 0.05


def test_clusters_of_a_stream_keep_their_numbers():
    X, _ = rows_of(3000, 4, 4, seed=5)
    model = small().partial_fit(X[:1000])
    before = model.predict(X)
    model.partial_fit(X[1000:])
    assert (model.predict(X) == before).mean() > 0.95


def test_a_stream_goes_on_from_a_fit_and_from_a_saved_model(tmp_path, X):
    fitted = small().fit(X[:1500])
    fitted.save(tmp_path / "model.zarr")
    loaded = daskkcl.load(tmp_path / "model.zarr").set_params(random_state=4)
    before = fitted.n_entered_
    for model in (fitted, loaded):
        model.partial_fit(X[1500:])
    assert fitted.n_entered_ > before
    assert_array_equal(loaded.buffer_row_numbers_, fitted.buffer_row_numbers_)
    assert_allclose(loaded.leverage_, fitted.leverage_, atol=1e-8)
    assert_array_equal(loaded.predict(X), fitted.predict(X))
    refitted = fitted.fit(X[:1500])
    assert refitted.n_entered_ == before


def test_streams_refuse_what_is_not_in_memory_and_bad_rows(X):
    with pytest.raises(WrongTypeError, match="rows in memory"):
        small().partial_fit(SOURCES["dask, ragged"](X))
    model = small().partial_fit(X[:300])
    before = model.transform(X)
    bad = X[300:400].copy()
    bad[7, 1] = np.nan
    with pytest.raises(InvalidInputError, match=r"row 307\b"):
        model.partial_fit(bad)
    assert_array_equal(model.transform(X), before)
    with pytest.raises(InvalidInputError, match="features"):
        model.partial_fit(X[:50, :2])
    with pytest.raises(InvalidInputError, match="more than the number of rows"):
        small().partial_fit(X[:3])


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"buffer_size": 0}, "buffer_size must be an integer of at least 1"),
        ({"buffer_size": 3}, "buffer_size=3 is less than n_clusters=4"),
        ({"max_buffer": 59}, "max_buffer=59 is less than buffer_size=60"),
        ({"max_buffer": 2.5}, "max_buffer must be an integer"),
        ({"n_neighbors": 0}, "n_neighbors must be an integer of at least 1"),
        ({"neighbors": "both"}, "neighbors='both' is not known"),
        ({"normalize": "unit"}, "normalize must be True or False"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1"),
        ({"recluster_every": True}, "recluster_every must be an integer"),
        ({"n_init": 0}, "n_init must be an integer of at least 1"),
        ({"max_iter": "many"}, "max_iter must be an integer"),
        ({"kernel": "rfb"}, "Did you mean 'rbf'"),
        ({"gamma": -1.0}, "gamma"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_before_rows_are_read(X, parameters, words):
    data = dask.array.map_blocks(lambda: 1 / 0, chunks=((500,), (3,)), dtype=np.float32, meta=np.empty((0, 0)))
    with pytest.raises(InvalidInputError, match=words):
        small(**parameters).fit(data)


def test_parameters_of_other_algorithms(X):
    for name in ("map", "landmarks", "n_landmarks", "init"):
        with pytest.raises(InvalidInputError, match=f"skkmeans has no parameter '{name}'"):
            daskkcl.fit(X, "skkmeans", 3, **{name: X[:5]})


def test_a_kernel_that_is_too_narrow(X):
    with pytest.raises(InvalidInputError, match="gamma"):
        small(gamma=1e12).fit(X)


def test_few_and_equal_rows():
    assert SparseKernelKMeans(2, random_state=0).fit(np.array([[0.0], [1.0], [9.0]])).cluster_sizes_.sum() == 3
    model = SparseKernelKMeans(2, kernel="linear", random_state=0).fit(np.zeros((30, 2)))
    assert model.cluster_sizes_.sum() == 30


def test_the_number_of_clusters_is_found():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(12 * k, 1, (150, 2)) for k in range(3)])
    model = SparseKernelKMeans("auto", buffer_size=200, random_state=0).fit(X)
    assert_array_equal(model.cluster_sizes_, [150, 150, 150])


def test_a_buffer_that_does_not_fit_is_refused(X):
    with pytest.raises(MemoryLimitError, match="memory_limit"):
        SparseKernelKMeans(3, buffer_size=200_000, memory_limit="300MiB").fit(
            dask.array.zeros((10**6, 4), chunks=(10**5, 4), dtype=np.float32)
        )


# --- what it finds --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("sizes, margin", [(EQUAL, 5), (UNEQUAL, 25)], ids=["100 points each", "20 to 180 points"])
def test_fifty_rows_represent_ten_circles(sizes, margin):
    """The paper's Figure 1, over a hundred seeds, with a kernel that sees circles: the buffer against uniform rows."""
    found = [circle_samples(seed, sizes) for seed in range(100)]
    whole = {kind: sum(one[kind] == 10 for one in found) for kind in ("uniform", "buffer")}
    assert whole["buffer"] >= whole["uniform"] + margin
    assert whole["buffer"] >= 90


def mean_nmi(X, y, model, seeds):
    return np.mean([daskkcl.measures.nmi(y, clone(model).set_params(random_state=s).fit(X).labels_) for s in seeds])


@pytest.mark.slow
def test_pendigits_beside_uniform_landmarks():
    X, y = load("pendigits")
    beside = mean_nmi(X, y, daskkcl.ApproxKernelKMeans(10, n_landmarks=1000), range(3))
    best = max(mean_nmi(X, y, SparseKernelKMeans(10, buffer_size=1000, n_neighbors=p), range(3)) for p in (50, 75, 100))
    assert best >= beside


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_mnist_beside_uniform_landmarks():
    X, y = load("mnist")
    beside = mean_nmi(X, y, daskkcl.ApproxKernelKMeans(10, kernel="cosine", n_landmarks=2000), range(2))
    best = max(
        mean_nmi(X, y, SparseKernelKMeans(10, kernel="cosine", buffer_size=2000, n_neighbors=p), range(2))
        for p in (50, 100)
    )
    assert best >= beside
