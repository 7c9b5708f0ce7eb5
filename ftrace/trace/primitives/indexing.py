"""Gather and scatter by integer arrays.

    gather(x, i, j, arg=(1, 2))      y[b…, rest…] = x[…, i[b…], j[b…], …]
    scatter(x, u, i, arg=((0,), "add"))   x with u[b…, rest…] combined at i[b…]

The indices share one shape `b…`; the axes that are not indexed follow in order. Every
index of a gather is in bounds (the surface clamps or masks); a scatter drops updates
whose index is out of bounds, and combines duplicates in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Flags, Node, Nodes
from ftrace.trace.primitives import broadcast as bc, elementwise as p
from ftrace.trace.primitives.movement import move_axis, reshape
from ftrace.trace.primitives.numpy_sums import add_at
from ftrace.trace.primitives.primitive import Array, Primitive
from ftrace.trace.primitives.reference import maximum, minimum
from ftrace.trace.primitives.sources import const, const_like, iota, zeros_like
from ftrace.trace.symbolic import same_size

KINDS = ("set", "add", "mul", "min", "max")


def _rest(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(n for a, n in enumerate(shape) if a not in axes)


def _check_indices(
    axes: tuple[int, ...], x: ShapedArray, indices: Sequence[ShapedArray]
) -> Shape:
    assert len(axes) == len(indices), (axes, indices)
    assert list(axes) == sorted(set(axes) & set(range(x.ndim))), (axes, x)
    for index in indices:
        assert dtypes.is_integer(index.dtype), index
        assert same_size(index.shape, indices[0].shape), indices
    return indices[0].shape


def _infer_gather(
    axes: tuple[int, ...], x: ShapedArray, *indices: ShapedArray
) -> ShapedArray:
    batch = _check_indices(axes, x, indices)
    return x.with_shape(batch + _rest(x.shape, axes))


def _gather_value(
    aval: ShapedArray, axes: tuple[int, ...], x: Array, *indices: Array
) -> Array:
    if axes != tuple(range(len(axes))):
        x = np.moveaxis(x, axes, range(len(axes)))
    return x[tuple(indices)]


def _gather_tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    t = tangents[0]
    return None if t is None else gather(t, node.src[1:], node.arg)


def _transpose_gather(node: Node, ct: Node, i: int) -> Node:
    return scatter(zeros_like(node.src[0]), ct, node.src[1:], node.arg, "add")


def _batch_gather(node: Node, src: Nodes, batched: Flags) -> Node:
    axes: tuple[int, ...] = node.arg
    x, *indices = src
    shifted = tuple(a + 1 for a in axes)
    if not any(batched[1:]):
        depth = indices[0].ndim
        return move_axis(gather(x, indices, shifted), depth, 0)
    size = next(s.shape[0] for s, has in zip(src, batched, strict=True) if has)
    indices = [bc.broadcast_leading(i, (size, *node.src[1].shape)) for i in indices]
    if not batched[0]:
        return gather(x, indices, axes)
    lanes = _lane_index(indices[0])
    return gather(x, [lanes, *indices], (0, *shifted))


def _lane_index(index: Node) -> Node:
    """For each position of a batched index array, the number of its lane."""
    dtype = index.dtype if index.dtype.itemsize > 2 else dtypes.int32
    return iota(dtype, index.shape, 0)


gather_p = Primitive(
    "gather", "indexing", _infer_gather, _gather_value, _batch_gather,
    jvp=_gather_tangent, transpose=_transpose_gather, linear=(0,),
    direct=lambda aval, axes: (getitem, ()) if axes == (0,) else None,
    exact=True, moves=True, doc="elements at integer indices, which are in bounds",
)  # fmt: skip


def gather(x: Node, indices: Sequence[Node], axes: tuple[int, ...]) -> Node:
    """`x` at integer indices along `axes` (sorted); the shape is b… + rest…."""
    return gather_p(x, *indices, arg=axes)


# scatter


def _infer_scatter(
    arg: tuple[tuple[int, ...], str],
    x: ShapedArray,
    updates: ShapedArray,
    *indices: ShapedArray,
) -> ShapedArray:
    axes, kind = arg
    assert kind in KINDS, kind
    if kind in ("max", "min") and dtypes.kind(x.dtype) == "c":
        raise DtypeError(
            f"scatter: complex numbers have no {kind}imum at the places of an array of "
            "indices; compare their sizes: scatter abs(x), or real and imag apart"
        )
    batch = _check_indices(axes, x, indices)
    wanted = batch + _rest(x.shape, axes)
    assert same_size(updates.shape, wanted), (x, updates)
    assert updates.dtype == x.dtype, (x, updates)
    return x


def axes_and_kind(node: Node) -> tuple[tuple[int, ...], str]:
    """Along which axes a scatter has its indices, and how it combines."""
    return node.arg


#: What combines arrays, by the word that scatters and kernels have for it.
UFUNCS: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "min": minimum, "max": maximum,
}  # fmt: skip
#: (array, index, values): changes the array.
COMBINE_AT: dict[str, Callable[[Array, Any, Array], None]] = {
    **{kind: ufunc.at for kind, ufunc in UFUNCS.items()},
    "add": add_at,
}


def _scatter_value(
    aval: ShapedArray,
    arg: tuple[tuple[int, ...], str],
    x: Array,
    updates: Array,
    *indices: Array,
) -> Array:
    axes, kind = arg
    result = np.array(x)
    view = np.moveaxis(result, axes, range(len(axes)))
    inside = np.ones(indices[0].shape, bool)
    for index, size in zip(indices, view.shape, strict=False):
        inside &= (index >= 0) & (index < size)
    if inside.all():  # views: nothing is copied
        updates = updates.reshape(inside.size, *updates.shape[inside.ndim :])
        indices = tuple(index.reshape(-1) for index in indices)
    else:
        indices, updates = tuple(index[inside] for index in indices), updates[inside]
    if kind == "set":
        view[indices] = updates
    else:
        COMBINE_AT[kind](view, indices, updates)
    return result


def in_bounds(indices: Sequence[Node], sizes: Sequence[int]) -> Node:
    """Where all indices are inside the axes that they index."""
    inside: Node | None = None
    for index, size in zip(indices, sizes, strict=True):
        here = p.lt(index, const_like(index, size)) if _can_reach(index, size) else None
        if dtypes.kind(index.dtype) == "i":
            positive = p.ge(index, zeros_like(index))
            here = positive if here is None else p.bit_and(here, positive)
        if here is None:
            here = p.eq(index, index)
        inside = here if inside is None else p.bit_and(inside, here)
    assert inside is not None
    return inside


def _can_reach(index: Node, size: int) -> bool:
    return size <= dtypes.limits(index.dtype)[1]


def clamp(index: Node, size: int) -> Node:
    """The nearest index inside an axis of `size`."""
    if _can_reach(index, size):
        index = p.minimum(index, const_like(index, max(size - 1, 0)))
    if dtypes.kind(index.dtype) == "i":
        index = p.maximum(index, zeros_like(index))
    return index


def trailing(mask: Node, shape: Shape) -> Node:
    """`mask` with more axes at the end, to `shape`."""
    return bc.expand(reshape(mask, mask.shape + (1,) * (len(shape) - mask.ndim)), shape)


def read_back(x: Node, indices: Sequence[Node], axes: tuple[int, ...]) -> Node:
    """What stands at the indices of a scatter; zero for those out of bounds."""
    sizes = [x.shape[a] for a in axes]
    if 0 in sizes:
        return zeros_like(gather(x, indices, axes))
    safe = [clamp(i, n) for i, n in zip(indices, sizes, strict=True)]
    found = gather(x, safe, axes)
    mask = trailing(in_bounds(indices, sizes), found.shape)
    return p.select(mask, found, zeros_like(found))


def _winners(node: Node) -> Node:
    """Which updates of a "set" are still there at the end: the last ones."""
    axes, _ = axes_and_kind(node)
    _, _, *indices = node.src
    sizes = [node.shape[a] for a in axes]
    numbers = iota(dtypes.int32, (indices[0].size,), 0)
    numbers = reshape(numbers, indices[0].shape)
    places = tuple(range(len(sizes)))
    last = const(0, dtypes.int32, tuple(sizes))
    last = scatter(last, numbers, indices, places, "set")
    return p.eq(read_back(last, indices, places), numbers)


def _scatter_tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    axes, kind = axes_and_kind(node)
    x, updates, *indices = node.src
    t, u, *_ = tangents
    t, u = t or zeros_like(x), u or zeros_like(updates)
    if kind in ("add", "set"):
        return scatter(t, u, indices, axes, kind)
    if kind == "mul":
        ones = const_like(x, 1)
        kept = p.scale(t, scatter(ones, updates, indices, axes, "mul"))
        return scatter(kept, p.scale(u, _other_factors(node)), indices, axes, "add")
    read = read_back(node, indices, axes)
    here = p.bit_or(p.eq(x, node), _select_untouched(node))
    here, there = (p.cast(h, x.dtype) for h in (here, p.eq(updates, read)))
    count = scatter(here, there, indices, axes, "add")
    total = scatter(p.scale(t, here), p.scale(u, there), indices, axes, "add")
    return p.div(
        total, p.select(p.eq(count, zeros_like(count)), const_like(x, 1), count)
    )


def _other_factors(node: Node) -> Node:
    """For each update of a "mul", the product of all else that its element holds.

    It is the whole product divided by the update; beside one zero, the product of what
    is not zero, and beside more, zero.
    """
    axes, _ = axes_and_kind(node)
    x, updates, *indices = node.src
    is_zero = p.eq(updates, zeros_like(updates))
    factors = p.select(is_zero, const_like(updates, 1), updates)
    product = read_back(scatter(x, factors, indices, axes, "mul"), indices, axes)
    marks = p.cast(is_zero, dtypes.int32)
    counts = scatter(const(0, dtypes.int32, node.shape), marks, indices, axes, "add")
    zeros = read_back(counts, indices, axes)
    alone = p.eq(zeros, marks)  # no other update is zero
    return p.select(alone, p.div(product, factors), zeros_like(updates))


def _select_untouched(node: Node) -> Node:
    """Where a scatter leaves what was there: also a NaN, which equals nothing."""
    axes, _ = axes_and_kind(node)
    x, updates, *indices = node.src
    there = const(True, dtypes.bool_, x.shape)
    return scatter(
        there, const(False, dtypes.bool_, updates.shape), indices, axes, "set"
    )


def _transpose_scatter(node: Node, ct: Node, i: int) -> Node | None:
    axes, kind = axes_and_kind(node)
    _, updates, *indices = node.src
    if i == 0:
        if kind == "add":
            return ct
        return scatter(ct, zeros_like(updates), indices, axes, "set")
    found = read_back(ct, indices, axes)
    if kind == "add":
        return found
    return p.select(trailing(_winners(node), found.shape), found, zeros_like(found))


def _batch_scatter(node: Node, src: Nodes, batched: Flags) -> Node:
    axes, kind = axes_and_kind(node)
    size = next(s.shape[0] for s, has in zip(src, batched, strict=True) if has)
    x, updates, *indices = [
        bc.broadcast_leading(s, (size, *old.shape))
        for s, old in zip(src, node.src, strict=True)
    ]
    shifted = tuple(a + 1 for a in axes)
    return scatter(x, updates, [_lane_index(indices[0]), *indices], (0, *shifted), kind)


scatter_p = Primitive(
    "scatter", "indexing", _infer_scatter, _scatter_value, _batch_scatter,
    jvp=_scatter_tangent, transpose=_transpose_scatter, linear=(0, 1),
    doc="updates combined at integer indices; out of bounds is dropped",
)  # fmt: skip


def scatter(
    x: Node, updates: Node, indices: Sequence[Node], axes: tuple[int, ...], kind: str
) -> Node:
    """`x` with `updates` (b… + rest…) set, added, … at the indices along `axes`."""
    return scatter_p(x, updates, *indices, arg=(axes, kind))
