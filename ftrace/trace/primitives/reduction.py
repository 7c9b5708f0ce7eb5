"""Reductions along axes, which stay with size 1. The sum stands in `broadcast.py`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from ftrace import dtypes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node, Op
from ftrace.trace.primitives import broadcast, elementwise as p, minmax
from ftrace.trace.primitives.broadcast import Axes
from ftrace.trace.primitives.minmax import Extremum
from ftrace.trace.primitives.movement import pad, shrink_axis
from ftrace.trace.primitives.primitive import Array, Jvp, Primitive
from ftrace.trace.primitives.sources import const, zeros_like
from ftrace.trace.symbolic.dim import same_size


def identity_of(combine: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction of nothing gives: 0, 1, the least or the greatest value."""
    low, high = dtypes.limits(dtype)
    return {"add": 0, "mul": 1, "max": low, "min": high}[combine]


def identity(primitive: Op, dtype: np.dtype[Any]) -> Any:
    return identity_of(COMBINES[primitive].name, dtype)


def _reduction(
    name: str, kinds: str, ufunc: np.ufunc | Extremum, jvp: Jvp, doc: str
) -> Primitive:
    def first(dtype: np.dtype[Any]) -> Array:
        return np.asarray(identity(record, dtype)).astype(dtype)

    def meaning(aval: ShapedArray, axes: Axes, x: Array) -> Array:
        return ufunc.reduce(x, axis=axes, keepdims=True, initial=first(aval.dtype))

    def direct(aval: ShapedArray, axes: Axes) -> tuple[Any, tuple[Any, ...]]:
        initial = first(aval.dtype)
        if isinstance(ufunc, np.ufunc):
            return ufunc.reduce, (axes, None, None, True, initial)
        return partial(ufunc.reduce, axis=axes, keepdims=True, initial=initial), ()

    def infer(axes: Axes, x: ShapedArray) -> ShapedArray:
        return broadcast.infer_reduction(name.removeprefix("reduce_"), kinds, axes, x)

    record = Primitive(
        name, "reduction", infer, meaning, broadcast.batch_reduction, jvp=jvp,
        dtypes=kinds, doc=doc, direct=direct,
    )  # fmt: skip
    return record


def _extremum_tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    """The mean of the tangents at the positions that hold the extremum."""
    (x,), (t,) = node.src, tangents
    axes: Axes = node.arg
    if t is None:
        return None
    here = p.cast(p.eq(x, broadcast.expand(node, x.shape)), x.dtype)
    count = broadcast.reduce_sum(here, axes)
    return p.div(broadcast.reduce_sum(p.scale(t, here), axes), count)


def _product_tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    """A tree of products: exact also where factors are zero."""
    (x,), (t,) = node.src, tangents
    axes: Axes = node.arg
    if t is None:
        return None
    if same_size(x.size, 0):
        return zeros_like(node)
    for axis in axes:
        while x.shape[axis] > 1:
            x, t = _multiply_pairs(x, t, axis)
    return t


def _multiply_pairs(x: Node, t: Node, axis: int) -> tuple[Node, Node]:
    """The products of pairs of elements, and their tangents: half as many."""
    size = x.shape[axis]
    half = size // 2
    left, right = shrink_axis(x, axis, 0, half), shrink_axis(x, axis, half, 2 * half)
    t_left = shrink_axis(t, axis, 0, half)
    t_right = shrink_axis(t, axis, half, 2 * half)
    product = p.mul(left, right)
    slope = p.add(p.mul_zero(t_left, right), p.mul_zero(t_right, left))
    if same_size(size % 2, 0):
        return product, slope
    last = shrink_axis(x, axis, size - 1, size)
    t_last = shrink_axis(t, axis, size - 1, size)
    first, t_first = shrink_axis(product, axis, 0, 1), shrink_axis(slope, axis, 0, 1)
    t_first = p.add(p.mul_zero(t_first, last), p.mul_zero(t_last, first))
    return (
        _replace_first(p.mul(first, last), product, axis),
        _replace_first(t_first, slope, axis),
    )


def _replace_first(first: Node, rest: Node, axis: int) -> Node:
    """`rest` with its first element along `axis` replaced."""
    if same_size(rest.shape[axis], 1):
        return first
    after = [(0, 0, 0)] * rest.ndim
    after[axis] = (0, rest.shape[axis] - 1, 0)
    before = [(0, 0, 0)] * rest.ndim
    before[axis] = (1, 0, 0)
    tail = shrink_axis(rest, axis, 1, rest.shape[axis])
    return p.add(pad(first, tuple(after)), pad(tail, tuple(before)))


reduce_prod_p = _reduction(
    "reduce_prod", "iufc", np.multiply, _product_tangent, "the product along axes"
)
reduce_max_p = _reduction(
    "reduce_max", "biuf", minmax.maximum, _extremum_tangent,
    "the greatest along axes; NaN wins",
)  # fmt: skip
reduce_min_p = _reduction(
    "reduce_min", "biuf", minmax.minimum, _extremum_tangent,
    "the least along axes; NaN wins",
)  # fmt: skip

#: What each of them repeats.
COMBINES: Final[dict[Op, Primitive]] = {
    broadcast.reduce_sum_p: p.add, reduce_prod_p: p.mul,
    reduce_max_p: p.maximum, reduce_min_p: p.minimum,
}  # fmt: skip
#: The same by the word that scatters and kernels have for it.
COMBINES_BY_NAME: Final = {op.name: op for op in COMBINES.values()}
REDUCTIONS: Final = tuple(COMBINES)


def reduce(primitive: Op, x: Node, axes: tuple[int, ...]) -> Node:
    return primitive(x, arg=axes) if axes else x


def identity_like(primitive: Op, node: Node) -> Node:
    return const(identity(primitive, node.dtype), node.dtype, node.shape)
