"""A kernel too wide or too narrow for the data, found before it gives an embedding of zeros and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from daskkcl.errors import DegenerateKernelError
from daskkcl.kernels import widths
from daskkcl.kernels.base import GammaKernel, Kernel
from daskkcl.kernels.checks import Array, all_finite, check_rows
from daskkcl.kernels.rows import is_sparse

#: Differences relative to the largest entry that blocks in float32 cannot tell from rounding.
CONSTANT_TOLERANCE = 1e-6
#: Entries relative to the diagonal that count for nothing in float32.
ZERO_TOLERANCE = 1e-7
_SAMPLE_ROWS = 200
_STRIP_ROWS = 64  # of a kernel matrix, looked at together
#: Share of the pairs in the sample that have to be alike too: an outlier must not hide that all others are.
_CONSTANT_SHARE = 0.98


def check_degenerate(K_hat: ArrayLike, kernel: Kernel, X_sample: ArrayLike) -> None:
    """Raise when the landmark kernel matrix says that all rows are the same, or that no two are alike.

    The matrix has to be constant, or (for kernels with a width) zero off the diagonal, *and* the kernel has
    to be so on distinct rows of the sample too: duplicate landmarks and constant data are no error.

    Parameters
    ----------
    K_hat : array-like, (m, m)
        Kernel between landmarks.
    kernel : Kernel
        Resolved.
    X_sample : array-like, (n, d)
        Rows to take a better width from.

    Raises
    ------
    DegenerateKernelError
        Names the width in use and the one to try.

    Examples
    --------
    >>> from daskkcl.kernels import Rbf
    >>> X = np.array([[0.0], [100.0], [200.0]])
    >>> check_degenerate(Rbf(gamma=1.0)(X, X), Rbf(gamma=1.0), X)
    Traceback (most recent call last):
    daskkcl.errors.DegenerateKernelError: Rbf(gamma=1.0) is zero between rows that differ: ...
    """
    K = np.asarray(K_hat)
    sample: Any = check_rows(X_sample, "the sample")
    if not all_finite(sample):
        good = np.isfinite(sample.row_sums(sample.data)) if is_sparse(sample) else np.isfinite(sample).all(axis=1)
        sample = sample[good]
    if not np.isfinite(K).all():
        raise DegenerateKernelError(
            f"{kernel!r} gives NaN or infinity between landmarks: {_remedy(kernel, sample, 'scale the data')}"
        )
    if K.shape[0] < 2 or not (_constant(K) or (kernel.has_gamma and _apart(K, or_same=True))):
        return
    few: Any = widths.evenly_spaced(sample, _SAMPLE_ROWS)
    distinct = few.distinct() if is_sparse(few) else np.unique(few, axis=0)
    if distinct.shape[0] < 2:
        return
    K = kernel(distinct.astype(np.float64), distinct)
    if _mostly_constant(K):
        problem = "the same for nearly all rows, though they differ: it cannot tell them apart"
        without_width = "use another kernel, such as 'rbf'"
    elif kernel.has_gamma and _apart(K):
        problem = "zero between rows that differ: it is too narrow for these data"
        without_width = "scale the data"
    else:
        return
    raise DegenerateKernelError(f"{kernel!r} is {problem}; {_remedy(kernel, sample, without_width)}")


def _constant(K: Array) -> bool:
    largest = float(np.abs(K).max())
    return float(K.max()) - float(K.min()) <= CONSTANT_TOLERANCE * largest


def _mostly_constant(K: Array) -> bool:
    """Whether nearly all pairs have the kernel that a row has with itself."""
    off_diagonal = K[np.triu_indices(K.shape[0], k=1)]
    typical = np.median(np.diagonal(K))
    alike = np.abs(off_diagonal - typical) <= CONSTANT_TOLERANCE * np.abs(typical)
    return bool(alike.mean() >= _CONSTANT_SHARE)


def _apart(K: Array, or_same: bool = False) -> bool:
    """Whether all entries off the diagonal are zero beside it; `or_same`: or as large (duplicates)."""
    scale = np.sqrt(np.abs(np.diagonal(K)))
    for first in range(0, len(K), _STRIP_ROWS):  # of most matrices the first strip says no
        own = slice(first, first + _STRIP_ROWS)
        similarity = np.abs(K[own]) / np.maximum(np.outer(scale[own], scale), np.finfo(np.float64).tiny)
        np.fill_diagonal(similarity[:, first:], 0)
        nothing = similarity <= ZERO_TOLERANCE
        if or_same:
            nothing |= similarity >= 1 - CONSTANT_TOLERANCE
        if not nothing.all():
            return False
    return True


def _remedy(kernel: Kernel, sample: Array, without_width: str) -> str:
    if not kernel.has_gamma:
        return without_width
    for rule in ("auto", "median"):
        better = kernel.with_gamma(rule).resolve(sample)
        if isinstance(kernel, GammaKernel) and isinstance(better, GammaKernel):
            if not 0.5 < better.gamma_value / kernel.gamma_value < 2:
                here = f"{better.gamma_value:.6g} here"
                return f"gamma={kernel.gamma_value:g} is far off, try gamma={rule!r}, which is {here}"
        elif better != kernel:
            return f"try gamma={rule!r} in its parts, which is {better!r} here"
    return without_width
