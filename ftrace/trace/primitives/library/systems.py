"""Systems of linear equations: triangular ones, by LU, tridiagonal.

cholesky_p(a) -> L                 a = L Lᴴ; the lower triangle of a is read
triangular_solve_p(a, b, arg=Triangular(…)) -> X     op(a) X = b or X op(a) = b
lu_p(a) -> (L and U in one matrix, pivots, permutation)      a[permutation] = L·U
lu_solve_p(a, factors, permutation, b, arg=Op(…)) -> X       op(a)·X = b
slogdet_p(a) -> (sign, log |det a|)
permutation_p(pivots, arg=size) -> permutation
tridiagonal_solve_p(dl, d, du, b) -> X
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
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.library import (
    lapack_numpy,
    library_op,
    matrix_nodes as mat,
)
from ftrace.trace.primitives.movement import shift_axis
from ftrace.trace.primitives.primitive import Array, CompiledFrom, Results, items
from ftrace.trace.primitives.sources import const_like
from ftrace.trace.symbolic import same_size

np: Any = numpy  # whose stubs leave too much unknown

#: NumPy needs a pass over all matrices for each of their rows: of 2,000 of 4 rows
#: 0.8 ms, and a program 0.1.
_MANY_MATRICES = CompiledFrom(1 << 9)


# Cholesky.


def _cholesky(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    return (lapack_numpy.cholesky(a),)


def _cholesky_tangent(node: Node, a: Node, t: Node) -> Results:
    """L' = L·Φ(L⁻¹ A' L⁻ᴴ), where Φ is the lower triangle with half the diagonal.

    Source: I. Murray, "Differentiation of the Cholesky decomposition" (2016), eq. 8.
    """
    (factor,) = items(node)
    half = triangular_solve(factor, t, lower=True)
    inner = triangular_solve(
        factor, half, left_side=False, lower=True, transpose_a=True, conjugate_a=True
    )
    phi = mat.keep(mat.below(inner.shape, strict=True), inner)
    diagonal = p.mul(mat.diagonal_only(inner), const_like(inner, 0.5))
    return (mat.product(factor, p.add(phi, diagonal)),)


cholesky_p = library_op.host(
    "cholesky", library_op.of_square("cholesky", library_op.keep),
    _cholesky, _cholesky_tangent,
    doc="the lower triangular L of a = L·Lᴴ; NaN where there is none",
)  # fmt: skip


# Triangular systems.


class Triangular(NamedTuple):
    """The argument of triangular_solve.

    Attributes:
      left_side: op(a) X = b; else X op(a) = b.
      lower: which triangle of `a` is read.
      transpose_a, conjugate_a: what op is.
      unit_diagonal: the diagonal is 1, whatever it holds.
    """

    left_side: bool = True
    lower: bool = False
    transpose_a: bool = False
    conjugate_a: bool = False
    unit_diagonal: bool = False


def triangular_solve(a: Node, b: Node, **how: bool) -> Node:
    """`triangular_solve_p` of nodes; `how` has the attributes of `Triangular`."""
    return triangular_solve_p.results(a, b, arg=Triangular(**how))[0]


def _infer_triangular(
    arg: Triangular, a: ShapedArray, b: ShapedArray
) -> tuple[ShapedArray, ...]:
    library_op.need_square("triangular_solve", a)
    library_op.need_matrices("triangular_solve", a, b)
    shared = b.shape[-2] if arg.left_side else b.shape[-1]
    if not same_size(a.shape[-1], shared):
        side = "(…, n, k)" if arg.left_side else "(…, k, n)"
        raise ShapeError(
            f"triangular_solve: a must be (…, n, n) and b {side}, got {a!r} and {b!r}"
        )
    return (ShapedArray.of(b.shape, b.dtype, a.weak_type and b.weak_type),)


def _triangular(avals: Any, arg: Triangular, a: Array, b: Array) -> Sequence[Array]:
    left, lower, transpose, conjugate, ones = arg
    b = b if left else b.swapaxes(-1, -2)
    transpose = transpose if left else not transpose
    x = lapack_numpy.solve_triangular(a, b, lower, transpose, conjugate, ones)
    return (x if left else x.swapaxes(-1, -2),)


def _triangular_change(node: Node, turns: Results, x: Node) -> Node | None:
    arg: Triangular = node.arg
    (t,) = turns
    assert t is not None
    mask = (mat.below if arg.lower else mat.above)(t.shape, strict=arg.unit_diagonal)
    t = mat.keep(mask, t)
    t = mat.conj(t) if arg.conjugate_a else t
    t = mat.transpose(t) if arg.transpose_a else t
    return mat.product(t, x) if arg.left_side else mat.product(x, t)


def _transpose_triangular(node: Node) -> tuple[Sequence[Node], Triangular]:
    arg: Triangular = node.arg
    return node.src[:1], arg._replace(transpose_a=not arg.transpose_a)


triangular_solve_p = library_op.solver(
    "triangular_solve", _infer_triangular, _triangular, _triangular_change,
    _transpose_triangular, called="triangular_solve",
    compiled_from=_MANY_MATRICES,
    batch=library_op.batch_right_side(lambda arg: -1 if arg.left_side else -2),
    doc="X of op(a)·X = b or X·op(a) = b, for triangular a",
)  # fmt: skip


# LU: the factorisation.


def _infer_lu(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_matrices("lu", a)
    *lead, m, n = a.shape
    return a, library_op.integers((*lead, min(m, n))), library_op.integers((*lead, m))


def _lu(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    factors, pivots = lapack_numpy.lu(a)
    return factors, pivots, lapack_numpy.permutation(pivots, a.shape[-2])


def _lu_tangent(node: Node, a: Node, t: Node) -> Results:
    """P A' = L'U + L U', where L' is strictly lower and U' upper triangular.

    In the square part G = L⁻¹ P A' U⁻¹ = L⁻¹L' + U'U⁻¹ has one term on either side of
    the diagonal. The rows below it, or the columns beside it, are what is left over.
    """
    factors, _, order = items(node)
    *_, m, n = a.shape
    k = min(m, n)
    square = mat.block(factors, (0, k), (0, k))
    moved = mat.take_rows(t, order)
    right = triangular_solve(square, mat.block(moved, (0, m), (0, k)), left_side=False)
    inner = triangular_solve(
        square, mat.block(right, (0, k), (0, k)), lower=True, unit_diagonal=True
    )
    if m >= n:
        high = mat.upper(inner)
        change = p.sub(right, mat.product(unit_lower(factors), high))
        top = mat.extend(mat.product(high, mat.upper(square)), m - n, 0)
        return p.add(mat.lower(change, strict=True), top), None, None
    low = mat.lower(inner, strict=True)
    rows = triangular_solve(square, moved, lower=True, unit_diagonal=True)
    change = mat.upper(p.sub(rows, mat.product(low, mat.upper(factors))))
    left = mat.extend(mat.product(unit_lower(square), low), 0, n - m)
    return p.add(change, left), None, None


def unit_lower(factors: Node) -> Node:
    """L of L and U in one matrix, which has no more columns than rows."""
    one = const_like(factors, 1)
    return p.select(
        mat.diagonal_mask(factors.shape), one, mat.lower(factors, strict=True)
    )


lu_p = library_op.host(
    "lu", _infer_lu, _lu, _lu_tangent, compiled_from=_MANY_MATRICES,
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
    no_derivative="it is a function of integers", dtypes="i", core=1,
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


def _solve_change(node: Node, turns: Results, x: Node) -> Node | None:
    """That of a; the factors follow from it."""
    t = turns[0]
    if t is None:
        return None
    arg: Op = node.arg
    t = mat.conj(t) if arg.conjugate else t
    return mat.product(mat.transpose(t) if arg.transpose else t, x)


def _transpose_solve(node: Node) -> tuple[Sequence[Node], Op]:
    return node.src[:3], node.arg._replace(transpose=not node.arg.transpose)


lu_solve_p = library_op.solver(
    "lu_solve", _infer_solve, _solve, _solve_change, _transpose_solve,
    called="solve", batch=library_op.batch_right_side(lambda arg: -1),
    compiled_from=_MANY_MATRICES,
    doc="X of op(a)·X = b, by the LU factors of a",
)  # fmt: skip


def solve(a: Node, b: Node, transpose: bool = False) -> Node:
    """X of a·X = b, or aᵀ·X = b. Derivatives solve with the same factors."""
    factors, _, order = lu_p.results(p.stop_gradient(a))
    return lu_solve_p.results(a, factors, order, b, arg=Op(transpose))[0]


# Determinants.


def determinant_type(a: ShapedArray) -> ShapedArray:
    return ShapedArray.of(a.shape[:-2], a.dtype)


def _size(a: ShapedArray) -> ShapedArray:
    return library_op.real_of(a, a.shape[:-2]).strong()


def _slogdet(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    return lapack_numpy.or_nan(np.linalg.slogdet, avals, a)


def _slogdet_tangent(node: Node, a: Node, t: Node) -> Results:
    """tr(a⁻¹a') is log|det|' in its real part, and turns the sign by its imaginary."""
    change = mat.trace(solve(a, t))
    if not dtypes.is_complex(a.dtype):
        return None, change
    return p.mul(items(node)[0], mat.imaginary_part(change)), mat.real(change)


slogdet_p = library_op.host(
    "slogdet", library_op.of_square("slogdet", determinant_type, _size),
    _slogdet, _slogdet_tangent,
    doc="the sign of the determinant, and the logarithm of its size",
)  # fmt: skip


# Tridiagonal systems.


def _infer_tridiagonal(
    arg: None, dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray
) -> tuple[ShapedArray, ...]:
    library_op.need_lapack("tridiagonal_solve", dl, d, du, b)
    if (
        not same_size(dl.shape, d.shape)
        or not same_size(du.shape, d.shape)
        or not same_size(b.shape[:-1], d.shape)
    ):
        raise ShapeError(
            "tridiagonal_solve: three diagonals (…, n) and b (…, n, k) are required, "
            f"got {dl!r}, {d!r}, {du!r} and {b!r}"
        )
    return (ShapedArray.of(b.shape, b.dtype),)


def _tridiagonal(
    avals: Any, arg: None, dl: Array, d: Array, du: Array, b: Array
) -> Sequence[Array]:
    n = d.shape[-1]
    if not b.size:
        return (np.zeros(b.shape, b.dtype),)
    linalg = lapack_numpy.scipy_linalg()
    if linalg is None or n < 2:
        factors, pivots = lapack_numpy.lu(_densify(dl, d, du))
        order = lapack_numpy.permutation(pivots, n)
        return (lapack_numpy.solve_lu(factors, order, b, False, False),)
    (gtsv,) = linalg.get_lapack_funcs(("gtsv",), (d, b))
    result = np.empty(b.shape, b.dtype)
    for i in np.ndindex(*d.shape[:-1]):
        *_, x, info = gtsv(dl[i][1:], d[i], du[i][:-1], b[i])
        result[i] = x if info == 0 else np.nan
    return (result,)


def _densify(dl: Array, d: Array, du: Array) -> Array:
    rows = np.arange(d.shape[-1])
    matrix = np.zeros((*d.shape, len(rows)), d.dtype)
    matrix[..., rows, rows] = d
    matrix[..., rows[1:], rows[:-1]] = dl[..., 1:]
    matrix[..., rows[:-1], rows[1:]] = du[..., :-1]
    return matrix


def _times(node: Node, diagonals: Results, x: Node) -> Node | None:
    """The tridiagonal matrix times x; None is zero."""
    rows = x.ndim - 2
    shifted = shift_axis(x, rows, 1), x, shift_axis(x, rows, -1)
    pairs = zip(diagonals, shifted, strict=True)
    terms = [d and p.mul(mat.along_rows(d, x), part) for d, part in pairs]
    return p.total(terms)


def _transpose_tridiagonal(node: Node) -> tuple[Sequence[Node], None]:
    dl, d, du, _ = node.src
    last = d.ndim - 1
    return (shift_axis(du, last, 1), d, shift_axis(dl, last, -1)), None


tridiagonal_solve_p = library_op.solver(
    "tridiagonal_solve", _infer_tridiagonal, _tridiagonal, _times,
    _transpose_tridiagonal, called="tridiagonal_solve", core=1,
    doc="X of T·X = b, for T of three diagonals",
)  # fmt: skip
