"""Compiled loops of the rules that meet one row at a time: arrays in, state changed in place, no options.

All have one signature: coordinates ``Y`` (rows, q) and residuals ``r`` (rows,), the learning rate of every row, the
rule's own numbers, and the state: centres ``M`` (c, q), win counts ``n`` (c,) and whatever else a rule keeps for a
centre, ``extra`` (c, e). A row's squared distance to a centre is ``|y - M|^2 + r``; between centres there is no
residual, since they lie in the span. Ties go to the lowest number.

Only imported when such a rule runs, since importing numba is slow. ``reassoc`` lets sums run in vector lanes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.loops import _compiled as compiled
from .powers import binary_logarithm, power_of_two

Floats = NDArray[Any]


@compiled
def squared_distance(A: Floats, i: int, B: Floats, k: int) -> float:
    """``sum_j (A[i, j] - B[k, j])^2``, in double precision. (Indices, not rows: views are counted, which is slow.)"""
    total = 0.0
    for j in range(A.shape[1]):
        difference = A[i, j] - B[k, j]
        total += difference * difference
    return total


@compiled
def move(M: Floats, k: int, Y: Floats, i: int, a: float) -> None:
    """``M[k] += a (Y[i] - M[k])``."""
    for j in range(M.shape[1]):
        M[k, j] += a * (Y[i, j] - M[k, j])


@compiled
def frequency_sensitive(
    Y: Floats, r: Floats, rates: Floats, numbers: Floats, M: Floats, n: Floats, extra: Floats
) -> None:
    """Algorithm 1 of doi:10.1016/j.neunet.2014.11.003 (AKCL)."""
    for i in range(Y.shape[0]):
        least, winner = np.inf, 0
        for k in range(M.shape[0]):
            cost = n[k] * (squared_distance(Y, i, M, k) + r[i])  # Eq. 12; the sum of n is the same for all
            if cost < least:
                least, winner = cost, k
        move(M, winner, Y, i, rates[i])  # Eq. 13
        n[winner] += 1  # Eq. 14


@compiled
def cooperative_penalised(
    Y: Floats, r: Floats, rates: Floats, numbers: Floats, M: Floats, n: Floats, extra: Floats
) -> None:
    """Algorithms 1 and 2 of doi:10.1016/j.patcog.2014.03.010 (CPCL); ``numbers[0]`` is 1 for squared ratios."""
    k = M.shape[0]
    squared = numbers[0] > 0
    D, between, team = np.empty(k), np.empty(k), np.empty(k, np.int64)
    for i in range(Y.shape[0]):
        c = _frequency_winner(Y, i, r[i], M, n, D)
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


@compiled
def _distances_of(Y: Floats, i: int, r: float, M: Floats, D: Floats) -> None:
    """Fill the squared distances D of a row."""
    for k in range(M.shape[0]):
        D[k] = squared_distance(Y, i, M, k) + r


@compiled
def _frequency_winner(Y: Floats, i: int, r: float, M: Floats, n: Floats, D: Floats) -> int:
    """Fill the squared distances D of a row and return the winner, ``argmin n_k D_k``."""
    _distances_of(Y, i, r, M, D)
    least, winner = n[0] * D[0], 0
    for k in range(1, M.shape[0]):
        cost = n[k] * D[k]
        better = cost < least
        least, winner = cost if better else least, k if better else winner
    return winner


@compiled
def _reach(d: float, r: float) -> float:
    """Return how far from a row, squared, a centre may be that is as near to the winner as the row, at d, is.

    By the triangle inequality; a residual counts between row and winner, not between row and centre.
    """
    return (math.sqrt(max(d - r, 0.0)) + math.sqrt(d)) ** 2 * (1 + 1e-9)


@compiled
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
def _winner_and_rival(Y: Floats, i: int, r: float, M: Floats, n: Floats, D: Floats) -> tuple[int, int]:
    """Fill the squared distances D of a row and return the centres of least and second least ``n_k D_k``."""
    least, winner = np.inf, 0
    for k in range(M.shape[0]):
        D[k] = squared_distance(Y, i, M, k) + r
        if n[k] * D[k] < least:
            least, winner = n[k] * D[k], k
    second, rival = np.inf, -1
    for k in range(M.shape[0]):
        cost = n[k] * D[k] if k != winner else np.inf
        better = cost < second
        second, rival = cost if better else second, k if better else rival
    return winner, rival


@compiled
def rival_penalised(Y: Floats, r: Floats, rates: Floats, numbers: Floats, M: Floats, n: Floats, extra: Floats) -> None:
    """RPCL, doi:10.1109/72.238318: the second winner is pushed away; ``numbers[0]`` is its share of the rate."""
    D = np.empty(M.shape[0])
    for i in range(Y.shape[0]):
        winner, rival = _winner_and_rival(Y, i, r[i], M, n, D)
        move(M, winner, Y, i, rates[i])
        if rival >= 0:
            move(M, rival, Y, i, -numbers[0] * rates[i])
        n[winner] += 1


@compiled
def rival_controlled(Y: Floats, r: Floats, rates: Floats, numbers: Floats, M: Floats, n: Floats, extra: Floats) -> None:
    """RPCCL (Cheung 2005): the nearer the rival to the winner, the more it is pushed away."""
    D = np.empty(M.shape[0])
    for i in range(Y.shape[0]):
        winner, rival = _winner_and_rival(Y, i, r[i], M, n, D)
        if rival >= 0:
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
    D, power = np.empty(M.shape[0]), -0.5 * numbers[0]
    for i in range(Y.shape[0]):
        c = _frequency_winner(Y, i, r[i], M, n, D)
        bound = _reach(D[c], r[i])
        for j in range(M.shape[0]):
            if j != c and D[j] - r[i] <= bound and squared_distance(M, c, M, j) <= D[c] and D[c] > 0:
                # (d_c / max(d_c, d_j))^phi
                move(M, j, Y, i, rates[i] * power_of_two(power * binary_logarithm(max(1.0, D[j] / D[c]))))
        move(M, c, Y, i, rates[i])
        n[c] += 1
