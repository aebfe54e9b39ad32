"""Compiled loops of the exact kernel rules: the whole kernel matrix in memory, one row met at a time.

A centre is ``m_j = sum_i A_ji phi(x_i)``. Beside the coefficients ``A`` (c, p) two products are kept up to date, so
that no row costs more than a walk over the centres that it moves: ``G = A K`` (c, p) and ``Q = A K A^T`` (c, c).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.loops import _compiled as compiled

Floats = NDArray[Any]


@compiled
def _move(A: Floats, G: Floats, K: Floats, j: int, t: int, a: float) -> None:
    """``m_j += a (phi(x_t) - m_j)``: Eq. 20, 27 and 31 of doi:10.1016/j.patcog.2014.03.010, and the same for G."""
    for i in range(A.shape[1]):
        A[j, i] *= 1 - a
        G[j, i] += a * (K[t, i] - G[j, i])
    A[j, t] += a


@compiled
def frequency_sensitive(
    K: Floats, order: Floats, rates: Floats, numbers: Floats, A: Floats, G: Floats, Q: Floats, n: Floats
) -> None:
    """Kernel competitive learning (section 2.1 of doi:10.1016/j.neunet.2014.11.003); of Q only the diagonal is kept."""
    for s in range(order.shape[0]):
        t, a = order[s], rates[s]
        least, c = np.inf, 0
        for k in range(A.shape[0]):
            cost = n[k] * max(K[t, t] - 2 * G[k, t] + Q[k, k], 0.0)  # Eq. 2
            if cost < least:
                least, c = cost, k
        # the square of (1 - a) m + a phi; the print has (1 - eta) nu for (1 - eta)^2 nu in Eq. 31
        Q[c, c] = (1 - a) ** 2 * Q[c, c] + 2 * a * (1 - a) * G[c, t] + a * a * K[t, t]
        _move(A, G, K, c, t, a)  # Eq. 3
        n[c] += 1  # Eq. 4


@compiled
def cooperative_penalised(
    K: Floats, order: Floats, rates: Floats, numbers: Floats, A: Floats, G: Floats, Q: Floats, n: Floats
) -> None:
    """Algorithm 2 of doi:10.1016/j.patcog.2014.03.010 (K-CPCL); ``numbers[0]`` is 1 for squared ratios.

    Misprints there: Eq. 17 drops ``K_tt``, which does not cancel once multiplied by the frequency; Eq. 22 to 24 have
    ``alpha_cr alpha_cs`` where the cross term ``alpha_cr alpha_js`` belongs.
    """
    k = A.shape[0]
    squared = numbers[0] > 0
    D, between, team, a, g = np.empty(k), np.empty(k), np.empty(k, np.int64), np.empty(k), np.empty(k)
    for s in range(order.shape[0]):
        t, rate = order[s], rates[s]
        least, c = np.inf, 0
        for j in range(k):
            g[j], a[j] = G[j, t], 0.0
            D[j] = max(K[t, t] - 2 * g[j] + Q[j, j], 0.0)
            if n[j] * D[j] < least:
                least, c = n[j] * D[j], j
        q = 0
        for j in range(k):  # Eq. 21, nearest first
            distance = Q[c, c] - 2 * Q[c, j] + Q[j, j]
            if j == c or distance > D[c]:
                continue
            place = q
            while place > 0 and between[place - 1] > distance:
                between[place], team[place] = between[place - 1], team[place - 1]
                place -= 1
            between[place], team[place] = distance, j
            q += 1
        q_u = math.floor(q * min(1.0, rate * n[c]))  # Eq. 6
        for s_ in range(q):
            j = team[s_]
            if s_ < q_u:
                ratio = D[c] / max(D[c], D[j]) if D[c] > 0 else 0.0  # Eq. 26
                a[j] = rate * (ratio if squared else math.sqrt(ratio))
            elif D[j] > 0:
                ratio = D[c] / D[j]  # Eq. 29
                a[j] = -rate * (ratio if squared else math.sqrt(ratio))
        a[c] = rate
        for j in range(k):
            for l in range(k):
                Q[j, l] = (
                    (1 - a[j]) * (1 - a[l]) * Q[j, l]
                    + (1 - a[j]) * a[l] * g[j]
                    + a[j] * (1 - a[l]) * g[l]
                    + a[j] * a[l] * K[t, t]
                )
        for j in range(k):
            if a[j] != 0:
                _move(A, G, K, j, t, a[j])
        n[c] += 1
