"""What the site is made of. Sphinx itself is run by `make site`, in CI."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from docs.docstrings import as_restructured_text, process
from docs.site import DOCS, LINK, MODULE, for_site, module_pages, write_sources

API = (DOCS / "api.md").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation() -> None:
    index = for_site("index.md", (DOCS / "index.md").read_text(encoding="utf-8"))
    trees = re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL)
    listed = [page for tree in trees for page in re.findall(r"<(\S+\.md)>", tree)]
    pages = {path.name for path in DOCS.glob("*.md")} - {"index.md"}
    assert len(listed) == len(set(listed))
    assert pages <= set(listed), f"docs/index.md links none of {pages - set(listed)}"


def test_links_out_of_docs_lead_to_copies(tmp_path: Path) -> None:
    write_sources(tmp_path)
    for path in tmp_path.rglob("*.md"):
        prose = re.sub(
            r"```.*?```|`[^`]*`", "", path.read_text("utf-8"), flags=re.DOTALL
        )
        for target in LINK.findall(prose):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_api_has_what_users_import_first() -> None:
    pages = dict(module_pages(MODULE.findall(API)))
    for name in (
        "ftrace.jit",
        "ftrace.numpy.einsum",
        "ftrace.lax.scan",
        "ftrace.Array",
    ):
        module, _, short = name.rpartition(".")
        assert f".. autofunction:: {short}\n" in pages[module] or (
            f".. autoclass:: {short}\n" in pages[module]
        )
    assert sum(page.count("\n.. auto") for page in pages.values()) > 1000
    for module, page in pages.items():
        assert page.startswith(f"{module}\n="), module
        import_module(module)


def test_no_module_is_described_within_another() -> None:
    """`ftrace.dtypes` uses exceptions of `ftrace.errors`, and does not offer them."""
    pages = dict(module_pages(["ftrace.dtypes", "ftrace.errors"]))
    assert "DtypeError" not in pages["ftrace.dtypes"]
    assert ".. autoclass:: DtypeError" in pages["ftrace.errors"]


def test_what_two_modules_have_is_described_once() -> None:
    pages = dict(module_pages(["ftrace", "ftrace.custom_derivatives"]))
    assert ".. autoclass:: custom_jvp" in pages["ftrace"]
    other = pages["ftrace.custom_derivatives"]
    assert "The same as :py:obj:`ftrace.custom_jvp`" in other


def test_an_alias_leads_to_the_name_that_a_class_has() -> None:
    (_, page) = next(module_pages(["ftrace.numpy"]))
    assert ".. autoclass:: complex64\n" in page
    assert (
        ".. py:class:: csingle\n\n   The same as :py:obj:`ftrace.numpy.complex64`"
        in page
    )


def test_what_a_property_says_before_a_colon_is_no_type() -> None:
    lines = ["How it lies: on one, unless: never."]
    process(None, "property", "", None, None, lines)
    assert lines == ["How it lies:", "on one, unless: never."]


@pytest.mark.parametrize(
    ("docstring", "found"),
    [
        ("|x| as `x`.", r"\|x\| as ``x``."),
        ("f(*args) of `Node`s.", r"f(\*args) of ``Node``\ s."),
        ("`a\nb` and c", "``a b`` and c"),
        ("Text:\n\n    x -> y\n\nmore", "Text:\n\n\n::\n\n    x -> y\n\n\nmore"),
        ("Args:\n  x: a `y`.", "Args:\n  x: a ``y``."),
        (">>> f(*x)\n1\n\nmore", "\n>>> f(*x)\n1\n\n\nmore"),
    ],
)
def test_docstrings_keep_their_signs(docstring: str, found: str) -> None:
    lines = as_restructured_text(docstring.split("\n"))
    assert "\n".join(lines).strip("\n") == found.strip("\n")
