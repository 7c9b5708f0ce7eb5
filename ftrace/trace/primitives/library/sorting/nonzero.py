"""Where something holds, as a step that the host does.

places_p(mask, arg=count) -> the positions along the last axis of what is true, in order

There are as many as `count`: more are cut off, and the length of the axis, which is no
position, stands for those that there are not.
"""

from __future__ import annotations

from typing import Any

import numpy

from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.library.sorting.sort import no_tangents, position_dtype
from ftrace.trace.primitives.primitive import Array, Compound

np: Any = numpy  # whose stubs leave too much unknown


def _infer(count: int, mask: ShapedArray) -> tuple[ShapedArray, ...]:
    if mask.ndim < 1 or mask.dtype != dtypes.bool_ or count < 0:
        raise ShapeError(f"places: bool[…, n] and a count are required, got {mask!r}")
    shape = (*mask.shape[:-1], count)
    return (ShapedArray.of(shape, position_dtype(mask.shape[-1])),)


def _places(avals: Any, count: int, mask: Array) -> list[Array]:
    result = np.full(avals[0].shape, mask.shape[-1], avals[0].dtype)
    for index in np.ndindex(*mask.shape[:-1]):
        found = np.flatnonzero(mask[index])[:count]
        result[index][: len(found)] = found
    return [result]


def _batch(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    return places_p.results(*src, arg=node.arg), [batched[0]]


places_p = Compound(
    "places", "host", _infer,
    _places,
    _batch, jvp=no_tangents, dtypes="b",
    doc="positions of what is true along the last axis, in order",
)  # fmt: skip
