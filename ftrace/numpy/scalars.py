"""The dtypes by name: `float32` is a dtype, and `float32(x)` makes an array of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.array import ArrayLike
from ftrace.numpy.creation import array
from ftrace.trace.eager import Eager, constant_classes

__all__ = [
    "bfloat16", "bool_", "cdouble", "complex128", "complex64", "csingle", "double",
    "float16", "float32", "float64", "int16", "int32", "int64", "int8", "single",
    "uint16", "uint32", "uint64", "uint8",
]  # fmt: skip


#: `array`, whose calls can become native.
_array = Eager(array, False, __name__)


class ScalarType:
    """A dtype with a name; called, it converts to an array of that dtype.

    Attributes:
      dtype: the NumPy dtype, which NumPy reads from here.
    """

    __slots__ = ("dtype",)

    dtype: np.dtype[Any]

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def __call__(self, x: Any = 0) -> Any:
        return _array(x, self.dtype)

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, ScalarType):
            return self.dtype == other.dtype
        try:
            return self.dtype == np.dtype(other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __instancecheck__(self, instance: Any) -> bool:
        if isinstance(instance, ArrayLike):
            return instance.ndim == 0 and instance.dtype == self.dtype
        return isinstance(instance, self.dtype.type)

    @property
    def name(self) -> str:
        return str(self.dtype)

    @property
    def __name__(self) -> str:
        return str(self.dtype)

    def __repr__(self) -> str:
        return f"ftrace.numpy.{self.dtype}"

    def __reduce__(self) -> tuple[Any, ...]:
        return ScalarType, (self.dtype,)


constant_classes.append(ScalarType)

bool_ = ScalarType(dtypes.bool_)
int8 = ScalarType(dtypes.int8)
int16 = ScalarType(dtypes.int16)
int32 = ScalarType(dtypes.int32)
int64 = ScalarType(dtypes.int64)
uint8 = ScalarType(dtypes.uint8)
uint16 = ScalarType(dtypes.uint16)
uint32 = ScalarType(dtypes.uint32)
uint64 = ScalarType(dtypes.uint64)
float16 = ScalarType(dtypes.float16)
bfloat16 = ScalarType(dtypes.bfloat16)
float32 = ScalarType(dtypes.float32)
float64 = ScalarType(dtypes.float64)
complex64 = ScalarType(dtypes.complex64)
complex128 = ScalarType(dtypes.complex128)

single, double = float32, float64
csingle, cdouble = complex64, complex128
