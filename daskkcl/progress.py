"""Progress: a bar in terminals and notebooks, log lines elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
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
        self._bar_wanted = mode is True or (mode is None and (sys.stderr.isatty() or "ipykernel" in sys.modules))
        self._quiet = mode is False
        self._bar: Any = None
        self._stage, self._done, self._total, self._began = "", 0, 0, 0.0
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
        self._stage, self._done, self._total, self._began = stage, 0, total, time.perf_counter()
        self._looked = self._began
        if self._call:
            self._call(stage, 0, total, self.info)
        elif self._bar_wanted:
            self._bar = _make_bar(total, stage, unit, self.info)

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
        text = f"{self._stage}: {self._done:,} rows"
        if self._total:
            left = (self._total - self._done) / max(rate, 1e-9)
            text = f"{self._stage}: {self._done / self._total:.0%} of {self._total:,} rows, {left:.0f} s left"
        return f"{text}, {rate:,.0f} rows/s" + (f", {info}" if info else "")

    def end(self, info: str = "") -> None:
        """Finish the stage."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if self._stage and not self._quiet:
            seconds = time.perf_counter() - self._began
            done = f"{self._done:,} of {self._total:,}" if self._total else f"{self._done:,}"
            shown = ", ".join(part for part in (info, self.info) if part)
            logger.info("%s: %s in %.1f s%s", self._stage, done, seconds, f", {shown}" if shown else "")
        self._stage = ""


def _make_bar(total: int, stage: str, unit: str, info: str) -> Any:
    with warnings.catch_warnings():
        # A notebook without ipywidgets gets a bar of text; that is no reason for a warning.
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm

    bar = tqdm(total=total or None, desc=stage, unit=" " + unit, unit_scale=True, leave=False, **_size())
    bar.set_postfix_str(info, refresh=False)
    return bar


def _size() -> dict[str, int]:
    """Return a size for terminals that do not say theirs: a bar of no columns is not seen."""
    try:
        known = os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError, AttributeError):  # no terminal: a notebook, or a stream of somebody's own
        known = True
    return {} if known else {"ncols": 100, "nrows": 24}
