"""Eager calls become records: what Python's code did is done again without it.

A call that has come often is made once more in Python with a tape on
(`trace.eager.composite`). The steps from its arguments to its result, in the order
in which they were done, become a function of what NumPy has of its arguments, and where
they can NumPy's loops over their elements: that is what its record does.

    Steps         the steps of the tape that lead from values to the results
    EagerRecords  counts calls and makes records of them
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np

from ftrace.backends.base import Expected, Fixed, Signature
from ftrace.backends.llvm.call.numpy_loops import NumpyLoops
from ftrace.backends.llvm.call.record_jitted import NotNative, Plan, RecordedCall
from ftrace.backends.llvm.runtime.ufunc_loops import NotLoops
from ftrace.ground import settings
from ftrace.ground.fork_safe import fresh_after_fork
from ftrace.ground.tables import memo
from ftrace.trace.arrays.array import Array, recording
from ftrace.trace.avals import ShapedArray
from ftrace.trace.eager.composite import Made, Number, Step as Taped, Tape
from ftrace.trace.eager.dispatch import Kind, calls, kind_of
from ftrace.trace.eager.function_objects import Eager
from ftrace.trace.graph import walk
from ftrace.trace.primitives import reference
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.structure_cache import (
    Container,
    LayoutNode,
    Leaf,
    Nothing,
    layout_of,
)
from ftrace.trace.tiering import (
    BYTES_RETAINED,
    CALLS_BEFORE_RECORD,
    LEAVES,
    RESULTS,
    Tally,
)
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import aval_of

_copied: Any = vars(np.ndarray)["copy"]
_astype: Any = vars(np.ndarray)["astype"]
_view: Any = vars(np.ndarray)["view"]


def _another(x: Any) -> Any:
    """Another object of the same value, as which it is noted; an integer is itself.

    An array of NumPy's is row-major then: as such it shares memory the most.
    """
    if x.__class__ is np.ndarray:
        return x.view() if x.flags.c_contiguous else x.copy()
    if x.__class__ is not Array:
        return x * 1.0 if x.__class__ is float else x
    values = x.numpy()  # all of them see it
    return Array(x.shape, x.dtype, x.weak_type, x.stored, values)


def _stand_in(x: Any, tape: Tape) -> Any:
    """What a function is given for a leaf: of an array of NumPy's an Array of it.

    Whatever looks at the values of an Array is known.
    """
    if type(x) is not np.ndarray:
        return x
    made = asarray(x)
    tape.note_leaf(x, made)
    return made


def _aval_of(x: Any) -> ShapedArray:
    """The type of a leaf; of an array of NumPy's as it is, before it is rounded."""
    return ShapedArray.of(x.shape, x.dtype) if type(x) is np.ndarray else aval_of(x)


def _can_be_leaf(x: Any, function: Eager) -> bool:
    """Is it no array of NumPy's, or one as native code takes it?"""
    if type(x) is not np.ndarray:
        return True
    kinds = "efdFD?bBhHiIlLqQ" if np.integer in function.numbers else "efdFD"
    return x.dtype.isnative and x.dtype.char in kinds


def _expect(part: LayoutNode, leaves: Sequence[Expected]) -> Any:
    """A layout with what is expected in the place of each leaf."""
    if isinstance(part, Leaf):
        return leaves[part.number]
    if isinstance(part, Container):
        children = tuple([_expect(child, leaves) for child in part.children])
        return Container(part.kind, part.keys, children)
    return part


# Steps.


class Steps:
    """The steps of a tape that lead to some results, as a function of the leaves.

        def call(x0, x1):
            v0 = c0(x0, c1)
            v1 = c2(v0, x1)
            return v1

    Each is done once meanwhile: what NumPy returns of the wrong dtype, or as a number,
    is made an array of the right one. What is made of constants alone is one. Functions
    of `primitives.reference` become the steps that they consist of.

    Args:
      fresh: the objects that stood for the leaves.
      results: Arrays, of which some may be arguments, and what is always the same.
      own: see `NumpyLoops`.

    Attributes:
      plan: what a record does.

    Raises:
      NotNative: something in between is not on the tape.
    """

    def __init__(
        self,
        tape: Tape,
        fresh: Sequence[Any],
        results: Any,
        own: Mapping[int | str, int],
    ) -> None:
        self._lines: list[str] = []
        self._done: list[tuple[Any, Sequence[str], str]] = []
        self._scope: dict[str, Any] = {"asarray": np.asarray}
        self._values = {
            f"x{i}": x.numpy() if type(x) is Array else x for i, x in enumerate(fresh)
        }
        leaves = [*self._values]
        self._names = dict(zip(map(id, fresh), leaves, strict=True))
        self._constants = {id(x): x.numpy() for x in tape.constants}
        made = {id(step.result): step for step in tape.steps}
        for step in _find_needed(tape.steps, made, results):
            result, operands = step.result, [self._operand(x) for x in step.operands]
            module = getattr(step.function, "__module__", "")
            # What primitives mean, where that is no function of NumPy's.
            call = self._unroll if module == reference.__name__ else self._call
            self._names[id(result)] = call(step.function, operands, result.dtype)
        returned = [self._name_result(x) for x in results]
        values = [*dict.fromkeys(x for x in returned if x not in leaves)]
        foreign = [x for x in fresh if type(x) is np.ndarray]
        for x, name in product(foreign, returned):
            if np.may_share_memory(x, self._values[name]):
                raise NotNative  # the result would change with it
        sources = [[*leaves, *values].index(x) for x in returned]
        many = 0 if len(values) == 1 else len(values)
        try:
            loops = NumpyLoops(self._done, self._values, leaves, values, own)
        except NotLoops:
            loops = None
        self.plan = Plan(self._function(leaves, values), many, sources, loops)

    def _operand(self, x: Any) -> str:
        """The name of a value; a number may be one in a dtype."""
        name = self._names.get(id(x))
        if name is None:
            if id(x) in self._constants:
                x = self._constants[id(x)]
            if type(x) in (Array, Made):
                raise NotNative
            if type(x) is Number:
                kind: Any = x.dtype.type
                leaf = self._names.get(id(x.value))
                if leaf is not None:
                    return self._call(kind, [leaf])
                x = kind(x.value)
            name = self._constant(x)
        return name

    def _constant(self, x: Any) -> str:
        name = f"c{len(self._scope)}"
        self._scope[name] = self._values[name] = x
        return name

    def _call(self, function: Any, operands: Sequence[str], dtype: Any = None) -> str:
        value = function(*[self._values[name] for name in operands])
        converts = dtype and (type(value), value.dtype) != (np.ndarray, dtype)
        value = np.asarray(value, dtype) if converts else value
        if (
            self._scope.keys() >= {*operands}
            and function is not _copied
            and _is_small(value)
        ):
            return self._constant(value)
        text = f"{self._constant(function)}({', '.join(operands)})"
        if converts:
            text = f"asarray({text}, {self._constant(dtype)})"
        name = f"v{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        self._done.append((function, operands, name))
        self._values[name] = value
        return name

    def _unroll(self, function: Any, operands: Sequence[str], dtype: Any) -> str:
        """`_call`, by the functions of NumPy's that this one calls.

        Not if it does something else, or looks at values.
        """
        begun = len(self._lines)
        with suppress(AttributeError, OverflowError, TypeError):
            found = function(*map(self._symbol, operands))
            if type(found) is _Symbol and found.dtype == dtype:
                return found.name
        del self._lines[begun:], self._done[begun:]
        return self._call(function, operands, dtype)

    def _symbol(self, name: str) -> Any:
        """What stands for a value; a constant is itself."""
        value = self._values[name]
        return value if name in self._scope else _Symbol(self, name, value)

    def call_symbols(self, function: Any, operands: Sequence[Any]) -> Any:
        """A function of symbols, and of constants."""
        dtype = [x.dtype for x in operands if hasattr(x, "dtype")][-1]
        names: list[str] = []
        for x in operands:
            if type(x) in (bool, int, float) and np.result_type(dtype, x) == dtype:
                x = dtype.type(x)
            names.append(x.name if type(x) is _Symbol else self._constant(x))
        value = function(*[self._values[name] for name in names])
        return self._symbol(self._call(function, names, value.dtype))

    def _name_result(self, result: Any) -> str:
        """The name of a result's value; of an argument that of the leaf."""
        if isinstance(result, np.dtype):  # no value decides it
            return self._constant(result)
        if type(result) is not Array:
            raise NotNative
        name = self._operand(result)
        if name not in self._scope:
            return name
        if not _is_small(self._values[name]):
            raise NotNative
        # Each call has elements of its own.
        return self._call(_copied, [name])

    def _function(self, leaves: Sequence[str], values: Sequence[str]) -> Any:
        given, returned = ", ".join(leaves), ", ".join(values)
        if self._lines == [f"v0 = c1({given})"] and returned == "v0":
            return self._scope["c1"]
        lines = [f"def call({given}):", *self._lines, f"return {returned}"]
        exec(_code("\n  ".join(lines)), self._scope)
        call = self._scope.pop("call")
        for name in self._scope.keys() - {*call.__code__.co_names}:
            del self._scope[name]  # it led to another constant
        return call


class _Symbol(np.lib.mixins.NDArrayOperatorsMixin):
    """Stands for a value of steps: a function of NumPy's of it becomes one more."""

    def __init__(self, steps: Steps, name: str, value: Any) -> None:
        self.name, self._steps = name, steps
        self.dtype, self.shape, self.ndim = value.dtype, value.shape, value.ndim

    def __array_ufunc__(self, ufunc: Any, how: str, *args: Any, **options: Any) -> Any:
        plain = how == "__call__" and not options
        return self._steps.call_symbols(ufunc, args) if plain else NotImplemented

    def __array_function__(
        self, function: Any, types: Any, args: Any, options: Any
    ) -> Any:
        return NotImplemented if options else self._steps.call_symbols(function, args)

    def astype(self, dtype: Any) -> Any:
        return self._steps.call_symbols(_astype, (self, dtype))

    def view(self, dtype: Any) -> Any:
        return self._steps.call_symbols(_view, (self, dtype))

    def __bool__(self) -> bool:
        raise TypeError  # a value decides

    def __array__(self, *_: Any, **options: Any) -> Any:
        raise TypeError


def _is_small(value: Any) -> bool:
    parts = value if value.__class__ is tuple else (value,)
    return sum([getattr(x, "nbytes", 0) for x in parts]) <= BYTES_RETAINED


@memo(1024)
def _code(source: str) -> Any:
    return compile(source, "<calls of NumPy>", "exec")


def _find_needed(
    steps: Sequence[Taped], made: dict[int, Taped], results: Sequence[Any]
) -> list[Taped]:
    def makers(values: Sequence[Any]) -> list[Taped]:
        return [made[id(x)] for x in values if id(x) in made]

    needed = set(walk(makers(results), lambda step: makers(step.operands)))
    return [step for step in steps if step in needed]


# Records.


class EagerRecords:
    """The records of all public functions.

    Args:
      native: the native code of this process.
      recording: a word that is not 0 while a call is recorded.
    """

    def __init__(self, native: Any, recording: Any) -> None:
        self._native = native
        self._recording = recording
        self._lock = fresh_after_fork(threading.Lock())

    def call(self, function: Eager, args: tuple[Any, ...], kwargs: Any) -> Any:
        """A call for which there is no record; one that comes often gets one."""
        due = self._due(function, args, kwargs)
        # Only one is recorded at a time; where a fork left it locked, none.
        if due is None or not self._lock.acquire(blocking=False):
            return function.behind(*args, **kwargs)
        # What stands for an array of NumPy's may not do, or the result has its memory.
        foreign = any(type(x) is np.ndarray for x in due[1])
        try:
            result = self._record(function, *due, (*kwargs,))
            if not foreign:
                return result
        except Exception:
            if not foreign:
                raise
        finally:
            self._lock.release()
        return function.behind(*args, **kwargs)

    def _due(
        self, function: Eager, args: Any, kwargs: Any
    ) -> tuple[Kind, list[Any]] | None:
        """Counts a call: its kind and its values where it is to be recorded."""
        config = settings.current()
        observed = config.checks_calls or config.observed
        native = config.native_calls and not observed
        if recording.tape is not None or not native:
            return None
        try:
            kind, values = kind_of(args, kwargs, (Array, np.ndarray, *function.numbers))
        except (LookupError, RecursionError):  # or nested too deep
            return None
        if not all(_can_be_leaf(x, function) for x in values):
            return None
        numbers = [id(x) for x in (*values, *kind.leaves) if type(x) is int]
        if int in function.numbers and len({*numbers}) < len(numbers):
            return None  # steps could not tell which of two they are of
        types: Any = [
            (type(x), _aval_of(x) if hasattr(x, "dtype") else None) for x in values
        ]
        key = ("native", function, id(config), *kind.key, *types)
        # Whose record was dropped waits twice as long for the next one.
        due = calls.once(key, Tally).doubles(CALLS_BEFORE_RECORD)
        return (kind, values) if due and len(kind.leaves) <= LEAVES else None

    def _record(
        self,
        function: Eager,
        kind: Kind,
        values: Sequence[Any],
        names: Sequence[str],
    ) -> Any:
        fresh, tape = list(map(_another, values)), Tape()
        args, kwargs = kind.arguments([_stand_in(x, tape) for x in fresh])
        recording.tape = tape
        self._recording[0] = 1
        try:
            result = function.behind(*args, **kwargs)
        finally:
            recording.tape = None
            self._recording[0] = 0
        own = {id(x): value for x, value in zip(fresh, values, strict=True)}
        results, treedef = tree.flatten(result)
        root = layout_of(kind.treedef)
        if root is not None:
            leaves = [x if type(x) is Leaf else Fixed(x, True) for x in kind.leaves]
            positional, named = _expect(root, leaves).children
            types: list[Any] = [(type(x), _aval_of(x)) for x in values]
            by_name = dict(zip(named.keys, named.children, strict=True))
            asked = {name: by_name[name] for name in names}
            avals = tuple([aval_of(x) if type(x) is Array else None for x in results])
            if not values:  # what decides is fixed
                tape.constants += [x for x in results if type(x) is Array]

            plan, part, layout = Plan(), Nothing(), layout_of(treedef)
            native = 0 < len(results) <= RESULTS and not tape.refused
            if layout is not None and native:
                # A step may want an array.
                with suppress(NotNative, TypeError), np.errstate(all="ignore"):
                    plan = Steps(tape, fresh, results, self._native.loops).plan
                    part = layout
            facts: Any = asked, tuple(types), (), (), (), part, avals
            signature = Signature(settings.current(), positional.children, *facts)
            function.add_record(RecordedCall(self._native, signature, plan=plan))
        return tree.unflatten(treedef, [own.get(id(x), x) for x in results])
