"""Functions given by numbers: convolution, interpolation, polynomials and their roots.

A polynomial is a vector of coefficients, the highest power first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import perm
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError, ShapeError, ValueRangeError, one_of
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.numpy.arithmetic import remainder
from ftrace.numpy.cumulative import cumsum
from ftrace.numpy.factorizations import eigvals
from ftrace.numpy.joining import concatenate, unstack
from ftrace.numpy.linalg import epsilon, inv, lstsq
from ftrace.numpy.linear import contract, matmul, outer, product
from ftrace.numpy.matrices import vander
from ftrace.numpy.shape import atleast_1d, ravel
from ftrace.numpy.sorting import argsort, searchsorted
from ftrace.trace.bind import broadcast_shapes
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "convolve", "correlate", "diff", "ediff1d", "gradient", "interp", "poly",
    "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub",
    "polyval", "roots", "trapezoid", "unwrap",
]  # fmt: skip


# Convolution.


@product
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """The convolution of two vectors: y[n] = Σ a[k]·v[n - k].

    Args:
      a, v: vectors.
      mode: "full", "same" (as long as the longer), or "valid" (full overlap only).
      precision: accepted; products are always as precise as their dtype.
      preferred_element_type: the dtype to add up in.

    Returns:
      A vector of floats; of n + m - 1 elements where the mode is "full".

    Raises:
      ShapeError: an operand is no vector, or empty.
      ValueRangeError: there is no such mode.

    Example:
      >>> fnp.convolve(fnp.array([1, 2, 3]), fnp.array([1, 10]))
      Array([ 1., 12., 23., 30.], dtype=float32)
      >>> fnp.convolve(fnp.array([1, 2, 3]), fnp.array([1, 10]), mode="valid")
      Array([12., 23.], dtype=float32)
    """
    return _convolve("convolve", a, v, mode)


@product
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """The correlation of two vectors: y[n] = Σ a[n + k]·conj(v[k]).

    Args:
      a, v: vectors.
      mode: "full", "same" (as long as the longer), or "valid" (full overlap only).
      precision: accepted; products are always as precise as their dtype.
      preferred_element_type: the dtype to add up in.

    Returns:
      A vector of floats.

    Raises:
      ShapeError: an operand is no vector, or empty.
      ValueRangeError: there is no such mode.

    Example:
      >>> fnp.correlate(fnp.array([1, 2, 3]), fnp.array([1, 10]))
      Array([21., 32.], dtype=float32)
    """
    other = ax.flip(ew.conjugate(_vector("correlate", v)), (0,))
    return _convolve("correlate", a, other, mode)


def _vector(name: str, x: Value) -> Any:
    x = ax.as_value(x)
    if x.ndim != 1 or x.shape[0] == 0:
        raise ShapeError(f"{name} takes two vectors that are not empty, got {x.shape}")
    return x


def _convolve(name: str, a: Any, v: Any, mode: str) -> Any:
    one_of(f"{name}: mode", mode, ("full", "same", "valid"))
    x, y = ew.promote_inexact(_vector(name, a), _vector(name, v))
    swapped = y.shape[0] > x.shape[0]
    x, y = (y, x) if swapped else (x, y)
    reach = y.shape[0]
    before = {"full": reach - 1, "same": reach // 2, "valid": 0}[mode]
    after = reach - 1 - before if mode == "same" else before
    if swapped and name == "correlate":  # NumPy's result is turned round
        before, after = after, before

    return run_fused(_slide, [x, y], name=name, before=before, after=after)


def _slide(x: Any, y: Any, name: str, before: int, after: int) -> Any:
    """The sums of products at each place of the second vector, turned round."""
    lanes = ax.slide(ax.pad(x, ((before, after, 0),)), 0, ax.Window(y.shape[0]))
    return contract(name, lanes, ax.flip(y, (0,)), "kn", "k", "n")


# Differences and sums of neighbours.


def _slice(x: Any, axis: int, start: int | None, stop: int | None = None) -> Any:
    """`x[start:stop]` along an axis."""
    return x[(slice(None),) * axis + (slice(start, stop),)]


def _neighbours(x: Any, axis: int) -> tuple[Any, Any]:
    """All elements along an axis but the last, and those that stand behind them."""
    return _slice(x, axis, None, -1), _slice(x, axis, 1)


def diff(
    a: Value,
    n: int = 1,
    axis: int = -1,
    prepend: Value | None = None,
    append: Value | None = None,
) -> Any:
    """The differences of neighbours along an axis, n times; of bools `!=`.

    Args:
      a: the array.
      n: how often.
      axis: along which.
      prepend, append: a number, or an array, before and behind.

    Returns:
      An array shorter by n along the axis.

    Raises:
      ValueRangeError: n is negative.
      ShapeError: there are no axes.

    Example:
      >>> fnp.diff(fnp.array([1, 4, 9, 16]))
      Array([3, 5, 7], dtype=int32)
      >>> fnp.diff(fnp.array([1, 4, 9, 16]), n=2)
      Array([2, 2], dtype=int32)
      >>> fnp.diff(fnp.array([1, 4]), prepend=0)
      Array([1, 3], dtype=int32)
    """
    x = ax.as_value(a)
    n = ax.check_count(n, "diff: n")
    if n == 0:
        return x
    axis = ax.canonical_axis(axis, ax.need_axes("diff", x, 1).ndim, "diff")
    parts = [_end(prepend, x, axis), x, _end(append, x, axis)]
    x = concatenate([part for part in parts if part is not None], axis)
    take_away = logic.not_equal if x.dtype == dtypes.bool_ else ew.subtract
    for _ in range(min(n, x.shape[axis])):
        x = take_away(*reversed(_neighbours(x, axis)))
    return x


def _end(value: Value | None, x: Any, axis: int) -> Any:
    if value is None or ax.shape_of(value):
        return value
    value = ew.values_together([x, value])[1]
    return ax.broadcast_to(value, ax.with_size(x.shape, axis, 1))


def ediff1d(
    ary: Value, to_end: Value | None = None, to_begin: Value | None = None
) -> Any:
    """The differences of neighbours in the flattened array, with ends added.

    Args:
      ary: the array.
      to_end, to_begin: numbers, or arrays, behind and before.

    Returns:
      A vector.

    Example:
      >>> fnp.ediff1d(fnp.array([1, 4, 9]), to_end=0)
      Array([3, 5, 0], dtype=int32)
    """
    x = ravel(ary)
    parts = [x[1:] - x[:-1]]
    if to_begin is not None:
        parts.insert(0, ravel(ax.cast(to_begin, x.dtype)))
    if to_end is not None:
        parts.append(ravel(ax.cast(to_end, x.dtype)))
    return concatenate(parts)


def gradient(
    f: Value,
    *varargs: Value,
    axis: int | Sequence[int] | None = None,
    edge_order: int | None = None,
) -> Any:
    """Central differences inside, one-sided differences at the ends.

    Args:
      f: the values.
      *varargs: nothing, one distance for all axes, or one per axis: a distance or the
        coordinates.
      axis: the axes, by default all.
      edge_order: 1, the only one.

    Returns:
      An array of the shape of `f`; for several axes a list of arrays.

    Raises:
      ShapeError: an axis has fewer than two elements, or coordinates do not fit.
      ArgumentError: there are not as many distances as axes.

    Example:
      >>> fnp.gradient(fnp.array([1, 4, 9, 16]))
      Array([3., 4., 6., 7.], dtype=float32)
      >>> fnp.gradient(fnp.array([1, 4, 9, 16]), 2)
      Array([1.5, 2. , 3. , 3.5], dtype=float32)
    """
    one_of("gradient: edge_order", edge_order, (None, 1))
    (x,) = ew.promote_inexact(f)
    axes = ax.canonical_axes(axis, x.ndim, "gradient")
    if len(varargs) not in (0, 1, len(axes)):
        raise ArgumentError(
            f"gradient: {len(varargs)} distances for {len(axes)} axes; give one for "
            "all, or one per axis"
        )
    spacings = list(varargs) or [1.0]
    spacings = spacings * len(axes) if len(spacings) == 1 else spacings
    results: list[Any] = []
    for place, spacing in zip(axes, spacings, strict=True):
        if x.shape[place] < 2:
            raise ShapeError(
                f"gradient: axis {place} of an array of shape {x.shape} needs at least "
                "two elements"
            )
        results.append(_gradient_along(x, spacing, place))
    return results[0] if len(results) == 1 else results


def _gradient_along(x: Any, spacing: Value, axis: int) -> Any:
    size = x.shape[axis]
    if not ax.shape_of(spacing):
        first = _slice(x, axis, 1, 2) - _slice(x, axis, 0, 1)
        inner = (_slice(x, axis, 2) - _slice(x, axis, None, -2)) / 2
        last = _slice(x, axis, -1) - _slice(x, axis, -2, -1)
        return concatenate([part / spacing for part in (first, inner, last)], axis)
    ax.need_shape(spacing, f"gradient: the coordinates of axis {axis}", (size,))
    steps = diff(spacing)
    steps = ax.reshape(steps, ax.line(x.ndim, axis, size - 1))
    slopes = diff(x, axis=axis) / steps
    (left, right), (before, behind) = (_neighbours(v, axis) for v in (steps, slopes))
    inner = (before * right + behind * left) / (left + right)
    ends = _slice(slopes, axis, 0, 1), _slice(slopes, axis, -1)
    return concatenate([ends[0], inner, ends[1]], axis)


def trapezoid(y: Value, x: Value | None = None, dx: Value = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule.

        Σ (x[k+1] - x[k])·(y[k] + y[k+1]) / 2

    Args:
      y: the values.
      x: their coordinates, of the same shape or a vector; else they are `dx` apart.
      dx: the distance, or what broadcasts to those between neighbours.
      axis: along which to integrate.

    Returns:
      An array without the axis; float32 for integers.

    Example:
      >>> fnp.trapezoid(fnp.array([1, 2, 4]))
      Array(4.5, dtype=float32)
      >>> fnp.trapezoid(fnp.array([1, 2, 4]), x=fnp.array([0, 2, 3]))
      Array(6., dtype=float32)
    """
    if x is None:
        (y,) = ew.promote_inexact(y)
        if not hasattr(dx, "dtype"):  # a number, with all its bits
            _, dx = ew.promote_inexact(y, dx)
    else:
        y, x = ew.promote_inexact(y, x)
    along = axis
    axis = ax.canonical_axis(axis, y.ndim, "trapezoid")
    if x is not None:
        dx = diff(x, axis=along if x.ndim > 1 else 0)
        dx = dx if x.ndim > 1 else ax.reshape(dx, ax.line(y.ndim, axis, dx.shape[0]))
    return run_fused(_trapezoid, [y, dx], axis=axis)


def _trapezoid(y: Any, dx: Any, axis: int) -> Any:
    before, after = _slice(y, axis, 0, -1), _slice(y, axis, 1)
    return (dx * (after + before)).sum(axis) * 0.5


def interp(
    x: Value,
    xp: Value,
    fp: Value,
    left: Value | str | None = None,
    right: Value | str | None = None,
    period: Value | None = None,
) -> Any:
    """The broken line through the points (xp, fp), at x.

    Args:
      x: where to evaluate.
      xp: a vector in ascending order.
      fp: the values at `xp`.
      left, right: the value outside; by default the nearest of `fp`. "extrapolate"
        continues the line.
      period: of `x` and `xp`, which are wrapped by it and sorted; then nothing is
        outside.

    Returns:
      An array of the shape of `x`.

    Raises:
      ShapeError: `xp` and `fp` are not vectors of one length.
      DtypeError: `x` or `xp` is complex.
      ValueRangeError: the period is 0.

    Example:
      >>> xp, fp = fnp.array([0, 1, 3]), fnp.array([0, 10, 30])
      >>> fnp.interp(fnp.array([0.5, 2, 9]), xp, fp)
      Array([ 5., 20., 30.], dtype=float32)
      >>> fnp.interp(4, xp, fp, right="extrapolate")
      Array(40., dtype=float32)
    """
    ax.need_shape(fp, "interp: fp", ax.vector(xp, "interp: xp").shape)
    x, xp = ew.promote_inexact(x, xp)
    ew.refuse_complex("interp", x, instead="; they have no order: give real parts")
    (fp,) = ew.promote_inexact(fp)
    size = xp.shape[0]
    if size == 0:
        raise ShapeError("interp: xp must not be empty")
    if period is not None:
        x, xp, fp = _wrap(x, xp, fp, period)
        size, left, right = size + 2, None, None

    result = _on_line(x, xp, fp, size)
    for value, end, beyond in ((left, 0, logic.less), (right, size - 1, logic.greater)):
        if isinstance(value, str):
            one_of("interp: left and right", value, ("extrapolate",))
            continue
        outer = fp[end] if value is None else value
        result = ax.choose(beyond(x, xp[end]), outer, result)
    return result


def _on_line(x: Any, xp: Any, fp: Any, size: int) -> Any:
    """The broken line at x, of which the first and the last piece have no end."""
    behind = logic.clip(searchsorted(xp, x, side="right"), 1, max(size - 1, 1))
    before, behind = behind - 1, logic.minimum(behind, size - 1)
    start, low = xp[before], fp[before]
    length = xp[behind] - start
    # Two points of one coordinate: no slope, and no division by zero.
    flat = length == 0
    slope = (fp[behind] - low) / ax.choose(flat, 1, length)
    return ax.choose(flat, low, low + slope * (x - start))


def _wrap(x: Any, xp: Any, fp: Any, period: Value) -> tuple[Any, Any, Any]:
    """Where to evaluate, inside one period, and the points with a neighbour beyond."""
    if isinstance(period, (int, float)) and period == 0:
        raise ValueRangeError("interp: period must not be 0")
    period = ew.absolute(period)
    x, xp = remainder(x, period), remainder(xp, period)
    order = argsort(xp)
    xp, fp = xp[order], fp[order]
    xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
    return x, xp, concatenate([fp[-1:], fp, fp[:1]])


def unwrap(
    p: Value, discont: Value | None = None, axis: int = -1, period: Value = 2 * math.pi
) -> Any:
    """Angles without jumps: neighbours differ by at most half a period.

    Args:
      p: the angles.
      discont: smaller jumps stay; None is half a period.
      axis: along which.
      period: what makes no difference; 2π by default.

    Returns:
      An array of the shape of `p`.

    Example:
      >>> fnp.unwrap(fnp.array([0, 3, 1, 4]), period=4)
      Array([ 0, -1, -3, -4], dtype=int32)
    """
    x = ax.as_value(p)
    whole = all(dtypes.is_integer(aval_of(v).dtype) for v in (x, period))
    if not whole and not dtypes.is_inexact(x.dtype):
        x = ax.cast(x, dtypes.default_dtype("f"))
    if x.size == 0:
        return x
    axis = ax.canonical_axis(axis, x.ndim, "unwrap")
    half = period // 2 if whole else ew.divide(period, 2)
    steps = diff(x, axis=axis)
    low = ew.subtract(0, half)
    wrapped = remainder(steps - low, period) + low
    # A jump up by exactly half a period stays one up.
    wrapped = ax.choose((wrapped == low) & (steps > 0), half, wrapped)
    limit = half if discont is None else discont
    correction = ax.choose(logic.less(abs(steps), limit), 0, wrapped - steps)
    rest = _slice(x, axis, 1) + cumsum(correction, axis)
    return concatenate([_slice(x, axis, 0, 1), ax.cast(rest, x.dtype)], axis)


def polyval(p: Value, x: Value, *, unroll: int = 16) -> Any:
    """The polynomial with coefficients p, highest power first, at x: Horner's rule.

    Args:
      p: (n,) coefficients; further axes broadcast with `x`.
      x: where to evaluate.
      unroll: accepted, without effect.

    Returns:
      An array of the shape of `x`, in the common dtype.

    Example:
      >>> fnp.polyval(fnp.array([1, 0, -2]), fnp.array([0, 3]))  # x² - 2
      Array([-2,  7], dtype=int32)
    """
    p, x = ew.promote_together(p, x)
    ax.need_axes("polyval", p, 1)
    shape = broadcast_shapes("polyval", [p.shape[1:], x.shape])
    if p.shape[0] == 0:
        return ax.full(shape, 0, p.dtype)
    first, *rest = unstack(p)
    result = ax.broadcast_to(first, shape)
    for coefficient in rest:
        result = result * x + coefficient
    return result


def _align(name: str, a1: Value, a2: Value) -> tuple[Any, Any]:
    """Two polynomials of one length: zeros for the powers that one lacks."""
    first, second = (
        ax.vector(atleast_1d(x), f"{name}: a polynomial")
        for x in ew.promote_together(a1, a2)
    )
    length = max(first.shape[0], second.shape[0])
    grown = [ax.pad(p, ((length - p.shape[0], 0, 0),)) for p in (first, second)]
    return grown[0], grown[1]


def polyadd(a1: Value, a2: Value) -> Any:
    """The sum of two polynomials.

    Args:
      a1, a2: vectors of coefficients, highest power first.

    Returns:
      A vector, as long as the longer of them.

    Raises:
      ShapeError: an operand is no vector.

    Example:
      >>> fnp.polyadd(fnp.array([1, 2]), fnp.array([1, 0, 3]))
      Array([1, 1, 5], dtype=int32)
    """
    return ew.add(*_align("polyadd", a1, a2))


def polysub(a1: Value, a2: Value) -> Any:
    """The difference of two polynomials.

    Args:
      a1, a2: vectors of coefficients, highest power first.

    Returns:
      A vector, as long as the longer of them.

    Raises:
      ShapeError: an operand is no vector.

    Example:
      >>> fnp.polysub(fnp.array([1, 2]), fnp.array([1, 0, 3]))
      Array([-1,  1, -1], dtype=int32)
    """
    return ew.subtract(*_align("polysub", a1, a2))


def polymul(a1: Value, a2: Value, *, trim_leading_zeros: bool = False) -> Any:
    """The product of two polynomials, with coefficients in a float dtype.

    Args:
      a1, a2: vectors of coefficients, highest power first.
      trim_leading_zeros: take zeros in front away first; the values must be known.

    Returns:
      A vector of n + m - 1 floats.

    Example:
      >>> fnp.polymul(fnp.array([1, 1]), fnp.array([1, -1]))
      Array([ 1.,  0., -1.], dtype=float32)
    """
    first, second = ew.promote_inexact(atleast_1d(a1), atleast_1d(a2))
    if trim_leading_zeros:
        first, second = _trim(first), _trim(second)
    if 0 in (first.shape[0], second.shape[0]):
        return ax.full((1,), 0, first.dtype)
    return convolve(first, second)


def _trim(p: Any) -> Any:
    (places,) = np.nonzero(np.asarray(p))
    return p[int(places[0]) if places.size else p.shape[0] :]


def polydiv(u: Value, v: Value, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """The quotient and the remainder of two polynomials.

    Args:
      u: coefficients of the dividend, highest power first.
      v: those of the divisor.
      trim_leading_zeros: take zeros in front of the remainder away; the values must be
        known.

    Returns:
      (quotient, remainder): vectors of floats.

    Raises:
      ShapeError: the divisor is empty, or one of them no vector.

    Example:
      >>> fnp.polydiv(fnp.array([1, 0, -1]), fnp.array([1, 1]))
      (Array([ 1., -1.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    pairs = (u, "polydiv: u"), (v, "polydiv: v")
    given = [ax.vector(atleast_1d(x), what) for x, what in pairs]
    rest, divisor = ew.promote_inexact(*given)
    if divisor.shape[0] == 0:
        raise ShapeError("polydiv: the divisor has no coefficients")
    steps = rest.shape[0] - divisor.shape[0] + 1
    if steps < 1:
        return ax.full((1,), 0, rest.dtype), rest
    found: list[Any] = []
    for i in range(steps):
        factor = rest[i : i + 1] / divisor[:1]
        found.append(factor)
        rest = rest - ax.pad(factor * divisor, ((i, steps - 1 - i, 0),))
    if trim_leading_zeros:
        rest = _trim(rest)
    return concatenate(found), rest


def polyder(p: Value, m: int = 1) -> Any:
    """The m-th derivative of a polynomial.

    Args:
      p: (n,) coefficients, highest power first.
      m: how often.

    Returns:
      (n - m,) floats.

    Raises:
      ValueRangeError: m is negative.
      ShapeError: p is no vector.

    Example:
      >>> fnp.polyder(fnp.array([1, 2, 3]))
      Array([2., 2.], dtype=float32)
    """
    m = ax.check_count(m, "polyder: m")
    (p,) = ew.promote_inexact(ax.vector(p, "polyder: p"))
    if m == 0:
        return p
    size = p.shape[0]
    if size <= m:
        return ax.full((0,), 0, p.dtype)
    factors = [float(perm(power, m)) for power in range(size - 1, m - 1, -1)]
    return p[: size - m] * _row(factors, p)


def polyint(p: Value, m: int = 1, k: Value | None = None) -> Any:
    """The m-th integral of a polynomial.

    Args:
      p: (n,) coefficients, highest power first.
      m: how often.
      k: the m constants, or one for all; None are zeros.

    Returns:
      (n + m,) floats.

    Raises:
      ValueRangeError: m is negative.
      ShapeError: p is no vector, or there are not m constants.

    Example:
      >>> fnp.polyint(fnp.array([3, 2]), k=5)
      Array([1.5, 2. , 5. ], dtype=float32)
    """
    m = ax.check_count(m, "polyint: m")
    (p,) = ew.promote_inexact(ax.vector(p, "polyint: p"))
    constants = ax.full((m,), 0, p.dtype) if k is None else ravel(k)
    if constants.shape[0] == 1 and m > 1:
        constants = ax.broadcast_to(constants, (m,))
    ax.need_shape(constants, f"polyint: with m={m} the constants", (m,))
    for i in range(m):
        divisors = [float(n) for n in range(p.shape[0], 0, -1)]
        constant = ax.cast(constants[i : i + 1], p.dtype)
        p = concatenate([p / _row(divisors, p), constant])
    return p


def _row(values: list[float], like: Any) -> Any:
    return ax.cast(ax.as_value(np.asarray(values, np.float64)), like.dtype)


# Roots, and fits.


def poly(seq_of_zeros: Value) -> Any:
    """The polynomial with these roots and the leading coefficient 1.

    Args:
      seq_of_zeros: (n,); or a matrix (n, n), whose eigenvalues are taken.

    Returns:
      (n + 1,) floats, complex where the roots are; without roots, the number 1.

    Raises:
      ShapeError: it is neither.

    Example:
      >>> fnp.poly(fnp.array([1, 2]))
      Array([ 1., -3.,  2.], dtype=float32)
    """
    (x,) = ew.promote_inexact(atleast_1d(seq_of_zeros))
    if x.ndim == 2 and x.shape[0] == x.shape[1] and x.shape[0]:
        x = eigvals(x)
    if x.ndim != 1:
        raise ShapeError(
            f"poly takes a vector, or a square matrix that is not empty; got {x.shape}"
        )
    one = ax.full((1,), 1, x.dtype)
    if not x.shape[0]:
        return ax.reshape(one, ())
    zero, result = ax.full((1,), 0, x.dtype), one
    for i in range(x.shape[0]):
        shifted = concatenate([zero, result])
        result = concatenate([result, zero]) - x[i] * shifted
    return result


def roots(p: Value, *, strip_zeros: bool = True) -> Any:
    """The roots of a polynomial: the eigenvalues of its companion matrix.

    Args:
      p: (n,) coefficients, or one.
      strip_zeros: zeros at the ends are taken away, so that there are as many roots as
        the degree says; their number must be known. Without it there are n - 1, of
        which those that do not exist are NaN and the last.

    Returns:
      A vector of complex numbers.

    Raises:
      ShapeError: p has several axes.
      ConcretizationTypeError: zeros are stripped, and p is traced.

    Example:
      >>> fnp.sort(fnp.roots(fnp.array([1, -3, 2])).real).round(3)  # x² - 3x + 2
      Array([1., 2.], dtype=float32)
    """
    (x,) = ew.promote_inexact(ax.vector(atleast_1d(p), "roots: p"))
    size = x.shape[0]
    if size < 2:
        return ax.full((0,), 0, dtypes.complex_dtype(x.dtype))
    if not strip_zeros:
        leading = logic.equal(x, 0).cumprod().sum()
        filled = ax.choose(leading == size, 1, x)
        places = ax.iota(dtypes.int32, (size,), 0) + leading
        found = _roots(filled[places % size])  # leading zeros go to the end
        found = found[argsort(found == 0)]
        exists = ax.iota(dtypes.int32, (size - 1,), 0) < size - 1 - leading
        return ax.choose(exists, found, complex(np.nan, np.nan))
    (places,) = np.nonzero(np.asarray(x))
    if not places.size:
        return ax.full((0,), 0, dtypes.complex_dtype(x.dtype))
    first, last = int(places[0]), int(places[-1])
    found = _roots(x[first : last + 1])
    return concatenate([found, ax.full((size - 1 - last,), 0, found.dtype)])


def _roots(p: Any) -> Any:
    """Those of a polynomial whose first coefficient is not 0."""
    degree = p.shape[0] - 1
    if not degree:
        return ax.full((0,), 0, dtypes.complex_dtype(p.dtype))
    below: Any = np.eye(degree - 1, degree, dtype=p.dtype)
    return eigvals(concatenate([-p[None, 1:] / p[0], below]))


def polyfit(
    x: Value,
    y: Value,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Value | None = None,
    cov: bool | str = False,
) -> Any:
    """The polynomial of a degree that is nearest to points, by least squares.

    Args:
      x: (m,).
      y: (m,) or (m, k).
      deg: the degree.
      rcond: singular values below `rcond` times the greatest count as zero; by default
        m·ε.
      full: return (p, residuals, rank, singular values, rcond).
      w: (m,) weights of the points.
      cov: return (p, covariance of p); "unscaled" for weights that are 1/σ.

    Returns:
      p: (deg + 1,) or (deg + 1, k).

    Raises:
      ShapeError: the shapes do not fit.
      ValueRangeError: deg is negative, or there are too few points for a covariance.

    Example:
      >>> fnp.polyfit(fnp.array([0, 1, 2]), fnp.array([1, 3, 5]), 1).round(3)  # 2x + 1
      Array([2., 1.], dtype=float32)
    """
    count = ax.check_count(deg, "polyfit: deg") + 1
    places, values = ew.promote_inexact(x, y)
    size = places.shape[0] if places.ndim == 1 else 0
    if not size or values.ndim not in (1, 2) or values.shape[0] != size:
        raise ShapeError(
            "polyfit: x must be (m,) and y (m,) or (m, k), with m > 0; got shapes "
            f"{places.shape} and {values.shape}"
        )
    limit = size * epsilon(places) if rcond is None else rcond
    rows = vander(places, count)
    if w is not None:
        weights = ax.cast(ax.need_shape(w, "polyfit: w", (size,)), places.dtype)
        rows = rows * weights[:, None]
        values = values * (weights[:, None] if values.ndim == 2 else weights)
    scale = ew.sqrt((rows * rows).sum(0))
    rows = rows / scale
    found, residuals, rank, singular = lstsq(rows, values, limit)
    found = found / (scale[:, None] if values.ndim == 2 else scale)
    if full:
        return found, residuals, rank, singular, ax.cast(limit, places.dtype)
    if not cov:
        return found
    spread = inv(matmul(rows.T, rows)) / outer(scale, scale)
    if cov != "unscaled":
        if size <= count:
            raise ValueRangeError(
                f"polyfit: a covariance needs more than {count} points, got {size}; "
                'write cov="unscaled"'
            )
        factor = residuals / (size - count)
        spread = spread[:, :, None] * factor if values.ndim == 2 else spread * factor
    return found, spread
