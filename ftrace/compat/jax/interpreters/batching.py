"""`jax.interpreters.batching`: rules for one more axis of a library's primitives."""

# What rows and rules take and return is Any, and so are the parameters of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace import numpy as fnp
from ftrace.compat.primitive import (
    AxisData as AxisData,
    Primitive,
    axis_batchers as axis_primitive_batchers,
    batchers as primitive_batchers,
    fancy_batchers as fancy_primitive_batchers,
)
from ftrace.trace.tracing.tracer import Tracer

__all__ = [
    "AxisData", "BatchTracer", "axis_primitive_batchers", "bdim_at_front", "broadcast",
    "defbroadcasting", "defreducer", "defvectorized", "fancy_primitive_batchers",
    "moveaxis", "not_mapped", "primitive_batchers",
]  # fmt: skip

BatchTracer = Tracer
#: The axis of an operand that has none.
not_mapped = None


def moveaxis(x: Any, source: int | None, destination: int) -> Any:
    """The operand with its axis elsewhere; as it is where it has none."""
    return x if source is None else fnp.moveaxis(x, source, destination)


def broadcast(x: Any, size: int, axis: int, *_: Any) -> Any:
    """The operand, repeated along a new axis."""
    return fnp.repeat(fnp.expand_dims(x, axis), size, axis)


def bdim_at_front(x: Any, axis: int | None, size: int, *_: Any) -> Any:
    """The operand with its axis in front; repeated where it has none."""
    if axis is None:
        return broadcast(x, size, 0)
    return moveaxis(x, axis, 0) if axis else x


def defvectorized(primitive: Primitive) -> None:
    """Says that a primitive of one operand does the same along each axis."""

    def rule(args: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
        result = primitive.bind(*args, **params)
        if primitive.multiple_results:
            return result, [axes[0]] * len(result)
        return result, axes[0]

    primitive_batchers[primitive] = rule


def defbroadcasting(primitive: Primitive) -> None:
    """Says that a primitive is elementwise, of operands of one shape."""

    def rule(args: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
        pairs = list(zip(args, axes, strict=True))
        size = next(fnp.shape(x)[a] for x, a in pairs if a is not None)
        fronts = [bdim_at_front(x, a, size) for x, a in pairs]
        return primitive.bind(*fronts, **params), 0

    primitive_batchers[primitive] = rule


def defreducer(primitive: Primitive, *_: Any) -> None:
    """Says that a primitive reduces along `axes`."""

    def rule(args: Any, batch: Any, *, axes: Sequence[int], **params: Any) -> Any:
        front, inner = moveaxis(args[0], batch[0], 0), tuple([a + 1 for a in axes])
        return primitive.bind(front, axes=inner, **params), 0

    primitive_batchers[primitive] = rule
