"""Draws from finite sets: by logits, by probabilities, from the rows of an array."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import AxisError, DtypeError, ShapeError, ValueRangeError
from ftrace.random.distributions import extreme, extreme_high
from ftrace.random.draw import as_shape, broadcast_to, check_key, draw
from ftrace.random.threefry import Key
from ftrace.random.uniform import offset_between, unit
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand
from ftrace.trace.primitives.elementwise import (
    add,
    bit_and,
    bit_or,
    eq,
    le,
    lt,
    minimum,
    mul,
    ne,
    select,
    sub,
)
from ftrace.trace.primitives.indexing import gather
from ftrace.trace.primitives.movement import permute, reshape, shrink_axis
from ftrace.trace.primitives.reduction import reduce, reduce_max_p, reduce_min_p
from ftrace.trace.primitives.source import const, const_like, iota
from ftrace.trace.tracer import aval_of, is_value

Dtype = np.dtype[Any]


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: Any = None,
) -> Any:
    """Indices along `axis`, drawn with probabilities softmax(logits).

    Args:
      key: a key.
      logits: unnormalised log probabilities, floats.
      axis: the axis of the categories.
      shape: of the result: any leading sizes, then the shape of `logits` without
        `axis`; by default the latter alone.
      replace: must be True.
      mode: "high" for probabilities below 1e-7; by default "low".

    Raises:
      ShapeError: `shape` does not end in that of `logits` without `axis`.
    """
    aval = aval_of(logits)
    if not dtypes.is_float(aval.dtype):
        raise DtypeError(f"random.categorical: logits must be floats, got {aval!r}")
    if not -aval.ndim <= axis < aval.ndim:
        raise AxisError(f"random.categorical: axis {axis} is out of range for {aval!r}")
    if not replace:
        raise ValueRangeError(
            "random.categorical: replace=False needs a sort, which ftrace does not "
            "have yet; draw with replace=True"
        )
    if mode not in (None, "low", "high"):
        raise ValueRangeError(
            f'random.categorical: mode is "low" or "high", got {mode!r}'
        )
    axis %= aval.ndim
    rest = aval.shape[:axis] + aval.shape[axis + 1 :]
    shape = rest if shape is None else as_shape("categorical", shape)
    leading = len(shape) - len(rest)
    pairs = zip(rest, shape[max(leading, 0) :], strict=False)
    if leading < 0 or any(n not in (1, m) for n, m in pairs):
        raise ShapeError(
            f"random.categorical: shape {shape} must end in that of the logits "
            f"without the axis of categories, {rest}"
        )
    drawn = list(shape)
    drawn.insert(leading + axis, aval.shape[axis])
    return draw(
        _categories, check_key("categorical", key), logits, shape=tuple(drawn),
        axis=leading + axis, mode=mode or "low",
    )  # fmt: skip


def _categories(key: Key, logits: Node, shape: Shape, axis: int, mode: str) -> Node:
    """The Gumbel-max trick: the argmax of logits + Gumbel noise."""
    noise = (extreme_high if mode == "high" else extreme)(key, shape, logits.dtype)
    missing = len(shape) - logits.ndim
    logits = expand(reshape(logits, (1,) * missing + logits.shape), shape)
    return _argmax(add(noise, logits), axis)


def _argmax(x: Node, axis: int) -> Node:
    """The first position of the greatest element, or of NaN."""
    greatest = expand(reduce(reduce_max_p, x, (axis,)), x.shape)
    here = bit_or(eq(x, greatest), ne(x, x))
    position = iota(dtypes.default_dtype("i"), x.shape, axis)
    beyond = const_like(position, x.shape[axis])
    first = reduce(reduce_min_p, select(here, position, beyond), (axis,))
    return reshape(first, x.shape[:axis] + x.shape[axis + 1 :])


def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: Any = None,
) -> Any:
    """Elements of an array along an axis, or integers below a number.

    Args:
      key: a key.
      a: an array, or a number n for the integers from 0 to n - 1.
      shape: of the sample; it takes the place of `axis` in the result.
      replace: must be True: an element may be drawn again.
      p: the probability of each element, by default the same for all.
      axis: of the elements.
      mode: without effect where `replace` is True.

    Raises:
      ShapeError: `p` does not hold one probability per element.
      ValueRangeError: there are no elements to draw from.
    """
    del mode
    check_key("choice", key)
    shape = as_shape("choice", shape)
    aval = aval_of(a)
    rows = (a,) if aval.shape else ()
    if rows and not -aval.ndim <= axis < aval.ndim:
        raise AxisError(f"random.choice: axis {axis} is out of range for {aval!r}")
    axis = axis % aval.ndim if rows else 0
    count = aval.shape[axis] if rows else int(a)
    if count <= 0 and prod(shape):
        raise ValueRangeError("random.choice: there are no elements to draw from")
    if not replace:
        raise ValueRangeError(
            "random.choice: replace=False needs a sort, which ftrace does not have "
            "yet; draw with replace=True"
        )
    if p is None:
        sample = draw(_positions, key, shape=shape, count=count)
    else:
        steps = fnp.cumsum(_probabilities(p, count))
        sample = draw(_weighted_positions, key, steps, shape=shape)
    return draw(_take, sample, *rows, axis=axis) if rows else sample


def _probabilities(p: Any, count: int) -> Any:
    if not is_value(p) or aval_of(p).shape != (count,):
        got = repr(aval_of(p)) if is_value(p) else type(p).__name__
        raise ShapeError(
            f"random.choice: p must be a vector with one probability per element, "
            f"{count} in all, got {got}"
        )
    if dtypes.is_float(aval_of(p).dtype):
        return p
    return fnp.asarray(p).astype(dtypes.default_dtype("f"))


def _positions(key: Key, shape: Shape, count: int) -> Node:
    dtype = dtypes.default_dtype("i")
    bounds = const(0, dtype), const(count, dtype)
    return offset_between(key, *bounds, shape, dtype)


def _weighted_positions(key: Key, steps: Node, shape: Shape) -> Node:
    """Where 1 - u falls among the cumulative probabilities, which may not end in 1."""
    u = unit(key, shape, steps.dtype)
    last = shrink_axis(steps, 0, steps.shape[0] - 1, steps.shape[0])
    level = mul(broadcast_to(reshape(last, ()), shape), sub(const_like(u, 1), u))
    return _count_below(steps, level)


def _count_below(ordered: Node, values: Node) -> Node:
    """How many elements of an ordered vector are less than each value: bisection."""
    size = ordered.shape[0]
    dtype = dtypes.default_dtype("i")
    found = const(0, dtype, values.shape)
    step = 1 << (size.bit_length() - 1)
    while step:
        candidate = add(found, const_like(found, step))
        index = minimum(candidate, const_like(found, size))
        element = gather(ordered, [sub(index, const_like(index, 1))], (0,))
        inside = le(candidate, const_like(found, size))
        found = select(bit_and(inside, lt(element, values)), candidate, found)
        step //= 2
    return found


def _take(index: Node, x: Node, axis: int) -> Node:
    """`x` at the index along an axis; the axes of the index stand in its place."""
    taken = gather(x, [index], (axis,))
    own = tuple(range(index.ndim))
    rest = tuple(range(index.ndim, taken.ndim))
    return permute(taken, rest[:axis] + own + rest[axis:])
