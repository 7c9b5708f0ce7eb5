"""Identities of arithmetic, truth values, bits, comparisons, selects and casts.

They hold for every value, bit for bit: NaN, infinities and signed zeros included. x·0,
x - x and (a + b) - b stay for floats. Only the sign of a NaN, which IEEE 754 leaves
open, may differ; and that of a zero that `mul_zero` gives, whose zero has none by
definition.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from ftrace import dtypes
from ftrace.lower.simplify.fold_constants import (
    ZERO,
    X,
    Y,
    constant,
    evaluate_scalar,
    has_kind,
    is_bits,
    is_exact,
    is_negative_zero,
    last_position,
    to_binary,
    to_unary,
    to_x,
    to_zero,
)
from ftrace.trace.graph import Node, Op, constant_value
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.sources import (
    const,
    const_like,
    const_p,
    iota_p,
    zeros_like,
)
from ftrace.trace.rewrite import Pat, Rule

C: Final = Pat(const_p, name="c")
D: Final = Pat(const_p, name="d")


def _negate(c: Node) -> Node:
    return const_like(c, evaluate_scalar(p.neg(c)))


def _is_power_of_two(c: Node) -> bool:
    """Is 1/c exact, so that x/c and x·(1/c) round alike?"""
    if not dtypes.is_float(c.dtype):
        return False
    value = float(constant_value(c))
    if value == 0 or not math.isfinite(value):
        return False
    least, greatest = _exponents(c.dtype)
    fraction, exponent = math.frexp(value)  # ±0.5·2ᵉ, whose inverse is ±0.5·2²⁻ᵉ
    return abs(fraction) == 0.5 and least <= 2 - exponent <= greatest


@cache
def _exponents(dtype: np.dtype[Any]) -> tuple[int, int]:
    """e of the least normal and of the greatest number, written as f·2ᵉ with f < 1."""
    finfo: Any = cast(Any, ml_dtypes).finfo(dtype)
    least, greatest = float(finfo.tiny), float(finfo.max)
    return math.frexp(least)[1], math.frexp(greatest)[1]


def _multiply_by_inverse(x: Node, c: Node) -> Node:
    return p.mul(x, const_like(c, 1 / float(constant_value(c))))


_SUMS: Final = (
    # x + -0.0 -> x
    to_x(
        "fold_add_negative_zero",
        Pat(p.add, X, Pat(const_p, where=is_negative_zero), commutes=True),
    ),
    # x + 0 -> x, for integers
    to_x("fold_add_zero", Pat(p.add, X, ZERO, commutes=True, aval=is_exact)),
    # x - 0 -> x
    to_x("fold_sub_zero", Pat(p.sub, X, ZERO)),
    # x - x -> 0, for integers
    to_zero("fold_sub_itself", Pat(p.sub, X, X, aval=is_exact)),
    # x - c -> x + (-c), for integers
    Rule(
        "fold_sub_constant",
        Pat(p.sub, X, C, aval=is_exact),
        lambda x, c: p.add(x, _negate(c)),
    ),
    # x + (-y) -> x - y
    to_binary("fold_add_neg", p.sub, Pat(p.add, X, Pat(p.neg, Y), commutes=True)),
    # x - (-y) -> x + y
    to_binary("fold_sub_neg", p.add, Pat(p.sub, X, Pat(p.neg, Y))),
    # -(-x) -> x
    to_x("fold_neg_neg", Pat(p.neg, Pat(p.neg, X))),
)

_PRODUCTS: Final = (
    # x·1 -> x
    to_x(
        "fold_mul_one", Pat(p.mul, X, constant(1), commutes=True, aval=has_kind("biuf"))
    ),
    # x·0 -> 0, for integers
    to_zero("fold_mul_by_zero", Pat(p.mul, X, ZERO, commutes=True, aval=is_exact)),
    # (-x)·c -> x·(-c)
    Rule(
        "fold_mul_neg",
        Pat(p.mul, Pat(p.neg, X), C, commutes=True, aval=has_kind("f")),
        lambda x, c: p.mul(x, _negate(c)),
    ),
    # -(x·c) -> x·(-c)
    Rule(
        "fold_neg_mul",
        Pat(p.neg, Pat(p.mul, X, C, commutes=True, name="product"), aval=has_kind("f")),
        lambda x, c, product: p.mul(x, _negate(c)),
        single_use="product",
    ),
    # (-x)·(-y) -> x·y
    to_binary(
        "fold_mul_of_negs",
        p.mul,
        Pat(p.mul, Pat(p.neg, X), Pat(p.neg, Y), aval=has_kind("iuf")),
    ),
    # x/1 -> x
    to_x("fold_div_one", Pat(p.div, X, constant(1), aval=has_kind("iuf"))),
    # x/2ⁿ -> x·2⁻ⁿ
    Rule(
        "fold_div_power_of_two",
        Pat(p.div, X, Pat(const_p, name="c", where=_is_power_of_two)),
        _multiply_by_inverse,
    ),
    # x⁰ -> 1
    Rule(
        "fold_pow_zero",
        Pat(p.power, X, ZERO, aval=has_kind("f")),
        lambda x: const_like(x, 1),
    ),
    # x¹ -> x
    to_x("fold_pow_one", Pat(p.power, X, constant(1), aval=has_kind("f"))),
    # x² -> x·x
    Rule(
        "fold_pow_two",
        Pat(p.power, X, constant(2), aval=has_kind("f")),
        lambda x: p.mul(x, x),
    ),
)


def _is_finite_nonzero(c: Node) -> bool:
    value = constant_value(c)
    return bool(np.isfinite(value) and value != 0)


def _select_by_mask(x: Node, mask: Node) -> Node:
    return p.select(mask, x, zeros_like(x))


_MASK: Final = Pat(name="mask", aval=has_kind("b"))
_ANY_ZERO: Final = Pat(const_p, where=lambda c: bool(constant_value(c) == 0))
_FINITE: Final = Pat(const_p, name="y", where=_is_finite_nonzero)

_MUL_ZERO: Final = (
    # mul_zero(x, 0) -> 0
    to_zero("fold_mul_zero_by_zero", Pat(p.mul_zero, X, _ANY_ZERO, commutes=True)),
    # mul_zero(x, c) -> x·c, for c finite and not 0
    to_binary(
        "fold_mul_zero_by_constant", p.mul, Pat(p.mul_zero, X, _FINITE, commutes=True)
    ),
    # mul_zero(x, mask as a number) -> select(mask, x, 0)
    Rule(
        "fold_mul_zero_by_mask",
        Pat(p.mul_zero, X, Pat(p.cast_p, _MASK), commutes=True),
        _select_by_mask,
    ),
    # mul_zero(x, x) -> x·x
    Rule(
        "fold_mul_zero_by_itself",
        Pat(p.mul_zero, X, X, aval=has_kind("iuf")),
        lambda x: p.mul(x, x),
    ),
    # mul_zero(x, y) -> x·y, for integers
    to_binary("fold_mul_zero_of_integers", p.mul, Pat(p.mul_zero, X, Y, aval=is_exact)),
)


def _limit(which: int) -> Pat:
    """The least (0) or the greatest (1) constant of its dtype."""
    return Pat(const_p, where=lambda c: is_bits(c, dtypes.limits(c.dtype)[which]))


def _merge_constants(x: Node, c: Node, d: Node, outer: Node) -> Node:
    return outer.op(x, const_like(c, evaluate_scalar(outer.op(c, d))))


def _clamp_iota(y: Node, c: Node, positions: Node) -> Node | None:
    """max, min with a bound that no position reaches, or all do."""
    last, bound = last_position(positions), constant_value(c)
    if last is None:
        return None
    low = y.op is p.maximum
    if bound <= 0:
        return positions if low else c
    if bound >= last:
        return c if low else positions
    return None


_EXTREMA: Final = (
    # max(x, x), min(x, x) -> x
    to_x("fold_extremum_of_itself", Pat((p.maximum, p.minimum), X, X)),
    # max(x, least) -> x
    to_x("fold_max_of_least", Pat(p.maximum, X, _limit(0), commutes=True)),
    # min(x, greatest) -> x
    to_x("fold_min_of_greatest", Pat(p.minimum, X, _limit(1), commutes=True)),
    # max(iota, 0), min(iota, n) -> iota
    Rule(
        "fold_clamp_of_iota",
        Pat(
            (p.maximum, p.minimum),
            Pat(iota_p, name="positions"),
            C,
            commutes=True,
            name="y",
        ),
        _clamp_iota,
    ),
    # |-x|, ||x|| -> |x|
    to_unary("fold_abs", p.absolute, Pat(p.absolute, Pat((p.neg, p.absolute), X))),
    # f(f(x)) -> f(x), for floor, ceil, trunc, round, sign
    Rule(
        "fold_idempotent",
        Pat((p.floor, p.ceil, p.truncate, p.round_even, p.sign), Y, name="x"),
        lambda x, y: y if x.op is y.op and not dtypes.is_complex(x.dtype) else None,
    ),
    # (x ∘ c) ∘ d -> x ∘ (c ∘ d), for integers, and for max and min of floats
    Rule(
        "merge_constants",
        tuple(
            Pat(
                op,
                Pat(op, X, C, commutes=True),
                D,
                commutes=True,
                name="outer",
                aval=None if op in (p.maximum, p.minimum) else is_exact,
            )
            for op in (
                p.add,
                p.mul,
                p.bit_and,
                p.bit_or,
                p.bit_xor,
                p.maximum,
                p.minimum,
            )
        ),
        _merge_constants,
    ),
)

_COMPLEX: Final = (
    # real(x + iy) -> x
    to_x("fold_real_of_complex", Pat(p.real, Pat(p.make_complex, X, Pat()))),
    # imag(x + iy) -> y
    to_x("fold_imag_of_complex", Pat(p.imag, Pat(p.make_complex, Pat(), X))),
    # real(z) + i·imag(z) -> z
    to_x("fold_complex_of_parts", Pat(p.make_complex, Pat(p.real, X), Pat(p.imag, X))),
    # conj(conj(z)) -> z
    to_x("fold_conj_conj", Pat(p.conj, Pat(p.conj, X))),
    # real(conj(z)) -> real(z)
    to_unary("fold_real_of_conj", p.real, Pat(p.real, Pat(p.conj, X))),
    # imag(conj(z)) -> -imag(z)
    Rule("fold_imag_of_conj", Pat(p.imag, Pat(p.conj, X)), lambda x: p.neg(p.imag(x))),
)

ALGEBRA: Final = (*_SUMS, *_PRODUCTS, *_MUL_ZERO, *_EXTREMA, *_COMPLEX)


M: Final = Pat(name="m")


# Selects.


def _flat_select(m: Node, x: Node, y: Node) -> Node | None:
    new_x = x.src[1] if x.op is p.select and x.src[0] is m else x
    new_y = y.src[2] if y.op is p.select and y.src[0] is m else y
    return None if new_x is x and new_y is y else p.select(m, new_x, new_y)


def _select_of_bools(m: Node, x: Node, y: Node) -> Node | None:
    true, false = map(bool, map(constant_value, (x, y)))
    if true == false:
        return None
    return m if true else p.bit_not(m)


_SELECTS: Final = (
    # select(true, x, y) -> x; select(false, x, y) -> y
    Rule(
        "fold_select_of_constant",
        Pat(p.select, C, X, Y),
        lambda c, x, y: x if constant_value(c) else y,
    ),
    # select(m, x, x) -> x
    to_x("fold_select_of_equals", Pat(p.select, Pat(), X, X)),
    # select(not m, x, y) -> select(m, y, x)
    Rule(
        "fold_select_of_not",
        Pat(p.select, Pat(p.bit_not, M), X, Y),
        lambda m, x, y: p.select(m, y, x),
    ),
    # select(m, select(m, x, z), y), select(m, x, select(m, z, y)) -> …(m, x, y)
    Rule(
        "fold_nested_select",
        (
            Pat(p.select, M, Pat(p.select, name="x"), Y),
            Pat(p.select, M, X, Pat(p.select, name="y")),
        ),
        _flat_select,
    ),
    # select(m, true, false) -> m; select(m, false, true) -> not m
    Rule(
        "fold_select_of_bools",
        Pat(
            p.select,
            M,
            Pat(const_p, name="x"),
            Pat(const_p, name="y"),
            aval=has_kind("b"),
        ),
        _select_of_bools,
    ),
)

# Bits.


@cache
def _ones(dtype: np.dtype[Any]) -> bytes:
    return b"\x01" if dtype == dtypes.bool_ else b"\xff" * dtype.itemsize


def _is_ones(node: Node) -> bool:
    return node.op is const_p and node.arg == _ones(node.dtype)


_ONES: Final = Pat(const_p, where=_is_ones)
_SHIFTS = (p.shift_left, p.shift_right_logical, p.shift_right_arithmetic)

_BITS: Final = (
    # x & 0 -> 0
    to_zero("fold_and_zero", Pat(p.bit_and, X, ZERO, commutes=True)),
    # x & ~0 -> x
    to_x("fold_and_ones", Pat(p.bit_and, X, _ONES, commutes=True)),
    # x | 0, x ^ 0 -> x
    to_x("fold_or_zero", Pat((p.bit_or, p.bit_xor), X, ZERO, commutes=True)),
    # x | ~0 -> ~0
    to_x(
        "fold_or_ones",
        Pat(p.bit_or, Pat(), Pat(const_p, name="x", where=_is_ones), commutes=True),
    ),
    # x ^ ~0 -> ~x
    to_unary("fold_xor_ones", p.bit_not, Pat(p.bit_xor, X, _ONES, commutes=True)),
    # x & x, x | x -> x
    to_x("fold_bits_of_itself", Pat((p.bit_and, p.bit_or), X, X)),
    # x ^ x -> 0
    to_zero("fold_xor_itself", Pat(p.bit_xor, X, X)),
    # ~~x -> x
    to_x("fold_not_not", Pat(p.bit_not, Pat(p.bit_not, X))),
    # x << 0, x >> 0 -> x
    to_x("fold_shift_by_zero", Pat(_SHIFTS, X, ZERO)),
)

# Comparisons.

_OPPOSITE: dict[Op, Op] = {p.eq: p.ne, p.ne: p.eq}
_OPPOSITE_OF_EXACT = _OPPOSITE | {p.lt: p.ge, p.ge: p.lt, p.le: p.gt, p.gt: p.le}


def _compares_exact(node: Node) -> bool:
    return is_exact(node.src[0])


def _truth(x: Node, value: bool) -> Node:
    return const(value, dtypes.bool_, x.shape)


def _to_truth(name: str, value: bool, pattern: Pat) -> Rule:
    return Rule(name, pattern, lambda x: _truth(x, value))


def _not_compare(c: Node) -> Node | None:
    # Of floats: not (NaN < y) is true, and NaN >= y is false.
    table = _OPPOSITE_OF_EXACT if _compares_exact(c) else _OPPOSITE
    return table[c.op](*c.src) if c.op in table else None


def _compare_with_limit(x: Node, c: Node, node: Node) -> Node | None:
    at_least, at_most = (is_bits(c, limit) for limit in dtypes.limits(c.dtype))
    if (node.op is p.lt and at_least) or (node.op is p.gt and at_most):
        return _truth(x, False)
    if not is_exact(x):
        return None  # NaN is not even >= -∞
    if (node.op is p.ge and at_least) or (node.op is p.le and at_most):
        return _truth(x, True)
    return None


def _compare_of_iota(x: Node, c: Node, node: Node) -> Node | None:
    """Where the first and the last position compare alike, all between do."""
    last, bound = last_position(x), constant_value(c)
    if last is None or (node.op in (p.eq, p.ne) and 0 <= bound <= last):
        return None
    ends = [const(end, x.dtype) for end in (0, last)]
    first, end = (bool(evaluate_scalar(node.op(e, const_like(e, bound)))) for e in ends)
    return _truth(x, first) if first == end else None


_COMPARISONS: Final = (
    # x < x, x > x -> false
    _to_truth("fold_strict_compare_with_itself", False, Pat((p.lt, p.gt), X, X)),
    # x != x -> false, for integers
    _to_truth("fold_ne_itself", False, Pat(p.ne, X, X, where=_compares_exact)),
    # x == x, x <= x, x >= x -> true, for integers
    _to_truth(
        "fold_eq_itself", True, Pat((p.eq, p.le, p.ge), X, X, where=_compares_exact)
    ),
    # not (x == y) -> x != y; not (x < y) -> x >= y for integers
    Rule(
        "fold_not_of_compare", Pat(p.bit_not, Pat(p.COMPARES, name="c")), _not_compare
    ),
    # x < least, x > greatest -> false; x >= least, x <= greatest -> true
    Rule(
        "fold_compare_with_limit",
        Pat((p.lt, p.le, p.gt, p.ge), X, C, name="node"),
        _compare_with_limit,
    ),
    # iota < n -> true, iota >= 0 -> true, …
    Rule(
        "fold_compare_of_iota",
        Pat(p.COMPARES, Pat(iota_p, name="x"), C, name="node"),
        _compare_of_iota,
    ),
    # x == true, x != false -> x; x == false, x != true -> not x
    Rule(
        "fold_compare_of_bool",
        Pat(
            (p.eq, p.ne),
            Pat(name="x", aval=has_kind("b")),
            C,
            commutes=True,
            name="node",
        ),
        lambda x, c, node: (
            x if bool(constant_value(c)) is (node.op is p.eq) else p.bit_not(x)
        ),
    ),
)

# Casts.

_DIGITS = {
    dtypes.float16: 11,
    dtypes.bfloat16: 8,
    dtypes.float32: 24,
    dtypes.float64: 53,
}


def has_all_values(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Has `wide` every value of `narrow`, exactly?"""
    a, b = dtypes.kind(narrow), dtypes.kind(wide)
    if wide == narrow or a == "b":
        return True
    if a == "c" or b == "c":
        return b == "c" and has_all_values(
            dtypes.real_dtype(wide), dtypes.real_dtype(narrow)
        )
    bits = 8 * narrow.itemsize - (a == "i")
    if b == "f":
        return narrow.itemsize < wide.itemsize if a == "f" else bits <= _DIGITS[wide]
    if b in "iu" and a in "iu":
        return b in ("i", a) and bits <= 8 * wide.itemsize - (b == "i")
    return False


def _merge_casts(node: Node, inner: Node) -> Node | None:
    first, middle, last = inner.src[0].dtype, inner.dtype, node.dtype
    if not has_all_values(middle, first):
        return None
    through_float = dtypes.is_integer(first) and not dtypes.is_integer(middle)
    if through_float and dtypes.is_integer(last) and not has_all_values(last, first):
        return None  # a float saturates where an integer wraps around
    return p.cast(inner.src[0], last, node.aval.weak_type)


_CASTS: Final = (
    # cast[t](x of t) -> x
    Rule(
        "fold_cast_to_itself",
        Pat(p.cast_p, X, name="node"),
        lambda x, node: x if x.dtype == node.dtype else None,
    ),
    # cast[t](cast[u](x)) -> cast[t](x), where u has all values of x
    Rule(
        "merge_casts",
        Pat(p.cast_p, Pat(p.cast_p, name="inner"), name="node"),
        _merge_casts,
    ),
)

LOGIC: Final = (*_SELECTS, *_BITS, *_COMPARISONS, *_CASTS)
