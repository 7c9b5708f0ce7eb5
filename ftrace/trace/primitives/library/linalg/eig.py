"""Eigenvalues and eigenvectors.

eigh_p(a, arg=lower) -> (v, w)                hermitian: a·v = v·diag(w), ascending
eig_p(a) -> (w, left, right)                  general, always complex
eigvals_p(a) -> (w,)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import expand
from ftrace.trace.primitives.library.library_op import (
    complex_of,
    host,
    need_square,
    real_of,
)
from ftrace.trace.primitives.library.linalg import lapack_gufuncs, lapack_numpy
from ftrace.trace.primitives.library.linalg.lu import solve
from ftrace.trace.primitives.library.linalg.matrix_nodes import (
    adjoint,
    along_columns,
    along_rows,
    as_dtype_of,
    conj,
    diagonal,
    diagonal_mask,
    product,
    real,
    sum_axis,
)
from ftrace.trace.primitives.primitive import Array, Results
from ftrace.trace.primitives.reduction import reduce, reduce_max_p
from ftrace.trace.primitives.sources import const_like, zeros_like

np: Any = numpy  # whose stubs leave too much unknown

# Hermitian matrices.


def _infer_eigh(lower: bool, a: ShapedArray) -> tuple[ShapedArray, ...]:
    need_square("eigh", a)
    return a, real_of(a, a.shape[:-1])


def _eigh(avals: Any, lower: bool, a: Array) -> Sequence[Array]:
    values, vectors = lapack_gufuncs.eigh["L" if lower else "U"](a)
    if lapack_numpy.has_nan(values):  # NaN in a is NaN in all results
        bad = np.isnan(values).any(-1)
        values, vectors = np.array(values), np.array(vectors)
        values[bad], vectors[bad] = np.nan, np.nan
    return vectors, values


def _eigh_tangent(node: Node, tangents: Results) -> Results:
    """With P = vᴴa'v: w' = diag P, and v' = v·(P / (wⱼ - wᵢ)) off the diagonal.

    Equal eigenvalues have no derivative of their vectors: it is infinite or NaN.
    """
    (a,), (t,) = node.src, tangents
    assert t is not None
    vectors, values = eigh_p.results(a, arg=node.arg)
    inner = product(product(adjoint(vectors), t), vectors)
    change = real(diagonal(inner))
    return product(vectors, _over_gaps(inner, as_dtype_of(values, a))), change


def _over_gaps(inner: Node, values: Node) -> Node:
    """Pᵢⱼ / (wⱼ - wᵢ), and zero on the diagonal."""
    gaps = p.sub(along_columns(values, inner), along_rows(values, inner))
    on = diagonal_mask(inner.shape)
    inverse = p.reciprocal(p.select(on, const_like(gaps, 1), gaps))
    return p.mul(p.select(on, zeros_like(inner), inner), inverse)


eigh_p = host(
    "eigh", _infer_eigh, _eigh, _eigh_tangent,
    doc="eigenvectors and ascending eigenvalues of a hermitian matrix",
)  # fmt: skip


def eigenvalues(lower: bool, a: Array) -> Array:
    """Those of hermitian matrices without vectors, in a third of the time of `eigh`."""
    (values,) = lapack_gufuncs.eigvalsh["L" if lower else "U"](a)
    if lapack_numpy.has_nan(a):  # NaN in what is read is NaN in all results
        read = np.tril(a) if lower else np.triu(a)
        values = np.array(values)
        values[np.isnan(read).any((-1, -2))] = np.nan
    return values


# General matrices.


def _infer_eigvals(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    need_square("eig", a)
    return (complex_of(a, a.shape[:-1]),)


def _finite(function: Callable[[Array], Any], avals: Any, a: Array) -> Sequence[Array]:
    """`function` of the matrices without NaN and infinity; NaN for the others."""
    if lapack_numpy.are_finite(a):
        return function(a)
    good = np.isfinite(a).all((-1, -2))
    results = [np.full(x.shape, complex(np.nan, np.nan), x.dtype) for x in avals]
    for result, value in zip(results, function(a[good]), strict=True):
        result[good] = value
    return results


def _eigvals(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    return _finite(lapack_gufuncs.eigvals, avals, a)


def _eigvals_tangent(node: Node, tangents: Results) -> Results:
    (a,), (t,) = node.src, tangents
    assert t is not None
    _, _, right = eig_p.results(a)
    inner = _in_basis(right, as_dtype_of(t, right))
    return (diagonal(inner),)


def _in_basis(right: Node, t: Node) -> Node:
    """V⁻¹·t·V."""
    return solve(right, product(t, right))


eigvals_p = host(
    "eigvals", _infer_eigvals, _eigvals, _eigvals_tangent,
    doc="the eigenvalues of a general matrix, complex",
)  # fmt: skip


def _infer_eig(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    (values,) = _infer_eigvals(arg, a)
    vectors = complex_of(a, a.shape)
    return values, vectors, vectors


def _eig(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    def decomposed(x: Array) -> tuple[Array, Array, Array]:
        linalg = lapack_numpy.scipy_linalg()
        if linalg is not None and x.size:
            return _by_geev(linalg, x)
        values, right = lapack_gufuncs.eig(x)
        return values, _left_vectors(right), right

    return _finite(lambda x: lapack_gufuncs.or_nan(decomposed, x), avals, a)


def eigen_system(avals: Any, a: Array) -> Sequence[Array]:
    """Eigenvalues and right eigenvectors, without the left ones."""
    return _finite(lapack_gufuncs.eig, avals, a)


def _left_vectors(right: Array) -> Array:
    """Those u of length 1 with uᴴ·a = w·uᴴ, in the order of the right ones."""
    if not right.size:
        return right
    try:
        rows = np.linalg.inv(right)
    except np.linalg.LinAlgError:
        rows = np.linalg.pinv(right)
    left = rows.conj().swapaxes(-1, -2)
    left /= np.linalg.norm(left, axis=-2, keepdims=True)
    big = np.argmax(np.abs(left), -2)[..., None, :]
    phase = np.take_along_axis(left, big, -2)
    return left * (phase.conj() / np.abs(phase))


def _by_geev(linalg: Any, a: Array) -> tuple[Array, Array, Array]:
    """Values and both kinds of vectors by one call for each matrix.

    Raises:
      LinAlgError: LAPACK has found no result.
    """
    geev, ask = linalg.get_lapack_funcs(("geev", "geev_lwork"), (a,))
    n = a.shape[-1]
    length = int(np.real(ask(n)[0]))  # with less it works column by column
    wide = np.result_type(a.dtype, np.complex64)
    values = np.empty(a.shape[:-1], wide)
    left, right = np.empty(a.shape, wide), np.empty(a.shape, wide)
    for index in np.ndindex(*a.shape[:-2]):
        *found, info = geev(a[index], lwork=length)
        if info:
            raise np.linalg.LinAlgError("eigenvalues did not converge")
        if len(found) == 3:
            values[index], left[index], right[index] = found
        else:
            reals, imaginary, *vectors = found
            values[index] = reals + 1j * imaginary
            left[index], right[index] = (_unpacked(imaginary, v) for v in vectors)
    return values, left, right


def _unpacked(imaginary: Array, packed: Array) -> Array:
    """LAPACK's real pairs of columns (real, imaginary part) as conjugate columns."""
    result = packed + 0j
    for j in np.flatnonzero(imaginary > 0):
        result[:, j] = packed[:, j] + 1j * packed[:, j + 1]
        result[:, j + 1] = result[:, j].conj()
    return result


def _eig_tangent(node: Node, tangents: Results) -> Results:
    """With P = V⁻¹a'V: w' = diag P; V turns by P / (wⱼ - wᵢ), at length 1.

    LAPACK makes the greatest component of a vector real; it stays so. The left
    vectors are those of aᴴ.
    """
    (a,), (t,) = node.src, tangents
    assert t is not None
    values, left, right = eig_p.results(a)
    t = as_dtype_of(t, right)
    inner = _in_basis(right, t)
    change_right = _turned(right, inner, values)
    conjugate = conj(values)
    change_left = _turned(left, _in_basis(left, adjoint(t)), conjugate)
    return diagonal(inner), change_left, change_right


def _turned(vectors: Node, inner: Node, values: Node) -> Node:
    """The change of eigenvectors that keeps their length, and one component real."""
    turn = product(vectors, _over_gaps(inner, values))
    longer = real(sum_axis(p.mul(conj(vectors), turn), -2))
    size = p.absolute(vectors)
    axis = vectors.ndim - 2
    greatest = expand(reduce(reduce_max_p, size, (axis,)), size.shape)
    chosen = p.eq(size, greatest)
    zero = zeros_like(vectors)
    count = sum_axis(p.select(chosen, const_like(vectors, 1), zero), -2)
    ratio = p.div(turn, p.select(chosen, vectors, const_like(vectors, 1)))
    angle = p.imag(p.div(sum_axis(p.select(chosen, ratio, zero), -2), count))
    common = p.make_complex(longer, angle)
    return p.sub(turn, p.mul(vectors, along_columns(common, vectors)))


eig_p = host(
    "eig", _infer_eig, _eig, _eig_tangent,
    doc="eigenvalues, left and right eigenvectors of a general matrix, complex",
)  # fmt: skip
