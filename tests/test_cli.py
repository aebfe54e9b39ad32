"""The command line: every command, helpful answers to mistakes, exit codes, JSON, conversion, interruption."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import daskkcl
from daskkcl.cli import main

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def clusters(n_each=100, seed=0):
    rng = np.random.default_rng(seed)
    return rng.permutation(np.concatenate([rng.normal(8 * k, 1, (n_each, 3)) for k in range(3)])).astype("float32")


@pytest.fixture
def table(folder):
    zarr.create_array("x.zarr", data=clusters(), chunks=(100, 3))
    return "x.zarr"


def call(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words], prog_name="daskkcl")
    assert result.exit_code == code, (result.output, result.exception)
    return result


def fitted(*more, data="x.zarr"):
    return call("fit", data, "--n-clusters", 3, "--n-landmarks", 20, "--random-state", 0, *more)


# --- every command ------------------------------------------------------------------------------------------------


def test_fit_does_what_the_library_does(table):
    result = json.loads(fitted("--json", "--out", "out.zarr", "--save", "model.zarr").stdout)
    model = daskkcl.fit(table, n_clusters=3, n_landmarks=20, random_state=0, progress=False)
    np.testing.assert_array_equal(zarr.open_group("out.zarr")["labels"][:], model.labels_.compute())
    assert result["cluster_sizes"] == model.cluster_sizes_.tolist()
    assert result["objective"] == model.objective_
    assert (result["out"], result["model"], result["n_rows"]) == ("out.zarr", "model.zarr", 300)
    assert (
        "already takes" in call("predict", "model.zarr", table, "--out", "no", "--memory-limit", "9MiB", code=3).stderr
    )
    assert not Path("no").exists()
    said = call("predict", "model.zarr", table, "--out", "again.zarr", "--memberships", "--memory-limit", "8GiB")
    assert "labelling: 300 of 300 in" in said.stderr
    np.testing.assert_array_equal(zarr.open_group("again.zarr")["labels"][:], model.labels_.compute())
    np.testing.assert_array_equal(zarr.open_group("again.zarr")["membership"][:], model.membership_.compute())


def test_progress_goes_to_stderr_and_names_objective_and_memory(table):
    result = fitted("--algo", "akkmeans", "--memory-limit", "2GiB")
    assert "clusters   3" in result.stdout
    assert "pass 1" not in result.stdout
    assert re.search(r"pass 1: 300 of 300 in .*objective [\d.e+]+, [\d.]+ [MG]iB of 2.0 GiB", result.stderr)
    assert "pass" not in fitted("--algo", "akkmeans", "--quiet").stderr


@pytest.mark.parametrize("size", [(0, 0), (0, 110), (24, 0), (24, 110)])  # rows and columns
def test_terminals_that_do_not_say_their_size_have_a_bar_too(size):
    import fcntl
    import pty
    import struct
    import termios

    code = "from daskkcl.progress import Progress; p = Progress(); p.begin('pass 1', 10); p.advance(5); p.end()"
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    subprocess.run([sys.executable, "-c", code], stderr=there, check=True)
    os.set_blocking(here, False)
    assert b"pass 1:" in os.read(here, 4096)
    os.close(there)


def test_parameters_come_from_a_file_and_flags_win(table):
    Path("run.toml").write_text('data = "x.zarr"\nalgo = "pakcl"\nn-clusters = 2\nn_landmarks = 20\nrandom_state = 0\n')
    result = json.loads(call("fit", "--config", "run.toml", "--n-clusters", 3, "--json").stdout)
    assert (result["algorithm"], result["n_clusters"]) == ("pakcl", 3)
    planned = json.loads(call("plan", "--config", "run.toml", "--json").stdout)
    assert (planned["algorithm"], planned["n_clusters"], planned["n_rows"]) == ("pakcl", 2, 300)
    Path("run.toml").write_text("n_cluster = 2\n")
    assert "Did you mean 'n_clusters'" in call("fit", table, "--config", "run.toml", code=2).stderr
    Path("run.toml").write_text("n_clusters = \n")
    assert "not TOML" in call("fit", table, "--config", "run.toml", code=2).stderr


@pytest.mark.parametrize("algo", sorted(daskkcl.algorithms()))
def test_every_parameter_of_every_algorithm_has_a_flag(algo):
    from daskkcl.cli.fit import command

    flags = {option.name for option in command.params}
    assert set(daskkcl.algorithms()[algo]._get_param_names()) - {"kernel_params", "progress"} <= flags


def test_only_truth_values_are_switches():
    from daskkcl.cli.fit import command

    switches = {option.name for option in command.params if getattr(option, "secondary_opts", None)}
    assert switches == {"overwrite", "record", "normalize"}


def test_kernels_switches_and_files_of_rows(table):
    np.save("centres.npy", np.array([[0.0, 0, 0], [8, 8, 8], [16, 16, 16]]))
    more = ("--kernel", "polynomial", "--degree", 2, "--init", "centres.npy", "--max-iter", 5)
    assert json.loads(fitted("--algo", "akkmeans", "--json", *more).stdout)["cluster_sizes"] == [100, 100, 100]
    call("fit", table, "--algo", "cpcl", "--n-seeds", 5, "--record", "--max-epochs", 5, "--json")
    assert "no such file" in call("fit", table, "--init", "nowhere.npy", code=2).stderr


def test_a_scheduler_computes_the_same(table):
    import distributed

    with distributed.LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        there = json.loads(fitted("--scheduler", cluster.scheduler_address, "--out", "out.zarr", "--json").stdout)
        fitted("--save", "model.zarr")
        call("predict", "model.zarr", table, "--out", "again.zarr", "--scheduler", cluster.scheduler_address)
    here = json.loads(fitted("--json").stdout)
    assert there["cluster_sizes"] == here["cluster_sizes"]
    assert there["objective"] == here["objective"]
    labels = [zarr.open_group(name)["labels"][:] for name in ("out.zarr", "again.zarr")]
    np.testing.assert_array_equal(*labels)


def test_a_scheduler_that_is_none(table, monkeypatch):
    """Nobody there, somebody who does not answer, somebody who speaks another language, a file of something else."""
    monkeypatch.setattr("daskkcl.cli.common._ANSWER_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as web:

        def answer():
            connection, _ = web.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(100)

        threading.Thread(target=answer, daemon=True).start()
        ports = [9, silent.getsockname()[1], web.getsockname()[1]]
        for address in [f"tcp://127.0.0.1:{port}" for port in ports] + ["nonsense://a:1"]:
            began = time.monotonic()
            answered = call("fit", table, "--scheduler", address, code=1).stderr
            assert "No dask scheduler answers at" in answered
            assert time.monotonic() - began < 10
    Path("other.json").write_text("{}")
    assert "has not written this file" in call("fit", table, "--scheduler", "other.json", code=2).stderr


def test_plan_says_what_it_would_take(table):
    text = call("plan", table, "--n-clusters", 3, "--memory-limit", "1GiB").stdout
    assert "labelling" in text
    large = call(
        "plan", "--rows", "1e10", "--features", 64, "--workers", 1000, "--memory-limit", "4GB", "--n-clusters", 9
    )
    assert "10,000,000,000 rows" in large.stdout
    assert "--rows and --features" in call("plan", code=2).stderr


def test_info_knows_what_is_there(table):
    fitted("--out", "out.zarr", "--save", "model.zarr", "--checkpoint", "run.ckpt", "--algo", "akkmeans")
    said = {
        path: json.loads(call("info", path, "--json").stdout) for path in (table, "out.zarr", "model.zarr", "run.ckpt")
    }
    assert [facts["what"] for facts in said.values()] == ["Zarr array", "result of a fit", "model", "checkpoint"]
    assert said["x.zarr"]["shape"] == [300, 3]
    assert said["out.zarr"]["complete"]
    assert said["model.zarr"]["n_clusters"] == 3
    assert said["run.ckpt"]["rounds"] >= 1
    for path in said:
        assert path in call("info", path).stdout


def test_a_run_is_reported_on_a_page(table):
    pytest.importorskip("matplotlib", reason="pip install 'daskkcl[plots]'")
    fitted("--save", "model.zarr", "--report", "run.html", "--algo", "akkmeans")
    call("report", "model.zarr", "model.html")
    for page in ("run.html", "model.html"):
        assert "ApproxKernelKMeans" in Path(page).read_text()
    assert "exists" in call("report", "model.zarr", "model.html", code=2).stderr
    assert "Of all 300 rows" in Path("run.html").read_text()
    np.save("known.npy", np.repeat([1, 2, 3], 100))
    call("report", "model.zarr", "model.html", "--data", table, "--classes", "known.npy", "--overwrite")
    assert "adjusted Rand index" in Path("model.html").read_text()
    assert "add --data" in call("report", "model.zarr", "new.html", "--classes", "known.npy", code=2).stderr
    assert "goes with --data" in call("report", "model.zarr", "new.html", "--component", "x", code=2).stderr
    assert "exists" in call("fit", table, "--report", "run.html", code=2).stderr


def test_algorithms_are_listed_and_explained():
    listed = call("algorithms").stdout
    assert all(re.search(rf"^{algo} ", listed, re.MULTILINE) for algo in daskkcl.algorithms())
    assert "--fuzzifier" in call("algorithms", "okfcm").stdout
    assert "Did you mean 'okfcm'" in call("algorithms", "okfmc", code=2).stderr


# --- mistakes -----------------------------------------------------------------------------------------------------


@pytest.mark.part(2)
@pytest.mark.parametrize(
    ("words", "code", "answer"),
    [
        (["fitt", "x.zarr"], 2, "Did you mean 'fit'?"),
        (["fit", "x.zarr", "--n-cluster", "3"], 2, "--n-clusters"),
        (["fit", "x.zarr", "--algo", "okfmc"], 2, "Did you mean 'okfcm'?"),
        (
            ["fit", "x.zarr", "--algo", "akkmeans", "--fuzzifier", "2"],
            2,
            "akkmeans has no parameter 'fuzzifier'. Its own are --max-iter, --n-init, --nearest, --tol.",
        ),
        (["fit", "x.zarr", "--kernel", "rfb"], 2, "Did you mean 'rbf'?"),
        (["fit", "y.zarr"], 2, "There is nothing at 'y.zarr'. Did you mean 'x.zarr'?"),
        (["fit", "table.csv"], 2, "daskkcl convert table.csv table.zarr"),
        (["fit"], 2, "Say which data"),
        (["fit", "x.zarr", "--memory-limit", "lots"], 2, "not a memory size"),
        (["fit", "x.zarr", "--memory-limit", "2MiB"], 3, "--memory-limit is 2.0 MiB"),
        (["fit", "x.zarr", "--n-clusters", "0"], 2, "--n-clusters must be an integer"),
        (["fit", "x.zarr", "--n-clusters", "3000"], 2, "Pass a smaller --n-clusters."),
        (["fit", "x.zarr", "--component", "x"], 2, "leave out --component x"),
        (["fit", "x.zarr", "--config", "table.toml"], 2, "[fit] is a table"),
        (["fit", "x.zarr", "--scheduler", "nowhere.json"], 2, "neither the address of a dask scheduler"),
        (["fit", "x.zarr", "--save", "nowhere/model.zarr"], 2, "Make it first"),
        (["fit", "x.zarr", "--save", "table.csv"], 2, "--overwrite"),
        (["fit", "x.zarr", "--out", "table.csv"], 2, "exists"),
        (["fit", "x.zarr", "--scheduler", "tcp://127.0.0.1:9", "--n-clusters", "2"], 1, "No dask scheduler answers"),
        (["fit", "s3://x", "--storage-option", "anon"], 2, "NAME=VALUE"),
        (["predict", "x.zarr", "x.zarr", "--out", "o.zarr"], 2, "model"),
        (["predict", "y.zarr", "x.zarr", "--out", "o.zarr"], 2, "no model at 'y.zarr'. Did you mean 'x.zarr'?"),
        (["info", "table.csv"], 2, "daskkcl convert"),
        (["info", "zz.zarr"], 2, "There is nothing at"),
        (["convert", "table.csw", "t.zarr"], 2, "Did you mean 'table.csv'?"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(table, words, code, answer, monkeypatch):
    if "tcp://127.0.0.1:9" in words:
        import distributed

        def refuse(*_, **__):
            raise OSError("Timed out trying to connect")

        monkeypatch.setattr(distributed, "Client", refuse)
    Path("table.csv").write_text("a,b\n1,2\n")
    Path("table.toml").write_text("[fit]\nn_clusters = 3\n")
    result = call(*words, code=code)
    assert answer in result.stderr
    assert "Traceback" not in result.output
    assert not Path("o.zarr").exists()


def test_a_traceback_is_shown_when_asked_for(folder):
    result = CliRunner().invoke(main, ["fit", "nowhere.zarr", "--debug"])
    assert isinstance(result.exception, daskkcl.errors.InvalidInputError)


def test_a_model_is_no_table(table):
    fitted("--save", "model.zarr")
    assert "is a saved model, not a table" in call("fit", "model.zarr", code=2).stderr


def test_overwrite_is_for_all_that_is_written(table):
    places = ("--out", "out.zarr", "--save", "model.zarr")
    fitted(*places)
    assert "--overwrite" in call("fit", table, *places, code=2).stderr
    fitted(*places, "--overwrite")
    fitted("--save", "model.zarr", "--overwrite")
    assert "nothing to overwrite" in call("fit", table, "--overwrite", code=2).stderr


def test_rows_are_never_replaced_by_what_is_made_of_them(folder):
    """A table that `convert` wrote is as much ours as a result is, and yet not to be lost."""
    np.save("x.npy", clusters())
    call("convert", "x.npy", "x.zarr")
    fitted("--save", "model.zarr", "--out", "out.zarr")
    here = ("--out", "x.zarr", "--overwrite")
    assert "holds the rows that are read" in call("fit", "x.zarr", "--n-clusters", 3, *here, code=2).stderr
    assert "holds the rows that are read" in call("predict", "model.zarr", "x.zarr", *here, code=2).stderr
    np.save("y.npy", clusters(seed=1))
    call("convert", "y.npy", "y.zarr")
    assert "'x.zarr' is a table" in call("fit", "y.zarr", *here, code=2).stderr.replace(f"{folder}/", "")
    inside = ("fit", "out.zarr", "--component", "membership", "--out", "out.zarr", "--overwrite")
    assert "holds the rows that are read" in call(*inside, code=2).stderr
    np.testing.assert_array_equal(zarr.open_array("x.zarr", mode="r")[:], clusters())
    np.testing.assert_array_equal(zarr.open_group("out.zarr", mode="r")["membership"].shape, (300, 3))
    call("convert", "y.npy", "x.zarr", "--overwrite")  # a table is replaced by a table


@pytest.mark.parametrize(("one", "other"), [("out", "save"), ("out", "checkpoint"), ("save", "report")])
def test_two_things_in_one_place_are_refused_before_the_work(table, one, other):
    said = call("fit", table, "--n-clusters", 3, f"--{one}", "same", f"--{other}", "./same", "--overwrite", code=2)
    assert f"--{one} and --{other} are both same" in said.stderr
    assert "reading" not in said.stderr
    assert not Path("same").exists()


def test_what_is_no_checkpoint_is_refused(table):
    said = call("fit", table, "--n-clusters", 3, "--checkpoint", table, code=2)
    assert "is no checkpoint" in said.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only_is_found_before_the_work(table):
    _read_only_folder_is_refused()


def test_a_folder_that_may_not_be_written_is_found_before_the_work(table, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("kept"))
    _read_only_folder_is_refused()


def _read_only_folder_is_refused():
    fitted("--save", "model.zarr")
    Path("kept").mkdir(mode=0o555)
    np.save("t.npy", clusters())
    for words in (
        ("fit", "x.zarr", "--out", "kept/o.zarr"),
        ("fit", "x.zarr", "--save", "kept/m.zarr"),
        ("fit", "x.zarr", "--report", "kept/r.html"),
        ("predict", "model.zarr", "x.zarr", "--out", "kept/o.zarr"),
        ("report", "model.zarr", "kept/r.html"),
        ("convert", "t.npy", "kept/t.zarr"),
    ):
        said = call(*words, code=2).stderr
        assert "cannot be written to (permission denied)" in said
        assert "reading" not in said
    model = daskkcl.load("model.zarr")
    with pytest.raises(daskkcl.errors.OutputError, match="cannot be written"):
        model.report("kept/r.html")


def test_a_row_with_nan_is_named(folder):
    rows = clusters()
    rows[17, 1] = np.nan
    zarr.create_array("x.zarr", data=rows, chunks=(100, 3))
    assert "row 17" in call("fit", "x.zarr", "--n-clusters", 3, code=2).stderr


# --- interruption -------------------------------------------------------------------------------------------------


def test_ctrl_c_says_how_to_go_on(table, monkeypatch):
    from daskkcl.schedules import lloyd

    real, seen = lloyd.sum_pass, []

    def interrupted(*arguments, **options):
        seen.append(1)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(lloyd, "sum_pass", interrupted)
    words = ["fit", table, "--algo", "akkmeans", "--n-clusters", "3", "--n-landmarks", "20", "--init", "random"]
    words += ["--tol", "0", "--random-state", "1", "--checkpoint", "run.ckpt", "--json"]
    monkeypatch.setattr(sys, "argv", ["daskkcl", *words])
    stopped = call(*words, code=130)
    assert "The state is in run.ckpt. To go on:" in stopped.stderr
    assert "daskkcl " + shlex.join(words) in stopped.stderr
    assert "--checkpoint PATH" in _interrupted_without(words, monkeypatch).stderr
    monkeypatch.setattr(lloyd, "sum_pass", real)
    gone_on = json.loads(call(*words).stdout)
    whole = json.loads(call(*[word for word in words if word not in ("--checkpoint", "run.ckpt")]).stdout)
    assert gone_on["cluster_sizes"] == whole["cluster_sizes"]
    assert gone_on["history"] == whole["history"]


def _interrupted_without(words, monkeypatch):
    from daskkcl.schedules import lloyd

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lloyd, "sum_pass", interrupted)
        return call(*[word for word in words if word not in ("--checkpoint", "run.ckpt")], code=130)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_real_signal_leaves_a_checkpoint_and_the_command_to_go_on(folder, number, code):
    zarr.create_array("x.zarr", data=clusters(200_000), chunks=(20_000, 3))
    words = [sys.executable, "-m", "daskkcl", "fit", "x.zarr", "--algo", "akkmeans", "--n-clusters", "8", "--tol", "0"]
    words += ["--init", "random", "--random-state", "0", "--checkpoint", "run.ckpt", "--max-iter", "1000"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
    while not any(Path().glob("run.ckpt/state-*/zarr.json")) and running.poll() is None:
        time.sleep(0.1)
    running.send_signal(number)
    _, said = running.communicate(timeout=120)
    assert running.returncode == code, said
    assert "To go on:\n  python -m daskkcl fit x.zarr" in said
    assert "Traceback" not in said
    assert json.loads(call("info", "run.ckpt", "--json").stdout)["rounds"] >= 1


# --- conversion ---------------------------------------------------------------------------------------------------


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(1000, 4))


def test_csv(folder, rows):
    Path("t.csv").write_text(
        "name,a,b,c,d\n" + "".join(f"r{i},{','.join(map(repr, row.tolist()))}\n" for i, row in enumerate(rows))
    )
    refused = call("convert", "t.csv", "t.zarr", code=2)
    assert "column 'name'" in refused.stderr
    assert "--columns" in refused.stderr
    assert not list(Path().glob("t.zarr*"))
    call("convert", "t.csv", "t.zarr", "--columns", "c,a,4", "--dtype", "float64", "--chunk-rows", 300)
    array = zarr.open_array("t.zarr")
    np.testing.assert_array_equal(array[:], rows[:, [2, 0, 3]])
    assert (array.chunks, array.attrs["columns"]) == ((300, 3), ["c", "a", "d"])
    assert "no column 'aa'" in call("convert", "t.csv", "u.zarr", "--columns", "aa", code=2).stderr


def test_csv_without_header(folder, rows):
    np.savetxt("t.txt", rows, delimiter=";", fmt="%.17g")
    assert "--no-header" in call("convert", "t.txt", "t.zarr", "--delimiter", ";", code=2).stderr
    call("convert", "t.txt", "t.zarr", "--delimiter", ";", "--no-header")
    np.testing.assert_array_equal(zarr.open_array("t.zarr")[:], rows.astype("float32"))


@pytest.mark.parametrize(
    ("text", "more", "answer"),
    [
        ("a,b\n1,2\n3,hello\n", (), "'hello' in line 3"),
        ("a;b\n1;2\n", (), "Pass --delimiter ';'"),
        ("1|2\n3|4\n", ("--no-header",), "Pass --delimiter '|'"),
        ("a,b\n1,2\n", ("--no-header",), "leave out --no-header"),
        ("a,b\n", (), "no rows below its header (a, b)"),
        ("", (), "is empty"),
        ("a,b\nrow1,1,2\nrow2,3,4\n", (), "names 2 columns, and the lines below have 3"),
    ],
)
def test_a_csv_that_cannot_be_read_is_explained(folder, text, more, answer):
    Path("t.csv").write_text(text)
    assert answer in call("convert", "t.csv", "t.zarr", *more, code=2).stderr


def test_rows_that_are_not_finite_are_counted(folder):
    Path("t.csv").write_text("a,b\n1,2\n3\n,4\n5,inf\n6,7\n")
    assert "3 rows have NaN or infinity" in call("convert", "t.csv", "t.zarr").stdout
    assert json.loads(call("convert", "t.csv", "u.zarr", "--json").stdout)["n_missing"] == 3
    Path("t.npy").write_bytes(b"not an array")
    assert "is not an NPY file" in call("convert", "t.npy", "v.zarr", code=2).stderr


def test_a_word_far_down_stops_the_conversion_and_leaves_nothing(folder, rows):
    lines = ["a,b,c"] + ["1,2,3"] * 4000 + [""] + ["1,2,3"] * 1000 + ["1,2,x"]
    Path("t.csv").write_text("\n".join(lines))
    said = call("convert", "t.csv", "t.zarr", "--chunk-rows", 1000, "--columns", "c,a", code=2).stderr
    assert "no number: 'x' in line 5,003, column 2" in said
    assert [path.name for path in Path().iterdir()] == ["t.csv"]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_npy(folder, rows, order, dtype):
    values = np.asarray(100 + 10 * rows, dtype=dtype, order=order)
    np.save("t.npy", values)
    call("convert", "t.npy", "t.zarr", "--chunk-rows", 64)
    array = zarr.open_array("t.zarr")
    stored = {"float64": "float32"}.get(dtype, dtype)
    assert array.dtype == stored
    np.testing.assert_array_equal(array[:], values.astype(stored))
    assert "--overwrite" in call("convert", "t.npy", "t.zarr", code=2).stderr
    call("convert", "t.npy", "t.zarr", "--overwrite", "--columns", "1,0")
    np.testing.assert_array_equal(zarr.open_array("t.zarr")[:], values[:, [1, 0]].astype(stored))


def test_numbers_that_do_not_fit_the_dtype_are_refused(folder, rows):
    np.save("t.npy", rows)
    assert "no uint8" in call("convert", "t.npy", "t.zarr", "--dtype", "uint8", code=2).stderr
    np.save("t.npy", rows * 1e300)
    assert "float64" in call("convert", "t.npy", "t.zarr", code=2).stderr


def test_a_truncated_file_leaves_nothing(folder, rows):
    np.save("t.npy", rows)
    whole = Path("t.npy").read_bytes()
    Path("t.npy").write_bytes(whole[: len(whole) // 2])
    call("convert", "t.npy", "t.zarr", code=2)
    assert not list(Path().glob("t.zarr*"))


def test_parquet(folder, rows):
    pyarrow = pytest.importorskip("pyarrow", reason="pip install 'daskkcl[convert]'")
    import pyarrow.parquet as parquet

    columns = {name: rows[:, i] for i, name in enumerate("abcd")} | {"word": ["w"] * len(rows)}
    parquet.write_table(pyarrow.table(columns), "t.parquet", row_group_size=300)
    assert "'word'" in call("convert", "t.parquet", "t.zarr", code=2).stderr
    call("convert", "t.parquet", "t.zarr", "--columns", "b,d", "--dtype", "float64")
    np.testing.assert_array_equal(zarr.open_array("t.zarr")[:], rows[:, [1, 3]])
    Path("many").mkdir()
    for i in range(3):
        part = pyarrow.table({name: rows[i * 300 : (i + 1) * 300, j] for j, name in enumerate("ab")})
        parquet.write_table(part, f"many/{i}.parquet")
    call("convert", "many", "many.zarr", "--dtype", "float64")
    np.testing.assert_array_equal(zarr.open_array("many.zarr")[:], rows[:900, :2])


def test_hdf5(folder, rows):
    h5py = pytest.importorskip("h5py", reason="pip install 'daskkcl[convert]'")
    with h5py.File("t.h5", "w") as file:
        file.create_dataset("group/x", data=rows, chunks=(70, 4))
        file.create_dataset("y", data=rows[:, :2])
    assert "--dataset" in call("convert", "t.h5", "t.zarr", code=2).stderr
    assert "Did you mean 'group/x'" in call("convert", "t.h5", "t.zarr", "--dataset", "grup/x", code=2).stderr
    call("convert", "t.h5", "t.zarr", "--dataset", "group/x", "--dtype", "float64", "--chunk-rows", 256)
    np.testing.assert_array_equal(zarr.open_array("t.zarr")[:], rows)


@pytest.mark.parametrize(("name", "package"), [("t.parquet", "pyarrow"), ("t.h5", "h5py")])
def test_a_missing_package_is_named(folder, monkeypatch, name, package):
    Path(name).write_bytes(b"")
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.parquet", None)
    assert "pip install 'daskkcl[convert]'" in call("convert", name, "t.zarr", code=2).stderr


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc/self/status (Linux)")
def test_conversion_stays_within_its_limit(folder):
    np.save("t.npy", np.zeros((4_000_000, 32), "float32"))  # 488 MiB
    code = (
        "from daskkcl.cli import main; from daskkcl.system import peak_bytes\n"
        "main(['convert', 't.npy', 't.zarr', '--memory-limit', '256MiB'], standalone_mode=False)\n"
        "print(peak_bytes())"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) <= 256 * 2**20
    assert zarr.open_array("t.zarr").shape == (4_000_000, 32)


def test_conversion_that_cannot_fit_is_refused(folder, rows):
    np.save("t.npy", rows)
    assert "--memory-limit allows" in call("convert", "t.npy", "t.zarr", "--memory-limit", "1MiB", code=3).stderr


# --- documentation ------------------------------------------------------------------------------------------------


def test_every_command_of_the_documented_session_runs(folder):
    text = (ROOT / "docs" / "cli.md").read_text().partition("<!-- session -->")[2].partition("<!-- end -->")[0]
    rng = np.random.default_rng(0)
    lines = ["name,length,width,petal_length,petal_width"]
    for k in range(3):
        lines += [f"f{k}," + ",".join(f"{x:.3f}" for x in row) for row in rng.normal(4 * k, 0.5, (60, 4))]
    Path("flowers.csv").write_text("\n".join(lines) + "\n")
    Path("run.toml").write_text(re.search(r"```toml\n(.*?)```", text, re.DOTALL)[1])
    commands = re.findall(r"^\$ daskkcl (.*)$", text, re.MULTILINE)
    assert len(commands) >= 10
    for words in map(shlex.split, commands):
        said = call(*words).stdout
        if "--json" in words:
            json.loads(said)
    labels = [zarr.open_group(name)["labels"][:] for name in ("labels.zarr", "again.zarr")]
    np.testing.assert_array_equal(*labels)
    assert len(set(labels[0])) == 3


def test_exit_codes_and_commands_are_documented():
    text = (ROOT / "docs" / "cli.md").read_text()
    helped = call("--help").output
    for code in re.findall(r"^ +(\d+) ", helped, re.MULTILINE):
        assert f"| {code} |" in text
    for command in main.list_commands(None):
        assert re.search(rf"^\| `{command}\b", text, re.MULTILINE), command


@pytest.mark.timeout(600)
def test_notebooks_have_progress_that_they_keep(folder):
    nbclient = pytest.importorskip("nbclient", reason="pip install 'daskkcl[notebooks]'")
    import nbformat

    code = """
import sys, warnings
sys.modules["ipywidgets"] = None  # none are needed
warnings.simplefilter("error")
import dask.array as da, daskkcl
x = da.random.default_rng(0).normal(size=(20000, 4), chunks=(2000, 4))
daskkcl.fit(x, "akkmeans", 3, n_landmarks=20, tol=0, max_iter=8, random_state=0, memory_limit="2GiB")
"""
    code = code.replace("import dask", 'warnings.filterwarnings("ignore", "ApproxKernelKMeans stopped")\nimport dask')
    plan = "daskkcl.plan(n_rows=1000, n_features=4, n_clusters=3, rates={})"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in (code, plan)])
    nbclient.NotebookClient(notebook, timeout=500, kernel_name="python3").execute()
    progress, model = notebook.cells[0].outputs
    shown = progress["data"]["text/plain"]
    assert re.fullmatch(r"(\d+ stages? before · )?(.+ [\d.]+ s · ){5}labelling [\d.]+ s", shown)
    assert "pass 8" in progress["data"]["text/html"]
    assert "cluster sizes" in model["data"]["text/html"]
    assert "daskkcl-plan" in notebook.cells[1].outputs[-1]["data"]["text/html"]


def test_the_cell_of_a_notebook_says_how_far_it_is(monkeypatch):
    import IPython.display

    from daskkcl.progress import _Cell

    shown = []

    class Handle:
        def update(self, bundle, raw):
            shown.append(bundle["text/plain"])

    def display(bundle, raw, display_id):
        shown.append(bundle["text/plain"])
        return Handle()

    monkeypatch.setattr(IPython.display, "display", display)
    cell = _Cell()
    cell._SECONDS = 0.0
    cell.begin("pass 1", 1000, "rows", "objective 3")
    cell.update(500)
    cell.close()
    assert shown[0] == "pass 1: 0% of 1,000 rows, objective 3"
    assert re.fullmatch(r"pass 1: 50% of 1,000 rows, 0 s left, [\d,]+ rows/s, objective 3", shown[1])
    assert shown[2] == "pass 1 0.0 s"


# --- the program --------------------------------------------------------------------------------------------------


def test_help_is_quick_and_loads_nothing_heavy():
    code = (
        "import sys\nfrom click.testing import CliRunner\nbefore = set(sys.modules)\n"
        "from daskkcl.cli import main\nassert CliRunner().invoke(main, ['--help']).exit_code == 0\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"numpy", "dask", "zarr", "sklearn", "numba", "pandas", "scipy", "tqdm", "psutil"}


def test_the_program_is_declared_for_the_shell_and_for_dask():
    import tomllib

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert declared["scripts"]["daskkcl"] == "daskkcl.cli:main"
    assert declared["entry-points"]["dask_cli"]["daskkcl"] == "daskkcl.cli:main"
    point = metadata.EntryPoint("daskkcl", declared["entry-points"]["dask_cli"]["daskkcl"], "dask_cli")
    import click
    from dask.cli import _register_command_ep

    interface = click.Group("dask")
    _register_command_ep(interface, point)
    result = CliRunner().invoke(interface, ["daskkcl", "--version"])  # dask goes by the command's own name
    assert result.output.startswith("daskkcl ")


def test_python_m_daskkcl():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "daskkcl", "--version"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert re.match(r"daskkcl \d", done.stdout)
