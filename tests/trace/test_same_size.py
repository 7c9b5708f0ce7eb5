"""Sizes are compared by `same_size`: `==` of a dynamic one may have no answer.

The walk below knows what is a size by where it comes from: an attribute or a parameter
of such a name, an element of one, or a name that is bound to one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

import ftrace as ft
from ftrace import errors
from ftrace.trace.symbolic import same_size
from tests.ground.test_import_floors import PACKAGE

#: Attributes, and parameters of functions, that hold sizes.
SIZES = {"length", "shape", "shapes", "size", "sizes"}
#: Functions that give sizes of sizes.
KEEP = {"prod", "min", "max", "tuple", "list", "reversed", "set", "sum", "abs"}

#: What works on graphs and kernels, whose sizes may be dynamic.
FOLDERS = ("trace", "lower", "transforms", "backends")
#: Files that see arrays, meshes, and kernels and graphs of sizes that are numbers: what
#: is divided over devices has no other ones.
NUMBERS = (
    "backends/llvm/emit/addressing.py", "backends/llvm/emit/blocked_ranges.py",
    "backends/llvm/ir/", "backends/llvm/library/fft/", "backends/llvm/library/lapack/",
    "backends/llvm/library/sort/",
    "backends/llvm/register_loops.py",
    "lower/library/fft_radices.py",
    "trace/arrays/", "trace/primitives/numpy_sums.py",
    "trace/primitives/library/lapack_numpy.py",
    "trace/primitives/reference.py", "transforms/meshes.py", "transforms/partition/",
)  # fmt: skip


class Walk(ast.NodeVisitor):
    """The lines of a module in which a size is compared by an operator."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.found: list[tuple[int, str]] = []

    def holds(self, node: ast.expr) -> bool:
        """Is it a size, or made of sizes?"""
        match node:
            case ast.Attribute():
                return node.attr in SIZES
            case ast.Name():
                return node.id in self.names
            case ast.Subscript() | ast.Starred():
                return self.holds(node.value)
            case ast.BinOp():
                return self.holds(node.left) or self.holds(node.right)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name in KEEP and any(map(self.holds, node.args))
            case ast.Tuple() | ast.List():
                return any(map(self.holds, node.elts))
            case ast.GeneratorExp() | ast.ListComp() | ast.SetComp():
                outer, self.names = self.names, set(self.names)
                for generator in node.generators:
                    self.draw(generator.target, generator.iter)
                found, self.names = self.holds(node.elt), outer
                return found
            case _:
                return False

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            if self.holds(value):
                self.names.add(target.id)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)):
                for one, other in zip(target.elts, value.elts, strict=False):
                    self.bind(one, other)
            else:
                for one in target.elts:
                    self.bind(one, value)

    def draw(self, target: ast.expr, source: ast.expr) -> None:
        """`for target in source`."""
        match source, target:
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]), ast.Tuple(
                elts=[_, other]
            ):
                self.draw(other, inner)
            case ast.Call(func=ast.Name(id="zip"), args=parts), ast.Tuple(elts=names):
                for one, part in zip_longest(names, parts):
                    if one is not None and part is not None:
                        self.draw(one, part)
            case ast.Call(func=ast.Name(id="range")), _:
                pass
            case _:
                self.bind(target, source)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer = self.names
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self.names = outer | {a.arg for a in arguments} & SIZES
        self.generic_visit(node)
        self.names = outer

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self.bind(target, node.value)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.bind(node.target, node.value)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self.draw(node.target, node.iter)
        self.generic_visit(node)

    def _comprehension(self, node: ast.GeneratorExp | ast.ListComp) -> None:
        outer = self.names
        self.names = set(outer)
        for generator in node.generators:
            self.draw(generator.target, generator.iter)
        self.generic_visit(node)
        self.names = outer

    visit_GeneratorExp = visit_ListComp = visit_SetComp = _comprehension
    visit_DictComp = _comprehension

    def visit_Compare(self, node: ast.Compare) -> None:
        parts = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, parts, parts[1:], strict=False):
            match operator, left, right:
                case ((ast.In() | ast.NotIn()), ast.Constant(value=0), _):
                    asks = False  # no size is 0 for some calls alone
                case ((ast.In() | ast.NotIn()), _, (ast.Tuple() | ast.Attribute())):
                    asks = True
                case ((ast.Eq() | ast.NotEq()), _, ast.Tuple(elts=[])):
                    asks = False
                case ((ast.Eq() | ast.NotEq()), _, _):
                    asks = True
                case _:  # sets and tables look for a hash first
                    asks = False
            if asks and (self.holds(left) or self.holds(right)):
                self.found.append((node.lineno, ast.unparse(node)))
        self.generic_visit(node)


def compared(path: Path) -> list[tuple[int, str]]:
    walk = Walk()
    walk.visit(ast.parse(path.read_text()))
    return walk.found


def files() -> Iterator[str]:
    for folder in FOLDERS:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            if not name.startswith(NUMBERS):
                yield name
    yield "numpy/axes.py"


@pytest.mark.parametrize("name", list(files()))
def test_sizes_are_compared_by_a_function(name: str) -> None:
    found = compared(PACKAGE / name)
    assert not found, f"{name}: ask `same_size`: {found}"


@pytest.mark.parametrize("name", NUMBERS)
def test_files_that_are_left_out_have_a_reason_to_be(name: str) -> None:
    folder = PACKAGE / name
    paths = [folder] if name.endswith(".py") else folder.rglob("*.py")
    assert any(compared(path) for path in paths)


def test_the_walk_finds_sizes_by_where_they_come_from(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(
        "def f(x, y, size):\n"
        "    n, m = x.shape\n"
        "    a = [k for i, k in enumerate(y.shape) if k != 1]\n"
        "    if x.shape == y.shape or n == size or m not in (1, n):\n"
        "        return 0 in x.shape, x.shape == (), n in {1, 2}, len(a) == 1\n"
    )
    found = [text for _, text in compared(path)]
    assert found == ["k != 1", "x.shape == y.shape", "n == size", "m not in (1, n)"]


N, M = ft.Dim("n", 2), ft.Dim("m", 2)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (3, 3, True), (N, N, True), (N + M - M, N, True), (N, 1, False), (N, M, False),
        (N - 1, 1, False), ((N, 4), (N, 4), True), ((N, 4), (M, 4), False),
        ((N, 4), (3,), False), ((N - 1) * (N + 1), N * N - 1, True), (N // 2, N, False),
    ],
    ids=str,
)  # fmt: skip
def test_same_size_is_what_is_known(a: Any, b: Any, same: bool) -> None:
    assert same_size(a, b) is same
    assert same_size(b, a) is same


@pytest.mark.parametrize("module", ["users", "ftrace.lower.simplify.algebra"])
def test_equality_means_the_same_wherever_it_stands(module: str) -> None:
    space = {"__name__": module, "n": N - 1}
    for text in ("n == 1", "n != 1", "(n, 2) == (1, 2)", "1 in (n,)"):
        with pytest.raises(errors.DynamicDimensionError, match="depends on the sizes"):
            eval(text, space)


def test_sizes_in_tables_are_told_apart_without_a_comparison() -> None:
    """Python's -1 and -2 have one hash."""
    sizes = [N - M, 2 * N - 2 * M, N - 1, N - 2, -N, -2 * N, N - 2 * M]
    assert len({hash(size) for size in sizes}) == len(set(sizes)) == len(sizes)
