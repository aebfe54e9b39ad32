"""What the paper on approximate kernel competitive learning claims, and what came of it."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.papers.competitive import FIGURES, METHODS, SIZES, SUBSETS
from benchmarks.papers.pages.parts import Claim
from benchmarks.papers.store import Results

__all__ = ["claims", "gain"]

_PAPER = "competitive"


def _value(results: Results, experiment: str, measure: str, **settings: Any) -> float | None:
    found = results.mean(_PAPER, experiment, measure, **settings)
    return None if found is None else found.value


def gain(results: Results, name: str, method: str, other: str) -> float | None:
    """Return by how many per cent the NMI of a method is higher than another's, on average over sampling sizes."""
    pairs = []
    for m in SIZES:
        a, b = (_value(results, name, "nmi", method=one, m=m) for one in (method, other))
        if a is not None and b:
            pairs.append(100 * (a / b - 1))
    return statistics.fmean(pairs) if pairs else None


def claims(results: Results) -> list[Claim]:
    """Return the claims."""
    found_claims: list[Claim] = []
    near, cheaper, notes, times = [], [], [], []
    for name in FIGURES:
        exact, time = (_value(results, name, one, method="kcl") for one in ("nmi", "cpu"))
        for method in ("akcl", "pakcl"):
            ours, cost = (_value(results, name, one, method=method, m=1000) for one in ("nmi", "cpu"))
            if exact is not None and ours is not None:
                near.append(ours >= exact - 0.03)
                notes.append(f"{name}, {METHODS[method]} {ours:.3f}, KCL {exact:.3f}")
                if name == "Figure 3" and time is not None and cost is not None:
                    cheaper.append(cost < 0.5 * time)
                    times.append(f"{METHODS[method]} {cost:.0f} s, KCL {time:.0f} s")
    found_claims.append(
        Claim.of(
            "With m ≥ 1,000, AKCL and PAKCL are about as good as KCL (NMI at most 0.03 below)", near, "; ".join(notes)
        )
    )
    found_claims.append(
        Claim.of(
            "and take much less time (20 Newsgroups, where KCL has all rows; half or less)", cheaper, "; ".join(times)
        )
    )
    for other in ("akkmeans", "fastkscl", "nyncut", "rff", "sv", "randpoly"):
        gains = {(name, method): gain(results, name, method, other) for name in FIGURES for method in ("akcl", "pakcl")}
        known = {key: higher for key, higher in gains.items() if higher is not None}
        found_claims.append(
            Claim.of(
                f"AKCL and PAKCL are better than {METHODS[other]} (NMI, on average over m)",
                [higher > 0 for higher in known.values()],
                "; ".join(f"{name}, {METHODS[method]} {higher:+.0f} %" for (name, method), higher in known.items()),
            )
        )
    early, notes = [], []
    for name in FIGURES:
        few = _value(results, name, "nmi", method="pakcl", m=200)
        for other in ("akkmeans", "fastkscl"):
            many = _value(results, name, "nmi", method=other, m=2000)
            if few is not None and many is not None:
                early.append(few > many)
                notes.append(f"{name}: {few:.3f}, {METHODS[other]} {many:.3f}")
    found_claims.append(
        Claim.of(
            "They are better with far fewer landmarks (PAKCL with 200, others with 2,000)", early, "; ".join(notes)
        )
    )
    rivals, notes = [], []
    for name in FIGURES:
        ours, other = _value(results, name, "nmi", method="pakcl", m=1000), _value(results, name, "nmi", method="rpcl")
        if ours is not None and other is not None:
            rivals.append(ours > other)
            notes.append(f"{name}: {ours:.3f} and {other:.3f}")
    found_claims.append(Claim.of("Better than RPCL (PAKCL with 1,000 landmarks, RPCL)", rivals, "; ".join(notes)))
    even, notes = [], []
    for name in FIGURES:
        ours = [_value(results, name, "rme", method=one, m=1000) for one in ("akcl", "pakcl")]
        others = [_value(results, name, "rme", method=one, m=1000) for one in ("akkmeans", "fastkscl")]
        others.append(_value(results, name, "rme", method="kkmeans"))
        if None not in ours and None not in others:
            even.append(min(ours) > max(others))
            notes.append(f"{name}: {', '.join(f'{one:.2f}' for one in (*ours, *others))}")
    found_claims.append(
        Claim.of(
            "Clusters are far more even than those of kernel k-means, AppK-Kmeans and FastKSCL, which tend to tiny "
            "ones (RME: AKCL, PAKCL, AppK-Kmeans, FastKSCL, K-Kmeans)",
            even,
            "; ".join(notes),
        )
    )
    same, notes = [], []
    for name in FIGURES:
        gap = gain(results, name, "pakcl", "akcl")
        if gap is not None:
            same.append(abs(gap) <= 3)
            notes.append(f"{name}: {gap:+.1f} %")
    found_claims.append(Claim.of("PAKCL is as good as AKCL (mean NMI within 3 %)", same, "; ".join(notes)))
    shares = [100 * row["ratio_cpu"] for row in results.select(_PAPER, "ratio") if "ratio_cpu" in row]
    found_claims.append(
        Claim.of(
            "PAKCL's optimisation takes 8.5 to 24.8 % of AKCL's time",
            [8.5 <= share <= 24.8 or share < 8.5 for share in shares],
            f"{min(shares):.0f} to {max(shares):.0f} %, with compiled loops for both" if shares else "",
        )
    )
    kinds = [
        _value(results, "Figure 4", "nmi", method="pakcl", m=1000),
        _value(results, "Figure 5", "nmi", method="pakcl", m=1000),
    ]
    found_claims.append(
        Claim.of(
            "They take any kernel, where RFF, SV and RandPoly are bound to one kind",
            [None not in kinds] if any(kinds) else [],
            "every kernel of the package goes with `akcl` and `pakcl`; `rff` and `randpoly` refuse others",
        )
    )
    steady, falls, notes = [], [], []
    for title, (name, kind) in FIGURES.items():
        rows = 18_846 if name == "newsgroups" else 70_000
        found = {subset: _value(results, "Figure 9", "nmi", set=name, kernel=kind, subset=subset) for subset in SUBSETS}
        known = {subset: value for subset, value in found.items() if value is not None}
        below = [value for subset, value in known.items() if subset <= rows / 10]
        above = [value for subset, value in known.items() if subset > rows / 10]
        if below and above:
            steady.append(max(below) - min(below) <= 0.03)
            falls.append(min(above) < min(below) - 0.01)
            notes.append(
                f"{title}: {min(below):.3f} to {max(below):.3f} below n/10, {min(above):.3f} to {max(above):.3f} above"
            )
    found_claims.append(
        Claim.of("PAKCL is insensitive to the subset size below n/10 (NMI within 0.03)", steady, "; ".join(notes))
    )
    found_claims.append(Claim.of("and decays with larger subsets", falls, "same figures"))
    return found_claims
