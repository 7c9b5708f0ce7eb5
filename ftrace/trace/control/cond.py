"""cond: one of several bodies, chosen by an index.

    cond_p(index, *operands, arg=Branches(bodies)) -> *results

The index is an int32 scalar within the number of bodies; all bodies take all operands
and return results of the same types. Only the chosen one runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.autodiff import transpose_nodes
from ftrace.trace.avals import TOKEN, ShapedArray, Stack
from ftrace.trace.batching import batch_nodes
from ftrace.trace.body import apply_body, close, linearize, or_zeros, plan_of
from ftrace.trace.control.scan import batched_inputs, map_lanes
from ftrace.trace.graph import Body, Node, substitute, toposort
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.elementwise import cast, eq, select
from ftrace.trace.primitives.indexing import trailing
from ftrace.trace.primitives.primitive import Compound, Results, compound_of
from ftrace.trace.primitives.sources import const_like, variable
from ftrace.trace.symbolic.dim import same_size

_RESIDUAL_DEPTH = -2
_COTANGENT_DEPTH = -7

#: Branches of no more operations, all of them elementwise, are rather all computed
#: than chosen lane by lane.
FEW = 32


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
        wanted = [(n.shape, n.dtype) for n in body.inputs]
        if not same_size([(a.shape, a.dtype) for a in operands], wanted):
            raise GraphError(f"cond: a branch takes {wanted}, got {operands}")
        types = [(n.shape, n.dtype) for n in body.outputs]
        if not same_size(types, [(n.shape, n.dtype) for n in first.outputs]):
            raise GraphError(f"cond: the results of the branches differ: {types}")
    return tuple(n.aval for n in first.outputs)


def _value(avals: Any, arg: Branches, index: Any, *operands: Any) -> list[Any]:
    return plan_of(arg.bodies[int(index)])(list(operands))


# Forward mode.


def _jvp(node: Node, tangents: Results) -> Results:
    arg: Branches = node.arg
    index, *operands = node.src
    flags = tuple(t is not None for t in tangents[1:])
    found = [linearize(body, flags) for body in arg.bodies]
    count = len(arg.bodies[0].outputs)
    varying = [k for k in range(count) if any(f.outputs[k] for f in found)]
    if not varying:
        return [None] * count
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
    kept = _with_residuals(node, places, place_of)
    names = [variable(a, _RESIDUAL_DEPTH, i) for i, a in enumerate(places)]
    inputs = [
        *arg.bodies[0].inputs,
        *names,
        *(t for t in found[0].tangents if t is not None),
    ]
    bodies = tuple(
        close(
            inputs,
            substitute(
                [or_zeros(d.outputs[k], body.outputs[k]) for k in varying],
                {n: names[p] for n, p in mine.items()},
            ),
        )
        for body, d, mine in zip(arg.bodies, found, place_of, strict=True)
    )
    moving = [
        t
        for t, name in zip(tangents[1:], found[0].tangents, strict=True)
        if name is not None and t is not None
    ]
    results = iter(
        cond_p.results(index, *operands, *kept, *moving, arg=Branches(bodies))
    )
    return [next(results) if k in varying else None for k in range(count)]


def _with_residuals(
    node: Node, places: Sequence[ShapedArray], place_of: Sequence[dict[Node, int]]
) -> list[Node]:
    """The residuals: results of the same branches that also return them."""
    arg: Branches = node.arg
    if not places:
        return []
    bodies: list[Body] = []
    for body, mine in zip(arg.bodies, place_of, strict=True):
        at = {p: n for n, p in mine.items()}
        extra = [
            or_zeros(at.get(p), variable(aval, _RESIDUAL_DEPTH, p))
            for p, aval in enumerate(places)
        ]
        bodies.append(Body(body.inputs, (*body.outputs, *extra)))
    results = cond_p.results(*node.src, arg=Branches(tuple(bodies)))
    return results[len(arg.bodies[0].outputs) :]


# Reverse mode.


def _transpose(node: Node, cotangents: Results, linear: tuple[bool, ...]) -> Results:
    arg: Branches = node.arg
    index, *operands = node.src
    if linear[0]:
        raise GraphError("cond is not linear in its index")
    wanted = [i for i, flag in enumerate(linear[1:]) if flag]
    outputs = [k for k, ct in enumerate(cotangents) if ct is not None]
    first = arg.bodies[0]
    given = [
        variable(first.outputs[k].aval.strong(), _COTANGENT_DEPTH, k) for k in outputs
    ]
    constant = [i for i, flag in enumerate(linear[1:]) if not flag]
    bodies: list[Body] = []
    for body in arg.bodies:
        found = transpose_nodes(
            [body.outputs[k] for k in outputs], [body.inputs[i] for i in wanted], given
        )
        parts = [
            cast(or_zeros(ct, body.inputs[i]), body.inputs[i].dtype)
            for ct, i in zip(found, wanted, strict=True)
        ]
        bodies.append(close([*(body.inputs[i] for i in constant), *given], parts))
    results = cond_p.results(
        index,
        *(operands[i] for i in constant),
        *(ct for ct in cotangents if ct is not None),
        arg=Branches(tuple(bodies)),
    )
    answer: list[Node | None] = [None] * len(node.src)
    for i, result in zip(wanted, results, strict=True):
        answer[i + 1] = result
    return answer


# Batching.


def _batch(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    arg: Branches = node.arg
    if any(isinstance(s.aval, Stack) and s.aval is not old.aval
           for s, old in zip(src, node.src, strict=True)):  # fmt: skip
        return map_lanes(node, src, batched, size)
    if batched[0]:
        if _all_may_run(arg):
            return _select(arg, src, batched, size)
        return map_lanes(node, src, batched, size)
    flags = list(batched[1:])
    found = [_batch_body(body, flags, size) for body in arg.bodies]
    count = len(arg.bodies[0].outputs)
    has = [any(outputs[k][1] for _, outputs in found) for k in range(count)]
    bodies = tuple(
        close(inputs, [_widen(*outputs[k], has[k], size) for k in range(count)])
        for inputs, outputs in found
    )
    return cond_p.results(*src, arg=Branches(bodies)), has


def _batch_body(
    body: Body, flags: Sequence[bool], size: int
) -> tuple[list[Node], list[tuple[Node, bool]]]:
    inputs = batched_inputs(body, flags, size)
    leaves = {n: b for n, b, f in zip(body.inputs, inputs, flags, strict=True) if f}
    return inputs, batch_nodes(body.outputs, leaves, size)


def _widen(node: Node, has: bool, wanted: bool, size: int) -> Node:
    if wanted and not has:
        return broadcast_leading(node, (size, *node.shape))
    return node


def _all_may_run(arg: Branches) -> bool:
    """Are all branches short, elementwise and without effects?"""
    for body in arg.bodies:
        nodes = toposort(body.outputs)
        if len(nodes) > FEW or any(n.aval is TOKEN for n in body.outputs):
            return False
        if any(compound_of(n) or n.op.family == "reduction" for n in nodes):
            return False
    return True


def _select(
    arg: Branches, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    """All branches, and of each lane the one that it chose."""
    index, *operands = src
    found: list[list[Node]] = []
    for body in arg.bodies:
        inputs, outputs = _batch_body(body, batched[1:], size)
        wide = Body(
            tuple(inputs), tuple(_widen(n, has, True, size) for n, has in outputs)
        )
        found.append(apply_body(wide, operands))
    results = found[-1]
    for number in range(len(found) - 2, -1, -1):
        chosen = eq(index, const_like(index, number))
        results = [
            select(trailing(chosen, other.shape), mine, other)
            for mine, other in zip(found[number], results, strict=True)
        ]
    return results, [True] * len(results)


cond_p = Compound(
    "cond", "control", _infer, _value, _batch, jvp=_jvp, transpose=_transpose,
    doc="one of several bodies, chosen by an index", show=str,
)  # fmt: skip
