"""What every stage of a run does: how many rows it reads, measures and assigns. One function for each kind of stage.

The stages and their memory are those of the real plan; here is only how much work they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ..blocks.sources import ArraySource
from ..maps.recipes import SparseKernel
from ..planning import Plan
from ..schedules.dealt import is_dealt
from ..schedules.landmarks import streamed_rows
from ..schedules.problem import Problem

__all__ = ["Work", "work_of"]

# What nobody knows before a run: how many steps it takes to come to rest.
RUN_STEPS = 10  # of fuzzy c-means on a chunk or a sample
SAMPLE_STEPS = 20  # of k-means on the sample, for each seeding
SEED_EPOCHS = 50  # of the algorithms that find the number of clusters
EXACT_STEPS = 20  # of algorithms on the kernel matrix
EXACT_PASSES = 4  # over all rows, after a sample
_BOUND_ROWS = 500
_EIGEN = 25  # an eigen-decomposition takes as long as so many products of such matrices


@dataclass(frozen=True)
class Work:
    """The work of a stage, over all its passes."""

    passes: float = 1
    blocks_met: float = 1  # share of the blocks that have to be read at all
    read_bytes: float = 0  # from the store
    scratch_bytes: float = 0  # temporary files, written and read
    written_bytes: float = 0  # results
    measured: float = 0  # rows that are turned into measurements
    assigned: float = 0  # rows that meet all centres
    summed: float = 0  # rows that are added to centres
    in_turn: bool = False  # meetings follow one another, only measuring is parallel
    steps: float = 0  # updates that follow one another, each of which is a few calls whatever its size
    dealt_rows: int = 0  # of subsets that follow one another and whose rows are dealt over threads
    loop: float = 0  # multiply-adds of loops over single rows, in turn
    met: float = 0  # such rows
    buffered: bool = False  # rows are measured ahead with a buffer, and again, in turn, when it has changed meanwhile
    gemm: float = 0  # further multiply-adds, in parallel
    here: float = 0  # multiply-adds in this process, on one thread
    kernel_values: float = 0  # further ones, in this process


@dataclass(frozen=True)
class _Run:
    estimator: Any
    problem: Problem
    settings: Any
    plan: Plan
    passes: float

    @property
    def n(self) -> int:
        return self.problem.n_rows

    @property
    def stored_bytes(self) -> float:
        """All rows, from where passes read them."""
        return 0 if isinstance(self.problem.source, ArraySource) else self.n * self.problem.source.mean_bytes

    def rows(self, passes: float) -> Work:
        """Reading and measuring all rows so many times: of rows, or of what is kept."""
        problem, keep, n = self.problem, self.plan.keep, self.n
        if problem.recipe.code_bytes and self.plan.has("mapping"):
            codes = 0 if keep == "codes" else passes * n * problem.recipe.code_bytes
            return Work(passes, scratch_bytes=codes, gemm=passes * n * 40 * problem.n_measurements)
        if keep == "measurements":
            return Work(passes, read_bytes=self.stored_bytes, measured=n)
        if keep == "measurements in scratch":
            size = n * problem.measured_bytes
            return Work(passes, read_bytes=self.stored_bytes, measured=n, scratch_bytes=(1 + passes) * size)
        return Work(passes, read_bytes=0 if keep == "rows" else passes * self.stored_bytes, measured=passes * n)


def work_of(stage: str, estimator: Any, problem: Problem, settings: Any, plan: Plan, passes: float) -> Work:
    """Return the work of a stage of a plan; a stage that is not known here is a pass over all rows."""
    run = _Run(estimator, problem, settings, plan, passes)
    return _KINDS.get(stage, _labelling)(run)


def _sampling(run: _Run) -> Work:
    if run.plan.has("scaling"):  # whose pass draws the sample too
        return Work(0)
    if run.plan.keep == "rows":
        return Work(read_bytes=run.stored_bytes)
    layout = run.plan.layout("sampling")
    blocks = math.ceil(run.n / max(1, layout.block_rows))
    touched = 1 - math.exp(-run.problem.sample_rows / blocks)
    return Work(blocks_met=touched, read_bytes=touched * run.stored_bytes)


def _scaling(run: _Run) -> Work:
    return Work(read_bytes=run.stored_bytes)


def _preparing(run: _Run) -> Work:
    p = run.problem
    s, m, d, c = p.sample_rows, p.n_measurements, p.cells, p.c
    k = p.n_landmarks
    flops = 0.0
    if p.recipe.uses_landmarks:
        flops += 2 * k * k * d + (_EIGEN * k**3 if p.recipe.fixed_bytes(p.sizes) >= 56 * k * k else 0)
        if isinstance(p.landmarks, str) and p.landmarks != "uniform":
            flops += SAMPLE_STEPS * s * k * d
    if p.n_clusters is None:
        flops += s * s * (d + 500)
    n_init = getattr(run.settings, "n_init", 3)
    if isinstance(p.recipe, SparseKernel):  # the buffer is what is clustered, from one start if clusters are many
        s, n_init = k, 1 if p.many else n_init
        flops += _eigenpairs(k, c)
    flops += s * d * k + n_init * SAMPLE_STEPS * s * m * c / 2
    return Work(here=flops, kernel_values=s * k if p.kernel is not None else 0)


def _fuzzifier(run: _Run) -> Work:
    rows = min(_BOUND_ROWS, run.problem.sample_rows)
    return Work(here=rows * rows * run.problem.cells + _EIGEN * rows**3)


def _landmarks(run: _Run) -> Work:
    p, k = run.problem, run.problem.n_landmarks
    read = 0 if run.plan.keep == "rows" else run.stored_bytes
    return Work(read_bytes=read, gemm=streamed_rows(run.n, k, p.source.sparse) * k * p.cells)


def _mapping(run: _Run) -> Work:
    p, streams = run.problem, max(1, run.problem.recipe.n_streams)
    width = p.recipe.inner(p.sizes) or p.n_measurements
    pairs = (p.recipe.code_bytes // 8) ** 2 * 10 if p.recipe.code_bytes else width * width
    return Work(streams, read_bytes=streams * run.stored_bytes, measured=streams * run.n, gemm=streams * run.n * pairs)


def _passes(run: _Run) -> Work:
    n, fuzzy = run.n, run.estimator.fuzzy
    meetings = (2 if fuzzy else 1) * run.passes * n  # fuzzy ones compare with the memberships before
    return replace(run.rows(run.passes), assigned=meetings, summed=run.passes * n)


def _labelling(run: _Run) -> Work:
    p, n, settings = run.problem, run.n, run.settings
    literal = getattr(settings, "form", "landmark") == "literal"
    more = 0 if literal else _exact_passes(run)
    if getattr(settings, "extend", "") == "prototypes" and not literal:
        more += 1
    if run.plan.keep in ("measurements", "measurements in scratch") and run.plan.has("passes"):
        scratch = n * p.measured_bytes if run.plan.keep != "measurements" else 0
        return Work(1, assigned=n, scratch_bytes=scratch + 4 * n)
    if literal or run.plan.has("kernel matrix"):
        objects = _objects(run)
        gemm = n * objects * (p.cells + p.c)
        return Work(1, read_bytes=run.stored_bytes, gemm=gemm, assigned=0, scratch_bytes=4 * n)
    rows = run.rows(1 + more)
    return replace(rows, assigned=(1 + 2 * more) * n, summed=more * n, scratch_bytes=rows.scratch_bytes + 4 * n)


def _exact_passes(run: _Run) -> float:
    """Passes over all rows that follow a sample or a single pass, as part of the labelling stage."""
    if run.plan.has("passes"):
        return 0
    most = getattr(run.settings, "max_passes", 1)
    most -= 0 if run.plan.has("sample") else 1
    return max(0, most if most < EXACT_PASSES else EXACT_PASSES)


def _objects(run: _Run) -> int:
    """Rows that centres are combinations of, where there are no landmarks."""
    p, settings = run.problem, run.settings
    if getattr(settings, "extend", "") == "prototypes":
        return p.c
    return getattr(settings, "sample_rows", 0) or getattr(settings, "chunk_rows", 0) or p.n_rows


def _chunks(run: _Run) -> Work:
    p, n, settings = run.problem, run.n, run.settings
    in_turn = getattr(run.estimator, "order", None) is not None  # spkfcm: each begins where the last one ended
    if settings.form == "literal":
        gemm = n * settings.chunk_rows * (p.cells + 2 * RUN_STEPS * p.c * settings.n_init)
        return Work(read_bytes=run.stored_bytes, gemm=gemm, in_turn=in_turn)
    attempts = 2 if in_turn else 1
    meetings = attempts * RUN_STEPS * n
    return replace(run.rows(1), assigned=meetings, summed=meetings, in_turn=in_turn)


def _epochs(run: _Run) -> float:
    most = getattr(run.settings, "n_epochs", 1)
    return min(most, run.passes) if getattr(run.estimator, "counted", "") == "n_seeds" else most


def _shuffling(run: _Run) -> Work:
    same_order = getattr(run.estimator, "counted", "") == "n_seeds" or run.plan.keep != "nothing"
    times = 1 if same_order else _epochs(run)
    size = run.n * (run.problem.row_bytes + 8)
    if run.plan.keep == "rows":
        return Work(0)  # gathered from memory
    return Work(times, read_bytes=times * run.stored_bytes, scratch_bytes=times * size)


def _subsets(run: _Run) -> Work:
    p, n, times = run.problem, run.n, _epochs(run)
    if hasattr(run.settings, "chunk_rows") and run.settings.chunk_rows:  # chunks in random order
        work = replace(_chunks(run), read_bytes=0)
        return replace(work, scratch_bytes=0 if run.plan.keep == "rows" else n * p.row_bytes)
    scratch = 0 if run.plan.keep in ("rows", "measurements") else times * n * p.row_bytes
    measured = n if run.plan.keep == "measurements" else times * n
    if isinstance(p.recipe, SparseKernel):
        updates, flops = _updates(run, p.recipe)
        return Work(1, scratch_bytes=scratch, measured=n, buffered=True, steps=updates, here=updates * flops)
    subset = getattr(run.settings, "subset_rows", 1)
    if getattr(run.estimator, "subset_size", 1) != 1:  # PAKCL: a product for a subset, then the next
        update = 3 * p.c * p.n_measurements * n * times / max(1, subset)
        dealt = is_dealt(subset, p.c, p.whole_rows)
        if run.settings.few:  # measured once, with a product for coordinates
            steps = times * math.ceil(n / subset)
            work = Work(read_bytes=run.stored_bytes, measured=n, gemm=n * p.n_measurements**2, in_turn=True)
            return replace(work, assigned=times * n, summed=times * n, steps=steps, here=update)
        dual = p.c * p.n_measurements**2 * n * times / max(1, subset) if p.recipe.name == "landmarks" else 0
        return Work(
            times,
            scratch_bytes=scratch,
            measured=measured,
            assigned=times * n,
            summed=times * n,
            in_turn=not dealt,
            dealt_rows=subset if dealt else 0,
            steps=times * n / max(1, subset),
            here=update + dual,
        )
    root = p.n_measurements**2 if p.recipe.name == "landmarks" else 0  # coordinates, before rows are met
    return Work(
        times,
        scratch_bytes=scratch,
        measured=measured,
        gemm=measured * root,
        loop=times * n * p.c * p.n_measurements * 1.3,
        met=times * n,
    )


def _updates(run: _Run, recipe: SparseKernel) -> tuple[float, float]:
    """Return how often a buffer changes, and the multiply-adds of a change: its leading eigenpairs are made anew.

    A row enters with a chance of about one by the rows of the buffer.
    """
    n, c, first, most = run.n, run.problem.c, run.problem.n_landmarks, recipe.max_rows
    growing = (most**2 - first**2) / 2  # rows that come by until the buffer is full
    last = min(most, math.sqrt(first**2 + 2 * n))
    entries = last - first + max(0.0, n - growing) / most
    pairs = 6e7 + _eigenpairs(last, c)  # with calls
    every = run.settings.every or max(10, c // 10)
    return min(entries / every, n / run.settings.batch_rows), pairs * (1 if n < growing else 2)  # and after some left


def _eigenpairs(n_rows: float, count: int) -> float:
    """Return the multiply-adds of the leading eigenpairs of a buffer: from scratch, or from some that are near."""
    return min(1.5 * n_rows**3, 75 * n_rows * (4 * (count + 6)) ** 2)


def _sample(run: _Run) -> Work:
    p, s, settings = run.problem, run.settings.sample_rows, run.settings
    if settings.form == "literal":
        values = s * (s + p.c)
        return Work(here=values * (p.cells + 2 * settings.n_init * RUN_STEPS * p.c), kernel_values=values)
    flops = s * p.cells * p.n_measurements + 2 * settings.n_init * RUN_STEPS * s * p.c * p.n_measurements
    return Work(here=flops, kernel_values=s * p.n_measurements)


def _kernel_matrix(run: _Run) -> Work:
    n, c, d = run.n, run.problem.c, run.problem.cells
    steps: int = min(getattr(run.settings, "max_iter", EXACT_STEPS), EXACT_STEPS)
    if hasattr(run.settings, "rates"):  # row after row: a row of the matrix for each
        return Work(here=n * n * d, kernel_values=n * n, loop=n * n * 2.0 * min(run.settings.n_epochs, run.passes))
    return Work(here=n * n * (d + steps * getattr(run.settings, "n_init", 1) * c / 2), kernel_values=n * n)


def _writing(run: _Run) -> Work:
    p = run.problem
    size = run.n * p.c * p.dtype.itemsize
    return Work(read_bytes=run.stored_bytes, measured=run.n, assigned=run.n, written_bytes=size)


def _answers(run: _Run) -> Work:
    return Work(measured=run.n, assigned=run.n) if run.estimator.fuzzy else Work(0)


_KINDS = {
    "sampling": _sampling,
    "scaling": _scaling,
    "preparing": _preparing,
    "fuzzifier": _fuzzifier,
    "landmarks": _landmarks,
    "mapping": _mapping,
    "passes": _passes,
    "labelling": _labelling,
    "chunks": _chunks,
    "shuffling": _shuffling,
    "subsets": _subsets,
    "sample": _sample,
    "kernel matrix": _kernel_matrix,
    "writing": _writing,
    "answers": _answers,
}
