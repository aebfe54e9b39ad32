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
        "Validity", "Xie–Beni", "Davies–Bouldin", "silhouette", "Of a sample of 400 rows",
    ):  # fmt: skip
        assert words in text, words
    pictures = len(re.findall("data:image/svg", text))
    assert pictures == 7  # convergence, sizes, classes, scatter, silhouettes, memberships, evidence


def indices_on(text):
    part = html_module.unescape(text.split("<h2>Validity</h2>")[1].split("<h2>")[0])
    cells = [re.sub("<[^>]*>", "", cell) for cell in re.findall("<td.*?</td>", part)]
    return part, dict(zip(cells[::3], cells[1::3], strict=True))


def test_validity_is_of_all_rows_where_they_can_be_read_again(tmp_path):
    import dask.array as da

    X = blobs(5000)[0]
    options = {"n_clusters": 4, "n_landmarks": 30, **FEW}
    model = daskkcl.fit(da.from_array(X, chunks=(700, 2)), "okfcm", scale="standard", **options)
    part, shown = indices_on(model.report(tmp_path / "run.html").read_text())
    assert "Of all 5,000 rows" in part
    expected = daskkcl.validity(model, X)
    assert [float(value.replace(",", "")) for value in shown.values()] == pytest.approx(
        list(expected.values()), rel=1e-3
    )
    assert len(shown) == 8
    part, _ = indices_on(model.report(tmp_path / "run.html", validity="sample", overwrite=True).read_text())
    assert "Of a sample of 2,000 rows" in part
    text = model.report(tmp_path / "run.html", validity=None, overwrite=True).read_text()
    assert "<h2>Validity" not in text
    with pytest.raises(InvalidInputError, match="Did you mean 'sample'"):
        model.report(tmp_path / "run.html", validity="samples", overwrite=True)


def test_validity_of_rows_that_were_in_memory_and_of_saved_models(tmp_path):
    X, which = blobs(3000)
    model = daskkcl.fit(X, "akkmeans", 4, n_landmarks=30, **FEW)
    part, shown = indices_on(model.report(tmp_path / "a.html").read_text())
    assert "Of a sample of 2,000 rows" in part
    assert len(shown) == 4
    part, shown = indices_on(model.report(tmp_path / "b.html", X).read_text())
    assert "Of all 3,000 rows" in part
    model.save(tmp_path / "model.zarr")
    loaded = daskkcl.load(tmp_path / "model.zarr")
    assert "pass some, as X" in loaded.report(tmp_path / "c.html").read_text()
    with pytest.raises(InvalidInputError, match="pass the rows too"):
        loaded.report(tmp_path / "d.html", y=which)
    text = loaded.report(tmp_path / "d.html", X, y=which).read_text()
    assert indices_on(text)[1] == shown
    assert "normalised mutual information" in text
    one = daskkcl.fit(X, "akkmeans", 1, n_landmarks=30, **FEW)
    assert "there is one cluster" in one.report(tmp_path / "e.html").read_text()


def test_a_cube_is_judged_and_drawn(tmp_path):
    import xarray as xr

    X = blobs(600)[0].reshape(20, 30, 3)
    X[3, 4] = np.nan
    cube = xr.DataArray(X, dims=("y", "x", "band"), coords={"band": ["red", "green", "blue"]}).chunk(y=7)
    model = cube.daskkcl.fit("akkmeans", n_clusters=4, n_landmarks=30, feature_dim="band", **FEW)
    part, shown = indices_on(model.report(tmp_path / "run.html").read_text())
    assert "Of all 600 rows" in part
    assert float(shown["Davies–Bouldin"]) == pytest.approx(daskkcl.validity(model, cube)["davies_bouldin"], rel=1e-3)


def test_rows_beyond_the_limit_are_not_judged_and_that_is_said(tmp_path):
    import dask.array as da

    model = daskkcl.fit(da.from_array(blobs(3000)[0], chunks=(700, 2)), "akkmeans", 4, n_landmarks=30, **FEW)
    model.memory_limit = "64MiB"  # less than any process
    part, _ = indices_on(model.report(tmp_path / "run.html").read_text())
    assert "All rows were not judged: memory_limit is 64.0 MiB" in part
    assert "Of a sample of 2,000 rows" in part


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
    assert browser.title == "4 clusters by okfcm"
    pictures = browser.execute_script(
        "return [...document.images].map(i => [i.complete, i.naturalWidth, i.clientWidth])"
    )
    assert len(pictures) == 7
    assert all(complete and natural > 0 and 0 < shown <= width for complete, natural, shown in pictures)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width  # nothing sticks out
    assert browser.get_log("browser") == []
