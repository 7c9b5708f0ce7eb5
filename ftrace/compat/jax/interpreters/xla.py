"""`jax.interpreters.xla`: what is left of it in JAX."""

from __future__ import annotations

from typing import Any

from ftrace.compat.primitive import Primitive


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """What a primitive computes of arrays."""
    return prim.bind(*args, **params)
