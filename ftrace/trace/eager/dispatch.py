"""Have I seen this call? What calls became, by what identifies them.

This is for traces, too, though it stands under `eager/`: a public function is the same
object in both, and `recalling` tells a call on tracers, which is given the nodes that
it made before, from one on arrays.

    signature                                     what is cached                by
    ------------------------------------------------------------------------------------
    function, types, static values                a plan of NumPy's calls     `calls`
      the same, on large arrays                   a program
      the same, before it is native               how often it came
      what is derived, a traced graph             its graph, its program
      a graph but for its numbers                 a program of the numbers
      a graph, shardings of what it is given      those of its results, and what a
                                                  process runs of it
      a rule of a user's primitive, types         its graph, what it said
      function or graph, nodes, in a trace        the nodes that it made
    types, static values: of a jitted function    graph, programs             `Traces`
      the same, with references                   what threads them           `Jitted`
    graph, device, settings                       the compiled graph          `Shared`
    classes, types: of any function               native records              itself

Why those of `calls` are not all: what users jit is theirs, and with it dies what it was
traced to, which that of `Jitted` even holds (`transforms/jit/jit.py`). A compiled graph
lives while anybody has it, also beyond the table (`compiled_graph.py`). Machine code
does not hash: it walks over a few records of the one function that it was called for
(`function_objects.py`). All others are a `Table`: one limit of bytes for all, and what
was used longest ago goes. `tiering` says which of what is cached does a call. To a
signature belong the settings on which traces depend. What follows from types or from a
body alone, whoever asks, is a `memo` beside what makes it: types of results, blocks of
sums, NumPy's plan of a body.

Nodes are interned: a function that is traced again is given the same nodes and makes
the same ones. One look tells which, whatever the function is composed of. Un-jitted
transforms trace at every call, and look; a jitted function is traced once. What is
recorded holds no node alive, and names operands by their serial numbers, which are
never used twice. What depends on more than the arguments is not entered: on the values
of arrays, on effects, on functions of the user's.
"""

# This is the path of every call: the properties of an Array would cost as much again.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from enum import Enum
from functools import update_wrapper
from types import EllipsisType, FunctionType, MappingProxyType, NoneType
from typing import Any, get_origin

import numpy as np

from ftrace import dtypes
from ftrace.errors import (
    ArgumentError,
    FtraceError,
    Origin,
    is_internal,
    public_names,
    user_origin,
)
from ftrace.ground import settings, spans
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.missing_names import tell_missing
from ftrace.ground.tables import Table
from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array, given_sharding, is_array
from ftrace.trace.backend import backend
from ftrace.trace.eager.checked_calls import call_checked, call_recorded
from ftrace.trace.eager.function_objects import Eager, accepting
from ftrace.trace.eager.result_memory import is_plain, own
from ftrace.trace.graph import Node, provenance, toposort
from ftrace.trace.primitives.sources import is_variable
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.structure_cache import Leaf
from ftrace.trace.tracing.scopes import Scope
from ftrace.trace.tracing.tracer import Tracer, aval_of, stack

#: What calls became: by `signature`, by `_key_of` an eager call, by the address of the
#: configuration what native records are made of.
calls: Table[Hashable, Any] = Table(1 << 14)


def signature(*parts: Any) -> tuple[Any, ...]:
    """What identifies a call; the first part tells its kind from others."""
    return (*parts, settings.current().trace_key)


#: Arguments that are what they compare as, if their type is the same.
_COMPARABLE = frozenset((int, bool, str, bytes, NoneType, EllipsisType))
_SCALAR_TYPES = frozenset((int, float, bool, complex))


def _has_large(args: Sequence[Any]) -> bool:
    sizes = [x.size for x in args if x.__class__ is Array or x.__class__ is np.ndarray]
    return max(sizes, default=0) >= tiering.LARGE_ARRAY


def call_placed(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A call, if an argument is divided over devices: so is the result then.

    Where the default device is not the first one, the result is there. NotImplemented
    for all other calls.
    """
    if is_plain(args, kwargs) and ":" not in settings.current().device:
        return NotImplemented
    return backend().call_placed(function, args, kwargs)


def owning(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose results share no memory with NumPy's arrays among its operands.

    For functions that do not recognise their calls; the others see to it themselves:
    see `recalling`.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return own(function(*args, **kwargs), args, kwargs)

    return update_wrapper(call, function)


def recalling(
    function: Callable[..., Any],
    lifts: bool = False,
    always: bool = False,
    computes: bool = False,
    numbers: bool = False,
    shares: bool = False,
) -> Callable[..., Any]:
    """`function`, which recognises what it has recorded before.

    Args:
      function: of arrays and static values; it calls no function of the user's.
      lifts: beside a traced operand it makes inputs of the graph of concrete ones, at
        whose values it does not look; `always`: in any trace.
      computes: it does more than to move elements, and no integer among its arguments
        is an index that changes from call to call.
      numbers: Python's numbers are operands of it.
      shares: it shows its operand, and may share its memory; the results of others own
        their elements.
    """
    name = function.__name__

    def call(*args: Any, **kwargs: Any) -> Any:
        if settings.Config.any_looks_at_calls:
            config = settings.current()
            if config.observed > spans.STEPS and not stack.scopes:
                return call_recorded(function, call, args, kwargs)
            if config.checks_calls:
                return call_checked(function, call, args, kwargs)
            if ":" in config.device:
                Array.any_placed = True  # the result is there
        if Array.any_placed:
            result = call_placed(call, args, kwargs)
            if result is not NotImplemented:
                return result
        scopes = stack.scopes
        if not scopes or provenance.origin is not None or len(scopes) <= stack.floor:
            if computes and not scopes and _has_large(args):
                result = backend().run_call(function, numbers, args, kwargs)
                if result is not None:
                    return result
            try:
                result = function(*args, **kwargs)
            except (TypeError, ValueError) as error:
                _tell_foreign(name, error)
                raise
            return result if shares else own(result, args, kwargs)
        scope, origin = scopes[-1], user_origin(name, 2)
        if Array.any_placed and Tracer in map(type, args):
            args = _with_divided(args, scope)
        if not scope.recalls or origin is None:
            return run_at(function, args, kwargs, origin, shares)
        lifted = always or (lifts and Tracer in map(type, args))
        key = _key_of(function, args, kwargs, scope, lifted)
        if key is None:
            return run_at(function, args, kwargs, origin, shares)
        found = calls.get(key)
        node = None if found is None else found()
        if node is None:
            return _record(function, args, kwargs, key, lifted, origin, shares)
        line = node.origin
        if line is None or line.offset != origin.offset or line.code is not origin.code:
            line = origin
            _move(node, args, kwargs, line)
        return Tracer(node, scope, line)

    return call


def _key_of(
    function: Callable[..., Any], args: Any, kwargs: Any, scope: Scope, lifts: bool
) -> tuple[Any, ...] | None:
    """What identifies a call; None if nothing does."""
    key: list[Any] = [function, settings.current().trace_key, *kwargs]
    for x in (*args, *kwargs.values()) if kwargs else args:
        if not describe(key, x, scope, lifts):
            return None
    return tuple(key)


def run_at(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    origin: Origin | None,
    shares: bool = True,
) -> Any:
    """The call; all nodes that it makes are of one line of the user's."""
    provenance.origin = provenance.caller = origin
    try:
        result = function(*args, **kwargs)
    except FtraceError as error:
        if error.of_operands:
            error.operands = tuple(_describe_operands(args, kwargs))
        raise
    except (TypeError, ValueError) as error:
        _tell_foreign(function.__name__, error)
        raise
    finally:
        provenance.origin = provenance.caller = None
    if shares or result.__class__ is Tracer:
        return result
    return own(result, args, kwargs)


#: What Python says where a function takes other arguments.
_MISCALLED = re.compile(r"\S+\(\) (takes|got|missing) ")


def _tell_foreign(name: str, error: Exception) -> None:
    """Raises what Python or NumPy say of an argument with the user's line.

    How many arguments there are is as Python says it; code of the user's raises what it
    does.
    """
    if type(error) not in (TypeError, ValueError) or _MISCALLED.match(f"{error}"):
        return
    trace: Any = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    if is_internal(trace.tb_frame.f_code):
        raise ArgumentError(f"{name}: an argument does not fit: {error}") from error


def _describe_operands(args: Any, kwargs: Any) -> Iterator[str]:
    """Where what is given to a call in a trace comes from, with the lines."""
    leaves: list[Any] = tree.leaves((args, kwargs))
    for x in {id(x): x for x in filter(_is_described, leaves)}.values():
        value: Any = x
        while type(value) is Tracer and is_variable(value.node):
            held = value.scope.captured_for(value.node)
            if held is None:
                break
            value = held
        if type(value) is Tracer:
            call = value.origin
            of_call = is_variable(value.node)
            made = "is an argument of the call at" if of_call else "was made at"
        else:
            call, made = _describe_constant(value)
        if call is not None:
            yield f"its operand {aval_of(x)!r} {made} {call.describe()}"


def _describe_constant(value: Any) -> tuple[Origin | None, str]:
    """A call, and what an array that is not traced is to it."""
    for scope in reversed(stack.scopes):
        leaves: list[Any] = tree.leaves(scope.fixed)
        if any(x is value for x in leaves):
            made = "is an argument, which is not differentiated, of the call at"
            return scope.origin, made
    of = "constants or what is not differentiated" if stack.scopes[-1].fixed else ""
    made = f"is captured, or made of {of or 'constants'}: no argument of the call at"
    return stack.scopes[-1].origin, made


def _is_described(x: Any) -> bool:
    return is_array(x) or isinstance(x, (Tracer, np.ndarray))


def _record(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    identity: tuple[Any, ...],
    lifts: bool,
    origin: Origin,
    shares: bool,
) -> Any:
    """The call, entered into the table if it depends on its arguments alone."""
    scope = stack.scopes[-1]
    if lifts:
        args = [lift_array(x, scope) for x in args]
        kwargs = {name: lift_array(x, scope) for name, x in kwargs.items()}
    before = len(scope.inputs), scope.tokens, stack.asked
    result = run_at(function, args, kwargs, origin, shares)
    if (
        type(result) is Tracer
        and result.scope is scope
        and (len(scope.inputs), scope.tokens, stack.asked) == before
        and id(result) not in map(id, (*args, *kwargs.values()))
    ):
        calls.put(identity, weakref.ref(result.node))
        result.node.origin = result.origin = origin
    return result


def _with_divided(args: Any, scope: Scope) -> Any:
    """Operands, of which those that are divided over devices are inputs of the graph.

    What is made of them at once, before they are, would not be divided.
    """
    return tuple(
        [scope.wrap(scope.capture(x)) if given_sharding(x) else x for x in args]
    )


def lift_array(x: Any, scope: Scope) -> Any:
    """A concrete array as an input of the graph; anything else as it is."""
    kind = x.__class__
    held = kind is np.ndarray or issubclass(kind, Array)
    return scope.wrap(scope.capture(x)) if held else x


def describe(key: list[Any], x: Any, scope: Scope | None, lifts: bool) -> bool:
    """Adds what identifies an argument to the key; False if nothing does.

    Args:
      scope: whose tracers may be in it.
      lifts: may arrays be, as inputs of that scope?
    """
    kind = x.__class__
    if kind is Tracer:
        if x.scope is not scope:
            return False
        key.append(x.node.serial)
    elif kind in _COMPARABLE:
        key += (kind, x)
    elif kind is float:
        key += (kind, x or str(x))  # 0.0 is not -0.0
    elif kind is slice or issubclass(kind, (tuple, list)):
        parts = (x.start, x.stop, x.step) if kind is slice else x
        key += (kind, len(parts))
        return all(describe(key, part, scope, lifts) for part in parts)
    elif kind is np.ndarray or issubclass(kind, Array):
        if not lifts or scope is None:
            return False
        key.append(scope.capture(x).serial)
    elif isinstance(x, (np.dtype, Enum, Eager)) or _is_scalar_type(x):
        key += (kind, x)
    elif isinstance(x, np.generic):
        key += (kind, x.tobytes())
    elif not hasattr(x, "shape") and isinstance(getattr(x, "dtype", None), np.dtype):
        key += (kind, x.dtype)  # a dtype of ours, by its name
    else:
        return False
    return True


@dataclass(frozen=True, eq=False)
class Kind:
    """Calls that differ by values alone.

    Attributes:
      treedef: the structure of (args, kwargs).
      leaves: what decides what is done; in the place of a value a `Leaf`.
      key: tells the kind from others, but for the types of its values.
    """

    treedef: tree.TreeDef
    leaves: Sequence[Any]
    key: Sequence[Any]

    def arguments(self, values: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """Those of a call with these values."""
        given = [values[x.number] if type(x) is Leaf else x for x in self.leaves]
        return tree.unflatten(self.treedef, given)

    def call_of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A call of this kind, as a function of its values."""

        def call(*values: Any) -> Any:
            args, kwargs = self.arguments(values)
            return function(*args, **kwargs)

        return call


def kind_of(
    args: Any, kwargs: Any, operands: Collection[type[Any] | None]
) -> tuple[Kind, list[Any]]:
    """The kind of a call, and its values.

    Args:
      operands: the classes of values: of arrays, which are on the host, and of numbers;
        of integers those that decide nothing beside the arrays before them.

    Raises:
      LookupError: an argument is nothing by which a call is known.
    """
    leaves, treedef = tree.flatten((args, kwargs))
    values: list[Any] = []
    key: list[Any] = [treedef, *kwargs]
    for i, x in enumerate(leaves):
        kind = x.__class__
        if kind not in operands or (kind is int and not _fits(x, values)):
            if not describe(key, x, None, False):
                raise LookupError
        elif kind is Array and not (x._buffer is None or x._buffer.device.host):
            raise LookupError
        else:
            leaves[i] = Leaf(len(values))
            values.append(x)
    return Kind(treedef, leaves, key), values


def _fits(x: int, values: Sequence[Any]) -> bool:
    """Does an integer decide nothing? Beside narrow arrays it has to fit."""
    types = [v.dtype for v in values if hasattr(v, "dtype")]
    return -(2**31) <= x < 2**31 and all(
        dtypes.is_inexact(t) or t in (dtypes.int32, dtypes.int64) for t in types
    )


def _is_scalar_type(x: Any) -> bool:
    return isinstance(x, type) and (x in _SCALAR_TYPES or issubclass(x, np.generic))


def _move(node: Node, args: Any, kwargs: Any, origin: Origin) -> None:
    """Makes a line of the user's the origin of what a call made."""
    leaves: list[Any] = tree.leaves((args, kwargs))
    given = {x.node for x in leaves if type(x) is Tracer}
    for made in toposort([node], given):
        if not is_variable(made):
            made.origin = origin


def publish(
    module: str,
    computing: Collection[str] = (),
    numbers: Collection[str] = (),
    shows: Collection[str] = (),
    operands: Mapping[str, Collection[type[Any]]] = MappingProxyType({}),
    calling: Collection[str] = (),
    objects: Mapping[str, Callable[..., Eager]] = MappingProxyType({}),
    lifting: Collection[str] = (),
    always: Collection[str] = (),
    idle: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Has the public functions of a module recognise their calls, and become native.

    Those that take functions stay as they are.

    Args:
      module: its name; where it has no `__all__`, what begins with no underscore is
        public.
      computing: the modules whose functions compute: see `recalling`. They may be
        names of functions, too.
      numbers: functions of which Python's numbers are operands, in programs.
      shows: functions that show an operand, whose memory they may share.
      operands: functions of which numbers are operands, and their classes: see `Eager`.
      calling: functions that take functions, and share no memory with their operands.
        Public functions are constants to them; calls with others are left alone.
      objects: by name, what is made of functions in the place of `Eager`.
      lifting, always: functions that lift operands: see `recalling`; those of `numbers`
        do it, too.
      idle: by name, arguments that functions accept: see `accepting`.
    """
    namespace = vars(sys.modules[module])
    public = namespace.get("__all__") or [n for n in namespace if n[0] != "_"]
    public_names.update(public)
    made: dict[FunctionType, Eager] = {}  # of several names of one function
    for name in public:
        function = namespace[name]
        if isinstance(function, type) and function.__module__.startswith(f"{module}."):
            function.__module__ = module
        ours = isinstance(function, FunctionType)
        if not (ours and function.__module__.startswith("ftrace.")):
            continue
        if function not in made:
            plain = accepting(function, idle[name]) if name in idle else function
            computes = function.__module__ in computing or name in computing
            lifts, counts = name in (*lifting, *numbers), name in numbers
            if name in calling:
                behind = owning(function)
            elif not _takes_functions(function):
                how = lifts, name in always, computes, counts, name in shows
                behind = recalling(plain, *how)
            else:
                continue
            behind = update_wrapper(behind, plain)
            make = objects.get(name, Eager)
            kinds = (*operands.get(name, ()), *((np.integer,) if computes else ()))
            made[function] = make(behind, kinds, module)
        namespace[name] = made[function]
    tell_missing(module)


def _takes_functions(function: FunctionType) -> bool:
    """Is one of its parameters a function, going by their types?"""
    types = {k: t for k, t in function.__annotations__.items() if k != "return"}
    names = set(re.findall(r"\w+", " ".join(map(str, types.values()))))
    known = function.__globals__
    return "Callable" in names or any(
        get_origin(known[name]) is Callable for name in names if name in known
    )
