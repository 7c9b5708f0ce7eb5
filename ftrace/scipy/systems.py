"""Systems of linear equations: Cholesky, LU, triangular matrices, Sylvester's.

Matrices are in the last two axes, of vectors in the last one; the axes before them are
batches. `overwrite_a`, `overwrite_b`, `check_finite` and the like are accepted, without
effect: arrays are immutable, and NaN gives NaN.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError
from ftrace.lax import linalg as lax_linalg
from ftrace.numpy.axes import (
    as_value,
    broadcast_to,
    cast,
    drop_axes,
    insert_axes,
    shrink_axis,
)
from ftrace.numpy.factorizations import adjoint, matrices, square
from ftrace.numpy.linear import matmul
from ftrace.numpy.systems import over_columns, together
from ftrace.trace.operations import bind_compound, broadcast_shapes
from ftrace.trace.primitives.host.functions import sylvester_p
from ftrace.trace.primitives.host.triangular import Triangular, triangular_solve_p
from ftrace.trace.tracer import Value

__all__ = [
    "cho_factor", "cho_solve", "cholesky", "det", "inv", "lu", "lu_factor", "lu_solve",
    "solve", "solve_sylvester", "solve_triangular",
]  # fmt: skip


# Cholesky.


def cholesky(
    a: Value, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The upper triangular U of a = Uᴴ·U, or the lower L of a = L·Lᴴ.

    Args:
      a: (…, n, n), hermitian and positive definite, of which that triangle is read.
        Where it is not, the result is NaN.
      lower: which triangle.
      overwrite_a, check_finite: accepted, without effect.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.
    """
    x = square("cholesky", a)
    if lower:
        return lax_linalg.cholesky(x, symmetrize_input=False)
    return adjoint(lax_linalg.cholesky(adjoint(x), symmetrize_input=False))


def cho_factor(
    a: Value, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """(`cholesky(a, lower)`, lower), as `cho_solve` takes it."""
    return cholesky(a, lower), lower


def cho_solve(
    c_and_lower: tuple[Value, bool],
    b: Value,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """The x of a·x = b, by the factor of `cho_factor(a)`.

    Args:
      c_and_lower: the factor, and which triangle it is.
      b: (n,) or (…, n, k).
      overwrite_b, check_finite: accepted, without effect.
    """
    c, lower = c_and_lower
    first, last = (0, 2) if lower else (2, 0)
    half = solve_triangular(c, b, first, lower)
    if as_value(b).ndim == 1:
        half = insert_axes(half, (half.ndim,))
        result = solve_triangular(c, half, last, lower)
        return drop_axes(result, (result.ndim - 1,))
    return solve_triangular(c, half, last, lower)


# Systems.


def solve_triangular(
    a: Value,
    b: Value,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Any:
    """The x of op(a)·x = b, for triangular a.

    Args:
      a: (…, n, n), of which one triangle is read.
      b: (n,) or (…, n, k); the axes before broadcast.
      trans: 0 or "N", 1 or "T", 2 or "C": op is nothing, the transpose, the adjoint.
      lower: which triangle.
      unit_diagonal: the diagonal is not read and is 1.
      overwrite_b, debug, check_finite: accepted, without effect.

    Raises:
      ValueRangeError: `trans` is unknown.
      ShapeError: the shapes do not fit.
    """
    codes = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in codes:
        raise ValueRangeError(
            f"solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}"
        )
    code = codes[trans]
    x, y = together(square("solve_triangular", a), as_value(b))
    conjugate = code == 2 and dtypes.is_complex(x.dtype)
    arg = Triangular(True, bool(lower), code > 0, conjugate, bool(unit_diagonal))

    def solved(x: Any, y: Any) -> Any:
        return bind_compound(triangular_solve_p, x, y, arg=arg)[0]

    vector = y.ndim == 1
    y = insert_axes(y, (1,)) if vector else y
    if y.ndim < 2 or y.shape[-2] != x.shape[-1]:
        raise ShapeError(
            f"solve_triangular: for matrices {x.shape}, b must be (n,) or (…, n, k), "
            f"got {as_value(b).shape}"
        )
    if x.ndim == 2:
        result = over_columns(partial(solved, x), y)
    else:
        lead = broadcast_shapes("solve_triangular", [x.shape[:-2], y.shape[:-2]])
        x = broadcast_to(x, (*lead, *x.shape[-2:]))
        result = solved(x, broadcast_to(y, (*lead, *y.shape[-2:])))
    return drop_axes(result, (result.ndim - 1,)) if vector else result


def solve(
    a: Value,
    b: Value,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Any:
    """The x of a·x = b; a singular matrix gives infinities or NaN.

    Args:
      a: (…, n, n).
      b: (n,) or (…, n, k); the axes before broadcast.
      lower: which triangle is read of a positive definite `a`.
      overwrite_a, overwrite_b, debug, check_finite: accepted, without effect.
      assume_a: "gen", "sym", "her", or "pos": positive definite, solved by Cholesky.

    Raises:
      ValueRangeError: the assumption is unknown.
      ShapeError: the shapes do not fit.
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueRangeError(
            f"solve: assume_a must be 'gen', 'sym', 'her' or 'pos', got {assume_a!r}"
        )
    if assume_a != "pos":
        return fnp.linalg.solve(a, b)
    x, y = together(square("solve", a), as_value(b))
    return cho_solve(cho_factor(x, lower), y)


def inv(a: Value, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """See `numpy.linalg.inv`."""
    return fnp.linalg.inv(a)


def det(a: Value, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """See `numpy.linalg.det`."""
    return fnp.linalg.det(a)


def solve_sylvester(
    A: Value, B: Value, C: Value, *, method: str = "schur", tol: float = 1e-8
) -> Any:
    """The X of A·X + X·B = C.

    Args:
      A: (…, m, m).
      B: (…, n, n).
      C: (…, m, n).
      method, tol: accepted, without effect.

    Raises:
      ShapeError: the shapes do not fit.
    """
    a, b, c = together(matrices("solve_sylvester", A), B, C)
    return bind_compound(sylvester_p, a, b, c)[0]


# LU.


def lu_factor(
    a: Value, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, Any]:
    """(L and U in one matrix, pivots), as `lu_solve` takes them; a: (…, m, n)."""
    factors, pivots, _ = lax_linalg.lu(matrices("lu_factor", a))
    return factors, pivots


def lu_solve(
    lu_and_piv: tuple[Value, Value],
    b: Value,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """The x of op(a)·x = b, by the factors of `lu_factor(a)`.

    Args:
      lu_and_piv: the factors (…, n, n) and pivots (…, n).
      b: (n,) or (…, n, k).
      trans: 0, 1 or 2: op is nothing, the transpose, the adjoint.
      overwrite_b, check_finite: accepted, without effect.

    Raises:
      ValueRangeError: `trans` is unknown.
      ShapeError: the shapes do not fit.
    """
    if trans not in (0, 1, 2):
        raise ValueRangeError(f"lu_solve: trans must be 0, 1 or 2, got {trans!r}")
    factors, pivots = square("lu_solve", lu_and_piv[0]), lu_and_piv[1]
    order = lax_linalg.lu_pivots_to_permutation(pivots, factors.shape[-1])
    y = as_value(b)
    vector = y.ndim == 1
    y = insert_axes(y, (1,)) if vector else y
    lead = broadcast_shapes("lu_solve", [factors.shape[:-2], y.shape[:-2]])
    y = broadcast_to(y, (*lead, *y.shape[-2:]))
    if trans == 0:
        y = fnp.take_along_axis(y, insert_axes(order, (order.ndim,)), axis=-2)
        y = solve_triangular(factors, y, lower=True, unit_diagonal=True)
        y = solve_triangular(factors, y)
    else:
        y = solve_triangular(factors, y, trans)
        y = solve_triangular(factors, y, trans, lower=True, unit_diagonal=True)
        back = insert_axes(fnp.argsort(order), (order.ndim,))
        y = fnp.take_along_axis(y, back, axis=-2)
    return drop_axes(y, (y.ndim - 1,)) if vector else y


def lu(
    a: Value,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """(P, L, U) of a = P·L·U, or (P·L, U) with `permute_l`.

    Args:
      a: (…, m, n).
      permute_l: multiply the permutation matrix to L.
      overwrite_a, check_finite: accepted, without effect.

    Raises:
      ShapeError: there are fewer than two axes.
    """
    x = matrices("lu", a)
    m, n = x.shape[-2:]
    k = min(m, n)
    factors, _, order = lax_linalg.lu(x)
    left = shrink_axis(fnp.tril(factors, -1), x.ndim - 1, 0, k)
    left = left + fnp.eye(m, k, dtype=x.dtype)
    right = shrink_axis(fnp.triu(factors), x.ndim - 2, 0, k)
    rows = fnp.arange(m, dtype=order.dtype)
    moved = fnp.equal(insert_axes(rows, (1,)), insert_axes(order, (order.ndim - 1,)))
    permutation = cast(moved, left.real.dtype)
    if permute_l:
        return matmul(permutation, left), right
    return permutation, left, right
