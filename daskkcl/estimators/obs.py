"""Labels of a model, or of anybody, written where the data are."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..blocks.anndata import obs_of, write_column
from ..blocks.frames import plain_values
from ..errors import InvalidInputError, WrongTypeError
from ..progress import Progress
from ..schedules.engine import make_engine
from ..schedules.predict import label_range

__all__ = ["write_labels"]


def write_labels(path: Any, labels: Any, key: str, overwrite: bool, storage_options: dict[str, Any] | None) -> None:
    """Write labels (n,), or those of a fitted model, as a column of an AnnData's ``obs``."""
    import dask.array as da

    if not isinstance(key, str) or not key or "/" in key or key.startswith(("_", ".")):
        raise InvalidInputError(f"key={key!r} is no name of a column; pass a word such as 'cluster'.")
    if isinstance(labels, BaseEstimator):
        check_is_fitted(labels)
    engine = make_engine(None, Progress(False)).here()  # a store in memory is in this process
    n_clusters = getattr(labels, "n_clusters_", None)
    values = plain_values(labels.labels_ if n_clusters is not None else labels)
    if not isinstance(values, da.Array):
        values = np.asarray(values)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise WrongTypeError(
            f"labels of shape {values.shape} and dtype {values.dtype} are not one whole number for each row; pass a "
            "fitted model or its labels_."
        )
    group, obs, n_rows = obs_of(path, storage_options)
    if len(values) != n_rows:
        raise InvalidInputError(f"There are {len(values):,} labels, and obs has {n_rows:,} rows.")
    if n_clusters is None:
        lowest, highest = label_range(values, engine)
        if lowest < -1:
            raise InvalidInputError(f"There is a label {lowest}; labels are -1 (no cluster), 0, 1 and so on.")
        n_clusters = highest + 1
    write_column(group, obs, key, values, max(1, n_clusters), overwrite, engine.compute)
