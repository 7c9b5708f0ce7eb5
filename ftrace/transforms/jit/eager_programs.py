"""Graphs derived by un-jitted transforms, ready to run when they are derived again.

    (what is derived, the traced graph) -> the jitted function of the result

An un-jitted transform traces its function at every call, and gets the same nodes. One
look tells which program they became; its calls are those of jit.

Graphs that differ by numbers alone share a program:

    f(x, 0.5): sum(x * 0.5) + 1,   f(x, 0.25): sum(x * 0.25) + 1
    ->  a *family*: sum(x * a) + b,   of which a has varied, and b has not

A number of Python's is part of the graph of an un-jitted transform: what it is may
decide anything. The first graph of a family is compiled as it is. For the next one
the numbers that differ become inputs of a program, which serves those after it.

Only numbers that are results, operands of arithmetic, or moved to either become inputs:
for these, code that reads a number makes the bits that code for that number makes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.ground.tables import LIGHT
from ftrace.trace.arrays.array import Array
from ftrace.trace.backend import Program
from ftrace.trace.eager.dispatch import calls, signature
from ftrace.trace.flatten_arguments import Output
from ftrace.trace.graph import (
    Graph,
    Node,
    constant_value,
    one_order,
    operations_of,
    substitute,
    toposort,
)
from ftrace.trace.primitives import elementwise
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.indexing import scatter_p
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.primitives.reference import convert
from ftrace.trace.primitives.sources import const_p, variable
from ftrace.trace.tracing.scopes import current_scope
from ftrace.trace.tracing.tracer import Value
from ftrace.transforms.jit import compiled_graph
from ftrace.transforms.jit.jit import Jitted
from ftrace.transforms.jit.ready import OneTrace

#: What runs a graph, and the numbers that it is given behind all else.
_Applies = tuple[Program, tuple[Array, ...]]


def program_of(graph: Graph) -> Program:
    """A graph without effects, compiled when it is first called with values."""

    def apply(*values: Value) -> list[Any]:
        return compiled_graph.apply_graph(graph, values)

    program, output = Jitted(apply), Output(apply, "jit", False)
    output.accept([0] * len(graph.outputs))
    program.known = OneTrace(graph, output, True)
    return program


def derived(kind: Hashable, graph: Graph, derive: Callable[[], Graph]) -> Graph:
    """`derive()`, or what it returned for this graph before.

    Args:
      kind: says what is derived; with the graph it decides the result.
      graph: what it is derived from; the result has its captured arrays.
      derive: called where the result is not known.
    """
    key = signature("graph", kind, graph.inputs, graph.outputs)
    ends: Any = None if graph.effects else calls.get(key)
    if ends is not None:
        inputs, outputs = ends
        return Graph(inputs, outputs, graph.captured)
    plain = is_plain(graph)
    whole = derive()
    if plain:
        calls.put(key, (whole.inputs, whole.outputs), compiled_graph.weight_of(whole))
    return whole


def is_plain(graph: Graph) -> bool:
    """Is its derivative ours alone? No effects or bodies, no operation of a user."""
    ops = operations_of(graph.outputs)
    return not graph.effects and all(isinstance(op, Primitive) for op in ops)


def apply_again(graph: Graph, values: Sequence[Value]) -> list[Any]:
    """The outputs of a graph that may well be applied to other values later."""
    return apply_derived("itself", graph, lambda: graph, values)


def apply_derived(
    kind: Hashable, graph: Graph, derive: Callable[[], Graph], values: Sequence[Value]
) -> list[Any]:
    """The outputs of `derived(kind, graph, derive)` for these arguments."""
    if graph.effects or current_scope() is not None:
        return compiled_graph.apply_graph(derived(kind, graph, derive), values)
    key = signature("program", kind, graph.inputs, graph.outputs)
    found = calls.get(key)
    if found is not None:
        return _applied(found, graph, values)
    with one_order():  # also while the program is compiled, at its first call
        whole = derived(kind, graph, derive)
        # Rules run each time.
        if whole.effects or compiled_graph.ready(whole) is not whole:
            return compiled_graph.apply_graph(whole, values)
        plain = Graph(whole.inputs, whole.outputs)
        found = _like_another(whole) or (program_of(plain), ())
        return _applied(calls.put(key, found, 4 * LIGHT), graph, values)


def _applied(found: _Applies, graph: Graph, values: Sequence[Value]) -> list[Any]:
    program, numbers = found
    results = program(*values, *graph.captured, *numbers)
    return compiled_graph.apart(results, graph.captured) if graph.captured else results


# Numbers.

#: Depth of the variables that stand for numbers.
NUMBER_DEPTH = -51
#: Numbers of a graph that may vary, at the most: each is an input of a program.
MOST = 32


def numbers_of(outputs: Sequence[Node]) -> list[Node]:
    """The constants that may vary, in the order of reading."""
    holds: dict[Node, Node] = {}  # a number: itself, cast or moved
    refused: set[Node] = set()
    for node in toposort(outputs):
        if node.op is const_p:
            holds[node] = node
            continue
        held = [source for source in node.src if source in holds]
        if held and (node.op is elementwise.cast_p or node.op.family == "movement"):
            holds[node] = holds[held[0]]
            continue
        refused.update(holds[s] for s in held if not _takes_number(node, s, holds[s]))
    kept = [x for x, number in holds.items() if x is number and x.dtype != np.bool_]
    kept = [x for x in kept if x not in refused]
    return kept if len(kept) <= MOST else []


def _takes_number(node: Node, source: Node, number: Node) -> bool:
    """Does the code for a number do what code that reads it does?

    Args:
      source: the operand that the number is, cast or moved.
    """
    if isinstance(node.op, Primitive) and node.op.takes_numbers:
        return True
    if node.op is scatter_p:  # what it is scattered into, and where, may be known
        return source not in (node.src[0], *node.src[2:])
    if node.op is not elementwise.power or node.src[0] is source:
        return False
    if not dtypes.is_float(source.dtype):
        return False
    # There is code of its own for exponents such as ½.
    return float(convert(constant_value(number), source.dtype)) * 2 % 1 != 0


class _Family:
    """All graphs of one pattern, which differ by numbers alone.

    Attributes:
      first: the numbers of the first one.
      latest: the places of those that have been others since, and the program in which
        these may vary. Other threads put another pair in its place.
    """

    def __init__(self, first: Sequence[bytes]) -> None:
        self.first = first
        self.latest: tuple[tuple[int, ...], Program | None] = ((), None)

    def varying(self, numbers: Sequence[Node]) -> tuple[int, ...]:
        """The places of those that have been others, with those of one more graph."""
        pairs = enumerate(zip(numbers, self.first, strict=True))
        differ = {i for i, (node, bits) in pairs if node.arg != bits}
        return tuple(sorted(differ.union(self.latest[0])))


def _like_another(graph: Graph) -> _Applies | None:
    """What runs a graph that differs from earlier ones by numbers, and these numbers.

    None for a first one.
    """
    numbers = numbers_of(graph.outputs)
    if not numbers:
        return None
    pattern = _pattern(graph, set(numbers))
    key = signature("numbers", graph.inputs, *pattern)
    family: Any = calls.get(key)
    if family is None:
        first = _Family([x.arg for x in numbers])
        family = calls.put(key, first, compiled_graph.GRAPH_BYTES * len(pattern))
    varying: tuple[int, ...] = family.varying(numbers)
    known, program = family.latest
    if not varying:
        return None  # the first of its pattern
    if varying != known or program is None:
        places = [_place(i, numbers[i]) for i in varying]
        free = {
            numbers[i]: broadcast_leading(place, numbers[i].shape)
            for i, place in zip(varying, places, strict=True)
        }
        inputs = (*graph.inputs, *places)
        made = substitute(graph.outputs, free)
        # A number itself is no result: whoever gets it may give its memory away.
        made = [elementwise.copy(y) if y in free.values() else y for y in made]
        program = program_of(Graph(inputs, tuple(made)))
        family.latest = varying, program
    return program, tuple([_array(numbers[i]) for i in varying])


def _pattern(graph: Graph, numbers: set[Node]) -> list[Any]:
    """What is common to all graphs that differ from this one by these numbers alone.

    That is a row for each node, which names others by their places, and the outputs.
    """
    order = toposort(graph.outputs)
    places = {node: place for place, node in enumerate(order)}
    place_of = places.__getitem__
    rows: list[Any] = [*order]
    for place, node in enumerate(order):
        if node in numbers:
            rows[place] = node.aval
        elif node.src:
            rows[place] = node.op, node.aval, node.arg, *map(place_of, node.src)
    return [*rows, *map(place_of, graph.outputs)]


def _place(i: int, number: Node) -> Node:
    """The variable that stands for a number."""
    return variable(number.aval.with_shape(()), NUMBER_DEPTH, i)


def _array(number: Node) -> Array:
    value: Any = np.frombuffer(number.arg, number.dtype)
    return Array.of(value.reshape(()), number.aval.weak_type)
