"""Rows of rules on elements: constants, arithmetic, logic."""

from __future__ import annotations

import numpy as np

from ftrace.trace.primitives import elementwise as e, movement as m
from ftrace.trace.primitives.indexing import scatter
from ftrace.trace.primitives.sources import iota
from tests.support.rule_sample import (
    SIGNLESS,
    C,
    Row,
    V,
    b1,
    c64,
    cast,
    expand,
    f32,
    f64,
    greatest,
    i,
    i8,
    i32,
    like,
    p,
    pad,
    permute,
    product,
    reshape,
    shrink,
    stride,
    total,
    u8,
    w,
    x,
    y,
)

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
    "fold_padding_of_zero": Row(
        lambda: [
            pad(C(0, 4), (1, 0, 2)),
            m.shear_p(C(0, 6, 2), arg=m.Shear(0, 1, 1, 1, 5)),
        ],
        lambda: pad(C(-0.0, 4), (1, 0, 0)),
    ),
    "fold_reduce_of_constant": Row(
        lambda: [
            total(C(3, 4, 6), 0, 1),
            total(C(100, 4, 6, dtype=i8), 1),
            total(C(-np.inf, 4), 0),
            total(C(2 - 3j, 4, dtype=c64), 0),
            product(C(1, 9, dtype=i8), 0),
            greatest(C(2.5, 4, 6), 1),
        ],
        lambda: [total(x, 0), product(C(-2, 5), 0)],
    ),
    "remove_stop_gradient": Row(lambda: e.stop_gradient(x), lambda: e.copy(x)),
}

ARITHMETIC = {
    "fold_add_zero": Row(lambda: e.add(like(i, 0), i), lambda: e.add(x, like(x, 0))),
    "fold_mul_one": Row(
        lambda: [e.mul(x, like(x, 1)), e.mul(like(i, 1), i), e.mul(p, like(p, True))],
        lambda: [e.mul(x, like(x, -1)), e.mul(w, like(w, 1))],
    ),
    "fold_small_power": Row(
        lambda: [e.power(x, like(x, n)) for n in range(3)],
        lambda: [
            e.power(like(x, 0), x),
            e.power(like(x, 1), x),
            e.power(x, like(x, 3)),
            e.power(w, like(w, 2)),
        ],
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
}

LOGIC = {
    "fold_select_of_constant": Row(
        lambda: [e.select(like(p, True), x, y), e.select(like(p, False), x, y)],
        lambda: e.select(p, like(x, 1), y),
    ),
    "fold_select_of_equals": Row(lambda: e.select(p, x, x), lambda: e.select(p, x, y)),
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
    "fold_cast_to_itself": Row(lambda: cast(x, f32), lambda: cast(x, f64)),
}
