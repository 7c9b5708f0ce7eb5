"""Expand and sum.

Each is the transpose of the other:

    expand  (3, 1) -> (3, 4)    repeats along axes of size 1
    sum     (3, 4) -> (3, 1)    adds along axes, which stay with size 1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Flags, Node, Nodes, make_node
from ftrace.trace.primitives import movement as mv
from ftrace.trace.primitives.numpy_sums import sum_along, sum_of
from ftrace.trace.primitives.primitive import Array, Primitive
from ftrace.trace.primitives.sources import const_p
from ftrace.trace.symbolic import same_size

Axes = tuple[int, ...]


def _infer_expand(shape: Shape, x: ShapedArray) -> ShapedArray:
    if len(shape) != x.ndim or any(
        not (same_size(n, 1) or same_size(n, m)) or m < 0
        for n, m in zip(x.shape, shape, strict=True)
    ):
        raise ShapeError(
            f"broadcast: cannot broadcast {x!r} to {shape}; only axes of size 1 grow"
        )
    return x.with_shape(shape)


def _transpose_expand(node: Node, ct: Node, i: int) -> Node:
    grown = zip(node.src[0].shape, node.shape, strict=True)
    return reduce_sum(
        ct, tuple(a for a, (n, m) in enumerate(grown) if not same_size(n, m))
    )


def _expand_value(aval: ShapedArray, shape: Shape, x: Array) -> Array:
    return np.broadcast_to(x, shape)


expand_p = Primitive(
    "expand", "movement", _infer_expand, _expand_value,
    lambda node, src, batched: expand(src[0], (src[0].shape[0], *node.shape)),
    transpose=_transpose_expand, linear=True, zero_at_zero=True,
    exact=True, doc="repeats along axes of size 1",
)  # fmt: skip


MOVEMENTS = (
    mv.reshape_p, mv.permute_p, mv.pad_p, mv.shrink_p, mv.stride_p, mv.shear_p,
    mv.unshear_p, expand_p,
)  # fmt: skip
#: Those of which every element is one of the operand.
SELECTIONS = tuple([op for op in MOVEMENTS if op not in mv.PADDING])


def expand(x: Node, shape: Shape) -> Node:
    if same_size(x.shape, shape):
        return x
    if x.op is const_p and len(shape) == x.ndim:
        return make_node(const_p, _infer_expand(shape, x.aval), (), x.arg)
    return expand_p(x, arg=shape)


def broadcast_leading(x: Node, shape: Shape) -> Node:
    """`x` with more leading axes, to `shape`."""
    if x.op is const_p:
        return make_node(const_p, x.aval.with_shape(shape), (), x.arg)
    missing = len(shape) - x.ndim
    return expand(mv.reshape(x, (1,) * missing + x.shape), shape)


def infer_reduction(name: str, kinds: str, axes: Axes, x: ShapedArray) -> ShapedArray:
    """Shape rule of every reduction: the reduced axes stay with size 1."""
    dtypes.require_kind(name, kinds, x.dtype)
    assert len(set(axes) & set(range(x.ndim))) == len(axes), (axes, x)
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    return x.with_shape(shape)


def batch_reduction(node: Node, src: Nodes, batched: Flags) -> Node:
    axes: Axes = node.arg
    return node.op(src[0], arg=tuple(a + 1 for a in axes))


def _infer_sum(axes: Axes, x: ShapedArray) -> ShapedArray:
    return infer_reduction("sum", "iufc", axes, x)


def _sum_value(aval: ShapedArray, axes: Axes, x: Array) -> Array:
    return sum_along(x, axes, dtypes.summing_dtype(aval.dtype))


def sum_call(
    shape: Shape, aval: ShapedArray, axes: Axes
) -> tuple[Callable[..., Array], tuple[Any, ...]]:
    """The meaning of a sum as a function, and what it takes after the array.

    Args:
      shape: of the operand.
      aval: of the result.
    """
    return sum_of(shape, axes, dtypes.summing_dtype(aval.dtype))


reduce_sum_p = Primitive(
    "reduce_sum", "reduction", _infer_sum, _sum_value, batch_reduction,
    linear=True, zero_at_zero=True, dtypes="iufc",
    transpose=lambda node, ct, i: expand(ct, node.src[0].shape),
    doc="the sum along axes, which stay with size 1",
)  # fmt: skip


def reduce_sum(x: Node, axes: tuple[int, ...]) -> Node:
    return reduce_sum_p(x, arg=axes) if axes else x
