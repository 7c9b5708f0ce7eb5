"""`jax.interpreters.partial_eval`: jaxprs of functions, and parts of jaxprs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.compat.jaxpr import DropVar, Jaxpr, JaxprEqn, Literal, Var
from ftrace.compat.linear_util import WrappedFun
from ftrace.compat.primitive import Primitive
from ftrace.compat.staging import trace_to_jaxpr
from ftrace.trace.avals import ShapedArray
from ftrace.trace.tracing.tracer import Tracer

DynamicJaxprTracer = JaxprTracer = Tracer
Val = Any
#: Primitive -> (used results, equation) -> (used operands, equation or None).
dce_rules: dict[Primitive, Callable[..., Any]] = {}


class PartialVal(tuple[Any, Any]):
    """(None, value) of what is known, (type, None) of what is not."""

    __slots__ = ()

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None

    def get_known(self) -> Any:
        return self[1] if self.is_known() else None

    def get_aval(self) -> ShapedArray:
        return self[0]


def trace_to_jaxpr_dynamic(
    fun: WrappedFun, in_avals: Sequence[ShapedArray], **_: Any
) -> tuple[Jaxpr, list[ShapedArray], list[Any]]:
    """(jaxpr, types of the results, constants) of a function of flat values."""
    closed = trace_to_jaxpr(fun.call_wrapped, in_avals, fun.debug_info)
    return closed.jaxpr, closed.out_avals, closed.consts


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: Any = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """(jaxpr, results, constants), where known arguments are part of the function."""
    unknown = [p.get_aval() for p in pvals if not p.is_known()]

    def call(*tracers: Any) -> Any:
        rest = iter(tracers)
        return fun.call_wrapped(
            *[p.get_known() if p.is_known() else next(rest) for p in pvals]
        )

    closed = trace_to_jaxpr(call, unknown, fun.debug_info)
    found = [PartialVal.unknown(a) for a in closed.out_avals]
    return closed.jaxpr, found, closed.consts


def dce_jaxpr(
    jaxpr: Jaxpr,
    used_outputs: Sequence[bool],
    instantiate: bool | Sequence[bool] = False,
) -> tuple[Jaxpr, list[bool]]:
    """The jaxpr without what the wanted results do not need.

    Args:
      used_outputs: which results are wanted.
      instantiate: which arguments stay in any case.

    Returns:
      (the jaxpr, which of its arguments are used).
    """
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    live: set[Any] = {v for v in outvars if not isinstance(v, Literal)}
    kept: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        used = [v in live for v in eqn.outvars]
        if not any(used) and not eqn.effects:
            continue
        rule = dce_rules.get(eqn.primitive)
        operands: Sequence[bool] = [True] * len(eqn.invars)
        found: JaxprEqn | None = eqn
        if rule is not None:
            operands, found = rule(used, eqn)
        if found is None:
            continue
        dropped = [v if v in live else DropVar(v.aval) for v in found.outvars]
        kept.append(found.replace(outvars=dropped))
        live |= {
            v
            for v, needed in zip(eqn.invars, operands, strict=True)
            if needed and isinstance(v, Var)
        }
    always = (
        [instantiate] * len(jaxpr.invars)
        if isinstance(instantiate, bool)
        else list(instantiate)
    )
    flags = [v in live or a for v, a in zip(jaxpr.invars, always, strict=True)]
    invars = [v for v, flag in zip(jaxpr.invars, flags, strict=True) if flag]
    return jaxpr.replace(invars=invars, outvars=outvars, eqns=kept[::-1]), flags
