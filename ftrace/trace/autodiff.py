"""Derivatives: two walks over a graph.

    jvp        nodes -> tangents, forwards, by each primitive's rule
    transpose  cotangents of outputs -> cotangents of leaves, backwards

The gradient is the transpose of the jvp in the tangent: there is no tape. A tracer of
an outer transform is a leaf like any other; nested derivatives are graphs of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ftrace import dtypes
from ftrace.errors import DerivativeError, user_origin
from ftrace.ground.spans import in_span
from ftrace.trace.avals import ShapedArray, Stack
from ftrace.trace.graph import (
    Flags,
    Node,
    dependents,
    inherited_origin,
    provenance,
    take_backward,
    take_derivative,
    toposort,
)
from ftrace.trace.primitives import elementwise as p, primitive as prim
from ftrace.trace.primitives.sources import CONSTANTS, is_variable, variable, zeros_like
from ftrace.trace.python_limits import without_collection


@in_span("transform", "jvp")
@without_collection
def jvp_nodes(outputs: Sequence[Node], tangents: dict[Node, Node]) -> list[Node | None]:
    """The tangents of the outputs; None is zero.

    Args:
      outputs: nodes in terms of the keys of `tangents` and anything else.
      tangents: for each leaf that varies the node of its tangent.
    """
    known: dict[Node, Node | None] = dict(tangents)
    _push(dependents(outputs, tangents), known, {})
    return [known.get(node) for node in outputs]


def extend_tangents(
    outputs: Sequence[Node],
    known: dict[Node, Node | None],
    several: dict[Node, prim.Results],
) -> None:
    """Adds the tangents of nodes, and of all that they need, to those known before."""
    _push(toposort(outputs, known), known, several)


def _push(
    nodes: Sequence[Node],
    known: dict[Node, Node | None],
    several: dict[Node, prim.Results],
) -> None:
    """Adds the tangents of nodes, sources first, to `known`.

    Args:
      several: of compounds: a tangent per result.
    """
    place = provenance.caller or user_origin()
    with inherited_origin():
        for node in nodes:
            if node in known:
                continue
            if node.op is prim.item_p:
                number: int = node.arg
                known[node] = several[node.src[0]][number]
                continue
            take_derivative(node, place)
            found = _tangents(node, [known.get(s) for s in node.src])
            if prim.compound_of(node) is None:
                (known[node],) = found
            else:
                several[node] = found


def _tangents(node: Node, tangents: list[Node | None]) -> prim.Results:
    """The tangent of each result."""
    if all(t is None for t in tangents):
        return [None] * len(node.aval.items)
    op = prim.record_of(node)
    if op.jvp is None and op.no_derivative:
        raise DerivativeError(f"{op.name} has no derivative: {op.no_derivative}")
    if isinstance(op, prim.Compound):
        assert op.jvp is not None
        return op.jvp(node, tangents)
    if op.jvp is not None:
        return [op.jvp(node, tangents)]
    pairs = zip(tangents, node.src, strict=True)
    return [op(*[zeros_like(s) if t is None else t for t, s in pairs], arg=node.arg)]


@in_span("transform", "transpose")
@without_collection
def transpose_nodes(
    outputs: Sequence[Node | None],
    leaves: Sequence[Node],
    cotangents: Sequence[Node | None],
) -> list[Node | None]:
    """The cotangents of the leaves, in which the outputs are linear; None is zero.

    Raises:
      DerivativeError: the outputs are not linear in the leaves.
    """
    total: dict[Node, Node] = {}
    several: dict[Node, list[Node | None]] = {}  # of compounds: one per result
    known: list[Node] = []
    for node, cotangent in zip(outputs, cotangents, strict=True):
        if node is not None and cotangent is not None:
            known.append(node)
            _accumulate(total, node, cotangent)
    linear = dependents(known, leaves)
    varying = set(linear)
    wanted = set(leaves)
    with inherited_origin():
        for node in reversed(linear):
            found = several.pop(node, None)
            if found is None:
                if node in wanted or node not in total:
                    continue
                found = [total.pop(node)]
            take_backward(node)
            if node.op is prim.item_p:
                bundle = node.src[0]
                empty: list[Node | None] = [None] * len(bundle.aval.items)
                number: int = node.arg
                (several.setdefault(bundle, empty)[number],) = found
                continue
            flags = tuple([s in varying for s in node.src])
            parts = _transpose(node, found, flags)
            for source, part, varies in zip(node.src, parts, flags, strict=True):
                if part is not None and varies:
                    _accumulate(total, source, part)
    return [total.get(leaf) for leaf in leaves]


def _transpose(
    node: Node, cotangents: Sequence[Node | None], linear: Flags
) -> prim.Results:
    op = prim.record_of(node)
    if isinstance(op, prim.Compound):
        if op.transpose is not None:
            return op.transpose(node, cotangents, linear)
    elif op.transpose is not None and op.is_linear(linear):
        (ct,) = cotangents
        assert ct is not None
        transpose = op.transpose
        flags = enumerate(linear)
        return [transpose(node, ct, i) if flag else None for i, flag in flags]
    raise prim.not_linear(op.name, node)


#: How two cotangents are added that are no arrays, by the kind of their type.
sums_of_kinds: dict[type[ShapedArray], Callable[[Node, Node], Node]] = {}


def _accumulate(total: dict[Node, Node], node: Node, cotangent: Node) -> None:
    known = total.get(node)
    if known is not None:
        cotangent = sums_of_kinds.get(type(node.aval), p.add)(known, cotangent)
    total[node] = cotangent


def tangent_variable(aval: ShapedArray, position: int) -> Node:
    """A leaf that stands for a tangent or cotangent while a derivative is built."""
    return variable(aval.strong(), "tangent", position)


def tangents_of_leaves(leaves: Sequence[Node]) -> dict[Node, Node]:
    """For each leaf of an inexact dtype the variable of its tangent."""
    varying = [leaf for leaf in leaves if dtypes.is_inexact(leaf.dtype)]
    return {leaf: tangent_variable(leaf.aval, i) for i, leaf in enumerate(varying)}


NO_NODES: Mapping[Node, Node] = {}


@without_collection
def gradient_nodes(
    outputs: Sequence[Node],
    leaves: Sequence[Node],
    cotangents: Sequence[Node | None],
    moving: Mapping[Node, Node] = NO_NODES,
    linear: Callable[[list[Node | None]], list[Node | None]] = list,
) -> list[Node]:
    """The cotangents of the leaves for those of the outputs: Jᵀ·ct.

    Args:
      outputs: nodes in terms of the leaves.
      leaves: variables; those of no inexact dtype get zeros.
      cotangents: one per output, of its shape and dtype; None is zero.
      moving: tangents of other variables, in terms of `tangents_of_leaves`.
      linear: what becomes of the tangents of the outputs before they are transposed.
    """
    tangents = tangents_of_leaves(leaves)
    out_tangents = linear(jvp_nodes(outputs, {**tangents, **moving}))
    found = transpose_nodes(out_tangents, list(tangents.values()), cotangents)
    by_leaf = dict(zip(tangents, found, strict=True))
    return [_settle(by_leaf.get(leaf), leaf) for leaf in leaves]


def _settle(cotangent: Node | None, leaf: Node) -> Node:
    found = zeros_like(leaf) if cotangent is None else cotangent
    return p.cast(found, leaf.dtype, leaf.aval.weak_type)


def split_known(outputs: Sequence[Node], unknown: Sequence[Node]) -> list[Node]:
    """The residuals: what the outputs need beside the unknown leaves.

    These are nodes that do not depend on `unknown` and are used by nodes that do,
    other than constants. A stack does not leave its program: the loop that fills it
    is run again, unless it is at hand as an element of a loop around.
    """
    ordered = toposort(outputs)
    stacked = [
        n
        for n in ordered
        if any(isinstance(a, Stack) for a in n.aval.items) and not is_variable(n)
    ]
    later = set(dependents(outputs, [*unknown, *stacked]))
    wanted = set(unknown)
    residuals: dict[Node, None] = {}
    for node in ordered:
        if node in later and node not in wanted:
            for source in node.src:
                if source not in later:
                    residuals[_source_of_movement(source)] = None
    for node in outputs:
        if node not in later:
            residuals[_source_of_movement(node)] = None
    return [n for n in residuals if n.op not in CONSTANTS]


def _source_of_movement(node: Node) -> Node:
    """What is rather remembered: movement that does not shrink is done again."""
    while node.op.family == "movement" and node.src[0].size <= node.size:
        node = node.src[0]
    return node
