"""linear_call: a linear function, and another one that is its transpose.

linear_call_p(*closed, *residuals, *operands, arg=LinearCall) -> *results
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.body import apply_body, close, linearize, plan_of
from ftrace.trace.calls.custom_derivative import Lanes
from ftrace.trace.calls.rule_graphs import Rule, widen
from ftrace.trace.graph import Body, Node
from ftrace.trace.primitives.broadcast import reduce_sum
from ftrace.trace.primitives.elementwise import add, cast
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.primitive import Compound, Results
from ftrace.trace.primitives.sources import zeros_like


@dataclass(frozen=True)
class LinearCall:
    """The argument.

    Attributes:
      name: of the function.
      body: the function of all operands.
      avals: the types of the operands without lanes.
      constants: in how many operands, the first ones, it need not be linear.
      results: the types of the results without lanes.
      rule: (residuals, cotangents) -> cotangents of the other operands.
      lanes: the vmaps around it.
    """

    name: str
    body: Body
    avals: tuple[ShapedArray, ...]
    constants: int
    results: tuple[ShapedArray, ...]
    rule: Rule
    lanes: Lanes = ()

    def __str__(self) -> str:
        return self.name


def _infer(arg: LinearCall, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return tuple(n.aval for n in arg.body.outputs)


def _value(avals: Any, arg: LinearCall, *operands: Any) -> list[Any]:
    return plan_of(arg.body)(operands)


def _jvp(node: Node, tangents: Results) -> Results:
    """The same function of the tangents; beside it, what the residuals change."""
    arg: LinearCall = node.arg
    first = arg.constants
    answer: list[Node | None] = [None] * len(arg.body.outputs)
    if any(t is not None for t in tangents[first:]):
        moving = [
            t if t is not None else zeros_like(s)
            for t, s in zip(tangents[first:], node.src[first:], strict=True)
        ]
        found = linear_call_p.results(*node.src[:first], *moving, arg=arg)
        answer = [
            cast(r, r.dtype) if dtypes.is_inexact(r.dtype) else None for r in found
        ]
    flags = tuple(t is not None for t in tangents[:first])
    if any(flags):
        moved = linearize(arg.body, (*flags, *[False] * (len(node.src) - first)))
        names = [n for n in moved.tangents if n is not None]
        wanted = [k for k, t in enumerate(moved.outputs) if t is not None]
        body = Body(
            (*arg.body.inputs, *names), tuple(_some(moved.outputs[k]) for k in wanted)
        )
        present = [_some(t) for t in tangents[:first] if t is not None]
        for k, change in zip(wanted, apply_body(body, [*node.src, *present]),
                             strict=True):  # fmt: skip
            known = answer[k]
            answer[k] = change if known is None else add(known, change)
    return answer


def _some(node: Node | None) -> Node:
    assert node is not None
    return node


def _transpose(node: Node, cotangents: Results, linear: tuple[bool, ...]) -> Results:
    arg: LinearCall = node.arg
    first = arg.constants
    if any(linear[:first]):
        raise GraphError(f"linear_call of {arg.name} is not linear in its residuals")
    mask = tuple(ct is not None for ct in cotangents)
    known = [ct for ct in cotangents if ct is not None]
    types = [a.strong() for a, flag in zip(arg.results, mask, strict=True) if flag]
    body = arg.rule.trace("transpose", [*arg.avals[:first], *types], mask)
    for size, flags in arg.lanes:
        wide = widen(body, (*flags[:first], *[True] * len(known)), size)
        outputs = [
            ct if has else reshape(reduce_sum(ct, (0,)), ct.shape[1:])
            for ct, has in zip(wide.outputs, flags[first:], strict=True)
        ]
        body = close(wide.inputs, outputs)
    found = apply_body(body, [*node.src[:first], *known])
    moved = zip(found, node.src[first:], strict=True)
    return [None] * first + [cast(ct, s.dtype) for ct, s in moved]


def _batch(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    arg: LinearCall = node.arg
    if not any(batched):
        results: Sequence[Node] = linear_call_p.results(*src, arg=arg)
        return list(results), [False] * len(results)
    wide = replace(
        arg, body=widen(arg.body, batched, size), lanes=(*arg.lanes, (size, batched))
    )
    results = linear_call_p.results(*src, arg=wide)
    return list(results), [True] * len(results)


linear_call_p = Compound(
    "linear_call", "call", _infer, _value, _batch, jvp=_jvp, transpose=_transpose,
    doc="a linear function with a transpose of its own", show=str,
)  # fmt: skip
