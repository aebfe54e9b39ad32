"""Rows that are measured already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Map

__all__ = ["MeasuredMap"]

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class MeasuredMap:
    """Takes measurements that another map made, ``Z`` with ``kappa`` behind it, for rows; all else is the other's.

    Parameters
    ----------
    made_by : Map

    Examples
    --------
    >>> import numpy as np
    >>> from daskkcl.maps.explicit import IdentityMap
    >>> map_ = MeasuredMap(IdentityMap(np.zeros(2), np.dtype("float64")))
    >>> map_.measure(np.array([[3.0, 4.0, 25.0]]))
    (array([[3., 4.]]), array([25.]))
    >>> map_.n_features, map_.n_measurements
    (3, 2)
    """

    made_by: Map

    @property
    def n_features(self) -> int:
        return self.made_by.n_measurements + 1

    def measure(self, rows: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
        """Return Z and kappa of a block of rows, which are copied: products are to see whole arrays."""
        if out is None:
            out = np.empty((len(rows), self.made_by.n_measurements), dtype=self.made_by.dtype)
        out[:] = rows[:, :-1]
        return out, np.ascontiguousarray(rows[:, -1])

    def scratch_bytes(self, rows: int, cells: int | None = None) -> int:
        return rows * np.dtype(self.made_by.dtype).itemsize

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "made_by":
            raise AttributeError(name)
        return getattr(self.made_by, name)
