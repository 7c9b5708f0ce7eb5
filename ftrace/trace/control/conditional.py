"""What a value decides: `cond`, one of several bodies, and `while`, a body once more.

    cond_p(index, *operands, arg=Branches(bodies)) -> *results
    while_p(*consts, *init, arg=While(cond, body, consts))
        -> *carry, *stacks

The index is an int32 scalar within the number of bodies; all bodies take all operands
and return results of the same types. Only the chosen one runs.

A loop runs as long as a predicate of its carry holds. `cond` and `body` both take the
constants and the carry; what the body returns after the next carry is pushed on stacks.
These are what reverse mode remembers of a loop whose length nobody knows: its
derivative is a scan over them.

Before a graph runs, loops and branches that do the same become one: `closed_graph`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from ftrace import dtypes
from ftrace.errors import DerivativeError, GraphError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace import body as bodies
from ftrace.trace.avals import TOKEN, ShapedArray, Stack
from ftrace.trace.control import scan
from ftrace.trace.control.scan import Scan, map_lanes, scan_p
from ftrace.trace.evaluate import number_iterations
from ftrace.trace.graph import Body, Flags, Graph, Node, Nodes, substitute, toposort
from ftrace.trace.graph_map import exchange
from ftrace.trace.primitives import (
    elementwise as p,
    primitive as prim,
    reduction as red,
)
from ftrace.trace.primitives.exchange import communicate, lanes
from ftrace.trace.primitives.indexing import trailing
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.sources import const, const_like, variable, variables
from ftrace.trace.tracing.trace import effects_as_output

#: Branches of no more operations, all of them elementwise, are rather all computed
#: than chosen lane by lane.
FEW_OPERATIONS = 32


@dataclass(frozen=True)
class Branches:
    """The argument of a cond."""

    bodies: tuple[Body, ...]

    def __str__(self) -> str:
        return f"branches={len(self.bodies)}"


def _infer(arg: Branches, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    index, *operands = avals
    if index.shape != () or index.dtype != dtypes.int32:
        raise GraphError(f"cond: the index must be int32[], got {index!r}")
    first = arg.bodies[0]
    for body in arg.bodies:
        bodies.check_types("cond: the operands of a branch", body.inputs, operands)
        results = [n.aval for n in body.outputs]
        bodies.check_types("cond: the results of a branch", first.outputs, results)
    return tuple(n.aval for n in first.outputs)


def _value(avals: Any, arg: Branches, index: Any, *operands: Any) -> list[Any]:
    return bodies.plan_of(arg.bodies[int(index)])(list(operands))


# Forward mode.


def _jvp(node: Node, tangents: prim.Results) -> prim.Results:
    arg: Branches = node.arg
    index, *operands = node.src
    flags = tuple(t is not None for t in tangents[1:])
    found = [bodies.linearize(body, flags) for body in arg.bodies]
    count = len(arg.bodies[0].outputs)
    varying = [k for k in range(count) if any(f.outputs[k] for f in found)]
    if not varying:
        return [None] * count
    if any(red.communicates(body.outputs, body.inputs) for body in arg.bodies):
        return _selected_tangents(node, tangents, found, varying)
    # Each branch fills the places of its own residuals, by their types, and puts zeros
    # into the others.
    places: list[ShapedArray] = []
    place_of: list[dict[Node, int]] = []
    for body, derivative in zip(arg.bodies, found, strict=True):
        free = list(range(len(places)))
        mine: dict[Node, int] = {}
        for residual in derivative.residuals:
            if residual in body.inputs:
                continue
            fitting = [p for p in free if places[p] is residual.aval]
            if not fitting:
                fitting = [len(places)]
                places.append(residual.aval)
            else:
                free.remove(fitting[0])
            mine[residual] = fitting[0]
        place_of.append(mine)
    forward = _with_residuals(node, places, place_of)
    names = variables(places, "residual")
    inputs = [*arg.bodies[0].inputs, *names, *found[0].names]
    made = tuple(
        bodies.close(
            inputs,
            substitute(
                [bodies.or_zeros(d.outputs[k], body.outputs[k]) for k in varying],
                {n: names[p] for n, p in mine.items()},
            ),
        )
        for body, d, mine in zip(arg.bodies, found, place_of, strict=True)
    )
    moving = bodies.select(tangents[1:], found[0].moving)
    arg = Branches(made)
    results = cond_p.results(index, *operands, *forward, *moving, arg=arg)
    return bodies.spread_results(count, varying, results)


def _selected_tangents(
    node: Node, tangents: prim.Results, found: Sequence[bodies.Linearized],
    varying: Sequence[int],
) -> prim.Results:  # fmt: skip
    """Of branches in which lanes act together: of all branches, and the chosen one.

    What a lane adds to a sum over lanes also counts where it takes another branch.
    """
    arg: Branches = node.arg
    index, *operands = node.src
    chosen: list[Node] = []
    for number, (body, derivative) in enumerate(zip(arg.bodies, found, strict=True)):
        moving = bodies.select(tangents[1:], derivative.moving)
        mapping = dict(zip(body.inputs, operands, strict=True))
        mapping.update(zip(derivative.names, moving, strict=True))
        linear = [derivative.outputs[k] for k in varying]
        known = iter(substitute([t for t in linear if t is not None], mapping))
        mine = [
            bodies.strong_zeros(body.outputs[k]) if t is None else next(known)
            for k, t in zip(varying, linear, strict=True)
        ]
        picked = p.eq(index, const_like(index, number))
        if number:
            pairs = zip(mine, chosen, strict=True)
            mine = [p.select(trailing(picked, x.shape), x, y) for x, y in pairs]
        chosen = mine
    return bodies.spread_results(len(arg.bodies[0].outputs), varying, chosen)


def _with_residuals(
    node: Node, places: Sequence[ShapedArray], place_of: Sequence[dict[Node, int]]
) -> list[Node]:
    """The residuals: results of the same branches that also return them."""
    arg: Branches = node.arg
    if not places:
        return []
    made: list[Body] = []
    for body, mine in zip(arg.bodies, place_of, strict=True):
        at = {p: n for n, p in mine.items()}
        extra = [
            bodies.or_zeros(at.get(p), variable(aval, "residual", p))
            for p, aval in enumerate(places)
        ]
        made.append(Body(body.inputs, (*body.outputs, *extra)))
    results = cond_p.results(*node.src, arg=Branches(tuple(made)))
    return results[len(arg.bodies[0].outputs) :]


# Reverse mode.


def _transpose(node: Node, cotangents: prim.Results, linear: Flags) -> prim.Results:
    arg: Branches = node.arg
    index, *operands = node.src
    if linear[0]:
        raise GraphError("cond is not linear in its index")
    known = [ct is not None for ct in cotangents]
    made = [bodies.transpose_body(body, linear[1:], known) for body in arg.bodies]
    given = bodies.transposed_operands(operands, linear[1:], cotangents)
    results = cond_p.results(index, *given, arg=Branches(tuple(made)))
    return bodies.spread(linear, results)


# Batching.


def _batch(node: Node, src: Nodes, batched: Flags, size: int) -> prim.Batched:
    arg: Branches = node.arg
    if any(isinstance(s.aval, Stack) and s.aval is not old.aval
           for s, old in zip(src, node.src, strict=True)):  # fmt: skip
        return map_lanes(node, src, batched, size)
    if batched[0]:
        if _all_may_run(arg) or _communicate(arg.bodies, batched[1:]):
            return _select(arg, src, batched, size)
        return map_lanes(node, src, batched, size)
    found = [bodies.batch_body(body, batched[1:], size) for body in arg.bodies]
    has = [any(flags) for flags in zip(*[own for _, own in found], strict=True)]
    made = [bodies.batch_body(body, batched[1:], size, has)[0] for body in arg.bodies]
    return cond_p.results(*src, arg=Branches(tuple(made))), has


def _all_may_run(arg: Branches) -> bool:
    """Are all branches short, elementwise and without effects?"""
    for body in arg.bodies:
        nodes = toposort(body.outputs)
        if len(nodes) > FEW_OPERATIONS or any(n.aval is TOKEN for n in body.outputs):
            return False
        if any(prim.compound_of(n) or n.op.family == "reduction" for n in nodes):
            return False
    return True


def _communicate(parts: Sequence[Body], batched: Flags) -> bool:
    """Do lanes act together in one of these bodies? Then each of them runs all."""
    return any(
        red.communicates(body.outputs, bodies.select(body.inputs, batched))
        for body in parts
    )


def _select(arg: Branches, src: Nodes, batched: Flags, size: int) -> prim.Batched:
    """All branches, and of each lane the one that it chose."""
    index, *operands = src
    wide = [bodies.widen(body, batched[1:], size) for body in arg.bodies]
    found = [bodies.apply_body(body, operands) for body in wide]
    results = found[-1]
    for number in range(len(found) - 2, -1, -1):
        picked = p.eq(index, const_like(index, number))
        results = [
            p.select(trailing(picked, other.shape), mine, other)
            for mine, other in zip(found[number], results, strict=True)
        ]
    return results, [True] * len(results)


cond_p = prim.Compound(
    "cond", "control", _infer, _value, _batch, jvp=_jvp, transpose=_transpose,
    doc="one of several bodies, chosen by an index", show=str,
)  # fmt: skip


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


def _infer_while(arg: While, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    inputs, after = arg.body.inputs, arg.body.outputs[: arg.carry]
    bodies.check_types("while: the operands", inputs, avals)
    bodies.check_types(
        "while: the carry", inputs[arg.consts :], [n.aval for n in after]
    )
    (predicate,) = arg.cond.outputs
    if predicate.shape != () or predicate.dtype != dtypes.bool_:
        raise GraphError(f"while: the predicate is {predicate.aval!r}")
    pushed = arg.body.outputs[arg.carry :]
    return (*(n.aval for n in after), *(Stack.of_element(n.aval) for n in pushed))


def _run_while(avals: Sequence[ShapedArray], arg: While, *operands: Any) -> list[Any]:
    holds, step = bodies.plan_of(arg.cond), bodies.plan_of(arg.body)
    consts, carry = operands[: arg.consts], list(operands[arg.consts :])
    stacks: list[list[Any]] = [[] for _ in avals[arg.carry :]]
    for _ in number_iterations("while", count()):
        if not holds([*consts, *carry])[0]:
            break
        found = step([*consts, *carry])
        carry = found[: arg.carry]
        for stack, value in zip(stacks, found[arg.carry :], strict=True):
            stack.append(value)
    return [*carry, *stacks]


def _while_tangents(node: Node, tangents: prim.Results) -> prim.Results:
    arg: While = node.arg
    first = len(node.src)
    given = [t is not None for t in tangents]
    found = bodies.varying_carry(arg.body, given, range(arg.consts, first))
    saved = scan.remember(found, arg.body, arg.consts, first)
    if not saved.stacked:  # the height of a stack is the length of the loop
        saved.stacked.append(const(0, dtypes.uint8))
    stacks = scan.stack_also(node, saved.stacked)
    return scan.tangent_scan(node, tangents, found, saved, stacks, False)


def _batch_while(node: Node, src: Nodes, batched: Flags, size: int) -> prim.Batched:
    arg: While = node.arg
    first = len(node.src)
    flags, body, has = bodies.batch_carry(
        arg.body, batched, range(arg.consts, first), size
    )
    cond, (differs,) = bodies.batch_body(arg.cond, flags, size)
    if differs and _communicate((arg.cond, arg.body), batched):
        return _in_step(node, src, batched, size)
    if differs:  # each lane has a length of its own
        return scan.map_lanes(node, src, batched, size)
    rows = zip(src, batched, flags, strict=True)
    operands = [bodies.with_lanes(x, had, flag, size) for x, had, flag in rows]
    return while_p.results(*operands, arg=While(cond, body, arg.consts)), has


def _in_step(node: Node, src: Nodes, batched: Flags, size: int) -> prim.Batched:
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
    lasts = reshape(red.reduce_max_p(p.cast(going, dtypes.uint8), arg=(0,)), ())
    if lanes.ranks is not None:
        lasts = communicate(lasts, "max", lanes.ranks)
    # The predicate of the body is a body over the same operands.
    (goes,) = bodies.apply_body(cond, body.inputs)
    after = [
        p.select(trailing(goes, new.shape), new, old)
        for new, old in zip(body.outputs, body.inputs[arg.consts :], strict=True)
    ]
    arg = While(
        bodies.close(cond.inputs, [p.cast(lasts, dtypes.bool_)]),
        bodies.close(body.inputs, after),
        arg.consts,
    )
    rows = zip(src, batched, flags, strict=True)
    operands = [bodies.with_lanes(x, had, flag, size) for x, had, flag in rows]
    return while_p.results(*operands, arg=arg), [True] * arg.carry


while_p = prim.Compound(
    "while", "control", _infer_while, _run_while, _batch_while, jvp=_while_tangents,
    doc="a body as long as a predicate of its carry holds", show=str,
)  # fmt: skip


# Loops and branches that do the same thing become one.
#
#     scan(x, body -> a), scan(x, body -> a, b)  ->  scan(x, body -> a, b)
#
# The derivative of a loop is a linear loop over what the loop must remember, and this
# comes from the loop once more, with more results. What is computed twice would cost
# time; an effect that happens twice is wrong.


_CONTROL = (scan_p, while_p, cond_p)


@dataclass(frozen=True)
class _Merged:
    """What becomes of a node: its argument, and where each of its results is now."""

    arg: Any
    origins: list[int]


def closed_graph(graph: Graph) -> Graph:
    """The graph as it is run: its last token is an output, no effect is there twice."""
    if not graph.effects:
        return graph
    whole = effects_as_output(graph)
    return replace(whole, outputs=tuple(merge_control(whole.outputs)))


def merge_control(outputs: Sequence[Node]) -> list[Node]:
    """The outputs with loops and branches over the same operands merged."""
    nodes = toposort(outputs)
    groups: dict[Any, list[Node]] = {}
    for node in nodes:
        if node.op in _CONTROL:
            groups.setdefault((node.op, node.src, _frame(node.arg)), []).append(node)
    if not groups:
        return list(outputs)
    merged: dict[Node, _Merged] = {}
    for group in groups.values():
        merged.update(zip(group, _merge([n.arg for n in group]), strict=True))

    def change(node: Node, src: tuple[Node, ...]) -> Sequence[Node] | None:
        if node not in merged:
            return None
        results = prim.items(node.op(*src, arg=merged[node].arg))
        return [results[place] for place in merged[node].origins]

    return exchange(outputs, change)


def _frame(arg: Any) -> Any:
    """What must be equal for two of them to become one, beside the carry."""
    if isinstance(arg, Branches):
        return tuple(body.inputs for body in arg.bodies)
    if isinstance(arg, While):
        return arg.cond, arg.consts, arg.body.inputs
    assert isinstance(arg, Scan)
    return arg.body.inputs, arg.length, arg.reverse, arg.consts, arg.carry


def _merge(args: Sequence[Any]) -> list[_Merged]:
    """One argument for all of them where that is possible."""
    rows = [_columns(arg) for arg in args]
    merged = _merge_columns([column for row in rows for column in row])
    found: list[list[tuple[Node, ...]]] = []
    for row in rows:
        found.append(merged[: len(row)])
        merged = merged[len(row) :]
    # The carry goes around: it is the same in all, or they are not the same loop.
    carry = 0 if isinstance(args[0], Branches) else args[0].carry
    if any(row[:carry] != found[0][:carry] for row in found):
        return [
            _Merged(_with_columns(arg, row), list(range(len(row))))
            for arg, row in zip(args, found, strict=True)
        ]
    union = list(found[0])
    places: list[list[int]] = []
    for row in found:
        mine = list(range(carry))
        for column in row[carry:]:
            if column not in union[carry:]:
                union.append(column)
            mine.append(union.index(column, carry))
        places.append(mine)
    arg = _with_columns(args[0], union)
    return [_Merged(arg, mine) for mine in places]


def _columns(arg: Any) -> list[tuple[Node, ...]]:
    """For each result the node, or the nodes, that compute it."""
    if isinstance(arg, Branches):
        return list(zip(*(body.outputs for body in arg.bodies), strict=True))
    return [(node,) for node in arg.body.outputs]


def _with_columns(arg: Any, columns: Sequence[tuple[Node, ...]]) -> Any:
    if isinstance(arg, Branches):
        outputs = zip(*columns, strict=True) if columns else [()] * len(arg.bodies)
        bodies = zip(arg.bodies, outputs, strict=True)
        return Branches(tuple(Body(body.inputs, tuple(o)) for body, o in bodies))
    outputs = tuple(node for (node,) in columns)
    return replace(arg, body=Body(arg.body.inputs, outputs))


def _merge_columns(columns: list[tuple[Node, ...]]) -> list[tuple[Node, ...]]:
    """The columns after what is inside of them has been merged, branch by branch."""
    if not columns:
        return []
    branches = [merge_control(nodes) for nodes in zip(*columns, strict=True)]
    return list(zip(*branches, strict=True))
