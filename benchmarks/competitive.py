"""What a rule that meets one row at a time costs, against a bare loop of its distances, in one run.

Run it as ``python -m benchmarks competitive``. The bare loop computes the squared distances of all rows to all
centres and nothing else, in the same compiled code. For rules with a territory (CPCL, CCCL) the second bare loop
also computes the distances of the winner to all centres, which are theirs too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from daskkcl.rules import sequential_loops as loops

RULES: dict[str, tuple[tuple[float, ...], int]] = {
    # name: the rule's numbers, what else it keeps for a centre
    "frequency_sensitive": ((), 0),
    "cooperative_penalised": ((1.0,), 0),
    "cooperation_controlled": ((0.5,), 0),
    "rival_penalised": ((0.04,), 0),
    "rival_controlled": ((), 0),
    "distance_sensitive": ((0.2,), 0),
    "repetition_suppressed": ((0.9, 30.0, 0.0, 1e-12), 1),
}
TERRITORIAL = {"cooperative_penalised", "cooperation_controlled"}


@loops.compiled
def with_territory(Y: Any, r: Any, M: Any, out: Any) -> None:
    """Distances of rows to centres, and of one centre to all others."""
    for i in range(Y.shape[0]):
        for k in range(M.shape[0]):
            out[k] = loops.squared_distance(Y, i, M, k) + r[i]
        c = i % M.shape[0]
        for k in range(M.shape[0]):
            out[k] = loops.squared_distance(M, c, M, k)


def seconds(call: Callable[[], None], repeats: int) -> float:
    """Return the least time of a call."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def measure(q: int, c: int, rows: int, dtype: Any, repeats: int = 7) -> dict[str, float]:
    """Return the cost of every rule as a multiple of the bare loop of its distances."""
    rng = np.random.default_rng(0)
    places = 3 * rng.normal(size=(max(2, c // 2), q))
    Y = (places[rng.integers(0, len(places), rows)] + rng.normal(size=(rows, q))).astype(dtype)
    r, rates, out = np.full(rows, 0.1, dtype), np.full(rows, 1e-3), np.empty(c)
    bare = {
        False: seconds(lambda: loops.distances(Y, r, Y[:c].astype(float), out), repeats),
        True: seconds(lambda: with_territory(Y, r, Y[:c].astype(float), out), repeats),
    }
    costs = {"bare loop, ns a row": 1e9 * bare[False] / rows}
    for name, (numbers, n_extra) in RULES.items():
        M, n, extra = Y[:c].astype(float), np.ones(c), np.full((c, n_extra), q**0.5)
        rule = getattr(loops, name)

        def call(rule: Any = rule, M: Any = M, n: Any = n, extra: Any = extra, own: Any = numbers) -> None:
            rule(Y, r, rates, np.array(own, float), M, n, extra)

        call()
        costs[name] = seconds(call, repeats) / bare[name in TERRITORIAL]
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coordinates", type=int, nargs="+", default=[16, 64, 200, 500])
    parser.add_argument("--centres", type=int, nargs="+", default=[10, 20])
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--dtype", default="float32")
    arguments = parser.parse_args()
    for q in arguments.coordinates:
        for c in arguments.centres:
            costs = measure(q, c, arguments.rows, np.dtype(arguments.dtype))
            print(f"{q} coordinates, {c} centres: " + ", ".join(f"{name} {cost:.2f}" for name, cost in costs.items()))


if __name__ == "__main__":
    main()
