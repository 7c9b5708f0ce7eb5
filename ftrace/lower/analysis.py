"""Facts about graphs that several stages ask for: costs, and axes that run in step.

    reshape(x), barrier(x)   have the memory of x, their *root*
    sum(a * b)               is a *contraction* where a and b are both used again: see
                             `elementwise.product_of_contraction`
    sin(x) + 1               has a *weight* of 10 + 1 operations for each element

    y = x + z                axis a of y is axis a of x and of z
    y = permute(x)           …is the axis of x that stands there
    y = sum[k](x)            the axes of x but k

An operation is *in step* along an axis if a slice of its result needs, of each operand
that has the axis, the same slice only. `slice_op` makes the operation over slices.

The answers depend on the graph alone: no stage's decisions change them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from itertools import product
from math import prod

from ftrace import dtypes
from ftrace.ground.tables import memo
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node, Op, has_any, make_node
from ftrace.trace.graph_map import convert
from ftrace.trace.primitives import broadcast as bc, elementwise as p, movement as mv
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.primitives.primitive import ELEMENTWISE, Compound, Primitive, item_p
from ftrace.trace.primitives.sources import const, const_p, iota, iota_p
from ftrace.trace.symbolic import any_dynamic, is_dynamic, same_size, upper_bound

#: Operations that are rather done again than stored and loaded. With none the gradient
#: of maxima of 2×2 is four kernels, not two, and n-body forces of 1024 store 17 MB, not
#: 4; from 2 to 20 only transformer blocks differ, by 4 % of their memory.
CHEAP = 4
#: Operations that may be done again inside one kernel. With 10 a softmax of 2048² is
#: two kernels and stores 17 MB; with 160 one row differs (Gaussian process, 256).
RECOMPUTE = 40


def is_step(node: Node) -> bool:
    """Is it an operation that is a step of the program, or one of its results?"""
    return node.op is item_p or isinstance(node.op, Compound)


def root_of(node: Node) -> Node:
    """The value whose memory a value is: reshapes and barriers share it."""
    while True:
        if node.op is mv.reshape_p:
            node = node.src[0]
        elif node.op is item_p and node.src[0].op.family == "barrier":
            number: int = node.arg
            node = node.src[0].src[number]
        else:
            return node


def squeeze(shape: Shape) -> Shape:
    return tuple(n for n in shape if not same_size(n, 1))


def is_contraction(node: Node) -> bool:
    """Is it a contraction: matmul, convolution?"""
    return p.product_of_contraction(node) is not None


def reduced_axes(node: Node) -> list[int]:
    axes: tuple[int, ...] = node.arg
    return [a for a in sorted(axes) if not same_size(node.src[0].shape[a], 1)]


def elements_of_sum(node: Node) -> Node:
    """What a sum adds up, in the shape and the dtype in which it is computed."""
    node = root_of(node.src[0])
    while node.op is p.cast_p:
        node = root_of(node.src[0])
    return node


def find_shared_dear(order: Iterable[Node]) -> set[Node]:
    """Values with several users that are rather stored than computed again."""
    used: set[Node] = set()
    found: set[Node] = set()
    for node in order:
        for source in set(node.src):
            if source in used and weight(source) > CHEAP:
                found.add(source)
            used.add(source)
    return found


#: Values that are looked at for what two have in common. With 16 a transformer block
#: 4×256×256 is a kernel more, with 256 no row differs.
NEAR = 64


def nodes_near(
    root: Node, most: int, below: Callable[[Node], Iterable[Node]]
) -> dict[Node, None]:
    """What `below` leads to from a value, itself first, until it is so many values."""
    seen = {root: None}
    pending = [root]
    while pending and len(seen) < most:
        for source in below(pending.pop()):
            if source not in seen:
                seen[source] = None
                pending.append(source)
    return seen


def nbytes(node: Node) -> int:
    """Bytes of a value; 0 where its size is dynamic."""
    size = node.aval.size
    return 0 if is_dynamic(size) else size * node.dtype.itemsize


def weight(node: Node) -> int:
    """Operations that one element of a node costs, its operands aside."""
    return _weight_of(node.op)


@memo(1024)
def _weight_of(op: Op) -> int:
    if op.family in ("movement", "source", "identity", "cast"):
        return 0
    if op.family == "reduction":
        return 2
    if op.family == "indexing":
        return 3
    return op.cost if isinstance(op, Primitive) else 1


# Which axes of an operation and of its operands run in step, and the same on slices.

#: Answers about shapes that are remembered: they are the same ones layer after layer.
#: With 2⁸ 20 more are computed in all rows together, with 2¹² none fewer.
RECENT = 1 << 10
#: Movements that neither leave out an element nor add one.
KEEPING = (bc.expand_p, mv.permute_p, mv.reshape_p)
#: For each axis of an operand the axis of the result that runs in step; None is none.
Steps = tuple[int | None, ...]


def is_followed(node: Node) -> bool:
    """Does this file know the operation?"""
    family = node.op.family
    return family in (*ELEMENTWISE, "reduction", "movement") or node.op is gather_p


def axes_in_step(node: Node) -> list[Steps]:
    """Per operand, the axes of the result with which its axes run in step."""
    family = node.op.family
    if family in ELEMENTWISE:
        return [tuple(range(s.ndim)) for s in node.src]
    if family == "reduction":
        return [tuple(None if a in node.arg else a for a in range(node.ndim))]
    if node.op is gather_p:
        return _steps_of_gather(node)
    return [_steps_of_movement(node)] if family == "movement" else [()] * len(node.src)


def _steps_of_movement(node: Node) -> Steps:
    (x,), arg = node.src, node.arg
    if node.op is mv.permute_p:
        return tuple(arg.index(a) for a in range(x.ndim))
    if node.op is mv.reshape_p:
        return same_axes(x.shape, node.shape)
    if node.op is bc.expand_p:
        pairs = enumerate(zip(x.shape, node.shape, strict=True))
        return tuple(a if same_size(n, m) else None for a, (n, m) in pairs)
    if node.op is mv.pad_p:
        return tuple(None if any(p) else a for a, p in enumerate(arg))
    if node.op is mv.shrink_p:
        sizes = enumerate(zip(arg, x.shape, strict=True))
        return tuple(
            a if same_size(bounds, (0, n)) else None for a, (bounds, n) in sizes
        )
    if node.op is mv.stride_p:
        return tuple(a if step == 1 else None for a, step in enumerate(arg))
    if node.op in (mv.shear_p, mv.unshear_p):
        # Where an element goes depends on its place in the window, too.
        return tuple(None if a in (arg.axis, arg.window) else a for a in range(x.ndim))
    return (None,) * x.ndim


@memo(RECENT)
def same_axes(old: Shape, new: Shape) -> Steps:
    """For each axis the one that a reshape makes of it, as long and at its place."""
    if any_dynamic((*old, *new)):
        return tuple(a if same_size(old, new) else None for a in range(len(old)))
    behind = {
        (prod(new[:a]), n): a for a, n in enumerate(new) if not same_size(n, 1)
    }  # elements before it, and its size
    return tuple(behind.get((prod(old[:a]), n)) for a, n in enumerate(old))


@memo(RECENT)
def reshape_groups(old: Shape, new: Shape) -> list[tuple[slice, slice]]:
    """Which axes of a reshape belong together: the fewest known to be of one size."""
    groups: list[tuple[slice, slice]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        ends = product(
            range(min(i + 1, len(old)), len(old) + 1),
            range(min(j + 1, len(new)), len(new) + 1),
        )
        a, b = next(
            (a, b)
            for a, b in sorted(ends, key=sum)
            if same_size(prod(old[i:a]), prod(new[j:b]))
        )
        groups.append((slice(i, a), slice(j, b)))
        i, j = a, b
    return groups


def axis_below(node: Node, axis: int) -> int | None:
    """The axis of a movement's operand that runs as `axis` of the node does."""
    (steps,) = axes_in_step(node)
    return steps.index(axis) if axis in steps else None


def _steps_of_gather(node: Node) -> list[Steps]:
    """The rest follows the axes of the indices; an axis counted through stays."""
    axes: tuple[int, ...] = node.arg
    x, *arrays = node.src
    depth = arrays[0].ndim
    steps: list[int | None] = []
    rest = depth
    for a in range(x.ndim):
        if a in axes:
            steps.append(counted_axis(arrays[axes.index(a)], x.shape[a]))
        else:
            steps.append(rest)
            rest += 1
    return [tuple(steps), *(tuple(range(depth)) for _ in arrays)]


def counted_axis(index: Node, size: int) -> int | None:
    """The axis along which an index array counts 0, 1, … size - 1; None is none."""
    chain: list[Node] = []
    while (index.op is p.cast_p and _counts_to(index, size)) or index.op in KEEPING:
        if index.op is not p.cast_p:
            chain.append(index)
        (index,) = index.src
    if index.op is not iota_p or not _counts_to(index, size):
        return None
    axis: int | None = index.arg
    if not same_size(index.shape[axis or 0], size):
        return None
    for node in reversed(chain):
        if axis is not None:
            axis = _steps_of_movement(node)[axis]
    return axis


def counts_along(node: Node, axis: int) -> bool:
    """Is the node, everywhere, the position along the axis?"""
    return counted_axis(node, node.shape[axis]) == axis


def find_counted_axis(index: Node) -> int | None:
    """The axis, of more than one place, along which an index array counts."""
    long = [a for a, n in enumerate(index.shape) if not same_size(n, 1)]
    return next((a for a in long if counts_along(index, a)), None)


def _counts_to(index: Node, size: int) -> bool:
    """Has its dtype all of the positions below `size`?"""
    last = upper_bound(size) - 1
    return dtypes.is_integer(index.dtype) and last <= dtypes.limits(index.dtype)[1]


def positions_by_axes(outputs: Sequence[Node], least: int) -> Sequence[Node]:
    """The outputs with positions in arrays of `least` bytes (for noise) by axes."""
    if not has_any(outputs, (iota_p,)):
        return outputs

    def by_axes(node: Node, read: Collection[int]) -> Node | None:
        return split_count(node) if nbytes(node) >= least else None

    return convert(outputs, {mv.reshape_p: by_axes})


def split_count(node: Node) -> Node | None:
    """Positions in all of an array as a sum of those along its axes; None if not so.

    reshape[n, m](iota[n·m]) -> iota[n, m; axis 0]·m + iota[n, m; axis 1], of integers
    """
    if node.op is not mv.reshape_p or dtypes.kind(node.dtype) not in "iu":
        return None
    (source,) = node.src
    if source.op is not iota_p or source.ndim != 1 or source.size < 2:
        return None
    parts: list[Node] = []
    stride = node.size
    for axis, size in enumerate(node.shape):
        stride //= size
        if same_size(size, 1):
            continue
        along = iota(node.dtype, node.shape, axis)
        if stride > 1:
            along = p.mul(along, const(stride, node.dtype, node.shape))
        parts.append(along)
    return reduce(p.add, parts) if parts else None


# The same on slices.


def slice_op(node: Node, src: Sequence[Node], shape: Shape) -> Node:
    """The operation over slices of its operands; its result has `shape`.

    Along axes that are cut all operands must be in step, or of size 1.
    """
    op, arg = node.op, node.arg
    if op is mv.reshape_p:
        return mv.reshape(src[0], shape)
    if op is bc.expand_p:
        return bc.expand(src[0], shape)
    if op is const_p:
        return make_node(const_p, node.aval.with_shape(shape), (), arg)
    if op is iota_p:
        return iota(node.dtype, shape, arg)
    if op is gather_p:
        return op(src[0], *_counting_anew(node, src), arg=arg)
    if op is mv.shrink_p:
        given = zip(arg, src[0].shape, shape, strict=True)
        arg = tuple((0, n) if same_size(n, m) else bounds for bounds, n, m in given)
    if isinstance(arg, mv.Shear):
        arg = arg._replace(size=shape[arg.axis])
    return op(*src, arg=arg)


def _counting_anew(node: Node, src: Sequence[Node]) -> list[Node]:
    """Index arrays over slices: what counts along an axis counts from the slice on."""
    axes: tuple[int, ...] = node.arg
    found: list[Node] = []
    for axis, whole, index in zip(axes, node.src[1:], src[1:], strict=True):
        along = counted_axis(whole, node.src[0].shape[axis])
        if along is not None and not same_size(index.shape[along], whole.shape[along]):
            ones = tuple(n if a == along else 1 for a, n in enumerate(index.shape))
            index = bc.expand(iota(index.dtype, ones, along), index.shape)
        found.append(index)
    return found
