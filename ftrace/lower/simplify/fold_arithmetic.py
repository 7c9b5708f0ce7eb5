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
    # x + -0.0 -> x
    Rule(
        "fold_add_negative_zero",
        Pat(p.add, X, Pat(const_p, where=is_negative_zero), commutes=True),
        lambda x: x,
    ),
    # x + 0 -> x, for integers
    Rule(
        "fold_add_zero", Pat(p.add, X, ZERO, commutes=True, aval=is_exact), lambda x: x
    ),
    # x - 0 -> x
    Rule("fold_sub_zero", Pat(p.sub, X, ZERO), lambda x: x),
    # x - x -> 0, for integers
    Rule("fold_sub_itself", Pat(p.sub, X, X, aval=is_exact), zero_like),
    # x - c -> x + (-c), for integers
    Rule(
        "fold_sub_constant",
        Pat(p.sub, X, C, aval=is_exact),
        lambda x, c: p.add(x, _negated(c)),
    ),
    # x + (-y) -> x - y
    Rule(
        "fold_add_neg",
        Pat(p.add, X, Pat(p.neg, Y), commutes=True),
        lambda x, y: p.sub(x, y),
    ),
    # x - (-y) -> x + y
    Rule("fold_sub_neg", Pat(p.sub, X, Pat(p.neg, Y)), lambda x, y: p.add(x, y)),
    # -(-x) -> x
    Rule("fold_neg_neg", Pat(p.neg, Pat(p.neg, X)), lambda x: x),
)

_PRODUCTS: Final = (
    # x·1 -> x
    Rule(
        "fold_mul_one",
        Pat(p.mul, X, constant(1), commutes=True, aval=has_kind("biuf")),
        lambda x: x,
    ),
    # x·0 -> 0, for integers
    Rule(
        "fold_mul_by_zero", Pat(p.mul, X, ZERO, commutes=True, aval=is_exact), zero_like
    ),
    # (-x)·c -> x·(-c)
    Rule(
        "fold_mul_neg",
        Pat(p.mul, Pat(p.neg, X), C, commutes=True, aval=has_kind("f")),
        lambda x, c: p.mul(x, _negated(c)),
    ),
    # -(x·c) -> x·(-c)
    Rule(
        "fold_neg_mul",
        Pat(p.neg, Pat(p.mul, X, C, commutes=True, name="product"), aval=has_kind("f")),
        lambda x, c, product: p.mul(x, _negated(c)),
        single_use="product",
    ),
    # (-x)·(-y) -> x·y
    Rule(
        "fold_mul_of_negs",
        Pat(p.mul, Pat(p.neg, X), Pat(p.neg, Y), aval=has_kind("iuf")),
        lambda x, y: p.mul(x, y),
    ),
    # x/1 -> x
    Rule("fold_div_one", Pat(p.div, X, constant(1), aval=has_kind("iuf")), lambda x: x),
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
    Rule("fold_pow_one", Pat(p.power, X, constant(1), aval=has_kind("f")), lambda x: x),
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
_FINITE: Final = Pat(const_p, name="c", where=_is_finite_nonzero)

_MUL_ZERO: Final = (
    # mul_zero(x, 0) -> 0
    Rule(
        "fold_mul_zero_by_zero", Pat(p.mul_zero, X, _ANY_ZERO, commutes=True), zero_like
    ),
    # mul_zero(x, c) -> x·c, for c finite and not 0
    Rule(
        "fold_mul_zero_by_constant",
        Pat(p.mul_zero, X, _FINITE, commutes=True),
        lambda x, c: p.mul(x, c),
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
    Rule(
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
    # max(x, x), min(x, x) -> x
    Rule("fold_extremum_of_itself", Pat((p.maximum, p.minimum), X, X), lambda x: x),
    # max(x, least) -> x
    Rule("fold_max_of_least", Pat(p.maximum, X, _limit(0), commutes=True), lambda x: x),
    # min(x, greatest) -> x
    Rule(
        "fold_min_of_greatest", Pat(p.minimum, X, _limit(1), commutes=True), lambda x: x
    ),
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
    Rule(
        "fold_abs",
        Pat(p.absolute, Pat((p.neg, p.absolute), X)),
        lambda x: p.absolute(x),
    ),
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
    Rule(
        "fold_real_of_complex", Pat(p.real, Pat(p.make_complex, X, Pat())), lambda x: x
    ),
    # imag(x + iy) -> y
    Rule(
        "fold_imag_of_complex", Pat(p.imag, Pat(p.make_complex, Pat(), Y)), lambda y: y
    ),
    # real(z) + i·imag(z) -> z
    Rule(
        "fold_complex_of_parts",
        Pat(p.make_complex, Pat(p.real, Z), Pat(p.imag, Z)),
        lambda z: z,
    ),
    # conj(conj(z)) -> z
    Rule("fold_conj_conj", Pat(p.conj, Pat(p.conj, Z)), lambda z: z),
    # real(conj(z)) -> real(z)
    Rule("fold_real_of_conj", Pat(p.real, Pat(p.conj, Z)), lambda z: p.real(z)),
    # imag(conj(z)) -> -imag(z)
    Rule("fold_imag_of_conj", Pat(p.imag, Pat(p.conj, Z)), lambda z: p.neg(p.imag(z))),
)

ALGEBRA: Final = (*_SUMS, *_PRODUCTS, *_MUL_ZERO, *_EXTREMA, *_COMPLEX)
