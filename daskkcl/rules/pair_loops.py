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
from ..kernels.loops import _inlined as inlined
from .powers import LOG2_E, binary_logarithm, power_of_two, whole_lanes
from .ranks import NOBODY, number_mask, rank

Floats = NDArray[Any]

FAR = 1e300  # squared distance of the centres that are not there, which fill up the last lanes
FAR_AWAY = 1e140  # a coordinate of such a centre
NOTHING = 1e-300  # answers below it are none


@compiled
def _whole_lanes(x: Floats, rest: float) -> Floats:
    """Return a copy of an array, its rows filled up to whole lanes."""
    n = x.shape[-1]
    copy = np.full((*x.shape[:-1], whole_lanes(n)), rest)
    copy[..., :n] = x
    return copy


@compiled
def _pairs_of_centres(M: Floats) -> Floats:
    """Return a copy of the centres, of whole lanes, with one more far from everything if their number is odd."""
    c, q = M.shape
    copy = np.full((c + c % 2, whole_lanes(q)), FAR_AWAY)
    copy[:c] = _whole_lanes(M, 0.0)
    return copy


@inlined
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


@inlined
def _walk(M: Floats, rows: Floats, old: int, new: int, a: Floats, b: Floats, D: Floats, E: Floats) -> None:
    """Move all centres by the old pair of rows, by a and b, and fill their squared distances D and E to the new one.

    Two centres at a time, which share what is read of the rows.
    """
    for k in range(0, M.shape[0], 2):
        l = k + 1
        k_first, k_second, l_first, l_second = a[k] * (1.0 - b[k]), b[k], a[l] * (1.0 - b[l]), b[l]
        k_stay, l_stay = 1.0 - k_first - k_second, 1.0 - l_first - l_second
        D_k, E_k, D_l, E_l = 0.0, 0.0, 0.0, 0.0
        for j in range(M.shape[1]):
            first, second = rows[old, j], rows[old + 1, j]
            m_k = k_stay * M[k, j] + k_first * first + k_second * second
            m_l = l_stay * M[l, j] + l_first * first + l_second * second
            M[k, j], M[l, j] = m_k, m_l
            first, second = rows[new, j], rows[new + 1, j]
            D_k += (first - m_k) * (first - m_k)
            E_k += (second - m_k) * (second - m_k)
            D_l += (first - m_l) * (first - m_l)
            E_l += (second - m_l) * (second - m_l)
        D[k], E[k], D[l], E[l] = D_k, E_k, D_l, E_l


@inlined
def _nearest(D: Floats, r: float, scale: Floats, mask: Any) -> Any:
    """Return the centre of least ``scale (D + r)``."""
    least = NOBODY
    for k in range(D.shape[0]):
        least = min(least, rank(scale[k] * (D[k] + r), k, mask))
    return least & mask


@inlined
def _move_on(D: Floats, E: Floats, a: Floats, apart: float) -> None:
    """Make the distances E of the second row what they are when the first row, at D, has moved the centres by a.

    Stewart's theorem: ``|z - (m + a (y - m))|^2 = (1 - a) |z - m|^2 + a |z - y|^2 - a (1 - a) |y - m|^2``.
    """
    for k in range(D.shape[0]):
        E[k] = max(0.0, (1.0 - a[k]) * (E[k] - a[k] * D[k]) + a[k] * apart)


@compiled
def distance_sensitive(
    Y: Floats, r: Floats, rates: Floats, numbers: Floats, M: Floats, n: Floats, extra: Floats
) -> None:
    """DSRPCL (Ma and Wang 2006): all but the nearest are pushed away, by ``d^(-P-2)``.

    ``numbers[0]`` is P.
    """
    power, none = -0.5 * numbers[0] - 1.0, np.zeros(len(M))
    centres, rows = _pairs_of_centres(M), _whole_lanes(np.zeros((4, M.shape[1])), 0.0)
    D, E, a, b = _whole_lanes(none, FAR), _whole_lanes(none, FAR), _whole_lanes(none, 0.0), _whole_lanes(none, 0.0)
    ones, mask = np.ones(len(D)), number_mask(len(D))
    old, new = 2, 0
    for i in range(0, Y.shape[0], 2):
        apart = _take_pair(Y, i, new, rows)
        _walk(centres, rows, old, new, a, b, D, E)
        winner = _nearest(D, r[i], ones, mask)
        _push(D, r[i], rates[i], power, winner, a)
        n[winner] += 1
        if i + 1 < Y.shape[0]:
            _move_on(D, E, a, apart)
            winner = _nearest(E, r[i + 1], ones, mask)
            _push(E, r[i + 1], rates[i + 1], power, winner, b)
            n[winner] += 1
        else:
            b[:] = 0.0
        old, new = new, old
    _walk(centres, rows, old, old, a, b, D, E)
    M[:] = centres[: len(M), : M.shape[1]]


@inlined
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
    centres, rows = _pairs_of_centres(M), _whole_lanes(np.zeros((4, M.shape[1])), 0.0)
    D, E, a, b = _whole_lanes(none, FAR), _whole_lanes(none, FAR), _whole_lanes(none, 0.0), _whole_lanes(none, 0.0)
    scale, wins, total = _whole_lanes(extra[:, 0] ** -2.0, 1.0), _whole_lanes(n, 0.0), n.sum()
    mask = number_mask(len(D))
    old, new = 2, 0
    for i in range(0, Y.shape[0], 2):
        apart = _take_pair(Y, i, new, rows)
        _walk(centres, rows, old, new, a, b, D, E)
        best = _nearest(D, r[i], scale, mask)
        total += _answer(D, r[i], rates[i], numbers, best, wins, total, scale, a)
        if i + 1 < Y.shape[0]:
            _move_on(D, E, a, apart)
            best = _nearest(E, r[i + 1], scale, mask)
            total += _answer(E, r[i + 1], rates[i + 1], numbers, best, wins, total, scale, b)
        else:
            b[:] = 0.0
        old, new = new, old
    _walk(centres, rows, old, old, a, b, D, E)
    M[:], n[:] = centres[: len(M), : M.shape[1]], wins[: len(n)]
    if numbers[2] > 0:
        extra[:, 0] = scale[: len(M)] ** -0.5


@inlined
def _answer(
    D: Floats, r: float, rate: float, numbers: Floats, best: int, n: Floats, total: float, scale: Floats, a: Floats
) -> float:
    """Fill by how much a row at distances D moves the units; count wins and change widths, ``scale^(-1/2)``.

    `total` is the sum of all wins so far. Returns the number of winners.
    """
    threshold, strength, width_rate, least_width = max(numbers[0], NOTHING), numbers[1] / total, numbers[2], numbers[3]
    suppression, n_winners = 0.0, 0.0
    for k in range(D.shape[0]):
        a[k] = power_of_two(-0.5 * LOG2_E * scale[k] * (D[k] + r))  # phi = exp(-d^2 / 2 sigma^2)
        won = 1.0 if (a[k] >= threshold) | (k == best) else 0.0
        suppression += won * n[k] * a[k]
        n_winners += won
        n[k] += won
    suppression = min(suppression * strength / n_winners, 1e150)  # (bounded, or the compiler divides in every lane)
    for k in range(D.shape[0]):
        suppressed = a[k] * suppression
        penalty = -min(1.0, suppressed * suppressed)
        a[k] = rate * (a[k] if (a[k] >= threshold) | (k == best) else penalty)
    if width_rate > 0:
        for k in range(D.shape[0]):
            width = scale[k] ** -0.5 * (1.0 + width_rate * a[k] * scale[k] * (D[k] + r))
            scale[k] = max(least_width, width) ** -2.0
    return n_winners
