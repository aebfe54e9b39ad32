"""What is to be clustered: parameters after validation, and what rows, tiles, sums and maps of such sizes take."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.scaled import ScaledSource
from ..blocks.sources import ArraySource, Source
from ..kernels import Kernel, Sigmoid
from ..kernels.base import TILE_ROWS
from ..kernels.widths import PAIR_ROWS
from ..maps.recipes import Recipe, Sizes
from ..planning import Stage, tile_rows
from ..random import Key
from ..rules.counting import MAX_CLUSTERS, counting_bytes
from ..rules.index import search_bytes
from ..rules.lloyd import by_products
from ..rules.many import MANY
from ..rules.scaling import Scaler
from .landmarks import centre_bytes, k_means_bytes

__all__ = ["SAMPLE_ROWS", "START_THREADS", "STRIP_ROWS", "Problem"]

SAMPLE_ROWS = 2000
_SAMPLE_BYTES = 64 * 2**20
_WHOLE_BYTES = 64 * 2**20  # measurements of a subset that is not worth dealing on a cluster
_WIDE_BYTES = 48  # a column of sparse rows: means and spreads of a sample, where entries of the landmarks begin
STRIP_ROWS, START_THREADS = 256, 4  # of the sample's kernel matrix: rows at a time, and at most so many threads
_ROW_EXTRAS = 40  # labels, masks and their temporaries, for each row of a block


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be clustered and how precisely: parameters after validation, before any data are read."""

    source: Source
    n_clusters: int | None  # None: from the sample
    recipe: Recipe
    kernel: Kernel | None  # None: plain distances, or none at all
    landmarks: str | NDArray[Any]
    n_landmarks: int
    dtype: np.dtype[Any]
    nan: str
    key: Key
    memory_limit: int | None
    scratch: str | None
    keep_codes: bool = True  # of a map in two steps, for later passes
    weights: NDArray[np.float64] | None = None  # of all rows; None: all 1
    weight_unit: float = 1.0  # what they were divided by
    indexed: bool = False  # rows meet only the centres that an index finds near them
    durable: bool = False  # whether the run has a checkpoint, and is to find again what it left in scratch
    read: Source | None = None  # what is read in place of the rows, if they are measured already
    on_workers: bool = False  # whether workers of a cluster meet the rows, not threads of this process

    @property
    def n_rows(self) -> int:
        """Rows of the data."""
        return self.source.n_rows

    @property
    def scaler(self) -> Scaler | None:
        """How rows are scaled when they are read; None: not at all, or not yet known."""
        return self.source.scaler if isinstance(self.source, ScaledSource) else None

    @property
    def c(self) -> int:
        """The number of clusters, or the most that may be found, for planning."""
        return self.n_clusters or min(MAX_CLUSTERS, self.n_rows)

    @property
    def n_measurements(self) -> int:
        """Columns of the measurements."""
        return self.recipe.width(self.sizes)

    @property
    def sizes(self) -> Sizes:
        """The numbers that the map's costs depend on."""
        return Sizes(self.n_rows, self.source.n_features, self.n_landmarks, self.c, self.dtype.itemsize, self.cells)

    @property
    def cells(self) -> int:
        """Numbers that a row takes while it is measured: its features, or fewer if it is sparse and may stay so."""
        if not self.source.sparse:
            return self.source.n_features
        return self.recipe.sparse_width(self.kernel, self.source.n_features, self.source.row_entries)

    @property
    def tile_rows(self) -> int:
        """Rows of a tile."""
        widest = max(self.n_measurements, self.recipe.inner(self.sizes))
        return tile_rows(self.cells, widest, self.dtype.itemsize)

    @property
    def sample_rows(self) -> int:
        """Rows of the sample: depends on the problem's shape only."""
        affordable = _SAMPLE_BYTES // (8 * self.cells)
        rows = max(min(SAMPLE_ROWS, affordable), min(20 * self.c, max(20 * MANY, 5 * self.c)))
        if self.recipe.uses_landmarks and isinstance(self.landmarks, str):
            rows = max(rows, self.n_landmarks)
        if self.landmarks_by("kmeans") or self.landmarks_by("leverage"):
            rows = max(rows, 10 * self.n_landmarks)
        return min(rows, self.n_rows)

    # --- costs -----------------------------------------------------------------------------------------------

    @property
    def row_bytes(self) -> int:
        """A row as it is stored, or its code if that is more: passes read one or the other."""
        return max(self.source.row_bytes, self.recipe.code_bytes) if self.read is None else self.read.row_bytes

    @property
    def in_memory(self) -> bool:
        """Whether what passes read is an array in memory."""
        return isinstance(self.read or self.source, ArraySource)

    @property
    def measured_bytes(self) -> int:
        """The measurements of a row."""
        return (self.n_measurements + 1) * self.dtype.itemsize

    @property
    def whole_rows(self) -> int:
        """Rows of a subset that a worker meets alone, though they could be dealt: centres are long on their way."""
        most = min(_WHOLE_BYTES, (self.memory_limit or 2**40) // 16)
        return most // self.measured_bytes if self.on_workers else 0

    @property
    def tile_bytes(self) -> int:
        """Everything a task holds for a tile: measurements, kernel temporaries, distances and weights."""
        rows, itemsize = self.tile_rows, self.dtype.itemsize
        inner = self.recipe.inner(self.sizes)
        scratch = rows * inner * itemsize
        if self.kernel is not None:
            scratch += self.kernel.scratch_bytes(rows, self.cells, max(inner, self.n_measurements), itemsize)
        if self.source.sparse:  # a tile made dense, a product before it is in its place
            scratch += min(rows, TILE_ROWS) * (2 * itemsize + 8) * max(inner, self.n_measurements)
            scratch += rows * self.cells * (itemsize + 8)
        met = rows * self.c * (3 * itemsize + 8)
        if self.indexed:  # a few candidates a row; small coordinates; numbers of centres in the order of clusters
            met = rows * 512 + search_bytes(self.c)
        return rows * (self.measured_bytes + 32) + met + scratch

    @property
    def sums_bytes(self) -> int:
        """Sums of measurements with their errors, temporaries of adding to them, and those of blocks that wait."""
        if not self.recipe.summed:
            return 0
        if self.many:  # added to in place, and in pieces
            return 2 * 16 * self.c * (self.n_measurements + 8)
        return 14 * 8 * self.c * (self.n_measurements + 2)

    @property
    def many(self) -> bool:
        """Whether there are so many clusters that most have no row in a tile."""
        return self.c >= MANY

    @property
    def centres_bytes(self) -> int:
        """Centres before and after a step, each as means, coefficients and in block precision, and their difference."""
        return 8 * 8 * self.c * (self.n_measurements + 2)

    @property
    def map_bytes(self) -> int:
        """Landmarks, their kernel matrix, its eigenvectors with workspace, the inverse, the sample."""
        sample = self.sample_rows * (self.source.mean_bytes + 8)
        weights = 0 if self.weights is None else 2 * self.weights.nbytes  # with a copy in a worker's message
        means = 3 * centre_bytes(self) if self.source.sparse and self.landmarks_by("kmeans") else 0
        summed = self.many and self.recipe.summed
        totals = 3 * 16 * self.c * (self.n_measurements + 8) if summed else 0  # of blocks that wait, and their sum
        wide = _WIDE_BYTES * self.source.n_features if self.source.sparse else 0
        return self.recipe.fixed_bytes(self.sizes) + sample + means + weights + self.centres_bytes + totals + wide

    @property
    def preparing_bytes(self) -> int:
        """The most that is held beside the map before any block is met: one after another, each from the sample."""
        s, m, d = self.sample_rows, self.n_landmarks, self.cells
        width_rows, pair_rows = min(s, SAMPLE_ROWS), min(s, PAIR_ROWS)
        steps = {
            "gathered in pieces": s * (self.source.mean_bytes + 16),
            "counting clusters": counting_bytes(s, self.source.n_features) if self.n_clusters is None else 0,
        }
        if self.recipe.summed:
            steps["first centres"] = s * (3 * self.measured_bytes + self._met_at_once * (4 * self.dtype.itemsize + 8))
            steps["kernel of the sample"] = self._sample_kernel_bytes
        if self.kernel is not None:
            steps["width"] = 8 * (2 * width_rows * d + 3 * pair_rows**2) if not self.kernel.resolved else 0
        if self.recipe.uses_landmarks:
            steps["kmeans"] = k_means_bytes(self, s) if self.landmarks_by("kmeans") else 0
            steps["leverage"] = 8 * (s * d + 3 * s * m + 4 * m * d) if self.landmarks_by("leverage") else 0
            steps["kernel matrix"] = 8 * 4 * m * d + width_rows * (self.row_bytes + d)
        return max(steps.values())

    @property
    def starts_by_kernel(self) -> bool:
        """Whether first centres are found by the kernel matrix of the sample: where it costs no more than products."""
        if self.recipe.name != "landmarks" or self.kernel is None or self.indexed:
            return False
        cheap = self.kernel.takes_sparse and not isinstance(self.kernel, Sigmoid)  # which is no kernel of distances
        return cheap and by_products(self.sample_rows, self.n_landmarks, self.c)

    @property
    def _sample_kernel_bytes(self) -> int:
        """Kernel matrix of the sample, some of it copied by each run; measurements and sums; columns in the making."""
        s, d, itemsize = self.sample_rows, self.cells, self.dtype.itemsize
        if not self.starts_by_kernel or self.kernel is None:
            return 0
        columns = s - min(s, self.n_landmarks) * self.landmarks_by("uniform")
        strip = STRIP_ROWS * s * itemsize + self.kernel.scratch_bytes(STRIP_ROWS, d, columns, itemsize)
        making = columns * (d + 2) * (3 * 8 + itemsize)
        run = s * 5 * 8 * self.c + s * s * itemsize // 4
        return s * (self.measured_bytes + s * itemsize) + START_THREADS * max(strip, run) + making

    @property
    def _met_at_once(self) -> int:
        """Centres that all rows of the sample meet at once; of many clusters groups do, and all a slice of rows."""
        return self.c if not self.many else math.isqrt(self.c) + 1024 * self.c // self.sample_rows

    @property
    def rows_bytes(self) -> int:
        """All rows, if they are to be kept in memory and are not there; sparse ones with the blocks they come in."""
        if isinstance(self.source, ArraySource):
            return 0
        return self.n_rows * (2 * self.source.mean_bytes if self.source.sparse else self.row_bytes)

    def landmarks_by(self, name: str) -> bool:
        """Return whether landmarks are chosen in a certain way."""
        return self.recipe.uses_landmarks and isinstance(self.landmarks, str) and self.landmarks == name

    def stage(self, name: str, **changes: Any) -> Stage:
        """Return a stage that streams over stored rows."""
        source = self.read or self.source
        # Rows are held as they were read and as they were cut; rows in memory already are only looked at.
        stage = Stage(
            name,
            row_bytes=_ROW_EXTRAS if self.in_memory else 2 * self.row_bytes + _ROW_EXTRAS,
            task_bytes=self.tile_bytes + self.sums_bytes,
            fixed_bytes=self.map_bytes,
            quantum=self.tile_rows,
            unit_rows=min(source.unit_rows, self.n_rows),
            unit_bytes=source.unit_bytes,
            readers=0 if self.in_memory else 1,
        )
        if self.many:  # a block's sums cost as much as some thousands of rows: blocks of more rows
            stage = replace(stage, block_bytes=max(stage.block_bytes, 4 * self.c * stage.row_bytes))
        return replace(stage, **changes)

    def mapping_stage(self) -> Stage:
        """Return the stage that streams over all rows to make the map."""
        width = max(self.n_measurements, self.recipe.inner(self.sizes))
        pairs = min(self.n_landmarks**2, self.n_rows * (self.recipe.code_bytes // 8) ** 2)
        sums = 12 * 3 * pairs if self.recipe.code_bytes else 6 * 8 * width * width
        code = 3 * self.recipe.code_bytes
        stage = self.stage("mapping", task_bytes=self.tile_bytes + sums)
        return replace(stage, row_bytes=stage.row_bytes + code)
