"""scikit-learn classes: parameters, validation, fitted attributes; no maths."""

from .competitive import AKCL, KCL, PAKCL
from .exact import KernelKMeans
from .fuzzy import FCM, KFCM
from .incremental import OnlineKFCM, RandomSampleKFCM, SinglePassKFCM
from .kmeans import APNCKMeans, ApproxKernelKMeans, SpectralKMeans
from .rivals import CCCL, DSRPCL, RPCCL, RPCL, CoRe
from .seeds import CPCL, KernelCPCL, LandmarkCPCL
from .soft import FastKSCL
from .sparse import SparseKernelKMeans

__all__ = [
    "ALGORITHMS",
    "AKCL",
    "APNCKMeans",
    "ApproxKernelKMeans",
    "CCCL",
    "CPCL",
    "CoRe",
    "DSRPCL",
    "FCM",
    "FastKSCL",
    "KCL",
    "KFCM",
    "KernelCPCL",
    "KernelKMeans",
    "LandmarkCPCL",
    "OnlineKFCM",
    "PAKCL",
    "RPCCL",
    "RPCL",
    "RandomSampleKFCM",
    "SinglePassKFCM",
    "SparseKernelKMeans",
    "SpectralKMeans",
]

_CLASSES = (
    *(ApproxKernelKMeans, KernelKMeans, APNCKMeans, SpectralKMeans, SparseKernelKMeans, FastKSCL),
    *(FCM, KFCM, RandomSampleKFCM, SinglePassKFCM, OnlineKFCM),
    *(KCL, AKCL, PAKCL),
    *(CPCL, KernelCPCL, LandmarkCPCL),
    *(RPCL, RPCCL, CCCL, DSRPCL, CoRe),
)
ALGORITHMS = {cls.algorithm: cls for cls in _CLASSES}
