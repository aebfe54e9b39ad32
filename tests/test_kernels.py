"""Kernels against double loops straight from their formulas; widths, errors, memory, storage."""

from __future__ import annotations

import ast
import gc
import json
import math
import pickle
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import daskkcl.kernels as kernels
from daskkcl.errors import DegenerateKernelError, InvalidInputError
from daskkcl.kernels import (
    KERNEL_NAMES,
    CallableKernel,
    Chi2,
    Columns,
    Cosine,
    HistogramIntersection,
    Kernel,
    Laplacian,
    Linear,
    Mean,
    Polynomial,
    Product,
    Rbf,
    Sigmoid,
    Sum,
    as_kernel,
    check_degenerate,
    from_dict,
)

Array = np.ndarray
Pair = Callable[[Array, Array], float]


def affine(X: Array, Y: Array) -> Array:
    return 1 + X @ Y.T


# -- the slow, obvious versions ---------------------------------------------------------------------------


def naive_chi2(gamma: float) -> Pair:
    def k(x: Array, y: Array) -> float:
        return math.exp(-gamma * sum((a - b) ** 2 / (a + b) for a, b in zip(x, y) if a + b > 0))

    return k


def naive_cosine(x: Array, y: Array) -> float:
    norms = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    return float(x @ y) / norms if norms else 0.0


def naive_rbf(gamma: float) -> Pair:
    return lambda x, y: math.exp(-gamma * float(((x - y) ** 2).sum()))


# Every kernel, its formula for a pair of rows, and whether it is positive semi-definite. For d >= 3 columns.
CASES: dict[str, tuple[Kernel, Pair, bool]] = {
    "rbf": (Rbf(gamma=0.3), naive_rbf(0.3), True),
    "laplacian": (Laplacian(gamma=0.2), lambda x, y: math.exp(-0.2 * float(abs(x - y).sum())), True),
    "linear": (Linear(), lambda x, y: float(x @ y), True),
    "poly-1": (
        Polynomial(degree=1, gamma=0.5, coef0=0),
        lambda x, y: 0.5 * float(x @ y),
        True,
    ),
    "poly-2": (Polynomial(degree=2, gamma=0.1), lambda x, y: (0.1 * float(x @ y) + 1) ** 2, True),
    "poly-5": (Polynomial(degree=5, gamma=0.1), lambda x, y: (0.1 * float(x @ y) + 1) ** 5, True),
    "sigmoid": (
        Sigmoid(gamma=0.1, coef0=0.2),
        lambda x, y: math.tanh(0.1 * float(x @ y) + 0.2),
        False,
    ),
    "cosine": (Cosine(), naive_cosine, True),
    "chi2": (Chi2(gamma=0.4), naive_chi2(0.4), True),
    "intersection": (HistogramIntersection(), lambda x, y: float(np.minimum(x, y).sum()), True),
    "pyramid": (
        HistogramIntersection(levels=((0, 1, 0.25), (1, 3, 0.5), (2, 3, 2.0))),
        lambda x, y: float(np.minimum(x, y)[:3] @ [0.25, 0.5, 2.5]),
        True,
    ),
    "columns": (Columns(Rbf(gamma=0.3), 1, 3), lambda x, y: naive_rbf(0.3)(x[1:3], y[1:3]), True),
    "sum": (
        0.5 * Rbf(gamma=0.3) + Columns(Linear(), 0, 2),
        lambda x, y: 0.5 * naive_rbf(0.3)(x, y) + float(x[:2] @ y[:2]),
        True,
    ),
    "mean": (
        Mean((Cosine(), Chi2(gamma=0.4), Linear())),
        lambda x, y: (naive_cosine(x, y) + naive_chi2(0.4)(x, y) + float(x @ y)) / 3,
        True,
    ),
    "product": (
        Columns(Rbf(gamma=0.3), 0, 1) * Columns(Chi2(gamma=0.4), 1, 3) * Linear(),
        lambda x, y: naive_rbf(0.3)(x[:1], y[:1]) * naive_chi2(0.4)(x[1:3], y[1:3]) * float(x @ y),
        True,
    ),
    "callable": (CallableKernel(affine), lambda x, y: 1 + float(x @ y), True),
}
ALL = pytest.mark.parametrize("case", CASES)


def naive_matrix(k: Pair, X: Array, Y: Array) -> Array:
    X64, Y64 = X.astype(np.float64), Y.astype(np.float64)
    return np.array([[k(x, y) for y in Y64] for x in X64]).reshape(len(X), len(Y))


def naive_diagonal(k: Pair, X: Array) -> Array:
    return np.array([k(x, x) for x in X.astype(np.float64)])


def some_rows(rows: int, d: int = 5, seed: int = 0, dtype: str = "float64") -> Array:
    """Non-negative rows with zeros, a row of zeros, and a duplicate."""
    rng = np.random.default_rng(seed)
    X = np.maximum(rng.normal(1.0, 1.0, (rows, d)), 0)
    if rows > 3:
        X[1] = 0
        X[2] = X[0]
    return X.astype(dtype)


# -- values -----------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 1e-5)])
def test_equals_the_formula(case: str, dtype: str, tolerance: float) -> None:
    kernel, k, _ = CASES[case]
    X, Y = some_rows(40, dtype=dtype), some_rows(23, seed=1, dtype=dtype)
    K = kernel(X, Y)
    assert K.dtype == dtype
    expected = naive_matrix(k, X, Y)
    np.testing.assert_allclose(K, expected, rtol=tolerance, atol=tolerance)
    diagonal = kernel.diagonal(X)
    assert diagonal.dtype == dtype
    np.testing.assert_allclose(diagonal, naive_diagonal(k, X), rtol=tolerance, atol=tolerance)
    if kernel.unit_diagonal:
        np.testing.assert_array_equal(diagonal, 1)
    if kernel.bound is not None:
        assert np.abs(K).max() <= kernel.bound * (1 + tolerance)


@ALL
def test_symmetric_definite_and_with_its_own_diagonal(case: str) -> None:
    kernel, _, definite = CASES[case]
    X = some_rows(60)
    K = kernel(X, X)
    np.testing.assert_allclose(K, K.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.diagonal(K), kernel.diagonal(X), rtol=1e-12, atol=1e-12)
    if definite:
        assert np.linalg.eigvalsh(K).min() > -1e-10 * np.abs(K).max()


def test_sigmoid_is_indefinite() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert np.linalg.eigvalsh(Sigmoid(gamma=1.0, coef0=-1.0)(X, X)).min() < -0.1


ROW_DTYPES = ["bool", "uint8", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", ">f4", ">i2"]


@settings(max_examples=300, deadline=None)
@given(
    case=st.sampled_from(sorted(CASES)),
    rows=st.integers(0, 7),
    m=st.integers(1, 6),
    d=st.integers(3, 6),
    row_dtype=st.sampled_from(ROW_DTYPES),
    dtype=st.sampled_from(["float32", "float64"]),
    layout=st.sampled_from(["C", "F", "strided", "reversed"]),
    given_out=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_blocks_of_any_shape_dtype_and_layout(
    case: str,
    rows: int,
    m: int,
    d: int,
    row_dtype: str,
    dtype: str,
    layout: str,
    given_out: bool,
    seed: int,
) -> None:
    kernel, k, _ = CASES[case]
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (rows, d)).astype(row_dtype)
    Y = rng.integers(0, 4, (m, d)).astype(float)
    before = X.copy()
    if layout == "F":
        X = np.asfortranarray(X)
    elif layout == "strided":
        X = np.repeat(np.repeat(X, 2, axis=1), 2, axis=0)[::2, ::2]
    elif layout == "reversed":
        X = X[::-1, ::-1].copy()[::-1, ::-1]
    columns = kernel.columns(Y, dtype)
    out = np.full((rows, m), np.nan, dtype) if given_out else None
    Z, kappa = columns.block(X, out=out)
    assert out is None or Z is out
    assert (Z.dtype, kappa.dtype, Z.shape, kappa.shape) == (np.dtype(dtype), np.dtype(dtype), (rows, m), (rows,))
    tolerance = 1e-11 if dtype == "float64" else 2e-5
    np.testing.assert_allclose(Z, naive_matrix(k, X, Y), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(kappa, naive_diagonal(k, X), rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(X, before)


@ALL
def test_blocks_longer_than_a_tile(case: str) -> None:
    kernel, _, _ = CASES[case]
    X, Y = some_rows(1100), some_rows(9, seed=1)
    Z, kappa = kernel.columns(Y, "float64").block(X)
    parts = [kernel.columns(Y, "float64").block(part) for part in np.array_split(X, 7)]
    np.testing.assert_allclose(Z, np.concatenate([z for z, _ in parts]), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(kappa, np.concatenate([k for _, k in parts]), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "linear", "cosine", "chi2", "intersection", "product"])
def test_nan_stays_in_its_row(name: str) -> None:
    kernel, _, _ = CASES[name]
    X, Y = some_rows(20, dtype="float32"), some_rows(9, seed=1)
    columns = kernel.columns(Y, "float32")
    clean, _ = columns.block(X)
    X[7, 1] = np.nan
    Z, _ = columns.block(X)
    assert np.isnan(Z[7]).all()
    np.testing.assert_array_equal(np.delete(Z, 7, axis=0), np.delete(clean, 7, axis=0))


@pytest.mark.parametrize("kernel, tolerance", [(Rbf(gamma=0.1), 5e-6), (Laplacian(gamma=0.1), 5e-6)])
@pytest.mark.parametrize("row_dtype", ["float64", "int64", "float32"])
def test_far_from_the_origin(kernel: Kernel, tolerance: float, row_dtype: str) -> None:
    rng = np.random.default_rng(0)
    offset = 1e6 if row_dtype != "float32" else 1e4
    X, Y = (rng.normal(scale=2, size=(rows, 8)) + offset for rows in (200, 50))
    X, Y = X.astype(row_dtype), Y.astype(row_dtype)
    expected = kernel(X.astype(np.float64) - offset, Y.astype(np.float64) - offset)
    Z, _ = kernel.columns(Y, "float32").block(X)
    np.testing.assert_allclose(Z, expected, atol=tolerance)


@pytest.mark.parametrize("unit", [1e-25, 1e-9, 1e9, 1e18])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "cosine", "sigmoid", "polynomial"])
def test_unit_of_the_data_does_not_matter(name: str, unit: float) -> None:
    X = np.random.default_rng(0).normal(size=(50, 6))
    kernel = as_kernel(name)
    expected = kernel.resolve(X)(X, X)
    scaled = kernel.resolve(X * unit)
    Z, kappa = scaled.columns(X * unit, "float32").block((X * unit).astype("float32"))
    np.testing.assert_allclose(Z, expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(kappa, np.diagonal(expected), rtol=2e-5, atol=2e-5)


def test_rbf_stays_within_zero_and_one() -> None:
    X = np.random.default_rng(0).normal(size=(300, 40)).astype("float32")
    K = Rbf(gamma=50.0)(X, X)
    assert K.min() >= 0
    assert K.max() <= 1


def test_huge_gamma_on_identical_rows() -> None:
    X = np.ones((3, 2), "float32")
    for kernel in (Rbf(gamma=1e60), Laplacian(gamma=1e60), Chi2(gamma=1e60)):
        np.testing.assert_array_equal(kernel(X, X), 1)


def test_cosine_of_extreme_rows() -> None:
    X = np.array([[1e-30, 0], [1e30, 1e30], [0, 0], [0, -1e-42]], "float32")
    r = math.sqrt(0.5)
    expected = np.array([[1, r, 0, 0], [r, 1, 0, -r], [0, 0, 0, 0], [0, -r, 0, 1]])
    np.testing.assert_allclose(Cosine()(X, X), expected, atol=1e-6)
    np.testing.assert_array_equal(Cosine().diagonal(X), [1, 1, 0, 1])


@pytest.mark.parametrize("degree", range(1, 20))
def test_every_degree(degree: int) -> None:
    X, Y = np.array([[-1.1], [0.3], [2.0]]), np.array([[1.0]])
    K = Polynomial(degree=degree, coef0=0.5)(X, Y)
    np.testing.assert_allclose(K, (X + 0.5) ** degree, rtol=1e-13)


def test_dtype_follows_the_rows() -> None:
    Y = np.ones((2, 3))
    for given_dtype, expected in [
        ("float32", "float32"),
        ("float16", "float32"),
        ("float64", "float64"),
        ("longdouble", "float64"),
        ("int32", "float64"),
        ("uint8", "float64"),
        ("bool", "float64"),
    ]:
        X = np.ones((4, 3), given_dtype)
        assert Rbf(gamma=1.0)(X, Y).dtype == expected
        assert Linear().diagonal(X).dtype == expected


# -- made of others ---------------------------------------------------------------------------------------


def test_algebra_flattens_and_weighs() -> None:
    a, b, c = Rbf(gamma=1.0), Linear(), Cosine()
    assert a + b + c == Sum((a, b, c))
    assert a * b * c == Product((a, b, c))
    assert 0.5 * (a + 2 * b) == Sum((a, b), (0.5, 1.0))
    assert np.float64(0.5) * a == a * 0.5 == Sum((a,), (0.5,))
    for wrong in (-1, 0, math.nan, True):
        with pytest.raises(InvalidInputError, match="weight of a kernel"):
            wrong * a
    with pytest.raises(TypeError):
        a + 1
    with pytest.raises(InvalidInputError, match="2 kernels but 1 weights"):
        Sum((a, b), (1.0,))
    with pytest.raises(InvalidInputError, match="1 to 1024 parts"):
        Product(())
    with pytest.raises(InvalidInputError, match="sequence of kernels"):
        Mean(a)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="as_kernel takes names"):
        Mean(("rbf",))  # type: ignore[arg-type]


def test_what_is_known_of_combinations() -> None:
    a, b = Rbf(gamma=1.0), Laplacian(gamma=1.0)
    assert (a + b).bound == 2
    assert not (a + b).unit_diagonal
    assert (0.25 * a + 0.75 * b).unit_diagonal
    assert Mean((a, b)).unit_diagonal
    assert (a * b).unit_diagonal
    assert (a * Sigmoid(gamma=1.0)).bound == 1
    assert (a + Linear()).bound is None
    assert (a * Linear()).bound is None
    assert Columns(a, 0, 2).bound == 1
    assert (Linear() * Columns(a, 0, 1)).has_gamma
    assert not Cosine().has_gamma


def test_product_of_gaussians_on_slices_is_one_gaussian() -> None:
    X = np.random.default_rng(0).normal(size=(30, 5))
    parts = Columns(Rbf(gamma=0.7), 0, 2) * Columns(Rbf(gamma=0.7), 2, 5)
    np.testing.assert_allclose(parts(X, X), Rbf(gamma=0.7)(X, X), rtol=1e-12)


def test_combinations_resolve_on_their_own_columns() -> None:
    X = np.random.default_rng(0).normal(size=(100, 4)) * [1, 1, 50, 50]
    kernel = Columns(Rbf(), 0, 2) * Columns(Rbf(), 2, 4)
    assert not kernel.resolved
    resolved = kernel.resolve(X)
    assert resolved.resolved
    assert resolved == Columns(Rbf().resolve(X[:, :2]), 0, 2) * Columns(Rbf().resolve(X[:, 2:]), 2, 4)
    assert resolved.with_gamma("auto") == kernel


def test_slices_beyond_the_columns() -> None:
    X = np.ones((2, 3))
    for use in (lambda k: k(X, X), lambda k: k.diagonal(X), lambda k: k.columns(X, "float32")):
        with pytest.raises(InvalidInputError, match="columns 1 to 4, but rows have 3"):
            use(Linear() + Columns(Linear(), 1, 4))
        with pytest.raises(InvalidInputError, match="reach column 21, but rows have 3"):
            use(HistogramIntersection.pyramid(1))
    with pytest.raises(InvalidInputError, match="columns 1 to 4"):
        Columns(Rbf(), 1, 4).resolve(X)
    with pytest.raises(InvalidInputError, match="stop must be"):
        Columns(Linear(), 2, 2)


def test_pyramid_weights() -> None:
    assert HistogramIntersection.pyramid(2, 1).levels == ((0, 2, 1.0),)
    weights = [w for _, _, w in HistogramIntersection.pyramid(2, 4).levels or ()]
    assert weights == [0.125, 0.125, 0.25, 0.5]
    with pytest.raises(InvalidInputError, match="bins must be a whole number"):
        HistogramIntersection.pyramid(0)


# -- functions --------------------------------------------------------------------------------------------


class WithDiagonal:
    """A kernel function that knows its diagonal."""

    calls = 0

    def __call__(self, X: Array, Y: Array) -> Array:
        self.calls += 1
        return X @ Y.T

    def diagonal(self, X: Array) -> Array:
        return (X**2).sum(axis=1)


def test_callable_with_a_diagonal_is_called_once_a_tile() -> None:
    f, X = WithDiagonal(), some_rows(100)
    Z, kappa = as_kernel(f).columns(X, "float64").block(X)
    assert f.calls == 1
    np.testing.assert_allclose(kappa, np.diagonal(Z))


@pytest.mark.parametrize(
    "f, problem",
    [
        (lambda X, Y: X, r"shape \(4, 3\), not \(4, 2\)"),
        (lambda X, Y: np.full((len(X), len(Y)), np.nan), "NaN or infinity"),
        (lambda X, Y: np.full((len(X), len(Y)), 1j), "complex128, not real"),
        (lambda X, Y: None, r"shape \(\), not"),
    ],
)
def test_callable_results_are_checked(f: Any, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        CallableKernel(f)(np.ones((4, 3)), np.ones((2, 3)))


# -- widths -----------------------------------------------------------------------------------------------


def pairs(X: Array, distance: Callable[[Array, Array], float]) -> list[float]:
    X = X.astype(np.float64)
    return [distance(X[i], X[j]) for i in range(len(X)) for j in range(i)]


def chi2_distance(x: Array, y: Array) -> float:
    return -math.log(naive_chi2(1.0)(x, y))


@pytest.mark.parametrize("dtype", ["float64", "float32", "uint8"])
def test_width_rules(dtype: str) -> None:
    X = (some_rows(60) * 10).astype(dtype)
    squared = pairs(X, lambda x, y: float(((x - y) ** 2).sum()))
    manhattan = pairs(X, lambda x, y: float(abs(x - y).sum()))
    chi2 = pairs(X, chi2_distance)
    norms = (X.astype(np.float64) ** 2).sum(axis=1)
    var, d = X.astype(np.float64).var(), X.shape[1]
    expected: dict[Kernel, Any] = {
        Rbf("auto"): 2 * np.mean(squared),
        Rbf("scale"): d * var,
        Rbf("median"): 2 * np.median(squared),
        Laplacian("auto"): np.mean(manhattan),
        Laplacian("scale"): d * math.sqrt(var),
        Laplacian("median"): np.median(manhattan),
        Chi2("auto"): np.mean(chi2),
        Chi2("scale"): d * math.sqrt(var),
        Chi2("median"): np.median(chi2),
        Polynomial(gamma="auto"): norms.mean(),
        Polynomial(gamma="scale"): d * var,
        Polynomial(gamma="median"): np.median(norms),
        Sigmoid("auto"): norms.mean(),
    }
    for kernel, spread in expected.items():
        assert not kernel.resolved
        resolved = kernel.resolve(X)
        assert resolved.resolved
        assert resolved.gamma == pytest.approx(1 / spread, rel=1e-9), kernel  # type: ignore[attr-defined]
        assert resolved.resolve(X * 0) is resolved


def test_width_is_scikit_learns_scale() -> None:
    svm = pytest.importorskip("sklearn.svm")
    X = some_rows(40)
    model = svm.SVC(gamma="scale").fit(X, np.arange(40) % 2)
    assert Rbf("scale").resolve(X).gamma == pytest.approx(model._gamma)


def test_width_far_from_the_origin() -> None:
    X = np.random.default_rng(0).normal(size=(300, 4))
    for rule in ("auto", "scale", "median"):
        near, far = (Rbf(rule).resolve(rows).gamma for rows in (X, X + 1e6))
        assert far == pytest.approx(near, rel=1e-6)


@pytest.mark.parametrize("rule", ["auto", "scale", "median"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_width_of_constant_data_is_one(rule: str, value: float) -> None:
    X = np.full((7, 3), value)
    for kernel in (Rbf(rule), Laplacian(rule), Chi2(rule)):
        assert kernel.resolve(X).gamma == 1.0
        assert kernel.resolve(X[:1]).gamma == 1.0
    assert Polynomial(gamma=rule).resolve(X * 0).gamma == 1.0


def test_median_of_mostly_duplicates_falls_back_on_the_mean() -> None:
    X = np.zeros((100, 2))
    X[:5] = np.arange(10).reshape(5, 2)
    median, auto = Rbf("median").resolve(X), Rbf("auto").resolve(X)
    assert median.gamma == pytest.approx(auto.gamma)


def test_median_of_many_rows_takes_some() -> None:
    X = np.random.default_rng(0).normal(size=(5000, 3))
    some, many = Rbf("median").resolve(X[:1000]), Rbf("median").resolve(X)
    assert many.gamma == pytest.approx(some.gamma, rel=0.1)


def test_samples_that_give_no_width() -> None:
    with pytest.raises(InvalidInputError, match="empty sample"):
        Rbf().resolve(np.ones((0, 3)))
    with pytest.raises(InvalidInputError, match="NaN or infinity"):
        Rbf().resolve([[1.0], [math.nan]])
    with pytest.raises(InvalidInputError, match="negative values"):
        Chi2().resolve([[1.0], [-1.0]])
    with pytest.raises(InvalidInputError, match="scale the data"), np.errstate(over="ignore"):
        Rbf().resolve([[1e200], [-1e200]])


# -- names and errors -------------------------------------------------------------------------------------


def test_as_kernel() -> None:
    assert as_kernel("rbf") == as_kernel("gaussian") == Rbf("auto")
    assert as_kernel("neural", gamma=0.0045, coef0=0.11) == Sigmoid(0.0045, 0.11)
    assert as_kernel("poly", degree=5) == Polynomial(5, "auto")
    assert as_kernel("poly", gamma=None, degree=None) == Polynomial() == Polynomial(3, 1.0, 1.0)
    assert as_kernel("linear") == as_kernel("linear", degree=None) == Linear()
    assert as_kernel("histogram_intersection", levels=[(0, 2, 1)]).levels == ((0, 2, 1.0),)  # type: ignore[attr-defined]
    kernel = Rbf(gamma=1.0)
    assert as_kernel(kernel) is kernel
    assert as_kernel(affine) == CallableKernel(affine)
    assert as_kernel("rbf", gamma=np.float32(0.5)) == Rbf(0.5)
    assert type(as_kernel("rbf", gamma=np.float32(0.5)).gamma) is float  # type: ignore[attr-defined]
    for name in KERNEL_NAMES:
        assert isinstance(as_kernel(name), Kernel)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: as_kernel("rfb"), "no kernel 'rfb'. Did you mean 'rbf'"),
        (lambda: as_kernel("RBF"), "Did you mean 'rbf'"),
        (lambda: as_kernel("zzzzzz"), "There are: rbf, laplacian"),
        (lambda: as_kernel(3), "kernel must be a name, a Kernel"),  # type: ignore[arg-type]
        (lambda: as_kernel("rbf", degree=3), "'rbf' kernel has no parameter 'degree'; it has gamma"),
        (lambda: as_kernel("poly", degre=3), "it has degree, gamma, coef0. Did you mean 'degree'"),
        (lambda: as_kernel("linear", gamma=0.5), "no parameter 'gamma'; it has no parameters"),
        (lambda: as_kernel(Rbf(), gamma=0.5), "kernel object carries its own parameters"),
        (lambda: as_kernel(affine, degree=2), "function carries its own parameters"),
        (lambda: as_kernel("rbf", gamma="sale"), "not 'sale'. Did you mean 'scale'"),
        (lambda: as_kernel("rbf", gamma=0), "positive number or one of 'auto', 'scale', 'median', not 0"),
        (lambda: Rbf(math.inf), "gamma must be a positive number"),
        (lambda: Rbf(10**400), "gamma must be a positive number"),
        (lambda: Rbf(True), "gamma must be a positive number"),
        (lambda: Rbf(np.ones(2)), "gamma must be a positive number"),  # type: ignore[arg-type]
        (lambda: Polynomial(degree=2.5), "degree must be a whole number"),  # type: ignore[arg-type]
        (lambda: Polynomial(degree=0), "degree must be a whole number"),
        (lambda: Polynomial(coef0=-1), "must not be negative"),
        (lambda: Sigmoid(coef0=math.nan), "coef0 must be a finite number"),
        (lambda: CallableKernel(3), "expected a function"),  # type: ignore[arg-type]
        (lambda: HistogramIntersection(levels=[(1, 1, 1)]), "stop of a level"),  # type: ignore[arg-type]
        (lambda: HistogramIntersection(levels=[(0, 1)]), "must be a triple"),  # type: ignore[arg-type]
        (lambda: HistogramIntersection(levels=()), "1 to 1024 levels"),
        (lambda: HistogramIntersection(levels=3), "must be triples"),  # type: ignore[arg-type]
    ],
)
def test_parameter_errors_name_the_remedy(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: Rbf()(np.ones((2, 2)), np.ones((2, 2))), r"still a rule; kernel.resolve\(sample\)"),
        (lambda: Rbf().diagonal(np.ones((2, 2))), "still a rule"),
        (lambda: (Linear() + Rbf()).columns(np.ones((2, 2)), "float32"), "still a rule"),
        (lambda: Rbf().gamma_value, r"not a number yet; call resolve\(sample\)"),
        (lambda: Linear()(np.ones(3), np.ones((2, 3))), r"reshape\(-1, 1\)"),
        (lambda: Linear()(np.ones((2, 2), complex), np.ones((2, 2))), "real numbers, but has dtype complex"),
        (lambda: Linear()([["a"]], [["b"]]), "real numbers"),
        (lambda: Linear()(np.ones((2, 2)), np.ones((2, 3))), "rows have 2 columns, the landmarks 3"),
        (lambda: Linear().columns(np.ones((0, 3)), "float32"), "a row and a column at least"),
        (lambda: Linear().columns(np.full((1, 1), np.nan), "float32"), "landmarks contain NaN"),
        (lambda: Linear().columns(np.ones((1, 1)), "int32"), "float32 or float64, not int32"),
        (lambda: Chi2(1.0)(-np.ones((2, 2)), np.ones((2, 2))), "'chi2' kernel is for histograms"),
        (lambda: Chi2(1.0)(np.ones((2, 2)), -np.ones((2, 2), int)), "negative values"),
        (lambda: HistogramIntersection()(-np.ones((2, 2)), np.ones((2, 2))), "negative values"),
        (
            lambda: Polynomial(5).columns(np.full((2, 784), 3e3), "float32"),
            "too much for float32; scale the data, or pass gamma='auto'",
        ),
        (lambda: Rbf(1e9).columns([[0.0], [1e20]], "float32"), "overflows float32; gamma='auto'"),
    ],
)
def test_data_errors_name_the_remedy(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_out_is_checked() -> None:
    columns = Linear().columns(np.ones((3, 2)), "float32")
    for out in (np.empty((4, 3)), np.empty((3, 4), "f4").T, np.empty((5, 3), "f4")):
        with pytest.raises(InvalidInputError, match="C-contiguous float32 of shape"):
            columns.block(np.ones((4, 2)), out=out)


# -- degenerate kernels -----------------------------------------------------------------------------------


def digits_like() -> Array:
    return np.random.default_rng(0).integers(0, 256, (150, 60)).astype("uint8")


@pytest.mark.parametrize(
    "kernel, message",
    [
        (Rbf(gamma=1.0), "zero between rows that differ.*gamma=1 is far off, try gamma='auto', which is .*e-07"),
        (Rbf(gamma=1e-15), "the same for nearly all rows.*gamma=1e-15 is far off, try gamma='auto'"),
        (Laplacian(gamma=10.0), "zero between rows"),
        (Chi2(gamma=1e-12), "the same for nearly all rows"),
        (Sigmoid(gamma=1.0), "the same for nearly all rows"),
        (Polynomial(gamma=1e-15), "the same for nearly all rows"),
        (Mean((Rbf(gamma=1.0), Laplacian(gamma=10.0))), "try gamma='auto' in its parts, which is Mean"),
    ],
)
def test_degenerate_kernels_are_named(kernel: Kernel, message: str) -> None:
    X = digits_like()
    with pytest.raises(DegenerateKernelError, match=message):
        check_degenerate(kernel(X[:40], X[:40]), kernel, X)


def test_degenerate_despite_duplicate_landmarks() -> None:
    X = digits_like()
    landmarks = np.concatenate([X[:20], X[:5]])
    kernel = Rbf(gamma=1.0)
    with pytest.raises(DegenerateKernelError, match="zero between rows"):
        check_degenerate(kernel(landmarks, landmarks), kernel, X)


def test_degenerate_overflow_and_direction() -> None:
    X = digits_like()
    kernel = Polynomial(degree=60)
    with pytest.raises(DegenerateKernelError, match=r"NaN or infinity between landmarks.*gamma='auto'"):
        check_degenerate(np.full((2, 2), np.inf), kernel, X)
    line = np.arange(1.0, 9.0)[:, None]
    with pytest.raises(DegenerateKernelError, match="use another kernel, such as 'rbf'"):
        check_degenerate(Cosine()(line, line), Cosine(), line)


def test_degenerate_by_the_auto_rule_suggests_the_median() -> None:
    X = np.concatenate([np.random.default_rng(0).normal(size=(400, 2)), [[1e7, 0]]])
    kernel = Rbf().resolve(X)
    landmarks = X[:30]
    with pytest.raises(DegenerateKernelError, match="try gamma='median'"):
        check_degenerate(kernel(landmarks, landmarks), kernel, X)


def test_what_is_not_degenerate() -> None:
    X = digits_like()
    for name in KERNEL_NAMES:
        kernel = as_kernel(name).resolve(X)
        check_degenerate(kernel(X[:40], X[:40]), kernel, X)
    constant = np.ones((10, 3))
    for kernel in (Rbf(gamma=1.0), Linear(), Cosine(), Chi2(gamma=1.0)):
        check_degenerate(kernel(constant, constant), kernel, constant)
    narrow = Rbf(gamma=1.0)
    check_degenerate(narrow(X[:1], X[:1]), narrow, X)  # a single landmark
    good = Rbf().resolve(X)
    same = X[[3, 3, 3]]
    check_degenerate(good(same, same), good, X)  # duplicates among landmarks alone
    one_hot = np.eye(6)
    check_degenerate(Linear()(one_hot, one_hot), Linear(), one_hot)
    tight = np.repeat([[0.0], [1e6]], 20, axis=0) + np.random.default_rng(0).normal(size=(40, 1)) * 1e-3
    check_degenerate(narrow(tight, tight), narrow, tight)  # two tight clusters far apart


# -- storage ----------------------------------------------------------------------------------------------

STORABLE = [case[0] for name, case in CASES.items() if name != "callable"] + [
    Rbf(),
    Polynomial(gamma="scale"),
    HistogramIntersection.pyramid(3),
    0.5 * (Rbf() * Columns(Linear(), 0, 2)) + Mean((Cosine(), Sigmoid())),
]


@pytest.mark.parametrize("kernel", STORABLE, ids=repr)
def test_round_trips(kernel: Kernel) -> None:
    assert from_dict(json.loads(json.dumps(kernel.to_dict()))) == kernel
    assert Kernel.from_dict(kernel.to_dict()) == kernel
    copy = pickle.loads(pickle.dumps(kernel))
    assert copy == kernel
    assert hash(copy) == hash(kernel)
    assert kernel != Rbf(gamma=123.0)


@ALL
def test_columns_pickle_and_count_their_bytes(case: str) -> None:
    kernel, _, _ = CASES[case]
    X, Y = some_rows(10), some_rows(200, d=8)
    X = np.pad(X, ((0, 0), (0, 3)))
    columns = kernel.columns(Y, "float32")
    assert (columns.kernel, columns.n_landmarks, columns.n_features) == (kernel, 200, 8)
    data = pickle.dumps(columns)
    assert columns.nbytes <= len(data) <= columns.nbytes + 3000
    for a, b in zip(columns.block(X), pickle.loads(data).block(X)):
        np.testing.assert_array_equal(a, b)
    assert "200 landmarks" in repr(columns)


def nested(depth: int) -> dict[str, Any]:
    d: dict[str, Any] = {"name": "linear"}
    for _ in range(depth):
        d = {"name": "columns", "kernel": d, "start": 0, "stop": 1}
    return d


@pytest.mark.parametrize(
    "d, message",
    [
        (None, "dictionary with a 'name'"),
        ({}, "dictionary with a 'name'"),
        ({"name": ["rbf"]}, "dictionary with a 'name'"),
        ({"name": "rfb"}, "not known. Did you mean 'rbf'"),
        ({"name": "x" * 10**6}, "not known"),
        ({"name": "__import__"}, "not known"),
        ({"name": "rbf", "gamma": 1.0, "degree": 3}, "no parameter 'degree'"),
        ({"name": "rbf", 3: 1}, "no parameter 3"),
        ({"name": "rbf", "gamma": -1.0}, "positive number"),
        ({"name": "rbf", "gamma": math.nan}, "positive number"),
        ({"name": "rbf", "gamma": {"name": "rbf"}}, "positive number"),
        ({"name": "rbf", "gamma": "x" * 10**6}, "positive number"),
        ({"name": "polynomial", "degree": 10**9}, "degree must be a whole number"),
        ({"name": "columns", "kernel": {"name": "linear"}}, "needs start, stop"),
        ({"name": "columns", "kernel": "rbf", "start": 0, "stop": 1}, "dictionary with a 'name'"),
        ({"name": "sum", "parts": [], "weights": []}, "1 to 1024 parts"),
        ({"name": "sum", "parts": "ab"}, "list of 1024"),
        ({"name": "sum", "parts": [{"name": "linear"}], "weights": "1"}, "sequence of numbers"),
        ({"name": "product", "parts": [{"name": "linear"}] * 2000}, "list of 1024"),
        ({"name": "histogram_intersection", "levels": [[0, 1, "a"]]}, "weight of a level"),
        (nested(50), "nested more than"),
        (CallableKernel(affine).to_dict(), "affine', which is not stored; pass the kernel again"),
        ((Linear() + CallableKernel(affine)).to_dict(), "pass the kernel again"),
    ],
)
def test_odd_dictionaries_are_refused(d: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        from_dict(d)
    assert len(str(caught.value)) < 500


def test_callable_dict_is_json() -> None:
    for f in (affine, WithDiagonal(), np.add, lambda X, Y: X @ Y.T):
        assert json.loads(json.dumps(CallableKernel(f).to_dict()))["name"] == "callable"


# -- memory and layers ------------------------------------------------------------------------------------


@pytest.mark.part(8)
@ALL
@pytest.mark.parametrize("row_dtype", ["float32", "uint8", "float64"])
@pytest.mark.parametrize("rows, d, m", [(700, 300, 30), (1100, 6, 500)])
def test_scratch_is_an_upper_bound(case: str, row_dtype: str, rows: int, d: int, m: int) -> None:
    kernel, _, _ = CASES[case]
    X = (some_rows(rows, d) * 2).astype(row_dtype)
    X[5:300] = 0
    columns = kernel.columns(some_rows(m, d, seed=1), "float32")
    out = np.empty((rows, m), "float32")
    columns.block(X[:4])  # compiles
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        columns.block(X, out=out)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak <= kernel.scratch_bytes(rows, d, m, 4)


def test_scratch_does_not_grow_with_the_block() -> None:
    for kernel, _, _ in CASES.values():
        small, large = (kernel.scratch_bytes(rows, 50, 100, 4) for rows in (10_000, 10_010))
        assert large - small == 10 * 4  # kappa alone


def imports_of(path: Path) -> tuple[set[str], set[str]]:
    """Modules imported at the top level, and anywhere."""
    tree = ast.parse(path.read_text(encoding="utf-8"))

    def names(nodes: Any) -> set[str]:
        found: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
        return found

    return names(tree.body), names(ast.walk(tree))


def test_far_rows_of_a_gaussian_kernel():
    """Powers that no float32 holds are 0, the least that one holds are there, in a tile of both."""
    kernel = Rbf(gamma=1.0)
    x = np.array([[0.0], [5.0], [9.0], [9.4], [9.6], [30.0], [1e4]], dtype=np.float32)
    found = kernel.columns(np.zeros((1, 1)), np.dtype(np.float32)).block(x)[0][:, 0]
    exact = np.exp(-(x[:, 0].astype(np.float64) ** 2))
    tiny = np.finfo(np.float32).tiny
    np.testing.assert_allclose(found[exact > tiny], exact[exact > tiny], rtol=2e-5)
    np.testing.assert_allclose(found[exact <= tiny], 0, atol=tiny)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 30)), min_size=1, max_size=4),
    st.sampled_from(["float32", "float64", "uint8"]),
    st.sampled_from([1e-3, 0.05, 1e-14, 1e13]),
    st.booleans(),
)
def test_columns_in_which_landmarks_agree(lengths, row_dtype: str, gamma: float, compiled: bool) -> None:
    """They are left out of products, not of distances: rows differ there from the landmarks, and from one another."""
    vary = np.concatenate([np.arange(a + b) < a for a, b in lengths])
    unit = 1 if row_dtype == "uint8" else math.sqrt(0.01 / gamma)
    rng = np.random.default_rng(0)
    X = (unit * rng.integers(0, 9, (50, len(vary)))).astype(np.float32).astype(row_dtype)
    Y = np.where(vary, X[rng.integers(0, 50, (400, len(vary))), np.arange(len(vary))], X[0])
    columns = Rbf(gamma).columns(Y, np.float32)
    columns = columns.compiled() if compiled else columns
    squares = naive_matrix(lambda x, y: float(((x - y) ** 2).sum()), X.astype(np.float64), Y.astype(np.float64))
    np.testing.assert_allclose(columns.block(X)[0], np.exp(-gamma * squares), atol=2e-5)
    pays = 400 * (~vary).sum() >= 100 * (vary.sum() + 2) and 8 * (~vary).sum() >= len(vary) + 2
    multiplied = columns.strips.shape[1] if hasattr(columns, "strips") else len(columns.right)
    assert multiplied - 2 == (vary.sum() if pays else len(vary))


def test_importing_kernels_takes_numpy_alone() -> None:
    folder = Path(kernels.__file__).parent
    for path in folder.glob("*.py"):
        top, anywhere = imports_of(path)
        for name in anywhere:
            root = name.split(".")[0]
            ours = name.startswith(("daskkcl.errors.", "daskkcl.kernels", "daskkcl.system."))
            numba = root in ("numba", "llvmlite") and path.name in ("loops.py", "strips.py")
            scipy = root == "scipy" and path.name == "rows.py"  # only when there are sparse rows
            assert ours or numba or scipy or root == "numpy" or root in sys.stdlib_module_names, (path.name, name)
        assert not {"daskkcl.kernels.loops", "daskkcl.kernels.strips"} & set(top), path.name
        assert not any(name.startswith("scipy") for name in top), path.name
