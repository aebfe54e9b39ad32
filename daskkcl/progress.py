"""Progress: a bar in terminals and notebooks, log lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

from .errors import InvalidInputError

__all__ = ["Progress"]

logger = logging.getLogger("daskkcl")


class Progress:
    """Show how far a stage is.

    Parameters
    ----------
    mode : None, bool or callable
        None shows a bar in a terminal or notebook and logs (INFO, logger ``daskkcl``) elsewhere; True always
        shows a bar; False is silent; a callable is called as ``mode(stage, done, total, info)``.

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

    def begin(self, stage: str, total: int, unit: str = "rows") -> None:
        """Start a stage of so many units."""
        self.end()
        self._stage, self._done, self._total, self._began = stage, 0, total, time.perf_counter()
        if self._call:
            self._call(stage, 0, total, "")
        elif self._bar_wanted:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, desc=stage, unit=" " + unit, unit_scale=True, leave=False)

    def advance(self, count: int, info: str = "") -> None:
        """Say that so many more units are done (blocks are counted whole, the last one may be short)."""
        count = min(count, self._total - self._done)
        self._done += count
        if self._call:
            self._call(self._stage, self._done, self._total, info)
        if self._bar is not None:
            self._bar.update(count)
            if info:
                self._bar.set_postfix_str(info, refresh=False)

    def end(self, info: str = "") -> None:
        """Finish the stage."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if self._stage and not self._quiet:
            seconds = time.perf_counter() - self._began
            logger.info("%s: %s of %s in %.1f s %s", self._stage, self._done, self._total, seconds, info)
        self._stage = ""
