"""Distributions, each a function of random bits, or of a uniform or normal sample.

Bits, and what comes from them without rounding (uniform numbers, integers, coin flips),
agree with JAX bit for bit, but for float64 in ranges like [0.1, 0.7): there XLA's fused
multiply-add saves a rounding, as `between` does for float32. The other formulas are
those of JAX, too, so that the same key gives the same numbers up to the rounding of
exp, log, erf_inv, ….
"""

# What is passed on is of any type, and so are the parameters of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from inspect import unwrap
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, DtypeOverflowError, ShapeError, one_of
from ftrace.ground import settings
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.numpy.data_types import finfo
from ftrace.random import draw as how, keys
from ftrace.random.draw import sampler
from ftrace.random.keys import Key
from ftrace.trace.avals import Shape
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.primitives import elementwise as ops
from ftrace.trace.tracing.tracer import Tracer, aval_of, check_fits

__all__ = [
    "bernoulli", "bits", "cauchy", "double_sided_maxwell", "exponential",
    "geometric", "gumbel", "laplace", "logistic", "lognormal", "maxwell",
    "multivariate_normal", "normal", "orthogonal", "pareto", "rademacher",
    "randint", "rayleigh", "triangular", "truncated_normal", "uniform", "wald",
    "weibull_min",
]  # fmt: skip


Dtype = np.dtype[Any]
GUMBEL_MODES = None, "low", "high", "highest"
_NUMBERS: Any = (int, float, np.integer)


@sampler("u")
def bits(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Random bits as unsigned integers.

    Args:
      key: a key.
      shape: of the result.
      dtype: an unsigned integer dtype of 8 to 64 bits, by default uint32.

    Raises:
      DtypeError: the dtype is no unsigned integer.

    Example:
      >>> ft.random.bits(ft.random.key(0), (3,), np.uint8)
      Array([167, 146,  40], dtype=uint8)
    """
    return keys.random_bits(key, 8 * dtype.itemsize, shape)


# Floats in [0, 1): the bits become the fraction of a number in [1, 2).


def unit(key: Key, shape: Shape, dtype: Dtype) -> Any:
    """Floats in [0, 1), as many as the dtype's fraction has bits."""
    info = finfo(dtype)
    width = 8 if info.nmant < 8 else info.bits
    drawn = ax.cast(keys.random_bits(key, width, shape), keys.uint_of(info.bits))
    fraction = elementwise(ops.shift_right_logical, drawn, width - info.nmant)
    one: Any = np.ones(1, dtype)
    number = elementwise(ops.bit_or, fraction, one.view(drawn.dtype)[0])
    return bind(ops.bitcast, number, arg=dtype) - 1


def between(
    key: Key, low: Any, high: Any, shape: Shape, dtype: Dtype, exact: bool = False
) -> Any:
    """Floats in [low, high).

    Args:
      key: a key, or its two words.
      low, high: scalars or arrays that broadcast to `shape`.
      shape: of the result.
      dtype: of the result.
      exact: the product with the width of the range is not rounded.
    """
    low, high = ax.cast(low, dtype), ax.cast(high, dtype)
    floats, width = unit(key, shape, dtype), high - low
    if exact or dtype != dtypes.float32:
        return fnp.maximum(low, floats * width + low)
    # Rounded once: the product has 48 bits at most.
    wide = [ax.cast(x, dtypes.float64) for x in (floats, width, low)]
    return fnp.maximum(low, ax.cast(wide[0] * wide[1] + wide[2], dtype))


def between_numbers(
    key: Key, low: float, high: float, shape: Shape, dtype: Dtype
) -> Any:
    """Floats in [low, high), for two Python numbers."""
    bounds = ax.full((), low, dtype), ax.full((), high, dtype)
    return between(key, *bounds, shape, dtype, is_exact_range(low, high, dtype))


def is_exact_range(low: Any, high: Any, dtype: Dtype) -> bool:
    """Are the products of `between` exact, or the sum with `low` idle?"""
    if any(type(x) not in (int, float, bool) for x in (low, high)):
        return False
    low, high = (np.asarray(x).astype(dtype) for x in (low, high))
    return bool(low == 0) or math.frexp(abs(float(high - low)))[0] == 0.5


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

    Example:
      >>> ft.random.uniform(ft.random.key(0), (3,))
      Array([0.947667  , 0.9785799 , 0.33229148], dtype=float32)
      >>> low = fnp.array([0.0, 10.0])
      >>> ft.random.uniform(ft.random.key(0), (2,), minval=low, maxval=20.0)
      Array([18.95334 , 19.785799], dtype=float32)
    """
    dtype = how.check_dtype("uniform", dtype)
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

    Example:
      >>> ft.random.randint(ft.random.key(0), (6,), 1, 7)
      Array([2, 1, 3, 2, 6, 4], dtype=int32)
    """
    wanted = how.check_dtype("randint", dtype, "iu")
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


def _integers(key: Key, low: Tracer, high: Tracer, shape: Shape, dtype: Dtype) -> Any:
    if dtype.itemsize < 4:  # 32 bits have less bias than 8 or 16
        least, greatest = dtypes.limits(dtype)
        low, high = (_as_integers(x, dtypes.int32) for x in (low, high))
        low, high = _clip(low, least, greatest), _clip(high, least, greatest + 1)
        return ax.cast(offset_between(key, low, high, shape, dtypes.int32), dtype)
    return offset_between(key, low, high, shape, dtype)


def offset_between(key: Key, low: Any, high: Any, shape: Shape, dtype: Dtype) -> Any:
    """Integers in [low, high): low + (twice as many random bits) mod (high - low)."""
    width, greatest = 8 * dtype.itemsize, dtypes.limits(dtype)[1]
    high = _as_integers(high)
    beyond = high > min(greatest, dtypes.limits(high.dtype)[1])
    low, high = _as_integers(low, dtype), _as_integers(high, dtype)
    span = ax.choose(high <= low, 1, ax.cast(high - low, keys.uint_of(width)))
    # A range up to and with the greatest value; the full one wraps to 0, and the
    # remainder by 0 is the dividend itself.
    span = ax.choose(beyond & (high > low), span + 1, span)
    # 2**width mod span, to carry the upper half of the bits over.
    multiplier = _rem(ax.full((), 1 << (width // 2), span.dtype), span)
    multiplier = _rem(multiplier * multiplier, span)
    upper, lower = (keys.random_bits(k, width, shape) for k in keys.split_key(key))
    offset = _rem(upper, span) * multiplier + _rem(lower, span)
    return low + ax.cast(_rem(offset, span), dtype)


def _rem(x: Any, y: Any) -> Any:
    return elementwise(ops.rem, x, y)


def _clip(x: Any, low: int, high: int) -> Any:
    return fnp.minimum(fnp.maximum(x, low), high)


def _as_integers(x: Any, dtype: Dtype | None = None) -> Any:
    """In an integer dtype, by default its own; what does not fit becomes an end."""
    x = x if dtypes.is_integer(x.dtype) else ax.cast(x, dtypes.default_dtype("i"))
    if dtype is None:
        return x
    least, greatest = dtypes.limits(dtype)
    own_least, own_greatest = dtypes.limits(x.dtype)
    return ax.cast(_clip(x, max(least, own_least), min(greatest, own_greatest)), dtype)


# Coin flips.


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Any:
    """True with probability `p`.

    Args:
      key: a key.
      p: floats that broadcast to `shape`.
      shape: of the result, by default that of `p`.
      mode: "high" draws twice the bits, for probabilities below 1e-7.

    Returns:
      Bools.

    Raises:
      DtypeError: `p` is no float.
      ValueRangeError: there is no such mode.

    Example:
      >>> ft.random.bernoulli(ft.random.key(1), 0.3, (5,))
      Array([False, False, False, False, False], dtype=bool)
    """
    one_of("random.bernoulli: mode", mode, ("low", "high"))
    if not dtypes.is_float(aval_of(p).dtype):
        raise DtypeError(f"random.bernoulli: p must be a float, got {aval_of(p)!r}")
    shape = how.common_shape("bernoulli", shape, p)
    own = how.drawn_dtype(p)
    p, key = how.parameter(p, own), how.check_key("bernoulli", key)
    return how.draw(_flips, key, p, shape=shape, dtype=own, mode=mode)


def _flips(key: Key, p: Tracer, shape: Shape, dtype: Dtype, mode: str) -> Any:
    p = ax.cast(p, dtype)
    if mode == "low":
        return unit(key, shape, dtype) < p
    upper, lower = unit(key, (2, *shape), dtype)
    return lower * 2.0 ** -finfo(dtype).nmant < p - upper


@sampler("ifucb")
def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """-1 or 1 with equal probability.

    Args:
      key: a key.
      shape: of the result.
      dtype: of numbers, by default int32.

    Example:
      >>> ft.random.rademacher(ft.random.key(0), (5,))
      Array([-1, -1,  1,  1, -1], dtype=int32)
    """
    up = unit(key, shape, dtypes.default_dtype("f")) < 0.5
    one = ax.cast(ax.full((), 1, dtypes.default_dtype("f")), dtype)
    return ax.choose(up, one, ax.full((), -1, dtype))


# Normal.


@sampler("fc")
def normal(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The standard normal distribution; complex dtypes have variance 1 in all.

    Args:
      key: a key.
      shape: of the result.
      dtype: float or complex, by default float32.

    Raises:
      DtypeError: the dtype is neither float nor complex.

    Example:
      >>> ft.random.normal(ft.random.key(0), (2, 2))
      Array([[ 1.622642  ,  2.0252647 ],
             [-0.43359435, -0.07861736]], dtype=float32)
      >>> 3.0 + 0.5 * ft.random.normal(ft.random.key(0), (2,))  # mean 3, deviation 0.5
      Array([3.811321 , 4.0126324], dtype=float32)
    """
    if dtypes.is_complex(dtype):
        real, pair = dtypes.real_dtype(dtype), keys.split_key(key)
        parts = [unwrap(normal)(k, shape, real) / math.sqrt(2) for k in pair]
        return bind(ops.make_complex, *parts)
    # √2·erf⁻¹(u), with u uniform in (-1, 1).
    one = np.ones((), dtype)
    u = between_numbers(key, float(np.nextafter(-one, one)), 1.0, shape, dtype)
    return math.sqrt(2) * bind(ops.erf_inv, u)


@sampler()
def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None
) -> Any:
    """The standard normal distribution between two bounds.

    Args:
      key: a key.
      lower, upper: the bounds; they broadcast to `shape`.
      shape: of the result, by default that of the bounds.
      dtype: a float dtype.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: the bounds do not broadcast to `shape`.

    Example:
      >>> ft.random.truncated_normal(ft.random.key(0), -1.0, 1.0, (3,))
      Array([ 0.86185944,  0.9412884 , -0.29104838], dtype=float32)
    """
    low, high = (bind(ops.erf, x / math.sqrt(2)) for x in (lower, upper))
    u = between(key, low, high, shape, dtype)
    value = math.sqrt(2) * bind(ops.erf_inv, u)
    # The bounds themselves are open.
    least, most = (
        elementwise(ops.nextafter, bind(ops.stop_gradient, x), toward)
        for x, toward in ((lower, math.inf), (upper, -math.inf))
    )
    return fnp.minimum(fnp.maximum(value, least), most)


@sampler()
def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Any:
    """exp(sigma·z) of a standard normal z.

    Args:
      key: a key.
      sigma: the standard deviation of the logarithm; broadcasts to `shape`.
      shape: of the result, by default that of `sigma`.
      dtype: a float dtype, by default float32.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: `sigma` does not broadcast to `shape`.

    Example:
      >>> ft.random.lognormal(ft.random.key(0), 0.5, (3,))
      Array([2.2508795, 2.7528381, 0.8050932], dtype=float32)
    """
    return fnp.exp(unwrap(normal)(key, shape, dtype) * sigma)


@sampler()
def maxwell(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The length of a vector of three normal samples: density √(2/π)·x²·exp(-x²/2).

    Args:
      key: a key.
      shape: of the result.
      dtype: a float dtype, by default float32.

    Raises:
      DtypeError: the dtype is no float.

    Example:
      >>> ft.random.maxwell(ft.random.key(0), (2,))
      Array([2.6310966 , 0.99103296], dtype=float32)
    """
    x = unwrap(normal)(key, (*shape, 3), dtype)
    return fnp.sqrt(fnp.sum(x * x, -1))


def _shape_before(name: str, shape: Any, *parameters: Any) -> Shape:
    own = how.common_shape(name, None, *parameters)
    return (how.as_shape(name, shape) or own) + own


@sampler(shape_of=_shape_before)
def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None
) -> Any:
    """A Maxwell sample with a random sign, times `scale`, plus `loc`.

    Args:
      key: a key.
      loc, scale: floats; they broadcast together.
      shape: of the result before the axes of the parameters, which follow.
      dtype: a float dtype, by default float32.

    Raises:
      DtypeError: the dtype is no float.

    Example:
      >>> ft.random.double_sided_maxwell(ft.random.key(0), 0.0, 1.0, (2,))
      Array([1.5457212, 1.5741276], dtype=float32)
    """
    length_key, sign_key = keys.split_key(key)
    sign = unwrap(rademacher)(sign_key, shape, dtype)
    length = unwrap(maxwell)(length_key, shape, dtype)
    return sign * length * scale + loc


@sampler()
def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The inverse Gaussian distribution with scale 1.

        density √(1/(2πx³))·exp(-(x - μ)²/(2μ²x)), x > 0

    Args:
      key: a key.
      mean: μ; broadcasts to `shape`.
      shape: of the result, by default that of `mean`.
      dtype: a float dtype.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: `mean` does not broadcast to `shape`.

    Source: J. Michael, W. Schucany, R. Haas, "Generating random variates using
    transformations with multiple roots", 1976.

    Example:
      >>> ft.random.wald(ft.random.key(0), 1.0, (2,))
      Array([0.38059747, 0.41566533], dtype=float32)
    """
    normal_key, uniform_key = keys.split_key(key)
    v = unwrap(normal)(normal_key, shape, dtype)
    z = unit(uniform_key, shape, dtype)
    y = v * v
    square = mean * mean
    root = fnp.sqrt(4 * mean * y + square * (y * y))
    x = mean + square * y / 2 - mean / 2 * root
    return ax.choose(z <= mean / (mean + x), x, square / x)


# Logarithms of a uniform sample.


@sampler()
def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The exponential distribution with rate 1: density exp(-x), x ≥ 0.

    Args:
      key: a key.
      shape: of the result.
      dtype: a float dtype, by default float32.

    Raises:
      DtypeError: the dtype is no float.

    Example:
      >>> ft.random.exponential(ft.random.key(0), (3,)) / 2.0  # rate 2
      Array([1.475064  , 1.9217123 , 0.20195177], dtype=float32)
    """
    return -fnp.log1p(-unit(key, shape, dtype))


@sampler()
def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The Laplace distribution with location 0 and scale 1: density exp(-|x|)/2.

    Args:
      key: a key.
      shape: of the result.
      dtype: a float dtype, by default float32.

    Raises:
      DtypeError: the dtype is no float.

    Example:
      >>> ft.random.laplace(ft.random.key(0), (3,))
      Array([-2.2569816 , -3.1502788 ,  0.40859547], dtype=float32)
    """
    low = float(-1.0 + finfo(dtype).epsneg)
    u = between_numbers(key, low, 1.0, shape, dtype)
    return fnp.sign(u) * fnp.log1p(-fnp.abs(u))


@sampler()
def logistic(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The standard logistic distribution: P(X ≤ x) = 1/(1 + exp(-x)).

    Args:
      key: a key.
      shape: of the result.
      dtype: a float dtype, by default float32.

    Raises:
      DtypeError: the dtype is no float.

    Example:
      >>> ft.random.logistic(ft.random.key(0), (3,))
      Array([ 2.896376 ,  3.8217716, -0.6978392], dtype=float32)
    """
    u = _positive(key, shape, dtype)
    return fnp.log(u) - fnp.log1p(-u)


def _positive(key: Key, shape: Shape, dtype: Dtype) -> Any:
    """Uniform in (0, 1): zero becomes the least normal number."""
    tiny = float(finfo(dtype).tiny)
    return between_numbers(key, tiny, 1.0, shape, dtype)


@sampler(statics=("mode",))
def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: Any = None) -> Any:
    """The standard Gumbel distribution: P(X ≤ x) = exp(-exp(-x)).

    The greatest of logits plus such noise is a draw from their softmax: `categorical`.

    Args:
      key: a key.
      shape: of the result.
      dtype: a float dtype.
      mode: "high" draws twice the bits, for tails below 1e-7; "highest" has float32
        for all of them, as if 64 bits had been drawn and rounded down; default "low".

    Raises:
      DtypeError: the dtype is no float.
      ValueRangeError: there is no such mode.

    Example:
      >>> ft.random.gumbel(ft.random.key(0), (3,))
      Array([ 2.9233725 ,  3.8326178 , -0.09689324], dtype=float32)
    """
    one_of("random.gumbel: mode", mode, GUMBEL_MODES)
    return extreme(key, shape, dtype, mode)


def extreme(key: Key, shape: Shape, dtype: Dtype, mode: str | None) -> Any:
    """-log(-log(u)); or the same of 1 - u, with more bits where u is small."""
    if mode == "highest" and dtype == dtypes.float32:
        return _extreme_of_64_bits(key, shape)
    if mode not in ("high", "highest"):
        return -fnp.log(-fnp.log(_positive(key, shape, dtype)))
    info = finfo(dtype)
    upper, lower = unit(key, (2, *shape), dtype)
    u = 2.0**-info.nmant * lower + upper + float(info.tiny)
    u = ax.choose(upper >= 0.5, upper, u)
    return -fnp.log(-fnp.log1p(-u))


def _extreme_of_64_bits(key: Key, shape: Shape) -> Any:
    """u and 1 - u are multiples of 2^-64; the smaller one keeps 24 bits."""
    upper, lower = keys.random_bits(key, 32, (2, *shape))
    with settings.config(enable_x64=True):
        whole = ax.cast(upper, dtypes.uint64) << 32 | ax.cast(lower, dtypes.uint64)
        is_small = upper < 1 << 31
        whole = filled = ax.choose(is_small, whole, ~whole + 1)
        for distance in (1, 2, 4, 8, 16, 32):  # all bits below the highest one
            filled = filled | filled >> distance
        x = ax.cast(whole & ~(filled >> 24), dtypes.float32)
    x = fnp.maximum(x * 2.0**-64, 2.0**-65)
    return -fnp.log(-ax.choose(is_small, fnp.log1p(-x), fnp.log(x)))


@sampler()
def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The Cauchy distribution with location 0 and scale 1: density 1/(π·(1 + x²)).

    Args:
      key: a key.
      shape: of the result.
      dtype: a float dtype, by default float32.

    Raises:
      DtypeError: the dtype is no float.

    Example:
      >>> ft.random.cauchy(ft.random.key(0), (3,))
      Array([ 6.0274944 , 14.837895  , -0.58172226], dtype=float32)
    """
    u = between_numbers(key, float(finfo(dtype).eps), 1.0, shape, dtype)
    return fnp.tan(math.pi * (u - 0.5))


@sampler()
def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The Pareto distribution with scale 1: density b/x^(b + 1), x ≥ 1.

    Args:
      key: a key.
      b: the shape parameter; broadcasts to `shape`.
      shape: of the result, by default that of `b`.
      dtype: a float dtype.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: `b` does not broadcast to `shape`.

    Example:
      >>> ft.random.pareto(ft.random.key(0), 3.0, (2,))
      Array([2.673467 , 3.6007476], dtype=float32)
    """
    return fnp.exp(unwrap(exponential)(key, shape, dtype) / b)


@sampler()
def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The Rayleigh distribution: density x/scale²·exp(-x²/(2·scale²)), x ≥ 0.

    Args:
      key: a key.
      scale: a positive number, or an array; broadcasts to `shape`.
      shape: of the result, by default that of `scale`.
      dtype: a float dtype.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: `scale` does not broadcast to `shape`.

    Example:
      >>> ft.random.rayleigh(ft.random.key(0), 1.0, (2,))
      Array([0.32787833, 0.20810027], dtype=float32)
    """
    return scale * fnp.sqrt(fnp.log(unit(key, shape, dtype)) * -2)


@sampler(shape_of=lambda name, shape, *_: how.as_shape(name, shape))
def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
) -> Any:
    """The Weibull distribution: P(X > x) = exp(-(x/scale)^concentration), x ≥ 0.

    Args:
      key: a key.
      scale, concentration: floats; such with more axes than `shape` share a sample.
      shape: of the samples.
      dtype: a float dtype, by default float32.

    Raises:
      DtypeError: the dtype is no float.

    Example:
      >>> ft.random.weibull_min(ft.random.key(0), 1.0, 2.0, (2,))
      Array([1.7175937, 1.9604654], dtype=float32)
    """
    waiting = unwrap(exponential)(key, shape, dtype)
    return elementwise(ops.power, waiting, 1 / concentration) * scale


@sampler()
def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None
) -> Any:
    """The triangular distribution on [left, right] with its peak at `mode`.

    Args:
      key: a key.
      left, mode, right: floats in this order; they broadcast to `shape`.
      shape: of the result, by default that of the parameters.
      dtype: a float dtype.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: the parameters do not broadcast to `shape`.

    Example:
      >>> ft.random.triangular(ft.random.key(0), 0.0, 0.5, 1.0, (2,))
      Array([0.8382394, 0.8965106], dtype=float32)
    """
    u, width = unit(key, shape, dtype), right - left
    rising = left + fnp.sqrt(u * width * (mode - left))
    falling = right - fnp.sqrt((1 - u) * width * (right - mode))
    return ax.choose(u < (mode - left) / width, rising, falling)


@sampler("iu", own=how.drawn_dtype)
def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The number of trials with probability `p` until the first success: 1, 2, 3, ….

    Args:
      key: a key.
      p: in (0, 1]; broadcasts to `shape`.
      shape: of the result, by default that of `p`.
      dtype: an integer dtype, by default int32.

    Raises:
      DtypeError: the dtype is no integer.
      ShapeError: `p` does not broadcast to `shape`.

    Example:
      >>> ft.random.geometric(ft.random.key(0), 0.5, (5,))
      Array([1, 1, 2, 2, 1], dtype=int32)
    """
    u = unit(key, shape, p.dtype)
    u = ax.choose(u == 0, 1, u)
    return ax.cast(fnp.floor(fnp.log(u) / fnp.log1p(-p)) + 1, dtype)


def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
) -> Any:
    """Normal vectors with a mean and a covariance.

    Args:
      key: a key.
      mean: of shape (..., n).
      cov: of shape (..., n, n), symmetric and positive (semi-)definite.
      shape: of the result without its last axis, by default that of the batches.
      dtype: a float dtype, by default that of the parameters.
      method: "cholesky", or "eigh" or "svd", which singular covariances need.

    Returns:
      Of shape (*shape, n).

    Raises:
      ShapeError: the shapes do not fit.
      ValueRangeError: there is no such method.

    Example:
      >>> cov = fnp.array([[1.0, 0.9], [0.9, 1.0]])
      >>> ft.random.multivariate_normal(ft.random.key(0), fnp.zeros(2), cov, (3,))
      Array([[ 1.622642  ,  2.3431704 ],
             [-0.43359435, -0.42450342],
             [ 0.17609091, -0.2652421 ]], dtype=float32)
    """
    one_of("random.multivariate_normal: method", method, ("cholesky", "eigh", "svd"))
    mean, cov = ew.promote_inexact(mean, cov)
    outer, square = aval_of(mean).shape, aval_of(cov).shape
    if not outer or square[-2:] != outer[-1:] * 2:
        raise ShapeError(
            "random.multivariate_normal takes a mean of shape (..., n) and a cov of "
            f"shape (..., n, n), got {outer} and {square}"
        )
    batches = [np.broadcast_to(0, x) for x in (outer[:-1], square[:-2])]
    shape = how.common_shape("multivariate_normal", shape, *batches)
    wanted = how.check_dtype(
        "multivariate_normal", aval_of(mean).dtype if dtype is None else dtype
    )
    key = how.check_key("multivariate_normal", key)
    whole = (*shape, outer[-1])
    return how.draw(
        _normal_vectors, key, mean, cov, shape=whole, dtype=wanted, method=method
    )


def _normal_vectors(
    key: Key, mean: Any, cov: Any, shape: Shape, dtype: np.dtype[Any], method: str
) -> Any:
    if method == "cholesky":
        factor = fnp.linalg.cholesky(cov)
    else:
        found = fnp.linalg.svd(cov)[1::-1] if method == "svd" else fnp.linalg.eigh(cov)
        factor = found[1] * fnp.sqrt(found[0][..., None, :])
    x = unwrap(normal)(key, shape, dtype)
    return mean + fnp.matmul(factor, x[..., None])[..., 0]


@sampler("fc", statics=("n", "m"))
def orthogonal(
    key: Any, n: Any, shape: Any = (), dtype: Any = None, m: Any = None
) -> Any:
    """Orthogonal or, of a complex dtype, unitary matrices, uniform by the Haar measure.

    Args:
      key: a key.
      n: the number of rows.
      shape: of the batch.
      dtype: a float or complex dtype.
      m: the number of columns, by default `n`; the shorter side is orthonormal.

    Returns:
      Matrices of shape (*shape, n, m).

    Source: F. Mezzadri, "How to generate random matrices from the classical compact
    groups", Notices of the AMS 54 (2007).

    Example:
      >>> q = ft.random.orthogonal(ft.random.key(0), 3)
      >>> fnp.round(q @ q.T, 3) + 0.0
      Array([[1., 0., 0.],
             [0., 1., 0.],
             [0., 0., 1.]], dtype=float32)
    """
    n = ax.static_int(n, "random.orthogonal: n")
    m = n if m is None else ax.static_int(m, "random.orthogonal: m")
    size = (*shape, max(n, m), min(n, m))
    q, r = fnp.linalg.qr(unwrap(normal)(key, size, dtype))
    signs = fnp.sign(fnp.linalg.diagonal(r))
    x = q * signs[..., None, :]
    return x if n >= m else x.mT
