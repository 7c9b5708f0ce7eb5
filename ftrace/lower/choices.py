"""What windows choose: the gradient of a pooling by the greatest element.

    x̄ = sum[k](unshear(select(shear(x) == m, q, 0)))

Each window gives its share q to the elements that are equal to its maximum m. Taken
literally, a sum is stored for each place in a window before windows slide along the
next axis. Sliding back before choosing, each element asks the few windows that see it,
and adds up what they give in one kernel:

    x̄ = sum[k](select(x == unshear(m), unshear(q), 0))

Where there is no window both choices are zero, whatever is compared. Windows side by
side are left alone: no element is in two of them.
"""

from __future__ import annotations

from typing import Final

from ftrace.lower.constants import arg_of, is_bits
from ftrace.lower.windows import MOST_STRIDE, through
from ftrace.trace.avals import Shape
from ftrace.trace.dims import any_dynamic, same_size
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand, expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import eq, select
from ftrace.trace.primitives.movement import (
    Shear,
    reshape,
    reshape_p,
    shear_p,
    shrink,
    shrink_p,
    unshear_p,
)
from ftrace.trace.primitives.source import const_like
from ftrace.trace.rewrite import Pat, Rule


def _choose(
    x: Node, y: Node, total: Node | None = None, view: Node | None = None
) -> Node | None:
    arg: Shear = arg_of(x)
    inner = arg if view is None else through(arg, view)
    if inner is None or any_dynamic(x.shape) or any_dynamic(y.shape):
        return None
    taps = y.shape[inner.window]
    if taps <= inner.stride or inner.stride > MOST_STRIDE:
        return None
    summed: tuple[int, ...] = () if total is None else arg_of(total)
    if {inner.axis, inner.window} & set(summed):
        return None
    condition, share, other = y.src
    if not is_bits(other, 0):
        return None
    for seen, extremum in (condition.src, condition.src[::-1]):
        whole = _before_sliding(seen, inner)
        if whole is not None:
            return _chosen(x, whole, extremum, share, inner, summed)
    return None


def _chosen(
    x: Node,
    whole: Node,
    extremum: Node,
    share: Node,
    arg: Shear,
    summed: tuple[int, ...],
) -> Node:
    """What `x` is, where each element asks the windows that see it."""
    share = unshear_p(share, arg=arg)
    mine = eq(whole, unshear_p(extremum, arg=arg))
    found = select(mine, share, const_like(share, 0))
    if summed:
        found = reduce_sum_p(found, arg=summed)
    return reshape(found, x.shape)


def _before_sliding(node: Node, arg: Shear) -> Node | None:
    """What slid there, for each place in the window, if a window did."""
    source = node.src[0] if node.src else node
    if node.op is shear_p:
        own: Shear = arg_of(node)
        same = same_size(own._replace(size=0), arg._replace(size=0))
        return source if same and same_size(source.shape[arg.axis], arg.size) else None
    if node.op is expand_p:
        if not same_size(source.shape[arg.axis], node.shape[arg.axis]):
            return None
        if not same_size(source.shape[arg.window], node.shape[arg.window]):
            return None
        found = _before_sliding(source, arg)
        return None if found is None else expand(found, _resized(node.shape, arg))
    if node.op is reshape_p:
        inner = through(arg, node)
        found = None if inner is None else _before_sliding(source, inner)
        return None if found is None else reshape(found, _resized(node.shape, arg))
    if node.op is shrink_p:
        bounds = list(arg_of(node))
        slid = (arg.axis, arg.window)
        if any(not same_size(bounds[a], (0, source.shape[a])) for a in slid):
            return None
        found = _before_sliding(source, arg)
        bounds[arg.axis] = (0, arg.size)
        return None if found is None else shrink(found, tuple(bounds))
    return None


def _resized(shape: Shape, arg: Shear) -> Shape:
    """The shape with the axis as it was before windows slid along it."""
    return tuple(arg.size if a == arg.axis else n for a, n in enumerate(shape))


_CHOICE = Pat(select, Pat(eq), Pat(), Pat(), name="y")
_SUM = Pat(reduce_sum_p, _CHOICE, name="total")

CHOICES: Final = (
    Rule(  # unshear(select(shear(x) == m, q, 0)) -> select(x == unshear(m), …, 0)
        "slide_before_choice",
        (
            Pat(unshear_p, _CHOICE, name="x"),
            Pat(unshear_p, Pat(reshape_p, _CHOICE, name="view"), name="x"),
        ),
        _choose,
        single_use="y",
    ),
    Rule(  # unshear(sum[a](select(shear(x) == …, …))) -> sum[a](select(x == …, …))
        "slide_before_sum_of_choices",
        (
            Pat(unshear_p, _SUM, name="x"),
            Pat(unshear_p, Pat(reshape_p, _SUM, name="view"), name="x"),
        ),
        _choose,
        single_use="total y",
    ),
)
