"""What ``make demo`` runs: a Zarr of twice the memory limit, a result, a picture."""

import os
import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parents[1] / "examples" / "demo.py"


def test_the_demo_shows_what_it_promises(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(DEMO.parents[1])}
    # Where the package sparse happens to be installed dask imports it, and with it numba: a hundred mebibytes.
    code = f"import runpy, sys; sys.modules['sparse'] = None; runpy.run_path({str(DEMO)!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"NMI with the digits +([\d.]+)", done.stdout)[1]) > 0.6
    peak, limit = re.search(r"peak memory +([\d.]+) MiB of (\d+)MiB allowed", done.stdout).groups()
    assert float(peak) <= float(limit)
    assert "labelling" in done.stderr  # progress
    assert (tmp_path / "demo-output" / "digits.png").stat().st_size > 10_000
