"""Tracers: values whose operations are recorded instead of done.

A tracer is a node and the scope that it belongs to: see `scopes`. Un-jitted transforms
bind the variables of a scope to values: what Python asks of a tracer (`if`, `int`,
`print`) is then evaluated, and nothing more. What a thread has open is on its `stack`:
scopes, and axes with names.
"""

from __future__ import annotations

import reprlib
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ftrace import dtypes, errors
from ftrace.errors import (
    AxisNameError,
    ConcretizationTypeError,
    Origin,
    called_function,
    user_origin,
)
from ftrace.ground.fast_dataclasses import Immutable, dataclass
from ftrace.trace.arrays.array import Array, ArrayLike, functions
from ftrace.trace.avals import REHEARSAL, TOKEN, LargeInteger, Shape, ShapedArray
from ftrace.trace.backend import backend
from ftrace.trace.evaluate import evaluate
from ftrace.trace.graph import Node, provenance, toposort
from ftrace.trace.primitives.sources import is_variable, no_tangent, scope_and_position
from ftrace.trace.symbolic import Dim, is_dynamic, same_size, upper_bound

if TYPE_CHECKING:
    from ftrace.trace.tracing.scopes import Scope

#: Transforms under which a function with rules needs them.
DIFFERENTIATING = ("grad", "jvp", "vjp", "linearize")
#: Transforms to lanes: why a value is not known, and how else it is given.
IN_LANES = {
    "vmap": ("is batched", "give it in_axes None"),
    "pmap": ("differs between devices", "name it in static_broadcasted_argnums"),
    "shard_map": ("differs between devices", "let the function close over it"),
}
_IN_NONE = "is not known while tracing", ""

Value = Any  # Array | Tracer | numpy.ndarray | Python scalar
Function = Callable[..., Any]  # of the user's
#: What NumPy's values are instances of.
NUMPY: tuple[type[Any], ...] = (np.ndarray, np.generic)


class _Stack(threading.local):
    """The open scopes of a thread, outermost first.

    Attributes:
      scopes: all of them.
      floor: those below are out of sight: a callback runs while they are open.
      asked: how often the value of a tracer was asked for.
      axes: the axes with names, the innermost last: see `Axis`.
      running: of the rules of the user's that run with values, the levels
        (`transforms/custom/rules_on_values.py`).
    """

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.floor = 0
        self.asked = 0
        self.running: list[Any] = []
        self.axes: tuple[Any, ...] = ()


stack = _Stack()


def in_rule() -> bool:
    """Does a rule of the user's run with values?"""
    return bool(stack.running)


#: As many entries as scopes are open in all threads: native code looks at its length.
open_in_all_threads: list[None] = []


class Tracer(Immutable, ArrayLike):
    """Stands for an array while a function is traced."""

    __slots__ = ("__weakref__", "node", "origin", "scope")

    def __init__(self, node: Node, scope: Scope, origin: Origin | None = None) -> None:
        self.node = node
        self.scope = scope
        # The node is shared by all who compute the same: its origin may be another
        # line. A variable was made by the caller of the function.
        self.origin = origin or (
            scope.origin if is_variable(node) else provenance.caller or user_origin()
        )

    @property
    def aval(self) -> Any:
        """The type, for people: within `shard_map` it tells where the value differs."""
        return backend().typeof(self) if stack.axes else self.node.aval

    @property
    def _trace(self) -> Scope:
        """The scope, where libraries written for JAX look for it."""
        return self.scope

    @property
    def shape(self) -> Shape:
        return self.node.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.node.aval.dtype

    @property
    def weak_type(self) -> bool:
        return self.node.aval.weak_type

    def __repr__(self) -> str:
        return f"Tracer<{self.node.aval!r}, {self.scope.transform}>"

    def __str__(self) -> str:
        if not self.scope.closed and unbound_variable(self.node) is None:
            return str(concrete(self))
        return repr(self)

    def __bool__(self) -> bool:
        value = self._python("bool", errors.TracerBoolConversionError)
        return bool(value)

    def __int__(self) -> int:
        return int(self._python("int", errors.TracerIntegerConversionError))

    def __index__(self) -> int:
        value = self._python("index", errors.TracerIntegerConversionError)
        if not dtypes.is_integer(self.dtype):
            raise errors.ArgumentError(
                f"an index must be an integer, got {self.aval!r}"
            )
        return int(value)

    def __float__(self) -> float:
        return float(self._python("float", ConcretizationTypeError, keeps=True))

    def __complex__(self) -> complex:
        return complex(self._python("complex", ConcretizationTypeError, keeps=True))

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        _require_concrete(self, "format", ConcretizationTypeError)
        return format(Array.of(concrete(self)), spec)

    def item(self, *index: Any) -> Any:
        """The element as a Python scalar, where the value is known; it has no slope."""
        if not index:
            return self._python("item", ConcretizationTypeError).item()
        _require_concrete(self, "item", ConcretizationTypeError)
        return concrete(self).item(*index)

    def tolist(self) -> Any:
        """Nested lists of Python scalars, where the value is known."""
        _require_concrete(self, "tolist", ConcretizationTypeError, keeps=True)
        return concrete(self).tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """The bytes of the elements, where the value is known."""
        _require_concrete(self, "tobytes", ConcretizationTypeError)
        return concrete(self).tobytes(order)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as a NumPy array, where they are known."""
        _require_concrete(self, "numpy", errors.TracerArrayConversionError, keeps=True)
        return np.array(concrete(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        _require_concrete(
            self, "numpy.asarray", errors.TracerArrayConversionError, keeps=True
        )
        value = np.array(concrete(self))
        return value if dtype is None else value.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kw: Any) -> Any:
        function = functions.get(ufunc.__name__)
        if method != "__call__" or function is None or kw.get("out") is not None:
            self._no_numpy("numpy", ufunc.__name__, method)
        return function(*args, **kw)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        function = functions.get(func.__name__)
        if function is None or func.__module__ != "numpy":
            if not self.scope.closed and unbound_variable(self.node) is None:
                return NotImplemented
            self._no_numpy(func.__module__, func.__name__)
        if function is func:  # NumPy's own, which reads the values
            args = [np.asarray(x) if isinstance(x, Tracer) else x for x in args]
        return function(*args, **kwargs)

    def _no_numpy(self, module: str, name: str, method: str = "__call__") -> NoReturn:
        ours = hasattr(sys.modules.get(f"ftrace.{module}"), name)
        advice = (
            f"call ftrace.{module}.{name} instead"
            if ours and method == "__call__"
            else "compose it of functions of ftrace.numpy, or compute it outside of "
            f"the function under {self.scope.transform}"
        )
        called = f"{module}.{name}" + ("" if method == "__call__" else f".{method}")
        raise errors.TracerArrayConversionError(
            f"{called} was called on a traced value of type {self.aval!r}, which has "
            f"no elements yet; {advice}"
        )

    def _python(
        self, what: str, error: type[ConcretizationTypeError], keeps: bool = False
    ) -> Any:
        if not same_size(self.node.size, 1):
            raise errors.ArgumentError(
                f"{what}() takes an array of one element, got {self.aval!r}; use "
                "any() or all()"
            )
        _require_concrete(self, what, error, keeps)
        return concrete(self).reshape(())[()]

    def block_until_ready(self) -> Tracer:
        return self


def check_open(tracer: Tracer) -> None:
    """Raises if the function that made the tracer has returned."""
    if tracer.scope.closed:
        where = line_of(tracer, "it was made")
        raise errors.UnexpectedTracerError(
            f"a traced value of type {tracer.aval!r} escaped from its function under "
            f"{tracer.scope.transform} and was used after the function had returned; "
            f"return it from the function instead of storing it{where}"
        )


def line_of(tracer: Tracer, what: str) -> str:
    """What messages end with, where that is known."""
    return f"\n  {what} at {tracer.origin.describe()}" if tracer.origin else ""


def find_adopted(tracer: Tracer) -> Value:
    """What stands for a traced value of a function that has returned.

    That is its value while a rule runs that belongs to that function.

    Raises:
      UnexpectedTracerError: no open scope has adopted it.
    """
    found = _adopt(tracer)
    if found is None:
        check_open(tracer)
        return tracer
    return found


def _adopt(tracer: Tracer) -> Value | None:
    for scope in reversed(stack.scopes):
        node = scope.adopted.get((tracer.scope, tracer.node))
        if node is not None:
            return scope.wrap(node)
    for level in reversed(stack.running):
        if level.scope is tracer.scope:
            return level.move_out([tracer])[0]
    return _constant(tracer)


def _constant(tracer: Tracer) -> Value | None:
    """The value of what depends on no argument of a function that is not jitted.

    JAX computes it at once, and so it may be kept, as in a table of results.
    """
    scope, node = tracer.scope, tracer.node
    if not (scope.bound or scope.transform in IN_LANES) or scope.isolated:
        return None
    known = dict(scope.values)
    for leaf in toposort([node], known):
        if is_variable(leaf):
            depth, index = scope_and_position(leaf)
            own = depth == scope.depth and index >= scope.arguments
            binding = scope.bindings[index] if own else None
            if binding is None or isinstance(binding, Tracer):
                return None
            known[leaf] = np.asarray(binding)
    scope.values[node] = evaluate([node], known)[0]
    return functions["asarray"](scope.values[node]).astype(node.dtype)


def has_ended(value: Any) -> bool:
    """Is it traced, by a function that has returned, and nothing stands for it?"""
    return isinstance(value, Tracer) and value.scope.closed and _adopt(value) is None


# Concrete values of tracers.


def unbound_variable(node: Node) -> tuple[Scope, Node] | None:
    """A variable that `node` needs and that has no value, with its scope."""
    stack.asked += 1
    for leaf in toposort([node]):
        if is_variable(leaf) and leaf.aval is not TOKEN:
            depth, index = scope_and_position(leaf)
            scope = stack.scopes[depth]
            binding = scope.bindings[index]
            if binding is None:
                return scope, leaf
            if isinstance(binding, Tracer):
                outer = unbound_variable(binding.node)
                if outer is not None:
                    return outer
    return None


def derivative_scope(tracer: Tracer) -> Scope | None:
    """The scope of a derivative that a known value varies with; None without."""
    pending, seen = [tracer.node], {tracer.node}
    while pending:
        node = pending.pop()
        moves = any(dtypes.is_inexact(a.dtype) for a in node.aval.items)
        if not moves:
            continue
        if is_variable(node):
            depth, index = scope_and_position(node)
            scope = stack.scopes[depth]
            mine = scope.transform in DIFFERENTIATING and depth >= stack.floor
            moving: Any = scope.level.moving if scope.level else ()
            if mine and (index < scope.arguments or node in moving):
                return scope
            binding = scope.bindings[index]
            if isinstance(binding, Tracer):
                pending.append(binding.node)
        if getattr(node.op, "jvp", None) is no_tangent:
            continue
        sources = [x for x in node.src if x not in seen]
        seen.update(sources)
        pending += sources
    return None


def _in_call() -> str:
    """What messages begin with: the function of ours that the user has called."""
    name = called_function()
    return f"{name}: " if name else ""


def _require_concrete(
    tracer: Tracer, what: str, error: type[ConcretizationTypeError], keeps: bool = False
) -> None:
    """Raises where the value is not known, or what is asked would lose a derivative.

    Args:
      keeps: whoever asks keeps the number, or all of them.
    """
    value = find_adopted(tracer) if tracer.scope.closed else tracer
    if not isinstance(value, Tracer):
        return
    found = unbound_variable(value.node)
    if found is None:
        moving = derivative_scope(value) if keeps else None
        if moving is None:
            return
        chain = line_of(tracer, "the value was computed")
        raise error(
            f"{_in_call()}{what}() would take the value of an array of type "
            f"{tracer.aval!r} that varies with an argument of a function under "
            f"{moving.transform}, and lose its derivative. Compute with the array "
            "itself, as by ftrace.numpy.stack([x, y]), or a.at[i].set(x) in place of "
            f"a[i] = x; or write stop_gradient(x) for x where it is a constant.{chain}"
        )
    scope, leaf = found
    why, other = IN_LANES.get(scope.transform, _IN_NONE)
    mark = other or "mark the argument in static_argnums"
    use = other or "use static_argnums or static_argnames of jit"
    static = f"{use[0].upper()}{use[1:]} if it is a Python value"
    advice = {
        "bool": f"Use ftrace.numpy.where, or {mark} if it is a Python value",
        "int": static,
        "index": static,
        "format": 'Print it when the program runs: ft.debug.print("loss {:.3f}", x)',
        "numpy.asarray": "Call the function of ftrace.numpy instead of NumPy's",
    }.get(what, "Compute with it through ftrace.numpy, or return it")
    chain = line_of(tracer, "the value was computed")
    raise error(
        f"{_in_call()}{what}() needs the value of an array of type {tracer.aval!r}, "
        f"which {why}: it depends on an argument of type {leaf.aval!r} of a function "
        f"under {scope.transform}. {advice}.{chain}"
    )


def concrete(tracer: Tracer) -> Any:
    """The value of a tracer all of whose variables are bound: a NumPy array."""
    stack.asked += 1
    if tracer.scope.closed:
        found = find_adopted(tracer)
        return concrete(found) if isinstance(found, Tracer) else np.asarray(found)
    values = tracer.scope.values
    node = tracer.node
    if node not in values:
        known = dict(values)
        for leaf in toposort([node]):
            if leaf.aval is TOKEN and is_variable(leaf):
                # Effects happen when the function has returned, and not now.
                known[leaf] = np.uint8(REHEARSAL)
            elif is_variable(leaf) and leaf not in known:
                depth, index = scope_and_position(leaf)
                binding = stack.scopes[depth].bindings[index]
                known[leaf] = (
                    concrete(binding)
                    if isinstance(binding, Tracer)
                    else np.asarray(binding)
                )
        values[node] = evaluate([node], known)[0]
    return values[node]


# Values and their types.


def aval_of(value: Value) -> ShapedArray:
    """Shape, dtype and weakness of anything that can be an operand.

    Raises:
      ArgumentError: it is no array and no scalar, or a masked array.
      DtypeError: its dtype is not one of ours.
    """
    if isinstance(value, Tracer):
        return value.node.aval
    if isinstance(value, ArrayLike):
        array: Any = value
        try:
            return array._aval
        except AttributeError:
            found = ShapedArray.of(array._shape, array._dtype, array.weak_type)
            array._aval = found
            return found
    if isinstance(value, NUMPY):
        if type(value) is not np.ndarray:
            check_unmasked(value)
        dtype, weak = dtypes.numpy_type(value)
        dtypes.kind(dtype)
        if weak and dtype is dtypes.int64 and not _LEAST_INT32 <= value <= _MOST_INT32:
            return LargeInteger.of_dtype(dtype)
        return ShapedArray.of(value.shape, dtype, weak)
    if isinstance(value, (bool, int, float, complex)):
        dtype, weak = dtypes.scalar_type(value)
        if type(value) is int and dtype is not dtypes.default_dtype("i"):
            return LargeInteger.of_dtype(dtype)
        return ShapedArray.of((), dtype, weak)
    if is_dynamic(value):
        if upper_bound(value) > dtypes.limits(dtypes.int32)[1]:
            return ShapedArray.of((), dtypes.int64, True)
        return ShapedArray.of((), *dtypes.scalar_type(0))
    array_of = stands_for(value)
    if array_of is not None:
        return aval_of(array_of())
    advice = (
        "convert it with ftrace.numpy.asarray"
        if type(value) in (list, tuple)
        else "pass an array of numbers"
    )
    raise errors.ArgumentError(
        f"{_in_call()}an array or a number is required, got {type(value).__name__}: "
        f"{reprlib.repr(value)}; {advice}"
    )


def check_unmasked(value: Any) -> None:
    """Raises for a masked array of NumPy's: an Array cannot hold its mask."""
    masked: type[Any] = np.ma.MaskedArray
    if isinstance(value, masked):
        raise errors.ArgumentError(
            f"an array without a mask is required, got a masked array of shape "
            f"{value.shape}: its mask would be lost. Write x.filled(0), with what is "
            "to stand in the masked places; or pass x.data, and the mask to where="
        )


def is_value(value: Any) -> bool:
    """Can `aval_of` say what it is?"""
    return isinstance(
        value, (ArrayLike, np.ndarray, np.generic, bool, int, float, complex, Dim)
    ) or (stands_for(value) is not None)


class _ArraysOf(dict[type[Any], Callable[[Any], Any]]):
    """By the type of objects what gives the array that they stand for.

    Those are here that do not say it themselves; what NumPy knows needs no entry.
    """

    def __missing__(self, kind: type[Any]) -> Callable[[Any], Any]:
        return np.asarray


arrays_of = _ArraysOf()


def stands_for(value: Any) -> Any:
    """What gives the array that an object stands for; None if it does not."""
    if isinstance(value, type):
        return None
    if type(value) in arrays_of:
        return partial(arrays_of[type(value)], value)
    own = getattr(value, "__ftrace_array__", None)
    return getattr(value, "__jax_array__", None) if own is None else own


def find_array(value: Any) -> Any:
    """The array that an object stands for; anything else as it is."""
    array_of = None if isinstance(value, ArrayLike) else stands_for(value)
    return value if array_of is None else array_of()


#: What an integer that decides nothing about its dtype is between.
_LEAST_INT32, _MOST_INT32 = dtypes.limits(dtypes.int32)
#: Integers that take the dtype of what is beside them.
_INTEGERS: dict[type[Any], str] = {int: "Python int", np.int64: "numpy.int64"}


def check_fits(value: complex, dtype: np.dtype[Any]) -> None:
    """Raises if an int, of Python's or a weak one of NumPy's, does not fit a dtype.

    Of traced ones those are known that int32 does not hold.
    """
    if type(value) is Tracer:
        is_large = type(value.node.aval) is LargeInteger
        if is_large and dtypes.is_integer(dtype) and dtype.itemsize < 8:
            raise errors.DtypeOverflowError(
                f"an integer argument below {_LEAST_INT32} or above {_MOST_INT32} does "
                f"not fit {dtype}; take a wider dtype, or pass a float",
                value.origin,
            )
    elif type(value) in _INTEGERS and dtypes.is_integer(dtype):
        low, high = dtypes.limits(dtype)
        if not low <= value <= high:
            raise errors.DtypeOverflowError(
                f"{_INTEGERS[type(value)]} {value} does not fit {dtype}, which holds "
                f"{low} to {high}; take a wider dtype, or write it as a float"
            )


def wrap_integer(value: Any, dtype: np.dtype[Any]) -> Any:
    """A value that meets an array of `dtype`: an int wraps, as a traced one does.

    It is one of the default dtype first: what that does not hold has to fit.

    Raises:
      DtypeOverflowError: it does not.
    """
    if type(value) in _INTEGERS and dtypes.is_integer(dtype):
        low, high = dtypes.limits(dtype)
        least, most = dtypes.limits(dtypes.default_dtype("i"))
        if not low <= value <= high and least <= value <= most:
            return (int(value) - low) % (high - low + 1) + low
    check_fits(value, dtype)
    return value


# Axes with names: those that transforms around this point of a function have bound.
#
# An axis is bound to a variable, the number of the instance: collectives along the axis
# have it as an operand (`primitives/reduction.py`), so that they are batched, and stand
# in bodies of loops, like all that uses a variable.


@dataclass(frozen=True)
class Axis:
    """An axis with a name.

    Attributes:
      name: anything that can be hashed.
      size: how many instances there are.
      index: the number of this one; an int where there is no other.
      devices: of an axis of devices their mesh.
      checked: it is known which values differ along it (`calls/varying.py`).
    """

    name: Any
    size: int
    index: Tracer = field(compare=False)
    devices: Any = None
    checked: bool = False


@contextmanager
def bind_axes(*axes: Axis) -> Generator[None]:
    """A block in which these axes have names, beside those around it."""
    with standing(*stack.axes, *axes):
        yield


@contextmanager
def standing(*axes: Axis) -> Generator[None]:
    """A block in which these axes have names, and no others."""
    before, stack.axes = stack.axes, axes
    try:
        yield
    finally:
        stack.axes = before


def axis_of(name: Any, what: str) -> Axis:
    """The innermost axis of a name.

    Args:
      what: the function that asks, for the message.

    Raises:
      AxisNameError: there is none.
    """
    for axis in reversed(stack.axes):
        if axis.name == name:
            return axis
    names = ", ".join(sorted({repr(axis.name) for axis in stack.axes}))
    over = any(axis.devices for axis in stack.axes)
    advice = (
        "those of shard_map are axes of its mesh, in axis_names where that is given"
        if over
        else f"name one with axis_name={name!r} of vmap or pmap"
    )
    raise AxisNameError(
        f"{what}: unbound axis name: {name}. "
        + (f"The axes here are {names}" if names else "No axis has a name here")
        + f"; {advice}"
    )
