"""Functions of floats with care at their edges: overflow, zero, infinity, bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, one_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.numpy.data_types import finfo
from ftrace.numpy.joining import stack
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.primitives import broadcast as bc, elementwise as p
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "frexp", "hypot", "i0", "ldexp", "logaddexp", "logaddexp2", "nan_to_num",
    "nextafter", "packbits", "sinc", "spacing", "unpackbits", "view",
]  # fmt: skip


# Bits of bytes: packbits and unpackbits.


def packbits(a: Value, axis: int | None = None, bitorder: str = "big") -> Any:
    """Eight elements as the bits of one byte: whether each is not zero.

    Args:
      a: bools or integers.
      axis: along which eight elements become one; None flattens first.
      bitorder: "big": the first element is the highest bit; "little": the lowest.

    Returns:
      An array of uint8; what is missing in the last byte is 0.

    Raises:
      DtypeError: `a` is of floats.

    Example:
      >>> fnp.packbits(fnp.array([1, 0, 0, 0, 0, 0, 1, 1, 1]))
      Array([131, 128], dtype=uint8)
    """
    x = ax.as_value(a)
    dtypes.require_kind("packbits", "biu", x.dtype)
    x, axis = ax.flatten(x, axis, "packbits")
    one_of("packbits: bitorder", bitorder, ("big", "little"))
    return run_fused(_pack, [logic.truth(x)], axis=axis, big=bitorder == "big")


def _pack(bits: Any, axis: int, big: bool) -> Any:
    size, last = bits.shape[axis], bits.ndim - 1
    bits = ax.pad_axis(ax.move_axis(bits, axis, last), last, 0, -size % 8)
    groups = ax.reshape(bits, (*bits.shape[:-1], -(-size // 8), 8))
    places = ax.iota(dtypes.uint8, (8,), 0)
    parts = ax.cast(groups, dtypes.uint8) << (places[::-1] if big else places)
    packed = ax.drop_axes(bind(bc.reduce_sum_p, parts, arg=(last + 1,)), (last + 1,))
    return ax.move_axis(packed, last, axis)


def unpackbits(
    a: Value, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    """The bits of bytes, each as a byte of 0 or 1.

    Args:
      a: an array of uint8.
      axis: along which the bits stand; None flattens first.
      count: how many bits are returned; a negative number leaves out the last.
      bitorder: "big": the highest bit is the first; "little": the lowest.

    Returns:
      An array of uint8, eight times as long along the axis, or `count` long.

    Raises:
      DtypeError: `a` is not uint8.

    Example:
      >>> fnp.unpackbits(fnp.array([131], dtype=fnp.uint8))
      Array([1, 0, 0, 0, 0, 0, 1, 1], dtype=uint8)
    """
    x = ax.as_value(a)
    if x.dtype != dtypes.uint8:
        raise DtypeError(f"unpackbits takes uint8, got {x.dtype.name}")
    x, axis = ax.flatten(x, axis, "unpackbits")
    one_of("unpackbits: bitorder", bitorder, ("big", "little"))
    x = ax.move_axis(x, axis, x.ndim - 1)
    places = ax.iota(dtypes.uint8, (8,), 0)
    bits = x[..., None] >> (places[::-1] if bitorder == "big" else places) & 1
    size = 8 * x.shape[-1]
    bits = ax.reshape(bits, (*x.shape[:-1], size))
    if count is not None:
        count = ax.static_int(count, "unpackbits: count")
        wanted = count if count >= 0 else max(size + count, 0)
        last = bits.ndim - 1
        bits = ax.shrink_axis(bits, last, 0, min(wanted, size))
        if wanted > size:
            bits = ax.pad_axis(bits, last, 0, wanted - size)
    return ax.move_axis(bits, bits.ndim - 1, axis)


# Logarithms of sums.


def logaddexp(x1: Value, x2: Value, /) -> Any:
    """log(exp(x1) + exp(x2)), without overflow.

    Args:
      x1, x2: arrays or numbers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape; float32 for integers.

    Example:
      >>> fnp.logaddexp(1000.0, fnp.array([1000.0, 0.0])).round(2)
      Array([1000.69, 1000.  ], dtype=float32)
    """
    return _log_add(x1, x2, ew.exp, 1.0)


def logaddexp2(x1: Value, x2: Value, /) -> Any:
    """log2(2**x1 + 2**x2), without overflow.

    Args:
      x1, x2: arrays or numbers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape; float32 for integers.

    Example:
      >>> fnp.logaddexp2(fnp.array([3, 1000]), fnp.array([3, 1000]))
      Array([   4., 1001.], dtype=float32)
    """
    return _log_add(x1, x2, ew.exp2, 1 / math.log(2))


def _log_add(x1: Value, x2: Value, power: Any, scale: float) -> Any:
    x1, x2 = ew.promote_inexact(x1, x2)
    if ew.kind_of(x1) == "c":
        return _complex_log_add(x1, x2, power, scale)
    undefined, total = _from_the_greater(x1 < x2, x1, x2, power, scale)
    # Infinities of one sign, and NaN, have no finite difference: the maximum is right.
    return ax.choose(undefined, logic.maximum(x1, x2), total)


def _from_the_greater(
    less: Any, x1: Any, x2: Any, power: Any, scale: float
) -> tuple[Any, Any]:
    # At a tie one of them is taken for the greater, and all derivatives are right.
    high, low = ax.choose(less, x2, x1), ax.choose(less, x1, x2)
    difference = low - high
    undefined = logic.isnan(difference)
    safe = ax.choose(undefined, 0.0, difference)
    return undefined, high + ew.log1p(power(safe)) * scale


def _complex_log_add(x1: Any, x2: Any, power: Any, scale: float) -> Any:
    less = x1.real < x2.real
    undefined, total = _from_the_greater(less, x1, x2, power, scale)
    # The imaginary part of a logarithm lies between −π and π.
    angle, half = total.imag, math.pi * scale
    turns = ew.floor_values((angle + half) / (2 * half)) * (2 * half)
    inside = (angle < half) & (angle * -1 < half)
    angle = ax.choose(inside, angle, angle - turns)
    return ax.choose(undefined, x1 + x2, bind(p.make_complex, total.real, angle))


def nan_to_num(
    x: Value,
    copy: bool = True,
    nan: Value = 0.0,
    posinf: Value | None = None,
    neginf: Value | None = None,
) -> Any:
    """NaN replaced by `nan`, infinities by the greatest finite numbers or as given.

    Args:
      x: an array of any shape; of complex numbers each part is replaced.
      copy: accepted, without effect.
      nan: what stands for NaN.
      posinf, neginf: what stand for the infinities; by default the greatest and the
        least number of the dtype.

    Returns:
      An array of the shape and dtype of `x`; integers stay.

    Example:
      >>> fnp.nan_to_num(fnp.array([1.0, fnp.nan, fnp.inf]), nan=-1.0, posinf=9.0)
      Array([ 1., -1.,  9.], dtype=float32)
    """
    x = ax.as_value(x)
    match dtypes.kind(x.dtype):
        case "c":
            parts = [
                nan_to_num(part, copy, nan, posinf, neginf)
                for part in (ew.real(x), ew.imag(x))
            ]
            return bind(p.make_complex, *parts)
        case "f":
            info = finfo(x.dtype)
            posinf = float(info.max) if posinf is None else posinf
            neginf = float(info.min) if neginf is None else neginf
            # In turn, as in JAX: what takes the place of NaN may be infinite.
            x = ax.choose(logic.isnan(x), ax.cast(nan, x.dtype), x)
            x = ax.choose(logic.equal(x, math.inf), ax.cast(posinf, x.dtype), x)
            return ax.choose(logic.equal(x, -math.inf), ax.cast(neginf, x.dtype), x)
        case _:
            return x


# Lengths and waves.


def hypot(x1: Value, x2: Value, /) -> Any:
    """√(x1² + x2²), without overflow; its slope at the origin is 0.

    Args:
      x1, x2: real arrays or numbers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape; float32 for integers.

    Raises:
      DtypeError: an operand is complex.

    Example:
      >>> fnp.hypot(fnp.array([3, 5]), fnp.array([4, 12]))
      Array([ 5., 13.], dtype=float32)
    """
    ew.refuse_complex("hypot", x1, x2, instead="; take abs first")
    x1, x2 = map(abs, ew.promote_inexact(x1, x2))
    # The length is that of any scale: it counts as a constant.
    long = bind(p.stop_gradient, logic.maximum(x1, x2))
    some = long > 0
    scale = ax.choose(some, long, 1.0)
    a, b = x1 / scale, x2 / scale
    length = scale * ew.sqrt(ax.choose(some, a * a + b * b, 1.0))
    length = ax.choose(some, length, long)
    return ax.choose((x1 == math.inf) | (x2 == math.inf), math.inf, length)


#: sin(z)/z = Σ (-1)^k z^2k / (2k+1)!
_SINC_SERIES = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8)]


def sinc(x: Value, /) -> Any:
    """sin(πx)/(πx), and 1 at 0; derivatives of all low orders are right there.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of the shape of `x`; float32 for integers.

    Example:
      >>> fnp.sinc(fnp.array([0, 0.5, 1.5])).round(3)
      Array([ 1.   ,  0.637, -0.212], dtype=float32)
    """
    (x,) = ew.promote_inexact(x)
    z = x * math.pi
    # Below 1/2 eight terms of the series are exact to rounding in float64.
    near = abs(z) < 0.5
    series = horner(_SINC_SERIES[::-1], z * z)
    far = ax.choose(near, 1.0, z)
    turns = ax.choose(near, 0.5, x)
    wave = ew.sin(far) if ew.kind_of(x) == "c" else _sine_of_turns(turns)
    return ax.choose(near, series, wave / far)


def _sine_of_turns(x: Any) -> Any:
    """sin(πx), exact also near its zeros: of x less the nearest whole number."""
    whole = ew.round_values(x)
    sine = ew.sin((x - whole) * math.pi)
    half = whole * 0.5
    return ax.choose(half == ew.round_values(half), sine, sine * -1)


# Parts of a float.


class _Format(NamedTuple):
    """How the bits of a float dtype are laid out."""

    integer: np.dtype[Any]
    mantissa: int
    bias: int
    exponent_mask: int


def _format(dtype: np.dtype[Any]) -> _Format:
    if dtype == dtypes.float64:
        return _Format(dtypes.int64, 52, 1023, 0x7FF)
    return _Format(dtypes.int32, 23, 127, 0xFF)


def _widen_short(x: Any) -> Any:
    """Floats of fewer bits are taken apart as float32, which holds them exactly."""
    return ax.cast(x, dtypes.float32) if x.dtype.itemsize <= 2 else x


def _power_of_two(exponent: Any, dtype: np.dtype[Any]) -> Any:
    """2 to a whole power inside the range of normal numbers."""
    form = _format(dtype)
    shifted = ax.cast(exponent + form.bias, form.integer)
    return bind(p.bitcast, shifted << form.mantissa, arg=dtype)


def ldexp(x1: Value, x2: Value, /) -> Any:
    """x1 · 2**x2 for whole x2.

    Args:
      x1: real numbers.
      x2: integers; the shapes broadcast.

    Returns:
      An array of the common shape in the dtype of `x1`; float32 for integers.

    Raises:
      DtypeError: x1 is complex, or x2 is no integer.

    Example:
      >>> fnp.ldexp(fnp.array([1.0, 0.75]), fnp.array([3, 2]))
      Array([8., 3.], dtype=float32)
    """
    if ew.kind_of(x1) == "c" or ew.kind_of(x2) not in "biu":
        raise DtypeError("ldexp takes a real number and an integer exponent")
    (x1,) = ew.promote_inexact(x1)
    wide = _widen_short(x1)
    bias = _format(wide.dtype).bias
    # Three factors reach from the least subnormal number to the greatest.
    rest = logic.maximum(logic.minimum(ax.cast(x2, dtypes.int32), 3 * bias), -3 * bias)
    for parts in (3, 2, 1):
        step = elementwise(p.div, rest, parts)
        step = logic.maximum(logic.minimum(step, bias), 1 - bias)
        wide = wide * _power_of_two(step, wide.dtype)
        rest = rest - step
    return ax.cast(wide, x1.dtype, x1.weak_type)


def frexp(x: Value, /) -> tuple[Any, Any]:
    """(m, e) with x = m · 2**e and 1/2 <= |m| < 1.

    Args:
      x: an array of any shape, or a number; real.

    Returns:
      (m, e) of the shape of `x`: floats, and int32. Of 0, infinity and NaN m is x
      itself, and e is 0.

    Raises:
      DtypeError: x is complex, or of a dtype that does not hold m, as float4_e2m1fn.

    Example:
      >>> fnp.frexp(fnp.array([8.0, 3.0, 0.0]))
      (Array([0.5 , 0.75, 0.  ], dtype=float32), Array([4, 2, 0], dtype=int32))
    """
    ew.refuse_complex("frexp", x)
    (x,) = ew.promote_inexact(x)
    if finfo(x.dtype).smallest_normal > 0.5:
        raise DtypeError(
            f"frexp is not defined for {x.dtype.name}, which has few numbers between "
            "1/2 and 1; convert with .astype"
        )
    wide = _widen_short(x)
    form = _format(wide.dtype)
    tiny = abs(wide) < float(np.finfo(wide.dtype).tiny)
    lifted = ax.choose(tiny, wide * 2.0**form.mantissa, wide)
    bits = bind(p.bitcast, lifted, arg=form.integer)
    exponent = (bits >> form.mantissa & form.exponent_mask) - (form.bias - 1)
    # Two products, which are exact, and of which the derivative is the power of two.
    first = exponent >> 1
    mantissa = lifted * _power_of_two(-first, wide.dtype)
    mantissa = mantissa * _power_of_two(first - exponent, wide.dtype)
    exponent = exponent - ax.choose(tiny, form.mantissa, 0)
    plain = (wide == 0) | (wide - wide != 0)
    mantissa = ax.cast(ax.choose(plain, wide, mantissa), x.dtype, x.weak_type)
    return mantissa, ax.cast(ax.choose(plain, 0, exponent), dtypes.int32)


def nextafter(x1: Value, x2: Value, /) -> Any:
    """The next number after x1 in the direction of x2.

    Args:
      x1, x2: real arrays or numbers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of floats of the common shape.

    Example:
      >>> fnp.nextafter(1.0, 2.0) - 1
      Array(1.1920929e-07, dtype=float32, weak_type=True)
    """
    return elementwise(p.nextafter, x1, x2, inexact=True)


def spacing(x: Value, /) -> Any:
    """The distance to the next number of greater size; of float16, to the next above.

    Its sign is that of x, but for float16: so NumPy and JAX have it.

    Args:
      x: an array of any shape, or a number; real.

    Returns:
      An array of floats of the shape of `x`.

    Example:
      >>> fnp.spacing(fnp.array([1.0, 2.0]))
      Array([1.1920929e-07, 2.3841858e-07], dtype=float32)
    """
    x = ax.strong(*ew.promote_inexact(x))
    below = x == -math.inf if x.dtype == dtypes.float16 else x < 0
    away = ax.choose(below, -math.inf, math.inf)
    return elementwise(p.nextafter, x, ax.cast(away, x.dtype)) - x


# Modified Bessel functions of the first kind, of orders 0 and 1.
#
#     |x| < 4     the power series in (x/2)²: no term is negative, nothing cancels
#     beyond      exp(|x|)/√|x| · P(1/|x|), a polynomial of nearly one value
#
# float16 and bfloat16 are computed in float32 and rounded once.


#: Where the series ends; where, of float64, the second polynomial begins.
_NEAR, _FAR = 4.0, 10.0
#: Terms of the series: at 4 the first left out is below 2^-28, 2^-58 of the sum.
_TERMS_SINGLE, _TERMS_DOUBLE = 11, 18
# √x·exp(-x)·I(x) in 1/x less the middle of its range: by interpolation at the nodes of
# Chebyshev with 50 digits. float32: 2^-25.6 and 2^-26.2; float64: 2^-53.9.
_SINGLE_MIDDLE, _MIDDLE_MIDDLE, _FAR_MIDDLE = 0.125, 0.175, 0.05
_I0_SINGLE = (
    -29313.1074, -1969.76428, 1925.39844, 172.584534, -57.2931824, -9.37171459,
    0.415191531, 0.322389185, 0.0947521925, 0.0470597856, 0.058795467, 0.405686349,
)  # fmt: skip
_I0_MIDDLE = (
    -665999087975.5437, -31737445100.135433, 49501655601.42419, -5132403065.105808,
    -612045870.5653644, 238632490.3895607, -34670540.5171829, 380607.29935630923,
    1134386.2663130872, -257527.7969287623, 10433.82450650576, 7526.984146066933,
    -1640.4722776396056, -52.16396240819711, 70.24155731430892, -3.119493316415979,
    -2.92484311916278, -0.039013325294351184, 0.1385987288861728,
    0.06549500390920704, 0.06436421943608339, 0.4087575723203889,
)  # fmt: skip
_I0_FAR = (
    58646112188478.83, 436261479999237.6, 13543034229587.107, -7148738562024.446,
    -310847300473.96826, 50070240615.21907, 3310577485.297935, -145504610.34371322,
    -19804397.54203246, -476258.042853761, 30954.17881709527, 3861.5376648003216,
    324.46794224398775, 32.736278541678374, 4.556080138769077, 0.8726658672390516,
    0.226508822223992, 0.0806601178887852, 0.041216271608303975,
    0.033245309054998395, 0.05291771934372416, 0.4015097608312065,
)  # fmt: skip
_I1_SINGLE = (
    32071.1953, 1835.96094, -2126.61523, -168.058578, 65.2152176, 9.86050129,
    -0.58614558, -0.384333581, -0.12028265, -0.0720488653, -0.163891762, 0.379412264,
)  # fmt: skip
_I1_MIDDLE = (
    739555313576.5886, 20451860695.572353, -51328193924.9469, 5744468197.254791,
    549714681.6932617, -241703407.2946264, 37520806.618696444, -965609.5505321452,
    -1109836.0280530804, 275076.2825607956, -14939.2018147297, -7406.398669964536,
    1808.6465728697244, 23.8026125776381, -74.93935738501584, 4.733002054358102,
    3.198322888465361, -0.018209952621607014, -0.17801570262588082,
    -0.09536239903979513, -0.17218548171683792, 0.37102013052212485,
)  # fmt: skip
_I1_FAR = (
    -271488836659637.2, -454159781586108.7, -10421918535025.158, 7480846062938.127,
    294436493277.1986, -52933101399.25171, -3323385420.8812222, 158706214.44901913,
    20529199.915956307, 473312.05043313303, -33571.929519573554, -4112.181425776744,
    -348.03775099992293, -35.69035687454999, -5.075148758266504,
    -0.9982990547934871, -0.2684685957472357, -0.10070873966504085,
    -0.056098890504770633, -0.05392058653526989, -0.1546181025351189,
    0.39133972251206706,
)  # fmt: skip
_POLYNOMIALS = (
    (_I0_SINGLE, _I0_MIDDLE, _I0_FAR), (_I1_SINGLE, _I1_MIDDLE, _I1_FAR),
)  # fmt: skip


def i0(x: Value) -> Any:
    """The modified Bessel function of the first kind, of order 0.

        I₀(x) = Σ (x²/4)ᵏ / (k!)²

    Args:
      x: an array of any shape, or a number; real.

    Returns:
      An array of the shape of `x`; float32 for integers.

    Raises:
      DtypeError: x is complex.

    Example:
      >>> fnp.i0(fnp.array([0, 1])).round(3)
      Array([1.   , 1.266], dtype=float32)
    """
    return bessel("i0", x, 0, scaled=False)


def bessel(name: str, x: Value, order: int, *, scaled: bool) -> Any:
    """I₀(x) or I₁(x); `scaled`: times exp(-|x|).

    Raises:
      DtypeError: x is complex.
    """
    ew.refuse_complex(name, x)
    (x,) = ew.promote_inexact(x)
    return run_fused(_bessel, [x], order=order, scaled=scaled)


def horner(coefficients: Sequence[float], x: Any) -> Any:
    """A polynomial, its highest power first."""
    value: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def _bessel(given: Any, order: int, scaled: bool) -> Any:
    x = given if given.dtype.itemsize >= 4 else ax.cast(given, dtypes.float32)
    size = ew.absolute(x)
    small = size < _NEAR
    near = ax.choose(small, x, 1.0)
    series = horner(_series(order, x.dtype == dtypes.float64), 0.25 * near * near)
    low = 0.5 * near * series if order else series
    beyond = ax.choose(small, _NEAR, size)
    high = _asymptotic(_POLYNOMIALS[order], 1 / beyond) / ew.sqrt(beyond)
    if scaled:  # the slope of |x| at 0 counts as 0
        low = low * ew.exp(-ax.choose(near == 0, 0.0, ew.absolute(near)))
    else:  # a power in two factors overflows no sooner than the function
        limit = 700.0 if x.dtype == dtypes.float64 else 85.0
        most = ax.choose(beyond < limit, beyond, limit)
        high = high * ew.exp(most) * ew.exp(beyond - most)
        high = ax.choose(beyond == math.inf, math.inf, high)
    if order:
        high = ax.choose(x < 0, -high, high)
    return ax.cast(ax.choose(small, low, high), given.dtype, given.weak_type)


def _series(order: int, double: bool) -> list[float]:
    """I₀(2√y), or I₁(2√y)/√y, in y."""
    terms = range(_TERMS_DOUBLE if double else _TERMS_SINGLE)
    factorial = math.factorial
    return [1 / (factorial(k) * factorial(k + order)) for k in reversed(terms)]


def _asymptotic(polynomials: tuple[Sequence[float], ...], inverse: Any) -> Any:
    single, middle, far = polynomials
    if inverse.dtype == dtypes.float32:
        return horner(single, inverse - _SINGLE_MIDDLE)
    near = horner(middle, inverse - _MIDDLE_MIDDLE)
    return ax.choose(inverse < 1 / _FAR, horner(far, inverse - _FAR_MIDDLE), near)


# Bits read in another way: bytes swapped, split into parts, joined.


def view(x: Value, dtype: Any = None) -> Any:
    """The same bits as another dtype: a narrower one has more elements in a row.

    Args:
      x: an array.
      dtype: of the result; None is that of `x`.

    Returns:
      An array of the shape of `x`, but for the last axis, which holds the same bytes.

    Raises:
      ShapeError: the bytes of a row are no whole elements, or a scalar has more or
        fewer of them.

    Example:
      >>> fnp.view(fnp.array([1.0]), fnp.uint16)
      Array([    0, 16256], dtype=uint16)
    """
    x = ax.as_value(x)
    target = x.dtype if dtype is None else dtypes.as_dtype(dtype)
    if target == x.dtype:
        return x
    if target == np.bool_:  # one of other bits than 0 and 1 is no bool
        return view(x, np.uint8) != 0
    pair, whole = dtypes.is_complex(target), dtypes.bits_of(target)
    width = whole >> pair
    size = dtypes.bits_of(x.dtype) * (x.shape[-1] if x.ndim else 1)
    if size % whole or (x.ndim == 0 and size != whole):
        raise ShapeError(
            f"view: the {size} bits of the last axis of {x.dtype}{[*x.shape]} "
            f"are no whole elements of {target}"
        )
    before = x.shape[:-1]
    shape = (*before, size // whole) if x.ndim else ()
    if dtypes.is_complex(x.dtype):
        x = stack([ew.real(x), ew.imag(x)], -1)
    old = dtypes.bits_of(x.dtype)
    if old < width:
        x = join_bits(ax.reshape(x, (*before, size // width, width // old)), width)
    elif old > width:
        x = split_bits(x, width)
    x = reinterpret(x, dtypes.real_dtype(target))
    if pair:
        x = ax.reshape(x, (*before, size // whole, 2))
        x = bind(p.make_complex, x[..., 0], x[..., 1])
    return ax.reshape(x, shape)


def byteswap(x: Value) -> Any:
    """Each element with its bytes in the other order."""
    x = ax.as_value(x)
    size, kind = x.dtype.itemsize, x.dtype
    if size == 1:
        return x
    if dtypes.is_complex(kind):
        raise DtypeError(f"byteswap takes real numbers, got {kind}")
    bits = reinterpret(x, _unsigned_dtype(8 * size))
    swapped = bits & 0
    for i in range(size):
        swapped = swapped | (((bits >> 8 * i) & 255) << 8 * (size - 1 - i))
    return reinterpret(swapped, kind)


def reinterpret(x: Any, dtype: np.dtype[Any]) -> Any:
    """The bits as another dtype of the same width."""
    return x if x.dtype == dtype else bind(p.bitcast, x, arg=dtype)


def split_bits(x: Any, width: int) -> Any:
    """Each element as unsigned integers along a new last axis, the lowest first."""
    old = dtypes.bits_of(x.dtype)
    whole, shape = _unsigned_dtype(old), (*x.shape, old // width)
    bits = ax.expand(ax.insert_axes(reinterpret(x, whole), (x.ndim,)), shape)
    parts = bind(p.shift_right_logical, bits, _shifts(shape, whole, width))
    return ax.cast(parts, _unsigned_dtype(width))


def join_bits(x: Any, size: int) -> Any:
    """The elements along the last axis, the lowest first, as one unsigned integer."""
    whole, width, last = _unsigned_dtype(size), dtypes.bits_of(x.dtype), x.ndim - 1
    bits = ax.cast(reinterpret(x, _unsigned_dtype(width)), whole)
    placed = bind(p.shift_left, bits, _shifts(x.shape, whole, width))
    return ax.drop_axes(bind(bc.reduce_sum_p, placed, arg=(last,)), (last,))


def _unsigned_dtype(bits: int) -> np.dtype[Any]:
    return dtypes.as_dtype(f"uint{bits}")


def _shifts(shape: Sequence[int], dtype: np.dtype[Any], width: int) -> Any:
    """How far the parts along the last axis stand from the lowest bit."""
    places = ax.iota(dtype, tuple(shape), len(shape) - 1)
    return elementwise(p.mul, places, ax.full((), width, dtype))
