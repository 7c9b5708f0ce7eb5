"""Sums over windows that slide: the gradient of a convolution by its input.

    sum[k](unshear(sum[o](g·w)))    the sum over o is stored for each k, then spread
    sum[k, o](unshear(g)·w)         one contraction, of the spread factor

The second form is what a convolution looks like: g with zeros around it, and w. It does
as much work where windows move by one; with larger strides it would multiply the zeros
between the elements of g.

An infinite w meets those zeros, as it meets the padding of any convolution.

Where only a part of the result is read, as by a convolution that was padded, only that
part counts.

What is the same in all windows along one axis, as is the mean of a pooling, is so after
windows slid along another, and is added up once for all of them.

Windows side by side share no element, so that a sum over them only interleaves:

    sum[k](unshear[stride s](y))[i] = y[i div s, i mod s]

    x̄ = sum[k](unshear(select(shear(x) == m, q, 0)))

The gradient of a pooling by the greatest element is what windows choose: each gives its
share q to the elements that are equal to its maximum m. Taken literally, a sum is
stored for each place in a window before windows slide along the next axis. Sliding back
before choosing, each element asks the few windows that see it, and adds up what they
give in one kernel:

    x̄ = sum[k](select(x == unshear(m), unshear(q), 0))

Where there is no window both choices are zero, whatever is compared. Windows side by
side are left alone: no element is in two of them.
"""

from __future__ import annotations

from typing import Any, Final

from ftrace.lower.analysis import same_axes
from ftrace.lower.simplify.algebra import arg_of, is_bits
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives import broadcast as bc, elementwise as p, movement as mv
from ftrace.trace.primitives.sources import const_like
from ftrace.trace.rewrite import Pat, Rule
from ftrace.trace.symbolic import any_dynamic, is_dynamic, same_size

#: Windows that move further are left to themselves: zeros would be most of the work.
#: With 1 a convolution's gradient by images, strided 16 of 32→64, stores 6 MB.
MOST_STRIDE = 4


def _unshear_product(
    x: Node,
    y: Node,
    total: Node | None = None,
    view: Node | None = None,
    part: Node | None = None,
) -> Node | None:
    arg: mv.Shear = arg_of(x)
    inner = arg if view is None else through(arg, view)
    read = arg.size if part is None else part.shape[arg.axis]
    if is_dynamic(read) or inner is None:
        return None
    if not _is_dense(arg, read, y.shape[inner.axis], x.shape[arg.window]):
        return None
    summed: tuple[int, ...] = () if total is None else arg_of(total)
    if {inner.axis, inner.window} & set(summed):
        return None
    a, b = y.src
    if not _is_repeated(b, inner.axis):
        a, b = b, a
    if not _is_repeated(b, inner.axis):
        return None
    slid = mv.unshear_p(a, arg=inner)
    product = p.mul(slid, bc.expand(b.src[0], slid.shape))
    if total is not None:
        product = bc.reduce_sum_p(product, arg=summed)
    found = mv.reshape(product, x.shape)
    return found if part is None else mv.shrink(found, arg_of(part))


def _unshear_in_sum(
    whole: Node, x: Node, y: Node, view: Node | None = None, part: Node | None = None
) -> Node | None:
    """Only in a sum: products with the zeros around it may be -0."""
    found = _unshear_product(x, y, None, view, part)
    return None if found is None else bc.reduce_sum_p(found, arg=whole.arg)


def _is_dense(arg: mv.Shear, read: int, outputs: Any, taps: int) -> bool:
    """Is most of what is read of the spread factor not padding?

    The zeros of strides do not count.

    Windows side by side are put in their places afterwards: see `_interleave`.
    """
    if is_dynamic(outputs) or arg.stride > MOST_STRIDE:
        return False
    if arg.stride > 1 and taps <= arg.stride:
        return False
    return 2 * read <= 3 * arg.stride * outputs


def through(arg: mv.Shear, view: Node) -> mv.Shear | None:
    """The same before a reshape that leaves its axes as they are."""
    steps = same_axes(view.src[0].shape, view.shape)
    if arg.axis not in steps or arg.window not in steps:
        return None
    return arg._replace(axis=steps.index(arg.axis), window=steps.index(arg.window))


def _is_repeated(node: Node, axis: int) -> bool:
    """Is it the same along an axis?"""
    return node.op is bc.expand_p and same_size(node.src[0].shape[axis], 1)


def _shrink_before(x: Node, y: Node) -> Node | None:
    """Cuts the axes that do not slide before the one that does."""
    arg: mv.Shear = arg_of(y)
    bounds: tuple[tuple[int, int], ...] = arg_of(x)
    if any_dynamic(y.shape):
        return None
    slid = (arg.axis, arg.window)
    (source,) = y.src
    inner = tuple(
        (0, n) if a in slid else b
        for a, (b, n) in enumerate(zip(bounds, source.shape, strict=True))
    )
    found = mv.shrink(source, inner)
    if found is source:
        return None
    found = mv.unshear_p(found, arg=arg)
    rest = tuple(
        b if a in slid else (0, n)
        for a, (b, n) in enumerate(zip(bounds, found.shape, strict=True))
    )
    return mv.shrink(found, rest)


def _expand_after(x: Node, y: Node) -> Node | None:
    """Repeats along the axes that do not slide what slid along the others."""
    arg: mv.Shear = arg_of(x)
    (source,) = y.src
    if any_dynamic(x.shape):
        return None
    slid = (arg.axis, arg.window)
    pairs = zip(source.shape, y.shape, strict=True)
    inner = tuple(n if a in slid else m for a, (m, n) in enumerate(pairs))
    if same_size(inner, y.shape):
        return None
    return bc.expand(mv.unshear_p(bc.expand(source, inner), arg=arg), x.shape)


def _interleave(x: Node, y: Node, view: Node | None = None) -> Node | None:
    arg: mv.Shear = arg_of(y)
    source = y.src[0]
    if view is not None:  # the window slides after its axes are permuted
        order: tuple[int, ...] = arg_of(view)
        source = mv.permute(source, order)
        axis, window = order.index(arg.axis), order.index(arg.window)
        arg = arg._replace(axis=axis, window=window)
    count, outputs = source.shape[arg.window], source.shape[arg.axis]
    if arg_of(x) != (arg.window,) or arg.dilation != 1 or count > arg.stride:
        return None
    if any_dynamic(y.shape) or is_dynamic(outputs):
        return None
    axes = range(source.ndim)
    gap = arg.stride - count
    whole = mv.pad(source, tuple((0, gap if a == arg.window else 0, 0) for a in axes))
    rest = [a for a in axes if a != arg.window]
    at = rest.index(arg.axis)
    interleaved = mv.permute(whole, (*rest[: at + 1], arg.window, *rest[at + 1 :]))
    length = outputs * arg.stride
    sizes = [source.shape[a] for a in rest]
    shape = (*sizes[:at], length, *sizes[at + 1 :])
    line = mv.reshape(interleaved, shape)
    bounds = [(0, n) for n in shape]
    bounds[at] = (0, min(length, arg.size))
    line = mv.shrink(line, tuple(bounds))
    behind = max(arg.size - length, 0)
    line = mv.pad(
        line, tuple((0, behind if a == at else 0, 0) for a in range(len(shape)))
    )
    found = mv.reshape(line, x.shape)
    return p.add(found, const_like(found, 0))  # as a sum, it has no -0


def _sum_before_reshape(x: Node, view: Node, total: Node, y: Node) -> Node | None:
    del y
    steps = same_axes(total.shape, view.shape)
    axes: tuple[int, ...] = arg_of(x)
    if not set(axes) <= set(steps):
        return None
    found = tuple(sorted(steps.index(a) for a in axes))
    return mv.reshape(bc.reduce_sum_p(total, arg=found), x.shape)


def _slid(below: Pat) -> tuple[Pat, ...]:
    """A value, or a reshaped one, whose windows slide."""
    views = below, Pat(mv.reshape_p, below, name="view")
    return tuple([Pat(mv.unshear_p, view, name="x") for view in views])


_PRODUCT = Pat(bc.reduce_sum_p, Pat(p.mul, name="y"), name="total")
_SPREAD = _slid(Pat(p.mul, name="y"))
_SPREAD_SUM = _slid(_PRODUCT)

WINDOWS: Final = (
    # unshear(sum[a](x·expand(y))) -> sum[a](unshear(x)·expand(y))
    Rule(
        "unshear_before_sum_of_products",
        _SPREAD_SUM,
        _unshear_product,
        single_use="total y",
    ),
    # sum[a](unshear(x·expand(y))) -> sum[a](unshear(x)·expand(y))
    Rule(
        "unshear_before_product",
        tuple(Pat(bc.reduce_sum_p, spread, name="whole") for spread in _SPREAD),
        _unshear_in_sum,
        single_use="x y",
    ),
    # shrink(unshear(sum[a](x·y))) -> shrink(sum[a](unshear(x)·y))
    Rule(
        "unshear_before_sum_of_products_under_shrink",
        tuple(Pat(mv.shrink_p, spread, name="part") for spread in _SPREAD_SUM),
        _unshear_product,
        single_use="x total y",
    ),
    # sum[a](shrink(unshear(x·y))) -> sum[a](shrink(unshear(x)·y))
    Rule(
        "unshear_before_product_under_shrink",
        tuple(
            Pat(
                bc.reduce_sum_p,
                Pat(mv.shrink_p, spread, name="part"),
                name="whole",
            )
            for spread in _SPREAD
        ),
        _unshear_in_sum,
        single_use="part x y",
    ),
    # shrink(unshear(x)) -> unshear(shrink(x)), along axes that do not slide
    Rule(
        "shrink_before_unshear",
        Pat(mv.shrink_p, Pat(mv.unshear_p, name="y"), name="x"),
        _shrink_before,
        single_use="y",
        passes="y",
    ),
    # unshear(expand(x)) -> expand(unshear(x)), along axes that do not slide
    Rule(
        "expand_after_unshear",
        Pat(mv.unshear_p, Pat(bc.expand_p, name="y"), name="x"),
        _expand_after,
        single_use="y",
    ),
    # sum[a](reshape(sum[b](x·y))) -> reshape(sum[a, b](x·y))
    Rule(
        "sum_products_before_reshape",
        Pat(bc.reduce_sum_p, Pat(mv.reshape_p, _PRODUCT, name="view"), name="x"),
        _sum_before_reshape,
        single_use="view total y",
    ),
    # sum[k](unshear[k](y)) -> reshape(y), where windows lie side by side
    Rule(
        "fold_disjoint_windows",
        (
            Pat(bc.reduce_sum_p, Pat(mv.unshear_p, name="y"), name="x"),
            Pat(
                bc.reduce_sum_p,
                Pat(mv.permute_p, Pat(mv.unshear_p, name="y"), name="view"),
                name="x",
            ),
        ),
        _interleave,
        single_use="y",
    ),
)


def _choose(
    x: Node, y: Node, total: Node | None = None, view: Node | None = None
) -> Node | None:
    arg: mv.Shear = arg_of(x)
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
        whole = _before_unshear(seen, inner)
        if whole is not None:
            return _ask_windows(x, whole, extremum, share, inner, summed)
    return None


def _ask_windows(
    x: Node,
    whole: Node,
    extremum: Node,
    share: Node,
    arg: mv.Shear,
    summed: tuple[int, ...],
) -> Node:
    """What `x` is, where each element asks the windows that see it."""
    share = mv.unshear_p(share, arg=arg)
    mine = p.eq(whole, mv.unshear_p(extremum, arg=arg))
    found = p.select(mine, share, const_like(share, 0))
    if summed:
        found = bc.reduce_sum_p(found, arg=summed)
    return mv.reshape(found, x.shape)


def _before_unshear(node: Node, arg: mv.Shear) -> Node | None:
    """What slid there, for each place in the window, if a window did."""
    source = node.src[0] if node.src else node
    if node.op is mv.shear_p:
        own: mv.Shear = arg_of(node)
        same = same_size(own._replace(size=0), arg._replace(size=0))
        return source if same and same_size(source.shape[arg.axis], arg.size) else None
    if node.op is bc.expand_p:
        if not same_size(source.shape[arg.axis], node.shape[arg.axis]):
            return None
        if not same_size(source.shape[arg.window], node.shape[arg.window]):
            return None
        found = _before_unshear(source, arg)
        return None if found is None else bc.expand(found, _old_shape(node.shape, arg))
    if node.op is mv.reshape_p:
        inner = through(arg, node)
        found = None if inner is None else _before_unshear(source, inner)
        return None if found is None else mv.reshape(found, _old_shape(node.shape, arg))
    if node.op is mv.shrink_p:
        bounds = list(arg_of(node))
        slid = (arg.axis, arg.window)
        if any(not same_size(bounds[a], (0, source.shape[a])) for a in slid):
            return None
        found = _before_unshear(source, arg)
        bounds[arg.axis] = (0, arg.size)
        return None if found is None else mv.shrink(found, tuple(bounds))
    return None


def _old_shape(shape: Shape, arg: mv.Shear) -> Shape:
    """The shape with the axis as it was before windows slid along it."""
    return tuple(arg.size if a == arg.axis else n for a, n in enumerate(shape))


_CHOICE = Pat(p.select, Pat(p.eq), Pat(), Pat(), name="y")
_SUM = Pat(bc.reduce_sum_p, _CHOICE, name="total")

CHOICES: Final = (
    # unshear(select(shear(x) == m, q, 0)) -> select(x == unshear(m), …, 0)
    Rule("unshear_before_select", _slid(_CHOICE), _choose, single_use="y"),
    # unshear(sum[a](select(shear(x) == …, …))) -> sum[a](select(x == …, …))
    Rule("unshear_before_sum_of_selects", _slid(_SUM), _choose, single_use="total y"),
)
