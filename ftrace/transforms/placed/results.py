"""Where the results of a program are, that runs on arrays that were given a sharding.

In one process the devices of a mesh share memory: the program is that of one device,
and runs as it does for other arrays. What each device would have of the results is
found by `propagate`, once for each graph and shardings, and told by the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import errors
from ftrace.backends.base import Device, get_device
from ftrace.ground import settings
from ftrace.trace.arrays.array import Array, is_array, put_somewhere
from ftrace.trace.eager.dispatch import calls, kind_of, signature
from ftrace.trace.effects import inspected, tell
from ftrace.trace.flatten_arguments import Output, name_of
from ftrace.trace.graph import Graph, Node, nodes_of
from ftrace.trace.primitives.sources import is_variable
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of, is_value, stack
from ftrace.transforms import device_placement as placement
from ftrace.transforms.jit.jit import Jitted
from ftrace.transforms.jit.structs import mesh_sharding
from ftrace.transforms.meshes import PartitionSpec
from ftrace.transforms.partition import partition
from ftrace.transforms.placed.spanning import Spanning, lift
from ftrace.transforms.shardings import NamedSharding, Placed, with_sharding


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
    used = nodes_of((*graph.outputs, *[node for node, _ in inspected(graph)]))
    rows = zip(graph.inputs, given, strict=True)
    places = [s for node, s in rows if node in used]
    mesh = partition.mesh_of(graph, places)
    if mesh is None:
        alone = [s for s in given if s is not None and not hasattr(s, "mesh")]
        tell(graph, alone[0] if alone else placement.single_device(get_device()))
        return ()
    given = [s if hasattr(s, "mesh") else None for s in given]
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


def place_results(
    graph: Graph, values: Sequence[Any], results: Sequence[Any],
    device: str | None = None,
) -> list[Any]:  # fmt: skip
    """The results of a graph, which know how they are divided.

    Args:
      values: those of its inputs, without the captured ones.
      device: where they are if nothing is over a mesh; by default where the values are.
    """
    given = [getattr(x, "given_sharding", None) for x in (*values, *graph.captured)]
    shardings = shardings_of_results(graph, given)
    if shardings is None and device is not None:
        return [placement.put_by(x, device) for x in results]
    if shardings is None:
        return _stay(put_somewhere([x for x in values if is_array(x)]), list(results))
    rows = zip(results, shardings, strict=True)
    return [with_sharding(x, s) if is_array(x) else x for x, s in rows]


def _stay(first: Array | None, results: Any) -> Any:
    """Results of arrays that were put on one device, which are there."""
    if type(first) is not Placed or mesh_sharding(first) is not None:
        return results
    device, given = placement.device_of(first), first.given_sharding
    return tree.map(
        lambda x: with_sharding(_lie_on(device, x), given) if type(x) is Array else x,
        results,
    )


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

    def wanted(node: Node) -> NamedSharding:
        whole = partition.sharding_over(mesh, ((),) * node.ndim, node)
        return asked.get(node, whole)

    rows = zip(graph.inputs, given, strict=False)
    return [sharding or wanted(node) for node, sharding in rows], list(outs)


# Calls outside of traces.


def call_placed(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A call of which an argument may have been given a sharding.

    NotImplemented where none has: it is a call like others.

    Raises:
      ShardingError: arguments were put on different devices.
    """
    leaves, treedef = tree.flatten((args, kwargs))
    if any(type(x) is Spanning for x in leaves):
        if not stack.scopes:
            here = partial(_lie_on, get_device("cpu"))
            return _call_across(function, *tree.map(here, (args, kwargs)))
        known = [lift(x) if type(x) is Spanning else x for x in leaves]
        args, kwargs = tree.unflatten(treedef, known)
        return function(*args, **kwargs)
    if stack.scopes:
        return NotImplemented
    first = put_somewhere([x for x in leaves if is_array(x)])
    if type(first) is not Placed:
        device = get_device()
        if first is not None or placement.is_first(device):
            return NotImplemented
        with settings.config(device=device.platform):
            result = function(*args, **kwargs)
        return tree.map(lambda x: _lie_on(device, x), result)
    device: Any = first.memory
    if getattr(device, "platform", "cpu") == "cpu":
        device = get_device("cpu")  # with which the others share their memory
    bare = [_lie_on(device, x.bare if type(x) is Placed else x) for x in leaves]
    args, kwargs = tree.unflatten(treedef, bare)
    if get_device() is device:
        result = function(*args, **kwargs)
    else:
        with settings.config(device=device.name):
            result = function(*args, **kwargs)
    results, structure = tree.flatten(result)
    if not any(type(x) is Array for x in results):
        return NotImplemented  # it may hold what it was given, as `x.at` does
    if mesh_sharding(first) is None:
        return _stay(first, result)
    graph = _graph_of(function, args, kwargs)
    if graph is None:
        return _lie_everywhere(first, result)
    values = [x for x, b in zip(leaves, bare, strict=True) if type(b) in _ARRAYS]
    made = place_results(graph, values, results)
    return tree.unflatten(structure, [_like(values, x) for x in made])


class _OfTypes(Exception):
    """The result of a call, which is no array: it is the same in all processes."""


def _call_across(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A call of arrays over several processes, which do it together, as under jit."""
    try:
        kind, values = kind_of(args, kwargs, (*_ARRAYS, Placed, Spanning))
        given = tuple(map(mesh_sharding, values))
        key = signature("across", function, given, *kind.key)
    except LookupError:
        raise errors.UnaddressableError(
            f"{name_of(function)} of an array over several processes is done under jit "
            "alone, for the other arguments"
        ) from None

    def call(*values: Any) -> Any:
        rows = [*zip(values, given, strict=True)]
        result = kind.call_of(function)(*values)
        if not any(map(is_value, tree.leaves(result))):
            raise _OfTypes(result)
        return tree.map(partial(_lie_like, rows), result)

    try:
        return calls.once(key, lambda: Jitted(call))(*values)
    except _OfTypes as found:
        return found.args[0]
    except (errors.ConcretizationTypeError, errors.NonConcreteBooleanIndexError):
        return _call_whole(function, args, kwargs)


def _call_whole(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A call of which the shapes of results depend on values: each process has all."""
    leaves, treedef = tree.flatten((args, kwargs))
    first = next(x for x in leaves if type(x) is Spanning)
    known = [Array.of(x.whole()) if type(x) is Spanning else x for x in leaves]
    args, kwargs = tree.unflatten(treedef, known)
    return _lie_everywhere(first, function(*args, **kwargs))


def _lie_everywhere(like: Any, result: Any) -> Any:
    """Arrays of which each device of a mesh has all."""
    everywhere = NamedSharding(mesh_sharding(like).mesh, PartitionSpec())
    return tree.map(
        lambda x: with_sharding(x, everywhere) if type(x) is Array else x, result
    )


# What has the shape of an array and nothing else of it, as zeros, lies as it does. All
# else of a call with such an array knows its own sharding.


def _lie_like(rows: Sequence[tuple[Any, Any]], result: Any) -> Any:
    """Likewise of a call that is traced: each process makes its parts."""
    made = lift(result)
    if any(is_variable(node) for node in nodes_of([made.node])):
        return result
    sharding = _first_of_shape(rows, made.shape)
    return (
        result if sharding is None else partition.constrain(made, sharding, exact=True)
    )


def _lie_on(device: Device, result: Any) -> Any:
    """An array of nobody's choice on the default device."""
    if type(result) is not Array or result.memory is device:
        return result
    if result.memory.host and device.host:
        return result
    buffer = result.buffer_on(device)
    return Array(result.shape, result.dtype, result.weak_type, buffer)


def _like(values: Sequence[Any], result: Any) -> Any:
    if type(result) is not Array:
        return result
    sharding = _first_of_shape([(x, mesh_sharding(x)) for x in values], result.shape)
    return result if sharding is None else with_sharding(result, sharding)


def _first_of_shape(rows: Sequence[tuple[Any, Any]], shape: Any) -> Any:
    """The sharding of the first array over a mesh that has a shape."""
    return next(
        (s for x, s in rows if s is not None and same_size(x.shape, shape)), None
    )


_ARRAYS: tuple[type[Any], ...] = (Array, np.ndarray)


def _graph_of(function: Callable[..., Any], args: Any, kwargs: Any) -> Graph | None:
    """What a call does; None where it depends on more than types and static values."""
    try:
        kind, values = kind_of(args, kwargs, _ARRAYS)
        avals = [aval_of(x) for x in values]
        key = signature("placed", function, *kind.key, *avals)
        output = Output(kind.call_of(function), "jit", False)
        return calls.once(key, lambda: trace("jit", output, avals))
    except (LookupError, errors.FtraceError):
        return None
