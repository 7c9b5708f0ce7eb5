"""Complex numbers as pairs of real expressions.

For each elementwise primitive the parts of its result in terms of the parts of its
operands. Values follow C99's annex G for ordinary operands; a modulus does not
overflow before the result does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ftrace.lower.math.floats import copy_sign
from ftrace.lower.math.term import Term, apply, eq, ne, select, sqrt
from ftrace.trace.primitives import elementwise as ew


class Pair(NamedTuple):
    """A complex value: its real and its imaginary part."""

    re: Term
    im: Term


def _call(op: ew.Primitive) -> Callable[..., Term]:
    return lambda *terms: apply(op, *terms)


exp, log, log1p, expm1 = map(_call, (ew.exp, ew.log, ew.log1p, ew.expm1))
sin, cos, sinh, cosh = map(_call, (ew.sin, ew.cos, ew.sinh, ew.cosh))
atan2, exp2 = _call(ew.atan2), _call(ew.exp2)
maximum, minimum = _call(ew.maximum), _call(ew.minimum)
LN2 = math.log(2)


def add(x: Pair, y: Pair) -> Pair:
    return Pair(x.re + y.re, x.im + y.im)


def sub(x: Pair, y: Pair) -> Pair:
    return Pair(x.re - y.re, x.im - y.im)


def neg(x: Pair) -> Pair:
    return Pair(-x.re, -x.im)


def conj(x: Pair) -> Pair:
    return Pair(x.re, -x.im)


def mul(x: Pair, y: Pair) -> Pair:
    return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def mul_zero(x: Pair, y: Pair) -> Pair:
    none = is_zero(x) | is_zero(y)
    product = mul(x, y)
    return Pair(select(none, 0.0, product.re), select(none, 0.0, product.im))


def is_zero(x: Pair) -> Term:
    return eq(x.re, 0.0) & eq(x.im, 0.0)


def div(x: Pair, y: Pair) -> Pair:
    """Smith's method: divide by the larger part first. R. L. Smith, CACM 5 (1962)."""
    wide = abs(y.re) >= abs(y.im)
    large, small = select(wide, y.re, y.im), select(wide, y.im, y.re)
    ratio = select(eq(small, 0.0), small, small / large)
    below = large + small * ratio
    re = select(wide, x.re + x.im * ratio, x.re * ratio + x.im)
    im = select(wide, x.im - x.re * ratio, x.im * ratio - x.re)
    return Pair(re / below, im / below)


def modulus(x: Pair) -> Term:
    """|x|, scaled so that no square overflows; infinite if a part is."""
    a, b = abs(x.re), abs(x.im)
    large, small = maximum(a, b), minimum(a, b)
    plain = eq(large, 0.0) | eq(large, math.inf)
    ratio = small / select(plain, 1.0, large)
    value = select(plain, large, large * sqrt(1.0 + ratio * ratio))
    infinite = eq(a, math.inf) | eq(b, math.inf)
    return select(infinite, math.inf, value)


def argument(x: Pair) -> Term:
    return atan2(x.im, x.re)


def exponential(x: Pair) -> Pair:
    size = exp(x.re)
    real_only = eq(x.im, 0.0)
    return Pair(
        select(real_only, size, size * cos(x.im)),
        select(real_only, x.im, size * sin(x.im)),
    )


def exponential2(x: Pair) -> Pair:
    return exponential(Pair(x.re * LN2, x.im * LN2))


def exponential_minus_one(x: Pair) -> Pair:
    """expm1(a)·cos(b) - 2 sin²(b/2): exact near zero."""
    half = sin(x.im * 0.5)
    return Pair(expm1(x.re) * cos(x.im) - 2.0 * half * half, exp(x.re) * sin(x.im))


def logarithm(x: Pair) -> Pair:
    return Pair(log(modulus(x)), argument(x))


def logarithm2(x: Pair) -> Pair:
    return scaled(logarithm(x), 1 / LN2)


def logarithm_of_one_plus(x: Pair) -> Pair:
    """log |1 + x| through log1p where |x| is small."""
    square = x.re * (2.0 + x.re) + x.im * x.im
    shifted = Pair(1.0 + x.re, x.im)
    near = abs(square) < 0.5
    size = select(
        near, 0.5 * log1p(select(near, square, 0.0)), log(modulus(shifted))
    )
    return Pair(size, argument(shifted))


def scaled(x: Pair, factor: float) -> Pair:
    return Pair(x.re * factor, x.im * factor)


def square_root(x: Pair) -> Pair:
    """The root with a real part that is not negative."""
    t = sqrt((abs(x.re) + modulus(x)) * 0.5)
    zero = eq(t, 0.0)
    other = abs(x.im) * 0.5 / select(zero, 1.0, t)
    right = x.re >= 0.0
    re = select(zero, 0.0, select(right, t, other))
    im = select(zero, 0.0, select(right, other, t))
    return Pair(re, copy_sign(im, x.im))


def reciprocal(x: Pair) -> Pair:
    zero = select(eq(x.re, x.re), 0.0, x.re * 0.0)
    return div(Pair(zero + 1.0, zero), x)


def reciprocal_root(x: Pair) -> Pair:
    return reciprocal(square_root(x))


def logistic(x: Pair) -> Pair:
    grown = exponential(neg(x))
    return reciprocal(Pair(grown.re + 1.0, grown.im))


def sine(x: Pair) -> Pair:
    return Pair(sin(x.re) * cosh(x.im), cos(x.re) * sinh(x.im))


def cosine(x: Pair) -> Pair:
    return Pair(cos(x.re) * cosh(x.im), -(sin(x.re) * sinh(x.im)))


def hyperbolic_sine(x: Pair) -> Pair:
    return Pair(sinh(x.re) * cos(x.im), cosh(x.re) * sin(x.im))


def hyperbolic_cosine(x: Pair) -> Pair:
    return Pair(cosh(x.re) * cos(x.im), sinh(x.re) * sin(x.im))


def hyperbolic_tangent(x: Pair) -> Pair:
    """Far from the axis it is ±1 up to a decaying wave, where cosh would overflow."""
    far = abs(x.re) > 20.0
    a = select(far, 0.0, x.re)
    sine_b, cosine_b = sin(x.im), cos(x.im)
    sinh_a = sinh(a)
    below = sinh_a * sinh_a + cosine_b * cosine_b
    re, im = sinh_a * cosh(a) / below, sine_b * cosine_b / below
    decay = 4.0 * exp(-2.0 * abs(x.re)) * sine_b * cosine_b
    one = select(x.re > 0.0, 1.0, -1.0 + 0.0 * x.re)
    return Pair(select(far, one, re), select(far, decay, im))


def turned(x: Pair) -> Pair:
    """i·x"""
    return Pair(-x.im, x.re)


def turned_back(x: Pair) -> Pair:
    """-i·x"""
    return Pair(x.im, -x.re)


def tangent(x: Pair) -> Pair:
    return turned_back(hyperbolic_tangent(turned(x)))


def inverse_hyperbolic_sine(x: Pair) -> Pair:
    """log(x + sqrt(x² + 1)), for Re x ≥ 0; the function is odd."""
    flipped = x.re < 0.0
    a = Pair(abs(x.re), select(flipped, -x.im, x.im))
    square = mul(a, a)
    root = square_root(Pair(square.re + 1.0, square.im))
    value = logarithm(add(a, root))
    re = copy_sign(value.re, x.re)
    return Pair(re, select(flipped, -value.im, value.im))


def inverse_hyperbolic_cosine(x: Pair) -> Pair:
    below = square_root(Pair(x.re - 1.0, x.im))
    above = square_root(Pair(x.re + 1.0, x.im))
    return logarithm(add(x, mul(below, above)))


def inverse_hyperbolic_tangent(x: Pair) -> Pair:
    difference = sub(logarithm_of_one_plus(x), logarithm_of_one_plus(neg(x)))
    return scaled(difference, 0.5)


def inverse_sine(x: Pair) -> Pair:
    return turned_back(inverse_hyperbolic_sine(turned(x)))


def inverse_cosine(x: Pair) -> Pair:
    value = inverse_sine(x)
    return Pair(math.pi / 2 - value.re, -value.im)


def inverse_tangent(x: Pair) -> Pair:
    return turned_back(inverse_hyperbolic_tangent(turned(x)))


def power(x: Pair, y: Pair) -> Pair:
    """exp(y·log x); 0 to a power is 0, and anything to the power 0 is 1."""
    value = exponential(mul(y, logarithm(x)))
    nothing, empty = is_zero(y), is_zero(x)
    re = select(nothing, 1.0, select(empty, 0.0, value.re))
    return Pair(re, select(nothing | empty, 0.0, value.im))


def sign(x: Pair) -> Pair:
    size = modulus(x)
    below = select(eq(size, 0.0), 1.0, size)
    return Pair(x.re / below, x.im / below)


def same(x: Pair) -> Pair:
    return x


#: The parts of the result, by the primitive's name.
PARTS: dict[str, Callable[..., Pair]] = {
    "add": add, "sub": sub, "neg": neg, "conj": conj, "mul": mul, "div": div,
    "mul_zero": mul_zero, "exp": exponential, "exp2": exponential2,
    "expm1": exponential_minus_one, "log": logarithm, "log2": logarithm2,
    "log1p": logarithm_of_one_plus, "sqrt": square_root, "rsqrt": reciprocal_root,
    "logistic": logistic, "sin": sine, "cos": cosine, "tan": tangent,
    "sinh": hyperbolic_sine, "cosh": hyperbolic_cosine, "tanh": hyperbolic_tangent,
    "asin": inverse_sine, "acos": inverse_cosine, "atan": inverse_tangent,
    "asinh": inverse_hyperbolic_sine, "acosh": inverse_hyperbolic_cosine,
    "atanh": inverse_hyperbolic_tangent, "pow": power, "sign": sign,
    "copy": same, "stop_gradient": same,
}  # fmt: skip


def is_equal(x: Pair, y: Pair) -> Term:
    return eq(x.re, y.re) & eq(x.im, y.im)


def differs(x: Pair, y: Pair) -> Term:
    return ne(x.re, y.re) | ne(x.im, y.im)


def is_finite(x: Pair) -> Term:
    return (abs(x.re) < math.inf) & (abs(x.im) < math.inf)


#: Functions of complex values that are real or bool.
REAL: dict[str, Callable[..., Term]] = {
    "abs": modulus, "real": lambda x: x.re, "imag": lambda x: x.im,
    "eq": is_equal, "ne": differs, "is_finite": is_finite,
}  # fmt: skip
