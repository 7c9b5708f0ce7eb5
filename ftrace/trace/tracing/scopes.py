"""Scopes: runs of a user's function whose operations are recorded.

A transform opens a `Scope`, makes a tracer per argument, calls the user's function
with them, and closes the scope. An operation belongs to the innermost scope of its
operands, so that tracers of outer transforms are simply free variables of the inner
ones. Variables are named by the depth of their scope and their position: tracing a
function twice gives the same nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import (
    Origin,
    TracingError,
    UnexpectedTracerError,
    block_names,
    user_origin,
)
from ftrace.ground import settings
from ftrace.trace import python_limits
from ftrace.trace.arrays.array import Array, is_array
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Node, constant_value, making_nodes_of, provenance
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.elementwise import cast, cast_p, stop_gradient
from ftrace.trace.primitives.reference import convert
from ftrace.trace.primitives.sources import const, const_p, scope_and_position, variable
from ftrace.trace.symbolic import Dim, is_dynamic, same_size
from ftrace.trace.tracing import weak_constants
from ftrace.trace.tracing.tracer import (
    NUMPY,
    Tracer,
    Value,
    aval_of,
    find_adopted,
    find_array,
    open_in_all_threads,
    stack,
    stands_for,
    wrap_integer,
)

Binding = Any  # Array | Tracer | None
_ONE_MORE = (None,)
#: Transforms that trace a function once, and not at each of its calls.
_ONCE = ("jit", "eager", "checkify")
#: Numbers of their traces, which the lines know that are met there.
_traces = itertools.count(1)
#: Transforms whose results are called after the trace has ended.
_OUTLIVING = ("jit", "vjp", "linearize")


class Scope:
    """One run of a user's function under a transform.

    Attributes:
      transform: what opened it, for messages: "jit", "grad", "vmap".
      depth: how many scopes are around it.
      inputs: its variables: the arguments, then one per captured array.
      bindings: for each input its value, or None where it has none.
      captured: the concrete arrays that the function used without being given them.
      known_bits: of weak scalars, what `all_bits` has found.
      copies: of what outlives its trace, by their ids, the arrays of NumPy's that it
        took a copy of, and the copies.
      isolated: what the function uses of scopes around it becomes an input as well:
        of the bodies of loops and branches, which run at times of their own.
      barrier: the innermost isolated scope among it and those around it.
      imported: of an isolated scope, the values of the inputs after the arguments.
      tokens: the token before the effects of the function, and the one after those so
        far; empty if it has had none.
      bound: its arguments have values: what happens in it may happen at once.
      closed: the function has returned.
      arguments: how many of the inputs are arguments.
      along: how many of these, the last ones, are tangents of the others.
      level: until the function has returned: what is known of rules of the user's that
        ran with values, see `transforms/custom/rules_on_values.py`.
      recalls: the function is traced at each of its calls: operations recorded before
        are looked up (`trace/eager/dispatch.py`).
      adopted: of a rule that runs after the function around it has returned: for
        traced values of that function, by (scope, node), the inputs that stand for
        them.
      given: of inputs that are weak scalars, what they stand for: a number, or a
        traced value around the scope.
      exact: what arguments stand for comes with all its bits, where that is wanted.
      wide: of arguments that are weak scalars, by their position, the same argument
        with all its bits, where these were wanted.
      index_check: what is to be told of indices: see `tell_of_indices`.
      meant: what arguments stand for that have no values, as far as that is known.
      fixed: of a derivative the arguments for which it is not taken.
      varies: of inputs the axes of devices along which they differ, beside those along
        which what they stand for does (`calls/varying.py`).
    """

    meant: Sequence[Value] = ()
    fixed: Sequence[Any] = ()
    varies: Mapping[Node, frozenset[Any]] = MappingProxyType({})

    def __init__(self, transform: str, isolated: bool = False) -> None:
        self.transform = transform
        self.isolated = isolated
        self.barrier: Scope | None = self if isolated else None
        self.imported: list[Value] = []
        self.tokens: tuple[Node, ...] = ()
        self.adopted: dict[tuple[Scope, Node], Node] = {}
        self.given: dict[Node, Value] = {}
        self.exact = False
        self.wide: dict[int, Node] = {}
        self.known_bits: dict[Node, Node | None] = {}
        self.depth = 0
        self.inputs: list[Node] = []
        self.bindings: list[Binding] = []
        self.captured: list[Array] = []
        self.bound = False
        self.closed = False
        self.arguments = self.along = 0
        self.level: Any = None
        self.recalls = False
        self.origin: Origin | None = None
        self.copies: dict[int, tuple[Any, Array]] = {}
        self._captured_nodes: dict[Any, tuple[Node, Any]] = {}
        self.values: dict[Node, Any] = {}
        self.index_check: Callable[[Any, Shape], None] | None = None

    def __enter__(self) -> Scope:
        scopes, opened = stack.scopes, open_in_all_threads
        self.depth = len(scopes)
        if not self.isolated:
            self.barrier = scopes[-1].barrier if scopes else None
        # Compositions of our own are traced once, when they are first called.
        if not scopes and self.transform != "eager" and settings.current().no_tracing:
            raise TracingError(f"tracing for {self.transform}, and 'no_tracing' is set")
        if self.depth and self.depth % python_limits.STEP == 0:
            python_limits.allow_depth(self.depth, sum([s.isolated for s in scopes]))
        if not scopes:
            block_names.trace = next(_traces) if self.transform in _ONCE else 0
        self.origin = user_origin()
        outermost = scopes[stack.floor] if self.depth > stack.floor else self
        self.recalls = outermost.transform not in _ONCE
        # No calls: Ctrl-C comes after both, or before.
        scopes += (self,)
        opened += _ONE_MORE
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True
        self.values.clear()
        self.meant = self.fixed = ()
        if self.depth == python_limits.STEP:
            python_limits.reset_depth()
        del stack.scopes[-1:], open_in_all_threads[-1:]

    @property
    def main(self) -> Scope:
        """Itself, where libraries written for JAX look for what tells traces apart."""
        return self

    def input(
        self, aval: ShapedArray, binding: Binding = None, given: Value = None
    ) -> Tracer:
        """A new argument of the function.

        Args:
          binding: its value, where Python may ask for it.
          given: what it stands for, where Python may not.
        """
        origin = self.origin
        with making_nodes_of(origin):
            node = variable(aval, self.depth, len(self.inputs))
        node.origin = origin
        self.inputs.append(node)
        self.bindings.append(binding)
        if weak_constants.is_narrow(aval) and not aval.shape:
            self.given[node] = binding if given is None else given
        return Tracer(node, self, origin)

    def capture(self, value: Value) -> Node:
        """The input that stands for a value around it: the same for the same value.

        That is a concrete array; of an isolated scope also what is traced. In a jaxpr
        several arrays of the same constant are several values, as with JAX, also in its
        loops: what is made of it may give each its own.
        """
        traced = isinstance(value, Tracer)
        key = value.node if traced else id(value)
        if traced and value.node.op is const_p and key not in self._captured_nodes:
            between = stack.scopes[value.scope.depth + 1 : self.depth + 1]
            if any(s.transform == "make_jaxpr" for s in between):
                key = id(value)
        known = self._captured_nodes.get(key)
        if known is None:
            if self.isolated:
                binding = value if traced else asarray(value)
                node = self.input(aval_of(value), binding).node
                self.imported.append(value)
            else:
                array = asarray(value)
                node = self.input(aval_of(array), array).node
                self.captured.append(array)
            # Holding the value keeps its id from being given to another one.
            known = self._captured_nodes[key] = (node, value)
        return known[0]

    def captured_for(self, node: Node) -> Value | None:
        """What was captured, for which an input stands; None for an argument."""
        for known, value in self._captured_nodes.values():
            if known is node:
                return value
        return None

    def adopt(self, value: Value, node: Node) -> None:
        """Of an isolated scope: `node`, an input, stands for a value around it.

        That also holds when the scope of a traced value has been closed.
        """
        if isinstance(value, Tracer) and value.scope.closed:
            self.adopted[value.scope, value.node] = node
        else:
            key = value.node if isinstance(value, Tracer) else id(value)
            self._captured_nodes[key] = (node, value)

    def lift(self, value: Value) -> Node:
        """The node of any value inside this scope."""
        if isinstance(value, Tracer) and value.scope.closed:
            value = find_adopted(value)
        if isinstance(value, Tracer):
            barrier = self.barrier
            if barrier is not None and value.scope.depth < barrier.depth:
                return barrier.capture(value)
            return value.node
        if is_array(value):
            return self.capture(value)
        if isinstance(value, np.generic):
            array = asarray(value)
            return const(array.numpy(), array.dtype, (), array.weak_type)
        if isinstance(value, NUMPY):
            return self.capture(value)
        if (array := find_array(value)) is not value:
            return self.lift(array)
        aval = aval_of(value)
        return self.number(value, aval.dtype, (), aval.weak_type)

    def number(
        self, value: complex, dtype: np.dtype[Any], shape: Shape, weak: bool
    ) -> Node:
        """A number of Python's as a constant; a weak one keeps all its bits."""
        node = const(value, dtype, shape, weak)
        if not weak or type(value) not in (float, complex):
            return node
        if has_more_bits(node.aval):
            exact = const(value, weak_constants.WIDE[dtype], shape, True)
            if constant_value(exact) != constant_value(node):
                return cast_p(exact, arg=(dtype, True))
        return node

    def lift_to(
        self, value: Value, dtype: np.dtype[Any], shape: Shape, weak: bool = False
    ) -> Node:
        """The node of a value, converted to a dtype and broadcast to a shape."""
        value = wrap_integer(value, dtype)
        if type(value) in (int, float, bool, complex, Dim):
            return self.number(value, dtype, shape, weak)
        if dtypes.is_number_in(value, dtype):
            return const(value, dtype, shape, weak)
        node = as_type(self.lift(value), dtype, weak)
        if not same_size(node.shape, shape):
            node = broadcast_leading(node, shape)
        return node

    def all_bits(self, node: Node) -> Node | None:
        """An input that is a weak scalar, with all its bits; None if it has no more."""
        if node.shape:
            return None
        wide = node.aval.with_dtype(weak_constants.WIDE[node.dtype], True)
        if dtypes.is_integer(node.dtype):
            return cast(node, wide.dtype, True)
        given = self.given.get(node)
        if type(given) is Tracer:
            found = all_bits(given.node)
            if found is None:
                return None
            return weak_constants.widened(
                node, self.lift(Tracer(stop_gradient(found), given.scope))
            )
        if type(given) in (float, complex):
            exact = Array.of(np.asarray(given, wide.dtype), True)
            return weak_constants.widened(node, self.capture(exact))
        depth, position = scope_and_position(node)
        if not self.exact or position >= self.arguments:
            return None
        found = self.wide[position] = variable(wide, depth, position)
        return found

    def wrap(self, node: Node) -> Tracer:
        return Tracer(node, self)


def all_bits(node: Node) -> Node | None:
    """A weak scalar of an open scope, with the bits of what it was computed from.

    None where no more of them are known than it has.
    """

    def of_variable(leaf: Node) -> Node | None:
        depth, position = scope_and_position(leaf)
        if not 0 <= depth < len(stack.scopes):
            return None
        scope = stack.scopes[depth]
        known = position < len(scope.inputs) and scope.inputs[position] is leaf
        return scope.all_bits(leaf) if known else None

    if not stack.scopes:
        return None
    stack.asked += 1  # what has further inputs is good for this trace only
    return weak_constants.with_all_bits(node, of_variable, stack.scopes[-1].known_bits)


def as_type(node: Node, dtype: np.dtype[Any], weak: bool) -> Node:
    """`node` in another dtype; a number of Python's with all the bits it has."""
    if weak_constants.counts_bits(node.aval, dtype):
        node = all_bits(node) or node
    return cast(node, dtype, weak)


def has_more_bits(aval: ShapedArray) -> bool:
    """Is it the type of a number of Python's that has more bits?"""
    return weak_constants.is_narrow(aval) and settings.current().enable_x64 is None


def current_scope() -> Scope | None:
    """The innermost open scope of this thread."""
    return stack.scopes[-1] if len(stack.scopes) > stack.floor else None


def open_scopes() -> Sequence[Scope]:
    """The open scopes of this thread, outermost first."""
    return stack.scopes[stack.floor :]


class returning:  # reads as a statement: `with returning()`
    """A block at whose exceptions this thread is brought back to where it stood.

    One of a signal may come where a block begins or ends, which then does not end.
    """

    __slots__ = ("state",)

    def __enter__(self) -> None:
        origins = provenance.origin, provenance.caller
        self.state = (len(stack.scopes), stack.floor, *origins)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            depth, stack.floor, provenance.origin, provenance.caller = self.state
            for scope in stack.scopes[depth:][::-1]:
                scope.__exit__()


class outside_scopes:  # reads as a statement: `with outside_scopes()`
    """A block in which no scope is open: of callbacks, which compute for themselves."""

    __slots__ = ("outer",)

    def __enter__(self) -> None:
        self.outer = stack.floor
        stack.floor = len(stack.scopes)

    def __exit__(self, *_: object) -> None:
        stack.floor = self.outer


@contextmanager
def hide_scopes(depth: int, floor: int) -> Generator[list[Scope]]:
    """A block in which no scope from a depth on is open; those it gets as a list.

    Args:
      floor: scopes below are out of sight as well.
    """
    inner, outer = stack.scopes[depth:], stack.floor
    del stack.scopes[depth:]
    stack.floor = floor
    try:
        yield inner
    finally:
        stack.scopes[depth:] = inner
        stack.floor = outer


def value_of_dim(dim: Dim) -> Any:
    """A dynamic dimension as a value: of the innermost scope."""
    scope = current_scope()
    if scope is None:
        return float(dim)  # which is refused by name
    return Tracer(scope.lift(dim), scope)


def tell_of_indices(found: Sequence[tuple[Any, int, int]], shape: Shape) -> bool:
    """Tells who checks indices which positions may lie outside of an array.

    Args:
      found: positions along an axis, counted from the front; the axis; so many
        positions there are along it.
      shape: of the array.

    Returns:
      Whether anyone checks them.
    """
    asked = [s.index_check for s in open_scopes() if s.index_check is not None]
    for ask in asked:
        ask(found, shape)
    return bool(asked)


#: What stands for no other array.
_PLAIN = frozenset((Array, Tracer, np.ndarray, bool, int, float, complex))


def scope_of(values: Sequence[Value]) -> Scope | None:
    """The innermost scope of the tracers among the values; None if there is none."""
    found: Scope | None = None
    for given in values:
        value = given if given.__class__ in _PLAIN else find_array(given)
        if isinstance(value, Tracer) or is_dynamic(value):
            scope = value.scope if isinstance(value, Tracer) else stack.scopes[-1]
            if scope.closed:
                settled = find_adopted(value)
                if not isinstance(settled, Tracer):
                    continue
                scope = settled.scope
            if found is None or scope.depth > found.depth:
                found = scope
            elif scope.depth == found.depth and scope is not found:
                raise UnexpectedTracerError(
                    "traced values of two threads meet in one operation; a traced "
                    "value belongs to the thread that runs its function"
                )
    if found is not None and len(stack.scopes) - 1 > found.depth:
        barrier = stack.scopes[-1].barrier
        if barrier is not None and barrier.depth > found.depth:
            return barrier
    return found


def asarray(value: Value) -> Array:
    """An Array that shares memory with a concrete value where it can.

    Where a trace is open whose results outlive it, it is a copy of an array of NumPy's.
    """
    if is_array(value):
        return value
    if isinstance(value, Tracer) and value.scope.closed:
        return asarray(find_adopted(value))
    return _as_array(value)


def as_input(value: Value, aval: ShapedArray) -> Array:
    """An Array for an input of a program; a number of Python's with all its bits."""
    if type(value) in (float, complex):
        return Array.of(np.asarray(value, aval.dtype), aval.weak_type)
    array = asarray(value)
    if array.dtype == aval.dtype:
        return array
    return Array.of(convert(array.numpy(), aval.dtype), aval.weak_type)


def with_all_bits(value: Value) -> Value:
    """A number of Python's that has more bits than its type as an Array with them."""
    if type(value) in (float, complex) and has_more_bits(aval := aval_of(value)):
        return as_input(value, aval.with_dtype(weak_constants.WIDE[aval.dtype], True))
    return value


def round_result(value: Any) -> Any:
    """What was computed of `with_all_bits`, in the type that it has for the caller."""
    if not is_array(value) or not aval_of(value).weak_type:
        return value
    narrow = weak_constants.NARROW.get(value.dtype)
    if narrow is None:
        return value
    return Array.of(convert(value.numpy(), narrow), True)


def _as_array(value: Value) -> Array:
    aval = aval_of(value)
    if isinstance(value, NUMPY):
        array: Any = np.asarray(value)
        if array.dtype != aval.dtype:
            array = convert(array, aval.dtype)
        made = Array.of(array, aval.weak_type)
        is_foreign = stack.scopes and array is value
        return _lasting(value, made) if is_foreign else made
    array_of = stands_for(value)
    if array_of is not None:
        return asarray(array_of())
    return Array.of(np.asarray(value, aval.dtype), aval.weak_type)


def _lasting(value: np.ndarray[Any, Any], array: Array) -> Array:
    """`array`, in the memory of `value`; a copy in what outlives its trace."""
    scope = next((s for s in stack.scopes if s.transform in _OUTLIVING), None)
    if scope is None:
        return array
    known = scope.copies.get(id(value))
    if known is None:
        # Holding the value keeps its id from being given to another one.
        known = scope.copies[id(value)] = (value, array.__deepcopy__({}))
    return known[1]


def snapshot(value: Value) -> Any:
    """`value`; where NumPy may change it, an Array that holds a copy."""
    given: Any = value
    if not isinstance(value, np.ndarray):
        return given
    array = asarray(given)
    shared = np.may_share_memory(array.numpy(), given)
    return array.__deepcopy__({}) if shared else array
