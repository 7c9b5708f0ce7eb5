"""JAX's `custom_derivatives`: functions whose derivatives the user writes."""

from ftrace.transforms.custom import (
    CustomVJPPrimal,
    custom_jvp,
    custom_vjp,
    custom_vjp_primal_tree_values,
)
from ftrace.transforms.custom_check import SymbolicZero
from ftrace.transforms.custom_linear import (
    closure_convert,
    custom_gradient,
    linear_call,
    zero_from_primal,
)

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "zero_from_primal",
]
