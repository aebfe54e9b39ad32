"""What is claimed of sparse kernel k-means."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.papers.pages.parts import Claim, figure, seconds
from benchmarks.papers.pages.sparse_kernel_figures import (
    CLUSTERS,
    NEIGHBOURS,
    ROWS,
    SETS,
    SIZE,
    exactly,
    mean,
    points,
    side_by_side,
    sizes_of,
    touching,
)
from benchmarks.papers.store import Results

__all__ = ["claims_of"]


def _missed(drawn: int) -> float:
    """Return how likely points drawn from ten circles of a hundred miss one, by inclusion and exclusion."""
    every = math.comb(1000, drawn)
    return sum((-1) ** (j + 1) * math.comb(10, j) * math.comb(1000 - 100 * j, drawn) for j in range(1, 10)) / every


def _over(one: Any, other: Any, by: float = 0.0) -> bool | None:
    """Return whether a mean is above another by more than `by`; None if one is not known."""
    return None if one is None or other is None else bool(one.value > other.value + by)


def _power(points: list[tuple[float, float]]) -> float | None:
    """Return the exponent of time over its variable, from the first and the last point."""
    if len(points) < 2:
        return None
    (x0, y0), (x1, y1) = points[0], points[-1]
    return math.log(y1 / y0) / math.log(x1 / x0)


def claims_of(results: Results) -> list[Claim]:
    """Return the claims of the paper."""
    claims = []
    better, over, exact, notes = [], [], [], []
    slower, quicker, longer, times = [], [], [], []
    for name, title in SETS.items():
        nmi, cpu = (side_by_side(results, name, measure) for measure in ("nmi", "cpu"))
        if nmi[0] is None:
            continue
        better.append(_over(nmi[0], nmi[1]))
        over.append(_over(nmi[0], nmi[2]))
        exact.append(_over(nmi[0], nmi[3], -0.03))
        notes.append(f"{title}: {', '.join(figure(one) for one in nmi)}")
        slower.append(_over(cpu[0], cpu[1]))
        longer.append(_over(cpu[0], cpu[2]))
        quicker.append(_over(cpu[3], cpu[0]) if name != "mnist" else None)
        times.append(f"{title}: {', '.join(seconds(one) for one in cpu)} s")
    figures = "; ".join(notes)
    claims.append(
        Claim.of(
            "Better than approximate kernel k-means (NMI: sparse, approximate, k-means, kernel k-means; m = 2,000)",
            better,
            figures,
        )
    )
    claims.append(Claim.of("Better than k-means", over, "same figures"))
    claims.append(Claim.of("Close to kernel k-means, or better (within 0.03)", exact, "same figures"))
    claims.append(
        Claim.of(
            "Takes longer than approximate kernel k-means (processor seconds: sparse, approximate, k-means, kernel "
            "k-means)",
            slower,
            "; ".join(times),
        )
    )
    claims.append(Claim.of("Takes longer than k-means", longer, "same figures"))
    claims.append(
        Claim.of("Much faster than kernel k-means of the same rows (Pendigits, Newsgroups)", quicker, "same figures")
    )
    rises, entries, fits, note_m, note_entered = [], [], [], [], []
    for name, title in SETS.items():
        sizes = sizes_of(name)
        ends = [exactly(results, SIZE, "nmi", set=name, method="skkmeans", m=m) for m in (sizes[0], sizes[-1])]
        entered = [exactly(results, SIZE, "entered", set=name, method="skkmeans", m=m) for m in (sizes[0], sizes[-1])]
        if None in ends or None in entered:
            continue
        rises.append(ends[1].value > ends[0].value + 0.01)
        note_m.append(f"{title}, m = {sizes[0]:,} and {sizes[-1]:,}: {ends[0].value:.3f} and {ends[1].value:.3f}")
        entries.append(entered[1].value < entered[0].value)
        fits.append(all(one.value < m for one, m in zip(entered, (sizes[0], sizes[-1]), strict=True)))
        note_entered.append(f"{title}: {entered[0].value:.0f} and {entered[1].value:.0f}")
    claims.append(Claim.of("NMI rises considerably with m", rises, "; ".join(note_m)))
    claims.append(
        Claim.of(
            "Fewer rows enter the buffer with a larger m, and few in all (smallest and largest m)",
            entries,
            "; ".join(note_entered) + " (published, CIFAR-100: 453 with m = 5,000, 69 with 20,000)",
        )
    )
    claims.append(
        Claim.of(
            "How large the buffer may become matters little (fewer rows enter than there is room for)",
            fits,
            "the same rows, of which m would find room",
        )
    )
    sooner, grows, note_m, note_t = [], [], [], []
    for name, title in SETS.items():
        sizes = sizes_of(name)
        least = exactly(results, SIZE, "nmi", set=name, method="skkmeans", m=sizes[0])
        others = [exactly(results, SIZE, "nmi", set=name, method="akkmeans", m=m) for m in sizes]
        known = [one.value for one in others if one is not None]
        if least is not None and known:
            sooner.append(least.value > max(known))
            note_m.append(f"{title}: {least.value:.3f} with {sizes[0]:,}, at best {max(known):.3f}")
        for method in ("skkmeans", "akkmeans"):
            ends = [exactly(results, SIZE, "cpu", set=name, method=method, m=m) for m in (sizes[0], 2000)]
            if None not in ends:
                grows.append(ends[1].value > ends[0].value)
                note_t.append(
                    f"{title}, {'sparse' if method == 'skkmeans' else 'approximate'}: "
                    f"{seconds(ends[0])} and {seconds(ends[1])} s"
                )
    claims.append(
        Claim.of(
            "With the smallest m it is better than approximate kernel k-means with the largest",
            sooner,
            "; ".join(note_m),
        )
    )
    claims.append(Claim.of("Time of both grows with m (smallest m, 2,000)", grows, "; ".join(note_t)))
    helps, costs, note_p = [], [], []
    for name, title in SETS.items():
        ps = sorted({one["p"] for one in NEIGHBOURS.settings})
        found = [mean(results, NEIGHBOURS, "nmi", set=name, p=p) for p in ps]
        spent = [mean(results, NEIGHBOURS, "cpu", set=name, p=p) for p in (100, ps[-1])]
        if None in found or None in spent:
            continue
        wide = found[ps.index(100) :]
        helps.append(wide[-1].value > wide[0].value)
        costs.append(spent[1].value > 1.2 * spent[0].value)
        best = max(range(len(ps)), key=lambda place, found=found: found[place].value)
        note_p.append(
            f"{title}: p = 100 {wide[0].value:.3f}, {ps[-1]:,} {wide[-1].value:.3f}, "
            f"best {found[best].value:.3f} at {ps[best]}"
        )
    claims.append(Claim.of("NMI rises a little with p (from m / 20 on)", helps, "; ".join(note_p)))
    claims.append(
        Claim.of("Time rises significantly with p (from m / 20 to 3 m / 4, by a fifth or more)", costs, "see Table 5")
    )
    powers = {name: _power(points(results, ROWS, name, "n")) for name in ("mnist", "covtype")}
    claims.append(
        Claim.of(
            "Time is linear in the number of rows (an exponent of 1.1 at most)",
            [power <= 1.1 for power in powers.values() if power is not None],
            ", ".join(f"{name}: {power:.2f}" for name, power in powers.items() if power is not None),
        )
    )
    powers = {name: _power(points(results, CLUSTERS, name, "c")) for name in ("mnist", "birch1")}
    claims.append(
        Claim.of(
            "Time is nearly logarithmic in the number of clusters (an exponent of 0.3 at most from 10 to 164)",
            [power <= 0.3 for power in powers.values() if power is not None],
            ", ".join(f"{name}: {power:.2f}" for name, power in powers.items() if power is not None),
        )
    )
    counts = {kind: touching(results, "equal", kind) for kind in ("buffer", "uniform", "leverage")}
    if counts["buffer"][1]:
        share = {kind: hits / n for kind, (hits, n) in counts.items()}
        claims.append(
            Claim.of(
                "Fifty points by importance represent all ten circles where fifty uniform ones do not (Figure 1)",
                [share["buffer"] > 0.95, share["uniform"] < 0.8],
                f"all ten in {share['buffer']:.0%} of {counts['buffer'][1]} runs, uniform points in "
                f"{share['uniform']:.0%}; by arithmetic fifty uniform points of ten circles of 100 miss one in "
                f"{_missed(50):.1%} of draws, 100 points in {_missed(100):.2%}",
            )
        )
    return claims
