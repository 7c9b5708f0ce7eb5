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
from ftrace.ground.tables import Table
from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array, recording
from ftrace.trace.backend import backend
from ftrace.trace.bind import bind_compound
from ftrace.trace.eager.dispatch import describe
from ftrace.trace.eager.exact_subgraph import exact_part
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives.broadcast import expand_p
from ftrace.trace.primitives.elementwise import cast_p, imag, real
from ftrace.trace.primitives.movement import pad_p, reshape_p
from ftrace.trace.primitives.primitive import Compound, Primitive
from ftrace.trace.primitives.sources import iota_p
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic.dim import same_size
from ftrace.trace.tracing.tracer import aval_of
from ftrace.transforms.jit.compiled_graph import has_compiled, make_native, run_graph
from ftrace.transforms.jit.eager_programs import program_of
from ftrace.transforms.jit.jit import Jitted, jit

#: How many times as long as an addition that takes NumPy, twice: see `Primitive.slow`.
_FLOAT_TO_INTEGER = 70
#: Multiplications of a product of matrices that take as long as one element.
_OF_PRODUCT = 16

AnySize = Callable[[Sequence[Any]], Any]

_ELEMENTWISE = ("unary", "binary", "compare", "select", "cast", "source")
#: NumPy gives a view for these, in no time, and for the parts of complex numbers.
_VIEWS = ("movement", "source", "identity")
_PARTS = (real, imag)
_KINDS = frozenset((Array, np.ndarray))


def _price_of(graph: Graph) -> int:
    """How long NumPy takes, in µs; 0 where it shall do it in any case."""
    given = {*graph.inputs, *(n for n in graph.outputs if not n.src)}
    if graph.effects or not given.isdisjoint(graph.outputs):
        return 0
    largest = max([n.size for n in (*graph.inputs, *graph.outputs)])
    if largest >= tiering.MOST:
        return 0
    return sum([_price(node, largest) for node in graph.nodes])


def _price(node: Node, largest: int) -> int:
    if node.op in _PARTS or (node.op.family in _VIEWS and node.op is not pad_p):
        return 0
    size = max(node.size, *[x.size for x in node.src])
    if size > 2 * largest:  # of a product of matrices, which is not stored
        size //= _OF_PRODUCT
    times = node.op.slow if isinstance(node.op, (Primitive, Compound)) else 2
    if node.op is cast_p and dtypes.is_inexact(node.src[0].dtype):
        times = _FLOAT_TO_INTEGER if dtypes.is_integer(node.dtype) else times
    return tiering.numpy_time(size * times)


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
        any_size: Callable[[], AnySize] | None = None,
    ) -> None:
        self._run = run
        self._price = price
        self._wait = wait
        self._any_size = any_size
        self._spent = self._count = 0

    def __call__(self, values: Sequence[Any]) -> Any:
        """The result; None where NumPy shall compute it."""
        if recording.tape is not None:
            recording.tape.refuse()
        if self._spent < self._wait:
            self._spent += self._price
            return None
        if self._any_size is not None and self._count < tiering.CALLS_OF_SHAPE:
            self._count += 1
            return self._any_size()(values)
        return self._run(*values)


def _leave_to_numpy(values: Sequence[Any]) -> None:
    """A call that is never compiled."""


def _call_of_function(
    call: Callable[..., Any],
    values: Sequence[Any],
    any_size: Callable[[], AnySize] | None,
) -> Callable[[Sequence[Any]], Any]:
    """A function, of the arrays and numbers alone, for operands like these."""
    run = Jitted(call)
    try:
        graph = run.trace(*values).graph
    except FtraceError:  # by the values it decides, or it has a message for them
        return _leave_to_numpy
    price = _price_of(graph)
    if _shape_of_all(graph) is None:
        any_size = None
    tier = tiering.ONE_SHAPE if any_size is None else tiering.ANY_SIZE
    least, wait = tier.rounds, 0
    if exact_part(graph)[1]:
        least, wait = tier.exact, tier.spent
        if any_size is not None and price < tiering.PAYS_ANY_SIZE:
            any_size, wait = None, price * tiering.CALLS_OF_SHAPE
    if not price or price < least:
        return _leave_to_numpy
    return _Call(run, price, wait, any_size)


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
#: By all that identifies them; kernels for all sizes by the same without sizes.
_calls: Table[Any, Callable[[Sequence[Any]], Any]] = Table(768)


def _any_size(call: Callable[..., Any]) -> AnySize:
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
    x64 = settings.current().enable_x64
    who: list[Hashable] = [function, x64, len(args), *kwargs]
    identity = (*who, *taken.key)
    call = _calls.get(identity)
    if call is None:
        sizeless = (*who, *taken.sizeless)

        def filled(*values: Any) -> Any:
            later = iter(values)
            given = [
                next(later) if x is _PLACE else x for x in (*rest, *named.values())
            ]
            positional, by_name = given[: len(rest)], given[len(rest) :]
            return function(*positional, **dict(zip(named, by_name, strict=True)))

        def program() -> AnySize:
            found = _calls.get(sizeless)
            return found or _calls.put(sizeless, _any_size(filled), _COMPILED)

        any_size = None if taken.decides else program
        made = _call_of_function(filled, taken.values, any_size)
        call = _calls.put(identity, made, _COMPILED)
    return call(taken.values)


def run_operation(op: Compound, arg: Any, arrays: Sequence[Array]) -> Any:
    """An operation on concrete arrays; None where it is for NumPy."""
    least = op.compiled_from
    if least is None:
        return None
    shape = arrays[0].shape
    if prod(shape[: len(shape) - least.core]) < least.elements or not compiles():
        return None
    identity = (op, arg, *[aval_of(x) for x in arrays])
    call = _calls.get(identity)
    if call is None:
        run = Jitted(partial(bind_compound, op, arg=arg))
        call = _calls.put(identity, _Call(run, 1, least.calls), _COMPILED)
    return call(arrays)


def register() -> None:
    """From now on graphs run for those below; `ftrace` does it when it is imported."""
    backend.run_graph = run_graph
    backend.compiles = compiles
    backend.program_of = program_of
    backend.has_compiled = has_compiled
    backend.run_call = run_call
    backend.run_operation = run_operation
    backend.make_native = make_native
