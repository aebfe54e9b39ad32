"""The plan counts everything: stages by arithmetic, and fresh processes at the least limit that is let in."""

import json
import platform
import re
import subprocess
import sys
import time

import numpy as np
import pytest
import threadpoolctl
import zarr

from daskkcl import system
from daskkcl.planning import Stage, make_plan
from daskkcl.rules.sums import ExactSum
from daskkcl.schedules.graph import Graph

MIB = 2**20

_FIT = """
import json, sys, zarr, daskkcl
from daskkcl.system import peak_bytes
path, algo, in_memory, limit, parameters = json.loads(sys.argv[1])
data = zarr.open(path, mode="r")[:] if in_memory else path
try:
    daskkcl.fit(data, algo, memory_limit=limit, random_state=0, progress=False, **parameters)
    print(json.dumps({"peak": peak_bytes()}))
except daskkcl.MemoryLimitError as error:
    print(json.dumps({"needed": error.needed_bytes}))
"""


def test_a_stage_without_rows_is_counted_and_has_no_blocks():
    stages = [Stage("pass", row_bytes=100, quantum=64), Stage("preparing", row_bytes=0, fixed_bytes=80 * MIB)]
    plan = make_plan(stages, n_rows=10**6, limit_bytes=512 * MIB, base_bytes=128 * MIB, threads=2)
    assert plan.layout("preparing").peak_bytes == 80 * MIB
    assert plan.peak_bytes >= plan.base_bytes + 80 * MIB
    assert "preparing" in str(plan)
    assert str(plan).count("blocks of") == 1


def test_a_chain_and_a_tree_add_up_to_the_same():
    from dask.threaded import get

    rng = np.random.default_rng(0)
    terms = [ExactSum.zeros((3,)) + 10.0 ** rng.integers(-12, 12, 3) * rng.normal(size=3) for _ in range(100)]
    graph = Graph()
    keys = [graph.value(term) for term in terms]

    def add(parts):
        return sum(parts[1:], start=parts[0])

    chain, tree = get(graph.tasks, [graph.chain(keys, add), graph.tree(keys, add)])
    np.testing.assert_array_equal(chain.value, tree.value)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc/self/status (Linux)")
@pytest.mark.parametrize(
    ("shape", "dtype", "in_memory", "algo", "parameters"),
    [
        pytest.param(
            (4_000, 4_000), "uint8", False, "pakcl", {"n_clusters": 5, "n_landmarks": 50}, marks=pytest.mark.slow
        ),
        ((4_000, 2_000), "uint8", False, "okfcm", {"n_clusters": 5, "n_landmarks": 200, "landmarks": "kmeans"}),
        ((4_000, 2_000), "uint8", False, "okfcm", {"n_clusters": "auto", "n_landmarks": 200, "landmarks": "leverage"}),
        pytest.param(
            (2_000, 10_000),
            "uint8",
            False,
            "akkmeans",
            {"n_clusters": 40, "map": "identity", "max_iter": 2},
            marks=pytest.mark.slow,
        ),
        ((100_000, 4), "float32", False, "akkmeans", {"n_clusters": 200, "n_landmarks": 800, "max_iter": 1}),
        pytest.param(
            (300_000, 4), "float32", True, "okfcm", {"n_clusters": 40, "n_landmarks": 50}, marks=pytest.mark.slow
        ),
        pytest.param(
            (100_000, 4),
            "float32",
            False,
            "rsekfcm",
            {"n_clusters": 60, "n_landmarks": 300, "max_passes": 1},
            marks=pytest.mark.slow,
        ),
        ((100_000, 4), "float32", False, "spkfcm", {"n_clusters": 60, "n_landmarks": 300, "max_iter": 3}),
        pytest.param((2_000, 10_000), "uint8", False, "fcm", {"n_clusters": 40, "max_iter": 2}, marks=pytest.mark.slow),
        ((4_000, 20), "float32", True, "kfcm", {"n_clusters": 5, "max_iter": 5}),
    ],
    ids=["width", "kmeans", "leverage", "identity", "sums", "answers", "sample", "chain", "fuzzy passes", "matrix"],
)
@pytest.mark.filterwarnings("ignore")
def test_the_least_limit_that_is_let_in_is_kept(tmp_path, shape, dtype, in_memory, algo, parameters):
    """What is not counted shows where a run is let in with nothing to spare."""
    rng = np.random.default_rng(0)
    path = str(tmp_path / "table.zarr")
    rows = 100 if shape[1] > 100 else 1000
    array = zarr.create_array(path, shape=shape, dtype=dtype, chunks=(rows, shape[1]), compressors=None)
    for start in range(0, shape[0], rows):
        array[start : start + rows] = rng.integers(0, 8, (rows, 1)) + rng.integers(0, 6, (rows, shape[1]))

    def fit(limit):
        command = [sys.executable, "-W", "ignore", "-c", _FIT, json.dumps([path, algo, in_memory, limit, parameters])]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    result, limit = fit(100 * MIB), 0
    while "needed" in result:
        limit = int(1.02 * result["needed"]) + MIB
        result = fit(limit)
    assert result["peak"] <= limit, f"{result['peak'] / MIB:.0f} MiB taken, {limit / MIB:.0f} MiB allowed"


def test_a_plan_shows_itself_in_a_notebook():
    plan = make_plan([Stage("pass", 1000), Stage("<other>", 10)], 10**6, 2**29, 2**27, 2, keep={"rows": 2**20})
    page = plan._repr_html_()
    assert page.count("<tr>") == 4
    assert "&lt;other&gt;" in page
    assert "kept: rows" in page
    assert "of 512.0 MiB" in page
    widths = [float(width) for width in re.findall(r"width:([0-9.]+)em;b", page)]
    assert 0 < widths[0] <= 16


glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries give memory back in their own way"
)


@glibc
def test_a_process_near_its_plan_gives_back_what_it_has_free():
    """Free memory between arrays that are in use stays with the C library until it is asked."""
    arrays = [np.ones(12_500) for _ in range(2_000)]
    arrays = arrays[::10]
    before, pages = system.resident_bytes(), system._FreePages()
    pages.look()  # no ceiling
    pages.keep_below(before + 50 * MIB)
    pages.look()
    assert system.resident_bytes() > before - 10 * MIB
    pages.keep_below(before - 50 * MIB)
    time.sleep(1.1 * pages._LOOK)  # it does not look all the time
    pages.look()
    assert system.resident_bytes() < before - 50 * MIB
    assert sum(array.sum() for array in arrays) == 200 * 12_500


@glibc
def test_what_earlier_arrays_left_is_not_counted_twice():
    """A second fit in a notebook has as much room as the first."""
    arrays = [np.ones(12_500) for _ in range(1_000)]  # a hundred kilobytes each: not given back one by one
    last = np.ones(12_500)
    del arrays
    before = system.resident_bytes()
    assert system.settled_bytes() < before - 50 * 10**6
    assert last.sum() == 12_500


def threads_of_libraries():
    return {library["filepath"]: library["num_threads"] for library in threadpoolctl.threadpool_info()}


def test_blas_has_one_thread_while_anybody_asks_for_it():
    import scipy.linalg  # noqa: F401  (brings a BLAS of its own)

    before = threads_of_libraries()
    for _ in range(2):
        with system.single_threaded(), system.single_threaded():
            assert set(threads_of_libraries().values()) == {1}
        assert threads_of_libraries() == before


def test_libraries_are_looked_up_again_when_modules_have_been_loaded(monkeypatch):
    """To look is slow, and a library that was loaded since must be capped too."""
    looked = []

    class Counted(threadpoolctl.ThreadpoolController):
        def __init__(self):
            looked.append(len(sys.modules))
            super().__init__()

    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", Counted)
    cap = system._BlasCap()
    for _ in range(3):
        with cap():
            pass
    assert len(looked) == 1
    monkeypatch.setitem(sys.modules, "a_module_that_brings_a_library", sys)
    with cap():
        pass
    assert len(looked) == 2
