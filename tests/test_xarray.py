"""DataArrays and Datasets of any dimensions, order and chunks: the same labels, on the dimensions they came from."""

import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from numpy.testing import assert_array_equal

import daskkcl
from daskkcl.blocks.cubes import open_frame
from daskkcl.blocks.frames import boxes
from daskkcl.errors import DaskkclWarning, InvalidInputError, StorageError

T, Y, X, B = 3, 22, 31, 4


def cube(masked=True):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(T, Y, X, B)).astype(np.float32)
    values[:, :, :12] += 5
    values[1, 4:9] -= 5
    if masked:
        values[0, 0, :5, 1] = np.nan
        values[2, 7, 7, :] = np.nan
    coords = {
        "time": np.array(["2020-01-01", "2020-02-01", "2020-03-01"], dtype="datetime64[ns]"),
        "y": ("y", np.linspace(50, 48, Y), {"units": "degrees_north"}),
        "band": ["blue", "green", "red", "nir"],
        "lat": (("y", "x"), rng.normal(size=(Y, X))),
        "spatial_ref": 0,
    }
    attrs = {"units": "1", "crs": "EPSG:32633"}
    return xr.DataArray(values, dims=("time", "y", "x", "band"), coords=coords, attrs=attrs, name="reflectance")


def fit(data, algo="okfcm", **changes):
    options = {"n_clusters": 3, "n_landmarks": 40, "random_state": 0, "progress": False, "nan": "drop", **changes}
    if not isinstance(data, xr.Dataset):
        options.setdefault("feature_dim", "band")
    return daskkcl.fit(data, algo, **options)


@pytest.fixture(scope="module")
def expected():
    """The labels of the plain table."""
    rows = cube().values.reshape(-1, B)
    return {algo: fit(rows, algo, feature_dim=None).labels_ for algo in ("okfcm", "akkmeans", "pakcl")} | {
        "membership": fit(rows, feature_dim=None).membership_
    }


ORDERS = [("time", "y", "x", "band"), ("band", "time", "y", "x"), ("time", "band", "y", "x")]
CHUNKS = [
    None,
    {"time": 1, "y": 5, "x": 7, "band": 1},
    {"time": 2, "y": 22, "x": 10, "band": 3},
    {"time": 3, "y": 1, "x": 31, "band": 4},
    {"time": (1, 2), "y": (3, 19), "x": (30, 1), "band": (1, 3)},
]


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_labels_are_those_of_the_table_in_any_order_and_chunks(expected, order, chunks):
    data = cube().transpose(*order)
    model = fit(data if chunks is None else data.chunk(chunks))
    labels = model.labels_
    assert labels.dims == ("time", "y", "x")
    assert isinstance(labels.data, np.ndarray if chunks is None else da.Array)
    assert_array_equal(labels.values.ravel(), expected["okfcm"])
    assert model.membership_.dims == ("time", "y", "x", "cluster")
    assert_array_equal(model.membership_.values.reshape(-1, 3), expected["membership"])


@pytest.mark.parametrize("algo", ["akkmeans", "pakcl"])
def test_other_algorithms(expected, algo):
    for data in (cube().transpose("band", ...), cube().transpose("band", ...).chunk(y=5, x=7, band=3)):
        assert_array_equal(fit(data, algo).labels_.values.ravel(), expected[algo])


def test_labels_keep_coordinates_and_attributes():
    data = cube()
    labels = fit(data.chunk(x=10)).labels_
    assert set(labels.coords) == {"time", "y", "lat", "spatial_ref"}
    assert labels.y.attrs == {"units": "degrees_north"}
    assert labels.attrs == {"crs": "EPSG:32633"}  # units are those of reflectances
    xr.testing.assert_identical(labels.lat, data.lat)
    assert int(labels.sel(time="2020-01-01")[0, 3]) == -1
    assert int((labels == -1).sum()) == 6


def test_nothing_is_read_before_it_is_asked_for():
    data = cube(masked=False)
    model = fit(data)

    def refuse(*_):
        raise AssertionError("computed")

    lazy = data.chunk(y=5)
    with dask.config.set(scheduler=refuse):
        answers = model.predict(lazy), model.predict_proba(lazy), model.transform(lazy)
    assert [answer.dims for answer in answers] == [("time", "y", "x")] + [("time", "y", "x", "cluster")] * 2
    assert_array_equal(answers[0].values, model.labels_.values)


def test_variables_of_a_dataset_are_features(expected):
    dataset = cube().to_dataset("band")
    for data in (dataset, dataset.chunk(time=1, x=9), dataset.assign(red=dataset.red.transpose("x", "y", "time"))):
        model = fit(data)
        assert_array_equal(model.labels_.transpose("time", "y", "x").values.ravel(), expected["okfcm"])
        assert list(model.feature_names_in_) == ["blue", "green", "red", "nir"]
    with pytest.raises(InvalidInputError, match="same order"):
        model.predict(dataset[["red", "green", "blue", "nir"]])
    with pytest.raises(InvalidInputError, match="variables are the features"):
        fit(dataset, feature_dim="x")


def test_variables_of_fewer_dimensions_are_repeated():
    data = xr.Dataset({"height": (("y", "x"), np.arange(12.0).reshape(3, 4)), "line": ("y", [0.0, 50.0, 100.0])})
    rows = np.column_stack([np.arange(12.0), np.repeat([0.0, 50.0, 100.0], 4)])
    for frame in (data, data.chunk(x=3)):
        assert_array_equal(open_frame(frame, None).array.read(0, 12), rows)


def test_models_know_their_feature_dimension(tmp_path):
    data = cube()
    model = fit(data)
    model.save(tmp_path / "model.zarr")
    loaded = daskkcl.load(tmp_path / "model.zarr")
    turned = data.transpose("band", "x", "time", "y")
    answer = loaded.predict(turned)
    assert answer.dims == ("x", "time", "y")
    assert_array_equal(answer.transpose("time", "y", "x").values, model.labels_.values)
    with pytest.raises(InvalidInputError, match="X has 3 features"):
        loaded.predict(data.isel(band=slice(3)))
    with pytest.raises(InvalidInputError, match="names should match"):
        loaded.predict(data.assign_coords(band=["red", "green", "blue", "nir"]))
    rows = data.values.reshape(-1, B)
    assert_array_equal(loaded.predict(rows), model.labels_.values.ravel())


@pytest.mark.parametrize("lazy", [False, True])
def test_results_are_written_on_the_dimensions(tmp_path, lazy):
    data = cube().chunk(y=6) if lazy else cube()
    model = fit(data, out=tmp_path / "result.zarr")
    with xr.open_zarr(tmp_path / "result.zarr") as result:
        result = result.load()
    assert_array_equal(result.labels.values, model.labels_.values)
    assert_array_equal(result.membership.values, model.membership_.values)
    assert result.labels.dims == ("time", "y", "x")
    assert result.membership.dims == ("time", "y", "x", "cluster")
    assert set(result.coords) == {"time", "y", "lat", "spatial_ref"}
    xr.testing.assert_equal(result.time.drop_vars("spatial_ref"), cube().time.drop_vars("spatial_ref"))
    assert result.labels.attrs["crs"] == "EPSG:32633"
    assert result.attrs["daskkcl"]["complete"] is True


def test_answers_of_large_frames_come_in_chunks(monkeypatch):
    monkeypatch.setattr("daskkcl.blocks.frames._MAX_CHUNK_BYTES", 4 * 5 * X)
    data = cube().chunk(y=6)
    model = fit(data)
    assert model.labels_.chunks == ((1, 1, 1), (5, 5, 5, 5, 2), (X,))
    assert_array_equal(model.labels_.values, fit(cube()).labels_.values)
    assert_array_equal(model.labels_[1, 3:9, 4].values, fit(cube()).labels_.values[1, 3:9, 4])


def test_weights_on_the_dimensions():
    data = cube()
    weights = xr.DataArray(np.random.default_rng(1).integers(0, 3, (X, T, Y)), dims=("x", "time", "y"))
    plain = weights.transpose("time", "y", "x").values.ravel()
    model = fit(data.chunk(y=7), sample_weight=weights)
    table = fit(data.values.reshape(-1, B), feature_dim=None, sample_weight=plain)
    assert_array_equal(model.labels_.values.ravel(), table.labels_)


def test_weights_of_a_stream_on_the_dimensions():
    rows = cube(masked=False).to_dataset("band")
    weights = xr.DataArray(np.random.default_rng(1).integers(1, 3, (X, T, Y)), dims=("x", "time", "y"))
    models = [daskkcl.OnlineKFCM(3, n_landmarks=20, random_state=0) for _ in range(2)]
    models[0].partial_fit(rows, sample_weight=weights)
    models[1].partial_fit(cube(masked=False).values.reshape(-1, B), weights.transpose("time", "y", "x").values.ravel())
    assert_array_equal(models[0].predict(rows).values.ravel(), models[1].predict(rows).values.ravel())


def test_measures_take_labels_on_dimensions(expected):
    labels = fit(cube().chunk(y=6)).labels_
    assert daskkcl.measures.ari(labels, xr.DataArray(expected["okfcm"].reshape(T, Y, X))) == 1.0


def test_maps_transform_cubes():
    data = cube(masked=False)
    map_ = daskkcl.maps.Nystroem(n_landmarks=20, random_state=0).fit(data.chunk(x=9), feature_dim="band")
    rows = map_.transform(data.values.reshape(-1, B))
    for answer in (map_.transform(data), map_.transform(data.transpose("band", ...).chunk(x=9))):
        assert answer.dims == ("time", "y", "x", "component")
        assert_array_equal(answer.values.reshape(rows.shape), rows)


# --- reading -----------------------------------------------------------------------------------------------------


def test_boxes_cover_a_range_in_order():
    sizes = (3, 4, 5)
    for start, stop in [(0, 60), (0, 0), (7, 8), (3, 59), (19, 41), (20, 40), (5, 15)]:
        rows = [
            np.ravel_multi_index(np.meshgrid(*(range(*ends) for ends in box), indexing="ij"), sizes).ravel()
            for box in boxes(sizes, start, stop)
        ]
        assert_array_equal(np.concatenate([*rows, np.empty(0, int)]), np.arange(start, stop))


def test_slabs_keep_to_their_size_and_chunks_are_read_once_when_they_fit():
    data = cube().transpose("band", ...).chunk(time=1, y=6, x=8, band=1)
    source = open_frame(data, "band")
    assert source.unit_rows == 6 * X
    assert source.slabs([0, 1000, T * Y * X]) == [0, 12 * X + Y * X, T * Y * X]
    assert source.reads == 1
    small = source.within(0)
    assert small.slab_bytes == 4 * 2**20
    tight = type(source)(source.array, source.frame, slab_bytes=3 * X * source.row_bytes)
    assert tight.unit_rows == 3 * X
    assert tight.reads == 2
    assert_array_equal(tight.array.read(100, 333), cube().values.reshape(-1, B)[100:333])


def test_slabs_smaller_than_chunks_change_nothing(monkeypatch, expected):
    monkeypatch.setattr("daskkcl.blocks.cubes._LEAST_SLAB_BYTES", 2 * X * B * 4)
    monkeypatch.setattr("daskkcl.blocks.cubes._SLAB_BYTES", 2 * X * B * 4)
    data = cube().transpose("band", ...).chunk(time=3, y=11, x=8, band=1)
    with pytest.warns(DaskkclWarning, match="decoded about 33 times a pass"):
        model = fit(data)
    assert_array_equal(model.labels_.values.ravel(), expected["okfcm"])


def test_a_chunk_that_cannot_be_read_is_named(tmp_path):
    cube().drop_vars("spatial_ref").to_zarr(tmp_path / "x.zarr", encoding={"reflectance": {"chunks": (1, 11, 31, 2)}})
    data = xr.open_zarr(tmp_path / "x.zarr")["reflectance"]
    model = fit(data)
    assert_array_equal(model.labels_.values, fit(cube()).labels_.values)
    (tmp_path / "x.zarr/reflectance/c/1/0/0/1").write_bytes(b"torn")
    with pytest.raises(StorageError, match=r"Chunk \(1, 0, 0, 1\)"):
        fit(data)


def test_bad_dimensions():
    with pytest.raises(InvalidInputError, match="say which of them is that of the features"):
        fit(cube(), feature_dim=None)
    with pytest.raises(InvalidInputError, match="Did you mean 'band'"):
        fit(cube(), feature_dim="bands")
    with pytest.raises(InvalidInputError, match="feature_dim= only goes with"):
        fit(np.ones((9, 2)), feature_dim="band")


def test_nan_is_refused_or_masked():
    with pytest.raises(InvalidInputError, match=r"row 0, column 1.*nan='drop'"):
        fit(cube().chunk(y=4), nan="raise")
    assert int(cube().daskkcl.fit(n_clusters=3, feature_dim="band", random_state=0).labels_[0, 0, 0]) == -1


# --- the accessor ------------------------------------------------------------------------------------------------


def test_the_accessor(expected):
    data = cube().chunk(y=9)
    model = data.daskkcl.fit("okfcm", 3, feature_dim="band", n_landmarks=40, random_state=0)
    assert_array_equal(model.labels_.values.ravel(), expected["okfcm"])
    assert_array_equal(data.daskkcl.predict(model).values.ravel(), expected["okfcm"])
    assert_array_equal(data.daskkcl.predict_proba(model).values.reshape(-1, 3), expected["membership"])
    assert_array_equal(
        data.to_dataset("band").daskkcl.fit("okfcm", 3, n_landmarks=40, random_state=0).labels_.values.ravel(),
        expected["okfcm"],
    )
    crisp = data.daskkcl.fit("akkmeans", 3, feature_dim="band", random_state=0)
    with pytest.raises(InvalidInputError, match="no memberships"):
        data.daskkcl.predict_proba(crisp)


@pytest.mark.parametrize("imports", ["import daskkcl, xarray", "import xarray, daskkcl"])
def test_the_accessor_is_there_whoever_is_imported_first(imports):
    code = f"{imports}; print(xarray.DataArray([[1.0, 2.0]]).daskkcl.fit.__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "fit"


# --- memory ------------------------------------------------------------------------------------------------------

SEGMENT = """
import sys, warnings
import xarray as xr, daskkcl
path, algo, limit, order = sys.argv[1:]
cube = xr.open_zarr(path)["x"].transpose(*order.split())
model = cube.daskkcl.fit(algo, 5, feature_dim="band", n_landmarks=30, random_state=0, memory_limit=limit,
                         progress=False, out=path + "-" + algo, overwrite=True,
                         **({"max_iter": 3} if algo == "akkmeans" else {}))
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(peak * 1024, model.plan_.peak_bytes, int(model.labels_[:9, :9].sum()))
"""


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("chunks", [(1, 300, 1100), (24, 110, 220), (6, 550, 550)], ids=str)
def test_a_cube_larger_than_the_limit_is_segmented_within_it(tmp_path, chunks):
    bands, side = 24, 2200  # 443 MiB
    shape, path = (bands, side, side), tmp_path / "cube.zarr"
    group = zarr.open_group(path, mode="w")
    target = group.create_array(
        "x", shape=shape, dtype="f4", chunks=chunks, dimension_names=("band", "y", "x"), compressors=None
    )
    rng = np.random.default_rng(0)
    lines = np.linspace(0, 6, side, dtype=np.float32)
    for a in range(0, side, chunks[1]):
        part = rng.standard_normal((bands, min(chunks[1], side - a), side), dtype=np.float32)
        target[:, a : a + chunks[1]] = part + np.floor(lines)[a : a + chunks[1], None] * 3
    limit = 430
    for algo, order in (("akkmeans", "band y x"), ("okfcm", "y x band")):
        found = subprocess.run(
            [sys.executable, "-c", SEGMENT, str(path), algo, f"{limit}MiB", order],
            capture_output=True,
            text=True,
            check=True,
        )
        peak, planned, _ = map(int, found.stdout.split())
        print(algo, chunks, f"peak {peak / 2**20:.0f} MiB, planned {planned / 2**20:.0f} MiB", found.stderr[-300:])
        assert peak < limit * 2**20 < bands * side * side * 4
        with xr.open_zarr(f"{path}-{algo}") as result:
            assert result.labels.shape == (side, side)
