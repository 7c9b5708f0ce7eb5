"""Identities of arithmetic that hold for every value, bit for bit.

NaN, infinities and signed zeros included: x·0, x - x and (a + b) - b stay for floats.
Only the sign of a NaN, which IEEE 754 leaves open, may differ; and that of a zero that
`mul_zero` gives, whose zero has none by definition.
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
    Z,
    constant,
    evaluate_scalar,
    has_kind,
    is_bits,
    is_exact,
    is_negative_zero,
    last_position,
    zero_like,
)
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.sources import const_like, const_p, iota_p, zeros_like
from ftrace.trace.rewrite import Pat, Rule

C: Final = Pat(const_p, name="c")
D: Final = Pat(const_p, name="d")


def _negated(c: Node) -> Node:
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
    Rule(  # x + -0.0 -> x
        "fold_add_negative_zero",
        Pat(p.add, X, Pat(const_p, where=is_negative_zero), commutes=True),
        lambda x: x,
    ),
    Rule(  # x + 0 -> x, for integers
        "fold_add_zero",
        Pat(p.add, X, ZERO, commutes=True, aval=is_exact),
        lambda x: x,
    ),
    Rule(  # x - 0 -> x
        "fold_sub_zero",
        Pat(p.sub, X, ZERO),
        lambda x: x,
    ),
    Rule(  # x - x -> 0, for integers
        "fold_sub_itself",
        Pat(p.sub, X, X, aval=is_exact),
        zero_like,
    ),
    Rule(  # x - c -> x + (-c), for integers
        "fold_sub_constant",
        Pat(p.sub, X, C, aval=is_exact),
        lambda x, c: p.add(x, _negated(c)),
    ),
    Rule(  # x + (-y) -> x - y
        "fold_add_neg",
        Pat(p.add, X, Pat(p.neg, Y), commutes=True),
        lambda x, y: p.sub(x, y),
    ),
    Rule(  # x - (-y) -> x + y
        "fold_sub_neg",
        Pat(p.sub, X, Pat(p.neg, Y)),
        lambda x, y: p.add(x, y),
    ),
    Rule(  # -(-x) -> x
        "fold_neg_neg",
        Pat(p.neg, Pat(p.neg, X)),
        lambda x: x,
    ),
)

_PRODUCTS: Final = (
    Rule(  # x·1 -> x
        "fold_mul_one",
        Pat(p.mul, X, constant(1), commutes=True, aval=has_kind("biuf")),
        lambda x: x,
    ),
    Rule(  # x·0 -> 0, for integers
        "fold_mul_by_zero",
        Pat(p.mul, X, ZERO, commutes=True, aval=is_exact),
        zero_like,
    ),
    Rule(  # (-x)·c -> x·(-c)
        "fold_mul_neg",
        Pat(p.mul, Pat(p.neg, X), C, commutes=True, aval=has_kind("f")),
        lambda x, c: p.mul(x, _negated(c)),
    ),
    Rule(  # -(x·c) -> x·(-c)
        "fold_neg_mul",
        Pat(p.neg, Pat(p.mul, X, C, commutes=True, name="product"), aval=has_kind("f")),
        lambda x, c, product: p.mul(x, _negated(c)),
        single_use="product",
    ),
    Rule(  # (-x)·(-y) -> x·y
        "fold_mul_of_negs",
        Pat(p.mul, Pat(p.neg, X), Pat(p.neg, Y), aval=has_kind("iuf")),
        lambda x, y: p.mul(x, y),
    ),
    Rule(  # x/1 -> x
        "fold_div_one",
        Pat(p.div, X, constant(1), aval=has_kind("iuf")),
        lambda x: x,
    ),
    Rule(  # x/2ⁿ -> x·2⁻ⁿ
        "fold_div_power_of_two",
        Pat(p.div, X, Pat(const_p, name="c", where=_is_power_of_two)),
        _multiply_by_inverse,
    ),
    Rule(  # x⁰ -> 1
        "fold_pow_zero",
        Pat(p.power, X, ZERO, aval=has_kind("f")),
        lambda x: const_like(x, 1),
    ),
    Rule(  # x¹ -> x
        "fold_pow_one",
        Pat(p.power, X, constant(1), aval=has_kind("f")),
        lambda x: x,
    ),
    Rule(  # x² -> x·x
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
_FINITE: Final = Pat(const_p, name="c", where=_is_finite_nonzero)

_MUL_ZERO: Final = (
    Rule(  # mul_zero(x, 0) -> 0
        "fold_mul_zero_by_zero",
        Pat(p.mul_zero, X, _ANY_ZERO, commutes=True),
        zero_like,
    ),
    Rule(  # mul_zero(x, c) -> x·c, for c finite and not 0
        "fold_mul_zero_by_constant",
        Pat(p.mul_zero, X, _FINITE, commutes=True),
        lambda x, c: p.mul(x, c),
    ),
    Rule(  # mul_zero(x, mask as a number) -> select(mask, x, 0)
        "fold_mul_zero_by_mask",
        Pat(p.mul_zero, X, Pat(p.cast_p, _MASK), commutes=True),
        _select_by_mask,
    ),
    Rule(  # mul_zero(x, x) -> x·x
        "fold_mul_zero_by_itself",
        Pat(p.mul_zero, X, X, aval=has_kind("iuf")),
        lambda x: p.mul(x, x),
    ),
    Rule(  # mul_zero(x, y) -> x·y, for integers
        "fold_mul_zero_of_integers",
        Pat(p.mul_zero, X, Y, aval=is_exact),
        lambda x, y: p.mul(x, y),
    ),
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
    Rule(  # max(x, x), min(x, x) -> x
        "fold_extremum_of_itself",
        Pat((p.maximum, p.minimum), X, X),
        lambda x: x,
    ),
    Rule(  # max(x, least) -> x
        "fold_max_of_least",
        Pat(p.maximum, X, _limit(0), commutes=True),
        lambda x: x,
    ),
    Rule(  # min(x, greatest) -> x
        "fold_min_of_greatest",
        Pat(p.minimum, X, _limit(1), commutes=True),
        lambda x: x,
    ),
    Rule(  # max(iota, 0), min(iota, n) -> iota
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
    Rule(  # |-x|, ||x|| -> |x|
        "fold_abs",
        Pat(p.absolute, Pat((p.neg, p.absolute), X)),
        lambda x: p.absolute(x),
    ),
    Rule(  # f(f(x)) -> f(x), for floor, ceil, trunc, round, sign
        "fold_idempotent",
        Pat((p.floor, p.ceil, p.truncate, p.round_even, p.sign), Y, name="x"),
        lambda x, y: y if x.op is y.op and not dtypes.is_complex(x.dtype) else None,
    ),
    Rule(  # (x ∘ c) ∘ d -> x ∘ (c ∘ d), for integers, and for max and min of floats
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
    Rule(  # real(x + iy) -> x
        "fold_real_of_complex",
        Pat(p.real, Pat(p.make_complex, X, Pat())),
        lambda x: x,
    ),
    Rule(  # imag(x + iy) -> y
        "fold_imag_of_complex",
        Pat(p.imag, Pat(p.make_complex, Pat(), Y)),
        lambda y: y,
    ),
    Rule(  # real(z) + i·imag(z) -> z
        "fold_complex_of_parts",
        Pat(p.make_complex, Pat(p.real, Z), Pat(p.imag, Z)),
        lambda z: z,
    ),
    Rule(  # conj(conj(z)) -> z
        "fold_conj_conj",
        Pat(p.conj, Pat(p.conj, Z)),
        lambda z: z,
    ),
    Rule(  # real(conj(z)) -> real(z)
        "fold_real_of_conj",
        Pat(p.real, Pat(p.conj, Z)),
        lambda z: p.real(z),
    ),
    Rule(  # imag(conj(z)) -> -imag(z)
        "fold_imag_of_conj",
        Pat(p.imag, Pat(p.conj, Z)),
        lambda z: p.neg(p.imag(z)),
    ),
)

ALGEBRA: Final = (*_SUMS, *_PRODUCTS, *_MUL_ZERO, *_EXTREMA, *_COMPLEX)
