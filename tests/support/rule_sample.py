"""What the rows of rewrite rules are made of: variables, operations in short, values.

A row (`Row`) has a graph that its rule matches and one that it must leave alone. The
rows themselves stand in `rule_samples_algebra.py` and its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.evaluate import evaluate
from ftrace.trace.graph import Node, toposort
from ftrace.trace.primitives import elementwise as e, movement as m, reduction as r
from ftrace.trace.primitives.broadcast import expand_p, reduce_sum_p
from ftrace.trace.primitives.sources import const, is_variable, variable

SPECIAL = "special"
SIGNLESS = "signless"
SMALL = "small"

f16, f32, f64, bf16 = dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bfloat16
i8, i32, u8, b1 = dtypes.int8, dtypes.int32, dtypes.uint8, dtypes.bool_
c64 = dtypes.complex64


def V(*shape: int, dtype: Any = f32, number: int = 0) -> Node:
    """A variable."""
    return variable(ShapedArray.of(shape, dtype), 0, number)


def C(value: Any, *shape: int, dtype: Any = f32) -> Node:
    """A constant."""
    return const(value, dtype, shape)


@dataclass(frozen=True)
class Row:
    """What matches the rule, what must not, and which values they get.

    A builder gives the outputs of a graph, or its only one.
    """

    match: Callable[[], Node | list[Node]]
    other: Callable[[], Node | list[Node]]
    values: str = SPECIAL


# Variables that most rows use. A shape of (4, 6) has room for all special values.
x, y, z = (V(4, 6, number=i) for i in range(3))
i, j = (V(4, 6, dtype=i32, number=k) for k in (3, 4))
p, q = (V(4, 6, dtype=b1, number=k) for k in (5, 6))
h = V(4, 6, dtype=f16, number=7)
w = V(4, 6, dtype=c64, number=8)
row, column = V(1, 6, number=9), V(4, 1, number=10)
cube = V(2, 3, 4, number=11)


def like(node: Node, value: Any) -> Node:
    return const(value, node.dtype, node.shape)


def reshape(node: Node, *shape: int) -> Node:
    return m.reshape_p(node, arg=shape)


def expand(node: Node, *shape: int) -> Node:
    return expand_p(node, arg=shape)


def permute(node: Node, *axes: int) -> Node:
    return m.permute_p(node, arg=axes)


def pad(node: Node, *pads: tuple[int, int, int]) -> Node:
    return m.pad_p(node, arg=pads)


def shrink(node: Node, *bounds: tuple[int, int]) -> Node:
    return m.shrink_p(node, arg=bounds)


def stride(node: Node, *steps: int) -> Node:
    return m.stride_p(node, arg=steps)


def slid(node: Node, size: int, stride: int = 1, dilation: int = 1) -> Node:
    """Axis 1 slides over the windows of axis 0."""
    return m.unshear_p(node, arg=m.Shear(1, 0, stride, dilation, size))


def total(node: Node, *axes: int) -> Node:
    return reduce_sum_p(node, arg=axes)


def contraction(rows: int, columns: int, size: int, dtype: Any = f32) -> Node:
    """The sum over the last axis of products of which both factors are used again."""
    x, y = V(rows, 1, size, dtype=dtype), V(1, columns, size, dtype=dtype, number=1)
    shape = rows, columns, size
    product = e.mul(expand(x, *shape), expand(y, *shape))
    return total(e.cast(product, f32) if dtype == f16 else product, 2)


def greatest(node: Node, *axes: int) -> Node:
    return r.reduce_max_p(node, arg=axes)


def product(node: Node, *axes: int) -> Node:
    return r.reduce_prod_p(node, arg=axes)


def cast(node: Node, dtype: Any) -> Node:
    return e.cast_p(node, arg=(dtype, False))


NUMBERS = (
    0.0, -0.0, 1.0, -1.0, 1.5, -2.25, 3.0, 0.1, -1e-3, 7e4, 1e-38, 1e-45, -1e38,
    np.inf, -np.inf, np.nan, 255.0, 256.5, -129.0, 2.0, 0.5, -0.5, 4.75, 2.5e9,
)  # fmt: skip
INTEGERS = (0, 1, -1, 2, 3, -7, 12, 127, -128, 255, 2**31 - 1, -(2**31), 5, 31, 64)


def special(aval: ShapedArray, seed: int) -> Any:
    """Values among which are those that break false identities."""
    kind = dtypes.kind(aval.dtype)
    rng = np.random.default_rng(seed)
    count = max(aval.size, 1)
    with np.errstate(all="ignore"):
        if kind == "b":
            values = rng.integers(0, 2, count)
        elif kind in "iu":
            values = rng.permutation(np.resize(np.array(INTEGERS), count))
        else:
            values = rng.permutation(np.resize(np.array(NUMBERS), count))
        if kind == "c":
            values = values + 1j * rng.permutation(values)
        return values[: aval.size].astype(aval.dtype).reshape(aval.shape)


def inputs(outputs: list[Node], kind: str) -> dict[Node, Any]:
    nodes = [n for n in toposort(outputs) if is_variable(n)]
    if kind == SMALL:
        return {
            n: np.random.default_rng(k).integers(-3, 4, n.shape).astype(n.dtype)
            for k, n in enumerate(nodes)
        }
    return {n: special(n.aval, k) for k, n in enumerate(nodes)}


def bits(value: Any, sign_of_zero: bool = True) -> Any:
    """The bits of an array, with one NaN for all and, if asked, one zero for both."""
    array = np.array(value)
    if dtypes.is_complex(array.dtype):
        array = np.stack([array.real, array.imag])
    if dtypes.is_float(array.dtype):
        array[np.isnan(array)] = np.nan
        if not sign_of_zero:
            array[array == 0] = 0
    return array.tobytes()


def outputs_of(builder: Callable[[], Node | list[Node]]) -> list[Node]:
    made = builder()
    return made if isinstance(made, list) else [made]


def assert_same(old: list[Node], new: list[Node], values: str) -> None:
    known = inputs([*old, *new], values)
    pairs = zip(evaluate(old, known), evaluate(new, known), strict=True)
    for before, after in pairs:
        assert before.shape == after.shape
        assert before.dtype == after.dtype
        signed = values != SIGNLESS
        assert bits(before, signed) == bits(after, signed), f"{before} {after}"
