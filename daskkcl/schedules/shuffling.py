"""All rows in the random order of an epoch, from scratch; the beginning of the first epoch's order is the sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.shuffle import Shuffled, bucket_bytes
from ..blocks.sources import ArraySource, Source
from ..kernels.rows import join_blocks
from ..planning import Plan
from ..random import FixedOrder, Key
from .data import shuffle
from .engine import Engine
from .scaling import needs_pass

if TYPE_CHECKING:
    from ..blocks.scratch import Scratch
    from .problem import Problem

__all__ = ["can_shuffle_first", "rows_of_shuffle", "shuffle_epoch"]


def shuffle_epoch(
    problem: Problem, source: Source, engine: Engine, plan: Plan, scratch: Scratch, key: Key | FixedOrder
) -> Shuffled:
    """Write all rows in the order of an epoch, cut into buckets of whole blocks of the stage that will meet them."""
    block_rows, runs = plan.layout("subsets").block_rows, plan.layout("shuffling")
    most = bucket_bytes(problem.n_rows, problem.row_bytes, plan.limit_bytes)
    bucket_blocks = max(1, most // (problem.row_bytes * block_rows)) if engine.local else 1
    bucket_rows = bucket_blocks * block_rows
    # An epoch's own, gone when the next begins; a run that was stopped finds its files again, if it cuts the same ones.
    own = scratch.part(f"shuffle-{'-'.join(key.path)}-{bucket_rows}-{runs.block_rows}")
    return shuffle(engine, source, key, bucket_rows, runs, own)


def can_shuffle_first(problem: Problem, source: Source, engine: Engine, durable: bool) -> bool:
    """Say whether a run that meets all rows in random order may shuffle them before anything else.

    It then has its sample from the shuffle and saves a reading of the data. Not where a checkpoint has to be compared
    first, where codes are met and not rows, or where a pass is wanted before any row can be used.
    """
    on_disk = engine.local and not isinstance(source, ArraySource) and not needs_pass(source)
    return on_disk and not durable and not problem.recipe.code_bytes


def rows_of_shuffle(shuffled: Shuffled, numbers: NDArray[np.int64]) -> Any:
    """Return some rows by their numbers: those of the sample are all in the first bucket, or the first few."""
    places = shuffled.key.positions(shuffled.n_rows, numbers)
    buckets = places // shuffled.bucket_rows
    parts, order = [], []
    for bucket in np.unique(buckets):
        wanted = np.flatnonzero(buckets == bucket)
        parts.append(shuffled.bucket(int(bucket))[places[wanted] - bucket * shuffled.bucket_rows])
        order.append(wanted)
    return join_blocks(parts)[np.argsort(np.concatenate(order), kind="stable")]
