"""Facts of a primitive stand in its record, and are true."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.trace.avals import ShapedArray
from ftrace.trace.primitives import broadcast, elementwise, indexing, movement, ranges
from ftrace.trace.primitives.primitive import COMPOUNDS, PRIMITIVES, Primitive

PACKAGE = Path(ft.__file__).parent

#: Longer lists and tables of names are facts of primitives, but for these.
LONGEST = 5
OTHERS = {
    # Of processors: what has an instruction, and what it is in their languages.
    "backends/opencl/scalar_ops.py:_ROWS",
    "backends/llvm/scalar/ops.py:OPERATIONS",
    # Of our formulas, which are made of other primitives: they are for devices, of
    # which records know nothing.
    "lower/legalize/legalize.py:_STRUCTURAL",
    "lower/legalize/complex.py:COMPLEX",
    # Of integers, which `range` is not: no limit and no NaN, but what wraps around.
    "lower/kernel/integer_bounds.py:_RULES",
    # Of NumPy: what repeats its operands by itself.
    "trace/evaluate.py:_BROADCASTING",
    # Of LAPACK: how it is called.
    "backends/llvm/library/lapack/render.py:_ROUTINES",
    # Of meshes: what combines the parts of devices, from a later family.
    "transforms/partition/rules.py:_COMBINED",
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


def listed(node: ast.expr) -> list[ast.expr | None]:
    """The elements of a list, the keys of a table."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        return listed(node.args[0])
    if isinstance(node, ast.Dict):
        return [*node.keys]
    return [*node.elts] if isinstance(node, (ast.Set, ast.List, ast.Tuple)) else []


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


OF_FLOATS = [
    p
    for p in PRIMITIVES.values()
    if p.family in ("unary", "identity", "binary") and "f" in p.dtypes and not p.moves
]
FUNCTIONS = [p for p in OF_FLOATS if p.family == "unary"]
STATED = [p for p in OF_FLOATS if p.keeps_nan or p.range or p.zero_for]

INTERVALS = [
    ranges.ANYTHING,
    *itertools.starmap(
        ranges.Interval,
        [(0, math.inf), (-math.inf, 0), (0.5, 20), (-3, -0.5), (-1, 1), (-120, 3e38)],
    ),
]


def value(primitive: Primitive, *arrays: Any) -> Any:
    aval = ShapedArray.of(arrays[0].shape, arrays[0].dtype)
    with np.errstate(all="ignore"):
        return np.asarray(primitive.numpy(aval, None, *arrays))


@pytest.mark.parametrize("primitive", STATED, ids=str)
def test_what_is_said_of_nan_and_of_zeros_is_true(primitive: Primitive) -> None:
    pairs = np.repeat(NUMBERS, len(NUMBERS)), np.tile(NUMBERS, len(NUMBERS))
    operands = pairs if primitive.family == "binary" else pairs[:1]
    result = value(primitive, *operands)
    if primitive.keeps_nan:
        assert np.isnan(result[np.isnan(operands).any(0)]).all()
    zeros = operands[0][result == 0]
    if primitive.zero_for == "zero":
        assert (zeros == 0).all()
    if primitive.zero_for == "finite":
        assert np.isfinite(zeros).all()


def inside(where: ranges.Interval) -> Any:
    """Numbers of an interval, its ends and NaN."""
    numbers = np.append(NUMBERS, np.float32(where))
    return numbers[~((numbers < where.low) | (numbers > where.high))]


@pytest.mark.parametrize("primitive", [p for p in STATED if p.range], ids=str)
def test_results_are_where_ranges_say(primitive: Primitive) -> None:
    for a, b in itertools.product(INTERVALS, INTERVALS):
        x, y = inside(a), inside(b)
        if primitive.family == "binary":
            operands = [np.repeat(x, len(y)), np.tile(y, len(x))]
            check_range(primitive, a, b, False, *operands)
            check_range(primitive, a, a, True, x, x)
        else:
            check_range(primitive, a, a, True, x)


def check_range(
    primitive: Primitive, a: ranges.Interval, b: ranges.Interval, same: bool, *xs: Any
) -> None:
    rule = primitive.range
    assert rule is not None
    (low, high), safe = rule(a, b, same) if callable(rule) else (rule, True)
    result = value(primitive, *xs).astype(float)
    is_nan = np.isnan(result)
    if safe:
        assert (is_nan == np.isnan(xs).any(0)).all()
    # Rounded it is a last bit outside; what is so large may be rounded to infinity.
    low, high = low - abs(low) / 1e6, high + abs(high) / 1e6
    assert (result >= low)[~is_nan].all() or low < -1e37
    assert (result <= high)[~is_nan].all() or high > 1e37


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
