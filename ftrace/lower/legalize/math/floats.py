"""The parts of floating-point numbers, and sums and products without rounding error.

In float32 and float64 (IEEE 754): a sign bit, the exponent with a bias, the fraction.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.legalize.math.term import (
    Operand,
    Term,
    bitcast,
    cast,
    fma,
    mul_add,
    select,
)

INFINITY: Final = float("inf")
NAN: Final = float("nan")


class Format(NamedTuple):
    """The layout of a floating-point dtype.

    Attributes:
      bits: the signed integer dtype of the same width.
      fraction: the number of fraction bits.
      bias: of the exponent.
      sign: the sign bit, as a signed integer.
      magic: 1.5·2^fraction: x + magic has round(x) in its lowest bits.
      tiny: the least positive normal number.
    """

    bits: np.dtype[Any]
    fraction: int
    bias: int
    sign: int
    magic: float
    tiny: float


SINGLE: Final = Format(dtypes.int32, 23, 127, -(2**31), 1.5 * 2.0**23, 2.0**-126)
DOUBLE: Final = Format(dtypes.int64, 52, 1023, -(2**63), 1.5 * 2.0**52, 2.0**-1022)


def bits_of_number(value: float, single: bool) -> int:
    """The bits of a constant, as a signed integer."""
    float_format, integer_format = ("=f", "=i") if single else ("=d", "=q")
    (bits,) = struct.unpack(integer_format, struct.pack(float_format, value))
    return int(bits)


def format_of(x: Term) -> Format:
    """The layout of a float32 or float64 term."""
    return SINGLE if x.single else DOUBLE


def bits_of(x: Term) -> Term:
    """The bits of a float as a signed integer."""
    return bitcast(x, format_of(x).bits)


def float_of(bits: Term) -> Term:
    """The float with these bits."""
    single = bits.dtype.itemsize == 4
    return bitcast(bits, dtypes.float32 if single else dtypes.float64)


def sign_bit(x: Term) -> Term:
    return bits_of(x) & format_of(x).sign


def copy_sign(magnitude: Term, x: Term) -> Term:
    """A number that is not negative with the sign of x."""
    return float_of(bits_of(magnitude) | sign_bit(x))


def is_negative(x: Term) -> Term:
    """Is the sign bit set? True for -0."""
    return bits_of(x) < 0


def clamp(x: Term, low: float | None, high: float | None) -> Term:
    """x within bounds; NaN stays."""
    if high is not None:
        x = select(x > high, high, x)
    if low is not None:
        x = select(x < low, low, x)
    return x


def nearest(x: Term, factor: float | None = None) -> tuple[Term, Term]:
    """The integer nearest to x·factor, and x·factor + magic, whose low bits hold it.

    For |x·factor| < 2^(fraction - 2). Two operations; no conversion to integers.
    """
    magic = format_of(x).magic
    shifted = x + magic if factor is None else mul_add(x, factor, magic)
    return shifted - magic, shifted


def power_of_two(shifted: Term, offset: int = 0) -> Term:
    """2^(n + offset) where `shifted` is n + magic and the result is normal."""
    layout = format_of(shifted)
    exponent = bits_of(shifted) + (layout.bias + offset)
    return float_of(exponent << layout.fraction)


def integer_to_float(i: Term) -> Term:
    """A small int32 or int64 as a float of the same width, exactly.

    Few machines convert int64 in vectors: there it is two operations on the bits.
    """
    if i.dtype.itemsize == 4:
        return cast(i, dtypes.float32)
    return float_of(i + bits_of_number(DOUBLE.magic, single=False)) - DOUBLE.magic


# Error-free transformations (T. J. Dekker 1971; D. E. Knuth; with fma for products).

Pair = tuple[Term, Term]


def fast_two_sum(a: Term, b: Operand) -> Pair:
    """a + b = sum + error exactly, if |a| ≥ |b| or a is a multiple of b's last bit."""
    total = a + b
    return total, (b - (total - a))


def two_sum(a: Term, b: Term) -> Pair:
    """a + b = sum + error exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Term, b: Operand) -> Pair:
    """a·b = product + error exactly."""
    product = a * b
    return product, fma(a, b, -product)
