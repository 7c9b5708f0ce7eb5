"""checkpoint: a function whose derivative computes it again.

    checkpoint_p(*operands, arg=Checkpoint) -> *results

Its tangents are another such call, of the operands, of the values that the policy
keeps, and of the tangents: linear in these. What lies between is not remembered. The
transpose of that call computes it again behind a barrier: not before the cotangents
exist, and never merged with the first time.

A policy is asked about each value that the derivative needs and that is no argument: to
keep it, or to compute it again from what it is made of. Users may give any function

    policy(primitive, *avals, **params) -> bool

that is told the primitive (`primitive.name`), the types of its operands, and what else
it has: `arg`; of a name the `name`; of a contraction, which is called `dot_general`,
the `dimension_numbers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ftrace.errors import ArgumentError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.autodiff import split_known, transpose_nodes
from ftrace.trace.avals import TOKEN, Stack
from ftrace.trace.body import (
    COTANGENT_DEPTH,
    apply_body,
    batch_body,
    chosen,
    close,
    linearize,
    placed,
)
from ftrace.trace.calls.rule_graphs import Call, call_compound
from ftrace.trace.control.scan import map_lanes
from ftrace.trace.graph import Body, Flags, Node, Nodes, nodes_of, substitute
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.barrier import IN_LOOPS, Where, barrier
from ftrace.trace.primitives.broadcast import expand_p, reduce_sum_p
from ftrace.trace.primitives.primitive import Batched, Primitive, Results, item_p
from ftrace.trace.primitives.sources import const_p, variable
from ftrace.trace.symbolic.dim import same_size

_KEPT_DEPTH = -10


# Names.


def _same_type(arg: str, x: Any) -> Any:
    return x


def _same_value(aval: Any, arg: str, x: Any) -> Any:
    return x


def _tangent(node: Node, tangents: Any) -> Node | None:
    return tangents[0]


name_p = Primitive(
    "name", "identity", _same_type, _same_value, p.batch_elementwise, jvp=_tangent,
    zero_at_zero=True, doc="the same value, with a name for policies of checkpoint",
)  # fmt: skip


# Contractions.

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Contraction:
    """A sum of products as a product of arrays.

    Attributes:
      factors: the two operands, before they repeat.
      contracted, batch: axes of the product that are summed, and that both factors
        have and the result keeps.
    """

    factors: tuple[Node, Node]
    contracted: Axes
    batch: Axes


def contraction_of(node: Node) -> Contraction | None:
    """The contraction that a node is, also where its result is cast; None if none."""
    if node.op is p.cast_p:
        node = node.src[0]
    if node.op is not reduce_sum_p:
        return None
    product = node.src[0]
    while product.op is p.cast_p:
        product = product.src[0]
    if product.op not in (p.mul, p.mul_zero) or not all(map(p.is_reused, product.src)):
        return None
    x, y = (_before_repeating(s) for s in product.src)
    axes: Axes = node.arg
    batch = tuple(
        a
        for a, n in enumerate(product.shape)
        if n > 1 and a not in axes and _has_axis(product.src[0], a)
        and _has_axis(product.src[1], a)
    )  # fmt: skip
    return Contraction((x, y), axes, batch)


def _before_repeating(node: Node) -> Node:
    return node.src[0] if node.op is expand_p else node


def _has_axis(node: Node, axis: int) -> bool:
    """Does an operand differ along an axis, instead of repeating?"""
    return node.op is not expand_p or not same_size(node.src[0].shape[axis], 1)


# Policies.

#: (primitive, *avals, **params) -> is the value kept?
Policy = Callable[..., Any]


@dataclass(frozen=True)
class Constantly:
    """Keeps all that the derivative needs, or nothing but the arguments."""

    answer: bool

    def __call__(self, primitive: Any, *avals: Any, **params: Any) -> bool:
        return self.answer


@dataclass(frozen=True)
class Dots:
    """Keeps the results of contractions.

    Attributes:
      batched: also of those that have batch axes.
    """

    batched: bool = True

    def __call__(self, primitive: Any, *avals: Any, **params: Any) -> bool:
        if primitive.name != DOT_GENERAL.name:
            return False
        _, (batch, _) = params["dimension_numbers"]
        return self.batched or not batch


@dataclass(frozen=True)
class Names:
    """Keeps by the names that `checkpoint_name` gave.

    Attributes:
      names: which names the policy speaks of.
      named: are these kept? The other names are treated the other way.
      unnamed: are values without a name kept?
    """

    names: frozenset[str]
    named: bool
    unnamed: bool = False

    def __call__(self, primitive: Any, *avals: Any, **params: Any) -> bool:
        if primitive.name != name_p.name:
            return self.unnamed
        return (params["name"] in self.names) == self.named


@dataclass(frozen=True)
class Either:
    """Keeps what one of two policies keeps."""

    first: Policy
    second: Policy

    def __call__(self, primitive: Any, *avals: Any, **params: Any) -> bool:
        mine = bool(self.first(primitive, *avals, **params))
        return mine or bool(self.second(primitive, *avals, **params))


@dataclass(frozen=True)
class Pseudo:
    """What a policy sees of an operation that is several nodes."""

    name: str

    def __str__(self) -> str:
        return self.name


DOT_GENERAL = Pseudo("dot_general")


def policy_of(policy: Any) -> Policy:
    """The policy that a user gave: None keeps nothing.

    Raises:
      ArgumentError: it is no function.
    """
    if policy is None:
        return Constantly(False)
    if not callable(policy):
        raise ArgumentError(
            "checkpoint: policy must be one of ftrace.checkpoint_policies or a "
            f"function of (primitive, *avals, **params), got {policy!r:.60}"
        )
    return policy


def keeps(policy: Policy, node: Node) -> bool:
    """Asks a policy about a value that is an array of its own."""
    found = contraction_of(node)
    if found is not None:
        both = found.contracted, found.batch
        numbers = tuple((axes, axes) for axes in both)
        avals = [f.aval for f in found.factors]
        return bool(policy(DOT_GENERAL, *avals, dimension_numbers=numbers))
    bundle = node.src[0] if node.op is item_p else node
    avals = [s.aval for s in bundle.src]
    if node.op is name_p:
        return bool(policy(name_p, *avals, name=node.arg))
    return bool(policy(bundle.op, *avals, arg=bundle.arg))


def kept_values(residuals: list[Node], inputs: set[Node], policy: Policy) -> list[Node]:
    """What is kept, so that the residuals can be computed from it and the inputs."""
    kept: dict[Node, None] = {}
    seen = set(inputs)
    pending = list(reversed(residuals))
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if _must_keep(node) or (_can_keep(node) and keeps(policy, node)):
            kept[node] = None
        else:
            pending.extend(reversed(node.src))
    return list(kept)


def _can_keep(node: Node) -> bool:
    """An array of its own: no view, no constant, no stack, no part of a compound."""
    if node.op.family in ("movement", "source") or isinstance(node.aval, Stack):
        return False
    return len(node.aval.items) == 1 and (
        node.op is item_p or isinstance(node.op, Primitive)
    )


def _must_keep(node: Node) -> bool:
    """Is it the result of an effect, which happens once?"""
    return node.op is item_p and any(a is TOKEN for a in node.src[0].aval.items)


# The call.


@dataclass(frozen=True)
class Checkpoint(Call):
    """The argument.

    Attributes:
      policy: what its derivative keeps.
      barrier: keep what is computed again apart from the first time; False: in the
        bodies of loops only.
      again: there is something that is computed again.
    """

    policy: Policy
    barrier: bool
    again: bool = True

    def __str__(self) -> str:
        return getattr(self.policy, "__name__", repr(self.policy))


def _jvp(node: Node, tangents: Results) -> Results:
    arg: Checkpoint = node.arg
    inputs = arg.body.inputs
    found = linearize(arg.body, tuple(t is not None for t in tangents))
    names, outputs = found.names, found.moved
    if not outputs:
        return [None] * len(found.outputs)
    kept = kept_values(split_known(outputs, names), set(inputs), arg.policy)
    mapping = {n: variable(n.aval, _KEPT_DEPTH, i) for i, n in enumerate(kept)}
    outputs = substitute(outputs, mapping)
    used = nodes_of(outputs)
    needed = [i for i, name in enumerate(inputs) if name in used]
    body = close([*(inputs[i] for i in needed), *mapping.values(), *names], outputs)
    operands = [
        *(node.src[i] for i in needed),
        *apply_body(Body(inputs, tuple(kept)), node.src),
        *chosen(tangents, found.moving),
    ]
    again = arg.policy != Constantly(True)
    linear = replace(arg, body=body, effects=False, again=again)
    results = checkpoint_p.results(*operands, arg=linear)
    return placed(len(found.outputs), found.wanted, results)


def _transpose(node: Node, cotangents: Results, linear: Flags) -> Results:
    arg: Checkpoint = node.arg
    inputs = arg.body.inputs
    outputs = chosen(arg.body.outputs, [ct is not None for ct in cotangents])
    given = [
        variable(n.aval.strong(), COTANGENT_DEPTH, i) for i, n in enumerate(outputs)
    ]
    wanted = [i for i, flag in enumerate(linear) if flag]
    constant = [i for i, flag in enumerate(linear) if not flag]
    found = transpose_nodes(outputs, [inputs[i] for i in wanted], given)
    parts = {
        i: p.cast(ct, inputs[i].dtype)
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
    return placed(len(node.src), parts, results)


def _apart(operands: list[Node], where: Where) -> list[Node]:
    """The operands behind a barrier; constants take no memory and stay."""
    behind = iter(barrier([n for n in operands if n.op is not const_p], where))
    return [n if n.op is const_p else next(behind) for n in operands]


def _batch(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    arg: Checkpoint = node.arg
    if arg.effects:
        return map_lanes(node, src, batched, size)
    body, has = batch_body(arg.body, batched, size)
    return checkpoint_p.results(*src, arg=replace(arg, body=body)), has


checkpoint_p = call_compound(
    "checkpoint", "a function whose derivative computes it again", _batch,
    jvp=_jvp, transpose=_transpose,
)  # fmt: skip
