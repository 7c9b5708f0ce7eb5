"""Reverse mode of scan: a linear scan, transposed, runs backwards.

    carry, ys = scan(consts, carry, xs)
        ->  carry̅, consts̅, xs̅ = scan over y̅s, from the last step to the first

The cotangents of the carry are carried; so are those of constants, as sums over the
steps so far. What is not linear is given to each step as it was. Where that is part of
the carry, it is computed first, by a scan of its own that keeps it for each step.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.autodiff import split_known, transpose_nodes
from ftrace.trace.avals import TOKEN, ShapedArray, Stack
from ftrace.trace.body import close, depends_on, or_zeros, strong_zeros
from ftrace.trace.control.scan_types import Scan
from ftrace.trace.graph import Body, Node, substitute
from ftrace.trace.primitives.elementwise import add
from ftrace.trace.primitives.primitive import Compound, Results
from ftrace.trace.primitives.sources import variable

_RESIDUAL_DEPTH = -2
_COTANGENT_DEPTH = -7


def transpose_scan(
    node: Node, cotangents: Results, linear: tuple[bool, ...]
) -> Results:
    """The cotangents of the operands in which a scan is linear."""
    arg: Scan = node.arg
    flags, moving = _linear_carry(arg, linear)
    if not all(flags[arg.consts : arg.consts + arg.carry]):
        return _transpose_rest(node, cotangents, flags, moving)
    places = _places(arg, linear)
    ys = [k for k, c in enumerate(cotangents) if k >= arg.carry and c is not None]
    backward = Scan(
        _backward_body(arg, places, ys),
        arg.length,
        not arg.reverse,
        len(places.fixed),
        arg.carry + len(places.consts),
    )
    operands = [
        *(node.src[i] for i in places.fixed),
        *(or_zeros(cotangents[k], arg.body.outputs[k]) for k in range(arg.carry)),
        *(strong_zeros(arg.body.inputs[i]) for i in places.consts),
        *(c for k in ys if (c := cotangents[k]) is not None),
        *(node.src[i] for i in places.elements),
    ]
    results = iter(_scan(node).results(*operands, arg=backward))
    answer: list[Node | None] = [None] * len(node.src)
    for i in (*places.carry, *places.consts, *places.xs):
        answer[i] = next(results)
    return answer


class _Places(NamedTuple):
    """Which of the operands are what.

    Attributes:
      consts, carry, xs: those in which the scan is linear.
      fixed, elements: the other constants, and the other operands that it runs over.
    """

    consts: list[int]
    carry: list[int]
    xs: list[int]
    fixed: list[int]
    elements: list[int]


def _places(arg: Scan, linear: Sequence[bool]) -> _Places:
    first = arg.consts + arg.carry
    consts, others = range(arg.consts), range(first, len(linear))
    return _Places(
        [i for i in consts if linear[i]],
        list(range(arg.consts, first)),
        [i for i in others if linear[i]],
        [i for i in consts if not linear[i]],
        [i for i in others if not linear[i]],
    )


def _backward_body(arg: Scan, places: _Places, ys: Sequence[int]) -> Body:
    """One step backwards.

    (fixed, cotangents of carry, sums for constants, cotangents of ys, elements)
        -> (cotangents of carry, sums for constants, cotangents of xs)
    """
    body = arg.body
    consts, carry, xs, fixed, elements = places
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
        total if (part := parts[i]) is None else add(total, part)
        for i, total in zip(consts, totals, strict=True)
    ]
    return close(
        [
            *(body.inputs[i] for i in fixed),
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
    )


def _transpose_rest(
    node: Node, cotangents: Results, flags: Sequence[bool], moving: set[Node]
) -> Results:
    """Of a scan that also carries what is not linear: that runs first, by itself.

    Args:
      node, cotangents: the scan, and the cotangents of its results.
      flags: the inputs of the body that are linear.
      moving: the values in the body that depend on those.
    """
    arg: Scan = node.arg
    body, first = arg.body, arg.consts + arg.carry
    mine = [i for i, flag in enumerate(flags) if flag]
    wanted = [
        k
        for k, output in enumerate(body.outputs)
        if (flags[arg.consts + k] if k < arg.carry else output in moving)
    ]
    results = [body.outputs[k] for k in wanted]
    residuals = split_known(results, [body.inputs[i] for i in mine])
    values = _computed_before(node, flags, residuals)
    constants = set(body.inputs[: arg.consts])
    of_consts = [n for n in residuals if n in constants]
    of_elements = [n for n in residuals if n not in constants]
    names = {n: variable(n.aval, _RESIDUAL_DEPTH, i) for i, n in enumerate(residuals)}
    rest = Scan(
        close(
            [
                *(names[n] for n in of_consts),
                *(body.inputs[i] for i in mine),
                *(names[n] for n in of_elements),
            ],
            substitute(results, names),
        ),
        arg.length,
        arg.reverse,
        len(of_consts) + sum(i < arg.consts for i in mine),
        sum(arg.consts <= i < first for i in mine),
    )
    bundle = _scan(node)(
        *(values[n] for n in of_consts),
        *(node.src[i] for i in mine),
        *(values[n] for n in of_elements),
        arg=rest,
    )
    places = range(len(of_consts), len(of_consts) + len(mine))
    parts = transpose_scan(
        bundle,
        [cotangents[k] for k in wanted],
        tuple(i in places for i in range(len(bundle.src))),
    )
    answer: list[Node | None] = [None] * len(node.src)
    for i, place in zip(mine, places, strict=True):
        answer[i] = parts[place]
    return answer


def _computed_before(
    node: Node, flags: Sequence[bool], residuals: Sequence[Node]
) -> dict[Node, Node]:
    """What the linear part of a body needs of the rest: of all steps, or of any."""
    arg: Scan = node.arg
    body, first = arg.body, arg.consts + arg.carry
    known = [i for i, flag in enumerate(flags) if not flag]
    carry = [i - arg.consts for i in known if arg.consts <= i < first]
    values = {body.inputs[i]: node.src[i] for i in known if not arg.consts <= i < first}
    stacked = [n for n in residuals if n not in values]
    before = Scan(
        close(
            [body.inputs[i] for i in known],
            [*(body.outputs[k] for k in carry), *stacked],
        ),
        arg.length,
        arg.reverse,
        sum(i < arg.consts for i in known),
        len(carry),
    )
    made = _scan(node).results(*(node.src[i] for i in known), arg=before)
    return values | dict(zip(stacked, made[len(carry) :], strict=True))


def _scan(node: Node) -> Compound:
    assert isinstance(node.op, Compound)
    return node.op


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
