"""Draws from finite sets: by logits, by probabilities, rows of an array, and orders.

For an order, elements are sorted by random bits. Two of them may have the same 32; so
this is done again, as often as JAX does it, until that hardly happens in all rounds.
"""

from __future__ import annotations

from math import ceil, log, prod
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, ValueRangeError, one_of
from ftrace.numpy import axes as ax
from ftrace.numpy.sorting import gather_along, positions_along
from ftrace.random.distributions import GUMBEL_MODES, extreme, randint, unit
from ftrace.random.draw import as_shape, check_key, draw
from ftrace.random.keys import Key, random_bits, split_key
from ftrace.trace.avals import Shape
from ftrace.trace.bind import bind, bind_compound
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.primitives.library.sorting import TopK, top_k_p
from ftrace.trace.tracing.tracer import Tracer, aval_of, check_fits, is_value

__all__ = ["categorical", "choice", "permutation"]


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """The slices of an array along an axis in a random order.

    Args:
      key: a key.
      x: an array, or a number n for the integers from 0 to n - 1.
      axis: along which the order changes.
      independent: each lane along the axis has an order of its own.

    Raises:
      AxisError: there is no such axis.
      DtypeError: a number is no integer.
      ValueRangeError: a number is negative.

    Example:
      >>> ft.random.permutation(ft.random.key(1), 5)
      Array([3, 2, 0, 1, 4], dtype=int32)
      >>> ft.random.permutation(ft.random.key(1), fnp.array([[1, 2], [3, 4], [5, 6]]))
      Array([[5, 6],
             [1, 2],
             [3, 4]], dtype=int32)
    """
    check_key("permutation", key)
    aval = aval_of(x)
    axis = ax.canonical_axis(axis, aval.ndim or 1, "random.permutation")
    if aval.shape:
        whole = independent or aval.ndim == 1
        shape = aval.shape if whole else (aval.shape[axis],)
        order = draw(_order, key, shape=shape, axis=axis if whole else 0)
        return gather_along(x, order, axis) if whole else _take(x, order, axis)
    if not dtypes.is_integer(aval.dtype):
        raise DtypeError(
            "random.permutation takes an integer or an array with an axis, got "
            f"{aval!r}"
        )
    count = ax.check_count(int(x), "random.permutation: x")
    return ax.cast(draw(_order, key, shape=(count,), axis=0), dtypes.default_dtype("i"))


def _order(key: Key, shape: Shape, axis: int) -> Any:
    """For each lane along the axis, its positions in a random order."""
    places: Any = None
    for _ in range(_rounds(prod(shape))):
        key, drawn = split_key(key)
        order = positions_along([random_bits(drawn, 32, shape)], axis)
        places = order if places is None else gather_along(places, order, axis)
    return ax.iota(dtypes.int32, shape, axis) if places is None else places


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
      mode: "high" for probabilities below 1e-7, or "highest"; by default "low".

    Returns:
      Indices, int32.

    Raises:
      ShapeError: `shape` does not end in that of `logits` without `axis`.
      ValueRangeError: without replacement, more draws than categories.

    Example:
      >>> logits = fnp.log(fnp.array([0.1, 0.2, 0.7]))
      >>> ft.random.categorical(ft.random.key(0), logits, shape=(8,))
      Array([1, 2, 2, 1, 2, 2, 2, 2], dtype=int32)
    """
    aval = aval_of(logits)
    if not dtypes.is_float(aval.dtype):
        raise DtypeError(f"random.categorical: logits must be floats, got {aval!r}")
    axis = ax.canonical_axis(axis, aval.ndim, "random.categorical")
    one_of("random.categorical: mode", mode, GUMBEL_MODES)
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
    check_key("categorical", key)
    if replace:
        sizes = list(shape)
        sizes.insert(leading + axis, aval.shape[axis])
        return draw(
            _categories, key, logits, shape=tuple(sizes), axis=leading + axis, mode=mode
        )
    count, size = prod(shape[:leading]), aval.shape[axis]
    if count > size:
        raise ValueRangeError(
            f"random.categorical: without replacement there are at most {size} draws, "
            f"as many as categories; shape {shape} asks for {count}"
        )
    return draw(_greatest, key, logits, shape=shape, count=count, axis=axis, mode=mode)


def _greatest(
    key: Key, logits: Tracer, shape: Shape, count: int, axis: int, mode: str | None
) -> Any:
    """The Gumbel-top-k trick: the positions of the greatest logits + Gumbel noise."""
    noisy = logits + extreme(key, logits.shape, logits.dtype, mode)
    last = logits.ndim - 1
    (places,) = bind_compound(
        top_k_p, ax.move_axis(noisy, axis, last), arg=TopK(count, last)
    )
    found = ax.reshape(ax.move_axis(places, last, 0), shape)
    return ax.cast(found, dtypes.default_dtype("i"))


def _categories(
    key: Key, logits: Tracer, shape: Shape, axis: int, mode: str | None
) -> Any:
    """The Gumbel-max trick: the argmax of logits + Gumbel noise."""
    noisy = extreme(key, shape, logits.dtype, mode) + logits
    return ax.cast(fnp.argmax(noisy, axis), dtypes.default_dtype("i"))


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

    Returns:
      An array of the dtype of `a`, or of int32.

    Raises:
      ShapeError: `p` does not hold one probability per element.
      ValueRangeError: there are no elements to draw from, or not enough without
        replacement.

    Example:
      >>> ft.random.choice(ft.random.key(0), 10, (4,), replace=False)
      Array([0, 1, 8, 5], dtype=int32)
      >>> values, p = fnp.array([5, 7]), fnp.array([0.9, 0.1])
      >>> ft.random.choice(ft.random.key(1), values, (6,), p=p)
      Array([5, 5, 5, 5, 5, 5], dtype=int32)
    """
    check_key("choice", key)
    shape = as_shape("choice", shape)
    aval = aval_of(a)
    rows = (a,) if aval.shape else ()
    if not rows and dtypes.is_complex(aval.dtype):
        raise DtypeError(f"random.choice: a must be an array or a count, got {aval!r}")
    axis = ax.canonical_axis(axis, aval.ndim, "random.choice") if rows else 0
    count = aval.shape[axis] if rows else int(a)
    check_fits(count, dtypes.default_dtype("i"))
    if count <= 0 and prod(shape):
        raise ValueRangeError("random.choice: there are no elements to draw from")
    size = prod(shape)
    if not replace and size > count:
        raise ValueRangeError(
            f"random.choice: of {count} elements no {size} can be drawn without "
            "replacement; draw fewer, or with replace=True"
        )
    if not replace and p is None:
        sample = permutation(key, count)[:size].reshape(shape)
    elif not replace:
        logits = fnp.log(_probabilities(p, count))
        sample = draw(
            _greatest, key, logits, shape=shape, count=size, axis=0, mode=mode
        )
    elif p is None:
        sample = randint(key, shape, 0, count)
    else:
        steps = fnp.cumsum(_probabilities(p, count))
        sample = draw(_weighted_positions, key, steps, shape=shape)
    return _take(a, sample, axis) if rows else sample


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


def _weighted_positions(key: Key, steps: Any, shape: Shape) -> Any:
    """Where 1 - u falls among the cumulative probabilities, which may not end in 1."""
    level = steps[-1] * (1 - unit(key, shape, steps.dtype))
    return ax.cast(fnp.searchsorted(steps, level), dtypes.default_dtype("i"))


def _take(x: Any, index: Any, axis: int) -> Any:
    """`x` at the index along an axis; the axes of the index stand in its place."""
    taken = bind(gather_p, ax.as_value(x), index, arg=(axis,))
    own, rest = range(index.ndim), range(index.ndim, taken.ndim)
    return ax.permute(taken, (*rest[:axis], *own, *rest[axis:]))
