"""checkpoint: a function whose derivative computes it again.

    checkpoint_p(*operands, arg=Checkpoint) -> *results

Its tangents are another such call, of the operands, of the values that the policy
keeps, and of the tangents: linear in these. What lies between is not remembered. The
transpose of that call computes it again behind a barrier: not before the cotangents
exist, and never merged with the first time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.autodiff import split_known, transpose_nodes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.batching import batch_nodes
from ftrace.trace.body import apply_body, close, linearize, plan_of
from ftrace.trace.calls.remat_policy import Constantly, Policy, kept_values
from ftrace.trace.control.scan import batched_inputs, map_lanes
from ftrace.trace.graph import Body, Node, nodes_of, substitute
from ftrace.trace.primitives.barrier import IN_LOOPS, Where, barrier
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.primitive import Compound, Results
from ftrace.trace.primitives.sources import const_p, variable

_KEPT_DEPTH = -10
_COTANGENT_DEPTH = -7


@dataclass(frozen=True)
class Checkpoint:
    """The argument.

    Attributes:
      body: the function.
      policy: what its derivative keeps.
      barrier: keep what is computed again apart from the first time; False: in the
        bodies of loops only.
      again: there is something that is computed again.
      effects: the last operand and the last result are tokens.
    """

    body: Body
    policy: Policy
    barrier: bool
    effects: bool = False
    again: bool = True

    def __str__(self) -> str:
        return getattr(self.policy, "__name__", repr(self.policy))


def _infer(arg: Checkpoint, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return tuple(n.aval for n in arg.body.outputs)


def _value(avals: Any, arg: Checkpoint, *operands: Any) -> list[Any]:
    return plan_of(arg.body)(operands)


def _jvp(node: Node, tangents: Results) -> Results:
    arg: Checkpoint = node.arg
    inputs = arg.body.inputs
    found = linearize(arg.body, tuple(t is not None for t in tangents))
    moving = [i for i, name in enumerate(found.tangents) if name is not None]
    names = [n for n in found.tangents if n is not None]
    wanted = [k for k, t in enumerate(found.outputs) if t is not None]
    answer: list[Node | None] = [None] * len(arg.body.outputs)
    if not wanted:
        return answer
    outputs = [t for t in found.outputs if t is not None]
    kept = kept_values(split_known(outputs, names), set(inputs), arg.policy)
    mapping = {n: variable(n.aval, _KEPT_DEPTH, i) for i, n in enumerate(kept)}
    outputs = substitute(outputs, mapping)
    used = nodes_of(outputs)
    needed = [i for i, name in enumerate(inputs) if name in used]
    body = close([*(inputs[i] for i in needed), *mapping.values(), *names], outputs)
    operands = [
        *(node.src[i] for i in needed),
        *apply_body(Body(inputs, tuple(kept)), node.src),
        *(t for i in moving if (t := tangents[i]) is not None),
    ]
    again = arg.policy != Constantly(True)
    linear = replace(arg, body=body, effects=False, again=again)
    results = checkpoint_p.results(*operands, arg=linear)
    for k, result in zip(wanted, results, strict=True):
        answer[k] = result
    return answer


def _transpose(node: Node, cotangents: Results, linear: tuple[bool, ...]) -> Results:
    arg: Checkpoint = node.arg
    inputs = arg.body.inputs
    known = [k for k, ct in enumerate(cotangents) if ct is not None]
    outputs = [arg.body.outputs[k] for k in known]
    given = [variable(n.aval.strong(), _COTANGENT_DEPTH, i)
             for i, n in enumerate(outputs)]  # fmt: skip
    wanted = [i for i, flag in enumerate(linear) if flag]
    constant = [i for i, flag in enumerate(linear) if not flag]
    found = transpose_nodes(outputs, [inputs[i] for i in wanted], given)
    parts = {
        i: cast(ct, inputs[i].dtype)
        for i, ct in zip(wanted, found, strict=True)
        if ct is not None
    }
    used = nodes_of(parts.values())
    constant = [i for i in constant if inputs[i] in used]
    body = close([*(inputs[i] for i in constant), *given], list(parts.values()))
    operands = [
        *(node.src[i] for i in constant),
        *(ct for ct in cotangents if ct is not None),
    ]
    apart = arg.again and bool(constant)
    where = None if arg.barrier else IN_LOOPS
    if apart:
        operands = _apart(operands, where)
    results = checkpoint_p.results(*operands, arg=replace(arg, body=body))
    if apart:  # what was computed again is done with before others begin
        results = barrier(results, where)
    answer: list[Node | None] = [None] * len(node.src)
    for i, result in zip(parts, results, strict=True):
        answer[i] = result
    return answer


def _apart(operands: list[Node], where: Where) -> list[Node]:
    """The operands behind a barrier; constants take no memory and stay."""
    behind = iter(barrier([n for n in operands if n.op is not const_p], where))
    return [n if n.op is const_p else next(behind) for n in operands]


def _batch(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    arg: Checkpoint = node.arg
    if arg.effects:
        return map_lanes(node, src, batched, size)
    inputs = batched_inputs(arg.body, batched, size)
    leaves = {
        n: b for n, b, f in zip(arg.body.inputs, inputs, batched, strict=True) if f
    }
    found = batch_nodes(arg.body.outputs, leaves, size)
    body = close(inputs, [n for n, _ in found])
    results = checkpoint_p.results(*src, arg=replace(arg, body=body))
    return results, [has for _, has in found]


checkpoint_p = Compound(
    "checkpoint", "call", _infer, _value, _batch, jvp=_jvp, transpose=_transpose,
    doc="a function whose derivative computes it again", show=str,
)  # fmt: skip
