"""Sphinx: `make docs` builds the site into docs/_build/html; a warning is an error."""

from __future__ import annotations

import daskkcl

project = "daskkcl"
author = "daskkcl developers"
copyright = "daskkcl developers"
version = release = daskkcl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "daskkcl"
html_theme_options = {"navigation_with_keys": True}

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc says them in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
nitpicky = False
