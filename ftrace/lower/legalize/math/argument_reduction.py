"""Argument reduction of sin, cos and tan: x = q·π/2 + r with |r| ≤ π/4, for every x.

Up to a limit q·π/2 is subtracted in three parts (W. J. Cody and W. Waite 1980). Beyond
it, the bits of 2/π that matter are multiplied exactly, in integers (M. H. Payne and
R. N. Hanek 1983). That costs four times as much, so it stands in a select that is
marked rare: a device may branch around it. Its three results are operations of their
own, so that a device may have the code once, out of line; others decompose them.

    x = m·2ᵉ with an integer m, and 2/π = Σ bₖ·2⁻ᵏ. Bits with k < e - 1 contribute
    multiples of 4 to x·2/π, which do not matter; from there on a window of three
    words, times m, has q in its two highest bits and r below.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import KernelOp
from ftrace.lower.legalize.math.floats import (
    Format,
    bits_of,
    fast_two_sum,
    float_of,
    format_of,
    integer_to_float,
    nearest,
    sign_bit,
    two_product,
)
from ftrace.lower.legalize.math.term import (
    RARE,
    Term,
    bitcast,
    cast,
    fma,
    ne,
    number_of,
    select,
)
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import make_node

#: The parts of `far_angle`, as operations of kernels.
far_quadrant_p = KernelOp("far_quadrant")
far_remainder_p = KernelOp("far_remainder")
far_rest_p = KernelOp("far_rest")

_TWO_OVER_PI: Final = 0.6366197723675814
# π/2 in three numbers.
_HALF_PI_SINGLE: Final = (1.57079637, -4.37113883e-08, -1.71512451e-15)
_HALF_PI_DOUBLE: Final = (
    1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33,
)  # fmt: skip

#: Up to here three parts of π/2 are enough for the last place of r.
_LIMIT_SINGLE: Final = 2.0**17
_LIMIT_DOUBLE: Final = 2.0**30

# The first 1216 bits of 2/π, below a word of zeros.
_BITS: Final = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
    0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip
#: float32 needs 256 bits: a word of 32 zeros, then seven words.
_WORDS_SINGLE: Final = tuple(
    word for pair in _BITS[:5] for word in (pair >> 32, pair & 0xFFFFFFFF)
)[1:9]


class Reduced(NamedTuple):
    """x = quadrant·π/2 + r + rest.

    Attributes:
      quadrant: an integer of the float's width; its lowest two bits count.
      r, rest: the remainder in two numbers.
    """

    quadrant: Term
    r: Term
    rest: Term


def reduce_angle(x: Term) -> Reduced:
    """The remainder of x modulo π/2, and the quadrant; NaN for infinities."""
    first, second, third = _HALF_PI_SINGLE if x.single else _HALF_PI_DOUBLE
    n, shifted = nearest(x, _TWO_OVER_PI)
    r = fma(n, -first, x)  # exact, as both are multiples of the last bit of `first`
    product, error = two_product(n, second)
    high, low = fast_two_sum(r, -product)
    near = Reduced(bits_of(shifted), high, fma(n, -third, low - error))
    return _choose(x, near)


def _choose(x: Term, near: Reduced) -> Reduced:
    """`near` up to the limit, Payne and Hanek's reduction beyond."""
    far = abs(x) > (_LIMIT_SINGLE if x.single else _LIMIT_DOUBLE)
    exact = _far_parts(x)
    q, r, rest = (select(far, a, b, RARE) for a, b in zip(exact, near, strict=True))
    return Reduced(q, r, rest)


def _far_parts(x: Term) -> Reduced:
    """The parts of `far_angle(x)`, each as one operation."""
    aval = x.node.aval
    integer = ShapedArray.of(aval.shape, format_of(x).bits)
    avals = (integer, aval, aval)
    ops = (far_quadrant_p, far_remainder_p, far_rest_p)
    parts = (make_node(op, a, (x.node,)) for op, a in zip(ops, avals, strict=True))
    return Reduced(*map(Term, parts))


def far_angle(x: Term) -> Reduced:
    """The remainder of any x modulo π/2, and the quadrant, in integers."""
    return _payne_hanek_single(x) if x.single else _payne_hanek_double(x)


def far_quadrant(x: Term) -> Term:
    return far_angle(x).quadrant


def far_remainder(x: Term) -> Term:
    return far_angle(x).r


def far_rest(x: Term) -> Term:
    return far_angle(x).rest


def _significand(x: Term, layout: Format) -> tuple[Term, Term]:
    """(m, e): |x| = m·2ᵉ."""
    bits = bits_of(abs(x))
    hidden = 1 << layout.fraction
    m = (bits & (hidden - 1)) | hidden
    return m, (bits >> layout.fraction) - (layout.bias + layout.fraction)


def _window(words: list[Term], index: Term, stages: tuple[int, ...]) -> list[Term]:
    """Four of the words from `index` on: a shift by words, bit by bit of the index.

    Before the stage of bit 2ˢ the index that is left is below 2^(s+1): more than
    four words and that are not needed after it.
    """
    for stage in stages:
        chosen = ne(index & stage, 0)
        keep = min(4 + stage - 1, len(words))
        words = [
            select(chosen, words[i + stage], words[i])
            if i + stage < len(words)
            else words[i]
            for i in range(keep)
        ]
    return words


def _payne_hanek_single(x: Term) -> Reduced:
    shape = x.node.shape
    m, e = _significand(x, format_of(x))
    start = e + 30  # the word of zeros has 32 bits, less the two bits of q
    table = [number_of(word, dtypes.uint64, shape) for word in _WORDS_SINGLE]
    words = _window(table, start >> 5, (4, 2, 1))
    shift = cast(start & 31, dtypes.uint64)
    low_word = 0xFFFFFFFF
    w = [((((a << 32) | b) << shift) >> 32) & low_word for a, b in pairwise(words)]
    wide = cast(m, dtypes.uint64)
    product = ((wide * w[0]) << 32) + wide * w[1] + ((wide * w[2]) >> 32)
    rounded = product + (1 << 61)
    quadrant = cast(rounded >> 62, dtypes.int32)
    fraction = bitcast(rounded & ((1 << 62) - 1), dtypes.int64) - (1 << 61)
    # r = fraction·2⁻⁶²·π/2, of the fraction's upper 24 bits and the rest.
    upper = fraction >> 38
    lower = cast(fraction - (upper << 38), dtypes.float32) * 2.0**-62
    top = cast(upper, dtypes.float32) * 2.0**-24
    first, second, _ = _HALF_PI_SINGLE
    product, error = two_product(top, first)
    r, rest = fast_two_sum(product, error + fma(top, second, lower * first))
    return _with_signs(x, quadrant, r, rest)


def _payne_hanek_double(x: Term) -> Reduced:
    shape = x.node.shape
    m, e = _significand(x, format_of(x))
    start = e + 62
    table = [number_of(word, dtypes.uint64, shape) for word in _BITS]
    words = _window(table, start >> 6, (16, 8, 4, 2, 1))
    shift = bitcast(start & 63, dtypes.uint64)
    # A shift by the width gives 0, as it must where the window starts at a word.
    w = [
        (a << shift) | (b >> (number_of(64, dtypes.uint64, shape) - shift))
        for a, b in pairwise(words)
    ]
    wide = bitcast(m, dtypes.uint64)
    middle = wide * w[1]
    low = middle + _high_product(wide, w[2])
    carry = cast(low < middle, dtypes.uint64)
    high = wide * w[0] + _high_product(wide, w[1]) + carry
    rounded = high + (1 << 61)
    quadrant = bitcast(rounded >> 62, dtypes.int64)
    fraction = bitcast(rounded & ((1 << 62) - 1), dtypes.int64) - (1 << 61)
    # fraction·2⁻⁶² + low·2⁻¹²⁶ in three floats, each of them exact.
    top = integer_to_float(fraction >> 12) * 2.0**-50
    tail = (bitcast(fraction & 0xFFF, dtypes.uint64) << 36) | (low >> 28)
    lower = integer_to_float(bitcast(tail, dtypes.int64)) * 2.0**-98
    least = bitcast(low & 0xFFFFFFF, dtypes.int64)
    lower = lower + integer_to_float(least) * 2.0**-126
    value, rest = fast_two_sum(top, lower)
    first, second, _ = _HALF_PI_DOUBLE
    product, error = two_product(value, first)
    r, rest = fast_two_sum(product, error + fma(value, second, rest * first))
    return _with_signs(x, quadrant, r, rest)


def _high_product(a: Term, b: Term) -> Term:
    """The upper 64 bits of the product of two uint64."""
    mask = 0xFFFFFFFF
    a_high, a_low, b_high, b_low = a >> 32, a & mask, b >> 32, b & mask
    first = a_high * b_low + ((a_low * b_low) >> 32)
    second = a_low * b_high + (first & mask)
    return a_high * b_high + (first >> 32) + (second >> 32)


def _with_signs(x: Term, quadrant: Term, r: Term, rest: Term) -> Reduced:
    """What was found for |x|, for x."""
    signed = select(x < 0.0, 0 - quadrant, quadrant)
    return Reduced(signed, _signed(x, r), _signed(x, rest))


def _signed(x: Term, r: Term) -> Term:
    """r with the sign that x gives it; NaN where x is not finite."""
    return float_of(bits_of(r) ^ sign_bit(x)) + x * 0.0
