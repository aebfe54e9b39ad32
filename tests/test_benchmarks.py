"""The benchmarks run: tiny, in this process where they may, and in a fresh one where that is the point."""

import json
import math

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import tracked
from benchmarks.results import Outcome, Row, Target, at_least, at_most, read_results, render, row_of, write_results
from benchmarks.runner import Entry, Job, in_turn, run_fresh
from benchmarks.sets import Sets
from benchmarks.suites import SUITES, Context, run_suite


@pytest.fixture
def sets(tmp_path):
    return Sets(str(tmp_path / "none"), str(tmp_path))


def test_asv_classes_run():
    found = dict(tracked.run_all(size=0.001))
    assert len(found) >= 20
    shares = [value for name, value in found.items() if "track_nmi" in name]
    assert len(shares) == 5
    assert min(shares) > 0.9
    assert found["Passes.track_kernel_pass_share()"] > 0


def test_asv_finds_the_classes():
    discovery = pytest.importorskip("asv_runner.discovery", reason="pip install asv-runner")
    names = {benchmark.name for benchmark in discovery.disc_benchmarks("benchmarks")}
    assert {"tracked.Passes.time_kernel_pass", "tracked.Fits.track_nmi", "tracked.StoredFits.peakmem_fit"} <= names


def test_passes_suite(sets):
    outcome = run_suite("passes", Context(sets, repeats=1, tiny=True))
    assert len(outcome.rows) == 10
    assert all(row.seconds > 0 for row in outcome.rows)
    assert [target.bound for target in outcome.targets] == [0.85, 0.70, 0.80]
    assert all(target.measured > 0 for target in outcome.targets)


@pytest.mark.parametrize("name", ["mnist", "fuzzy", "covtype", "scaling"])
def test_absent_data_are_a_row_that_says_so(sets, name):
    (row,) = run_suite(name, Context(sets)).rows
    assert row.seconds is None
    assert "is not in the data folder" in row.note


def test_fresh_process_measures_time_memory_and_quality(sets):
    digits = sets.digits()
    parameters = {"algo": "pakcl", "n_landmarks": 50}
    found = run_fresh(Job("ours", "daskkcl", digits.rows, 10, digits.classes, parameters), seed=0)
    assert found["seconds"] > 0
    assert 0 < found["added_bytes"] < 2**30
    assert found["nmi"] > 0.6
    names = [name for name, _ in found["stages"]]
    assert names[0] == "preparing"
    assert names[-1] == "labelling"
    assert math.isclose(sum(seconds for _, seconds in found["stages"]), found["seconds"], rel_tol=0.2)


def test_what_fails_is_a_row_that_says_why(sets):
    digits = sets.digits()
    slow = Job("slow", "daskkcl", digits.rows, 10, "", {"algo": "pakcl"}, time_limit=0.1)
    wrong = Job("wrong", "daskkcl", digits.rows, 10, "", {"algo": "pakcl", "n_landmarks": -1})
    found = in_turn([slow, wrong], repeats=2)
    assert row_of(found["slow"]).note == "not finished in 0 s"
    assert "n_landmarks" in row_of(found["wrong"]).note
    assert found["slow"].runs == ()


def test_entries_and_targets():
    runs = tuple({"seconds": s, "added_bytes": s * 2**20, "nmi": s / 10} for s in (3, 1, 2))
    row = row_of(Entry("one", runs))
    assert (row.seconds, row.added_mib) == (2, 3)
    assert row.nmi == pytest.approx(0.2)
    assert at_least("a", 0.5, 0.6).reached is True
    assert at_most("a", 0.5, 0.6).reached is False
    assert at_most("a", 0.5, float("nan")).reached is None


def test_results_are_written(tmp_path):
    targets = (at_most("too slow", 0.5, 0.9, "for a reason"), at_least("fast", 50, 61.0, open_end=True))
    rows = (Row("ours", 1.5, (1.4, 1.5), 10.0, 0.5, 0.4), Row("theirs", note="out of memory"))
    outcome = Outcome("mnist", "MNIST", "What was done.", rows, (*targets, Target("absent", 1, True, None)))
    write_results([outcome], tmp_path)
    assert read_results(tmp_path) == [outcome]
    text = (tmp_path / "results.md").read_text()
    assert "| too slow | ≤ 0.5 | 0.9 | **missed**: for a reason |" in text
    assert "| fast | ≥ 50 | ≥ 61 | reached |" in text
    assert "| absent | ≥ 1 |  | not measured |" in text
    assert "| theirs |  |  |  |  |  | out of memory |" in text
    assert json.loads((tmp_path / "results.json").read_text())["outcomes"][0]["targets"][0]["reached"] is False
    assert (tmp_path / "results.png").stat().st_size > 1000
    assert text == render([outcome], json.loads((tmp_path / "results.json").read_text())["machine"])


def test_command_line(capsys, tmp_path):
    assert command.main([]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in (*SUITES, *command.STUDIES))
    assert command.main(["nonsense"]) == 2
    assert "no benchmark 'nonsense'" in capsys.readouterr().err


def test_prepared_sets(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 256, (300, 784)).astype(np.uint8), rng.integers(0, 10, 300)
    np.savez(tmp_path / "mnist.npz", X=X, y=y)
    prepared = Sets(str(tmp_path), str(tmp_path / ".")).real("mnist", unit_rows=True)
    rows = np.load(prepared.rows)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    pairs = ((rows[:, None, :50].astype(float) - rows[None, :, :50]) ** 2).sum()
    assert pairs > 0
    from daskkcl.kernels import Rbf

    assert prepared.gamma == pytest.approx(Rbf().resolve(rows).gamma, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SUITES))
def test_every_suite_tiny(tmp_path, name):
    outcome = run_suite(name, Context(Sets(None, str(tmp_path)), repeats=1, tiny=True))
    assert outcome.rows
    assert outcome.targets
