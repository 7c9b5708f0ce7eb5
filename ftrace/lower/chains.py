"""Rules on chains of movements: they merge, vanish, and stand in one order.

From the loads upward: shrink, stride, permute, reshape, pad, expand. A movement that
stands above one that comes later in this list moves below it where it can: what is
left out is left out first, and what repeats elements or adds zeros comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from ftrace.lower.index import (
    ALWAYS,
    Index,
    Valid,
    flatten_index,
    range_index,
    source_index,
)
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand, expand_p
from ftrace.trace.primitives.movement import (
    MOVEMENT as _MOVEMENTS,
)
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
from ftrace.trace.rewrite import Pat, Rule

MOVEMENTS: Final = (*_MOVEMENTS, expand_p)


def _arg(node: Node) -> Any:
    return node.arg


# Merging.


def _merge_permutes(x: Node, y: Node) -> Node:
    return permute(y.src[0], tuple(_arg(y)[a] for a in _arg(x)))


def _merge_pads(x: Node, y: Node) -> Node | None:
    """Pads outside of pads; zeros between are kept where only one has them."""
    pads: list[tuple[int, int, int]] = []
    for size, inner, outer in zip(y.src[0].shape, _arg(y), _arg(x), strict=True):
        (a, b, gap), (c, d, outer_gap) = inner, outer
        if outer_gap and (a or b):
            return None  # zeros between the zeros before: not evenly spread
        pads.append((a + c, b + d, (gap + 1) * (outer_gap + 1) - 1 if size > 1 else 0))
    return pad(y.src[0], tuple(pads))


def _merge_shrinks(x: Node, y: Node) -> Node:
    both = zip(_arg(y), _arg(x), strict=True)
    return shrink(y.src[0], tuple((lo + a, lo + b) for (lo, _), (a, b) in both))


def _merge_strides(x: Node, y: Node) -> Node:
    """Backward over what is left: its last element is not the last of all."""
    bounds: list[tuple[int, int]] = []
    steps: list[int] = []
    for size, left, a, b in zip(y.src[0].shape, y.shape, _arg(y), _arg(x), strict=True):
        reach = (left - 1) * abs(a) + 1
        if b > 0:
            bounds.append((0, size))
        else:
            bounds.append((0, reach) if a > 0 else (size - reach, size))
        steps.append(a * b)
    return stride(shrink(y.src[0], tuple(bounds)), tuple(steps))


def _shrink_of_pad(x: Node, y: Node) -> Node:
    bounds: list[tuple[int, int]] = []
    pads: list[tuple[int, int, int]] = []
    sizes = y.src[0].shape
    for size, (before, _, gap), (lo, hi) in zip(sizes, _arg(y), _arg(x), strict=True):
        step = gap + 1
        first = max(0, -(-(lo - before) // step))
        stop = min(size, -(-(hi - before) // step))
        if first >= stop:
            return zeros_like(x)
        at, last = before + first * step, before + (stop - 1) * step
        bounds.append((first, stop))
        pads.append((at - lo, hi - 1 - last, gap if stop - first > 1 else 0))
    return pad(shrink(y.src[0], tuple(bounds)), tuple(pads))


_MERGES: Final = (
    Rule(  # reshape(reshape(x)) -> reshape(x)
        "merge_reshapes",
        Pat(reshape_p, Pat(reshape_p, Pat(name="root")), name="x"),
        lambda x, root: reshape(root, x.shape),
    ),
    Rule(  # expand(expand(x)) -> expand(x)
        "merge_expands",
        Pat(expand_p, Pat(expand_p, Pat(name="root")), name="x"),
        lambda x, root: expand(root, x.shape),
    ),
    Rule(  # permute(permute(x)) -> permute(x)
        "merge_permutes",
        Pat(permute_p, Pat(permute_p, name="y"), name="x"),
        _merge_permutes,
    ),
    Rule(  # pad(pad(x)) -> pad(x)
        "merge_pads",
        Pat(pad_p, Pat(pad_p, name="y"), name="x"),
        _merge_pads,
    ),
    Rule(  # shrink(shrink(x)) -> shrink(x)
        "merge_shrinks",
        Pat(shrink_p, Pat(shrink_p, name="y"), name="x"),
        _merge_shrinks,
    ),
    Rule(  # stride(stride(x)) -> stride(shrink(x))
        "merge_strides",
        Pat(stride_p, Pat(stride_p, name="y"), name="x"),
        _merge_strides,
    ),
    Rule(  # shrink(pad(x)) -> pad(shrink(x)), or zero where only zeros are left
        "merge_shrink_of_pad",
        Pat(shrink_p, Pat(pad_p, name="y"), name="x"),
        _shrink_of_pad,
    ),
)

# Removal.


def _noop(name: str, op: Any, holds: Any) -> Rule:
    return Rule(name, Pat(op, Pat(name="x"), where=holds), lambda x: x)


def _keeps_shape(node: Node) -> bool:
    return node.aval.shape == node.src[0].aval.shape


def _keeps_order(x: Node) -> Node | None:
    """permute that moves only axes of size 1 -> reshape"""
    kept = [a for a in _arg(x) if x.src[0].shape[a] != 1]
    return reshape(x.src[0], x.shape) if kept == sorted(kept) else None


#: How far down a chain is followed: so many movements, and so many reshapes, as each
#: of those that does not merge with the next makes the index more complicated.
_DEPTH = 6
_RESHAPES = 2


def _chain_below(x: Node) -> list[Node]:
    """The movements from `x` down to the loads, as far as they are followed."""
    chain: list[Node] = []
    reshapes = 0
    node = x
    while node.op.family == "movement" and len(chain) < _DEPTH:
        reshapes += node.op is reshape_p
        if reshapes > _RESHAPES:
            break
        chain.append(node)
        node = node.src[0]
    return chain


def _contiguous_root(x: Node) -> Node | None:
    """The lowest node of a chain whose elements `x` has, all of them, in their order."""
    chain = _chain_below(x)
    # A permute that moves elements is undone by no reshape, nor the other way round.
    if len(chain) == 2 and {n.op for n in chain} == {reshape_p, permute_p}:
        return None
    roots = [n.src[0] for n in chain[1:] if n.src[0].size == x.size]
    if not roots:
        return None
    indices: tuple[Index, ...] = tuple(range_index(i, n) for i, n in enumerate(x.shape))
    position = flatten_index(indices, x.shape)
    valid: Valid | None = ALWAYS
    found: Node | None = None
    for node in chain:
        indices, valid = source_index(node, indices, valid)
        source = node.src[0]
        if source in roots and valid == ALWAYS:
            if flatten_index(indices, source.shape) == position:
                found = source
            if source is roots[-1]:
                break
    return None if found is None else reshape(found, x.shape)


_REMOVALS: Final = (
    _noop("remove_noop_reshape", reshape_p, _keeps_shape),
    _noop("remove_noop_expand", expand_p, _keeps_shape),
    _noop("remove_noop_shrink", shrink_p, _keeps_shape),
    _noop("remove_noop_pad", pad_p, lambda n: not any(map(any, n.arg))),
    _noop("remove_noop_permute", permute_p, lambda n: n.arg == tuple(range(n.ndim))),
    _noop("remove_noop_stride", stride_p, lambda n: set(n.arg) == {1}),
    Rule(  # permute that moves only axes of size 1 -> reshape
        "permute_of_ones_is_reshape", Pat(permute_p, Pat(), name="x"), _keeps_order
    ),
    Rule(  # stride of axes of size 1 -> x
        "stride_of_ones_is_noop",
        Pat(stride_p, Pat(name="x"), name="node"),
        lambda node, x: (
            x
            if all(s == 1 or n == 1 for s, n in zip(node.arg, x.shape, strict=True))
            else None
        ),
    ),
    Rule(  # movements(x) that keep all elements in their order -> reshape(x)
        "contiguous_chain_is_its_root",
        Pat(MOVEMENTS, Pat(MOVEMENTS), name="x"),
        _contiguous_root,
    ),
)

# Order.


def axis_groups(source: Shape, target: Shape) -> list[tuple[list[int], list[int]]]:
    """Which axes of a reshape belong together: the fewest of equal size, without 1s."""
    left = [a for a, n in enumerate(source) if n != 1]
    right = [a for a, n in enumerate(target) if n != 1]
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(left):
        n, m = source[left[i]], target[right[j]]
        start_i, start_j, i, j = i, j, i + 1, j + 1
        while n != m:
            if n < m:
                n, i = n * source[left[i]], i + 1
            else:
                m, j = m * target[right[j]], j + 1
        groups.append((left[start_i:i], right[start_j:j]))
    return groups


def _permute_before_reshape(x: Node, y: Node) -> Node | None:
    source = y.src[0]
    group_of = {a: g for g in _groups(y) for a in g[1]}
    waiting = [a for a in _arg(x) if y.shape[a] != 1]
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
    cut = {a for a, (lo, hi) in enumerate(_arg(x)) if (lo, hi) != (0, y.shape[a])}
    for from_axes, to_axes in axis_groups(source.shape, y.shape):
        here = cut.intersection(to_axes)
        if not here:
            continue
        if len(from_axes) > 1 or here != {to_axes[0]}:
            return None
        lo, hi = _arg(x)[to_axes[0]]
        inside = prod(y.shape[a] for a in to_axes[1:])
        bounds[from_axes[0]] = (lo * inside, hi * inside)
        cut -= here
    return None if cut else reshape(shrink(source, tuple(bounds)), x.shape)


def _stride_before_reshape(x: Node, y: Node) -> Node | None:
    alone = _alone(y)
    steps = [1] * y.src[0].ndim
    for axis, step in enumerate(_arg(x)):
        if step == 1 or y.shape[axis] == 1:
            continue
        if axis not in alone:
            return None
        steps[alone[axis]] = step
    return reshape(stride(y.src[0], tuple(steps)), x.shape)


def _shrink_before_stride(x: Node, y: Node) -> Node:
    bounds: list[tuple[int, int]] = []
    for size, step, (lo, hi) in zip(y.src[0].shape, _arg(y), _arg(x), strict=True):
        first, stop = lo * abs(step), (hi - 1) * abs(step) + 1
        bounds.append((first, stop) if step > 0 else (size - stop, size - first))
    return stride(shrink(y.src[0], tuple(bounds)), _arg(y))


def _shrink_before_permute(x: Node, y: Node) -> Node:
    bounds: Any = _unpermuted(_arg(x), _arg(y))
    return permute(shrink(y.src[0], bounds), _arg(y))


def _stride_before_permute(x: Node, y: Node) -> Node:
    steps: Any = _unpermuted(_arg(x), _arg(y))
    return permute(stride(y.src[0], steps), _arg(y))


def _unpermuted(values: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    """For each axis of the operand the value of the axis that it became."""
    found = dict(zip(axes, values, strict=True))
    return tuple(found[a] for a in range(len(axes)))


def _shrink_before_expand(x: Node, y: Node) -> Node:
    sizes = zip(y.src[0].shape, y.shape, _arg(x), strict=True)
    bounds = tuple((0, 1) if n != m else bound for n, m, bound in sizes)
    return expand(shrink(y.src[0], bounds), x.shape)


def _stride_before_expand(x: Node, y: Node) -> Node:
    return expand(stride(y.src[0], _arg(x)), x.shape)


def _stride_of_pad(x: Node, y: Node) -> Node | None:
    """Axis by axis: flip, or take every n-th where it hits elements or zeros only."""
    cuts: list[tuple[int, int]] = []
    steps: list[int] = []
    pads: list[tuple[int, int, int]] = []
    sizes = zip(y.src[0].shape, y.shape, x.shape, _arg(y), _arg(x), strict=True)
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
    return pad(permute(y.src[0], _arg(x)), tuple(_arg(y)[a] for a in _arg(x)))


def _permute_before_expand(x: Node, y: Node) -> Node:
    return expand(permute(y.src[0], _arg(x)), x.shape)


def _reshape_before_pad(x: Node, y: Node) -> Node | None:
    alone = _alone(x)
    where = {a: b for b, a in alone.items()}
    shape = list(x.shape)
    pads = [(0, 0, 0)] * x.ndim
    for axis, added in enumerate(_arg(y)):
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
        grown = [a for a in from_axes if source[a] == 1]
        if grown and len(grown) < len(from_axes):
            return None
        if grown:
            for axis in to_axes:
                shape[axis] = 1
    return expand(reshape(y.src[0], tuple(shape)), x.shape)


def _pad_before_expand(x: Node, y: Node) -> Node | None:
    source = y.src[0].shape
    grown = [a for a, n in enumerate(source) if n != y.shape[a]]
    if any(any(_arg(x)[a]) for a in grown):
        return None
    return expand(pad(y.src[0], _arg(x)), x.shape)


def _order(name: str, upper: Any, lower: Any, function: Any) -> Rule:
    return Rule(name, Pat(upper, Pat(lower, name="y"), name="x"), function)


_ORDER: Final = (
    # shrink(y(…)) -> y(shrink(…))
    _order("shrink_before_stride", shrink_p, stride_p, _shrink_before_stride),
    _order("shrink_before_permute", shrink_p, permute_p, _shrink_before_permute),
    _order("shrink_before_reshape", shrink_p, reshape_p, _shrink_before_reshape),
    _order("shrink_before_expand", shrink_p, expand_p, _shrink_before_expand),
    # stride(y(…)) -> y(stride(…))
    _order("stride_before_permute", stride_p, permute_p, _stride_before_permute),
    _order("stride_before_reshape", stride_p, reshape_p, _stride_before_reshape),
    _order("stride_before_pad", stride_p, pad_p, _stride_of_pad),
    _order("stride_before_expand", stride_p, expand_p, _stride_before_expand),
    # permute(y(…)) -> y(permute(…))
    _order("permute_before_reshape", permute_p, reshape_p, _permute_before_reshape),
    _order("permute_before_pad", permute_p, pad_p, _permute_before_pad),
    _order("permute_before_expand", permute_p, expand_p, _permute_before_expand),
    # reshape(y(…)) -> y(reshape(…))
    _order("reshape_before_pad", reshape_p, pad_p, _reshape_before_pad),
    _order("reshape_before_expand", reshape_p, expand_p, _reshape_before_expand),
    # pad(expand(…)) -> expand(pad(…))
    _order("pad_before_expand", pad_p, expand_p, _pad_before_expand),
)

CHAINS: Final = (*_REMOVALS[:-1], *_MERGES, *_ORDER, _REMOVALS[-1])
