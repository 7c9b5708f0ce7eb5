"""JAX's `lax.linalg`: LAPACK on matrices in the last two axes.

Nothing is promoted or broadcast; a dtype that LAPACK does not have is an error.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, UnsupportedError
from ftrace.lax.control import while_loop
from ftrace.numpy import axes as ax, factorizations
from ftrace.numpy.factorizations import adjoint, matrices, square
from ftrace.numpy.linear import matmul
from ftrace.trace.bind import bind_compound
from ftrace.trace.primitives.library import factors, systems
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.tracer import Value
from ftrace.typing import ArrayLike

__all__ = [
    "EigImplementation", "EighImplementation", "SvdAlgorithm", "cholesky",
    "cholesky_update", "eig", "eigh", "hessenberg", "householder_product", "lu",
    "lu_pivots_to_permutation", "ormqr", "qdwh", "qr", "schur", "svd",
    "symmetric_product", "triangular_solve", "tridiagonal", "tridiagonal_solve",
]  # fmt: skip


class EigImplementation(enum.Enum):
    """Accepted; LAPACK does it."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """Accepted; LAPACK does it."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """Accepted; LAPACK does it."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


# Factorisations.


def cholesky(x: Value, *, symmetrize_input: bool = True) -> Any:
    """The lower triangular L of x = L·Lᴴ; NaN where there is none.

    Args:
      x: (…, n, n), of which the lower triangle is read.
      symmetrize_input: take (x + xᴴ)/2 first.

    Returns:
      (…, n, n), lower triangular.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> lax.linalg.cholesky(fnp.array([[4.0, 2.0], [2.0, 5.0]]))
      Array([[2., 0.],
             [1., 2.]], dtype=float32)
    """
    return factorizations.cholesky(x, symmetrize_input=symmetrize_input)


def cholesky_update(r_matrix: Value, w_vector: Value) -> Any:
    """The upper triangular S of Sᴴ·S = Rᴴ·R + w·wᴴ, with a positive diagonal.

    Args:
      r_matrix: (n, n), upper triangular.
      w_vector: (n,).

    Raises:
      ShapeError: the shapes do not fit.

    Example:
      >>> lax.linalg.cholesky_update(fnp.eye(2) * 2, fnp.array([1.0, 0.0]))
      Array([[ 2.236068, -0.      ],
             [ 0.      ,  2.      ]], dtype=float32)
    """
    r, w = square("cholesky_update", r_matrix), ax.as_value(w_vector)
    if r.ndim != 2 or w.shape != r.shape[-1:]:
        raise ShapeError(
            "cholesky_update: a matrix (n, n) and a vector (n,) are required, got the "
            f"shapes {r.shape} and {w.shape}"
        )
    row = fnp.conj(ax.insert_axes(w, (0,)))
    (_, s) = bind_compound(factors.qr_p, fnp.concatenate([fnp.triu(r), row]), arg=False)
    sign = fnp.sign(fnp.diagonal(s))
    return ax.insert_axes(fnp.conj(sign), (1,)) * s


def eig(
    x: Value,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Any]:
    """Eigenvalues and eigenvectors of general matrices, complex.

    Args:
      x: (…, n, n).
      compute_left_eigenvectors, compute_right_eigenvectors: which vectors to return.
      enable_eigvec_derivs: accepted; vectors have derivatives.
      implementation, use_magma: accepted, without effect.

    Returns:
      [values, left vectors, right vectors], as far as they were asked for.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> w, left, right = lax.linalg.eig(fnp.array([[0.0, 1.0], [-1.0, 0.0]]))
      >>> fnp.sort(w.imag)
      Array([-1.,  1.], dtype=float32)
    """
    a = square("eig", x)
    if not (compute_left_eigenvectors or compute_right_eigenvectors):
        return bind_compound(factors.eigvals_p, a)
    asked = (True, compute_left_eigenvectors, compute_right_eigenvectors)
    found = bind_compound(factors.eig_p, a)
    return [x for x, wanted in zip(found, asked, strict=True) if wanted]


def eigh(
    x: Value,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Any, Any]:
    """Eigenvectors and eigenvalues, in this order, of hermitian matrices.

    Args:
      x: (…, n, n).
      lower: which triangle is read.
      symmetrize_input: take (x + xᴴ)/2 first.
      sort_eigenvalues: accepted; they always ascend.
      subset_by_index: (start, end): these values and vectors only.
      implementation: accepted, without effect.

    Returns:
      (vectors (…, n, n) as columns, ascending real values (…, n)): the other way round
      than `fnp.linalg.eigh`.

    Raises:
      ShapeError: the matrices are not square.
      ValueRangeError: the subset is empty or out of range.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> vectors, values = lax.linalg.eigh(fnp.array([[2.0, 1.0], [1.0, 2.0]]))
      >>> values
      Array([1., 3.], dtype=float32)
    """
    triangle = "L" if lower else "U"
    vectors, values = factorizations.hermitian("eigh", x, triangle, symmetrize_input)
    if subset_by_index is not None:
        some = factorizations.subset_of(
            "eigh", subset_by_index, values.shape[-1], "eigenvalues"
        )
        vectors, values = vectors[..., some], values[..., some]
    return vectors, values


def lu(x: Value) -> list[Any]:
    """LU factors with partial pivoting.

    Args:
      x: (…, m, n).

    Returns:
      [U with the strictly lower triangle of L below it, pivots, permutation]: row i was
      exchanged with row pivots[i]; `x[permutation] = L·U`.

    Raises:
      ShapeError: there are fewer than two axes.
      DtypeError: integers, float16 or bfloat16.

    Example:
      >>> factors, pivots, order = lax.linalg.lu(fnp.array([[1.0, 2.0], [4.0, 4.0]]))
      >>> factors
      Array([[4.  , 4.  ],
             [0.25, 1.  ]], dtype=float32)
      >>> pivots, order
      (Array([1, 1], dtype=int32), Array([1, 0], dtype=int32))
    """
    return bind_compound(systems.lu_p, ax.as_value(x))


def lu_pivots_to_permutation(pivots: Value, permutation_size: int) -> Any:
    """The order of rows that exchanging row i with row pivots[i], one by one, gives.

    Args:
      pivots: (…, k) integers, as `lu` gives them.
      permutation_size: n, how many rows there are.

    Returns:
      (…, n) int32.

    Example:
      >>> lax.linalg.lu_pivots_to_permutation(fnp.array([2, 2, 2]), 3)
      Array([2, 0, 1], dtype=int32)
    """
    size = ax.static_int(permutation_size, "lu_pivots_to_permutation: permutation_size")
    return bind_compound(systems.permutation_p, ax.as_value(pivots), arg=size)[0]


def qr(
    x: Value,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> tuple[Any, ...]:
    """x = Q·R; with `pivoting` x[:, order] = Q·R, where the diagonal of R falls.

    Args:
      x: (…, m, n).
      pivoting: also return the order of the columns. This needs SciPy.
      full_matrices: Q is (…, m, m).
      use_magma: accepted, without effect.

    Returns:
      (Q, R), or (Q, R, order) with `pivoting`.

    Raises:
      ShapeError: there are fewer than two axes.
      MissingExtraError: pivoting, without SciPy.

    Example:
      >>> q, r = lax.linalg.qr(fnp.array([[3.0, 1.0], [4.0, 2.0]]), full_matrices=False)
      >>> abs(r)
      Array([[5. , 2.2],
             [0. , 0.4]], dtype=float32)
    """
    a = matrices("qr", x)
    op = factors.qr_pivoted_p if pivoting else factors.qr_p
    return tuple(bind_compound(op, a, arg=bool(full_matrices)))


def svd(
    x: Value,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """The singular value decomposition x = U·diag(S)·Vh.

    Args:
      x: (…, m, n).
      full_matrices: U is (…, m, m) and Vh is (…, n, n), instead of k = min(m, n)
        columns and rows.
      compute_uv: return the vectors, too.
      subset_by_index: (start, end): these singular values and vectors only.
      algorithm: accepted, without effect.

    Returns:
      (U, S, Vh), or S: descending, (…, k).

    Raises:
      ValueRangeError: `full_matrices` with `subset_by_index`, or an empty subset.
      ShapeError: there are fewer than two axes.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> lax.linalg.svd(fnp.array([[3.0, 0.0], [0.0, -4.0]]), compute_uv=False)
      Array([4., 3.], dtype=float32)
    """
    found = fnp.linalg.svd(
        x, full_matrices, compute_uv, subset_by_index=subset_by_index
    )
    return tuple(found) if compute_uv else found


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Any]:
    """[T, Z] of x = Z·T·Zᴴ, or [T]. It needs SciPy, and has no derivative.

    Args:
      x: (…, n, n).
      compute_schur_vectors: return Z, too.
      sort_eig_vals, select_callable: not supported.

    Raises:
      UnsupportedError: an order of the eigenvalues is asked for.
      ShapeError: the matrices are not square.
      MissingExtraError: SciPy is not installed.

    Example:
      >>> T, Z = lax.linalg.schur(fnp.array([[1.0, 2.0], [0.0, 3.0]]))
      >>> T
      Array([[1., 2.],
             [0., 3.]], dtype=float32)
    """
    if sort_eig_vals or select_callable is not None:
        raise UnsupportedError("schur: sorted eigenvalues are not supported")
    found = bind_compound(factors.schur_p, square("schur", x))
    return found if compute_schur_vectors else found[:1]


def qdwh(
    x: Value,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: None = None,
) -> tuple[Any, Any, Any, Any]:
    """The polar decomposition x = U·H by dynamically weighted Halley iterations.

    Each step is a QR factorisation, so that no inverse is lost to rounding. Source: Y.
    Nakatsukasa, Z. Bai, F. Gygi, "Optimizing Halley's iteration for computing the
    matrix polar decomposition", SIAM J. Matrix Anal. Appl. 31 (2010).

    Args:
      x: (m, n), m >= n.
      is_hermitian: accepted, without effect.
      max_iterations: by default 10.
      eps: the unit of rounding, by default that of the dtype.
      dynamic_shape: not supported.

    Returns:
      (U with orthonormal columns, H positive semidefinite, how many steps were taken,
      whether they have converged).

    Raises:
      ShapeError: x is no such matrix.

    Example:
      >>> u, h, steps, converged = lax.linalg.qdwh(fnp.diag(fnp.array([2.0, 3.0])))
      >>> fnp.round(h, 3)
      Array([[2., 0.],
             [0., 3.]], dtype=float32)
    """
    a = matrices("qdwh", x)
    if dynamic_shape is not None:
        raise UnsupportedError("qdwh: dynamic_shape is not supported; slice the matrix")
    if a.ndim != 2 or a.shape[0] < a.shape[1]:
        raise ShapeError(
            f"qdwh: a matrix of at least as many rows as columns is required, got "
            f"{a.shape}; transpose it, or apply vmap"
        )
    rows, columns = a.shape
    tiny = float(fnp.finfo(a.dtype).eps) if eps is None else eps
    least = (4 * tiny) ** (1 / 3)  # of the change of U, which falls with its cube
    most = 10 if max_iterations is None else max_iterations
    sums = [abs(a).sum(axis).max(initial=0) for axis in (0, 1)]
    scale = fnp.sqrt(sums[0]) * fnp.sqrt(sums[1])
    eye: Any = np.eye(columns, dtype=a.dtype)

    def cond_fun(state: Any) -> Any:
        _, bound, change, count = state
        near = (change < least) & (abs(bound - 1) < 5 * tiny)
        return (count < most) & ~near

    def step(state: Any) -> Any:
        u, bound, _, count = state
        below = fnp.maximum(bound, tiny) ** 2
        d = fnp.cbrt(4 * (1 / below - 1) / below)
        root = fnp.sqrt(1 + d)
        first = root + fnp.sqrt(8 - 4 * d + 8 * (2 - below) / (below * root)) / 2
        second = (first - 1) ** 2 / 4
        third = first + second - 1
        bound = bound * (first + second * below) / (1 + third * below)
        q = fnp.linalg.qr(fnp.concatenate([fnp.sqrt(third) * u, eye]))[0]
        part = (first - second / third) / fnp.sqrt(third)
        new = second / third * u + part * matmul(q[:rows], adjoint(q[rows:]))
        return new, fnp.minimum(bound, 1), fnp.linalg.norm(new - u), count + 1

    start = a / ax.choose(scale == 0, 1, scale)
    kind = scale.dtype
    state = (start, *(fnp.asarray(v, kind) for v in (tiny, np.inf)), np.int32(0))
    u, bound, change, count = while_loop(cond_fun, step, state)
    converged = (change < least) & (abs(bound - 1) < 5 * tiny)
    h = matmul(adjoint(u), a)
    return u, (h + adjoint(h)) / 2, count, converged


# Reflections and forms.


def householder_product(a: Value, taus: Value) -> Any:
    """The orthonormal columns of a product of reflections H = 1 - τ·v·vᴴ.

    Args:
      a: (…, m, n), m >= n: below the diagonal of column i, the vector v of reflection i
        after its first element, which is 1.
      taus: (…, k), k <= n.

    Returns:
      (…, m, n).

    Raises:
      ShapeError: the shapes do not fit.

    Example:
      >>> a, taus = fnp.eye(2), fnp.array([0.0, 0.0])
      >>> lax.linalg.householder_product(a, taus)
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    x = matrices("householder_product", a)
    return _reflect(x, taus, fnp.eye(*x.shape[-2:], dtype=x.dtype), False)


def ormqr(
    a: Value, taus: Value, c: Value, *, left: bool = True, transpose: bool = False
) -> Any:
    """Q·c, or c·Q unless `left`, with the square Q of reflections; Qᴴ if `transpose`.

    Args:
      a, taus: see `householder_product`.
      c: (…, m, k), or (…, k, m) unless `left`.
      left: on which side Q stands.
      transpose: take its adjoint.

    Raises:
      ShapeError: the shapes do not fit.

    Example:
      >>> a, taus = fnp.eye(2), fnp.array([0.0, 0.0])
      >>> lax.linalg.ormqr(a, taus, fnp.ones((2, 1)))
      Array([[1.],
             [1.]], dtype=float32)
    """
    x, y = matrices("ormqr", a), matrices("ormqr", c)
    x = x[..., : x.shape[-2]]
    if left:
        return _reflect(x, taus, y, transpose)
    return adjoint(_reflect(x, taus, adjoint(y), not transpose))


#: Reflections that are applied together: Vᴴ·V of all of them costs more than the rest.
_TOGETHER = 64


def _reflect(a: Any, taus: Value, c: Any, backwards: bool) -> Any:
    """H₁·H₂·…·c, block after block; `backwards` the adjoints in their order."""
    scales = ax.as_value(taus)
    *lead, m, n = a.shape
    count = (n + 1, *scales.shape)[-1]  # too many, where there is none
    if m < n or count > n or not same_size(scales.shape[:-1], tuple(lead)):
        raise ShapeError(
            "householder_product: reflections (…, m, n) with m >= n and taus (…, k) "
            f"with k <= n are required, got {a!r} and {scales!r}"
        )
    # A size that is not known is taken whole.
    together = _TOGETHER if isinstance(count, int) else count
    starts = range(0, max(count, 1), together) if together is not count else (0,)
    for start in starts if backwards else reversed(starts):
        block = slice(start, start + together)
        c = _reflect_block(a[..., block], scales[..., block], c, start, backwards)
    return c


def _reflect_block(a: Any, scales: Any, c: Any, above: int, backwards: bool) -> Any:
    """c - V·T·Vᴴ·c, or with Tᴴ; the first vector begins in row `above`.

    T⁻¹ has 1/τ on its diagonal, and Vᴴ·V above it: T. Joffrain and others,
    "Accumulating Householder transformations, revisited" (2006).
    """
    *lead, m, _ = a.shape
    count = scales.shape[-1]
    turns = scales != 0
    v = fnp.tril(a[..., :count], -1 - above) + fnp.eye(m, count, -above, dtype=a.dtype)
    v = fnp.where(turns[..., None, :], v, 0)
    vh = adjoint(v)
    diagonal = 1 / fnp.where(turns, scales, 1)
    inverse = fnp.triu(vh @ v, 1) + diagonal[..., None] * fnp.eye(count, dtype=a.dtype)
    along = fnp.broadcast_to(vh @ c, (*lead, count, c.shape[-1]))
    turned = triangular_solve(
        inverse, along, left_side=True, transpose_a=backwards, conjugate_a=backwards
    )
    return c - v @ turned


def hessenberg(a: Value) -> tuple[Any, Any]:
    """(H above its reflections, taus) of a = Q·H·Qᴴ. It needs SciPy.

    Raises:
      ShapeError: the matrices are not square.
      MissingExtraError: SciPy is not installed.

    Example:
      >>> a, taus = lax.linalg.hessenberg(fnp.eye(3))
      >>> a.shape, taus.shape
      ((3, 3), (2,))
    """
    h, taus = bind_compound(factors.hessenberg_p, square("hessenberg", a))
    return h, taus


def tridiagonal(a: Value, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """(T with its reflections, diagonal, what is beside it, taus). It needs SciPy.

    Args:
      a: (…, n, n), hermitian.
      lower: which triangle is read.

    Raises:
      ShapeError: the matrices are not square.
      MissingExtraError: SciPy is not installed.

    Example:
      >>> a, d, e, taus = lax.linalg.tridiagonal(fnp.array([[2.0, 1.0], [1.0, 2.0]]))
      >>> d
      Array([2., 2.], dtype=float32)
    """
    x = square("tridiagonal", a)
    packed, diagonal, off_diagonal, taus = bind_compound(
        factors.tridiagonal_p, x, arg=bool(lower)
    )
    return packed, diagonal, off_diagonal, taus


# Systems.


def triangular_solve(
    a: Value,
    b: Value,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """X of op(a)·X = b (`left_side`) or X·op(a) = b, for triangular a.

    Args:
      a: (…, n, n).
      b: (…, n, k) if `left_side`, else (…, k, n); a vector (n,) for one matrix.
      left_side: on which side op(a) stands.
      lower: which triangle of `a` is read.
      transpose_a, conjugate_a: what op is.
      unit_diagonal: the diagonal is not read and is 1.

    Returns:
      X, of the shape of b.

    Raises:
      ShapeError: the shapes do not fit.
      DtypeError: the dtypes differ, or LAPACK does not have them.

    Example:
      >>> a, b = fnp.array([[2.0, 0.0], [1.0, 4.0]]), fnp.array([[2.0], [5.0]])
      >>> lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
      Array([[1.],
             [1.]], dtype=float32)
    """
    x, y = ax.as_value(a), ax.as_value(b)
    arg = systems.Triangular(
        bool(left_side), bool(lower), bool(transpose_a),
        bool(conjugate_a) and dtypes.is_complex(x.dtype), bool(unit_diagonal),
    )  # fmt: skip
    vector = 0 < y.ndim == x.ndim - 1
    if not vector:
        return bind_compound(systems.triangular_solve_p, x, y, arg=arg)[0]
    place = y.ndim if left_side else y.ndim - 1
    (result,) = bind_compound(
        systems.triangular_solve_p, x, ax.insert_axes(y, (place,)), arg=arg
    )
    return ax.drop_axes(result, (place,))


def tridiagonal_solve(
    dl: Value, d: Value, du: Value, b: Value, *, perturb_singular: bool = False
) -> Any:
    """X of T·X = b, for T of three diagonals.

    Args:
      dl: (…, n), below the diagonal; its first element is not read.
      d: (…, n), the diagonal.
      du: (…, n), above the diagonal; its last element is not read.
      b: (…, n, k).
      perturb_singular: what belongs to a singular T is NaN or infinite without it, and
        large with it: its diagonal is shifted by an eps of its greatest element.

    Returns:
      (…, n, k).

    Raises:
      ShapeError: the shapes do not fit.
      DtypeError: the dtypes differ, or LAPACK does not have them.

    Example:
      >>> d, off = fnp.full(3, 2.0), fnp.ones(3)
      >>> lax.linalg.tridiagonal_solve(off, d, off, fnp.array([[3.0], [4.0], [3.0]]))
      Array([[1.],
             [1.],
             [1.]], dtype=float32)
    """
    diagonals = [ax.as_value(x) for x in (dl, d, du)]
    solution = bind_compound(systems.tridiagonal_solve_p, *diagonals, ax.as_value(b))[0]
    if not perturb_singular:
        return solution
    greatest = fnp.max(abs(fnp.stack(diagonals)), (0, -1), keepdims=True)[0]
    shift = fnp.finfo(greatest.dtype).eps * fnp.where(greatest == 0, 1, greatest)
    perturbed = tridiagonal_solve(dl, diagonals[1] + shift, du, b)
    regular = fnp.isfinite(solution).all((-2, -1), keepdims=True)
    return fnp.where(regular, solution, perturbed)


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

    Example:
      >>> lax.linalg.symmetric_product(fnp.array([[1.0], [2.0]]), fnp.zeros((2, 2)))
      Array([[1., 2.],
             [2., 4.]], dtype=float32)
    """
    a, what = ax.need_axes("symmetric_product", a_matrix, 2), "symmetric_product: c"
    c = ax.need_shape(c_matrix, what, (*a.shape[:-1], a.shape[-2]))
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
