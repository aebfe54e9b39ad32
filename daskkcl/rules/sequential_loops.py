"""Compiled loops of the rules that meet one row at a time: arrays in, state changed in place, no options.

All have one signature: coordinates ``Y`` (rows, q) and residuals ``r`` (rows,), the learning rate of every row, the
rule's own numbers, and the state: centres ``M`` (c, q), win counts ``n`` (c,) and whatever else a rule keeps for a
centre, ``extra`` (c, e). A row's squared distance to a centre is ``|y - M|^2 + r``; between centres there is no
residual, since they lie in the span. Ties go to the lowest number.

A row waits for the winner of the row before, so with few coordinates what counts is how soon the winner is known: two
centres are measured at a time, their costs are compared as whole numbers (`ranks`), and nothing branches on them.

Only imported when such a rule runs, since importing numba is slow. ``reassoc`` lets sums run in vector lanes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.loops import _compiled as compiled
from ..kernels.loops import _inlined as inlined
from .powers import binary_logarithm, power_of_two, whole_lanes
from .ranks import NOBODY, number_mask, rank, with_rank

Floats = NDArray[Any]


@inlined
def squared_distance(A: Floats, i: int, B: Floats, k: int) -> float:
    """``sum_j (A[i, j] - B[k, j])^2``, in double precision. (Indices, not rows: views are counted, which is slow.)"""
    total = 0.0
    for j in range(A.shape[1]):
        difference = A[i, j] - B[k, j]
        total += difference * difference
    return total


@inlined
def two_squared_distances(A: Floats, i: int, B: Floats, k: int) -> tuple[float, float]:
    """Return the squared distances of A[i] to B[k] and to B[k + 1]."""
    first, second = 0.0, 0.0
    for j in range(A.shape[1]):
        own = A[i, j]
        difference = own - B[k, j]
        first += difference * difference
        difference = own - B[k + 1, j]
        second += difference * difference
    return first, second


@inlined
def move(M: Floats, k: int, Y: Floats, i: int, a: float) -> None:
    """``M[k] += a (Y[i] - M[k])``."""
    for j in range(M.shape[1]):
        M[k, j] += a * (Y[i, j] - M[k, j])


@inlined
def _winner_and_rival(Y: Floats, i: int, r: float, M: Floats, n: Floats, mask: Any, D: Floats) -> tuple[Any, Any]:
    """Fill the squared distances D of a row and return the centres of least and second least ``n_k D_k``.

    Of one centre alone, the rival is the winner.
    """
    c, least, second = M.shape[0], NOBODY, NOBODY
    if c % 2 == 1:  # the one that is left over first: in the end the winner would wait for it
        last = squared_distance(Y, i, M, c - 1) + r
        D[c - 1], least = last, rank(n[c - 1] * last, c - 1, mask)
    for k in range(0, c - 1, 2):
        one, other = two_squared_distances(Y, i, M, k)
        D[k], D[k + 1] = one + r, other + r
        least, second = with_rank(least, second, rank(n[k] * (one + r), k, mask))
        least, second = with_rank(least, second, rank(n[k + 1] * (other + r), k + 1, mask))
    return least & mask, second & mask


@compiled
def frequency_sensitive(
    Y: Floats, r: Floats, rates: Floats, numbers: Floats, M: Floats, n: Floats, extra: Floats
) -> None:
    """Algorithm 1 of doi:10.1016/j.neunet.2014.11.003 (AKCL)."""
    D, mask = np.empty(M.shape[0]), number_mask(M.shape[0])
    for i in range(Y.shape[0]):
        winner, _ = _winner_and_rival(Y, i, r[i], M, n, mask, D)  # Eq. 12; the sum of n is the same for all
        move(M, winner, Y, i, rates[i])  # Eq. 13
        n[winner] += 1  # Eq. 14


@compiled
def cooperative_penalised(
    Y: Floats, r: Floats, rates: Floats, numbers: Floats, M: Floats, n: Floats, extra: Floats
) -> None:
    """Algorithms 1 and 2 of doi:10.1016/j.patcog.2014.03.010 (CPCL); ``numbers[0]`` is 1 for squared ratios."""
    k = M.shape[0]
    squared = numbers[0] > 0
    D, between, team, mask = np.empty(k), np.empty(k), np.empty(k, np.int64), number_mask(k)
    for i in range(Y.shape[0]):
        c, _ = _winner_and_rival(Y, i, r[i], M, n, mask, D)
        q = _territory(M, c, D, r[i], between, team)  # Eq. 3
        rate = rates[i]
        q_u = math.floor(q * min(1.0, rate * n[c]))  # Eq. 6, with n_c before this win
        for s in range(q):
            j = team[s]
            if s < q_u:
                ratio = D[c] / max(D[c], D[j]) if D[c] > 0 else 0.0  # Eq. 26
                move(M, j, Y, i, rate * (ratio if squared else math.sqrt(ratio)))  # Eq. 8 and 25
            elif D[j] > 0:
                ratio = D[c] / D[j]  # Eq. 29
                move(M, j, Y, i, -rate * (ratio if squared else math.sqrt(ratio)))  # Eq. 10 and 28
        move(M, c, Y, i, rate)  # Eq. 12 and 18
        n[c] += 1


@inlined
def _reach(d: float, r: float) -> float:
    """Return how far from a row, squared, a centre may be that is as near to the winner as the row, at d, is.

    By the triangle inequality; a residual counts between row and winner, not between row and centre.
    """
    return (math.sqrt(max(d - r, 0.0)) + math.sqrt(d)) ** 2 * (1 + 1e-9)


@inlined
def _territory(M: Floats, c: int, D: Floats, r: float, between: Floats, team: Floats) -> int:
    """Find the centres within the winner's distance from the winner, nearest first; return how many there are."""
    bound, q = _reach(D[c], r), 0
    for j in range(M.shape[0]):
        if j == c or D[j] - r > bound:
            continue
        distance = squared_distance(M, c, M, j)
        if distance > D[c]:
            continue
        place = q
        while place > 0 and between[place - 1] > distance:
            between[place], team[place] = between[place - 1], team[place - 1]
            place -= 1
        between[place], team[place] = distance, j
        q += 1
    return q


@compiled
def rival_penalised(Y: Floats, r: Floats, rates: Floats, numbers: Floats, M: Floats, n: Floats, extra: Floats) -> None:
    """RPCL, doi:10.1109/72.238318: the second winner is pushed away; ``numbers[0]`` is its share of the rate."""
    D, mask = np.empty(M.shape[0]), number_mask(M.shape[0])
    for i in range(Y.shape[0]):
        winner, rival = _winner_and_rival(Y, i, r[i], M, n, mask, D)
        move(M, winner, Y, i, rates[i])
        if rival != winner:
            move(M, rival, Y, i, -numbers[0] * rates[i])
        n[winner] += 1


@compiled
def rival_controlled(Y: Floats, r: Floats, rates: Floats, numbers: Floats, M: Floats, n: Floats, extra: Floats) -> None:
    """RPCCL (Cheung 2005): the nearer the rival to the winner, the more it is pushed away."""
    D, mask = np.empty(M.shape[0]), number_mask(M.shape[0])
    for i in range(Y.shape[0]):
        winner, rival = _winner_and_rival(Y, i, r[i], M, n, mask, D)
        if rival != winner:
            apart = squared_distance(M, winner, M, rival)
            # min(|m_c - m_r|, |x - m_c|) / |m_c - m_r|
            share = 1.0 if apart <= D[winner] else math.sqrt(D[winner] / apart)
            move(M, rival, Y, i, -share * rates[i])
        move(M, winner, Y, i, rates[i])
        n[winner] += 1


@compiled
def cooperation_controlled(
    Y: Floats, r: Floats, rates: Floats, numbers: Floats, M: Floats, n: Floats, extra: Floats
) -> None:
    """CCCL (Li and others 2008): all centres in the winner's territory follow; ``numbers[0]`` is phi."""
    k, power = M.shape[0], -0.5 * numbers[0]
    D, shares, team, mask = np.ones(whole_lanes(k)), np.empty(whole_lanes(k)), np.empty(k, np.int64), number_mask(k)
    for i in range(Y.shape[0]):
        c, _ = _winner_and_rival(Y, i, r[i], M, n, mask, D)
        bound, nearness = _reach(D[c], r[i]), 1.0 / D[c]
        for j in range(D.shape[0]):  # of all, in vector lanes, while distances between centres are computed
            # (d_c / max(d_c, d_j))^phi
            shares[j] = rates[i] * power_of_two(power * binary_logarithm(max(1.0, D[j] * nearness)))
        q = 0
        for j in range(k):
            if D[j] - r[i] <= bound and j != c and squared_distance(M, c, M, j) <= D[c] and D[c] > 0:
                team[q] = j
                q += 1
        for s in range(q):
            move(M, team[s], Y, i, shares[team[s]])
        move(M, c, Y, i, rates[i])
        n[c] += 1
