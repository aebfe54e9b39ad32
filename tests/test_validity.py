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


def test_rows_are_read_only_for_what_is_asked():
    X, reads = blobs((100, 100)), []

    def read(block):
        reads.append(len(block))
        return block

    lazy = da.from_array(X, chunks=(100, 3)).map_blocks(read, dtype=X.dtype, meta=np.empty((0, 0)))
    model = daskkcl.fit(X, "okfcm", 2, random_state=0, progress=False)
    every = daskkcl.validity(model, lazy)
    assert sum(reads) == 3 * len(X)
    reads.clear()
    assert daskkcl.validity(model, lazy, indices=["xie_beni"])["xie_beni"] == every["xie_beni"]
    assert sum(reads) == len(X)


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
    for given, words in (
        ({"indices": ["davies_bouldin"]}, "not among the indices that were asked for: davies_bouldin"),
        ({"by": "xie_beni"}, "akkmeans has none"),
        ({"indices": ["xie_beni"], "by": "objective"}, "akkmeans has none"),
        ({"by": "stability"}, "by="),  # without resamples
    ):
        with pytest.raises(InvalidInputError, match=words):
            daskkcl.sweep("/nowhere", n_clusters=[2], **given)  # before anything is read


def test_one_width_of_any_type_and_indices_of_any_kind():
    X = blobs((40, 40))
    names = ("davies_bouldin", "calinski_harabasz")
    given = {"by": names[0], "random_state": 0, "n_landmarks": 20, "progress": False}
    found = daskkcl.sweep(X, n_clusters=[2, 3], gamma=np.float32(0.125), indices=iter(names), **given)
    assert all(set(names) < set(row) for row in found)
    assert [row["gamma"] for row in found] == [0.125, 0.125]


# --- what settings share, and memory ------------------------------------------------------------------------------


def measured_rows(monkeypatch):
    """Count the rows whose kernel with the landmarks is computed; samples and landmarks are not of the whole data."""
    from daskkcl.maps.landmarks import LandmarkMap

    counted, measure = [], LandmarkMap.measure

    def count(self, rows, out=None):
        counted.append(len(rows))
        return measure(self, rows, out)

    monkeypatch.setattr(LandmarkMap, "measure", count)
    return counted


def test_rows_are_measured_once_for_every_width(monkeypatch):
    X = blobs((900, 900, 900, 900, 900))
    few = {"random_state": 0, "n_landmarks": 30, "progress": False, "gamma": [0.01, 0.1], "init": "random"}
    counted = measured_rows(monkeypatch)
    one = daskkcl.sweep(X, "akkmeans", [5], **few)
    alone = sum(counted)
    counted.clear()
    several = daskkcl.sweep(X, "akkmeans", [2, 3, 4, 5, 6, 7], **few)
    assert 2 * len(X) <= sum(counted) < 2 * len(X) + 100  # all rows for each width, and first centres from rows
    assert alone > 2 * len(X)
    assert (several.models_[3].labels_ == one.models_[0].labels_).all()


CASES = {
    "akkmeans": {}, "pakcl": {}, "okfcm": {}, "spkfcm": {}, "rsekfcm": {}, "akcl": {}, "fastkscl": {}, "apnc": {},
    "spectral": {}, "nystroem": {"algo": "akkmeans", "map": "nystroem"}, "rff": {"algo": "akkmeans", "map": "rff"},
    "k-means landmarks": {"algo": "akkmeans", "landmarks": "kmeans"}, "scaled": {"algo": "pakcl", "scale": "standard"},
    "svrff": {"algo": "akkmeans", "map": "svrff"}, "kkmeans": {"n_landmarks": None}, "skkmeans": {"n_landmarks": None},
    "literal": {"algo": "okfcm", "form": "literal", "n_landmarks": None}, "fcm": {"n_landmarks": None},
}  # fmt: skip


QUICK = ("akkmeans", "pakcl", "okfcm", "spectral", "k-means landmarks", "kkmeans")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in CASES])
def test_fits_of_a_sweep_are_those_of_single_fits(name):
    X = blobs((150, 90, 60, 30))
    X[7, 1] = np.nan
    given = {"algo": name, "n_landmarks": 40, "nan": "drop", "random_state": 0, "progress": False, **CASES[name]}
    given = {key: value for key, value in given.items() if value is not None}
    found = daskkcl.sweep(da.from_array(X, chunks=(100, 3)), n_clusters=[2, 4], indices=["davies_bouldin"],
                          by="davies_bouldin", **given)  # fmt: skip
    for row, model in zip(found, found.models_, strict=True):
        alone = daskkcl.fit(X, n_clusters=row["n_clusters"], **given)
        labels = np.asarray(model.labels_)
        assert labels[7] == -1
        assert (labels == alone.labels_).mean() >= 0.997  # rounding may move a row on a border
        assert (np.asarray(model.predict(X)) == labels).mean() >= 0.997
        assert daskkcl.validity(alone, X)["davies_bouldin"] == pytest.approx(row["davies_bouldin"], rel=0.01)
        assert model.n_features_in_ == 3


@pytest.mark.parametrize(
    "algo", ["akkmeans", *(pytest.param(a, marks=pytest.mark.slow) for a in ("pakcl", "spectral"))]
)
def test_measurements_go_to_scratch_when_memory_is_short(algo, monkeypatch, tmp_path):
    X = np.random.default_rng(0).normal(size=(3000, 80)) + 4 * (np.arange(3000) % 3)[:, None]
    X = da.from_array(X.astype("float32"), chunks=(1000, 80))
    monkeypatch.setattr("daskkcl.estimators.sweeping._LOADED_SHARE", 10**9)
    given = {"n_clusters": [2, 3, 4], "n_landmarks": 60, "random_state": 0, "progress": False}
    kept = daskkcl.sweep(X, algo, **given)
    from daskkcl.schedules import setup, sharing

    make, stored = setup.make_plan, []
    monkeypatch.setattr(setup, "make_plan", lambda *a, **k: make(*a, **{**k, "keep": {}}))
    codes = sharing.make_codes
    monkeypatch.setattr(sharing, "make_codes", lambda *a: stored.append(a) or codes(*a))
    lean = daskkcl.sweep(X, algo, scratch=str(tmp_path), **given)
    assert len(stored) == (algo == "akkmeans")  # pakcl would shuffle them: it measures again; spectral has codes
    assert [row["silhouette"] for row in lean] == pytest.approx([row["silhouette"] for row in kept], rel=1e-6)
    assert not list(tmp_path.rglob("codes.zarr"))  # labels of lazy rows stay with their models


def test_without_a_seed_settings_have_one_sample():
    X = blobs((100, 100, 100))
    found = daskkcl.sweep(X, "akkmeans", [2, 3], gamma=[0.1, "auto"], n_landmarks=20, progress=False)
    first = found.models_[0]._model.reader.map_.landmarks
    assert all((model._model.reader.map_.landmarks == first).all() for model in found.models_)


def test_what_does_not_fit_is_refused_before_it_is_read(tmp_path):
    import zarr

    from daskkcl.errors import MemoryLimitError
    from daskkcl.system import resident_bytes

    X = np.random.default_rng(0).normal(size=(20_000, 50)).astype("float32")
    array = zarr.create_array(str(tmp_path / "x.zarr"), shape=X.shape, chunks=X.shape, dtype="float32")
    array[:] = X
    model = daskkcl.ApproxKernelKMeans(3, n_landmarks=20, random_state=0, progress=False).fit(X)
    fuzzy = daskkcl.OnlineKFCM(3, n_landmarks=20, random_state=0, progress=False).fit(X[:500])

    class Unread:
        """Says what it is, and is never to be read."""

        shape, dtype, ndim, chunks = (10**9, 50), np.dtype("float32"), 2, (10**5, 50)

        def __getitem__(self, key):
            raise AssertionError("read")

    huge = da.from_array(Unread(), chunks=(10**7, 50), meta=np.empty((0, 0), "float32"))
    limit = resident_bytes() + 150 * 2**20
    with pytest.raises(MemoryLimitError, match="smaller chunks"):
        model.predict(huge, memory_limit=limit)
    with pytest.raises(MemoryLimitError, match="smaller chunks"):
        model.transform(huge, memory_limit=limit)
    with pytest.raises(MemoryLimitError):
        fuzzy.predict_proba(huge, memory_limit=limit)
    with pytest.raises(MemoryLimitError):
        daskkcl.validity(model, huge, memory_limit=limit)
    with pytest.raises(MemoryLimitError):
        daskkcl.sweep(huge, "akkmeans", [2, 3], n_landmarks=20, memory_limit=limit)
    with pytest.raises(MemoryLimitError, match="n_rows"):
        daskkcl.stability(model.set_params(memory_limit=limit), huge, n_rows=10**7)
    with pytest.raises(MemoryLimitError, match="n_sample"):
        daskkcl.validity(model, array, memory_limit=resident_bytes() + 300 * 2**20, n_sample=10**5)
    with pytest.raises(InvalidInputError, match="not a memory size"):
        model.predict(X, memory_limit="much")
    enough = resident_bytes() + 200 * 2**20
    assert (model.predict(X, memory_limit=enough) == model.labels_).all()
    assert (model.predict(array, memory_limit=enough).compute() == model.labels_).all()
