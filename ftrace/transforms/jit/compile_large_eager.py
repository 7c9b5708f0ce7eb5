"""Calls on large arrays outside of jit are compiled, as those inside are.

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
from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array, recording
from ftrace.trace.backend import Backend
from ftrace.trace.bind import bind_compound
from ftrace.trace.eager.dispatch import calls, describe, signature
from ftrace.trace.eager.exact_subgraph import exact_part
from ftrace.trace.graph import Graph
from ftrace.trace.primitives.broadcast import expand_p
from ftrace.trace.primitives.movement import reshape_p
from ftrace.trace.primitives.primitive import Compound
from ftrace.trace.primitives.sources import iota_p
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic.dim import same_size
from ftrace.trace.tiering import Tally
from ftrace.trace.tracing.tracer import aval_of
from ftrace.transforms.jit.compiled_graph import has_compiled, make_native, run_graph
from ftrace.transforms.jit.eager_programs import program_of
from ftrace.transforms.jit.jit import Jitted, jit

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
