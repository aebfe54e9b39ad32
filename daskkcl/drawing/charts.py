"""The charts, each a function of arrays: what `model.plot` draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .canvas import axes_or_new, colours, compact, letters_on, marks, ticks_of_clusters

__all__ = [
    "confusion",
    "convergence",
    "evidence",
    "membership_bars",
    "plane_of_centres",
    "scatter",
    "seed_paths",
    "silhouette_bars",
    "sizes",
]

Floats = NDArray[Any]
_GREY = "0.55"


def convergence(history: list[float], name: str, axes: Any = None) -> Any:
    """Draw the objective after each round."""
    axes = axes_or_new(axes)
    values = np.asarray(history, dtype=float)
    rounds = np.arange(1, len(values) + 1)
    axes.plot(rounds, values, color="#0072B2", marker="o" if len(values) <= 60 else None, markersize=3.5, linewidth=1.6)
    axes.set(xlabel="round", ylabel=name, title="Convergence")
    if len(values):
        falls = len(values) < 2 or values[-1] <= values[-2]  # the name stands where the line does not come from
        axes.annotate(
            compact(values[-1]), (rounds[-1], values[-1]), xytext=(0, -6 if falls else 6), textcoords="offset points",
            ha="right", va="top" if falls else "bottom", fontsize=9,
        )  # fmt: skip
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.margins(y=0.16)
    if len(values) and 0 < 1e3 * values.min() < values.max():
        axes.set_yscale("log")
    else:
        axes.ticklabel_format(axis="y", useOffset=False)
    if len(values) and np.ptp(values) < _AT_REST * np.abs(values).max():  # what is at rest is drawn as a level line
        middle, room = values.mean(), 10 * _AT_REST * np.abs(values).max()
        axes.set(ylim=(middle - room, middle + room), title=f"Convergence (changes below {_AT_REST:.1%})")
    _plain(axes)
    return axes


_AT_REST = 1e-3  # of the objective: a smaller change is not worth a slope


def sizes(counts: NDArray[Any], axes: Any = None) -> Any:
    """Draw the size of each cluster against the size that all would have if they were equal."""
    axes = axes_or_new(axes)
    n = len(counts)
    axes.bar(np.arange(n), counts, color=colours(n), width=0.8)
    equal = float(np.sum(counts)) / max(1, n)
    line = axes.axhline(equal, color=_GREY, linestyle="--", linewidth=1, label=f"equal sizes: {compact(equal)}")
    # Largest first: the corner above the last bars is the emptiest; equal ones leave room above all of them.
    axes.legend(handles=[line], loc="upper right", frameon=False, fontsize=8, borderaxespad=0.1)
    if n <= 16:
        for cluster, count in enumerate(counts):
            axes.annotate(
                compact(count), (cluster, count), xytext=(0, 3), textcoords="offset points", ha="center", fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4},  # not through the line of equal sizes
            )  # fmt: skip
    axes.set(xlabel="cluster", ylabel="rows", title="Cluster sizes")
    axes.yaxis.set_major_formatter(lambda value, _: compact(value))
    ticks_of_clusters(axes.xaxis, np.arange(n), most=16)
    axes.margins(y=0.2)
    _plain(axes)
    return axes


_FLAT = 0.8  # a third principal component so near to the second makes their plane arbitrary


def plane_of_centres(squares: Floats) -> Floats:
    """Return two coordinates of rows from their squared distances to the centres.

    Differences of squared distances to two centres are linear in feature space, so the principal components of
    distances with their mean taken off are a plane in the span of the centres: where clusters lie apart, it shows.
    Centres that are about equally far from one another have no such plane, and any would lay most of them on one
    another: then the directions to them are spread round a circle, which is a plane of their span as well.
    """
    n_rows, n_clusters = squares.shape
    if n_clusters == 1:
        return np.column_stack([np.sqrt(squares[:, 0]), np.zeros(n_rows)])
    if n_clusters == 2:
        return np.column_stack([(squares[:, 1] - squares[:, 0]) / 2, np.sqrt(squares.min(axis=1))])
    B = -(squares - squares.mean(axis=1, keepdims=True)) / 2
    B = B - B.mean(axis=0)
    U, s, _ = np.linalg.svd(B, full_matrices=False)
    if n_clusters > 3 and s[2] > _FLAT * s[1]:
        angles = 2 * np.pi * np.arange(n_clusters) / n_clusters
        return B @ np.column_stack([np.cos(angles), np.sin(angles)])
    plane = U[:, :2] * s[:2]
    largest = np.abs(plane).argmax(axis=0)
    return plane * np.where(plane[largest, [0, 1]] < 0, -1.0, 1.0)  # signs of eigenvectors are arbitrary


def scatter(
    points: Floats, labels: NDArray[Any], n_clusters: int, names: tuple[str, str], regions: Any, axes: Any
) -> Any:
    """Draw rows in a plane, coloured by cluster, with the borders between clusters.

    `regions` labels points of the plane, or is None: then borders are drawn where the nearest rows change cluster.
    """
    axes = axes_or_new(axes, 6.4, 5.2)
    palette, shapes = colours(n_clusters), marks(n_clusters)
    size = float(np.clip(8000 / max(1, len(points)), 4, 18))
    _borders(axes, points, labels, n_clusters, regions)
    if (labels < 0).any():
        axes.scatter(*points[labels < 0].T, s=size, color="0.8", linewidths=0)
    for cluster in range(n_clusters):
        mine = points[labels == cluster]
        axes.scatter(*mine.T, s=size, color=[palette[cluster]], marker=shapes[cluster], linewidths=0, alpha=0.75)
    for cluster in range(n_clusters):  # above all points
        mine = points[labels == cluster]
        if len(mine):
            place = mine[((mine - np.median(mine, axis=0)) ** 2).sum(axis=1).argmin()]  # a row: rings have no middle
            _badge(axes, mine, place, cluster, palette[cluster], 9 if n_clusters <= 20 else 7)
    axes.set(xlabel=names[0], ylabel=names[1], title="Clusters")
    _plain(axes)
    return axes


def _borders(axes: Any, points: Floats, labels: NDArray[Any], n_clusters: int, regions: Any) -> None:
    if n_clusters < 2 or len(np.unique(labels)) < 2:
        return
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.04 * np.where(high > low, high - low, 1)
    x, y = (np.linspace(low[k] - pad[k], high[k] + pad[k], 220) for k in (0, 1))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    if regions is None:
        from scipy.spatial import cKDTree

        scale = np.where(high > low, high - low, 1)
        voters = min(len(points), max(7, len(points) // max(40, 4 * n_clusters)))  # a part of a cluster
        near = labels[cKDTree(points / scale).query(grid / scale, k=voters)[1].reshape(len(grid), -1)]
        field = np.array([np.bincount(row[row >= 0], minlength=n_clusters).argmax() for row in near])
    else:
        field = np.asarray(regions(grid))
    field = field.reshape(len(y), len(x))
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(_outlines(field, x, y), colors="0.65", linewidths=0.7, zorder=0))
    axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))


_BLUR = 1.5  # points of the grid: enough to make lines of steps


def _outlines(field: NDArray[Any], x: Floats, y: Floats) -> list[Floats]:
    """Return the borders between regions of a grid as lines without steps.

    The indicators of the regions are blurred; a border is where two of them are equal and all others are less.
    """
    from contourpy import contour_generator
    from scipy.ndimage import find_objects, gaussian_filter

    best, second = np.zeros(field.shape), np.zeros(field.shape)
    shares = []
    for number, box in enumerate(find_objects(field + 1)):
        if box is None:
            continue
        around = tuple(slice(max(0, side.start - 8), side.stop + 8) for side in box)
        share = gaussian_filter((field[around] == number).astype(float), _BLUR, mode="nearest")
        np.maximum(second[around], np.minimum(best[around], share), out=second[around])
        np.maximum(best[around], share, out=best[around])
        shares.append((around, share))
    lines: list[Any] = []
    for around, share in shares:
        ahead = share - np.where(share >= best[around], second[around], best[around])
        lines.extend(contour_generator(x[around[1]], y[around[0]], ahead).lines(0.0))
    return lines


def _badge(axes: Any, points: Floats, place: Floats, text: Any, colour: Any, fontsize: float) -> None:
    """Name a cluster: on it, or beside it, towards the middle, where the name would hide all of its points."""
    box = {"boxstyle": "round,pad=0.2", "facecolor": colour, "edgecolor": "white", "linewidth": 0.8}
    seen = axes.transData.transform(points) * 72 / axes.figure.dpi
    beside = np.ptp(np.percentile(seen, [5, 95], axis=0), axis=0).max() < 2 * fontsize
    side = np.where(axes.transAxes.inverted().transform(axes.transData.transform(place)) > 0.5, -1, 1)
    axes.annotate(
        str(text), place, xytext=1.6 * fontsize * side * beside, textcoords="offset points", ha="center", va="center",
        color=letters_on(colour), fontsize=fontsize, bbox=box, annotation_clip=False,
    )  # fmt: skip


def membership_bars(memberships: Floats, axes: Any = None) -> Any:
    """Draw the memberships of rows as an image: a column is a row of the data, sorted by cluster and by certainty."""
    axes = axes_or_new(axes)
    label = memberships.argmax(axis=1)
    order = np.lexsort((-memberships.max(axis=1), label))
    image = axes.imshow(memberships[order].T, aspect="auto", cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
    axes.set(xlabel=f"{len(memberships):,} rows, by cluster and certainty", ylabel="cluster", title="Memberships")
    axes.set_xticks([])
    ticks_of_clusters(axes.yaxis, np.arange(memberships.shape[1]))
    axes.figure.colorbar(image, ax=axes, label="membership", shrink=0.85)
    return axes


def silhouette_bars(distances: Floats, labels: NDArray[Any], axes: Any = None) -> Any:
    """Draw the simplified silhouette of each row: how much nearer its own centre is than the next one.

    It is (b - a) / max(a, b) with the distances a to the row's own centre and b to the nearest other.
    """
    axes = axes_or_new(axes, 6.4, 5.2)
    n_clusters = distances.shape[1]
    kept = labels >= 0
    distances, labels = distances[kept], labels[kept]
    rows = np.arange(len(labels))
    own = distances[rows, labels]
    others = distances.copy()
    others[rows, labels] = np.inf
    next_one = others.min(axis=1)
    scale = np.maximum(own, next_one)
    values = np.where(scale > 0, (next_one - own) / np.where(scale > 0, scale, 1), 0.0)
    palette, start, places, space = colours(n_clusters), 0.0, [], max(1.0, 0.012 * len(labels))
    for cluster in range(n_clusters):
        mine = np.sort(values[labels == cluster])
        heights = start + np.arange(len(mine))
        axes.fill_betweenx(heights, 0, mine, color=palette[cluster], linewidth=0.4)
        places.append(start + len(mine) / 2)
        start += len(mine) + space
    axes.axvline(values.mean(), color=_GREY, linestyle="--", linewidth=1)
    axes.set(xlabel=f"simplified silhouette (mean {values.mean():.2f})", ylabel="cluster", title="Silhouettes")
    axes.invert_yaxis()
    ticks_of_clusters(axes.yaxis, np.array(places), apart=start / 26)
    _plain(axes)
    return axes


def confusion(counts: NDArray[Any], names: list[Any], axes: Any = None) -> Any:
    """Draw how known classes (rows) fall into clusters (columns), as shares of each class.

    Clusters stand in the order of the classes that most of their rows are of.
    """
    n_classes, n_clusters = counts.shape
    axes = axes_or_new(
        axes, float(np.clip(2.5 + 0.42 * n_clusters, 5.2, 12)), float(np.clip(1.8 + 0.36 * n_classes, 3.4, 10))
    )
    order = np.lexsort((-counts.max(axis=0), counts.argmax(axis=0)))
    shares = counts[:, order] / np.maximum(1, counts.sum(axis=1, keepdims=True))
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    if counts.size <= 400:
        for (row, column), share in np.ndenumerate(shares):
            if share >= 0.005:
                letters = {"fontsize": 10 if counts.size <= 36 else 7, "color": "white" if share > 0.55 else "black"}
                axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", **letters)
    axes.set(xlabel="cluster", ylabel="known class", title="Known classes by cluster, % of each class")
    # In this order a number does not follow from its neighbours: if there is room, all are named.
    width, height = (int(side / axes.figure.dpi * 72) for side in axes.get_window_extent().size)
    small = {"fontsize": 7} if max(counts.shape) > 26 else {}
    turned = {"rotation": 90} if n_clusters > 16 else {}
    ticks_of_clusters(axes.xaxis, np.arange(n_clusters), [int(k) for k in order], width // 9, **small, **turned)
    ticks_of_clusters(axes.yaxis, np.arange(n_classes), names, height // 9, **small)
    axes.figure.colorbar(image, ax=axes, shrink=0.85, format=lambda share, _: f"{share:.0%}", label="of the class")
    return axes


def evidence(found: dict[str, Any], axes: Any = None) -> Any:
    """Draw what speaks for a number of clusters: the spectrum, and how far each candidate stands out."""
    axes = axes_or_new(axes)
    ratios = np.asarray(found["ratios"], dtype=float)
    expected = np.asarray(found["expected_ratios"], dtype=float)
    numbers = np.arange(1, len(ratios) + 1)
    shown = slice(0, max(12, min(len(ratios), int(1.5 * found["first"]) + 4)))
    axes.vlines(numbers[shown], 1, ratios[shown], color="#0072B2", linewidth=2)
    axes.plot(numbers[shown], ratios[shown], "o", color="#0072B2", markersize=4, label="gap after so many eigenvalues")
    axes.plot(
        numbers[shown],
        expected[shown],
        color=_GREY,
        linestyle="--",
        linewidth=1,
        label="largest gap without clusters",
    )
    axes.set_yscale("log")
    candidates, scores = np.asarray(found["candidates"]), np.asarray(found["scores"], dtype=float)
    best = candidates[(scores >= 1) & (candidates <= len(ratios))].astype(int)
    if len(best) > 1:  # a smaller gap is taken, and the picture has to say why
        axes.plot(
            best, ratios[best - 1], "o", color="#D55E00", markersize=6,
            label="valleys between all: the most are taken",
        )  # fmt: skip
    top = int(found["first"]) - 1
    axes.annotate(
        f"{found['first']}", (numbers[top], ratios[top]), xytext=(0, 5), textcoords="offset points", ha="center",
        color="#D55E00", fontweight="bold",
    )  # fmt: skip
    taken, clear = found["taken"], "clear" if found["clear"] else "unclear"
    after = "" if taken == found["first"] else f", {taken} after a second look at each"
    axes.set(
        xlabel="number of clusters",
        ylabel="eigengap (ratio of time scales)",
        title=f"Evidence: {found['first']}{after} ({clear})",
    )
    axes.xaxis.get_major_locator().set_params(integer=True)
    tallest = numbers[shown][np.argmax(ratios[shown])] - numbers[0]  # the legend stands on the other side of it
    side = "upper left" if tallest > (numbers[shown][-1] - numbers[0]) / 2 else "upper right"
    axes.legend(fontsize=8, frameon=False, loc=side)
    axes.margins(y=0.15)
    _plain(axes)
    return axes


def seed_paths(path: Floats, points: Floats | None, names: tuple[str, str], axes: Any = None) -> Any:
    """Draw the path of each seed, from a ring to a full dot, over the rows."""
    axes = axes_or_new(axes, 6.4, 5.2)
    if points is not None:
        axes.scatter(*points.T, s=4, color="0.8", linewidths=0, zorder=0)
    palette = colours(path.shape[1])
    for seed in range(path.shape[1]):
        way = path[:, seed]
        axes.plot(*way.T, color=palette[seed], linewidth=1.1)
        axes.plot(*way[0], "o", markerfacecolor="white", color=palette[seed], markersize=6)
        axes.plot(*way[-1], "o", color=palette[seed], markersize=7, markeredgecolor="white")
    title = f"Paths of {path.shape[1]} seeds in {len(path) - 1} epochs, from ring to dot"
    if points is not None:  # rivals that were driven far away would leave no room for the rest
        low, high = points.min(axis=0), points.max(axis=0)
        low, high = low - 0.25 * (high - low), high + 0.25 * (high - low)
        away = int(((path[-1] < low) | (path[-1] > high)).any(axis=1).sum())
        if away:
            axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
            title += f" ({away} out of sight)"
    axes.set(xlabel=names[0], ylabel=names[1], title=title)
    _plain(axes)
    return axes


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
