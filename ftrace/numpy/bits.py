"""Bits of bytes: packbits and unpackbits."""

from __future__ import annotations

from typing import Any

from ftrace import dtypes
from ftrace.errors import DtypeError, ValueRangeError
from ftrace.numpy.axes import (
    as_value,
    canonical_axis,
    cast,
    expand,
    flip,
    insert_axes,
    iota,
    move_axis,
    pad,
    reshape,
    shrink_axis,
)
from ftrace.numpy.elementwise import bitwise_and, left_shift, right_shift, truth
from ftrace.numpy.reductions import sum as total
from ftrace.numpy.shape import ravel
from ftrace.trace.tracer import Value

__all__ = ["packbits", "unpackbits"]


def _places(order: str, name: str, ndim: int) -> Any:
    """The place value of each of 8 bits along a last axis."""
    if order not in ("big", "little"):
        raise ValueRangeError(f'{name}: bitorder is "big" or "little", got {order!r}')
    places = iota(dtypes.uint8, (1,) * (ndim - 1) + (8,), ndim - 1)
    return flip(places, (ndim - 1,)) if order == "big" else places


def packbits(a: Value, axis: int | None = None, bitorder: str = "big") -> Any:
    """Eight elements as the bits of one byte: whether each is not zero.

    Raises:
      DtypeError: `a` is of floats.
    """
    x = as_value(a)
    if dtypes.kind(x.dtype) not in "biu":
        raise DtypeError(f"packbits takes bools or integers, got {x.dtype.name}")
    if axis is None:
        x, axis = ravel(x), 0
    axis = canonical_axis(axis, x.ndim, "packbits")
    bits = cast(move_axis(truth(x), axis, x.ndim - 1), dtypes.uint8)
    size = bits.shape[-1]
    count = -(-size // 8)
    width = (*[(0, 0, 0)] * (bits.ndim - 1), (0, 8 * count - size, 0))
    groups = reshape(pad(bits, width), (*bits.shape[:-1], count, 8))
    shifted = left_shift(groups, _places(bitorder, "packbits", groups.ndim))
    packed = cast(total(shifted, -1), dtypes.uint8)
    return move_axis(packed, packed.ndim - 1, axis)


def unpackbits(
    a: Value, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    """The bits of bytes, each as a byte of 0 or 1.

    Args:
      a: an array of uint8.
      axis: along which the bits stand; None flattens first.
      count: how many bits are returned; a negative number leaves out the last.
      bitorder: "big" or "little".

    Raises:
      DtypeError: `a` is not uint8.
    """
    x = as_value(a)
    if x.dtype != dtypes.uint8:
        raise DtypeError(f"unpackbits takes uint8, got {x.dtype.name}")
    if axis is None:
        x, axis = ravel(x), 0
    axis = canonical_axis(axis, x.ndim, "unpackbits")
    x = insert_axes(move_axis(x, axis, x.ndim - 1), (x.ndim,))
    spread = expand(x, (*x.shape[:-1], 8))
    bits = right_shift(spread, _places(bitorder, "unpackbits", spread.ndim))
    bits = bitwise_and(bits, 1)
    size = 8 * bits.shape[-2]
    bits = reshape(bits, (*bits.shape[:-2], size))
    if count is not None:
        wanted = count if count >= 0 else max(size + count, 0)
        last = bits.ndim - 1
        bits = shrink_axis(bits, last, 0, min(wanted, size))
        if wanted > size:
            bits = pad(bits, (*[(0, 0, 0)] * last, (0, wanted - size, 0)))
    return move_axis(bits, bits.ndim - 1, axis)
