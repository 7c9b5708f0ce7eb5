"""The steps of calls of one kind, in memory: see `performing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ftrace.array import Array
from ftrace.devices.llvm.calling.apart import Arguments
from ftrace.devices.llvm.calling.outcome import Outcome, array_part
from ftrace.devices.llvm.calling.performing import Front, Step
from ftrace.devices.llvm.calling.records import GIVEN, HOSTED, GivenPart
from ftrace.devices.llvm.calling.steps import Steps
from ftrace.devices.llvm.calling.ufunc_loops import Call, Place, Plan, plan
from ftrace.devices.llvm.runner import records
from ftrace.devices.llvm.runner.records import Block, Word
from ftrace.trace.layout import Part
from ftrace.trace.tracer import aval_of

#: Functions that never tell of floating-point errors.
_SILENT = ("reshape", "transpose", "getitem", "where", "concatenate", "asarray")
_USED = Front._fields.index("used_since")


class Record:
    """The steps of calls of one kind, in memory.

    Args:
      key: the words of the key, and the hash.
      arguments: those of the call that was learned.
      keeps: what the key refers to besides.

    Attributes:
      hash: of the key.
      address: where it is, once it is made.
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
        self._lay([], -1)

    def give_back(self, number: int) -> None:
        """The result is an argument."""
        self._lay([], 0, result=number, given=1)

    def repeat(
        self,
        steps: Steps,
        layout: Part,
        results: Sequence[Any],
        arguments: Arguments,
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
            if id(result) in steps.open or type(result) is not Array:
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
        whole = dict.fromkeys(Front._fields, 0) | {
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
        place = add(*Front(**whole))
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
