"""What scikit-learn's users expect of transformers: output containers, names of features, clones, pipelines."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import daskkcl
from daskkcl.errors import InvalidInputError

MAPS = ["APNC", "Nystroem", "RandomFourier", "SVRandomFourier", "TensorSketch", "NystromNcut", "SparseSpectral"]


@pytest.fixture(scope="module")
def frame():
    X = np.random.default_rng(0).normal(size=(200, 4))
    X[:100] += 4
    return pd.DataFrame(X, columns=list("abcd"), index=[f"row {k}" for k in range(200)])


def small(name):
    map_ = getattr(daskkcl.maps, name)(random_state=0, progress=False)
    few = {"n_landmarks": 20} if "n_landmarks" in map_.get_params() else {"n_components": 16}
    return map_.set_params(**few)


@pytest.mark.parametrize("name", MAPS)
def test_maps_give_data_frames_when_asked(frame, name):
    map_ = small(name).fit(frame)
    plain = map_.transform(frame)
    assert isinstance(plain, np.ndarray)
    names = [f"{name.lower()}{k}" for k in range(plain.shape[1])]
    assert list(map_.get_feature_names_out()) == names
    assert list(map_.feature_names_in_) == list("abcd")
    table = map_.set_output(transform="pandas").transform(frame)
    assert list(table.columns) == names
    assert table.index.equals(frame.index)
    assert_array_equal(table.to_numpy(), plain)


@pytest.mark.parametrize("name", ["Nystroem", "SparseSpectral"])
def test_maps_are_cloned_and_piped(frame, name):
    map_ = small(name)
    twin = clone(map_.fit(frame))
    assert twin.get_params() == map_.get_params()
    assert not hasattr(twin, "plan_")
    model = daskkcl.ApproxKernelKMeans(2, map="identity", random_state=0, progress=False)
    pipeline = make_pipeline(StandardScaler(), twin, model).fit(frame.to_numpy())
    alone = clone(model).fit(clone(twin).fit_transform(StandardScaler().fit_transform(frame.to_numpy())))
    assert_array_equal(pipeline[-1].labels_, alone.labels_)
    assert pipeline[:2].get_feature_names_out()[0] == f"{name.lower()}0"


def test_a_column_transformer_names_what_comes_out(frame):
    parts = ColumnTransformer([("left", small("Nystroem"), ["a", "b"]), ("rest", "passthrough", ["d"])])
    names = list(parts.fit(frame).get_feature_names_out())
    assert names[0] == "left__nystroem0"
    assert names[-1] == "rest__d"


def test_lazy_answers_are_not_turned_into_data_frames(frame):
    lazy = da.from_array(frame.to_numpy(), chunks=(50, 4))
    map_ = small("Nystroem").set_output(transform="pandas").fit(lazy)
    model = daskkcl.ApproxKernelKMeans(2, n_landmarks=20, random_state=0).set_output(transform="pandas").fit(lazy)
    for one in (map_, model):
        with pytest.raises(InvalidInputError, match=r"would load all.*set_output"):
            one.transform(lazy)
        assert isinstance(one.set_output(transform="default").transform(lazy), da.Array)
    with sklearn.config_context(transform_output="pandas"), pytest.raises(InvalidInputError, match="'pandas'"):
        small("Nystroem").fit(lazy).transform(lazy)
    assert_allclose(map_.transform(lazy).compute(), map_.transform(frame.to_numpy()))


def test_our_own_scaler_does_what_a_pipeline_does(frame):
    X = frame.to_numpy() * [1, 1000, 0.001, 1]
    model = daskkcl.ApproxKernelKMeans(2, n_landmarks=20, random_state=0, progress=False)
    pipeline = make_pipeline(StandardScaler(), clone(model)).fit(X)
    assert_array_equal(clone(model).set_params(scale="standard").fit(X).labels_, pipeline[-1].labels_)
