"""The maps against their slow twins, and their inner products and distances against the exact kernel."""

import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from reference import algebra
from reference import maps as twin

import daskkcl
from daskkcl.kernels import Laplacian, Polynomial, Rbf
from daskkcl.maps import APNC, Nystroem, NystromNcut, RandomFourier, SparseSpectral, SVRandomFourier, TensorSketch
from daskkcl.maps.features import RandomFourierMap, TensorSketchMap, draw_frequencies, draw_sketch
from daskkcl.maps.landmarks import RCOND, LandmarkMap
from daskkcl.maps.nearest import NearestLandmarks, code_bits, make_cells
from daskkcl.maps.spectral import code_sums
from daskkcl.random import Key

N, D = 90, 4
GAMMA, FLOAT = 0.15, np.dtype("float64")
EXACT = RCOND[FLOAT]  # the documented truncation in float64
SEED = 7


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.normal(scale=2.0, size=(3, D))[rng.integers(0, 3, N)] + rng.normal(size=(N, D))


@pytest.fixture(scope="module")
def landmarks(X):
    return X[::4] + 0.1  # not rows themselves


@pytest.fixture(scope="module")
def gauss(X, landmarks):
    """K_B and K_hat of the Gaussian kernel."""
    return algebra.rbf(X, landmarks, GAMMA), algebra.rbf(landmarks, landmarks, GAMMA)


def embed(map_, X, new=None):
    fitted = map_.set_params(random_state=SEED, progress=False, dtype="float64").fit(X)
    return fitted.transform(X if new is None else new)


def inner(Y):
    return Y @ Y.T


# --- twins ----------------------------------------------------------------------------------------------------------
# Eigenvectors are defined up to signs and rotations, so inner products of coordinates are compared.


@pytest.mark.parametrize("rank", [None, 1, 5])
def test_nystroem_is_its_twin(X, landmarks, gauss, rank):
    Y = embed(Nystroem(gamma=GAMMA, landmarks=landmarks, rank=rank), X)
    expected = twin.nystroem(*gauss, rank or len(landmarks), EXACT)
    assert Y.shape == expected.shape
    assert_allclose(inner(Y), inner(expected), rtol=0, atol=1e-12)


def test_nystroem_of_a_wide_kernel_is_its_twin(X, landmarks):
    """Eigenvalues from 1 down to rounding: those below 1e-10 go, and of what is divided by the rest 1e-6 is left."""
    K = [algebra.rbf(rows, landmarks, 1e-4) for rows in (X, landmarks)]
    spectrum = np.linalg.eigvalsh(K[1])
    assert (spectrum < EXACT * spectrum.max()).any()
    expected = twin.nystroem(*K, len(landmarks), EXACT)
    assert_allclose(inner(embed(Nystroem(gamma=1e-4, landmarks=landmarks), X)), inner(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "sigmoid"])
def test_apnc_is_its_twin(X, landmarks, kernel):
    """The twin is given the rows that the package's generator draws. The sigmoid kernel has negative eigenvalues."""
    functions = {
        "rbf": lambda A, B: algebra.rbf(A, B, GAMMA),
        "polynomial": lambda A, B: algebra.polynomial(A, B, 3, GAMMA, 1.0),
        "sigmoid": lambda A, B: np.tanh(GAMMA * A @ B.T + 0.11),
    }
    params = {"polynomial": {"degree": 3, "coef0": 1.0}, "sigmoid": {"coef0": 0.11}}.get(kernel)
    Y = embed(
        APNC(kernel=kernel, gamma=GAMMA, kernel_params=params, landmarks=landmarks, n_components=12, share=0.3), X
    )
    rng, l = Key(SEED).child("apnc").generator(), len(landmarks)
    summed = [rng.choice(l, round(0.3 * l), replace=False) for _ in range(12)]
    K = functions[kernel]
    if kernel == "sigmoid":
        assert np.linalg.eigvalsh(K(landmarks, landmarks)).min() < -1e-3
    expected = twin.apnc(K(X, landmarks), K(landmarks, landmarks), summed, EXACT)
    assert_allclose(Y, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_apnc_clusters_as_l1_lloyd_does(X):
    rows = np.array([3, 30, 60])
    map_ = APNC(gamma=GAMMA, n_landmarks=40, n_components=25, random_state=SEED).fit(X)
    model = daskkcl.fit(X, "apnc", 3, map=map_, init=rows, tol=0, random_state=SEED, progress=False)
    Y = map_.transform(X)
    labels, centres = twin.l1_lloyd(Y, Y[rows], 100)
    assert len(set(labels)) == 3
    sizes = np.bincount(labels)
    order = np.argsort(-sizes, kind="stable")  # the package calls the largest cluster 0
    assert len(set(sizes)) == 3
    assert_array_equal(model.labels_, np.argsort(order)[labels])
    distances = np.abs(Y[:, None] - centres[order]).sum(axis=2)
    assert_allclose(model.transform(X), distances, rtol=1e-10)
    assert model.objective_ == pytest.approx(distances.min(axis=1).sum(), rel=1e-10)


def test_means_are_not_medians(X):
    """l1 distances go with medians in input space; here centres stay means."""
    model = daskkcl.fit(X, "apnc", 2, map="identity", init=np.array([0, 50]), tol=0, random_state=0, progress=False)
    labels, centres = twin.l1_lloyd(X, X[[0, 50]], 100)
    assert_allclose(
        np.sort(model.transform(X), axis=1), np.sort(np.abs(X[:, None] - centres).sum(axis=2), axis=1), rtol=1e-10
    )


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_random_fourier_features_are_their_twin(X, kernel):
    """Rows are moved to an origin of the package's own, which turns the features but leaves their inner products."""
    map_ = RandomFourier(kernel=kernel, gamma=GAMMA, n_components=31)
    Y = embed(map_, X)
    assert Y.shape == (N, 32)
    frequencies = map_._reader.map_.frequencies
    assert frequencies.shape == (D, 16)
    assert_allclose(inner(Y), inner(twin.random_fourier(X, frequencies)), rtol=0, atol=1e-12)
    assert_allclose((Y**2).sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("n_vectors", [1, 5, 24])
def test_singular_vectors_of_random_features_are_their_twin(X, n_vectors):
    map_ = SVRandomFourier(gamma=GAMMA, n_components=24, n_vectors=n_vectors)
    Y = embed(map_, X)
    features = twin.random_fourier(X, map_._reader.map_.inner.frequencies)
    U = twin.leading_left_singular(features, n_vectors)
    assert Y.shape == U.shape
    assert_allclose(inner(Y) / N, inner(U), rtol=0, atol=1e-11)


@pytest.mark.parametrize("degree", [1, 2, 4])
@pytest.mark.parametrize("size", [1, 8, 11])
def test_tensor_sketches_are_their_twin(X, degree, size):
    map_ = TensorSketch(gamma=0.3, kernel_params={"degree": degree, "coef0": 0.7}, n_components=size)
    Y = embed(map_, X)
    made = map_._reader.map_
    assert made.buckets.shape == made.signs.shape == (degree, D + 1)
    expected = twin.tensor_sketch(X, made.buckets, made.signs, size, 0.3, 0.7)
    assert_allclose(Y, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("c", [1, 3, 6])
def test_the_normalised_cut_is_its_twin(X, landmarks, gauss, c):
    Y = embed(NystromNcut(gamma=GAMMA, landmarks=landmarks, n_components=c), X)
    expected = twin.normalised_cut(*gauss, c, EXACT)
    assert Y.shape == expected.shape
    assert_allclose(inner(Y), inner(expected), rtol=0, atol=1e-11)


def test_the_normalised_cut_of_all_rows_is_the_exact_one(X):
    Y = embed(NystromNcut(gamma=GAMMA, landmarks=X, n_components=3), X)
    K = algebra.rbf(X, X, GAMMA)
    degree = K.sum(axis=1)
    U = np.linalg.eigh(K / np.sqrt(degree[:, None] * degree))[1][:, -3:]
    assert_allclose(inner(Y), inner(U / np.linalg.norm(U, axis=1)[:, None]), rtol=0, atol=1e-10)


def squared(X, L):
    return np.array([[np.sum((x - l) ** 2) for l in L] for x in X])


@pytest.mark.parametrize("diffusion", [0.0, 2.0])
@pytest.mark.parametrize("p", [2, 3, 7, 23])
def test_the_spectral_map_is_its_twin(X, landmarks, p, diffusion):
    """With all landmarks as neighbours too (p = m). Weights are rounded, as documented; the twin rounds as well."""
    r, unit = 5, 2.0 ** -code_bits(N)
    assert len(landmarks) == 23
    map_ = SparseSpectral(landmarks=landmarks, n_neighbors=p, n_components=r, diffusion=diffusion)
    Y = embed(map_, X)
    D2 = squared(X, landmarks)
    expected, values = twin.sparse_spectral(twin.sparse_rows(D2, p, unit), r, diffusion)
    assert values[r] < values[r - 1] * (1 - 1e-3)  # else the leading r are not defined
    assert_allclose(inner(Y), inner(expected), rtol=0, atol=1e-10)
    without, _ = twin.sparse_spectral(twin.sparse_rows(D2, p), r, diffusion)
    assert_allclose(inner(Y), inner(without), rtol=0, atol=1e-4)  # rounding to 2^-22 is 2e-7 a weight


def test_coordinates_end_at_a_clear_step_of_the_eigenvalues(X):
    """Clusters that do not touch make as many eigenvalues of one; what comes behind them cuts through clusters."""
    rng = np.random.default_rng(0)
    apart = np.repeat(100 * np.eye(4), 100, axis=0) + rng.normal(size=(400, 4))

    def coordinates(rows, c, **given):
        map_ = SparseSpectral(n_landmarks=60, **given)
        model = daskkcl.fit(rows, "spectral", c, map=map_, random_state=0, progress=False)
        return model._model.reader.map_.n_measurements

    assert coordinates(apart, 4) == 4
    assert coordinates(apart, 3) == 4  # too few clusters are asked for: the step is behind the fourth all the same
    assert coordinates(apart, 4, n_components=7) == 7  # unless told otherwise
    assert coordinates(rng.normal(size=(400, 8)), 4) == 9  # no step: five more


def test_new_rows_are_placed_as_old_ones(X, landmarks):
    new = np.random.default_rng(5).normal(scale=2, size=(40, D))
    unit = 2.0 ** -code_bits(N)
    map_ = SparseSpectral(landmarks=landmarks, n_components=4)
    Y = embed(map_, X, np.concatenate([X, new]))
    Z, Z_new = (twin.sparse_rows(squared(rows, landmarks), 3, unit) for rows in (X, np.concatenate([X, new])))
    expected, _ = twin.sparse_spectral(Z, 4, 2.0, Z_new)
    assert_allclose(inner(Y), inner(expected), rtol=0, atol=1e-10)


def test_the_spectral_map_with_distances_of_a_kernel(X, landmarks, gauss):
    K_B, _ = gauss
    Y = embed(SparseSpectral(kernel="rbf", gamma=GAMMA, landmarks=landmarks, n_components=4), X)
    Z = twin.sparse_rows(2 - 2 * K_B, 3, 2.0 ** -code_bits(N))
    expected, _ = twin.sparse_spectral(Z, 4, 2.0)
    assert_allclose(inner(Y), inner(expected), rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype, digits", [("float32", 2e-4), ("float64", 1e-9)])
def test_far_from_zero(X, landmarks, dtype, digits):
    """A shift of all rows changes no distance; kept small by moving rows to their mean first."""
    maps = {
        "spectral": lambda by: SparseSpectral(landmarks=landmarks + by, n_components=4),
        "rff": lambda by: RandomFourier(gamma=GAMMA, n_components=64),
    }
    for map_ in maps.values():
        near, far = (map_(by).set_params(dtype=dtype, random_state=0).fit_transform(X + by) for by in (0.0, 1024.0))
        assert_allclose(inner(far), inner(near), atol=digits)


# --- rates ----------------------------------------------------------------------------------------------------------

SIZES = np.array([32, 64, 128, 256, 512, 1024])


def slope(errors):
    return np.polyfit(np.log(SIZES), np.log(errors), 1)[0]


def fourier_error(kernel, X, K, size, seed):
    rng = np.random.default_rng(seed)
    map_ = RandomFourierMap(kernel, X.mean(axis=0), draw_frequencies(kernel, X.shape[1], size // 2, rng), FLOAT)
    return inner(map_.measure(X)[0]) - K


def sketch_error(kernel, X, K, size, seed):
    map_ = TensorSketchMap(kernel, *draw_sketch(kernel, X.shape[1], size, np.random.default_rng(seed)), size, FLOAT)
    return inner(map_.measure(X)[0]) - K


FEATURES = {
    "rbf": (fourier_error, Rbf(gamma=GAMMA), lambda A, B: algebra.rbf(A, B, GAMMA)),
    "laplacian": (
        fourier_error,
        Laplacian(gamma=0.1),
        lambda A, B: np.exp(-0.1 * np.abs(A[:, None] - B[None]).sum(axis=2)),
    ),
    "polynomial": (
        sketch_error,
        Polynomial(degree=3, gamma=0.2, coef0=1.0),
        lambda A, B: algebra.polynomial(A, B, 3, 0.2, 1.0),
    ),
}


@pytest.mark.parametrize("name", FEATURES)
def test_random_features_err_as_one_over_the_root_of_their_number(X, name):
    error, kernel, exact = FEATURES[name]
    rows = X[:30]
    K = exact(rows, rows)
    apart = ~np.eye(len(rows), dtype=bool)
    errors = [
        np.sqrt(np.mean([(error(kernel, rows, K, size, seed)[apart] ** 2).mean() for seed in range(20)]))
        for size in SIZES
    ]
    assert -0.6 < slope(errors) < -0.4, errors


@pytest.mark.parametrize("name", FEATURES)
def test_random_features_have_no_bias(X, name):
    """The mean over seeds lies within five standard errors of the kernel, for every pair of rows."""
    error, kernel, exact = FEATURES[name]
    rows = X[:8]
    K = exact(rows, rows)
    errors = np.array([error(kernel, rows, K, 32, seed) for seed in range(400)])
    standard_error = errors.std(axis=0) / np.sqrt(len(errors))
    assert (np.abs(errors.mean(axis=0)) <= 5 * standard_error + 1e-12).all()


def test_orthogonal_features_err_less_than_independent_ones():
    d, size = 16, 64
    rows = np.random.default_rng(0).normal(size=(30, d))
    gamma = 0.5 / d
    K = algebra.rbf(rows, rows, gamma)
    orthogonal, independent = [], []
    for seed in range(20):
        orthogonal.append((fourier_error(Rbf(gamma=gamma), rows, K, size, seed) ** 2).mean())
        W = np.random.default_rng(seed).normal(scale=np.sqrt(2 * gamma), size=(d, size // 2))
        independent.append(((inner(twin.random_fourier(rows, W)) - K) ** 2).mean())
    assert np.mean(orthogonal) < 0.8 * np.mean(independent)


def test_nystroem_with_all_rows_is_the_kernel(X):
    Y = embed(Nystroem(gamma=GAMMA, landmarks=X), X)
    assert_allclose(inner(Y), algebra.rbf(X, X, GAMMA), rtol=0, atol=1e-10)


def test_nystroem_errs_less_with_every_landmark(X):
    """What is left of the kernel shrinks as the span grows, and is never below the best of that rank."""
    K = algebra.rbf(X, X, GAMMA)
    spectrum = np.sort(np.linalg.eigvalsh(K))[::-1]
    errors = []
    for m in (5, 10, 20, 40, 80):
        Y = embed(Nystroem(gamma=GAMMA, landmarks=X[:m]), X)
        left = np.diag(K) - (Y**2).sum(axis=1)
        errors.append(left.sum())
        assert errors[-1] >= spectrum[m:].sum() - 1e-8
        assert (left >= -1e-8).all()
    assert (np.diff(errors) < 0).all()
    assert errors[-1] < errors[0] / 30


def test_l1_distances_of_apnc_stand_for_distances_in_feature_space(X):
    """Proportional to them, and the better the more coordinates there are."""
    map_ = {"gamma": 0.5, "landmarks": X}
    K = algebra.rbf(X, X, 0.5)
    pairs = np.triu_indices(N, 1)
    exact = np.sqrt(2 - 2 * K)[pairs]
    correlation, spread = [], []
    for size in (5, 20, 80, 320, 1280):
        Y = embed(APNC(n_components=size, **map_), X)
        l1 = np.abs(Y[:, None] - Y[None]).sum(axis=2)[pairs]
        correlation.append(np.corrcoef(l1, exact)[0, 1])
        spread.append((l1 / exact).std() / (l1 / exact).mean())
    assert (np.diff(correlation) > 0).all(), correlation
    assert (np.diff(spread) < 0).all(), spread
    # a tenfold lower spread for 256 times the coordinates, were there nothing but the chance of the sums
    assert spread[-1] < spread[0] / 5, spread


# --- the search for the nearest landmarks ---------------------------------------------------------------------------


def codes_of(rows, landmarks, p, dtype="float32", cells=None, origin=None):
    origin = np.zeros(landmarks.shape[1]) if origin is None else origin
    return NearestLandmarks(landmarks, origin, p, 22, np.dtype(dtype), None, cells).encode(rows)


def clustered(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return (4 * rng.normal(size=(20, d))[rng.integers(0, 20, n)] + rng.normal(size=(n, d))).astype(np.float32)


@pytest.mark.parametrize("m, p", [(1, 1), *((m, p) for m in (63, 64, 65, 500) for p in (1, 3, 10))])
def test_the_nearest_landmarks_are_those_of_a_sort(m, p):
    rng = np.random.default_rng(m)
    rows, landmarks = rng.normal(size=(300, 3)), rng.normal(size=(m, 3))
    codes = codes_of(rows, landmarks, p, "float64")
    D2 = squared(rows, landmarks)
    assert_array_equal(codes[:, :p], np.argsort(D2, axis=1)[:, :p])
    assert_allclose(codes[:, p:].sum(axis=1), 1, atol=p * 2.0**-22)
    Z = np.zeros((300, m))
    np.put_along_axis(Z, codes[:, :p].astype(int), codes[:, p:], axis=1)
    assert_allclose(Z, twin.sparse_rows(D2, p), atol=2.0**-22)


def test_the_two_levels_find_nine_of_ten():
    """4,000 landmarks in 16 dimensions, in clusters."""
    landmarks, rows = clustered(4000, 16), clustered(3000, 16, seed=0)[::-1] + np.float32(0.3)
    exact = codes_of(rows, landmarks, 3)
    found = codes_of(rows, landmarks, 3, cells=make_cells(landmarks, np.zeros(16), 3))
    assert (found[:, 0] == exact[:, 0]).mean() >= 0.9
    both = [len(set(a) & set(b)) for a, b in zip(found[:, :3], exact[:, :3])]
    assert np.mean(both) / 3 >= 0.85
    # and what is found is that far away, and in order
    for row, code in zip(rows[:200].astype(float), found[:200]):
        d2 = ((row - landmarks[code[:3].astype(int)]) ** 2).sum(axis=1)
        assert (np.diff(d2) >= -1e-3).all()


def test_search():
    """Two levels above 2,048 landmarks unless told otherwise; below they would look at all landmarks anyway."""
    X = clustered(6000, 6)

    def nearest(n_landmarks, search):
        map_ = SparseSpectral(n_landmarks=n_landmarks, landmarks="uniform", search=search, random_state=0)
        return map_.fit(X)._reader.map_.nearest

    exact, approximate, automatic = (nearest(2200, search) for search in ("exact", "approximate", "auto"))
    assert exact.cells is None
    assert approximate.cells is not None
    assert nearest(2000, "auto").cells is None
    assert_array_equal(approximate.encode(X), automatic.encode(X))
    found = exact.encode(X)
    D2 = ((X[:300, None].astype(float) - exact.landmarks[None].astype(float)) ** 2).sum(axis=2)
    nearest_d2 = np.take_along_axis(D2, found[:300, :1].astype(int), axis=1)[:, 0]
    assert_allclose(nearest_d2, D2.min(axis=1), atol=1e-4)
    assert (approximate.encode(X)[:, 0] == found[:, 0]).mean() >= 0.9
    few = [nearest(400, search).encode(X)[:, :3] for search in ("exact", "approximate")]
    assert (few[0] == few[1]).mean() > 0.999  # all 400 are candidates; rounding may swap equals


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_integer_sums_do_not_depend_on_how_rows_are_cut(data):
    """Any partition, in any order; dropped rows count for nothing."""
    n, m = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 12))
    p, bits = data.draw(st.integers(1, min(4, m))), data.draw(st.integers(2, 22))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    Z = twin.sparse_rows(rng.exponential(size=(n, m)), p, 2.0**-bits)
    order = np.argsort(-Z, axis=1, kind="stable")[:, :p]
    codes = np.concatenate([order, np.take_along_axis(Z, order, axis=1)], axis=1).astype(np.float32)
    codes[rng.random(n) < 0.2] = np.nan
    kept = Z[~np.isnan(codes[:, 0])] * 2**bits
    whole, sums = code_sums(codes, m, bits)
    assert_array_equal(whole.toarray(), (kept.T @ kept).astype(np.int64))
    assert_array_equal(sums, kept.sum(axis=0).astype(np.int64))
    cuts = np.sort(data.draw(st.lists(st.integers(0, n), max_size=4)))
    parts = [code_sums(part, m, bits) for part in np.split(codes[rng.permutation(n)], cuts)]
    assert_array_equal(sum(part[0] for part in parts).toarray(), whole.toarray())
    assert_array_equal(sum(part[1] for part in parts), sums)


@pytest.mark.parametrize("n", [1, 1000, 10**6, 10**9, 10**12])
def test_binary_places_leave_room_for_the_sums_of_all_rows(n):
    """The largest entry of Z^T Z in whole units is n times the square of one."""
    assert n * (2 ** code_bits(n)) ** 2 < 2**63


# --- strange tables -------------------------------------------------------------------------------------------------

DTYPES = ["float32", "float64", "uint8", "int16", "bool"]


@st.composite
def tables(draw):
    """One row, one column, few distinct rows, constant columns."""
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    rows = rng.integers(0, draw(st.sampled_from([1, 2, 4, 100])), (n, d))
    if dtype.kind == "f":
        rows = rows + draw(st.sampled_from([0.0, 0.37])) * rng.normal(size=(n, d))
    rows[:, : draw(st.integers(0, d))] = draw(st.integers(0, 3))
    return rows.astype(dtype)


@st.composite
def transformers(draw):
    m = {"n_landmarks": draw(st.sampled_from([1, 2, 7, 50]))}
    k = {"n_components": draw(st.sampled_from([1, 2, 9, 60]))}
    kernel = {"kernel": draw(st.sampled_from(["rbf", "laplacian"]))}
    any_kernel = {"kernel": draw(st.sampled_from(["rbf", "laplacian", "polynomial"]))}
    how = {"landmarks": draw(st.sampled_from(["uniform", "kmeans"]))}
    p = {"n_neighbors": draw(st.sampled_from([1, 3, 5])), "search": draw(st.sampled_from(["auto", "approximate"]))}
    return draw(
        st.sampled_from(
            [
                Nystroem(**m, **any_kernel, **how),
                APNC(**m, **k, **any_kernel, **how),
                RandomFourier(**k, **kernel),
                SVRandomFourier(**k, **kernel),
                TensorSketch(**k),
                NystromNcut(**m, **k, **kernel, **how),
                SparseSpectral(**m, **k, **how, **p),
            ]
        )
    ).set_params(random_state=draw(st.integers(0, 3)), progress=False)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(X=tables(), map_=transformers())
def test_small_and_strange_tables(X, map_):
    """Finite coordinates, the same for the same rows, of the length that the map promises."""
    Y = map_.fit(X).transform(X)
    assert Y.shape == (len(X), map_._n_features_out)
    assert Y.shape[1] >= 1
    assert np.isfinite(Y).all()
    assert_array_equal(map_.transform(X), Y)
    _, first, same = np.unique(X, axis=0, return_index=True, return_inverse=True)
    scale = np.abs(Y).max(initial=1e-30)
    assert_allclose(Y, Y[first][same.ravel()], rtol=0, atol=(1e-9 if Y.dtype == np.float64 else 1e-4) * scale)
    lengths = np.linalg.norm(Y, axis=1)
    if map_.name in ("rff", "spectral", "nyncut"):
        assert_allclose(lengths[lengths > 0], 1, atol=1e-5)
    if map_.name == "rff":
        assert (lengths > 0).all()


# --- centres on the move ------------------------------------------------------------------------------------------


def wide_rows():
    return np.random.default_rng(0).standard_normal((1200, 64)).astype(np.float32)


def flat_rows():
    return np.random.default_rng(0).random((1200, 2)).astype(np.float32)


@pytest.mark.parametrize(
    "rows, kernel",
    [
        (wide_rows, Rbf(1 / 128)),
        (wide_rows, Rbf(1 / 32)),
        (wide_rows, Polynomial(degree=3, gamma=1 / 64, coef0=1.0)),
        (flat_rows, Rbf(0.5)),  # few dimensions
        (flat_rows, Rbf(200.0)),  # all of them, and no gap between eigenvalues
    ],
)
def test_quick_centres_round_as_blocks_do(rows, kernel):
    X = rows()
    map_ = LandmarkMap(kernel, X[:400], np.dtype("f4"))
    map_.settle()
    Z, kappa = map_.measure(X[400:])
    means = np.stack([Z[k::10].mean(axis=0, dtype=np.float64) for k in range(10)])

    def distances(G, precision):
        norms = np.vecdot(G, means).astype(precision)
        return kappa.astype(precision)[:, None] - 2 * Z.astype(precision) @ G.T.astype(precision) + norms

    exact = distances(map_.dual(means), np.float64)
    rounding = np.abs(distances(map_.dual(means), np.float32) - exact).max()
    assert np.abs(distances(map_.quick_dual(means), np.float64) - exact).max() < rounding
    for other in (pickle.loads(pickle.dumps(map_)), map_.bare()):  # as a worker has it, and as a saved model
        assert_array_equal(other.quick_dual(means), map_.quick_dual(means))


def test_quick_centres_are_exact_in_double_precision_and_of_few_landmarks():
    X = wide_rows()
    for size, dtype in ((400, "f8"), (300, "f4")):
        map_ = LandmarkMap(Rbf(1 / 128), X[:size], np.dtype(dtype))
        means = map_.measure(X[500:510])[0]
        assert_array_equal(map_.quick_dual(means), map_.dual(means))


def test_what_a_flat_map_sends_to_workers_is_its_root():
    map_ = LandmarkMap(Rbf(0.5), flat_rows()[:400], np.dtype("f4"))
    map_.settle()
    assert map_.rank < 100
    assert len(pickle.dumps(map_)) < 400 * 400 * 8
    means = map_.measure(flat_rows()[400:410])[0]
    assert_array_equal(pickle.loads(pickle.dumps(map_)).dual(means), map_.dual(means))
