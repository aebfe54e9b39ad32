"""scikit-learn classes: parameters, validation, fitted attributes; no maths."""

from .competitive import PAKCL
from .fuzzy import OnlineKFCM
from .kmeans import ApproxKernelKMeans

__all__ = ["ALGORITHMS", "PAKCL", "ApproxKernelKMeans", "OnlineKFCM"]

ALGORITHMS = {cls.algorithm: cls for cls in (ApproxKernelKMeans, OnlineKFCM, PAKCL)}
