"""Programs for calls outside of jit: of un-jitted transforms, and on large arrays.

Graphs derived by un-jitted transforms are ready to run when they are derived again:

    (what is derived, the traced graph) -> the jitted function of the result

An un-jitted transform traces its function at every call, and gets the same nodes. One
look tells which program they became; its calls are those of jit. Graphs that differ by
numbers alone share a program:

    f(x, 0.5): sum(x * 0.5) + 1,   f(x, 0.25): sum(x * 0.25) + 1
    ->  a *family*: sum(x * a) + b,   of which a has varied, and b has not

A number of Python's is part of the graph of an un-jitted transform: what it is may
decide anything. The first graph of a family is compiled as it is. For the next one
the numbers that differ become inputs of a program, which serves those after it.

Only numbers that are results, operands of arithmetic, or moved to either become inputs:
for these, code that reads a number makes the bits that code for that number makes.

Calls on large arrays are compiled, as those inside of jit are:

    fnp.tanh(x)    64 numbers      NumPy, step by step: a compiler would take longer
                   1,000,000       one kernel for all steps, on all threads

What such a call does follows from the types of its arrays, so that it is traced once:
each function for each of them. If all arrays have one shape and nothing mixes their
elements, the kernel is for arrays of any size; one that comes often gets its own.

Operations with several results that take longer in NumPy have rows of their own: see
`trace.tiering`.

Last bits must not change from one call to the next. What is rounded is therefore
compiled at the first call or never, which the size decides. What leaves no choice, as
comparisons and single sums, is done by NumPy until that has taken a while.
"""

# This is the path of every call: the properties of an Array would cost as much again.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.base import get_device
from ftrace.errors import FtraceError
from ftrace.ground import settings
from ftrace.ground.tables import LIGHT
from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array, recording
from ftrace.trace.backend import Backend, Program
from ftrace.trace.bind import bind_compound
from ftrace.trace.eager.dispatch import calls, describe, signature
from ftrace.trace.eager.exact_subgraph import exact_part
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
from ftrace.trace.primitives.broadcast import broadcast_leading, expand_p
from ftrace.trace.primitives.indexing import scatter_p
from ftrace.trace.primitives.movement import reshape_p
from ftrace.trace.primitives.primitive import Compound, Primitive
from ftrace.trace.primitives.reference import convert
from ftrace.trace.primitives.sources import const_p, iota_p, variable
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic.dim import same_size
from ftrace.trace.tiering import Tally
from ftrace.trace.tracing.scopes import current_scope
from ftrace.trace.tracing.tracer import Value, aval_of
from ftrace.transforms.jit import compiled_graph
from ftrace.transforms.jit.compiled_graph import has_compiled, make_native, run_graph
from ftrace.transforms.jit.jit import Jitted, jit
from ftrace.transforms.jit.stages import OneTrace

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


#: What does a call with such values; None where NumPy shall.
Call = Callable[[Sequence[Any]], Any]

_ELEMENTWISE = ("unary", "binary", "compare", "select", "cast", "source")
_KINDS = frozenset((Array, np.ndarray))


def _shape_of_all(graph: Graph) -> tuple[int, ...] | None:
    """The shape of all arrays of a graph that is done element by element."""
    shapes = {node.shape for node in (*graph.inputs, *graph.outputs) if node.ndim}
    if len(shapes) != 1 or any(not node.ndim for node in graph.outputs):
        return None
    (shape,) = shapes
    for node in graph.nodes:
        spreads = node.op is expand_p and same_size(node.src[0].size, 1)
        if same_size(node.size, 1) and node.op in (expand_p, reshape_p):
            continue
        if not spreads and (node.op is iota_p or node.op.family not in _ELEMENTWISE):
            return None
        if not same_size(node.shape, shape) and (spreads or node.shape):
            return None
    return shape


class _Call:
    """What is computed of operands of certain types: by NumPy first, then compiled.

    Args:
      run: does it, compiled.
      price: what NumPy needs for a call.
      wait: so much is spent before it is compiled.
      any_size: gives its program for arrays of any size; None where the next call may
        well need another one.
    """

    def __init__(
        self,
        run: Jitted,
        price: int,
        wait: int,
        any_size: Callable[[], Call] | None = None,
    ) -> None:
        self._run = run
        self._price = price
        self._wait = wait
        self._by_numpy = Tally()
        self._any_size = any_size
        self._of_shape = Tally()

    def __call__(self, values: Sequence[Any]) -> Any:
        """The result; None where NumPy shall compute it."""
        if recording.tape is not None:
            recording.tape.refuse()
        if not self._by_numpy.reaches(self._wait, self._price):
            return None
        any_size = self._any_size
        if any_size is not None and not self._of_shape.reaches(tiering.CALLS_OF_SHAPE):
            return any_size()(values)
        return self._run(*values)


def _leave_to_numpy(values: Sequence[Any]) -> None:
    """A call that is never compiled."""


def _call_of_function(
    call: Callable[..., Any], values: Sequence[Any], any_size: Callable[[], Call] | None
) -> Call:
    """A function, of the arrays and numbers alone, for operands like these."""
    run = Jitted(call)
    try:
        graph = run.trace(*values).graph
    except FtraceError:  # by the values it decides, or it has a message for them
        return _leave_to_numpy
    price, exact = tiering.numpy_price(graph), exact_part(graph)[1]
    has_one = any_size is not None and _shape_of_all(graph) is not None
    wait, takes_it = tiering.wait_for_function(price, exact, has_one)
    if wait < 0:
        return _leave_to_numpy
    return _Call(run, price, wait, any_size if takes_it else None)


#: In the place of an argument that comes later.
_PLACE = object()


class _Arguments:
    """The arguments of a call: what is computed with, and what decides how.

    Args:
      numbers: are numbers among them operands, as arrays are?

    Attributes:
      values: arrays, and numbers that are operands.
      key: identifies all the rest, and the types of the values.
      sizeless: the same without the sizes of the arrays.
      decides: is there a float that may decide what is computed?
    """

    def __init__(self, numbers: bool) -> None:
        self.values: list[Any] = []
        self.key: list[Any] = []
        self.sizeless: list[Any] = []
        self.decides = False
        self._numbers = numbers

    def take(self, x: Any) -> Any:
        """`_PLACE` where it is a value, else what it is.

        Raises:
          LookupError: it is nothing by which a call is known.
        """
        kind = x.__class__
        if kind in _KINDS:
            if kind is Array and not (x._buffer is None or x._buffer.device.host):
                raise LookupError
            aval = aval_of(x)
            self.key.append(aval)
            self.sizeless.append((aval.ndim > 0, aval.dtype, aval.weak_type))
        elif self._numbers and (kind is float or (kind is int and self._is_free(x))):
            self.key.append(kind)
            self.sizeless.append(kind)
        else:
            start = len(self.key)
            self.decides |= kind is float
            # The argument is kept: it must be one that does not change.
            if kind is list or not describe(self.key, x, None, False):
                raise LookupError
            self.sizeless += self.key[start:]
            return x
        self.values.append(x)
        return _PLACE

    def _is_free(self, x: int) -> bool:
        """Does an integer decide nothing? Beside narrow arrays it has to fit."""
        types = [v.dtype for v in self.values if v.__class__ in _KINDS]
        return -(2**31) <= x < 2**31 and all(
            dtypes.is_inexact(t) or t in (dtypes.int32, dtypes.int64) for t in types
        )


#: Bytes of a call that is compiled, which few are.
_COMPILED = 16_000


def _any_size(call: Callable[..., Any]) -> Call:
    """The program of a function of elements, for arrays of one shape, any one."""

    def flat(arrays: list[Any], numbers: list[Any], order: Sequence[Any]) -> Any:
        return call(*[(arrays if array else numbers)[i] for array, i in order])

    compiled = jit(flat, static_argnums=2, dynamic={"arrays": {0: "n"}})

    def run(values: Sequence[Any]) -> Any:
        arrays: list[Any] = []
        numbers: list[Any] = []
        order: list[tuple[bool, int]] = []
        shape: tuple[int, ...] = ()
        for x in values:
            if x.__class__ in _KINDS and x.ndim:
                order.append((True, len(arrays)))
                shape = x.shape
                arrays.append(x if x.ndim == 1 else x.reshape(-1))
            else:
                order.append((False, len(numbers)))
                numbers.append(x)
        result = compiled(arrays, numbers, tuple(order))
        if len(shape) == 1:
            return result
        return tree.map(lambda x: x.reshape(shape), result)

    return run


def compiles() -> bool:
    """Are eager calls compiled?"""
    return not settings.current().disable_jit and get_device().keeps_programs


def run_call(
    function: Callable[..., Any], numbers: bool, args: Sequence[Any], kwargs: Any
) -> Any:
    """A call with concrete operands; None where it is for NumPy."""
    if not compiles():
        return None
    taken = _Arguments(numbers)
    try:
        rest = [taken.take(x) for x in args]
        named = {name: taken.take(x) for name, x in kwargs.items()}
    except (LookupError, FtraceError):
        return None
    who: list[Hashable] = [function, len(args), *kwargs]
    identity = signature(*who, *taken.key)
    call = calls.get(identity)
    if call is None:
        sizeless = signature(*who, *taken.sizeless)

        def filled(*values: Any) -> Any:
            later = iter(values)
            given = [
                next(later) if x is _PLACE else x for x in (*rest, *named.values())
            ]
            positional, by_name = given[: len(rest)], given[len(rest) :]
            return function(*positional, **dict(zip(named, by_name, strict=True)))

        def program() -> Call:
            found: Call | None = calls.get(sizeless)
            return found or calls.put(sizeless, _any_size(filled), _COMPILED)

        any_size = None if taken.decides else program
        made = _call_of_function(filled, taken.values, any_size)
        call = calls.put(identity, made, _COMPILED)
    return call(taken.values)


def run_operation(op: Compound, arg: Any, arrays: Sequence[Array]) -> Any:
    """An operation on concrete arrays; None where it is for NumPy."""
    least = op.compiled_from
    if least is None:
        return None
    shape = arrays[0].shape
    if prod(shape[: len(shape) - least.core]) < least.elements or not compiles():
        return None
    identity = signature(op, arg, *[aval_of(x) for x in arrays])
    call = calls.get(identity)
    if call is None:
        run = Jitted(partial(bind_compound, op, arg=arg))
        call = calls.put(identity, _Call(run, 1, least.calls), _COMPILED)
    return call(arrays)


#: What those below run graphs by.
BACKEND = Backend(
    run_graph, compiles, program_of, has_compiled, run_call, run_operation, make_native
)
