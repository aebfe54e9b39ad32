"""Crisp rules: the nearest centre, and the nearest centre weighted by how often it has won."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres, Map, squared_distances

__all__ = ["Euclidean", "FrequencySensitive", "Nearest", "NearestL1", "cluster_sums"]

Floats = NDArray[Any]

_FEW_ROWS, _FEW_CLUSTERS = 128, 32  # whose sums are a dense product


class Euclidean:
    """Rules that go by squared distances in feature space."""

    def distances(self, Z: Floats, kappa: Floats, centres: Centres) -> Floats:
        """Return what the rule compares: squared distances of rows to centres."""
        return squared_distances(Z, kappa, centres)

    def lengths(self, D: Floats) -> Floats:
        """Return what was compared as distances."""
        return np.sqrt(D)

    def shift(self, step: Floats, map_: Map) -> float:
        """Return how far centres moved, in the unit of `distances`."""
        return float(np.einsum("cm,cm->", map_.dual(step), step))


@dataclass(frozen=True)
class Nearest(Euclidean):
    """Every row belongs to its nearest centre, ties to the lowest number.

    Examples
    --------
    >>> import numpy as np
    >>> Nearest().labels(np.array([[1.0, 0.5], [0.2, 0.2]]))
    array([1, 0])
    """

    name = "nearest"

    def labels(self, D: Floats) -> NDArray[np.intp]:
        """Return the winner of each row of squared distances."""
        return D.argmin(axis=1)


@dataclass(frozen=True)
class NearestL1:
    """Every row belongs to the centre of least l1 distance in explicit coordinates.

    Centres are means still: in the embeddings that this is for (APNC), l1 distance stands for distance in feature
    space, where the centre of a cluster is its mean.

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.maps.explicit import IdentityMap
    >>> centres = Centres.from_means(np.array([[0.0, 0.0], [3.0, 3.0]]), IdentityMap(np.zeros(2), np.dtype("float64")))
    >>> NearestL1().distances(np.array([[1.0, 0.0]]), np.ones(1), centres)
    array([[1., 5.]])
    """

    name = "nearest-l1"

    def distances(self, Z: Floats, kappa: Floats, centres: Centres) -> Floats:
        """Return the l1 distances of rows to centres."""
        from ..kernels.loops import manhattan

        D = np.empty((len(Z), centres.n_clusters), dtype=Z.dtype)
        manhattan(Z, centres.coefficients.astype(Z.dtype), D)
        return D

    def lengths(self, D: Floats) -> Floats:
        """Return what was compared as distances."""
        return D

    def shift(self, step: Floats, map_: Map) -> float:
        """Return how far centres moved, in the unit of `distances`."""
        return float(np.abs(step).sum())

    def labels(self, D: Floats) -> NDArray[np.intp]:
        """Return the winner of each row of distances."""
        return D.argmin(axis=1)


@dataclass(frozen=True)
class FrequencySensitive(Euclidean):
    """Squared distances are multiplied by the share of wins ``f_k``, so that busy centres win less.

    Eq. 2 of the kernel competitive learning paper; all of ``kappa - 2 z.g + nu`` counts, the part outside the
    landmarks' span too, because it does not cancel once multiplied.

    Examples
    --------
    >>> import numpy as np
    >>> FrequencySensitive((3.0, 1.0)).labels(np.array([[1.0, 2.0]]))
    array([1])
    """

    counts: tuple[float, ...]
    name = "frequency"

    @cached_property
    def shares(self) -> Floats:
        """The share of wins of each centre."""
        counts = np.asarray(self.counts)
        return counts / counts.sum()

    def labels(self, D: Floats) -> NDArray[np.intp]:
        """Return the winner of each row of squared distances."""
        return (D * self.shares.astype(D.dtype)).argmin(axis=1)


def cluster_sums(
    Z: Floats, labels: NDArray[np.intp], n_clusters: int, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the sum of measurements (c, m) and the number of rows (c,) of each cluster, both weighted if asked.

    Labels outside ``range(n_clusters)`` are nobody's.

    Examples
    --------
    >>> import numpy as np
    >>> cluster_sums(np.array([[1.0], [2.0], [4.0]]), np.array([1, 1, 0]), 2)
    (array([[4.],
           [3.]]), array([1, 2]))
    """
    import scipy.sparse

    inside = (labels >= 0) & (labels < n_clusters)
    own = labels if inside.all() else np.where(inside, labels, n_clusters)
    counts = np.bincount(own, weights=weights, minlength=n_clusters + 1)[:n_clusters]
    if len(Z) <= _FEW_ROWS and n_clusters <= _FEW_CLUSTERS:
        dense = (own == np.arange(n_clusters)[:, None]).astype(Z.dtype)
        return (dense if weights is None else dense * weights.astype(Z.dtype)) @ Z, counts
    # A product with a sparse one-hot matrix: it walks through the measurements once, in the order of the rows,
    # however many clusters there are. A dense one takes three times as long for ten clusters, unless rows are so few
    # that making the sparse one is most of it.
    ones = np.ones(len(Z), dtype=Z.dtype) if weights is None else weights.astype(Z.dtype)
    columns = np.arange(len(Z) + 1, dtype=np.int32)
    members = scipy.sparse.csc_array((ones, own.astype(np.int32), columns), shape=(n_clusters + 1, len(Z)))
    return (members @ Z)[:n_clusters], counts
