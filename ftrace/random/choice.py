"""Draws from finite sets: by logits, by probabilities, from the rows of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import AxisError, DtypeError, ShapeError, ValueRangeError
from ftrace.random.distributions import extreme, extreme_high
from ftrace.random.draw import as_shape, check_key, draw
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand
from ftrace.trace.primitives.elementwise import add, bit_or, eq, ne, select
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.reduction import reduce, reduce_max_p, reduce_min_p
from ftrace.trace.primitives.source import const_like, iota
from ftrace.trace.tracer import aval_of

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
    if leading < 0 or np.broadcast_shapes(shape[leading:], rest) != shape[leading:]:
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


def _categories(key: Node, logits: Node, shape: Shape, axis: int, mode: str) -> Node:
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
