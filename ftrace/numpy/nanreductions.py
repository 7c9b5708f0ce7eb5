"""Reductions that leave NaN out: nansum, nanmean, nanmax and their like.

The positions nanargmax and nanargmin stand in `positions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.numpy import reductions
from ftrace.numpy.axes import (
    Axis,
    as_value,
    canonical_axes,
    choose,
    full,
    no_out,
)
from ftrace.numpy.reductions import check_where, reduced
from ftrace.numpy.statistics import mean, variance
from ftrace.trace.operations import bind, elementwise
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.reduction import reduce_min_p
from ftrace.trace.tracer import Value

__all__ = [
    "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar",
]  # fmt: skip

Dtype = Any


def is_nan(a: Any) -> Any:
    """Where a float or complex value is not a number; None for other dtypes."""
    return bind(p.ne, a, a) if dtypes.is_inexact(a.dtype) else None


def without_nan(a: Value, fill: float) -> Any:
    """`a` with a number in the place of each NaN."""
    a = as_value(a)
    missing = is_nan(a)
    return a if missing is None else choose(missing, full((), fill, a.dtype), a)


def present(name: str, a: Any, where: Value | None) -> Any:
    """The mask of the elements that count; None where all do."""
    mask = check_where(name, where, a.shape)
    if not dtypes.is_inexact(a.dtype):
        return mask
    here = bind(p.eq, a, a)
    return here if mask is None else bind(p.bit_and, here, mask)


def nansum(
    a: Value,
    axis: Axis = None,
    dtype: Dtype = None,
    out: None = None,
    keepdims: bool = False,
    initial: Value | None = None,
    where: Value | None = None,
) -> Any:
    """The sum of the elements that are not NaN; arguments as in `sum`."""
    no_out("nansum", out)
    return reductions.sum(
        without_nan(a, 0), axis, dtype, None, keepdims, initial, where
    )


def nanprod(
    a: Value,
    axis: Axis = None,
    dtype: Dtype = None,
    out: None = None,
    keepdims: bool = False,
    initial: Value | None = None,
    where: Value | None = None,
) -> Any:
    """The product of the elements that are not NaN; arguments as in `sum`."""
    no_out("nanprod", out)
    return reductions.prod(
        without_nan(a, 1), axis, dtype, None, keepdims, initial, where
    )


def nanmax(
    a: Value,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Value | None = None,
    where: Value | None = None,
) -> Any:
    """The greatest element that is not NaN; NaN where there is none.

    Arguments and errors are those of `max`.
    """
    no_out("nanmax", out)
    return _nan_extremum(reductions.max, -np.inf, a, axis, keepdims, initial, where)


def nanmin(
    a: Value,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Value | None = None,
    where: Value | None = None,
) -> Any:
    """The least element that is not NaN; NaN where there is none.

    Arguments and errors are those of `min`.
    """
    no_out("nanmin", out)
    return _nan_extremum(reductions.min, np.inf, a, axis, keepdims, initial, where)


def _nan_extremum(
    reduction: Callable[..., Any],
    beyond: float,
    a: Value,
    axis: Axis,
    keepdims: bool,
    initial: Value | None,
    where: Value | None,
) -> Any:
    a = as_value(a)
    filled = without_nan(a, beyond)
    result = reduction(filled, axis, None, keepdims, initial, where)
    missing = is_nan(a)
    if missing is None or initial is not None:
        return result
    axes = canonical_axes(axis, a.ndim, reduction.__name__)
    nothing = reduced(reduce_min_p, missing, axes, keepdims)
    return choose(nothing, full((), np.nan, a.dtype), result)


def nanmean(
    a: Value,
    axis: Axis = None,
    dtype: Dtype = None,
    out: None = None,
    keepdims: bool = False,
    where: Value | None = None,
) -> Any:
    """The mean of the elements that are not NaN; arguments as in `mean`."""
    no_out("nanmean", out)
    a = as_value(a)
    mask = present("nanmean", a, where)
    return mean(without_nan(a, 0), axis, dtype, None, keepdims, where=mask)


def nanvar(
    a: Value,
    axis: Axis = None,
    dtype: Dtype = None,
    out: None = None,
    ddof: Value = 0,
    keepdims: bool = False,
    where: Value | None = None,
    mean: Value | None = None,
) -> Any:
    """The variance of the elements that are not NaN; arguments as in `var`."""
    no_out("nanvar", out)
    a = as_value(a)
    mask = present("nanvar", a, where)
    filled = without_nan(a, 0)
    return variance("nanvar", filled, axis, dtype, ddof, keepdims, mask, mean)


def nanstd(
    a: Value,
    axis: Axis = None,
    dtype: Dtype = None,
    out: None = None,
    ddof: Value = 0,
    keepdims: bool = False,
    where: Value | None = None,
    mean: Value | None = None,
) -> Any:
    """The square root of `nanvar`, with its arguments."""
    no_out("nanstd", out)
    spread = nanvar(a, axis, dtype, None, ddof, keepdims, where, mean)
    return elementwise(p.sqrt, spread)
