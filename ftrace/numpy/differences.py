"""Differences and sums of neighbours: diff, gradient, trapezoid, interp, unwrap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import NoneType
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from ftrace.numpy import axes as ax
from ftrace.numpy import elementwise as ew
from ftrace.numpy.arithmetic import remainder
from ftrace.numpy.cumulative import cumsum
from ftrace.numpy.editing import along
from ftrace.numpy.joining import concatenate
from ftrace.numpy.reductions import sum as total
from ftrace.numpy.searching import searchsorted
from ftrace.numpy.selection import clip, minimum
from ftrace.numpy.shape import ravel
from ftrace.numpy.sorting import argsort
from ftrace.trace.bind import do_now
from ftrace.trace.primitives.library.linalg.lapack_numpy import are_finite
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = ["diff", "ediff1d", "gradient", "interp", "trapezoid", "unwrap"]


def _behind(x: Any, axis: int, step: int = 1) -> Any:
    return ax.shrink_axis(x, axis, min(step, x.shape[axis]), x.shape[axis])


def _before(x: Any, axis: int, step: int = 1) -> Any:
    return ax.shrink_axis(x, axis, 0, max(x.shape[axis] - step, 0))


def diff(
    a: Value,
    n: int = 1,
    axis: int = -1,
    prepend: Value | None = None,
    append: Value | None = None,
) -> Any:
    """The differences of neighbours along an axis, n times; of bools `!=`.

    Raises:
      ValueRangeError: n is negative.
      ShapeError: there are no axes.
    """
    x = ax.as_value(a)
    n = ax.static_int(n, "diff: n")
    if n < 0:
        raise ValueRangeError(f"diff: n must not be negative, got {n}")
    if n == 0:
        return x
    if x.ndim == 0:
        raise ShapeError("diff takes at least one axis, got an array without axes")
    axis = ax.canonical_axis(axis, x.ndim, "diff")
    parts = [_end(prepend, x, axis), x, _end(append, x, axis)]
    x = concatenate([part for part in parts if part is not None], axis)
    take_away = ew.not_equal if x.dtype == dtypes.bool_ else ew.subtract
    for _ in range(min(n, x.shape[axis])):
        x = take_away(_behind(x, axis), _before(x, axis))
    return x


def _end(value: Value | None, x: Any, axis: int) -> Any:
    if value is None or ax.shape_of(value):
        return value
    value = ew.values_together([x, value])[1]
    return ax.broadcast_to(value, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))


def ediff1d(
    ary: Value, to_end: Value | None = None, to_begin: Value | None = None
) -> Any:
    """The differences of neighbours in the flattened array, with ends added."""
    x = ravel(ary)
    parts = [ew.subtract(_behind(x, 0), _before(x, 0))]
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
      An array; for several axes a list of arrays.

    Raises:
      ShapeError: an axis has fewer than two elements, or coordinates do not fit.
      ArgumentError: there are not as many distances as axes.
    """
    if edge_order not in (None, 1):
        raise ValueRangeError(f"gradient: edge_order must be 1, got {edge_order}")
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
    return (
        results
        if (axis is None and len(results) != 1) or len(results) > 1
        else results[0]
    )


def _gradient_along(x: Any, spacing: Value, axis: int) -> Any:
    size = x.shape[axis]
    if not ax.shape_of(spacing):
        first = ew.divide(ew.subtract(_at(x, axis, 1), _at(x, axis, 0)), spacing)
        last = ew.divide(ew.subtract(_at(x, axis, -1), _at(x, axis, -2)), spacing)
        wide = ew.subtract(_behind(x, axis, 2), _before(x, axis, 2))
        inner = ew.divide(ew.divide(wide, 2), spacing)
        return concatenate([first, inner, last], axis)
    if ax.shape_of(spacing) != (size,):
        raise ShapeError(
            f"gradient: coordinates of shape {ax.shape_of(spacing)} for axis {axis} of "
            f"size {size}"
        )
    steps = diff(spacing)
    line = tuple(size - 1 if a == axis else 1 for a in range(x.ndim))
    steps = ax.reshape(steps, line)
    slopes = ew.divide(diff(x, axis=axis), steps)
    left, right = _before(steps, axis), _behind(steps, axis)
    weighted = ew.add(
        ew.multiply(_before(slopes, axis), right),
        ew.multiply(_behind(slopes, axis), left),
    )
    inner = ew.divide(weighted, ew.add(left, right))
    return concatenate([_at(slopes, axis, 0), inner, _at(slopes, axis, -1)], axis)


def _at(x: Any, axis: int, i: int) -> Any:
    i = i % x.shape[axis]
    return ax.shrink_axis(x, axis, i, i + 1)


def trapezoid(y: Value, x: Value | None = None, dx: Value = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule.

    Args:
      y: the values.
      x: their coordinates, of the same shape or a vector; else they are `dx` apart.
      dx: the distance.
      axis: along which to integrate.
    """
    if x is None:
        (y,) = ew.promote_inexact(y)
    else:
        y, x = ew.promote_inexact(y, x)
    y = ax.move_axis(y, ax.canonical_axis(axis, y.ndim, "trapezoid"), y.ndim - 1)
    last = y.ndim - 1
    if x is not None:
        if x.ndim > 1:
            x = ax.move_axis(
                x, ax.canonical_axis(axis, x.ndim, "trapezoid"), x.ndim - 1
            )
        dx = diff(x)
    means = ew.multiply(dx, ew.add(_behind(y, last), _before(y, last)))
    return ew.multiply(total(means, -1), 0.5)


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

    Raises:
      ShapeError: `xp` and `fp` are not vectors of one length.
      DtypeError: `x` or `xp` is complex.
      ValueRangeError: the period is 0.
    """
    if len(ax.shape_of(xp)) != 1 or ax.shape_of(xp) != ax.shape_of(fp):
        raise ShapeError(
            f"interp: xp and fp must be vectors of one length, got shapes "
            f"{ax.shape_of(xp)} and {ax.shape_of(fp)}"
        )
    x, xp = ew.promote_inexact(x, xp)
    if dtypes.is_complex(x.dtype):
        raise DtypeError(
            "interp is not defined for complex x and xp, which have no order; give "
            "their real parts"
        )
    (fp,) = ew.promote_inexact(fp)
    size = xp.shape[0]
    if size == 0:
        raise ShapeError("interp: xp must not be empty")
    if period is not None:
        x, xp, fp = _wrapped(x, xp, fp, period)
        size, left, right = size + 2, None, None
    if size > 1 and {type(left), type(right)} <= {float, int, NoneType}:
        now = _interpolated(x, xp, fp, (left, right))
        if now is not None:
            return now
    result = _on_line(x, xp, fp, size)
    for value, end, beyond in ((left, 0, ew.less), (right, size - 1, ew.greater)):
        if not _extrapolates(value):
            outer = along(fp, end, 0) if value is None else value
            result = ax.choose(beyond(x, along(xp, end, 0)), outer, result)
    return result


def _on_line(x: Any, xp: Any, fp: Any, size: int) -> Any:
    """The broken line at x, of which the first and the last piece have no end."""
    behind = clip(searchsorted(xp, x, side="right"), 1, max(size - 1, 1))
    before, behind = ew.subtract(behind, 1), minimum(behind, size - 1)
    start, low = along(xp, before, 0), along(fp, before, 0)
    length = ew.subtract(along(xp, behind, 0), start)
    rise = ew.subtract(along(fp, behind, 0), low)
    # Two points of one coordinate: no slope, and no division by zero.
    flat = ew.equal(length, 0)
    slope = ew.divide(rise, ax.choose(flat, 1, length))
    return ax.choose(flat, low, ew.add(low, ew.multiply(slope, ew.subtract(x, start))))


def _wrapped(x: Any, xp: Any, fp: Any, period: Value) -> tuple[Any, Any, Any]:
    """Where to evaluate, inside one period, and the points with a neighbour beyond."""
    if isinstance(period, (int, float)) and period == 0:
        raise ValueRangeError("interp: period must not be 0")
    period = ew.absolute(period)
    x, xp = remainder(x, period), remainder(xp, period)
    order = argsort(xp)
    xp, fp = along(xp, order, 0), along(fp, order, 0)
    before, after = ew.subtract(xp[-1:], period), ew.add(xp[:1], period)
    xp, fp = concatenate([before, xp, after]), concatenate([fp[-1:], fp, fp[:1]])
    return x, xp, fp


def _interpolated(x: Any, xp: Any, fp: Any, outer: tuple[Any, Any]) -> Any:
    """NumPy's `interp`, in 64 bits; None where not all is at hand."""
    dtype, weak = fp.dtype, x.weak_type and xp.weak_type and fp.weak_type
    if not x.dtype == xp.dtype == dtype or dtype not in (
        dtypes.float32,
        dtypes.float64,
    ):
        return None
    return do_now(_interpolated_now, x, xp, fp, dtype=dtype, weak=weak, more=outer)


_interp: Any = np.interp  # its stub knows nothing of Any


def _interpolated_now(x: Any, xp: Any, fp: Any, left: Any, right: Any) -> Any:
    """Refused at infinities and NaN, and where the last points have one coordinate."""
    if not -math.inf < xp.item(0) <= xp.item(-2) < xp.item(-1) < math.inf:
        raise ValueError
    if not are_finite(fp):
        raise ValueError
    return _interp(x, xp, fp, left, right)


def _extrapolates(value: Any) -> bool:
    if isinstance(value, str) and value != "extrapolate":
        raise ValueRangeError(f'interp: the only word is "extrapolate", got {value!r}')
    return isinstance(value, str)


def unwrap(
    p: Value, discont: Value | None = None, axis: int = -1, period: Value = 2 * math.pi
) -> Any:
    """Angles without jumps: neighbours differ by at most half a period."""
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
    wrapped = ew.add(remainder(ew.subtract(steps, low), period), low)
    # A jump up by exactly half a period stays one up.
    tie = ew.logical_and(ew.equal(wrapped, low), ew.greater(steps, 0))
    wrapped = ax.choose(tie, half, wrapped)
    correction = ew.subtract(wrapped, steps)
    limit = half if discont is None else discont
    correction = ax.choose(ew.less(ew.absolute(steps), limit), 0, correction)
    first = ax.shrink_axis(x, axis, 0, 1)
    rest = ew.add(_behind(x, axis), cumsum(correction, axis))
    return concatenate([first, ax.cast(rest, x.dtype)], axis)
