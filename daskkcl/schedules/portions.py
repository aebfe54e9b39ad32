"""The rows of an epoch in random order: which row stands at a place, and the rows at any places."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.shuffle import Shuffled
from ..blocks.sources import ArraySource
from ..kernels.rows import SparseRows, join_blocks
from ..random import FixedOrder, Key

__all__ = ["Places", "Portions"]

_STRIP_PLACES = 2**14  # of the random order, computed at once


@dataclass(frozen=True, eq=False)
class Places:
    """Which row of the data stands at a place of the random order."""

    lasting = True
    key: Key | FixedOrder
    n_rows: int
    _strips: dict[int, NDArray[np.int64]] = field(default_factory=dict)  # the latest two

    def row_number(self, position: int) -> int:
        """Return the number in the data of the row at a position of the random order."""
        return int(self.numbers(position, position + 1)[0])

    def numbers(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the numbers in the data of the rows at some positions of the random order."""
        if stop - start >= _STRIP_PLACES:
            return self.key.rows(self.n_rows, start, stop)
        first, last = start // _STRIP_PLACES, (stop - 1) // _STRIP_PLACES
        numbers = np.concatenate([self._strip(strip) for strip in range(first, last + 1)])
        return numbers[start - first * _STRIP_PLACES :][: stop - start]

    def _strip(self, strip: int) -> NDArray[np.int64]:
        """Return the numbers of many places: they cost little more than those of a few."""
        found = self._strips.get(strip)
        if found is None:
            start = strip * _STRIP_PLACES
            found = self.key.rows(self.n_rows, start, min(self.n_rows, start + _STRIP_PLACES))
            self._strips[strip] = found
            for old in sorted(self._strips.copy())[:-2]:
                self._strips.pop(old, None)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Places, (self.key, self.n_rows)


class Portions:
    """The rows of an epoch in random order, any of them: gathered from memory, or from an external shuffle.

    Parameters
    ----------
    source : ArraySource or Shuffled
    key : Key or FixedOrder
        Of the order.
    n_rows : int
    """

    def __init__(self, source: ArraySource | Shuffled, key: Key | FixedOrder, n_rows: int) -> None:
        self.source, self.key, self.n_rows = source, key, n_rows
        self.places = Places(key, n_rows)
        self._lock = threading.Lock()
        self._held: dict[int, _Bucket] = {}  # the last two: neighbouring parts are mostly in the same

    def __reduce__(self) -> tuple[Any, ...]:
        return Portions, (self.source, self.key, self.n_rows)

    def numbers(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the numbers of the rows at places `start` to `stop`."""
        return self.places.numbers(start, stop)

    def rows(self, start: int, stop: int) -> Any:
        """Return the rows at places `start` to `stop`."""
        if isinstance(self.source, ArraySource):
            return self.source.array[self.numbers(start, stop)]
        size, parts = self.source.bucket_rows, []
        for bucket in range(start // size, -(-stop // size)):
            first = bucket * size
            parts.append(self._bucket(bucket, self.source)[max(0, start - first) : stop - first])
        if len(parts) == 1:
            return parts[0]
        return join_blocks(parts) if isinstance(parts[0], SparseRows) else np.concatenate(parts)

    @property
    def fetched_rows(self) -> int:
        """How many places `fetch` gets ready at once."""
        return self.source.bucket_rows if isinstance(self.source, Shuffled) else _STRIP_PLACES

    def fetch(self, number: int) -> None:
        """Get some places ready, those of a bucket: whoever asks for rows of it then does not wait."""
        if isinstance(self.source, Shuffled):
            self._bucket(number, self.source)
        else:
            self.places.numbers(number * _STRIP_PLACES, number * _STRIP_PLACES + 1)

    def _bucket(self, number: int, shuffled: Shuffled) -> Any:
        with self._lock:
            if number not in self._held:
                while len(self._held) > 1:
                    del self._held[next(iter(self._held))]
                self._held[number] = _Bucket()
            bucket = self._held[number]
        with bucket.lock:  # one reads, and others who want the same wait for it
            if bucket.rows is None:
                bucket.rows = shuffled.bucket(number)
            return bucket.rows


class _Bucket:
    def __init__(self) -> None:
        self.lock, self.rows = threading.Lock(), None
