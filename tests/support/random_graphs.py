"""Random small graphs of movements, elementwise work and reductions, for laws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node, toposort
from ftrace.trace.primitives.broadcast import expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import (
    absolute,
    add,
    cast_p,
    copy,
    floor,
    lt,
    maximum,
    minimum,
    mul,
    mul_zero,
    neg,
    select,
    sign,
    stop_gradient,
    sub,
)
from ftrace.trace.primitives.movement import (
    pad_p,
    permute_p,
    reshape_p,
    shrink_p,
    stride_p,
)
from ftrace.trace.primitives.reduction import reduce_max_p, reduce_min_p
from ftrace.trace.primitives.sources import const, iota, is_variable, variable

#: Takes options and gives one of them: `random.choice`, or a draw of hypothesis.
Choose = Callable[[Sequence[Any]], Any]

SHAPES = ((), (1,), (4,), (6,), (2, 3), (1, 4), (3, 1), (4, 4), (2, 1, 3), (2, 3, 2))
UNARY = (neg, absolute, floor, sign, copy, stop_gradient)
BINARY = (add, sub, mul, mul_zero, maximum, minimum)
REDUCTIONS = (reduce_sum_p, reduce_max_p, reduce_min_p)
MAX_SIZE = 400


def random_graph(choose: Choose, length: int) -> list[Node]:
    """One to three outputs over variables of small integers as float32."""
    nodes = [
        variable(ShapedArray.of(choose(SHAPES), dtypes.float32), 0, i) for i in range(2)
    ]
    for _ in range(length):
        step = choose((_movement, _movement, _unary, _binary, _binary, _reduction))
        made = step(choose, nodes)
        if made.size <= MAX_SIZE:
            nodes.append(made)
    return [nodes[-1], *[choose(nodes) for _ in range(choose((0, 1, 2)))]]


def _recent(choose: Choose, nodes: list[Node]) -> Node:
    return choose(nodes[-4:])


def _unary(choose: Choose, nodes: list[Node]) -> Node:
    return choose(UNARY)(_recent(choose, nodes))


def _binary(choose: Choose, nodes: list[Node]) -> Node:
    x = _recent(choose, nodes)
    alike = [n for n in nodes if n.shape == x.shape]
    constants = [const(v, x.dtype, x.shape) for v in (-0.0, 0, 1, -1, 2, 0.5)]
    small = tuple(choose((1, n)) for n in x.shape)
    operands = [*alike, *alike, *constants]
    operands.append(_expanded(const(3, x.dtype, small), x.shape))
    operands += [_expanded(n, x.shape) for n in nodes if _grows(n.shape, x.shape)]
    if x.ndim:
        axis = choose(range(x.ndim))
        operands.append(cast_p(iota(dtypes.int32, x.shape, axis), arg=(x.dtype, False)))
    y = choose(operands)
    if choose((False, False, False, True)):
        return select(lt(x, y), choose(operands), x)
    return choose(BINARY)(x, y) if choose((False, True)) else choose(BINARY)(y, x)


def _grows(small: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    if len(small) != len(shape):
        return False
    return all(n in (1, m) for n, m in zip(small, shape, strict=True))


def _expanded(x: Node, shape: tuple[int, ...]) -> Node:
    return expand_p(x, arg=shape)


def _reduction(choose: Choose, nodes: list[Node]) -> Node:
    x = _recent(choose, nodes)
    axes = tuple(a for a in range(x.ndim) if choose((False, True)))
    return choose(REDUCTIONS)(x, arg=axes) if axes else x


def _movement(choose: Choose, nodes: list[Node]) -> Node:
    x = _recent(choose, nodes)
    op = choose((reshape_p, permute_p, expand_p, pad_p, shrink_p, stride_p))
    return op(x, arg=_movement_argument(choose, op, x.shape))


def _movement_argument(choose: Choose, op: Any, shape: tuple[int, ...]) -> Any:
    if op is reshape_p:
        return _other_shape(choose, shape)
    if op is permute_p:
        axes: list[int] = []
        while len(axes) < len(shape):
            axes.append(choose([a for a in range(len(shape)) if a not in axes]))
        return tuple(axes)
    if op is expand_p:
        return tuple(choose((1, 2, 3)) if n == 1 else n for n in shape)
    if op is pad_p:
        return tuple(
            (choose((0, 0, 1, 2)), choose((0, 0, 1)), choose((0, 0, 0, 1, 2)))
            for _ in shape
        )
    if op is shrink_p:
        lows = [choose(range((n + 1) // 2 + 1)) if n else 0 for n in shape]
        return tuple(
            (lo, choose((n, n, *range(lo, n + 1))))
            for lo, n in zip(lows, shape, strict=True)
        )
    return tuple(choose((1, 1, -1, 2, -2, 3)) for _ in shape)


def _other_shape(choose: Choose, shape: tuple[int, ...]) -> tuple[int, ...]:
    total = prod(shape)
    sizes: list[int] = []
    while total > 1 and len(sizes) < 3:
        sizes.append(choose([n for n in range(1, total + 1) if total % n == 0]))
        total //= sizes[-1]
    sizes.append(total)
    if choose((False, True)) and len(sizes) < 4:
        sizes.insert(choose(range(len(sizes))), 1)
    return tuple(sizes)


def values_for(outputs: Sequence[Node], seed: int = 0) -> dict[Node, Any]:
    """Values of the variables: small integers, which add up exactly in any order."""
    rng = np.random.default_rng(seed)
    return {
        n: rng.integers(-3, 4, n.shape).astype(n.dtype)
        for n in toposort(outputs)
        if is_variable(n)
    }
