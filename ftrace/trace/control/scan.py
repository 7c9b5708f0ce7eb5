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
from ftrace.trace import body as bodies
from ftrace.trace.autodiff import sums_of_kinds, transpose_nodes
from ftrace.trace.avals import TOKEN, ShapedArray, Stack
from ftrace.trace.batching import of_each
from ftrace.trace.evaluate import number_iterations
from ftrace.trace.graph import Body, Flags, Node, Nodes, substitute
from ftrace.trace.primitives.elementwise import add
from ftrace.trace.primitives.movement import move_axis
from ftrace.trace.primitives.primitive import Batched, Compound, Results, items
from ftrace.trace.primitives.sources import stand_ins, variable
from ftrace.trace.symbolic import same_size


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


def iterations_of(arg: Any) -> int:
    """How often a body runs, if it is that of a scan of known length; else 1."""
    length = arg.length if isinstance(arg, Scan) else None
    return length if isinstance(length, int) else 1


def element_type(aval: ShapedArray, length: int | None) -> ShapedArray:
    """The type of one element of an operand that a scan runs over."""
    if isinstance(aval, Stack):
        if aval.lanes:
            return Stack.of_element(aval.element, aval.lanes[1:])
        return aval.element
    if length is None or aval.ndim == 0 or not same_size(aval.shape[0], length):
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
    bodies.check_types("scan: the operands", body.inputs, given)
    carry = [n.aval for n in body.outputs[: arg.carry]]
    bodies.check_types("scan: the carry", body.inputs[arg.consts : first], carry)
    ys = [stacked_type(n.aval, arg.length) for n in body.outputs[arg.carry :]]
    return (*carry, *ys)


def _value(avals: Sequence[ShapedArray], arg: Scan, *operands: Any) -> list[Any]:
    plan = bodies.plan_of(arg.body)
    first = arg.consts + arg.carry
    consts, carry = operands[: arg.consts], list(operands[arg.consts : first])
    xs = operands[first:]
    length = arg.length
    if length is None:
        stacks: list[list[Any]] = [x for x in xs if isinstance(x, list)]
        length = len(stacks[0])
    rows: list[list[Any]] = []
    order = range(length)
    for t in number_iterations("scan", order[:: -1 if arg.reverse else 1]):
        found = plan([*consts, *carry, *(x[t] for x in xs)])
        carry = found[: arg.carry]
        rows.append(found[arg.carry :])
    if arg.reverse:
        rows.reverse()
    return [*carry, *(_stack(a, rows, k) for k, a in enumerate(avals[arg.carry :]))]


def _stack(aval: ShapedArray, rows: Sequence[Sequence[Any]], k: int) -> Any:
    if isinstance(aval, Stack):
        return [row[k] for row in rows]
    result: Any = np.empty(aval.shape, aval.dtype)
    for t, row in enumerate(rows):
        result[t] = row[k]
    return result


# Forward mode.


@dataclass(frozen=True)
class Remembered:
    """What a loop's derivative needs of the loop, by how it is saved.

    Attributes:
      invariant: the same in each iteration: saved once.
      elements: operands of the scan that are at hand anyway.
      stacked: the others, one per iteration.
    """

    invariant: list[Node]
    elements: list[Node]
    stacked: list[Node]


def remember(
    found: bodies.Linearized, body: Body, consts: int, first: int
) -> Remembered:
    """Sorts the residuals of a loop's body; its elements begin at input `first`."""
    moving = bodies.depends_on(found.residuals, body.inputs[consts:])
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
    given = [t is not None for t in tangents]
    found = bodies.varying_carry(arg.body, given, range(arg.consts, first))
    saved = remember(found, arg.body, arg.consts, first)
    stacks: list[Node] = []
    if saved.stacked:
        stacks = stack_also(node, saved.stacked)
    position = {n: i for i, n in enumerate(arg.body.inputs)}
    elements = [node.src[position[n]] for n in saved.elements]
    if arg.length is None and not (elements or stacks):
        stacked = next(i for i, s in enumerate(node.src) if isinstance(s.aval, Stack))
        saved.elements.append(arg.body.inputs[stacked])
        elements = [node.src[stacked]]
    elements += stacks
    return tangent_scan(node, tangents, found, saved, elements, arg.reverse)


def stack_also(node: Node, values: Sequence[Node]) -> list[Node]:
    """Stacks of values of a loop's body: it once more, with more results."""
    body: Body = node.arg.body
    longer = Body(body.inputs, (*body.outputs, *values))
    again = node.op(*node.src, arg=replace(node.arg, body=longer))
    return items(again)[len(body.outputs) :]


def tangent_scan(
    node: Node,
    tangents: Results,
    found: bodies.Linearized,
    saved: Remembered,
    elements: Sequence[Node],
    reverse: bool,
) -> Results:
    """The tangents of a loop's results: a linear scan over what it remembers.

    Args:
      node: the loop; its first operands are constants and carry.
      tangents: of its operands.
      found, saved: the derivative of its body.
      elements: the values of `saved.elements` and `saved.stacked`.
    """
    arg: Any = node.arg
    body: Body = arg.body
    before: int = arg.consts
    first: int = before + arg.carry
    length: int | None = arg.length if isinstance(arg, Scan) else None
    invariant = substitute(
        saved.invariant, dict(zip(body.inputs[:before], node.src[:before], strict=True))
    )
    residuals: list[Node] = [*saved.invariant, *saved.elements, *saved.stacked]
    names = {n: variable(n.aval, "residual", i) for i, n in enumerate(residuals)}
    moving = [i for i, moves in enumerate(found.moving) if moves]
    consts = sum(i < before for i in moving)
    carry = [i for i in moving if before <= i < first]
    inputs = [
        *(names[n] for n in saved.invariant),
        *found.names,
        *(names[n] for n in (*saved.elements, *saved.stacked)),
    ]
    after = [
        bodies.or_zeros(found.outputs[i - before], body.outputs[i - before])
        for i in carry
    ]
    ys = [k for k in found.wanted if k >= arg.carry]
    moved = [t for t in found.outputs[arg.carry :] if t is not None]
    linear = Scan(
        bodies.close(inputs, substitute([*after, *moved], names)),
        length,
        reverse,
        len(invariant) + consts,
        len(carry),
    )
    operands = [
        *invariant,
        *(bodies.or_zeros(tangents[i], node.src[i]) for i in moving),
        *elements,
    ]
    results = scan_p.results(*operands, arg=linear)
    return bodies.spread_results(
        len(body.outputs), [*(i - before for i in carry), *ys], results
    )


def add_stacks(x: Node, y: Node) -> Node:
    """The sums of their elements, of stacks of equal heights: lane by lane, if any."""
    assert isinstance(x.aval, Stack)
    length = x.aval.lanes[0] if x.aval.lanes else None
    element = element_type(x.aval, length)
    a, b = (variable(element, "body", i) for i in range(2))
    total = add_stacks(a, b) if isinstance(element, Stack) else add(a, b)
    arg = Scan(Body((a, b), (total,)), length, False, 0, 0)
    return scan_p.results(x, y, arg=arg)[0]


sums_of_kinds[Stack] = add_stacks


# Reverse mode: a linear scan, transposed, runs backwards.
#
#     carry, ys = scan(consts, carry, xs)
#         ->  carry̅, consts̅, xs̅ = scan over y̅s, from the last step to the first
#
# The cotangents of the carry are carried; so are those of constants, as sums over the
# steps so far. What is not linear is given to each step as it was. Where that is part
# of the carry, it is done of the tangents, which are the scan in what is linear.


def _transpose(node: Node, cotangents: Results, linear: Flags) -> Results:
    """The cotangents of the operands in which a scan is linear."""
    arg: Scan = node.arg
    if not _carries_alone(arg, linear):
        return _transpose_tangents(node, cotangents, linear)
    first = arg.consts + arg.carry
    consts, fixed = _partition(range(arg.consts), linear)
    xs, elements = _partition(range(first, len(linear)), linear)
    carry = range(arg.consts, first)
    ys = [k for k, c in enumerate(cotangents) if k >= arg.carry and c is not None]
    backward = Scan(
        _backward_body(arg, consts, xs, fixed, elements, ys),
        arg.length,
        not arg.reverse,
        len(fixed),
        arg.carry + len(consts),
    )
    operands = [
        *(node.src[i] for i in fixed),
        *(
            bodies.or_zeros(cotangents[k], arg.body.outputs[k])
            for k in range(arg.carry)
        ),
        *(bodies.strong_zeros(arg.body.inputs[i]) for i in consts),
        *(c for k in ys if (c := cotangents[k]) is not None),
        *(node.src[i] for i in elements),
    ]
    results = scan_p.results(*operands, arg=backward)
    return bodies.spread_results(len(node.src), [*carry, *consts, *xs], results)


def _partition(places: range, flags: Flags) -> tuple[list[int], list[int]]:
    """Those whose flag is set, and the others."""
    return [i for i in places if flags[i]], [i for i in places if not flags[i]]


def _backward_body(
    arg: Scan, consts: Sequence[int], xs: Sequence[int], fixed: Sequence[int],
    elements: Sequence[int], ys: Sequence[int],
) -> Body:  # fmt: skip
    """One step backwards.

    (fixed, cotangents of carry, sums for constants, cotangents of ys, elements)
        -> (cotangents of carry, sums for constants, cotangents of xs)
    """
    body = arg.body
    carry = range(arg.consts, arg.consts + arg.carry)
    given = {
        k: variable(_strong(body.outputs[k].aval), "cotangent", k)
        for k in (*range(arg.carry), *ys)
    }
    leaves = [body.inputs[i] for i in (*consts, *carry, *xs)]
    found = transpose_nodes(
        [body.outputs[k] for k in given], leaves, list(given.values())
    )
    parts = dict(zip((*consts, *carry, *xs), found, strict=True))
    totals = [variable(_strong(body.inputs[i].aval), "total", i) for i in consts]
    sums = [
        total if (part := parts[i]) is None else add(total, part)
        for i, total in zip(consts, totals, strict=True)
    ]
    return bodies.close(
        [
            *(body.inputs[i] for i in fixed),
            *(given[k] for k in range(arg.carry)),
            *totals,
            *(given[k] for k in ys),
            *(body.inputs[i] for i in elements),
        ],
        [
            *(bodies.or_zeros(parts[i], body.inputs[i]) for i in carry),
            *sums,
            *(bodies.or_zeros(parts[i], body.inputs[i]) for i in xs),
        ],
    )


def _transpose_tangents(node: Node, cotangents: Results, linear: Flags) -> Results:
    """Of a scan that also carries what is not linear: its tangents are linear alone."""
    names = [
        variable(_strong(s.aval), "linear", i) if flag else None
        for i, (s, flag) in enumerate(zip(node.src, linear, strict=True))
    ]
    rows = zip(node.src, linear, strict=True)
    point = scan_p(
        *[bodies.strong_zeros(s) if flag else s for s, flag in rows], arg=node.arg
    )
    leaves = [n for n in names if n is not None]
    return bodies.spread(
        linear, transpose_nodes(_jvp(point, names), leaves, cotangents)
    )


def _carries_alone(arg: Scan, linear: Flags) -> bool:
    """Is all that it carries linear, once the carry has gone around?"""
    body, carry = arg.body, range(arg.consts, arg.consts + arg.carry)

    def step(flags: list[bool]) -> tuple[None, list[bool]]:
        leaves = [n for n, flag in zip(body.inputs, flags, strict=True) if flag]
        moving = bodies.depends_on(body.outputs, leaves)
        return None, [n in moving for n in body.outputs]

    flags, _ = bodies.flow_around_loop(linear, carry, step)
    return all(flags[i] for i in carry)


def _strong(aval: ShapedArray) -> ShapedArray:
    return aval if isinstance(aval, Stack) or aval is TOKEN else aval.strong()


# Batching.


def _batch(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    arg: Scan = node.arg
    first = arg.consts + arg.carry
    if any(_lanes(new) != _lanes(old) for new, old in zip(src, node.src, strict=True)):
        return map_lanes(node, src, batched, size)
    flags, body, has = bodies.batch_carry(
        arg.body, batched, range(arg.consts, first), size
    )
    outputs = zip(body.outputs, arg.body.outputs, strict=True)
    if any(_lanes(new) != _lanes(old) for new, old in outputs):
        # Its stacks would have the lanes of a step behind the steps.
        return map_lanes(node, src, batched, size)
    operands: list[Node] = []
    for i, (x, had, wanted) in enumerate(zip(src, batched, flags, strict=True)):
        if had and i >= first and not isinstance(x.aval, Stack):
            x = move_axis(x, 0, 1)  # elements first, then lanes
        operands.append(bodies.with_lanes(x, had, wanted, size))
    results = scan_p.results(*operands, arg=replace(arg, body=body))
    for k in range(arg.carry, len(results)):
        if has[k] and not isinstance(results[k].aval, Stack):
            results[k] = move_axis(results[k], 1, 0)
    return results, has


def _lanes(node: Node) -> tuple[int, ...]:
    return node.aval.lanes if isinstance(node.aval, Stack) else ()


def map_lanes(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    """A compound, applied to each lane: a scan without carry, unless it has effects.

    Args:
      node: the operation on single examples.
      src, batched: its operands, and which of them have a leading axis of lanes.
      size: how many lanes.

    Returns:
      Its results, and whether each has lanes: all but tokens.
    """
    op, src = node.op, of_each(src, batched)
    assert isinstance(op, Compound)
    names = stand_ins(node.src, "lane")
    results = op.results(*names, arg=node.arg)
    tokens = [r for r in results if r.aval is TOKEN]
    # A token that is not passed on is not used: it does not go around.
    kinds = [
        1 if old.aval is TOKEN and tokens else 2 if has else 0
        for old, has in zip(node.src, batched, strict=True)
    ]
    order = sorted(range(len(src)), key=lambda i: kinds[i])
    others = [r for r in results if r.aval is not TOKEN]
    body = bodies.close([names[i] for i in order], [*tokens, *others])
    arg = Scan(body, size, False, kinds.count(0), len(tokens))
    found = scan_p.results(*[src[i] for i in order], arg=arg)
    first, rest = iter(found[: len(tokens)]), iter(found[len(tokens) :])
    return (
        [next(first) if r.aval is TOKEN else next(rest) for r in results],
        [r.aval is not TOKEN for r in results],
    )


scan_p = Compound(
    "scan", "control", _infer, _value, _batch, jvp=_jvp, transpose=_transpose,
    doc="a body for each element along the leading axis, with a carry", show=str,
)  # fmt: skip
