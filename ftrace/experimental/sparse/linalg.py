"""Solvers for sparse matrices: the greatest eigenvalues, and linear systems.

lobpcg_standard   locally optimal block preconditioned conjugate gradients
spsolve           SciPy's direct solver, a step of the host
"""

# What is passed on is of any type, and so are the parameters of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from ftrace import lax, numpy as fnp
from ftrace.errors import DtypeError, MissingExtraError, ShapeError, one_of
from ftrace.experimental.sparse.compressed import CSR
from ftrace.ground.missing_names import tell_missing
from ftrace.numpy.axes import as_value, need_shape
from ftrace.trace.eager.checked_calls import without_checks
from ftrace.trace.tracing.tracer import Value, is_value
from ftrace.transforms.custom.callbacks import pure_callback
from ftrace.transforms.structs import ShapeDtypeStruct


@without_checks
def lobpcg_standard(
    A: Value | Callable[[Any], Any], X: Value, m: int = 100, tol: Any = None
) -> tuple[Any, Any, Any]:
    """The k greatest eigenvalues of a real symmetric matrix, and their eigenvectors.

    Source: A. Knyazev, "Toward the optimal preconditioned eigensolver", SIAM J. Sci.
    Comput. 23 (2001); bases are made orthonormal as in J. Duersch, M. Shao, C. Yang,
    M. Gu, "A robust and efficient implementation of LOBPCG", 40 (2018).

    Args:
      A: (n, n), or a function that multiplies (n, k) by it.
      X: (n, k), where to begin; the columns are independent, and 5 k < n.
      m: the greatest number of iterations.
      tol: a pair has converged when |A v - λ v| is at most 10 n tol (|λ| + |A v|); by
        default the distance of 1 to the next float.

    Returns:
      (eigenvalues in falling order (k,), eigenvectors (n, k), number of iterations).

    Raises:
      ShapeError, DtypeError: A and X do not fit together, or k is 0 or too large.
    """
    x = as_value(X)
    matrix = as_value(A) if is_value(A) else None
    multiply: Any = A if matrix is None else matrix.__matmul__
    if x.ndim != 2 or not 0 < 5 * x.shape[1] < x.shape[0]:
        raise ShapeError(
            "lobpcg_standard: X must have the shape (n, k) with 0 < 5 k < n, got "
            f"{x.shape}"
        )
    if matrix is not None:
        need_shape(matrix, "lobpcg_standard: A", (x.shape[0],) * 2)
    first = _orthonormal(x, fnp.zeros((x.shape[0], 0), x.dtype))
    image = multiply(first)
    if image.shape != x.shape or image.dtype != x.dtype:
        raise DtypeError(
            f"lobpcg_standard: A times X must be {x.dtype}{list(x.shape)} as X is, got "
            f"{image.dtype}{list(image.shape)}"
        )
    limit = fnp.finfo(x.dtype).eps if tol is None else tol

    def residuals(values: Any, found: Any, image: Any) -> tuple[Any, Any]:
        rest = image - found * values
        size = fnp.abs(values) + fnp.linalg.norm(image, axis=0)
        bound = 10 * x.shape[0] * limit * size
        return rest, fnp.all(fnp.linalg.norm(rest, axis=0) <= bound)

    def step(state: Any) -> Any:
        count, found, image, past, rest, _, _ = state
        rest = _orthonormal(rest, found)
        past = _orthonormal(past, fnp.concatenate([found, rest], 1))
        basis = fnp.concatenate([found, rest, past], 1)
        images = fnp.concatenate([image, multiply(fnp.concatenate([rest, past], 1))], 1)
        values, new, new_image, vectors = _rayleigh_ritz(basis, images, x.shape[1])
        moved = basis[:, x.shape[1] :] @ vectors[x.shape[1] :]
        rest, done = residuals(values, new, new_image)
        return count + 1, new, new_image, moved, rest, values, done

    values, found, image, _ = _rayleigh_ritz(first, image, x.shape[1])
    rest, done = residuals(values, found, image)
    begin = (fnp.asarray(0), found, image, fnp.zeros_like(found), rest, values, done)
    count, found, _, _, _, values, _ = lax.while_loop(
        lambda state: (state[0] < m) & ~state[-1], step, begin
    )
    return values, found, count


def _rayleigh_ritz(basis: Any, image: Any, count: int) -> tuple[Any, Any, Any, Any]:
    """The greatest Ritz values of a basis, their vectors, images, and coefficients.

    Columns that are zero are no directions: they get the least of all values.
    """
    inner = basis.T @ image
    inner = (inner + inner.T) / 2
    least = -2 * fnp.abs(inner).sum(0).max() - 1
    absent = (basis == 0).all(0)
    values, vectors = fnp.linalg.eigh(inner + fnp.diag(fnp.where(absent, least, 0)))
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    return values, basis @ vectors, image @ vectors, vectors


def _orthonormal(x: Any, basis: Any) -> Any:
    """An orthonormal basis of columns, and orthogonal to others.

    Columns that the others span become zero.
    """
    eps = fnp.finfo(x.dtype).eps
    for _ in range(2):
        for _ in range(2):
            x = x - basis @ (basis.T @ x)
        size = fnp.linalg.norm(x, axis=0)
        x = x / fnp.where(size > 0, size, 1)
        values, vectors = fnp.linalg.eigh(x.T @ x)
        kept = values > 10 * x.shape[1] * eps * values.max()
        scale = fnp.where(kept, 1 / fnp.sqrt(fnp.where(kept, values, 1)), 0)
        x = (x @ vectors) * scale
    return x


@without_checks
def spsolve(
    data: Value, indices: Value, indptr: Value, b: Value, tol: float = 1e-6,
    reorder: int = 1,
) -> Any:  # fmt: skip
    """The solution of A x = b of a CSR matrix (data, indices, indptr), by SciPy.

    Args:
      data, indices, indptr: the matrix, (n, n).
      b: (n,).
      tol: accepted, without effect.
      reorder: 0 to 3, without effect.

    Raises:
      ValueRangeError: there is no such `reorder`.
      DtypeError: the dtypes of `data` and `b` differ.
      MissingExtraError: SciPy is not there, when it is computed.
    """
    one_of("spsolve: reorder", reorder, range(4))
    values, side = as_value(data), as_value(b)
    if values.dtype != side.dtype:
        raise DtypeError(
            f"spsolve: data and b must have one dtype, got {values.dtype} and "
            f"{side.dtype}; convert one with .astype"
        )
    parts = [as_value(x) for x in (indices, indptr)]

    def times(v: Any) -> Any:
        return CSR((values, *parts), shape=side.shape * 2) @ v

    def solve(transposed: bool) -> Callable[..., Any]:
        def call_host(_: Any, rhs: Any) -> Any:
            result = ShapeDtypeStruct(side.shape, side.dtype)
            return pure_callback(_solve, result, transposed, values, *parts, rhs)

        return call_host

    return lax.custom_linear_solve(times, side, solve(False), solve(True))


def _solve(transposed: Any, data: Any, indices: Any, indptr: Any, b: Any) -> Any:
    try:
        scipy: Any = import_module("scipy.sparse")
        solver: Any = import_module("scipy.sparse.linalg").spsolve
    except ImportError:
        raise MissingExtraError("sparse.linalg.spsolve needs SciPy") from None
    *given, side = (np.asarray(x) for x in (data, indices, indptr, b))
    matrix = scipy.csr_matrix(tuple(given), shape=side.shape * 2)
    turned = matrix.T if transposed else matrix
    return np.asarray(solver(turned.tocsc(), side), side.dtype)


tell_missing(__name__)
