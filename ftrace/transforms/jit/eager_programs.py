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
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.tables import LIGHT, Table
from ftrace.trace.arrays.array import Array
from ftrace.trace.backend import Program
from ftrace.trace.flatten_arguments import Output
from ftrace.trace.graph import (
    Graph,
    Node,
    constant_value,
    nodes_of,
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
from ftrace.transforms.jit.compiled_graph import (
    GRAPH_BYTES,
    Traced,
    apart,
    apply_graph,
    ready,
    weight_of,
)
from ftrace.transforms.jit.jit import Jitted


class _Derived(NamedTuple):
    """What was derived from a graph.

    Attributes:
      ends: its inputs and outputs; None where rules of the user's say what it is: they
        are Python, and run each time.
      program: runs it, with these numbers behind the values and what it captured.
      nbytes: what these weigh without it.
    """

    ends: tuple[tuple[Node, ...], tuple[Node, ...]] | None = None
    program: Program | None = None
    numbers: tuple[Array, ...] = ()
    nbytes: int = 0


_NOTHING = _Derived()
#: By the kind, `enable_x64` (constants of rules depend on it) and the graph.
_derived: Table[Hashable, _Derived] = Table(1024)


def program_of(graph: Graph) -> Program:
    """A graph without effects, compiled when it is first called with values."""

    def apply(*values: Value) -> list[Any]:
        return apply_graph(graph, values)

    program, output = Jitted(apply), Output(apply, "jit", False)
    output.accept([0] * len(graph.outputs))
    program.known = Traced(graph, output, True)
    return program


def derived(kind: Hashable, graph: Graph, derive: Callable[[], Graph]) -> Graph:
    """`derive()`, or what it returned for this graph before.

    Args:
      kind: says what is derived; with the graph it decides the result.
      graph: what it is derived from; the result has its captured arrays.
      derive: called where the result is not known.
    """
    key = (kind, settings.current().enable_x64, graph.inputs, graph.outputs)
    found = None if graph.effects else _derived.get(key)
    if found is not None and found.ends is not None:
        return Graph(*found.ends, graph.captured)
    plain = is_plain(graph)
    whole = derive()
    if plain:
        ends = whole.inputs, whole.outputs
        _keep(key, 0, ends=ends, nbytes=weight_of(whole))
    return whole


def _keep(key: Hashable, beside: int, **parts: Any) -> _Derived:
    made = (_derived.get(key) or _NOTHING)._replace(**parts)
    return _derived.put(key, made, made.nbytes + beside)


def is_plain(graph: Graph) -> bool:
    """Is its derivative ours alone? No effects or bodies, no operation of a user."""
    ops = operations_of(graph.outputs)
    return not graph.effects and all(isinstance(op, Primitive) for op in ops)


def apply_again(graph: Graph, values: Sequence[Value]) -> list[Any]:
    """The outputs of a graph that may well be applied to other values later."""
    return apply_derived("itself", graph, lambda: graph, values)


def apply_derived(
    kind: Hashable,
    graph: Graph,
    derive: Callable[[], Graph],
    values: Sequence[Value],
) -> list[Any]:
    """The outputs of `derived(kind, graph, derive)` for these arguments."""
    if graph.effects or current_scope() is not None:
        return apply_graph(derived(kind, graph, derive), values)
    key = (kind, settings.current().enable_x64, graph.inputs, graph.outputs)
    found = _derived.get(key) or _NOTHING
    if found.program is not None:
        return _applied(found, graph, values)
    with one_order():  # also while the program is compiled, at its first call
        whole = derived(kind, graph, derive)
        if whole.effects or ready(whole) is not whole:  # rules run each time
            return apply_graph(whole, values)
        alike = _like_another(whole)
        if alike is None:
            alike = program_of(Graph(whole.inputs, whole.outputs)), ()
        program, numbers = alike
        found = _keep(key, 4 * LIGHT, program=program, numbers=numbers)
        return _applied(found, graph, values)


def _applied(found: _Derived, graph: Graph, values: Sequence[Value]) -> list[Any]:
    assert found.program is not None
    results = found.program(*values, *graph.captured, *found.numbers)
    return apart(results, graph.captured) if graph.captured else results


# Numbers.

#: Depth of the variables that stand for numbers.
NUMBER_DEPTH = -51
#: Numbers of a graph that may vary, at the most: each is an input of a program.
MOST = 32


def numbers_of(
    outputs: Sequence[Node], order: Sequence[Node] | None = None
) -> list[Node]:
    """The constants that may vary, in the order of reading.

    Args:
      order: `toposort(outputs)`, where it is known.
    """
    holds: dict[Node, Node] = {}  # a number: itself, cast or moved
    refused: set[Node] = set()
    for node in toposort(outputs) if order is None else order:
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
    """All graphs of one pattern, which has variables in the place of numbers.

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


_families: Table[Any, _Family] = Table(256)
#: The outputs of the first graph with certain inputs and operations, of which no
#: pattern has been made: most graphs come alone. Empty where there is one.
_alone: Table[Any, tuple[Node, ...]] = Table(256)


def _like_another(graph: Graph) -> tuple[Program, tuple[Array, ...]] | None:
    """What runs a graph that differs from earlier ones by numbers, and these numbers.

    None for a first one.
    """
    order = toposort(graph.outputs)
    numbers = numbers_of(graph.outputs, order)
    if not numbers:
        return None
    rough = graph.inputs, frozenset(operations_of(graph.outputs).items())
    first = _alone.get(rough)
    if first is None:
        _alone.put(rough, graph.outputs, GRAPH_BYTES * len(order))
        return None
    if first:
        _family(graph.inputs, first, numbers_of(first))
        _alone.put(rough, ())
    family, standing = _family(graph.inputs, graph.outputs, numbers)
    varying, (known, program) = family.varying(numbers), family.latest
    if not varying:
        return None  # the first of its pattern
    if varying != known or program is None:
        free = {numbers[i]: standing[numbers[i]] for i in varying}
        inputs = (*graph.inputs, *[_place(i, numbers[i]) for i in varying])
        made = substitute(graph.outputs, free)
        # A number itself is no result: whoever gets it may give its memory away.
        made = [elementwise.copy(y) if y in free.values() else y for y in made]
        program = program_of(Graph(inputs, tuple(made)))
        family.latest = varying, program
    return program, tuple([_array(numbers[i]) for i in varying])


def _family(
    inputs: Sequence[Node], outputs: Sequence[Node], numbers: Sequence[Node]
) -> tuple[_Family, dict[Node, Node]]:
    """The family of a graph, a new one if need be, and what stands for each number."""
    standing: dict[Node, Node] = {}
    for i, x in enumerate(numbers):
        place = _place(i, x)
        standing[x] = broadcast_leading(place, x.shape) if x.shape else place
    pattern = inputs, tuple(substitute(outputs, standing))
    family = _families.get(pattern)
    if family is None:
        weight = GRAPH_BYTES * len(nodes_of(pattern[1]))
        family = _families.put(pattern, _Family([x.arg for x in numbers]), weight)
    return family, standing


def _place(i: int, number: Node) -> Node:
    """The variable that stands for a number."""
    return variable(number.aval.with_shape(()), NUMBER_DEPTH, i)


def _array(number: Node) -> Array:
    value: Any = np.frombuffer(number.arg, number.dtype)
    return Array.of(value.reshape(()), number.aval.weak_type)
