"""Effects: what the world notices, in the order of the program.

    callback_p(token, *operands, arg=Callback) -> token, *results
    pure_callback_p(*operands, arg=Callback) -> *results

An effect takes the token of the effect before it and gives a new one. So effects keep
their order; equal ones are different nodes, and none is done twice; and as the last
token is an output of the program, none is dropped. A pure callback has no token: it may
be dropped, merged with an equal one, and done again.

An effect belongs to the innermost open scope, whatever its operands are. Where every
open scope has values for its arguments it happens at once.

A token of value `REHEARSAL` tells an effect not to happen. Python gets one when it asks
for a value in the midst of a function, and what is computed again for a derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from itertools import product
from types import MethodType
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.trace import graph as g
from ftrace.trace.arrays.array import Array, is_array
from ftrace.trace.avals import REHEARSAL, TOKEN, Shape, ShapedArray
from ftrace.trace.evaluate import settle
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.primitive import Batched, Compound, Results, item_p
from ftrace.trace.primitives.sources import const_p
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import is_dynamic, same_size
from ftrace.trace.tracing import scopes, tracer
from ftrace.trace.tracing.scopes import Scope
from ftrace.trace.tracing.trace import record_compound

# Callbacks: a Python function as the argument of a node, and how it is called.
#
#     Callback = kind, function, structure of its arguments and results
#
# The same function with the same structures is the same callback, so that a function
# that is traced again gives the same graph.


_SCALARS = (bool, int, float, complex)
INSPECTED = "debug.inspect_array_sharding"


@dataclass(frozen=True)
class Same:
    """A value that equals itself alone, whatever its class says of equality.

    Texts and numbers are told by what they are, and -0.0 is another one than 0.0.
    """

    value: Any = field(compare=False)
    key: Any

    @staticmethod
    def of(value: Any) -> Same:
        if isinstance(value, MethodType):  # each `x.method` is a new object
            return Same(value, (id(value.__self__), id(value.__func__)))
        if isinstance(value, (str, bytes, *_SCALARS)):
            return Same(value, (type(value), repr(value)))
        return Same(value, id(value))

    def __reduce__(self) -> tuple[Any, ...]:
        return Same.of, (self.value,)  # in another process its key is another one


@dataclass(frozen=True)
class Callback:
    """The argument of a node that calls back.

    Attributes:
      kind: the function that the user wrote, for messages: "debug.print".
      function: what is called.
      arguments: the structure of (args, kwargs).
      leaves: of each leaf of it the static value, or None for an operand.
      structure: of the result.
      results: the types of its leaves.
      operands: the dtypes of the operands: programs move random keys as numbers.
      method: what vmap makes of it: "sequential", "expand_dims", …
      lanes: for each vmap around it, the outermost first, its size, and which of the
        operands have an axis of lanes. It is called once per lane, in order.
      carried: numbers of few bits are returned in their carriers, as in programs.
      site: where it was written, for what must not be taken for another one.
      origin: the user's line. Not part of its identity.
    """

    kind: str
    function: Same
    arguments: Any
    leaves: tuple[Same | None, ...]
    structure: Any
    results: tuple[ShapedArray, ...]
    operands: tuple[np.dtype[Any], ...]
    method: str = "sequential"
    lanes: tuple[tuple[int, tuple[bool, ...]], ...] = ()
    carried: bool = False
    site: Any = None
    origin: errors.Origin | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        function = self.function.value
        return getattr(function, "__name__", type(function).__name__)

    @property
    def is_told(self) -> bool:
        """Is it told how its operand lies, when a program is made, and never run?"""
        return self.kind == INSPECTED

    @property
    def drops_result(self) -> bool:
        """Whatever it returns is let go."""
        return self.kind.startswith("debug.")

    @cached_property
    def sizes(self) -> Shape:
        """How many lanes there are, for each vmap."""
        return tuple(size for size, _ in self.lanes)

    @property
    def types(self) -> tuple[ShapedArray, ...]:
        """The types of the results for all lanes together."""
        return tuple(
            ShapedArray.of((*self.sizes, *a.shape), self._carrier(a.dtype))
            for a in self.results
        )

    def _carrier(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return dtypes.carrier(dtype) if self.carried else dtype

    def __str__(self) -> str:
        lanes = f", lanes={self.sizes}" if self.lanes else ""
        return f"{self.kind} {self.name}{lanes}"

    def __call__(self, operands: Sequence[Any]) -> list[Any]:
        """The results, as NumPy arrays: of one call, or of one call per lane.

        Raises:
          CallbackError: a result is not of the promised type.
        """
        if not self.lanes:
            return self._once(operands)
        totals: list[Any] = [np.empty(a.shape, a.dtype) for a in self.types]
        for position in product(*map(range, self.sizes)):
            lane = [self._in_lane(x, i, position) for i, x in enumerate(operands)]
            for total, value in zip(totals, self._once(lane), strict=True):
                total[position] = value
        return totals

    def _in_lane(self, operand: Any, number: int, position: Shape) -> Any:
        pairs = zip(position, self.lanes, strict=True)
        return operand[tuple(p for p, (_, flags) in pairs if flags[number])]

    def _once(self, operands: Sequence[Any]) -> list[Any]:
        result = self.result_of(operands)
        return [] if self.drops_result else self._check(result)

    def result_of(self, operands: Sequence[Any]) -> Any:
        """What the function returns for the operands of one call."""
        rest = iter(map(_as_array, operands, self.operands))
        leaves = [next(rest) if s is None else s.value for s in self.leaves]
        args, kwargs = tree.unflatten(self.arguments, leaves)
        # What it computes is its own affair, not part of a function that is traced.
        with scopes.outside_scopes():
            try:
                return self.function.value(*args, **kwargs)
            except errors.UnexpectedTracerError as error:
                raise errors.UnexpectedTracerError(
                    f"{self.kind}: {self.name} uses a traced value of the function "
                    "around it, which has no elements; a callback gets values as its "
                    "arguments: pass it the traced value as one",
                    self.origin,
                ) from error
            except Exception as error:
                # In no variable of this frame: memory would wait for the collector.
                at_call = getattr(error.__traceback__, "tb_next", None) is None
                if at_call and isinstance(error, TypeError):
                    raise errors.CallbackError(
                        f"{self.kind}: {error}", self.origin
                    ) from error
                _add_note(error, self)
                raise

    # Results.

    def _check(self, result: Any) -> list[Any]:
        leaves, structure = tree.flatten(result)
        if len(leaves) != len(self.results):
            raise errors.CallbackError(
                f"{self.kind}: {self.name} must return {_shape_of(self.structure)}, as "
                f"result_shape_dtypes says, but it returned {_shape_of(structure)}",
                self.origin,
            )
        return [
            self._check_leaf(leaf, aval, number)
            for number, (leaf, aval) in enumerate(
                zip(leaves, self.results, strict=True)
            )
        ]

    def _check_leaf(self, leaf: Any, aval: ShapedArray, number: int) -> Any:
        if not tracer.is_value(leaf) and not hasattr(leaf, "__array__"):
            raise errors.CallbackError(
                f"{self._at(number)} must be an array of type {aval!r}, got "
                f"{type(leaf).__name__}: {leaf!r:.60}",
                self.origin,
            )
        array: Any = leaf if isinstance(leaf, _SCALARS) else np.asarray(leaf)
        got = tracer.aval_of(array)
        if not same_size(got.shape, aval.shape):
            lanes = (
                f"; under vmap with vmap_method={self.method!r} it gets and returns "
                "all lanes at once"
                if self.method != "sequential"
                else ""
            )
            raise errors.CallbackError(
                f"{self._at(number)} must have shape {aval.shape} (type {aval!r}), "
                f"got {got.shape} (type {got!r}){lanes}",
                self.origin,
            )
        if not _fits(got, aval):
            raise errors.CallbackError(
                f"{self._at(number)} must have dtype {aval.dtype} (type {aval!r}), got "
                f"{got.dtype} (type {got!r}); convert it with .astype, or change "
                "result_shape_dtypes",
                self.origin,
            )
        if isinstance(array, _SCALARS):
            tracer.check_fits(array, aval.dtype)
        promised: Any = np.asarray(array, aval.dtype)
        return promised.view(self._carrier(aval.dtype))

    def _at(self, number: int) -> str:
        """The name of a leaf of the result."""
        whole = tree.unflatten(self.structure, range(len(self.results)))
        path, _ = tree.leaves_with_path(whole)[number]
        place = tree.keystr(path)
        leaf = f"the leaf {place} of what {self.name} returned" if place else ""
        return f"{self.kind}: {leaf or f'what {self.name} returned'}"


def _fits(got: ShapedArray, wanted: ShapedArray) -> bool:
    """May a result of the one type stand for the other?

    Python numbers take the dtype that is wanted, as everywhere. NumPy computes in 64
    bits where JAX has 32: unless 64 bits are switched on, they are narrowed as there.
    """
    if got.dtype == wanted.dtype:
        return True
    if got.weak_type:
        return dtypes.promote((wanted.dtype, False), (got.dtype, True)) == (
            wanted.dtype,
            False,
        )
    if settings.current().enable_x64 is True:
        return False
    return (
        dtypes.OF_32_BITS.get(got.dtype, got.dtype) == wanted.dtype
    )  # None is float64


def _as_array(operand: Any, dtype: np.dtype[Any]) -> Array:
    """An operand as the callback gets it: the memory is its own."""
    if is_array(operand):
        return operand
    own: Any = np.array(operand)
    return Array.of(own.view(dtype) if dtypes.is_carried(dtype) else own)


def _shape_of(structure: Any) -> str:
    text = tree.readable(structure)
    return "one array" if text == "*" else text


def _add_note(error: Exception, callback: Callback) -> None:
    """Says where the callback stands in the program; tracebacks show it."""
    where = f"\n  at {callback.origin.describe()}" if callback.origin else ""
    notes: list[str] = getattr(error, "__notes__", [])
    note = f"raised in {callback.name}, the function of this {callback.kind}{where}"
    error.__notes__ = [*notes, note]  # type: ignore[attr-defined]


def read_promised_types(what: str, specs: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    """The types of `result_shape_dtypes`, and their structure.

    Raises:
      ArgumentError: a leaf has no shape and dtype.
      DtypeError: a dtype is not available.
    """
    leaves, structure = tree.flatten(specs)
    return tuple(_promised_type(what, leaf) for leaf in leaves), structure


def _promised_type(what: str, leaf: Any) -> ShapedArray:
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        raise errors.ArgumentError(
            f"{what}: result_shape_dtypes must hold what has a shape and a dtype, got "
            f"{type(leaf).__name__}: {leaf!r:.60}; write "
            "ftrace.ShapeDtypeStruct(shape, dtype)"
        )
    dtype, wanted = dtypes.as_dtype(leaf.dtype), dtypes.named_dtype(leaf.dtype)
    if dtypes.is_key(dtype):
        raise errors.DtypeError(
            f"{what}: no random keys are returned; return random.key_data(keys), and "
            "make keys of it by random.wrap_key_data"
        )
    if wanted != dtype:
        raise errors.DtypeError(
            f"{what}: result_shape_dtypes asks for {wanted}, but 64 bits "
            f"are switched off; ask for {dtype}, or enable them with "
            "ft.config.update('jax_enable_x64', True)"
        )
    return ShapedArray.of(
        tuple(n if is_dynamic(n) else int(n) for n in leaf.shape), dtype
    )


#: What vmap may make of a pure callback.
METHODS = (
    "sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
    "legacy_vectorized",
)  # fmt: skip


# The records.


def _infer(arg: Callback, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return (TOKEN, *arg.types)


def _value(avals: Any, arg: Callback, token: Any, *operands: Any) -> list[Any]:
    if int(token) != REHEARSAL:
        return [token, *arg(operands)]
    if arg.results:
        raise errors.ConcretizationTypeError(
            f"a value was needed that depends on what {arg.name} returns, the function "
            f"of {arg.kind}, before its turn has come or after it; an effect happens "
            "once, in the order of the program. Do not ask for the value (if, float, "
            "print) after a jitted function, vmap or a loop with effects, or call it "
            "outside of what is differentiated",
            arg.origin,
        )
    return [token]


def _jvp(node: g.Node, tangents: Results) -> Results:
    arg: Callback = node.arg
    if any(dtypes.is_inexact(a.dtype) for a in arg.results):
        raise _no_derivative(arg)
    return [None] * len(node.aval.items)


def _no_derivative(arg: Callback) -> errors.DerivativeError:
    return errors.DerivativeError(
        f"{arg.kind} has no derivative: nothing is known of what {arg.name} computes; "
        "call it in a function under ftrace.custom_jvp or ftrace.custom_vjp that gives "
        "the derivative, or pass it ftrace.lax.stop_gradient of its arguments",
        arg.origin,
    )


def _batch(node: g.Node, src: g.Nodes, batched: g.Flags, size: int) -> Batched:
    """Once per lane, one after the other: in one step of the program."""
    arg: Callback = node.arg
    wide = replace(arg, lanes=((size, batched[1:]), *arg.lanes))
    token, *results = callback_p.results(*src, arg=wide)
    return [token, *results], [False, *[True] * len(results)]


callback_p = Compound(
    "callback", "host", _infer, _value, _batch, jvp=_jvp, pure=False, moves=True,
    calls_back=True, doc="calls a Python function, once, in its turn", show=str,
)  # fmt: skip


def _infer_pure(arg: Callback, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return arg.types


def _value_pure(avals: Any, arg: Callback, *operands: Any) -> list[Any]:
    return arg(operands)


def _batch_pure(node: g.Node, src: g.Nodes, batched: g.Flags, size: int) -> Batched:
    arg: Callback = node.arg
    if arg.method.startswith("sequential"):
        wide = replace(arg, lanes=((size, batched), *arg.lanes))
    else:
        types = tuple(a.with_shape((size, *a.shape)) for a in arg.results)
        wide = replace(arg, results=types)
        src = tuple(
            s if has else _with_lanes(s, arg.method, size)
            for s, has in zip(src, batched, strict=True)
        )
    results = pure_callback_p.results(*src, arg=wide)
    return results, [True] * len(results)


def _with_lanes(node: g.Node, method: str, size: int) -> g.Node:
    """An operand that all lanes share, as the callback wants to see it."""
    if method == "expand_dims":
        return reshape(node, (1, *node.shape))
    if method == "broadcast_all":
        return broadcast_leading(node, (size, *node.shape))
    return node


pure_callback_p = Compound(
    "pure_callback", "host", _infer_pure, _value_pure, _batch_pure, jvp=_jvp,
    moves=True, calls_back=True, doc="calls a Python function of its operands alone",
    show=str,
)  # fmt: skip


def rehearsal() -> g.Node:
    """The token for what is computed again and has had its effects."""
    return g.make_node(const_p, TOKEN, (), g.constant_bits(REHEARSAL, TOKEN.dtype))


def check_repeatable(nodes: Sequence[g.Node]) -> None:
    """Raises where a loop would have to call back again for the values it got.

    Raises:
      DerivativeError: the nodes, or a body in them, use what an io_callback returns.
    """
    for node in g.toposort(nodes):
        for body in g.bodies_in(node.arg):
            check_repeatable(body.outputs)
        if node.op is callback_p and node.arg.results:
            arg: Callback = node.arg
            raise errors.DerivativeError(
                "this derivative runs a while_loop again for what it remembers, and "
                f"the loop calls {arg.name} by {arg.kind}, which must not be called "
                "again; pass the values in, or have a loop of a known length (scan)",
                arg.origin,
            )


class Inspection:
    """The function of a callback that is told how its operand lies."""

    def __init__(self, tell: Callable[[Any], Any]) -> None:
        self.tell = tell
        self.__name__ = "tell"

    def __call__(self, value: Array) -> None:
        self.tell(value.sharding)


def inspections(graph: g.Graph) -> list[tuple[g.Node, Callback]]:
    """The values of a graph of which a callback is told how they lie."""
    found: list[tuple[g.Node, Callback]] = []
    tokens = [*graph.effects[1:]]
    for token in tokens:  # from the last effect to the first
        node = token.src[0] if token.op is item_p else token
        if node.op is callback_p and node.arg.is_told:
            found.append((node.src[1], node.arg))
        within = [x for body in g.bodies_in(node.arg) for x in body.outputs]
        tokens += [x for x in (*within, *node.src) if x.aval is TOKEN]
    return found[::-1]


def tell(graph: g.Graph, sharding: Any) -> None:
    """Tells that all values of a graph lie so."""
    for _, callback in inspections(graph):
        callback.function.value.tell(sharding)


# On values.


def call_back(
    kind: str,
    function: Callable[..., Any],
    specs: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    method: str = "",
    static_numbers: bool = False,
    staged: bool = False,
) -> Any:
    """Calls a function of arrays: now, or when the graph runs that is being traced.

    Args:
      kind: the function that the user wrote, for messages.
      function: gets `args` and `kwargs` with arrays in place of traced values.
      specs: a tree of what has shape and dtype: the types of the result.
      args, kwargs: trees; leaves that are no arrays are passed on as they are.
      method: of a pure callback: what vmap makes of it. Without it, it is an effect.
      static_numbers: Python numbers are passed on as they are, too.
      staged: record it in the innermost scope, also where values are known.

    Returns:
      What the function returns: arrays in the structure of `specs`.

    Raises:
      ArgumentError: `function` is not callable.
      TreeError, ShapeError, DtypeError: called now, it did not return what `specs` say.
      DerivativeError: called now, for arguments that are being differentiated.
    """
    tree.check_callable(function, kind)
    leaves, treedef = tree.flatten((args, kwargs))
    static = [None if _is_operand(x, static_numbers) else Same.of(x) for x in leaves]
    operands = [x for x, s in zip(leaves, static, strict=True) if s is None]
    types, structure = read_promised_types(kind, specs)
    origin = errors.user_origin()
    arg = Callback(
        kind, Same.of(function), treedef, tuple(static), structure, types,
        tuple([tracer.aval_of(x).dtype for x in operands]),
        method=method or "sequential", origin=origin,
        site=(id(origin.code), origin.offset) if origin and not method else None,
    )  # fmt: skip
    scope = scopes.current_scope() if staged else _staging_scope()
    if scope is None and (method or any(map(_is_unknown, operands))):
        scope = scopes.scope_of(operands)
    if scope is None:
        return tree.unflatten(structure, _call_now(arg, operands))
    op, token = (pure_callback_p, -1) if method else (callback_p, 0)
    nodes = [scope.lift(x) for x in operands]
    results = record_compound(scope, op, nodes, arg, token)
    return tree.unflatten(structure, results)


def _is_operand(leaf: Any, static_numbers: bool) -> bool:
    if static_numbers and isinstance(leaf, _SCALARS):
        return isinstance(leaf, np.generic)
    return tracer.is_value(leaf)


def _is_unknown(x: tracer.Value) -> bool:
    """Is it traced, as a tangent is in a rule whose primals have values?"""
    known = not isinstance(x, tracer.Tracer) or x.scope.closed
    return not known and tracer.unbound_variable(x.node) is not None


def _staging_scope() -> Scope | None:
    """The scope to which what happens now belongs; None if it happens at once.

    It is recorded where an argument has no value, and where earlier effects are still
    to come: those of a jitted function or a loop, of which a derivative is taken.
    """
    if all(s.bound and not s.isolated and not s.tokens for s in scopes.open_scopes()):
        return None
    return scopes.current_scope()


def _call_now(arg: Callback, operands: Sequence[tracer.Value]) -> list[Array]:
    """The results of a call with values."""
    if any(dtypes.is_inexact(a.dtype) for a in arg.results):
        for x in operands:
            if isinstance(x, tracer.Tracer) and tracer.derivative_scope(x):
                raise _no_derivative(arg)
    results = arg([_read_value(x) for x in operands])
    return [
        Array.of(settle(value, aval.dtype))
        for value, aval in zip(results, arg.types, strict=True)
    ]


def _read_value(value: tracer.Value) -> Array:
    if isinstance(value, tracer.Tracer):
        return Array.of(
            np.asarray(tracer.concrete(value)), tracer.aval_of(value).weak_type
        )
    return scopes.asarray(scopes.snapshot(value))
