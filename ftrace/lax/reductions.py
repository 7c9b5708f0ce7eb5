"""Reductions under JAX's `lax` names: reduce, argmax, cumsum, reduce_window.

`reduce(x, 0.0, lambda a, b: a + b, (0,))` gives the function, not its name: it is
traced on two scalars, and one operation on both of them is a reduction we have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes, errors
from ftrace.ground import settings
from ftrace.ground.tables import memo
from ftrace.lax.elementwise import check_dtypes
from ftrace.numpy import axes as ax
from ftrace.numpy.cumulative import combine_axis, scan_fused
from ftrace.numpy.reductions import reduce_by
from ftrace.trace.avals import ShapedArray
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.function_objects import Eager, member
from ftrace.trace.graph import Op
from ftrace.trace.primitives import broadcast as bc, elementwise as p, reduction as red
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import Function, Value, aval_of

__all__ = [
    "argmax", "argmin", "associative_scan", "cumlogsumexp", "cummax", "cummin",
    "cumprod", "cumsum", "padtype_to_pads", "reduce", "reduce_and", "reduce_max",
    "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reduce_window",
    "reduce_window_shape_tuple", "reduce_xor",
]  # fmt: skip

# Which reduction a function of two values stands for.

#: Reductions by what combines two elements.
_BY_OPERATION: dict[Op, Any] = {c: r for r, c in red.COMBINES.items()}
_OF_BOOLS: dict[Op, Primitive] = {
    p.bit_and: red.reduce_min_p, p.bit_or: red.reduce_max_p,
}  # fmt: skip


def recognise(computation: Function, dtype: np.dtype[Any]) -> Primitive | None:
    """The reduction of this dtype that repeats the function; None if it is another."""
    if isinstance(computation, Eager):  # a public one, which is always the same
        return _recognised(computation, dtype)
    return _trace(computation, dtype)


def _trace(computation: Function, dtype: np.dtype[Any]) -> Primitive | None:
    scalar = ShapedArray.of((), dtype)

    def combine(a: Any, b: Any) -> list[Any]:
        return [computation(a, b)]

    try:
        graph = trace("reduce", combine, [scalar, scalar])
    except (errors.FtraceError, TypeError, ValueError):
        return None  # it takes something else than two scalars
    (result,) = graph.outputs
    if set(result.src) != set(graph.inputs) or len(graph.inputs) != 2:
        return None
    if dtype == dtypes.bool_ and result.op in _OF_BOOLS:
        return _OF_BOOLS[result.op]
    return _BY_OPERATION.get(result.op)


_recognised = memo(256)(_trace)


# Of one kind.


def _reduction(name: str, monoid: Primitive):
    def reduction(operand: Value, axes: Sequence[int]) -> Any:
        """Combines elements.

        Args:
          operand: an array of numbers.
          axes: the axes, none twice; they vanish.

        Returns:
          Of the dtype of the operand.

        Raises:
          AxisError: there is no such axis, or it is named twice.
        """
        return _reduce(name, monoid, operand, axes)

    return reduction


def _reduce(name: str, monoid: Primitive, operand: Value, axes: Sequence[int]) -> Any:
    x = ax.as_value(operand)
    places = ax.canonical_axes(
        ax.several(axes, f"lax.{name}: axes"), x.ndim, f"lax.{name}"
    )
    return reduce_by(monoid, x, places, False)


def reduce_sum(operand: Value, axes: Sequence[int]) -> Any:
    """The sum along these axes, in the dtype of the operand.

    Unlike `fnp.sum` it promotes no bools or small integers: these wrap around.

    Args:
      operand: the array.
      axes: the axes, none twice; they vanish.

    Raises:
      AxisError: there is no such axis, or it is named twice.
      DtypeError: of several numbers of two bytes, with `allow_f16_reductions` off.

    Example:
      >>> lax.reduce_sum(fnp.array([[1, 2, 3], [4, 5, 6]]), (1,))
      Array([ 6, 15], dtype=int32)
      >>> lax.reduce_sum(fnp.array([200, 100], np.uint8), (0,))
      Array(44, dtype=uint8)
    """
    aval = aval_of(operand)
    if aval.dtype in _FEW_BITS and _is_forbidden(aval, axes):
        raise errors.DtypeError(
            f"lax.reduce_sum: a sum of {aval!r} is not allowed within "
            "jax_allow_f16_reductions=False; convert it with .astype"
        )
    return _reduce("reduce_sum", bc.reduce_sum_p, operand, axes)


_FEW_BITS = (np.dtype(np.float16), dtypes.bfloat16)


def _is_forbidden(aval: ShapedArray, axes: Sequence[int]) -> bool:
    """Does it have several numbers of few bits, which a setting says not to add up?"""
    allowed = settings.config.read("allow_f16_reductions")
    return not allowed and any(aval.shape[axis] != 1 for axis in axes)


@member(_reduction, red.reduce_prod_p)
def reduce_prod():
    """The product along these axes; 1 of nothing.

    Example:
      >>> lax.reduce_prod(fnp.array([[1, 2], [3, 4]]), (0,))
      Array([3, 8], dtype=int32)
    """


@member(_reduction, red.reduce_max_p)
def reduce_max():
    """The greatest along these axes; NaN wins. Of nothing -inf, or the least integer.

    Example:
      >>> lax.reduce_max(fnp.array([[1, 7], [5, 2]]), (0, 1))
      Array(7, dtype=int32)
    """


@member(_reduction, red.reduce_min_p)
def reduce_min():
    """The least along these axes; NaN wins. Of nothing inf, or the greatest integer.

    Example:
      >>> lax.reduce_min(fnp.array([[1.0, np.nan], [5.0, 2.0]]), (1,))
      Array([nan,  2.], dtype=float32)
    """


def _bit_reduction(name: str, op: Primitive, start: int, of_bools: Primitive | None):
    def bit_reduction(operand: Value, axes: Sequence[int]) -> Any:
        """Combines elements.

        Args:
          operand: an array of bools or integers.
          axes: the axes, none twice; they vanish.

        Returns:
          Of the dtype of the operand.

        Raises:
          AxisError: there is no such axis, or it is named twice.
          DtypeError: the elements are neither bools nor integers.
        """
        x = ax.as_value(operand)
        if dtypes.is_inexact(x.dtype):
            got = x.dtype.name
            raise errors.DtypeError(f"lax.{name} requires bools or integers, got {got}")
        if x.dtype == dtypes.bool_ and of_bools is not None:
            return _reduce(name, of_bools, x, axes)
        first = ax.cast(np.asarray(start), x.dtype)
        return reduce(x, first, lambda a, b: elementwise(op, a, b), axes)

    return bit_reduction


@member(_bit_reduction, p.bit_and, -1, red.reduce_min_p)
def reduce_and():
    """All of bools, or the bits that all integers have, along these axes.

    Example:
      >>> lax.reduce_and(fnp.array([[True, True], [True, False]]), (1,))
      Array([ True, False], dtype=bool)
    """


@member(_bit_reduction, p.bit_or, 0, red.reduce_max_p)
def reduce_or():
    """Any of bools, or the bits that some integer has, along these axes.

    Example:
      >>> lax.reduce_or(fnp.array([0b0101, 0b0011]), (0,))
      Array(7, dtype=int32)
    """


@member(_bit_reduction, p.bit_xor, 0, None)
def reduce_xor():
    """The bits that an odd number of integers has, along these axes.

    Example:
      >>> lax.reduce_xor(fnp.array([0b0101, 0b0011]), (0,))
      Array(6, dtype=int32)
    """


# Of any function.


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Combines the elements along axes by an associative function of two values.

    Sums, products, maxima and minima are recognised; any other function is applied to
    halves, so that it must be elementwise.

    Args:
      operands: an array, or a tree of arrays of one shape.
      init_values: for each of them what changes nothing: a scalar of its dtype. Of
        sums and the like a number of any dtype, -inf for maxima of integers.
      computation: of two values, or of two trees of them, as `operands` is one.
      dimensions: the axes.
      out_sharding: accepted, without effect.

    Returns:
      An array, or a tree like `operands`, without these axes.

    Raises:
      TreeError, ShapeError, DtypeError: `computation` does not return what it is given,
        or operands and initial values do not fit.

    Example:
      >>> lax.reduce(fnp.array([[1, 2], [3, 4]]), 0, lax.add, (1,))
      Array([3, 7], dtype=int32)
      >>> def largest(a, b):  # a pair (value, position)
      ...     better = (b[0] > a[0])
      ...     return tuple(lax.select(better, y, x) for x, y in zip(a, b))
      >>> values = fnp.array([3.0, 8.0, 5.0])
      >>> lax.reduce((values, fnp.arange(3)), (-np.inf, 0), largest, (0,))
      (Array(8., dtype=float32), Array(1, dtype=int32))
    """
    tree.check_callable(computation, "lax.reduce")
    leaves, treedef = tree.flatten(operands)
    starts, structure = tree.flatten(init_values)
    if structure != treedef or not leaves or any(aval_of(x).ndim for x in starts):
        raise errors.ValueRangeError(
            f"lax.reduce: init_values must be scalars in a tree like that of the "
            f"operands, {tree.readable(treedef)}, got {init_values!r:.99}"
        )
    values = [ax.as_value(x) for x in leaves]
    given = ax.several(dimensions, "lax.reduce: dimensions")
    axes = ax.canonical_axes(given, values[0].ndim, "lax.reduce")
    if len(values) == 1 and treedef == tree.structure(0):
        monoid = recognise(computation, values[0].dtype)
        if monoid is not None:
            result = reduce_by(monoid, values[0], axes, False)
            if is_identity(monoid, starts[0], result.dtype):
                return result
            check_dtypes("reduce", values[0], starts[0])
            return elementwise(red.COMBINES[monoid], starts[0], result)
    for value, start in zip(values, starts, strict=True):
        check_dtypes("reduce", value, start)

    def combine(x: Sequence[Any], y: Sequence[Any]) -> list[Any]:
        pair = tree.unflatten(treedef, x), tree.unflatten(treedef, y)
        found = tree.leaves(computation(*pair))
        shapes = [ax.shape_of(v) for v in found]
        if shapes != [ax.shape_of(v) for v in y]:
            raise errors.ShapeError(
                "lax.reduce: the computation must return as many values of the same "
                f"shape as it is given in one argument, {y!r:.99}; got {shapes}"
            )
        return found

    totals = _fold([_leading(v, axes) for v in values], combine)
    if totals is None:
        kept = [n for a, n in enumerate(values[0].shape) if a not in axes]
        pairs = zip(values, starts, strict=True)
        nothing = [elementwise(p.add, np.zeros(kept, v.dtype), s) for v, s in pairs]
        return tree.unflatten(treedef, nothing)
    pairs = zip(starts, totals, strict=True)
    first = [ax.broadcast_to(ax.as_value(s), t.shape) for s, t in pairs]
    return tree.unflatten(treedef, combine(first, totals))


def is_identity(monoid: Primitive, start: Value, dtype: np.dtype[Any]) -> bool:
    """Is it a known number that the reduction begins with anyway?"""
    if not isinstance(start, (bool, int, float, np.generic)):
        return False
    # That of its own dtype too: -inf for a maximum of integers.
    both = (dtype, aval_of(start).dtype)
    return any(bool(start == red.identity(monoid, d)) for d in both)


def _leading(x: Any, axes: tuple[int, ...]) -> Any:
    """`x` with the axes merged into one, in front."""
    rest = [(a,) for a in range(x.ndim) if a not in axes]
    return ax.merge_axes(x, axes, *rest)


def _fold(
    values: list[Any], combine: Callable[[list[Any], list[Any]], list[Any]]
) -> list[Any] | None:
    """Combines the leading axis by halves; None where it is empty."""
    if values[0].shape[0] == 0:
        return None
    left_over: list[list[Any]] = []
    while (size := values[0].shape[0]) > 1:
        half = size // 2
        if size % 2:
            left_over.append([ax.shrink_axis(v, 0, size - 1, size) for v in values])
        values = combine(
            [ax.shrink_axis(v, 0, 0, half) for v in values],
            [ax.shrink_axis(v, 0, half, 2 * half) for v in values],
        )
    for rest in reversed(left_over):
        values = combine(values, rest)
    return [ax.drop_axes(v, (0,)) for v in values]


# Positions.


def _position(name: str, function: Callable[..., Any]):
    def position(operand: Value, axis: int, index_dtype: Any) -> Any:
        """Where an element is.

        Args:
          operand: an array of real numbers.
          axis: the axis; it vanishes.
          index_dtype: an integer dtype, that of the result.

        Raises:
          ValueRangeError: the axis has no elements.
          AxisError: there is no such axis.
          DtypeError: `index_dtype` is no integer.
        """
        x, place = ax.along(operand, axis, f"lax.{name}")
        dtype = dtypes.as_dtype(index_dtype)
        if not dtypes.is_integer(dtype):
            raise errors.DtypeError(f"lax.{name}: index_dtype is no integer: {dtype}")
        return ax.cast(function(x, place), dtype)

    return position


@member(_position, fnp.argmax)
def argmax():
    """The index of the first greatest element along `axis`; the first NaN if any.

    Example:
      >>> lax.argmax(fnp.array([[1, 9, 9], [5, 4, 3]]), 1, np.int32)
      Array([1, 0], dtype=int32)
    """


@member(_position, fnp.argmin)
def argmin():
    """The index of the first least element along `axis`; the first NaN if any.

    Example:
      >>> lax.argmin(fnp.array([4.0, np.nan, 1.0]), 0, np.int32)
      Array(1, dtype=int32)
    """


# Running reductions.


def _cumulative(name: str):
    def cumulative(operand: Value, axis: int = 0, reverse: bool = False) -> Any:
        """Combines each element with all before it.

        Args:
          operand: an array of numbers; for extrema NaN stays from where it is met.
          axis: the axis.
          reverse: begin at its end.

        Returns:
          Of the shape and dtype of the operand.

        Raises:
          AxisError: there is no such axis.
        """
        x, place = ax.along(operand, axis, f"lax.{name}")
        return scan_fused(x, name.removeprefix("cum"), place, bool(reverse))

    return cumulative


@member(_cumulative)
def cumsum():
    """The running sum along `axis`: y[i] = x[0] + … + x[i].

    Example:
      >>> lax.cumsum(fnp.array([1, 2, 3, 4]))
      Array([ 1,  3,  6, 10], dtype=int32)
      >>> lax.cumsum(fnp.array([1, 2, 3, 4]), reverse=True)
      Array([10,  9,  7,  4], dtype=int32)
    """


@member(_cumulative)
def cumprod():
    """The running product along `axis`: y[i] = x[0]·…·x[i].

    Example:
      >>> lax.cumprod(fnp.array([[1, 2, 3], [4, 5, 6]]), axis=1)
      Array([[  1,   2,   6],
             [  4,  20, 120]], dtype=int32)
    """


@member(_cumulative)
def cummax():
    """The running maximum along `axis`: y[i] = max(x[0], …, x[i]).

    Example:
      >>> lax.cummax(fnp.array([3, 1, 4, 1, 5]))
      Array([3, 3, 4, 4, 5], dtype=int32)
    """


@member(_cumulative)
def cummin():
    """The running minimum along `axis`: y[i] = min(x[0], …, x[i]).

    Example:
      >>> lax.cummin(fnp.array([3, 1, 4, 1, 5]), reverse=True)
      Array([1, 1, 1, 1, 5], dtype=int32)
    """


@member(_cumulative)
def cumlogsumexp():
    """y[i] = log(exp(x[0]) + … + exp(x[i])) along `axis`, without overflow.

    Example:
      >>> lax.cumlogsumexp(fnp.array([1000.0, 1000.0]))
      Array([1000.    , 1000.6932], dtype=float32)
    """


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Each element combined with all before it, by pairs: O(n) calls' worth of work.

    Args:
      fn: an associative function fn(a, b) of two trees like `elems`, whose leaves are
        slices of any length along the axis; it acts on them element by element.
      elems: an array, or a tree of arrays that have one size along the axis.
      reverse: combine each element with all behind it: of [x, y, z] the first result
        is fn(fn(z, y), x).
      axis: along which to combine.

    Returns:
      A tree like `elems`.

    Raises:
      ArgumentError: `fn` is no function.
      ShapeError: the sizes along the axis differ.
      TreeError: `fn` returns a tree of another structure.

    Example:
      >>> lax.associative_scan(fnp.maximum, fnp.array([1, 3, 2, 5]))
      Array([1, 3, 3, 5], dtype=int32)
      >>> def compose(f, g):  # x -> a·x + b, each a pair (a, b)
      ...     return f[0] * g[0], f[1] * g[0] + g[1]
      >>> lax.associative_scan(compose, (fnp.full(3, 2.0), fnp.ones(3)))
      (Array([2., 4., 8.], dtype=float32), Array([1., 3., 7.], dtype=float32))
    """
    tree.check_callable(fn, "lax.associative_scan")
    leaves, treedef = tree.flatten(elems)
    values = [ax.as_value(x) for x in leaves]
    if not values:
        return elems
    axes = [ax.canonical_axis(axis, x.ndim, "lax.associative_scan") for x in values]
    sizes = {x.shape[a] for x, a in zip(values, axes, strict=True)}
    if len(sizes) != 1 or len(set(axes)) != 1:
        raise errors.ShapeError(
            f"lax.associative_scan: all arrays must have one size along axis {axis}, "
            f"counted alike; got shapes {[x.shape for x in values]}"
        )
    place = axes[0]

    def combine(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        result = fn(tree.unflatten(treedef, left), tree.unflatten(treedef, right))
        found, structure = tree.flatten(result)
        if len(found) != len(values):  # what holds the leaves may be of another class
            raise errors.TreeError(
                f"lax.associative_scan: fn must return as many leaves as it takes, "
                f"{tree.readable(treedef)}; got {tree.readable(structure)}"
            )
        return [ax.as_value(x) for x in found]

    if reverse:
        values = [ax.flip(x, (place,)) for x in values]
    results = combine_axis(combine, values, place)
    if reverse:
        results = [ax.flip(x, (place,)) for x in results]
    return tree.unflatten(treedef, results)


# Reductions over sliding windows under JAX's `lax` names: pooling.


Padding = str | Sequence[Sequence[int]]
WITHOUT_PAIRS = "padding, if it is no list of pairs,"


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """What "SAME", "SAME_LOWER" or "VALID" adds before and after each axis.

    "SAME" gives ⌈size / stride⌉ places, with what is left over at the end,
    "SAME_LOWER" at the beginning.

    Args:
      in_shape, window_shape, window_strides: a number per axis.
      padding: which of the three.

    Returns:
      A list of (before, after).

    Raises:
      ValueRangeError: it is none of them.

    Example:
      >>> lax.padtype_to_pads((8,), (3,), (1,), "SAME")
      [(1, 1)]
    """
    kind = padding.upper() if hasattr(padding, "upper") else padding
    errors.one_of(WITHOUT_PAIRS, kind, ("SAME", "SAME_LOWER", "VALID"))
    pads: list[tuple[int, int]] = []
    for n, window, step in zip(in_shape, window_shape, window_strides, strict=True):
        overlap = int((-(-n // step) - 1) * step + window - n)
        total = 0 if kind == "VALID" else max(overlap, 0)
        low = total - total // 2 if kind == "SAME_LOWER" else total // 2
        pads.append((low, total - low))
    return pads


def check_padding(name: str, padding: Any, count: int) -> list[tuple[int, int]]:
    """Pairs (before, after), one per axis.

    Raises:
      ValueRangeError: they are not that.
    """
    try:
        pads = [
            (ax.static_int(lo, name), ax.static_int(hi, name)) for lo, hi in padding
        ]
    except (TypeError, ValueError, errors.ArgumentError):
        pads = []
    if len(pads) != count:
        raise errors.ValueRangeError(
            f"{name}: padding must be a string or {count} pairs (before, after), got "
            f"{padding!r}"
        )
    return pads


def check_counts(
    name: str, what: str, counts: Sequence[int] | None, ndim: int
) -> tuple[int, ...]:
    """One positive number per axis; None stands for ones.

    Raises:
      ShapeError: there are more or fewer, or one is too small.
    """
    if counts is None:
        return (1,) * ndim
    found = ax.check_shape(counts, name)
    if len(found) != ndim or any(n < 1 for n in found):
        raise errors.ShapeError(
            f"{name}: {what} must hold {ndim} numbers of at least 1, got {found}"
        )
    return found


def windows_of(
    name: str,
    shape: Sequence[int],
    sizes: Sequence[int],
    padding: Padding,
    **counts: Sequence[int] | None,
) -> tuple[ax.Window, ...]:
    """Windows of these sizes that slide along axes of a shape.

    Args:
      counts: strides, spread of the elements and of those of the window, by the names
        that these arguments have.

    Raises:
      ShapeError: there is not one number per axis.
      ValueRangeError: the padding is malformed.
    """
    strides, spread, dilation = (
        check_counts(name, what, n, len(shape)) for what, n in counts.items()
    )
    if isinstance(padding, str):
        reaches = [(n - 1) * d + 1 for n, d in zip(sizes, dilation, strict=True)]
        pads = padtype_to_pads(shape, reaches, strides, padding)
    else:
        pads = check_padding(name, padding, len(shape))
    rows = zip(sizes, strides, dilation, pads, spread, strict=True)
    return tuple(ax.Window(n, s, d, lo, hi, gap - 1) for n, s, d, (lo, hi), gap in rows)


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Sums, products, maxima, minima or other reductions of windows.

    Args:
      operand: the array, or a tree of arrays of one shape.
      init_value: what padding holds and every window begins with: a scalar for each.
        What changes nothing, as 0 in a sum, may be of another dtype.
      computation: a function of two values, or trees of them; `lax.add`, `lax.mul`,
        `lax.max`, `lax.min`, what does one of these, or any that `reduce` takes.
      window_dimensions: the size of the window along each axis.
      window_strides: how far each place moves it.
      padding: "SAME", "SAME_LOWER", "VALID", or (before, after) per axis.
      base_dilation: how far the elements of the operand are spread.
      window_dilation: how far the elements of the window are apart.

    Returns:
      An array, or a tree like the operand: along each axis one element per place of the
      window.

    Raises:
      ShapeError: there is not one number per axis.

    Example:
      >>> x = fnp.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
      >>> lax.reduce_window(x, 0, lax.add, (2, 2))
      Array([[12, 16],
             [24, 28]], dtype=int32)
      >>> lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "SAME")
      Array([[5, 6],
             [8, 9]], dtype=int32)
    """
    name = "lax.reduce_window"
    leaves, treedef = tree.flatten(operand)
    starts = tree.leaves(init_value)
    for start in starts:
        ax.scalar_type(start, f"{name}: init_value")
    values = [ax.as_value(x) for x in leaves]
    x = values[0]
    dtype = x.dtype
    sizes = check_counts(name, "window_dimensions", window_dimensions, x.ndim)
    windows = windows_of(
        name, x.shape, sizes, padding, window_strides=window_strides,
        base_dilation=base_dilation, window_dilation=window_dilation,
    )  # fmt: skip
    single = treedef == tree.structure(0)
    monoid = recognise(computation, dtype) if single else None
    if monoid is None:
        pairs = zip(values, starts, strict=True)
        seen = [ax.slide_all(v, windows, ax.cast(s, v.dtype)) for v, s in pairs]
        axes = tuple(range(seen[0].ndim - x.ndim))
        return reduce(tree.unflatten(treedef, seen), init_value, computation, axes)
    operands = [x]
    if not is_identity(monoid, init_value, dtype):
        check_dtypes("reduce_window", x, init_value)
        operands.append(ax.cast(init_value, dtype))
    return run_fused(_reduce_windows, operands, monoid=monoid, windows=windows)


def _reduce_windows(
    x: Any, *init: Any, monoid: Primitive, windows: tuple[ax.Window, ...]
) -> Any:
    fill = init[0] if init else red.identity(monoid, x.dtype)
    shape = [w.outputs(n) for w, n in zip(windows, x.shape, strict=True)]
    if 0 in shape:
        return ax.as_value(np.zeros(shape, x.dtype))
    seen = ax.slide_all(x, windows, fill)
    axes = tuple(range(seen.ndim - x.ndim))
    result = ax.drop_axes(bind(monoid, seen, arg=axes), axes) if axes else seen
    return elementwise(red.COMBINES[monoid], init[0], result) if init else result


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The shape of `reduce_window`, whose arguments these are.

    Args:
      operand_shape: the shape of the operand.
      window_dimensions, window_strides, padding, base_dilation, window_dilation: as
        there.

    Example:
      >>> lax.reduce_window_shape_tuple((8,), (3,), (2,), "VALID")
      (3,)
    """
    windows = windows_of(
        "lax.reduce_window_shape_tuple", operand_shape, window_dimensions, padding,
        window_strides=window_strides, base_dilation=base_dilation,
        window_dilation=window_dilation,
    )  # fmt: skip
    return tuple(w.outputs(n) for w, n in zip(windows, operand_shape, strict=True))
