"""What can go wrong, and what to do about it: every exception that daskkcl raises on purpose."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from typing import Any

__all__ = [
    "CheckpointError",
    "ClusterError",
    "ConvergenceWarning",
    "DaskkclError",
    "DaskkclWarning",
    "DegenerateKernelError",
    "InUseError",
    "InvalidInputError",
    "KilledWorkerError",
    "LostSchedulerError",
    "MemoryLimitError",
    "MissingChunkError",
    "NotOfferedError",
    "OutputError",
    "PlaceError",
    "StorageError",
    "Terminated",
    "WrongTypeError",
    "did_you_mean",
    "near_path",
    "reason",
]


class DaskkclError(Exception):
    """Base class of all errors raised on purpose by daskkcl.

    Examples
    --------
    >>> from daskkcl.errors import DaskkclError, MemoryLimitError
    >>> issubclass(MemoryLimitError, DaskkclError)
    True
    """


class InvalidInputError(DaskkclError, ValueError):
    """The data or a parameter cannot be used; the message says which and what to pass instead."""


class WrongTypeError(InvalidInputError, TypeError):
    """What was passed is not a table of numbers: sparse, text, or objects."""


class NotOfferedError(InvalidInputError, AttributeError):
    """The method does not go with the parameters; to `hasattr` it is not there."""


class DegenerateKernelError(InvalidInputError):
    """The kernel matrix carries no information (all ones, or the identity): the width is wrong."""


class MemoryLimitError(DaskkclError, MemoryError):
    """No plan fits the memory limit. Raised before any data are read.

    Attributes
    ----------
    needed_bytes, allowed_bytes : int
        The smallest plan found, and the limit it was held against.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> try:
    ...     daskkcl.fit(np.zeros((1000, 8)), "akkmeans", n_clusters=2, memory_limit="1MiB")
    ... except daskkcl.MemoryLimitError as error:
    ...     print(error.allowed_bytes)
    1048576
    """

    def __init__(self, message: str, needed_bytes: int = 0, allowed_bytes: int = 0) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.allowed_bytes = allowed_bytes


class StorageError(DaskkclError, OSError):
    """A chunk, a scratch file or a saved model cannot be read or written; the message names it."""


class MissingChunkError(StorageError):
    """A chunk is absent where absence was refused (``missing="raise"``, or a store of our own)."""


class OutputError(StorageError):
    """The output exists already, or cannot be written."""


class PlaceError(OutputError, InvalidInputError):
    """The output may not be written there, or would replace something else; raised before any data are read."""


class InUseError(StorageError):
    """Another run writes to the same output or checkpoint; the message says which."""


class CheckpointError(DaskkclError, ValueError):
    """A checkpoint belongs to another run, or is damaged."""


class ClusterError(DaskkclError, RuntimeError):
    """The cluster cannot go on with the run; the message says why and how to go on."""


class LostSchedulerError(ClusterError):
    """The connection to the scheduler is gone, and with it the round that was being computed."""


class KilledWorkerError(ClusterError):
    """The same rows have killed one worker after another.

    Attributes
    ----------
    rows : tuple of int or None
        The first of them and the one behind the last, in the data; of an algorithm that meets rows in random order
        None. Several blocks that every dead worker had are all meant: the message tells them apart.
    row_numbers : ndarray or None
        The numbers of all of them, if they are no neighbours.
    """

    def __init__(self, message: str, rows: tuple[int, int] | None = None, row_numbers: Any = None) -> None:
        super().__init__(message)
        self.rows, self.row_numbers = rows, row_numbers


class Terminated(SystemExit):
    """SIGTERM ended a run that has a checkpoint: the process leaves with exit code 143, and the same call goes on."""

    def __init__(self, message: str = "") -> None:
        super().__init__(143)  # what a shell says of a process that SIGTERM ended
        self.message = message

    def __str__(self) -> str:
        return self.message


class DaskkclWarning(UserWarning):
    """Base class of the warnings: the run went on, and something deserves a look."""


class ConvergenceWarning(DaskkclWarning):
    """The result is usable, but the algorithm stopped for another reason than convergence."""


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the option nearest to `name`, upper or lower case, or an empty string.

    Examples
    --------
    >>> did_you_mean("rfb", ["rbf", "linear"])
    " Did you mean 'rbf'?"
    >>> did_you_mean("zzz", ["rbf", "linear"])
    ''
    """
    by_lower = {option.lower(): option for option in options}
    near = difflib.get_close_matches(str(name).lower(), list(by_lower), n=1, cutoff=0.5)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def near_path(path: str) -> str:
    """Return `` Did you mean 'x'?`` for a path at which there is nothing, if something beside it has a like name."""
    folder = os.path.dirname(os.path.abspath(path))
    return did_you_mean(os.path.basename(path), os.listdir(folder)) if os.path.isdir(folder) else ""


def reason(error: BaseException) -> str:
    """Return why something could not be written: permissions without the name of a file that only we know of.

    Examples
    --------
    >>> reason(PermissionError(13, "Permission denied", "/data/x.zarr.lock"))
    'permission denied'
    """
    return "permission denied" if isinstance(error, PermissionError) else str(error)
