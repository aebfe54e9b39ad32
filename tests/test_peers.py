"""What README's table says of other packages, tried with the versions that are installed (extra ``benchmarks``)."""

import inspect

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
NEEDED = "pip install 'daskkcl[benchmarks]'"


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(5 * k, 1, (200, 4)) for k in range(3)]).astype(np.float32)


def sizes(labels):
    return np.bincount(np.asarray(labels)).tolist()


def test_scikit_learn(X):
    cluster = pytest.importorskip("sklearn.cluster")
    assert sizes(cluster.KMeans(3, random_state=0).fit(sp.csr_matrix(X)).labels_) == [200] * 3
    spectral = cluster.SpectralClustering(3, gamma=0.1, random_state=0).fit(X)
    assert spectral.affinity_matrix_.shape == (600, 600)  # kernel, all pairs in memory
    assert hasattr(cluster.MiniBatchKMeans, "partial_fit")  # resumed by hand
    assert not [name for name in dir(cluster) if "fuzzy" in name.lower()]


def test_dask_ml(X):
    cluster = pytest.importorskip("dask_ml.cluster", reason=NEEDED)
    rows = da.from_array(X, chunks=(200, 4))
    assert sizes(cluster.KMeans(3, random_state=0).fit(rows).labels_) == [200] * 3
    spectral = cluster.SpectralClustering(3, gamma=0.1, n_components=50, random_state=0).fit(rows)
    assert sizes(spectral.labels_) == [200] * 3
    with pytest.raises((TypeError, ValueError)):  # somewhere inside numpy
        cluster.KMeans(3).fit(rows.map_blocks(sp.csr_matrix))
    assert [name for name in dir(cluster) if name[0].isupper()] == ["KMeans", "SpectralClustering"]


def test_scikit_fuzzy(X):
    skfuzzy = pytest.importorskip("skfuzzy", reason=NEEDED)
    assert sizes(skfuzzy.cmeans(X.T, 3, 1.5, 1e-3, 50, seed=0)[1].argmax(0)) == [200] * 3
    assert "kernel" not in inspect.signature(skfuzzy.cmeans).parameters
    with pytest.raises(ValueError, match="array"):
        skfuzzy.cmeans(sp.csr_matrix(X).T, 3, 1.5, 1e-3, 50)


def test_tslearn(X):
    clustering = pytest.importorskip("tslearn.clustering", reason=NEEDED)
    model = clustering.KernelKMeans(3, kernel="rbf", kernel_params={"gamma": 0.05}, random_state=0).fit(X)
    assert sizes(model.labels_) == [200] * 3
    with pytest.raises(TypeError, match="Sparse"):
        clustering.KernelKMeans(3, kernel="rbf").fit(sp.csr_matrix(X))


def test_faiss(X, tmp_path):
    faiss = pytest.importorskip("faiss", reason=NEEDED)
    clustering = pytest.importorskip("faiss.contrib.clustering", reason=NEEDED)
    kmeans = faiss.Kmeans(4, 3, seed=1)
    kmeans.train(X)
    assert kmeans.centroids.shape == (3, 4)
    rows = clustering.DatasetAssignSparse(sp.csr_matrix(X))
    saved = str(tmp_path / "centres.npy")
    assert clustering.kmeans(3, rows, niter=3, verbose=False, checkpoint=saved).shape == (3, 4)
    assert np.load(saved).shape == (3, 4)
