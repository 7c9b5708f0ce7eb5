"""What the runner walks over, word by word: written by Python, read by native code.

Each class is a record in memory: its fields are 64-bit words in this order, numbers
or addresses. A `RecordBlock` holds the records of one executable, which refer to each
other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Self

#: Bytes of a field.
WORD = 8


def word(address: int) -> int:
    """The 64 bits there."""
    return ctypes.c_int64.from_address(address).value


#: Statuses of a handler.
GO_ON, RAISED, NO_MEMORY, CUT = range(4)

#: The source of a reference to the scratch memory that a nested program was given.
SCRATCH = -1


@dataclass(frozen=True)
class Offset:
    """Where a record begins: after so many words of a block that is not frozen yet."""

    position: int


Word: TypeAlias = int | Offset


class Record(tuple[Word, ...]):
    """A record in memory: words in the order of their names.

    Attributes:
      fields: the names.
      defaults: what the last ones are if they are not given.
    """

    fields: ClassVar[tuple[str, ...]]
    defaults: ClassVar[tuple[int, ...]] = ()

    def __new__(cls, *words: Word) -> Self:
        missing = len(cls.fields) - len(words)
        assert 0 <= missing <= len(cls.defaults), f"{cls.__name__}{cls.fields}"
        first = len(cls.defaults) - missing
        return super().__new__(cls, (*words, *cls.defaults[first:]))


class Entry(Record):
    """What `run` takes: a program and how its frame is made of a call's objects.

    Attributes:
      objects: how many objects a call passes.
      released: 1 to run it without the GIL.
    """

    fields = ("program", "objects", "released")


class ProgramRecord(Record):
    """A program.

    Attributes:
      steps, first: how many steps, and the array of their addresses.
      slots, references: how many slots, and the array of where they are.
      stacks, headers: how many slots of the arena hold stacks, and these.
      overlaps: 1 where an exchange may be under way when a step raises.
    """

    fields = (
        "steps", "first", "slots", "references", "stacks", "headers", "overlaps",
    )  # fmt: skip


class Reference(Record):
    """Where a slot is: in a slot of the frame around it, or in the scratch memory."""

    fields = ("source", "offset")


class Headers(Record):
    """A slot of the arena that holds so many stacks; see `StackRow`."""

    fields = ("slot", "stacks", "size", "log")


class KernelStep(Record):
    """Calls `kernel(buffers, begin, end)` on pieces of [0, units).

    Attributes:
      buffers, slots: how many, and the array of their slots.
      grain: the least number of units that are worth a thread's while.
      quantum: the most of them between two checks for signals.
    """

    fields = ("handler", "kernel", "buffers", "slots", "units", "grain", "quantum")


class HostStep(Record):
    """Calls a Python object on the address of the frame."""

    fields = ("handler", "callable")


class ExchangeStep(Record):
    """What this process sends and gets in a collective, and what it does with that.

    Attributes:
      begin: a Python object that does all of it, and sets `group` where native code
        does it from then on.
      late: one that waits for requests which were tried in vain.
      group: where the handle of the communicator is, or 0: then Python does it.
      cut: where a 1 is once MPI may still use the memory after an exception.
      test: the address of MPI_Testall.
      kind: the handle of the type of what is sent.
      request, status: the bytes of a request, and of a status.
      count, messages: how many messages, and their `MessageRow`s.
      operand, result: slots.
      own, retained, nbytes: what of the operand stays, where in the result, how much.
      combine, data: a loop of a ufunc, which combines the former with the result, or 0.
      elements, size: how many there are of how many bytes.
      own_first: 1 if the own ones are its first operand.
    """

    fields = (
        "handler", "begin", "late", "group", "cut", "test", "request", "status", "kind",
        "count", "messages", "operand", "result", "own", "retained", "nbytes",
        "combine", "data", "elements", "size", "own_first",
    )  # fmt: skip


class MessageRow(Record):
    """A message: so many of the type of a slot, from an offset in bytes on.

    Attributes:
      function: the address of MPI_Isend or MPI_Irecv.
      peer, tag: to or from whom, and its tag; a tag below 0 is the number below.
      table, row: a slot of int32 numbers, and which of them is divided by `lanes` to
        the peer; -1: no table. Where it is below 0 there is no message.
      zeros: bytes that become zeros then.
    """

    fields = (
        "function", "slot", "offset", "elements", "peer", "tag", "table", "row",
        "lanes", "zeros",
    )  # fmt: skip
    defaults = (-1, 0, 1, 0)


class ObservedStep(Record):
    """Runs a step and notes from when to when.

    Attributes:
      step: that step.
      kernel, units: if it runs one, its address, in whose place the step has
        `observe_piece`, and its units.
      log: how many rows were noted, how many there is room for, and the rows.
      number: of the step among all of its program.
    """

    fields = ("handler", "step", "kernel", "units", "log", "number")


class LogRow(Record):
    """From when to when a thread did something, in nanoseconds of a monotonic clock.

    Attributes:
      number: of a step; -1 - number for a piece of its kernel.
    """

    fields = ("number", "thread", "start", "end")


class BranchStep(Record):
    """Runs one of several programs.

    Attributes:
      chosen: the slot of an int32; below 0 it is the first program, too high the last.
      branches, programs: how many, and the array of their addresses.
      scratch: the slot of their arena.
    """

    fields = ("handler", "chosen", "branches", "programs", "scratch")


class LoopStep(Record):
    """Runs a body again and again.

    Attributes:
      scratch, stride: the slot of the body's arena, and the bytes of one lane.
      lanes: into how many parts that may run at the same time it is split.
      length: the number of iterations; -1 if stacks or the predicate tell.
      predicate, again: the slot of the first predicate, or -1, and the body's slot of
        the next one.
      last_first: 1 if elements of stacks are read from the last to the first.
      cost: about how many operations one iteration is.
      carried, carries: how many carries there are, and their `CarryRow`s.
      moving, moves: how many elements of arrays, and their `MoveRow`s.
      reading, reads: how many stacks are read, and their `StackRow`s.
      pushing, pushes: how many are pushed on, and theirs.
    """

    fields = (
        "handler", "body", "scratch", "stride", "lanes", "length", "predicate", "again",
        "last_first", "cost", "carried", "carries", "moving", "moves", "reading",
        "reads", "pushing", "pushes",
    )  # fmt: skip


class CarryRow(Record):
    """A carry: slots of the body, then slots around it, and its size.

    Attributes:
      result, spare: the places that it takes in turn; where it has one, that.
    """

    fields = ("input", "output", "initial", "result", "spare", "nbytes")


class MoveRow(Record):
    """A slot of the body that moves by `step` bytes from iteration to iteration."""

    fields = ("slot", "step")


class StackRow(Record):
    """A slot of the body that is a cell of a stack.

    Attributes:
      stack: the slot around the body that holds the stack's header.
      size: bytes of a cell.
      log: the first chunk has 2 to the power of `log` cells.
    """

    fields = ("slot", "stack", "size", "log")


class Context(Record):
    """What a call's handlers share; on the native stack. See `signals`.

    Attributes:
      call: the context of the whole call: this one, or for a lane that around it,
        which alone has what follows the budget.
      threads: how many a kernel may use.
      budget: operations until the clock is read again.
      state: Python's state of the thread that called, if it released the GIL.
      thread: that thread, as the system names it.
      checked: when signals were last looked for, in nanoseconds.
      stopped: a status: once it is not `GO_ON` all who work for this call stop.
      observed: the `ObservedStep` that runs, if any; each lane has its own.
    """

    fields = (
        "call", "threads", "budget", "state", "thread", "checked", "stopped",
        "observed",
    )  # fmt: skip


class RecordBlock:
    """Records in memory that refer to each other.

    Add all of them, then `freeze`; the memory lives as long as the block.
    """

    def __init__(self) -> None:
        self._words: list[Word] = []
        self._base = 0

    def add(self, *words: Word) -> Offset:
        """A record of these words."""
        place = Offset(len(self._words))
        self._words.extend(words)
        return place

    def words(self, words: Iterable[Word]) -> tuple[int, Offset]:
        """How many words there are, and the place of the array of them."""
        listed = list(words)
        return len(listed), self.add(*listed)

    def rows(self, rows: Iterable[Iterable[Word]]) -> tuple[int, Offset]:
        """How many rows there are, and the place of the array of them."""
        listed = list(rows)
        return len(listed), self.add(*[word for row in listed for word in row])

    def freeze(self) -> None:
        """Lays the records down."""
        self._memory = np.zeros(len(self._words), np.int64)
        self._base = int(self._memory.ctypes.data)
        settle = self.settle
        self._memory[:] = [w if type(w) is int else settle(w) for w in self._words]
        self._words.clear()

    def settle(self, word: Word) -> int:
        """A word as it stands in memory: a place is an address."""
        if isinstance(word, Offset):
            return self._base + word.position * WORD
        return word
