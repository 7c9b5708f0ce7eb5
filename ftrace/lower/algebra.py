"""Identities of elementwise operations that hold for every value, bit for bit.

NaN, infinities and signed zeros included: x·0, x - x and (a + b) - b stay for floats.
Only the sign bit of a NaN, which IEEE 754 leaves open, may differ; `mul_zero`, whose
zero has no sign by definition, is the other exception.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

import ml_dtypes
import numpy as np

from ftrace import dtypes
from ftrace.lower.constants import is_bits, is_negative_zero, is_zero
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives.elementwise import (
    absolute,
    add,
    bit_and,
    bit_not,
    bit_or,
    bit_xor,
    cast,
    cast_p,
    ceil,
    conj,
    div,
    eq,
    floor,
    ge,
    gt,
    imag,
    le,
    lt,
    make_complex,
    maximum,
    minimum,
    mul,
    mul_zero,
    ne,
    neg,
    power,
    real,
    real_dtype,
    round_even,
    select,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
    sign,
    sub,
    truncate,
)
from ftrace.trace.primitives.source import const, const_like, const_p, zeros_like
from ftrace.trace.rewrite import Pat, Rule

X: Final = Pat(name="x")
Y: Final = Pat(name="y")
_SHIFTS = (shift_left, shift_right_logical, shift_right_arithmetic)


def _constant(value: complex) -> Pat:
    return Pat(const_p, where=lambda n: is_bits(n, value))


def _kinds(kinds: str) -> Any:
    return lambda node: dtypes.kind(node.dtype) in kinds


def _exact(node: Node) -> bool:
    """Bool or integer: the dtypes without NaN and signed zeros."""
    return dtypes.kind(node.dtype) in "biu"


def _operands_exact(node: Node) -> bool:
    return _exact(node.src[0])


def _is_finite_nonzero(node: Node) -> bool:
    value = constant_value(node)
    return bool(np.isfinite(value) and value != 0)


def _is_limit(which: int) -> Any:
    def holds(node: Node) -> bool:
        return is_bits(node, dtypes.limits(node.dtype)[which])

    return holds


def _all_ones(node: Node) -> bool:
    return isinstance(node.arg, bytes) and node.arg == _ones(node.dtype)


@lru_cache(maxsize=None)
def _ones(dtype: np.dtype[Any]) -> bytes:
    if dtype == dtypes.bool_:
        return b"\x01"
    return b"\xff" * dtype.itemsize


def _zero_like(x: Node) -> Node:
    return zeros_like(x)


def _true_like(x: Node) -> Node:
    return const(True, dtypes.bool_, x.shape)


def _false_like(x: Node) -> Node:
    return const(False, dtypes.bool_, x.shape)


def _negated(c: Node) -> Node:
    return const_like(c, -constant_value(c))


def _power_of_two(node: Node) -> bool:
    """Is 1/c exact, so that x/c and x·(1/c) round alike?"""
    if not dtypes.is_float(node.dtype):
        return False
    value = float(constant_value(node))
    if value == 0 or not math.isfinite(value):
        return False
    info: Any = ml_dtypes.finfo(node.dtype)
    least, greatest = math.frexp(float(info.tiny))[1], math.frexp(float(info.max))[1]
    fraction, exponent = math.frexp(value)  # ±0.5·2ᵉ, whose inverse is ±0.5·2²⁻ᵉ
    return abs(fraction) == 0.5 and least <= 2 - exponent <= greatest


def _real(x: Node) -> bool:
    return not dtypes.is_complex(x.dtype)


_ARITHMETIC: Final = (
    Rule(  # x·1 -> x
        "fold_mul_one",
        Pat(mul, X, _constant(1), commutes=True, where=_kinds("biuf")),
        lambda x: x,
    ),
    Rule(  # x/1 -> x
        "fold_div_one",
        Pat(div, X, _constant(1), where=_kinds("iuf")),
        lambda x: x,
    ),
    Rule(  # x/2ⁿ -> x·2⁻ⁿ
        "fold_div_power_of_two",
        Pat(div, X, Pat(const_p, name="c", where=_power_of_two)),
        lambda x, c: mul(x, const_like(c, 1 / constant_value(c))),
    ),
    Rule(  # x - 0 -> x
        "fold_sub_zero",
        Pat(sub, X, Pat(const_p, where=is_zero)),
        lambda x: x,
    ),
    Rule(  # x + -0.0 -> x
        "fold_add_negative_zero",
        Pat(add, X, Pat(const_p, where=is_negative_zero), commutes=True),
        lambda x: x,
    ),
    Rule(  # x + 0 -> x, for integers
        "fold_add_zero",
        Pat(add, X, Pat(const_p, where=is_zero), commutes=True, where=_exact),
        lambda x: x,
    ),
    Rule(  # x·0 -> 0, for integers
        "fold_mul_by_zero",
        Pat(mul, X, Pat(const_p, where=is_zero), commutes=True, where=_exact),
        _zero_like,
    ),
    Rule(  # x - x -> 0, for integers
        "fold_sub_itself", Pat(sub, X, X, where=_exact), _zero_like
    ),
    Rule(  # -(-x) -> x
        "fold_neg_neg", Pat(neg, Pat(neg, X)), lambda x: x
    ),
    Rule(  # x + (-y) -> x - y
        "fold_add_neg",
        Pat(add, X, Pat(neg, Y), commutes=True, where=_kinds("iuf")),
        lambda x, y: sub(x, y),
    ),
    Rule(  # x - (-y) -> x + y
        "fold_sub_neg", Pat(sub, X, Pat(neg, Y), where=_kinds("iuf")), lambda x, y: add(x, y)
    ),
    Rule(  # (-x)·c -> x·(-c)
        "fold_mul_neg",
        Pat(mul, Pat(neg, X), Pat(const_p, name="c"), commutes=True, where=_kinds("f")),
        lambda x, c: mul(x, _negated(c)),
    ),
    Rule(  # -(x·c) -> x·(-c)
        "fold_neg_mul",
        Pat(
            neg,
            Pat(mul, X, Pat(const_p, name="c"), commutes=True, name="product"),
            where=_kinds("f"),
        ),
        lambda x, c, product: mul(x, _negated(c)),
        single_use="product",
    ),
    Rule(  # (-x)·(-y) -> x·y
        "fold_mul_of_negs",
        Pat(mul, Pat(neg, X), Pat(neg, Y), where=_kinds("iuf")),
        lambda x, y: mul(x, y),
    ),
    Rule(  # |-x|, ||x|| -> |x|
        "fold_abs",
        Pat(absolute, Pat((neg, absolute), X, name="inner")),
        lambda x, inner: absolute(x),
    ),
    Rule(  # f(f(x)) -> f(x), for floor, ceil, trunc, round, sign
        "fold_idempotent",
        Pat((floor, ceil, truncate, round_even, sign), Pat(name="inner"), name="x"),
        lambda x, inner: inner if x.op is inner.op and _real(x) else None,
    ),
    Rule(  # max(x, x), min(x, x) -> x
        "fold_extremum_of_itself", Pat((maximum, minimum), X, X), lambda x: x
    ),
    Rule(  # max(x, -∞) -> x
        "fold_max_of_least",
        Pat(maximum, X, Pat(const_p, where=_is_limit(0)), commutes=True),
        lambda x: x,
    ),
    Rule(  # min(x, ∞) -> x
        "fold_min_of_greatest",
        Pat(minimum, X, Pat(const_p, where=_is_limit(1)), commutes=True),
        lambda x: x,
    ),
    Rule(  # x¹ -> x
        "fold_pow_one", Pat(power, X, _constant(1), where=_kinds("f")), lambda x: x
    ),
    Rule(  # x⁰ -> 1
        "fold_pow_zero",
        Pat(power, X, Pat(const_p, where=is_zero), where=_kinds("f")),
        lambda x: const_like(x, 1),
    ),
    Rule(  # x² -> x·x
        "fold_pow_two",
        Pat(power, X, _constant(2), where=_kinds("f")),
        lambda x: mul(x, x),
    ),
)


def _select_by_mask(x: Node, mask: Node) -> Node:
    return select(mask, x, zeros_like(x))


_MUL_ZERO: Final = (
    Rule(  # mul_zero(x, 0) -> 0
        "fold_mul_zero_by_zero",
        Pat(mul_zero, X, Pat(const_p, where=lambda n: constant_value(n) == 0), commutes=True),
        _zero_like,
    ),
    Rule(  # mul_zero(x, c) -> x·c, for c finite and not 0
        "fold_mul_zero_by_constant",
        Pat(mul_zero, X, Pat(const_p, name="c", where=_is_finite_nonzero), commutes=True),
        lambda x, c: mul(x, c),
    ),
    Rule(  # mul_zero(x, mask as number) -> select(mask, x, 0)
        "fold_mul_zero_by_mask",
        Pat(
            mul_zero, X,
            Pat(cast_p, Pat(name="mask", where=lambda n: n.dtype == dtypes.bool_)),
            commutes=True,
        ),
        _select_by_mask,
    ),
    Rule(  # mul_zero(x, x) -> x·x
        "fold_mul_zero_by_itself",
        Pat(mul_zero, X, X, where=_kinds("iuf")),
        lambda x: mul(x, x),
    ),
    Rule(  # mul_zero(x, y) -> x·y, for integers
        "fold_mul_zero_of_integers",
        Pat(mul_zero, X, Y, where=_exact),
        lambda x, y: mul(x, y),
    ),
)  # fmt: skip

def _select_of_bools(p: Node, x: Any, y: Any) -> Node | None:
    return None if x == y else p if x else bit_not(p)


def _flat_select(p: Node, x: Node, y: Node) -> Node | None:
    new_x = x.src[1] if x.op is select and x.src[0] is p else x
    new_y = y.src[2] if y.op is select and y.src[0] is p else y
    return None if (new_x, new_y) == (x, y) else select(p, new_x, new_y)


_SELECT: Final = (
    Rule(  # select(true, x, y) -> x; select(false, x, y) -> y
        "fold_select_of_constant",
        Pat(select, Pat(const_p, name="p"), X, Y),
        lambda p, x, y: x if constant_value(p) else y,
    ),
    Rule(  # select(p, x, x) -> x
        "fold_select_of_equals", Pat(select, Pat(), X, X), lambda x: x
    ),
    Rule(  # select(not p, x, y) -> select(p, y, x)
        "fold_select_of_not",
        Pat(select, Pat(bit_not, Pat(name="p")), X, Y),
        lambda p, x, y: select(p, y, x),
    ),
    Rule(  # select(p, select(p, x, z), y), select(p, x, select(p, z, y)) -> …(p, x, y)
        "fold_nested_select",
        Pat(select, Pat(name="p"), X, Y),
        _flat_select,
    ),
    Rule(  # select(p, true, false) -> p; select(p, false, true) -> not p
        "fold_select_of_bools",
        Pat(
            select, Pat(name="p"), Pat(const_p, name="x"), Pat(const_p, name="y"),
            where=_kinds("b"),
        ),
        lambda p, x, y: _select_of_bools(p, *map(constant_value, (x, y))),
    ),
)  # fmt: skip


_BITS: Final = (
    Rule(  # x & 0 -> 0
        "fold_and_zero",
        Pat(bit_and, X, Pat(const_p, where=is_zero), commutes=True),
        _zero_like,
    ),
    Rule(  # x & ~0 -> x
        "fold_and_ones",
        Pat(bit_and, X, Pat(const_p, where=_all_ones), commutes=True),
        lambda x: x,
    ),
    Rule(  # x | 0, x ^ 0 -> x
        "fold_or_zero",
        Pat((bit_or, bit_xor), X, Pat(const_p, where=is_zero), commutes=True),
        lambda x: x,
    ),
    Rule(  # x | ~0 -> ~0
        "fold_or_ones",
        Pat(bit_or, X, Pat(const_p, where=_all_ones, name="c"), commutes=True),
        lambda x, c: c,
    ),
    Rule(  # x ^ ~0 -> ~x
        "fold_xor_ones",
        Pat(bit_xor, X, Pat(const_p, where=_all_ones), commutes=True),
        lambda x: bit_not(x),
    ),
    Rule(  # x & x, x | x -> x
        "fold_bits_of_itself", Pat((bit_and, bit_or), X, X), lambda x: x
    ),
    Rule(  # x ^ x -> 0
        "fold_xor_itself", Pat(bit_xor, X, X), _zero_like
    ),
    Rule(  # ~~x -> x
        "fold_not_not", Pat(bit_not, Pat(bit_not, X)), lambda x: x
    ),
    Rule(  # x << 0, x >> 0 -> x
        "fold_shift_by_zero", Pat(_SHIFTS, X, Pat(const_p, where=is_zero)), lambda x: x
    ),
)

_OPPOSITE = {eq: ne, ne: eq}
_OPPOSITE_OF_EXACT = _OPPOSITE | {lt: ge, ge: lt, le: gt, gt: le}


def _not_compare(x: Node, c: Node) -> Node | None:
    table = _OPPOSITE_OF_EXACT if _operands_exact(c) else _OPPOSITE
    return table[c.op](*c.src) if c.op in table else None


def _compare_limit(c: Node) -> Node | None:
    """x < least, x > greatest -> false; x >= least, x <= greatest -> true."""
    x, y = c.src
    low, high = (is_bits(y, limit) for limit in dtypes.limits(y.dtype))
    if (c.op is lt and low) or (c.op is gt and high):
        return _false_like(x)
    if _exact(x) and ((c.op is ge and low) or (c.op is le and high)):
        return _true_like(x)
    return None


_COMPARE: Final = (
    Rule(  # x < x, x > x -> false
        "fold_strict_compare_with_itself", Pat((lt, gt), X, X), _false_like
    ),
    Rule(  # x != x -> false, for integers
        "fold_ne_itself", Pat(ne, X, X, where=_operands_exact), _false_like
    ),
    Rule(  # x == x, x <= x, x >= x -> true, for integers
        "fold_eq_itself", Pat((eq, le, ge), X, X, where=_operands_exact), _true_like
    ),
    Rule(  # not (x == y) -> x != y; not (x < y) -> x >= y for integers
        "fold_not_of_compare",
        Pat(bit_not, Pat((eq, ne, lt, le, gt, ge), name="c"), name="x"),
        _not_compare,
    ),
    Rule(  # x < least -> false, …
        "fold_compare_with_limit",
        Pat((lt, le, gt, ge), Pat(), Pat(const_p), name="c"),
        _compare_limit,
    ),
    Rule(  # x == true, x != false -> x; x == false, x != true -> not x
        "fold_compare_of_bool",
        Pat(
            (eq, ne), Pat(name="x", where=_kinds("b")), Pat(const_p, name="c"),
            name="node", commutes=True,
        ),
        lambda node, x, c: (
            x if bool(constant_value(c)) is (node.op is eq) else bit_not(x)
        ),
    ),
)  # fmt: skip


# Casts.

_DIGITS = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


def _holds(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Has `wide` every value of `narrow`?"""
    a, b = dtypes.kind(narrow), dtypes.kind(wide)
    if wide == narrow or a == "b":
        return True
    if a == "c" or b == "c":
        return b == "c" and _holds(real_dtype(wide), real_dtype(narrow))
    bits = 8 * narrow.itemsize - (a == "i")
    if b in "iu":
        return a in "iu" and (a == b or b == "i") and bits <= 8 * wide.itemsize - (b == "i")
    if b == "f":
        if a == "f":
            return narrow.itemsize < wide.itemsize
        return bits <= _DIGITS[wide]
    return False


def _merge_casts(node: Node, inner: Node) -> Node | None:
    first, middle, last = inner.src[0].dtype, inner.dtype, node.dtype
    if not _holds(middle, first):
        return None
    crosses = dtypes.is_integer(first) and not dtypes.is_integer(middle)
    if crosses and dtypes.is_integer(last) and not _holds(last, first):
        return None  # a float saturates where an integer wraps around
    return cast(inner.src[0], last, node.aval.weak_type)


_CASTS: Final = (
    Rule(  # cast[t](x of t) -> x
        "fold_cast_to_itself",
        Pat(cast_p, X, name="node"),
        lambda node, x: x if x.dtype == node.dtype else None,
    ),
    Rule(  # cast[t](cast[u](x)) -> cast[t](x), where u has all values of x
        "merge_casts", Pat(cast_p, Pat(cast_p, name="inner"), name="node"), _merge_casts
    ),
)

_COMPLEX: Final = (
    Rule(  # real(x + iy) -> x
        "fold_real_of_complex", Pat(real, Pat(make_complex, X, Pat())), lambda x: x
    ),
    Rule(  # imag(x + iy) -> y
        "fold_imag_of_complex", Pat(imag, Pat(make_complex, Pat(), X)), lambda x: x
    ),
    Rule(  # real(z) + i·imag(z) -> z
        "fold_complex_of_parts",
        Pat(make_complex, Pat(real, X), Pat(imag, X)),
        lambda x: x,
    ),
    Rule(  # conj(conj(z)) -> z
        "fold_conj_conj", Pat(conj, Pat(conj, X)), lambda x: x
    ),
    Rule(  # real(conj(z)) -> real(z)
        "fold_real_of_conj", Pat(real, Pat(conj, X)), lambda x: real(x)
    ),
    Rule(  # imag(conj(z)) -> -imag(z)
        "fold_imag_of_conj", Pat(imag, Pat(conj, X)), lambda x: neg(imag(x))
    ),
)

ALGEBRA: Final = (
    *_ARITHMETIC, *_MUL_ZERO, *_SELECT, *_BITS, *_COMPARE, *_CASTS, *_COMPLEX,
)  # fmt: skip
