"""Running reductions: cumsum, cumprod and their like.

Along a short axis each result is a reduction over a window that slides over the array,
a view which fuses with what is around it. Along a longer one it is a step of the
program: a kernel on the CPU, elsewhere a call of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ValueRangeError
from ftrace.numpy import axes as ax
from ftrace.numpy.joining import concatenate, stack
from ftrace.numpy.reductions import dtype_of_sum, log_sum_exp, summed_dtype, without_nan
from ftrace.trace.arrays.array import Array
from ftrace.trace.bind import bind, bind_compound
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.function_objects import member
from ftrace.trace.primitives import reduction as red
from ftrace.trace.primitives.library.scan import (
    EXTREMA,
    Running,
    check_running,
    cumulate_p,
)
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.symbolic import is_dynamic
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "nancumprod",
    "nancumsum",
]  # fmt: skip

Dtype = Any

#: Axes that are no longer are reduced over windows.
SHORT = 8


def scan_with(x: Any, kind: str, axis: int, reverse: bool) -> Any:
    """The running reduction of a value along `axis`.

    Args:
      x: a value.
      kind: "sum", "prod", "max", "min" or "logsumexp".
      axis: counted from the front.
      reverse: from the last element to the first.
    """
    check_running(kind, x.dtype)
    # A complex 1 changes infinities and signs of zeros: windows are not filled with it.
    if _is_long(x.shape[axis]) or (dtypes.is_complex(x.dtype) and kind != "sum"):
        return bind_compound(cumulate_p, x, arg=Running(kind, axis, reverse))[0]
    if x.shape[axis] < 2:
        return x
    if kind == "logsumexp":
        seen = _windows(x, axis, -np.inf, reverse)
        return ax.drop_axes(log_sum_exp(seen, (0,)), (0,))
    primitive = red.BY_NAME[kind]
    if kind in EXTREMA:
        return _scan_pairwise(x, red.COMBINES[primitive], axis, reverse)
    fill = red.identity(primitive, x.dtype)
    seen = _windows(x, axis, fill, reverse)
    return ax.drop_axes(bind(primitive, seen, arg=(0,)), (0,))


def scan_fused(x: Any, kind: str, axis: int, reverse: bool) -> Any:
    """`scan_with` as one graph; the host does it at once for an array of its own."""
    if type(x) is Array and x.memory.host and x.shape[axis] > 1:
        check_running(kind, x.dtype)
        return bind_compound(cumulate_p, x, arg=Running(kind, axis, reverse))[0]
    return run_fused(scan_with, [x], kind=kind, axis=axis, reverse=reverse)


def _scan_pairwise(x: Any, pair: Primitive, axis: int, reverse: bool) -> Any:
    """By the same tree as a long axis, so that ties share derivatives as there."""

    def combine(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        return [bind(pair, left[0], right[0])]

    if reverse:
        return ax.flip(_scan_pairwise(ax.flip(x, (axis,)), pair, axis, False), (axis,))
    return combine_axis(combine, [x], axis)[0]


def _is_long(size: Any) -> bool:
    """A dynamic size may be."""
    return is_dynamic(size) or size > SHORT


def _windows(x: Any, axis: int, fill: Any, reverse: bool) -> Any:
    """In front of each element a new axis: the element and all before (behind) it."""
    size = x.shape[axis]
    before, after = (0, size - 1) if reverse else (size - 1, 0)
    window = ax.Window(size, 1, 1, before, after)
    around = [window if a == axis else ax.Window(1) for a in range(x.ndim)]
    return ax.slide_all(x, around, fill)


def combine_axis(
    combine: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
    values: Sequence[Any],
    axis: int,
) -> list[Any]:
    """The running combination of values along an axis, in O(n).

    Pairs (0, 1), (2, 3), … are combined and scanned; the result is every second one,
    and one more combination gives those between.

    Args:
      combine: of two sequences of values, elementwise along the axis; associative.
      values: all of one size along the axis.
      axis: counted from the front.
    """
    size = values[0].shape[axis]
    if size < 2:
        return list(values)
    even_places = [_every_second(x, axis, 0) for x in values]
    odd_places = [_every_second(x, axis, 1) for x in values]
    firsts = [ax.shrink_axis(x, axis, 0, size // 2) for x in even_places]
    odd = combine_axis(combine, combine(firsts, odd_places), axis)
    if size == 2:
        even = even_places
    else:
        count = (size + 1) // 2
        before = [ax.shrink_axis(x, axis, 0, count - 1) for x in odd]
        later = combine(
            before, [ax.shrink_axis(x, axis, 1, count) for x in even_places]
        )
        even = [
            concatenate([ax.shrink_axis(x, axis, 0, 1), ax.cast(rest, x.dtype)], axis)
            for x, rest in zip(values, later, strict=True)
        ]
    return [_interleave(*parts, axis) for parts in zip(even, odd, strict=True)]


def _every_second(x: Any, axis: int, start: int) -> Any:
    rest = ax.shrink_axis(x, axis, start, x.shape[axis])
    return ax.stride(rest, tuple(2 if a == axis else 1 for a in range(x.ndim)))


def _interleave(even: Any, odd: Any, axis: int) -> Any:
    """Elements of the one and the other in turns; the first has as many or one more."""
    count = odd.shape[axis]
    pairs = stack([ax.shrink_axis(even, axis, 0, count), odd], axis=axis + 1)
    merged = ax.reshape(pairs, ax.with_size(odd.shape, axis, 2 * count))
    if even.shape[axis] == count:
        return merged
    return concatenate([merged, ax.shrink_axis(even, axis, count, count + 1)], axis)


def cumulate(
    name: str,
    kind: str,
    a: Value,
    axis: int | None,
    dtype: Dtype,
    promote_integers: bool = False,
) -> Any:
    """A running sum or product as NumPy has it."""
    a = ax.as_value(a)
    a, axis = ax.flatten(ax.reshape(a, a.shape or (1,)), axis, name)
    final = dtype_of_sum(a, dtype, promote_integers)
    if not dtypes.is_inexact(final):  # what of a float is too much saturates there
        a = ax.cast(a, final)
    wide = summed_dtype(final)
    return ax.cast(scan_fused(ax.cast(a, wide), kind, axis, False), final)


def _running(name: str, kind: str, nothing: int | None = None):
    """`nothing` takes the place of NaN."""

    def running(
        a: Value, axis: int | None = None, dtype: Dtype = None, out: None = None
    ) -> Any:
        """A running sum or product.

        Args:
          a: the array.
          axis: along which; None flattens the array first.
          dtype: in which to compute, and of the result; by default that of `a`, int32
            for bools.
          out: not supported.

        Returns:
          An array of the shape of `a`; of its size where there is no axis. Narrow
          integers stay, where NumPy widens them.

        Raises:
          AxisError: there is no such axis.
        """
        ax.no_out(name, out)
        x = a if nothing is None else without_nan(a, nothing)
        return cumulate(name, kind, x, axis, dtype)

    return running


@member(_running, "sum")
def cumsum():
    """The running sum along `axis`.

    Example:
      >>> fnp.cumsum(fnp.array([1, 2, 3, 4]))
      Array([ 1,  3,  6, 10], dtype=int32)
      >>> fnp.cumsum(fnp.array([[1, 2], [3, 4]]), axis=0)
      Array([[1, 2],
             [4, 6]], dtype=int32)
    """


@member(_running, "prod")
def cumprod():
    """The running product along `axis`.

    Example:
      >>> fnp.cumprod(fnp.array([1, 2, 3, 4]))
      Array([ 1,  2,  6, 24], dtype=int32)
    """


@member(_running, "sum", 0)
def nancumsum():
    """The running sum with NaN as 0.

    Example:
      >>> fnp.nancumsum(fnp.array([1.0, fnp.nan, 2.0]))
      Array([1., 1., 3.], dtype=float32)
    """


@member(_running, "prod", 1)
def nancumprod():
    """The running product with NaN as 1.

    Example:
      >>> fnp.nancumprod(fnp.array([2.0, fnp.nan, 3.0]))
      Array([2., 2., 6.], dtype=float32)
    """


def _array_api(name: str, kind: str):
    def cumulative(
        x: Value,
        /,
        *,
        axis: int | None = None,
        dtype: Dtype = None,
        include_initial: bool = False,
    ) -> Any:
        """A running sum or product, as the array API has it.

        Args:
          x: the array.
          axis: may be left out only if there is one axis.
          dtype: in which it is computed; by default int32 at least.
          include_initial: begin with what changes nothing, and be one longer.

        Raises:
          ValueRangeError: the axis is not given, or the array has none.
        """
        x = ax.as_value(x)
        if x.ndim == 0 or (axis is None and x.ndim != 1):
            raise ValueRangeError(
                f"{name}: an array of shape {x.shape} needs axis=, and at least one "
                "axis; flatten it first, or choose an axis"
            )
        axis = ax.canonical_axis(0 if axis is None else axis, x.ndim, name)
        if include_initial:
            shape = ax.with_size(x.shape, axis, 1)
            first = red.identity(red.BY_NAME[kind], x.dtype)
            x = concatenate([ax.full(shape, first, x.dtype, x.weak_type), x], axis)
        return cumulate(name, kind, x, axis, dtype, promote_integers=True)

    return cumulative


@member(_array_api, "sum")
def cumulative_sum():
    """The running sum along `axis`, as the array API has it.

    Example:
      >>> fnp.cumulative_sum(fnp.array([1, 2, 3]), include_initial=True)
      Array([0, 1, 3, 6], dtype=int32)
    """


@member(_array_api, "prod")
def cumulative_prod():
    """The running product along `axis`, as the array API has it.

    Example:
      >>> fnp.cumulative_prod(fnp.array([2, 3]), include_initial=True)
      Array([1, 2, 6], dtype=int32)
    """
