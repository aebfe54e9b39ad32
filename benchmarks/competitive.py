"""What a rule that meets one row at a time costs, against bare loops, in one run.

Run it as ``python -m benchmarks competitive``. The bare loop computes a rule's squared distances and nothing else: of
every row to all centres; for rules with a territory (CPCL, CCCL) also of one centre to all others, for RPCCL of one
centre to one other. It comes in two forms, over the same arrays and with the same functions as the rules: one centre
at a time, and two; the faster one counts. A third loop also does what no form of the rule can leave out: it moves as
many centres as the rule does, and raises as many numbers to a power (territories move as many as the data say: none
are counted). None of them chooses a winner, which is where rows have to wait for one another.

Rules first meet the rows five times; every time that is taken begins with the state after that. Loops take turns, and
the least of many times is taken, with arrays at four places, so that other work on the machine does little harm.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from daskkcl.rules import sequential_loops as loops
from daskkcl.rules.powers import binary_logarithm, power_of_two
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
    """Nanoseconds a row, of the rule and of its distances; times that of its distances, moves and powers."""

    nanoseconds: float
    bare: float
    work: float

    @property
    def distances(self) -> float:
        """Times that of its distances."""
        return self.nanoseconds / self.bare


RULES = {
    "frequency_sensitive": Work(),
    "cooperative_penalised": Work((1.0,), between=lambda c: c),
    "cooperation_controlled": Work((0.5,), between=lambda c: c),
    "rival_penalised": Work((0.04,), moves=lambda c: 2),
    "rival_controlled": Work(between=lambda c: 1, moves=lambda c: 2),
    "distance_sensitive": Work((0.2,), moves=lambda c: c, powers=lambda c: c),
    "repetition_suppressed": Work((0.9, 30.0, 0.0, 1e-12), 1, moves=lambda c: c, powers=lambda c: c),
}


@loops.inlined
def measure_one_at_a_time(A: Any, i: int, M: Any, n_centres: int, r: float, out: Any) -> None:
    """Squared distances of a row of A to the first of the centres."""
    for k in range(n_centres):
        out[k] = loops.squared_distance(A, i, M, k) + r


@loops.inlined
def measure_two_at_a_time(A: Any, i: int, M: Any, n_centres: int, r: float, out: Any) -> None:
    """The same, faster with many coordinates."""
    for k in range(0, n_centres - 1, 2):
        first, second = loops.two_squared_distances(A, i, M, k)
        out[k], out[k + 1] = first + r, second + r
    if n_centres % 2 == 1:
        out[n_centres - 1] = loops.squared_distance(A, i, M, n_centres - 1) + r


@loops.compiled
def one_at_a_time(Y: Any, r: Any, M: Any, out: Any, n_between: int) -> None:
    """Distances of rows to centres and of one centre to some others."""
    for i in range(Y.shape[0]):
        measure_one_at_a_time(Y, i, M, M.shape[0], r[i], out)
        if n_between > 0:
            measure_one_at_a_time(M, i % M.shape[0], M, n_between, 0.0, out)


@loops.compiled
def two_at_a_time(Y: Any, r: Any, M: Any, out: Any, n_between: int) -> None:
    """The same, in the other form."""
    for i in range(Y.shape[0]):
        measure_two_at_a_time(Y, i, M, M.shape[0], r[i], out)
        if n_between > 0:
            measure_two_at_a_time(M, i % M.shape[0], M, n_between, 0.0, out)


FORMS = (one_at_a_time, two_at_a_time)


@loops.compiled
def necessary_work(Y: Any, r: Any, M: Any, out: Any, n_between: int, n_moves: int, n_powers: int) -> None:
    """Distances, moves of some centres, and some powers."""
    c = M.shape[0]
    for i in range(Y.shape[0]):
        measure_two_at_a_time(Y, i, M, c, r[i], out)
        for k in range(n_powers):
            out[k] = power_of_two(-1.1 * binary_logarithm(1.0 + out[k]))
        for k in range(n_moves):
            loops.move(M, (i + k) % c, Y, i, 1e-9)
        if n_between > 0:
            measure_two_at_a_time(M, i % c, M, n_between, 0.0, out)


def placed(x: Any, place: int) -> Any:
    """Return a copy that begins `place` bytes after a line of the cache."""
    memory = np.empty(x.nbytes + 128, np.uint8)
    first = -memory.ctypes.data % 64 + place
    copy = memory[first : first + x.nbytes].view(x.dtype).reshape(x.shape)
    copy[:] = x
    return copy


def measure(q: int, c: int, rows: int, dtype: Any, repeats: int = 60) -> dict[str, Cost]:
    """Return the cost of every rule."""
    rng = np.random.default_rng(0)
    places = 3 * rng.normal(size=(max(2, c // 2), q))
    data = (places[rng.integers(0, len(places), rows)] + rng.normal(size=(rows, q))).astype(dtype)
    least: dict[Any, float] = {}
    for place in (0, 16, 32, 48):  # where arrays happen to lie makes a tenth
        calls, states = _calls(placed(data, place), placed(data[:c].astype(float), place))
        for _ in range(repeats // 4 + 1):
            for key, call in calls.items():
                for array, first in zip(*states.get(key, ((), ())), strict=True):
                    array[:] = first
                began = time.perf_counter()
                call()
                least[key] = min(least.get(key, np.inf), (time.perf_counter() - began) * 1e9 / rows)
    return {
        name: Cost(
            least[name],
            min(least[form, work.between(c)] for form in FORMS),
            least[name] / least[work.between(c), work.moves(c), work.powers(c)],
        )
        for name, work in RULES.items()
    }


def _calls(Y: Any, start: Any) -> tuple[dict[Any, Callable[[], Any]], dict[Any, tuple[Any, Any]]]:
    """Return all loops, ready to be called, and for each rule its arrays and what is in them at the beginning."""
    (rows, q), c = Y.shape, len(start)
    r, rates, out = np.full(rows, 0.1, Y.dtype), np.full(rows, 1e-3), np.empty(c)
    calls: dict[Any, Callable[[], Any]] = {}
    states: dict[Any, tuple[Any, Any]] = {}
    for name, work in RULES.items():
        loop, numbers = SequentialRule(name).loop(), np.array(work.numbers, float)
        other, state = (
            start.copy(),
            (placed(start, start.ctypes.data % 64), np.ones(c), np.full((c, work.n_extra), q**0.5)),
        )
        calls[name] = lambda loop=loop, own=numbers, state=state: loop(Y, r, rates, own, *state)
        for _ in range(5):
            calls[name]()
        states[name] = (state, tuple(x.copy() for x in state))
        counts = (work.between(c), work.moves(c), work.powers(c))
        calls[counts] = lambda own=counts, M=other: necessary_work(Y, r, M, out, *own)
        for form in FORMS:
            calls[form, counts[0]] = lambda form=form, n=counts[0]: form(Y, r, start, out, n)
    return calls, states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["16x10", "64x10", "64x20", "200x10", "300x10", "500x20"])
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--dtype", default="float32")
    arguments = parser.parse_args()
    sizes = [tuple(map(int, size.split("x"))) for size in arguments.sizes]
    found = [measure(q, c, arguments.rows, np.dtype(arguments.dtype)) for q, c in sizes]
    print("| coordinates × centres | " + " | ".join(f"{q} × {c}" for q, c in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for name in RULES:
        cells = [f"{cost[name].distances:.1f} / {cost[name].work:.1f}" for cost in found]
        print(f"| {name} | " + " | ".join(cells) + " |")
    cells = [f"{cost['frequency_sensitive'].bare:.0f}" for cost in found]
    print("| nanoseconds of the distances of a row | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
