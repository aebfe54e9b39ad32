"""The benchmarks of ``make bench``: each is a function of a context and returns an `Outcome`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks import limits
from benchmarks.results import Outcome, Row, Target, at_least, at_most, row_of
from benchmarks.runner import Entry, Job, in_turn
from benchmarks.sets import Prepared, Sets
from daskkcl.system import cpu_count, return_large_arrays

__all__ = ["SUITES", "Context"]


@dataclass(frozen=True)
class Context:
    """Where the data are, how often everything is repeated, and how large it is.

    ``tiny`` is for a test that everything runs: its figures mean nothing.
    """

    sets: Sets
    repeats: int = 3
    threads: int = cpu_count()
    tiny: bool = False

    def size(self, full: int, tiny: int) -> int:
        """Return one of two sizes."""
        return tiny if self.tiny else full


def fewer(context: Context) -> int:
    """Return how often long runs are repeated: all are to be done in twenty minutes."""
    return max(1, context.repeats - 1)


def absent(name: str, title: str, file: str) -> Outcome:
    """Return the outcome of a benchmark whose data are not there."""
    note = f"{file}.npz is not in the data folder (--data FOLDER, or DASKKCL_DATA)"
    return Outcome(name, title, "", (Row(title, note=note),))


def medians(repeats: int, **measures: Callable[[], float]) -> dict[str, list[float]]:
    """Take all measures in turn, so often."""
    times: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(repeats):
        for name, measure in measures.items():
            times[name].append(measure())
    return times


def second(measure: Callable[[], float]) -> float:
    """Take a measure twice and return the second: of passes that follow one another all but the first are like that.

    Memory that was free for some seconds may have gone back to the host of a virtual machine: to have it again takes
    longer than to read what is put there.
    """
    measure()
    return measure()


def timed_row(title: str, times: list[float], note: str = "") -> Row:
    """Return the row of something measured in this process."""
    return Row(title, statistics.median(times), tuple(round(value, 4) for value in times), note=note)


def warm_row(entry: Entry, note: str = "") -> Row:
    """Return the row of fits in one process, one after another: the first is not counted."""
    later = [seconds for run in entry.runs for seconds in run["calls"][1:]]
    if not later:
        return row_of(entry, note)
    return replace(row_of(entry, note), seconds=statistics.median(later), times=tuple(round(s, 3) for s in later[:6]))


# --- passes and limits --------------------------------------------------------------------------------------------


def passes(context: Context) -> Outcome:
    """Measure single passes against bare products."""
    from benchmarks.maps import prepare_nearest, spectral_pass

    n, d, m, c = context.size(40_000, 3000), context.size(784, 16), context.size(1000, 50), 10
    X = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    plain, compiled, threads = limits.make_map(X, m), limits.make_map(X, m, compiled=True), context.threads
    right = np.ascontiguousarray(plain.landmarks.T)
    n_stored = 3 * n  # chunks enough for reading and computing to overlap
    path = context.sets.table(n_stored, d)
    return_large_arrays(2**30, 4 * d * limits.open_zarr(path).chunks[0])  # as runs within such a limit do
    nearest, step = prepare_nearest(X, m)
    spectral_pass(X[:2000], nearest, step, threads)  # compiles
    limits.sum_pass(X[:2000], compiled, c, threads)
    times = medians(
        context.repeats + 2,
        product=lambda: limits.bare_product(X, right, threads),
        plain=lambda: limits.kernel_pass(X, plain, threads),
        kernel=lambda: limits.kernel_pass(X, compiled, threads),
        exp=lambda: limits.bare_exp(n, m, threads),
        assignment=lambda: limits.bare_assignment(n, m, c, threads),
        sums=lambda: limits.sum_pass(X, compiled, c, threads),
        read=lambda: second(lambda: limits.bare_read(path, threads)),
        own_read=lambda: second(lambda: limits.own_read(path, threads)),
        # as plans have it: with one thread more, that reads
        stored=lambda: second(lambda: limits.kernel_pass(path, compiled, threads + 1)),
        nearest=lambda: spectral_pass(X, nearest, step, threads),
    )
    middle = {name: statistics.median(values) for name, values in times.items()}
    # pairs of one turn: what others do on the machine meanwhile meets both
    share = {
        name: statistics.median(bare / own for bare, own in zip(times["product"], values, strict=True))
        for name, values in times.items()
    }
    share["stored"] *= n_stored / n
    bare = middle["product"] * n_stored / n
    both = bare / (bare + middle["read"])
    whole = bare / (middle["kernel"] * n_stored / n + middle["own_read"])
    exponential = f"a bare exponential takes {middle['exp'] / middle['product']:.2f} of a bare product"
    rows = (
        timed_row("bare product", times["product"]),
        timed_row("bare np.exp", times["exp"]),
        timed_row("bare assignment product", times["assignment"]),
        timed_row("bare read of the Zarr", times["read"]),
        timed_row("read of the Zarr by daskkcl", times["own_read"]),
        timed_row("kernel pass by numpy, rows in memory", times["plain"], f"{share['plain']:.2f} of a bare product"),
        timed_row("kernel pass, rows in memory", times["kernel"], f"{share['kernel']:.2f} of a bare product"),
        timed_row("with nearest centres and sums", times["sums"], f"{share['sums']:.2f} of a bare product"),
        timed_row(
            "kernel pass, rows in a Zarr",
            times["stored"],
            f"{share['stored']:.2f} of a bare product; reading and a product one after the other would be {both:.2f}",
        ),
        timed_row("p nearest landmarks", times["nearest"], f"{share['nearest']:.2f} of a bare product"),
    )
    targets = (
        at_least("kernel pass in memory, bare product / pass", 0.85, share["kernel"], exponential),
        at_least(
            "kernel pass from a Zarr, bare product / pass",
            0.70,
            share["stored"],
            f"decoding takes the same cores: a pass in memory and reading, one by one, would be {whole:.2f}",
        ),
        at_least(
            "p-nearest-landmarks pass, bare product / pass",
            0.80,
            share["nearest"],
            f"beside the product, all {m:,} distances are compared; best of the single runs: "
            f"{min(times['product']) / min(times['nearest']):.2f}",
        ),
    )
    explanation = (
        f"{n:,} x {d} rows, {m:,} landmarks, Gaussian kernel, {threads} threads; the Zarr has {n_stored:,} rows "
        "and is compressed as zarr does. Passes are by compiled loops, which are taken from 400,000,000 kernel values "
        "on, but for the one that says otherwise. Shares are medians of pairs of one turn; of what reads the Zarr, the "
        "second of two in a row counts, which finds memory at hand as all passes of a run but the first do."
    )
    return Outcome("passes", "Passes and the machine's limits", explanation, rows, targets)


# --- peers --------------------------------------------------------------------------------------------------------


def _ours(title: str, algo: str, data: Prepared, libraries: tuple[str, ...] = (), **parameters: Any) -> Job:
    return Job(title, "daskkcl", data.rows, data.n_clusters, data.classes, {"algo": algo, **parameters}, libraries)


def mnist(context: Context) -> Outcome:
    """Compare with every peer on MNIST."""
    title = "MNIST (70,000 x 784)"
    data = context.sets.digits() if context.tiny else context.sets.real("mnist")
    if data is None:
        return absent("mnist", title, "mnist")
    m = context.size(1000, 50)
    peer = Job("", "", data.rows, data.n_clusters, data.classes)
    both = {"n_landmarks": m, "gamma": data.gamma}
    jobs = [
        _ours("daskkcl pakcl", "pakcl", data, n_landmarks=m),
        _ours("daskkcl pakcl, labels='nearest'", "pakcl", data, n_landmarks=m, labels="nearest"),
        replace(peer, title="Nystroem + MiniBatchKMeans", contestant="Nystroem + MiniBatchKMeans", parameters=both),
        _ours("daskkcl akkmeans", "akkmeans", data, n_landmarks=m, tol=1e-5),  # as many passes as KMeans makes
        replace(peer, title="Nystroem + KMeans(n_init=1)", contestant="Nystroem + KMeans", parameters=both),
        _ours("daskkcl spectral", "spectral", data, ("numba",), n_landmarks=m),
        replace(peer, title="MiniBatchKMeans, pixels", contestant="MiniBatchKMeans", repeats=1),
        replace(peer, title="faiss Kmeans, pixels", contestant="faiss Kmeans", repeats=1),
        replace(peer, title="dask-ml KMeans, pixels", contestant="dask-ml KMeans", repeats=1),
        replace(
            peer,
            title="dask-ml SpectralClustering",
            contestant="dask-ml SpectralClustering",
            parameters=both,
            repeats=1,
            time_limit=10,
        ),
        replace(
            peer,
            title="tslearn KernelKMeans",
            contestant="tslearn KernelKMeans",
            parameters={"gamma": data.gamma},
            repeats=1,
        ),
    ]
    found = in_turn(jobs, context.repeats)
    for name, more in in_turn(jobs[:3], context.size(1, 0), seed=context.repeats).items():
        found[name] = replace(found[name], runs=(*found[name].runs, *more.runs))  # chance is large in NMI
    ours, theirs = found["daskkcl pakcl"], found["Nystroem + MiniBatchKMeans"]
    means, kmeans = found["daskkcl akkmeans"], found["Nystroem + KMeans(n_init=1)"]
    spectral, by_distance = found["daskkcl spectral"], found["daskkcl pakcl, labels='nearest'"]
    limit = max(10.0, 51 * spectral.seconds)
    graph = replace(peer, title="SpectralClustering, nearest neighbours", contestant="SpectralClustering")
    slow = in_turn([replace(graph, time_limit=limit)], 1)
    (peer_entry,) = slow.values()
    stopped = peer_entry.failed.startswith("not finished")
    times_faster = (limit if stopped else peer_entry.seconds) / spectral.seconds
    targets = (
        at_most(
            "pakcl on MNIST, time / Nystroem + MiniBatchKMeans",
            0.5,
            ours.seconds / theirs.seconds,
            f"rows are measured twice, for centres and for labels; {_where(ours)}",
        ),
        at_most("its added memory / theirs", 1 / 3, ours.added_bytes / theirs.added_bytes),
        at_least(
            "its NMI − theirs",
            0.0,
            ours.mean("nmi") - theirs.mean("nmi"),
            f"labels are weighed by frequencies, as published; {_chance(ours, theirs)}",
        ),
        at_least(
            "the same with labels='nearest', as theirs are",
            0.0,
            by_distance.mean("nmi") - theirs.mean("nmi"),
            _chance(by_distance, theirs),
        ),
        at_most("spectral on MNIST, time / Nystroem + MiniBatchKMeans", 1.0, spectral.seconds / theirs.seconds),
        at_least("its NMI", 0.74, spectral.mean("nmi")),
        at_least("spectral on MNIST, times faster than SpectralClustering", 50, times_faster, open_end=stopped),
        at_most("akkmeans on MNIST, time / Nystroem + KMeans", 0.5, means.seconds / kmeans.seconds),
        at_least(
            "its NMI − theirs (same: within 0.01)",
            -0.01,
            means.mean("nmi") - kmeans.mean("nmi"),
            _chance(means, kmeans),
        ),
    )
    explanation = (
        f"Pixels divided by 255, float32, in memory; {m:,} landmarks; the same kernel width for everybody. akkmeans "
        "has tol=1e-5: by default it stops earlier than KMeans does, since passes may be over a disk."
    )
    rows = tuple(row_of(entry) for entry in [*found.values(), *slow.values()])
    return Outcome("mnist", title, explanation, rows, targets)


def _chance(one: Entry, other: Entry) -> str:
    """Say how much of a difference in NMI may be chance."""
    values = [[run["nmi"] for run in entry.runs] for entry in (one, other)]
    if min(map(len, values)) < 2:
        return "one seed"
    errors = [statistics.stdev(own) / len(own) ** 0.5 for own in values]
    ranges = " and ".join(f"{statistics.fmean(own):.3f} ± {e:.3f}" for own, e in zip(values, errors, strict=True))
    return f"{ranges} over {len(values[0])} seeds (standard errors)"


def _where(entry: Entry) -> str:
    """Say where the time went in a run of ours: the one in the middle."""
    runs = sorted((run for run in entry.runs if "stages" in run), key=lambda run: run["seconds"])
    if not runs:
        return "nothing was measured"
    stages = _joined(runs[len(runs) // 2]["stages"])
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in stages.items())


def fuzzy(context: Context) -> Outcome:
    """Compare the fuzzy family with scikit-fuzzy on MNIST."""
    title = "Fuzzy c-means on MNIST"
    data = context.sets.digits() if context.tiny else context.sets.real("mnist", unit_rows=True)
    raw = context.sets.digits() if context.tiny else context.sets.real("mnist")
    if data is None or raw is None:
        return absent("fuzzy", title, "mnist")
    kernel = {"kernel": "polynomial", "degree": 5, "n_landmarks": context.size(300, 50), "fuzzifier": 1.05}
    peer = Job("", "scikit-fuzzy cmeans", raw.rows, raw.n_clusters, raw.classes)
    jobs = [
        _ours("daskkcl okfcm", "okfcm", data, **kernel),
        replace(_ours("daskkcl spkfcm", "spkfcm", data, **kernel), repeats=1),
        replace(_ours("daskkcl rsekfcm", "rsekfcm", data, **kernel), repeats=1),
        replace(peer, title="scikit-fuzzy cmeans, pixels", parameters={"fuzzifier": 1.1, "max_iter": 50}, repeats=1),
    ]
    found = in_turn(jobs, context.repeats)
    theirs = found["scikit-fuzzy cmeans, pixels"]
    best = found["daskkcl okfcm"]
    targets = (
        at_most("landmark KFCM (okfcm) on MNIST, time / scikit-fuzzy cmeans", 0.3, best.seconds / theirs.seconds),
        at_least("its ARI − theirs", 0.0, best.mean("ari") - theirs.mean("ari")),
    )
    explanation = (
        "Ours: rows of unit length, polynomial kernel of degree 5, 300 landmarks, fuzzifier 1.05. Theirs: pixels by "
        "255, fuzzifier 1.1, at most 50 iterations."
    )
    return Outcome("fuzzy", title, explanation, tuple(row_of(entry) for entry in found.values()), targets)


def covtype(context: Context) -> Outcome:
    """Compare with scikit-learn on Covertype."""
    title = "Covertype (581,012 x 54)"
    data = context.sets.digits() if context.tiny else context.sets.real("covtype")
    if data is None:
        return absent("covtype", title, "covtype")
    m = context.size(500, 50)
    peer = Job("", "", data.rows, data.n_clusters, data.classes)
    both = {"n_landmarks": m, "gamma": data.gamma}
    jobs = [
        _ours("daskkcl pakcl", "pakcl", data, n_landmarks=m),
        replace(peer, title="Nystroem + MiniBatchKMeans", contestant="Nystroem + MiniBatchKMeans", parameters=both),
        replace(peer, title="MiniBatchKMeans, rows", contestant="MiniBatchKMeans", repeats=1),
        replace(peer, title="faiss Kmeans, rows", contestant="faiss Kmeans", repeats=1),
    ]
    found = in_turn(jobs, fewer(context))
    ours, theirs = found["daskkcl pakcl"], found["Nystroem + MiniBatchKMeans"]
    targets = (
        at_most("pakcl on Covertype, time / Nystroem + MiniBatchKMeans", 0.4, ours.seconds / theirs.seconds),
        at_most("its added memory / theirs", 1 / 5, ours.added_bytes / theirs.added_bytes),
        at_least(
            "its NMI − theirs",
            0.0,
            ours.mean("nmi") - theirs.mean("nmi"),
            f"clusters are made alike in size, and two classes of seven have 85 % of the rows; {_chance(ours, theirs)}",
        ),
    )
    explanation = f"Standardised features, float32, in memory; {m} landmarks; the same kernel width for both."
    return Outcome("covtype", title, explanation, tuple(row_of(entry) for entry in found.values()), targets)


# --- large data ---------------------------------------------------------------------------------------------------


def large(context: Context) -> Outcome:
    """Run pakcl on a large Zarr within 1 GiB, against the sum of the machine's limits for one pass."""
    n, d, m, c = context.size(10_000_000, 4000), 32, context.size(500, 50), 10
    path, threads = context.sets.table(n, d), context.threads
    array = limits.open_zarr(path)
    X = np.concatenate([array[start : start + 2048] for start in range(0, min(n, 400_000), 100_000)])
    right = np.ascontiguousarray(X[:m].T)
    parameters = {"algo": "pakcl", "n_landmarks": m, "memory_limit": "1GiB"}
    job = Job("daskkcl pakcl, fit and labels", "daskkcl", path, c, "", parameters, ("numba",), time_limit=300)
    times: dict[str, list[float]] = {name: [] for name in ("read", "product", "exp", "assignment")}
    runs: list[dict[str, Any]] = []
    entries = []
    for turn in range(fewer(context)):
        times["read"].append(limits.bare_read(path, threads))
        times["product"].append(limits.bare_product(X, right, threads, n))
        times["exp"].append(limits.bare_exp(n, m, threads))
        times["assignment"].append(limits.bare_assignment(n, m, c, threads))
        entry = in_turn([job], 1, seed=turn)[job.title]
        entries.append(entry)
        runs += entry.runs
    limit = {name: statistics.median(values) for name, values in times.items()}
    total = sum(limit.values())
    entry = replace(entries[0], runs=tuple(runs))
    stages = [dict(_joined(run["stages"])) for run in runs]
    labelling = statistics.median(stage["labelling"] for stage in stages) if stages else float("nan")
    whole = entry.seconds
    targets = (
        at_most(
            "10,000,000 x 32 on disk, pakcl fit / sum of limits",
            1.4,
            (whole - labelling) / total,
            f"shuffling is not in the limits; {_where(entry)}",
        ),
        at_most(
            "the same with labels", 2.5, whole / total, f"{_where(entry)}, of limits of {total:.1f} s for one pass"
        ),
    )
    planned = runs[-1]["planned_bytes"] / 2**20 if runs else float("nan")
    rows = (
        *(timed_row(f"bare {name}", values) for name, values in times.items()),
        Row("their sum", total, note=f"the largest alone, if all overlapped: {max(limit.values()):.2f} s"),
        row_of(entry, f"planned peak {planned:.0f} MiB; {_where(entry)}"),
    )
    explanation = f"{n:,} x {d} float32 rows in a compressed Zarr, {m} landmarks, memory_limit 1 GiB. No peer runs it."
    return Outcome("large", "Ten million rows within 1 GiB", explanation, rows, targets)


def _joined(stages: list[tuple[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for title, seconds in stages:
        name = title.rstrip("0123456789 ")  # all passes, all epochs
        total[name] = total.get(name, 0.0) + seconds
    return total


def growth(context: Context) -> Outcome:
    """Compare four times the rows with the rows."""
    n, d, m = context.size(1_000_000, 3000), 32, context.size(500, 50)
    parameters = {"algo": "pakcl", "n_landmarks": m, "memory_limit": "512MiB"}
    jobs = [
        Job(f"daskkcl pakcl, {rows:,} rows", "daskkcl", context.sets.table(rows, d), 10, "", parameters, ("numba",))
        for rows in (n, 4 * n)
    ]
    one, four = in_turn(jobs, fewer(context)).values()
    targets = (
        at_most("time at 4,000,000 rows / at 1,000,000", 4.3, four.seconds / one.seconds),
        at_most("peak memory at 4,000,000 rows / at 1,000,000", 1.1, _peak(four) / _peak(one)),
    )
    explanation = f"Gaussian clusters of {d} features in compressed Zarrs, {m} landmarks, memory_limit 512 MiB."
    rows = tuple(row_of(entry, f"peak {_peak(entry) / 2**20:.0f} MiB in all") for entry in (one, four))
    return Outcome("growth", "Growth", explanation, rows, targets)


def _peak(entry: Any) -> float:
    return max((run["base_bytes"] + run["added_bytes"] for run in entry.runs), default=float("nan"))


def scaling(context: Context) -> Outcome:
    """Compare two threads with one, and two worker processes with one."""
    data = context.sets.digits() if context.tiny else context.sets.real("mnist")
    if data is None:
        return absent("scaling", "Threads and workers", "mnist")
    m = context.size(1000, 50)
    own = {"algo": "akkmeans", "n_landmarks": m, "max_iter": 3, "memory_limit": "2GiB"}
    # the later fits of a process: fresh memory, 300 MB of it, may cost a virtual machine as much as the whole fit
    kept = Job("", "daskkcl, warm", data.rows, data.n_clusters, "", {**own, "calls": 4}, repeats=1)
    n, d, fewer_landmarks = context.size(4_000_000, 2000), 32, context.size(500, 50)
    table = context.sets.table(n, d)
    # room for the blocks of two threads, and not for the rows
    own = {"algo": "akkmeans", "n_landmarks": fewer_landmarks, "max_iter": 1, "memory_limit": "768MiB"}
    stored = Job("", "daskkcl", table, 10, "", own, ("numba",))
    workers = Job("", "daskkcl, workers", table, 10, "", own, ("numba",))
    jobs = []
    for count in (1, 2):
        several = f"{count} thread{'s' * (count > 1)}"
        environment = {"DASK_NUM_WORKERS": str(count)}
        jobs.append(replace(stored, title=several, environment=environment))
        jobs.append(replace(kept, title=f"{several}, MNIST", environment=environment))
        title = several.replace("thread", "worker")
        jobs.append(replace(workers, title=title, parameters={**own, "workers": count}))
    found = in_turn(jobs, fewer(context))
    shown = {title: warm_row(entry) if "MNIST" in title else row_of(entry) for title, entry in found.items()}
    seconds = {title: row.seconds or float("nan") for title, row in shown.items()}
    X = np.load(data.rows, mmap_mode="r")[: context.size(20_000, 1000)].copy()
    right = np.ascontiguousarray(X[:m].T)
    bare = medians(
        context.repeats,
        product_1=lambda: limits.bare_product(X, right, 1),
        product_2=lambda: limits.bare_product(X, right, 2),
        read_1=lambda: limits.own_read(table, 1),
        read_2=lambda: limits.own_read(table, 2),
    )
    gain = {
        name: statistics.median(bare[f"{name}_1"]) / statistics.median(bare[f"{name}_2"])
        for name in ("product", "read")
    }
    limit = f"a bare product gains {gain['product']:.2f}, reading {gain['read']:.2f}"
    targets = (
        at_least(
            "2 threads against 1, rows on disk",
            1.7,
            seconds["1 thread"] / seconds["2 threads"],
            f"{limit}; one thread: {_where(found['1 thread'])}; two: {_where(found['2 threads'])}",
        ),
        at_least(
            "the same, MNIST in memory",
            1.7,
            seconds["1 thread, MNIST"] / seconds["2 threads, MNIST"],
            f"{limit}; 280 MB of measurements are fresh memory in every fit, the sample and the kernel matrix of the "
            "landmarks are on one thread, and passes over measurements that are kept are as fast as memory",
        ),
        at_least(
            "2 workers against 1, rows on disk",
            1.7,
            seconds["1 worker"] / seconds["2 workers"],
            f"{limit}; landmarks, first centres and graphs are made by one more process, on the same two cores",
        ),
    )
    explanation = (
        f"akkmeans over a Zarr of {n:,} x {d} on disk, {fewer_landmarks} landmarks, memory_limit 768 MiB: one pass and "
        f"one for labels, each of which reads and measures; over MNIST in memory, {m:,} landmarks, three passes over "
        "measurements that are kept, fits after the first one of a process."
    )
    rows = []
    for name, what in {"product": "bare product", "read": "read of the Zarr by daskkcl"}.items():
        rows.append(timed_row(f"{what}, 1 thread", bare[f"{name}_1"]))
        rows.append(timed_row(f"{what}, 2 threads", bare[f"{name}_2"], f"{gain[name]:.2f} times as fast"))
    return Outcome("scaling", "Threads and workers", explanation, (*shown.values(), *rows), targets)


# --- small data ---------------------------------------------------------------------------------------------------


def small(context: Context) -> Outcome:
    """Measure what is there on small data: overhead, import, first call."""
    data = context.sets.digits()
    job = Job("pakcl on digits", "daskkcl, warm", data.rows, data.n_clusters, data.classes, {"algo": "pakcl"})
    kernel = Job("tslearn KernelKMeans", "tslearn KernelKMeans", data.rows, data.n_clusters, data.classes)
    numba = Job("spectral on digits", "daskkcl, warm", data.rows, data.n_clusters, data.classes, {"algo": "spectral"})
    exact = Job("kkmeans on digits", "daskkcl, warm", data.rows, data.n_clusters, data.classes, {"algo": "kkmeans"})
    kernel = replace(kernel, parameters={"gamma": data.gamma})
    exact = replace(exact, parameters={**exact.parameters, "calls": 4}, repeats=1)
    found = in_turn([job, numba, exact, kernel], fewer(context))
    imports = medians(
        context.repeats + 2, numpy=lambda: import_seconds("numpy"), ours=lambda: import_seconds("daskkcl")
    )
    over = statistics.median(imports["ours"]) - statistics.median(imports["numpy"])
    rows, targets = [], [at_most("import daskkcl, seconds over numpy's", 0.5, over)]
    steps = "some 400 updates one after another, each a dozen calls of numpy, and first centres"
    for title in (job.title, numba.title, exact.title):
        first = [run["calls"][0] for run in found[title].runs]
        begin = statistics.median(first) if first else float("nan")
        rows.append(warm_row(found[title], f"first call in a fresh process {begin:.2f} s"))
        warm, name = rows[-1].seconds or float("nan"), title.split()[0]
        if title != exact.title:
            targets.append(at_most(f"first call of {name}, seconds over later ones", 2.0, begin - warm))
        if title == job.title:
            targets.append(at_most("pakcl on digits (1,797 x 64), warm, seconds", 0.3, warm, steps))
    rows.append(row_of(found[kernel.title]))
    rows.append(timed_row("import numpy", imports["numpy"]))
    rows.append(timed_row("import daskkcl, numpy with it", imports["ours"]))
    explanation = "The 8 x 8 digits in memory; several fits in one process, compiled code from numba's cache."
    return Outcome("small", "Small data and starting up", explanation, tuple(rows), tuple(targets))


def import_seconds(module: str) -> float:
    """Return the seconds that an import takes in a fresh process."""
    code = f"import time; t = time.perf_counter(); import numpy, {module}; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


SUITES: dict[str, Callable[[Context], Outcome]] = {
    "passes": passes,
    "mnist": mnist,
    "fuzzy": fuzzy,
    "covtype": covtype,
    "large": large,
    "growth": growth,
    "scaling": scaling,
    "small": small,
}


def run_suite(name: str, context: Context) -> Outcome:
    """Run a benchmark and say how long it took."""
    began, load = time.perf_counter(), round(os.getloadavg()[0], 2)
    print(f"{name}: {(SUITES[name].__doc__ or '').splitlines()[0]}", flush=True)
    return replace(SUITES[name](context), seconds=time.perf_counter() - began, load=load)


def all_targets(outcomes: list[Outcome]) -> list[Target]:
    """Return the targets of all benchmarks."""
    return [target for outcome in outcomes for target in outcome.targets]
