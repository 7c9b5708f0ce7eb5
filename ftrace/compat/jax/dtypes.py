"""`jax.dtypes`: dtypes by any way to write them, in the mode that is on."""

from __future__ import annotations

from typing import Any

from ml_dtypes import bfloat16 as bfloat16

from ftrace import dtypes, errors
from ftrace.ground.missing_names import no_attribute
from ftrace.numpy import finfo as finfo, iinfo as iinfo, issubdtype as issubdtype
from ftrace.numpy.data_types import promoted_type

_SCALARS = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def __getattr__(name: str) -> Any:
    for home in (dtypes, errors):
        if name in vars(home):
            return vars(home)[name]
    raise no_attribute("ftrace.dtypes", name)


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """The dtype that arrays have which are asked for with `dtype`.

    64 bits are 32 unless `jax_enable_x64` is on.

    Args:
      dtype: any way to write a dtype.
      allow_extended_dtype: accepted, without effect.

    Raises:
      ArgumentError, DtypeError: it is no dtype of ours.
    """
    return dtypes.canonicalize(dtypes.named_dtype(dtype))


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype of an operation on arrays, dtypes and numbers; and whether it is weak.

    Args:
      *args: the operands.
      return_weak_type_flag: return (dtype, is it weak).

    Raises:
      ArgumentError: there are none.
    """
    dtype, weak = promoted_type(*args)
    return (dtype, weak) if return_weak_type_flag else dtype


def itemsize_bits(dtype: Any) -> int:
    """The bits of an element of a dtype."""
    if dtype is None:
        raise errors.ValueRangeError("itemsize_bits: dtype must be a dtype, got None")
    return dtypes.bits_of(dtypes.named_dtype(dtype))


def scalar_type_of(x: Any) -> type[Any]:
    """Python's type of numbers of the kind of x: bool, int, float or complex."""
    return _SCALARS[dtypes.kind(result_type(x))]
