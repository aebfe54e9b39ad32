"""From the name of an algorithm and the parameters of `fit` to an estimator, or a sentence about what is wrong."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidInputError, did_you_mean

__all__ = ["make_estimator"]

_KERNEL_PARAMETERS = ("degree", "coef0", "levels")
_ALWAYS_GIVEN = {
    # parameters of `fit` that some classes do not have, and what `fit` has for them when nothing was said
    "n_clusters": "auto",
    "kernel": None,
    "gamma": "auto",
    "map": None,
    "landmarks": None,
    "n_landmarks": None,
    "init": None,
}
_FIT_PARAMETERS = (
    *("sample_weight", "out", "overwrite", "checkpoint", "client"),
    *("component", "storage_options", "feature_dim"),
)


def make_estimator(algo: Any, common: dict[str, Any], algorithm_parameters: dict[str, Any]) -> Any:
    """Return the estimator of an algorithm, or say which parameter it does not have."""
    from . import ALGORITHMS as classes

    if not isinstance(algo, str) or algo not in classes:
        named = next((name for name, cls in classes.items() if algo is cls or type(algo) is cls), None)
        near = f" Did you mean {named!r}?" if named else did_you_mean(algo, classes) if isinstance(algo, str) else ""
        raise InvalidInputError(f"algo={algo!r} is not known; there are {', '.join(sorted(classes))}.{near}")
    cls = classes[algo]
    kernel_params = {
        name: algorithm_parameters.pop(name) for name in _KERNEL_PARAMETERS if name in algorithm_parameters
    }
    own = set(cls._get_param_names())
    for name in set(common) - own:
        if name in _ALWAYS_GIVEN and _is_default(common[name], _ALWAYS_GIVEN[name]):
            del common[name]
        else:
            remedy = {
                "n_clusters": "pass n_seeds, more than there are clusters",
                "map": "it works in a space of its own (akkmeans, pakcl, akcl and the fuzzy ones take any map)",
            }.get(name, "leave it out")
            raise InvalidInputError(f"{algo} has no parameter {name!r}; {remedy}.")
    if kernel_params and "kernel_params" not in own:
        raise InvalidInputError(f"{algo} has no kernel; leave out {', '.join(kernel_params)}.")
    if kernel_params:
        common["kernel_params"] = {**(algorithm_parameters.pop("kernel_params", None) or {}), **kernel_params}
    for name in algorithm_parameters:
        if name not in own:
            near = did_you_mean(name, own | set(_FIT_PARAMETERS) | set(_KERNEL_PARAMETERS))
            raise InvalidInputError(
                f"{algo} has no parameter {name!r}.{near} Its own are {', '.join(sorted(own - set(common)))}."
            )
    return cls(**common, **algorithm_parameters)


def _is_default(value: Any, default: str | None) -> bool:
    return value is default or (isinstance(value, str) and value == default)  # arrays do not compare to one answer
