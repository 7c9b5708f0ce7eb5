"""`jax.core`: tracers, their types, and the state of tracing."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence, Set as AbstractSet
from typing import Any, NoReturn

from ftrace import dtypes
from ftrace.compat.jaxpr import (
    Atom as Atom,
    ClosedJaxpr as ClosedJaxpr,
    DropVar as DropVar,
    Jaxpr as Jaxpr,
    JaxprEqn as JaxprEqn,
    Literal as Literal,
    Var as Var,
    eval_jaxpr as eval_jaxpr,
    jaxpr_as_fun as jaxpr_as_fun,
    jaxprs_in_params as jaxprs_in_params,
    new_jaxpr_eqn as new_jaxpr_eqn,
    subjaxprs as subjaxprs,
)
from ftrace.compat.linear_util import DebugInfo as DebugInfo
from ftrace.compat.primitive import (
    CallPrimitive as CallPrimitive,
    Primitive as Primitive,
)
from ftrace.errors import ArgumentError, ConcretizationTypeError, GraphError
from ftrace.numpy.axes import canonical_axis
from ftrace.trace.avals import ShapedArray as ShapedArray
from ftrace.trace.flatten_arguments import type_of
from ftrace.trace.tracing import tracer
from ftrace.trace.tracing.scopes import open_scopes, scope_of
from ftrace.trace.tracing.tracer import Tracer as Tracer
from ftrace.transforms.contexts import (
    ensure_compile_time_eval as ensure_compile_time_eval,
)

AbstractValue = ShapedArray
Value = Any
ParamDict = dict[str, Any]
eval_context = ensure_compile_time_eval
Effects = AbstractSet[Any]


class OpaqueTraceState:
    """The traces that are open: equal where the same ones are."""

    __slots__ = ("_hash", "_scopes")

    def __init__(self) -> None:
        self._scopes = tuple(
            map(weakref.ref, tracer.stack.scopes[tracer.stack.floor :])
        )
        self._hash = hash(tuple(map(id, tracer.stack.scopes[tracer.stack.floor :])))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._scopes == other._scopes

    def __hash__(self) -> int:
        return self._hash


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """What is equal to itself as long as the same traces are open."""
    return OpaqueTraceState()


def trace_state_clean() -> bool:
    """Is nothing being traced?"""
    return len(tracer.stack.scopes) == tracer.stack.floor


def get_aval(x: Any) -> ShapedArray:
    """The type of a value."""
    return type_of(x)


class _Types(dict[type[Any], Callable[[Any], ShapedArray]]):
    """What gives the types of operands; what NumPy makes arrays of becomes one."""

    def __missing__(self, kind: type[Any]) -> Callable[[Any], ShapedArray]:
        return type_of

    def __setitem__(self, kind: type[Any], rule: Callable[[Any], ShapedArray]) -> None:
        super().__setitem__(kind, rule)
        tracer.arrays_of.setdefault(kind, tracer.arrays_of[kind])


pytype_aval_mappings = _Types()


def valid_jaxtype(x: Any) -> bool:
    """Can it be an operand?"""
    return tracer.is_value(x)


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """`force(val)`, where the value is known; `force` may be None.

    Raises:
      ConcretizationTypeError: the value is traced.
    """
    if isinstance(val, Tracer) and tracer.unbound_variable(val.node) is not None:
        raise ConcretizationTypeError(
            f"a value of type {val.aval!r} is not known while tracing. {context}"
        )
    return val if force is None else force(val)


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The type of one element along an axis; None is no axis.

    Raises:
      AxisError: there is no such axis.
    """
    if axis is None:
        return aval
    axis = canonical_axis(axis, aval.ndim, "mapped_aval")
    return aval.with_shape((*aval.shape[:axis], *aval.shape[axis + 1 :]))


def unmapped_aval(
    size: int, axis: int | None, aval: ShapedArray, *_: Any
) -> ShapedArray:
    """The type of so many elements along a new axis; None is no axis."""
    if axis is None:
        return aval
    return aval.with_shape((*aval.shape[:axis], size, *aval.shape[axis:]))


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of a tangent."""
    return primal_dtype if dtypes.is_inexact(primal_dtype) else dtypes.float0


def gensym() -> Callable[[ShapedArray], Var]:
    """A function that makes new variables of given types."""
    return Var


class EvalTrace:
    """The trace of values that are in none."""

    main = None


def find_top_trace(values: Sequence[Any]) -> Any:
    """The innermost trace of some values."""
    return scope_of([x for x in values if isinstance(x, Tracer)]) or EvalTrace()


def unsafe_am_i_under_a_jit() -> bool:
    """Is a function under `jit` being traced?"""
    return any(scope.transform == "jit" for scope in open_scopes())


def unsafe_am_i_under_a_vmap() -> bool:
    """Is a function under `vmap` being traced?"""
    return any(scope.transform == "vmap" for scope in open_scopes())


unsafe_am_i_under_a_jit_DO_NOT_USE = unsafe_am_i_under_a_jit
unsafe_am_i_under_a_vmap_DO_NOT_USE = unsafe_am_i_under_a_vmap


class Trace:
    """JAX's interpreters derive from it; those of ftrace's are rewrites of graphs."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise _no_interpreters(type(self).__name__)


class TraceTag(Trace):
    """See `Trace`."""


def take_current_trace() -> NoReturn:
    """Raises: there is no interpreter that could be taken away."""
    raise _no_interpreters("take_current_trace")


def set_current_trace(*_: Any, **__: Any) -> NoReturn:
    """Raises: functions are traced to graphs, by no interpreter of the user's."""
    raise _no_interpreters("set_current_trace")


def _no_interpreters(name: str) -> ArgumentError:
    return ArgumentError(
        f"jax.core.{name}: ftrace has no interpreters of the user's; trace the "
        "function with make_jaxpr and walk through the equations, or rewrite its graph"
    )


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Raises where a variable is used that nothing has made before.

    Raises:
      GraphError: an equation or a result uses it.
    """
    known: set[Any] = {*jaxpr.constvars, *jaxpr.invars}
    last = [(None, jaxpr.outvars, ())]
    for eqn, used, made in [*((e, e.invars, e.outvars) for e in jaxpr.eqns), *last]:
        for atom in used:
            if not isinstance(atom, Literal) and atom not in known:
                where = "the results" if eqn is None else f"the equation {eqn}"
                raise GraphError(f"{where}: {atom} is used before it is made")
        known.update(made)


def max_dim(d1: Any, d2: Any) -> Any:
    """The greater of two sizes, which are numbers."""
    return max(d1, d2)


def min_dim(d1: Any, d2: Any) -> Any:
    """The smaller of two sizes, which are numbers."""
    return min(d1, d2)
