"""Kernels: values that fill blocks of rows × landmarks, with numpy and numba only.

`as_kernel` makes a kernel from a name; `Kernel.resolve` takes its width from a sample; `Kernel.columns`
prepares it against landmarks for many blocks; `check_degenerate` says when it is too wide or too narrow.
"""

from daskkcl.kernels.base import Kernel, KernelColumns
from daskkcl.kernels.combine import Columns, Mean, Product, Sum
from daskkcl.kernels.custom import CallableKernel
from daskkcl.kernels.degenerate import check_degenerate
from daskkcl.kernels.distance import Laplacian, Rbf
from daskkcl.kernels.dot import Cosine, Linear, Polynomial, Sigmoid
from daskkcl.kernels.histogram import Chi2, HistogramIntersection
from daskkcl.kernels.registry import KERNEL_NAMES, as_kernel, from_dict

__all__ = [
    "Kernel",
    "KernelColumns",
    "Rbf",
    "Laplacian",
    "Polynomial",
    "Sigmoid",
    "Linear",
    "Cosine",
    "Chi2",
    "HistogramIntersection",
    "Columns",
    "Sum",
    "Mean",
    "Product",
    "CallableKernel",
    "KERNEL_NAMES",
    "as_kernel",
    "from_dict",
    "check_degenerate",
]
