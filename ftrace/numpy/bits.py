"""Bits of bytes: packbits and unpackbits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, ValueRangeError
from ftrace.numpy.axes import (
    as_value,
    canonical_axis,
    choose,
    expand,
    flip,
    full,
    insert_axes,
    iota,
    move_axis,
    pad,
    reshape,
    shrink_axis,
)
from ftrace.numpy.elementwise import bitwise_and, right_shift, truth
from ftrace.numpy.shape import ravel
from ftrace.trace.fused import run_fused
from ftrace.trace.operations import do_now, elementwise
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.tracer import Value

__all__ = ["packbits", "unpackbits"]


def _check_order(order: str, name: str) -> None:
    if order not in ("big", "little"):
        raise ValueRangeError(f'{name}: bitorder is "big" or "little", got {order!r}')


def _places(order: str, name: str, ndim: int) -> Any:
    """The place value of each of 8 bits along a last axis."""
    _check_order(order, name)
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
    _check_order(bitorder, "packbits")
    found = do_now(
        np.packbits, x, dtype=dtypes.uint8, weak=False, more=(axis, bitorder)
    )
    if found is not None:
        return found
    return run_fused(_packed, [truth(x)], axis=axis, big=bitorder == "big")


def _packed(bits: Any, axis: int, big: bool) -> Any:
    """Each eighth element on its own: its place in the byte is a constant."""
    size = bits.shape[axis]
    count = -(-size // 8)
    width = [(0, 0, 0)] * bits.ndim
    width[axis] = (0, 8 * count - size, 0)
    around, inside = bits.shape[:axis], bits.shape[axis + 1 :]
    groups = reshape(pad(bits, tuple(width)), (*around, count, 8, *inside))
    result: Any = None
    for place in range(8):
        bit = shrink_axis(groups, axis + 1, place, place + 1)
        bit = reshape(bit, (*around, count, *inside))
        value = full((), 1 << (7 - place if big else place), dtypes.uint8)
        part = choose(bit, value, full((), 0, dtypes.uint8))
        result = part if result is None else elementwise(p.bit_or, result, part)
    return result


def _unpacked_now(x: Any, axis: int, count: int | None, order: Any) -> Any:
    if count is not None and count < 0:
        count = max(8 * x.shape[axis] + count, 0)
    return np.unpackbits(x, axis, count, order)


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
    if bitorder in ("big", "little") and (count is None or type(count) is int):
        more = axis, count, bitorder
        found = do_now(
            _unpacked_now, x, dtype=dtypes.uint8, weak=x.weak_type, more=more
        )
        if found is not None:
            return found
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
