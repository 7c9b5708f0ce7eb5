"""Programs for calls outside of jit: of un-jitted transforms, and on large arrays.

Graphs derived by un-jitted transforms are ready to run when they are derived again:

    (what is derived, the traced graph) -> the jitted function of the result

An un-jitted transform traces its function at every call, and gets the same nodes. One
look tells which program they became; its calls are those of jit. Graphs that differ by
numbers alone share a program:

    f(x, 0.5): sum(x * 0.5) + 1,   f(x, 0.25): sum(x * 0.25) + 1
    ->  a *family*: sum(x * a) + b

A number of Python's is part of the graph of an un-jitted transform: what it is may
decide anything. The first graph of a family is compiled as it is. For the next one
the numbers become inputs of a program, which serves those after it.

Only numbers that are results, operands of arithmetic, or moved to either become inputs:
for these, code that reads a number makes the bits that code for that number makes.

Calls on large arrays are compiled, as those inside of jit are:

    fnp.tanh(x)    64 numbers      NumPy, step by step: a compiler would take longer
                   1,000,000       one kernel for all steps, on all threads

What such a call does follows from the types of its arrays, so that it is traced once:
each function for each of them.

Operations with several results that take longer in NumPy say from when on in their
records: `compiled_from`.

Last bits must not change from one call to the next. What is rounded is therefore
compiled at the first call or never, which the size decides. What leaves no choice, as
comparisons and `x + y`, is done by NumPy until that has taken a while.
"""

# This is the path of every call: the properties of an Array would cost as much again.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ftrace.backends.base import get_device
from ftrace.errors import FtraceError, block_names
from ftrace.ground import settings
from ftrace.ground.tables import LIGHT
from ftrace.trace import graph as g, tiering
from ftrace.trace.arrays.array import Array, recording
from ftrace.trace.backend import Program
from ftrace.trace.bind import bind_compound
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.eager.composite import exact_subgraph
from ftrace.trace.eager.dispatch import Kind, calls, kind_of, signature
from ftrace.trace.flatten_arguments import Output
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.indexing import scatter_p
from ftrace.trace.primitives.primitive import Compound, Primitive
from ftrace.trace.primitives.sources import const_p, variables
from ftrace.trace.pytree import tree
from ftrace.trace.tiering import Pays
from ftrace.trace.tracing.scopes import current_scope
from ftrace.trace.tracing.tracer import Value, aval_of
from ftrace.transforms.jit import compiled_graph
from ftrace.transforms.jit.jit import Jitted
from ftrace.transforms.jit.stages import OneTrace

#: What runs a graph, and the numbers that it is given behind all else.
_Applies = tuple[Program, tuple[Array, ...]]


def program_of(graph: g.Graph) -> Program:
    """A graph without effects, compiled when it is first called with values."""

    def apply(*values: Value) -> list[Any]:
        return compiled_graph.apply_graph(graph, values)

    program, output = Jitted(apply), Output(apply, "jit", False)
    output.accept([0] * len(graph.outputs))
    program.known = OneTrace(graph, output, True)
    return program


def derive_once(
    kind: Hashable, graph: g.Graph, derive: Callable[[], g.Graph]
) -> g.Graph:
    """`derive()`, or what it returned for this graph before, of the same lines.

    Args:
      kind: says what is derived; with the graph it decides the result.
      graph: what it is derived from; the result has its captured arrays.
      derive: called where the result is not known.
    """
    key = signature("graph", kind, graph.inputs, graph.outputs)
    ends: Any = None if graph.effects else calls.get(key)
    lines = g.lines_in(graph.outputs) if block_names.trace else None
    if ends is not None and ends[2] == lines:
        inputs, outputs, _ = ends
        return g.Graph(inputs, outputs, graph.captured)
    plain = has_own_derivative(graph)
    whole = derive()
    if plain:
        ends = whole.inputs, whole.outputs, lines
        calls.put(key, ends, compiled_graph.weight_of(whole))
    return whole


def has_own_derivative(graph: g.Graph) -> bool:
    """Is its derivative ours alone? No effects or bodies, no operation of a user."""
    ops = g.operations_of(graph.outputs)
    return not graph.effects and all(isinstance(op, Primitive) for op in ops)


def apply_again(graph: g.Graph, values: Sequence[Value]) -> list[Any]:
    """The outputs of a graph that may well be applied to other values later."""
    return apply_derived("itself", graph, lambda: graph, values)


def apply_derived(
    kind: Hashable,
    graph: g.Graph,
    derive: Callable[[], g.Graph],
    values: Sequence[Value],
) -> list[Any]:
    """The outputs of `derive_once(kind, graph, derive)` for these arguments."""
    if graph.effects or current_scope() is not None:
        return compiled_graph.apply_graph(derive_once(kind, graph, derive), values)
    key = signature("program", kind, graph.inputs, graph.outputs)
    found = calls.get(key)
    if found is not None:
        return _apply(found, graph, values)
    whole = derive_once(kind, graph, derive)
    # Rules run each time.
    if whole.effects or ready_graph(whole) is not whole:
        return compiled_graph.apply_graph(whole, values)
    plain = g.Graph(whole.inputs, whole.outputs)
    found = _like_another(whole) or (program_of(plain), ())
    return _apply(calls.put(key, found, 4 * LIGHT), graph, values)


def _apply(found: _Applies, graph: g.Graph, values: Sequence[Value]) -> list[Any]:
    program, numbers = found
    results = program(*values, *graph.captured, *numbers)
    return compiled_graph.unalias(results, graph.captured)


# Numbers.

#: Numbers of a graph that become inputs of a program, at the most: each is one more
#: argument of every call. A graph with more is compiled as it is.
MOST_NUMBERS = 32


def numbers_of(outputs: Sequence[g.Node]) -> list[g.Node]:
    """The constants that may vary, in the order of reading."""
    holds: dict[g.Node, g.Node] = {}  # a number: itself, cast or moved
    refused: set[g.Node] = set()
    for node in g.toposort(outputs):
        if node.op is const_p:
            holds[node] = node
            continue
        held = [source for source in node.src if source in holds]
        if held and (node.op is p.cast_p or node.op.family == "movement"):
            holds[node] = holds[held[0]]
            continue
        if node.op is scatter_p:  # what it is scattered into, and where, may be known
            held = [s for s in held if s in (node.src[0], *node.src[2:])]
        elif isinstance(node.op, Primitive) and node.op.takes_numbers:
            held = []
        refused.update([holds[source] for source in held])
    kept = [x for x, number in holds.items() if x is number and x.dtype != np.bool_]
    kept = [x for x in kept if x not in refused]
    return kept if len(kept) <= MOST_NUMBERS else []


def _like_another(graph: g.Graph) -> _Applies | None:
    """What runs a graph that differs from earlier ones by numbers, and these numbers.

    None for a first one: a second one says that numbers vary, however long it took.
    """
    numbers = numbers_of(graph.outputs)
    if not numbers:
        return None
    pattern = _pattern(graph, set(numbers))
    key = signature("numbers", graph.inputs, *pattern)
    nbytes = compiled_graph.GRAPH_BYTES * len(pattern)
    family: Any = calls.get(key)
    if family is None:
        calls.put(key, [], nbytes)
        return None
    if not family:
        types = [number.aval.with_shape(()) for number in numbers]
        places = variables(types, "number")
        free = {
            number: broadcast_leading(place, number.shape)
            for number, place in zip(numbers, places, strict=True)
        }
        made = g.substitute(graph.outputs, free)
        # A number itself is no result: whoever gets it may give its memory away.
        made = [p.copy(y) if y in free.values() else y for y in made]
        family.append(program_of(g.Graph((*graph.inputs, *places), tuple(made))))
    return family[0], tuple(map(_array, numbers))


def _pattern(graph: g.Graph, numbers: set[g.Node]) -> list[Any]:
    """What is common to all graphs that differ from this one by these numbers alone.

    That is a row for each node, which names others by their places, and the outputs.
    """
    order = g.toposort(graph.outputs)
    places = {node: place for place, node in enumerate(order)}
    place_of = places.__getitem__
    rows: list[Any] = [*order]
    for place, node in enumerate(order):
        if node in numbers:
            rows[place] = node.aval
        elif node.src:
            rows[place] = node.op, node.aval, node.arg, *map(place_of, node.src)
    return [*rows, *map(place_of, graph.outputs)]


def _array(number: g.Node) -> Array:
    value: Any = np.frombuffer(number.arg, number.dtype)
    return Array.of(value.reshape(()), number.aval.weak_type)


#: What does a call with such values; None where NumPy shall.
Call = Callable[[Sequence[Any]], Any]

_KINDS = frozenset((Array, np.ndarray))
_OPERANDS = _KINDS | {float, int}


def _compile_later(run: Jitted, pays: Pays) -> Call:
    """What is computed of operands of certain types: by NumPy first, then compiled."""

    def call(values: Sequence[Any]) -> Any:
        if recording.tape is not None:
            recording.tape.refuse()
        return run(*values) if pays() else None

    return call


def _leave_to_numpy(values: Sequence[Any]) -> None:
    """A call that is never compiled."""


def _call_of_function(
    function: Callable[..., Any], kind: Kind, values: Sequence[Any]
) -> Call:
    """A function, of the arrays and numbers alone, for operands like these."""
    if tree.classes_of(kind.treedef):
        return _leave_to_numpy
    run = Jitted(kind.call_of(function))
    try:
        graph = run.trace(*values).graph
    except FtraceError:  # by the values it decides, or it has a message for them
        return _leave_to_numpy
    pays = tiering.function_pays(graph, exact_subgraph(graph)[1])
    return _leave_to_numpy if pays is None else _compile_later(run, pays)


#: Bytes of a call that is compiled, which few are.
_COMPILED = 16_000


def compiles() -> bool:
    """Are eager calls compiled?"""
    return not settings.current().disable_jit and get_device().keeps_programs


def run_call(
    function: Callable[..., Any], numbers: bool, args: Sequence[Any], kwargs: Any
) -> Any:
    """A call with concrete operands; None where it is for NumPy."""
    if not compiles():
        return None
    try:
        kind, values = kind_of(args, kwargs, _OPERANDS if numbers else _KINDS)
        types = [aval_of(x) if x.__class__ in _KINDS else x.__class__ for x in values]
    except (LookupError, FtraceError):
        return None
    identity = signature(function, *kind.key, *types)
    make = partial(_call_of_function, function, kind, values)
    return calls.once(identity, make, _COMPILED)(values)


def run_operation(op: Compound, arg: Any, arrays: Sequence[Array]) -> Any:
    """An operation on concrete arrays; None where it is for NumPy."""
    least = op.compiled_from
    if least is None:
        return None
    shape = arrays[0].shape
    if prod(shape[: len(shape) - op.core]) < least.elements or not compiles():
        return None
    identity = signature(op, arg, *[aval_of(x) for x in arrays])

    def make() -> Call:
        run = Jitted(partial(bind_compound, op, arg=arg))
        return _compile_later(run, tiering.pays_after(least.calls))

    return calls.once(identity, make, _COMPILED)(arrays)
