"""First centres by the sample's own kernel matrix: it is that matrix, its k-means is one, and threads do not matter."""

import dask
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import daskkcl
from daskkcl.kernels.rows import as_dense
from daskkcl.schedules import start

N, D, C = 700, 12, 4


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(N, D)) + 2 * rng.normal(size=(C, D))[rng.integers(0, C, N)]
    return np.where(rng.random(X.shape) < 0.7, X, 0).astype(np.float32)


@pytest.fixture
def seen(monkeypatch):
    """The work of finding first centres, with what each run found."""
    runs, real = [], start.k_means_run

    def k_means_run(kernel, number, whole):
        runs.append((kernel, real(kernel, number, whole)))
        return runs[-1][1]

    monkeypatch.setattr(start, "k_means_run", k_means_run)
    return runs


def fit(X, **changes):
    options = {"n_landmarks": 200, "n_init": 3, "random_state": 4, "progress": False}
    return daskkcl.fit(X, "akkmeans", C, **options | changes)


@pytest.mark.parametrize("carry", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
@pytest.mark.parametrize("landmarks", ["uniform", "kmeans", "leverage", "rows"])
def test_it_is_the_kernel_matrix_of_the_sample(X, seen, landmarks, kernel, carry):
    fit(carry(X), landmarks=X[:200] if landmarks == "rows" else landmarks, kernel=kernel)
    work, _ = seen[0]
    sample = as_dense(work.setup.sample).astype(np.float64)
    K = work.setup.map_.kernel(sample, sample)
    assert_allclose(work.P, K, rtol=2e-5, atol=2e-6 * np.abs(K).max())
    assert_allclose(work.Z, work.setup.measure_sample()[0], rtol=2e-5, atol=2e-6 * np.abs(K).max())
    assert work.known == (200 if landmarks == "uniform" else 0)


@pytest.mark.parametrize("weighted", [False, True])
def test_each_run_is_kernel_k_means_that_has_come_to_rest(X, seen, weighted):
    weights = np.random.default_rng(0).uniform(0.5, 3, N) if weighted else None
    estimator = daskkcl.OnlineKFCM(C, n_landmarks=200, n_init=3, random_state=4, progress=False)
    estimator.fit(X, sample_weight=weights)
    assert len(seen) == 3
    for work, run in seen:
        K, w = work.P.astype(np.float64), np.ones(N) if weights is None else work.weights
        labels = next(maker for maker in run.makers if maker is not None)
        U = (labels == np.arange(C)[:, None]) * w
        U /= U.sum(axis=1, keepdims=True)
        distances = work.kappa[:, None] - 2 * K @ U.T + np.einsum("ci,ij,cj->c", U, K, U)
        assert_array_equal(distances.argmin(axis=1), labels)
        assert_allclose(run.objective, w @ distances.min(axis=1), rtol=1e-5)
        assert_allclose(run.means(work.Z, work.weights), U @ work.Z, rtol=1e-4, atol=1e-6)
    assert len({tuple(run.seeds) for _, run in seen}) == 3


def test_threads_do_not_matter(X, seen):
    models = []
    for threads in (1, 2, 5):
        with dask.config.set(num_workers=threads):
            models.append(fit(X))
    by_number = [sorted(run.objective for _, run in seen[first : first + 3]) for first in (0, 3, 6)]
    assert by_number[0] == by_number[1] == by_number[2]
    for other in models[1:]:
        assert_array_equal(other.labels_, models[0].labels_)
        assert other.objective_ == models[0].objective_


OTHERS = [{"kernel": "sigmoid"}, {"kernel": "laplacian"}, {"n_landmarks": 20}, {"init": "d2"}]


@pytest.mark.parametrize("changes", OTHERS)
def test_where_it_does_not_pay_or_is_none_it_is_not_made(X, seen, changes):
    fit(X, **changes)
    assert not seen
