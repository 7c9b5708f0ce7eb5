"""Movements merge with each other, vanish, and move through work, into one order.

Toward the loads, where one use makes sure that no work is done twice: shrink, permute,
reshape, and pad where zeros give zero. Toward the end: expand, so that work is done
before elements are repeated.

From the loads upward: shrink, stride, permute, reshape, pad, expand. A movement that
stands above one that comes later in this list moves below it where it can: what is
left out is left out first, and what repeats elements or adds zeros comes last.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import attrgetter
from typing import Any, Final

import numpy as np

from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.tables import memo
from ftrace.lower.analysis import reshape_groups, same_axes
from ftrace.lower.simplify import algebra
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Node, Op, making_nodes_of
from ftrace.trace.primitives import (
    broadcast as bc,
    elementwise as p,
    movement as mv,
    reduction as red,
)
from ftrace.trace.primitives.primitive import Primitive, primitive_of
from ftrace.trace.primitives.sources import const_p, zeros_like
from ftrace.trace.rewrite import Pat, Rule
from ftrace.trace.symbolic import same_size, surely_at_most, surely_less


def pair(
    name: str,
    upper: Primitive,
    lower: Primitive,
    function: Callable[[Node, Node], Node | None],
) -> Rule:
    """A rule on x = upper(y) and y = lower(…), both with elements."""
    y = Pat(lower, name="y", where=lambda n: n.size > 0 and n.src[0].size > 0)
    return Rule(name, Pat(upper, y, name="x", aval=lambda n: n.size > 0), function)


# Merging, and exchanging what goes axis by axis.


class _Axis(NamedTuple):
    """What stands along an axis of a result: elements of one axis of the operand.

    Attributes:
      source, size: that axis of the operand.
      first, step, length: which of its elements, in order; a step of 0 repeats one.
      before, after, gap: zeros around them, and between each two.
    """

    source: int
    size: int
    first: int
    step: int
    length: int
    before: int = 0
    after: int = 0
    gap: int = 0

    def shrink(self, size: int, bounds: tuple[int, int]) -> _Axis:
        start, stop = low, high = bounds
        every = self.gap + 1
        if same_size(bounds, (0, size)):
            return self
        if any((self.before, self.after, self.gap)):
            start = max(0, -(-(low - self.before) // every))
            stop = min(self.length, -(-(high - self.before) // every))
            if start >= stop:
                raise _ZeroError
        at, last = self.before + start * every, self.before + (stop - 1) * every
        first, count = self.first + start * self.step, stop - start
        pads = at - low, high - 1 - last, self.gap
        return _Axis(self.source, self.size, first, self.step, count, *pads)

    def stride(self, size: int, step: int) -> _Axis:
        """Every n-th, or backward; there are no zeros."""
        first, count = self.first, -(-size // abs(step))
        if step < 0:
            first += (size - 1) * self.step
        return self._replace(first=first, step=self.step * step, length=count)

    def pad(self, size: int, pads: tuple[int, int, int]) -> _Axis | None:
        """Zeros that it puts between zeros are zeros, too."""
        before, after, gap = pads
        if not any(pads):
            return self
        if self.step == 0:
            return None
        step = gap + 1
        before, after = before + self.before * step, after + self.after * step
        return self._replace(before=before, after=after, gap=self.gap * step + gap)

    def expand(self, size: int, new: int) -> _Axis:
        return self if same_size(size, new) else self._replace(step=0, length=new)

    @property
    def bounds(self) -> tuple[int, int]:
        """What must be left of the operand, for a stride to find these elements."""
        if self.step == 0:
            return self.first, self.first + 1
        last = self.first + (self.length - 1) * self.step
        if self.step > 1 and surely_at_most(self.size, last + self.step):
            return self.first, self.size
        if self.step > 0:
            return self.first, last + 1
        return 0 if surely_less(last + self.step, 0) else last, self.first + 1

    @property
    def pads(self) -> tuple[int, int, int]:
        return self.before, self.after, self.gap if self.gap and self.length > 1 else 0


class _ZeroError(Exception):
    """Nothing but zeros is left."""


#: Movements with one argument for each axis, and what they make of an axis.
_BY_AXES: dict[Any, Callable[[_Axis, int, Any], _Axis | None]] = {
    mv.shrink_p: _Axis.shrink,
    mv.stride_p: _Axis.stride,
    mv.pad_p: _Axis.pad,
    bc.expand_p: _Axis.expand,
}


def _compose(x: Node, y: Node) -> Node | None:
    """Two movements as the fewest, in the order in which they shall stand."""
    (source,) = y.src
    axes = [_Axis(a, n, 0, 1, n) for a, n in enumerate(source.shape)]
    for node in (y, x):
        if node.op is mv.permute_p:
            order: tuple[int, ...] = algebra.arg_of(node)
            axes = [axes[a] for a in order]
            continue
        args = node.shape if node.op is bc.expand_p else algebra.arg_of(node)
        try:
            found = map(_BY_AXES[node.op], axes, node.src[0].shape, args)
            axes = [axis for axis in found if axis is not None]
        except _ZeroError:
            return zeros_like(x)
        if len(axes) < node.ndim:
            return None
    made = sorted(axes, key=attrgetter("source"))
    moved = mv.shrink(source, tuple([axis.bounds for axis in made]))
    moved = mv.stride(moved, tuple([axis.step or 1 for axis in made]))
    moved = mv.permute(moved, tuple([axis.source for axis in axes]))
    moved = mv.pad(moved, tuple([axis.pads for axis in axes]))
    return moved if same_size(moved.shape, x.shape) else bc.expand(moved, x.shape)


# Removal.


def _keeps_order(x: Node) -> Node | None:
    """Does it move axes of size 1 only? Then it is a reshape."""
    kept = [a for a in algebra.arg_of(x) if not same_size(x.src[0].shape[a], 1)]
    return mv.reshape(x.src[0], x.shape) if kept == sorted(kept) else None


CHAINS: Final = (
    # permute that moves only axes of size 1 -> reshape
    Rule("fold_permute_of_ones", Pat(mv.permute_p, Pat(), name="x"), _keeps_order),
    # y(y(x)) -> y(x)
    pair(
        "merge_reshapes",
        mv.reshape_p,
        mv.reshape_p,
        lambda x, y: mv.reshape(y.src[0], x.shape),
    ),
    pair("merge_expands", bc.expand_p, bc.expand_p, _compose),
    pair("merge_permutes", mv.permute_p, mv.permute_p, _compose),
    pair("merge_pads", mv.pad_p, mv.pad_p, _compose),
    pair("merge_shrinks", mv.shrink_p, mv.shrink_p, _compose),
    # stride(stride(x)) -> stride(shrink(x))
    pair("merge_strides", mv.stride_p, mv.stride_p, _compose),
    # shrink(pad(x)) -> pad(shrink(x)), or zero where only zeros are left
    pair("merge_shrink_of_pad", mv.shrink_p, mv.pad_p, _compose),
)


def _groups(reshaped: Node) -> list[tuple[list[int], list[int]]]:
    """Axes, of the operand and of the result, that belong together; without 1s."""
    shapes = reshaped.src[0].shape, reshaped.shape
    found = [
        tuple(
            [a for a in range(len(s))[part] if not same_size(s[a], 1)]
            for s, part in zip(shapes, parts, strict=True)
        )
        for parts in reshape_groups(*shapes)
    ]
    return [(left, right) for left, right in found if left]


def _permute_before_reshape(x: Node, y: Node) -> Node | None:
    source = y.src[0]
    group_of = {a: g for g in _groups(y) for a in g[1]}
    waiting = [a for a in algebra.arg_of(x) if not same_size(y.shape[a], 1)]
    order: list[int] = []
    while waiting:
        from_axes, to_axes = group_of[waiting[0]]
        if waiting[: len(to_axes)] != to_axes:
            return None
        order += from_axes
        waiting = waiting[len(to_axes) :]
    if order == sorted(order):
        return mv.reshape(source, x.shape)
    order += [a for a in range(source.ndim) if a not in order]
    return mv.reshape(mv.permute(source, tuple(order)), x.shape)


def _shrink_before_reshape(x: Node, y: Node) -> Node | None:
    source = y.src[0]
    bounds = [(0, n) for n in source.shape]
    cut = {
        a
        for a, (lo, hi) in enumerate(algebra.arg_of(x))
        if not same_size((lo, hi), (0, y.shape[a]))
    }
    for from_axes, to_axes in _groups(y):
        here = cut.intersection(to_axes)
        if not here:
            continue
        if len(from_axes) > 1 or here != {to_axes[0]}:
            return None
        lo, hi = algebra.arg_of(x)[to_axes[0]]
        inside = prod(y.shape[a] for a in to_axes[1:])
        bounds[from_axes[0]] = (lo * inside, hi * inside)
        cut -= here
    return None if cut else mv.reshape(mv.shrink(source, tuple(bounds)), x.shape)


def _grown_axes(source: Node, shape: Shape) -> set[int]:
    before = source.src[0].shape
    return {a for a, n in enumerate(shape) if not same_size(n, before[a])}


def _reshape_before_pad(x: Node, y: Node) -> Node | None:
    above = same_axes(y.shape, x.shape)
    shape = list(x.shape)
    pads = [(0, 0, 0)] * x.ndim
    for axis, added in enumerate(algebra.arg_of(y)):
        if not any(added):
            continue
        place = above[axis]
        if place is None:
            return None
        shape[place] = y.src[0].shape[axis]
        pads[place] = added
    return mv.pad(mv.reshape(y.src[0], tuple(shape)), tuple(pads))


def _reshape_before_expand(x: Node, y: Node) -> Node | None:
    source = y.src[0].shape
    shape = list(x.shape)
    for from_axes, to_axes in _groups(x):
        grown = [a for a in from_axes if same_size(source[a], 1)]
        if grown and len(grown) < len(from_axes):
            return None
        if grown:
            for axis in to_axes:
                shape[axis] = 1
    return bc.expand(mv.reshape(y.src[0], tuple(shape)), x.shape)


EXCHANGES: Final = (
    # shrink(y(…)) -> y(shrink(…))
    pair("shrink_before_stride", mv.shrink_p, mv.stride_p, _compose),
    pair("shrink_before_permute", mv.shrink_p, mv.permute_p, _compose),
    pair("shrink_before_reshape", mv.shrink_p, mv.reshape_p, _shrink_before_reshape),
    pair("shrink_before_expand", mv.shrink_p, bc.expand_p, _compose),
    # stride(y(…)) -> y(stride(…))
    pair("stride_before_permute", mv.stride_p, mv.permute_p, _compose),
    # permute(y(…)) -> y(permute(…))
    pair("permute_before_reshape", mv.permute_p, mv.reshape_p, _permute_before_reshape),
    pair("permute_before_pad", mv.permute_p, mv.pad_p, _compose),
    pair("permute_before_expand", mv.permute_p, bc.expand_p, _compose),
    # reshape(y(…)) -> y(reshape(…))
    pair("reshape_before_pad", mv.reshape_p, mv.pad_p, _reshape_before_pad),
    pair("reshape_before_expand", mv.reshape_p, bc.expand_p, _reshape_before_expand),
    # pad(expand(…)) -> expand(pad(…))
    pair("pad_before_expand", mv.pad_p, bc.expand_p, _compose),
)


def _over(y: Node, move: Callable[[Node], Node]) -> Node:
    """The operation of `y` over its moved operands."""
    return _again(y, *[move(source) for source in y.src], arg=y.arg)


def _again(y: Node, *src: Node, arg: Any) -> Node:
    """The operation of `y`, at the line of `y`, over others."""
    with making_nodes_of(y.origin):
        return y.op(*src, arg=arg)


def _push(x: Node, y: Node) -> Node:
    def move(source: Node) -> Node:
        if source.op is const_p:
            return algebra.move_constant(source, x.shape)
        return x.op(source, arg=x.arg)

    return _over(y, move)


def _push_pad(x: Node, y: Node) -> Node | None:
    op = primitive_of(y)
    if not (op.zero_at_zero or op is p.select):
        return None
    constants = tuple(
        (s.dtype, s.arg if s.op is const_p else bytes(s.dtype.itemsize)) for s in y.src
    )
    scalar = y.aval.with_shape((1,))
    return _push(x, y) if _is_zero_there(op, y.arg, scalar, constants) else None


@memo(1 << 12)
def _is_zero_there(
    op: Primitive, arg: Any, aval: ShapedArray, operands: tuple[Any, ...]
) -> bool:
    """Do zeros beside these constants give +0, as the padding has?"""
    values = [np.frombuffer(bits, dtype) for dtype, bits in operands]
    with np.errstate(all="ignore"):
        result = np.asarray(op.numpy(aval, arg, *values)).astype(aval.dtype)
    return not any(result.tobytes())


def _pull_expand(y: Node) -> Node | None:
    views = [s for s in y.src if s.op is bc.expand_p]
    if not views:
        return None
    grown = set[int].intersection(*[_grown_axes(v, y.shape) for v in views])
    if not grown:
        return None
    shape = tuple(1 if a in grown else n for a, n in enumerate(y.shape))

    def shrunk(source: Node) -> Node:
        if source.op is const_p:
            return algebra.move_constant(source, shape)
        return bc.expand(source.src[0], shape)

    return bc.expand(_over(y, shrunk), y.shape)


def _pull_expand_through_reduce(x: Node, view: Node) -> Node | None:
    axes = algebra.arg_of(x)
    grown = _grown_axes(view, view.shape).difference(axes)
    if not grown:
        return None
    shape = tuple(1 if a in grown else n for a, n in enumerate(view.shape))
    return bc.expand(x.op(bc.expand(view.src[0], shape), arg=axes), x.shape)


def _before_reduce(x: Node, y: Node) -> Node:
    source, reduced = y.src[0], algebra.arg_of(y)
    whole = source.shape
    args = tuple(
        (0, whole[a]) if a in reduced else arg
        for a, arg in enumerate(algebra.arg_of(x))
    )
    return _again(y, x.op(source, arg=args), arg=reduced)


def _permute_before_reduce(x: Node, y: Node) -> Node:
    axes: tuple[int, ...] = algebra.arg_of(x)
    reduced = tuple(sorted(axes.index(a) for a in algebra.arg_of(y)))
    return _again(y, mv.permute(y.src[0], axes), arg=reduced)


def _push_rule(
    name: str,
    op: Primitive,
    below: tuple[Op, ...],
    function: Callable[[Node, Node], Node | None],
) -> Rule:
    pattern = Pat(op, Pat(below, name="y"), name="x", aval=lambda n: n.size > 0)
    return Rule(name, pattern, function, single_use="y", passes="y")


_REPEATED = Pat((bc.expand_p, const_p))

PUSHES: Final = (
    # movement(f(x, …)) -> f(movement(x), …)
    _push_rule(
        "push_shrink_through_elementwise", mv.shrink_p, algebra.ELEMENTWISE_OPS, _push
    ),
    _push_rule(
        "push_permute_through_elementwise", mv.permute_p, algebra.ELEMENTWISE_OPS, _push
    ),
    _push_rule(
        "push_reshape_through_elementwise", mv.reshape_p, algebra.ELEMENTWISE_OPS, _push
    ),
    # pad(f(x, …)) -> f(pad(x), …), where f(0, …) = 0
    _push_rule(
        "push_pad_through_elementwise", mv.pad_p, algebra.ELEMENTWISE_OPS, _push_pad
    ),
    # movement(reduce(x)) -> reduce(movement(x))
    _push_rule(
        "permute_before_reduce", mv.permute_p, red.REDUCTIONS, _permute_before_reduce
    ),
    _push_rule("shrink_before_reduce", mv.shrink_p, red.REDUCTIONS, _before_reduce),
    # f(expand(x), expand(y), …) -> expand(f(x, y, …))
    Rule(
        "pull_expand_through_elementwise",
        algebra.of_any_arity(
            lambda n: Pat(algebra.ELEMENTWISE_OPS, *[_REPEATED] * n, name="y")
        ),
        _pull_expand,
    ),
    # reduce[a](expand[b](x)) -> expand[b](reduce[a](x))
    Rule(
        "pull_expand_through_reduce",
        Pat(red.REDUCTIONS, Pat(bc.expand_p, name="view"), name="x"),
        _pull_expand_through_reduce,
    ),
)
