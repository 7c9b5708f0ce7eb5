"""Reductions: along axes, and over the instances of a function along a named axis.

Reduced axes stay with size 1. The sum stands in `broadcast.py`. What instances do
together:

    psum(x, index), pmax, pmin          ->  one value, the same for all instances
    all_gather(x, index)                ->  (n, …): that of each, the same for all
    psum_scatter(x, index)              (n, …)  ->  row i of the sum, for instance i
    all_to_all(x, index)                (n, …)  ->  row i of each instance
    ppermute(x, index, source, target)  ->  the value of another instance, or zeros
    pvary(x, index)                     ->  x, which from there on is that of each

The second operand is the number of the instance, and it names the axis: a variable of
whoever bound it. Where `vmap` gives that variable an axis of lanes, the operation
becomes a reduction or a movement along these; where it gives one to `x` alone, it stays
what it is, for each lane.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from ftrace import dtypes
from ftrace.errors import GraphError, ShapeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Body, Flags, Node, Nodes, Op, bodies_of, dependents
from ftrace.trace.primitives import broadcast as bc, elementwise as p, primitive as prim
from ftrace.trace.primitives.broadcast import Axes, broadcast_leading, reduce_sum_p
from ftrace.trace.primitives.exchange import Ranks, communicate, lanes, vary
from ftrace.trace.primitives.indexing import clamp, gather, trailing
from ftrace.trace.primitives.movement import move_axis, pad, reshape, shrink_axis
from ftrace.trace.primitives.reference import Extremum, maximum, minimum
from ftrace.trace.primitives.sources import const, const_like, zeros_like
from ftrace.trace.symbolic import same_size


def identity_of(combine: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction of nothing gives: 0, 1, the least or the greatest value."""
    low, high = dtypes.limits(dtype)
    return {"add": 0, "mul": 1, "max": low, "min": high}[combine]


def identity(primitive: Op, dtype: np.dtype[Any]) -> Any:
    return identity_of(COMBINES[primitive].name, dtype)


def _reduction(
    name: str, kinds: str, ufunc: np.ufunc | Extremum, jvp: prim.Jvp, doc: str
) -> prim.Primitive:
    def first(dtype: np.dtype[Any]) -> prim.Array:
        return np.asarray(identity(record, dtype)).astype(dtype)

    def meaning(aval: ShapedArray, axes: Axes, x: prim.Array) -> prim.Array:
        return ufunc.reduce(x, axis=axes, keepdims=True, initial=first(aval.dtype))

    def direct(aval: ShapedArray, axes: Axes) -> tuple[Any, tuple[Any, ...]]:
        initial = first(aval.dtype)
        if isinstance(ufunc, np.ufunc):
            return ufunc.reduce, (axes, None, None, True, initial)
        return partial(ufunc.reduce, axis=axes, keepdims=True, initial=initial), ()

    def infer(axes: Axes, x: ShapedArray) -> ShapedArray:
        return bc.infer_reduction(name.removeprefix("reduce_"), kinds, axes, x)

    record = prim.Primitive(
        name, "reduction", infer, meaning, bc.batch_reduction, jvp=jvp,
        dtypes=kinds, doc=doc, direct=direct,
    )  # fmt: skip
    return record


def _extremum_tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    """The mean of the tangents at the positions that hold the extremum."""
    (x,), (t,) = node.src, tangents
    axes: Axes = node.arg
    assert t is not None
    here = p.cast(p.eq(x, bc.expand(node, x.shape)), x.dtype)
    count = bc.reduce_sum(here, axes)
    return p.div(bc.reduce_sum(p.scale(t, here), axes), count)


def _product_tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    """A tree of products: exact also where factors are zero."""
    (x,), (t,) = node.src, tangents
    axes: Axes = node.arg
    assert t is not None
    if same_size(x.size, 0):
        return zeros_like(node)
    for axis in axes:
        while x.shape[axis] > 1:
            x, t = _multiply_pairs(x, t, axis)
    return t


def _multiply_pairs(x: Node, t: Node, axis: int) -> tuple[Node, Node]:
    """The products of pairs of elements, and their tangents: half as many."""
    size = x.shape[axis]
    half = size // 2
    if not same_size(size % 2, 0):  # a factor of 1 more
        after = [(0, 0, 0)] * x.ndim
        after[axis] = (0, 1, 0)
        inside = pad(const(True, dtypes.bool_, x.shape), tuple(after))
        x, t, half = pad(x, tuple(after)), pad(t, tuple(after)), half + 1
        x = p.select(inside, x, const_like(x, 1))
    left, right = shrink_axis(x, axis, 0, half), shrink_axis(x, axis, half, 2 * half)
    t_left = shrink_axis(t, axis, 0, half)
    t_right = shrink_axis(t, axis, half, 2 * half)
    slope = p.add(p.mul_zero(t_left, right), p.mul_zero(t_right, left))
    return p.mul(left, right), slope


reduce_prod_p = _reduction(
    "reduce_prod", "iufc", np.multiply, _product_tangent, "the product along axes"
)
reduce_max_p = _reduction(
    "reduce_max", "biuf", maximum, _extremum_tangent,
    "the greatest along axes; NaN wins",
)  # fmt: skip
reduce_min_p = _reduction(
    "reduce_min", "biuf", minimum, _extremum_tangent,
    "the least along axes; NaN wins",
)  # fmt: skip

#: What each of them repeats.
COMBINES: Final[dict[Op, prim.Primitive]] = {
    bc.reduce_sum_p: p.add, reduce_prod_p: p.mul,
    reduce_max_p: p.maximum, reduce_min_p: p.minimum,
}  # fmt: skip
#: The same by the word that scatters and kernels have for it.
COMBINES_BY_NAME: Final = {op.name: op for op in COMBINES.values()}
#: Reductions by the word that what runs along an axis has for them.
BY_NAME: Final = {
    "sum": bc.reduce_sum_p, "prod": reduce_prod_p,
    "max": reduce_max_p, "min": reduce_min_p,
}  # fmt: skip
REDUCTIONS: Final = tuple(BY_NAME.values())


def reduce(primitive: Op, x: Node, axes: tuple[int, ...]) -> Node:
    return primitive(x, arg=axes) if axes else x


def identity_like(primitive: Op, node: Node) -> Node:
    return const(identity(primitive, node.dtype), node.dtype, node.shape)


@dataclass(frozen=True)
class NamedAxis:
    """The argument of a collective.

    Attributes:
      name, size: of its axis.
      checked: it is known which values differ along the axis (`calls/varying.py`).
    """

    name: Any
    size: int
    checked: bool = False

    def __str__(self) -> str:
        return f"{self.name}={self.size}"


#: (argument, x, does it have lanes, further operands, lanes) -> the same for all lanes,
#: and whether they differ.
_Lower = Callable[[NamedAxis, Node, bool, Nodes], tuple[Node, bool]]
#: (argument, cotangent, index and further operands) -> the cotangent of x
_Transpose = Callable[[NamedAxis, Node, Nodes], Node]
#: (processes, x of the lanes of this one, further operands) -> what `_Lower` gives
_Across = Callable[[Ranks, Node, Nodes], Node]


def _by(op: Callable[[NamedAxis], prim.Compound]) -> _Transpose:
    """The transpose of a collective that is another one."""
    return lambda arg, ct, rest: op(arg).results(ct, *rest, arg=arg)[0]


def _collective(
    name: str,
    lower: _Lower,
    doc: str,
    *,
    across: _Across | None,
    jvp: Any = None,
    transpose: _Transpose | None = None,
    takes: bool = False,
    gives: bool = False,
    kinds: str = "biufc",
) -> prim.Compound:
    """The record of a collective.

    Args:
      lower: what it does where its axis is one of lanes.
      across: the same, where several processes have lanes of it; None does nothing.
      transpose: where it is linear.
      takes, gives: operand and result have a leading axis with a row per instance.
    """

    def infer(arg: NamedAxis, *avals: ShapedArray) -> tuple[ShapedArray]:
        x, index = avals[:2]
        if index.shape != () or index.dtype != dtypes.int32:
            raise GraphError(f"{name}: the instance must be int32[], got {index!r}")
        dtypes.require_kind(name, kinds, x.dtype)
        if takes and not (x.ndim and same_size(x.shape[0], arg.size)):
            raise ShapeError(
                f"{name}: along the axis {arg.name!r} of size {arg.size} an operand "
                f"has a row for each instance, got {x!r}"
            )
        rest = x.shape[1:] if takes else x.shape
        return (x.with_shape((arg.size, *rest) if gives else rest),)

    def value(
        avals: Sequence[ShapedArray], arg: NamedAxis, x: Any, index: Any, *more: Any
    ) -> Sequence[Any]:
        if not same_size(arg.size, 1):
            raise GraphError(f"{name}: nothing runs the {arg.size} instances of {arg}")
        sent: Any = x if not more or more[0] == 0 else np.zeros_like(x)
        return [sent.reshape(avals[0].shape)]

    def batch(node: Node, src: Nodes, batched: Flags, size: int) -> prim.Batched:
        arg: NamedAxis = node.arg
        x, _, *more = src
        if batched[1]:
            result, has = lower(arg, x, batched[0], tuple(more))
            ranks = lanes.ranks
            if ranks is not None and across is not None and (batched[0] or has):
                x = x if batched[0] else _of_each(x, size, ranks)
                result = across(ranks, x, tuple(more))
            return [result], [has]
        if not batched[0]:
            return record.results(*src, arg=arg), [False]
        x = move_axis(x, 0, 1) if takes else x
        (result,) = record.results(x, *src[1:], arg=arg)
        return [move_axis(result, 1, 0) if gives else result], [True]

    def linear(node: Node, tangents: prim.Results) -> prim.Results:
        t = tangents[0]
        return [None] if t is None else record.results(t, *node.src[1:], arg=node.arg)

    def pull_back(node: Node, cotangents: prim.Results, linear: Flags) -> prim.Results:
        (ct,) = cotangents
        rest = [None] * (len(node.src) - 1)
        if ct is None or transpose is None:
            return [None, *rest]
        # Who receives has been sent to: source and target change places.
        index, *more = node.src[1:]
        return [transpose(node.arg, ct, (index, *more[::-1])), *rest]

    record = prim.Compound(
        name, "collective", infer, value, batch, jvp=jvp or linear,
        transpose=pull_back if transpose else None, dtypes=kinds, doc=doc, show=str,
    )  # fmt: skip
    return record


def _reduce(op: Any, x: Node) -> Node:
    return reshape(op(x, arg=(0,)), x.shape[1:])


def _of_each(x: Node, lanes: int, ranks: Ranks) -> Node:
    """What all instances have alike, as a value of each."""
    return broadcast_leading(vary(x, ranks), (lanes, *x.shape))


def _across_reduce(op: Any, kind: str) -> _Across:
    def across(ranks: Ranks, x: Node, more: Nodes) -> Node:
        half = dtypes.is_half(x.dtype) and kind in ("sum", "scatter")
        wide = p.cast(x, dtypes.float32) if half else x  # rounded once, at the end
        return p.cast(communicate(_reduce(op, wide), kind, ranks), x.dtype)

    return across


def _across_gather(ranks: Ranks, x: Node, more: Nodes) -> Node:
    return communicate(x, "gather", ranks)


def _across_all_to_all(ranks: Ranks, x: Node, more: Nodes) -> Node:
    """(lanes, n, …) -> rows for each process, and its lanes, of these lanes."""
    lanes, rest = x.shape[0], x.shape[2:]
    sent = communicate(move_axis(x, 1, 0), "all_to_all", ranks)
    came = reshape(sent, (ranks.size, lanes, lanes, *rest))  # from, to, of
    return reshape(move_axis(came, 1, 0), (lanes, ranks.size * lanes, *rest))


def _rows(arg: NamedAxis, x: Node, batched: bool) -> Node:
    """That of each instance, along a leading axis."""
    return x if batched else broadcast_leading(x, (arg.size, *x.shape))


def _sum_of_lanes(arg: NamedAxis, x: Node, batched: bool) -> Node:
    return _reduce(reduce_sum_p, x) if batched else p.mul(x, const_like(x, arg.size))


def _lower_extremum(op: Any) -> _Lower:
    return lambda arg, x, batched, more: (_reduce(op, x) if batched else x, False)


def _lower_ppermute(
    arg: NamedAxis, x: Node, batched: bool, more: Nodes
) -> tuple[Node, bool]:
    source = more[0]
    rows = gather(_rows(arg, x, batched), [clamp(source, arg.size)], (0,))
    comes = trailing(p.ge(source, const_like(source, 0)), rows.shape)
    return p.select(comes, rows, zeros_like(rows)), True


def _mean_of_chosen(node: Node, tangents: prim.Results) -> prim.Results:
    """The mean of the tangents of the instances that hold the extremum."""
    x, index = node.src
    t = tangents[0]
    if t is None:
        return [None]
    (best,) = prim.items(node)
    here = p.cast(p.eq(x, best), x.dtype)

    def total(part: Node) -> Node:
        return psum_p.results(part, index, arg=node.arg)[0]

    return [p.div(total(p.scale(t, here)), total(here))]


psum_p = _collective(
    "psum", lambda arg, x, batched, _: (_sum_of_lanes(arg, x, batched), False),
    "the sum over all instances", kinds="iufc",
    transpose=_by(lambda arg: pvary_p if arg.checked else psum_p),
    across=_across_reduce(reduce_sum_p, "sum"),
)  # fmt: skip
pmax_p = _collective(
    "pmax", _lower_extremum(reduce_max_p), "the greatest value of all instances",
    jvp=_mean_of_chosen, kinds="biuf", across=_across_reduce(reduce_max_p, "max"),
)  # fmt: skip
pmin_p = _collective(
    "pmin", _lower_extremum(reduce_min_p), "the least value of all instances",
    jvp=_mean_of_chosen, kinds="biuf", across=_across_reduce(reduce_min_p, "min"),
)  # fmt: skip
all_gather_p = _collective(
    "all_gather", lambda arg, x, batched, _: (_rows(arg, x, batched), False),
    "the values of all instances, along a new axis", gives=True,
    transpose=_by(lambda _: psum_scatter_p), kinds="biufck", across=_across_gather,
)  # fmt: skip
all_gather_invariant_p = _collective(
    "all_gather_invariant",
    lambda arg, x, batched, _: (_rows(arg, x, batched), False),
    "all_gather, as one value that all instances share", gives=True,
    transpose=lambda arg, ct, rest: gather(ct, [clamp(rest[0], arg.size)], (0,)),
    kinds="biufck", across=_across_gather,
)  # fmt: skip
psum_scatter_p = _collective(
    "psum_scatter", lambda arg, x, batched, _: (_sum_of_lanes(arg, x, batched), True),
    "of the sum, each instance its own row", transpose=_by(lambda _: all_gather_p),
    takes=True, kinds="iufc", across=_across_reduce(reduce_sum_p, "scatter"),
)  # fmt: skip
all_to_all_p = _collective(
    "all_to_all",
    lambda arg, x, batched, _: (move_axis(_rows(arg, x, batched), 1, 0), True),
    "a row from each instance", transpose=_by(lambda _: all_to_all_p), takes=True,
    gives=True, kinds="biufck", across=_across_all_to_all,
)  # fmt: skip
ppermute_p = _collective(
    "ppermute", _lower_ppermute, "the value of the instance that sends to this one",
    transpose=_by(lambda _: ppermute_p), kinds="biufck",
    across=lambda ranks, x, more: communicate(x, "permute", ranks, 0, *more),
)  # fmt: skip
pvary_p = _collective(
    "pvary", lambda arg, x, batched, _: (x, batched),
    "a value that all instances share, as one of each", kinds="biufck",
    transpose=_by(lambda _: psum_p), across=None,
)  # fmt: skip
#: Whose results are the same for all instances.
INVARIANT: Final = (psum_p, pmax_p, pmin_p, all_gather_invariant_p)


def communicates(outputs: Sequence[Node], leaves: Collection[Node]) -> bool:
    """Do nodes, or bodies that they hold, act together along an axis of the leaves?"""
    moving = set(leaves)
    for node in dependents(outputs, list(leaves)):
        moving.add(node)
        op = prim.compound_of(node)
        together = op is not None and op.family == "collective" and op is not pvary_p
        if together and node.src[1] in moving:
            return True
        for body in bodies_of(node.arg):
            if communicates(body.outputs, _inputs_of(body, node.src, moving)):
                return True
    return False


def _inputs_of(body: Body, src: Sequence[Node], moving: set[Node]) -> list[Node]:
    """The inputs that stand for moving operands; of a branch the first is none."""
    given = src[len(src) - len(body.inputs) :]
    return [n for n, s in zip(body.inputs, given, strict=True) if s in moving]
