"""Batch neural gas in the landmarks' span: full passes with an ever shorter reach."""

from __future__ import annotations

import numpy as np

from ..maps.base import Centres
from ..rules.neural_gas import NeuralGas
from .checkpoint import Checkpoint
from .dataset import Dataset
from .lloyd import PassResult
from .passes import sum_pass
from .setup import Setup
from .tasks import Model

__all__ = ["batch_neural_gas"]


def batch_neural_gas(
    setup: Setup,
    data: Dataset,
    start: Centres,
    n_passes: int,
    reach_start: float,
    reach_end: float,
    checkpoint: Checkpoint,
) -> PassResult:
    """Move every centre to the mean of all rows weighted by its rank among their centres, pass after pass.

    The reach of the weights falls geometrically from the first pass to the last; with a short reach it is k-means. A
    centre whose weights all vanish stays.
    """
    centres, history = start, []
    saved = checkpoint.load()
    if saved:
        centres, history = Centres.from_means(saved["means"], setup.map_), saved["history"].tolist()
    while len(history) < n_passes:
        done = len(history) / max(1, n_passes - 1)
        rule = NeuralGas(reach_start * (reach_end / reach_start) ** done)
        sums = sum_pass(data, Model(setup.reader, centres, rule), f"pass {len(history) + 1}")
        history.append(float(sums.objective.value))
        mass = sums.mass.value[:, None]
        means = np.where(mass > 0, sums.S.value / np.where(mass > 0, mass, 1), centres.means)
        centres = Centres.from_means(means, setup.map_)
        checkpoint.save({"means": means, "history": np.array(history)})
    return PassResult(centres, tuple(history), len(history), True)
