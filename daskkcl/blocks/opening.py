"""From what users pass to a source: paths, URLs, Zarr arrays and groups, dask, xarray, numpy, scipy."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..errors import InvalidInputError, WrongTypeError, did_you_mean, near_path
from .cubes import CubeSource, open_frame
from .sources import ArraySource, DaskSource, ZarrSource, local_path
from .sparse import CsrSource, is_csr, open_csr, open_sparse

__all__ = ["open_source"]


def open_source(
    data: Any,
    component: str | None = None,
    storage_options: dict[str, Any] | None = None,
    feature_dim: str | None = None,
) -> ZarrSource | CsrSource | DaskSource | ArraySource | CubeSource:
    """Make a source of what the user passed, or say in one sentence why that cannot be.

    Parameters
    ----------
    data : path, URL, zarr.Array, zarr.Group, dask array, xarray.DataArray or Dataset, scipy sparse or array-like
    component : str, optional
        The array inside a group.
    storage_options : dict, optional
        For URLs, as fsspec takes them.
    feature_dim : str, optional
        The dimension of a DataArray that is that of the features; the others become rows.
    """
    source: ZarrSource | CsrSource | DaskSource | ArraySource | CubeSource
    if isinstance(data, (str, os.PathLike)):
        data = _open_zarr(local_path(os.fspath(data)), storage_options)
    elif storage_options is not None:
        raise InvalidInputError("storage_options only goes with a path or URL.")
    module = type(data).__module__.partition(".")[0]
    if module == "anndata" and not issparse(data):
        data, module = _of_anndata(data), "zarr"
    if feature_dim is not None and module != "xarray":
        raise InvalidInputError("feature_dim= only goes with an xarray.DataArray; open_zarr of xarray makes one.")
    if module == "zarr":
        table = _component(_opened(data), component)
        source = open_csr(table, _guarded) if is_csr(table) else ZarrSource(_guarded(table))
    elif component is not None:
        raise InvalidInputError("component= only goes with a Zarr path or group.")
    elif module == "xarray":
        source = open_frame(data, feature_dim)
    elif module == "dask":
        array = _from_dask(data)
        source = DaskSource(array, entries=int(type(array._meta) is not np.ndarray))  # to be counted
    elif issparse(data):
        source = open_sparse(data)
    else:
        source = ArraySource(np.asarray(data))
    _check_table(source)
    return source


def _opened(data: Any) -> Any:
    """Return the array or group of a zarr store; arrays and groups as they are."""
    import zarr

    if isinstance(data, (zarr.Array, zarr.Group)):
        return data
    from .whole import try_again

    try:
        return try_again(lambda: zarr.open(data, mode="r"))
    except Exception as error:
        raise InvalidInputError(
            f"A {type(data).__name__} cannot be opened as Zarr ({type(error).__name__}: {error}). Pass a zarr.Array, "
            "or a zarr.Group or store with component='name'."
        ) from error


def _of_anndata(data: Any) -> Any:
    """Return the Zarr group of a sparse matrix that AnnData has open; refuse the rest of it with a remedy."""
    if getattr(data, "backend", None) == "zarr":
        return data.group
    if hasattr(data, "to_memory") and hasattr(data, "backend"):
        raise WrongTypeError(
            "This is a sparse matrix in an HDF5 file, which is not read by blocks. Write a Zarr, with "
            "anndata.read_h5ad(path).write_zarr('cells.zarr'), and pass 'cells.zarr' with component='X'; or pass "
            "X.to_memory(), which loads all of it."
        )
    raise WrongTypeError(
        f"This is an object of AnnData ({type(data).__name__}), of which the rows are a part: pass adata.X, "
        "adata.obsm['X_pca'] or the like, or the path of its Zarr with component='X'."
    )


def refuse_a_file(path: str) -> None:
    """Say of a file that it is no Zarr, and how it becomes one; Zarrs in zip files are opened."""
    if "://" in path or not os.path.isfile(path) or path.endswith(".zip"):
        return
    remedy, (stem, ending) = "", os.path.splitext(path)
    if ending.lower() in (".csv", ".tsv", ".txt", ".gz", ".parquet", ".pq", ".npy", ".h5", ".hdf5"):
        remedy = f" Convert it first: daskkcl convert {path} {stem}.zarr"
    elif ending.lower() == ".h5ad":
        remedy = f" Convert it first: anndata.read_h5ad({path!r}).write_zarr({stem + '.zarr'!r})"
    raise InvalidInputError(f"{path!r} is a file, not a Zarr.{remedy}")


def _open_zarr(path: str, storage_options: dict[str, Any] | None) -> Any:
    import zarr

    from .whole import try_again

    if "://" not in path and not os.path.exists(path):
        raise InvalidInputError(f"There is nothing at {path!r}.{near_path(path)}")
    refuse_a_file(path)
    try:
        return try_again(lambda: zarr.open(path, mode="r", storage_options=storage_options))
    except Exception as error:
        raise InvalidInputError(
            f"{path!r} cannot be opened as Zarr ({type(error).__name__}: {error}). Pass the folder or URL of a Zarr "
            "array, or of a group with component='name'."
        ) from error


def _component(data: Any, component: str | None) -> Any:
    import zarr

    if isinstance(data, zarr.Array):
        if component is not None:
            raise InvalidInputError(f"This is a Zarr array, not a group: leave out component={component!r}.")
        return data
    if component is None and is_csr(data):
        return data
    names = _table_names(data)
    if component is None:
        tables = [name for name in names if is_csr(data[name]) or getattr(data[name], "ndim", 0) == 2]
        listed = f" It has {', '.join(map(repr, names[:8]))}." if names else " It has no arrays."
        example = f", for example component={tables[0]!r}" if tables else ""
        raise InvalidInputError(f"This is a Zarr group: say which array with component={example}.{listed}")
    try:
        array = data[component]
    except (KeyError, TypeError, ValueError, AttributeError):
        near = did_you_mean(str(component), names)
        raise InvalidInputError(
            f"The group has no component {component!r}.{near} It has: {', '.join(names[:8]) or 'no arrays'}."
        ) from None
    if not isinstance(array, zarr.Array) and not is_csr(array):
        if all(name in array for name in ("data", "indices", "indptr")):
            raise InvalidInputError(
                f"{component!r} has the parts of a sparse matrix, but does not say so. If 'indptr' divides rows, "
                "set its attributes 'encoding-type' to 'csr_matrix' and 'shape' to [rows, columns]."
            )
        inside = ", ".join(f"{component}/{name}" for name in _table_names(array)[:8])
        raise InvalidInputError(f"{component!r} is a group, not an array. It has: {inside or 'nothing'}.")
    return array


def _guarded(array: Any) -> Any:
    from .whole import read_whole

    return read_whole(array)


def _table_names(group: Any, prefix: str = "", depth: int = 3) -> list[str]:
    names = [prefix + name for name in sorted(group.array_keys())]
    if depth:
        for name in sorted(group.group_keys()):
            inner = group[name]
            names += [prefix + name] if is_csr(inner) else _table_names(inner, f"{prefix}{name}/", depth - 1)
    return names


def _from_dask(data: Any) -> Any:
    import dask.array as da

    if not isinstance(data, da.Array):
        raise InvalidInputError(f"A {type(data).__name__} is not an array; use .to_dask_array(lengths=True) or so.")
    if any(np.isnan(chunk) for chunks in data.chunks for chunk in chunks):
        raise InvalidInputError("The dask array has chunks of unknown size; call .compute_chunk_sizes() on it first.")
    meta = data._meta
    if type(meta) is not np.ndarray and getattr(meta, "format", None) != "csr":
        raise WrongTypeError(
            f"The blocks of the dask array are of type {type(meta).__name__}; make them numpy arrays or CSR, for "
            "example with .map_blocks(scipy.sparse.csr_array) if they are sparse."
        )
    return data


def _check_table(source: ZarrSource | CsrSource | DaskSource | ArraySource | CubeSource) -> None:
    shape = source.array.shape
    if len(shape) != 2:
        hint = " Reshape your data with .reshape(-1, 1) if it is one feature." if len(shape) == 1 else ""
        raise InvalidInputError(
            f"Expected 2D array, got {len(shape)}D array instead (shape {shape}): rows are objects, columns are "
            f"features.{hint}"
        )
    if source.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"The data are of dtype {source.dtype}; daskkcl clusters real numbers (float, integer or bool). "
            + ("Complex data not supported." if source.dtype.kind == "c" else "Encode them as numbers first.")
        )
    if shape[0] == 0 or shape[1] == 0:
        what, name = (shape[0], "sample") if shape[0] == 0 else (shape[1], "feature")
        raise InvalidInputError(f"Found array with {what} {name}(s) (shape={shape}) while a minimum of 1 is required.")
