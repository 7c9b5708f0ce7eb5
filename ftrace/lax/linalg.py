"""JAX's `lax.linalg`, as far as it needs no factorisation."""

from __future__ import annotations

from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError
from ftrace.numpy.axes import as_value
from ftrace.trace.tracer import Value

__all__ = ["symmetric_product"]


def symmetric_product(
    a_matrix: Value,
    c_matrix: Value,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Any:
    """alpha·A·Aᵀ + beta·C, where C is symmetric.

    Args:
      a_matrix: (..., m, n).
      c_matrix: (..., m, m), of the same dtype.
      alpha, beta: scalars.
      symmetrize_output: the upper triangle becomes the transpose of the lower one;
        without it, only the lower triangle is to be relied on.

    Raises:
      ShapeError: the shapes do not fit.
      DtypeError: the dtypes differ, or are not float or complex.
    """
    a, c = as_value(a_matrix), as_value(c_matrix)
    if a.ndim < 2 or c.shape != (*a.shape[:-1], a.shape[-2]):
        raise ShapeError(
            "symmetric_product: matrices (..., m, n) and (..., m, m) are required, got "
            f"the shapes {a.shape} and {c.shape}"
        )
    if a.dtype != c.dtype or not dtypes.is_inexact(a.dtype):
        raise DtypeError(
            "symmetric_product: matrices of one float or complex dtype are required, "
            f"got {a.dtype} and {c.dtype}; cast them with astype"
        )
    result = alpha * fnp.matmul(a, fnp.matrix_transpose(a)) + beta * c
    if symmetrize_output:
        upper = fnp.matrix_transpose(fnp.tril(result, -1))
        result = fnp.tril(result) + upper
    return result
