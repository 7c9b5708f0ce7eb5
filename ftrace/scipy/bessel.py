"""Modified Bessel functions of the first kind, of orders 0 and 1."""

from __future__ import annotations

from typing import Any

from ftrace.numpy.bessel import bessel
from ftrace.trace.tracer import Value

__all__ = ["i0", "i0e", "i1", "i1e"]


def i0(x: Value) -> Any:
    """I₀(x)."""
    return bessel("i0", x, 0, scaled=False)


def i0e(x: Value) -> Any:
    """exp(-|x|)·I₀(x)."""
    return bessel("i0e", x, 0, scaled=True)


def i1(x: Value) -> Any:
    """I₁(x)."""
    return bessel("i1", x, 1, scaled=False)


def i1e(x: Value) -> Any:
    """exp(-|x|)·I₁(x)."""
    return bessel("i1e", x, 1, scaled=True)
