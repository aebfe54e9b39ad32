"""A stream of rows of unknown length, in bounded memory: chunks are met as they fill up.

The answer is a function of the rows and their order alone: rows wait until they fill a chunk, so it does not matter in
what portions they arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.rows import join_blocks
from ..maps.base import Centres
from ..random import Key
from ..rules.fuzzy import FuzzyRun
from .chunks import Levels, final_run, summarise, wait, with_prototypes
from .fuzzy import FuzzySettings, Prototypes
from .measuring import Reader, measure_block
from .single import meet_chunk

__all__ = ["Begun", "Chunk", "OnlineState", "SinglePassState", "StreamEnd"]

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Begun:
    """What the first chunk of a stream settles: the map, where runs start, the parameters of the runs."""

    reader: Reader
    start: Centres | None
    settings: FuzzySettings
    key: Key


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows of a stream with their weights (0 for dropped ones); the first has the number `start`."""

    rows: Floats
    weights: Floats
    start: int = 0

    def join(self, rows: Floats, weights: Floats) -> Chunk:
        """Return the chunk with more rows behind."""
        return Chunk(
            join_blocks([self.rows, rows]) if len(self.rows) else rows,
            np.concatenate([self.weights, weights]),
            self.start,
        )

    def split(self, n_rows: int) -> tuple[Chunk, Chunk]:
        """Return the first rows, and the rest."""
        rest = Chunk(self.rows[n_rows:].copy(), self.weights[n_rows:].copy(), self.start + n_rows)
        return Chunk(self.rows[:n_rows], self.weights[:n_rows], self.start), rest

    def points(self, begun: Begun) -> tuple[Floats, Floats, Floats]:
        """Return the rows as weighted objects."""
        measured = measure_block(self.rows, 0, begun.reader)
        return measured.Z, measured.kappa, self.weights

    @property
    def candidates(self) -> list[Prototypes]:
        """The rows of positive weight, if there are any, as candidates for prototypes."""
        part = np.flatnonzero(self.weights > 0)
        return [Prototypes(self.rows[part], self.start + part)] if len(part) else []


@dataclass(frozen=True, eq=False)
class StreamEnd:
    """The model as it stands after some rows."""

    run: FuzzyRun
    prototypes: Prototypes


@dataclass(frozen=True, eq=False)
class OnlineState:
    """Chunks apart, their centres merged in a tree (oKFCM)."""

    levels: Levels = field(default_factory=dict)

    def meet(self, chunk: Chunk, begun: Begun) -> OnlineState:
        """Return the state after one more chunk."""
        map_, settings, number = begun.reader.map_, begun.settings, chunk.start // begun.settings.chunk_rows
        summary = summarise(chunk.points(begun), begun.start, map_, settings, begun.key.child(number))
        levels = dict(self.levels)
        summary = with_prototypes(summary, chunk.candidates, map_)
        wait(levels, 0, summary, map_, begun.start, settings, begun.key)
        return OnlineState(levels)

    def end(self, begun: Begun) -> StreamEnd:
        """Return the model after the chunks so far."""
        map_ = begun.reader.map_
        run = final_run(self.levels, map_, begun.start, begun.settings, begun.key)
        waiting = [summary.prototypes for _, summaries in self.levels.values() for summary in summaries]
        candidates = Prototypes.join([prototypes for prototypes in waiting if prototypes is not None])
        return StreamEnd(run, candidates.nearest(run.centres, map_))


@dataclass(frozen=True, eq=False)
class SinglePassState:
    """The centres so far join the next chunk (spKFCM)."""

    run: FuzzyRun | None = None
    prototypes: Prototypes | None = None

    def meet(self, chunk: Chunk, begun: Begun) -> SinglePassState:
        """Return the state after one more chunk."""
        map_, settings, number = begun.reader.map_, begun.settings, chunk.start // begun.settings.chunk_rows
        run = meet_chunk(self.run, chunk.points(begun), number, map_, begun.start, settings, begun.key)
        if run is None or not chunk.candidates:
            return self
        candidates = [*([] if self.prototypes is None else [self.prototypes]), *chunk.candidates]
        return replace(self, run=run, prototypes=Prototypes.join(candidates).nearest(run.centres, map_))

    def end(self, begun: Begun) -> StreamEnd:
        """Return the model after the chunks so far."""
        assert self.run is not None  # some row of the first chunk has weight
        assert self.prototypes is not None
        return StreamEnd(self.run, self.prototypes)
