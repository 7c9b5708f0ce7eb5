"""scan: a body for each element along the leading axis, with a carry.

    scan_p(*consts, *init, *xs, arg=Scan(body, length, reverse, consts, carry))
        -> *carry, *ys

The inputs of the body are the constants, the carry and one element of each of `xs`;
its outputs are the next carry and one element of each of `ys`. Where `length` is None
all of `xs` and `ys` are stacks, and their number is known at run time only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ftrace.errors import GraphError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.autodiff import sums_of_kinds
from ftrace.trace.avals import TOKEN, ShapedArray, Stack
from ftrace.trace.batching import batch_nodes
from ftrace.trace.body import (
    BODY_DEPTH,
    Linearized,
    close,
    depends_on,
    or_zeros,
    plan_of,
    varying_carry,
)
from ftrace.trace.control.scan_transpose import transpose_scan
from ftrace.trace.control.scan_types import Scan, element_type, stacked_type
from ftrace.trace.graph import Body, Node, substitute
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.elementwise import add
from ftrace.trace.primitives.movement import move_axis
from ftrace.trace.primitives.primitive import Compound, Results
from ftrace.trace.primitives.sources import variable
from ftrace.trace.symbolic.dim import same_size

_RESIDUAL_DEPTH = -2
_BATCH_DEPTH = -5
_LANE_DEPTH = -6


def _infer(arg: Scan, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    body, first = arg.body, arg.consts + arg.carry
    given = [*avals[:first], *(element_type(a, arg.length) for a in avals[first:])]
    wanted = [n.aval for n in body.inputs]
    if len(given) != len(wanted) or any(
        not same_size(a.shape, b.shape) or a.dtype != b.dtype
        for a, b in zip(given, wanted, strict=True)
    ):
        raise GraphError(f"scan: the body takes {wanted}, got {given}")
    carry = [n.aval for n in body.outputs[: arg.carry]]
    before = [n.aval for n in body.inputs[arg.consts : first]]
    types = [[(a.shape, a.dtype) for a in avals] for avals in (carry, before)]
    if not same_size(*types):
        raise GraphError(f"scan: the carry {before} became {carry}")
    ys = [stacked_type(n.aval, arg.length) for n in body.outputs[arg.carry :]]
    return (*carry, *ys)


def _value(avals: Sequence[ShapedArray], arg: Scan, *operands: Any) -> list[Any]:
    plan = plan_of(arg.body)
    first = arg.consts + arg.carry
    consts, carry = operands[: arg.consts], list(operands[arg.consts : first])
    xs = operands[first:]
    length = arg.length
    if length is None:
        stacks: list[list[Any]] = [x for x in xs if isinstance(x, list)]
        length = len(stacks[0])
    rows: list[list[Any]] = []
    order = range(length)
    for t in reversed(order) if arg.reverse else order:
        found = plan([*consts, *carry, *(x[t] for x in xs)])
        carry = found[: arg.carry]
        rows.append(found[arg.carry :])
    if arg.reverse:
        rows.reverse()
    return [*carry, *(_stacked(a, rows, k) for k, a in enumerate(avals[arg.carry :]))]


def _stacked(aval: ShapedArray, rows: Sequence[Sequence[Any]], k: int) -> Any:
    if isinstance(aval, Stack):
        return [row[k] for row in rows]
    result: Any = np.empty(aval.shape, aval.dtype)
    for t, row in enumerate(rows):
        result[t] = row[k]
    return result


# Forward mode.


@dataclass(frozen=True)
class Remembered:
    """What a loop's derivative needs of the loop, by how it is kept.

    Attributes:
      invariant: the same in each iteration: kept once.
      elements: operands of the scan that are at hand anyway.
      stacked: the others, one per iteration.
    """

    invariant: list[Node]
    elements: list[Node]
    stacked: list[Node]


def remember(found: Linearized, body: Body, consts: int, first: int) -> Remembered:
    """Sorts the residuals of a loop's body; its elements begin at input `first`."""
    moving = depends_on(found.residuals, body.inputs[consts:])
    elements = set(body.inputs[first:])
    result = Remembered([], [], [])
    for node in found.residuals:
        if node not in moving:
            result.invariant.append(node)
        elif node in elements:
            result.elements.append(node)
        else:
            result.stacked.append(node)
    return result


def _jvp(node: Node, tangents: Results) -> Results:
    arg: Scan = node.arg
    first = arg.consts + arg.carry
    flags, found = varying_carry(
        arg.body, [t is not None for t in tangents], range(arg.consts, first)
    )
    kept = remember(found, arg.body, arg.consts, first)
    stacks: list[Node] = []
    if kept.stacked:
        longer = Body(arg.body.inputs, (*arg.body.outputs, *kept.stacked))
        results = scan_p.results(*node.src, arg=replace(arg, body=longer))
        stacks = results[len(arg.body.outputs) :]
    position = {n: i for i, n in enumerate(arg.body.inputs)}
    elements = [node.src[position[n]] for n in kept.elements]
    if arg.length is None and not (elements or stacks):
        stacked = next(i for i, s in enumerate(node.src) if isinstance(s.aval, Stack))
        kept.elements.append(arg.body.inputs[stacked])
        elements = [node.src[stacked]]
    return tangent_scan(
        node, tangents, flags, found, kept, [*elements, *stacks], arg.reverse
    )


def tangent_scan(
    node: Node,
    tangents: Results,
    flags: Sequence[bool],
    found: Linearized,
    kept: Remembered,
    elements: Sequence[Node],
    reverse: bool,
) -> Results:
    """The tangents of a loop's results: a linear scan over what it remembers.

    Args:
      node: the loop; its first operands are constants and carry.
      tangents: of its operands.
      flags, found, kept: which inputs of the body vary, and its derivative.
      elements: the values of `kept.elements` and `kept.stacked`.
    """
    arg: Any = node.arg
    body: Body = arg.body
    before: int = arg.consts
    first: int = before + arg.carry
    length: int | None = getattr(arg, "length", None)
    invariant = substitute(
        kept.invariant,
        dict(zip(body.inputs[:before], node.src[:before], strict=True)),
    )
    residuals: list[Node] = [*kept.invariant, *kept.elements, *kept.stacked]
    names = {n: variable(n.aval, _RESIDUAL_DEPTH, i) for i, n in enumerate(residuals)}
    moving = [i for i, flag in enumerate(flags) if flag and found.tangents[i]]
    consts = [i for i in moving if i < before]
    carry = [i for i in moving if before <= i < first]
    xs = [i for i in moving if i >= first]
    inputs = [
        *(names[n] for n in kept.invariant),
        *(found.tangents[i] for i in (*consts, *carry, *xs)),
        *(names[n] for n in (*kept.elements, *kept.stacked)),
    ]
    after = [
        or_zeros(found.outputs[i - before], body.outputs[i - before]) for i in carry
    ]
    ys = [k for k in range(arg.carry, len(body.outputs)) if found.outputs[k]]
    outputs = substitute([*after, *(_some(found.outputs[k]) for k in ys)], names)
    linear = Scan(
        close([_some(n) for n in inputs], outputs),
        length,
        reverse,
        len(invariant) + len(consts),
        len(carry),
    )
    operands = [
        *invariant,
        *(_some(tangents[i]) for i in consts),
        *(or_zeros(tangents[i], node.src[i]) for i in carry),
        *(_some(tangents[i]) for i in xs),
        *elements,
    ]
    results = iter(scan_p.results(*operands, arg=linear))
    answer: list[Node | None] = [None] * len(body.outputs)
    for i in carry:
        answer[i - before] = next(results)
    for k in ys:
        answer[k] = next(results)
    return answer


def _some(node: Node | None) -> Node:
    assert node is not None
    return node


def add_stacks(x: Node, y: Node) -> Node:
    """The sums of their elements, of stacks of equal heights: lane by lane, if any."""
    assert isinstance(x.aval, Stack)
    length = x.aval.lanes[0] if x.aval.lanes else None
    element = element_type(x.aval, length)
    a, b = (variable(element, BODY_DEPTH, i) for i in range(2))
    total = add_stacks(a, b) if isinstance(element, Stack) else add(a, b)
    arg = Scan(Body((a, b), (total,)), length, False, 0, 0)
    return scan_p.results(x, y, arg=arg)[0]


sums_of_kinds[Stack] = add_stacks


# Batching.


def _batch(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    arg: Scan = node.arg
    first = arg.consts + arg.carry
    if any(_lanes(new) != _lanes(old) for new, old in zip(src, node.src, strict=True)):
        return map_lanes(node, src, batched, size)
    flags, outputs = batch_carry(arg.body, batched, range(arg.consts, first), size)
    operands = [
        _aligned(source, has, wanted, size, i >= first)
        for i, (source, has, wanted) in enumerate(zip(src, batched, flags, strict=True))
    ]
    inputs = batched_inputs(arg.body, flags, size)
    body = close(inputs, [n for n, _ in outputs])
    results = scan_p.results(*operands, arg=replace(arg, body=body))
    has_lanes = [has for _, has in outputs]
    return [
        move_axis(r, 1, 0)
        if has and k >= arg.carry and not isinstance(r.aval, Stack)
        else r
        for k, (r, has) in enumerate(zip(results, has_lanes, strict=True))
    ], has_lanes


def _lanes(node: Node) -> tuple[int, ...]:
    return node.aval.lanes if isinstance(node.aval, Stack) else ()


def batched_inputs(body: Body, flags: Sequence[bool], size: int) -> list[Node]:
    """The inputs of a body; with one more leading axis where the flag is set."""
    return [
        variable(_widened(n.aval, size), _BATCH_DEPTH, i) if flag else n
        for i, (n, flag) in enumerate(zip(body.inputs, flags, strict=True))
    ]


def _widened(aval: ShapedArray, size: int) -> ShapedArray:
    if isinstance(aval, Stack):
        return Stack.of_element(_widened(aval.element, size), aval.lanes)
    return aval.with_shape((size, *aval.shape))


def batch_carry(
    body: Body, batched: Sequence[bool], carry: range, size: int
) -> tuple[list[bool], list[tuple[Node, bool]]]:
    """A loop's body for batched inputs, once the carry has gone around.

    Returns:
      Which inputs are batched then; and for each output (node, batched), where the
      carry's are as its inputs'.
    """
    flags = list(batched)
    while True:
        inputs = batched_inputs(body, flags, size)
        leaves = {n: b for n, b, f in zip(body.inputs, inputs, flags, strict=True) if f}
        found = batch_nodes(body.outputs, leaves, size)
        before = list(flags)
        for k, i in enumerate(carry):
            flags[i] = flags[i] or found[k][1]
        if flags == before:
            break
    for k, i in enumerate(carry):
        made, has = found[k]
        if flags[i] and not has:
            found[k] = broadcast_leading(made, (size, *made.shape)), True
    return flags, found


def _aligned(node: Node, has: bool, wanted: bool, size: int, element: bool) -> Node:
    """An operand of a batched scan: elements first, then lanes."""
    if not has:
        return broadcast_leading(node, (size, *node.shape)) if wanted else node
    if element and not isinstance(node.aval, Stack):
        return move_axis(node, 0, 1)
    return node


scan_p = Compound(
    "scan", "control", _infer, _value, _batch, jvp=_jvp, transpose=transpose_scan,
    doc="a body for each element along the leading axis, with a carry", show=str,
)  # fmt: skip


def map_lanes(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    """A compound, applied to each lane: a scan without carry, unless it has effects.

    Args:
      node: the operation on single examples.
      src, batched: its operands, and which of them have a leading axis of lanes.
      size: how many lanes.

    Returns:
      Its results, and whether each has lanes: all but tokens.
    """
    op = node.op
    assert isinstance(op, Compound)
    names = [variable(s.aval, _LANE_DEPTH, i) for i, s in enumerate(node.src)]
    results = op.results(*names, arg=node.arg)
    tokens = [r for r in results if r.aval is TOKEN]
    # A token that is not passed on is not used: it does not go around.
    kinds = [
        1 if old.aval is TOKEN and tokens else 2 if has else 0
        for old, has in zip(node.src, batched, strict=True)
    ]
    order = sorted(range(len(src)), key=lambda i: kinds[i])
    others = [r for r in results if r.aval is not TOKEN]
    body = close([names[i] for i in order], [*tokens, *others])
    arg = Scan(body, size, False, kinds.count(0), len(tokens))
    found = scan_p.results(*[src[i] for i in order], arg=arg)
    first, rest = iter(found[: len(tokens)]), iter(found[len(tokens) :])
    return (
        [next(first) if r.aval is TOKEN else next(rest) for r in results],
        [r.aval is not TOKEN for r in results],
    )
