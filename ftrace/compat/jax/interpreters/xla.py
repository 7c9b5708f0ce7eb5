"""`jax.interpreters.xla`: what is left of it in JAX."""

from __future__ import annotations

from typing import Any

from ftrace.compat.primitive import Primitive
from ftrace.trace.tracing.tracer import arrays_of

#: By the type of operands what gives arrays of them: a library's type becomes one.
canonicalize_dtype_handlers = arrays_of


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """What a primitive computes of arrays."""
    return prim.bind(*args, **params)
