"""JAX's `scipy.integrate`."""

from ftrace.numpy import trapezoid

__all__ = ["trapezoid"]
