"""The steps of calls of one kind, in memory: see `performing`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.array import Array
from ftrace.devices.llvm.calling.apart import Arguments
from ftrace.devices.llvm.calling.looping import (
    Call,
    Known,
    Looping,
    Place,
    known_values,
)
from ftrace.devices.llvm.calling.outcome import Outcome, array_part
from ftrace.devices.llvm.calling.performing import Front, Step
from ftrace.devices.llvm.calling.records import GIVEN, HOSTED, GivenPart
from ftrace.devices.llvm.calling.steps import Steps
from ftrace.devices.llvm.calling.views import view_of
from ftrace.devices.llvm.runner import records
from ftrace.devices.llvm.runner.records import Block, Word
from ftrace.trace.layout import Leaf, Part
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
        looping: Looping | None,
    ) -> None:
        """The results are those of some steps, or arguments.

        Args:
          layout: how they are given back; its leaves are numbers of results.

        Raises:
          NotNative: they cannot be.
        """
        known = known_values(steps.calls, arguments.given)
        alone = isinstance(layout, Leaf) and len(steps.calls) > 0
        alone = alone and steps.sources[0] == self._leaves + len(steps.calls) - 1
        loop = 0
        if looping is not None and alone:
            loop, keeps = looping.loop(steps.calls, known, self._block)
            self._keeps += keeps
        inner = looping if len(steps.calls) > 1 and not loop else None
        views = looping is not None and looping.views
        rows = [
            self._step(step, number, known, inner, views)
            for number, step in enumerate(steps.calls, self._leaves)
        ]
        beyond = self._leaves + len(rows)  # there the arguments themselves stand

        def leaf(number: int) -> records.Place:
            result, source = results[number], steps.sources[number]
            if source is None:
                same = beyond + arguments.number_of(result)
                return self._block.add(*GivenPart(GIVEN, same))
            if id(result) in steps.open or type(result) is not Array:
                return self._block.add(*GivenPart(GIVEN, source))
            aval = aval_of(result)
            return self._block.add(*array_part(HOSTED, source, aval, self._refer))

        made = Outcome(self._block, self._refer).place(layout, leaf)
        loud = any(not _is_silent(step) for step in steps.calls)
        self._lay(rows, len(rows), hushed=int(loud), made=made, loop=loop)

    def _step(
        self,
        step: Call,
        number: int,
        known: Sequence[Known],
        looping: Looping | None,
        views: bool,
    ) -> Step:
        words = [0 if type(x) is Place else self._refer(x) for x in step.operands]
        places: list[int] = []
        for i, x in enumerate(step.operands):
            if type(x) is Place:
                places += [i, x.number]
        loop = 0
        if looping is not None:
            loop, keeps = looping.step_loop(step, known, self._block)
            self._keeps += keeps
        view = 0
        if views:
            view, keeps = view_of(step, known, self._block)
            self._keeps += keeps
        return Step(
            self._refer(step.function),
            self._block.add(*words or [0]),
            len(words),
            len(places) // 2,
            self._block.add(*places or [0]),
            number,
            0 if step.dtype is None else self._refer(step.dtype),
            loop,
            view,
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
