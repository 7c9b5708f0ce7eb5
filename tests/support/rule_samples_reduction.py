"""Rows of rules on reductions, on sums of what is picked, and on updates at places."""

from __future__ import annotations

import numpy as np

from ftrace.lower.blocking.privatize_scatters import MANY
from ftrace.lower.blocking.split_reductions import LARGE_REDUCE
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as e
from ftrace.trace.primitives.indexing import scatter
from ftrace.trace.primitives.sources import iota
from tests.support.rule_sample import (
    SMALL,
    C,
    Row,
    V,
    c64,
    cast,
    column,
    contraction,
    cube,
    expand,
    f16,
    f32,
    greatest,
    h,
    i,
    i8,
    i32,
    like,
    p,
    permute,
    product,
    reshape,
    row,
    total,
    u8,
    w,
    x,
)

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
            total(contraction(4, 6, 5), 0),
            total(contraction(4, 6, 5), 0, 1),
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
            total(reshape(contraction(4, 6, 5), 4, 6), 1),
        ],
        SMALL,
    ),
    "fold_sum_of_expand": Row(
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
    "split_reduce_by_axes": Row(
        lambda: [
            total(V(8, LARGE_REDUCE // 8), 0, 1),
            greatest(V(4, 3, LARGE_REDUCE), 0, 2),
        ],
        lambda: [
            total(V(8, LARGE_REDUCE // 16), 0, 1),
            total(V(LARGE_REDUCE, 8), 0, 1),
            total(V(LARGE_REDUCE), 0),
        ],
        SMALL,
    ),
    "split_reduce_of_narrow_rows": Row(
        lambda: [total(V(LARGE_REDUCE, 3), 0), greatest(V(2, LARGE_REDUCE, 16), 1)],
        lambda: [
            total(V(LARGE_REDUCE, 64), 0),  # rows that fill vectors by themselves
            total(V(65537, 3), 0),  # a prime number of rows
            total(V(LARGE_REDUCE), 0),
            total(V(LARGE_REDUCE, 3), 0, 1),
            total(V(3, LARGE_REDUCE), 1),
        ],
        SMALL,
    ),
    "split_reduce_by_blocks": Row(
        lambda: [
            total(V(LARGE_REDUCE), 0),
            total(V(3, LARGE_REDUCE * 3), 1),
            total(V(16, 256, 256), 1, 2),
        ],
        lambda: [
            total(V(LARGE_REDUCE - 1), 0),
            total(V(65537), 0),
            total(V(128, LARGE_REDUCE), 1),
        ],
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
    "fold_sum_of_one_hot_select": Row(
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
    "fold_sum_into_scatter": Row(
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
lanes3 = iota(i32, (3,), 0)


def choose(
    base: Node, updates: Node, indices: list[Node], axes: tuple[int, ...],
    kind: str = "set", old: Node | None = None,
) -> Node:  # fmt: skip
    new = scatter(base, updates, indices, axes, kind)
    return e.select(e.lt(like(base, 0), base), new, base if old is None else old)


SCATTERS = {
    "fold_scatter_without_collisions": Row(
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
    "push_where_into_update": Row(
        lambda: [
            choose(x, V(3, number=18), [lanes3, V(3, dtype=i8, number=19)], (0, 1)),
            choose(x, V(2, 4, number=18), [V(2, dtype=i32, number=19)], (1,)),
        ],
        lambda: [
            choose(x, V(3, number=18), [lanes3, lanes3], (0, 1), "add"),
            choose(x, V(4, 4, number=18), [lane], (1,)),
            choose(x, V(3, number=18), [lanes3, lanes3], (0, 1), old=zeros),
        ],
    ),
    "privatize_scatter": Row(
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
    "lower_complex_scatter_multiply": Row(
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
