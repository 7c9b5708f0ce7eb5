"""Linear algebra: factorisations, systems, norms, and products of chains.

import ftrace.numpy as fnp
fnp.linalg.solve(a, b)

Matrices are in the last two axes; the axes before them are batches. LAPACK computes
factorisations on the host, as steps of the program.
"""

# ruff: noqa: F403

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace.errors import ShapeError, ValueRangeError
from ftrace.numpy import factorizations, linear, norms, systems
from ftrace.numpy.axes import as_value
from ftrace.numpy.factorizations import *
from ftrace.numpy.joining import sequence_of
from ftrace.numpy.linear import matmul, matrix_transpose, need_axes, tensordot, vecdot
from ftrace.numpy.norms import *
from ftrace.numpy.systems import *
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "cross", "diagonal", "matmul", "matrix_transpose", "multi_dot", "outer",
    "tensordot", "trace", "vecdot",
]  # fmt: skip
__all__ += factorizations.__all__
__all__ += norms.__all__
__all__ += systems.__all__


def multi_dot(arrays: Sequence[Value], *, precision: Any = None) -> Any:
    """The product of two or more matrices, multiplied in the cheapest order.

    The first and the last may have one axis.

    Raises:
      ValueRangeError: there are fewer than two arrays.
      ShapeError: one has the wrong number of axes, or two neighbours do not fit.
    """
    values = sequence_of("multi_dot", arrays)
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
