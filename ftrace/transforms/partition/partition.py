"""A graph over a mesh becomes the program of one of its devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from ftrace.ground.tables import memo
from ftrace.trace.arrays.array import Array
from ftrace.trace.avals import Shape
from ftrace.trace.bind import bind
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.control.conditional import merge_control
from ftrace.trace.effects import callback_p, inspections
from ftrace.trace.graph import Graph, Node, nodes_of
from ftrace.trace.primitives.elementwise import Constraint, constraint_p
from ftrace.trace.tracing.tracer import Tracer
from ftrace.transforms.meshes import AxisType, PartitionSpec, meshes_in
from ftrace.transforms.partition.localize import Partitioned, localize
from ftrace.transforms.partition.propagate import NOTHING, Propagation, Specs
from ftrace.transforms.partition.specs import Spec, brief, divides, spec_of
from ftrace.transforms.shardings import NamedSharding, check_together


def constraint_of(sharding: NamedSharding, shape: Shape, exact: bool) -> Constraint:
    """That a value of a shape is divided so.

    Args:
      exact: it must be divisible; else an axis that is not stays whole, as in JAX.

    Raises:
      ShapeError: it cannot be divided so.
    """
    if exact or len(sharding.spec) > len(shape):
        sharding.shard_shape(shape)
    spec = spec_of(sharding, len(shape), open_as=None)
    sizes = sharding.mesh.shape
    rows = zip(spec, shape, strict=True)
    found = [
        names if not names or divides(names, n, sizes) else () for names, n in rows
    ]
    return Constraint(sharding.mesh, tuple(found))


def constrain(
    value: Tracer, sharding: Any, exact: bool, why: str = "",
    free: frozenset[Any] = frozenset(),
) -> Any:  # fmt: skip
    """A traced value that is divided so; as it is along axes of the mesh in `free`."""
    if not isinstance(sharding, NamedSharding):
        return value
    arg = constraint_of(sharding, value.shape, exact)
    arg = replace(arg, why=why, free=free)
    Array.any_placed = True  # results have to be looked at
    return bind(constraint_p, value, arg=arg)


def _constrain(node: Node, sharding: Any) -> Node:
    if sharding is None:
        return node
    return constraint_p(node, arg=constraint_of(sharding, node.shape, exact=True))


def constraints_in(graph: Graph) -> list[Node]:
    """The constraints of a graph, not those in bodies of loops and branches."""
    return [node for node in nodes_of(graph.outputs) if node.op is constraint_p]


def meshes_of(graph: Graph, shardings: Sequence[Any]) -> list[Any]:
    """The meshes of a program; results are told in terms of the first.

    Raises:
      ShardingError: they are of different devices, or something is on others.
    """
    named = meshes_in(graph)
    check_together([*shardings, *named])
    return [*[s.mesh for s in shardings if isinstance(s, NamedSharding)], *named]


def mesh_of(graph: Graph, shardings: Sequence[Any]) -> Any:
    """The mesh over which a program is divided; None if it has none.

    It is the finest, if there is one: in its terms all others divide.
    """
    meshes = meshes_of(graph, shardings)
    cuts = [_cuts(mesh) for mesh in meshes]
    rows = zip(meshes, cuts, strict=True)
    finest = [mesh for mesh, own in rows if own == set[int]().union(*cuts)]
    return [*finest, *meshes, None][0]


def _cuts(mesh: Any) -> set[int]:
    """Of how many devices in a row there are groups: of x: 2, y: 4 of 1, 4 and 8."""
    sizes = mesh.axis_sizes
    return {math.prod(sizes[i:]) for i in range(len(sizes) + 1)}


def sharding_over(mesh: Any, spec: Spec, node: Node) -> NamedSharding:
    """As JAX spells it: over `Explicit` axes a type names all axes of a value."""
    in_type = AxisType.Explicit in mesh.axis_types and node.op is not constraint_p
    return NamedSharding(mesh, PartitionSpec(*(spec if in_type else brief(spec))))


@memo(64)
def over_mesh(sharding: Any, mesh: Any, ndim: int) -> NamedSharding | None:
    """A sharding in terms of another mesh of its devices; None where there is none.

    P("a") over a: 4, b: 1, of devices 0 1 2 3  ->  P(("x", "y")) over x: 2, y: 2
    """
    if sharding is None or sharding.mesh == mesh:
        return sharding
    names = mesh.axis_names
    for axes in product(range(-1, ndim), repeat=len(names)):  # what each name divides
        pairs = [*zip(names, axes, strict=True)]
        spec = [tuple([n for n, k in pairs if k == i]) for i in range(ndim)]
        found = NamedSharding(mesh, PartitionSpec(*brief(spec)))
        if found.is_equivalent_to(sharding, ndim):
            return found
    return None


def sharding_asked(constraint: Node) -> NamedSharding:
    """That which a constraint asks for; whole along axes of which it says nothing."""
    spec = tuple([names or () for names in constraint.arg.spec])
    return sharding_over(constraint.arg.mesh, spec, constraint)


def in_words_of_users(sharding: Any, node: Node, first: Any) -> NamedSharding:
    """That of a result over the mesh of its constraint, or else the first one."""
    mesh = node.arg.mesh if node.op is constraint_p else first
    return over_mesh(sharding, mesh, node.ndim) or sharding


def _constraint_over(mesh: Any, constraint: Constraint) -> Constraint | None:
    """A constraint in terms of a mesh of the same devices; None where there is none."""
    if constraint.mesh.shape_tuple == mesh.shape_tuple:
        return constraint
    spec = tuple([names or () for names in constraint.spec])
    given = NamedSharding(constraint.mesh, PartitionSpec(*spec))
    found = over_mesh(given, mesh, len(spec))
    if found is None:
        return None
    rows = zip(constraint.spec, spec_of(found, len(spec)), strict=True)
    spec = tuple([None if old is None else names for old, names in rows])
    return replace(constraint, mesh=mesh, spec=spec, free=NOTHING)


def find_specs(
    graph: Graph, mesh: Any, in_shardings: Sequence[Any], out_shardings: Sequence[Any],
    told: bool = False,
) -> tuple[Graph, Propagation, Specs, Specs]:  # fmt: skip
    """The graph as it is divided, its specs, and those of its inputs and outputs.

    Args:
      graph: any; its captured arrays are inputs like others.
      in_shardings: of each input a `NamedSharding`; of one of which nothing is said,
        None, or in terms of another mesh alone, each device has the whole. They may be
        fewer than the inputs.
      out_shardings: of each output a `NamedSharding`, or None: as it is found.
      told: keep callbacks that are told how values lie.

    Raises:
      ShapeError: a value cannot be divided so.
    """
    if not told and inspections(graph):
        found = find_specs(graph, mesh, in_shardings, out_shardings, told=True)[1]
        _tell(found, mesh)
    ready = ready_graph(graph, partial(_constraint_over, mesh), told)
    rows = zip(out_shardings, ready.outputs, strict=True)
    wanted = [over_mesh(s, mesh, node.ndim) for s, node in rows]
    outputs = list(map(_constrain, ready.outputs, wanted))
    # A derivative makes a second loop beside the first: it is divided as one.
    merged = merge_control([*outputs, *ready.effects])
    count = len(outputs)
    ready = Graph(
        ready.inputs, tuple(merged[:count]), ready.captured, tuple(merged[count:])
    )
    rows = zip(in_shardings, ready.inputs, strict=False)
    given = [over_mesh(s, mesh, node.ndim) for s, node in rows]
    given += [None] * (len(ready.inputs) - len(given))
    for sharding, node in zip(given, ready.inputs, strict=True):
        if sharding is not None:
            sharding.shard_shape(node.shape)
    rows = zip(given, ready.inputs, strict=True)
    specs = tuple(
        [((),) * n.ndim if s is None else spec_of(s, n.ndim) for s, n in rows]
    )
    tokens = ready.effects
    known = dict(zip(ready.inputs, specs, strict=True))
    ends = (*ready.inputs, *ready.outputs, *tokens)
    found = Propagation(ends, known, mesh.shape)
    results = tuple([found.own[node] for node in ready.outputs])
    return ready, found, specs, results


def _tell(found: Propagation, mesh: Any) -> None:
    """Tells callbacks of a graph, and of loops and branches in it, how values lie."""
    for node in found.order:
        if node.op is callback_p and node.arg.is_told:
            value = node.src[1]
            spec = found.own[value]
            node.arg.function.value.tell(sharding_over(mesh, spec, value))
        for plan in found.flows[node].bodies if node in found.flows else ():
            _tell(plan.found, mesh)


def partition(
    graph: Graph, mesh: Any, in_shardings: Sequence[Any],
    out_shardings: Sequence[Any] | None = None,
) -> Partitioned:  # fmt: skip
    """The program of each device of a mesh, of a graph over whole arrays.

    Args:
      graph, in_shardings, out_shardings: as those of `find_specs`.
      mesh: a `Mesh` or `AbstractMesh`.
    """
    outs = [None] * len(graph.outputs) if out_shardings is None else out_shardings
    return localize(*find_specs(graph, mesh, in_shardings, outs))
