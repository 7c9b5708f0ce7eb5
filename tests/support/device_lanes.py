"""A device's program, run for all devices of a mesh at once: each is a lane.

The axes along which a spec divides an input become leading ones, and batching gives the
program one axis of lanes for each axis of the mesh.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.sharding import NamedSharding, PartitionSpec as P
from ftrace.trace.batching import batch_nodes
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.evaluate import evaluate, evaluate_graph
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives.sources import iota, variable
from ftrace.transforms import mapped
from ftrace.transforms.partition.localize import Partitioned
from ftrace.transforms.partition.partition import partition

_LANES_DEPTH = -60


def run_in_lanes(made: Partitioned, mesh: Any, arrays: Sequence[Any]) -> list[Any]:
    """The whole outputs; those that no axis of lanes tells apart must be the same."""
    names, sizes = list(mesh.axis_names), dict(mesh.shape)
    count = len(made.in_specs)
    inputs = list(made.graph.inputs)
    now: dict[Node, Node] = {node: node for node in inputs}
    outputs = list(made.graph.outputs)
    lanes: list[list[Any]] = [[] for _ in outputs]
    for name in reversed(names):
        place = inputs[count + names.index(name)]
        leaves = {place: iota(dtypes.int32, (sizes[name],), 0)}
        for i, (node, spec) in enumerate(
            zip(inputs[:count], made.in_specs, strict=True)
        ):
            if any(name in part for part in spec):
                old = now[node]
                aval = old.aval.with_shape((sizes[name], *old.shape))
                now[node] = leaves[old] = variable(aval, _LANES_DEPTH, i)
        found = batch_nodes(outputs, leaves, sizes[name])
        outputs = [node for node, _ in found]
        for own, (_, has) in zip(lanes, found, strict=True):
            own[:0] = [name] if has else []
    known = {
        now[node]: np.asarray(mapped._divide(fnp.asarray(x), P(*spec), sizes))
        for node, spec, x in zip(inputs[:count], made.in_specs, arrays, strict=True)
    }
    results = evaluate(outputs, known)
    rows = zip(results, made.out_specs, lanes, strict=True)
    return [_whole(x, spec, own, names, sizes) for x, spec, own in rows]


def _whole(x: Any, spec: Any, lanes: Any, names: Any, sizes: Any) -> Any:
    """The whole of an array with axes of lanes in front.

    Parts that are the same for all lanes have no such axis.
    """
    named = [name for part in spec for name in part]
    index: list[Any] = []
    for axis, name in enumerate([name for name in names if name in {*named, *lanes}]):
        if name not in lanes:
            x = np.repeat(np.expand_dims(x, axis), sizes[name], axis)
        elif name not in named:
            np.testing.assert_allclose(x, np.take(x, [0], axis) + 0 * x, rtol=1e-6)
        index.append(slice(None) if name in named else 0)
    return np.asarray(mapped._join(fnp.asarray(x[tuple(index)]), P(*spec), sizes))


def partitioned(
    f: Any, mesh: Any, specs: Sequence[Any], *args: Any, outs: Any = None
) -> Partitioned:
    """The program of each device for a function, held against that of one device.

    Args:
      specs: of each leaf of the arguments; None is nothing said.
      outs: of each result, likewise.
    """
    args = tuple(ft.tree.map(fnp.asarray, args))
    graph = ft.jit(f).trace(*args).graph
    return divided(graph, mesh, specs, ft.tree.leaves(args), outs)


def divided(
    graph: Graph, mesh: Any, specs: Sequence[Any], arrays: Sequence[Any],
    outs: Any = None,
) -> Partitioned:  # fmt: skip
    """The same for a graph."""

    def over(spec: Any) -> Any:
        return None if spec is None else NamedSharding(mesh, spec)

    wanted = None if outs is None else list(map(over, outs))
    made = partition(graph, mesh, list(map(over, specs)), wanted)
    whole = evaluate_graph(ready_graph(graph), *map(np.asarray, arrays))
    got = run_in_lanes(made, mesh, [*arrays, *graph.captured])
    for one, other in zip(whole, got, strict=True):
        assert one.shape == other.shape
        finite = np.abs(np.where(np.isfinite(one), one, 0))
        near = 1e-5 * (1 + float(np.max(finite, initial=0)))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=near)
    return made


def collectives(made: Partitioned) -> list[tuple[str, Any]]:
    """The kinds of collectives and their axes, in order."""
    return [(entry.kind, entry.axis) for entry in made.ledger]
