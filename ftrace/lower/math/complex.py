"""Complex numbers as pairs of real terms: each elementwise primitive on pairs.

Values for ordinary arguments follow C99 and NumPy, without overflow on the way. The
real functions stay primitives here and are decomposed afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from ftrace.lower.math.floats import INFINITY, copy_sign, format_of
from ftrace.lower.math.term import (
    Term,
    apply,
    eq,
    fma,
    ne,
    number,
    select,
    sqrt,
)
from ftrace.records import NamedTuple
from ftrace.trace.primitives import elementwise as ew


class Complex(NamedTuple):
    """re + i·im."""

    re: Term
    im: Term


def real(z: Complex) -> Term:
    return z.re


def imag(z: Complex) -> Term:
    return z.im


def conj(z: Complex) -> Complex:
    return Complex(z.re, -z.im)


def neg(z: Complex) -> Complex:
    return Complex(-z.re, -z.im)


def add(z: Complex, w: Complex) -> Complex:
    return Complex(z.re + w.re, z.im + w.im)


def sub(z: Complex, w: Complex) -> Complex:
    return Complex(z.re - w.re, z.im - w.im)


def mul(z: Complex, w: Complex) -> Complex:
    """No fma: its one-sided rounding would give z·conj(z) an imaginary part."""
    return Complex(z.re * w.re - z.im * w.im, z.re * w.im + z.im * w.re)


def mul_zero(z: Complex, w: Complex) -> Complex:
    zero = number(0.0, z.re)
    return choose(_is_zero(z) | _is_zero(w), Complex(zero, zero), mul(z, w))


def div(z: Complex, w: Complex) -> Complex:
    """Scaled by the greater part of the divisor (R. L. Smith 1962), as NumPy does."""
    wide = abs(w.re) >= abs(w.im)
    p, q = select(wide, w.re, w.im), select(wide, w.im, w.re)
    x, y = select(wide, z.re, z.im), select(wide, z.im, z.re)
    zero = eq(p, 0.0)
    r = select(zero, 0.0, q / p)
    below = select(zero, abs(p), p + q * r)
    imaginary = (y - x * r) / below
    return Complex((x + y * r) / below, select(wide, imaginary, -imaginary))


def equal(z: Complex, w: Complex) -> Term:
    return eq(z.re, w.re) & eq(z.im, w.im)


def not_equal(z: Complex, w: Complex) -> Term:
    return ne(z.re, w.re) | ne(z.im, w.im)


def is_finite(z: Complex) -> Term:
    return (abs(z.re) < INFINITY) & (abs(z.im) < INFINITY)


def choose(chosen: Term, z: Complex, w: Complex) -> Complex:
    return Complex(select(chosen, z.re, w.re), select(chosen, z.im, w.im))


def _is_zero(z: Complex) -> Term:
    return eq(z.re, 0.0) & eq(z.im, 0.0)


def _greater(a: Term, b: Term) -> Term:
    return select(a > b, a, b)


def _scaling(largest: Term) -> tuple[Term, Term]:
    """A power of two that makes squares of the parts safe, and its inverse."""
    up, down, big, small = (
        (2.0**80, 2.0**-66, 2.0**62, 2.0**-40)
        if largest.single
        else (2.0**600, 2.0**-520, 2.0**510, 2.0**-450)
    )
    large, tiny = largest > big, largest < small
    one = number(1.0, largest)
    scale = select(large, down, select(tiny, up, one))
    return scale, select(large, 1 / down, select(tiny, 1 / up, one))


def absolute(z: Complex) -> Term:
    """sqrt(re² + im²), scaled; ∞ where a part is, also beside NaN."""
    a, b = abs(z.re), abs(z.im)
    scale, unscale = _scaling(_greater(a, b))
    x, y = a * scale, b * scale
    value = sqrt(fma(x, x, y * y)) * unscale
    return select(eq(a, INFINITY) | eq(b, INFINITY), INFINITY, value)


def sign(z: Complex) -> Complex:
    """z/|z|, and 0 for 0."""
    length = absolute(z)
    length = select(eq(length, 0.0), 1.0, length)
    return Complex(z.re / length, z.im / length)


def _times(a: Term, b: Term) -> Term:
    """a·b, where zero wins over infinity."""
    return select(eq(a, 0.0), a, a * b)


def _polar(exponential: Callable[[Term], Term], base: float, z: Complex) -> Complex:
    """baseʳᵉ·(cos im, sin im). A power that overflows is applied in two steps."""
    limit = (126.0 if z.re.single else 1022.0) / math.log2(base)
    large = z.re > limit
    length = exponential(select(large, z.re - 16.0, z.re))
    rest = select(large, number(base**16, z.re), 1.0)
    re = _times(apply(ew.cos, z.im), length) * rest
    im = _times(apply(ew.sin, z.im), length)
    return Complex(re, _times(im, rest))


def exp(z: Complex) -> Complex:
    """e^re·(cos im + i·sin im)."""
    return _polar(lambda x: apply(ew.exp, x), math.e, z)


def exp2(z: Complex) -> Complex:
    return _polar(lambda x: apply(ew.exp2, x), 2.0, Complex(z.re, z.im * math.log(2)))


def expm1(z: Complex) -> Complex:
    """(expm1(re)·cos(im) - 2·sin²(im/2), e^re·sin(im))."""
    half = apply(ew.sin, z.im * 0.5)
    re = apply(ew.expm1, z.re) * apply(ew.cos, z.im) - 2.0 * half * half
    return Complex(re, exp(z).im)


def _log_absolute(z: Complex) -> Term:
    """log|z|; near the unit circle by log1p((a - 1)(a + 1) + b²) with a > b."""
    x, y = abs(z.re), abs(z.im)
    swapped = y > x
    a, b = select(swapped, y, x), select(swapped, x, y)
    near = (a > 0.7) & (a < 1.5)
    excess = fma(b, b, (a - 1.0) * (a + 1.0))
    inside = 0.5 * apply(ew.log1p, select(near, excess, 0.0))
    return select(near, inside, apply(ew.log, absolute(z)))


def log(z: Complex) -> Complex:
    """(log|z|, the angle of z)."""
    return Complex(_log_absolute(z), apply(ew.atan2, z.im, z.re))


def log2(z: Complex) -> Complex:
    value = log(z)
    return Complex(value.re * (1 / math.log(2)), value.im * (1 / math.log(2)))


def log1p(z: Complex) -> Complex:
    """log(1 + z), exact for a small z: |1 + z|² - 1 = re·(2 + re) + im²."""
    above = Complex(z.re + 1.0, z.im)
    near = (abs(z.re) < 0.4) & (abs(z.im) < 0.8)
    excess = fma(z.im, z.im, z.re * (2.0 + z.re))
    inside = 0.5 * apply(ew.log1p, select(near, excess, 0.0))
    re = select(near, inside, _log_absolute(above))
    return Complex(re, apply(ew.atan2, z.im, above.re))


def square_root(z: Complex) -> Complex:
    """t = sqrt((|re| + |z|)/2) is one part, im/2t the other."""
    a, b = abs(z.re), abs(z.im)
    largest = _greater(a, b)
    layout = format_of(a)
    large, small = largest > 2.0 ** (layout.bias - 3), largest < layout.tiny * 2.0**60
    one = number(1.0, a)
    scale = select(large, 2.0**-4, select(small, 2.0**80, one))
    unscale = select(large, 2.0**2, select(small, 2.0**-40, one))
    scaled = Complex(a * scale, b * scale)
    t = sqrt((scaled.re + absolute(scaled)) * 0.5)
    other = select(eq(t, 0.0), 0.0, scaled.im * 0.5 / t)
    t, other = t * unscale, other * unscale
    right = z.re >= 0.0
    re = select(eq(b, INFINITY), INFINITY, select(right, t, other))
    im = select(eq(b, INFINITY), INFINITY, select(right, other, t))
    im = select(eq(largest, 0.0), 0.0, im)
    return Complex(re, copy_sign(im, z.im))


def rsqrt(z: Complex) -> Complex:
    return div(_one(z), square_root(z))


def _one(z: Complex) -> Complex:
    return Complex(number(1.0, z.re), number(0.0, z.re))


def logistic(z: Complex) -> Complex:
    """As the real one: with the exponential of what has a negative real part."""
    left = z.re < 0.0
    e = exp(choose(left, z, neg(z)))
    one = _one(z)
    return div(choose(left, e, one), add(one, e))


def _turned(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """z ↦ -i·f(iz): sin is that of sinh, atan that of atanh."""

    def turned(z: Complex) -> Complex:
        value = function(Complex(-z.im, z.re))
        return Complex(value.im, -value.re)

    turned.__name__ = turned.__qualname__ = f"turned_{function.__name__}"
    return turned


def sinh(z: Complex) -> Complex:
    """(sinh re·cos im, cosh re·sin im)."""
    re = _times(apply(ew.sinh, z.re), apply(ew.cos, z.im))
    return Complex(re, _times(apply(ew.sin, z.im), apply(ew.cosh, z.re)))


def cosh(z: Complex) -> Complex:
    """(cosh re·cos im, sinh re·sin im)."""
    re = apply(ew.cosh, z.re) * apply(ew.cos, z.im)
    sine, hyperbolic = apply(ew.sin, z.im), apply(ew.sinh, z.re)
    return Complex(re, select(eq(sine, 0.0), sine * 0.0, _times(hyperbolic, sine)))


def cos(z: Complex) -> Complex:
    """cosh(iz)."""
    return cosh(Complex(-z.im, z.re))


def tanh(z: Complex) -> Complex:
    """With t = tan(im) and s = sinh(re): (b·c·s, t)/(1 + b·s²), b = 1 + t², c = cosh.

    For a large |re|: (±1, 4·sin(im)·cos(im)·e^-2|re|). Source: W. Kahan, Branch cuts
    for complex elementary functions (1987).
    """
    t, s = apply(ew.tan, z.im), apply(ew.sinh, z.re)
    b = fma(t, t, 1.0)
    c = apply(ew.cosh, z.re)
    below = fma(b * s, s, 1.0)
    a = abs(z.re)
    large = a > (11.0 if a.single else 22.0)
    decay = apply(ew.exp, -2.0 * a)
    wave = 4.0 * apply(ew.sin, z.im) * apply(ew.cos, z.im) * decay
    re = select(large, copy_sign(number(1.0, a), z.re), b * c * s / below)
    return Complex(re, select(large, wave, t / below))


def _product(z: Complex, w: Complex) -> tuple[Term, Term]:
    product = mul(z, w)
    return product.re, product.im


def asin(z: Complex) -> Complex:
    """With u = sqrt(1 - z), v = sqrt(1 + z): (atan2(re, Re uv), asinh(Im conj(u)v)).

    Source of the inverse functions: Kahan, as above.
    """
    u = square_root(Complex(1.0 - z.re, -z.im))
    v = square_root(Complex(1.0 + z.re, z.im))
    re = apply(ew.atan2, z.re, _product(u, v)[0])
    return Complex(re, apply(ew.asinh, _product(conj(u), v)[1]))


def acos(z: Complex) -> Complex:
    """(2·atan2(Re u, Re v), asinh(Im conj(v)u)) with u, v as for asin."""
    u = square_root(Complex(1.0 - z.re, -z.im))
    v = square_root(Complex(1.0 + z.re, z.im))
    re = 2.0 * apply(ew.atan2, u.re, v.re)
    return Complex(re, apply(ew.asinh, _product(conj(v), u)[1]))


def acosh(z: Complex) -> Complex:
    """(asinh(Re conj(u)v), 2·atan2(Im u, Re v)), u = sqrt(z - 1), v = sqrt(z + 1)."""
    u = square_root(Complex(z.re - 1.0, z.im))
    v = square_root(Complex(z.re + 1.0, z.im))
    re = apply(ew.asinh, _product(conj(u), v)[0])
    return Complex(re, 2.0 * apply(ew.atan2, u.im, v.re))


def atanh(z: Complex) -> Complex:
    """(log1p(4|x|/((1 - |x|)² + y²))/4, atan2(2y, (1 - x)(1 + x) - y²)/2)."""
    a = abs(z.re)
    length = absolute(z)
    far = length > (2.0**30 if a.single else 2.0**60)
    x, y = select(far, 2.0, a), select(far, 0.0, z.im)
    below = fma(y, y, (1.0 - x) * (1.0 - x))
    re = 0.25 * apply(ew.log1p, 4.0 * x / below)
    re = select(far, a / length / length, re)
    im = 0.5 * apply(ew.atan2, 2.0 * y, (1.0 - x) * (1.0 + x) - y * y)
    right_angle = copy_sign(number(math.pi / 2, a), z.im)
    return Complex(copy_sign(re, z.re), select(far, right_angle, im))


def power(z: Complex, w: Complex) -> Complex:
    """e^(w·log z); 0 to a power with a positive real part is 0, z to the 0 is 1."""
    value = exp(mul(w, log(z)))
    zero = number(0.0, z.re)
    value = choose(_is_zero(z) & (w.re > 0.0), Complex(zero, zero), value)
    return choose(_is_zero(w), _one(z), value)


Value = Term | Complex

#: For each elementwise primitive what it is on complex operands.
COMPLEX: Final[dict[str, Callable[..., Value]]] = {
    "abs": absolute, "acos": acos, "acosh": acosh, "add": add, "asin": asin,
    "asinh": _turned(asin), "atan": _turned(atanh), "atanh": atanh, "conj": conj,
    "cos": cos, "cosh": cosh, "div": div, "eq": equal, "exp": exp, "exp2": exp2,
    "expm1": expm1, "imag": imag, "is_finite": is_finite, "log": log,
    "log1p": log1p, "log2": log2, "logistic": logistic, "mul": mul,
    "mul_zero": mul_zero, "ne": not_equal, "neg": neg, "pow": power,
    "real": real, "rsqrt": rsqrt, "sign": sign, "sin": _turned(sinh),
    "sinh": sinh, "sqrt": square_root, "sub": sub, "tan": _turned(tanh), "tanh": tanh,
}  # fmt: skip
