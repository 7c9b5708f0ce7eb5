"""Operations that are done at once ask first whether there is memory for the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace.arrays.memory_limit import LARGE, has_room
from ftrace.errors import OutOfMemoryError
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Op
from ftrace.trace.primitives.movement import pad_p, reshape_p

#: Results of fewer elements, of any dtype, are made without asking.
FEW = LARGE // 16


def no_memory(name: str, aval: ShapedArray) -> OutOfMemoryError:
    """The exception for a result that NumPy has no memory for."""
    return OutOfMemoryError(
        f"{name}: the host has no memory for a result of type {aval!r}, which takes "
        f"{nbytes_of(aval)} bytes, or for what leads to it; compute it in parts, or "
        "under jit, where intermediate results are not stored"
    )


def nbytes_of(aval: ShapedArray) -> int:
    return aval.size * aval.dtype.itemsize


def require_room(name: str, aval: ShapedArray) -> None:
    """Raises OutOfMemoryError where there is no memory for a result."""
    if aval.size >= FEW and not has_room(nbytes_of(aval)):
        raise no_memory(name, aval)


def require_room_for(op: Op, aval: ShapedArray, operands: Sequence[Any]) -> None:
    """The same for the result of a primitive, which may be a view of its operand."""
    if aval.size < FEW:
        return
    moves = op.family == "movement" and op is not pad_p
    if not moves or (op is reshape_p and not _is_view(operands[0], aval.shape)):
        require_room(op.name, aval)


def _is_view(x: Any, shape: tuple[int, ...]) -> bool:
    """Are the elements of an array seen in another shape where they are?"""
    if [n for n in x.shape if n != 1] == [n for n in shape if n != 1]:
        return True
    return x.flags.c_contiguous or not any(x.strides)
