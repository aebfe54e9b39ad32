"""The memory promise: what every part costs, and the plan that keeps their sum under the limit.

Pure integer arithmetic. A `Stage` is a piece of work that streams over rows; it declares what it holds for each
row of a block, for each task whatever its rows, and for the whole run. `make_plan` solves for rows per block and
threads, decides what to keep between passes, and refuses when nothing fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from html import escape

from .errors import MemoryLimitError
from .system import format_bytes

__all__ = ["Plan", "Stage", "block_edges", "make_plan", "more_memory", "tile_rows"]

# Tiles: the unit of arithmetic. Their size depends on the problem only, never on chunks, memory or threads, so that
# every floating-point operation is the same whatever carries it out.
_TILE_BYTES = 8 * 2**20
_MAX_TILE, _MIN_TILE = 4096, 32  # small tiles keep threads waiting for one another's Python
# Blocks: the unit of work of a task. Larger ones save overhead, up to where nothing is left to save.
_BLOCK_BYTES = 8 * 2**20
_BLOCKS_PER_THREAD = 8  # at least, so that threads end a pass together
# What Python, BLAS and zarr's event loop take beyond what we count.
_SLACK_BYTES = 24 * 2**20
_SLACK_SHARE, _SLACK_MOST = 0.04, 256 * 2**20
# The C library keeps some of what tasks free; small arrays leave holes.
_SPARE_BYTES = 32 * 2**20
_ARENA_FACTOR = 1.25


def tile_rows(n_features: int, n_measurements: int, itemsize: int) -> int:
    """Return the rows of a tile: a power of two, about eight mebibytes of rows and measurements.

    Examples
    --------
    >>> tile_rows(784, 1000, 4), tile_rows(784, 4000, 4), tile_rows(2, 50, 4)
    (1024, 256, 4096)
    """
    rows = _TILE_BYTES // max(1, (n_features + n_measurements) * itemsize)
    return min(_MAX_TILE, max(_MIN_TILE, 1 << max(0, int(rows).bit_length() - 1)))


def block_edges(n_rows: int, block_rows: int) -> list[int]:
    """Return the edges of blocks of `block_rows` rows that cover `n_rows`, the last one short.

    Examples
    --------
    >>> block_edges(10, 4)
    [0, 4, 8, 10]
    """
    return [*range(0, n_rows, block_rows), n_rows]


@dataclass(frozen=True)
class Stage:
    """A streaming piece of work and what it holds.

    Parameters
    ----------
    name : str
        What the plan calls it.
    row_bytes : int
        Held for each row of a block, in each task in flight; 0 for work in this process that meets no blocks.
    task_bytes : int
        Held in each task in flight, whatever its rows.
    fixed_bytes : int
        Held once while the stage runs.
    quantum : int
        Rows come in multiples of this (a tile, a subset, a chunk of the algorithm).
    unit_rows, unit_bytes : int
        The rows that the store decodes together and their decoded size; blocks of whole units are read once.
    lookahead : int
        Blocks in flight beyond one per thread.
    readers : int
        Threads beyond those that compute, if there is room: one that waits for the store keeps no core busy.
    block_bytes : int
        What a block should hold when there is room.
    remedy : str
        What to do when it does not fit, if that is not what the largest part suggests.
    """

    name: str
    row_bytes: int
    task_bytes: int = 0
    fixed_bytes: int = 0
    quantum: int = 1
    unit_rows: int = 1
    unit_bytes: int = 0
    lookahead: int = 1
    readers: int = 0
    block_bytes: int = _BLOCK_BYTES
    remedy: str = ""


@dataclass(frozen=True)
class Layout:
    """How a stage runs: rows per block (0: no blocks), threads, its share of the memory, and what rows per block are a
    multiple of.
    """

    name: str
    block_rows: int
    threads: int
    peak_bytes: int
    quantum: int = 1


@dataclass(frozen=True)
class Plan:
    """Rows per block, threads, what is kept between passes, and the peak that follows.

    Examples
    --------
    >>> stage = Stage("pass", row_bytes=1000, quantum=1024)
    >>> plan = make_plan([stage], n_rows=10**6, limit_bytes=2**29, base_bytes=2**27, threads=2)
    >>> plan.layout("pass").block_rows
    8192
    >>> plan.peak_bytes < plan.limit_bytes
    True
    """

    limit_bytes: int
    base_bytes: int
    n_rows: int
    layouts: tuple[Layout, ...]
    keep: str = "nothing"
    kept_bytes: int = 0
    scratch_bytes: int = 0
    threads: int = 1
    driver: Plan | None = None  # on a cluster: of this process; the rest is that of a worker
    spare_bytes: int = 0  # of `base_bytes`: what the C library may keep of arrays that were freed

    def layout(self, name: str) -> Layout:
        """Return how the named stage runs."""
        return next(layout for layout in self._all_layouts if layout.name == name)

    def has(self, name: str) -> bool:
        """Return whether there is such a stage."""
        return any(layout.name == name for layout in self._all_layouts)

    @property
    def _all_layouts(self) -> tuple[Layout, ...]:
        return self.layouts if self.driver is None else (*self.layouts, *self.driver.layouts)

    def with_spare(self) -> Plan:
        """Return the plan with room for freed arrays: memory that is used again costs no page faults.

        Only where twice as much is left over.
        """
        if self.limit_bytes - self.peak_bytes < 2 * _SPARE_BYTES:
            return self
        return replace(self, base_bytes=self.base_bytes + _SPARE_BYTES, spare_bytes=_SPARE_BYTES)

    @property
    def peak_bytes(self) -> int:
        """The projected peak of the process."""
        return self.base_bytes + self.kept_bytes + max(layout.peak_bytes for layout in self.layouts)

    @property
    def ceiling_bytes(self) -> int:
        """Where a process gives back what it has free: as far below the peak as blocks take that come at once."""
        return self.peak_bytes - _SPARE_BYTES

    def __str__(self) -> str:
        kept = f"kept {self.keep} {format_bytes(self.kept_bytes)}" if self.kept_bytes else "nothing kept between passes"
        lines = [
            f"memory limit  {format_bytes(self.limit_bytes):>10}",
            f"planned peak  {format_bytes(self.peak_bytes):>10}   (process {format_bytes(self.base_bytes)}, {kept})",
        ]
        for layout in self.layouts:
            line = f"{layout.name:<13} {format_bytes(layout.peak_bytes):>10}"
            if layout.block_rows:
                n_blocks = math.ceil(self.n_rows / layout.block_rows)
                line += (
                    f"   {n_blocks:,} block{'s' * (n_blocks != 1)} of {layout.block_rows:,} rows on {layout.threads} "
                )
                line += "thread" if layout.threads == 1 else "threads"
            lines.append(line)
        if self.scratch_bytes:
            lines.append(f"scratch       {format_bytes(self.scratch_bytes):>10}")
        if self.driver is not None:
            return "\n".join(["each worker", *lines, "this process", str(self.driver)])
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return where memory goes, as bars against the limit. (`daskkcl.plan` also knows where time goes.)"""
        parts = [("the process itself", self.base_bytes), (f"kept: {self.keep}", self.kept_bytes)]
        parts += [(layout.name, layout.peak_bytes) for layout in self.layouts]
        rows = "".join(_bar(name, size, self.limit_bytes) for name, size in parts)
        limit, peak = format_bytes(self.limit_bytes), format_bytes(self.peak_bytes)
        more = "" if self.driver is None else f"<p>this process</p>{self.driver._repr_html_()}"
        who = "memory" if self.driver is None else "memory of each worker"
        return (
            f"<div><p><b>{who}</b>: at most {peak} of {limit}; stages follow one another, the largest counts</p>"
            f"<table>{rows}</table>{more}</div>"
        )


def _bar(name: str, size: int, limit: int) -> str:
    width = 16 * size / max(1, limit)
    bar = (
        f'<span style="display:inline-block;height:.75em;min-width:1px;width:{width:.2f}em;background:#0072B2"></span>'
    )
    number = f'<td style="text-align:right">{format_bytes(size)}</td>'
    first = f'<td style="text-align:left;padding-right:1em">{escape(name)}</td>'
    return f'<tr>{first}<td style="text-align:left">{bar}</td>{number}</tr>'


def make_plan(
    stages: list[Stage],
    n_rows: int,
    limit_bytes: int,
    base_bytes: int,
    threads: int,
    keep: dict[str, int] | None = None,
    spill_bytes: int = 0,
    scratch_bytes: int = 0,
    fewest_threads: int = 1,
    shares: int = 1,
    limit_host: str = "",
) -> Plan:
    """Fit all stages under the limit, then keep what still fits.

    Parameters
    ----------
    stages : list of Stage
        The work, one stage at a time.
    keep : dict
        What could be kept in memory between passes and its bytes, most wanted first.
    spill_bytes : int
        What it would cost to spill measurements to scratch; 0 when that is not worth it.
    scratch_bytes : int
        Scratch needed anyway.
    fewest_threads : int
        A dask worker runs a task on each of its threads, whatever we plan: then all of them.
    shares : int
        Workers among which what is kept is divided, as far as one may rely on it.
    limit_host : str
        The host of the worker that has room for no more than the limit, if nobody asked for so little.
    """
    slack = _SLACK_BYTES + min(_SLACK_MOST, int(_SLACK_SHARE * limit_bytes))
    free = limit_bytes - base_bytes - slack
    smallest = [_lay_out(stage, n_rows, 0, fewest_threads, fewest_threads) for stage in stages]
    needed = max(layout.peak_bytes for layout in smallest)
    if needed > free:
        worst = max(smallest, key=lambda layout: layout.peak_bytes)
        raise MemoryLimitError(
            _refusal(
                stages[smallest.index(worst)],
                worst,
                base_bytes + slack,
                needed,
                limit_bytes,
                fewest_threads,
                limit_host,
            ),
            needed_bytes=base_bytes + slack + needed,
            allowed_bytes=limit_bytes,
        )
    layouts = tuple(_lay_out(stage, n_rows, free, threads, fewest_threads) for stage in stages)
    keep_name, kept = "nothing", 0
    for name, size in (keep or {}).items():
        # What is kept may only take what the stages leave: it must not cost them threads or rows.
        size = -(-size // shares)
        if size + max(layout.peak_bytes for layout in layouts) <= free:
            keep_name, kept = name, size
            break
    if keep_name == "nothing" and spill_bytes:
        keep_name, scratch_bytes = "measurements in scratch", scratch_bytes + spill_bytes
    return Plan(
        limit_bytes=limit_bytes,
        base_bytes=base_bytes + slack,
        n_rows=n_rows,
        layouts=layouts,
        keep=keep_name,
        kept_bytes=kept,
        scratch_bytes=scratch_bytes,
        threads=threads,
    )


def _lay_out(stage: Stage, n_rows: int, room_bytes: int, threads: int, fewest_threads: int = 1) -> Layout:
    """Return the best layout of a stage within `room_bytes`, or its smallest if nothing fits."""
    if stage.row_bytes == 0:
        return Layout(stage.name, 0, 1, stage.fixed_bytes)

    def peak(rows: int, threads: int) -> int:
        in_flight = min(threads + stage.lookahead, max(1, math.ceil(n_rows / rows)))
        unit = stage.unit_bytes * min(in_flight, max(1, math.ceil(n_rows / max(rows, stage.unit_rows))))
        passing = in_flight * (min(rows, n_rows) * stage.row_bytes) + threads * stage.task_bytes + unit
        return stage.fixed_bytes + int(_ARENA_FACTOR * passing)

    quantum = max(1, min(stage.quantum, n_rows))
    target = min(stage.block_bytes // max(1, stage.row_bytes), math.ceil(n_rows / (_BLOCKS_PER_THREAD * threads)))
    wanted = quantum * max(1, target // quantum)
    if stage.unit_rows * stage.row_bytes <= 4 * stage.block_bytes:  # whole chunks of the store, when they are not huge
        common = math.lcm(quantum, stage.unit_rows)
        if common <= 4 * wanted:
            wanted = common * max(1, wanted // common)
        wanted = max(wanted, math.ceil(min(stage.unit_rows, n_rows) / quantum) * quantum)
    most_threads = threads + stage.readers if threads > fewest_threads else threads
    for some_threads in range(most_threads, fewest_threads - 1, -1):
        rows = wanted
        while rows > quantum and peak(rows, some_threads) > room_bytes:
            rows = max(quantum, rows // 2 // quantum * quantum)
        if peak(rows, some_threads) <= room_bytes:
            return Layout(stage.name, rows, some_threads, peak(rows, some_threads), quantum)
    return Layout(stage.name, quantum, fewest_threads, peak(quantum, fewest_threads), quantum)


def more_memory(needed: float) -> str:
    """Say with how much memory workers have to be started: dask begins to write data to disk at seven tenths of it."""
    return f"Start workers with {format_bytes(1.5 * needed)} of memory or more"


def _held(stage: Stage) -> str:
    """Say what a stage holds once, whatever its blocks."""
    if stage.name == "kernel matrix":
        return "the kernel matrix of all rows"
    return "landmarks, kernel matrix and sample" if stage.row_bytes or not stage.remedy else "a sample"


def _refusal(
    stage: Stage, layout: Layout, base: int, needed: int, limit: int, threads: int = 1, limit_host: str = ""
) -> str:
    parts = {
        f"{stage.quantum:,} rows at a time": stage.quantum * stage.row_bytes,
        "chunks of the data, which are decoded whole": stage.unit_bytes,
        _held(stage): stage.fixed_bytes,
        "working arrays": stage.task_bytes,
    }
    largest = max(parts, key=lambda part: parts[part])
    remedy = {
        "chunks of the data, which are decoded whole": "store the data in smaller chunks",
        "landmarks, kernel matrix and sample": "use fewer landmarks (n_landmarks)",
    }.get(largest, "use fewer landmarks, fewer clusters or a smaller subset or chunk size")
    remedy = stage.remedy or remedy
    if threads > 1 and layout.block_rows and not stage.remedy:
        remedy += f", or start workers with fewer than {threads} threads"
    enough = 1.05 * (base + needed)
    return (
        f"The stage '{layout.name}' needs at least {format_bytes(base + needed)}, and "
        + (f"the worker on {limit_host} has room for" if limit_host else "memory_limit allows")
        + f" {format_bytes(limit)}. The process itself takes {format_bytes(base)}; "
        f"the largest part of the rest is {largest} ({format_bytes(parts[largest])}). "
        + (more_memory(enough) if limit_host else f"Raise memory_limit to {format_bytes(enough)} or more")
        + f", or {remedy}."
    )
