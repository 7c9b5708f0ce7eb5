"""What a native call returns, as parts in memory: see `results`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.devices.llvm.calling.probe import template_of
from ftrace.devices.llvm.calling.records import (
    LIST,
    MAPPING,
    NAMEDTUPLE,
    NONE,
    TUPLE,
    BuiltPart,
    ResultPart,
)
from ftrace.devices.llvm.runner.records import Block, Place
from ftrace.trace.avals import ShapedArray
from ftrace.trace.layout import Leaf, Nothing, Part


class NotNative(Exception):
    """Calls of this kind stay with Python's code."""


def array_part(
    kind: int, number: int, aval: ShapedArray, refer: Callable[[Any], int]
) -> ResultPart:
    """An Array of a type.

    Args:
      number: of what holds its values.
      refer: the address of an object, which it keeps in memory.
    """
    return ResultPart(
        kind,
        number,
        refer(aval),
        refer(aval.shape),
        refer(aval.dtype),
        refer(aval.weak_type),
    )


class Outcome:
    """Makes the parts of results.

    Args:
      block: where they are put.
      refer: the address of an object, which it keeps in memory.
    """

    def __init__(self, block: Block, refer: Callable[[Any], int]) -> None:
        self._block = block
        self._refer = refer

    def place(self, part: Part, leaf: Callable[[int], Place]) -> Place:
        """The part of a layout.

        Args:
          leaf: the part of a leaf, by its number.
        """
        if isinstance(part, Nothing):
            return self._block.add(NONE)
        if isinstance(part, Leaf):
            return leaf(part.number)
        parts = self._list([self.place(child, leaf) for child in part.children])
        count, kind = len(part.children), self._refer(part.kind)
        if part.keys is not None:
            keys = self._list([self._refer(key) for key in part.keys])
            template, slots = template_of(part.keys)
            offsets = self._block.add(*slots) if slots else 0
            copied = self._refer(template)
            built = BuiltPart(MAPPING, kind, count, parts, keys, copied, offsets)
        elif part.kind in (list, tuple):
            name = LIST if part.kind is list else TUPLE
            built = BuiltPart(name, kind, count, parts)
        else:
            built = BuiltPart(NAMEDTUPLE, kind, count, parts)
        return self._block.add(*built)

    def _list(self, words: Sequence[Any]) -> Place:
        return self._block.add(*words) if words else self._block.add(0)
