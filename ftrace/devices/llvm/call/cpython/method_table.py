"""What native code stands before: the methods of arrays; and what it finds there.

This is all of eager calls that is loaded with native calls. What makes records of them
is loaded when a call is learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ftrace.arrays.array import Array, ArrayLike
from ftrace.trace.eager.dispatch import integer_classes
from ftrace.trace.tracing.tracer import aval_of

#: Records are found by a part of the hash of the key, then one after the other.
PLACES, TRIED = 4096, 4

#: Methods of arrays that are no operators.
_NAMED = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "clip",
    "conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "flatten",
    "max", "mean", "min", "nonzero", "partition", "prod", "ptp", "ravel", "repeat",
    "reshape", "round", "searchsorted", "sort", "squeeze", "std", "sum", "swapaxes",
    "take", "trace", "transpose", "var", "view",
)  # fmt: skip
_NO_OPERATORS = ("__setitem__", "__delitem__", "__len__", "__iter__", "__round__")


def operator_names() -> list[str]:
    """The operators of arrays: floats are operands of them."""
    return [
        name
        for name, value in vars(ArrayLike).items()
        if name.startswith("__")
        and name not in _NO_OPERATORS
        and type(value) is FunctionType
    ]


#: Properties of arrays that are arrays.
PROPERTIES = ("T", "mT", "real", "imag")


def method_names() -> list[str]:
    """The methods and properties whose calls may be native, operators first."""
    return [*operator_names(), *_NAMED, *PROPERTIES]


def method_of(name: str) -> Any:
    """What Python's code does for it."""
    value = vars(ArrayLike)[name]
    return value.fget if isinstance(value, property) else value


def stubs(methods: int) -> Sequence[str]:
    """The names of the functions that are methods."""
    return [f"method_{number}" for number in range(methods)]


#: Numbers of NumPy that are operands, as floats are. Those of int64 have to fit what
#: is beside them: what they are decides.
SCALARS: list[type[Any]] = [
    np.float32, np.float64, np.float16, np.complex64, np.complex128,
    *[kind for kind in integer_classes if kind is not np.int64],
]  # fmt: skip

#: What native code calls.
HELPERS = {
    "aval_of": aval_of,
    "host_of": Array.numpy,
    "settle": vars(np.ndarray)["astype"],
    "as_ndarray": np.asarray,
}
