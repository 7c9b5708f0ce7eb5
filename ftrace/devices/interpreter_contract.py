"""Sums of products in NumPy: as matrix products, so that the product is never stored.

    out[…] = sum over `closed` of a[…]·b[…]

Each axis of an operand is named by the range that it runs over; an operand has no axis
for a range that it does not depend on.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.trace.contract import blas_ready, product_of
from ftrace.trace.primitives.sums import sum_along

Array = Any  # of NumPy, whose stubs leave too much unknown
Ranges = Sequence[Hashable]

#: Integers up to this size, and sums of them, are exact in float64.
_EXACT = 1 << 53


def contract(
    a: Array,
    a_ranges: Ranges,
    b: Array,
    b_ranges: Ranges,
    closed: Ranges,
    out: Ranges,
    dtype: np.dtype[Any],
) -> Array:
    """The sum of a·b over the ranges `closed`, with axes in the order of `out`.

    Args:
      a, b: operands, an axis per range.
      closed: ranges to sum over; each is a range of both operands or of one.
      out: the ranges of the result; each is a range of a or b.
      dtype: in which the products are added.
    """
    a, a_ranges = _sum_alone(a, a_ranges, b_ranges, closed, dtype)
    b, b_ranges = _sum_alone(b, b_ranges, a_ranges, closed, dtype)
    shared = [r for r in out if r in a_ranges and r in b_ranges]
    rows = [r for r in out if r in a_ranges and r not in b_ranges]
    columns = [r for r in out if r in b_ranges and r not in a_ranges]
    inner = [r for r in a_ranges if r in closed]
    sizes = dict(zip(a_ranges, a.shape, strict=True))
    sizes |= dict(zip(b_ranges, b.shape, strict=True))
    left = _matrices(a, a_ranges, shared, rows, inner)
    right = _matrices(b, b_ranges, shared, inner, columns)
    product = matmul(left, right, dtype)
    order = [*shared, *rows, *columns]
    product = product.reshape([sizes[r] for r in order])
    return product.transpose([order.index(r) for r in out])


def _sum_alone(
    x: Array, ranges: Ranges, other: Ranges, closed: Ranges, dtype: np.dtype[Any]
) -> tuple[Array, Ranges]:
    """Adds along the closed ranges that the other operand does not have."""
    axes = tuple(i for i, r in enumerate(ranges) if r in closed and r not in other)
    if not axes:
        return x, ranges
    kept = [r for i, r in enumerate(ranges) if i not in axes]
    return sum_along(x, axes, dtype).squeeze(axes), kept


def _matrices(
    x: Array, ranges: Ranges, shared: Ranges, rows: Ranges, columns: Ranges
) -> Array:
    """`x` as a stack of matrices."""
    groups = [[list(ranges).index(r) for r in part] for part in (shared, rows, columns)]
    shape = [prod(x.shape[axis] for axis in group) for group in groups]
    return x.transpose([axis for group in groups for axis in group]).reshape(shape)


def matmul(a: Array, b: Array, dtype: np.dtype[Any]) -> Array:
    """Stacks of matrices multiplied; through BLAS wherever the result is the same."""
    if dtypes.kind(dtype) in "iu":
        reach = _magnitude(a) * _magnitude(b) * a.shape[-1]
        if reach < _EXACT:
            exact = _product(a.astype(np.float64), b.astype(np.float64))
            return exact.astype(np.int64).astype(dtype)
    return _product(a.astype(dtype, copy=False), b.astype(dtype, copy=False))


def _product(a: Array, b: Array) -> Array:
    a, b = blas_ready(a), blas_ready(b)
    return product_of(a, b)(a, b)


def _magnitude(x: Array) -> int:
    if x.size == 0:
        return 0
    return max(abs(int(x.max())), abs(int(x.min())))
