"""LU with partial pivoting, systems that it solves, and determinants.

lu_p(a) -> (L and U in one matrix, pivots, permutation)      a[permutation] = L·U
lu_solve_p(a, factors, permutation, b, arg=Op(…)) -> X       op(a)·X = b
slogdet_p(a) -> (sign, log |det a|)
det_p(a) -> det a
cofactors_p(a) -> the matrix of cofactors: the derivative of det a
permutation_p(pivots, arg=size) -> permutation
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import add, mul, select, stop_gradient, sub
from ftrace.trace.primitives.library import library_op
from ftrace.trace.primitives.library.library_op import Batched
from ftrace.trace.primitives.library.linalg import lapack_gufuncs, lapack_numpy
from ftrace.trace.primitives.library.linalg.matrix_nodes import (
    block,
    conj,
    diagonal_mask,
    everywhere,
    imaginary_part,
    lower,
    minus,
    need_not_linear,
    product,
    real,
    sum_axis,
    take_rows,
    trace,
    transposed,
    upper,
)
from ftrace.trace.primitives.library.linalg.triangular import (
    fold_lanes,
    triangular_solve,
)
from ftrace.trace.primitives.movement import pad
from ftrace.trace.primitives.primitive import Array, Results
from ftrace.trace.primitives.sources import const_like
from ftrace.trace.symbolic.dim import same_size

np: Any = numpy  # whose stubs leave too much unknown

# The factorisation.


def _infer_lu(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_matrices("lu", a)
    *lead, m, n = a.shape
    return a, library_op.integers((*lead, min(m, n))), library_op.integers((*lead, m))


def _lu(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    factors, pivots = lapack_numpy.lu(a)
    return factors, pivots, lapack_numpy.permutation(pivots, a.shape[-2])


def _lu_tangent(node: Node, tangents: Results) -> Results:
    """P A' = L'U + L U', where L' is strictly lower and U' upper triangular.

    In the square part G = L⁻¹ P A' U⁻¹ = L⁻¹L' + U'U⁻¹ has one term on either side of
    the diagonal. The rows below it, or the columns beside it, are what is left over.
    """
    (a,), (t,) = node.src, tangents
    assert t is not None
    factors, _, order = lu_p.results(a)
    *_, m, n = a.shape
    k = min(m, n)
    square = block(factors, (0, k), (0, k))
    moved = take_rows(t, order)
    right = triangular_solve(square, block(moved, (0, m), (0, k)), left_side=False)
    inner = triangular_solve(
        square, block(right, (0, k), (0, k)), lower=True, unit_diagonal=True
    )
    sides = [(0, 0, 0)] * (t.ndim - 2)
    if m >= n:
        high = upper(inner)
        change = sub(right, product(unit_lower(factors), high))
        top = pad(product(high, upper(square)), (*sides, (0, m - n, 0), (0, 0, 0)))
        return add(lower(change, strict=True), top), None, None
    low = lower(inner, strict=True)
    rows = triangular_solve(square, moved, lower=True, unit_diagonal=True)
    change = upper(sub(rows, product(low, upper(factors))))
    left = pad(product(unit_lower(square), low), (*sides, (0, 0, 0), (0, n - m, 0)))
    return add(change, left), None, None


def unit_lower(factors: Node) -> Node:
    """L of L and U in one matrix, which has no more columns than rows."""
    one = const_like(factors, 1)
    return select(diagonal_mask(factors.shape), one, lower(factors, strict=True))


lu_p = library_op.host(
    "lu", _infer_lu, _lu, _lu_tangent,
    doc="P·a = L·U with partial pivoting: both in one matrix, pivots, permutation",
)  # fmt: skip


def _infer_permutation(size: int, pivots: ShapedArray) -> tuple[ShapedArray, ...]:
    if pivots.ndim < 1 or pivots.dtype != dtypes.int32 or size < pivots.shape[-1]:
        raise ShapeError(
            f"lu_pivots_to_permutation: pivots int32[…, k] with k <= {size} are "
            f"required, got {pivots!r}"
        )
    return (library_op.integers((*pivots.shape[:-1], size)),)


def _permutation(avals: Any, size: int, pivots: Array) -> Sequence[Array]:
    return (lapack_numpy.permutation(np.clip(pivots, 0, max(size - 1, 0)), size),)


permutation_p = library_op.host(
    "permutation", _infer_permutation,
    _permutation,
    no_derivative="it is a function of integers", kinds="i",
    doc="the order of rows that a sequence of exchanges gives",
)  # fmt: skip


# Systems.


class Op(NamedTuple):
    """The argument of lu_solve: op(a) is a, its transpose, conjugate, or both."""

    transpose: bool = False
    conjugate: bool = False


def _infer_solve(
    arg: Op, a: ShapedArray, factors: ShapedArray, order: ShapedArray, b: ShapedArray
) -> tuple[ShapedArray, ...]:
    library_op.need_square("solve", a)
    library_op.need_matrices("solve", a, factors, b)
    if not same_size(b.shape[-2], a.shape[-1]) or not same_size(factors.shape, a.shape):
        raise ShapeError(f"solve: a (…, n, n) and b (…, n, k): got {a!r} and {b!r}")
    return (ShapedArray.of(b.shape, b.dtype, a.weak_type and b.weak_type),)


def _solve(
    avals: Any, arg: Op, a: Array, factors: Array, order: Array, b: Array
) -> Sequence[Array]:
    return (lapack_numpy.solve_lu(factors, order, b, arg.transpose, arg.conjugate),)


def _applied(arg: Op, x: Node) -> Node:
    x = conj(x) if arg.conjugate else x
    return transposed(x) if arg.transpose else x


def _solve_tangent(node: Node, tangents: Results) -> Results:
    """op(a) X = b gives op(a) X' = b' - op(a') X; the factors follow from a."""
    a, factors, order, _ = node.src
    t, _, _, u = tangents
    arg: Op = node.arg
    change: Node | None = None
    if t is not None:
        (x,) = lu_solve_p.results(*node.src, arg=arg)
        change = product(_applied(arg, t), x)
    right = minus(u, change)
    if right is None:
        return (None,)
    return (lu_solve_p.results(a, factors, order, right, arg=arg)[0],)


def _solve_transpose(
    node: Node, cotangents: Results, linear: tuple[bool, ...]
) -> Results:
    need_not_linear("solve", node, linear[:3])
    a, factors, order, _ = node.src
    (ct,) = cotangents
    if ct is None:
        return None, None, None, None
    turned: Op = node.arg._replace(transpose=not node.arg.transpose)
    return None, None, None, lu_solve_p.results(a, factors, order, ct, arg=turned)[0]


def _batch_solve(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> Batched:
    """One matrix for all lanes: their right sides become columns of one."""
    if any(batched[:3]):
        return library_op.batch_leading(node, src, batched, size)
    folded, unfold = fold_lanes(src[3], -1)
    (x,) = lu_solve_p.results(*src[:3], folded, arg=node.arg)
    return [unfold(x)], [True]


lu_solve_p = library_op.host(
    "lu_solve", _infer_solve, _solve, _solve_tangent,
    transpose=_solve_transpose, batch=_batch_solve,
    doc="X of op(a)·X = b, by the LU factors of a",
)  # fmt: skip


def solve(a: Node, b: Node, transpose: bool = False) -> Node:
    """X of a·X = b, or aᵀ·X = b. Derivatives solve with the same factors."""
    factors, _, order = lu_p.results(stop_gradient(a))
    return lu_solve_p.results(a, factors, order, b, arg=Op(transpose))[0]


# Determinants.


def _infer_slogdet(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_square("slogdet", a)
    shape = a.shape[:-2]
    return ShapedArray.of(shape, a.dtype), library_op.real_of(a, shape).strong()


def _slogdet(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    return lapack_gufuncs.slogdet(a)


def _slogdet_tangent(node: Node, tangents: Results) -> Results:
    """tr(a⁻¹a') is log|det|' in its real part, and turns the sign by its imaginary."""
    (a,), (t,) = node.src, tangents
    assert t is not None
    change = trace(solve(a, t))
    if not dtypes.is_complex(a.dtype):
        return None, change
    sign = slogdet_p.results(a)[0]
    return mul(sign, imaginary_part(change)), real(change)


slogdet_p = library_op.host(
    "slogdet", _infer_slogdet, _slogdet, _slogdet_tangent,
    doc="the sign of the determinant, and the logarithm of its size",
)  # fmt: skip


def _infer_det(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_square("det", a)
    return (ShapedArray.of(a.shape[:-2], a.dtype),)


def _det(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    return lapack_gufuncs.det(a)


def _det_tangent(node: Node, tangents: Results) -> Results:
    """The sum of a' over the cofactors: also where a has no inverse (Jacobi)."""
    (a,), (t,) = node.src, tangents
    assert t is not None
    (cofactors,) = cofactors_p.results(a)
    return (sum_axis(sum_axis(mul(cofactors, t), -1), -1),)


det_p = library_op.host("det", _infer_det, _det, _det_tangent, doc="the determinant")


def _infer_cofactors(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_square("det", a)
    return (ShapedArray.of(a.shape, a.dtype),)


def _cofactors(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    """det(a)·a⁻ᵀ, both by the same factors, so that their errors cancel.

    Where a matrix of the batch has no inverse: by singular values.
    """
    (size,) = lapack_gufuncs.det(a)
    if np.all(np.isfinite(size) & (size != 0)):
        (inverse,) = lapack_gufuncs.inv(a)
        if np.isfinite(inverse).all():
            return (size[..., None, None] * inverse.swapaxes(-1, -2),)
    return (_cofactors_of_any(a),)


def _cofactors_of_any(a: Array) -> Array:
    """From a = U·diag(s)·Vᴴ: conj(U)·diag(∏ of the other s)·Vᵀ, times two signs.

    Nothing is divided: singular matrices have cofactors, too.
    """
    u, s, vh = lapack_gufuncs.svd_full(a)
    others = np.ones_like(s)
    n = s.shape[-1]
    others[..., 1:] = np.cumprod(s[..., :-1], -1)
    after = np.cumprod(s[..., ::-1], -1)[..., ::-1]
    others[..., : n - 1] *= after[..., 1:]
    sign = lapack_gufuncs.det(u)[0] * lapack_gufuncs.det(vh)[0]
    return sign[..., None, None] * ((u.conj() * others[..., None, :]) @ vh.conj())


def _cofactors_tangent(node: Node, tangents: Results) -> Results:
    """C = det(a)·a⁻ᵀ gives C' = tr(a⁻¹a')·C - a⁻ᵀ a'ᵀ C."""
    (a,), (t,) = node.src, tangents
    assert t is not None
    (cofactors,) = cofactors_p.results(a)
    change = mul(everywhere(trace(solve(a, t)), cofactors), cofactors)
    turned = solve(a, product(transposed(t), cofactors), transpose=True)
    return (sub(change, turned),)


cofactors_p = library_op.host(
    "cofactors", _infer_cofactors, _cofactors, _cofactors_tangent,
    doc="the cofactors of a square matrix: the derivative of its determinant",
)  # fmt: skip
