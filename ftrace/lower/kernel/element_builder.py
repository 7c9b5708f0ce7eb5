"""An expression for each element that is asked for: of a node of a graph, at a place.

A rule is a generator: it yields the keys of the elements that it needs, and is sent
their expressions, each of which is made once. So nothing recurses over the graph. What
a key is besides a node and its place, and what an operation does, is open: a kernel has
ranges for a reduce (`build/build_kernel.py`), a loop in registers all of its terms
(`register_loops/scalar_elements.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from ftrace.lower.kernel import affine_index as ix, ir
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node, make_node
from ftrace.trace.primitives.elementwise import cast, select
from ftrace.trace.primitives.sources import const, const_p, dim_p

Indices = tuple[ix.Index, ...]
Key = TypeVar("Key", bound=tuple[Any, ...])


def through(key: Key) -> Generator[Key, Any, Any]:
    """A rule: what another element is."""
    return (yield key)


class ElementBuilder(ABC, Generic[Key]):
    """Expresses elements.

    Attributes:
      expressions: what has been made.
    """

    def __init__(self) -> None:
        self.expressions: dict[Key, Any] = {}
        self._valid_nodes: dict[ix.Valid, Node | None] = {}

    @abstractmethod
    def express(self, key: Key) -> Generator[Key, Any, Any]:
        """The expression of an element: a rule."""

    @abstractmethod
    def value_in_index(self, atom: Node) -> Node:
        """What stands for the value of an index array in an index."""

    def leaf(self, key: Key) -> Node | None:
        """The expression of what needs no others, where that is known at once."""
        del key

    def element(self, key: Key) -> Any:
        return self.run(through(key))

    def run(self, work: Generator[Key, Any, Any]) -> Any:
        """The answer of a generator that asks for elements."""
        answer: Any = None
        pending: list[tuple[Key | None, Generator[Key, Any, Any]]] = [(None, work)]
        while pending:
            key, work = pending[-1]
            try:
                needed = work.send(answer)
            except StopIteration as done:
                pending.pop()
                answer = done.value
                if key is not None:
                    self.expressions[key] = answer
                continue
            answer = self.expressions.get(needed)
            if answer is None:
                answer = self.expressions[needed] = self.leaf(needed)
                if answer is None:
                    pending.append((needed, self.express(needed)))
        return answer

    def render(self, index: ix.Index) -> Node:
        return ix.render_index(index, self.value_in_index)

    def valid_node(self, valid: ix.Valid) -> Node | None:
        """Is there an element? None where there always is."""
        if valid not in self._valid_nodes:
            self._valid_nodes[valid] = ix.render_valid(valid, self.value_in_index)
        return self._valid_nodes[valid]

    def source(self, node: Node, indices: Indices) -> Node:
        """A constant, a size or a position."""
        if node.op is const_p:
            return make_node(const_p, ShapedArray.of((), node.dtype), (), node.arg)
        if node.op is dim_p:
            return cast(const(node.arg, ir.INDEX), node.dtype)
        axis: int = node.arg
        return cast(self.render(indices[axis]), node.dtype)

    def load(self, buffer: int, node: Node, indices: Indices, valid: ix.Valid) -> Node:
        index = self.render(ix.flatten_index(indices, node.shape))
        memory = ir.param(buffer, node.dtype, node.size)
        return ir.load(memory, index, self.valid_node(valid))

    def mask_outside(self, value: Node, inside: ix.Valid, valid: ix.Valid) -> Node:
        """An operand's value, and zero where the movement has no operand."""
        if inside == valid or ir.is_masked(value):
            return value
        where = self.valid_node(inside)
        assert where is not None
        return select(where, value, const(0, value.dtype))
