"""Pictures of models: what they show is what the model found, with 2 clusters and with 50."""

import sys
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

import daskkcl
from daskkcl.drawing import charts
from daskkcl.drawing.canvas import colours, compact, letters_on
from daskkcl.errors import DaskkclError, InvalidInputError

plt = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib: pip install 'daskkcl[plots]'")

RNG = np.random.default_rng(0)
FEW = {"random_state": 0, "progress": False}


def blobs(n_clusters, n_features, n=600):
    centres = np.random.default_rng(1).normal(0, 10, (n_clusters, n_features))
    which = np.arange(n) % n_clusters
    return centres[which] + np.random.default_rng(2).normal(size=(n, n_features)), which


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module", params=[2, 50])
def model(request):
    X, y = blobs(request.param, 5)
    return daskkcl.OnlineKFCM(request.param, fuzzifier=1.2, **FEW).fit(X), X, y


def drawn(axes):
    """Draw for real: layout and text are made only then."""
    axes.figure.canvas.draw()
    return axes


def test_convergence_is_the_history(model):
    axes = drawn(model[0].plot.convergence())
    assert_allclose(axes.lines[0].get_ydata(), model[0].history_)
    assert axes.get_ylabel() == model[0].watches == "objective of the last merge"


def test_what_is_at_rest_is_drawn_level():
    axes = drawn(charts.convergence([154.074937, 154.074944], "objective"))
    low, high = axes.get_ylim()
    assert low < 153 < 155 < high
    assert axes.yaxis.get_offset_text().get_text() == ""
    assert "0.1%" in axes.get_title()
    falling = drawn(charts.convergence([155.0, 154.0], "objective"))
    assert falling.get_title() == "Convergence"


@pytest.mark.parametrize("history", [[0.2, 0.1], [0.1, 0.2], [3.0, 1.0, 0.9]])
def test_the_last_value_does_not_stand_on_the_line(history):
    axes = drawn(charts.convergence(history, "objective"))
    (name,) = axes.texts
    line = axes.transData.transform(np.column_stack(axes.lines[0].get_data()))
    along = np.concatenate([np.linspace(a, b, 500) for a, b in pairwise(line)])
    box = name.get_window_extent()
    assert not any(box.contains(*point) for point in along)


def test_borders_are_lines_without_steps():
    x = y = np.linspace(0, 1, 200)
    field = (y[:, None] > 0.3 * x + 0.4).astype(int) + 2 * (x[None, :] > 0.7)
    lines = charts._outlines(field, x, y)
    slanted = [line for line in lines if np.ptp(line[:, 0]) > 0.5]
    assert slanted
    for line in slanted:
        inside = line[(line[:, 0] > 0.05) & (line[:, 0] < 0.65)]
        assert np.abs(inside[:, 1] - (0.3 * inside[:, 0] + 0.4)).max() < 1.5 / 200  # steps would be off by one and more
    assert min(np.abs(line[:, 0] - 0.7).min() for line in lines) < 1 / 200


def test_names_of_many_uneven_silhouettes_do_not_overlap():
    labels = np.repeat(np.arange(50), np.maximum(2, (200 * 0.9 ** np.arange(50)).astype(int)))
    distances = RNG.uniform(1, 2, (len(labels), 50))
    distances[np.arange(len(labels)), labels] = 0.5
    axes = drawn(charts.silhouette_bars(distances, labels))
    boxes = [label.get_window_extent() for label in axes.get_yticklabels() if label.get_text()]
    assert len(boxes) > 8
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))


def test_every_cluster_is_named_where_the_order_is_not_that_of_numbers():
    counts = np.diag(np.arange(1, 51))[:, ::-1]
    axes = drawn(charts.confusion(counts, list(range(50))))
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert sorted(map(int, names)) == list(range(50))
    for axis in (axes.xaxis, axes.yaxis):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels()]
        assert not any(a.overlaps(b) for a, b in pairwise(boxes))


def test_seeds_that_were_driven_away_leave_room_for_the_rest():
    points = RNG.normal(size=(200, 2))
    path = np.zeros((4, 3, 2))
    path[-1] = [[0, 0], [500, 0], [0.5, -800]]
    axes = drawn(charts.seed_paths(path, points, ("x", "y")))
    assert "2 out of sight" in axes.get_title()
    assert max(np.abs([*axes.get_xlim(), *axes.get_ylim()])) < 8
    stay = drawn(charts.seed_paths(np.zeros((4, 3, 2)), points, ("x", "y")))
    assert "out of sight" not in stay.get_title()


@pytest.mark.parametrize("n", [2, 50])
def test_nothing_is_cut_off(n):
    """Every text of every picture lies inside the figure."""
    X, y = blobs(n, 2, 1200)
    model = daskkcl.OnlineKFCM(n, **FEW).fit(X)
    seeds = daskkcl.CPCL(n + 1, record=True, max_epochs=3, **FEW)
    with pytest.warns(daskkcl.errors.ConvergenceWarning):
        seeds.fit(X)
    pictures = [
        getattr(model.plot, name)() for name in ("convergence", "sizes", "scatter", "memberships", "silhouette")
    ]
    for axes in [*pictures, model.plot.confusion(y), seeds.plot.seeds()]:
        drawn(axes)
        width, height = axes.figure.canvas.get_width_height()
        ticks = [tick for part in axes.figure.axes for tick in (*part.get_xticklabels(), *part.get_yticklabels())]
        for text in axes.figure.findobj(plt.Text):  # matplotlib keeps labels of ticks that it does not draw
            box = text.get_window_extent()
            if text.get_text().strip() and text not in ticks:
                inside = box.x0 > -1 and box.y0 > -1 and box.x1 < width + 1 and box.y1 < height + 1
                assert inside, (axes.get_title(), text.get_text())


def test_names_do_not_hide_clusters_that_are_points():
    points = np.repeat([[0.0, 0.0], [1.0, 1.0]], 50, axis=0)
    axes = drawn(charts.scatter(points, np.repeat([0, 1], 50), 2, ("x", "y"), None, None))
    for name in axes.texts:
        here = axes.transData.transform(name.xy)
        assert not name.get_window_extent().contains(*here)
    wide = np.random.default_rng(0).normal(size=(100, 2)) + np.repeat([[0, 0], [9, 9]], 50, axis=0)
    axes = drawn(charts.scatter(wide, np.repeat([0, 1], 50), 2, ("x", "y"), None, None))
    assert all(name.get_window_extent().contains(*axes.transData.transform(name.xy)) for name in axes.texts)


def test_bars_are_the_sizes(model):
    axes = drawn(model[0].plot.sizes())
    assert [bar.get_height() for bar in axes.patches] == model[0].cluster_sizes_.tolist()
    assert_allclose(axes.lines[0].get_ydata(), 600 / model[0].n_clusters_)  # all equal


def test_tick_labels_do_not_overlap(model):
    for name in ("sizes", "silhouette", "memberships"):
        axes = drawn(getattr(model[0].plot, name)())
        for axis in (axes.xaxis, axes.yaxis):
            boxes = [label.get_window_extent() for label in axis.get_ticklabels() if label.get_text()]
            assert not any(a.overlaps(b) for a, b in pairwise(boxes)), (name, axis)


def test_every_cluster_is_named_in_the_scatter(model):
    axes = drawn(model[0].plot.scatter())
    found = {text.get_text() for text in axes.texts}
    assert found == {str(k) for k in np.unique(model[0].predict(model[0]._shown))}


def test_memberships_are_those_of_rows(model):
    axes = drawn(model[0].plot.memberships(model[1][:100]))
    image = axes.images[0].get_array()
    assert image.shape == (model[0].n_clusters_, 100)
    expected = model[0].predict_proba(model[1][:100])
    assert_array_equal(np.sort(image.T.max(axis=1)), np.sort(expected.max(axis=1)))


def test_silhouettes_are_differences_of_distances():
    distances = np.array([[1.0, 4.0], [3.0, 4.0], [2.0, 1.0], [0.0, 0.0]])
    axes = drawn(charts.silhouette_bars(distances, np.array([0, 0, 1, 0])))
    assert f"{(0.75 + 0.25 + 0.5 + 0) / 4:.2f}" in axes.get_xlabel()


def test_known_classes_stand_on_the_diagonal():
    X, y = blobs(4, 3)
    model = daskkcl.ApproxKernelKMeans(4, gamma=0.02, **FEW).fit(X)
    names = np.array(["plain", "a $dollar", "<b>", "Ω"])
    axes = drawn(model.plot.confusion(names[y]))
    assert_allclose(axes.images[0].get_array(), np.eye(4))
    assert [label.get_text() for label in axes.get_yticklabels()] == sorted(name.replace("$", r"\$") for name in names)
    with pytest.raises(InvalidInputError, match="one for each row"):
        model.plot.confusion(y[:-1])


def test_rows_of_two_features_are_drawn_as_they_are():
    X, _ = blobs(3, 2)
    model = daskkcl.ApproxKernelKMeans(3, gamma=0.02, **FEW).fit(X)
    axes = drawn(model.plot.scatter(X[:50]))
    points = np.concatenate([np.asarray(group.get_offsets()) for group in axes.collections[1:]])
    assert_array_equal(np.unique(points, axis=0), np.unique(X[:50], axis=0))


def test_the_plane_keeps_distances_of_three_centres():
    """With three centres their plane is all there is to see: rows in it keep their order along every direction."""
    centres = RNG.normal(size=(3, 6))
    coordinates = RNG.normal(size=(40, 2))
    axes = np.linalg.qr((centres[1:] - centres[0]).T)[0].T
    rows = centres.mean(axis=0) + coordinates @ axes
    squares = ((rows[:, None] - centres) ** 2).sum(axis=2)
    plane = charts.plane_of_centres(squares)
    solution, residual, *_ = np.linalg.lstsq(np.column_stack([coordinates, np.ones(40)]), plane, rcond=None)
    assert_allclose(np.column_stack([coordinates, np.ones(40)]) @ solution, plane, atol=1e-10)
    assert np.linalg.matrix_rank(solution[:2]) == 2


@pytest.mark.parametrize("n_clusters", [4, 12])
def test_centres_that_are_equally_far_apart_are_all_seen(n_clusters):
    squares = 9.0 * (1 - np.eye(n_clusters)).repeat(30, axis=0) + RNG.uniform(0, 0.5, (30 * n_clusters, n_clusters))
    means = charts.plane_of_centres(squares).reshape(n_clusters, 30, 2).mean(axis=1)
    apart = np.linalg.norm(means[:, None] - means, axis=2)[np.triu_indices(n_clusters, 1)]
    assert apart.min() > 0.2 * apart.max()


@pytest.mark.parametrize("n_clusters", [1, 2])
def test_one_and_two_clusters_have_a_plane_too(n_clusters):
    X, _ = blobs(2, 4, 100)
    drawn(daskkcl.ApproxKernelKMeans(n_clusters, **FEW).fit(X).plot.scatter())


@pytest.mark.part(3)
@pytest.mark.parametrize("algo", daskkcl.algorithms())
def test_every_algorithm_can_be_drawn(algo):
    X, _ = blobs(3, 3, 150)
    size = {daskkcl.algorithms()[algo].counted: 3}
    model = daskkcl.fit(X, algo, **size, **FEW)
    drawn(model.plot.scatter())
    drawn(model.plot.sizes())
    if len(model.history_):
        drawn(model.plot.convergence())
    assert "scatter" in repr(model.plot)


@pytest.mark.part(3)
@pytest.mark.parametrize("kind", ["zarr", "dask", "sparse"])
def test_rows_of_any_kind_are_drawn(kind, tmp_path):
    X, y = blobs(3, 4, 5000)
    data = {
        "zarr": lambda: zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(100, 4)),
        "dask": lambda: da.from_array(X, chunks=(700, 2)),
        "sparse": lambda: csr_array(np.where(np.abs(X) > 3, X, 0)),
    }[kind]()
    model = daskkcl.ApproxKernelKMeans(3, n_landmarks=50, **FEW).fit(data)
    assert model._shown.shape == (2000, 4)
    drawn(model.plot.scatter())
    drawn(model.plot.scatter(data, n_rows=300))
    drawn(model.plot.confusion(y))
    assert "adjusted Rand" in model.report(tmp_path / "run.html", y=y).read_text()
    model.save(tmp_path / "model.zarr")
    loaded = daskkcl.load(tmp_path / "model.zarr")
    with pytest.raises(InvalidInputError, match="pass some"):
        loaded.plot.scatter()
    drawn(loaded.plot.scatter(data))


def test_the_ways_of_seeds():
    X, _ = blobs(3, 2, 300)
    model = daskkcl.CPCL(5, record=True, **FEW).fit(X)
    axes = drawn(model.plot.seeds())
    assert_array_equal(axes.lines[0].get_xdata(), model.seed_path_[:, 0, 0])
    wide = daskkcl.CPCL(5, record=True, **FEW).fit(blobs(3, 4, 300)[0])
    drawn(wide.plot.seeds())
    with pytest.raises(InvalidInputError, match="record=True"):
        daskkcl.CPCL(5, **FEW).fit(X).plot.seeds()


def test_evidence_for_a_number_of_clusters():
    X, _ = blobs(4, 2, 400)
    model = daskkcl.ApproxKernelKMeans("auto", **FEW).fit(X)
    assert "4" in drawn(model.plot.n_clusters()).get_title()
    with pytest.raises(InvalidInputError, match="n_clusters='auto'"):
        daskkcl.ApproxKernelKMeans(4, **FEW).fit(X).plot.n_clusters()
    few = daskkcl.ApproxKernelKMeans("auto", **FEW).fit(np.repeat([[0.0, 0.0], [1.0, 5.0]], 40, axis=0))
    assert few.n_clusters_ == 2
    with pytest.raises(InvalidInputError, match="too few different rows"):
        few.plot.n_clusters()


def test_evidence_says_why_a_smaller_gap_is_taken():
    ratios = np.array([1.0, 1.0, 90.0, 1.1, 5.0, 1.2, 1.0])
    found = {"ratios": ratios, "expected_ratios": np.full(7, 1.5), "first": 5, "taken": 5, "clear": True}
    axes = drawn(charts.evidence({**found, "candidates": np.array([3, 5]), "scores": np.array([1.0, 1.0])}))
    marked = next(line for line in axes.lines if "the most are taken" in line.get_label())
    assert_array_equal(marked.get_xdata(), [3, 5])
    assert_array_equal(marked.get_ydata(), [90, 5])
    alone = drawn(charts.evidence({**found, "candidates": np.array([5]), "scores": np.array([1.0])}))
    assert not any("the most are taken" in line.get_label() for line in alone.lines)


def test_what_cannot_be_drawn_says_why():
    X, _ = blobs(2, 3, 60)
    model = daskkcl.ApproxKernelKMeans(2, **FEW).fit(X)
    with pytest.raises(InvalidInputError, match="only the fuzzy algorithms"):
        model.plot.memberships()
    with pytest.raises(InvalidInputError, match="there is one"):
        daskkcl.ApproxKernelKMeans(1, **FEW).fit(X).plot.silhouette()


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch):
    X, _ = blobs(2, 3, 60)
    model = daskkcl.ApproxKernelKMeans(2, **FEW).fit(X)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DaskkclError, match=r"pip install 'daskkcl\[plots\]'"):
        model.plot  # noqa: B018


def test_drawing_on_axes_of_the_user():
    X, _ = blobs(2, 3, 60)
    figure, axes = plt.subplots()
    assert daskkcl.ApproxKernelKMeans(2, **FEW).fit(X).plot.sizes(axes) is axes
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize("n", [1, 2, 7, 8, 50])
def test_colours_differ_in_lightness_as_well(n):
    from matplotlib.colors import to_rgb

    rgb = np.array([to_rgb(colour) for colour in colours(n)])
    assert len(np.unique(rgb, axis=0)) == n
    lightness = rgb @ [0.299, 0.587, 0.114]
    assert lightness.max() < 0.9  # seen on white
    neighbours = np.abs(np.diff(lightness)) if n > 7 else np.array([1.0])
    assert neighbours.min() > 0.02
    assert {letters_on("black"), letters_on("white")} == {"white", "black"}


def test_numbers_as_people_say_them():
    assert [compact(x) for x in (0, 12, 9999, 3294.6, 12345, 3.2e6, 7e9, 0.00321)] == [
        "0", "12", "9,999", "3,295", "12.3k", "3.2M", "7G", "0.00321",
    ]  # fmt: skip
