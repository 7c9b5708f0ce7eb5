"""Rules that move movements through the work between them.

Toward the loads, where one use makes sure that no work is done twice: shrink, stride,
permute, reshape, and pad where zeros give zero. Toward the end: expand, so that work
is done before elements are repeated, and copy, so that one store is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.lower.constants import (
    ELEMENTWISE,
    arg_of,
    move_constant,
    of_any_arity,
)
from ftrace.tables import memo
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.dims import same_size
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand, expand_p
from ftrace.trace.primitives.elementwise import copy, select
from ftrace.trace.primitives.movement import (
    pad_p,
    permute,
    permute_p,
    reshape_p,
    shrink,
    shrink_p,
    stride,
    stride_p,
)
from ftrace.trace.primitives.record import Primitive, primitive_of
from ftrace.trace.primitives.reduction import REDUCTIONS
from ftrace.trace.primitives.source import const_p
from ftrace.trace.rewrite import Pat, Rule


def _over(y: Node, move: Callable[[Node], Node]) -> Node:
    """The operation of `y` over its moved operands."""
    return y.op(*[move(source) for source in y.src], arg=y.arg)


def _push(x: Node, y: Node) -> Node:
    def move(source: Node) -> Node:
        if source.op is const_p:
            return move_constant(source, x.shape)
        return x.op(source, arg=x.arg)

    return _over(y, move)


def _push_rule(name: str, op: Primitive) -> Rule:
    pattern = Pat(op, Pat(ELEMENTWISE, name="y"), name="x")
    return Rule(name, pattern, _push, single_use="y", passes="y")


def _push_pad(x: Node, y: Node) -> Node | None:
    op = primitive_of(y)
    if not (op.zero_at_zero or op is select):
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


def _grown_axes(source: Node, shape: Shape) -> set[int]:
    before = source.src[0].shape
    return {a for a, n in enumerate(shape) if not same_size(n, before[a])}


def _pull_expand(y: Node) -> Node | None:
    views = [s for s in y.src if s.op is expand_p]
    if not views:
        return None
    grown = set[int].intersection(*[_grown_axes(v, y.shape) for v in views])
    if not grown:
        return None
    shape = tuple(1 if a in grown else n for a, n in enumerate(y.shape))

    def shrunk(source: Node) -> Node:
        if source.op is const_p:
            return move_constant(source, shape)
        return expand(source.src[0], shape)

    return expand(_over(y, shrunk), y.shape)


def _pull_expand_through_reduce(x: Node, view: Node) -> Node | None:
    axes = arg_of(x)
    grown = _grown_axes(view, view.shape).difference(axes)
    if not grown:
        return None
    shape = tuple(1 if a in grown else n for a, n in enumerate(view.shape))
    return expand(x.op(expand(view.src[0], shape), arg=axes), x.shape)


def _permute_before_reduce(x: Node, y: Node) -> Node:
    axes: tuple[int, ...] = arg_of(x)
    reduced = tuple(sorted(axes.index(a) for a in arg_of(y)))
    return y.op(permute(y.src[0], axes), arg=reduced)


def _shrink_before_reduce(x: Node, y: Node) -> Node:
    sizes = y.src[0].shape
    bounds = tuple(
        (0, sizes[a]) if a in arg_of(y) else bound for a, bound in enumerate(arg_of(x))
    )
    return y.op(shrink(y.src[0], bounds), arg=y.arg)


def _stride_before_reduce(x: Node, y: Node) -> Node:
    steps = tuple(1 if a in arg_of(y) else step for a, step in enumerate(arg_of(x)))
    return y.op(stride(y.src[0], steps), arg=y.arg)


def _push_copy(x: Node, inner: Node) -> Node:
    def without(source: Node) -> Node:
        return source.src[0] if source is inner else source

    return copy(_over(x, without))


_REPEATED = Pat((expand_p, const_p))

PUSHES: Final = (
    # shrink(f(x, …)) -> f(shrink(x), …)
    _push_rule("push_shrink_through_elementwise", shrink_p),
    # stride(f(x, …)) -> f(stride(x), …)
    _push_rule("push_stride_through_elementwise", stride_p),
    # permute(f(x, …)) -> f(permute(x), …)
    _push_rule("push_permute_through_elementwise", permute_p),
    # reshape(f(x, …)) -> f(reshape(x), …)
    _push_rule("push_reshape_through_elementwise", reshape_p),
    Rule(  # pad(f(x, …)) -> f(pad(x), …), where f(0, …) = 0
        "push_pad_through_elementwise",
        Pat(pad_p, Pat(ELEMENTWISE, name="y"), name="x"),
        _push_pad,
        single_use="y",
        passes="y",
    ),
    Rule(  # permute(reduce(x)) -> reduce(permute(x))
        "permute_before_reduce",
        Pat(permute_p, Pat(REDUCTIONS, name="y"), name="x"),
        _permute_before_reduce,
        single_use="y",
        passes="y",
    ),
    Rule(  # shrink(reduce(x)) -> reduce(shrink(x))
        "shrink_before_reduce",
        Pat(shrink_p, Pat(REDUCTIONS, name="y"), name="x", aval=lambda n: n.size > 0),
        _shrink_before_reduce,
        single_use="y",
        passes="y",
    ),
    Rule(  # stride(reduce(x)) -> reduce(stride(x))
        "stride_before_reduce",
        Pat(stride_p, Pat(REDUCTIONS, name="y"), name="x"),
        _stride_before_reduce,
        single_use="y",
        passes="y",
    ),
    Rule(  # f(expand(x), expand(y), …) -> expand(f(x, y, …))
        "pull_expand_through_elementwise",
        of_any_arity(lambda n: Pat(ELEMENTWISE, *[_REPEATED] * n, name="y")),
        _pull_expand,
    ),
    Rule(  # reduce[a](expand[b](x)) -> expand[b](reduce[a](x))
        "pull_expand_through_reduce",
        Pat(REDUCTIONS, Pat(expand_p, name="view"), name="x"),
        _pull_expand_through_reduce,
    ),
    Rule(  # f(copy(x), …) -> copy(f(x, …))
        "push_copy_through_elementwise",
        tuple(
            Pat(
                ELEMENTWISE,
                *[Pat()] * i,
                Pat(copy, name="inner"),
                *[Pat()] * j,
                name="x",
            )
            for i in range(3)
            for j in range(3 - i)
        ),
        _push_copy,
        single_use="inner",
    ),
    Rule(  # movement(copy(x)) -> copy(movement(x)), where that is not larger
        "push_copy_through_movement",
        Pat(
            (shrink_p, stride_p, permute_p, reshape_p),
            Pat(copy, name="inner"),
            name="x",
        ),
        _push_copy,
        single_use="inner",
    ),
)
