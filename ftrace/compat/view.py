"""A graph as the equations of a jaxpr, under JAX's names where it has counterparts.

    make_jaxpr      the jaxpr of what a function does for arguments of some types
    trace_to_jaxpr  the same, of a function of flat values

Each node is described by steps: the first takes other nodes as operands, each of the
others what is before it. Movements are told apart (squeeze, broadcast_in_dim, reshape),
a sum that keeps its axes and the reshape behind it are one `reduce_sum`, and a sum of
products is a `dot_general` where it is one. Indexing, and what LAPACK and Python do, is
in `library_view.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ftrace.compat import jaxpr, lax_primitives as jax
from ftrace.compat.library_view import ROWS, RULES, Step, Steps, describe_row, one_step
from ftrace.compat.linear_util import debug_info as info_of
from ftrace.compat.primitive import Primitive, primitive_of
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace import graph as g
from ftrace.trace.avals import TOKEN, Shape, ShapedArray
from ftrace.trace.body import close, trace_body
from ftrace.trace.calls.checkpoint import Checkpoint, DotGeneral, dot_general_of
from ftrace.trace.calls.custom_derivative import Ruled, custom_jvp_p, custom_vjp_p
from ftrace.trace.calls.user_primitive import UserArg
from ftrace.trace.control.conditional import Branches, While
from ftrace.trace.control.scan import Scan
from ftrace.trace.flatten_arguments import Output, read_argnums, type_of, wraps
from ftrace.trace.primitives.movement import reshape_p
from ftrace.trace.primitives.primitive import Compound, compound_of, item_p
from ftrace.trace.primitives.sources import const
from ftrace.trace.pytree import tree
from ftrace.trace.references import Ref
from ftrace.trace.tracing.tracer import Axis, Value, bind_axes
from ftrace.transforms.structs import ShapeDtypeStruct
from ftrace.transforms.vmap import INDEX

#: The effect of what has to happen in its turn, and of nothing else.
ORDERED = "ordered"


class TracedJaxpr(jaxpr.Jaxpr):
    """The view of a graph: its equations are written when they are read.

    Attributes:
      graph: its inputs are the arguments, then what is closed over.
    """

    def __init__(self, graph: g.Graph, arguments: int, debug_info: Any = None) -> None:
        variables = [jaxpr.Var(n.aval) for n in graph.inputs]
        effects = (ORDERED,) if graph.effects else ()
        super().__init__(
            variables[arguments:], variables[:arguments], (), (), effects, debug_info
        )
        self.graph = graph
        self._written: tuple[list[jaxpr.Atom], list[jaxpr.JaxprEqn]] | None = None

    def _write(self) -> tuple[list[jaxpr.Atom], list[jaxpr.JaxprEqn]]:
        if self._written is None:
            assert self.graph is not None
            self._written = equations(self.graph, [*self.invars, *self.constvars])
        return self._written

    @property
    def outvars(self) -> list[jaxpr.Atom]:
        return self._write()[0]

    @property
    def eqns(self) -> list[jaxpr.JaxprEqn]:
        return self._write()[1]

    @property
    def out_avals(self) -> list[ShapedArray]:
        assert self.graph is not None
        return [n.aval for n in self.graph.outputs]


def jaxpr_of_graph(graph: g.Graph, debug_info: Any = None) -> jaxpr.ClosedJaxpr:
    """A graph as a jaxpr; the arrays that it captured are constants."""
    count = len(graph.inputs) - len(graph.captured)
    return jaxpr.ClosedJaxpr(TracedJaxpr(graph, count, debug_info), [*graph.captured])


def trace_to_jaxpr(
    function: Callable[..., Sequence[Value]],
    avals: Sequence[ShapedArray],
    debug_info: Any = None,
    places: int = 0,
) -> jaxpr.ClosedJaxpr:
    """The jaxpr of a function from flat values to flat values.

    What it uses beside its arguments, arrays and traced values, are constants; so are
    the last arguments, so many as there are `places` along axes that have names.
    """
    draft = trace_body("make_jaxpr", function, avals)
    before, after = draft.effects[:1], draft.effects[1:]
    inputs = [*draft.arguments, *draft.free, *before]
    body = close(inputs, [*draft.outputs, *after])
    count, results = len(inputs) - len(before), len(draft.outputs)
    effects = (*body.inputs[count:], *body.outputs[results:])
    graph = g.Graph(body.inputs[:count], body.outputs[:results], (), effects)
    made = TracedJaxpr(graph, len(draft.arguments) - places, debug_info)
    return jaxpr.ClosedJaxpr(made, [*[np.int32(0)] * places, *draft.values])


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
      axis_env: axes that have names in `fun`, as pairs (name, size).
      return_shape: also return the shapes and dtypes of the result.

    Returns:
      f(*args, **kwargs) -> a `ClosedJaxpr`, or with `return_shape` a pair; arguments
      may be `ShapeDtypeStruct`s.

    Example:
      >>> ft.make_jaxpr(lambda x, y: fnp.sin(x) * y)(1.0, 2.0)
      { lambda ; a:f32[] b:f32[]. let
          c:f32[] = sin a
          d:f32[] = mul c b
        in (d,) }
    """
    tree.check_callable(fun, "make_jaxpr")
    numbers = read_argnums("make_jaxpr", "static_argnums", static_argnums)
    env = axis_env or ()

    @wraps(fun)
    def jaxpr_of(*args: Any, **kwargs: Any) -> Any:
        static = {i % len(args) for i in numbers}
        given = tuple([x for i, x in enumerate(args) if i not in static])
        leaves, treedef = tree.flatten((given, kwargs))

        def call(*tracers: Value) -> Any:
            pairs = zip(leaves, tracers, strict=False)
            places: Any = tracers[len(leaves) :]
            own = [Ref(x) if isinstance(leaf, Ref) else x for leaf, x in pairs]
            moving, named = tree.unflatten(treedef, own)
            rest = iter(moving)
            full = [x if i in static else next(rest) for i, x in enumerate(args)]
            with bind_axes(*[Axis(*x, i) for x, i in zip(env, places, strict=True)]):
                return fun(*full, **named)

        output = Output(call, "make_jaxpr", False)
        info = info_of("jit", fun, args, kwargs, static_argnums=tuple(static))
        types = [*map(type_of, leaves), *[INDEX] * len(env)]
        closed = trace_to_jaxpr(output, types, info, len(env))
        if not return_shape:
            return closed
        return closed, output.build(list(map(ShapeDtypeStruct.of, closed.out_avals)))

    return jaxpr_of


def equations(
    graph: g.Graph, variables: Sequence[jaxpr.Var]
) -> tuple[list[jaxpr.Atom], list[jaxpr.JaxprEqn]]:
    """The results and the equations of a graph whose inputs are these variables."""
    return _Writer(graph, variables).write()


class _Writer:
    """One walk over a graph."""

    def __init__(self, graph: g.Graph, variables: Sequence[jaxpr.Var]) -> None:
        self.graph = graph
        self.atoms: dict[g.Node, jaxpr.Atom] = dict(
            zip(graph.inputs, variables, strict=True)
        )
        self.eqns: list[jaxpr.JaxprEqn] = []

    def write(self) -> tuple[list[jaxpr.Atom], list[jaxpr.JaxprEqn]]:
        before = self.graph.effects[:1]
        self.atoms.update({n: jaxpr.Literal(np.uint8(0), n.aval) for n in before})
        for node in g.toposort(self.graph.ends, self.atoms):
            if node.op is not item_p and not _is_scalar(node):
                self._emit(node)
        outvars = [self._atom(n) for n in self.graph.outputs]
        tokens = [self._atom(n) for n in self.graph.effects[1:]]
        # Views that others look through are not needed.
        return outvars, jaxpr.drop_unused(self.eqns, [*outvars, *tokens])[0]

    def _atom(self, node: g.Node) -> jaxpr.Atom:
        if node not in self.atoms:
            if _is_scalar(node):
                value: Any = g.constant_value(node)
                number = value.item() if node.aval.weak_type else value
                return jaxpr.Literal(number, node.aval)
            self._emit(node)  # which a rule has made
        return self.atoms[node]

    def _emit(self, node: g.Node) -> None:
        operands, steps, results, passed = _describe(node)
        invars = [self._atom(n) for n in operands]
        effects = (ORDERED,) if TOKEN in node.aval.items else ()
        outvars: list[jaxpr.Var] = []
        for step in steps:
            around = [[self._atom(n) for n in ns] for ns in (step.before, step.after)]
            outvars = [jaxpr.Var(a) for a in step.avals]
            eqn = jaxpr.new_jaxpr_eqn(
                [*around[0], *invars, *around[1]], outvars, step.primitive,
                step.params, effects, node.origin,
            )  # fmt: skip
            self.eqns.append(eqn)
            invars = list(outvars)
        if results is None:
            parts = isinstance(node.op, Compound)
            results = [item_p(node, arg=i) for i in range(len(outvars))]
            results = results if parts else [node]
        pairs = zip(results, outvars, strict=True)
        self.atoms.update({n: v for n, v in pairs if n is not None})
        self.atoms.update({new: self._atom(old) for new, old in passed})


def _is_scalar(node: g.Node) -> bool:
    return g.is_constant(node) and node.shape == ()


def _describe(node: g.Node) -> Steps:
    rule = _RULES.get(node.op.name)
    if rule is not None:
        return rule(node)
    if (of_library := RULES.get(node.op.name)) is not None:
        return of_library(node) or _own(node)
    if compound_of(node) is not None:
        return _describe_compound(node)
    if (row := ROWS.get(node.op.name)) is not None:
        return describe_row(node, row)
    name = _RENAMED.get(node.op.name, node.op.name)
    if name in jax.NAMED and node.arg is None:
        return one_step(node, jax.NAMED[name], {}, _scalars(node))
    return _own(node)


def _own(node: g.Node) -> Steps:
    params = {} if node.arg is None else {"arg": node.arg}
    operands = _scalars(node) if node.op.family in ("unary", "binary") else None
    primitive = jax.own_primitive(node.op)  # type: ignore[arg-type]
    return one_step(node, primitive, params, operands)


def _scalars(node: g.Node) -> list[g.Node]:
    """The operands, where a number fills one of them as that number."""
    found = [
        const(g.constant_value(n), n.dtype, (), n.aval.weak_type)
        if g.is_constant(n)
        else n
        for n in node.src
    ]
    if all(n.shape == () for n in found) and node.shape:
        return [node.src[0], *found[1:]]
    return found


def _multiply(node: g.Node) -> Steps:
    x, y = node.src
    if x is y:
        return one_step(node, jax.NAMED["square"], {}, [x])
    return one_step(node, jax.NAMED["mul"], {}, _scalars(node))


#: The names of elementwise primitives that are others in JAX.
_RENAMED = {
    "shl": "shift_left",
    "shr": "shift_right_logical",
    "sar": "shift_right_arithmetic",
    "popcount": "population_count",
}


# Movement.


def _reshape_step(aval: ShapedArray, shape: Shape) -> Step:
    """The step from one shape to another, of the same elements in order."""
    result = (aval.with_shape(shape),)
    kept = _without_ones(aval.shape, shape)
    if kept is not None:
        gone = tuple(i for i in range(aval.ndim) if i not in kept)
        return Step(jax.NAMED["squeeze"], {"dimensions": gone}, result)
    placed = _without_ones(shape, aval.shape)
    if placed is not None:
        return _broadcast_step(shape, tuple(placed), result)
    params = {"new_sizes": shape, "dimensions": None, "sharding": None}
    return Step(jax.NAMED["reshape"], params, result)


def _without_ones(long: Shape, short: Shape) -> list[int] | None:
    """The axes of `long` that are those of `short`, if the others have size 1."""
    found: list[int] = []
    for i, size in enumerate(long):
        left = len(short) - len(found)
        if left and size == short[len(found)] and (size != 1 or left >= len(long) - i):
            found.append(i)
        elif size != 1:
            return None
    return found if len(found) == len(short) < len(long) else None


def _broadcast_step(shape: Shape, axes: tuple[int, ...], result: Any) -> Step:
    params = {"shape": shape, "broadcast_dimensions": axes, "sharding": None}
    return Step(jax.NAMED["broadcast_in_dim"], params, result)


def _const(node: g.Node) -> Steps:
    scalar = const(g.constant_value(node), node.dtype, (), node.aval.weak_type)
    return Steps((scalar,), (_broadcast_step(node.shape, (), node.aval.items),))


def _reshape(node: g.Node) -> Steps:
    (x,) = node.src
    if x.op.family == "reduction" and x.op.name in _REDUCTIONS:
        found = _reduce_to(x, node.shape)
        if found is not None:
            return found
    return Steps((x,), (_reshape_step(x.aval, node.shape),))


def _expand(node: g.Node) -> Steps:
    (x,) = node.src
    axes = tuple(range(node.ndim))
    while x.op.name == "reshape" or x.op.name in _REDUCTIONS:
        inner = _squeeze(x) if x.op.name in _REDUCTIONS else x.src[0]
        kept = _without_ones(x.shape, inner.shape)
        if kept is None:
            break
        axes = tuple(axes[i] for i in kept)
        x = inner
    return Steps((x,), (_broadcast_step(node.shape, axes, node.aval.items),))


def _pad(node: g.Node) -> Steps:
    zero = const(0, node.dtype, (), False)
    params = {"padding_config": node.arg}
    return one_step(node, jax.NAMED["pad"], params, (*node.src, zero))


def _shrink(node: g.Node) -> Steps:
    starts, stops = zip(*node.arg, strict=True)
    params = {"start_indices": starts, "limit_indices": stops, "strides": None}
    return one_step(node, jax.NAMED["slice"], params)


def _stride(node: g.Node) -> Steps:
    steps: tuple[int, ...] = node.arg
    if all(abs(n) == 1 for n in steps):
        axes = tuple(i for i, n in enumerate(steps) if n < 0)
        return one_step(node, jax.NAMED["rev"], {"dimensions": axes})
    if any(n < 0 for n in steps):
        return _own(node)
    (x,) = node.src
    bounds = x.arg if x.op.name == "shrink" else [(0, n) for n in x.shape]
    starts, stops = zip(*bounds, strict=True)
    params = {"start_indices": starts, "limit_indices": stops, "strides": steps}
    operands = x.src if x.op.name == "shrink" else (x,)
    return one_step(node, jax.NAMED["slice"], params, operands)


def _select(node: g.Node) -> Steps:
    which, x, y = node.src
    return one_step(node, jax.NAMED["select_n"], {}, (which, y, x))


# Reductions: those of the graph keep their axes, with size 1.

_REDUCTIONS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min")


def _squeeze(node: g.Node) -> g.Node:
    """A reduction without the axes that it keeps."""
    kept = tuple(n for i, n in enumerate(node.shape) if i not in node.arg)
    return reshape_p(node, arg=kept)


def _reduce(node: g.Node) -> Steps:
    found = _reduce_to(node, _squeeze(node).shape)
    assert found is not None
    last = found.steps[-1].avals[0]
    return Steps(found.operands, (*found.steps, _reshape_step(last, node.shape)))


def _reduce_to(node: g.Node, shape: Shape) -> Steps | None:
    """A reduction and the reshape behind it, if that drops the axes."""
    if shape != _squeeze(node).shape:
        return None
    (x,) = node.src
    if node.op.name == "reduce_sum" and x.op.name == "mul" and x.src[0] is not x.src[1]:
        found = dot_general_of(x, node.arg)
        if found is not None:
            return _product(node, found, shape)
    params: dict[str, Any] = {"axes": node.arg}
    if node.op.name != "reduce_prod":
        params["out_sharding"] = None
    result = (node.aval.with_shape(shape),)
    return Steps(node.src, (Step(jax.NAMED[node.op.name], params, result),))


def _product(node: g.Node, found: DotGeneral, shape: Shape) -> Steps:
    numbers = (found.contracting, found.batch)
    params = {
        "dimension_numbers": numbers,
        "precision": None,
        "preferred_element_type": node.dtype,
        "out_sharding": None,
    }
    made = node.aval.with_shape(found.shape)
    steps = [Step(jax.NAMED["dot_general"], params, (made,))]
    if found.order != tuple(range(len(found.order))):
        made = made.with_shape(tuple(made.shape[i] for i in found.order))
        params = {"permutation": found.order}
        steps.append(Step(jax.NAMED["transpose"], params, (made,)))
    if made.shape != shape:
        steps.append(_reshape_step(made, shape))
    return Steps(found.operands, tuple(steps))


# Operations with several results.


def close_body(body: g.Body) -> jaxpr.ClosedJaxpr:
    """The body of a loop, a branch or a call as a jaxpr, which has no tokens."""
    inputs, outputs = (
        tuple([n for n in nodes if n.aval is not TOKEN])
        for nodes in (body.inputs, body.outputs)
    )
    ends = (*body.inputs, *body.outputs)
    tokens = tuple([n for n in ends if n.aval is TOKEN])
    return jaxpr_of_graph(g.Graph(inputs, outputs, (), tokens if tokens[1:] else ()))


def _without_token(node: g.Node, primitive: Primitive, params: dict[str, Any]) -> Steps:
    """A node as one equation; the token that it takes is the one that it gives."""
    parts = [item_p(node, arg=i) for i in range(len(node.aval.items))]
    before = [n for n in node.src if n.aval is TOKEN]
    after = [n for n in parts if n.aval is TOKEN]
    kept = [n for n in parts if n.aval is not TOKEN]
    made = Step(primitive, params, tuple([n.aval for n in kept]))
    operands = tuple([n for n in node.src if n.aval is not TOKEN])
    return Steps(operands, (made,), kept, tuple(zip(after, before, strict=True)))


def _describe_compound(node: g.Node) -> Steps:
    arg = node.arg
    primitive = primitive_of(arg)
    if primitive is not None:
        return one_step(node, primitive, arg.named)
    if isinstance(arg, UserArg):
        return _own(node)
    if (row := ROWS.get(node.op.name)) is not None:
        return describe_row(node, row)
    for kind, rule in _COMPOUNDS.items():
        if isinstance(arg, kind):
            found = rule(node, arg)
            return _own(node) if found is None else found
    return _own(node)


def _scan(node: g.Node, arg: Scan) -> Steps | None:
    if arg.length is None:
        return None
    params: dict[str, Any] = {
        "jaxpr": close_body(arg.body),
        "length": arg.length,
        "reverse": arg.reverse,
        "unroll": 1,
        "num_consts": arg.consts,
        "num_carry": arg.carry - (TOKEN in node.aval.items),
        "_split_transpose": False,
    }
    steps = _without_token(node, jax.NAMED["scan"], params)
    params["linear"] = (False,) * len(steps.operands)
    return steps


def _while(node: g.Node, arg: While) -> Steps | None:
    if len(arg.body.outputs) > arg.carry:  # what it pushes, reverse mode reads
        return None
    count = arg.consts
    consts, init = node.src[:count], node.src[count:]
    of_cond, cond = _used_consts(arg.cond, count)
    of_body, body = _used_consts(arg.body, count)
    params = {
        "cond_jaxpr": close_body(cond),
        "cond_nconsts": len(of_cond),
        "body_jaxpr": close_body(body),
        "body_nconsts": len(of_body),
    }
    steps = _without_token(node, jax.NAMED["while"], params)
    operands = [consts[i] for i in (*of_cond, *of_body)]
    operands += [n for n in init if n.aval is not TOKEN]
    return steps._replace(operands=tuple(operands))


def _used_consts(body: g.Body, count: int) -> tuple[list[int], g.Body]:
    """Which of the first inputs a body uses, and it without the others."""
    needed = g.nodes_of(body.outputs)
    kept = [i for i in range(count) if body.inputs[i] in needed]
    inputs = (*[body.inputs[i] for i in kept], *body.inputs[count:])
    return kept, g.Body(inputs, body.outputs)


def _cond(node: g.Node, arg: Branches) -> Steps:
    branches = tuple(map(close_body, arg.bodies))
    return _without_token(node, jax.NAMED["cond"], {"branches": branches})


def _checkpoint(node: g.Node, arg: Checkpoint) -> Steps:
    params = {
        "jaxpr": close_body(arg.body).jaxpr,
        "prevent_cse": True,
        "differentiated": False,
        "policy": None,
    }
    return _without_token(node, jax.remat_p, params)


@dataclass(frozen=True)
class Recorded:
    """The call that an equation stands for, with its rules."""

    op: Compound
    arg: Ruled

    def arg_for(self, call_jaxpr: jaxpr.ClosedJaxpr) -> Ruled:
        """The argument of a call of that function, by the same rules."""
        graph = call_jaxpr.jaxpr.graph
        if graph is None:
            function = jaxpr.jaxpr_as_fun(call_jaxpr)
            draft = trace_body("eval_jaxpr", function, call_jaxpr.in_avals)
            graph = g.Graph(draft.arguments, draft.outputs)
        body = close(graph.inputs, graph.outputs)
        return replace(self.arg, body=body)

    def __repr__(self) -> str:
        return ", ".join([rule.function.__name__ for rule in self.arg.rules])


def _rule_step(node: g.Node, arg: Ruled) -> Steps | None:
    primitive = _RULED.get(node.op.name)
    if primitive is None or arg.effects:
        return None
    params = {
        "name": arg.name,
        "call_jaxpr": close_body(arg.body),
        "num_consts": arg.closed,
        "rules": Recorded(node.op, arg),  # type: ignore[arg-type]
    }
    return one_step(node, primitive, params)


_RULED = {
    custom_jvp_p.name: jax.custom_jvp_call_p,
    custom_vjp_p.name: jax.custom_vjp_call_p,
}


_COMPOUNDS: dict[type[Any], Callable[[g.Node, Any], Steps | None]] = {
    Scan: _scan,
    While: _while,
    Branches: _cond,
    Checkpoint: _checkpoint,
    Ruled: _rule_step,
}
_RULES: dict[str, Callable[[g.Node], Steps]] = {
    "const": _const,
    "reshape": _reshape,
    "expand": _expand,
    "pad": _pad,
    "shrink": _shrink,
    "stride": _stride,
    "select": _select,
    "mul": _multiply,
    **dict.fromkeys(_REDUCTIONS, _reduce),
}
