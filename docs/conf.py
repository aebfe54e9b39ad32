"""Sphinx: `make docs` builds the site into docs/_build/html; a warning is an error."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

import daskkcl

project = "daskkcl"
author = "daskkcl developers"
copyright = "daskkcl developers"
version = release = daskkcl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "numpydoc",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
html_math_renderer = "mathml"  # browsers draw it themselves: equations are seen without a network and without scripts
html_theme = "furo"
html_title = "daskkcl"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc says them in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
nitpicky = False

# `make links` follows every link. Publishers turn machines away from where a DOI leads: that it leads there is enough.
linkcheck_allowed_redirects = {r"https://doi\.org/.*": r"https?://.*"}
linkcheck_timeout, linkcheck_retries, linkcheck_workers = 20, 2, 4
linkcheck_report_timeouts_as_broken = False

_DOI = re.compile(r"\bdoi:(10\.\d{4,9}/[^\s,;:'`]*[^\s,;:.'`)])(?=[)\s,;:.'`]|$)")


def link_dois(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Turn the DOIs of docstrings into links."""
    lines[:] = [_DOI.sub(r"`doi:\1 <https://doi.org/\1>`__", line) for line in lines]


def mathml(latex: str, display: str) -> str:
    """Return an equation in MathML.

    Examples
    --------
    >>> mathml("x", "inline")
    '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline"><mrow><mi>x</mi></mrow></math>'
    """
    latex = re.sub(r"\\mathrel\{([+-])\}=", r"\\mathrel{\1=}", latex)
    latex = re.sub(r"\\[lr]Vert", r"\\|", latex)
    return re.sub(
        r"<mo><mrow><mo>(&#x\w+;)</mo><mo>(&#x\w+;)</mo></mrow></mo>", r"<mo>\1\2</mo>", convert(latex, display=display)
    )


def visit_math(translator: Any, node: Any) -> None:
    """Write an equation in a line of text."""
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_math_block(translator: Any, node: Any) -> None:
    """Write an equation on a line of its own, which can be scrolled on narrow screens."""
    translator.body.append(f'<div class="math-block">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Tell Sphinx."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.connect("autodoc-process-docstring", link_dois)
