"""Progress: a bar in terminals, a line in the cell of a notebook, log lines elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import time
from html import escape
from typing import Any

from .errors import InvalidInputError
from .system import format_bytes, resident_bytes

__all__ = ["Progress"]

logger = logging.getLogger("daskkcl")

_LOOK_SECONDS = 0.5  # between looks at the memory, for a bar
_LOG_SECONDS = 15.0  # between lines about one stage, where there is no bar


class Progress:
    """Show how far a stage is.

    Parameters
    ----------
    mode : None, bool or callable
        None shows a bar in a terminal or notebook and logs (INFO, logger ``daskkcl``) elsewhere; True always
        shows a bar; False is silent; a callable is called as ``mode(stage, done, total, info)``. A bar has rate and
        time left, and behind them what `tell` told and the memory of the process against its limit.

    Examples
    --------
    >>> seen = []
    >>> progress = Progress(lambda stage, done, total, info: seen.append((stage, done, total)))
    >>> progress.begin("pass", 10)
    >>> progress.advance(10)
    >>> progress.end()
    >>> seen
    [('pass', 0, 10), ('pass', 10, 10)]
    """

    def __init__(self, mode: Any = None) -> None:
        if not (mode is None or isinstance(mode, bool) or callable(mode)):
            raise InvalidInputError(
                f"progress={mode!r}: pass True, False, None or a function (stage, done, total, info)."
            )
        self._call = mode if callable(mode) else None
        notebook = _in_notebook()
        self._bar_wanted = mode is True or (mode is None and (sys.stderr.isatty() or notebook))
        self._cell = _Cell() if notebook and self._bar_wanted else None
        self._quiet = mode is False
        self._bar: Any = None
        self._stage, self._unit, self._done, self._total, self._began = "", "rows", 0, 0, 0.0
        self._facts: dict[str, float] = {}
        self._limit_bytes = 0
        self._looked = 0.0

    def watch_memory(self, limit_bytes: int) -> None:
        """Show the memory of the process against a limit."""
        self._limit_bytes = limit_bytes

    def tell(self, **facts: float) -> None:
        """Show numbers from now on, such as the objective after a pass."""
        self._facts.update(facts)

    @property
    def info(self) -> str:
        """What is shown behind the bar."""
        parts = [f"{name} {value:.5g}" for name, value in self._facts.items()]
        if self._limit_bytes:
            parts.append(f"{format_bytes(resident_bytes())} of {format_bytes(self._limit_bytes)}")
        return ", ".join(parts)

    def begin(self, stage: str, total: int, unit: str = "rows") -> None:
        """Start a stage of so many units."""
        self.end()
        self._stage, self._unit, self._done, self._total, self._began = stage, unit, 0, total, time.perf_counter()
        self._looked = self._began
        if self._call:
            self._call(stage, 0, total, self.info)
        elif self._bar_wanted:
            self._bar = _make_bar(total, stage, unit, self.info) if self._cell is None else self._cell
            if self._cell is not None:
                self._cell.begin(stage, total, unit, self.info)

    def advance(self, count: int, info: str = "") -> None:
        """Say that so many more units are done (blocks are counted whole, the last one may be short)."""
        count = min(count, self._total - self._done) if self._total else count  # a total of 0 is not known
        self._done += count
        if self._call:
            self._call(self._stage, self._done, self._total, info or self.info)
        now = time.perf_counter()
        if self._bar is not None:
            if now - self._looked > _LOOK_SECONDS:
                self._looked = now
                self._bar.set_postfix_str(info or self.info, refresh=False)
            self._bar.update(count)
        elif not (self._quiet or self._call) and now - self._looked > _LOG_SECONDS:
            self._looked = now
            logger.info("%s", self._line(info or self.info))

    def _line(self, info: str) -> str:
        """Say how far it is, how fast, and how long it will take."""
        rate = self._done / max(1e-9, time.perf_counter() - self._began)
        text = f"{self._stage}: {self._done:,} {self._unit}"
        if self._total:
            left = (self._total - self._done) / max(rate, 1e-9)
            text = f"{self._stage}: {self._done / self._total:.0%} of {self._total:,} {self._unit}, {left:.0f} s left"
        return f"{text}, {rate:,.0f} {self._unit}/s" + (f", {info}" if info else "")

    def end(self, info: str = "") -> None:
        """Finish the stage."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if self._stage and not self._quiet and logger.isEnabledFor(logging.INFO):  # what is shown takes looking up
            seconds = time.perf_counter() - self._began
            done = f"{self._done:,} of {self._total:,}" if self._total else f"{self._done:,}"
            done += "" if self._unit == "rows" else f" {self._unit}"
            shown = ", ".join(part for part in (info, self.info) if part)
            logger.info("%s: %s in %.1f s%s", self._stage, done, seconds, f", {shown}" if shown else "")
        self._stage = ""


def _make_bar(total: int, stage: str, unit: str, info: str) -> Any:
    from tqdm import tqdm

    bar = tqdm(total=total or None, desc=stage, unit=" " + unit, unit_scale=True, leave=False, **_size())
    bar.set_postfix_str(info, refresh=False)
    return bar


def _size() -> dict[str, int]:
    """Return a size for terminals that do not say theirs: a bar of no columns, or no lines, is not seen."""
    try:
        known = min(os.get_terminal_size(sys.stderr.fileno())) > 0
    except (OSError, ValueError, AttributeError):  # no terminal: a stream of somebody's own
        known = True
    return {} if known else {"ncols": 100, "nrows": 24}


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook; having loaded one's library is not enough."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class _Cell:
    """What a cell of a notebook shows of a run: the stage at work as a bar, and in the end how long each took.

    It is plain HTML that the notebook keeps, with the same in text beside it; widgets would be lost when it is saved.
    """

    _SHOWN, _SECONDS = 6, 0.2  # finished stages that are named; between two looks

    def __init__(self) -> None:
        self._handle: Any = None
        self._over: list[str] = []
        self._stage, self._unit, self._info = "", "", ""
        self._done = self._total = 0
        self._began = self._looked = 0.0

    def begin(self, stage: str, total: int, unit: str, info: str) -> None:
        self._stage, self._total, self._unit, self._info, self._done = stage, total, unit, info, 0
        self._began = time.perf_counter()
        self._show()

    def set_postfix_str(self, info: str, refresh: bool = False) -> None:
        self._info = info

    def update(self, count: int) -> None:
        self._done += count
        if time.perf_counter() - self._looked > self._SECONDS:
            self._show()

    def close(self) -> None:
        self._over.append(f"{self._stage} {time.perf_counter() - self._began:.1f} s")
        self._stage = ""
        self._show()

    def _show(self) -> None:
        from IPython.display import display

        self._looked = time.perf_counter()
        more = len(self._over) - self._SHOWN
        over = ([f"{more} stage{'s' * (more > 1)} before"] if more > 0 else []) + self._over[-self._SHOWN :]
        text, share = self._text(), min(1.0, self._done / self._total) if self._total else 0.0
        parts = []
        if self._stage:
            parts.append(
                "<div><span style='display:inline-block;width:12em;background:#8883;vertical-align:middle'>"
                f"<span style='display:block;width:{share:.0%};height:.8em;background:#0072B2'></span></span> "
                f"{escape(text)}</div>"
            )
        if over:
            parts.append(f"<div style='opacity:.72'>{escape(' · '.join(over))}</div>")
        style = "font:13px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums"
        shown = {"text/html": f"<div style='{style}'>{''.join(parts)}</div>", "text/plain": text or " · ".join(over)}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def _text(self) -> str:
        if not self._stage:
            return ""
        rate = self._done / max(1e-9, time.perf_counter() - self._began)
        parts = [f"{self._stage}: {self._done:,} {self._unit}"]
        if self._total:
            parts = [f"{self._stage}: {self._done / self._total:.0%} of {self._total:,} {self._unit}"]
        if self._total and rate:
            parts.append(f"{(self._total - self._done) / rate:.0f} s left")
        if rate:
            parts.append(f"{rate:,.0f} {self._unit}/s")
        return ", ".join([*parts, self._info] if self._info else parts)
