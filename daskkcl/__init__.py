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
    "AKCL",
    "CCCL",
    "CPCL",
    "DSRPCL",
    "KCL",
    "PAKCL",
    "RPCCL",
    "RPCL",
    "ApproxKernelKMeans",
    "CoRe",
    "DaskkclError",
    "FastKSCL",
    "KernelCPCL",
    "KernelKMeans",
    "LandmarkCPCL",
    "MemoryLimitError",
    "OnlineKFCM",
    "algorithms",
    "errors",
    "fit",
    "kernels",
    "load",
    "measures",
    "__version__",
]

# Names are imported when they are first used: scikit-learn, dask and zarr take time and memory.
_HOMES = {
    "fit": "api",
    "load": "api",
    "algorithms": "api",
    "AKCL": "estimators",
    "CCCL": "estimators",
    "CPCL": "estimators",
    "DSRPCL": "estimators",
    "KCL": "estimators",
    "PAKCL": "estimators",
    "RPCCL": "estimators",
    "RPCL": "estimators",
    "ApproxKernelKMeans": "estimators",
    "CoRe": "estimators",
    "FastKSCL": "estimators",
    "KernelCPCL": "estimators",
    "KernelKMeans": "estimators",
    "LandmarkCPCL": "estimators",
    "OnlineKFCM": "estimators",
    "DaskkclError": "errors",
    "MemoryLimitError": "errors",
}

if TYPE_CHECKING:
    from . import errors, kernels, measures
    from .api import algorithms, fit, load
    from .errors import DaskkclError, MemoryLimitError
    from .estimators import (
        AKCL,
        CCCL,
        CPCL,
        DSRPCL,
        KCL,
        PAKCL,
        RPCCL,
        RPCL,
        ApproxKernelKMeans,
        CoRe,
        FastKSCL,
        KernelCPCL,
        KernelKMeans,
        LandmarkCPCL,
        OnlineKFCM,
    )

    __version__: str


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if name in ("errors", "kernels", "measures"):
        return importlib.import_module(f".{name}", __name__)
    if name == "__version__":
        from .system import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
