"""Expressions whose values and dtypes are recorded from JAX and held against ftrace.

`n` is the module, `jit` a function that compiles, the rest are arrays made with `n`.
Each group is a text file, an expression per line, and what the tables below generate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

inf, nan = np.inf, np.nan


def variables(n: Any, jit: Any) -> dict[str, Any]:
    """The names that the expressions use."""
    m = n.arange(6.0).reshape(2, 3)
    return {
        "n": n,
        "np": np,
        "jit": jit,
        "inf": inf,
        "nan": nan,
        "x": n.arange(3.0),
        "i": n.arange(3),
        "j": n.array([2, -7, 5, 0], "int16"),
        "u": n.array([0, 3, 200], "uint8"),
        "b": n.array([False, True, True]),
        "c": n.array([1 + 2j, -1j, 0.5]),
        "h": n.array([1.5, -2.25, 3.0], "bfloat16"),
        "m": m,
        "k": n.arange(24).reshape(2, 3, 4),
        "special": n.array([0.0, -0.0, 1.5, -2.5, inf, -inf, nan, 0.25]),
        "a8": n.array([5, -5, 5, -5, 0, -128, 7], "int8"),
        "b8": n.array([3, 3, -3, -3, 0, -1, 0], "int8"),
    }


_UNARY = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "cbrt",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arccosh",
    "arctanh",
    "square",
    "reciprocal",
    "absolute",
    "fabs",
    "negative",
    "positive",
    "sign",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "round",
    "deg2rad",
    "rad2deg",
    "isnan",
    "isinf",
    "isfinite",
    "isposinf",
    "isneginf",
    "signbit",
    "real",
    "imag",
    "conj",
    "angle",
    "logical_not",
    "invert",
    "bitwise_count",
    "nan_to_num",
    "sinc",
    "i0",
    "modf",
    "frexp",
    "spacing",
    "isreal",
    "iscomplex",
]
_BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "fmod",
    "power",
    "float_power",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "arctan2",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "copysign",
    "nextafter",
    "heaviside",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
    "gcd",
    "lcm",
    "divmod",
]
_ONE = ("x", "i", "u", "b", "c", "h", "special", "1")
_TWO = (
    "x, i", "i, 2", "i, 2.5", "u, i", "j, j", "b, b", "b, i", "h, x", "h, 2", "x, 1.5",
    "3, x", "special, 2.0", "a8, b8", "c, x", "1, 2", "2.0, 3",
)  # fmt: skip
# What XLA leaves undefined, or computes with flushed denormals or other edge values.
_SKIPPED = {
    ("i0", "special"), ("spacing", "special"), ("bitwise_count", "b"), ("sign", "b"),
    ("round", "b"), ("gcd", "a8, b8"), ("lcm", "a8, b8"), ("power", "j, j"),
    ("exp2", "c"), ("tan", "c"), ("arccosh", "c"), ("arcsin", "c"), ("arccos", "c"),
    ("log2", "c"), ("sinc", "c"), ("square", "c"), ("floor_divide", "a8, b8"),
    ("remainder", "a8, b8"), ("fmod", "a8, b8"), ("divmod", "a8, b8"),
    ("floor_divide", "special, 2.0"), ("divmod", "special, 2.0"),
    ("nextafter", "h, x"), ("power", "a8, b8"), ("cbrt", "c"),
}  # fmt: skip

_MODES = [
    "constant",
    "edge",
    "empty",
    "linear_ramp",
    "maximum",
    "mean",
    "median",
    "minimum",
    "reflect",
    "symmetric",
    "wrap",
]
_PADDED = (
    ("x", "2"), ("x", "(1, 7)"), ("m", "((1, 0), (2, 3))"), ("i * i", "(4, 5)"),
    ("m", "((0, 0), (1, 1))"),
)  # fmt: skip
_UPDATES = (
    "set(7)", "add(2)", "subtract(1.5)", "multiply(3)", "divide(2)", "power(2)",
    "min(1)", "max(1)",
)  # fmt: skip
_PLACES = (
    "x.at[1]", "i.at[0:2]", "m.at[:, 1]", "m.at[n.array([0, 0]), 1]",
    "k.at[..., ::-2]", "m.at[m > 2]", "h.at[n.array([1, 1])]",
)  # fmt: skip


def _lines(group: str) -> list[str]:
    text = Path(__file__).with_name(f"numpy_{group}.txt").read_text()
    return [line for line in text.splitlines() if line]


_CALLS = [(f, a) for f in _UNARY for a in _ONE] + [
    (f, a) for f in _BINARY for a in _TWO
]
GROUPS = {
    "elementwise": [f"n.{f}({a})" for f, a in _CALLS if (f, a) not in _SKIPPED]
    + _lines("elementwise"),
    "creation": _lines("creation"),
    "shape": [f"n.pad({x}, {w}, {mode!r})" for mode in _MODES for x, w in _PADDED]
    + _lines("shape"),
    "indexing": [f"{place}.{change}" for change in _UPDATES for place in _PLACES]
    + _lines("indexing"),
}
