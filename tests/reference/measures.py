"""Partition quality and balance, one label at a time."""

import math


def pq(truth: list[int], labels: list[int]) -> float:
    """Eq. 34 of Jia, Cheung and Liu, with its bracket: sum p(i, j)^3 / p(j) over sum p(i)^2."""
    n = len(truth)
    if len(set(labels)) < 2:
        return 0.0
    top = 0.0
    for j in set(labels):
        p_j = sum(b == j for b in labels) / n
        for i in set(truth):
            p_ij = sum(a == i and b == j for a, b in zip(truth, labels, strict=True)) / n
            top += p_ij**2 * (p_ij / p_j)
    return top / sum((sum(a == i for a in truth) / n) ** 2 for i in set(truth))


def sdcs(sizes: list[int]) -> float:
    """Standard deviation of cluster sizes."""
    mean = sum(sizes) / len(sizes)
    return math.sqrt(sum((size - mean) ** 2 for size in sizes) / len(sizes))


def rme(sizes: list[int]) -> float:
    """Ratio of the smallest cluster to the expected size."""
    return min(sizes) / (sum(sizes) / len(sizes))
