"""Running reductions along an axis, as steps that the host does.

    cumulate    x -> y[i] = x[0] ∘ … ∘ x[i]           sum, prod, max, min, logsumexp
    recurrence  a, b -> y[i] = a[i]·y[i-1] + b[i]     y[-1] = 0
    extremum_tangent    x, t -> the derivative of a running maximum times t

The derivative of a running product p is the recurrence

    ṗ[i] = x[i]·ṗ[i-1] + p[i-1]·ẋ[i]

which divides by nothing, so that zeros are no exception; that of a running log-sum y is
one with the factors exp(y[i-1] - y[i]) ≤ 1. The derivative of a recurrence is another.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import AxisError, DtypeError, ShapeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.elementwise import add, eq, exp, mul, select, sub
from ftrace.trace.primitives.library.scan import cumulative_numpy
from ftrace.trace.primitives.movement import pad, shrink_axis
from ftrace.trace.primitives.primitive import Array, Compound, Results, compound_of
from ftrace.trace.primitives.sources import const_like, zeros_like
from ftrace.trace.symbolic.dim import same_size


class Running(NamedTuple):
    """How a reduction runs: which one, along which axis, from which end."""

    kind: str
    axis: int
    reverse: bool = False


def _batched(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    """All operands get the new axis; the argument's axis moves by one."""
    op = compound_of(node)
    assert op is not None
    if not any(batched):
        return op.results(*src, arg=node.arg), [False]
    wide = [
        s if has else broadcast_leading(s, (size, *old.shape))
        for s, has, old in zip(src, batched, node.src, strict=True)
    ]
    return op.results(*wide, arg=node.arg._replace(axis=node.arg.axis + 1)), [True]


def shifted(x: Node, axis: int, reverse: bool) -> Node:
    """The elements one place further on, behind a zero; back if `reverse`."""
    size = x.shape[axis]
    if same_size(size, 0):
        return x
    start = 1 if reverse else 0
    kept = shrink_axis(x, axis, start, start + size - 1)
    pads = [(0, 0, 0)] * x.ndim
    pads[axis] = (0, 1, 0) if reverse else (1, 0, 0)
    return pad(kept, tuple(pads))


# cumulate


EXTREMA = ("max", "min")


def check_running(kind: str, dtype: np.dtype[Any]) -> None:
    """Raises where the reduction is not defined for a dtype."""
    if dtype == dtypes.bool_ and kind in ("sum", "prod"):
        raise DtypeError(
            f"a cumulative {kind} takes numbers, got bool; cast it to an integer"
        )
    if kind == "logsumexp" and not dtypes.is_inexact(dtype):
        raise DtypeError(
            "cumlogsumexp takes float or complex numbers, got "
            f"{dtypes.SHORT[dtype]}; cast it"
        )


def _infer(arg: Running, x: ShapedArray) -> tuple[ShapedArray, ...]:
    assert arg.kind in cumulative_numpy.KINDS
    if not 0 <= arg.axis < x.ndim:
        raise AxisError(f"cumulative {arg.kind}: axis {arg.axis} does not fit {x!r}")
    check_running(arg.kind, x.dtype)
    return (x,)


def _value(avals: Any, arg: Running, x: Array) -> list[Array]:
    return [cumulative_numpy.accumulate(arg.kind, x, arg.axis, arg.reverse)]


def _direct(arg: Running, x: Any) -> tuple[Any, tuple[Any, ...]]:
    return partial(cumulative_numpy.accumulate, arg.kind), (arg.axis, arg.reverse)


def _tangent(node: Node, tangents: Results) -> Results:
    arg: Running = node.arg
    (x,), (t,) = node.src, tangents
    assert t is not None
    if arg.kind == "sum":
        return cumulate_p.results(t, arg=arg)
    if arg.kind in EXTREMA:
        return extremum_tangent_p.results(x, t, arg=Share(*arg))
    (y,) = cumulate_p.results(x, arg=arg)
    before = shifted(y, arg.axis, arg.reverse)
    place = Along(arg.axis, arg.reverse)
    if arg.kind == "prod":
        # Before the first element stands the empty product.
        ones = const_like(y, 1)
        first = shifted(ones, arg.axis, arg.reverse)
        before = add(before, sub(ones, first))
        return recurrence_p.results(x, mul(before, t), arg=place)
    return recurrence_p.results(
        _exp_difference(before, y), mul(_exp_difference(x, y), t), arg=place
    )


def _exp_difference(x: Node, y: Node) -> Node:
    """exp(x - y), where y is not less; 0 where both are the same infinity."""
    infinite = const_like(y, -np.inf)
    safe = select(eq(y, infinite), zeros_like(y), y)
    return select(eq(x, infinite), zeros_like(x), exp(sub(x, safe)))


def _transpose_sum(node: Node, cotangents: Results, linear: Any) -> Results:
    arg: Running = node.arg
    (ct,) = cotangents
    assert arg.kind == "sum"
    assert ct is not None
    return cumulate_p.results(ct, arg=arg._replace(reverse=not arg.reverse))


cumulate_p = Compound(
    "cumulate", "host", _infer,
    _value,
    _batched,
    jvp=_tangent, transpose=_transpose_sum, direct=_direct,
    doc="running sum, product, maximum, minimum or log-sum-exp along an axis",
)  # fmt: skip


# recurrence


class Along(NamedTuple):
    """The axis along which a recurrence runs, and from which end."""

    axis: int
    reverse: bool


def _infer_recurrence(
    arg: Along, a: ShapedArray, b: ShapedArray
) -> tuple[ShapedArray, ...]:
    if not same_size(a.shape, b.shape) or a.dtype != b.dtype:
        raise ShapeError(f"recurrence: factors {a!r} and terms {b!r} differ in type")
    return (b,)


def _recurrence_value(avals: Any, arg: Along, a: Array, b: Array) -> list[Array]:
    return [cumulative_numpy.recur(a, b, arg.axis, arg.reverse)]


def _recurrence_tangent(node: Node, tangents: Results) -> Results:
    arg: Along = node.arg
    (a, b), (da, db) = node.src, tangents
    terms: Node | None = db
    if da is not None:
        (y,) = recurrence_p.results(a, b, arg=arg)
        moved = mul(shifted(y, arg.axis, arg.reverse), da)
        terms = moved if terms is None else add(moved, terms)
    assert terms is not None
    return recurrence_p.results(a, terms, arg=arg)


def _transpose_recurrence(node: Node, cotangents: Results, linear: Any) -> Results:
    """b̄[i] = a[i+1]·b̄[i+1] + ȳ[i]: the other way round."""
    arg: Along = node.arg
    (ct,) = cotangents
    assert ct is not None
    assert not linear[0]
    factors = shifted(node.src[0], arg.axis, not arg.reverse)
    back = arg._replace(reverse=not arg.reverse)
    return [None, *recurrence_p.results(factors, ct, arg=back)]


recurrence_p = Compound(
    "recurrence", "host", _infer_recurrence,
    _recurrence_value,
    _batched,
    jvp=_recurrence_tangent, transpose=_transpose_recurrence, dtypes="fc",
    doc="y[i] = a[i]·y[i-1] + b[i] along an axis",
)  # fmt: skip


# The derivative of running extrema: linear in the tangent, constant in the place.


class Share(NamedTuple):
    """Of which running extremum.

    Attributes:
      transposed: of a cotangent.
      ties: lowering knows that elements tie: the host divides their shares.
    """

    kind: str
    axis: int
    reverse: bool
    transposed: bool = False
    ties: bool = False


def _infer_extremum(
    arg: Share, x: ShapedArray, t: ShapedArray
) -> tuple[ShapedArray, ...]:
    if not same_size(x.shape, t.shape):
        raise ShapeError(f"extremum_tangent: {x!r} and {t!r} differ in shape")
    return (t,)


def _extremum_value(avals: Any, arg: Share, x: Array, t: Array) -> list[Array]:
    kind, axis, reverse, transposed, _ = arg
    return [cumulative_numpy.extremum_tangent(kind, x, t, axis, reverse, transposed)]


def _extremum_tangent_tangent(node: Node, tangents: Results) -> Results:
    t = tangents[1]
    if t is None:
        return [None]
    return extremum_tangent_p.results(node.src[0], t, arg=node.arg)


def _transpose_extremum(node: Node, cotangents: Results, linear: Any) -> Results:
    arg: Share = node.arg
    (ct,) = cotangents
    assert ct is not None
    assert not linear[0]
    other = arg._replace(transposed=not arg.transposed)
    return [None, *extremum_tangent_p.results(node.src[0], ct, arg=other)]


extremum_tangent_p = Compound(
    "extremum_tangent", "host", _infer_extremum, _extremum_value, _batched,
    jvp=_extremum_tangent_tangent, transpose=_transpose_extremum, dtypes="fc",
    doc="the derivative of a running maximum or minimum times a tangent",
)  # fmt: skip
