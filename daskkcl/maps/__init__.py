"""Maps from rows to coordinates, on their own or as ``map=`` of any algorithm.

The modules here are the arithmetic on blocks. The classes that users meet stand above the schedules, which feed them;
they are fetched from there when they are first used.

>>> import numpy as np, daskkcl
>>> X = np.random.default_rng(0).normal(size=(300, 2)) + np.repeat([[0, 0], [9, 9]], 150, axis=0)
>>> daskkcl.fit(X, "pakcl", 2, map=daskkcl.maps.SparseSpectral(n_landmarks=60), random_state=0).cluster_sizes_
array([150, 150])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["APNC", "NystromNcut", "Nystroem", "RandomFourier", "SVRandomFourier", "SparseSpectral", "TensorSketch"]

if TYPE_CHECKING:
    from ..estimators.maps import (
        APNC,
        Nystroem,
        NystromNcut,
        RandomFourier,
        SparseSpectral,
        SVRandomFourier,
        TensorSketch,
    )


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("..estimators.maps", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
