"""Nodes evaluated in NumPy with an exact fma: what a decomposition computes.

Scalar nodes stand for whole arrays: the operands that `values` binds to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ftrace.lower.kernel.ir import fma_p
from ftrace.trace.graph import Node, constant_value, toposort
from ftrace.trace.primitives.primitive import Primitive

Array = np.ndarray[Any, Any]


def evaluate(roots: Sequence[Node], values: Mapping[Node, Array]) -> list[Array]:
    """The values of the roots, given those of the leaves."""
    found: dict[Node, Any] = dict(values)
    with np.errstate(all="ignore"):
        for node in toposort(roots):
            if node not in found:
                found[node] = _evaluate(node, [found[s] for s in node.src])
    return [np.asarray(found[root]) for root in roots]


def _evaluate(node: Node, operands: list[Array]) -> Any:
    if node.op.name == "const":
        return np.asarray(constant_value(node))
    if node.op is fma_p:
        return fused_multiply_add(*operands)
    assert isinstance(node.op, Primitive), f"{node!r} is not decomposed"
    operands = list(np.broadcast_arrays(*operands))
    result = np.asarray(node.op.numpy(node.aval, node.arg, *operands))
    assert result.dtype == node.dtype, (node, result.dtype)
    return result


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a·b + c rounded once: float32 in float64, float64 in sums of two numbers."""
    if a.dtype == np.float32:
        wide = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
        return wide.astype(np.float32)
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    lost = a_low * b_low - (
        ((product - a_high * b_high) - a_low * b_high) - a_high * b_low
    )
    total = product + c
    part = total - product
    rest = (product - (total - part)) + (c - part)
    exact = total + (rest + lost)
    safe = (np.abs(a) < 2.0**990) & (np.abs(b) < 2.0**990) & np.isfinite(exact)
    return np.where(safe, exact, total)


def _split(x: Array) -> tuple[Array, Array]:
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high
