"""Which steps of a record become chains: see `chains`.

group    steps on elements, all of one size or of numbers, that can be done together
links    a group as operations on places in memory
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from operator import getitem
from typing import Any

import numpy as np

from ftrace.devices.llvm.calling.elements import loop_name
from ftrace.devices.llvm.calling.links import Links, Unlinked
from ftrace.devices.llvm.calling.looping import Call, Place
from ftrace.records import NamedTuple
from ftrace.trace.evaluate import settle
from ftrace.trace.lacking import address_of

#: Operations that leave every element what it is, at its place in row-major order.
_SAME = frozenset(("reshape", "bitcast", "copy", "stop_gradient"))
#: Fewer steps are not worth it.
_WORTH = 2

Make = Callable[[Links, Any], Any]


class Group(NamedTuple):
    """Steps that are done together, by their numbers in the record."""

    elements: int
    members: Sequence[int]


class Chaining:
    """Makes chains of the steps of a record.

    Args:
      make: what does what links say, or else a function.
    """

    def __init__(self, make: Make) -> None:
        self._make = make

    def chained(
        self, calls: Sequence[Call], leaves: int, sources: Sequence[int | None]
    ) -> tuple[list[Call], list[int | None]]:
        """The steps and the numbers of the results, with chains where they pay.

        Args:
          calls: the steps; the first makes the value of number `leaves`.
          sources: the numbers of the values that are results.
        """
        if not any(is_linkable(call) for call in calls):
            return list(calls), list(sources)
        again = _Renumbered(calls, leaves, sources)
        for group in _arranged(calls, leaves):
            if isinstance(group, int):
                again.keep(group)
                continue
            links = self._links(group, calls, again)
            if links is None:
                for number in group.members:
                    again.keep(number)
                continue
            fallback = Again(links, [calls[i - leaves] for i in group.members], group)
            fallback.chain = self._make(links, fallback)
            again.chain(links, fallback.chain)
        return again.calls, [again.renamed(x) for x in sources]

    @staticmethod
    def _links(group: Group, calls: Sequence[Call], again: _Renumbered) -> Links | None:
        members = [(i, calls[i - again.leaves]) for i in group.members]
        real = [call for _, call in members if not _is_alias(call)]
        if len(real) < _WORTH:
            return None  # `loops` may do it
        asked = [i for i in group.members if again.is_asked_outside(i, group.members)]
        try:
            links = Links(group.elements)
            for number, call in members:
                links.add(number, call)
            links.finish(asked, dict(members))
        except Unlinked:
            return None
        return links


class Again:
    """The steps of a chain in NumPy, for arguments that are not as expected.

    Attributes:
      chain: the chain, for which arguments may only have to be laid out in order.
    """

    chain: Any = None

    def __init__(self, links: Links, calls: Sequence[Call], group: Group) -> None:
        self._given = list(links.arguments)
        self._outputs = list(links.outputs)
        self._calls = list(zip(group.members, calls, strict=True))

    def __call__(self, *values: Any) -> Any:
        if self.chain is not None and not all(map(_is_orderly, values)):
            return self.chain(*map(np.ascontiguousarray, values))
        known: dict[int, Any] = dict(zip(self._given, values, strict=True))
        for number, call in self._calls:
            operands = [
                known[x.number] if type(x) is Place else x for x in call.operands
            ]
            made = call.function(*operands)
            known[number] = made if call.dtype is None else settle(made, call.dtype)
        results = tuple([known[number] for number in self._outputs])
        return results[0] if len(results) == 1 else results


def _is_orderly(x: Any) -> bool:
    return type(x) is not np.ndarray or (x.flags.c_contiguous and x.flags.aligned)


class _Renumbered:
    """The steps anew: values have other numbers where steps became one."""

    def __init__(
        self, calls: Sequence[Call], leaves: int, sources: Sequence[int | None]
    ) -> None:
        self.leaves = leaves
        self.calls: list[Call] = []
        self._given = calls
        self._names = {i: i for i in range(leaves)}
        self._results = set(sources)
        self._users: dict[int, list[int]] = {}
        for number, call in enumerate(calls, leaves):
            for used in _used(call):
                self._users.setdefault(used, []).append(number)

    def renamed(self, number: int | None) -> int | None:
        return None if number is None else self._names[number]

    def is_asked_outside(self, number: int, members: Sequence[int]) -> bool:
        """Is a value a result, or used by a step that is no member?"""
        users = self._users.get(number, ())
        return number in self._results or not set(members).issuperset(users)

    def keep(self, number: int) -> None:
        """A step as it was."""
        call = self._given[number - self.leaves]
        places = self._places(call)
        kept = Call(call.function, places, call.dtype, call.shape, call.meaning)
        self._append(number, kept)

    def chain(self, links: Links, function: Any) -> None:
        """A step that does what links say, and where it makes several, one for each."""
        given = [Place(self._in_order(x)) for x in links.arguments]
        if len(links.outputs) == 1:
            (number,) = links.outputs
            made = self._given[number - self.leaves]
            self._append(number, Call(function, given, made.dtype, made.shape))
            return
        whole = self._append(None, Call(function, given, None))
        for i, number in enumerate(links.outputs):
            made = self._given[number - self.leaves]
            taken = Call(getitem, [Place(whole), i], made.dtype, made.shape)
            self._append(number, taken)

    def _in_order(self, number: int) -> int:
        """An argument of a chain, row-major where it surely is not."""
        name = self._names[number]
        if number < self.leaves:
            return name
        call = self._given[number - self.leaves]
        if call.meaning is None or _is_in_order(call.meaning):
            return name
        ordered = Call(np.ascontiguousarray, [Place(name)], call.dtype, call.shape)
        return self._append(None, ordered)

    def _places(self, call: Call) -> list[Any]:
        return [
            Place(self._names[x.number]) if type(x) is Place else x
            for x in call.operands
        ]

    def _append(self, number: int | None, call: Call) -> int:
        self.calls.append(call)
        name = self.leaves + len(self.calls) - 1
        if number is not None:
            self._names[number] = name
        return name


# Groups.


def _arranged(calls: Sequence[Call], leaves: int) -> Iterable[int | Group]:
    """All steps in an order that keeps what can be done together together."""
    done, pending = set(range(leaves)), list(range(leaves, leaves + len(calls)))
    linkable = {i for i in pending if is_linkable(calls[i - leaves])}
    while pending:
        rest: list[int] = []
        for number in pending:
            call = calls[number - leaves]
            if number not in linkable and done.issuperset(_used(call)):
                done.add(number)
                yield number
            else:
                rest.append(number)
        pending = rest
        if pending:
            group = _next_group(pending, linkable, calls, leaves, done)
            done.update(group.members)
            chosen = set(group.members)
            pending = [number for number in pending if number not in chosen]
            yield group


def _next_group(
    pending: Sequence[int],
    linkable: set[int],
    calls: Sequence[Call],
    leaves: int,
    done: set[int],
) -> Group:
    """What can be done now, of the first size that occurs, and numbers with it."""
    sizes = [_size(calls[i - leaves]) for i in pending if i in linkable]
    several = [n for n in dict.fromkeys(sizes) if n > 1]
    for elements in (*several, 1):
        members: list[int] = []
        inside: set[int] = set()
        for number in pending:
            call = calls[number - leaves]
            if number not in linkable or _size(call) not in (1, elements):
                continue
            used = _used(call)
            if call.meaning.op.name == "shrink" and inside.intersection(used):
                continue
            if all(x in done or x in inside for x in used):
                members.append(number)
                inside.add(number)
        if any(_size(calls[i - leaves]) == elements for i in members):
            return Group(elements, members)
    raise AssertionError("the steps of a record depend on earlier ones alone")


def _used(call: Call) -> list[int]:
    return [x.number for x in call.operands if type(x) is Place]


def _size(call: Call) -> int:
    return math.prod(call.meaning.shape)


def is_linkable(call: Call) -> bool:
    """Can a step be part of a chain?"""
    meaning = call.meaning
    if meaning is None or not meaning.operands:
        return False
    name, size = meaning.op.name, _size(call)
    sizes = [math.prod(shape) for _, shape in meaning.operands]
    if size == 0 or not set(sizes) <= {1, size}:
        return name == "shrink" and size == 1 and type(call.operands[0]) is Place
    if name in _SAME or name in ("expand", "shrink"):
        return type(call.operands[0]) is Place
    kinds = [dtype for dtype, _ in meaning.operands]
    if loop_name(name, kinds, meaning.dtype) is not None:
        return True
    return address_of(call.function) != 0


def _is_in_order(meaning: Any) -> bool:
    """Are the elements of what a step makes of row-major ones surely row-major?"""
    if meaning.op.name in ("permute", "stride", "flip"):
        return False
    if meaning.op.name != "shrink":
        return True
    (_, shape), *_rest = meaning.operands
    bounds = zip(meaning.arg, shape, strict=True)
    return all(part == (0, n) for part, n in list(bounds)[1:])


def _is_alias(call: Call) -> bool:
    return call.meaning.op.name in _SAME or call.meaning.op.name in ("expand", "shrink")
