"""`jax.core`: tracers, their types, and the state of tracing."""

from __future__ import annotations

import weakref
from typing import Any

from ftrace.trace.avals import ShapedArray as ShapedArray
from ftrace.trace.tracing.tracer import Tracer as Tracer, stack

AbstractValue = ShapedArray


class OpaqueTraceState:
    """The traces that are open: equal where the same ones are."""

    __slots__ = ("_hash", "_scopes")

    def __init__(self) -> None:
        self._scopes = tuple(map(weakref.ref, stack.scopes[stack.floor :]))
        self._hash = hash(tuple(map(id, stack.scopes[stack.floor :])))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._scopes == other._scopes

    def __hash__(self) -> int:
        return self._hash


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """What is equal to itself as long as the same traces are open."""
    return OpaqueTraceState()


def trace_state_clean() -> bool:
    """Is nothing being traced?"""
    return len(stack.scopes) == stack.floor
