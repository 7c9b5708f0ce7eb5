"""`jax.interpreters.partial_eval`: jaxprs of functions, and parts of jaxprs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.compat.jaxpr import Jaxpr, drop_unused
from ftrace.compat.linear_util import WrappedFun
from ftrace.compat.primitive import Primitive
from ftrace.compat.view import TracedJaxpr, trace_to_jaxpr
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Graph, dependents
from ftrace.trace.tracing.tracer import Tracer
from ftrace.transforms.jit.compiled_graph import apply_graph

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
    fun: WrappedFun,
    pvals: Sequence[PartialVal],
    instantiate: bool | Sequence[bool] = False,
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """(jaxpr, results, constants), where known arguments are part of the function.

    Args:
      instantiate: which results are unknown even where no unknown argument is used;
        others of them are known, and the jaxpr has no result for them.
    """
    results: list[Any] = []

    def call(*tracers: Any) -> Any:
        rest = iter(tracers)
        results[:] = fun.call_wrapped(
            *[p.get_known() if p.is_known() else next(rest) for p in pvals]
        )
        return results

    unknown = [p.get_aval() for p in pvals if not p.is_known()]
    closed = trace_to_jaxpr(call, unknown, fun.debug_info)
    graph, count = closed.jaxpr.graph, len(unknown)
    assert graph is not None
    leaves = [*graph.inputs[:count], *graph.effects[:1]]
    varying = set(dependents(graph.outputs, leaves))
    wishes = _flags(instantiate, len(results))
    rows = [
        (node, result, wish or node in varying)
        for node, result, wish in zip(graph.outputs, results, wishes, strict=True)
    ]
    fixed = tuple([node for node, _, is_unknown in rows if not is_unknown])
    values = iter(apply_graph(Graph(graph.inputs[count:], fixed), closed.consts))
    found: list[PartialVal] = []
    for node, result, is_unknown in rows:
        value = None if is_unknown else next(values)
        known = PartialVal.known(value if isinstance(result, Tracer) else result)
        found.append(PartialVal.unknown(node.aval) if is_unknown else known)
    outputs = tuple([node for node, _, is_unknown in rows if is_unknown])
    graph = Graph(graph.inputs, outputs, (), graph.effects)
    return TracedJaxpr(graph, count, fun.debug_info), found, closed.consts


def _flags(given: bool | Sequence[bool], count: int) -> list[bool]:
    """One for each; a single one is that of all."""
    return [given] * count if isinstance(given, bool) else [*given]


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
    kept, live = drop_unused(jaxpr.eqns, outvars, dce_rules)
    always = _flags(instantiate, len(jaxpr.invars))
    flags = [v in live or a for v, a in zip(jaxpr.invars, always, strict=True)]
    invars = [v for v, flag in zip(jaxpr.invars, flags, strict=True) if flag]
    return jaxpr.replace(invars=invars, outvars=outvars, eqns=kept), flags
