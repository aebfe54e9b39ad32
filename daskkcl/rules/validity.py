"""How good a fuzzy partition is: the classical indices, from sums over the rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres, Map
from .kernel_fuzzy import kernel_matrix

__all__ = ["between_centres", "centre_products", "mean_norm", "validity_indices"]

Floats = NDArray[Any]

_BAND_ROWS = 512
_MAX_INVERSE = 2000  # measurements
_CG_STEPS, _CG_TOLERANCE = 300, 1e-10


def centre_products(centres: Centres, map_: Map) -> Floats:
    """Return the inner products of the centres in feature space (c, c)."""
    G = centres.coefficients
    if centres.means is not None:
        products = G @ centres.means.T
        return (products + products.T) / 2
    landmarks = getattr(map_, "landmarks", None)
    if landmarks is None:  # explicit features
        return G @ G.T
    rows, products = landmarks.astype(np.float64), np.zeros((len(G), len(G)))
    for a in range(0, len(rows), _BAND_ROWS):
        products += G[:, a : a + _BAND_ROWS] @ (map_.kernel(rows[a : a + _BAND_ROWS], rows) @ G.T)
    return (products + products.T) / 2


def mean_norm(mean: Floats, map_: Map) -> float:
    """Return the squared length of the mean of some rows, in the span of the map's measurements, from their mean."""
    landmarks = getattr(map_, "landmarks", None)
    if landmarks is None or len(landmarks) <= _MAX_INVERSE:
        return float(map_.dual(mean[None])[0] @ mean)
    # Combinations of very many rows (KFCM): the inverse would take n^3, conjugate gradients take some products.
    K = kernel_matrix(map_.kernel, landmarks)
    solution, residual = np.zeros_like(mean), mean.copy()
    direction, square = residual, float(residual @ residual)
    least = _CG_TOLERANCE**2 * square
    for _ in range(_CG_STEPS):
        image = K @ direction
        curvature = float(direction @ image)
        if square <= least or curvature <= 0:
            break
        solution = solution + square / curvature * direction
        residual = residual - square / curvature * image
        before, square = square, float(residual @ residual)
        direction = residual + square / before * direction
    return float(2 * solution @ mean - solution @ K @ solution)  # the least value of |v - mean|^2, up to a constant


def between_centres(products: Floats) -> Floats:
    """Return the squared distances between centres from their inner products."""
    norms = np.diag(products)
    D = np.maximum(norms[:, None] + norms - 2 * products, 0)
    np.fill_diagonal(D, 0)
    return D


def validity_indices(
    total: float, squares: float, entropy: float, objective: float, masses: Floats, between: Floats, from_mean: Floats
) -> dict[str, float]:
    """Return the indices of a fuzzy partition.

    Parameters
    ----------
    total, squares, entropy, objective : float
        Sums over rows and clusters: ``w``, ``w u^2``, ``-w u ln u``, ``w u^m d``.
    masses : ndarray of shape (c,)
        ``sum w u^m`` of each cluster.
    between : ndarray of shape (c, c)
        Squared distances between centres.
    from_mean : ndarray of shape (c,)
        Squared distances of the centres from the mean of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> far = np.array([[0.0, 4.0], [4.0, 0.0]])
    >>> found = validity_indices(10.0, 10.0, 0.0, 5.0, np.array([5.0, 5.0]), far, np.ones(2))
    >>> found["partition_coefficient"], found["xie_beni"], found["fukuyama_sugeno"]
    (1.0, 0.125, -5.0)
    """
    c = len(masses)
    coefficient, mean_entropy = squares / total, entropy / total
    separation = float(between[np.triu_indices(c, 1)].min(initial=math.inf))
    several = c > 1
    return {
        # Bezdek's coefficient and entropy; normalised they are 1 and 0 for crisp memberships, 0 and 1 for equal ones
        "partition_coefficient": coefficient,
        "partition_coefficient_normalised": 1 - c / (c - 1) * (1 - coefficient) if several else math.nan,
        "partition_entropy": mean_entropy,
        "partition_entropy_normalised": mean_entropy / math.log(c) if several else math.nan,
        "xie_beni": (objective / (total * separation) if separation > 0 else math.inf) if several else math.nan,
        "fukuyama_sugeno": objective - float(masses @ from_mean),
        "objective": objective,
    }
