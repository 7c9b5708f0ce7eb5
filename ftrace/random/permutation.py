"""Orders drawn at random: permutation, and what `choice` takes without replacement.

Elements are sorted by random bits. Two of them may have the same 32; so this is done
again, as often as JAX does it, until that hardly happens in all rounds.
"""

from __future__ import annotations

from math import ceil, log, prod
from typing import Any

from ftrace import dtypes
from ftrace.errors import AxisError, DtypeError, ValueRangeError
from ftrace.random.draw import check_key, draw
from ftrace.random.threefry import Key, random_bits, split_in_two
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.host.sorting import argsort_p, take_along
from ftrace.trace.primitives.indexing import gather
from ftrace.trace.primitives.movement import move_axis
from ftrace.trace.primitives.source import iota
from ftrace.trace.tracer import aval_of


def permutation(
    key: Any,
    x: Any,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: Any = None,
) -> Any:
    """The slices of an array along an axis in a random order.

    Args:
      key: a key.
      x: an array, or a number n for the integers from 0 to n - 1.
      axis: along which the order changes.
      independent: each lane along the axis has an order of its own.
      out_sharding: accepted, without effect.

    Raises:
      AxisError: there is no such axis.
      DtypeError: a number is no integer.
      ValueRangeError: a number is negative.
    """
    check_key("permutation", key)
    aval = aval_of(x)
    depth = aval.ndim or 1
    if not -depth <= axis < depth:
        raise AxisError(f"random.permutation: axis {axis} is out of range for {aval!r}")
    axis %= depth
    if aval.shape:
        whole = independent or aval.ndim == 1
        shape = aval.shape if whole else (aval.shape[axis],)
        return draw(_permuted, key, x, shape=shape, axis=axis, whole=whole)
    if not dtypes.is_integer(aval.dtype):
        raise DtypeError(
            "random.permutation takes an integer or an array with an axis, got "
            f"{aval!r}"
        )
    count = int(x)
    if count < 0:
        raise ValueRangeError(f"random.permutation: {count} is no number of elements")
    return draw(_permuted_range, key, shape=(count,))


def _permuted_range(key: Key, shape: Shape) -> Node:
    return cast(random_order(key, shape, 0), dtypes.default_dtype("i"))


def _permuted(key: Key, x: Node, shape: Shape, axis: int, whole: bool) -> Node:
    if whole:
        return take_along(x, random_order(key, shape, axis), axis)
    return move_axis(gather(x, [random_order(key, shape, 0)], (axis,)), 0, axis)


def random_order(key: Key, shape: Shape, axis: int) -> Node:
    """For each lane along the axis, its positions in a random order."""
    places: Node | None = None
    for _ in range(_rounds(prod(shape))):
        key, drawn = split_in_two(key)
        (order,) = argsort_p.results(random_bits(drawn, 32, shape), arg=axis)
        places = order if places is None else take_along(places, order, axis)
    return iota(dtypes.int32, shape, axis) if places is None else places


def _rounds(size: int) -> int:
    """As many as JAX: until size³ different strings of bits are drawn."""
    return ceil(3 * log(max(1, size)) / log((1 << 32) - 1))
