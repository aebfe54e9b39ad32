"""Who is measured: daskkcl and its peers, each called as its users call it.

A contestant is a function of rows (an array, or the path of a Zarr), number of clusters, seed and further parameters,
which returns labels, or a dictionary with ``labels`` and whatever else it found. `LIBRARIES` are imported before the
clock starts, for everybody.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

__all__ = ["CONTESTANTS", "LIBRARIES", "distribution", "library"]

#: What is loaded before the clock starts: all that a run will need, since daskkcl itself loads late.
LIBRARIES = {
    "daskkcl": ("daskkcl.estimators", "dask.array", "dask.threaded", "scipy.linalg", "scipy.sparse", "zarr"),
    "numba": ("numba",),
    "sklearn": ("sklearn.cluster", "sklearn.kernel_approximation"),
    "dask_ml": ("dask_ml.cluster", "dask.array"),
    "skfuzzy": ("skfuzzy",),
    "tslearn": ("tslearn.clustering",),
    "faiss": ("faiss",),
}
#: What to install for them.
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "dask_ml": "dask-ml", "skfuzzy": "scikit-fuzzy", "faiss": "faiss-cpu"}


def daskkcl_fit(X: Any, n_clusters: int, seed: int, algo: str, **parameters: Any) -> Any:
    """Run one of our algorithms; also return when each stage began and what was planned."""
    import daskkcl

    stages: list[tuple[str, float]] = []

    def watch(stage: str, done: int, total: int, info: str) -> None:
        if done == 0:
            stages.append((stage, time.perf_counter()))

    began = time.perf_counter()
    model = daskkcl.fit(X, algo, n_clusters, random_state=seed, progress=watch, **parameters)
    ended = time.perf_counter()
    edges = [began, *(moment for _, moment in stages), ended]
    names = ["preparing", *(name for name, _ in stages)]
    return {
        "labels": model.labels_,
        "n_iter": model.n_iter_,
        "planned_bytes": model.plan_.peak_bytes,
        "kept": model.plan_.keep,
        "stages": [(name, b - a) for name, a, b in zip(names, edges[:-1], edges[1:], strict=True)],
    }


def daskkcl_on_workers(X: Any, n_clusters: int, seed: int, algo: str, workers: int, **parameters: Any) -> Any:
    """Run one of our algorithms on so many worker processes of one thread; starting them is not counted."""
    import distributed

    import daskkcl
    from daskkcl.rules.fused import warm_up

    warm_up()
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="2GiB"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        small = np.random.default_rng(0).normal(size=(2000, 8)).astype(np.float32)
        daskkcl.fit(small, algo, 2, random_state=0, client=client, progress=False)  # workers import their libraries
        client.run(warm_up)
        began = time.perf_counter()
        model = daskkcl.fit(X, algo, n_clusters, random_state=seed, client=client, progress=False, **parameters)
        return {"cluster_sizes": model.cluster_sizes_.tolist(), "seconds": time.perf_counter() - began}


def daskkcl_warm(X: Any, n_clusters: int, seed: int, algo: str, calls: int = 6, **parameters: Any) -> Any:
    """Run the same fit several times in one process; return every time."""
    import daskkcl

    times = []
    for _ in range(calls):
        began = time.perf_counter()
        model = daskkcl.fit(X, algo, n_clusters, random_state=seed, progress=False, **parameters)
        times.append(time.perf_counter() - began)
    return {"labels": model.labels_, "calls": times}


def nystroem_minibatch(X: Any, n_clusters: int, seed: int, n_landmarks: int, gamma: float | None = None) -> Any:
    """scikit-learn: Nystroem features, then mini-batch k-means."""
    from sklearn.cluster import MiniBatchKMeans

    Z = _nystroem(X, n_landmarks, gamma, seed)
    return MiniBatchKMeans(n_clusters, random_state=seed).fit(Z).labels_


def nystroem_kmeans(X: Any, n_clusters: int, seed: int, n_landmarks: int, gamma: float | None = None) -> Any:
    """scikit-learn: Nystroem features, then k-means."""
    from sklearn.cluster import KMeans

    Z = _nystroem(X, n_landmarks, gamma, seed)
    return KMeans(n_clusters, n_init=1, random_state=seed).fit(Z).labels_


def _nystroem(X: Any, n_landmarks: int, gamma: float | None, seed: int) -> Any:
    from sklearn.kernel_approximation import Nystroem

    return Nystroem("rbf", gamma=gamma, n_components=n_landmarks, random_state=seed).fit_transform(X)


def sklearn_minibatch(X: Any, n_clusters: int, seed: int) -> Any:
    """scikit-learn: mini-batch k-means of the rows."""
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(n_clusters, random_state=seed).fit(X).labels_


def sklearn_spectral(X: Any, n_clusters: int, seed: int) -> Any:
    """scikit-learn: spectral clustering of the nearest-neighbour graph."""
    from sklearn.cluster import SpectralClustering

    return SpectralClustering(n_clusters, affinity="nearest_neighbors", random_state=seed, n_jobs=-1).fit(X).labels_


def dask_ml_kmeans(X: Any, n_clusters: int, seed: int) -> Any:
    """dask-ml: k-means||."""
    import dask.array as da
    from dask_ml.cluster import KMeans

    rows = da.from_array(X, chunks=(10_000, X.shape[1])) if isinstance(X, np.ndarray) else da.from_zarr(X)
    return np.asarray(KMeans(n_clusters, random_state=seed).fit(rows).labels_)


def dask_ml_spectral(X: Any, n_clusters: int, seed: int, n_landmarks: int, gamma: float) -> Any:
    """dask-ml: approximate spectral clustering from a sample of columns."""
    import dask.array as da
    from dask_ml.cluster import SpectralClustering

    rows = da.from_array(X, chunks=(10_000, X.shape[1]))
    model = SpectralClustering(n_clusters, gamma=gamma, n_components=n_landmarks, random_state=seed)
    return np.asarray(model.fit(rows).labels_)


def skfuzzy_cmeans(X: Any, n_clusters: int, seed: int, fuzzifier: float, max_iter: int) -> Any:
    """scikit-fuzzy: c-means of the rows."""
    import skfuzzy

    return skfuzzy.cmeans(X.T, n_clusters, fuzzifier, error=1e-5, maxiter=max_iter, seed=seed)[1].argmax(axis=0)


def tslearn_kernel_kmeans(X: Any, n_clusters: int, seed: int, gamma: float) -> Any:
    """tslearn: kernel k-means with the whole kernel matrix."""
    from tslearn.clustering import KernelKMeans

    model = KernelKMeans(n_clusters, kernel="rbf", kernel_params={"gamma": gamma}, random_state=seed)
    return model.fit(X).labels_


def faiss_kmeans(X: Any, n_clusters: int, seed: int) -> Any:
    """faiss: k-means of the rows, then a search for the nearest centres."""
    import faiss

    model = faiss.Kmeans(X.shape[1], n_clusters, niter=20, seed=seed)
    model.train(X)
    return model.index.search(X, 1)[1][:, 0]


#: name: function, libraries
CONTESTANTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "daskkcl": (daskkcl_fit, ("daskkcl",)),
    "daskkcl, workers": (daskkcl_on_workers, ("daskkcl",)),
    "daskkcl, warm": (daskkcl_warm, ("daskkcl",)),
    "Nystroem + MiniBatchKMeans": (nystroem_minibatch, ("sklearn",)),
    "Nystroem + KMeans": (nystroem_kmeans, ("sklearn",)),
    "MiniBatchKMeans": (sklearn_minibatch, ("sklearn",)),
    "SpectralClustering": (sklearn_spectral, ("sklearn",)),
    "dask-ml KMeans": (dask_ml_kmeans, ("dask_ml",)),
    "dask-ml SpectralClustering": (dask_ml_spectral, ("dask_ml",)),
    "scikit-fuzzy cmeans": (skfuzzy_cmeans, ("skfuzzy",)),
    "tslearn KernelKMeans": (tslearn_kernel_kmeans, ("tslearn",)),
    "faiss Kmeans": (faiss_kmeans, ("faiss",)),
}


def library(name: str) -> str:
    """Return the main library of a contestant."""
    return CONTESTANTS[name][1][0]


def distribution(module: str) -> str:
    """Return what to install for a library."""
    return _DISTRIBUTIONS.get(module, module)
