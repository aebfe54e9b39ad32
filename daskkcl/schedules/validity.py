"""Indices of a fuzzy partition in one pass over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rules.sums import ExactSum
from ..rules.validity import between_centres, centre_products, mean_norm, validity_indices
from .dataset import Dataset
from .judging import Group
from .measuring import Tile, task, tiles
from .passes import reduce_pass
from .tasks import Model

__all__ = ["validity_pass", "validity_passes"]

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over rows: weight, ``w u^2``, ``-w u ln u`` and J; masses; weighted measurements."""

    figures: ExactSum  # (4,)
    masses: ExactSum  # (c,)
    measurements: ExactSum  # (m,)

    @staticmethod
    def combine(parts: list[_Sums]) -> _Sums:
        total = parts[0]
        for part in parts[1:]:
            total = _Sums(
                total.figures + part.figures, total.masses + part.masses, total.measurements + part.measurements
            )
        return total


def validity_pass(data: Dataset, model: Model, weights: Floats | None) -> dict[str, float]:
    """Return the validity indices of a fuzzy model on the rows of a dataset.

    The mean of all rows is taken in the span of the map's measurements, where the centres are.
    """
    return validity_passes(data, [Group(model.reader, (0,), (model,))], weights)[0]


def validity_passes(data: Dataset, groups: Sequence[Group], weights: Floats | None = None) -> list[dict[str, float]]:
    """Return the validity indices of several fuzzy models on the same rows, which are read once."""
    found = reduce_pass(data, validity_blocks, _combine, (tuple(groups), weights), "validity")
    models = dict(pair for group in groups for pair in zip(group.numbers, group.models, strict=True))
    return [_indices(sums, models[number]) for number, sums in enumerate(found)]


def _combine(parts: list[list[_Sums]]) -> list[_Sums]:
    return [_Sums.combine(list(own)) for own in zip(*parts, strict=True)]


def _indices(sums: _Sums, model: Model) -> dict[str, float]:
    total, squares, entropy, objective = sums.figures.value.tolist()
    centres, map_ = model.centres, model.reader.map_
    products = centre_products(centres, map_)
    mean = sums.measurements.value / total
    to_mean = np.diag(products) - 2 * centres.coefficients @ mean + mean_norm(mean, map_)
    return validity_indices(
        total, squares, entropy, objective, sums.masses.value, between_centres(products), np.maximum(to_mean, 0)
    )


@task
def validity_blocks(block: Any, start: int, groups: tuple[Group, ...], weights: Floats | None) -> list[_Sums]:
    """Return the sums of a block for every model; those with the same reader share its measurements."""
    found: dict[int, _Sums] = {}
    for group in groups:
        reader, models = group.reader, dict(zip(group.numbers, group.models, strict=True))
        for number, model in models.items():
            found[number] = _Sums(
                ExactSum.zeros((4,)),
                ExactSum.zeros((model.centres.n_clusters,)),
                ExactSum.zeros((reader.map_.n_measurements,)),
            )
        for tile in tiles(block, start, reader):
            for number, model in models.items():
                found[number] = _with_tile(found[number], tile, model, tile.weights(weights))
    return [found[number] for number in sorted(found)]


def _with_tile(sums: _Sums, tile: Tile, model: Model, weights: Floats | None) -> _Sums:
    """Return sums with those of a tile."""
    D = model.distances(tile)
    w = np.ones(len(D)) if weights is None else weights
    U = model.rule.memberships(D, model.scale(tile)).astype(np.float64)
    if tile.valid is not None:
        U[~tile.valid] = 0
    W = w[:, None] * U**model.rule.fuzzifier
    log = np.log(U, out=np.zeros_like(U), where=U > 0)
    squares, entropy = w @ (U**2).sum(axis=1), -(w @ (U * log).sum(axis=1))
    return _Sums(
        sums.figures + np.array([w.sum(), squares, entropy, (W * D).sum()]),
        sums.masses + W.sum(axis=0),
        sums.measurements + w.astype(tile.Z.dtype) @ tile.Z,
    )
