"""Identities of arithmetic, comparisons, selects and casts that a kernel profits from.

They hold for every value, bit for bit: NaN, infinities and signed zeros included. x·0,
x - x and (a + b) - b stay for floats. Only the sign of a NaN, which IEEE 754 leaves
open, may differ; and that of a zero that `mul_zero` gives, whose zero has none by
definition. What a compiler of scalars folds in the same way, as x/2ⁿ or two constants
that are added, is left to it.
"""

from __future__ import annotations

from typing import Final

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
    last_position,
    to_binary,
    to_x,
    to_zero,
)
from ftrace.trace.graph import Node, constant_value
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


def _is_finite_nonzero(c: Node) -> bool:
    value = constant_value(c)
    return bool(np.isfinite(value) and value != 0)


_MASK: Final = Pat(name="mask", aval=has_kind("b"))
_ANY_ZERO: Final = Pat(const_p, where=lambda c: bool(constant_value(c) == 0))
_FINITE: Final = Pat(const_p, name="y", where=_is_finite_nonzero)


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


def _small_power(x: Node, c: Node) -> Node | None:
    if is_bits(c, 0):
        return const_like(x, 1)
    return x if is_bits(c, 1) else p.mul(x, x) if is_bits(c, 2) else None


ALGEBRA: Final = (
    # x + 0 -> x, for integers
    to_x("fold_add_zero", Pat(p.add, X, ZERO, commutes=True, aval=is_exact)),
    # x·1 -> x
    to_x(
        "fold_mul_one", Pat(p.mul, X, constant(1), commutes=True, aval=has_kind("biuf"))
    ),
    # x⁰ -> 1, x¹ -> x, x² -> x·x
    Rule("fold_small_power", Pat(p.power, X, C, aval=has_kind("f")), _small_power),
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
        lambda x, mask: p.select(mask, x, zeros_like(x)),
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
)


M: Final = Pat(name="m")


def _compare_of_iota(x: Node, c: Node, node: Node) -> Node | None:
    """Where the first and the last position compare alike, all between do."""
    last, bound = last_position(x), constant_value(c)
    if last is None or (node.op in (p.eq, p.ne) and 0 <= bound <= last):
        return None
    ends = [const(end, x.dtype) for end in (0, last)]
    first, end = (bool(evaluate_scalar(node.op(e, const_like(e, bound)))) for e in ends)
    return const(first, dtypes.bool_, x.shape) if first == end else None


LOGIC: Final = (
    # select(true, x, y) -> x; select(false, x, y) -> y
    Rule(
        "fold_select_of_constant",
        Pat(p.select, C, X, Y),
        lambda c, x, y: x if constant_value(c) else y,
    ),
    # select(m, x, x) -> x
    to_x("fold_select_of_equals", Pat(p.select, Pat(), X, X)),
    # iota < n -> true, iota >= 0 -> true, …
    Rule(
        "fold_compare_of_iota",
        Pat(p.COMPARES, Pat(iota_p, name="x"), C, name="node"),
        _compare_of_iota,
    ),
    # cast[t](x of t) -> x
    Rule(
        "fold_cast_to_itself",
        Pat(p.cast_p, X, name="node"),
        lambda x, node: x if x.dtype == node.dtype else None,
    ),
)
