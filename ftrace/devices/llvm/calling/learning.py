"""Eager calls become records: what Python's code did once is done again without it.

A call is made once more in Python with a tape on (`trace.tape`). The steps from its
arguments to its result, in the order in which they were done, are the record.

    apart.py          arguments: the leaves, for which steps are repeated, and the rest
    steps.py          the steps of the tape that lead from these to the results
    front_record.py   the same in memory
    here              `Fronts`, all records
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ftrace import settings
from ftrace.array import Array, watch
from ftrace.devices.llvm.calling.apart import Arguments
from ftrace.devices.llvm.calling.front_record import Record
from ftrace.devices.llvm.calling.keys import MODES
from ftrace.devices.llvm.calling.outcome import NotNative
from ftrace.devices.llvm.calling.steps import Steps, Unlearnable
from ftrace.devices.llvm.calling.surface import PLACES, TRIED
from ftrace.locks import fresh_after_fork
from ftrace.trace import tree
from ftrace.trace.layout import Leaf, layout_of
from ftrace.trace.tape import Tape, recording

if TYPE_CHECKING:
    from ftrace.devices.llvm.calling.native import Native


#: Records at the most; then those that were not used lately are forgotten.
KEPT = PLACES // 2
#: After so many calls that are learned, all are counted anew.
LEARNED_AT_ONCE = 256


def _called(function: Any, args: Sequence[Any], names: tuple[str, ...] | None) -> Any:
    if names is None:
        return function(*args)
    count = len(args) - len(names)
    return function(*args[:count], **dict(zip(names, args[count:], strict=True)))


def _is_fixed(x: Any, arguments: Arguments) -> bool:
    """Is a result that is no array the same at each call of its kind?"""
    if isinstance(x, np.dtype):
        return True  # no value decides a dtype
    return type(x) in _PLAIN and not arguments.given


#: Results that are what they are: no two of them are told apart.
_PLAIN = frozenset((bool, int, float, str))


class Fronts:
    """All records of eager calls.

    Args:
      native: the native code that looks them up.
      table: the addresses of the records, by the hashes of their keys.
      marks: counts calls of which there is no record, by the same.
    """

    def __init__(self, native: Native, table: Any, marks: Any) -> None:
        self._native = native
        self._table = table
        self._marks = marks
        self._records: list[Record | None] = [None] * PLACES
        self._count = self._learned = 0
        self._lock = fresh_after_fork(threading.Lock())

    def __len__(self) -> int:
        return self._count

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
        mode = int(np.frombuffer(key, np.int64)[3]) // MODES
        arguments = Arguments(args, mode)
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
        try:
            found = self._lay(record, tape, arguments, result)
        except (Unlearnable, NotNative):
            record = Record(key, arguments, (function, names, config))
            record.leave_to_python()
            found = arguments.own(result)
        self._keep(record)
        return found

    def _lay(
        self, record: Record, tape: Tape, arguments: Arguments, result: Any
    ) -> Any:
        """Lays a record down; the result of the call.

        Raises:
          Unlearnable, NotNative: there is none for such calls.
        """
        leaves, treedef = tree.flatten(result)
        layout = layout_of(treedef)
        if tape.refused or layout is None or not leaves:
            raise Unlearnable
        if not arguments.given:  # what decides is in the key
            tape.constants += [x for x in leaves if type(x) is Array and x.memory.host]
        if not all(type(x) is Array or _is_fixed(x, arguments) for x in leaves):
            raise Unlearnable
        steps = Steps(tape, arguments, leaves)
        if isinstance(layout, Leaf) and not steps.calls:
            record.give_back(arguments.number_of(result))
        else:
            record.repeat(steps, layout, leaves, arguments)
        return tree.unflatten(treedef, [arguments.own(x) for x in leaves])

    def _keep(self, record: Record) -> None:
        self._learned += 1
        if self._learned % LEARNED_AT_ONCE == 0:
            self._marks[:] = 0  # most are of calls that came no more
        if self._count >= KEPT:
            self._forget_the_unused()
        self._place(record)

    def _place(self, record: Record) -> None:
        home = record.hash % PLACES
        tried = [(home + i) % PLACES for i in range(TRIED)]
        place = next((i for i in tried if self._records[i] is None), home)
        self._count += self._records[place] is None
        self._table[place] = record.address
        self._records[place] = record

    def _forget_the_unused(self) -> None:
        """Lets go of the records that nobody used since it was done the last time."""
        known = [x for x in self._records if x is not None]
        self._table[:] = 0
        self._count = 0
        self._records[:] = [None] * PLACES
        used = [record for record in known if record.was_used()]
        for record in used[: KEPT // 2]:  # where all were, some have to go
            self._place(record)
