"""What all charts share: axes, colours that everybody can tell apart, labels that stay legible."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DaskkclError

__all__ = [
    "axes_or_new",
    "colours",
    "compact",
    "letters_on",
    "literal",
    "marks",
    "need_matplotlib",
    "ticks_of_clusters",
]

# Okabe and Ito's colours (2008), told apart with every kind of colour vision; yellow, too light on white, left out.
_FEW = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000")
_MARKS = ("o", "s", "^", "D", "v", "P", "X")


def need_matplotlib() -> None:
    """Say how to get matplotlib if it is not there."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise DaskkclError(
            "Pictures need matplotlib, which is not installed: pip install 'daskkcl[plots]' (or matplotlib itself)."
        ) from None


def axes_or_new(axes: Any, width: float = 6.4, height: float = 4.0) -> Any:
    """Return the given axes, or those of a new figure."""
    if axes is not None:
        return axes
    need_matplotlib()
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def colours(n: int) -> list[Any]:
    """Return n colours: Okabe and Ito's for a few, else steps of a map that grows lighter, neighbours far apart.

    Beyond seven no palette is safe for everybody; charts then name clusters by number as well.
    """
    if n <= len(_FEW):
        return list(_FEW[:n])
    import matplotlib

    steps = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.95, n))
    stride = next(s for s in range(int(0.38 * n) + 1, 2 * n) if np.gcd(s, n) == 1)
    return [tuple(steps[(k * stride) % n]) for k in range(n)]


def marks(n: int) -> list[str]:
    """Return a marker for each cluster, so that few clusters are told apart without colour."""
    return [_MARKS[k % len(_MARKS)] if n <= len(_MARKS) else "o" for k in range(n)]


def letters_on(colour: Any) -> str:
    """Return black or white, whichever is legible on a colour."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def compact(number: float) -> str:
    """Return a number as people say it.

    Examples
    --------
    >>> compact(3_200_000), compact(950), compact(0.0123), compact(12_300)
    ('3.2M', '950', '0.0123', '12.3k')
    """
    size = abs(number)
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= unit:
            return f"{number / (1e3 if name == 'k' else unit):.3g}{name}"
    return f"{number:,.0f}" if number == int(number) or size >= 1000 else f"{number:.3g}"


def literal(text: Any) -> str:
    """Return a name from the data so that matplotlib shows it and reads no formula in it."""
    return str(text).replace("$", r"\$")


def ticks_of_clusters(
    axis: Any,
    places: NDArray[Any],
    names: list[Any] | None = None,
    most: int = 26,
    apart: float = 0.0,
    **letters: Any,
) -> None:
    """Name clusters along an axis, every second or fifth if there are too many for all, no two too near."""
    shown = [str(name) if names is None else literal(names[name]) for name in range(len(places))]
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 10**9) if len(places) <= most * s)
    kept: list[int] = []
    for k in range(0, len(places), step):
        if not kept or places[k] - places[kept[-1]] >= apart:
            kept.append(k)
    axis.set_ticks([places[k] for k in kept], [shown[k] for k in kept], **letters)
