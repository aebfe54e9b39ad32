"""scikit-learn classes: parameters, validation, fitted attributes; no maths."""

from .competitive import AKCL, KCL, PAKCL
from .exact import KernelKMeans
from .fuzzy import OnlineKFCM
from .kmeans import ApproxKernelKMeans
from .rivals import CCCL, DSRPCL, RPCCL, RPCL, CoRe
from .seeds import CPCL, KernelCPCL, LandmarkCPCL
from .soft import FastKSCL

__all__ = [
    "AKCL",
    "ALGORITHMS",
    "CCCL",
    "CPCL",
    "DSRPCL",
    "KCL",
    "PAKCL",
    "RPCCL",
    "RPCL",
    "ApproxKernelKMeans",
    "CoRe",
    "FastKSCL",
    "KernelCPCL",
    "KernelKMeans",
    "LandmarkCPCL",
    "OnlineKFCM",
]

_CLASSES = (
    *(ApproxKernelKMeans, KernelKMeans, FastKSCL, OnlineKFCM),
    *(KCL, AKCL, PAKCL),
    *(CPCL, KernelCPCL, LandmarkCPCL),
    *(RPCL, RPCCL, CCCL, DSRPCL, CoRe),
)
ALGORITHMS = {cls.algorithm: cls for cls in _CLASSES}
