"""Values in another dtype, the bits of values, and floats of fewer bits."""

from __future__ import annotations

from typing import Any, cast as cast_to

import ml_dtypes
import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError
from ftrace.numpy import axes as ax
from ftrace.numpy.floats import join_bits, reinterpret, split_bits
from ftrace.trace.bind import elementwise as apply_elementwise
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.tracing.tracer import Value
from ftrace.transforms.custom.closure_convert import linear_call

__all__ = ["bitcast_convert_type", "convert_element_type", "reduce_precision"]


def convert_element_type(operand: Value, new_dtype: Any) -> Any:
    """The operand in another dtype; float to integer truncates toward zero.

    Args:
      operand: an array, or a number. Integers are taken modulo the width, Python's too.
      new_dtype: the dtype, or its name; 64 bits are 32 where `enable_x64` is False.

    Returns:
      Of the shape of the operand; never of weak type.

    Raises:
      DtypeError: the dtype is None, which NumPy would take for float64.

    Example:
      >>> lax.convert_element_type(fnp.array([1.9, -1.9]), np.int32)
      Array([ 1, -1], dtype=int32)
    """
    if new_dtype is None:
        raise DtypeError("lax.convert_element_type requires a dtype, got None")
    dtype = dtypes.as_dtype(new_dtype)
    if isinstance(operand, int) and dtypes.is_inexact(dtype):
        operand = float(operand)  # which may be more than an integer's dtype holds
    elif type(operand) is int and dtypes.is_integer(dtype):
        operand = np.asarray(operand & (2**64 - 1), np.uint64)
    return ax.cast(ax.as_value(operand), dtype)


def bitcast_convert_type(operand: Value, new_dtype: Any) -> Any:
    """The same bits read as another dtype.

    A narrower dtype adds a last axis for the parts, lowest first; a wider one takes
    the parts from the last axis, which must have their number.

    Args:
      operand: an array.
      new_dtype: the dtype, or its name.

    Raises:
      ShapeError: the last axis does not hold the parts of a wider dtype.
      DtypeError: a dtype is bool or complex, and they differ.

    Example:
      >>> lax.bitcast_convert_type(fnp.array(1.0), np.int32)
      Array(1065353216, dtype=int32)
      >>> lax.bitcast_convert_type(fnp.array(0x01020304), np.uint8)
      Array([4, 3, 2, 1], dtype=uint8)
    """
    x = ax.as_value(operand)
    target = dtypes.as_dtype(new_dtype)
    if target == x.dtype:
        return x
    for dtype in (x.dtype, target):
        if dtypes.kind(dtype) in "bc":
            raise DtypeError(
                f"lax.bitcast_convert_type is not defined between {x.dtype} and "
                f"{target}"
            )
    old, new = dtypes.bits_of(x.dtype), dtypes.bits_of(target)
    if old > new:
        x = split_bits(x, new)
    elif old < new:
        if not x.ndim or x.shape[-1] != new // old:
            raise ShapeError(
                f"lax.bitcast_convert_type: {new // old} elements of {x.dtype.name} "
                "make one wider element, so the last axis must have size "
                f"{new // old}; got {x.shape}"
            )
        x = join_bits(x, new)
    return reinterpret(x, target)


def reduce_precision(operand: Value, exponent_bits: int, mantissa_bits: int) -> Any:
    """Elementwise the nearest float of fewer bits, in the dtype of the operand.

    What is too large becomes infinite, what has no normal form becomes 0. Derivatives
    are rounded likewise.

    Args:
      operand: floats.
      exponent_bits: at least 1.
      mantissa_bits: at least 0, without the leading one. Ties go to the even one.

    Raises:
      DtypeError: the operand is not of floats.
      ValueRangeError: a number of bits is too small.

    Example:
      >>> x = fnp.array([1.0, 3.1415927])
      >>> lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)
      Array([1.      , 3.140625], dtype=float32)
    """
    x = ax.as_value(operand)
    exponent = ax.static_int(exponent_bits, "lax.reduce_precision: exponent_bits", 1)
    mantissa = ax.static_int(mantissa_bits, "lax.reduce_precision: mantissa_bits", 0)
    if not dtypes.is_float(x.dtype):
        raise DtypeError(f"lax.reduce_precision takes floats, got {x.dtype.name}")

    def round_bits(_: Any, y: Any) -> Any:
        return _round_bits(y, exponent, mantissa)

    return linear_call(round_bits, round_bits, (), x)


def _round_bits(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    width: int = cast_to(Any, ml_dtypes.finfo)(x.dtype).nmant
    whole: Any = np.dtype(f"u{x.dtype.itemsize}")
    known: int = 8 * x.dtype.itemsize - width - 1
    bits = bitcast_convert_type(x, whole)
    lost = width - mantissa_bits
    if lost > 0:
        odd = (bits >> lost) & 1
        bits = (bits + odd + ((1 << (lost - 1)) - 1)) & ~np.asarray(
            (1 << lost) - 1, whole
        )
    if exponent_bits < known:
        middle, reach = (1 << (known - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        size = (bits >> width) & ((1 << known) - 1)
        sign = bits & np.asarray(1 << (8 * x.dtype.itemsize - 1), whole)
        infinite = np.asarray(((1 << known) - 1) << width, whole)
        bits = ax.choose(size > middle + reach, sign | infinite, bits)
        bits = ax.choose(size <= middle - reach, sign, bits)
    nan = apply_elementwise(p.ne, x, x)
    return ax.choose(nan, x, bitcast_convert_type(bits, x.dtype))
