"""Algebraic simplification: constants, reductions, and identities of elements.

A constant is one scalar at every position, so that an elementwise operation on
constants, and most movements of one, are again a constant: the record's own meaning
says which. Of reductions fewer and smaller ones are made.

Identities of arithmetic, comparisons, selects and casts hold for every value, bit for
bit: NaN, infinities and signed zeros included. x·0, x - x and (a + b) - b stay for
floats. Only the sign of a NaN, which IEEE 754 leaves open, may differ; and that of a
zero that `mul_zero` gives, whose zero has none by definition. What a compiler of
scalars folds in the same way, as x/2ⁿ or two constants that are added, is left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod
from typing import Any, Final

import numpy as np

from ftrace import dtypes
from ftrace.errors import DynamicDimensionError
from ftrace.ground.tables import memo
from ftrace.trace.graph import Node, constant_bits, constant_value, make_node
from ftrace.trace.primitives import (
    broadcast as bc,
    elementwise as p,
    movement as mv,
    reduction as red,
    sources,
)
from ftrace.trace.primitives.indexing import scatter_p
from ftrace.trace.primitives.library import scan
from ftrace.trace.primitives.primitive import (
    ELEMENTWISE,
    PRIMITIVES,
    Primitive,
    primitive_of,
)
from ftrace.trace.rewrite import Pat, Rule
from ftrace.trace.symbolic import is_dynamic, same_size

#: Primitives whose result at a position depends on that position alone.
ELEMENTWISE_OPS: Final = tuple(
    p for p in PRIMITIVES.values() if p.family in ELEMENTWISE
)

# What patterns are made of.


def of_any_arity(pattern: Callable[[int], Pat]) -> tuple[Pat, ...]:
    """A pattern for each number of operands that an elementwise primitive has."""
    return tuple(pattern(n) for n in (1, 2, 3))


def arg_of(node: Node) -> Any:
    """What the operation needs besides operands: shape, axes, pads and so on."""
    return node.arg


def has_kind(kinds: str) -> Callable[[Node], bool]:
    """Is the node's dtype of one of these kinds?"""
    return lambda node: dtypes.kind(node.dtype) in kinds


def is_exact(node: Node) -> bool:
    """Bool or integer: the dtypes without NaN, rounding and signed zeros."""
    return dtypes.kind(node.dtype) in "biu"


@memo(4096, typed=True)
def _bits(value: complex, dtype: np.dtype[Any]) -> bytes:
    return constant_bits(value, dtype)


def is_bits(node: Node, value: complex) -> bool:
    """Is it the constant `value`, bit for bit? Not for -0.0, a key like 0.0."""
    return node.op is sources.const_p and node.arg == _bits(value, node.dtype)


def constant(value: int) -> Pat:
    """The constant of that value, bit for bit."""
    return Pat(sources.const_p, where=lambda node: is_bits(node, value))


X: Final = Pat(name="x")
Y: Final = Pat(name="y")
#: The constant 0 or False; not -0.0.
ZERO: Final = constant(0)


def to_x(name: str, pattern: Pat | tuple[Pat, ...]) -> Rule:
    """A rule by which what matches is its part x."""
    return Rule(name, pattern, lambda x: x)


def to_zero(name: str, pattern: Pat) -> Rule:
    """A rule by which what matches is zeros like its part x."""
    return Rule(name, pattern, lambda x: sources.zeros_like(x))


def to_binary(name: str, op: Primitive, pattern: Pat) -> Rule:
    """A rule by which what matches is an operation on its parts x and y."""
    return Rule(name, pattern, lambda x, y: op(x, y))


def move_constant(node: Node, shape: tuple[int, ...]) -> Node:
    """The same constant in another shape."""
    return make_node(sources.const_p, node.aval.with_shape(shape), (), node.arg)


def evaluate_scalar(node: Node) -> Any:
    """The value of an elementwise node over constants.

    Raises:
      DynamicDimensionError: one is a dynamic dimension.
    """
    if any(s.op is sources.dim_p for s in node.src):
        raise DynamicDimensionError(f"{node!r} has no value while it is compiled")
    operands = [np.frombuffer(s.arg, s.dtype) for s in node.src]
    aval = node.aval.with_shape((1,))
    with np.errstate(all="ignore"):
        value = primitive_of(node).numpy(aval, node.arg, *operands)
    return np.asarray(value)[0]


def last_position(positions: Node) -> int | None:
    """The greatest value of an iota; None where it is unknown, or not held exactly."""
    axis: int = arg_of(positions)
    size = positions.shape[axis]
    if is_dynamic(size) or not dtypes.is_integer(positions.dtype):
        return None
    return size - 1 if size - 1 <= dtypes.limits(positions.dtype)[1] else None


# Products of complex numbers, which no loop of a kernel accumulates.


def multiply_complex(node: Node, read: Collection[int] = ()) -> Node | None:
    """x[0]·x[half], x[1]·x[half + 1], …: the halves of each axis are multiplied.

    Along an axis of unknown size the last one of the running products is taken. None
    for other numbers.
    """
    (x,) = node.src
    if not dtypes.is_complex(x.dtype) or any(same_size(n, 0) for n in x.shape):
        return None
    axes: tuple[int, ...] = node.arg
    for axis in axes:
        size, rest = x.shape[axis], list[Node]()
        while not is_dynamic(size) and size > 1:
            half = size // 2
            if size % 2:
                rest.append(mv.shrink_axis(x, axis, size - 1, size))
            low, high = (mv.shrink_axis(x, axis, n, n + half) for n in (0, half))
            x, size = p.mul(low, high), half
        if is_dynamic(size):
            x = _last_product(x, axis, size)
        for last in rest:
            x = p.mul(x, last)
    return mv.reshape(x, node.shape)


def _last_product(x: Node, axis: int, size: Any) -> Node:
    pads = [(0, 0, 0)] * x.ndim
    pads[axis] = (1, 0, 0)
    x = mv.pad(x, tuple(pads))
    place = sources.iota(dtypes.int32, x.shape, axis)
    first = p.eq(place, sources.const_like(place, 0))
    x = p.select(first, sources.const_like(x, 1), x)
    (x,) = scan.cumulate_p.results(x, arg=scan.Running("prod", axis))
    return mv.shrink_axis(x, axis, size, size + 1)


# Reductions of constants.


def _reduce_constant(x: Node, c: Node) -> Node | None:
    one, count = move_constant(c, x.shape), c.size // x.size
    if x.op is bc.reduce_sum_p:
        return None if is_dynamic(count) else times_count(one, count)
    return one if x.op is not red.reduce_prod_p or is_bits(c, 1) else None


CONSTANTS: Final = (
    # any value without elements -> constant
    to_zero(
        "fold_empty",
        Pat(
            name="x",
            aval=lambda n: same_size(n.aval.size, 0),
            where=lambda n: n.op is not sources.const_p,
        ),
    ),
    # reduce(value without elements) -> the reduction's identity
    Rule(
        "fold_reduce_of_nothing",
        Pat(red.REDUCTIONS, Pat(where=lambda n: same_size(n.aval.size, 0)), name="x"),
        lambda x: red.identity_like(x.op, x) if x.size else None,
    ),
    # scatter(x, no updates) -> x
    Rule(
        "fold_scatter_of_nothing",
        Pat(scatter_p, name="x", where=lambda n: same_size(n.src[1].size, 0)),
        lambda x: x.src[0],
    ),
    # op(constants) -> constant
    Rule(
        "fold_constants",
        of_any_arity(
            lambda n: Pat(ELEMENTWISE_OPS, *[Pat(sources.const_p)] * n, name="x")
        ),
        lambda x: sources.const_like(x, evaluate_scalar(x)),
    ),
    # movement(c) -> c
    Rule(
        "fold_movement_of_constant",
        Pat(bc.SELECTIONS, Pat(sources.const_p, name="c"), name="x"),
        lambda x, c: move_constant(c, x.shape),
    ),
    # pad(0) -> 0; shear(0) -> 0
    to_zero(
        "fold_padding_of_zero",
        Pat(mv.PADDING, ZERO, name="x"),
    ),
    # sum(c) -> n·c; max(c), min(c), prod(1) -> c
    Rule(
        "fold_reduce_of_constant",
        Pat(
            red.REDUCTIONS,
            Pat(sources.const_p, name="c", where=lambda n: n.size > 0),
            name="x",
        ),
        _reduce_constant,
    ),
    # stop_gradient(x) -> x
    to_x("remove_stop_gradient", Pat(p.stop_gradient, X)),
)


def _drop_unit_axes(x: Node) -> Node | None:
    source = x.src[0]
    axes = tuple(a for a in arg_of(x) if not same_size(source.shape[a], 1))
    return None if axes and axes == x.arg else red.reduce(x.op, source, axes)


def _repeats(node: Node) -> set[int]:
    """The axes along which a value is one element many times, as far as that shows."""
    if node.op is bc.expand_p:
        pairs = zip(node.src[0].shape, node.shape, strict=True)
        return {a for a, (n, m) in enumerate(pairs) if not same_size(n, m)} | _repeats(
            node.src[0]
        )
    if node.op is mv.permute_p:
        below = _repeats(node.src[0])
        return {i for i, a in enumerate(arg_of(node)) if a in below}
    return set()


def _is_sum_of_results(inner: Node, axes: set[int]) -> bool:
    """Are sums over these axes sums of the elements of a product of matrices?

    One loop over all products would load each factor again and again.
    """
    product = p.product_of_contraction(inner)
    return product is not None and any(
        not axes.isdisjoint(_repeats(factor)) for factor in product.src
    )


def _merge_reduces(x: Node, inner: Node) -> Node | None:
    if x.op is not inner.op or _is_sum_of_results(inner, set(arg_of(x))):
        return None
    axes = tuple(sorted({*arg_of(x), *arg_of(inner)}))
    return red.reduce(x.op, inner.src[0], axes)


def _repeated_axes(x: Node, view: Node) -> tuple[int, ...]:
    """The reduced axes along which the operand only repeats its elements."""
    sizes = view.src[0].shape
    return tuple(a for a in arg_of(x) if same_size(sizes[a], 1) and view.shape[a] > 1)


def _without_repeats(x: Node, view: Node, repeated: tuple[int, ...]) -> Node:
    shape = tuple(1 if a in repeated else n for a, n in enumerate(view.shape))
    axes = tuple(a for a in arg_of(x) if a not in repeated)
    return red.reduce(x.op, bc.expand(view.src[0], shape), axes)


def _merge_reduces_through_reshape(x: Node, view: Node, inner: Node) -> Node | None:
    """Where the reshape only moves axes of size 1, the other axes correspond."""
    ahead = [a for a, n in enumerate(view.shape) if not same_size(n, 1)]
    behind = [a for a, n in enumerate(inner.shape) if not same_size(n, 1)]
    sizes = [view.shape[a] for a in ahead], [inner.shape[a] for a in behind]
    if x.op is not inner.op or not same_size(sizes[0], sizes[1]):
        return None
    same = dict(zip(ahead, behind, strict=True))
    outer = {same[a] for a in arg_of(x) if a in same}
    if _is_sum_of_results(inner, outer):
        return None
    axes = outer.union(arg_of(inner))
    return mv.reshape(x.op(inner.src[0], arg=tuple(sorted(axes))), x.shape)


def _sum_of_expand(x: Node, view: Node) -> Node | None:
    repeated = _repeated_axes(x, view)
    if not repeated:
        return None
    count = prod(view.shape[a] for a in repeated)
    return times_count(_without_repeats(x, view, repeated), count)


def times_count(x: Node, count: int) -> Node:
    """`count` times x, as the sum of so many would give it."""
    if dtypes.is_complex(x.dtype):
        # Part by part: ∞·(n + 0i) would be NaN.
        return p.make_complex(
            times_count(p.real(x), count), times_count(p.imag(x), count)
        )
    if dtypes.is_float(x.dtype) and x.dtype.itemsize == 2:
        # The count may not fit 16 bits; sums of such floats are wide as well.
        wide = p.cast(x, dtypes.float32)
        return p.cast(
            p.mul(wide, sources.const_like(wide, count)), x.dtype, x.aval.weak_type
        )
    factor = np.array(count).astype(x.dtype)
    return p.mul(x, sources.const_like(x, factor))


REDUCES: Final = (
    # reduce[axes](x) -> reduce[axes without those of size 1](x)
    Rule(
        "drop_reduced_axes_of_size_1",
        Pat(red.REDUCTIONS, Pat(), name="x"),
        _drop_unit_axes,
    ),
    # reduce[a](reduce[b](x)) -> reduce[a + b](x), of one kind, no product's
    Rule(
        "merge_reduces",
        Pat(red.REDUCTIONS, Pat(red.REDUCTIONS, name="inner"), name="x"),
        _merge_reduces,
        single_use="inner",
    ),
    # reduce[a](reshape(reduce[b](x))) -> reshape(reduce[a + b](x)), ones moved
    Rule(
        "merge_reduces_through_reshape",
        Pat(
            red.REDUCTIONS,
            Pat(mv.reshape_p, Pat(red.REDUCTIONS, name="inner"), name="view"),
            name="x",
        ),
        _merge_reduces_through_reshape,
        single_use="inner view",
    ),
    # sum[a](expand[a: n](x)) -> x·n
    Rule(
        "fold_sum_of_expand",
        Pat(bc.reduce_sum_p, Pat(bc.expand_p, name="view"), name="x"),
        _sum_of_expand,
    ),
)


# Identities.

C: Final = Pat(sources.const_p, name="c")


def _is_finite_nonzero(c: Node) -> bool:
    value = constant_value(c)
    return bool(np.isfinite(value) and value != 0)


_MASK: Final = Pat(name="mask", aval=has_kind("b"))
_ANY_ZERO: Final = Pat(sources.const_p, where=lambda c: bool(constant_value(c) == 0))
_FINITE: Final = Pat(sources.const_p, name="y", where=_is_finite_nonzero)


def _clamp_iota(y: Node, c: Node, positions: Node) -> Node | None:
    """max, min with a bound that no position reaches, or all do."""
    last, bound = last_position(positions), constant_value(c)
    if last is None:
        return None
    low = y.op is p.maximum
    if bound <= 0:
        return positions if low else c
    if bound >= last:
        return c if low else positions
    return None


def _small_power(x: Node, c: Node) -> Node | None:
    if is_bits(c, 0):
        return sources.const_like(x, 1)
    return x if is_bits(c, 1) else p.mul(x, x) if is_bits(c, 2) else None


ALGEBRA: Final = (
    # x + 0 -> x, for integers
    to_x("fold_add_zero", Pat(p.add, X, ZERO, commutes=True, aval=is_exact)),
    # x·1 -> x
    to_x(
        "fold_mul_one", Pat(p.mul, X, constant(1), commutes=True, aval=has_kind("biuf"))
    ),
    # x⁰ -> 1, x¹ -> x, x² -> x·x
    Rule("fold_small_power", Pat(p.power, X, C, aval=has_kind("f")), _small_power),
    # mul_zero(x, 0) -> 0
    to_zero("fold_mul_zero_by_zero", Pat(p.mul_zero, X, _ANY_ZERO, commutes=True)),
    # mul_zero(x, c) -> x·c, for c finite and not 0
    to_binary(
        "fold_mul_zero_by_constant", p.mul, Pat(p.mul_zero, X, _FINITE, commutes=True)
    ),
    # mul_zero(x, mask as a number) -> select(mask, x, 0)
    Rule(
        "fold_mul_zero_by_mask",
        Pat(p.mul_zero, X, Pat(p.cast_p, _MASK), commutes=True),
        lambda x, mask: p.select(mask, x, sources.zeros_like(x)),
    ),
    # max(iota, 0), min(iota, n) -> iota
    Rule(
        "fold_clamp_of_iota",
        Pat(
            (p.maximum, p.minimum),
            Pat(sources.iota_p, name="positions"),
            C,
            commutes=True,
            name="y",
        ),
        _clamp_iota,
    ),
)


M: Final = Pat(name="m")


def _compare_of_iota(x: Node, c: Node, node: Node) -> Node | None:
    """Where the first and the last position compare alike, all between do."""
    last, bound = last_position(x), constant_value(c)
    if last is None or (node.op in (p.eq, p.ne) and 0 <= bound <= last):
        return None
    ends = [sources.const(end, x.dtype) for end in (0, last)]
    first, end = (
        bool(evaluate_scalar(node.op(e, sources.const_like(e, bound)))) for e in ends
    )
    return sources.const(first, dtypes.bool_, x.shape) if first == end else None


LOGIC: Final = (
    # select(true, x, y) -> x; select(false, x, y) -> y
    Rule(
        "fold_select_of_constant",
        Pat(p.select, C, X, Y),
        lambda c, x, y: x if constant_value(c) else y,
    ),
    # select(m, x, x) -> x
    to_x("fold_select_of_equals", Pat(p.select, Pat(), X, X)),
    # iota < n -> true, iota >= 0 -> true, …
    Rule(
        "fold_compare_of_iota",
        Pat(p.COMPARES, Pat(sources.iota_p, name="x"), C, name="node"),
        _compare_of_iota,
    ),
    # cast[t](x of t) -> x
    Rule(
        "fold_cast_to_itself",
        Pat(p.cast_p, X, name="node"),
        lambda x, node: x if x.dtype == node.dtype else None,
    ),
)
