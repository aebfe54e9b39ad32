"""Every public name is documented with an example that runs (the examples themselves run as doctests)."""

import inspect
import re
from pathlib import Path

import pytest

import daskkcl
from daskkcl import errors, kernels

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = [
    pytest.param(getattr(module, name), id=f"{module.__name__}.{name}")
    for module in (daskkcl, kernels)
    for name in module.__all__
    if inspect.isclass(getattr(module, name)) or inspect.isfunction(getattr(module, name))
]
ESTIMATORS = list(daskkcl.algorithms().values())


@pytest.mark.parametrize("thing", PUBLIC)
def test_public_names_have_a_runnable_example(thing):
    assert ">>> " in (thing.__doc__ or ""), f"{thing.__name__} has no example"


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_are_documented(name):
    assert getattr(errors, name).__doc__


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_every_parameter_and_method_is_documented(cls):
    documented = set()
    for line in re.findall(r"^(\w[\w, ]*) : ", cls.__doc__, flags=re.MULTILINE):
        documented |= {name.strip() for name in line.split(",")}
    assert set(cls._get_param_names()) <= documented
    model_attributes = {"labels_", "cluster_sizes_", "n_clusters_", "n_iter_", "history_", "plan_", "gamma_"}
    assert model_attributes <= documented
    for name in ("fit", "predict", "transform", "score", "save", "fit_predict", "labels_"):
        assert inspect.getdoc(getattr(cls, name)), name
    assert re.search(r"doi:10\.\d{4,}/", cls.__doc__), "the paper is cited with its DOI"


def test_the_signature_of_fit_is_the_documented_contract():
    parameters = list(inspect.signature(daskkcl.fit).parameters)
    assert parameters == [
        "data",
        "algo",
        "n_clusters",
        "kernel",
        "gamma",
        "map",
        "landmarks",
        "n_landmarks",
        "scale",
        "memory_limit",
        "dtype",
        "random_state",
        "init",
        "nan",
        "missing",
        "sample_weight",
        "out",
        "overwrite",
        "scratch",
        "checkpoint",
        "progress",
        "client",
        "component",
        "storage_options",
        "feature_dim",
        "algorithm_parameters",
    ]


def test_links_between_the_documents_lead_somewhere():
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
