"""Moments: mean, variance, standard deviation, average, covariance, correlation.

The variance takes two passes: the mean, then the squared distances from it. Integers
become float32; float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError
from ftrace.numpy import axes as ax, elementwise as ew, reductions
from ftrace.numpy.creation import dtype_or
from ftrace.numpy.joining import concatenate
from ftrace.numpy.linear import diagonal_of, dot_axes
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.function_objects import member
from ftrace.trace.primitives import broadcast as bc, elementwise as p
from ftrace.trace.symbolic import is_dynamic
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "average", "corrcoef", "cov", "mean", "nanmean", "nanstd", "nanvar", "std", "var",
]  # fmt: skip

Dtype = Any


def _natural(a: Any) -> np.dtype[Any]:
    """The dtype of a mean."""
    return dtypes.to_inexact(dtypes.strong_dtype(a.dtype, a.weak_type))


@ax.takes_names
def mean(
    a: Value,
    axis: ax.Axis = None,
    dtype: Dtype = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Value | None = None,
) -> Any:
    """The mean of the elements along `axis`, or of all.

    Args:
      a: the array.
      axis: an axis, several, or None for all.
      dtype: in which to compute, and of the result.
      out: not supported.
      keepdims: the reduced axes stay, with size 1.
      where: a mask of the elements that count; it broadcasts to `a`.

    Returns:
      An array without the reduced axes, in the dtype of `a`; float32 for integers and
      bools, where NumPy has float64. NaN where there are no elements.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> x = fnp.array([[1, 2], [3, 4]])
      >>> fnp.mean(x)
      Array(2.5, dtype=float32)
      >>> fnp.mean(x, axis=0)
      Array([2., 3.], dtype=float32)
    """
    return _mean_over("mean", a, axis, dtype, out, keepdims, where)


@ax.takes_names
def nanmean(
    a: Value,
    axis: ax.Axis = None,
    dtype: Dtype = None,
    out: None = None,
    keepdims: bool = False,
    where: Value | None = None,
) -> Any:
    """The mean of the elements that are not NaN; NaN where there are none.

    Args:
      a: the array.
      axis: an axis, several, or None for all.
      dtype: in which to compute, and of the result.
      out: not supported.
      keepdims: the reduced axes stay, with size 1.
      where: a mask of the elements that count; it broadcasts to `a`.

    Returns:
      An array without the reduced axes, in the dtype of `a`; float32 for integers and
      bools, where NumPy has float64.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> fnp.nanmean(fnp.array([1.0, fnp.nan, 3.0]))
      Array(2., dtype=float32)
    """
    a, where = reductions.mask_nans("nanmean", a, where)
    return _mean_over("nanmean", a, axis, dtype, out, keepdims, where)


def _mean_over(
    name: str,
    a: Value,
    axis: ax.Axis,
    dtype: Dtype,
    out: None,
    keepdims: bool,
    where: Value | None,
) -> Any:
    ax.no_out(name, out)
    a = ax.as_value(a)
    final = dtype_or(dtype, _natural(a))
    along = reductions.over(name, a, axis, keepdims, where)
    return ax.cast(_mean(a, along, dtypes.summing_dtype(final)), final)


def _mean(a: Any, along: reductions.Over, dtype: np.dtype[Any]) -> Any:
    total = reductions.masked_reduce(bc.reduce_sum_p, a, along, dtype)
    return elementwise(p.div, total, count_elements(a.shape, along, dtype))


def count_elements(
    shape: tuple[int, ...], along: reductions.Over, dtype: np.dtype[Any]
) -> Any:
    """How many elements each result of a reduction is made of."""
    if along.mask is None:
        count = prod(shape[a] for a in along.axes)
        return count if is_dynamic(count) else float(count)
    hits = ax.cast(along.mask, dtypes.real_dtype(dtype))
    return ax.cast(reductions.add_along(hits, along.axes, along.keepdims), dtype)


def _spread(name: str, root: bool):
    @ax.takes_names
    def spread(
        a: Value,
        axis: ax.Axis = None,
        dtype: Dtype = None,
        out: None = None,
        ddof: Value = 0,
        keepdims: bool = False,
        *,
        where: Value | None = None,
        mean: Value | None = None,
        correction: Value | None = None,
    ) -> Any:
        """A measure of how far elements are from their mean.

        Args:
          a: the array; of complex numbers the distances count.
          axis: an axis, several, or None for all.
          dtype: in which to compute, and of the result.
          out: not supported.
          ddof: what is taken off the count n that divides: n - ddof.
          keepdims: the reduced axes stay, with size 1.
          where: a mask of the elements that count; it broadcasts to `a`.
          mean: the mean, if it is known, with the reduced axes kept.
          correction: the array API's name of `ddof`.

        Returns:
          A real array without the reduced axes; float32 for integers, where NumPy has
          float64. NaN where n - ddof is not positive.

        Raises:
          AxisError: there is no such axis.
          ValueRangeError: both `ddof` and `correction` are given.
        """
        ax.no_out(name, out)
        if correction is not None and not (isinstance(ddof, int) and ddof == 0):
            raise ValueRangeError(f"{name}: give ddof or correction, not both")
        a = ax.as_value(a)
        lost = ddof if correction is None else correction
        _, axes, _, mask = reductions.over(name, a, axis, keepdims, where)
        wanted = dtype_or(dtype, _natural(a))
        if dtypes.is_complex(a.dtype) and not dtypes.is_complex(wanted):
            raise ValueRangeError(
                f"{name}: an array of {a.dtype.name} with dtype={wanted}: take the "
                "real part first, or give a complex dtype"
            )
        operands = [a, *[x for x in (mask, mean) if x is not None]]
        if not isinstance(lost, (int, float)):
            ax.scalar_type(lost, f"{name}: ddof")
            operands.append(lost)
            lost = 0
        final = dtypes.real_dtype(wanted) if dtype is None else wanted
        result = run_fused(
            _mean_square, operands, axes=axes, dtype=dtypes.summing_dtype(wanted),
            ddof=lost, has_where=mask is not None, has_mean=mean is not None,
        )  # fmt: skip
        result = ax.cast(result if keepdims else ax.drop_axes(result, axes), final)
        return elementwise(p.sqrt, result) if root else result

    return spread


def _spread_of_numbers(name: str, root: bool):
    spread_of_all = _spread(name, root)

    @ax.takes_names
    def spread(
        a: Value,
        axis: ax.Axis = None,
        dtype: Dtype = None,
        out: None = None,
        ddof: Value = 0,
        keepdims: bool = False,
        where: Value | None = None,
        mean: Value | None = None,
    ) -> Any:
        """A measure of how far what is not NaN is from its mean.

        Args:
          a: the array; of complex numbers the distances count.
          axis: an axis, several, or None for all.
          dtype: in which to compute, and of the result.
          out: not supported.
          ddof: what is taken off the count n that divides: n - ddof.
          keepdims: the reduced axes stay, with size 1.
          where: a mask of the elements that count; it broadcasts to `a`.
          mean: the mean, if it is known, with the reduced axes kept.

        Returns:
          A real array without the reduced axes; float32 for integers, where NumPy has
          float64. NaN where n - ddof is not positive.

        Raises:
          AxisError: there is no such axis.
        """
        a, where = reductions.mask_nans(name, a, where)
        return spread_of_all(
            a, axis, dtype, out, ddof, keepdims, where=where, mean=mean
        )

    return spread


@member(_spread, root=False)
def var():
    """The variance along `axis`, or of all: the mean square distance from the mean.

    Example:
      >>> x = fnp.array([[1, 3], [2, 6]])
      >>> fnp.var(x, axis=1)
      Array([1., 4.], dtype=float32)
      >>> fnp.var(x, axis=1, ddof=1)
      Array([2., 8.], dtype=float32)
    """


@member(_spread, root=True)
def std():
    """The standard deviation along `axis`, or of all: the square root of the variance.

    Example:
      >>> fnp.std(fnp.array([[1, 3], [2, 6]]), axis=1)
      Array([1., 2.], dtype=float32)
    """


@member(_spread_of_numbers, root=False)
def nanvar():
    """The variance of the elements that are not NaN.

    Example:
      >>> fnp.nanvar(fnp.array([1.0, fnp.nan, 3.0]))
      Array(1., dtype=float32)
    """


@member(_spread_of_numbers, root=True)
def nanstd():
    """The standard deviation of the elements that are not NaN.

    Example:
      >>> fnp.nanstd(fnp.array([1.0, fnp.nan, 3.0]))
      Array(1., dtype=float32)
    """


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
    along = reductions.Over("var", axes, True, next(given) if has_where else None)
    a = ax.cast(a, dtype)
    center = ax.cast(next(given), dtype) if has_mean else _mean(a, along, dtype)
    squares = squared_magnitude(a - center)
    dtype = squares.dtype
    total = reductions.masked_reduce(bc.reduce_sum_p, squares, along, dtype)
    lost: Any = next(given, ddof)
    count: Any = prod(a.shape[axis] for axis in axes)
    if not has_where and lost is ddof:
        count = count - ddof
        divisor = ax.full((), count if count > 0 else np.nan, dtype)
    else:
        if has_where:
            count = count_elements(a.shape, along, dtype)
        count = elementwise(p.sub, count, lost)
        divisor = ax.choose(count > 0, count, np.nan)
    return total / divisor


def squared_magnitude(x: Value) -> Any:
    """|x|², without a square root for complex numbers."""
    x = ax.as_value(x)
    if not dtypes.is_complex(x.dtype):
        return x * x
    re, im = x.real, x.imag
    return re * re + im * im


def average(
    a: Value,
    axis: ax.Axis = None,
    weights: Value | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The weighted mean along `axis`, or of all: Σ w·a / Σ w.

    Args:
      a: the array.
      axis: an axis, several, or None for all.
      weights: of the shape of `a`, or of its shape along `axis`; None weighs all alike.
      returned: return (average, sum of the weights) instead.
      keepdims: the reduced axes stay, with size 1.

    Returns:
      An array without the reduced axes; float32 for integers.

    Raises:
      ShapeError: the weights do not fit.

    Example:
      >>> fnp.average(fnp.array([1, 2, 4]), weights=fnp.array([3, 1, 0]))
      Array(1.25, dtype=float32)
    """
    a = ax.as_value(a)
    axes = ax.canonical_axes(axis, a.ndim, "average")
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        total = ax.full(result.shape, prod(a.shape[i] for i in axes), result.dtype)
        return (result, total) if returned else result
    factors = ax.as_value(weights)
    dtype = dtypes.to_inexact(ew.common_type(a, factors)[0])
    factors = reductions.weights_like("average", factors, a.shape, axes, axis is None)
    a, factors = ax.cast(a, dtype), ax.cast(factors, dtype)
    weighted = reductions.add_along(a * factors, axes, keepdims)
    total = reductions.add_along(factors, axes, keepdims)
    total = ax.broadcast_to(total, weighted.shape)
    return (weighted / total, total) if returned else weighted / total


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

    Returns:
      (variables, variables), or a scalar of one variable; float32 for integers.

    Raises:
      ShapeError: an array has more than two axes, or the weights do not fit.

    Example:
      >>> fnp.cov(fnp.array([[1, 2, 3], [3, 2, 1]]))
      Array([[ 1., -1.],
             [-1.,  1.]], dtype=float32)
    """
    variables = [_variables(m, rowvar)]
    if y is not None:
        variables.append(_variables(y, rowvar or ax.shape_of(y)[:1] == (1,)))
    computed = dtypes.strong_dtype(*ew.common_type(*variables))
    computed = dtype_or(dtype, dtypes.to_inexact(computed))
    if not dtypes.is_inexact(computed):
        raise ValueRangeError(f"cov: dtype must be float or complex, got {computed}")
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


def _variables(m: Value, rowvar: bool) -> Any:
    """Observations as (variables, samples)."""
    m = ax.as_value(m)
    if m.ndim > 2:
        raise ShapeError(f"cov: at most 2 dimensions are allowed, got {m.shape}")
    if m.ndim < 2:
        return ax.reshape(m, (1, m.size))
    return m if rowvar else ax.permute(m, (1, 0))


def _sample_weights(name: str, weights: Value, samples: int) -> Any:
    weights = ax.need_shape(weights, f"cov: {name}", (samples,))
    if name == "fweights":
        ax.integers(weights, "cov: fweights")
    return ew.absolute(weights)


def _covariance(*operands: Any, variables: int, ddof: float, importance: bool) -> Any:
    x = concatenate(operands[:variables])
    weights = operands[variables:]
    if not weights:
        centered = weighted = x - _mean(x, reductions.Over("cov", (1,), True), x.dtype)
        divisor = ax.full((), max(x.shape[1] - ddof, 0), x.dtype)
    else:
        w = weights[0] if len(weights) == 1 else weights[0] * weights[1]
        count = reductions.add_along(w, (0,))
        centered = x - reductions.add_along(x * w, (1,), True) / count
        weighted = centered * w
        lost: Any = ddof
        if importance and ddof:
            squares = reductions.add_along(w * weights[-1], (0,), False)
            lost = squares * ddof / count
        divisor = count - lost
    products = dot_axes("cov", centered, ew.conjugate(weighted), ((1,), (1,)))
    return products / divisor


def corrcoef(
    x: Value, y: Value | None = None, rowvar: bool = True, dtype: Dtype = None
) -> Any:
    """The matrix of correlation coefficients of variables.

        r[i, j] = cov[i, j] / √(cov[i, i]·cov[j, j])

    Args:
      x: observations, (variables, samples), or (samples,) of one variable.
      y: more variables in the same form.
      rowvar: a row is a variable; if false, a column is.
      dtype: of the result; float or complex.

    Returns:
      (variables, variables), from -1 to 1; a scalar of one variable.

    Raises:
      ShapeError: an array has more than two axes.

    Example:
      >>> fnp.corrcoef(fnp.array([[1, 2, 3], [3, 2, 1]])).round(3)
      Array([[ 1., -1.],
             [-1.,  1.]], dtype=float32)
    """
    c = cov(x, y, rowvar, dtype=dtype)
    return c / c if c.ndim == 0 else run_fused(_normalize, [c])


def _normalize(c: Any) -> Any:
    """A covariance matrix divided by the deviations of its rows and columns."""
    variance = ax.insert_axes(diagonal_of(c, 0, 1).real, (1,))
    deviation = ax.cast(bind(p.sqrt, variance), c.dtype)
    c = c / deviation / ax.permute(deviation, (1, 0))
    if dtypes.is_complex(c.dtype):
        return bind(p.make_complex, _within_one(c.real), _within_one(c.imag))
    return _within_one(c)


def _within_one(x: Any) -> Any:
    return elementwise(p.minimum, elementwise(p.maximum, x, -1), 1)
