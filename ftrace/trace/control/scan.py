"""scan: a body for each element along the leading axis, with a carry.

    scan_p(*consts, *init, *xs, arg=Scan(body, length, reverse, consts, carry))
        -> *carry, *ys

The inputs of the body are the constants, the carry and one element of each of `xs`;
its outputs are the next carry and one element of each of `ys`. Where `length` is None
all of `xs` and `ys` are stacks, and their number is known at run time only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ftrace.errors import GraphError
from ftrace.trace.autodiff import split_known, transpose_nodes
from ftrace.trace.avals import TOKEN, ShapedArray, Stack
from ftrace.trace.batching import batch_nodes
from ftrace.trace.body import (
    Linearized,
    close,
    depends_on,
    or_zeros,
    plan_of,
    strong_zeros,
    varying_carry,
)
from ftrace.trace.graph import Body, Node, substitute
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.elementwise import add
from ftrace.trace.primitives.movement import move_axis
from ftrace.trace.primitives.record import Compound, Results
from ftrace.trace.primitives.source import variable

_RESIDUAL_DEPTH = -2
_COTANGENT_DEPTH = -7
_BATCH_DEPTH = -5
_LANE_DEPTH = -6


@dataclass(frozen=True)
class Scan:
    """The argument of a scan.

    Attributes:
      body: (consts, carry, elements) -> (carry, elements).
      length: how many elements; None where the stacks among `xs` tell.
      reverse: from the last element to the first.
      consts, carry: how many operands each of them has; the others are `xs`.
    """

    body: Body
    length: int | None
    reverse: bool
    consts: int
    carry: int

    def __str__(self) -> str:
        length = "as stacked" if self.length is None else f"length={self.length}"
        order = ", reverse" if self.reverse else ""
        return f"{length}{order}, consts={self.consts}, carry={self.carry}"


def element_type(aval: ShapedArray, length: int | None) -> ShapedArray:
    """The type of one element of an operand that a scan runs over."""
    if isinstance(aval, Stack):
        if aval.lanes:
            return Stack.of_element(aval.element, aval.lanes[1:])
        return aval.element
    if length is None or aval.ndim == 0 or aval.shape[0] != length:
        raise GraphError(f"scan of length {length} over an operand of type {aval!r}")
    return aval.with_shape(aval.shape[1:])


def stacked_type(aval: ShapedArray, length: int | None) -> ShapedArray:
    """The type of all elements of a result."""
    if isinstance(aval, Stack):
        if length is None:
            raise GraphError("a stack cannot hold stacks")
        return Stack.of_element(aval.element, (length, *aval.lanes))
    if length is None:
        return Stack.of_element(aval)
    return aval.with_shape((length, *aval.shape))


def _infer(arg: Scan, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    body, first = arg.body, arg.consts + arg.carry
    given = [*avals[:first], *(element_type(a, arg.length) for a in avals[first:])]
    wanted = [n.aval for n in body.inputs]
    if len(given) != len(wanted) or any(
        a.shape != b.shape or a.dtype != b.dtype
        for a, b in zip(given, wanted, strict=True)
    ):
        raise GraphError(f"scan: the body takes {wanted}, got {given}")
    carry = [n.aval for n in body.outputs[: arg.carry]]
    before = [n.aval for n in body.inputs[arg.consts : first]]
    if [(a.shape, a.dtype) for a in carry] != [(a.shape, a.dtype) for a in before]:
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


# Reverse mode.


def _transpose(node: Node, cotangents: Results, linear: tuple[bool, ...]) -> Results:
    arg: Scan = node.arg
    body, first = arg.body, arg.consts + arg.carry
    flags, _ = _linear_carry(arg, linear)
    if not all(flags[arg.consts : first]):
        return _transpose_split(node, cotangents, linear)
    consts = [i for i in range(arg.consts) if linear[i]]
    carry = list(range(arg.consts, first))
    xs = [i for i in range(first, len(body.inputs)) if linear[i]]
    ys = [k for k in range(arg.carry, len(body.outputs)) if cotangents[k] is not None]
    given = {
        k: variable(_strong(body.outputs[k].aval), _COTANGENT_DEPTH, k)
        for k in (*range(arg.carry), *ys)
    }
    leaves = [body.inputs[i] for i in (*consts, *carry, *xs)]
    found = transpose_nodes(
        [body.outputs[k] for k in given], leaves, list(given.values())
    )
    parts = dict(zip((*consts, *carry, *xs), found, strict=True))
    totals = [
        variable(_strong(body.inputs[i].aval), _COTANGENT_DEPTH, 10_000 + i)
        for i in consts
    ]
    sums = [
        total if parts[i] is None else add(total, _some(parts[i]))
        for i, total in zip(consts, totals, strict=True)
    ]
    constant = [i for i in range(arg.consts) if not linear[i]]
    elements = [i for i in range(first, len(body.inputs)) if not linear[i]]
    backward = Scan(
        close(
            [
                *(body.inputs[i] for i in constant),
                *(given[k] for k in range(arg.carry)),
                *totals,
                *(given[k] for k in ys),
                *(body.inputs[i] for i in elements),
            ],
            [
                *(or_zeros(parts[i], body.inputs[i]) for i in carry),
                *sums,
                *(or_zeros(parts[i], body.inputs[i]) for i in xs),
            ],
        ),
        arg.length,
        not arg.reverse,
        len(constant),
        arg.carry + len(consts),
    )
    operands = [
        *(node.src[i] for i in constant),
        *(or_zeros(cotangents[k], body.outputs[k]) for k in range(arg.carry)),
        *(strong_zeros(body.inputs[i]) for i in consts),
        *(_some(cotangents[k]) for k in ys),
        *(node.src[i] for i in elements),
    ]
    results = iter(scan_p.results(*operands, arg=backward))
    answer: list[Node | None] = [None] * len(node.src)
    for i in (*carry, *consts, *xs):
        answer[i] = next(results)
    return answer


def _transpose_split(
    node: Node, cotangents: Results, linear: tuple[bool, ...]
) -> Results:
    """Of a scan that also carries what is not linear: that runs first, by itself."""
    arg: Scan = node.arg
    body, first = arg.body, arg.consts + arg.carry
    flags, moving = _linear_carry(arg, linear)
    known = [i for i, flag in enumerate(flags) if not flag]
    carry = [k for k in range(arg.carry) if flags[arg.consts + k]]
    others = [k for k in range(arg.carry) if not flags[arg.consts + k]]
    ys = [k for k in range(arg.carry, len(body.outputs)) if body.outputs[k] in moving]
    leaves = [n for n, flag in zip(body.inputs, flags, strict=True) if flag]
    results = [body.outputs[k] for k in (*carry, *ys)]
    residuals = split_known(results, leaves)
    at_hand = {body.inputs[i] for i in known if not arg.consts <= i < first}
    stacked = [n for n in residuals if n not in at_hand]
    before = Scan(
        close(
            [body.inputs[i] for i in known],
            [*(body.outputs[k] for k in others), *stacked],
        ),
        arg.length,
        arg.reverse,
        sum(i < arg.consts for i in known),
        len(others),
    )
    made = scan_p.results(*(node.src[i] for i in known), arg=before)[len(others) :]
    values = dict(zip(stacked, made, strict=True))
    names = {n: variable(n.aval, _RESIDUAL_DEPTH, i) for i, n in enumerate(residuals)}
    position = {n: i for i, n in enumerate(body.inputs)}
    of_consts = [n for n in residuals if n in at_hand and position[n] < arg.consts]
    of_elements = [n for n in residuals if n not in of_consts]
    mine = [i for i, flag in enumerate(flags) if flag]
    consts = [i for i in mine if i < arg.consts]
    carried = [i for i in mine if arg.consts <= i < first]
    xs = [i for i in mine if i >= first]
    rest = Scan(
        close(
            [
                *(names[n] for n in of_consts),
                *(body.inputs[i] for i in (*consts, *carried, *xs)),
                *(names[n] for n in of_elements),
            ],
            substitute(results, names),
        ),
        arg.length,
        arg.reverse,
        len(of_consts) + len(consts),
        len(carried),
    )
    bundle = scan_p(
        *(node.src[position[n]] for n in of_consts),
        *(node.src[i] for i in (*consts, *carried, *xs)),
        *(values[n] if n in values else node.src[position[n]] for n in of_elements),
        arg=rest,
    )
    order = [*consts, *carried, *xs]
    places = range(len(of_consts), len(of_consts) + len(order))
    parts = _transpose(
        bundle,
        [cotangents[k] for k in (*carry, *ys)],
        tuple(i in places for i in range(len(bundle.src))),
    )
    answer: list[Node | None] = [None] * len(node.src)
    for i, place in zip(order, places, strict=True):
        answer[i] = parts[place]
    return answer


def _linear_carry(arg: Scan, linear: Sequence[bool]) -> tuple[list[bool], set[Node]]:
    """Which inputs are linear once the carry has gone around, and what they move."""
    flags = list(linear)
    while True:
        leaves = [n for n, flag in zip(arg.body.inputs, flags, strict=True) if flag]
        moving = depends_on(arg.body.outputs, leaves)
        before = list(flags)
        for k in range(arg.carry):
            i = arg.consts + k
            flags[i] = flags[i] or arg.body.outputs[k] in moving
        if flags == before:
            return flags, moving


def _strong(aval: ShapedArray) -> ShapedArray:
    return aval if isinstance(aval, Stack) or aval is TOKEN else aval.strong()


def add_stacks(x: Node, y: Node) -> Node:
    """The elementwise sum of two stacks of one height."""
    assert isinstance(x.aval, Stack)
    if x.aval.lanes:
        element: ShapedArray = Stack.of_element(x.aval.element, x.aval.lanes[1:])
        length: int | None = x.aval.lanes[0]
    else:
        element, length = x.aval.element, None
    a, b = (variable(element, _COTANGENT_DEPTH, i) for i in range(2))
    total = add_stacks(a, b) if isinstance(element, Stack) else add(a, b)
    arg = Scan(close([a, b], [total]), length, False, 0, 0)
    return scan_p.results(x, y, arg=arg)[0]


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
    "scan", "control", _infer, _value, _batch, jvp=_jvp, transpose=_transpose,
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
