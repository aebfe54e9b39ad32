"""What users ask a plan about: data, of which only the shape is looked at, or numbers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from ..blocks.opening import open_source
from ..blocks.shapes import ShapeSource
from ..blocks.sources import DaskSource, Source
from ..errors import InvalidInputError, did_you_mean
from .rates import Rates

__all__ = ["as_rates", "check_count", "open_shape"]


def open_shape(
    data: Any,
    n_rows: int | None,
    n_features: int | None,
    stored: Any,
    chunk_rows: int | None,
    row_entries: int | None,
    component: str | None,
    storage_options: dict[str, Any] | None,
) -> Source:
    """Return a source for planning: that of the data, or one of numbers alone."""
    if data is not None:
        if n_rows is not None or n_features is not None or row_entries is not None:
            raise InvalidInputError("Pass data, or n_rows and n_features: not both.")
        source: Source = open_source(data, component, storage_options)
        if isinstance(source, DaskSource) and source.sparse:
            raise InvalidInputError(
                "How full the rows of a sparse dask array are is not known without computing them: pass n_rows=, "
                "n_features= and row_entries= (stored values of a row) in place of the data."
            )
        return source
    if n_rows is None or n_features is None:
        raise InvalidInputError("Say what is to be planned: data, or n_rows= and n_features=.")
    try:
        dtype = np.dtype(stored)
    except TypeError:
        raise InvalidInputError(f"stored={stored!r} is not a dtype; write 'float32', 'uint8' or so.") from None
    entries = check_count("row_entries", row_entries) or 0
    if entries > n_features:
        raise InvalidInputError(f"row_entries={entries} is more than n_features={n_features}.")
    rows, features = check_count("n_rows", n_rows), check_count("n_features", n_features)
    assert rows is not None
    assert features is not None
    return ShapeSource.of(rows, features, dtype, check_count("chunk_rows", chunk_rows), entries)


def check_count(name: str, value: Any) -> int | None:
    """Return a positive whole number; 1e10 is one."""
    if value is None:
        return None
    whole = (
        isinstance(value, (int, float, np.number))
        and not isinstance(value, bool)
        and value >= 1
        and value == int(value)
    )
    if not whole:
        raise InvalidInputError(f"{name}={value!r}: pass a whole number, 1 or more.")
    return int(value)


def as_rates(rates: Any) -> Rates | None:
    """Return rates; those that a dictionary does not name are typical ones."""
    if rates is None or isinstance(rates, Rates):
        return rates
    names = [field.name for field in fields(Rates)]
    if not isinstance(rates, dict):
        raise InvalidInputError(f"rates={rates!r}: pass daskkcl.capacity.Rates, or a dict of {', '.join(names)}.")
    for name, value in rates.items():
        if name not in names:
            raise InvalidInputError(
                f"There is no rate {name!r}; there are {', '.join(names)}.{did_you_mean(str(name), names)}"
            )
        if not (isinstance(value, (int, float, np.number)) and value > 0):
            raise InvalidInputError(f"The rate {name}={value!r} is not a positive number.")
    return Rates(**rates)
