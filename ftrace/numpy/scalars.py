"""The dtypes by name: `float32` is a dtype, and `float32(x)` makes an array of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.numpy.creation import array
from ftrace.trace.eager import Eager, constant_classes

__all__ = [
    "bfloat16", "bool_", "cdouble", "complex128", "complex64", "csingle", "double",
    "float16", "float32", "float64", "int16", "int32", "int64", "int8", "single",
    "uint16", "uint32", "uint64", "uint8",
]  # fmt: skip


#: `array`, whose calls can become native.
_array = Eager(array, False, __name__)


class ScalarType(type):
    """The class of dtypes with a name; called, one converts to an array of its dtype.

    It equals the class of NumPy's scalars, and has its hash, as in JAX; it also equals
    the dtype.

    Attributes:
      dtype: the NumPy dtype, which NumPy reads from here.
    """

    dtype: np.dtype[Any]

    def __call__(self, x: Any = 0) -> Any:
        return _array(x, self.dtype)

    def __eq__(self, other: Any) -> bool:
        if self is other or other is self.dtype.type:
            return True
        return isinstance(other, _DTYPE) and self.dtype == other

    def __hash__(self) -> int:
        return hash(self.dtype.type)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self.dtype.type)

    @property
    def name(self) -> str:
        return str(self.dtype)

    def __repr__(self) -> str:
        return f"ftrace.numpy.{self.dtype}"


#: Any: of its parameter nothing is known here.
_DTYPE: type[Any] = np.dtype


def _named(name: str, dtype: np.dtype[Any]) -> ScalarType:
    return ScalarType(name, (), {"dtype": dtype, "__module__": "ftrace.numpy"})


constant_classes.append(ScalarType)

bool_ = _named("bool_", dtypes.bool_)
int8 = _named("int8", dtypes.int8)
int16 = _named("int16", dtypes.int16)
int32 = _named("int32", dtypes.int32)
int64 = _named("int64", dtypes.int64)
uint8 = _named("uint8", dtypes.uint8)
uint16 = _named("uint16", dtypes.uint16)
uint32 = _named("uint32", dtypes.uint32)
uint64 = _named("uint64", dtypes.uint64)
float16 = _named("float16", dtypes.float16)
bfloat16 = _named("bfloat16", dtypes.bfloat16)
float32 = _named("float32", dtypes.float32)
float64 = _named("float64", dtypes.float64)
complex64 = _named("complex64", dtypes.complex64)
complex128 = _named("complex128", dtypes.complex128)

single, double = float32, float64
csingle, cdouble = complex64, complex128
