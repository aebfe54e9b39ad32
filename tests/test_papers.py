"""The papers' experiments: cells run in order, are kept, are not done again; the page says what is in the store."""

import json
import re
import time

import numpy as np
import pytest

from benchmarks.papers import __main__ as command
from benchmarks.papers import competitive, cooperative, embedding, fuzzy, sparse_kernel
from benchmarks.papers.data import PREPARED, Sets
from benchmarks.papers.experiments import Cell, Experiment, cells, grid
from benchmarks.papers.page import _repeated, parts_of, render, write_page
from benchmarks.papers.pages.parts import Claim
from benchmarks.papers.running import Inside, Worker, repeat_cells, run_cells
from benchmarks.papers.store import DEFAULT, Results, Store
from tests.data_sets import FOLDER


def sizes(settings, seed, sets):
    """A measure that takes no time."""
    return {"value": settings["m"] + seed}


def breaks(settings, seed, sets):
    raise ValueError("no such thing")


def sleeps(settings, seed, sets):
    time.sleep(60)


def toy(measure=sizes, **more):
    return Experiment("toy", "one", "Table 1", measure, grid(m=[1, 2]), **{"runs": 3, **more})


def test_cells_come_breadth_first_and_each_once():
    quick_one = Experiment("toy", "two", "Table 2", sizes, grid(m=[5]), runs=2, at_a_time=2)
    order = [(cell.experiment.name, cell.settings["m"], cell.seed) for cell in cells((toy(), quick_one))]
    expected = [("one", 1, 0), ("one", 2, 0), ("two", 5, 0), ("two", 5, 1)]
    expected += [("one", m, seed) for seed in (1, 2) for m in (1, 2)]
    assert order == expected


def test_fewer_seeds_can_be_asked_for():
    found = [(cell.settings["m"], cell.seed) for cell in cells((toy(at_a_time=3),), most=2)]
    assert found == [(1, 0), (2, 0), (1, 1), (2, 1)]
    assert len(list(cells((toy(),), most=99))) == 6


def test_quick_is_one_seed_of_a_part():
    found = list(cells((toy(quick=lambda settings: settings["m"] == 2),), quick=True))
    assert [(cell.settings["m"], cell.seed) for cell in found] == [(2, 0)]


def test_all_experiments_declare_cells_of_known_sets():
    keys = [cell.key for cell in cells(command.EXPERIMENTS)]
    assert len(keys) == len(set(keys))
    names = {settings["set"] for one in command.EXPERIMENTS for settings in one.settings if "set" in settings}
    assert names <= set(PREPARED)
    for module in (competitive, sparse_kernel, cooperative, fuzzy, embedding):
        assert any(one.quick(settings) for one in module.EXPERIMENTS for settings in one.settings)


def test_a_run_goes_on_where_it_was(tmp_path):
    store, said = Store(tmp_path / "results.jsonl"), []
    worker = Inside(tmp_path)
    left = run_cells(cells((toy(),)), store, worker, stop_after=-1, say=said.append)
    assert left == 6
    assert run_cells(cells((toy(runs=1),)), store, worker, say=said.append) == 0
    assert len(said) == 2
    assert "[2/2" in said[-1]
    with open(store.path, "a") as file:
        file.write('{"paper": "toy", "exper')  # a line that a crash cut off
    again = Store(store.path)
    assert run_cells(cells((toy(),)), again, worker, say=said.append) == 0
    assert len(said) == 6  # two were there
    results = Results(again.records())
    assert len(results.rows) == 6
    assert len(results.runs) == 2
    assert {"numpy", "daskkcl"} <= set(results.runs[0]["versions"])
    mean = results.mean("toy", "one", "value", m=2)
    assert (mean.value, mean.n) == (3.0, 3)
    assert results.mean("toy", "one", "value", m=7) is None


def test_stored_cells_can_be_done_again(tmp_path, monkeypatch):
    """One of each method; what differs is told and kept, and the same code does not do them once more."""
    store, said, worker = Store(tmp_path / "results.jsonl"), [], Inside(tmp_path)
    run_cells(cells((toy(),)), store, worker, say=said.append)
    assert "code" in Results(store.records()).runs[0]
    assert repeat_cells(cells((toy(),)), store, worker, say=said.append) == 0
    assert said[-1].endswith("seed 0: the same")
    monkeypatch.setattr("benchmarks.papers.running.code_digest", lambda: "another")
    changed = Experiment("toy", "one", "Table 1", breaks, grid(m=[1, 2]), runs=3)
    assert repeat_cells(cells((changed,)), store, worker, stop_after=-1, say=said.append) == 1
    assert repeat_cells(cells((changed,)), store, worker, say=said.append) == 0
    assert said[-1].endswith("value None for 1")
    monkeypatch.undo()
    count = len(said)
    assert repeat_cells(cells((toy(),)), store, worker, say=said.append) == 0
    assert len(said) == count
    results = Results(store.records())
    assert [one["differs"] for one in results.again] == [{"value": [1, None]}]
    assert len(results.rows) == 6


def test_the_page_says_what_came_of_doing_runs_again():
    again = [
        {"again": ["toy", "one", [], seed], "differs": differs, "code": ""}
        for seed, differs in enumerate([{}, {"nmi": [0.5, 0.502]}, {"iterations": [3, 4]}])
    ]
    text = " ".join(_repeated(Results(again)))
    assert "3 of them" in text
    assert "1 gave the same figures" in text
    assert "0.0020 at most" in text
    assert not _repeated(Results([]))


def test_epochs_give_enough_updates():
    assert competitive.epochs_of(70_000, 1000) == 9
    assert competitive.epochs_of(70_000, 100) == 1
    assert competitive.epochs_of(500, 1000) == 100


def test_five_seeds_find_three_gaussians():
    """Figure 2 of the paper on cooperative learning."""
    found = cooperative.run_gaussians({"k": 5}, 0, None)
    assert found["clusters"] == 3
    assert found["off"] < 0.1


def test_a_cell_that_fails_is_a_result_and_the_others_go_on(tmp_path):
    store = Store(tmp_path / "results.jsonl")
    broken = Experiment("toy", "broken", "Table 1", breaks, grid(m=[1]), runs=1)
    run_cells(cells((broken, toy(runs=1))), store, Inside(tmp_path), say=lambda line: None)
    results = Results(store.records())
    assert results.failures("toy", "broken") == ["ValueError: no such thing"]
    assert len(results.select("toy", "one")) == 2


def test_absent_data_are_a_failure_that_says_so(tmp_path):
    cell = Cell(embedding.EXPERIMENTS[0], embedding.EXPERIMENTS[0].settings[0], 0)
    assert "usps.npz is not in the data folder" in Inside(tmp_path).measure(cell)["failed"]


def test_a_cell_that_takes_too_long_is_stopped(tmp_path):
    worker = Worker(tmp_path)
    try:
        cell = Cell(toy(sleeps, time_limit=0.5), {"m": 1}, 0)
        began = time.perf_counter()
        assert worker.measure(cell)["failed"] == "not finished in 0 s"
        assert time.perf_counter() - began < 30
        assert worker._process is None
    finally:
        worker.close()


def test_unknown_experiments_are_refused():
    assert {one.paper for one in command.chosen(["fuzzy"])} == {"fuzzy"}
    assert len(command.chosen(["competitive/Figure 4"])) == 1
    with pytest.raises(SystemExit, match="There is no experiment 'fussy'"):
        command.chosen(["fussy"])


def test_claims_weigh_their_answers():
    assert Claim.of("a", [True, True], "").verdict == "holds"
    assert Claim.of("a", [True, False], "").verdict == "holds partly"
    assert Claim.of("a", [False, None], "").verdict == "does not hold"
    assert Claim.of("a", [None], "").verdict == "not measured"


@pytest.mark.parametrize("method", ["akcl", "pakcl", "akkmeans", "fastkscl", "nyncut", "rff", "sv", "kkmeans", "kcl"])
def test_a_sliver_of_the_competitive_figures(method, tmp_path):
    settings = {"set": "digits", "kernel": "gaussian", "method": method, "m": 100}
    found = competitive.run(settings, 0, Sets(tmp_path))
    assert found["nmi"] > (0.65 if method in ("akcl", "pakcl", "kcl") else 0.4)  # k-means has one random start
    assert 0 <= found["rme"] <= 1
    assert found["cpu"] > 0


def test_slivers_of_the_other_papers(tmp_path):
    sets = Sets(tmp_path)
    X, y = sets.load("blobs")
    y50 = np.repeat(np.arange(50), 20)
    squares = np.c_[y50 % 10, y50 // 10] / 2.5 + 0.03 * np.random.default_rng(0).normal(size=(1000, 2))
    sets._kept |= {"seeds": (X, y), "a3": (squares.astype(np.float32), y50)}
    found = cooperative.run_competitive({"set": "seeds", "method": "cpcl", "k": 4}, 0, sets)
    assert found["clusters"] == 3
    assert found["pq"] > 0.9999
    found = cooperative.run_merging({"set": "seeds", "method": "cpcl", "k": 4, "epsilon": 1e-5}, 0, sets)
    counts = [found[cooperative.reached("clusters", reach)] for reach in cooperative.REACHES]
    assert counts[0] == 3
    assert counts == sorted(counts)  # the finer, the more
    settings = {"set": "a3", "init": "random", "extend": "prototypes", "rate": 0.2, "method": "rsekfcm"}
    found = fuzzy.run(settings, 0, sets)
    assert found["ari"] > 0.5
    assert 0 <= found["steps_cpu"] <= found["cpu"]
    found = sparse_kernel.run({"set": "digits", "method": "skkmeans", "m": 400}, 0, sets)
    assert found["nmi"] > 0.5
    assert found["entered"] >= 0
    assert sparse_kernel.run_circles({"sizes": "equal"}, 0, sets)["buffer"] == 10


def test_the_published_threshold_is_in_units_of_the_data(tmp_path):
    """Ten times as wide data need ten times the root of the threshold to stop after as many epochs."""
    sets = Sets(tmp_path)
    X, y = sets.load("blobs")
    sets._kept["wine"] = (10 * X, y)
    sets._kept["seeds"] = (X, y)
    epochs = [
        cooperative.run_competitive({"set": name, "method": "cccl", "k": 4, "epsilon": epsilon}, 0, sets)["epochs"]
        for name, epsilon in (("seeds", 1e-5), ("wine", 1e-3), ("wine", 1e-5))
    ]
    assert epochs[0] == epochs[1] < epochs[2]


def test_subsets_of_one_row_are_single_rows(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    Y, order = rng.normal(size=(200, 5)), rng.permutation(200)
    monkeypatch.setattr(competitive, "_ROWS_OF_A_SUBSET", 1)
    found = competitive._subsets_of_rows(Y, Y[:4], order)
    assert np.allclose(found, competitive._single_rows(Y, Y[:4], order))
    monkeypatch.undo()
    found = competitive.run_interpreted({"set": "digits", "kernel": "gaussian", "m": 50}, 0, Sets(tmp_path))
    assert 0 < found["pakcl_cpu"] < found["akcl_cpu"]


def test_the_page_can_be_made_of_nothing(tmp_path):
    text = render(Store(tmp_path / "none.jsonl"), parts_of(Results([])))
    assert "not measured" in text
    assert "| holds |" not in text
    assert "0 runs are behind this page" in text


@pytest.mark.slow
def test_the_page_is_written_with_its_pictures(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'daskkcl[plots]'")
    write_page(Store(DEFAULT), tmp_path)
    shown = set(re.findall(r"\]\((papers-[^)]*png)\)", (tmp_path / "papers.md").read_text()))
    assert shown == {path.name for path in tmp_path.glob("*.png")}
    assert shown == {path.name for path in (DEFAULT.parents[2] / "docs").glob("papers-*.png")}


def test_the_page_in_the_docs_is_that_of_the_stored_results():
    store = Store(DEFAULT)
    page = (DEFAULT.parents[2] / "docs" / "papers.md").read_text()
    assert page == render(store, parts_of(Results(store.records())))
    assert DEFAULT.stat().st_size < 2 * 2**20


def test_stored_results_are_of_declared_experiments():
    declared = {(one.paper, one.name): one for one in command.EXPERIMENTS}
    for line in DEFAULT.read_text().splitlines():
        record = json.loads(line)
        if "seed" in record:
            experiment = declared[record["paper"], record["experiment"]]
            assert record["settings"] in experiment.settings
            assert 0 <= record["seed"] < experiment.runs


@pytest.mark.skipif(not (FOLDER / "wine.npz").exists(), reason="needs the optional data folder (set DASKKCL_DATA)")
def test_a_sliver_of_the_real_sets(tmp_path):
    store = Store(tmp_path / "results.jsonl")
    wanted = [
        Cell(cooperative.EXPERIMENTS[0], {"set": "seeds", "method": "rpccl", "k": 4}, 0),
        Cell(cooperative.EXPERIMENTS[2], {"set": "usps 4 and 9", "method": "kkmeans", "k": 2}, 0),
        Cell(embedding.EXPERIMENTS[0], {"set": "usps", "starts": 1, "l": 50, "method": "apnc"}, 0),
    ]
    assert run_cells(wanted, store, Inside(FOLDER), say=lambda line: None) == 0
    results = Results(store.records())
    assert results.mean("cooperative", "small sets", "clusters").value in (2, 3, 4)  # published, of 20 trials: 2.95
    assert abs(results.mean("cooperative", "kernel", "pq").value - 0.4867) < 0.02
    assert results.mean("embedding", "Table 1, USPS", "nmi").value > 0.4


@pytest.mark.slow
def test_newsgroups_are_words_of_high_information():
    if not (FOLDER / "20news_counts_csr.npz").exists():
        pytest.skip("needs 20news_counts_csr.npz in the optional data folder (set DASKKCL_DATA)")
    X, y = Sets(FOLDER).load("newsgroups")
    assert X.shape[1] == 2000
    assert len(y) == len(X)
    assert np.allclose(np.linalg.norm(X, axis=1), 1, atol=1e-4)
