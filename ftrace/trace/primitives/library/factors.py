"""Factors of matrices: QR, singular values, eigenvalues, and functions of matrices.

qr_p(a, arg=full) -> (Q, R)                         a = Q·R
qr_pivoted_p(a, arg=full) -> (Q, R, order)          a[:, order] = Q·R
householder_factor_p(a) -> (reflections under R, taus)
svd_p(a, arg="full" | "reduced") -> (U, s, Vᴴ)      a = U·diag(s)·Vᴴ
svd_p(a, arg="values") -> (s,)
eigh_p(a, arg=lower) -> (v, w)          hermitian: a·v = v·diag(w), ascending
eig_p(a) -> (w, left, right)            general, always complex
eigvals_p(a) -> (w,)
sqrtm_p(a) -> S                         S·S = a, complex
sylvester_p(a, b, c) -> X               a·X + X·b = c
schur_p(a) -> (T, Z)                    a = Z·T·Zᴴ
hessenberg_p(a) -> (H above reflections, taus)
tridiagonal_p(a, arg=lower) -> (T and reflections, diagonal, beside it, taus)
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy

from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives import broadcast as bc, elementwise as p, reduction as red
from ftrace.trace.primitives.library import (
    lapack_numpy,
    library_op,
    matrix_nodes as mat,
)
from ftrace.trace.primitives.library.systems import solve, triangular_solve
from ftrace.trace.primitives.primitive import Array, Results, items
from ftrace.trace.primitives.sources import const_like, zeros_like
from ftrace.trace.symbolic import same_size

np: Any = numpy  # whose stubs leave too much unknown


# QR.


def _infer_qr(full: bool, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_matrices("qr", a)
    *lead, m, n = a.shape
    k = m if full else min(m, n)
    return a.with_shape((*lead, m, k)), a.with_shape((*lead, k, n))


def _qr(avals: Any, full: bool, a: Array) -> Sequence[Array]:
    if not a.size:
        q, r = (np.zeros(x.shape, x.dtype) for x in avals)
        q[...] = np.eye(*q.shape[-2:])
        return q, r
    return tuple(np.linalg.qr(a, "complete" if full else "reduced"))


def _qr_tangent(node: Node, a: Node, t: Node) -> Results:
    q, r = items(node)
    return _qr_changes(q, r, t)


def _qr_changes(q: Node, r: Node, t: Node) -> tuple[Node, Node]:
    """(Q', R') where Q·R changes by `t`.

    Of the columns that R inverts: Qᴴ t R⁻¹ = Qᴴ Q' + R' R⁻¹, where the first term is
    antihermitian, the second upper triangular with a real diagonal. A full Q has more
    columns, whose change is not determined: they turn no more than they must.
    """
    *_, m, n = t.shape
    k = min(m, n)
    first = mat.block(q, (0, m), (0, k))
    square = mat.block(r, (0, k), (0, k))
    part = triangular_solve(square, mat.block(t, (0, m), (0, k)), left_side=False)
    inner = mat.product(mat.adjoint(first), part)
    low = mat.lower(inner, strict=True)
    skew = p.sub(low, mat.adjoint(low))
    if dtypes.is_complex(t.dtype):
        skew = p.add(skew, mat.imaginary_part(mat.diagonal_only(inner)))
    change = mat.product(first, p.sub(skew, inner))
    change_q = p.add(part, change)
    rest = mat.product(mat.adjoint(first), t)
    change_r = mat.upper(p.sub(rest, mat.product(skew, mat.block(r, (0, k), (0, n)))))
    if q.shape[-1] > k:
        others = mat.block(q, (0, m), (k, m))
        across = mat.product(mat.adjoint(others), part)
        more = p.neg(mat.product(first, mat.adjoint(across)))
        change_q = mat.concatenate(change_q, more, -1)
        change_r = mat.extend(change_r, m - k, 0)
    return change_q, change_r


qr_p = library_op.host(
    "qr", _infer_qr, _qr, _qr_tangent,
    doc="a = Q·R: orthonormal columns, and an upper triangle",
)  # fmt: skip


def _infer_pivoted(full: bool, a: ShapedArray) -> tuple[ShapedArray, ...]:
    return (*_infer_qr(full, a), library_op.integers((*a.shape[:-2], a.shape[-1])))


def _qr_pivoted(avals: Any, full: bool, a: Array) -> Sequence[Array]:
    if not a.size:
        q, r = _qr(avals[:2], full, a)
        order = np.zeros(avals[2].shape, np.int32)
        order[...] = np.arange(a.shape[-1])
        return q, r, order
    decomposed = lapack_numpy.need_scipy("qr with pivoting=True").qr
    how = {"mode": "full" if full else "economic", "pivoting": True}
    return lapack_numpy.each(partial(decomposed, check_finite=False, **how), avals, a)


def _tangent_of_pivoted(node: Node, a: Node, t: Node) -> Results:
    q, r, order = items(node)
    moved = mat.transpose(mat.take_rows(mat.transpose(t), order))
    return (*_qr_changes(q, r, moved), None)


qr_pivoted_p = library_op.host(
    "qr_pivoted", _infer_pivoted, _qr_pivoted, _tangent_of_pivoted,
    doc="QR of the columns in an order in which the diagonal of R falls",
)  # fmt: skip


# Reflections.


def _infer_factor(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_matrices("geqrf", a)
    return a, a.with_shape((*a.shape[:-2], min(a.shape[-2:])))


def _factor(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    if not a.size:
        return [np.zeros(x.shape, x.dtype) for x in avals]
    factors, taus = np.linalg.qr(a, "raw")
    return factors.swapaxes(-1, -2), taus


householder_factor_p = library_op.host(
    "householder_factor", _infer_factor, _factor,
    no_derivative="the reflections are not unique; use qr",
    doc="QR with Q as reflections, under R, and their factors",
)  # fmt: skip


# The singular value decomposition.


def _infer_svd(arg: str, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_matrices("svd", a)
    *lead, m, n = a.shape
    k = min(m, n)
    s = library_op.real_of(a, (*lead, k))
    if arg == "values":
        return (s,)
    rows, columns = (m, n) if arg == "full" else (k, k)
    return a.with_shape((*lead, m, rows)), s, a.with_shape((*lead, columns, n))


def _svd(avals: Any, arg: str, a: Array) -> Sequence[Array]:
    if not a.size:
        return [_factors_of_empty(x) for x in avals]
    if arg == "values":
        return lapack_numpy.or_nan(np.linalg.svdvals, avals, a)
    decomposed = partial(np.linalg.svd, full_matrices=arg == "full")
    return lapack_numpy.or_nan(decomposed, avals, a)


def _factors_of_empty(aval: ShapedArray) -> Array:
    """Of a matrix without elements: U and V are identities."""
    result = np.zeros(aval.shape, aval.dtype)
    if aval.ndim > 1 and same_size(aval.shape[-1], aval.shape[-2]):
        result[...] = np.eye(aval.shape[-1])
    return result


def _svd_tangent(node: Node, a: Node, t: Node) -> Results:
    """With P = Uᴴa'V: s' = Re diag P, and U, V turn by what P has off the diagonal.

    Equal singular values have no turn between their vectors (it is not determined),
    and neither is the common phase of a complex pair: U takes all of it. What U and V
    have beyond the k singular vectors turns no more than it must.

    Source: J. Townsend, "Differentiating the singular value decomposition" (2016).
    """
    arg: str = node.arg
    u, s, vh = svd_p.results(a, arg="full" if arg == "full" else "reduced")
    *_, m, n = a.shape
    k = min(m, n)
    first_u, first_vh = mat.block(u, (0, m), (0, k)), mat.block(vh, (0, k), (0, n))
    inner = mat.product(mat.product(mat.adjoint(first_u), t), mat.adjoint(first_vh))
    change = mat.real(mat.diagonal(inner))
    if arg == "values":
        return (change,)
    values = mat.as_dtype_of(s, a)
    by_row, by_column = mat.along_rows(values, inner), mat.along_columns(values, inner)
    gaps = p.mul(p.sub(by_column, by_row), p.add(by_column, by_row))
    gap_inverse = mat.safe_inverse(gaps)
    scaled_columns, scaled_rows = p.mul(inner, by_column), p.mul(inner, by_row)
    turn_u = p.mul(gap_inverse, p.add(scaled_columns, mat.adjoint(scaled_columns)))
    turn_v = p.mul(gap_inverse, p.add(scaled_rows, mat.adjoint(scaled_rows)))
    inverse = mat.safe_inverse(values)
    if dtypes.is_complex(a.dtype):
        phase = mat.imaginary_part(mat.diagonal_only(inner))
        turn_u = p.add(turn_u, p.mul(phase, mat.along_columns(inverse, phase)))
    of_v = mat.product(mat.adjoint(t), first_u)
    of_u = mat.product(t, mat.adjoint(first_vh))
    change_u = _change_of_vectors(u, first_u, turn_u, of_u, inverse)
    change_v = _change_of_vectors(
        mat.adjoint(vh), mat.adjoint(first_vh), turn_v, of_v, inverse
    )
    return change_u, change, mat.adjoint(change_v)


def _change_of_vectors(
    u: Node, first: Node, turn: Node, image: Node, inverse: Node
) -> Node:
    """U' = U·turn, and what a'V·s⁻¹ has outside of the span of U."""
    *_, m, k = first.shape
    result = mat.product(first, turn)
    if same_size(m, k):
        return result
    inside = mat.product(mat.adjoint(first), image)
    outside = p.sub(image, mat.product(first, inside))
    result = p.add(result, p.mul(outside, mat.along_columns(inverse, outside)))
    if same_size(u.shape[-1], k):
        return result
    others = mat.block(u, (0, m), (k, m))
    across = mat.product(mat.adjoint(others), image)
    across = p.mul(across, mat.along_columns(inverse, across))
    more = p.neg(mat.product(first, mat.adjoint(across)))
    return mat.concatenate(result, more, -1)


svd_p = library_op.host(
    "svd", _infer_svd, _svd, _svd_tangent, doc="singular values and vectors",
    compiled_from=library_op.SIGNS,
)  # fmt: skip


# Hermitian matrices.


def _eigh(avals: Any, lower: bool, a: Array) -> Sequence[Array]:
    decomposed = partial(np.linalg.eigh, UPLO="L" if lower else "U")
    values, vectors = lapack_numpy.or_nan(decomposed, avals[::-1], a)
    bad = np.isnan(values).any(-1)
    if bad.any():  # NaN in a is NaN in all results
        values, vectors = np.array(values), np.array(vectors)
        values[bad], vectors[bad] = np.nan, np.nan
    return vectors, values


def _eigh_tangent(node: Node, a: Node, t: Node) -> Results:
    """With P = vᴴa'v: w' = diag P, and v' = v·(P / (wⱼ - wᵢ)) off the diagonal.

    Equal eigenvalues have no derivative of their vectors: it is infinite or NaN.
    """
    vectors, values = items(node)
    inner = mat.product(mat.product(mat.adjoint(vectors), t), vectors)
    change = mat.real(mat.diagonal(inner))
    return mat.product(vectors, _over_gaps(inner, mat.as_dtype_of(values, a))), change


def _over_gaps(inner: Node, values: Node) -> Node:
    """Pᵢⱼ / (wⱼ - wᵢ), and zero on the diagonal."""
    gaps = p.sub(mat.along_columns(values, inner), mat.along_rows(values, inner))
    on = mat.diagonal_mask(inner.shape)
    inverse = p.reciprocal(p.select(on, const_like(gaps, 1), gaps))
    return p.mul(p.select(on, zeros_like(inner), inner), inverse)


eigh_p = library_op.host(
    "eigh", library_op.of_square(
        "eigh", library_op.keep, lambda a: library_op.real_of(a, a.shape[:-1])
    ),
    _eigh, _eigh_tangent, compiled_from=library_op.SIGNS,
    doc="eigenvectors and ascending eigenvalues of a hermitian matrix",
)  # fmt: skip


# General matrices.


def _values(a: ShapedArray) -> ShapedArray:
    return library_op.complex_of(a, a.shape[:-1])


def _vectors(a: ShapedArray) -> ShapedArray:
    return library_op.complex_of(a, a.shape)


@lapack_numpy.of_each
def _eigvals(a: Array) -> Sequence[Array]:
    """In the order of `_eig`, whose vectors the slopes take."""
    linalg = lapack_numpy.scipy_linalg()
    if linalg is None:
        return (np.linalg.eigvals(a),)
    return (linalg.eigvals(a, check_finite=False),)


def _eigvals_tangent(node: Node, a: Node, t: Node) -> Results:
    _, _, right = eig_p.results(a)
    inner = _in_basis(right, mat.as_dtype_of(t, right))
    return (mat.diagonal(inner),)


def _in_basis(right: Node, t: Node) -> Node:
    """V⁻¹·t·V."""
    return solve(right, mat.product(t, right))


eigvals_p = library_op.host(
    "eigvals", library_op.of_square("eig", _values),
    _eigvals, _eigvals_tangent,
    doc="the eigenvalues of a general matrix, complex",
)  # fmt: skip


@lapack_numpy.of_each
def _eig(a: Array) -> Sequence[Array]:
    linalg = lapack_numpy.scipy_linalg()
    if linalg is not None:
        return linalg.eig(a, left=True, check_finite=False)
    values, right = np.linalg.eig(a)
    return values, _left_vectors(right), right


def _left_vectors(right: Array) -> Array:
    """Those u of length 1 with uᴴ·a = w·uᴴ, in the order of the right ones."""
    try:
        rows = np.linalg.inv(right)
    except np.linalg.LinAlgError:
        rows = np.linalg.pinv(right)
    left = rows.conj().swapaxes(-1, -2)
    left /= np.linalg.norm(left, axis=-2, keepdims=True)
    big = np.argmax(np.abs(left), -2)[..., None, :]
    phase = np.take_along_axis(left, big, -2)
    return left * (phase.conj() / np.abs(phase))


def _eig_tangent(node: Node, a: Node, t: Node) -> Results:
    """With P = V⁻¹a'V: w' = diag P; V turns by P / (wⱼ - wᵢ), at length 1.

    LAPACK makes the greatest component of a vector real; it stays so. The left
    vectors are those of aᴴ.
    """
    values, left, right = items(node)
    t = mat.as_dtype_of(t, right)
    inner = _in_basis(right, t)
    change_right = _keep_lengths(right, inner, values)
    conjugate = mat.conj(values)
    change_left = _keep_lengths(left, _in_basis(left, mat.adjoint(t)), conjugate)
    return mat.diagonal(inner), change_left, change_right


def _keep_lengths(vectors: Node, inner: Node, values: Node) -> Node:
    """The change of eigenvectors that keeps their length, and one component real."""
    turn = mat.product(vectors, _over_gaps(inner, values))
    longer = mat.real(mat.sum_axis(p.mul(mat.conj(vectors), turn), -2))
    size = p.absolute(vectors)
    axis = vectors.ndim - 2
    greatest = bc.expand(red.reduce(red.reduce_max_p, size, (axis,)), size.shape)
    chosen = p.eq(size, greatest)
    zero = zeros_like(vectors)
    count = mat.sum_axis(p.select(chosen, const_like(vectors, 1), zero), -2)
    ratio = p.div(turn, p.select(chosen, vectors, const_like(vectors, 1)))
    angle = p.imag(p.div(mat.sum_axis(p.select(chosen, ratio, zero), -2), count))
    common = p.make_complex(longer, angle)
    return p.sub(turn, p.mul(vectors, mat.along_columns(common, vectors)))


eig_p = library_op.host(
    "eig", library_op.of_square("eig", _values, _vectors, _vectors),
    _eig, _eig_tangent,
    doc="eigenvalues, left and right eigenvectors of a general matrix, complex",
)  # fmt: skip


# Sylvester's equation, and the square root.


def _infer_sylvester(
    arg: None, a: ShapedArray, b: ShapedArray, c: ShapedArray
) -> tuple[ShapedArray, ...]:
    library_op.need_square("sylvester", a)
    library_op.need_square("sylvester", b)
    library_op.need_matrices("sylvester", a, b, c)
    if not same_size(c.shape[-2:], (a.shape[-1], b.shape[-1])):
        raise ShapeError(
            "solve_sylvester: a (m, m), b (n, n) and c (m, n) are required, got "
            f"{a!r}, {b!r} and {c!r}"
        )
    return (ShapedArray.of(c.shape, c.dtype),)


@lapack_numpy.of_each
def _sylvester(a: Array, b: Array, c: Array) -> Sequence[Array]:
    linalg = lapack_numpy.scipy_linalg()
    if linalg is not None:
        return (linalg.solve_sylvester(a, b, c),)
    # Row-major: vec(a·X + X·b) = (a ⊗ 1 + 1 ⊗ bᵀ)·vec X.
    m, n = c.shape
    matrix = np.kron(a, np.eye(n)) + np.kron(np.eye(m), b.T)
    return (np.linalg.solve(matrix, c.ravel()).reshape(m, n),)


def _sylvester_change(node: Node, turns: Results, x: Node) -> Node | None:
    """a'·X + X·b'."""
    t, u = turns
    left = None if t is None else mat.product(t, x)
    return p.total((left, u and mat.product(x, u)))


def _transpose_sylvester(node: Node) -> tuple[Sequence[Node], None]:
    a, b, _ = node.src
    return (mat.transpose(a), mat.transpose(b)), None


sylvester_p = library_op.solver(
    "sylvester", _infer_sylvester, _sylvester, _sylvester_change,
    _transpose_sylvester, called="solve_sylvester", doc="X of a·X + X·b = c",
)  # fmt: skip


@lapack_numpy.of_each
def _sqrtm(a: Array) -> Sequence[Array]:
    linalg = lapack_numpy.need_scipy("sqrtm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a singular one, which may have one
        found = linalg.sqrtm(a)
    if not np.isfinite(found).all():
        raise np.linalg.LinAlgError
    return (found,)


def _sqrtm_tangent(node: Node, a: Node, t: Node) -> Results:
    """S·S = a gives S·S' + S'·S = a'."""
    (root,) = items(node)
    return sylvester_p.results(root, root, mat.as_dtype_of(t, root))


sqrtm_p = library_op.host(
    "sqrtm", library_op.of_square("sqrtm", _vectors),
    _sqrtm, _sqrtm_tangent,
    doc="the principal square root of a matrix, complex",
)  # fmt: skip


# Schur's form.


@lapack_numpy.of_each
def _schur(a: Array) -> Sequence[Array]:
    linalg = lapack_numpy.need_scipy("schur")
    return linalg.schur(a, output="complex" if np.iscomplexobj(a) else "real")


schur_p = library_op.host(
    "schur", library_op.of_square("schur", library_op.keep, library_op.keep), _schur,
    no_derivative="the form of Schur is not unique; use eig",
    doc="a = Z·T·Zᴴ: unitary Z, upper triangular T (of blocks, if real)",
)  # fmt: skip


# Hessenberg and tridiagonal forms.


#: Columns that LAPACK treats together, where it has the memory.
_MEMORY = 64


def _infer_hessenberg(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_square("hessenberg", a)
    return a, a.with_shape((*a.shape[:-2], max(a.shape[-1] - 1, 0)))


def _hessenberg(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    if a.shape[-1] < 2 or not a.size:
        return np.array(a), np.zeros(avals[1].shape, a.dtype)
    lapack_numpy.need_scipy("hessenberg")
    gehrd = lapack_numpy.routine("lapack", "gehrd", a.dtype)
    return lapack_numpy.each(partial(gehrd, lwork=_MEMORY * a.shape[-1]), avals, a)


hessenberg_p = library_op.host(
    "hessenberg", _infer_hessenberg, _hessenberg,
    no_derivative="the reflections are not unique",
    doc="zeros below the first subdiagonal, by reflections on both sides",
)  # fmt: skip


def _infer_tridiagonal(lower: bool, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_square("tridiagonal", a)
    *lead, _, n = a.shape
    fewer = max(n - 1, 0)
    return (
        a,
        library_op.real_of(a, (*lead, n)),
        library_op.real_of(a, (*lead, fewer)),
        a.with_shape((*lead, fewer)),
    )


def _tridiagonal(avals: Any, lower: bool, a: Array) -> Sequence[Array]:
    if a.shape[-1] < 2 or not a.size:
        diagonal = np.diagonal(a.real, 0, -2, -1)
        packed = a.real.astype(a.dtype)
        return packed, diagonal, *(np.zeros(x.shape, x.dtype) for x in avals[2:])
    lapack_numpy.need_scipy("tridiagonal")
    name = "hetrd" if np.iscomplexobj(a) else "sytrd"
    trd = lapack_numpy.routine("lapack", name, a.dtype)
    reduce = partial(trd, lower=int(lower), lwork=_MEMORY * a.shape[-1])
    return lapack_numpy.each(reduce, avals, a)


tridiagonal_p = library_op.host(
    "tridiagonal", _infer_tridiagonal, _tridiagonal,
    no_derivative="the reflections are not unique; use eigh",
    doc="a hermitian matrix, made tridiagonal by reflections on both sides",
)  # fmt: skip
