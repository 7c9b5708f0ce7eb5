"""grad, jvp, vjp and the like: JAX's names, arguments and meanings.

Un-jitted, each of them traces the function with its arguments bound to their values,
builds the graph of the derivative, and runs that as one program.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, overload

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace import autodiff, flatten_arguments as flat, references
from ftrace.trace.arrays.array import is_array
from ftrace.trace.avals import TOKEN, ShapedArray
from ftrace.trace.bind import bind
from ftrace.trace.calls.inline import follow_rules
from ftrace.trace.calls.varying import Varying, varying_here
from ftrace.trace.eager.dispatch import calls, signature
from ftrace.trace.effects import check_repeatable, rehearsal
from ftrace.trace.flatten_arguments import A, Output, P, R, type_of, wraps
from ftrace.trace.graph import Graph, Node, substitute
from ftrace.trace.primitives import sources
from ftrace.trace.primitives.elementwise import cast, stop_gradient as stop_gradient_p
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import snapshot
from ftrace.trace.tracing.trace import free_variables, trace
from ftrace.trace.tracing.tracer import Function, Value, aval_of, stack
from ftrace.transforms import tangents as tan
from ftrace.transforms.jit import eager_programs
from ftrace.transforms.jit.compiled_graph import weight_of


def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[P, tuple[R, Any]]:
    """A function that returns the value of `fun` and its gradient.

    Both come from one program: what the gradient needs of the value is computed once.

    Args:
      fun: returns a scalar of float dtype, or a pair (scalar, aux) with `has_aux`.
      argnums: which positional arguments to differentiate: an int, or several. Each may
        be a pytree of arrays of float or complex dtype. All other arguments are
        constants.
      has_aux: `fun` returns something beside the scalar that is passed through.
      holomorphic: arguments and result are complex, and `fun` is holomorphic.
      allow_int: integer arguments are allowed; their gradient has dtype float0.
      reduce_axes: must be empty: sum over mapped axes by `lax.psum`.

    Returns:
      f(*args, **kwargs) -> (value, gradient), or ((value, aux), gradient). The
      gradient has the structure, shapes and dtypes of the argument, or is a tuple for
      several argnums. Of a complex argument it is ∂f/∂re - i·∂f/∂im, as in JAX.

    Raises:
      DerivativeError: an argument or the result is not of an inexact dtype.
      ShapeError: the result is not a scalar.

    Example:
      >>> def loss(w, x, y):
      ...     return fnp.mean((x @ w - y) ** 2)
      >>> x, y = fnp.array([[1.0, 0.0], [0.0, 2.0]]), fnp.array([1.0, 4.0])
      >>> ft.value_and_grad(loss)(fnp.zeros(2), x, y)
      (Array(8.5, dtype=float32), Array([-1., -8.], dtype=float32))
    """
    _check_reduce_axes("value_and_grad", reduce_axes)
    return _value_and_grad(
        "value_and_grad", fun, argnums, has_aux, holomorphic, allow_int
    )


def _check_reduce_axes(name: str, reduce_axes: Sequence[Any]) -> None:
    if reduce_axes:
        raise errors.UnsupportedError(
            f"{name}: reduce_axes must be empty, got {reduce_axes!r}; sum gradients "
            "over a mapped axis by lax.psum"
        )


def _value_and_grad(
    name: str, fun: Function, argnums: int | Sequence[int], has_aux: bool,
    holomorphic: bool, allow_int: bool,
) -> Function:  # fmt: skip
    """`value_and_grad`, under the name of what the user has called."""
    tree.check_callable(fun, name)
    chosen = flat.Argnums(name, argnums)

    @wraps(fun, name)
    def value_and_grad_f(*args: Any, **kwargs: Any) -> Any:
        values, treedef, call = flat.of_arguments(fun, chosen, args, kwargs)
        avals = [aval_of(x) for x in values]
        check_inputs(name, avals, holomorphic, allow_int)
        output = Output(call, name, has_aux)
        called = flat.name_of(fun)
        try:
            graph = trace("grad", output, avals, values)
        except references.Written as written:
            found = _vjp_with_refs(written, name, call, values, has_aux)
            value, pull, *aux = found
            aval = _check_scalar(name, value, called, holomorphic)
            answer = tree.unflatten(treedef, pull(np.ones((), aval.dtype)))
            value = (value, *aux) if has_aux else value
            return value, answer[0] if chosen.single else answer
        head = output.build(graph.outputs[: output.count])
        _check_scalar(name, head, called, holomorphic)
        leaves, along = graph.inputs[: len(avals)], _along(graph, values)

        def derive() -> Graph:
            varying = [leaf for leaf in leaves if dtypes.is_inexact(leaf.dtype)]
            one = sources.const_like(head, 1)
            gradient = _gradients(graph, along, [head], varying, [one])
            return _follow(graph, (*graph.outputs, *gradient), leaves)

        kind = ("grad", len(leaves), along and along.key(graph))
        results = _apply(kind, graph, derive, values)
        size = len(graph.outputs)
        results = [*output.restore_numbers(results[:size]), *results[size:]]
        grads = tan.with_float0(
            results[size:], len(avals), map(tan.tangent_type, avals)
        )
        answer = tree.unflatten(treedef, grads)
        if chosen.single:
            (answer,) = answer
        value = output.build(results[:1])
        if has_aux:
            value = (value, output.build_aux(results[1:size]))
        return value, answer

    return value_and_grad_f


def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[P, Any]:
    """A function that returns the gradient of `fun`, by reverse mode.

    One pass back gives the derivatives in all elements of the argument, whatever their
    number. `jit(grad(f))` compiles it; `grad(grad(f))` is the second derivative of a
    function of a scalar. `value_and_grad` returns the value beside.

    Args:
      fun: returns a scalar of float dtype, or a pair (scalar, aux) with `has_aux`.
      argnums: which positional arguments to differentiate: an int, or several. Each may
        be a pytree of arrays of float or complex dtype. All other arguments are
        constants.
      has_aux: `fun` returns something beside the scalar that is passed through.
      holomorphic: arguments and result are complex, and `fun` is holomorphic.
      allow_int: integer arguments are allowed; their gradient has dtype float0.
      reduce_axes: must be empty: sum over mapped axes by `lax.psum`.

    Returns:
      f(*args, **kwargs) -> gradient, or (gradient, aux) with `has_aux`. The gradient
      has the structure, shapes and dtypes of the argument, or is a tuple for several
      argnums.

    Raises:
      DerivativeError: an argument or the result is not of an inexact dtype.
      ShapeError: the result is not a scalar; sum it, or use `jacrev`.

    Example:
      >>> ft.grad(lambda x: fnp.sum(x**3))(fnp.array([1.0, 2.0]))
      Array([ 3., 12.], dtype=float32)
      >>> ft.grad(lambda x, p: p["a"] * x, argnums=1)(3.0, {"a": 2.0})
      {'a': Array(3., dtype=float32, weak_type=True)}
      >>> ft.grad(ft.grad(lambda x: x**3))(2.0)
      Array(12., dtype=float32, weak_type=True)
    """
    _check_reduce_axes("grad", reduce_axes)
    both = _value_and_grad("grad", fun, argnums, has_aux, holomorphic, allow_int)

    @wraps(fun, "grad")
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_f


def check_inputs(
    transform: str, avals: Sequence[ShapedArray], holomorphic: bool, allow_int: bool,
    complex_too: bool = True,
) -> None:  # fmt: skip
    """Raises for arguments that cannot be differentiated.

    Args:
      complex_too: complex ones can also where the function is not holomorphic.
    """
    for aval in avals:
        if holomorphic:
            if not dtypes.is_complex(aval.dtype):
                raise errors.DerivativeError(
                    f"{transform} with holomorphic=True needs complex inputs, got "
                    f"{aval!r}"
                )
        elif dtypes.is_complex(aval.dtype):
            if not complex_too:
                raise errors.DerivativeError(
                    f"{transform} needs real inputs, got {aval!r}; pass "
                    "holomorphic=True if the function is, or use jvp or jacrev"
                )
        elif not dtypes.is_float(aval.dtype) and not allow_int:
            ways = ["convert with .astype", "choose other argnums"]
            ways += ["pass allow_int=True"] if complex_too else []
            raise errors.DerivativeError(
                f"{transform} needs inputs of a float dtype, got {aval!r}; "
                f"{', '.join(ways[:-1])}, or {ways[-1]}"
            )


_SCALAR = tree.structure(0)


def _check_scalar(
    transform: str, result: Any, name: str, holomorphic: bool
) -> ShapedArray:
    """The type of the result, a value or a node, of a function that has a gradient."""
    structure = tree.structure(result)
    if structure != _SCALAR:
        raise errors.ArgumentError(
            f"{transform}: {name} must return one scalar, got {structure.num_leaves} "
            f"values in the structure {tree.readable(structure)}; return the scalar "
            "itself, and the others as aux with has_aux=True"
        )
    aval = result.aval if isinstance(result, Node) else aval_of(result)
    origin = getattr(result, "origin", None)
    if aval.shape != ():
        raise errors.ShapeError(
            f"{transform}: {name} must return a scalar, got {aval!r}; sum it, or use "
            "jacrev",
            origin,
        )
    fits = dtypes.is_complex if holomorphic else dtypes.is_float
    if not fits(aval.dtype):
        wanted = "complex" if holomorphic else "real float"
        raise errors.DerivativeError(
            f"{transform}: {name} must return a {wanted} scalar, got {aval!r}", origin
        )
    return aval


@overload
def jvp(
    fun: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any],
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...  # fmt: skip
@overload
def jvp(
    fun: Callable[..., tuple[R, A]], primals: Sequence[Any], tangents: Sequence[Any],
    has_aux: Literal[True],
) -> tuple[R, R, A]: ...  # fmt: skip
@overload
def jvp(
    fun: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool
) -> Any: ...
def jvp(
    fun: Function,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> Any:
    """The value of `fun` and its directional derivative.

    The two are computed together, in one pass forward: output f(x), tangent f'(x)·v.

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

    Example:
      >>> ft.jvp(lambda x: x**2, (fnp.array([1.0, 2.0]),), (fnp.array([1.0, 0.5]),))
      (Array([1., 4.], dtype=float32), Array([2., 2.], dtype=float32))
      >>> value, slope = ft.jvp(fnp.multiply, (3.0, 4.0), (1.0, 0.0))
      >>> float(value), float(slope)
      (12.0, 4.0)
    """
    tree.check_callable(fun, "jvp")
    values, treedef = _tuple_values("jvp: primals", primals)
    directions, tangent_def = _tuple_values("jvp: tangents", tangents)
    if treedef != tangent_def:
        raise errors.TreeError(
            f"jvp: primals and tangents differ in structure: "
            f"{tree.readable(treedef)} and {tree.readable(tangent_def)}"
        )
    avals = [aval_of(x) for x in values]
    moved = [tan.tangent_type(a) for a in avals]
    found = [aval_of(x) for x in directions]
    kept = tan.tangents_of("jvp: the tangent", directions, found, moved)
    varying = [i for i, t in enumerate(moved) if tan.holds_numbers(t)]

    output = Output.of_leaves(fun, treedef, "jvp", has_aux)
    types = avals + [avals[i].strong() for i in varying]
    try:
        graph = trace("jvp", output, types, [*values, *kept], along=len(kept))
    except references.Written as written:
        again = partial(jvp, primals=primals, tangents=tangents, has_aux=True)
        return written.differentiate("jvp", again, fun, has_aux)
    moving = graph.inputs[len(avals) :]
    leaves = {graph.inputs[i]: moving[k] for k, i in enumerate(varying)}
    primal_out, along = graph.outputs[: output.count], _along(graph, values)

    def derive() -> Graph:
        outputs = _with_tangents(graph, along, primal_out, leaves)
        return _follow(graph, outputs, leaves)

    own = along and along.key(graph)
    kind = ("jvp", len(avals), tuple(varying), output.count, own)
    results = _apply(kind, graph, derive, [*values, *kept])
    size, total = output.count, len(graph.outputs)
    types = (tan.tangent_type(n.aval) for n in primal_out)
    tangent = tan.with_float0(results[total:], size, types)
    return output.answer(results[:total], output.build(tangent))


def _with_tangents(
    graph: Graph, along: Varying | None, heads: Sequence[Node], leaves: dict[Node, Node]
) -> tuple[Node, ...]:
    """The outputs of a graph, and the tangents of those heads that have any."""
    heads = [n for n in heads if dtypes.is_inexact(n.dtype)]
    pairs = zip(
        autodiff.jvp_nodes(heads, {**leaves, **_moving(graph)}), heads, strict=True
    )
    found = [_tangent_or_zero(t, n) for t, n in pairs]
    if along is not None:
        known = dict(zip(leaves.values(), along.of_nodes([*leaves]), strict=True))
        found = along.settle(found, along.of_nodes(heads), known)
    return (*graph.outputs, *found)


def _along(graph: Graph, values: Sequence[Value]) -> Varying | None:
    """Within `shard_map` what tells along which axes what is in a graph differs."""
    along = varying_here()
    if along is not None:
        along.enter(graph, values)
    return along


def _gradients(
    graph: Graph, along: Varying | None, heads: Sequence[Node], leaves: Sequence[Node],
    cotangents: Sequence[Node | None],
) -> list[Node]:  # fmt: skip
    """`gradient_nodes`; within `shard_map` of one value where devices share it."""
    if along is not None:
        return along.gradients(heads, leaves, cotangents)
    return autodiff.gradient_nodes(heads, leaves, cotangents, _moving(graph))


def _tuple_values(what: str, args: Sequence[Any]) -> tuple[list[Value], tree.TreeDef]:
    if not isinstance(args, (tuple, list)):
        raise errors.ArgumentError(
            f"{what} must be a tuple of arguments, got {type(args).__name__}"
        )
    return flat.flatten_values(args, what)


def _tangent_or_zero(tangent: Node | None, primal: Node) -> Node:
    found = sources.const_like(primal, 0) if tangent is None else tangent
    return cast(found, primal.dtype, primal.aval.weak_type)


@overload
def vjp(
    fun: Callable[..., R], *primals: Any, has_aux: Literal[False] = False,
    reduce_axes: Sequence[Any] = (),
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...  # fmt: skip
@overload
def vjp(
    fun: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True],
    reduce_axes: Sequence[Any] = (),
) -> tuple[R, Callable[[Any], tuple[Any, ...]], A]: ...  # fmt: skip
@overload
def vjp(
    fun: Function, *primals: Any, has_aux: bool, reduce_axes: Sequence[Any] = ()
) -> Any: ...
def vjp(
    fun: Function, *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Any] = ()
) -> Any:
    """The value of `fun`, and the function that pulls cotangents back to its arguments.

    Args:
      fun: any function of arrays.
      primals: its positional arguments.
      has_aux: `fun` returns a pair (output, aux).
      reduce_axes: must be empty, as of `value_and_grad`.

    Returns:
      (output, vjp_fun), and aux with `has_aux`. `vjp_fun(ct)` takes a cotangent of the
      structure of the output and returns a tuple with a cotangent per primal.

    Raises:
      ArgumentError: `fun` is no function; `reduce_axes` is not empty.
      TreeError, ShapeError, DtypeError: when `vjp_fun` is called, with a cotangent that
        is not of the structure, shapes and dtypes of the output.

    Example:
      >>> out, back = ft.vjp(lambda x, y: x * y, fnp.array([1.0, 2.0]), 3.0)
      >>> out
      Array([3., 6.], dtype=float32)
      >>> back(fnp.array([1.0, 10.0]))
      (Array([ 3., 30.], dtype=float32), Array(21., dtype=float32))
    """
    _check_reduce_axes("vjp", reduce_axes)
    return vjp_for("vjp", fun, primals, has_aux)


def _takes_references(transform: Any) -> Any:
    """A transform of functions that are given references.

    An argument that is one has a cotangent, that of what it held at first.
    """

    def call(
        name: str, fun: Function, primals: Sequence[Any], has_aux: bool = False
    ) -> Any:
        leaves, treedef = tree.flatten(tuple(primals))
        places = [i for i, x in enumerate(leaves) if type(x) is references.Ref]
        if not places:
            return transform(name, fun, primals, has_aux)
        own = [leaves[i] for i in places]
        references.check_distinct(own)
        run = references.with_parameters(fun, places, treedef)

        def of_values(*args: Any) -> Any:
            given = dict(enumerate(tree.leaves(args)))
            contents = [(given.pop(i), leaves[i].zeros) for i in places]
            result, last = run(contents, [*given.values()])
            result, aux = result if has_aux else (result, None)
            return result, (aux, [value for value, _ in last])

        held = [x.read() if type(x) is references.Ref else x for x in leaves]
        found = transform(name, of_values, tree.unflatten(treedef, held), True)
        *results, (aux, last) = found
        references.hold(own, last)
        return (*results, aux) if has_aux else tuple(results)

    return call


def _vjp_with_refs(
    written: references.Written,
    name: str,
    fun: Function,
    primals: Sequence[Any],
    has_aux: bool,
) -> Any:
    """`vjp` of a function that writes references, or whose backward rules do."""
    refs = written.refs_of(name)
    backs = [ref for ref in refs if ref.of is not None]
    others = [ref for ref in refs if ref.of is None]
    run = references.thread(fun, [*backs, *others], aux=has_aux)
    before = references.read_all(others)
    count = len(backs)

    def with_backs(zeros: Sequence[Value], *args: Any) -> Any:
        result, (aux, last) = run([*zeros, *before], *args)
        return (result, last[:count]), (aux, last[count:])

    with_backs.__name__ = run.__name__
    (result, _), whole, (aux, last) = vjp_for(
        name, with_backs, (references.read_all(backs), *primals), True
    )
    references.hold(others, last)

    def pull_all(cotangents: Sequence[Value]) -> list[Any]:
        seeds = [b.of.read().astype(b.dtype) for b in backs]
        found = whole.run([*cotangents, *seeds])
        for back, value in zip(backs, found, strict=False):
            back.of.write(value.astype(back.of.dtype))
        return found[count:]

    types = whole.types[: len(whole.types) - count]
    pull = tan.Linear(
        "vjp", pull_all if backs else whole.run, types, tree.structure(result),
        whole.results[count:], tree.structure(tuple(primals)), single=True,
    )  # fmt: skip
    return (result, pull, aux) if has_aux else (result, pull)


@_takes_references
def vjp_for(
    name: str, fun: Function, primals: Sequence[Any], has_aux: bool = False
) -> Any:
    """`vjp`, under the name of what the user has called."""
    tree.check_callable(fun, name)
    try:
        traced = _trace_primals("vjp", fun, primals, has_aux, name)
    except references.Written as written:
        return _vjp_with_refs(written, name, fun, primals, has_aux)
    values, treedef, graph, output = traced
    avals = [aval_of(x) for x in values]
    heads = graph.outputs[: output.count]
    types = [tan.tangent_type(n.aval) for n in heads]
    cotangents = [
        sources.variable(t.strong(), "pullback", i) if tan.holds_numbers(t) else None
        for i, t in enumerate(types)
    ]
    leaves = graph.inputs[: len(avals)]
    varying = [leaf for leaf in leaves if dtypes.is_inexact(leaf.dtype)]
    along = _along(graph, values)

    def derive() -> Graph:
        grads = _gradients(graph, along, heads, varying, cotangents)
        return _follow(graph, (*graph.outputs, *grads), leaves)

    unknown = [ct for ct in cotangents if ct is not None]
    if graph.level is not None and graph.level.backward:
        results = graph.level.apply(_follow(graph, graph.outputs, leaves), values)
        run = _Later(graph, derive, values, unknown)
    else:
        kind = ("vjp", len(avals), output.count, along and along.key(graph))
        given = kind, graph, derive, values
        results, run = _forward(*given, len(varying), unknown)
    pull = tan.Linear(
        "vjp", run, types, output.structure,
        [tan.tangent_type(a) for a in avals], treedef, single=True,
    )  # fmt: skip
    return output.answer(results, pull)


def _trace_primals(
    transform: str, fun: Function, primals: Sequence[Any], has_aux: bool, called: str
) -> tuple[list[Value], tree.TreeDef, Graph, Output]:
    values, treedef = flat.flatten_values(tuple(primals), f"{called}: the argument ")
    values = [snapshot(x) for x in values]
    output = Output.of_leaves(fun, treedef, called, has_aux)
    graph = trace(transform, output, [aval_of(x) for x in values], values)
    return values, treedef, graph, output


def _forward(
    kind: Hashable, graph: Graph, derive: Callable[[], Graph],
    values: Sequence[Value], count: int, unknown: Sequence[Node],
) -> tuple[list[Value], tan.ResidualGraph]:  # fmt: skip
    """Runs the part of a derived graph that does not depend on the unknown variables.

    Args:
      kind, graph, derive: as of `derive_once`; the last `count` outputs depend on them.

    Returns:
      The other outputs, and a program of the last ones in terms of the unknown.
    """
    if graph.level is None:
        graph = eager_programs.derive_once(kind, graph, derive)
    else:
        graph, values = graph.level.complete(derive(), values)
    size = len(graph.outputs) - count
    key = signature("halves", graph.inputs, graph.outputs, count, tuple(unknown))
    halves: tuple[tuple[Node, ...], Graph] | None
    halves = None if graph.effects else calls.get(key)
    if halves is None:
        known, later = _split(graph, count, unknown)
        if eager_programs.has_own_derivative(graph):
            calls.put(key, (known.outputs, later), weight_of(graph))
    else:
        known = Graph(graph.inputs, halves[0], graph.captured)
        later = halves[1]
    results = eager_programs.apply_again(known, values)
    return results[:size], tan.ResidualGraph(later, results[size:])


@dataclass(eq=False)
class _Later:
    """The pullback of a function whose rules run with values, each time it is called.

    What is computed between them, and in which order they run, is the same each time,
    for their results enter as variables.

    Args:
      graph: of the function.
      derive: that, and last its cotangents in terms of the unknown.
      values: its arguments.
      unknown: variables of the cotangents of its results.
    """

    graph: Graph
    derive: Callable[[], Graph]
    values: Sequence[Value]
    unknown: Sequence[Node]
    _derived: tuple[Sequence[Any], tuple[Node, ...]] | None = None

    def __call__(self, cotangents: Sequence[Value]) -> list[Any]:
        graph = self.graph
        given = dict(zip(self.unknown, cotangents, strict=True))
        with graph.level.in_call(given) as level:
            outputs = self._outputs(level)
            if not tan.are_weak(cotangents):
                outputs = tan.strong(outputs)
            whole = Graph(graph.inputs, outputs)
            return level.apply(whole, [*self.values, *cotangents], self.unknown)

    def _outputs(self, level: Any) -> tuple[Node, ...]:
        """The cotangents of the arguments; all rules have run."""
        if self._derived is None:
            outputs = self.derive().outputs[len(self.graph.outputs) :]
            self._derived = level.ran, outputs
            return outputs
        rules, outputs = self._derived
        for rule in rules:
            level.run(*rule)
        return outputs


def _split(graph: Graph, count: int, unknown: Sequence[Node]) -> tuple[Graph, Graph]:
    """A graph of what is known, and one of the last outputs in terms of the rest."""
    size = len(graph.outputs) - count
    first, linear = graph.outputs[:size], graph.outputs[size:]
    residuals = autodiff.split_known(linear, unknown)
    # What is run again for its stacks has had its effects.
    again = {n: rehearsal() for n in residuals if n.aval is TOKEN}
    nodes = [n for n in residuals if n not in again]
    outputs = (*first, *nodes)
    known = Graph(graph.inputs, outputs, graph.captured, graph.effects)
    leaves = sources.stand_ins(nodes, "residual")
    later = substitute(linear, again | dict(zip(nodes, leaves, strict=True)))
    if again:
        check_repeatable(later)
    return known, Graph((*leaves, *unknown), tuple(later))


def _follow(graph: Graph, outputs: Sequence[Node], leaves: Iterable[Node]) -> Graph:
    """The graph with other outputs, all of them computed by the rules of its calls."""
    ends, moved = (*outputs, *graph.effects[1:]), [*leaves, *_moving(graph)]
    return graph.with_ends(follow_rules(ends, moved))


def _moving(graph: Graph) -> Mapping[Node, Node]:
    """The tangents of what rules returned while the graph was traced."""
    return autodiff.NO_NODES if graph.level is None else graph.level.moving


def _apply(
    kind: Hashable, graph: Graph, derive: Callable[[], Graph], values: Sequence[Value]
) -> list[Any]:
    """The outputs of a derived graph; rules that ran are run again each time."""
    if graph.level is None:
        return eager_programs.apply_derived(kind, graph, derive, values)
    return graph.level.apply(derive(), values)


@overload
def linearize(
    fun: Callable[P, R], *primals: Any, has_aux: Literal[False] = False
) -> tuple[R, Callable[P, R]]: ...
@overload
def linearize(fun: Function, *primals: Any, has_aux: bool) -> Any: ...
def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The value of `fun`, and its derivative at this point as a linear function.

    What the derivative needs of the point is computed once; then f_jvp may be called
    for many tangents. `jvp` is less work for one.

    Args:
      fun: any function of arrays.
      primals: its positional arguments: the point.
      has_aux: `fun` returns a pair (output, aux).

    Returns:
      (output, f_jvp), and aux with `has_aux`; f_jvp takes tangents like the primals,
      and returns one like the output.

    Raises:
      TreeError, ShapeError, DtypeError: when f_jvp is called, with tangents that do not
        match the primals.

    Example:
      >>> y, f_jvp = ft.linearize(lambda x: x**3, 2.0)
      >>> float(y), float(f_jvp(1.0)), float(f_jvp(0.5))
      (8.0, 12.0, 6.0)
    """
    return linearize_for("linearize", fun, primals, has_aux)


@_takes_references
def linearize_for(
    name: str, fun: Function, primals: Sequence[Any], has_aux: bool = False
) -> Any:
    """`linearize`, under the name of what the user has called."""
    tree.check_callable(fun, name)
    try:
        traced = _trace_primals("linearize", fun, primals, has_aux, name)
    except references.Written as written:
        again = partial(linearize_for, name, primals=primals, has_aux=True)
        return written.differentiate(name, again, fun, has_aux)
    values, treedef, graph, output = traced
    avals = [aval_of(x) for x in values]
    leaves = autodiff.tangents_of_leaves(graph.inputs[: len(avals)])
    heads, along = graph.outputs[: output.count], _along(graph, values)

    def derive() -> Graph:
        outputs = _with_tangents(graph, along, heads, leaves)
        return _follow(graph, outputs, leaves)

    unknown = list(leaves.values())
    kind = ("linearize", len(avals), output.count, along and along.key(graph))
    types = [tan.tangent_type(n.aval) for n in heads]
    count = sum(map(tan.holds_numbers, types))
    results, run = _forward(kind, graph, derive, values, count, unknown)
    push = tan.Linear(
        "linearize", run, [tan.tangent_type(a) for a in avals], treedef,
        types, output.structure, single=False,
    )  # fmt: skip
    return output.answer(results, push)


def linear_transpose(
    fun: Function, *primals: Any, reduce_axes: Sequence[Any] = ()
) -> Function:
    """The transpose of a linear function.

    Args:
      fun: linear in its arguments.
      primals: arrays, or anything with shape and dtype, that tell the types.
      reduce_axes: must be empty, as of `value_and_grad`.

    Returns:
      A function from a cotangent of the output to a tuple with one per primal.

    Raises:
      DerivativeError: `fun` is not linear.

    Example:
      >>> A = fnp.array([[1.0, 2.0], [3.0, 4.0]])
      >>> back = ft.linear_transpose(lambda x: A @ x, fnp.zeros(2))
      >>> back(fnp.array([1.0, 0.0]))  # Aᵀ·ct
      (Array([1., 2.], dtype=float32),)
    """
    _check_reduce_axes("linear_transpose", reduce_axes)
    tree.check_callable(fun, "linear_transpose")
    leaves, treedef = tree.flatten(tuple(primals))
    avals = [type_of(x) for x in leaves]
    output = Output.of_leaves(fun, treedef, "linear_transpose")
    graph = trace("linear_transpose", output, avals, meant=leaves)
    _check_kinds([*avals, *[n.aval for n in graph.outputs]])
    cts = [autodiff.tangent_variable(n.aval, i) for i, n in enumerate(graph.outputs)]
    inputs = graph.inputs[: len(avals)]
    outputs, along = graph.outputs, _along(graph, leaves)
    if along is not None:
        known = dict(zip(inputs, along.of_nodes(inputs), strict=True))
        outputs = along.linear(outputs, along.of_nodes(outputs), known)
    found = autodiff.transpose_nodes(outputs, inputs, cts)
    results = [
        _tangent_or_zero(ct, leaf) for ct, leaf in zip(found, inputs, strict=True)
    ]
    if along is not None:
        known = dict(zip(cts, along.of_nodes(graph.outputs), strict=True))
        results = along.settle(results, along.of_nodes(inputs), known)
    captured = graph.inputs[len(avals) :]
    free = free_variables(Graph((*captured, *cts), tuple(results)))
    around = [stack.scopes[sources.scope_and_position(n)[0]].wrap(n) for n in free]
    whole = Graph((*captured, *free, *cts), tuple(results))
    types = [n.aval for n in graph.outputs]
    run = tan.ResidualGraph(whole, [*graph.captured, *around])
    return tan.Linear(
        "linear_transpose", run, types, output.structure, avals, treedef, single=True
    )


def _check_kinds(avals: Sequence[ShapedArray]) -> None:
    """Raises unless all are inexact, or all integers: others are linear in nothing."""
    for fits in (dtypes.is_inexact, dtypes.is_integer):
        if all(fits(a.dtype) for a in avals):
            return
    raise errors.DerivativeError(
        "linear_transpose: the arguments and results of the function must all be of "
        f"inexact dtypes, or all integers, got {', '.join(map(repr, avals))}"
    )


def stop_gradient(x: Any) -> Any:
    """`x`, as a constant to derivatives; a tree of arrays."""
    return tree.map(lambda v: bind(stop_gradient_p, v) if _varies(v) else v, x)


def _varies(value: Value) -> bool:
    return (
        not is_array(value)
        and not isinstance(value, np.ndarray)
        and dtypes.is_inexact(aval_of(value).dtype)
    )
