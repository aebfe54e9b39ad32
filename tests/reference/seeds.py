"""Competitive learning that finds the number of clusters, one row at a time, from the papers' text.

Rows are given by coordinates Y and residuals r (`algebra.coordinates`; zero residuals in input space). All twins return
the centres after the rows of `order`, met once; every quantity of a row is taken before its update.
"""

import math

import numpy as np

from .algebra import Array, Labels


def _distances(y: Array, r: float, centres: Array) -> Array:
    return np.array([float(np.sum((y - m) ** 2)) + r for m in centres])


def cpcl(
    Y: Array, r: Array, centres: Array, counts: Array, order: Labels, eta: float, squared: bool
) -> tuple[Array, Array]:
    """Algorithm 1 (plain ratios) and 2 (squared ratios) of Jia, Cheung and Liu, one epoch."""
    centres, counts = centres.copy(), counts.astype(float).copy()
    for row in order:
        d = _distances(Y[row], r[row], centres)
        c = int(np.argmin(counts / counts.sum() * d))  # Eq. 1 and 2
        inside = []
        for j in range(len(centres)):
            gap = float(np.sum((centres[c] - centres[j]) ** 2))
            if j != c and gap <= d[c]:  # Eq. 3
                inside.append((gap, j))
        inside.sort()
        q_u = math.floor(len(inside) * min(1.0, eta * counts[c]))  # Eq. 6
        new = centres.copy()
        for place, (_, j) in enumerate(inside):
            if place < q_u:
                ratio = d[c] / max(d[c], d[j]) if d[c] > 0 else 0.0  # Eq. 9 and 26, squared
                sign = 1.0
            else:
                ratio = d[c] / d[j] if d[j] > 0 else 0.0  # Eq. 10 and 29, squared
                sign = -1.0
            strength = ratio if squared else math.sqrt(ratio)
            new[j] = centres[j] + sign * eta * strength * (Y[row] - centres[j])
        new[c] = centres[c] + eta * (Y[row] - centres[c])  # Eq. 12
        centres = new
        counts[c] += 1
    return centres, counts


def kernel_cpcl(K: Array, A: Array, counts: Array, order: Labels, eta: float, squared: bool) -> tuple[Array, Array]:
    """Algorithm 2 with nothing but coefficients (k, n) and the kernel matrix: every distance a double sum."""
    A, counts = A.copy(), counts.astype(float).copy()
    for t in order:
        d = np.array([K[t, t] - 2 * a @ K[t] + a @ K @ a for a in A])  # Eq. 15
        c = int(np.argmin(counts / counts.sum() * d))  # Eq. 16
        inside = []
        for j in range(len(A)):
            gap = A[c] @ K @ A[c] - 2 * A[c] @ K @ A[j] + A[j] @ K @ A[j]  # Eq. 21, the cross term put right
            if j != c and gap <= d[c]:
                inside.append((gap, j))
        inside.sort()
        q_u = math.floor(len(inside) * min(1.0, eta * counts[c]))
        new, e_t = A.copy(), np.eye(len(K))[t]
        for place, (_, j) in enumerate(inside):
            ratio = d[c] / max(d[c], d[j]) if place < q_u else -d[c] / d[j]  # Eq. 26 and 29
            strength = ratio if squared else math.copysign(math.sqrt(abs(ratio)), ratio)
            new[j] = (1 - eta * strength) * A[j] + eta * strength * e_t  # Eq. 27 and 31
        new[c] = (1 - eta) * A[c] + eta * e_t  # Eq. 20
        A = new
        counts[c] += 1
    return A, counts


def rpcl(
    Y: Array, r: Array, centres: Array, counts: Array, order: Labels, eta: float, share: float
) -> tuple[Array, Array]:
    """Xu, Krzyzak and Oja 1993: the winner learns, the second is pushed away by a share of the rate."""
    centres, counts = centres.copy(), counts.astype(float).copy()
    for row in order:
        c, rival = np.argsort(counts / counts.sum() * _distances(Y[row], r[row], centres), kind="stable")[:2]
        centres[c] += eta * (Y[row] - centres[c])
        centres[rival] -= share * eta * (Y[row] - centres[rival])
        counts[c] += 1
    return centres, counts


def rpccl(Y: Array, r: Array, centres: Array, counts: Array, order: Labels, eta: float) -> tuple[Array, Array]:
    """Cheung 2005: the rival's share is min(|m_c - m_r|, |x - m_c|) / |m_c - m_r|."""
    centres, counts = centres.copy(), counts.astype(float).copy()
    for row in order:
        d = _distances(Y[row], r[row], centres)
        c, rival = np.argsort(counts / counts.sum() * d, kind="stable")[:2]
        gap = float(np.linalg.norm(centres[c] - centres[rival]))
        share = min(gap, math.sqrt(d[c])) / gap if gap > 0 else 1.0
        centres[rival] -= share * eta * (Y[row] - centres[rival])
        centres[c] += eta * (Y[row] - centres[c])
        counts[c] += 1
    return centres, counts


def cccl(
    Y: Array, r: Array, centres: Array, counts: Array, order: Labels, eta: float, phi: float
) -> tuple[Array, Array]:
    """Li, Pei, Wang and Cheung 2008: CPCL in which all in the territory follow, by (d_c / max(d_c, d_u))^phi."""
    centres, counts = centres.copy(), counts.astype(float).copy()
    for row in order:
        d = np.sqrt(_distances(Y[row], r[row], centres))
        c = int(np.argmin(counts / counts.sum() * d**2))
        new = centres.copy()
        for j in range(len(centres)):
            if j != c and np.linalg.norm(centres[c] - centres[j]) <= d[c]:
                new[j] += eta * (d[c] / max(d[c], d[j])) ** phi * (Y[row] - centres[j])
        new[c] += eta * (Y[row] - centres[c])
        centres = new
        counts[c] += 1
    return centres, counts


def dsrpcl(
    Y: Array, r: Array, centres: Array, counts: Array, order: Labels, eta: float, power: float
) -> tuple[Array, Array]:
    """Ma and Wang 2006: the nearest learns, all others are pushed by d^(-P-2), at most by the rate."""
    centres, counts = centres.copy(), counts.astype(float).copy()
    for row in order:
        d = np.sqrt(_distances(Y[row], r[row], centres))
        c = int(np.argmin(d))
        for j in range(len(centres)):
            a = eta if j == c else -eta * min(1.0, d[j] ** (-power - 2))
            centres[j] += a * (Y[row] - centres[j])
        counts[c] += 1
    return centres, counts


def core(
    Y: Array,
    r: Array,
    centres: Array,
    counts: Array,
    widths: Array,
    order: Labels,
    eta: float,
    threshold: float,
    suppression: float,
    width_rate: float,
) -> tuple[Array, Array, Array]:
    """Bacciu and Starita 2008, in the form that the class documents."""
    centres, counts, widths = centres.copy(), counts.astype(float).copy(), widths.astype(float).copy()
    for row in order:
        d = _distances(Y[row], r[row], centres)
        phi = np.exp(-d / (2 * widths**2))
        win = phi >= threshold
        win[int(np.argmin(d / widths**2))] = True
        rs = suppression * float(np.mean((counts / counts.sum() * phi)[win]))
        for j in range(len(centres)):
            push = phi[j] if win[j] else -min(1.0, (phi[j] * rs) ** 2)
            centres[j] += eta * push * (Y[row] - centres[j])
            widths[j] += width_rate * eta * push * d[j] / widths[j]
        counts[win] += 1
    return centres, counts, widths


def neural_gas(Y: Array, r: Array, centres: Array, reaches: list[float]) -> Array:
    """Batch neural gas (Cottrell and others 2006): means weighted by exp(-rank / reach), one pass a reach."""
    centres = centres.copy()
    for reach in reaches:
        weights = np.zeros((len(Y), len(centres)))
        for i in range(len(Y)):
            for rank, j in enumerate(np.argsort(_distances(Y[i], r[i], centres), kind="stable")):
                weights[i, j] = math.exp(-rank / reach)
        for j in range(len(centres)):
            if weights[:, j].sum() > 0:
                centres[j] = (weights[:, j][:, None] * Y).sum(axis=0) / weights[:, j].sum()
    return centres
