"""Reading ahead: the next rows of a store come on a thread beside, while these are worked on."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from .sources import read_rows

__all__ = ["ReadAhead"]


class ReadAhead:
    """Reads rows of an array, some of them on a thread beside, before they are asked for.

    Tasks that read are ready early, and dask leaves them until others have nothing to do: then all wait for one.
    """

    def __init__(self, array: Any) -> None:
        self._array, self._lock = array, threading.Lock()
        self._begun: tuple[int, Future[Any]] | None = None  # one at a time: where it starts
        self._asked = -1  # rows from there on have not been asked for yet

    def begin(self, start: int, stop: int) -> None:
        """Read rows that will be asked for, unless they have been. Others that nobody asked for are forgotten."""
        with self._lock:
            if start < self._asked or (self._begun is not None and self._begun[0] == start):
                return
            found: Future[Any] = Future()
            self._begun = start, found
        try:
            threading.Thread(target=self._read, args=(start, stop, found), daemon=True).start()
        except RuntimeError:  # no more threads
            self._read(start, stop, found)

    def _read(self, start: int, stop: int, found: Future[Any]) -> None:
        try:
            found.set_result(read_rows(self._array, start, stop))
        except BaseException as error:
            found.set_exception(error)

    def read(self, start: int, stop: int) -> Any:
        """Return rows, once."""
        with self._lock:
            self._asked, begun = max(self._asked, stop), self._begun
            if begun is not None and begun[0] <= start:
                self._begun = None
        if begun is None or begun[0] != start:
            return read_rows(self._array, start, stop)
        return begun[1].result()
