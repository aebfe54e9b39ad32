"""scikit-learn classes: parameters, validation, fitted attributes; no maths."""

from .competitive import PAKCL
from .fuzzy import FCM, KFCM
from .incremental import OnlineKFCM, RandomSampleKFCM, SinglePassKFCM
from .kmeans import APNCKMeans, ApproxKernelKMeans, SpectralKMeans

__all__ = [
    "ALGORITHMS",
    "FCM",
    "KFCM",
    "PAKCL",
    "APNCKMeans",
    "ApproxKernelKMeans",
    "OnlineKFCM",
    "RandomSampleKFCM",
    "SinglePassKFCM",
    "SpectralKMeans",
]

ALGORITHMS = {
    cls.algorithm: cls
    for cls in (
        APNCKMeans,
        ApproxKernelKMeans,
        FCM,
        KFCM,
        OnlineKFCM,
        PAKCL,
        RandomSampleKFCM,
        SinglePassKFCM,
        SpectralKMeans,
    )
}
