"""The singular value decomposition.

svd_p(a, arg="full" | "reduced") -> (U, s, Vᴴ)      a = U·diag(s)·Vᴴ
svd_p(a, arg="values") -> (s,)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import add, mul, neg, sub
from ftrace.trace.primitives.library.library_op import host, need_matrices, real_of
from ftrace.trace.primitives.library.linalg import lapack_gufuncs
from ftrace.trace.primitives.library.linalg.matrix_nodes import (
    adjoint,
    along_columns,
    along_rows,
    as_dtype_of,
    block,
    diagonal,
    diagonal_only,
    imaginary_part,
    product,
    real,
    safe_inverse,
)
from ftrace.trace.primitives.movement import pad
from ftrace.trace.primitives.primitive import Array, Results
from ftrace.trace.symbolic.dim import same_size

np: Any = numpy  # whose stubs leave too much unknown


def _infer(arg: str, a: ShapedArray) -> tuple[ShapedArray, ...]:
    need_matrices("svd", a)
    *lead, m, n = a.shape
    k = min(m, n)
    s = real_of(a, (*lead, k))
    if arg == "values":
        return (s,)
    rows, columns = (m, n) if arg == "full" else (k, k)
    return a.with_shape((*lead, m, rows)), s, a.with_shape((*lead, columns, n))


def _svd(avals: Any, arg: str, a: Array) -> Sequence[Array]:
    if not a.size:
        return [_empty(x) for x in avals]
    if arg == "values":
        return lapack_gufuncs.svdvals(a)
    return (lapack_gufuncs.svd_full if arg == "full" else lapack_gufuncs.svd_reduced)(a)


def _empty(aval: ShapedArray) -> Array:
    """Of a matrix without elements: U and V are identities."""
    result = np.zeros(aval.shape, aval.dtype)
    if aval.ndim > 1 and same_size(aval.shape[-1], aval.shape[-2]):
        result[...] = np.eye(aval.shape[-1])
    return result


def _tangent(node: Node, tangents: Results) -> Results:
    """With P = Uᴴa'V: s' = Re diag P, and U, V turn by what P has off the diagonal.

    Equal singular values have no turn between their vectors (it is not determined),
    and neither is the common phase of a complex pair: U takes all of it. What U and V
    have beyond the k singular vectors turns no more than it must.

    Source: J. Townsend, "Differentiating the singular value decomposition" (2016).
    """
    (a,), (t,) = node.src, tangents
    assert t is not None
    arg: str = node.arg
    u, s, vh = svd_p.results(a, arg="full" if arg == "full" else "reduced")
    *_, m, n = a.shape
    k = min(m, n)
    first_u, first_vh = block(u, (0, m), (0, k)), block(vh, (0, k), (0, n))
    inner = product(product(adjoint(first_u), t), adjoint(first_vh))
    change = real(diagonal(inner))
    if arg == "values":
        return (change,)
    values = as_dtype_of(s, a)
    by_row, by_column = along_rows(values, inner), along_columns(values, inner)
    gaps = mul(sub(by_column, by_row), add(by_column, by_row))
    gap_inverse = safe_inverse(gaps)
    scaled_columns, scaled_rows = mul(inner, by_column), mul(inner, by_row)
    turn_u = mul(gap_inverse, add(scaled_columns, adjoint(scaled_columns)))
    turn_v = mul(gap_inverse, add(scaled_rows, adjoint(scaled_rows)))
    inverse = safe_inverse(values)
    if dtypes.is_complex(a.dtype):
        phase = imaginary_part(diagonal_only(inner))
        turn_u = add(turn_u, mul(phase, along_columns(inverse, phase)))
    of_v = product(adjoint(t), first_u)
    of_u = product(t, adjoint(first_vh))
    change_u = _changed(u, first_u, turn_u, of_u, inverse)
    change_v = _changed(adjoint(vh), adjoint(first_vh), turn_v, of_v, inverse)
    return change_u, change, adjoint(change_v)


def _changed(u: Node, first: Node, turn: Node, image: Node, inverse: Node) -> Node:
    """U' = U·turn, and what a'V·s⁻¹ has outside of the span of U."""
    *_, m, k = first.shape
    result = product(first, turn)
    if same_size(m, k):
        return result
    inside = product(adjoint(first), image)
    outside = sub(image, product(first, inside))
    result = add(result, mul(outside, along_columns(inverse, outside)))
    if same_size(u.shape[-1], k):
        return result
    others = block(u, (0, m), (k, m))
    across = product(adjoint(others), image)
    across = mul(across, along_columns(inverse, across))
    sides = [(0, 0, 0)] * (u.ndim - 1)
    more = neg(product(first, adjoint(across)))
    return add(pad(result, (*sides, (0, m - k, 0))), pad(more, (*sides, (k, 0, 0))))


svd_p = host("svd", _infer, _svd, _tangent, doc="singular values and vectors")


# The pseudoinverse.


def _infer_pinv(
    hermitian: bool, a: ShapedArray, rtol: ShapedArray
) -> tuple[ShapedArray, ...]:
    need_matrices("pinv", a)
    *lead, m, n = a.shape
    if not same_size(rtol.shape, tuple(lead)):
        raise ShapeError(f"pinv: one rtol per matrix is required, got {rtol!r}")
    return (ShapedArray.of((*lead, n, m), a.dtype),)


def _pinv(avals: Any, hermitian: bool, a: Array, rtol: Array) -> Sequence[Array]:
    if not a.size:
        return (np.zeros(avals[0].shape, a.dtype),)
    limit = rtol[..., None].astype(a.real.dtype)
    if hermitian:
        values, u = lapack_gufuncs.eigh["L"](a)
        vh = u.conj().swapaxes(-1, -2)
    else:
        u, values, vh = lapack_gufuncs.svd_reduced(a)
    size = np.abs(values)
    large = size > limit * size.max(-1, keepdims=True)
    inverse = np.where(large, 1 / np.where(large, values, 1), 0)
    v = vh.conj().swapaxes(-1, -2)
    uh = u.conj().swapaxes(-1, -2)
    return ((v * inverse[..., None, :]).astype(a.dtype) @ uh,)


def _pinv_tangent(node: Node, tangents: Results) -> Results:
    """At constant rank: P' = -P a' P + P Pᴴ a'ᴴ (1 - a P) + (1 - P a) a'ᴴ Pᴴ P.

    Source: G. Golub and V. Pereyra, "The differentiation of pseudo-inverses and
    nonlinear least squares problems whose variables separate" (1973), eq. 4.12.
    """
    (a, rtol), (t, _) = node.src, tangents
    if t is None:
        return (None,)
    (inverse,) = pinv_p.results(a, rtol, arg=node.arg)
    change = adjoint(t)
    first = neg(product(product(inverse, t), inverse))
    left = product(product(inverse, adjoint(inverse)), change)
    left = sub(left, product(product(left, a), inverse))
    right = product(product(change, adjoint(inverse)), inverse)
    right = sub(right, product(inverse, product(a, right)))
    return (add(first, add(left, right)),)


pinv_p = host(
    "pinv", _infer_pinv, _pinv, _pinv_tangent,
    doc="the pseudoinverse; singular values up to rtol times the greatest are zero",
)  # fmt: skip
