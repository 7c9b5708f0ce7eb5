"""Partitions, as steps that the host does: a sort at one place only.

    partition      x -> x with an element at its place along an axis, the lesser ones
                   before it, the others behind
    argpartition   x -> the positions that bring x into such an order

The order is that of `sort_numpy.py`; what stands on one side has none, and may differ
between devices. A sorted row is a partition of itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import AxisError, DtypeError, ShapeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.library.sorting import sort_numpy
from ftrace.trace.primitives.library.sorting.sort import argsort_p, take_along
from ftrace.trace.primitives.primitive import Array, Compound, Results


class Partition(NamedTuple):
    """The argument of a partition: which place is right, along which axis."""

    place: int
    axis: int


def _check(name: str, arg: Partition, x: ShapedArray) -> None:
    if not 0 <= arg.axis < x.ndim:
        raise AxisError(f"{name}: axis {arg.axis} does not fit {x!r}")
    if not 0 <= arg.place < x.shape[arg.axis]:
        raise ShapeError(f"{name}: axis {arg.axis} of {x!r} has no place {arg.place}")
    if dtypes.is_complex(x.dtype):
        raise DtypeError(f"{name}: real numbers are required, got {x!r}")


def _batch(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    op, arg = node.op, node.arg
    assert isinstance(op, Compound)
    if not batched[0]:
        return op.results(*src, arg=arg), [False]
    return op.results(*src, arg=arg._replace(axis=arg.axis + 1)), [True]


# partition


def _infer_partition(arg: Partition, x: ShapedArray) -> tuple[ShapedArray, ...]:
    _check("partition", arg, x)
    return (x,)


def _partition_value(avals: Any, arg: Partition, x: Array) -> list[Array]:
    place, axis = arg
    if x.dtype.itemsize == 1:  # there is a sort without comparisons
        return [sort_numpy.sort_values(x, axis)]
    if not dtypes.is_float(x.dtype):
        return [np.partition(x, place, axis)]
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    if sort_numpy.has_negative_zero(wide):
        # NumPy may exchange it with a zero, or make it one
        found = sort_numpy.key_value(
            np.partition(sort_numpy.float_key(wide), place, axis), wide.dtype
        )
    else:
        found = np.partition(wide, place, axis)
    return [found.astype(x.dtype, copy=False)]


def _partition_into(arg: Partition, results: Sequence[Array], x: Array) -> None:
    """Integers change places in the memory of the result."""
    (result,) = results
    if dtypes.is_float(x.dtype) or x.dtype.itemsize == 1:
        (result[...],) = _partition_value(None, arg, x)
        return
    result[...] = x
    result.partition(arg.place, arg.axis)


def _partition_tangent(node: Node, tangents: Results) -> Results:
    """What moves with the elements: each is found in x and in the result by its rank.

    So it does not matter which partition a device has made.
    """
    (x,), (t,), axis = node.src, tangents, node.arg.axis
    assert t is not None
    (result,) = partition_p.results(x, arg=node.arg)
    (of_x,) = argsort_p.results(x, arg=axis)
    (of_result,) = argsort_p.results(result, arg=axis)
    (ranks,) = argsort_p.results(of_result, arg=axis)
    return [take_along(take_along(t, of_x, axis), ranks, axis)]


partition_p = Compound(
    "partition", "host", _infer_partition,
    _partition_value,
    _batch, jvp=_partition_tangent, dtypes="biuf", into=_partition_into,
    doc="lesser elements before a place, others behind it",
)  # fmt: skip


# argpartition


def _infer_argpartition(arg: Partition, x: ShapedArray) -> tuple[ShapedArray, ...]:
    _check("argpartition", arg, x)
    long = x.shape[arg.axis] >= 1 << 31
    return (ShapedArray.of(x.shape, dtypes.int64 if long else dtypes.int32),)


def _argpartition_value(avals: Any, arg: Partition, x: Array) -> list[Array]:
    place, axis = arg
    if x.dtype.itemsize == 1:
        return [sort_numpy.argsort([x], axis)]
    half = dtypes.is_float(x.dtype) and x.dtype.itemsize == 2
    wide = x.astype(np.float32) if half else x
    return [np.argpartition(wide, place, axis).astype(avals[0].dtype)]


def _no_tangents(node: Node, tangents: Results) -> Results:
    return [None]


argpartition_p = Compound(
    "argpartition", "host", _infer_argpartition,
    _argpartition_value,
    _batch, jvp=_no_tangents, dtypes="biuf",
    doc="positions of lesser elements before a place, of others behind it",
)  # fmt: skip
