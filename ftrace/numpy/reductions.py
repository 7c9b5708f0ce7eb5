"""Reductions that are one primitive: sum, prod, max, min, any, all; without NaN, too.

Dtypes are JAX's: bools and small integers are added as int32 or uint32, and 64-bit
input stays 64-bit. float16 and bfloat16 accumulate in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError
from ftrace.numpy.axes import (
    Axis,
    as_value,
    broadcast_to,
    canonical_axes,
    cast,
    choose,
    drop_axes,
    full,
    no_out,
    strong,
)
from ftrace.numpy.joining import stack
from ftrace.trace.eager import member
from ftrace.trace.operations import bind, elementwise
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.record import Primitive
from ftrace.trace.primitives.reduction import (
    COMBINES,
    identity,
    reduce_max_p,
    reduce_min_p,
    reduce_prod_p,
)
from ftrace.trace.tracer import Value

__all__ = [
    "all", "amax", "amin", "any", "count_nonzero", "max", "min", "nanmax", "nanmin",
    "nanprod", "nansum", "prod", "ptp", "sum",
]  # fmt: skip

Dtype = Any

# Dtypes.


def summed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which values of `dtype` are added: no narrower than int32."""
    kind = dtypes.kind(dtype)
    if kind in "fc":
        return dtype
    wide = dtypes.default_dtype("u" if kind == "u" else "i")
    return wide if wide.itemsize > dtype.itemsize else dtype


def widened(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 for a float of 16 bits."""
    return dtypes.float32 if dtypes.is_half(dtype) else dtype


def chosen_dtype(dtype: Dtype, default: np.dtype[Any]) -> np.dtype[Any]:
    """A dtype argument; where it is None, the default."""
    return default if dtype is None else dtypes.canonicalize(dtypes.as_dtype(dtype))


# What the reductions share.


def check_where(name: str, where: Value | None, shape: tuple[int, ...]) -> Any:
    """A mask of bools in the shape of the array that it masks; None stays None.

    Raises:
      ValueRangeError: it is not of bools.
    """
    if where is None:
        return None
    mask = as_value(where)
    if mask.dtype != dtypes.bool_:
        raise ValueRangeError(
            f"{name}: where must be None or an array of bools, got dtype "
            f"{mask.dtype.name}; write where=mask.astype(bool)"
        )
    return broadcast_to(mask, shape, f"{name}: where")


def reduced(
    primitive: Primitive, x: Value, axes: tuple[int, ...], keepdims: bool
) -> Any:
    """A primitive reduction; without axes it changes nothing."""
    x = as_value(x)
    if axes:
        x = bind(primitive, x, arg=axes)
    return x if keepdims else drop_axes(x, axes)


def masked_reduce(
    name: str,
    primitive: Primitive,
    a: Any,
    axis: Axis,
    dtype: np.dtype[Any],
    keepdims: bool,
    initial: Value | None,
    where: Value | None,
) -> Any:
    """A reduction of `a`, computed in `dtype`."""
    axes = canonical_axes(axis, a.ndim, name)
    mask = check_where(name, where, a.shape)
    a = cast(a, dtype)
    combine = COMBINES[primitive]
    if dtype == dtypes.bool_ and primitive in _BOOL:
        primitive, combine = _BOOL[primitive]
    if mask is not None:
        a = choose(mask, a, full((), identity(primitive, dtype), dtype))
    result = reduced(primitive, a, axes, keepdims)
    if initial is not None:
        result = elementwise(combine, _first_value(name, initial, dtype), result)
    return result


def _first_value(name: str, initial: Value, dtype: np.dtype[Any]) -> Any:
    """The value that a reduction begins with."""
    first = cast(initial, dtype)
    if first.ndim:
        raise ShapeError(f"{name}: initial must be a scalar, got {first.shape}")
    return first


#: Sums and products of bools are "or" and "and".
_BOOL = {
    reduce_sum_p: (reduce_max_p, p.bit_or),
    reduce_prod_p: (reduce_min_p, p.bit_and),
}


def is_nan(a: Any) -> Any:
    """Where a float or complex value is not a number; None for other dtypes."""
    return bind(p.ne, a, a) if dtypes.is_inexact(a.dtype) else None


def without_nan(a: Value, fill: float) -> Any:
    """`a` with a number in the place of each NaN."""
    a = as_value(a)
    missing = is_nan(a)
    if missing is None:
        return a
    return choose(missing, full((), fill, a.dtype, a.weak_type), a)


def present(name: str, a: Any, where: Value | None) -> Any:
    """The mask of the elements that count; None where all do."""
    mask = check_where(name, where, a.shape)
    if not dtypes.is_inexact(a.dtype):
        return mask
    here = bind(p.eq, a, a)
    return here if mask is None else bind(p.bit_and, here, mask)


def _total(name: str, primitive: Primitive):
    def total(
        a: Value,
        axis: Axis = None,
        dtype: Dtype = None,
        out: None = None,
        keepdims: bool = False,
        initial: Value | None = None,
        where: Value | None = None,
        promote_integers: bool = True,
    ) -> Any:
        no_out(name, out)
        a = as_value(a)
        promote = promote_integers or a.dtype == dtypes.bool_
        natural = dtypes.settled(a.dtype, a.weak_type)
        natural = summed_dtype(natural) if promote else natural
        final = chosen_dtype(dtype, natural)
        wide = widened(final) if dtype is None else final
        result = masked_reduce(name, primitive, a, axis, wide, keepdims, initial, where)
        return cast(result, final)

    return total


@member(_total, reduce_sum_p)
def sum():
    """The sum of the elements along `axis`, or of all.

    Args:
      a: the array.
      axis: an axis, several, or None for all.
      dtype: in which to add; by default int32 at least.
      out: not supported.
      keepdims: the reduced axes stay, with size 1.
      initial: a scalar to start from.
      where: a mask of the elements that count.
      promote_integers: add narrow integers as int32 or uint32.
    """


@member(_total, reduce_prod_p)
def prod():
    """The product of the elements along `axis`, or of all; arguments as in `sum`."""


def _total_without_nan(name: str, total: Callable[..., Any], nothing: int):
    def nan_total(
        a: Value,
        axis: Axis = None,
        dtype: Dtype = None,
        out: None = None,
        keepdims: bool = False,
        initial: Value | None = None,
        where: Value | None = None,
    ) -> Any:
        no_out(name, out)
        return total(
            without_nan(a, nothing), axis, dtype, None, keepdims, initial, where
        )

    return nan_total


@member(_total_without_nan, sum, 0)
def nansum():
    """The sum of the elements that are not NaN; arguments as in `sum`."""


@member(_total_without_nan, prod, 1)
def nanprod():
    """The product of the elements that are not NaN; arguments as in `sum`."""


# Extrema.


def _extremum(
    name: str,
    primitive: Primitive,
    a: Any,
    axis: Axis,
    keepdims: bool,
    initial: Value | None,
    where: Value | None,
) -> Any:
    axes = canonical_axes(axis, a.ndim, name)
    if initial is None and where is not None:
        raise ValueRangeError(
            f"{name}: to use where=, give initial= as well: the value of nothing"
        )
    if initial is None and any_of(a.shape[axis] == 0 for axis in axes):
        raise ValueRangeError(
            f"{name}: the array of shape {a.shape} has no elements along the axes "
            f"{axes}, and {name} has no identity; give initial="
        )
    if not dtypes.is_complex(a.dtype):
        return masked_reduce(
            name, primitive, a, axis, a.dtype, keepdims, initial, where
        )
    if initial is None:
        return _complex_extremum(primitive, a, axes, keepdims)
    first = _first_value(name, initial, a.dtype)
    if where is not None:
        a = choose(check_where(name, where, a.shape), a, first)
    found = _complex_extremum(primitive, a, axes, keepdims)
    pair = stack([broadcast_to(first, found.shape), found])
    return _complex_extremum(primitive, pair, (0,), False)


def any_of(conditions: Any) -> bool:
    """Python's `any`, which the function of that name hides here."""
    return True in conditions


def _same(x: Any, extremum: Any) -> Any:
    return elementwise(
        p.bit_or, elementwise(p.eq, x, extremum), elementwise(p.ne, x, x)
    )


def _complex_extremum(
    primitive: Primitive, a: Any, axes: tuple[int, ...], keepdims: bool
) -> Any:
    """By the real part, then by the imaginary part, as NumPy orders."""
    x, y = elementwise(p.real, a), elementwise(p.imag, a)
    first = reduced(primitive, x, axes, True)
    beyond = full((), identity(primitive, y.dtype), y.dtype)
    hits = _same(x, first)
    second = reduced(primitive, choose(hits, y, beyond), axes, True)
    # Of the real parts again: those with that imaginary part share the derivative.
    hits = elementwise(p.bit_and, hits, _same(y, second))
    first = reduced(primitive, choose(hits, x, beyond), axes, True)
    result = elementwise(p.make_complex, first, second)
    return result if keepdims else drop_axes(result, axes)


def _extreme(name: str, primitive: Primitive, beyond: float | None = None):
    """`beyond` takes the place of NaN, where that is left out."""

    def extreme(
        a: Value,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Value | None = None,
        where: Value | None = None,
    ) -> Any:
        no_out(name, out)
        a = strong(a)
        filled = a if beyond is None else without_nan(a, beyond)
        result = _extremum(name, primitive, filled, axis, keepdims, initial, where)
        missing = None if beyond is None else is_nan(a)
        if missing is None or initial is not None:
            return result
        axes = canonical_axes(axis, a.ndim, name)
        nothing = reduced(reduce_min_p, missing, axes, keepdims)
        return choose(nothing, full((), np.nan, a.dtype), result)

    return extreme


@member(_extreme, reduce_max_p)
def max():
    """The greatest element along `axis`, or of all; NaN wins. Arguments as in `sum`.

    Raises:
      ValueRangeError: there are no elements, and no `initial`.
    """


@member(_extreme, reduce_min_p)
def min():
    """The least element along `axis`, or of all; NaN wins. Arguments as in `sum`.

    Raises:
      ValueRangeError: there are no elements, and no `initial`.
    """


@member(_extreme, reduce_max_p, -np.inf)
def nanmax():
    """The greatest element that is not NaN; NaN where there is none.

    Arguments and errors are those of `max`.
    """


@member(_extreme, reduce_min_p, np.inf)
def nanmin():
    """The least element that is not NaN; NaN where there is none.

    Arguments and errors are those of `min`.
    """


amax = max
amin = min


def ptp(a: Value, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    """The greatest element less the least, along `axis` or of all."""
    no_out("ptp", out)
    a = strong(a)
    high = _extremum("ptp", reduce_max_p, a, axis, keepdims, None, None)
    low = _extremum("ptp", reduce_min_p, a, axis, keepdims, None, None)
    return elementwise(p.sub, high, low)


# Truth.


def _truth(name: str, primitive: Primitive):
    def truth(
        a: Value,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: Value | None = None,
    ) -> Any:
        no_out(name, out)
        a = as_value(a)
        return masked_reduce(
            name, primitive, a, axis, dtypes.bool_, keepdims, None, where
        )

    return truth


@member(_truth, reduce_max_p)
def any():
    """Is an element along `axis`, or of all, not zero?"""


@member(_truth, reduce_min_p)
def all():
    """Are the elements along `axis`, or all of them, not zero?"""


def count_nonzero(a: Value, axis: Axis = None, keepdims: bool = False) -> Any:
    """How many elements along `axis`, or of all, are not zero."""
    hits = cast(cast(a, dtypes.bool_), dtypes.default_dtype("i"))
    axes = canonical_axes(axis, hits.ndim, "count_nonzero")
    return reduced(reduce_sum_p, hits, axes, keepdims)
