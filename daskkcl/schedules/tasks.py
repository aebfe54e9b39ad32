"""What runs inside tasks: from a block of rows to measurement tiles, sums and labels. Pure functions of blocks.

Arithmetic goes tile by tile on a fixed grid of global row numbers, so every floating-point operation is the same
whatever block, chunk, thread or worker a row comes with.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.scratch import Scratch, read_array, write_array
from ..errors import InvalidInputError
from ..kernels.rows import SparseRows
from ..maps.base import Centres, Map
from ..rules.crisp import cluster_sums
from ..rules.fuzzy import Fuzzy
from ..rules.index import CentreIndex
from ..rules.many import MANY, winners
from ..rules.neural_gas import NeuralGas
from ..rules.sums import ExactSum
from ..system import single_threaded

__all__ = [
    "BadRowError",
    "Measured",
    "Model",
    "Reader",
    "Sums",
    "Tile",
    "first_bad_row",
    "label_block",
    "labelled_tiles",
    "measure_block",
    "spill_block",
    "sum_block",
    "tiles",
]

Floats = NDArray[Any]


class BadRowError(InvalidInputError):
    """A row has a NaN or an infinity. Carries some such row, not yet the first."""

    def __init__(self, row: int) -> None:
        super().__init__(
            f"Input X contains NaN or infinity, in row {row:,}. nan='drop' leaves such rows out and labels them -1."
        )
        self.row = row

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.row,)


@dataclass(frozen=True, eq=False)
class Reader:
    """How rows become measurements.

    Parameters
    ----------
    map_ : Map
    tile_rows : int
        Rows of a tile; blocks begin at multiples of it.
    nan : {"raise", "drop"}
    """

    lasting = True  # from round to round: workers are sent it once
    map_: Map
    tile_rows: int
    nan: str = "raise"


@dataclass(frozen=True, eq=False)
class Tile:
    """Measurements of some rows; `valid` is None when all rows are, else a mask."""

    start: int
    Z: Floats
    kappa: Floats
    valid: NDArray[np.bool_] | None

    @property
    def n_valid(self) -> int:
        """Rows that take part."""
        return len(self.Z) if self.valid is None else int(self.valid.sum())

    def weights(self, of_all_rows: Floats | None) -> Floats | None:
        """Return the weights of the tile's rows, 0 for dropped ones; None when all are 1."""
        if of_all_rows is None:
            return None if self.valid is None else self.valid.astype(np.float64)
        own = of_all_rows[self.start : self.start + len(self.Z)]
        return own if self.valid is None else own * self.valid


@dataclass(frozen=True, eq=False)
class Measured:
    """A block of measurements, in memory or in a scratch file."""

    kappa: Floats
    valid: NDArray[np.bool_] | None
    n_measurements: int
    Z: Floats | None = None
    path: str = ""

    def tile_Z(self, first: int, last: int, out: Floats) -> Floats:
        """Return the measurements of some rows of the block."""
        if self.Z is not None:
            return self.Z[first:last]
        offset = first * self.n_measurements * out.dtype.itemsize
        return read_array(self.path, out.dtype, (last - first, self.n_measurements), offset, out[: last - first])

    def weights(self, of_all_rows: Floats | None, rows: Any) -> Floats:
        """Return the weights of the block's rows, given their numbers or the first of them; 0 for dropped rows."""
        own = np.ones(len(self.kappa))
        if of_all_rows is not None:
            own = of_all_rows[rows : rows + len(own)] if isinstance(rows, int) else of_all_rows[rows]
        return own if self.valid is None else own * self.valid


def bad_rows(rows: Floats) -> NDArray[np.bool_] | None:
    """Return a mask of rows with a NaN or infinity, or None when there is none."""
    if isinstance(rows, SparseRows):
        wrong = ~np.isfinite(rows.data)
        return np.bincount(rows.row_numbers()[wrong], minlength=len(rows)) > 0 if wrong.any() else None
    if rows.dtype.kind != "f" or rows.size == 0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        # One sum a row is a cheap screen: NaN and infinity survive it. Only a row that fails it is looked at.
        suspect = ~np.isfinite(rows.sum(axis=1, dtype=np.float32 if rows.dtype.itemsize < 4 else None))
    if not suspect.any():
        return None
    suspect[suspect] = ~np.isfinite(rows[suspect]).all(axis=1)
    return suspect if suspect.any() else None


def first_bad_row(rows: Floats, start: int) -> tuple[int, int] | None:
    """Return global row and column of the first NaN or infinity of a block."""
    bad = bad_rows(rows)
    if bad is None:
        return None
    row = int(np.flatnonzero(bad)[0])
    if isinstance(rows, SparseRows):
        one = rows[row : row + 1]
        return start + row, int(one.indices[~np.isfinite(one.data)][0])
    return start + row, int(np.flatnonzero(~np.isfinite(rows[row]))[0])


def tiles(block: Floats | Measured, start: int, reader: Reader) -> Iterator[Tile]:
    """Walk through a block tile by tile. A tile's arrays are only good until the next one."""
    n = len(block.kappa) if isinstance(block, Measured) else len(block)
    step, map_ = reader.tile_rows, reader.map_
    buffer = np.empty((min(step, n), map_.n_measurements), dtype=map_.dtype)
    for first in range(0, n, step):
        last = min(n, first + step)
        if isinstance(block, Measured):
            valid = None if block.valid is None else block.valid[first:last]
            Z, kappa = block.tile_Z(first, last, buffer), block.kappa[first:last]
        else:
            Z, kappa, valid = _measure(block[first:last], start + first, reader, buffer[: last - first])
        yield Tile(start + first, Z, kappa, valid)


def _measure(rows: Floats, start: int, reader: Reader, out: Floats) -> tuple[Floats, Floats, Any]:
    dtype = reader.map_.dtype
    rows, bad = clean_rows(rows, start, reader.nan, dtype)
    Z, kappa = reader.map_.measure(rows, out)
    _check_range(np.isfinite(kappa), dtype)
    return Z, kappa, None if bad is None else ~bad


def clean_rows(rows: Floats, start: int, nan: str, dtype: np.dtype[Any]) -> tuple[Floats, NDArray[np.bool_] | None]:
    """Return rows with zeros for those that are dropped, and which these are (None: none), or refuse bad rows."""
    bad = bad_rows(rows)
    if bad is not None:
        if nan == "raise":
            raise BadRowError(start + int(np.flatnonzero(bad)[0]))
        rows = zeroed(rows, bad)
    if isinstance(rows, SparseRows):
        _check_range(np.abs(rows.data) <= np.finfo(dtype).max, dtype)
    elif rows.dtype.kind == "f" and rows.dtype.itemsize > dtype.itemsize:
        _check_range(np.maximum(rows.max(axis=1), -rows.min(axis=1)) <= np.finfo(dtype).max, dtype)
    return rows, bad


def zeroed(rows: Any, where: NDArray[np.bool_]) -> Any:
    """Return rows with zeros for some of them."""
    return rows.without(where) if isinstance(rows, SparseRows) else np.where(where[:, None], rows.dtype.type(0), rows)


def _check_range(fits: NDArray[np.bool_], dtype: np.dtype[Any]) -> None:
    """Refuse rows whose values, or their squares where a kernel takes them, are out of the range of blocks."""
    if not fits.all():
        raise InvalidInputError(
            f"There are values too large for blocks in {dtype}: NaN would come of them. Scale the features"
            + (", or pass dtype='float64'." if dtype == np.float32 else ".")
        )


def task(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hold BLAS to one thread while the function runs, wherever it runs."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with single_threaded():
            return function(*args, **kwargs)

    return run


@task
def measure_block(rows: Floats, start: int, reader: Reader, after: Any = None) -> Measured:
    """Measure a whole block. `after` is something to wait for: it bounds how far measuring runs ahead."""
    n, map_ = len(rows), reader.map_
    Z = np.empty((n, map_.n_measurements), dtype=map_.dtype)
    kappa = np.empty(n, dtype=map_.dtype)
    valid = None
    for first in range(0, n, reader.tile_rows):
        last = min(n, first + reader.tile_rows)
        _, kappa[first:last], ok = _measure(rows[first:last], start + first, reader, Z[first:last])
        if ok is not None:
            valid = np.ones(n, dtype=bool) if valid is None else valid
            valid[first:last] = ok
    return Measured(kappa, valid, map_.n_measurements, Z)


@task
def spill_block(rows: Floats, start: int, reader: Reader, scratch: Scratch) -> Measured:
    """Measure a block and leave the measurements in a scratch file, with what else a run finds again there."""
    block = measure_block(rows, start, reader)
    valid = np.ones(len(block.kappa), dtype=bool) if block.valid is None else block.valid
    path = write_array(spill_path(scratch, start, len(rows)), [block.Z, block.kappa, valid])
    return Measured(block.kappa, block.valid, block.n_measurements, path=path)


def spill_path(scratch: Scratch, start: int, n_rows: int) -> str:
    """Return the scratch file of the measurements of a block."""
    return scratch.file(f"measurements-{start:012d}-{n_rows}")


def spilled_block(start: int, n_rows: int, reader: Reader, scratch: Scratch) -> Measured | None:
    """Return a block that an earlier process of the run has measured and left in scratch, if it is there and whole."""
    path, m, dtype = spill_path(scratch, start, n_rows), reader.map_.n_measurements, np.dtype(reader.map_.dtype)
    try:
        if os.stat(path).st_size != n_rows * ((m + 1) * dtype.itemsize + 1):
            return None
    except OSError:
        return None
    offset = n_rows * m * dtype.itemsize
    kappa = read_array(path, dtype, (n_rows,), offset)
    valid = read_array(path, np.dtype(bool), (n_rows,), offset + n_rows * dtype.itemsize)
    return Measured(kappa, None if valid.all() else valid, m, path=path)


@dataclass(frozen=True, eq=False)
class Sums:
    """What a full pass adds up: weighted sums of measurements, masses, the objective.

    `far` holds the rows farthest from their centres (squared distance, row), for clusters that end up empty;
    `change` is the largest change of a membership since the centres before.
    """

    S: ExactSum  # (c, m)
    mass: ExactSum  # (c,)
    objective: ExactSum
    n_rows: int
    far: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)))
    change: float = 0.0

    @staticmethod
    def combine(parts: list[Sums]) -> Sums:
        """Add up sums, in order."""
        total = parts[0]
        for part in parts[1:]:
            total = Sums(
                total.S + part.S,
                total.mass + part.mass,
                total.objective + part.objective,
                total.n_rows + part.n_rows,
                _farthest(np.concatenate([total.far, part.far])),
                max(total.change, part.change),
            )
        return total


_MAX_FAR = 32


def _farthest(far: NDArray[np.float64]) -> NDArray[np.float64]:
    return far[np.lexsort((far[:, 1], -far[:, 0]))][:_MAX_FAR]


@dataclass(frozen=True, eq=False)
class Model:
    """What labels a row: a reader, centres and a rule.

    `order` is the numbering of the clusters: cluster k is centre ``order[k]``. The centres themselves stay in place,
    because a tie goes to the first of them and the last bit of a product depends on its column: a row must get the
    same label before and after the clusters are numbered.
    """

    reader: Reader
    centres: Centres
    rule: Any
    order: NDArray[np.intp] | None = None
    index: CentreIndex | None = None  # of the centres, if rows are to meet only those near them

    @classmethod
    def of(cls, reader: Reader, centres: Centres, rule: Any, indexed: bool) -> Model:
        """Return a model, with an index of its centres if asked for."""
        return cls(reader, centres, rule, index=CentreIndex.of(centres) if indexed else None)

    def winners(self, tile: Tile) -> tuple[NDArray[np.intp], Floats]:
        """Return the centre of every row of a tile by a crisp rule, and its distance as the rule takes it."""
        return winners(tile.Z, tile.kappa, self.centres, self.rule, self.index)

    def graph_parts(self) -> tuple[Any, ...]:
        """Return what it is made of: of these the reader lasts from round to round."""
        return self.reader, self.centres, self.rule, self.order

    def distances(self, tile: Tile) -> Floats:
        """Return the distances of a tile's rows to the centres as the rule takes them: squared ones mostly."""
        return self.rule.distances(tile.Z, tile.kappa, self.centres)

    def scale(self, tile: Tile) -> Floats:
        """Return the sum of squared lengths that distances are measured against."""
        return tile.kappa[:, None] + self.centres.norms.astype(tile.kappa.dtype)

    def numbered(self, order: NDArray[np.intp]) -> Model:
        """Return the model with centre ``order[k]`` called cluster k."""
        return replace(self, order=order)

    def numbers(self, labels: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the clusters of centres given by position; -1 stays."""
        return labels if self.order is None else np.append(np.argsort(self.order), -1)[labels]

    def columns(self, values: Floats) -> Floats:
        """Return values of centres (rows, c) in the order of the clusters."""
        return values if self.order is None else values[:, self.order]


@task
def sum_block(
    block: Floats | Measured,
    start: int,
    model: Model,
    weights: Floats | None = None,
    before: Centres | None = None,
) -> Sums:
    """Return the sums of one step of alternating optimisation over a block: ``S = sum u z``, masses and J.

    `weights` are those of all rows, for the fuzzy rule; `before`, the centres of the step before, asks for the largest
    change of a membership since then.
    """
    c, m = model.centres.n_clusters, model.reader.map_.n_measurements
    S, mass, objective = ExactSum.zeros((c, m)), ExactSum.zeros((c,)), ExactSum.zeros(())
    n_rows, far, change = 0, [np.empty((0, 2))], 0.0
    if c >= MANY:  # most clusters have no row in a tile: sums are added to in place, where there is something to add
        from ..rules.many_loops import add_exactly, settle_sums
    for tile in tiles(block, start, model.reader):
        if isinstance(model.rule, NeuralGas):
            D = model.distances(tile)
            W = model.rule.weights(D)
            if tile.valid is not None:
                W[~tile.valid] = 0
            S, mass = S + W.T @ tile.Z, mass + W.sum(axis=0, dtype=np.float64)
            objective = objective + np.einsum("ic,ic->", W, D, dtype=np.float64)
        elif isinstance(model.rule, Fuzzy):
            D = model.distances(tile)
            U, w = model.rule.memberships(D, model.scale(tile)), tile.weights(weights)
            if before is not None:
                earlier = replace(model, centres=before)
                moved = np.abs(U - model.rule.memberships(earlier.distances(tile), earlier.scale(tile))).max(axis=1)
                change = max(change, float(moved[slice(None) if w is None else w > 0].max(initial=0.0)))
            W = U**model.rule.fuzzifier
            if w is not None:
                W *= w[:, None].astype(W.dtype)
            S, mass = S + W.T @ tile.Z, mass + W.sum(axis=0, dtype=np.float64)
            objective = objective + np.einsum("ic,ic->", W, D, dtype=np.float64)
        else:
            labels, distances = model.winners(tile)
            nearest = distances.astype(np.float64)
            if tile.valid is not None:
                labels[~tile.valid] = -1
                nearest[~tile.valid] = 0
            if c >= MANY:
                add_exactly(tile.Z, labels, S.high, S.low)
                counts = np.bincount(labels[labels >= 0], minlength=c)
            else:
                tile_S, counts = cluster_sums(tile.Z, labels, c)
                S = S + tile_S
            mass, objective = mass + counts, objective + nearest.sum()
            row = int(nearest.argmax())
            far.append(np.array([[nearest[row], tile.start + row]]))
        n_rows += tile.n_valid
    if c >= MANY:
        settle_sums(S.high, S.low)
    return Sums(S, mass, objective, n_rows, _farthest(np.concatenate(far)), change)


@task
def label_block(block: Floats | Measured, start: int, model: Model) -> NDArray[np.int32]:
    """Return the label of every row of a block, -1 for dropped rows."""
    out = np.empty(len(block.kappa) if isinstance(block, Measured) else len(block), dtype=np.int32)
    for tile, labels, _, _ in labelled_tiles(block, start, model):
        out[tile.start - start :][: len(labels)] = model.numbers(labels)
    return out


def labelled_tiles(
    block: Floats | Measured, start: int, model: Model
) -> Iterator[tuple[Tile, NDArray[np.intp], Floats, Floats | None]]:
    """Walk through a block: tile, the centre of every row (-1 for dropped rows), its distance as the rule takes it.

    Of fuzzy models also the squared distances to all centres.
    """
    for tile in tiles(block, start, model.reader):
        D = None
        if isinstance(model.rule, Fuzzy):
            D = model.distances(tile)
            labels = model.rule.labels(D)
            own = np.take_along_axis(D, labels[:, None], axis=1)[:, 0]
        else:
            labels, own = model.winners(tile)
        if tile.valid is not None:
            labels[~tile.valid] = -1
        yield tile, labels, own, D


@task
def membership_block(block: Floats, start: int, model: Model) -> Floats:
    """Return the memberships of every row of a block (rows, c); NaN for dropped rows."""
    out = np.empty((len(block), model.centres.n_clusters), dtype=model.reader.map_.dtype)
    for tile in tiles(block, start, model.reader):
        U = model.rule.memberships(model.distances(tile), model.scale(tile))
        if tile.valid is not None:
            U[~tile.valid] = np.nan
        out[tile.start - start :][: len(U)] = model.columns(U)
    return out


@task
def measurement_block(block: Floats, start: int, reader: Reader) -> Floats:
    """Return the measurements of every row of a block (rows, m); NaN for dropped rows."""
    measured = measure_block(block, start, reader)
    if measured.valid is not None:
        measured.Z[~measured.valid] = np.nan
    return measured.Z


@task
def distance_block(block: Floats, start: int, model: Model) -> Floats:
    """Return the distance of every row of a block to every centre (rows, c); NaN for dropped rows."""
    out = np.empty((len(block), model.centres.n_clusters), dtype=model.reader.map_.dtype)
    for tile in tiles(block, start, model.reader):
        D = model.rule.lengths(model.distances(tile))
        if tile.valid is not None:
            D[~tile.valid] = np.nan
        out[tile.start - start :][: len(D)] = model.columns(D)
    return out
