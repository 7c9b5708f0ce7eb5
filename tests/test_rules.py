"""Every rewrite rule: an example that matches, one that must not, both evaluated.

The two sides of a rule have the same bits, NaN, infinities and signed zeros included.
Where a row says `SIGNLESS`, only the sign of a zero may differ; where it says `SMALL`,
the values are small integers, as the order of adding differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftrace import dtypes, settings
from ftrace.errors import GraphError
from ftrace.lower.boards import MANY
from ftrace.lower.movement import MOVEMENT
from ftrace.lower.reduces import LARGE, block_count
from ftrace.lower.simplify import SIMPLIFY, SPLIT
from ftrace.lower.spec import GRAPH_SPEC, check_after
from ftrace.lower.values import is_contraction
from ftrace.trace.avals import ShapedArray
from ftrace.trace.evaluate import evaluate
from ftrace.trace.graph import Node, make_node, toposort
from ftrace.trace.primitives import elementwise as e
from ftrace.trace.primitives import movement as m
from ftrace.trace.primitives import reduction as r
from ftrace.trace.primitives.broadcast import expand_p, reduce_sum_p
from ftrace.trace.primitives.indexing import gather, scatter
from ftrace.trace.primitives.source import const, iota, is_variable, variable
from ftrace.trace.rewrite import PatternMatcher, rewrite
from tests.graph_samples import random_graph, values_for

RULES = {rule.name: rule for rule in SIMPLIFY + MOVEMENT + SPLIT}

SPECIAL = "special"
SIGNLESS = "signless"
SMALL = "small"

f16, f32, f64, bf16 = dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bfloat16
i8, i32, u8, b1 = dtypes.int8, dtypes.int32, dtypes.uint8, dtypes.bool_
c64 = dtypes.complex64


def V(*shape: int, dtype: Any = f32, number: int = 0) -> Node:
    """A variable."""
    return variable(ShapedArray.of(shape, dtype), 0, number)


def C(value: Any, *shape: int, dtype: Any = f32) -> Node:
    """A constant."""
    return const(value, dtype, shape)


@dataclass(frozen=True)
class Row:
    """What matches the rule, what must not, and which values they get.

    A builder gives the outputs of a graph, or its only one.
    """

    match: Callable[[], Node | list[Node]]
    other: Callable[[], Node | list[Node]]
    values: str = SPECIAL


# Variables that most rows use. A shape of (4, 6) has room for all special values.
x, y, z = (V(4, 6, number=i) for i in range(3))
i, j = (V(4, 6, dtype=i32, number=k) for k in (3, 4))
p, q = (V(4, 6, dtype=b1, number=k) for k in (5, 6))
h = V(4, 6, dtype=f16, number=7)
w = V(4, 6, dtype=c64, number=8)
row, column = V(1, 6, number=9), V(4, 1, number=10)
cube = V(2, 3, 4, number=11)


def like(node: Node, value: Any) -> Node:
    return const(value, node.dtype, node.shape)


def reshape(node: Node, *shape: int) -> Node:
    return m.reshape_p(node, arg=shape)


def expand(node: Node, *shape: int) -> Node:
    return expand_p(node, arg=shape)


def permute(node: Node, *axes: int) -> Node:
    return m.permute_p(node, arg=axes)


def pad(node: Node, *pads: tuple[int, int, int]) -> Node:
    return m.pad_p(node, arg=pads)


def shrink(node: Node, *bounds: tuple[int, int]) -> Node:
    return m.shrink_p(node, arg=bounds)


def stride(node: Node, *steps: int) -> Node:
    return m.stride_p(node, arg=steps)


def slid(node: Node, size: int, stride: int = 1, dilation: int = 1) -> Node:
    """Axis 1 slides over the windows of axis 0."""
    return m.unshear_p(node, arg=m.Shear(1, 0, stride, dilation, size))


def total(node: Node, *axes: int) -> Node:
    return reduce_sum_p(node, arg=axes)


def contraction(rows: int, columns: int, size: int, dtype: Any = f32) -> Node:
    """The sum over the last axis of products of which both factors are used again."""
    x, y = V(rows, 1, size, dtype=dtype), V(1, columns, size, dtype=dtype, number=1)
    shape = rows, columns, size
    product = e.mul(expand(x, *shape), expand(y, *shape))
    return total(e.cast(product, f32) if dtype == f16 else product, 2)


def greatest(node: Node, *axes: int) -> Node:
    return r.reduce_max_p(node, arg=axes)


def product(node: Node, *axes: int) -> Node:
    return r.reduce_prod_p(node, arg=axes)


def cast(node: Node, dtype: Any) -> Node:
    return e.cast_p(node, arg=(dtype, False))


CONSTANTS = {
    "fold_empty": Row(
        lambda: shrink(x, (1, 1), (0, 6)), lambda: shrink(x, (1, 2), (0, 6))
    ),
    "fold_reduce_of_nothing": Row(
        lambda: greatest(V(0, 6), 0), lambda: greatest(V(0, 6), 1)
    ),
    "fold_scatter_of_nothing": Row(
        lambda: scatter(x, V(0, 6), [V(0, dtype=i32)], (0,), "add"),
        lambda: scatter(x, V(1, 6), [V(1, dtype=i32)], (0,), "add"),
    ),
    "fold_constants": Row(
        lambda: [
            e.exp(C(0.5, 4)),
            e.div(C(1, 2, dtype=i32), C(0, 2, dtype=i32)),
            e.select(C(True, 2, dtype=b1), C(-0.0, 2), C(1, 2)),
            cast(C(300.7, 3), u8),
        ],
        lambda: e.add(x, like(x, 1)),
    ),
    "fold_movement_of_constant": Row(
        lambda: [
            reshape(C(2, 4, 6), 24),
            permute(C(2, 4, 6), 1, 0),
            expand(C(2, 4, 1), 4, 6),
            shrink(C(2, 4, 6), (0, 1), (2, 4)),
            stride(C(2, 4, 6), -2, 3),
        ],
        lambda: pad(C(2, 4), (1, 0, 0)),
    ),
    "fold_gather_of_constant": Row(
        lambda: gather(C(2, 4), [e.rem(V(3, dtype=u8), C(4, 3, dtype=u8))], (0,)),
        lambda: gather(V(4), [C(1, 3, dtype=i32)], (0,)),
    ),
    "fold_padding_of_zero": Row(
        lambda: [
            pad(C(0, 4), (1, 0, 2)),
            m.shear_p(C(0, 6, 2), arg=m.Shear(0, 1, 1, 1, 5)),
        ],
        lambda: pad(C(-0.0, 4), (1, 0, 0)),
    ),
    "reduce_of_constant_collapses": Row(
        lambda: [
            total(C(3, 4, 6), 0, 1),
            total(C(100, 4, 6, dtype=i8), 1),
            total(C(-np.inf, 4), 0),
            total(C(2 - 3j, 4, dtype=c64), 0),
            product(C(-2, 5), 0),
            product(C(7, 9, dtype=i8), 0),
            greatest(C(2.5, 4, 6), 1),
        ],
        lambda: [total(x, 0), product(C(1j, 4, dtype=c64), 0)],
    ),
    "remove_copy_of_constant": Row(lambda: e.copy(C(2, 4)), lambda: e.copy(x)),
    "merge_copies": Row(lambda: e.copy(e.copy(x)), lambda: e.copy(e.neg(e.copy(x)))),
    "remove_stop_gradient": Row(lambda: e.stop_gradient(x), lambda: e.copy(x)),
}

ARITHMETIC = {
    "fold_add_negative_zero": Row(
        lambda: [e.add(x, like(x, -0.0)), e.add(like(h, -0.0), h)],
        lambda: e.add(x, like(x, 0.0)),
    ),
    "fold_add_zero": Row(lambda: e.add(like(i, 0), i), lambda: e.add(x, like(x, 0))),
    "fold_sub_zero": Row(
        lambda: [e.sub(x, like(x, 0)), e.sub(i, like(i, 0)), e.sub(w, like(w, 0))],
        lambda: [e.sub(x, like(x, -0.0)), e.sub(like(x, 0), x)],
    ),
    "fold_sub_itself": Row(lambda: e.sub(i, i), lambda: e.sub(x, x)),
    "fold_sub_constant": Row(
        lambda: [e.sub(i, like(i, 7)), e.sub(V(3, dtype=i8), C(-128, 3, dtype=i8))],
        lambda: [e.sub(x, like(x, 7)), e.sub(like(i, 7), i)],
    ),
    "fold_add_neg": Row(
        lambda: [e.add(x, e.neg(y)), e.add(e.neg(i), j)],
        lambda: e.add(x, e.absolute(y)),
    ),
    "fold_sub_neg": Row(lambda: e.sub(x, e.neg(y)), lambda: e.sub(e.neg(x), y)),
    "fold_neg_neg": Row(lambda: e.neg(e.neg(x)), lambda: e.neg(e.absolute(e.neg(x)))),
    "fold_mul_one": Row(
        lambda: [e.mul(x, like(x, 1)), e.mul(like(i, 1), i), e.mul(p, like(p, True))],
        lambda: [e.mul(x, like(x, -1)), e.mul(w, like(w, 1))],
    ),
    "fold_mul_by_zero": Row(
        lambda: [e.mul(i, like(i, 0)), e.mul(like(p, False), p)],
        lambda: e.mul(x, like(x, 0)),
    ),
    "fold_mul_neg": Row(
        lambda: e.mul(like(x, 3), e.neg(x)), lambda: e.mul(e.neg(x), y)
    ),
    "fold_neg_mul": Row(
        lambda: e.neg(e.mul(x, like(x, 3))),
        lambda: [e.neg(t := e.mul(x, like(x, 3))), e.exp(t)],
    ),
    "fold_mul_of_negs": Row(
        lambda: [e.mul(e.neg(x), e.neg(y)), e.mul(e.neg(i), e.neg(j))],
        lambda: e.mul(e.neg(x), y),
    ),
    "fold_div_one": Row(
        lambda: [e.div(x, like(x, 1)), e.div(i, like(i, 1))],
        lambda: [e.div(like(x, 1), x), e.div(w, like(w, 1))],
    ),
    "fold_div_power_of_two": Row(
        lambda: [
            e.div(x, like(x, 4)),
            e.div(x, like(x, -0.125)),
            e.div(h, like(h, 2.0**14)),
            e.div(V(4, 6, dtype=bf16), C(2, 4, 6, dtype=bf16)),
        ],
        # The inverse of 2¹²⁷ is not a normal number.
        lambda: [
            e.div(x, like(x, 3)),
            e.div(x, like(x, 2.0**127)),
            e.div(i, like(i, 2)),
            e.div(x, like(x, 0)),
            e.div(x, like(x, np.inf)),
        ],
    ),
    "fold_pow_zero": Row(
        lambda: e.power(x, like(x, 0)), lambda: e.power(like(x, 0), x)
    ),
    "fold_pow_one": Row(lambda: e.power(x, like(x, 1)), lambda: e.power(like(x, 1), x)),
    "fold_pow_two": Row(
        lambda: e.power(x, like(x, 2)),
        lambda: [e.power(x, like(x, 3)), e.power(w, like(w, 2))],
    ),
    "fold_mul_zero_by_zero": Row(
        lambda: [e.mul_zero(x, like(x, 0)), e.mul_zero(like(x, -0.0), x)],
        lambda: e.mul(x, like(x, 0)),
    ),
    "fold_mul_zero_by_constant": Row(
        lambda: e.mul_zero(x, like(x, -3)),
        lambda: [e.mul_zero(x, like(x, np.inf)), e.mul_zero(x, like(x, np.nan))],
        SIGNLESS,
    ),
    "fold_mul_zero_by_mask": Row(
        lambda: e.mul_zero(cast(p, f32), x),
        lambda: e.mul_zero(x, cast(i, f32)),
        SIGNLESS,
    ),
    "fold_mul_zero_by_itself": Row(
        lambda: [e.mul_zero(x, x), e.mul_zero(i, i)],
        lambda: [e.mul_zero(x, y), e.mul_zero(w, w)],
    ),
    "fold_mul_zero_of_integers": Row(
        lambda: e.mul_zero(i, j), lambda: e.mul_zero(x, y)
    ),
    "fold_extremum_of_itself": Row(
        lambda: [e.maximum(x, x), e.minimum(i, i)], lambda: e.maximum(x, e.neg(x))
    ),
    "fold_max_of_least": Row(
        lambda: [e.maximum(x, like(x, -np.inf)), e.maximum(like(i, -(2**31)), i)],
        lambda: [e.minimum(x, like(x, -np.inf)), e.maximum(x, like(x, np.inf))],
    ),
    "fold_min_of_greatest": Row(
        lambda: [e.minimum(x, like(x, np.inf)), e.minimum(p, like(p, True))],
        lambda: e.minimum(i, like(i, 2**31 - 2)),
    ),
    "fold_clamp_of_iota": Row(
        lambda: [
            e.maximum(iota(i32, (4, 6), 1), C(0, 4, 6, dtype=i32)),
            e.minimum(C(5, 4, 6, dtype=i32), iota(i32, (4, 6), 1)),
            e.minimum(iota(i32, (4, 6), 1), C(-1, 4, 6, dtype=i32)),
        ],
        lambda: [
            e.minimum(iota(i32, (4, 6), 1), C(4, 4, 6, dtype=i32)),
            e.maximum(iota(i8, (300,), 0), C(0, 300, dtype=i8)),
            e.minimum(iota(f32, (6,), 0), C(5, 6)),
        ],
    ),
    "fold_abs": Row(
        lambda: [e.absolute(e.neg(x)), e.absolute(e.absolute(i))],
        lambda: e.absolute(e.exp(x)),
    ),
    "fold_idempotent": Row(
        lambda: [e.floor(e.floor(x)), e.sign(e.sign(x)), e.round_even(e.round_even(x))],
        lambda: [e.floor(e.ceil(x)), e.sign(e.sign(w))],
    ),
    "merge_constants": Row(
        lambda: [
            e.add(like(i, 2**31 - 1), e.add(i, like(i, 9))),
            e.mul(e.mul(like(i, 5), i), like(i, 2**30)),
            e.maximum(e.maximum(x, like(x, 1)), like(x, np.nan)),
            e.bit_xor(e.bit_xor(i, like(i, 12)), like(i, 10)),
        ],
        lambda: [
            e.add(e.add(x, like(x, 0.1)), like(x, 0.2)),
            e.add(e.mul(i, like(i, 2)), like(i, 3)),
        ],
    ),
    "fold_real_of_complex": Row(
        lambda: e.real(e.make_complex(x, y)), lambda: e.real(e.conj(w))
    ),
    "fold_imag_of_complex": Row(
        lambda: e.imag(e.make_complex(x, y)), lambda: e.imag(w)
    ),
    "fold_complex_of_parts": Row(
        lambda: e.make_complex(e.real(w), e.imag(w)),
        lambda: e.make_complex(e.imag(w), e.real(w)),
    ),
    "fold_conj_conj": Row(lambda: e.conj(e.conj(w)), lambda: e.conj(e.neg(e.conj(w)))),
    "fold_real_of_conj": Row(lambda: e.real(e.conj(w)), lambda: e.real(e.neg(w))),
    "fold_imag_of_conj": Row(lambda: e.imag(e.conj(w)), lambda: e.imag(e.neg(w))),
}

LOGIC = {
    "fold_select_of_constant": Row(
        lambda: [e.select(like(p, True), x, y), e.select(like(p, False), x, y)],
        lambda: e.select(p, like(x, 1), y),
    ),
    "fold_select_of_equals": Row(lambda: e.select(p, x, x), lambda: e.select(p, x, y)),
    "fold_select_of_not": Row(
        lambda: e.select(e.bit_not(p), x, y), lambda: e.select(p, x, e.neg(x))
    ),
    "fold_nested_select": Row(
        lambda: [
            e.select(p, e.select(p, x, z), y),
            e.select(p, x, e.select(p, z, y)),
            e.select(p, e.select(p, x, z), e.select(p, z, y)),
        ],
        lambda: e.select(p, e.select(q, x, z), y),
    ),
    "fold_select_of_bools": Row(
        lambda: [
            e.select(p, like(p, True), like(p, False)),
            e.select(p, like(p, False), like(p, True)),
        ],
        lambda: e.select(p, like(x, 1), like(x, 0)),
    ),
    "fold_and_zero": Row(
        lambda: [e.bit_and(i, like(i, 0)), e.bit_and(like(p, False), p)],
        lambda: e.bit_and(i, like(i, 1)),
    ),
    "fold_and_ones": Row(
        lambda: [e.bit_and(i, like(i, -1)), e.bit_and(like(p, True), p)],
        lambda: e.bit_and(i, like(i, 1)),
    ),
    "fold_or_zero": Row(
        lambda: [e.bit_or(i, like(i, 0)), e.bit_xor(like(p, False), p)],
        lambda: e.bit_or(i, like(i, 1)),
    ),
    "fold_or_ones": Row(
        lambda: [e.bit_or(i, like(i, -1)), e.bit_or(like(p, True), p)],
        lambda: e.bit_xor(i, like(i, -1)),
    ),
    "fold_xor_ones": Row(
        lambda: [e.bit_xor(i, like(i, -1)), e.bit_xor(like(p, True), p)],
        lambda: e.bit_xor(i, like(i, 1)),
    ),
    "fold_bits_of_itself": Row(
        lambda: [e.bit_and(i, i), e.bit_or(p, p)], lambda: e.bit_and(i, j)
    ),
    "fold_xor_itself": Row(lambda: e.bit_xor(i, i), lambda: e.bit_or(i, j)),
    "fold_not_not": Row(lambda: e.bit_not(e.bit_not(i)), lambda: e.bit_not(e.neg(i))),
    "fold_shift_by_zero": Row(
        lambda: [
            op(i, like(i, 0))
            for op in (e.shift_left, e.shift_right_logical, e.shift_right_arithmetic)
        ],
        lambda: e.shift_left(like(i, 0), i),
    ),
    "fold_strict_compare_with_itself": Row(
        lambda: [e.lt(x, x), e.gt(i, i)], lambda: [e.lt(x, y), e.le(x, x)]
    ),
    "fold_ne_itself": Row(lambda: [e.ne(i, i), e.ne(p, p)], lambda: e.ne(x, x)),
    "fold_eq_itself": Row(
        lambda: [e.eq(i, i), e.le(i, i), e.ge(p, p)], lambda: [e.eq(x, x), e.le(x, x)]
    ),
    "fold_not_of_compare": Row(
        lambda: [
            e.bit_not(e.eq(x, y)),
            e.bit_not(e.ne(w, w)),
            e.bit_not(e.lt(i, j)),
            e.bit_not(e.ge(p, q)),
        ],
        lambda: e.bit_not(e.lt(x, y)),
    ),
    "fold_compare_with_limit": Row(
        lambda: [
            e.lt(x, like(x, -np.inf)),
            e.gt(x, like(x, np.inf)),
            e.ge(V(4, dtype=u8), C(0, 4, dtype=u8)),
            e.le(i, like(i, 2**31 - 1)),
        ],
        lambda: [e.ge(x, like(x, -np.inf)), e.gt(i, like(i, 0))],
    ),
    "fold_compare_of_iota": Row(
        lambda: [
            e.lt(iota(i32, (4, 6), 1), C(6, 4, 6, dtype=i32)),
            e.ge(iota(i32, (4, 6), 0), C(0, 4, 6, dtype=i32)),
            e.eq(iota(i32, (4, 6), 0), C(9, 4, 6, dtype=i32)),
        ],
        lambda: [
            e.lt(iota(i32, (4, 6), 1), C(5, 4, 6, dtype=i32)),
            e.ne(iota(i32, (4, 6), 1), C(2, 4, 6, dtype=i32)),
            e.lt(iota(i8, (300,), 0), C(100, 300, dtype=i8)),
        ],
    ),
    "fold_compare_of_bool": Row(
        lambda: [
            e.eq(p, like(p, True)),
            e.ne(like(p, False), p),
            e.eq(p, like(p, False)),
            e.ne(p, like(p, True)),
        ],
        lambda: [e.eq(p, q), e.eq(i, like(i, 1))],
    ),
    "fold_cast_to_itself": Row(lambda: cast(x, f32), lambda: cast(x, f64)),
    "merge_casts": Row(
        lambda: [
            cast(cast(x, f64), f16),
            cast(cast(h, f32), i8),
            cast(cast(i, f64), i32),
            cast(cast(V(4, dtype=i8), dtypes.int64), u8),
            cast(cast(p, f16), i32),
            cast(cast(x, dtypes.complex128), f32),
        ],
        lambda: [
            cast(cast(x, f16), f64),
            cast(cast(i, f32), i32),
            cast(cast(i, f64), u8),
            cast(cast(x, i32), f32),
        ],
    ),
}

REDUCES = {
    "drop_reduced_axes_of_size_1": Row(
        lambda: [total(row, 0), greatest(row, 0, 1), total(x)],
        lambda: total(x, 0),
        SMALL,
    ),
    "merge_reduces": Row(
        lambda: [total(total(cube, 0), 2), greatest(greatest(x, 0), 0, 1)],
        lambda: [
            total(greatest(cube, 0), 2),
            total(t := total(cube, 0), 2),
            e.exp(t),
        ],
        SMALL,
    ),
    "merge_reduces_through_reshape": Row(
        lambda: total(reshape(total(cube, 0), 3, 1, 4), 2),
        lambda: [
            total(reshape(total(cube, 0), 4, 3), 0),
            greatest(reshape(total(cube, 0), 3, 4), 0),
            total(t := reshape(total(cube, 1), 2, 4), 0),
            e.exp(t),
        ],
        SMALL,
    ),
    "sum_of_expand_is_multiply": Row(
        lambda: [
            total(expand(row, 4, 6), 0),
            total(expand(row, 4, 6), 0, 1),
            total(expand(V(1, dtype=f16), 70000), 0),
            total(expand(V(1, dtype=i8), 300), 0),
            total(expand(V(1, dtype=c64), 3), 0),
        ],
        lambda: [total(expand(row, 4, 6), 1), product(expand(row, 4, 6), 0)],
        SMALL,
    ),
    "extremum_of_expand_is_operand": Row(
        lambda: [greatest(expand(row, 4, 6), 0, 1), greatest(expand(column, 4, 6), 1)],
        lambda: greatest(expand(row, 4, 6), 1),
    ),
    "split_reduce_by_axes": Row(
        lambda: [total(V(8, LARGE // 8), 0, 1), greatest(V(4, 3, LARGE), 0, 2)],
        lambda: [
            total(V(8, LARGE // 16), 0, 1),
            total(V(LARGE, 8), 0, 1),
            total(V(LARGE), 0),
            total(V(64, 256, 256), 1, 2),  # blocks of several short rows
        ],
        SMALL,
    ),
    "split_reduce_of_narrow_rows": Row(
        lambda: [total(V(LARGE, 3), 0), greatest(V(2, LARGE, 16), 1)],
        lambda: [
            total(V(LARGE, 64), 0),  # rows that fill vectors by themselves
            total(V(3 * 23 * 997, 3), 0),  # rows of which no few make a line
            total(V(LARGE), 0),
            total(V(LARGE, 3), 0, 1),
            total(V(3, LARGE), 1),
        ],
        SMALL,
    ),
    "split_reduce_by_blocks": Row(
        lambda: [
            total(V(LARGE), 0),
            total(V(3, LARGE * 3), 1),
            total(V(16, 256, 256), 1, 2),
        ],
        lambda: [total(V(LARGE - 1), 0), total(V(65537), 0), total(V(128, LARGE), 1)],
        SMALL,
    ),
    "split_contraction": Row(
        lambda: [
            contraction(16, 8, 1 << 14),
            contraction(17, 8, 16_411),  # a prime number
            contraction(16, 16, 1 << 13, f16),
        ],
        lambda: [
            contraction(16, 8, 1 << 13),  # little work
            contraction(64, 64, 1000),
            contraction(256, 128, 100),
            total(e.mul(V(16, 1 << 17), V(16, 1 << 17, number=1)), 1),
        ],
        SMALL,
    ),
}

# positions == index, along an axis of 6 and, for sums over the other, of 20
picked = e.eq(iota(i32, (4, 6), 1), expand(V(4, 1, dtype=i32, number=12), 4, 6))
narrow = V(3, 1, dtype=i8, number=13)
spread = e.eq(expand(narrow, 3, 20), iota(i8, (3, 20), 1))
long = V(3, 20, number=14)


def where(mask: Node, node: Node) -> Node:
    return e.select(mask, node, like(node, 0))


ONE_HOT = {
    "fold_sum_of_picked": Row(
        lambda: [
            total(where(picked, x), 1),
            total(where(picked, expand(row, 4, 6)), 1),
            total(where(picked, h), 1),
            total(where(picked, w), 1),
            total(where(reshape(picked, 2, 2, 6), reshape(x, 2, 2, 6)), 2),
            total(where(permute(picked, 1, 0), permute(i, 1, 0)), 0),
            total(where(spread, expand(V(1, 20, number=15), 3, 20)), 1),
            total(where(e.eq(iota(i32, (4, 6), 0), iota(i32, (4, 6), 1)), x), 1),
            total(
                where(
                    e.eq(
                        expand(V(300, 1, dtype=i8, number=15), 300, 2),
                        iota(i8, (300, 2), 1),
                    ),
                    V(300, 2, number=16),
                ),
                1,
            ),
        ],
        lambda: [
            total(where(picked, x), 0),
            total(e.select(picked, x, like(x, 1)), 1),
            total(where(e.eq(x, iota(f32, (4, 6), 1)), x), 1),
            total(where(e.eq(i, iota(i32, (4, 6), 1)), x), 1),
            total(where(e.lt(i, iota(i32, (4, 6), 1)), x), 1),
            greatest(where(picked, x), 1),
            total(where(picked, e.sub(x, expand(total(x, 1), 4, 6))), 1),
        ],
    ),
    "fold_sum_of_one_hot": Row(
        lambda: [
            total(e.mul(cast(picked, f32), x), 1),
            total(e.mul(x, e.select(picked, like(x, 1), like(x, 0))), 0, 1),
            total(e.mul(i, cast(picked, i32)), 1),
            total(e.mul(w, cast(picked, c64)), 1),
            total(cast(picked, i32), 1),
            total(
                e.mul(
                    expand(reshape(cast(picked, f32), 4, 1, 6), 4, 3, 6),
                    expand(reshape(V(3, 6, number=16), 1, 3, 6), 4, 3, 6),
                ),
                2,
            ),
        ],
        lambda: [
            total(e.mul(cast(picked, f32), x), 0),
            total(e.mul(cast(p, f32), x), 1),
            total(e.mul(x, e.select(picked, like(x, 2), like(x, 0))), 1),
        ],
        SMALL,
    ),
    "fold_sum_of_spread": Row(
        lambda: [
            total(where(spread, expand(V(3, 1, number=15), 3, 20)), 0),
            total(e.mul(cast(spread, f32), expand(V(3, 1, number=15), 3, 20)), 0),
            total(cast(spread, i32), 0),
            total(
                e.mul(
                    expand(reshape(cast(spread, f32), 3, 1, 20), 3, 5, 20),
                    expand(V(3, 5, 1, number=16), 3, 5, 20),
                ),
                0,
            ),
            total(
                where(
                    expand(reshape(spread, 3, 1, 20), 3, 5, 20),
                    expand(V(3, 5, 1, number=16), 3, 5, 20),
                ),
                0, 1,
            ),
        ],
        lambda: [
            total(where(spread, long), 0),
            total(where(spread, expand(V(3, 1, number=15), 3, 20)), 1),
            total(where(picked, expand(column, 4, 6)), 0),
            total(e.mul(cast(spread, f16), expand(V(3, 1, dtype=f16), 3, 20)), 0),
        ],
        SMALL,
    ),
}  # fmt: skip

lane = V(4, dtype=i32, number=17)
lanes = iota(i32, (4,), 0)
zeros = like(x, 0)

SCATTERS = {
    "gather_of_positions_is_movement": Row(
        lambda: [
            gather(x, [lanes], (0,)),
            gather(x, [iota(i8, (5,), 0)], (1,)),
            gather(cube, [iota(i32, (3, 2), 1), iota(i32, (3, 2), 0)], (0, 1)),
            gather(cube, [iota(i32, (1, 3), 1)], (2,)),
        ],
        lambda: [
            gather(x, [e.rem(V(4, dtype=u8), C(6, 4, dtype=u8))], (1,)),
            gather(x, [lanes, lanes], (0, 1)),
            gather(cube, [iota(i32, (3, 2), 1)], (0,)),
        ],
    ),
    "scatter_without_collisions_is_select": Row(
        lambda: [
            scatter(zeros, V(4, number=18), [lanes, lane], (0, 1), "add"),
            scatter(like(x, 2), V(4, number=18), [lanes, lane], (0, 1), "set"),
            scatter(like(x, 2), V(4, number=18), [lanes, lane], (0, 1), "max"),
            scatter(zeros, row, [V(1, dtype=i32, number=19)], (0,), "add"),
            scatter(zeros, V(4, number=18), [V(dtype=i8, number=20)], (1,), "mul"),
            scatter(
                like(cube, 0), V(4, 3, number=18),
                [V(4, dtype=i32, number=17), lanes], (0, 2), "add",
            ),
        ],
        lambda: [
            scatter(x, V(4, number=18), [lanes, lane], (0, 1), "add"),
            scatter(zeros, V(4, 6, number=18), [lane], (0,), "add"),
            scatter(zeros, V(4, number=18), [lane, lane], (0, 1), "add"),
            scatter(zeros, V(3, number=18), [iota(i32, (3,), 0)] * 2, (0, 1), "add"),
        ],
    ),
    "scatter_on_boards": Row(
        lambda: [
            scatter(C(0, 3), V(MANY, number=19), [V(MANY, dtype=u8)], (0,), "add"),
            scatter(
                C(0, 5, dtype=i32), V(MANY + 3, dtype=i32, number=20),
                [V(MANY + 3, dtype=i32, number=21)], (0,), "add",
            ),
            scatter(
                C(-np.inf, 4, 2), V(MANY, 2, number=22), [V(MANY, dtype=u8)], (0,),
                "max",
            ),
            scatter(
                C(7, 2, 3), V(2, MANY, number=23),
                [V(2, MANY, dtype=u8, number=24)] * 2, (0, 1), "min",
            ),
        ],
        lambda: [
            # few updates, a base that is none, or of -0.0; wide updates; many places
            scatter(C(0, 3), V(99, number=19), [V(99, dtype=u8)], (0,), "add"),
            scatter(V(3), V(MANY, number=19), [V(MANY, dtype=u8)], (0,), "add"),
            scatter(C(-0.0, 3), V(MANY, number=19), [V(MANY, dtype=u8)], (0,), "add"),
            scatter(
                C(0, 3, 32), V(MANY, 32, number=22), [V(MANY, dtype=u8)], (0,), "add"
            ),
            scatter(
                C(0, MANY), V(MANY, number=19), [V(MANY, dtype=i32)], (0,), "add"
            ),
            scatter(C(0, 3), V(MANY, number=19), [V(MANY, dtype=u8)], (0,), "set"),
        ],
        SMALL,
    ),
    "scatter_complex_products": Row(
        lambda: [
            e.add(node, like(node, 0))  # a zero has the sign of no product
            for node in (
                scatter(w, V(5, 6, dtype=c64), [V(5, dtype=u8)], (0,), "mul"),
                scatter(w, V(3, 2, dtype=c64), [V(3, 2, dtype=i32)] * 2, (0, 1), "mul"),
            )
        ],
        lambda: [
            scatter(w, V(5, 6, dtype=c64), [V(5, dtype=i32)], (0,), "add"),
            scatter(x, V(5, 6), [V(5, dtype=i32)], (0,), "mul"),
        ],
        SMALL,
    ),
}  # fmt: skip

CHAINS = {
    "remove_noop_reshape": Row(lambda: reshape(x, 4, 6), lambda: reshape(x, 6, 4)),
    "remove_noop_expand": Row(lambda: expand(x, 4, 6), lambda: expand(row, 4, 6)),
    "remove_noop_shrink": Row(
        lambda: shrink(x, (0, 4), (0, 6)), lambda: shrink(x, (0, 4), (1, 6))
    ),
    "remove_noop_pad": Row(
        lambda: pad(x, (0, 0, 0), (0, 0, 0)), lambda: pad(x, (0, 0, 0), (0, 0, 1))
    ),
    "remove_noop_permute": Row(lambda: permute(x, 0, 1), lambda: permute(x, 1, 0)),
    "remove_noop_stride": Row(
        lambda: [stride(x, 1, 1), stride(row, -2, 1)], lambda: stride(x, 1, -1)
    ),
    "permute_of_ones_is_reshape": Row(
        lambda: [permute(row, 1, 0), permute(V(2, 1, 3), 1, 0, 2)],
        lambda: permute(V(2, 1, 3), 2, 1, 0),
    ),
    "merge_reshapes": Row(
        lambda: reshape(reshape(x, 24), 2, 12), lambda: reshape(permute(x, 1, 0), 24)
    ),
    "merge_expands": Row(
        lambda: expand(expand(V(1, 1), 4, 1), 4, 6),
        lambda: expand(reshape(V(4), 4, 1), 4, 6),
    ),
    "merge_permutes": Row(
        lambda: permute(permute(cube, 1, 2, 0), 2, 1, 0),
        lambda: permute(reshape(permute(cube, 1, 0, 2), 6, 4), 1, 0),
    ),
    "merge_pads": Row(
        lambda: [
            pad(pad(V(3), (1, 2, 1)), (0, 1, 2)),
            pad(pad(row, (1, 0, 3), (0, 1, 0)), (0, 0, 1), (2, 0, 2)),
        ],
        lambda: pad(e.exp(pad(V(3), (1, 0, 0))), (1, 0, 0)),
    ),
    "merge_shrinks": Row(
        lambda: shrink(shrink(x, (1, 4), (0, 6)), (1, 2), (3, 5)),
        lambda: shrink(shrink(x, (1, 1), (0, 6)), (0, 0), (3, 5)),
    ),
    "merge_strides": Row(
        lambda: [
            stride(stride(V(11), a), b) for a in (2, 3, -2, -3) for b in (2, -1, -2, 3)
        ],
        lambda: stride(shrink(stride(V(11), 2), (0, 4)), 2),
    ),
    "merge_shrink_of_pad": Row(
        lambda: [
            shrink(pad(V(3), (2, 1, g)), (lo, hi))
            for g in (0, 1, 2)
            for lo in (0, 1, 3)
            for hi in (3, 4, 6)
            if lo < hi
        ],
        lambda: shrink(m.reshape(pad(V(3), (2, 1, 0)), (2, 3)), (0, 1), (0, 2)),
    ),
    "contiguous_chain_is_its_root": Row(
        lambda: [
            reshape(reshape(x, 24), 4, 6),
            permute(permute(cube, 1, 2, 0), 2, 0, 1),
            stride(stride(x, -1, 1), -1, 1),
            shrink(pad(x, (1, 0, 0), (0, 2, 0)), (1, 5), (0, 6)),
            reshape(stride(stride(x, 1, -1), 1, -1), 24),
        ],
        lambda: [
            reshape(permute(x, 1, 0), 4, 6),
            shrink(pad(x, (1, 0, 0), (0, 2, 0)), (0, 4), (0, 6)),
            stride(permute(x, 1, 0), -1, 1),
        ],
    ),
}

EXCHANGES = {
    "shrink_before_stride": Row(
        lambda: [
            shrink(stride(V(11), s), (lo, hi))
            for s in (2, -1, -3)
            for lo, hi in ((0, 2), (1, 3), (2, 3))
        ],
        lambda: shrink(stride(V(11), 2), (2, 2)),
    ),
    "shrink_before_permute": Row(
        lambda: shrink(permute(cube, 2, 0, 1), (1, 3), (0, 1), (0, 3)),
        lambda: permute(shrink(cube, (1, 2), (0, 1), (0, 3)), 2, 0, 1),
    ),
    "shrink_before_reshape": Row(
        lambda: [
            shrink(reshape(cube, 2, 12), (1, 2), (0, 12)),
            shrink(reshape(V(24), 2, 3, 4), (1, 2), (0, 3), (0, 4)),
            shrink(reshape(x, 4, 1, 6), (1, 2), (0, 1), (3, 5)),
        ],
        lambda: [
            shrink(reshape(cube, 6, 4), (1, 3), (0, 4)),
            shrink(reshape(V(24), 6, 4), (0, 6), (0, 2)),
        ],
    ),
    "shrink_before_expand": Row(
        lambda: shrink(expand(row, 4, 6), (1, 3), (2, 5)),
        lambda: expand(shrink(row, (0, 1), (2, 5)), 4, 3),
    ),
    "stride_before_permute": Row(
        lambda: stride(permute(cube, 2, 0, 1), -1, 2, 1),
        lambda: permute(stride(cube, 2, 1, -1), 2, 0, 1),
    ),
    "stride_before_reshape": Row(
        lambda: stride(reshape(cube, 2, 1, 3, 4), -1, -1, 2, 1),
        lambda: stride(reshape(cube, 6, 4), -1, 1),
    ),
    "stride_before_pad": Row(
        lambda: [
            stride(pad(V(4), (b, a, g)), s)
            for b, a, g, s in (
                (1, 2, 0, -1),
                (1, 2, 1, -1),
                (2, 1, 1, 2),
                (0, 3, 3, 2),
                (1, 0, 0, 2),
                (3, 1, 0, -2),
                (5, 0, 0, 3),
            )
        ],
        lambda: [stride(pad(V(4), (1, 0, 1)), 2), stride(pad(V(4), (0, 0, 1)), 3)],
    ),
    "stride_before_expand": Row(
        lambda: stride(expand(row, 4, 6), 3, -2),
        lambda: expand(stride(row, 1, -2), 4, 3),
    ),
    "permute_before_reshape": Row(
        lambda: [
            permute(reshape(x, 2, 2, 6), 2, 0, 1),
            permute(reshape(x, 1, 4, 6), 2, 0, 1),
            permute(reshape(V(2, 3, 4), 6, 4), 1, 0),
        ],
        lambda: permute(reshape(x, 2, 2, 6), 1, 0, 2),
    ),
    "permute_before_pad": Row(
        lambda: permute(pad(x, (1, 0, 0), (0, 0, 2)), 1, 0),
        lambda: pad(permute(x, 1, 0), (0, 0, 2), (1, 0, 0)),
    ),
    "permute_before_expand": Row(
        lambda: permute(expand(row, 4, 6), 1, 0),
        lambda: expand(permute(row, 1, 0), 6, 4),
    ),
    "reshape_before_pad": Row(
        lambda: reshape(pad(cube, (0, 0, 0), (0, 0, 0), (1, 2, 0)), 6, 1, 7),
        lambda: reshape(pad(cube, (0, 0, 0), (0, 0, 0), (1, 1, 0)), 2, 18),
    ),
    "reshape_before_expand": Row(
        lambda: [
            reshape(expand(row, 4, 6), 2, 2, 3, 2),
            reshape(expand(V(1, 1, 6), 2, 3, 6), 6, 6),
        ],
        lambda: reshape(expand(row, 4, 6), 24),
    ),
    "pad_before_expand": Row(
        lambda: pad(expand(row, 4, 6), (0, 0, 0), (1, 2, 1)),
        lambda: pad(expand(row, 4, 6), (0, 1, 0), (1, 2, 1)),
    ),
}


_seen = expand(V(1, 6, 5, number=1), 3, 6, 5)
_weight = expand(V(3, 1, 5, number=2), 3, 6, 5)


def _product(number: int) -> Any:
    """Of a factor of its own: it has one use."""
    return e.mul(expand(V(1, 6, 5, number=number), 3, 6, 5), _weight)


def _wide(node: Node) -> Node:
    """Most of it are zeros beside what slides."""
    return slid(node, size=13, dilation=3)


def _used_twice(move: Callable[[Node], Node]) -> Callable[[], list[Node]]:
    """The work that would be passed is used by another operation, too."""
    return lambda: [move(e.exp(x)), e.neg(e.exp(x))]


PUSHES = {
    "push_shrink_through_elementwise": Row(
        lambda: shrink(e.select(e.lt(x, y), x, like(x, 2)), (0, 3), (1, 2)),
        _used_twice(lambda n: shrink(n, (0, 3), (1, 2))),
    ),
    "push_stride_through_elementwise": Row(
        lambda: stride(e.add(x, y), 2, -1), _used_twice(lambda n: stride(n, 2, -1))
    ),
    "push_permute_through_elementwise": Row(
        lambda: permute(e.mul(x, x), 1, 0), _used_twice(lambda n: permute(n, 1, 0))
    ),
    "push_reshape_through_elementwise": Row(
        lambda: reshape(cast(e.exp(x), f64), 24), _used_twice(lambda n: reshape(n, 24))
    ),
    "push_pad_through_elementwise": Row(
        lambda: (
            [
                pad(op(x, y), (1, 0, 0), (0, 0, 2))
                for op in (e.add, e.sub, e.mul, e.mul_zero, e.maximum)
            ]
            + [
                pad(op(x), (1, 0, 0), (0, 0, 2))
                for op in (e.sin, e.sqrt, e.absolute, e.floor, e.expm1, e.tanh)
            ]
            + [
                pad(e.mul(x, like(x, 3)), (1, 0, 0), (0, 0, 0)),
                pad(e.maximum(x, like(x, 0)), (1, 0, 0), (0, 0, 0)),
                pad(e.select(p, x, y), (1, 0, 0), (0, 0, 0)),
            ]
        ),
        # 1/0, log 0, exp 0, 0 == 0; -0.0; 0 + 1; max(0, 1); 0·∞; 0·(-3).
        lambda: (
            [
                pad(op(x), (1, 0, 0), (0, 0, 0))
                for op in (e.exp, e.log, e.cos, e.rsqrt, e.logistic, e.neg, e.acos)
            ]
            + [
                pad(op(x, y), (1, 0, 0), (0, 0, 0))
                for op in (e.div, e.power, e.rem, e.eq, e.le, e.ge, e.atan2)
            ]
            + [
                pad(e.add(x, like(x, 1)), (1, 0, 0), (0, 0, 0)),
                pad(e.maximum(x, like(x, 1)), (1, 0, 0), (0, 0, 0)),
                pad(e.mul(x, like(x, np.inf)), (1, 0, 0), (0, 0, 0)),
                pad(e.mul(x, like(x, -3)), (1, 0, 0), (0, 0, 0)),
                pad(e.select(p, like(x, 1), like(x, 2)), (1, 0, 0), (0, 0, 0)),
                pad(t := e.sin(x), (1, 0, 0), (0, 0, 0)),
                e.exp(t),
            ]
        ),
    ),
    "permute_before_reduce": Row(
        lambda: [
            permute(total(cube, 1), 2, 0, 1),
            permute(greatest(cube, 0, 2), 1, 2, 0),
        ],
        lambda: [permute(t := total(cube, 1), 2, 0, 1), e.exp(t)],
        SMALL,
    ),
    "shrink_before_reduce": Row(
        lambda: shrink(total(cube, 1), (0, 1), (0, 1), (1, 3)),
        lambda: [shrink(t := total(cube, 1), (0, 1), (0, 1), (1, 3)), e.exp(t)],
        SMALL,
    ),
    "stride_before_reduce": Row(
        lambda: [
            stride(total(cube, 1), 1, 1, 2),
            stride(greatest(cube, 0, 2), 1, -2, 1),
        ],
        lambda: [stride(t := total(cube, 1), 1, 1, 2), e.exp(t)],
        SMALL,
    ),
    "pull_expand_through_elementwise": Row(
        lambda: [
            e.exp(expand(row, 4, 6)),
            e.add(expand(row, 4, 6), expand(V(1, 6, number=20), 4, 6)),
            e.mul(expand(row, 4, 6), C(2, 4, 6)),
            e.add(expand(V(1, 1, 6), 2, 3, 6), expand(V(1, 3, 1), 2, 3, 6)),
            cast(expand(row, 4, 6), f64),
        ],
        lambda: [
            e.mul(expand(row, 4, 6), expand(column, 4, 6)),
            e.add(expand(row, 4, 6), x),
        ],
    ),
    "pull_expand_through_reduce": Row(
        lambda: [
            total(expand(row, 4, 6), 1),
            greatest(expand(V(1, 1, 6), 4, 3, 6), 1, 2),
        ],
        lambda: total(expand(row, 4, 6), 0),
        SMALL,
    ),
    "push_copy_through_elementwise": Row(
        lambda: [
            e.exp(e.copy(x)),
            e.mul(e.copy(y), e.copy(z)),
            e.select(p, x, e.copy(V(4, 6, number=21))),
        ],
        lambda: [e.exp(e.copy(x)), e.neg(e.copy(x))],
    ),
    "slide_before_sum_of_products": Row(
        lambda: [
            slid(total(_product(31), 2), size=8),
            slid(total(_product(32), 2), size=9, dilation=2),
            slid(reshape(total(_product(33), 2), 3, 6), size=8),
            slid(total(_product(34), 2), size=13, stride=2),
        ],
        # Windows side by side; far apart; two full factors; mostly zeros; no product;
        # a sum over the window; a product that is used again.
        lambda: [
            slid(total(_product(35), 2), size=18, stride=3),
            slid(total(_product(36), 2), size=28, stride=5),
            slid(total(e.mul(V(3, 6, 5), V(3, 6, 5, number=1)), 2), size=8),
            slid(total(_product(37), 2), size=10, dilation=2),
            slid(total(e.add(_seen, _weight), 2), size=8),
            slid(reshape(total(_product(38), 2), 6, 3), size=4),
            slid(total(t := _product(39), 2), size=8),
            e.exp(t),
        ],
        SMALL,
    ),
    "slide_before_product": Row(
        lambda: [
            total(slid(_product(40), size=8), 0),
            total(slid(_product(41), size=13, stride=2), 0),
            total(slid(reshape(_product(42), 3, 6, 5, 1), size=8), 0),
        ],
        # Windows side by side; two full factors; the axis of another; no sum; used
        # again.
        lambda: [
            total(slid(_product(43), size=18, stride=3), 0),
            total(slid(e.mul(V(3, 6, 5), V(3, 6, 5, number=1)), size=8), 0),
            total(slid(reshape(_product(44), 3, 30), size=32), 0),
            slid(_product(46), size=8),
            total(slid(t := _product(45), size=8), 0),
            e.exp(t),
        ],
        SMALL,
    ),
    "slide_before_part_of_sum_of_products": Row(
        lambda: [
            shrink(_wide(total(_product(51), 2)), (0, 3), (2, 8), (0, 1)),
            shrink(_wide(reshape(total(_product(52), 2), 3, 6)), (0, 3), (2, 8)),
        ],
        # Still mostly zeros; two full factors; also read whole.
        lambda: [
            shrink(_wide(total(_product(53), 2)), (0, 3), (0, 12), (0, 1)),
            shrink(
                _wide(total(e.mul(V(3, 6, 5), V(3, 6, 5, number=1)), 2)),
                *((0, 3), (2, 8), (0, 1)),
            ),
            shrink(t := _wide(total(_product(54), 2)), (0, 3), (2, 8), (0, 1)),
            e.exp(t),
        ],
        SMALL,
    ),
    "slide_before_part_of_product": Row(
        lambda: [total(shrink(_wide(_product(55)), (0, 3), (2, 8), (0, 5)), 0)],
        # Still mostly zeros; no sum.
        lambda: [
            total(shrink(_wide(_product(56)), (0, 3), (0, 12), (0, 5)), 0),
            shrink(_wide(_product(57)), (0, 3), (2, 8), (0, 5)),
        ],
        SMALL,
    ),
    "shrink_before_unshear": Row(
        lambda: [
            shrink(slid(V(2, 6, 5), size=7), (0, 2), (0, 7), (1, 3)),
            shrink(slid(V(2, 6, 5), size=12, stride=2), (0, 1), (2, 7), (1, 3)),
        ],
        # The axes that slide; used again.
        lambda: [
            shrink(slid(V(2, 6, 5), size=7), (1, 2), (2, 7), (0, 5)),
            shrink(t := slid(V(2, 6, 5), size=8), (0, 2), (0, 7), (1, 3)),
            e.exp(t),
        ],
    ),
    "sum_products_before_reshape": Row(
        lambda: [
            total(reshape(total(_product(49), 2), 3, 6), 0),
            total(
                reshape(total(e.mul(V(3, 2, 3, 5), V(3, 2, 3, 5, number=1)), 3), 3, 6),
                0,
            ),
        ],
        # An axis that is parts of others; no product; used again.
        lambda: [
            total(reshape(total(_product(47), 2), 9, 2), 0),
            total(reshape(total(e.add(_seen, _weight), 2), 3, 6), 0),
            total(reshape(t := total(_product(48), 2), 3, 6), 0),
            e.exp(t),
        ],
        SMALL,
    ),
    "windows_side_by_side": Row(
        lambda: [
            total(slid(V(2, 6, 5), size=12, stride=2), 0),
            total(slid(V(2, 6, 5), size=15, stride=2), 0),
            total(slid(V(2, 6, 5), size=11, stride=2), 0),
            total(slid(V(2, 6, 5), size=18, stride=3), 0),
            total(permute(slid(V(2, 6, 5, number=1), size=12, stride=2), 2, 1, 0), 2),
        ],
        # Windows that overlap; taps apart; other sums; also used otherwise.
        lambda: [
            total(slid(V(3, 6, 5), size=12, stride=2), 0),
            total(slid(V(2, 6, 5), size=12, stride=2, dilation=2), 0),
            total(slid(V(2, 6, 5), size=16, stride=3), 1),
            total(slid(V(2, 6, 5), size=17, stride=3), 0, 2),
            total(t := slid(V(2, 6, 5), size=13, stride=2), 0),
            e.exp(t),
        ],
    ),
    "push_copy_through_movement": Row(
        lambda: [
            shrink(e.copy(x), (0, 1), (0, 6)),
            stride(e.copy(y), 2, 1),
            permute(e.copy(z), 1, 0),
            reshape(e.copy(row), 6),
        ],
        lambda: [expand(e.copy(row), 4, 6), pad(e.copy(x), (1, 0, 0), (0, 0, 0))],
    ),
}

ROWS = {
    **CONSTANTS, **ARITHMETIC, **LOGIC, **ONE_HOT, **SCATTERS, **REDUCES, **CHAINS,
    **EXCHANGES, **PUSHES,
}  # fmt: skip

NUMBERS = (
    0.0, -0.0, 1.0, -1.0, 1.5, -2.25, 3.0, 0.1, -1e-3, 7e4, 1e-38, 1e-45, -1e38,
    np.inf, -np.inf, np.nan, 255.0, 256.5, -129.0, 2.0, 0.5, -0.5, 4.75, 2.5e9,
)  # fmt: skip
INTEGERS = (0, 1, -1, 2, 3, -7, 12, 127, -128, 255, 2**31 - 1, -(2**31), 5, 31, 64)


def special(aval: ShapedArray, seed: int) -> Any:
    """Values among which are those that break false identities."""
    kind = dtypes.kind(aval.dtype)
    rng = np.random.default_rng(seed)
    count = max(aval.size, 1)
    with np.errstate(all="ignore"):
        if kind == "b":
            values = rng.integers(0, 2, count)
        elif kind in "iu":
            values = rng.permutation(np.resize(np.array(INTEGERS), count))
        else:
            values = rng.permutation(np.resize(np.array(NUMBERS), count))
        if kind == "c":
            values = values + 1j * rng.permutation(values)
        return values[: aval.size].astype(aval.dtype).reshape(aval.shape)


def inputs(outputs: list[Node], kind: str) -> dict[Node, Any]:
    nodes = [n for n in toposort(outputs) if is_variable(n)]
    if kind == SMALL:
        return {
            n: np.random.default_rng(k).integers(-3, 4, n.shape).astype(n.dtype)
            for k, n in enumerate(nodes)
        }
    return {n: special(n.aval, k) for k, n in enumerate(nodes)}


def bits(value: Any, sign_of_zero: bool = True) -> Any:
    """The bits of an array, with one NaN for all and, if asked, one zero for both."""
    array = np.array(value)
    if dtypes.is_complex(array.dtype):
        array = np.stack([array.real, array.imag])
    if dtypes.is_float(array.dtype):
        array[np.isnan(array)] = np.nan
        if not sign_of_zero:
            array[array == 0] = 0
    return array.tobytes()


def outputs_of(builder: Callable[[], Node | list[Node]]) -> list[Node]:
    made = builder()
    return made if isinstance(made, list) else [made]


def assert_same(old: list[Node], new: list[Node], values: str) -> None:
    known = inputs([*old, *new], values)
    pairs = zip(evaluate(old, known), evaluate(new, known), strict=True)
    for before, after in pairs:
        assert before.shape == after.shape
        assert before.dtype == after.dtype
        signed = values != SIGNLESS
        assert bits(before, signed) == bits(after, signed), f"{before} {after}"


def test_every_rule_has_a_row() -> None:
    assert set(ROWS) == set(RULES)


@pytest.mark.parametrize("name", ROWS)
def test_rule_matches_and_keeps_the_value(name: str) -> None:
    row = ROWS[name]
    old = outputs_of(row.match)
    new = rewrite(old, PatternMatcher([RULES[name]]))
    for before, after in zip(old, new, strict=True):
        assert after is not before, f"{name} does not match {before!r}"
    GRAPH_SPEC.check(new)
    assert_same(old, new, row.values)


@pytest.mark.parametrize("name", ROWS)
def test_rule_leaves_the_other_example_alone(name: str) -> None:
    row = ROWS[name]
    old = outputs_of(row.other)
    assert rewrite(old, PatternMatcher([RULES[name]])) == old
    assert_same(old, rewrite(old, SIMPLIFY + MOVEMENT), SIGNLESS)


@pytest.mark.parametrize("name", ROWS)
def test_rule_can_be_switched_off(name: str) -> None:
    old = outputs_of(ROWS[name].match)
    with settings.config(disabled_rules={name}):
        assert rewrite(old, PatternMatcher([RULES[name]])) == old


@pytest.mark.parametrize("name", ROWS)
def test_rule_among_all_others_keeps_the_value(name: str) -> None:
    row = ROWS[name]
    old = outputs_of(row.match)
    values = SMALL if row.values == SMALL else SIGNLESS
    assert_same(old, rewrite(old, SIMPLIFY + MOVEMENT), values)


@pytest.mark.parametrize(
    "node",
    [
        e.mul(x, like(x, 0)),
        e.sub(x, x),
        e.sub(e.add(x, y), y),
        e.add(e.add(x, like(x, 0.1)), like(x, 0.2)),
        e.div(x, x),
        e.mul(e.div(x, y), y),
        e.add(x, like(x, 0)),
        e.eq(x, x),
        e.sqrt(e.mul(x, x)),
        e.power(x, like(x, 0.5)),
        total(e.mul(x, like(x, 3)), 0),
    ],
    ids=repr,
)
def test_no_algebra_that_is_wrong_for_floats(node: Node) -> None:
    assert rewrite([node], SIMPLIFY + MOVEMENT) == [node]


def test_sum_of_expand_is_near_the_sum() -> None:
    value = V(1, dtype=f32)
    old = total(expand(value, 1000), 0)
    (new,) = rewrite([old], SIMPLIFY)
    assert new.op is e.mul
    known = {value: np.array([0.1], np.float32)}
    before, after = evaluate([old, new], known)
    np.testing.assert_allclose(before, after, rtol=1e-6)


def test_contraction_is_recognised_after_all_rules() -> None:
    a, b = V(5, 7), V(7, 3, number=1)
    left = expand(reshape(e.neg(a), 5, 7, 1), 5, 7, 3)
    right = expand(reshape(b, 1, 7, 3), 5, 7, 3)
    made = permute(reshape(total(e.mul(left, right), 1), 5, 3), 1, 0)
    (new,) = rewrite([made], SIMPLIFY + MOVEMENT)
    assert any(is_contraction(n) for n in toposort([new]))
    assert_same([made], [new], SMALL)


def test_contraction_is_not_split() -> None:
    a, b = V(1, LARGE), V(LARGE, 1, number=1)
    left = expand(reshape(a, 1, LARGE, 1), 2, LARGE, 2)
    right = expand(reshape(b, 1, LARGE, 1), 2, LARGE, 2)
    made = total(e.mul(left, right), 1)
    assert rewrite([made], SPLIT) == [made]


@pytest.mark.parametrize(
    ("size", "blocks"),
    [(1 << 16, 256), (1 << 20, 256), (3 * 65536, 256), (65537, None)],
)
def test_blocks_are_a_divisor_near_the_middle(size: int, blocks: int | None) -> None:
    assert block_count(size) == blocks


@pytest.mark.parametrize(
    ("results", "blocks"), [(1, 256), (3, 64), (16, 16), (64, 8), (4096, 8)]
)
def test_several_results_are_cut_into_fewer_blocks(results: int, blocks: int) -> None:
    assert block_count(1 << 20, results) == blocks


def test_spec_refuses_a_node_that_breaks_its_record() -> None:
    wrong = make_node(e.add, V(4).aval, (x, y))
    with pytest.raises(GraphError, match=r"graph: <add .* is not allowed"):
        GRAPH_SPEC.check([wrong])


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("simplify", e.stop_gradient(x)),
        ("simplify", e.exp(C(1, 4))),
        ("simplify", total(row, 0)),
        ("simplify", shrink(x, (1, 1), (0, 6))),
        ("movement", reshape(reshape(x, 24), 2, 12)),
        ("movement", pad(x, (0, 0, 0), (0, 0, 0))),
        ("movement", permute(expand(row, 4, 6), 1, 0)),
    ],
    ids=repr,
)
def test_spec_of_a_pass_refuses_what_it_removes(name: str, node: Node) -> None:
    with pytest.raises(GraphError, match=rf"after {name}: .* is not allowed"):
        check_after(name, [node])
    check_after(name, rewrite([node], SIMPLIFY + MOVEMENT))
    with settings.config(disabled_rules={"merge_reshapes"}):
        check_after(name, [node])


@st.composite
def graphs(draw: Any) -> list[Node]:
    length = draw(st.integers(1, 14))
    return random_graph(lambda options: draw(st.sampled_from(options)), length)


@given(graphs(), st.integers(0, 5))
def test_random_graphs_keep_their_values(outputs: list[Node], seed: int) -> None:
    known = values_for(outputs, seed)
    wanted = evaluate(outputs, known)
    nodes = outputs
    GRAPH_SPEC.check(nodes)
    passes = {"simplify": SIMPLIFY, "movement": SIMPLIFY + MOVEMENT, "split": SPLIT}
    for name, matcher in passes.items():
        nodes = rewrite(nodes, matcher)
        check_after(name, nodes)
        for before, after in zip(wanted, evaluate(nodes, known), strict=True):
            np.testing.assert_array_equal(before, after)


@given(graphs(), st.sets(st.sampled_from(sorted(RULES)), max_size=30))
def test_random_graphs_keep_their_values_without_some_rules(
    outputs: list[Node], disabled: set[str]
) -> None:
    known = values_for(outputs)
    with settings.config(disabled_rules=disabled):
        nodes = rewrite(outputs, SIMPLIFY + MOVEMENT)
        GRAPH_SPEC.check(nodes)
    pairs = zip(evaluate(outputs, known), evaluate(nodes, known), strict=True)
    for before, after in pairs:
        np.testing.assert_array_equal(before, after)
