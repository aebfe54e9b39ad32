"""Compiled loops of the rules that move all centres after every row: DSRPCL and CoRe, two rows in one walk.

Moving a centre costs as much as measuring it, and a walk over all centres costs memory traffic before arithmetic. So
rows go in pairs: one walk moves every centre by both rows of a pair and measures it against both rows of the next. What
the first row of a pair does to the distance of the second needs no walk, but three sides of a triangle (`_move_on`).

The signature is that of `sequential_loops`. Centres and arrays over centres are worked on in copies of whole lanes,
which are aligned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.loops import _compiled as compiled
from .powers import LOG2_E, binary_logarithm, power_of_two

Floats = NDArray[Any]

LANES = 8
FAR = 1e300  # squared distance of the centres that are not there, which fill up the last lanes


@compiled
def _whole_lanes(x: Floats, rest: float) -> Floats:
    """Return a copy of an array, its rows filled up to whole lanes."""
    n = x.shape[-1]
    copy = np.full((*x.shape[:-1], (n + LANES - 1) // LANES * LANES), rest)
    copy[..., :n] = x
    return copy


@compiled
def _take_pair(Y: Floats, i: int, place: int, rows: Floats) -> float:
    """Put rows i and i + 1 (i again, where there is no other) in two places; return their squared distance."""
    after, apart = min(i + 1, Y.shape[0] - 1), 0.0
    for j in range(Y.shape[1]):
        rows[place, j] = Y[i, j]
    for j in range(Y.shape[1]):
        rows[place + 1, j] = Y[after, j]
    for j in range(rows.shape[1]):
        difference = rows[place, j] - rows[place + 1, j]
        apart += difference * difference
    return apart


@compiled
def _walk(
    M: Floats, rows: Floats, old: int, new: int, a: Floats, b: Floats, D: Floats, E: Floats, r: float, scale: Floats
) -> int:
    """Move all centres by the old pair of rows, by a and b, and fill their squared distances D and E to the new one.

    Returns the nearest to the first of the new pair, by ``scale (D + r)``.
    """
    least, nearest = np.inf, 0
    for k in range(M.shape[0]):
        by_first, by_second, first, second = a[k], b[k], 0.0, 0.0
        for j in range(M.shape[1]):
            moved = M[k, j] + by_first * (rows[old, j] - M[k, j])
            moved += by_second * (rows[old + 1, j] - moved)
            M[k, j] = moved
            difference = rows[new, j] - moved
            first += difference * difference
            difference = rows[new + 1, j] - moved
            second += difference * difference
        D[k], E[k] = first, second
        cost = scale[k] * (first + r)
        nearer = cost < least
        least, nearest = cost if nearer else least, k if nearer else nearest
    return nearest


@compiled
def _move_on(D: Floats, E: Floats, a: Floats, apart: float, n_centres: int, r: float, scale: Floats) -> int:
    """Make the distances E of the second row what they are when the first row, at D, has moved the centres by a.

    Stewart's theorem: ``|z - (m + a (y - m))|^2 = (1 - a) |z - m|^2 + a |z - y|^2 - a (1 - a) |y - m|^2``.
    Returns the nearest to the second row.
    """
    least, nearest = np.inf, 0
    for k in range(n_centres):
        E[k] = max(0.0, (1.0 - a[k]) * (E[k] - a[k] * D[k]) + a[k] * apart)
        cost = scale[k] * (E[k] + r)
        nearer = cost < least
        least, nearest = cost if nearer else least, k if nearer else nearest
    return nearest


@compiled
def distance_sensitive(
    Y: Floats, r: Floats, rates: Floats, numbers: Floats, M: Floats, n: Floats, extra: Floats
) -> None:
    """DSRPCL (Ma and Wang 2006): all but the nearest are pushed away, by ``d^(-P-2)``.

    ``numbers[0]`` is P.
    """
    power, none, ones = -0.5 * numbers[0] - 1.0, np.zeros(len(M)), np.ones(len(M))
    centres, rows = _whole_lanes(M, 0.0), _whole_lanes(np.zeros((4, M.shape[1])), 0.0)
    D, E, a, b = _whole_lanes(none, FAR), _whole_lanes(none, FAR), _whole_lanes(none, 0.0), _whole_lanes(none, 0.0)
    old, new = 2, 0
    for i in range(0, Y.shape[0], 2):
        apart = _take_pair(Y, i, new, rows)
        winner = _walk(centres, rows, old, new, a, b, D, E, r[i], ones)
        _push(D, r[i], rates[i], power, winner, a)
        n[winner] += 1
        b[:] = 0.0
        if i + 1 < Y.shape[0]:
            winner = _move_on(D, E, a, apart, len(M), r[i + 1], ones)
            _push(E, r[i + 1], rates[i + 1], power, winner, b)
            n[winner] += 1
        old, new = new, old
    _walk(centres, rows, old, old, a, b, D, E, 0.0, ones)
    M[:] = centres[:, : M.shape[1]]


@compiled
def _push(D: Floats, r: float, rate: float, power: float, winner: int, a: Floats) -> None:
    """Fill by how much a row at distances D moves the centres: the nearest towards it, all others away from it."""
    for k in range(D.shape[0]):
        push = -power_of_two(power * binary_logarithm(max(1.0, D[k] + r)))  # d^(-P - 2), and at most 1
        a[k] = rate * (1.0 if k == winner else push)


@compiled
def repetition_suppressed(
    Y: Floats, r: Floats, rates: Floats, numbers: Floats, M: Floats, n: Floats, extra: Floats
) -> None:
    """CoRe (Bacciu and Starita 2008): units that answer a row well learn it, the others unlearn it.

    ``numbers`` are the threshold of winning, the strength of suppression, the rate of widths relative to that of
    centres, and the least width; ``extra[:, 0]`` are the widths.
    """
    none = np.zeros(len(M))
    centres, rows = _whole_lanes(M, 0.0), _whole_lanes(np.zeros((4, M.shape[1])), 0.0)
    D, E, a, b = _whole_lanes(none, FAR), _whole_lanes(none, FAR), _whole_lanes(none, 0.0), _whole_lanes(none, 0.0)
    scale, total = _whole_lanes(extra[:, 0] ** -2.0, 1.0), n.sum()
    old, new = 2, 0
    for i in range(0, Y.shape[0], 2):
        apart = _take_pair(Y, i, new, rows)
        best = _walk(centres, rows, old, new, a, b, D, E, r[i], scale)
        total += _answer(D, r[i], rates[i], numbers, best, n, total, scale, a)
        b[:] = 0.0
        if i + 1 < Y.shape[0]:
            best = _move_on(D, E, a, apart, len(M), r[i + 1], scale)
            total += _answer(E, r[i + 1], rates[i + 1], numbers, best, n, total, scale, b)
        old, new = new, old
    _walk(centres, rows, old, old, a, b, D, E, 0.0, scale)
    M[:] = centres[:, : M.shape[1]]
    if numbers[2] > 0:
        extra[:, 0] = scale[: len(M)] ** -0.5


@compiled
def _answer(
    D: Floats, r: float, rate: float, numbers: Floats, best: int, n: Floats, total: float, scale: Floats, a: Floats
) -> float:
    """Fill by how much a row at distances D moves the units; count wins and change widths, ``scale^(-1/2)``.

    `total` is the sum of all wins so far. Returns the number of winners.
    """
    threshold, strength, width_rate, least_width = numbers[0], numbers[1], numbers[2], numbers[3]
    for k in range(D.shape[0]):
        a[k] = power_of_two(-0.5 * LOG2_E * scale[k] * (D[k] + r))  # phi = exp(-d^2 / 2 sigma^2)
    suppression, n_winners = 0.0, 0.0
    for k in range(len(n)):
        won = 1.0 if a[k] >= threshold or k == best else 0.0
        suppression += won * n[k] * a[k]
        n_winners += won
        n[k] += won
    suppression *= strength / (total * n_winners)
    for k in range(D.shape[0]):
        penalty = -min(1.0, (a[k] * suppression) ** 2)
        a[k] = rate * (a[k] if a[k] >= threshold or k == best else penalty)
    if width_rate > 0:
        for k in range(D.shape[0]):
            width = scale[k] ** -0.5 * (1.0 + width_rate * a[k] * scale[k] * (D[k] + r))
            scale[k] = max(least_width, width) ** -2.0
    return n_winners
