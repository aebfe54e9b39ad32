"""Scratch space: a folder of plain files that goes when nobody holds it any more.

Files are written whole under another name and then renamed, so a task that runs twice does no harm and a file that
is there is complete. Reading checks the length: a file that is gone or short is an error, never zeros.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable
from io import FileIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StorageError
from ..system import format_bytes
from .locks import lives, this_process

__all__ = ["Scratch", "check_room", "open_scratch", "read_array", "read_from", "write_array"]

_PREFIX, _OWNER = "daskkcl-", ".owner.json"
_WRITE_BYTES = 2**18  # arrays that are smaller are written together
_UNSIGNED = 60.0  # seconds in which a new folder may lack its owner


class Scratch:
    """A temporary folder below `folder` (default: the system's), removed with the last reference to it.

    The folder of a run with a checkpoint stays when the run is stopped, and is found again by the run's number. Folders
    that nobody needs any more, because their process was killed, are removed by whoever comes next.

    Parameters
    ----------
    folder : path, optional
        Made if it is not there.
    n_bytes : int
        Refuse, before anything is made, when the file system has less room than that.
    run : str, optional
        Number of the run, if it has a checkpoint.
    checkpoint : str, optional
        Where that is.

    Examples
    --------
    >>> scratch = Scratch()
    >>> os.path.isdir(scratch.path)
    True
    >>> path, scratch = scratch.path, None
    >>> os.path.isdir(path)
    False
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        n_bytes: int = 0,
        run: str | None = None,
        checkpoint: str | None = None,
    ) -> None:
        folder = os.path.abspath(folder or tempfile.gettempdir())
        self.run = run
        self._finalizer: Any = None
        self._new = False  # a run's folder that was not there before
        try:
            _remove_abandoned(folder)
            here = None if run is None else os.path.join(folder, f"{_PREFIX}{run}")
            found = here is not None and _usable(here)
            check_room(folder, n_bytes - (_folder_bytes(here) if here and found else 0))
            os.makedirs(folder, exist_ok=True)
            if here is None:
                self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=folder)
                self._finalizer = weakref.finalize(self, _remove, self.path)
            else:
                if not found:
                    shutil.rmtree(here, ignore_errors=True)
                os.makedirs(here, mode=0o700, exist_ok=True)
                self.path, self._new = here, not found
            self._sign(checkpoint)
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(
                f"No scratch folder can be made in {folder!r}: {error}. Pass scratch= a folder that can be written to."
            ) from error

    def _sign(self, checkpoint: str | None) -> None:
        owner = {**this_process(), "checkpoint": checkpoint}
        partial = self.file(f"{_OWNER}.{os.urandom(4).hex()}")
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(owner, file)
        os.replace(partial, self.file(_OWNER))  # whole or not at all: a folder that nobody owns would stay for ever

    def close(self, refused: bool = False) -> None:
        """Remove the folder now, whoever holds it: after an error its traceback does.

        A run's folder stays, unless the run is refused and the folder was made for it.
        """
        if self._finalizer is not None:
            self._finalizer()
        elif refused and self._new:
            _remove(self.path)

    def settle(self, name: str) -> None:
        """Remove everything but one file; the folder of a run, which is done, becomes one that goes with its holder."""
        self._keep_only(name)
        if self._finalizer is not None:
            return
        own = f"{self.path}-{os.urandom(4).hex()}"
        self._sign(None)  # first: killed between the two, it is a folder of a process that is gone, and no run's
        os.rename(self.path, own)
        self.path, self.run = own, None
        self._finalizer = weakref.finalize(self, _remove, own)

    def part(self, name: str) -> Scratch:
        """Return a folder inside: of a run, by its name, others of its kind removed; else one of its holder's own."""
        if self.run is None:
            return Scratch(self.path)
        kind = name.partition("-")[0]
        for other in os.listdir(self.path):
            if other.startswith(f"{kind}-") and other != name:
                shutil.rmtree(self.file(other), ignore_errors=True)
        os.makedirs(self.file(name), exist_ok=True)
        return _borrowed(self.file(name))

    def _keep_only(self, name: str) -> None:
        for other in os.listdir(self.path):
            if other not in (name, _OWNER):
                path = self.file(other)
                if os.path.isdir(path):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    with contextlib.suppress(OSError):
                        os.remove(path)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process knows the folder and does not own it.
        return _borrowed, (self.path,)

    def file(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return os.path.join(self.path, name)


def _remove_abandoned(folder: str) -> None:
    """Remove scratch folders of processes of this host that are gone, but for those of runs that can go on."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            owner = _owner(path) if name.startswith(_PREFIX) else {}
            if owner and lives(owner) is False and not _goes_on(owner.get("checkpoint"), name.removeprefix(_PREFIX)):
                _remove(path)
            elif name.startswith(_PREFIX) and not owner and time.time() - os.stat(path).st_mtime > _UNSIGNED:
                with contextlib.suppress(OSError):
                    os.rmdir(path)  # empty: its process was killed before it signed, or behind the last file


def _remove(path: str) -> None:
    """Remove a folder, and last what says whose it is: if we are killed meanwhile, the next one knows."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            inside = os.path.join(path, name)
            if os.path.isdir(inside):
                shutil.rmtree(inside, ignore_errors=True)
            elif name != _OWNER:
                os.remove(inside)
    shutil.rmtree(path, ignore_errors=True)


def _owner(path: str) -> dict[str, Any]:
    try:
        with open(os.path.join(path, _OWNER), encoding="utf-8") as file:
            owner = json.load(file)
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _goes_on(checkpoint: Any, run: str) -> bool:
    """Say whether there is a checkpoint of the run that a folder belongs to; of one at a URL that is not known.

    A run that was killed before it wrote its number there is another one when it is begun again.
    """
    if not isinstance(checkpoint, str):
        return False
    if "://" in checkpoint:
        return True
    try:
        with open(os.path.join(checkpoint, "zarr.json"), encoding="utf-8") as file:
            return run in file.read()
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return False
    except OSError:  # a drive that does not answer
        return True


def _usable(path: str) -> bool:
    """Say whether what a run left in its folder can be believed: not if the host was started anew since."""
    owner = _owner(path)
    return bool(owner) and owner.get("boot") == this_process()["boot"]


def _folder_bytes(path: str) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(folder, name)).st_size
    return total


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
    scratch.path, scratch.run, scratch._finalizer = path, None, None
    return scratch


def write_array(path: str, parts: Iterable[NDArray[Any]]) -> str:
    """Write arrays one behind the other to a file that appears only when complete."""
    partial = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        with open(partial, "wb", buffering=_WRITE_BYTES) as file:
            for part in parts:
                # not tofile, which does not say why it failed
                file.write(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
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
