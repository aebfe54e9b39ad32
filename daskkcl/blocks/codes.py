"""Codes of rows, or their measurements, in scratch: a Zarr array that is read in place of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .scratch import Scratch

__all__ = ["codes_are_whole", "make_codes", "open_codes"]

_NAME = "codes.zarr"


def make_codes(scratch: Scratch, shape: tuple[int, int], chunk_rows: int, dtype: Any = np.float32) -> Any:
    """Make the array, to be written chunk by chunk."""
    import zarr

    return zarr.create_array(
        scratch.file(_NAME),
        shape=shape,
        chunks=(min(chunk_rows, shape[0]), shape[1]),
        dtype=dtype,
        fill_value=np.nan,
        compressors=None,
        config={"write_empty_chunks": True},
        overwrite=True,
    )


def codes_are_whole(scratch: Scratch, n_rows: int) -> bool:
    """Say whether the array is there with all its chunks."""
    try:
        array = open_codes(scratch)
        return bool(array.shape[0] == n_rows and array.nchunks_initialized == array.nchunks)
    except Exception:
        return False


def open_codes(scratch: Scratch) -> Any:
    """Open the array for reading; a chunk that is gone is an error, never the fill value, which means a dropped row."""
    import zarr

    from .whole import read_whole, refuse_absent

    array = read_whole(zarr.open_array(scratch.file(_NAME), mode="r"))
    refuse_absent(array)
    return array
