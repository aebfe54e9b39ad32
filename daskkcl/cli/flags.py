"""Flags made from the parameters of the estimators, and TOML files with the same names."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from ..errors import InvalidInputError, did_you_mean

__all__ = ["Sections", "described", "given", "parameter_flags", "read_config"]

_KERNEL = {
    "degree": "Degree of a polynomial kernel.",
    "coef0": "Constant of a polynomial or sigmoid kernel.",
    "levels": "Levels of the spatial pyramid of a histogram kernel.",
}
_ELSEWHERE = {"kernel_params", "progress", "memory_limit"}  # a flag of the command itself, or flags of their own
_FILES = {"landmarks", "init", "order", "sample_weight", "classes"}  # may be the name of an NPY file


class _Parameter(click.Option):
    """A flag that stands for a parameter, in a part of the help of its own."""

    def __init__(self, *names: Any, section: str, **options: Any) -> None:
        super().__init__(*names, **options)
        self.section = section


class Sections(click.Command):
    """A command whose help has the flags in parts: its own, then the parameters."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(option, "section", "Options"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def estimators() -> dict[str, Any]:
    """Return the algorithms by name."""
    from ..api import algorithms

    return algorithms()


def parameters_of(cls: Any) -> dict[str, Any]:
    """Return the fields of an estimator that are parameters."""
    return {field.name: field for field in fields(cls) if field.init}


def described(cls: Any) -> dict[str, str]:
    """Return the first sentence that a class says about each of its parameters."""
    text = inspect.cleandoc(cls.__doc__ or "").partition("\nAttributes\n")[0]
    found = {}
    for names, body in re.findall(r"^(\w[\w, ]*) : .*\n((?:    .*\n?|\n)+)", text, flags=re.MULTILINE):
        sentence = " ".join(body.split())
        sentence = re.split(r"(?<=[.]) (?=[A-Z`0-9])", sentence)[0]
        for name in names.split(","):
            found[name.strip()] = sentence.replace("``", "").replace("`", "")
    return found


def parameter_flags(*, without: tuple[str, ...] = ()) -> Callable[..., Any]:
    """Return a decorator that adds a flag for every parameter of any algorithm."""
    owners: dict[str, list[str]] = {}
    help_texts: dict[str, str] = {}
    flags: dict[str, bool] = {}
    classes = estimators()
    for algo, cls in classes.items():
        texts = described(cls)
        for name, field in parameters_of(cls).items():
            if name in _ELSEWHERE or name in without:
                continue
            owners.setdefault(name, []).append(algo)
            help_texts.setdefault(name, texts.get(name, ""))
            flags[name] = flags.get(name, True) and isinstance(field.default, bool)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        options = []
        for name, whose in owners.items():
            few = f" [{', '.join(whose)}]" if len(whose) < len(classes) // 2 else ""
            flag = "--" + name.replace("_", "-")
            settings: dict[str, Any] = {"cls": _Parameter, "help": help_texts[name] + few}
            settings["section"] = "Parameters of some algorithms" if few else "Parameters"
            if flags[name]:
                options.append(click.option(f"{flag}/--no-{flag[2:]}", name, default=None, **settings))
            else:
                options.append(click.option(flag, name, metavar="VALUE", **settings))
        for name, text in _KERNEL.items():
            kernel: dict[str, Any] = {"cls": _Parameter, "section": "Parameters of the kernel", "help": text}
            options.append(click.option(f"--{name}", name, metavar="VALUE", **kernel))
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def value_of(name: str, text: Any) -> Any:
    """Read the value of a flag: a number, a truth value, JSON, the rows of an NPY file, or a word.

    Examples
    --------
    >>> value_of("n_clusters", "10"), value_of("tol", "1e-4"), value_of("gamma", "auto"), value_of("n_rows", "1e10")
    (10, 0.0001, 'auto', 10000000000)
    """
    if not isinstance(text, str):
        return text
    if name in _FILES and text.endswith(".npy"):
        return _rows(name, text)
    for read in (int, float):
        try:
            number = read(text)
        except ValueError:
            continue
        whole = isinstance(number, float) and number.is_integer() and abs(number) < 2**53 and "." not in text
        return int(number) if whole and "-" not in text else number
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text[:1] in "[{":
        try:
            return json.loads(text)
        except ValueError as error:
            raise InvalidInputError(f"--{name.replace('_', '-')} {text}: this is not JSON ({error}).") from None
    return None if text.lower() == "none" else text


def _rows(name: str, path: str) -> Any:
    import numpy as np

    if not os.path.exists(path):
        raise InvalidInputError(f"--{name.replace('_', '-')} {path}: there is no such file.")
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, OSError) as error:
        raise InvalidInputError(f"--{name.replace('_', '-')} {path}: not an NPY file of numbers ({error}).") from None


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the flags that were given, read."""
    return {name: value_of(name, value) for name, value in options.items() if value is not None}


def read_config(path: str | None, known: set[str]) -> dict[str, Any]:
    """Read a TOML file of parameters; dashes in names are underscores."""
    if path is None:
        return {}
    import tomllib

    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise InvalidInputError(f"--config {path}: {error.strerror or error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"--config {path} is not TOML: {error}.") from None
    content = {name.replace("-", "_"): value for name, value in content.items()}
    for name in content:
        if name not in known and isinstance(content[name], dict):
            raise InvalidInputError(
                f"--config {path}: [{name}] is a table, and parameters stand at the top of the file, one on a line: "
                "n_clusters = 10."
            )
        if name not in known:
            raise InvalidInputError(f"--config {path}: {name!r} is not known.{did_you_mean(name, known)}")
    return {name: value_of(name, value) if name in _FILES else value for name, value in content.items()}
