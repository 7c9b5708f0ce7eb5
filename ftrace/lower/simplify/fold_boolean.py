"""Identities of truth values, bits, comparisons, selects and casts, for every value."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from ftrace import dtypes
from ftrace.lower.simplify.fold_constants import (
    ZERO,
    X,
    Y,
    evaluate_scalar,
    has_kind,
    is_bits,
    is_exact,
    last_position,
    zero_like,
)
from ftrace.trace.graph import Node, Op, constant_value
from ftrace.trace.primitives import elementwise as ops
from ftrace.trace.primitives.sources import const, const_like, const_p, iota_p
from ftrace.trace.rewrite import Pat, Rule

C: Final = Pat(const_p, name="c")
P: Final = Pat(name="p")


# Selects.


def _flat_select(p: Node, x: Node, y: Node) -> Node | None:
    new_x = x.src[1] if x.op is ops.select and x.src[0] is p else x
    new_y = y.src[2] if y.op is ops.select and y.src[0] is p else y
    return None if new_x is x and new_y is y else ops.select(p, new_x, new_y)


def _select_of_bools(p: Node, x: Node, y: Node) -> Node | None:
    true, false = map(bool, map(constant_value, (x, y)))
    if true == false:
        return None
    return p if true else ops.bit_not(p)


_SELECTS: Final = (
    # select(true, x, y) -> x; select(false, x, y) -> y
    Rule(
        "fold_select_of_constant",
        Pat(ops.select, C, X, Y),
        lambda c, x, y: x if constant_value(c) else y,
    ),
    # select(p, x, x) -> x
    Rule("fold_select_of_equals", Pat(ops.select, Pat(), X, X), lambda x: x),
    # select(not p, x, y) -> select(p, y, x)
    Rule(
        "fold_select_of_not",
        Pat(ops.select, Pat(ops.bit_not, P), X, Y),
        lambda p, x, y: ops.select(p, y, x),
    ),
    # select(p, select(p, x, z), y), select(p, x, select(p, z, y)) -> …(p, x, y)
    Rule(
        "fold_nested_select",
        (
            Pat(ops.select, P, Pat(ops.select, name="x"), Y),
            Pat(ops.select, P, X, Pat(ops.select, name="y")),
        ),
        _flat_select,
    ),
    # select(p, true, false) -> p; select(p, false, true) -> not p
    Rule(
        "fold_select_of_bools",
        Pat(
            ops.select,
            P,
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


ONES: Final = Pat(const_p, name="c", where=lambda n: n.arg == _ones(n.dtype))
_SHIFTS = (ops.shift_left, ops.shift_right_logical, ops.shift_right_arithmetic)

_BITS: Final = (
    # x & 0 -> 0
    Rule("fold_and_zero", Pat(ops.bit_and, X, ZERO, commutes=True), zero_like),
    # x & ~0 -> x
    Rule("fold_and_ones", Pat(ops.bit_and, X, ONES, commutes=True), lambda x, c: x),
    # x | 0, x ^ 0 -> x
    Rule(
        "fold_or_zero",
        Pat((ops.bit_or, ops.bit_xor), X, ZERO, commutes=True),
        lambda x: x,
    ),
    # x | ~0 -> ~0
    Rule("fold_or_ones", Pat(ops.bit_or, X, ONES, commutes=True), lambda x, c: c),
    # x ^ ~0 -> ~x
    Rule(
        "fold_xor_ones",
        Pat(ops.bit_xor, X, ONES, commutes=True),
        lambda x, c: ops.bit_not(x),
    ),
    # x & x, x | x -> x
    Rule("fold_bits_of_itself", Pat((ops.bit_and, ops.bit_or), X, X), lambda x: x),
    # x ^ x -> 0
    Rule("fold_xor_itself", Pat(ops.bit_xor, X, X), zero_like),
    # ~~x -> x
    Rule("fold_not_not", Pat(ops.bit_not, Pat(ops.bit_not, X)), lambda x: x),
    # x << 0, x >> 0 -> x
    Rule("fold_shift_by_zero", Pat(_SHIFTS, X, ZERO), lambda x: x),
)

# Comparisons.

_COMPARES = (ops.eq, ops.ne, ops.lt, ops.le, ops.gt, ops.ge)
_OPPOSITE: dict[Op, Op] = {ops.eq: ops.ne, ops.ne: ops.eq}
_OPPOSITE_OF_EXACT = _OPPOSITE | {
    ops.lt: ops.ge,
    ops.ge: ops.lt,
    ops.le: ops.gt,
    ops.gt: ops.le,
}


def _compares_exact(node: Node) -> bool:
    return is_exact(node.src[0])


def _truth(x: Node, value: bool) -> Node:
    return const(value, dtypes.bool_, x.shape)


def _not_compare(c: Node) -> Node | None:
    # Of floats: not (NaN < y) is true, and NaN >= y is false.
    table = _OPPOSITE_OF_EXACT if _compares_exact(c) else _OPPOSITE
    return table[c.op](*c.src) if c.op in table else None


def _compare_with_limit(x: Node, c: Node, node: Node) -> Node | None:
    at_least, at_most = (is_bits(c, limit) for limit in dtypes.limits(c.dtype))
    if (node.op is ops.lt and at_least) or (node.op is ops.gt and at_most):
        return _truth(x, False)
    if not is_exact(x):
        return None  # NaN is not even >= -∞
    if (node.op is ops.ge and at_least) or (node.op is ops.le and at_most):
        return _truth(x, True)
    return None


def _compare_of_iota(x: Node, c: Node, node: Node) -> Node | None:
    """Where the first and the last position compare alike, all between do."""
    last, bound = last_position(x), constant_value(c)
    if last is None or (node.op in (ops.eq, ops.ne) and 0 <= bound <= last):
        return None
    ends = [const(end, x.dtype) for end in (0, last)]
    first, end = (bool(evaluate_scalar(node.op(e, const_like(e, bound)))) for e in ends)
    return _truth(x, first) if first == end else None


_COMPARISONS: Final = (
    # x < x, x > x -> false
    Rule(
        "fold_strict_compare_with_itself",
        Pat((ops.lt, ops.gt), X, X),
        lambda x: _truth(x, False),
    ),
    # x != x -> false, for integers
    Rule(
        "fold_ne_itself",
        Pat(ops.ne, X, X, where=_compares_exact),
        lambda x: _truth(x, False),
    ),
    # x == x, x <= x, x >= x -> true, for integers
    Rule(
        "fold_eq_itself",
        Pat((ops.eq, ops.le, ops.ge), X, X, where=_compares_exact),
        lambda x: _truth(x, True),
    ),
    # not (x == y) -> x != y; not (x < y) -> x >= y for integers
    Rule(
        "fold_not_of_compare", Pat(ops.bit_not, Pat(_COMPARES, name="c")), _not_compare
    ),
    # x < least, x > greatest -> false; x >= least, x <= greatest -> true
    Rule(
        "fold_compare_with_limit",
        Pat((ops.lt, ops.le, ops.gt, ops.ge), X, C, name="node"),
        _compare_with_limit,
    ),
    # iota < n -> true, iota >= 0 -> true, …
    Rule(
        "fold_compare_of_iota",
        Pat(_COMPARES, Pat(iota_p, name="x"), C, name="node"),
        _compare_of_iota,
    ),
    # x == true, x != false -> x; x == false, x != true -> not x
    Rule(
        "fold_compare_of_bool",
        Pat(
            (ops.eq, ops.ne),
            Pat(name="x", aval=has_kind("b")),
            C,
            commutes=True,
            name="node",
        ),
        lambda x, c, node: (
            x if bool(constant_value(c)) is (node.op is ops.eq) else ops.bit_not(x)
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
    return ops.cast(inner.src[0], last, node.aval.weak_type)


_CASTS: Final = (
    # cast[t](x of t) -> x
    Rule(
        "fold_cast_to_itself",
        Pat(ops.cast_p, X, name="node"),
        lambda x, node: x if x.dtype == node.dtype else None,
    ),
    # cast[t](cast[u](x)) -> cast[t](x), where u has all values of x
    Rule(
        "merge_casts",
        Pat(ops.cast_p, Pat(ops.cast_p, name="inner"), name="node"),
        _merge_casts,
    ),
)

LOGIC: Final = (*_SELECTS, *_BITS, *_COMPARISONS, *_CASTS)
