"""Functions of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.lax.control import fori_loop
from ftrace.numpy import axes as ax
from ftrace.numpy.factorizations import square
from ftrace.numpy.floats import finfo
from ftrace.trace.bind import bind_compound
from ftrace.trace.primitives.library import eigen
from ftrace.trace.tracing.tracer import Value


def funm(A: Value, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """A function of a matrix, by its Schur form. It needs SciPy; no derivative.

    Golub, Van Loan: Matrix Computations, 11.1 (the recurrence of Parlett). It loses as
    many digits as eigenvalues are close to each other.

    Args:
      A: (n, n).
      func: of arrays of complex numbers, elementwise.
      disp: False returns an estimate of the relative error, too.

    Returns:
      A complex matrix, and the estimate with `disp=False`.

    Raises:
      ShapeError: A is no square matrix.
      MissingExtraError: SciPy is not installed.
    """
    x = square("funm", A)
    if x.ndim != 2:
        raise ShapeError(
            f"funm: one square matrix is required, got the shape {x.shape}"
        )
    x = ax.cast(x, dtypes.complex_dtype(dtypes.real_dtype(x.dtype)))
    t, z = bind_compound(eigen.schur_p, x)
    count = x.shape[-1]
    values = fnp.diagonal(t)
    gap = values[None, :] - values[:, None]
    distance = fnp.arange(count)[None, :] - fnp.arange(count)[:, None]
    safe = fnp.where(gap == 0, 1, gap)

    def above(k: Any, f: Any) -> Any:  # TF = FT, one diagonal after the other
        found = (fnp.matmul(t, f) - fnp.matmul(f, t)) / safe
        return fnp.where(distance == k, found, f)

    f = fori_loop(1, count, above, fnp.diag(ax.cast(func(values), t.dtype)))
    result = fnp.matmul(fnp.matmul(z, f), fnp.conj(z.T))
    if disp:
        return result
    eps = finfo(t.dtype).eps
    least = fnp.where(distance > 0, fnp.abs(gap), fnp.inf).min() if count > 1 else 1
    rest = fnp.abs(fnp.where(distance > 0, t, 0)).sum(0).max()
    error = fnp.minimum(1, fnp.maximum(eps, eps / least * rest))
    return result, fnp.where(
        fnp.isfinite(result).all(), fnp.where(least == 0, 1, error), fnp.inf
    )
