"""Labels as a column of an AnnData's ``obs``, in the encoding that AnnData gives categories in Zarr.

https://anndata.readthedocs.io/en/stable/fileformat-prose.html has the encoding: a group of ``codes`` (-1: no category)
and ``categories``, named in the ``column-order`` of the data frame.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DaskkclError, InvalidInputError, OutputError
from .sources import local_path

__all__ = ["obs_of", "write_column"]

_CHUNK_ROWS = 2**20
_ARRAY = {"encoding-type": "array", "encoding-version": "0.2.0"}
_STRINGS = {"encoding-type": "string-array", "encoding-version": "0.2.0"}
_CATEGORICAL = {"encoding-type": "categorical", "encoding-version": "0.2.0", "ordered": False}


def obs_of(place: Any, storage_options: dict[str, Any] | None = None) -> tuple[Any, Any, int]:
    """Return the group of an AnnData, its ``obs``, and how many rows that has; or say what is missing."""
    import zarr

    group = place
    if isinstance(place, (str, os.PathLike)):
        path = local_path(os.fspath(place))
        if "://" not in path and not os.path.exists(path):
            raise InvalidInputError(f"There is nothing at {path!r}.")
        try:
            group = zarr.open_group(path, mode="r+", use_consolidated=False, storage_options=storage_options)
        except Exception as error:
            raise InvalidInputError(
                f"{path!r} cannot be opened as a Zarr group to write to ({type(error).__name__}: {error})."
            ) from error
    if not isinstance(group, zarr.Group):
        raise InvalidInputError(
            f"This {type(place).__name__} is neither the path or URL of an AnnData in Zarr, nor its zarr.Group. In an "
            "AnnData in memory, set adata.obs['cluster'] = model.labels_."
        )
    if group.read_only:
        raise OutputError(f"{group.store_path} is open for reading only: pass its path, or open it with mode='r+'.")
    obs: Any = group.get("obs")
    attributes = dict(obs.attrs) if isinstance(obs, zarr.Group) else {}
    index = attributes.get("_index")
    if attributes.get("encoding-type") != "dataframe" or not isinstance(index, str) or index not in obs:
        raise InvalidInputError(f"{group.store_path} has no 'obs' with an index: it is not an AnnData in Zarr.")
    column: Any = obs[index]
    return group, obs, int((column if isinstance(column, zarr.Array) else column["codes"]).shape[0])


def write_column(
    group: Any, obs: Any, key: str, labels: Any, n_clusters: int, overwrite: bool, compute: Callable[[list[Any]], Any]
) -> None:
    """Write labels as a categorical column; the data frame names it only when it is complete."""
    import dask.array as da

    order = [str(name) for name in obs.attrs.get("column-order", [])]
    if key in obs and not overwrite:
        raise OutputError(f"obs has a column {key!r} already; pass overwrite=True to replace it, or another key.")
    dtype = np.min_scalar_type(-n_clusters - 1)
    rows = max(1, min(_CHUNK_ROWS, labels.shape[0]))
    try:
        if key in obs:
            obs.attrs["column-order"] = [name for name in order if name != key]
            del obs[key]
        column = obs.create_group(key, attributes=_CATEGORICAL)
        codes = column.create_array(
            "codes",
            shape=labels.shape,
            dtype=dtype,
            chunks=(rows,),
            attributes=_ARRAY,
            config={"write_empty_chunks": True},
        )
        lazy = labels if isinstance(labels, da.Array) else da.from_array(labels, chunks=(rows,), name=False)
        compute([lazy.astype(dtype).rechunk((rows,)).store(codes, lock=False, compute=False)])
        names = np.array([str(k) for k in range(n_clusters)], dtype=np.dtypes.StringDType())
        categories = column.create_array("categories", shape=names.shape, dtype="str", chunks=names.shape)
        categories[:] = names
        categories.attrs.update(_STRINGS)
        obs.attrs["column-order"] = order if key in order else [*order, key]
        _consolidate_again(group)
    except BaseException as error:
        with contextlib.suppress(Exception):
            del obs[key]
        if isinstance(error, OSError) and not isinstance(error, DaskkclError):
            raise OutputError(f"obs/{key} cannot be written: {error}.") from error
        raise


def _consolidate_again(group: Any) -> None:
    """Bring the copy of all metadata up to date, if the store has one: readers look there and nowhere else."""
    import zarr

    with contextlib.suppress(ValueError, KeyError):
        zarr.open_group(group.store, path=group.path, mode="r", use_consolidated=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Consolidated metadata is currently not part")
            zarr.consolidate_metadata(group.store, path=group.path)
