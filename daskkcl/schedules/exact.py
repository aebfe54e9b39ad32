"""Exact kernel algorithms: the kernel matrix of all rows in memory, once the plan says that it fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError
from ..kernels import Kernel
from ..kernels.rows import SparseRows, is_sparse, join_blocks
from ..maps.base import Centres
from ..maps.landmarks import LandmarkMap
from ..planning import Stage, tile_rows
from ..rules.exact import ExactRun, ExactStep, exact_kernel_k_means
from ..rules.fuzzy import d2_seeds
from ..rules.kernel_fuzzy import kernel_distances_from
from ..system import single_threaded
from .checkpoint import Checkpoint
from .data import all_rows
from .measuring import BadRowError, Reader, bad_rows
from .problem import Problem
from .sequential import SequentialWalk
from .setup import Setup
from .tasks import Model

__all__ = [
    "ExactCentres",
    "ExactRows",
    "best_kernel_k_means",
    "exact_bytes",
    "exact_model",
    "exact_stage",
    "first_centres",
    "kernel_compete",
    "load_exact",
]

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class ExactRows:
    """All usable rows, their numbers in the data, perhaps further rows to start from, and the kernel matrix of all."""

    rows: Floats  # (p, d), the usable rows first
    numbers: NDArray[np.int64]  # (n,)
    K: Floats  # (p, p)
    kernel: Kernel
    n_all: int

    def order(self, key: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows in the order of a key, those that are dropped left out, and their positions in it."""
        place = np.full(self.n_all, -1)
        place[self.numbers] = np.arange(len(self.numbers))
        rows = place[key.rows(self.n_all, 0, self.n_all)]
        positions = np.flatnonzero(rows >= 0)
        return rows[positions], positions


@dataclass(frozen=True, eq=False)
class ExactCentres:
    """Coefficients (c, p) of centres and how often each has won."""

    A: Floats
    counts: Floats


def exact_bytes(problem: Problem) -> int:
    """Return what the kernel matrix takes, with everything that is held beside it."""
    p, d, c = problem.n_rows + problem.c, problem.cells, problem.c
    assert problem.kernel is not None
    scratch = problem.kernel.scratch_bytes(p, d, p, 8)
    return 8 * (p * p + 8 * c * p + 4 * p * d) + p * (problem.row_bytes + 3 * c * 8) + scratch


def exact_stage(problem: Problem, recorded: int = 0) -> list[Stage]:
    """Return the stages of an exact run: the kernel matrix, and labels by the kernel with all rows."""
    whole = _whole(problem)
    n, d = problem.n_rows, problem.cells
    beside = whole.centres_bytes + n * d * (8 + 2 * problem.dtype.itemsize) + 8 * recorded
    fixed = problem.map_bytes + exact_bytes(problem) + 8 * recorded
    matrix = Stage("kernel matrix", row_bytes=0, fixed_bytes=fixed, remedy="fit fewer rows")
    return [matrix, whole.stage("labelling", fixed_bytes=problem.map_bytes + beside)]


def _whole(problem: Problem) -> Problem:
    from dataclasses import replace

    return replace(problem, n_landmarks=problem.n_rows)


def load_exact(setup: Setup, more: Floats | None = None) -> ExactRows:
    """Read all rows, leave out those that cannot be used, and make the kernel matrix."""
    problem = setup.problem
    rows = all_rows(setup.engine, setup.source, setup.layout("sampling"))  # the kernel matrix is made here
    bad = bad_rows(rows)
    if bad is not None and problem.nan == "raise":
        raise BadRowError(int(np.flatnonzero(bad)[0]))
    numbers = np.arange(len(rows)) if bad is None else np.flatnonzero(~bad)
    objects = rows[numbers].astype(np.float64)
    if more is not None:
        further: Any = SparseRows.of(more) if is_sparse(objects) else more
        objects = join_blocks([objects, further.astype(np.float64)])
    kernel: Kernel = setup.map_.kernel
    with single_threaded():
        K = kernel(objects, objects)
    if not np.isfinite(K).all():
        raise InvalidInputError("The kernel matrix overflows; scale the features or lower the degree.")
    return ExactRows(objects, numbers, K, kernel, problem.n_rows)


def first_centres(setup: Setup, exact: ExactRows, init: Any, rng: np.random.Generator) -> ExactCentres:
    """Return the first centres as coefficients, as `init` says."""
    n, p, c = len(exact.numbers), len(exact.K), setup.n_clusters
    A = np.zeros((c, p))
    if isinstance(init, str) and init == "random-labels":
        labels = np.concatenate([np.arange(c), rng.integers(0, c, n - c)])[rng.permutation(n)]  # a row each at least
    elif isinstance(init, str):
        if init == "first":  # the first rows of the order in which rows are met
            seeds = exact.order(setup.problem.key.child("order", 0))[0][:c]
        elif init == "random":
            seeds = rng.choice(n, c, replace=False)
        else:
            seeds = d2_seeds(kernel_distances_from(exact.K[:n, :n]), np.ones(n), c, rng)
        A[np.arange(c), seeds] = 1
        return ExactCentres(A, np.ones(c))
    elif init.ndim == 2:
        A[np.arange(c), n + np.arange(c)] = 1
        return ExactCentres(A, np.ones(c))
    elif len(init) == c:
        place = np.searchsorted(exact.numbers, init)
        found = exact.numbers[np.minimum(place, n - 1)] == init
        if not found.all():
            raise InvalidInputError(
                f"init names row {init[~found].min():,}, which has a NaN or infinity; name another row."
            )
        A[np.arange(c), place] = 1
        return ExactCentres(A, np.ones(c))
    else:
        labels = init[exact.numbers]
    counts = np.bincount(labels[labels >= 0], minlength=c)
    if (counts == 0).any():
        raise InvalidInputError(f"init gives no row the label {int(np.flatnonzero(counts == 0)[0])}.")
    own = np.flatnonzero(labels >= 0)
    A[labels[own], own] = 1 / counts[labels[own]]
    return ExactCentres(A, counts.astype(np.float64))


def warm_up() -> None:
    """Load (or compile) the loops, so that a plan can count what that takes."""
    from ..rules import exact_loops

    for loop in (exact_loops.frequency_sensitive, exact_loops.cooperative_penalised):
        rates, numbers = np.full(1, 0.5), np.ones(8)
        loop(np.eye(2), np.zeros(1, dtype=np.int64), rates, numbers, np.eye(2), np.eye(2), np.eye(2), np.ones(2))


def kernel_compete(
    setup: Setup, exact: ExactRows, start: ExactCentres, walk: SequentialWalk, checkpoint: Checkpoint
) -> tuple[ExactCentres, list[float], Floats | None]:
    """Let all rows meet the centres one after another, epoch after epoch; return centres, moves, and their path."""
    from ..rules import exact_loops

    loop, K, n_all = getattr(exact_loops, walk.rule.name), exact.K, exact.n_all
    A, counts, moves, path = start.A.copy(), start.counts.copy(), [], [start.A]
    saved = checkpoint.load()
    if saved:
        A, counts, moves, path = saved["A"], saved["counts"], saved["moves"].tolist(), list(saved["path"])
    numbers = np.array(walk.rule.numbers, dtype=np.float64)
    while len(moves) < walk.n_epochs and not walk.rests(moves):
        epoch = len(moves)
        setup.engine.progress.begin(f"epoch {epoch + 1}", n_all)
        key = walk.order or setup.problem.key.child("order", 0 if walk.same_order else epoch)
        order, positions = exact.order(key)
        rates = walk.rates((epoch * n_all + positions + 1) / (walk.n_epochs * n_all))
        with single_threaded():
            G = A @ K
            Q = G @ A.T
            before_A, before_G = A.copy(), G.copy()
            loop(K, order, rates, numbers, A, G, Q, counts)
        moves.append(float(np.einsum("cp,cp->", A - before_A, G - before_G)))  # Eq. 32
        if walk.record:
            path.append(A.copy())
        setup.engine.progress.end()
        checkpoint.save({"A": A, "counts": counts, "moves": np.array(moves), "path": np.array(path)})
    return ExactCentres(A, counts), moves, np.array(path) if walk.record else None


def best_kernel_k_means(
    setup: Setup, exact: ExactRows, init: Any, n_init: int, max_iter: int, rng: np.random.Generator
) -> ExactRun:
    """Run kernel k-means from several starts and keep the run of lowest objective."""
    saved, n_done, step, best = setup.checkpoint.load(), 0, None, None
    if saved:
        n_done = int(saved["n_done"])
        if "A" in saved:
            step = ExactStep(saved["A"], saved["labels"], int(saved["reseeds"]), tuple(saved["objective"].tolist()))
        if "best_A" in saved:
            objective, converged = tuple(saved["best_objective"].tolist()), bool(saved["best_converged"])
            best = ExactRun(saved["best_A"], saved["best_norms"], objective, converged)

    def save(number: int, now: ExactStep | None) -> None:
        state: dict[str, Any] = {"n_done": np.array(number)}
        if now is not None:
            state |= {"A": now.A, "labels": now.labels, "reseeds": np.array(now.reseeds)}
            state["objective"] = np.array(now.objective)
        if best is not None:
            state |= {"best_A": best.A, "best_norms": best.norms, "best_objective": np.array(best.objective)}
            state["best_converged"] = np.array(best.converged)
        setup.checkpoint.save(state, soon=number < n_init)

    with single_threaded():
        for number in range(n_init):
            start = first_centres(setup, exact, init, rng)  # drawn again, so that the next ones are as they were
            if number < n_done:
                continue
            run = exact_kernel_k_means(
                exact.K,
                start.A,
                len(exact.numbers),
                max_iter,
                step,
                lambda now: save(number, now),  # noqa: B023
            )
            step = None
            if best is None or run.objective[-1] < best.objective[-1]:
                best = run
            save(number + 1, None)
    assert best is not None
    return best


def exact_model(setup: Setup, exact: ExactRows, A: Floats, rule: Any) -> Model:
    """Return the model whose centres are these combinations of rows; objects without a part in any are left out."""
    problem = setup.problem
    with single_threaded():
        norms = np.einsum("cp,cp->c", A @ exact.K, A)
    used = (A != 0).any(axis=0)
    map_ = LandmarkMap(exact.kernel, exact.rows[used], problem.dtype)
    rows = tile_rows(problem.cells, problem.n_rows, problem.dtype.itemsize)
    centres = Centres(np.ascontiguousarray(A[:, used]), norms, None, problem.dtype)
    return Model(Reader(map_, rows, problem.nan), centres, rule)
