"""Rows, weights, kernels and comparisons that the tests of the fuzzy family share."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from reference import fuzzy
from reference.algebra import coordinates, polynomial, rbf

from daskkcl.random import Key

C, D, SEED = 4, 3, 11


def remembered(kernel):
    """The same matrices are asked for again and again, and the twins make them element by element."""
    known = {}

    def remember(X, Y):
        key = (X.shape, Y.shape, X.tobytes(), Y.tobytes())
        if key not in known:
            known[key] = kernel(X, Y)
        return known[key].copy()

    return remember


KERNELS = {
    "rbf": ({"kernel": "rbf", "gamma": 0.2}, remembered(lambda X, Y: rbf(X, Y, 0.2))),
    "polynomial": (
        {"kernel": "polynomial", "gamma": 0.3, "kernel_params": {"degree": 3, "coef0": 0.5}},
        remembered(lambda X, Y: polynomial(X, Y, 3, 0.3, 0.5)),
    ),
    "linear": ({"kernel": "linear"}, remembered(lambda X, Y: polynomial(X, Y, 1, 1.0, 0.0))),
}
COMMON = {"n_clusters": C, "dtype": "float64", "random_state": SEED, "progress": False}
WEIGHTS = ["none", "ones", "real", "some zero"]
RCOND64 = 1e-10  # of the landmark map in float64


def make_rows(n, seed=5):
    """Overlapping blobs of unequal size, rows in random order."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=1.3, size=(C, D))
    return centres[rng.choice(C, n, p=[0.4, 0.3, 0.2, 0.1])] + rng.normal(scale=0.8, size=(n, D))


def make_weights(kind, n, positive=()):
    """Weights of a kind; the rows in `positive` get some whatever the kind."""
    rng = np.random.default_rng(1)
    w = {
        "none": np.ones(n),
        "ones": np.ones(n),
        "real": rng.uniform(0.1, 5.0, n),
        "some zero": rng.integers(0, 4, n).astype(float),
    }[kind]
    w[list(positive)] = np.maximum(w[list(positive)], 1)
    return w


def weight_argument(kind, w):
    """What to pass as sample_weight: nothing, where the weights are the default."""
    return {} if kind == "none" else {"sample_weight": w}


def diagonal(kernel, X):
    return np.array([kernel(x[None], x[None])[0, 0] for x in X])


def landmark_coordinates(X, landmarks, kernel):
    """Coordinates of all rows' projections on the landmarks' span and the squared lengths left over."""
    return coordinates(kernel(X, landmarks), kernel(landmarks, landmarks), diagonal(kernel, X), RCOND64)


def chunks_of(n, rows, order=None):
    """Row numbers of the chunks, of rows as they come or in a given order."""
    order = np.arange(n) if order is None else order
    return [order[first : first + rows] for first in range(0, n, rows)]


def random_order(n, seed=SEED):
    """The run's random order of rows, whose beginning is its sample."""
    return Key(seed).child("order", 0).rows(n, 0, n)


def sample_of(n, rows, w, seed=SEED):
    """The beginning of the random order, without rows of weight zero."""
    order = random_order(n, seed)
    return order[w[order] > 0][:rows]


def canonical_order(labels, c, w):
    """Clusters as the package numbers them: the heaviest first, ties by first row, empty ones last."""
    own = [(labels == k) & (w > 0) for k in range(c)]
    first = [int(np.flatnonzero(rows)[0]) if rows.any() else len(labels) for rows in own]
    return np.array(sorted(range(c), key=lambda k: (-float(w[own[k]].sum()), first[k])))


def never_increases(values):
    """No step up beyond rounding."""
    return len(values) > 0 and bool(np.all(np.diff(values) <= 1e-12 * abs(values[0])))


def assert_memberships(model, X, U, w=None):
    """The model's memberships are U, its clusters numbered as all are; return that numbering."""
    labels = U.argmax(axis=1)
    order = canonical_order(labels, U.shape[1], np.ones(len(X)) if w is None else w)
    assert_allclose(model.membership_, U[:, order], atol=1e-6)
    assert_array_equal(model.labels_, np.argsort(order)[labels])
    assert_array_equal(model.predict_proba(X), model.membership_)
    assert_allclose(model.membership_.sum(axis=1), 1)
    return order


def assert_prototypes(model, X, rows):
    """The model's prototypes are these rows, by number and by value."""
    assert_array_equal(model.prototypes_, rows)
    assert_array_equal(model.prototype_rows_, X[rows])


def literal_start(X, start, kernel):
    """Kernel matrix, diagonal and numbers of rows with the starting rows behind them, as objects of weight zero."""
    joined = np.concatenate([X, start])
    return kernel(joined, joined), np.arange(len(X), len(joined))


def extend_to(X, start, kernel, result, how, m):
    """Memberships of the rows of X from what a literal algorithm ended with; `start` joined them."""
    joined = np.concatenate([X, start])
    objects = joined[result.rows]
    return fuzzy.extend(
        kernel(X, objects), kernel(objects, objects), diagonal(kernel, X), result.A, result.final, how, m
    )
