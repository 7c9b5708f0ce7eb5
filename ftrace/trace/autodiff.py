"""Derivatives: two walks over a graph.

    jvp        nodes -> tangents, forwards, by each primitive's rule
    transpose  cotangents of outputs -> cotangents of leaves, backwards

The gradient is the transpose of the jvp in the tangent: there is no tape. A tracer of
an outer transform is a leaf like any other; nested derivatives are graphs of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ftrace import dtypes
from ftrace.errors import DerivativeError
from ftrace.trace.avals import ShapedArray, Stack
from ftrace.trace.graph import Flags, Node, Op, dependents, inherited_origin, toposort
from ftrace.trace.primitives import primitive
from ftrace.trace.primitives.elementwise import add, cast, div, mul, mul_zero, select
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.primitives.sources import is_variable, variable, zeros_like
from ftrace.trace.python_limits import without_collection

#: For primitives that are linear in some operands only: which ones these are.
_LINEAR_OPERANDS: dict[Op, tuple[int, ...]] = {
    div: (0,),
    select: (1, 2),
    gather_p: (0,),
    scatter_p: (0, 1),
}


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
    several: dict[Node, primitive.Results],
) -> None:
    """Adds the tangents of nodes, and of all that they need, to those known before."""
    _push(toposort(outputs, known), known, several)


def _push(
    nodes: Sequence[Node],
    known: dict[Node, Node | None],
    several: dict[Node, primitive.Results],
) -> None:
    """Adds the tangents of nodes, sources first, to `known`.

    Args:
      several: of compounds: a tangent per result.
    """
    with inherited_origin() as take:
        for node in nodes:
            if node in known:
                continue
            if node.op is primitive.item_p:
                number: int = node.arg
                known[node] = several[node.src[0]][number]
                continue
            given = [known.get(s) for s in node.src]
            compound = primitive.compound_of(node)
            take(node)
            if compound is not None:
                several[node] = _tangents(compound, node, given)
            elif any(t is not None for t in given):
                known[node] = _tangent(node, given)
            else:
                known[node] = None


def _tangents(
    op: primitive.Compound, node: Node, tangents: list[Node | None]
) -> primitive.Results:
    """The tangent of each result of a compound."""
    if all(t is None for t in tangents):
        return [None] * len(node.aval.items)
    if op.jvp is not None:
        return op.jvp(node, tangents)
    raise DerivativeError(f"{op.name} has no derivative: {op.no_derivative}")


def _tangent(node: Node, tangents: list[Node | None]) -> Node | None:
    op = primitive.primitive_of(node)
    if op.jvp is not None:
        return op.jvp(node, tangents)
    if op.no_derivative:
        raise DerivativeError(f"{op.name} has no derivative: {op.no_derivative}")
    full = [
        t if t is not None else zeros_like(s)
        for t, s in zip(tangents, node.src, strict=True)
    ]
    return op(*full, arg=node.arg)


@without_collection
def transpose_nodes(
    outputs: Sequence[Node], leaves: Sequence[Node], cotangents: Sequence[Node | None]
) -> list[Node | None]:
    """The cotangents of the leaves, in which the outputs are linear; None is zero.

    Raises:
      DerivativeError: the outputs are not linear in the leaves.
    """
    total: dict[Node, Node] = {}
    several: dict[Node, list[Node | None]] = {}  # of compounds: one per result
    for node, cotangent in zip(outputs, cotangents, strict=True):
        if cotangent is not None:
            _accumulate(total, node, cotangent)
    linear = dependents(outputs, leaves)
    varying = set(linear)
    wanted = set(leaves)
    with inherited_origin() as take:
        for node in reversed(linear):
            compound = primitive.compound_of(node)
            if compound is not None and node in several:
                take(node)
                flags = tuple(s in varying for s in node.src)
                parts = _transpose(compound, node, several.pop(node), flags)
                for source, part in zip(node.src, parts, strict=True):
                    if part is not None and source in varying:
                        _accumulate(total, source, part)
                continue
            if node in wanted or node not in total:
                continue
            take(node)
            cotangent = total.pop(node)
            if node.op is primitive.item_p:
                bundle = node.src[0]
                empty: list[Node | None] = [None] * len(bundle.aval.items)
                number: int = node.arg
                several.setdefault(bundle, empty)[number] = cotangent
                continue
            _check_linear(node, varying)
            transpose = primitive.primitive_of(node).transpose
            assert transpose is not None
            for i, source in enumerate(node.src):
                if source in varying:
                    part = transpose(node, cotangent, i)
                    if part is not None:
                        _accumulate(total, source, part)
    return [total.get(leaf) for leaf in leaves]


def _transpose(
    op: primitive.Compound, node: Node, cotangents: primitive.Results, linear: Flags
) -> primitive.Results:
    if op.transpose is None:
        raise DerivativeError(
            f"linear_transpose: the function is not linear in its argument: it uses "
            f"{op.name} of it",
            node.origin,
        )
    return op.transpose(node, cotangents, linear)


#: How two cotangents are added that are no arrays, by the kind of their type.
sums_of_kinds: dict[type[ShapedArray], Callable[[Node, Node], Node]] = {}


def _accumulate(total: dict[Node, Node], node: Node, cotangent: Node) -> None:
    known = total.get(node)
    if known is not None:
        cotangent = sums_of_kinds.get(type(node.aval), add)(known, cotangent)
    total[node] = cotangent


def _check_linear(node: Node, varying: set[Node]) -> None:
    op = primitive.primitive_of(node)
    if op.linear:
        return
    positions = [i for i, s in enumerate(node.src) if s in varying]
    allowed = _LINEAR_OPERANDS.get(op)
    if op in (mul, mul_zero):
        linear = len(positions) == 1
    elif allowed is not None:
        linear = all(i in allowed for i in positions)
    else:
        linear = op.transpose is not None
    if not linear:
        raise DerivativeError(
            f"linear_transpose: the function is not linear in its argument: it uses "
            f"{op.name} of it",
            node.origin,
        )


#: Depths of variables that belong to no scope: tangents and residuals.
TANGENT_DEPTH = -1
RESIDUAL_DEPTH = -2


def tangent_variable(aval: ShapedArray, position: int) -> Node:
    """A leaf that stands for a tangent or cotangent while a derivative is built."""
    return variable(aval.strong(), TANGENT_DEPTH, position)


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
) -> list[Node]:
    """The cotangents of the leaves for those of the outputs: Jᵀ·ct.

    Args:
      outputs: nodes in terms of the leaves.
      leaves: variables; those of no inexact dtype get zeros.
      cotangents: one per output, of its shape and dtype; None is zero.
      moving: tangents of other variables, in terms of `tangents_of_leaves`.
    """
    tangents = tangents_of_leaves(leaves)
    out_tangents = jvp_nodes(outputs, {**tangents, **moving})
    pairs = [
        (t, ct)
        for t, ct in zip(out_tangents, cotangents, strict=True)
        if t is not None and ct is not None
    ]
    found = transpose_nodes(
        [t for t, _ in pairs], list(tangents.values()), [ct for _, ct in pairs]
    )
    by_leaf = dict(zip(tangents, found, strict=True))
    return [_settle(by_leaf.get(leaf), leaf) for leaf in leaves]


def _settle(cotangent: Node | None, leaf: Node) -> Node:
    found = zeros_like(leaf) if cotangent is None else cotangent
    return cast(found, leaf.dtype, leaf.aval.weak_type)


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
                    residuals[_unmoved(source)] = None
    for node in outputs:
        if node not in later:
            residuals[_unmoved(node)] = None
    return [n for n in residuals if n.op.name not in ("const", "iota")]


def _unmoved(node: Node) -> Node:
    """What is rather remembered: movement that does not shrink is done again."""
    while node.op.family == "movement" and node.src[0].size <= node.size:
        node = node.src[0]
    return node
