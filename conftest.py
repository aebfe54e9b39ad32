"""Examples in docstrings that need what is optional run where it is installed."""

from importlib.util import find_spec

import pytest

NEEDS = {"daskkcl.rules.index.CentreIndex": "faiss"}


def pytest_collection_modifyitems(items):
    for item in items:
        module = NEEDS.get(item.name)
        if module and find_spec(module) is None:
            item.add_marker(pytest.mark.skip(reason=f"needs {module}: pip install 'daskkcl[index]'"))
