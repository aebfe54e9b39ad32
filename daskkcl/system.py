"""What the machine offers and what the process uses: memory, cores, and the threads of BLAS."""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import InvalidInputError

__all__ = [
    "Buffers",
    "Weighed",
    "available_bytes",
    "cpu_count",
    "format_bytes",
    "free_pages",
    "held_bytes",
    "parse_bytes",
    "peak_bytes",
    "return_large_arrays",
    "resident_bytes",
    "settled_bytes",
    "single_threaded",
    "version",
]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_bytes(size: str | int | float) -> int:
    """Read a size such as ``"512MiB"``, ``"2 GB"`` or a number of bytes.

    Examples
    --------
    >>> parse_bytes("512MiB"), parse_bytes("1.5 GB"), parse_bytes(1024)
    (536870912, 1500000000, 1024)
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?i?)b?\s*", size.lower())
        if match and match[2] in _UNITS:
            with contextlib.suppress(ValueError):
                n_bytes = int(float(match[1]) * _UNITS[match[2]])
                if n_bytes > 0:
                    return n_bytes
    elif isinstance(size, numbers.Real) and not isinstance(size, bool) and 1 <= size < math.inf:
        return int(size)
    raise InvalidInputError(f"{size!r} is not a memory size; write for example '512MiB', '2GB' or a number of bytes.")


def format_bytes(n: int | float) -> str:
    """Write a number of bytes for people.

    Examples
    --------
    >>> format_bytes(536870912), format_bytes(1500)
    ('512.0 MiB', '1.5 KiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n) < 1024:
            return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"


def _status_bytes(field: str) -> int | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return None


def resident_bytes() -> int:
    """Return the memory this process occupies now."""
    import psutil

    return _status_bytes("VmRSS:") or psutil.Process().memory_info().rss


def peak_bytes() -> int:
    """Return the most memory this process ever occupied (VmHWM on Linux)."""
    import resource
    import sys

    # ru_maxrss survives exec: a child starts with its parent's peak, so prefer VmHWM.
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status_bytes("VmHWM:") or (used if sys.platform == "darwin" else used * 1024)


def available_bytes() -> int:
    """Return what is free on the machine, or in this process's control group if that is less."""
    import psutil

    free = [psutil.virtual_memory().available]
    for limit, usage in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            free.append(max(0, int(Path(limit).read_text()) - int(Path(usage).read_text())))
    return min(free)


def cpu_count() -> int:
    """Return the number of cores we may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def version() -> str:
    """Return the version of daskkcl that is installed."""
    from importlib import metadata

    try:
        return metadata.version("daskkcl")
    except metadata.PackageNotFoundError:
        return "0+unknown"


_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1  # of mallopt
_MIB = 2**20


def return_large_arrays(room_bytes: int = 0, chunk_bytes: int = 0, spare_bytes: int = 0) -> None:
    """Make the C library give back memory of freed arrays, but for that of a chunk of the data where there is room.

    What was planned for it, `spare_bytes`, stays in any case: blocks come and go, and fresh memory costs as much as
    reading them.

    glibc raises its threshold for that by itself (to 32 MiB) and then keeps freed arrays in the arena of every thread:
    the process of a streaming run then grows to half as much again. Where memory is tight, arrays of 512 KiB and more
    go back at once, and the next one costs a page fault for every four kibibytes: reading takes twice as long. Where
    there is room, all threads share one arena, which keeps some 20 MiB more than what may be free at its end. Called
    for runs with a memory limit only, because it holds for the rest of the process.
    """
    import ctypes

    options = {_MMAP_THRESHOLD: _MIB // 2, _TRIM_THRESHOLD: _MIB // 2}
    if room_bytes >= 32 * _MIB:
        # It is held encoded and decoded. What is larger than 32 MiB goes back whatever is said here.
        free = max(8 * _MIB, spare_bytes, min(2 * chunk_bytes, room_bytes - 24 * _MIB, 64 * _MIB))
        options = {_ARENA_MAX: 1, _MMAP_THRESHOLD: 32 * _MIB, _TRIM_THRESHOLD: free}
    with contextlib.suppress(OSError, AttributeError):  # not glibc: nothing to set
        library = ctypes.CDLL(None)
        for option, value in options.items():
            library.mallopt(option, value)


def settled_bytes() -> int:
    """Return the resident size of the process after the C library gave back what is free.

    What an earlier run left in its arenas is used again by the next one, and would be counted twice.
    """
    _give_back()
    return resident_bytes()


def _give_back() -> None:
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


class _FreePages:
    """Gives back free memory when the process has grown to a ceiling.

    Blocks of different sizes come and go on several threads, and leave holes that the next ones do not fit into: over
    hundreds of blocks a process grows by a tenth. To look for free pages takes milliseconds, and those that are wanted
    again have to be fetched again, so it is done only near what was planned.
    """

    _LOOK, _WAIT = 0.05, 1.0  # seconds between looks, and after pages were given back

    def __init__(self) -> None:
        self._ceiling, self._next = math.inf, 0.0

    def keep_below(self, ceiling_bytes: float) -> None:
        """Say from where on free memory goes back; infinity: never."""
        self._ceiling = ceiling_bytes

    def look(self) -> None:
        """See whether it has come to that."""
        now = time.monotonic()
        if self._ceiling < math.inf and now >= self._next:
            full = resident_bytes() >= self._ceiling
            if full:
                _give_back()
            self._next = now + (self._WAIT if full else self._LOOK)


free_pages = _FreePages()


class Buffers:
    """Arrays that are used again, by any thread.

    Fresh memory costs a page fault for every four kibibytes when it is first written to, and where large arrays go
    back to the system (`return_large_arrays`) every array is fresh: filling one then takes three times as long.
    There are never more buffers than were in use together, and they go when this object does.

    Examples
    --------
    >>> import numpy as np
    >>> buffers = Buffers()
    >>> first = buffers.take((2, 3), np.float32)
    >>> place = first.ctypes.data
    >>> buffers.give(first)
    >>> buffers.take((3, 2), np.float32).ctypes.data == place
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[Any] = []
        # by where their memory begins; what is dropped and not given back is simply gone
        self._used: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def take(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array of no particular content."""
        import numpy as np

        dtype = np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        with self._lock:
            fits = [buffer for buffer in self._free if buffer.nbytes >= size]
            if fits:
                flat = min(reversed(fits), key=lambda buffer: buffer.nbytes)  # the last one back is still in cache
                self._free = [buffer for buffer in self._free if buffer is not flat]
            else:
                self._free = self._free[1:]  # too small for what is wanted now: make room
                flat = np.empty(size, dtype=np.uint8)
            self._used[flat.ctypes.data] = flat
        return flat[:size].view(dtype).reshape(shape)

    def give(self, array: Any) -> None:
        """Take back an array (the whole of it, or its beginning) that nobody will look at again; others are ignored."""
        with self._lock:
            flat = self._used.pop(array.ctypes.data, None)
            if flat is not None:
                self._free.append(flat)

    def __reduce__(self) -> tuple[Any, ...]:
        return Buffers, ()


class _BlasCap:
    """Hold BLAS to one thread while anybody asks for it.

    The limit is process-wide, and tasks of several dask threads overlap: the first to enter sets it, the last
    to leave restores it. One thread per task, because dask already runs a task on every core, and because sums
    must not depend on how BLAS would have divided them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._limiter: Any = None
        self._libraries: Any = None
        self._modules = 0

    def _limit(self) -> Any:
        """Set the limit; libraries are looked up again (three milliseconds) when modules have been loaded since."""
        from threadpoolctl import ThreadpoolController

        if self._libraries is None or self._modules != len(sys.modules):
            self._libraries, self._modules = ThreadpoolController(), len(sys.modules)
        return self._libraries.limit(limits=1)

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._holders == 0:
                import numpy as np  # noqa: F401  (its BLAS must be loaded to be capped)
                import scipy.linalg  # noqa: F401

                _take_openblas()
                self._limiter = self._limit()
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if self._holders == 0:
                    _take_openblas()
                    self._limiter.restore_original_limits()
                    self._limiter = None
                    _take_openblas()


def _take_openblas() -> None:
    """Let this thread set limits. From 3.7 or so threadpoolctl obeys only the thread that did so first; others' calls
    do nothing and say nothing. Here the threads are counted, so whoever comes first or goes last may.
    """
    from threadpoolctl import OpenBLASController

    take = getattr(OpenBLASController, "clear_controlling_thread", None)
    if take is not None:
        take(force=True)


single_threaded = _BlasCap()


def held_bytes(value: Any) -> int:
    """Return the memory of a value: of arrays, of lists of them, and of what objects of ours are made of.

    Examples
    --------
    >>> import numpy as np
    >>> held_bytes([np.zeros(1000), (np.zeros(10, dtype="float32")[:5], None)])
    8020
    """
    if value is None or isinstance(value, Buffers):  # which stay where they are
        return 0
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, (list, tuple)):
        return sum(map(held_bytes, value))
    if type(value).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return sum(map(held_bytes, getattr(value, "__dict__", {}).values()))
    return sys.getsizeof(value)


class Weighed:
    """What tasks return and others need: it tells how large it is, with its arrays.

    Python counts an object without what it refers to. The scheduler of a cluster would take a block of measurements
    for some fifty bytes, and send the block to the work instead of the work to the block.
    """

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + held_bytes(self)
