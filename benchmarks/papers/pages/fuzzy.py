"""Incremental kernel fuzzy c-means: Figures 2 and 3."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.fuzzy import EXPERIMENTS, FEW_RATES, METHODS, RATES
from benchmarks.papers.pages.parts import Claim, Part, figure, runs_done, table
from benchmarks.papers.pages.plots import panels
from benchmarks.papers.store import Results

__all__ = ["part"]

_PAPER = "fuzzy"
_NAMES = {"rsekfcm": "rseKFCM", "spkfcm": "spKFCM", "okfcm": "oKFCM"}
_A3, _FAR, _MNIST, _CRISPER, _ALL = (experiment.name for experiment in EXPERIMENTS)


def part(results: Results) -> Part:
    """Return the paper's part of the page."""
    a3, far, mnist, crisper, everything = EXPERIMENTS
    lines = [
        'The algorithms as published (`form="literal"`): starts at random objects, fuzzifier 1.7, ε = 10⁻³, all rows',
        "placed by distance to prototypes. The adjusted Rand index (ARI) is with the true classes, rates are shares",
        "of the rows. Speed-up is the processor time of literal KFCM over that of the algorithm, without the last",
        "step that places all rows, as published. The figures of the paper are pictures without numbers; what its",
        "text says is in the claims.",
        "",
        "#### Figure 2",
        "",
        "2D50 is not to be had any more: A3 of the SIPU sets stands in for it, with as many rows (7,500) and clusters",
        f"(50); unit variance, Gaussian kernel with σ = 1 in exp(−σ‖x − y‖²). {_upper(runs_done(results, a3))}.",
        "",
        "![Speed-up and ARI on A3](papers-fuzzy-2.png)",
        *_rates_table(results, _A3, "a3", RATES),
        'Beside it, ARI of the same algorithms from far seeds (`init="d2"`), rows placed by centres; '
        f"{runs_done(results, far)}:",
        *table(
            ["rate", *_NAMES.values()],
            [
                [f"{100 * rate:g} %", *(figure(_mean(results, _FAR, "ari", rate=rate, method=one)) for one in METHODS)]
                for rate in (0.01, 0.05, 0.1, 0.25)
            ],
        ),
        "#### Figure 3",
        "",
        "MNIST, pixels in [0, 1], (x·y + 1)⁵. The kernel matrix of 70,000 rows takes 39 GB in double precision, so",
        f"literal KFCM and the algorithms are compared on 10,000 rows. {_upper(runs_done(results, mnist))}.",
        "",
        "![Speed-up and ARI on MNIST](papers-fuzzy-3.png)",
        *_rates_table(results, _MNIST, "mnist, 10,000 rows", RATES),
        f"ARI on all 70,000 rows, {runs_done(results, everything)}:",
        *table(
            ["rate", *_NAMES.values()],
            [
                [f"{100 * rate:g} %", *(figure(_mean(results, _ALL, "ari", rate=rate, method=one)) for one in METHODS)]
                for rate in FEW_RATES
            ],
        ),
        "With this kernel all memberships tend to be equal above a fuzzifier of about 1.43, the bound that",
        '`fuzzifier="auto"` stays below, so that 1.7 leaves hardly a partition. The same with 1.2, on 10,000 rows, '
        f"{runs_done(results, crisper)}:",
        *_rates_table(results, _CRISPER, "mnist, 10,000 rows", (0.02, 0.1, 0.25)),
        "That spKFCM does better on A3 than published is what its weights do: a prototype weighs as much as all that",
        "it stands for, chunk after chunk. As Algorithm 5 is printed it would weigh no more than its last chunk, and",
        "the ARI at 2 % was 0.76 when that was tried.",
    ]
    pictures = {
        "papers-fuzzy-2.png": lambda: _picture(results, _A3, "A3 in place of 2D50"),
        "papers-fuzzy-3.png": lambda: _picture(results, _MNIST, "MNIST, 10,000 rows"),
    }
    return Part(
        "Incremental kernel fuzzy c-means",
        "Havens, Bezdek and Palaniswami, 2012, doi:10.1007/978-3-642-27534-0_1",
        lines,
        _claims(results),
        pictures,
    )


def _upper(text: str) -> str:
    return text if text.startswith("**") else text[:1].upper() + text[1:]


def _mean(results: Results, experiment: str, measure: str, **settings: Any) -> Any:
    return results.mean(_PAPER, experiment, measure, **settings)


def _speed_up(results: Results, experiment: str, rate: float, method: str) -> float | None:
    literal = _mean(results, experiment, "steps_cpu", method="kfcm")
    other = _mean(results, experiment, "steps_cpu", rate=rate, method=method)
    return None if literal is None or other is None else literal.value / max(other.value, 1e-3)


def _rates_table(results: Results, experiment: str, name: str, rates: tuple[float, ...]) -> list[str]:
    rows = []
    for rate in rates:
        speeds = [_speed_up(results, experiment, rate, method) for method in METHODS]
        aris = [_mean(results, experiment, "ari", rate=rate, method=method) for method in METHODS]
        rows.append([f"{100 * rate:g} %", *(_times(one) for one in speeds), *(figure(one, 3, True) for one in aris)])
    literal = _mean(results, experiment, "ari", method="kfcm")
    rows.append(["literal KFCM", "1", "1", "1", *([figure(literal, 3, True)] * 3)])
    head = ["rate", *(f"speed-up, {one}" for one in _NAMES.values()), *(f"ARI, {one}" for one in _NAMES.values())]
    return table(head, rows)


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _picture(results: Results, experiment: str, title: str) -> Any:
    speeds, aris = {}, {}
    for method, name in _NAMES.items():
        found = [(100 * rate, _speed_up(results, experiment, rate, method)) for rate in RATES]
        speeds[name] = [(x, y) for x, y in found if y is not None]
        means = [(100 * rate, _mean(results, experiment, "ari", rate=rate, method=method)) for rate in RATES]
        aris[name] = [(x, y.value) for x, y in means if y is not None]
    literal = _mean(results, experiment, "ari", method="kfcm")
    aris["literal KFCM"] = [] if literal is None else [(50.0, literal.value)]
    x = "sample rate (%)"
    specs = [
        {
            "title": f"(a) speed-up, {title}",
            "x": x,
            "y": "speed-up factor",
            "series": speeds,
            "yscale": "log",
            "xscale": "log",
        },
        {"title": f"(b) ARI, {title}", "x": x, "y": "ARI", "series": aris, "xscale": "log"},
    ]
    return panels(specs, level=("literal KFCM",))


def _claims(results: Results) -> list[Claim]:
    def speed(experiment: str, rate: float, method: str) -> float | None:
        return _speed_up(results, experiment, rate, method)

    def ari(experiment: str, rate: float, method: str) -> float | None:
        found = _mean(results, experiment, "ari", rate=rate, method=method)
        return None if found is None else found.value

    def all_known(*values: float | None) -> bool:
        return all(value is not None for value in values)

    claims = []
    fastest, notes = [], []
    for rate in RATES:
        found = [speed(_A3, rate, method) for method in METHODS]
        if all_known(*found):
            fastest.append(found[0] == max(found))
            notes.append(f"{100 * rate:g} %: {', '.join(_times(one) for one in found)}")
    claims.append(
        Claim.of("rseKFCM is the fastest at every rate (2D50; speed-up of rse, sp, o)", fastest, "; ".join(notes))
    )
    one = speed(_A3, 0.01, "rsekfcm")
    claims.append(
        Claim.of(
            "It is about 450 times as fast as literal KFCM at 1 % (2D50)",
            [] if one is None else [300 <= one <= 675],
            f"{_times(one)} times (timings below 10 ms are rough)",
        )
    )
    near, notes = [], []
    for rate in (0.1, 0.25, 0.5):
        a, b = speed(_A3, rate, "rsekfcm"), speed(_A3, rate, "spkfcm")
        if a is not None and b is not None:
            near.append(a / b < 1.5)
            notes.append(f"{100 * rate:g} %: {_times(a)} and {_times(b)}")
    claims.append(Claim.of("Above 5 %, rseKFCM and spKFCM are nearly as fast (2D50)", near, "; ".join(notes)))
    alike, notes = [], []
    for rate in (0.1, 0.25, 0.5):
        found = [ari(_A3, rate, method) for method in METHODS]
        if all_known(*found):
            alike.append(max(found) - min(found) <= 0.05)
            notes.append(f"{100 * rate:g} %: {', '.join(f'{one:.2f}' for one in found)}")
    claims.append(Claim.of("Above 5 %, all three reach a comparable ARI (2D50; rse, sp, o)", alike, "; ".join(notes)))
    low, slow, notes = [], [], []
    for rate in (0.01, 0.02):
        found, times = [ari(_A3, rate, method) for method in METHODS], [speed(_A3, rate, method) for method in METHODS]
        if all_known(*found, *times):
            low.append(found[2] == max(found))
            slow.append(times[2] == min(times))
            notes.append(f"{100 * rate:g} %: {', '.join(f'{one:.2f}' for one in found)}")
    claims.append(Claim.of("Below 5 %, oKFCM has the best ARI (2D50; rse, sp, o)", low, "; ".join(notes)))
    claims.append(Claim.of("and is the slowest of the three", slow, "see Figure 2"))
    ends = [ari(_A3, rate, "okfcm") for rate in (0.01, 0.02, 0.25)]
    if all_known(*ends):
        claims.append(
            Claim.of(
                "oKFCM does not suffer at low rates (2D50; ARI at 1 and 2 % at most 0.05 below that at 25 %)",
                [one >= ends[2] - 0.05 for one in ends[:2]],
                ", ".join(f"{one:.2f}" for one in ends),
            )
        )
    ahead, notes = [], []
    for rate in (0.1, 0.25, 0.5):
        a, b = ari(_A3, rate, "rsekfcm"), ari(_A3, rate, "okfcm")
        if a is not None and b is not None:
            ahead.append(a > b)
            notes.append(f"{100 * rate:g} %: {a:.2f} and {b:.2f}")
    claims.append(Claim.of("Above 5 %, rseKFCM has a slightly better ARI than oKFCM (2D50)", ahead, "; ".join(notes)))
    fastest, notes = [], []
    for rate in (0.05, 0.1, 0.25, 0.5):
        found = [speed(_MNIST, rate, method) for method in METHODS]
        if all_known(*found):
            fastest.append(found[0] == max(found))
            notes.append(f"{100 * rate:g} %: {', '.join(_times(one) for one in found)}")
    claims.append(Claim.of("On MNIST, rseKFCM is clearly the fastest above 2 %", fastest, "; ".join(notes)))
    low, notes = [], []
    for rate in (0.01, 0.02):
        a, b = speed(_MNIST, rate, "rsekfcm"), speed(_MNIST, rate, "spkfcm")
        if a is not None and b is not None:
            low.append(a / b < 1.5)
            notes.append(f"{100 * rate:g} %: {_times(a)} and {_times(b)}")
    claims.append(
        Claim.of("On MNIST, rseKFCM and spKFCM are about as fast at low rates (1, 2 %)", low, "; ".join(notes))
    )
    comparable, notes = [], []
    for rate in RATES:
        a, b = speed(_MNIST, rate, "okfcm"), speed(_MNIST, rate, "spkfcm")
        if a is not None and b is not None:
            comparable.append(1 / 1.5 < a / b < 1.5)
            notes.append(f"{100 * rate:g} %: {_times(a)} and {_times(b)}")
    claims.append(Claim.of("On MNIST, oKFCM is about as fast as spKFCM", comparable, "; ".join(notes)))
    literal = _mean(results, _MNIST, "ari", method="kfcm")
    behind, notes = [], []
    for rate in RATES:
        found = [ari(_MNIST, rate, method) for method in METHODS]
        if literal is not None and all_known(*found):
            behind.append(max(found) < 0.8 * literal.value)
            notes.append(f"{100 * rate:g} %: {', '.join(f'{one:.3f}' for one in found)}")
    of_literal = "" if literal is None else f"literal {literal.value:.3f}; "
    claims.append(
        Claim.of(
            "On MNIST none of the three comes near literal KFCM (ARI), which does poorly itself",
            behind,
            of_literal + "; ".join(notes),
        )
    )
    rates = [(rate, ari(_A3, rate, "rsekfcm")) for rate in RATES]
    known = [value for _, value in rates if value is not None]
    claims.append(
        Claim.of(
            "rseKFCM at the highest rate that resources allow gives the best results (ARI grows with the rate)",
            [known[-1] == max(known), known[-1] >= known[0]] if len(known) == len(RATES) else [],
            "A3: " + ", ".join(f"{100 * rate:g} % {value:.2f}" for rate, value in rates if value is not None),
        )
    )
    return claims
