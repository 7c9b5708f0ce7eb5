"""Where the results of a program are, that runs on arrays that were given a sharding.

In one process the devices of a mesh share memory: the program is that of one device,
and runs as it does for other arrays. What each device would have of the results is
found by `propagate`, once for each graph and shardings, and told by the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace import errors
from ftrace.backends.base import Device, get_device
from ftrace.trace.arrays.array import Array, given_sharding, is_array, put_somewhere
from ftrace.trace.eager.dispatch import calls, signature
from ftrace.trace.effects import inspections, tell
from ftrace.trace.graph import Graph, Node, nodes_of
from ftrace.trace.pytree import tree
from ftrace.transforms import device_placement as placement
from ftrace.transforms.partition import partition
from ftrace.transforms.shardings import (
    NamedSharding,
    Placed,
    SingleDeviceSharding,
    with_sharding,
)
from ftrace.transforms.structs import mesh_sharding


def shardings_of_results(graph: Graph, given: Sequence[Any]) -> tuple[Any, ...] | None:
    """The shardings of the outputs; None where nothing is over a mesh.

    Args:
      given: those of the inputs, or None; captured arrays are the last.

    Raises:
      ShardingError: an argument was put elsewhere than `in_shardings` says.
    """
    key = signature("shardings", graph.inputs, graph.outputs, graph.effects, *given)
    return calls.once(key, lambda: _shardings(graph, given)) or None


def _shardings(graph: Graph, given: Sequence[Any]) -> tuple[Any, ...]:
    """The shardings of the outputs; () where nothing is over a mesh."""
    _check_arguments(graph, given)
    used = nodes_of((*graph.outputs, *[node for node, _ in inspections(graph)]))
    rows = zip(graph.inputs, given, strict=True)
    places = [s for node, s in rows if node in used]
    mesh = partition.mesh_of(graph, places)
    if mesh is None:
        alone = [s for s in given if s is not None and not isinstance(s, NamedSharding)]
        tell(graph, alone[0] if alone else SingleDeviceSharding(get_device()))
        return ()
    given = [s if isinstance(s, NamedSharding) else None for s in given]
    outs = [None] * len(graph.outputs)
    ready, _, _, specs = partition.find_specs(graph, mesh, given, outs)
    first, *_ = partition.meshes_of(graph, places)
    rows = zip(specs, ready.outputs, graph.outputs, strict=True)
    made = [
        partition.in_words_of_users(
            partition.sharding_over(mesh, spec, node), old, first
        )
        for spec, node, old in rows
    ]
    inputs = dict(zip(graph.inputs, given, strict=False))
    ends = zip(graph.outputs, made, strict=True)
    return tuple([inputs.get(node) or own for node, own in ends])


def _check_arguments(graph: Graph, given: Sequence[Any]) -> None:
    placed_ones = dict(zip(graph.inputs, given, strict=True))
    for constraint in partition.constraints_in(graph) if any(given) else ():
        (node,) = constraint.src
        given_one = placed_ones.get(node) if constraint.arg.why == "argument" else None
        if given_one is None:
            continue
        wanted = partition.sharding_asked(constraint)
        if not given_one.is_equivalent_to(wanted, node.ndim):
            raise errors.ShardingError(
                "Sharding passed to jit does not match the sharding on the respective "
                f"arg. Got jit sharding: {wanted}, arg sharding: {given_one} for an "
                f"argument of type {node.aval!r}; move it with device_put(x, sharding) "
                "before the call, or leave out in_shardings"
            )


def with_shardings(
    graph: Graph, values: Sequence[Any], results: Sequence[Any],
    device: str | None = None,
) -> list[Any]:  # fmt: skip
    """The results of a graph, which know how they are divided.

    Args:
      values: those of its inputs, without the captured ones.
      device: where they are if nothing is over a mesh; by default where the values are.
    """
    given = [*map(given_sharding, (*values, *graph.captured))]
    shardings = shardings_of_results(graph, given)
    if shardings is None and device is not None:
        return [placement.put_by(x, device) for x in results]
    if shardings is None:
        return stay_on(put_somewhere([x for x in values if is_array(x)]), list(results))
    rows = zip(results, shardings, strict=True)
    return [with_sharding(x, s) if is_array(x) else x for x, s in rows]


def stay_on(first: Array | None, results: Any) -> Any:
    """Results of arrays that were put on one device, which are there."""
    if type(first) is not Placed or mesh_sharding(first) is not None:
        return results
    device, given = placement.device_of(first), first.given_sharding
    return tree.map(
        lambda x: with_sharding(lie_on(device, x), given) if type(x) is Array else x,
        results,
    )


def lie_on(device: Device, result: Any) -> Any:
    """An array of nobody's choice on the default device."""
    if type(result) is not Array or result.memory is device:
        return result
    if result.memory.host and device.host:
        return result
    buffer = result.buffer_on(device)
    return Array(result.shape, result.dtype, result.weak_type, buffer)


def shardings_of(
    graph: Graph, given: Sequence[Any], outs: Sequence[Any] | None = None
) -> tuple[list[Any], list[Any]] | None:
    """Those of the inputs that are not captured, and of the outputs.

    Args:
      outs: the latter, where they are known.
    """
    captured = [mesh_sharding(x) for x in graph.captured]
    outs = outs or shardings_of_results(graph, [*given, *captured])
    if outs is None:
        return None
    mesh, constraints = outs[0].mesh, partition.constraints_in(graph)
    asked = {node.src[0]: partition.sharding_asked(node) for node in constraints}

    def sharding_for(node: Node) -> NamedSharding:
        whole = partition.sharding_over(mesh, ((),) * node.ndim, node)
        return asked.get(node, whole)

    rows = zip(graph.inputs, given, strict=False)
    return [sharding or sharding_for(node) for node, sharding in rows], list(outs)
