"""scikit-learn classes: parameters, validation, fitted attributes; no maths."""

from .competitive import AKCL, KCL, PAKCL
from .exact import KernelKMeans
from .fuzzy import OnlineKFCM
from .kmeans import ApproxKernelKMeans
from .seeds import CPCL, KernelCPCL, LandmarkCPCL

__all__ = [
    "AKCL",
    "ALGORITHMS",
    "CPCL",
    "KCL",
    "PAKCL",
    "ApproxKernelKMeans",
    "KernelCPCL",
    "KernelKMeans",
    "LandmarkCPCL",
    "OnlineKFCM",
]

_CLASSES = (
    *(ApproxKernelKMeans, KernelKMeans, OnlineKFCM),
    *(KCL, AKCL, PAKCL),
    *(CPCL, KernelCPCL, LandmarkCPCL),
)
ALGORITHMS = {cls.algorithm: cls for cls in _CLASSES}
