"""QR, spectra and forms of matrices, and functions of them.

Matrices are in the last two axes, of vectors in the last one; the axes before them are
batches. `overwrite_a`, `overwrite_b`, `check_finite` and the like are accepted, without
effect: arrays are immutable, and NaN gives NaN.
"""

from __future__ import annotations

from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ArgumentError, ShapeError, ValueRangeError
from ftrace.lax import linalg as lax_linalg
from ftrace.numpy.axes import broadcast_to, cast, insert_axes, shrink_axis, static_int
from ftrace.numpy.factorizations import adjoint, inexact, square
from ftrace.numpy.linear import matmul
from ftrace.numpy.systems import together
from ftrace.scipy.systems import solve_triangular
from ftrace.trace.operations import bind_compound
from ftrace.trace.primitives.host.functions import schur_p, sqrtm_p
from ftrace.trace.tracer import Value

__all__ = [
    "eigh", "eigh_tridiagonal", "hessenberg", "polar", "qr",
    "qr_multiply", "rsf2csf", "schur", "sqrtm", "svd",
]  # fmt: skip


# QR.


def qr(
    a: Value,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """(Q, R) of a = Q·R; with `pivoting` also the order of the columns.

    Args:
      a: (…, m, n).
      overwrite_a, lwork, check_finite: accepted, without effect.
      mode: "full", "economic", or "r" without Q.
      pivoting: a[:, order] = Q·R, where the diagonal of R falls. It needs SciPy.

    Raises:
      ValueRangeError: the mode is unknown.
      ShapeError: there are fewer than two axes.
      MissingExtraError: pivoting, without SciPy.
    """
    if mode not in ("full", "economic", "r"):
        raise ValueRangeError(
            f"qr: mode must be 'full', 'economic' or 'r', got {mode!r}"
        )
    whole = mode != "economic"
    found = lax_linalg.qr(a, pivoting=pivoting, full_matrices=whole)
    return found[1:] if mode == "r" else found


def qr_multiply(
    a: Value,
    c: Value,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Any, ...]:
    """(c·Q, R), or (Q·c, R) if `mode` is "left", for the economic a = Q·R.

    Args:
      a: (m, n).
      c: the other factor; a vector is a row on the right, a column on the left.
      mode: which of the two.
      pivoting: also return the order of the columns.
      conjugate: take the conjugate of Q.
      overwrite_a, overwrite_c: accepted, without effect.

    Raises:
      ValueRangeError: the mode is unknown.
      ShapeError: the shapes do not fit.
    """
    if mode not in ("left", "right"):
        raise ValueRangeError(
            f"qr_multiply: mode must be 'left' or 'right', got {mode!r}"
        )
    q, *rest = qr(a, mode="economic", pivoting=pivoting)
    q = fnp.conj(q) if conjugate else q
    other = inexact(c)
    return (matmul(q, other) if mode == "left" else matmul(other, q), *rest)


# Spectra.


def svd(
    a: Value,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """(U, S, Vh), or S: see `numpy.linalg.svd`."""
    found = fnp.linalg.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


def eigh(
    a: Value,
    b: Value | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues and eigenvectors of hermitian matrices; also the generalised ones.

    Args:
      a: (…, n, n), hermitian.
      b: positive definite: a·v = w·b·v (type 1), a·b·v = w·v (2), b·a·v = w·v (3).
      lower: which triangle is read, where the input is not symmetric.
      eigvals_only: return the values alone.
      overwrite_a, overwrite_b, turbo, check_finite: accepted, without effect.
      eigvals: not supported; slice the result.
      type: of the generalised problem.

    Returns:
      (w, v), or w.

    Raises:
      ArgumentError: `eigvals` is given.
      ValueRangeError: the type is unknown.
      ShapeError: the matrices are not square.
    """
    if eigvals is not None:
        raise ArgumentError("eigh: eigvals is not supported; slice the result")
    if type not in (1, 2, 3):
        raise ValueRangeError(f"eigh: type must be 1, 2 or 3, got {type!r}")
    if b is None:
        v, w = lax_linalg.eigh(square("eigh", a), lower=lower)
        return w if eigvals_only else (w, v)
    x, y = together(square("eigh", a), b)
    factor = lax_linalg.cholesky(y)
    if type == 1:
        x = solve_triangular(factor, x, lower=True)
        x = adjoint(solve_triangular(factor, adjoint(x), lower=True))
    else:
        x = matmul(matmul(adjoint(factor), x), factor)
    v, w = lax_linalg.eigh(x)
    if eigvals_only:
        return w
    if type == 3:
        return w, matmul(factor, v)
    return w, solve_triangular(factor, v, 2, lower=True)


def eigh_tridiagonal(
    d: Value,
    e: Value,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
    """Eigenvalues and eigenvectors of a hermitian matrix of three diagonals.

    Args:
      d: (n,), the diagonal, real.
      e: (n - 1,), below the diagonal.
      eigvals_only: return the values alone.
      select: "a", all; "i", those of the numbers from select_range[0] to
        select_range[1], both included.
      select_range: see `select`.
      tol, key: accepted, without effect.

    Returns:
      (w, v), or w.

    Raises:
      ValueRangeError: `select` is unknown, or its range is missing.
      ShapeError: the shapes do not fit.
    """
    main, beside = inexact(d), inexact(e)
    n = main.shape[0] if main.ndim == 1 else -1
    if n < 1 or beside.shape != (n - 1,):
        raise ShapeError(
            f"eigh_tridiagonal: d (n,) and e (n - 1,) are required, got {main.shape} "
            f"and {beside.shape}"
        )
    if select not in ("a", "i") or (select == "i") != (select_range is not None):
        raise ValueRangeError(
            "eigh_tridiagonal: select must be 'a', or 'i' with select_range, got "
            f"{select!r} and {select_range!r}"
        )
    matrix = fnp.diag(main) + fnp.diag(beside, -1) + fnp.diag(fnp.conj(beside), 1)
    v, w = lax_linalg.eigh(matrix, symmetrize_input=False)
    if select_range is not None:
        first, last = (static_int(i, "eigh_tridiagonal: range") for i in select_range)
        w, v = shrink_axis(w, 0, first, last + 1), shrink_axis(v, 1, first, last + 1)
    return w if eigvals_only else (w, v)


def schur(a: Value, output: str = "real") -> tuple[Any, Any]:
    """(T, Z) of a = Z·T·Zᴴ. It needs SciPy, and has no derivative.

    Args:
      a: (…, n, n).
      output: "real", with blocks of two rows on the diagonal of T for pairs of complex
        eigenvalues; or "complex", with an upper triangular T.

    Raises:
      ValueRangeError: the output is unknown.
      ShapeError: the matrices are not square.
      MissingExtraError: SciPy is not installed.
    """
    if output not in ("real", "complex"):
        raise ValueRangeError(
            f"schur: output must be 'real' or 'complex', got {output!r}"
        )
    x = square("schur", a)
    if output == "complex":
        x = _as_complex(x)
    t, z = bind_compound(schur_p, x)
    return t, z


def _as_complex(x: Any) -> Any:
    return x if dtypes.is_complex(x.dtype) else cast(x, dtypes.complex_dtype(x.dtype))


def rsf2csf(T: Value, Z: Value, check_finite: bool = True) -> tuple[Any, Any]:
    """A real Schur form as a complex one: T becomes upper triangular."""
    t, z = together(square("rsf2csf", T), square("rsf2csf", Z))
    triangle, turn = bind_compound(schur_p, _as_complex(t))
    return triangle, matmul(z, turn)


def hessenberg(
    a: Value,
    *,
    calc_q: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> Any:
    """H of a = Q·H·Qᴴ, zero below the first subdiagonal; (H, Q) with `calc_q`.

    Raises:
      ShapeError: the matrices are not square.
      MissingExtraError: SciPy is not installed.
    """
    x = square("hessenberg", a)
    n = x.shape[-1]
    packed, taus = lax_linalg.hessenberg(x)
    h = fnp.triu(packed, -1)
    if not calc_q:
        return h
    if n < 2:
        return h, broadcast_to(fnp.eye(n, dtype=x.dtype), x.shape)
    below = shrink_axis(shrink_axis(packed, x.ndim - 2, 1, n), x.ndim - 1, 0, n - 1)
    inner = lax_linalg.householder_product(below, taus)
    sides = [(0, 0)] * (x.ndim - 2)
    q = fnp.pad(inner, [*sides, (1, 0), (1, 0)])
    first = fnp.zeros((n, n), x.dtype).at[0, 0].set(1)
    return h, q + first


def polar(
    a: Value,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Any, Any]:
    """(U, P): a = U·P (or P·U), with orthonormal U and positive semidefinite P.

    Its derivative is that of the singular value decomposition, and right only where
    the singular values differ from each other.

    Args:
      a: (m, n).
      side: "right", P is (n, n); "left", P is (m, m).
      method, eps, max_iterations: accepted; it is done by singular values.

    Raises:
      ValueRangeError: the side is unknown.
    """
    if side not in ("right", "left"):
        raise ValueRangeError(f"polar: side must be 'right' or 'left', got {side!r}")
    u, s, vh = fnp.linalg.svd(a, full_matrices=False)
    unitary = matmul(u, vh)
    row = insert_axes(s, (s.ndim - 1,))
    if side == "left":
        return unitary, matmul(u * row, adjoint(u))
    return unitary, matmul(adjoint(vh) * row, vh)


# Functions of matrices.


def sqrtm(A: Value, blocksize: int = 1) -> Any:
    """The principal square root of matrices (…, n, n), complex. It needs SciPy.

    Raises:
      ShapeError: the matrices are not square.
      MissingExtraError: SciPy is not installed.
    """
    return bind_compound(sqrtm_p, square("sqrtm", A))[0]
