"""Explicit coordinates of the landmarks' span, for rules that meet one row at a time.

With ``K_hat = V Lambda V^T`` (truncated) and ``W = V Lambda^(-1/2)``, the projection of a row with measurements z has
the coordinates ``y = W^T z`` in an orthonormal basis, and ``kappa - |y|^2`` is what of the row lies outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres

__all__ = ["Coordinates"]

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Coordinates:
    """From measurements to coordinates and back.

    Parameters
    ----------
    root : ndarray of shape (m, q) or None
        ``W``, float64; None when measurements are coordinates already (input space, explicit features).
    dtype : dtype
        Precision of blocks.
    back : ndarray of shape (m, q) or None
        ``V Lambda^(1/2)``, float64, which makes mean measurements of coordinates; only where they are asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.kernels import Linear
    >>> from daskkcl.maps.landmarks import LandmarkMap
    >>> map_ = LandmarkMap(Linear(), np.array([[3.0, 4.0]]), np.dtype("float64"))
    >>> Z, kappa = map_.measure(np.array([[6.0, 8.0], [0.0, 1.0]]))
    >>> Coordinates.of(map_).block(Z, kappa)  # along (3, 4) / 5, and what is left
    (array([[10. ],
           [ 0.8]]), array([0.  , 0.36]))
    """

    lasting = True  # from round to round: workers are sent it once
    root: Floats | None
    dtype: np.dtype[Any]
    back: Floats | None = None

    @classmethod
    def of(cls, map_: Any, with_means: bool = False) -> Coordinates:
        """Return the coordinates of a map's measurements, with a way back to mean measurements if asked for."""
        if map_.explicit or not hasattr(map_, "root"):
            return cls(None, np.dtype(map_.dtype))
        root, back = map_.root, None
        if with_means:
            values, vectors = map_.spectrum
            back = vectors * np.sqrt(values)
        map_.let_go()
        return cls(root, np.dtype(map_.dtype), back)

    def block(self, Z: Floats, kappa: Floats) -> tuple[Floats, Floats]:
        """Return coordinates ``Y`` (rows, q) and residuals ``r`` (rows,), never below zero."""
        Y = Z if self.root is None else Z @ self.root.astype(self.dtype, copy=False)
        return Y, np.maximum(kappa - np.einsum("ij,ij->i", Y, Y), 0)

    def of_means(self, means: Floats) -> Floats:
        """Return the coordinates (c, q) of centres given by mean measurements, float64."""
        means = np.array(means, dtype=np.float64)
        return means if self.root is None else means @ self.root

    def centres(self, M: Floats) -> Centres:
        """Return centres given by coordinates: ``g = W M``, ``nu = |M|^2``."""
        coefficients = M.copy() if self.root is None else M @ self.root.T
        means = coefficients if self.root is None else None if self.back is None else M @ self.back.T
        return Centres(coefficients, np.einsum("cq,cq->c", M, M), means, self.dtype)
