"""Scratch space: a folder of plain files that goes when nobody holds it any more.

Files are written whole under another name and then renamed, so a task that runs twice does no harm and a file that
is there is complete. Reading checks the length: a file that is gone or short is an error, never zeros.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from io import FileIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StorageError
from ..system import format_bytes

__all__ = ["Scratch", "check_room", "open_scratch", "read_array", "read_from", "write_array"]


class Scratch:
    """A temporary folder below `folder` (default: the system's), removed with the last reference to it.

    Parameters
    ----------
    folder : path, optional
        Made if it is not there.
    n_bytes : int
        Refuse, before anything is made, when the file system has less room than that.

    Examples
    --------
    >>> scratch = Scratch()
    >>> os.path.isdir(scratch.path)
    True
    >>> path, scratch = scratch.path, None
    >>> os.path.isdir(path)
    False
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, n_bytes: int = 0) -> None:
        folder = os.path.abspath(folder or tempfile.gettempdir())
        try:
            check_room(folder, n_bytes)
            os.makedirs(folder, exist_ok=True)
            self.path = tempfile.mkdtemp(prefix="daskkcl-", dir=folder)
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(
                f"No scratch folder can be made in {folder!r}: {error}. Pass scratch= a folder that can be written to."
            ) from error
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder now, whoever holds it: after an error its traceback does."""
        self._finalizer()

    def remove(self, name: str) -> None:
        """Remove a file or folder in it, if it is there."""
        shutil.rmtree(self.file(name), ignore_errors=True)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process knows the folder and does not own it.
        return _borrowed, (self.path,)

    def file(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return os.path.join(self.path, name)


def check_room(folder: str, n_bytes: int) -> None:
    """Refuse when the file system of a folder, which need not be there yet, has less room than that."""
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise StorageError(
            f"Scratch needs {format_bytes(n_bytes)} and {folder!r} has {format_bytes(free)} free. Make room, "
            "pass scratch= a folder on a larger disk, or raise memory_limit so that less goes to scratch."
        )


def _borrowed(path: str) -> Scratch:
    scratch = Scratch.__new__(Scratch)
    scratch.path = path
    return scratch


def write_array(path: str, parts: Iterable[NDArray[Any]]) -> str:
    """Write arrays one behind the other to a file that appears only when complete."""
    partial = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        with open(partial, "wb") as file:
            for part in parts:
                np.ascontiguousarray(part).tofile(file)
        os.replace(partial, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(partial)
        raise StorageError(f"Scratch file {path!r} cannot be written: {error}.") from error
    return path


def read_array(
    path: str, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int = 0, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Read an array from a file, all of it or an error that names the file."""
    with open_scratch(path) as file:
        return read_from(file, dtype, shape, offset, out)


def open_scratch(path: str) -> FileIO:
    """Open a scratch file for reading, unbuffered: no second copy, and no mapped pages to count against the limit."""
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise StorageError(f"Scratch file {path!r} is gone: {error}. It must stay while the run lasts.") from error


def read_from(
    file: FileIO, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Read an array from an open file."""
    array = np.empty(shape, dtype=dtype) if out is None else out
    if array.size == 0:
        return array
    view, done = array.reshape(-1).view(np.uint8).data, 0
    try:
        while done < array.nbytes:
            count = os.preadv(file.fileno(), [view[done:]], offset + done)
            if count == 0:
                raise StorageError(f"Scratch file {file.name!r} is short: {done:,} of {array.nbytes:,} bytes.")
            done += count
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"Scratch file {file.name!r} cannot be read: {error}.") from error
    return array
