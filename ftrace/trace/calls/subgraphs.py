"""The bodies that nodes hold, and how to replace them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ftrace.trace.calls.checkpoint import Checkpoint
from ftrace.trace.calls.custom_batching import CustomVmap
from ftrace.trace.calls.custom_derivative import CustomJvp, CustomVjp
from ftrace.trace.calls.linear_call import LinearCall
from ftrace.trace.control.cond import Branches
from ftrace.trace.control.scan_types import Scan
from ftrace.trace.control.while_loop import While
from ftrace.trace.graph import Body

#: Arguments of nodes that hold one body, called `body`.
CALLS = (Checkpoint, CustomJvp, CustomVjp, CustomVmap, LinearCall)


#: Families of the operations that may have bodies in their argument.
HOLDERS = ("control", "call")


def bodies_of(arg: Any) -> tuple[Body, ...]:
    """The bodies in the argument of a node."""
    if arg is None:  # of nearly all nodes
        return ()
    if isinstance(arg, Branches):
        return arg.bodies
    if isinstance(arg, While):
        return (arg.cond, arg.body)
    if isinstance(arg, (Scan, *CALLS)):
        return (arg.body,)
    return ()


def with_bodies(arg: Any, bodies: Sequence[Body]) -> Any:
    """The argument with other bodies in the places of its own."""
    if isinstance(arg, Branches):
        return Branches(tuple(bodies))
    if isinstance(arg, While):
        cond, body = bodies
        return replace(arg, cond=cond, body=body)
    (body,) = bodies
    return replace(arg, body=body)
