"""Calls outside of traces whose arguments are divided over devices.

In one process the call is done for the whole arrays, as for others, and its results are
given their shardings. Over several, whose processes each have a part, it is a jitted
one that they do together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import errors
from ftrace.backends.base import get_device
from ftrace.ground import settings
from ftrace.trace.arrays.array import Array, is_array, put_somewhere
from ftrace.trace.eager.dispatch import calls, kind_of, signature
from ftrace.trace.flatten_arguments import Output, name_of
from ftrace.trace.graph import Graph, nodes_of
from ftrace.trace.primitives.sources import is_variable
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of, is_value, stack
from ftrace.transforms.device_placement import is_first
from ftrace.transforms.jit.jit import Jitted
from ftrace.transforms.meshes import PartitionSpec
from ftrace.transforms.partition import partition
from ftrace.transforms.partition.spanning import Spanning, lift
from ftrace.transforms.placed_results import lie_on, stay_on, with_shardings
from ftrace.transforms.shardings import NamedSharding, Placed, with_sharding
from ftrace.transforms.structs import mesh_sharding


def call_placed(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A call of which an argument may have been given a sharding.

    NotImplemented where none has: it is a call like others.

    Raises:
      ShardingError: arguments were put on different devices.
    """
    leaves, treedef = tree.flatten((args, kwargs))
    if any(type(x) is Spanning for x in leaves):
        if not stack.scopes:
            here = partial(lie_on, get_device("cpu"))
            return _call_across(function, *tree.map(here, (args, kwargs)))
        known = [lift(x) if type(x) is Spanning else x for x in leaves]
        args, kwargs = tree.unflatten(treedef, known)
        return function(*args, **kwargs)
    if stack.scopes:
        return NotImplemented
    first = put_somewhere([x for x in leaves if is_array(x)])
    if type(first) is not Placed:
        device = get_device()
        if first is not None or is_first(device):
            return NotImplemented
        with settings.config(device=device.platform):
            result = function(*args, **kwargs)
        return tree.map(lambda x: lie_on(device, x), result)
    device: Any = first.memory
    if getattr(device, "platform", "cpu") == "cpu":
        device = get_device("cpu")  # with which the others share their memory
    bare = [lie_on(device, x.bare if type(x) is Placed else x) for x in leaves]
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
        return stay_on(first, result)
    graph = _graph_of(function, args, kwargs)
    if graph is None:
        return _lie_everywhere(first, result)
    values = [x for x, b in zip(leaves, bare, strict=True) if type(b) in _ARRAYS]
    made = with_shardings(graph, values, results)
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
