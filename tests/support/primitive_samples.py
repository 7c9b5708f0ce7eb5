"""One row per primitive: operands on which its laws are checked.

The values stay away from the kinks of a function, where a finite difference would
measure the mean of two slopes; the kinks have tests of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import Constraint
from ftrace.trace.primitives.movement import Shear
from ftrace.trace.primitives.primitive import PRIMITIVES

F32, F64, I32, U8, BOOL = (
    dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint8, dtypes.bool_,
)  # fmt: skip
C128 = dtypes.complex128


@dataclass(frozen=True)
class Sample:
    """Operands of one primitive.

    Attributes:
      name: of the primitive.
      arrays: float operands in float64, so that finite differences are sharp.
      arg: of the node.
    """

    name: str
    arrays: tuple[Any, ...]
    arg: Any = None

    def build(self, *nodes: Node) -> Node:
        return PRIMITIVES[self.name](*nodes, arg=self.arg)

    @property
    def avals(self) -> list[ShapedArray]:
        return [ShapedArray.of(a.shape, a.dtype) for a in self.arrays]

    def __str__(self) -> str:
        shapes = "-".join("x".join(map(str, a.shape)) or "s" for a in self.arrays)
        return f"{self.name}-{shapes}-{self.arrays[0].dtype.name}"


_rng = np.random.default_rng(7)


def _uniform(low: float, high: float, shape: tuple[int, ...]) -> Any:
    return _rng.uniform(low, high, shape)


def _ints(low: int, high: int, shape: tuple[int, ...], dtype: Any = I32) -> Any:
    return _rng.integers(low, high, shape).astype(dtype)


def _complex(shape: tuple[int, ...]) -> Any:
    return _uniform(-1, 1, shape) + 1j * _uniform(0.2, 1, shape)


def _distinct(shape: tuple[int, ...]) -> Any:
    """No two elements are close: a maximum is no tie."""
    size = int(np.prod(shape))
    return (_rng.permutation(size) - size / 2 + 0.3).reshape(shape) / 4


_DOMAIN = {
    "log": (0.1, 4), "log2": (0.1, 4), "log1p": (-0.8, 3), "sqrt": (0.1, 4),
    "rsqrt": (0.1, 4), "cbrt": (0.1, 4), "asin": (-0.9, 0.9), "acos": (-0.9, 0.9),
    "acosh": (1.1, 4), "atanh": (-0.9, 0.9), "erf_inv": (-0.9, 0.9),
    "lgamma": (0.3, 6), "digamma": (0.3, 6), "tan": (-1.2, 1.2), "erfc": (-2, 2),
}  # fmt: skip
_FLOAT_UNARY = [
    "neg", "abs", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt",
    "cbrt", "logistic", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erf_inv", "lgamma", "digamma",
]  # fmt: skip
_FLAT_UNARY = ("sign", "floor", "ceil", "trunc", "round")
_COMPLEX_UNARY = [
    "neg", "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "expm1",
    "log1p", "logistic", "rsqrt", "square",
]  # fmt: skip
_SHAPES = ((), (1,), (3, 5))


def _elementwise() -> list[Sample]:
    rows: list[Sample] = []
    for name in _FLOAT_UNARY:
        low, high = _DOMAIN.get(name, (0.2, 2.0))
        rows += [Sample(name, (_uniform(low, high, s),)) for s in _SHAPES]
    for name in _FLAT_UNARY:
        rows.append(Sample(name, (_distinct((3, 5)) + 0.05,)))
    for name in _COMPLEX_UNARY:
        rows.append(Sample(name, (_complex((2, 3)),)))
    for name in ("add", "sub", "mul", "div", "max", "min", "pow", "atan2", "mul_zero"):
        pairs = [(_uniform(0.3, 2, s), _uniform(2.1, 3, s)) for s in _SHAPES]
        rows += [Sample(name, pair) for pair in pairs]
    rows.append(Sample("rem", (_uniform(5, 6, (4,)), _uniform(2, 2.4, (4,)))))
    for name in ("add", "sub", "mul", "div", "mul_zero"):
        rows.append(Sample(name, (_complex((2, 3)), _complex((2, 3)))))
    for name in ("add", "sub", "mul", "div", "rem", "max", "min"):
        rows.append(Sample(name, (_ints(-9, 9, (7,)), _ints(-4, 5, (7,)))))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        rows.append(Sample(name, (_uniform(-1, 1, (6,)), _uniform(-1, 1, (6,)))))
        rows.append(Sample(name, (_ints(0, 3, (6,)), _ints(0, 3, (6,)))))
    for name in ("and", "or", "xor"):
        rows.append(Sample(name, (_ints(-50, 50, (6,)), _ints(-50, 50, (6,)))))
        rows.append(Sample(name, (_ints(0, 2, (6,), BOOL), _ints(0, 2, (6,), BOOL))))
    for name in ("shl", "shr", "sar"):
        rows.append(Sample(name, (_ints(-99, 99, (8,)), _ints(0, 40, (8,)))))
    rows += [
        Sample("not", (_ints(-9, 9, (5,)),)),
        Sample("popcount", (_ints(-9, 99, (5,)),)),
        Sample("is_finite", (np.array([1.0, np.inf, -np.inf, np.nan]),)),
        Sample("nextafter", (_uniform(-1, 1, (4,)), _uniform(-1, 1, (4,)))),
        Sample("conj", (_complex((4,)),)),
        Sample("real", (_complex((4,)),)),
        Sample("imag", (_complex((4,)),)),
        Sample("abs", (_complex((4,)),)),
        Sample("complex", (_uniform(-1, 1, (4,)), _uniform(-1, 1, (4,)))),
        Sample("select", (_ints(0, 2, (3, 4), BOOL), *_uniform(-1, 1, (2, 3, 4)))),
        Sample("cast", (_uniform(-3, 3, (4,)),), (C128, False)),
        Sample("cast", (_uniform(-3, 3, (4,)),), (I32, False)),
        Sample("cast", (_ints(-3, 3, (4,)),), (F64, False)),
        Sample("bitcast", (_uniform(-3, 3, (4,)),), dtypes.int64),
        Sample("copy", (_uniform(-1, 1, (3, 2)),)),
        Sample("stop_gradient", (_uniform(-1, 1, (3,)),)),
        Sample("name", (np.arange(3.0),), "a name"),
        Sample(
            "sharding_constraint", (_uniform(-1, 1, (3,)),), Constraint(None, (("x",),))
        ),
        Sample("widened", (_uniform(-1, 1, (3,)), _uniform(-1, 1, (3,)))),
    ]
    return rows


def _movement() -> list[Sample]:
    x = _uniform(-1, 1, (3, 4, 5))
    return [
        Sample("reshape", (x,), (4, 15)),
        Sample("reshape", (x,), (3, 1, 20)),
        Sample("permute", (x,), (2, 0, 1)),
        Sample("expand", (_uniform(-1, 1, (3, 1, 5)),), (3, 4, 5)),
        Sample("pad", (x,), ((0, 1, 0), (2, 0, 1), (1, 2, 2))),
        Sample("shrink", (x,), ((1, 3), (0, 4), (2, 3))),
        Sample("stride", (x,), (1, -1, 2)),
        Sample("stride", (x,), (-2, 3, -3)),
        Sample("shear", (x,), Shear(2, 0, 1, 1, 3)),
        Sample("shear", (x,), Shear(1, 2, 2, 1, 4)),
        Sample("unshear", (x,), Shear(1, 0, 2, 3, 9)),
        Sample("unshear", (x,), Shear(2, 1, 1, 1, 8)),
    ]


def _reductions() -> list[Sample]:
    rows: list[Sample] = []
    for name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
        for axes in ((0,), (1, 2), (0, 1, 2), ()):
            rows.append(Sample(name, (_distinct((3, 4, 5)) / 4,), axes))
        rows.append(Sample(name, (_ints(-4, 4, (3, 4)),), (1,)))
    rows.append(Sample("reduce_prod", (np.array([[0.0, 2, 3], [0, 0, 5]]),), (1,)))
    rows.append(Sample("reduce_sum", (_complex((3, 4)),), (0,)))
    rows.append(Sample("reduce_sum", (_uniform(-1, 1, (3, 0)),), (1,)))
    return rows


def _indexing() -> list[Sample]:
    x = _uniform(-1, 1, (4, 5, 3))
    i, j = _ints(0, 4, (2, 3)), _ints(0, 3, (2, 3))
    updates = _uniform(-1, 1, (2, 3, 5))
    outside = i.copy()
    outside[0, 0] = 9
    repeated = np.array([1, 1, 3], np.int32)
    return [
        Sample("gather", (x, i), (0,)),
        Sample("gather", (x, j), (2,)),
        Sample("gather", (x, i, j), (0, 2)),
        Sample("scatter", (x, updates, i, j), ((0, 2), "add")),
        Sample("scatter", (x, updates, outside, j), ((0, 2), "add")),
        Sample("scatter", (x, _uniform(-1, 1, (3, 5, 3)), repeated), ((0,), "set")),
        Sample(
            "scatter", (_ints(0, 9, (4,)), _ints(0, 9, (3,)), repeated), ((0,), "max")
        ),
        Sample(
            "scatter", (_ints(0, 9, (4,)), _ints(0, 9, (3,)), repeated), ((0,), "min")
        ),
        Sample(
            "scatter", (_ints(0, 9, (4,)), _ints(0, 9, (3,)), repeated), ((0,), "mul")
        ),
    ]


SAMPLES = [*_elementwise(), *_movement(), *_reductions(), *_indexing()]
