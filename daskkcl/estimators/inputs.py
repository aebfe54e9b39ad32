"""What users pass as data, opened as a source and checked against what the estimator was fitted to."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from ..blocks.opening import open_source
from ..blocks.sources import ArraySource, DaskSource, Source
from ..errors import InvalidInputError, WrongTypeError
from ..progress import Progress
from ..schedules.data import count_entries
from ..schedules.engine import make_engine

__all__ = ["as_numbers", "is_url", "open_rows"]


def open_rows(
    estimator: Any, X: Any, component: str | None, storage_options: dict[str, Any] | None, reset: bool
) -> Source:
    """Open data; remember their columns (reset), or refuse those that have others than before."""
    source: Source = open_source(_plain(X), component, storage_options)
    if isinstance(source, DaskSource) and source.sparse:
        source = count_entries(make_engine(None, Progress(False)), source)
    if isinstance(source, ArraySource):
        try:
            validate_data(estimator, X, reset=reset, skip_check_array=True)
        except ValueError as error:
            raise InvalidInputError(str(error)) from None
    elif reset:
        estimator.n_features_in_ = source.n_features
        estimator.__dict__.pop("feature_names_in_", None)
    elif source.n_features != estimator.n_features_in_:
        raise InvalidInputError(
            f"X has {source.n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    return source


def is_url(path: Any) -> bool:
    """Say whether a path is a URL."""
    return isinstance(path, (str, os.PathLike)) and "://" in os.fspath(path)


def _plain(X: Any) -> Any:
    """Return tables in memory (lists, data frames, objects with __array__) as arrays; leave the rest alone."""
    module = type(X).__module__.partition(".")[0]
    if isinstance(X, (str, os.PathLike)) or module in {"zarr", "dask", "xarray"} or issparse(X):
        return X
    return as_numbers(X)


def as_numbers(X: Any) -> NDArray[Any]:
    """Return a table in memory as a numeric array, with scikit-learn's own messages for what is none."""
    from sklearn.utils import check_array

    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise WrongTypeError(
            "X has masked values; pass X.filled(np.nan) with nan='drop' to leave out rows that have any."
        )
    try:
        if issparse(X):
            check_array(X, accept_sparse=False)  # raises scikit-learn's own message
        array = np.asarray(X)
        if array.dtype.kind in "biufc" and array.ndim > 0:
            return array
        return check_array(X, dtype="numeric", ensure_all_finite=False, ensure_min_samples=0, ensure_min_features=0)
    except TypeError as error:
        raise WrongTypeError(f"X is not a table of numbers: {error}") from None
    except ValueError as error:
        raise InvalidInputError(f"X is not a table of numbers: {error}") from None
