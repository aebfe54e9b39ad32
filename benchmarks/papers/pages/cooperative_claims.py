"""What is claimed of cooperative and penalised competitive learning."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.cooperative import KERNEL_REACHES, REACHES, reached
from benchmarks.papers.cooperative_published import COMPETITIVE, KERNEL
from benchmarks.papers.pages.parts import Claim
from benchmarks.papers.store import Results

__all__ = ["claims_of"]

_PAPER = "cooperative"
_TRUE = {"seeds": 3, "wine": 3, "wdbc": 2, "mfeat": 10, "mnist, 5,000 rows": 10}


def claims_of(results: Results) -> list[Claim]:
    """Return the claims of the paper."""
    return [*_number_claims(results), *_other_claims(results), *_kernel_claims(results)]


def _mean(results: Results, experiment: str, measure: str, **settings: Any) -> float | None:
    found = results.mean(_PAPER, experiment, measure, **settings)
    return None if found is None else found.value


def _experiment(name: str) -> str:
    return "small sets" if name in ("seeds", "wine", "wdbc") else "many features"


def _number_claims(results: Results) -> list[Claim]:
    """What is claimed of CPCL's number of clusters and of its partitions."""
    numbers, best, near, told = [], [], [], []
    for name, by_k in COMPETITIVE.items():
        for k, methods in by_k.items():
            tried = {one: one for one in methods}
            if _experiment(name) == "small sets":
                tried["dsrpcl"] = "dsrpcl, P = 2"  # which gives its published figures
            found = {one: _mean(results, _experiment(name), "pq", set=name, method=tried[one], k=k) for one in methods}
            clusters = _mean(results, _experiment(name), "clusters", set=name, method="cpcl", k=k)
            known = [value for value in found.values() if value is not None]
            if clusters is None or found["cpcl"] is None or len(known) < len(methods):
                continue
            numbers.append(abs(clusters - _TRUE[name]) <= 0.25 * _TRUE[name])
            best.append(found["cpcl"] == max(known))
            near.append(abs(found["cpcl"] - methods["cpcl"].pq) <= 0.03)
            told.append(f"{name} k = {k}: {clusters:.2f}")
    finer, finely = [], []
    for name in ("seeds", "wine", "wdbc"):
        for k in COMPETITIVE[name]:
            clusters = _mean(results, "merging", reached("clusters", REACHES[-1]), set=name, method="cpcl", k=k)
            if clusters is not None:
                finer.append(abs(clusters - _TRUE[name]) <= 0.25 * _TRUE[name])
                finely.append(f"{name} k = {k}: {clusters:.2f}")
    spreads = [results.mean(_PAPER, "small sets", "clusters", set="seeds", method="cpcl", k=k) for k in (4, 10, 20)]
    seeds = [one for one in spreads if one is not None and one.n > 1]
    apart, overlaps = [], []
    for name in ("wine", "wdbc"):
        for k in COMPETITIVE[name]:
            clusters = _mean(results, "small sets", "clusters", set=name, method="cpcl", k=k)
            if clusters is not None:
                apart.append(clusters >= 1.5)
                overlaps.append(f"{name} k = {k}: {clusters:.2f}")
    return [
        Claim.of(
            "CPCL estimates the number of clusters well from any number of seeds (within a quarter of the true number)",
            numbers,
            f"in {sum(numbers)} of {len(numbers)} cases; mean numbers: " + "; ".join(told),
        ),
        Claim.of(
            f"The same if seeds are one only within {REACHES[-1]:g} of the root total variance (Tables 1 to 3)",
            finer,
            f"in {sum(finer)} of {len(finer)} cases; mean numbers: " + "; ".join(finely),
        ),
        Claim.of(
            "CPCL's partition quality is the best of the five methods",
            best,
            f"in {sum(best)} of {len(best)} cases; its published PQ comes out (within 0.03) in {sum(near)}",
        ),
        Claim.of(
            "CPCL is insensitive to the number of seeds (Seeds, where it works; mean numbers within 0.5)",
            [max(one.value for one in seeds) - min(one.value for one in seeds) <= 0.5] if len(seeds) == 3 else [],
            "k = 4, 10, 20: " + ", ".join(f"{one.value:.2f}" for one in seeds) + " (published 3.25, 3.25, 3.1)",
        ),
        Claim.of(
            "and to where they begin (Seeds; standard deviation of the number at most 0.6, the largest published)",
            [one.deviation <= 0.6 for one in seeds],
            "k = 4, 10, 20: " + ", ".join(f"{one.deviation:.2f}" for one in seeds) + " (published 0.55, 0.58, 0.45)",
        ),
        Claim.of(
            "It is robust where clusters overlap (Wine, WDBC: more than one cluster is left)",
            apart,
            "; ".join(overlaps) + "; see the table of distances for what is left before seeds meet",
        ),
    ]


def _other_claims(results: Results) -> list[Claim]:
    """What is claimed of speed, and of the methods beside CPCL."""
    faster, epochs = [], []
    for name in ("seeds", "wine", "wdbc"):
        for k in COMPETITIVE[name]:
            ours, other = (
                _mean(results, "small sets", "epochs", set=name, method=one, k=k) for one in ("cpcl", "cccl")
            )
            if ours is not None and other is not None:
                faster.append(ours <= other)
                epochs.append(f"{name} k = {k}: {ours:.0f} and {other:.0f}")
    few, many = (_mean(results, "small sets", "clusters", set="seeds", method="rpccl", k=k) for k in (4, 20))
    core = [_mean(results, "small sets", "pq", set="seeds", method="core", k=k) for k in (4, 10, 20)]
    rising = [one for one in core if one is not None]
    slow, costs = [], []
    for name in ("mfeat", "mnist, 5,000 rows"):
        ours, other = (_mean(results, "many features", "cpu", set=name, method=one, k=20) for one in ("cpcl", "core"))
        if ours is not None and other is not None:
            slow.append(other > 100 * ours)
            costs.append(f"{name}: {other:.1f} and {ours:.1f} s")
    return [
        Claim.of("CPCL locates centres more quickly than CCCL (epochs)", faster, "; ".join(epochs)),
        Claim.of(
            "RPCCL does well when k is just above the number of clusters, and keeps most seeds when k is large (Seeds)",
            [abs(few - 3) <= 0.5, many > 10] if few is not None and many is not None else [],
            "" if few is None or many is None else f"k = 4: {few:.2f}, k = 20: {many:.2f} (published 2.95 and 18.3)",
        ),
        Claim.of(
            "CoRe gets better as k grows (PQ, Seeds)",
            [rising == sorted(rising)] if len(rising) == 3 else [],
            "k = 4, 10, 20: " + ", ".join(f"{one:.3f}" for one in rising) + " (published 0.579, 0.639, 0.674)",
        ),
        Claim.of(
            "CoRe takes hundreds of times as long as the others on large sets (CoRe, CPCL)",
            slow,
            "; ".join(costs) + "; 100 epochs of a compiled loop, of the form that the class documents",
        ),
    ]


def _kernel_claims(results: Results) -> list[Claim]:
    """What is claimed of K-CPCL, at our distance within which seeds are one, and at the finest."""
    claims = []
    for reach in (KERNEL_REACHES[0], KERNEL_REACHES[-1]):
        same, better, over, counted = [], [], [], []
        notes: dict[str, list[str]] = {"same": [], "better": [], "over": [], "counted": []}
        for name, by_k in KERNEL.items():
            few, many = sorted(by_k)
            told, free, number = (
                _mean(results, "kernel", reached(measure, reach), set=name, method="kcpcl", k=k)
                for measure, k in (("pq", few), ("pq", many), ("clusters", many))
            )
            exact, wide = (_mean(results, "kernel", "pq", set=name, method="kkmeans", k=k) for k in (few, many))
            plain = _mean(results, "kernel", "pq", set=name, method="cpcl", k=many)
            if told is not None and exact is not None:
                same.append(told >= exact - 0.02)
                notes["same"].append(f"{name}: {told:.3f} and {exact:.3f}")
            if free is not None and wide is not None:
                better.append(free > wide)
                notes["better"].append(f"{name}: {free:.3f} and {wide:.3f}")
            if free is not None and plain is not None:
                over.append(free > plain)
                notes["over"].append(f"{name}: {free:.3f} and {plain:.3f}")
            if number is not None:
                counted.append(abs(number - few) <= 0.25 * few)
                notes["counted"].append(f"{name}: {number:.2f} of {few} (published {by_k[many]['kcpcl'].clusters:g})")
        where = f"(seeds one within {reach:g})"
        claims += [
            Claim.of(
                f"Told too many, K-CPCL finds about the true number {where}", counted, "; ".join(notes["counted"])
            ),
            Claim.of(
                f"and has a better PQ than kernel k-means {where}",
                better,
                "; ".join(notes["better"]),
            ),
            Claim.of(
                f"Told the true number, it is as good as kernel k-means (PQ within 0.02) {where}",
                same,
                "; ".join(notes["same"]),
            ),
            Claim.of(f"K-CPCL is better than CPCL on these sets (PQ) {where}", over, "; ".join(notes["over"])),
        ]
    return claims
