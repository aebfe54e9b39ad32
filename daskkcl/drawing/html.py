"""Pieces of HTML without scripts, fonts or addresses: what a notebook or a report page shows."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["bars", "fragment", "line", "number", "page", "table"]

_STYLE = """
.daskkcl { font: 14px/1.45 system-ui, sans-serif; }
.daskkcl table { border-collapse: collapse; margin: .3em 0; }
.daskkcl td, .daskkcl th { padding: .15em .7em .15em 0; text-align: left; vertical-align: top; }
.daskkcl td, .daskkcl th, .daskkcl tr { border: 0; background: none; }
.daskkcl td { overflow-wrap: anywhere; }
.daskkcl th { font-weight: 600; white-space: nowrap; }
.daskkcl .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.daskkcl .bar { display: inline-block; height: .75em; background: #0072B2; border-radius: 1px; min-width: 1px;
  vertical-align: middle; }
.daskkcl .side { display: flex; flex-wrap: wrap; gap: 0 2.2em; align-items: flex-start; }
.daskkcl .faint { opacity: .72; }
.daskkcl details > summary { cursor: pointer; }
"""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_PAGE = """
body { margin: 0 auto; padding: 1.2em; max-width: 66em; background: #fff; color: #1b1f24; }
h1 { font-size: 1.5em; margin: .2em 0; } h2 { font-size: 1.15em; margin: 1.6em 0 .4em; }
figure { margin: 0 0 1.4em; flex: 0 1 29em; max-width: 100%; } figure svg, figure img { max-width: 100%; height: auto; }
figcaption { color: #57606a; font-size: .9em; }
.wide { overflow-x: auto; }
"""


def table(rows: list[tuple[Any, ...]], head: tuple[str, ...] = (), right: bool = False) -> str:
    """Return a table; every text in it is escaped. Numbers stand to the right, or all that follows a name."""
    lines = ["<table>"]
    if head:
        lines.append("<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>")
    for row in rows:
        cells = [_cell(value, right and place > 0) for place, value in enumerate(row)]
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return "\n".join([*lines, "</table>"])


def _cell(value: Any, right: bool) -> str:
    if isinstance(value, _Raw):
        return value
    number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    kind = ' class="number"' if number or right else ""
    return f"<td{kind}>{escape(f'{value:,}' if number else str(value))}</td>"


class _Raw(str):
    """A cell that is HTML already."""


def number(text: str) -> str:
    """Return a cell of a table that stands to the right and is not broken."""
    return _Raw(f'<td class="number">{escape(text)}</td>')


def bars(names: list[Any], values: NDArray[Any], shown: int = 20, texts: list[str] | None = None) -> str:
    """Return a table with a bar for each value; of many, the first and how many more there are."""
    most = max(float(np.max(values, initial=0)), 1e-300)
    rows: list[tuple[Any, ...]] = []
    for k in range(min(shown, len(values))):
        width = 9 * float(values[k]) / most
        text = f"{int(values[k]):,}" if texts is None else texts[k]
        cell = f'<td><span class="bar" style="width:{width:.2f}em"></span></td>'
        rows.append((str(names[k]), _Raw(cell), number(text)))
    if len(values) > shown:
        rows.append((_Raw(f'<td colspan="3">and {len(values) - shown:,} more</td>'),))
    return table(rows)


def line(values: list[float], name: str, width: int = 260, height: int = 90) -> str:
    """Return a small SVG line of values, with the first and the last as text."""
    finite = [float(value) for value in values if np.isfinite(value)]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    span = (high - low) or 1.0
    step = (width - 10) / (len(finite) - 1)
    points = " ".join(
        f"{5 + k * step:.1f},{height - 20 - (v - low) / span * (height - 35):.1f}" for k, v in enumerate(finite)
    )
    text = 'font-size="11" fill="currentColor" font-family="system-ui, sans-serif"'
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(name)}">'
        f'<polyline points="{points}" fill="none" stroke="#0072B2" stroke-width="1.8"/>'
        f'<text x="5" y="{height - 4}" {text}>from {finite[0]:.4g} to {finite[-1]:.4g}</text></svg>'
    )


def fragment(body: str) -> str:
    """Return a piece for a notebook, in the colour of its letters: themes are light or dark."""
    return f'<div class="daskkcl"><style>{_STYLE}</style>{body}</div>'


def page(title: str, body: str) -> str:
    """Return a whole page that needs nothing from anywhere."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{_STYLE}{_PAGE}</style></head>'
        f'<body class="daskkcl">{body}</body></html>\n'
    )
