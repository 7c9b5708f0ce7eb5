"""Rows of rules that push movement through other operations, toward what is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as e
from ftrace.trace.primitives.movement import Shear, shear_p
from tests.support.rule_sample import (
    SMALL,
    C,
    Row,
    V,
    cast,
    column,
    cube,
    expand,
    f64,
    greatest,
    like,
    p,
    pad,
    permute,
    reshape,
    row,
    shrink,
    slid,
    total,
    x,
    y,
)

_seen = expand(V(1, 6, 5, number=1), 3, 6, 5)
_weight = expand(V(3, 1, 5, number=2), 3, 6, 5)


def _product(number: int) -> Any:
    """Of a factor of its own: it has one use."""
    return e.mul(expand(V(1, 6, 5, number=number), 3, 6, 5), _weight)


def _choice(number: int, size: int = 8, step: int = 1, other: int = 0) -> Any:
    """Of a factor of its own, where windows of three see six values that are equal."""
    arg = Shear(1, 0, step, 1, 6)
    seen = shear_p(expand(V(1, size, 5, number=number), 3, size, 5), arg=arg)
    extremum = expand(V(1, 6, 5, number=1), 3, 6, 5)
    share = expand(V(1, 6, 5, number=2), 3, 6, 5)
    return e.select(e.eq(seen, extremum), share, like(share, other))


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
    "unshear_before_sum_of_products": Row(
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
    "unshear_before_product": Row(
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
    "unshear_before_sum_of_products_under_shrink": Row(
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
    "unshear_before_product_under_shrink": Row(
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
    "expand_after_unshear": Row(
        lambda: [
            slid(expand(V(2, 6, 1), 2, 6, 5), size=7),
            slid(expand(V(1, 1, 1), 3, 6, 5), size=13, stride=2),
        ],
        # Along the window, or what slides; used again.
        lambda: [
            slid(expand(V(1, 6, 5), 2, 6, 5), size=7),
            slid(expand(V(2, 1, 5), 2, 6, 5), size=7),
            slid(t := expand(V(2, 6, 1, number=1), 2, 6, 5), size=7),
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
    "unshear_before_select": Row(
        lambda: [
            slid(_choice(60), size=8),
            slid(_choice(61, 13, 2), size=13, stride=2),
            slid(reshape(_choice(62), 3, 6, 5, 1), size=8),
        ],
        # Windows side by side; of another size; not as it slid; not zero; used again.
        lambda: [
            slid(_choice(63, 18, 3), size=18, stride=3),
            slid(_choice(64), size=9),
            slid(_choice(65), size=13, stride=2),
            slid(_choice(66, other=1), size=8),
            slid(t := _choice(67), size=8),
            e.exp(t),
        ],
    ),
    "unshear_before_sum_of_selects": Row(
        lambda: [
            slid(total(_choice(70), 2), size=8),
            slid(reshape(total(_choice(71, 13, 2), 2), 3, 6), size=13, stride=2),
        ],
        # A sum over the window; not zero; used again.
        lambda: [
            slid(expand(total(_choice(72), 0), 3, 6, 5), size=8),
            slid(total(_choice(73, other=1), 2), size=8),
            slid(t := total(_choice(74), 2), size=8),
            e.exp(t),
        ],
        SMALL,
    ),
    "fold_disjoint_windows": Row(
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
}
