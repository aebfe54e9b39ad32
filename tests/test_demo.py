"""What ``make demo`` runs: a Zarr larger than the memory limit, a result, a picture."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from daskkcl.demo import run
from daskkcl.errors import PlaceError

DEMO = Path(__file__).resolve().parents[1] / "examples" / "demo.py"


def test_the_demo_shows_what_it_promises(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(DEMO.parents[1])}
    # Where the package sparse happens to be installed dask imports it, and with it numba: a hundred mebibytes.
    code = f"import runpy, sys; sys.modules['sparse'] = None; runpy.run_path({str(DEMO)!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"NMI with the digits +([\d.]+)", done.stdout)[1]) > 0.8
    peak, limit = re.search(r"peak memory +([\d.]+) MiB of (\d+)MiB allowed", done.stdout).groups()
    assert float(peak) <= float(limit)
    assert "labelling" in done.stderr  # progress
    assert (tmp_path / "demo-output" / "digits.png").stat().st_size > 10_000


def test_a_folder_that_cannot_be_made_is_found_before_the_work(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(PlaceError, match="cannot be made"):
        run(output=str(tmp_path / "file" / "pictures"))
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_a_process_that_is_large_already_gets_a_limit_that_it_can_keep(tmp_path):
    code = (
        "ballast = bytearray(200 * 2**20); ballast[::4096] = b'x' * len(ballast[::4096])\n"
        "from daskkcl.cli import main; main(['demo', '--rows', '20000'], prog_name='daskkcl')"
    )
    environment = {**os.environ, "PYTHONPATH": str(DEMO.parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    limit = int(re.findall(r"512MiB do not do here: .*The limit is (\d+)MiB, more than the data", done.stdout)[-1])
    peak, allowed = re.search(r"peak memory +([\d.]+) MiB of (\d+)MiB allowed", done.stdout).groups()
    assert float(peak) <= float(allowed) == limit
    refused = subprocess.run(
        [sys.executable, "-m", "daskkcl", "demo", "--rows", "20000", "--memory-limit", "100MiB"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 3  # what was asked for is kept to
    assert "memory_limit" in refused.stderr
