"""Approximate kernel k-means: nearest centre in the landmarks' span, full passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..maps.base import Centres
from .checkpoint import Checkpoint
from .data import gather
from .dataset import Dataset
from .passes import sum_pass
from .setup import Setup
from .tasks import Model, Sums

__all__ = ["PassResult", "kernel_k_means", "open_dataset"]


@dataclass(frozen=True, eq=False)
class PassResult:
    """Centres after full passes, with the objective at the start of each pass."""

    centres: Centres
    history: tuple[float, ...]
    n_iter: int
    converged: bool


def open_dataset(setup: Setup, stage: str) -> Dataset:
    """Return the blocks of a stage, kept as the plan says."""
    data = Dataset(setup.engine, setup.source, setup.layout(stage))
    if setup.plan.keep == "measurements":
        data.keep_measurements(setup.reader)
    elif setup.plan.keep == "measurements in scratch":
        data.spill_measurements(setup.reader, setup.scratch)
    elif setup.plan.keep == "rows" and not setup.engine.local:
        data.keep_rows()
    return data


def kernel_k_means(
    setup: Setup, data: Dataset, start: Centres, rule: Any, max_iter: int, tol: float, checkpoint: Checkpoint
) -> PassResult:
    """Alternate assignment and means over all rows until the centres rest.

    The centres rest when the (squared) moves of all of them sum to at most `tol` times the mean (squared) distance of
    a row from its centre, in the metric of the rule. Centres are means of measurements, so nothing of size
    rows x landmarks^2 is formed.
    """
    centres, history, reseeds, converged = start, [], 0, False
    saved = checkpoint.load()
    if saved:
        centres = Centres.from_means(saved["means"], setup.map_)
        history, reseeds = saved["history"].tolist(), int(saved["reseeds"])
        converged = bool(saved["converged"])
    while len(history) < max_iter and not converged:
        sums = sum_pass(data, Model.of(setup.reader, centres, rule, setup.problem.indexed), f"pass {len(history) + 1}")
        history.append(float(sums.objective.value))
        counts = sums.mass.value
        empty = np.flatnonzero(counts == 0)
        means = np.where(counts[:, None] > 0, sums.S.value / np.maximum(counts, 1)[:, None], centres.means)
        if len(empty) and reseeds < centres.n_clusters:
            # An empty cluster starts again at the row that is worst served; at most once a cluster, so that it ends.
            means[empty], reseeded = _worst_rows(setup, sums, means[empty])
            reseeds += reseeded
            moved = reseeded > 0
        else:
            moved = False
        new = Centres.from_means(means, setup.map_)
        step = new.means - centres.means
        shift = rule.shift(step, setup.map_)
        scale = history[-1] / max(1, sums.n_rows)
        converged = not moved and shift <= tol * scale
        centres = new
        checkpoint.save(
            {
                "means": means,
                "history": np.array(history),
                "reseeds": np.array(reseeds),
                "converged": np.array(converged),
            }
        )
    return PassResult(centres, tuple(history), len(history), converged)


def _worst_rows(setup: Setup, sums: Sums, means: Any) -> tuple[Any, int]:
    far = sums.far[sums.far[:, 0] > 0][: len(means)]
    if len(far) == 0:
        return means, 0  # every row stands on a centre: there is nothing to take
    rows = gather(setup.engine, setup.source, far[:, 1].astype(np.int64), setup.layout("sampling"))
    Z, _ = setup.map_.measure(rows)
    means = np.array(means)
    means[: len(far)] = Z
    return means, len(far)
