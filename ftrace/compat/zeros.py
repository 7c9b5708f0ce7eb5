"""Zeros that are known to be zero, and operands that are asked for.

A rule for tangents gets a `Zero` where an operand does not vary; a rule for cotangents
gets one where nobody asked for a result, and an `UndefinedPrimal` for each operand in
which the operation is linear.
"""

from __future__ import annotations

from typing import Any

from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.calls.custom_call import SymbolicZero, zeros_of
from ftrace.trace.flatten_arguments import type_of
from ftrace.trace.pytree import tree


class Zero:
    """A tangent or cotangent that is zero.

    Attributes:
      aval: its type.
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(value: Any) -> Zero:
        """The tangent of a value that does not vary."""
        return Zero(type_of(value).to_tangent_aval())

    def instantiate(self) -> Any:
        """The zeros as an array."""
        return zeros_of(self.aval)

    def __repr__(self) -> str:
        return f"Zero({self.aval!r})"


@dataclass(frozen=True)
class UndefinedPrimal:
    """An operand in which an operation is linear, while its transpose is asked for."""

    aval: ShapedArray


def is_undefined_primal(value: Any) -> bool:
    """Is its cotangent asked for?"""
    return type(value) is UndefinedPrimal


def instantiate_zeros(value: Any) -> Any:
    """The value; of a `Zero` the zeros as an array."""
    symbolic = isinstance(value, (Zero, SymbolicZero))
    return value.instantiate() if symbolic else value


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, either of which may be a `Zero`."""
    if isinstance(x, Zero):
        return y
    return x if isinstance(y, Zero) else x + y


for _kind in (Zero, UndefinedPrimal):
    tree.register_pytree_node(
        _kind, lambda x: ((), x.aval), lambda aval, _, kind=_kind: kind(aval)
    )
