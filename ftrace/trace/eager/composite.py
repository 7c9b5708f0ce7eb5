"""What calls became: the steps that NumPy did, and compositions as one graph.

While a tape is on, whatever computes an Array at once notes it:

    mean(x)   ->   add.reduce(x, (0,)) -> a,   reshape(a, ()) -> b,   divide(b, 8) -> c

What most functions do depends on the types of their arrays alone. So the steps for some
arrays are those for all others of the same types, and can be done again without the
function: see `backends.llvm.call.record_eager`. An Array that is not on the tape was
made by something that notes nothing; then there are no steps to repeat.

Compositions are recorded as such, or done by a plan of NumPy's calls:

    run_fused(matmul, [x, y])   traced values   its operations, as they were before
                                arrays          its plan, without what lies between
                                on a device     its program

The graph follows from the function, the types of its operands and what is static; that
of a function of a module is cached.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import getitem
from typing import Any, TypeVar

import numpy as np

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.ground.tables import memo
from ftrace.trace.arrays.array import (
    Array,
    given_sharding,
    is_array,
    is_away,
    recording,
)
from ftrace.trace.avals import ShapedArray
from ftrace.trace.backend import backend
from ftrace.trace.eager.dispatch import calls, lift_array, signature
from ftrace.trace.evaluate import NumpyPlan, apply, no_memory
from ftrace.trace.graph import (
    Graph,
    Node,
    bodies_of,
    constant_value,
    make_node,
    origin_now,
    toposort,
)
from ftrace.trace.primitives.broadcast import expand_p, reduce_sum_p, sum_call
from ftrace.trace.primitives.elementwise import cast_p, mul
from ftrace.trace.primitives.library.sorting import argsort_p
from ftrace.trace.primitives.movement import reshape_p, shear_p
from ftrace.trace.primitives.primitive import ELEMENTWISE, Compound, Primitive, item_p
from ftrace.trace.primitives.reference import convert, converter
from ftrace.trace.primitives.sources import const_p, is_variable
from ftrace.trace.symbolic import is_dynamic
from ftrace.trace.tiering import ASKED, TRACED_BEFORE_GRAPH, Tally, count_operation
from ftrace.trace.tracing.scopes import Scope, asarray, scope_of
from ftrace.trace.tracing.trace import match_aval, trace
from ftrace.trace.tracing.tracer import Function, Tracer, Value, aval_of, wrap_integer


@dataclass(frozen=True, eq=False)
class Step:
    """`result = function(*operands)`, in NumPy.

    Operands and results are told apart by identity: an Array stands for its values, as
    does an object that another step has as its result. All else stands for itself.
    """

    function: Function
    operands: tuple[Any, ...]
    result: Any


@dataclass(frozen=True, eq=False)
class Made:
    """What is between two steps, where that is no Array.

    Attributes:
      dtype: of an array of NumPy's; None of a tuple of such.
      size: its elements.
      shape: of an array.
    """

    dtype: np.dtype[Any] | None
    size: int
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class Number:
    """A Python number, in the dtype in which it is used."""

    value: complex
    dtype: np.dtype[Any]


class Tape:
    """The steps of a call.

    Attributes:
      steps: in their order.
      constants: Arrays that depend on no other one.
      refused: there is nothing to repeat.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.constants: list[Array] = []
        self.refused = False
        self._rounded: list[Array] = []

    def note(self, function: Function, operands: Sequence[Any], result: Any) -> None:
        """One step.

        Where there might be no memory for the result, somebody must ask each time.
        """
        self.refused |= result.size >= ASKED
        self.steps.append(Step(function, tuple(operands), result))

    def note_leaf(self, leaf: np.ndarray[Any, Any], array: Array) -> None:
        """An Array in the place of an array of NumPy's.

        Where that is rounded there is nothing to repeat that rounds it again: Python's
        code does both at once.
        """
        if leaf.dtype == array.dtype:
            self.note(np.asarray, [leaf], array)
        else:
            self._note_conversion(leaf, array.dtype, array)
            self._rounded.append(array)

    def note_constant(self, array: Array) -> None:
        """An Array that depends on no other one."""
        self.constants.append(array)

    def refuse(self) -> None:
        """The values of an array decide what is done: there is nothing to repeat."""
        self.refused = True

    def note_primitive(
        self,
        op: Primitive,
        aval: ShapedArray,
        arg: Any,
        operands: Sequence[Any],
        result: Any,
    ) -> None:
        if op is cast_p:
            self._note_conversion(operands[0], aval.dtype, result)
            return
        direct = op.direct and op.direct(aval, arg)
        if op is reduce_sum_p:  # the shape says how sums are added up
            direct = sum_call(operands[0].shape, aval, arg)
        function, more = direct or (partial(op.numpy, aval, arg), ())
        self.note(function, [*operands, *more], result)

    def note_elementwise(
        self,
        op: Primitive,
        aval: ShapedArray,
        operands: Sequence[Any],
        dtype: np.dtype[Any],
        result: Array,
    ) -> None:
        """A primitive whose operands are converted first."""
        values = [self.convert(x, dtype) for x in operands]
        self.note_primitive(op, aval, None, values, result)

    def convert(self, x: Any, dtype: np.dtype[Any]) -> Any:
        """`x` in a dtype: the same, a number, or what a further step gives."""
        if not is_array(x):
            x = wrap_integer(x, dtype)
            if type(x) in (int, float) or dtypes.is_number_in(x, dtype):
                return Number(x, dtype)
            return convert(np.asarray(x), dtype)[()]
        if x.dtype == dtype:
            return x
        value = Made(dtype, x.size, x.shape)
        self._note_conversion(x, dtype, value)
        return value

    def _note_conversion(self, x: Any, dtype: np.dtype[Any], result: Any) -> None:
        self.refused |= any(x is array for array in self._rounded)
        self.note(converter(x.dtype, dtype), [x, dtype], result)

    def note_results(
        self,
        op: Compound,
        avals: Sequence[ShapedArray],
        arg: Any,
        operands: Sequence[Any],
        results: Sequence[Array],
    ) -> None:
        """What NumPy does, which gives a tuple, and its results taken from that."""
        whole = Made(None, sum(x.size for x in results))
        self.note(partial(_results, op.numpy, (*avals,), arg), operands, whole)
        for place, result in enumerate(results):
            self.note(getitem, [whole, place], result)

    def note_plan(self, plan: NumpyPlan, values: Sequence[Any], result: Any) -> None:
        """The steps of a plan of one result."""
        slots: dict[int, Any] = dict([*enumerate(values), *plan.constants])
        for node, contracts, sources, slot in plan.steps:
            operands = [slots[i] for i in sources]
            several = type(node.op) is Compound
            if several and not is_of_host(node.op):
                self.refuse()
            made = Made(None, 0) if several else Made(node.dtype, node.size, node.shape)
            slots[slot] = made = result if slot == plan.output else made
            op: Any = node.op
            plain = isinstance(op, Primitive) and op is not shear_p
            if plain and contracts is None and op is not item_p:
                self.note_primitive(op, node.aval, node.arg, operands, made)
            else:
                self.note(contracts or partial(_apply, node), operands, made)
        if slots[plan.output] is not result:
            self.note(np.asarray, [slots[plan.output]], result)


def _apply(node: Node, *operands: Any) -> Any:
    return apply(node, operands)


def is_of_host(op: Any) -> bool:
    """Is this a `Compound` that NumPy does, with no code of a user in it?"""
    return type(op) is Compound and op.family in ("host", "barrier") and op.pure


def _results(function: Function, avals: Any, arg: Any, *operands: Any) -> Any:
    """What a `Compound` gives, as a tuple; whoever takes them gives them dtypes."""
    return tuple(function(avals, arg, *operands))


@memo(4096)
def _bind(how: Any, what: Any, **options: Any) -> Callable[..., Any]:
    """`how(what, *operands, **options)` of operands: the same function each time."""
    return lambda *operands: how(what, *operands, **options)


def do_placed(how: Any, what: Any, operands: Sequence[Any], **options: Any) -> Any:
    """`how(what, *operands, **options)`, where an operand is divided over devices.

    NotImplemented where none is.
    """
    if not Array.any_placed or not any(map(given_sharding, operands)):
        return NotImplemented
    return backend().call_placed(_bind(how, what, **options), operands, {})


def run_fused(
    function: Callable[..., Any], operands: Sequence[Value], **static: Any
) -> Any:
    """`function(*operands, **static)` as one graph: recorded, or run at once.

    For compositions whose intermediate values must not be made one by one, such as
    matrix products. `function` takes and returns arrays only; the graphs of functions
    of a module are cached, by the types of the operands and the static arguments.
    """
    # What is no function of a module may depend on more than its arguments.
    closed = function.__closure__ is None and "<" not in function.__qualname__
    scope = scope_of(operands)
    if scope is not None:
        # Else NumPy would expand a captured weight to all places of a product.
        operands = [lift_array(x, scope) for x in operands]
        if closed and all(map(_is_known_by_type, operands)):
            key = _key_of(function, operands, static)
            if _comes_again(key):
                fused = _composite_at(key, Composite, function, operands, static)
                if fused.steps:
                    return fused.record(scope, operands)
        return function(*operands, **static)
    arrays = [asarray(x) for x in operands]
    placed = do_placed(_fuse, function, arrays, **static)
    if placed is not NotImplemented:
        return placed
    fused = composite_of(Composite, function, arrays, static, closed)
    name = getattr(function, "__name__", "the operation").lstrip("_")
    return fused.run(name, arrays, arrays)


def _fuse(function: Callable[..., Any], *operands: Value, **static: Any) -> Any:
    return run_fused(function, operands, **static)


def _is_known_by_type(x: Value) -> bool:
    """Is what is recorded with a value decided by its type?

    A number may come with more bits than its dtype has.
    """
    return type(x) is Tracer and x.node.aval.shape != () and not is_dynamic(x.size)


class Composite:
    """A composition for operands of certain types, evaluated at once.

    Attributes:
      graph: what it computes, of one output.
      captured: the arrays that it holds.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.captured = [np.asarray(value) for value in graph.captured]

    @cached_property
    def plan(self) -> NumpyPlan:
        """What NumPy does."""
        return NumpyPlan(self.graph.outputs, self.graph.inputs)

    @cached_property
    def steps(self) -> Sequence[Node]:
        """What it records; none where that is more than operations on its operands."""
        given, nodes = set(self.graph.inputs), self.graph.nodes
        closed = not self.captured and not self.graph.effects
        simple = all(
            isinstance(n.op, Primitive) and (n in given or not is_variable(n))
            for n in nodes
        )
        return [n for n in nodes if n.src] if closed and simple else []

    def record(self, scope: Scope, operands: Sequence[Value]) -> Tracer:
        """The result of operands in a scope, without the function that was traced."""
        inputs = self.graph.inputs
        made = {
            n: match_aval(scope.lift(x), n.aval)
            for n, x in zip(inputs, operands, strict=True)
        }
        for node in self.steps:
            src = tuple([made.get(x, x) for x in node.src])
            made[node] = make_node(node.op, node.aval, src, node.arg)
        node = made[self.graph.outputs[0]]
        return Tracer(node, scope, origin_now(node))

    def value(self, *given: Any) -> Any:
        """The result for operands, all of NumPy."""
        return self.plan(given)[0]

    def run(self, name: str, arrays: Sequence[Array], given: Sequence[Any]) -> Array:
        """The result.

        Args:
          name: for messages.
          arrays: the operands.
          given: what they were made of, where steps are noted.
        """
        if is_away(arrays):
            return backend().run_graph(self.graph, arrays)[0]
        count_operation()
        aval = self.graph.outputs[0].aval
        try:
            result = self.value(*[x.numpy() for x in arrays], *self.captured)
        except MemoryError:
            raise no_memory(name, aval) from None
        made = Array.of(result, aval.weak_type)
        if recording.tape is not None:
            self.note(recording.tape, [*given, *self.captured], made)
        return made

    def note(self, tape: Tape, given: Sequence[Any], made: Array) -> None:
        """Notes what was done."""
        tape.note_plan(self.plan, given, made)


K = TypeVar("K", bound=Composite)

#: Bytes per node: of the graph, and of what evaluates it.
_NODE_BYTES = 1500


def _comes_again(key: Hashable) -> bool:
    """Have calls like this one been traced before, so that a graph of them pays?"""
    known = calls.get(key) or calls.put(key, Tally())
    return not isinstance(known, Tally) or known.reaches(TRACED_BEFORE_GRAPH)


def composite_of(
    kind: Callable[[Graph], K],
    function: Callable[..., Any],
    arrays: Sequence[Array],
    static: dict[str, Any],
    closed: bool = True,
) -> K:
    """The composite of `function(*arrays, **static)`; what it was before, if closed."""
    key = _key_of(function, arrays, static) if closed else None
    return _composite_at(key, kind, function, arrays, static)


def _key_of(
    function: Callable[..., Any], arrays: Sequence[Value], static: dict[str, Any]
) -> Hashable:
    # 2 and 2.0, or 0.0 and -0.0, are equal and mean different programs.
    chosen = tuple([(k, v.__class__, v or repr(v)) for k, v in static.items()])
    return signature(function, tuple([aval_of(x) for x in arrays]), chosen)


def _composite_at(
    key: Hashable,
    kind: Callable[[Graph], K],
    function: Callable[..., Any],
    arrays: Sequence[Value],
    static: dict[str, Any],
) -> K:
    """That which the table has; None is no key."""
    found: Any = None if key is None else calls.get(key)
    if found is None or isinstance(found, Tally):
        avals = tuple([aval_of(x) for x in arrays])
        graph = trace("eager", lambda *xs: [function(*xs, **static)], avals)
        found = kind(graph)
        if key is not None:
            calls.put(key, found, _NODE_BYTES * len(graph.nodes))
    return found


# The part of a graph whose values leave no choice: the same bits whoever computes it.
#
#     shift, xor, add of integers, x - 1 of floats     exact
#     log, erf_inv, x * y + z of floats                rounded as the device does it
#
# Where a graph begins with such a part, that part may run in compiled code at one call
# and in NumPy at another, and nobody can tell.

#: Of integers and bools these are exact, in any order.
_OF_WHOLE = (*ELEMENTWISE, "reduction")
_WIDE_ENOUGH = frozenset((dtypes.float32, dtypes.float64))


def is_exact(node: Node) -> bool:
    """Has a node the same bits on every device, if its operands have?"""
    if node.op is argsort_p or node.op is item_p:
        return True  # every sort is stable
    if node.op.family == "control" and (bodies := bodies_of(node.arg)):
        parts = [(n, b) for b in bodies for n in toposort(b.outputs)]
        return all(n in body.inputs or is_exact(n) for n, body in parts)
    op, types = node.op, {x.dtype for x in (node, *node.src)}
    exact = isinstance(op, Primitive) and op.exact
    if all(map(_is_whole, types)):
        return exact or op.family in _OF_WHOLE
    if op is mul:
        # It may be rounded together with a sum, or not: where it has to be.
        return all(map(_is_of_float32, node.src))
    mixed = op is not cast_p or types <= _WIDE_ENOUGH
    return exact and mixed and all(_is_whole(t) or t in _WIDE_ENOUGH for t in types)


def _is_of_float32(x: Node) -> bool:
    """Are these values of float32 in float64, whose products have 48 bits?"""
    while x.op in (expand_p, reshape_p):
        (x,) = x.src
    if x.dtype != dtypes.float64:
        return False
    if x.op is const_p:
        value = constant_value(x)
        return bool(np.float32(value) == value)
    return x.op is cast_p and x.src[0].dtype == dtypes.float32


def _is_whole(dtype: np.dtype[Any]) -> bool:
    return dtypes.kind(dtype) in "biuk"


def exact_subgraph(graph: Graph) -> tuple[tuple[Node, ...], bool]:
    """The last nodes of the part of a graph that is exact, and whether it is all of it.

    What they repeat, move or do not take from the inputs is left to what follows.
    """
    given, exact = set(graph.inputs), set(graph.inputs)
    moving = set[Node]()  # depends on an input
    last: dict[Node, None] = {}
    for node in toposort(graph.outputs):
        if node in given or any(x in given or x in moving for x in node.src):
            moving.add(node)
        if node in given or (exact.issuperset(node.src) and is_exact(node)):
            exact.add(node)
            continue
        for source in node.src:
            while source in exact and source.op in (expand_p, reshape_p):
                (source,) = source.src
            if source in exact and source in moving and source not in given:
                last[source] = None
    if exact.issuperset(graph.outputs):
        return graph.outputs, True
    return tuple(last), False
