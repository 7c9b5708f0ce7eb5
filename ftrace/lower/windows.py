"""Sums over windows that slide: the gradient of a convolution by its input.

    sum[k](unshear(sum[o](g·w)))    the sum over o is stored for each k, then spread
    sum[k, o](unshear(g)·w)         one contraction, of the spread factor

The second form is what a convolution looks like: g with zeros around it, and w. It does
as much work where windows move by one; with larger strides it would multiply the zeros
between the elements of g.

An infinite w meets those zeros, as it meets the padding of any convolution.
"""

from __future__ import annotations

from typing import Final

from ftrace.lower.constants import arg_of
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand, expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import mul
from ftrace.trace.primitives.movement import Shear, reshape, reshape_p, unshear_p
from ftrace.trace.rewrite import Pat, Rule


def _slide_product(
    x: Node, total: Node, y: Node, view: Node | None = None
) -> Node | None:
    arg: Shear = arg_of(x)
    inner = _through(arg, total if view is None else view, total)
    if inner is None or arg.stride != 1 or 2 * arg.size > 3 * y.shape[inner.axis]:
        return None
    if {inner.axis, inner.window} & set(arg_of(total)):
        return None
    a, b = y.src
    if not _is_repeated(b, inner.axis):
        a, b = b, a
    if not _is_repeated(b, inner.axis):
        return None
    slid = unshear_p(a, arg=inner)
    product = mul(slid, expand(b.src[0], slid.shape))
    return reshape(reduce_sum_p(product, arg=total.arg), x.shape)


def _through(arg: Shear, view: Node, total: Node) -> Shear | None:
    """The same before a reshape that only moves axes of size 1."""
    ahead = [a for a, n in enumerate(view.shape) if n != 1]
    behind = [a for a, n in enumerate(total.shape) if n != 1]
    if [view.shape[a] for a in ahead] != [total.shape[a] for a in behind]:
        return None
    same = dict(zip(ahead, behind, strict=True))
    if arg.axis not in same or arg.window not in same:
        return None
    return arg._replace(axis=same[arg.axis], window=same[arg.window])


def _is_repeated(node: Node, axis: int) -> bool:
    """Is it the same along an axis?"""
    return node.op is expand_p and node.src[0].shape[axis] == 1


_PRODUCT = Pat(reduce_sum_p, Pat(mul, name="y"), name="total")

WINDOWS: Final = (
    Rule(  # unshear(sum[a](x·expand(y))) -> sum[a](unshear(x)·expand(y))
        "slide_before_sum_of_products",
        (
            Pat(unshear_p, _PRODUCT, name="x"),
            Pat(unshear_p, Pat(reshape_p, _PRODUCT, name="view"), name="x"),
        ),
        _slide_product,
        single_use="total y",
    ),
)
