"""JAX's `custom_derivatives`: functions whose derivatives the user writes."""

from importlib import import_module as _import_module
from typing import Any as _Any

from ftrace.ground.missing_names import no_attribute as _no_attribute
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

_PRIMITIVES = ("custom_jvp_call_p", "custom_vjp_call_p")

__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient",
    "custom_jvp", "custom_vjp", "custom_vjp_primal_tree_values", "linear_call",
    "zero_from_primal",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _PRIMITIVES:
        return _import_module("ftrace.compat.lax_primitives").PUBLIC[name]
    raise _no_attribute(__name__, name)
