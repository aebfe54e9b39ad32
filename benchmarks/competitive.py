"""What a rule that meets one row at a time costs, against bare loops, in one run.

Run it as ``python -m benchmarks competitive``. The first bare loop computes a rule's squared distances and nothing
else: of every row to all centres; for rules with a territory (CPCL, CCCL) also of one centre to all others, for RPCCL
of one centre to one other. The second also does what no form of the rule can leave out: it moves as many centres as
the rule does, and raises as many numbers to a power (territories move as many as the data say: none are counted).
Neither chooses a winner, which is where rows have to wait for one another. Loops take turns, and the least of many
times is taken, so that other work on the machine does little harm.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from daskkcl.rules import sequential_loops as loops
from daskkcl.rules.sequential import SequentialRule


@dataclass(frozen=True)
class Work:
    """What a rule does for a row, of c centres: its numbers, what it keeps, and counts."""

    numbers: tuple[float, ...] = ()
    n_extra: int = 0
    between: Callable[[int], int] = lambda c: 0  # distances between centres
    moves: Callable[[int], int] = lambda c: 1
    powers: Callable[[int], int] = lambda c: 0


class Cost(NamedTuple):
    """Nanoseconds a row; times that of its distances; times that of its distances, moves and powers."""

    nanoseconds: float
    distances: float
    work: float


RULES = {
    "frequency_sensitive": Work(),
    "cooperative_penalised": Work((1.0,), between=lambda c: c),
    "cooperation_controlled": Work((0.5,), between=lambda c: c),
    "rival_penalised": Work((0.04,), moves=lambda c: 2),
    "rival_controlled": Work(between=lambda c: 1, moves=lambda c: 2),
    "distance_sensitive": Work((0.2,), moves=lambda c: c, powers=lambda c: c),
    "repetition_suppressed": Work((0.9, 30.0, 0.0, 1e-12), 1, moves=lambda c: c, powers=lambda c: c),
}


@loops.compiled
def distances(Y: Any, r: Any, M: Any, out: Any) -> None:
    """Distances of rows to centres."""
    for i in range(Y.shape[0]):
        for k in range(M.shape[0]):
            out[k] = loops.squared_distance(Y, i, M, k) + r[i]


@loops.compiled
def bare(Y: Any, r: Any, M: Any, out: Any, n_between: int, n_moves: int, n_powers: int) -> None:
    """Distances of rows to centres and of one centre to some others; moves of some centres; some powers."""
    c = M.shape[0]
    for i in range(Y.shape[0]):
        for k in range(c):
            out[k] = loops.squared_distance(Y, i, M, k) + r[i]
        for k in range(n_moves):
            loops.move(M, (i + k) % c, Y, i, 1e-9)
        for k in range(n_powers):
            out[k] = out[k] ** -1.1
        for k in range(n_between):
            out[k] = loops.squared_distance(M, i % c, M, k)


def measure(q: int, c: int, rows: int, dtype: Any, repeats: int = 60) -> dict[str, Cost]:
    """Return the cost of every rule."""
    rng = np.random.default_rng(0)
    places = 3 * rng.normal(size=(max(2, c // 2), q))
    Y = (places[rng.integers(0, len(places), rows)] + rng.normal(size=(rows, q))).astype(dtype)
    r, rates, out, start = np.full(rows, 0.1, dtype), np.full(rows, 1e-3), np.empty(c), Y[:c].astype(float)
    calls: dict[Any, Callable[[], Any]] = {}
    for name, work in RULES.items():
        loop, numbers = SequentialRule(name).loop(), np.array(work.numbers, float)
        other, state = start.copy(), (start.copy(), np.ones(c), np.full((c, work.n_extra), q**0.5))
        calls[name] = lambda loop=loop, own=numbers, state=state: loop(Y, r, rates, own, *state)
        for counts in ((work.between(c), 0, 0), (work.between(c), work.moves(c), work.powers(c))):
            calls[counts] = lambda own=counts, M=other: (
                bare(Y, r, M, out, *own) if any(own) else distances(Y, r, M, out)
            )
    least = dict.fromkeys(calls, np.inf)
    for _ in range(repeats + 1):
        for key, call in calls.items():
            began = time.perf_counter()
            call()
            least[key] = min(least[key], time.perf_counter() - began)
    return {
        name: Cost(
            1e9 * least[name] / rows,
            least[name] / least[work.between(c), 0, 0],
            least[name] / least[work.between(c), work.moves(c), work.powers(c)],
        )
        for name, work in RULES.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coordinates", type=int, nargs="+", default=[16, 64, 200, 500])
    parser.add_argument("--centres", type=int, nargs="+", default=[10, 20])
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--dtype", default="float32")
    arguments = parser.parse_args()
    sizes = [(q, c) for q in arguments.coordinates for c in arguments.centres]
    found = [measure(q, c, arguments.rows, np.dtype(arguments.dtype)) for q, c in sizes]
    print("| coordinates × centres | " + " | ".join(f"{q} × {c}" for q, c in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for name in RULES:
        cells = [f"{cost[name].distances:.1f} / {cost[name].work:.1f}" for cost in found]
        print(f"| {name} | " + " | ".join(cells) + " |")
    name = "frequency_sensitive"
    cells = [f"{cost[name].nanoseconds / cost[name].distances:.0f}" for cost in found]
    print("| nanoseconds of the distances of a row | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
