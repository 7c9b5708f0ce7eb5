"""`jax.interpreters.ad`: rules for derivatives of a library's own primitives."""

# What rows and rules take and return is Any, and so are the parameters of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import ftrace
from ftrace.compat.lax_primitives import NAMED
from ftrace.compat.linear_util import WrappedFun, wrap_init
from ftrace.compat.primitive import (
    Primitive,
    UndefinedPrimal as UndefinedPrimal,
    Zero as Zero,
    add_tangents as add_tangents,
    instantiate_zeros as instantiate_zeros,
    is_undefined_primal as is_undefined_primal,
    jvps as primitive_jvps,
    transposes as primitive_transposes,
)
from ftrace.errors import MissingRuleError, UnexpectedTracerError
from ftrace.trace.avals import ShapedArray
from ftrace.trace.tracing.tracer import Tracer
from ftrace.transforms.custom.rules_on_values import varies

Rule = Callable[..., Any]
stop_gradient_p = NAMED["stop_gradient"]
add_jaxvals_p = NAMED["add_any"]
CustomVJPException = UnexpectedTracerError
SymbolicZero = ftrace.custom_derivatives.SymbolicZero


class _OfVarying(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tracer) and varies(instance)


class JVPTracer(metaclass=_OfVarying):
    """A value of a function under a derivative, with a tangent that is not zero."""


def zeros_like_aval(aval: ShapedArray) -> Any:
    """Zeros of a type."""
    return ftrace.numpy.zeros(aval.shape, aval.dtype)


def instantiate_zeros_aval(aval: ShapedArray, tangent: Any) -> Any:
    """The tangent; of a `Zero` the zeros as an array."""
    return instantiate_zeros(tangent)


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two cotangents."""
    return x + y


def get_primitive_transpose(primitive: Primitive) -> Rule:
    """The rule of a primitive for cotangents.

    Raises:
      MissingRuleError: it has none.
    """
    try:
        return primitive_transposes[primitive]
    except KeyError:
        raise MissingRuleError(
            "Transpose rule (for reverse-mode differentiation) for "
            f"{primitive.name!r} not implemented"
        ) from None


def defjvp(primitive: Primitive, *rules: Rule | None) -> None:
    """Gives a primitive of one result a rule per operand.

    Args:
      rules: (tangent, *operands, **params) -> tangent; None is zero.
    """
    without_result = [
        None if r is None else lambda t, _, *xs, rule=r, **ps: rule(t, *xs, **ps)
        for r in rules
    ]
    defjvp2(primitive, *without_result)


def defjvp2(primitive: Primitive, *rules: Rule | None) -> None:
    """`defjvp` of rules (tangent, result, *operands, **params) -> tangent."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        parts = [
            rule(tangent, result, *primals, **params)
            for rule, tangent in zip(rules, tangents, strict=True)
            if rule is not None and not isinstance(tangent, Zero)
        ]
        zero: Any = Zero.from_primal_value(result)
        return result, reduce(add_tangents, parts, zero)

    primitive_jvps[primitive] = jvp


def deflinear(primitive: Primitive, transpose: Rule) -> None:
    """Says that a primitive is linear; `transpose`: (cotangent, **params) -> list."""
    deflinear2(primitive, lambda ct, *_, **params: transpose(ct, **params))


def deflinear2(primitive: Primitive, transpose: Rule) -> None:
    """`deflinear` of a rule (cotangent, *operands, **params) -> list."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        if all(isinstance(t, Zero) for t in tangents):
            several = primitive.multiple_results
            zero = Zero.from_primal_value
            return result, [*map(zero, result)] if several else zero(result)
        return result, primitive.bind(*map(instantiate_zeros, tangents), **params)

    def rule(ct: Any, *operands: Any, **params: Any) -> Any:
        if isinstance(ct, Zero):
            return [None] * len(operands)
        return transpose(ct, *operands, **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = rule


def defbilinear(primitive: Primitive, left: Rule, right: Rule) -> None:
    """Says that a primitive is linear in each of two operands.

    Args:
      left, right: (cotangent, x, y, **params) -> the cotangent of x; of y.
    """

    def rule(ct: Any, x: Any, y: Any, **params: Any) -> Any:
        if isinstance(ct, Zero):
            return None, None
        if is_undefined_primal(x):
            return left(ct, x, y, **params), None
        return None, right(ct, x, y, **params)

    defjvp(
        primitive,
        lambda t, x, y, **params: primitive.bind(t, y, **params),
        lambda t, x, y, **params: primitive.bind(x, t, **params),
    )
    primitive_transposes[primitive] = rule


def jvp(fun: WrappedFun, has_aux: bool = False, instantiate: Any = True) -> WrappedFun:
    """The function (primals, tangents) -> (results, their tangents)."""
    return wrap_init(
        lambda xs, ts: ftrace.jvp(fun.call_wrapped, tuple(xs), tuple(ts), has_aux)
    )
