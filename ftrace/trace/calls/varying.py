"""Which values differ along the axes of devices: JAX's varying manual axes, its "vma".

Within `shard_map` each value has the set of axes along which devices have values of
their own:

    w: {}   x: {i}        w * x: {i}        psum(x, i): {}        axis_index(i): {i}

A value is the same along the other axes, and there is one of it. So derivatives are
those of a function of the w that all devices share, and of an x for each. `w * x` reads
w once per device, `pvary(w, i) * x`, and the transpose of that is a sum over devices; a
psum makes one value of many, and its transpose, pvary, hands its cotangent to each.

The sets are found when they are asked for, by a walk over the graph:

    operation     the union of its operands'; of psum and the like without the axis
    loop          once what goes around has settled
    branches      the union over them, and that of the index
    call          those of its body

A derivative is linear in its tangents; where one of them meets what differs along more
axes, pvary is put in before it is transposed. What lies between arguments and results
may be one value or several equal ones: the derivative is the same, if only arguments
and results have the sets that the function gives them. A rule of the user's is told of
no sets: its tangents get those of its results, by `varies_as`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import DerivativeError
from ftrace.trace import autodiff, graph as g
from ftrace.trace.avals import TOKEN, ShapedArray
from ftrace.trace.bind import bind_compound
from ftrace.trace.body import apply_body, flow_around_loop, select
from ftrace.trace.calls.checkpoint import Checkpoint
from ftrace.trace.calls.custom_derivative import (
    custom_jvp_p,
    varies_as_p,
    vjp_tangent_p,
)
from ftrace.trace.calls.inline import take_in
from ftrace.trace.calls.rule_graphs import Call
from ftrace.trace.control.conditional import Branches, While
from ftrace.trace.control.scan import Scan
from ftrace.trace.primitives.primitive import Compound, barrier_p, item_p
from ftrace.trace.primitives.reduction import INVARIANT, NamedAxis, pvary_p
from ftrace.trace.primitives.sources import is_variable, scope_and_position
from ftrace.trace.python_limits import without_collection
from ftrace.trace.tracing.scopes import current_scope
from ftrace.trace.tracing.trace import free_variables
from ftrace.trace.tracing.tracer import Axis, Tracer, Value, stack

#: The axes along which a value differs; of an operation with several results one each.
Names = frozenset[Any]
Types = dict[g.Node, Any]

SAME: Names = frozenset()
#: Beside all axes: of an argument of a rule, say, of which nothing is known.
UNKNOWN = object()


def varying_here() -> Varying | None:
    """What tells which values differ here; None outside of `shard_map`.

    It is good as long as no scope is opened or closed.
    """
    if not stack.axes:
        return None
    axes = {axis.name: axis for axis in stack.axes if axis.checked}
    return Varying(axes) if axes else None


def axes_and_names(values: Sequence[Value]) -> Any:
    """The axes that have names here, and those of devices along which values differ."""
    along = varying_here()
    return (stack.axes, *map(along.of, values)) if along else stack.axes


def vary(value: Value, axes: Sequence[Axis]) -> Any:
    """The value, as one that differs along these axes."""
    for axis in axes:
        arg = NamedAxis(axis.name, axis.size, axis.checked)
        (value,) = bind_compound(pvary_p, value, axis.index, arg=arg)
    return value


class Varying:
    """A walk over what is traced within `shard_map`.

    Attributes:
      axes: those of the devices, by their names.
    """

    def __init__(self, axes: Mapping[Any, Axis]) -> None:
        self.axes = axes
        self._unknown: Names = frozenset([*axes, UNKNOWN])
        self._known: Types = {}
        self._lifted: list[g.Node] = []

    # Where values differ.

    def axes_named(self, names: Names) -> list[Axis]:
        """The axes of these names."""
        return [axis for axis in self.axes.values() if axis.name in names]

    def of(self, value: Value) -> Names:
        """The axes along which a value differs."""
        if not isinstance(value, Tracer):
            return SAME
        if value.scope.closed:
            return self._unknown
        self._walk([value.node], self._known, ())
        return self._known[value.node]

    def enter(self, graph: g.Graph, values: Sequence[Value]) -> None:
        """Goes into a graph whose arguments have these values."""
        given = zip(graph.inputs, map(self.of, values), strict=False)
        self._known.update(given)
        self._known.update(dict.fromkeys(graph.inputs[len(values) :], SAME))

    def of_nodes(
        self, nodes: Sequence[g.Node], known: Types | None = None
    ) -> list[Any]:
        """The same of nodes, given that of variables."""
        types = {**self._known, **(known or {})}
        self._walk(nodes, types, ())
        return [types[node] for node in nodes]

    def key(self, graph: g.Graph) -> Any:
        """What decides on a derivative of a graph, beside the graph."""
        leaves = [*graph.inputs, *free_variables(graph)]
        return tuple(self.axes), tuple(self._indices()), tuple(self.of_nodes(leaves))

    # Derivatives.

    def gradients(
        self, outputs: Sequence[g.Node], leaves: Sequence[g.Node],
        cotangents: Sequence[g.Node | None],
    ) -> list[g.Node]:  # fmt: skip
        """`gradient_nodes`, of a graph that was entered."""
        of_outputs, of_leaves = self.of_nodes(outputs), self.of_nodes(leaves)
        tangents = autodiff.tangents_of_leaves(leaves)
        first = self.of_nodes([*tangents])
        known = dict(zip(tangents.values(), first, strict=True))

        def linear(found: Sequence[g.Node | None]) -> list[g.Node | None]:
            rows = zip(found, of_outputs, strict=True)
            there = [names for t, names in rows if t is not None]
            nodes = [t for t in found if t is not None]
            made = iter(self.linear(nodes, there, known))
            return [t and next(made) for t in found]

        found = autodiff.gradient_nodes(outputs, leaves, cotangents, linear=linear)
        pairs = zip(cotangents, of_outputs, strict=True)
        known = {ct: names for ct, names in pairs if ct and is_variable(ct)}
        return self.settle(found, of_leaves, known)

    def linear(
        self, nodes: Sequence[g.Node], wanted: Sequence[Names], known: Types
    ) -> list[g.Node]:
        """Nodes that are linear in variables, with the pvary that a transpose needs."""
        types = {**self._known, **known}
        found = self._walk(nodes, types, set(g.dependents(nodes, [*known])))
        rows = zip(found, nodes, wanted, strict=True)
        return [self._vary(new, types[n], names) for new, n, names in rows]

    def settle(
        self, nodes: Sequence[g.Node], wanted: Sequence[Names], known: Types
    ) -> list[g.Node]:
        """Derivatives, each of which differs where what it belongs to does.

        Raises:
          DerivativeError: one differs where that does not: a rule forgot a psum.
        """
        types = self.of_nodes(nodes, known)
        for found, names in zip(types, wanted, strict=True):
            if more := self.axes_named(found - names):
                axes = ", ".join([repr(axis.name) for axis in more])
                raise DerivativeError(
                    "a cotangent differs along the axes of devices "
                    f"{axes}, along which its argument is the same: a bwd rule of a "
                    "custom_vjp must sum it, as by lax.psum(ct, axis), or the argument "
                    'be made different, by lax.pcast(x, axis, to="varying")'
                )
        rows = zip(nodes, types, wanted, strict=True)
        return [self._vary(*row) for row in rows]

    def _indices(self) -> list[g.Node]:
        """The numbers of this device along the axes, in the innermost scope."""
        if not self._lifted:
            scope = current_scope()
            assert scope is not None
            self._lifted = [scope.lift(axis.index) for axis in self.axes.values()]
        return self._lifted

    def _vary(self, node: g.Node, found: Names, wanted: Names) -> g.Node:
        if not wanted - found or type(node.aval) is not ShapedArray:
            return node
        if not dtypes.is_inexact(node.dtype):
            return node
        for axis, index in zip(self.axes.values(), self._indices(), strict=True):
            if axis.name in wanted - found:
                arg = NamedAxis(axis.name, axis.size, True)
                (node,) = pvary_p.results(node, index, arg=arg)
        return node

    # The walk.

    @without_collection
    def _walk(
        self, outputs: Sequence[g.Node], types: Types, linear: Collection[g.Node]
    ) -> list[g.Node]:
        """Adds what is found of the outputs, and of all that they need, to `types`.

        Args:
          linear: the nodes whose operands shall all differ where one does.

        Returns:
          The outputs, over operands that do.
        """
        made: dict[g.Node, Any] = {}
        with g.inherited_origin() as take:
            for node in g.toposort(outputs, types):
                src: Any = tuple([made.get(s, s) for s in node.src])
                if node.op is item_p:
                    number: int = node.arg
                    types[node] = types[node.src[0]][number]
                    (bundle,) = src
                    inlined = isinstance(bundle, list)
                    made[node] = bundle[number] if inlined else g.rebuild(node, src)
                elif is_variable(node):
                    types[node] = self._of_variable(node)
                else:
                    take(node)
                    given = [types[s] for s in node.src]
                    made[node], types[node] = self._step(node, src, given, linear)
        return [made.get(node, node) for node in outputs]

    def _of_variable(self, node: g.Node) -> Names:
        """Of an argument of a function that is being traced what it stands for has.

        What is not known of differs everywhere.
        """
        depth, place = scope_and_position(node)
        around = [a.index.scope for a in self.axes.values()]
        if all(0 <= depth < scope.depth and not scope.closed for scope in around):
            return SAME  # it is from outside of `shard_map`
        if 0 <= depth < len(stack.scopes) and node.aval is not TOKEN:
            scope = stack.scopes[depth]
            if place < len(scope.inputs) and scope.inputs[place] is node:
                meant = (scope.bindings[place], *scope.meant[place : place + 1])
                for value in [x for x in meant if x is not None][:1]:
                    return self.of(value) | scope.varies.get(node, SAME)
        return SAME if node.aval is TOKEN else self._unknown

    def _step(
        self, node: g.Node, src: tuple[g.Node, ...], given: list[Any],
        linear: Collection[g.Node],
    ) -> tuple[g.Node | list[g.Node], Any]:  # fmt: skip
        """A node over its operands, or its results, and where these differ."""
        arg: Any = node.arg
        inserts = node in linear
        if isinstance(arg, (Scan, While)):
            return self._loop(node, src, given, linear)
        if inserts and node.op is custom_jvp_p:  # it is linear: so is what it does
            types: Types = dict(zip(arg.body.inputs, given, strict=True))
            outputs = arg.body.outputs
            moving = [s in linear for s in node.src]
            inner = g.dependents(outputs, select(arg.body.inputs, moving))
            found = self._walk(outputs, types, set(inner))
            results = apply_body(g.Body(arg.body.inputs, tuple(found)), src)
            return results, [types[n] for n in outputs]
        if isinstance(arg, (Branches, Checkpoint)):
            return self._branches(node, src, given, linear)
        if isinstance(arg, Call) and not inserts:
            return self._branches(node, src, given, ())
        if node.op is barrier_p:
            return g.rebuild(node, src), given
        if node.op is varies_as_p:
            return g.rebuild(node, src), [given[1]]
        union = SAME.union(*given)
        if node.op is pvary_p and node.arg.name in given[0]:  # it does already
            return [src[0]], [given[0]]
        # What a tangent of a custom_vjp is made of is a matter of its rule.
        if inserts and node.op not in (pvary_p, vjp_tangent_p):
            rows = zip(node.src, src, given, strict=True)
            src = tuple(
                [self._vary(x, g, union) if old in linear else x for old, x, g in rows]
            )
        if node.op in INVARIANT and node.arg.checked:
            union -= {node.arg.name}
        several = isinstance(node.op, Compound)
        return g.rebuild(node, src), [union] * len(
            node.aval.items
        ) if several else union

    def _loop(
        self, node: g.Node, src: tuple[g.Node, ...], given: list[Any],
        linear: Collection[g.Node],
    ) -> tuple[g.Node, Any]:  # fmt: skip
        arg: Any = node.arg
        first = arg.consts + arg.carry
        start = given
        if node in linear and arg.length is None:
            # Devices do not iterate equally often: they do not act together in it.
            start = [SAME.union(*given)] * len(given)

        def step(flags: list[Any]) -> tuple[list[Any], list[Any]]:
            found = self._of_body(arg.body, flags)
            if isinstance(arg, While):
                (going,) = self._of_body(arg.cond, flags)
                found = [names | going for names in found]
            return found, found

        flags, found = flow_around_loop(start, range(arg.consts, first), step)
        types = (*flags[arg.consts : first], *found[arg.carry :])
        return self._holder(node, src, given, flags, types, linear), types

    def _branches(
        self, node: g.Node, src: tuple[g.Node, ...], given: list[Any],
        linear: Collection[g.Node],
    ) -> tuple[g.Node, Any]:  # fmt: skip
        """Of branches, or of the one body of a call."""
        along, flags = SAME, given
        if isinstance(node.arg, Branches):  # each device chooses: they part ways there
            along, *flags = given
            flags = [names | along for names in flags]
        found = [self._of_body(body, flags) for body in g.bodies_of(node.arg)]
        types = tuple([along.union(*names) for names in zip(*found, strict=True)])
        return self._holder(node, src, given, flags, types, linear), types

    def _holder(
        self, node: g.Node, src: tuple[g.Node, ...], given: list[Any], flags: list[Any],
        types: Any, linear: Collection[g.Node],
    ) -> g.Node:  # fmt: skip
        """A loop, branch or checkpoint over bodies with the pvary that they need.

        Args:
          given: where its operands differ.
          flags: where the inputs of its bodies shall.
          types: where its results do.
        """
        if node not in linear:
            return g.rebuild(node, src)
        first = len(src) - len(flags)
        moving = [s in linear for s in node.src[first:]]
        if isinstance(node.arg, Scan):
            carry = range(node.arg.consts, node.arg.consts + node.arg.carry)
            moving, _ = flow_around_loop(
                moving, carry, lambda now: (None, _which_move(node, now))
            )
        bodies = [self._body(b, moving, flags, types) for b in g.bodies_of(node.arg)]
        rows = zip(src[first:], given[-len(flags) :], flags, moving, strict=True)
        inner = [self._vary(x, has, want) if f else x for x, has, want, f in rows]
        used = g.nodes_of([n for body in bodies for n in body.outputs])
        indices = [n for n in self._indices() if n in used]
        return take_in(node, (*src[:first], *inner), bodies, indices)

    def _body(
        self,
        body: g.Body,
        moving: list[bool],
        flags: list[Any],
        wanted: Sequence[Names],
    ) -> g.Body:
        """A body that is linear in those inputs that move; it may use the indices."""
        types: Types = dict(zip(body.inputs, flags, strict=True))
        linear = set(g.dependents(body.outputs, select(body.inputs, moving)))
        made = self._walk(body.outputs, types, linear)
        outputs = [
            self._vary(new, types[old], names) if old in linear else new
            for new, old, names in zip(made, body.outputs, wanted, strict=True)
        ]
        return g.Body(body.inputs, tuple(outputs))

    def _of_body(self, body: g.Body, flags: Sequence[Any]) -> list[Any]:
        types: Types = dict(zip(body.inputs, flags, strict=True))
        self._walk(body.outputs, types, ())
        return [types[node] for node in body.outputs]


def _which_move(node: g.Node, moving: list[bool]) -> list[bool]:
    """Which results of a loop's body depend on inputs that move."""
    body: g.Body = node.arg.body
    linear = set(g.dependents(body.outputs, select(body.inputs, moving)))
    return [n in linear for n in body.outputs]
