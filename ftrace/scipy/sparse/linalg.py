"""Linear systems by Krylov's spaces: the matrix is a function, vectors are trees.

cg         Hestenes, Stiefel: Methods of conjugate gradients (1952)
bicgstab   van der Vorst: Bi-CGSTAB (1992)
gmres      Saad, Schultz: GMRES (1986), restarted

Derivatives are implicit: another solve by the same method, as exact as its tolerance.
"""

# What is passed on is of any type, and so are the parameters of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes, numpy as fnp
from ftrace.errors import ArgumentError, ShapeError, TreeError, one_of
from ftrace.flatten_util import ravel_pytree
from ftrace.ground.missing_names import tell_missing
from ftrace.lax.control import while_loop
from ftrace.lax.solvers import custom_linear_solve
from ftrace.numpy.axes import cast
from ftrace.numpy.elementwise import inexact
from ftrace.numpy.floats import finfo
from ftrace.scipy.linalg import solve_triangular
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Function

__all__ = ["bicgstab", "cg", "gmres"]


def cg(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0,
    maxiter: Any = None, M: Any = None,
) -> tuple[Any, None]:  # fmt: skip
    """The solution of A x = b by conjugate gradients.

    Args:
      A: Hermitian and positive definite: a function of trees like b, a matrix, or what
        has `@`.
      b: an array of any shape, or a tree of arrays.
      x0: where to begin, like b; by default zeros.
      tol, atol: it ends where |b - A x| <= max(tol |b|, atol).
      maxiter: or after so many iterations; by default 10 for each element.
      M: a preconditioner, which approximates the inverse of A; in any form of A.

    Returns:
      x, and None.

    Raises:
      TreeError, ShapeError: x0 is not like b, or A is not square.
      ArgumentError: A or M is no operator.

    Example:
      >>> A = fnp.array([[4.0, 1.0], [1.0, 3.0]])
      >>> x, info = ft.scipy.sparse.linalg.cg(A, fnp.array([5.0, 4.0]))
      >>> fnp.round(x, 3)
      Array([1., 1.], dtype=float32)
    """
    return _solve("cg", _cg, A, b, x0, M, maxiter, True, tol=tol, atol=atol), None


def bicgstab(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0,
    maxiter: Any = None, M: Any = None,
) -> tuple[Any, None]:  # fmt: skip
    """The solution of A x = b by stabilised biconjugate gradients.

    Args:
      A: any linear operator: a function of trees like b, a matrix, or what has `@`.
      b, x0, tol, atol, maxiter, M: as in `cg`.

    Returns:
      x, and None.

    Raises:
      As `cg`.

    Example:
      >>> A = fnp.array([[4.0, 1.0], [0.0, 3.0]])
      >>> x, info = ft.scipy.sparse.linalg.bicgstab(A, fnp.array([5.0, 3.0]))
      >>> fnp.round(x, 3)
      Array([1., 1.], dtype=float32)
    """
    found = _solve("bicgstab", _bicgstab, A, b, x0, M, maxiter, tol=tol, atol=atol)
    return found, None


def gmres(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0,
    restart: int = 20, maxiter: Any = None, M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Any]:  # fmt: skip
    """The solution of A x = b by generalised minimal residuals.

    Args:
      A: any linear operator: a function of trees like b, a matrix, or what has `@`.
      b, x0, tol, atol, M: as in `cg`.
      restart: the dimension of the space in which the residual is made least, before
        it begins anew at what was found.
      maxiter: so many such beginnings at most; by default 10 for each element.
      solve_method: "incremental" ends within a space once the residual is small,
        "batched" builds it whole.

    Returns:
      x, and 0; -1 where x holds a NaN.

    Raises:
      ValueRangeError: there is no such `solve_method`. Others as `cg`.

    Example:
      >>> A = fnp.array([[4.0, 1.0], [0.0, 3.0]])
      >>> x, info = ft.scipy.sparse.linalg.gmres(A, fnp.array([5.0, 3.0]))
      >>> fnp.round(x, 3)
      Array([1., 1.], dtype=float32)
    """
    one_of("gmres: solve_method", solve_method, ("batched", "incremental"))
    early = solve_method == "incremental"
    x = _solve("gmres", _gmres, A, b, x0, M, maxiter,
               tol=tol, atol=atol, restart=restart, early=early)  # fmt: skip
    failed = fnp.isnan(ravel_pytree(x)[0]).any()
    return x, fnp.where(failed, -1, 0)


def _solve(
    name: str, method: Function, A: Any, b: Any, x0: Any, M: Any, maxiter: Any,
    symmetric: bool = False, **settings: Any,
) -> Any:  # fmt: skip
    """x by a method of flat vectors: (A, M, b, x0, maxiter, **settings) -> x."""
    b = tree.map(inexact, b)
    x0 = tree.map(fnp.zeros_like, b) if x0 is None else tree.map(inexact, x0)
    matvec = _operator(name, "A", A)
    preconditioner = None if M is None else _operator(name, "M", M)
    if tree.structure(x0) != tree.structure(b):
        raise TreeError(
            f"{name}: x0 must have the structure of b, "
            f"{tree.readable(tree.structure(b))}, got "
            f"{tree.readable(tree.structure(x0))}"
        )
    shapes = [[x.shape for x in tree.leaves(t)] for t in (b, x0)]
    if shapes[0] != shapes[1]:
        raise ShapeError(
            f"{name}: x0 must have the shapes of b, {shapes[0]}, got {shapes[1]}"
        )
    size = sum(x.size for x in tree.leaves(b))
    limit = 10 * size if maxiter is None else maxiter
    real = not any(dtypes.is_complex(x.dtype) for x in tree.leaves(b))

    def solve(matvec: Function, b: Any) -> Any:
        flat, build = ravel_pytree(b)

        def on_vectors(function: Function) -> Function:
            def apply(v: Any) -> Any:
                return cast(ravel_pytree(function(build(v)))[0], flat.dtype)

            return apply

        start = cast(ravel_pytree(x0)[0], flat.dtype)
        flat_M = None if preconditioner is None else on_vectors(preconditioner)
        return build(method(on_vectors(matvec), flat_M, flat, start, limit, **settings))

    return custom_linear_solve(matvec, b, solve, solve, symmetric and real)


def _operator(name: str, role: str, A: Any) -> Function:
    if callable(A):
        return A
    if not hasattr(A, "__matmul__"):
        raise ArgumentError(
            f"{name}: {role} must be a function, a square matrix or what has `@`, got "
            f"{type(A).__name__}"
        )
    shape = tuple(getattr(A, "shape", (0, 0)))
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ShapeError(f"{name}: {role} must be a square matrix, got shape {shape}")
    matrix: Any = fnp.asarray(A) if isinstance(A, np.ndarray) else A
    return lambda x: matrix @ x


def _identity(x: Any) -> Any:
    return x


def _square(x: Any) -> Any:
    """|x|², which is real."""
    return fnp.vdot(x, x).real


def _limit(b: Any, tol: Any, atol: Any) -> Any:
    """The square of the norm that a residual may have."""
    return fnp.maximum(fnp.square(tol) * _square(b), fnp.square(atol))


def _cg(
    A: Function, M: Function | None, b: Any, x0: Any, maxiter: Any, *, tol: Any,
    atol: Any,
) -> Any:  # fmt: skip
    most = _limit(b, tol, atol)
    improve = M or _identity

    def cond_fun(state: Any) -> Any:
        _, r, gamma, _, k = state
        return ((gamma if M is None else _square(r)) > most) & (k < maxiter)

    def step(state: Any) -> Any:
        x, r, gamma, p, k = state
        image = A(p)
        alpha = cast(gamma / fnp.vdot(p, image).real, b.dtype)
        x, r = x + alpha * p, r - alpha * image
        z = improve(r)
        after = fnp.vdot(r, z).real
        return x, r, after, z + cast(after / gamma, b.dtype) * p, k + 1

    r = b - A(x0)
    z = improve(r)
    return while_loop(cond_fun, step, (x0, r, fnp.vdot(r, z).real, z, 0))[0]


def _bicgstab(
    A: Function, M: Function | None, b: Any, x0: Any, maxiter: Any, *, tol: Any,
    atol: Any,
) -> Any:  # fmt: skip
    most = _limit(b, tol, atol)
    improve = M or _identity

    def cond_fun(state: Any) -> Any:
        _, r, *_, k, broken = state
        return (_square(r) > most) & (k < maxiter) & ~broken

    def step(state: Any) -> Any:
        x, r, alpha, omega, rho, p, q, k, _ = state
        rho_next = fnp.vdot(shadow, r)
        p = r + rho_next / rho * alpha / omega * (p - omega * q)
        direction = improve(p)
        q = A(direction)
        alpha = rho_next / fnp.vdot(shadow, q)
        s = r - alpha * q
        enough = _square(s) < most
        second = improve(s)
        t = A(second)
        omega = fnp.vdot(t, s) / fnp.vdot(t, t)
        half = x + alpha * direction
        x = fnp.where(enough, half, half + omega * second)
        r = fnp.where(enough, s, s - omega * t)
        broken = (omega == 0) | (alpha == 0) | (rho_next == 0)
        return x, r, alpha, omega, rho_next, p, q, k + 1, broken

    r = shadow = b - A(x0)
    one = fnp.ones((), b.dtype)
    first = (x0, r, one, one, one, r, r, 0, fnp.asarray(False))
    return while_loop(cond_fun, step, first)[0]


def _gmres(
    A: Function, M: Function | None, b: Any, x0: Any, maxiter: Any, *, tol: Any,
    atol: Any, restart: int, early: bool,
) -> Any:  # fmt: skip
    improve = M or _identity
    norm = fnp.sqrt(_square(b))
    most = fnp.maximum(tol * norm, atol)
    inner = fnp.sqrt(_square(improve(b))) * fnp.minimum(1.0, most / norm)
    count = min(restart, b.size)

    def begin(x: Any) -> Any:
        return _normalize(improve(b - A(x)))

    def image(v: Any) -> Any:
        return improve(A(v))

    def cond_fun(state: Any) -> Any:
        _, _, left, k = state
        return (k < maxiter) & (left > most)

    def step(state: Any) -> Any:
        x, first, left, k = state
        basis = fnp.zeros((count + 1, b.size), b.dtype).at[0].set(first)
        least = inner if early else -1
        basis, y = _space(partial(_arnoldi, image), basis, left, least, count)
        x = x + (y + 0 * y) @ basis[:-1]  # infinities, of a singular one, become NaN
        return (x, *begin(x), k + 1)

    return while_loop(cond_fun, step, (x0, *begin(x0), 0))[0]


def _normalize(x: Any, least: Any = None) -> tuple[Any, Any]:
    """x / |x|, and |x|; zeros where that is not above `least`."""
    norm = fnp.sqrt(_square(x))
    some = norm > (finfo(x.dtype).eps if least is None else least)
    unit = fnp.where(some, x / fnp.where(some, norm, 1).astype(x.dtype), 0)
    return unit, fnp.where(some, norm, 0)


def _arnoldi(apply: Function, basis: Any, k: Any) -> tuple[Any, Any, Any]:
    """One more vector, orthogonal to those before by Gram and Schmidt's method, twice.

    Returns:
      the basis; the image of its last vector in it; whether nothing was left of that.
    """
    image = apply(basis[k])
    size = fnp.sqrt(_square(image))
    parts = fnp.conj(basis) @ image
    rest = image - parts @ basis
    again = fnp.conj(basis) @ rest
    unit, norm = _normalize(rest - again @ basis, finfo(basis.dtype).eps * size)
    column = (parts + again).at[k + 1].set(norm.astype(basis.dtype))
    return basis.at[k + 1].set(unit), column, norm == 0


def _space(
    arnoldi: Function, basis: Any, left: Any, least: Any, count: int
) -> tuple[Any, Any]:
    """The space, until so little is left in it, and where that is."""

    def cond_fun(state: Any) -> Any:
        _, _, free, ended, k = state
        return (k < count) & ~ended & (left > least * fnp.sqrt(_square(free)))

    def step(state: Any) -> Any:
        basis, hessenberg, free, _, k = state
        basis, column, ended = arnoldi(basis, k)
        more = -(free @ column) / fnp.where(ended, 1, column[k + 1])
        free = free.at[k + 1].set(more)
        return basis, hessenberg.at[k].set(column), free, ended, k + 1

    # What is not reached has nothing in common with what is.
    hessenberg = fnp.eye(count, count + 1, 1, basis.dtype)
    # Orthogonal to all columns, with 1 first: what is left is `left` over its length.
    free = fnp.zeros(count + 1, basis.dtype).at[0].set(1)
    first = (basis, hessenberg, free, fnp.asarray(False), 0)
    basis, hessenberg, _, _, _ = while_loop(cond_fun, step, first)
    q, r = fnp.linalg.qr(hessenberg.T)
    return basis, solve_triangular(r, fnp.conj(q[0]) * left.astype(basis.dtype))


tell_missing(__name__)
