"""Operations that are steps of a program by themselves, with the programs they run."""

from __future__ import annotations

from ftrace.lower.control import Loop
from ftrace.lower.program import Program
from ftrace.lower.values import root_of
from ftrace.records import dataclass
from ftrace.trace.graph import Node
from ftrace.trace.primitives.record import items


@dataclass(frozen=True, eq=False)
class BuiltStep:
    """An operation that is a step by itself.

    Attributes:
      node: the operation.
      programs: of its bodies.
    """

    node: Node
    programs: tuple[Program, ...]

    @property
    def operands(self) -> list[Node]:
        return [root_of(s) for s in self.node.src]

    def updates_in_place(self, k: int) -> bool:
        """Does each iteration write the carry number k where it reads it?"""
        arg = self.node.arg
        if not isinstance(arg, Loop):
            return False
        (body,) = self.programs
        return body.outputs[k] == body.inputs[arg.consts + k]

    def carried_in_place(self) -> list[tuple[Node, Node]]:
        """The (first value, result) of each carry that is updated in place."""
        arg = self.node.arg
        if not isinstance(arg, Loop):
            return []
        initial = self.operands[arg.predicate + arg.consts :]
        results = items(self.node)
        return [
            (initial[k], results[k])
            for k in range(arg.carry)
            if self.updates_in_place(k)
        ]
