"""The distribution of a standard normal value, its logarithm and its inverse.

An error of the argument grows with its square on the way through exp(-x²/2). So
x/√2 is taken in two numbers, and the second counts by its slope. float16 and bfloat16
are computed in float32 and rounded once.

A branch that is not taken gets an argument that it can bear, so that derivatives are
finite wherever the function's are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ValueRangeError
from ftrace.numpy.axes import cast, choose, static_int
from ftrace.numpy.bessel import horner
from ftrace.numpy.elementwise import promote_inexact
from ftrace.trace.fused import run_fused
from ftrace.trace.operations import bind
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.tracer import Value

__all__ = ["log_ndtr", "ndtr", "ndtri"]

#: √½ in two numbers: the first times h, a multiple of 2⁻⁸ up to the limit, is exact.
_ROOT_SINGLE = (0.70703125, 7.55311865475244e-05)
_ROOT_DOUBLE = (0.7071067839860916, -2.799544089368687e-09)
#: Beyond it the probability is 0 or 1.
_LIMIT_SINGLE, _LIMIT_DOUBLE = 15.0, 39.0


def ndtr(x: Value) -> Any:
    """The probability that a standard normal value is at most x."""
    return run_fused(_of_any, promote_inexact(x))


def _of_any(x: Any) -> Any:
    if x.dtype.itemsize >= 4:
        return _probability(x)
    return cast(_probability(cast(x, dtypes.float32)), x.dtype, x.weak_type)


def _probability(x: Any) -> Any:
    """erfc(z + r)/2 with z + r = -x/√2: erfc(z)/2 - r·exp(-z²)/√π."""
    double = x.dtype == dtypes.float64
    limit = _LIMIT_DOUBLE if double else _LIMIT_SINGLE
    high, low = _ROOT_DOUBLE if double else _ROOT_SINGLE
    x = choose(x < -limit, -limit, choose(x > limit, limit, x))
    h = fnp.rint(x * 256) * (1 / 256)
    product, rest = h * -high, -((x - h) * high + x * low)
    z = product + rest
    r = rest - (z - product)
    return 0.5 * bind(p.erfc, z) - r * (1 / math.sqrt(math.pi)) * fnp.exp(-z * z)


def log_ndtr(x: Value, series_order: int = 3) -> Any:
    """log(ndtr(x)), exact also where ndtr underflows: by a series far below 0.

    Args:
      x: the array.
      series_order: of the asymptotic series (Abramowitz & Stegun 26.2.12), if more
        than what rounding needs: 3 terms in float32, 5 in float64.
    """
    order = static_int(series_order, "log_ndtr: series_order")
    if order < 0:
        raise ValueRangeError(f"log_ndtr: series_order must not be negative: {order}")
    return run_fused(_log_ndtr, promote_inexact(x), order=order)


def _log_ndtr(given: Any, order: int) -> Any:
    x = given if given.dtype.itemsize >= 4 else cast(given, dtypes.float32)
    low, terms = (-37.0, 5) if x.dtype == dtypes.float64 else (-10.0, 3)
    far_below, above = x < low, x > 0
    # Above 0 the logarithm is that of nearly 1: by the probability of the contrary.
    smaller = _probability(choose(above, -x, choose(far_below, 0.0, x)))
    near = choose(
        above,
        fnp.log1p(-choose(above, smaller, 0.5)),
        fnp.log(choose(above, 0.5, smaller)),
    )
    below = choose(far_below, x, low)
    square = below * below
    series: Any = 1.0
    term: Any = 1.0
    for k in range(1, max(order, terms) + 1):
        term = term * (-(2 * k - 1)) / square
        series = series + term
    tail = -0.5 * square - fnp.log(-below) - 0.5 * math.log(2 * math.pi)
    tail = tail + fnp.log(series)
    return cast(choose(far_below, tail, near), given.dtype, given.weak_type)


# The quantile near 0 with r = √(-2 log p). float32, below 1/10: r less a polynomial in
# (r - m)/(r + m), by interpolation at the nodes of Chebyshev, 2^-23.7 of it. float64: a
# rational function (P. J. Acklam, 2003), of relative error 1.15e-9, and two steps of
# Halley's method.
_TAIL_SINGLE, _TAIL_DOUBLE = 0.1, 0.02425
_MIDDLE = 5.5
_LESS_SINGLE = (
    0.0884054005, -0.104101703, 0.0550565235, -0.0616320185, 0.0828521922,
    -0.100527495, 0.113668412, -0.147182211, 0.178907201, -0.25663054, 0.329092324,
    -0.639801383, 0.488443673,
)  # fmt: skip
_QUANTILE_TOP = (
    -7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e00,
    -2.549732539343734e00, 4.374664141464968e00, 2.938163982698783e00,
)  # fmt: skip
_QUANTILE_BOTTOM = (
    7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e00,
    3.754408661907416e00, 1.0,
)  # fmt: skip


def ndtri(p: Value) -> Any:
    """The value of which ndtr is p; its inverse."""
    return run_fused(_quantile, promote_inexact(p))


def _quantile(given: Any) -> Any:
    q = given if given.dtype.itemsize >= 4 else cast(given, dtypes.float32)
    limit = _TAIL_DOUBLE if q.dtype == dtypes.float64 else _TAIL_SINGLE
    upper = q > 0.5
    mirrored = choose(upper, 1 - q, q)
    in_tail = mirrored < limit
    centre = math.sqrt(2) * bind(p.erf_inv, 2 * choose(in_tail, 0.5, mirrored) - 1)
    ends = mirrored <= 0
    small = choose(fnp.logical_and(in_tail, fnp.logical_not(ends)), mirrored, limit)
    value = choose(in_tail, _lower_quantile(small), centre)
    value = choose(ends, choose(mirrored == 0, -np.inf, np.nan), value)
    return cast(choose(upper, -value, value), given.dtype, given.weak_type)


def _lower_quantile(small: Any) -> Any:
    root = fnp.sqrt(-2 * fnp.log(small))
    if small.dtype == dtypes.float32:
        return horner(_LESS_SINGLE, (root - _MIDDLE) / (root + _MIDDLE)) - root
    value = horner(_QUANTILE_TOP, root) / horner(_QUANTILE_BOTTOM, root)
    for _ in range(2):
        error = _probability(value) - small
        step = error * math.sqrt(2 * math.pi) * fnp.exp(0.5 * value * value)
        value = value - step / (1 + 0.5 * value * step)
    return value
