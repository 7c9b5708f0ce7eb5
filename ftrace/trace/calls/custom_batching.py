"""custom_vmap: functions with batching of their own.

    custom_vmap_p(*closed, *args, token?, arg=CustomVmap) -> *results, token?

The rule stays with the derivatives of the function: the tangents are a call whose rule
is the derivative of the rule, and so is the transpose of that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.autodiff import transpose_nodes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.batching import batch_nodes
from ftrace.trace.body import apply_body, close, linearize, or_zeros, plan_of
from ftrace.trace.control import scan
from ftrace.trace.control.scan_types import Scan
from ftrace.trace.graph import Body, Node, substitute
from ftrace.trace.primitives.broadcast import broadcast_leading, reduce_sum
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.primitive import Compound, Results
from ftrace.trace.primitives.sources import variable

_COTANGENT_DEPTH = -7
_OUTER_DEPTH = -11

Flags = tuple[bool, ...]


class Batcher(ABC):
    """Makes the function of a batch. Equal ones make equal functions."""

    @abstractmethod
    def batched(
        self, avals: Sequence[ShapedArray], size: int, flags: Flags
    ) -> tuple[Body, list[bool]]:
        """The function for operands of these types, of which some have lanes.

        Returns:
          A body whose inputs have one more leading axis where the flag is set, and
          which of its outputs have it.
        """


@dataclass(frozen=True)
class CustomVmap:
    """The argument.

    Attributes:
      name: of the function.
      body: the function of one example.
      closed: how many operands it closes over.
      effects: the last operand and the last result are tokens.
      rule: makes the function of a batch; None: as of any other function.
    """

    name: str
    body: Body
    closed: int
    effects: bool
    rule: Batcher | None

    def __str__(self) -> str:
        return self.name


def _infer(arg: CustomVmap, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return tuple(n.aval for n in arg.body.outputs)


def _value(avals: Any, arg: CustomVmap, *operands: Any) -> list[Any]:
    return plan_of(arg.body)(operands)


def _batch(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    arg: CustomVmap = node.arg
    if arg.effects:
        return scan.map_lanes(node, src, batched, size)
    if not any(batched):
        results = custom_vmap_p.results(*src, arg=arg)
        return results, [False] * len(results)
    if arg.rule is None or any(batched[: arg.closed]):
        inputs = scan.batched_inputs(arg.body, batched, size)
        pairs = zip(arg.body.inputs, inputs, batched, strict=True)
        leaves = {n: b for n, b, f in pairs if f}
        found = batch_nodes(arg.body.outputs, leaves, size)
        body, has = close(inputs, [n for n, _ in found]), [f for _, f in found]
    else:
        avals = [n.aval for n in arg.body.inputs]
        body, has = arg.rule.batched(avals, size, batched)
    return apply_body(body, src), has


@dataclass(frozen=True)
class SequentialBatcher(Batcher):
    """One lane after the other."""

    body: Body

    def batched(
        self, avals: Sequence[ShapedArray], size: int, flags: Flags
    ) -> tuple[Body, list[bool]]:
        inputs = scan.batched_inputs(self.body, flags, size)
        order = sorted(range(len(flags)), key=lambda i: flags[i])
        inner = close([self.body.inputs[i] for i in order], self.body.outputs)
        arg = Scan(inner, size, False, flags.count(False), 0)
        results = scan.scan_p.results(*[inputs[i] for i in order], arg=arg)
        return close(inputs, results), [True] * len(results)


# Derivatives.


def _jvp(node: Node, tangents: Results) -> Results:
    arg: CustomVmap = node.arg
    mask = tuple(t is not None for t in tangents)
    found = linearize(arg.body, mask)
    wanted = tuple(k for k, t in enumerate(found.outputs) if t is not None)
    answer: list[Node | None] = [None] * len(arg.body.outputs)
    if not wanted:
        return answer
    names = [n for n in found.tangents if n is not None]
    body = close(
        [*arg.body.inputs, *names],
        [t for t in found.outputs if t is not None],
    )
    moving = tuple(n is not None for n in found.tangents)
    present = [
        t for t, flag in zip(tangents, moving, strict=True) if flag and t is not None
    ]
    rule = None if arg.rule is None else _TangentBatcher(arg.rule, moving, wanted)
    linear = CustomVmap(arg.name, body, arg.closed, False, rule)
    results = custom_vmap_p.results(*node.src, *present, arg=linear)
    for k, result in zip(wanted, results, strict=True):
        answer[k] = result
    return answer


@dataclass(frozen=True)
class _TangentBatcher(Batcher):
    """The derivative of a rule.

    Attributes:
      rule: of the function.
      mask: which of its operands have tangents.
      wanted: the results whose tangents are asked for.
    """

    rule: Batcher
    mask: Flags
    wanted: tuple[int, ...]

    def batched(
        self, avals: Sequence[ShapedArray], size: int, flags: Flags
    ) -> tuple[Body, list[bool]]:
        count = len(self.mask)
        positions = [i for i, flag in enumerate(self.mask) if flag]
        wide = list(flags[:count])
        for i, has in zip(positions, flags[count:], strict=True):
            wide[i] = wide[i] or has
        body, has = self.rule.batched(avals[:count], size, tuple(wide))
        found = linearize(body, self.mask)
        inputs = [
            variable(_widened(a, size) if flag else a, _OUTER_DEPTH, i)
            for i, (a, flag) in enumerate(zip(avals, flags, strict=True))
        ]
        mapping = {
            name: _with_lanes(mine, had, want, size)
            for name, mine, had, want in zip(
                body.inputs, inputs, flags, wide, strict=False
            )
        }
        for k, i in enumerate(positions):
            name, mine = found.tangents[i], inputs[count + k]
            assert name is not None
            mapping[name] = _with_lanes(mine, flags[count + k], wide[i], size)
        outputs = [or_zeros(found.outputs[k], body.outputs[k]) for k in self.wanted]
        return (
            close(inputs, substitute(outputs, mapping)),
            [has[k] for k in self.wanted],
        )


def _transpose(node: Node, cotangents: Results, linear: tuple[bool, ...]) -> Results:
    arg: CustomVmap = node.arg
    known = tuple(ct is not None for ct in cotangents)
    avals = tuple(n.aval for n in arg.body.inputs)
    body = _transposed(arg.body, linear, known, [False] * len(known), 0)
    rule = None
    if arg.rule is not None:
        rule = _TransposeBatcher(arg.rule, avals, linear, known)
    constant = [s for s, flag in zip(node.src, linear, strict=True) if not flag]
    given = [ct for ct in cotangents if ct is not None]
    closed = sum(not flag for flag in linear[: arg.closed])
    backward = CustomVmap(arg.name, body, closed, False, rule)
    results = iter(custom_vmap_p.results(*constant, *given, arg=backward))
    return [next(results) if flag else None for flag in linear]


def _transposed(
    body: Body, linear: Flags, known: Flags, lanes: Sequence[bool], size: int
) -> Body:
    """(constants, cotangents) -> cotangents of the linear inputs.

    `lanes` says which cotangents have lanes although the output of `body` has none;
    their sum is meant.
    """
    wanted = [n for n, flag in zip(body.inputs, linear, strict=True) if flag]
    constant = [n for n, flag in zip(body.inputs, linear, strict=True) if not flag]
    outputs = [n for n, flag in zip(body.outputs, known, strict=True) if flag]
    extra = [has for has, flag in zip(lanes, known, strict=True) if flag]
    given = [
        variable(
            _widened(n.aval, size).strong() if has else n.aval.strong(),
            _COTANGENT_DEPTH,
            i,
        )
        for i, (n, has) in enumerate(zip(outputs, extra, strict=True))
    ]
    summed = [
        reshape(reduce_sum(ct, (0,)), ct.shape[1:]) if has else ct
        for ct, has in zip(given, extra, strict=True)
    ]
    found = transpose_nodes(outputs, wanted, summed)
    parts = [
        cast(or_zeros(ct, n), n.dtype) for ct, n in zip(found, wanted, strict=True)
    ]
    return close([*constant, *given], parts)


@dataclass(frozen=True)
class _TransposeBatcher(Batcher):
    """The transpose of a rule: all of the cotangents that it returns have lanes.

    Attributes:
      rule: of the linear function.
      avals: the types of its operands.
      linear: in which of them it is linear.
      known: which of its results have cotangents.
    """

    rule: Batcher
    avals: tuple[ShapedArray, ...]
    linear: Flags
    known: Flags

    def batched(
        self, avals: Sequence[ShapedArray], size: int, flags: Flags
    ) -> tuple[Body, list[bool]]:
        rest = iter(flags)
        full = tuple(flag or next(rest) for flag in self.linear)
        of_cotangents = list(rest)
        body, has = self.rule.batched(self.avals, size, full)
        asked = [k for k, flag in enumerate(self.known) if flag]
        lanes = [False] * len(self.known)
        for k, mine in zip(asked, of_cotangents, strict=True):
            lanes[k] = mine and not has[k]
        plain = _transposed(body, self.linear, self.known, lanes, size)
        count = len(plain.inputs) - len(asked)
        inputs = list(plain.inputs)
        mapping: dict[Node, Node] = {}
        for i, (k, mine) in enumerate(zip(asked, of_cotangents, strict=True)):
            if has[k] and not mine:
                name = plain.inputs[count + i]
                inputs[count + i] = variable(avals[count + i], _OUTER_DEPTH, i)
                mapping[name] = _with_lanes(inputs[count + i], False, True, size)
        outputs = substitute(plain.outputs, mapping)
        return close(inputs, outputs), [True] * len(outputs)


def _widened(aval: ShapedArray, size: int) -> ShapedArray:
    return aval.with_shape((size, *aval.shape))


def _with_lanes(node: Node, has: bool, wanted: bool, size: int) -> Node:
    if wanted and not has:
        return broadcast_leading(node, (size, *node.shape))
    return node


custom_vmap_p = Compound(
    "custom_vmap", "call", _infer, _value, _batch, jvp=_jvp, transpose=_transpose,
    doc="a function with a rule for batching", show=str,
)  # fmt: skip
