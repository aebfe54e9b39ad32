"""Soft competitive learning by ranks (neural gas): every centre learns from every row, the nearer the more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .crisp import Euclidean

__all__ = ["NeuralGas"]

Floats = NDArray[Any]


@dataclass(frozen=True)
class NeuralGas(Euclidean):
    """Weights ``exp(-rank / reach)`` of a row for its nearest centre (rank 0), the next, and so on.

    Examples
    --------
    >>> import numpy as np
    >>> NeuralGas(1.0).weights(np.array([[4.0, 1.0, 9.0]])).round(3)
    array([[0.368, 1.   , 0.135]])
    """

    reach: float
    name = "neural gas"

    def labels(self, D: Floats) -> NDArray[np.intp]:
        """Return the nearest centre of each row."""
        return D.argmin(axis=1)

    def weights(self, D: Floats) -> Floats:
        """Return the weights of each row of squared distances; of equal ones the lower number comes first."""
        ranks = np.argsort(np.argsort(D, axis=1, kind="stable"), axis=1, kind="stable")
        return np.exp(-np.arange(D.shape[1]) / self.reach).astype(D.dtype)[ranks]
