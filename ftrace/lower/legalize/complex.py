"""Complex numbers as pairs of real terms: each elementwise primitive on pairs.

Values follow C99 (Annex G, of special arguments too) and NumPy, without overflow on
the way. The real functions stay primitives here and are decomposed afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.legalize import term
from ftrace.trace.primitives import elementwise as p


class Complex(NamedTuple):
    """re + i·im."""

    re: term.Term
    im: term.Term


def real(z: Complex) -> term.Term:
    return z.re


def imag(z: Complex) -> term.Term:
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
    re = term.mul_add(z.re, w.re, -(z.im * w.im))
    return Complex(re, term.mul_add(z.re, w.im, z.im * w.re))


def square(z: Complex) -> Complex:
    """(re - im)(re + im) + i·2·re·im: no difference of infinite squares, nor 0·∞."""
    product, gap = z.re * z.im, abs(z.re) - abs(z.im)
    re = term.select(term.eq(gap, 0.0), 0.0, (z.re - z.im) * (z.re + z.im))
    return Complex(re, product + product)


def mul_zero(z: Complex, w: Complex) -> Complex:
    zero = term.number(0.0, z.re)
    return choose(_is_zero(z) | _is_zero(w), Complex(zero, zero), mul(z, w))


def div(z: Complex, w: Complex) -> Complex:
    """Scaled by the greater part of the divisor (R. L. Smith 1962), as NumPy does."""
    wide = abs(w.re) >= abs(w.im)
    most, least = term.select(wide, w.re, w.im), term.select(wide, w.im, w.re)
    x, y = term.select(wide, z.re, z.im), term.select(wide, z.im, z.re)
    zero = term.eq(most, 0.0)
    # A zero, which infinities give way to, or NaN.
    r = term.select(zero, least, least / most)
    below = term.select(zero, abs(most), most + least * r)
    along, across = (term.select(zero, r, part * r) for part in (y, x))
    return Complex(
        (x + along) / below, term.select(wide, y - across, across - y) / below
    )


def equal(z: Complex, w: Complex) -> term.Term:
    return term.eq(z.re, w.re) & term.eq(z.im, w.im)


def not_equal(z: Complex, w: Complex) -> term.Term:
    return term.ne(z.re, w.re) | term.ne(z.im, w.im)


def is_finite(z: Complex) -> term.Term:
    return (abs(z.re) < term.INFINITY) & (abs(z.im) < term.INFINITY)


def choose(chosen: term.Term, z: Complex, w: Complex) -> Complex:
    return Complex(term.select(chosen, z.re, w.re), term.select(chosen, z.im, w.im))


def _is_zero(z: Complex) -> term.Term:
    return term.eq(z.re, 0.0) & term.eq(z.im, 0.0)


def _greater(a: term.Term, b: term.Term) -> term.Term:
    return term.select(a > b, a, b)


def _is_infinite(a: term.Term, b: term.Term) -> term.Term:
    return term.eq(a, term.INFINITY) | term.eq(b, term.INFINITY)


def _length(z: Complex) -> tuple[term.Term, Callable[[float, float, float], term.Term]]:
    """|z|·s, ∞ where a part is, also beside NaN; and a choice by s.

    s is a power of two that makes squares of the parts safe: with e of `_exponents`
    the choice is the first of three for 2^-e[0], the second for 2^e[1], else the third.
    """
    a, b = abs(z.re), abs(z.im)
    largest = _greater(a, b)
    big, small = (2.0**62, 2.0**-40) if a.single else (2.0**510, 2.0**-450)
    large, tiny = largest > big, largest < small

    def choice(if_large: float, if_tiny: float, otherwise: float) -> term.Term:
        return term.select(
            large, if_large, term.select(tiny, if_tiny, term.number(otherwise, a))
        )

    down, up = _exponents(a)
    scale = choice(2.0**-down, 2.0**up, 1.0)
    x, y = a * scale, b * scale
    value = term.sqrt(term.fma(x, x, y * y))
    return term.select(_is_infinite(a, b), term.INFINITY, value), choice


def _exponents(x: term.Term) -> tuple[int, int]:
    return (66, 80) if x.single else (520, 600)


def absolute(z: Complex) -> term.Term:
    """sqrt(re² + im²), scaled; ∞ where a part is, also beside NaN."""
    value, choice = _length(z)
    down, up = _exponents(value)
    return value * choice(2.0**down, 2.0**-up, 1.0)


def sign(z: Complex) -> Complex:
    """z/|z|, and 0 for 0."""
    length, choice = _length(z)
    down, up = _exponents(length)
    scale = choice(2.0**-down, 2.0**up, 1.0)
    length = term.select(term.eq(length, 0.0), 1.0, length)
    return Complex(z.re * scale / length, z.im * scale / length)


def _times(a: term.Term, b: term.Term, unit: term.Operand = 1.0) -> term.Term:
    """a·b, where a zero a wins over infinity and NaN; `unit` is ±1, as b is."""
    return a * term.select(term.eq(a, 0.0), unit, b)


def _unit(x: term.Term) -> term.Term:
    """±1 with the sign of x."""
    return term.copy_sign(term.number(1.0, x), x)


def _is_lost(angle: term.Term, x: term.Term) -> term.Term:
    """Is there no angle, beside an infinite part x? Then the result is as of 0."""
    return term.eq(abs(x), term.INFINITY) & term.ne(angle, angle)


def _nearer(
    x: term.Term, size: term.Term, power: Callable[[float], float] = math.exp
) -> tuple[term.Term, Callable[[term.Term], term.Term]]:
    """x where the power of `size`, x or |x|, is finite; what makes up for the rest.

    Beyond that a product with the power may be finite still, if the factor is small: x
    comes one or two steps nearer to 0, and the product is multiplied by their powers.
    Two are enough for the least factor.
    """
    unit = math.log2(power(1.0))
    bits, bits_of_step = (126.0, 77.0) if x.single else (1022.0, 540.0)
    limit, step = bits / unit, float(round(bits_of_step / unit))
    one, two = size > limit, size > limit + step
    shift = term.select(two, 2 * step, term.number(step, x))
    near = term.select(one, x - term.copy_sign(shift, x), x)
    factors = [term.select(far, term.number(power(step), x), 1.0) for far in (one, two)]
    return near, lambda product: product * factors[0] * factors[1]


def _polar(
    function: p.Primitive, power: Callable[[float], float], z: Complex
) -> Complex:
    """f(re)·(cos im, sin im) for a power f; of numbers it is `power`."""
    near, grow = _nearer(z.re, z.re, power)
    length = term.apply(function, near)
    cosine, sine = term.apply(p.cos, z.im), term.apply(p.sin, z.im)
    lost = _is_lost(sine, z.re)
    re = term.select(lost, 1.0, cosine) * length  # no float has the cosine 0
    sine = term.select(lost, length - length, sine)  # 0, and NaN beside infinity
    return Complex(grow(re), grow(_times(sine, length)))


def exp(z: Complex) -> Complex:
    """e^re·(cos im + i·sin im)."""
    return _polar(p.exp, math.exp, z)


def exp2(z: Complex) -> Complex:
    return _polar(p.exp2, lambda x: 2.0**x, Complex(z.re, z.im * math.log(2)))


def expm1(z: Complex) -> Complex:
    """e^z - 1; near 0 the real part is expm1(re)·cos(im) - 2·sin²(im/2)."""
    value = exp(z)
    half = term.apply(p.sin, z.im * 0.5)
    near = term.apply(p.expm1, z.re) * term.apply(p.cos, z.im) - 2.0 * half * half
    return Complex(term.select(abs(z.re) < 1.0, near, value.re - 1.0), value.im)


def _log_absolute(z: Complex) -> term.Term:
    """log|z|; near the unit circle by log1p((a - 1)(a + 1) + b²) with a > b."""
    x, y = abs(z.re), abs(z.im)
    swapped = y > x
    a, b = term.select(swapped, y, x), term.select(swapped, x, y)
    near = (a > 0.7) & (a < 1.5)
    excess = term.fma(b, b, (a - 1.0) * (a + 1.0))
    inside = 0.5 * term.apply(p.log1p, term.select(near, excess, 0.0))
    length, choice = _length(z)
    down, up = (math.log(2) * exponent for exponent in _exponents(length))
    return term.select(near, inside, term.apply(p.log, length) + choice(down, -up, 0.0))


def log(z: Complex) -> Complex:
    """(log|z|, the angle of z)."""
    return Complex(_log_absolute(z), term.apply(p.atan2, z.im, z.re))


def log2(z: Complex) -> Complex:
    value = log(z)
    return Complex(value.re * (1 / math.log(2)), value.im * (1 / math.log(2)))


def log1p(z: Complex) -> Complex:
    """log(1 + z), exact for a small z: |1 + z|² - 1 = re·(2 + re) + im²."""
    above = Complex(z.re + 1.0, z.im)
    near = (abs(z.re) < 0.4) & (abs(z.im) < 0.8)
    excess = term.fma(z.im, z.im, z.re * (2.0 + z.re))
    inside = 0.5 * term.apply(p.log1p, term.select(near, excess, 0.0))
    re = term.select(near, inside, _log_absolute(above))
    return Complex(re, term.apply(p.atan2, z.im, above.re))


def square_root(z: Complex) -> Complex:
    """t = sqrt((|re| + |z|)/2) is one part, im/2t the other."""
    a, b = abs(z.re), abs(z.im)
    largest = _greater(a, b)
    layout = term.format_of(a)
    large, small = largest > 2.0 ** (layout.bias - 3), largest < layout.tiny * 2.0**60
    one = term.number(1.0, a)
    scale = term.select(large, 2.0**-4, term.select(small, 2.0**80, one))
    unscale = term.select(large, 2.0**2, term.select(small, 2.0**-40, one))
    scaled = Complex(a * scale, b * scale)
    t = term.sqrt((scaled.re + absolute(scaled)) * 0.5)
    other = term.select(term.eq(t, 0.0), 0.0, scaled.im / (t + t))
    t, other = t * unscale, other * unscale
    right = z.re >= 0.0
    re = term.select(
        term.eq(b, term.INFINITY), term.INFINITY, term.select(right, t, other)
    )
    im = term.select(
        term.eq(b, term.INFINITY), term.INFINITY, term.select(right, other, t)
    )
    return Complex(re, term.copy_sign(im, z.im))


def rsqrt(z: Complex) -> Complex:
    return div(_one(z), square_root(z))


def _one(z: Complex) -> Complex:
    return Complex(term.number(1.0, z.re), term.number(0.0, z.re))


def logistic(z: Complex) -> Complex:
    """As the real one: with the exponential of what has a negative real part."""
    left = z.re < 0.0
    e = exp(choose(left, z, neg(z)))
    one = _one(z)
    return div(choose(left, e, one), add(one, e))


def _rotate(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """z ↦ -i·f(iz): sin is that of sinh, atan that of atanh."""

    def rotate(z: Complex) -> Complex:
        value = function(Complex(-z.im, z.re))
        return Complex(value.im, -value.re)

    rotate.__name__ = rotate.__qualname__ = f"rotated_{function.__name__}"
    return rotate


def sinh(z: Complex) -> Complex:
    """(sinh re·cos im, cosh re·sin im)."""
    return _sinh(z, abs(z.re))


def _sinh(z: Complex, without_angle: term.Term) -> Complex:
    """Without an angle the real part is NaN but for 0 and infinity, x = 2·x."""
    cosine, sine = term.apply(p.cos, z.im), term.apply(p.sin, z.im)
    lost = term.ne(cosine, cosine) & term.eq(z.re + z.re, z.re)
    near, grow = _nearer(z.re, abs(z.re))
    re = term.select(lost, without_angle, term.apply(p.sinh, near) * cosine)
    return Complex(grow(re), grow(_times(sine, term.apply(p.cosh, near))))


@_rotate
def sin(z: Complex) -> Complex:
    """-i·sinh(iz); an infinity without an angle is positive, as that of sinh."""
    return _sinh(z, -abs(z.re))


def cosh(z: Complex) -> Complex:
    """(cosh re·cos im, sinh re·sin im)."""
    cosine, sine = term.apply(p.cos, z.im), term.apply(p.sin, z.im)
    near, grow = _nearer(z.re, abs(z.re))
    re = term.apply(p.cosh, near) * term.select(_is_lost(sine, z.re), 1.0, cosine)
    im = _times(term.apply(p.sinh, near), sine, _unit(sine))
    im = term.select(term.eq(sine, 0.0), sine * _unit(z.re), im)
    return Complex(grow(re), grow(im))


def cos(z: Complex) -> Complex:
    """cosh(iz)."""
    return cosh(Complex(-z.im, z.re))


def tanh(z: Complex) -> Complex:
    """With t = tan(im) and s = sinh(re): (b·c·s, t)/(1 + b·s²), b = 1 + t², c = cosh.

    For a large |re|: (±1, 4·sin(im)·cos(im)·e^-2|re|), where no angle is 0 if re is
    infinite. Source: W. Kahan, Branch cuts for complex elementary functions (1987).
    """
    t, s = term.apply(p.tan, z.im), term.apply(p.sinh, z.re)
    b = term.fma(t, t, 1.0)
    c = term.apply(p.cosh, z.re)
    below = term.fma(b * s, s, 1.0)
    a = abs(z.re)
    large = a > (11.0 if a.single else 22.0)
    decay = term.apply(p.exp, -2.0 * a)
    wave = 4.0 * term.apply(p.sin, z.im) * term.apply(p.cos, z.im) * decay
    wave = term.select(_is_lost(wave, a), 0.0, wave)
    limit = term.copy_sign(1.0 + wave, z.re)  # 1, or NaN
    re = term.select(large, limit, _unless_zero(z.re, b * c * s / below))
    return Complex(re, term.select(large, wave, _unless_zero(z.im, t / below)))


def _unless_zero(x: term.Term, value: term.Term) -> term.Term:
    """The value, and x where it is 0, also beside NaN."""
    return term.select(term.eq(x, 0.0), x, value)


def _arc(z: Complex) -> tuple[term.Term, term.Term, term.Term]:
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
    sine = term.apply(p.atan2, z.re, term.select(far, b, u.re * v.re - u.im * v.im))
    cosine = term.apply(
        p.atan2, term.select(far, b, u.re), term.select(far, z.re, v.re)
    )
    cosine = cosine * term.select(far, term.number(1.0, a), 2.0)
    half = Complex(v.re * 0.5, v.im * 0.5)
    quarter = term.fma(
        half.re, half.re, half.im * half.im
    )  # |z|/4, which is no overflow
    quarter = term.select(_is_infinite(a, b), term.INFINITY, quarter)
    im = term.apply(p.asinh, term.select(far, quarter, abs(u.re * v.im - u.im * v.re)))
    im = im + term.select(far, math.log(4), term.number(0.0, a))
    right = term.number(math.pi / 2, a)
    return (
        _unless_zero(z.re, sine),
        term.select(term.eq(a, 0.0), right, cosine),
        term.copy_sign(im, z.im),
    )


def _far(x: term.Term) -> float:
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
    return Complex(abs(im), term.copy_sign(angle, z.im))


def atanh(z: Complex) -> Complex:
    """(log1p(4|x|/((1 - |x|)² + y²))/4, atan2(2y, (1 - x)(1 + x) - y²)/2).

    Far away |x|/(x² + y²) and ±π/2; beside ±1, where y² is nothing, log(2/|y|)/2.
    """
    a, b = abs(z.re), abs(z.im)
    big = _far(a)
    x = term.select(term.eq(b, term.INFINITY), 2.0, term.clamp(a, None, big))
    y = term.select(b > big, term.copy_sign(term.number(big, b), z.im), z.im)
    below = term.fma(y, y, (1.0 - x) * (1.0 - x))
    least, up = (2.0**-120, 24) if a.single else (2.0**-800, 60)
    beside = below < least
    ratio = term.select(beside, 2.0, 4.0 * x) / term.select(beside, b * 2.0**up, below)
    near = term.apply(p.log1p, ratio) * term.select(beside, 0.5, term.number(0.25, a))
    near = near + term.select(beside, up * math.log(2) / 2, term.number(0.0, a))
    wide = a > b
    greater, lesser = term.select(wide, a, b), term.select(wide, b, a)
    slope = lesser / greater
    squares = term.fma(0.5 * lesser, slope, 0.5 * greater)
    away = term.select(wide, 0.5, 0.5 * slope) / squares
    away = term.select(_is_infinite(a, b), 0.0, away)
    re = _unless_zero(a, term.select((a > big) | (b > big), away, near))
    im = 0.5 * term.apply(p.atan2, 2.0 * y, (1.0 - x) * (1.0 + x) - y * y)
    return Complex(term.copy_sign(re, z.re), im)


def power(z: Complex, w: Complex) -> Complex:
    """e^(w·log z); 0 to a power with a positive real part is 0, z to the 0 is 1."""
    value = exp(mul(w, log(z)))
    zero = term.number(0.0, z.re)
    value = choose(_is_zero(z) & (w.re > 0.0), Complex(zero, zero), value)
    return choose(_is_zero(w), _one(z), value)


Value = term.Term | Complex

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
