"""The documentation: it builds without a warning, its tutorial runs as it stands, its links lead somewhere."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import daskkcl

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("sphinx", "myst_parser", "furo", "numpydoc")),
    reason="needs Sphinx: pip install 'daskkcl[docs]'",
)
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run([*command, "-d", str(tmp_path / "doctrees")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for algo in daskkcl.algorithms():
        page = (tmp_path / "algorithms" / f"{algo}.html").read_text()
        assert f"{algo}.png" in page
        assert "Parameters" in page


def test_every_algorithm_has_a_page():
    for algo, cls in daskkcl.algorithms().items():
        page = (DOCS / "algorithms" / f"{algo}.md").read_text()
        assert f"daskkcl.{cls.__name__}\n" in page
        assert f"[`{algo}`]({algo}.md)" in (DOCS / "algorithms" / "index.md").read_text()
        assert "$$" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target or target.startswith("#"):
            continue
        path = page.parent / target.partition("#")[0]
        assert path.exists(), f"{page.name} links to {target}, which is not there"


def test_the_tutorial_runs(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'daskkcl[plots]'")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", (DOCS / "tutorial.md").read_text(), flags=re.DOTALL):
        exec(compile(code, "tutorial.md", "exec"), names)
    assert daskkcl.measures.nmi(names["truth"], names["labels"]) > 0.9
    assert (tmp_path / "run.html").stat().st_size > 10_000
