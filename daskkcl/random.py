"""Randomness keyed by seed and global row number, so that neither chunks nor workers change a draw.

A `Key` is a seed plus a path of purposes. From it come uniform numbers addressed by counters, and a keyed
permutation of the rows that is a *function*: the row at any position of the shuffled order is computed without the
rest, in constant memory. A uniform sample of k rows is the first k positions of that order; a shuffle walks
through all of them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["FixedOrder", "Key", "as_key"]

_STRIP = 1 << 12
_TABLE = 1 << 16  # numbers of a table
_TABLE_BITS, _LOOKED_UP = 16, 256  # bits of a half, at most; numbers permuted at once, at least
_ROUNDS = 6  # Feistel rounds; four already pass for pseudo-random, two more cost little
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words (the finaliser of the SplitMix64 generator)."""
    x = x ^ (x >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x = x ^ (x >> np.uint64(27))
    x = x * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class Key:
    """A seed and what it is for; equal keys give equal draws in any process on any machine.

    Parameters
    ----------
    seed : int
        The user's ``random_state``.
    path : tuple of str
        What the draw is for. Different paths are independent.

    Examples
    --------
    >>> key = Key(0).child("landmarks")
    >>> key.rows(1_000_000, 0, 3)
    array([945414, 515492, 621214])
    >>> key.uniform([7, 8]).round(3)
    array([0.298, 0.326])
    """

    seed: int
    path: tuple[str, ...] = ()

    def child(self, *purpose: object) -> Key:
        """Return the key of a more special purpose."""
        return Key(self.seed, (*self.path, *map(str, purpose)))

    def _words(self, count: int) -> NDArray[np.uint64]:
        text = "\x1f".join((str(self.seed), *self.path)).encode()
        digest = b"".join(
            blake2b(text, digest_size=64, salt=i.to_bytes(8, "little")).digest() for i in range((count + 7) // 8)
        )
        return np.frombuffer(digest, dtype="<u8")[:count].astype(np.uint64)

    def generator(self) -> np.random.Generator:
        """Return a numpy generator, for small draws made in one place (seeding on a sample)."""
        return np.random.Generator(np.random.PCG64([int(w) for w in self._words(4)]))

    def hashes(self, counters: ArrayLike) -> NDArray[np.uint64]:
        """Return a 64-bit hash of every counter (a global row number, mostly)."""
        counters = np.asarray(counters, dtype=np.uint64)
        a, b = self._words(2)
        with np.errstate(over="ignore"):
            return _mix(_mix(counters * _GOLDEN + a) + b)

    def uniform(self, counters: ArrayLike) -> NDArray[np.float64]:
        """Return a uniform number in [0, 1) for every counter."""
        return (self.hashes(counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, counters: ArrayLike, high: int) -> NDArray[np.int64]:
        """Return an integer in [0, high) for every counter."""
        return np.minimum((self.uniform(counters) * high).astype(np.int64), high - 1)

    def rows(self, n: int, start: int, stop: int) -> NDArray[np.int64]:
        """Return the rows at positions `start` to `stop` of this key's random order of n rows."""
        return _permute(np.arange(start, stop, dtype=np.uint64), n, self._words(_ROUNDS), inverse=False)

    def positions(self, n: int, rows: ArrayLike) -> NDArray[np.int64]:
        """Return where the given rows stand in this key's random order: the inverse of `rows`."""
        return _permute(np.asarray(rows, dtype=np.uint64), n, self._words(_ROUNDS), inverse=True)


class FixedOrder:
    """A given order of the rows, where a key's random order would stand: 16 bytes a row.

    Examples
    --------
    >>> order = FixedOrder([2, 0, 1])
    >>> order.rows(3, 1, 3), order.positions(3, [2, 1])
    (array([0, 1]), array([0, 2]))
    """

    path = ("given",)

    def __init__(self, order: ArrayLike) -> None:
        self._rows = np.array(order, dtype=np.int64)
        self._positions = np.empty_like(self._rows)
        self._positions[self._rows] = np.arange(len(self._rows))

    def rows(self, n: int, start: int, stop: int) -> NDArray[np.int64]:
        """Return the rows at positions `start` to `stop`."""
        return self._rows[start:stop]

    def positions(self, n: int, rows: ArrayLike) -> NDArray[np.int64]:
        """Return where the given rows stand: the inverse of `rows`."""
        return self._positions[np.asarray(rows, dtype=np.int64)]


def _permute(x: NDArray[np.uint64], n: int, keys: NDArray[np.uint64], inverse: bool) -> NDArray[np.int64]:
    """Permute numbers below n by a Feistel network, walking on while a number falls outside."""
    if n <= 1:
        return np.zeros(x.shape, dtype=np.int64)
    half = max(1, (int(n - 1).bit_length() + 1) // 2)
    if (1 << 2 * half) <= min(_TABLE, 4 * x.size):  # all numbers at once, to walk by looking them up
        table = _feistel(np.arange(1 << 2 * half, dtype=np.uint64), half, keys, inverse).astype(np.int64)
        rows: NDArray[np.int64] = table[x]
        while (beyond := np.flatnonzero(rows >= n)).size:
            rows[beyond] = table[rows[beyond]]
        return rows
    result = np.empty(x.shape, dtype=np.uint64)
    for first in range(0, x.size, _STRIP):  # a strip stays in cache while all rounds go over it
        result[first : first + _STRIP] = _feistel(x[first : first + _STRIP], half, keys, inverse)
    outside = np.flatnonzero(result >= np.uint64(n))
    while outside.size:  # fewer than three in four fall outside each time
        walked = _feistel(result[outside], half, keys, inverse)
        result[outside] = walked
        outside = outside[walked >= np.uint64(n)]
    return result.astype(np.int64)


def _feistel(x: NDArray[np.uint64], half_bits: int, keys: NDArray[np.uint64], inverse: bool) -> NDArray[np.uint64]:
    shift, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = x >> shift, x & mask
    if half_bits <= _TABLE_BITS and x.size >= _LOOKED_UP:
        return _looked_up(left, right, half_bits, tuple(keys.tolist()), inverse)
    with np.errstate(over="ignore"):
        for key in keys[::-1] if inverse else keys:
            if inverse:
                left, right = right ^ (_mix(left + key) & mask), left
            else:
                left, right = right, left ^ (_mix(right + key) & mask)
    return (left << shift) | right


def _looked_up(left: Any, right: Any, half_bits: int, keys: tuple[int, ...], inverse: bool) -> NDArray[np.uint64]:
    """Do the same with tables: a half has few values, and looking one up takes a tenth of mixing it."""
    rounds = _rounds(half_bits, keys)
    left, right = left.view(np.int64), right.view(np.int64)
    for values in rounds[::-1] if inverse else rounds:
        if inverse:
            left, right = right ^ values.take(left), left
        else:
            left, right = right, left ^ values.take(right)
    return ((left << half_bits) | right).view(np.uint64)


@functools.lru_cache(maxsize=2)
def _rounds(half_bits: int, keys: tuple[int, ...]) -> list[NDArray[np.int64]]:
    """Return for every round what it makes of each value of a half."""
    halves, mask = np.arange(1 << half_bits, dtype=np.uint64), np.uint64((1 << half_bits) - 1)
    with np.errstate(over="ignore"):
        return [(_mix(halves + np.uint64(key)) & mask).astype(np.int64) for key in keys]


def as_key(random_state: object) -> Key:
    """Make a key from scikit-learn's ``random_state``: None, an integer, a RandomState or a Generator.

    Examples
    --------
    >>> as_key(3)
    Key(seed=3, path=())
    """
    if random_state is None:
        return Key(int(np.random.default_rng().integers(2**63)))
    if isinstance(random_state, np.random.Generator):
        return Key(int(random_state.integers(2**63)))
    if isinstance(random_state, np.random.RandomState):
        return Key(int(random_state.randint(2**31 - 1)))
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool) and random_state >= 0:
        return Key(int(random_state))
    from .errors import InvalidInputError

    raise InvalidInputError(
        f"random_state must be None, a non-negative integer, or a numpy generator; got {random_state!r}."
    )
