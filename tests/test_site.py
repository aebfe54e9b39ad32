"""The documentation: it builds without a warning, its tutorial runs as it stands, its links lead somewhere."""

import importlib
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
    not all(importlib.util.find_spec(name) for name in ("sphinx", "myst_parser", "furo", "numpydoc", "latex2mathml")),
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
        assert "<math" in page
        assert "\\(" not in page  # every equation was understood
    everything = "".join(page.read_text() for page in tmp_path.rglob("*.html"))
    assert not re.findall(r"<(?:script|link)[^>]*(?:src|href)=.https?://", everything)  # it is read without a network


def test_every_public_name_is_documented():
    pages = "".join(path.read_text() for path in (DOCS / "reference.md", *(DOCS / "algorithms").glob("*.md")))
    for name in daskkcl.__all__:
        place = {"DaskkclError": "automodule:: daskkcl.errors", "MemoryLimitError": "automodule:: daskkcl.errors"}
        assert place.get(name, f":: daskkcl.{name}") in pages or name == "__version__", name


def test_every_page_is_in_one_list_of_contents():
    listed = []
    for page in DOCS.rglob("*.md"):
        for names in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), flags=re.DOTALL):
            listed += [page.parent / f"{name}.md" for name in names.split("\n") if name and not name.startswith(":")]
    assert sorted(listed) == sorted(page for page in DOCS.rglob("*.md") if page != DOCS / "index.md")


def test_every_algorithm_has_a_page():
    for algo, cls in daskkcl.algorithms().items():
        page = (DOCS / "algorithms" / f"{algo}.md").read_text()
        assert f"daskkcl.{cls.__name__}\n" in page
        assert f"[`{algo}`]({algo}.md)" in (DOCS / "algorithms" / "index.md").read_text()
        assert "$$" in page
        for row in ("use it for", "time", "memory", "paper"):
            assert re.search(rf"^\| {row} \| \S", page, flags=re.MULTILINE), f"{algo} does not say: {row}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target or target.startswith("#"):
            continue
        path = page.parent / target.partition("#")[0]
        assert path.exists(), f"{page.name} links to {target}, which is not there"


OUTSIDE = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CITATION.cff", *sorted((ROOT / "daskkcl").rglob("*.py"))]
DOI = re.compile(r"10\.\d{4,9}/[-._;()/:a-zA-Z0-9]+")


def dois(text):
    """Return what stands behind doi: and https://doi.org/, without what closes a sentence around it."""
    found = re.findall(r"(?:\bdoi:\s?|https?://doi\.org/)([^\s\]\"'`,;]+)", text)
    whole = (doi if doi.count("(") == doi.count(")") else doi.rstrip(":.").removesuffix(")") for doi in found)
    return [doi.rstrip(":.") for doi in whole]


def test_dois_and_addresses_are_well_formed():
    """Whether they lead anywhere takes a network: `make links`."""
    from urllib.parse import urlsplit

    n_dois, n_addresses = 0, 0
    for path in OUTSIDE:
        text = path.read_text()
        for doi in dois(text):
            assert DOI.fullmatch(doi), f"{path.name}: doi:{doi}"
            n_dois += 1
        for address in re.findall(r"https?://[^\s)>\]\"'`]+", text):
            parts = urlsplit(address.rstrip(".,;:"))
            if parts.hostname in ("localhost", "127.0.0.1", "host"):
                continue
            assert parts.scheme == "https", f"{path.name}: {address} is not https"
            assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", parts.hostname or ""), f"{path.name}: {address}"
            n_addresses += 1
    assert n_dois > 60
    assert n_addresses > 15


def test_dois_of_docstrings_become_links():
    sys.path.insert(0, str(DOCS))
    try:
        conf = importlib.import_module("conf")
    finally:
        sys.path.remove(str(DOCS))
    lines = ["Rousseeuw 1987 (doi:10.1016/0377-0427(87)90125-7) and others (KDD 2011, doi:10.1145/2020408.2020558)."]
    conf.link_dois(None, "", "", None, None, lines)
    one, other = "10.1016/0377-0427(87)90125-7", "10.1145/2020408.2020558"
    links = [f"`doi:{doi} <https://doi.org/{doi}>`__" for doi in (one, other)]
    assert lines == [f"Rousseeuw 1987 ({links[0]}) and others (KDD 2011, {links[1]})."]


def test_the_tutorial_runs(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'daskkcl[plots]'")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    code = "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / "tutorial.md").read_text(), flags=re.DOTALL))
    code += "\nassert daskkcl.measures.nmi(truth, labels) > 0.9\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run.html").stat().st_size > 10_000


@pytest.mark.slow
def test_the_first_examples_of_the_readme_run_as_they_stand(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'daskkcl[plots]'")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    first, second, third = (block.replace("512MiB", "2GiB") for block in blocks[:3])  # whatever else is imported here
    code = f"{first}\nassert model.cluster_sizes_.tolist() == [50_000] * 4\n{second}\n{third}"
    code += "\nassert model.labels_.dims == ('y', 'x')\nassert model.cluster_sizes_.tolist() == [50_000] * 4"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Of all 200,000 rows" in (tmp_path / "run.html").read_text()
    assert {"pixels.zarr", "result.zarr", "run.html", "balanced.zarr"} <= {path.name for path in tmp_path.iterdir()}
