"""The dtypes in OpenCL C: their types and their literals.

In memory bool is a uchar of 0 or 1. A 16-bit float is its bits, a ushort.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace import dtypes

Dtype = np.dtype[Any]

C_TYPES: dict[Dtype, str] = {
    dtypes.bool_: "uchar",
    dtypes.int8: "char", dtypes.int16: "short",
    dtypes.int32: "int", dtypes.int64: "long",
    dtypes.uint8: "uchar", dtypes.uint16: "ushort",
    dtypes.uint32: "uint", dtypes.uint64: "ulong",
    dtypes.float16: "ushort", dtypes.bfloat16: "ushort",
    dtypes.float32: "float", dtypes.float64: "double",
}  # fmt: skip


def value_type(dtype: Dtype) -> str:
    """The type of a variable; bools are uchar in memory only."""
    return "bool" if dtype == dtypes.bool_ else C_TYPES[dtype]


def wrapping(dtype: Dtype) -> str:
    """The unsigned type in which an integer type is added and multiplied."""
    return "ulong" if dtype.itemsize == 8 else "uint"


def literal(value: Any, dtype: Dtype) -> str:
    """A constant of a dtype, to the bit."""
    scalar: Any = np.asarray(value).astype(dtype)
    category = dtypes.kind(dtype)
    if dtypes.is_half(dtype):
        return f"(ushort){int(scalar.view(np.uint16)):#x}"
    if category == "f":
        return _float_literal(scalar, dtype)
    number = int(scalar)
    if category == "b" or dtype.itemsize < 4:
        return f"({C_TYPES[dtype]}){number}"
    suffix = {"int": "", "long": "L", "uint": "u", "ulong": "UL"}[C_TYPES[dtype]]
    if category == "i" and number == np.iinfo(dtype).min:
        return f"({number + 1}{suffix} - 1)"
    return f"{number}{suffix}" if number >= 0 else f"({number}{suffix})"


def _float_literal(scalar: Any, dtype: Dtype) -> str:
    single = dtype == dtypes.float32
    if not np.isfinite(scalar):
        bits = int(scalar.view(np.uint32 if single else np.uint64))
        return f"as_float({bits:#x}u)" if single else f"as_double({bits:#x}UL)"
    text = float(scalar).hex() + ("f" if single else "")
    return f"({text})" if text.startswith("-") else text
