"""The notebooks of examples/ run from top to bottom, and are kept with what they showed."""

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NEEDS = {"03-single-cell": "anndata"}


def read(path):
    return pytest.importorskip("nbformat", reason="needs nbformat: pip install 'daskkcl[notebooks]'").read(path, 4)


def outputs(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def ends_with_a_picture(notebook):
    last = [cell for cell in notebook.cells if cell.cell_type == "code"][-1]
    return any("image/png" in output.get("data", {}) for output in last.outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_as_they_ran(path):
    notebook = read(path)
    shown = outputs(notebook)
    assert not any(output.output_type == "error" for output in shown)
    assert ends_with_a_picture(notebook)
    assert not [output.text for output in shown if output.get("name") == "stderr"]  # warnings, with somebody's paths
    assert not any("0%|" in output.get("data", {}).get("text/plain", "") for output in shown)  # widgets that are gone
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.stem == "07-resuming" else pytest.mark.slow) for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_notebooks_run(path, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient: pip install 'daskkcl[notebooks]'")
    pytest.importorskip("ipykernel", reason="needs ipykernel: pip install 'daskkcl[notebooks]'")
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem], reason=f"needs {NEEDS[path.stem]}: pip install {NEEDS[path.stem]}")
    notebook = read(path)
    began = sum(os.times()[2:4])
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert sum(os.times()[2:4]) - began < 200  # seconds of cores: two minutes on two of them, whoever else is there
    assert ends_with_a_picture(notebook)
