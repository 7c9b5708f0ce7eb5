"""What becomes of a function whose arguments are divided over devices, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ftrace.errors import ShardingError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace import graph as g
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.control.scan import iterations_of
from ftrace.trace.flatten_arguments import name_of, wraps
from ftrace.trace.primitives.exchange import exchange_p, shard_p, whole_p
from ftrace.trace.pytree import tree
from ftrace.transforms.jit.jit import Jitted
from ftrace.transforms.meshes import get_mesh
from ftrace.transforms.partition import specs as sp
from ftrace.transforms.partition.collectives import Collective
from ftrace.transforms.partition.localize import Partitioned, localize
from ftrace.transforms.partition.partition import find_specs, mesh_of
from ftrace.transforms.partition.propagate import Propagation
from ftrace.transforms.partition.spanning import localize_graph
from ftrace.transforms.structs import mesh_sharding


def explain_sharding(fun: Callable[..., Any]) -> Callable[..., str]:
    """A function that tells how `fun` would be divided over the devices of a mesh.

    Args:
      fun: a function of arrays, under `jit` or not.

    Returns:
      A function of the same arguments, or of `ShapeDtypeStruct`s with shardings, that
      runs nothing. Its text has each value with its type, in which the axes of the mesh
      stand beside the sizes that they divide, `f32[8@x,16]`, and the user's line; then
      each collective, with its line and the bytes that a device receives. Where
      `shard_map` says over several processes what each device does, it is the program
      of one process, and what that receives.

    Raises:
      ShardingError: no argument or constraint is over a mesh, or they are over two.
    """
    tree.check_callable(fun, "explain_sharding")

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> str:
        jitted = fun if isinstance(fun, Jitted) else Jitted(fun)
        traced = jitted.trace(*args, **kwargs)
        found = divided_graph(traced.graph, traced.places)
        if found is None:
            raise ShardingError(
                f"explain_sharding of {name_of(fun)}: no argument is divided over a "
                "mesh, and there is no constraint; place one with device_put(x, "
                "NamedSharding(mesh, spec)), or give a ShapeDtypeStruct with a sharding"
            )
        return _text(found)

    return call


class Divided(NamedTuple):
    """A program over a mesh.

    Attributes:
      mesh: which.
      graph: over whole arrays, with its constraints; or what a process runs, where
        `shard_map` says over processes what each device does.
      ledger: the collectives.
      made: the program of each device, in the first case.
      specs: how each value is divided, those of bodies too.
    """

    mesh: Any
    graph: g.Graph
    ledger: Sequence[Collective]
    made: Partitioned | None
    specs: dict[g.Node, sp.Spec]

    @property
    def runner(self) -> str:
        """What runs it."""
        return "process" if self.made is None else "device"


def divided_graph(graph: g.Graph, shardings: Sequence[Any]) -> Divided | None:
    """What becomes of a graph over a mesh; None where nothing is divided.

    Args:
      shardings: of its inputs, without those it captured; None is not divided.
    """
    given = [*shardings, *map(mesh_sharding, graph.captured)]
    mesh = mesh_of(graph, given) or get_mesh()
    if not mesh.axis_names:
        return None
    whole = ready_graph(graph, lambda constraint: constraint)
    if g.has_any((*whole.outputs, *whole.effects), (shard_p, whole_p)):
        local, _ = localize_graph(whole, given)
        ready = ready_graph(local)
        entries = tuple(_exchanges((*ready.outputs, *ready.effects)))
        return Divided(mesh, local, entries, None, {})
    found = find_specs(graph, mesh, given, [None] * len(graph.outputs))
    made, specs = localize(*found), dict[g.Node, sp.Spec]()
    _collect(made.found, specs)
    return Divided(mesh, found[0], made.ledger, made, specs)


#: What users call an exchange.
_COLLECTIVES = {
    "sum": "psum", "max": "pmax", "min": "pmin", "gather": "all_gather",
    "scatter": "psum_scatter", "permute": "ppermute", "first": "pbroadcast",
}  # fmt: skip


def _exchanges(outputs: Sequence[g.Node], times: int = 1) -> Iterator[Collective]:
    """The collectives of a process, in loops of known length with how often."""
    for node in g.toposort(outputs):
        if node.op is exchange_p and node.arg.moves:
            x, ranks = node.src[0].aval, node.arg.ranks
            kind: str = node.arg.kind
            step = sp.Move(_COLLECTIVES.get(kind, kind), ranks.name)
            nbytes = sp.local_bytes(x, ((),) * len(x.shape), {})
            nbytes = sp.bytes_received([step], nbytes, {ranks.name: ranks.size})
            yield Collective(
                step.kind, step.name, x, nbytes, times, "shard_map", node.origin
            )
        each = times * iterations_of(node.arg)
        for body in g.bodies_of(node.arg):
            yield from _exchanges(body.outputs, each)


def _text(divided: Divided) -> str:
    mesh, graph, ledger, _, specs = divided

    def type_of(node: g.Node) -> str:
        return format_type(node, specs.get(node, ()))

    rows = [(str(entry), str(entry.origin or "")) for entry in ledger]
    width = max([len(text) for text, _ in rows], default=0)
    lines = [f"  {text:<{width}}  # {line}".rstrip(" #") for text, line in rows]
    total = sum(entry.nbytes * entry.times for entry in ledger)
    sizes = ", ".join(f"{name!r}: {n}" for name, n in mesh.shape_tuple)
    return "\n".join(
        [
            f"over Mesh({sizes})",
            g.render_graph(graph, type_of=type_of),
            f"collectives: {len(rows)}; each {divided.runner} receives {total:,} bytes",
            *lines,
        ]
    )


def _collect(found: Propagation, own: dict[g.Node, sp.Spec]) -> None:
    """The specs of a graph, and of the bodies in it."""
    own |= found.own
    for flow in found.flows.values():
        for plan in flow.bodies:
            _collect(plan.found, own)


def format_type(node: g.Node, spec: sp.Spec) -> str:
    """The type of a value, with the axes of the mesh that divide it: f32[8@x,16]."""
    text = repr(node.aval)
    if not any(spec):
        return text
    sizes = [
        f"{n}@{'·'.join(map(str, names))}" if names else f"{n}"
        for n, names in zip(node.shape, spec, strict=True)
    ]
    head, _, rest = text.partition("[")
    return f"{head}[{','.join(sizes)}]{rest.partition(']')[2]}"
