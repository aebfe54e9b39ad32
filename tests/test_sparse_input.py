"""Sparse rows: scipy matrices, CSR groups in Zarr and dask arrays of CSR blocks; the same labels from all of them."""

import dask.array as da
import data_sets
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import normalized_mutual_info_score

import daskkcl
from benchmarks import memory, words
from daskkcl import kernels
from daskkcl.blocks.shuffle import Shuffled, write_run
from daskkcl.blocks.sparse import open_csr
from daskkcl.errors import (
    InvalidInputError,
    MemoryLimitError,
    MissingChunkError,
    OutputError,
    StorageError,
    WrongTypeError,
)
from daskkcl.kernels.rows import SparseRows
from daskkcl.random import Key
from daskkcl.system import settled_bytes

N, D = 700, 60
ALGORITHMS = sorted(daskkcl.algorithms())
LANDMARK_KERNELS = ["linear", "cosine", "polynomial", "rbf", "sigmoid"]


def make_rows(n=N, seed=0, dtype=np.float32):
    """Four groups of rows, each mostly in columns of its own, and the group of every row."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 4, n)
    X = np.zeros((n, D))
    for _ in range(6):
        X[np.arange(n), 15 * groups + rng.integers(0, 12, n)] = rng.uniform(0.5, 1.5, n)
    X[np.arange(n), rng.integers(0, D, n)] = rng.uniform(0, 0.5, n)
    return sp.csr_array(X.astype(dtype)), groups


def as_group(X, chunk=1000, store=None, format=3, **changes):
    """Write CSR the way AnnData does."""
    store = {} if store is None else store
    attributes = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(X.shape)}
    group = zarr.create_group(store, zarr_format=format, attributes=attributes | changes)
    for name in ("data", "indices", "indptr"):
        values = getattr(X, name)
        group.create_array(name, data=values, chunks=(max(1, min(chunk, len(values))),))
    return group


def fit(data, algorithm="akkmeans", **parameters):
    count = {"n_seeds": 4} if "n_seeds" in daskkcl.algorithms()[algorithm]._get_param_names() else {"n_clusters": 4}
    return daskkcl.algorithms()[algorithm](**(count | {"random_state": 0} | parameters)).fit(data)


# --- kernels -----------------------------------------------------------------------------------------------------


def reference_kernel(name, X, Y):
    """The kernel written out, in float64."""
    if name == "rbf":
        return np.exp(-0.3 * ((X[:, None] - Y[None]) ** 2).sum(axis=2))
    if name == "cosine":
        lengths = np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Y, axis=1))
        return np.divide(X @ Y.T, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return {
        "linear": X @ Y.T,
        "polynomial": (0.3 * X @ Y.T + 1.0) ** 3,
        "sigmoid": np.tanh(0.3 * X @ Y.T + 0.11),
    }[name]


@pytest.mark.parametrize("density", [0.02, 0.15, 0.6])
@pytest.mark.parametrize("name", LANDMARK_KERNELS)
def test_kernels_of_sparse_rows_equal_the_formula(name, density):
    rng = np.random.default_rng(1)
    X, Y = (sp.random_array((n, 50), density=density, rng=rng, format="csr") for n in (600, 20))
    kernel = kernels.as_kernel(name, gamma=0.3) if name not in ("linear", "cosine") else kernels.as_kernel(name)
    wanted = reference_kernel(name, X.toarray(), Y.toarray())
    assert_allclose(kernel(X, Y), wanted, rtol=1e-12, atol=1e-13)
    assert_allclose(kernel(X.toarray(), Y), wanted, rtol=1e-12, atol=1e-13)
    assert_allclose(kernel(X, Y.toarray()), wanted, rtol=1e-12, atol=1e-13)
    assert_allclose(kernel(X.astype(np.float32), Y), wanted, rtol=2e-5, atol=1e-6)
    assert_allclose(kernel.diagonal(X), np.diag(reference_kernel(name, X.toarray(), X.toarray())), rtol=1e-12)


@pytest.mark.parametrize("rule", ["auto", "scale", "median"])
@pytest.mark.parametrize("name", ["rbf", "polynomial", "sigmoid", "laplacian"])
def test_widths_of_sparse_rows_are_those_of_dense_ones(name, rule):
    X, _ = make_rows(300, dtype=np.float64)
    kernel = kernels.as_kernel(name, gamma=rule)
    assert_allclose(kernel.resolve(X).gamma, kernel.resolve(X.toarray()).gamma, rtol=1e-10)


def test_rows_that_are_alike_have_no_width():
    X = sp.csr_array(np.tile([0.0, 0.1, 0.7], (50, 1)))
    for rule in ("auto", "scale", "median"):
        assert kernels.Rbf(gamma=rule).resolve(X[:1]).gamma == kernels.Rbf(gamma=rule).resolve(X[:1].toarray()).gamma
    assert kernels.Rbf(gamma="auto").resolve(X).gamma == 1.0
    assert kernels.Rbf(gamma="median").resolve(X).gamma == 1.0


def test_rounding_does_not_depend_on_the_rows_around():
    X, _ = make_rows()
    for kernel in (kernels.Cosine(), kernels.Rbf(gamma=0.5), kernels.Polynomial()):
        columns = kernel.columns(X[:30], "float32")
        whole, kappa = columns.block(X)
        for a, b in ((0, 1), (5, 60), (500, N)):
            Z, k = columns.block(X[a:b])
            assert_array_equal(Z, whole[a:b])
            assert_array_equal(k, kappa[a:b])


def test_mixed_kernel():
    """Mean of a Gaussian of some dense columns and of the cosine of some sparse ones, as for videos."""
    rng = np.random.default_rng(2)
    groups = np.arange(N) % 4
    dense = rng.normal(size=(N, 8)) + 4 * (groups[:, None] == np.arange(8) % 4)
    words, _ = make_rows()
    X = sp.csr_array(sp.hstack([sp.csr_array(dense), words.astype(np.float64)]))
    parts = (kernels.Columns(kernels.Rbf(gamma=0.05), 0, 8), kernels.Columns(kernels.Cosine(), 8, 8 + D))
    kernel = kernels.Mean(parts)
    A, B = X.toarray(), X[:20].toarray()
    squares = ((A[:, None, :8] - B[None, :, :8]) ** 2).sum(axis=2)
    wanted = 0.5 * np.exp(-0.05 * squares) + 0.5 * reference_kernel("cosine", A[:, 8:], B[:, 8:])
    assert_allclose(kernel(X, X[:20]), wanted, rtol=1e-12, atol=1e-14)
    columns = kernel.columns(X[:20], "float64")
    inner = [part.part for part in columns.parts]
    assert type(inner[0]).__name__ == "DenseColumns"  # a product of matrices
    assert inner[1].right.sparse is not None or inner[1].right.dense is not None
    model = daskkcl.fit(X, "akkmeans", n_clusters=4, kernel=kernel, gamma="auto", n_landmarks=50, random_state=0)
    assert_array_equal(model.labels_, np.asarray(fit_same(as_group(X, 500), kernel).labels_))
    assert normalized_mutual_info_score(groups, model.labels_) > 0.9
    grown = daskkcl.SparseKernelKMeans(4, kernel=kernel, buffer_size=100, random_state=0)  # the paper's experiment
    labels = clone(grown).fit(X).labels_
    assert_array_equal(np.asarray(clone(grown).fit(as_group(X, 500)).labels_), labels)
    assert normalized_mutual_info_score(groups, labels) > 0.9


def fit_same(data, kernel):
    return daskkcl.fit(data, "akkmeans", n_clusters=4, kernel=kernel, gamma="auto", n_landmarks=50, random_state=0)


# --- one answer --------------------------------------------------------------------------------------------------


@pytest.mark.part(4)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_same_labels_from_all_sources(algorithm):
    X, groups = make_rows()
    model = fit(X, algorithm)
    assert isinstance(model.labels_, np.ndarray)
    lazy = {
        "zarr": as_group(X, 300),
        "zarr v2": as_group(X, 10**6, format=2),
        "dask": da.from_array(X.toarray(), chunks=(130, 25)).map_blocks(sp.csr_array),
    }
    for name, data in lazy.items():
        assert_array_equal(np.asarray(fit(data, algorithm).labels_), model.labels_, err_msg=name)
    dense = fit(X.toarray(), algorithm)
    assert (dense.labels_ == model.labels_).mean() > 0.99
    for data in (X, X.tocsc(), X.toarray(), sp.coo_matrix(X), lazy["zarr"]):
        assert_array_equal(np.asarray(model.predict(data)), model.labels_)
    assert (np.asarray(dense.predict(X)) == dense.labels_).mean() > 0.99


@pytest.mark.parametrize("algorithm", ["akkmeans", "pakcl", "spkfcm", "spectral", "rpcl", "fcm"])
def test_same_labels_under_a_limit_and_from_scratch(algorithm, tmp_path):
    X, _ = make_rows(4000)
    wanted = fit(X, algorithm).labels_
    data = as_group(X, 900, store=tmp_path / "rows.zarr")
    limit = settled_bytes() + 220 * 2**20  # of this process, which other tests have made large
    limited = fit(data, algorithm, memory_limit=limit, scratch=str(tmp_path))
    assert_array_equal(np.asarray(limited.labels_), wanted)


@pytest.mark.parametrize("kernel", [*LANDMARK_KERNELS, "laplacian", "chi2"])
def test_kernels_by_name(kernel):
    X, _ = make_rows(300)
    labels = fit(X, kernel=kernel, n_landmarks=40).labels_
    assert_array_equal(np.asarray(fit(as_group(X, 77), kernel=kernel, n_landmarks=40).labels_), labels)
    assert (fit(X.toarray(), kernel=kernel, n_landmarks=40).labels_ == labels).mean() > 0.95


@pytest.mark.parametrize("map_", ["landmarks", "identity", "nystroem", "apnc", "nyncut", "rff", "svrff", "spectral"])
def test_maps(map_):
    X, _ = make_rows()
    labels = fit(X, map=map_).labels_
    assert_array_equal(np.asarray(fit(as_group(X, 500), map=map_).labels_), labels)
    assert (fit(X.toarray(), map=map_).labels_ == labels).mean() > 0.98


def test_polynomial_sketch():
    X, _ = make_rows()
    model = fit(X, map=daskkcl.maps.TensorSketch(n_components=64))
    assert_array_equal(
        np.asarray(fit(as_group(X), map=daskkcl.maps.TensorSketch(n_components=64)).labels_), model.labels_
    )


def test_a_map_is_a_transformer_of_sparse_rows():
    X, _ = make_rows()
    map_ = daskkcl.maps.Nystroem(n_landmarks=40, random_state=0).fit(X)
    Y = map_.transform(X)
    assert_array_equal(np.asarray(map_.transform(as_group(X))), Y)
    assert_allclose(map_.transform(X.toarray()), Y, atol=1e-5)
    assert_array_equal(fit(X, map=map_).labels_, np.asarray(fit(as_group(X, 200), map=map_).labels_))


@pytest.mark.parametrize("landmarks", ["uniform", "kmeans", "leverage"])
def test_landmarks(landmarks):
    X, groups = make_rows()
    model = fit(X, landmarks=landmarks, n_landmarks=30)
    assert_array_equal(np.asarray(fit(as_group(X), landmarks=landmarks, n_landmarks=30).labels_), model.labels_)
    assert normalized_mutual_info_score(groups, model.labels_) > 0.9


def test_given_landmarks_and_centres():
    X, _ = make_rows()
    dense, sparse = fit(X, landmarks=X[:40].toarray()), fit(X, landmarks=X[:40])
    assert_array_equal(dense.labels_, sparse.labels_)
    assert_array_equal(fit(X.toarray(), landmarks=X[:40]).labels_, fit(X.toarray(), landmarks=X[:40].toarray()).labels_)
    rows = np.array([0, 1, 2, 3])
    assert_array_equal(fit(X, init=rows).labels_, fit(X, init=X[rows].toarray()).labels_)


def test_auto_number_of_clusters():
    X, _ = make_rows(dtype=np.float64)
    assert fit(X, n_clusters="auto").n_clusters_ == fit(X.toarray(), n_clusters="auto").n_clusters_


# --- models and streams ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["akkmeans", "pakcl", "okfcm", "spectral", "kkmeans", "skkmeans"])
def test_saved_models(algorithm, tmp_path):
    X, _ = make_rows()
    model = fit(X, algorithm)
    model.save(tmp_path / "model.zarr")
    loaded = daskkcl.load(tmp_path / "model.zarr")
    assert_array_equal(loaded.predict(X), model.labels_)
    if algorithm == "okfcm":
        assert_array_equal(loaded.prototype_rows_.toarray(), X[model.prototypes_].toarray())
    if algorithm == "skkmeans":
        assert_array_equal(loaded.buffer_.toarray(), X[model.buffer_row_numbers_].toarray())
        assert_array_equal(
            loaded.partial_fit(X).predict(X), model.set_params(random_state=None).partial_fit(X).predict(X)
        )


def test_a_changed_model_is_refused(tmp_path):
    X, _ = make_rows()
    fit(X).save(tmp_path / "model.zarr")
    indices = zarr.open_group(tmp_path / "model.zarr")["landmarks_indices"]
    values = indices[:]
    values[0] = D
    indices[:] = values
    with pytest.raises(InvalidInputError, match="its landmarks do not fit"):
        daskkcl.load(tmp_path / "model.zarr")


@pytest.mark.parametrize("algorithm", ["pakcl", "akcl", "okfcm", "spkfcm"])
def test_streams(algorithm):
    X, groups = make_rows(6000)
    sparse, dense = (daskkcl.algorithms()[algorithm](4, random_state=0) for _ in range(2))
    for a in range(0, 6000, 1500):
        sparse.partial_fit(X[a : a + 1500])
        dense.partial_fit(X[a : a + 1500].toarray())
    labels = sparse.predict(X)
    assert (labels == dense.predict(X)).mean() > 0.98
    assert normalized_mutual_info_score(groups, labels) > 0.9


@pytest.mark.parametrize("algorithm", ["pakcl", "akcl", "okfcm", "spkfcm", "skkmeans"])
def test_streams_of_sparse_and_dense_portions(algorithm):
    X, groups = make_rows(3000)
    size = {"buffer_size": 200, "batch_size": 300, "recluster_every": 2} if algorithm == "skkmeans" else {}
    labels = []
    for dense in ((), (0, 2), (1, 3)):
        model = daskkcl.algorithms()[algorithm](4, random_state=0, **size)
        for k in range(4):  # of which the borders fall into chunks and batches
            rows = X[750 * k : 750 * (k + 1)]
            model.partial_fit(rows.toarray() if k in dense else rows)
        labels.append(model.predict(X))
    assert normalized_mutual_info_score(groups, labels[0]) > 0.9
    # The first portion numbers the clusters. Its products round otherwise where it is dense, and on some machines the
    # same clusters, with the same counts, then have other numbers.
    assert all(daskkcl.measures.ari(other, labels[0]) > 0.98 for other in labels[1:])


@pytest.mark.parametrize("algorithm", ["fcm", "kfcm", "rsekfcm", "spkfcm", "okfcm"])
def test_memberships(algorithm):
    X, _ = make_rows()
    model, lazy = fit(X, algorithm), fit(as_group(X, 200), algorithm)
    assert_array_equal(np.asarray(lazy.membership_), model.membership_)
    assert_allclose(model.predict_proba(X), fit(X.toarray(), algorithm).membership_, atol=2e-3)
    assert_array_equal(model.prototype_rows_.toarray(), X[model.prototypes_].toarray())


@pytest.mark.parametrize("form", ["landmarks", "literal"])
def test_checkpoints(form, tmp_path):
    X, _ = make_rows(1500)
    parameters = {"form": form, "chunk_size": 300, "max_passes": 1} if form == "literal" else {"chunk_size": 300}
    wanted = fit(X, "okfcm", **parameters).labels_
    model = daskkcl.OnlineKFCM(4, random_state=0, **parameters)
    model.fit(as_group(X), checkpoint=tmp_path / "state.zarr")
    again = daskkcl.OnlineKFCM(4, random_state=0, **parameters).fit(as_group(X), checkpoint=tmp_path / "state.zarr")
    assert_array_equal(np.asarray(again.labels_), wanted)


@pytest.mark.parametrize("done", [1, 3])
def test_a_buffer_of_sparse_rows_goes_on_where_it_stopped(done, tmp_path, monkeypatch):
    from daskkcl.schedules import sparse_kernel
    from daskkcl.schedules.checkpoint import Checkpoint

    X, _ = make_rows(3000)
    model = daskkcl.SparseKernelKMeans(4, kernel="cosine", buffer_size=100, batch_size=200, random_state=0)
    wanted = clone(model).fit(X)
    assert wanted.n_entered_ > 5
    monkeypatch.setattr(sparse_kernel, "_SEGMENT_BLOCKS", 1)
    saves, save = [], Checkpoint.save

    def stopping(checkpoint, state, **more):
        save(checkpoint, state, **more)
        saves.append(len(state["waiting_numbers"]))
        if len(saves) == done:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", stopping)
        with pytest.raises(KeyboardInterrupt):
            clone(model).fit(as_group(X), checkpoint=tmp_path / "state.zarr")
    again = clone(model).fit(as_group(X), checkpoint=tmp_path / "state.zarr")
    assert_array_equal(np.asarray(again.labels_), wanted.labels_)
    assert_array_equal(again.buffer_.toarray(), wanted.buffer_.toarray())


def test_a_checkpoint_with_other_sparse_landmarks_is_refused(tmp_path):
    X, _ = make_rows()
    one, other = (daskkcl.ApproxKernelKMeans(4, landmarks=X[a : a + 30], random_state=0) for a in (0, 30))
    one.fit(X, checkpoint=tmp_path / "state.zarr")
    with pytest.raises(daskkcl.errors.CheckpointError, match="landmarks"):
        other.fit(X, checkpoint=tmp_path / "state.zarr")


def test_shuffle_gives_every_row_once(tmp_path):
    from daskkcl.blocks.scratch import Scratch

    X, _ = make_rows(1000)
    rows, key = SparseRows.of(X), Key(3)
    edges = (0, 300, 700, 1000)
    shuffled = Shuffled(key, 1000, D, rows.dtype, 128, edges, Scratch(tmp_path), sparse=True)
    for run in range(3):
        write_run(rows[edges[run] : edges[run + 1]], run, shuffled)
    got = np.concatenate([shuffled.bucket(bucket).toarray() for bucket in range(shuffled.n_buckets)])
    assert_array_equal(got, X.toarray()[key.rows(1000, 0, 1000)])


# --- odd matrices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "bool", "float64", "float16"])
def test_dtypes(dtype):
    X, _ = make_rows()
    dense = X.toarray() > 0.4 if dtype == "bool" else np.ceil(4 * X.toarray()).astype(dtype)
    X = sp.csr_array(dense.astype(np.float32 if dtype == "float16" else dtype))  # scipy has no float16
    group = as_group(X, 500)
    if dtype == "float16":
        group.create_array("data", data=X.data.astype(dtype), chunks=(100,), overwrite=True)
    labels = fit(X, kernel="cosine", dtype="float32").labels_
    assert_array_equal(np.asarray(fit(group, kernel="cosine", dtype="float32").labels_), labels)
    assert (fit(dense, kernel="cosine", dtype="float32").labels_ == labels).mean() > 0.98


def test_duplicates_unsorted_columns_and_explicit_zeros():
    X, _ = make_rows(dtype=np.float64)
    coo = X.tocoo()
    rows, columns = np.concatenate([coo.row, coo.row]), np.concatenate([coo.col, coo.col])
    values = np.concatenate([0.25 * coo.data, 0.75 * coo.data])
    order = np.lexsort((-columns, rows))  # descending, twice each
    odd = sp.csr_array(X.shape)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=N))])
    odd = sp.csr_array((values[order], columns[order], indptr), shape=X.shape)
    before = odd.indices.copy()
    assert_allclose(SparseRows.of(odd).toarray(), X.toarray(), rtol=1e-15)
    labels = fit(odd).labels_
    assert_array_equal(odd.indices, before)  # what users pass stays as it is
    assert_array_equal(np.asarray(fit(as_group(odd, 333)).labels_), labels)
    assert (fit(X).labels_ == labels).mean() > 0.99
    zeros = sp.csr_array(X)
    zeros.data[:10] = 0
    assert_array_equal(np.asarray(fit(as_group(zeros, 333)).labels_), fit(zeros).labels_)


def test_matrices_of_other_packages():
    """AnnData hands out classes of its own that are scipy's: `adata[mask].X` is one."""
    X, _ = make_rows()
    view = type("CSRMatrixView", (sp.csr_matrix,), {"__module__": "anndata._core.views"})(X)
    assert_array_equal(fit(view).labels_, fit(X).labels_)


def test_integer_duplicates_do_not_wrap_around():
    odd = sp.csr_array((np.array([200, 200], dtype=np.uint8), [1, 1], [0, 2]), shape=(1, 3))
    assert_array_equal(SparseRows.of(odd).toarray(), [[0, 400, 0]])
    assert_array_equal(open_csr(as_group(odd)).array.read(0, 1).toarray(), [[0, 400, 0]])


def test_empty_rows_and_wide_index_types():
    X, _ = make_rows()
    dense = X.toarray()
    dense[::7] = 0
    X = sp.csr_array(dense)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    for kernel in ("cosine", "rbf"):
        labels = fit(X, kernel=kernel).labels_
        assert len(set(labels[::7])) == 1
        assert_array_equal(np.asarray(fit(as_group(X, 100), kernel=kernel).labels_), labels)


def test_rows_with_nothing_at_all():
    with pytest.warns(daskkcl.errors.ConvergenceWarning):
        model = fit(sp.csr_array((50, 4)), kernel="rbf", n_clusters=2)
    assert set(model.labels_) == {0}


def test_nan():
    X, _ = make_rows()
    X.data[X.indptr[5] + 2] = np.nan
    X.data[X.indptr[600]] = np.inf
    column = int(X.indices[X.indptr[5] + 2])
    for data in (X, as_group(X, 100), da.from_array(X.toarray(), chunks=(100, D)).map_blocks(sp.csr_matrix)):
        with pytest.raises(InvalidInputError, match=f"row 5, column {column}"):
            fit(data)
        for algorithm in ("akkmeans", "pakcl", "okfcm", "spectral"):
            labels = np.asarray(fit(data, algorithm, nan="drop").labels_)
            assert_array_equal(np.flatnonzero(labels == -1), [5, 600])


def test_values_too_large_for_blocks_are_refused():
    X, _ = make_rows(dtype=np.float64)
    X.data[3] = 1e300
    with pytest.raises(InvalidInputError, match="too large for blocks"):
        fit(X, dtype="float32", landmarks=np.ones((3, D)), kernel="linear")


# --- groups that are not what they say -----------------------------------------------------------------------------


def test_parts_that_disagree():
    X, _ = make_rows(100)
    broken = {}
    for name, values in {
        "'indptr' has 99": ("indptr", X.indptr[:-2]),
        "'data' has": ("data", X.data[:-1]),
        "'indptr' ends with": ("indptr", X.indptr - np.append(np.zeros(100, int), 3)),
        "'indptr' begins with 1": ("indptr", X.indptr + np.append(1, np.zeros(100, int))),
        "'indices' and 'indptr' must be integers": ("indices", X.indices.astype(float)),
        "one dimension": ("data", X.data[:, None]),
    }.items():
        group = as_group(X)
        del group[values[0]]
        group.create_array(values[0], data=values[1])
        broken[name] = group
    for message, group in broken.items():
        with pytest.raises(InvalidInputError, match=message):
            fit(group)
    group = as_group(X)
    del group["indices"]
    with pytest.raises(InvalidInputError, match="has no 'indices'"):
        fit(group)
    with pytest.raises(InvalidInputError, match="two whole numbers"):
        fit(as_group(X, shape=[3]))
    group = as_group(X)
    pointers = group["indptr"][:]
    pointers[40] = pointers[42]
    group["indptr"][:] = pointers
    with pytest.raises(StorageError, match=r"'indptr' of .* goes back"):
        fit(group)
    for column in (D, -1):
        group = as_group(X)
        columns = group["indices"][:]
        columns[X.indptr[17]] = column
        group["indices"][:] = columns
        with pytest.raises(StorageError, match=f"'indices' of .* a column outside 0 to {D - 1}, in row 17"):
            fit(group)


def test_columns_first_is_refused_with_a_remedy():
    X, _ = make_rows(100)
    with pytest.raises(InvalidInputError, match=r"stored by columns.*tocsr"):
        fit(as_group(X, **{"encoding-type": "csc_matrix"}))


def test_a_group_that_does_not_say_what_it_is():
    X, _ = make_rows(100)
    root = zarr.create_group({})
    for name in ("data", "indices", "indptr"):
        root.create_array(f"X/{name}", data=getattr(X, name))
    with pytest.raises(InvalidInputError, match=r"'X' has the parts of a sparse matrix.*'encoding-type'"):
        daskkcl.fit(root, component="X")


def test_lost_chunks(tmp_path):
    X, _ = make_rows(300)
    as_group(X, 100, store=tmp_path / "rows.zarr")
    (tmp_path / "rows.zarr" / "data" / "c" / "3").unlink()
    with pytest.warns(daskkcl.errors.DaskkclWarning, match="1 of .* chunks of .*data are absent"):
        fit(tmp_path / "rows.zarr")
    with pytest.raises(MissingChunkError):
        fit(tmp_path / "rows.zarr", missing="raise")
    (tmp_path / "rows.zarr" / "indices" / "c" / "2").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be read"):
        fit(tmp_path / "rows.zarr", missing="fill")


# --- AnnData -----------------------------------------------------------------------------------------------------


def as_anndata(X, path, format=2):
    """Write what AnnData writes of a matrix, its observations and a component, metadata copied to the root."""
    root = zarr.create_group(path, zarr_format=format, attributes={"encoding-type": "anndata"})
    inner = root.create_group("X", attributes={"encoding-type": "csr_matrix", "shape": list(X.shape)})
    for name in ("data", "indices", "indptr"):
        inner.create_array(name, data=getattr(X, name), chunks=(400,))
    frame = {"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index", "column-order": ["batch"]}
    obs = root.create_group("obs", attributes=frame)
    obs.create_array("_index", data=np.arange(X.shape[0]))
    obs.create_array("batch", data=np.zeros(X.shape[0], dtype=np.int8))
    obsm = root.create_group("obsm", attributes={"encoding-type": "dict"})
    obsm.create_array("X_pca", data=X.toarray()[:, :20], chunks=(128, 20))
    zarr.consolidate_metadata(root.store)
    return path


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("format", [2, 3])
def test_anndata(format, tmp_path):
    X, _ = make_rows()
    path = as_anndata(X, tmp_path / "cells.zarr", format)
    model = daskkcl.fit(path, "akkmeans", n_clusters=4, component="X", random_state=0)
    assert_array_equal(np.asarray(model.labels_), fit(X, n_landmarks=None).labels_)
    by_components = daskkcl.fit(path, "akkmeans", n_clusters=4, component="obsm/X_pca", random_state=0)
    assert_array_equal(np.asarray(by_components.labels_), fit(X.toarray()[:, :20]).labels_)
    with pytest.raises(InvalidInputError, match="component='X'"):
        daskkcl.fit(path)
    daskkcl.write_obs(path, model)
    daskkcl.write_obs(path, by_components.labels_, key="by_pca")
    obs = zarr.open_group(path, mode="r")["obs"]  # by the copied metadata, as AnnData does
    assert obs.attrs["column-order"] == ["batch", "cluster", "by_pca"]
    column = obs["cluster"]
    assert dict(column.attrs) == {"encoding-type": "categorical", "encoding-version": "0.2.0", "ordered": False}
    assert column["codes"].dtype == np.int8
    assert column["codes"].attrs["encoding-type"] == "array"
    assert column["categories"].attrs["encoding-type"] == "string-array"
    assert_array_equal(column["codes"][:], np.asarray(model.labels_))
    assert [str(name) for name in column["categories"][:]] == ["0", "1", "2", "3"]
    assert_array_equal(obs["by_pca/codes"][:], np.asarray(by_components.labels_))


def test_what_anndata_itself_writes_and_reads(tmp_path):
    anndata = pytest.importorskip("anndata", reason="needs anndata: pip install anndata")
    pandas = pytest.importorskip("pandas")
    X, _ = make_rows()
    obs = pandas.DataFrame({"batch": ["a", "b"] * (X.shape[0] // 2)}, index=[f"cell{i}" for i in range(X.shape[0])])
    cells = anndata.AnnData(sp.csr_matrix(X), obs=obs, obsm={"X_pca": X.toarray()[:, :20]})
    path = tmp_path / "cells.zarr"
    cells.write_zarr(path)
    model = daskkcl.fit(path, "akkmeans", n_clusters=4, component="X", random_state=0)
    assert_array_equal(np.asarray(model.labels_), fit(X, n_landmarks=None).labels_)
    by_components = daskkcl.fit(path, "akkmeans", n_clusters=4, component="obsm/X_pca", random_state=0)
    assert_array_equal(np.asarray(by_components.labels_), fit(X.toarray()[:, :20]).labels_)
    daskkcl.write_obs(path, model)
    daskkcl.write_obs(path, by_components.labels_, key="by_pca")
    again = anndata.read_zarr(path)
    assert list(again.obs.columns) == ["batch", "cluster", "by_pca"]
    assert list(again.obs["cluster"].cat.categories) == ["0", "1", "2", "3"]
    assert_array_equal(again.obs["cluster"].astype(int), np.asarray(model.labels_))
    assert_array_equal(again.obs["by_pca"].astype(int), np.asarray(by_components.labels_))
    assert_array_equal(again.obs["batch"], obs["batch"])
    assert (again.X != cells.X).nnz == 0
    labels = np.asarray(model.labels_)
    stored = zarr.open_group(path, mode="r")
    for rows in (anndata.io.sparse_dataset(stored["X"]), cells.X, cells[:].X):  # what it has open, and a view of it
        assert_array_equal(np.asarray(fit(rows).labels_), labels)
    with pytest.raises(WrongTypeError, match=r"pass adata\.X"):
        fit(cells)
    with pytest.raises(InvalidInputError, match=r"adata\.obs\['cluster'\] = "):
        daskkcl.write_obs(cells, model)
    with pytest.raises(OutputError, match="reading only"):
        daskkcl.write_obs(stored, model, key="other")
    pytest.importorskip("h5py")
    cells.write_h5ad(tmp_path / "cells.h5ad")
    with pytest.raises(InvalidInputError, match=r"Convert it first: anndata\.read_h5ad"):
        fit(tmp_path / "cells.h5ad")
    with pytest.raises(WrongTypeError, match=r"HDF5 file.*write_zarr"):
        fit(anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r").X)


def test_write_obs_refuses(tmp_path):
    X, _ = make_rows(100)
    path = as_anndata(X, tmp_path / "cells.zarr")
    labels = np.arange(100) % 3
    daskkcl.write_obs(path, labels)
    with pytest.raises(OutputError, match="overwrite=True"):
        daskkcl.write_obs(path, labels)
    daskkcl.write_obs(path, labels - 1, overwrite=True)
    obs = zarr.open_group(path, mode="r")["obs"]
    assert_array_equal(obs["cluster/codes"][:], labels - 1)
    assert obs.attrs["column-order"] == ["batch", "cluster"]
    with pytest.raises(InvalidInputError, match="99 labels, and obs has 100 rows"):
        daskkcl.write_obs(path, labels[1:], key="other")
    with pytest.raises(InvalidInputError, match="label -2"):
        daskkcl.write_obs(path, labels - 2, key="other")
    with pytest.raises(InvalidInputError, match="no name of a column"):
        daskkcl.write_obs(path, labels, key="a/b")
    with pytest.raises(WrongTypeError, match="one whole number for each row"):
        daskkcl.write_obs(path, labels / 2, key="other")
    with pytest.raises(NotFittedError):
        daskkcl.write_obs(path, daskkcl.PAKCL(3), key="other")
    with pytest.raises(InvalidInputError, match="not an AnnData"):
        daskkcl.write_obs(as_group(X), labels)
    with pytest.raises(InvalidInputError, match="nothing at"):
        daskkcl.write_obs(tmp_path / "nowhere.zarr", labels)


def test_sparse_rows_enter_a_buffer():
    X, groups = make_rows(3000)
    models = [
        daskkcl.SparseKernelKMeans(4, kernel="cosine", buffer_size=100, recluster_every=3, random_state=0).fit(data)
        for data in (X, as_group(X), X.toarray())
    ]
    assert models[0].n_entered_ > 3
    assert_array_equal(models[0].buffer_.toarray(), X[models[0].buffer_row_numbers_].toarray())
    assert_array_equal(models[0].labels_, np.asarray(models[1].labels_))
    assert normalized_mutual_info_score(groups, models[0].labels_) > 0.9
    assert normalized_mutual_info_score(models[2].labels_, models[0].labels_) > 0.99
    stream = daskkcl.SparseKernelKMeans(4, kernel="cosine", buffer_size=100, batch_size=200, random_state=0)
    for first in range(0, 3000, 700):
        stream.partial_fit(X[first : first + 700])
    assert normalized_mutual_info_score(groups, stream.predict(X)) > 0.9


# --- memory ------------------------------------------------------------------------------------------------------


def test_what_needs_dense_rows_is_refused_when_they_do_not_fit():
    wide = sp.random_array((2000, 400_000), density=1e-5, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    limit = settled_bytes() + 600 * 2**20  # of this process, which other tests have made large
    assert len(set(fit(wide, kernel="cosine", n_landmarks=50, memory_limit=limit).labels_)) > 1
    for parameters in ({"map": "identity"}, {"map": "rff"}, {"kernel": "laplacian"}):
        with pytest.raises(MemoryLimitError):
            fit(wide, memory_limit=limit, **parameters)


@pytest.mark.parametrize("algorithm", ["akkmeans", "spectral", "pakcl", "okfcm", "skkmeans"])
def test_answers_of_wide_sparse_rows_are_planned_by_their_entries(algorithm):
    """A dense tile of 64 rows by 400,000 columns takes 98 MiB, some times over."""
    wide = sp.random_array((2000, 400_000), density=5e-5, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    size = {"buffer_size": 200} if algorithm == "skkmeans" else {"n_landmarks": 50}
    model = fit(wide, algorithm, kernel="cosine", **size)
    limit = settled_bytes() + 200 * 2**20
    assert_array_equal(model.predict(wide, memory_limit=limit), model.labels_)
    assert model.transform(wide, memory_limit=limit).shape == (2000, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm, limit", [("akkmeans", 420), ("pakcl", 420), ("okfcm", 420), ("skkmeans", 420), ("spectral", 560)]
)
def test_a_group_larger_than_the_limit_runs_under_it(algorithm, limit, tmp_path):
    """60,000 x 20,000: dense it would be 4.8 GB, sparse it is 96 MB. `spectral` compiles; its landmarks are means."""
    rng, n, d, per_row = np.random.default_rng(0), 60_000, 20_000, 200
    columns = (np.arange(n) % 4 * 5000)[:, None] + (5000 * rng.random((n, per_row)) ** 3).astype(np.int32)
    columns = np.sort(columns, axis=1).astype(np.int32)
    X = sp.csr_array((np.ones(n * per_row, np.float32), columns.ravel(), np.arange(n + 1) * per_row), shape=(n, d))
    as_group(X, 2**17, store=tmp_path / "rows.zarr")
    size = {"buffer_size": 200, "max_buffer": 250} if algorithm == "skkmeans" else {"n_landmarks": 200}
    run = memory.fit_in_fresh_process(
        str(tmp_path / "rows.zarr"), algorithm, f"{limit}MiB", n_clusters=4, kernel="cosine", **size
    )
    print({name: run[name] >> 20 for name in ("peak_bytes", "planned_bytes")})
    assert run["sizes"] == [n // 4] * 4
    assert run["peak_bytes"] <= run["planned_bytes"] <= limit * 2**20


# --- quality -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "name, mean, best",
    [("spectral", 0.52, 0.52), ("pakcl", 0.46, 0.52), ("akkmeans", 0.4, 0.4), ("skkmeans", 0.44, 0.44)],
)
def test_20_newsgroups(name, mean, best, tmp_path):
    """Each fit in a process of its own, under a gibibyte; from a Zarr group the same labels as from memory."""
    X, y = data_sets.load_sparse("20news_tfidf_csr", "20news_labels")
    settings, found = words.SETTINGS[name], []
    for seed in range(3):
        labels, run = words.fit_words(str(data_sets.FOLDER / "20news_tfidf_csr.npz"), name, seed, settings)
        assert run["peak_bytes"] <= run["planned_bytes"] <= 2**30
        found.append(normalized_mutual_info_score(y, labels))
        if seed == 0:
            words.write_group(X, str(tmp_path / "words.zarr"))
            stored, run = words.fit_words(str(tmp_path / "words.zarr"), name, seed, settings)
            assert run["peak_bytes"] <= run["planned_bytes"] <= 2**30
            assert_array_equal(stored, labels)
    assert np.mean(found) >= mean, found
    assert max(found) >= best, found
