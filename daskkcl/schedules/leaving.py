"""Leaving early: a run that is asked to stop saves where it is, and says how to go on."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from ..errors import Terminated
from ..progress import logger
from .checkpoint import Checkpoint

__all__ = ["leaving_well"]


@contextlib.contextmanager
def leaving_well(checkpoint: Checkpoint) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end a run that has a checkpoint in good order.

    SIGTERM becomes an exception (`Terminated`, exit code 143), unless the program has a handler of its own or the run
    is not in the main thread. The latest state is written, and a note on the exception (for SIGTERM also the log) says
    how to go on.
    """
    if checkpoint.path is None:
        yield
        return
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    except (KeyboardInterrupt, Terminated) as error:
        checkpoint.flush()
        how = f"The run was stopped. Make the same call again, with checkpoint={checkpoint.path!r}, and it goes on."
        error.add_note(how)
        if isinstance(error, Terminated):
            error.message = how
            logger.warning(how)
        raise
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminated(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: what follows must not be torn
    raise Terminated
