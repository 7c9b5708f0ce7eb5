"""The rules by which elements of arrays are expressed, operation by operation.

A rule is a generator: it yields the elements that it needs and is sent their
expressions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator
from typing import Any

from ftrace import dtypes
from ftrace.lower.elements import (
    ELEMENTWISE,
    Elements,
    Indices,
    Key,
    Work,
    is_counted,
    places,
)
from ftrace.lower.index import (
    ALWAYS,
    Index,
    Valid,
    constant_index,
    range_index,
    ranges_of_all,
    source_index,
    value_index,
)
from ftrace.lower.kernel import INDEX, axis_of, fma_p, load_p, range_p
from ftrace.lower.math.term import RELAXED
from ftrace.lower.scalars import folded, scalar
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives.elementwise import (
    add,
    bit_and,
    cast,
    cast_p,
    eq,
    mul,
    select,
)
from ftrace.trace.primitives.indexing import axes_and_kind, gather_p, scatter_p
from ftrace.trace.primitives.reduction import COMBINES, COMBINES_BY_NAME, identity
from ftrace.trace.primitives.source import const, const_p


class Expressions(Elements):
    """Expresses elements of all operations on arrays; control flow is left open."""

    def __init__(
        self, first_operand: int, most_registers: int, most_elements: int
    ) -> None:
        super().__init__(first_operand, most_registers, most_elements)
        self._rules: dict[Any, Callable[[int, Node, Indices, Valid], Work]] = {
            gather_p: self._gather,
            scatter_p: self._scatter,
            "movement": self._movement,
            "reduction": self._reduction,
            **dict.fromkeys(ELEMENTWISE, self._elementwise),
        }

    @abstractmethod
    def control(self, scope: int, node: Node, indices: Indices, valid: Valid) -> Work:
        """A result of a loop or a branch, or what a loop's results are."""

    def rule_of(self, node: Node) -> Callable[[int, Node, Indices, Valid], Work]:
        rules = self._rules
        return rules.get(node.op) or rules.get(node.op.family, self.control)

    def _elementwise(
        self, scope: int, node: Node, indices: Indices, valid: Valid
    ) -> Work:
        src: list[Node] = []
        if node.op is select:  # a branch that is not taken is not asked for
            chosen = yield scope, node.src[0], indices, valid
            if chosen.op is const_p:
                taken = node.src[1 if constant_value(chosen) else 2]
                return (yield scope, taken, indices, valid)
            src.append(chosen)
        for source in node.src[len(src) :]:
            src.append((yield scope, source, indices, valid))
        return scalar(node, src)

    def _movement(self, scope: int, node: Node, indices: Indices, valid: Valid) -> Work:
        at, inside = source_index(node, indices, valid)
        if inside is None:
            return const(0, node.dtype)
        value = yield scope, node.src[0], at, inside
        if inside == valid or _is_masked(value):
            return value
        where = self.valid_node(inside)
        assert where is not None
        return select(where, value, const(0, node.dtype))

    def _reduction(
        self, scope: int, node: Node, indices: Indices, valid: Valid
    ) -> Work:
        """One after the other; a sum of products rounds once per term."""
        axes: tuple[int, ...] = node.arg
        (source,) = node.src
        combine = COMBINES[node.op]
        total: Node | None = None
        for position in places([source.shape[a] for a in axes]):
            at = list(indices)
            for axis, place in zip(axes, position, strict=True):
                at[axis] = constant_index(place)
            term = yield scope, source, tuple(at), valid
            if total is None:
                total = term
            elif combine is add and term.op is mul and dtypes.kind(node.dtype) == "f":
                total = fma_p(*term.src, total, arg=RELAXED)
            else:
                total = folded(combine, node.dtype, (total, term))
        if total is None:
            return const(identity(node.op, node.dtype), node.dtype)
        return total

    def _gather(self, scope: int, node: Node, indices: Indices, valid: Valid) -> Work:
        axes: tuple[int, ...] = node.arg
        source, *arrays = node.src
        depth = arrays[0].ndim
        at, rest = indices[:depth], iter(indices[depth:])
        found: dict[int, Index] = {}
        for axis, array in zip(axes, arrays, strict=True):
            value = yield scope, array, at, valid
            found[axis] = self._as_index(value, source.shape[axis], at)
        where = [found[a] if a in found else next(rest) for a in range(source.ndim)]
        return (yield scope, source, tuple(where), valid)

    def _as_index(self, value: Node, size: int, at: Indices) -> Index:
        counter = _counter(value)
        if counter is not None:
            return range_index(*axis_of(counter))
        value = cast(value, INDEX)
        if value.op is const_p:
            return constant_index(int(constant_value(value)))
        number = self.value_of.setdefault(value, len(self.value_of))
        self.values[number] = value
        return value_index(number, size, ranges_of_all(at))

    def _scatter(self, scope: int, node: Node, indices: Indices, valid: Valid) -> Work:
        """The operand's element, and over it each update that may hit it, in order."""
        axes, kind = axes_and_kind(node)
        x, updates, *arrays = node.src
        total = yield scope, x, indices, valid
        rest = [i for a, i in enumerate(indices) if a not in axes]
        found = yield from self._own_updates(scope, node, indices)
        sizes = [1 if b in found else n for b, n in enumerate(arrays[0].shape)]
        for position in places(sizes):
            at = tuple(found.get(b, constant_index(p)) for b, p in enumerate(position))
            hit: Node | None = None
            for axis, array in zip(axes, arrays, strict=True):
                place = yield scope, array, at, valid
                here = (cast(place, INDEX), self.rendered(indices[axis]))
                same = folded(eq, dtypes.bool_, here)
                hit = same if hit is None else folded(bit_and, same.dtype, (hit, same))
            assert hit is not None
            if hit.op is const_p and not constant_value(hit):
                continue
            value = yield scope, updates, (*at, *rest), valid
            if kind != "set":
                value = folded(COMBINES_BY_NAME[kind], node.dtype, (total, value))
            total = folded(select, node.dtype, (hit, value, total))
        return total

    def _own_updates(
        self, scope: int, node: Node, indices: Indices
    ) -> Generator[Key, Any, dict[int, Index]]:
        """Axes of the updates along which only one may hit an element, and which.

        That is where an index array counts along it, as vmap makes it.
        """
        axes, _ = axes_and_kind(node)
        arrays = node.src[2:]
        ranges = [self.new_range(n) for n in arrays[0].shape]
        at = tuple(index for _, index in ranges)
        found: dict[int, Index] = {}
        for axis, array in zip(axes, arrays, strict=True):
            if not is_counted(array):
                continue
            value = yield scope, array, at, ALWAYS
            for b, (counter, _) in enumerate(ranges):
                if _counter(value) is counter and array.shape[b] > 1:
                    found[b] = indices[axis]
        return found


def _is_masked(value: Node) -> bool:
    """Is it zero already where the access is not valid?"""
    while value.op.name == "cast":
        value = value.src[0]
    return value.op is load_p and len(value.src) == 3


def _counter(value: Node) -> Node | None:
    """The range that a value is, in an integer that holds all of it."""
    least = value.dtype
    while value.op is cast_p and dtypes.is_integer(value.dtype):
        value = value.src[0]
        least = min(least, value.dtype, key=lambda d: dtypes.limits(d)[1])
    if value.op is not range_p or axis_of(value).size - 1 > dtypes.limits(least)[1]:
        return None
    return value
