"""daskkcl: kernel clustering of data that do not fit in memory.

>>> import numpy as np, daskkcl
>>> X = np.random.default_rng(0).normal(size=(200, 2)) + np.repeat([[0, 0], [9, 9]], 100, axis=0)
>>> daskkcl.fit(X, algo="pakcl", n_clusters=2, random_state=0).cluster_sizes_
array([100, 100])
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

__all__ = [
    "AKCL",
    "APNCKMeans",
    "ApproxKernelKMeans",
    "CCCL",
    "CPCL",
    "CoRe",
    "DSRPCL",
    "DaskkclError",
    "FCM",
    "FastKSCL",
    "KCL",
    "KFCM",
    "KernelCPCL",
    "KernelKMeans",
    "LandmarkCPCL",
    "MemoryLimitError",
    "OnlineKFCM",
    "PAKCL",
    "RPCCL",
    "RPCL",
    "RandomSampleKFCM",
    "SinglePassKFCM",
    "SparseKernelKMeans",
    "SpectralKMeans",
    "__version__",
    "algorithms",
    "errors",
    "fit",
    "fuzzy_validity",
    "kernels",
    "load",
    "maps",
    "measures",
    "plan",
    "stability",
    "sweep",
    "validity",
    "write_obs",
]

# Names are imported when they are first used: scikit-learn, dask and zarr take time and memory.
_HOMES = {
    "fit": "api",
    "load": "api",
    "plan": "api",
    "algorithms": "api",
    "fuzzy_validity": "api",
    "write_obs": "api",
    "stability": "estimators.judging",
    "sweep": "estimators.sweeping",
    "validity": "estimators.judging",
    "DaskkclError": "errors",
    "MemoryLimitError": "errors",
    "AKCL": "estimators",
    "APNCKMeans": "estimators",
    "ApproxKernelKMeans": "estimators",
    "CCCL": "estimators",
    "CPCL": "estimators",
    "CoRe": "estimators",
    "DSRPCL": "estimators",
    "FCM": "estimators",
    "FastKSCL": "estimators",
    "KCL": "estimators",
    "KFCM": "estimators",
    "KernelCPCL": "estimators",
    "KernelKMeans": "estimators",
    "LandmarkCPCL": "estimators",
    "OnlineKFCM": "estimators",
    "PAKCL": "estimators",
    "RPCCL": "estimators",
    "RPCL": "estimators",
    "RandomSampleKFCM": "estimators",
    "SinglePassKFCM": "estimators",
    "SparseKernelKMeans": "estimators",
    "SpectralKMeans": "estimators",
}

if TYPE_CHECKING:
    from . import errors, kernels, maps, measures
    from .api import algorithms, fit, fuzzy_validity, load, plan, write_obs
    from .errors import DaskkclError, MemoryLimitError
    from .estimators import (
        AKCL,
        CCCL,
        CPCL,
        DSRPCL,
        FCM,
        KCL,
        KFCM,
        PAKCL,
        RPCCL,
        RPCL,
        APNCKMeans,
        ApproxKernelKMeans,
        CoRe,
        FastKSCL,
        KernelCPCL,
        KernelKMeans,
        LandmarkCPCL,
        OnlineKFCM,
        RandomSampleKFCM,
        SinglePassKFCM,
        SparseKernelKMeans,
        SpectralKMeans,
    )
    from .estimators.judging import stability, validity
    from .estimators.sweeping import sweep

    __version__: str


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if name in ("errors", "kernels", "maps", "measures"):
        return importlib.import_module(f".{name}", __name__)
    if name == "__version__":
        from .system import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


class _WhenXarrayIsImported:
    """Registers ``array.daskkcl`` once xarray is imported, by whoever; until then it costs nothing."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "xarray":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: Any) -> None:
                execute(module)
                importlib.import_module(".xarray", __name__)

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


if "xarray" in sys.modules and hasattr(sys.modules["xarray"], "register_dataarray_accessor"):
    importlib.import_module(".xarray", __name__)
else:
    sys.meta_path.insert(0, _WhenXarrayIsImported())
