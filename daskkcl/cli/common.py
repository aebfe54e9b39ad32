"""What all commands share: errors without tracebacks, progress, JSON, the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import logging
import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from ..errors import CheckpointError, DaskkclError, DaskkclWarning, InvalidInputError, MemoryLimitError

__all__ = ["check_apart", "check_place", "connected", "emit", "runs", "table", "with_options"]

RUN_FAILED, USAGE, NO_MEMORY, INTERRUPTED = 1, 2, 3, 130
_ANSWER_SECONDS = 10  # in which a scheduler has to answer


class _Failure(click.ClickException):
    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]


def with_options(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator that adds some options, in their order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


DEBUG = click.option("--debug", is_flag=True, help="Show the traceback of an error.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; progress goes to stderr.")
QUIET = click.option("--quiet", "-q", is_flag=True, help="No progress.")
COMPONENT = click.option("--component", metavar="NAME", help="The array inside a Zarr group.")
STORAGE = click.option(
    "--storage-option",
    "storage_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="For URLs, as fsspec takes them; once for each.",
)
SCHEDULER = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Compute on the workers of a dask scheduler: its address (tcp://host:8786), or its JSON file.",
)


def runs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a command: errors become one line and an exit code, warnings one line."""

    @DEBUG
    @functools.wraps(function)
    def command(*arguments: Any, debug: bool = False, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            try:
                return function(*arguments, **options)
            except (click.ClickException, click.exceptions.Exit, click.Abort):
                raise
            except (Exception, KeyboardInterrupt) as error:
                if debug:
                    raise
                failure = _Failure(_as_flags(_text(error)), _exit_code(error))
        raise failure

    return command


def _exit_code(error: BaseException) -> int:
    if isinstance(error, MemoryLimitError):
        return NO_MEMORY
    if isinstance(error, (InvalidInputError, CheckpointError)):
        return USAGE
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else RUN_FAILED


def _text(error: BaseException) -> str:
    notes = getattr(error, "__notes__", [])
    if isinstance(error, KeyboardInterrupt):
        return "\n".join(["Interrupted.", *notes])
    if isinstance(error, DaskkclError):
        return "\n".join([str(error), *notes])
    return f"{type(error).__name__}: {error}\nThis was not foreseen; --debug shows where it came from."


def _as_flags(text: str) -> str:
    """Return what the library says with its parameters written as flags of the command that runs.

    ``memory_limit='1GiB'`` is ``--memory-limit 1GiB``, ``overwrite=True`` is ``--overwrite``, ``n_clusters`` is
    ``--n-clusters``; names in quotation marks stay as they are, and so do words that are no flags.
    """
    context = click.get_current_context(silent=True)
    flags = {
        option.name: max(option.opts, key=len)
        for option in (context.command.params if context else ())
        if isinstance(option, click.Option) and option.name
    }
    if not flags:
        return text
    names = "|".join(sorted(map(re.escape, flags), key=len, reverse=True))

    def value(found: re.Match[str]) -> str:
        given = (found["value"] or "").strip("'")
        return flags[found["name"]] + (f" {given}" if given not in ("", "True") else "")

    def listed(found: re.Match[str]) -> str:
        return f"Its own are {', '.join(flags[name] for name in found[1].split(', ') if name in flags)}."

    text = re.sub(r"Its own are ([\w, ]+)\.", listed, text)
    text = re.sub(rf"(?<![\w'.-])(?P<name>{names})=(?P<value>'[^']*'|\w[\w.]*\w|\w)?", value, text)
    return re.sub(
        rf"(?<![\w'./-])(?P<name>{names})(?![\w'=/(]|\.\w)",
        lambda found: flags[found["name"]] if "_" in found["name"] else found["name"],
        text,
    )


def check_place(what: str, path: str | None, overwrite: bool) -> None:
    """Refuse before the work what would fail after it."""
    if path is None or "://" in path:
        return
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise InvalidInputError(f"{what} {path}: there is no folder {folder!r}. Make it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInputError(f"{what} {path}: the folder {folder!r} cannot be written to (permission denied).")
    if os.path.lexists(path) and not overwrite:
        raise InvalidInputError(f"{what} {path}: this exists; pass --overwrite to replace it, or another path.")


def check_apart(**paths: str | None) -> None:
    """Refuse flags that name one place: what is written there first would be gone, or in the way."""
    from ..blocks.targets import same_place

    flags = {f"--{name}": path for name, path in paths.items() if path is not None}
    for one, other in itertools.combinations(flags, 2):
        if same_place(flags[one], flags[other]):
            raise InvalidInputError(f"{one} and {other} are both {flags[one]}: each needs a path of its own.")


def _show_warning(message: Any, category: type[Warning], filename: str, line: int, *_: Any) -> None:
    if issubclass(category, DaskkclWarning):
        click.echo(f"Warning: {_as_flags(str(message))}", err=True)
    else:
        click.echo(f"Warning ({category.__name__}): {message}", err=True)


def emit(as_json: bool, data: dict[str, Any], text: str) -> None:
    """Print a result for machines or for people."""
    click.echo(json.dumps(data, indent=2, default=_plain, allow_nan=False) if as_json else text)


def _plain(value: Any) -> Any:
    for name in ("tolist", "item"):
        if hasattr(value, name):
            return getattr(value, name)()
    return str(value)


def finite(value: Any) -> Any:
    """Return a number, or None for what JSON has no word for."""
    import math

    return value if value is None or math.isfinite(value) else None


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Return rows of words in columns; in a terminal the last one is wrapped to what is left of the width."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    begin = sum(widths[:-1]) + 2 * (len(widths) - 1)
    room = shutil.get_terminal_size().columns - begin if sys.stdout.isatty() else 0  # grep wants whole lines
    lines = []
    for row in rows:
        first = "".join(cell.ljust(width) + "  " for cell, width in zip(row[:-1], widths))
        text = textwrap.wrap(row[-1], room) if room >= 30 else [row[-1]]
        lines += [(first if k == 0 else " " * begin) + part for k, part in enumerate(text or [""])]
    return "\n".join(line.rstrip() for line in lines)


class _Lines(logging.Handler):
    """Writes to what stderr is at the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self.format(record), err=True)


def show_progress(quiet: bool) -> bool | None:
    """Return what `progress=` is to be; where there is no terminal, let the log be seen."""
    if quiet:
        return False
    if not sys.stderr.isatty():
        logger = logging.getLogger("daskkcl")
        logger.setLevel(logging.INFO)
        if not any(isinstance(handler, _Lines) for handler in logger.handlers):
            handler = _Lines()
            handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
            logger.addHandler(handler)
    return None


def storage(pairs: tuple[str, ...] | dict[str, Any] | None) -> dict[str, Any] | None:
    """Read ``name=value`` pairs."""
    if not pairs or isinstance(pairs, dict):
        return pairs or None  # type: ignore[return-value]
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--storage-option {pair}: write NAME=VALUE, for example anon=true.")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Give a client of a scheduler, or None."""
    if address is None:
        yield None
        return
    if not (os.path.isfile(address) or "://" in address or re.search(r":\d+$", address)):
        raise InvalidInputError(
            f"--scheduler {address}: this is neither the address of a dask scheduler, such as tcp://host:8786, nor a "
            "file that 'dask scheduler --scheduler-file' has written."
        )
    import distributed

    place = _address_in(address) if os.path.isfile(address) else address
    try:
        asyncio.run(_knock(place))  # first: a client that finds nobody takes its time to go, and says so at length
        client = distributed.Client(place, timeout=_ANSWER_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError, MemoryError) as error:  # what is no scheduler may promise huge messages
        raise _Failure(
            f"No dask scheduler answers at {address!r} ({type(error).__name__}: {error}). Start one with 'dask "
            "scheduler' and workers with 'dask worker ADDRESS', or leave out --scheduler to compute here.",
            RUN_FAILED,
        ) from None
    with client:
        yield client


def _address_in(path: str) -> str:
    """Return the address in a file that a scheduler has written."""
    with open(path, "rb") as file:
        try:
            return str(json.load(file)["address"])
        except (ValueError, TypeError, KeyError):
            raise InvalidInputError(
                f"--scheduler {path}: 'dask scheduler --scheduler-file' has not written this file."
            ) from None


async def _knock(address: str) -> None:
    """Raise unless somebody who speaks dask's language answers at an address."""
    from distributed.comm.core import connect
    from distributed.security import Security

    arguments = Security().get_connection_args("client")
    comm = await asyncio.wait_for(connect(address, timeout=_ANSWER_SECONDS, **arguments), _ANSWER_SECONDS + 1)
    await comm.close()
