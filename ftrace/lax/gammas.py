"""The gamma function and what is made of it, of floats of one dtype.

Γ(x) and log B(a, b) of positive numbers are taken by formulas of Stirling's form.

    Γ(y) = y^(y - 1/2)·exp(-y)·P(1/y)

Its parts are exact to rounding. The exponential of log Γ(y) has an error that grows
with the logarithm: it serves where that is small, and where the power would overflow.
Below 1, Γ(x) = Γ(x + 1)/x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import update_wrapper
from inspect import Parameter, signature
from typing import Any, TypeVar, cast as cast_to

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.numpy.axes import bind_names, cast, choose, is_sequence, static_int
from ftrace.numpy.elementwise import promote_inexact, refuse_complex
from ftrace.numpy.floats import horner
from ftrace.trace.bind import bind, broadcast_shapes
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.primitives import elementwise as p

F = TypeVar("F", bound=Callable[..., Any])


def run_wide(
    function: Callable[..., Any], operands: Sequence[Any], **static: Any
) -> Any:
    """`run_fused` of operands of one dtype, of 16 bits in float32, rounded once."""
    dtype, weak = operands[0].dtype, all(x.weak_type for x in operands)
    if dtype.itemsize >= 4:
        return run_fused(function, operands, **static)
    wide = [cast(x, dtypes.float32, weak) for x in operands]
    return cast(run_fused(function, wide, **static), dtype, weak)


#: What takes lists as well: those that do in JAX.
_OF_LISTS = {"expn", "hyp1f1", "hyp2f1", "log_ndtr", "ndtr", "spence"}


def weak_as(operands: Sequence[Any], result: Any) -> Any:
    """The result, weak where all operands are: as elementwise primitives have it."""
    if all(x.weak_type for x in operands):
        return cast(result, result.dtype, True)
    return result


def compose(function: F, real: bool = False, weak: bool = False) -> F:
    """A composition of floats as one graph in eager code.

    Operands, which are the parameters without a default, are promoted to one inexact
    dtype; float16 and bfloat16 are computed in float32 and rounded once. The others are
    static: integers, or bools as their defaults are. `real`: complex ones are refused.
    `weak`: the result of weak ones is weak.
    """
    title, parameters = function.__name__.lstrip("_"), signature(function)
    defaults = {n: x.default for n, x in parameters.parameters.items()}
    names = [n for n, default in defaults.items() if default is Parameter.empty]

    def static(name: str, value: Any) -> Any:
        if isinstance(defaults[name], bool):
            return bool(value)
        return static_int(value, f"{title}: {name}")

    def call(*args: Any, **kwargs: Any) -> Any:
        given = bind_names(function, parameters, args, kwargs)
        operands = [given.pop(n) for n in names]
        if title in _OF_LISTS:
            operands = [fnp.asarray(x) if is_sequence(x) else x for x in operands]
        operands = promote_inexact(*operands)
        broadcast_shapes(title, [x.shape for x in operands])
        if real:
            refuse_complex(title, *operands)
        given = {n: static(n, x) for n, x in given.items()}
        found = run_wide(function, operands, **given)
        return weak_as(operands, found) if weak else found

    return cast_to(F, update_wrapper(call, function))


def compose_real(function: F) -> F:
    """`compose`, of real numbers."""
    return compose(function, real=True)


def compose_weak(function: F) -> F:
    """`compose`, of what is one primitive in JAX."""
    return compose(function, weak=True)


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


def _log_gamma(x: Any) -> Any:
    return bind(p.lgamma, x)


def log_beta(a: Any, b: Any) -> Any:
    """log |B(a, b)|; where one is large its formula has no large differences."""
    a, b = fnp.minimum(a, b), fnp.maximum(a, b)
    # Here the logarithms of gamma are small.
    plain = _log_gamma(a) + _log_gamma(b) - _log_gamma(a + b)
    use = (b >= _LEAST) & (a + b >= _LEAST) & (b < math.inf)
    small, b = choose(use, a, 1.0), choose(use, b, _LEAST)
    both = small >= _LEAST
    total = small + b
    shared = stirling_rest(b) - stirling_rest(total) - (b - 0.5) * fnp.log1p(small / b)
    one = _log_gamma(choose(both, 1.0, small)) + small * (1 - fnp.log(total))
    a = choose(both, small, _LEAST)
    two = stirling_rest(a) + 0.5 * math.log(2 * math.pi) - 0.5 * fnp.log(a + b)
    two = two - (a - 0.5) * fnp.log1p(b / a)
    return choose(use, shared + choose(both, two, one), plain)


def stirling_rest(x: Any) -> Any:
    """log Γ(x) less (x - 1/2)·log(x) - x + log(2π)/2, for x ≥ 10, also of complex x."""
    inverse = 1 / x
    return inverse * horner(_REST, inverse * inverse)


# Numerators and denominators B₂ₖ/(2k)! of the Euler–Maclaurin series.
_BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600,
)  # fmt: skip
_ZETA_TERMS = 10


def hurwitz_zeta(s: Any, a: Any) -> Any:
    """ζ(s, a) = Σ (a + k)^-s.

    Terms below 0, from a up to the last, are those of 1 - a down with another sign.

    They are what ζ has at the distance of a from the whole number above it, but not yet
    at 1 - a.
    """
    s, a = fnp.broadcast_arrays(s, a)
    below = (a < 0) & (fnp.floor(a) != a) & (fnp.floor(s) == s)
    distance = choose(below, fnp.ceil(a) - a, 1.0)
    terms = _hurwitz(s, distance) - _hurwitz(s, choose(below, 1 - a, 1.0))
    terms = choose(below, terms, 0.0)
    above = _hurwitz(s, choose(below, a - fnp.floor(a), a))
    return above + choose(fnp.remainder(s, 2) == 0, terms, -terms)


def _hurwitz(s: Any, a: Any) -> Any:
    """Euler–Maclaurin's formula after ten terms (NIST Handbook, 25.11.5).

    Summed from the smallest terms up; large a take the formula without terms.
    """
    is_far = a > 3 * s + _ZETA_TERMS
    edge = choose(is_far, a, a + _ZETA_TERMS)
    power = fnp.power(edge, -s)
    rising, tail = s, power / edge
    total: Any = 0.0
    for k, coefficient in enumerate(_BERNOULLI):
        total = total + coefficient * rising * tail
        rising = rising * (s + (2 * k + 1)) * (s + (2 * k + 2))
        tail = tail / (edge * edge)
    total = total + power * (edge / (s - 1) + 0.5)
    near = total
    for k in reversed(range(1, _ZETA_TERMS)):
        near = near + fnp.power(a + k, -s)
    total = choose(is_far, total, near + fnp.power(a, -s))
    total = choose(a == np.inf, 0.0, choose(s == np.inf, fnp.power(a, -s), total))
    below = choose(fnp.floor(a) == a, np.inf, np.nan)  # a term is 1/0
    total = choose(a <= 0, below, total)
    return choose(s == 1, np.inf, choose(s < 1, np.nan, total))


def poly_gamma(order: Any, x: Any, factorial: Any = None) -> Any:
    """The derivative of digamma of a whole order, given as a float.

    Args:
      order, x: of one shape.
      factorial: of the order, where it is known; else the exponential of a logarithm.
    """
    above = choose(order == 0, 1.0, order)
    if factorial is None:
        factorial = fnp.exp(_log_gamma(above + 1))
    sign = choose(fnp.remainder(order, 2) == 0, -1.0, 1.0)
    value = sign * factorial * hurwitz_zeta(above + 1, x)
    return choose(order == 0, bind(p.digamma, x), value)


def gamma_sign(x: Any) -> Any:
    """The sign of Γ(x): 1 or -1, NaN at the negative integers."""
    whole = fnp.floor(x)
    odd = fnp.remainder(whole, 2) != 0
    negative = choose(x == whole, np.nan, choose(odd, -1.0, 1.0))
    value = choose(x < 0, negative, 1.0)
    value = choose(x == 0, fnp.copysign(1.0, x), value)
    return choose((x == -np.inf) | (x != x), np.nan, value)


def any_gamma(x: Any) -> Any:
    """Γ(x). That of negative numbers is the exponential of its logarithm."""
    below = x <= 0
    mirrored = choose(below, x, -0.5)
    low = gamma_sign(mirrored) * fnp.exp(_log_gamma(mirrored))
    return choose(below, low, positive_gamma(choose(below, 1.0, x)))
