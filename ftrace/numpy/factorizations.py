"""Factorisations of matrices in the last two axes: cholesky, qr, svd, eigh, eig.

Integers and bools are taken as floats. A matrix that has no factorisation, or holds
NaN, gives NaN; nothing raises for values.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError, one_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.numpy.axes import as_value, cast, flip
from ftrace.numpy.linear import conjugated, matrix_transpose
from ftrace.numpy.sorting import argsort
from ftrace.numpy.take import take_along_axis
from ftrace.trace import bind
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.library.library_op import SUPPORTED
from ftrace.trace.primitives.library.linalg import eig as spectral
from ftrace.trace.primitives.library.linalg.eig import eigenvalues
from ftrace.trace.primitives.library.linalg.qr import householder_factor_p, qr_p
from ftrace.trace.primitives.library.linalg.svd import svd_p
from ftrace.trace.primitives.library.linalg.triangular import cholesky_p
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals",
    "EigResult", "EighResult", "QRResult", "SVDResult",
]  # fmt: skip


class EigResult(NamedTuple):
    """Eigenvalues (…, n), and eigenvectors (…, n, n) as columns."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """Ascending real eigenvalues (…, n), and eigenvectors (…, n, n) as columns."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """Orthonormal columns (…, m, k), and an upper triangle (…, k, n)."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """a = U·diag(S)·Vh, with descending S (…, min(m, n))."""

    U: Any
    S: Any
    Vh: Any


# Arguments.


def inexact(x: Value) -> Any:
    """`x`, as floats if it has integers or bools."""
    x = as_value(x)
    return x if dtypes.is_inexact(x.dtype) else cast(x, dtypes.to_inexact(x.dtype))


def matrices(name: str, x: Value) -> Any:
    """`inexact` of matrices.

    Raises:
      ShapeError: there are fewer than two axes.
    """
    x = inexact(x)
    if x.ndim < 2:
        raise ShapeError(
            f"{name}: matrices in the last two axes are required, got the shape "
            f"{x.shape}"
        )
    return x


def square(name: str, x: Value) -> Any:
    """`matrices` that are square.

    Raises:
      ShapeError: the last two axes differ in size.
    """
    x = matrices(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{name}: square matrices (…, n, n) are required, got the shape {x.shape}"
        )
    return x


def adjoint(x: Value) -> Any:
    """The conjugate transposes."""
    return conjugated(matrix_transpose(x))


def symmetrized(x: Any) -> Any:
    """(x + xᴴ)/2."""
    return (x + adjoint(x)) * 0.5


# Factorisations.


def cholesky(a: Value, *, upper: bool = False, symmetrize_input: bool = True) -> Any:
    """The lower triangular L of a = L·Lᴴ; with `upper`, the U of a = Uᴴ·U.

    Args:
      a: (…, n, n), hermitian and positive definite; NaN where it is not.
      upper: return the upper triangle.
      symmetrize_input: take (a + aᴴ)/2; otherwise the upper triangle is not read.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.
    """
    x = square("cholesky", a)
    if symmetrize_input:
        x = symmetrized(x)
    (factor,) = bind.bind_compound(cholesky_p, x)
    return adjoint(factor) if upper else factor


def qr(a: Value, mode: str = "reduced") -> Any:
    """a = Q·R, with orthonormal columns in Q and an upper triangular R.

    Args:
      a: (…, m, n).
      mode: "reduced", or "complete" (also "full") for a square Q; "r" for R alone;
        "raw" for LAPACK's reflections (…, n, m) and their factors.

    Returns:
      `QRResult`, or R.

    Raises:
      ValueRangeError: the mode is unknown.
      ShapeError: there are fewer than two axes.
      DtypeError: the dtype is float16 or bfloat16.
    """
    x = matrices("qr", a)
    if mode == "raw":
        factors, taus = bind.bind_compound(householder_factor_p, x)
        return QRResult(matrix_transpose(factors), taus)
    one_of("qr: mode", mode, ("reduced", "complete", "full", "r", "raw"))
    q, r = bind.bind_compound(qr_p, x, arg=mode in ("complete", "full"))
    return r if mode == "r" else QRResult(q, r)


def svd(
    a: Value,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """The singular value decomposition a = U·diag(S)·Vh.

    Args:
      a: (…, m, n).
      full_matrices: U is (…, m, m) and Vh is (…, n, n), instead of k = min(m, n)
        columns and rows.
      compute_uv: return the vectors, too.
      hermitian: `a` is; then it is done by `eigh`.
      subset_by_index: (start, end): these singular values and vectors only.

    Returns:
      `SVDResult`, or S.

    Raises:
      ValueRangeError: `full_matrices` with `subset_by_index`, or an empty subset.
      ShapeError: there are fewer than two axes; not square, but `hermitian`.
      DtypeError: the dtype is float16 or bfloat16.
    """
    x = matrices("svd", a)
    if subset_by_index is not None and full_matrices and compute_uv:
        raise ValueRangeError(
            "svd: subset_by_index asks for some singular vectors, full_matrices for "
            "more than all; set full_matrices=False"
        )
    if hermitian:
        found = _svd_hermitian(x, compute_uv)
    elif compute_uv:
        found = bind.bind_compound(svd_p, x, arg="full" if full_matrices else "reduced")
    else:
        found = bind.bind_compound(svd_p, x, arg="values")
    if subset_by_index is not None:
        found = _subset(found, *subset_by_index)
    return SVDResult(*found) if compute_uv else found[0]


def _svd_hermitian(x: Any, vectors: bool) -> list[Any]:
    v, w = bind.bind_compound(spectral.eigh_p, symmetrized(square("svd", x)), arg=True)
    size = abs(w)
    order = flip(argsort(size), (w.ndim - 1,))
    s = take_along_axis(size, order, axis=-1)
    if not vectors:
        return [s]
    v = take_along_axis(v, order[..., None, :], axis=-1)
    sign = bind.bind(p.sign, take_along_axis(w, order, axis=-1))
    sign = sign + cast(sign == 0, sign.dtype)
    return [v, s, adjoint(v * sign[..., None, :])]


def _subset(found: list[Any], start: int, stop: int) -> list[Any]:
    k = found[len(found) // 2].shape[-1]
    if not 0 <= start < stop <= k:
        raise ValueRangeError(
            f"svd: subset_by_index must be (start, end) within the {k} singular "
            f"values, got {(start, stop)}"
        )
    if len(found) == 1:
        return [found[0][..., start:stop]]
    u, s, vh = found
    return [u[..., start:stop], s[..., start:stop], vh[..., start:stop, :]]


def svdvals(x: Value, /) -> Any:
    """The singular values (…, min(m, n)) of matrices, descending.

    Raises:
      ShapeError: there are fewer than two axes.
    """
    return svd(x, compute_uv=False)


def _lower(name: str, triangle: Any) -> bool:
    one_of(f"{name}: UPLO", triangle, (None, "L", "U"))
    return triangle != "U"


def eigh(a: Value, UPLO: str | None = None, symmetrize_input: bool = True) -> Any:
    """Eigenvalues and eigenvectors of hermitian matrices.

    Where two eigenvalues are equal, the derivative of the vectors is NaN.

    Args:
      a: (…, n, n).
      UPLO: which triangle is read, where the input is not symmetrized.
      symmetrize_input: take (a + aᴴ)/2.

    Returns:
      `EighResult`.

    Raises:
      ValueRangeError: UPLO is neither "L" nor "U".
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.
    """
    lower = _lower("eigh", UPLO)
    x = square("eigh", a)
    if symmetrize_input:
        x = symmetrized(x)
    vectors, values = bind.bind_compound(spectral.eigh_p, x, arg=lower)
    return EighResult(values, vectors)


def eigvalsh(a: Value, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Any:
    """The ascending eigenvalues of hermitian matrices: see `eigh`."""
    lower = _lower("eigvalsh", UPLO)
    x = square("eigvalsh", a)
    if symmetrize_input:
        x = symmetrized(x)
    if x.dtype in SUPPORTED:
        function, dtype = partial(eigenvalues, lower), dtypes.real_dtype(x.dtype)
        found = bind.do_now(function, x, dtype=dtype, weak=x.weak_type)
        if found is not None:
            return found
    return bind.bind_compound(spectral.eigh_p, x, arg=lower)[1]


def eig(a: Value) -> EigResult:
    """Eigenvalues and eigenvectors of matrices, complex, in no order.

    Eigenvectors have length 1, and a derivative that keeps it.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.
    """
    x = square("eig", a)

    if x.dtype in SUPPORTED:  # without the left ones
        avals = spectral.eig_p.infer(None, aval_of(x))
        types = [(v.dtype, v.weak_type) for v in avals[1:]]
        function = partial(spectral.eigen_system, avals)
        now = bind.do_several_now(function, x, results=types)
        if now is not None:
            return EigResult(*now)
    values, _, right = bind.bind_compound(spectral.eig_p, x)
    return EigResult(values, right)


def eigvals(a: Value) -> Any:
    """The eigenvalues of matrices, complex, in no order: see `eig`."""
    return bind.bind_compound(spectral.eigvals_p, square("eigvals", a))[0]
