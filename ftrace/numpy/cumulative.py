"""Running reductions: cumsum, cumprod and their like, by sliding windows.

One step combines K neighbours at distance d, and so reaches K·d elements back:

    y[i] = x[i] ∘ x[i - d] ∘ … ∘ x[i - (K-1)·d]        d = 1, K, K², …

After log_K(n) steps every element has seen all before it. Each step is one reduction
over a window (a view, until a kernel reads it); its error grows like that of a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ValueRangeError
from ftrace.numpy.axes import (
    as_value,
    canonical_axis,
    cast,
    choose,
    drop_axes,
    full,
    iota,
    no_out,
    pad,
    reshape,
)
from ftrace.numpy.nanreductions import without_nan
from ftrace.numpy.reductions import chosen_dtype, summed_dtype, widened
from ftrace.numpy.softmax import log_sum_exp
from ftrace.numpy.windows import Window, slide_all
from ftrace.trace.operations import bind, elementwise, run_fused
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.record import Primitive
from ftrace.trace.primitives.reduction import identity, reduce_prod_p
from ftrace.trace.tracer import Value

__all__ = [
    "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "nancumprod",
    "nancumsum",
]  # fmt: skip

Dtype = Any

#: How many neighbours one step combines.
RADIX = 8


def scan_axis(
    combine: Callable[[Any], Any], x: Any, axis: int, fill: Any, reverse: bool
) -> Any:
    """The running reduction of `x` along `axis`.

    Args:
      combine: reduces the leading axis of a value, which stays with size 1.
      x: a value.
      axis: counted from the front.
      fill: what changes nothing, before the first element.
      reverse: from the last element to the first.
    """
    size = x.shape[axis]
    reach = 1
    while reach < size:
        count = min(RADIX, -(-size // reach))
        window = _window(count, reach, reverse)
        around = [window if a == axis else Window(1) for a in range(x.ndim)]
        x = drop_axes(combine(slide_all(x, around, fill)), (0,))
        reach *= count
    return x


def _window(count: int, dilation: int, reverse: bool) -> Window:
    """An element and the `count` - 1 before it (after it), `dilation` apart."""
    extra = (count - 1) * dilation
    before, after = (0, extra) if reverse else (extra, 0)
    return Window(count, 1, dilation, before, after)


def scan_with(x: Any, primitive: Primitive, axis: int, reverse: bool) -> Any:
    """The running sum, product, maximum or minimum."""
    fill = identity(primitive, x.dtype)
    return scan_axis(lambda z: bind(primitive, z, arg=(0,)), x, axis, fill, reverse)


def scan_logsumexp(x: Any, axis: int, reverse: bool) -> Any:
    """The running log(sum(exp(x)))."""
    return scan_axis(lambda z: log_sum_exp(z, (0,)), x, axis, -np.inf, reverse)


def cumulate(
    name: str,
    primitive: Primitive,
    a: Value,
    axis: int | None,
    dtype: Dtype,
    promote_integers: bool = False,
) -> Any:
    """A running sum or product as NumPy has it."""
    a = as_value(a)
    if axis is None or a.ndim == 0:
        a = reshape(a, (a.size,))
        axis = 0 if axis is None else axis
    axis = canonical_axis(axis, a.ndim, name)
    promote = promote_integers or a.dtype == dtypes.bool_
    natural = summed_dtype(a.dtype) if promote else a.dtype
    final = chosen_dtype(dtype, natural)
    if final == dtypes.bool_:
        a = cast(a, final)
    wide = summed_dtype(widened(final))
    result = run_fused(
        scan_with, [cast(a, wide)], primitive=primitive, axis=axis, reverse=False
    )
    return cast(result, final)


def cumsum(
    a: Value, axis: int | None = None, dtype: Dtype = None, out: None = None
) -> Any:
    """The running sum along `axis`.

    Args:
      a: the array.
      axis: along which to add; None flattens the array first.
      dtype: in which to add.
      out: not supported.
    """
    no_out("cumsum", out)
    return cumulate("cumsum", reduce_sum_p, a, axis, dtype)


def cumprod(
    a: Value, axis: int | None = None, dtype: Dtype = None, out: None = None
) -> Any:
    """The running product along `axis`; arguments as in `cumsum`."""
    no_out("cumprod", out)
    return cumulate("cumprod", reduce_prod_p, a, axis, dtype)


def nancumsum(
    a: Value, axis: int | None = None, dtype: Dtype = None, out: None = None
) -> Any:
    """The running sum with NaN as 0; arguments as in `cumsum`."""
    no_out("nancumsum", out)
    return cumulate("nancumsum", reduce_sum_p, without_nan(a, 0), axis, dtype)


def nancumprod(
    a: Value, axis: int | None = None, dtype: Dtype = None, out: None = None
) -> Any:
    """The running product with NaN as 1; arguments as in `cumsum`."""
    no_out("nancumprod", out)
    return cumulate("nancumprod", reduce_prod_p, without_nan(a, 1), axis, dtype)


def cumulative_sum(
    x: Value,
    /,
    *,
    axis: int | None = None,
    dtype: Dtype = None,
    include_initial: bool = False,
) -> Any:
    """The running sum along `axis`, as the array API has it.

    Args:
      x: the array.
      axis: may be left out only if there is one axis.
      dtype: in which to add; by default int32 at least.
      include_initial: begin with 0, and be one longer.

    Raises:
      ValueRangeError: the axis is not given, or the array has none.
    """
    return _array_api("cumulative_sum", reduce_sum_p, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Value,
    /,
    *,
    axis: int | None = None,
    dtype: Dtype = None,
    include_initial: bool = False,
) -> Any:
    """The running product along `axis`; arguments and errors as in `cumulative_sum`.

    With `include_initial` it begins with 1.
    """
    return _array_api("cumulative_prod", reduce_prod_p, x, axis, dtype, include_initial)


def _array_api(
    name: str,
    primitive: Primitive,
    x: Value,
    axis: int | None,
    dtype: Dtype,
    include_initial: bool,
) -> Any:
    x = as_value(x)
    if x.ndim == 0 or (axis is None and x.ndim != 1):
        raise ValueRangeError(
            f"{name}: an array of shape {x.shape} needs axis=, and at least one axis; "
            "flatten it first, or choose an axis"
        )
    axis = canonical_axis(0 if axis is None else axis, x.ndim, name)
    if include_initial:
        pads = [(0, 0, 0)] * x.ndim
        pads[axis] = (1, 0, 0)
        first = identity(primitive, x.dtype)
        padded = pad(x, tuple(pads))
        if first:
            start = elementwise(p.eq, iota(dtypes.int32, padded.shape, axis), 0)
            padded = choose(start, full((), first, x.dtype), padded)
        x = padded
    return cumulate(name, primitive, x, axis, dtype, promote_integers=True)
