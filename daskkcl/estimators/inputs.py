"""What users pass as data, opened as a source and checked against what the estimator was fitted to."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.utils.validation import validate_data

from ..blocks.cubes import CubeSource
from ..blocks.opening import open_source
from ..blocks.sources import ArraySource, DaskSource, Source
from ..errors import InvalidInputError, WrongTypeError
from ..progress import Progress
from ..schedules.data import count_entries
from ..schedules.engine import make_engine
from ..system import parse_bytes, resident_bytes

__all__ = ["as_numbers", "check_frame", "check_output", "is_url", "open_block", "open_rows"]


def open_rows(
    estimator: Any,
    X: Any,
    component: str | None,
    storage_options: dict[str, Any] | None,
    reset: bool,
    feature_dim: str | None = None,
) -> Source:
    """Open data; remember their columns (reset), or refuse those that have others than before."""
    if not reset:  # features are along the dimension that they were fitted along, if there is one of that name
        known = getattr(estimator, "feature_dim_", None)
        feature_dim = known if known in getattr(X, "dims", ()) and not hasattr(X, "data_vars") else None
    source: Source = open_source(_plain(X), component, storage_options, feature_dim)
    if isinstance(source, CubeSource) and source.lazy:
        limit = None if estimator.memory_limit is None else parse_bytes(estimator.memory_limit)
        source = source.within(2**62 if limit is None else max(0, limit - resident_bytes()))
    if isinstance(source, DaskSource) and source.sparse:
        source = count_entries(make_engine(None, Progress(False)), source)
    if source.frame is not None:
        check_frame(estimator, source, reset)
    elif isinstance(source, ArraySource):
        try:
            validate_data(estimator, X, reset=reset, skip_check_array=True)
        except ValueError as error:
            raise InvalidInputError(str(error)) from None
    elif reset:
        _remember(estimator, source)
    elif source.n_features != estimator.n_features_in_:
        raise _other_features(estimator, source)
    if reset and source.frame is None:
        estimator.__dict__.pop("feature_dim_", None)
    return source


def open_block(estimator: Any, X: Any, reset: bool) -> ArraySource:
    """Open a block of a stream, which must be in memory."""
    source = open_rows(estimator, X, None, None, reset)
    if not isinstance(source, ArraySource) or source.lazy:
        raise WrongTypeError(
            "partial_fit takes a block of rows in memory. For lazy data use fit, which reads them block by block, "
            "or pass np.asarray(block) for one block after another."
        )
    return source


def _remember(estimator: Any, source: Source) -> None:
    estimator.n_features_in_ = source.n_features
    estimator.__dict__.pop("feature_names_in_", None)


def check_frame(estimator: Any, source: Source, reset: bool) -> None:
    """Remember the features of a DataArray or Dataset, or refuse others than before."""
    names = source.frame.feature_names
    if reset:
        _remember(estimator, source)
        estimator.feature_dim_ = source.frame.feature_dim
        if names:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return
    if source.n_features != estimator.n_features_in_:
        raise _other_features(estimator, source)
    before = list(getattr(estimator, "feature_names_in_", ()))
    if names and before and list(names) != before:
        raise InvalidInputError(
            f"The feature names should match those that were passed during fit, in the same order: there it was "
            f"{', '.join(map(str, before[:8]))}, here it is {', '.join(names[:8])}."
        )


def _other_features(estimator: Any, source: Source) -> InvalidInputError:
    return InvalidInputError(
        f"X has {source.n_features} features, but {type(estimator).__name__} is expecting "
        f"{estimator.n_features_in_} features as input."
    )


def check_output(estimator: Any, source: Source) -> None:
    """Refuse to make a data frame of an answer that is lazy, or on dimensions of its own."""
    if not source.lazy and source.frame is None:
        return
    chosen = getattr(estimator, "_sklearn_output_config", {}).get("transform") or get_config()["transform_output"]
    if chosen != "default":
        what = "would load all of an answer that is lazy" if source.lazy else "cannot hold an answer on dimensions"
        raise InvalidInputError(
            f"The output of transform is set to {chosen!r}, which {what}: call set_output(transform='default'), or "
            "transform rows in memory."
        )


def is_url(path: Any) -> bool:
    """Say whether a path is a URL."""
    return isinstance(path, (str, os.PathLike)) and "://" in os.fspath(path)


def _plain(X: Any) -> Any:
    """Return tables in memory (lists, data frames, objects with __array__) as arrays; leave the rest alone."""
    module = type(X).__module__.partition(".")[0]
    if isinstance(X, (str, os.PathLike)) or module in {"zarr", "dask", "xarray", "anndata"} or issparse(X):
        return X
    return as_numbers(X)


def _check_columns(X: Any) -> None:
    """Refuse what is no table at all, and name the column of a data frame that holds no numbers."""
    if X is None or isinstance(X, (dict, set, type)):
        what = "None" if X is None else f"a {type(X).__name__}"
        raise InvalidInputError(f"X is {what}; pass a path or URL of a Zarr, or a 2D array or data frame.")
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        for number, (name, dtype) in enumerate(zip(X.columns, X.dtypes, strict=True)):
            if getattr(dtype, "kind", "f") not in "biuf" and not _is_numeric(X.iloc[:, number], dtype):
                raise InvalidInputError(
                    f"X is not a table of numbers: its column {name!r} holds {dtype}. Leave it out, or turn it into "
                    "numbers first."
                )


def _is_numeric(column: Any, dtype: Any) -> bool:
    if getattr(dtype, "kind", "") in "mM":  # times, which numpy would take for numbers
        return False
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def as_numbers(X: Any) -> NDArray[Any]:
    """Return a table in memory as a numeric array, with scikit-learn's own messages for what is none."""
    from sklearn.utils import check_array

    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise WrongTypeError(
            "X has masked values; pass X.filled(np.nan) with nan='drop' to leave out rows that have any."
        )
    _check_columns(X)
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
