"""From a function to its jaxpr.

make_jaxpr      what a function does for arguments of some types
trace_to_jaxpr  the same, of a function of flat values
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.compat.api_util import debug_info as info_of
from ftrace.compat.jaxpr import ClosedJaxpr
from ftrace.compat.view import TracedJaxpr
from ftrace.trace.avals import ShapedArray
from ftrace.trace.body import close, trace_body
from ftrace.trace.flatten_arguments import Output, read_argnums, type_of, wraps
from ftrace.trace.graph import Graph
from ftrace.trace.pytree import tree
from ftrace.trace.references import Ref
from ftrace.trace.tracing.tracer import Value
from ftrace.transforms.jit.structs import ShapeDtypeStruct


def trace_to_jaxpr(
    function: Callable[..., Sequence[Value]],
    avals: Sequence[ShapedArray],
    debug_info: Any = None,
) -> ClosedJaxpr:
    """The jaxpr of a function from flat values to flat values.

    What it uses beside its arguments, arrays and traced values, are constants.
    """
    draft = trace_body("make_jaxpr", function, avals)
    before, after = draft.effects[:1], draft.effects[1:]
    inputs = [*draft.arguments, *draft.free, *before]
    body = close(inputs, [*draft.outputs, *after])
    count, results = len(inputs) - len(before), len(draft.outputs)
    effects = (*body.inputs[count:], *body.outputs[results:])
    graph = Graph(body.inputs[:count], body.outputs[:results], (), effects)
    return ClosedJaxpr(
        TracedJaxpr(graph, len(draft.arguments), debug_info), [*draft.values]
    )


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that returns the jaxpr of `fun` for its arguments.

    Args:
      fun: a function of pytrees of arrays.
      static_argnums: arguments that are Python values.
      axis_env: accepted for JAX's sake.
      return_shape: also return the shapes and dtypes of the result.

    Returns:
      f(*args, **kwargs) -> a `ClosedJaxpr`, or with `return_shape` a pair; arguments
      may be `ShapeDtypeStruct`s.
    """
    tree.check_callable(fun, "make_jaxpr")
    numbers = read_argnums("make_jaxpr", "static_argnums", static_argnums)

    @wraps(fun)
    def jaxpr_of(*args: Any, **kwargs: Any) -> Any:
        static = {i % len(args) for i in numbers}
        given = tuple([x for i, x in enumerate(args) if i not in static])
        leaves, treedef = tree.flatten((given, kwargs))

        def call(*tracers: Value) -> Any:
            pairs = zip(leaves, tracers, strict=True)
            own = [Ref(x) if isinstance(leaf, Ref) else x for leaf, x in pairs]
            moving, named = tree.unflatten(treedef, own)
            rest = iter(moving)
            full = [x if i in static else next(rest) for i, x in enumerate(args)]
            return fun(*full, **named)

        output = Output(call, "make_jaxpr", False)
        info = info_of("jit", fun, args, kwargs, static_argnums=tuple(static))
        jaxpr = trace_to_jaxpr(output, [type_of(x) for x in leaves], info)
        if not return_shape:
            return jaxpr
        return jaxpr, output.build([_struct(a) for a in jaxpr.out_avals])

    return jaxpr_of


def _struct(aval: ShapedArray) -> ShapeDtypeStruct:
    return ShapeDtypeStruct.of(aval)
