"""Settings of Sphinx for the site; `docs/site.py` builds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.domains.python import PyObject

from docs import docstrings
from ftrace import __version__

project = "ftrace"
author = "the ftrace authors"
html_show_copyright = False
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
#: Formulas between dollars, as code hosts read them: pages have them as MathML, which
#: browsers draw without a script.
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
#: Titles down to this level can be linked to, by the names that code hosts give them.
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = f"ftrace {version}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


# Napoleon makes variables of the attributes of a class; their heading shall be ours.
for field in PyObject.doc_field_types:
    if field.name == "variable":
        field.label = "Attributes"


def _formula(display: str) -> tuple[Callable[[Any, Any], None], None]:
    def visit(page: Any, node: Any) -> None:
        page.body.append(convert(node.astext(), display=display))
        raise SkipNode

    return visit, None


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", _formula("inline"), _formula("block"))
    app.connect("autodoc-process-docstring", docstrings.process, priority=400)
    app.connect("autodoc-skip-member", docstrings.skip)
