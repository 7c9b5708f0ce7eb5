"""Linear algebra without factorisations: norms, powers and chains of matrices.

import ftrace.numpy as fnp
fnp.linalg.norm(x, axis=-1)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError
from ftrace.numpy import linear
from ftrace.numpy.axes import (
    Axis,
    as_value,
    broadcast_to,
    canonical_axes,
    cast,
    choose,
    full,
    iota,
    static_int,
)
from ftrace.numpy.linear import matmul, matrix_transpose, need_axes, tensordot, vecdot
from ftrace.numpy.reductions import max as greatest
from ftrace.numpy.reductions import min as least
from ftrace.numpy.reductions import reduced
from ftrace.numpy.statistics import squared_magnitude
from ftrace.trace.operations import bind, elementwise, run_fused
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.tracer import Value, aval_of

__all__ = [
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose",
    "multi_dot", "norm", "outer", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

Order = Any  # int | float | str | None


def _inexact(x: Value) -> Any:
    x = as_value(x)
    return x if dtypes.is_inexact(x.dtype) else cast(x, dtypes.to_inexact(x.dtype))


# Norms.


def norm(x: Value, ord: Order = None, axis: Axis = None, keepdims: bool = False) -> Any:
    """The norm of vectors or matrices. Its derivative at zero is zero, not NaN.

    Args:
      x: the array.
      ord: of a vector: 2 (the default), inf, -inf, 0, or any p; of a matrix: "fro"
        (the default), 1, -1, inf or -inf.
      axis: one axis holds vectors, two hold matrices. None takes all of them; any
        number is then allowed where `ord` is not given.
      keepdims: the reduced axes stay, with size 1.

    Raises:
      ShapeError: neither one axis nor two.
      ValueRangeError: there is no such norm.
    """
    x = _inexact(x)
    axes = canonical_axes(axis, x.ndim, "norm")
    if (axis is None and ord is None) or (len(axes) == 2 and ord in (None, "f", "fro")):
        return run_fused(_euclidean, [x], axes=axes, keepdims=keepdims)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)
    if len(axes) == 2:
        return _matrix_norm(x, axes, keepdims, ord)
    raise ShapeError(
        f"norm: the axes {axes} of shape {x.shape}: one axis gives the norm of "
        "vectors, two that of matrices; choose with axis="
    )


def vector_norm(
    x: Value, /, *, axis: Axis = None, keepdims: bool = False, ord: Order = 2
) -> Any:
    """The norm of vectors along `axis`, or of all elements as one vector.

    Raises:
      ValueRangeError: `ord` is not a number.
    """
    x = _inexact(x)
    axes = canonical_axes(axis, x.ndim, "vector_norm")
    if ord is None or ord == 2:
        return run_fused(_euclidean, [x], axes=axes, keepdims=keepdims)
    if isinstance(ord, str):
        raise ValueRangeError(
            f"vector_norm: ord must be a number, got {ord!r}; for infinity, write "
            "ftrace.numpy.inf"
        )
    if ord == 0:
        hits = cast(bind(p.ne, x, full(x.shape, 0, x.dtype)), p.real_dtype(x.dtype))
        return reduced(reduce_sum_p, hits, axes, keepdims)
    size = elementwise(p.absolute, x)
    if ord == math.inf:
        return greatest(size, axes, keepdims=keepdims, initial=0)
    if ord == -math.inf:
        return least(size, axes, keepdims=keepdims)
    if ord == 1:
        return reduced(reduce_sum_p, size, axes, keepdims)
    return run_fused(_p_norm, [size], axes=axes, keepdims=keepdims, ord=float(ord))


def _euclidean(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return bind(p.sqrt, reduced(reduce_sum_p, squared_magnitude(x), axes, keepdims))


def _p_norm(size: Any, axes: tuple[int, ...], keepdims: bool, ord: float) -> Any:
    powers = elementwise(p.power, size, ord)
    return elementwise(p.power, reduced(reduce_sum_p, powers, axes, keepdims), 1 / ord)


def matrix_norm(x: Value, /, *, keepdims: bool = False, ord: Order = "fro") -> Any:
    """The norm of matrices in the last two axes.

    Raises:
      ShapeError: there are fewer than two axes.
      ValueRangeError: there is no such norm.
    """
    x = _inexact(x)
    need_axes("matrix_norm", x, 2, "only")
    return norm(x, ord, (x.ndim - 2, x.ndim - 1), keepdims)


def _matrix_norm(x: Any, axes: tuple[int, ...], keepdims: bool, ord: Order) -> Any:
    """The greatest (least, if negative) sum of a column (1) or row (inf)."""
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueRangeError(
            f"norm: ord={ord!r} is not available for matrices; use 'fro', 1, -1, inf "
            "or -inf"
        )
    row, column = axes
    added, sought = (row, column) if abs(ord) == 1 else (column, row)
    sums = reduced(reduce_sum_p, elementwise(p.absolute, x), (added,), keepdims)
    if not keepdims and sought > added:
        sought -= 1
    if ord > 0:
        return greatest(sums, sought, keepdims=keepdims, initial=0)
    return least(sums, sought, keepdims=keepdims)


# Powers and chains.


def matrix_power(a: Value, n: int) -> Any:
    """Square matrices to a power that is not negative, by repeated squaring.

    Raises:
      ShapeError: the last two axes differ in size.
      ValueRangeError: the power is negative.
    """
    x = as_value(a)
    need_axes("matrix_power", x, 2, "first")
    size = x.shape[-1]
    if x.shape[-2] != size:
        raise ShapeError(f"matrix_power: square matrices are required, got {x.shape}")
    power = static_int(n, "matrix_power: n")
    if power < 0:
        raise ValueRangeError(
            f"matrix_power: n = {power} is negative; invert the matrices first, with "
            "linalg.inv"
        )
    if power == 0:
        return broadcast_to(_identity(size, x.dtype), x.shape)
    result: Any = None
    while power:
        if power & 1:
            result = x if result is None else matmul(result, x)
        power >>= 1
        if power:
            x = matmul(x, x)
    return result


def _identity(size: int, dtype: Any) -> Any:
    rows = iota(dtypes.int32, (size, size), 0)
    columns = iota(dtypes.int32, (size, size), 1)
    one, zero = full((), 1, dtype), full((), 0, dtype)
    return choose(bind(p.eq, rows, columns), one, zero)


def multi_dot(arrays: Sequence[Value], *, precision: Any = None) -> Any:
    """The product of two or more matrices, multiplied in the cheapest order.

    The first and the last may have one axis.

    Raises:
      ValueRangeError: there are fewer than two arrays.
      ShapeError: one has the wrong number of axes, or two neighbours do not fit.
    """
    values = [as_value(x) for x in arrays]
    if len(values) < 2:
        raise ValueRangeError(
            f"multi_dot: at least two arrays are required, got {len(values)}"
        )
    for i, x in enumerate(values):
        outermost = i in (0, len(values) - 1)
        if x.ndim != 2 and not (outermost and x.ndim == 1):
            raise ShapeError(
                f"multi_dot: array {i} must have two axes{' or one' * outermost}, got "
                f"{aval_of(x)!r}"
            )
    sizes = [1 if values[0].ndim == 1 else values[0].shape[0]]
    sizes += [x.shape[0] for x in values[1:]]
    sizes.append(1 if values[-1].ndim == 1 else values[-1].shape[1])
    cuts = _chain_order(sizes)
    # The tree of products from its leaves: an interval is ready when its parts are.
    done: dict[tuple[int, int], Any] = {(i, i): x for i, x in enumerate(values)}
    pending = [(0, len(values) - 1)]
    while pending:
        low, high = pending[-1]
        if (low, high) in done:
            pending.pop()
            continue
        cut = cuts[low, high]
        parts = [(low, cut), (cut + 1, high)]
        missing = [part for part in parts if part not in done]
        if missing:
            pending.extend(missing)
        else:
            done[low, high] = matmul(*[done[part] for part in parts])
    return done[0, len(values) - 1]


def _chain_order(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to cut each interval of a chain of matrices (Cormen et al., 15.2)."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for low in range(count - length):
            high = low + length
            options = {
                cut: cost[low, cut]
                + cost[cut + 1, high]
                + sizes[low] * sizes[cut + 1] * sizes[high + 1]
                for cut in range(low, high)
            }
            cuts[low, high] = min(options, key=options.__getitem__)
            cost[low, high] = options[cuts[low, high]]
    return cuts


# The array API's forms of functions of ftrace.numpy.


def cross(x1: Value, x2: Value, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of 3 components along `axis`.

    Raises:
      ShapeError: there are not 3 components.
    """
    for x in (aval_of(x1), aval_of(x2)):
        if not x.shape or x.shape[axis] != 3:
            raise ShapeError(
                f"linalg.cross: 3 components are required along axis {axis}, got "
                f"{x.shape}"
            )
    return linear.cross(x1, x2, axis=axis)


def outer(x1: Value, x2: Value, /) -> Any:
    """Every element of one vector times every element of another.

    Raises:
      ShapeError: an operand has another number of axes than one.
    """
    shapes = aval_of(x1).shape, aval_of(x2).shape
    if any(len(shape) != 1 for shape in shapes):
        raise ShapeError(
            f"linalg.outer: two vectors are required, got the shapes {shapes[0]} and "
            f"{shapes[1]}; ravel them first"
        )
    return linear.outer(x1, x2)


def diagonal(x: Value, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices in the last two axes."""
    x = as_value(x)
    need_axes("linalg.diagonal", x, 2, "only")
    return linear.diagonal_of(x, x.ndim - 2, x.ndim - 1, offset)


def trace(x: Value, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of matrices in the last two axes."""
    return linear.trace(x, offset, -2, -1, dtype)
