"""Γ(x) of positive x, by a formula of Stirling's form.

    Γ(y) = y^(y - 1/2)·exp(-y)·P(1/y)

Its parts are exact to rounding. The exponential of log Γ(y) has an error that grows
with the logarithm: it serves where that is small, and where the power would overflow.
Below 1, Γ(x) = Γ(x + 1)/x.
"""

from __future__ import annotations

from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.numpy.axes import choose
from ftrace.numpy.bessel import horner
from ftrace.trace.operations import bind
from ftrace.trace.primitives import elementwise as p

__all__ = ["positive_gamma"]

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
