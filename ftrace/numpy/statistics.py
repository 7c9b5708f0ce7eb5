"""Moments: mean, variance, standard deviation, average, covariance, correlation.

The variance takes two passes: the mean, then the squared distances from it. Integers
become float32; float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, ValueRangeError
from ftrace.numpy import axes as ax
from ftrace.numpy.axes import Axis
from ftrace.numpy.linear import dot_axes
from ftrace.numpy.reductions import (
    check_where,
    chosen_dtype,
    masked_reduce,
    present,
    reduced,
    widened,
    without_nan,
)
from ftrace.trace.avals import pairs_of
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.dispatch import member
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.symbolic.dim import is_dynamic
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "average", "corrcoef", "cov", "mean", "nanmean", "nanstd", "nanvar", "std", "var",
]  # fmt: skip

Dtype = Any


def mean(
    a: Value,
    axis: Axis = None,
    dtype: Dtype = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Value | None = None,
) -> Any:
    """The mean of the elements along `axis`, or of all; arguments as in `sum`."""
    ax.no_out("mean", out)
    a = ax.as_value(a)
    natural = dtypes.settled(a.dtype, a.weak_type)
    final = chosen_dtype(dtype, dtypes.to_inexact(natural))
    return ax.cast(_mean("mean", a, axis, widened(final), keepdims, where), final)


def _mean(
    name: str,
    a: Any,
    axis: Axis,
    dtype: np.dtype[Any],
    keepdims: bool,
    where: Value | None,
) -> Any:
    total = masked_reduce(name, reduce_sum_p, a, axis, dtype, keepdims, None, where)
    count = counted(name, a.shape, axis, dtype, keepdims, where)
    return elementwise(p.div, total, count)


def counted(
    name: str,
    shape: tuple[int, ...],
    axis: Axis,
    dtype: np.dtype[Any],
    keepdims: bool,
    where: Value | None,
) -> Any:
    """How many elements each result of a reduction is made of."""
    axes = ax.canonical_axes(axis, len(shape), name)
    if where is None:
        count = prod(shape[a] for a in axes)
        return count if is_dynamic(count) else float(count)
    hits = ax.cast(check_where(name, where, shape), dtypes.real_dtype(dtype))
    return ax.cast(reduced(reduce_sum_p, hits, axes, keepdims), dtype)


def nanmean(
    a: Value,
    axis: Axis = None,
    dtype: Dtype = None,
    out: None = None,
    keepdims: bool = False,
    where: Value | None = None,
) -> Any:
    """The mean of the elements that are not NaN; arguments as in `mean`."""
    ax.no_out("nanmean", out)
    a = ax.as_value(a)
    mask = present("nanmean", a, where)
    return mean(without_nan(a, 0), axis, dtype, None, keepdims, where=mask)


def _spread(name: str, root: bool):
    def spread(
        a: Value,
        axis: Axis = None,
        dtype: Dtype = None,
        out: None = None,
        ddof: Value = 0,
        keepdims: bool = False,
        *,
        where: Value | None = None,
        mean: Value | None = None,
        correction: Value | None = None,
    ) -> Any:
        ax.no_out(name, out)
        if correction is not None and not (isinstance(ddof, int) and ddof == 0):
            raise ValueRangeError(f"{name}: give ddof or correction, not both")
        a = ax.as_value(a)
        lost = ddof if correction is None else correction
        result = variance(name, a, axis, dtype, lost, keepdims, where, mean)
        return elementwise(p.sqrt, result) if root else result

    return spread


@member(_spread, root=False)
def var():
    """The variance along `axis`, or of all: the mean square distance from the mean.

    Args:
      a: the array.
      axis: an axis, several, or None for all.
      dtype: in which to compute.
      out: not supported.
      ddof: what is taken off the count that divides.
      keepdims: the reduced axes stay, with size 1.
      where: a mask of the elements that count.
      mean: the mean, if it is known, with the reduced axes kept.
      correction: the array API's name of `ddof`.
    """


@member(_spread, root=True)
def std():
    """The standard deviation: the square root of `var`, with its arguments."""


def _spread_without_nan(name: str, root: bool):
    def nan_spread(
        a: Value,
        axis: Axis = None,
        dtype: Dtype = None,
        out: None = None,
        ddof: Value = 0,
        keepdims: bool = False,
        where: Value | None = None,
        mean: Value | None = None,
    ) -> Any:
        ax.no_out(name, out)
        a = ax.as_value(a)
        mask = present(name, a, where)
        filled = without_nan(a, 0)
        result = variance(name, filled, axis, dtype, ddof, keepdims, mask, mean)
        return elementwise(p.sqrt, result) if root else result

    return nan_spread


@member(_spread_without_nan, root=False)
def nanvar():
    """The variance of the elements that are not NaN; arguments as in `var`."""


@member(_spread_without_nan, root=True)
def nanstd():
    """The square root of `nanvar`, with its arguments."""


def variance(
    name: str,
    a: Any,
    axis: Axis,
    dtype: Dtype,
    ddof: Value,
    keepdims: bool,
    where: Value | None,
    known_mean: Value | None,
) -> Any:
    axes = ax.canonical_axes(axis, a.ndim, name)
    natural = dtypes.settled(a.dtype, a.weak_type)
    wanted = chosen_dtype(dtype, dtypes.to_inexact(natural))
    if dtypes.is_complex(a.dtype) and not dtypes.is_complex(wanted):
        raise ValueRangeError(
            f"{name}: an array of {a.dtype.name} with dtype={wanted}: take the "
            "real part first, or give a complex dtype"
        )
    operands = [a]
    if where is not None:
        operands.append(check_where(name, where, a.shape))
    if known_mean is not None:
        operands.append(known_mean)
    if not isinstance(ddof, (int, float)):
        if aval_of(ddof).shape:
            raise ShapeError(f"{name}: ddof must be a number, got {aval_of(ddof)!r}")
        operands.append(ddof)
        ddof = 0
    final = dtypes.real_dtype(wanted) if dtype is None else wanted
    result = run_fused(
        _mean_square, operands, axes=axes, dtype=widened(wanted), ddof=ddof,
        has_where=where is not None, has_mean=known_mean is not None,
    )  # fmt: skip
    return ax.cast(result if keepdims else ax.drop_axes(result, axes), final)


def _mean_square(
    a: Any,
    *rest: Any,
    axes: tuple[int, ...],
    dtype: np.dtype[Any],
    ddof: float,
    has_where: bool,
    has_mean: bool,
) -> Any:
    """The mean squared distance of `a` from its mean, in two passes; axes are kept.

    A `ddof` that is not known yet is the last operand.
    """
    given = iter(rest)
    where: Any = next(given) if has_where else None
    a = ax.cast(a, dtype)
    if has_mean:
        center = ax.cast(next(given), dtype)
    else:
        center = _mean("var", a, axes, dtype, True, where)
    centered = elementwise(p.sub, a, center)
    squares = squared_magnitude(centered)
    dtype = squares.dtype
    total = masked_reduce("var", reduce_sum_p, squares, axes, dtype, True, None, where)
    lost: Any = next(given, ddof)
    count: Any = prod(a.shape[axis] for axis in axes)
    if where is None and lost is ddof:
        count = count - ddof
        divisor = ax.full((), count if count > 0 else np.nan, dtype)
    else:
        if where is not None:
            count = counted("var", a.shape, axes, dtype, True, where)
        count = elementwise(p.sub, count, lost)
        divisor = ax.choose(elementwise(p.gt, count, 0), count, np.nan)
    return elementwise(p.div, total, divisor)


def squared_magnitude(x: Value) -> Any:
    """|x|², without a square root for complex numbers."""
    x = ax.as_value(x)
    if not dtypes.is_complex(x.dtype):
        return bind(p.mul, x, x)
    re, im = bind(p.real, x), bind(p.imag, x)
    return bind(p.add, bind(p.mul, re, re), bind(p.mul, im, im))


def average(
    a: Value,
    axis: Axis = None,
    weights: Value | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The weighted mean along `axis`, or of all.

    Args:
      a: the array.
      axis: an axis, several, or None for all.
      weights: of the shape of `a`, or of its shape along `axis`; None weighs all alike.
      returned: return (average, sum of the weights) instead.
      keepdims: the reduced axes stay, with size 1.

    Raises:
      ShapeError: the weights do not fit.
    """
    a = ax.as_value(a)
    axes = ax.canonical_axes(axis, a.ndim, "average")
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        total = ax.full(result.shape, prod(a.shape[i] for i in axes), result.dtype)
        return (result, total) if returned else result
    factors = ax.as_value(weights)
    avals = [aval_of(a), aval_of(factors)]
    dtype, _ = dtypes.promote(*pairs_of(avals))
    dtype = dtypes.to_inexact(dtype)
    if factors.shape != a.shape:
        factors = _weights_along(a.shape, factors, axes, axis is None)
    a, factors = ax.cast(a, dtype), ax.cast(factors, dtype)
    total = reduced(reduce_sum_p, factors, axes, keepdims)
    products = bind(p.mul, a, ax.broadcast_to(factors, a.shape))
    weighted = reduced(reduce_sum_p, products, axes, keepdims)
    total = ax.broadcast_to(total, weighted.shape)
    result = elementwise(p.div, weighted, total)
    return (result, total) if returned else result


def _weights_along(
    shape: tuple[int, ...], weights: Any, axes: tuple[int, ...], all_axes: bool
) -> Any:
    if all_axes:
        raise ShapeError(
            f"average: the shapes of the array, {shape}, and of the weights, "
            f"{weights.shape}, differ; give axis="
        )
    wanted = tuple(shape[a] for a in axes)
    if weights.shape != wanted:
        raise ShapeError(
            f"average: the weights along the axes {axes} of {shape} must have shape "
            f"{wanted}, got {weights.shape}"
        )
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    kept = tuple(n if a in axes else 1 for a, n in enumerate(shape))
    return ax.reshape(ax.permute(weights, order), kept)


# Covariance.


def cov(
    m: Value,
    y: Value | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Value | None = None,
    aweights: Value | None = None,
    dtype: Dtype = None,
) -> Any:
    """The covariance matrix of variables.

    Args:
      m: observations, (variables, samples), or (samples,) of one variable.
      y: more variables in the same form; a single row is one variable in any case.
      rowvar: a row is a variable; if false, a column is.
      bias: divide by the number of samples, not by one less.
      ddof: what is taken off the number of samples; overrides `bias`.
      fweights: how often each sample counts; integers.
      aweights: how much each sample counts.
      dtype: of the result; float or complex.

    Raises:
      ShapeError: an array has more than two axes, or the weights do not fit.
    """
    variables = [_variables("cov", m, rowvar)]
    if y is not None:
        variables.append(_variables("cov", y, rowvar or ax.shape_of(y)[:1] == (1,)))
    avals = [aval_of(x) for x in variables]
    computed = dtypes.settled(*dtypes.promote(*pairs_of(avals)))
    computed = _inexact_argument("cov", dtype, dtypes.to_inexact(computed))
    if variables[0].shape[0] == 0:
        return ax.full((0, 0), 0, computed)  # as in NumPy, whatever there is of y
    samples = variables[0].shape[1]
    if variables[-1].shape[1] != samples:
        raise ShapeError(
            f"cov: m has {samples} samples and y has {variables[-1].shape[1]}; give as "
            "many of both"
        )
    operands = [ax.cast(x, computed) for x in variables]
    operands += [
        ax.cast(_sample_weights(name, w, samples), computed)
        for name, w in (("fweights", fweights), ("aweights", aweights))
        if w is not None
    ]
    lost = (0 if bias else 1) if ddof is None else ax.static_int(ddof, "cov: ddof")
    if samples == 0:
        count = sum(x.shape[0] for x in operands[: len(variables)])
        return ax.full(() if count == 1 else (count, count), np.nan, computed)
    result = run_fused(
        _covariance, operands, variables=len(variables), ddof=lost,
        importance=aweights is not None,
    )  # fmt: skip
    return ax.drop_axes(result, (0, 1)) if result.shape == (1, 1) else result


def _inexact_argument(name: str, dtype: Dtype, default: np.dtype[Any]) -> Any:
    chosen = chosen_dtype(dtype, default)
    if not dtypes.is_inexact(chosen):
        raise ValueRangeError(f"{name}: dtype must be float or complex, got {chosen}")
    return chosen


def _variables(name: str, m: Value, rowvar: bool) -> Any:
    """Observations as (variables, samples)."""
    m = ax.as_value(m)
    if m.ndim > 2:
        raise ShapeError(f"{name}: at most 2 dimensions are allowed, got {m.shape}")
    if m.ndim < 2:
        return ax.reshape(m, (1, m.size))
    return m if rowvar else ax.permute(m, (1, 0))


def _sample_weights(name: str, weights: Value, samples: int) -> Any:
    weights = ax.as_value(weights)
    if weights.shape != (samples,):
        raise ShapeError(
            f"cov: {name} must have shape ({samples},), one per sample, got "
            f"{weights.shape}"
        )
    if name == "fweights" and not dtypes.is_integer(weights.dtype):
        raise DtypeError(f"cov: fweights must be integers, got {weights.dtype.name}")
    return elementwise(p.absolute, weights)


def _covariance(*operands: Any, variables: int, ddof: float, importance: bool) -> Any:
    x = _stacked_rows(operands[:variables])
    weights = operands[variables:]
    if not weights:
        center = _mean("cov", x, 1, x.dtype, True, None)
        centered = weighted = elementwise(p.sub, x, center)
        divisor = ax.full((), max(x.shape[1] - ddof, 0), x.dtype)
    else:
        w = weights[0] if len(weights) == 1 else bind(p.mul, *weights)
        count = reduced(reduce_sum_p, w, (0,), False)
        total = reduced(reduce_sum_p, elementwise(p.mul, x, w), (1,), True)
        centered = elementwise(p.sub, x, elementwise(p.div, total, count))
        weighted = elementwise(p.mul, centered, w)
        lost: Any = ddof
        if importance and ddof:
            squares = reduced(reduce_sum_p, bind(p.mul, w, weights[-1]), (0,), False)
            lost = elementwise(p.div, elementwise(p.mul, squares, ddof), count)
        divisor = elementwise(p.sub, count, lost)
    if dtypes.is_complex(x.dtype):
        weighted = bind(p.conj, weighted)
    products = dot_axes("cov", centered, weighted, ((1,), (1,)))
    return elementwise(p.div, products, divisor)


def _stacked_rows(parts: Any) -> Any:
    """Two matrices of one width, one above the other."""
    if len(parts) == 1:
        return parts[0]
    upper, lower = parts
    below = ax.pad(upper, ((0, lower.shape[0], 0), (0, 0, 0)))
    above = ax.pad(lower, ((upper.shape[0], 0, 0), (0, 0, 0)))
    return bind(p.add, below, above)


def corrcoef(
    x: Value, y: Value | None = None, rowvar: bool = True, dtype: Dtype = None
) -> Any:
    """The matrix of correlation coefficients of variables; arguments as in `cov`.

    Raises:
      ShapeError: an array has more than two axes.
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return bind(p.div, c, c)
    return run_fused(_normalized, [c])


def _normalized(c: Any) -> Any:
    """A covariance matrix divided by the deviations of its rows and columns."""
    n = c.shape[0]
    rows, columns = ax.iota(dtypes.int32, (n, n), 0), ax.iota(dtypes.int32, (n, n), 1)
    diagonal = ax.choose(bind(p.eq, rows, columns), c, ax.full((), 0, c.dtype))
    variance = reduced(reduce_sum_p, diagonal, (1,), True)
    if dtypes.is_complex(c.dtype):
        variance = bind(p.real, variance)
    deviation = ax.cast(bind(p.sqrt, variance), c.dtype)
    c = elementwise(p.div, c, deviation)
    c = elementwise(p.div, c, ax.permute(deviation, (1, 0)))
    if dtypes.is_complex(c.dtype):
        parts = [_within_one(bind(part, c)) for part in (p.real, p.imag)]
        return bind(p.make_complex, *parts)
    return _within_one(c)


def _within_one(x: Any) -> Any:
    return elementwise(p.minimum, elementwise(p.maximum, x, -1), 1)
