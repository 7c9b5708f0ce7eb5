"""Closures as arguments, gradients in place of rules, transposes by hand.

closure_convert   what a function closes over becomes arguments
custom_gradient   a function that returns its value and its pullback
linear_call       a linear function with a transpose that the user writes
zero_from_primal  the symbolic zero of a value
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import ArgumentError, TreeError
from ftrace.trace.body import close, trace_body
from ftrace.trace.calls import custom_call, rule_graphs
from ftrace.trace.calls.custom_call import Invocation, zeros_of
from ftrace.trace.calls.custom_derivative import linear_call_p
from ftrace.trace.flatten_arguments import Output, flatten_values, name_of, put, wraps
from ftrace.trace.graph import Graph
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of
from ftrace.transforms.custom.custom_derivatives import custom_vjp
from ftrace.transforms.jit.compiled_graph import apply_graph


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The tangent of a tree that is zero: of `SymbolicZero`s, or arrays of zeros.

    Args:
      val: a tree of arrays.
      symbolic_zeros: make `SymbolicZero`s.
    """

    def zero(x: Value) -> Any:
        aval = aval_of(x)
        if symbolic_zeros:
            return custom_call.SymbolicZero(aval)
        return custom_call.zeros_of(aval.strong())

    return tree.map(zero, val)


def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """A function that closes over nothing that is differentiated.

    Args:
      fun: a function of arrays that may use traced values of functions around it.
      example_args: arguments of the types that it will be called with.

    Returns:
      (converted, values): converted(*args, *values) is fun(*args); the values are the
      traced ones of float or complex dtype that `fun` closes over.

    Example:
      >>> def g(y):
      ...     f, values = ft.closure_convert(lambda x: x * y, 1.0)
      ...     return f(3.0, *values)
      >>> ft.grad(g)(2.0)
      Array(3., dtype=float32, weak_type=True)
    """
    call, values, _ = _convert("closure_convert", fun, example_args)
    moved = [i for i, x in enumerate(values) if _varies(x)]

    def apply(*args: Any) -> Any:
        count = len(args) - len(moved)
        return call(put(values, moved, args[count:]), *args[:count])

    return apply, [values[i] for i in moved]


def _varies(value: Value) -> bool:
    return isinstance(value, Tracer) and dtypes.is_inexact(value.dtype)


def _convert(
    kind: str, fun: Callable[..., Any], examples: Sequence[Any]
) -> tuple[Callable[..., Any], list[Value], Output]:
    """(of what a function closes over, *args) -> its result; what that is; its output.

    Raises:
      ArgumentError: it has effects; called with arguments of another structure.
    """
    tree.check_callable(fun, kind)
    what = f"{kind}: the argument "
    given, treedef = flatten_values(tuple(examples), what)
    output = Output.of_leaves(fun, treedef, kind)
    draft = trace_body(kind, output, list(map(aval_of, given)))
    if draft.effects:
        raise ArgumentError(
            f"{kind}: {name_of(fun)} has effects (debug.print, io_callback), which "
            "would happen at no definite time; take them out of the function"
        )
    body = close([*draft.free, *draft.arguments], draft.outputs)

    def call(closed: Sequence[Value], *args: Any) -> Any:
        leaves, got = flatten_values(args, what)
        if got != treedef:
            raise ArgumentError(
                f"{kind}: {name_of(fun)} was converted for arguments of the structure "
                f"{tree.readable(treedef)}, got {tree.readable(got)}"
            )
        graph = Graph(body.inputs, body.outputs)
        return output.build(apply_graph(graph, [*closed, *leaves]))

    return call, list(draft.values), output


def _moves(x: Value) -> bool:
    return dtypes.is_inexact(aval_of(x).dtype)


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function with a gradient of its own.

    Args:
      fun: (*args) -> (value, pullback). pullback(cotangent of the value) is the
        cotangent of the argument, or a tuple with one per argument if there are more.

    Returns:
      The function of the value alone.

    Raises:
      ArgumentError: `fun` is no function.

    Example:
      >>> @ft.custom_gradient
      ... def clipped(x):
      ...     return x, lambda ct: fnp.clip(ct, -1.0, 1.0)
      >>> ft.grad(lambda x: 5 * clipped(x))(2.0)
      Array(1., dtype=float32, weak_type=True)
    """
    tree.check_callable(fun, "custom_gradient")

    @wraps(fun)
    def value_of(*args: Any) -> Any:
        return fun(*args)[0]

    def forward(*args: Any) -> Any:
        value, pullback = fun(*args)
        leaves, treedef = tree.flatten(value)
        structure = tree.structure(args)

        def of_moving(*cotangents: Value) -> Any:
            given = iter(cotangents)
            parts = [next(given) if _moves(x) else zeros_of(aval_of(x)) for x in leaves]
            return pullback(tree.unflatten(treedef, parts))

        of_moving.__name__ = name_of(pullback)
        examples = list(filter(_moves, leaves))
        call, values, output = _convert("custom_gradient", of_moving, examples)
        if output.count != structure.num_leaves:
            raise TreeError(
                f"custom_gradient: the pullback of {name_of(fun)} must return a "
                f"cotangent per argument, in the structure "
                f"{tree.readable(structure)}, got {output.count} arrays",
                custom_call.origin_of(pullback),
            )
        return value, (call, structure, values)

    def backward(residuals: Any, cotangent: Any) -> Any:
        call, structure, values = residuals
        found = call(values, *filter(_moves, tree.leaves(cotangent)))
        return tree.unflatten(structure, tree.leaves(found))

    made = custom_vjp(value_of)
    signature = custom_call.signature_of(fun)
    made.defvjp(forward, backward)

    @wraps(fun)
    def apply(*args: Any, **kwargs: Any) -> Any:
        return made(
            *custom_call.resolve_arguments(
                fun, signature, "custom_gradient", args, kwargs
            )
        )

    return apply


def linear_call(
    fun: Callable[[Any, Any], Any],
    fun_transpose: Callable[[Any, Any], Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """fun(residual_args, linear_args), with a transpose that the user writes.

    Args:
      fun: linear in its second argument.
      fun_transpose: (residual_args, cotangent of the result) -> the cotangent of
        `linear_args`.
      residual_args, linear_args: trees of arrays.

    Raises:
      TreeError, ShapeError, DtypeError: when transposed, `fun_transpose` returned
        something else than the type of `linear_args`.
    """
    tree.check_callable(fun, "linear_call")
    tree.check_callable(fun_transpose, "linear_call")
    call = Invocation(fun, "linear_call", (residual_args, linear_args), ())
    count = len(tree.leaves(residual_args))
    found = rule_graphs.trace_call(
        "linear_call",
        call.output,
        call.values,
        rule_graphs.captured_by_rules([fun_transpose]),
    )
    if found is None:
        return fun(*tree.map(asarray, (residual_args, linear_args)))
    if found.effects:
        raise ArgumentError(f"linear_call: {call.name} has effects; it must be linear")
    types = custom_call.result_types(found)

    def transpose(mask: Sequence[bool], flat: Sequence[Value]) -> list[Value]:
        """The user's transpose on flat values."""
        residuals, linear = call.without_fixed(
            [*flat[:count], *range(count, len(call.avals))]
        )
        given = iter(flat[count:])
        cotangents = [
            next(given) if present else custom_call.zeros_of(aval)
            for present, aval in zip(mask, types, strict=True)
        ]
        answer = fun_transpose(residuals, call.output.build(cotangents))
        promise = custom_call.Promise(
            f"the cotangents of the transpose of {call.name}",
            "linear_args", fun_transpose, tree.structure(linear),
            [a.strong() for a in call.avals[count:]],
        )  # fmt: skip
        return promise.leaves(answer)

    key = call.key(fun, fun_transpose)
    closed = found.operands[: found.closed]
    rule = rule_graphs.Rule(call.name, key, transpose, closed)
    return custom_call.record(linear_call_p, call, found, found.closed + count, (rule,))
