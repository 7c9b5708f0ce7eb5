"""QR, and products of reflections.

qr_p(a, arg=full) -> (Q, R)                  a = Q·R
qr_pivoted_p(a, arg=full) -> (Q, R, order)   a[:, order] = Q·R
householder_product_p(a, taus) -> Q          the first columns of H₁·H₂·…
householder_factor_p(a) -> (reflections under R, taus)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import add, sub
from ftrace.trace.primitives.library import library_op
from ftrace.trace.primitives.library.linalg import lapack_numpy
from ftrace.trace.primitives.library.linalg.matrix_nodes import (
    adjoint,
    block,
    diagonal_only,
    imaginary_part,
    lower,
    product,
    take_rows,
    transposed,
    upper,
)
from ftrace.trace.primitives.library.linalg.triangular import triangular_solve
from ftrace.trace.primitives.movement import pad
from ftrace.trace.primitives.primitive import Array, Results
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


def _qr_tangent(node: Node, tangents: Results) -> Results:
    (a,), (t,) = node.src, tangents
    assert t is not None
    q, r = qr_p.results(a, arg=node.arg)
    return turned(q, r, t)


def turned(q: Node, r: Node, t: Node) -> tuple[Node, Node]:
    """(Q', R') where Q·R changes by `t`.

    Of the columns that R inverts: Qᴴ t R⁻¹ = Qᴴ Q' + R' R⁻¹, where the first term is
    antihermitian, the second upper triangular with a real diagonal. A full Q has more
    columns, whose change is not determined: they turn no more than they must.
    """
    *_, m, n = t.shape
    k = min(m, n)
    first = block(q, (0, m), (0, k))
    square = block(r, (0, k), (0, k))
    part = triangular_solve(square, block(t, (0, m), (0, k)), left_side=False)
    inner = product(adjoint(first), part)
    low = lower(inner, strict=True)
    skew = sub(low, adjoint(low))
    if dtypes.is_complex(t.dtype):
        skew = add(skew, imaginary_part(diagonal_only(inner)))
    change = product(first, sub(skew, inner))
    change_q = add(part, change)
    rest = product(adjoint(first), t)
    change_r = upper(sub(rest, product(skew, block(r, (0, k), (0, n)))))
    if q.shape[-1] > k:
        others = block(q, (0, m), (k, m))
        across = product(adjoint(others), part)
        more = product(first, adjoint(across))
        sides = [(0, 0, 0)] * (t.ndim - 2)
        wide = (*sides, (0, 0, 0), (0, m - k, 0))
        narrow = (*sides, (0, 0, 0), (k, 0, 0))
        change_q = sub(pad(change_q, wide), pad(more, narrow))
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


def _pivoted_tangent(node: Node, tangents: Results) -> Results:
    (a,), (t,) = node.src, tangents
    assert t is not None
    q, r, order = qr_pivoted_p.results(a, arg=node.arg)
    moved = transposed(take_rows(transposed(t), order))
    return (*turned(q, r, moved), None)


qr_pivoted_p = library_op.host(
    "qr_pivoted", _infer_pivoted, _pivoted, _pivoted_tangent,
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


def _infer_product(arg: None, a: ShapedArray, taus: ShapedArray) -> Any:
    library_op.need_matrices("householder_product", a)
    library_op.need_lapack("householder_product", a, taus)
    *lead, m, n = a.shape
    if m < n or not same_size(taus.shape[:-1], tuple(lead)) or taus.shape[-1] > n:
        raise ShapeError(
            "householder_product: reflections (…, m, n) with m >= n and taus (…, k) "
            f"with k <= n are required, got {a!r} and {taus!r}"
        )
    return (a,)


def _product(avals: Any, arg: None, a: Array, taus: Array) -> Sequence[Array]:
    """H₁·H₂·…, from the last one on: H = I - τ v vᴴ, where v begins with a 1."""
    m, n = a.shape[-2:]
    result = np.zeros(a.shape, a.dtype)
    result[...] = np.eye(m, n)
    for i in reversed(range(taus.shape[-1])):
        v = np.array(a[..., i:, i])
        v[..., 0] = 1
        below = result[..., i:, :]
        along = (v.conj()[..., None, :] @ below) * taus[..., i, None, None]
        below -= v[..., None] * along
    return (result,)


householder_product_p = library_op.host(
    "householder_product", _infer_product, _product,
    no_derivative="the derivative of the reflections is not written; use qr",
    doc="the orthonormal columns that a product of reflections has",
)  # fmt: skip
