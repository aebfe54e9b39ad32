"""Indices of crisp partitions: scikit-learn's in input space, definitions in feature space; sweeps and stability."""

import sys

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import calinski_harabasz_score, davies_bouldin_score, silhouette_samples, silhouette_score
from sklearn.metrics.pairwise import rbf_kernel

import daskkcl
from daskkcl.errors import DaskkclError, InvalidInputError, WrongTypeError


def blobs(sizes=(150, 90, 60, 12), d=3):
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(4 * k, 1, (n, d)) for k, n in enumerate(sizes)])


def fit(X, n_clusters=4, algo="akkmeans", **changes):
    return daskkcl.fit(X, algo, n_clusters, **{"random_state": 0, "progress": False, **changes})


@pytest.mark.parametrize(
    "space", [{"map": "identity"}, {"kernel": "linear", "n_landmarks": 40}], ids=["identity", "linear"]
)
@pytest.mark.parametrize("n_clusters", [2, 4, 7])
def test_in_input_space_they_are_those_of_scikit_learn(space, n_clusters):
    X = blobs()
    model = fit(X, n_clusters, **space)
    found = daskkcl.validity(model, X, n_sample=10**6)
    assert found["davies_bouldin"] == pytest.approx(davies_bouldin_score(X, model.labels_), rel=1e-9)
    assert found["calinski_harabasz"] == pytest.approx(calinski_harabasz_score(X, model.labels_), rel=1e-9)
    assert found["silhouette"] == pytest.approx(silhouette_score(X, model.labels_), rel=1e-9)


def test_in_feature_space_they_follow_their_definitions():
    X = blobs((40, 30, 20))
    model = fit(X, 3, kernel="rbf", gamma=0.05, landmarks=X)
    found, labels = daskkcl.validity(model, X, n_sample=10**6), model.labels_
    K = rbf_kernel(X, gamma=0.05)
    D = np.sqrt(np.maximum(2 - 2 * K, 0))
    np.fill_diagonal(D, 0)
    assert found["silhouette"] == pytest.approx(silhouette_score(D, labels, metric="precomputed"), abs=1e-9)
    U = np.eye(3)[labels] / np.bincount(labels)[labels][:, None]
    products = U.T @ K @ U
    to = np.sqrt(np.maximum(1 - 2 * K @ U + np.diag(products), 0))  # of rows from centroids
    between = np.sqrt(np.maximum(np.diag(products)[:, None] + np.diag(products) - 2 * products, 0))
    spread = np.array([to[labels == c, c].mean() for c in range(3)])
    ratios = (spread[:, None] + spread)[~np.eye(3, dtype=bool)] / between[~np.eye(3, dtype=bool)]
    assert found["davies_bouldin"] == pytest.approx(ratios.reshape(3, 2).max(axis=1).mean(), rel=1e-4)
    within = sum((to[labels == c, c] ** 2).sum() for c in range(3))
    total = len(X) - K.sum() / len(X)
    expected = (total - within) * (len(X) - 3) / (within * 2)
    assert found["calinski_harabasz"] == pytest.approx(expected, rel=1e-4)
    own = to[np.arange(len(X)), labels]
    others = np.where(np.eye(3, dtype=bool)[labels], np.inf, to).min(axis=1)
    simplified = ((others - own) / np.maximum(own, others)).mean()
    assert found["silhouette_simplified"] == pytest.approx(simplified, rel=1e-4)


def test_the_same_whatever_the_chunks():
    X = blobs()
    model = fit(X)
    first = daskkcl.validity(model, X, n_sample=60)
    for chunks in ((37, 2), (1000, 1), ((1, 310, 1), 3)):
        assert daskkcl.validity(model, da.from_array(X, chunks=chunks), n_sample=60) == first


def test_a_sample_has_rows_of_small_clusters():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (3000, 2)), rng.normal(3, 1, (2000, 2)), rng.normal(60, 1, (5, 2))])
    model = fit(X, 3, map="identity")
    assert model.cluster_sizes_[-1] == 5
    exact = silhouette_samples(X, model.labels_)
    found = daskkcl.validity(model, X, n_sample=600, indices=["silhouette"])
    assert list(found) == ["silhouette"]
    assert found["silhouette"] == pytest.approx(exact.mean(), abs=0.02)
    # the five rows decide nothing by their number, so look at them alone: an index that missed them would be NaN
    five_and_ten = np.r_[0:5, 3000:3005, 5000:5005]
    found = daskkcl.validity(model, X[five_and_ten], n_sample=10**6)
    assert found["silhouette"] == pytest.approx(silhouette_score(X[five_and_ten], model.predict(X[five_and_ten])))


def test_dropped_rows_and_empty_clusters_and_scaled_rows():
    X = blobs() * [1, 100, 0.01]
    X[3, 1] = np.nan
    model = fit(X, 3, map="identity", nan="drop", scale="standard")
    inside = model.labels_ >= 0
    scaled = model.scaler_.apply(X[inside])
    found = daskkcl.validity(model, X, n_sample=10**6)
    assert found["silhouette"] == pytest.approx(silhouette_score(scaled, model.labels_[inside]), rel=1e-9)
    assert found["davies_bouldin"] == pytest.approx(davies_bouldin_score(scaled, model.labels_[inside]), rel=1e-9)
    part = np.flatnonzero(model.labels_ != 2)  # no row of one cluster
    fewer = daskkcl.validity(model, X[part], n_sample=10**6)
    kept = part[model.labels_[part] >= 0]
    assert fewer["davies_bouldin"] == pytest.approx(
        davies_bouldin_score(model.scaler_.apply(X[kept]), model.labels_[kept]), rel=1e-9
    )
    alone = daskkcl.validity(fit(X[4:], 1, map="identity"), X[4:])
    assert all(np.isnan(value) for value in alone.values())


def test_fuzzy_models_have_their_own_too():
    X = blobs()
    model = fit(X, 3, "okfcm")
    found = daskkcl.validity(model, X)
    assert {name: found[name] for name in ("xie_beni", "partition_coefficient")} == {
        name: daskkcl.fuzzy_validity(model, X)[name] for name in ("xie_beni", "partition_coefficient")
    }
    with pytest.raises(InvalidInputError, match="index of memberships"):
        daskkcl.validity(fit(X), X, indices=["xie_beni"])
    with pytest.raises(InvalidInputError, match="Did you mean 'silhouette'"):
        daskkcl.validity(model, X, indices=["silhouete"])
    with pytest.raises(WrongTypeError, match="no model"):
        daskkcl.validity("okfcm", X)


def test_stability_tells_right_numbers_from_wrong_ones():
    X = blobs((100, 100, 100))
    right, wrong = (daskkcl.stability(daskkcl.ApproxKernelKMeans(k, n_landmarks=30), X, n_resamples=4) for k in (3, 6))
    assert right["stability"] > 0.97
    assert wrong["stability"] < 0.9
    lazy = daskkcl.stability(
        daskkcl.ApproxKernelKMeans(3, n_landmarks=30), da.from_array(X, chunks=(41, 2)), n_resamples=4
    )
    assert lazy == right


# --- sweeps ------------------------------------------------------------------------------------------------------


def test_a_sweep_is_a_table_of_settings():
    X = blobs((100, 100, 100))
    found = daskkcl.sweep(
        X, "akkmeans", [2, 3, 4], gamma=[0.01, "auto"], random_state=0, n_landmarks=40, progress=False
    )
    assert len(found) == len(list(found)) == 6
    assert [row["n_clusters"] for row in found] == [2, 3, 4] * 2
    assert found.best_params_["n_clusters"] == 3
    assert found.best_ is found.models_[found.best_index_]
    assert list(found.to_frame().columns) == found.columns
    assert "best" in repr(found)
    assert "<table" in found._repr_html_()
    for row, model in zip(found, found.models_, strict=True):
        alone = fit(X, row["n_clusters"], n_landmarks=40, gamma=row["gamma"])
        assert (alone.labels_ == model.labels_).all()
        assert daskkcl.validity(alone, X)["silhouette"] == pytest.approx(row["silhouette"], rel=1e-12)


def test_a_sweep_reads_lazy_data_once_and_judges_together(monkeypatch):
    X = blobs((100, 100, 100))
    reads = []

    def read(block):
        reads.append(len(block))
        return block

    lazy = da.from_array(X, chunks=(100, 3)).map_blocks(read, dtype=X.dtype, meta=np.empty((0, 0)))
    small = {"random_state": 0, "n_landmarks": 30, "progress": False}
    kept = daskkcl.sweep(lazy, "akkmeans", [2, 3, 4], indices=["davies_bouldin"], by="davies_bouldin", **small)
    assert sum(reads) == len(X)
    assert kept.best_params_["n_clusters"] == 3
    monkeypatch.setattr("daskkcl.estimators.sweeping._LOADED_SHARE", 10**9)
    streamed = daskkcl.sweep(lazy, "akkmeans", [2, 3, 4], indices=["davies_bouldin"], by="davies_bouldin", **small)
    assert [row["davies_bouldin"] for row in streamed] == [row["davies_bouldin"] for row in kept]


@pytest.mark.parametrize("landmarks", ["uniform", "kmeans"])
def test_settings_share_landmarks(landmarks):
    X = blobs((100, 100, 100))
    found = daskkcl.sweep(X, "akkmeans", [2, 4], landmarks=landmarks, n_landmarks=20, random_state=0, progress=False)
    first, second = (model._model.reader.map_ for model in found.models_)
    assert_allclose(first.landmarks, second.landmarks, rtol=0, atol=0)
    assert first.kernel == second.kernel


def test_a_sweep_of_a_cube_has_labels_on_its_dimensions():
    import xarray as xr

    cube = xr.DataArray(blobs((60, 60), 2).reshape(10, 12, 2), dims=("y", "x", "band")).chunk(y=3)
    found = daskkcl.sweep(cube, "okfcm", [2, 3], feature_dim="band", random_state=0, progress=False, by="xie_beni")
    assert found.best_.labels_.dims == ("y", "x")
    assert found.best_params_["n_clusters"] == 2


def test_sweeps_are_drawn():
    pytest.importorskip("matplotlib").use("Agg")
    X = blobs((50, 50, 50))
    found = daskkcl.sweep(X, "akkmeans", [2, 3, 4], gamma=[0.01, 0.1], random_state=0, n_landmarks=20, progress=False)
    ax = found.plot()
    assert len(ax.lines) == 3
    assert ax.get_xlabel() == "number of clusters"
    assert "more is better" in ax.get_ylabel()
    assert "less is better" in found.plot("davies_bouldin").get_ylabel()
    widths = daskkcl.sweep(X, "akkmeans", [3], gamma=[0.01, 0.1], random_state=0, n_landmarks=20, progress=False)
    assert widths.plot().get_xscale() == "log"
    with pytest.raises(InvalidInputError, match="Did you mean"):
        found.plot("davies_boldin")


def test_without_matplotlib_a_sweep_says_what_to_install(monkeypatch):
    found = daskkcl.sweep(blobs((20, 20)), "akkmeans", [2], random_state=0, n_landmarks=10, progress=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DaskkclError, match=r"pip install 'daskkcl\[plots\]'"):
        found.plot()


def test_bad_sweeps():
    X = blobs((20, 20))
    with pytest.raises(WrongTypeError, match="pass a list"):
        daskkcl.sweep(X, n_clusters=3)
    with pytest.raises(InvalidInputError, match="finds the number of clusters by itself"):
        daskkcl.sweep(X, "cpcl")
    with pytest.raises(InvalidInputError, match="Did you mean 'n_landmarks'"):
        daskkcl.sweep(X, n_landmark=3)
    with pytest.raises(InvalidInputError, match="not among the indices"):
        daskkcl.sweep(X, n_clusters=[2], indices=["davies_bouldin"])
