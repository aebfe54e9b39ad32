"""A guard around the stores that rows are read from: passing failures are tried again, lasting ones name their key.

Zarr takes an absent key for a chunk of fill values, and an empty shard, or a piece that ends early, for absent chunks;
where that would be damage it is an error here.
"""

from __future__ import annotations

import asyncio
import errno
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import zarr
from zarr.abc.store import RangeByteRequest
from zarr.storage import WrapperStore

from ..errors import MissingChunkError, StorageError

__all__ = ["WholeReads", "is_passing", "read_whole", "refuse_absent", "try_again"]

_TRIES = 6
_FIRST_PAUSE = 0.05  # seconds; doubled each time, so that a read is given up after some two to three seconds
_LASTING = {  # of the file system: trying again does not help
    errno.EACCES,
    errno.EPERM,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EFBIG,
    errno.ENAMETOOLONG,
}
_PASSING_NAMES = {  # of clients that a store may be read with, none of which is imported here
    "ClientConnectionError",
    "ClientPayloadError",
    "ServerDisconnectedError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "EndpointConnectionError",
    "HttpError",
    "ServiceUnavailable",
    "TooManyRequests",
    "InternalServerError",
}


class WholeReads(WrapperStore[Any]):
    """A store that gives all the bytes asked for, or None when the key is absent, or raises; never fewer.

    Parameters
    ----------
    store : zarr store
    strict : bool
        Whether an absent key is an error too.
    """

    def __init__(self, store: Any, strict: bool = False) -> None:
        super().__init__(store)
        self.strict = strict

    def _with_store(self, store: Any) -> WholeReads:
        return type(self)(store, self.strict)

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        async def read() -> Any:
            found = await self._store.get(key, prototype, byte_range)
            if found is not None:
                wanted = byte_range.end - byte_range.start if isinstance(byte_range, RangeByteRequest) else 1
                if len(found) < wanted:
                    raise EndsEarlyError(f"{key!r} ends early: {len(found):,} of {wanted:,} bytes")
            return found

        found = await self._tried(key, read)
        if found is None and self.strict:
            raise MissingChunkError(
                f"Chunk {key!r} of {self} is gone: it was there, or had to be, when the run began. Restore it."
            )
        return found

    async def exists(self, key: str) -> bool:
        found: bool = await self._tried(key, lambda: self._store.exists(key))
        return found

    async def _tried(self, key: str, read: Callable[[], Awaitable[Any]]) -> Any:
        """Try until it works, the failure is none that passes, or it has not passed for long enough."""
        pause = _FIRST_PAUSE
        for left in reversed(range(_TRIES)):
            try:
                return await read()
            except Exception as error:
                if not is_passing(error):
                    raise
                if not left:
                    raise StorageError(
                        f"{key!r} of {self} cannot be read, after {_TRIES} tries: {type(error).__name__}: {error}."
                    ) from error
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # so that readers come apart
            pause *= 2
        raise AssertionError  # the last try returns or raises

    def __str__(self) -> str:
        return str(self._store)


class EndsEarlyError(OSError):
    """A key has fewer bytes than were asked for."""


def is_passing(error: BaseException) -> bool:
    """Say whether a failure to read may pass by itself.

    Examples
    --------
    >>> is_passing(TimeoutError()), is_passing(PermissionError(13, "no")), is_passing(ValueError("damaged"))
    (True, False, False)
    """
    if isinstance(error, (EndsEarlyError, StorageError, FileNotFoundError, PermissionError)):
        return False
    if isinstance(error, (TimeoutError, ConnectionError, asyncio.TimeoutError)):
        return True
    if type(error).__name__ in _PASSING_NAMES:
        return True
    return isinstance(error, OSError) and error.errno not in _LASTING


def try_again(call: Callable[[], Any]) -> Any:
    """Return what a call returns, after a few tries if its failures may pass."""
    pause = _FIRST_PAUSE
    for _ in range(_TRIES - 1):
        try:
            return call()
        except Exception as error:
            if not is_passing(error):
                raise
        time.sleep(pause)
        pause *= 2
    return call()


def read_whole(array: Any) -> Any:
    """Return the same array, read through the guard.

    Examples
    --------
    >>> import numpy as np
    >>> array = zarr.create_array({}, data=np.eye(4), chunks=(1, 4), shards=(2, 4))
    >>> read_whole(array)[3]
    array([0., 0., 0., 1.])
    """
    if isinstance(array.store, WholeReads):
        return array
    store, kind = WholeReads(array.store), array.metadata.zarr_format
    return try_again(lambda: zarr.open_array(store, path=array.path, mode="r", zarr_format=kind))


def refuse_absent(array: Any) -> None:
    """From now on an absent chunk of an array that is read through the guard is an error."""
    if isinstance(array.store, WholeReads):
        array.store.strict = True
