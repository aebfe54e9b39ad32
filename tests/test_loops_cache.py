"""Machine code on disk, with several processes at once: none may find the code of another source."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import daskkcl

_LOOP = """
from daskkcl.kernels.loops import _to_the_letter

@_to_the_letter
def answer(x):
    return x + {number}
"""
_CALL = """
import os, sys, time
from pathlib import Path
from numba.core.caching import IndexDataCacheFile
import daskkcl.kernels.loops

how = sys.argv[1]
save = IndexDataCacheFile._save_data

def write_late(self, name, data):
    Path("indexed").touch()
    time.sleep(2)
    save(self, name, data)

if how == "stopped":  # between the index and the code, as a busy machine may stop it
    IndexDataCacheFile._save_data = write_late
if how == "between":
    Path("ready").touch()
    while not os.path.exists("indexed"):
        time.sleep(0.01)
import own
print(own.answer(1))
"""


def start(folder, how):
    command = [sys.executable, "-c", _CALL, how]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(process):
    said, complaint = process.communicate(timeout=200)
    assert process.returncode == 0, complaint
    return float(said)


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_nobody_gets_the_code_of_an_older_source(tmp_path):
    own = Path(tmp_path, "own.py")
    own.write_text(_LOOP.format(number=1))
    assert answer(start(tmp_path, "alone")) == 2
    own.write_text(_LOOP.format(number=10))  # longer, so that numba sees that it is another
    second = start(tmp_path, "between")
    while not Path(tmp_path, "ready").exists() and second.poll() is None:
        time.sleep(0.05)
    first = start(tmp_path, "stopped")
    assert [answer(second), answer(first)] == [11, 11]


_VALUES = """
import numpy as np
from daskkcl.kernels import Rbf, rbf_loops
rows = np.zeros((3, 2), np.float32)
print(rbf_loops.__file__, Rbf(0.5).columns(rows, "float32").compiled().block(rows)[0].max())
"""


def test_a_loop_is_compiled_again_when_what_is_compiled_into_it_has_changed(tmp_path):
    """Some update, or another branch, may leave the file of the loop itself as it was."""
    package = Path(daskkcl.__file__).parent
    shutil.copytree(package, tmp_path / "daskkcl", ignore=shutil.ignore_patterns("__pycache__"))

    def largest():
        done = subprocess.run([sys.executable, "-c", _VALUES], cwd=tmp_path, capture_output=True, text=True, check=True)
        file, value = done.stdout.split()
        assert Path(file).is_relative_to(tmp_path)
        return float(value)

    assert largest() == 1
    strips = tmp_path / "daskkcl" / "kernels" / "strips.py"
    before, text = strips.stat(), strips.read_text()
    assert "    1.0,\n" in text  # the last coefficient of 2^f
    strips.write_text(text.replace("    1.0,\n", "    3.0,\n"))
    os.utime(strips, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert largest() == 3
