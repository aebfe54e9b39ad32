"""Blocks of a stream: rows in memory meet the centres in a random order of their own, and are not kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.base import Centres, Map
from ..random import Key
from ..rules.competitive import Rates, Winners, compete
from ..rules.coordinates import Coordinates
from ..rules.sequential import Seeds, SequentialRule
from ..system import single_threaded
from .measuring import BadRowError, Measured, Reader, measure_block, task
from .tasks import Model, labelled_tiles

__all__ = ["Stream", "label_rows", "means_of", "meet_block", "stream_rate"]

Floats = NDArray[Any]

_SETTLING_UPDATES = 10  # after so many updates of a centre the rate has fallen to a half


@dataclass(frozen=True, eq=False)
class Stream:
    """Where a stream stands: how rows are measured, centres and wins, rows met so far."""

    reader: Reader
    winners: Winners
    n_rows: int
    subset_rows: int  # 1: row by row, in coordinates
    rates: Rates
    key: Key
    coordinates: Coordinates | None = None  # of the reader's measurements, once rows have been met one by one


def stream_rate(rates: Rates, updates: Any) -> Any:
    """Return the learning rate after so many updates: ``start / (1 + updates / 10)``, not below the end.

    A stream has no length that a fraction could be taken of; this falls so slowly that centres can go anywhere, and
    fast enough that they come to rest (Robbins and Monro 1951, doi:10.1214/aoms/1177729586).

    Examples
    --------
    >>> stream_rate(Rates(1.0, 0.01), np.array([0, 10, 10_000]))
    array([1.  , 0.5 , 0.01])
    """
    return np.maximum(rates.end, rates.start / (1 + np.asarray(updates) / _SETTLING_UPDATES))


def meet_block(stream: Stream, rows: Floats) -> Stream:
    """Let the rows of a block meet the centres, in subsets or one by one."""
    order = stream.key.child("stream", stream.n_rows).rows(len(rows), 0, len(rows))
    with single_threaded():
        if stream.subset_rows == 1 and stream.coordinates is None:
            stream = replace(stream, coordinates=Coordinates.of(stream.reader.map_, with_means=True))
        winners = _in_subsets(stream, rows, order) if stream.subset_rows > 1 else _row_by_row(stream, rows, order)
    return replace(stream, winners=winners, n_rows=stream.n_rows + len(rows))


def _measure(reader: Reader, rows: Floats, numbers: NDArray[np.int64]) -> tuple[Floats, Floats]:
    try:
        block: Measured = measure_block(rows[numbers], 0, reader)
    except BadRowError as error:
        raise BadRowError(int(numbers[error.row])) from None
    keep = slice(None) if block.valid is None else block.valid
    return block.Z[keep], block.kappa[keep]  # type: ignore[index]


def _in_subsets(stream: Stream, rows: Floats, order: NDArray[np.int64]) -> Winners:
    winners, step, map_ = stream.winners, stream.subset_rows, stream.reader.map_
    for first in range(0, len(rows), step):
        Z, kappa = _measure(stream.reader, rows, order[first : first + step])
        rate = float(stream_rate(stream.rates, (stream.n_rows + first) / step))
        winners = compete(winners, Z, kappa, rate, map_)
    return winners


def _row_by_row(stream: Stream, rows: Floats, order: NDArray[np.int64]) -> Winners:
    map_, step = stream.reader.map_, stream.reader.tile_rows
    coordinates, rule = stream.coordinates, SequentialRule("frequency_sensitive")
    assert coordinates is not None
    means = means_of(stream.winners.centres, map_)
    seeds = Seeds.start(coordinates.of_means(means), stream.winners.counts)
    for first in range(0, len(rows), step):
        Y, r = coordinates.block(*_measure(stream.reader, rows, order[first : first + step]))
        updates = (stream.n_rows + first + np.arange(len(r))) / len(seeds.counts)  # a centre's own, on average
        if len(r):
            seeds = rule(seeds, Y, r, stream_rate(stream.rates, updates))
    return Winners(coordinates.centres(seeds.centres), seeds.counts)


def means_of(centres: Centres, map_: Map) -> Floats:
    """Return the mean measurements of centres, from their coefficients if need be: ``s = K_hat g``."""
    if centres.means is not None:
        return centres.means
    K_hat = getattr(map_, "kernel_matrix", None)
    return centres.coefficients if K_hat is None else centres.coefficients @ K_hat


@task
def label_rows(rows: Floats, model: Model) -> tuple[NDArray[np.int32], float]:
    """Return the labels of rows in memory, and the sum of their distances to the centres that won."""
    out, objective = np.empty(len(rows), dtype=np.int32), 0.0
    for tile, labels, nearest, _ in labelled_tiles(rows, 0, model):
        out[tile.start :][: len(labels)] = model.numbers(labels)
        objective += float(nearest[labels >= 0].sum(dtype=np.float64))
    return out, objective
