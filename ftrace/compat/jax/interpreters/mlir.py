"""`jax.interpreters.mlir`: what a library's primitive is on devices.

A lowering here is a function of arrays: `lower_fun(f)` is `f`. Rules that write MLIR
find no MLIR: where there is one, the primitive is computed by its `impl`. It is
`jax.interpreters.xla` as well, of which little is left in JAX.
"""

from __future__ import annotations

from typing import Any

from ftrace.compat.primitive import Primitive, lowerings
from ftrace.trace.tracing.tracer import Function, arrays_of

#: What a rule that writes MLIR is given: for annotations, since none is called.
LoweringRuleContext = Any
#: By the type of operands what gives arrays of them: a library's type becomes one.
canonicalize_dtype_handlers = arrays_of


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """What a primitive computes of arrays."""
    return prim.bind(*args, **params)


class _OfArrays:
    """A lowering that is a function of arrays."""

    def __init__(self, fun: Function, multiple_results: bool) -> None:
        self.fun = fun
        self.multiple_results = multiple_results

    def __call__(self, *args: Any, **params: Any) -> Any:
        return self.fun(*args, **params)


def lower_fun(fun: Function, multiple_results: bool = True) -> Function:
    """The lowering that does what a function of arrays does."""
    return _OfArrays(fun, multiple_results)


def register_lowering(
    prim: Primitive,
    rule: Function,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> Function:
    """Gives a primitive its lowering, as `lower_fun` makes it.

    Args:
      platform: those for other platforms than "cpu" are not asked.
    """
    if platform in (None, "cpu") and isinstance(rule, _OfArrays):
        lowerings[prim] = rule
    return rule
