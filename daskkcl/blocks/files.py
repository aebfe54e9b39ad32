"""Chunks of a Zarr in a local folder, read and decoded by the thread that wants them, into their place.

Zarr sends every chunk through an event loop and two more threads. Of chunks of a mebibyte or two that takes longer than
decoding them, and a second thread that reads gains little (docs/performance.md). A chunk that is a plain file needs
none of it. Whatever else there is (shards, filters, remote stores, rare compressors), and every surprise on the way (no
such file, not what it should be), is left to zarr, which fills in, tries again, or says what is wrong.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StorageError
from .whole import WholeReads

__all__ = ["ChunkFiles"]

Otherwise = Callable[[int, int], Any]  # reads entries from one on up to another

_PIPELINE = "zarr.core.codec_pipeline.BatchedCodecPipeline"  # another one, such as zarrs, was chosen by the user


@dataclass(frozen=True, eq=False)
class ChunkFiles:
    """The chunks of an array as files.

    Parameters
    ----------
    array : zarr.Array
    folder : str
        Where its chunks are.
    codec : numcodecs codec or None
        What they are compressed with.
    size : callable
        Returns how many bytes an encoded chunk says it holds.

    Examples
    --------
    >>> import tempfile, zarr
    >>> folder = tempfile.TemporaryDirectory()
    >>> array = zarr.create_array(folder.name, data=np.arange(12.0).reshape(6, 2), chunks=(4, 1))
    >>> ChunkFiles.of(array).read(3, 5, lambda first, last: array[first:last])
    array([[6., 7.],
           [8., 9.]])
    >>> ChunkFiles.of(zarr.create_array({}, data=np.ones(3))) is None  # in memory
    True
    """

    array: Any
    folder: str
    codec: Any
    size: Callable[[bytes], int]

    @classmethod
    def of(cls, array: Any) -> ChunkFiles | None:
        """Return the files of an array, if its chunks are plain ones."""
        import numcodecs
        import zarr
        from zarr.storage import LocalStore

        store = array.store
        if isinstance(store, WholeReads):
            store = store._store
        if type(store) is not LocalStore or zarr.config.get("codec_pipeline.path") != _PIPELINE:
            return None
        names = _compressors(array)
        if names is None or len(names) > 1 or not set(names) <= set(_SIZES):
            return None
        if array.dtype.kind not in "biufc" or 0 in array.chunks:
            return None
        folder = os.path.join(store.root, array.path)
        if not names:
            return cls(array, folder, None, len)
        return cls(array, folder, numcodecs.get_codec({"id": names[0]}), _SIZES[names[0]])

    def read(self, start: int, stop: int, otherwise: Otherwise, dtype: Any = None) -> NDArray[Any]:
        """Return entries along the first axis. Of a chunk that is absent or wrong, `otherwise` gives them."""
        shape, lengths = self.array.shape, self.array.chunks
        out = np.empty((stop - start, *shape[1:]), dtype=dtype or self.array.dtype)
        grid = [range(start // lengths[0], -(-stop // lengths[0]))]
        grid += [range(-(-n // length)) for n, length in zip(shape[1:], lengths[1:], strict=True)]
        chunk: Any = None
        for index in itertools.product(*grid):
            ends = [(i * length, (i + 1) * length) for i, length in zip(index, lengths, strict=True)]
            first, last = max(start, ends[0][0]), min(stop, ends[0][1])
            others = [slice(*own) for own in ends[1:]]
            there = out[(slice(first - start, last - start), *others)]
            in_place = there.shape == lengths and there.flags.c_contiguous and out.dtype == self.array.dtype
            if not in_place and chunk is None:
                chunk = np.empty(lengths, dtype=self.array.dtype)
            if not self._decode(index, there if in_place else chunk):
                there[...] = otherwise(first, last)[(slice(None), *others)]
            elif not in_place:
                here = slice(first - ends[0][0], last - ends[0][0])
                there[...] = chunk[(here, *(slice(0, n) for n in there.shape[1:]))]  # beyond the array is padding
        return out

    def _decode(self, index: tuple[int, ...], out: NDArray[Any]) -> bool:
        """Put a chunk into an array of its shape, if it is there and holds as much as it should."""
        key = self.array.metadata.encode_chunk_key(index)
        try:
            with open(os.path.join(self.folder, key), "rb", buffering=0) as file:
                if self.codec is None:
                    bytes_of: Any = out.reshape(-1).view(np.uint8)
                    return os.fstat(file.fileno()).st_size == out.nbytes == file.readinto(bytes_of)
                encoded = file.read()
            if self.size(encoded) != out.nbytes:
                return False
            self.codec.decode(encoded, out)
        except CutOffError as error:  # zarr would not notice
            first = index[0] * self.array.chunks[0]
            raise StorageError(
                f"Chunk {key!r} of {self.array.store_path} (rows {first:,} and on) cannot be read: {error}. Restore it."
            ) from None
        except (OSError, RuntimeError, ValueError):
            return False
        return True


class CutOffError(ValueError):
    """An encoded chunk is shorter than it says."""


def _compressors(array: Any) -> list[str] | None:
    """Return the names of what chunks are compressed with, None where without it they are not plain numbers in order.

    Names are the same in both formats of Zarr, and how a chunk was compressed is in the chunk.
    """
    if array.shards is not None or array.filters:
        return None
    if array.metadata.zarr_format == 2:
        return [codec.codec_id for codec in array.compressors] if array.metadata.order == "C" else None
    serializer = array.serializer.to_dict()
    endian = serializer.get("configuration", {}).get("endian", sys.byteorder)  # none where a number is one byte
    if serializer["name"] != "bytes" or endian != sys.byteorder or not array.dtype.isnative:
        return None
    return [codec.to_dict()["name"] for codec in array.compressors]


def _zstd_size(encoded: bytes) -> int:
    """Return the content size in the header of a Zstandard frame (RFC 8878, 3.1.1.1), -1 if it is not there.

    Examples
    --------
    >>> from numcodecs import Zstd
    >>> _zstd_size(Zstd().encode(bytes(300))), _zstd_size(b"no such frame")
    (300, -1)
    """
    if encoded[:4] != b"\x28\xb5\x2f\xfd" or len(encoded) < 6:
        return -1
    flag, single, dictionary = encoded[4] >> 6, encoded[4] >> 5 & 1, encoded[4] & 3
    begin, length = 6 - single + (0, 1, 2, 4)[dictionary], (single, 2, 4, 8)[flag]
    size = int.from_bytes(encoded[begin : begin + length], "little")
    return -1 if length == 0 or len(encoded) < begin + length else size + 256 * (length == 2)


def _blosc_size(encoded: bytes) -> int:
    """Return how many bytes the header of a Blosc buffer says it holds.

    Blosc does not ask how long the buffer is, and reads on behind one that is cut off.

    Examples
    --------
    >>> from numcodecs import Blosc
    >>> encoded = Blosc().encode(bytes(300))
    >>> _blosc_size(encoded)
    300
    >>> _blosc_size(encoded[:-1])
    Traceback (most recent call last):
    daskkcl.blocks.files.CutOffError: it has 35 of 36 bytes
    """
    if len(encoded) < 16:
        return -1
    held, _, length = np.frombuffer(encoded[4:16], dtype="<u4").tolist()
    if len(encoded) < length:
        raise CutOffError(f"it has {len(encoded):,} of {length:,} bytes")
    return int(held)


_SIZES: dict[str, Callable[[bytes], int]] = {"zstd": _zstd_size, "blosc": _blosc_size}
