"""Products of groups: rows that belong together meet a matrix of their own.

The divided axis of the left operand holds the groups one after the other; of what lies
beyond the last of them nothing is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import ArgumentError, DtypeError, ShapeError
from ftrace.lax import options
from ftrace.lax.convolution import dot_general
from ftrace.numpy import axes as ax
from ftrace.numpy.creation import astype
from ftrace.numpy.cumulative import cumsum
from ftrace.trace.tracing.tracer import Value

__all__ = ["ragged_dot", "ragged_dot_general", "scaled_dot"]

_ROWS = options.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(
    lhs: Value,
    rhs: Value,
    group_sizes: Value,
    precision: options.PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
    out_sharding: Any = None,
) -> Any:
    """Row r of the left matrix times the matrix of the group to which r belongs.

    Args:
      lhs: (m, k).
      rhs: (groups, k, n).
      group_sizes: (groups,) integers, how many rows each has; rows after them are 0.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result, and of the sum if it holds more.
      group_offset: not supported.
      out_sharding: accepted, without effect.

    Returns:
      (m, n).

    Raises:
      ShapeError: the shapes do not fit.
      DtypeError: the sizes are not integers.
    """
    return ragged_dot_general(
        lhs, rhs, group_sizes, _ROWS, precision, preferred_element_type, group_offset
    )


def ragged_dot_general(
    lhs: Value,
    rhs: Value,
    group_sizes: Value,
    ragged_dot_dimension_numbers: options.RaggedDotDimensionNumbers,
    precision: options.PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
    out_sharding: Any = None,
) -> Any:
    """`dot_general`, one axis of which is divided into groups.

    Args:
      lhs, rhs: the arrays.
      group_sizes: (groups,) integers, or with the axes before it that the divided axis
        has of its kind: those of the batch, then others.
      ragged_dot_dimension_numbers: the axes. Where the divided axis is kept, each group
        meets its own part of `rhs`; where it is summed over, the result has a leading
        axis of groups; where it is of the batch, the sizes change nothing.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result, and of the sum if it holds more.
      group_offset: not supported.
      out_sharding: accepted, without effect.

    Raises:
      ShapeError: the shapes or the axes do not fit.
      DtypeError: the sizes are not integers.
    """
    name = "lax.ragged_dot_general"
    if group_offset is not None:
        raise ArgumentError(f"{name}: group_offset is not supported")
    x, y, sizes = (ax.as_value(v) for v in (lhs, rhs, group_sizes))
    if not dtypes.is_integer(sizes.dtype) or not sizes.ndim:
        raise DtypeError(
            f"{name}: group_sizes must be integers along an axis, got "
            f"{sizes.dtype.name} of shape {sizes.shape}"
        )
    numbers, ragged, of_groups = ragged_dot_dimension_numbers
    (of_x, of_y), (batch_x, batch_y) = [[[*side] for side in pair] for pair in numbers]
    if len(ragged) != 1:
        raise ShapeError(f"{name}: one axis of lhs is divided, got {tuple(ragged)}")
    (divided,) = ax.canonical_axes(tuple(ragged), x.ndim, name)
    kept = [i for i in range(x.ndim) if i not in (*of_x, *batch_x)]
    wanted = 1 if divided in kept else 0
    if len(of_groups) != wanted:
        raise ShapeError(
            f"{name}: rhs must have {wanted} axes of groups where the divided axis of "
            f"lhs is {'kept' if wanted else 'summed over or of the batch'}, got "
            f"{tuple(of_groups)}"
        )
    if divided in batch_x:
        summed, batch = (of_x, of_y), (batch_x, batch_y)
    elif divided in kept:
        if y.shape[of_groups[0]] != sizes.shape[-1]:
            raise ShapeError(
                f"{name}: {sizes.shape[-1]} group_sizes, but {y.shape[of_groups[0]]} "
                "groups in rhs"
            )
        before = [*batch_x, *kept[: kept.index(divided)]]
        x = _spread(name, x, divided, before, sizes)
        summed = [0, *_after(of_x)], [*of_groups, *of_y]
        batch = _after(batch_x), batch_y
    else:
        at = of_x.index(divided)
        x = _spread(name, x, divided, [*batch_x, *of_x[:at]], sizes)
        y = _spread(name, y, of_y[at], [*batch_y, *of_y[:at]], sizes)
        summed = _after(of_x), _after(of_y)
        batch = [0, *_after(batch_x)], [0, *_after(batch_y)]
    return dot_general(x, y, (summed, batch), precision, preferred_element_type)


def _after(axes: Sequence[int]) -> list[int]:
    """The axes, when a new one stands before all."""
    return [axis + 1 for axis in axes]


def _spread(name: str, x: Any, axis: int, before: Sequence[int], sizes: Any) -> Any:
    """(groups, …): for each group x where it holds that group, and 0 elsewhere."""
    count, given = sizes.shape[-1], tuple(x.shape[i] for i in before)
    if sizes.ndim > 1 and sizes.shape[:-1] != given:
        raise ShapeError(
            f"{name}: group_sizes must have the shape ({count},) or {(*given, count)}, "
            f"got {sizes.shape}"
        )
    ends = cumsum(sizes, -1)
    shape = [1] * x.ndim
    if sizes.ndim > 1:
        for i in before:
            shape[i] = x.shape[i]
        # The sizes have their axes in the order of `before`.
        order = sorted(range(len(before)), key=before.__getitem__)
        places = (len(before), *order)
        ends, sizes = ax.permute(ends, places), ax.permute(sizes, places)
    ends, sizes = (ax.reshape(v, (count, *shape)) for v in (ends, sizes))
    position = astype(ax.iota(dtypes.int32, x.shape, axis), sizes.dtype)
    mine = (position >= ends - sizes) & (position < ends)
    return ax.choose(mine, x, ax.full((), 0, x.dtype, x.weak_type))


def scaled_dot(
    lhs: Value,
    rhs: Value,
    *,
    lhs_scale: Value | None = None,
    rhs_scale: Value | None = None,
    dimension_numbers: options.DotDimensionNumbers | None = None,
    preferred_element_type: Any = None,
) -> Any:
    """The product of arrays whose blocks have scales, rounded to bfloat16 before.

    Args:
      lhs, rhs: the arrays.
      lhs_scale, rhs_scale: a factor for each block of elements that are summed over:
        the shape of the operand, whose summed axes are divided.
      dimension_numbers: as in `dot_general`; by default the last axis of `lhs` with the
        last but one of `rhs`, and all before them as batch.
      preferred_element_type: dtype of the result, by default bfloat16.

    Raises:
      ShapeError: the shapes do not fit.
    """
    x, y = ax.as_value(lhs), ax.as_value(rhs)
    if dimension_numbers is None:
        if min(x.ndim, y.ndim) < 2:
            raise ShapeError("lax.scaled_dot: the operands must have two axes at least")
        batch = tuple(range(x.ndim - 2))
        dimension_numbers = (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch))
    of_x, of_y = dimension_numbers[0]
    pairs = ((x, lhs_scale, of_x), (y, rhs_scale, of_y))
    x, y = (_scaled(operand, scale, axes) for operand, scale, axes in pairs)
    kind = preferred_element_type or dtypes.bfloat16
    return dot_general(x, y, dimension_numbers, preferred_element_type=kind)


def _scaled(x: Any, scale: Any, axes: Sequence[int]) -> Any:
    x = astype(x, dtypes.bfloat16)
    if scale is None:
        return x
    factors = astype(ax.as_value(scale), dtypes.bfloat16)
    blocks: list[int] = []
    wide: list[int] = []
    for axis, (n, m) in enumerate(zip(x.shape, factors.shape, strict=False)):
        if n != m and (axis not in axes or m == 0 or n % m):
            break
        blocks += [m, n // m] if n != m else [m]
        wide += [m, 1] if n != m else [m]
    else:
        if x.ndim == factors.ndim:
            scaled = ax.reshape(x, tuple(blocks)) * ax.reshape(factors, tuple(wide))
            return ax.reshape(scaled, x.shape)
    raise ShapeError(
        f"lax.scaled_dot: a scale of shape {factors.shape} does not divide the axes "
        f"{tuple(axes)} of an operand of shape {x.shape} into blocks"
    )
