"""Factorisations of matrices in the last two axes, and norms.

Integers and bools are taken as floats. A matrix that has no factorisation, or holds
NaN, gives NaN; nothing raises for values.
"""

from __future__ import annotations

import math
from typing import Any

from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError, one_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.numpy import axes as ax, elementwise as ew, reductions
from ftrace.numpy.editing import take_along_axis
from ftrace.numpy.linear import matrix_transpose
from ftrace.numpy.sorting import argsort
from ftrace.numpy.statistics import squared_magnitude
from ftrace.trace.arrays.array import Array
from ftrace.trace.bind import bind, bind_compound, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.library import factors
from ftrace.trace.primitives.library.factors import householder_factor_p, qr_p, svd_p
from ftrace.trace.primitives.library.systems import cholesky_p
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "cholesky", "eig", "eigh",
    "eigvals", "eigvalsh", "matrix_norm", "norm", "qr", "svd", "svdvals", "vector_norm",
]  # fmt: skip


class EigResult(NamedTuple):
    """Eigenvalues (…, n), and eigenvectors (…, n, n) as columns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Ascending real eigenvalues (…, n), and eigenvectors (…, n, n) as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Orthonormal columns (…, m, k), and an upper triangle (…, k, n)."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """a = U·diag(S)·Vh, with descending S (…, min(m, n))."""

    U: Array
    S: Array
    Vh: Array


# Arguments.


def matrices(name: str, x: Value) -> Any:
    """`inexact` of matrices.

    Raises:
      ShapeError: there are fewer than two axes.
    """
    instead = "matrices stand in the last two axes"
    return ax.need_axes(name, ew.inexact(x), 2, instead=instead)


def square(name: str, x: Value) -> Any:
    """`matrices` that are square.

    Raises:
      ShapeError: the last two axes differ in size.
    """
    x = matrices(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{name}: square matrices (…, n, n) are required, got shape {x.shape}"
        )
    return x


def adjoint(x: Value) -> Any:
    """The conjugate transposes."""
    return ew.conjugate(matrix_transpose(x))


def make_symmetric(x: Any) -> Any:
    """(x + xᴴ)/2."""
    return (x + adjoint(x)) * 0.5


# Factorisations.


def cholesky(a: Value, *, upper: bool = False, symmetrize_input: bool = True) -> Any:
    """The lower triangular L of a = L·Lᴴ; with `upper`, the U of a = Uᴴ·U.

    Args:
      a: (…, n, n), hermitian and positive definite; NaN where it is not.
      upper: return the upper triangle.
      symmetrize_input: take (a + aᴴ)/2; otherwise the upper triangle is not read.

    Returns:
      (…, n, n), of which the other triangle is 0.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> fnp.linalg.cholesky(fnp.array([[4.0, 2.0], [2.0, 5.0]]))
      Array([[2., 0.],
             [1., 2.]], dtype=float32)
    """
    x = square("cholesky", a)
    if symmetrize_input:
        x = make_symmetric(x)
    (factor,) = bind_compound(cholesky_p, x)
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

    Example:
      >>> q, r = fnp.linalg.qr(fnp.array([[3.0, 0.0], [4.0, 5.0]]))
      >>> fnp.round(q @ r, 5)
      Array([[3., 0.],
             [4., 5.]], dtype=float32)
    """
    x = matrices("qr", a)
    if mode == "raw":
        factors, taus = bind_compound(householder_factor_p, x)
        return QRResult(matrix_transpose(factors), taus)
    one_of("qr: mode", mode, ("reduced", "complete", "full", "r", "raw"))
    q, r = bind_compound(qr_p, x, arg=mode in ("complete", "full"))
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

    Example:
      >>> u, s, vh = fnp.linalg.svd(fnp.array([[3.0, 0.0], [0.0, -4.0], [0.0, 0.0]]),
      ...                           full_matrices=False)
      >>> u.shape, s, vh.shape
      ((3, 2), Array([4., 3.], dtype=float32), (2, 2))
    """
    x = matrices("svd", a)
    if subset_by_index is not None and full_matrices and compute_uv:
        raise ValueRangeError(
            "svd: subset_by_index asks for some singular vectors, full_matrices for "
            "more than all; set full_matrices=False"
        )
    if hermitian:
        found = _svd_hermitian(x, compute_uv)
    else:
        how = "full" if full_matrices else "reduced"
        found = bind_compound(svd_p, x, arg=how if compute_uv else "values")
    if subset_by_index is not None:
        count = found[len(found) // 2].shape[-1]
        some = subset_of("svd", subset_by_index, count, "singular values")
        index = (..., some), (..., some), (..., some, slice(None))
        found = [x[i] for x, i in zip(found, index, strict=False)]
    return SVDResult(*found) if compute_uv else found[0]


def _svd_hermitian(x: Any, vectors: bool) -> list[Any]:
    v, w = bind_compound(factors.eigh_p, make_symmetric(square("svd", x)), arg=True)
    size = abs(w)
    order = ax.flip(argsort(size), (w.ndim - 1,))
    s = take_along_axis(size, order, axis=-1)
    if not vectors:
        return [s]
    v = take_along_axis(v, order[..., None, :], axis=-1)
    sign = bind(p.sign, take_along_axis(w, order, axis=-1))
    sign = sign + ax.cast(sign == 0, sign.dtype)
    return [v, s, adjoint(v * sign[..., None, :])]


def subset_of(name: str, subset: tuple[int, int], size: int, kind: str) -> slice:
    """Some of `size` values of a kind, as an index."""
    start, stop = (ax.static_int(i, f"{name}: subset_by_index") for i in subset)
    if not 0 <= start < stop <= size:
        raise ValueRangeError(
            f"{name}: subset_by_index must be (start, end) within the {size} "
            f"{kind}, got {subset}"
        )
    return slice(start, stop)


def svdvals(x: Value, /) -> Any:
    """The singular values (…, min(m, n)) of matrices, descending.

    Args:
      x: (…, m, n).

    Raises:
      ShapeError: there are fewer than two axes.

    Example:
      >>> fnp.linalg.svdvals(fnp.array([[3.0, 0.0], [0.0, -4.0]]))
      Array([4., 3.], dtype=float32)
    """
    return svd(x, compute_uv=False)


def hermitian(name: str, a: Value, triangle: str | None, symmetrize: bool) -> list[Any]:
    if triangle is not None:
        one_of(f"{name}: UPLO", triangle, ("L", "U"))
    x = square(name, a)
    x = make_symmetric(x) if symmetrize else x
    return bind_compound(factors.eigh_p, x, arg=triangle != "U")


def eigh(
    a: Value, UPLO: str | None = None, symmetrize_input: bool = True
) -> EighResult:
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

    Example:
      >>> values, vectors = fnp.linalg.eigh(fnp.array([[2.0, 1.0], [1.0, 2.0]]))
      >>> values
      Array([1., 3.], dtype=float32)
    """
    return EighResult(*hermitian("eigh", a, UPLO, symmetrize_input)[::-1])


def eigvalsh(a: Value, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Any:
    """The ascending eigenvalues of hermitian matrices.

    Args:
      a: (…, n, n).
      UPLO: which triangle is read, where the input is not symmetrized.
      symmetrize_input: take (a + aᴴ)/2.

    Returns:
      (…, n), real.

    Raises:
      ValueRangeError: UPLO is neither "L" nor "U".
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> fnp.linalg.eigvalsh(fnp.array([[2.0, 1.0], [1.0, 2.0]]))
      Array([1., 3.], dtype=float32)
    """
    return hermitian("eigvalsh", a, UPLO, symmetrize_input)[1]


def eig(a: Value) -> EigResult:
    """Eigenvalues and eigenvectors of matrices, complex, in no order.

    Eigenvectors have length 1, and a derivative that keeps it.

    Args:
      a: (…, n, n), float or complex.

    Returns:
      `EigResult`: eigenvalues (…, n), and eigenvectors (…, n, n) as columns.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> values, vectors = fnp.linalg.eig(fnp.array([[0.0, -1.0], [1.0, 0.0]]))
      >>> values
      Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    x = square("eig", a)

    values, _, right = bind_compound(factors.eig_p, x)
    return EigResult(values, right)


def eigvals(a: Value) -> Any:
    """The eigenvalues of matrices, complex, in no order.

    Args:
      a: (…, n, n), float or complex.

    Returns:
      (…, n).

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> fnp.linalg.eigvals(fnp.array([[2.0, 1.0], [0.0, 3.0]]))
      Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    return bind_compound(factors.eigvals_p, square("eigvals", a))[0]


# Norms.


Order = Any  # int | float | str | None


def norm(
    x: Value, ord: Order = None, axis: ax.Axis = None, keepdims: bool = False
) -> Any:
    """The norm of vectors or matrices. Its derivative at zero is zero, not NaN.

    Args:
      x: the array.
      ord: of a vector: 2 (the default), inf, -inf, 0, or any p; of a matrix: "fro"
        (the default), "nuc" (the sum of the singular values), 2 or -2 (the greatest,
        the least), 1, -1, inf or -inf (the greatest, the least sum of a column, of a
        row).
      axis: one axis holds vectors, two hold matrices. None takes all of them; any
        number is then allowed where `ord` is not given.
      keepdims: the reduced axes stay, with size 1.

    Raises:
      ShapeError: neither one axis nor two.
      ValueRangeError: there is no such norm.

    Example:
      >>> fnp.linalg.norm(fnp.array([3.0, 4.0]))
      Array(5., dtype=float32)
      >>> fnp.linalg.norm(fnp.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
      Array([ 5., 10.], dtype=float32)
      >>> ft.grad(fnp.linalg.norm)(fnp.zeros(2))  # not NaN
      Array([0., 0.], dtype=float32)
    """
    x = ew.inexact(x)
    axes = ax.canonical_axes(axis, x.ndim, "norm")
    if (axis is None and ord is None) or (len(axes) == 2 and ord in (None, "f", "fro")):
        return run_fused(_euclidean, [x], axes=axes, keepdims=keepdims)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)
    if len(axes) == 2:
        return _matrix_norm(x, axes, keepdims, ord)
    raise ShapeError(
        f"norm: the axes {axes} of shape {x.shape}: one axis gives the norm of "
        "vectors, two that of matrices; choose with axis="
    )


def vector_norm(
    x: Value, /, *, axis: ax.Axis = None, keepdims: bool = False, ord: Order = 2
) -> Any:
    """The norm of vectors along `axis`, or of all elements as one vector.

    Args:
      x: an array of numbers.
      axis: an axis, several, or None for all.
      keepdims: the reduced axes stay, with size 1.
      ord: (Σ |x|^ord)^(1/ord); inf the greatest, -inf the least |x|, 0 how many are not
        0.

    Raises:
      ValueRangeError: `ord` is not a number.
      AxisError: there is no such axis.

    Example:
      >>> fnp.linalg.vector_norm(fnp.array([[3.0, 4.0], [6.0, 8.0]]), axis=1, ord=1)
      Array([ 7., 14.], dtype=float32)
    """
    x = ew.inexact(x)
    axes = ax.canonical_axes(axis, x.ndim, "vector_norm")
    if ord is None or ord == 2:
        return run_fused(_euclidean, [x], axes=axes, keepdims=keepdims)
    if isinstance(ord, str):
        raise ValueRangeError(
            f"vector_norm: ord must be a number, got {ord!r}; for infinity, write "
            "ftrace.numpy.inf"
        )
    if ord == 0:
        hits = ax.cast(x != 0, dtypes.real_dtype(x.dtype))
        return reductions.add_along(hits, axes, keepdims)
    size = abs(x)
    if ord == math.inf:
        return reductions.max(size, axes, keepdims=keepdims, initial=0)
    if ord == -math.inf:
        return reductions.min(size, axes, keepdims=keepdims)
    if ord == 1:
        return reductions.add_along(size, axes, keepdims)
    return run_fused(_p_norm, [size], axes=axes, keepdims=keepdims, ord=float(ord))


def _euclidean(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return bind(p.sqrt, reductions.add_along(squared_magnitude(x), axes, keepdims))


def _p_norm(size: Any, axes: tuple[int, ...], keepdims: bool, ord: float) -> Any:
    powers = elementwise(p.power, size, ord)
    return elementwise(p.power, reductions.add_along(powers, axes, keepdims), 1 / ord)


def matrix_norm(x: Value, /, *, keepdims: bool = False, ord: Order = "fro") -> Any:
    """The norm of matrices in the last two axes.

    Args:
      x: (…, m, n).
      keepdims: the reduced axes stay, with size 1.
      ord: "fro", "nuc", 2, -2, 1, -1, inf or -inf, as of `norm`.

    Raises:
      ShapeError: there are fewer than two axes.
      ValueRangeError: there is no such norm.

    Example:
      >>> fnp.linalg.matrix_norm(fnp.array([[3.0, 0.0], [0.0, -4.0]]), ord=2)
      Array(4., dtype=float32)
    """
    x = matrices("matrix_norm", x)
    return norm(x, ord, (x.ndim - 2, x.ndim - 1), keepdims)


def _matrix_norm(x: Any, axes: tuple[int, ...], keepdims: bool, ord: Order) -> Any:
    if ord in ("nuc", 2, -2):
        return _spectral_norm(x, axes, keepdims, ord)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueRangeError(
            f"norm: ord={ord!r} is not a norm of matrices; these are 'fro', 'nuc', 1, "
            "-1, 2, -2, inf and -inf"
        )
    row, column = axes
    added, sought = (row, column) if abs(ord) == 1 else (column, row)
    sums = reductions.add_along(abs(x), (added,), keepdims)
    if not keepdims and sought > added:
        sought -= 1
    if ord > 0:
        return reductions.max(sums, sought, keepdims=keepdims, initial=0)
    return reductions.min(sums, sought, keepdims=keepdims)


def _spectral_norm(x: Any, axes: tuple[int, ...], keepdims: bool, ord: Order) -> Any:
    rest = [a for a in range(x.ndim) if a not in axes]
    values = svdvals(ax.permute(x, (*rest, *axes)))
    if ord == "nuc":
        result = reductions.sum(values, -1)
    elif ord == 2:
        result = reductions.max(values, -1, initial=0)
    else:
        result = reductions.min(values, -1)
    return ax.insert_axes(result, sorted(axes)) if keepdims else result
