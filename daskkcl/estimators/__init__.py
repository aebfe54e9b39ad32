"""scikit-learn classes: parameters, validation, fitted attributes; no maths."""

from .competitive import PAKCL
from .fuzzy import FCM, KFCM
from .incremental import OnlineKFCM, RandomSampleKFCM, SinglePassKFCM
from .kmeans import ApproxKernelKMeans

__all__ = [
    "ALGORITHMS",
    "FCM",
    "KFCM",
    "PAKCL",
    "ApproxKernelKMeans",
    "OnlineKFCM",
    "RandomSampleKFCM",
    "SinglePassKFCM",
]

ALGORITHMS = {
    cls.algorithm: cls for cls in (ApproxKernelKMeans, FCM, KFCM, OnlineKFCM, PAKCL, RandomSampleKFCM, SinglePassKFCM)
}
