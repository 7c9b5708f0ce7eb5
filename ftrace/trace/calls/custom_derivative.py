"""Functions with derivatives of their own.

    custom_jvp_p(*closed, *args, token?, arg=CustomJvp) -> *results, token?
    custom_vjp_p(*closed, *args, token?, arg=CustomVjp) -> *results, token?
    vjp_tangent_p(*closed, *residuals, *tangents, arg=VjpTangent) -> *tangents

The rules are traced when a derivative is taken. A jvp rule gives tangents, linear in
those of the arguments. For a vjp rule the tangents of the results are one operation,
which nobody can compute: all it has is a transpose, the user's backward function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ftrace import dtypes
from ftrace.errors import DerivativeError
from ftrace.errors.user_line import Origin
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.body import apply_body, close, or_zeros, plan_of
from ftrace.trace.calls.rule_graphs import Rule, widen
from ftrace.trace.control.scan import map_lanes
from ftrace.trace.graph import Body, Node, dependents
from ftrace.trace.primitives.broadcast import reduce_sum
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.primitive import Compound, Results
from ftrace.trace.primitives.sources import zeros_like

#: For each vmap around a call, the innermost first: its size, and which operands have
#: an axis of lanes.
Lanes = tuple[tuple[int, tuple[bool, ...]], ...]


@dataclass(frozen=True)
class CustomJvp:
    """The argument of a call whose derivative is a rule for tangents.

    Attributes:
      name: of the function.
      body: the function, as it is where nobody differentiates it.
      avals: the types of the operands without lanes and token.
      closed: how many of them the function or its rule closes over.
      effects: the last operand and the last result are tokens.
      rule: (args, tangents) -> (results, tangents); None if the user gave none.
      lanes: the vmaps around it.
    """

    name: str
    body: Body
    avals: tuple[ShapedArray, ...]
    closed: int
    effects: bool
    rule: Rule | None
    lanes: Lanes = ()

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class CustomVjp:
    """The argument of a call whose derivative is a rule for cotangents.

    Attributes:
      name, body, avals, closed, effects, lanes: as of `CustomJvp`.
      fwd: args -> (results, residuals); None if the user gave none.
      bwd: (residuals, cotangents) -> cotangents of the args.
    """

    name: str
    body: Body
    avals: tuple[ShapedArray, ...]
    closed: int
    effects: bool
    fwd: Rule | None
    bwd: Rule | None
    lanes: Lanes = ()

    def __str__(self) -> str:
        return self.name


def _infer(arg: Any, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return tuple(n.aval for n in arg.body.outputs)


def _value(avals: Any, arg: Any, *operands: Any) -> list[Any]:
    return plan_of(arg.body)(operands)


def _batch(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    """The function and its rules, for all lanes together."""
    arg = node.arg
    if arg.effects:
        return map_lanes(node, src, batched, size)
    op = node.op
    assert isinstance(op, Compound)
    if not any(batched):
        results = op.results(*src, arg=arg)
        return results, [False] * len(results)
    wide = replace(
        arg, body=widen(arg.body, batched, size), lanes=(*arg.lanes, (size, batched))
    )
    results = op.results(*src, arg=wide)
    return results, [True] * len(results)


def _present(node: Node, tangents: Results) -> tuple[list[Node], tuple[bool, ...]]:
    """The tangents that there are of the arguments, and which these are.

    Raises:
      DerivativeError: what the function closes over is differentiated.
    """
    arg = node.arg
    count = len(arg.avals)
    moving = [
        name
        for name, t in zip(arg.body.inputs[: arg.closed], tangents, strict=False)
        if t is not None
    ]
    if moving and dependents(arg.body.outputs, moving):
        raise closure_error(arg.name, node.origin)
    given = tangents[arg.closed : count]
    return [t for t in given if t is not None], tuple(t is not None for t in given)


def closure_error(name: str, origin: Origin | None = None) -> DerivativeError:
    """The exception for a derivative in a value that a rule does not tell of."""
    return DerivativeError(
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


def _results(arg: CustomJvp | CustomVjp) -> list[ShapedArray]:
    outputs = arg.body.outputs[:-1] if arg.effects else arg.body.outputs
    return [n.aval for n in outputs]


#: How a function is given its rule.
_HOW = {"custom_jvp": "defjvp", "custom_vjp": "defvjp(fwd, bwd)"}


def no_rule(name: str, kind: str, origin: Origin | None = None) -> DerivativeError:
    """The exception for a function under `kind` that is differentiated."""
    return DerivativeError(
        f"{name} is a function under {kind} without a rule for its derivative; "
        f"give it one with {name}.{_HOW[kind]}",
        origin,
    )


def _after(node: Node, results: Sequence[Node]) -> list[Node]:
    """The results of a rule in the types of the call's, and the token it passes on."""
    found = [
        cast(r, a.dtype, a.weak_type)
        for r, a in zip(results, _results(node.arg), strict=True)
    ]
    return [*found, node.src[-1]] if node.arg.effects else found


# custom_jvp.


def _jvp_body(arg: CustomJvp, mask: tuple[bool, ...]) -> Body:
    """The rule for these tangents: operands and tangents -> results and tangents."""
    assert arg.rule is not None
    args = arg.avals[arg.closed :]
    moving = [a.strong() for a, flag in zip(args, mask, strict=True) if flag]
    body = arg.rule.trace("jvp", [*arg.avals, *moving], mask)
    for size, flags in arg.lanes:
        mine = flags[arg.closed :]
        also = [has for has, flag in zip(mine, mask, strict=True) if flag]
        body = widen(body, (*flags, *also), size)
    return body


def _jvp(node: Node, tangents: Results) -> Results:
    arg: CustomJvp = node.arg
    present, mask = _present(node, tangents)
    if arg.rule is None:
        raise no_rule(arg.name, "custom_jvp", node.origin)
    results = _results(arg)
    empty: list[Node | None] = [None] * len(arg.body.outputs)
    if not present:
        return empty
    operands = node.src[: len(arg.avals)]
    body = _jvp_body(arg, mask)
    found = iter(apply_body(body, [*operands, *present])[len(results) :])
    for k, aval in enumerate(results):
        if dtypes.is_inexact(aval.dtype):
            empty[k] = cast(next(found), aval.dtype)
    return empty


def _follow_jvp(node: Node) -> list[Node] | None:
    """The results as the rule computes them; None if it was not asked."""
    arg: CustomJvp = node.arg
    asked = [] if arg.rule is None else [key[2] for key in arg.rule.traced]
    if not asked:
        return None
    (mask,) = asked[0]
    body = _jvp_body(arg, mask)
    operands = node.src[: len(arg.avals)]
    results = Body(body.inputs, body.outputs[: len(_results(arg))])
    moving = results.inputs[len(operands) :]
    if dependents(results.outputs, moving):
        raise tangent_error(arg.name, node.origin)
    unused = [zeros_like(n) for n in moving]
    return _after(node, apply_body(results, [*operands, *unused]))


custom_jvp_p = Compound(
    "custom_jvp", "call", _infer, _value, _batch, jvp=_jvp, show=str,
    doc="a function with a rule for its tangents",
)  # fmt: skip


# custom_vjp.


def _fwd_body(arg: CustomVjp, mask: tuple[bool, ...]) -> Body:
    """Operands -> results and residuals."""
    assert arg.fwd is not None
    body = arg.fwd.trace("fwd", arg.avals, mask)
    for size, flags in arg.lanes:
        body = widen(body, flags, size)
    return body


def _jvp_of_vjp(node: Node, tangents: Results) -> Results:
    arg: CustomVjp = node.arg
    present, mask = _present(node, tangents)
    if arg.fwd is None or arg.bwd is None:
        raise no_rule(arg.name, "custom_vjp", node.origin)
    empty: list[Node | None] = [None] * len(arg.body.outputs)
    if not present:
        return empty
    operands = node.src[: len(arg.avals)]
    results = _results(arg)
    residuals = apply_body(_fwd_body(arg, mask), operands)[len(results) :]
    plain = arg.fwd.trace("fwd", arg.avals, mask).outputs[len(results) :]
    many = [True] * len(residuals)
    wanted = [k for k, a in enumerate(results) if dtypes.is_inexact(a.dtype)]
    tangent = VjpTangent(
        arg.name,
        arg.bwd,
        (*arg.avals[: arg.closed], *(n.aval for n in plain)),
        mask,
        tuple(_without_lanes(results[k].strong(), arg.lanes) for k in wanted),
        tuple(
            (size, (*flags[: arg.closed], *many, *_some(flags[arg.closed :], mask)))
            for size, flags in arg.lanes
        ),
    )
    closed = operands[: arg.closed]
    found = vjp_tangent_p.results(*closed, *residuals, *present, arg=tangent)
    for k, result in zip(wanted, found, strict=True):
        empty[k] = result
    return empty


def _without_lanes(aval: ShapedArray, lanes: Lanes) -> ShapedArray:
    return aval.with_shape(aval.shape[len(lanes) :])


def _some(flags: Sequence[bool], mask: Sequence[bool]) -> list[bool]:
    return [flag for flag, wanted in zip(flags, mask, strict=True) if wanted]


def _follow_vjp(node: Node) -> list[Node] | None:
    """The results as the forward rule computes them; None if it was not asked."""
    arg: CustomVjp = node.arg
    asked = [] if arg.fwd is None else [key[2] for key in arg.fwd.traced]
    if not asked:
        return None
    (mask,) = asked[0]
    operands = node.src[: len(arg.avals)]
    found = apply_body(_fwd_body(arg, mask), operands)
    return _after(node, found[: len(_results(arg))])


custom_vjp_p = Compound(
    "custom_vjp", "call", _infer, _value, _batch, jvp=_jvp_of_vjp, show=str,
    doc="a function with a rule for its cotangents",
)  # fmt: skip


# The tangents of a function that has a rule for cotangents only.


Backward = Callable[[tuple[bool, ...], Sequence[Node]], Sequence[Node]]


@dataclass(frozen=True)
class VjpTangent:
    """The argument of what stands for the tangents.

    Attributes:
      name: of the function.
      bwd: its backward rule; where that runs with values, a function from which
        cotangents there are, and these, to the cotangents of the arguments.
      avals: the types of what is closed over and of the residuals, without lanes.
      mask: which of the function's arguments have tangents.
      results: the types of the tangents of its results, without lanes.
      lanes: the vmaps around it.
    """

    name: str
    bwd: Rule | Backward
    avals: tuple[ShapedArray, ...]
    mask: tuple[bool, ...]
    results: tuple[ShapedArray, ...]
    lanes: Lanes

    def __str__(self) -> str:
        return self.name


def _infer_tangent(arg: VjpTangent, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    sizes = tuple(size for size, _ in reversed(arg.lanes))
    return tuple(a.with_shape((*sizes, *a.shape)) for a in arg.results)


def forward_mode_error(node: Node) -> DerivativeError:
    """The exception for a tangent that is asked for and that no rule gives."""
    return _forward_mode(node.arg.name, node)


def _forward_mode(name: str, node: Node | None = None) -> DerivativeError:
    return DerivativeError(
        f"forward mode (jvp, jacfwd, linearize) reached {name}, a function under "
        "custom_vjp, whose rule is for reverse mode only; use grad, vjp or jacrev, or "
        f"give {name} a rule for both with custom_jvp",
        None if node is None else node.origin,
    )


def _no_value(avals: Any, arg: VjpTangent, *operands: Any) -> list[Any]:
    raise _forward_mode(arg.name)


def _jvp_tangent(node: Node, tangents: Results) -> Results:
    """It is linear in the tangents; nothing is known of the rest."""
    arg: VjpTangent = node.arg
    count = len(arg.avals)
    if any(t is not None for t in tangents[:count]):
        raise forward_mode_error(node)
    pairs = zip(tangents[count:], node.src[count:], strict=True)
    moving = [or_zeros(t, s) for t, s in pairs]
    return vjp_tangent_p.results(*node.src[:count], *moving, arg=arg)


def _transpose(node: Node, cotangents: Results, linear: tuple[bool, ...]) -> Results:
    arg: VjpTangent = node.arg
    count = len(arg.avals)
    if any(linear[:count]):
        raise forward_mode_error(node)
    mask = tuple(ct is not None for ct in cotangents)
    known = [ct for ct in cotangents if ct is not None]
    types = [a for a, flag in zip(arg.results, mask, strict=True) if flag]
    if not isinstance(arg.bwd, Rule):
        return [*arg.bwd(mask, known)]
    body = arg.bwd.trace("bwd", [*arg.avals, *types], arg.mask, mask)
    for size, flags in arg.lanes:
        wide = widen(body, (*flags[:count], *[True] * len(known)), size)
        outputs = [
            ct if has else reshape(reduce_sum(ct, (0,)), ct.shape[1:])
            for ct, has in zip(wide.outputs, flags[count:], strict=True)
        ]
        body = close(wide.inputs, outputs)
    found = apply_body(body, [*node.src[:count], *known])
    moved = zip(found, node.src[count:], strict=True)
    return [None] * count + [cast(ct, s.dtype) for ct, s in moved]


def _batch_tangent(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    arg: VjpTangent = node.arg
    wide = replace(arg, lanes=(*arg.lanes, (size, batched)))
    results = vjp_tangent_p.results(*src, arg=wide)
    return results, [True] * len(results)


vjp_tangent_p = Compound(
    "vjp_tangent", "call", _infer_tangent, _no_value, _batch_tangent,
    jvp=_jvp_tangent, transpose=_transpose, show=str,
    doc="the tangents of a function that has a rule for its cotangents",
)  # fmt: skip


def follow(node: Node) -> list[Node] | None:
    """What a differentiated call computes by its rule; None for any other node."""
    if node.op is custom_jvp_p:
        return _follow_jvp(node)
    if node.op is custom_vjp_p:
        return _follow_vjp(node)
    return None
