"""Control flow in the form in which programs run it.

    scan, while  ->  loop: one operation, whose body also computes the predicate

`while cond: body` becomes a loop whose body returns, after the carry and what it
pushes, whether there is another iteration: the predicate is computed with the rest of
the body, and the first one in the graph around it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ftrace.errors import GraphError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import TOKEN, ShapedArray
from ftrace.trace.body import apply_body
from ftrace.trace.control.conditional import While, while_p
from ftrace.trace.control.scan import Scan, scan_p, stacked_type
from ftrace.trace.graph import Body, Node, graphs_within, nodes_of
from ftrace.trace.graph_map import Rule, convert
from ftrace.trace.primitives.primitive import Compound

#: Iterations of a parallel loop that may run at the same time. Each has an arena of its
#: own: with 64 loops take 4 times the memory, with 4 a fourth.
LANES = 16


@dataclass(frozen=True)
class Loop:
    """The argument of a loop; its operands are predicate, constants, carry, elements.

    Attributes:
      body: (consts, carry, elements) -> (carry, elements, predicate).
      length, reverse, consts, carry: as of `Scan`.
      predicate: there is a predicate: the first operand, and the body's last output.
      lanes: how many iterations may run at the same time, where they are independent.
    """

    body: Body
    length: int | None
    reverse: bool
    consts: int
    carry: int
    predicate: bool
    lanes: int = LANES

    def __str__(self) -> str:
        length = "while" if self.length is None else f"length={self.length}"
        return f"{length}, consts={self.consts}, carry={self.carry}"


def _infer(arg: Loop, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    outputs = arg.body.outputs
    last = len(outputs) - arg.predicate
    carry = [n.aval for n in outputs[: arg.carry]]
    return (
        *carry,
        *(stacked_type(n.aval, arg.length) for n in outputs[arg.carry : last]),
    )


def _refuse_to_evaluate(*_: Any) -> Any:
    raise GraphError("a loop exists in lowered programs only")


loop_p = Compound(
    "loop", "loop", _infer, _refuse_to_evaluate, _refuse_to_evaluate,
    no_derivative="it exists in lowered programs only", show=str,
    doc="what scan and while become in lowering",
)  # fmt: skip


def _loop_of_scan(node: Node, read: Collection[int]) -> Node:
    arg: Scan = node.arg
    loop = Loop(arg.body, arg.length, arg.reverse, arg.consts, arg.carry, False)
    return loop_p(*node.src, arg=loop)


def _loop_of_while(node: Node, read: Collection[int]) -> Node:
    arg: While = node.arg
    src = node.src
    cond = replace(arg.cond, outputs=tuple(convert(arg.cond.outputs, LOOPS)))
    (first,) = apply_body(cond, src)
    consts = arg.body.inputs[: arg.consts]
    after = arg.body.outputs[: arg.carry]
    (again,) = apply_body(cond, [*consts, *after])
    body = replace(arg.body, outputs=(*arg.body.outputs, again))
    loop = Loop(body, None, False, arg.consts, arg.carry, True)
    return loop_p(first, *src, arg=loop)


def runs_on_host(body: Body) -> bool:
    """Does anything in the body, or in bodies within it, run on the host in order?"""
    return any(
        node.aval is TOKEN or node.op.family == "host"
        for outputs in graphs_within(body.outputs)
        for node in nodes_of(outputs)
    )


#: What makes loops of the operations that have bodies to be repeated.
LOOPS: dict[Any, Rule] = {
    scan_p: _loop_of_scan,
    while_p: _loop_of_while,
}
