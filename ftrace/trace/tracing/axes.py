"""Axes with names: those that transforms around this point of a function have bound.

An axis is bound to a variable, the number of the instance: collectives along the axis
have it as an operand (`primitives/reduction.py`), so that they are batched, and stand
in bodies of loops, like all that uses a variable.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from ftrace.errors import AxisNameError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.tracing.tracer import Tracer, stack


@dataclass(frozen=True)
class Axis:
    """An axis with a name.

    Attributes:
      name: anything that can be hashed.
      size: how many instances there are.
      index: the number of this one; an int where there is no other.
    """

    name: Any
    size: int
    index: Tracer = field(compare=False)


@contextmanager
def bound(*axes: Axis) -> Generator[None]:
    """A block in which these axes have names, beside those around it."""
    with standing(*stack.axes, *axes):
        yield


@contextmanager
def standing(*axes: Axis) -> Generator[None]:
    """A block in which these axes have names, and no others."""
    before, stack.axes = stack.axes, axes
    try:
        yield
    finally:
        stack.axes = before


def axis_of(name: Any, what: str) -> Axis:
    """The innermost axis of a name.

    Args:
      what: the function that asks, for the message.

    Raises:
      AxisNameError: there is none.
    """
    for axis in reversed(stack.axes):
        if axis.name == name:
            return axis
    names = ", ".join(sorted({repr(axis.name) for axis in stack.axes}))
    raise AxisNameError(
        f"{what}: unbound axis name: {name}. "
        + (f"The axes here are {names}" if names else "No axis has a name here")
        + f"; name one with vmap(…, axis_name={name!r})"
    )
