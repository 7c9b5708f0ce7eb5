"""Running reductions along an axis: one operation each.

    cumulate    x -> y[i] = x[0] ∘ … ∘ x[i]           sum, prod, max, min, logsumexp
    recurrence  a, b -> y[i] = a[i]·y[i-1] + b[i]     y[-1] = 0
    extremum_tangent    x, t -> the derivative of a running maximum times t

The derivative of a running product p is the recurrence

    ṗ[i] = x[i]·ṗ[i-1] + p[i-1]·ẋ[i]

which divides by nothing, so that zeros are no exception; that of a running log-sum y is
one with the factors exp(y[i-1] - y[i]) ≤ 1. The derivative of a recurrence is another.

In NumPy sums, products and recurrences of 32-bit numbers are computed in 64 bits. A
step from each element to the next is a ufunc's `accumulate` where there is one. Where
there is none, pairs of neighbours are combined first, then the pairs: O(n) in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import AxisError, ShapeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import add, eq, exp, mul, select, sub
from ftrace.trace.primitives.library.library_op import along, transpose_last
from ftrace.trace.primitives.movement import shift_axis
from ftrace.trace.primitives.primitive import Array, Results, not_linear
from ftrace.trace.primitives.reference import maximum, minimum
from ftrace.trace.primitives.sources import const_like, zeros_like
from ftrace.trace.symbolic import same_size

_where: Any = np.where  # the stubs know nothing of Any


#: The ufunc that repeats.
_UFUNC: dict[str, Any] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": maximum,
    "min": minimum,
    "logsumexp": np.logaddexp,
}
_WIDE = {
    dtypes.float16: dtypes.float32,
    dtypes.bfloat16: dtypes.float32,
    dtypes.float32: dtypes.float64,
    dtypes.complex64: dtypes.complex128,
}
KINDS = tuple(_UFUNC)


def wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which elements of another one are added up."""
    return _WIDE.get(dtype, dtype)


#: So many elements are computed at a time, where a whole array would leave the cache.
BLOCK = 1 << 15


def accumulate(arg: Running, x: Array) -> Array:
    """Each element combined with all before it (behind it) along an axis."""
    kind, axis, reverse = arg
    if reverse:
        return np.flip(accumulate(Running(kind, axis), np.flip(x, axis)), axis)
    ordered = kind in ("max", "min")
    if ordered and x.dtype != dtypes.bfloat16:
        return _UFUNC[kind].accumulate(x, axis, dtype=x.dtype)
    wide: np.dtype[Any] = dtypes.float32 if ordered else wide_dtype(x.dtype)
    if kind == "logsumexp" and dtypes.is_complex(x.dtype):
        moved = np.moveaxis(x.astype(wide), axis, 0)
        (result,) = combine_along([moved], lambda x, y: [_log_sum(*x, *y)])
        return np.moveaxis(result, 0, axis).astype(x.dtype)
    whole = x.astype(wide, copy=False)
    result = _UFUNC[kind].accumulate(whole, axis).astype(x.dtype, copy=False)
    if kind == "sum" and dtypes.is_inexact(x.dtype) and x.shape[axis] > 1:
        result += result.dtype.type(0)  # a sum begins with +0: of -0 alone it is +0
    return result


def _log_sum(a: Array, b: Array) -> Array:
    swap = a.real < b.real
    high, low = _where(swap, b, a), _where(swap, a, b)
    return _where(np.isneginf(high.real), high, high + np.log1p(np.exp(low - high)))


Combine = Callable[[Sequence[Array], Sequence[Array]], Sequence[Array]]


def combine_along(elements: Sequence[Array], combine: Combine) -> list[Array]:
    """The running combination of arrays along their leading axis.

    Pairs (0, 1), (2, 3), … are combined and scanned; the result is every second one,
    and one more combination gives those between.
    """
    size = elements[0].shape[0]
    if size < 2:
        return list(elements)
    pairs = combine([x[:-1:2] for x in elements], [x[1::2] for x in elements])
    odd = combine_along(pairs, combine)
    before = odd if size % 2 else [x[:-1] for x in odd]
    even = combine(before, [x[2::2] for x in elements])
    return [_interleave(*parts) for parts in zip(elements, even, odd, strict=True)]


def _interleave(first: Array, even: Array, odd: Array) -> Array:
    """The element 0 of `first`, then those at odd and at even positions in turns."""
    size = 1 + even.shape[0] + odd.shape[0]
    result = np.empty((size, *odd.shape[1:]), odd.dtype)
    result[0] = first[0]
    result[1::2] = odd
    result[2::2] = even
    return result


# Linear recurrences.


def recur(arg: Along, a: Array, b: Array) -> Array:
    """y[i] = a[i]·y[i-1] + b[i] along an axis; y[-1] = 0."""
    axis, reverse = arg
    dtype = b.dtype
    wide = wide_dtype(dtype)
    a, b = (np.moveaxis(x, axis, 0) for x in (a, b))
    if reverse:
        a, b = a[::-1], b[::-1]
    size, y = b.shape[0], np.empty(b.shape, dtype)
    step = max(1, BLOCK * size // max(b.size, 1))
    last: Array = None
    for start in range(0, size, step):
        factors, terms = (x[start : start + step].astype(wide) for x in (a, b))
        if last is not None:
            terms[0] += factors[0] * last
        _, part = combine_along([factors, terms], _two_steps)
        y[start : start + step] = part
        last = part[-1]
    if reverse:
        y = y[::-1]
    return np.moveaxis(y, 0, axis)


def _two_steps(left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
    """y -> a·y + b, followed by another such step, is one such step."""
    (a, b), (c, d) = left, right
    return [a * c, c * b + d]


# The derivative of running extrema. Of two equal elements each has half a share. Which
# elements meet is that of `combine_along`, as in JAX: by that ties are divided.


def _shares(kind: str, left: Array, right: Array) -> tuple[Array, Array]:
    """How much of left and right is in their maximum (minimum): nothing in a NaN."""
    beyond = np.greater if kind == "max" else np.less
    tied = 0.5 * (left == right)
    return beyond(left, right) + tied, beyond(right, left) + tied


def extremum_tangent(arg: Share, x: Array, t: Array) -> Array:
    """The derivative of the running maximum (minimum) of `x`, times a tangent.

    It is transposed, and the tangent a cotangent, if the argument says so.
    """
    kind, axis, reverse, transposed, _ = arg
    x = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    t = t.astype(wide_dtype(t.dtype), copy=False)
    x, t = (np.moveaxis(v, axis, 0) for v in (x, t))
    if reverse:
        x, t = x[::-1], t[::-1]
    if transposed:
        result = _pull(kind, x, _UFUNC[kind].accumulate(x, 0), t)
    else:
        result = _push(kind, x, t)
    return np.moveaxis(result[::-1] if reverse else result, 0, axis)


def _push(kind: str, x: Array, t: Array) -> Array:
    def combine(left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        (p, s), (q, u) = left, right
        of_left, of_right = _shares(kind, p, q)
        return [_UFUNC[kind](p, q), of_left * s + of_right * u]

    return combine_along([x, t], combine)[1]


def _pull(kind: str, x: Array, y: Array, ct: Array) -> Array:
    """The transpose of the walk of `combine_along`, whose result for `x` is `y`."""
    size = x.shape[0]
    if size < 2:
        return ct
    result = np.zeros_like(ct)
    of_odd = ct[1::2].copy()
    count = (size - 1) // 2
    before, own = _shares(kind, y[1::2][:count], x[2::2])
    of_odd[:count] += before * ct[2::2]
    result[2::2] += own * ct[2::2]
    result[0] += ct[0]
    left, right = x[:-1:2], x[1::2]
    of_pairs = _pull(kind, _UFUNC[kind](left, right), y[1::2], of_odd)
    of_left, of_right = _shares(kind, left, right)
    result[:-1:2] += of_left * of_pairs
    result[1::2] += of_right * of_pairs
    return result


class Running(NamedTuple):
    """How a reduction runs: which one, along which axis, from which end."""

    kind: str
    axis: int
    reverse: bool = False


# cumulate


EXTREMA = ("max", "min")


def check_running(kind: str, dtype: np.dtype[Any]) -> None:
    """Raises where the reduction is not defined for a dtype."""
    sums = {"sum": "iufc", "prod": "iufc", "logsumexp": "fc"}
    dtypes.require_kind(f"cum{kind}", sums.get(kind, "biufc"), dtype)


def _infer(arg: Running, x: ShapedArray) -> ShapedArray:
    assert arg.kind in KINDS
    if not 0 <= arg.axis < x.ndim:
        raise AxisError(f"cumulative {arg.kind}: axis {arg.axis} does not fit {x!r}")
    check_running(arg.kind, x.dtype)
    return x


def _tangent(node: Node, tangents: Results) -> Results:
    arg: Running = node.arg
    (x,), (t,) = node.src, tangents
    assert t is not None
    if arg.kind == "sum":
        return cumulate_p.results(t, arg=arg)
    if arg.kind in EXTREMA:
        return extremum_tangent_p.results(x, t, arg=Share(*arg))
    (y,) = cumulate_p.results(x, arg=arg)
    before = shift_axis(y, arg.axis, -1 if arg.reverse else 1)
    place = Along(arg.axis, arg.reverse)
    if arg.kind == "prod":
        # Before the first element stands the empty product.
        ones = const_like(y, 1)
        first = shift_axis(ones, arg.axis, -1 if arg.reverse else 1)
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


def _transpose_sum(node: Node) -> tuple[Sequence[Node], Running]:
    arg: Running = node.arg
    if arg.kind != "sum":
        raise not_linear(f"a cumulative {arg.kind}", node)
    return (), arg._replace(reverse=not arg.reverse)


cumulate_p = along(
    "cumulate", _infer, accumulate, slow=25,
    jvp=_tangent, transpose=transpose_last("a cumulative sum", _transpose_sum),
    doc="running sum, product, maximum, minimum or log-sum-exp along an axis",
)  # fmt: skip


# recurrence


class Along(NamedTuple):
    """The axis along which a recurrence runs, and from which end."""

    axis: int
    reverse: bool


def _infer_recurrence(arg: Along, a: ShapedArray, b: ShapedArray) -> ShapedArray:
    if not same_size(a.shape, b.shape) or a.dtype != b.dtype:
        raise ShapeError(f"recurrence: factors {a!r} and terms {b!r} differ in type")
    return b


def _recurrence_tangent(node: Node, tangents: Results) -> Results:
    arg: Along = node.arg
    (a, b), (da, db) = node.src, tangents
    terms: Node | None = db
    if da is not None:
        (y,) = recurrence_p.results(a, b, arg=arg)
        moved = mul(shift_axis(y, arg.axis, -1 if arg.reverse else 1), da)
        terms = moved if terms is None else add(moved, terms)
    assert terms is not None
    return recurrence_p.results(a, terms, arg=arg)


def _transpose_recurrence(node: Node) -> tuple[Sequence[Node], Along]:
    """b̄[i] = a[i+1]·b̄[i+1] + ȳ[i]: the other way round."""
    arg: Along = node.arg
    factors = shift_axis(node.src[0], arg.axis, 1 if arg.reverse else -1)
    return [factors], arg._replace(reverse=not arg.reverse)


recurrence_p = along(
    "recurrence", _infer_recurrence, recur,
    jvp=_recurrence_tangent, dtypes="fc",
    transpose=transpose_last("a recurrence", _transpose_recurrence),
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


def _infer_extremum(arg: Share, x: ShapedArray, t: ShapedArray) -> ShapedArray:
    if not same_size(x.shape, t.shape):
        raise ShapeError(f"extremum_tangent: {x!r} and {t!r} differ in shape")
    return t


def _extremum_tangent_tangent(node: Node, tangents: Results) -> Results:
    t = tangents[1]
    if t is None:
        return [None]
    return extremum_tangent_p.results(node.src[0], t, arg=node.arg)


def _transpose_extremum(node: Node) -> tuple[Sequence[Node], Share]:
    return node.src[:1], node.arg._replace(transposed=not node.arg.transposed)


extremum_tangent_p = along(
    "extremum_tangent", _infer_extremum, extremum_tangent,
    jvp=_extremum_tangent_tangent, dtypes="fc",
    transpose=transpose_last("a running extremum", _transpose_extremum),
    doc="the derivative of a running maximum or minimum times a tangent",
)  # fmt: skip
