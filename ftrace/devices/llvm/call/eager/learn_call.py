"""Eager calls become cache entries: what Python's code did is done again without it.

Where the inline cache misses too often, the call is made once more in Python with a
tape on (`trace.tape`). The steps from its arguments to its result, in the order in
which they were done, are the entry.

    FlatArguments   the leaves, for which steps are repeated, and the rest
    Steps           the steps of the tape that lead from these to the results
    CacheEntry      the same in memory
    InlineCache     all entries
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from operator import getitem
from typing import Any

import numpy as np

from ftrace.arrays.array import Array, watch
from ftrace.devices.llvm.call.cpython.method_table import PLACES, SCALARS, TRIED
from ftrace.devices.llvm.call.cpython.records import GIVEN, HOSTED, GivenPart
from ftrace.devices.llvm.call.eager.call_key import (
    BY_PLACE,
    BY_VALUE,
    MODES,
    OPERANDS,
    UPDATES,
)
from ftrace.devices.llvm.call.eager.lookup import EntryLayout, Step
from ftrace.devices.llvm.call.eager.ufunc_loops import Call, Place, Plan, plan
from ftrace.devices.llvm.call.jit.build_results import NotNative, Outcome, array_part
from ftrace.devices.llvm.runtime.vm import records
from ftrace.devices.llvm.runtime.vm.records import Block, Word
from ftrace.ground import settings
from ftrace.ground.fork_safe import fresh_after_fork
from ftrace.trace.eager.call_recorder import Number, Tape, Value, recording
from ftrace.trace.eager.call_recorder import Step as Taped
from ftrace.trace.eager.dispatch import is_by_place
from ftrace.trace.evaluate import settle
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.structure_cache import Leaf, Part, layout_of
from ftrace.trace.tracing.tracer import aval_of


class FlatArguments:
    """The arguments of a call, taken apart as `keys` does it.

    Args:
      mode: what numbers are: see `keys`.

    Attributes:
      given: the leaves among them: what the steps are done with.
      fresh: an object of its own for each of these.
      fixed: all other objects.
      renewed: the arguments with these objects.
      places: the numbers of the leaves that are indices by place.
    """

    def __init__(self, args: tuple[Any, ...], mode: int) -> None:
        self._operands = False
        self.places: list[int] = []
        self.given: list[Any] = []
        self.fresh: list[Any] = []
        self.fixed: list[Any] = []
        self.renewed = [
            self._argument(x, mode_at(mode, number)) for number, x in enumerate(args)
        ]

    def _argument(self, x: Any, mode: int) -> Any:
        self._operands = mode == OPERANDS
        if mode == BY_PLACE and is_by_place(x):
            self.fixed.append(x)
            self.places.append(len(self.given))
            return self._leaf(x, x)
        if mode == BY_PLACE and type(x) is np.ndarray:
            self._operands = True
        return self._renew(x)

    def _renew(self, x: Any) -> Any:
        if type(x) in (list, tuple):
            self.fixed.append(type(x))
            return type(x)([self._renew(item) for item in x])
        if type(x) is Array:
            x.numpy()  # all of them see it
            return self._leaf(x, _shown_again(x))
        if self._operands:
            if type(x) is float:
                return self._leaf(x, x * 1.0)
            if type(x) is np.ndarray:
                array: Any = x
                self.fixed.append(array.dtype)
                return self._leaf(x, array.view())
            if type(x) in SCALARS:
                return self._leaf(x, type(x)(x))
        self.fixed.append(x)
        return x

    def own(self, result: Any) -> Any:
        """A result; where it is an argument, that argument."""
        pairs = zip(self.given, self.fresh, strict=True)
        return next((given for given, fresh in pairs if result is fresh), result)

    def number_of(self, fresh: Any) -> int:
        """The number of a leaf."""
        return next(i for i, x in enumerate(self.fresh) if x is fresh)

    def _leaf(self, given: Any, fresh: Any) -> Any:
        self.given.append(given)
        self.fresh.append(fresh)
        return fresh


def mode_at(mode: int, number: int) -> int:
    """The mode of the argument of that number, as native code has it."""
    if mode < BY_PLACE:
        return mode
    place = 2 if mode == UPDATES else 1
    if number == place:
        return BY_PLACE
    return OPERANDS if mode == UPDATES and number < place else BY_VALUE


def _shown_again(x: Array) -> Array:
    """Another Array of the same values."""
    return Array(x.shape, x.dtype, x.weak_type, x.stored, x.numpy())


#: Bytes of an array that a record keeps to copy it, at the most.
BYTES_KEPT = 1 << 16
_copied: Any = vars(np.ndarray)["copy"]


class NotRecordable(Exception):
    """Calls of this kind stay with Python's code."""


class Steps:
    """The steps of a tape that lead to some results, numbered as values.

    Args:
      results: Arrays, of which some may be arguments, and what is always the same.

    Attributes:
      calls: the steps.
      sources: for each result the number of its value; None if it is an argument.
      open: results that steps make as they are given back.

    Raises:
      NotRecordable: something in between is not on the tape.
    """

    def __init__(
        self, tape: Tape, arguments: FlatArguments, results: Sequence[Any]
    ) -> None:
        if tape.refused:
            raise NotRecordable
        self._numbers = {id(x): i for i, x in enumerate(arguments.fresh)}
        self._constants = {id(x): x.numpy() for x in tape.constants}
        self._converted: dict[tuple[int, Any], int] = {}
        self._count = len(arguments.fresh)
        self.calls: list[Call] = []
        made = {id(step.result): step for step in tape.steps}
        own = {id(x) for x in arguments.fresh}
        for step in _needed(tape.steps, made, results):
            operands = [self._resolve(x) for x in step.operands]
            if type(step.result) is Array and not any(
                type(x) is Place for x in operands
            ):
                self._constants[id(step.result)] = step.result.numpy()
                continue
            if type(step.result) is Value and _is_fixed(step, operands):
                self._constants[id(step.result)] = _computed(step, operands)
                continue
            dtype, shape = step.result.dtype, getattr(step.result, "shape", None)
            call = Call(step.function, operands, dtype, shape, step.op, step.arg)
            self._numbers[id(step.result)] = self._append(call)
        self._check_places(arguments)
        self.sources = [None if id(x) in own else self._source(x) for x in results]

    def _check_places(self, arguments: FlatArguments) -> None:
        """An index that no step reads has decided what the steps are."""
        operands = [x for call in self.calls for x in call.operands]
        read = {x.number for x in operands if type(x) is Place}
        if not read.issuperset(arguments.places):
            raise NotRecordable

    def _source(self, result: Any) -> int:
        if type(result) is not Array:
            return self._append(Call(getitem, [(result,), 0], None))
        number = self._numbers.get(id(result))
        if number is None and id(result) in self._constants:
            return self._repeat_constant(self._constants[id(result)])
        if number is None:
            raise NotRecordable
        return number

    def _repeat_constant(self, values: Any) -> int:
        """Each call has elements of its own, but for one that repeats, as in Python."""
        if not values.size or not any(values.strides):
            return self._append(Call(np.asarray, [values], values.dtype))
        if values.nbytes > BYTES_KEPT:
            raise NotRecordable
        return self._append(Call(_copied, [values], values.dtype))

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
        if type(x) in (Array, Value):
            raise NotRecordable
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
    steps: Sequence[Taped], made: dict[int, Taped], results: Sequence[Any]
) -> list[Taped]:
    pending, seen = [made.get(id(x)) for x in results], set[int]()
    while pending:
        step = pending.pop()
        if step is not None and id(step) not in seen:
            seen.add(id(step))
            pending.extend(made.get(id(x)) for x in step.operands)
    return [step for step in steps if id(step) in seen]


def _is_fixed(step: Taped, operands: Sequence[Any]) -> bool:
    """Are these the same elements at each call, and few?"""
    if step.op is None or any(type(x) is Place for x in operands):
        return False
    return step.result.size * step.result.dtype.itemsize <= BYTES_KEPT


#: Constants of NumPy's, of which a step takes an array.
_SCALAR: type[Any] = np.generic


def _computed(step: Taped, operands: Sequence[Any]) -> Any:
    values = [np.asarray(x) if isinstance(x, _SCALAR) else x for x in operands]
    with np.errstate(all="ignore"):
        return settle(step.function(*values), step.result.dtype)


#: Functions that never tell of floating-point errors.
_SILENT = ("reshape", "transpose", "getitem", "where", "concatenate", "asarray")
_USED = EntryLayout._fields.index("used_since")


class CacheEntry:
    """The steps of calls of one kind, in memory.

    Args:
      key: the words of the key, and the hash.
      arguments: those of the call that was learned.
      keeps: what the key refers to besides.

    Attributes:
      hash: of the key.
      address: where it is, once it is made.
    """

    def __init__(
        self, key: bytes, arguments: FlatArguments, keeps: Sequence[Any]
    ) -> None:
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
        self._lay([], -1)

    def give_back(self, number: int) -> None:
        """The result is an argument."""
        self._lay([], 0, result=number, given=1)

    def repeat(
        self,
        steps: Steps,
        layout: Part,
        results: Sequence[Any],
        arguments: FlatArguments,
    ) -> None:
        """The results are those of some steps, or arguments.

        Args:
          layout: how they are given back; its leaves are numbers of results.

        Raises:
          NotNative: they cannot be.
        """
        calls, count = steps.calls, self._leaves
        plans = [plan(i, calls, arguments.given) for i in range(len(calls))]
        kept = _kept(steps, plans, count)
        numbers = {number: i for i, number in enumerate([*range(count), *kept])}
        rows = [
            self._step(calls[i - count], plans[i - count], numbers[i], numbers)
            for i in kept
        ]
        beyond = self._leaves + len(rows)  # there the arguments themselves stand

        def leaf(number: int) -> records.Place:
            result, found = results[number], steps.sources[number]
            if found is None:
                same = beyond + arguments.number_of(result)
                return self._block.add(*GivenPart(GIVEN, same))
            source = numbers[found]
            if type(result) is not Array:
                return self._block.add(*GivenPart(GIVEN, source))
            aval = aval_of(result)
            return self._block.add(*array_part(HOSTED, source, aval, self._refer))

        made = Outcome(self._block, self._refer).place(layout, leaf)
        self._lay(rows, len(rows), made=made)

    def _step(
        self, call: Call, loop: Plan | None, value: int, numbers: Mapping[int, int]
    ) -> Step:
        words = [0 if type(x) is Place else self._refer(x) for x in call.operands]
        places: list[int] = []
        whole = True
        for i, x in enumerate(call.operands):
            if type(x) is Place:
                whole = whole and x.number in numbers
                places += [i, numbers.get(x.number, 0)]
        return Step(
            self._refer(call.function) if whole else 0,
            self._block.add(*words or [0]),
            len(words),
            len(places) // 2,
            self._block.add(*places or [0]),
            value,
            0 if call.dtype is None else self._refer(call.dtype),
            0 if loop is None else loop.lay(self._block, numbers, self._keeps),
            int(not _is_silent(call)),
        )

    def _lay(self, rows: list[Step], count: int, **fields: Word) -> None:
        """Puts it into memory; fields that are not given are 0."""
        add = self._block.add
        whole = dict.fromkeys(EntryLayout._fields, 0) | {
            "owner": id(self),
            "hash": self.hash,
            "used": len(self._words),
            "words": add(*self._words),
            "steps": count,
            "list": add(*[word for row in rows for word in row] or [0]),
            "leaves": self._leaves,
            "values": self._leaves + len(rows),
            "used_since": 1,
            **fields,
        }
        place = add(*EntryLayout(**whole))
        self._block.freeze()
        self.address = self._block.settle(place)

    def was_used(self) -> bool:
        """Has it been, since it was asked the last time?"""
        used = bool(self._block.read(self.address, _USED))
        self._block.write(self.address, _USED, 0)
        return used


def _is_silent(step: Call) -> bool:
    return getattr(step.function, "__name__", "") in _SILENT


def _kept(steps: Steps, plans: Sequence[Plan | None], leaves: int) -> list[int]:
    """The numbers of the steps but for those whose elements only loops read."""
    asked = {x for x in steps.sources if x is not None}
    found: list[int] = []
    for number in reversed(range(leaves, leaves + len(plans))):
        call, loop = steps.calls[number - leaves], plans[number - leaves]
        if number not in asked and (call.rounds or call.is_same):
            continue
        found.append(number)
        if loop is not None:
            asked.update(loop.numbers)
        else:
            asked.update(x.number for x in call.operands if type(x) is Place)
    return found[::-1]


#: Records at the most; then those that were not used lately are forgotten.
ENTRIES = PLACES // 2
#: After so many calls that are learned, all are counted anew.
LEARNED_AT_ONCE = 256


def _called(function: Any, args: Sequence[Any], names: tuple[str, ...] | None) -> Any:
    if names is None:
        return function(*args)
    count = len(args) - len(names)
    return function(*args[:count], **dict(zip(names, args[count:], strict=True)))


def _is_always(x: Any, arguments: FlatArguments) -> bool:
    """Is a result that is no array the same at each call of its kind?"""
    if isinstance(x, np.dtype):
        return True  # no value decides a dtype
    return type(x) in _PLAIN and not arguments.given


#: Results that are what they are: no two of them are told apart.
_PLAIN = frozenset((bool, int, float, str))


class InlineCache:
    """All entries for eager calls; `lookup` finds them.

    Args:
      table: the addresses of the entries, by the hashes of their keys.
      marks: counts calls of which there is no entry, by the same.
      recording: a word that is not 0 while a call is recorded.
    """

    def __init__(self, table: Any, marks: Any, recording: Any) -> None:
        self._recording = recording
        self._table = table
        self._marks = marks
        self._entries: list[CacheEntry | None] = [None] * PLACES
        self._count = self._learned = 0
        self._lock = fresh_after_fork(threading.Lock())

    def __len__(self) -> int:
        return self._count

    def miss(
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
            return self._record_call(function, args, names, key)
        finally:
            self._lock.release()

    def _record_call(
        self, function: Any, args: tuple[Any, ...], names: Any, key: bytes
    ) -> Any:
        config = settings.current()
        # The fourth word has the number of arguments and, above it, this.
        mode = int(np.frombuffer(key, np.int64)[3]) // MODES
        arguments = FlatArguments(args, mode)
        entry = CacheEntry(key, arguments, (function, names, config))
        if not config.native_calls:
            entry.leave_to_python()
            self._keep(entry)
            return _called(function, args, names)
        tape = Tape()
        recording.tape = tape
        watch.tell = tape.refuse
        self._recording[0] = 1
        try:
            result = _called(function, arguments.renewed, names)
        finally:
            recording.tape = watch.tell = None
            self._recording[0] = 0
        try:
            found = self._lay(entry, tape, arguments, result)
        except (NotRecordable, NotNative):
            entry = CacheEntry(key, arguments, (function, names, config))
            entry.leave_to_python()
            found = arguments.own(result)
        self._keep(entry)
        return found

    def _lay(
        self, entry: CacheEntry, tape: Tape, arguments: FlatArguments, result: Any
    ) -> Any:
        """Lays a record down; the result of the call.

        Raises:
          NotRecordable, NotNative: there is none for such calls.
        """
        leaves, treedef = tree.flatten(result)
        layout = layout_of(treedef)
        if tape.refused or layout is None or not leaves:
            raise NotRecordable
        if not arguments.given:  # what decides is in the key
            tape.constants += [x for x in leaves if type(x) is Array and x.memory.host]
        if not all(type(x) is Array or _is_always(x, arguments) for x in leaves):
            raise NotRecordable
        steps = Steps(tape, arguments, leaves)
        if isinstance(layout, Leaf) and not steps.calls:
            entry.give_back(arguments.number_of(result))
        else:
            entry.repeat(steps, layout, leaves, arguments)
        return tree.unflatten(treedef, [arguments.own(x) for x in leaves])

    def _keep(self, entry: CacheEntry) -> None:
        self._learned += 1
        if self._learned % LEARNED_AT_ONCE == 0:
            self._marks[:] = 0  # most are of calls that came no more
        if self._count >= ENTRIES:
            self._forget_the_unused()
        self._place(entry)

    def _place(self, entry: CacheEntry) -> None:
        home = entry.hash % PLACES
        tried = [(home + i) % PLACES for i in range(TRIED)]
        place = next((i for i in tried if self._entries[i] is None), home)
        self._count += self._entries[place] is None
        self._table[place] = entry.address
        self._entries[place] = entry

    def _forget_the_unused(self) -> None:
        """Lets go of the records that nobody used since it was done the last time."""
        known = [x for x in self._entries if x is not None]
        self._table[:] = 0
        self._count = 0
        self._entries[:] = [None] * PLACES
        used = [entry for entry in known if entry.was_used()]
        for entry in used[: ENTRIES // 2]:  # where all were, some have to go
            self._place(entry)
