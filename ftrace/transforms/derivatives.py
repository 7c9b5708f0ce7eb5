"""grad, jvp, vjp and the like: JAX's names, arguments and meanings.

Un-jitted, each of them traces the function with its arguments bound to their values,
builds the graph of the derivative, and runs that as one program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.array import Array
from ftrace.errors import (
    ArgumentError,
    DerivativeError,
    DtypeError,
    ShapeError,
    TreeError,
)
from ftrace.trace import tree
from ftrace.trace.autodiff import (
    RESIDUAL_DEPTH,
    gradient_nodes,
    jvp_nodes,
    split_known,
    tangent_variable,
    transpose_nodes,
)
from ftrace.trace.avals import TOKEN, ShapedArray
from ftrace.trace.calls.follow import follow_rules
from ftrace.trace.effects import check_repeatable, rehearsal
from ftrace.trace.graph import Graph, Node, substitute
from ftrace.trace.operations import bind
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.elementwise import stop_gradient as stop_gradient_p
from ftrace.trace.primitives.source import const_like, variable
from ftrace.trace.tracer import Value, aval_of, owned
from ftrace.trace.tracing import trace
from ftrace.transforms.arguments import (
    Output,
    check_callable,
    flatten_values,
    name_of,
    of_arguments,
)
from ftrace.transforms.memo import Memo, derived, is_plain
from ftrace.transforms.prepared import apply_again, apply_derived

Function = Callable[..., Any]


def value_and_grad(
    fun: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:
    """A function that returns the value of `fun` and its gradient.

    Args:
      fun: returns a scalar of float dtype, or a pair (scalar, aux) with `has_aux`.
      argnums: which positional arguments to differentiate; pytrees of arrays.
      has_aux: `fun` returns something beside the scalar that is passed through.
      holomorphic: arguments and result are complex, and `fun` is holomorphic.
      allow_int: integer arguments are allowed; their gradient has dtype float0.

    Returns:
      f(*args, **kwargs) -> (value, gradient), or ((value, aux), gradient). The
      gradient has the structure of the argument, or is a tuple for several argnums.

    Raises:
      DerivativeError: an argument or the result is not of an inexact dtype.
      ShapeError: the result is not a scalar.
    """
    check_callable(fun, "value_and_grad")

    @wraps(fun)
    def value_and_grad_f(*args: Any, **kwargs: Any) -> Any:
        values, treedef, call = of_arguments(fun, argnums, args, kwargs, "grad")
        avals = [aval_of(x) for x in values]
        check_inputs(avals, holomorphic, allow_int)
        output = Output(call, "grad", has_aux)
        graph = trace("grad", output, avals, values)
        head = _check_scalar(graph.outputs[: output.count], name_of(fun), holomorphic)
        leaves = graph.inputs[: len(avals)]

        def differentiated() -> Graph:
            gradient = gradient_nodes([head], leaves, [const_like(head, 1)])
            return _followed(graph, (*graph.outputs, *gradient), leaves)

        kind = ("grad", len(leaves))
        results = apply_derived(kind, graph, differentiated, values)
        size = len(graph.outputs)
        grads = [_float0(g, a) for g, a in zip(results[size:], avals, strict=True)]
        answer = tree.unflatten(treedef, grads)
        if not isinstance(argnums, (tuple, list)):
            (answer,) = answer
        value = output.build(results[:1])
        if has_aux:
            value = (value, output.build_aux(results[1:size]))
        return value, answer

    return value_and_grad_f


def grad(
    fun: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:
    """A function that returns the gradient of `fun`; see `value_and_grad`.

    Returns:
      f(*args, **kwargs) -> gradient, or (gradient, aux) with `has_aux`.
    """
    check_callable(fun, "grad")
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @wraps(fun)
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_f


def check_inputs(
    avals: Sequence[ShapedArray], holomorphic: bool, allow_int: bool
) -> None:
    for aval in avals:
        if holomorphic:
            if not dtypes.is_complex(aval.dtype):
                raise DerivativeError(
                    f"grad with holomorphic=True needs complex inputs, got {aval!r}"
                )
        elif dtypes.is_complex(aval.dtype):
            continue
        elif not dtypes.is_float(aval.dtype) and not allow_int:
            raise DerivativeError(
                f"grad needs inputs of a float dtype, got {aval!r}; convert with "
                f".astype, choose other argnums, or pass allow_int=True"
            )


def _check_scalar(outputs: Sequence[Node], name: str, holomorphic: bool) -> Node:
    if len(outputs) != 1:
        raise ArgumentError(
            f"grad: {name} must return one scalar, got {len(outputs)} values; return "
            f"the others as aux with has_aux=True"
        )
    (head,) = outputs
    if head.shape != ():
        raise ShapeError(
            f"grad: {name} must return a scalar, got {head.aval!r}; sum it, or use "
            f"jacrev",
            head.origin,
        )
    fits = dtypes.is_complex if holomorphic else dtypes.is_float
    if not fits(head.dtype):
        wanted = "complex" if holomorphic else "real float"
        raise DerivativeError(
            f"grad: {name} must return a {wanted} scalar, got {head.aval!r}",
            head.origin,
        )
    return head


def _float0(gradient: Value, aval: ShapedArray) -> Value:
    """Gradients of integers hold no bits, as in JAX."""
    if dtypes.is_inexact(aval.dtype):
        return gradient
    return np.zeros(aval.shape, dtypes.float0)


def jvp(
    fun: Function,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> Any:
    """The value of `fun` and its directional derivative.

    Args:
      fun: any function of arrays.
      primals: tuple of its positional arguments.
      tangents: tuple of the same structure, shapes and dtypes; float0 for integers.
      has_aux: `fun` returns a pair (output, aux).

    Returns:
      (output, tangent of the output), and aux with `has_aux`.

    Raises:
      TreeError: primals and tangents differ in structure.
      ShapeError, DtypeError: a tangent does not match its primal.
    """
    check_callable(fun, "jvp")
    values, treedef = _tuple_values("jvp: primals", primals)
    directions, tangent_def = _tuple_values("jvp: tangents", tangents)
    if treedef != tangent_def:
        raise TreeError(
            f"jvp: primals and tangents differ in structure: {treedef} and "
            f"{tangent_def}"
        )
    avals = [aval_of(x) for x in values]
    varying = _check_tangents(avals, directions)

    def call(*tracers: Value) -> Any:
        return fun(*tree.unflatten(treedef, tracers[: len(avals)]))

    output = Output(call, "jvp", has_aux)
    output.function.__name__ = name_of(fun)
    kept = [directions[i] for i in varying]
    types = avals + [avals[i].strong() for i in varying]
    graph = trace("jvp", output, types, [*values, *kept])
    moving = graph.inputs[len(avals) :]
    leaves = {graph.inputs[i]: moving[k] for k, i in enumerate(varying)}
    primal_out = graph.outputs[: output.count]

    def differentiated() -> Graph:
        tangents = jvp_nodes(primal_out, leaves)
        out = [
            _tangent_or_zero(t, node)
            for t, node in zip(tangents, primal_out, strict=True)
        ]
        return _followed(graph, (*graph.outputs, *out), leaves)

    kind = ("jvp", len(avals), tuple(varying), output.count)
    results = apply_derived(kind, graph, differentiated, [*values, *kept])
    size, total = output.count, len(graph.outputs)
    answer = (output.build(results[:size]), output.build(results[total:]))
    return (*answer, output.build_aux(results[size:total])) if has_aux else answer


def _tuple_values(what: str, args: Sequence[Any]) -> tuple[list[Value], tree.TreeDef]:
    if not isinstance(args, (tuple, list)):
        raise ArgumentError(
            f"{what} must be a tuple of arguments, got {type(args).__name__}"
        )
    leaves, treedef = tree.flatten(tuple(args))
    kept = [x for x in leaves if getattr(x, "dtype", None) != dtypes.float0]
    flatten_values(kept, what)
    return leaves, treedef


def _check_tangents(
    avals: Sequence[ShapedArray], tangents: Sequence[Value]
) -> list[int]:
    """The positions that vary."""
    varying: list[int] = []
    for i, (aval, tangent) in enumerate(zip(avals, tangents, strict=True)):
        if not dtypes.is_inexact(aval.dtype):
            if getattr(tangent, "dtype", None) != dtypes.float0:
                raise DtypeError(
                    f"jvp: the tangent of {aval!r} must have dtype float0, got "
                    f"{aval_of(tangent)!r}"
                )
            continue
        given = aval_of(tangent)
        pair = f"jvp: primal {aval!r} and tangent {given!r}"
        if given.shape != aval.shape:
            raise ShapeError(f"{pair} differ in shape")
        if given.dtype != aval.dtype and not given.weak_type and not aval.weak_type:
            raise DtypeError(f"{pair} differ in dtype")
        varying.append(i)
    return varying


def _tangent_or_zero(tangent: Node | None, primal: Node) -> Node:
    return cast(tangent, primal.dtype) if tangent is not None else const_like(primal, 0)


class _Linear:
    """A function that is linear in its arguments, with what it needs already computed.

    Attributes:
      graph: of residuals and arguments.
      residuals: their values.
    """

    def __init__(
        self, name: str, graph: Graph, residuals: Sequence[Value],
        avals: Sequence[ShapedArray], in_tree: tree.TreeDef, out_tree: tree.TreeDef,
        one_argument: bool,
    ) -> None:  # fmt: skip
        self.name = name
        self.graph = graph
        self.residuals = residuals
        self.avals = avals
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.one_argument = one_argument

    def __call__(self, *args: Any) -> Any:
        given = args[0] if self.one_argument and len(args) == 1 else args
        leaves, treedef = tree.flatten(given)
        if treedef != self.in_tree:
            raise TreeError(
                f"{self.name}: the structure must be {self.in_tree}, got {treedef}"
            )
        kept: list[Value] = []
        for leaf, aval in zip(leaves, self.avals, strict=True):
            if not dtypes.is_inexact(aval.dtype):
                continue
            got = aval_of(leaf)
            if got.shape != aval.shape or (
                got.dtype != aval.dtype and not got.weak_type
            ):
                raise ShapeError(f"{self.name}: {aval!r} is required, got {got!r}")
            kept.append(leaf)
        results = apply_again(self.graph, [*self.residuals, *kept])
        return tree.unflatten(self.out_tree, results)


def vjp(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The value of `fun`, and the function that pulls cotangents back to its arguments.

    Args:
      fun: any function of arrays.
      primals: its positional arguments.
      has_aux: `fun` returns a pair (output, aux).

    Returns:
      (output, vjp_fun), and aux with `has_aux`. `vjp_fun(ct)` takes a cotangent of the
      structure of the output and returns a tuple with a cotangent per primal.
    """
    check_callable(fun, "vjp")
    values, treedef, graph, output = _trace_primals("vjp", fun, primals, has_aux)
    avals = [aval_of(x) for x in values]
    heads = graph.outputs[: output.count]
    out_avals = [n.aval.strong() for n in heads]
    cts = [
        tangent_variable(a, 10_000 + i)
        for i, a in enumerate(out_avals)
        if dtypes.is_inexact(a.dtype)
    ]
    rest = iter(cts)
    aligned = [next(rest) if dtypes.is_inexact(a.dtype) else None for a in out_avals]
    leaves = graph.inputs[: len(avals)]

    def differentiated() -> Graph:
        grads = gradient_nodes(heads, leaves, aligned)
        return _followed(graph, (*graph.outputs, *grads), leaves)

    whole = derived(("vjp", len(avals), output.count), graph, differentiated)
    results, backward, residuals = _forward(whole, len(leaves), cts, values)
    assert output.treedef is not None
    pull = _Linear("vjp", backward, residuals, out_avals, output.treedef, treedef, True)
    answer = (output.build(results[: output.count]), _with_float0(pull, avals))
    return (*answer, output.build_aux(results[output.count :])) if has_aux else answer


def _with_float0(pull: _Linear, avals: Sequence[ShapedArray]) -> Function:
    if all(dtypes.is_inexact(a.dtype) for a in avals):
        return pull

    def pull_back(*args: Any) -> Any:
        leaves, treedef = tree.flatten(pull(*args))
        pairs = zip(leaves, avals, strict=True)
        return tree.unflatten(treedef, [_float0(g, a) for g, a in pairs])

    return pull_back


def _trace_primals(
    transform: str, fun: Function, primals: Sequence[Any], has_aux: bool
) -> tuple[list[Value], tree.TreeDef, Graph, Output]:
    values, treedef = flatten_values(tuple(primals), f"{transform}: the argument ")
    values = [owned(x) for x in values]

    def call(*tracers: Value) -> Any:
        return fun(*tree.unflatten(treedef, tracers))

    output = Output(call, transform, has_aux)
    output.function.__name__ = name_of(fun)
    graph = trace(transform, output, [aval_of(x) for x in values], values)
    return values, treedef, graph, output


def _forward(
    graph: Graph,
    count: int,
    unknown: Sequence[Node],
    values: Sequence[Value],
) -> tuple[list[Value], Graph, list[Value]]:
    """Runs what does not depend on the unknown variables.

    Args:
      graph: its last `count` outputs depend on them.

    Returns:
      The other outputs; a graph of the last ones in terms of residuals and the unknown;
      and the values of the residuals.
    """
    size = len(graph.outputs) - count
    key = (graph.inputs, graph.outputs, count, tuple(unknown))
    halves = None if graph.effects else _halves.get(key)
    if halves is None:
        known, later = _split(graph, count, unknown)
        if is_plain(graph):
            _halves.put(key, (known.outputs, later))
    else:
        known = Graph(graph.inputs, halves[0], graph.captured)
        later = halves[1]
    results = apply_again(known, values)
    return results[:size], later, results[size:]


#: Of graphs that were split: the outputs of the known part, and the other part.
_halves: Memo[tuple[tuple[Node, ...], Graph]] = Memo(1024)


def _split(graph: Graph, count: int, unknown: Sequence[Node]) -> tuple[Graph, Graph]:
    """A graph of what is known, and one of the last outputs in terms of the rest."""
    size = len(graph.outputs) - count
    first, linear = graph.outputs[:size], graph.outputs[size:]
    residuals = split_known(linear, unknown)
    # What is run again for its stacks has had its effects.
    again = {n: rehearsal() for n in residuals if n.aval is TOKEN}
    nodes = [n for n in residuals if n not in again]
    outputs = (*first, *nodes)
    known = Graph(graph.inputs, outputs, graph.captured, graph.effects)
    leaves = [variable(n.aval, RESIDUAL_DEPTH, i) for i, n in enumerate(nodes)]
    later = substitute(linear, again | dict(zip(nodes, leaves, strict=True)))
    if again:
        check_repeatable(later)
    return known, Graph((*leaves, *unknown), tuple(later))


def _followed(graph: Graph, outputs: Sequence[Node], leaves: Iterable[Node]) -> Graph:
    """The graph with other outputs, all of them computed by the rules of its calls."""
    count = len(outputs)
    found = follow_rules((*outputs, *graph.effects[1:]), leaves)
    effects = (*graph.effects[:1], *found[count:])
    return Graph(graph.inputs, tuple(found[:count]), graph.captured, effects)


def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The value of `fun`, and its derivative at this point as a linear function.

    Returns:
      (output, f_jvp), and aux with `has_aux`; f_jvp takes tangents like the primals.
    """
    check_callable(fun, "linearize")
    values, treedef, graph, output = _trace_primals("linearize", fun, primals, has_aux)
    avals = [aval_of(x) for x in values]
    leaves = {
        leaf: tangent_variable(leaf.aval, i)
        for i, leaf in enumerate(graph.inputs[: len(avals)])
        if dtypes.is_inexact(leaf.dtype)
    }
    heads = graph.outputs[: output.count]

    def differentiated() -> Graph:
        tangents = zip(jvp_nodes(heads, leaves), heads, strict=True)
        out = [_tangent_or_zero(t, n) for t, n in tangents]
        return _followed(graph, (*graph.outputs, *out), leaves)

    unknown = list(leaves.values())
    kind = ("linearize", len(avals), output.count)
    whole = derived(kind, graph, differentiated)
    results, ahead, residuals = _forward(whole, len(heads), unknown, values)
    assert output.treedef is not None
    push = _Linear("linearize", ahead, residuals, avals, treedef, output.treedef, False)
    answer = (output.build(results[: output.count]), push)
    return (*answer, output.build_aux(results[output.count :])) if has_aux else answer


def linear_transpose(fun: Function, *primals: Any) -> Function:
    """The transpose of a linear function.

    Args:
      fun: linear in its arguments.
      primals: arrays, or anything with shape and dtype, that tell the types.

    Returns:
      A function from a cotangent of the output to a tuple with one per primal.

    Raises:
      DerivativeError: `fun` is not linear.
    """
    check_callable(fun, "linear_transpose")
    leaves, treedef = tree.flatten(tuple(primals))
    avals = [type_of(x) for x in leaves]

    def call(*tracers: Value) -> Any:
        return fun(*tree.unflatten(treedef, tracers))

    output = Output(call, "linear_transpose", False)
    output.function.__name__ = name_of(fun)
    graph = trace("linear_transpose", output, avals)
    cts = [tangent_variable(n.aval, i) for i, n in enumerate(graph.outputs)]
    inputs = graph.inputs[: len(avals)]
    found = transpose_nodes(graph.outputs, inputs, cts)
    results = [
        _tangent_or_zero(ct, leaf) for ct, leaf in zip(found, inputs, strict=True)
    ]
    captured = graph.inputs[len(avals) :]
    whole = Graph((*captured, *cts), tuple(results))
    assert output.treedef is not None
    types = [n.aval for n in graph.outputs]
    return _Linear(
        "linear_transpose", whole, graph.captured, types, output.treedef, treedef, True
    )


def type_of(value: Any) -> ShapedArray:
    """Shape and dtype of an array, or of anything that has these attributes."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        weak = bool(getattr(value, "weak_type", False))
        return ShapedArray.of(tuple(value.shape), dtypes.as_dtype(value.dtype), weak)
    return aval_of(value)


def stop_gradient(x: Any) -> Any:
    """`x`, as a constant to derivatives; a tree of arrays."""
    return tree.map(lambda v: bind(stop_gradient_p, v) if _varies(v) else v, x)


def _varies(value: Value) -> bool:
    return not isinstance(value, (Array, np.ndarray)) and dtypes.is_inexact(
        aval_of(value).dtype
    )
