"""Sums over windows that slide: the gradient of a convolution by its input.

    sum[k](unshear(sum[o](g·w)))    the sum over o is stored for each k, then spread
    sum[k, o](unshear(g)·w)         one contraction, of the spread factor

The second form is what a convolution looks like: g with zeros around it, and w. It does
as much work where windows move by one; with larger strides it would multiply the zeros
between the elements of g.

An infinite w meets those zeros, as it meets the padding of any convolution.

Windows side by side share no element, so that a sum over them only interleaves:

    sum[k](unshear[stride s](y))[i] = y[i div s, i mod s]
"""

from __future__ import annotations

from typing import Final

from ftrace.lower.constants import arg_of
from ftrace.trace.dims import any_dynamic, is_dynamic
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand, expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.movement import (
    Shear,
    pad,
    permute,
    permute_p,
    reshape,
    reshape_p,
    shrink,
    unshear_p,
)
from ftrace.trace.primitives.source import const_like
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


def _interleave(x: Node, y: Node, view: Node | None = None) -> Node | None:
    arg: Shear = arg_of(y)
    source = y.src[0]
    if view is not None:  # the window slides after its axes are permuted
        order: tuple[int, ...] = arg_of(view)
        source = permute(source, order)
        axis, window = order.index(arg.axis), order.index(arg.window)
        arg = arg._replace(axis=axis, window=window)
    count, outputs = source.shape[arg.window], source.shape[arg.axis]
    if arg_of(x) != (arg.window,) or arg.dilation != 1 or count > arg.stride:
        return None
    if any_dynamic(y.shape) or is_dynamic(outputs):
        return None
    axes = range(source.ndim)
    gap = arg.stride - count
    whole = pad(source, tuple((0, gap if a == arg.window else 0, 0) for a in axes))
    rest = [a for a in axes if a != arg.window]
    at = rest.index(arg.axis)
    beside = permute(whole, (*rest[: at + 1], arg.window, *rest[at + 1 :]))
    length = outputs * arg.stride
    sizes = [source.shape[a] for a in rest]
    shape = (*sizes[:at], length, *sizes[at + 1 :])
    line = reshape(beside, shape)
    bounds = [(0, n) for n in shape]
    bounds[at] = (0, min(length, arg.size))
    line = shrink(line, tuple(bounds))
    behind = max(arg.size - length, 0)
    line = pad(line, tuple((0, behind if a == at else 0, 0) for a in range(len(shape))))
    found = reshape(line, x.shape)
    return add(found, const_like(found, 0))  # as a sum, it has no -0


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
    Rule(  # sum[k](unshear[k](y)) -> reshape(y), where windows lie side by side
        "windows_side_by_side",
        (
            Pat(reduce_sum_p, Pat(unshear_p, name="y"), name="x"),
            Pat(
                reduce_sum_p,
                Pat(permute_p, Pat(unshear_p, name="y"), name="view"),
                name="x",
            ),
        ),
        _interleave,
        single_use="y",
    ),
)
