"""Docstrings as people read them: examples that are executed, arguments that are told.

Examples assume the names of `GLOBALS`, fresh for each docstring; `...` in what they
print stands for anything, and blanks count as one.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import io
import pydoc
import re
from collections.abc import Iterator
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from docs.site import DOCS, MODULE, home_of, public_names
from docs.stubs import MODULES as STUBBED, stub_of
from ftrace import lax, nn
from ftrace.scipy.stats import norm
from ftrace.scipy.stats.family import Distribution
from ftrace.trace.eager.function_objects import Eager
from tests.docs.most_used import MOST_USED
from tests.docs.pages import ROOT

MODULES = MODULE.findall((DOCS / "api.md").read_text("utf-8"))
GLOBALS = {"ft": ft, "np": np, "fnp": fnp, "lax": lax, "nn": nn}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PARSER = doctest.DocTestParser()
FUNCTIONS = (FunctionType, Eager)
MEMBERS = (*FUNCTIONS, property, classmethod, staticmethod)


def values_of(module: str) -> dict[str, Any]:
    """What is of ours in a module, by public names."""
    found = import_module(module)
    values = {name: getattr(found, name) for name in public_names(found, MODULES)}
    return {
        name: value
        for name, value in values.items()
        if callable(value) and home_of(value).startswith("ftrace")
    }


def members_of(value: type) -> Iterator[tuple[str, Any]]:
    """What a class has of ours, its own and what it inherits."""
    for base in value.__mro__:
        if base.__module__.startswith("ftrace"):
            yield from vars(base).items()


def docstrings(module: str) -> Iterator[tuple[str, str]]:
    """(name, text) of the module, of what it has, and of the methods of its classes."""
    yield module, import_module(module).__doc__ or ""
    for name, value in values_of(module).items():
        yield f"{module}.{name}", value.__doc__ or ""
        for member, x in members_of(value) if isinstance(value, type) else ():
            if member[0] != "_" and isinstance(x, MEMBERS):
                yield f"{module}.{name}.{member}", x.__doc__ or ""
    for name, value in vars(import_module(module)).items():
        if isinstance(value, Distribution):
            for member in value.__all__:
                yield f"{module}.{name}.{member}", getattr(value, member).__doc__ or ""


@pytest.mark.parametrize("module", MODULES)
def test_examples_print_what_they_show(module: str) -> None:
    runner, told = (
        doctest.DocTestRunner(verbose=False, optionflags=FLAGS),
        io.StringIO(),
    )
    for name, text in docstrings(module):
        test = PARSER.get_doctest(inspect.cleandoc(text), GLOBALS, name, None, 0)
        runner.run(test, out=told.write)
    assert not told.getvalue(), told.getvalue()


def test_every_example_is_executed() -> None:
    """None stands in a docstring that is not public."""
    texts = [text for module in MODULES for _, text in docstrings(module)]
    run = {x.source.split("\n")[0] for t in texts for x in PARSER.get_examples(t)}
    for path in (ROOT / "ftrace").rglob("*.py"):
        shown = re.findall(r"^ *>>> (.*)$", path.read_text("utf-8"), re.MULTILINE)
        assert {*shown} <= run, path


@pytest.mark.parametrize("module", MOST_USED)
def test_most_used_names_have_an_example(module: str) -> None:
    known = dict(docstrings(module))
    names = MOST_USED[module].split()
    assert [n for n in names if ">>> " not in known[f"{module}.{n}"]] == []


@pytest.mark.parametrize("module", [m for m in STUBBED if m != "optim"])
def test_functions_of_arrays_have_an_example(module: str) -> None:
    home = import_module(f"ftrace.{module}")
    texts = {n: f.__doc__ or "" for n, f in values_of(home.__name__).items()
             if isinstance(f, FUNCTIONS)}  # fmt: skip
    for name, value in vars(home).items():
        if isinstance(value, Distribution):
            texts |= {f"{name}.{n}": vars(value)[n].__doc__ for n in value.__all__}
    lacking = [name for name, text in texts.items() if ">>> " not in text]
    assert [name for name in lacking if ": see `log" not in texts[name]] == []


def untold(function: Any) -> list[str]:
    """The parameters of which the docstring of a function says nothing.

    A single one may stand in the text, as in "e to the power x".
    """
    text = inspect.getdoc(function) or ""
    names = [*inspect.signature(function).parameters]
    section = re.search(r"^Args:\n((?: .*\n|\n)*)", f"{text}\n", re.MULTILINE)
    if section is None and len(names) == 1:
        return [name for name in names if not re.search(rf"\b{name}\b", text)]
    told = re.findall(r"^  ([\w*, ]+):", section[1] if section else "", re.MULTILINE)
    known = {name.strip("* ") for names in told for name in names.split(",")}
    return [name for name in names if name not in known]


@pytest.mark.parametrize("module", MODULES)
def test_every_argument_is_told_of(module: str) -> None:
    functions = {n: f for n, f in values_of(module).items() if isinstance(f, FUNCTIONS)}
    lacking = {name: untold(function) for name, function in functions.items()}
    assert {name: names for name, names in lacking.items() if names} == {}


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (fnp.einsum, "einsum(subscripts: 'Any', /, *operands: 'Any', out: 'None' = "),
        (fnp.exp, "exp(x: 'ArrayLike', /) -> 'Array'"),
        (fnp.add, "add(x1: 'ArrayLike', x2: 'ArrayLike', /, *, out: 'None' = None"),
        (lax.sin, "sin(x: 'ArrayLike', *, accuracy: 'Any' = None) -> 'Array'"),
        (norm.pdf, "pdf(x: 'ArrayLike', loc: 'ArrayLike' = 0, scale: 'ArrayLike' = 1)"),
        (ft.Array.sum, "sum(a: 'ArrayLike', axis: 'int | str | Sequence[int | str]"),
    ],
)
def test_help_shows_the_signature(function: Any, shown: str) -> None:
    text = pydoc.render_doc(function, renderer=pydoc.plaintext)
    # From Python 3.13 on each parameter of a long signature has a line of its own, from
    # 3.14 on annotations have no quotes.
    text = re.sub(r"\n +", " ", text).replace("( ", "(").replace("'", "")
    assert "\n" + shown.replace("'", "") in text


def declared(body: list[ast.stmt], home: Any) -> Iterator[tuple[Any, ast.FunctionDef]]:
    """The functions that a stub declares, and what they are."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == "__call__":
            yield home, node
        elif isinstance(node, ast.FunctionDef):
            yield getattr(home, node.name), node
        elif isinstance(node, ast.ClassDef) and node.name[0] == "_":
            yield from declared(node.body, getattr(home, node.name[1:]))


@pytest.mark.parametrize("module", STUBBED)
def test_signatures_say_what_the_stub_says(module: str) -> None:
    home = import_module(f"ftrace.{module}")
    for function, node in declared(ast.parse(stub_of(module)).body, home):
        if isinstance(function, Eager):
            shown, told = inspect.signature(function), node.args
            arguments = [*told.posonlyargs, *told.args, *told.kwonlyargs]
            arguments += [x for x in (told.vararg, told.kwarg) if x]
            types = {x.arg: x.annotation for x in arguments if x.arg != "self"}
            said = {name: p.annotation for name, p in shown.parameters.items()}
            types["return"], said["return"] = node.returns, shown.return_annotation
            texts = {k: ast.unparse(t) for k, t in types.items() if t is not None}
            assert {k: re.sub(r"\b_", "", t) for k, t in texts.items()} == said, (
                function
            )


@pytest.mark.parametrize("module", STUBBED)
def test_signatures_name_no_types_of_our_own(module: str) -> None:
    known = values_of(f"ftrace.{module}").items()
    functions = {n: f for n, f in known if isinstance(f, FUNCTIONS)}
    shown = {name: str(inspect.signature(f)) for name, f in functions.items()}
    inner = re.compile(r"\b(Value|Dtype|ax\.\w+)\b")
    assert {name: text for name, text in shown.items() if inner.search(text)} == {}
