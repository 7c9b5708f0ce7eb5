"""Reductions that are one primitive: sum, prod, max, min, any, all; without NaN, too.

Dtypes are JAX's: bools and small integers are added as int32 or uint32, and 64-bit
input stays 64-bit. float16 and bfloat16 accumulate in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError, ShapeError, ValueRangeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.numpy.creation import array, dtype_or
from ftrace.numpy.joining import stack
from ftrace.trace.bind import bind, broadcast_shapes, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.function_objects import member
from ftrace.trace.primitives import broadcast as bc, elementwise as p, reduction as red
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.tracing.tracer import Value, is_value

__all__ = [
    "all", "allclose", "amax", "amin", "any", "array_equal", "array_equiv",
    "count_nonzero", "isclose", "max", "min", "nanmax", "nanmin", "nanprod", "nansum",
    "prod", "ptp", "sum",
]  # fmt: skip

Dtype = Any

# Dtypes.


def dtype_of_sum(a: Any, dtype: Dtype, promote_integers: bool) -> np.dtype[Any]:
    """That of a sum or product: narrow integers grow, unless they are not to."""
    natural = dtypes.strong_dtype(a.dtype, a.weak_type)
    grows = promote_integers or a.dtype == dtypes.bool_
    return dtype_or(dtype, summed_dtype(natural) if grows else natural)


def summed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which values of `dtype` are added: no narrower than int32."""
    kind = dtypes.kind(dtype)
    if kind in "fc":
        return dtype
    wide = dtypes.default_dtype("u" if kind == "u" else "i")
    return wide if wide.itemsize > dtype.itemsize else dtype


# What the reductions share.


def check_where(name: str, where: Value | None, shape: tuple[int, ...]) -> Any:
    """A mask of bools in the shape of the array that it masks; None stays None.

    Raises:
      ValueRangeError: it is not of bools.
    """
    if where is None:
        return None
    mask = ax.as_value(where)
    if mask.dtype != dtypes.bool_:
        raise ValueRangeError(
            f"{name}: where must be None or an array of bools, got dtype "
            f"{mask.dtype.name}; write where=mask.astype(bool)"
        )
    return ax.broadcast_to(mask, shape, f"{name}: where")


def reduce_by(
    primitive: Primitive, x: Value, axes: tuple[int, ...], keepdims: bool
) -> Any:
    """A primitive reduction; without axes it changes nothing."""
    x = ax.as_value(x)
    if axes:
        x = bind(primitive, x, arg=axes)
    return x if keepdims else ax.drop_axes(x, axes)


def add_along(x: Value, axes: tuple[int, ...], keepdims: bool = False) -> Any:
    """A sum; without axes it changes nothing."""
    return reduce_by(bc.reduce_sum_p, x, axes, keepdims)


class Over(NamedTuple):
    """What a reduction runs over, checked.

    Attributes:
      name: of the function, for messages.
      axes: counted from the front.
      keepdims: they stay, with size 1.
      mask: which elements count, in the shape of the array; None where all do.
    """

    name: str
    axes: tuple[int, ...]
    keepdims: bool
    mask: Any = None


def over(
    name: str, a: Any, axis: ax.Axis, keepdims: bool, where: Value | None = None
) -> Over:
    axes = ax.canonical_axes(axis, a.ndim, name)
    return Over(name, axes, keepdims, check_where(name, where, a.shape))


def masked_reduce(
    primitive: Primitive,
    a: Any,
    along: Over,
    dtype: np.dtype[Any],
    initial: Value | None = None,
) -> Any:
    """A reduction of `a`, computed in `dtype`."""
    a = ax.cast(a, dtype)
    combine = red.COMBINES[primitive]
    if dtype == dtypes.bool_ and primitive in _BOOL:
        primitive, combine = _BOOL[primitive]
    if along.mask is not None:
        nothing = ax.full((), red.identity(primitive, dtype), dtype)
        a = ax.choose(along.mask, a, nothing)
    result = reduce_by(primitive, a, along.axes, along.keepdims)
    if initial is not None:
        first = _first_value(along.name, initial, dtype)
        result = elementwise(combine, first, result)
    return result


def _first_value(name: str, initial: Value, dtype: np.dtype[Any]) -> Any:
    """The value that a reduction begins with."""
    ax.scalar_type(initial, f"{name}: initial")
    return ax.cast(initial, dtype)


#: Sums and products of bools are "or" and "and".
_BOOL = {
    bc.reduce_sum_p: (red.reduce_max_p, p.bit_or),
    red.reduce_prod_p: (red.reduce_min_p, p.bit_and),
}


def weights_like(
    name: str, weights: Any, shape: tuple[int, ...], axes: tuple[int, ...], whole: bool
) -> Any:
    """Weights of an array, or of its reduced axes, so that they broadcast to it.

    Raises:
      ShapeError: they have neither shape; or all axes are reduced (`whole`).
    """
    if weights.shape == shape:
        return weights
    wanted = tuple(shape[i] for i in axes)
    if whole or weights.shape != wanted:
        hint = "; give axis= for others" if whole else f" or {wanted}"
        raise ShapeError(
            f"{name}: the weights must have shape {shape}{hint}, got {weights.shape}"
        )
    line = tuple(n if i in axes else 1 for i, n in enumerate(shape))
    return ax.reshape(ax.permute(weights, ax.inverse(axes)), line)


def is_nan(a: Any) -> Any:
    """Where a float or complex value is not a number; None for other dtypes."""
    return a != a if dtypes.is_inexact(a.dtype) else None


def without_nan(a: Value, fill: float) -> Any:
    """`a` with a number in the place of each NaN."""
    a = ax.as_value(a)
    missing = is_nan(a)
    if missing is None:
        return a
    return ax.choose(missing, ax.full((), fill, a.dtype, a.weak_type), a)


def mask_nans(name: str, a: Value, where: Value | None) -> Any:
    """(values, mask of those that count), of which NaN is none."""
    a = ax.as_value(a)
    if not dtypes.is_inexact(a.dtype):
        return a, where
    mask = check_where(name, where, a.shape)
    return without_nan(a, 0), a == a if mask is None else (a == a) & mask


def _total(name: str, primitive: Primitive):
    @ax.takes_names
    def total(
        a: Value,
        axis: ax.Axis = None,
        dtype: Dtype = None,
        out: None = None,
        keepdims: bool = False,
        initial: Value | None = None,
        where: Value | None = None,
        promote_integers: bool = True,
    ) -> Any:
        """A sum or a product.

        Args:
          a: the array.
          axis: an axis, several, or None for all.
          dtype: in which to compute, and of the result.
          out: not supported.
          keepdims: the reduced axes stay, with size 1.
          initial: a scalar to start from.
          where: a mask of the elements that count; it broadcasts to `a`.
          promote_integers: compute narrow integers and bools as int32 or uint32.

        Returns:
          An array without the reduced axes, in the dtype of `a`; bools and narrower
          integers become int32, or uint32. Floats of 16 bits are computed in float32.

        Raises:
          AxisError: there is no such axis.
          ShapeError: the mask does not broadcast.
        """
        ax.no_out(name, out)
        a = ax.as_value(a)
        final = dtype_of_sum(a, dtype, promote_integers)
        wide = dtypes.summing_dtype(final) if dtype is None else final
        along = over(name, a, axis, keepdims, where)
        return ax.cast(masked_reduce(primitive, a, along, wide, initial), final)

    return total


def _total_of_numbers(name: str, primitive: Primitive, nothing: int):
    """`nothing` takes the place of NaN."""
    total_of_all = _total(name, primitive)

    @ax.takes_names
    def total(
        a: Value,
        axis: ax.Axis = None,
        dtype: Dtype = None,
        out: None = None,
        keepdims: bool = False,
        initial: Value | None = None,
        where: Value | None = None,
    ) -> Any:
        """A sum or a product of what is not NaN.

        Args:
          a: the array.
          axis: an axis, several, or None for all.
          dtype: in which to compute, and of the result.
          out: not supported.
          keepdims: the reduced axes stay, with size 1.
          initial: a scalar to start from.
          where: a mask of the elements that count; it broadcasts to `a`.

        Returns:
          An array without the reduced axes, in the dtype of `a`; bools and narrower
          integers become int32, or uint32. Floats of 16 bits are computed in float32.

        Raises:
          AxisError: there is no such axis.
          ShapeError: the mask does not broadcast.
        """
        a = without_nan(a, nothing)
        return total_of_all(a, axis, dtype, out, keepdims, initial, where)

    return total


@member(_total, bc.reduce_sum_p)
def sum():
    """The sum of the elements along `axis`, or of all.

    Example:
      >>> x = fnp.array([[1, 2], [3, 4]])
      >>> fnp.sum(x)
      Array(10, dtype=int32)
      >>> fnp.sum(x, axis=0)
      Array([4, 6], dtype=int32)
      >>> fnp.sum(x, axis=1, keepdims=True)
      Array([[3],
             [7]], dtype=int32)
      >>> fnp.sum(x, where=x > 1)
      Array(9, dtype=int32)
    """


@member(_total, red.reduce_prod_p)
def prod():
    """The product of the elements along `axis`, or of all.

    Example:
      >>> fnp.prod(fnp.array([[1, 2], [3, 4]]), axis=1)
      Array([ 2, 12], dtype=int32)
    """


@member(_total_of_numbers, bc.reduce_sum_p, 0)
def nansum():
    """The sum of the elements that are not NaN; 0 where there are none.

    Example:
      >>> fnp.nansum(fnp.array([[1.0, fnp.nan], [fnp.nan, fnp.nan]]), axis=1)
      Array([1., 0.], dtype=float32)
    """


@member(_total_of_numbers, red.reduce_prod_p, 1)
def nanprod():
    """The product of the elements that are not NaN; 1 where there are none.

    Example:
      >>> fnp.nanprod(fnp.array([2.0, fnp.nan, 3.0]))
      Array(6., dtype=float32)
    """


# Extrema.


def _extremum(
    primitive: Primitive, a: Any, along: Over, initial: Value | None = None
) -> Any:
    name, axes, keepdims, mask = along
    if initial is None and mask is not None:
        raise ValueRangeError(
            f"{name}: to use where=, give initial= as well: the value of nothing"
        )
    if initial is None and 0 in [a.shape[axis] for axis in axes]:
        raise ValueRangeError(
            f"{name}: the array of shape {a.shape} has no elements along the axes "
            f"{axes}, and {name} has no identity; give initial="
        )
    if not dtypes.is_complex(a.dtype):
        return masked_reduce(primitive, a, along, a.dtype, initial)
    if initial is None:
        return _complex_extremum(primitive, a, axes, keepdims)
    first = _first_value(name, initial, a.dtype)
    if mask is not None:
        a = ax.choose(mask, a, first)
    found = _complex_extremum(primitive, a, axes, keepdims)
    pair = stack([ax.broadcast_to(first, found.shape), found])
    return _complex_extremum(primitive, pair, (0,), False)


def _same(x: Any, extremum: Any) -> Any:
    return (x == extremum) | (x != x)


def _complex_extremum(
    primitive: Primitive, a: Any, axes: tuple[int, ...], keepdims: bool
) -> Any:
    """By the real part, then by the imaginary part, as NumPy orders."""
    x, y = a.real, a.imag
    first = reduce_by(primitive, x, axes, True)
    beyond = ax.full((), red.identity(primitive, y.dtype), y.dtype)
    hits = _same(x, first)
    second = reduce_by(primitive, ax.choose(hits, y, beyond), axes, True)
    # Of the real parts again: those with that imaginary part share the derivative.
    hits = hits & _same(y, second)
    first = reduce_by(primitive, ax.choose(hits, x, beyond), axes, True)
    result = elementwise(p.make_complex, first, second)
    return result if keepdims else ax.drop_axes(result, axes)


def _extreme(name: str, primitive: Primitive, beyond: float | None = None):
    """`beyond` takes the place of NaN, where that is left out."""

    @ax.takes_names
    def extreme(
        a: Value,
        axis: ax.Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Value | None = None,
        where: Value | None = None,
    ) -> Any:
        """The greatest or the least element.

        Args:
          a: the array. Complex numbers are ordered by real, then by imaginary part.
          axis: an axis, several, or None for all.
          out: not supported.
          keepdims: the reduced axes stay, with size 1.
          initial: a scalar that takes part; required with `where`, and where there may
            be no elements.
          where: a mask of the elements that count; it broadcasts to `a`.

        Returns:
          An array without the reduced axes, in the dtype of `a`. Elements that are
          equally extreme share the derivative.

        Raises:
          AxisError: there is no such axis.
          ValueRangeError: there are no elements, or there is a mask, and no `initial`.
        """
        ax.no_out(name, out)
        a = ax.strong(a)
        filled = a if beyond is None else without_nan(a, beyond)
        along = over(name, a, axis, keepdims, where)
        result = _extremum(primitive, filled, along, initial)
        missing = None if beyond is None else is_nan(a)
        if missing is None or initial is not None:
            return result
        nothing = reduce_by(red.reduce_min_p, missing, along.axes, keepdims)
        return ax.choose(nothing, ax.full((), np.nan, a.dtype), result)

    return extreme


@member(_extreme, red.reduce_max_p)
def max():
    """The greatest element along `axis`, or of all; NaN wins.

    Example:
      >>> x = fnp.array([[1, 5], [7, 2]])
      >>> fnp.max(x)
      Array(7, dtype=int32)
      >>> fnp.max(x, axis=0)
      Array([7, 5], dtype=int32)
      >>> fnp.max(x, axis=1, initial=6)
      Array([6, 7], dtype=int32)
    """


@member(_extreme, red.reduce_min_p)
def min():
    """The least element along `axis`, or of all; NaN wins.

    Example:
      >>> x = fnp.array([[1, 5], [7, 2]])
      >>> fnp.min(x)
      Array(1, dtype=int32)
      >>> fnp.min(x, axis=1)
      Array([1, 2], dtype=int32)
    """


@member(_extreme, red.reduce_max_p, -np.inf)
def nanmax():
    """The greatest element that is not NaN; NaN where there is none.

    Example:
      >>> fnp.nanmax(fnp.array([1.0, fnp.nan, 3.0]))
      Array(3., dtype=float32)
    """


@member(_extreme, red.reduce_min_p, np.inf)
def nanmin():
    """The least element that is not NaN; NaN where there is none.

    Example:
      >>> fnp.nanmin(fnp.array([1.0, fnp.nan, 3.0]))
      Array(1., dtype=float32)
    """


amax = max
amin = min


@ax.takes_names
def ptp(
    a: Value, axis: ax.Axis = None, out: None = None, keepdims: bool = False
) -> Any:
    """The greatest element less the least, along `axis` or of all.

    Args:
      a: the array.
      axis: an axis, several, or None for all.
      out: not supported.
      keepdims: the reduced axes stay, with size 1.

    Raises:
      ValueRangeError: there are no elements.

    Example:
      >>> fnp.ptp(fnp.array([[1, 5], [7, 2]]), axis=1)
      Array([4, 5], dtype=int32)
    """
    ax.no_out("ptp", out)
    a = ax.strong(a)
    along = over("ptp", a, axis, keepdims)
    high = _extremum(red.reduce_max_p, a, along)
    return high - _extremum(red.reduce_min_p, a, along)


# Truth.


def _truth(name: str, primitive: Primitive):
    @ax.takes_names
    def truth(
        a: Value,
        axis: ax.Axis = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: Value | None = None,
    ) -> Any:
        """A question about all elements.

        Args:
          a: the array, of any dtype.
          axis: an axis, several, or None for all.
          out: not supported.
          keepdims: the reduced axes stay, with size 1.
          where: a mask of the elements that count; it broadcasts to `a`.

        Returns:
          An array of bools without the reduced axes.

        Raises:
          AxisError: there is no such axis.
        """
        ax.no_out(name, out)
        a = ax.as_value(a)
        along = over(name, a, axis, keepdims, where)
        return masked_reduce(primitive, a, along, dtypes.bool_)

    return truth


@member(_truth, red.reduce_max_p)
def any():
    """Is an element along `axis`, or of all, not zero?

    Example:
      >>> x = fnp.array([[0, 0], [0, 2]])
      >>> fnp.any(x)
      Array(True, dtype=bool)
      >>> fnp.any(x, axis=1)
      Array([False,  True], dtype=bool)
    """


@member(_truth, red.reduce_min_p)
def all():
    """Are the elements along `axis`, or all of them, not zero?

    Example:
      >>> x = fnp.array([[1, 0], [3, 2]])
      >>> fnp.all(x)
      Array(False, dtype=bool)
      >>> fnp.all(x, axis=1)
      Array([False,  True], dtype=bool)
    """


@ax.takes_names
def count_nonzero(a: Value, axis: ax.Axis = None, keepdims: bool = False) -> Any:
    """How many elements along `axis`, or of all, are not zero.

    Args:
      a: the array.
      axis: an axis, several, or None for all.
      keepdims: the reduced axes stay, with size 1.

    Returns:
      An array of int32 without the reduced axes.

    Example:
      >>> fnp.count_nonzero(fnp.array([[0, 1], [2, 3]]), axis=0)
      Array([1, 2], dtype=int32)
    """
    hits = ax.cast(ax.cast(a, dtypes.bool_), dtypes.default_dtype("i"))
    axes = ax.canonical_axes(axis, hits.ndim, "count_nonzero")
    return add_along(hits, axes, keepdims)


# Are two arrays equal, or nearly so?


def isclose(
    a: Value, b: Value, rtol: Value = 1e-5, atol: Value = 1e-8, equal_nan: bool = False
) -> Any:
    """Where |a - b| <= atol + rtol·|b|; infinities and keys are close to themselves.

    Args:
      a, b: arrays or numbers; their shapes broadcast, and their dtypes promote.
      rtol, atol: how far they may be apart.
      equal_nan: NaN is close to NaN.

    Returns:
      An array of bools in the common shape.

    Example:
      >>> fnp.isclose(fnp.array([1.0, 1.1]), fnp.array([1.000001, 1.2]))
      Array([ True, False], dtype=bool)
    """
    common = ew.common_type(a, b)[0]
    if dtypes.is_key(common):
        return logic.equal(a, b)
    dtype = dtypes.to_inexact(common)
    a, b = ax.cast(a, dtype), ax.cast(b, dtype)
    near = abs(a - b) <= atol + rtol * abs(b)
    result = (logic.isfinite(a) & logic.isfinite(b) & near) | (a == b)
    return result | (logic.isnan(a) & logic.isnan(b)) if equal_nan else result


def allclose(
    a: Value, b: Value, rtol: Value = 1e-5, atol: Value = 1e-8, equal_nan: bool = False
) -> Any:
    """Is |a - b| <= atol + rtol·|b| everywhere?

    Args:
      a, b: arrays or numbers; their shapes broadcast, and their dtypes promote.
      rtol, atol: how far they may be apart.
      equal_nan: NaN is close to NaN.

    Returns:
      One bool, as an array: `jit` may compute it.

    Example:
      >>> fnp.allclose(fnp.array([1.0, 2.0]), fnp.array([1.0, 2.000001]))
      Array(True, dtype=bool)
    """
    return all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Value, a2: Value, equal_nan: bool = False) -> Any:
    """Are the shapes and all elements equal? False for what is no array.

    Args:
      a1, a2: arrays, or nested lists of numbers.
      equal_nan: NaN is equal to NaN.

    Returns:
      One bool, as an array.

    Example:
      >>> fnp.array_equal(fnp.array([1, 2]), [1, 2])
      Array(True, dtype=bool)
      >>> fnp.array_equal(fnp.array([1, 2]), 1)
      Array(False, dtype=bool)
    """
    pair = _fitting(a1, a2)
    if pair is None or ax.shape_of(pair[0]) != ax.shape_of(pair[1]):
        return ax.full((), False, dtypes.bool_)
    same = logic.equal(*pair)
    if equal_nan:
        same = same | (logic.isnan(pair[0]) & logic.isnan(pair[1]))
    return all(same)


def _fitting(a1: Any, a2: Any) -> list[Any] | None:
    """Two arrays that broadcast; None of what is no array, or does not."""
    try:
        pair = [x if is_value(x) else array(x, copy=False) for x in (a1, a2)]
        broadcast_shapes("array_equiv", list(map(ax.shape_of, pair)))
    except (ArgumentError, ShapeError):
        return None
    return pair


def array_equiv(a1: Value, a2: Value) -> Any:
    """Do the shapes broadcast, and are all elements equal then?

    Args:
      a1, a2: arrays, or nested lists of numbers.

    Returns:
      One bool, as an array.

    Example:
      >>> fnp.array_equiv(fnp.array([1, 1]), 1)
      Array(True, dtype=bool)
    """
    pair = _fitting(a1, a2)
    return ax.full((), False, dtypes.bool_) if pair is None else all(logic.equal(*pair))


# softmax, log_softmax and logsumexp: exponentials that are scaled before they add up.
#
#     m = max(x);  softmax = exp(x - m) / sum(exp(x - m))
#
# The maximum takes no part in the derivative. The structure is kept plain, so that each
# of them becomes one kernel. They belong to `ftrace.nn` and `ftrace.scipy.special`.


def _scalar(x: Any, value: float) -> Any:
    return ax.full((), value, x.dtype)


def _exponentials(name: str, logarithm: bool):
    @ax.takes_names
    def exponentials(x: Value, axis: ax.Axis = -1, where: Value | None = None) -> Any:
        x = ew.inexact(x)
        axes = ax.canonical_axes(axis, x.ndim, name)
        operands = [x] if where is None else [x, check_where(name, where, x.shape)]
        return run_fused(_normalize, operands, axes=axes, logarithm=logarithm)

    return exponentials


@member(_exponentials, logarithm=False)
def softmax():
    """Exponentials along `axis`, divided by their sum: exp(x)/Σ exp(x).

    The greatest element is subtracted first, so that nothing overflows.

    Args:
      x: an array of floats or complex numbers; integers become floats.
      axis: an axis, several, or None for all.
      where: a mask of the elements that count; the others give 0.

    Returns:
      Of the shape of x; along the axes it adds up to 1.

    Raises:
      AxisError: there is no such axis.
      ShapeError: the mask does not broadcast to x.

    Example:
      >>> ft.nn.softmax(fnp.array([0.0, np.log(3.0)]))
      Array([0.25, 0.75], dtype=float32)
      >>> ft.nn.softmax(fnp.array([[1000.0, 1000.0], [0.0, 50.0]]), axis=-1)
      Array([[5.0000000e-01, 5.0000000e-01],
             [1.9287499e-22, 1.0000000e+00]], dtype=float32)
    """


@member(_exponentials, logarithm=True)
def log_softmax():
    """The logarithm of `softmax`: x - log(Σ exp(x)), exact where softmax underflows.

    Args:
      x: an array of floats or complex numbers; integers become floats.
      axis: an axis, several, or None for all.
      where: a mask of the elements that count; the others give -inf.

    Returns:
      Of the shape of x.

    Raises:
      AxisError: there is no such axis.
      ShapeError: the mask does not broadcast to x.

    Example:
      >>> ft.nn.log_softmax(fnp.array([0.0, 1000.0]))
      Array([-1000.,     0.], dtype=float32)
    """


def _normalize(x: Any, *mask: Any, axes: tuple[int, ...], logarithm: bool) -> Any:
    if mask:
        x = ax.choose(mask[0], x, _scalar(x, -np.inf))
    shifted = _shift(x, axes)
    powers = bind(p.exp, shifted)
    total = add_along(powers, axes, True)
    result = shifted - bind(p.log, total) if logarithm else powers / total
    nothing = _scalar(x, -np.inf if logarithm else 0)
    return ax.choose(mask[0], result, nothing) if mask else result


def _shift(x: Any, axes: tuple[int, ...]) -> Any:
    """`x` less its maximum, of complex numbers that of their real parts.

    The maximum is constant to derivatives.
    """
    top = reduce_by(red.reduce_max_p, x.real, axes, True)
    return x - bind(p.stop_gradient, top)


@ax.takes_names
def logsumexp(
    a: Value,
    axis: ax.Axis = None,
    b: Value | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Value | None = None,
) -> Any:
    """log(sum(b·exp(a))) along `axis`, without overflow.

    Args:
      a: the array.
      axis: an axis, several, or None for all.
      b: factors; they broadcast with `a`.
      keepdims: the reduced axes stay, with size 1.
      return_sign: return (log of the absolute value, sign of the sum).
      where: a mask of the elements that count.

    Returns:
      The logarithm; NaN where the sum is negative and its sign is not asked for.

    Example:
      >>> ft.nn.logsumexp(fnp.array([1000.0, 1000.0]))
      Array(1000.6932, dtype=float32)
      >>> factors = fnp.array([1.0, -3.0])
      >>> ft.nn.logsumexp(fnp.zeros(2), b=factors, return_sign=True)  # of 1 - 3
      (Array(0.6931472, dtype=float32), Array(-1., dtype=float32))
    """
    factors = None
    if b is None:
        a = ax.as_value(a)
    else:
        a, factors = map(ax.strong, ew.promote_inexact(*ew.values_together([a, b])))
        shape = broadcast_shapes("logsumexp", [a.shape, factors.shape])
        a, factors = (ax.broadcast_to(x, shape, "logsumexp") for x in (a, factors))
    a = ew.inexact(a)
    axes = ax.canonical_axes(axis, a.ndim, "logsumexp")
    mask = check_where("logsumexp", where, a.shape)
    if factors is not None:
        mask = factors != 0 if mask is None else mask & (factors != 0)
    operands = [x for x in (a, mask, factors) if x is not None]
    options: dict[str, Any] = {
        "axes": axes, "masked": mask is not None, "scaled": factors is not None,
    }  # fmt: skip

    def part(number: int) -> Any:
        result = run_fused(_logsumexp, operands, part=number, **options)
        return result if keepdims else ax.drop_axes(result, axes)

    result, is_complex = part(0), dtypes.is_complex(a.dtype)
    if return_sign:
        return bind(p.real, result) if is_complex else result, part(1)
    if factors is None or is_complex:
        return result
    return ax.choose(part(1) < 0, _scalar(result, np.nan), result)


def _logsumexp(
    a: Any, *rest: Any, axes: tuple[int, ...], masked: bool, scaled: bool, part: int
) -> Any:
    """The logarithm (part 0) or the sign (part 1) of the sum; axes are kept."""
    size = a.real
    if masked:
        a = ax.choose(rest[0], a, _scalar(a, -np.inf))
        size = ax.choose(rest[0], size, _scalar(size, -np.inf))
    top = finite_maximum(size, axes)
    powers = bind(p.exp, a - top)
    if scaled:
        powers = powers * rest[-1]
    total = add_along(powers, axes, True)
    if part:
        return bind(p.sign, total)
    if scaled and not dtypes.is_complex(a.dtype):
        total = bind(p.absolute, total)
    return bind(p.log, total) + top


def finite_maximum(x: Any, axes: tuple[int, ...]) -> Any:
    """The maximum, constant to derivatives; 0 where it is infinite or NaN."""
    top = bind(p.stop_gradient, reduce_by(red.reduce_max_p, x, axes, True))
    return ax.choose(bind(p.is_finite, top), top, _scalar(top, 0))


def log_sum_exp(x: Any, axes: tuple[int, ...]) -> Any:
    """log(sum(exp(x))) of a real value; the axes stay."""
    return _logsumexp(x, axes=axes, masked=False, scaled=False, part=0)
