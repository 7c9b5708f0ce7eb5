"""Primitives of users: records whose rules are functions of arrays.

The built-in records have rules over nodes. A user's rules are written with arrays, as
any other function; here they are traced for the types that are asked for, and their
graphs take the place of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from ftrace import dtypes
from ftrace.errors import DerivativeError, DtypeError, PrimitiveError, ShapeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.body import apply_body
from ftrace.trace.calls.rule_graphs import Rule
from ftrace.trace.control.scan import map_lanes
from ftrace.trace.graph import Body, Flags, Node, Nodes
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.primitive import Batched, Compound, Results, items
from ftrace.trace.primitives.sources import zeros_like
from ftrace.trace.symbolic.dim import same_size
from ftrace.trace.tracing.tracer import Value

Function = Callable[..., Any]
#: (tracers, *details) -> flat values
Flat = Callable[..., Sequence[Value]]


@dataclass(frozen=True)
class UserRecord:
    """What a user said of a primitive.

    Attributes:
      name: of the primitive.
      infer: (*avals, **params) -> the types of the results.
      numpy: (*arrays, **params) -> the results.
      jvp, transpose, batch, lower: rules on flat values, or None; see `extend.py`.
      linear: the operands in which it is linear, all together.
      no_derivative: why it has none.
    """

    name: str
    infer: Callable[..., Sequence[ShapedArray]]
    numpy: Callable[..., Sequence[Any]]
    jvp: Flat | None = None
    transpose: Flat | None = None
    batch: Flat | None = None
    lower: Flat | None = None
    linear: tuple[int, ...] = ()
    no_derivative: str = ""
    rules: dict[Any, Rule] = field(compare=False, default_factory=dict[Any, Rule])


@dataclass(frozen=True)
class UserArg:
    """The argument of a user's primitive: its parameters.

    Attributes:
      record: the primitive.
      params: names and values.
    """

    record: UserRecord
    params: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.params)

    def trace(
        self, what: str, function: Flat, avals: Sequence[ShapedArray], *details: Any
    ) -> Body:
        """The graph of a rule for these types."""
        key = (what, self.params)
        rule = self.record.rules.get(key)
        if rule is None:
            params = dict(self.params)

            def flat(*arguments: Any) -> Sequence[Value]:
                *given, tracers = arguments
                return function(tracers, params, *given)

            rule = Rule(self.record.name, key, flat, ())
            self.record.rules[key] = rule
        return rule.trace(what, avals, *details)

    def expanded(self, avals: Sequence[ShapedArray]) -> Body | None:
        """What the primitive is made of; None if the host computes it."""
        lower = self.record.lower
        return None if lower is None else self.trace("lower", lower, avals)


def compound_of_user(record: UserRecord, doc: str) -> Compound:
    """The record of a user's primitive in the form that the built-in ones have.

    Raises:
      PrimitiveError: a rule is missing, or the name is taken.
    """
    if record.linear and record.transpose is None:
        raise PrimitiveError(
            f"the record of primitive {record.name!r} lacks transpose (it is linear)"
        )
    if any(i < 0 for i in record.linear):
        raise PrimitiveError(
            f"the record of primitive {record.name!r}: linear counts operands from 0, "
            f"got {record.linear}"
        )
    has_jvp = record.jvp is not None or bool(record.linear)
    return Compound(
        record.name,
        "host" if record.lower is None else "call",
        _infer,
        _value,
        _batch,
        jvp=_jvp if has_jvp else None,
        transpose=_transpose if record.transpose is not None else None,
        no_derivative=record.no_derivative,
        doc=doc,
        show=str,
    )


def _infer(arg: UserArg, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    if any(i >= len(avals) for i in arg.record.linear):
        raise PrimitiveError(
            f"{arg.record.name} is linear in its operands {arg.record.linear}, but was "
            f"called with {len(avals)}"
        )
    return tuple(arg.record.infer(*avals, **dict(arg.params)))


def _value(avals: Sequence[ShapedArray], arg: UserArg, *arrays: Any) -> Sequence[Any]:
    found = arg.record.numpy(*arrays, **dict(arg.params))
    if len(found) != len(avals):
        raise PrimitiveError(
            f"{arg.record.name}: numpy returned {len(found)} results, but infer "
            f"promised {len(avals)}"
        )
    for value, aval in zip(found, avals, strict=True):
        if not same_size(tuple(value.shape), aval.shape):
            raise ShapeError(
                f"{arg.record.name}: numpy returned shape {tuple(value.shape)}, but "
                f"infer promised {aval!r}"
            )
        if not _settles(value.dtype, aval.dtype):
            raise DtypeError(
                f"{arg.record.name}: numpy returned {value.dtype}, but infer promised "
                f"{aval!r}"
            )
    return found


def _settles(got: Any, promised: Any) -> bool:
    """May a result be converted to the promised dtype? It may lose precision only."""
    if got == promised:
        return True
    if not dtypes.is_inexact(promised):
        return False
    return dtypes.is_complex(promised) or not dtypes.is_complex(got)


def _jvp(node: Node, tangents: Results) -> Results:
    arg: UserArg = node.arg
    record = arg.record
    if record.jvp is None:
        return _linear_jvp(node, tangents)
    mask = tuple(t is not None for t in tangents)
    present = [t for t in tangents if t is not None]
    results = items(node)
    operands = [*node.src, *results, *present]
    body = arg.trace("jvp", record.jvp, [n.aval for n in operands], mask)
    found = iter(apply_body(body, operands))
    return [
        cast(next(found), r.dtype) if dtypes.is_inexact(r.dtype) else None
        for r in results
    ]


def _linear_jvp(node: Node, tangents: Results) -> Results:
    record: UserRecord = node.arg.record
    src = list(node.src)
    for i, (tangent, operand) in enumerate(zip(tangents, node.src, strict=True)):
        if i in record.linear:
            src[i] = tangent if tangent is not None else zeros_like(operand)
        elif tangent is not None:
            raise DerivativeError(
                f"{record.name} is linear in its operands {record.linear}, and has no "
                f"jvp that tells of operand {i}",
                node.origin,
            )
    return items(node.op(*src, arg=node.arg))


def _transpose(node: Node, cotangents: Results, linear: Flags) -> Results:
    arg: UserArg = node.arg
    record = arg.record
    assert record.transpose is not None
    wanted = [i for i, flag in enumerate(linear) if flag]
    if any(i not in record.linear for i in wanted):
        raise DerivativeError(
            f"{record.name} is linear in its operands {record.linear}, not in {wanted}",
            node.origin,
        )
    results = items(node)
    given = [
        ct if ct is not None else zeros_like(r)
        for ct, r in zip(cotangents, results, strict=True)
    ]
    constant = [s for s, flag in zip(node.src, linear, strict=True) if not flag]
    operands = [*constant, *given]
    types = tuple(node.src[i].aval for i in wanted)
    avals = [n.aval for n in operands]
    body = arg.trace("transpose", record.transpose, avals, linear, types)
    found = iter(apply_body(body, operands))
    return [
        cast(next(found), s.dtype) if flag else None
        for s, flag in zip(node.src, linear, strict=True)
    ]


def _batch(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    arg: UserArg = node.arg
    if arg.record.batch is None:
        return map_lanes(node, src, batched, size)
    body = arg.trace("batch", arg.record.batch, [s.aval for s in src], size, batched)
    results = apply_body(body, src)
    return results, [True] * len(results)
