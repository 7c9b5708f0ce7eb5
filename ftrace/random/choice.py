"""Draws from finite sets: by logits, by probabilities, rows of an array, and orders.

For an order, elements are sorted by random bits. Two of them may have the same 32; so
this is done again, as often as JAX does it, until that hardly happens in all rounds.
"""

from __future__ import annotations

from math import ceil, log, prod
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import AxisError, DtypeError, ShapeError, ValueRangeError
from ftrace.random.distributions import extreme, extreme_high
from ftrace.random.draw import as_shape, broadcast_to, check_key, draw
from ftrace.random.keys import Key, random_bits, split_in_two
from ftrace.random.uniform import offset_between, unit
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as ops
from ftrace.trace.primitives.broadcast import expand
from ftrace.trace.primitives.indexing import gather
from ftrace.trace.primitives.library.sorting.sort import (
    TopK,
    argsort_p,
    take_along,
    top_k_p,
)
from ftrace.trace.primitives.movement import move_axis, permute, reshape, shrink_axis
from ftrace.trace.primitives.reduction import reduce, reduce_max_p, reduce_min_p
from ftrace.trace.primitives.sources import const, const_like, iota
from ftrace.trace.tracing.tracer import aval_of, check_fits, is_value

Dtype = np.dtype[Any]


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
    return ops.cast(random_order(key, shape, 0), dtypes.default_dtype("i"))


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
      replace: if false, what leading sizes of `shape` count are different categories.
      mode: "high" for probabilities below 1e-7; by default "low".

    Raises:
      ShapeError: `shape` does not end in that of `logits` without `axis`.
      ValueRangeError: without replacement, more draws than categories.
    """
    aval = aval_of(logits)
    if not dtypes.is_float(aval.dtype):
        raise DtypeError(f"random.categorical: logits must be floats, got {aval!r}")
    if not -aval.ndim <= axis < aval.ndim:
        raise AxisError(f"random.categorical: axis {axis} is out of range for {aval!r}")
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
    if not aval.shape[axis]:
        raise ValueRangeError(
            f"random.categorical: logits of shape {aval.shape} have no categories "
            f"along axis {axis}; one at least is required"
        )
    if not replace:
        return _distinct(
            check_key("categorical", key), logits, shape, leading, axis, mode
        )
    drawn = list(shape)
    drawn.insert(leading + axis, aval.shape[axis])
    return draw(
        _categories, check_key("categorical", key), logits, shape=tuple(drawn),
        axis=leading + axis, mode=mode or "low",
    )  # fmt: skip


def _distinct(
    key: Any, logits: Any, shape: Shape, leading: int, axis: int, mode: str | None
) -> Any:
    """Categories drawn without replacement, along the leading axes of the result."""
    count, size = prod(shape[:leading]), aval_of(logits).shape[axis]
    if count > size:
        raise ValueRangeError(
            f"random.categorical: without replacement there are at most {size} draws, "
            f"as many as categories; shape {shape} asks for {count}"
        )
    return draw(
        _greatest, key, logits, shape=shape, count=count, axis=axis, mode=mode or "low"
    )


def _greatest(
    key: Key, logits: Node, shape: Shape, count: int, axis: int, mode: str
) -> Node:
    """The Gumbel-top-k trick: the positions of the greatest logits + Gumbel noise."""
    noise = (extreme_high if mode == "high" else extreme)(
        key, logits.shape, logits.dtype
    )
    noisy = move_axis(ops.add(logits, noise), axis, logits.ndim - 1)
    arg = TopK(count, noisy.ndim - 1)
    (places,) = top_k_p.results(noisy, arg=arg)
    return ops.cast(
        reshape(move_axis(places, places.ndim - 1, 0), shape), dtypes.default_dtype("i")
    )


def _categories(key: Key, logits: Node, shape: Shape, axis: int, mode: str) -> Node:
    """The Gumbel-max trick: the argmax of logits + Gumbel noise."""
    noise = (extreme_high if mode == "high" else extreme)(key, shape, logits.dtype)
    missing = len(shape) - logits.ndim
    logits = expand(reshape(logits, (1,) * missing + logits.shape), shape)
    return _argmax(ops.add(noise, logits), axis)


def _argmax(x: Node, axis: int) -> Node:
    """The first position of the greatest element, or of NaN."""
    greatest = expand(reduce(reduce_max_p, x, (axis,)), x.shape)
    here = ops.bit_or(ops.eq(x, greatest), ops.ne(x, x))
    position = iota(dtypes.default_dtype("i"), x.shape, axis)
    beyond = const_like(position, x.shape[axis])
    first = reduce(reduce_min_p, ops.select(here, position, beyond), (axis,))
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
      replace: an element may be drawn again.
      p: the probability of each element, by default the same for all.
      axis: of the elements.
      mode: "high" or "low", the precision of draws without replacement by `p`.

    Raises:
      ShapeError: `p` does not hold one probability per element.
      ValueRangeError: there are no elements to draw from, or not enough without
        replacement.
    """
    check_key("choice", key)
    shape = as_shape("choice", shape)
    aval = aval_of(a)
    rows = (a,) if aval.shape else ()
    if not rows and dtypes.is_complex(aval.dtype):
        raise DtypeError(f"random.choice: a must be an array or a count, got {aval!r}")
    if rows and not -aval.ndim <= axis < aval.ndim:
        raise AxisError(f"random.choice: axis {axis} is out of range for {aval!r}")
    axis = axis % aval.ndim if rows else 0
    count = aval.shape[axis] if rows else int(a)
    check_fits(count, dtypes.default_dtype("i"))
    if count <= 0 and prod(shape):
        raise ValueRangeError("random.choice: there are no elements to draw from")
    if not replace:
        sample = _drawn_once(key, count, shape, p, mode)
    elif p is None:
        sample = draw(_positions, key, shape=shape, count=count)
    else:
        steps = fnp.cumsum(_probabilities(p, count))
        sample = draw(_weighted_positions, key, steps, shape=shape)
    return draw(_take, sample, *rows, axis=axis) if rows else sample


def _drawn_once(key: Any, count: int, shape: Shape, p: Any, mode: str | None) -> Any:
    """Different positions below `count`."""
    size = prod(shape)
    if size > count:
        raise ValueRangeError(
            f"random.choice: of {count} elements no {size} can be drawn without "
            "replacement; draw fewer, or with replace=True"
        )
    if p is None:
        return draw(_first_of_order, key, shape=shape, count=count)
    logits = fnp.log(_probabilities(p, count))
    return draw(
        _greatest, key, logits, shape=shape, count=size, axis=0, mode=mode or "low"
    )


def _first_of_order(key: Key, shape: Shape, count: int) -> Node:
    order = shrink_axis(random_order(key, (count,), 0), 0, 0, prod(shape))
    return ops.cast(reshape(order, shape), dtypes.default_dtype("i"))


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
    level = ops.mul(
        broadcast_to(reshape(last, ()), shape), ops.sub(const_like(u, 1), u)
    )
    return _count_below(steps, level)


def _count_below(ordered: Node, values: Node) -> Node:
    """How many elements of an ordered vector are less than each value: bisection."""
    size = ordered.shape[0]
    dtype = dtypes.default_dtype("i")
    found = const(0, dtype, values.shape)
    step = 1 << (size.bit_length() - 1)
    while step:
        candidate = ops.add(found, const_like(found, step))
        index = ops.minimum(candidate, const_like(found, size))
        element = gather(ordered, [ops.sub(index, const_like(index, 1))], (0,))
        inside = ops.le(candidate, const_like(found, size))
        found = ops.select(
            ops.bit_and(inside, ops.lt(element, values)), candidate, found
        )
        step //= 2
    return found


def _take(index: Node, x: Node, axis: int) -> Node:
    """`x` at the index along an axis; the axes of the index stand in its place."""
    taken = gather(x, [index], (axis,))
    own = tuple(range(index.ndim))
    rest = tuple(range(index.ndim, taken.ndim))
    return permute(taken, rest[:axis] + own + rest[axis:])
