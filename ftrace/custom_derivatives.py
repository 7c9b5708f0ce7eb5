"""JAX's `custom_derivatives`: functions whose derivatives the user writes."""

from ftrace.ground.missing_names import tell_missing as _tell_missing
from ftrace.trace.calls.custom_call import SymbolicZero
from ftrace.transforms.custom.closure_convert import (
    closure_convert,
    custom_gradient,
    linear_call,
    zero_from_primal,
)
from ftrace.transforms.custom.custom_derivatives import (
    CustomVJPPrimal,
    custom_jvp,
    custom_vjp,
    custom_vjp_primal_tree_values,
)

__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient",
    "custom_jvp", "custom_vjp", "custom_vjp_primal_tree_values", "linear_call",
    "zero_from_primal",
]  # fmt: skip

__getattr__ = _tell_missing(__name__)
