"""Calls on large arrays outside of jit are compiled, as those inside are.

    fnp.tanh(x)    64 numbers      NumPy, step by step: a compiler would take longer
                   1,000,000       one kernel for all steps, on all threads

What such a call does follows from the types of its arrays, so that it is traced once:
each function for each of them. If all arrays have one shape and nothing mixes their
elements, the kernel is for arrays of any size; one that comes often gets its own.

Last bits must not change from one call to the next. What is rounded is therefore
compiled at the first call or never, which the size decides. What leaves no choice, as
comparisons and single sums, is done by NumPy until that has taken a while.
"""

# This is the path of every call: the properties of an Array would cost as much again.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes, settings
from ftrace.array import Array
from ftrace.devices.base import get_device
from ftrace.errors import FtraceError
from ftrace.settings import Config
from ftrace.trace import tree
from ftrace.trace.avals import ShapedArray
from ftrace.trace.evaluate import numpy_time
from ftrace.trace.exact import exact_part
from ftrace.trace.graph import Graph, Node
from ftrace.trace.operations import hooks
from ftrace.trace.primitives.broadcast import expand_p
from ftrace.trace.primitives.elementwise import cast_p, imag, real
from ftrace.trace.primitives.movement import pad_p, reshape_p
from ftrace.trace.recall import at_once, describe
from ftrace.trace.tape import recording
from ftrace.trace.tracer import Tracer, aval_of
from ftrace.trace.tracing import trace
from ftrace.transforms.jit import jit
from ftrace.transforms.memo import Memo

#: µs of NumPy from which on a call that rounds is compiled: by a kernel for all sizes,
#: or by one for this shape, which the next shape does not need.
PAYS, PAYS_FOR_SHAPE = 32, 1000
#: µs from which on a call that does not round is compiled, after so many in all.
PAYS_LATER, SPENT, SPENT_FOR_SHAPE = 8, 128, 2000
#: Elements of an array from which on nothing is compiled here.
MOST = 1 << 31
#: Calls with arrays of one shape before they have a kernel of their own.
CALLS_OF_SHAPE = 64
#: How many times as long some take NumPy: the first are done number by number.
_SLOW: dict[str, int] = {
    "digamma": 600, "lgamma": 500, "erf": 400, "erfc": 400, "erf_inv": 200, "rem": 30,
    "select": 30, "shl": 15, "shr": 15, "sar": 15, "sign": 10, "nextafter": 10,
    "max": 4, "min": 4, "cumulate": 25, "pow": 40,
}  # fmt: skip
_FLOAT_TO_INTEGER = 70
#: Multiplications of a product of matrices that take as long as one element.
_OF_PRODUCT = 16

Program = Callable[..., Any]

_ELEMENTWISE = ("unary", "binary", "compare", "select", "cast", "source")
#: NumPy gives a view for these, in no time, and for the parts of complex numbers.
_VIEWS = ("movement", "source", "identity")
_PARTS = (real, imag)
_KINDS = frozenset((Array, np.ndarray))


class _Traced:
    """What a function computes of operands of certain types.

    Attributes:
      graph: the graph.
      treedef: how its outputs make the result.
    """

    def __init__(self, call: Callable[..., Any], avals: Sequence[ShapedArray]) -> None:
        treedefs: list[Any] = []

        def outputs(*tracers: Tracer) -> list[Any]:
            leaves, treedef = tree.flatten(call(*tracers))
            treedefs.append(treedef)
            return leaves

        self.graph = trace("eager", outputs, avals)
        self.treedef = treedefs[0]

    def price(self) -> int:
        """How long NumPy takes, in µs; 0 where it shall do it in any case."""
        graph = self.graph
        given = {*graph.inputs, *(n for n in graph.outputs if not n.src)}
        if graph.effects or not given.isdisjoint(graph.outputs):
            return 0
        if not any(_is_work(node) for node in graph.nodes):
            return 0
        largest = max(n.size for n in (*graph.inputs, *graph.outputs))
        if largest >= MOST:
            return 0
        return sum(_price(n, largest) for n in graph.nodes if _is_work(n))


def _is_work(node: Node) -> bool:
    if node.op.family in _VIEWS:
        return node.op is pad_p
    return node.op not in _PARTS


def _price(node: Node, largest: int) -> int:
    size = max(node.size, *[x.size for x in node.src])
    if size > 2 * largest:  # of a product of matrices, which is not stored
        size //= _OF_PRODUCT
    times = _SLOW.get(node.op.name, 2)
    if node.op is cast_p and dtypes.is_inexact(node.src[0].dtype):
        times = _FLOAT_TO_INTEGER if dtypes.is_integer(node.dtype) else times
    return numpy_time(size * times)


def _shape_of_all(graph: Graph) -> tuple[int, ...] | None:
    """The shape of all arrays of a graph that is done element by element."""
    shapes = {node.shape for node in (*graph.inputs, *graph.outputs) if node.ndim}
    if len(shapes) != 1 or any(not node.ndim for node in graph.outputs):
        return None
    (shape,) = shapes
    for node in graph.nodes:
        if node.size == 1 and node.op in (expand_p, reshape_p):
            continue
        if node.op is expand_p and node.src[0].size == 1 and node.shape == shape:
            continue
        if node.op.family not in _ELEMENTWISE or node.shape not in (shape, ()):
            return None
    return shape


class _Call:
    """A function for operands of certain types.

    Args:
      call: the function, of the arrays and numbers alone.
      avals: their types.
      any_size: gives its program for arrays of any size; None where the next call may
        well need another one.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        avals: Sequence[ShapedArray],
        any_size: Callable[[], Program] | None,
    ) -> None:
        self._price = self._least = 0
        self._wait = self._spent = self._count = 0
        self._config: Config | None = None
        self._program: Program | None = None
        try:
            self._traced = _Traced(call, avals)
        except FtraceError:  # by the values it decides, or it has a message for them
            return
        self._price = self._traced.price()
        self._is_exact = exact_part(self._traced.graph)[1]
        if _shape_of_all(self._traced.graph) is None:
            any_size = None
        self._any_size = any_size
        if self._is_exact:
            self._least = PAYS_LATER
            self._wait = SPENT if any_size is not None else SPENT_FOR_SHAPE
        else:
            self._least = PAYS if any_size is not None else PAYS_FOR_SHAPE
            self._wait = 0

    def __call__(self, values: Sequence[Any]) -> Any:
        """The result; None where NumPy shall compute it."""
        if not self._price or self._price < self._least:
            return None
        if recording.tape is not None:
            recording.tape.refuse()
        if self._spent < self._wait:
            self._spent += self._price
            return None
        self._count += 1
        if self._any_size is not None and self._count <= CALLS_OF_SHAPE:
            return self._any_size()(values)
        config = settings.current()
        if config is not self._config and config != self._config:
            assert hooks.prepare is not None
            self._program = hooks.prepare(self._traced.graph, config)
        self._config = config
        if self._program is None:
            return None
        results = self._program(*values, *self._traced.graph.captured)
        return tree.unflatten(self._traced.treedef, results)


class _Filled:
    """A function with all of its arguments but arrays and numbers.

    Args:
      function: the function.
      args, kwargs: its arguments; `_PLACE` where one comes later.
    """

    def __init__(
        self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> None:
        self._function = function
        self._args = args
        self._kwargs = kwargs

    def __call__(self, *values: Any) -> Any:
        rest = iter(values)
        args = [next(rest) if x is _PLACE else x for x in self._args]
        kwargs = {
            name: next(rest) if x is _PLACE else x for name, x in self._kwargs.items()
        }
        return self._function(*args, **kwargs)


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


_calls: Memo[_Call] = Memo(512)
_programs: Memo[Program] = Memo(256)


def _any_size(call: _Filled) -> Program:
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


def _run(
    function: Callable[..., Any], numbers: bool, args: Sequence[Any], kwargs: Any
) -> Any:
    """A call with concrete operands; None where it is for NumPy."""
    config = settings.current()
    if hooks.prepare is None or config.disable_jit or not get_device().keeps_programs:
        return None
    taken = _Arguments(numbers)
    try:
        rest = [taken.take(x) for x in args]
        named = {name: taken.take(x) for name, x in kwargs.items()}
    except (LookupError, FtraceError):
        return None
    who: list[Hashable] = [function, config.enable_x64, len(args), *kwargs]
    identity = (*who, *taken.key)
    call = _calls.get(identity)
    if call is None:
        filled = _Filled(function, rest, named)
        sizeless = (*who, *taken.sizeless)

        def program() -> Program:
            return _programs.get(sizeless) or _programs.put(sizeless, _any_size(filled))

        avals = [aval_of(x) for x in taken.values]
        any_size = None if taken.decides else program
        call = _calls.put(identity, _Call(filled, avals, any_size))
    return call(taken.values)


def compile_large_calls() -> None:
    """From now on calls on large arrays outside of jit are compiled."""
    at_once.run = _run
