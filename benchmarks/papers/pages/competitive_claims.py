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
    found_claims += _exact_claims(results)
    for other in ("akkmeans", "fastkscl", "nyncut", "rff", "sv", "randpoly"):
        gains = {(name, method): gain(results, name, method, other) for name in FIGURES for method in ("akcl", "pakcl")}
        known = {key: higher for key, higher in gains.items() if higher is not None}
        found_claims.append(
            Claim.of(
                f"AKCL and PAKCL are better than {METHODS[other]} (NMI, on average over m)",
                [higher > 0 for higher in known.values()],
                "; ".join(
                    f"{name}, {METHODS[method]} {round(higher):+d} %" for (name, method), higher in known.items()
                ),
            )
        )
    early, sooner, notes, times = [], [], [], []
    for name in FIGURES:
        few, brief = (_value(results, name, one, method="pakcl", m=200) for one in ("nmi", "cpu"))
        for other in ("akkmeans", "fastkscl"):
            many, long = (_value(results, name, one, method=other, m=2000) for one in ("nmi", "cpu"))
            if few is not None and many is not None and brief is not None and long is not None:
                early.append(few > many)
                sooner.append(brief < long)
                notes.append(f"{name}: {few:.3f}, {METHODS[other]} {many:.3f}")
                times.append(f"{name}: {brief:.1f}, {METHODS[other]} {long:.1f} s")
    found_claims.append(
        Claim.of(
            "They are better with far fewer landmarks (PAKCL with 200, others with 2,000)", early, "; ".join(notes)
        )
    )
    found_claims.append(Claim.of("and in much less time (the same)", sooner, "; ".join(times)))
    dearer, notes = [], []
    for name in FIGURES:
        others = [
            _value(results, name, "cpu", method=one, m=1000) for one in ("akkmeans", "nyncut", "rff", "sv", "randpoly")
        ]
        known_times = [one for one in others if one is not None]
        for method in ("akcl", "pakcl"):
            cost = _value(results, name, "cpu", method=method, m=1000)
            if cost is not None and known_times:
                dearer.append(max(known_times) < cost < 3 * max(known_times))
                notes.append(
                    f"{name}: {METHODS[method]} {cost:.1f}, others {min(known_times):.1f} to {max(known_times):.1f} s"
                )
    found_claims.append(
        Claim.of(
            "With the same sample they take a little longer than the approximate methods (m = 1,000; more than all, "
            "less than three times as long)",
            dearer,
            "; ".join(notes),
        )
    )
    rivals, notes, spent, times = [], [], [], []
    for name in FIGURES:
        ours, other = _value(results, name, "nmi", method="pakcl", m=1000), _value(results, name, "nmi", method="rpcl")
        if ours is not None and other is not None:
            rivals.append(ours > other)
            notes.append(f"{name}: {ours:.3f} and {other:.3f}")
            cost, cost_of_other = (
                _value(results, name, "cpu", method="pakcl", m=1000),
                _value(results, name, "cpu", method="rpcl"),
            )
            if cost is not None and cost_of_other is not None:
                spent.append(cost < cost_of_other)
                times.append(f"{name}: {cost:.1f} and {cost_of_other:.1f} s")
    found_claims.append(Claim.of("Better than RPCL (PAKCL with 1,000 landmarks, RPCL)", rivals, "; ".join(notes)))
    found_claims.append(Claim.of("and faster than RPCL (the same; RPCL has ten epochs)", spent, "; ".join(times)))
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
    for experiment, how in (("ratio, not compiled", "in NumPy, one thread"), ("ratio", "with compiled loops")):
        shares = [
            100 * share
            for name, kind in FIGURES.values()
            for m in (100, 500, 1000, 2000)
            if (share := _value(results, experiment, "ratio_cpu", set=name, kernel=kind, m=m)) is not None
        ]
        found_claims.append(
            Claim.of(
                f"PAKCL's optimisation takes 8.5 to 24.8 % of AKCL's time ({how}; at most 24.8 %)",
                [share <= 24.8 for share in shares],
                f"{min(shares):.0f} to {max(shares):.0f} %, mean {statistics.fmean(shares):.0f} %" if shares else "",
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
    steady, falls, quicker, notes, times = [], [], [], [], []
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
        cost = [_value(results, "Figure 9", "cpu", set=name, kernel=kind, subset=one) for one in (SUBSETS[0], 5000)]
        if cost[0] is not None and cost[1] is not None:
            quicker.append(cost[1] < cost[0])
            times.append(f"{title}: {cost[0]:.0f} and {cost[1]:.0f} s")
    found_claims.append(
        Claim.of("PAKCL is insensitive to the subset size below n/10 (NMI within 0.03)", steady, "; ".join(notes))
    )
    found_claims.append(Claim.of("and decays with larger subsets", falls, "same figures"))
    found_claims.append(
        Claim.of("Larger subsets take less time (subsets of 100 and of 5,000)", quicker, "; ".join(times))
    )
    return found_claims


def _exact_claims(results: Results) -> list[Claim]:
    """What is claimed of the methods that hold the whole kernel matrix."""
    best, evenest, over, notes, evens = [], [], [], [], []
    for name in FIGURES:
        kcl, kkmeans = (_value(results, name, "nmi", method=one) for one in ("kcl", "kkmeans"))
        ours = {one: _value(results, name, "nmi", method=one, m=1000) for one in ("akcl", "pakcl")}
        if kcl is None or kkmeans is None or None in ours.values():
            continue
        over += [one is not None and one > kkmeans for one in ours.values()]
        notes.append(f"{name}: {', '.join(f'{one:.3f}' for one in (*ours.values(), kkmeans) if one is not None)}")
        if name == "Figure 3":
            others = {
                METHODS[one]: _value(results, name, "nmi", method=one, m=1000)
                for one in ("akcl", "pakcl", "akkmeans", "nyncut", "fastkscl", "rff", "sv")
            } | {"K-Kmeans": kkmeans}
            known = {one: value for one, value in others.items() if value is not None}
            top = max(known, key=lambda one: known[one])
            best.append(kcl >= known[top])
            sizes = {one: _value(results, name, "sdcs", method=one) for one in ("kcl", "kkmeans")}
            sampled = {one: _value(results, name, "sdcs", method=one, m=1000) for one in ("akcl", "pakcl", "akkmeans")}
            if sizes["kcl"] is not None:
                spread = [value for value in (sizes["kkmeans"], *sampled.values()) if value is not None]
                evenest.append(sizes["kcl"] <= min(spread))
                evens.append(f"SDCS {sizes['kcl']:.0f}, others from {min(spread):.0f}")
            best_notes = f"NMI {kcl:.3f}, best other {known[top]:.3f} ({top}); {'; '.join(evens)}"
    n = 70_000
    return [
        Claim.of(
            "KCL is the best of all, and the most even (20 Newsgroups)",
            [*best, *evenest],
            best_notes if best else "",
        ),
        Claim.of(
            "AKCL and PAKCL are better than kernel k-means (NMI, m = 1,000: AKCL, PAKCL, K-Kmeans)",
            over,
            "; ".join(notes),
        ),
        Claim.of(
            "They need much less memory than KCL",
            [n * 1000 * 4 < 0.1 * n * n * 4] if notes else [],
            f"MNIST, float32: values with 1,000 landmarks take {n * 4000 / 1e9:.2f} GB and need not be held at once; "
            f"the whole matrix takes {n * n * 4 / 1e9:.1f} GB",
        ),
    ]
