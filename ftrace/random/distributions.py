"""Continuous distributions, each a function of one uniform or normal sample.

Formulas are those of JAX, so that the same key gives the same numbers up to the
rounding of exp, log, erf_inv, ….
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, ValueRangeError
from ftrace.random import draw as how
from ftrace.random.keys import Key, split_in_two
from ftrace.random.uniform import between, between_numbers, signs, unit, unit_pair
from ftrace.trace.avals import Shape
from ftrace.trace.bind import broadcast_shapes
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as ops
from ftrace.trace.primitives.broadcast import reduce_sum
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.sources import const_like

Dtype = np.dtype[Any]


# Normal.


def normal(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The standard normal distribution; complex dtypes have variance 1 in all.

    Args:
      key: a key.
      shape: of the result.
      dtype: float or complex, by default float32.

    Raises:
      DtypeError: the dtype is neither float nor complex.
    """
    dtype = how.as_float("normal", dtype, "fc")
    shape = how.as_shape("normal", shape)
    build = _complex_gauss if dtypes.is_complex(dtype) else gauss
    return how.draw(build, how.check_key("normal", key), shape=shape, dtype=dtype)


def gauss(key: Key, shape: Shape, dtype: Dtype) -> Node:
    """√2·erf⁻¹(u), with u uniform in (-1, 1)."""
    one = np.ones((), dtype)
    u = between_numbers(key, float(np.nextafter(-one, one)), 1.0, shape, dtype)
    return ops.mul(const_like(u, math.sqrt(2)), ops.erf_inv(u))


def _complex_gauss(key: Key, shape: Shape, dtype: Dtype) -> Node:
    parts = [gauss(k, shape, dtypes.real_dtype(dtype)) for k in split_in_two(key)]
    half = const_like(parts[0], math.sqrt(2))
    return ops.make_complex(*[ops.div(part, half) for part in parts])


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None
) -> Any:
    """The standard normal distribution between two bounds.

    Args:
      key: a key.
      lower, upper: the bounds; they broadcast to `shape`.
      shape: of the result, by default that of the bounds.
      dtype: a float dtype.
    """
    dtype = how.as_float("truncated_normal", dtype)
    shape = how.common_shape("truncated_normal", shape, lower, upper)
    lower, upper = how.parameter(lower, dtype), how.parameter(upper, dtype)
    how.check_key("truncated_normal", key)
    return how.draw(_truncated, key, lower, upper, shape=shape, dtype=dtype)


def _truncated(key: Key, lower: Node, upper: Node, shape: Shape, dtype: Dtype) -> Node:
    lower, upper = ops.cast(lower, dtype), ops.cast(upper, dtype)
    low, high = (
        ops.erf(ops.div(x, const_like(x, math.sqrt(2)))) for x in (lower, upper)
    )
    u = between(key, low, high, shape, dtype)
    value = ops.mul(const_like(u, math.sqrt(2)), ops.erf_inv(u))
    # The bounds themselves are open.
    inside = [
        how.broadcast_to(
            ops.nextafter(ops.stop_gradient(x), const_like(x, toward)), shape
        )
        for x, toward in ((lower, math.inf), (upper, -math.inf))
    ]
    return ops.minimum(ops.maximum(value, inside[0]), inside[1])


def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Any:
    """The exponential of a normal sample with standard deviation `sigma`."""
    dtype = how.as_float("lognormal", dtype)
    return _draw_scaled(_lognormal, "lognormal", key, (sigma,), shape, dtype)


def _lognormal(key: Key, sigma: Node, shape: Shape, dtype: Dtype) -> Node:
    return ops.exp(ops.mul(gauss(key, shape, dtype), sigma))


def maxwell(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The length of a vector of three normal samples."""
    dtype = how.as_float("maxwell", dtype)
    shape = how.as_shape("maxwell", shape)
    return how.draw(_maxwell, how.check_key("maxwell", key), shape=shape, dtype=dtype)


def _maxwell(key: Key, shape: Shape, dtype: Dtype) -> Node:
    x = gauss(key, (*shape, 3), dtype)
    return reshape(ops.sqrt(reduce_sum(ops.mul(x, x), (len(shape),))), shape)


def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None
) -> Any:
    """A Maxwell sample with a random sign, times `scale`, plus `loc`.

    The shape of the result is `shape`, followed by that of the parameters.
    """
    dtype = how.as_float("double_sided_maxwell", dtype)
    own = how.common_shape("double_sided_maxwell", None, loc, scale)
    shape = (how.as_shape("double_sided_maxwell", shape) or own) + own
    loc, scale = how.parameter(loc, dtype), how.parameter(scale, dtype)
    how.check_key("double_sided_maxwell", key)
    return how.draw(_signed_maxwell, key, loc, scale, shape=shape, dtype=dtype)


def _signed_maxwell(
    key: Key, loc: Node, scale: Node, shape: Shape, dtype: Dtype
) -> Node:
    length_key, sign_key = split_in_two(key)
    sample = ops.mul(signs(sign_key, shape, dtype), _maxwell(length_key, shape, dtype))
    loc, scale = (how.broadcast_to(ops.cast(x, dtype), shape) for x in (loc, scale))
    return ops.add(ops.mul(sample, scale), loc)


def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The inverse Gaussian distribution with scale 1.

    Source: J. Michael, W. Schucany, R. Haas, "Generating random variates using
    transformations with multiple roots", 1976.
    """
    return _draw_scaled(_wald, "wald", key, (mean,), shape, how.as_float("wald", dtype))


def _wald(key: Key, mean: Node, shape: Shape, dtype: Dtype) -> Node:
    normal_key, uniform_key = split_in_two(key)
    v = gauss(normal_key, shape, dtype)
    z = unit(uniform_key, shape, dtype)
    y = ops.mul(v, v)
    square = ops.mul(mean, mean)
    four, two = const_like(y, 4), const_like(y, 2)
    root = ops.sqrt(
        ops.add(ops.mul(ops.mul(four, mean), y), ops.mul(square, ops.mul(y, y)))
    )
    x = ops.sub(
        ops.add(mean, ops.div(ops.mul(square, y), two)),
        ops.mul(ops.div(mean, two), root),
    )
    return ops.select(ops.le(z, ops.div(mean, ops.add(mean, x))), x, ops.div(square, x))


# Logarithms of a uniform sample.


def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The exponential distribution with rate 1."""
    return _draw_standard(_exponential, "exponential", key, shape, dtype)


def _exponential(key: Key, shape: Shape, dtype: Dtype) -> Node:
    return ops.neg(ops.log1p(ops.neg(unit(key, shape, dtype))))


def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The Laplace distribution with location 0 and scale 1."""
    return _draw_standard(_laplace, "laplace", key, shape, dtype)


def _laplace(key: Key, shape: Shape, dtype: Dtype) -> Node:
    low = float(-1.0 + how.float_info(dtype).epsneg)
    u = between_numbers(key, low, 1.0, shape, dtype)
    return ops.mul(ops.sign(u), ops.log1p(ops.neg(ops.absolute(u))))


def logistic(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The logistic distribution with location 0 and scale 1."""
    return _draw_standard(_logistic, "logistic", key, shape, dtype)


def _logistic(key: Key, shape: Shape, dtype: Dtype) -> Node:
    u = _positive(key, shape, dtype)
    return ops.sub(ops.log(u), ops.log1p(ops.neg(u)))


def _positive(key: Key, shape: Shape, dtype: Dtype) -> Node:
    """Uniform in (0, 1): zero becomes the least normal number."""
    tiny = float(how.float_info(dtype).tiny)
    return between_numbers(key, tiny, 1.0, shape, dtype)


def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: Any = None) -> Any:
    """The standard Gumbel distribution.

    Args:
      key: a key.
      shape: of the result.
      dtype: a float dtype.
      mode: "high" draws twice the bits, for tails below 1e-7; by default "low".

    Raises:
      ValueRangeError: there is no such mode.
    """
    if mode not in (None, "low", "high"):
        raise ValueRangeError(f'random.gumbel: mode is "low" or "high", got {mode!r}')
    dtype = how.as_float("gumbel", dtype)
    shape = how.as_shape("gumbel", shape)
    build = extreme_high if mode == "high" else extreme
    return how.draw(build, how.check_key("gumbel", key), shape=shape, dtype=dtype)


def extreme(key: Key, shape: Shape, dtype: Dtype) -> Node:
    """-log(-log(u))."""
    return ops.neg(ops.log(ops.neg(ops.log(_positive(key, shape, dtype)))))


def extreme_high(key: Key, shape: Shape, dtype: Dtype) -> Node:
    """The same of 1 - u, with more bits where u is small."""
    info = how.float_info(dtype)
    upper, lower = unit_pair(key, shape, dtype)
    more = ops.add(ops.mul(const_like(lower, 2.0**-info.nmant), lower), upper)
    u = ops.add(more, const_like(more, float(info.tiny)))
    u = ops.select(ops.ge(upper, const_like(upper, 0.5)), upper, u)
    return ops.neg(ops.log(ops.neg(ops.log1p(ops.neg(u)))))


def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The Cauchy distribution with location 0 and scale 1."""
    return _draw_standard(_cauchy, "cauchy", key, shape, dtype)


def _cauchy(key: Key, shape: Shape, dtype: Dtype) -> Node:
    u = between_numbers(key, float(how.float_info(dtype).eps), 1.0, shape, dtype)
    return ops.tan(ops.mul(const_like(u, math.pi), ops.sub(u, const_like(u, 0.5))))


def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The Pareto distribution with scale 1 and shape parameter `b`."""
    return _draw_scaled(
        _pareto, "pareto", key, (b,), shape, how.as_float("pareto", dtype)
    )


def _pareto(key: Key, b: Node, shape: Shape, dtype: Dtype) -> Node:
    return ops.exp(ops.div(_exponential(key, shape, dtype), b))


def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The Rayleigh distribution."""
    dtype = how.as_float("rayleigh", dtype)
    return _draw_scaled(_rayleigh, "rayleigh", key, (scale,), shape, dtype)


def _rayleigh(key: Key, scale: Node, shape: Shape, dtype: Dtype) -> Node:
    logarithm = ops.log(unit(key, shape, dtype))
    return ops.mul(scale, ops.sqrt(ops.mul(logarithm, const_like(logarithm, -2))))


def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
) -> Any:
    """The Weibull distribution; parameters with more axes share a sample."""
    dtype = how.as_float("weibull_min", dtype)
    shape = how.as_shape("weibull_min", shape)
    scale, concentration = (
        how.parameter(scale, dtype),
        how.parameter(concentration, dtype),
    )
    how.check_key("weibull_min", key)
    return how.draw(_weibull, key, scale, concentration, shape=shape, dtype=dtype)


def _weibull(
    key: Key, scale: Node, concentration: Node, shape: Shape, dtype: Dtype
) -> Node:
    full = broadcast_shapes(
        "random.weibull_min", [shape, scale.shape, concentration.shape]
    )
    waiting = how.broadcast_to(_exponential(key, shape, dtype), full)
    scale, concentration = (
        how.broadcast_to(ops.cast(x, dtype), full) for x in (scale, concentration)
    )
    return ops.mul(
        ops.power(waiting, ops.div(const_like(waiting, 1), concentration)), scale
    )


def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None
) -> Any:
    """The triangular distribution on [left, right] with its peak at `mode`."""
    dtype = how.as_float("triangular", dtype)
    parameters = (left, mode, right)
    return _draw_scaled(_triangular, "triangular", key, parameters, shape, dtype)


def _triangular(
    key: Key, left: Node, mode: Node, right: Node, shape: Shape, dtype: Dtype
) -> Node:
    u = unit(key, shape, dtype)
    width = ops.sub(right, left)
    rising = ops.add(left, ops.sqrt(ops.mul(ops.mul(u, width), ops.sub(mode, left))))
    rest = ops.sub(const_like(u, 1), u)
    falling = ops.sub(
        right, ops.sqrt(ops.mul(ops.mul(rest, width), ops.sub(right, mode)))
    )
    return ops.select(ops.lt(u, ops.div(ops.sub(mode, left), width)), rising, falling)


def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The number of trials with probability `p` until the first success.

    Raises:
      DtypeError: the dtype is no integer.
    """
    wanted = dtypes.as_dtype(int if dtype is None else dtype)
    if not dtypes.is_integer(wanted):
        raise DtypeError(f"random.geometric draws integer dtypes, got {wanted}")
    shape = how.common_shape("geometric", shape, p)
    own = how.drawn_dtype(p)
    p, key = how.parameter(p, own), how.check_key("geometric", key)
    return how.draw(_geometric, key, p, shape=shape, own=own, dtype=wanted)


def _geometric(key: Key, p: Node, shape: Shape, own: Dtype, dtype: Dtype) -> Node:
    p, u = ops.cast(p, own), unit(key, shape, own)
    u = ops.select(ops.eq(u, const_like(u, 0)), const_like(u, 1), u)
    trials = ops.floor(
        ops.div(ops.log(u), how.broadcast_to(ops.log1p(ops.neg(p)), shape))
    )
    return ops.cast(ops.add(trials, const_like(trials, 1)), dtype)


# How they are called.


def _draw_standard(build: Any, name: str, key: Any, shape: Any, dtype: Any) -> Any:
    dtype = how.as_float(name, dtype)
    shape = how.as_shape(name, shape)
    return how.draw(build, how.check_key(name, key), shape=shape, dtype=dtype)


def _draw_scaled(
    build: Any, name: str, key: Any, parameters: Any, shape: Any, dtype: Dtype
) -> Any:
    shape = how.common_shape(name, shape, *parameters)
    operands = [how.parameter(x, dtype) for x in parameters]
    how.check_key(name, key)
    return how.draw(_scaled, key, *operands, sampler=build, shape=shape, dtype=dtype)


def _scaled(
    key: Key, *parameters: Node, sampler: Any, shape: Shape, dtype: Dtype
) -> Node:
    full = [how.broadcast_to(ops.cast(x, dtype), shape) for x in parameters]
    return sampler(key, *full, shape, dtype)
