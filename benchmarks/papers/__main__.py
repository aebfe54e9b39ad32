"""``python -m benchmarks.papers run`` does the papers' experiments, ``... page`` writes docs/papers.md of the results.

Runs may be stopped at any time and go on where they were: a cell that is in the store is not done again.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.papers import competitive, cooperative, embedding, fuzzy, sparse_kernel
from benchmarks.papers.experiments import Experiment, cells
from benchmarks.papers.running import Worker, repeat_cells, run_cells
from benchmarks.papers.store import DEFAULT, Store

_FURTHER = tuple(one for one in competitive.EXPERIMENTS if one.name not in competitive.PUBLISHED_FIRST)

#: Cheap ones first, what no paper has last.
EXPERIMENTS: tuple[Experiment, ...] = (
    *cooperative.EXPERIMENTS,
    *embedding.EXPERIMENTS,
    *fuzzy.EXPERIMENTS,
    *(one for one in competitive.EXPERIMENTS if one not in _FURTHER),
    *sparse_kernel.EXPERIMENTS,
    *_FURTHER,
)
TIME_IS_UP = 3  # exit code: cells are left


def chosen(only: list[str]) -> tuple[Experiment, ...]:
    """Return the experiments whose paper or ``paper/name`` is asked for; all if nothing is."""
    found = tuple(
        one
        for one in EXPERIMENTS
        if not only or one.paper in only or any(f"{one.paper}/{one.name}" == ask for ask in only)
    )
    unknown = [ask for ask in only if not any(ask in (one.paper, f"{one.paper}/{one.name}") for one in EXPERIMENTS)]
    if unknown:
        names = ", ".join(f"{one.paper}/{one.name}" for one in EXPERIMENTS)
        raise SystemExit(
            f"There is no experiment {unknown[0]!r}. There are: {names}; or a paper: the part before the /."
        )
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; return an exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.papers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="do experiments")
    folder = os.environ.get("DASKKCL_DATA", str(Path(__file__).resolve().parents[3] / "shared" / "data"))
    run.add_argument("--data", type=Path, default=Path(folder), help="folder of the .npz files (default: DASKKCL_DATA)")
    run.add_argument("--store", type=Path, default=DEFAULT, help="file of the results")
    run.add_argument("--only", action="append", default=[], help="a paper, or paper/experiment; may be repeated")
    run.add_argument("--quick", action="store_true", help="one seed of a part: about ten minutes")
    run.add_argument("--seeds", type=int, help="at most so many seeds of each experiment")
    run.add_argument("--stop-after", type=float, help=f"seconds; exit code {TIME_IS_UP} if cells are left then")
    run.add_argument("--list", action="store_true", help="only say what there is to do")
    run.add_argument(
        "--again", action="store_true", help="one stored cell of each method anew: has its answer changed?"
    )
    page = commands.add_parser("page", help="write the page and its pictures")
    page.add_argument("--store", type=Path, default=DEFAULT)
    page.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[2] / "docs")
    options = parser.parse_args(arguments)
    if options.command == "page":
        from benchmarks.papers.page import write_page

        write_page(Store(options.store), options.out)
        return 0
    experiments, store = chosen(options.only), Store(options.store)
    if options.list:
        _list(experiments, store, options.quick, options.seeds)
        return 0
    worker = Worker(options.data)
    try:
        wanted, do = cells(experiments, options.quick, options.seeds), repeat_cells if options.again else run_cells
        left = do(wanted, store, worker, options.stop_after, _say)
    finally:
        worker.close()
    return TIME_IS_UP if left else 0


def _list(experiments: tuple[Experiment, ...], store: Store, quick: bool, most: int | None) -> None:
    finished = store.finished()
    for one in experiments:
        wanted = list(cells((one,), quick, most))
        done = sum(cell.key in finished for cell in wanted)
        print(f"{one.paper}/{one.name} ({one.shows}): {done} of {len(wanted)} cells done")


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
