"""Kernels by name and from JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from daskkcl.errors import InvalidInputError, did_you_mean
from daskkcl.kernels.base import Kernel
from daskkcl.kernels.checks import short
from daskkcl.kernels.combine import MOST_PARTS, Columns, Mean, Product, Sum
from daskkcl.kernels.custom import CallableKernel
from daskkcl.kernels.distance import Laplacian, Rbf
from daskkcl.kernels.dot import Cosine, Linear, Polynomial, Sigmoid
from daskkcl.kernels.histogram import Chi2, HistogramIntersection

_SIMPLE: tuple[type[Kernel], ...] = (
    Rbf,
    Laplacian,
    Polynomial,
    Sigmoid,
    Linear,
    Cosine,
    Chi2,
    HistogramIntersection,
)
_MADE_OF_KERNELS: tuple[type[Kernel], ...] = (Columns, Sum, Mean, Product)
_ALIASES = {
    "gaussian": "rbf",
    "poly": "polynomial",
    "neural": "sigmoid",
    "intersection": "histogram_intersection",
}
_BY_NAME = {kernel.name: kernel for kernel in _SIMPLE}
_STORED = {kernel.name: kernel for kernel in _SIMPLE + _MADE_OF_KERNELS}
_MOST_DEPTH = 16

#: The names that `as_kernel` takes.
KERNEL_NAMES: tuple[str, ...] = (*_BY_NAME, *_ALIASES)


def as_kernel(kernel: str | Kernel | Callable[..., Any], gamma: Any = "auto", **params: Any) -> Kernel:
    """Return a kernel from its name, a kernel itself, or a function ``f(X, Y)``.

    Parameters
    ----------
    kernel : str, Kernel or callable
        One of `KERNEL_NAMES`, or what `CallableKernel` takes.
    gamma : float or {"auto", "scale", "median"}, default "auto"
        For kernels by name that have a width; for others anything but ``"auto"`` is an error.
    **params
        Further parameters of a kernel by name, such as ``degree``. None stands for the kernel's own default,
        for `gamma` too.

    Examples
    --------
    >>> as_kernel("poly", gamma=1.0, degree=5)
    Polynomial(degree=5, gamma=1.0, coef0=1.0)
    >>> as_kernel("rfb")
    Traceback (most recent call last):
    daskkcl.errors.InvalidInputError: there is no kernel 'rfb'. Did you mean 'rbf'? ...
    """
    given = {name: value for name, value in params.items() if value is not None}
    if isinstance(kernel, str):
        name = _ALIASES.get(kernel, kernel)
        if name not in _BY_NAME:
            options = ", ".join(KERNEL_NAMES)
            hint = did_you_mean(kernel.lower(), KERNEL_NAMES)
            raise InvalidInputError(f"there is no kernel {kernel!r}.{hint} There are: {options}")
        cls = _BY_NAME[name]
        if gamma is not None and ("gamma" in _parameters(cls) or not _is_auto(gamma)):
            given["gamma"] = gamma
        _check_parameters(cls, given, kernel)
        return cls(**given)
    if not isinstance(kernel, Kernel) and not callable(kernel):
        raise InvalidInputError(f"kernel must be a name, a Kernel such as Rbf(), or a function f(X, Y), not {kernel!r}")
    if not (gamma is None or _is_auto(gamma)):
        given["gamma"] = gamma
    if given:
        what = "a kernel object" if isinstance(kernel, Kernel) else "a function"
        raise InvalidInputError(
            f"{what} carries its own parameters, so {', '.join(map(repr, given))} cannot be given beside it; "
            "set them in it, or pass the kernel by name"
        )
    return kernel if isinstance(kernel, Kernel) else CallableKernel(kernel)


def from_dict(d: Any) -> Kernel:
    """Return the kernel that ``Kernel.to_dict`` described. Nothing in `d` is run; anything odd is refused.

    Raises
    ------
    InvalidInputError
        On unknown names or parameters, on values out of range, and on a kernel that was a user's function,
        which is not stored.

    Examples
    --------
    >>> from_dict({"name": "rbf", "gamma": 0.5})
    Rbf(gamma=0.5)
    """
    return _from_dict(d, 0)


def _from_dict(d: Any, depth: int) -> Kernel:
    if depth > _MOST_DEPTH:
        raise InvalidInputError(f"stored kernel is nested more than {_MOST_DEPTH} deep")
    if not isinstance(d, dict) or not isinstance(d.get("name"), str):
        raise InvalidInputError(f"a stored kernel is a dictionary with a 'name', not {short(d)}")
    name = d["name"]
    if name == CallableKernel.name:
        raise InvalidInputError(
            f"the kernel was the function {short(d.get('function', '?'))}, which is not stored; pass the kernel again"
        )
    if name not in _STORED:
        hint = did_you_mean(name[:80], _STORED)
        raise InvalidInputError(f"stored kernel {short(name)} is not known.{hint}")
    cls = _STORED[name]
    params = {key: value for key, value in d.items() if key != "name"}
    _check_parameters(cls, params, name)
    if "kernel" in params:
        params["kernel"] = _from_dict(params["kernel"], depth + 1)
    if "parts" in params:
        if not isinstance(params["parts"], (list, tuple)) or len(params["parts"]) > MOST_PARTS:
            raise InvalidInputError(f"the parts of a stored kernel are a list of {MOST_PARTS} at most")
        params["parts"] = tuple(_from_dict(part, depth + 1) for part in params["parts"])
    return cls(**params)


def _parameters(cls: type[Kernel]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]


def _check_parameters(cls: type[Kernel], given: dict[str, Any], name: str) -> None:
    names = _parameters(cls)
    unknown = [key for key in given if key not in names]
    if unknown:
        has = ", ".join(names) if names else "no parameters"
        hint = did_you_mean(str(unknown[0])[:80], names)
        raise InvalidInputError(f"the {name!r} kernel has no parameter {short(unknown[0])}; it has {has}.{hint}")
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    missing = [f.name for f in fields if f.default is dataclasses.MISSING and f.name not in given]
    if missing:
        raise InvalidInputError(f"the {name!r} kernel needs {', '.join(missing)}")


def _is_auto(gamma: Any) -> bool:
    return isinstance(gamma, str) and gamma == "auto"
