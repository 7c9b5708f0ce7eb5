"""Γ(x) and log B(a, b) of positive numbers, by formulas of Stirling's form.

    Γ(y) = y^(y - 1/2)·exp(-y)·P(1/y)

Its parts are exact to rounding. The exponential of log Γ(y) has an error that grows
with the logarithm: it serves where that is small, and where the power would overflow.
Below 1, Γ(x) = Γ(x + 1)/x.
"""

from __future__ import annotations

import math
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.numpy.axes import choose
from ftrace.numpy.bessel import horner
from ftrace.trace.operations import bind
from ftrace.trace.primitives import elementwise as p

__all__ = ["log_beta", "positive_gamma"]

# P in 1/y for y ≥ 2: by interpolation at the nodes of Chebyshev, 2^-29.4 and 2^-53.
_SINGLE = (
    -0.000968485489, 0.00235775579, -0.000644816319, -0.00671490328, 0.0087033296,
    0.2088857, 2.50662827,
)  # fmt: skip
_DOUBLE = (
    -0.0027829738730498614, 0.011577082402428775, -0.021175519192687127,
    0.021483941021046452, -0.011705154142774817, 0.0014022884284228387,
    0.0020412646325766184, -0.00015539261179992473, -0.0014766550750791832,
    0.00017369595883144132, 0.001965387383384922, -0.0005752060692786554,
    -0.0067210903274134565, 0.00870357039574924, 0.20888568955259706,
    2.5066282746310007,
)  # fmt: skip
#: Beyond it the power, or the slope of a factor, overflows before Γ does.
_MOST_SINGLE, _MOST_DOUBLE = 26.0, 140.0


def positive_gamma(x: Any) -> Any:
    """Γ(x) of float32 or float64 numbers greater than 0."""
    double = x.dtype == dtypes.float64
    below = x < 1
    y = choose(below, x + 1, x)
    most = _MOST_DOUBLE if double else _MOST_SINGLE
    inside = fnp.logical_and(y >= 2.5, y <= most)
    other = fnp.exp(bind(p.lgamma, choose(inside, 1.5, y)))
    safe = choose(inside, y, 2.5)
    power = fnp.power(safe, safe - 0.5) * fnp.exp(-safe)
    series = horner(_DOUBLE if double else _SINGLE, 1 / safe)
    value = choose(inside, power * series, other)
    return choose(below, value / choose(below, x, 1.0), value)


# log Γ(x) less (x - 1/2)·log(x) - x + log(2π)/2, times x, in 1/x² (NIST Handbook,
# 5.11.1): for x ≥ 10 eight terms are exact to rounding in float64.
_REST = (
    -3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360,
    1 / 12,
)  # fmt: skip
_LEAST = 10.0


def log_beta(x: Any, y: Any) -> Any:
    """log |B(x, y)|; where one is large its formula has no large differences."""
    lgamma = p.lgamma
    a, b = fnp.minimum(x, y), fnp.maximum(x, y)
    # Here the logarithms of gamma are small.
    plain = bind(lgamma, a) + bind(lgamma, b) - bind(lgamma, a + b)
    use = fnp.logical_and(a > 0, fnp.logical_and(b >= _LEAST, b < math.inf))
    small, b = choose(use, a, 1.0), choose(use, b, _LEAST)
    both = small >= _LEAST
    total = small + b
    shared = _rest(b) - _rest(total) - (b - 0.5) * fnp.log1p(small / b)
    one = bind(lgamma, choose(both, 1.0, small)) + small * (1 - fnp.log(total))
    a = choose(both, small, _LEAST)
    two = _rest(a) + 0.5 * math.log(2 * math.pi) - 0.5 * fnp.log(a + b)
    two = two - (a - 0.5) * fnp.log1p(b / a)
    return choose(use, shared + choose(both, two, one), plain)


def _rest(x: Any) -> Any:
    inverse = 1 / x
    return inverse * horner(_REST, inverse * inverse)
