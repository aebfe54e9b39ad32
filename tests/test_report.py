"""The report page and what notebooks show, read as HTML and opened in a real browser."""

import html as html_module
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

import daskkcl
from daskkcl.errors import InvalidInputError

FEW = {"random_state": 0, "progress": False}
NASTY = "<script>alert(1)</script>"


def blobs(n=400):
    centres = np.random.default_rng(1).normal(0, 10, (4, 3))
    which = np.arange(n) % 4
    return centres[which] + np.random.default_rng(2).normal(size=(n, 3)), which


@pytest.fixture(scope="module")
def model():
    return daskkcl.OnlineKFCM("auto", memory_limit="4GiB", **FEW).fit(blobs()[0])


@pytest.fixture(scope="module")
def page(model, tmp_path_factory):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'daskkcl[plots]'")
    names = np.array([NASTY, "b & c", "$x^2$", "Ω"])
    return model.report(tmp_path_factory.mktemp("report") / "run.html", y=names[blobs()[1]])


class Strict(HTMLParser):
    """Counts tags, and wants them to nest."""

    void = {"meta", "link", "br", "img", "polyline"}

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text):
    parser = Strict()
    parser.feed(text)
    assert not parser.open
    return parser


def test_a_page_that_needs_nothing(page):
    text = page.read_text()
    tags = parsed(text).seen
    assert not {"script", "iframe", "object"} & {tag for tag, _ in tags}
    sources = [attributes[name] for _, attributes in tags for name in ("src", "href") if name in attributes]
    assert sources
    assert all(source.startswith("data:") for source in sources)
    assert all(attributes.get("alt") for tag, attributes in tags if tag == "img")


def test_names_from_data_are_escaped(page):
    assert NASTY not in page.read_text()
    table = daskkcl.drawing.html.table([(NASTY, 3)])
    assert NASTY not in table
    assert html_module.escape(NASTY) in table


def test_what_is_on_it(page, model):
    text = page.read_text()
    for words in (
        "OnlineKFCM", "Parameters", "memory_limit", "4GiB", "Versions", "numpy", np.__version__, "planned peak",
        "measured peak", "normalised mutual information", "1.0000", "Memberships", "Why this number of clusters",
    ):  # fmt: skip
        assert words in text, words
    pictures = len(re.findall("data:image/svg", text))
    assert pictures == 7  # convergence, sizes, classes, scatter, silhouettes, memberships, evidence


def test_a_page_is_not_lost(model, tmp_path):
    path = tmp_path / "run.html"
    path.write_text("mine")
    with pytest.raises(InvalidInputError, match="overwrite=True"):
        model.report(path)
    assert path.read_text() == "mine"
    with pytest.raises(InvalidInputError, match="no folder"):
        model.report(tmp_path / "nowhere" / "run.html")
    with pytest.raises(InvalidInputError, match="is a folder"):
        model.report(tmp_path)
    model.report(path, overwrite=True)
    assert [child.name for child in tmp_path.iterdir()] == ["run.html"]


def test_a_loaded_model_has_a_report(model, tmp_path):
    model.save(tmp_path / "model.zarr")
    text = daskkcl.load(tmp_path / "model.zarr").report(tmp_path / "run.html").read_text()
    assert "keeps no rows to draw" in text


def test_in_a_notebook(model):
    shown = model._repr_html_()
    parsed(shown)
    assert "cluster sizes" in shown
    for size in model.cluster_sizes_:
        assert f"{size:,}" in shown
    assert "polyline" in shown
    assert "cluster sizes" in model._repr_mimebundle_()["text/html"]
    assert "cluster sizes" not in daskkcl.OnlineKFCM(3)._repr_html_()  # scikit-learn's own, before fitting


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no Chromium here: apt install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    flags = "headless no-sandbox disable-gpu disable-dev-shm-usage no-first-run disable-background-networking"
    for flag in (*flags.split(), "disable-component-update", "disable-sync", "disable-quic"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield window
    window.quit()


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_in_a_browser(browser, page, width):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.get(page.as_uri())
    assert browser.title == "OnlineKFCM: 4 clusters"
    pictures = browser.execute_script(
        "return [...document.images].map(i => [i.complete, i.naturalWidth, i.clientWidth])"
    )
    assert len(pictures) == 7
    assert all(complete and natural > 0 and 0 < shown <= width for complete, natural, shown in pictures)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width  # nothing sticks out
    assert browser.get_log("browser") == []
