"""scikit-learn classes: parameters, validation, fitted attributes; no maths."""

from .competitive import PAKCL
from .fuzzy import OnlineKFCM
from .kmeans import APNCKMeans, ApproxKernelKMeans, SpectralKMeans

__all__ = ["ALGORITHMS", "PAKCL", "APNCKMeans", "ApproxKernelKMeans", "OnlineKFCM", "SpectralKMeans"]

ALGORITHMS = {cls.algorithm: cls for cls in (APNCKMeans, ApproxKernelKMeans, OnlineKFCM, PAKCL, SpectralKMeans)}
