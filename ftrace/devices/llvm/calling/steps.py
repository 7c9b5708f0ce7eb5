"""The steps of a tape that lead from the arguments of a call to its results."""

from __future__ import annotations

from collections.abc import Sequence
from operator import getitem
from typing import Any

import numpy as np

from ftrace.array import Array
from ftrace.devices.llvm.calling.apart import Arguments
from ftrace.devices.llvm.calling.ufunc_loops import Call, Place
from ftrace.trace.evaluate import settle
from ftrace.trace.tape import Number, Tape, Value
from ftrace.trace.tape import Step as Taped

#: Bytes of an array that a record keeps to copy it, at the most.
KEPT = 1 << 16
_copied: Any = vars(np.ndarray)["copy"]


class Unlearnable(Exception):
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
      Unlearnable: something in between is not on the tape.
    """

    def __init__(
        self, tape: Tape, arguments: Arguments, results: Sequence[Any]
    ) -> None:
        if tape.refused:
            raise Unlearnable
        self._numbers = {id(x): i for i, x in enumerate(arguments.fresh)}
        self._constants = {id(x): x.numpy() for x in tape.constants}
        self._converted: dict[tuple[int, Any], int] = {}
        self._count = len(arguments.fresh)
        self.calls: list[Call] = []
        made = {id(step.result): step for step in tape.steps}
        own = {id(x) for x in arguments.fresh}
        self.open = {id(x) for x in tape.open}
        if self.open and not all(id(x) in self.open | own for x in results):
            raise Unlearnable  # their sizes may have decided what else was done
        for step in _needed(tape.steps, made, [*results, *tape.guards]):
            operands = [self._resolve(x) for x in step.operands]
            if id(step.result) in self.open:
                self._numbers[id(step.result)] = self._append_open(step, operands)
                continue
            if any(id(x) in self.open for x in step.operands):
                raise Unlearnable
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

    def _append_open(self, step: Taped, operands: Sequence[Any]) -> int:
        taken = step.function is getitem
        if not taken and any(id(x) in self.open for x in step.operands):
            raise Unlearnable
        return self._append(Call(step.function, operands, None))

    def _check_places(self, arguments: Arguments) -> None:
        """An index that no step reads has decided what the steps are."""
        operands = [x for call in self.calls for x in call.operands]
        read = {x.number for x in operands if type(x) is Place}
        if not read.issuperset(arguments.places):
            raise Unlearnable

    def _source(self, result: Any) -> int:
        if type(result) is not Array:
            return self._append(Call(getitem, [(result,), 0], None))
        number = self._numbers.get(id(result))
        if number is None and id(result) in self._constants:
            return self._repeat_constant(self._constants[id(result)])
        if number is None:
            raise Unlearnable
        return number

    def _repeat_constant(self, values: Any) -> int:
        """Each call has elements of its own, but for one that repeats, as in Python."""
        if not values.size or not any(values.strides):
            return self._append(Call(np.asarray, [values], values.dtype))
        if values.nbytes > KEPT:
            raise Unlearnable
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
    return step.result.size * step.result.dtype.itemsize <= KEPT


#: Constants of NumPy's, of which a step takes an array.
_SCALAR: type[Any] = np.generic


def _computed(step: Taped, operands: Sequence[Any]) -> Any:
    values = [np.asarray(x) if isinstance(x, _SCALAR) else x for x in operands]
    with np.errstate(all="ignore"):
        return settle(step.function(*values), step.result.dtype)
