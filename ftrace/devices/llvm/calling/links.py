"""A group of steps as operations on places in memory: see `chains`.

A place is an array that is given or made, a room for a block, or a room for the copies
of one number. What needs a room gives it back after its last use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ftrace.devices.llvm.calling.chains import BLOCK
from ftrace.devices.llvm.calling.elements import loop_name
from ftrace.devices.llvm.calling.lanes import LANES
from ftrace.devices.llvm.calling.looping import Call, Place
from ftrace.records import NamedTuple
from ftrace.trace.lacking import address_of

#: Rooms for blocks and for numbers at the most.
BLOCKS, NUMBERS = 64, 512


class Unlinked(Exception):
    """There are not enough rooms."""


class Spot(NamedTuple):
    """Where a value is: its place, and the step from one element to the next."""

    place: int
    step: int


class Base(NamedTuple):
    """Where a place begins: nowhere yet, in a room by its number, or in an array."""

    kind: str  # "array", "block", "number", "constant"
    number: int = 0
    values: Any = None


class Given(NamedTuple):
    """An argument, as `chains.Input` has it."""

    argument: int
    dtype: np.dtype[Any]
    place: int
    width: int
    offset: int


class Done(NamedTuple):
    """An operation: the loop, the spots of the result and of the operands."""

    loop: str
    out: int
    operands: Sequence[Spot]


class Links:
    """The operations of a chain.

    Attributes:
      elements: how many each of the values has that is no single number.
      arguments: the numbers of the values that are given.
      outputs: the numbers of those that are asked for.
      inputs: what is read of the arguments.
      bases, strides: where places begin, and how far they move in a block.
      once, several, last: on numbers, on blocks, on one element at the end.
      made: of each output its place, dtype and shape.
      own: loops that are not of `elements.py`: the addresses, by their names here.
    """

    def __init__(self, elements: int) -> None:
        self.elements = elements
        self.arguments: list[int] = []
        self.outputs: list[int] = []
        self.inputs: list[Given] = []
        self.bases: list[Base] = []
        self.strides: list[int] = []
        self.once: list[Done] = []
        self.several: list[Done] = []
        self.last: list[Done] = []
        self.made: list[tuple[int, np.dtype[Any], tuple[int, ...]]] = []
        self.own: dict[str, int] = {}
        self._spots: dict[int, Spot] = {}
        self._constants: dict[Any, Spot] = {}
        self._numbers = 0

    def add(self, number: int, call: Call) -> None:
        """The next step: what it makes is the value of that number."""
        meaning = call.meaning
        name = meaning.op.name
        if name == "shrink":
            self._spots[number] = self._element(call)
            return
        if name in ("reshape", "bitcast", "copy", "stop_gradient", "expand"):
            self._spots[number] = self._spot(call.operands[0], *meaning.operands[0])
            return
        operands = [
            self._spot(x, *kind)
            for x, kind in zip(call.operands, meaning.operands, strict=False)
        ]
        kinds = [dtype for dtype, _ in meaning.operands]
        loop = loop_name(name, kinds, meaning.dtype)
        if loop is None:
            address = address_of(call.function)
            assert address, "such a step is not linkable"
            loop = f"own_{address}"
            self.own[loop] = address
        if self.elements > 1 and math.prod(meaning.shape) == 1:
            out = self._place(self._number_room())
            self.once.append(Done(loop, out, operands))
            self._spots[number] = Spot(out, 0)
            return
        out = self._place(Base("block"))
        self.several.append(Done(loop, out, operands))
        self._spots[number] = Spot(out, 1)

    def finish(self, asked: Sequence[int], calls: Mapping[int, Call]) -> None:
        """Makes arrays of what is asked for, and gives rooms to the rest.

        Raises:
          Unlinked: there are too few, or a dtype has no loop that copies it.
        """
        taken: set[int] = set()
        for number in asked:
            meaning = calls[number].meaning
            dtype: Any = np.dtype(meaning.dtype)
            spot = self._spots[number]
            inside = self.bases[spot.place].kind == "block"
            if inside and spot.place not in taken:
                place = spot.place
                self.bases[place] = Base("array")
                self.strides[place] = BLOCK * dtype.itemsize
            else:
                alone = self.elements > 1 and math.prod(meaning.shape) == 1
                # What is written after all blocks has not moved on with them.
                stride = 0 if alone else BLOCK * dtype.itemsize
                place = self._place(Base("array"), stride)
                copies = self.last if alone else self.several
                loop = loop_name("cast", [dtype], dtype)
                if loop is None:
                    raise Unlinked
                copies.append(Done(loop, place, [spot]))
            taken.add(place)
            self.outputs.append(number)
            self.made.append((place, dtype, meaning.shape))
        self._assign_rooms()

    def _assign_rooms(self) -> None:
        last = {
            spot.place: i
            for i, done in enumerate(self.several)
            for spot in done.operands
        }
        free = list(range(BLOCKS))
        for i, done in enumerate(self.several):
            if self.bases[done.out].kind == "block":
                if not free:
                    raise Unlinked
                self.bases[done.out] = Base("block", free.pop(0))
                if done.out not in last:  # nobody asks for it
                    free.insert(0, self.bases[done.out].number)
            for place in {spot.place for spot in done.operands}:
                if last[place] == i and self.bases[place].kind == "block":
                    free.insert(0, self.bases[place].number)

    # Places.

    def _place(self, base: Base, stride: int = 0) -> int:
        self.bases.append(base)
        self.strides.append(stride)
        return len(self.bases) - 1

    def _number_room(self) -> Base:
        if self._numbers >= NUMBERS:
            raise Unlinked
        self._numbers += 1
        return Base("number", self._numbers - 1)

    def _spot(self, x: Any, dtype: Any, shape: tuple[int, ...]) -> Spot:
        if type(x) is not Place:
            return self._constant(np.asarray(x, dtype))
        found = self._spots.get(x.number)
        if found is None:
            alone = self.elements > 1 and math.prod(shape) == 1
            found = self._spots[x.number] = self._given(x.number, dtype, alone, 0)
        return found

    def _given(self, number: int, dtype: Any, alone: bool, offset: int) -> Spot:
        """Elements of an argument: all of them, or one that stands for all."""
        dtype = np.dtype(dtype)
        if number not in self.arguments:
            self.arguments.append(number)
        if alone:
            place, width = self._place(self._number_room()), dtype.itemsize
        else:
            place, width = self._place(Base("array"), BLOCK * dtype.itemsize), 0
        argument = self.arguments.index(number)
        self.inputs.append(Given(argument, dtype, place, width, offset))
        return Spot(place, 0 if alone else 1)

    def _element(self, call: Call) -> Spot:
        """One element of an argument."""
        ((dtype, shape),) = call.meaning.operands
        offset = 0
        for (start, _), size in zip(call.meaning.arg, shape, strict=True):
            offset = offset * size + start
        itemsize = np.dtype(dtype).itemsize
        return self._given(call.operands[0].number, dtype, True, offset * itemsize)

    def _constant(self, values: Any) -> Spot:
        if values.size == 1 or not any(values.strides):
            value = values[(0,) * values.ndim]
            key = (value.dtype, value.tobytes())
            if key not in self._constants:
                copies = np.full(LANES, value, value.dtype)
                place = self._place(Base("constant", values=copies))
                self._constants[key] = Spot(place, 0)
            return self._constants[key]
        whole = np.ascontiguousarray(values)
        stride = BLOCK * whole.dtype.itemsize
        return Spot(self._place(Base("constant", values=whole), stride), 1)
