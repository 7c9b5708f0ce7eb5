"""Eager calls become records: what Python's code did once is done again without it.

A call is made once more in Python with a tape on (`trace.tape`). The steps from its
arguments to its result, in the order in which they were done, are the record.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ftrace import settings
from ftrace.array import Array, ArrayLike, watch
from ftrace.devices.llvm.calling.fronts import BY_VALUE, PLACES, TRIED
from ftrace.devices.llvm.calling.looping import Call, Looping, Place
from ftrace.devices.llvm.calling.performing import Front, Step
from ftrace.devices.llvm.calling.records import RESULT, ResultPart
from ftrace.devices.llvm.runner.records import Block
from ftrace.trace.evaluate import settle
from ftrace.trace.tape import Number, Tape, Value, recording
from ftrace.trace.tape import Step as Taped
from ftrace.trace.tracer import aval_of

if TYPE_CHECKING:
    from ftrace.devices.llvm.calling.native import Native

#: Functions that never tell of floating-point errors.
_SILENT = ("reshape", "transpose", "getitem", "where", "concatenate", "asarray")

#: Methods of arrays that are no operators.
_NAMED = (
    "all", "any", "argmax", "argmin", "astype", "clip", "conj", "conjugate", "copy",
    "cumprod", "cumsum", "diagonal", "dot", "flatten", "max", "mean", "min", "prod",
    "ptp", "ravel", "reshape", "round", "squeeze", "std", "sum", "swapaxes",
    "trace", "transpose", "var",
)  # fmt: skip
_NO_OPERATORS = ("__setitem__", "__delitem__", "__len__", "__iter__", "__round__")


def operator_names() -> list[str]:
    """The operators of arrays: floats are operands of them."""
    return [
        name
        for name, value in vars(ArrayLike).items()
        if name.startswith("__")
        and name not in _NO_OPERATORS
        and type(value) is FunctionType
    ]


#: Properties of arrays that are arrays.
PROPERTIES = ("T", "mT", "real", "imag")


def method_names() -> list[str]:
    """The methods and properties whose calls may be native, operators first."""
    return [*operator_names(), *_NAMED, *PROPERTIES]


def method_of(name: str) -> Any:
    """What Python's code does for it."""
    value = vars(ArrayLike)[name]
    return value.fget if isinstance(value, property) else value


#: Bytes of an array that a record keeps to copy it, at the most.
KEPT = 1 << 16
_copied: Any = vars(np.ndarray)["copy"]


class Unlearnable(Exception):
    """Calls of this kind stay with Python's code."""


class Arguments:
    """The arguments of a call, taken apart as the native code does it.

    Args:
      by_value: floats are fixed.

    Attributes:
      given: the arrays and floats among them.
      fresh: an object of its own for each of these.
      fixed: all other objects.
      renewed: the arguments with these objects.
    """

    def __init__(self, args: tuple[Any, ...], by_value: bool) -> None:
        self._by_value = by_value
        self.given: list[Any] = []
        self.fresh: list[Any] = []
        self.fixed: list[Any] = []
        self.renewed: list[Any] = [self._renew(x) for x in args]

    def _renew(self, x: Any) -> Any:
        if type(x) in (list, tuple):
            self.fixed.append(type(x))
            return type(x)([self._renew(item) for item in x])
        if type(x) is Array:
            x.numpy()  # all of them see it
            return self._leaf(x, _shown_again(x))
        if type(x) is float and not self._by_value:
            return self._leaf(x, x * 1.0)
        self.fixed.append(x)
        return x

    def own(self, result: Any) -> Any:
        """A result; where it is an argument, that argument."""
        for given, fresh in zip(self.given, self.fresh, strict=True):
            if result is fresh:
                return given
        return result

    def _leaf(self, given: Any, fresh: Any) -> Any:
        self.given.append(given)
        self.fresh.append(fresh)
        return fresh


def _shown_again(x: Array) -> Array:
    """Another Array of the same values."""
    return Array(x.shape, x.dtype, x.weak_type, x.stored, x.numpy())


def _called(function: Any, args: Sequence[Any], names: tuple[str, ...] | None) -> Any:
    if names is None:
        return function(*args)
    count = len(args) - len(names)
    return function(*args[:count], **dict(zip(names, args[count:], strict=True)))


class Record:
    """The steps of calls of one kind, in memory.

    Args:
      key: the words of the key, and the hash.
      arguments: those of the call that was learned.
      keeps: what the key refers to besides.
    """

    def __init__(self, key: bytes, arguments: Arguments, keeps: Sequence[Any]) -> None:
        *words, self.hash = np.frombuffer(key, np.int64).tolist()
        self._avals = [
            aval_of(x) if type(x) is Array else None for x in arguments.given
        ]
        self._keeps: list[Any] = [*keeps, *arguments.fixed, *self._avals]
        self._block = Block()
        self._words = words
        self._leaves = len(arguments.given)
        self.address = 0

    def _refer(self, thing: Any) -> int:
        self._keeps.append(thing)
        return id(thing)

    def leave_to_python(self) -> None:
        self._lay([], 0, False, False, 0)

    def give_back(self, number: int) -> None:
        """The result is an argument."""
        self._lay([], number, True, False, 0)

    def repeat(
        self, steps: Sequence[Call], result: Array, looping: Looping | None
    ) -> None:
        """The result is that of the last step."""
        rows: list[tuple[Any, ...]] = []
        for number, step in enumerate(steps, self._leaves):
            words = [0 if type(x) is Place else self._refer(x) for x in step.operands]
            places: list[int] = []
            for i, x in enumerate(step.operands):
                if type(x) is Place:
                    places += [i, x.number]
            rows.append(
                Step(
                    self._refer(step.function),
                    self._block.add(*words),
                    len(words),
                    len(places) // 2,
                    self._block.add(*places or [0]),
                    number,
                    0 if step.dtype is None else self._refer(step.dtype),
                )
            )
        aval = aval_of(result)
        refer = self._refer
        made = self._block.add(
            *ResultPart(
                RESULT,
                0,
                refer(aval),
                refer(aval.shape),
                refer(aval.dtype),
                refer(aval.weak_type),
            )
        )
        loud = any(not _is_silent(step) for step in steps)
        loop = 0
        if looping is not None:
            loop, keeps = looping.loop(steps, self._avals, aval, self._block)
            self._keeps += keeps
        self._lay(rows, self._leaves + len(steps) - 1, False, loud, made, loop)

    def _lay(
        self,
        rows: list[tuple[Any, ...]],
        result: int,
        given: bool,
        loud: bool,
        made: Any,
        loop: Any = 0,
    ) -> None:
        count = len(rows) if rows or given else -1
        add = self._block.add
        place = add(
            *Front(
                id(self),
                self.hash,
                len(self._words),
                add(*self._words),
                count,
                add(*[word for row in rows for word in row] or [0]),
                self._leaves,
                self._leaves + len(rows),
                result,
                int(given),
                int(loud),
                made,
                loop,
            )
        )
        self._block.freeze()
        self.address = self._block.settle(place)


def _is_silent(step: Call) -> bool:
    return getattr(step.function, "__name__", "") in _SILENT


class _Steps:
    """The steps of a tape that lead to a result, numbered as values.

    Raises:
      Unlearnable: something in between is not on the tape.
    """

    def __init__(self, tape: Tape, arguments: Arguments, result: Array) -> None:
        if tape.refused:
            raise Unlearnable
        self._numbers = {id(x): i for i, x in enumerate(arguments.fresh)}
        self._constants = {id(x): x.numpy() for x in tape.constants}
        self._made = {id(step.result): step for step in tape.steps}
        self._converted: dict[tuple[int, Any], int] = {}
        self._count = len(arguments.fresh)
        self.calls: list[Call] = []
        for step in _needed(tape.steps, self._made, result):
            operands = [self._resolve(x) for x in step.operands]
            if type(step.result) is Array and not any(
                type(x) is Place for x in operands
            ):
                self._constants[id(step.result)] = step.result.numpy()
                continue
            call = Call(step.function, operands, step.result.dtype)
            self._numbers[id(step.result)] = self._append(call)
        if not self.calls and id(result) in self._constants:
            self._repeat_constant(self._constants[id(result)])
        elif self._numbers.get(id(result)) != self._count - 1 or not self.calls:
            raise Unlearnable

    def _repeat_constant(self, values: Any) -> None:
        """Each call has elements of its own, but for one that repeats, as in Python."""
        if not values.size or not any(values.strides):
            self._append(Call(np.asarray, [values], values.dtype))
        elif values.nbytes <= KEPT:
            self._append(Call(_copied, [values], values.dtype))
        else:
            raise Unlearnable

    def _append(self, call: Call) -> int:
        self.calls.append(call)
        self._count += 1
        return self._count - 1

    def _resolve(self, x: Any) -> Any:
        number = self._numbers.get(id(x))
        if number is not None:
            return Place(number)
        if id(x) in self._constants:
            return self._constants[id(x)]
        if isinstance(x, (Array, Value)):
            raise Unlearnable
        return self._number(x) if isinstance(x, Number) else x

    def _number(self, x: Number) -> Any:
        leaf = self._numbers.get(id(x.value))
        if leaf is None:
            return x.dtype.type(x.value)
        found = self._converted.get((leaf, x.dtype))
        if found is None:
            call = Call(x.dtype.type, [Place(leaf)], None)
            found = self._converted[leaf, x.dtype] = self._append(call)
        return Place(found)


def _needed(
    steps: Sequence[Taped], made: dict[int, Taped], result: Array
) -> list[Taped]:
    pending, seen = [made.get(id(result))], set[int]()
    while pending:
        step = pending.pop()
        if step is not None and id(step) not in seen:
            seen.add(id(step))
            pending.extend(made.get(id(x)) for x in step.operands)
    return [step for step in steps if id(step) in seen]


class Fronts:
    """All records of eager calls.

    Args:
      native: the native code that looks them up.

    Attributes:
      looping: makes loops of steps, where it can be done.
    """

    looping: Looping | None = None

    def __init__(self, native: Native) -> None:
        self._native = native
        self._table = np.zeros(PLACES, np.int64)
        self._marks = np.zeros(PLACES, np.int64)
        self._records: list[Record | None] = [None] * PLACES
        self._lock = threading.Lock()
        native.put("fronts", self._table.ctypes.data)
        native.put("marks", self._marks.ctypes.data)

    def learn(
        self,
        function: Any,
        args: tuple[Any, ...],
        names: tuple[str, ...] | None,
        key: bytes,
    ) -> Any:
        """A call, which is native from now on if it can be."""
        # Only one is learned at a time; where a fork left it locked, none.
        if recording.tape is not None or not self._lock.acquire(blocking=False):
            return _called(function, args, names)
        try:
            return self._learn(function, args, names, key)
        finally:
            self._lock.release()

    def _learn(
        self, function: Any, args: tuple[Any, ...], names: Any, key: bytes
    ) -> Any:
        config = settings.current()
        # The fourth word has the number of arguments and, above it, this.
        by_value = np.frombuffer(key, np.int64)[3] >= BY_VALUE
        arguments = Arguments(args, bool(by_value))
        record = Record(key, arguments, (function, names, config))
        if not config.native_calls:
            record.leave_to_python()
            self._keep(record)
            return _called(function, args, names)
        tape = Tape()
        recording.tape = tape
        watch.tell = tape.refuse
        self._native.put("learning", 1)
        try:
            result = _called(function, arguments.renewed, names)
        finally:
            recording.tape = watch.tell = None
            self._native.put("learning", 0)
        for number, fresh in enumerate(arguments.fresh):
            if result is fresh and type(fresh) is Array and not tape.refused:
                record.give_back(number)
                self._keep(record)
        result = arguments.own(result)
        if record.address:
            return result
        try:
            if type(result) is not Array:
                raise Unlearnable
            calls = _Steps(tape, arguments, result).calls
            record.repeat(calls, result, self.looping)
        except Unlearnable:
            record.leave_to_python()
        self._keep(record)
        return result

    def _keep(self, record: Record) -> None:
        home = record.hash % PLACES
        place = home
        for i in range(TRIED):
            if self._records[(home + i) % PLACES] is None:
                place = (home + i) % PLACES
                break
        self._table[place] = record.address
        self._records[place] = record


#: What native code calls.
HELPERS = {"aval_of": aval_of, "host_of": Array.numpy, "settle": settle}
