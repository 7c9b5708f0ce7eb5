"""Complex numbers as pairs of real terms: each elementwise primitive on pairs.

Values follow C99 (Annex G, of special arguments too) and NumPy, without overflow on
the way. The real functions stay primitives here and are decomposed afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.legalize.term import (
    INFINITY,
    Operand,
    Term,
    apply,
    clamp,
    copy_sign,
    eq,
    fma,
    format_of,
    mul_add,
    ne,
    number,
    select,
    sqrt,
)
from ftrace.trace.primitives import elementwise as p


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
    """The first product of each part unrounded, where there is an fma: as NumPy's."""
    re = mul_add(z.re, w.re, -(z.im * w.im))
    return Complex(re, mul_add(z.re, w.im, z.im * w.re))


def square(z: Complex) -> Complex:
    """(re - im)(re + im) + i·2·re·im: no difference of infinite squares, nor 0·∞."""
    product, gap = z.re * z.im, abs(z.re) - abs(z.im)
    re = select(eq(gap, 0.0), 0.0, (z.re - z.im) * (z.re + z.im))
    return Complex(re, product + product)


def mul_zero(z: Complex, w: Complex) -> Complex:
    zero = number(0.0, z.re)
    return choose(_is_zero(z) | _is_zero(w), Complex(zero, zero), mul(z, w))


def div(z: Complex, w: Complex) -> Complex:
    """Scaled by the greater part of the divisor (R. L. Smith 1962), as NumPy does."""
    wide = abs(w.re) >= abs(w.im)
    most, least = select(wide, w.re, w.im), select(wide, w.im, w.re)
    x, y = select(wide, z.re, z.im), select(wide, z.im, z.re)
    zero = eq(most, 0.0)
    # A zero, which infinities give way to, or NaN.
    r = select(zero, least, least / most)
    below = select(zero, abs(most), most + least * r)
    along, across = (select(zero, r, part * r) for part in (y, x))
    return Complex((x + along) / below, select(wide, y - across, across - y) / below)


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


def _is_infinite(a: Term, b: Term) -> Term:
    return eq(a, INFINITY) | eq(b, INFINITY)


def _length(z: Complex) -> tuple[Term, Callable[[float, float, float], Term]]:
    """|z|·s, ∞ where a part is, also beside NaN; and a choice by s.

    s is a power of two that makes squares of the parts safe: with e of `_exponents`
    the choice is the first of three for 2^-e[0], the second for 2^e[1], else the third.
    """
    a, b = abs(z.re), abs(z.im)
    largest = _greater(a, b)
    big, small = (2.0**62, 2.0**-40) if a.single else (2.0**510, 2.0**-450)
    large, tiny = largest > big, largest < small

    def choice(if_large: float, if_tiny: float, otherwise: float) -> Term:
        return select(large, if_large, select(tiny, if_tiny, number(otherwise, a)))

    down, up = _exponents(a)
    scale = choice(2.0**-down, 2.0**up, 1.0)
    x, y = a * scale, b * scale
    value = sqrt(fma(x, x, y * y))
    return select(_is_infinite(a, b), INFINITY, value), choice


def _exponents(x: Term) -> tuple[int, int]:
    return (66, 80) if x.single else (520, 600)


def absolute(z: Complex) -> Term:
    """sqrt(re² + im²), scaled; ∞ where a part is, also beside NaN."""
    value, choice = _length(z)
    down, up = _exponents(value)
    return value * choice(2.0**down, 2.0**-up, 1.0)


def sign(z: Complex) -> Complex:
    """z/|z|, and 0 for 0."""
    length, choice = _length(z)
    down, up = _exponents(length)
    scale = choice(2.0**-down, 2.0**up, 1.0)
    length = select(eq(length, 0.0), 1.0, length)
    return Complex(z.re * scale / length, z.im * scale / length)


def _times(a: Term, b: Term, unit: Operand = 1.0) -> Term:
    """a·b, where a zero a wins over infinity and NaN; `unit` is ±1, as b is."""
    return a * select(eq(a, 0.0), unit, b)


def _unit(x: Term) -> Term:
    """±1 with the sign of x."""
    return copy_sign(number(1.0, x), x)


def _is_lost(angle: Term, x: Term) -> Term:
    """Is there no angle, beside an infinite part x? Then the result is as of 0."""
    return eq(abs(x), INFINITY) & ne(angle, angle)


def _polar(exponential: Callable[[Term], Term], base: float, z: Complex) -> Complex:
    """baseʳᵉ·(cos im, sin im). A power that overflows is applied in two steps."""
    limit = (126.0 if z.re.single else 1022.0) / math.log2(base)
    large = z.re > limit
    length = exponential(select(large, z.re - 16.0, z.re))
    rest = select(large, number(base**16, z.re), 1.0)
    cosine, sine = apply(p.cos, z.im), apply(p.sin, z.im)
    lost = _is_lost(sine, z.re)
    re = select(lost, 1.0, cosine) * length * rest  # no float has the cosine 0
    sine = select(lost, length - length, sine)  # 0, and NaN beside infinity
    return Complex(re, _times(sine, length) * rest)


def exp(z: Complex) -> Complex:
    """e^re·(cos im + i·sin im)."""
    return _polar(lambda x: apply(p.exp, x), math.e, z)


def exp2(z: Complex) -> Complex:
    return _polar(lambda x: apply(p.exp2, x), 2.0, Complex(z.re, z.im * math.log(2)))


def expm1(z: Complex) -> Complex:
    """e^z - 1; near 0 the real part is expm1(re)·cos(im) - 2·sin²(im/2)."""
    value = exp(z)
    half = apply(p.sin, z.im * 0.5)
    near = apply(p.expm1, z.re) * apply(p.cos, z.im) - 2.0 * half * half
    return Complex(select(abs(z.re) < 1.0, near, value.re - 1.0), value.im)


def _log_absolute(z: Complex) -> Term:
    """log|z|; near the unit circle by log1p((a - 1)(a + 1) + b²) with a > b."""
    x, y = abs(z.re), abs(z.im)
    swapped = y > x
    a, b = select(swapped, y, x), select(swapped, x, y)
    near = (a > 0.7) & (a < 1.5)
    excess = fma(b, b, (a - 1.0) * (a + 1.0))
    inside = 0.5 * apply(p.log1p, select(near, excess, 0.0))
    length, choice = _length(z)
    down, up = (math.log(2) * exponent for exponent in _exponents(length))
    return select(near, inside, apply(p.log, length) + choice(down, -up, 0.0))


def log(z: Complex) -> Complex:
    """(log|z|, the angle of z)."""
    return Complex(_log_absolute(z), apply(p.atan2, z.im, z.re))


def log2(z: Complex) -> Complex:
    value = log(z)
    return Complex(value.re * (1 / math.log(2)), value.im * (1 / math.log(2)))


def log1p(z: Complex) -> Complex:
    """log(1 + z), exact for a small z: |1 + z|² - 1 = re·(2 + re) + im²."""
    above = Complex(z.re + 1.0, z.im)
    near = (abs(z.re) < 0.4) & (abs(z.im) < 0.8)
    excess = fma(z.im, z.im, z.re * (2.0 + z.re))
    inside = 0.5 * apply(p.log1p, select(near, excess, 0.0))
    re = select(near, inside, _log_absolute(above))
    return Complex(re, apply(p.atan2, z.im, above.re))


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


def _rotate(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """z ↦ -i·f(iz): sin is that of sinh, atan that of atanh."""

    def rotated(z: Complex) -> Complex:
        value = function(Complex(-z.im, z.re))
        return Complex(value.im, -value.re)

    rotated.__name__ = rotated.__qualname__ = f"rotated_{function.__name__}"
    return rotated


def sinh(z: Complex) -> Complex:
    """(sinh re·cos im, cosh re·sin im)."""
    return _sinh(z, abs(z.re))


def _sinh(z: Complex, without_angle: Term) -> Complex:
    """Without an angle the real part is NaN but for 0 and infinity, x = 2·x."""
    cosine, sine = apply(p.cos, z.im), apply(p.sin, z.im)
    lost = ne(cosine, cosine) & eq(z.re + z.re, z.re)
    re = select(lost, without_angle, apply(p.sinh, z.re) * cosine)
    return Complex(re, _times(sine, apply(p.cosh, z.re)))


@_rotate
def sin(z: Complex) -> Complex:
    """-i·sinh(iz); an infinity without an angle is positive, as that of sinh."""
    return _sinh(z, -abs(z.re))


def cosh(z: Complex) -> Complex:
    """(cosh re·cos im, sinh re·sin im)."""
    cosine, sine = apply(p.cos, z.im), apply(p.sin, z.im)
    re = apply(p.cosh, z.re) * select(_is_lost(sine, z.re), 1.0, cosine)
    im = _times(apply(p.sinh, z.re), sine, _unit(sine))
    return Complex(re, select(eq(sine, 0.0), sine * _unit(z.re), im))


def cos(z: Complex) -> Complex:
    """cosh(iz)."""
    return cosh(Complex(-z.im, z.re))


def tanh(z: Complex) -> Complex:
    """With t = tan(im) and s = sinh(re): (b·c·s, t)/(1 + b·s²), b = 1 + t², c = cosh.

    For a large |re|: (±1, 4·sin(im)·cos(im)·e^-2|re|), where no angle is 0 if re is
    infinite. Source: W. Kahan, Branch cuts for complex elementary functions (1987).
    """
    t, s = apply(p.tan, z.im), apply(p.sinh, z.re)
    b = fma(t, t, 1.0)
    c = apply(p.cosh, z.re)
    below = fma(b * s, s, 1.0)
    a = abs(z.re)
    large = a > (11.0 if a.single else 22.0)
    decay = apply(p.exp, -2.0 * a)
    wave = 4.0 * apply(p.sin, z.im) * apply(p.cos, z.im) * decay
    wave = select(_is_lost(wave, a), 0.0, wave)
    limit = copy_sign(1.0 + wave, z.re)  # 1, or NaN
    re = select(large, limit, _unless_zero(z.re, b * c * s / below))
    return Complex(re, select(large, wave, _unless_zero(z.im, t / below)))


def _unless_zero(x: Term, value: Term) -> Term:
    """The value, and x where it is 0, also beside NaN."""
    return select(eq(x, 0.0), x, value)


def _arc(z: Complex) -> tuple[Term, Term, Term]:
    """The real parts of asin and of acos, the imaginary part of asin.

    With u = sqrt(1 - z), v = sqrt(1 + z): atan2(re, Re uv), 2·atan2(Re u, Re v),
    asinh(Im conj(u)v); far away atan2(re, |im|), atan2(|im|, re), log|2z|. Source of
    the inverse functions: Kahan, as above.
    """
    u = square_root(Complex(1.0 - z.re, -z.im))
    v = square_root(Complex(1.0 + z.re, z.im))
    a, b = abs(z.re), abs(z.im)
    big = _far(a)
    far = (a > big) | (b > big)
    sine = apply(p.atan2, z.re, select(far, b, u.re * v.re - u.im * v.im))
    cosine = apply(p.atan2, select(far, b, u.re), select(far, z.re, v.re))
    cosine = cosine * select(far, number(1.0, a), 2.0)
    half = Complex(v.re * 0.5, v.im * 0.5)
    quarter = fma(half.re, half.re, half.im * half.im)  # |z|/4, which is no overflow
    quarter = select(_is_infinite(a, b), INFINITY, quarter)
    im = apply(p.asinh, select(far, quarter, abs(u.re * v.im - u.im * v.re)))
    im = im + select(far, math.log(4), number(0.0, a))
    right = number(math.pi / 2, a)
    return (
        _unless_zero(z.re, sine),
        select(eq(a, 0.0), right, cosine),
        copy_sign(im, z.im),
    )


def _far(x: Term) -> float:
    """From where on 1 is nothing beside a square."""
    return 2.0**30 if x.single else 2.0**60


def asin(z: Complex) -> Complex:
    re, _, im = _arc(z)
    return Complex(re, im)


def acos(z: Complex) -> Complex:
    _, re, im = _arc(z)
    return Complex(re, -im)


def acosh(z: Complex) -> Complex:
    """±i·acos(z), the one on the right."""
    _, angle, im = _arc(z)
    return Complex(abs(im), copy_sign(angle, z.im))


def atanh(z: Complex) -> Complex:
    """(log1p(4|x|/((1 - |x|)² + y²))/4, atan2(2y, (1 - x)(1 + x) - y²)/2).

    Far away |x|/(x² + y²) and ±π/2; beside ±1, where y² is nothing, log(2/|y|)/2.
    """
    a, b = abs(z.re), abs(z.im)
    big = _far(a)
    x = select(eq(b, INFINITY), 2.0, clamp(a, None, big))
    y = select(b > big, copy_sign(number(big, b), z.im), z.im)
    below = fma(y, y, (1.0 - x) * (1.0 - x))
    least, up = (2.0**-120, 24) if a.single else (2.0**-800, 60)
    beside = below < least
    ratio = select(beside, 2.0, 4.0 * x) / select(beside, b * 2.0**up, below)
    near = apply(p.log1p, ratio) * select(beside, 0.5, number(0.25, a))
    near = near + select(beside, up * math.log(2) / 2, number(0.0, a))
    wide = a > b
    greater, lesser = select(wide, a, b), select(wide, b, a)
    slope = lesser / greater
    squares = fma(0.5 * lesser, slope, 0.5 * greater)
    away = select(wide, 0.5, 0.5 * slope) / squares
    away = select(_is_infinite(a, b), 0.0, away)
    re = _unless_zero(a, select((a > big) | (b > big), away, near))
    im = 0.5 * apply(p.atan2, 2.0 * y, (1.0 - x) * (1.0 + x) - y * y)
    return Complex(copy_sign(re, z.re), im)


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
    "asinh": _rotate(asin), "atan": _rotate(atanh), "atanh": atanh, "conj": conj,
    "cos": cos, "cosh": cosh, "div": div, "eq": equal, "exp": exp, "exp2": exp2,
    "expm1": expm1, "imag": imag, "is_finite": is_finite, "log": log,
    "log1p": log1p, "log2": log2, "logistic": logistic, "mul": mul,
    "mul_zero": mul_zero, "ne": not_equal, "neg": neg, "pow": power,
    "real": real, "rsqrt": rsqrt, "sign": sign, "sin": sin,
    "sinh": sinh, "sqrt": square_root, "square": square, "sub": sub,
    "tan": _rotate(tanh), "tanh": tanh,
}  # fmt: skip
