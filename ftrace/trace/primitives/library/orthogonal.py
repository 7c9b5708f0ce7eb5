"""Orthogonal factors: QR, and the singular value decomposition.

qr_p(a, arg=full) -> (Q, R)                         a = Q·R
qr_pivoted_p(a, arg=full) -> (Q, R, order)          a[:, order] = Q·R
householder_factor_p(a) -> (reflections under R, taus)
svd_p(a, arg="full" | "reduced") -> (U, s, Vᴴ)      a = U·diag(s)·Vᴴ
svd_p(a, arg="values") -> (s,)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy

from ftrace import dtypes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.library import (
    lapack_numpy,
    library_op,
    matrix_nodes as mat,
)
from ftrace.trace.primitives.library.systems import triangular_solve
from ftrace.trace.primitives.movement import pad
from ftrace.trace.primitives.primitive import Array, Results, items
from ftrace.trace.symbolic.dim import same_size

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
        more = mat.product(first, mat.adjoint(across))
        sides = [(0, 0, 0)] * (t.ndim - 2)
        wide = (*sides, (0, 0, 0), (0, m - k, 0))
        narrow = (*sides, (0, 0, 0), (k, 0, 0))
        change_q = p.sub(pad(change_q, wide), pad(more, narrow))
        change_r = pad(change_r, (*sides, (0, m - k, 0), (0, 0, 0)))
    return change_q, change_r


qr_p = library_op.host(
    "qr", _infer_qr, _qr, _qr_tangent,
    doc="a = Q·R: orthonormal columns, and an upper triangle",
)  # fmt: skip


def _infer_pivoted(full: bool, a: ShapedArray) -> tuple[ShapedArray, ...]:
    return (*_infer_qr(full, a), library_op.integers((*a.shape[:-2], a.shape[-1])))


def _pivoted(avals: Any, full: bool, a: Array) -> Sequence[Array]:
    if not a.size:
        q, r = _qr(avals[:2], full, a)
        order = np.zeros(avals[2].shape, np.int32)
        order[...] = np.arange(a.shape[-1])
        return q, r, order
    linalg = lapack_numpy.need_scipy("qr with pivoting=True")
    mode = "full" if full else "economic"

    def decomposed(x: Array) -> Sequence[Array]:
        return linalg.qr(x, mode=mode, pivoting=True, check_finite=False)

    return lapack_numpy.each(decomposed, avals, a)


def _tangent_of_pivoted(node: Node, a: Node, t: Node) -> Results:
    q, r, order = items(node)
    moved = mat.transposed(mat.take_rows(mat.transposed(t), order))
    return (*_qr_changes(q, r, moved), None)


qr_pivoted_p = library_op.host(
    "qr_pivoted", _infer_pivoted, _pivoted, _tangent_of_pivoted,
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
        return [_empty(x) for x in avals]
    if arg == "values":
        return lapack_numpy.or_nan(np.linalg.svdvals, avals, a)
    decomposed = partial(np.linalg.svd, full_matrices=arg == "full")
    return lapack_numpy.or_nan(decomposed, avals, a)


def _empty(aval: ShapedArray) -> Array:
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
    change_u = _changed(u, first_u, turn_u, of_u, inverse)
    change_v = _changed(mat.adjoint(vh), mat.adjoint(first_vh), turn_v, of_v, inverse)
    return change_u, change, mat.adjoint(change_v)


def _changed(u: Node, first: Node, turn: Node, image: Node, inverse: Node) -> Node:
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
    sides = [(0, 0, 0)] * (u.ndim - 1)
    more = p.neg(mat.product(first, mat.adjoint(across)))
    return p.add(pad(result, (*sides, (0, m - k, 0))), pad(more, (*sides, (k, 0, 0))))


svd_p = library_op.host(
    "svd", _infer_svd, _svd, _svd_tangent, doc="singular values and vectors"
)
