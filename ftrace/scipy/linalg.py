"""JAX's `scipy.linalg`: factorisations, systems, functions, and special matrices.

Matrices are in the last two axes, of vectors in the last one; the axes before them are
batches. `overwrite_a`, `overwrite_b`, `check_finite` and the like are accepted, without
effect: arrays are immutable, and NaN gives NaN.
"""

# ruff: noqa: F403

from __future__ import annotations

from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import (
    ArgumentError,
    ShapeError,
    UnsupportedError,
    ValueRangeError,
    one_of,
)
from ftrace.lax import linalg as lax_linalg
from ftrace.lax.control import fori_loop
from ftrace.lax.elementwise import stop_gradient
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.numpy.factorizations import adjoint, matrices, square
from ftrace.numpy.linalg import by_columns, solve_by
from ftrace.numpy.linear import matmul
from ftrace.scipy import matrices as special_matrices
from ftrace.scipy.matrices import *
from ftrace.scipy.matrices import funm
from ftrace.trace.bind import bind_compound, broadcast_shapes
from ftrace.trace.eager.dispatch import publish
from ftrace.trace.primitives.library import factors, systems
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "cho_factor", "cho_solve", "cholesky", "det", "eigh", "eigh_tridiagonal",
    "funm", "hessenberg", "inv", "lu", "lu_factor", "lu_solve", "polar", "qr",
    "qr_multiply", "rsf2csf", "schur", "solve", "solve_sylvester",
    "solve_triangular", "sqrtm", "svd",
]  # fmt: skip
__all__ += special_matrices.__all__

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

    Example:
      >>> q, r = ft.scipy.linalg.qr(fnp.array([[3.0, 0.0], [4.0, 5.0]]))
      >>> fnp.round(q @ r, 5)
      Array([[3., 0.],
             [4., 5.]], dtype=float32)
    """
    one_of("qr: mode", mode, ("full", "economic", "r"))
    whole = mode != "economic"
    found = lax_linalg.qr(fnp.asarray(a), pivoting=pivoting, full_matrices=whole)
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

    Example:
      >>> A, c = fnp.diag(fnp.array([2.0, 3.0])), fnp.array([1.0, 1.0])
      >>> Qc, R = ft.scipy.linalg.qr_multiply(A, c)
      >>> fnp.abs(Qc)
      Array([1., 1.], dtype=float32)
    """
    one_of("qr_multiply: mode", mode, ("left", "right"))
    q, *rest = qr(a, mode="economic", pivoting=pivoting)
    q = fnp.conj(q) if conjugate else q
    other = ew.inexact(fnp.asarray(c))
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
    """The singular value decomposition a = U·diag(S)·Vh.

    Args:
      a: (…, m, n).
      full_matrices: U is (…, m, m) and Vh is (…, n, n), instead of k = min(m, n)
        columns and rows.
      compute_uv: return the vectors, too.
      overwrite_a, check_finite, lapack_driver: accepted, without effect.

    Returns:
      (U, S, Vh), or S: descending, (…, k).

    Raises:
      ShapeError: there are fewer than two axes.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> ft.scipy.linalg.svd(fnp.array([[3.0, 0.0], [0.0, -4.0]]), compute_uv=False)
      Array([4., 3.], dtype=float32)
    """
    found = fnp.linalg.svd(fnp.asarray(a), full_matrices, compute_uv)
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
      UnsupportedError: `eigvals` is given.
      ValueRangeError: the type is unknown.
      ShapeError: the matrices are not square.

    Example:
      >>> a, b = fnp.diag(fnp.array([2.0, 3.0])), fnp.diag(fnp.array([1.0, 2.0]))
      >>> w = ft.scipy.linalg.eigh(a, b, eigvals_only=True)  # a·v = w·b·v
      >>> fnp.round(w, 4)
      Array([1.5, 2. ], dtype=float32)
    """
    if eigvals is not None:
        raise UnsupportedError("eigh: eigvals is not supported; slice the result")
    one_of("eigh: type", type, (1, 2, 3))
    if b is None:
        v, w = lax_linalg.eigh(square("eigh", fnp.asarray(a)), lower=lower)
        return w if eigvals_only else (w, v)
    x, y = ew.promote_inexact(square("eigh", fnp.asarray(a)), fnp.asarray(b))
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
      e: (n - 1,), above the diagonal, its conjugate below.
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

    Example:
      >>> d, e = fnp.array([2.0, 2.0]), fnp.array([1.0])
      >>> ft.scipy.linalg.eigh_tridiagonal(d, e, eigvals_only=True)
      Array([1., 3.], dtype=float32)
    """
    main, beside = ew.inexact(d), ew.inexact(e)
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
    matrix = fnp.diag(main) + fnp.diag(beside, 1) + fnp.diag(fnp.conj(beside), -1)
    v, w = lax_linalg.eigh(matrix, symmetrize_input=False)
    if select_range is not None:
        name = "eigh_tridiagonal: range"
        first, last = (ax.static_int(i, name) for i in select_range)
        w, v = (ax.shrink_axis(x, x.ndim - 1, first, last + 1) for x in (w, v))
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

    Example:
      >>> T, Z = ft.scipy.linalg.schur(fnp.array([[1.0, 2.0], [0.0, 3.0]]))
      >>> T
      Array([[1., 2.],
             [0., 3.]], dtype=float32)
    """
    one_of("schur: output", output, ("real", "complex"))
    x = square("schur", a)
    if output == "complex":
        x = _as_complex(x)
    t, z = bind_compound(factors.schur_p, x)
    return t, z


def _as_complex(x: Any) -> Any:
    return ax.cast(x, dtypes.complex_dtype(dtypes.real_dtype(x.dtype)))


def rsf2csf(T: Value, Z: Value, check_finite: bool = True) -> tuple[Any, Any]:
    """A real Schur form as a complex one: T becomes upper triangular.

    From the last row on a rotation takes away what stands beside the diagonal, as in
    SciPy. Source: Golub and Van Loan, Matrix Computations, section 7.4.

    Args:
      T, Z: (n, n), as `schur` gives them.
      check_finite: accepted, without effect.

    Returns:
      (T, Z), complex.

    Example:
      >>> T, Z = ft.scipy.linalg.schur(fnp.array([[1.0, 2.0], [0.0, 3.0]]))
      >>> T, Z = ft.scipy.linalg.rsf2csf(T, Z)
      >>> T.dtype
      dtype('complex64')
    """
    given = [square("rsf2csf", fnp.asarray(x)) for x in (T, Z)]
    t, z = ew.promote_inexact(*given)
    shape = broadcast_shapes("rsf2csf", [t.shape, z.shape])
    n = shape[-1]
    rows, columns = fnp.mgrid[:n, :n]

    def rotate(step: Any, both: tuple[Any, Any]) -> tuple[Any, Any]:
        (t, z), low = both, n - 1 - step
        pair = low - 1 + fnp.arange(2)
        block = t[..., pair[:, None], pair]
        across, size = block[..., 1, 0], abs(fnp.linalg.diagonal(block)).sum(-1)
        own = fnp.linalg.eigvals(block)[..., 0] - block[..., 1, 1]
        turns = abs(across) > fnp.finfo(t.dtype).eps * size
        length = fnp.where(turns, fnp.hypot(abs(own), abs(across)), 1)
        c = fnp.where(turns, own / length, 1)
        s = fnp.where(turns, across / length, 0)
        turn = fnp.stack([fnp.stack([c.conj(), s], -1), fnp.stack([-s, c], -1)], -2)
        whole = fnp.broadcast_to(fnp.eye(n, dtype=t.dtype), shape)
        whole = whole.at[..., pair[:, None], pair].set(turn)
        back = whole.mT.conj()
        t = fnp.where(columns >= low - 1, matmul(whole, t), t)
        t = fnp.where(rows <= low, matmul(t, back), t)
        return t.at[..., low, low - 1].set(0), matmul(z, back)

    parts = [ax.broadcast_to(_as_complex(x), shape) for x in (t, z)]
    return fori_loop(0, n - 1, rotate, tuple(parts))


def hessenberg(
    a: Value,
    *,
    calc_q: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> Any:
    """H of a = Q·H·Qᴴ, zero below the first subdiagonal; (H, Q) with `calc_q`.

    Args:
      a: (…, n, n).
      calc_q: return Q, too.
      overwrite_a, check_finite: accepted, without effect.

    Raises:
      ShapeError: the matrices are not square.
      MissingExtraError: SciPy is not installed.

    Example:
      >>> ft.scipy.linalg.hessenberg(fnp.array([[1.0, 2.0], [3.0, 4.0]]))
      Array([[1., 2.],
             [3., 4.]], dtype=float32)
    """
    x = square("hessenberg", a)
    n = x.shape[-1]
    packed, taus = lax_linalg.hessenberg(x)
    h = fnp.triu(packed, -1)
    if not calc_q:
        return h
    if n < 2:
        return h, ax.broadcast_to(fnp.eye(n, dtype=x.dtype), x.shape)
    inner = lax_linalg.householder_product(packed[..., 1:, :-1], taus)
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

    Returns:
      (U (m, n), P).

    Raises:
      ValueRangeError: the side is unknown.

    Example:
      >>> u, p = ft.scipy.linalg.polar(fnp.array([[0.0, -2.0], [3.0, 0.0]]))
      >>> fnp.round(u, 5) + 0.0, fnp.round(p, 5) + 0.0
      (Array([[ 0., -1.],
             [ 1.,  0.]], dtype=float32), Array([[3., 0.],
             [0., 2.]], dtype=float32))
    """
    one_of("polar: side", side, ("right", "left"))
    u, s, vh = fnp.linalg.svd(fnp.asarray(a), full_matrices=False)
    unitary = matmul(u, vh)
    row = ax.insert_axes(s, (s.ndim - 1,))
    if side == "left":
        return unitary, matmul(u * row, adjoint(u))
    return unitary, matmul(adjoint(vh) * row, vh)


# Functions of matrices.


def sqrtm(A: Value, blocksize: int = 1) -> Any:
    """The principal square root of matrices (…, n, n), complex. It needs SciPy.

    Args:
      A: (…, n, n).
      blocksize: accepted, without effect.

    Raises:
      ShapeError: the matrices are not square.
      MissingExtraError: SciPy is not installed.

    Example:
      >>> ft.scipy.linalg.sqrtm(fnp.diag(fnp.array([4.0, 9.0]))).real
      Array([[2., 0.],
             [0., 3.]], dtype=float32)
    """
    return bind_compound(factors.sqrtm_p, square("sqrtm", A))[0]


# Systems of linear equations: Cholesky, LU, triangular matrices, Sylvester's.
#
# Matrices are in the last two axes, of vectors in the last one; the axes before them
# are batches. `overwrite_a`, `overwrite_b`, `check_finite` and the like are accepted,
# without effect: arrays are immutable, and NaN gives NaN.


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

    Example:
      >>> ft.scipy.linalg.cholesky(fnp.array([[4.0, 2.0], [2.0, 5.0]]))
      Array([[2., 1.],
             [0., 2.]], dtype=float32)
    """
    x = square("cholesky", fnp.asarray(a))
    if lower:
        return lax_linalg.cholesky(x, symmetrize_input=False)
    return adjoint(lax_linalg.cholesky(adjoint(x), symmetrize_input=False))


def cho_factor(
    a: Value, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """(`cholesky(a, lower)`, lower), as `cho_solve` takes it.

    Args:
      a: (…, n, n), hermitian and positive definite.
      lower: which triangle.
      overwrite_a, check_finite: accepted, without effect.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> factor = ft.scipy.linalg.cho_factor(fnp.array([[4.0, 2.0], [2.0, 5.0]]))
      >>> ft.scipy.linalg.cho_solve(factor, fnp.array([6.0, 7.0]))
      Array([1., 1.], dtype=float32)
    """
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

    Returns:
      x, of the shape of b.

    Raises:
      ShapeError: the shapes do not fit.
      ArgumentError: c_and_lower is no pair.

    Example:
      >>> factor = fnp.array([[2.0, 1.0], [0.0, 2.0]]), False  # of [[4, 2], [2, 5]]
      >>> ft.scipy.linalg.cho_solve(factor, fnp.array([6.0, 7.0]))
      Array([1., 1.], dtype=float32)
    """
    if not (isinstance(c_and_lower, (tuple, list)) and len(c_and_lower) == 2):
        raise ArgumentError(
            "cho_solve: c_and_lower must be the pair that cho_factor returns, got "
            f"{c_and_lower!r:.60}"
        )
    c, lower = c_and_lower
    first, last = (0, 2) if lower else (2, 0)

    def solve_both(y: Any) -> Any:
        half = solve_triangular(c, y, first, lower)
        return solve_triangular(c, half, last, lower)

    return by_columns(solve_both, fnp.asarray(b))


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

    Example:
      >>> a = fnp.array([[2.0, 0.0], [1.0, 4.0]])
      >>> ft.scipy.linalg.solve_triangular(a, fnp.array([2.0, 5.0]), lower=True)
      Array([1., 1.], dtype=float32)
    """
    codes = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}
    one_of("solve_triangular: trans", trans, codes)
    code = codes[trans]
    x, y = ew.promote_inexact(
        square("solve_triangular", fnp.asarray(a)), fnp.asarray(b)
    )
    conjugate = code == 2 and dtypes.is_complex(x.dtype)
    arg = systems.Triangular(
        True, bool(lower), code > 0, conjugate, bool(unit_diagonal)
    )

    def solve_one(x: Any, y: Any) -> Any:
        return bind_compound(systems.triangular_solve_p, x, y, arg=arg)[0]

    return solve_by("solve_triangular", solve_one, x, y)


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

    Example:
      >>> a = fnp.array([[4.0, 2.0], [2.0, 5.0]])
      >>> ft.scipy.linalg.solve(a, fnp.array([6.0, 7.0]), assume_a="pos")
      Array([1., 1.], dtype=float32)
    """
    one_of("solve: assume_a", assume_a, ("gen", "sym", "her", "pos"))
    if assume_a != "pos":
        return fnp.linalg.solve(a, b)
    x, y = ew.promote_inexact(square("solve", a), ax.as_value(b))
    return cho_solve(cho_factor(x, lower), y)


def inv(a: Value, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverses of matrices; infinities or NaN where there are none.

    Args:
      a: (…, n, n).
      overwrite_a, check_finite: accepted, without effect.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> ft.scipy.linalg.inv(fnp.array([[2.0, 0.0], [1.0, 4.0]]))
      Array([[ 0.5  ,  0.   ],
             [-0.125,  0.25 ]], dtype=float32)
    """
    return fnp.linalg.inv(a)


def det(a: Value, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinants of matrices.

    Args:
      a: (…, n, n).
      overwrite_a, check_finite: accepted, without effect.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: float16 or bfloat16, and more than 3 rows.

    Example:
      >>> ft.scipy.linalg.det(fnp.array([[1.0, 2.0], [3.0, 4.0]]))
      Array(-2., dtype=float32)
    """
    return fnp.linalg.det(a)


def solve_sylvester(
    A: Value, B: Value, C: Value, *, method: str = "schur", tol: float = 1e-8
) -> Any:
    """The X of A·X + X·B = C.

    Args:
      A: (…, m, m).
      B: (…, n, n).
      C: (…, m, n).
      method: "schur" or "eigen": one algorithm serves both.
      tol: where the sum of an eigenvalue of A and one of B is less, all of X is NaN.

    Raises:
      ValueRangeError: there is no such method.
      ShapeError: the shapes do not fit.

    Example:
      >>> a, b = fnp.array([[1.0, 0.0], [0.0, 2.0]]), fnp.array([[3.0]])
      >>> ft.scipy.linalg.solve_sylvester(a, b, fnp.array([[8.0], [5.0]]))
      Array([[2.],
             [1.]], dtype=float32)
    """
    one_of("solve_sylvester: method", method, ("schur", "eigen"))
    found = ew.promote_inexact(matrices("solve_sylvester", A), B, C)
    lead = broadcast_shapes("solve_sylvester", [x.shape[:-2] for x in found])
    a, b, c = (ax.broadcast_to(x, (*lead, *x.shape[-2:])) for x in found)
    solution = bind_compound(factors.sylvester_p, a, b, c)[0]
    of_a, of_b = (fnp.linalg.eigvals(stop_gradient(x)) for x in (a, b))
    sums = abs(of_a[..., :, None] + of_b[..., None, :])
    singular = (sums < tol).any((-2, -1), keepdims=True)
    return fnp.where(singular, fnp.nan, solution)


# LU.


def lu_factor(
    a: Value, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, Any]:
    """L and U of a = P·L·U in one matrix, and pivots, as `lu_solve` takes them.

    Args:
      a: (…, m, n).
      overwrite_a, check_finite: accepted, without effect.

    Returns:
      (U with the strictly lower triangle of L below it (…, m, n), pivots (…, min(m, n))
      int32: row i was exchanged with row pivots[i]).

    Raises:
      ShapeError: there are fewer than two axes.

    Example:
      >>> factors = ft.scipy.linalg.lu_factor(fnp.array([[1.0, 2.0], [4.0, 4.0]]))
      >>> factors
      (Array([[4.  , 4.  ],
             [0.25, 1.  ]], dtype=float32), Array([1, 1], dtype=int32))
      >>> ft.scipy.linalg.lu_solve(factors, fnp.array([3.0, 8.0]))
      Array([1., 1.], dtype=float32)
    """
    factors, pivots, _ = lax_linalg.lu(matrices("lu_factor", fnp.asarray(a)))
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

    Returns:
      x, of the shape of b.

    Raises:
      ValueRangeError: `trans` is unknown.
      ShapeError: the shapes do not fit.

    Example:
      >>> A = fnp.array([[4.0, 2.0], [2.0, 3.0]])
      >>> ft.scipy.linalg.lu_solve(ft.scipy.linalg.lu_factor(A), fnp.array([2.0, 5.0]))
      Array([-0.5,  2. ], dtype=float32)
    """
    one_of("lu_solve: trans", trans, (0, 1, 2))
    factors, pivots = square("lu_solve", lu_and_piv[0]), lu_and_piv[1]
    order = lax_linalg.lu_pivots_to_permutation(pivots, factors.shape[-1])

    def solve_all(y: Any) -> Any:
        lead = broadcast_shapes("lu_solve", [factors.shape[:-2], y.shape[:-2]])
        y = ax.broadcast_to(y, (*lead, *y.shape[-2:]))
        if trans == 0:
            y = fnp.take_along_axis(y, order[..., None], axis=-2)
            y = solve_triangular(factors, y, lower=True, unit_diagonal=True)
            return solve_triangular(factors, y)
        y = solve_triangular(factors, y, trans)
        y = solve_triangular(factors, y, trans, lower=True, unit_diagonal=True)
        return fnp.take_along_axis(y, fnp.argsort(order)[..., None], axis=-2)

    return by_columns(solve_all, fnp.asarray(b))


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

    Example:
      >>> p, l, u = ft.scipy.linalg.lu(fnp.array([[1.0, 2.0], [4.0, 4.0]]))
      >>> p, l, u
      (Array([[0., 1.],
             [1., 0.]], dtype=float32), Array([[1.  , 0.  ],
             [0.25, 1.  ]], dtype=float32), Array([[4., 4.],
             [0., 1.]], dtype=float32))
    """
    x = matrices("lu", fnp.asarray(a))
    m, n = x.shape[-2:]
    k = min(m, n)
    factors, _, order = lax_linalg.lu(x)
    left = ax.shrink_axis(fnp.tril(factors, -1), x.ndim - 1, 0, k)
    left = left + fnp.eye(m, k, dtype=x.dtype)
    right = ax.shrink_axis(fnp.triu(factors), x.ndim - 2, 0, k)
    rows = fnp.arange(m, dtype=order.dtype)
    permutation = ax.cast(rows[:, None] == order[..., None, :], left.real.dtype)
    if permute_l:
        return matmul(permutation, left), right
    return permutation, left, right


publish(__name__)
