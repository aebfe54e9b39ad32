"""Locks: one run at a time writes to a result or goes on from a checkpoint.

On a local disk the lock is the operating system's (`flock`), which ends with its process however that ends. Where the
system has no locks, at URLs, and between hosts that do not share them, the lock is a small record of its owner, whose
time is renewed: it counts while its process lives, or, on another host, while its time is recent.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..errors import InUseError
from .sources import local_path

try:
    import fcntl
except ImportError:  # not Unix: records of owners must do
    fcntl = None  # type: ignore[assignment]

__all__ = ["Lock", "lives", "this_process"]

_RENEWED = 30.0  # seconds between renewals
_RECENT = 300.0  # an owner on another host whose record is older is taken for gone


def this_process() -> dict[str, Any]:
    """Return what tells this process from all others, of any host and of any time."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "boot": _boot(), "pid": pid, "began": _began(pid)}


def _began(pid: int) -> float:
    """Return when a process began: on Linux in ticks since the host was started, which setting the clock leaves alone.

    psutil adds these to when the host was started, by the clock: one that is set, or made to agree with others after a
    sleep, would make strangers of processes that live, and whoever comes next removes their folders.
    """
    import psutil

    with contextlib.suppress(OSError, ValueError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return float(stat.rpartition(")")[2].split()[19])
    return psutil.Process(pid).create_time()


def _boot() -> str:
    """Return what changes when the host is started anew."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    import psutil

    return str(int(psutil.boot_time()))


def lives(owner: dict[str, Any]) -> bool | None:
    """Say whether the process of a record lives; None when it is another host's.

    Examples
    --------
    >>> lives(this_process()), lives({**this_process(), "host": "elsewhere", "boot": ""})
    (True, None)
    """
    import psutil

    if owner.get("boot") != _boot():  # another host, or this one before it was started anew
        return None if owner.get("host") != socket.gethostname() else False
    try:
        # Two containers may share a boot and not their processes: then the host's name tells them apart.
        if owner.get("host") != socket.gethostname():
            return None
        return bool(abs(_began(int(owner["pid"])) - float(owner["began"])) < 1)
    except (psutil.Error, KeyError, TypeError, ValueError):
        return False


class Lock:
    """The right to write at a path or URL, from `with` to its end; a path of None needs none.

    Parameters
    ----------
    path : path, URL or None
    what : str
        What stands there, for the error.
    storage_options : dict, optional
        For URLs.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/result.zarr"
    >>> with Lock(path, "the output"):
    ...     try:
    ...         Lock(path, "the output").take()
    ...     except InUseError:
    ...         print("refused")
    refused
    """

    def __init__(self, path: Any, what: str, storage_options: dict[str, Any] | None = None) -> None:
        self.what = what
        self.path = None if path is None else local_path(str(os.fspath(path)))
        remote = self.path is not None and "://" in self.path
        self._options = (storage_options or {}) if remote else None
        self._record: dict[str, Any] = {}
        self._descriptor: int | None = None
        self._mutex, self._given_back = threading.Lock(), threading.Event()
        self._renewing: threading.Thread | None = None

    @property
    def file(self) -> str:
        """Where the lock stands."""
        assert self.path is not None
        return f"{self.path.rstrip('/')}.lock"

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def take(self) -> None:
        """Take the lock, or say who has it."""
        if self.path is None:
            return
        self._record = {**this_process(), "token": os.urandom(8).hex(), "time": time.time()}
        if self._options is None:
            self._take_file()
        else:
            self._take_record()
        self._renewing = threading.Thread(target=self._renew, name="daskkcl-lock", daemon=True)
        self._renewing.start()

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._renewing is None or self._given_back.is_set():
            return
        self._given_back.set()
        with self._mutex, contextlib.suppress(OSError):
            if self._descriptor is not None:
                os.unlink(self.file)
                os.close(self._descriptor)  # after that it may be another's
                self._descriptor = None
            elif self._read().get("token") == self._record["token"]:
                self._remote().rm_file(self._remote_path)

    # --- files -----------------------------------------------------------------------------------------------

    def _take_file(self) -> None:
        while True:
            descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                owner = self._owner(os.pread(descriptor, 4096, 0))
                alone = self._flock(descriptor)
                if alone is False or (alone is None and owner and self._counts(owner)):
                    raise self._refused(owner)
                if owner and lives(owner) is None and self._counts(owner):  # a host that does not share our locks
                    raise self._refused(owner)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.stat(self.file), os.fstat(descriptor)):
                        break
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # its owner gave it back while we took it: another file may stand there now
        self._descriptor = descriptor
        self._write()

    @staticmethod
    def _flock(descriptor: int) -> bool | None:
        """Take the system's lock of a file: True, or False when another has it, or None where there are none."""
        if fcntl is None:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True

    # --- records ---------------------------------------------------------------------------------------------

    def _take_record(self) -> None:
        owner = self._read()
        if owner and self._counts(owner):
            raise self._refused(owner)
        self._write()
        owner = self._read()  # of two that found it free the later one has it
        if owner.get("token") != self._record["token"]:
            raise self._refused(owner)

    def _remote(self) -> Any:
        from fsspec.core import url_to_fs

        fs, self._remote_path = url_to_fs(self.file, **(self._options or {}))
        return fs

    def _read(self) -> dict[str, Any]:
        fs = self._remote()
        try:
            fs.invalidate_cache()
            return self._owner(fs.cat_file(self._remote_path))
        except FileNotFoundError:
            return {}

    def _write(self) -> None:
        data = json.dumps(self._record).encode()
        if self._descriptor is not None:
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))
        else:
            self._remote().pipe_file(self._remote_path, data)

    @staticmethod
    def _owner(data: bytes) -> dict[str, Any]:
        try:
            owner = json.loads(data)
        except ValueError:
            return {}
        return owner if isinstance(owner, dict) else {}

    @staticmethod
    def _counts(owner: dict[str, Any]) -> bool:
        alive = lives(owner)
        if alive is None:
            written = owner.get("time")
            return isinstance(written, (int, float)) and time.time() - written < _RECENT
        return alive

    def _renew(self) -> None:
        while not self._given_back.wait(_RENEWED):
            with self._mutex, contextlib.suppress(Exception):
                if not self._given_back.is_set():
                    self._record["time"] = time.time()
                    self._write()

    def _refused(self, owner: dict[str, Any]) -> InUseError:
        who = f"process {owner['pid']} on {owner['host']}" if {"pid", "host"} <= set(owner) else "another process"
        return InUseError(
            f"{self.path!r} is in use: {who} writes {self.what} there. Wait until it is done, or choose another path."
            f" (If no such run is left, remove {self.file!r}.)"
        )
