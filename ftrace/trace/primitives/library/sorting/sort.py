"""Sorting, as steps that the host does.

    sort      x -> x in ascending order along an axis, stable
    argsort   keys… -> the positions that bring them into order, stable
    top_k     x -> the positions of the k greatest or least

The order is that of `sort_numpy.py`. What follows from positions is a gather, with its
derivative; so only the values of a plain sort need a rule of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import AxisError, DtypeError, ShapeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.indexing import gather
from ftrace.trace.primitives.library.sorting import sort_numpy
from ftrace.trace.primitives.primitive import Array, Compound, Results
from ftrace.trace.primitives.sources import iota
from ftrace.trace.symbolic.dim import same_size


def _check_axis(name: str, axis: int, x: ShapedArray) -> None:
    if not 0 <= axis < x.ndim:
        raise AxisError(f"{name}: axis {axis} does not fit {x!r}")


def position_dtype(size: int) -> np.dtype[Any]:
    return dtypes.int32 if size < 1 << 31 else dtypes.int64


def _widened(
    node: Node, src: Sequence[Node], batched: Sequence[bool], size: int
) -> list[Node]:
    """The operands, all with the new leading axis."""
    return [
        s if has else broadcast_leading(s, (size, *old.shape))
        for s, has, old in zip(src, batched, node.src, strict=True)
    ]


def take_along(x: Node, index: Node, axis: int) -> Node:
    """Along `axis` the elements at positions, which are in bounds."""
    own = [
        index if a == axis else iota(index.dtype, index.shape, a) for a in range(x.ndim)
    ]
    return gather(x, own, tuple(range(x.ndim)))


# sort


def _infer_sort(axis: int, x: ShapedArray) -> tuple[ShapedArray, ...]:
    _check_axis("sort", axis, x)
    return (x,)


def _sort_value(avals: Any, axis: int, x: Array) -> list[Array]:
    return [sort_numpy.sort_values(x, axis)]


def _sort_tangent(node: Node, tangents: Results) -> Results:
    axis: int = node.arg
    (t,) = tangents
    assert t is not None
    (places,) = argsort_p.results(node.src[0], arg=axis)
    return [take_along(t, places, axis)]


def _batch_sort(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    if not batched[0]:
        return sort_p.results(*src, arg=node.arg), [False]
    return sort_p.results(*src, arg=node.arg + 1), [True]


def _direct_sort(axis: int, x: Array) -> tuple[Any, tuple[Any, ...]]:
    return sort_numpy.sort_values, (axis,)


sort_p = Compound(
    "sort", "host", _infer_sort,
    _sort_value,
    _batch_sort, jvp=_sort_tangent, direct=_direct_sort,
    doc="ascending order along an axis",
)  # fmt: skip


# argsort


def _infer_argsort(axis: int, *keys: ShapedArray) -> tuple[ShapedArray, ...]:
    first = keys[0]
    _check_axis("argsort", axis, first)
    if any(not same_size(key.shape, first.shape) for key in keys):
        raise ShapeError(f"argsort: the keys differ in shape: {keys}")
    return (ShapedArray.of(first.shape, position_dtype(first.shape[axis])),)


def _argsort_value(avals: Any, axis: int, *keys: Array) -> list[Array]:
    return [sort_numpy.argsort(keys, axis)]


def no_tangents(node: Node, tangents: Results) -> Results:
    return [None] * len(node.aval.items)


def _batch_argsort(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    if not any(batched):
        return argsort_p.results(*src, arg=node.arg), [False]
    keys = _widened(node, src, batched, size)
    return argsort_p.results(*keys, arg=node.arg + 1), [True]


argsort_p = Compound(
    "argsort", "host", _infer_argsort,
    _argsort_value,
    _batch_argsort, jvp=no_tangents, direct=sort_numpy.direct_argsort,
    doc="positions along an axis that bring keys into order, the first key counts most",
)  # fmt: skip


# top_k


class TopK(NamedTuple):
    """The argument of top_k: how many, along which axis, the greatest or the least."""

    k: int
    axis: int
    largest: bool = True


def _infer_top_k(arg: TopK, x: ShapedArray) -> tuple[ShapedArray, ...]:
    _check_axis("top_k", arg.axis, x)
    if not 0 <= arg.k <= x.shape[arg.axis]:
        raise ShapeError(f"top_k: there are no {arg.k} along axis {arg.axis} of {x!r}")
    if dtypes.is_complex(x.dtype):
        raise DtypeError(f"top_k: complex numbers have no greatest one, got {x!r}")
    shape: Shape = (*x.shape[: arg.axis], arg.k, *x.shape[arg.axis + 1 :])
    return (ShapedArray.of(shape, position_dtype(x.shape[arg.axis])),)


def _top_k_value(avals: Any, arg: TopK, x: Array) -> list[Array]:
    return [sort_numpy.top_positions(x, arg.k, arg.axis, arg.largest)]


def _batch_top_k(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    arg: TopK = node.arg
    if not batched[0]:
        return top_k_p.results(*src, arg=arg), [False]
    return top_k_p.results(*src, arg=arg._replace(axis=arg.axis + 1)), [True]


top_k_p = Compound(
    "top_k", "host", _infer_top_k,
    _top_k_value,
    _batch_top_k, jvp=no_tangents, dtypes="biuf",
    doc="positions of the k greatest or least along an axis, in their order",
)  # fmt: skip
