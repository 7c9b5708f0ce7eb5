"""Functions of a few plain operations: signs, neighbours, bits, and fma itself."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.lower.legalize.math.floats import INFINITY, fast_two_sum, two_sum
from ftrace.lower.legalize.math.term import (
    RELAXED,
    Term,
    bitcast,
    cast,
    eq,
    number,
    select,
    sqrt,
)
from ftrace.trace.graph import Node, constant_bits


def sign(x: Term) -> Term:
    """-1, 0 or 1; ±0 and NaN are themselves."""
    category = dtypes.kind(x.dtype)
    if category == "u":
        return select(eq(x, 0), x, number(1, x))
    if category == "i":
        return select(x > 0, 1, select(x < 0, number(-1, x), x))
    return select(x > 0.0, 1.0, select(x < 0.0, number(-1.0, x), x))


def is_finite(x: Term) -> Term:
    """|x| < ∞: false for NaN."""
    return abs(x) < INFINITY


def mul_zero(x: Term, y: Term) -> Term:
    """x·y, and zero where either is zero."""
    zero = number(0, x)
    return select(eq(x, zero) | eq(y, zero), zero, x * y)


def rsqrt(x: Term) -> Term:
    """1/sqrt(x): two roundings."""
    return 1.0 / sqrt(x)


def nextafter(x: Term, y: Term) -> Term:
    """The next number toward y. Floats of one sign are ordered as their bits are.

    Any width, so that it serves 16-bit floats in their own dtype.
    """
    layout = np.dtype(f"i{x.dtype.itemsize}")
    bits, toward = bitcast(x, layout), bitcast(y, layout)
    width = 8 * x.dtype.itemsize
    sign_bit = -(2 ** (width - 1))
    magnitude = bits & ~sign_bit
    target = toward & ~sign_bit
    # The bits as integers in the order of the numbers: -0 and +0 are both 0.
    place = select(bits < 0, -magnitude, magnitude)
    aim = select(toward < 0, -target, target)
    step = place + select(place < aim, 1, number(-1, place))
    # Toward zero from the least number the sign stays.
    negative = select(eq(magnitude, 0), aim < 0, bits < 0)
    moved = select(step < 0, -step, step) | select(negative, number(sign_bit, bits), 0)
    result = select(eq(place, aim), toward, moved)
    result = select(_is_nan(target, x.dtype), toward, result)
    return bitcast(select(_is_nan(magnitude, x.dtype), bits, result), x.dtype)


def _is_nan(magnitude: Term, dtype: np.dtype[Any]) -> Term:
    infinity = int.from_bytes(constant_bits(INFINITY, dtype), sys.byteorder)
    return magnitude > infinity


_MASKS = (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F)


def popcount(x: Term) -> Term:
    """The number of bits that are set: sums in fields of 2, 4, 8, … bits.

    Source: H. S. Warren, Hacker's Delight, figure 5-2.
    """
    width = 8 * x.dtype.itemsize
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    cut = 2**width - 1
    pairs, fours, eights = (mask & cut for mask in _MASKS)
    v = bitcast(x, unsigned)
    v = v - ((v >> 1) & pairs)
    v = (v & fours) + ((v >> 2) & fours)
    v = (v + (v >> 4)) & eights
    shift = 8
    while shift < width:
        v = v + (v >> shift)
        shift *= 2
    return bitcast(v & 0x7F, x.dtype)


def fused_multiply_add(node: Node) -> Node:
    """a·b + c where no fma exists.

    A relaxed one is a product and a sum. An exact one: float32 in float64 arithmetic,
    where the product is exact; float64 by Dekker's product (|a|, |b| < 2^996).
    """
    a, b, c = map(Term, node.src)
    if node.arg == RELAXED:
        return (a * b + c).node
    if a.single:
        wide = cast(a, dtypes.float64) * cast(b, dtypes.float64)
        return cast(wide + cast(c, dtypes.float64), dtypes.float32).node
    product = a * b
    error = _product_error(a, b, product)
    total, rest = two_sum(product, c)
    high, low = fast_two_sum(total, rest + error)
    return (high + low).node


def _product_error(a: Term, b: Term, product: Term) -> Term:
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return a_low * b_low - (
        ((product - a_high * b_high) - a_low * b_high) - a_high * b_low
    )


def _split(x: Term) -> tuple[Term, Term]:
    """x in two halves of 26 bits (Veltkamp)."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high
