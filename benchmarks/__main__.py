"""``python -m benchmarks`` lists what can be measured, ``python -m benchmarks NAME ...`` does it.

``python -m benchmarks all`` runs every suite and writes results.md, results.json and results.png beside this file;
``python -m benchmarks NAME --out FOLDER`` puts one suite's in the place of its older ones.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

from benchmarks.results import read_results, render_outcome, write_results
from benchmarks.sets import Sets
from benchmarks.suites import SUITES, Context, all_targets, run_suite

#: Studies with arguments of their own: ``python -m benchmarks NAME --help``.
STUDIES = ("memory", "maps", "competitive", "n_clusters", "sparse_kernel", "many_clusters", "words", "choices")


def listing() -> str:
    """Return the names of all benchmarks and what they do."""
    lines = ["suites (make bench runs all of them):"]
    lines += [f"  {name:<14} {(suite.__doc__ or '').splitlines()[0]}" for name, suite in SUITES.items()]
    lines += ["studies, with arguments of their own (--help):"]
    for name in STUDIES:
        module = importlib.import_module(f"benchmarks.{name}")
        lines.append(f"  {name:<14} {(module.__doc__ or '').splitlines()[0]}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; return an exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments:
        print(listing())
        return 0
    name, rest = arguments[0], arguments[1:]
    if name in STUDIES:
        sys.argv = [f"benchmarks {name}", *rest]
        importlib.import_module(f"benchmarks.{name}").main()
        return 0
    if name not in (*SUITES, "all"):
        print(f"There is no benchmark {name!r}.\n{listing()}", file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(prog=f"benchmarks {name}")
    parser.add_argument("--data", help="folder of mnist.npz, covtype.npz (default: DASKKCL_DATA)")
    parser.add_argument("--work", help="folder for prepared tables, some 3 GiB (default: a temporary one)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--out", help="folder for results.md, where those of other suites stay (default for 'all': beside this file)"
    )
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that everything runs")
    options = parser.parse_args(rest)
    out = Path(options.out or Path(__file__).parent) if options.out or name == "all" else None
    with tempfile.TemporaryDirectory() as folder:
        work = options.work or folder
        for needed in (work, out):
            if needed is not None:
                Path(needed).mkdir(parents=True, exist_ok=True)
        context = Context(Sets(options.data, work), options.repeats, tiny=options.tiny)
        outcomes = []
        for suite in SUITES if name == "all" else [name]:
            outcomes.append(run_suite(suite, context))
            print("\n" + render_outcome(outcomes[-1]) + "\n", flush=True)
            if out is not None:  # what there is so far
                known = {outcome.name: outcome for outcome in [*read_results(out), outcomes[-1]]}
                write_results([known[name] for name in SUITES if name in known], out)
    missed = [target for target in all_targets(outcomes) if target.reached is False]
    print(f"\n{len(all_targets(outcomes))} targets, {len(missed)} missed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
