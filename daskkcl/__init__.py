"""daskkcl: kernel clustering of data that do not fit in memory.

>>> import numpy as np, daskkcl
>>> X = np.random.default_rng(0).normal(size=(200, 2)) + np.repeat([[0, 0], [9, 9]], 100, axis=0)
>>> daskkcl.fit(X, algo="pakcl", n_clusters=2, random_state=0).cluster_sizes_
array([100, 100])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = [
    "FCM",
    "KFCM",
    "PAKCL",
    "APNCKMeans",
    "ApproxKernelKMeans",
    "DaskkclError",
    "MemoryLimitError",
    "OnlineKFCM",
    "RandomSampleKFCM",
    "SinglePassKFCM",
    "SpectralKMeans",
    "__version__",
    "algorithms",
    "errors",
    "fit",
    "fuzzy_validity",
    "kernels",
    "load",
    "maps",
]

# Names are imported when they are first used: scikit-learn, dask and zarr take time and memory.
_HOMES = {
    "fit": "api",
    "load": "api",
    "algorithms": "api",
    "fuzzy_validity": "api",
    "ApproxKernelKMeans": "estimators",
    "APNCKMeans": "estimators",
    "SpectralKMeans": "estimators",
    "FCM": "estimators",
    "KFCM": "estimators",
    "OnlineKFCM": "estimators",
    "PAKCL": "estimators",
    "RandomSampleKFCM": "estimators",
    "SinglePassKFCM": "estimators",
    "DaskkclError": "errors",
    "MemoryLimitError": "errors",
}

if TYPE_CHECKING:
    from . import errors, kernels, maps
    from .api import algorithms, fit, fuzzy_validity, load
    from .errors import DaskkclError, MemoryLimitError
    from .estimators import (
        FCM,
        KFCM,
        PAKCL,
        APNCKMeans,
        ApproxKernelKMeans,
        OnlineKFCM,
        RandomSampleKFCM,
        SinglePassKFCM,
        SpectralKMeans,
    )

    __version__: str


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if name in ("errors", "kernels", "maps"):
        return importlib.import_module(f".{name}", __name__)
    if name == "__version__":
        from .system import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
