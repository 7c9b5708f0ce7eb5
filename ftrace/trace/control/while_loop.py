"""while: a body as long as a predicate of its carry holds.

    while_p(*consts, *init, arg=While(cond, body, consts))
        -> *carry, *stacks

`cond` and `body` both take the constants and the carry; what the body returns after
the next carry is pushed on stacks. These are what reverse mode remembers of a loop
whose length nobody knows: its derivative is a scan over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import DerivativeError, GraphError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace import body as bodies
from ftrace.trace.avals import ShapedArray, Stack
from ftrace.trace.control import scan
from ftrace.trace.graph import Body, Flags, Node, Nodes
from ftrace.trace.primitives.elementwise import cast, select
from ftrace.trace.primitives.indexing import trailing
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.primitive import Batched, Compound, Results
from ftrace.trace.primitives.reduction import communicates, reduce_max_p
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic.dim import same_size


@dataclass(frozen=True)
class While:
    """The argument of a while.

    Attributes:
      cond: (consts, carry) -> a scalar bool.
      body: (consts, carry) -> (carry, pushed).
      consts: how many constants there are; the other operands are the carry.
    """

    cond: Body
    body: Body
    consts: int

    @property
    def carry(self) -> int:
        return len(self.body.inputs) - self.consts

    def __str__(self) -> str:
        return f"consts={self.consts}, carry={self.carry}"


def _infer(arg: While, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    wanted = [(n.shape, n.dtype) for n in arg.body.inputs]
    if not same_size([(a.shape, a.dtype) for a in avals], wanted):
        raise GraphError(f"while: the body takes {arg.body.inputs}, got {avals}")
    after = arg.body.outputs[: arg.carry]
    if not same_size([(n.shape, n.dtype) for n in after], wanted[arg.consts :]):
        raise GraphError(f"while: the carry {wanted[arg.consts :]} became {after}")
    (predicate,) = arg.cond.outputs
    if predicate.shape != () or predicate.dtype != dtypes.bool_:
        raise GraphError(f"while: the predicate is {predicate.aval!r}")
    pushed = arg.body.outputs[arg.carry :]
    return (*(n.aval for n in after), *(Stack.of_element(n.aval) for n in pushed))


def _value(avals: Sequence[ShapedArray], arg: While, *operands: Any) -> list[Any]:
    holds, step = bodies.plan_of(arg.cond), bodies.plan_of(arg.body)
    consts, carry = operands[: arg.consts], list(operands[arg.consts :])
    stacks: list[list[Any]] = [[] for _ in avals[arg.carry :]]
    while holds([*consts, *carry])[0]:
        found = step([*consts, *carry])
        carry = found[: arg.carry]
        for stack, value in zip(stacks, found[arg.carry :], strict=True):
            stack.append(value)
    return [*carry, *stacks]


def _jvp(node: Node, tangents: Results) -> Results:
    arg: While = node.arg
    first = len(node.src)
    given = [t is not None for t in tangents]
    found = bodies.varying_carry(arg.body, given, range(arg.consts, first))
    kept = scan.remember(found, arg.body, arg.consts, first)
    if not kept.stacked:  # the height of a stack is the length of the loop
        kept.stacked.append(const(0, dtypes.uint8))
    stacks = scan.stack_also(node, kept.stacked)
    return scan.tangent_scan(node, tangents, found, kept, stacks, False)


def _batch(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    arg: While = node.arg
    first = len(node.src)
    flags, body, has = bodies.batch_carry(
        arg.body, batched, range(arg.consts, first), size
    )
    cond, (differs,) = bodies.batch_body(arg.cond, flags, size)
    if differs and _communicate(arg, batched):
        return _in_step(node, src, batched, size)
    if differs:  # each lane has a length of its own
        return scan.map_lanes(node, src, batched, size)
    rows = zip(src, batched, flags, strict=True)
    operands = [bodies.with_lanes(x, had, flag, size) for x, had, flag in rows]
    return while_p.results(*operands, arg=While(cond, body, arg.consts)), has


def _communicate(arg: While, batched: Flags) -> bool:
    """Do lanes act together, in an iteration or in the predicate?"""
    return any(
        communicates(body.outputs, bodies.chosen(body.inputs, batched))
        for body in (arg.cond, arg.body)
    )


def _in_step(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    """All lanes iterate as long as one of them does; others keep what they have.

    while cond(x): x = body(x)  ->  while any(cond(xs)): xs = cond(xs) ? body(xs) : xs
    """
    arg: While = node.arg
    if len(arg.body.outputs) > arg.carry:
        raise DerivativeError(
            "while_loop: its instances act together and stop at different iterations; "
            "such a loop has no derivative: stop all at once, by a predicate of psum "
            "or pmax, or write it as a scan"
        )
    flags = [*batched[: arg.consts], *[True] * arg.carry]
    cond, body = (
        bodies.widen(arg.cond, flags, size),
        bodies.widen(arg.body, flags, size),
    )
    (going,) = cond.outputs
    lasts = reshape(reduce_max_p(cast(going, dtypes.uint8), arg=(0,)), ())
    # The predicate of the body is a body over the same operands.
    (goes,) = bodies.apply_body(cond, body.inputs)
    after = [
        select(trailing(goes, new.shape), new, old)
        for new, old in zip(body.outputs, body.inputs[arg.consts :], strict=True)
    ]
    arg = While(
        bodies.close(cond.inputs, [cast(lasts, dtypes.bool_)]),
        bodies.close(body.inputs, after),
        arg.consts,
    )
    rows = zip(src, batched, flags, strict=True)
    operands = [bodies.with_lanes(x, had, flag, size) for x, had, flag in rows]
    return while_p.results(*operands, arg=arg), [True] * arg.carry


while_p = Compound(
    "while", "control", _infer, _value, _batch, jvp=_jvp,
    doc="a body as long as a predicate of its carry holds", show=str,
)  # fmt: skip
