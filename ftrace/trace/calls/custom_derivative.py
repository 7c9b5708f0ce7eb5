"""Functions with derivatives of their own.

    custom_jvp_p(*closed, *args, token?, arg=Ruled) -> *results, token?
    custom_vjp_p(*closed, *args, token?, arg=Ruled) -> *results, token?
    vjp_tangent_p(*closed, *residuals, *tangents, arg=VjpTangent) -> *tangents
    linear_call_p(*closed, *residuals, *operands, arg=Ruled) -> *results

The rules are traced when a derivative is taken. A jvp rule gives tangents, linear in
those of the arguments. For a vjp rule the tangents of the results are one operation,
which nobody can compute: all it has is a transpose, the user's backward function. A
linear call is its own tangent, and its rule is its transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DerivativeError, GraphError, Origin, UnexpectedTracerError
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.trace import body as bodies
from ftrace.trace.avals import ShapedArray
from ftrace.trace.batching import sum_lanes
from ftrace.trace.calls.rule_graphs import Call, Rule, call_compound
from ftrace.trace.graph import Body, Flags, Node, Nodes, constant_value, dependents
from ftrace.trace.primitives.elementwise import add, cast
from ftrace.trace.primitives.exchange import Ranks, lanes as current_lanes, of_ranks
from ftrace.trace.primitives.primitive import Batched, Compound, Results, items
from ftrace.trace.primitives.sources import const_p, zeros_like
from ftrace.trace.symbolic import same_size


class Lanes(NamedTuple):
    """A vmap around a call.

    Attributes:
      size: of its axis here.
      flags: which operands have it.
      ranks: the processes along it, as of `of_ranks`.
    """

    size: int
    flags: tuple[bool, ...]
    ranks: Ranks | None


@dataclass(frozen=True)
class Ruled(Call):
    """The argument of a call whose derivative is a rule.

    Attributes:
      name: of the function.
      avals: the types of the operands without lanes and token.
      closed: how many of them the function or its rules close over; of a linear call,
        in how many it need not be linear.
      rules: none if the user gave none; else
        of custom_jvp: (args, tangents) -> (results, tangents); of custom_vjp, too: its
          tangents are a `vjp_tangent_p`, and its other rule is
          (residuals, cotangents) -> cotangents of the args;
        of a linear call: (residuals, cotangents) -> cotangents of the other operands.
      lanes: the vmaps around it, the innermost first.
      spared: in a checkpoint its value is the function's, not that of its rule.
    """

    name: str
    avals: tuple[ShapedArray, ...]
    closed: int
    rules: tuple[Rule, ...]
    lanes: tuple[Lanes, ...] = ()
    spared: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def results(self) -> list[ShapedArray]:
        """The types of the results, without the token."""
        outputs = self.body.outputs[:-1] if self.effects else self.body.outputs
        return [n.aval for n in outputs]

    @property
    def constants(self) -> tuple[ShapedArray, ...]:
        """The types of the first operands, without lanes."""
        return self.avals[: self.closed]

    @property
    def tangents(self) -> tuple[ShapedArray, ...]:
        """The types of the tangents of the results, without lanes."""
        lanes = len(self.lanes)
        return tuple([a.with_shape(a.shape[lanes:]).strong() for a in self.results])


def _in_lanes(arg: Any, size: int, batched: Flags) -> Any:
    """The argument of the call within one vmap more: that which is batched now."""
    return replace(arg, lanes=(*arg.lanes, Lanes(size, batched, current_lanes.ranks)))


def _batch(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    """The function and its rules, for all lanes together.

    What has no tangents has lanes only where the function gives it some.
    """
    arg: Ruled = node.arg
    always = node.op is linear_call_p
    wanted = [always or dtypes.is_inexact(a.dtype) for a in arg.results]
    body, has = bodies.batch_body(arg.body, batched, size, wanted)
    wide = _in_lanes(replace(arg, body=body), size, batched)
    return items(node.op(*src, arg=wide)), has


def _present(node: Node, tangents: Results) -> tuple[list[Node], tuple[bool, ...]]:
    """The tangents that there are of the arguments, and which these are.

    Raises:
      UnexpectedTracerError: what the function closes over is differentiated.
    """
    arg: Ruled = node.arg
    closed = tangents[: arg.closed]
    moving = bodies.select(
        arg.body.inputs[: arg.closed], [t is not None for t in closed]
    )
    if moving and dependents(arg.body.outputs, moving):
        raise closure_error(arg.name, node.origin)
    mask = tuple(t is not None for t in tangents[arg.closed : len(arg.avals)])
    return bodies.select(tangents[arg.closed : len(arg.avals)], mask), mask


def _of_results(arg: Ruled, found: Results) -> Results:
    """The tangents of the results: of those that have any."""
    wanted = [k for k, a in enumerate(arg.results) if dtypes.is_inexact(a.dtype)]
    return bodies.spread_results(len(arg.body.outputs), wanted, found)


def _transpose_by(
    rule: Rule, what: str, node: Node, cotangents: Results, *details: Any
) -> Results:
    """The cotangents of the operands after the first ones, by a rule.

    Args:
      node: its argument says of which types these and the results are without lanes.
      details: what the rule is told beside the cotangents that there are.
    """
    arg: Any = node.arg
    mask = tuple(ct is not None for ct in cotangents)
    known = bodies.select(cotangents, mask)
    constants = arg.constants
    count, types = len(constants), bodies.select(arg.tangents, mask)
    body = rule.trace(what, [*constants, *types], *details, mask)
    # Where it is proved what differs between devices, one that does not is the sum, and
    # is taken as it is. So it is in a vmap within, as in JAX.
    proved = any(axis.checked for axis in rule.axes)
    for size, flags, ranks in arg.lanes:
        own, batched = flags[count:], (*flags[:count], *[True] * len(known))
        with of_ranks(ranks):
            wanted = own if proved else [True] * len(own)
            wide, has = bodies.batch_body(body, batched, size, wanted)
            outputs = [
                sum_lanes(ct) if wide_here and not lanes else ct
                for ct, wide_here, lanes in zip(wide.outputs, has, own, strict=True)
            ]
        body = bodies.close(wide.inputs, outputs)
    found = bodies.apply_body(body, [*node.src[:count], *known])
    moved = zip(found, node.src[count:], strict=True)
    return [None] * count + [cast(ct, s.dtype) for ct, s in moved]


# Messages.


def closure_error(name: str, origin: Origin | None = None) -> UnexpectedTracerError:
    """The exception for a derivative in a value that a rule does not tell of."""
    return UnexpectedTracerError(
        f"{name} is differentiated with respect to a value that it closes over, or "
        "takes as one of nondiff_argnums; its rule tells of the other arguments only: "
        "pass the value as one of these, or stop_gradient of it",
        origin,
    )


def tangent_error(name: str, origin: Origin | None = None) -> DerivativeError:
    """The exception for a jvp rule whose result is not that of the function."""
    return DerivativeError(
        f"the jvp rule of {name} returned a result that depends on the tangents; the "
        "first of the pair that it returns is the value of the function",
        origin,
    )


def forward_mode_error(name: str, origin: Origin | None = None) -> DerivativeError:
    """The exception for a tangent that is asked for and that no rule gives."""
    return DerivativeError(
        "can't apply forward-mode autodiff (jvp, jacfwd, linearize) to a custom_vjp "
        f"function: the rule of {name} is for reverse mode only; use grad, vjp or "
        f"jacrev, or give {name} a rule for both with custom_jvp",
        origin,
    )


# Within `shard_map` the tangents that a rule gives differ along the axes of devices
# along which the results do (`calls/varying.py`), whatever it made them of.


def _infer_first(arg: None, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return avals[:1]


def _first(avals: Any, arg: None, *operands: Any) -> Sequence[Any]:
    return operands[:1]


def _infer_where(arg: None, x: ShapedArray) -> tuple[ShapedArray]:
    return (ShapedArray.of((), dtypes.int32),)


def _nowhere(avals: Any, arg: None, x: Any) -> list[Any]:
    return [np.zeros((), np.int32)]


varies_as_p = Compound(
    "varies_as", "call", _infer_first, _first,
    lambda node, src, batched, size: (varies_as_p.results(*src), [batched[0]]),
    jvp=lambda node, tangents: [t and varies_as(t, node.src[1]) for t in tangents[:1]],
    transpose=lambda node, cotangents, linear: [*cotangents, None],
    doc="a tangent, which differs between devices where a value does",
)  # fmt: skip
where_varies_p = Compound(
    "where_varies", "call", _infer_where, _nowhere,
    lambda node, src, batched, size: (where_varies_p.results(*src), [False]),
    jvp=lambda node, tangents: [None],
    doc="zero, which differs between devices where a value does",
)  # fmt: skip


def varies_as(tangent: Node, where: Node) -> Node:
    """The tangent, which differs where a result of `where_varies_p` does."""
    return varies_as_p.results(tangent, where)[0]


# custom_jvp.


def _jvp_body(arg: Ruled, mask: tuple[bool, ...]) -> Body:
    """The rule for these tangents: operands and tangents -> results and tangents."""
    moving = [a.strong() for a in bodies.select(arg.avals[arg.closed :], mask)]
    what = "jvp" if len(arg.rules) == 1 else "fwd"
    body = arg.rules[0].trace(what, [*arg.avals, *moving], mask)
    for size, flags, ranks in arg.lanes:
        moving = bodies.select(flags[arg.closed :], mask)
        with of_ranks(ranks):
            body = bodies.widen(body, (*flags, *moving), size)
    return body


def _is_zero(tangent: Node) -> bool:
    """Is it one that a rule says to be zero?"""
    return tangent.op is const_p and not constant_value(tangent)


def _jvp(node: Node, tangents: Results) -> Results:
    arg: Ruled = node.arg
    present, mask = _present(node, tangents)
    if not present:
        return [None] * len(arg.body.outputs)
    operands = node.src[: len(arg.avals)]
    found = bodies.apply_body(_jvp_body(arg, mask), [*operands, *present])
    count = len(arg.results)
    results = [
        r
        for r, a in zip(found[:count], arg.results, strict=True)
        if dtypes.is_inexact(a.dtype)
    ]
    types = [a.dtype for a in arg.results if dtypes.is_inexact(a.dtype)]
    rows = zip(found[count:], types, strict=True)
    moved = [None if _is_zero(t) else cast(t, dtype) for t, dtype in rows]
    if any(axis.checked for axis in arg.rules[0].axes):
        rows = zip(moved, results, strict=True)
        moved = [t and varies_as(t, where_varies_p.results(r)[0]) for t, r in rows]
    return _of_results(arg, moved)


def _transpose_function(node: Node, cotangents: Results, linear: Flags) -> Results:
    """The function itself is linear: so is what it does."""
    arg: Ruled = node.arg
    known = [ct is not None for ct in cotangents]
    body = bodies.transpose_body(arg.body, linear, known)
    given = bodies.transposed_operands(node.src, linear, cotangents)
    return bodies.spread(linear, bodies.apply_body(body, given))


custom_jvp_p = call_compound(
    "custom_jvp", "a function with a rule for its tangents", _batch,
    jvp=_jvp, transpose=_transpose_function,
)  # fmt: skip


# custom_vjp.


custom_vjp_p = call_compound(
    "custom_vjp", "a function with a rule for its cotangents", _batch, jvp=_jvp
)


def follow(node: Node) -> list[Node] | None:
    """What a differentiated call computes by its rule; None for any other node.

    None, too, where the rule was not asked, or its results have other lanes.
    """
    if node.op not in (custom_jvp_p, custom_vjp_p) or not node.arg.rules:
        return None
    arg: Ruled = node.arg
    if not arg.rules[0].traced:
        return None
    _, _, (mask,) = next(iter(arg.rules[0].traced))
    operands, count = node.src[: len(arg.avals)], len(arg.results)
    body = _jvp_body(arg, mask)
    results = Body(body.inputs, body.outputs[:count])
    moving = results.inputs[len(operands) :]
    if dependents(results.outputs, moving):
        raise tangent_error(arg.name, node.origin)
    found = bodies.apply_body(results, [*operands, *map(zeros_like, moving)])
    pairs = list(zip(found, arg.results, strict=True))
    if not all(same_size(r.shape, a.shape) for r, a in pairs):
        return None
    # In the types of the call's, and the token that it passes on.
    after = [cast(r, a.dtype, a.weak_type) for r, a in pairs]
    return [*after, node.src[-1]] if arg.effects else after


# The tangents of a function that has a rule for cotangents only.


Backward = Callable[[tuple[bool, ...], Sequence[Node]], Sequence[Node]]


@dataclass(frozen=True)
class VjpTangent:
    """The argument of what stands for the tangents.

    Attributes:
      name: of the function.
      bwd: its backward rule; where that runs with values, a function from which
        cotangents there are, and these, to the cotangents of the arguments.
      constants: the types of what is closed over and of the residuals, without lanes.
      mask: which of the function's arguments have tangents.
      tangents: the types of the tangents of its results, without lanes.
      lanes: the vmaps around it.
    """

    name: str
    bwd: Rule | Backward
    constants: tuple[ShapedArray, ...]
    mask: tuple[bool, ...]
    tangents: tuple[ShapedArray, ...]
    lanes: tuple[Lanes, ...]

    def __str__(self) -> str:
        return self.name


def _infer_tangent(arg: VjpTangent, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    sizes = tuple(lanes.size for lanes in reversed(arg.lanes))
    return tuple(a.with_shape((*sizes, *a.shape)) for a in arg.tangents)


def _no_value(avals: Any, arg: VjpTangent, *operands: Any) -> list[Any]:
    raise forward_mode_error(arg.name)


def _jvp_tangent(node: Node, tangents: Results) -> Results:
    """It is linear in the tangents; nothing is known of the rest."""
    arg: VjpTangent = node.arg
    count = len(arg.constants)
    if any(t is not None for t in tangents[:count]):
        raise forward_mode_error(arg.name, node.origin)
    moving = map(bodies.or_zeros, tangents[count:], node.src[count:])
    return vjp_tangent_p.results(*node.src[:count], *moving, arg=arg)


def _transpose(node: Node, cotangents: Results, linear: Flags) -> Results:
    arg: VjpTangent = node.arg
    if any(linear[: len(arg.constants)]):
        raise forward_mode_error(arg.name, node.origin)
    if isinstance(arg.bwd, Rule):
        return _transpose_by(arg.bwd, "bwd", node, cotangents, arg.mask)
    mask = tuple(ct is not None for ct in cotangents)
    return [*arg.bwd(mask, bodies.select(cotangents, mask))]


def _batch_tangent(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    arg: VjpTangent = node.arg
    results = vjp_tangent_p.results(*src, arg=_in_lanes(arg, size, batched))
    return results, [True] * len(results)


vjp_tangent_p = Compound(
    "vjp_tangent", "call", _infer_tangent, _no_value, _batch_tangent,
    jvp=_jvp_tangent, transpose=_transpose, show=str,
    doc="the tangents of a function that has a rule for its cotangents",
)  # fmt: skip


# Linear functions.


def _jvp_linear(node: Node, tangents: Results) -> Results:
    """The same function of the tangents; beside it, what the residuals change."""
    arg: Ruled = node.arg
    first = arg.closed
    answer: list[Node | None] = [None] * len(arg.body.outputs)
    if any(t is not None for t in tangents[first:]):
        moving = map(bodies.or_zeros, tangents[first:], node.src[first:])
        found = linear_call_p.results(*node.src[:first], *moving, arg=arg)
        answer = [
            cast(r, r.dtype) if dtypes.is_inexact(r.dtype) else None for r in found
        ]
    flags = tuple(t is not None for t in tangents[:first])
    if any(flags):
        moved = bodies.linearize(arg.body, (*flags, *[False] * (len(node.src) - first)))
        body = Body((*arg.body.inputs, *moved.names), tuple(moved.moved))
        changes = bodies.apply_body(
            body, [*node.src, *bodies.select(tangents[:first], flags)]
        )
        for k, change in zip(moved.wanted, changes, strict=True):
            known = answer[k]
            answer[k] = change if known is None else add(known, change)
    return answer


def _transpose_linear(node: Node, cotangents: Results, linear: Flags) -> Results:
    arg: Ruled = node.arg
    if any(linear[: arg.closed]):
        raise GraphError(f"linear_call of {arg.name} is not linear in its residuals")
    return _transpose_by(arg.rules[0], "transpose", node, cotangents)


linear_call_p = call_compound(
    "linear_call", "a linear function with a transpose of its own", _batch,
    jvp=_jvp_linear, transpose=_transpose_linear,
)  # fmt: skip
