"""Writes docs/papers.md and its pictures from a store of results."""

from __future__ import annotations

import textwrap
from pathlib import Path

from benchmarks.papers.pages import competitive, cooperative, embedding, fuzzy, sparse_kernel
from benchmarks.papers.pages.parts import Part, verdict_counts
from benchmarks.papers.pages.plots import save
from benchmarks.papers.store import Results, Store

__all__ = ["parts_of", "render", "write_page"]

_WHERE = """\
Every set is a file `name.npz` with arrays `X` (rows) and `y` (classes, from 0); 20 Newsgroups are word counts as a
scipy CSR matrix, and labels apart.

| file | where it can be had |
|---|---|
| `seeds`, `wine`, `wdbc`, `mfeat`, `pendigits` (training part first), `covtype` | UCI Machine Learning Repository |
| `usps` (pixels in [0, 1]) | the data page of *The Elements of Statistical Learning* (zip.train, zip.test) |
| `mnist`, `fashion_mnist` (training part first) | OpenML (`mnist_784`, `Fashion-MNIST`), or their authors' pages |
| `sipu_a3`, `sipu_birch1` | the clustering benchmark of the University of Eastern Finland (A-sets, Birch-sets) |
| `20news_counts_csr`, `20news_labels` | 20 Newsgroups, the by-date version (see below) |

`wine` and `wdbc` also come with scikit-learn. Words of 20 Newsgroups are alphabetic, without English stop words, in
five documents or more and at most half of them (`CountVectorizer` of scikit-learn makes such counts).
"""


def write_page(store: Store, folder: Path) -> None:
    """Write the page and its pictures into a folder."""
    parts = parts_of(Results(store.records()))
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        for name, draw in part.pictures.items():
            save(draw(), folder / name)
    (folder / "papers.md").write_text(render(store, parts))


def parts_of(results: Results) -> list[Part]:
    """Return the papers' parts."""
    return [module.part(results) for module in (competitive, sparse_kernel, cooperative, fuzzy, embedding)]


def render(store: Store, parts: list[Part]) -> str:
    """Return the page."""
    results = Results(store.records())
    done = sum("failed" not in row for row in results.rows)
    lines = [
        "# The papers, reproduced",
        "",
        "Written by `python -m benchmarks.papers page` from `benchmarks/papers/results.jsonl`; do not edit. What the",
        "five papers published, beside what this package gives for the same experiments, for all data that could be",
        "had.",
        "",
        f"{done:,} runs are behind this page. {_setting(results)}",
        "",
        "Seeds are 0, 1, 2 and so on, the same for every method. Each table says how many it has; where there are",
        "fewer than the paper's, differences of a hundredth or two may be chance. Times are processor seconds of all",
        "threads, taken while other programs used the machine: good for ratios and orders of magnitude, no more.",
        *_repeated(results),
        "",
        "```",
        "make papers-quick DATA=folder   # one seed of a part, about ten minutes",
        "make papers DATA=folder         # everything, many hours; may be stopped, and goes on where it was",
        "python -m benchmarks.papers run --list",
        "python -m benchmarks.papers run --data folder --seeds 3",
        "python -m benchmarks.papers run --data folder --again   # some stored runs anew: are the answers the same?",
        "python -m benchmarks.papers run --data folder --only fuzzy --only 'competitive/Figure 4'",
        "```",
        "",
        "`make papers` keeps its results and a page like this one in `papers-results/`.",
        "",
        "## What holds",
        "",
        "Every sentence of the papers' conclusions (and of what these rest on) that can be tested here, in our words.",
        "The verdict is computed from the figures, with the bound in brackets. In all: "
        f"{verdict_counts(claim for part in parts for claim in part.claims)}.",
    ]
    for part in parts:
        lines += ["", f"### {part.title}: claims", "", f"{part.source}: {verdict_counts(part.claims)}.", ""]
        lines += ["| claim | here | figures |", "|---|---|---|"]
        lines += [f"| {claim.says} | {_marked(claim.verdict)} | {claim.because} |" for claim in part.claims]
    lines += ["", "## Tables and figures"]
    for part in parts:
        lines += ["", f"### {part.title}", "", part.source + ".", "", *part.lines]
    lines += ["", "## Data", "", _WHERE]
    return _tidy("\n".join(lines))


def _marked(verdict: str) -> str:
    return f"**{verdict}**" if verdict == "does not hold" else verdict


def _setting(results: Results) -> str:
    """Say what the figures depend on."""
    if not results.runs:
        return ""
    last = results.runs[-1]
    versions = ", ".join(f"{name} {number}" for name, number in last["versions"].items())
    cores = {2: "two", 4: "four", 8: "eight"}.get(last["cores"], str(last["cores"]))
    return f"A machine of {cores} cores that others used at the same time; Python {last['python']}, {versions}."


def _repeated(results: Results) -> list[str]:
    """Say what came of doing stored runs again: they were made while the package changed."""
    if not results.again:
        return []
    other = [one["differs"] for one in results.again if one["differs"]]
    shares = [
        abs(after - before)
        for differs in other
        for name, (before, after) in differs.items()
        if name.split()[0] in ("nmi", "ari", "pq", "ri") and after is not None
    ]
    note = f" The others differ by {max(shares):.4f} at most (NMI, ARI, PQ, RI)." if shares else ""
    return textwrap.wrap(
        f"The package changed while these runs were made. {len(results.again)} of them, of all five papers, were done "
        f"again later: {len(results.again) - len(other)} gave the same figures to the last digit.{note}",
        width=110,
    )


def _tidy(text: str) -> str:
    """Take out empty lines that follow empty lines."""
    lines: list[str] = []
    for line in text.split("\n"):
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).rstrip() + "\n"
