"""Primitives of users: records whose rules are functions of arrays.

The built-in records have rules over nodes. A user's rules are written with arrays, as
any other function; here they are traced for the types that are asked for, and their
graphs take the place of nodes. Those who make such records (`extend.py`,
`compat/primitive.py`) say how the rules are called that users write for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from ftrace import dtypes
from ftrace.errors import DerivativeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.batching import of_each
from ftrace.trace.body import apply_body, select, spread, transposed_operands
from ftrace.trace.calls.rule_graphs import Rule
from ftrace.trace.control.scan import map_lanes
from ftrace.trace.eager.dispatch import calls, signature
from ftrace.trace.effects import Same
from ftrace.trace.graph import Body, Flags, Node, Nodes, substitute
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.movement import move_axis
from ftrace.trace.primitives.primitive import Batched, Compound, Results, items
from ftrace.trace.tracing.tracer import Value

#: (values, params, *details) -> (values, what is said of them)
Flat = Callable[..., tuple[Sequence[Value], Any]]


@dataclass(frozen=True)
class UserRecord:
    """What a user said of a primitive.

    Attributes:
      name: of the primitive.
      infer: (*avals, **params) -> the types of the results.
      numpy: (avals of the results, *arrays, **params) -> the results.
      linear: the operands in which it is linear, all together; None: the rules know.
      rules: on flat values, those that there are:
        jvp (operands, results and tangents, params, mask) -> the tangents that there
          are, which these are; beside them may stand the results once more;
        transpose (constant operands and cotangents, params, linear, mask, types of the
          operands, of the results) -> the cotangents that there are, which these are;
        batch (operands, params, size, flags) -> the results, the axes of their lanes;
        lower (operands, params) -> the results, None.
    """

    name: str
    infer: Callable[..., Sequence[ShapedArray]]
    numpy: Callable[..., Sequence[Any]]
    linear: tuple[int, ...] | None
    rules: Mapping[str, Flat] = field(compare=False)

    def compound(self, name: str, **facts: Any) -> Compound:
        """The record in the form that the built-in ones have."""
        rules = self.rules
        return Compound(
            name,
            "call" if "lower" in rules else "host",
            _infer,
            _value,
            _batch,
            jvp=_jvp if "jvp" in rules else None,
            transpose=_transpose if "transpose" in rules else None,
            show=str,
            **facts,
        )


@dataclass(frozen=True)
class UserArg:
    """The argument of a user's primitive: its parameters.

    Attributes:
      record: the primitive.
      params: names and values; what cannot be hashed equals itself alone.
    """

    record: UserRecord
    params: tuple[tuple[str, Any], ...]

    @staticmethod
    def of(record: UserRecord, params: Mapping[str, Any]) -> UserArg:
        found = [(name, _hashable(x)) for name, x in sorted(params.items())]
        return UserArg(record, tuple(found))

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.params)

    @property
    def named(self) -> dict[str, Any]:
        """The parameters as they were given."""
        return {k: x.value if isinstance(x, Same) else x for k, x in self.params}

    def ask(self, what: str, nodes: Sequence[Node], *details: Any) -> tuple[Body, Any]:
        """The graph of a rule for operands of these types, and what it said beside."""
        record, avals = self.record, tuple([n.aval for n in nodes])
        rule = record.rules[what]
        key = signature("rule", rule, self.params, avals, details)

        def make() -> tuple[Body, Any]:
            said: list[Any] = []

            def apply(*given: Any) -> Sequence[Value]:
                *asked, tracers = given
                results, note = rule(tracers, self.named, *asked)
                said.append(note)
                return results

            body = Rule(record.name, key, apply, ()).trace(what, avals, *details)
            return body, said[0]

        return calls.once(key, make)

    def expand(self, operands: Sequence[Node]) -> Body | None:
        """What the primitive is made of; None if the host computes it."""
        known = "lower" in self.record.rules
        return self.ask("lower", operands)[0] if known else None


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return Same.of(value)
    return value


def _infer(arg: UserArg, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return tuple(arg.record.infer(*avals, **arg.named))


def _value(avals: Sequence[ShapedArray], arg: UserArg, *arrays: Any) -> Sequence[Any]:
    return arg.record.numpy(avals, *arrays, **arg.named)


def _jvp(node: Node, tangents: Results) -> Results:
    results, mask = items(node), tuple(t is not None for t in tangents)
    operands = [*node.src, *results, *select(tangents, mask)]
    body, moving = node.arg.ask("jvp", operands, mask)
    count = sum(moving)
    own = dict(zip(body.inputs, operands, strict=True))
    # Where a rule computes the results once more, they are those of the node.
    again = zip(body.outputs[count:], results, strict=False)
    same = {new: old for new, old in again if new not in own and new.aval is old.aval}
    found = substitute(body.outputs[:count], {**same, **own})
    pairs = zip(spread(moving, found), results, strict=True)
    return [
        cast(t, r.dtype) if t is not None and dtypes.is_inexact(r.dtype) else None
        for t, r in pairs
    ]


def _transpose(node: Node, cotangents: Results, linear: Flags) -> Results:
    arg: UserArg = node.arg
    record, wanted = arg.record, [i for i, flag in enumerate(linear) if flag]
    if record.linear is not None and not set(wanted) <= set(record.linear):
        raise DerivativeError(
            f"{record.name} is linear in its operands {record.linear}, not in {wanted}",
            node.origin,
        )
    mask = tuple(ct is not None for ct in cotangents)
    operands = transposed_operands(node.src, linear, cotangents)
    types = tuple([s.aval for s in node.src])
    body, moving = arg.ask("transpose", operands, linear, mask, types, node.aval.items)
    pairs = zip(spread(moving, apply_body(body, operands)), node.src, strict=True)
    return [None if ct is None else cast(ct, s.dtype) for ct, s in pairs]


def _batch(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    if "batch" not in node.arg.record.rules:
        return map_lanes(node, src, batched, size)
    body, axes = node.arg.ask("batch", src, size, batched)
    found = apply_body(body, of_each(src, batched))
    pairs = zip(found, axes, strict=True)
    found = [move_axis(n, axis, 0) if axis else n for n, axis in pairs]
    return found, [axis is not None for axis in axes]
