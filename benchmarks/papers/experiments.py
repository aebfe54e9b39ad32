"""What is to be run: experiments, each a grid of settings times seeds, and their cells in order."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Cell", "Experiment", "cells", "grid"]

Settings = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """A published table or figure.

    Parameters
    ----------
    paper, name : str
        The module, and what the experiment is called there.
    shows : str
        What it stands beside: "Table 1", "Figure 4".
    measure : function of settings, seed and sets
        Does one cell; returns figures by name. It has to be found by its name in its module.
    settings : tuple of dict
        The grid, in the order in which cells are best done.
    runs : int
        Seeds 0 to runs - 1: as many as were published.
    at_a_time : int
        Seeds that are done before other experiments have their turn.
    quick : function of settings
        Whether a cell is in the short run.
    late : function of settings
        Whether a cell comes after those of all other experiments, since it takes long.
    time_limit : float
        Seconds after which a cell is stopped.
    """

    paper: str
    name: str
    shows: str
    measure: Callable[[Settings, int, Any], dict[str, float]]
    settings: tuple[Settings, ...]
    runs: int
    at_a_time: int = 1
    quick: Callable[[Settings], bool] = lambda settings: True
    late: Callable[[Settings], bool] = lambda settings: False
    time_limit: float = 1200.0


@dataclass(frozen=True)
class Cell:
    """One run: an experiment, one of its settings and a seed."""

    experiment: Experiment
    settings: Settings
    seed: int

    @property
    def key(self) -> str:
        """What the cell is known by in the store."""
        return key(self.experiment.paper, self.experiment.name, self.settings, self.seed)

    @property
    def title(self) -> str:
        """The cell in words."""
        what = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"{self.experiment.paper}/{self.experiment.name}: {what}, seed {self.seed}"


def key(paper: str, experiment: str, settings: Settings, seed: int) -> str:
    """Return what a cell is known by."""
    return json.dumps([paper, experiment, sorted(settings.items()), seed])


def grid(**choices: Any) -> tuple[Settings, ...]:
    """Return all combinations, the last name changing fastest.

    Examples
    --------
    >>> grid(set=["wine"], k=[4, 10])
    ({'set': 'wine', 'k': 4}, {'set': 'wine', 'k': 10})
    """
    return tuple(dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values()))


def cells(experiments: tuple[Experiment, ...], quick: bool = False, most: int | None = None) -> Iterator[Cell]:
    """Yield cells breadth first: the first seeds of every experiment, then the next ones; `most` seeds of each."""
    for turn in itertools.count():
        waiting = []
        for experiment in experiments:
            first = turn * experiment.at_a_time
            runs = experiment.runs if most is None else min(most, experiment.runs)
            seeds = range(first, min(first + experiment.at_a_time, runs))
            if quick:
                seeds = range(1 if turn == 0 else 0)
            waiting += [Cell(experiment, settings, seed) for seed in seeds for settings in experiment.settings]
        if not waiting:
            return
        for late in (False, True):
            for cell in waiting:
                experiment = cell.experiment
                if experiment.late(cell.settings) is late and (not quick or experiment.quick(cell.settings)):
                    yield cell
