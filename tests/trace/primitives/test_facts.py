"""Facts of a primitive stand in its record, and are true."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ftrace as ft
from ftrace.trace.avals import ShapedArray
from ftrace.trace.primitives import broadcast, elementwise, indexing, movement
from ftrace.trace.primitives.primitive import COMPOUNDS, PRIMITIVES, Primitive

PACKAGE = Path(ft.__file__).parent

#: Longer lists of names are facts of primitives, but for these.
LONGEST = 5
#: What names have to be listed for that is no fact of the primitives.
OTHERS = {
    # Of processors: cycles; what has an instruction.
    "backends/llvm/schedule/vector_cost.py:_LATENCY",
    "lower/legalize/legalize.py:PLAIN",
    "backends/llvm/schedule/vector_cost.py:_COST",
    # Of NumPy: what repeats its operands by itself.
    "trace/evaluate.py:_BROADCASTING",
    # Of our formulas: their errors.
    "lower/legalize/legalize.py:ACCURACY",
    # Of what users call.
    "extend.py:_NAMES",
}
#: Names of functions that users call, beside which those of primitives stand.
SURFACE = ("numpy", "lax", "scipy", "nn", "random", "optim", "compat")

NUMBERS = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 20.0, -120.0, 1e-30, 3e38, -3e38,
     math.inf, -math.inf, math.nan, 2.0, math.pi],
    np.float32,
)  # fmt: skip


def variables() -> dict[str, str]:
    """Names of the primitives by those of the variables that hold them."""
    modules = (broadcast, elementwise, indexing, movement)
    found = {k: v for module in modules for k, v in vars(module).items()}
    return {k: v.name for k, v in found.items() if isinstance(v, Primitive)}


def listed(node: ast.expr) -> list[ast.expr]:
    """The elements of a list; of a table those that stand beside constants."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        return listed(node.args[0])
    if isinstance(node, (ast.Set, ast.List, ast.Tuple)):
        return node.elts
    if not isinstance(node, ast.Dict):
        return []
    try:
        ast.literal_eval(ast.Tuple(node.values))
    except ValueError:
        return []  # of what is done for each
    return [key for key in node.keys if key is not None]


def lists_of_primitives() -> Iterator[tuple[str, int]]:
    """(file:variable, how many names of primitives it holds)."""
    names, held = {*PRIMITIVES, *COMPOUNDS}, variables()
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if file.startswith((*SURFACE, "trace/primitives/")):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            elements = listed(node.value)
            found = [
                e
                for e in elements
                if (isinstance(e, ast.Constant) and e.value in names)
                or (isinstance(e, ast.Name) and e.id in held)
                or (isinstance(e, ast.Attribute) and e.attr in held)
            ]
            if len(found) * 2 > len(elements):
                yield f"{file}:{ast.unparse(targets[0])}", len(found)


def test_no_module_but_theirs_lists_primitives() -> None:
    long = {name for name, count in lists_of_primitives() if count > LONGEST}
    assert long == OTHERS


FUNCTIONS = [
    p
    for p in PRIMITIVES.values()
    if p.family == "unary" and "f" in p.dtypes and p.name != "bitcast"
]


@pytest.mark.parametrize("primitive", FUNCTIONS, ids=str)
def test_facts_of_functions_are_true(primitive: Primitive) -> None:
    aval = ShapedArray.of(NUMBERS.shape, NUMBERS.dtype)
    with np.errstate(all="ignore"):
        value = np.asarray(primitive.numpy(aval, None, NUMBERS))
    is_nan = np.isnan(value)
    if primitive.keeps_nan:
        assert is_nan[np.isnan(NUMBERS)].all()
    if primitive.range is not None:
        low, high = primitive.range
        assert (is_nan == np.isnan(NUMBERS)).all()
        assert ((value >= low) & (value <= high))[~is_nan].all()
    zeros = NUMBERS[value == 0]
    if primitive.zero_for == "zero":
        assert (zeros == 0).all()
    if primitive.zero_for == "finite":
        assert np.isfinite(zeros).all()


@pytest.mark.parametrize("primitive", FUNCTIONS, ids=str)
def test_what_jumps_says_so(primitive: Primitive) -> None:
    at = np.array([-1.5, -0.5, 0, 0.5, 1, 1.5, math.inf], np.float32)
    aval = ShapedArray.of(at.shape, at.dtype)
    with np.errstate(all="ignore"):
        below, above = (
            np.asarray(primitive.numpy(aval, None, np.nextafter(at, to)), np.float32)
            for to in np.float32([-math.inf, math.inf])
        )
        apart = np.abs(above - below)
    # Further apart they are beside a pole.
    assert ((apart >= 0.5) & (apart <= 2)).any() == primitive.jumps


def test_thresholds_of_tiers_stand_in_one_table() -> None:
    """When a call is compiled: by `trace/tiering.py`, and by records of operations."""
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    found = [
        f"{path.relative_to(PACKAGE).as_posix()}:{name.id}"
        for path, text in texts.items()
        if re.search("PAYS|SPENT|CALLS_|KINDS_|RECORDS", text)
        for statement in ast.parse(text).body
        if isinstance(statement, ast.Assign)
        for name in ast.walk(statement)
        if isinstance(name, ast.Name)
        and isinstance(name.ctx, ast.Store)
        and re.search("PAYS|SPENT|CALLS_(BEFORE|OF)|KINDS_|RECORDS$", name.id)
    ]
    assert {name.split(":")[0] for name in found} == {"trace/tiering.py"}
