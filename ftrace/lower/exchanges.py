"""Rules that bring movements into one order.

From the loads upward: shrink, stride, permute, reshape, pad, expand. A movement that
stands above one that comes later in this list moves below it where it can: what is
left out is left out first, and what repeats elements or adds zeros comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from ftrace.lower.chains import pair
from ftrace.lower.constants import arg_of
from ftrace.trace.avals import Shape
from ftrace.trace.dims import same_size
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand, expand_p
from ftrace.trace.primitives.movement import (
    pad,
    pad_p,
    permute,
    permute_p,
    reshape,
    reshape_p,
    shrink,
    shrink_p,
    stride,
    stride_p,
)
from ftrace.trace.primitives.source import zeros_like


def axis_groups(source: Shape, target: Shape) -> list[tuple[list[int], list[int]]]:
    """Which axes of a reshape belong together: the fewest of equal size, without 1s."""
    left = [a for a, n in enumerate(source) if not same_size(n, 1)]
    right = [a for a, n in enumerate(target) if not same_size(n, 1)]
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(left):
        n, m = source[left[i]], target[right[j]]
        start_i, start_j, i, j = i, j, i + 1, j + 1
        while not same_size(n, m):
            if n < m:
                n, i = n * source[left[i]], i + 1
            else:
                m, j = m * target[right[j]], j + 1
        groups.append((left[start_i:i], right[start_j:j]))
    return groups


def _permute_before_reshape(x: Node, y: Node) -> Node | None:
    source = y.src[0]
    group_of = {a: g for g in _groups(y) for a in g[1]}
    waiting = [a for a in arg_of(x) if not same_size(y.shape[a], 1)]
    order: list[int] = []
    while waiting:
        from_axes, to_axes = group_of[waiting[0]]
        if waiting[: len(to_axes)] != to_axes:
            return None
        order += from_axes
        waiting = waiting[len(to_axes) :]
    if order == sorted(order):
        return reshape(source, x.shape)
    order += [a for a in range(source.ndim) if a not in order]
    return reshape(permute(source, tuple(order)), x.shape)


def _groups(reshaped: Node) -> list[tuple[tuple[int, ...], list[int]]]:
    pairs = axis_groups(reshaped.src[0].shape, reshaped.shape)
    return [(tuple(a), b) for a, b in pairs]


def _alone(reshaped: Node) -> dict[int, int]:
    """axis of the result -> axis of the operand, where the reshape leaves it alone."""
    groups = axis_groups(reshaped.src[0].shape, reshaped.shape)
    return {b[0]: a[0] for a, b in groups if len(a) == len(b) == 1}


def _shrink_before_reshape(x: Node, y: Node) -> Node | None:
    source = y.src[0]
    bounds = [(0, n) for n in source.shape]
    cut = {
        a
        for a, (lo, hi) in enumerate(arg_of(x))
        if not same_size((lo, hi), (0, y.shape[a]))
    }
    for from_axes, to_axes in axis_groups(source.shape, y.shape):
        here = cut.intersection(to_axes)
        if not here:
            continue
        if len(from_axes) > 1 or here != {to_axes[0]}:
            return None
        lo, hi = arg_of(x)[to_axes[0]]
        inside = prod(y.shape[a] for a in to_axes[1:])
        bounds[from_axes[0]] = (lo * inside, hi * inside)
        cut -= here
    return None if cut else reshape(shrink(source, tuple(bounds)), x.shape)


def _stride_before_reshape(x: Node, y: Node) -> Node | None:
    alone = _alone(y)
    steps = [1] * y.src[0].ndim
    for axis, step in enumerate(arg_of(x)):
        if step == 1 or same_size(y.shape[axis], 1):
            continue
        if axis not in alone:
            return None
        steps[alone[axis]] = step
    return reshape(stride(y.src[0], tuple(steps)), x.shape)


def _shrink_before_stride(x: Node, y: Node) -> Node:
    bounds: list[tuple[int, int]] = []
    for size, step, (lo, hi) in zip(y.src[0].shape, arg_of(y), arg_of(x), strict=True):
        first, stop = lo * abs(step), (hi - 1) * abs(step) + 1
        bounds.append((first, stop) if step > 0 else (size - stop, size - first))
    return stride(shrink(y.src[0], tuple(bounds)), arg_of(y))


def _shrink_before_permute(x: Node, y: Node) -> Node:
    bounds: Any = _unpermuted(arg_of(x), arg_of(y))
    return permute(shrink(y.src[0], bounds), arg_of(y))


def _stride_before_permute(x: Node, y: Node) -> Node:
    steps: Any = _unpermuted(arg_of(x), arg_of(y))
    return permute(stride(y.src[0], steps), arg_of(y))


def _unpermuted(values: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    """For each axis of the operand the value of the axis that it became."""
    found = dict(zip(axes, values, strict=True))
    return tuple(found[a] for a in range(len(axes)))


def _shrink_before_expand(x: Node, y: Node) -> Node:
    sizes = zip(y.src[0].shape, y.shape, arg_of(x), strict=True)
    bounds = tuple((0, 1) if not same_size(n, m) else bound for n, m, bound in sizes)
    return expand(shrink(y.src[0], bounds), x.shape)


def _stride_before_expand(x: Node, y: Node) -> Node:
    return expand(stride(y.src[0], arg_of(x)), x.shape)


def _stride_of_pad(x: Node, y: Node) -> Node | None:
    """Axis by axis: flip, or take every n-th where it hits elements or zeros only."""
    cuts: list[tuple[int, int]] = []
    steps: list[int] = []
    pads: list[tuple[int, int, int]] = []
    sizes = zip(y.src[0].shape, y.shape, x.shape, arg_of(y), arg_of(x), strict=True)
    for size, padded, left, (before, after, gap), step in sizes:
        if step < 0:
            before, after = after, before
        sign, step = (1, step) if step > 0 else (-1, -step)
        start, every = 0, 1
        if step == 1:
            pass
        elif gap + 1 == step or (gap + 1) % step == 0:
            if before % step:
                return None
            before, gap = before // step, (gap + 1) // step - 1
        elif gap == 0:
            start, every = -before % step, step
            before = (before + start) // step
        else:
            return None
        kept = len(range(start, size, every))
        if kept == 0:
            return zeros_like(x)
        after = left - before - kept - (kept - 1) * gap
        cuts.append((start, size) if sign > 0 else (0, size - start))
        steps.append(sign * every)
        pads.append((before, after, gap if kept > 1 else 0))
        assert padded >= left
        if after < 0:
            return None
    inner = stride(shrink(y.src[0], tuple(cuts)), tuple(steps))
    return pad(inner, tuple(pads))


def _permute_before_pad(x: Node, y: Node) -> Node:
    return pad(permute(y.src[0], arg_of(x)), tuple(arg_of(y)[a] for a in arg_of(x)))


def _permute_before_expand(x: Node, y: Node) -> Node:
    return expand(permute(y.src[0], arg_of(x)), x.shape)


def _reshape_before_pad(x: Node, y: Node) -> Node | None:
    alone = _alone(x)
    where = {a: b for b, a in alone.items()}
    shape = list(x.shape)
    pads = [(0, 0, 0)] * x.ndim
    for axis, added in enumerate(arg_of(y)):
        if not any(added):
            continue
        if axis not in where:
            return None
        shape[where[axis]] = y.src[0].shape[axis]
        pads[where[axis]] = added
    return pad(reshape(y.src[0], tuple(shape)), tuple(pads))


def _reshape_before_expand(x: Node, y: Node) -> Node | None:
    source = y.src[0].shape
    shape = list(x.shape)
    for from_axes, to_axes in axis_groups(y.shape, x.shape):
        grown = [a for a in from_axes if same_size(source[a], 1)]
        if grown and len(grown) < len(from_axes):
            return None
        if grown:
            for axis in to_axes:
                shape[axis] = 1
    return expand(reshape(y.src[0], tuple(shape)), x.shape)


def _pad_before_expand(x: Node, y: Node) -> Node | None:
    source = y.src[0].shape
    grown = [a for a, n in enumerate(source) if not same_size(n, y.shape[a])]
    if any(any(arg_of(x)[a]) for a in grown):
        return None
    return expand(pad(y.src[0], arg_of(x)), x.shape)


EXCHANGES: Final = (
    # shrink(y(…)) -> y(shrink(…))
    pair("shrink_before_stride", shrink_p, stride_p, _shrink_before_stride),
    pair("shrink_before_permute", shrink_p, permute_p, _shrink_before_permute),
    pair("shrink_before_reshape", shrink_p, reshape_p, _shrink_before_reshape),
    pair("shrink_before_expand", shrink_p, expand_p, _shrink_before_expand),
    # stride(y(…)) -> y(stride(…))
    pair("stride_before_permute", stride_p, permute_p, _stride_before_permute),
    pair("stride_before_reshape", stride_p, reshape_p, _stride_before_reshape),
    pair("stride_before_pad", stride_p, pad_p, _stride_of_pad),
    pair("stride_before_expand", stride_p, expand_p, _stride_before_expand),
    # permute(y(…)) -> y(permute(…))
    pair("permute_before_reshape", permute_p, reshape_p, _permute_before_reshape),
    pair("permute_before_pad", permute_p, pad_p, _permute_before_pad),
    pair("permute_before_expand", permute_p, expand_p, _permute_before_expand),
    # reshape(y(…)) -> y(reshape(…))
    pair("reshape_before_pad", reshape_p, pad_p, _reshape_before_pad),
    pair("reshape_before_expand", reshape_p, expand_p, _reshape_before_expand),
    # pad(expand(…)) -> expand(pad(…))
    pair("pad_before_expand", pad_p, expand_p, _pad_before_expand),
)
