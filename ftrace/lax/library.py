"""Sorting and Fourier transforms, done by the library, under JAX's `lax` names."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import one_of
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.numpy.sorting import gather_along, positions_along, sort_along
from ftrace.trace.bind import bind_compound
from ftrace.trace.eager.function_objects import member
from ftrace.trace.primitives.library.fft import KINDS, Fourier, fft_p
from ftrace.trace.primitives.library.sorting import TopK, top_k_p
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "FftType", "approx_max_k", "approx_min_k", "fft", "sort", "sort_key_val", "top_k",
]  # fmt: skip


class FftType(enum.IntEnum):
    """The kinds of transform."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x: Value, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Any:
    """The Fourier transform over as many last axes as there are lengths.

    Args:
      x: real for RFFT, else complex; a real operand is converted.
      fft_type: "fft", "ifft", "rfft" or "irfft", or the member of `FftType`.
      fft_lengths: the sizes of the axes: on its real side, of a transform that has one,
        whose other side holds n//2 + 1 elements.

    Returns:
      A complex array; of "irfft" a real one.

    Raises:
      ValueRangeError: the kind is unknown.
      ShapeError: the axes do not have these lengths.
      DtypeError: RFFT of complex numbers, or a dtype of 16 bits.

    Example:
      >>> lax.fft(fnp.array([1.0, 0.0, 0.0, 0.0]), "fft", (4,))
      Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    name = fft_type.name if isinstance(fft_type, FftType) else str(fft_type)
    kind = name.lower()
    one_of("fft: fft_type", kind, KINDS)
    given = ax.several(fft_lengths, "fft: fft_lengths")
    lengths = tuple(ax.static_int(n, "fft: fft_lengths") for n in given)
    operand = ax.as_value(x)
    if not dtypes.is_inexact(operand.dtype):
        operand = ax.cast(operand, dtypes.to_inexact(operand.dtype))
    wide = operand.dtype in (dtypes.float32, dtypes.float64)
    if kind != "rfft" and wide:
        operand = ax.cast(operand, dtypes.complex_dtype(operand.dtype))
    if not lengths:
        return operand
    return bind_compound(fft_p, operand, arg=Fourier(kind, lengths))[0]


def sort(
    operand: Value | Sequence[Value],
    dimension: int = -1,
    is_stable: bool = True,
    num_keys: int = 1,
) -> Any:
    """One array in ascending order, or several in the order of the first ones.

    Args:
      operand: an array, or a sequence of arrays of one shape.
      dimension: the axis.
      is_stable: accepted; every sort is stable.
      num_keys: how many of several arrays are keys; the first one counts most.

    Returns:
      An array, or a tuple with one per operand.

    Raises:
      ShapeError: the shapes differ.
      ValueRangeError: there are no operands, or not so many keys.

    Example:
      >>> lax.sort(fnp.array([3, 1, 2]))
      Array([1, 2, 3], dtype=int32)
      >>> lax.sort((fnp.array([2, 1, 2]), fnp.array([30, 20, 10])), num_keys=2)
      (Array([1, 2, 2], dtype=int32), Array([20, 10, 30], dtype=int32))
    """
    given: Any = operand
    if not ax.is_sequence(given):
        return sort_along(*ax.along(given, dimension, "lax.sort"))
    values = [ax.as_value(x) for x in given]
    count = ax.static_int(num_keys, "lax.sort: num_keys", 1, len(values))
    ndim = len(ax.one_shape("lax.sort", values))
    axis = ax.canonical_axis(dimension, ndim, "lax.sort")
    if len(values) == 1:
        return (sort_along(values[0], axis),)
    places = positions_along(values[:count], axis)
    return tuple(gather_along(x, places, axis) for x in values)


def sort_key_val(
    keys: Value, values: Value, dimension: int = -1, is_stable: bool = True
) -> tuple[Any, Any]:
    """The keys in ascending order, and the values in the order of the keys.

    Args:
      keys: an array.
      values: an array of its shape.
      dimension: the axis.
      is_stable: accepted; every sort is stable.

    Returns:
      (keys, values), of the shapes and dtypes given.

    Raises:
      ShapeError: the shapes differ.

    Example:
      >>> lax.sort_key_val(fnp.array([3, 1, 2]), fnp.array([30.0, 10.0, 20.0]))
      (Array([1, 2, 3], dtype=int32), Array([10., 20., 30.], dtype=float32))
    """
    found = sort((keys, values), dimension, is_stable, 1)
    return found[0], found[1]


def top_k(operand: Value, k: int, *, axis: int = -1) -> tuple[Any, Any]:
    """The k greatest elements along an axis, the greatest first, and their positions.

    Of equal elements the first comes first; NaN is greater than all numbers.

    Args:
      operand: an array of real numbers.
      k: how many, not more than there are.
      axis: by default the last.

    Returns:
      (values, indices), the indices int32.

    Raises:
      DtypeError: the numbers are complex.
      ValueRangeError: k is negative, or more than there are.

    Example:
      >>> lax.top_k(fnp.array([2.0, 9.0, 4.0, 9.0]), 3)
      (Array([9., 9., 4.], dtype=float32), Array([1, 3, 2], dtype=int32))
    """
    return _top("top_k", operand, k, axis, True)


def _top(name: str, operand: Value, k: int, axis: int, largest: bool) -> Any:
    x, place = ax.along(operand, axis, f"lax.{name}")
    ew.refuse_complex(f"lax.{name}", x)
    count = ax.static_int(k, f"lax.{name}: k", 0, x.shape[place])
    arg = TopK(count, place, largest)
    (places,) = bind_compound(top_k_p, x, arg=arg)
    return gather_along(x, places, place), ax.cast(places, dtypes.int32)


def _approximate(name: str, largest: bool):
    def top(
        operand: Value,
        k: int,
        reduction_dimension: int = -1,
        recall_target: float = 0.95,
        reduction_input_size_override: int = -1,
        aggregate_to_topk: bool = True,
    ) -> tuple[Any, Any]:
        return _top(name, operand, k, reduction_dimension, largest)

    return top


@member(_approximate, largest=True)
def approx_max_k():
    """The k greatest elements along an axis and their positions, exactly: `top_k`.

    The options that trade exactness for time are accepted, without effect.

    Args:
      operand: an array of real numbers.
      k: how many.
      reduction_dimension: the axis.
      recall_target, reduction_input_size_override, aggregate_to_topk: accepted.

    Returns:
      (values, indices), the indices int32.

    Example:
      >>> values, indices = lax.approx_max_k(fnp.array([3.0, 1.0, 2.0]), 2)
      >>> values, indices
      (Array([3., 2.], dtype=float32), Array([0, 2], dtype=int32))
    """


@member(_approximate, largest=False)
def approx_min_k():
    """The k least elements along an axis, the least first, and their positions.

    The options that trade exactness for time are accepted, without effect.

    Args:
      operand: an array of real numbers.
      k: how many.
      reduction_dimension: the axis.
      recall_target, reduction_input_size_override, aggregate_to_topk: accepted.

    Returns:
      (values, indices), the indices int32.

    Example:
      >>> values, indices = lax.approx_min_k(fnp.array([3.0, 1.0, 2.0]), 2)
      >>> values, indices
      (Array([1., 2.], dtype=float32), Array([1, 2], dtype=int32))
    """
