"""Bits, and what comes from them without rounding: uniform, integers, coin flips.

All of it agrees with JAX bit for bit, but for float64 in ranges like [0.1, 0.7): there
XLA's fused multiply-add saves a rounding, as `_scale_exactly` does for float32.
"""

from __future__ import annotations

from math import frexp
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, DtypeOverflowError, ValueRangeError
from ftrace.random import draw as how
from ftrace.random import keys
from ftrace.random.keys import Key
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as ops
from ftrace.trace.primitives.sources import const, const_like
from ftrace.trace.tracing.tracer import aval_of, check_fits

Dtype = np.dtype[Any]
_NUMBERS: Any = (int, float, np.integer)


def bits(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Random bits as unsigned integers, by default of 32 bits.

    Raises:
      DtypeError: the dtype is no unsigned integer.
    """
    wanted = dtypes.default_dtype("u") if dtype is None else dtypes.as_dtype(dtype)
    if dtypes.kind(wanted) != "u":
        raise DtypeError(f"random.bits draws unsigned integers, got {wanted}")
    width = 8 * wanted.itemsize
    shape = how.as_shape("bits", shape)
    return how.draw(
        keys.random_bits, how.check_key("bits", key), width=width, shape=shape
    )


# Floats in [0, 1): the bits become the fraction of a number in [1, 2).


def unit(key: Key, shape: Shape, dtype: Dtype) -> Node:
    """Floats in [0, 1), as many as the dtype's fraction has bits."""
    info = how.float_info(dtype)
    width = 8 if info.nmant < 8 else info.bits
    drawn = ops.cast(keys.random_bits(key, width, shape), keys.unsigned(info.bits))
    fraction = ops.shift_right_logical(drawn, const_like(drawn, width - info.nmant))
    one: Any = np.ones(1, dtype)
    one = const(one.view(drawn.dtype)[0], drawn.dtype, shape)
    number = ops.bitcast(ops.bit_or(fraction, one), arg=dtype)
    return ops.sub(number, const_like(number, 1))


def between(
    key: Key, low: Node, high: Node, shape: Shape, dtype: Dtype, exact: bool = False
) -> Node:
    """Floats in [low, high).

    Args:
      key: a key, or its two words.
      low, high: scalars or arrays that broadcast to `shape`.
      shape: of the result.
      dtype: of the result.
      exact: the product with the width of the range is not rounded.
    """
    low, high = ops.cast(low, dtype), ops.cast(high, dtype)
    common = np.broadcast_shapes(low.shape, high.shape)
    width = ops.sub(how.broadcast_to(high, common), how.broadcast_to(low, common))
    low, width = how.broadcast_to(low, shape), how.broadcast_to(width, shape)
    floats = unit(key, shape, dtype)
    if exact or dtype != dtypes.float32:
        return ops.maximum(low, ops.add(ops.mul(floats, width), low))
    return ops.maximum(low, _scale_exactly(floats, width, low))


def _scale_exactly(x: Node, width: Node, low: Node) -> Node:
    """x·width + low of float32, rounded once: the product has 48 bits at most."""
    wide = dtypes.float64
    product = ops.mul(ops.cast(x, wide), ops.cast(width, wide))
    return ops.cast(ops.add(product, ops.cast(low, wide)), dtypes.float32)


def between_numbers(
    key: Key, low: float, high: float, shape: Shape, dtype: Dtype
) -> Node:
    """Floats in [low, high), for two Python numbers."""
    exact = is_exact_range(low, high, dtype)
    bounds = const(low, dtype), const(high, dtype)
    return between(key, *bounds, shape, dtype, exact)


def is_exact_range(low: Any, high: Any, dtype: Dtype) -> bool:
    """Are the products of `between` exact, or the sum with `low` idle?"""
    if any(type(x) not in (int, float, bool) for x in (low, high)):
        return False
    low, high = (np.asarray(x).astype(dtype) for x in (low, high))
    return bool(low == 0) or frexp(abs(float(high - low)))[0] == 0.5


def uniform(
    key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Floats that are uniform in [minval, maxval).

    Args:
      key: a key.
      shape: of the result.
      dtype: a float dtype, by default float32.
      minval: the least value; broadcasts to `shape`.
      maxval: never reached, but for rounding; broadcasts to `shape`.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: the bounds do not broadcast to `shape`.
    """
    dtype = how.as_float("uniform", dtype)
    shape = how.common_shape("uniform", how.as_shape("uniform", shape), minval, maxval)
    how.check_key("uniform", key)
    if _is_number(minval, 0) and _is_number(maxval, 1):
        return how.draw(unit, key, shape=shape, dtype=dtype)
    exact = is_exact_range(minval, maxval, dtype)
    low, high = how.parameter(minval, dtype), how.parameter(maxval, dtype)
    return how.draw(between, key, low, high, shape=shape, dtype=dtype, exact=exact)


def _is_number(x: Any, value: int) -> bool:
    return type(x) in (int, float) and x == value


# Integers.


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Integers in [minval, maxval); minval where the range is empty.

    Args:
      key: a key.
      shape: of the result.
      minval, maxval: integers that broadcast to `shape`; `maxval` may be one more
        than the greatest value of the dtype. In arrays a bound beyond it is moved to
        its end.
      dtype: an integer dtype, by default int32.

    Raises:
      DtypeError: the dtype is no integer.
      DtypeOverflowError: a number that is a bound does not fit the dtype.
      ShapeError: the bounds do not broadcast to `shape`.
    """
    wanted = dtypes.as_dtype(int if dtype is None else dtype)
    if not dtypes.is_integer(wanted):
        raise DtypeError(f"random.randint draws integer dtypes, got {wanted}")
    shape = how.common_shape("randint", how.as_shape("randint", shape), minval, maxval)
    low, high = _integer_bound(minval, wanted, 0), _integer_bound(maxval, wanted, 1)
    how.check_key("randint", key)
    return how.draw(_integers, key, low, high, shape=shape, dtype=wanted)


def _integer_bound(x: Any, dtype: Dtype, over: int) -> Any:
    """A bound; a known one is an integer that the dtype holds, or the default one.

    Args:
      over: how far beyond the greatest value it may be.
    """
    if not isinstance(x, _NUMBERS):
        check_fits(x, dtype)
        return x
    least, greatest = dtypes.limits(dtype)
    low, high = dtypes.limits(dtypes.default_dtype("i"))
    if not min(least, low) <= x <= max(greatest + over, high):
        raise DtypeOverflowError(
            f"random.randint: the bound {x} does not fit {dtype}, which holds {least} "
            f"to {greatest}; draw another dtype, as int64"
        )
    if type(x) not in (bool, int, float):
        return x
    x = int(x)
    return np.asarray(x, dtypes.scalar_type(x)[0])[()]


def _integers(key: Key, low: Node, high: Node, shape: Shape, dtype: Dtype) -> Node:
    if dtype.itemsize < 4:  # 32 bits have less bias than 8 or 16
        least, greatest = dtypes.limits(dtype)
        low, high = (
            _convert_clipped(_as_integers(x), dtypes.int32) for x in (low, high)
        )
        low, high = _clip(low, least, greatest), _clip(high, least, greatest + 1)
        return ops.cast(offset_between(key, low, high, shape, dtypes.int32), dtype)
    return offset_between(key, low, high, shape, dtype)


def offset_between(key: Key, low: Node, high: Node, shape: Shape, dtype: Dtype) -> Node:
    """Integers in [low, high): low + (twice as many random bits) mod (high - low)."""
    width = 8 * dtype.itemsize
    low, high = _as_integers(low), _as_integers(high)
    beyond = ops.gt(high, const_like(high, min(dtypes.limits(dtype)[1], _top(high))))
    low, high = _convert_clipped(low, dtype), _convert_clipped(high, dtype)
    common = np.broadcast_shapes(low.shape, high.shape)
    low, high, beyond = (how.broadcast_to(x, common) for x in (low, high, beyond))
    span = ops.cast(ops.sub(high, low), keys.unsigned(width))
    one = const_like(span, 1)
    span = ops.select(ops.le(high, low), one, span)
    # A range up to and with the greatest value; the full one wraps to 0, and the
    # remainder by 0 is the dividend itself.
    span = ops.select(ops.bit_and(beyond, ops.gt(high, low)), ops.add(span, one), span)
    # 2**width mod span, to carry the upper half of the bits over.
    multiplier = ops.rem(const_like(span, 1 << (width // 2)), span)
    multiplier = ops.rem(ops.mul(multiplier, multiplier), span)
    span, multiplier = (
        how.broadcast_to(span, shape),
        how.broadcast_to(multiplier, shape),
    )
    upper, lower = (keys.random_bits(k, width, shape) for k in keys.split_in_two(key))
    offset = ops.add(ops.mul(ops.rem(upper, span), multiplier), ops.rem(lower, span))
    return ops.add(how.broadcast_to(low, shape), ops.cast(ops.rem(offset, span), dtype))


def _top(x: Node) -> int:
    return dtypes.limits(x.dtype)[1]


def _as_integers(x: Node) -> Node:
    return x if dtypes.is_integer(x.dtype) else ops.cast(x, dtypes.default_dtype("i"))


def _clip(x: Node, low: int, high: int) -> Node:
    return ops.minimum(ops.maximum(x, const_like(x, low)), const_like(x, high))


def _convert_clipped(x: Node, dtype: Dtype) -> Node:
    """To another integer dtype; what does not fit becomes its nearest end."""
    least, greatest = dtypes.limits(dtype)
    own_least, own_greatest = dtypes.limits(x.dtype)
    x = _clip(x, max(least, own_least), min(greatest, own_greatest))
    return ops.cast(x, dtype)


# Coin flips.


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Any:
    """True with probability `p`.

    Args:
      key: a key.
      p: floats that broadcast to `shape`.
      shape: of the result, by default that of `p`.
      mode: "high" draws twice the bits, for probabilities below 1e-7.

    Raises:
      DtypeError: `p` is no float.
      ValueRangeError: there is no such mode.
    """
    if mode not in ("low", "high"):
        raise ValueRangeError(
            f'random.bernoulli: mode is "low" or "high", got {mode!r}'
        )
    if not dtypes.is_float(aval_of(p).dtype):
        raise DtypeError(f"random.bernoulli: p must be a float, got {aval_of(p)!r}")
    shape = how.common_shape("bernoulli", shape, p)
    own = how.drawn_dtype(p)
    p, key = how.parameter(p, own), how.check_key("bernoulli", key)
    return how.draw(_flips, key, p, shape=shape, dtype=own, mode=mode)


def _flips(key: Key, p: Node, shape: Shape, dtype: Dtype, mode: str) -> Node:
    p = how.broadcast_to(ops.cast(p, dtype), shape)
    if mode == "low":
        return ops.lt(unit(key, shape, p.dtype), p)
    upper, lower = unit_pair(key, shape, p.dtype)
    step = const_like(lower, 2.0 ** -how.float_info(p.dtype).nmant)
    return ops.lt(ops.mul(lower, step), ops.sub(p, upper))


def unit_pair(key: Key, shape: Shape, dtype: Dtype) -> tuple[Node, Node]:
    """Two arrays of floats in [0, 1)."""
    both = unit(key, (2, *shape), dtype)
    return keys.element(both, 0), keys.element(both, 1)


def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """-1 or 1 with equal probability, by default as int32."""
    wanted = dtypes.as_dtype(int if dtype is None else dtype)
    shape = how.as_shape("rademacher", shape)
    return how.draw(signs, how.check_key("rademacher", key), shape=shape, dtype=wanted)


def signs(key: Key, shape: Shape, dtype: Dtype) -> Node:
    """-1 or 1."""
    drawn = unit(key, shape, dtypes.default_dtype("f"))
    up = ops.lt(drawn, const_like(drawn, 0.5))
    one = ops.cast(const_like(drawn, 1), dtype)
    return ops.select(up, one, const_like(one, -1))
