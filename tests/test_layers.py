"""Imports go only downward, heavy libraries stay where they belong, and only the schedules compute."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import daskkcl

PACKAGE = Path(daskkcl.__file__).parent
# From the bottom to the top. A module imports from its own layer or from one below.
LAYERS = (
    "errors",
    "random",
    "system",
    "planning",
    "progress",
    "kernels",
    "maps",
    "rules",
    "blocks",
    "schedules",
    "measures",
    "drawing",
    "estimators",
    "capacity",
    "api",
    "xarray",
    "demo",
    "cli",
    "__init__",
    "__main__",
)
COMPUTING = {"dask", "distributed", "zarr", "xarray", "fsspec"}
MAY_IMPORT_THEM = {"blocks", "schedules", "estimators", "capacity", "api", "xarray", "demo", "cli"}
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def layer_of(module: Path) -> str:
    return module.parts[0].removesuffix(".py")


def tree_of(module: Path) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text(), filename=str(module))


def imported(module: Path) -> set[str]:
    """Return every imported module by its absolute name, imports for the type checker left out."""
    package = ["daskkcl", *module.parent.parts]
    names: set[str] = set()
    tree = tree_of(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            home = ".".join([*base, *([node.module] if node.module else [])])
            # "from . import x" may mean the module x of the package, or something in its __init__
            names |= {f"{home}.{alias.name}" if home in {"", "daskkcl"} else home for alias in node.names}
    return names


def layer_of_import(name: str) -> str | None:
    parts = name.split(".")
    if parts[0] != "daskkcl":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "__init__"


def test_every_module_has_a_layer():
    assert {layer_of(module) for module in MODULES} - set(LAYERS) == set()


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_no_module_imports_upward(module):
    own = LAYERS.index(layer_of(module))
    upward = {name for name in imported(module) if (layer := layer_of_import(name)) and LAYERS.index(layer) > own}
    assert not upward, f"{module} is in layer {LAYERS[own]!r} and imports upward: {sorted(upward)}"


@pytest.mark.parametrize("module", [m for m in MODULES if layer_of(m) not in MAY_IMPORT_THEM], ids=str)
def test_maths_knows_nothing_of_dask_or_zarr(module):
    heavy = {name for name in imported(module) if name.split(".")[0] in COMPUTING}
    assert not heavy, f"{module} imports {sorted(heavy)}"


@pytest.mark.parametrize("module", [m for m in MODULES if layer_of(m) != "schedules"], ids=str)
def test_only_the_schedules_compute(module):
    calls = [
        f"line {node.lineno}: {ast.unparse(node)[:60]}"
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"compute", "persist", "compute_chunk_sizes"}
    ]
    assert not calls, f"{module} computes: {calls}"


def test_the_reader_of_imports_sees_what_it_should():
    assert "daskkcl.errors" in imported(Path("blocks/sources.py"))
    assert "zarr" in imported(Path("blocks/opening.py"))  # inside a function
    assert "daskkcl.kernels" in imported(Path("maps/landmarks.py"))
    assert layer_of_import("daskkcl.schedules.engine") == "schedules"
    assert layer_of_import("daskkcl.fit") == "__init__"
    assert layer_of_import("numpy") is None


def loaded_after(code: str) -> set[str]:
    found = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(found.stdout.split())


def test_importing_the_package_is_light():
    heavy = {"numba", "distributed", "sklearn", "dask.array", "zarr", "xarray", "pandas", "scipy.linalg", "matplotlib"}
    assert not heavy & loaded_after("import daskkcl; dir(daskkcl); daskkcl.__version__; daskkcl.errors")


def test_clustering_a_zarr_loads_nothing_that_it_does_not_need():
    code = """
import tempfile, numpy as np, zarr, daskkcl
path = tempfile.mkdtemp() + "/x.zarr"
zarr.create_array(path, data=np.random.default_rng(0).normal(size=(200, 2)), chunks=(50, 2))
daskkcl.fit(path, "okfcm", n_clusters=2, n_landmarks=20, random_state=0)
"""
    unwanted = {"numba", "distributed", "matplotlib", "sklearn.cluster"}
    if importlib.util.find_spec("sparse"):  # dask imports it wherever it is installed, and it imports numba
        unwanted.remove("numba")
    assert not unwanted & loaded_after(code)
